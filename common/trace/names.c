/* Words for formats and outcomes, in the order of their enums. */
#include "trace/reader.h"

const char *const bt_trace_format_names[BT_TRACE_FORMATS + 1] = {
    "auto",    "mooncake", "azure",    "burstgpt", "splitwise", "vidur",
    "bailian", "sharegpt", "servegen", "lengths",  "baton",     NULL};
const char *const bt_trace_outcome_names[BT_TRACE_OUTCOMES] = {
    "stop",     "length",  "no_node",   "overloaded", "node_lost", "timeout",
    "too_long", "refused", "cancelled", "bad",        "not_finite"};
