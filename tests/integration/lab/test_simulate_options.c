/* Options of baton simulate, each with and without: the difference that it must make, counted. The command
 * itself runs, so that an option that nobody reads shows. */
#include "tests/helpers/cluster/spawn.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RUN_MS = 60000, ROWS = 1024 };

/* Without the gateway's own time, whose options have a test of their own. */
#define RUN(...) \
    run_of(SPAWN("baton", "simulate", "--json", "-q", "-m", "llama-3.2-1b", "-c", "8192", "--request-cpu", \
                 "0", "--token-cpu", "0", "--csv", spawn_path("rows.csv"), __VA_ARGS__))
typedef struct row {
    char result[32], node[32];
    double prompt, cached, output, due, ttft, tpot, e2e, gap, exposed;
} row;
typedef struct run {
    json_t *all;
    row row[ROWS];
    size_t rows;
} run;

static void read_row(row *r, char *line)
{
    enum {
        RESULT = 1,
        PROMPT = 3,
        CACHED = 4,
        OUTPUT = 6,
        DUE = 7,
        TTFT = 9,
        TPOT,
        E2E,
        GAP,
        EXPOSED = 17,
        NODE = 20
    };
    int column = 0;
    for (char *at = line, *end; at; at = end, column++) {
        end = strchr(at, ',');
        if (end) *end++ = 0;
        const double v = *at ? strtod(at, NULL) : -1;
        double *const to[NODE + 1] = {[PROMPT] = &r->prompt, [CACHED] = &r->cached, [OUTPUT] = &r->output,
                                      [DUE] = &r->due,       [TTFT] = &r->ttft,     [TPOT] = &r->tpot,
                                      [E2E] = &r->e2e,       [GAP] = &r->gap,       [EXPOSED] = &r->exposed};
        if (column == RESULT) (void)snprintf(r->result, sizeof r->result, "%.31s", at);
        if (column == NODE) (void)snprintf(r->node, sizeof r->node, "%.31s", at);
        if (column <= NODE && to[column]) *to[column] = v;
    }
    assert_int_equal(column, NODE + 1);
}

static run run_of(spawn *s)
{
    static char line[4096];
    run r = {.rows = 0};
    const int rc = spawn_wait(s, spawn_patience(RUN_MS));
    if (rc != 0) fail_msg("exit %d: %s", rc, spawn_err(s));
    assert_non_null(r.all = json_loads(spawn_out(s), 0, NULL));
    FILE *f = fopen(spawn_path("rows.csv"), "re");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    while (r.rows < ROWS && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        read_row(&r.row[r.rows++], line);
    }
    (void)fclose(f);
    return r;
}

static json_int_t count(const run *r, const char *key)
{
    const json_t *v = json_object_get(r->all, key);
    if (!json_is_integer(v)) fail_msg("no count '%s'", key);
    return json_integer_value(v);
}

static double number(const run *r, const char *key)
{
    const json_t *v = json_object_get(r->all, key);
    if (!json_is_number(v)) fail_msg("no number '%s'", key);
    return json_number_value(v);
}

static double p50(const run *r, const char *key)
{
    return json_number_value(json_object_get(json_object_get(r->all, key), "p50"));
}

static void done(run *r) { json_decref(r->all); }

static size_t rows_at(const run *r, const char *node)
{
    size_t n = 0;
    for (size_t i = 0; i < r->rows; i++) n += strcmp(r->row[i].node, node) == 0;
    return n;
}

static size_t ended_as(const run *r, const char *result)
{
    size_t n = 0;
    for (size_t i = 0; i < r->rows; i++) n += strcmp(r->row[i].result, result) == 0;
    return n;
}

/* How many answers were being written at the same time, at most. */
static size_t most_at_once(const run *r)
{
    size_t most = 0;
    for (size_t i = 0; i < r->rows; i++) {
        size_t n = 0;
        const double t = r->row[i].due + r->row[i].ttft + 1e-3; /* rounded to a microsecond */
        for (size_t k = 0; k < r->rows; k++)
            n += r->row[k].due + r->row[k].ttft <= t && t < r->row[k].due + r->row[k].e2e;
        if (n > most) most = n;
    }
    return most;
}

