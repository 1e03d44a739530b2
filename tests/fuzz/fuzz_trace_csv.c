/* Any bytes as each of the formats that are CSV with a header. */
#include "tests/helpers/trace_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    for (bt_trace_format f = BT_TRACE_AZURE; f <= BT_TRACE_VIDUR; f++) trace_fuzz(data, len, f);
    return 0;
}
