/* Requests of the OpenAI API: what is read, what is ignored, and that every wrong one is refused with its
 * field named. Bodies are passed in heap blocks of their exact size. */
#include "gateway/api/dialect.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *const names[] = {"tiny", "alias"};
static bt_defaults defaults; /* those without a file */
static const gw_ask_limits limits = {names, 2, 512, 3, &defaults, NULL};

static bt_err parse_bytes(gw_ask *ret, gw_error *err, bool is_chat, const void *body, size_t len)
{
    char *exact = malloc(len ? len : 1);
    assert_non_null(exact);
    memcpy(exact, body, len);
    const bt_err e =
        gw_dialect_read(ret, err, is_chat ? &gw_dialect_chat : &gw_dialect_text, exact, len, &limits);
    free(exact);
    return e;
}

static gw_ask good(bool is_chat, const char *body)
{
    gw_ask r;
    gw_error err = {0};
    if (parse_bytes(&r, &err, is_chat, body, strlen(body)) < 0) fail_msg("%s: %s", body, err.message);
    return r;
}

static gw_error bad(bool is_chat, const char *body, int status, const char *param, const char *words)
{
    gw_ask r;
    gw_error err = {0};
    if (parse_bytes(&r, &err, is_chat, body, strlen(body)) == BT_OK) fail_msg("accepted: %s", body);
    assert_int_equal(err.status, status);
    assert_string_equal(err.param, param);
    if (!strstr(err.message, words)) fail_msg("%s: says '%s', not '%s'", body, err.message, words);
    assert_non_null(err.code);
    return err;
}

static void reads_a_chat_with_every_field_in_use(void **state)
{
    (void)state;
    gw_ask r = good(
        true,
        "{\"model\":\"alias\",\"messages\":[{\"role\":\"developer\",\"content\":\"Be "
        "brief.\"},{\"role\":\"user\",\"name\":\"x\","
        "\"content\":[{\"type\":\"text\",\"text\":\"Hel\"},{\"type\":\"text\",\"text\":\"lo \xc3\xa9\"}]},"
        "{\"role\":\"assistant\",\"content\":\"ok\",\"tool_calls\":[],\"refusal\":null}],"
        "\"max_tokens\":7,\"max_completion_tokens\":7,\"temperature\":0.5,\"top_p\":1,\"top_k\":40,\"min_p\":"
        "0.05,"
        "\"stop\":[\"a\",\"bc\"],\"seed\":-1,\"stream\":true,\"stream_options\":{\"include_usage\":true},"
        "\"baton\":true}");
    assert_int_equal(json_array_size(r.talk.messages), 3);
    const json_t *m = json_array_get(r.talk.messages, 1);
    assert_string_equal(json_string_value(json_object_get(m, "content")), "Hello \xc3\xa9");
    assert_true(r.talk.add_generation_prompt && !r.talk.tools && !r.talk.documents && !r.talk.kwargs);
    assert_int_equal(r.max_tokens, 7);
    assert_true(r.sampling.temperature == 0.5f && r.sampling.top_p == 1 && r.sampling.min_p == 0.05f);
    assert_int_equal(r.sampling.top_k, 40);
    assert_int_equal(r.stops, 2);
    assert_string_equal(r.stop[1], "bc");
    assert_true(r.has_seed && r.sampling.seed == UINT64_MAX);
    assert_true(r.is_stream && r.has_usage_chunk && r.is_baton && r.is_chat);
    gw_ask_done(&r);
}