/* A trace with a request of these lengths at each of these times, in milliseconds. */
static const char *trace_of(const char *name, const int (*request)[3], size_t n)
{
    static char kept[8][512];
    static unsigned next;
    char *path = kept[next++ % 8];
    (void)snprintf(path, sizeof kept[0], "%s", spawn_path(name));
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    for (size_t i = 0; i < n; i++)
        (void)fprintf(f, "{\"timestamp\":%d,\"input_length\":%d,\"output_length\":%d}\n", request[i][0],
                      request[i][1], request[i][2]);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* ---- the gateway --------------------------------------------------------------------------------- */

/* One after the other, so that no node is loaded: in turns each prefill node has as many; by prefixes each
 * has its share, and finds 960 of the 1,000 tokens that all begin with from its second prompt on; by load
 * nobody is asked what it has. */
static void a_policy_decides_which_nodes_have_the_requests(void **state)
{
    (void)state;
    static const char *const nodes[] = {"prefill-0", "prefill-1", "prefill-2", "prefill-3"};
#define ONE_BY_ONE \
    "--prefill", "4", "--decode", "1", "--synthetic", "in:1500,out:4,rate:0.5,shared:1000", "--limit", "40", \
        "--policy"
    run turns = RUN(ONE_BY_ONE, "round-robin"), alike = RUN(ONE_BY_ONE, "prefix"),
        load = RUN(ONE_BY_ONE, "least-load");
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(rows_at(&turns, nodes[i]), 10);
        assert_true(rows_at(&alike, nodes[i]) > 0 && rows_at(&alike, nodes[i]) <= 2 * 10);
        assert_true(rows_at(&load, nodes[i]) > 0);
    }
    assert_int_equal(count(&alike, "cached_tokens"), 36 * 960); /* each of four computes it once */
    assert_int_equal(count(&turns, "cached_tokens"), 36 * 960);
    assert_int_equal(count(&alike, "prompt_rows"), 40 * 1500 - 36 * 960);
    assert_int_equal(count(&turns, "prompt_rows"), 40 * 1500 - 36 * 960);
    done(&turns);
    done(&alike);
    done(&load);
}

/* 40 prompts that begin alike: each key's first one computes it, or with --share-prefixes the first of all.
 */
static void keys_share_prefixes_only_where_that_is_asked_for(void **state)
{
    (void)state;
#define TWO_KEYS \
    "--prefill", "1", "--decode", "1", "--synthetic", "in:1500,out:4,rate:0.5,shared:1000", "--limit", "40", \
        "--key-shares", "a:1,b:1"
    run apart = RUN(TWO_KEYS), together = RUN(TWO_KEYS, "--share-prefixes");
    assert_int_equal(count(&apart, "cached_tokens"), 38 * 960);
    assert_int_equal(count(&together, "cached_tokens"), 39 * 960);
    done(&apart);
    done(&together);
}

/* Long prompts at one node hold up the next; by load, a prompt goes where nobody waits. */
static void by_load_nobody_waits_behind_a_long_prompt(void **state)
{
    (void)state;
    /* two of 8,000 tokens at once, then short ones while they are computed */
    static const int requests[][3] = {{0, 8000, 4}, {1, 100, 4},  {2, 8000, 4},
                                      {6, 100, 4},  {10, 100, 4}, {14, 100, 4}};
    const char *trace = trace_of("long.jsonl", requests, 6);
    run load = RUN(trace, "--prefill", "3", "--decode", "1", "--jitter", "0", "--policy", "least-load");
    double worst = 0, alone = load.row[load.rows - 1].ttft; /* rows are in the order of their ends */
    assert_true(load.row[load.rows - 1].prompt >= 8000);
    for (size_t i = 0; i < load.rows; i++)
        if (load.row[i].prompt < 1000 && load.row[i].ttft > worst) worst = load.row[i].ttft;
    assert_true(worst < alone / 4);
    run turns = RUN(trace, "--prefill", "3", "--decode", "1", "--jitter", "0", "--policy", "round-robin");
    worst = 0;
    for (size_t i = 0; i < turns.rows; i++)
        if (turns.row[i].prompt < 1000 && turns.row[i].ttft > worst) worst = turns.row[i].ttft;
    assert_true(worst > alone / 2);
    done(&load);
    done(&turns);
}

