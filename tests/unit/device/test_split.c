/* A matrix over two engines: cuts by hand, every cut by a plain search, and what each figure of a profile
 * decides. */
#include "device/split.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static bt_profile device(uint64_t ops_per_us, uint64_t bytes_per_us)
{
    return (bt_profile){.tile_cols = 1, .time = {.is_given = true, .f16_ops_per_us = ops_per_us,
                                                 .memory_bytes_per_us = bytes_per_us}};
}

static bt_time_matrix matrix(uint64_t rows, uint64_t inputs, uint64_t outputs)
{
    return (bt_time_matrix){.rows = rows, .inputs = inputs, .outputs = outputs, .weight_bits = 8,
                            .input_bits = 8};
}

static void equal_engines_take_half_each_and_the_join_is_paid_once(void **state)
{
    (void)state;
    bt_profile a = device(1000, 1000000000), b = a;
    const bt_time_matrix m = matrix(10, 100, 64);
    /* 2 * 10 * 100 * 64 / 1000 = 128 us alone */
    bt_split s = bt_split_solve(&a, &b, &m);
    assert_int_equal(s.way, BT_SPLIT_OUTPUTS);
    assert_int_equal(s.rows, 10);
    assert_int_equal(s.outputs, 32);
    assert_int_equal(s.ns, 64000);
    a.time.sync_ns = 7000, b.time.sync_ns = 9000; /* the longer one */
    s = bt_split_solve(&a, &b, &m);
    assert_int_equal(s.ns, 64000 + 9000);
    b.time.sync_ns = 64000; /* as long alone, and then alone */
    s = bt_split_solve(&a, &b, &m);
    assert_int_equal(s.way, BT_SPLIT_NPU);
    assert_int_equal(s.ns, 128000);
    /* 320 bytes come over at 10 a microsecond: 32 us; fewer outputs for the other are better */
    b.time.sync_ns = a.time.sync_ns = 0;
    a.boundary_bytes_per_us = 10;
    const bt_split half = bt_split_at(&a, &b, &m, 10, 32);
    assert_int_equal(half.ns, 64000 + 32000);
    s = bt_split_solve(&a, &b, &m);
    assert_true(s.outputs >= 32 && s.ns <= half.ns);
}

/* AC-o1: each engine reads 42.5 GB/s; together they reach 60, not 85. */
static void two_engines_that_read_are_held_at_what_the_chip_reaches(void **state)
{
    (void)state;
    bt_profile a = device(1000000000, 42500), b = a;
    const bt_time_matrix m = matrix(1, 4096, 4096);
    const double bytes = 4096. * 4096, alone = bytes / 42500 * 1e3;
    bt_split s = bt_split_solve(&a, &b, &m);
    assert_int_equal(s.way, BT_SPLIT_OUTPUTS); /* 1:1, as HeteroLLM has it */
    assert_true(s.outputs > 2040 && s.outputs < 2056);
    assert_true((double)s.ns < 1.01 * alone / 2);
    a.time.shared_bytes_per_us = 60000;
    s = bt_split_solve(&a, &b, &m);
    assert_int_equal(s.way, BT_SPLIT_OUTPUTS);
    assert_true((double)s.ns > bytes / 60000 * 1e3 && (double)s.ns < 1.01 * bytes / 60000 * 1e3);
    a.time.shared_bytes_per_us = 42500; /* a second reader gains nothing */
    assert_int_equal(bt_split_solve(&a, &b, &m).way, BT_SPLIT_NPU);
}

