/* Decides what the decode node does: see brain.h. Records are looked at in table order, so that a run depends on its events
 * alone. What is freed in a step is only put aside: messages made in the step may still point into it. */
#include "decode-node/brain.h"
#include "xfer/attempt_log.h"
#include "xfer/node_link.h"
#include "xfer/xfer_credit.h"
#include "xfer/xfer_recv.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_SLOT = UINT32_MAX, BLOCKS_A_WINDOW = 8, TYPICAL_BLOCK_TOKENS = 256 };

typedef enum state { NONE = 0, RESERVED, RUNNING, STOPPING, REPORTING, DEAD } state;

typedef struct record {
    state state;
    bt_request_ref ref;
    uint32_t slot, pages;
    bt_msg_reserve wish;
    bt_ticket ticket;
    bt_xfer_recv recv;                  /* until RUNNING */
    int64_t lease_us, lease_end_us, resend_us;
    int32_t *ids;                       /* [max_tokens] from index 0 */
    uint32_t ids_len, acked;            /* known; wanted next by the gateway */
    bool ack_abort;                     /* STOPPING: the gateway waits for ABORT_ACK */
    bool is_finished, is_failed;        /* REPORTING */
    bt_msg_finished finished;
    bt_msg_failed failed;
} record;

typedef struct link { bool in_use; bt_incarnation peer; bt_xfer_grant grant; uint64_t epoch; int64_t heard_us; } link;

struct dc_brain {
    dc_config cfg;
    bt_node_link_times times;
    bt_node_link gates[DC_MAX_GATEWAYS];
    record *records; uint32_t records_len;
    bool *slot_used;
    link *links;
    uint64_t epochs, pages_used, rss_bytes;
    bool draining, exited, started;
    bt_attempt_log log;
    bt_kv_range missing[BT_MSG_MAX_RANGES];
    dc_action *acts; size_t acts_len, acts_cap;
    dc_counters n;
    int64_t now_us;
    const bt_random *random;
};

dc_config dc_config_defaults(void)
{
    return (dc_config){
        .gateways = 1, .slots = 1, .page_tokens = 64, .links_max = 64, .window_bytes = 64u << 20, .lease_max_ms = 60000,
        .heartbeat_us = 500000, .silence_us = 2000000, .resend_us = 500000, .rejected_us = 5000000,
    };
}

/* ---- making actions ----------------------------------------------------------------------------- */

static dc_action *act(dc_brain *b, dc_action_type type)
{
    assert(b->acts_len < b->acts_cap);
    dc_action *a = &b->acts[b->acts_len++];
    memset(a, 0, sizeof *a);
    a->type = type;
    return a;
}

static void act_slot(dc_brain *b, dc_action_type type, uint32_t slot) { act(b, type)->u.slot = slot; }

static bt_msg *to_gate(dc_brain *b, uint32_t gate, bt_msg_type type)
{
    dc_action *a = act(b, DC_DO_SEND_CONTROL);
    a->u.control.gateway = gate;
    bt_msg *m = &a->u.control.msg;
    m->type = type;
    m->from = b->cfg.self;
    m->to = b->gates[gate].peer;
    return m;
}

/* A message about a request, to its owner; NULL when no link leads there now (it would be lost, as on a cut wire). */
static bt_msg *to_owner(dc_brain *b, const bt_request_ref *ref, bt_msg_type type)
{
    for (uint32_t g = 0; g < b->cfg.gateways; g++) {
        if (!bt_node_link_is_owner(&b->gates[g], &ref->owner)) continue;
        bt_msg *m = to_gate(b, g, type);
        m->ref = *ref;
        return m;
    }
    return NULL;
}

static bt_msg *to_peer(dc_brain *b, const bt_incarnation *peer, bt_msg_type type)
{
    dc_action *a = act(b, DC_DO_SEND_BULK);
    a->u.bulk.peer = *peer;
    bt_msg *m = &a->u.bulk.msg;
    m->type = type;
    m->from = b->cfg.self;
    m->to = *peer;
    return m;
}

static void hello(dc_brain *b, uint32_t gate, bt_node_link_says says)
{
    if (says == BT_NODE_LINK_NOTHING) return;
    bt_msg *m = to_gate(b, gate, says == BT_NODE_LINK_HELLO ? BT_MSG_HELLO : BT_MSG_HEARTBEAT);
    bt_load load = dc_brain_load(b);
    if (says == BT_NODE_LINK_HELLO) {
        memset(&m->to, 0, sizeof m->to);
        m->u.hello = b->cfg.hello;
        m->u.hello.protocol = BT_PROTOCOL_VERSION;
        m->u.hello.role = BT_ROLE_DECODE;
        m->u.hello.draining = b->draining;
        m->u.hello.load = load;
    } else {
        m->u.heartbeat.draining = b->draining;
        m->u.heartbeat.load = load;
    }
}

