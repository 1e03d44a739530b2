/* The fields that say what an answer's text may be: each becomes the program that its compiler makes, once;
 * what cannot be is a 400 that names the field. */
#include "gateway/api/structure.h"
#include "gateway/api/dialect.h"
#include "base/rng.h"
#include "tests/unit/grammar/kit.h"

#include <stdbool.h>
#include <stddef.h>

static const bt_defaults defaults = {.value = {[BT_DEFAULT_TOP_P] = 1}};
static const char *const names[] = {"m"};
static const gw_ask_limits limits = {names, 1, 100, 4, &defaults, NULL};

/* {"prompt": "a", FIELDS}; compiled with s. */
static bt_err read(gw_ask *r, gw_error *err, gw_structures *s, const char *fields, bool is_quick)
{
    char body[4096];
    const int n = snprintf(body, sizeof body, "{\"prompt\":\"a\",%s}", fields);
    memset(r, 0, sizeof *r);
    bt_err e = gw_dialect_read(r, err, &gw_dialect_text, body, (size_t)n, &limits);
    if (e == BT_OK) e = gw_structures_compile(s, r, is_quick, err);
    return e;
}

/* 'y', 'p' or 'n' as grammar_says, of the program that the fields make. */
static char says(gw_structures *s, const char *fields, const char *text)
{
    gw_ask r;
    gw_error err = {0};
    bt_program *p = NULL;
    if (read(&r, &err, s, fields, false) < 0) fail_msg("%s: %s", fields, err.message);
    assert_ptr_equal(r.sampling.program, r.program);
    assert_int_equal(bt_program_new(&p, r.sampling.program, r.sampling.program_len, NULL), BT_OK);
    const char ret = grammar_says(p, text);
    bt_program_free(p);
    gw_ask_done(&r);
    return ret;
}

static void each_field_becomes_its_program(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        /* fields, a text that is one, a text that is none */
        {"\"response_format\":{\"type\":\"json_object\"}", "{\"a\": [1]}", "[1]"},
        {"\"response_format\":{\"type\":\"json_object\",\"schema\":{\"type\":\"array\"}}", "[1]", "{\"a\""},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"strict\":true,"
         "\"schema\":{\"properties\":{\"a\":{\"type\":\"boolean\"}},\"required\":[\"a\"]}}}",
         "{\"a\":true}", "{}"},
        {"\"json_schema\":{\"enum\":[1,\"x\"]}", "\"x\"", "2"},
        {"\"guided_json\":{\"type\":\"null\"}", "null", "0"},
        {"\"guided_json\":\"{\\\"type\\\":\\\"null\\\"}\"", "null", "0"},
        {"\"guided_regex\":\"a{2,3}\"", "aaa", "b"},
        {"\"guided_choice\":[\"yes\",\"no\"]", "no", "maybe"},
        {"\"guided_grammar\":\"root ::= \\\"x\\\"+\"", "xx", "y"},
        {"\"grammar\":\"root ::= \\\"x\\\"+\"", "xx", "y"},
        {"\"structured_outputs\":{\"json\":{\"type\":\"null\"},\"regex\":null}", "null", "0"},
        {"\"structured_outputs\":{\"json_object\":true}", "{}", "0"},
        {"\"structured_outputs\":{\"regex\":\"[0-9]+\"}", "10", "a"},
        {"\"structured_outputs\":{\"choice\":[\"a\"]}", "a", "b"},
        {"\"structured_outputs\":{\"grammar\":\"root ::= \\\"q\\\"\"}", "q", "b"},
    };
    gw_structures *s = gw_structures_new();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (says(s, rows[i][0], rows[i][1]) != 'y') fail_msg("%s: not %s", rows[i][0], rows[i][1]);
        if (says(s, rows[i][0], rows[i][2]) != 'n') fail_msg("%s: %s", rows[i][0], rows[i][2]);
    }
    gw_structures_free(s);
}

static void fields_that_ask_for_nothing_make_none(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "\"response_format\":{\"type\":\"text\"}",
        "\"grammar\":\"\"",
        "\"response_format\":{\"type\":\"text\",\"schema\":null,\"json_schema\":null}",
        "\"guided_json\":null",
        "\"structured_outputs\":{\"json\":null}",
        "\"structured_outputs\":{\"json_object\":false}"};
    gw_structures *s = gw_structures_new();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gw_ask r;
        gw_error err = {0};
        assert_int_equal(read(&r, &err, s, rows[i], true), BT_OK);
        assert_int_equal(r.sampling.program_len, 0);
        gw_ask_done(&r);
    }
    gw_structures_free(s);
}

