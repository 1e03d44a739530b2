/* Records of requests, and what is counted, sorted and divided. */
#include "lab/replay/result.h"
#include "base/num.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tool_replay_record tool_replay_record_due(uint32_t item, uint32_t want_prompt, uint32_t want_output,
                                          int64_t due_us)
{
    return (tool_replay_record){.item = item,
                                .node = TOOL_REPLAY_NOBODY,
                                .want_prompt = want_prompt,
                                .want_output = want_output,
                                .due_us = due_us,
                                .first_us = -1,
                                .last_us = -1,
                                .end_us = -1,
                                .gateway_queue_us = -1,
                                .reserve_us = -1,
                                .queue_us = -1,
                                .server_ttft_us = -1,
                                .prefill_us = -1,
                                .exposed_us = -1,
                                .transfer_us = -1,
                                .decode_us = -1,
                                .paced_us = -1,
                                .pace_late_us = -1,
                                .prompt_late_us = -1};
}

bt_err tool_replay_result_begin(tool_replay_result *r, size_t requests, bt_fault *fault)
{
    *r = (tool_replay_result){.cap = requests, .kinds = 1, .sample_every_us = 250000,
                              .heat = {.width_us = 100000}};
    strcpy(r->kind[0], "ok");
    r->record = calloc(requests ? requests : 1, sizeof *r->record);
    r->sample = calloc(TOOL_REPLAY_MAX_SAMPLES, sizeof *r->sample);
    if (!r->record || !r->sample)
        return bt_fail(fault, BT_ENOMEM, "out of memory for records of %zu requests", requests);
    return bt_trace_hist_begin(&r->itl_us, fault);
}

void tool_replay_result_done(tool_replay_result *r)
{
    bt_trace_hist_done(&r->itl_us);
    free(r->record);
    free(r->chunk);
    free(r->sample);
    free(r->node);
    *r = (tool_replay_result){0};
}

uint8_t tool_replay_result_kind(tool_replay_result *r, const char *name)
{
    for (size_t i = 1; i < r->kinds; i++)
        if (strncmp(r->kind[i], name, TOOL_REPLAY_KIND_BYTES - 1) == 0) return (uint8_t)i;
    if (r->kinds == TOOL_REPLAY_MAX_KINDS - 1) name = "other";
    if (r->kinds == TOOL_REPLAY_MAX_KINDS) return TOOL_REPLAY_MAX_KINDS - 1;
    (void)snprintf(r->kind[r->kinds], TOOL_REPLAY_KIND_BYTES, "%s", name);
    return (uint8_t)r->kinds++;
}

/* The track of that name, or a new one; NOBODY: there are no more. */
static uint16_t track_of(tool_replay_result *r, const char *name)
{
    for (size_t i = 0; i < r->tracks; i++)
        if (strcmp(r->track[i].name, name) == 0) return (uint16_t)i;
    if (r->tracks == TOOL_REPLAY_TRACKS) return TOOL_REPLAY_NOBODY;
    (void)snprintf(r->track[r->tracks].name, sizeof r->track[0].name, "%s", name);
    return (uint16_t)r->tracks++;
}

size_t tool_replay_result_node_of(tool_replay_result *r, const char *id, const char *role, const char *track)
{
    if (r->nodes == TOOL_REPLAY_MAX_NODES) return TOOL_REPLAY_MAX_NODES;
    if (r->nodes == r->nodes_cap) {
        const size_t cap = r->nodes_cap ? 2 * r->nodes_cap : 64;
        tool_replay_node *all = reallocarray(r->node, cap, sizeof *all);
        if (!all) return TOOL_REPLAY_MAX_NODES;
        r->node = all;
        r->nodes_cap = cap;
    }
    tool_replay_node *n = &r->node[r->nodes];
    *n = (tool_replay_node){.track = track_of(r, track)};
    (void)snprintf(n->id, sizeof n->id, "%s", id);
    (void)snprintf(n->role, sizeof n->role, "%s", role);
    if (n->track != TOOL_REPLAY_NOBODY) r->track[n->track].nodes++;
    return r->nodes++;
}

