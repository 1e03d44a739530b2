/* ollama's chats and texts, its lines byte for byte, and what it tells of models. */
#include "gateway/api/ollama.h"
#include "tests/helpers/api/dialect_case.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CHAT (&gw_dialect_ollama_chat)
#define TEXT (&gw_dialect_ollama_text)
#define ONE  "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"

static void reads_options_and_streams_unless_told_otherwise(void **state)
{
    (void)state;
    gw_ask r = dialect_good(
        CHAT, "{\"model\":\"tiny:latest\"," ONE
              ",\"format\":\"json\",\"think\":false,\"keep_alive\":\"5m\",\"options\":{"
              "\"num_predict\":9,\"temperature\":0.5,\"top_k\":7,\"top_p\":0.9,\"min_p\":0.1,\"seed\":3,"
              "\"stop\":[\"a\"],\"repeat_penalty\":1.5,\"num_ctx\":4096,\"mirostat\":0}}");
    assert_true(r.is_chat && r.is_stream && !r.is_load && r.max_tokens == 9 && r.stops == 1);
    assert_true(r.sampling.temperature == 0.5f && r.sampling.repetition_penalty == 1.5f);
    assert_true(r.has_seed && r.sampling.seed == 3 && r.sampling.top_k == 7);
    assert_int_equal(r.structure.form, GW_STRUCTURE_OBJECT);
    assert_true(json_is_false(json_object_get(r.talk.kwargs, "enable_thinking")));
    gw_ask_done(&r);

    r = dialect_good(CHAT, "{\"model\":\"alias\"," ONE ",\"stream\":false,\"format\":{\"type\":\"object\"},"
                           "\"think\":\"high\",\"options\":{\"num_predict\":-2}}");
    assert_true(!r.is_stream && r.max_tokens == 0);
    assert_int_equal(r.structure.form, GW_STRUCTURE_SCHEMA);
    assert_string_equal(json_string_value(json_object_get(r.talk.kwargs, "reasoning_effort")), "high");
    gw_ask_done(&r);
}

static void a_prompt_is_a_message_of_the_user_unless_it_is_raw(void **state)
{
    (void)state;
    gw_ask r = dialect_good(TEXT, "{\"model\":\"tiny\",\"prompt\":\"x\",\"system\":\"s\"}");
    dialect_talks(&r, "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"x\"}]");
    gw_ask_done(&r);
    r = dialect_good(TEXT, "{\"model\":\"tiny\",\"prompt\":\"x\",\"raw\":true,\"system\":\"s\"}");
    assert_true(!r.is_chat && r.prompt_len == 1);
    gw_ask_done(&r);
}

static void without_a_prompt_or_messages_nothing_is_asked_for(void **state)
{
    (void)state;
    static const struct {
        const gw_dialect *d;
        const char *body;
    } c[] = {{TEXT, "{\"model\":\"tiny\"}"},
             {TEXT, "{\"model\":\"tiny\",\"prompt\":\"\",\"keep_alive\":0}"},
             {CHAT, "{\"model\":\"tiny\"}"},
             {CHAT, "{\"model\":\"tiny\",\"messages\":[]}"}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        gw_ask r = dialect_good(c[i].d, c[i].body);
        assert_true(r.is_load);
        gw_ask_done(&r);
    }
    bt_buf b;
    gw_answer a = dialect_answer(TEXT);
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(TEXT->loaded(&b, &a), BT_OK);
    assert_string_equal(bt_buf_text(&b),
                        "{\"model\":\"tiny\",\"created_at\":\"2023-11-14T22:13:21.500000Z\",\"done\":true,"
                        "\"response\":\"\",\"done_reason\":\"load\"}");
    bt_buf_clear(&b);
    a.is_unload = true;
    assert_int_equal(TEXT->loaded(&b, &a), BT_OK);
    assert_non_null(strstr(bt_buf_text(&b), "\"done_reason\":\"unload\""));
    bt_buf_done(&b);
    gw_dialect_answer_done(&a);
}

static void keep_alive_is_seconds_or_a_duration_and_zero_unloads(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool is_zero;
    } c[] = {{"0", true},       {"0.0", true}, {"\"0\"", true},      {"\"0s\"", true}, {"\"-0h0.0m\"", true},
             {"\"5m\"", false}, {"-1", false}, {"\"1h30m\"", false}, {"0.5", false},   {"\"1.5us\"", false}};
    static const char *const bad[] = {"\"\"", "\"5\"", "\"m\"", "\"5 m\"", "\"00\"", "\".s\"", "true", "[]"};
    char body[128];
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        (void)snprintf(body, sizeof body, "{\"model\":\"tiny\",\"keep_alive\":%s}", c[i].value);
        gw_ask r = dialect_good(CHAT, body);
        gw_answer a = gw_dialect_answer(CHAT, &r);
        if (!r.is_load || a.is_unload != c[i].is_zero) fail_msg("%s", c[i].value);
        gw_dialect_answer_done(&a);
        gw_ask_done(&r);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(body, sizeof body, "{\"model\":\"tiny\",\"keep_alive\":%s}", bad[i]);
        dialect_bad(CHAT, body, 400, "keep_alive", "a duration");
    }
}

