/* The figures of a run as a table, as JSON and as CSV. */
#include "lab/replay/print.h"
#include "base/file.h"
#include "tools/csv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLOT = 60, MOST_POINTS = 20000 };

void tool_replay_bars(char *ret, const double *value, size_t n)
{
    static const char *const bar[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                      "\u2585", "\u2586", "\u2587", "\u2588"};
    double most = 0;
    char *to = ret;
    for (size_t i = 0; i < n; i++)
        if (value[i] > most) most = value[i];
    *to = 0;
    for (size_t i = 0; i < n; i++) {
        const int level = value[i] <= 0 || most <= 0 ? 0 : 1 + (int)(value[i] / most * 7);
        to = stpcpy(to, bar[level > 8 ? 8 : level]);
    }
}

static double part_of(double x, double all) { return all > 0 ? x / all : 0; }

/* ---- what was done to the trace ------------------------------------------------------------------ */

typedef struct teller {
    void (*line)(void *ud, const char *text);
    void *ud;
} teller;

__attribute__((format(printf, 2, 3))) static void tell(const teller *t, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    t->line(t->ud, text);
}

void tool_replay_tell(const tool_replay_outcome *r, void (*line)(void *ud, const char *text), void *ud)
{
    const tool_replay_plan *p = r->plan;
    const tool_replay_figures *f = r->figures;
    const teller t = {line, ud};
    if (p->scale < 1)
        tell(&t, "all lengths times %.4f, so that the longest request fits the context of %u tokens",
             p->scale, r->dialect->context_tokens);
    if (p->cut)
        tell(&t, "%llu requests cut to the context, by %llu tokens in all", (unsigned long long)p->cut,
             (unsigned long long)p->cut_tokens);
    if (p->tick_us && !r->concurrency)
        tell(&t, "arrivals come in batches: each spread at random over %.3g s", (double)p->tick_us / 1e6);
    if (p->block_tokens)
        tell(&t, "shared prefixes follow the trace's hashes, %u tokens a block", p->block_tokens);
    if (p->guessed_outputs)
        tell(&t, "%llu requests without a length of the answer in the trace",
             (unsigned long long)p->guessed_outputs);
    if (p->passed_over)
        tell(&t, "%llu requests of the trace passed over: it says that they failed",
             (unsigned long long)p->passed_over);
    if (r->dialect->has_no_usage)
        tell(&t, "the server's streams tell no usage: prompts count as asked for, answers by their pieces of "
                 "text");
    if (!r->dialect->takes_ids)
        tell(&t,
             "prompts went as text (%.3f words a token, measured); of %zu answers %zu count another length",
             r->dialect->words_per_token, f->completed, f->off_prompts);
    if (!r->dialect->ignores_eos)
        tell(&t, "the server does not take ignore_eos: answers end where the model ends them");
    if (f->shorter) tell(&t, "%zu answers have fewer tokens than asked for", f->shorter);
    if (f->compared) tell(&t, "%zu of %zu answers are the captured ones", f->equal, f->compared);
    if (f->paced_s > 0)
        tell(&t,
             "work was %.2f %% later than the pace of the devices, which moved mean times by at most: TTFT "
             "%.2f %%, "
             "TPOT %.2f %%, whole answers %.2f %%",
             100 * f->pace_late_s / f->paced_s, 100 * part_of(f->moved.ttft.mean_ms, f->ttft_ms.mean),
             100 * part_of(f->moved.tpot.mean_ms, f->tpot_ms.mean),
             100 * part_of(f->moved.e2e.mean_ms, f->e2e_ms.mean));
    if (f->is_bottleneck)
        tell(&t, "THIS GENERATOR WAS THE BOTTLENECK: %s. The figures are the server's only in part",
             f->bottleneck);
}

/* ---- for people ---------------------------------------------------------------------------------- */

static void print_spread(FILE *f, const char *name, const tool_replay_spread *s)
{
    if (s->n)
        fprintf(f, "%-12s %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f\n", name, s->mean, s->p50, s->p90, s->p99,
                s->p999, s->max);
}

