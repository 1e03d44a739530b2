/* OpenAI's responses: what becomes of items, whole answers, and the order and numbers of events. */
#include "tests/helpers/api/dialect_case.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define D (&gw_dialect_responses)

static void reads_a_text_or_items_behind_the_instructions(void **state)
{
    (void)state;
    gw_ask r = dialect_good(
        D, "{\"input\":\"x\",\"instructions\":\"s\",\"max_output_tokens\":9,\"temperature\":0.5,"
           "\"reasoning\":{\"effort\":\"low\",\"summary\":\"auto\"},\"store\":false,\"metadata\":{},"
           "\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{\"type\":"
           "\"object\"}}},\"include\":[\"message.output_text.logprobs\"],\"top_logprobs\":2}");
    dialect_talks(&r, "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"x\"}]");
    assert_true(r.is_chat && !r.is_stream && r.max_tokens == 9 && r.sampling.logprobs &&
                r.sampling.top_logprobs == 2);
    assert_int_equal(r.structure.form, GW_STRUCTURE_SCHEMA);
    assert_string_equal(json_string_value(json_object_get(r.talk.kwargs, "reasoning_effort")), "low");
    gw_ask_done(&r);

    r = dialect_good(
        D,
        "{\"stream\":true,\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"x\"}"
        ","
        "{\"type\":\"input_text\",\"text\":\"y\"}]},{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],"
        "\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hm\"}]},{\"type\":\"message\",\"id\":\"m\","
        "\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":"
        "\"z\",\"annotations\":[]}]},{\"role\":\"user\",\"content\":\"w\"}]}");
    dialect_talks(&r, "[{\"role\":\"user\",\"content\":\"xy\"},{\"role\":\"assistant\",\"content\":\"z\","
                      "\"reasoning_content\":\"hm\"},{\"role\":\"user\",\"content\":\"w\"}]");
    assert_true(r.is_stream && !r.sampling.logprobs);
    gw_ask_done(&r);

    r = dialect_good(D, "{\"input\":\"x\",\"instructions\":\"\"}");
    assert_string_equal(r.prompt_field, "input"); /* which errors about the prompt name */
    dialect_talks(&r, "[{\"role\":\"user\",\"content\":\"x\"}]");
    gw_ask_done(&r);
}

static void refuses_what_it_does_not_do_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *body, *param, *words;
    } c[] = {
        {"{}", "input", "Missing"},
        {"{\"input\":[]}", "input", "0 items"},
        {"{\"input\":3}", "input", "a string or an array"},
        {"{\"input\":[{\"type\":\"reasoning\",\"summary\":[]}]}", "input", "no message"},
        {"{\"input\":[{\"type\":\"function_call_output\"}]}", "input[0]", "of type 'function_call_output'"},
        {"{\"input\":[{\"type\":{},\"role\":\"user\",\"content\":\"x\"}]}", "input[0]", "a string"},
        {"{\"input\":[{\"role\":\"robot\",\"content\":\"x\"}]}", "input[0]", "role"},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}", "input[0].content",
         "of type 'input_image'"},
        {"{\"input\":\"x\",\"previous_response_id\":\"resp_1\"}", "previous_response_id", "not supported"},
        {"{\"input\":\"x\",\"background\":true}", "background", "not supported"},
        {"{\"input\":\"x\",\"truncation\":\"auto\"}", "truncation", "not supported"},
        {"{\"input\":\"x\",\"tools\":[{\"type\":\"function\"}]}", "tools", "not supported"},
        {"{\"input\":\"x\",\"include\":[\"file_search_call.results\"]}", "include", "supported are"},
        {"{\"input\":\"x\",\"max_output_tokens\":0}", "max_output_tokens", "not in the range"},
        {"{\"input\":\"x\",\"metadata\":{\"a\":1}}", "metadata", "at most 16 strings"},
        {"{\"input\":\"x\",\"metadata\":[]}", "metadata", "at most 16 strings"},
        {"{\"input\":\"x\",\"max_tokens\":5}", "max_tokens", "Unrecognized"},
        {"{\"input\":\"x\",\"text\":{\"format\":{\"type\":\"xml\"}}}", "text.format", "xml"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) dialect_bad(D, c[i].body, 400, c[i].param, c[i].words);
}

#define REST(used) \
    "\"parallel_tool_calls\":false,\"previous_response_id\":null,\"store\":false,\"temperature\":0.5," \
    "\"text\":{\"format\":{\"type\":\"text\"}}," \
    "\"tool_choice\":" \
    "\"none\",\"tools\":[],\"top_p\":0.95,\"truncation\":\"disabled\",\"usage\":" used ",\"metadata\":{}}"
#define USED \
    "{\"input_tokens\":5,\"input_tokens_details\":{\"cached_tokens\":2},\"output_tokens\":3," \
    "\"output_tokens_details\":{\"reasoning_tokens\":1},\"total_tokens\":8}"

