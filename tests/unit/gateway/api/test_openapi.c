/* The description of the API against the table of fields and itself. */
#include "gateway/api/openapi.h"
#include "gateway/api/answer.h"
#include "gateway/api/dialect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static json_t *document(void)
{
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(gw_openapi_render(&b), BT_OK);
    json_t *j = json_loadb(bt_buf_text(&b), b.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(j);
    bt_buf_done(&b);
    return j;
}

static json_t *schema(const json_t *doc, const char *name)
{
    return json_object_get(json_object_get(json_object_get(doc, "components"), "schemas"), name);
}

static void every_field_of_the_table_is_described_where_it_may_stand_and_no_other(void **state)
{
    (void)state;
    static const gw_dialect *const dialects[] = {
#define X(name) &gw_dialect_##name,
#include "gateway/api/dialects_table.h"
#undef X
    };
    json_t *doc = document();
    for (size_t k = 0; k < sizeof dialects / sizeof *dialects; k++) {
        const gw_dialect *d = dialects[k];
        const json_t *s = schema(doc, d->request), *properties = json_object_get(s, "properties");
        size_t n = 0, at = 0, required = 0;
        const gw_field *f;
        while ((f = gw_fields_next(&at, d->own, d->where))) {
            n++;
            required += f->is_required;
            const json_t *p = json_object_get(properties, f->name);
            if (!p) fail_msg("%s has no %s", d->request, f->name);
            assert_non_null(json_object_get(p, "description"));
        }
        assert_int_equal(json_object_size(properties), n);
        assert_true(json_is_false(json_object_get(s, "additionalProperties")));
        assert_int_equal(json_array_size(json_object_get(s, "required")), required);
    }
    const json_t *t =
        json_object_get(json_object_get(schema(doc, "ChatRequest"), "properties"), "temperature");
    assert_true(json_number_value(json_object_get(t, "maximum")) == 2);
    json_decref(doc);
}

static void check_references(const json_t *doc, json_t *j)
{
    const char *key;
    json_t *v;
    size_t i;
    json_array_foreach(j, i, v) check_references(doc, v);
    json_object_foreach(j, key, v) {
        if (strcmp(key, "$ref") == 0 && !schema(doc, json_string_value(v) + strlen("#/components/schemas/")))
            fail_msg("nothing is at %s", json_string_value(v));
        check_references(doc, v);
    }
}

static void what_is_referred_to_is_there(void **state)
{
    (void)state;
    json_t *doc = document();
    check_references(doc, doc);
    json_decref(doc);
}

static bool has_word(const json_t *list, const char *word)
{
    size_t i;
    const json_t *v;
    json_array_foreach(list, i, v)
        if (json_is_string(v) && strcmp(json_string_value(v), word) == 0) return true;
    return false;
}

static void a_chats_answer_may_be_calls_of_tools(void **state)
{
    (void)state;
    json_t *doc = document(), *choice, *message;
    assert_int_equal(json_unpack(schema(doc, "ChatAnswer"), "{s:{s:{s:{s:o}}}}", "properties", "choices",
                                 "items", "properties", &choice),
                     0);
    assert_int_equal(json_unpack(choice, "{s:{s:o}}", "message", "properties", &message), 0);
    const char *why, *item;
    assert_int_equal(json_unpack(choice, "{s:{s:s}}", "finish_reason", "$ref", &why), 0);
    assert_string_equal(why, "#/components/schemas/ChatFinishReason");
    for (int i = 0; i < 3; i++) {
        const gw_ending ending[] = {GW_ENDING_STOP, GW_ENDING_LENGTH, GW_ENDING_CALLS};
        const char *reason = gw_answer_reason(ending[i]);
        assert_true(has_word(json_object_get(schema(doc, "ChatFinishReason"), "enum"), reason));
        assert_int_equal(has_word(json_object_get(schema(doc, "FinishReason"), "enum"), reason), i < 2);
    }
    const json_t *type = json_object_get(json_object_get(message, "content"), "type");
    assert_true(has_word(type, "string") && has_word(type, "null"));
    assert_int_equal(json_unpack(message, "{s:{s:{s:s}}}", "tool_calls", "items", "$ref", &item), 0);
    assert_string_equal(item, "#/components/schemas/ToolCall");
    const json_t *call = schema(doc, "ToolCall"), *function;
    for (size_t i = 0; i < 3; i++) {
        static const char *const key[] = {"id", "type", "function"};
        assert_non_null(json_object_get(json_object_get(call, "properties"), key[i]));
    }
    function = json_object_get(json_object_get(call, "properties"), "function");
    assert_true(has_word(json_object_get(function, "required"), "arguments"));
    json_decref(doc);
}

static void a_key_may_come_in_either_header(void **state)
{
    (void)state;
    json_t *doc = document();
    const json_t *schemes = json_object_get(json_object_get(doc, "components"), "securitySchemes");
    json_t *want = json_pack("{s:{s:s,s:s},s:{s:s,s:s,s:s}}", "bearer", "type", "http", "scheme", "bearer",
                             "header", "type", "apiKey", "in", "header", "name", "X-Api-Key");
    assert_true(json_equal(schemes, want));
    json_t *either = json_pack("[{},{s:[]},{s:[]}]", "bearer", "header");
    assert_true(json_equal(json_object_get(doc, "security"), either));
    json_decref(want);
    json_decref(either);
    json_decref(doc);
}

static void with_line_breaks_it_says_the_same(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(gw_openapi_render_lines(&b), BT_OK);
    json_t *doc = document(), *lines = json_loadb(bt_buf_text(&b), b.len, 0, NULL);
    assert_true(json_equal(doc, lines));
    json_decref(doc);
    json_decref(lines);
    bt_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_of_the_table_is_described_where_it_may_stand_and_no_other),
        cmocka_unit_test(what_is_referred_to_is_there),
        cmocka_unit_test(a_chats_answer_may_be_calls_of_tools),
        cmocka_unit_test(a_key_may_come_in_either_header),
        cmocka_unit_test(with_line_breaks_it_says_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