static void rows_beyond_whole_tiles_go_to_the_companion(void **state)
{
    (void)state;
    bt_profile a = device(32000, 1000000000), b = device(2000, 1000000000);
    a.tile_input_rows = 32;
    a.tile_cols = 4096;
    bt_time_matrix m = matrix(33, 1000, 1600);
    /* alone 64 rows: 6.4 ms; 32 rows are 3.2 ms and the last one, beside them, 1.6 ms */
    bt_split s = bt_split_solve(&a, &b, &m);
    assert_int_equal(s.way, BT_SPLIT_ROWS);
    assert_int_equal(s.rows, 32);
    assert_int_equal(s.npu_ns, 3200000);
    assert_int_equal(s.companion_ns, 1600000);
    assert_int_equal(s.ns, 3200000);
    /* where columns may be cut too, the companion has time for some of them */
    a.tile_cols = 32;
    s = bt_split_solve(&a, &b, &m);
    assert_int_equal(s.way, BT_SPLIT_BOTH);
    assert_int_equal(s.rows, 32);
    assert_true(s.outputs < 1600 && s.ns < 3200000);
    m.rows = 64; /* nothing is left over */
    assert_int_equal(bt_split_solve(&a, &b, &m).way, BT_SPLIT_OUTPUTS);
}

/* AC-d4's figure decides who computes. */
static void scales_for_each_32_inputs_move_work_to_the_companion(void **state)
{
    (void)state;
    bt_profile npu, gpu;
    assert_int_equal(bt_profile_load(&npu, "hexagon-v75", NULL), BT_OK);
    assert_int_equal(bt_profile_load(&gpu, "adreno-750", NULL), BT_OK);
    bt_time_matrix m = matrix(256, 4096, 11008);
    m.weight_bits = 4;
    const bt_split plain = bt_split_solve(&npu, &gpu, &m);
    m.group = 32;
    const bt_split grouped = bt_split_solve(&npu, &gpu, &m);
    print_message("%u: %.2f ms; in groups %u: %.2f ms, alone %.2f ms\n", (unsigned)plain.outputs,
                  (double)plain.ns / 1e6, (unsigned)grouped.outputs, (double)grouped.ns / 1e6,
                  (double)bt_time_of_matrix(&npu, &m) / 1e6);
    assert_true(grouped.way != BT_SPLIT_NPU);
    assert_true(grouped.rows * grouped.outputs < plain.rows * plain.outputs);
    assert_true(grouped.ns < bt_time_of_matrix(&npu, &m));
    npu.time.group32_permille = 0;
    assert_int_equal(bt_split_solve(&npu, &gpu, &m).ns, plain.ns);
}

/* ---- any profile: a plain search over every cut, with the sum written out ---- */

static uint64_t plain_time(const bt_profile *p, const bt_time_matrix *m, uint64_t rows, uint64_t outputs)
{
    bt_time_matrix part = *m;
    part.rows = rows, part.outputs = outputs;
    return rows && outputs ? bt_time_of_matrix(p, &part) : 0;
}

static uint64_t up(uint64_t n, uint64_t by) { return (n + by - 1) / by; }

static uint64_t plain_bytes(const bt_time_matrix *m, uint64_t rows, uint64_t outputs)
{
    if (!rows || !outputs) return 0;
    return m->inputs * up(outputs * m->weight_bits, 8) + rows * up((m->inputs + outputs) * m->input_bits, 8);
}

static uint64_t plain_cut(const bt_profile *a, const bt_profile *b, const bt_time_matrix *m, uint64_t rows,
                          uint64_t outputs)
{
    const uint64_t left = m->rows - rows, beside = m->outputs - outputs;
    const uint64_t on_a = plain_time(a, m, rows, outputs),
                   on_b = plain_time(b, m, rows, beside) + plain_time(b, m, left, m->outputs);
    if (rows == m->rows && outputs == m->outputs) return on_a;
    uint64_t ns = on_a > on_b ? on_a : on_b;
    if (rows) {
        const uint64_t of_a = plain_bytes(m, rows, outputs),
                       of_b = plain_bytes(m, rows, beside) + plain_bytes(m, left, m->outputs);
        const uint64_t bounds[] = {
            up(of_a * 1000, a->time.memory_bytes_per_us), up(of_b * 1000, b->time.memory_bytes_per_us),
            a->time.shared_bytes_per_us ? up((of_a + of_b) * 1000, a->time.shared_bytes_per_us) : 0};
        for (int i = 0; i < 3; i++) ns = bounds[i] > ns ? bounds[i] : ns;
    }
    const uint64_t written =
        (rows ? rows * up(beside * m->input_bits, 8) : 0) + left * up(m->outputs * m->input_bits, 8);
    ns += a->time.sync_ns > b->time.sync_ns ? a->time.sync_ns : b->time.sync_ns;
    return ns + (a->boundary_bytes_per_us ? up(written * 1000, a->boundary_bytes_per_us) : 0);
}

