/* Anthropic's messages: what becomes of a request, and answers, streams and errors byte for byte. */
#include "tests/helpers/api/dialect_case.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define D (&gw_dialect_messages)

static void reads_a_conversation_with_system_blocks_and_thoughts(void **state)
{
    (void)state;
    gw_ask r = dialect_good(
        D,
        "{\"model\":\"alias\",\"max_tokens\":9,\"stream\":true,\"temperature\":0.5,\"top_p\":0.9,\"top_k\":7,"
        "\"stop_sequences\":[\"a\",\"b\"],\"metadata\":{\"user_id\":\"u\"},\"thinking\":{\"type\":"
        "\"enabled\","
        "\"budget_tokens\":1024},\"output_config\":{\"effort\":\"low\"},"
        "\"system\":[{\"type\":\"text\",\"text\":\"Be \",\"cache_control\":{\"type\":\"ephemeral\"}},"
        "{\"type\":\"text\",\"text\":\"brief.\"}],\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"\"},"
        "{\"type\":\"text\",\"text\":\"y\"}]},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"z\"}]}]}");
    dialect_talks(&r,
                  "[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"x\"},"
                  "{\"role\":\"assistant\",\"content\":\"y\",\"reasoning_content\":\"hm\"},"
                  "{\"role\":\"user\",\"content\":\"z\"}]");
    assert_true(json_is_true(json_object_get(r.talk.kwargs, "enable_thinking")));
    assert_string_equal(json_string_value(json_object_get(r.talk.kwargs, "reasoning_effort")), "low");
    assert_true(r.is_chat && r.is_stream && r.max_tokens == 9 && r.stops == 2 && r.sampling.top_k == 7);
    gw_ask_done(&r);

    r = dialect_good(
        D, "{\"model\":\"tiny\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
           "\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":{\"type\":\"object\"}}}}");
    assert_int_equal(r.structure.form, GW_STRUCTURE_SCHEMA);
    assert_false(r.is_stream);
    gw_ask_done(&r);
}

static void refuses_what_it_does_not_do_by_name(void **state)
{
    (void)state;
#define ONE "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"
    static const struct {
        const char *body, *param, *words;
    } c[] = {
        {"{\"max_tokens\":1}", "messages", "Missing required parameter: 'messages'"},
        {"{" ONE "}", "max_tokens", "Missing required parameter: 'max_tokens'"},
        {"{\"max_tokens\":0," ONE "}", "max_tokens", "not in the range"},
        {"{\"max_tokens\":1,\"messages\":[]}", "messages", "0 messages"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}", "messages[0]",
         "'user', 'assistant' and 'system'"},
        {"{\"max_tokens\":1," ONE ",\"thinking\":{\"type\":\"enabled\",\"display\":\"all\"}}", "thinking",
         "'summarized' and 'omitted'"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\"}]}", "messages[0].content", "Missing"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"name\":\"n\"}]}",
         "messages[0]", "name"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
         "messages[0].content", "of type 'image'"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\"}]}]}",
         "messages[0].content", "of type 'tool_result'"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"thinking\","
         "\"thinking\":\"t\"}]}]}",
         "messages[0].content", "of type 'thinking'"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\","
         "\"content\":\"y\"}]}",
         "messages", "must end with a message of the user"},
        {"{\"max_tokens\":1," ONE ",\"tools\":[{\"name\":\"f\"}]}", "tools", "not supported"},
        {"{\"max_tokens\":1," ONE ",\"tool_choice\":{\"type\":\"any\"}}", "tool_choice", "not supported"},
        {"{\"max_tokens\":1," ONE ",\"thinking\":{\"type\":\"on\"}}", "thinking",
         "'enabled', 'disabled', 'adaptive'"},
        {"{\"max_tokens\":1," ONE ",\"stop_sequences\":\"a\"}", "stop_sequences", "an array of strings"},
        {"{\"max_tokens\":1," ONE ",\"stop\":\"a\"}", "stop", "Unrecognized"},
        {"{\"max_tokens\":1," ONE ",\"output_config\":{\"format\":{\"type\":\"text\"}}}",
         "output_config.format", "json_schema"},
        {"{\"max_tokens\":1," ONE ",\"system\":[{\"type\":\"image\"}]}", "system", "of type 'image'"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char body[512] = "{\"model\":\"tiny\",";
        (void)strncat(body, c[i].body + 1, sizeof body - strlen(body) - 1);
        dialect_bad(D, body, 400, c[i].param, c[i].words);
    }
    dialect_bad(D, "{\"model\":\"other\",\"max_tokens\":1," ONE "}", 404, "model", "does not exist");
}

static void a_system_message_may_stand_among_the_messages_and_an_empty_one_is_none(void **state)
{
    (void)state;
    gw_ask r =
        dialect_good(D, "{\"model\":\"tiny\",\"max_tokens\":1,\"system\":\"\",\"messages\":["
                        "{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"system\",\"content\":\"s\"}]}");
    dialect_talks(&r, "[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"system\",\"content\":\"s\"}]");
    gw_ask_done(&r);
    r = dialect_good(
        D, "{\"model\":\"tiny\",\"max_tokens\":1,\"system\":[{\"type\":\"text\",\"text\":\"\"}]," ONE "}");
    dialect_talks(&r, "[{\"role\":\"user\",\"content\":\"x\"}]");
    gw_ask_done(&r);
}

static void a_count_needs_no_length_and_takes_no_sampling(void **state)
{
    (void)state;
    gw_ask r = dialect_good(&gw_dialect_count, "{\"model\":\"tiny\"," ONE ",\"system\":\"s\",\"tools\":[]}");
    dialect_talks(&r, "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"x\"}]");
    gw_ask_done(&r);
    dialect_bad(&gw_dialect_count, "{\"model\":\"tiny\"," ONE ",\"max_tokens\":1}", 400, "max_tokens",
                "Unrecognized");
}

#define USAGE \
    "\"usage\":{\"input_tokens\":3,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":2," \
    "\"output_tokens\":3}"

static void writes_whole_answers(void **state)
{
    (void)state;
    gw_answer_report r = dialect_report("a \"b\"", "", GW_ENDING_STOP);
    dialect_whole(
        D, &r,
        "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"tiny\",\"content\":["
        "{\"type\":\"text\",\"text\":\"a "
        "\\\"b\\\"\"}],\"stop_reason\":\"end_turn\",\"stop_sequence\":null," USAGE "}");
    r = dialect_report("a", "hm", GW_ENDING_STRING);
    dialect_whole(
        D, &r,
        "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"tiny\",\"content\":["
        "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"\"},{\"type\":\"text\",\"text\":\"a\"}],"
        "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"END\"," USAGE "}");
}

static void an_answer_that_the_context_ends_says_so(void **state)
{
    (void)state;
    gw_answer_report r = dialect_report("a", "", GW_ENDING_LENGTH);
    r.bound = (gw_bound){3, "context", true};
    dialect_whole(
        D, &r,
        "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"tiny\",\"content\":["
        "{\"type\":\"text\",\"text\":\"a\"}],\"stop_reason\":\"model_context_window_exceeded\","
        "\"stop_sequence\":null," USAGE "}");
}

static void thoughts_that_are_omitted_are_blocks_without_a_text(void **state)
{
    (void)state;
    bt_buf b;
    gw_ask r = dialect_good(D, "{\"model\":\"tiny\",\"max_tokens\":1," ONE
                               ",\"thinking\":{\"type\":\"adaptive\",\"display\":\"omitted\"}}");
    gw_answer a = gw_dialect_answer(D, &r);
    const gw_answer_report report = dialect_report("a", "hm", GW_ENDING_STOP);
    gw_ask_done(&r);
    a.model = "tiny";
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(D->whole(&b, &a, &report, json_null()), BT_OK);
    assert_non_null(strstr(bt_buf_text(&b), "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"},"
                                            "{\"type\":\"text\",\"text\":\"a\"}"));
    bt_buf_clear(&b);
    assert_int_equal(D->part(&b, &a, &(bt_thoughts_part){true, report.thoughts}, json_null()), BT_OK);
    assert_int_equal(D->part(&b, &a, &(bt_thoughts_part){false, report.said}, json_null()), BT_OK);
    assert_null(strstr(bt_buf_text(&b), "thinking_delta"));
    assert_non_null(strstr(bt_buf_text(&b), "\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\""));
    assert_non_null(strstr(bt_buf_text(&b),
                           "\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}"));
    bt_buf_done(&b);
    gw_dialect_answer_done(&a);
}