static void a_whole_answer_has_an_item_of_thoughts_before_the_message(void **state)
{
    (void)state;
    const gw_answer_report r = dialect_report("a", "hm", GW_ENDING_LENGTH);
    dialect_whole(
        D, &r,
        "{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":1700000000,\"status\":\"incomplete\","
        "\"error\":null,\"incomplete_details\":{\"reason\":\"max_output_tokens\"},\"instructions\":null,"
        "\"max_output_tokens\":7,\"model\":\"tiny\",\"output\":[{\"id\":\"rs_10\",\"type\":\"reasoning\","
        "\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hm\"}],\"status\":\"completed\"}"
        ","
        "{\"id\":\"msg_11\",\"type\":\"message\",\"status\":\"incomplete\",\"role\":\"assistant\","
        "\"content\":["
        "{\"type\":\"output_text\",\"text\":\"a\",\"annotations\":[],\"logprobs\":[]}]}]," REST(USED));
}

/* The events of a stream, without the words before each; the caller frees it. */
static json_t *events(const gw_answer_report *r)
{
    bt_buf b;
    gw_answer a = dialect_answer(D);
    json_t *list = json_array();
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(D->begin(&b, &a), BT_OK);
    if (r->thoughts.len)
        assert_int_equal(D->part(&b, &a, &(bt_thoughts_part){true, r->thoughts}, json_null()), BT_OK);
    if (r->said.len)
        assert_int_equal(D->part(&b, &a, &(bt_thoughts_part){false, r->said}, json_null()), BT_OK);
    assert_int_equal(D->end(&b, &a, r), BT_OK);
    for (const char *at = bt_buf_text(&b); (at = strstr(at, "\ndata: ")); at++) {
        const char *json = at + strlen("\ndata: "), *end = strstr(json, "\n\n");
        json_t *j = json_loadb(json, (size_t)(end - json), 0, NULL);
        const char *type = json_string_value(json_object_get(j, "type"));
        assert_memory_equal(at - strlen(type), type, strlen(type)); /* its name stands before it */
        assert_int_equal(json_array_append_new(list, j), 0);
    }
    gw_dialect_answer_done(&a);
    bt_buf_done(&b);
    return list;
}

static void are(const json_t *list, const char *const *types, size_t n)
{
    assert_int_equal(json_array_size(list), n);
    for (size_t i = 0; i < n; i++) {
        const json_t *j = json_array_get(list, i);
        assert_int_equal(json_integer_value(json_object_get(j, "sequence_number")), i);
        char want[64] = "response.";
        (void)strcat(want, types[i]);
        assert_string_equal(json_string_value(json_object_get(j, "type")), want);
    }
}

static void a_stream_opens_and_closes_each_item_and_ends_with_the_whole_answer(void **state)
{
    (void)state;
    static const char *const types[] = {"created",
                                        "in_progress",
                                        "output_item.added",
                                        "content_part.added",
                                        "reasoning_text.delta",
                                        "reasoning_text.done",
                                        "content_part.done",
                                        "output_item.done",
                                        "output_item.added",
                                        "content_part.added",
                                        "output_text.delta",
                                        "output_text.done",
                                        "content_part.done",
                                        "output_item.done",
                                        "completed"};
    const gw_answer_report r = dialect_report("a", "hm", GW_ENDING_STOP);
    json_t *list = events(&r);
    are(list, types, sizeof types / sizeof *types);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 5), "text")), "hm");
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 10), "delta")), "a");
    const json_t *delta = json_array_get(list, 10),
                 *response = json_object_get(json_array_get(list, 14), "response");
    assert_int_equal(json_integer_value(json_object_get(delta, "output_index")), 1);
    const json_t *output = json_object_get(response, "output");
    assert_true(json_equal(json_array_get(output, 0), json_object_get(json_array_get(list, 7), "item")));
    assert_true(json_equal(json_array_get(output, 1), json_object_get(json_array_get(list, 13), "item")));
    assert_string_equal(json_string_value(json_object_get(delta, "item_id")),
                        json_string_value(json_object_get(json_array_get(output, 1), "id")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(response, "usage"), "total_tokens")),
                     8);
    json_decref(list);
}

static void an_answer_without_a_text_is_an_empty_message_and_one_cut_off_is_incomplete(void **state)
{
    (void)state;
    static const char *const types[] = {
        "created",          "in_progress",       "output_item.added", "content_part.added",
        "output_text.done", "content_part.done", "output_item.done",  "incomplete"};
    const gw_answer_report r = dialect_report("", "", GW_ENDING_LENGTH);
    json_t *list = events(&r);
    are(list, types, sizeof types / sizeof *types);
    json_decref(list);
}

