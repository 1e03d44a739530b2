/* The result of a sweep: a table, JSON, a picture. See range.h. */
#include "base/buf.h"
#include "base/file.h"
#include "device/forecast.h"
#include "lab/page/page.h"
#include "lab/simulate/range.h"
#include "lab/simulate/show.h"
#include "lab/trace/chart.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 640,
    HEIGHT = 420,
    MAX_BYTES = 4 << 20,
    LEFT = 70,
    TOP = 70,
    PLOT_WIDTH = 520,
    PLOT_HEIGHT = 280
};

static const char *cost_name(const tool_simulate_range *r) { return tool_simulate_costs[r->rates.kind]; }

static bool has_joules(const tool_simulate_found *x) { return x->len && x->point[0].joules >= 0; }

static bool lacks_joules(char ret[TOOL_SIMULATE_NO_JOULES], const tool_simulate_range *r)
{
    const tool_simulate_side *const side[] = {&r->setup->prefill, &r->setup->decode};
    for (size_t i = 0; i < 2; i++)
        for (size_t g = 0; g < side[i]->len; g++)
            if (tool_simulate_lacks_joules(ret, &side[i]->group[g].profile)) return true;
    return false;
}

/* ---- what draws say ---- */

static const tool_simulate_point *cheapest_of(const tool_simulate_found *x)
{
    return x->cheapest < x->len ? &x->point[x->cheapest] : NULL;
}

/* "83 of 100", "" without draws. Returns ret. */
static char *kept_text(char ret[32], const tool_simulate_found *x, const tool_simulate_point *p)
{
    ret[0] = 0;
    if (x->votes.draws)
        (void)snprintf(ret, 32, "%u of %u", (unsigned)tool_simulate_kept(&x->votes, p),
                       (unsigned)x->votes.draws);
    return ret;
}

enum { TIES = 6, VERDICT_BYTES = 320 };

/* Whether the cheapest is the cheapest, whatever the devices really take. "": no draws, or no cluster. */
static char *verdict_text(char ret[VERDICT_BYTES], const tool_simulate_found *x)
{
    const tool_simulate_votes *v = &x->votes;
    const tool_simulate_point *best = cheapest_of(x);
    ret[0] = 0;
    if (!v->draws || !best) return ret;
    const uint32_t wins = tool_simulate_wins(v, best);
    size_t n =
        (size_t)snprintf(ret, VERDICT_BYTES, "%s%u + %u is the cheapest in %u of %u draws",
                         wins < BT_FORECAST_CERTAIN * (double)v->draws ? "cannot tell: " : "",
                         (unsigned)best->prefill, (unsigned)best->decode, (unsigned)wins, (unsigned)v->draws);
    size_t ties = 0;
    for (size_t i = 0; i < v->votes; i++) {
        const tool_simulate_vote *t = &v->vote[i];
        if (!t->is_tie || ++ties > TIES) continue;
        n += (size_t)snprintf(ret + n, VERDICT_BYTES - n, ", %u + %u in %u", (unsigned)t->prefill,
                              (unsigned)t->decode, (unsigned)t->wins);
    }
    if (ties > TIES) (void)snprintf(ret + n, VERDICT_BYTES - n, ", %zu more in the others", ties - TIES);
    return ret;
}

/* The cluster to take where nine in ten draws are to be met. "": no draws, or not known. */
static char *sure_text(char ret[VERDICT_BYTES], const tool_simulate_found *x, const tool_simulate_range *r)
{
    const tool_simulate_votes *v = &x->votes;
    tool_simulate_point p;
    ret[0] = 0;
    if (!v->draws || r->rates.kind == TOOL_SIMULATE_JOULES) return ret;
    if (!tool_simulate_sure(v, &r->rates, &p))
        (void)snprintf(ret, VERDICT_BYTES, "no cluster of the range carries the load in nine of ten draws");
    else
        (void)snprintf(ret, VERDICT_BYTES,
                       "%u + %u is the cheapest that carries the load in nine of ten: in %u of %u",
                       (unsigned)p.prefill, (unsigned)p.decode, (unsigned)tool_simulate_kept(v, &p),
                       (unsigned)v->draws);
    return ret;
}

static json_t *vote_json(const tool_simulate_votes *v, const tool_simulate_point *p)
{
    if (!v->draws) return json_null();
    return json_pack("{s:f, s:f}", "carried_ratio", tool_simulate_kept(v, p) / (double)v->draws,
                     "cheapest_ratio", tool_simulate_wins(v, p) / (double)v->draws);
}

