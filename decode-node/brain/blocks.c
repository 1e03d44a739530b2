/* The decode brain's bulk links: greeting, credit, which block is placed, Commit and its answers. */
#include "decode-node/brain/brain_inner.h"
#include "base/breakage.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

enum { BLOCKS_A_WINDOW = 8, TYPICAL_BLOCK_TOKENS = 256 };

static bt_msg *to_peer(dc_brain *b, const bt_incarnation *peer, bt_msg_type type)
{
    dc_action *a = dc_act(b, DC_DO_SEND_BULK);
    a->u.bulk.peer = *peer;
    bt_msg *m = &a->u.bulk.msg;
    bt_msg_begin(m, type);
    m->from = b->cfg.self;
    m->to = *peer;
    return m;
}

static dc_link *link_of(dc_brain *b, const bt_incarnation *peer)
{
    const int64_t at = bt_order_from(&b->peers, 0, bt_incarnation_key(peer));
    return at >= 0 && bt_incarnation_equal(&b->links[at].peer, peer) ? &b->links[at] : NULL;
}

static void say_reject(dc_brain *b, const bt_incarnation *peer, bt_err code, const char *text)
{
    bt_msg *m = to_peer(b, peer, BT_MSG_REJECT);
    m->u.reject.code = code;
    snprintf(m->u.reject.text, sizeof m->u.reject.text, "%s", text);
}

static void open_link(dc_brain *b, dc_link *l, const bt_msg *m)
{
    const bt_msg_hello *h = &m->u.hello;
    const uint64_t least = bt_xfer_block_bytes(&b->cfg.hello.kv, TYPICAL_BLOCK_TOKENS) * BLOCKS_A_WINDOW;
    *l = (dc_link){.in_use = true,        .peer = m->from,
                   .epoch = ++b->epochs,  .peer_epoch = h->link_epoch,
                   .heard_us = b->now_us, .class = bt_hash64(h->exactness, strlen(h->exactness))};
    bt_order_put(&b->peers, 0, (uint32_t)(l - b->links), bt_incarnation_key(&l->peer));
    bt_xfer_grant_open(&l->grant, b->cfg.window_bytes > least ? b->cfg.window_bytes : least);
}

/* "", or ", a window of 512, global every 6". */
static const char *window_words(char ret[static 48], const bt_kv_shape *kv)
{
    ret[0] = 0;
    if (kv->window) snprintf(ret, 48, ", a window of %u, global every %u", kv->window, kv->global_every);
    return ret;
}

static void on_bulk_hello(dc_brain *b, const bt_msg *m)
{
    const bt_msg_hello *h = &m->u.hello, *own = &b->cfg.hello;
    if (h->protocol != BT_PROTOCOL_VERSION || h->role != BT_ROLE_PREFILL) {
        say_reject(b, &m->from, BT_EVERSION, "only prefill nodes of this protocol version may send KV here");
        return;
    }
    if (memcmp(h->model_id, own->model_id, sizeof own->model_id) != 0 ||
        memcmp(&h->kv, &own->kv, sizeof own->kv) != 0) {
        char text[BT_MSG_MAX_TEXT_BYTES + 1];
        char windows[2][48];
        snprintf(text, sizeof text,
                 "model %02x%02x%02x%02x.. with %ux%ux%u KV of %s%s, but this node has %02x%02x%02x%02x.. "
                 "with %ux%ux%u of %s%s",
                 h->model_id[0], h->model_id[1], h->model_id[2], h->model_id[3], h->kv.layers, h->kv.kv_heads,
                 h->kv.head_dim, bt_kv_dtype_name(h->kv.dtype), window_words(windows[0], &h->kv),
                 own->model_id[0], own->model_id[1], own->model_id[2], own->model_id[3], own->kv.layers,
                 own->kv.kv_heads, own->kv.head_dim, bt_kv_dtype_name(own->kv.dtype),
                 window_words(windows[1], &own->kv));
        say_reject(b, &m->from, BT_EFORMAT, text);
        return;
    }
    dc_link *l = link_of(b, &m->from);
    for (uint32_t i = 0; !l && i < b->cfg.links_max; i++)
        if (!b->links[i].in_use) l = &b->links[i];
    if (!l) { /* the table is full: the link idle longest makes room */
        l = &b->links[0];
        for (uint32_t i = 1; i < b->cfg.links_max; i++)
            if (b->links[i].heard_us < l->heard_us) l = &b->links[i];
    }
    if (l->in_use && bt_incarnation_equal(&l->peer, &m->from) && h->link_epoch < l->peer_epoch) {
        b->n.repeats++; /* a late one: its sender has begun another epoch */
        return;
    }
    if (!l->in_use || !bt_incarnation_equal(&l->peer, &m->from) || h->link_epoch > l->peer_epoch)
        open_link(b, l, m);
    bt_msg *w = to_peer(b, &m->from, BT_MSG_WELCOME);
    w->u.welcome.protocol = BT_PROTOCOL_VERSION;
    memcpy(w->u.welcome.node_id, own->node_id, sizeof w->u.welcome.node_id);
    w->u.welcome.link_epoch = l->peer_epoch;
    w->u.welcome.credit_bytes = l->grant.granted_bytes;
}