static void say_failed(dc_brain *b, const bt_request_ref *ref, bt_err code, const char *text)
{
    bt_msg *m = to_owner(b, ref, BT_MSG_FAILED);
    if (!m) return;
    m->u.failed.code = code;
    snprintf(m->u.failed.text, sizeof m->u.failed.text, "%s", text);
}

static void say_refused(dc_brain *b, const bt_request_ref *ref, bt_err code, uint32_t retry_after_ms, const char *text)
{
    bt_msg *m = to_owner(b, ref, BT_MSG_REFUSED);
    if (!m) return;
    m->u.refused.of = BT_MSG_RESERVE;
    m->u.refused.code = code;
    m->u.refused.retry_after_ms = retry_after_ms;
    snprintf(m->u.refused.text, sizeof m->u.refused.text, "%s", text);
}

/* What the gateway has not acknowledged of `r`, from index `from`. */
static void say_tokens(dc_brain *b, const record *r, uint32_t from)
{
    if (from >= r->ids_len) return;
    bt_msg *m = to_owner(b, &r->ref, BT_MSG_TOKENS);
    if (!m) return;
    uint32_t n = r->ids_len - from;
    m->u.tokens.first_index = from;
    m->u.tokens.ids = r->ids + from;
    m->u.tokens.ids_len = n < BT_MSG_MAX_TOKENS_IDS ? n : BT_MSG_MAX_TOKENS_IDS;
}

static void say_report(dc_brain *b, const record *r)
{
    bt_msg *m = to_owner(b, &r->ref, r->is_failed ? BT_MSG_FAILED : BT_MSG_FINISHED);
    if (!m) return;
    if (r->is_failed) m->u.failed = r->failed;
    else m->u.finished = r->finished;
}

/* ---- life of a record --------------------------------------------------------------------------- */

/* The request's highest attempt here: a lower one may still be STOPPING. */
static record *find(dc_brain *b, const bt_request_ref *ref)
{
    record *best = NULL;
    for (uint32_t i = 0; i < b->records_len; i++) {
        record *r = &b->records[i];
        if (r->state == NONE || r->state == DEAD || !bt_request_same(&r->ref, ref)) continue;
        if (!best || r->ref.attempt > best->ref.attempt) best = r;
    }
    return best;
}

static record *by_slot(dc_brain *b, uint32_t slot)
{
    if (slot >= b->cfg.slots) return NULL;
    for (uint32_t i = 0; i < b->records_len; i++)
        if (b->records[i].state != NONE && b->records[i].slot == slot) return &b->records[i];
    return NULL;
}

static void free_slot(dc_brain *b, record *r)
{
    if (r->slot == NO_SLOT) return;
    act_slot(b, DC_DO_FREE_PAGES, r->slot);
    b->slot_used[r->slot] = false;
    b->pages_used -= r->pages;
    r->slot = NO_SLOT;
    r->pages = 0;
}

static void bury(dc_brain *b, record *r)
{
    free_slot(b, r);
    bt_attempt_log_note(&b->log, &r->ref);
    r->state = DEAD;
}

static void reap(dc_brain *b)
{
    for (uint32_t i = 0; i < b->records_len; i++) {
        record *r = &b->records[i];
        if (r->state != DEAD) continue;
        bt_xfer_recv_done(&r->recv);
        free(r->ids);
        *r = (record){.slot = NO_SLOT};
    }
}

/* Nothing of the node works on the record any more. */
static void stopped(dc_brain *b, record *r)
{
    if (r->ack_abort) (void)to_owner(b, &r->ref, BT_MSG_ABORT_ACK);
    bury(b, r);
}

/* End the attempt: at once, or when the copy or the step in progress lets go of it. */
static void stop(dc_brain *b, record *r, bool ack_abort)
{
    r->ack_abort = ack_abort || r->ack_abort;
    if (r->state == STOPPING) return;
    if (r->state == RUNNING) {
        act_slot(b, DC_DO_STOP, r->slot);
        r->state = STOPPING;
    } else if (r->state == RESERVED && r->recv.placing) {
        r->state = STOPPING;
    } else {
        stopped(b, r);
    }
}

