#ifndef DC_STORE_H
#define DC_STORE_H
#include "decode-node/brain/brain.h"
#include "kv/kv_pages.h"

/* The KV memory of a decode node as its brain orders it: where each slot's rows lie, and the swap store, which is pages
 * of its own and so has a fixed size, is mapped at the start and costs nothing until it is used. One owner, no
 * locks. */
typedef struct dc_store dc_store;

/* Takes both in success. swap: of the same shape and page size; NULL: there is no swap store. slot_pages: the most that
 * a slot holds. BT_ENOMEM. */
bt_err dc_store_new(dc_store **ret, bt_kv_pages *pages, bt_kv_pages *swap, uint32_t slots, uint32_t slot_pages,
                    bt_fault *fault);
void dc_store_free(dc_store *s); /* NULL is fine */

/* Carries out an action of memory: SET_PAGES, SWAP_OUT, SWAP_IN, DROP_SWAP. SWAP copies whole pages here and now. The
 * brain counted them, so what fails, with nothing half done that matters any more, is a bug or the end of the
 * system's memory. */
bt_err dc_store_do(dc_store *s, const dc_action *a, bt_fault *fault);
/* Borrowed until the slot's next action. */
void dc_store_view(bt_kv_view *ret, const dc_store *s, uint32_t slot);
#endif