size_t tool_replay_result_node(tool_replay_result *r, const char *id, const char *role)
{
    for (size_t i = 0; i < r->nodes; i++)
        if (strcmp(r->node[i].id, id) == 0) {
            if (*role) (void)snprintf(r->node[i].role, sizeof r->node[i].role, "%s", role);
            return i;
        }
    return tool_replay_result_node_of(r, id, role, id);
}

void tool_replay_result_slots(tool_replay_result *r, size_t node, uint32_t slots)
{
    tool_replay_node *n = &r->node[node];
    if (n->track != TOOL_REPLAY_NOBODY) r->track[n->track].slots += slots - n->slots;
    n->slots = slots;
}

static double share_of(uint64_t used, uint64_t all) { return all ? (double)used / (double)all : 0; }

void tool_replay_result_look(tool_replay_result *r, tool_replay_sample *s, size_t node,
                             const tool_replay_look *look)
{
    tool_replay_node *n = &r->node[node];
    const double pages_ratio = share_of(look->pages_used, look->pages);
    n->slots_used += look->slots_used;
    n->queued += look->queued;
    n->pages = look->pages;
    n->windows = look->windows;
    n->pages_ratio += pages_ratio;
    n->windows_ratio += share_of(look->windows_used, look->windows);
    if (n->track == TOOL_REPLAY_NOBODY) return;
    s->slots_used[n->track] += look->slots_used;
    s->queued[n->track] += look->queued;
    s->pages_ratio[n->track] += (float)pages_ratio / (float)r->track[n->track].nodes;
}

static void fold(tool_replay_heat *h)
{
    for (size_t i = 0; i < TOOL_REPLAY_COLUMNS / 2; i++)
        for (size_t k = 0; k < TOOL_REPLAY_HEAT_ROWS; k++)
            h->count[i][k] = h->count[2 * i][k] + h->count[2 * i + 1][k];
    memset(h->count[TOOL_REPLAY_COLUMNS / 2], 0, sizeof h->count / 2);
    h->columns = (h->columns + 1) / 2;
    h->width_us *= 2;
}

void tool_replay_result_gap(tool_replay_result *r, int64_t at_us, int64_t gap_us)
{
    tool_replay_heat *h = &r->heat;
    int row = 0;
    bt_trace_hist_add(&r->itl_us, (uint64_t)gap_us);
    while (at_us / h->width_us >= TOOL_REPLAY_COLUMNS) fold(h);
    for (uint64_t from = 64; row < TOOL_REPLAY_HEAT_ROWS - 2 && (uint64_t)gap_us >= from * 2; from *= 2)
        row += 2;
    const double half = 64.0 * (double)(1ull << (row / 2)) * 1.4142135623730951;
    if (gap_us > 64 && (double)gap_us >= half) row++;
    const uint32_t column = (uint32_t)(at_us / h->width_us);
    h->count[column][row]++;
    if (column >= h->columns) h->columns = column + 1;
}

void tool_replay_result_add(tool_replay_result *r, const tool_replay_record *one)
{
    if (r->len == r->cap) return; /* one record a request was made */
    r->record[r->len++] = *one;
    r->kind_count[one->kind]++;
    if (one->end_us > r->end_us) r->end_us = one->end_us;
}

void tool_replay_result_chunks(tool_replay_result *r, tool_replay_record *one, const tool_replay_chunk *chunk,
                               size_t chunks)
{
    if (r->chunks + chunks > TOOL_REPLAY_ALL_CHUNKS) return;
    if (r->chunks + chunks > r->chunks_cap) {
        const size_t cap = 2 * r->chunks_cap + chunks;
        tool_replay_chunk *more = reallocarray(r->chunk, cap, sizeof *more);
        if (!more) return;
        r->chunk = more;
        r->chunks_cap = cap;
    }
    if (chunks) memcpy(r->chunk + r->chunks, chunk, chunks * sizeof *chunk);
    one->chunk = (uint32_t)r->chunks;
    one->chunks = (uint32_t)chunks;
    r->chunks += chunks;
}

tool_replay_sample *tool_replay_result_sample(tool_replay_result *r)
{
    if (r->samples == TOOL_REPLAY_MAX_SAMPLES) {
        for (size_t i = 0; i < TOOL_REPLAY_MAX_SAMPLES / 2; i++) r->sample[i] = r->sample[2 * i];
        r->samples /= 2;
        r->sample_every_us *= 2;
    }
    tool_replay_sample *s = &r->sample[r->samples++];
    *s = (tool_replay_sample){0};
    r->looks++;
    return s;
}