static void reads_which_nodes_a_request_wishes_for(void **state)
{
    (void)state;
    static const struct {
        const char *baton;
        bool is_baton;
        int policy;
        const char *prefill, *decode;
    } c[] = {
        {"false", false, 0, "", ""},
        {"{}", true, 0, "", ""},
        {"null", false, 0, "", ""},
        {"{\"policy\":\"least-load\"}", true, 1, "", ""},
        {"{\"policy\":\"prefix\",\"decode\":null}", true, 2, "", ""},
        {"{\"policy\":\"round-robin\",\"prefill\":\"p/0\",\"decode\":\"d%20\"}", true, 3, "p/0", "d%20"},
        {"{\"decode\":\"0123456789012345678901234567890123456789012345678901234567890123\"}", true, 0, "",
         "0123456789012345678901234567890123456789012345678901234567890123"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char body[256];
        (void)snprintf(body, sizeof body, "{\"prompt\":\"a\",\"baton\":%s}", c[i].baton);
        gw_ask r = good(false, body);
        assert_int_equal(r.is_baton, c[i].is_baton);
        assert_int_equal(r.policy, c[i].policy);
        assert_string_equal(r.prefer_prefill, c[i].prefill);
        assert_string_equal(r.prefer_decode, c[i].decode);
        gw_ask_done(&r);
    }
    static const struct {
        const char *baton, *param, *words;
    } wrong[] = {
        {"[]", "baton", "true, false or an object"},
        {"{\"polcy\":\"prefix\"}", "baton", "baton.polcy"},
        {"{\"policy\":\"Prefix\"}", "baton.policy", "'least-load', 'prefix', 'round-robin'"},
        {"{\"policy\":3}", "baton.policy", "a string"},
        {"{\"prefill\":\"\"}", "baton.prefill", "1 to 64"},
        {"{\"decode\":\"a b\"}", "baton.decode", "without spaces"},
        {"{\"decode\":\"\xc3\xa9\"}", "baton.decode", "printable ASCII"},
        {"{\"decode\":true}", "baton.decode", "a string"},
        {"{\"decode\":\"01234567890123456789012345678901234567890123456789012345678901234\"}", "baton.decode",
         "1 to 64"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char body[256];
        (void)snprintf(body, sizeof body, "{\"prompt\":\"a\",\"baton\":%s}", wrong[i].baton);
        (void)bad(false, body, 400, wrong[i].param, wrong[i].words);
    }
}

static void reads_penalties_bias_log_probabilities_and_stop_ids(void **state)
{
    (void)state;
    gw_ask r = good(
        true,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"presence_penalty\":-2,\"frequency_penalty\":"
        "0.5,"
        "\"repetition_penalty\":1.5,\"logit_bias\":{\"500\":-100,\"0\":100,\"42\":0.25},\"logprobs\":true,"
        "\"top_logprobs\":20,\"stop_token_ids\":[511,0,7]}");
    const bt_sampling *s = &r.sampling;
    assert_true(s->presence_penalty == -2 && s->frequency_penalty == 0.5f && s->repetition_penalty == 1.5f);
    assert_int_equal(s->bias_len, 3);
    assert_true(s->bias[0].id == 0 && s->bias[1].id == 42 && s->bias[2].id == 500); /* rising */
    assert_true(s->bias[0].bias == 100 && s->bias[1].bias == 0.25f && s->bias[2].bias == -100);
    assert_true(s->logprobs);
    assert_int_equal(s->top_logprobs, 20);
    assert_int_equal(r.stop_ids_len, 3);
    assert_int_equal(r.stop_ids[0], 511);
    assert_int_equal(bt_sample_params_check(s, NULL), BT_OK);
    gw_ask_done(&r);
    r = good(false, "{\"prompt\":\"a\",\"logprobs\":0,\"repetition_penalty\":0.01,\"stop_token_ids\":[]}");
    assert_true(r.sampling.logprobs && r.sampling.top_logprobs == 0);
    assert_int_equal(bt_sample_params_check(&r.sampling, NULL), BT_OK);
    gw_ask_done(&r);
    r = good(false, "{\"prompt\":\"a\",\"logprobs\":false}");
    assert_false(r.sampling.logprobs || r.ignores_eos);
    gw_ask_done(&r);
    r = good(false, "{\"prompt\":\"a\",\"ignore_eos\":true}");
    assert_true(r.ignores_eos);
    gw_ask_done(&r);
}

static void takes_a_salt_of_1_to_256_bytes_for_kept_prefixes(void **state)
{
    (void)state;
    char body[400], salt[258] = "";
    gw_ask r = good(false, "{\"prompt\":\"a\",\"cache_salt\":null}");
    assert_string_equal(r.cache_salt, "");
    gw_ask_done(&r);
    memset(salt, 's', 256);
    (void)snprintf(body, sizeof body, "{\"prompt\":\"a\",\"cache_salt\":\"%s\"}", salt);
    r = good(false, body);
    assert_string_equal(r.cache_salt, salt);
    gw_ask_done(&r);
    salt[256] = 's';
    (void)snprintf(body, sizeof body, "{\"prompt\":\"a\",\"cache_salt\":\"%s\"}", salt);
    (void)bad(false, body, 400, "cache_salt", "257 bytes; 1 to 256");
    (void)bad(false, "{\"prompt\":\"a\",\"cache_salt\":\"\"}", 400, "cache_salt", "0 bytes; 1 to 256");
    (void)bad(false, "{\"prompt\":\"a\",\"cache_salt\":5}", 400, "cache_salt", "expected a string");
}

static void a_tool_is_chosen_by_the_type_function(void **state)
{
    (void)state;
#define CHOICE(type) \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{\"name\":\"f\"}],\"tool_choice\":" \
    "{" type "\"function\":{\"name\":\"f\"}}}"
    static const char *const right[] = {CHOICE(""), CHOICE("\"type\":\"function\",")};
    for (size_t i = 0; i < 2; i++) {
        gw_ask r = good(true, right[i]);
        assert_string_equal(r.call, "f");
        gw_ask_done(&r);
    }
    (void)bad(true, CHOICE("\"type\":\"tool\","), 400, "tool_choice", "expected 'auto'");
    (void)bad(true, CHOICE("\"type\":1,"), 400, "tool_choice", "expected 'auto'");
}

static void refuses_parameters_out_of_range_with_value_and_range(void **state)
{
    (void)state;
    static const struct {
        const char *body, *param, *words;
    } c[] = {
        {"\"presence_penalty\":2.5", "presence_penalty", "2.5 is not in the range -2 to 2"},
        {"\"frequency_penalty\":-3", "frequency_penalty", "-3 is not in the range -2 to 2"},
        {"\"repetition_penalty\":0", "repetition_penalty", "0 is not in the range 0.01 to 100"},
        {"\"presence_penalty\":\"1\"", "presence_penalty", "expected a number, but got a string"},
        {"\"logit_bias\":{\"5\":101}", "logit_bias", "101 is not in the range -100 to 100"},
        {"\"logit_bias\":{\"512\":1}", "logit_bias", "'512' is not a token id from 0 to 511"},
        {"\"logit_bias\":{\"05\":1}", "logit_bias", "'05'"},
        {"\"logit_bias\":{\"-1\":1}", "logit_bias", "'-1'"},
        {"\"logit_bias\":{\"\":1}", "logit_bias", "''"},
        {"\"logit_bias\":{\"99999999999999999999999\":1}", "logit_bias", "99999"},
        {"\"logit_bias\":[5]", "logit_bias", "expected an object of token ids"},
        {"\"logit_bias\":{\"5\":null}", "logit_bias", "expected a number"},
        {"\"logprobs\":21", "logprobs", "21 is not in the range 0 to 20"},
        {"\"logprobs\":true", "logprobs", "expected an integer"},
        {"\"top_logprobs\":1", "top_logprobs", "Unrecognized"},
        {"\"stop_token_ids\":[1,2,3,4]", "stop_token_ids", "4 ids; at most 3"},
        {"\"stop_token_ids\":[512]", "stop_token_ids", "512 is not in the range 0 to 511"},
        {"\"stop_token_ids\":7", "stop_token_ids", "expected an array"},
    };
    char body[512];
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        (void)snprintf(body, sizeof body, "{\"prompt\":\"a\",%s}", c[i].body);
        (void)bad(false, body, 400, c[i].param, c[i].words);
    }
    (void)bad(true, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"top_logprobs\":2}", 400,
              "top_logprobs", "'logprobs' is true");
    (void)bad(true,
              "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"logprobs\":true,\"top_logprobs\":21}",
              400, "top_logprobs", "21 is not in the range 0 to 20");
    (void)bad(true, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"logprobs\":1}", 400, "logprobs",
              "expected true or false");
    static char many[8192] = "{\"prompt\":\"a\",\"logit_bias\":{";
    for (int i = 0; i <= BT_SAMPLE_MAX_BIAS; i++) {
        char one[32];
        (void)snprintf(one, sizeof one, "%s\"%d\":1", i ? "," : "", i);
        strcat(many, one);
    }
    strcat(many, "}}");
    (void)bad(false, many, 400, "logit_bias", "301 entries; at most 300");
}

static void reads_a_completion_as_text_or_as_a_token_list(void **state)
{
    (void)state;
    gw_ask r = good(false, "{\"prompt\":\"Once\",\"stop\":\"\\n\"}");
    assert_string_equal(r.prompt, "Once");
    assert_true(!r.has_seed && r.max_tokens == 0);
    assert_string_equal(r.stop[0], "\n");
    gw_ask_done(&r);
    r = good(false, "{\"prompt\":[0,511,5]}");
    assert_null(r.prompt);
    assert_int_equal(r.prompt_ids_len, 3);
    assert_int_equal(r.prompt_ids[1], 511);
    gw_ask_done(&r);
    r = good(false, "{\"prompt\":[[1,2]]}");
    assert_int_equal(r.prompt_ids_len, 2);
    gw_ask_done(&r);
    r = good(false, "{\"prompt\":[\"one\"]}");
    assert_string_equal(r.prompt, "one");
    gw_ask_done(&r);
    r = good(false, "{\"prompt\":\"\"}");
    assert_int_equal(r.prompt_len, 0);
    assert_non_null(r.prompt);
    assert_false(r.is_plain);
    gw_ask_done(&r);
    r = good(false, "{\"prompt\":\"<s>\",\"parse_special\":false}");
    assert_true(r.is_plain);
    gw_ask_done(&r);
}

static void a_whole_number_is_an_integer_however_it_is_written(void **state)
{
    (void)state;
    static const struct {
        const char *seed;
        uint64_t bits;
    } seeds[] = {
        {"7.0", 7},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775808", UINT64_C(1) << 63},
        {"18446744073709551615", UINT64_MAX},
        {"-9223372036854775808", UINT64_C(1) << 63},
        {"1e19", UINT64_C(10000000000000000000)},
    };
    char body[256];
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        (void)snprintf(body, sizeof body, "{\"user\":{\"seed\":1e999},\"seed\": %s,\"prompt\":\"\\\"9\"}",
                       seeds[i].seed);
        gw_ask r = good(false, body);
        assert_true(r.has_seed && r.sampling.seed == seeds[i].bits);
        assert_string_equal(r.prompt, "\"9");
        gw_ask_done(&r);
    }
    static const char *const many[] = {"1e30", "9223372036854775808", "1e999",
                                       "1000000000000000000000000000000"};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        (void)snprintf(body, sizeof body, "{\"prompt\":[1.0,2.0],\"stop_token_ids\":[3.0],\"max_tokens\":%s}",
                       many[i]);
        gw_ask r = good(false, body);
        assert_int_equal(r.max_tokens, BT_MSG_MAX_PROMPT_TOKENS);
        assert_true(r.prompt_ids_len == 2 && r.prompt_ids[1] == 2 && r.stop_ids[0] == 3);
        gw_ask_done(&r);
    }
    gw_ask r = good(false, "{\"prompt\":[[1.0]],\"n_predict\":-1.0,\"n\":1.0,\"metadata\":{\"id\":-1e999},"
                           "\"logprobs\":2.0,\"priority\":-3.0}");
    assert_true(r.prompt_ids_len == 1 && r.max_tokens == 0 && r.sampling.top_logprobs == 2 &&
                r.priority == -3);
    gw_ask_done(&r);
}

