/* Sampling parameters and log probabilities on the wire. The ranges of parameters are those of common/sample,
 * asked there. */
#include "wire/msg_sampling.h"

#include <float.h>
#include <string.h>

/* ---- parameters --------------------------------------------------------------------------------- */

void bt_msg_sampling_put(bt_msg_scratch *s, const bt_sampling *p)
{
    Bt__Sampling *b = &s->sampling;
    *b = (Bt__Sampling)BT__SAMPLING__INIT;
    b->temperature = p->temperature;
    b->top_k = p->top_k;
    b->top_p = p->top_p;
    b->min_p = p->min_p;
    b->seed = p->seed;
    b->repetition_penalty = p->repetition_penalty;
    b->presence_penalty = p->presence_penalty;
    b->frequency_penalty = p->frequency_penalty;
    b->logprobs = p->logprobs;
    b->top_logprobs = p->top_logprobs;
    for (uint32_t i = 0; i < p->bias_len; i++) {
        s->bias_ids[i] = p->bias[i].id;
        s->bias[i] = p->bias[i].bias;
    }
    b->n_bias_ids = b->n_bias = p->bias_len;
    b->bias_ids = s->bias_ids;
    b->bias = s->bias;
    b->program = (ProtobufCBinaryData){.len = p->program_len, .data = (uint8_t *)p->program};
}

void bt_msg_sampling_get(bt_msg_checker *c, bt_sampling *ret, const Bt__Sampling *b)
{
    if (!bt_msg_body_present(c, "sampling", b)) return;
    if (!bt_msg_body_range(c, "count of bias_ids", b->n_bias_ids, 0, BT_SAMPLE_MAX_BIAS) ||
        !bt_msg_body_range(c, "count of bias", b->n_bias, b->n_bias_ids, b->n_bias_ids) ||
        !bt_msg_body_range(c, "bytes of program", b->program.len, 0, BT_SAMPLE_MAX_PROGRAM))
        return;
    bt_sample_bias *bias = NULL;
    if (b->n_bias && !(bias = c->alloc(c->alloc_ud, b->n_bias * sizeof *bias))) {
        bt_msg_body_fail(c, "no room for the bias");
        return;
    }
    for (size_t i = 0; i < b->n_bias; i++) bias[i] = (bt_sample_bias){b->bias_ids[i], b->bias[i]};
    /* + 0: proto3 does not send zeros, so -0 could not make the way back. */
    *ret = (bt_sampling){.temperature = b->temperature + 0.0f,
                         .top_k = b->top_k,
                         .top_p = b->top_p + 0.0f,
                         .min_p = b->min_p + 0.0f,
                         .seed = b->seed,
                         .repetition_penalty = b->repetition_penalty + 0.0f,
                         .presence_penalty = b->presence_penalty + 0.0f,
                         .frequency_penalty = b->frequency_penalty + 0.0f,
                         .logprobs = b->logprobs,
                         .top_logprobs = b->top_logprobs,
                         .bias = bias,
                         .bias_len = (uint32_t)b->n_bias,
                         .program = b->program.len ? b->program.data : NULL,
                         .program_len = (uint32_t)b->program.len};
}

void bt_msg_sampling_check(bt_msg_checker *c, const bt_sampling *p)
{
    bt_fault f = {""};
    if (bt_sample_params_check(p, &f) < 0) bt_msg_body_fail(c, "%s", f.text);
}

/* ---- log probabilities -------------------------------------------------------------------------- */

static void check_value(bt_msg_checker *c, const char *field, float v)
{
    if (!(v >= -FLT_MAX && v <= 0.0f))
        bt_msg_body_fail(c, "%s is %g: must be finite and at most 0", field, (double)v);
}

