/* Moments at which work may be let go, on a device of round numbers. */
#include "device/pace.h"
#include "tests/helpers/brain/toy_price.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <stdint.h>
#include <cmocka.h>

static void reads_k_and_refuses_what_is_none(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t milli;
    } good[] = {{"off", 0},
                {"device:1", 1000},
                {"device:2.5", 2500},
                {"device:0.001", 1},
                {"device:1000000", 1000000000},
                {"device:20.125", 20125}};
    static const char *const bad[] = {
        "",          "device",         "device:",     "device:0",  "device:0.000",
        "device:-1", "device:1.0001",  "device:1.",   "device:.5", "device:1e3",
        "device:1 ", "host:4",         "4",           "on",        "device:1.2.3",
        "device:+1", "device:1000001", "device:0x10", "DEVICE:1",  "device:99999999999999999999999999"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        bt_pace p = {.milli = 77};
        assert_int_equal(bt_pace_parse(&p, good[i].text, NULL), BT_OK);
        assert_int_equal(p.milli, good[i].milli);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_pace p = {.milli = 77};
        bt_fault f = {""};
        if (bt_pace_parse(&p, bad[i], &f) != BT_EARG) fail_msg("took '%s'", bad[i]);
        assert_int_equal(p.milli, 77);
        assert_non_null(strstr(f.text, "0.001 to 1000000"));
    }
}

static void due_times_are_rounded_up_and_never_wrap(void **state)
{
    (void)state;
    const bt_pace half = {.milli = 500}, most = {.milli = 1000000000};
    assert_int_equal(bt_pace_due_us(&half, 100, 2000), 101);
    assert_int_equal(bt_pace_due_us(&half, 100, 2001), 102);
    assert_int_equal(bt_pace_due_us(&half, 100, 0), 100);
    assert_int_equal(bt_pace_due_us(&most, 5, INT64_MAX), INT64_MAX);
}

static void late_is_what_ended_after_it_was_due(void **state)
{
    (void)state;
    bt_pace_count c = {0};
    bt_pace_ended(&c, 0, 1000, 900); /* early: it is the caller who waits */
    assert_int_equal(c.paced_us, 1000);
    assert_int_equal(c.late_us, 0);
    bt_pace_ended(&c, 1000, 2000, 2020);
    assert_int_equal(c.late_us, 20);
    assert_false(bt_pace_is_void(&c)); /* 1 % */
    bt_pace_ended(&c, 2000, 2000, 2001);
    assert_true(bt_pace_is_void(&c));
    assert_false(bt_pace_is_void(&(bt_pace_count){0}));
}

static void rows_may_be_seen_layer_by_layer_and_chunk_by_chunk(void **state)
{
    (void)state;
    static bt_profile profile;
    const bt_work_prefill d = toy_device(&profile);
    const bt_pace twice = {.milli = 2000};
    bt_pace_prompt p;
    /* 100 rows from 5,000 us on, twice as slow: layers of 64 rows at 2 * 850 and 2 * 1,650, of 36 at 2 *
     * 2,450 and 2 * 3,250 */
    bt_pace_prompt_begin(&p, twice, &d, &(bt_work_prompt){.end = 100}, 5000);
    assert_int_equal(bt_pace_prompt_rows(&p, 0, 5000), 0);
    assert_int_equal(bt_pace_prompt_next_us(&p, 0, 5000), 6700);
    assert_int_equal(bt_pace_prompt_next_us(&p, 1, 5000), 8300);
    assert_int_equal(bt_pace_prompt_rows(&p, 0, 6699), 0);
    assert_int_equal(bt_pace_prompt_rows(&p, 0, 6700), 64);
    assert_int_equal(bt_pace_prompt_rows(&p, 1, 6700), 0);
    assert_int_equal(bt_pace_prompt_next_us(&p, 0, 6700), 9900);
    assert_int_equal(bt_pace_prompt_rows(&p, 1, 8300), 64);
    assert_int_equal(bt_pace_prompt_rows(&p, 0, 9899), 64);
    assert_int_equal(bt_pace_prompt_rows(&p, 0, 9900), 100);
    assert_int_equal(bt_pace_prompt_rows(&p, 1, 11499), 64);
    assert_int_equal(bt_pace_prompt_rows(&p, 1, 11500), 100);
    assert_int_equal(bt_pace_prompt_next_us(&p, 1, 11500), INT64_MAX);
    /* one that looks late sees all that is due */
    bt_pace_prompt_begin(&p, twice, &d, &(bt_work_prompt){.first = 64, .end = 100}, 0);
    assert_int_equal(bt_pace_prompt_rows(&p, 1, 0), 64);
    assert_int_equal(bt_pace_prompt_rows(&p, 1, 1000000), 100);
}

static void blocks_pass_a_link_one_after_the_other(void **state)
{
    (void)state;
    const bt_pace twice = {.milli = 2000};
    const bt_link link = {.bits_per_us = 8, .latency_ns = 5000}, none = {0};
    bt_pace_link l = {0};
    int64_t begin = -1;
    assert_int_equal(bt_pace_link_take(&l, &begin, &twice, &link, 100, 10), 100 + 2 * 15);
    assert_int_equal(begin, 100);
    /* another transfer meanwhile waits its turn */
    assert_int_equal(bt_pace_link_take(&l, &begin, &twice, &link, 110, 20), 130 + 2 * 25);
    assert_int_equal(begin, 130);
    assert_int_equal(bt_pace_link_take(&l, &begin, &twice, &link, 1000, 1), 1000 + 2 * 6);
    assert_int_equal(bt_pace_link_take(&l, &begin, &twice, &none, 2000, 1000), 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_k_and_refuses_what_is_none),
        cmocka_unit_test(due_times_are_rounded_up_and_never_wrap),
        cmocka_unit_test(late_is_what_ended_after_it_was_due),
        cmocka_unit_test(rows_may_be_seen_layer_by_layer_and_chunk_by_chunk),
        cmocka_unit_test(blocks_pass_a_link_one_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
