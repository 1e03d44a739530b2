/* The figures that a plan keeps of a trace: counted again here, one by one. */
#include "lab/plan/load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static tool_plan_load of(const tool_plan_request *r, size_t n, uint64_t ctx, double speed)
{
    tool_plan_load l = {.has_arrivals = true};
    for (size_t i = 0; i < n; i++) assert_int_equal(tool_plan_load_add(&l, &r[i], NULL), BT_OK);
    assert_int_equal(tool_plan_load_end(&l, ctx, speed, NULL), BT_OK);
    return l;
}

static const tool_plan_request four[] = {
    {3000000, 10, 5}, {1000000, 20, 1}, {2000000, 10, 0}, {9000000, 900, 200}};

static void arrivals_that_are_years_apart_stay_numbers(void **state)
{
    (void)state;
    const tool_plan_request two[] = {{0, 10, 5}, {(int64_t)1 << 51, 20, 1}};
    tool_plan_load l = of(two, 2, 1024, 0.0001);
    assert_true(l.at[1].arrival_us == (int64_t)1 << 62);
    assert_true(l.span_s > 4e12);
    tool_plan_load_done(&l);
}

static void requests_come_by_arrival_and_lengths_once(void **state)
{
    (void)state;
    tool_plan_load l = of(four, 4, 1024, 2);
    assert_int_equal(l.too_long, 1);
    assert_int_equal(l.n, 3);
    assert_int_equal(l.at[0].input, 20);
    assert_int_equal(l.at[0].arrival_us, 0);
    assert_int_equal(l.at[2].arrival_us, 1000000); /* two seconds, twice as fast */
    assert_true(l.span_s == 1.0);
    assert_int_equal(l.lengths, 2);
    assert_int_equal(l.length[0], 10);
    assert_int_equal(l.count[0], 2);
    assert_int_equal(l.of[0], 1);
    assert_int_equal(l.input_tokens, 40);
    assert_int_equal(l.steps, 4);     /* of five tokens, the first is the prompt's */
    assert_int_equal(l.step_ctx, 13); /* 11, 12, 13, 14 positions: 12.5 */
    assert_int_equal(l.longest, 21);
    tool_plan_load_done(&l);
}

static void values_by_length_have_the_ranks_of_requests(void **state)
{
    (void)state;
    tool_plan_load l = of(four, 4, 2048, 1);
    const uint64_t v[] = {7, 50, 3}; /* of 10 tokens twice, 20, 900 */
    assert_int_equal(tool_plan_load_at(&l, v, 0.25), 3);
    assert_int_equal(tool_plan_load_at(&l, v, 0.5), 7);
    assert_int_equal(tool_plan_load_at(&l, v, 0.75), 7);
    assert_int_equal(tool_plan_load_at(&l, v, 0.99), 50);
    tool_plan_load_done(&l);
}

static void arrivals_at_one_moment_are_none(void **state)
{
    (void)state;
    const tool_plan_request same[] = {{5, 1, 1}, {5, 2, 1}};
    tool_plan_load l = of(same, 2, 16, 1);
    assert_false(l.has_arrivals);
    tool_plan_load_done(&l);
}

static void a_trace_of_nothing_that_fits_is_refused_with_its_longest(void **state)
{
    (void)state;
    bt_fault f = {""};
    tool_plan_load l = {.has_arrivals = true};
    assert_int_equal(tool_plan_load_end(&l, 16, 1, &f), BT_EARG);
    assert_int_equal(tool_plan_load_add(&l, &four[3], NULL), BT_OK);
    assert_int_equal(tool_plan_load_longest(&l), 1100);
    assert_int_equal(tool_plan_load_end(&l, 1099, 1, &f), BT_EARG);
    assert_string_equal(f.text, "none of 1 requests fits a context of 1099 tokens; the longest has 1100");
    tool_plan_load_done(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_come_by_arrival_and_lengths_once),
        cmocka_unit_test(arrivals_that_are_years_apart_stay_numbers),
        cmocka_unit_test(values_by_length_have_the_ranks_of_requests),
        cmocka_unit_test(arrivals_at_one_moment_are_none),
        cmocka_unit_test(a_trace_of_nothing_that_fits_is_refused_with_its_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