static void takes_null_for_absent_and_ignores_harmless_fields(void **state)
{
    (void)state;
    gw_ask r = good(false, "{\"prompt\":\"a\",\"model\":null,\"stop\":null,\"max_tokens\":null,"
                           "\"logprobs\":null,\"logit_bias\":{},\"user\":\"u\","
                           "\"metadata\":{\"a\":1},\"store\":true,\"n\":1,\"best_of\":1,"
                           "\"presence_penalty\":0,\"frequency_penalty\":0.0,"
                           "\"echo\":false,\"suffix\":\"\",\"stream_options\":null,\"top_k\":-1}");
    assert_int_equal(r.stops, 0);
    assert_int_equal(r.priority, 0);
    gw_ask_done(&r);
    r = good(false, "{\"prompt\":\"a\",\"priority\":-7}");
    assert_int_equal(r.priority, -7);
    gw_ask_done(&r);
    r = good(
        true,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[],\"tool_choice\":\"none\","
        "\"logprobs\":false,\"parse_special\":false,"
        "\"response_format\":{\"type\":\"text\"},\"modalities\":[\"text\"],\"parallel_tool_calls\":true}");
    assert_true(!r.talk.tools && r.has_no_calls);
    gw_ask_done(&r);
}

static void reads_what_the_chat_template_sees(void **state)
{
    (void)state;
    gw_ask r = good(
        true,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"reasoning\":\"r\","
        "\"tool_calls\":"
        "[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"t\"}],\"tools\":[{\"type\":\"function\"}],"
        "\"tool_choice\":\"none\",\"documents\":[{\"text\":\"d\"}],\"reasoning_effort\":\"high\","
        "\"chat_template_kwargs\":{\"enable_thinking\":false},\"add_generation_prompt\":false}");
    assert_int_equal(json_array_size(r.talk.messages), 3);
    assert_int_equal(json_array_size(r.talk.tools), 1);
    assert_int_equal(json_array_size(r.talk.documents), 1);
    assert_true(json_is_false(json_object_get(r.talk.kwargs, "enable_thinking")));
    assert_string_equal(json_string_value(json_object_get(r.talk.kwargs, "reasoning_effort")), "high");
    assert_true(r.has_no_calls && !r.talk.add_generation_prompt);
    gw_ask_done(&r);
    /* what the template is given by name goes before */
    r = good(true, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"reasoning_effort\":\"high\","
                   "\"chat_template_kwargs\":{\"reasoning_effort\":\"low\"}}");
    assert_string_equal(json_string_value(json_object_get(r.talk.kwargs, "reasoning_effort")), "low");
    gw_ask_done(&r);
    (void)bad(
        true,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"chat_template_kwargs\":{\"tools\":[]}}", 400,
        "chat_template_kwargs", "'tools' is a field of the request itself");
    (void)bad(true, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"chat_template_kwargs\":[]}", 400,
              "chat_template_kwargs", "expected an object");
    (void)bad(true, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[1]}", 400, "tools[0]",
              "expected an object");
}

