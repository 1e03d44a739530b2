#ifndef DC_LOOKUP_H
#define DC_LOOKUP_H
#include <stddef.h>
#include <stdint.h>

/* Speculative decoding by prompt look-up: drafts are the tokens that once followed the answer's present ending. Pure;
 * it decides only what is worth trying. The sampler verifies every draft, so no output depends on this file.
 *
 * The search: the longest suffix of 3, 2 or 1 of the tokens so far (prompt and answer) that occurs earlier among them,
 * at its latest place; the drafts are the tokens behind that place.
 *
 * The number of drafts: as many as give the most tokens a second, by the recent time of steps of so many rows and by
 * how often drafts behind suffixes of that length were right lately in this sequence; none where the gain over no
 * drafts is below DC_LOOKUP_GAIN. Without trials, belief goes back to the first guess, so that drafts are tried again
 * after failures, but seldom. */
enum { DC_LOOKUP_LONGEST = 3, DC_LOOKUP_ROWS = 64 };
#define DC_LOOKUP_GAIN 1.03f

/* How a sequence's drafts fared, by length of the suffix - 1. Zero it for a new sequence. */
typedef struct dc_lookup {
    float right[DC_LOOKUP_LONGEST], tried[DC_LOOKUP_LONGEST];
} dc_lookup;
/* The recent time of steps by their rows. Zero it at first. */
typedef struct dc_lookup_cost {
    float step_us[DC_LOOKUP_ROWS + 1];
} dc_lookup_cost; /* 0: not known */

/* *ret_place: the index behind the place found, < n; returns the length of the suffix, 0: none found. */
uint32_t dc_lookup_find(size_t *ret_place, const int32_t *ids, size_t n);

/* The estimated share of right drafts behind a suffix of this length. */
float dc_lookup_belief(const dc_lookup *l, uint32_t suffix);
/* How many drafts pay, 0 .. max, beside the `rows` rows of the step without drafts, this sequence's among them. */
uint32_t dc_lookup_worth(const dc_lookup *l, uint32_t suffix, const dc_lookup_cost *cost, uint32_t rows, uint32_t max);

/* The first `accepted` of `drafted` drafts were right. */
void dc_lookup_learn(dc_lookup *l, uint32_t suffix, uint32_t drafted, uint32_t accepted);
void dc_lookup_forget(dc_lookup *l); /* a step went by without drafts though there was a suffix */
void dc_lookup_took(dc_lookup_cost *cost, uint32_t rows, float us);
#endif
