/* Feeds the metric table. Counters of the brain and the node link are copied when /metrics is read. */
#include "gateway/door/metrics.h"
#include "base/clock.h"
#include "base/log.h"
#include "gateway/api/device.h"
#include "rt/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const reasons[] = {"stop", "length", "cancel", "error", NULL};
static const char *const failures[] = {"no_node",      "overloaded", "node_lost", "timeout",
                                       "too_long",     "refused",    "cancelled", "bad",
                                       "unknown_node", "not_finite", NULL};
static const char *const roles[] = {"prefill", "decode", NULL};
static const char *const states[] = {"starting", "ready", "suspect", "draining", "gone", NULL};
static const char *const messages[] = {"received", "sent", "bad", "forbidden", "unsent", NULL};
static const char *const drops[] = {
    "hello_rejected", "wrong_incarnation", "unknown_peer", "stale_attempt", "unexpected", "repeat", NULL};
static const char *const locals[] = {"short", "no_prefill_node", NULL};
static const char *const causes[] = {"gone",    "restarted", "left",        "failed",
                                     "gave_up", "no_answer", "no_progress", NULL};
static const char *const refusals[] = {"exactness", NULL};
static const char *const units[] = {"npu", "companion", NULL};
static const char *const expert_rows[] = {"prompt", "padding", NULL};
static const char *const parts[] = {"npu", "spill", "companion", "edges", "sync", "sessions", NULL};
static const char *const captures[] = {"written", "busy", "refused", NULL};
static const char *const outcomes[] = {"taken", "refused", NULL};
static const char *const calls[] = {"given", "unread", "unknown_tool", NULL};
static const char *const places[] = {"loop", "thread", NULL};
static const char *const statuses[] = {"2xx", "4xx", "5xx", NULL};
static const char *const kinds[] = {"prompt", "answer", NULL};
static const char *const reached[] = {"role",    "requests", "tokens",
                                      "at_once", "queue",    NULL}; /* gw_key.refusals */
static const char *const versions[] = {BT_VERSION, NULL};

