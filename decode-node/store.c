/* See store.h. */
#include "decode-node/store.h"

#include <stdlib.h>
#include <string.h>

struct dc_store {
    bt_kv_pages *pages, *swap;
    uint8_t **address; /* [slots][slot_pages] of the pages of a slot */
    bt_kv_view *view;  /* [slots] */
    bt_kv_seq *kept;   /* [slots] in swap */
    uint32_t slots, slot_pages;
};

bt_err dc_store_new(dc_store **ret, bt_kv_pages *pages, bt_kv_pages *swap, uint32_t slots,
                    uint32_t slot_pages, bt_fault *fault)
{
    dc_store *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory for %u slots", slots);
    *s = (dc_store){.slots = slots, .slot_pages = slot_pages};
    s->address = calloc(slots, slot_pages * sizeof *s->address);
    s->view = calloc(slots, sizeof *s->view);
    s->kept = calloc(slots, sizeof *s->kept);
    if (!s->address || !s->view || !s->kept) {
        dc_store_free(s);
        return bt_fail(fault, BT_ENOMEM, "out of memory for %u slots of %u pages", slots, slot_pages);
    }
    s->pages = pages;
    s->swap = swap;
    for (uint32_t i = 0; i < slots; i++)
        bt_kv_pages_view_of(&s->view[i], s->address + (size_t)i * slot_pages, pages, NULL, 0);
    *ret = s;
    return BT_OK;
}

void dc_store_free(dc_store *s)
{
    if (!s) return;
    for (uint32_t i = 0; s->swap && i < s->slots; i++) bt_kv_pages_release(s->swap, &s->kept[i]);
    bt_kv_pages_free(s->pages);
    bt_kv_pages_free(s->swap);
    free(s->address);
    free(s->view);
    free(s->kept);
    free(s);
}

void dc_store_view(bt_kv_view *ret, const dc_store *s, uint32_t slot) { *ret = s->view[slot]; }

static bt_err set_pages(dc_store *s, uint32_t slot, const uint32_t *pages, uint32_t len, bt_fault *fault)
{
    if (len > s->slot_pages)
        return bt_fail(fault, BT_ELIMIT, "%u KV pages do not fit a slot of %u", len, s->slot_pages);
    bt_kv_pages_view_of(&s->view[slot], s->address + (size_t)slot * s->slot_pages, s->pages, pages, len);
    return BT_OK;
}

/* Pages of both are laid out alike, so a page is one copy. */
static bt_err copy(dc_store *s, uint32_t slot, size_t tokens, bool is_out, bt_fault *fault)
{
    bt_kv_view kept;
    const size_t bytes = bt_kv_pages_page_bytes(s->pages), n = bt_kv_pages_needed(s->pages, tokens);
    const bt_err e = is_out ? bt_kv_pages_reserve(s->swap, &s->kept[slot], tokens, fault) : BT_OK;
    if (e < 0) return e;
    bt_kv_pages_view(&kept, s->swap, &s->kept[slot]);
    const bt_kv_view *live = &s->view[slot];
    if (tokens > live->tokens_capacity || tokens > kept.tokens_capacity)
        return bt_fail(fault, BT_EARG, "%zu rows cannot be swapped: the slot holds %zu, the store %zu",
                       tokens, live->tokens_capacity, kept.tokens_capacity);
    for (size_t i = 0; i < n; i++)
        memcpy(is_out ? kept.page[i] : live->page[i], is_out ? live->page[i] : kept.page[i], bytes);
    if (!is_out) bt_kv_pages_release(s->swap, &s->kept[slot]);
    return BT_OK;
}

bt_err dc_store_do(dc_store *s, const dc_action *a, bt_fault *fault)
{
    if (a->type == DC_DO_SET_PAGES)
        return set_pages(s, a->u.set.slot, a->u.set.pages, a->u.set.pages_len, fault);
    if (a->type != DC_DO_DROP_SWAP)
        return copy(s, a->u.swap.slot, a->u.swap.tokens, a->type == DC_DO_SWAP_OUT, fault);
    bt_kv_pages_release(s->swap, &s->kept[a->u.slot]);
    return BT_OK;
}
