/* Answers of the OpenAI API, byte for byte, and that what is written is read back the same by a JSON
 * reader. */
#include "gateway/api/openai.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const int32_t prompt_ids[] = {1, 2, 3}, token_ids[] = {7, 8};
static const bt_msg_engine npu = {
    .name = "npu",
    .quant = "w8a8:no-r2",
    .shape_policy = "chunk:256+tail",
    .profile = "host",
    .fallbacks_len = 1,
    .fallbacks = {{.op = "rmsnorm", .why = "\xff not among the NPU's", .count = 61}},
};
static const bt_msg_chunks two_chunks = {2, {{2, 0, 1500, 1}, {1, 1250, 2000000, 1}}};
static const gw_answer_report report = {
    .ending = GW_ENDING_STOP,
    .prompt_ids = prompt_ids,
    .prompt_tokens = 3,
    .token_ids = token_ids,
    .completion_tokens = 2,
    .bound = {5, "request"},
    .text = "a \"b\" \xc3\xa9",
    .text_len = 8,
    .ttft_us = 1500,
    .has_prefill = true,
    .has_decode = true,
    .has_kv = true,
    .gateway_queue_us = 500,
    .reserve_us = -1,
    .queue_us = 250,
    .prefill_us = 2000000,
    .chunks = &two_chunks,
    .decode_us = 500000,
    .decode_steps = 4,
    .kv_bytes = 4096,
    .kv_exposed_us = 125,
    .kv_transfer_us = 375,
    .kv_digest = {{0xab, 1}},
    .work = {.rows = 16, .npu_macs = 3000, .companion_macs = 1000, .shadow_entries = 5, .masked_macs = 1000,
             .expert_rows = 30, .expert_padding_rows = 10, .session_switches = 4,
             .session_switch_ns = 1500000, .tile_padding_macs = 600, .npu_int16_macs = 500,
             .npu_float_macs = 2000},
    .prefilled_by = "d1",
    .attempts = 3,
    .recoveries = 2,
    .cached_tokens = 1,
    .covered_tokens = 2,
    .engine = &npu,
    .top_len = 2,
    .top_ids = {7, 9},
    .top_logits = {3.3f, -1.0f},
};
static gw_answer answer_of(const gw_dialect *d)
{
    gw_answer a = {.dialect = d, .model = "tiny", .created_us = INT64_C(1700000000000000)};
    (void)strcpy(a.id, "chatcmpl-1");
    return a;
}
/* A whole answer of what is said and thought, whatever `text` is. */
static bt_err whole(bt_buf *out, gw_answer *a, const gw_answer_report *r, const char *said,
                    const char *thoughts)
{
    gw_answer_report copy = *r;
    copy.said = (bt_text_span){said, strlen(said)};
    copy.thoughts = (bt_text_span){thoughts, strlen(thoughts)};
    return a->dialect->whole(out, a, &copy, json_null());
}
static bt_text_span span(const char *text) { return (bt_text_span){text, strlen(text)}; }
static const bt_thoughts_part *said(const char *text)
{
    static bt_thoughts_part p;
    p = (bt_thoughts_part){false, span(text)};
    return &p;
}

#define HEAD \
    "\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"tiny\""
#define TIMINGS \
    "\"timings\":{\"cache_n\":1,\"prompt_n\":2,\"prompt_ms\":2000.0,\"prompt_per_second\":1.0,\"predicted_" \
    "n\":2,\"predicted_ms\":500.0,\"predicted_per_second\":8.0}"