static json_t *decode_json(uint32_t decode)
{
    return decode == TOOL_SIMULATE_UNMET ? json_null() : json_integer(decode);
}

static json_t *draws_json(const tool_simulate_found *x, const tool_simulate_range *r)
{
    const tool_simulate_votes *v = &x->votes;
    json_t *band = json_array();
    uint32_t carried = 0;
    if (!v->draws) {
        json_decref(band);
        return json_null();
    }
    for (size_t i = 0; i < v->votes; i++) carried += v->vote[i].wins;
    for (size_t i = 0; i < v->rows; i++)
        (void)json_array_append_new(band,
                                    json_pack("{s:I, s:o, s:o}", "prefill", (json_int_t)v->row[i], "low",
                                              decode_json(v->low[i]), "high", decode_json(v->high[i])));
    return json_pack("{s:I, s:I, s:f, s:o}", "count", (json_int_t)v->draws, "seed",
                     (json_int_t)r->setup->seed, "carried_ratio", carried / (double)v->draws, "band", band);
}

static json_t *ties_json(const tool_simulate_votes *v)
{
    json_t *ties = json_array();
    for (size_t i = 0; i < v->votes; i++)
        if (v->vote[i].is_tie)
            (void)json_array_append_new(ties, json_pack("{s:I, s:I, s:f}", "prefill",
                                                        (json_int_t)v->vote[i].prefill, "decode",
                                                        (json_int_t)v->vote[i].decode, "cheapest_ratio",
                                                        v->vote[i].wins / (double)v->draws));
    return ties;
}

static json_t *certain_json(const tool_simulate_found *x)
{
    const tool_simulate_point *best = cheapest_of(x);
    if (!x->votes.draws || !best) return json_null();
    return json_real(tool_simulate_wins(&x->votes, best) / (double)x->votes.draws);
}

static json_t *sure_json(const tool_simulate_found *x, const tool_simulate_range *r)
{
    tool_simulate_point p;
    if (!x->votes.draws || !tool_simulate_sure(&x->votes, &r->rates, &p)) return json_null();
    return json_pack("{s:I, s:I, s:f, s:f}", "prefill", (json_int_t)p.prefill, "decode", (json_int_t)p.decode,
                     "cost", tool_simulate_cost(&r->rates, &p), "carried_ratio",
                     tool_simulate_kept(&x->votes, &p) / (double)x->votes.draws);
}

/* ---- the table ---- */

void tool_simulate_found_print(FILE *f, const tool_simulate_found *x, const tool_simulate_range *r)
{
    char text[VERDICT_BYTES];
    char why[TOOL_SIMULATE_NO_JOULES];
    fprintf(f, "%8s %8s %8s %10s %12s %12s %12s %12s%s\n", "prefill", "decode", "good %", "goodput/s",
            "TTFT p99 ms", "TPOT p99 ms", "J/request", cost_name(r), x->votes.draws ? "  carries in" : "");
    for (size_t i = 0; i < x->len; i++) {
        const tool_simulate_point *p = &x->point[i];
        const double cost = tool_simulate_cost(&r->rates, p);
        char joules[32] = "-", money[32] = "-", kept[32];
        if (p->joules >= 0 && p->requests > p->failed)
            (void)snprintf(joules, sizeof joules, "%.2f", p->joules / (double)(p->requests - p->failed));
        if (cost >= 0) (void)snprintf(money, sizeof money, "%.6g", cost);
        fprintf(f, "%8u %8u %8.2f %10.3f %12.1f %12.1f %12s %12s", p->prefill, p->decode,
                p->requests ? 100.0 * (double)p->good / (double)p->requests : 0, p->goodput_rps,
                p->ttft_p99_ms, p->tpot_p99_ms, joules, money);
        if (*kept_text(kept, x, p)) fprintf(f, " %11s", kept);
        fprintf(f, "%s\n", i == x->cheapest ? "  cheapest" : "");
    }
    if (!x->len) fprintf(f, "none of these clusters carries the load\n");
    else if (x->cheapest == x->len) fprintf(f, "none has a cost in %s\n", cost_name(r));
    if (*verdict_text(text, x)) fprintf(f, "verdict     %s\n", text);
    if (*sure_text(text, x, r)) fprintf(f, "sure        %s\n", text);
    if (lacks_joules(why, r)) fprintf(f, "energy      not known: %s\n", why);
    tool_simulate_errors_print(f, r->setup, r->plan, NULL, has_joules(x));
    tool_simulate_ignored_print(f, r->setup);
    size_t tried = x->tried.len;
    for (uint32_t i = 0; i < x->votes.draws; i++) tried += x->drawn[i].len;
    fprintf(f, "tried       %zu clusters, %zu of them read from a file\n", tried, x->again);
    if (r->shard.of)
        fprintf(f, "part        %u of %u of the rows: run without --shard on all points for the whole\n",
                r->shard.part, r->shard.of);
}

