#ifndef DC_STORE_H
#define DC_STORE_H
#include "decode-node/brain/brain.h"
#include "kv/kv_pages.h"

/* The KV memory of a decode node, ordered by its brain: the pages of each slot, and the swap store, which consists of
 * pages of its own. So the swap store has a fixed size, is mapped at the start and costs nothing until it is used. One
 * owner, no locks. */
typedef struct dc_store dc_store;

/* Takes ownership of pages and swap in success. swap: of the same shape and page size; zero: no swap store. slot_pages:
 * the most pages of a slot. BT_ENOMEM. */
bt_err dc_store_new(dc_store **ret, const bt_kv_memory *pages, const bt_kv_memory *swap, uint32_t slots,
                    uint32_t slot_pages, bt_fault *fault);
void dc_store_free(dc_store *s); /* NULL is fine */

/* Carries out an action of memory: SET_PAGES, SWAP_OUT, SWAP_IN, DROP_SWAP. SWAP copies whole pages at once,
 * of window layers from that of window_begin on. The brain has counted the pages, so a failure is a bug or the end of
 * the system's memory; whatever it leaves half done no longer matters. */
bt_err dc_store_do(dc_store *s, const dc_action *a, bt_fault *fault);
/* Borrowed until the slot's next action. */
void dc_store_view(bt_kv_view *ret, const dc_store *s, uint32_t slot);
#endif
