/* The messages about one attempt on the control link: fields to and from proto/infer.proto, and their ranges.
 */
#include "wire/msg_device.h"
#include "wire/msg_sampling.h"

#include "kv/kv_header.h"

#include <float.h>

/* A short list, into the message itself. */
static void get_ids(bt_msg_checker *c, const char *field, int32_t *ret, uint32_t *ret_len, size_t cap,
                    const int32_t *ids, size_t n)
{
    if (!bt_msg_body_range(c, field, n, 0, cap)) return;
    for (size_t i = 0; i < n; i++) ret[i] = ids[i];
    *ret_len = (uint32_t)n;
}

static ProtobufCMessage *fill_reserve(bt_msg_scratch *s, const bt_msg *m)
{
    const bt_msg_reserve *r = &m->u.reserve;
    Bt__Reserve *b = &s->u.reserve;
    *b = (Bt__Reserve)BT__RESERVE__INIT;
    b->ref = &s->ref;
    b->prompt_tokens = r->prompt_tokens;
    b->max_tokens = r->max_tokens;
    b->prefill = bt_msg_body_put16(r->prefill.bytes);
    bt_msg_sampling_put(s, &r->sampling);
    b->sampling = &s->sampling;
    b->n_stop_ids = r->stop_ids_len;
    b->stop_ids = (int32_t *)r->stop_ids;
    b->lease_ms = r->lease_ms;
    b->n_ids = r->ids_len;
    b->ids = (int32_t *)r->ids;
    b->n_generated = r->generated_len;
    b->generated = (int32_t *)r->generated;
    b->is_local = r->is_local;
    b->prefill_key = bt_msg_body_put_key(&r->prefill_key);
    b->prefill_class = r->prefill_class;
    b->salt = bt_msg_body_put_salt(&r->salt);
    return &b->base;
}

static void read_reserve(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__Reserve *b = (const Bt__Reserve *)body;
    bt_msg_reserve *r = &m->u.reserve;
    bt_msg_body_get_ref(c, &m->ref, b->ref);
    r->prompt_tokens = b->prompt_tokens;
    r->max_tokens = b->max_tokens;
    bt_msg_body_get16(c, "prefill", r->prefill.bytes, b->prefill);
    bt_msg_sampling_get(c, &r->sampling, b->sampling);
    get_ids(c, "count of stop_ids", r->stop_ids, &r->stop_ids_len, BT_MSG_MAX_STOP_IDS, b->stop_ids,
            b->n_stop_ids);
    r->lease_ms = b->lease_ms;
    if (!bt_msg_body_range(c, "count of ids", b->n_ids, 1, BT_MSG_MAX_PROMPT_TOKENS) ||
        !bt_msg_body_range(c, "count of generated", b->n_generated, 0, BT_MSG_MAX_PROMPT_TOKENS))
        return;
    r->ids = b->ids; /* stay where protobuf put them, as the prompt of PREFILL does */
    r->ids_len = (uint32_t)b->n_ids;
    r->generated = b->n_generated ? b->generated : NULL;
    r->generated_len = (uint32_t)b->n_generated;
    r->is_local = b->is_local;
    bt_msg_body_get_key(c, "prefill_key", &r->prefill_key, b->prefill_key);
    r->prefill_class = b->prefill_class;
    bt_msg_body_get_salt(c, &r->salt, b->salt);
}

static void check_reserve(bt_msg_checker *c, const bt_msg *m)
{
    const bt_msg_reserve *r = &m->u.reserve;
    bt_msg_body_range(c, "prompt_tokens", r->prompt_tokens, 1, BT_MSG_MAX_PROMPT_TOKENS - 1);
    bt_msg_body_range(c, "max_tokens", r->max_tokens, 1, BT_MSG_MAX_PROMPT_TOKENS - 1);
    bt_msg_body_range(c, "prompt_tokens + max_tokens", (uint64_t)r->prompt_tokens + r->max_tokens, 2,
                      BT_MSG_MAX_PROMPT_TOKENS);
    if (bt_msg_body_range(c, "count of ids", r->ids_len, r->prompt_tokens, r->prompt_tokens))
        bt_msg_body_ids(c, "ids", r->ids, r->ids_len);
    if (bt_msg_body_range(c, "count of generated", r->generated_len, 0, r->max_tokens - 1))
        bt_msg_body_ids(c, "generated", r->generated, r->generated_len);
    if (!r->is_local) bt_msg_body_not_zero(c, "prefill", r->prefill.bytes);
    else if (!bt_incarnation_equal(&r->prefill, &(bt_incarnation){{0}}))
        bt_msg_body_fail(c, "prefill is set in a local reservation");
    if (r->is_local && bt_msg_body_put_key(&r->prefill_key).len)
        bt_msg_body_fail(c, "prefill_key is set in a local reservation");
    bt_msg_sampling_check(c, &r->sampling);
    if (bt_msg_body_range(c, "count of stop_ids", r->stop_ids_len, 0, BT_MSG_MAX_STOP_IDS))
        bt_msg_body_ids(c, "stop_ids", r->stop_ids, r->stop_ids_len);
    bt_msg_body_range(c, "lease_ms", r->lease_ms, 1, BT_MSG_MAX_LEASE_MS);
}