static json_t *point_json(const tool_simulate_point *p, const tool_simulate_found *x,
                          const tool_simulate_range *r)
{
    const double cost = tool_simulate_cost(&r->rates, p);
    return json_pack("{s:I, s:I, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:o, s:o, s:o, s:o}", "prefill",
                     (json_int_t)p->prefill, "decode", (json_int_t)p->decode, "carried", (int)p->is_carried,
                     "requests", (json_int_t)p->requests, "good", (json_int_t)p->good, "failed",
                     (json_int_t)p->failed, "goodput_rps", p->goodput_rps, "ttft_p99_ms", p->ttft_p99_ms,
                     "tpot_p99_ms", p->tpot_p99_ms, "joules",
                     p->joules >= 0 ? json_real(p->joules) : json_null(), "cost",
                     cost >= 0 ? json_real(cost) : json_null(), "error",
                     tool_simulate_errors(r->setup, r->plan, NULL), "draws", vote_json(&x->votes, p));
}

json_t *tool_simulate_found_json(const tool_simulate_found *x, const tool_simulate_range *r)
{
    char why[TOOL_SIMULATE_NO_JOULES];
    json_t *points = json_array();
    for (size_t i = 0; points && i < x->len; i++)
        if (json_array_append_new(points, point_json(&x->point[i], x, r)) < 0) break;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:f, s:I, s:I, s:O*}", "points", points,
                     "no_joules", lacks_joules(why, r) ? json_string(why) : json_null(), "ignored",
                     tool_simulate_ignored(r->setup), "cheapest",
                     x->cheapest < x->len ? point_json(&x->point[x->cheapest], x, r) : json_null(), "draws",
                     draws_json(x, r), "certain", certain_json(x), "ties", ties_json(&x->votes), "sure",
                     sure_json(x, r), "cost", cost_name(r), "share", r->share, "tried",
                     (json_int_t)x->tried.len, "read", (json_int_t)x->again, "made_by", r->made_by);
}

static const char dot_style[] =
    ".yes{fill:var(--c);stroke:var(--c)}.no{fill:var(--back);stroke:var(--b);stroke-width:1.5}";

/* ---- the picture --------------------------------------------------------------------------------- */

/* Filled or a ring, so that the shape says it beside the colour. */
static void dot(bt_buf *out, const tool_chart *c, const tool_simulate_point *p, bool is_large)
{
    const double x = c->left + ((double)p->prefill - c->x.from) / (c->x.to - c->x.from) * c->width,
                 y = c->top + c->height - ((double)p->decode - c->y.from) / (c->y.to - c->y.from) * c->height;
    (void)bt_buf_fmt(out, "<circle class='%s' cx='%.1f' cy='%.1f' r='%d'/>\n", p->is_carried ? "yes" : "no",
                     x, y, is_large ? 7 : 3);
}

/* Steps: with more prefill nodes than a point has, as many decode nodes do. */
static size_t stairs(tool_chart_point *at, const tool_simulate_found *x, const tool_chart *c)
{
    size_t n = 0;
    for (size_t i = 0; i < x->len; i++) {
        if (i) at[n++] = (tool_chart_point){x->point[i].prefill, x->point[i - 1].decode};
        at[n++] = (tool_chart_point){x->point[i].prefill, x->point[i].decode};
    }
    if (n) at[n++] = (tool_chart_point){c->x.to, x->point[x->len - 1].decode};
    return n;
}

/* How the picture was made, for programs. */
static void put_metadata(bt_buf *out, const json_t *made_by)
{
    char *text = made_by ? json_dumps(made_by, 0) : NULL;
    if (!text) return;
    (void)bt_buf_str(out, "<metadata>");
    tool_chart_text(out, text);
    (void)bt_buf_str(out, "</metadata>\n");
    free(text);
}

