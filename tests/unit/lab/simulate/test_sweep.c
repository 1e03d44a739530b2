/* The clusters that carry a load: bisection against trying all, points in files, parts and processes. */
#include "lab/simulate/range.h"
#include "base/rng.h"
#include "lab/simulate/load.h"
#include "tests/helpers/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct world {
    bool carried[65];
    uint32_t tries;
} world;

static bt_err look(void *ud, tool_simulate_point *ret, uint32_t decode, bt_fault *fault)
{
    world *w = ud;
    (void)fault;
    w->tries++;
    *ret = (tool_simulate_point){.decode = decode, .is_carried = w->carried[decode]};
    return BT_OK;
}

static void bisection_finds_the_least_in_a_few_looks(void **state)
{
    (void)state;
    for (uint32_t from = 1; from <= 65; from++) {
        world w = {.tries = 0};
        tool_simulate_point p;
        bool found;
        for (uint32_t d = from; d <= 64; d++) w.carried[d] = true;
        assert_int_equal(tool_simulate_row(&p, &found, 1, 64, look, &w, NULL), BT_OK);
        assert_int_equal(found, from <= 64);
        if (found) assert_int_equal(p.decode, from);
        assert_in_range(w.tries, 1, 8);
    }
}

static void what_is_not_monotone_beside_the_result_is_searched(void **state)
{
    (void)state;
    world w = {.carried = {[5] = true, [9] = true, [64] = true}};
    tool_simulate_point p;
    bool found;
    assert_int_equal(tool_simulate_row(&p, &found, 1, 64, look, &w, NULL), BT_OK);
    assert_true(found);
    w = (world){.carried = {[7] = true, [32] = true}}; /* not at the end, but in the middle */
    assert_int_equal(tool_simulate_row(&p, &found, 1, 64, look, &w, NULL), BT_OK);
    assert_true(found);
    assert_int_equal(p.decode, 7);
}

static void the_frontier_has_what_nothing_smaller_carries(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 200; k++) {
        tool_simulate_point all[20], kept[20];
        const size_t n = (size_t)(bt_rng_u64(1, k) % 20);
        for (size_t i = 0; i < n; i++)
            all[i] = kept[i] = (tool_simulate_point){.prefill = (uint32_t)(bt_rng_u64(2 + k, i) % 10),
                                                     .decode = (uint32_t)(bt_rng_u64(1000 + k, i) % 10)};
        const size_t m = tool_simulate_frontier(kept, n);
        for (size_t i = 0; i < n; i++) { /* each has one of the frontier at or below it */
            bool is_covered = false;
            for (size_t j = 0; j < m; j++)
                is_covered |= kept[j].prefill <= all[i].prefill && kept[j].decode <= all[i].decode;
            assert_true(is_covered);
        }
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < m; j++)
                assert_true(i == j || kept[i].prefill > kept[j].prefill || kept[i].decode > kept[j].decode);
    }
}

static void the_cheapest_is_by_what_is_asked_for(void **state)
{
    (void)state;
    const tool_simulate_point p[] = {{.prefill = 1, .decode = 9, .joules = 50},
                                     {.prefill = 3, .decode = 4, .joules = 80},
                                     {.prefill = 8, .decode = 2, .joules = -1}};
    assert_int_equal(tool_simulate_cheapest(&(tool_simulate_rates){.kind = TOOL_SIMULATE_NODE_COUNT}, p, 3),
                     1);
    assert_int_equal(tool_simulate_cheapest(&(tool_simulate_rates){.kind = TOOL_SIMULATE_JOULES}, p, 3), 0);
    const tool_simulate_rates dear = {.kind = TOOL_SIMULATE_PRICE, .prefill = 1, .decode = 10};
    assert_int_equal(tool_simulate_cheapest(&dear, p, 3), 2);
    assert_int_equal(tool_simulate_cheapest(&(tool_simulate_rates){.kind = TOOL_SIMULATE_JOULES}, &p[2], 1),
                     1);
}

