/* Reads requests of the OpenAI API by the table of openai_fields.c. */
#include "gateway/api/openai.h"
#include "gateway/api/openai_fields.h"

#include <stdlib.h>
#include <string.h>

static const char BAD[] = "invalid_request_error";

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
    p.r.talk.add_generation_prompt = true;
    start_from(&p.r.sampling, limits->defaults);
    bt_err e = gw_read_object(&p.r.root, &p, body, len);
    if (e < 0) return e;
    e = gw_fields_read(&p, p.r.root);
    if (e < 0) {
        gw_openai_request_done(&p.r);
        return e;
    }
    *ret = p.r;
    return BT_OK;
}

void gw_openai_request_drop_texts(gw_openai_request *r)
{
    free(r->prompt_ids);
    json_decref(r->root);
    json_decref(r->structure.value);
    r->structure.value = NULL;
    r->talk = (bt_chat_talk){.messages = NULL};
    r->prompt = NULL;
    r->prompt_ids = NULL;
    r->root = NULL;
    r->prompt_len = r->prompt_ids_len = r->stops = 0;
}

void gw_openai_request_done(gw_openai_request *r)
{
    gw_openai_request_drop_texts(r);
    free(r->bias);
    free(r->program);
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
