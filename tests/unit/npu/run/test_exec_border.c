/* Conversions between floats and integers against their formulas, computed here in another way: for any bits
 * that a float may have, the edges of the integers, and both units that an s16 may have. */
#include "model/weight.h"
#include "npu/run/exec_private.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/rows.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { ROWS = 4, WIDTH = 16, ELEMS = ROWS * WIDTH, ROUNDS = 400 };

typedef struct world {
    char path[32];
    bt_pkg *pkg;
    bt_exec *x;
    uint8_t *arena;
} world;

static world begin(const char *isa)
{
    world w = {.path = "/tmp/baton-border-XXXXXX"};
    const tiny_pkg o = {.ops_all = true};
    const int fd = mkstemp(w.path);
    assert_true(fd >= 0);
    close(fd);
    tiny_pkg_write(w.path, &o);
    assert_int_equal(bt_pkg_open(&w.pkg, w.path, NULL), BT_OK);
    assert_int_equal(bt_exec_new(&w.x, w.pkg, bt_kernels_select(isa), NULL, NULL), BT_OK);
    w.arena = engine_kit_alloc(2 * ELEMS * 4);
    return w;
}

static void end(world *w)
{
    unlink(w->path);
    free(w->arena);
    bt_exec_free(w->x);
    bt_pkg_close(w->pkg);
}

/* One conversion of ELEMS elements at the arena's start; its result is in the arena's second half. */
static const void *convert(world *w, bt_pkg_op op, uint32_t in_bytes, uint32_t out_bytes, uint32_t tensor,
                           uint32_t site, const void *from, void (*run)(bt_exec_job *, const bt_pkg_inst *))
{
    const bt_exec_seq seq = {.valid = ROWS};
    const bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = ROWS};
    bt_exec_job j = bt_exec_job_of(w->x, bt_pkg_rows(w->pkg), BT_PKG_OUT_NONE, w->arena, &io, w->x->seq,
                                   w->x->overflow, w->x->ids);
    const bt_pkg_inst i = {.op = (uint8_t)op,
                           .group = 1,
                           .tensor = tensor,
                           .site = site,
                           .in_width = WIDTH,
                           .out_width = WIDTH,
                           .in1 = BT_PKG_NOWHERE,
                           .out = ELEMS * 4,
                           .aux = BT_PKG_NOWHERE,
                           .in_stride = WIDTH * in_bytes,
                           .out_stride = WIDTH * out_bytes};
    memcpy(w->arena, from, ELEMS * in_bytes);
    run(&j, &i);
    return w->arena + ELEMS * 4;
}

static uint32_t next(uint64_t *rng)
{
    *rng = *rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*rng >> 32);
}

/* Any bits; values near a tie of the unit; values near the limit. NaN only where padding would have it. */
static float any_float(uint64_t *rng, float unit, double limit)
{
    const uint32_t bits = next(rng), way = next(rng) % 4;
    float v;
    memcpy(&v, &bits, sizeof v);
    if (way == 1) v = ((float)(int32_t)(bits % 40001) - 20000 + 0.5f) * unit;
    if (way == 2) v = (float)((limit + (double)(bits % 9) - 4) * (double)unit) * (bits & 16 ? 1 : -1);
    if (way == 3) v = (float)(int32_t)bits * unit * 0x1p-14f;
    return v;
}

/* rint in double of the quotient as a float is exact; a NaN is the least number. */
static double quantised(float v, float unit, double limit)
{
    const float q = v / unit;
    if (isnan(q)) return -limit;
    return rint(fmin(fmax((double)q, -limit), limit));
}

static void floats_become_integers_by_one_rounding_to_nearest_even(void **state)
{
    (void)state;
    uint64_t rng = 99;
    assert_int_equal(fegetround(), FE_TONEAREST);
    for (size_t k = 0; k < bt_kernels_table_len; k++) {
        if (!rows_usable(&bt_kernels_table[k])) continue;
        world w = begin(bt_kernels_table[k].isa);
        const uint32_t q = bt_pkg_tensor_index(2, 0, BT_WEIGHT_Q);
        const float unit16 = bt_pkg_tensors(w.pkg)[q].out_scale, unit32 = w.x->header->residual_scale;
        const double limit32 = 0x1.fffffep29;
        for (int round = 0; round < ROUNDS; round++) {
            float v[ELEMS];
            for (int e = 0; e < ELEMS; e++) v[e] = any_float(&rng, unit16, 32639);
            const int16_t *s =
                convert(&w, BT_PKG_QUANTISE16, 4, 2, q, BT_PKG_NONE, v, bt_exec_border_quantise16);
            for (int e = 0; e < ELEMS; e++) assert_true((double)s[e] == quantised(v[e], unit16, 32639));
            for (int e = 0; e < ELEMS; e++) v[e] = any_float(&rng, unit32, limit32);
            const int32_t *r =
                convert(&w, BT_PKG_QUANTISE32, 4, 4, BT_PKG_NONE, BT_PKG_NONE, v, bt_exec_border_quantise32);
            for (int e = 0; e < ELEMS; e++) assert_true((double)r[e] == quantised(v[e], unit32, limit32));
        }
        end(&w);
    }
}

static void integers_become_floats_times_their_unit(void **state)
{
    (void)state;
    uint64_t rng = 7;
    for (size_t k = 0; k < bt_kernels_table_len; k++) {
        if (!rows_usable(&bt_kernels_table[k])) continue;
        world w = begin(bt_kernels_table[k].isa);
        const uint32_t q = bt_pkg_tensor_index(2, 0, BT_WEIGHT_Q),
                       down = bt_pkg_site_index(2, 1, BT_SITE_DOWN);
        const float unit16 = bt_pkg_tensors(w.pkg)[q].out_scale, unit32 = w.x->header->residual_scale,
                    site = bt_pkg_sites(w.pkg)[down].scale;
        for (int round = 0; round < ROUNDS; round++) {
            int16_t s[ELEMS];
            int32_t r[ELEMS];
            float got[3][ELEMS];
            for (int e = 0; e < ELEMS; e++)
                s[e] = (int16_t)next(&rng), r[e] = (int32_t)next(&rng) >> (e % 31);
            memcpy(got[0],
                   convert(&w, BT_PKG_DEQUANTISE16, 2, 4, q, BT_PKG_NONE, s, bt_exec_border_dequantise16),
                   sizeof *got);
            memcpy(got[1],
                   convert(&w, BT_PKG_DEQUANTISE32, 4, 4, BT_PKG_NONE, BT_PKG_NONE, r,
                           bt_exec_border_dequantise32),
                   sizeof *got);
            memcpy(got[2],
                   convert(&w, BT_PKG_DEQUANTISE32, 4, 4, BT_PKG_NONE, down, r, bt_exec_border_dequantise32),
                   sizeof *got);
            for (int e = 0; e < ELEMS; e++) {
                const float whole = (float)(double)r[e]; /* rounded once */
                assert_true(got[0][e] == (float)((double)s[e] * (double)unit16));
                assert_true(got[1][e] == (float)((double)whole * (double)unit32));
                assert_true(got[2][e] == (float)((double)whole * (double)site));
            }
        }
        end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_become_integers_by_one_rounding_to_nearest_even),
        cmocka_unit_test(integers_become_floats_times_their_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