static void print_line(void *ud, const char *text) { fprintf(ud, "note        %s\n", text); }

/* Means of the samples, or of the first tokens, in PLOT columns over the run. */
static void print_plots(FILE *f, const tool_replay_outcome *r)
{
    const tool_replay_result *s = r->result;
    double flight[PLOT] = {0}, ttft[PLOT] = {0}, flights[PLOT] = {0}, ttfts[PLOT] = {0}, most_flight = 0,
           most_ttft = 0;
    char text[3 * PLOT + 1];
    if (s->end_us <= 0) return;
    for (size_t i = 0; i < s->samples; i++) {
        const size_t c = (size_t)(s->sample[i].at_us * PLOT / (s->end_us + 1));
        if (c >= PLOT) continue;
        flight[c] += s->sample[i].in_flight;
        flights[c]++;
    }
    for (size_t i = 0; i < s->len; i++) {
        const size_t c = (size_t)(s->record[i].due_us * PLOT / (s->end_us + 1));
        if (s->record[i].kind != TOOL_REPLAY_OK || s->record[i].first_us < 0 || c >= PLOT) continue;
        ttft[c] += (double)tool_replay_ttft_us(&s->record[i]) / 1e3;
        ttfts[c]++;
    }
    for (size_t c = 0; c < PLOT; c++) {
        if (flights[c] > 0) flight[c] /= flights[c];
        if (ttfts[c] > 0) ttft[c] /= ttfts[c];
        if (flight[c] > most_flight) most_flight = flight[c];
        if (ttft[c] > most_ttft) most_ttft = ttft[c];
    }
    tool_replay_bars(text, flight, PLOT);
    fprintf(f, "in flight   |%s| most %.0f\n", text, most_flight);
    tool_replay_bars(text, ttft, PLOT);
    fprintf(f, "TTFT        |%s| most %.1f ms\n", text, most_ttft);
}

/* Prompts that each node computed, for the caller to free; NULL: no memory. */
static size_t *count_prompts(const tool_replay_result *s)
{
    size_t *n = calloc(s->nodes ? s->nodes : 1, sizeof *n);
    for (size_t i = 0; n && i < s->len; i++)
        if (s->record[i].node < s->nodes) n[s->record[i].node]++;
    return n;
}

static double mean_of(const tool_replay_result *s, double sum)
{
    return s->looks ? sum / (double)s->looks : 0;
}

static void print_node(FILE *f, const tool_replay_result *s, const char *name, const tool_replay_node *n,
                       size_t prompts)
{
    char windows[80] = "";
    if (n->windows)
        (void)snprintf(windows, sizeof windows, ", %.1f %% of those of window layers",
                       100 * mean_of(s, n->windows_ratio));
    fprintf(f,
            "%-11s %-8s %6zu prompts, on average %.1f of %u slots and %.1f %% of its pages in use%s, %.1f "
            "queued\n",
            name, n->role, prompts, mean_of(s, n->slots_used), n->slots, 100 * mean_of(s, n->pages_ratio),
            windows, mean_of(s, n->queued));
}

/* All nodes of a track as one: sums, and the mean share of pages. */
static void print_track(FILE *f, const tool_replay_result *s, size_t track, const size_t *prompts)
{
    tool_replay_node all = {.track = (uint16_t)track};
    size_t n = 0, sum = 0;
    for (size_t i = 0; i < s->nodes; i++) {
        const tool_replay_node *one = &s->node[i];
        if (one->track != track) continue;
        n++;
        all.slots += one->slots;
        all.slots_used += one->slots_used;
        all.queued += one->queued;
        all.pages_ratio += one->pages_ratio;
        all.windows += one->windows;
        all.windows_ratio += one->windows_ratio;
        sum += prompts[i];
    }
    (void)snprintf(all.role, sizeof all.role, "%zu nodes", n);
    if (n) all.pages_ratio /= (double)n;
    if (n) all.windows_ratio /= (double)n;
    if (n) print_node(f, s, s->track[track].name, &all, sum);
}