/* Three numbers of prefill nodes in ten draws: the cheapest as priced, 2 + 3, is it in four of them. */
static void votes_say_in_how_many_draws_a_cluster_is_the_cheapest(void **state)
{
    (void)state;
    enum { NONE = TOOL_SIMULATE_UNMET };
    static const uint32_t least[3][10] = {{NONE, NONE, 6, 6, 6, 7, 8, 8, 8, 8},
                                          {5, 4, 3, 3, 3, 3, 4, 2, 2, NONE},
                                          {5, 5, 1, 1, 4, 4, 4, 2, 2, 2}};
    static const uint32_t won[9][2] = {{2, 3}, {2, 3}, {2, 3}, {2, 3}, {2, 4},
                                       {2, 4}, {2, 2}, {2, 2}, {3, 1}};
    const tool_simulate_point best = {.prefill = 2, .decode = 3}, more = {.prefill = 3, .decode = 5};
    const tool_simulate_rates nodes = {.kind = TOOL_SIMULATE_NODE_COUNT},
                              energy = {.kind = TOOL_SIMULATE_JOULES};
    tool_simulate_point sure;
    tool_simulate_votes v;
    bt_fault fault = {""};
    assert_int_equal(tool_simulate_votes_begin(&v, 3, 10, &fault), BT_OK);
    for (uint32_t i = 0; i < 3; i++) v.row[i] = i + 1;
    memcpy(v.least, least, sizeof least);
    for (size_t i = 0; i < 9; i++) v.vote[v.votes++] = (tool_simulate_vote){won[i][0], won[i][1], 1, false};
    assert_int_equal(tool_simulate_votes_count(&v, &best, &fault), BT_OK);
    assert_int_equal(v.votes, 4);
    assert_int_equal(tool_simulate_wins(&v, &best), 4);
    assert_int_equal(tool_simulate_wins(&v, &more), 0);
    assert_int_equal(tool_simulate_kept(&v, &best), 6);
    assert_int_equal(tool_simulate_kept(&v, &more), 10);
    /* all are needed for nine of ten, as a draw has no winner */
    static const uint32_t order[4] = {3, 2, 4, 1};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(v.vote[i].decode, order[i]);
        assert_int_equal(v.vote[i].is_tie, i > 0);
    }
    assert_true(tool_simulate_sure(&v, &nodes, &sure));
    assert_true(sure.prefill == 2 && sure.decode == 5);
    assert_false(tool_simulate_sure(&v, &energy, &sure));
    /* nine in ten of ten draws are all of them; a row beats those behind it */
    assert_true(v.low[0] == 6 && v.high[0] == NONE);
    assert_true(v.low[1] == 2 && v.high[1] == 8);
    assert_true(v.low[2] == 1 && v.high[2] == 5);
    tool_simulate_votes_done(&v);
}

