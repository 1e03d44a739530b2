/* The messages of the KV transfer: fields to and from proto/kv.proto, and their ranges. */
#include "wire/msg_body.h"

#include "kv/kv_header.h"

static ProtobufCMessage *fill_commit(bt_msg_scratch *s, const bt_msg *m)
{
    const bt_msg_commit *k = &m->u.commit;
    Bt__Commit *b = &s->u.commit;
    *b = (Bt__Commit)BT__COMMIT__INIT;
    b->ref = &s->ref;
    b->ticket = bt_msg_body_put16(k->ticket.bytes);
    b->prompt_tokens = k->prompt_tokens;
    b->first_token = k->first_token;
    b->kv_bytes = k->kv_bytes;
    return &b->base;
}

static void read_commit(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__Commit *b = (const Bt__Commit *)body;
    bt_msg_commit *k = &m->u.commit;
    bt_msg_body_get_ref(c, &m->ref, b->ref);
    bt_msg_body_get16(c, "ticket", k->ticket.bytes, b->ticket);
    k->prompt_tokens = b->prompt_tokens;
    k->first_token = b->first_token;
    k->kv_bytes = b->kv_bytes;
}

static void check_commit(bt_msg_checker *c, const bt_msg *m)
{
    const bt_msg_commit *k = &m->u.commit;
    bt_msg_body_not_zero(c, "ticket", k->ticket.bytes);
    bt_msg_body_range(c, "prompt_tokens", k->prompt_tokens, 1, BT_MSG_MAX_PROMPT_TOKENS);
    bt_msg_body_ids(c, "first_token", &k->first_token, 1);
}

static ProtobufCMessage *fill_missing(bt_msg_scratch *s, const bt_msg *m)
{
    Bt__Missing *b = &s->u.missing;
    *b = (Bt__Missing)BT__MISSING__INIT;
    b->ref = &s->ref;
    for (size_t i = 0; i < m->u.missing.ranges_len; i++) {
        const bt_kv_range *r = &m->u.missing.ranges[i];
        s->range[i] = (Bt__KvRange)BT__KV_RANGE__INIT;
        s->range[i].layer = r->layer;
        s->range[i].token_begin = r->token_begin;
        s->range[i].token_count = r->token_count;
        s->range_at[i] = &s->range[i];
    }
    b->n_ranges = m->u.missing.ranges_len;
    b->ranges = s->range_at;
    return &b->base;
}

static void read_missing(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__Missing *b = (const Bt__Missing *)body;
    bt_msg_body_get_ref(c, &m->ref, b->ref);
    if (!bt_msg_body_range(c, "count of ranges", b->n_ranges, 1, BT_MSG_MAX_RANGES)) return;
    bt_kv_range *to = c->alloc(c->alloc_ud, b->n_ranges * sizeof *to);
    if (!to) {
        bt_msg_body_fail(c, "too many parts");
        return;
    }
    for (size_t i = 0; i < b->n_ranges; i++)
        to[i] = (bt_kv_range){b->ranges[i]->layer, b->ranges[i]->token_begin, b->ranges[i]->token_count};
    m->u.missing.ranges = to;
    m->u.missing.ranges_len = (uint32_t)b->n_ranges;
}

static void check_missing(bt_msg_checker *c, const bt_msg *m)
{
    if (!bt_msg_body_range(c, "count of ranges", m->u.missing.ranges_len, 1, BT_MSG_MAX_RANGES)) return;
    for (size_t i = 0; i < m->u.missing.ranges_len; i++) {
        const bt_kv_range *r = &m->u.missing.ranges[i];
        bt_msg_body_range(c, "layer", r->layer, 0, BT_KV_MAX_LAYERS - 1);
        bt_msg_body_range(c, "token_count", r->token_count, 1, BT_KV_MAX_TOKENS);
        bt_msg_body_range(c, "token_begin + token_count", (uint64_t)r->token_begin + r->token_count, 1,
                          BT_KV_MAX_TOKENS);
        if (r->token_begin % BT_KV_UNIT_TOKENS)
            bt_msg_body_fail(c, "token_begin is %u, must be a multiple of %d", r->token_begin,
                             BT_KV_UNIT_TOKENS);
    }
}

static ProtobufCMessage *fill_credit(bt_msg_scratch *s, const bt_msg *m)
{
    s->u.credit = (Bt__Credit)BT__CREDIT__INIT;
    s->u.credit.link_epoch = m->u.credit.link_epoch;
    s->u.credit.total_bytes = m->u.credit.total_bytes;
    return &s->u.credit.base;
}

static void read_credit(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    (void)c;
    const Bt__Credit *b = (const Bt__Credit *)body;
    m->u.credit.link_epoch = b->link_epoch;
    m->u.credit.total_bytes = b->total_bytes;
}

const bt_msg_kind bt_msg_kv_kinds[BT_MSG_KV_KINDS] = {
    {BT_MSG_COMMIT, "COMMIT", BT_MSG_SMALL_BODY_BYTES, true, &bt__commit__descriptor, fill_commit,
     read_commit, check_commit},
    {BT_MSG_COMMITTED, "COMMITTED", BT_MSG_SMALL_BODY_BYTES, true, &bt__request_only__descriptor,
     bt_msg_body_fill_only, bt_msg_body_read_only, NULL},
    {BT_MSG_MISSING, "MISSING", BT_MSG_MISSING_BODY_BYTES, true, &bt__missing__descriptor, fill_missing,
     read_missing, check_missing},
    {BT_MSG_CREDIT, "CREDIT", BT_MSG_SMALL_BODY_BYTES, false, &bt__credit__descriptor, fill_credit,
     read_credit, NULL},
    {BT_MSG_TRANSFER_REFUSED, "TRANSFER_REFUSED", BT_MSG_SMALL_BODY_BYTES, true, &bt__failed__descriptor,
     bt_msg_body_fill_failed, bt_msg_body_read_failed, bt_msg_body_check_failed},
};
