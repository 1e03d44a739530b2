#ifndef DC_BATCH_H
#define DC_BATCH_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"

/* Who is in the next step: the pure part of continuous batching. No clock, no thread, no memory of tokens or pages; it
 * allocates in dc_batch_new only. The worker drives it with the engine, sim/ with a virtual one.
 *
 * A sequence has a prompt of P tokens, of its answer `known` tokens are known, and `rows` of its KV rows are in place:
 *     rows < P                        the prompt is prefilled here, from row `rows` on; token 0 comes out of it where
 *                                     known == 0
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
 *   fairness  a step takes every sequence that can run. Where these are more than rows_max, the one that waited longest
 *             goes first: who can run waits for at most the others of that moment, so it is in one of the next
 *             ceil(running / rows_max) steps.
 *   idle rows rows that are left go to replay first, up to replay_rows rows of a sequence in a step, then to drafts.
 *             They take no sequence's place.
 *   room      a sequence whose next row is beyond its capacity sits out and keeps its turn. A need is told once,
 *             already when less than ahead_tokens of room are left, and once more after each dc_batch_grow that gave
 *             too little. */
typedef struct dc_batch dc_batch;

typedef struct dc_batch_config {
    uint32_t slots;        /* 1.. */
    uint32_t rows_max;     /* of one step, 1.. */
    uint32_t replay_rows;  /* of one sequence in one step; 0 counts as 1 */
    uint32_t chunk_tokens; /* of one piece of a prefill, 1.. */
    uint32_t mixed_rows;   /* of one call that takes a step's rows and pieces of prompts, > rows_max; 0: they take turns
                            */
    uint32_t ahead_tokens;
} dc_batch_config;

typedef struct dc_batch_join {
    uint32_t slot;            /* free until now */
    uint32_t prompt_tokens;   /* 1.. */
    uint32_t known, rows;     /* as above */
    uint32_t capacity_tokens; /* rows that its pages hold */
    uint32_t max_tokens;      /* of the answer, > known; prompt_tokens + max_tokens < 2^31 */
} dc_batch_join;

typedef enum dc_batch_kind { DC_BATCH_NOTHING = 0, DC_BATCH_STEP, DC_BATCH_PREFILL, DC_BATCH_MIXED } dc_batch_kind;
enum { DC_BATCH_PIECES = 16 };

/* One sequence of a plan: rows [pos, pos + count), of which the last `out` make logits. Of a step's, the last `drafts`
 * are drafts; it makes drafts + 1 logits, or none where it replays and has not come to the end. A piece of a prefill
 * makes one (token 0) or none. */
typedef struct dc_batch_item {
    uint32_t slot, pos, count, out, drafts;
} dc_batch_item;

typedef struct dc_batch_plan {
    dc_batch_kind kind;
    const dc_batch_item *items; /* borrowed until the next call of dc_batch_next; one of a PREFILL */
    uint32_t items_len, rows;
    uint32_t pieces; /* how many items at the end are pieces of prompts: a STEP has none, a PREFILL is one and nothing
                        else; all others are MIXED */
} dc_batch_plan;

bt_err dc_batch_new(dc_batch **ret, const dc_batch_config *config, bt_fault *fault); /* BT_EARG, BT_ENOMEM */
void dc_batch_free(dc_batch *b);                                                     /* NULL is fine */

/* Breaking a contract is a bug of the caller: assert. */
void dc_batch_join_slot(dc_batch *b, const dc_batch_join *join);
void dc_batch_leave(dc_batch *b, uint32_t slot);                          /* a free slot is fine */
void dc_batch_grow(dc_batch *b, uint32_t slot, uint32_t capacity_tokens); /* never less than before */
/* Drafts that there are for the rows after the slot's last known token; for its next step only, fewer may be taken. */
void dc_batch_offer(dc_batch *b, uint32_t slot, uint32_t drafts);
/* Whether a draft would be looked at: nothing of the slot is left to prefill or replay. */
bool dc_batch_takes_drafts(const dc_batch *b, uint32_t slot);

/* Fetches what the next plan reads first. Changes nothing. */
void dc_batch_look_ahead(const dc_batch *b);
/* What to run now; every item is then answered by dc_batch_ran or dc_batch_leave before the next plan. */
dc_batch_plan dc_batch_next(dc_batch *b);
/* Of the item, the first rows_kept rows stay (0: nothing was done), and new_tokens tokens more are known. */
void dc_batch_ran(dc_batch *b, uint32_t slot, uint32_t rows_kept, uint32_t new_tokens);

/* The next need that was not told yet: rows that the slot's pages should hold, enough for ahead_tokens steps without
 * another need, and at most what the sequence will ever have. */
bool dc_batch_needs(dc_batch *b, uint32_t *ret_slot, uint32_t *ret_tokens);
#endif
