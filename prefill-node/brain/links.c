/* The prefill brain's bulk links: dialling, greeting, credit, which block goes next, Commit and its
 * answers. */
#include "prefill-node/brain/brain_inner.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { PAUSE_US = 2000, MISSING_ROUNDS_MAX = 32 };

static bt_msg *to_decode(pf_brain *b, const pf_link *l, bt_msg_type type)
{
    pf_action *a = pf_act(b, PF_DO_SEND_BULK);
    a->u.bulk.decode = l->decode;
    bt_msg *m = &a->u.bulk.msg;
    bt_msg_begin(m, type);
    m->from = b->cfg.self;
    m->to = l->decode;
    return m;
}

static void unlink_it(pf_brain *b, pf_link *l)
{
    pf_act(b, PF_DO_UNLINK)->u.link.decode = l->decode;
    pf_orders_link_gone(b, l);
    memset(l, 0, sizeof *l);
}

/* A place for one more link: an unused one, else that of a link that no transfer needs, else NULL. */
static pf_link *find_place(pf_brain *b)
{
    const int64_t at = bt_order_first(&b->unlinked, 0);
    if (at >= 0) return &b->links[at];
    pf_orders_settle(b);
    for (uint32_t i = 0; b->links_needed < b->cfg.links_max && i < b->cfg.links_max; i++) {
        if (b->links[i].needed > 0) continue;
        unlink_it(b, &b->links[i]);
        return &b->links[i];
    }
    return NULL;
}

bool pf_links_want(pf_brain *b, const bt_incarnation *decode, const bt_peer_key *key, const char *endpoint,
                   const char **ret_why)
{
    pf_link *l = pf_link_of(b, decode);
    *ret_why = "the bulk link to this decode node was dialled with another key";
    if (l && memcmp(&l->key, key, sizeof *key) != 0) return false;
    if (l) {
        l->used_us = b->now_us;
        if (l->state != PF_LINK_OPEN && l->shut_us == BT_STEP_NEVER) l->shut_us = b->now_us;
        pf_orders_link(b, l);
        return true;
    }
    *ret_why = "every bulk link is in use";
    l = find_place(b);
    if (!l) return false;
    b->epochs++;
    *l = (pf_link){.state = PF_LINK_DIALLING, .decode = *decode,   .key = *key,
                   .born = b->epochs,         .epoch = b->epochs,  .shut_us = b->now_us,
                   .asked_us = BT_STEP_NEVER, .used_us = b->now_us};
    pf_orders_link_made(b, l);
    pf_action *a = pf_act(b, PF_DO_LINK);
    a->u.link.decode = *decode;
    a->u.link.decode_key = *key;
    snprintf(a->u.link.endpoint, sizeof a->u.link.endpoint, "%s", endpoint);
    return true;
}

/* Begin a new epoch of the link: what was under way may be lost, Commit will find it. */
static void cut(pf_brain *b, pf_link *l)
{
    pf_orders_settle(b);
    l->state = PF_LINK_GREETING;
    l->purse = (bt_xfer_purse){0};
    l->epoch = ++b->epochs;
    l->is_short = l->is_blocked = false;
    l->asked_us = BT_STEP_NEVER;
    l->shut_us = l->needed ? b->now_us : BT_STEP_NEVER;
    for (const pf_record *r = NULL; (r = pf_next(b, r));) {
        if (!pf_has_transfer(r) || !bt_incarnation_equal(&r->decode, &l->decode)) continue;
        bt_xfer_send_cut(&b->sends[r->a->slot]);
        (void)pf_touch(b, r->a);
    }
}

static void greet(pf_brain *b, pf_link *l)
{
    bt_msg *m = to_decode(b, l, BT_MSG_HELLO);
    bt_gates_hello(&b->gates, m);
    m->u.hello.link_epoch = l->epoch;
    l->hello_us = b->now_us + b->cfg.resend_us;
    pf_orders_link(b, l);
}

