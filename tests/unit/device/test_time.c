/* The terms of an operator's time against values computed by hand, and the laws that others measured. */
#include "device/time.h"
#include "device/energy.h"
#include "device/on_chip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static bt_profile profile(const char *name)
{
    bt_profile p;
    bt_fault f = {""};
    if (bt_profile_load(&p, name, &f) < 0) fail_msg("%s: %s", name, f.text);
    return p;
}

static uint64_t matrix(const bt_profile *p, uint64_t rows, uint64_t inputs, uint64_t outputs)
{
    const bt_time_matrix m = {.rows = rows, .inputs = inputs, .outputs = outputs, .weight_bits = 8,
                              .input_bits = 8};
    return bt_time_of_matrix(p, &m);
}

static void each_term_is_what_a_hand_computes(void **state)
{
    (void)state;
    bt_profile p = {.time = {.is_given = true, .f16_ops_per_us = 1000, .int8_permille = 2000,
                             .memory_bytes_per_us = 100, .weight_bytes_per_us = 10,
                             .activation_bytes_per_us = 20, .op_launch_ns = 7}};
    /* compute 2 * 50 * 100 * 40 / 2000 = 200 us, weights 4000 / 10 = 400 us, passing 50 * 140 / 20 = 350 us
     */
    assert_int_equal(matrix(&p, 50, 100, 40), 400000 + 7);
    p.time.weight_bytes_per_us = 100; /* 40 us: what passes is the longest */
    assert_int_equal(matrix(&p, 50, 100, 40), 350000 + 7);
    p.time.activation_bytes_per_us = 100; /* 70 us: the products are */
    assert_int_equal(matrix(&p, 50, 100, 40), 200000 + 7);
    p.tile_input_rows = 32; /* 64 rows */
    assert_int_equal(matrix(&p, 50, 100, 40), 256000 + 7);
    p.time.points = 2;
    p.time.efficiency[0].rows = 32, p.time.efficiency[0].permille = 200;
    p.time.efficiency[1].rows = 96, p.time.efficiency[1].permille = 600; /* 400 at 64 */
    assert_int_equal(matrix(&p, 50, 100, 40), 640000 + 7);
    /* an array of 64 x 16, 2 of them, at 1 MHz: folds 2 * 3, each 64 + 16 - 2 + 64 cycles, half as long in
     * int8 */
    p.time.array_rows = 64, p.time.array_cols = 16, p.time.arrays = 2, p.time.clock_khz = 1000;
    assert_int_equal(matrix(&p, 50, 100, 40), (2 * 3 * (64 + 16 - 2 + 64) / 2) * 1000 / 2 + 7);
}

static void latency_is_flat_up_to_whole_tiles_of_rows(void **state)
{
    (void)state;
    const bt_profile p = profile("hexagon-v75");
    for (uint64_t n = 1; n <= 32; n++) assert_int_equal(matrix(&p, n, 4096, 4096), matrix(&p, 1, 4096, 4096));
    assert_int_equal(matrix(&p, 33, 4096, 4096), matrix(&p, 64, 4096, 4096));
    /* and longer where the products decide */
    bt_profile fast = p;
    fast.time.weight_bytes_per_us = fast.time.memory_bytes_per_us;
    assert_true(matrix(&fast, 257, 4096, 4096) > matrix(&fast, 256, 4096, 4096));
    assert_int_equal(matrix(&fast, 257, 4096, 4096), matrix(&fast, 288, 4096, 4096));
}

static void the_order_of_operands_decides_by_two_to_six_times(void **state)
{
    (void)state;
    /* HeteroLLM: [14336, 4096] by [4096, 128] */
    const bt_profile p = profile("hexagon-v75");
    const bt_time_matrix large_stays = {.rows = 128, .inputs = 4096, .outputs = 14336, .weight_bits = 16,
                                        .input_bits = 16};
    bt_time_matrix small_stays = large_stays;
    small_stays.is_weights_pass = true;
    const double ratio =
        (double)bt_time_of_matrix(&p, &large_stays) / (double)bt_time_of_matrix(&p, &small_stays);
    if (ratio < 2 || ratio > 6) fail_msg("%.2f", ratio);
}