static void finish(dc_brain *b, record *r, const bt_msg_finished *f)
{
    free_slot(b, r);
    r->state = REPORTING;
    r->is_finished = true;
    r->finished = *f;
    r->finished.completion_tokens = r->ids_len;
    r->resend_us = b->now_us + b->cfg.resend_us;
    b->n.finished++;
    say_report(b, r);
}

static bool ends_at_token_0(const record *r)
{
    if (r->wish.max_tokens == 1) return true;
    for (uint32_t i = 0; i < r->wish.stop_ids_len; i++)
        if (r->wish.stop_ids[i] == r->ids[0]) return true;
    return false;
}

static void start(dc_brain *b, record *r)
{
    bt_xfer_recv_done(&r->recv);
    r->ids_len = 1;
    r->acked = 1;                       /* token 0 reached the gateway from the prefill node, or will */
    b->n.started++;
    if (ends_at_token_0(r)) {
        finish(b, r, &(bt_msg_finished){.reason = r->wish.max_tokens == 1 ? BT_FINISH_LENGTH : BT_FINISH_STOP});
        return;
    }
    r->state = RUNNING;
    r->resend_us = b->now_us + b->cfg.resend_us;
    dc_action *a = act(b, DC_DO_START);
    a->u.start.slot = r->slot;
    a->u.start.prompt_tokens = r->wish.prompt_tokens;
    a->u.start.first_token = r->ids[0];
    a->u.start.max_tokens = r->wish.max_tokens;
    a->u.start.sampling = r->wish.sampling;
    a->u.start.stop_ids_len = r->wish.stop_ids_len;
    memcpy(a->u.start.stop_ids, r->wish.stop_ids, sizeof r->wish.stop_ids);
}

/* ---- control ------------------------------------------------------------------------------------ */

static void set_lease(dc_brain *b, record *r, uint32_t lease_ms)
{
    if (lease_ms > b->cfg.lease_max_ms) lease_ms = b->cfg.lease_max_ms;
    r->lease_us = (int64_t)lease_ms * 1000;
    r->lease_end_us = b->now_us + r->lease_us;
}

static void say_reserved(dc_brain *b, const record *r)
{
    bt_msg *m = to_owner(b, &r->ref, BT_MSG_RESERVED);
    if (!m) return;
    m->u.reserved.ticket = r->ticket;
    memcpy(m->u.reserved.kv_endpoint, b->cfg.hello.kv_endpoint, sizeof m->u.reserved.kv_endpoint);
}

/* A free record and slot for so many pages, or words why not. */
static record *room(dc_brain *b, uint64_t pages, uint32_t *ret_slot, const char **ret_why)
{
    *ret_why = "every slot is taken";
    uint32_t slot = 0;
    while (slot < b->cfg.slots && b->slot_used[slot]) slot++;
    if (slot == b->cfg.slots) return NULL;
    *ret_why = "too few KV pages are free";
    if (pages > b->cfg.pages_total - b->pages_used) return NULL;
    *ret_why = "too many reports wait for their acknowledgement";
    for (uint32_t i = 0; i < b->records_len; i++) {
        if (b->records[i].state != NONE) continue;
        *ret_slot = slot;
        return &b->records[i];
    }
    return NULL;
}

static void refuse(dc_brain *b, const bt_request_ref *ref, bt_err code, uint32_t retry_after_ms, const char *text)
{
    b->n.refused++;
    bt_attempt_log_note(&b->log, ref);
    say_refused(b, ref, code, retry_after_ms, text);
}

