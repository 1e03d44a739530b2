/* A run as a page: the template, and its data as JSON in the middle of it. Rows are written one by one. */
#include "lab/replay/report.h"
#include "base/file.h"
#include "lab/page/page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char page[] =
#include "lab/replay/page.html.h"
    ;

typedef struct list {
    FILE *f;
    bool is_next, is_bad;
} list;

static void put_note(void *ud, const char *text)
{
    list *l = ud;
    if (l->is_next) fputc(',', l->f);
    l->is_next = true;
    l->is_bad |= !tool_page_text(l->f, text);
}

__attribute__((format(printf, 3, 4))) static void put_fact(list *l, const char *name, const char *fmt, ...)
{
    char value[sizeof((tool_replay_fact *)NULL)->value];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    fputs(l->is_next ? ",\n[" : "\n[", l->f);
    l->is_next = true;
    l->is_bad |= !tool_page_text(l->f, name);
    fputc(',', l->f);
    l->is_bad |= !tool_page_text(l->f, value);
    fputc(']', l->f);
}

static bool put_facts(FILE *f, const tool_replay_outcome *r)
{
    const tool_replay_figures *g = r->figures;
    list l = {f, false, false};
    fputs(",\n\"facts\": [", f);
    put_fact(&l, "requests", "%zu: %zu completed, %zu failed", g->requests, g->completed, g->failed);
    for (size_t i = 1; i < r->result->kinds; i++)
        put_fact(&l, "failed", "%" PRIu64 " %s", r->result->kind_count[i], r->result->kind[i]);
    put_fact(&l, "time", "%.2f s", g->seconds);
    put_fact(&l, "served", "%.3f requests/s", g->requests_per_s);
    if (r->slo) put_fact(&l, "goodput", "%.3f requests/s: %zu keep the limits", g->goodput_per_s, g->good);
    put_fact(&l, "tokens in", "%" PRIu64 ", %.1f a second", g->input_tokens, g->input_per_s);
    put_fact(&l, "tokens out", "%" PRIu64 ", %.1f a second", g->output_tokens, g->output_per_s);
    put_fact(&l, "prefix hits", "%.1f %% of the prompts' tokens",
             g->input_tokens ? 100.0 * (double)g->cached_tokens / (double)g->input_tokens : 0);
    if (!r->fact)
        put_fact(&l, "generator", "%u streams at most, %.1f %% of a core", r->result->most_streams,
                 100 * g->busy_ratio);
    for (size_t i = 0; i < r->facts; i++) put_fact(&l, r->fact[i].name, "%s", r->fact[i].value);
    fputs("],\n\"notes\": [", f);
    l.is_next = false;
    if (r->warning) put_note(&l, r->warning);
    tool_replay_tell(r, put_note, &l);
    fputc(']', f);
    return !l.is_bad;
}

static void put_spreads(FILE *f, const tool_replay_figures *g)
{
    const struct {
        const char *name;
        const tool_replay_spread *s;
    } all[] = {{"TTFT", &g->ttft_ms},           {"TPOT", &g->tpot_ms},
               {"ITL (gaps)", &g->itl_ms},      {"E2E", &g->e2e_ms},
               {"queue", &g->gateway_queue_ms}, {"reserve", &g->reserve_ms},
               {"node's queue", &g->queue_ms},  {"KV exposed", &g->exposed_ms},
               {"sent late", &g->late_ms}};
    bool is_next = false;
    fputs(",\n\"spreads\": [", f);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const tool_replay_spread *s = all[i].s;
        if (s->n == 0) continue;
        fprintf(f, "%s[\"%s\",%.3f,%.3f,%.3f,%.3f,%.3f,%.3f]", is_next ? ",\n" : "\n", all[i].name, s->mean,
                s->p50, s->p90, s->p99, s->p999, s->max);
        is_next = true;
    }
    fputc(']', f);
}

/* A page opens as fast as it is short, and draws as soon as what is drawn has come: so it has columns, first
 * those that are drawn, as numbers that a browser reads fast, and all others, shorter, behind its script.
 * Times stand as what they come after another, due after due. */
static size_t step_of(const tool_replay_result *s)
{
    return s->len ? (s->len - 1) / TOOL_REPLAY_REPORT_REQUESTS + 1 : 1;
}