static void nothing_is_better_than_what_the_solver_finds(void **state)
{
    (void)state;
    enum { SEED = 17, CASES = 300 };
    uint64_t rng = 0, ways[BT_SPLIT_WAYS] = {0};
    for (int k = 0; k < CASES; k++) {
        uint64_t draw[18];
        for (int i = 0; i < 18; i++) draw[i] = bt_rng_u64(SEED, rng++);
        bt_profile a = device(1000 + (draw[0] % 100000), 100 + (draw[1] % 5000)),
                   b = device(1000 + (draw[2] % 50000), 100 + (draw[3] % 5000));
        a.tile_input_rows = (draw[4] % 2) ? 32 : 0;
        a.tile_cols = (draw[5] % 2) ? 32 : 8;
        a.time.op_launch_ns = (uint32_t)(draw[6] % 50000), b.time.op_launch_ns = (uint32_t)(draw[7] % 50000);
        a.time.sync_ns = (uint32_t)(draw[8] % 100000), b.time.sync_ns = (uint32_t)(draw[9] % 100000);
        a.time.shared_bytes_per_us = (draw[10] % 2) ? 100 + (draw[11] % 6000) : 0;
        a.boundary_bytes_per_us = (draw[12] % 2) ? 100 + (draw[13] % 6000) : 0;
        bt_time_matrix m = matrix(1 + (draw[14] % 200), 1 + (draw[15] % 300), 1 + (draw[16] % 500));
        m.weight_bits = (draw[17] % 2) ? 8 : 4;
        const bt_split s = bt_split_solve(&a, &b, &m);
        ways[s.way]++;
        assert_int_equal(s.ns, plain_cut(&a, &b, &m, s.rows, s.outputs));
        const uint64_t tile = a.tile_input_rows ? 32 : 1, whole = m.rows / tile * tile;
        assert_true(s.ns <= plain_cut(&a, &b, &m, 0, 0));
        for (uint64_t r = tile, last = 0; !last; r *= 2) {
            const uint64_t rows[] = {r < whole ? r : m.rows, whole ? whole : m.rows};
            last = r >= whole;
            for (int i = 0; i < 2; i++)
                for (uint64_t n = a.tile_cols; n < m.outputs + a.tile_cols; n += a.tile_cols)
                    if (plain_cut(&a, &b, &m, rows[i], n < m.outputs ? n : m.outputs) < s.ns)
                        fail_msg("case %d: %u rows, %u outputs are better", k, (unsigned)rows[i],
                                 (unsigned)n);
        }
    }
    for (int w = 0; w < BT_SPLIT_WAYS; w++) {
        static const char *const names[] = {BT_SPLIT_NAMES};
        print_message("%s: %u\n", names[w], (unsigned)ways[w]);
        assert_true(ways[w] > 0); /* each is best somewhere */
    }
}

static void times_of_divided_matrices_end_at_the_largest_number(void **state)
{
    (void)state;
    const bt_profile a = device(1, 1);
    const bt_time_matrix m = matrix(UINT64_C(1) << 40, UINT64_C(1) << 40, 4);
    assert_int_equal(bt_split_solve(&a, &a, &m).ns, INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_engines_take_half_each_and_the_join_is_paid_once),
        cmocka_unit_test(two_engines_that_read_are_held_at_what_the_chip_reaches),
        cmocka_unit_test(rows_beyond_whole_tiles_go_to_the_companion),
        cmocka_unit_test(scales_for_each_32_inputs_move_work_to_the_companion),
        cmocka_unit_test(nothing_is_better_than_what_the_solver_finds),
        cmocka_unit_test(times_of_divided_matrices_end_at_the_largest_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
