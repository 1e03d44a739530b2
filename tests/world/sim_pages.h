#ifndef TESTS_WORLD_SIM_PAGES_H
#define TESTS_WORLD_SIM_PAGES_H
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The KV memory of a simulated decode node: pages of rows of the toy shape, which slot has which, as its brain says,
 * and a swap store without a limit of its own. A page keeps its rows, as in a real node; rows are a function of the
 * prompt that they belong to, so that a row read by another sequence shows. Functions that return bool return false
 * where the brain breaks a promise. */
typedef struct sim_pages sim_pages;

/* BT_ENOMEM */
bt_err sim_pages_new(sim_pages **ret, uint32_t slots, uint32_t pages, uint32_t page_tokens, uint32_t ctx_tokens);
void sim_pages_free(sim_pages *p); /* NULL is fine */

/* A slot that has pages may lose all or get more behind them, nothing else. */
bool sim_pages_set(sim_pages *p, uint32_t slot, const uint32_t *pages, uint32_t len);
bool sim_pages_swap_out(sim_pages *p, uint32_t slot, uint32_t tokens);
bool sim_pages_swap_in(sim_pages *p, uint32_t slot, uint32_t tokens);
bool sim_pages_drop_swap(sim_pages *p, uint32_t slot);

/* Rows that the slot writes from now on are of a prompt of this salt. Whether the first `tokens` rows of the slot lie
 * in pages that were written last under its salt: */
void sim_pages_set_salt(sim_pages *p, uint32_t slot, uint32_t salt);
bool sim_pages_are_of_salt(const sim_pages *p, uint32_t slot, uint32_t tokens);

/* of a page that the slot has */
const uint8_t *sim_pages_row(const sim_pages *p, uint32_t slot, uint32_t layer, uint32_t token);
/* False, though written: another slot has the page too. */
bool sim_pages_write(sim_pages *p, uint32_t slot, uint32_t layer, uint32_t token, const uint8_t *row);
uint64_t sim_pages_digest(sim_pages *p, uint32_t slot, uint32_t tokens); /* sim_toy_mix of every row below */
uint32_t sim_pages_capacity(const sim_pages *p, uint32_t slot);          /* in tokens */
uint32_t sim_pages_used(const sim_pages *p);                             /* some slot has them */
uint32_t sim_pages_swapped(const sim_pages *p);                          /* in pages */
#endif
