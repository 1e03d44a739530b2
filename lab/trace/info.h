#ifndef BT_LAB_TRACE_INFO_H
#define BT_LAB_TRACE_INFO_H
#include <jansson.h>
#include "lab/trace/source.h"
#include "trace/stats.h"

/* The statistics of a trace, for scripts and for people. NULL: no memory. */
json_t *tool_trace_info_json(const bt_trace_stats *s, const bt_trace_facts *f);
void tool_trace_info_print(const bt_trace_stats *s, const bt_trace_facts *f);
/* The same for ServeGen's rates. */
bt_err tool_trace_rates(tool_trace_source *s, const char *path, bool is_json, bt_fault *fault);
#endif