static ProtobufCMessage *fill_reserved(bt_msg_scratch *s, const bt_msg *m)
{
    Bt__Reserved *b = &s->u.reserved;
    *b = (Bt__Reserved)BT__RESERVED__INIT;
    b->ref = &s->ref;
    b->ticket = bt_msg_body_put16(m->u.reserved.ticket.bytes);
    b->kv_endpoint = bt_msg_body_put_text(m->u.reserved.kv_endpoint);
    b->covered_tokens = m->u.reserved.covered_tokens;
    b->prefill = bt_msg_body_put16(m->u.reserved.prefill.bytes);
    return &b->base;
}

static void read_reserved(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__Reserved *b = (const Bt__Reserved *)body;
    bt_msg_reserved *r = &m->u.reserved;
    bt_msg_body_get_ref(c, &m->ref, b->ref);
    bt_msg_body_get16(c, "ticket", r->ticket.bytes, b->ticket);
    bt_msg_body_get_text(c, "kv_endpoint", r->kv_endpoint, sizeof r->kv_endpoint, b->kv_endpoint);
    r->covered_tokens = b->covered_tokens;
    bt_msg_body_get16(c, "prefill", r->prefill.bytes, b->prefill);
}

static void check_reserved(bt_msg_checker *c, const bt_msg *m)
{
    const bt_msg_reserved *r = &m->u.reserved;
    bt_msg_body_not_zero(c, "ticket", r->ticket.bytes);
    bt_msg_body_name(c, "kv_endpoint", r->kv_endpoint, sizeof r->kv_endpoint);
    bt_msg_body_range(c, "covered_tokens", r->covered_tokens, 0, BT_MSG_MAX_PROMPT_TOKENS);
}

static ProtobufCMessage *fill_refused(bt_msg_scratch *s, const bt_msg *m)
{
    Bt__Refused *b = &s->u.refused;
    *b = (Bt__Refused)BT__REFUSED__INIT;
    b->ref = &s->ref;
    b->of = m->u.refused.of;
    b->code = m->u.refused.code;
    b->retry_after_ms = m->u.refused.retry_after_ms;
    b->text = bt_msg_body_put_text(m->u.refused.text);
    return &b->base;
}

static void read_refused(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__Refused *b = (const Bt__Refused *)body;
    bt_msg_refused *r = &m->u.refused;
    bt_msg_body_get_ref(c, &m->ref, b->ref);
    r->of = (bt_msg_type)b->of;
    r->code = b->code;
    r->retry_after_ms = b->retry_after_ms;
    bt_msg_body_get_text(c, "text", r->text, sizeof r->text, b->text);
}

static void check_refused(bt_msg_checker *c, const bt_msg *m)
{
    const bt_msg_refused *r = &m->u.refused;
    if (r->of != BT_MSG_RESERVE && r->of != BT_MSG_PREFILL)
        bt_msg_body_fail(c, "of is %u, must be RESERVE or PREFILL", (unsigned)r->of);
    bt_msg_body_code(c, r->code);
    bt_msg_body_text(c, "text", r->text, sizeof r->text);
}