static void refuse_transfer(dc_brain *b, const bt_incarnation *peer, const bt_request_ref *ref, bt_err code,
                            const char *text)
{
    bt_msg *m = to_peer(b, peer, BT_MSG_TRANSFER_REFUSED);
    m->ref = *ref;
    m->u.failed.code = code;
    snprintf(m->u.failed.text, sizeof m->u.failed.text, "%s", text);
}

static void refuse_unknown(dc_brain *b, const bt_incarnation *peer, const bt_request_ref *ref)
{
    refuse_transfer(b, peer, ref, BT_ECANCEL, "no such reservation here (any more)");
}

/* Every block was sent and none is being copied: start, or name what is missing. */
static void answer_commit(dc_brain *b, dc_record *r)
{
    static const char other_class[] =
        "the prefill node computes by another rule than this reservation is for";
    const dc_link *l = link_of(b, &r->wish.prefill);
    if (l && l->class != r->class) {
        refuse_transfer(b, &r->wish.prefill, &r->a->ref, BT_EFORMAT, other_class);
        dc_attempt_fail(b, r, BT_EFORMAT, other_class);
    } else if (!bt_xfer_recv_is_complete(&r->recv) && !BT_BREAK(commit_without_check)) {
        bt_msg *m = to_peer(b, &r->wish.prefill, BT_MSG_MISSING);
        m->ref = r->a->ref;
        m->u.missing.ranges = b->missing;
        m->u.missing.ranges_len = (uint32_t)bt_kv_cover_missing(r->recv.cover, b->missing, BT_MSG_MAX_RANGES);
    } else if (dc_attempt_start(b, r)) {
        to_peer(b, &r->wish.prefill, BT_MSG_COMMITTED)->ref = r->a->ref;
    } else {
        refuse_unknown(b, &r->wish.prefill, &r->a->ref);
    }
}

static bool may_send(const dc_record *r, const bt_incarnation *from, const bt_peer_key *from_key,
                     const bt_ticket *ticket)
{
    if (BT_BREAK(ticket_ignored)) return true;
    uint8_t diff = 0; /* no early exit: time must not tell how much of a guess was right */
    for (size_t i = 0; i < sizeof ticket->bytes; i++)
        diff |= (uint8_t)(r->ticket.bytes[i] ^ ticket->bytes[i]);
    return diff == 0 && bt_incarnation_equal(&r->wish.prefill, from) &&
           !memcmp(&r->wish.prefill_key, from_key, sizeof *from_key);
}

static void on_commit(dc_brain *b, const bt_msg *m)
{
    const bt_msg_commit *c = &m->u.commit;
    dc_record *r = dc_find(b, &m->ref);
    if (!r || r->a->ref.attempt != m->ref.attempt || !may_send(r, &m->from, &m->from_key, &c->ticket) ||
        c->prompt_tokens != r->wish.prompt_tokens || r->wish.is_local || r->a->state == DC_WAITING ||
        r->a->state == BT_ATTEMPT_STOPPING || r->is_failed) {
        refuse_unknown(b, &m->from, &m->ref);
        return;
    }
    if (r->a->state != DC_RESERVED) {
        b->n.repeats++;
        to_peer(b, &m->from, BT_MSG_COMMITTED)->ref = r->a->ref;
        return;
    }
    r->owes_reserved = false;
    r->commit_token = c->first_token;
    r->recv.commit_waits = r->recv.placing;
    if (!r->recv.placing) answer_commit(b, r);
}