#define BUCKETS(name, ...) \
    static const double name[] = {__VA_ARGS__}; \
    enum { name##_count = sizeof name / sizeof *name }
BUCKETS(slow_s, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600);
BUCKETS(fast_s, 0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1);
BUCKETS(tokens, 1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072);
BUCKETS(bytes, 65536, 262144, 1048576, 4194304, 16777216, 67108864, 268435456, 1073741824, 4294967296.0);
BUCKETS(turn_s, 0.0002, 0.001, 0.005, 0.02, 0.1, 1);
#define NULL_count 0

enum {
#define X(id, ...) id,
#include "gateway/door/metrics_table.h"
#undef X
    METRIC_COUNT
};

struct gw_metrics {
    bt_metrics *m;
    char model[128];
    const char *models[2];
    bt_metric table[METRIC_COUNT];
};

bt_err gw_metrics_new(gw_metrics **ret, const char *model_name, bt_fault *fault)
{
    gw_metrics *g = calloc(1, sizeof *g);
    if (!g) return bt_fail(fault, BT_ENOMEM, "out of memory for the metrics");
    (void)snprintf(g->model, sizeof g->model, "%s", model_name);
    g->models[0] = g->model;
    const char *const *models = g->models;
    size_t i = 0;
#define X(id_, type_, name_, label_, values_, label2_, values2_, buckets_, help_) \
    g->table[i++] = (bt_metric){.name = name_,       .help = help_,       .type = BT_METRIC_##type_, \
                                .label = label_,     .values = values_,   .label2 = label2_, \
                                .values2 = values2_, .buckets = buckets_, .bucket_count = buckets_##_count};
#include "gateway/door/metrics_table.h"
#undef X
    const bt_err e = bt_metrics_new(&g->m, g->table, METRIC_COUNT, fault);
    if (e < 0) {
        free(g);
        return e;
    }
    bt_metrics_set(g->m, BUILD_INFO, 0, 0, 1);
    bt_metrics_set(g->m, START_TIME, 0, 0, (double)bt_clock_wall_s());
    *ret = g;
    return BT_OK;
}

void gw_metrics_free(gw_metrics *m)
{
    if (!m) return;
    bt_metrics_free(m->m);
    free(m);
}

static void observe_us(gw_metrics *m, size_t metric, double us)
{
    bt_metrics_observe(m->m, metric, 0, 0, us / 1e6);
}

void gw_metrics_between_tokens(gw_metrics *m, int64_t us, size_t count)
{
    for (size_t i = 0; i < count; i++) observe_us(m, ITL, (double)us / (double)count);
}

static void count_work(gw_metrics *m, const gw_stats *s)
{
    if (s->work.rows) bt_metrics_add(m->m, PREFILL_TOKENS, 0, 0, s->prompt_tokens - s->cached_tokens);
    bt_metrics_add(m->m, PREFILL_ROWS, 0, 0, (double)s->work.rows);
    bt_metrics_add(m->m, PREFILL_MACS, 0, 0, (double)s->work.npu_macs);
    bt_metrics_add(m->m, PREFILL_MACS, 1, 0, (double)s->work.companion_macs);
    bt_metrics_add(m->m, EXPERT_ROWS, 0, 0, (double)s->work.expert_rows);
    bt_metrics_add(m->m, EXPERT_ROWS, 1, 0, (double)s->work.expert_padding_rows);
    bt_metrics_add(m->m, SHADOW_ENTRIES, 0, 0, (double)s->work.shadow_entries);
    bt_metrics_add(m->m, COMPILATIONS, 0, 0, (double)s->work.compilations);
}

static void count_device(gw_metrics *m, const gw_stats *s)
{
    const bt_msg_device_prompt *p = &s->device_prompt;
    const uint64_t ns[] = {p->npu_ns,   p->spill_ns, gw_device_companion_ns(p),
                           p->edges_ns, p->sync_ns,  p->session_ns};
    for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
        bt_metrics_add(m->m, DEVICE_PARTS, i, 0, (double)ns[i] / 1e9);
    bt_metrics_add(m->m, DEVICE_BUBBLES, 0, 0, (double)p->npu_bubble_ns / 1e9);
    bt_metrics_add(m->m, DEVICE_BUBBLES, 1, 0, (double)p->companion_bubble_ns / 1e9);
    bt_metrics_add(m->m, DEVICE_TRANSFER, 0, 0, (double)s->device_transfer_ns / 1e9);
    bt_metrics_add(m->m, DEVICE_EXPOSED, 0, 0, (double)s->device_exposed_ns / 1e9);
}

static void observe_stats(gw_metrics *m, const gw_stats *s)
{
    if (s->gateway_queue_us >= 0) observe_us(m, QUEUE_TIME, (double)s->gateway_queue_us);
    if (s->ttft_us >= 0) observe_us(m, TTFT, (double)s->ttft_us);
    if (s->total_us >= 0) observe_us(m, E2E, (double)s->total_us);
    if (s->has_first) observe_us(m, PREFILL_TIME, (double)s->prefill_us);
    if (s->has_first) count_work(m, s);
    if (s->has_decode) observe_us(m, DECODE_TIME, (double)s->decode_us);
    count_device(m, s);
    if (s->has_kv && s->local == GW_LOCAL_NOT) { /* a local prefill hands nothing over */
        observe_us(m, KV_TRANSFER_SECONDS, (double)s->kv_transfer_us);
        observe_us(m, KV_EXPOSED_SECONDS, (double)s->kv_exposed_us);
        bt_metrics_observe(m->m, KV_TRANSFER_BYTES, 0, 0, (double)s->kv_bytes);
    }
    bt_metrics_observe(m->m, REQUEST_PROMPT_TOKENS, 0, 0, s->prompt_tokens);
    bt_metrics_observe(m->m, REQUEST_GENERATION_TOKENS, 0, 0, s->completion_tokens);
    bt_metrics_add(m->m, PROMPT_TOKENS, 0, 0, s->prompt_tokens);
    bt_metrics_add(m->m, GENERATION_TOKENS, 0, 0, s->completion_tokens);
}

void gw_metrics_done(gw_metrics *m, bt_finish reason, const gw_stats *s)
{
    bt_metrics_add(m->m, REQUESTS, reason == BT_FINISH_LENGTH ? 1 : 0, 0, 1);
    bt_metrics_add(m->m, ATTEMPTS, 0, 0, s->attempts);
    observe_stats(m, s);
}

void gw_metrics_failed(gw_metrics *m, gw_fail_kind kind, const gw_stats *s)
{
    bt_metrics_add(m->m, REQUESTS, kind == GW_FAIL_CANCELLED ? 2 : 3, 0, 1);
    bt_metrics_add(m->m, FAILURES, (size_t)kind - 1, 0, 1);
    bt_metrics_add(m->m, ATTEMPTS, 0, 0, s->attempts);
    if (s->ttft_us >= 0)
        observe_stats(m, s); /* a request that never began would only blur the figures of others */
}

void gw_metrics_answered(gw_metrics *m, int status)
{
    bt_metrics_add(m->m, HTTP_ANSWERS, status < 400 ? 0 : status < 500 ? 1 : 2, 0, 1);
}

void gw_metrics_body(gw_metrics *m, bool by_thread) { bt_metrics_add(m->m, BODIES, by_thread, 0, 1); }
void gw_metrics_end_of_answer(gw_metrics *m, bool by_thread)
{
    bt_metrics_add(m->m, ANSWER_ENDS, by_thread, 0, 1);
}
void gw_metrics_calls(gw_metrics *m, uint32_t given, uint32_t unread, uint32_t unknown)
{
    const uint32_t n[] = {given, unread, unknown};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) bt_metrics_add(m->m, TOOL_CALLS, i, 0, n[i]);
}
void gw_metrics_bodies_waiting(gw_metrics *m, size_t n)
{
    bt_metrics_set(m->m, BODIES_WAITING, 0, 0, (double)n);
}
void gw_metrics_turn(gw_metrics *m, int64_t us) { observe_us(m, TURN, (double)us); }

uint64_t gw_metrics_rss_bytes(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f) return 0;
    const int n = fscanf(f, "%llu %llu", &size, &resident);
    (void)fclose(f);
    return n == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void raise_to(gw_metrics *m, size_t metric, size_t value, uint64_t total)
{
    const double by = (double)total - bt_metrics_get(m->m, metric, value, 0);
    if (by > 0) bt_metrics_add(m->m, metric, value, 0, by);
}

void gw_metrics_left_out(gw_metrics *m, uint64_t total) { raise_to(m, LEFT_OUT, 0, total); }
void gw_metrics_put_off(gw_metrics *m, uint64_t total) { raise_to(m, PUT_OFF, 0, total); }

void gw_metrics_tls(gw_metrics *m, const gw_tls *t)
{
    if (!t) return;
    const gw_tls_facts f = gw_tls_facts_of(t);
    bt_metrics_set(m->m, CERTIFICATE_END, 0, 0, (double)f.ends_s);
    raise_to(m, CERTIFICATES_READ, 0, f.taken);
    raise_to(m, CERTIFICATES_READ, 1, f.refused);
}

void gw_metrics_captured(gw_metrics *m, bt_capture *c)
{
    if (!c) return;
    const bt_capture_counts n = bt_capture_look(c);
    raise_to(m, CAPTURED, 0, n.written);
    raise_to(m, CAPTURED, 1, n.busy);
    raise_to(m, CAPTURED, 2, n.refused);
    raise_to(m, CAPTURE_BYTES, 0, n.bytes);
}

static void count_peers(gw_metrics *m, const gw_registry *r)
{
    double n[2][5] = {{0}};
    for (uint32_t i = 0; i < r->used; i++)
        if (r->nodes[i].in_use)
            n[r->nodes[i].hello.role == BT_ROLE_DECODE][r->nodes[i].state - GW_NODE_STARTING]++;
    for (size_t role = 0; role < 2; role++)
        for (size_t state = 0; state < 5; state++) bt_metrics_set(m->m, PEERS, role, state, n[role][state]);
}

static void raise_to_real(gw_metrics *m, size_t metric, size_t value, double total)
{
    const double by = total - bt_metrics_get(m->m, metric, value, 0);
    if (by > 0) bt_metrics_add(m->m, metric, value, 0, by);
}

/* The device figures of nodes, by role. */
static void count_devices(gw_metrics *m, const gw_registry *r)
{
    for (size_t role = 0; role < 2; role++) {
        const gw_load_sum *s = &r->sums[role];
        raise_to_real(m, DEVICE_SECONDS, role, (double)s->ns / 1e9);
        raise_to_real(m, DEVICE_JOULES, role, (double)s->nj / 1e9);
        bt_metrics_set(m->m, DEVICE_UTILISATION, role, 0, s->ns ? (double)s->ideal_ns / (double)s->ns : 0);
        raise_to_real(m, PACE_SECONDS, role, (double)s->paced_us / 1e6);
        raise_to_real(m, PACE_LATE, role, (double)s->late_us / 1e6);
    }
}

bt_err gw_metrics_render(gw_metrics *m, bt_buf *out, const gw_brain *brain, const bt_link_counters *link,
                         unsigned http_connections)
{
    const gw_counters *c = gw_brain_counters(brain);
    const uint64_t dropped[] = {c->hellos_rejected, c->wrong_incarnation, c->unknown_peer,
                                c->stale_attempt,   c->unexpected,        c->repeats};
    const uint64_t moved[] = {link->received, link->sent, link->bad, link->forbidden, link->unsent};
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++) raise_to(m, STALE, i, dropped[i]);
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) raise_to(m, MESSAGES, i, moved[i]);
    raise_to(m, LOCAL_PREFILLS, 0, c->local_prefills[GW_LOCAL_SHORT]);
    raise_to(m, LOCAL_PREFILLS, 1, c->local_prefills[GW_LOCAL_NO_PREFILL_NODE]);
    raise_to(m, LOCAL_REFUSED, 0, c->local_refused);
    for (size_t i = GW_CAUSE_GONE; i <= GW_CAUSE_NO_PROGRESS; i++)
        raise_to(m, RECOVERIES, i - GW_CAUSE_GONE, c->recoveries[i]);
    raise_to(m, DEBTS_FORGOTTEN, 0, c->debts_forgotten);
    raise_to(m, PREFIX_TOKENS, 0, c->cached_tokens);
    raise_to(m, PREFIX_TOKENS, 1, c->covered_tokens);
    raise_to(m, REPLAYS, 0, c->replays);
    raise_to(m, REPLAYED_TOKENS, 0, c->replayed_tokens);
    count_peers(m, gw_brain_registry(brain));
    count_devices(m, gw_brain_registry(brain));
    bt_metrics_set(m->m, REQUESTS_RUNNING, 0, 0, gw_brain_active(brain));
    bt_metrics_set(m->m, REQUESTS_WAITING, 0, 0, gw_brain_queued(brain));
    bt_metrics_set(m->m, REQUESTS_IN_LINE, 0, 0, gw_brain_in_line(brain));
    raise_to(m, OVERTAKES, 0, gw_brain_registry(brain)->sums[1].overtakes);
    bt_metrics_set(m->m, DEBTS, 0, 0, gw_brain_debts(brain));
    bt_metrics_set(m->m, HTTP_CONNECTIONS, 0, 0, http_connections);
    raise_to(m, LOG_DROPPED, 0, bt_log_dropped());
    bt_metrics_set(m->m, RESIDENT, 0, 0, (double)gw_metrics_rss_bytes());
    return bt_metrics_render(m->m, out);
}

