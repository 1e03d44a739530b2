/* The time of sparse attention on a device, written out once more from what a row sees and keeps, position by
 * position; and what a chunk's price has of it. */
#include "device/sparse.h"
#include "device/time.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { HEADS = 6, KV_HEADS = 2, DIM = 64, CASES = 60 };

/* 10^6 operations and 10^3 bytes a microsecond; launches of 700 ns, dispatches of 40, and 300 to wait. */
static bt_profile npu(void)
{
    bt_profile p = {.name = "npu"};
    p.time = (bt_profile_time){.is_given = true,    .f16_ops_per_us = 1000000, .memory_bytes_per_us = 1000,
                               .op_launch_ns = 700, .dispatch_ns = 40,         .sync_ns = 300};
    return p;
}
static bt_profile companion(void)
{
    bt_profile p = {.name = "companion"};
    p.time = (bt_profile_time){.is_given = true, .f16_ops_per_us = 100000, .memory_bytes_per_us = 4000,
                               .sync_ns = 200};
    return p;
}

static bt_sparse drawn(uint64_t seed, uint64_t *first, uint64_t *rows)
{
    uint64_t n = 0;
    bt_sparse s = {.heads = HEADS, .kv_heads = KV_HEADS, .head_dim = DIM, .kv_elem_bits = 16};
    s.rows = 1u << bt_rng_u64(seed, n++) % 5;
    s.is_group = bt_rng_u64(seed, n++) % 2;
    for (uint32_t i = 0; i < HEADS; i++) s.ppm[i] = 1 + (uint32_t)(bt_rng_u64(seed, n++) % 1000000);
    *first = bt_rng_u64(seed, n++) % 40 * 16;
    *rows = 1 + bt_rng_u64(seed, n++) % 200;
    return s;
}

static double upper(double a, double b) { return a > b ? a : b; }
static double lower(double a, double b) { return a < b ? a : b; }

/* Sums over rows, one by one; blocks of rows that share a choice begin with the first. */
static void takes_what_its_rows_see_and_keep(void **state)
{
    (void)state;
    const bt_profile n = npu(), c = companion();
    for (uint64_t seed = 0; seed < CASES; seed++) {
        uint64_t first, rows;
        const bt_sparse s = drawn(seed, &first, &rows);
        const bt_sparse_engines e = {&n, &c, BT_SCHEDULE_COMPANION};
        bt_heads_plan plan;
        const bt_sparse_cost got = bt_sparse_layer(&s, &e, first, rows, 0, &plan);
        const uint32_t together = s.is_group ? HEADS / KV_HEADS : 1, lists = HEADS / together;
        double pairs = 0, kept = 0, npu_ns = 300 + plan.launches * (700.0 + 40 + 300), choose = 0, attend = 0;
        for (uint64_t r = 0; r < rows; r++) pairs += (double)(first + r + 1);
        const double choosing = (double)((rows + s.rows - 1) / s.rows), columns = (double)(first + rows);
        for (uint32_t l = 0; l < lists; l++) {
            double own = 0;
            for (uint32_t h = l * together; h < (l + 1) * together; h++)
                own += lower(pairs, pairs * s.ppm[h] / 1e6 + (double)(rows * (s.rows - 1) / 2));
            kept += own;
            npu_ns += upper(upper(choosing * DIM * columns * 2 / 1e3, DIM * columns),
                            choosing * (DIM + 4 * columns));
            choose += pairs / s.rows * 8 / 4;
            attend +=
                upper(own * 4 * DIM / 100,
                      lower(own / together / s.rows, (double)((rows + 15) / 16) * columns) * 4 * DIM / 4);
        }
        const double prepare = 5 * (KV_HEADS * columns + lists * choosing) * DIM / 4;
        const double about = 1e-6 * (npu_ns + choose + attend) + 6 * HEADS;
        assert_true((double)got.busy_ns[BT_SCHEDULE_NPU] > npu_ns - about &&
                    (double)got.busy_ns[BT_SCHEDULE_NPU] < npu_ns + about);
        const double other = choose + attend + prepare, off = 0.02 * other + about; /* whole lists are rounded
                                                                                     */
        if ((double)got.busy_ns[BT_SCHEDULE_COMPANION] < other - off ||
            (double)got.busy_ns[BT_SCHEDULE_COMPANION] > other + off)
            fail_msg("seed %d: %llu, not %.0f", (int)seed,
                     (unsigned long long)got.busy_ns[BT_SCHEDULE_COMPANION], other);
        assert_true((double)got.kept > kept - HEADS - 1 && (double)got.kept < kept + HEADS + 1);
        assert_true(got.ns >= got.busy_ns[BT_SCHEDULE_NPU] && got.ns >= got.busy_ns[BT_SCHEDULE_COMPANION]);
        assert_int_equal(got.ns,
                         plan.ns + (got.busy_ns[BT_SCHEDULE_NPU] - plan.busy_ns[BT_SCHEDULE_NPU]) +
                             (got.busy_ns[BT_SCHEDULE_COMPANION] - plan.busy_ns[BT_SCHEDULE_COMPANION]));
    }
}