static ProtobufCMessage *fill_prefill(bt_msg_scratch *s, const bt_msg *m)
{
    const bt_msg_prefill *p = &m->u.prefill;
    Bt__Prefill *b = &s->u.prefill;
    *b = (Bt__Prefill)BT__PREFILL__INIT;
    b->ref = &s->ref;
    b->n_ids = p->ids_len;
    b->ids = (int32_t *)p->ids;
    b->decode = bt_msg_body_put16(p->decode.bytes);
    b->kv_endpoint = bt_msg_body_put_text(p->kv_endpoint);
    b->ticket = bt_msg_body_put16(p->ticket.bytes);
    bt_msg_sampling_put(s, &p->sampling);
    b->sampling = &s->sampling;
    b->lease_ms = p->lease_ms;
    b->decode_key = bt_msg_body_put_key(&p->decode_key);
    b->covered_tokens = p->covered_tokens;
    b->salt = bt_msg_body_put_salt(&p->salt);
    return &b->base;
}

static void read_prefill(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__Prefill *b = (const Bt__Prefill *)body;
    bt_msg_prefill *p = &m->u.prefill;
    bt_msg_body_get_ref(c, &m->ref, b->ref);
    if (!bt_msg_body_range(c, "count of ids", b->n_ids, 1, BT_MSG_MAX_PROMPT_TOKENS)) return;
    p->ids = b->ids; /* stay where protobuf put them: in the memory of the message */
    p->ids_len = (uint32_t)b->n_ids;
    bt_msg_body_get16(c, "decode", p->decode.bytes, b->decode);
    bt_msg_body_get_text(c, "kv_endpoint", p->kv_endpoint, sizeof p->kv_endpoint, b->kv_endpoint);
    bt_msg_body_get16(c, "ticket", p->ticket.bytes, b->ticket);
    bt_msg_sampling_get(c, &p->sampling, b->sampling);
    p->lease_ms = b->lease_ms;
    bt_msg_body_get_key(c, "decode_key", &p->decode_key, b->decode_key);
    p->covered_tokens = b->covered_tokens;
    bt_msg_body_get_salt(c, &p->salt, b->salt);
}

static void check_prefill(bt_msg_checker *c, const bt_msg *m)
{
    const bt_msg_prefill *p = &m->u.prefill;
    if (bt_msg_body_range(c, "count of ids", p->ids_len, 1, BT_MSG_MAX_PROMPT_TOKENS))
        bt_msg_body_ids(c, "ids", p->ids, p->ids_len);
    bt_msg_body_not_zero(c, "decode", p->decode.bytes);
    bt_msg_body_name(c, "kv_endpoint", p->kv_endpoint, sizeof p->kv_endpoint);
    bt_msg_body_not_zero(c, "ticket", p->ticket.bytes);
    bt_msg_sampling_check(c, &p->sampling);
    bt_msg_body_range(c, "lease_ms", p->lease_ms, 1, BT_MSG_MAX_LEASE_MS);
    bt_msg_body_range(c, "covered_tokens", p->covered_tokens, 0, p->ids_len);
    if (p->covered_tokens % BT_KV_UNIT_TOKENS && p->covered_tokens != p->ids_len)
        bt_msg_body_fail(c, "covered_tokens is %u, must be a multiple of %d or the prompt's %u",
                         p->covered_tokens, BT_KV_UNIT_TOKENS, p->ids_len);
}

static void put_chunks(bt_msg_scratch *s, Bt__FirstToken *b, const bt_msg_chunks *c)
{
    b->n_chunks = c->len;
    b->chunks = s->chunk_at;
    for (uint32_t i = 0; i < c->len; i++) {
        s->chunk[i] = (Bt__Chunk)BT__CHUNK__INIT;
        s->chunk[i].tokens = c->at[i].tokens;
        s->chunk[i].begin_us = c->at[i].begin_us;
        s->chunk[i].end_us = c->at[i].end_us;
        s->chunk[i].chunks = c->at[i].chunks;
        s->chunk_at[i] = &s->chunk[i];
    }
}

static void get_chunks(bt_msg_checker *c, bt_msg_chunks *ret, const Bt__FirstToken *b)
{
    if (!bt_msg_body_range(c, "count of chunks", b->n_chunks, 0, BT_MSG_MAX_CHUNKS)) return;
    ret->len = (uint32_t)b->n_chunks;
    for (uint32_t i = 0; i < ret->len; i++) {
        ret->at[i].tokens = b->chunks[i]->tokens;
        ret->at[i].begin_us = b->chunks[i]->begin_us;
        ret->at[i].end_us = b->chunks[i]->end_us;
        ret->at[i].chunks = b->chunks[i]->chunks;
    }
}