/* Each node, or where they are more than tracks each kind of them. */
static void print_nodes(FILE *f, const tool_replay_result *s)
{
    size_t *prompts = count_prompts(s);
    const bool is_grouped = s->nodes > TOOL_REPLAY_TRACKS;
    for (size_t i = 0; prompts && !is_grouped && i < s->nodes; i++)
        print_node(f, s, s->node[i].id, &s->node[i], prompts[i]);
    for (size_t i = 0; prompts && is_grouped && i < s->tracks; i++) print_track(f, s, i, prompts);
    free(prompts);
}

/* ---- each key ------------------------------------------------------------------------------------ */

bt_err tool_replay_figures_part(tool_replay_figures *ret, const tool_replay_outcome *o,
                                bool (*takes)(const tool_replay_item *item, uint32_t of), uint32_t of,
                                bt_fault *fault)
{
    tool_replay_result *one = malloc(sizeof *one);
    tool_replay_record *record = malloc((o->result->len ? o->result->len : 1) * sizeof *record);
    bt_err e = one && record ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for the figures of a part");
    if (e == BT_OK) {
        *one = *o->result;
        one->record = record;
        one->len = 0;
        one->cpu_us = 0;
        for (size_t i = 0; i < o->result->len; i++)
            if (takes(&o->plan->item[o->result->record[i].item], of))
                record[one->len++] = o->result->record[i];
        e = tool_replay_figures_of(ret, one, o->slo, fault);
    }
    free(record);
    free(one);
    return e;
}

static bool is_of_key(const tool_replay_item *item, uint32_t key) { return item->key == key; }

/* All tokens of answers that were complete; 0: none. */
static double tokens_of(const tool_replay_figures *g) { return (double)(g->input_tokens + g->output_tokens); }

static void print_keys(FILE *f, const tool_replay_outcome *r)
{
    const tool_replay_plan *p = r->plan;
    const double all = tokens_of(r->figures);
    if (p->keys == 0) return;
    fprintf(f, "%-24s %9s %7s %12s %8s %10s %10s %10s\n", "key", "requests", "failed", "tokens", "of all %",
            "TTFT p50", "p99 ms", "E2E p50");
    for (uint32_t i = 0; i < p->keys; i++) {
        tool_replay_figures g;
        if (tool_replay_figures_part(&g, r, is_of_key, i + 1, NULL) < 0) continue;
        fprintf(f, "%-24.24s %9zu %7zu %12.0f %8.1f %10.1f %10.1f %10.1f\n", p->key[i].name, g.requests,
                g.failed, tokens_of(&g), all > 0 ? 100 * tokens_of(&g) / all : 0, g.ttft_ms.p50,
                g.ttft_ms.p99, g.e2e_ms.p50);
    }
}

void tool_replay_print(FILE *f, const tool_replay_outcome *r)
{
    const tool_replay_figures *g = r->figures;
    const tool_replay_result *s = r->result;
    fprintf(f, "requests    %zu: %zu completed, %zu failed, in %.2f s\n", g->requests, g->completed,
            g->failed, g->seconds);
    for (size_t i = 1; i < s->kinds; i++)
        fprintf(f, "failed      %6llu  %s\n", (unsigned long long)s->kind_count[i], s->kind[i]);
    fprintf(f, "rate        %.2f requests/s, %.1f tokens/s in, %.1f tokens/s out\n", g->requests_per_s,
            g->input_per_s, g->output_per_s);
    if (r->slo)
        fprintf(f, "goodput     %.2f requests/s: %zu of %zu keep the limits\n", g->goodput_per_s, g->good,
                g->requests);
    fprintf(f, "prefix      %.1f %% of %llu prompt tokens were not computed again\n",
            g->input_tokens ? 100.0 * (double)g->cached_tokens / (double)g->input_tokens : 0,
            (unsigned long long)g->input_tokens);
    fprintf(f, "%-12s %10s %10s %10s %10s %10s %10s\n", "ms", "mean", "p50", "p90", "p99", "p99.9", "max");
    print_spread(f, "TTFT", &g->ttft_ms);
    print_spread(f, "TPOT", &g->tpot_ms);
    print_spread(f, "ITL", &g->itl_ms);
    print_spread(f, "E2E", &g->e2e_ms);
    print_spread(f, "queue", &g->gateway_queue_ms);
    print_spread(f, "reserve", &g->reserve_ms);
    print_spread(f, "node's queue", &g->queue_ms);
    print_spread(f, "KV exposed", &g->exposed_ms);
    print_spread(f, "sent late", &g->late_ms);
    print_plots(f, r);
    print_nodes(f, s);
    print_keys(f, r);
    fprintf(f, "generator   %u streams at a time at most, %.1f %% of a core, %.2f ms of CPU a request\n",
            s->most_streams, 100 * g->busy_ratio,
            g->requests ? (double)s->cpu_us / 1e3 / (double)g->requests : 0);
    tool_replay_tell(r, print_line, f);
}

