#ifndef BT_XFER_CREDIT_H
#define BT_XFER_CREDIT_H
#include <stdbool.h>
#include <stdint.h>

/* How many bytes of blocks may be under way on one bulk link. Both sides count from the beginning of the link's epoch
 * (HELLO, which numbers it), and every grant is an absolute total of that epoch: losing, repeating or reordering a
 * grant does no harm. Every block has an absolute place too: bytes (end - bytes, end] of all that the sender sent in
 * the epoch. So a block that the network repeats, or one of an older epoch, gives no credit. Pure; no allocation. */

enum { BT_XFER_HOLES = 16, BT_XFER_SPANS = 32 };
typedef struct bt_xfer_span {
    uint64_t begin, end;
} bt_xfer_span;

/* Sender. All zero until the WELCOME of the epoch. holes: bytes counted for blocks that the socket did not take; a
 * later block of the same length fills a hole. */
typedef struct bt_xfer_purse {
    uint64_t granted_bytes, used_bytes;
    bt_xfer_span holes[BT_XFER_HOLES];
    uint32_t holes_len;
} bt_xfer_purse;

void bt_xfer_purse_open(bt_xfer_purse *p, uint64_t granted_bytes);
void bt_xfer_purse_grant(bt_xfer_purse *p, uint64_t total_bytes);
/* Counts a block of `bytes` bytes, 1..; *ret_end is its end. False, and nothing changes: the credit is too small. */
bool bt_xfer_purse_take(bt_xfer_purse *p, uint64_t bytes, uint64_t *ret_end);
/* The block was not sent after all. Holes beyond the places for them stay counted until the next epoch. */
void bt_xfer_purse_return(bt_xfer_purse *p, uint64_t bytes, uint64_t end);

/* Receiver. came: bytes of blocks seen, each once; left: the part of them placed or dropped. seen: the bytes that came
 * as spans of the epoch, the first of which begins at 0. */
typedef struct bt_xfer_grant {
    uint64_t window_bytes, came_bytes, left_bytes, granted_bytes;
    bt_xfer_span seen[BT_XFER_SPANS];
    uint32_t seen_len;
} bt_xfer_grant;

void bt_xfer_grant_open(bt_xfer_grant *g, uint64_t window_bytes);
/* A block of the epoch came. True: it counts, and _left must follow when it is placed or dropped. False: it came
 * before, is beyond the grant, or lies behind more gaps than there are spans: it gives no credit until the next epoch.
 */
bool bt_xfer_grant_came(bt_xfer_grant *g, uint64_t bytes, uint64_t end);
void bt_xfer_grant_left(bt_xfer_grant *g, uint64_t bytes);
/* The total to send now, or 0 when it can wait. It is due when an eighth of the window came back, or the link fell
 * quiet. */
uint64_t bt_xfer_grant_due(bt_xfer_grant *g);
#endif