#define BATON \
    "\"baton\":{\"text\":\"a \\\"b\\\" " \
    "\xc3\xa9\",\"token_ids\":[7,8],\"prompt_ids\":[1,2,3],\"prompt_tokens\":3,\"completion_tokens\":2," \
    "\"finish_reason\":\"stop\",\"max_tokens\":5,\"max_tokens_from\":\"request\",\"ttft_ms\":1.5," \
    "\"gateway_queue_ms\":0.5,\"reserve_ms\":null,\"queue_ms\":0.25,\"prefill_tokens_per_second\":1.0," \
    "\"decode_tokens_per_second\":8.0,\"kv_bytes\":4096,\"kv_exposed_ms\":0.125,\"kv_transfer_ms\":0.375," \
    "\"kv_digest\":" \
    "\"ab010000000000000000000000000000\",\"prefilled_by\":\"d1\",\"attempts\":3,\"recoveries\":2,\"cached_" \
    "tokens\":1,\"covered_tokens\":2,\"first_logits\":[[7,3.29999995],[9,-1.0]],\"engine\":\"npu\"," \
    "\"quant\":\"w8a8:no-r2\",\"shape_policy\":\"chunk:256+tail\",\"profile\":\"host\",\"npu_mac_ratio\":0." \
    "75,\"npu_int8_mac_ratio\":0.125,\"npu_int16_mac_ratio\":0.125,\"npu_float_mac_ratio\":0.5,\"padding_" \
    "ratio\":0.875,\"fallbacks\":[{\"op\":\"rmsnorm\",\"count\":61,\"why\":\"? not among the " \
    "NPU's\"}],\"compilations\":0,\"masked_mac_ratio\":0.2,\"expert_padding_ratio\":0.25,\"session_" \
    "switches\":4," \
    "\"session_switch_ms\":1.5,\"tile_padding_macs\":600," \
    "\"chunks\":[{\"tokens\":2,\"begin_ms\":0.0,\"end_ms\":1.5,\"chunks\":1}," \
    "{\"tokens\":1,\"begin_ms\":1.25,\"end_ms\":2000.0,\"chunks\":1}],\"device\":null,\"warnings\":[]}"
#define USAGE \
    "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5,\"prompt_tokens_details\":{" \
    "\"cached_tokens\":1}}"

static void writes_a_whole_chat_answer(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    gw_answer h = answer_of(&gw_dialect_chat);
    h.is_baton = true;
    assert_int_equal(whole(&b, &h, &report, report.text, ""), BT_OK);
    assert_string_equal(bt_buf_text(&b), "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":"
                                         "1700000000,\"model\":\"tiny\",\"choices\":[{\"index\":0,"
                                         "\"message\":{\"role\":\"assistant\",\"content\":\"a \\\"b\\\" "
                                         "\xc3\xa9\"},\"logprobs\":null,\"finish_reason\":\"stop\"}]," USAGE
                                         "," TIMINGS "," BATON "}");
    bt_buf_done(&b);
}

static void thoughts_stand_beside_what_is_said_under_both_names(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    gw_answer h = answer_of(&gw_dialect_chat);
    assert_int_equal(whole(&b, &h, &report, "b", "a\n"), BT_OK);
    assert_non_null(strstr(bt_buf_text(&b),
                           "\"message\":{\"role\":\"assistant\",\"content\":\"b\",\"reasoning_content\":"
                           "\"a\\n\",\"reasoning\":\"a\\n\"}"));
    bt_buf_clear(&b);
    assert_int_equal(h.dialect->part(&b, &h, &(bt_thoughts_part){true, span("a")}, json_null()), BT_OK);
    assert_non_null(strstr(bt_buf_text(&b), "\"delta\":{\"reasoning_content\":\"a\",\"reasoning\":\"a\"}"));
    bt_buf_done(&b);
}

