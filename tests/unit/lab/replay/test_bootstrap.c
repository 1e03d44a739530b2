/* Confidence intervals against what theory says of known distributions. */
#include "lab/replay/bootstrap.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MEAN, P50, P90, P99, N = 1000 };

static tool_replay_rounds *of(double *v, size_t n, uint64_t seed)
{
    tool_replay_rounds *r = calloc(1, sizeof *r);
    assert_non_null(r);
    assert_int_equal(tool_replay_bootstrap(r, v, n, seed, NULL), BT_OK);
    return r;
}

static void uniform(double *v, uint64_t seed, double from)
{
    for (size_t i = 0; i < N; i++) v[i] = from + bt_rng_uniform(seed, i);
}

static void intervals_are_as_wide_as_theory_says(void **state)
{
    (void)state;
    double v[N];
    uniform(v, 1, 0);
    tool_replay_rounds *r = of(v, N, 1);
    /* of a uniform: the mean's deviation is 1 / sqrt(12 n), the median's 1 / (2 sqrt(n)), and 95 of 100 lie
     * in +- 1.96 */
    const tool_replay_interval m = tool_replay_interval_of(r, MEAN), p = tool_replay_interval_of(r, P50);
    assert_true(fabs((m.hi - m.lo) / (2 * 1.96 / sqrt(12.0 * N)) - 1) < 0.1);
    assert_true(fabs((p.hi - p.lo) / (1.96 / sqrt(N)) - 1) < 0.25);
    assert_true(m.lo < m.value && m.value < m.hi && p.lo <= p.value && p.value <= p.hi);
    assert_true(fabs(r->value[P90] - 0.9) < 0.03 && fabs(r->value[P99] - 0.99) < 0.01);
    free(r);
}

static void a_true_value_is_in_the_interval_as_often_as_it_says(void **state)
{
    (void)state;
    double v[N];
    int in = 0;
    for (uint64_t k = 0; k < 100; k++) {
        uniform(v, 100 + k, 0);
        tool_replay_rounds *r = of(v, N, k);
        const tool_replay_interval m = tool_replay_interval_of(r, MEAN);
        in += m.lo <= 0.5 && 0.5 <= m.hi;
        free(r);
    }
    assert_true(in >= 88 && in <= 100); /* 95, give or take three deviations of 2.2 */
}

static void a_difference_is_seen_and_chance_is_not_taken_for_one(void **state)
{
    (void)state;
    double a[N], b[N], c[N];
    uniform(a, 1, 1);
    uniform(b, 2, 1);
    uniform(c, 3, 1.15);
    tool_replay_rounds *x = of(a, N, 1), *y = of(b, N, 2), *z = of(c, N, 3);
    tool_replay_interval d = tool_replay_interval_between(x, y, MEAN);
    assert_true(d.lo < 0 && d.hi > 0);
    d = tool_replay_interval_between(x, z, MEAN);
    assert_true(d.lo > 0.05 && d.hi < 0.15 && fabs(d.value - 0.1) < 0.03);
    free(x);
    free(y);
    free(z);
}

/* Requests differ widely, and each takes a hundredth longer in the other run. */
static void paired_runs_show_a_difference_that_is_small_beside_the_spread(void **state)
{
    (void)state;
    double a[N], b[N];
    for (size_t i = 0; i < N; i++) {
        a[i] = 1 + 100 * bt_rng_uniform(5, i);
        b[i] = 1.01 * a[i];
    }
    tool_replay_rounds *x = of(a, N, 1), *other = of(b, N, 2), *pair = of(b, N, 1);
    const tool_replay_interval apart = tool_replay_interval_between(x, other, MEAN),
                               d = tool_replay_interval_between(x, pair, MEAN);
    assert_true(apart.lo < 0 && apart.hi > 0);
    assert_true(d.lo > 0.009 && d.hi < 0.011);
    free(x);
    free(other);
    free(pair);
}

static void one_value_has_no_width(void **state)
{
    (void)state;
    double v[1] = {7};
    tool_replay_rounds *r = of(v, 1, 1);
    for (size_t s = 0; s < TOOL_REPLAY_STATS; s++) {
        const tool_replay_interval i = tool_replay_interval_of(r, s);
        assert_true(i.value == 7 && i.lo == 7 && i.hi == 7);
    }
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_are_as_wide_as_theory_says),
        cmocka_unit_test(a_true_value_is_in_the_interval_as_often_as_it_says),
        cmocka_unit_test(a_difference_is_seen_and_chance_is_not_taken_for_one),
        cmocka_unit_test(paired_runs_show_a_difference_that_is_small_beside_the_spread),
        cmocka_unit_test(one_value_has_no_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