static void on_reserve(dc_brain *b, const bt_msg *m)
{
    const bt_msg_reserve *w = &m->u.reserve;
    record *old = find(b, &m->ref);
    if (old && old->ref.attempt >= m->ref.attempt) {
        if (old->ref.attempt > m->ref.attempt) b->n.stale_attempt++;
        else if (old->state == RESERVED) { b->n.repeats++; say_reserved(b, old); }
        else b->n.repeats++;
        return;
    }
    if (bt_attempt_log_highest(&b->log, &m->ref) >= m->ref.attempt) {
        b->n.stale_attempt++;
        say_refused(b, &m->ref, BT_EAGAIN, 100, "this attempt is over here");
        return;
    }
    if (old) stop(b, old, false);
    uint64_t tokens = (uint64_t)w->prompt_tokens + w->max_tokens;
    uint64_t pages = (tokens + b->cfg.page_tokens - 1) / b->cfg.page_tokens;
    char text[BT_MSG_MAX_TEXT_BYTES + 1];
    if (w->prompt_tokens == 0 || w->max_tokens == 0 || tokens > b->cfg.hello.ctx_tokens || pages > b->cfg.pages_total ||
        w->stop_ids_len > BT_MSG_MAX_STOP_IDS) {
        snprintf(text, sizeof text, "%llu tokens (prompt %u, answer %u), but this node holds %u at most",
                 (unsigned long long)tokens, w->prompt_tokens, w->max_tokens, b->cfg.hello.ctx_tokens);
        refuse(b, &m->ref, BT_ELIMIT, 0, text);
        return;
    }
    uint32_t slot = NO_SLOT;
    const char *why = "this node is draining";
    record *r = b->draining ? NULL : room(b, pages, &slot, &why);
    if (!r) {
        refuse(b, &m->ref, BT_EAGAIN, 100, why);
        return;
    }
    int32_t *ids = calloc(w->max_tokens, sizeof *ids);
    bt_xfer_recv recv = {0};
    if (!ids || bt_xfer_recv_init(&recv, &b->cfg.hello.kv, w->prompt_tokens, NULL) < 0) {
        free(ids);
        refuse(b, &m->ref, BT_ENOMEM, 1000, "out of memory");
        return;
    }
    *r = (record){.state = RESERVED, .ref = m->ref, .slot = slot, .pages = (uint32_t)pages, .wish = *w, .recv = recv, .ids = ids};
    static_assert(sizeof r->ticket == sizeof *b->random, "a ticket is 128 random bits");
    memcpy(&r->ticket, b->random, sizeof r->ticket);
    set_lease(b, r, w->lease_ms);
    b->slot_used[slot] = true;
    b->pages_used += pages;
    b->n.reserved++;
    dc_action *a = act(b, DC_DO_RESERVE_PAGES);
    a->u.reserve.slot = slot;
    a->u.reserve.tokens = (uint32_t)tokens;
    say_reserved(b, r);
}

static void on_abort(dc_brain *b, const bt_msg *m)
{
    record *r = find(b, &m->ref);
    bt_attempt_log_note(&b->log, &m->ref);
    if (!r || r->ref.attempt > m->ref.attempt) {
        (void)to_owner(b, &m->ref, BT_MSG_ABORT_ACK);
        return;
    }
    if (r->state != STOPPING) b->n.aborted++;
    r->ref.attempt = m->ref.attempt;
    stop(b, r, true);
}

static void on_control(dc_brain *b, uint32_t gate, const bt_msg *m)
{
    if (gate >= b->cfg.gateways) return;
    bt_node_link *l = &b->gates[gate];
    if (!bt_incarnation_equal(&m->to, &b->cfg.self)) {
        b->n.wrong_incarnation++;
        hello(b, gate, bt_node_link_stranger(l, &b->times, b->now_us));
        return;
    }
    bool pass = false, refused = false;
    hello(b, gate, bt_node_link_msg(l, &b->times, m, b->now_us, &pass, &refused));
    if (refused) {
        dc_action *a = act(b, DC_DO_LOG);
        a->u.log.level = BT_LOG_ERROR;
        snprintf(a->u.log.text, sizeof a->u.log.text, "the gateway refuses this node: %s", m->u.reject.text);
    }
    if (!pass) return;
    if (!bt_incarnation_equal(&m->ref.owner, &m->from) || m->ref.attempt == 0) {
        b->n.unexpected++;
        return;
    }
    if (m->type == BT_MSG_RESERVE) { on_reserve(b, m); return; }
    if (m->type == BT_MSG_ABORT) { on_abort(b, m); return; }
    record *r = find(b, &m->ref);
    if (r && r->ref.attempt != m->ref.attempt) {
        b->n.stale_attempt++;
        return;
    }
    if (m->type == BT_MSG_RENEW) {
        if (!r) say_failed(b, &m->ref, BT_ECANCEL, "this decode node does not hold the attempt (any more)");
        else if (r->state != STOPPING) set_lease(b, r, m->u.renew.lease_ms);
    } else if (m->type == BT_MSG_TOKENS_ACK && r && (r->state == RUNNING || r->state == REPORTING)) {
        uint32_t next = m->u.tokens_ack.next_index;
        if (next > r->acked && next <= r->ids_len) {
            r->acked = next;
            r->resend_us = b->now_us + b->cfg.resend_us;
        }
    } else if (m->type == BT_MSG_FINISHED_ACK && r && r->state == REPORTING && r->is_finished) {
        bury(b, r);
    } else if (m->type == BT_MSG_ACK && r && r->state == REPORTING && r->is_failed && m->u.ack.of == BT_MSG_FAILED) {
        bury(b, r);
    } else {
        b->n.unexpected++;
    }
}