/* The same for people. */
static void put_made_by(bt_buf *out, const json_t *made_by)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    if (f) tool_page_made_by(f, made_by);
    if (f && fclose(f) == 0) (void)bt_buf_str(out, text);
    free(text);
}

/* Between the stairs of nine in ten draws; what no cluster of the range carries lies at its end. */
static void put_band(const tool_chart *c, const tool_simulate_votes *v)
{
    const tool_chart_axis *y = &c->y;
    if (!v->rows || !v->draws) return;
    (void)bt_buf_str(c->out, "<path class='fill a' d='");
    for (int side = 0; side < 2; side++)
        for (size_t k = 0; k < 2 * v->rows; k++) {
            /* there along the low ends, back along the high ones */
            const size_t at = side ? 2 * v->rows - 1 - k : k, i = at / 2;
            const uint32_t decode = side ? v->high[i] : v->low[i];
            const double px = at % 2 == 0       ? v->row[i]
                              : i + 1 < v->rows ? v->row[i + 1]
                                                : c->x.to,
                         py = decode < y->to ? decode : y->to;
            (void)bt_buf_fmt(c->out, "%c%.1f %.1f", side || k ? 'L' : 'M',
                             c->left + (px - c->x.from) / (c->x.to - c->x.from) * c->width,
                             c->top + c->height - (py - y->from) / (y->to - y->from) * c->height);
        }
    (void)bt_buf_str(c->out, "Z'/>\n");
}

static void draw(bt_buf *out, const tool_simulate_found *x, const tool_simulate_range *r)
{
    enum { MOST_STAIRS = 2 * TOOL_SIMULATE_NODES + 2 };
    static tool_chart_point at[MOST_STAIRS];
    double most_x = 1, most_y = 1;
    for (size_t i = 0; i < x->tried.len; i++) {
        if (x->tried.point[i].prefill > most_x) most_x = x->tried.point[i].prefill;
        if (x->tried.point[i].decode > most_y) most_y = x->tried.point[i].decode;
    }
    const tool_chart c = {.out = out,
                          .left = LEFT,
                          .top = TOP,
                          .width = PLOT_WIDTH,
                          .height = PLOT_HEIGHT,
                          .x = {"prefill nodes", 0, most_x + 1, false},
                          .y = {"decode nodes", 0, most_y + 1, false}};
    (void)bt_buf_fmt(
        out, "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' role='img'>\n<style>%s%s</style>\n",
        WIDTH, HEIGHT, tool_chart_style, dot_style);
    put_metadata(out, r->made_by);
    (void)bt_buf_fmt(out, "<text class='head' x='%d' y='28'>", LEFT);
    tool_chart_text(out, r->setup->model->name);
    (void)bt_buf_fmt(out, ": %.4g %% of requests keep the limits</text>\n", 100 * r->share);
    tool_chart_begin(&c, "Decode nodes over prefill nodes: dots carry the load, rings do not");
    put_band(&c, &x->votes);
    tool_chart_line(&c, "a", at, stairs(at, x, &c), false);
    for (size_t i = 0; i < x->tried.len; i++) dot(out, &c, &x->tried.point[i], false);
    if (x->cheapest < x->len) {
        const tool_simulate_point *p = &x->point[x->cheapest];
        dot(out, &c, p, true);
        (void)bt_buf_fmt(
            out, "<text x='%d' y='%d'>cheapest by %s: %u + %u; on the line none does with fewer</text>\n",
            LEFT, HEIGHT - 10, cost_name(r), p->prefill, p->decode);
    }
    (void)bt_buf_str(out, "</svg>\n");
}

static void put_line(bt_buf *out, const char *text)
{
    (void)bt_buf_str(out, "<p>");
    tool_chart_text(out, text);
    (void)bt_buf_str(out, "</p>\n");
}

/* How far the figures may be off, and what they stand on. */
static void put_errors(bt_buf *out, const tool_simulate_found *x, const tool_simulate_range *r)
{
    char errors[TOOL_SIMULATE_ERRORS_BYTES + 16], line[BT_FORECAST_LINE_BYTES];
    (void)snprintf(errors, sizeof errors, "errors: ");
    (void)tool_simulate_errors_text(errors + strlen(errors), r->setup, r->plan, NULL, has_joules(x));
    put_line(out, errors);
    for (size_t i = 0; tool_simulate_standing(line, r->setup, i); i++) put_line(out, line);
}

