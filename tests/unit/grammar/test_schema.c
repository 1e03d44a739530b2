/* JSON Schema: what a schema lets through, and what is refused by name. tests/grammar/judge.py asks PyPI's
 * jsonschema about many more. */
#include "tests/unit/grammar/kit.h"

static void members_come_in_the_order_of_the_schema(void **state)
{
    (void)state;
    grammar_is(GRAMMAR_SCHEMA,
               "{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {}, \"c\": {\"type\": \"null\"}}, "
               "\"required\": [\"b\"]}",
               "y {\"a\":1,\"b\":[true]}", "y {\"b\": \"x\", \"c\": null}", "n {\"a\":1,\"c\"", "n {\"c\"",
               "p {\"b\":1", "n {\"b\":1,\"a\"", "n {\"b\":1,\"d\"", "n {}", "n {\"b\":1,}", NULL);
    grammar_is(GRAMMAR_SCHEMA, "{\"properties\": {\"a\": {}, \"b\": {}}}", "y {}", "y {\"b\":1}",
               "y {\"a\":1,\"b\":2}", "n {,", NULL);
}

static void white_space_stands_where_the_header_says(void **state)
{
    (void)state;
    grammar_is(GRAMMAR_SCHEMA, "{\"type\": \"array\", \"items\": {\"type\": \"object\"}}", "y [ ]",
               "y [\n  {\n\t\"a\": 1, \"b\": {} }\n]", "n [  ", "n [{\"a\" ", "n  [", "n [{\"a\":1 ,",
               "n [] ", NULL);
}

static void additional_members_have_other_keys(void **state)
{
    (void)state;
    grammar_is(
        GRAMMAR_SCHEMA,
        "{\"properties\": {\"ab\": {\"type\": \"null\"}}, \"additionalProperties\": {\"type\": \"integer\"}, "
        "\"required\": [\"x\"]}",
        "y {\"x\":1}", "y {\"ab\":null,\"x\":1,\"a\":2,\"abc\":3}", "n {\"x\":1,\"ab\"", "n {\"ab\":1",
        "n {\"x\":null", "n {}", NULL);
    grammar_is(GRAMMAR_SCHEMA, "{\"additionalProperties\": false}", "y {}", "n {\"", NULL);
}

static void numbers_keep_their_bounds(void **state)
{
    (void)state;
    grammar_is(GRAMMAR_SCHEMA, "{\"type\": \"integer\", \"minimum\": -12, \"exclusiveMaximum\": 305}",
               "y -12", "n -13", "y -9", "y 0", "y 304", "n 305", "n 31x", "n 01", "n -0", "p -", NULL);
    grammar_is(GRAMMAR_SCHEMA, "{\"type\": \"number\", \"exclusiveMinimum\": -0.25, \"maximum\": 10.5}",
               "y -0.2", "y -0.249", "n -0.25", "n -0.26", "y 10.5", "n 10.51", "y 9.999", "n 11", "n 1e",
               NULL);
    grammar_is(GRAMMAR_SCHEMA, "{\"minimum\": 1, \"exclusiveMinimum\": 1, \"maximum\": 2}", "p 1", "y 1.01",
               "y 2", "n 3", NULL);
}

/* Every whole number of a range that is cut in many ways. */
static void integers_between_two_bounds_are_those_alone(void **state)
{
    (void)state;
    static const int bounds[][2] = {{0, 0},      {-1, 1},    {7, 7},     {9, 11},
                                    {-105, -17}, {99, 1001}, {123, 987}, {-250, 1250}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        char text[80];
        (void)snprintf(text, sizeof text, "{\"type\": \"integer\", \"minimum\": %d, \"maximum\": %d}",
                       bounds[i][0], bounds[i][1]);
        bt_program *p = grammar(GRAMMAR_SCHEMA, text);
        for (int v = -1500; v <= 1500; v++) {
            (void)snprintf(text, sizeof text, "%d", v);
            assert_int_equal(grammar_says(p, text) == 'y', bounds[i][0] <= v && v <= bounds[i][1]);
        }
        bt_program_free(p);
    }
}

