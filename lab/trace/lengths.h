#ifndef BT_LAB_TRACE_LENGTHS_H
#define BT_LAB_TRACE_LENGTHS_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The prompt lengths of a trace (any format of trace/reader.h but sharegpt and servegen), in its order. The caller
 * frees *ret; *ret_n >= 1. Errors as bt_trace_open and bt_trace_next; BT_EFORMAT: no request. */
bt_err tool_trace_lengths(uint32_t **ret, size_t *ret_n, const char *path, bt_fault *fault);
#endif
