/* Any bytes as a capture; and as the payload of a record whose sum is right, because no chance would find
 * one. */
#include "base/hash.h"
#include "base/num.h"
#include "tests/helpers/trace_fuzz.h"
#include "trace/capture_format.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    trace_fuzz(data, len, BT_TRACE_BATON);
    if (len < 1) return 0;
    const size_t n = len - 1, whole = BT_CAPTURE_HEAD_BYTES + n + BT_CAPTURE_TAIL_BYTES;
    bt_buf b;
    bt_buf_init(&b, 2 * (size_t)BT_CAPTURE_MAX_BYTES);
    if (n <= BT_CAPTURE_MAX_BYTES &&
        bt_capture_put_start(&b, &(bt_capture_start){.wall_s = 1}, NULL, NULL) == BT_OK &&
        bt_buf_reserve(&b, whole) == BT_OK) {
        uint8_t *head = b.data + b.len;
        memset(head, 0, BT_CAPTURE_HEAD_BYTES);
        memcpy(head, BT_CAPTURE_MAGIC "\1", BT_CAPTURE_MAGIC_BYTES + 1);
        head[5] = (uint8_t)(BT_CAPTURE_START + data[0] % 3);
        bt_put32(head + 8, (uint32_t)n);
        memcpy(head + BT_CAPTURE_HEAD_BYTES, data + 1, n);
        bt_put64(head + BT_CAPTURE_HEAD_BYTES + n, bt_hash64(head, BT_CAPTURE_HEAD_BYTES + n));
        trace_fuzz(b.data, b.len + whole, BT_TRACE_BATON);
    }
    bt_buf_done(&b);
    return 0;
}