static void calls_of_tools_are_two_deltas_each_and_end_the_answer(void **state)
{
    (void)state;
    bt_buf b;
    char id[2][GW_ANSWER_CALL_ID_CHARS + 1], want[1024];
    bt_buf_init(&b, 1 << 20);
    gw_answer h = answer_of(&gw_dialect_chat);
    gw_answer_report r = report;
    for (uint32_t i = 0; i < 2; i++) {
        gw_answer_call_id(id[i], &h, i);
        assert_int_equal(strlen(id[i]), GW_ANSWER_CALL_ID_CHARS);
    }
    assert_string_not_equal(id[0], id[1]);
    assert_int_equal(h.dialect->call(&b, &h, &(bt_call){"f", "{\"a\": \"x\"}", 1}), BT_OK);
    (void)snprintf(
        want, sizeof want,
        "data: {" HEAD ",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"%s\","
        "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]},\"logprobs\":null,"
        "\"finish_reason\":null}]}\n\n"
        "data: {" HEAD ",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":"
        "{\"arguments\":\"{\\\"a\\\": \\\"x\\\"}\"}}]},\"logprobs\":null,\"finish_reason\":null}]}\n\n",
        id[1]);
    assert_string_equal(bt_buf_text(&b), want);
    bt_buf_clear(&b);
    r.ending = GW_ENDING_CALLS;
    r.calls =
        json_pack("[{s:s,s:s},{s:s,s:s}]", "name", "f", "arguments", "{}", "name", "g", "arguments", "{}");
    assert_int_equal(whole(&b, &h, &r, "", ""), BT_OK);
    (void)snprintf(
        want, sizeof want,
        "\"message\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"%s\",\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"id\":\"%s\",\"type\":"
        "\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},\"logprobs\":null,"
        "\"finish_reason\":\"tool_calls\"}",
        id[0], id[1]);
    assert_non_null(strstr(bt_buf_text(&b), want));
    json_decref(r.calls);
    bt_buf_done(&b);
}

static void a_bos_of_the_prompts_own_is_a_warning(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    gw_answer h = answer_of(&gw_dialect_chat);
    gw_answer_report r = report;
    r.brings_bos = true;
    h.is_baton = true;
    assert_int_equal(whole(&b, &h, &r, "b", ""), BT_OK);
    assert_non_null(strstr(bt_buf_text(&b), "\"warnings\":[\"the prompt begins with the BOS token"));
    bt_buf_done(&b);
}

static void writes_a_whole_completion_and_null_for_what_never_came(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    gw_answer h = answer_of(&gw_dialect_text);
    const gw_answer_report r = {.ending = GW_ENDING_LENGTH, .bound = {1, "context"}, .prompt_ids = prompt_ids,
                                .prompt_tokens = 1, .ttft_us = 1};
    h.is_baton = true;
    assert_int_equal(whole(&b, &h, &r, "", ""), BT_OK);
    json_t *j = json_loads(bt_buf_text(&b), 0, NULL);
    assert_non_null(j);
    assert_string_equal(json_string_value(json_object_get(j, "object")), "text_completion");
    const json_t *choice = json_array_get(json_object_get(j, "choices"), 0);
    assert_string_equal(json_string_value(json_object_get(choice, "text")), "");
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "length");
    const json_t *baton = json_object_get(j, "baton");
    assert_true(json_is_null(json_object_get(baton, "kv_digest")));
    assert_true(json_is_null(json_object_get(baton, "kv_bytes")));
    static const char *const unknown[] = {"engine",
                                          "quant",
                                          "shape_policy",
                                          "profile",
                                          "npu_mac_ratio",
                                          "padding_ratio",
                                          "compilations",
                                          "masked_mac_ratio",
                                          "session_switches",
                                          "session_switch_ms",
                                          "tile_padding_macs",
                                          "npu_int8_mac_ratio",
                                          "npu_int16_mac_ratio",
                                          "npu_float_mac_ratio"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_true(json_is_null(json_object_get(baton, unknown[i])));
    assert_int_equal(json_array_size(json_object_get(baton, "fallbacks")), 0);
    assert_true(json_is_null(json_object_get(baton, "decode_tokens_per_second")));
    assert_int_equal(json_array_size(json_object_get(baton, "token_ids")), 0);
    json_decref(j);
    bt_buf_done(&b);
}

static void writes_a_stream_with_role_text_end_and_done(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    gw_answer h = answer_of(&gw_dialect_chat);
    assert_int_equal(h.dialect->begin(&b, &h), BT_OK);
    assert_int_equal(h.dialect->part(&b, &h, said("hi\n"), json_null()), BT_OK);
    h.is_baton = true;
    assert_int_equal(h.dialect->end(&b, &h, &report), BT_OK);
    assert_string_equal(
        bt_buf_text(&b),
        "data: {" HEAD ",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
        "\"logprobs\":null,\"finish_reason\":null}]}\n\n"
        "data: {" HEAD ",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\\n\"},\"logprobs\":null,"
        "\"finish_reason\":null}]}\n\n"
        "data: {" HEAD
        ",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]," TIMINGS
        "," BATON "}\n\n"
        "data: [DONE]\n\n");
    bt_buf_done(&b);
}

