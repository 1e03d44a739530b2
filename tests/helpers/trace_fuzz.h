#ifndef BT_TESTS_TRACE_FUZZ_H
#define BT_TESTS_TRACE_FUZZ_H
#include "trace/reader.h"

/* Any bytes as a trace of this format: read to the end, past bad rows; what is given is within its bounds, or it
 * aborts. Texts count as one token a byte. */
void trace_fuzz(const uint8_t *data, size_t len, bt_trace_format format);
#endif
