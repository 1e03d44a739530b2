/* A schedule made of rows: what is sent when, how long, and what shares its beginning. */
#include "lab/replay/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const tool_replay_plan_options usual = {.seed = 7, .usual_output = 128, .speed = 1, .jitter_us = -1};

static bt_trace_row row(int64_t arrival_ms, uint32_t in, uint32_t out)
{
    return (bt_trace_row){.has_arrival = true, .arrival_us = arrival_ms * 1000, .input_tokens = in,
                          .output_tokens = out, .has_output = true};
}

static void begin(tool_replay_plan *p) { assert_int_equal(tool_replay_plan_begin(p, NULL), BT_OK); }

static void add(tool_replay_plan *p, bt_trace_row r, const tool_replay_plan_options *o)
{
    assert_int_equal(tool_replay_plan_add(p, &r, o, NULL), BT_OK);
}

static void requests_go_in_the_order_of_their_arrivals_and_as_fast_as_asked(void **state)
{
    (void)state;
    tool_replay_plan p;
    tool_replay_plan_options o = usual;
    o.speed = 4;
    begin(&p);
    add(&p, row(5000, 10, 20), &o);
    add(&p, row(1000, 11, 21), &o);
    add(&p, row(2000, 0, 0), &o); /* at least one token each */
    assert_int_equal(tool_replay_plan_end(&p, &o, NULL), BT_OK);
    assert_int_equal(p.order_len, 3);
    assert_int_equal(p.order[0], 1);
    assert_int_equal(p.order[1], 2);
    assert_int_equal(p.order[2], 0);
    assert_int_equal(p.item[1].due_us, 0); /* the first begins the run */
    assert_int_equal(p.item[2].due_us, 250000);
    assert_int_equal(p.item[0].due_us, 1000000);
    assert_true(p.item[2].prompt_tokens == 1 && p.item[2].output_tokens == 1);
    tool_replay_plan_done(&p);
}

static void a_distance_of_batches_is_found_and_chance_is_not_taken_for_one(void **state)
{
    (void)state;
    enum { N = 400 };
    int64_t batched[N], seconds[N], poisson[N], at = 0;
    for (int i = 0; i < N; i++) {
        batched[i] = (int64_t)(i / 8) * 3000000 + i % 8 % 4 * 1000; /* Mooncake's: a few ms beside the 3 s */
        seconds[i] = (int64_t)(i * i % 3 + i) / 2 * 1000000;
        if (i && seconds[i] < seconds[i - 1]) seconds[i] = seconds[i - 1];
        at += 20000 + (int64_t)(((uint64_t)i * 2654435761u) % 400000);
        poisson[i] = at;
    }
    assert_int_equal(tool_replay_tick(batched, N), 3000000);
    assert_int_equal(tool_replay_tick(seconds, N), 1000000);
    assert_int_equal(tool_replay_tick(poisson, N), 0);
    assert_int_equal(tool_replay_tick(batched, 20), 0); /* two gaps say nothing */
    assert_int_equal(tool_replay_tick(batched, 0), 0);
}

static void batches_are_spread_the_same_way_for_one_seed(void **state)
{
    (void)state;
    tool_replay_plan p[3];
    for (int k = 0; k < 3; k++) {
        tool_replay_plan_options o = usual;
        o.seed = k < 2 ? 7 : 8;
        begin(&p[k]);
        for (int i = 0; i < 80; i++) add(&p[k], row(i / 8 * 3000, 100, 10), &o);
        assert_int_equal(tool_replay_plan_end(&p[k], &o, NULL), BT_OK);
        assert_int_equal(p[k].tick_us, 3000000);
    }
    size_t together = 0, other = 0;
    for (size_t i = 1; i < 80; i++) {
        together += p[0].item[p[0].order[i]].due_us == p[0].item[p[0].order[i - 1]].due_us;
        assert_int_equal(p[0].item[i].due_us, p[1].item[i].due_us);
        other += p[0].item[i].due_us != p[2].item[i].due_us;
        assert_true(p[0].item[p[0].order[i]].due_us >= p[0].item[p[0].order[i - 1]].due_us);
    }
    assert_int_equal(together, 0);
    assert_true(other > 60);
    for (int k = 0; k < 3; k++) tool_replay_plan_done(&p[k]);
}