static void parts_and_prices_are_read_or_refused(void **state)
{
    (void)state;
    tool_simulate_shard s;
    double price;
    bt_fault fault = {""};
    assert_int_equal(tool_simulate_shard_read(&s, "3/8", &fault), BT_OK);
    assert_int_equal(s.part, 3);
    assert_int_equal(s.of, 8);
    static const char *const bad[] = {"", "0/8", "9/8", "1/", "1/8x", "/", "1/99999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(tool_simulate_shard_read(&s, bad[i], &fault), BT_EARG);
    assert_int_equal(tool_simulate_price(&price, "h100:2.5,a100:1.25", "a100", &fault), BT_OK);
    assert_true(price == 1.25);
    assert_int_equal(tool_simulate_price(&price, "h100:2.5", "a100", &fault), BT_EARG);
    assert_non_null(strstr(fault.text, "a100:PRICE"));
    assert_int_equal(tool_simulate_price(&price, "h100", "h100", &fault), BT_EARG);
}

static void points_come_back_from_their_lines_as_they_were(void **state)
{
    (void)state;
    const tool_simulate_point p = {.draw = 10000,
                                   .prefill = 3,
                                   .decode = 61,
                                   .is_carried = true,
                                   .requests = 12031,
                                   .good = 12000,
                                   .failed = 1,
                                   .events = 18414148,
                                   .goodput_rps = 1.0 / 3,
                                   .ttft_p99_ms = 1e-7,
                                   .tpot_p99_ms = 59.999999999999993,
                                   .virtual_s = 3542.87,
                                   .joules = -1};
    char line[TOOL_SIMULATE_LINE_BYTES];
    tool_simulate_point back;
    tool_simulate_points_line(line, &p, 0xfedcba9876543210u);
    assert_true(strlen(line) < sizeof line - 1);
    assert_true(tool_simulate_points_parse(&back, line, 0xfedcba9876543210u));
    assert_int_equal(back.draw, 10000);
    assert_int_equal(back.prefill, 3);
    assert_int_equal(back.decode, 61);
    assert_true(back.is_carried && back.goodput_rps == p.goodput_rps && back.tpot_p99_ms == p.tpot_p99_ms);
    assert_true(back.ttft_p99_ms == p.ttft_p99_ms && back.joules == -1 && back.events == p.events);
    assert_false(tool_simulate_points_parse(&back, line, 1));
    for (size_t n = 0; n + 2 < strlen(line); n += 7) { /* torn lines are none */
        char torn[TOOL_SIMULATE_LINE_BYTES];
        memcpy(torn, line, n);
        torn[n] = 0;
        assert_false(tool_simulate_points_parse(&back, torn, 0xfedcba9876543210u));
    }
}

/* ---- whole sweeps -------------------------------------------------------------------------------- */

typedef struct bed {
    tool_simulate_setup setup;
    tool_replay_plan plan;
    tool_simulate_bench *bench;
    tool_replay_slo slo;
    tool_simulate_range range;
    char folder[TEMP_FOLDER_BYTES], path[TEMP_FOLDER_BYTES + 16];
} bed;

static void make(bed *b)
{
    bt_fault fault = {""};
    uint64_t bad;
    tool_replay_synthetic load;
    *b = (bed){.setup = {.model = bt_dims_find("llama-3.1-8b"), .weight_bits = 16, .weight_permille = 2000,
                         .kv_elem_bytes = 2, .ctx_tokens = 16384, .seed = 1, .swap_memory_bytes = 1 << 30,
                         .link = {.bits_per_us = 100000}, .cluster = sim_cluster_defaults()}};
    b->setup.cluster.gw.queue_max = 1000;
    assert_int_equal(tool_simulate_side_read(&b->setup.prefill, "prefill", "1..4", "a100", &fault), BT_OK);
    assert_int_equal(tool_simulate_side_read(&b->setup.decode, "decode", "1..6", "a100", &fault), BT_OK);
    assert_int_equal(tool_replay_synthetic_read(&load, "in:4000,out:120,rate:5", &fault), BT_OK);
    const tool_simulate_load l = {
        .synthetic = &load, .limit = 80,
        .how = {.seed = 3, .usual_output = 64, .context_tokens = 16384, .speed = 1}};
    assert_int_equal(tool_simulate_load_read(&b->plan, &bad, &l, &fault), BT_OK);
    assert_int_equal(tool_simulate_bench_new(&b->bench, &b->setup, &fault), BT_OK);
    assert_int_equal(tool_replay_slo_read(&b->slo, "ttft:900ms,tpot:24ms", &fault), BT_OK);
    b->range = (tool_simulate_range){.bench = b->bench, .setup = &b->setup, .plan = &b->plan,
                                     .slo = &b->slo,    .share = 0.95,      .jobs = 2};
    b->range.key = tool_simulate_key(&b->range);
    assert_true(temp_folder_new(b->folder));
    (void)snprintf(b->path, sizeof b->path, "%s/points", b->folder);
}

static void unmake(bed *b)
{
    assert_int_equal(temp_folder_remove(b->folder), 0);
    tool_simulate_bench_free(b->bench);
    tool_replay_plan_done(&b->plan);
}

static void run(tool_simulate_found *f, const bed *b)
{
    bt_fault fault = {""};
    if (tool_simulate_range_run(f, &b->range, &fault) < 0) fail_msg("%s", fault.text);
}

static void assert_same(const tool_simulate_found *a, const tool_simulate_found *b)
{
    assert_int_equal(a->len, b->len);
    assert_int_equal(a->cheapest, b->cheapest);
    for (size_t i = 0; i < a->len; i++) {
        assert_int_equal(a->point[i].prefill, b->point[i].prefill);
        assert_int_equal(a->point[i].decode, b->point[i].decode);
        assert_int_equal(a->point[i].events, b->point[i].events);
    }
}

/* Every cluster of the range, by a look at each. */
static void a_sweep_finds_what_trying_all_finds(void **state)
{
    (void)state;
    bed b;
    tool_simulate_found f;
    make(&b);
    run(&f, &b);
    assert_true(f.len >= 1);
    tool_simulate_point all[4];
    size_t n = 0;
    for (uint32_t p = 1; p <= 4; p++)
        for (uint32_t d = 1; d <= 6; d++) {
            tool_replay_result r;
            tool_replay_figures g;
            tool_simulate_facts facts;
            bt_fault fault = {""};
            assert_int_equal(tool_replay_result_begin(&r, b.plan.len, &fault), BT_OK);
            assert_int_equal(tool_simulate_play(&facts, &r, b.bench, &b.plan, &p, &d, &fault), BT_OK);
            assert_int_equal(tool_replay_figures_of(&g, &r, &b.slo, &fault), BT_OK);
            tool_replay_result_done(&r);
            if ((double)g.good < 0.95 * (double)g.requests) continue;
            all[n++] = (tool_simulate_point){.prefill = p, .decode = d};
            break;
        }
    n = tool_simulate_frontier(all, n);
    assert_int_equal(f.len, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(f.point[i].prefill, all[i].prefill);
        assert_int_equal(f.point[i].decode, all[i].decode);
    }
    tool_simulate_found_done(&f);
    unmake(&b);
}

static void processes_parts_and_a_file_change_nothing(void **state)
{
    (void)state;
    bed b;
    tool_simulate_found whole, one, part, again;
    make(&b);
    run(&whole, &b);
    b.range.jobs = 1;
    run(&one, &b);
    assert_same(&whole, &one);
    b.range.points_path = b.path;
    for (uint32_t i = 1; i <= 2; i++) {
        b.range.shard = (tool_simulate_shard){i, 2};
        run(&part, &b);
        assert_true(part.tried.len - part.again < whole.tried.len);
        tool_simulate_found_done(&part);
    }
    b.range.shard = (tool_simulate_shard){0};
    run(&again, &b);
    assert_same(&whole, &again);
    assert_int_equal(again.again, again.tried.len); /* nothing was tried again */
    assert_int_equal(again.tried.len, whole.tried.len);
    tool_simulate_found_done(&again);
    b.setup.cluster.chunk_tokens = 128; /* another setup takes nothing of it */
    b.setup.seed = 2;
    b.range.key = tool_simulate_key(&b.range);
    run(&again, &b);
    assert_int_equal(again.again, 0);
    tool_simulate_found_done(&again);
    tool_simulate_found_done(&one);
    tool_simulate_found_done(&whole);
    unmake(&b);
}

static void draws_are_the_same_from_a_file_and_are_what_is_found_in_each(void **state)
{
    (void)state;
    bed b;
    tool_simulate_found whole, again;
    make(&b);
    b.range.draws = 4;
    b.range.points_path = b.path;
    run(&whole, &b);
    assert_int_equal(whole.votes.draws, 4);
    uint32_t wins = 0;
    for (size_t i = 0; i < whole.votes.votes; i++) wins += whole.votes.vote[i].wins;
    assert_true(wins <= 4);
    run(&again, &b);
    assert_same(&whole, &again);
    size_t tried = again.tried.len;
    for (uint32_t i = 0; i < 4; i++) tried += again.drawn[i].len;
    assert_int_equal(again.again, tried); /* nothing was tried again */
    assert_int_equal(again.votes.votes, whole.votes.votes);
    /* the first draw by itself */
    tool_simulate_bench_draw(b.bench, true, 0);
    for (size_t i = 0; i < again.drawn[0].len; i++) {
        const tool_simulate_point *p = &again.drawn[0].point[i];
        tool_replay_result r;
        tool_replay_figures g;
        tool_simulate_facts facts;
        bt_fault fault = {""};
        assert_int_equal(p->draw, 1);
        assert_int_equal(tool_replay_result_begin(&r, b.plan.len, &fault), BT_OK);
        assert_int_equal(tool_simulate_play(&facts, &r, b.bench, &b.plan, &p->prefill, &p->decode, &fault),
                         BT_OK);
        assert_int_equal(tool_replay_figures_of(&g, &r, &b.slo, &fault), BT_OK);
        assert_int_equal(p->good, g.good);
        assert_true(p->ttft_p99_ms == g.ttft_ms.p99);
        tool_replay_result_done(&r);
    }
    tool_simulate_found_done(&again);
    tool_simulate_found_done(&whole);
    unmake(&b);
}

static void a_picture_has_the_frontier_and_the_points(void **state)
{
    (void)state;
    bed b;
    tool_simulate_found f;
    bt_fault fault = {""};
    make(&b);
    run(&f, &b);
    (void)snprintf(b.path, sizeof b.path, "%s/sweep.html", b.folder);
    assert_int_equal(tool_simulate_found_plot("sweep.png", &f, &b.range, &fault), BT_EARG);
    assert_int_equal(tool_simulate_found_plot(b.path, &f, &b.range, &fault), BT_OK);
    FILE *file = fopen(b.path, "r");
    static char text[1 << 16];
    assert_non_null(file);
    const size_t n = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[n] = 0;
    size_t dots = 0;
    for (const char *at = text; (at = strstr(at, "<circle")); at++) dots++;
    assert_int_equal(dots, f.tried.len + 1);
    assert_non_null(strstr(text, "cheapest by nodes"));
    tool_simulate_found_done(&f);
    unmake(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bisection_finds_the_least_in_a_few_looks),
        cmocka_unit_test(what_is_not_monotone_beside_the_result_is_searched),
        cmocka_unit_test(the_frontier_has_what_nothing_smaller_carries),
        cmocka_unit_test(the_cheapest_is_by_what_is_asked_for),
        cmocka_unit_test(votes_say_in_how_many_draws_a_cluster_is_the_cheapest),
        cmocka_unit_test(parts_and_prices_are_read_or_refused),
        cmocka_unit_test(points_come_back_from_their_lines_as_they_were),
        cmocka_unit_test(a_sweep_finds_what_trying_all_finds),
        cmocka_unit_test(processes_parts_and_a_file_change_nothing),
        cmocka_unit_test(draws_are_the_same_from_a_file_and_are_what_is_found_in_each),
        cmocka_unit_test(a_picture_has_the_frontier_and_the_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
