/* Prices of a prompt and of a step on a device of round numbers, against sums made by hand. */
#include "device/work.h"
#include "tests/helpers/brain/toy_price.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static bt_profile profile;

static bt_work_run run_of(uint64_t first, uint64_t end, uint64_t covered, bool is_whole)
{
    const bt_work_prefill d = toy_device(&profile);
    const bt_work_prompt p = {first, end, covered, is_whole};
    return bt_work_of_prompt(&d, &p);
}

static void a_prompt_is_its_chunks_and_what_it_pays_once(void **state)
{
    (void)state;
    /* 64 rows, then 36 in a program of 64 */
    const bt_work_run r = run_of(0, 100, 0, false);
    assert_int_equal(r.work.ns, 50000 + 1600000 + 1600000 + 30000);
    assert_int_equal(r.sum.chunks, 2);
    /* 1,600,000 operations at 2,000 a microsecond */
    assert_int_equal(r.work.ideal_ns, 800000);
    assert_int_equal(run_of(64, 64, 0, false).work.ns, 0);
}

static void rows_leave_layer_by_layer_and_wait_for_the_wire(void **state)
{
    (void)state;
    const bt_work_run r = run_of(0, 100, 0, false);
    /* layers of the first chunk are ready at 850 and 1,650 us and take 640 each, those of the second at 2,450
     * and 3,250 and take 360: the last arrives at 3,610, the prompt ends at 3,280 */
    assert_int_equal(r.transfer_ns, 2000000);
    assert_int_equal(r.exposed_ns, 330000);
}

static void what_the_decode_node_has_is_not_sent_and_what_is_kept_leaves_first(void **state)
{
    (void)state;
    bt_work_run r = run_of(0, 100, 64, false);
    assert_int_equal(r.transfer_ns, 720000);
    assert_int_equal(r.exposed_ns, 330000);
    r = run_of(64, 100, 0, false);
    /* 1,280 us of kept rows from the beginning on; the chunk's layers are ready at 850 and 1,650, the prompt
     * over at 1,680: 1,640 and 2,010 */
    assert_int_equal(r.work.ns, 1680000);
    assert_int_equal(r.transfer_ns, 2000000);
    assert_int_equal(r.exposed_ns, 330000);
    assert_int_equal(run_of(0, 100, 100, false).transfer_ns, 0);
}

static void a_whole_prompt_is_sent_when_its_last_chunk_is_over(void **state)
{
    (void)state;
    const bt_work_run r = run_of(0, 100, 0, true);
    assert_int_equal(r.work.ns, 3280000);
    assert_int_equal(r.transfer_ns, 2000000);
    assert_int_equal(r.exposed_ns, 3250000 + 2000000 - 3280000);
}

/* 20 + 30 rows in one program of 64, first use once, two output matrices; all rows leave when they are over.
 */
static void prompts_of_a_batch_are_one_chunk(void **state)
{
    (void)state;
    const bt_work_prefill d = toy_device(&profile);
    const bt_work_prompt p[] = {{0, 20, 0, true}, {16, 46, 0, true}, {0, 50, 50, false}};
    const bt_work_run r = bt_work_of_prompts(&d, p, 2);
    assert_int_equal(r.sum.chunks, 1);
    assert_int_equal(r.work.ns, 50000 + 1600000 + 2 * 30000);
    assert_int_equal(r.transfer_ns, (20 + 46) * 20000);
    assert_int_equal(r.exposed_ns, r.transfer_ns - 2 * 30000);
    /* what a single one has is its own */
    const bt_work_run alone = bt_work_of_prompts(&d, &p[2], 1), same = bt_work_of_prompt(&d, &p[2]);
    assert_memory_equal(&alone, &same, sizeof same);
    /* more than a program holds: one after the other, as a prompt of so many rows */
    assert_int_equal(bt_work_of_prompts(&d, p, 3).work.ns, 50000 + 2 * 1600000 + 3 * 30000);
}

