/* Rounding to 16-bit floats: every variant against the definition, nearest even in double precision. */
#include "kernels/round16.h"
#include "tests/helpers/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static uint32_t to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* significant bits, the least unit, the greatest number */
static float defined(float x, bt_round16 form)
{
    const bool half = form == BT_ROUND16_F16;
    const double least = ldexp(1, half ? -24 : -133), most = half ? 65504 : ldexp(255, 120);
    int e;
    if (isnan(x) || isinf(x) || x == 0) return x;
    (void)frexp(fabs((double)x), &e);
    const double unit = fmax(ldexp(1, e - (half ? 11 : 8)), least);
    const double r = nearbyint((double)x / unit) * unit;
    return fabs(r) > most ? copysignf(INFINITY, x) : (float)copysign(r, (double)x);
}

/* Every upper half of a float, with lower halves around each tie: 2.2 million floats a form. */
static void every_variant_rounds_as_defined(void **state)
{
    (void)state;
    static const uint32_t lower[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x2fff, 0x3000,
                                     0x3001, 0x4000, 0x5000, 0x7000, 0x7fff, 0x8000, 0x8001, 0xb000, 0xffff};
    enum { LOWER = sizeof lower / sizeof *lower, N = 65536 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    assert_non_null(x);
    assert_non_null(y);
    for (size_t v = 0; v < bt_kernels_table_len; v++) {
        if (!rows_usable(&bt_kernels_table[v])) continue;
        for (int f = BT_ROUND16_F16; f < BT_ROUND16_FORMS; f++)
            for (size_t l = 0; l < LOWER; l++) {
                for (uint32_t u = 0; u < N; u++) x[u] = from_bits(u << 16 | lower[l]);
                bt_round16_rows(&bt_kernels_table[v], (bt_round16)f, y, N, x, N, 1, N);
                for (uint32_t u = 0; u < N; u++) {
                    const float want = defined(x[u], (bt_round16)f);
                    if (isnan(x[u]) ? !isnan(y[u]) : to_bits(y[u]) != to_bits(want))
                        fail_msg("%s, %s: %a becomes %a, not %a", bt_kernels_table[v].isa,
                                 bt_round16_name((bt_round16)f), (double)x[u], (double)y[u], (double)want);
                }
            }
    }
    free(x);
    free(y);
}

/* Rows with room between them keep what stands there; in place; 1,300 elements are more than one block. */
static void rows_apart_are_rounded_and_nothing_between_them(void **state)
{
    (void)state;
    enum { T = 3, K = 1300, LD = K + 5 };
    const bt_kernels *best = bt_kernels_select(NULL);
    for (int f = BT_ROUND16_F16; f < BT_ROUND16_FORMS; f++) {
        float *x = malloc((T - 1) * LD * sizeof *x + K * sizeof *x);
        assert_non_null(x);
        for (size_t i = 0; i < (T - 1) * LD + K; i++) x[i] = 1 + (float)i / 65536;
        bt_round16_rows(best, (bt_round16)f, x, LD, x, LD, T, K);
        for (size_t i = 0; i < (T - 1) * LD + K; i++) {
            const float was = 1 + (float)i / 65536;
            assert_int_equal(to_bits(x[i]), to_bits(i % LD < K ? defined(was, (bt_round16)f) : was));
        }
        free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_rounds_as_defined),
        cmocka_unit_test(rows_apart_are_rounded_and_nothing_between_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
