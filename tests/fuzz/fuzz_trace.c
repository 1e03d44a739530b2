/* Any bytes as a trace of prompts: lengths within their bound, or an error. */
#include "tools/trace.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint32_t *lengths;
    size_t n;
    char *text = malloc(len + 1);
    if (!text) return 0;
    if (len) memcpy(text, data, len);
    text[len] = 0;
    if (tool_trace_lengths(&lengths, &n, text, len, NULL) == BT_OK) {
        if (n < 1) abort();
        for (size_t i = 0; i < n; i++)
            if (lengths[i] > TOOL_TRACE_MAX_TOKENS) abort();
        free(lengths);
    }
    free(text);
    return 0;
}
