/* The sampling options in the requests of `baton chat`: those that its user gave, and nothing else. */
#include "tools/commands/sampling.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct config {
    tool_sampling sampling;
} config;

static const bt_opt opts[] = {BT_OPT_ALL(tool_sampling_opts, config, sampling, NULL)};
static const bt_opt_program program = {.name = "test", .summary = "s", .usage = "u",
                                       .normal = "n",  .opts = opts,   .opt_count = BT_OPT_COUNT(opts)};

static json_t *request_of(int argc, const char *const *argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    json_t *r = json_object();
    if (bt_opt_parse(&args, &program, argc, (char **)argv, &c, &fault) < 0) fail_msg("%s", fault.text);
    assert_true(tool_sampling_add(r, &c.sampling, &args));
    bt_opt_done(&args);
    return r;
}

static void what_nobody_gave_is_left_to_the_gateway(void **state)
{
    (void)state;
    const char *none[] = {"test", NULL};
    json_t *r = request_of(1, none);
    assert_int_equal(json_object_size(r), 0);
    json_decref(r);
    const char *some[] = {"test", "--temp", "0", "--top-k=7", NULL};
    r = request_of(4, some);
    assert_int_equal(json_object_size(r), 2);
    assert_true(json_number_value(json_object_get(r, "temperature")) == 0);
    assert_int_equal(json_integer_value(json_object_get(r, "top_k")), 7);
    json_decref(r);
}

static void each_option_is_the_field_of_its_name(void **state)
{
    (void)state;
    const char *all[] = {"test",  "--temp",
                         "0.5",   "--top-p",
                         "0.25",  "--min-p",
                         "0.125", "--top-k",
                         "3",     "--presence-penalty",
                         "1",     "--frequency-penalty",
                         "-1",    "--repetition-penalty",
                         "2",     NULL};
    json_t *r = request_of(15, all);
    json_t *want = json_loads("{\"temperature\":0.5,\"top_p\":0.25,\"min_p\":0.125,\"presence_penalty\":1.0,"
                              "\"frequency_penalty\":-1.0,\"repetition_penalty\":2.0,\"top_k\":3}",
                              0, NULL);
    assert_true(json_equal(r, want));
    json_decref(r);
    json_decref(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_gave_is_left_to_the_gateway),
        cmocka_unit_test(each_option_is_the_field_of_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
