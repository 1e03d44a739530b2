/* Measured rows that contradict each other, by what a price counts of them. */
#include "tests/validate/validate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

/* A step of one sequence, measured under llm.npu. */
static val_row step_of(const char *shape, uint64_t context, double us)
{
    return (val_row){.file = "npus.csv", .device = "hexagon-v75",
                     .stack = "llm.npu", .shape = shape,
                     .form = "w8a8",     .programs = "",
                     .source = "",       .note = "",
                     .kind = VAL_STEP,   .devices = 1,
                     .rows = 1,          .rows_to = 1,
                     .batch = 1,         .context = context,
                     .measured = us,     .modelled = us};
}

/* How many rows are apart, and whether the first one is. */
static size_t apart_of(val_row *row, size_t n, const char **first)
{
    size_t apart = 0;
    val_set_apart(&(val_table){.row = row, .len = n});
    for (size_t i = 0; i < n; i++) apart += row[i].apart != NULL;
    *first = row[0].apart;
    return apart;
}

static void a_model_with_more_of_everything_that_takes_less_time_goes_apart(void **state)
{
    (void)state;
    const char *first;
    /* Phi-2 has more layers, weights and KV than both; the others have more of something each */
    val_row row[] = {step_of("phi-2", 559, 60000), step_of("qwen1.5-1.8b", 559, 82609),
                     step_of("gemma-2b", 559, 75652)};
    assert_int_equal(apart_of(row, 3, &first), 1);
    assert_non_null(strstr(first, "as much work of every kind or more"));
    row[0].measured = 70000;
    assert_int_equal(apart_of(row, 3, &first), 0);
}

static void two_rows_that_contradict_only_each_other_both_go_apart_beyond_what_measuring_spreads(void **state)
{
    (void)state;
    const char *first;
    val_row row[] = {step_of("phi-2", 559, 67000), step_of("qwen1.5-1.8b", 559, 82609)};
    assert_int_equal(apart_of(row, 2, &first), 0);
    row[0].measured = 65000;
    assert_int_equal(apart_of(row, 2, &first), 2);
    /* of one model, by its length */
    row[1] = step_of("phi-2", 1000, 53000);
    assert_int_equal(apart_of(row, 2, &first), 0);
    row[1].measured = 51000;
    assert_int_equal(apart_of(row, 2, &first), 2);
}

static void models_of_the_same_sizes_are_the_same_setting(void **state)
{
    (void)state;
    const char *first;
    val_row row[] = {step_of("llama-3-8b", 559, 200000), step_of("llama-3.1-8b", 559, 240000)};
    assert_int_equal(apart_of(row, 2, &first), 0);
    row[1].measured = 260000;
    assert_int_equal(apart_of(row, 2, &first), 2);
    assert_non_null(strstr(first, "measured otherwise"));
    row[1].stack = "another"; /* stacks stay apart */
    assert_int_equal(apart_of(row, 2, &first), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_with_more_of_everything_that_takes_less_time_goes_apart),
        cmocka_unit_test(
            two_rows_that_contradict_only_each_other_both_go_apart_beyond_what_measuring_spreads),
        cmocka_unit_test(models_of_the_same_sizes_are_the_same_setting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
