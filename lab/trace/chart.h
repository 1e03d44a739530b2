#ifndef BT_LAB_TRACE_CHART_H
#define BT_LAB_TRACE_CHART_H
#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"

/* Charts as pieces of SVG: a panel with axes, and lines in it. Colours are CSS classes, so that light and dark are the
 * page's (tool_chart_style). Errors stay in the buffer. */
typedef struct tool_chart_axis {
    const char *name; /* with its unit */
    double from, to;  /* from < to; log: from > 0 */
    bool is_log;
} tool_chart_axis;
typedef struct tool_chart {
    bt_buf *out;
    double left, top, width, height; /* of the plot itself, without axes */
    tool_chart_axis x, y;
} tool_chart;
typedef struct tool_chart_point {
    double x, y;
} tool_chart_point;

extern const char tool_chart_style[]; /* the content of <style> */

/* Title, frame, ticks and names of the axes. */
void tool_chart_begin(const tool_chart *c, const char *title);
/* A line through points, those outside cut to the frame; class "a", "b" or "c". is_filled: down to the axis. */
void tool_chart_line(const tool_chart *c, const char *colour, const tool_chart_point *at, size_t n, bool is_filled);
/* A name at the right end of the title line; `slot` counts from 0, from the right. */
void tool_chart_legend(const tool_chart *c, const char *colour, const char *name, int slot);
/* The least 1, 2 or 5 times a power of ten that is at least v; 1 for v <= 0. */
double tool_chart_nice(double v);
/* Text with what XML would read as its own written out. */
void tool_chart_text(bt_buf *out, const char *text);
#endif