void pf_links_up(pf_brain *b, const bt_incarnation *decode)
{
    pf_link *l = pf_link_of(b, decode);
    if (!l || l->state != PF_LINK_DIALLING) return;
    cut(b, l);
    greet(b, l);
}

/* The decode process of this incarnation takes no KV from this node: its transfers are over. */
static void fail_all(pf_brain *b, const bt_incarnation *decode, bt_err code, const char *text)
{
    for (pf_record *r = NULL; (r = pf_next(b, r));) {
        if (pf_has_transfer(r) && bt_incarnation_equal(&r->decode, decode))
            pf_attempt_fail(b, pf_touch(b, r->a), code, text);
    }
    pf_orders_settle(b); /* the link may go now */
}

static void give_up(pf_brain *b, pf_link *l, bt_err code, const char *text)
{
    fail_all(b, &l->decode, code, text);
    unlink_it(b, l);
}

void pf_links_failed(pf_brain *b, const bt_incarnation *decode, const char *text)
{
    pf_link *l = pf_link_of(b, decode);
    if (!l) return;
    fail_all(b, decode, BT_EIO, text);
    pf_orders_link_gone(b, l);
    memset(l, 0, sizeof *l);
}

static void on_missing(pf_brain *b, pf_record *r, const bt_msg_missing *m)
{
    bt_xfer_send *s = &b->sends[r->a->slot];
    if (!bt_xfer_send_all_sent(s) || !s->told) return; /* an old answer: newer blocks are under way */
    if (++r->missing_rounds > MISSING_ROUNDS_MAX) {
        pf_attempt_fail(b, r, BT_EIO, "the decode node misses blocks again and again");
        return;
    }
    b->n.blocks_again += bt_xfer_send_missing(s, m->ranges, m->ranges_len);
    r->progress_us = b->now_us;
}

/* They go again as soon as the link is open. */
static void touch_commits(pf_brain *b, const pf_link *l)
{
    for (int64_t at = bt_order_first(&b->commits, (uint32_t)(l - b->links)); at >= 0;
         at = bt_order_next(&b->commits, at))
        (void)pf_touch(b, &b->attempts.all[at]);
}

void pf_links_msg(pf_brain *b, const bt_incarnation *decode, const bt_msg *m)
{
    pf_link *l = pf_link_of(b, decode);
    if (!l) {
        b->n.unexpected++;
        return;
    }
    if (!bt_incarnation_equal(&m->from, decode)) {
        give_up(b, l, BT_EIO, "the decode node has restarted and lost the reservation");
        return;
    }
    if (!bt_incarnation_equal(&m->to, &b->cfg.self)) {
        b->n.wrong_incarnation++;
        return;
    }
    if (l->asked_us != BT_STEP_NEVER) l->asked_us = b->now_us;
    pf_orders_link(b, l);
    pf_record *r = pf_find(b, &m->ref);
    if (r && (r->a->ref.attempt != m->ref.attempt || !bt_incarnation_equal(&r->decode, decode))) r = NULL;
    bool is_sending = r && r->a->state == PF_SENDING;
    const uint64_t epoch = m->type == BT_MSG_WELCOME  ? m->u.welcome.link_epoch
                           : m->type == BT_MSG_CREDIT ? m->u.credit.link_epoch
                                                      : l->epoch;
    if (epoch != l->epoch) {
        b->n.repeats++; /* of an older epoch: it would grant what that one has carried */
    } else if (m->type == BT_MSG_WELCOME && l->state == PF_LINK_GREETING) {
        l->state = PF_LINK_OPEN;
        l->shut_us = BT_STEP_NEVER;
        touch_commits(b, l);
        bt_xfer_purse_open(&l->purse, m->u.welcome.credit_bytes);
    } else if (m->type == BT_MSG_WELCOME && l->state == PF_LINK_OPEN) {
        bt_xfer_purse_grant(&l->purse, m->u.welcome.credit_bytes);
    } else if (m->type == BT_MSG_CREDIT && l->state == PF_LINK_OPEN) {
        bt_xfer_purse_grant(&l->purse, m->u.credit.total_bytes);
    } else if (m->type == BT_MSG_REJECT && m->u.reject.code == BT_EAGAIN) {
        if (l->state != PF_LINK_OPEN) return; /* HELLO is being repeated already */
        cut(b, l);
        greet(b, l);
    } else if (m->type == BT_MSG_REJECT) {
        pf_log(b, BT_LOG_ERROR, "a decode node refuses KV from this node: ", m->u.reject.text);
        give_up(b, l, m->u.reject.code < 0 ? (bt_err)m->u.reject.code : BT_EFORMAT, m->u.reject.text);
    } else if (m->type == BT_MSG_COMMITTED && is_sending && bt_xfer_send_all_sent(&b->sends[r->a->slot])) {
        pf_attempt_committed(b, r);
    } else if (m->type == BT_MSG_MISSING && is_sending) {
        on_missing(b, r, &m->u.missing);
    } else if (m->type == BT_MSG_TRANSFER_REFUSED && r && pf_has_transfer(r)) {
        pf_attempt_fail(b, r, m->u.failed.code < 0 ? (bt_err)m->u.failed.code : BT_ECANCEL, m->u.failed.text);
    } else {
        b->n.unexpected++;
    }
}