static void an_error_names_the_field_and_the_cause(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"\"response_format\":{\"type\":\"xml\"}", "response_format", "'xml' is not one of"},
        {"\"response_format\":\"json\"", "response_format", "object with a 'type'"},
        {"\"response_format\":{\"type\":\"json_schema\"}", "response_format", "has no 'schema'"},
        {"\"json_schema\":{\"not\":{}}", "json_schema", "'not' is not supported"},
        {"\"json_schema\":[1]", "json_schema", "a JSON schema"},
        {"\"guided_json\":\"{\"", "guided_json", "not JSON"},
        {"\"guided_regex\":\"(a\"", "guided_regex", "byte"},
        {"\"guided_regex\":7", "guided_regex", "a string"},
        {"\"guided_choice\":[]", "guided_choice", "at least one"},
        {"\"guided_choice\":[1]", "guided_choice", "array of strings"},
        {"\"grammar\":\"root ::= x\"", "grammar", "'x' is not defined"},
        {"\"grammar\":\"root ::= root \\\"a\\\"\"", "grammar", "no text"},
        {"\"response_format\":{\"type\":\"text\",\"schema\":3}", "response_format", "a JSON schema"},
        {"\"response_format\":{\"type\":\"text\",\"json_schema\":{\"schema\":[]}}", "response_format",
         "a JSON schema"},
        {"\"response_format\":{\"type\":\"text\",\"json_schema\":3}", "response_format", "an object"},
        {"\"response_format\":{\"type\":\"text\",\"json_schema\":{\"schema\":{},\"name\":3}}",
         "response_format", "a string"},
        {"\"response_format\":{\"type\":\"text\",\"json_schema\":{\"schema\":{},\"strict\":3}}",
         "response_format", "true or false"},
        {"\"response_format\":{\"type\":\"text\",\"json_schema\":{}}", "response_format", "has no 'schema'"},
        {"\"structured_outputs\":{\"choice\":false}", "structured_outputs.choice", "an array of strings"},
        {"\"structured_outputs\":{\"xml\":1}", "structured_outputs", "'structured_outputs.xml'"},
        {"\"structured_outputs\":{\"regex\":\"(\"}", "structured_outputs.regex", "byte"},
        {"\"guided_regex\":\"a\",\"json_schema\":{}", "json_schema", "'guided_regex' says already"},
        {"\"structured_outputs\":{\"regex\":\"a\",\"choice\":[\"b\"]}", "structured_outputs.choice",
         "'structured_outputs.regex' says already"},
        {"\"guided_regex\":\"(a{9999}){9999}\"", "guided_regex", ""},
    };
    gw_structures *s = gw_structures_new();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gw_ask r;
        gw_error err = {0};
        assert_int_equal(read(&r, &err, s, rows[i][0], false), BT_EARG);
        assert_int_equal(err.status, 400);
        assert_string_equal(err.param, rows[i][1]);
        if (!strstr(err.message, rows[i][2])) fail_msg("%s: %s", rows[i][0], err.message);
        gw_ask_done(&r);
    }
    gw_structures_free(s);
}

/* More schemas than are kept, at random, most of them again and again: the same bytes each time, whether they
 * were kept or not; those that were are there without compiling. */
static void a_program_is_the_same_kept_or_not(void **state)
{
    (void)state;
    enum { SCHEMAS = 2 * GW_STRUCTURES_KEPT, LOOKS = 1500 };
    static uint8_t first[SCHEMAS][BT_PROGRAM_HEADER_BYTES];
    static bool is_known[SCHEMAS];
    gw_structures *s = gw_structures_new();
    size_t kept = 0, compiled = 0;
    for (uint64_t i = 0; i < LOOKS; i++) {
        const uint64_t which = bt_rng_u64(5, i) % (i % 4 ? GW_STRUCTURES_KEPT / 2 : SCHEMAS);
        char fields[64];
        gw_ask r;
        gw_error err = {0};
        (void)snprintf(fields, sizeof fields, "\"json_schema\":{\"minLength\":%d}", (int)which);
        const bt_err quick = read(&r, &err, s, fields, true);
        if (quick == BT_EAGAIN) {
            gw_ask_done(&r);
            assert_int_equal(read(&r, &err, s, fields, false), BT_OK);
            compiled++;
        } else {
            assert_int_equal(quick, BT_OK);
            kept++;
        }
        assert_true(r.sampling.program_len > BT_PROGRAM_HEADER_BYTES);
        if (!is_known[which]) memcpy(first[which], r.program, sizeof first[which]);
        is_known[which] = true;
        assert_memory_equal(first[which], r.program, sizeof first[which]);
        gw_ask_done(&r);
    }
    assert_true(kept > LOOKS / 2 && compiled > GW_STRUCTURES_KEPT);
    gw_structures_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_becomes_its_program),
        cmocka_unit_test(fields_that_ask_for_nothing_make_none),
        cmocka_unit_test(an_error_names_the_field_and_the_cause),
        cmocka_unit_test(a_program_is_the_same_kept_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