/* The mean TTFT of prompts with at least so many tokens. */
static double mean_from(const run *r, double tokens)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < r->rows; i++)
        if (r->row[i].prompt >= tokens) sum += r->row[i].ttft, n++;
    return sum / n;
}

static void short_prompts_wait_for_a_chunk_and_not_for_all_long_ones(void **state)
{
    (void)state;
    int requests[42][3];
    for (int i = 0; i < 42; i++) {
        const bool is_long = i < 6;
        memcpy(requests[i], (const int[]){is_long ? 0 : 20 * i, is_long ? 8000 : 30, 4}, sizeof requests[i]);
    }
#define BEHIND(n, device, how, value) \
    trace_of("behind.jsonl", requests, n), "--prefill", device, "--decode", "1:a100", "--jitter", "0", \
        "--shape-policy", "chunk:1024+tail", how, value
    run before = RUN(BEHIND(42, "1:rtx-4090", "--short-tokens", "0")),
        now = RUN(BEHIND(42, "1:rtx-4090", "--short-tokens", "2048"));
    assert_int_equal(count(&now, "completed"), 42);
    assert_true(p50(&now, "ttft_ms") < p50(&before, "ttft_ms") / 10);
    assert_true(mean_from(&now, 8000) < 1.3 * mean_from(&before, 8000));
    run equal = RUN(BEHIND(6, "1:rtx-4090", "--short-tokens", "0")),
        equal_now = RUN(BEHIND(6, "1:rtx-4090", "--short-tokens", "2048"));
    assert_true(fabs(mean_from(&equal_now, 8000) / mean_from(&equal, 8000) - 1) < 0.02);
    /* chunks of the long ones that are under way end first */
    run ooo = RUN(BEHIND(9, "1:hexagon-v75", "--schedule", "ooo")),
        ooo_before = RUN(BEHIND(9, "1:hexagon-v75", "--schedule", "ooo"), "--short-tokens", "0");
    assert_int_equal(count(&ooo, "completed"), 9);
    double first = 0, first_before = 0; /* of a short one, in order of ends */
    for (size_t i = 9; i-- > 0;) {
        if (ooo.row[i].prompt < 1000) first = ooo.row[i].ttft;
        if (ooo_before.row[i].prompt < 1000) first_before = ooo_before.row[i].ttft;
    }
    assert_true(first < first_before / 4);
    done(&ooo_before);
    done(&before);
    done(&now);
    done(&equal);
    done(&equal_now);
    done(&ooo);
}

/* A request alone passes the gateway once to get in, and each message of a node costs a token's time. */
static void the_gateway_s_time_for_a_request_is_that_of_its_option(void **state)
{
    (void)state;
    static const int apart[][3] = {{0, 500, 20}, {10000, 500, 20}, {20000, 500, 20}, {30000, 500, 20}};
    const char *trace = trace_of("apart.jsonl", apart, 4);
    run free = RUN(trace, "--jitter", "0"), busy = RUN(trace, "--jitter", "0", "--request-cpu", "20000"),
        slow = RUN(trace, "--jitter", "0", "--token-cpu", "30000"),
        some = RUN(trace, "--jitter", "0", "--token-cpu", "5000");
    for (size_t i = 0; i < 4; i++) {
        assert_true(fabs(busy.row[i].ttft - free.row[i].ttft - 20) < 0.002);
        assert_true(fabs(busy.row[i].tpot - free.row[i].tpot) < 0.001);
        assert_true(free.row[i].tpot < 3);
        /* one thread passes no more than one token in 30 ms, and a few words of nodes between them */
        assert_true(slow.row[i].tpot >= 30 && slow.row[i].tpot < 36);
        assert_true(fabs(slow.row[i].tpot / some.row[i].tpot - 6) < 0.001);
        assert_true(fabs(slow.row[i].ttft / some.row[i].ttft - 6) < 0.001);
        assert_true(slow.row[i].ttft > 59 && slow.row[i].ttft < 241); /* taken, accepted, the first token, ...
                                                                       */
    }
    done(&free);
    done(&busy);
    done(&slow);
    done(&some);
}

