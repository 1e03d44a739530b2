/* The completion of llama.cpp's server: its fields, its answers byte for byte. */
#include "tests/helpers/api/dialect_case.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define D (&gw_dialect_llama)

static void reads_texts_and_ids_with_no_limit_of_its_own(void **state)
{
    (void)state;
    gw_ask r =
        dialect_good(D,
                     "{\"prompt\":\"x\",\"n_probs\":2,\"stop\":[\"a\"],\"cache_prompt\":true,\"id_slot\":-1,"
                     "\"samplers\":[\"top_k\"],\"response_fields\":[],\"grammar\":\"root ::= \\\"a\\\"\"}");
    assert_true(!r.is_chat && !r.is_stream && r.max_tokens == 0 && r.default_tokens == 0);
    assert_true(r.sampling.logprobs && r.sampling.top_logprobs == 2 && r.stops == 1);
    assert_int_equal(r.structure.form, GW_STRUCTURE_GRAMMAR);
    gw_ask_done(&r);
    r = dialect_good(D, "{\"prompt\":[1,2,3],\"n_predict\":-1,\"stream\":true}");
    assert_true(r.prompt_ids_len == 3 && r.is_stream && r.max_tokens == 0);
    gw_ask_done(&r);
    dialect_bad(D, "{\"prompt\":\"x\",\"response_fields\":[\"content\"]}", 400, "response_fields",
                "not supported");
    dialect_bad(D, "{\"prompt\":\"x\",\"logprobs\":1}", 400, "logprobs", "Unrecognized");
    dialect_bad(D, "{\"n_predict\":1}", 400, "prompt", "Missing");
}

#define SETTINGS \
    "\"generation_settings\":{\"n_predict\":9,\"max_tokens\":9,\"seed\":42,\"temperature\":0.5,\"top_k\":0," \
    "\"top_p\":0.95,\"min_p\":0,\"repeat_penalty\":0,\"presence_penalty\":0,\"frequency_penalty\":0," \
    "\"ignore_eos\":false,\"n_probs\":0,\"stream\":false},"
#define TIMINGS \
    "\"timings\":{\"cache_n\":2,\"prompt_n\":3,\"prompt_ms\":6.0,\"prompt_per_second\":500.0,\"predicted_" \
    "n\":3," \
    "\"predicted_ms\":8.0,\"predicted_per_second\":250.0}"

static void writes_answers_and_streams_that_say_how_they_ended(void **state)
{
    (void)state;
    gw_answer_report r = dialect_report("a", "", GW_ENDING_STOP);
    r.seed = 42;
    r.bound.tokens = 9;
    r.prompt = (bt_text_span){"<s>x", 4};
    dialect_whole(D, &r,
                  "{\"index\":0,\"content\":\"a\",\"tokens\":[],\"stop\":true,\"tokens_predicted\":3,"
                  "\"tokens_evaluated\":5,"
                  "\"model\":\"tiny\"," SETTINGS
                  "\"prompt\":\"<s>x\",\"truncated\":false,\"stop_type\":\"eos\",\"stopping_word\":\"\","
                  "\"tokens_cached\":2," TIMINGS "}");
    r = dialect_report("a", "", GW_ENDING_STRING);
    r.seed = 42;
    r.bound.tokens = 9;
    dialect_stream(D, &r,
                   "data: {\"index\":0,\"content\":\"a\",\"tokens\":[],\"stop\":false,\"tokens_predicted\":2,"
                   "\"tokens_evaluated\":5}\n\n"
                   "data: {\"index\":0,\"content\":\"\",\"tokens\":[],\"stop\":true,\"tokens_predicted\":3,"
                   "\"tokens_evaluated\":5,\"model\":\"tiny\"," SETTINGS
                   "\"prompt\":null,\"truncated\":false,\"stop_type\":\"word\","
                   "\"stopping_word\":\"END\",\"tokens_cached\":2," TIMINGS "}\n\n");
}

static void settings_repeat_what_the_request_says(void **state)
{
    (void)state;
    static const char said[] =
        "\"temperature\":0.25,\"top_k\":7,\"n_probs\":2,\"ignore_eos\":true,\"logit_bias\":"
        "{\"3\":-1},\"grammar\":\"root ::= \\\"a\\\"\"";
    char text[512];
    (void)snprintf(text, sizeof text, "{\"prompt\":\"x\",\"stop\":\"a\",%s}", said);
    gw_ask r = dialect_good(D, text);
    gw_answer a = gw_dialect_answer(D, &r);
    gw_ask_drop_texts(&r); /* settings outlive the texts of the request */
    gw_ask_done(&r);
    a.model = "tiny";
    const gw_answer_report report = dialect_report("a", "", GW_ENDING_STOP);
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(D->whole(&b, &a, &report, json_null()), BT_OK);
    (void)snprintf(text, sizeof text, "{\"stop\":[\"a\"],%s}", said);
    json_t *j = json_loads(bt_buf_text(&b), 0, NULL), *want = json_loads(text, 0, NULL), *value;
    const char *key;
    json_object_foreach(want, key, value)
        if (!json_equal(json_object_get(json_object_get(j, "generation_settings"), key), value))
            fail_msg("%s in %s", key, bt_buf_text(&b));
    json_decref(want);
    json_decref(j);
    bt_buf_done(&b);
    gw_dialect_answer_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_texts_and_ids_with_no_limit_of_its_own),
        cmocka_unit_test(settings_repeat_what_the_request_says),
        cmocka_unit_test(writes_answers_and_streams_that_say_how_they_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