static void without_jitter_batches_stay_batches(void **state)
{
    (void)state;
    tool_replay_plan p;
    tool_replay_plan_options o = usual;
    o.jitter_us = 0;
    begin(&p);
    for (int i = 0; i < 80; i++) add(&p, row(i / 8 * 3000, 100, 10), &o);
    assert_int_equal(tool_replay_plan_end(&p, &o, NULL), BT_OK);
    for (size_t i = 0; i < 80; i++) assert_int_equal(p.item[i].due_us, (int64_t)(i / 8) * 3000000);
    tool_replay_plan_done(&p);
}

static void a_turn_with_a_delay_waits_for_the_turn_before_it(void **state)
{
    (void)state;
    tool_replay_plan p;
    tool_replay_plan_options o = usual;
    o.speed = 2;
    begin(&p);
    bt_trace_row first = row(0, 100, 10), next = {.has_delay = true, .delay_us = 500000, .input_tokens = 150,
                                                  .output_tokens = 5, .has_output = true};
    first.session = next.session = "talk";
    add(&p, first, &o);
    add(&p, row(100, 7, 7), &o);
    add(&p, next, &o);
    assert_int_equal(tool_replay_plan_end(&p, &o, NULL), BT_OK);
    assert_int_equal(p.order_len, 2);
    assert_int_equal(p.item[0].next, 2);
    assert_int_equal(p.item[2].due_us, -1);
    assert_int_equal(p.item[2].delay_us, 250000);
    assert_int_equal(p.item[2].next, TOOL_REPLAY_NONE);
    assert_int_equal(p.item[0].stream, p.item[2].stream); /* one text, so the second prompt begins with the
                                                             first */
    assert_int_not_equal(p.item[0].stream, p.item[1].stream);
    tool_replay_plan_done(&p);
}

static void what_does_not_fit_the_context_is_refused_scaled_or_cut(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        tool_replay_plan p;
        bt_fault fault = {""};
        tool_replay_plan_options o = usual;
        o.context_tokens = 1000;
        o.scales = way == 1;
        o.fits = way == 2;
        begin(&p);
        add(&p, row(0, 3000, 1000), &o);
        add(&p, row(1, 400, 100), &o);
        add(&p, row(2, 100, 950), &o);
        const bt_err e = tool_replay_plan_end(&p, &o, &fault);
        if (way == 0) {
            assert_int_equal(e, BT_EARG);
            assert_non_null(strstr(fault.text, "2 of 3 requests are longer than the context of 1000"));
        } else if (way == 1) {
            assert_int_equal(e, BT_OK);
            assert_true(p.scale > 0.2499 && p.scale < 0.2501);
            assert_true(p.item[0].prompt_tokens == 750 && p.item[0].output_tokens == 250);
            assert_true(p.item[1].prompt_tokens == 100 && p.item[1].output_tokens == 25);
            assert_int_equal(p.cut, 0);
        } else {
            assert_int_equal(e, BT_OK);
            assert_true(p.item[0].prompt_tokens == 500 && p.item[0].output_tokens == 500);
            assert_true(p.item[1].prompt_tokens == 400 && p.item[1].output_tokens == 100);
            assert_true(p.item[2].prompt_tokens == 100 && p.item[2].output_tokens == 900);
            assert_int_equal(p.cut, 2);
            assert_int_equal(p.cut_tokens, 3050);
        }
        tool_replay_plan_done(&p);
    }
}

static void the_tokens_of_a_block_are_inferred_given_or_asked_for(void **state)
{
    (void)state;
    uint64_t hash[] = {0, 1, 2, 3};
    for (int way = 0; way < 3; way++) {
        tool_replay_plan p;
        bt_fault fault = {""};
        tool_replay_plan_options o = usual;
        bt_trace_row r = row(0, way ? 1000 : 2048, 10);
        o.block_tokens = way == 2 ? 256 : 0;
        r.hash_ids = hash;
        r.hash_len = way ? 2 : 4;
        begin(&p);
        add(&p, r, &o);
        if (!way) {
            r.input_tokens = 1025;
            r.hash_len = 3;
            add(&p, r, &o);
        }
        const bt_err e = tool_replay_plan_end(&p, &o, &fault);
        if (way == 1) { /* 500 to 999 fit, and 512 is the one power of two among them */
            assert_int_equal(e, BT_OK);
            assert_int_equal(p.block_tokens, 512);
        } else {
            assert_int_equal(e, BT_OK);
            assert_int_equal(p.block_tokens, way ? 256 : 512);
        }
        tool_replay_plan_done(&p);
    }
    tool_replay_plan p;
    bt_fault fault = {""};
    bt_trace_row r = row(0, 10, 10);
    r.hash_ids = hash;
    r.hash_len = 1; /* any block of ten tokens or more */
    begin(&p);
    add(&p, r, &usual);
    assert_int_equal(tool_replay_plan_end(&p, &usual, &fault), BT_EARG);
    assert_non_null(strstr(fault.text, "--block-tokens"));
    tool_replay_plan_done(&p);
}