/* All at once: the last waits for the time of all. */
static void a_thread_takes_requests_one_after_the_other(void **state)
{
    (void)state;
    static const int at_once[][3] = {{0, 64, 2}, {0, 64, 2}, {0, 64, 2}, {0, 64, 2}, {0, 64, 2},
                                     {0, 64, 2}, {0, 64, 2}, {0, 64, 2}, {0, 64, 2}, {0, 64, 2}};
    const char *trace = trace_of("burst.jsonl", at_once, 10);
    run r = RUN(trace, "--jitter", "0", "--prefill", "10", "--decode", "1", "--request-cpu", "50000");
    double last = 0, first = 1e9;
    for (size_t i = 0; i < r.rows; i++) {
        if (r.row[i].ttft > last) last = r.row[i].ttft;
        if (r.row[i].ttft < first) first = r.row[i].ttft;
    }
    assert_true(last > 500 && last < 600);
    assert_true(first > 50 && first < 600);
    done(&r);
}

static void a_full_queue_refuses_the_rest(void **state)
{
    (void)state;
    int at_once[20][3];
    for (size_t i = 0; i < 20; i++) memcpy(at_once[i], (const int[]){0, 4000, 50}, sizeof at_once[i]);
    const char *trace = trace_of("queue.jsonl", at_once, 20);
#define BURST trace, "--jitter", "0", "--slots", "4", "--max-queue"
    run all = RUN(BURST, "100", "--prefill-slots", "1"), few = RUN(BURST, "5", "--prefill-slots", "1"),
        more = RUN(BURST, "5", "--prefill-slots", "3"), two = RUN(BURST, "100", "--max-active", "2");
    assert_int_equal(count(&all, "completed"), 20);
    assert_int_equal(ended_as(&few, "ok"), 5 + 1); /* those that wait, and those that a prefill node takes */
    assert_int_equal(ended_as(&few, "overloaded"), 20 - 5 - 1);
    assert_int_equal(ended_as(&more, "ok"), 5 + 2); /* the third is kept for short ones */
    assert_int_equal(count(&two, "completed"), 20);
    assert_int_equal(most_at_once(&two), 2);
    done(&all);
    done(&few);
    done(&more);
    done(&two);
}

/* Short prompts of the three lengths are computed by decode nodes. */
static void prompts_below_a_length_are_computed_where_they_are_decoded(void **state)
{
    (void)state;
    static const int requests[][3] = {{0, 100, 4}, {2000, 300, 4}, {4000, 1000, 4}, {6000, 3000, 4}};
    const char *trace = trace_of("short.jsonl", requests, 4);
    run remote = RUN(trace, "--jitter", "0"),
        local = RUN(trace, "--jitter", "0", "--local-prefill-below", "500");
    assert_int_equal(count(&remote, "prompt_rows"), 4400);
    assert_int_equal(count(&local, "prompt_rows"), 4000);
    assert_int_equal(rows_at(&remote, "prefill-0"), 4);
    assert_int_equal(rows_at(&local, "prefill-0"), 2);
    assert_int_equal(rows_at(&local, "decode-0"), 2);
    done(&remote);
    done(&local);
}

/* ---- memory -------------------------------------------------------------------------------------- */

/* 16 answers of 1,500 tokens that begin at 500 need 32,000 positions at their end. A position of llama-3.2-1b
 * is 32 KiB: 1 GiB has 32,768, 512 MiB half as many. */
#define GROWING \
    "-c", "4096", "--synthetic", "in:500,out:1500", "--concurrency", "16", "--limit", "32", \
        "--growth-tokens", "0"

static void little_kv_memory_preempts_and_much_does_not(void **state)
{
    (void)state;
    run much = RUN(GROWING, "--kv-memory", "2G"), little = RUN(GROWING, "--kv-memory", "512M"),
        less = RUN(GROWING, "--kv-memory", "256M");
    assert_int_equal(count(&much, "completed"), 32);
    assert_int_equal(count(&much, "preempted"), 0);
    assert_int_equal(count(&little, "completed"), 32);
    assert_true(count(&little, "preempted") > 0);
    assert_true(count(&less, "preempted") > 0);
    assert_true(number(&little, "virtual_seconds") > number(&much, "virtual_seconds"));
    assert_true(number(&less, "virtual_seconds") > number(&little, "virtual_seconds"));
    done(&much);
    done(&little);
    done(&less);
}

/* With room in the swap store rows go there; without, a node that computes prompts drops them and computes
 * the prompt again; one that does not gives the attempt up, and the gateway begins another. */