static void refuses_a_field_nobody_knows_by_its_name(void **state)
{
    (void)state;
    (void)bad(false, "{\"prompt\":\"a\",\"max_token\":3}", 400, "max_token",
              "Unrecognized request argument supplied: max_token");
    (void)bad(false, "{\"prompt\":\"a\",\"messages\":[]}", 400, "messages", "Unrecognized");
    (void)bad(true, "{\"prompt\":\"a\"}", 400, "prompt", "Unrecognized");
    (void)bad(true, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"x\":1}]}", 400, "messages[0]",
              "messages[0].x");
    (void)bad(false, "{\"prompt\":\"a\",\"stream\":true,\"stream_options\":{\"y\":true}}", 400,
              "stream_options", "stream_options.y");
}

static void refuses_what_is_known_but_not_supported_by_name(void **state)
{
    (void)state;
    static const char *const chat[][2] = {
        {"typical_p", "0.5"},
        {"mirostat", "2"},
        {"think", "true"},
        {"n", "2"},
        {"functions", "[1]"},
        {"audio", "{}"},
        {"reasoning_format", "\"other\""},
        {"parse_special", "true"}, /* words of a chat are never control tokens */
        {"prediction", "{}"},
        {"modalities", "[\"text\",\"audio\"]"},
    };
    for (size_t i = 0; i < sizeof chat / sizeof *chat; i++) {
        char body[256];
        (void)snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"%s\":%s}",
                       chat[i][0], chat[i][1]);
        (void)bad(true, body, 400, chat[i][0], chat[i][0]);
    }
    (void)bad(false, "{\"prompt\":\"a\",\"best_of\":2}", 400, "best_of", "best_of");
    (void)bad(false, "{\"prompt\":\"a\",\"echo\":true}", 400, "echo", "echo");
    (void)bad(false, "{\"prompt\":\"a\",\"suffix\":\"b\"}", 400, "suffix", "suffix");
    (void)bad(false, "{\"prompt\":[\"a\",\"b\"]}", 400, "prompt", "one request for each");
}

