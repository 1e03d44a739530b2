/* See store.h. */
#include "decode-node/store.h"

#include <stdlib.h>
#include <string.h>

struct dc_store {
    bt_kv_pages *pages, *swap;
    bt_kv_seq *seq, *kept;                  /* [slots] in pages; in swap */
    uint32_t slots;
};

bt_err dc_store_new(dc_store **ret, bt_kv_pages *pages, bt_kv_pages *swap, uint32_t slots, bt_fault *fault)
{
    dc_store *s = calloc(1, sizeof *s);
    bt_kv_seq *seq = calloc(slots, sizeof *seq), *kept = calloc(slots, sizeof *kept);
    if (!s || !seq || !kept) {
        free(s);
        free(seq);
        free(kept);
        return bt_fail(fault, BT_ENOMEM, "%u slots", slots);
    }
    *s = (dc_store){ pages, swap, seq, kept, slots };
    *ret = s;
    return BT_OK;
}

void dc_store_free(dc_store *s)
{
    if (!s) return;
    for (uint32_t i = 0; i < s->slots; i++) {
        bt_kv_pages_release(s->pages, &s->seq[i]);
        if (s->swap) bt_kv_pages_release(s->swap, &s->kept[i]);
    }
    bt_kv_pages_free(s->pages);
    bt_kv_pages_free(s->swap);
    free(s->seq);
    free(s->kept);
    free(s);
}

void dc_store_view(bt_kv_view *ret, const dc_store *s, uint32_t slot) { bt_kv_pages_view(ret, s->pages, &s->seq[slot]); }

/* Pages of both are laid out alike, so a page is one copy. */
static void copy(const dc_store *s, uint32_t slot, size_t tokens, bool is_out)
{
    bt_kv_view live, kept;
    bt_kv_pages_view(&live, s->pages, &s->seq[slot]);
    bt_kv_pages_view(&kept, s->swap, &s->kept[slot]);
    const size_t bytes = bt_kv_pages_page_bytes(s->pages), n = bt_kv_pages_needed(s->pages, tokens);
    for (size_t i = 0; i < n; i++) memcpy(is_out ? kept.page[i] : live.page[i], is_out ? live.page[i] : kept.page[i], bytes);
}

/* The page that the shared rows end in is copied at once: its next row is written soon, and the brain has counted it. `from` may be running:
 * rows of its prompt do not change, and no other is read. */
static bt_err share(dc_store *s, uint32_t slot, uint32_t from, size_t tokens, bt_fault *fault)
{
    const bt_err e = bt_kv_pages_share(s->pages, &s->seq[slot], &s->seq[from], tokens, fault);
    if (e < 0 || tokens % bt_kv_pages_page_tokens(s->pages) == 0) return e;
    return bt_kv_pages_own(s->pages, &s->seq[slot], tokens, tokens + 1, fault);
}

static bt_err swap_out(dc_store *s, uint32_t slot, size_t tokens, bt_fault *fault)
{
    const bt_err e = bt_kv_pages_reserve(s->swap, &s->kept[slot], tokens, fault);
    if (e < 0) return e;
    copy(s, slot, tokens, true);
    bt_kv_pages_release(s->pages, &s->seq[slot]);
    return BT_OK;
}

static bt_err swap_in(dc_store *s, uint32_t slot, size_t tokens, size_t capacity, bt_fault *fault)
{
    const bt_err e = bt_kv_pages_reserve(s->pages, &s->seq[slot], capacity, fault);
    if (e < 0) return e;
    copy(s, slot, tokens, false);
    bt_kv_pages_release(s->swap, &s->kept[slot]);
    return BT_OK;
}

bt_err dc_store_do(dc_store *s, const dc_action *a, bt_fault *fault)
{
    const uint32_t slot = a->u.pages.slot, tokens = a->u.pages.tokens;
    if (a->type == DC_DO_RESERVE_PAGES || a->type == DC_DO_GROW_PAGES) return bt_kv_pages_reserve(s->pages, &s->seq[slot], tokens, fault);
    if (a->type == DC_DO_SHARE_PAGES) return share(s, slot, a->u.pages.from, tokens, fault);
    if (a->type == DC_DO_SWAP_OUT) return swap_out(s, slot, tokens, fault);
    if (a->type == DC_DO_SWAP_IN) return swap_in(s, slot, tokens, a->u.pages.capacity, fault);
    if (a->type == DC_DO_FREE_PAGES) bt_kv_pages_release(s->pages, &s->seq[slot]);
    else bt_kv_pages_release(s->swap, &s->kept[slot]);
    return BT_OK;
}