static void what_is_preempted_is_swapped_computed_again_or_given_up(void **state)
{
    (void)state;
#define TIGHT GROWING, "--kv-memory", "512M"
    run swaps = RUN(TIGHT, "--swap-memory", "4G"), drops = RUN(TIGHT, "--swap-memory", "0", "--prefill", "0"),
        gives = RUN(TIGHT, "--swap-memory", "0");
    assert_true(count(&swaps, "preempted") > 0);
    assert_int_equal(count(&swaps, "swapped_out"), count(&swaps, "preempted"));
    assert_int_equal(count(&swaps, "recomputed") + count(&swaps, "given_up"), 0);
    assert_int_equal(count(&swaps, "prompt_rows"), 32 * 500);
    assert_true(count(&drops, "preempted") > 0);
    assert_int_equal(count(&drops, "recomputed"), count(&drops, "preempted"));
    assert_int_equal(count(&drops, "swapped_out") + count(&drops, "given_up"), 0);
    assert_true(count(&gives, "preempted") > 0);
    assert_int_equal(count(&gives, "given_up"), count(&gives, "preempted"));
    assert_int_equal(count(&gives, "swapped_out") + count(&gives, "recomputed"), 0);
    assert_true(count(&gives, "prompt_rows") >= 32 * 500);
    assert_int_equal(count(&swaps, "completed") + count(&drops, "completed") + count(&gives, "completed"),
                     96);
    done(&swaps);
    done(&drops);
    done(&gives);
}

/* A store for one sequence of 2,000 tokens, 64 MiB: some are swapped, the others are not. */
static void a_small_swap_store_takes_some(void **state)
{
    (void)state;
    run r = RUN(TIGHT, "--swap-memory", "64M", "--prefill", "0", "--slots", "16", "--kv-memory", "256M");
    assert_true(count(&r, "swapped_out") > 0);
    assert_true(count(&r, "recomputed") > 0);
    assert_int_equal(count(&r, "swapped_out") + count(&r, "recomputed"), count(&r, "preempted"));
    done(&r);
}

/* Counted when a request is taken, an answer's tokens are there when it wants them. */
static void growth_that_is_counted_is_not_preempted(void **state)
{
    (void)state;
    run none = RUN(GROWING, "--kv-memory", "512M"),
        all = RUN("-c", "4096", "--synthetic", "in:500,out:1500", "--concurrency", "16", "--limit", "32",
                  "--growth-tokens", "1500", "--kv-memory", "512M");
    assert_true(count(&none, "preempted") > 0);
    assert_int_equal(count(&all, "preempted"), 0);
    assert_int_equal(most_at_once(&all), 8); /* 2,000 tokens in 32 pages of 64 each: 16,384 positions hold 8
                                              */
    done(&none);
    done(&all);
}

static void a_context_refuses_scales_or_cuts_what_is_longer(void **state)
{
    (void)state;
    static const int requests[][3] = {{0, 100, 10}, {500, 1500, 10}, {1000, 100, 1500}, {1500, 1000, 24}};
    char trace[512];
    (void)snprintf(trace, sizeof trace, "%s", trace_of("ctx.jsonl", requests, 4));
    run fits = RUN(trace, "-c", "2048");
    assert_int_equal(count(&fits, "input_tokens"), 2700);
    assert_int_equal(count(&fits, "output_tokens"), 1544);
    done(&fits);
    spawn *s = SPAWN("baton", "simulate", trace, "-m", "llama-3.2-1b", "-c", "1024");
    assert_int_equal(spawn_wait(s, spawn_patience(RUN_MS)), 1);
    assert_non_null(strstr(spawn_err(s), "2 of 4 requests are longer than the context of 1024"));
    run cut = RUN(trace, "-c", "1024", "--fit");
    assert_int_equal(count(&cut, "cut_requests"), 2);
    for (size_t i = 0; i < cut.rows; i++) assert_true(cut.row[i].prompt + cut.row[i].output <= 1024);
    done(&cut);
    run scaled = RUN(trace, "-c", "1024", "--scale-lengths");
    assert_int_equal(count(&scaled, "completed"), 4);
    assert_true(count(&scaled, "input_tokens") < 2700);
    for (size_t i = 0; i < scaled.rows; i++) assert_true(scaled.row[i].prompt + scaled.row[i].output <= 1024);
    done(&scaled);
}

