/* The test for a finite row: held against the conversions of KV themselves; and the choice of the first
 * place. */
#include "kernels/finite.h"
#include "kernels/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void finds_one_that_is_not_below_wherever_it_stands(void **state)
{
    static const float odd[] = {INFINITY, -INFINITY, NAN, -NAN, 100, -100, 3e38f};
    (void)state;
    for (size_t n = 1; n < 70; n++)
        for (size_t at = 0; at < n; at++) {
            float x[70];
            for (size_t i = 0; i < 70; i++) x[i] = i < n ? (i % 2 ? -99.99f : 0) : NAN;
            assert_true(bt_finite_below(x, n, 100));
            x[at] = odd[(n + at) % 7];
            assert_false(bt_finite_below(x, n, 100));
        }
    const float most[] = {3.4028235e38f, -3.4028235e38f, 0, 1e-45f};
    assert_true(bt_finite_below(most, 4, INFINITY));
}

/* Steps through the floats around each limit: what is below it is stored as a number, what is not, is not. */
static void limits_are_those_of_the_stored_forms(void **state)
{
    (void)state;
    float x = 65000;
    for (int i = 0; i < 300000; i++, x = nextafterf(x, INFINITY)) {
        const float back = bt_f16_to_f32_1(bt_f32_to_f16_1(-x));
        assert_int_equal(bt_finite_below(&x, 1, bt_finite_kv_limit(2)), isfinite(back) != 0);
    }
    x = 8319000;
    for (int i = 0; i < 100; i++, x = nextafterf(x, INFINITY)) /* a scale of 65,504 at most, without the clamp
                                                                */
        assert_int_equal(bt_finite_below(&x, 1, bt_finite_kv_limit(1)), (double)x / 127 <= 65504);
    x = 3e38f;
    assert_true(bt_finite_below(&x, 1, bt_finite_kv_limit(4)));
    x = INFINITY;
    assert_false(bt_finite_below(&x, 1, bt_finite_kv_limit(4)));
}

static void the_first_place_is_by_position_then_layer_then_what(void **state)
{
    static const bt_overflow_place ascending[] = {
        {0, 5, BT_OVERFLOW_V}, {3, 0, BT_OVERFLOW_K},
        {3, 0, BT_OVERFLOW_V}, {3, 0, BT_OVERFLOW_INPUT},
        {3, 2, BT_OVERFLOW_K}, {3, BT_OVERFLOW_NO_LAYER, BT_OVERFLOW_LOGITS},
        {4, 0, BT_OVERFLOW_K}, {UINT32_MAX, 0, BT_OVERFLOW_K}};
    enum { N = sizeof ascending / sizeof *ascending };
    (void)state;
    bt_overflow o = {0};
    bt_overflow_place at;
    assert_false(bt_overflow_get(&at, &o));
    for (size_t i = N; i-- > 0;) {
        bt_overflow_note(&o, ascending[i]);
        for (size_t j = i; j < N; j++) bt_overflow_note(&o, ascending[j]);
        assert_true(bt_overflow_get(&at, &o));
        assert_int_equal(at.pos, ascending[i].pos);
        assert_int_equal(at.layer, ascending[i].layer);
        assert_int_equal(at.what, ascending[i].what);
    }
    bt_overflow_clear(&o);
    assert_false(bt_overflow_get(NULL, &o));
    const float x[] = {1, 2, 3, INFINITY, 5, NAN};
    bt_overflow_look(&o, (bt_overflow_place){.layer = 7, .what = BT_OVERFLOW_V}, 40, x, 2, 3, 2, INFINITY);
    assert_true(bt_overflow_get(&at, &o));
    assert_int_equal(at.pos, 41);
    assert_int_equal(at.layer, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_one_that_is_not_below_wherever_it_stands),
        cmocka_unit_test(limits_are_those_of_the_stored_forms),
        cmocka_unit_test(the_first_place_is_by_position_then_layer_then_what),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