static void refuses_wrong_types_and_values_out_of_range(void **state)
{
    (void)state;
    static const char *const fields[][2] = {
        {"max_tokens", "-2"},
        {"max_tokens", "0"},
        {"max_tokens", "1.5"},
        {"max_tokens", "\"8\""},
        {"temperature", "2.1"},
        {"temperature", "-0.1"},
        {"temperature", "\"1\""},
        {"top_p", "1.01"},
        {"top_k", "-2"},
        {"priority", "2147483648"},
        {"priority", "\"high\""},
        {"min_p", "2"},
        {"n_probs", "false"},
        {"n_probs", "21"},
        {"seed", "1.5"},
        {"seed", "18446744073709551616"},
        {"seed", "-9223372036854775809"},
        {"seed", "1e400"},
        {"max_tokens", "-9223372036854775809"},
        {"max_tokens", "-1e30"},
        {"top_k", "99999999999999999999"},
        {"n_probs", "9223372036854775808"},
        {"temperature", "100000000000000000000"},
        {"temperature", "1e999"},
        {"n", "18446744073709551616"},
        {"stop_token_ids", "[1e300]"},
        {"stop", "5"},
        {"stop", "[\"a\",5]"},
        {"stop", "\"\""},
        {"stream", "1"},
        {"ignore_eos", "1"},
        {"stream_options", "true"},
        {"baton", "\"yes\""},
        {"model", "5"},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char body[256];
        (void)snprintf(body, sizeof body, "{\"prompt\":\"a\",\"%s\":%s}", fields[i][0], fields[i][1]);
        (void)bad(false, body, 400, fields[i][0], fields[i][0]);
    }
    (void)bad(false, "{\"prompt\":\"a\",\"max_tokens\":1,\"max_completion_tokens\":2}", 400,
              "max_completion_tokens", "give one");
    (void)bad(false, "{\"prompt\":\"a\",\"stream_options\":{\"include_usage\":true}}", 400, "stream_options",
              "only allowed when");
    (void)bad(false, "{\"prompt\":[1,512]}", 400, "prompt", "512 is not in the range 0 to 511");
    (void)bad(false, "{\"prompt\":[-1]}", 400, "prompt", "-1");
    (void)bad(false, "{\"prompt\":[1, 9223372036854775808]}", 400, "prompt", "not in the range 0 to 511");
    (void)bad(false, "{\"prompt\":[1.0, 2.5]}", 400, "prompt", "expected an integer, but got a number");
    (void)bad(false, "{\"seed\":1e400,\"prompt\":}", 400, "", "column 24"); /* the place in what was sent */
    (void)bad(false, "{\"prompt\":[]}", 400, "prompt", "empty");
    (void)bad(false, "{\"prompt\":5}", 400, "prompt", "expected a string");
    (void)bad(false, "{\"prompt\":[1,\"a\"]}", 400, "prompt", "expected an integer");
    (void)bad(false, "{}", 400, "prompt", "Missing");
    (void)bad(false, "{\"prompt\":null}", 400, "prompt", "Missing");
    (void)bad(false,
              "{\"prompt\":\"a\",\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"a\",\"b\","
              "\"c\",\"d\","
              "\"e\",\"f\",\"g\",\"h\"]}",
              400, "stop", "17");
}