static void so_many_slots_are_never_more_sequences(void **state)
{
    (void)state;
#define CROWD "--synthetic", "in:100,out:200", "--concurrency", "24", "--limit", "48"
    run three = RUN(CROWD, "--slots", "3"), many = RUN(CROWD, "--slots", "64"),
        rows = RUN(CROWD, "--slots", "64", "--batch-rows", "4");
    assert_int_equal(most_at_once(&three), 3);
    assert_int_equal(most_at_once(&many), 24);
    assert_int_equal(most_at_once(&rows), 24); /* all are there, and four have a row of a step */
    assert_true(p50(&rows, "tpot_ms") > 3 * p50(&many, "tpot_ms"));
    done(&three);
    done(&many);
    done(&rows);
}

/* ---- who computes prompts ------------------------------------------------------------------------ */

static void colocated_nodes_send_nothing_and_prompts_hold_up_answers(void **state)
{
    (void)state;
#define MIXED "--prefill", "2", "--decode", "2", "--synthetic", "in:6000,out:300,rate:30", "--limit", "300"
    run apart = RUN(MIXED), alike = RUN(MIXED, "--colocated", "--chunk-tokens", "4096"),
        pieces = RUN(MIXED, "--colocated", "--chunk-tokens", "256");
    double gap[3] = {0};
    const run *const all[] = {&apart, &alike, &pieces};
    for (size_t k = 0; k < 3; k++) {
        assert_int_equal(count(all[k], "completed"), 300);
        for (size_t i = 0; i < 300; i++) {
            gap[k] = fmax(gap[k], all[k]->row[i].gap);
            assert_int_equal(strncmp(all[k]->row[i].node, k ? "decode-" : "prefill-", k ? 7 : 8), 0);
            assert_true(k ? all[k]->row[i].exposed == 0 : all[k]->row[i].exposed > 0);
        }
    }
    assert_true(rows_at(&alike, "decode-0") > 0 && rows_at(&alike, "decode-3") > 0); /* nodes of both sides */
    assert_true(gap[1] > 2 * gap[2]); /* a step has 4,096 tokens of a prompt in it, or 256 */
    assert_true(p50(&pieces, "ttft_ms") > 1.5 * p50(&alike, "ttft_ms"));
    for (size_t k = 0; k < 3; k++) json_decref(all[k]->all);
}

/* ---- faults -------------------------------------------------------------------------------------- */

#define STEADY "--prefill", "1", "--decode", "2", "--synthetic", "in:2000,out:1200,rate:4", "--limit", "80"

/* Whether its answer was being written then. */
static bool was_written_at(const row *r, double ms) { return r->due + r->ttft < ms && ms < r->due + r->e2e; }

/* Rows stand in the order in which they ended: another run's are found by when they were due. */
static const row *same(const run *r, const row *one)
{
    for (size_t i = 0; i < r->rows; i++)
        if (fabs(r->row[i].due - one->due) < 1e-9) return &r->row[i];
    fail_msg("no request at %.3f ms", one->due);
    return NULL;
}

/* How many answers had a gap of at least so long; all of them were being written at 5 s of the run without
 * faults. */
static size_t held_up(const run *r, const run *whole, double ms)
{
    size_t n = 0;
    for (size_t i = 0; i < r->rows; i++) {
        if (r->row[i].gap < ms) continue;
        assert_true(was_written_at(same(whole, &r->row[i]), 5000));
        n++;
    }
    return n;
}