/* ---- bulk --------------------------------------------------------------------------------------- */

static link *link_of(dc_brain *b, const bt_incarnation *peer)
{
    for (uint32_t i = 0; i < b->cfg.links_max; i++)
        if (b->links[i].in_use && bt_incarnation_equal(&b->links[i].peer, peer)) return &b->links[i];
    return NULL;
}

static void say_reject(dc_brain *b, const bt_incarnation *peer, bt_err code, const char *text)
{
    bt_msg *m = to_peer(b, peer, BT_MSG_REJECT);
    m->u.reject.code = code;
    snprintf(m->u.reject.text, sizeof m->u.reject.text, "%s", text);
}

static void on_bulk_hello(dc_brain *b, const bt_msg *m)
{
    const bt_msg_hello *h = &m->u.hello, *own = &b->cfg.hello;
    if (h->protocol != BT_PROTOCOL_VERSION || h->role != BT_ROLE_PREFILL) {
        say_reject(b, &m->from, BT_EVERSION, "only prefill nodes of this protocol version may send KV here");
        return;
    }
    if (memcmp(h->model_id, own->model_id, sizeof own->model_id) != 0 || memcmp(&h->kv, &own->kv, sizeof own->kv) != 0) {
        char text[BT_MSG_MAX_TEXT_BYTES + 1];
        snprintf(text, sizeof text, "model %02x%02x%02x%02x.. with %ux%ux%u KV dtype %d, but this node has %02x%02x%02x%02x.. with %ux%ux%u dtype %d",
                 h->model_id[0], h->model_id[1], h->model_id[2], h->model_id[3], h->kv.layers, h->kv.kv_heads,
                 h->kv.head_dim, (int)h->kv.dtype, own->model_id[0], own->model_id[1], own->model_id[2], own->model_id[3],
                 own->kv.layers, own->kv.kv_heads, own->kv.head_dim, (int)own->kv.dtype);
        say_reject(b, &m->from, BT_EFORMAT, text);
        return;
    }
    link *l = link_of(b, &m->from);
    for (uint32_t i = 0; !l && i < b->cfg.links_max; i++)
        if (!b->links[i].in_use) l = &b->links[i];
    if (!l) {                           /* the table is full: the link idle longest makes room */
        l = &b->links[0];
        for (uint32_t i = 1; i < b->cfg.links_max; i++)
            if (b->links[i].heard_us < l->heard_us) l = &b->links[i];
    }
    *l = (link){.in_use = true, .peer = m->from, .epoch = ++b->epochs, .heard_us = b->now_us};
    uint64_t window = b->cfg.window_bytes, least = bt_xfer_block_bytes(&own->kv, TYPICAL_BLOCK_TOKENS) * BLOCKS_A_WINDOW;
    bt_xfer_grant_open(&l->grant, window > least ? window : least);
    bt_msg *w = to_peer(b, &m->from, BT_MSG_WELCOME);
    w->u.welcome.protocol = BT_PROTOCOL_VERSION;
    memcpy(w->u.welcome.node_id, own->node_id, sizeof w->u.welcome.node_id);
    w->u.welcome.credit_bytes = l->grant.granted_bytes;
}

/* Every block was sent and none is being copied: start, or name what is missing. */
static void answer_commit(dc_brain *b, record *r)
{
    bt_msg *m;
    if (bt_xfer_recv_is_complete(&r->recv)) {
        m = to_peer(b, &r->wish.prefill, BT_MSG_COMMITTED);
        m->ref = r->ref;
        start(b, r);
        return;
    }
    m = to_peer(b, &r->wish.prefill, BT_MSG_MISSING);
    m->ref = r->ref;
    m->u.missing.ranges = b->missing;
    m->u.missing.ranges_len = (uint32_t)bt_kv_cover_missing(r->recv.cover, b->missing, BT_MSG_MAX_RANGES);
}

static void refuse_transfer(dc_brain *b, const bt_incarnation *peer, const bt_request_ref *ref)
{
    bt_msg *m = to_peer(b, peer, BT_MSG_TRANSFER_REFUSED);
    m->ref = *ref;
    m->u.failed.code = BT_ECANCEL;
    snprintf(m->u.failed.text, sizeof m->u.failed.text, "no such reservation here (any more)");
}

