#ifndef TESTS_WORLD_SIM_PAGES_H
#define TESTS_WORLD_SIM_PAGES_H
#include "wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

/* The KV memory of a simulated decode node: pages of rows of a toy shape, by the class of their layers, which slot has
 * which, as its brain says, and a swap store without a limit of its own. A page keeps its rows, as in a real node; rows
 * are a function of the prompt that they belong to, so that a row read by another sequence shows. Functions that return
 * bool return false where the brain breaks a promise. A brain may give a window page whose rows are gone to another
 * slot before it says so; what the first one reads shows whether they were. */
typedef struct sim_pages sim_pages;

typedef struct sim_pages_want {
    uint32_t slots, pages, window_pages, page_tokens, ctx_tokens; /* window_pages: of window layers */
    bt_kv_shape shape;                                            /* sim_toy_shape */
} sim_pages_want;
/* BT_ENOMEM */
bt_err sim_pages_new(sim_pages **ret, const sim_pages_want *want);
void sim_pages_free(sim_pages *p); /* NULL is fine */

/* A slot that has pages may lose all or get more behind them, and lose window pages at their begin, nothing else.
 * windows: as bt_kv_book_windows. */
bool sim_pages_set(sim_pages *p, uint32_t slot, const uint32_t *pages, const uint32_t *windows, uint32_t len);
/* Rows of window layers before the page of window_begin are not kept. */
bool sim_pages_swap_out(sim_pages *p, uint32_t slot, uint32_t tokens, uint32_t window_begin);
bool sim_pages_swap_in(sim_pages *p, uint32_t slot, uint32_t tokens, uint32_t window_begin);
bool sim_pages_drop_swap(sim_pages *p, uint32_t slot);

/* Rows that the slot writes from now on are of a prompt of this salt. Whether the first `tokens` rows of the slot lie
 * in pages that were written last under its salt: */
void sim_pages_set_salt(sim_pages *p, uint32_t slot, uint32_t salt);
bool sim_pages_are_of_salt(const sim_pages *p, uint32_t slot, uint32_t tokens);

/* of a page that the slot has; a row that is gone has bytes as of a page that nobody wrote */
const uint8_t *sim_pages_row(const sim_pages *p, uint32_t slot, uint32_t layer, uint32_t token);
/* False: another slot has the page too, though it is written; or the row's page is gone. */
bool sim_pages_write(sim_pages *p, uint32_t slot, uint32_t layer, uint32_t token, const uint8_t *row);
uint64_t sim_pages_digest(sim_pages *p, uint32_t slot, uint32_t tokens); /* sim_toy_seen by the row at `tokens` */
uint32_t sim_pages_capacity(const sim_pages *p, uint32_t slot);          /* in tokens */
uint32_t sim_pages_used(const sim_pages *p); /* some slot has them; without those of window layers */
/* In pages, and those of window layers. */
uint32_t sim_pages_swapped(const sim_pages *p);
uint32_t sim_pages_swapped_windows(const sim_pages *p);
#endif