static void a_killed_node_costs_those_it_was_serving_a_new_attempt(void **state)
{
    (void)state;
    run whole = RUN(STEADY), killed = RUN(STEADY, "--faults", "kill decode 0 at 5s"),
        back = RUN(STEADY, "--faults", "kill decode 0 at 5s for 1s; kill decode 1 at 5s for 1s"),
        gone =
            RUN(STEADY, "--faults", "kill decode 0 at 5s; kill decode 1 at 5s", "--recovery-timeout", "2s");
    size_t written = 0, lost = 0;
    for (size_t i = 0; i < 80; i++) written += was_written_at(&whole.row[i], 5000);
    assert_true(written >= 4);
    assert_int_equal(held_up(&whole, &whole, 500), 0);
    assert_int_equal(count(&killed, "completed") + count(&back, "completed"), 160);
    assert_in_range(held_up(&killed, &whole, 500), 1, written - 1); /* one node of two */
    assert_int_equal(held_up(&back, &whole, 1000), written);        /* both, for a second */
    for (size_t i = 0; i < 80; i++) {
        const row *was = same(&whole, &gone.row[i]);
        const bool ended = was->due + was->e2e < 5000;
        lost += !ended;
        assert_int_equal(strcmp(gone.row[i].result, "ok") == 0, ended);
    }
    assert_int_equal(count(&gone, "failed"), lost);
    for (size_t i = 0; i < 80; i++) { /* nobody waits on two seconds after the nodes are given up */
        const row *one = &gone.row[i];
        if (strcmp(one->result, "ok") != 0) assert_true(one->e2e < fmax(5000 - one->due, 0) + 3800);
    }
    done(&whole);
    done(&killed);
    done(&back);
    done(&gone);
}

/* A second is waited for. After nine, another node has taken over. */
static void a_stopped_decode_node_holds_up_its_answers_until_it_is_given_up(void **state)
{
    (void)state;
    run whole = RUN(STEADY), second = RUN(STEADY, "--faults", "stop decode 0 at 5s for 1s"),
        nine = RUN(STEADY, "--faults", "stop decode 0 at 5s for 9s");
    const size_t n = held_up(&second, &whole, 1000);
    assert_true(n > 0);
    assert_int_equal(held_up(&second, &whole, 1010), 0);
    assert_int_equal(held_up(&nine, &whole, 2000), n);
    assert_int_equal(held_up(&nine, &whole, 8000), 0);
    assert_int_equal(count(&second, "completed") + count(&nine, "completed"), 160);
    done(&whole);
    done(&second);
    done(&nine);
}

/* The one prefill node does nothing from 4 s on for a second: nobody has a first token then. */
static void a_stopped_node_does_nothing_until_it_goes_on(void **state)
{
    (void)state;
    run stopped = RUN(STEADY, "--faults", "stop prefill 0 at 4s for 1s"), whole = RUN(STEADY);
    size_t waited = 0;
    for (size_t i = 0; i < 80; i++) {
        const row *r = &stopped.row[i];
        const double first = r->due + r->ttft;
        assert_string_equal(r->result, "ok");
        assert_false(first > 4000 && first < 5000);
        waited += r->due >= 4000 && r->due < 5000;
        if (first < 4000) assert_true(fabs(r->ttft - same(&whole, r)->ttft) < 1e-9);
    }
    assert_true(waited > 1);
    done(&stopped);
    done(&whole);
}

/* Prompts of 600 tokens over a slow link: nearly all of the hand-off is the transfer. */
static void a_slow_link_makes_transfers_so_much_longer_while_it_lasts(void **state)
{
    (void)state;
    static const int apart[][3] = {
        {0, 600, 4}, {10000, 600, 4}, {20000, 600, 4}, {30000, 600, 4}, {40000, 600, 4}};
    const char *trace = trace_of("links.jsonl", apart, 5);
#define OVER_1G trace, "--jitter", "0", "--link", "1", "--prefill", "1", "--decode", "1"
    run fast = RUN(OVER_1G), slow = RUN(OVER_1G, "--faults", "slow link 0 10x"),
        other = RUN(OVER_1G, "--faults", "slow link 1 10x"),
        once = RUN(OVER_1G, "--faults", "slow link 0 10x at 5s for 20s");
    assert_true(fast.row[0].exposed > 100); /* 19.7 MB */
    for (size_t i = 0; i < 5; i++) {
        const double by = slow.row[i].exposed / fast.row[i].exposed;
        assert_true(by > 9.5 && by < 10.5);
        assert_true(fabs(slow.row[i].exposed - other.row[i].exposed) < 0.1); /* the slower end counts */
        const double want = i == 1 || i == 2 ? slow.row[i].exposed : fast.row[i].exposed;
        assert_true(fabs(once.row[i].exposed / want - 1) < 0.01);
    }
    done(&fast);
    done(&slow);
    done(&other);
    done(&once);
}