/* ---- for programs -------------------------------------------------------------------------------- */

static json_t *spread_json(const tool_replay_spread *s)
{
    return s->n == 0 ? json_null()
                     : json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "mean", s->mean, "p50", s->p50, "p90",
                                 s->p90, "p99", s->p99, "p999", s->p999, "max", s->max);
}

static json_t *failures_json(const tool_replay_result *s)
{
    json_t *o = json_object();
    for (size_t i = 1; o && i < s->kinds; i++)
        if (json_object_set_new(o, s->kind[i], json_integer((json_int_t)s->kind_count[i])) < 0) break;
    return o;
}

static json_t *nodes_json(const tool_replay_result *s)
{
    json_t *a = json_array();
    size_t *prompts = count_prompts(s);
    for (size_t i = 0; a && prompts && i < s->nodes; i++) {
        const tool_replay_node *n = &s->node[i];
        json_t *one = json_pack("{s:s, s:s, s:I, s:I, s:f, s:I, s:f, s:I, s:f, s:f}", "id", n->id, "role",
                                n->role, "prompts", (json_int_t)prompts[i], "slots_total",
                                (json_int_t)n->slots, "slots_used", mean_of(s, n->slots_used), "pages_total",
                                (json_int_t)n->pages, "pages_used_ratio", mean_of(s, n->pages_ratio),
                                "window_pages_total", (json_int_t)n->windows, "window_pages_used_ratio",
                                mean_of(s, n->windows_ratio), "queued", mean_of(s, n->queued));
        if (json_array_append_new(a, one) < 0) break;
    }
    free(prompts);
    return a;
}

/* One value a completed request, for bootstraps: of a large run every k-th. */
/* A time of each request that has it, or the number of the request in the load. */
static json_t *times_json(const tool_replay_result *s, int64_t (*of)(const tool_replay_record *),
                          bool is_number)
{
    json_t *a = json_array();
    const size_t step = s->len / MOST_POINTS + 1;
    for (size_t i = 0; a && i < s->len; i += step) {
        const tool_replay_record *o = &s->record[i];
        const int64_t us = o->kind == TOOL_REPLAY_OK ? of(o) : -1;
        if (us < 0) continue;
        json_t *v = is_number ? json_integer(o->item) : json_real((double)us / 1e3);
        if (json_array_append_new(a, v) < 0) break;
    }
    return a;
}

/* Runs whose load has one digest have the same requests by number. */
static json_t *points_json(const tool_replay_outcome *r)
{
    char load[17];
    const tool_replay_result *s = r->result;
    (void)snprintf(load, sizeof load, "%016" PRIx64, tool_replay_plan_digest(r->plan, 1));
    return json_pack("{s:o, s:o, s:o, s:s, s:{s:o, s:o, s:o}}", "ttft_ms",
                     times_json(s, tool_replay_ttft_us, false), "tpot_ms",
                     times_json(s, tool_replay_tpot_us, false), "e2e_ms",
                     times_json(s, tool_replay_e2e_us, false), "load", load, "requests", "ttft_ms",
                     times_json(s, tool_replay_ttft_us, true), "tpot_ms",
                     times_json(s, tool_replay_tpot_us, true), "e2e_ms",
                     times_json(s, tool_replay_e2e_us, true));
}

