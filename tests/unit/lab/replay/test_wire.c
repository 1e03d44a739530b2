/* Requests as servers read them, and what servers say. */
#include "lab/replay/wire.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAR(text) tool_replay_wire_event(&h, &r, &gap, text, sizeof(text) - 1, now)

static void a_stream_of_baton_tells_tokens_times_and_the_node(void **state)
{
    (void)state;
    tool_replay_heard h = {.text_hash = TOOL_REPLAY_TEXT_HASH};
    tool_replay_record r = {.first_us = -1, .queue_us = -1};
    int64_t gap = -1, now = 100;
    assert_true(HEAR("{\"choices\":[{\"text\":\"He\",\"finish_reason\":null}]}"));
    assert_true(gap == -1 && r.first_us == 100);
    now = 150;
    assert_false(HEAR("{\"choices\":[{\"text\":\"\",\"finish_reason\":null}]}"));
    assert_false(HEAR("{\"choices\":[]}"));
    now = 400;
    assert_true(HEAR("{\"choices\":[{\"delta\":{\"content\":\"llo\"}}]}"));
    assert_int_equal(gap, 300);
    now = 450;
    assert_true(HEAR("{\"choices\":[{\"text\":\"!\"}]}"));
    assert_int_equal(gap, 50);
    assert_false(h.is_over || h.has_usage);
    assert_false(HEAR("{\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}],\"usage\":null}"));
    assert_false(HEAR(
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\"prompt_tokens_details\":"
        "{\"cached_tokens\":3}},\"timings\":{\"prompt_ms\":1.5,\"predicted_ms\":null},\"baton\":{"
        "\"gateway_queue_ms\":1.25,\"reserve_ms\":4,\"kv_transfer_ms\":3,\"queue_ms\":0.25,\"ttft_ms\":7,"
        "\"kv_exposed_ms\":null,\"prefilled_by\":\"prefill-1\",\"chunks\":"
        "[{\"tokens\":6,\"begin_ms\":0.5,\"end_ms\":1.25,\"chunks\":1},"
        "{\"tokens\":3,\"begin_ms\":1.25,\"end_ms\":1e8,\"chunks\":2}]}}"));
    assert_false(HEAR("[DONE]"));
    assert_true(h.is_over && h.has_usage && !h.failure[0]);
    assert_true(r.events == 3 && r.last_us == 450 && r.stall_us == 300 && r.stall_at_us == 100);
    assert_true(r.prompt_tokens == 9 && r.completion_tokens == 4 && r.cached_tokens == 3);
    assert_true(r.prefill_us == 1500 && r.decode_us == -1 && r.queue_us == 250 && r.server_ttft_us == 7000);
    assert_true(r.gateway_queue_us == 1250 && r.reserve_us == 4000 && r.transfer_us == 3000);
    assert_int_equal(r.exposed_us, -1);
    assert_string_equal(h.node, "prefill-1");
    assert_int_equal(h.chunks, 2);
    assert_true(h.chunk[0].tokens == 6 && h.chunk[0].begin_us == 500 && h.chunk[0].end_us == 1250);
    assert_true(h.chunk[1].chunks == 2 && h.chunk[1].end_us == UINT32_MAX);
    assert_true(h.text_hash == tool_replay_text_hash(TOOL_REPLAY_TEXT_HASH, "Hello!", 6));
}

static void a_thought_is_a_piece_of_the_answer_under_either_name(void **state)
{
    (void)state;
    tool_replay_heard h = {.text_hash = TOOL_REPLAY_TEXT_HASH};
    tool_replay_record r = {.first_us = -1};
    int64_t gap = -1, now = 100;
    assert_true(HEAR("{\"choices\":[{\"delta\":{\"reasoning_content\":\"a\",\"reasoning\":\"a\"}}]}"));
    assert_int_equal(r.first_us, 100);
    assert_true(HEAR("{\"choices\":[{\"delta\":{\"content\":null,\"reasoning\":\"b\"}}]}"));
    assert_true(HEAR("{\"choices\":[{\"delta\":{\"content\":\"c\"}}]}"));
    assert_true(h.text_hash == tool_replay_text_hash(TOOL_REPLAY_TEXT_HASH, "abc", 3));
}

