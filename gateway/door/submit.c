/* From the body of a POST to a SUBMIT for the brain. */
#include "gateway/door/submit.h"
#include "base/clock.h"
#include "base/log.h"
#include "gateway/door/capture.h"
#include "gateway/door/live.h"
#include "gateway/door/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char SERVER[] = "server_error";

static bt_err fill_live(gw_door *d, gw_live *l, gw_http_exchange *x, const gw_openai_request *r,
                        gw_openai_bound bound)
{
    bt_fault fault;
    const size_t max_tokens = bound.tokens;
    const bt_err e = gw_text_begin(&l->text, d->env.text, r, max_tokens, &fault);
    if (e < 0) return e;
    bt_buf_init(&l->ids, max_tokens * sizeof(int32_t));
    if (r->sampling.logprobs) gw_logprobs_begin(&l->logprobs, d->env.text->tok, r->is_chat, max_tokens);
    l->x = x;
    l->number = ++d->number;
    l->arrived_us = l->wrote_us = l->token_us = bt_clock_us();
    l->is_stream = r->is_stream;
    l->is_baton = r->is_baton;
    l->bound = bound;
    gw_capture_begin(l, &r->sampling);
    l->head = (gw_answer_head){.is_chat = r->is_chat, .has_usage_chunk = r->has_usage_chunk,
                               .model = d->env.names[0], .created_s = bt_clock_wall_s()};
    uint64_t key;
    memcpy(&key, d->id_key, sizeof key);
    (void)snprintf(l->head.id, sizeof l->head.id, "%s-%016llx%08llx", r->is_chat ? "chatcmpl" : "cmpl",
                   (unsigned long long)key, (unsigned long long)l->number);
    return BT_OK;
}

static void submit(gw_door *d, gw_http_exchange *x, const gw_openai_request *r, gw_openai_error *err,
                   bt_err *ret)
{
    gw_openai_bound bound = {0, ""};
    const uint32_t ctx_tokens = gw_door_context_tokens(d);
    gw_live *l = calloc(1, sizeof *l);
    bt_err e = l ? BT_OK : BT_ENOMEM;
    if (e == BT_OK) e = gw_text_prompt(&l->prompt_ids, &l->prompt_len, d->env.text, r, ctx_tokens, err);
    if (e == BT_OK)
        e = gw_openai_max_tokens(&bound, err, r, l->prompt_len, ctx_tokens,
                                 (uint32_t)d->env.options->answers.max_answer);
    if (e == BT_OK && (e = fill_live(d, l, x, r, bound)) < 0) e = BT_ENOMEM;
    if (e < 0) {
        if (e == BT_ENOMEM) (void)gw_openai_fail(err, 500, SERVER, "out_of_memory", NULL, "Out of memory.");
        gw_live_free(l);
        *ret = e;
        return;
    }
    gw_submit s = {.request = l->number,
                   .ids = l->prompt_ids,
                   .ids_len = (uint32_t)l->prompt_len,
                   .max_tokens = bound.tokens,
                   .sampling = r->sampling,
                   .policy = (gw_policy)r->policy,
                   .draw_seed = !r->has_seed,
                   .stop_ids_len = r->ignores_eos ? 0 : d->env.text->stop_ids_len};
    memcpy(s.prefer_prefill, r->prefer_prefill, sizeof s.prefer_prefill);
    memcpy(s.prefer_decode, r->prefer_decode, sizeof s.prefer_decode);
    memcpy(s.stop_ids, d->env.text->stop_ids, s.stop_ids_len * sizeof *s.stop_ids);
    for (uint32_t i = 0; i < r->stop_ids_len; i++) s.stop_ids[s.stop_ids_len++] = r->stop_ids[i];
    gw_live_add(d, l);
    gw_http_set_user(x, l);
    bt_log_request(BT_LOG_INFO, gw_http_id(x), "request %llu: %s, %zu prompt tokens, at most %u more%s",
                   (unsigned long long)l->number, r->is_chat ? "chat" : "completion", l->prompt_len,
                   bound.tokens, r->is_stream ? ", streamed" : "");
    *ret = BT_OK;
    d->env.step(d->env.ud, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &s}); /* may free l already */
}

void gw_submit_post(gw_door *d, gw_http_exchange *x, const gw_http_request *r, bool is_chat)
{
    const gw_openai_limits limits = {d->env.names, d->env.names_len,
                                     (uint32_t)bt_tokenizer_count(d->env.text->tok),
                                     BT_MSG_MAX_STOP_IDS - d->env.text->stop_ids_len, d->env.defaults};
    gw_openai_error err;
    gw_openai_request request;
    bt_err e;
    if (d->is_draining && gw_reply_not_ready(d, &err)) e = BT_EAGAIN;
    else if ((e = gw_openai_parse(&request, &err, is_chat, r->body, r->body_len, &limits)) == BT_OK) {
        submit(d, x, &request, &err, &e);
        gw_openai_request_done(&request);
    }
    if (e < 0) gw_reply_error(d, x, &err, NULL);
}
