/* baton replay in front of a running system: what it sends is what the trace says, and what it measures is
 * what users would have waited. */
#include "tests/helpers/cluster/cluster.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RUN_MS = 60000 };

static cluster sys;

static int start_system(void **state)
{
    (void)state;
    spawn_setup();
    client_setup();
    return CLUSTER(&sys, spawn_tiny_model(1), "--engine", "host", "--threads", "1", "--max-queue", "1000",
                   "--max-connections", "1000")
               ? 0
               : -1;
}

static int stop_system(void **state)
{
    (void)state;
    const bool ok = cluster_stop(&sys);
    client_cleanup();
    spawn_cleanup();
    return ok ? 0 : -1;
}

#define REPLAY(...) \
    SPAWN("baton", "replay", "--json", "-m", spawn_tiny_model(1), "--url", sys.url, __VA_ARGS__)

static json_int_t number(const json_t *j, const char *key)
{
    assert_true(json_is_integer(json_object_get(j, key)));
    return json_integer_value(json_object_get(j, key));
}

static void a_drawn_load_has_the_lengths_that_were_asked_for(void **state)
{
    (void)state;
    for (int text = 0; text < 2; text++) {
        json_t *j = spawn_json(REPLAY("--synthetic", "in:20-90,out:7,rate:60,burst:0.5", "--limit", "40",
                                      "--prompts", text ? "text" : "auto"));
        assert_int_equal(number(j, "requests"), 40);
        assert_int_equal(number(j, "completed"), 40);
        assert_int_equal(number(j, "output_tokens"), 280); /* also where the model would have ended before */
        assert_int_equal(number(j, "short_answers"), 0);
        assert_int_equal(number(j, "prompts_of_other_length"), 0);
        assert_true(number(j, "input_tokens") > 40 * 30 && number(j, "input_tokens") < 40 * 80);
        assert_int_equal(json_array_size(json_object_get(json_object_get(j, "points"), "ttft_ms")), 40);
        assert_int_equal(json_array_size(json_object_get(j, "nodes")), 2);
        json_decref(j);
    }
}

static void prompts_begin_alike_where_their_hashes_do(void **state)
{
    (void)state;
    static const char
        alike[] = "{\"timestamp\":0,\"input_length\":300,\"output_length\":3,\"hash_ids\":[1,2,3]}\n"
                  "{\"timestamp\":10,\"input_length\":300,\"output_length\":3,\"hash_ids\":[1,2,4]}\n",
        apart[] = "{\"timestamp\":0,\"input_length\":300,\"output_length\":3,\"hash_ids\":[5,6,7]}\n"
                  "{\"timestamp\":10,\"input_length\":300,\"output_length\":3,\"hash_ids\":[8,6,7]}\n";
    json_t *j = spawn_json(REPLAY(spawn_write(spawn_path("alike.jsonl"), alike), "--concurrency", "1"));
    assert_int_equal(number(j, "cached_tokens"), 256); /* two blocks of 128, which 101 to 149 tokens hold */
    json_decref(j);
    j = spawn_json(REPLAY(spawn_write(spawn_path("apart.jsonl"), apart), "--concurrency", "1"));
    assert_int_equal(number(j, "cached_tokens"), 0);
    json_decref(j);
}

static void what_is_too_long_is_refused_scaled_or_cut_and_said(void **state)
{
    (void)state;
    const char *trace =
        spawn_write(spawn_path("long.csv"),
                    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                    "2023-11-16 18:15:46.0000000,4000,96\n2023-11-16 18:15:46.2000000,40,4\n");
    spawn *s = REPLAY(trace);
    assert_int_equal(spawn_wait(s, spawn_patience(RUN_MS)), 1);
    assert_non_null(strstr(spawn_err(s), "1 of 2 requests are longer than the context of 1024"));
    json_t *j = spawn_json(REPLAY(trace, "--scale-lengths"));
    assert_int_equal(number(j, "input_tokens"), 1000 + 10);
    assert_int_equal(number(j, "output_tokens"), 24 + 1);
    assert_non_null(strstr(json_string_value(json_array_get(json_object_get(j, "notes"), 0)),
                           "all lengths times 0.25"));
    json_decref(j);
    j = spawn_json(REPLAY(trace, "--fit"));
    assert_int_equal(number(j, "input_tokens"), 928 + 40);
    assert_int_equal(number(j, "cut_requests"), 1);
    json_decref(j);
}