static void check_chunks(bt_msg_checker *c, const bt_msg_chunks *k)
{
    if (!bt_msg_body_range(c, "count of chunks", k->len, 0, BT_MSG_MAX_CHUNKS)) return;
    for (uint32_t i = 0; i < k->len; i++) {
        bt_msg_body_range(c, "chunks.tokens", k->at[i].tokens, 1, BT_MSG_MAX_PROMPT_TOKENS);
        bt_msg_body_range(c, "chunks.begin_us", k->at[i].begin_us, i ? k->at[i - 1].begin_us : 0, UINT32_MAX);
        bt_msg_body_range(c, "chunks.end_us", k->at[i].end_us, k->at[i].begin_us, UINT32_MAX);
        bt_msg_body_range(c, "chunks.chunks", k->at[i].chunks, 1,
                          i + 1 < k->len ? 1 : BT_MSG_MAX_PROMPT_TOKENS);
    }
}

static ProtobufCMessage *fill_first_token(bt_msg_scratch *s, const bt_msg *m)
{
    const bt_msg_first_token *t = &m->u.first_token;
    Bt__FirstToken *b = &s->u.first_token;
    *b = (Bt__FirstToken)BT__FIRST_TOKEN__INIT;
    b->ref = &s->ref;
    b->token = t->token;
    b->n_top_ids = b->n_top_logits = t->top_len;
    b->top_ids = (int32_t *)t->top_ids;
    b->top_logits = (float *)t->top_logits;
    b->queue_us = t->queue_us;
    b->prefill_us = t->prefill_us;
    b->rows = t->work.rows;
    b->npu_macs = t->work.npu_macs;
    b->companion_macs = t->work.companion_macs;
    b->shadow_entries = t->work.shadow_entries;
    b->compilations = t->work.compilations;
    b->masked_macs = t->work.masked_macs;
    b->session_switches = t->work.session_switches;
    b->session_switch_ns = t->work.session_switch_ns;
    b->tile_padding_macs = t->work.tile_padding_macs;
    b->npu_int16_macs = t->work.npu_int16_macs;
    b->npu_float_macs = t->work.npu_float_macs;
    b->expert_rows = t->work.expert_rows;
    b->expert_padding_rows = t->work.expert_padding_rows;
    b->cached_tokens = t->cached_tokens;
    if (t->device.ns) {
        bt_msg_device_put_work(s, &t->device);
        bt_msg_device_put_prompt(s, &t->device_prompt);
        b->device = &s->device_work;
        b->device_prompt = &s->device_prompt;
    }
    put_chunks(s, b, &t->chunks);
    if (t->has_logprob) {
        bt_msg_sampling_put_logprob(&s->logprob, &t->logprob);
        b->logprob = &s->logprob;
    }
    return &b->base;
}

static void read_first_token(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__FirstToken *b = (const Bt__FirstToken *)body;
    bt_msg_first_token *t = &m->u.first_token;
    bt_msg_body_get_ref(c, &m->ref, b->ref);
    t->token = b->token;
    get_ids(c, "count of top_ids", t->top_ids, &t->top_len, BT_MSG_TOP_LOGITS, b->top_ids, b->n_top_ids);
    if (!bt_msg_body_range(c, "count of top_logits", b->n_top_logits, t->top_len, t->top_len)) return;
    for (size_t i = 0; i < b->n_top_logits; i++) t->top_logits[i] = b->top_logits[i];
    t->queue_us = b->queue_us;
    t->prefill_us = b->prefill_us;
    t->work = (bt_msg_work){b->rows,
                            b->npu_macs,
                            b->companion_macs,
                            b->shadow_entries,
                            b->compilations,
                            b->masked_macs,
                            b->session_switches,
                            b->session_switch_ns,
                            b->tile_padding_macs,
                            b->npu_int16_macs,
                            b->npu_float_macs,
                            b->expert_rows,
                            b->expert_padding_rows};
    t->cached_tokens = b->cached_tokens;
    bt_msg_device_get_work(&t->device, b->device);
    bt_msg_device_get_prompt(c, &t->device_prompt, b->device_prompt);
    get_chunks(c, &t->chunks, b);
    t->has_logprob = b->logprob != NULL;
    if (b->logprob) bt_msg_sampling_get_logprob(c, &t->logprob, b->logprob);
}

