#ifndef BT_ENGINE_MIXED_H
#define BT_ENGINE_MIXED_H
#include "engine/decode.h"
#include "engine/prefill.h"
#include "kernels/forms.h"

/* A mixed step: decode rows and pieces of prompts in one call, where both belong to one engine (the rule of provenance,
 * docs/numerics.md): both doors are `npu` with one package, or both `host` with f16 weights. A row of one token then
 * has the same bits by either door, so that the prefill door may compute a decode step's rows beside its prompts, and
 * weights are read once for all. */

/* Rows of a mixed step (bt_prefill_packed_rows); 0: the two are not one engine, or the engine packs no prompts. */
size_t bt_mixed_rows(const bt_prefill *p, const bt_decode *d);

/* The most pieces of prompts in a decode node's mixed step. */
enum { BT_MIXED_PIECES = 16 };
/* Rows of logits that it holds for them (bt_needs_want), by its engines (NULL: none) and the form of its
 * weights: BT_MIXED_PIECES where they are one engine. */
size_t bt_mixed_logits(const char *prefill, const char *decode, bt_form weights);

/* The entries of bt_prefill_run_batch for one sequence of a decode step: one for the rows up to the first that wants
 * logits, then one for each further row. Writes at most max(1, s->out) of them; returns how many. logits[s->out, V].
 * s->overflow is not NULL. */
size_t bt_mixed_entries(bt_prefill_seq *ret, const bt_decode_seq *s, float *logits, size_t vocab);
#endif