static void a_body_for_one_piece_is_the_same_without_the_stream(void **state)
{
    (void)state;
    bt_buf b;
    const tool_replay_dialect d = {.takes_ids = true};
    const tool_replay_item item = {.output_tokens = 3, .sampling = TOOL_REPLAY_NONE, .ids_len = 2};
    int32_t ids[] = {4, 5};
    const tool_replay_plan p = {.ids = ids};
    bt_buf_init(&b, 4096);
    tool_replay_wire_body(&b, &d, &p, &item, NULL, NULL, 0);
    json_t *stream = json_loadb(bt_buf_text(&b), b.len, 0, NULL);
    tool_replay_wire_whole(&b);
    json_t *whole = json_loadb(bt_buf_text(&b), b.len, 0, NULL);
    assert_non_null(whole);
    assert_true(json_is_true(json_object_get(stream, "stream")));
    assert_int_equal(json_object_del(stream, "stream"), 0);
    assert_int_equal(json_object_del(stream, "stream_options"), 0);
    assert_true(json_equal(stream, whole));
    tool_replay_wire_whole(&b); /* there is nothing more to take away */
    json_decref(stream);
    json_decref(whole);
    bt_buf_done(&b);
}

static void an_error_in_a_stream_is_a_failure_by_its_name(void **state)
{
    (void)state;
    tool_replay_heard h = {0};
    tool_replay_record r = {0};
    int64_t gap, now = 1;
    assert_false(HEAR("{\"error\":{\"code\":\"node_lost\",\"type\":\"server_error\"}}"));
    assert_string_equal(h.failure, "node_lost");
    assert_false(HEAR("{\"choices\":"));
    assert_string_equal(h.failure, "not_json");
    assert_false(HEAR("{\"error\":{\"code\":null,\"type\":\"odd,\\\"one\\n\"}}"));
    assert_string_equal(h.failure, "odd__one_"); /* it goes into a row of a CSV */
}

static void a_refusal_is_named_by_code_type_or_status(void **state)
{
    (void)state;
    char name[TOOL_REPLAY_KIND_BYTES];
    static const struct {
        long status;
        const char *body, *name;
    } c[] = {{429, "{\"error\":{\"code\":\"queue_full\",\"type\":\"rate_limit_error\"}}", "queue_full"},
             {400, "{\"error\":{\"code\":400,\"type\":\"invalid_request_error\"}}", "invalid_request_error"},
             {502, "<html>", "http_502"},
             {503, "", "http_503"},
             {200, "{\"choices\":[]}", "no_stream"}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        tool_replay_wire_failure(name, c[i].status, c[i].body, strlen(c[i].body));
        assert_string_equal(name, c[i].name);
    }
}