static void two_engines_together_reach_60_gigabytes_a_second(void **state)
{
    (void)state;
    const bt_profile_time t = profile("hexagon-v75").time;
    /* 42.5 GB/s each: together they would be 85 */
    assert_int_equal(bt_time_two_engines(&t, 30000000, 42500, 30000000, 42500), 1000000);
    assert_int_equal(bt_time_two_engines(&t, 42500000, 42500, 100, 42500), 1000000);
    assert_true(bt_time_two_engines(&t, 42500000, 42500, 42500000, 42500) > 1400000);
}

static void a_scale_for_each_32_inputs_is_eight_to_eleven_times_slower(void **state)
{
    (void)state;
    const bt_profile p = profile("hexagon-v75");
    bt_time_matrix m = {.rows = 64, .inputs = 4096, .outputs = 11008, .weight_bits = 8, .input_bits = 8};
    const double plain = (double)bt_time_of_matrix(&p, &m);
    m.group = 32;
    const double ratio = (double)bt_time_of_matrix(&p, &m) / plain;
    if (ratio < 8 || ratio > 11) fail_msg("%.2f", ratio);
    m.group = 128; /* a quarter of the breaks */
    const double longer = (double)bt_time_of_matrix(&p, &m) / plain;
    assert_true(longer > 2.5 && longer < 3.2);
    /* a device that does not care is as fast */
    bt_profile other = p;
    other.time.group32_permille = 0;
    assert_true(bt_time_of_matrix(&other, &m) == (uint64_t)plain);
}

static void what_the_chip_cannot_hold_is_paid_for(void **state)
{
    (void)state;
    const bt_profile p = profile("hexagon-v75");
    /* 4096 x 11008 weights in bands of 32 outputs, 2048 rows of input: more than the 8 MiB of VTCM */
    const bt_on_chip_op op = {.bands = 344, .band_bytes = 32 * 4096, .units = 64, .unit_bytes = 32 * 4096,
                              .output_bytes = 4096};
    const bt_on_chip_plan plan = bt_on_chip_best(&op, p.on_chip_bytes), all = bt_on_chip_best(&op, 0);
    assert_true(bt_on_chip_spilled(&plan) > 0);
    assert_int_equal(bt_on_chip_spilled(&all), 0);
    bt_time_matrix m = {.rows = 2048, .inputs = 4096, .outputs = 11008, .weight_bits = 8, .input_bits = 8};
    const uint64_t held = bt_time_of_matrix(&p, &m);
    m.spill_bytes = bt_on_chip_spilled(&plan);
    assert_int_equal(bt_time_of_matrix(&p, &m),
                     held + bt_time_of(m.spill_bytes, p.time.activation_bytes_per_us));
}

static void attention_is_products_or_bytes_and_its_softmax(void **state)
{
    (void)state;
    bt_profile p = {
        .time = {.is_given = true, .f16_ops_per_us = 1000, .memory_bytes_per_us = 10, .op_launch_ns = 3}};
    const bt_time_attention a = {.rows = 10,    .pairs = 1000, .ctx = 100,        .heads = 4,
                                 .kv_heads = 2, .head_dim = 8, .kv_elem_bits = 16};
    /* 4 * 1000 * 4 * 8 / 1000 = 128 us; 100 * 2 * 2 * 8 * 2 / 10 = 640 us; 4000 scores at 100 = 40 us */
    assert_int_equal(bt_time_of_attention(&p, &a), 640000 + 3);
    p.time.score_elements_per_us = 100;
    assert_int_equal(bt_time_of_attention(&p, &a), 680000 + 3);
    p.time.memory_bytes_per_us = 1000;
    assert_int_equal(bt_time_of_attention(&p, &a), 168000 + 3);
}

static void times_end_at_the_largest_number(void **state)
{
    (void)state;
    assert_int_equal(bt_time_scale(UINT64_MAX, UINT64_MAX, 1), INT64_MAX);
    assert_int_equal(bt_time_scale(7, 3, 2), 11);
    assert_int_equal(bt_time_scale(UINT64_MAX, 3, UINT64_MAX), 3);
    assert_int_equal(bt_time_scale(7, 3, 0), 0);
    assert_int_equal(bt_time_plus(INT64_MAX, 1), INT64_MAX);
    const bt_profile slow = {.time = {.is_given = true, .f16_ops_per_us = 1, .memory_bytes_per_us = 1}};
    assert_int_equal(matrix(&slow, UINT64_C(1) << 40, UINT64_C(1) << 24, UINT64_C(1) << 24), INT64_MAX);
}