/* ---- one request --------------------------------------------------------------------------------- */

int64_t tool_replay_ttft_us(const tool_replay_record *r)
{
    return r->first_us < 0 ? -1 : r->first_us - r->due_us;
}
int64_t tool_replay_e2e_us(const tool_replay_record *r) { return r->end_us < 0 ? -1 : r->end_us - r->due_us; }
int64_t tool_replay_late_us(const tool_replay_record *r)
{
    return r->sent_us < 0 ? -1 : r->sent_us - r->due_us;
}
int64_t tool_replay_tpot_us(const tool_replay_record *r)
{
    return r->first_us < 0 || r->completion_tokens < 2
               ? -1
               : (r->last_us - r->first_us) / (r->completion_tokens - 1);
}

bool tool_replay_meets(const tool_replay_record *r, const tool_replay_slo *slo)
{
    if (r->kind != TOOL_REPLAY_OK) return false;
    return (slo->ttft_us < 0 || (r->first_us >= 0 && tool_replay_ttft_us(r) <= slo->ttft_us)) &&
           (slo->tpot_us < 0 || tool_replay_tpot_us(r) <= slo->tpot_us) &&
           (slo->e2e_us < 0 || tool_replay_e2e_us(r) <= slo->e2e_us);
}

/* A number and its unit. */
static bool limit(int64_t *ret_us, const char *text, size_t len)
{
    static const struct {
        const char *name;
        size_t len;
        double us;
    } units[] = {{"us", 2, 1}, {"ms", 2, 1e3}, {"s", 1, 1e6}};
    char number[32];
    double x;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t n = len > units[i].len ? len - units[i].len : 0;
        if (n == 0 || n >= sizeof number || memcmp(text + n, units[i].name, units[i].len) != 0) continue;
        memcpy(number, text, n);
        number[n] = 0;
        if (bt_num_double(&x, number, 0, 1e9, NULL) < 0) return false;
        *ret_us = (int64_t)(x * units[i].us);
        return true;
    }
    return false;
}

bt_err tool_replay_slo_read(tool_replay_slo *ret, const char *text, bt_fault *fault)
{
    tool_replay_slo s = {-1, -1, -1};
    for (const char *at = text;;) {
        const size_t len = strcspn(at, ",");
        bool ok = false;
        if (!strncmp(at, "ttft:", 5)) ok = limit(&s.ttft_us, at + 5, len - 5);
        else if (!strncmp(at, "tpot:", 5)) ok = limit(&s.tpot_us, at + 5, len - 5);
        else if (!strncmp(at, "e2e:", 4)) ok = limit(&s.e2e_us, at + 4, len - 4);
        if (!ok)
            return bt_fail(
                fault, BT_EARG,
                "--slo '%.80s': '%.*s' is not ttft, tpot or e2e with a time, as in ttft:500ms,tpot:50ms",
                text, (int)len, at);
        if (!at[len]) break;
        at += len + 1;
    }
    *ret = s;
    return BT_OK;
}

/* ---- all of them --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at_rank(const double *value, size_t n, double share)
{
    const size_t rank = (size_t)ceil((double)n * share);
    return value[rank > 0 ? rank - 1 : 0];
}

tool_replay_spread tool_replay_spread_of(double *value, size_t n)
{
    tool_replay_spread s = {.n = n};
    double sum = 0;
    if (n == 0) return s;
    qsort(value, n, sizeof *value, by_value);
    for (size_t i = 0; i < n; i++) sum += value[i];
    s.mean = sum / (double)n;
    s.p50 = at_rank(value, n, 0.5);
    s.p90 = at_rank(value, n, 0.9);
    s.p99 = at_rank(value, n, 0.99);
    s.p999 = at_rank(value, n, 0.999);
    s.max = value[n - 1];
    return s;
}

static int64_t gateway_queue_of(const tool_replay_record *r) { return r->gateway_queue_us; }
static int64_t reserve_of(const tool_replay_record *r) { return r->reserve_us; }
static int64_t queue_of(const tool_replay_record *r) { return r->queue_us; }
static int64_t exposed_of(const tool_replay_record *r) { return r->exposed_us; }

/* Over requests that completed; the generator's own over all that were sent. */
static tool_replay_spread spread_of(double *scratch, const tool_replay_result *r,
                                    int64_t (*of)(const tool_replay_record *), bool is_of_all)
{
    size_t n = 0;
    for (size_t i = 0; i < r->len; i++) {
        const int64_t us = is_of_all || r->record[i].kind == TOOL_REPLAY_OK ? of(&r->record[i]) : -1;
        if (us >= 0) scratch[n++] = (double)us / 1e3;
    }
    return tool_replay_spread_of(scratch, n);
}

