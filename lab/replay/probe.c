/* Small questions to a server before the load begins. */
#include "lab/replay/probe.h"
#include "tools/cluster/http.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { BODY_BYTES = 4 << 20, FEW_WORDS = 8, MANY_WORDS = 72 };

typedef struct answer {
    tool_replay_heard heard;
    tool_replay_record record;
    bool has_no_usage; /* its stream had none */
} answer;

static bool on_event(void *ud, const char *data, size_t len)
{
    answer *a = ud;
    int64_t gap;
    (void)tool_replay_wire_event(&a->heard, &a->record, &gap, data, len, 0);
    return true;
}

/* A GET whose answer is JSON; NULL: it has none. */
static bt_err get(json_t **ret, const tool_replay_probe *p, const char *path, bt_fault *fault)
{
    bt_buf body;
    long status = 0;
    bt_buf_init(&body, BODY_BYTES);
    const bt_err e = tool_http_get(&status, &body, p->url, path, p->api_key, p->stop, fault);
    *ret = e == BT_OK && status == 200 ? json_loadb(bt_buf_text(&body), body.len, 0, NULL) : NULL;
    bt_buf_done(&body);
    return e;
}

static uint32_t number_of(const json_t *object, const char *key)
{
    const json_int_t n = json_integer_value(json_object_get(object, key));
    return n > 0 && n < UINT32_MAX ? (uint32_t)n : 0;
}

/* Names and sizes: Baton's, llama.cpp's and vLLM's pages, whichever there are. */
static bt_err look_around(tool_replay_dialect *d, const tool_replay_probe *p, bt_fault *fault)
{
    json_t *models = NULL, *status = NULL, *props = NULL;
    bt_err e = get(&models, p, "/v1/models", fault);
    if (e == BT_OK) e = get(&status, p, "/v1/status", fault);
    if (e == BT_OK) e = get(&props, p, "/props", fault);
    const json_t *first = json_array_get(json_object_get(models, "data"), 0);
    const char *name = p->model ? p->model : json_string_value(json_object_get(first, "id"));
    if (name) (void)snprintf(d->model, sizeof d->model, "%s", name);
    d->is_baton = json_is_array(json_object_get(status, "nodes")) || /* and what a key without role=admin sees
                                                                      */
                  json_is_object(json_object_get(status, "counts"));
    /* /props first: what a request of Baton's can have depends on its nodes too */
    d->context_tokens = number_of(json_object_get(props, "default_generation_settings"), "n_ctx");
    if (!d->context_tokens) d->context_tokens = number_of(first, "max_model_len");
    json_decref(models);
    json_decref(status);
    json_decref(props);
    return e;
}

static bt_err post(answer *ret, bt_buf *body, bt_buf *json, const tool_replay_probe *p, bt_fault *fault)
{
    long status = 0;
    bt_buf_clear(body);
    bt_err e = tool_http_stream(&status, body, p->url, "/v1/completions", p->api_key, bt_buf_text(json),
                                on_event, ret, p->stop, fault);
    if (e == BT_OK && status != 200) {
        char words[200];
        tool_http_error_text(words, sizeof words, status, body);
        e = bt_fail(fault, status == 429 || status >= 500 ? BT_EIO : BT_EARG, "%s refuses a request: %s",
                    p->url, words);
    } else if (e == BT_OK && body->len > 0) { /* no stream */
        (void)on_event(ret, bt_buf_text(body), body->len);
    }
    if (e == BT_OK && ret->heard.failure[0])
        e = bt_fail(fault, BT_EARG, "%s refuses a request: %s", p->url, ret->heard.failure);
    return e;
}

/* One token for n words; without usage in the stream a second time, in one piece. BT_EARG with the server's
 * words: it does not take this. */
