/* Any bytes as a choice of attention: what is accepted has a text, and that text gives the same choice again.
 */
#include "npu/pkg/attention.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    bt_attention a, again;
    char text[BT_ATTENTION_MAX_TEXT], *given = malloc(len + 1);
    bt_fault f = {""};
    if (!given) return 0;
    memcpy(given, data, len);
    given[len] = 0;
    const bt_err e = bt_attention_parse(&a, given, &f);
    free(given);
    if (e < 0) {
        if (e != BT_EARG || !f.text[0]) abort();
        return 0;
    }
    if (a.ratio_ppm > BT_ATTENTION_ALL_PPM || a.rows > 1u << BT_ATTENTION_MAX_ROWS_LOG2 || a.is_group > 1)
        abort();
    if (!a.ratio_ppm && (a.dense_rows || a.rows || a.is_group)) abort();
    bt_attention_text(text, &a);
    if (bt_attention_parse(&again, text, &f) < 0) abort();
    if (a.ratio_ppm != again.ratio_ppm || a.dense_rows != again.dense_rows || a.rows != again.rows ||
        a.is_group != again.is_group)
        abort();
    for (uint32_t n = 1; a.ratio_ppm && n < 1u << 20; n = n * 3 + 1) {
        const uint32_t keeps = bt_attention_keeps(a.ratio_ppm, n);
        if (keeps < 1 || keeps > n) abort();
    }
    return 0;
}