void dc_blocks_msg(dc_brain *b, const bt_msg *m)
{
    if (m->type == BT_MSG_HELLO) {
        on_bulk_hello(b, m);
        return;
    }
    dc_link *l = link_of(b, &m->from);
    if (l) l->heard_us = b->now_us;
    if (!bt_incarnation_equal(&m->to, &b->cfg.self) || !l) {
        b->n.wrong_incarnation++;
        if (m->type != BT_MSG_REJECT) say_reject(b, &m->from, BT_EAGAIN, "send HELLO first");
        return;
    }
    if (m->type == BT_MSG_COMMIT && m->ref.attempt != 0) on_commit(b, m);
    else b->n.unexpected++;
}

static void tell_credit(dc_brain *b, dc_link *l)
{
    const uint64_t total = bt_xfer_grant_due(&l->grant);
    if (total)
        to_peer(b, &l->peer, BT_MSG_CREDIT)->u.credit =
            (bt_msg_credit){.link_epoch = l->peer_epoch, .total_bytes = total};
}

void dc_blocks_block(dc_brain *b, const dc_block *in)
{
    dc_link *l = link_of(b, &in->from);
    dc_record *r = dc_find(b, &in->ref);
    bt_kv_range range = {in->layer, in->token_begin, in->token_count};
    dc_drop_reason why = 0;
    if (!l) why = DC_DROP_TICKET;
    else if (!r || (r->a->ref.attempt != in->ref.attempt && !BT_BREAK(late_block_accepted)) ||
             r->a->state != DC_RESERVED)
        why = DC_DROP_UNKNOWN;
    else if (!may_send(r, &in->from, &in->from_key, &in->ticket) && !BT_BREAK(late_block_accepted))
        why = DC_DROP_TICKET;
    else if (l->class != r->class) why = DC_DROP_CLASS;
    else {
        bt_xfer_verdict v = bt_xfer_recv_block(&r->recv, &range, in->bytes);
        if (v != BT_XFER_PLACE)
            why = v == BT_XFER_RANGE ? DC_DROP_RANGE : v == BT_XFER_REPEAT ? DC_DROP_REPEAT : DC_DROP_BUSY;
    }
    const bool counts = l && in->link_epoch == l->peer_epoch &&
                        (bt_xfer_grant_came(&l->grant, in->bytes, in->link_end) || BT_BREAK(repeat_credited));
    if (l) l->heard_us = b->now_us;
    if (r && !why) {
        r->owes_reserved = false;
        dc_block *out = &dc_act(b, DC_DO_PLACE)->u.block;
        *out = *in;
        out->slot = r->a->slot;
        out->epoch = counts ? l->epoch : 0;
        return;
    }
    dc_action *a = dc_act(b, DC_DO_DROP);
    a->u.drop.block = *in;
    a->u.drop.reason = why;
    b->n.blocks_dropped[why]++;
    if (!l) {
        say_reject(b, &in->from, BT_EAGAIN, "send HELLO first");
        return;
    }
    if (counts) bt_xfer_grant_left(&l->grant, in->bytes);
    tell_credit(b, l);
    if (why == DC_DROP_UNKNOWN && (!r || r->a->state == BT_ATTEMPT_STOPPING))
        refuse_unknown(b, &in->from, &in->ref);
}

void dc_blocks_placed(dc_brain *b, const dc_block *in, bool is_good)
{
    dc_link *l = link_of(b, &in->from);
    if (l && l->epoch == in->epoch) {
        bt_xfer_grant_left(&l->grant, in->bytes);
        if (BT_BREAK(credit_minted)) bt_xfer_grant_left(&l->grant, in->bytes);
        tell_credit(b, l);
    }
    dc_record *r = dc_by_slot(b, in->slot);
    if (!r || !bt_request_same(&r->a->ref, &in->ref) || !r->recv.placing) return;
    if (is_good) {
        b->n.blocks_placed++;
        b->n.block_bytes_placed += in->bytes;
    } else b->n.blocks_corrupt++;
    bt_xfer_recv_placed(&r->recv, &(bt_kv_range){in->layer, in->token_begin, in->token_count},
                        is_good || BT_BREAK(digest_ignored));
    if (r->a->state == BT_ATTEMPT_STOPPING) {
        dc_attempt_stopped(b, r);
    } else if (r->recv.commit_waits) {
        r->recv.commit_waits = false;
        answer_commit(b, r);
    }
}
