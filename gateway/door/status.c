/* What the gateway knows about its nodes, as JSON for people's tools. */
#include "gateway/door/status.h"
#include "base/hash.h"
#include "gateway/api/json.h"
#include "gateway/door/metrics.h"
#include "text/utf8.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

static json_t *count(uint64_t n) { return json_integer((json_int_t)n); }

/* A node's words may be any bytes; JSON takes only UTF-8. */
static const char *shown(char *ret, size_t cap, const char *text)
{
    return bt_utf8_show(ret, cap, text, strlen(text));
}

static json_t *engine(const bt_msg_engine *g)
{
    char name[sizeof g->name], quant[sizeof g->quant], policy[sizeof g->shape_policy],
        profile[sizeof g->profile];
    if (!g) return json_null();
    return json_pack("{s:s,s:s,s:s,s:s,s:o}", "name", shown(name, sizeof name, g->name), "quant",
                     shown(quant, sizeof quant, g->quant), "shape_policy",
                     shown(policy, sizeof policy, g->shape_policy), "profile",
                     shown(profile, sizeof profile, g->profile), "fallbacks", count(g->fallbacks_len));
}

/* The device time of its work, and how late it was with --pace. */
static json_t *device(const gw_node *n)
{
    char profile[sizeof((bt_msg_device *)0)->profile];
    const bt_msg_device *d = n->hello.device;
    const bt_load *l = &n->load;
    if (!d) return json_null();
    return json_pack("{s:s,s:f,s:f,s:o,s:f,s:o,s:o}", "profile", shown(profile, sizeof profile, d->profile),
                     "seconds", (double)l->device_ns / 1e9, "joules", (double)l->device_nj / 1e9,
                     "utilisation",
                     l->device_ns ? json_real((double)l->device_ideal_ns / (double)l->device_ns)
                                  : json_null(),
                     "pace", (double)d->pace_milli / 1e3, "paced_ms", count(l->paced_us / 1000), "late_ms",
                     count(l->late_us / 1000));
}

static json_t *node(const gw_node *n, int64_t now_us)
{
    char hex[BT_HASH_HEX_CHARS], endpoint[BT_MSG_MAX_ENDPOINT_BYTES + 1],
        exactness[BT_MSG_MAX_TEXT_BYTES + 1];
    char own[BT_MSG_MAX_TEXT_BYTES + 1];
    const bool is_decode = n->hello.role == BT_ROLE_DECODE;
    return json_pack(
        "{s:s,s:s,s:o,s:s,s:s?,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}",
        "id", n->hello.node_id, "role", is_decode ? "decode" : "prefill", "pid",
        n->state == GW_NODE_GONE ? json_null() : count(n->hello.pid), "state", gw_node_state_name(n->state),
        "endpoint", is_decode ? shown(endpoint, sizeof endpoint, n->hello.kv_endpoint) : NULL, "incarnation",
        bt_hash_hex(hex, n->incarnation.bytes), "exactness",
        shown(exactness, sizeof exactness, n->hello.exactness), "prefill_exactness",
        n->hello.prefill_exactness[0] ? json_string(shown(own, sizeof own, n->hello.prefill_exactness))
                                      : json_null(),
        "engine", engine(n->hello.engine), "device", device(n), "ctx_tokens", count(n->hello.ctx_tokens),
        "kv_capacity_tokens", count(n->hello.kv_capacity_tokens), "slots_total", count(n->load.slots_total),
        "slots_used", count(n->load.slots_used), "queued", count(n->load.queued), "pages_total",
        count(n->load.pages_total), "pages_used", count(n->load.pages_used), "pages_cached",
        count(n->load.pages_cached), "reservations", count(n->load.reservations), "leases",
        count(n->load.leases), "attempts", count(n->attempts), "rss_bytes", count(n->load.rss_bytes),
        "silent_ms", count((uint64_t)((now_us - n->heard_us) / 1000)));
}

static json_t *nodes(const gw_status_facts *f)
{
    const gw_registry *r = gw_brain_registry(f->brain);
    json_t *a = json_array();
    for (uint32_t i = 0; a && i < r->used; i++)
        if (r->nodes[i].in_use && json_array_append_new(a, node(&r->nodes[i], f->now_us)) < 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

bt_err gw_status_render(bt_buf *out, const gw_status_facts *f)
{
    char self[BT_HASH_HEX_CHARS], model[BT_HASH_HEX_CHARS];
    json_t *j =
        json_pack("{s:{s:s,s:i,s:s,s:s,s:s,s:s,s:s,s:o},s:{s:i,s:i,s:i,s:i,s:i},s:{s:s,s:s,s:i},s:o}",
                  "gateway", "id", f->node_id, "pid", (int)getpid(), "state", f->state, "policy", f->policy,
                  "endpoint", f->url, "control", f->control, "incarnation", bt_hash_hex(self, f->self.bytes),
                  "rss_bytes", count(gw_metrics_rss_bytes()), "queue", "waiting",
                  (int)gw_brain_queued(f->brain), "running", (int)gw_brain_active(f->brain), "max_running",
                  (int)gw_brain_active_limit(f->brain), "owed", (int)gw_brain_debts(f->brain), "max",
                  (int)f->queue_max, "model", "name", f->model_name, "id", bt_hash_hex(model, f->model_id),
                  "ctx_tokens", (int)f->ctx_tokens, "nodes", nodes(f));
    return gw_json_add(out, j, JSON_COMPACT);
}
