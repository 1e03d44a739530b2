/* Any bytes as a list of lengths and as rates. */
#include "tests/helpers/trace_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    trace_fuzz(data, len, BT_TRACE_LENGTHS);
    trace_fuzz(data, len, BT_TRACE_SERVEGEN);
    return 0;
}