static bool may_send(const record *r, const bt_incarnation *from, const bt_ticket *ticket)
{
    uint8_t diff = 0;                   /* no early exit: time must not tell how much of a guess was right */
    for (size_t i = 0; i < sizeof ticket->bytes; i++) diff |= (uint8_t)(r->ticket.bytes[i] ^ ticket->bytes[i]);
    return diff == 0 && bt_incarnation_equal(&r->wish.prefill, from);
}

static void on_commit(dc_brain *b, const bt_msg *m)
{
    const bt_msg_commit *c = &m->u.commit;
    record *r = find(b, &m->ref);
    if (!r || r->ref.attempt != m->ref.attempt || !may_send(r, &m->from, &c->ticket) ||
        c->prompt_tokens != r->wish.prompt_tokens || r->state == STOPPING || r->is_failed) {
        refuse_transfer(b, &m->from, &m->ref);
        return;
    }
    if (r->state != RESERVED) {
        b->n.repeats++;
        to_peer(b, &m->from, BT_MSG_COMMITTED)->ref = r->ref;
        return;
    }
    r->ids[0] = c->first_token;
    r->recv.commit_waits = r->recv.placing;
    if (!r->recv.placing) answer_commit(b, r);
}

static void on_bulk(dc_brain *b, const bt_msg *m)
{
    if (m->type == BT_MSG_HELLO) { on_bulk_hello(b, m); return; }
    link *l = link_of(b, &m->from);
    if (l) l->heard_us = b->now_us;
    if (!bt_incarnation_equal(&m->to, &b->cfg.self) || !l) {
        b->n.wrong_incarnation++;
        if (m->type != BT_MSG_REJECT) say_reject(b, &m->from, BT_EAGAIN, "greet this node first");
        return;
    }
    if (m->type == BT_MSG_COMMIT && m->ref.attempt != 0) on_commit(b, m);
    else b->n.unexpected++;
}

static void tell_credit(dc_brain *b, link *l)
{
    uint64_t total = bt_xfer_grant_due(&l->grant);
    if (total) to_peer(b, &l->peer, BT_MSG_CREDIT)->u.credit.total_bytes = total;
}

static void on_block(dc_brain *b, const dc_block *in)
{
    link *l = link_of(b, &in->from);
    record *r = find(b, &in->ref);
    bt_kv_range range = {in->layer, in->token_begin, in->token_count};
    dc_drop_reason why = 0;
    if (!l) why = DC_DROP_TICKET;
    else if (!r || r->ref.attempt != in->ref.attempt || r->state != RESERVED) why = DC_DROP_UNKNOWN;
    else if (!may_send(r, &in->from, &in->ticket)) why = DC_DROP_TICKET;
    else {
        bt_xfer_verdict v = bt_xfer_recv_block(&r->recv, &range, in->bytes);
        if (v != BT_XFER_PLACE) why = v == BT_XFER_RANGE ? DC_DROP_RANGE : v == BT_XFER_REPEAT ? DC_DROP_REPEAT : DC_DROP_BUSY;
    }
    if (l) {
        l->heard_us = b->now_us;
        l->grant.came_bytes += in->bytes;
    }
    if (!why) {
        dc_block *out = &act(b, DC_DO_PLACE)->u.block;
        *out = *in;
        out->slot = r->slot;
        out->epoch = l->epoch;
        return;
    }
    dc_action *a = act(b, DC_DO_DROP);
    a->u.drop.block = *in;
    a->u.drop.reason = why;
    b->n.blocks_dropped[why]++;
    if (!l) {
        say_reject(b, &in->from, BT_EAGAIN, "greet this node first");
        return;
    }
    l->grant.left_bytes += in->bytes;
    tell_credit(b, l);
    if (why == DC_DROP_UNKNOWN && (!r || r->state == STOPPING)) refuse_transfer(b, &in->from, &in->ref);
}

static void on_placed(dc_brain *b, const dc_block *in, bool is_good)
{
    link *l = link_of(b, &in->from);
    if (l && l->epoch == in->epoch) {
        l->grant.left_bytes += in->bytes;
        tell_credit(b, l);
    }
    record *r = by_slot(b, in->slot);
    if (!r || !bt_request_same(&r->ref, &in->ref) || !r->recv.placing) return;
    if (is_good) { b->n.blocks_placed++; b->n.block_bytes_placed += in->bytes; }
    else b->n.blocks_corrupt++;
    bt_xfer_recv_placed(&r->recv, &(bt_kv_range){in->layer, in->token_begin, in->token_count}, is_good);
    if (r->state == STOPPING) {
        stopped(b, r);
    } else if (r->recv.commit_waits) {
        r->recv.commit_waits = false;
        answer_commit(b, r);
    }
}

