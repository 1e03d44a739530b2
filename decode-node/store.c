/* See store.h. */
#include "decode-node/store.h"

#include <stdlib.h>
#include <string.h>

typedef struct kept {
    bt_kv_seq all, windows;
} kept;

struct dc_store {
    bt_kv_memory pages, swap;
    uint8_t **address; /* [slots][2 slot_pages] of the pages of a slot */
    bt_kv_view *view;  /* [slots] */
    kept *kept;        /* [slots] in swap */
    uint32_t slots, slot_pages;
};

static uint8_t **addresses_of(const dc_store *s, uint32_t slot)
{
    return s->address + (size_t)slot * 2 * s->slot_pages;
}

bt_err dc_store_new(dc_store **ret, const bt_kv_memory *pages, const bt_kv_memory *swap, uint32_t slots,
                    uint32_t slot_pages, bt_fault *fault)
{
    dc_store *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory for %u slots", slots);
    *s = (dc_store){.slots = slots, .slot_pages = slot_pages};
    s->address = calloc(slots, 2 * (size_t)slot_pages * sizeof *s->address);
    s->view = calloc(slots, sizeof *s->view);
    s->kept = calloc(slots, sizeof *s->kept);
    if (!s->address || !s->view || !s->kept) {
        dc_store_free(s);
        return bt_fail(fault, BT_ENOMEM, "out of memory for %u slots of %u pages", slots, slot_pages);
    }
    s->pages = *pages;
    s->swap = *swap;
    for (uint32_t i = 0; i < slots; i++)
        bt_kv_memory_view(&s->view[i], addresses_of(s, i), pages, &(bt_kv_numbers){.len = 0});
    *ret = s;
    return BT_OK;
}

static void forget(dc_store *s, kept *k)
{
    if (s->swap.all) bt_kv_pages_release(s->swap.all, &k->all);
    if (s->swap.windows) bt_kv_pages_release(s->swap.windows, &k->windows);
}

void dc_store_free(dc_store *s)
{
    if (!s) return;
    for (uint32_t i = 0; i < s->slots && s->kept; i++) forget(s, &s->kept[i]);
    bt_kv_memory_free(&s->pages);
    bt_kv_memory_free(&s->swap);
    free(s->address);
    free(s->view);
    free(s->kept);
    free(s);
}

void dc_store_view(bt_kv_view *ret, const dc_store *s, uint32_t slot) { *ret = s->view[slot]; }

static bt_err set_pages(dc_store *s, uint32_t slot, const bt_kv_numbers *numbers, bt_fault *fault)
{
    if (numbers->len > s->slot_pages)
        return bt_fail(fault, BT_ELIMIT, "%u KV pages do not fit a slot of %u", numbers->len, s->slot_pages);
    bt_kv_memory_view(&s->view[slot], addresses_of(s, slot), &s->pages, numbers);
    return BT_OK;
}

/* Pages of a class with `tokens` rows, between the slot's and its place in the swap store. Pages of both are
 * laid out alike, so a page is one copy. */
static bt_err copy_class(bt_kv_pages *swap, bt_kv_seq *seq, uint8_t *const *live, size_t tokens, bool is_out,
                         bt_fault *fault)
{
    bt_kv_view there;
    const bt_err e = is_out ? bt_kv_pages_reserve(swap, seq, tokens, fault) : BT_OK;
    if (e < 0) return e;
    bt_kv_pages_view(&there, swap, seq);
    if (tokens > there.tokens_capacity)
        return bt_fail(fault, BT_EARG, "%zu rows cannot be swapped: the store holds %zu", tokens,
                       there.tokens_capacity);
    for (size_t i = 0; i < bt_kv_pages_needed(swap, tokens); i++)
        memcpy(is_out ? there.page[i] : live[i], is_out ? live[i] : there.page[i],
               bt_kv_pages_page_bytes(swap));
    return BT_OK;
}

static bt_err copy(dc_store *s, uint32_t slot, size_t tokens, size_t window_begin, bool is_out,
                   bt_fault *fault)
{
    const bt_kv_view *live = &s->view[slot];
    const size_t from = window_begin / live->page_tokens, gone = from * live->page_tokens;
    kept *k = &s->kept[slot];
    bt_err e = BT_OK;
    if (tokens > live->tokens_capacity || gone > tokens)
        return bt_fail(fault, BT_EARG, "%zu rows cannot be swapped: the slot holds %zu", tokens,
                       live->tokens_capacity);
    if (s->swap.all) e = copy_class(s->swap.all, &k->all, live->page, tokens, is_out, fault);
    if (e == BT_OK && s->swap.windows)
        e = copy_class(s->swap.windows, &k->windows, live->window_page + from, tokens - gone, is_out, fault);
    if (e == BT_OK && !is_out) forget(s, k);
    return e;
}

bt_err dc_store_do(dc_store *s, const dc_action *a, bt_fault *fault)
{
    if (a->type == DC_DO_SET_PAGES)
        return set_pages(s, a->u.set.slot,
                         &(bt_kv_numbers){a->u.set.pages, a->u.set.windows, a->u.set.pages_len}, fault);
    if (a->type != DC_DO_DROP_SWAP)
        return copy(s, a->u.swap.slot, a->u.swap.tokens, a->u.swap.window_begin, a->type == DC_DO_SWAP_OUT,
                    fault);
    forget(s, &s->kept[a->u.slot]);
    return BT_OK;
}