static void strings_have_lengths_patterns_and_formats(void **state)
{
    (void)state;
    grammar_is(GRAMMAR_SCHEMA, "{\"minLength\": 2, \"maxLength\": 3}", "y \"ab\"",
               "y \"\\ud83d\\ude00\u00e9\\n\"", "n \"a\"", "n \"abcd", "n \"\\ud83dx", "n \"a\n", NULL);
    grammar_is(GRAMMAR_SCHEMA, "{\"pattern\": \"b\\\"?$\", \"maxLength\": 3}", "y \"ab\"", "y \"ab\\\"\"",
               "n \"aaaa", "n \"a\"", NULL);
    grammar_is(GRAMMAR_SCHEMA, "{\"format\": \"date\"}", "y \"2024-02-29\"", "n \"2023-02-29", "n \"2023-13",
               "n \"0000-", "y \"2000-02-29\"", "y \"1999-12-31\"", NULL);
    grammar_is(GRAMMAR_SCHEMA, "{\"format\": \"uuid\"}", "y \"12345678-9abc-def0-1234-56789abcdef0\"",
               "n \"12345678-9abc\"", NULL);
    grammar_is(GRAMMAR_SCHEMA, "{\"format\": \"ipv4\"}", "y \"10.0.255.1\"", "n \"256", "n \"1.2.3\"", NULL);
    grammar_is(GRAMMAR_SCHEMA, "{\"format\": \"email\"}", "y \"a.b@c.de\"", "n \"a@b\"", NULL);
}

static void arrays_have_counts_and_places(void **state)
{
    (void)state;
    grammar_is(GRAMMAR_SCHEMA, "{\"items\": {\"type\": \"integer\"}, \"minItems\": 2, \"maxItems\": 3}",
               "y [1,2]", "y [1, 2,3]", "n [1]", "n []", "n [1,2,3,", NULL);
    grammar_is(
        GRAMMAR_SCHEMA,
        "{\"prefixItems\": [{\"const\": 1}, {\"const\": 2}], \"items\": {\"const\": 3}, \"minItems\": 1}",
        "n []", "y [1]", "y [1,2,3,3]", "n [1,3", "n [2", NULL);
    grammar_is(GRAMMAR_SCHEMA, "{\"prefixItems\": [{\"const\": 1}], \"items\": false}", "y []", "y [1]",
               "n [1,", NULL);
}

static void parts_are_chosen_joined_and_named(void **state)
{
    (void)state;
    grammar_is(GRAMMAR_SCHEMA, "{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"null\"}], \"minimum\": 5}",
               "y 5", "p 4", "y null", NULL);
    grammar_is(GRAMMAR_SCHEMA, "{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"string\"}]}", "y 4",
               "y \"\"", "n n", NULL);
    grammar_is(
        GRAMMAR_SCHEMA,
        "{\"allOf\": [{\"properties\": {\"a\": {\"type\": \"number\"}}, \"required\": [\"a\"]}, {\"$ref\": "
        "\"#/$defs/b\"}], \"$defs\": "
        "{\"b\": {\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {}}, \"required\": [\"b\"]}}}",
        "y {\"a\":1,\"b\":2}", "n {\"a\":1.", "n {\"a\":1}", NULL);
    grammar_is(GRAMMAR_SCHEMA,
               "{\"$defs\": {\"a/b~\": {\"properties\": {\"next\": {\"anyOf\": [{\"$ref\": "
               "\"#/$defs/a~1b~0\"}, {\"type\": \"null\"}]}}, "
               "\"required\": [\"next\"]}}, \"$ref\": \"#/$defs/a~1b~0\"}",
               "y {\"next\":{\"next\":{\"next\":null}}}", "n {}", "p {\"next\":{", NULL);
    grammar_is(GRAMMAR_SCHEMA,
               "{\"enum\": [1, \"a\\\"\u00e9\", [true, {}], null], \"type\": [\"string\", \"array\"]}",
               "y \"a\\\"\u00e9\"", "y [true,{}]", "n 1", "n n", NULL);
    grammar_is(GRAMMAR_SCHEMA, "true", "y {\"a\":[1,-2.5e10,{\"b\":\"\\u0041\"},false]}", "y null", "n nul1",
               NULL);
}