void pf_links_block(pf_brain *b, const pf_block *block, bool is_sent)
{
    pf_link *l = pf_link_of(b, &block->decode);
    if (l && block->epoch >= l->born && l->unanswered > 0) l->unanswered--;
    const bool is_counted = l && block->epoch == l->epoch; /* else cut: Commit finds what became of it */
    if (is_counted) l->is_blocked = !is_sent;
    if (is_counted && !is_sent) {
        bt_xfer_purse_return(&l->purse, block->bytes, block->end_bytes);
        l->paused_us = b->now_us + PAUSE_US;
    }
    if (l) pf_orders_link(b, l);
    if (!is_sent) b->n.blocks_blocked++;
    pf_record *r = pf_by_slot(b, block->slot);
    if (!r || r->lent == 0) {
        b->n.unexpected++;
        return;
    }
    r->lent--;
    if (is_sent) {
        r->done.kv_blocks++;
        r->done.kv_bytes += block->bytes;
        r->progress_us = b->now_us;
        b->n.blocks_sent++;
        b->n.block_bytes_sent += block->bytes;
    }
    bt_xfer_send *s = &b->sends[r->a->slot];
    if (is_counted && pf_has_transfer(r)) {
        if (is_sent) bt_xfer_send_sent(s);
        else bt_xfer_send_returned(s, &(bt_kv_range){block->layer, block->token_begin, block->token_count});
    }
    pf_attempt_settle(b, r);
}

/* The transfer served longest ago goes next. */
static void pump_blocks(pf_brain *b, pf_link *l)
{
    l->is_short = false;
    while (l->unanswered < b->cfg.unsent_max && b->now_us >= l->paused_us) {
        bt_kv_range range;
        pf_orders_settle(b);
        pf_record *r = pf_orders_sending(b, l);
        if (!r) {
            l->is_blocked = false;
            return;
        }
        const bool has_block = bt_xfer_send_next(&b->sends[r->a->slot], &range);
        assert(has_block);
        (void)has_block;
        uint64_t bytes = bt_xfer_block_bytes(&b->cfg.hello.kv, range.token_count), end = 0;
        l->is_short = !bt_xfer_purse_take(&l->purse, bytes, &end);
        if (l->is_short) return;
        l->unanswered++;
        r->served = ++b->served;
        r->lent++;
        if (r->first_block_us == 0) r->first_block_us = b->now_us;
        bt_xfer_send_take(&b->sends[r->a->slot], &range);
        pf_act(b, PF_DO_SEND_BLOCK)->u.block = (pf_block){.decode = l->decode,
                                                          .slot = r->a->slot,
                                                          .ref = r->a->ref,
                                                          .ticket = r->ticket,
                                                          .layer = range.layer,
                                                          .token_begin = range.token_begin,
                                                          .token_count = range.token_count,
                                                          .bytes = bytes,
                                                          .epoch = l->epoch,
                                                          .end_bytes = end};
    }
}