/* One column: a value of each request in the page; before: the one before it, NULL for the first. */
typedef int64_t column_of(const tool_replay_record *r, const tool_replay_record *before);

static int64_t col_kind(const tool_replay_record *r, const tool_replay_record *b) { return (void)b, r->kind; }
static int64_t col_due(const tool_replay_record *r, const tool_replay_record *b)
{
    return r->due_us - (b ? b->due_us : 0);
}
static int64_t col_first(const tool_replay_record *r, const tool_replay_record *b)
{
    return (void)b, r->first_us >= 0 ? r->first_us - r->due_us : -1;
}
static int64_t col_item(const tool_replay_record *r, const tool_replay_record *b)
{
    return (int64_t)r->item - (b ? (int64_t)b->item : 0);
}
static int64_t col_sent(const tool_replay_record *r, const tool_replay_record *b)
{
    return (void)b, r->sent_us - r->due_us;
}
static int64_t col_last(const tool_replay_record *r, const tool_replay_record *b)
{
    return (void)b, r->first_us >= 0 ? r->last_us - r->first_us : -1;
}
static int64_t col_end(const tool_replay_record *r, const tool_replay_record *b)
{
    return (void)b, r->end_us - (r->first_us >= 0 ? r->last_us : r->sent_us);
}
static int64_t col_stall_at(const tool_replay_record *r, const tool_replay_record *b)
{
    return (void)b, r->stall_us > 0 ? r->stall_at_us - r->first_us : -1;
}
#define COLUMN(name) \
    static int64_t col_##name(const tool_replay_record *r, const tool_replay_record *b) \
    { \
        return (void)b, r->name; \
    }
COLUMN(prompt_tokens)
COLUMN(cached_tokens)
COLUMN(completion_tokens)
COLUMN(gateway_queue_us)
COLUMN(reserve_us)
COLUMN(queue_us)
COLUMN(server_ttft_us)
COLUMN(prefill_us)
COLUMN(exposed_us)
COLUMN(transfer_us)
COLUMN(stall_us)
COLUMN(node)

/* A number as source maps have it (base64 VLQ): the sign, then five bits a digit, the lowest first; 32: more
 * follow. */
static void put_number(FILE *f, int64_t value)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint64_t rest = value < 0 ? (uint64_t)-value << 1 | 1 : (uint64_t)value << 1;
    for (; rest > 31; rest >>= 5) fputc(digit[(rest & 31) | 32], f);
    fputc(digit[rest], f);
}

static void put_columns(FILE *f, const tool_replay_result *s, column_of *const *of, size_t n)
{
    const size_t step = step_of(s);
    for (size_t c = 0; c < n; c++) {
        fputs(c ? ",\n\"" : "\n\"", f);
        for (size_t i = 0; i < s->len; i += step)
            put_number(f, of[c](&s->record[i], i ? &s->record[i - step] : NULL));
        fputc('"', f);
    }
}

static void put_drawn(FILE *f, const tool_replay_result *s)
{
    static column_of *const drawn[] = {col_kind, col_due, col_first};
    const size_t step = step_of(s);
    fputs(",\n\"requests\": [", f);
    for (size_t c = 0; c < sizeof drawn / sizeof *drawn; c++) {
        fputs(c ? "],\n[" : "\n[", f);
        for (size_t i = 0; i < s->len; i += step)
            fprintf(f, i ? ",%" PRId64 : "%" PRId64,
                    drawn[c](&s->record[i], i ? &s->record[i - step] : NULL));
    }
    fputs("]]", f);
}

