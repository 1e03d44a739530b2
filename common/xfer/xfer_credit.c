/* Credit of one bulk link, on both sides. See xfer_credit.h. */
#include "xfer/xfer_credit.h"

#include <string.h>

void bt_xfer_purse_open(bt_xfer_purse *p, uint64_t granted_bytes)
{
    *p = (bt_xfer_purse){.granted_bytes = granted_bytes};
}

void bt_xfer_purse_grant(bt_xfer_purse *p, uint64_t total_bytes)
{
    if (total_bytes > p->granted_bytes) p->granted_bytes = total_bytes;
}

bool bt_xfer_purse_take(bt_xfer_purse *p, uint64_t bytes, uint64_t *ret_end)
{
    for (uint32_t i = 0; i < p->holes_len; i++) {
        if (p->holes[i].end - p->holes[i].begin != bytes) continue;
        *ret_end = p->holes[i].end;
        p->holes[i] = p->holes[--p->holes_len];
        return true;
    }
    if (p->granted_bytes < p->used_bytes || p->granted_bytes - p->used_bytes < bytes) return false;
    *ret_end = p->used_bytes += bytes;
    return true;
}

/* The hole that ends where the used bytes end; NULL: there is none. */
static bt_xfer_span *last_hole(bt_xfer_purse *p)
{
    for (uint32_t i = 0; i < p->holes_len; i++)
        if (p->holes[i].end == p->used_bytes) return &p->holes[i];
    return NULL;
}

void bt_xfer_purse_return(bt_xfer_purse *p, uint64_t bytes, uint64_t end)
{
    if (p->holes_len == BT_XFER_HOLES && end != p->used_bytes) return;
    if (end != p->used_bytes) {
        p->holes[p->holes_len++] = (bt_xfer_span){end - bytes, end};
        return;
    }
    p->used_bytes -= bytes;
    for (bt_xfer_span *h; (h = last_hole(p));) {
        p->used_bytes = h->begin;
        *h = p->holes[--p->holes_len];
    }
}

void bt_xfer_grant_open(bt_xfer_grant *g, uint64_t window_bytes)
{
    *g = (bt_xfer_grant){.window_bytes = window_bytes, .granted_bytes = window_bytes, .seen_len = 1};
}

bool bt_xfer_grant_came(bt_xfer_grant *g, uint64_t bytes, uint64_t end)
{
    if (bytes == 0 || bytes > end || end > g->granted_bytes) return false;
    const uint64_t begin = end - bytes;
    uint32_t at = 0; /* the last span that begins at or before it; the first always does */
    while (at + 1 < g->seen_len && g->seen[at + 1].begin <= begin) at++;
    bt_xfer_span *before = &g->seen[at], *after = at + 1 < g->seen_len ? before + 1 : NULL;
    if (before->end > begin || (after && after->begin < end)) return false;
    if (before->end == begin) {
        before->end = end;
        if (after && after->begin == end) {
            before->end = after->end;
            memmove(after, after + 1, (g->seen_len - at - 2) * sizeof *after);
            g->seen_len--;
        }
    } else if (after && after->begin == end) {
        after->begin = begin;
    } else if (g->seen_len < BT_XFER_SPANS) {
        memmove(before + 2, before + 1, (g->seen_len - at - 1) * sizeof *before);
        before[1] = (bt_xfer_span){begin, end};
        g->seen_len++;
    } else {
        return false;
    }
    g->came_bytes += bytes;
    return true;
}

void bt_xfer_grant_left(bt_xfer_grant *g, uint64_t bytes) { g->left_bytes += bytes; }

uint64_t bt_xfer_grant_due(bt_xfer_grant *g)
{
    const uint64_t total = g->left_bytes + g->window_bytes;
    const bool quiet = g->came_bytes == g->left_bytes;
    if (total == g->granted_bytes || (!quiet && total - g->granted_bytes < g->window_bytes / 8)) return 0;
    return g->granted_bytes = total;
}
