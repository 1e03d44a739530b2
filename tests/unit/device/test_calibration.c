/* The object `calibration` of a profile: what is read, what is refused, and what a device may be called by
 * it. */
#include "device/calibration.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static bt_err read(bt_calibration *ret, const char *text, bt_fault *fault)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    const bt_err e = bt_calibration_read(ret, json, fault);
    json_decref(json);
    return e;
}

#define WHOLE \
    "\"on\":\"rows of a page\",\"rows\":12,\"shapes\":2,\"constants\":2,\"kinds\":[\"prefill\",\"decode\"]," \
    "\"region\":{\"rows\":[1,512],\"devices\":[1,8]}"
#define ERRORS ",\"errors\":{\"tpot\":[50,200,-30,9]}"

static void every_member_is_kept(void **state)
{
    (void)state;
    bt_calibration c;
    assert_int_equal(read(&c, "{" WHOLE ERRORS ",\"residuals\":{\"products\":[-100,0,250]}}", NULL), BT_OK);
    assert_string_equal(c.on, "rows of a page");
    assert_int_equal(c.rows, 12);
    assert_int_equal(c.shapes, 2);
    assert_int_equal(c.constants, 2);
    assert_true(c.has_prefill && c.has_decode);
    assert_int_equal(c.region[BT_AXIS_ROWS].hi, 512);
    assert_int_equal(c.region[BT_AXIS_DEVICES].lo, 1);
    assert_int_equal(c.region[BT_AXIS_BATCH].hi, 0);
    assert_int_equal(c.error[BT_FIGURE_TPOT].worst_permille, 200);
    assert_int_equal(c.error[BT_FIGURE_TPOT].bias_permille, -30);
    assert_int_equal(c.error[BT_FIGURE_TTFT].rows, 0);
    assert_int_equal(c.residuals[BT_TERM_PRODUCTS], 3);
    assert_int_equal(c.residual[BT_TERM_PRODUCTS][2], 250);
}

static void a_device_is_calibrated_by_enough_rows_that_are_judged_and_by_nothing_less(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bt_standing standing;
    } of[] = {
        {"{" WHOLE ERRORS "}", BT_STANDING_CALIBRATED},
        {"{" WHOLE "}", BT_STANDING_FITTED},
        {"{" WHOLE ",\"errors\":{\"joules\":[1,2,0,9]}}", BT_STANDING_FITTED},
        {"{\"on\":\"x\",\"rows\":14,\"shapes\":2,\"constants\":3,\"kinds\":[\"prefill\",\"decode\"]" ERRORS
         "}",
         BT_STANDING_FITTED},
        {"{\"on\":\"x\",\"rows\":11,\"shapes\":2,\"kinds\":[\"prefill\",\"decode\"]" ERRORS "}",
         BT_STANDING_FITTED},
        {"{\"on\":\"x\",\"rows\":99,\"shapes\":1,\"kinds\":[\"prefill\",\"decode\"]" ERRORS "}",
         BT_STANDING_FITTED},
        {"{\"on\":\"x\",\"rows\":99,\"shapes\":2,\"kinds\":[\"decode\"]" ERRORS "}", BT_STANDING_FITTED},
    };
    bt_calibration c = {.on = ""};
    assert_int_equal(bt_calibration_standing(&c), BT_STANDING_BOUND);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_int_equal(read(&c, of[i].text, NULL), BT_OK);
        if (bt_calibration_standing(&c) != of[i].standing) fail_msg("%s", of[i].text);
    }
}

static void a_wrong_member_is_named_with_what_would_do(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"3", "must be an object"},
        {"{\"rows\":3}", "'on' is missing"},
        {"{\"on\":\"x\"}", "'rows' is missing"},
        {"{\"on\":\"\",\"rows\":1}", "1 to 127 printable"},
        {"{\"on\":\"x\",\"row\":1}", "'row' is no member of 'calibration'; did you mean 'rows'?"},
        {"{\"on\":\"x\",\"rows\":0}", "the nearest is 1"},
        {"{\"on\":\"x\",\"rows\":1,\"kinds\":[\"decode\",\"decode\"]}", "each once"},
        {"{\"on\":\"x\",\"rows\":1,\"kinds\":[]}", "at least one"},
        {"{\"on\":\"x\",\"rows\":1,\"region\":{\"rows\":[2,1]}}", "[least, most]"},
        {"{\"on\":\"x\",\"rows\":1,\"region\":{\"row\":[1,2]}}", "did you mean 'rows'?"},
        {"{\"on\":\"x\",\"rows\":1,\"errors\":{\"ttft\":[5,4,0,1]}}", "0 <= median <= worst"},
        {"{\"on\":\"x\",\"rows\":1,\"errors\":{\"ttft\":[5,6,7,1]}}", "bias from -worst to worst"},
        {"{\"on\":\"x\",\"rows\":1,\"errors\":{\"ttft\":[5,6,0,0]}}", "at least 1 row"},
        {"{\"on\":\"x\",\"rows\":1,\"residuals\":{\"fixed\":[2,1]}}", "ascending"},
        {"{\"on\":\"x\",\"rows\":1,\"residuals\":{\"fixed\":[-1000]}}", "from -999"},
        {"{\"on\":\"x\",\"rows\":1,\"residuals\":{\"fixed\":[0.5]}}", "thousandths"},
        {"{\"on\":\"x\",\"rows\":1,\"residuals\":{\"fixed\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}}", "1 to 15"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_calibration c = {.rows = 77};
        bt_fault f = {""};
        const bt_err e = read(&c, bad[i][0], &f);
        if (e != BT_EFORMAT || !strstr(f.text, bad[i][1])) fail_msg("%s: %d '%s'", bad[i][0], (int)e, f.text);
        assert_int_equal(c.rows, 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_is_kept),
        cmocka_unit_test(a_device_is_calibrated_by_enough_rows_that_are_judged_and_by_nothing_less),
        cmocka_unit_test(a_wrong_member_is_named_with_what_would_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