static void put_rest(FILE *f, const tool_replay_result *s)
{
    static column_of *const rest[] = {col_item,
                                      col_sent,
                                      col_last,
                                      col_end,
                                      col_prompt_tokens,
                                      col_cached_tokens,
                                      col_completion_tokens,
                                      col_gateway_queue_us,
                                      col_reserve_us,
                                      col_queue_us,
                                      col_server_ttft_us,
                                      col_prefill_us,
                                      col_exposed_us,
                                      col_transfer_us,
                                      col_stall_us,
                                      col_stall_at,
                                      col_node};
    fputc('[', f);
    put_columns(f, s, rest, sizeof rest / sizeof *rest);
    fputs(",\n\"", f);
    for (size_t i = 0; i < s->len; i += step_of(s)) {
        const tool_replay_record *o = &s->record[i];
        put_number(f, o->chunks);
        for (uint32_t k = 0; k < o->chunks; k++) {
            const tool_replay_chunk *c = &s->chunk[o->chunk + k];
            const uint32_t part[] = {c->tokens, c->begin_us, c->end_us, c->chunks};
            for (size_t v = 0; v < sizeof part / sizeof *part; v++) put_number(f, part[v]);
        }
    }
    fputs("\"]\n", f);
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

enum { POINTS = 400 }; /* of a curve, and one more */

/* One number of each request that got an answer, or of as many as there is memory for. */
static void put_curve(FILE *f, const char *name, const tool_replay_result *s,
                      int64_t (*of)(const tool_replay_record *), const char *color)
{
    size_t n = 0;
    int64_t *us = malloc((s->len ? s->len : 1) * sizeof *us);
    for (size_t i = 0; us && i < s->len; i++) {
        const int64_t x = s->record[i].kind == TOOL_REPLAY_OK ? of(&s->record[i]) : -1;
        if (x >= 0) us[n++] = x;
    }
    if (n > 0) qsort(us, n, sizeof *us, ascending);
    const size_t points = n <= POINTS ? n : POINTS + 1;
    fprintf(f, "[\"%s\",\"%s\",[", name, color);
    for (size_t k = 0; k < points; k++)
        fprintf(f, "%s%" PRId64, k ? "," : "", us[points == n ? k : k * (n - 1) / POINTS]);
    fputs("]],\n", f);
    free(us);
}

static void put_curves(FILE *f, const tool_replay_result *s)
{
    fputs(",\n\"curves\": [\n", f);
    put_curve(f, "TTFT", s, tool_replay_ttft_us, "--k0");
    put_curve(f, "TPOT", s, tool_replay_tpot_us, "--k1");
    put_curve(f, "E2E", s, tool_replay_e2e_us, "--k3");
    fputs("[\"gap (ITL)\",\"--k2\",[", f);
    for (size_t i = 0; s->itl_us.n && i <= POINTS; i++)
        fprintf(f, "%s%" PRIu64, i ? "," : "", bt_trace_hist_at(&s->itl_us, (double)i / POINTS));
    fputs("]]]", f);
}

/* Time, in flight, waiting, running; of each track its slots or queue, and its pages, as shares. */
static void put_samples(FILE *f, const tool_replay_result *s)
{
    const size_t step = s->samples ? (s->samples - 1) / TOOL_REPLAY_REPORT_SAMPLES + 1 : 1;
    fputs(",\n\"samples\": [", f);
    for (size_t i = 0; i < s->samples; i += step) {
        const tool_replay_sample *o = &s->sample[i];
        fprintf(f, "%s[%" PRId64 ",%u,%u,%u", i ? ",\n" : "\n", o->at_us, o->in_flight, o->waiting,
                o->running);
        for (size_t k = 0; k < s->tracks; k++) {
            const double busy = s->track[k].slots
                                    ? (double)(o->slots_used[k] + o->queued[k]) / s->track[k].slots
                                    : o->queued[k] > 0;
            fprintf(f, ",%.3g,%.3g", busy, (double)o->pages_ratio[k]);
        }
        fputc(']', f);
    }
    fputc(']', f);
}

static void put_gaps(FILE *f, const tool_replay_result *s)
{
    const tool_replay_heat *h = &s->heat;
    fprintf(f, ",\n\"heat\": {\"width_us\": %" PRId64 ", \"rows\": %d, \"cells\": [", h->width_us,
            TOOL_REPLAY_HEAT_ROWS);
    for (uint32_t c = 0; c < h->columns; c++) {
        fputs(c ? ",\n[" : "\n[", f);
        for (size_t r = 0; r < TOOL_REPLAY_HEAT_ROWS; r++) fprintf(f, "%s%u", r ? "," : "", h->count[c][r]);
        fputc(']', f);
    }
    fputs("]}", f);
}

static bool put_names(FILE *f, const tool_replay_result *s)
{
    bool ok = true;
    fputs(",\n\"kinds\": [", f);
    for (size_t i = 0; ok && i < s->kinds; i++) {
        if (i) fputc(',', f);
        ok = tool_page_text(f, s->kind[i]);
    }
    fputs("],\n\"nodes\": [", f);
    for (size_t i = 0; ok && i < s->tracks; i++) {
        if (i) fputc(',', f);
        ok = tool_page_text(f, s->track[i].name);
    }
    fputs("],\n\"ids\": [", f);
    for (size_t i = 0; ok && i < s->nodes; i++) {
        if (i) fputc(',', f);
        ok = tool_page_text(f, s->node[i].id);
    }
    fputc(']', f);
    return ok;
}

/* As wide as a time of the means is uncertain, in the colour of its curve. */
static void put_bands(FILE *f, const tool_replay_band *b)
{
    static const int color[TOOL_REPLAY_BANDS] = {0, 1, 3};
    fputs(",\n\"bands\": [", f);
    for (size_t i = 0; b && i < TOOL_REPLAY_BANDS; i++)
        fprintf(f, "%s[%.0f,%.0f,%d]", i ? "," : "", b[i].low_ms * 1000, b[i].high_ms * 1000, color[i]);
    fputc(']', f);
}

static void put_slo(FILE *f, const tool_replay_slo *slo)
{
    bool is_next = false;
    fputs(",\n\"slo\": [", f);
    const struct {
        const char *name;
        int64_t us;
        int color;
    } limits[] = {{"TTFT", slo ? slo->ttft_us : -1, 0},
                  {"TPOT", slo ? slo->tpot_us : -1, 1},
                  {"E2E", slo ? slo->e2e_us : -1, 3}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (limits[i].us < 0) continue;
        fprintf(f, "%s[\"%s\",%" PRId64 ",%d]", is_next ? "," : "", limits[i].name, limits[i].us,
                limits[i].color);
        is_next = true;
    }
    fputc(']', f);
}

static bool put_page(FILE *f, const tool_replay_outcome *r)
{
    const tool_replay_result *s = r->result;
    char title[600], subtitle[2800], load[64];
    (void)snprintf(load, sizeof load, r->concurrency ? "%.0f at a time" : "speed %g",
                   r->concurrency ? (double)r->concurrency : r->speed);
    (void)snprintf(title, sizeof title, "%s of %s", r->fact ? "Simulation" : "Replay", r->trace);
    (void)snprintf(subtitle, sizeof subtitle, "%s%s%s, %s, seed %" PRIu64 "%s", r->dialect->model,
                   r->fact ? ", " : " at ", r->url, load, r->seed,
                   s->len > TOOL_REPLAY_REPORT_REQUESTS ? "; not every request is in this page" : "");
    const char *rest = tool_page_until(f, page, "@MADE_BY@\n");
    tool_page_made_by(f, r->made_by);
    rest = tool_page_until(f, rest, "@DATA@\n");
    fputs("{\"title\": ", f);
    if (!tool_page_text(f, title) || fputs(",\n\"subtitle\": ", f) < 0 || !tool_page_text(f, subtitle))
        return false;
    fprintf(f, ",\n\"end_us\": %" PRId64, s->end_us);
    if (!put_facts(f, r) || !put_names(f, s)) return false;
    put_slo(f, r->slo);
    put_bands(f, r->band);
    put_spreads(f, r->figures);
    put_drawn(f, s);
    put_curves(f, s);
    put_samples(f, s);
    put_gaps(f, s);
    if (r->made_by && (fputs(",\n\"made_by\": ", f) < 0 || !tool_page_json(f, r->made_by, 0))) return false;
    fputs("\n}\n", f);
    rest = tool_page_until(f, rest, "@ROWS@\n");
    put_rest(f, s);
    return fputs(rest, f) >= 0;
}

bt_err tool_replay_report(const char *path, const tool_replay_outcome *r, bt_fault *fault)
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
    bool ok = put_page(f, r);
    ok = !ferror(f) && ok;
    if (fclose(f) != 0 || !ok) e = bt_fail(fault, BT_EIO, "cannot write '%.150s': %s", path, strerror(errno));
    else e = bt_file_keep(&out, 0666, fault);
out:
    bt_file_done(&out);
    return e;
}