static void check_first_token(bt_msg_checker *c, const bt_msg *m)
{
    const bt_msg_first_token *t = &m->u.first_token;
    bt_msg_body_ids(c, "token", &t->token, 1);
    if (!bt_msg_body_range(c, "count of top_ids", t->top_len, 0, BT_MSG_TOP_LOGITS)) return;
    bt_msg_body_ids(c, "top_ids", t->top_ids, t->top_len);
    for (size_t i = 0; i < t->top_len; i++) {
        const float v = t->top_logits[i];
        if (!(v >= -FLT_MAX && v <= FLT_MAX) || (i > 0 && v > t->top_logits[i - 1]))
            bt_msg_body_fail(c, "top_logits[%zu] is %g: must be finite and never rise", i, (double)v);
    }
    bt_msg_body_range(c, "cached_tokens", t->cached_tokens, 0, BT_MSG_MAX_PROMPT_TOKENS - 1);
    bt_msg_body_range(c, "npu_int16_macs", t->work.npu_int16_macs, 0, t->work.npu_macs);
    bt_msg_body_range(c, "npu_float_macs", t->work.npu_float_macs, 0,
                      t->work.npu_macs - t->work.npu_int16_macs);
    bt_msg_device_check_work(c, &t->device);
    bt_msg_device_check_prompt(c, &t->device_prompt);
    check_chunks(c, &t->chunks);
    if (t->has_logprob) bt_msg_sampling_check_logprob(c, &t->logprob);
}

static ProtobufCMessage *fill_prefill_done(bt_msg_scratch *s, const bt_msg *m)
{
    const bt_msg_prefill_done *d = &m->u.prefill_done;
    Bt__PrefillDone *b = &s->u.prefill_done;
    *b = (Bt__PrefillDone)BT__PREFILL_DONE__INIT;
    b->ref = &s->ref;
    b->kv_bytes = d->kv_bytes;
    b->kv_blocks = d->kv_blocks;
    b->exposed_us = d->exposed_us;
    b->transfer_us = d->transfer_us;
    b->kv_digest = bt_msg_body_put16(d->kv_digest.bytes);
    return &b->base;
}

static void read_prefill_done(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__PrefillDone *b = (const Bt__PrefillDone *)body;
    bt_msg_prefill_done *d = &m->u.prefill_done;
    bt_msg_body_get_ref(c, &m->ref, b->ref);
    d->kv_bytes = b->kv_bytes;
    d->kv_blocks = b->kv_blocks;
    d->exposed_us = b->exposed_us;
    d->transfer_us = b->transfer_us;
    bt_msg_body_get16(c, "kv_digest", d->kv_digest.bytes, b->kv_digest);
}

static ProtobufCMessage *fill_ack(bt_msg_scratch *s, const bt_msg *m)
{
    s->u.ack = (Bt__Ack)BT__ACK__INIT;
    s->u.ack.ref = &s->ref;
    s->u.ack.of = m->u.ack.of;
    return &s->u.ack.base;
}

static void read_ack(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    bt_msg_body_get_ref(c, &m->ref, ((const Bt__Ack *)body)->ref);
    m->u.ack.of = (bt_msg_type)((const Bt__Ack *)body)->of;
}

static void check_ack(bt_msg_checker *c, const bt_msg *m)
{
    const bt_msg_type of = m->u.ack.of;
    if (of != BT_MSG_FIRST_TOKEN && of != BT_MSG_PREFILL_DONE && of != BT_MSG_FAILED)
        bt_msg_body_fail(c, "of is %u, must be FIRST_TOKEN, PREFILL_DONE or FAILED", (unsigned)of);
}

static ProtobufCMessage *fill_renew(bt_msg_scratch *s, const bt_msg *m)
{
    s->u.renew = (Bt__Renew)BT__RENEW__INIT;
    s->u.renew.ref = &s->ref;
    s->u.renew.lease_ms = m->u.renew.lease_ms;
    return &s->u.renew.base;
}

static void read_renew(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    bt_msg_body_get_ref(c, &m->ref, ((const Bt__Renew *)body)->ref);
    m->u.renew.lease_ms = ((const Bt__Renew *)body)->lease_ms;
}

