/* Any bytes as each of the formats with a JSON object a line. */
#include "tests/helpers/trace_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    trace_fuzz(data, len, BT_TRACE_MOONCAKE);
    trace_fuzz(data, len, BT_TRACE_BAILIAN);
    return 0;
}