static bt_err ask(answer *ret, const tool_replay_dialect *d, const tool_replay_probe *p, size_t n,
                  bt_fault *fault)
{
    const tool_replay_plan none = {0};
    const tool_replay_item item = {.output_tokens = 1, .sampling = TOOL_REPLAY_NONE, .stream = 0x70726f6265u};
    uint32_t word[MANY_WORDS];
    bt_buf json, body;
    *ret = (answer){0};
    bt_buf_init(&json, BODY_BYTES);
    bt_buf_init(&body, BODY_BYTES);
    tool_replay_words_draw(word, n, &none, &item, p->words, n);
    tool_replay_wire_body(&json, d, &none, &item, p->words, word, n);
    bt_err e = json.err;
    if (e == BT_OK) e = post(ret, &body, &json, p, fault);
    if (e == BT_OK && body.len > 0)
        e = bt_fail(fault, BT_EARG, "%s answers a request for a stream in one piece", p->url);
    if (e == BT_OK && !ret->heard.has_usage) {
        ret->has_no_usage = true;
        tool_replay_wire_whole(&json);
        e = post(ret, &body, &json, p, fault);
    }
    bt_buf_done(&json);
    bt_buf_done(&body);
    return e;
}

/* A line through two points: the tokenizer of a server that we have no model of. */
static bt_err measure_words(tool_replay_dialect *d, const tool_replay_probe *p, bt_fault *fault)
{
    answer few, many;
    bt_err e = ask(&few, d, p, FEW_WORDS, fault);
    if (e == BT_OK) e = ask(&many, d, p, MANY_WORDS, fault);
    if (e < 0) return e;
    const double a = few.record.prompt_tokens, b = many.record.prompt_tokens;
    if (!few.heard.has_usage || !many.heard.has_usage || b <= a)
        return bt_fail(
            fault, BT_EIO,
            "%s does not tell usage.prompt_tokens, so the length of text prompts cannot be checked", p->url);
    d->words_per_token = (MANY_WORDS - FEW_WORDS) / (b - a);
    d->words_off = FEW_WORDS - a * d->words_per_token;
    return BT_OK;
}

/* Baton needs no question, and what it captures is then the load alone. */
static bt_err knows_baton(const tool_replay_probe *p, bt_fault *fault)
{
    json_t *health = NULL;
    bt_err e = get(&health, p, "/health", fault);
    if (e == BT_OK && !health)
        e = bt_fail(fault, BT_EIO, "%s has no node for a request: see baton status", p->url);
    json_decref(health);
    return e;
}

bt_err tool_replay_probe_server(tool_replay_dialect *ret, const tool_replay_probe *p, bt_fault *fault)
{
    static const struct {
        bool ids, ignores_eos;
    } ways[] = {{true, true}, {true, false}, {false, true}, {false, false}};
    tool_replay_dialect d = {.words_per_token = 1};
    bt_err e = look_around(&d, p, fault);
    if (e < 0) return e;
    if (d.is_baton && p->words->id && !p->only_text) {
        d.takes_ids = d.ignores_eos = true;
        if ((e = knows_baton(p, fault)) == BT_OK) *ret = d;
        return e;
    }
    e = bt_fail(fault, BT_EARG,
                "this vocabulary has no words that are one token each: prompts must go as token ids");
    for (size_t i = 0; e == BT_EARG && i < sizeof ways / sizeof *ways; i++) {
        answer a;
        if (ways[i].ids ? p->only_text || !p->words->id : !p->words->text) continue;
        d.takes_ids = ways[i].ids;
        d.ignores_eos = ways[i].ignores_eos;
        e = ask(&a, &d, p, FEW_WORDS, fault);
        if (e == BT_OK && d.takes_ids && a.heard.has_usage && a.record.prompt_tokens != FEW_WORDS)
            e = bt_fail(fault, BT_EARG, "%s counts %u tokens where %d ids were sent", p->url,
                        a.record.prompt_tokens, FEW_WORDS);
        d.has_no_usage = a.has_no_usage;
    }
    if (e == BT_OK && !d.takes_ids) e = measure_words(&d, p, fault);
    if (e == BT_OK) *ret = d;
    return e < 0 && e != BT_ECANCEL ? BT_EIO : e;
}