static void check_renew(bt_msg_checker *c, const bt_msg *m)
{
    bt_msg_body_range(c, "lease_ms", m->u.renew.lease_ms, 1, BT_MSG_MAX_LEASE_MS);
}

static ProtobufCMessage *fill_tokens(bt_msg_scratch *s, const bt_msg *m)
{
    Bt__Tokens *b = &s->u.tokens;
    *b = (Bt__Tokens)BT__TOKENS__INIT;
    b->ref = &s->ref;
    b->first_index = m->u.tokens.first_index;
    b->n_ids = m->u.tokens.ids_len;
    b->ids = (int32_t *)m->u.tokens.ids;
    if (m->u.tokens.logprobs) bt_msg_sampling_put_logprobs(b, s, &m->u.tokens);
    if (m->u.tokens.device.ns) {
        bt_msg_device_put_work(s, &m->u.tokens.device);
        b->device = &s->device_work;
    }
    return &b->base;
}

static void read_tokens(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__Tokens *b = (const Bt__Tokens *)body;
    bt_msg_body_get_ref(c, &m->ref, b->ref);
    if (!bt_msg_body_range(c, "count of ids", b->n_ids, 1, BT_MSG_MAX_TOKENS_IDS)) return;
    m->u.tokens.first_index = b->first_index;
    m->u.tokens.ids = b->ids;
    m->u.tokens.ids_len = (uint32_t)b->n_ids;
    bt_msg_device_get_work(&m->u.tokens.device, b->device);
    bt_msg_sampling_get_logprobs(c, &m->u.tokens, b);
}

static void check_tokens(bt_msg_checker *c, const bt_msg *m)
{
    const bt_msg_tokens *t = &m->u.tokens;
    const uint32_t most = t->logprobs ? BT_MSG_MAX_TOKENS_LOGPROBS : BT_MSG_MAX_TOKENS_IDS;
    if (!bt_msg_body_range(c, "count of ids", t->ids_len, 1, most)) return;
    bt_msg_body_ids(c, "ids", t->ids, t->ids_len);
    for (uint32_t i = 0; t->logprobs && i < t->ids_len; i++)
        bt_msg_sampling_check_logprob(c, &t->logprobs[i]);
    bt_msg_device_check_work(c, &t->device);
    bt_msg_body_range(c, "first_index", t->first_index, 1, BT_MSG_MAX_PROMPT_TOKENS - 1);
    bt_msg_body_range(c, "first_index + count of ids", (uint64_t)t->first_index + t->ids_len, 2,
                      BT_MSG_MAX_PROMPT_TOKENS);
}

static ProtobufCMessage *fill_tokens_ack(bt_msg_scratch *s, const bt_msg *m)
{
    s->u.tokens_ack = (Bt__TokensAck)BT__TOKENS_ACK__INIT;
    s->u.tokens_ack.ref = &s->ref;
    s->u.tokens_ack.next_index = m->u.tokens_ack.next_index;
    return &s->u.tokens_ack.base;
}

static void read_tokens_ack(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    bt_msg_body_get_ref(c, &m->ref, ((const Bt__TokensAck *)body)->ref);
    m->u.tokens_ack.next_index = ((const Bt__TokensAck *)body)->next_index;
}

static void check_tokens_ack(bt_msg_checker *c, const bt_msg *m)
{
    bt_msg_body_range(c, "next_index", m->u.tokens_ack.next_index, 0, BT_MSG_MAX_PROMPT_TOKENS);
}

static ProtobufCMessage *fill_finished(bt_msg_scratch *s, const bt_msg *m)
{
    const bt_msg_finished *f = &m->u.finished;
    Bt__Finished *b = &s->u.finished;
    *b = (Bt__Finished)BT__FINISHED__INIT;
    b->ref = &s->ref;
    b->reason = (Bt__Finish)f->reason;
    b->completion_tokens = f->completion_tokens;
    b->wait_us = f->wait_us;
    b->decode_us = f->decode_us;
    b->decode_steps = f->decode_steps;
    return &b->base;
}

static void read_finished(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__Finished *b = (const Bt__Finished *)body;
    bt_msg_body_get_ref(c, &m->ref, b->ref);
    m->u.finished.reason = (bt_finish)b->reason;
    m->u.finished.completion_tokens = b->completion_tokens;
    m->u.finished.wait_us = b->wait_us;
    m->u.finished.decode_us = b->decode_us;
    m->u.finished.decode_steps = b->decode_steps;
}

