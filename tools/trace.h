#ifndef BT_TOOLS_TRACE_H
#define BT_TOOLS_TRACE_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Prompt lengths of a trace of requests, in its order. The format is known by its first line:
 *
 *   a header with a column ContextTokens    CSV, as the Azure LLM inference traces
 *                                           (TIMESTAMP,ContextTokens,GeneratedTokens)
 *   an object                               one JSON object a line with "input_length", as the Mooncake traces
 *   digits                                  numbers, separated by spaces, commas or line ends
 * Empty lines are skipped. */
enum { TOOL_TRACE_MAX_TOKENS = 1 << 30, TOOL_TRACE_MAX_LINE = 1 << 20 };
/* text has a NUL behind it. The caller frees *ret; *ret_n >= 1. BT_EFORMAT naming the line; BT_ENOMEM. */
bt_err tool_trace_lengths(uint32_t **ret, size_t *ret_n, const char *text, size_t len, bt_fault *fault);
#endif