/* The gateway stands still for a second; 40 requests are due in it, and none of them may look fast. */
static void a_server_that_stalls_cannot_hide_it(void **state)
{
    (void)state;
    const pid_t gateway = cluster_pid(sys.url, "gateway");
    spawn *s =
        REPLAY("--synthetic", "in:10,out:2,rate:40", "--limit", "100", "--csv", spawn_path("stall.csv"));
    const int64_t begin = spawn_now_ms();
    while (spawn_now_ms() < begin + 1500) spawn_nap(); /* in the middle of it */
    assert_int_equal(kill(gateway, SIGSTOP), 0);
    while (spawn_now_ms() < begin + 2500) spawn_nap();
    assert_int_equal(kill(gateway, SIGCONT), 0);
    json_t *j = spawn_json(s);
    assert_int_equal(number(j, "completed"), 100);
    const json_t *points = json_object_get(json_object_get(j, "points"), "ttft_ms");
    size_t slow = 0;
    for (size_t i = 0; i < json_array_size(points); i++)
        slow += json_number_value(json_array_get(points, i)) > 200;
    if (slow < 15) fail_msg("only %zu requests waited for a server that stood still", slow);
    json_decref(j);
}

/* The content of the page's script element that `mark` names. */
static json_t *inside_of(char *page, const char *mark)
{
    char *begin = strstr(page, mark);
    assert_non_null(begin);
    begin = strchr(begin, '>') + 1;
    char *end = strstr(begin, "</script>");
    assert_non_null(end);
    json_t *j = json_loadb(begin, (size_t)(end - begin), 0, NULL);
    assert_non_null(j);
    return j;
}

/* The first `room` numbers of a column, as source maps write them; how many it has. */
static size_t numbers_of(int64_t *ret, size_t room, const json_t *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    int64_t v = 0;
    unsigned bits = 0;
    assert_true(json_is_string(text));
    for (const char *c = json_string_value(text); *c; c++) {
        const char *at = strchr(digits, *c);
        assert_non_null(at);
        v |= (int64_t)((at - digits) & 31) << bits;
        bits += 5;
        if (at - digits >= 32) continue;
        if (n < room) ret[n] = v & 1 ? -(v >> 1) : v >> 1;
        n++;
        v = 0;
        bits = 0;
    }
    return n;
}

/* Queue, reserve, node's queue and prompt are one after another, and all before the first token. */
static void expect_parts_of_ttft(const char *csv, size_t rows)
{
    enum { TTFT = 9, QUEUE = 13, RESERVE, NODE_QUEUE, PROMPT, COLUMNS };
    assert_non_null(strstr(csv, "longest_gap_ms,gateway_queue_ms,reserve_ms,queue_ms,prefill_ms,"));
    for (size_t i = 0; i < rows; i++) {
        double ms[COLUMNS] = {0};
        assert_non_null(csv = strchr(csv, '\n'));
        csv++;
        const char *at = csv;
        for (size_t c = 0; c < COLUMNS; c++, at++) {
            ms[c] = strtod(at, NULL);
            if (c >= TTFT) assert_true(*at >= '0' && *at <= '9');
            assert_non_null(at = strchr(at, ','));
        }
        assert_true(ms[RESERVE] > 0);
        assert_true(ms[QUEUE] + ms[RESERVE] + ms[NODE_QUEUE] + ms[PROMPT] <= ms[TTFT]);
    }
}

static void a_row_a_request_and_a_page_that_needs_no_other(void **state)
{
    (void)state;
    const char *csv = spawn_path("rows.csv"), *page = spawn_path("run.html");
    json_t *j = spawn_json(REPLAY("--synthetic", "in:30,out:5", "--concurrency", "4", "--limit", "12",
                                  "--csv", csv, "--report", page, "--slo", "ttft:60s,tpot:60s"));
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(json_number_value(json_object_get(j, "goodput_rps")) > 0);
    FILE *f = fopen(csv, "re");
    assert_non_null(f);
    size_t rows = 0, n = fread(text, 1, (1 << 20) - 1, f);
    (void)fclose(f);
    for (const char *c = text; (c = strchr(c, '\n')); c++) rows++;
    assert_int_equal(rows, 13);
    assert_int_equal(strncmp(text, "request,result,", 15), 0);
    expect_parts_of_ttft(text, 12);
    memset(text, 0, n);
    assert_non_null(f = fopen(page, "re"));
    n = fread(text, 1, (1 << 20) - 1, f);
    (void)fclose(f);
    assert_true(n > 10000);
    assert_null(strstr(text, "src="));
    assert_null(strstr(text, "@import"));
    json_t *drawn = inside_of(text, "id=\"data\""), *rest = inside_of(text, "id=\"rows\"");
    const json_t *columns = json_object_get(drawn, "requests");
    int64_t value[12 * 5];
    assert_int_equal(json_array_size(columns), 3); /* kind, due, first token */
    for (size_t c = 0; c < 3; c++) assert_int_equal(json_array_size(json_array_get(columns, c)), 12);
    for (size_t i = 0; i < 12; i++)
        assert_true(json_integer_value(json_array_get(json_array_get(columns, 2), i)) > 0);
    assert_int_equal(json_array_size(rest), 18);
    for (size_t c = 0; c < 17; c++) assert_int_equal(numbers_of(value, 12, json_array_get(rest, c)), 12);
    assert_int_equal(numbers_of(value, 12, json_array_get(rest, 4)), 12);
    for (size_t i = 0; i < 12; i++) assert_int_equal(value[i], 30); /* prompt tokens */
    assert_int_equal(numbers_of(value, 60, json_array_get(rest, 17)), 60);
    for (size_t i = 0; i < 12; i++) { /* one chunk: tokens, begin, end, count */
        assert_true(value[5 * i] == 1 && value[5 * i + 1] == 30 && value[5 * i + 4] == 1);
        assert_true(value[5 * i + 3] > value[5 * i + 2]);
    }
    json_decref(drawn);
    json_decref(rest);
    json_decref(j);
    free(text);
}

