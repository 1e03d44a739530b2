/* Reads requests of the OpenAI API: jansson decides what is JSON, the table of openai_fields.c what a field
 * means. */
#include "gateway/api/openai.h"
#include "gateway/api/openai_fields.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

static const char BAD[] = "invalid_request_error";

/* The same words for a NUL however it is written. */
static bt_err refuse_nul(gw_openai_error *err, size_t before)
{
    return gw_openai_fail(err, 400, BAD, "invalid_json", NULL,
                          "The body has a NUL character before byte %zu; no text here may hold one.", before);
}

static bt_err load(json_t **ret, gw_reader *p, const char *body, size_t len)
{
    json_error_t je;
    size_t bad;
    if (!bt_utf8_valid(body, len, &bad))
        return gw_openai_fail(p->err, 400, BAD, "invalid_json", NULL,
                              "The body is not valid UTF-8 at byte %zu.", bad);
    const char *nul = memchr(body, 0, len);
    if (nul) return refuse_nul(p->err, (size_t)(nul - body) + 1);
    /* jansson bounds the depth of nesting at 2048 itself. */
    json_t *root = json_loadb(body, len, JSON_REJECT_DUPLICATES, &je);
    if (!root) {
        const enum json_error_code code = json_error_code(&je);
        if (code == json_error_out_of_memory) return gw_read_no_memory(p);
        if (code == json_error_null_character || code == json_error_null_byte_in_key)
            return refuse_nul(p->err, (size_t)je.position);
        return gw_openai_fail(p->err, 400, BAD, "invalid_json", NULL,
                              "The body is not valid JSON: line %d, column %d (byte %d): %s", je.line,
                              je.column, je.position, je.text);
    }
    *ret = root;
    return BT_OK;
}

static void start_from(bt_sampling *s, const bt_defaults *d)
{
    s->temperature = (float)d->value[BT_DEFAULT_TEMPERATURE];
    s->top_p = (float)d->value[BT_DEFAULT_TOP_P];
    s->top_k = (uint32_t)d->value[BT_DEFAULT_TOP_K];
    s->min_p = (float)d->value[BT_DEFAULT_MIN_P];
    s->repetition_penalty = (float)d->value[BT_DEFAULT_REPETITION_PENALTY];
}

bt_err gw_openai_parse(gw_openai_request *ret, gw_openai_error *err, bool is_chat, const char *body,
                       size_t len, const gw_openai_limits *limits)
{
    gw_reader p = {.err = err, .limits = limits};
    p.r.is_chat = is_chat;
    start_from(&p.r.sampling, limits->defaults);
    bt_err e = load(&p.r.root, &p, body, len);
    if (e < 0) return e;
    e = json_is_object(p.r.root)
            ? gw_fields_read(&p, p.r.root)
            : gw_openai_fail(err, 400, BAD, "invalid_json", NULL, "The body must be a JSON object.");
    if (e < 0) {
        gw_openai_request_done(&p.r);
        return e;
    }
    *ret = p.r;
    return BT_OK;
}

void gw_openai_request_drop_texts(gw_openai_request *r)
{
    free(r->message);
    free(r->prompt_ids);
    json_decref(r->root);
    r->message = NULL;
    r->prompt = NULL;
    r->prompt_ids = NULL;
    r->root = NULL;
    r->messages = r->prompt_len = r->prompt_ids_len = r->stops = 0;
}

void gw_openai_request_done(gw_openai_request *r)
{
    gw_openai_request_drop_texts(r);
    free(r->bias);
    *r = (gw_openai_request){0};
}

bt_err gw_openai_max_tokens(gw_openai_bound *ret, gw_openai_error *err, const gw_openai_request *r,
                            size_t prompt_tokens, uint32_t ctx_tokens, uint32_t max_answer)
{
    if (prompt_tokens >= ctx_tokens)
        return gw_openai_fail(
            err, 400, BAD, "context_length_exceeded", r->is_chat ? "messages" : "prompt",
            "The context is %u tokens long, but the prompt has %zu and needs room for one more.", ctx_tokens,
            prompt_tokens);
    gw_openai_bound b = r->max_tokens ? (gw_openai_bound){r->max_tokens, "request"}
                        : r->is_chat  ? (gw_openai_bound){max_answer, "max-answer"}
                                      : (gw_openai_bound){GW_OPENAI_DEFAULT_COMPLETION_TOKENS, "default"};
    const uint32_t room = ctx_tokens - (uint32_t)prompt_tokens;
    if (b.tokens > room) b = (gw_openai_bound){room, "context"};
    *ret = b;
    return BT_OK;
}