static void a_program_static_in_its_context_estimates_all_its_columns(void **state)
{
    (void)state;
    const bt_profile n = npu(), c = companion();
    const bt_sparse_engines e = {&n, &c, BT_SCHEDULE_COMPANION};
    uint64_t first, rows;
    const bt_sparse s = drawn(1, &first, &rows);
    const bt_sparse_cost open = bt_sparse_layer(&s, &e, first, rows, 0, NULL),
                         fixed = bt_sparse_layer(&s, &e, first, rows, 4 * (first + rows), NULL);
    assert_true(fixed.busy_ns[BT_SCHEDULE_NPU] > open.busy_ns[BT_SCHEDULE_NPU]);
    assert_int_equal(fixed.busy_ns[BT_SCHEDULE_COMPANION], open.busy_ns[BT_SCHEDULE_COMPANION]);
}

static void a_float_unit_of_the_npu_takes_attention_off_the_companion(void **state)
{
    (void)state;
    const bt_profile n = npu(), c = companion();
    const bt_sparse_engines on_npu = {&n, &c, BT_SCHEDULE_NPU}, beside = {&n, &c, BT_SCHEDULE_COMPANION};
    uint64_t first, rows;
    const bt_sparse s = drawn(2, &first, &rows);
    const bt_sparse_cost a = bt_sparse_layer(&s, &on_npu, first, rows, 0, NULL),
                         b = bt_sparse_layer(&s, &beside, first, rows, 0, NULL);
    assert_true(a.busy_ns[BT_SCHEDULE_NPU] > b.busy_ns[BT_SCHEDULE_NPU]);
    assert_true(a.busy_ns[BT_SCHEDULE_COMPANION] < b.busy_ns[BT_SCHEDULE_COMPANION]);
    assert_int_equal(a.ops, b.ops);
}

/* On a chip whose companion has a CPU's rate, as shadowAttn's: a fifth of the positions, and more of the
 * time. */
static void few_positions_pay_where_the_companion_is_slow(void **state)
{
    (void)state;
    bt_profile n = npu(), c = companion();
    bt_sparse s = {.heads = HEADS, .kv_heads = KV_HEADS, .head_dim = DIM, .kv_elem_bits = 16, .rows = 1};
    for (int i = 0; i < HEADS; i++) s.ppm[i] = 200000;
    c.time.f16_ops_per_us = 1000;
    const bt_time_attention all = {.rows = 256,          .pairs = 256 * 2048 + 256 * 257 / 2,
                                   .ctx = 2048 + 256,    .heads = HEADS,
                                   .kv_heads = KV_HEADS, .head_dim = DIM,
                                   .kv_elem_bits = 16};
    const bt_sparse_engines e = {&n, &c, BT_SCHEDULE_COMPANION};
    const double a = (double)bt_time_of_attention(&c, &all),
                 b = (double)bt_sparse_layer(&s, &e, 2048, 256, 0, NULL).ns;
    print_message("attention of 256 rows behind 2,048: %.2f times as fast\n", a / b);
    assert_true(a > 3 * b && a < 5 * b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_its_rows_see_and_keep),
        cmocka_unit_test(a_program_static_in_its_context_estimates_all_its_columns),
        cmocka_unit_test(a_float_unit_of_the_npu_takes_attention_off_the_companion),
        cmocka_unit_test(few_positions_pay_where_the_companion_is_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