static void a_ramp_ends_with_the_highest_rate_that_keeps_the_limits(void **state)
{
    (void)state;
    json_t *j = spawn_json(REPLAY("--synthetic", "in:10,out:2,rate:20", "--limit", "10", "--ramp", "--slo",
                                  "ttft:400ms"));
    const size_t steps = json_array_size(json_object_get(j, "steps"));
    assert_true(steps >= 2 && steps <= 16);
    assert_true(json_number_value(json_object_get(j, "best_rps")) > 0);
    json_decref(j);
}

static void it_serves_itself_and_leaves_nothing_behind(void **state)
{
    (void)state;
    spawn *s = SPAWN("baton", "replay", "--json", "-m", spawn_tiny_model(1), "--engine", "host", "-t", "1",
                     "--prefill", "0", "--decode", "2", "--synthetic", "in:90,out:5,rate:50", "--limit", "10",
                     "-c", "64", "--fit");
    json_t *j = spawn_json(s);
    assert_int_equal(number(j, "completed"), 10);
    assert_int_equal(number(j, "input_tokens"), 590); /* the context is what its nodes have, not the model's
                                                       */
    assert_int_equal(json_array_size(json_object_get(j, "nodes")), 2);
    json_decref(j);
}

/* A request that was captured with its text gives the same answer again; without it, a prompt as long that
 * begins alike. */
static void a_capture_is_replayed_as_it_was(void **state)
{
    (void)state;
    for (int text = 1; text >= 0; text--) {
        const char *capture = spawn_path(text ? "text.btcp" : "plain.btcp");
        json_t *first =
            spawn_json(SPAWN("baton", "replay", "--json", "-m", spawn_tiny_model(1), "--engine", "host", "-t",
                             "1", "--synthetic", "in:100-300,out:6,rate:50,shared:70", "--limit", "20",
                             "--capture", capture, text ? "--capture-text" : "--capture-text=no"));
        json_t *again = spawn_json(REPLAY(capture, "--speed", "0.5"));
        assert_int_equal(number(again, "requests"), 20); /* the load, and nothing that found the server out */
        assert_int_equal(number(again, "failed"), 0);
        assert_int_equal(number(again, "input_tokens"), number(first, "input_tokens"));
        assert_int_equal(number(again, "answers_compared"), text ? number(again, "requests") : 0);
        assert_int_equal(number(again, "answers_equal"), number(again, "answers_compared"));
        assert_int_equal(number(again, "short_answers"), 0);
        assert_true(number(again, "cached_tokens") > 64);
        json_decref(first);
        json_decref(again);
    }
}

static void nobody_there_is_told(void **state)
{
    (void)state;
    spawn *s = SPAWN("baton", "replay", "--synthetic", "in:30,out:5,rate:50", "--url", "http://127.0.0.1:9");
    assert_int_equal(spawn_wait(s, spawn_patience(RUN_MS)), 1);
    assert_non_null(strstr(spawn_err(s), "no answer from http://127.0.0.1:9"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drawn_load_has_the_lengths_that_were_asked_for),
        cmocka_unit_test(prompts_begin_alike_where_their_hashes_do),
        cmocka_unit_test(what_is_too_long_is_refused_scaled_or_cut_and_said),
        cmocka_unit_test(a_server_that_stalls_cannot_hide_it),
        cmocka_unit_test(a_row_a_request_and_a_page_that_needs_no_other),
        cmocka_unit_test(a_ramp_ends_with_the_highest_rate_that_keeps_the_limits),
        cmocka_unit_test(it_serves_itself_and_leaves_nothing_behind),
        cmocka_unit_test(a_capture_is_replayed_as_it_was),
        cmocka_unit_test(nobody_there_is_told),
    };
    return cmocka_run_group_tests(tests, start_system, stop_system);
}
