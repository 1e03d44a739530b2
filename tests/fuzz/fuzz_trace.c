/* Any bytes as a trace of the format that their beginning is like. */
#include "tests/helpers/trace_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    trace_fuzz(data, len, BT_TRACE_AUTO);
    return 0;
}
