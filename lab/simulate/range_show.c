/* What a sweep found: a table, JSON, a picture. See range.h. */
#include "base/buf.h"
#include "base/file.h"
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

void tool_simulate_found_print(FILE *f, const tool_simulate_found *x, const tool_simulate_range *r)
{
    char why[TOOL_SIMULATE_NO_JOULES];
    fprintf(f, "%8s %8s %8s %10s %12s %12s %12s %12s\n", "prefill", "decode", "good %", "goodput/s",
            "TTFT p99 ms", "TPOT p99 ms", "J/request", cost_name(r));
    for (size_t i = 0; i < x->len; i++) {
        const tool_simulate_point *p = &x->point[i];
        const double cost = tool_simulate_cost(&r->rates, p);
        char joules[32] = "-", money[32] = "-";
        if (p->joules >= 0 && p->requests > p->failed)
            (void)snprintf(joules, sizeof joules, "%.2f", p->joules / (double)(p->requests - p->failed));
        if (cost >= 0) (void)snprintf(money, sizeof money, "%.6g", cost);
        fprintf(f, "%8u %8u %8.2f %10.3f %12.1f %12.1f %12s %12s%s\n", p->prefill, p->decode,
                p->requests ? 100.0 * (double)p->good / (double)p->requests : 0, p->goodput_rps,
                p->ttft_p99_ms, p->tpot_p99_ms, joules, money, i == x->cheapest ? "  cheapest" : "");
    }
    if (!x->len) fprintf(f, "none of these clusters carries the load\n");
    else if (x->cheapest == x->len) fprintf(f, "none has a cost in %s\n", cost_name(r));
    if (lacks_joules(why, r)) fprintf(f, "energy      not known: %s\n", why);
    tool_simulate_errors_print(f, r->setup, r->plan, NULL, has_joules(x));
    tool_simulate_ignored_print(f, r->setup);
    fprintf(f, "tried       %zu clusters, %zu of them read from a file\n", x->tried.len, x->again);
    if (r->shard.of)
        fprintf(f, "part        %u of %u of the rows: run without --shard on all points for the whole\n",
                r->shard.part, r->shard.of);
}

static json_t *point_json(const tool_simulate_point *p, const tool_simulate_range *r)
{
    const double cost = tool_simulate_cost(&r->rates, p);
    return json_pack("{s:I, s:I, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:o, s:o, s:o}", "prefill",
                     (json_int_t)p->prefill, "decode", (json_int_t)p->decode, "carried", (int)p->is_carried,
                     "requests", (json_int_t)p->requests, "good", (json_int_t)p->good, "failed",
                     (json_int_t)p->failed, "goodput_rps", p->goodput_rps, "ttft_p99_ms", p->ttft_p99_ms,
                     "tpot_p99_ms", p->tpot_p99_ms, "joules",
                     p->joules >= 0 ? json_real(p->joules) : json_null(), "cost",
                     cost >= 0 ? json_real(cost) : json_null(), "error",
                     tool_simulate_errors(r->setup, r->plan, NULL));
}

json_t *tool_simulate_found_json(const tool_simulate_found *x, const tool_simulate_range *r)
{
    char why[TOOL_SIMULATE_NO_JOULES];
    json_t *points = json_array();
    for (size_t i = 0; points && i < x->len; i++)
        if (json_array_append_new(points, point_json(&x->point[i], r)) < 0) break;
    return json_pack("{s:o, s:o, s:o, s:o, s:s, s:f, s:I, s:I, s:O*}", "points", points, "no_joules",
                     lacks_joules(why, r) ? json_string(why) : json_null(), "ignored",
                     tool_simulate_ignored(r->setup), "cheapest",
                     x->cheapest < x->len ? point_json(&x->point[x->cheapest], r) : json_null(), "cost",
                     cost_name(r), "share", r->share, "tried", (json_int_t)x->tried.len, "read",
                     (json_int_t)x->again, "made_by", r->made_by);
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

/* What the command prints, under the picture of a page. */
static void tabulate(bt_buf *out, const tool_simulate_found *x, const tool_simulate_range *r)
{
    (void)bt_buf_fmt(
        out,
        "<table><tr><th>prefill<th>decode<th>good<th>goodput<th>TTFT p99<th>TPOT p99<th>a request"
        "<th>%s</tr>\n",
        cost_name(r));
    for (size_t i = 0; i < x->len; i++) {
        const tool_simulate_point *p = &x->point[i];
        const double cost = tool_simulate_cost(&r->rates, p), done = (double)(p->requests - p->failed);
        (void)bt_buf_fmt(out, "<tr%s><td>%u<td>%u<td>%.2f %%<td>%.3f/s<td>%.1f ms<td>%.1f ms",
                         i == x->cheapest ? " class='best'" : "", p->prefill, p->decode,
                         p->requests ? 100.0 * (double)p->good / (double)p->requests : 0, p->goodput_rps,
                         p->ttft_p99_ms, p->tpot_p99_ms);
        if (p->joules >= 0 && done > 0) (void)bt_buf_fmt(out, "<td>%.2f J", p->joules / done);
        else (void)bt_buf_str(out, "<td>-");
        if (cost >= 0) (void)bt_buf_fmt(out, "<td>%.6g</tr>\n", cost);
        else (void)bt_buf_str(out, "<td>-</tr>\n");
    }
    (void)bt_buf_str(out, "</table>\n");
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
                  "font-variant-numeric:tabular-nums}th{color:var(--soft)}p{margin:4px 0 4px 10.9%}"
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