static json_t *body_of(const tool_replay_dialect *d, const tool_replay_plan *p, const tool_replay_item *item,
                       const uint32_t *word, size_t n)
{
    static char text[3][32] = {"one", "two", "three"};
    static int32_t id[3] = {7, 80, 900};
    const tool_replay_words w = {text, id, 3};
    bt_buf b;
    bt_buf_init(&b, 1 << 16);
    tool_replay_wire_body(&b, d, p, item, &w, word, n);
    assert_int_equal(b.err, BT_OK);
    json_t *j = json_loadb(bt_buf_text(&b), b.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(j);
    bt_buf_done(&b);
    return j;
}

static void a_request_is_what_the_server_was_found_to_take(void **state)
{
    (void)state;
    static const uint32_t word[] = {2, 0, 1};
    int32_t captured[] = {4, 5};
    bt_trace_sampling sampling = {.temperature = 0.5f, .top_p = 0.9f, .top_k = 4, .repeat_penalty = 1,
                                  .seed = 11};
    const tool_replay_plan p = {.ids = captured, .sampling = &sampling};
    const tool_replay_item plain = {.output_tokens = 9, .sampling = TOOL_REPLAY_NONE},
                           kept = {.output_tokens = 5, .ids_len = 2, .ends_itself = true};
    tool_replay_dialect d = {.takes_ids = true, .ignores_eos = true, .is_baton = true, .model = "a\"b"};
    json_t *j = body_of(&d, &p, &plain, word, 3), *want;
    want = json_pack("{s:s,s:[i,i,i],s:i,s:b,s:{s:b},s:i,s:b,s:b}", "model", "a\"b", "prompt", 900, 7, 80,
                     "max_tokens", 9, "stream", 1, "stream_options", "include_usage", 1, "temperature", 0,
                     "ignore_eos", 1, "baton", 1);
    assert_true(json_equal(j, want));
    json_decref(j);
    json_decref(want);
    d = (tool_replay_dialect){0};
    j = body_of(&d, &p, &plain, word, 3);
    assert_string_equal(json_string_value(json_object_get(j, "prompt")), "three one two");
    assert_null(json_object_get(j, "ignore_eos"));
    assert_null(json_object_get(j, "baton"));
    assert_null(json_object_get(j, "model"));
    json_decref(j);
    d.takes_ids = d.ignores_eos = true;
    j = body_of(&d, &p, &kept, NULL, 0); /* captured: its own ids, its own draws, its own end */
    assert_int_equal(json_integer_value(json_array_get(json_object_get(j, "prompt"), 1)), 5);
    assert_int_equal(json_integer_value(json_object_get(j, "seed")), 11);
    assert_int_equal(json_integer_value(json_object_get(j, "top_k")), 4);
    assert_null(json_object_get(j, "ignore_eos"));
    json_decref(j);
}

static void a_text_has_as_many_words_as_make_its_tokens(void **state)
{
    (void)state;
    const tool_replay_dialect ids = {.takes_ids = true}, text = {.words_per_token = 0.5, .words_off = -1};
    assert_int_equal(tool_replay_wire_words(&ids, 100), 100);
    assert_int_equal(tool_replay_wire_words(&text, 100), 49);
    assert_int_equal(tool_replay_wire_words(&text, 1), 1);
}

static void the_status_of_a_gateway_is_a_sample_of_its_nodes(void **state)
{
    (void)state;
    tool_replay_result r;
    tool_replay_sample s = {0};
    static const char status[] = "{\"queue\":{\"waiting\":3,\"running\":5,\"max\":9},\"nodes\":[{\"id\":"
                                 "\"d\",\"role\":\"decode\",\"slots_total\":8,"
                                 "\"slots_used\":2,\"queued\":1,\"pages_total\":50,\"pages_used\":10},{"
                                 "\"id\":5},{\"id\":\"p\",\"role\":\"prefill\","
                                 "\"queued\":4}]}";
    assert_int_equal(tool_replay_result_begin(&r, 1, NULL), BT_OK);
    assert_int_equal(tool_replay_result_node(&r, "p", ""), 0); /* an answer named it first */
    assert_true(tool_replay_wire_status(&s, &r, status, sizeof status - 1));
    assert_true(s.waiting == 3 && s.running == 5 && r.nodes == 2);
    assert_true(s.queued[0] == 4 && s.slots_used[1] == 2 && s.queued[1] == 1 && r.node[1].slots == 8);
    assert_true(s.pages_ratio[1] > 0.199f && s.pages_ratio[1] < 0.201f);
    assert_string_equal(r.node[0].role, "prefill");
    assert_false(tool_replay_wire_status(&s, &r, "{}", 2));
    assert_false(tool_replay_wire_status(&s, &r, "no", 2));
    tool_replay_result_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_of_baton_tells_tokens_times_and_the_node),
        cmocka_unit_test(a_thought_is_a_piece_of_the_answer_under_either_name),
        cmocka_unit_test(a_body_for_one_piece_is_the_same_without_the_stream),
        cmocka_unit_test(an_error_in_a_stream_is_a_failure_by_its_name),
        cmocka_unit_test(a_refusal_is_named_by_code_type_or_status),
        cmocka_unit_test(a_request_is_what_the_server_was_found_to_take),
        cmocka_unit_test(a_text_has_as_many_words_as_make_its_tokens),
        cmocka_unit_test(the_status_of_a_gateway_is_a_sample_of_its_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
