#ifndef DC_LOOKUP_H
#define DC_LOOKUP_H
#include <stddef.h>
#include <stdint.h>

/* Speculative decoding by prompt look-up: drafts are what once followed the words that the answer now ends with. Pure;
 * it decides only what is worth trying. Every draft is verified by the sampler, so no output depends on anything here.
 *
 * What is found: the longest suffix of 3, 2 or 1 tokens of the tokens so far (prompt and answer) that stands in them
 * earlier, at its latest place; the drafts are the tokens behind that place.
 *
 * How many are brought: as many as give the most tokens a second, by what steps of so many rows took lately and by how
 * often drafts behind suffixes of that length were right lately in this sequence; none where that is not at least
 * DC_LOOKUP_GAIN more than without. Without trials, belief goes back to the first guess, so that what lost is tried
 * again, seldom. */
enum { DC_LOOKUP_LONGEST = 3, DC_LOOKUP_ROWS = 64 };
#define DC_LOOKUP_GAIN 1.03f

/* How a sequence's drafts fared, by length of the suffix - 1. Zero it for a new sequence. */
typedef struct dc_lookup {
    float right[DC_LOOKUP_LONGEST], tried[DC_LOOKUP_LONGEST];
} dc_lookup;
/* What steps took. Zero it at first. */
typedef struct dc_lookup_cost {
    float step_us[DC_LOOKUP_ROWS + 1];
} dc_lookup_cost; /* by rows; 0: not known */

/* *ret_place: the index behind the place that was found, < n; returns the length of the suffix, 0: there is none. */
uint32_t dc_lookup_find(size_t *ret_place, const int32_t *ids, size_t n);

/* Share of drafts behind a suffix of that length that are right, as far as is known. */
float dc_lookup_belief(const dc_lookup *l, uint32_t suffix);
/* How many drafts pay, 0 .. max, beside `rows` rows that are in the step anyway, this sequence's among them. */
uint32_t dc_lookup_worth(const dc_lookup *l, uint32_t suffix, const dc_lookup_cost *cost, uint32_t rows, uint32_t max);

/* Of `drafted` drafts the first `accepted` were right. */
void dc_lookup_learn(dc_lookup *l, uint32_t suffix, uint32_t drafted, uint32_t accepted);
void dc_lookup_forget(dc_lookup *l); /* a step went by without drafts though there was a suffix */
void dc_lookup_took(dc_lookup_cost *cost, uint32_t rows, float us);
#endif