/* ---- worker ------------------------------------------------------------------------------------- */

static void on_token(dc_brain *b, uint32_t slot, uint32_t index, int32_t id)
{
    record *r = by_slot(b, slot);
    if (!r || r->state != RUNNING || index != r->ids_len || index >= r->wish.max_tokens) {
        b->n.unexpected += !r || r->state != STOPPING;
        return;
    }
    r->ids[r->ids_len++] = id;
    b->n.tokens++;
    if (r->acked + 1 == r->ids_len) r->resend_us = b->now_us + b->cfg.resend_us;
    say_tokens(b, r, index);
}

static void on_ended(dc_brain *b, const dc_event *ev)
{
    record *r = by_slot(b, ev->u.ended.slot);
    if (!r || (r->state != RUNNING && r->state != STOPPING)) {
        b->n.unexpected++;
        return;
    }
    if (r->state == STOPPING) {
        stopped(b, r);
        return;
    }
    if (ev->u.ended.reason != BT_FINISH_ERROR) {
        finish(b, r, &(bt_msg_finished){.reason = ev->u.ended.reason, .wait_us = ev->u.ended.wait_us,
                                        .decode_us = ev->u.ended.decode_us, .decode_steps = ev->u.ended.steps});
        return;
    }
    free_slot(b, r);
    r->state = REPORTING;
    r->is_failed = true;
    r->failed.code = BT_EIO;
    memcpy(r->failed.text, ev->u.ended.text, sizeof r->failed.text);
    r->failed.text[sizeof r->failed.text - 1] = 0;
    r->resend_us = b->now_us + b->cfg.resend_us;
    b->n.failed++;
    say_report(b, r);
}

/* ---- time --------------------------------------------------------------------------------------- */

static bool wants_resend(const record *r) { return r->state == REPORTING || (r->state == RUNNING && r->acked < r->ids_len); }

static void expire(dc_brain *b)
{
    for (uint32_t i = 0; i < b->records_len; i++) {
        record *r = &b->records[i];
        if (r->state == NONE || r->state == DEAD || r->state == STOPPING) continue;
        if (b->now_us >= r->lease_end_us) {
            b->n.leases_ended++;
            stop(b, r, false);
        } else if (wants_resend(r) && b->now_us >= r->resend_us) {
            r->resend_us = b->now_us + b->cfg.resend_us;
            b->n.resent++;
            say_tokens(b, r, r->acked);
            if (r->state == REPORTING) say_report(b, r);
        }
    }
    for (uint32_t g = 0; g < b->cfg.gateways; g++) hello(b, g, bt_node_link_tick(&b->gates[g], &b->times, b->now_us));
}

int64_t dc_brain_due_us(const dc_brain *b)
{
    if (!b->started) return 0;
    int64_t due = BT_STEP_NEVER;
    for (uint32_t g = 0; g < b->cfg.gateways; g++) {
        int64_t t = bt_node_link_due_us(&b->gates[g], &b->times);
        if (t < due) due = t;
    }
    for (uint32_t i = 0; i < b->records_len; i++) {
        const record *r = &b->records[i];
        if (r->state == NONE || r->state == DEAD || r->state == STOPPING) continue;
        if (r->lease_end_us < due) due = r->lease_end_us;
        if (wants_resend(r) && r->resend_us < due) due = r->resend_us;
    }
    return due;
}

static void leave(dc_brain *b)
{
    if (!b->draining || b->exited) return;
    for (uint32_t i = 0; i < b->records_len; i++)
        if (b->records[i].state != NONE && b->records[i].state != DEAD) return;
    for (uint32_t g = 0; g < b->cfg.gateways; g++)
        if (b->gates[g].state == BT_NODE_LINK_KNOWN)
            snprintf(to_gate(b, g, BT_MSG_BYE)->u.bye.text, BT_MSG_MAX_TEXT_BYTES, "drained");
    (void)act(b, DC_DO_EXIT);
    b->exited = true;
}

static void drain(dc_brain *b)
{
    if (b->draining) return;
    b->draining = true;
    for (uint32_t g = 0; g < b->cfg.gateways; g++)
        if (b->gates[g].state == BT_NODE_LINK_KNOWN) hello(b, g, BT_NODE_LINK_HEARTBEAT);
}

