#ifndef BT_XFER_RECV_H
#define BT_XFER_RECV_H
#include "kv/kv_cover.h"
#include "wire/msg.h"

/* The receiving side of one hand-off: which block may be placed, and what to answer to Commit. Pure; a part
 * of the decode brain. Rows that are in place are never written again, and one block is placed at a time. */
typedef struct bt_xfer_recv {
    bt_kv_cover *cover;
    bt_kv_shape shape;
    uint32_t prompt_tokens;
    bool placing;      /* a block was let in and is being copied */
    bool commit_waits; /* Commit came meanwhile */
} bt_xfer_recv;

typedef enum bt_xfer_verdict {
    BT_XFER_PLACE = 1, /* every row is new: copy the block, then call _placed */
    BT_XFER_RANGE,     /* outside the prompt or the model, edges off the grid, or a wrong number of bytes */
    BT_XFER_REPEAT,    /* some rows are in place already; Missing asks for the others exactly */
    BT_XFER_BUSY,      /* the last block is still being copied */
} bt_xfer_verdict;

/* The rows of a prompt that are sent of a layer and held by the receiver begin here: 0, in window layers
 * bt_kv_first_sent (kernels/kv_view.h). */
uint32_t bt_xfer_first_token(const bt_kv_shape *shape, uint32_t layer, uint32_t prompt_tokens);

/* Rows before bt_xfer_first_token count as in place. Errors of bt_kv_cover_new. */
bt_err bt_xfer_recv_init(bt_xfer_recv *r, const bt_kv_shape *shape, uint32_t prompt_tokens, bt_fault *fault);
void bt_xfer_recv_done(bt_xfer_recv *r); /* zeroed is fine */

/* The first `tokens` of the prompt are in place from the start: a multiple of 16, or all. */
void bt_xfer_recv_has(bt_xfer_recv *r, uint32_t tokens);
bt_xfer_verdict bt_xfer_recv_block(bt_xfer_recv *r, const bt_kv_range *range, uint64_t bytes);
/* The copy ended. is_good false: the digest was wrong, and the rows count as missing. */
void bt_xfer_recv_placed(bt_xfer_recv *r, const bt_kv_range *range, bool is_good);
bool bt_xfer_recv_is_complete(const bt_xfer_recv *r);

/* Bytes of the K and V rows of `tokens` tokens of one layer; 0 when the number is too large. */
uint64_t bt_xfer_block_bytes(const bt_kv_shape *shape, uint32_t tokens);
#endif