static void refuses_what_it_does_not_do_by_name(void **state)
{
    (void)state;
    static const struct {
        const gw_dialect *d;
        const char *body, *param, *words;
    } c[] = {
        {CHAT, "{" ONE "}", "model", "Missing"},
        {CHAT, "{\"model\":\"tiny\"," ONE ",\"options\":{\"num_foo\":1}}", "num_foo", "Unrecognized"},
        {CHAT, "{\"model\":\"tiny\"," ONE ",\"options\":{\"num_predict\":0}}", "num_predict", "0 is neither"},
        {CHAT, "{\"model\":\"tiny\"," ONE ",\"options\":{\"mirostat\":1}}", "mirostat", "not supported"},
        {CHAT, "{\"model\":\"tiny\"," ONE ",\"options\":[]}", "options", "an object"},
        {CHAT, "{\"model\":\"tiny\"," ONE ",\"temperature\":0}", "temperature", "Unrecognized"},
        {CHAT, "{\"model\":\"tiny\"," ONE ",\"format\":\"xml\"}", "format", "'json' or a schema"},
        {CHAT, "{\"model\":\"tiny\"," ONE ",\"think\":3}", "think", "true, false or a string"},
        {CHAT, "{\"model\":\"tiny\"," ONE ",\"tools\":[{}]}", "tools", "not supported"},
        {CHAT, "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"images\":[\"a\"]}]}",
         "images", "not supported"},
        {TEXT, "{\"model\":\"tiny\",\"prompt\":\"x\",\"suffix\":\"y\"}", "suffix", "not supported"},
        {TEXT, "{\"model\":\"tiny\",\"prompt\":\"x\",\"context\":[1]}", "context", "not supported"},
        {TEXT, "{\"model\":\"tiny\",\"prompt\":[1]}", "prompt", "a string"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        dialect_bad(c[i].d, c[i].body, 400, c[i].param, c[i].words);
    dialect_bad(CHAT, "{\"model\":\":latest\"," ONE "}", 404, "model", "does not exist");
    dialect_bad(CHAT, "{\"model\":\"tiny:8b\"," ONE "}", 404, "model", "does not exist");
}

#define WHEN "\"created_at\":\"2023-11-14T22:13:21.500000Z\""
#define FIGURES \
    "\"total_duration\":20000000,\"load_duration\":4000000,\"prompt_eval_count\":5,\"prompt_eval_" \
    "duration\":6000000," \
    "\"eval_count\":3,\"eval_duration\":8000000}"

static void writes_answers_and_lines(void **state)
{
    (void)state;
    const gw_answer_report r = dialect_report("a", "hm", GW_ENDING_LENGTH);
    dialect_whole(CHAT, &r,
                  "{\"model\":\"tiny\"," WHEN
                  ",\"done\":true,\"message\":{\"role\":\"assistant\",\"content\":\"a\","
                  "\"thinking\":\"hm\"},\"done_reason\":\"length\"," FIGURES);
    dialect_whole(TEXT, &r,
                  "{\"model\":\"tiny\"," WHEN ",\"done\":true,\"response\":\"a\",\"thinking\":\"hm\","
                  "\"done_reason\":\"length\"," FIGURES);
    dialect_stream(CHAT, &r,
                   "{\"model\":\"tiny\"," WHEN
                   ",\"done\":false,\"message\":{\"role\":\"assistant\",\"content\":\"\","
                   "\"thinking\":\"hm\"}}\n"
                   "{\"model\":\"tiny\"," WHEN
                   ",\"done\":false,\"message\":{\"role\":\"assistant\",\"content\":\"a\"}}\n"
                   "{\"model\":\"tiny\"," WHEN
                   ",\"done\":true,\"message\":{\"role\":\"assistant\",\"content\":\"\"},"
                   "\"done_reason\":\"length\"," FIGURES "\n");
    const gw_answer_report s = dialect_report("a", "", GW_ENDING_STRING);
    dialect_stream(TEXT, &s,
                   "{\"model\":\"tiny\"," WHEN ",\"done\":false,\"response\":\"a\"}\n"
                   "{\"model\":\"tiny\"," WHEN
                   ",\"done\":true,\"response\":\"\",\"done_reason\":\"stop\"," FIGURES "\n");
    dialect_error(CHAT, 429, "{\"error\":\"Why\"}");
    dialect_error(TEXT, 503, "{\"error\":\"Why\"}");
}

static const char *const names[] = {"tiny", "alias"};
static const gw_model_facts facts = {.names = names,
                                     .names_len = 2,
                                     .architecture = "llama",
                                     .quantisation = "Q4_1",
                                     .parameters = 1500000000,
                                     .bytes = 77,
                                     .vocab = 512,
                                     .dim = 64,
                                     .layers = 2,
                                     .ctx_tokens = 4096,
                                     .id = {0xab},
                                     .created_s = 1700000000};

static void lists_the_model_with_its_facts(void **state)
{
    (void)state;
#define ENTRY \
    "\"name\":\"tiny\",\"model\":\"tiny\",\"modified_at\":\"2023-11-14T22:13:20.000000Z\",\"size\":77," \
    "\"digest\":" \
    "\"ab000000000000000000000000000000\",\"details\":{\"parent_model\":\"\",\"format\":\"gguf\"," \
    "\"family\":\"llama\"," \
    "\"families\":[\"llama\"],\"parameter_size\":\"1.5B\",\"quantization_level\":\"Q4_1\"}"
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(gw_ollama_tags(&b, &facts), BT_OK);
    assert_string_equal(bt_buf_text(&b), "{\"models\":[{" ENTRY "}]}");
    bt_buf_clear(&b);
    assert_int_equal(gw_ollama_ps(&b, &facts, 2048), BT_OK);
    assert_string_equal(bt_buf_text(&b),
                        "{\"models\":[{" ENTRY
                        ",\"context_length\":2048,\"expires_at\":\"2123-11-15T22:13:20.000000Z\"}]}");
    bt_buf_done(&b);
}

static bt_err show_with(bt_buf *out, gw_error *err, const char *body, char *template)
{
    const bt_defaults defaults = bt_defaults_of(NULL, NULL, NULL);
    const gw_ask_limits limits = {names, 2, 512, 3, &defaults, &facts};
    const gw_text text = {.tok = NULL, .templates = {.text = template}};
    return gw_ollama_show(out, err, &text, body, strlen(body), &limits);
}

static bt_err show(bt_buf *out, gw_error *err, const char *body) { return show_with(out, err, body, NULL); }

static void is_modelfile(char *template, const char *want)
{
    bt_buf b;
    gw_error err;
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(show_with(&b, &err, "{\"model\":\"tiny\"}", template), BT_OK);
    json_t *j = json_loads(bt_buf_text(&b), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(j, "modelfile")), want);
    assert_string_equal(json_string_value(json_object_get(j, "template")), template);
    json_decref(j);
    bt_buf_done(&b);
}

static void a_modelfile_has_the_template_and_the_parameters_in_force(void **state)
{
    (void)state;
#define PARAMETERS \
    "PARAMETER temperature 0.8\nPARAMETER top_p 0.95\nPARAMETER top_k 40\nPARAMETER min_p 0.05\n" \
    "PARAMETER repeat_penalty 1\n"
    char plain[] = "{{ 'a' }}\nb", quoted[] = "a\"\"\"b";
    is_modelfile(plain, "FROM tiny\nTEMPLATE \"\"\"{{ 'a' }}\nb\"\"\"\n" PARAMETERS);
    is_modelfile(quoted, "FROM tiny\n" PARAMETERS);
}

static void shows_the_model_that_is_asked_for(void **state)
{
    (void)state;
    bt_buf b;
    gw_error err = {0};
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(show(&b, &err, "{\"model\":\"alias:latest\",\"verbose\":true}"), BT_OK);
    json_t *j = json_loads(bt_buf_text(&b), 0, NULL);
    const json_t *info = json_object_get(j, "model_info");
    assert_int_equal(json_integer_value(json_object_get(info, "llama.context_length")), 4096);
    assert_int_equal(json_integer_value(json_object_get(info, "general.parameter_count")), 1500000000);
    assert_string_equal(json_string_value(json_array_get(json_object_get(j, "capabilities"), 0)),
                        "completion");
    json_decref(j);
    bt_buf_clear(&b);
    assert_int_equal(show(&b, &err, "{\"name\":\"tiny\"}"), BT_OK);
    assert_int_equal(show(&b, &err, "{\"model\":\"other\"}"), BT_EARG);
    assert_int_equal(err.status, 404);
    assert_int_equal(show(&b, &err, "{}"), BT_EARG);
    assert_non_null(strstr(err.message, "'model'"));
    assert_int_equal(show(&b, &err, "{\"model\":\"tiny\",\"x\":1}"), BT_EARG);
    assert_string_equal(err.param, "x");
    bt_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_options_and_streams_unless_told_otherwise),
        cmocka_unit_test(a_prompt_is_a_message_of_the_user_unless_it_is_raw),
        cmocka_unit_test(without_a_prompt_or_messages_nothing_is_asked_for),
        cmocka_unit_test(keep_alive_is_seconds_or_a_duration_and_zero_unloads),
        cmocka_unit_test(refuses_what_it_does_not_do_by_name),
        cmocka_unit_test(writes_answers_and_lines),
        cmocka_unit_test(lists_the_model_with_its_facts),
        cmocka_unit_test(shows_the_model_that_is_asked_for),
        cmocka_unit_test(a_modelfile_has_the_template_and_the_parameters_in_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
