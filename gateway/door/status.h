#ifndef GW_STATUS_H
#define GW_STATUS_H
#include "base/buf.h"
#include "gateway/brain/brain.h"

/* The body of GET /v1/status, which `baton status` shows:
 *   {"gateway": {id, pid, state, policy, endpoint, control, incarnation, rss_bytes},
 *    "queue": {waiting, running, max_running (--max-active, or the slots of ready decode nodes where those are fewer),
 *              owed (attempts that were left, and whose nodes have not let go yet), max},
 *    "model": {name, id, ctx_tokens},
 *    "nodes": [{id, role, pid (null once it is gone), state, endpoint (null for prefill nodes), incarnation,
 *               exactness, prefill_exactness (null unless it is a decode node that computes prompts),
 *               engine ({name, quant, shape_policy, profile, fallbacks (how many)}; null where none computes
 *               prompts), device ({profile, seconds, joules, utilisation (null before any work), pace (K; 0: off),
 *               paced_ms, late_ms}; null where its work has no price), ctx_tokens, kv_capacity_tokens,
 *               slots_total, slots_used, queued, pages_total, pages_used, pages_cached, reservations,
 *               leases, attempts (of this gateway), rss_bytes, silent_ms}]} */
typedef struct gw_status_facts {
    const gw_brain *brain;
    bt_incarnation self;
    const char *node_id, *state, *policy, *url, *control, *model_name;
    uint8_t model_id[16];
    uint32_t ctx_tokens, queue_max;
    int64_t now_us;
} gw_status_facts;

bt_err gw_status_render(bt_buf *out, const gw_status_facts *f);
#endif
