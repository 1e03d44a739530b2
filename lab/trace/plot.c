/* The picture of a trace: which curves, from which counts. */
#include "lab/trace/plot.h"
#include "base/file.h"
#include "lab/trace/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 1000,
    LEFT = 64,
    PLOT_WIDTH = 400,
    SECOND = 560,
    PLOT_HEIGHT = 170,
    ROW = 250,
    FIRST = 128,
    POINTS = 240
};
enum { MAX_BYTES = 4 << 20 };

typedef struct picture {
    bt_buf out;
    const bt_trace_stats *s;
    int panels; /* begun so far */
} picture;

static tool_chart next_panel(picture *p)
{
    const int row = p->panels / 2;
    const tool_chart c = {.out = &p->out, .left = p->panels % 2 ? SECOND : LEFT, .top = FIRST + row * ROW,
                          .width = PLOT_WIDTH, .height = PLOT_HEIGHT};
    p->panels++;
    return c;
}

typedef double value_fn(const struct bt_trace_bin *b, double width_s);
static double requests(const struct bt_trace_bin *b, double w) { return (double)b->requests / w; }
static double prompt_tokens(const struct bt_trace_bin *b, double w) { return (double)b->input_tokens / w; }
static double answer_tokens(const struct bt_trace_bin *b, double w) { return (double)b->output_tokens / w; }
static double hits(const struct bt_trace_bin *b, double w)
{
    (void)w;
    return b->blocks ? 100.0 * (double)b->hit_blocks / (double)b->blocks : 0;
}

static size_t over_time(tool_chart_point at[POINTS], double *most, const bt_trace_bins *b, value_fn *value)
{
    const double width_s = (double)b->width_us / 1e6;
    for (size_t i = 0; i < b->len; i++) {
        at[i] = (tool_chart_point){((double)i + 0.5) * width_s, value(&b->bin[i], width_s)};
        if (at[i].y > *most) *most = at[i].y;
    }
    return b->len;
}

static void draw_over_time(picture *p, const char *title, value_fn *value, value_fn *second, double most)
{
    const bt_trace_bins *b = &p->s->bins;
    tool_chart_point at[POINTS], more[POINTS];
    double highest = most;
    const size_t n = over_time(at, &highest, b, value);
    if (second) (void)over_time(more, &highest, b, second);
    tool_chart c = next_panel(p);
    c.x = (tool_chart_axis){"seconds", 0, (double)b->len * (double)b->width_us / 1e6, false};
    c.y = (tool_chart_axis){"", 0, most > 0 ? most : highest > 0 ? highest * 1.05 : 1, false};
    tool_chart_begin(&c, title);
    tool_chart_line(&c, "a", at, n, true);
    if (!second) return;
    tool_chart_line(&c, "b", more, n, false);
    tool_chart_legend(&c, "a", "prompts", 1);
    tool_chart_legend(&c, "b", "answers", 0);
}

/* The share of all that is at most each of some lengths, in equal steps of their logarithm. */
static size_t cumulative(tool_chart_point at[POINTS], const bt_trace_hist *h, double from, double to,
                         double unit)
{
    for (size_t i = 0; i < POINTS; i++) {
        const double x = from * pow(to / from, (double)i / (POINTS - 1));
        at[i] = (tool_chart_point){
            x, h->n ? 100.0 * (double)bt_trace_hist_below(h, (uint64_t)(x / unit)) / (double)h->n : 0};
    }
    return POINTS;
}

static void draw_lengths(picture *p)
{
    const bt_trace_stats *s = p->s;
    tool_chart_point at[POINTS];
    const uint64_t largest = s->input.largest > s->output.largest ? s->input.largest : s->output.largest;
    tool_chart c = next_panel(p);
    c.x = (tool_chart_axis){"tokens", 1, largest > 10 ? (double)largest : 10, true};
    c.y = (tool_chart_axis){"", 0, 100, false};
    tool_chart_begin(&c, "Lengths: % of requests up to");
    tool_chart_line(&c, "a", at, cumulative(at, &s->input, c.x.from, c.x.to, 1), false);
    tool_chart_legend(&c, "a", "prompts", 1);
    if (s->output.n == 0) return;
    tool_chart_line(&c, "b", at, cumulative(at, &s->output, c.x.from, c.x.to, 1), false);
    tool_chart_legend(&c, "b", "answers", 0);
}