/* The first of two layers has a window of 64: of 200 rows it sends those from 128 on. */
static void a_window_layer_sends_what_later_rows_see(void **state)
{
    (void)state;
    bt_work_prefill d = toy_device(&profile);
    d.kv.window = 64;
    d.kv.global_every = TOY_LAYERS;
    const struct {
        bt_work_prompt p;
        uint64_t rows[TOY_LAYERS];
    } at[] = {{{0, 64, 0, false}, {64, 64}},      {{0, 200, 0, false}, {72, 200}},
              {{0, 200, 0, true}, {72, 200}},     {{150, 200, 0, false}, {72, 200}},
              {{150, 200, 150, false}, {50, 50}}, {{0, 200, 100, false}, {72, 100}},
              {{0, 200, 200, false}, {0, 0}}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const bt_work_run r = bt_work_of_prompt(&d, &at[i].p);
        assert_int_equal(r.transfer_ns, (at[i].rows[0] + at[i].rows[1]) * 10000);
    }
    const bt_work_prompt two[] = {{0, 200, 0, true}, {0, 64, 0, true}};
    assert_int_equal(bt_work_of_prompts(&d, two, 2).transfer_ns, (72 + 200 + 64 + 64) * 10000);
}

static void without_a_link_nothing_is_sent(void **state)
{
    (void)state;
    bt_work_prefill d = toy_device(&profile);
    d.link.bits_per_us = 0;
    const bt_work_run r = bt_work_of_prompt(&d, &(bt_work_prompt){.end = 100});
    assert_int_equal(r.transfer_ns, 0);
    assert_int_equal(r.exposed_ns, 0);
}

static void a_step_counts_the_rows_and_contexts_of_all_its_sequences(void **state)
{
    (void)state;
    bt_price_step got = {0};
    bt_work_step_add(&got, 99, 1, 1, 0); /* row 99 sees 100 columns */
    bt_work_step_add(&got, 10, 3, 1, 0); /* rows 10..12 see 11, 12 and 13 */
    assert_int_equal(got.rows, 4);
    assert_int_equal(got.logits, 2);
    assert_int_equal(got.all.pairs, 100 + 36);
    assert_int_equal(got.all.positions, 100 + 13);
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, "a100", NULL), BT_OK);
    const bt_price_recipe f16 = {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16};
    const bt_price_model m = bt_price_model_of(bt_dims_find("llama-3.1-8b"), &f16);
    const bt_work w = bt_work_of_step(&p, &m, &got);
    const bt_price_sum s = bt_price_step_of(&p, &m, &got);
    assert_int_equal(w.ns, s.ns);
    assert_int_equal(w.ideal_ns, bt_time_scale(s.bytes, 1000, p.time.memory_bytes_per_us));
    assert_true(w.ideal_ns < w.ns);
    /* everybody waits for all of it, and has a share of the rest */
    const bt_work part = bt_work_share(&w, 3, 4);
    assert_int_equal(part.ns, w.ns);
    assert_int_equal(part.ideal_ns, bt_time_scale(w.ideal_ns, 3, 4));
    assert_int_equal(part.nj, bt_time_scale(w.nj, 3, 4));
    assert_int_equal(part.energy, w.energy);
}

static void energy_of_a_sum_is_known_where_that_of_each_part_is(void **state)
{
    (void)state;
    const bt_work none = {.ns = 1}, terms = {1, 1, 5, BT_ENERGY_TERMS}, tdp = {1, 1, 7, BT_ENERGY_TDP};
    bt_work sum = {0};
    bt_work_add(&sum, &terms);
    assert_int_equal(sum.energy, BT_ENERGY_TERMS);
    bt_work_add(&sum, &tdp);
    assert_int_equal(sum.energy, BT_ENERGY_TDP);
    assert_int_equal(sum.nj, 12);
    bt_work_add(&sum, &none);
    assert_int_equal(sum.energy, BT_ENERGY_NONE);
    bt_work_add(&sum, &terms);
    assert_int_equal(sum.energy, BT_ENERGY_NONE);
    assert_int_equal(sum.ns, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_is_its_chunks_and_what_it_pays_once),
        cmocka_unit_test(rows_leave_layer_by_layer_and_wait_for_the_wire),
        cmocka_unit_test(what_the_decode_node_has_is_not_sent_and_what_is_kept_leaves_first),
        cmocka_unit_test(a_whole_prompt_is_sent_when_its_last_chunk_is_over),
        cmocka_unit_test(prompts_of_a_batch_are_one_chunk),
        cmocka_unit_test(a_window_layer_sends_what_later_rows_see),
        cmocka_unit_test(without_a_link_nothing_is_sent),
        cmocka_unit_test(a_step_counts_the_rows_and_contexts_of_all_its_sequences),
        cmocka_unit_test(energy_of_a_sum_is_known_where_that_of_each_part_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