static void refuses_bad_messages_by_their_place(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"[]", "messages", "0 messages"},
        {"{}", "messages", "expected an array"},
        {"[5]", "messages[0]", "expected an object"},
        {"[{\"role\":\"user\",\"content\":\"a\"},{\"content\":\"a\"}]", "messages[1].role", "Missing"},
        {"[{\"role\":\"critic\",\"content\":\"a\"}]", "messages[0].role", "'critic'"},
        {"[{\"role\":\"user\"}]", "messages[0].content", "Missing"},
        {"[{\"role\":\"user\",\"content\":null}]", "messages[0].content", "Missing"},
        {"[{\"role\":\"user\",\"content\":5}]", "messages[0].content", "expected a string"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", "messages[0].content", "image_url"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", "messages[0].content", "text"},
        {"[{\"role\":\"user\",\"content\":[\"a\"]}]", "messages[0].content", "type"},
        {"[{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[{}]}]", "messages[0].tool_calls[0]",
         "a 'name'"},
        {"[{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":{}}]", "messages[0].tool_calls",
         "an array"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[]}]", "messages[0].content", "Missing"},
        {"[{\"role\":\"user\",\"content\":\"a\",\"reasoning\":1}]", "reasoning", "a string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        (void)snprintf(body, sizeof body, "{\"messages\":%s}", cases[i][0]);
        (void)bad(true, body, 400, cases[i][1], cases[i][2]);
    }
    (void)bad(true, "{}", 400, "messages", "Missing");
}

static void answers_404_for_a_model_of_another_name(void **state)
{
    (void)state;
    const gw_error err = bad(false, "{\"model\":\"gpt-4\",\"prompt\":\"a\"}", 404, "model", "gpt-4");
    assert_string_equal(err.code, "model_not_found");
}

static void refuses_bytes_that_are_not_json_and_says_where(void **state)
{
    (void)state;
    (void)bad(false, "", 400, "", "not valid JSON");
    (void)bad(false, "{\"prompt\":\n  oops}", 400, "", "line 2");
    (void)bad(false, "[1]", 400, "", "must be a JSON object");
    (void)bad(false, "{\"prompt\":\"a\"} x", 400, "", "not valid JSON");
    (void)bad(false, "{\"prompt\":\"a\",\"prompt\":\"b\"}", 400, "", "duplicate");
    (void)bad(false, "{\"prompt\":\"\xff\"}", 400, "", "UTF-8");
    (void)bad(false, "{\"prompt\":\"\xed\xa0\x80\"}", 400, "", "UTF-8");
    (void)bad(false, "{\"prompt\":\"\\ud800\"}", 400, "", "not valid JSON");
    (void)bad(false, "{\"prompt\":\"a\",\"seed\":99999999999999999999}", 400, "seed",
              "1e+20 is not in the range");
}

static void survives_nesting_a_hundred_thousand_deep(void **state)
{
    (void)state;
    enum { N = 100000 };
    char *body = malloc(N);
    assert_non_null(body);
    memset(body, '[', N);
    gw_ask r;
    gw_error err;
    assert_int_equal(parse_bytes(&r, &err, true, body, N), BT_EARG);
    assert_int_equal(err.status, 400);
    free(body);
}

static void cuts_words_of_the_client_only_between_characters(void **state)
{
    (void)state;
    char body[700] = "{\"";
    for (size_t i = 0; i < 300; i++) (void)strcat(body, "\xc3\xa9");
    (void)strcat(body, "\":1}");
    gw_ask r;
    gw_error err;
    assert_int_equal(parse_bytes(&r, &err, false, body, strlen(body)), BT_EARG);
    assert_int_equal(strlen(err.param) % 2, 0);
    assert_true(strlen(err.param) > 60);
    const char *last = err.message + strlen(err.message) - 1;
    assert_int_equal((unsigned char)*last, 0xa9);
}