static void draw_gaps(picture *p)
{
    const bt_trace_hist *h = &p->s->gap_us;
    tool_chart_point at[POINTS];
    tool_chart c = next_panel(p);
    c.x = (tool_chart_axis){"seconds", 1e-3, h->largest > 100000 ? (double)h->largest / 1e6 : 0.1, true};
    c.y = (tool_chart_axis){"", 0, 100, false};
    tool_chart_begin(&c, "Gaps between arrivals: % up to");
    tool_chart_line(&c, "c", at, cumulative(at, h, c.x.from, c.x.to, 1e-6), false);
}

static void head(picture *p, const char *path, const bt_trace_facts *f)
{
    const bt_trace_stats *s = p->s;
    const char *slash = strrchr(path, '/');
    (void)bt_buf_fmt(&p->out, "<text class='head' x='%d' y='36'>", LEFT);
    tool_chart_text(&p->out, slash ? slash + 1 : path);
    (void)bt_buf_fmt(&p->out, "</text><text x='%d' y='58'>%s trace: %llu requests", LEFT,
                     bt_trace_format_names[f->format], (unsigned long long)s->requests);
    if (s->arrivals > 1)
        (void)bt_buf_fmt(&p->out, " in %.0f s, variation of gaps %.3g", bt_trace_stats_span_s(s),
                         bt_trace_stats_gap_cv(s));
    (void)bt_buf_fmt(&p->out, "</text><text x='%d' y='76'>prompts of %.0f tokens (p99 %llu)", LEFT,
                     bt_trace_hist_mean(&s->input), (unsigned long long)bt_trace_hist_at(&s->input, 0.99));
    if (s->output.n)
        (void)bt_buf_fmt(&p->out, ", answers of %.0f (p99 %llu)", bt_trace_hist_mean(&s->output),
                         (unsigned long long)bt_trace_hist_at(&s->output, 0.99));
    if (bt_trace_stats_hit_ratio(s) >= 0)
        (void)bt_buf_fmt(&p->out, "; %.1f %% of blocks come again", 100 * bt_trace_stats_hit_ratio(s));
    (void)bt_buf_str(&p->out, "</text>\n");
}

static void draw(picture *p, const char *path, const bt_trace_facts *f)
{
    const bt_trace_stats *s = p->s;
    const int panels = 1 + (s->arrivals > 1 ? 3 : 0) + (s->arrivals > 1 && s->blocks > 0);
    (void)bt_buf_fmt(
        &p->out,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' role='img'>\n<style>%s</style>\n", WIDTH,
        FIRST + (panels + 1) / 2 * ROW - 20, tool_chart_style);
    head(p, path, f);
    if (s->arrivals > 1) {
        draw_over_time(p, "Requests a second", requests, NULL, 0);
        draw_over_time(p, "Tokens a second", prompt_tokens, answer_tokens, 0);
    }
    draw_lengths(p);
    if (s->arrivals > 1) draw_gaps(p);
    if (s->arrivals > 1 && s->blocks > 0) draw_over_time(p, "% of blocks that came before", hits, NULL, 100);
    (void)bt_buf_str(&p->out, "</svg>\n");
}

static bool ends(const char *text, const char *with)
{
    const size_t n = strlen(text), m = strlen(with);
    return n > m && strcmp(text + n - m, with) == 0;
}

bt_err tool_trace_plot(const char *output, const char *path, const bt_trace_stats *s, const bt_trace_facts *f,
                       bt_fault *fault)
{
    const bool is_page = ends(output, ".html");
    picture p = {.s = s};
    if (!is_page && !ends(output, ".svg"))
        return bt_fail(fault, BT_EARG, "'%.150s' must end in .svg or .html", output);
    bt_buf_init(&p.out, MAX_BYTES);
    if (is_page) {
        (void)bt_buf_str(&p.out, "<!doctype html>\n<html lang='en'><meta charset='utf-8'>"
                                 "<meta name='color-scheme' content='light dark'>"
                                 "<meta name='viewport' content='width=device-width'><title>");
        tool_chart_text(&p.out, path);
        (void)bt_buf_str(
            &p.out,
            "</title><style>body{margin:0;background:#fff}svg{display:block;max-width:1200px;margin:auto}"
            "@media(prefers-color-scheme:dark){body{background:#10151b}}</style>\n");
    }
    draw(&p, path, f);
    if (is_page) (void)bt_buf_str(&p.out, "</html>\n");
    const bt_err e = p.out.err < 0 ? bt_fail(fault, p.out.err, "a picture of %zu bytes", p.out.len)
                                   : bt_file_replace(output, p.out.data, p.out.len, 0644, fault);
    bt_buf_done(&p.out);
    return e;
}