static void check_finished(bt_msg_checker *c, const bt_msg *m)
{
    bt_msg_body_range(c, "reason", m->u.finished.reason, BT_FINISH_STOP, BT_FINISH_ERROR);
    bt_msg_body_range(c, "completion_tokens", m->u.finished.completion_tokens, 0, BT_MSG_MAX_PROMPT_TOKENS);
}

const bt_msg_kind bt_msg_infer_kinds[BT_MSG_INFER_KINDS] = {
    {BT_MSG_RESERVE, "RESERVE", BT_MSG_MAX_BODY_BYTES, true, &bt__reserve__descriptor, fill_reserve,
     read_reserve, check_reserve},
    {BT_MSG_RESERVED, "RESERVED", BT_MSG_SMALL_BODY_BYTES, true, &bt__reserved__descriptor, fill_reserved,
     read_reserved, check_reserved},
    {BT_MSG_REFUSED, "REFUSED", BT_MSG_SMALL_BODY_BYTES, true, &bt__refused__descriptor, fill_refused,
     read_refused, check_refused},
    {BT_MSG_PREFILL, "PREFILL", BT_MSG_MAX_BODY_BYTES, true, &bt__prefill__descriptor, fill_prefill,
     read_prefill, check_prefill},
    {BT_MSG_PREFILL_ACCEPTED, "PREFILL_ACCEPTED", BT_MSG_SMALL_BODY_BYTES, true,
     &bt__request_only__descriptor, bt_msg_body_fill_only, bt_msg_body_read_only, NULL},
    {BT_MSG_FIRST_TOKEN, "FIRST_TOKEN", BT_MSG_SMALL_BODY_BYTES, true, &bt__first_token__descriptor,
     fill_first_token, read_first_token, check_first_token},
    {BT_MSG_PREFILL_DONE, "PREFILL_DONE", BT_MSG_SMALL_BODY_BYTES, true, &bt__prefill_done__descriptor,
     fill_prefill_done, read_prefill_done, NULL},
    {BT_MSG_FAILED, "FAILED", BT_MSG_SMALL_BODY_BYTES, true, &bt__failed__descriptor, bt_msg_body_fill_failed,
     bt_msg_body_read_failed, bt_msg_body_check_failed},
    {BT_MSG_ACK, "ACK", BT_MSG_SMALL_BODY_BYTES, true, &bt__ack__descriptor, fill_ack, read_ack, check_ack},
    {BT_MSG_ABORT, "ABORT", BT_MSG_SMALL_BODY_BYTES, true, &bt__request_only__descriptor,
     bt_msg_body_fill_only, bt_msg_body_read_only, NULL},
    {BT_MSG_ABORT_ACK, "ABORT_ACK", BT_MSG_SMALL_BODY_BYTES, true, &bt__request_only__descriptor,
     bt_msg_body_fill_only, bt_msg_body_read_only, NULL},
    {BT_MSG_RENEW, "RENEW", BT_MSG_SMALL_BODY_BYTES, true, &bt__renew__descriptor, fill_renew, read_renew,
     check_renew},
    {BT_MSG_WAITS, "WAITS", BT_MSG_SMALL_BODY_BYTES, true, &bt__request_only__descriptor,
     bt_msg_body_fill_only, bt_msg_body_read_only, NULL},
    {BT_MSG_TOKENS, "TOKENS", BT_MSG_TOKENS_BODY_BYTES, true, &bt__tokens__descriptor, fill_tokens,
     read_tokens, check_tokens},
    {BT_MSG_TOKENS_ACK, "TOKENS_ACK", BT_MSG_SMALL_BODY_BYTES, true, &bt__tokens_ack__descriptor,
     fill_tokens_ack, read_tokens_ack, check_tokens_ack},
    {BT_MSG_FINISHED, "FINISHED", BT_MSG_SMALL_BODY_BYTES, true, &bt__finished__descriptor, fill_finished,
     read_finished, check_finished},
    {BT_MSG_FINISHED_ACK, "FINISHED_ACK", BT_MSG_SMALL_BODY_BYTES, true, &bt__request_only__descriptor,
     bt_msg_body_fill_only, bt_msg_body_read_only, NULL},
};