static void more_rows_never_take_less_time_between_two_points(void **state)
{
    (void)state;
    const bt_profile_time t = {.f16_ops_per_us = 311870000, .points = 2,
                               .efficiency = {{128, 329}, {2048, 688}}};
    uint64_t last = 0;
    assert_int_equal(bt_time_rate(&t, 1, 16, 16),
                     bt_time_scale(t.f16_ops_per_us, t.efficiency[0].permille, 1000));
    assert_int_equal(bt_time_rate(&t, 2048, 16, 16),
                     bt_time_scale(t.f16_ops_per_us, t.efficiency[1].permille, 1000));
    assert_int_equal(bt_time_rate(&t, 9999, 16, 16), bt_time_rate(&t, 2048, 16, 16));
    const bt_time_unit row = bt_time_unit_of(&t, 14000000000, t.f16_ops_per_us, 1);
    for (uint64_t rows = 1; rows < 4096; rows++) {
        const uint64_t ns = bt_time_of_units(&t, &row, rows, rows);
        assert_true(ns > last);
        last = ns;
    }
}

static void a_time_that_is_flat_between_two_points_stays_so_to_the_nanosecond(void **state)
{
    (void)state;
    const bt_profile_time t = {.f16_ops_per_us = 2800001, .points = 3,
                               .efficiency = {{8, 7}, {64, 56}, {1024, 896}}};
    const bt_time_unit row = bt_time_unit_of(&t, 14000000007, t.f16_ops_per_us, 3);
    const uint64_t flat = bt_time_of_units(&t, &row, 8, 8);
    /* 8 rows of 4.67 billion operations at 7 thousandths of 2.8 million a microsecond */
    assert_in_range(flat, 1904761200, 1904762000);
    for (uint64_t rows = 9; rows <= 1024; rows++)
        assert_int_equal(bt_time_of_units(&t, &row, rows, rows), flat);
    assert_true(bt_time_of_units(&t, &row, 1025, 1025) > flat);
    assert_int_equal(bt_time_of_units(&t, &row, 4, 4), (flat + 1) / 2);
    /* numbers that 64 bits do not hold: 10^6 rows of 10^12 operations */
    const bt_time_unit large = bt_time_unit_of(&t, 1000000000000, t.f16_ops_per_us, 1);
    assert_in_range(bt_time_of_units(&t, &large, 1000000, 1000000) / 1000000000, 398596, 398597);
}

static void a_row_behind_a_tile_computes_a_part_of_the_next(void **state)
{
    (void)state;
    bt_profile_time t = {.tile_rows = 256, .tile_permille = 250, .tile_int8_permille = 1000};
    assert_int_equal(bt_time_rows(&t, 1, 16), 1); /* the first tile is as long as its rows */
    assert_int_equal(bt_time_rows(&t, 256, 8), 256);
    assert_int_equal(bt_time_rows(&t, 257, 8), 512);
    assert_int_equal(bt_time_rows(&t, 257, 16), 257 + 64); /* a quarter of 255, rounded up */
    assert_int_equal(bt_time_rows(&t, 1024, 16), 1024);
    t.tile_int8_permille = 0;
    assert_int_equal(bt_time_rows(&t, 257, 8), 257 + 64);
    t.tile_rows = 0;
    assert_int_equal(bt_time_rows(&t, 257, 8), 257);
    /* of a matrix */
    bt_profile p = {.time = {.f16_ops_per_us = 1000, .memory_bytes_per_us = 1000000000, .tile_rows = 256,
                             .tile_permille = 1000}};
    const uint64_t whole = matrix(&p, 512, 64, 64), more = matrix(&p, 257, 64, 64);
    assert_int_equal(more, whole);
}

static void attention_of_a_step_is_that_of_the_nearest_head_size_and_then_group(void **state)
{
    (void)state;
    bt_profile_time t = {.kernels = 0};
    assert_null(bt_time_step_attention(&t, 128, 4));
    t = (bt_profile_time){.kernels = 4, .attention = {{.head_dim = 64, .group = 1},
                                                      {.head_dim = 128, .group = 1},
                                                      {.head_dim = 128, .group = 8},
                                                      {.head_dim = 128}}};
    assert_ptr_equal(bt_time_step_attention(&t, 64, 8), &t.attention[0]);
    assert_ptr_equal(bt_time_step_attention(&t, 80, 8), &t.attention[0]);
    assert_ptr_equal(bt_time_step_attention(&t, 256, 1), &t.attention[1]); /* the first of equals */
    assert_ptr_equal(bt_time_step_attention(&t, 128, 8), &t.attention[2]);
    assert_ptr_equal(bt_time_step_attention(&t, 128, 4), &t.attention[3]); /* of all groups */
    t.kernels = 3;
    assert_ptr_equal(bt_time_step_attention(&t, 128, 4), &t.attention[1]);
}

