/* Any bytes as a control frame; then the same bytes as a type (the first) and a body (the rest) in a frame
 * that is right in all else, so that every protobuf message is reached. A message that is accepted, encoded
 * and decoded again must come back. */
#include "tests/helpers/brain/wire_samples.h"
#include "wire/msg.h"

#include <stdlib.h>
#include <string.h>

static void try(const uint8_t *frame, size_t len)
{
    static bt_msg_buf buf, buf_again; /* kept, as a daemon does */
    bt_msg m, again;
    if (bt_msg_decode(&m, &buf, frame, len, NULL) < 0) return;
    size_t n = 0, n_again = 0;
    const size_t cap = bt_msg_encoded_max(&m);
    uint8_t *out = malloc(cap), *out_again = malloc(cap);
    if (!out || !out_again) abort();
    if (bt_msg_encode(&n, out, cap, &m, NULL) < 0) abort();
    if (bt_msg_decode(&again, &buf_again, out, n, NULL) < 0) abort();
    if (bt_msg_encode(&n_again, out_again, cap, &again, NULL) < 0) abort();
    if (n != n_again || memcmp(out, out_again, n) != 0) abort();
    free(out);
    free(out_again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    try(data, len);
    if (len == 0) return 0;
    uint8_t *frame = malloc(64 + len - 1);
    if (!frame) abort();
    const size_t n = wire_samples_frame(frame, BT_PROTOCOL_VERSION, data[0], data + 1, len - 1);
    try(frame, n);
    free(frame);
    return 0;
}
