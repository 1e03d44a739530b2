/* Defaults of sampling: what a file says in any type of number, what it says wrongly, and what stands where
 * it says nothing. */
#include "model/defaults.h"
#include "model/gguf.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct warnings {
    int count;
    char last[512];
} warnings;

static void note(void *ud, const char *text)
{
    warnings *w = ud;
    w->count++;
    (void)snprintf(w->last, sizeof w->last, "%s", text);
}

/* Ends w. */
static bt_defaults read_file(tiny_gguf *w, warnings *warned)
{
    size_t len;
    bt_gguf *g = NULL;
    uint8_t *bytes = tiny_gguf_finish(w, &len);
    *warned = (warnings){0};
    assert_int_equal(bt_gguf_open_bytes(&g, bytes, len, NULL), BT_OK);
    const bt_defaults d = bt_defaults_of(g, note, warned);
    bt_gguf_close(g);
    free(bytes);
    return d;
}

static void check(const bt_defaults *d, bt_default_field f, double value, const char *from)
{
    assert_float_equal(d->value[f], value, 1e-7);
    assert_string_equal(bt_defaults_source_name(d->source[f]), from);
}

static void without_a_file_they_are_those_of_local_servers(void **state)
{
    (void)state;
    const bt_defaults d = bt_defaults_of(NULL, NULL, NULL);
    check(&d, BT_DEFAULT_TEMPERATURE, 0.8, "default");
    check(&d, BT_DEFAULT_TOP_P, 0.95, "default");
    check(&d, BT_DEFAULT_TOP_K, 40, "default");
    check(&d, BT_DEFAULT_MIN_P, 0.05, "default");
    check(&d, BT_DEFAULT_REPETITION_PENALTY, 1, "default");
}

static void each_field_of_a_file_counts_on_its_own_and_an_option_over_it(void **state)
{
    (void)state;
    warnings warned;
    tiny_gguf *w = tiny_gguf_new(3, 0);
    tiny_gguf_f32(w, "general.sampling.temp", 0.25f);
    tiny_gguf_u32(w, "general.sampling.top_k", 20);
    tiny_gguf_f32(w, "general.sampling.penalty_repeat", 1.5f);
    bt_defaults d = read_file(w, &warned);
    check(&d, BT_DEFAULT_TEMPERATURE, 0.25, "file");
    check(&d, BT_DEFAULT_TOP_P, 0.95, "default");
    check(&d, BT_DEFAULT_TOP_K, 20, "file");
    check(&d, BT_DEFAULT_MIN_P, 0.05, "default");
    check(&d, BT_DEFAULT_REPETITION_PENALTY, 1.5, "file");
    assert_int_equal(warned.count, 0);
    bt_defaults_set(&d, BT_DEFAULT_TOP_K, 7);
    check(&d, BT_DEFAULT_TOP_K, 7, "option");
    check(&d, BT_DEFAULT_TEMPERATURE, 0.25, "file");
}

static void any_type_of_number_will_do(void **state)
{
    (void)state;
    static const float f32 = 12.0f;
    static const double f64 = 12.0;
    static const uint8_t twelve[8] = {12}; /* any integer type, little-endian */
    static const struct {
        bt_gguf_type type;
        const void *bytes;
        size_t len;
    } c[] = {
        {BT_GGUF_U8, twelve, 1},  {BT_GGUF_I8, twelve, 1},  {BT_GGUF_U16, twelve, 2},
        {BT_GGUF_I16, twelve, 2}, {BT_GGUF_U32, twelve, 4}, {BT_GGUF_I32, twelve, 4},
        {BT_GGUF_U64, twelve, 8}, {BT_GGUF_I64, twelve, 8}, {BT_GGUF_F32, &f32, 4},
        {BT_GGUF_F64, &f64, 8},
    };
    warnings warned;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        tiny_gguf *w = tiny_gguf_new(3, 0);
        tiny_gguf_raw(w, "general.sampling.top_k", c[i].type, c[i].bytes, c[i].len);
        const bt_defaults d = read_file(w, &warned);
        check(&d, BT_DEFAULT_TOP_K, 12, "file");
        assert_int_equal(warned.count, 0);
    }
    tiny_gguf *w = tiny_gguf_new(3, 0);
    static const uint8_t minus_one[4] = {255, 255, 255, 255};
    tiny_gguf_raw(w, "general.sampling.top_k", BT_GGUF_I32, minus_one, 4);
    const bt_defaults d = read_file(w, &warned);
    check(&d, BT_DEFAULT_TOP_K, 0, "file");
}

static void what_is_no_number_or_out_of_range_is_warned_of_once_and_not_used(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        float value;
        bt_default_field field;
        const char *words;
    } c[] = {
        {"general.sampling.temp", -0.5f, BT_DEFAULT_TEMPERATURE, "from 0 to 2"},
        {"general.sampling.temp", NAN, BT_DEFAULT_TEMPERATURE, "nan"},
        {"general.sampling.temp", INFINITY, BT_DEFAULT_TEMPERATURE, "inf"},
        {"general.sampling.top_p", 1.5f, BT_DEFAULT_TOP_P, "from 0 to 1"},
        {"general.sampling.top_k", 2.5f, BT_DEFAULT_TOP_K, "a whole number"},
        {"general.sampling.top_k", -2, BT_DEFAULT_TOP_K, "from -1"},
        {"general.sampling.min_p", 2, BT_DEFAULT_MIN_P, "'general.sampling.min_p' is 2"},
        {"general.sampling.penalty_repeat", 0, BT_DEFAULT_REPETITION_PENALTY, "from 0.01 to 100"},
    };
    const bt_defaults plain = bt_defaults_of(NULL, NULL, NULL);
    warnings warned;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        tiny_gguf *w = tiny_gguf_new(3, 0);
        tiny_gguf_f32(w, c[i].key, c[i].value);
        const bt_defaults d = read_file(w, &warned);
        check(&d, c[i].field, plain.value[c[i].field], "default");
        assert_int_equal(warned.count, 1);
        if (!strstr(warned.last, c[i].words)) fail_msg("says '%s', not '%s'", warned.last, c[i].words);
    }
    tiny_gguf *w = tiny_gguf_new(3, 0);
    tiny_gguf_str(w, "general.sampling.temp", "0.7");
    tiny_gguf_bool(w, "general.sampling.top_p", true);
    const bt_defaults d = read_file(w, &warned);
    check(&d, BT_DEFAULT_TEMPERATURE, 0.8, "default");
    check(&d, BT_DEFAULT_TOP_P, 0.95, "default");
    assert_int_equal(warned.count, 2);
    assert_non_null(strstr(warned.last, "a number is needed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_file_they_are_those_of_local_servers),
        cmocka_unit_test(each_field_of_a_file_counts_on_its_own_and_an_option_over_it),
        cmocka_unit_test(any_type_of_number_will_do),
        cmocka_unit_test(what_is_no_number_or_out_of_range_is_warned_of_once_and_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
