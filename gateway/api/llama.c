/* The completion of llama.cpp's server: fields as OpenAI's completions have them (fields.c), answers of its
 * own. A stream is events of "content" with "stop": false, and one with "stop": true, which has the figures;
 * nothing follows it. */
#include "gateway/api/openai.h"

#include <jansson.h>

static const char event[] = "data: ", event_end[] = "\n\n";

static const gw_field fields[] = {
    GW_ONLY("response_fields", GW_FIELD_LLAMA, "[[]]"),
    GW_ONLY("t_max_predict_ms", GW_FIELD_LLAMA, "[0]"),
    GW_ONLY("n_indent", GW_FIELD_LLAMA, "[0]"),
};
static const gw_fields own = {fields, sizeof fields / sizeof *fields};

/* Fields that an answer's settings repeat as the request gave them; stop is a list. */
static bt_err made(gw_reader *p, json_t *root)
{
    static const char *const names[] = {"grammar", "json_schema", "logit_bias"};
    json_t *stop = json_object_get(root, "stop");
    stop = json_is_string(stop)  ? json_pack("[O]", stop)
           : json_is_array(stop) ? json_incref(stop)
                                 : json_array();
    bt_err e = gw_read_echo(p, "stop", stop);
    json_decref(stop);
    for (size_t i = 0; e == BT_OK && i < sizeof names / sizeof *names; i++) {
        json_t *v = json_object_get(root, names[i]);
        if (v && !json_is_null(v)) e = gw_read_echo(p, names[i], v);
    }
    return e;
}

/* Takes the reference; the list of log probabilities stands in an answer that has some. */
static json_t *with_logprobs(json_t *object, json_t *logprobs)
{
    if (!json_is_null(logprobs)) return gw_answer_with(object, "completion_probabilities", logprobs);
    json_decref(logprobs);
    return object;
}

static json_t *piece(const gw_answer *a, bt_text_span s, bool is_stop)
{
    return json_pack("{s:i,s:s%,s:[],s:b,s:I,s:I}", "index", 0, "content", s.ptr, s.len, "tokens", "stop",
                     is_stop, "tokens_predicted", (json_int_t)a->answer_tokens, "tokens_evaluated",
                     (json_int_t)a->prompt_tokens);
}

static bt_err begin(bt_buf *out, gw_answer *a)
{
    (void)out;
    (void)a;
    return BT_OK;
}

static bt_err part(bt_buf *out, gw_answer *a, const bt_thoughts_part *s, json_t *logprobs)
{
    return gw_answer_add(out, with_logprobs(piece(a, s->text, false), logprobs), event, event_end);
}

/* What the answer was made with. */
static json_t *settings(const gw_answer *a, const gw_answer_report *r)
{
    const bt_sampling *s = &a->sampling;
    json_t *j =
        json_pack("{s:I,s:I,s:I,s:o,s:I,s:o,s:o,s:o,s:o,s:o,s:b,s:I,s:b}", "n_predict",
                  (json_int_t)r->bound.tokens, "max_tokens", (json_int_t)r->bound.tokens, "seed",
                  (json_int_t)r->seed, "temperature", gw_answer_number(s->temperature), "top_k",
                  (json_int_t)s->top_k, "top_p", gw_answer_number(s->top_p), "min_p",
                  gw_answer_number(s->min_p), "repeat_penalty", gw_answer_number(s->repetition_penalty),
                  "presence_penalty", gw_answer_number(s->presence_penalty), "frequency_penalty",
                  gw_answer_number(s->frequency_penalty), "ignore_eos", a->ignores_eos, "n_probs",
                  (json_int_t)s->top_logprobs, "stream", a->is_stream);
    if (!j || !a->echo || json_object_update(j, a->echo) == 0) return j;
    json_decref(j);
    return NULL;
}

static json_t *last(gw_answer *a, const gw_answer_report *r, bt_text_span said)
{
    static const char *const types[GW_ENDINGS] = {
        [GW_ENDING_STOP] = "eos", [GW_ENDING_LENGTH] = "limit", [GW_ENDING_STRING] = "word"};
    const bool is_word = r->ending == GW_ENDING_STRING;
    a->answer_tokens = r->completion_tokens;
    json_t *j = piece(a, said, true);
    json_t *prompt = r->prompt.ptr ? json_stringn(r->prompt.ptr, r->prompt.len) : json_null();
    json_t *more = json_pack("{s:s,s:o,s:o,s:b,s:s,s:s%,s:I,s:o}", "model", a->model, "generation_settings",
                             settings(a, r), "prompt", prompt, "truncated", 0, "stop_type", types[r->ending],
                             "stopping_word", is_word ? r->stop.ptr : "", is_word ? r->stop.len : (size_t)0,
                             "tokens_cached", (json_int_t)r->cached_tokens, "timings", gw_answer_timings(r));
    if (!j || !more || json_object_update(j, more) < 0) {
        json_decref(j);
        j = NULL;
    }
    json_decref(more);
    return a->is_baton ? gw_answer_with(j, "baton", gw_answer_baton(r)) : j;
}

static bt_err end(bt_buf *out, gw_answer *a, const gw_answer_report *r)
{
    return gw_answer_add(out, last(a, r, (bt_text_span){"", 0}), event, event_end);
}

static bt_err whole(bt_buf *out, gw_answer *a, const gw_answer_report *r, json_t *logprobs)
{
    return gw_answer_add(out, with_logprobs(last(a, r, r->said), logprobs), "", "");
}

const gw_dialect gw_dialect_llama = {
    .name = "llama.cpp completion",
    .request = "LlamaRequest",
    .prompt = "prompt",
    .where = GW_FIELD_LLAMA,
    .own = &own,
    .tells_prompt = true,
    .made = made,
    .id = "cmpl-",
    .logprobs = GW_LOGPROBS_LIST,
    .stream_type = gw_dialect_events,
    .begin = begin,
    .part = part,
    .end = end,
    .alive = gw_openai_comment,
    .whole = whole,
    .error_schema = "Error",
    .kinds = gw_openai_kinds,
    .error = gw_openai_error,
    .error_event = event,
    .error_end = event_end,
};