static void fields_that_are_left_out_are_the_defaults_each_on_its_own(void **state)
{
    (void)state;
    gw_ask r = good(false, "{\"prompt\":\"a\"}");
    assert_true(r.sampling.temperature == 0.8f && r.sampling.top_p == 0.95f && r.sampling.min_p == 0.05f);
    assert_true(r.sampling.top_k == 40 && r.sampling.repetition_penalty == 1);
    assert_int_equal(bt_sample_params_check(&r.sampling, NULL), BT_OK);
    gw_ask_done(&r);
    r = good(true, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"temperature\":0,\"top_k\":null}");
    assert_true(r.sampling.temperature == 0 && r.sampling.top_p == 0.95f && r.sampling.min_p == 0.05f);
    assert_int_equal(r.sampling.top_k, 40);
    gw_ask_done(&r);
    bt_defaults other = defaults;
    bt_defaults_set(&other, BT_DEFAULT_TEMPERATURE, 0.25);
    bt_defaults_set(&other, BT_DEFAULT_TOP_K, 7);
    bt_defaults_set(&other, BT_DEFAULT_REPETITION_PENALTY, 1.5);
    const gw_ask_limits changed = {names, 2, 512, 3, &other, NULL};
    gw_error err;
    static const char body[] = "{\"prompt\":\"a\",\"top_p\":0.5,\"top_k\":-1}";
    assert_int_equal(gw_dialect_read(&r, &err, &gw_dialect_text, body, sizeof body - 1, &changed), BT_OK);
    assert_true(r.sampling.temperature == 0.25f && r.sampling.top_p == 0.5f && r.sampling.min_p == 0.05f);
    assert_true(r.sampling.top_k == 0 && r.sampling.repetition_penalty == 1.5f);
    gw_ask_done(&r);
}

static void takes_what_known_clients_send_beside_the_api(void **state)
{
    (void)state;
    /* llama.cpp's own client, with its settings as they are out of the box. */
    gw_ask r = good(
        true,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\","
        "\"reasoning_content\":\"c\"}],\"stream\":true,\"cache_prompt\":true,\"reasoning_format\":\"auto\","
        "\"samplers\":[\"penalties\",\"top_k\"],\"temperature\":0.5,\"dynatemp_range\":0,"
        "\"dynatemp_exponent\":1,\"top_k\":40,\"top_p\":0.95,\"min_p\":0.05,\"typical_p\":1.0,"
        "\"xtc_probability\":0,\"xtc_threshold\":0.1,\"repeat_last_n\":64,\"repeat_penalty\":1.25,"
        "\"presence_penalty\":0,\"frequency_penalty\":0,\"dry_multiplier\":0.0,\"dry_base\":1.75,"
        "\"dry_allowed_length\":2,\"dry_penalty_last_n\":-1,\"max_tokens\":-1,\"timings_per_token\":true,"
        "\"id_slot\":-1,\"n_probs\":0,\"n_keep\":0,\"mirostat\":0,\"mirostat_tau\":5,\"top_n_sigma\":-1}");
    assert_true(r.sampling.repetition_penalty == 1.25f && r.max_tokens == 0 && !r.sampling.logprobs);
    gw_ask_done(&r);
    /* OpenAI's, LangChain's, ollama's. */
    r = good(
        true,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"n\":1,\"reasoning_effort\":\"low\","
        "\"verbosity\":\"low\",\"store\":false,\"metadata\":{},\"parallel_tool_calls\":false,"
        "\"service_tier\":\"auto\",\"user\":\"u\",\"safety_identifier\":\"s\",\"prompt_cache_key\":\"k\","
        "\"keep_alive\":\"5m\",\"think\":false,\"max_completion_tokens\":99999999999}");
    assert_int_equal(r.max_tokens, BT_MSG_MAX_PROMPT_TOKENS);
    gw_ask_done(&r);
    r = good(false, "{\"prompt\":\"a\",\"max_tokens\":3.0,\"top_k\":4e1,\"seed\":-2.0}"); /* whole, if not so
                                                                                             written */
    assert_true(r.max_tokens == 3 && r.sampling.top_k == 40 && r.sampling.seed == UINT64_MAX - 1);
    gw_ask_done(&r);
    r = good(false, "{\"prompt\":\"a\",\"n_predict\":5,\"n_probs\":3}");
    assert_true(r.max_tokens == 5 && r.sampling.logprobs && r.sampling.top_logprobs == 3);
    gw_ask_done(&r);
}

static void tells_the_name_that_was_meant_where_one_is_close(void **state)
{
    (void)state;
    (void)bad(false, "{\"prompt\":\"a\",\"max_token\":1}", 400, "max_token", "Did you mean 'max_tokens'?");
    (void)bad(false, "{\"prompt\":\"a\",\"temprature\":1}", 400, "temprature", "Did you mean 'temperature'?");
    (void)bad(true, "{\"mesages\":[]}", 400, "mesages", "Did you mean 'messages'?");
    const gw_error err = bad(false, "{\"prompt\":\"a\",\"something_else\":1}", 400, "something_else", "");
    assert_null(strstr(err.message, "Did you mean"));
    char body[500], key[401]; /* as far from 'model' as from any name */
    memset(key, 'x', sizeof key - 1);
    key[sizeof key - 1] = 0;
    (void)snprintf(body, sizeof body, "{\"prompt\":\"a\",\"%s\":1}", key);
    gw_ask r;
    gw_error far = {0};
    assert_int_equal(parse_bytes(&r, &far, false, body, strlen(body)), BT_EARG);
    assert_null(strstr(far.message, "Did you mean"));
}

