#ifndef BT_LAB_TRACE_PLOT_H
#define BT_LAB_TRACE_PLOT_H
#include "trace/reader.h"
#include "trace/stats.h"

/* One picture of a trace in one file that needs nothing else: requests and tokens over time, lengths of prompts,
 * answers and gaps (as cumulative shares), and the share of prompts that came before. Light or dark as the reader's
 * system is. `output` ends in .svg or .html. BT_EARG: it does not; BT_EIO. */
bt_err tool_trace_plot(const char *output, const char *path, const bt_trace_stats *s, const bt_trace_facts *f,
                       bt_fault *fault);
#endif