static void hostile_faults_are_refused_with_a_place(void **state)
{
    (void)state;
    static char many[257 * 20 + 1], deep[20000];
    for (size_t i = 0; i < 257; i++) strcat(many, "kill decode 0;");
    memset(deep, 'k', sizeof deep - 1);
    const struct {
        const char *text, *says;
    } bad[] = {
        {"kill decode 99999999999999999999", "a number"},
        {"kill decode 0x1", "a number"},
        {"kill decode +0", "a number"},
        {"kill decode 0 at -1s", "--faults"},
        {"kill decode 0 at 1e999s", "--faults"},
        {"kill decode 0 at nan", "--faults"},
        {"slow link 0 99999999999x", "--faults"},
        {"slow link 0 -5x", "--faults"},
        {"slow link 0 1e3x", "--faults"},
        {"kill decode 0 for 1s for 1s", "'at TIME'"},
        {"kill;decode 0", "prefill or decode"},
        {"\xff\xfe kill", "--faults"},
        {"kill decode 0\nat 1s at", "--faults"},
        {"%s%n%s", "--faults"},
        {"stop link 0 for 1s", "prefill or decode"},
        {"kill prefill 1", "the last is 0"},
        {"slow link 3 2x", "the last is 2"},
        {many, "more than 256"},
        {deep, "column 1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        spawn *s = SPAWN("baton", "simulate", "-m", "llama-3.2-1b", STEADY, "--faults", bad[i].text);
        const int rc = spawn_wait(s, spawn_patience(RUN_MS));
        if (rc != 2 || !strstr(spawn_err(s), bad[i].says) || strlen(spawn_err(s)) > 1000)
            fail_msg("'%.60s': exit %d: %.300s", bad[i].text, rc, spawn_err(s));
    }
    run none = RUN(STEADY, "--faults", " ;;; ; "), plain = RUN(STEADY);
    assert_true(number(&none, "virtual_seconds") == number(&plain, "virtual_seconds"));
    assert_int_equal(count(&none, "events"), count(&plain, "events"));
    done(&none);
    done(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_policy_decides_which_nodes_have_the_requests, spawn_teardown),
        cmocka_unit_test_teardown(keys_share_prefixes_only_where_that_is_asked_for, spawn_teardown),
        cmocka_unit_test_teardown(by_load_nobody_waits_behind_a_long_prompt, spawn_teardown),
        cmocka_unit_test_teardown(short_prompts_wait_for_a_chunk_and_not_for_all_long_ones, spawn_teardown),
        cmocka_unit_test_teardown(the_gateway_s_time_for_a_request_is_that_of_its_option, spawn_teardown),
        cmocka_unit_test_teardown(a_thread_takes_requests_one_after_the_other, spawn_teardown),
        cmocka_unit_test_teardown(a_full_queue_refuses_the_rest, spawn_teardown),
        cmocka_unit_test_teardown(prompts_below_a_length_are_computed_where_they_are_decoded, spawn_teardown),
        cmocka_unit_test_teardown(little_kv_memory_preempts_and_much_does_not, spawn_teardown),
        cmocka_unit_test_teardown(what_is_preempted_is_swapped_computed_again_or_given_up, spawn_teardown),
        cmocka_unit_test_teardown(a_small_swap_store_takes_some, spawn_teardown),
        cmocka_unit_test_teardown(growth_that_is_counted_is_not_preempted, spawn_teardown),
        cmocka_unit_test_teardown(a_context_refuses_scales_or_cuts_what_is_longer, spawn_teardown),
        cmocka_unit_test_teardown(so_many_slots_are_never_more_sequences, spawn_teardown),
        cmocka_unit_test_teardown(colocated_nodes_send_nothing_and_prompts_hold_up_answers, spawn_teardown),
        cmocka_unit_test_teardown(a_killed_node_costs_those_it_was_serving_a_new_attempt, spawn_teardown),
        cmocka_unit_test_teardown(a_stopped_decode_node_holds_up_its_answers_until_it_is_given_up,
                                  spawn_teardown),
        cmocka_unit_test_teardown(a_stopped_node_does_nothing_until_it_goes_on, spawn_teardown),
        cmocka_unit_test_teardown(a_slow_link_makes_transfers_so_much_longer_while_it_lasts, spawn_teardown),
        cmocka_unit_test_teardown(hostile_faults_are_refused_with_a_place, spawn_teardown),
    };
    return cmocka_run_group_tests(tests, spawn_group_begin, spawn_group_end);
}