/* ---- API keys ----------------------------------------------------------------------------------- */

#define GW_METRICS_BY_KEY
enum {
#define X(id, ...) id,
#include "gateway/door/metrics_table.h"
#undef X
    KEY_METRICS
};

/* The table lives for one page: which keys there are may change between two. */
static bt_err render_names(bt_buf *out, const gw_auth *auth, const gw_brain *brain, const char *const *keys)
{
    bt_metric table[KEY_METRICS];
    bt_metrics *m;
    size_t i = 0;
#define X(id_, type_, name_, label_, values_, label2_, values2_, buckets_, help_) \
    table[i++] = \
        (bt_metric){.name = name_,     .help = help_,     .type = BT_METRIC_##type_, .label = label_, \
                    .values = values_, .label2 = label2_, .values2 = values2_};
#include "gateway/door/metrics_table.h"
#undef X
    bt_err e = bt_metrics_new(&m, table, KEY_METRICS, NULL);
    if (e < 0) return e;
    for (size_t at = 0; at < gw_auth_count(auth); at++) {
        const gw_key *k = gw_auth_at(auth, at);
        bt_metrics_add(m, KEY_REQUESTS, at, 0, (double)k->requests);
        bt_metrics_add(m, KEY_TOKENS, at, 0, (double)k->prompt_tokens);
        bt_metrics_add(m, KEY_TOKENS, at, 1, (double)k->answer_tokens);
        for (size_t why = 0; why <= GW_KEY_LIMITS; why++)
            bt_metrics_add(m, KEY_REFUSALS, at, why, (double)k->refusals[why]);
        bt_metrics_set(m, KEY_IN_FLIGHT, at, 0, k->usage.in_flight);
        bt_metrics_set(m, KEY_WAITING, at, 0, gw_brain_share(brain, k->share).waiting);
    }
    e = bt_metrics_render(m, out);
    bt_metrics_free(m);
    return e;
}

bt_err gw_metrics_render_keys(bt_buf *out, const gw_auth *auth, const gw_brain *brain)
{
    const size_t n = gw_auth_count(auth);
    const char **keys = calloc(n + 1, sizeof(char *));
    if (!keys) return BT_ENOMEM;
    for (size_t i = 0; i < n; i++) keys[i] = gw_auth_at(auth, i)->facts.name;
    const bt_err e = render_names(out, auth, brain, keys);
    free(keys);
    return e;
}
