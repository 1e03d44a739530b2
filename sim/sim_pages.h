#ifndef SIM_PAGES_H
#define SIM_PAGES_H
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The KV memory of a simulated decode node: pages of rows of the toy shape, which slot holds which, and a swap store without a limit of its
 * own. Page numbers are drawn from the top of a stack, so that sequences come to lie in any order; a page that nobody holds any more is
 * overwritten at once, so that a row read too late shows. What returns bool is false where a promise of the brain is broken. */
typedef struct sim_pages sim_pages;

bt_err sim_pages_new(sim_pages **ret, uint32_t slots, uint32_t pages, uint32_t page_tokens, uint32_t ctx_tokens);      /* BT_ENOMEM */
void   sim_pages_free(sim_pages *p);                    /* NULL is fine */

bool sim_pages_hold(sim_pages *p, uint32_t slot, uint32_t tokens);
bool sim_pages_share(sim_pages *p, uint32_t slot, uint32_t from, uint32_t tokens);     /* slot holds nothing yet */
void sim_pages_release(sim_pages *p, uint32_t slot);
bool sim_pages_swap_out(sim_pages *p, uint32_t slot, uint32_t tokens);
bool sim_pages_swap_in(sim_pages *p, uint32_t slot, uint32_t tokens, uint32_t capacity_tokens);
bool sim_pages_drop_swap(sim_pages *p, uint32_t slot);

uint8_t *sim_pages_row(sim_pages *p, uint32_t slot, uint32_t layer, uint32_t token);   /* of a page that the slot holds */
uint64_t sim_pages_digest(sim_pages *p, uint32_t slot, uint32_t tokens);               /* sim_toy_mix of every row below */
uint32_t sim_pages_capacity(const sim_pages *p, uint32_t slot);                         /* in tokens */
uint32_t sim_pages_used(const sim_pages *p);
uint32_t sim_pages_swapped(const sim_pages *p);         /* in pages */
bool     sim_pages_is_sound(const sim_pages *p);        /* each page has as many holders as slots name it */
#endif
