/* The fixed formula against a stateful splitmix64 (itself checked against its published outputs), and its
 * evenness. */
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void is_splitmix64_started_from_the_mixed_seed(void **s)
{
    (void)s;
    uint64_t published = 1234567;
    assert_true(splitmix64(&published) == UINT64_C(6457827717110365317));
    assert_true(splitmix64(&published) == UINT64_C(3203168211198807973));
    for (uint64_t seed = 0; seed < 5; seed++) {
        uint64_t start = seed, state = splitmix64(&start);
        for (uint64_t i = 0; i < 100; i++) assert_true(bt_rng_u64(seed, i) == splitmix64(&state));
    }
}

static void uniform_numbers_are_even_and_below_one(void **s)
{
    (void)s;
    enum { N = 100000, BINS = 20 };
    int bins[BINS] = {0};
    double sum = 0;
    for (uint64_t i = 0; i < N; i++) {
        const double u = bt_rng_uniform(42, i);
        assert_true(u >= 0 && u < 1);
        bins[(int)(u * BINS)]++;
        sum += u;
    }
    assert_true(sum / N > 0.495 && sum / N < 0.505);
    for (int i = 0; i < BINS; i++) assert_in_range(bins[i], N / BINS * 95 / 100, N / BINS * 105 / 100);
    assert_true(bt_rng_uniform(1, 0) != bt_rng_uniform(2, 0));
}

static void entropy_differs_each_time(void **s)
{
    (void)s;
    uint8_t a[32] = {0}, b[32] = {0};
    assert_int_equal(bt_rng_entropy(a, sizeof a, NULL), BT_OK);
    assert_int_equal(bt_rng_entropy(b, sizeof b, NULL), BT_OK);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_splitmix64_started_from_the_mixed_seed),
        cmocka_unit_test(uniform_numbers_are_even_and_below_one),
        cmocka_unit_test(entropy_differs_each_time),
    };
    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