void bt_msg_sampling_check_logprob(bt_msg_checker *c, const bt_msg_logprob *l)
{
    check_value(c, "logprob", l->own);
    if (!bt_msg_body_range(c, "count of top_logprobs", l->top_len, 0, BT_SAMPLE_MAX_TOP)) return;
    bt_msg_body_ids(c, "top_logprobs", l->top_ids, l->top_len);
    for (uint32_t i = 0; i < l->top_len; i++) {
        check_value(c, "top_logprobs", l->top[i]);
        if (i > 0 && l->top[i] > l->top[i - 1])
            bt_msg_body_fail(c, "top_logprobs[%u] is %g: must not rise", i, (double)l->top[i]);
    }
}

void bt_msg_sampling_put_logprob(Bt__Logprob *ret, const bt_msg_logprob *l)
{
    *ret = (Bt__Logprob)BT__LOGPROB__INIT;
    ret->own = l->own;
    ret->n_top_ids = ret->n_top = l->top_len;
    ret->top_ids = (int32_t *)l->top_ids;
    ret->top = (float *)l->top;
}

/* One token's likeliest ids; the caller has counted that both arrays hold n. */
static void get_top(bt_msg_logprob *ret, const int32_t *ids, const float *top, size_t n)
{
    ret->top_len = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        ret->top_ids[i] = ids[i];
        ret->top[i] = top[i];
    }
}

void bt_msg_sampling_get_logprob(bt_msg_checker *c, bt_msg_logprob *ret, const Bt__Logprob *b)
{
    if (!bt_msg_body_range(c, "count of top_logprobs", b->n_top_ids, 0, BT_SAMPLE_MAX_TOP) ||
        !bt_msg_body_range(c, "count of logprob.top", b->n_top, b->n_top_ids, b->n_top_ids))
        return;
    ret->own = b->own + 0.0f;
    get_top(ret, b->top_ids, b->top, b->n_top);
}

void bt_msg_sampling_put_logprobs(Bt__Tokens *ret, bt_msg_scratch *s, const bt_msg_tokens *t)
{
    size_t tops = 0;
    for (uint32_t i = 0; i < t->ids_len; i++) {
        const bt_msg_logprob *l = &t->logprobs[i];
        s->own[i] = l->own;
        s->top_counts[i] = l->top_len;
        for (uint32_t k = 0; k < l->top_len; k++, tops++) {
            s->top_ids[tops] = l->top_ids[k];
            s->top[tops] = l->top[k];
        }
    }
    ret->n_own = ret->n_top_counts = t->ids_len;
    ret->n_top_ids = ret->n_top = tops;
    ret->own = s->own;
    ret->top_counts = s->top_counts;
    ret->top_ids = s->top_ids;
    ret->top = s->top;
}

void bt_msg_sampling_get_logprobs(bt_msg_checker *c, bt_msg_tokens *ret, const Bt__Tokens *b)
{
    if (!bt_msg_body_range(c, "count of logprobs", b->n_own, 0, BT_MSG_MAX_TOKENS_LOGPROBS) ||
        (b->n_own && !bt_msg_body_range(c, "count of logprobs", b->n_own, b->n_ids, b->n_ids)) ||
        !bt_msg_body_range(c, "count of top_counts", b->n_top_counts, b->n_own, b->n_own) ||
        !bt_msg_body_range(c, "count of top", b->n_top, b->n_top_ids, b->n_top_ids))
        return;
    size_t tops = 0;
    for (size_t i = 0; i < b->n_own; i++) {
        if (!bt_msg_body_range(c, "count of top_logprobs", b->top_counts[i], 0, BT_SAMPLE_MAX_TOP)) return;
        tops += b->top_counts[i];
    }
    if (!bt_msg_body_range(c, "count of top_ids", b->n_top_ids, tops, tops) || b->n_own == 0) return;
    bt_msg_logprob *l = c->alloc(c->alloc_ud, b->n_own * sizeof *l);
    if (!l) {
        bt_msg_body_fail(c, "no room for the log probabilities");
        return;
    }
    memset(l, 0, b->n_own * sizeof *l);
    tops = 0;
    for (size_t i = 0; i < b->n_own; i++) {
        l[i].own = b->own[i];
        get_top(&l[i], b->top_ids + tops, b->top + tops, b->top_counts[i]);
        tops += b->top_counts[i];
    }
    ret->logprobs = l;
}