static void a_trace_without_times_needs_a_rate_or_a_number_at_a_time(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        tool_replay_plan p;
        bt_fault fault = {""};
        tool_replay_plan_options o = usual;
        bt_trace_row r = {.input_tokens = 10};
        o.rate = way == 1 ? 50 : 0;
        o.is_closed = way == 2;
        begin(&p);
        for (int i = 0; i < 2000; i++) add(&p, r, &o);
        assert_int_equal(tool_replay_plan_end(&p, &o, &fault), way ? BT_OK : BT_EARG);
        if (way == 0) assert_non_null(strstr(fault.text, "--rate"));
        assert_int_equal(p.guessed_outputs, 2000);
        assert_int_equal(p.item[5].output_tokens, 128);
        if (way == 1) { /* 2000 at 50 a second: 40 s, give or take a few of its deviations of 0.9 s */
            const int64_t last = p.item[p.order[1999]].due_us;
            assert_true(last > 36000000 && last < 44000000);
        }
        tool_replay_plan_done(&p);
    }
}

static void what_the_trace_says_failed_is_passed_over_and_counted(void **state)
{
    (void)state;
    tool_replay_plan p;
    bt_trace_row r = row(0, 10, 0);
    r.is_failed = true;
    begin(&p);
    add(&p, r, &usual);
    add(&p, row(1, 10, 10), &usual);
    assert_int_equal(tool_replay_plan_end(&p, &usual, NULL), BT_OK);
    assert_int_equal(p.len, 1);
    assert_int_equal(p.passed_over, 1);
    tool_replay_plan_done(&p);
    begin(&p);
    add(&p, r, &usual);
    assert_int_equal(tool_replay_plan_end(&p, &usual, NULL), BT_EARG);
    tool_replay_plan_done(&p);
}

static void a_captured_prompt_is_kept_with_its_sampling_and_answer(void **state)
{
    (void)state;
    static const int32_t ids[] = {5, 6, 7};
    const bt_trace_captured c = {
        .outcome = BT_TRACE_STOP, .max_tokens = 99,  .sampling = {.temperature = 0.5f, .seed = 4},
        .has_text = true,         .prompt_ids = ids, .prompt_len = 3,
        .text = "hello",          .text_bytes = 5};
    tool_replay_plan p;
    tool_replay_plan_options o = usual;
    bt_trace_row r = row(0, 3, 2);
    r.captured = &c;
    begin(&p);
    add(&p, row(0, 1, 1), &o);
    add(&p, r, &o);
    assert_int_equal(tool_replay_plan_end(&p, &o, NULL), BT_OK);
    const tool_replay_item *i = &p.item[1];
    assert_true(i->has_answer && i->ends_itself);
    assert_int_equal(i->ids_len, 3);
    assert_int_equal(p.ids[i->ids_at + 2], 7);
    assert_int_equal(i->output_tokens, 99);
    assert_true(p.sampling[i->sampling].seed == 4);
    uint64_t h = tool_replay_text_hash(TOOL_REPLAY_TEXT_HASH, "hel", 3); /* in pieces, as a stream gives it */
    assert_true(tool_replay_text_hash(h, "lo", 2) == i->answer_hash);
    assert_int_equal(p.item[0].sampling, TOOL_REPLAY_NONE);
    tool_replay_plan_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_go_in_the_order_of_their_arrivals_and_as_fast_as_asked),
        cmocka_unit_test(a_distance_of_batches_is_found_and_chance_is_not_taken_for_one),
        cmocka_unit_test(batches_are_spread_the_same_way_for_one_seed),
        cmocka_unit_test(without_jitter_batches_stay_batches),
        cmocka_unit_test(a_turn_with_a_delay_waits_for_the_turn_before_it),
        cmocka_unit_test(what_does_not_fit_the_context_is_refused_scaled_or_cut),
        cmocka_unit_test(the_tokens_of_a_block_are_inferred_given_or_asked_for),
        cmocka_unit_test(a_trace_without_times_needs_a_rate_or_a_number_at_a_time),
        cmocka_unit_test(what_the_trace_says_failed_is_passed_over_and_counted),
        cmocka_unit_test(a_captured_prompt_is_kept_with_its_sampling_and_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