/* ---- what lateness can have moved ---- */

typedef struct lateness {
    int64_t due_us, first_us, end_us;
    double prompt_ms, steps_ms; /* how late its prompt was, and its steps */
    double sum_ms;              /* of prompts up to this one */
    uint32_t gaps;              /* between its tokens */
} lateness;

static int by_due(const void *a, const void *b)
{
    const int64_t x = ((const lateness *)a)->due_us, y = ((const lateness *)b)->due_us;
    return (x > y) - (x < y);
}

/* Prompts of all[from .. n) that were due before first_us, in sum from `from` on. */
static double late_before(const lateness *all, size_t from, size_t n, int64_t first_us)
{
    size_t low = from, high = n; /* all before low are due before */
    while (low < high) {
        const size_t at = (low + high) / 2;
        if (all[at].due_us < first_us) low = at + 1;
        else high = at;
    }
    const double before = from ? all[from - 1].sum_ms : 0;
    return low > from ? all[low - 1].sum_ms - before : 0;
}

static void move(tool_replay_move *m, double ms)
{
    m->mean_ms += ms; /* the sum so far */
    if (ms > m->worst_ms) m->worst_ms = ms;
}

static tool_replay_moved moved_by(lateness *all, size_t n)
{
    tool_replay_moved sum = {.ttft.mean_ms = 0};
    double tpots = 0;
    qsort(all, n, sizeof *all, by_due);
    for (size_t i = 0; i < n; i++) all[i].sum_ms = all[i].prompt_ms + (i ? all[i - 1].sum_ms : 0);
    for (size_t from = 0, to; from < n; from = to) { /* requests in flight without a gap */
        int64_t busy_us = all[from].end_us;
        for (to = from + 1; to < n && all[to].due_us <= busy_us; to++)
            if (all[to].end_us > busy_us) busy_us = all[to].end_us;
        for (size_t i = from; i < to; i++) {
            const double ttft_ms = late_before(all, from, to, all[i].first_us);
            move(&sum.ttft, ttft_ms);
            move(&sum.e2e, ttft_ms + all[i].steps_ms);
            if (!all[i].gaps) continue;
            move(&sum.tpot, all[i].steps_ms / all[i].gaps);
            tpots++;
        }
    }
    sum.ttft.mean_ms /= (double)n;
    sum.e2e.mean_ms /= (double)n;
    if (tpots > 0) sum.tpot.mean_ms /= tpots;
    return sum;
}

static bt_err look_at_pace(tool_replay_figures *f, const tool_replay_result *r, bt_fault *fault)
{
    size_t n = 0;
    lateness *all = malloc((r->len ? r->len : 1) * sizeof *all);
    if (!all) return bt_fail(fault, BT_ENOMEM, "out of memory for the pace of %zu requests", r->len);
    for (size_t i = 0; i < r->len; i++) {
        const tool_replay_record *o = &r->record[i];
        if (o->kind != TOOL_REPLAY_OK || o->paced_us <= 0 || o->first_us < 0) continue;
        const double late_ms = o->pace_late_us > 0 ? (double)o->pace_late_us / 1e3 : 0,
                     prompt_ms = o->prompt_late_us > 0 ? (double)o->prompt_late_us / 1e3 : 0;
        all[n++] = (lateness){.due_us = o->due_us,
                              .first_us = o->first_us,
                              .end_us = o->end_us,
                              .prompt_ms = prompt_ms,
                              .steps_ms = late_ms > prompt_ms ? late_ms - prompt_ms : 0,
                              .gaps = o->completion_tokens > 1 ? o->completion_tokens - 1 : 0};
        f->paced_s += (double)o->paced_us / 1e6;
        f->pace_late_s += late_ms / 1e3;
    }
    if (n) f->moved = moved_by(all, n);
    free(all);
    return BT_OK;
}

