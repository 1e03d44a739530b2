/* Deadlines of a request: its nodes took too long, it waited too long, its leases are renewed, unanswered
 * messages go again. See request.h. */
#include "gateway/brain/request.h"

enum { RETRY_NODE_MS = 2000 }; /* a supervisor starts a node again within that */

static void out_of_patience(gw_brain *b, gw_request *r)
{
    const long long seconds = (long long)(b->cfg.recovery_us / 1000000);
    if (r->lost_us >= 0)
        gw_request_fail(b, r, GW_FAIL_NODE_LOST, BT_EIO, RETRY_NODE_MS,
                        "%s, and no other attempt began within %lld s", r->why, seconds);
    else if (r->only_prefill || r->only_decode)
        gw_request_fail(b, r, GW_FAIL_NO_NODE, BT_EAGAIN, RETRY_NODE_MS,
                        "for %lld s the request could not go to the nodes it asks for: prefill node '%s', "
                        "decode node '%s' ('' is any)",
                        seconds, r->prefer_prefill, r->prefer_decode);
    else
        gw_request_fail(b, r, r->attempt ? GW_FAIL_NODE_LOST : GW_FAIL_NO_NODE, BT_EAGAIN, RETRY_NODE_MS,
                        "for %lld s neither a pair of a prefill and a decode node nor a decode node that "
                        "computes prompts was ready for this request",
                        seconds);
}

static void out_of_queue(gw_brain *b, gw_request *r)
{
    gw_request_fail(b, r, GW_FAIL_OVERLOADED, BT_EAGAIN, gw_request_retry_ms(b, r->share),
                    "every node was busy for %lld s", (long long)(b->cfg.queue_us / 1000000));
}

static void out_of_time(gw_brain *b, gw_request *r)
{
    const bool is_prefill = r->state == GW_PREFILLING && !r->local;
    const bool may_travel =
        r->state == GW_DECODING && !r->local && !r->has_kv && r->next_index <= gw_request_first_made(r);
    const gw_node *n = gw_registry_find(&b->registry, is_prefill ? &r->prefill.node : &r->decode.node);
    gw_request_recover(b, r, r->is_accepted ? GW_CAUSE_NO_PROGRESS : GW_CAUSE_NO_ANSWER,
                       is_prefill   ? GW_BLAME_PREFILL
                       : may_travel ? GW_BLAME_PAIR
                                    : GW_BLAME_DECODE,
                       "the %s node %s %s", is_prefill ? "prefill" : "decode",
                       n ? n->hello.node_id : "(forgotten)",
                       !r->is_accepted             ? "did not answer"
                       : r->state == GW_PREFILLING ? "did not get on with the prompt"
                                                   : "made no token");
}

void gw_request_expire(gw_brain *b, gw_request *r)
{
    if (r->state == GW_NONE || r->state == GW_DEAD) return;
    if (b->now_us >= gw_request_patience_us(b, r)) {
        out_of_patience(b, r);
    } else if (r->state == GW_QUEUED) {
        if (b->now_us - r->waiting_us >= b->cfg.queue_us) out_of_queue(b, r);
    } else if (b->now_us >= r->deadline_us) {
        if (r->state == GW_CLOSING) gw_request_done(b, r);
        else if (gw_request_is_parked(r)) out_of_queue(b, r);
        else out_of_time(b, r);
    } else {
        if (gw_request_wants_renew(r) && b->now_us >= r->renew_us) {
            r->renew_us = b->now_us + (int64_t)b->cfg.lease_ms * 250;
            if (r->decode.is_open)
                gw_request_tell(b, r, &r->decode, BT_MSG_RENEW)->u.renew.lease_ms = b->cfg.lease_ms;
            if (r->prefill.is_open && r->is_accepted)
                gw_request_tell(b, r, &r->prefill, BT_MSG_RENEW)->u.renew.lease_ms = b->cfg.lease_ms;
        }
        if (!gw_request_wants_resend(r) || b->now_us < r->resend_us) return;
        b->n.resent++;
        if (r->state == GW_RESERVING) gw_request_say_reserve(b, r);
        else gw_request_say_prefill(b, r);
    }
}

void gw_request_expire_all(gw_brain *b)
{
    int64_t at;
    while ((at = bt_order_first(&b->due, GW_DUE)) >= 0 &&
           bt_order_us(bt_order_key_of(&b->due, at)) <= b->now_us)
        bt_order_put(&b->due, GW_RIPE, (uint32_t)at, bt_order_number(0));
    while ((at = bt_order_first(&b->due, GW_RIPE)) >= 0) {
        bt_order_take(&b->due, (uint32_t)at);
        gw_request_expire(b, &b->requests[at]);
        gw_request_rearm(b, &b->requests[at]);
    }
}
