/* Whole numbers of 128 bits in two halves, beside the compiler's own where it has them, and beside results
 * worked out by hand on every machine. */
#define BT_WIDE_IN_HALVES
#include "base/wide.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void is(bt_wide v, uint64_t hi, uint64_t lo)
{
    assert_true(bt_wide_high(v) == hi);
    assert_true(bt_wide_low(v) == lo);
}

static void has_the_results_of_arithmetic_by_hand(void **s)
{
    (void)s;
    const uint64_t all = UINT64_MAX, top = (uint64_t)1 << 63;
    is(bt_wide_mul(all, all), all - 1, 1);
    is(bt_wide_mul(all, 2), 1, all - 1);
    is(bt_wide_mul_signed(INT64_MIN, INT64_MIN), (uint64_t)1 << 62, 0);
    is(bt_wide_mul_signed(-1, INT64_MAX), all, top + 1);
    is(bt_wide_mul_signed(-1, -1), 0, 1);
    is(bt_wide_add(bt_wide_of(all), bt_wide_of(1)), 1, 0);
    is(bt_wide_negative(bt_wide_of(0)), 0, 0);
    is(bt_wide_negative(bt_wide_of(1)), all, all);
    is(bt_wide_left(bt_wide_of(3), 63), 1, top);
    is(bt_wide_left(bt_wide_of(3), 64), 3, 0);
    is(bt_wide_left(bt_wide_of(1), 127), top, 0);
    is(bt_wide_right((bt_wide){3, 0}, 1), 1, top);
    is(bt_wide_right((bt_wide){top, 0}, 127), 0, 1);
    is(bt_wide_right_signed(bt_wide_negative(bt_wide_of(3)), 1), all, all - 1); /* -1.5 goes down to -2 */
    is(bt_wide_right_signed((bt_wide){top, 0}, 127), all, all);
    is(bt_wide_times_signed(bt_wide_negative(bt_wide_of(5)), 7), all, all - 34);
    is(bt_wide_times_signed(bt_wide_of(5), -7), all, all - 34);
    is(bt_wide_div((bt_wide){1, 0}, 3), 0, all / 3);
    is(bt_wide_div((bt_wide){all, all}, all), 1, 1);
    is(bt_wide_div((bt_wide){all, all}, 1), all, all);
}

static void clamps_what_64_bits_do_not_hold(void **s)
{
    (void)s;
    const uint64_t top = (uint64_t)1 << 63;
    assert_true(bt_wide_clamp(bt_wide_of(7), 8) == 7);
    assert_true(bt_wide_clamp(bt_wide_of(9), 8) == 8);
    assert_true(bt_wide_clamp((bt_wide){1, 0}, 8) == 8);
    assert_true(bt_wide_clamp_signed((bt_wide){0, top - 1}) == INT64_MAX);
    assert_true(bt_wide_clamp_signed((bt_wide){0, top}) == INT64_MAX);
    assert_true(bt_wide_clamp_signed((bt_wide){1, 0}) == INT64_MAX);
    assert_true(bt_wide_clamp_signed((bt_wide){UINT64_MAX, top}) == INT64_MIN);
    assert_true(bt_wide_clamp_signed((bt_wide){UINT64_MAX, top - 1}) == INT64_MIN);
    assert_true(bt_wide_clamp_signed((bt_wide){UINT64_MAX - 1, top}) == INT64_MIN);
    assert_true(bt_wide_clamp_signed((bt_wide){UINT64_MAX, UINT64_MAX}) == -1);
}

#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

static u128 joined(bt_wide v) { return (u128)v.hi << 64 | v.lo; }
static bt_wide halves(u128 v) { return (bt_wide){(uint64_t)(v >> 64), (uint64_t)v}; }

static uint64_t draw(uint64_t *draws) { return bt_rng_u64(21, (*draws)++); }

/* Numbers of every length, and one in four an edge. */
static uint64_t any(uint64_t *draws)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     UINT32_MAX,
                                     (uint64_t)UINT32_MAX + 1,
                                     INT64_MAX,
                                     (uint64_t)1 << 63,
                                     UINT64_MAX,
                                     UINT64_MAX - 1};
    if (draw(draws) % 4 == 0) return edges[draw(draws) % (sizeof edges / sizeof edges[0])];
    const uint64_t by = draw(draws) % 64;
    return draw(draws) >> by;
}

static void has_the_results_of_the_compiler(void **s)
{
    (void)s;
    uint64_t r = 0;
    for (int i = 0; i < 400000; i++) {
        const uint64_t a = any(&r), b = any(&r), c = any(&r), d = any(&r) | !(i & 1);
        const unsigned by = (unsigned)(draw(&r) % 128);
        const u128 v = (u128)a << 64 | b, w = (u128)c << 64 | d;
        const i128 v_signed = (i128)v;
        assert_true(joined(bt_wide_mul(a, b)) == (u128)a * b);
        assert_true(joined(bt_wide_mul_signed((int64_t)a, (int64_t)b)) ==
                    (u128)((i128)(int64_t)a * (int64_t)b));
        assert_true(joined(bt_wide_times_signed(halves(v), (int64_t)c)) == v * (u128)(int64_t)c);
        assert_true(joined(bt_wide_add(halves(v), halves(w))) == v + w);
        assert_true(joined(bt_wide_negative(halves(v))) == -v);
        assert_true(joined(bt_wide_left(halves(v), by)) == v << by);
        assert_true(joined(bt_wide_right(halves(v), by)) == v >> by);
        assert_true(joined(bt_wide_right_signed(halves(v), by)) == (u128)(v_signed >> by));
        if (d) assert_true(joined(bt_wide_div(halves(v), d)) == v / d);
        assert_true(bt_wide_clamp(halves(v), c) == (v > c ? c : (uint64_t)v));
        const int64_t near = v_signed < INT64_MIN   ? INT64_MIN
                             : v_signed > INT64_MAX ? INT64_MAX
                                                    : (int64_t)v_signed;
        assert_true(bt_wide_clamp_signed(halves(v)) == near);
        const i128 small = (i128)(int64_t)b; /* and what 64 bits do hold */
        assert_true(bt_wide_clamp_signed(halves((u128)small)) == (int64_t)b);
    }
}
#else
static void has_the_results_of_the_compiler(void **s)
{
    (void)s;
    skip(); /* it has no such numbers */
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_results_of_arithmetic_by_hand),
        cmocka_unit_test(clamps_what_64_bits_do_not_hold),
        cmocka_unit_test(has_the_results_of_the_compiler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
