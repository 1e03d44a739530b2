#ifndef BT_XFER_CREDIT_H
#define BT_XFER_CREDIT_H
#include <stdbool.h>
#include <stdint.h>

/* How many bytes of blocks may be under way on one bulk link. Both sides count from the beginning of the link's epoch
 * (HELLO), so that a grant is an absolute total: losing, repeating or reordering one does no harm.
 *
 * Sender. All zero until the first WELCOME. */
typedef struct bt_xfer_purse { uint64_t granted_bytes, used_bytes; } bt_xfer_purse;

static inline void bt_xfer_purse_open(bt_xfer_purse *p, uint64_t first_bytes) { *p = (bt_xfer_purse){first_bytes, 0}; }
static inline void bt_xfer_purse_grant(bt_xfer_purse *p, uint64_t total_bytes)
{
    if (total_bytes > p->granted_bytes) p->granted_bytes = total_bytes;
}
static inline bool bt_xfer_purse_has(const bt_xfer_purse *p, uint64_t bytes)
{
    return p->granted_bytes >= p->used_bytes && p->granted_bytes - p->used_bytes >= bytes;
}

/* Receiver. came: bytes of blocks seen; left: of these, placed or dropped. */
typedef struct bt_xfer_grant { uint64_t window_bytes, came_bytes, left_bytes, granted_bytes; } bt_xfer_grant;

static inline void bt_xfer_grant_open(bt_xfer_grant *g, uint64_t window_bytes)
{
    *g = (bt_xfer_grant){window_bytes, 0, 0, window_bytes};
}
/* The total to tell now, or 0 when it can wait: told when an eighth of the window came back, or the link fell quiet. */
static inline uint64_t bt_xfer_grant_due(bt_xfer_grant *g)
{
    uint64_t total = g->left_bytes + g->window_bytes;
    bool quiet = g->came_bytes == g->left_bytes;
    if (total == g->granted_bytes || (!quiet && total - g->granted_bytes < g->window_bytes / 8)) return 0;
    return g->granted_bytes = total;
}
#endif
