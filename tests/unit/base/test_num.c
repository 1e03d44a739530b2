/* Strict numbers: what is accepted, what is refused, and that refusals leave the result alone. */
#include "base/num.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <locale.h>
#include <string.h>

static void reads_whole_numbers_within_their_range(void **s)
{
    (void)s;
    int64_t v = 7;
    assert_int_equal(bt_num_int(&v, "0", 0, 10, NULL), BT_OK);
    assert_int_equal(v, 0);
    assert_int_equal(bt_num_int(&v, "-0", -1, 1, NULL), BT_OK);
    assert_int_equal(v, 0);
    assert_int_equal(bt_num_int(&v, "9223372036854775807", INT64_MIN, INT64_MAX, NULL), BT_OK);
    assert_true(v == INT64_MAX);
    assert_int_equal(bt_num_int(&v, "-9223372036854775808", INT64_MIN, INT64_MAX, NULL), BT_OK);
    assert_true(v == INT64_MIN);
    assert_int_equal(bt_num_int(&v, "007", 0, 10, NULL), BT_OK);
    assert_int_equal(v, 7);
}

static void refuses_what_is_not_a_whole_number(void **s)
{
    (void)s;
    static const char *bad[] = {"",
                                "-",
                                "+1",
                                " 1",
                                "1 ",
                                "1x",
                                "0x10",
                                "1.0",
                                "1e3",
                                "--1",
                                "9223372036854775808",
                                "-9223372036854775809",
                                "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t v = 42;
        bt_fault f = {""};
        assert_int_equal(bt_num_int(&v, bad[i], INT64_MIN, INT64_MAX, &f), BT_EARG);
        assert_int_equal(v, 42);
        assert_true(strlen(f.text) > 0);
    }
    int64_t v = 42;
    bt_fault f;
    assert_int_equal(bt_num_int(&v, "70000", 0, 65535, &f), BT_EARG);
    assert_string_equal(f.text, "70000 is not within 0..65535");
    assert_int_equal(v, 42);
}

static void reads_doubles_without_the_locale(void **s)
{
    (void)s;
    static const struct {
        const char *text;
        double value;
    } good[] = {
        {"0", 0}, {"-1.5", -1.5}, {".25", .25}, {"5.", 5}, {"1e3", 1000}, {"2.5E-1", .25}, {"1e+2", 100},
    };
    static const char *bad[] = {"",    "-",     ".",   "e5", "1e", "1e+", "nan",
                                "inf", "0x1p3", "1,5", "+1", " 1", "1 ",  "1e999"};
    (void)setlocale(LC_ALL, "de_DE.UTF-8"); /* where it exists, a comma would be the point */
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double v = 42;
        assert_int_equal(bt_num_double(&v, good[i].text, -1e9, 1e9, NULL), BT_OK);
        assert_true(v == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double v = 42;
        assert_int_equal(bt_num_double(&v, bad[i], -1e300, 1e300, NULL), BT_EARG);
        assert_true(v == 42);
    }
    (void)setlocale(LC_ALL, "C");
    double v = 42;
    assert_int_equal(bt_num_double(&v, "2.01", 0, 2, NULL), BT_EARG);
    assert_true(v == 42);
}

static void reads_sizes_in_powers_of_1024(void **s)
{
    (void)s;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},
        {"1", 1},
        {"3K", 3072},
        {"512M", 536870912},
        {"8G", UINT64_C(8589934592)},
        {"2T", UINT64_C(2199023255552)},
        {"16777215T", UINT64_C(16777215) << 40},
        {"18446744073709551615", UINT64_MAX},
    };
    static const char *bad[] = {
        "", "K", "1k", "1KB", "1.5G", "-1", "1 G", "16777216T", "18446744073709551616", "1X"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t v = 42;
        assert_int_equal(bt_num_size(&v, good[i].text, NULL), BT_OK);
        assert_true(v == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t v = 42;
        assert_int_equal(bt_num_size(&v, bad[i], NULL), BT_EARG);
        assert_int_equal(v, 42);
    }
}

static void reads_durations_to_the_millisecond(void **s)
{
    (void)s;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"0", 0},        {"30", 30000},    {"30s", 30000}, {"250ms", 250}, {"1.5m", 90000},   {"0.5", 500},
        {"2h", 7200000}, {"1.100s", 1100}, {"0.29s", 290}, {"0.001s", 1},  {"0.25h", 900000},
    };
    static const char *bad[] = {"",
                                "s",
                                "1.",
                                ".5s",
                                "-1s",
                                "1 s",
                                "1sec",
                                "1d",
                                "0.5ms",
                                "0.0001s",
                                "1e3",
                                "0.0000000000001h",
                                "9223372036854775808ms",
                                "99999999999999999999h"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t v = 42;
        assert_int_equal(bt_num_duration(&v, good[i].text, NULL), BT_OK);
        assert_int_equal(v, good[i].ms);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t v = 42;
        assert_int_equal(bt_num_duration(&v, bad[i], NULL), BT_EARG);
        assert_int_equal(v, 42);
    }
}

static void checked_arithmetic_keeps_the_result_on_overflow(void **s)
{
    (void)s;
    size_t v = 42;
    assert_false(bt_mul_size(&v, SIZE_MAX / 2, 3));
    assert_false(bt_add_size(&v, SIZE_MAX, 1));
    assert_int_equal(v, 42);
    assert_true(bt_mul_size(&v, 6, 7) && v == 42);
}

static void little_endian_access_names_every_byte(void **s)
{
    (void)s;
    const uint8_t want[8] = {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01};
    uint8_t got[8];
    bt_put64(got, UINT64_C(0x0123456789abcdef));
    assert_memory_equal(got, want, 8);
    assert_true(bt_get64(want) == UINT64_C(0x0123456789abcdef));
    assert_true(bt_get32(want) == 0x89abcdefu);
    assert_true(bt_get16(want) == 0xcdefu);
}

static void sizes_are_told_in_the_unit_that_fits(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *want;
    } of[] = {{0, "0 B"},
              {1023, "1023 B"},
              {1024, "1.0 KiB"},
              {98362432, "93.8 MiB"},
              {UINT64_C(24) << 30, "24.0 GiB"},
              {UINT64_MAX, "16777216.0 TiB"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char text[32];
        bt_num_size_text(text, sizeof text, of[i].bytes);
        assert_string_equal(text, of[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_whole_numbers_within_their_range),
        cmocka_unit_test(refuses_what_is_not_a_whole_number),
        cmocka_unit_test(reads_doubles_without_the_locale),
        cmocka_unit_test(reads_sizes_in_powers_of_1024),
        cmocka_unit_test(reads_durations_to_the_millisecond),
        cmocka_unit_test(checked_arithmetic_keeps_the_result_on_overflow),
        cmocka_unit_test(little_endian_access_names_every_byte),
        cmocka_unit_test(sizes_are_told_in_the_unit_that_fits),
    };
    return cmocka_run_group_tests_name("num", tests, NULL, NULL);
}
