/* Any bytes as a list of conversations. */
#include "tests/helpers/trace_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    trace_fuzz(data, len, BT_TRACE_SHAREGPT);
    return 0;
}