static json_t *whole_of(gw_answer *a, const gw_answer_report *r)
{
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(D->whole(&b, a, r, json_null()), BT_OK);
    json_t *j = json_loads(bt_buf_text(&b), 0, NULL);
    bt_buf_done(&b);
    return j;
}

static void answers_repeat_instructions_metadata_and_the_format(void **state)
{
    (void)state;
    static const char repeated[] =
        "{\"instructions\":\"s\",\"metadata\":{\"a\":\"b\"},\"text\":{\"format\":{\"type\":\"json_schema\","
        "\"name\":\"n\",\"strict\":true,\"schema\":{\"type\":\"object\"}}}}";
    char body[512];
    (void)snprintf(body, sizeof body, "{\"input\":\"x\",%s", repeated + 1);
    gw_ask r = dialect_good(D, body);
    gw_answer a = gw_dialect_answer(D, &r);
    gw_ask_drop_texts(&r); /* they outlive the texts of the request */
    gw_ask_done(&r);
    a.model = "tiny";
    const gw_answer_report report = dialect_report("a", "", GW_ENDING_STOP);
    json_t *j = whole_of(&a, &report), *want = json_loads(repeated, 0, NULL), *value;
    const char *key;
    json_object_foreach(want, key, value)
        if (!json_equal(json_object_get(j, key), value)) fail_msg("%s", key);
    json_decref(want);
    json_decref(j);
    gw_dialect_answer_done(&a);
}

/* The data of the next event of this name from *at on, which moves; NULL: no more. */
static json_t *next_event(const char **at, const char *name)
{
    char mark[96];
    (void)snprintf(mark, sizeof mark, "event: %s\ndata: ", name);
    const char *found = strstr(*at, mark);
    if (!found) return NULL;
    *at = found + strlen(mark);
    return json_loads(*at, JSON_DISABLE_EOF_CHECK, NULL);
}

static void thoughts_and_texts_that_alternate_are_items_in_their_order(void **state)
{
    (void)state;
    static const struct {
        bool is_thought;
        const char *text;
    } parts[] = {{true, "hm"}, {true, "!"},  {false, "a"}, {true, "h"},
                 {false, "b"}, {false, "c"}, {true, "x"}};
    static const char *const texts[] = {"hm!", "a", "h", "bc", "x", ""};
    bt_buf b;
    gw_answer a = dialect_answer(D), w = dialect_answer(D);
    const gw_answer_report r = dialect_report("abc", "hm!hx", GW_ENDING_STOP);
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(D->begin(&b, &a), BT_OK);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const bt_thoughts_part p = {parts[i].is_thought, {parts[i].text, strlen(parts[i].text)}};
        assert_int_equal(D->part(&b, &a, &p, json_null()), BT_OK);
        assert_int_equal(gw_answer_keep(&w, &p, i), BT_OK);
    }
    assert_int_equal(D->end(&b, &a, &r), BT_OK);
    const char *at = bt_buf_text(&b);
    json_t *last = next_event(&at, "response.completed"), *whole = whole_of(&w, &r), *done;
    const json_t *output = json_object_get(json_object_get(last, "response"), "output");
    assert_int_equal(json_array_size(output), 6);
    assert_true(json_equal(output, json_object_get(whole, "output")));
    at = bt_buf_text(&b);
    for (size_t i = 0; i < 6; i++) {
        const json_t *content = json_object_get(json_array_get(output, i), "content");
        assert_string_equal(json_string_value(json_object_get(json_array_get(content, 0), "text")), texts[i]);
        assert_non_null(done = next_event(&at, "response.output_item.done"));
        assert_true(json_equal(json_object_get(done, "item"), json_array_get(output, i)));
        json_decref(done);
    }
    json_decref(whole);
    json_decref(last);
    gw_dialect_answer_done(&a);
    gw_dialect_answer_done(&w);
    bt_buf_done(&b);
}

static void errors_are_openais(void **state)
{
    (void)state;
    dialect_error(D, 429,
                  "{\"error\":{\"message\":\"Why\",\"type\":\"rate_limit_error\",\"param\":\"field\","
                  "\"code\":\"word\"}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_text_or_items_behind_the_instructions),
        cmocka_unit_test(refuses_what_it_does_not_do_by_name),
        cmocka_unit_test(a_whole_answer_has_an_item_of_thoughts_before_the_message),
        cmocka_unit_test(a_stream_opens_and_closes_each_item_and_ends_with_the_whole_answer),
        cmocka_unit_test(an_answer_without_a_text_is_an_empty_message_and_one_cut_off_is_incomplete),
        cmocka_unit_test(answers_repeat_instructions_metadata_and_the_format),
        cmocka_unit_test(thoughts_and_texts_that_alternate_are_items_in_their_order),
        cmocka_unit_test(errors_are_openais),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
