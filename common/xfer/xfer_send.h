#ifndef BT_XFER_SEND_H
#define BT_XFER_SEND_H
#include "xfer/xfer_recv.h"

/* The sending side of one hand-off: which block goes next, when to Commit, what to send again. Pure; a part of the
 * prefill brain. Rows become ready layer by layer in ascending token order, so two marks a layer are enough. Rows that
 * the receiver misses, and blocks that the socket did not take, wait in a bounded list and go first. */
typedef struct bt_xfer_send {
    uint32_t layers, prompt_tokens, block_tokens;
    uint32_t *ready, *sent; /* [layers_max] how many tokens of each layer exist, and how many were taken or skipped */
    bt_kv_range *again;
    uint32_t again_len; /* [BT_MSG_MAX_RANGES + extra] */
    uint32_t again_cap;
    uint32_t unanswered; /* taken, and neither sent nor returned yet */
    bool held;           /* nothing goes until every row exists: a short prompt */
    bool told;           /* Commit was sent since the last block */
} bt_xfer_send;

/* Room for transfers of up to layers_max layers; extra: how many blocks may be unanswered at once. BT_ENOMEM. */
bt_err bt_xfer_send_init(bt_xfer_send *s, uint32_t layers_max, uint32_t extra);
void bt_xfer_send_done(bt_xfer_send *s);
/* Begins a transfer. skip_tokens and ready_tokens are multiples of 16 or prompt_tokens. */
typedef struct bt_xfer_send_plan {
    const bt_kv_shape *shape; /* read during the call */
    uint32_t prompt_tokens;
    uint32_t block_tokens; /* longest block, a multiple of 16 */
    uint32_t skip_tokens;  /* in place at the receiver in every layer: sent only if the receiver asks, like rows of
                              window layers before bt_xfer_first_token */
    uint32_t ready_tokens; /* rows of every layer that exist from the start */
    bool held;             /* see above */
} bt_xfer_send_plan;
void bt_xfer_send_start(bt_xfer_send *s, const bt_xfer_send_plan *plan);

/* Rows [token_begin, token_begin + count) of a layer exist. False, and nothing changes, unless they follow the rows
 * ready before without a gap and end on a multiple of 16 or at the prompt's end. */
bool bt_xfer_send_ready(bt_xfer_send *s, uint32_t layer, uint32_t token_begin, uint32_t count);

/* The block that should go next; false: none is ready. Lowest tokens first, then lowest layer. Changes nothing. */
bool bt_xfer_send_next(const bt_xfer_send *s, bt_kv_range *ret);
void bt_xfer_send_take(bt_xfer_send *s, const bt_kv_range *block);     /* what _next just gave */
void bt_xfer_send_sent(bt_xfer_send *s);                               /* one taken block is under way */
void bt_xfer_send_returned(bt_xfer_send *s, const bt_kv_range *block); /* a taken block was not accepted and goes again
                                                                        */

/* The receiver misses these ranges, which go again. Ranges outside the prompt or off the grid are skipped; ranges that
 * do not fit the list wait for the next Missing. Returns how many were taken. Only for a transfer that is _all_sent. */
uint32_t bt_xfer_send_missing(bt_xfer_send *s, const bt_kv_range *ranges, uint32_t len);
/* The link was lost: nothing is unanswered any more; Commit and Missing will find what did not arrive. */
void bt_xfer_send_cut(bt_xfer_send *s);

/* Every row that the receiver lacks was sent: time to Commit. True from the start where it lacks none. */
bool bt_xfer_send_all_sent(const bt_xfer_send *s);
/* How many of the first tokens exist in every layer. */
uint32_t bt_xfer_send_whole(const bt_xfer_send *s);
#endif
