/* A little of SVG: enough for curves with axes. */
#include "lab/trace/chart.h"

#include <math.h>
#include <stdio.h>

const char tool_chart_style[] =
    ":root{--back:#fff;--ink:#1d232b;--soft:#66707c;--rule:#e3e7ec;--a:#1f6feb;--b:#c4500a;--c:#1a7f52}"
    "@media(prefers-color-scheme:dark){:root{--back:#10151b;--ink:#e8ecf1;--soft:#98a3b0;--rule:#2a323c;--a:#"
    "6aa9ff;"
    "--b:#ff9d5c;--c:#5fd39a}}"
    "svg{background:var(--back);font-family:system-ui,-apple-system,'DejaVu Sans',sans-serif;font-size:12px}"
    "text{fill:var(--soft)}.title{fill:var(--ink);font-size:13px;font-weight:600}"
    ".head{fill:var(--ink);font-size:18px;font-weight:600}.rule{stroke:var(--rule);fill:none}"
    ".a{stroke:var(--a)}.b{stroke:var(--b)}.c{stroke:var(--c)}"
    ".line{fill:none;stroke-width:1.6;stroke-linejoin:round}"
    ".fill{stroke:none;opacity:.18}.fill.a{fill:var(--a)}.fill.b{fill:var(--b)}.fill.c{fill:var(--c)}"
    ".key.a{fill:var(--a);stroke:none}.key.b{fill:var(--b);stroke:none}.key.c{fill:var(--c);stroke:none}";

double tool_chart_nice(double v)
{
    if (!(v > 0)) return 1;
    const double ten = pow(10, floor(log10(v)));
    return v <= ten * 1.0001 ? ten : v <= 2 * ten ? 2 * ten : v <= 5 * ten ? 5 * ten : 10 * ten;
}

void tool_chart_text(bt_buf *out, const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '<') (void)bt_buf_str(out, "&lt;");
        else if (c == '>') (void)bt_buf_str(out, "&gt;");
        else if (c == '&') (void)bt_buf_str(out, "&amp;");
        else if (c == '"') (void)bt_buf_str(out, "&quot;");
        else (void)bt_buf_byte(out, c < ' ' ? '?' : c);
    }
}

static double share(const tool_chart_axis *a, double v)
{
    const double s = a->is_log ? log(v > a->from ? v / a->from : 1) / log(a->to / a->from)
                               : (v - a->from) / (a->to - a->from);
    return s < 0 ? 0 : s > 1 ? 1 : s;
}
static double place_x(const tool_chart *c, double v) { return c->left + c->width * share(&c->x, v); }
static double place_y(const tool_chart *c, double v) { return c->top + c->height * (1 - share(&c->y, v)); }

/* 1500 as "1.5k". */
static void short_number(char ret[32], double v)
{
    const double size = fabs(v);
    if (size >= 1e6) (void)snprintf(ret, 32, "%gM", v / 1e6);
    else if (size >= 1e3) (void)snprintf(ret, 32, "%gk", v / 1e3);
    else if (size > 0 && size < 1e-3) (void)snprintf(ret, 32, "%gu", v * 1e6);
    else if (size > 0 && size < 0.1) (void)snprintf(ret, 32, "%gm", v * 1e3);
    else (void)snprintf(ret, 32, "%g", v);
}

static void tick(const tool_chart *c, const tool_chart_axis *a, double v)
{
    char name[32];
    short_number(name, v);
    if (a == &c->x)
        (void)bt_buf_fmt(
            c->out,
            "<path class='rule' d='M%.1f %.1fV%.1f'/><text x='%.1f' y='%.1f' text-anchor='middle'>%s</text>",
            place_x(c, v), c->top, c->top + c->height, place_x(c, v), c->top + c->height + 16, name);
    else
        (void)bt_buf_fmt(
            c->out,
            "<path class='rule' d='M%.1f %.1fH%.1f'/><text x='%.1f' y='%.1f' text-anchor='end'>%s</text>",
            c->left, place_y(c, v), c->left + c->width, c->left - 6, place_y(c, v) + 4, name);
}

static void ticks(const tool_chart *c, const tool_chart_axis *a)
{
    if (a->is_log) {
        /* NOLINTNEXTLINE(cert-flp30-c,clang-analyzer-security.FloatLoopCounter): powers of ten */
        for (double v = pow(10, ceil(log10(a->from) - 1e-9)); v <= a->to * 1.0001; v *= 10) tick(c, a, v);
        return;
    }
    const double step = tool_chart_nice((a->to - a->from) / 5);
    for (int i = 0; a->from + i * step <= a->to + step * 1e-6; i++) tick(c, a, a->from + i * step);
}

void tool_chart_begin(const tool_chart *c, const char *title)
{
    ticks(c, &c->x);
    ticks(c, &c->y);
    (void)bt_buf_fmt(c->out, "<text class='title' x='%.1f' y='%.1f'>", c->left, c->top - 12);
    tool_chart_text(c->out, title);
    (void)bt_buf_fmt(c->out, "</text><text x='%.1f' y='%.1f' text-anchor='end'>", c->left + c->width,
                     c->top + c->height + 32);
    tool_chart_text(c->out, c->x.name);
    (void)bt_buf_str(c->out, "</text>\n");
}

void tool_chart_line(const tool_chart *c, const char *colour, const tool_chart_point *at, size_t n,
                     bool is_filled)
{
    if (n == 0) return;
    for (int pass = is_filled ? 0 : 1; pass < 2; pass++) {
        (void)bt_buf_fmt(c->out, "<path class='%s %s' d='", pass ? "line" : "fill", colour);
        if (!pass) (void)bt_buf_fmt(c->out, "M%.1f %.1f", place_x(c, at[0].x), c->top + c->height);
        for (size_t i = 0; i < n; i++)
            (void)bt_buf_fmt(c->out, "%c%.1f %.1f", i || !pass ? 'L' : 'M', place_x(c, at[i].x),
                             place_y(c, at[i].y));
        if (!pass) (void)bt_buf_fmt(c->out, "L%.1f %.1fZ", place_x(c, at[n - 1].x), c->top + c->height);
        (void)bt_buf_str(c->out, "'/>\n");
    }
}

void tool_chart_legend(const tool_chart *c, const char *colour, const char *name, int slot)
{
    const double right = c->left + c->width - slot * 90;
    (void)bt_buf_fmt(
        c->out,
        "<rect class='key %s' x='%.1f' y='%.1f' width='10' height='10' rx='2'/><text x='%.1f' y='%.1f'>",
        colour, right - 76, c->top - 21, right - 62, c->top - 12);
    tool_chart_text(c->out, name);
    (void)bt_buf_str(c->out, "</text>\n");
}