static json_t *keys_json(const tool_replay_outcome *r)
{
    json_t *a = json_array();
    for (uint32_t i = 0; a && i < r->plan->keys; i++) {
        const tool_replay_key *k = &r->plan->key[i];
        tool_replay_figures g;
        if (tool_replay_figures_part(&g, r, is_of_key, i + 1, NULL) < 0) break;
        if (json_array_append_new(
                a, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "key", k->name, "weight",
                             (json_int_t)k->weight, "requests", (json_int_t)g.requests, "completed",
                             (json_int_t)g.completed, "failed", (json_int_t)g.failed, "input_tokens",
                             (json_int_t)g.input_tokens, "output_tokens", (json_int_t)g.output_tokens,
                             "ttft_ms", spread_json(&g.ttft_ms), "e2e_ms", spread_json(&g.e2e_ms),
                             "gateway_queue_ms", spread_json(&g.gateway_queue_ms))) < 0)
            break;
    }
    return a;
}

static void add_note(void *ud, const char *text) { (void)json_array_append_new(ud, json_string(text)); }

static json_t *moved_json(const tool_replay_move *m, const tool_replay_spread *of)
{
    return json_pack("{s:f, s:f, s:f}", "most_ms", m->mean_ms, "most_ratio", part_of(m->mean_ms, of->mean),
                     "worst_ms", m->worst_ms);
}

static json_t *pace_json(const tool_replay_figures *f)
{
    if (f->paced_s <= 0) return json_null();
    return json_pack("{s:f, s:f, s:f, s:{s:o, s:o, s:o}}", "paced_seconds", f->paced_s, "late_seconds",
                     f->pace_late_s, "late_ratio", f->pace_late_s / f->paced_s, "moved", "ttft_ms",
                     moved_json(&f->moved.ttft, &f->ttft_ms), "tpot_ms",
                     moved_json(&f->moved.tpot, &f->tpot_ms), "e2e_ms",
                     moved_json(&f->moved.e2e, &f->e2e_ms));
}

json_t *tool_replay_json(const tool_replay_outcome *r)
{
    const tool_replay_figures *f = r->figures;
    const tool_replay_result *s = r->result;
    json_t *notes = json_array();
    if (notes) tool_replay_tell(r, add_note, notes);
    json_t *o =
        json_pack("{s:s, s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:o, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I}",
                  "trace", r->trace, "url", r->url, "speed", r->speed, "concurrency",
                  (json_int_t)r->concurrency, "seed", (json_int_t)r->seed, "requests",
                  (json_int_t)f->requests, "completed", (json_int_t)f->completed, "failed",
                  (json_int_t)f->failed, "failures", failures_json(s), "seconds", f->seconds,
                  "requests_per_second", f->requests_per_s, "goodput_rps", f->goodput_per_s,
                  "input_tokens_per_second", f->input_per_s, "output_tokens_per_second", f->output_per_s,
                  "input_tokens", (json_int_t)f->input_tokens, "cached_tokens", (json_int_t)f->cached_tokens,
                  "output_tokens", (json_int_t)f->output_tokens);
    json_t *times =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "ttft_ms", spread_json(&f->ttft_ms), "tpot_ms",
                  spread_json(&f->tpot_ms), "itl_ms", spread_json(&f->itl_ms), "e2e_ms",
                  spread_json(&f->e2e_ms), "gateway_queue_ms", spread_json(&f->gateway_queue_ms),
                  "reserve_ms", spread_json(&f->reserve_ms), "queue_ms", spread_json(&f->queue_ms),
                  "kv_exposed_ms", spread_json(&f->exposed_ms));
    json_t *rest =
        json_pack("{s:o, s:{s:o, s:f, s:I, s:f, s:b}, s:f, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "nodes",
                  nodes_json(s), "generator", "late_ms", spread_json(&f->late_ms), "busy_ratio",
                  f->busy_ratio, "streams", (json_int_t)s->most_streams, "cpu_ms_per_request",
                  f->requests ? (double)s->cpu_us / 1e3 / (double)f->requests : 0.0, "is_bottleneck",
                  (int)f->is_bottleneck, "length_scale", r->plan->scale, "cut_requests",
                  (json_int_t)r->plan->cut, "short_answers", (json_int_t)f->shorter,
                  "prompts_of_other_length", (json_int_t)f->off_prompts, "answers_compared",
                  (json_int_t)f->compared, "answers_equal", (json_int_t)f->equal, "notes", notes, "points",
                  points_json(r));
    if (!rest || json_object_set_new(rest, "pace", pace_json(f)) < 0 ||
        json_object_set_new(rest, "keys", keys_json(r)) < 0 ||
        (r->made_by && json_object_set(rest, "made_by", r->made_by) < 0)) {
        json_decref(rest);
        rest = NULL;
    }
    const bool ok =
        o && times && rest && json_object_update(o, times) == 0 && json_object_update(o, rest) == 0;
    json_decref(times);
    json_decref(rest);
    if (ok) return o;
    json_decref(o);
    return NULL;
}