static void judge_generator(tool_replay_figures *f, const tool_replay_result *r)
{
    const double late = f->late_ms.p99, usual = f->ttft_ms.p50;
    f->busy_ratio = r->end_us > 0 ? (double)r->cpu_us / (double)r->end_us : 0;
    if (r->hit_streams_limit)
        (void)snprintf(f->bottleneck, sizeof f->bottleneck,
                       "all %u streams were in use and requests waited for one: raise --streams",
                       r->most_streams);
    else if (late > 10 && late > usual / 20)
        (void)snprintf(f->bottleneck, sizeof f->bottleneck,
                       "a hundredth of the requests left %.1f ms late or later", late);
    else if (f->busy_ratio > 0.9)
        (void)snprintf(f->bottleneck, sizeof f->bottleneck, "it used %.0f %% of a core", 100 * f->busy_ratio);
    f->is_bottleneck = f->bottleneck[0] != 0;
}

bt_err tool_replay_figures_of(tool_replay_figures *ret, const tool_replay_result *r,
                              const tool_replay_slo *slo, bt_fault *fault)
{
    const bt_trace_hist *h = &r->itl_us;
    tool_replay_figures f = {.requests = r->len};
    double *scratch = malloc((r->len ? r->len : 1) * sizeof *scratch);
    if (!scratch) return bt_fail(fault, BT_ENOMEM, "out of memory for figures of %zu requests", r->len);
    for (size_t i = 0; i < r->len; i++) {
        const tool_replay_record *one = &r->record[i];
        f.compared += one->was_compared;
        f.equal += one->is_equal;
        if (one->kind != TOOL_REPLAY_OK) continue;
        f.completed++;
        f.shorter += one->is_short;
        f.off_prompts += one->prompt_tokens != one->want_prompt;
        f.good += !slo || tool_replay_meets(one, slo);
        f.input_tokens += one->prompt_tokens;
        f.cached_tokens += one->cached_tokens;
        f.output_tokens += one->completion_tokens;
    }
    const bt_err e = look_at_pace(&f, r, fault);
    if (e < 0) {
        free(scratch);
        return e;
    }
    f.failed = f.requests - f.completed;
    f.seconds = (double)r->end_us / 1e6;
    if (f.seconds > 0) {
        f.requests_per_s = (double)f.completed / f.seconds;
        f.goodput_per_s = (double)f.good / f.seconds;
        f.input_per_s = (double)f.input_tokens / f.seconds;
        f.output_per_s = (double)f.output_tokens / f.seconds;
    }
    f.ttft_ms = spread_of(scratch, r, tool_replay_ttft_us, false);
    f.tpot_ms = spread_of(scratch, r, tool_replay_tpot_us, false);
    f.e2e_ms = spread_of(scratch, r, tool_replay_e2e_us, false);
    f.gateway_queue_ms = spread_of(scratch, r, gateway_queue_of, false);
    f.reserve_ms = spread_of(scratch, r, reserve_of, false);
    f.queue_ms = spread_of(scratch, r, queue_of, false);
    f.exposed_ms = spread_of(scratch, r, exposed_of, false);
    f.late_ms = spread_of(scratch, r, tool_replay_late_us, true);
    f.itl_ms = (tool_replay_spread){.n = h->n,
                                    .mean = bt_trace_hist_mean(h) / 1e3,
                                    .p50 = (double)bt_trace_hist_at(h, 0.5) / 1e3,
                                    .p90 = (double)bt_trace_hist_at(h, 0.9) / 1e3,
                                    .p99 = (double)bt_trace_hist_at(h, 0.99) / 1e3,
                                    .p999 = (double)bt_trace_hist_at(h, 0.999) / 1e3,
                                    .max = (double)h->largest / 1e3};
    judge_generator(&f, r);
    free(scratch);
    *ret = f;
    return BT_OK;
}
