#ifndef DC_BATCH_H
#define DC_BATCH_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"

/* Who is in the next step: the pure part of continuous batching. No clock, no thread, no memory of tokens or pages;
 * only dc_batch_new allocates. The worker drives it with a real engine, simulations with a virtual one.
 *
 * A sequence has a prompt of P tokens, `known` tokens of its answer, and `rows` KV rows in place:
 *     rows < P                        the prompt is prefilled here, from row `rows` on, and makes token 0 where known
 *                                     == 0
 *     P <= rows < P + known - 1       rows of known tokens are missing: they are replayed
 *     rows == P + known - 1           the next row makes token `known`
 * It is over for the scheduler when known == max_tokens; its last token needs no row.
 *
 * Rules:
 *   turns     when both wait, a decode step and one piece of a prefill (at most chunk_tokens rows) take turns, so
 *             running sequences never stall longer than one piece. Prefill is first come first served.
 *   mixed     where one call computes both (mixed_rows), every plan takes both: the rows of a step, and behind them
 *             pieces of prompts in the order in which they came, at most chunk_tokens rows of them and
 *             DC_BATCH_PIECES prompts, until mixed_rows are full. Short prompts then share a call.
 *   fairness  a step takes every sequence that can run. Where these are more than rows_max, the sequence that waited
 *             longest goes first: so a sequence that can run is in one of the next ceil(running / rows_max) steps.
 *   idle rows free rows go to replay first, up to replay_rows rows of a sequence in a step, then to drafts. Neither
 *             takes a sequence's place.
 *   room      a sequence whose next row is beyond its capacity sits out and keeps its turn. A need is given out once,
 *             when less than ahead_tokens of room are left, and again after each dc_batch_grow that gave too little. */
typedef struct dc_batch dc_batch;

typedef struct dc_batch_config {
    uint32_t slots;        /* 1.. */
    uint32_t rows_max;     /* of one step, 1.. */
    uint32_t replay_rows;  /* of one sequence in one step; 0 counts as 1 */
    uint32_t chunk_tokens; /* of one piece of a prefill, 1.. */
    uint32_t mixed_rows;   /* of one mixed step, > rows_max; 0: steps and pieces of prompts take turns
                            */
    uint32_t ahead_tokens;
} dc_batch_config;

typedef struct dc_batch_join {
    uint32_t slot;            /* a free slot */
    uint32_t prompt_tokens;   /* 1.. */
    uint32_t known, rows;     /* as above */
    uint32_t capacity_tokens; /* rows that its pages hold */
    uint32_t max_tokens;      /* of the answer, > known; prompt_tokens + max_tokens < 2^31 */
} dc_batch_join;

typedef enum dc_batch_kind { DC_BATCH_NOTHING = 0, DC_BATCH_STEP, DC_BATCH_PREFILL, DC_BATCH_MIXED } dc_batch_kind;
enum { DC_BATCH_PIECES = 16 };

/* One sequence of a plan: rows [pos, pos + count), of which the last `out` make logits. In a step the last `drafts`
 * rows are drafts, and the item makes drafts + 1 logits, or none where replay goes on. A piece of a prefill makes one
 * (token 0) or none. */
typedef struct dc_batch_item {
    uint32_t slot, pos, count, out, drafts;
} dc_batch_item;

typedef struct dc_batch_plan {
    dc_batch_kind kind;
    const dc_batch_item *items; /* borrowed until the next call of dc_batch_next; one of a PREFILL */
    uint32_t items_len, rows;
    uint32_t pieces; /* how many items at the end are pieces of prompts: none in a STEP, the only item of a PREFILL,
                        some in a MIXED step */
} dc_batch_plan;

bt_err dc_batch_new(dc_batch **ret, const dc_batch_config *config, bt_fault *fault); /* BT_EARG, BT_ENOMEM */
void dc_batch_free(dc_batch *b);                                                     /* NULL is fine */

/* Breaking these contracts is a bug of the caller: assert. */
void dc_batch_join_slot(dc_batch *b, const dc_batch_join *join);
void dc_batch_leave(dc_batch *b, uint32_t slot);                          /* a free slot is fine */
void dc_batch_grow(dc_batch *b, uint32_t slot, uint32_t capacity_tokens); /* never less than before */
/* Offers drafts for the rows after the slot's last known token; for its next step only, which may take fewer. */
void dc_batch_offer(dc_batch *b, uint32_t slot, uint32_t drafts);
/* Whether the slot can take drafts: nothing is left to prefill or replay. */
bool dc_batch_takes_drafts(const dc_batch *b, uint32_t slot);

/* Fetches what the next plan reads first. Changes nothing. */
void dc_batch_look_ahead(const dc_batch *b);
/* The items to run now; every item is then answered by dc_batch_ran or dc_batch_leave before the next plan. */
dc_batch_plan dc_batch_next(dc_batch *b);
/* The first rows_kept rows of the item stay (0: nothing was done), and new_tokens more tokens are known. */
void dc_batch_ran(dc_batch *b, uint32_t slot, uint32_t rows_kept, uint32_t new_tokens);

/* The next new need: rows that the slot's pages should hold, enough for ahead_tokens steps without another need, and
 * never more than the sequence will have. */
bool dc_batch_needs(dc_batch *b, uint32_t *ret_slot, uint32_t *ret_tokens);
#endif