static void put_ms(FILE *f, int64_t us)
{
    if (us < 0) fputc(',', f);
    else fprintf(f, ",%.3f", (double)us / 1e3);
}

static void put_row(FILE *f, const tool_replay_result *s, const tool_replay_record *o)
{
    fprintf(f, "%u,", o->item);
    tool_csv_text(f, s->kind[o->kind]);
    fprintf(f, ",%u,%u,%u,%u,%u", o->want_prompt, o->prompt_tokens, o->cached_tokens, o->want_output,
            o->completion_tokens);
    const int64_t times[] = {o->due_us,
                             tool_replay_late_us(o),
                             tool_replay_ttft_us(o),
                             tool_replay_tpot_us(o),
                             tool_replay_e2e_us(o),
                             o->stall_us,
                             o->gateway_queue_us,
                             o->reserve_us,
                             o->queue_us,
                             o->prefill_us,
                             o->exposed_us,
                             o->transfer_us,
                             o->decode_us};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) put_ms(f, times[i]);
    fputc(',', f);
    tool_csv_text(f, o->node < s->nodes ? s->node[o->node].id : "");
    fputc('\n', f);
}

bt_err tool_replay_csv(const char *path, const tool_replay_outcome *r, bt_fault *fault)
{
    bt_file_new out = {.fd = -1};
    bt_err e = bt_file_begin(&out, path, fault);
    const int fd = e == BT_OK ? dup(out.fd) : -1; /* fclose closes its own */
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (e < 0) goto out;
    if (!f) {
        if (fd >= 0) close(fd);
        e = bt_fail(fault, BT_EIO, "cannot open '%.150s': %s", path, strerror(errno));
        goto out;
    }
    fputs("request,result,prompt_wanted,prompt_tokens,cached_tokens,output_wanted,output_tokens,due_ms,late_"
          "ms,ttft_ms,"
          "tpot_ms,e2e_ms,longest_gap_ms,gateway_queue_ms,reserve_ms,queue_ms,prefill_ms,kv_exposed_ms,kv_"
          "transfer_ms,decode_ms,node\n",
          f);
    for (size_t i = 0; i < r->result->len; i++) put_row(f, r->result, &r->result->record[i]);
    const bool ok = !ferror(f);
    if (fclose(f) != 0 || !ok) e = bt_fail(fault, BT_EIO, "cannot write '%.150s': %s", path, strerror(errno));
    else e = bt_file_keep(&out, 0666, fault);
out:
    bt_file_done(&out);
    return e;
}