dc_actions dc_brain_step(dc_brain *b, const dc_event *ev, int64_t now_us, const bt_random *random)
{
    b->acts_len = 0;
    b->now_us = now_us;
    b->random = random;
    reap(b);
    if (!b->started) {
        for (uint32_t g = 0; g < b->cfg.gateways; g++) bt_node_link_init(&b->gates[g], now_us);
        b->started = true;
    }
    expire(b);
    switch (ev->type) {
    case DC_EV_TICK: break;
    case DC_EV_CONTROL: on_control(b, ev->u.control.gateway, ev->u.control.msg); break;
    case DC_EV_BULK: on_bulk(b, ev->u.bulk); break;
    case DC_EV_BLOCK: on_block(b, &ev->u.block); break;
    case DC_EV_PLACED: on_placed(b, &ev->u.block, true); break;
    case DC_EV_CORRUPT: on_placed(b, &ev->u.block, false); break;
    case DC_EV_TOKEN: on_token(b, ev->u.token.slot, ev->u.token.index, ev->u.token.id); break;
    case DC_EV_ENDED: on_ended(b, ev); break;
    case DC_EV_STOPPED: {
        record *r = by_slot(b, ev->u.slot);
        if (r && r->state == STOPPING && !r->recv.placing) stopped(b, r);
        else b->n.unexpected++;
        break;
    }
    case DC_EV_DRAIN: drain(b); break;
    default: break;
    }
    leave(b);
    return (dc_actions){b->acts, b->acts_len};
}

/* ---- made and looked at ------------------------------------------------------------------------- */

bt_err dc_brain_new(dc_brain **ret, const dc_config *c, bt_fault *fault)
{
    static const bt_incarnation zero;
    if (bt_incarnation_equal(&c->self, &zero) || c->gateways < 1 || c->gateways > DC_MAX_GATEWAYS || c->slots < 1 ||
        c->slots > 1024 || c->pages_total < 1 || c->page_tokens < 1 || c->links_max < 1 || c->hello.ctx_tokens < 1 ||
        c->hello.kv.layers < 1 || bt_xfer_block_bytes(&c->hello.kv, 1) == 0)
        return bt_fail(fault, BT_EARG, "decode node: a limit of its configuration is zero or out of range");
    dc_brain *b = calloc(1, sizeof *b);
    if (!b) return bt_fail(fault, BT_ENOMEM, "decode node: out of memory");
    b->cfg = *c;
    b->times = (bt_node_link_times){c->heartbeat_us, c->silence_us, c->resend_us, c->rejected_us};
    b->records_len = c->slots * 4 + 16;
    b->acts_cap = b->records_len * 4 + (size_t)c->gateways * 4 + 16;
    b->records = calloc(b->records_len, sizeof *b->records);
    b->slot_used = calloc(c->slots, sizeof *b->slot_used);
    b->links = calloc(c->links_max, sizeof *b->links);
    b->acts = malloc(b->acts_cap * sizeof *b->acts);
    if (!b->records || !b->slot_used || !b->links || !b->acts) {
        dc_brain_free(b);
        return bt_fail(fault, BT_ENOMEM, "decode node: out of memory");
    }
    for (uint32_t i = 0; i < b->records_len; i++) b->records[i].slot = NO_SLOT;
    *ret = b;
    return BT_OK;
}

void dc_brain_free(dc_brain *b)
{
    if (!b) return;
    for (uint32_t i = 0; b->records && i < b->records_len; i++) {
        bt_xfer_recv_done(&b->records[i].recv);
        free(b->records[i].ids);
    }
    free(b->records);
    free(b->slot_used);
    free(b->links);
    free(b->acts);
    free(b);
}

bt_load dc_brain_load(const dc_brain *b)
{
    bt_load load = {.slots_total = b->cfg.slots, .pages_total = b->cfg.pages_total, .pages_used = b->pages_used, .rss_bytes = b->rss_bytes};
    for (uint32_t i = 0; i < b->records_len; i++) {
        const record *r = &b->records[i];
        if (r->state == NONE || r->state == DEAD) continue;
        load.leases++;
        load.slots_used += r->slot != NO_SLOT;
        load.reservations += r->state == RESERVED;
    }
    return load;
}

void dc_brain_set_rss(dc_brain *b, uint64_t rss_bytes) { b->rss_bytes = rss_bytes; }

bool dc_brain_is_welcome(const dc_brain *b)
{
    for (uint32_t g = 0; g < b->cfg.gateways; g++)
        if (b->gates[g].state == BT_NODE_LINK_KNOWN) return true;
    return false;
}

const dc_counters *dc_brain_counters(const dc_brain *b) { return &b->n; }
