/* See ask.h. */
#include "gateway/api/ask.h"

#include <jansson.h>
#include <stdlib.h>

void gw_ask_drop_texts(gw_ask *r)
{
    free(r->prompt_ids);
    json_decref(r->root);
    json_decref(r->structure.value);
    r->structure.value = NULL;
    r->talk = (bt_chat_talk){.messages = NULL};
    r->prompt = NULL;
    r->call = NULL;
    r->prompt_ids = NULL;
    r->root = NULL;
    r->prompt_len = r->prompt_ids_len = r->stops = 0;
}

void gw_ask_done(gw_ask *r)
{
    gw_ask_drop_texts(r);
    free(r->bias);
    free(r->program);
    json_decref(r->echo);
    *r = (gw_ask){0};
}

bt_err gw_ask_bound(gw_bound *ret, gw_error *err, const gw_ask *r, size_t prompt_tokens, uint32_t ctx_tokens,
                    uint32_t max_answer)
{
    if (prompt_tokens >= ctx_tokens)
        return gw_error_say(
            err, 400, "context_length_exceeded", r->prompt_field,
            "The context is %u tokens long, but the prompt has %zu and needs room for one more.", ctx_tokens,
            prompt_tokens);
    gw_bound b = r->max_tokens       ? (gw_bound){r->max_tokens, "request", false}
                 : r->default_tokens ? (gw_bound){r->default_tokens, "default", false}
                                     : (gw_bound){max_answer, "max-answer", false};
    const uint32_t room = ctx_tokens - (uint32_t)prompt_tokens;
    if (b.tokens > room) b = (gw_bound){room, "context", true};
    *ret = b;
    return BT_OK;
}