static void commit(pf_brain *b, pf_link *l, pf_record *r)
{
    bt_xfer_send *s = &b->sends[r->a->slot];
    b->n.resent += s->told;
    s->told = true;
    r->commit_us = b->now_us + b->cfg.resend_us;
    bt_msg *m = to_decode(b, l, BT_MSG_COMMIT);
    m->ref = r->a->ref;
    m->u.commit.ticket = r->ticket;
    m->u.commit.prompt_tokens = r->prompt.tokens;
    m->u.commit.first_token = r->first.token;
    m->u.commit.kv_bytes = r->done.kv_bytes;
}

/* A link about which nothing has changed has nothing to send: it would have gone before. */
void pf_links_pump(pf_brain *b)
{
    pf_orders_settle(b);
    for (int64_t i = bt_order_first(&b->link_pump, 0); i >= 0; i = bt_order_next(&b->link_pump, i))
        if (b->links[i].state == PF_LINK_OPEN) pump_blocks(b, &b->links[i]);
    pf_orders_settle(b);
    for (int64_t at = bt_order_first(&b->commit_now, 0); at >= 0; at = bt_order_next(&b->commit_now, at)) {
        pf_record *r = pf_touch(b, &b->attempts.all[at]);
        commit(b, &b->links[r->link - 1], r);
    }
    pf_orders_settle(b);
    for (int64_t i; (i = bt_order_first(&b->link_pump, 0)) >= 0; bt_order_take(&b->link_pump, (uint32_t)i)) {
        pf_link *l = &b->links[i];
        l->is_committing = bt_order_first(&b->commits, (uint32_t)i) >= 0;
        if (l->state != PF_LINK_OPEN) continue;
        const bool waits = l->is_short || l->is_blocked || l->is_committing;
        if (!waits || l->unanswered) l->asked_us = BT_STEP_NEVER; /* D has yet to get what the shell holds */
        else if (l->asked_us == BT_STEP_NEVER) l->asked_us = b->now_us;
        pf_orders_link(b, l);
    }
}

static void expire(pf_brain *b, pf_link *l)
{
    if (l->needed == 0) l->shut_us = BT_STEP_NEVER;
    if (l->needed == 0 && b->now_us - l->used_us >= b->cfg.idle_us) {
        unlink_it(b, l);
    } else if (l->shut_us != BT_STEP_NEVER && b->now_us - l->shut_us >= b->cfg.dial_us) {
        give_up(b, l, BT_EIO,
                "the KV cannot be handed to the decode node: its bulk endpoint does not answer");
    } else if (l->state == PF_LINK_GREETING && b->now_us >= l->hello_us) {
        b->n.resent++;
        greet(b, l);
    } else if (l->state == PF_LINK_OPEN && l->asked_us != BT_STEP_NEVER &&
               b->now_us - l->asked_us >= b->cfg.stall_us) {
        cut(b, l);
        greet(b, l);
    } else {
        pf_orders_link(b, l);
    }
}

/* Acts on links that are due or no longer needed, in their order. */
void pf_links_expire(pf_brain *b)
{
    pf_orders_settle(b);
    b->linked_us = b->now_us;
    for (int64_t at; (at = bt_order_first(&b->link_due, PF_LINK_DUE)) >= 0 &&
                     bt_order_us(bt_order_key_of(&b->link_due, at)) <= b->now_us;)
        bt_order_put(&b->link_due, PF_LINK_LOOK, (uint32_t)at, (bt_order_key){0, 0});
    for (int64_t at; (at = bt_order_first(&b->link_due, PF_LINK_LOOK)) >= 0;) {
        bt_order_take(&b->link_due, (uint32_t)at);
        expire(b, &b->links[at]);
    }
}