/* The table that the command prints, under the picture of a page. */
static void tabulate(bt_buf *out, const tool_simulate_found *x, const tool_simulate_range *r)
{
    char text[VERDICT_BYTES];
    (void)bt_buf_fmt(
        out,
        "<table><tr><th>prefill<th>decode<th>good<th>goodput<th>TTFT p99<th>TPOT p99<th>a request"
        "<th>%s%s</tr>\n",
        cost_name(r), x->votes.draws ? "<th>carries in" : "");
    for (size_t i = 0; i < x->len; i++) {
        const tool_simulate_point *p = &x->point[i];
        const double cost = tool_simulate_cost(&r->rates, p), done = (double)(p->requests - p->failed);
        char kept[32];
        (void)bt_buf_fmt(out, "<tr%s><td>%u<td>%u<td>%.2f %%<td>%.3f/s<td>%.1f ms<td>%.1f ms",
                         i == x->cheapest ? " class='best'" : "", p->prefill, p->decode,
                         p->requests ? 100.0 * (double)p->good / (double)p->requests : 0, p->goodput_rps,
                         p->ttft_p99_ms, p->tpot_p99_ms);
        if (p->joules >= 0 && done > 0) (void)bt_buf_fmt(out, "<td>%.2f J", p->joules / done);
        else (void)bt_buf_str(out, "<td>-");
        if (cost >= 0) (void)bt_buf_fmt(out, "<td>%.6g", cost);
        else (void)bt_buf_str(out, "<td>-");
        if (*kept_text(kept, x, p)) (void)bt_buf_fmt(out, "<td>%s", kept);
        (void)bt_buf_str(out, "</tr>\n");
    }
    (void)bt_buf_str(out, "</table>\n");
    if (*verdict_text(text, x)) put_line(out, text);
    if (*sure_text(text, x, r)) put_line(out, text);
    if (x->votes.draws) put_line(out, "The band holds the line in nine of ten draws of the devices.");
    put_errors(out, x, r);
    if (!x->len) (void)bt_buf_str(out, "<p>none of these clusters carries the load</p>\n");
}

static bool ends(const char *text, const char *with)
{
    const size_t n = strlen(text), m = strlen(with);
    return n > m && strcmp(text + n - m, with) == 0;
}

bt_err tool_simulate_found_plot(const char *path, const tool_simulate_found *x, const tool_simulate_range *r,
                                bt_fault *fault)
{
    const bool is_page = ends(path, ".html");
    bt_buf out;
    if (!is_page && !ends(path, ".svg"))
        return bt_fail(fault, BT_EARG, "--plot '%.150s' must end in .svg or .html", path);
    bt_buf_init(&out, MAX_BYTES);
    if (is_page)
        (void)bt_buf_str(
            &out, "<!doctype html>\n<html lang='en'><meta charset='utf-8'><meta name='color-scheme' "
                  "content='light dark'><title>A sweep</title><style>body{margin:0 auto;max-width:1000px;"
                  "background:var(--back);color:var(--ink);font:14px system-ui,'DejaVu Sans',sans-serif}"
                  "svg{display:block}table{border-collapse:collapse;width:81.25%;margin:8px 0 24px 10.9%;"
                  "font-variant-numeric:tabular-nums}th{color:var(--soft)}p{margin:4px 7.8% 4px 10.9%}"
                  "th,td{text-align:right;padding:4px 0 4px 12px;border-bottom:1px solid var(--rule)}"
                  ".best td{color:var(--c);font-weight:600}h2{font-size:15px;margin-left:10.9%}"
                  ".facts td{text-align:left;overflow-wrap:anywhere;vertical-align:top}"
                  ".facts td:first-child{white-space:nowrap;overflow-wrap:normal}</style>\n");
    draw(&out, x, r);
    if (is_page) tabulate(&out, x, r);
    if (is_page) put_made_by(&out, r->made_by);
    if (is_page) (void)bt_buf_str(&out, "</html>\n");
    const bt_err e = out.err < 0 ? bt_fail(fault, out.err, "a picture of %zu bytes", out.len)
                                 : bt_file_replace(path, out.data, out.len, 0644, fault);
    bt_buf_done(&out);
    return e;
}