static void parts_that_begin_alike_are_one_state(void **state)
{
    (void)state;
    char text[8192], want[64];
    size_t n = (size_t)sprintf(text, "{\"anyOf\": [");
    for (int i = 0; i < 50; i++)
        n += (size_t)sprintf(
            text + n,
            "%s{\"properties\": {\"kind\": {\"const\": \"k%d\"}, \"v\": {}}, \"required\": [\"kind\"]}",
            i ? "," : "", i);
    (void)sprintf(text + n, "]}");
    bt_program *p = grammar(GRAMMAR_SCHEMA, text);
    (void)snprintf(want, sizeof want, "{\"kind\":\"k49\",\"v\":1}");
    assert_int_equal(grammar_says(p, want), 'y');
    bt_program_free(p);
}

static void what_is_not_supported_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"{\"not\": {}}", "'not'"},
        {"{\"if\": {}}", "'if'"},
        {"{\"patternProperties\": {}}", "'patternProperties'"},
        {"{\"type\": \"array\", \"uniqueItems\": true}", "'uniqueItems'"},
        {"{\"type\": \"integer\", \"multipleOf\": 2}", "'multipleOf'"},
        {"{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"number\"}]}", "'oneOf'"},
        {"{\"$ref\": \"http://x\"}", "'$ref'"},
        {"{\"$ref\": \"#/$defs/x\"}", "'$ref'"},
        {"{\"$ref\": \"#\"}", "no text"},
        {"{\"type\": \"thing\"}", "'thing'"},
        {"{\"format\": \"idn\"}", "'idn'"},
        {"{\"enum\": [1], \"minimum\": 3}", "'minimum' beside 'enum'"},
        {"{\"pattern\": \"\\\\bx\"}", "\\b"},
        {"false", "no text"},
        {"{\"minLength\": 3, \"maxLength\": 2}", "no text"},
        {"{\"properties\": []}", "'properties'"},
        {"{\"required\": [1]}", "'required'"},
        {"[]", "no object"},
        {"{\"allOf\": [{\"prefixItems\": [true]}], \"items\": {}}", "'items' beside 'prefixItems'"},
        {"{\"anyOf\": 1}", "'anyOf'"},
        {"{\"$defs\": {\"a\": {\"properties\": {\"a\": {\"$ref\": \"#/$defs/a\"}}, \"required\": [\"a\"]}}, "
         "\"$ref\": \"#/$defs/a\"}",
         "no text"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        grammar_refuses(GRAMMAR_SCHEMA, bad[i][0], BT_EARG, bad[i][1]);
}

static void what_explodes_is_refused_with_its_limit(void **state)
{
    (void)state;
    grammar_refuses(
        GRAMMAR_SCHEMA,
        "{\"$defs\": {\"a\": {\"allOf\": [{\"$ref\": \"#/$defs/a\"}, {}]}}, \"$ref\": \"#/$defs/a\"}",
        BT_ELIMIT, "16");
    grammar_refuses(GRAMMAR_SCHEMA, "{\"type\": \"string\", \"maxLength\": 65535}", BT_ELIMIT, "65534");
    grammar_refuses(GRAMMAR_SCHEMA, "{\"pattern\": \"x\", \"maxLength\": 60000}", BT_ELIMIT, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_come_in_the_order_of_the_schema),
        cmocka_unit_test(white_space_stands_where_the_header_says),
        cmocka_unit_test(additional_members_have_other_keys),
        cmocka_unit_test(numbers_keep_their_bounds),
        cmocka_unit_test(integers_between_two_bounds_are_those_alone),
        cmocka_unit_test(strings_have_lengths_patterns_and_formats),
        cmocka_unit_test(arrays_have_counts_and_places),
        cmocka_unit_test(parts_are_chosen_joined_and_named),
        cmocka_unit_test(parts_that_begin_alike_are_one_state),
        cmocka_unit_test(what_is_not_supported_is_refused_by_name),
        cmocka_unit_test(what_explodes_is_refused_with_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