static void refuses_a_nul_in_a_string_in_its_own_words(void **state)
{
    (void)state;
    static const char raw[] = "{\"prompt\":\"a\0b\"}";
    gw_ask r;
    gw_error err = {0};
    assert_int_equal(parse_bytes(&r, &err, false, raw, sizeof raw - 1), BT_EARG);
    assert_non_null(strstr(err.message, "has a NUL character before byte 13;"));
    (void)bad(false, "{\"prompt\":\"a\\u0000b\"}", 400, "", "has a NUL character");
    (void)bad(false, "{\"prompt\":\"a\",\"x\\u0000y\":1}", 400, "", "has a NUL character");
    (void)bad(true, "{\"messages\":[{\"role\":\"user\",\"content\":\"\\u0000\"}]}", 400, "",
              "no text here may hold");
}

static void an_answer_is_cut_to_what_the_context_leaves_and_says_so(void **state)
{
    (void)state;
    static const struct {
        bool is_chat;
        uint32_t asked;
        size_t prompt;
        uint32_t tokens;
        const char *from;
    } c[] = {
        {true, 20, 80, 20, "request"},   {true, 21, 80, 20, "context"},  {true, 1 << 20, 99, 1, "context"},
        {true, 0, 10, 50, "max-answer"}, {true, 0, 60, 40, "context"},   {false, 0, 10, 16, "default"},
        {false, 0, 97, 3, "context"},    {false, 90, 10, 90, "request"}, {true, 60, 10, 60, "request"},
    };
    gw_error err;
    gw_bound b;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        const gw_ask r = {.default_tokens = c[i].is_chat ? 0 : GW_ASK_DEFAULT_COMPLETION_TOKENS,
                          .max_tokens = c[i].asked};
        assert_int_equal(gw_ask_bound(&b, &err, &r, c[i].prompt, 100, 50), BT_OK);
        assert_int_equal(b.tokens, c[i].tokens);
        assert_string_equal(b.from, c[i].from);
        assert_int_equal(b.is_context, strcmp(c[i].from, "context") == 0);
    }
    const gw_ask r = {.is_chat = true, .prompt_field = "input"};
    assert_int_equal(gw_ask_bound(&b, &err, &r, 100, 100, 50), BT_EARG);
    assert_string_equal(err.param, "input");
    assert_string_equal(err.code, "context_length_exceeded");
    assert_non_null(strstr(err.message, "100 tokens long, but the prompt has 100"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_chat_with_every_field_in_use),
        cmocka_unit_test(reads_which_nodes_a_request_wishes_for),
        cmocka_unit_test(reads_penalties_bias_log_probabilities_and_stop_ids),
        cmocka_unit_test(takes_a_salt_of_1_to_256_bytes_for_kept_prefixes),
        cmocka_unit_test(a_tool_is_chosen_by_the_type_function),
        cmocka_unit_test(refuses_parameters_out_of_range_with_value_and_range),
        cmocka_unit_test(reads_a_completion_as_text_or_as_a_token_list),
        cmocka_unit_test(a_whole_number_is_an_integer_however_it_is_written),
        cmocka_unit_test(takes_null_for_absent_and_ignores_harmless_fields),
        cmocka_unit_test(refuses_a_field_nobody_knows_by_its_name),
        cmocka_unit_test(refuses_what_is_known_but_not_supported_by_name),
        cmocka_unit_test(refuses_wrong_types_and_values_out_of_range),
        cmocka_unit_test(reads_what_the_chat_template_sees),
        cmocka_unit_test(refuses_bad_messages_by_their_place),
        cmocka_unit_test(answers_404_for_a_model_of_another_name),
        cmocka_unit_test(refuses_bytes_that_are_not_json_and_says_where),
        cmocka_unit_test(survives_nesting_a_hundred_thousand_deep),
        cmocka_unit_test(cuts_words_of_the_client_only_between_characters),
        cmocka_unit_test(fields_that_are_left_out_are_the_defaults_each_on_its_own),
        cmocka_unit_test(takes_what_known_clients_send_beside_the_api),
        cmocka_unit_test(tells_the_name_that_was_meant_where_one_is_close),
        cmocka_unit_test(refuses_a_nul_in_a_string_in_its_own_words),
        cmocka_unit_test(an_answer_is_cut_to_what_the_context_leaves_and_says_so),
    };
    defaults = bt_defaults_of(NULL, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