static void writes_the_usage_chunk_with_an_empty_array_of_choices(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    gw_answer h = answer_of(&gw_dialect_chat);
    h.has_usage_chunk = true;
    assert_int_equal(h.dialect->end(&b, &h, &report), BT_OK);
    assert_string_equal(bt_buf_text(&b),
                        "data: {" HEAD ",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_"
                        "reason\":\"stop\"}],\"usage\":null}\n\n"
                        "data: {" HEAD ",\"choices\":[]," USAGE "," TIMINGS "}\n\n"
                        "data: [DONE]\n\n");
    bt_buf_done(&b);
}

static void writes_chunks_of_a_completion(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    gw_answer h = answer_of(&gw_dialect_text);
    assert_int_equal(h.dialect->begin(&b, &h), BT_OK);
    assert_int_equal(b.len, 0);
    assert_int_equal(h.dialect->part(&b, &h, said("a"), json_null()), BT_OK);
    assert_string_equal(bt_buf_text(&b), "data: "
                                         "{\"id\":\"chatcmpl-1\",\"object\":\"text_completion\",\"created\":"
                                         "1700000000,\"model\":\"tiny\",\"choices\":[{\"index\":0,"
                                         "\"text\":\"a\",\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    bt_buf_done(&b);
}

static void writes_errors_with_null_where_there_is_no_field_or_code(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    gw_error err;
    (void)gw_error_say(&err, 400, "x", "stop", "Bad \"%s\"", "stop");
    assert_int_equal(gw_dialect_error(&b, &gw_dialect_chat, &err), BT_OK);
    assert_string_equal(
        bt_buf_text(&b),
        "{\"error\":{\"message\":\"Bad "
        "\\\"stop\\\"\",\"type\":\"invalid_request_error\",\"param\":\"stop\",\"code\":\"x\"}}");
    bt_buf_clear(&b);
    (void)gw_error_say(&err, 500, NULL, NULL, "Gone");
    assert_int_equal(gw_dialect_error_event(&b, &gw_dialect_chat, &err), BT_OK);
    assert_string_equal(
        bt_buf_text(&b),
        "data: "
        "{\"error\":{\"message\":\"Gone\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n");
    bt_buf_done(&b);
}

static void writes_an_error_whatever_bytes_a_node_said(void **state)
{
    (void)state;
    bt_buf b;
    gw_error err;
    bt_buf_init(&b, 4096);
    (void)gw_error_say(&err, 502, "node_failed", NULL, "not \xff text");
    assert_int_equal(gw_dialect_error(&b, &gw_dialect_chat, &err), BT_OK);
    assert_string_equal(bt_buf_text(&b),
                        "{\"error\":{\"message\":\"not ? text"
                        "\",\"type\":\"server_error\",\"param\":null,\"code\":\"node_failed\"}}");
    bt_buf_done(&b);
}

static void adds_nothing_when_the_buffer_is_full(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, 20);
    gw_answer h = answer_of(&gw_dialect_chat);
    assert_true(h.dialect->part(&b, &h, said("hello"), json_null()) < 0);
    assert_int_equal(b.len, 0);
    bt_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_a_whole_chat_answer),
        cmocka_unit_test(thoughts_stand_beside_what_is_said_under_both_names),
        cmocka_unit_test(calls_of_tools_are_two_deltas_each_and_end_the_answer),
        cmocka_unit_test(a_bos_of_the_prompts_own_is_a_warning),
        cmocka_unit_test(writes_a_whole_completion_and_null_for_what_never_came),
        cmocka_unit_test(writes_a_stream_with_role_text_end_and_done),
        cmocka_unit_test(writes_the_usage_chunk_with_an_empty_array_of_choices),
        cmocka_unit_test(writes_chunks_of_a_completion),
        cmocka_unit_test(writes_errors_with_null_where_there_is_no_field_or_code),
        cmocka_unit_test(writes_an_error_whatever_bytes_a_node_said),
        cmocka_unit_test(adds_nothing_when_the_buffer_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