static void weights_that_are_decoded_pass_at_the_rate_of_weights(void **state)
{
    (void)state;
    bt_profile_time t = profile("ane-m2-ultra").time;
    assert_int_equal(bt_time_decode_rate(&t), 18300); /* not the memory's 800 GB/s */
    t.decode_bytes_per_us = 20000;
    assert_int_equal(bt_time_decode_rate(&t), 20000);
    t.decode_bytes_per_us = t.weight_bytes_per_us = 0;
    assert_int_equal(bt_time_decode_rate(&t), 800000);
}

static void a_group_sums_by_a_ring_or_in_one_shot_whatever_is_shorter(void **state)
{
    (void)state;
    bt_profile_time t = {.devices = 4, .interconnect_bytes_per_us = 450000, .interconnect_ns = 5000};
    /* 6 messages of a quarter of 9 MB at 450 GB/s: 5 us, and 5 us each; in one shot 27 MB: 60 us, and 5 us */
    assert_int_equal(bt_time_all_reduce(&t, 9000000), 6 * (5000 + 5000));
    /* 45 kB: in one shot 300 ns, and 5 us; the ring has 5 us six times */
    assert_int_equal(bt_time_all_reduce(&t, 45000), 5000 + 300);
    t.devices = 0;
    assert_int_equal(bt_time_all_reduce(&t, 9000000), 0);
}

static void measured_sums_are_a_table_by_devices_and_bytes(void **state)
{
    (void)state;
    bt_profile_time t = {.devices = 3, .interconnect_bytes_per_us = 1000, .interconnect_ns = 500000,
                         .sums = 4,
                         .all_reduce = {{2, 1000, 10}, {4, 4000, 100}, {4, 5000, 300}, {8, 9000, 100}}};
    t.devices = 4;
    assert_int_equal(bt_time_all_reduce(&t, 1), 4000);
    assert_int_equal(bt_time_all_reduce(&t, 200), 4500); /* half way */
    assert_int_equal(bt_time_all_reduce(&t, 300), 5000);
    assert_int_equal(bt_time_all_reduce(&t, 1300), 5000 + 5000); /* the line goes on */
    t.all_reduce[2].ns = 4100;
    assert_int_equal(bt_time_all_reduce(&t, 1300), 4100 + 1000); /* 1,000 bytes more at the rate */
    t.all_reduce[2].ns = 5000;
    t.devices = 3;
    assert_int_equal(bt_time_all_reduce(&t, 1), 2500);   /* between two and four */
    assert_int_equal(bt_time_all_reduce(&t, 200), 2940); /* 190 bytes more of two: 1,380 */
    t.all_reduce[0].ns = 9000;
    assert_int_equal(bt_time_all_reduce(&t, 1), 4000); /* two are slower than four */
    t.devices = 8;
    assert_int_equal(bt_time_all_reduce(&t, 1), 9000);
    t.devices = 9; /* no group is as large: a message of all bytes to eight others */
    assert_int_equal(bt_time_all_reduce(&t, 100), 500000 + 800);
    uint64_t last = 0;
    t = profile("h100x4").time;
    for (uint64_t bytes = 1; bytes < UINT64_C(1) << 31; bytes += bytes / 7 + 1) {
        const uint64_t ns = bt_time_all_reduce(&t, bytes);
        assert_true(ns >= last);
        last = ns;
    }
}