static void writes_streams_of_named_events(void **state)
{
    (void)state;
    const gw_answer_report r = dialect_report("a", "hm", GW_ENDING_LENGTH);
    dialect_stream(
        D, &r,
        "event: message_start\ndata: "
        "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\","
        "\"role\":\"assistant\",\"model\":\"tiny\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":"
        "null,\"usage\":{"
        "\"input_tokens\":3,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":2,\"output_"
        "tokens\":0}}}\n\n"
        "event: content_block_start\ndata: "
        "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
        "\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n"
        "event: ping\ndata: {\"type\":\"ping\"}\n\n"
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
        "\"thinking_delta\",\"thinking\":\"hm\"}}\n\n"
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
        "event: content_block_start\ndata: "
        "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":"
        "\"text\",\"text\":\"\"}}\n\n"
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":"
        "\"text_delta\",\"text\":\"a\"}}\n\n"
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n"
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\","
        "\"stop_sequence\":null}," USAGE "}\n\n"
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

static void errors_have_its_types(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *type;
    } c[] = {{400, "invalid_request_error"},
             {401, "authentication_error"},
             {403, "permission_error"},
             {404, "not_found_error"},
             {405, "invalid_request_error"},
             {413, "request_too_large"},
             {429, "rate_limit_error"},
             {500, "api_error"},
             {502, "api_error"},
             {503, "overloaded_error"},
             {504, "timeout_error"}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char want[128];
        (void)snprintf(want, sizeof want,
                       "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"Why\"}}", c[i].type);
        dialect_error(D, c[i].status, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_conversation_with_system_blocks_and_thoughts),
        cmocka_unit_test(refuses_what_it_does_not_do_by_name),
        cmocka_unit_test(a_system_message_may_stand_among_the_messages_and_an_empty_one_is_none),
        cmocka_unit_test(a_count_needs_no_length_and_takes_no_sampling),
        cmocka_unit_test(writes_whole_answers),
        cmocka_unit_test(an_answer_that_the_context_ends_says_so),
        cmocka_unit_test(thoughts_that_are_omitted_are_blocks_without_a_text),
        cmocka_unit_test(writes_streams_of_named_events),
        cmocka_unit_test(errors_have_its_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