static void energy_is_five_terms_or_a_bound_or_nothing(void **state)
{
    (void)state;
    bt_profile_time t = {.idle_mw = 2000,   .op_fj = 370,    .byte_fj = 1000,
                         .polling_mw = 500, .busy_mw = 4000, .tdp_mw = 9};
    /* 1 ms: 2 W * 1 ms = 2 mJ, 10^9 ops * 0.37 pJ = 0.37 mJ, 10^6 bytes * 1 pJ = 1 uJ, 4.5 W * 0.5 ms =
     * 2.25 mJ */
    bt_energy e = bt_energy_of(&t, 1000000, 1000000000, 1000000, 500000);
    assert_int_equal(e.kind, BT_ENERGY_TERMS);
    assert_int_equal(e.nj, 2000000 + 370000 + 1000 + 2250000);
    t.memory_bytes_per_us = 60000;
    assert_string_equal(bt_energy_bound(&t), ""); /* the power has the memory's in it: 67 pJ a byte */
    t.busy_mw = 0;
    assert_string_equal(bt_energy_bound(&t), "at least"); /* 1 pJ a byte is less than any memory costs */
    t.byte_fj = 5000;
    assert_string_equal(bt_energy_bound(&t), "");
    t.byte_fj = 100001;
    assert_string_equal(bt_energy_bound(&t), "at most");
    t.byte_fj = 0;
    t.busy_mw = 6001;
    assert_string_equal(bt_energy_bound(&t), "at most");
    assert_string_equal(bt_energy_bound(&(bt_profile_time){.tdp_mw = 1}), "at most");
    assert_string_equal(bt_energy_bound(&(bt_profile_time){.tdp_mw = 0}), "");
    assert_string_equal(bt_energy_bound_both("", "at least"), "at least");
    assert_string_equal(bt_energy_bound_both("at most", ""), "at most");
    assert_string_equal(bt_energy_bound_both("at least", "at least"), "at least");
    assert_string_equal(bt_energy_bound_both("at most", "at least"), "no bound");
    assert_string_equal(bt_energy_bound_both("no bound", "at most"), "no bound");
    t = (bt_profile_time){.tdp_mw = 700000, .devices = 4};
    e = bt_energy_of(&t, 1000000, 5, 5, 5);
    assert_int_equal(e.kind, BT_ENERGY_TDP);
    assert_int_equal(e.nj, UINT64_C(4) * 700000000);
    t = (bt_profile_time){0};
    assert_int_equal(bt_energy_of(&t, 1, 1, 1, 1).kind, BT_ENERGY_NONE);
    t.idle_mw = 1000000;
    assert_int_equal(bt_energy_of(&t, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX).nj, INT64_MAX);
}

static void prompts_are_padded_to_whole_programs(void **state)
{
    (void)state;
    static const uint64_t want[][2] = {{0, 0},     {1, 16},    {16, 16},   {17, 64},
                                       {64, 64},   {65, 256},  {140, 256}, {256, 256},
                                       {257, 272}, {300, 320}, {321, 512}, {1024, 1024}};
    bt_profile_time t = {.programs = 3, .program_rows = {16, 64, 256}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(bt_time_program_rows(&t, want[i][0]), want[i][1]);
    assert_int_equal(bt_time_program_rows(&t, INT64_MAX), INT64_MAX);
    t.programs = 0;
    assert_int_equal(bt_time_program_rows(&t, 140), 140);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_term_is_what_a_hand_computes),
        cmocka_unit_test(latency_is_flat_up_to_whole_tiles_of_rows),
        cmocka_unit_test(the_order_of_operands_decides_by_two_to_six_times),
        cmocka_unit_test(two_engines_together_reach_60_gigabytes_a_second),
        cmocka_unit_test(a_scale_for_each_32_inputs_is_eight_to_eleven_times_slower),
        cmocka_unit_test(what_the_chip_cannot_hold_is_paid_for),
        cmocka_unit_test(attention_is_products_or_bytes_and_its_softmax),
        cmocka_unit_test(times_end_at_the_largest_number),
        cmocka_unit_test(more_rows_never_take_less_time_between_two_points),
        cmocka_unit_test(a_time_that_is_flat_between_two_points_stays_so_to_the_nanosecond),
        cmocka_unit_test(a_row_behind_a_tile_computes_a_part_of_the_next),
        cmocka_unit_test(prompts_are_padded_to_whole_programs),
        cmocka_unit_test(attention_of_a_step_is_that_of_the_nearest_head_size_and_then_group),
        cmocka_unit_test(weights_that_are_decoded_pass_at_the_rate_of_weights),
        cmocka_unit_test(a_group_sums_by_a_ring_or_in_one_shot_whatever_is_shorter),
        cmocka_unit_test(measured_sums_are_a_table_by_devices_and_bytes),
        cmocka_unit_test(energy_is_five_terms_or_a_bound_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
