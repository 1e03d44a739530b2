#ifndef BT_GRAMMAR_MASK_H
#define BT_GRAMMAR_MASK_H
#include "grammar/program.h"
#include "grammar/trie.h"

/* Which tokens may come next: a bit for each, by walking the vocabulary's tree and the program together.
 *
 * A token is open where the state accepts its whole text; those that end an answer are open where the state may end.
 * A mask is a function of (program, vocabulary, state) alone. Three things make it fast, and none changes a bit:
 *   - sets of stacks have numbers, and a set's step by a class of bytes is looked for once;
 *   - what a rule's state opens without a look at the frames around it is kept for each state: a set of tokens, and the
 *     nodes of the tree at which the rule may end, below which the walk goes on in what is around;
 *   - the masks of the last states are kept. Counts from which no token reaches a limit count as one.
 * The union of what single stacks open is the mask, so a token that alone is read in more than BT_PROGRAM_STACKS ways
 * may be open or not; bt_program_accept refuses it. What is kept decides at most whether a mask comes to BT_MASK_WORK.
 *
 * Limits: BT_MASK_SETS sets and BT_MASK_WORK steps that are looked for in one mask, beyond which the grammar is too
 * ambiguous and the mask is refused; they and the tables are let go when a table is full. */
enum {
    BT_MASK_SETS = 16384,
    BT_MASK_FRAMES = 65536,
    BT_MASK_WORK = 1000000,
    BT_MASK_STATES = 64, /* states whose sets of tokens are kept */
    BT_MASK_KEPT = 64,   /* whole masks that are kept */
};

/* For one program and one vocabulary, both borrowed; used by one thread at a time. Memory: (STATES + KEPT) * tokens / 8
 * bytes, SETS * (classes of the program) * 4 bytes and 4 MiB, taken as they are needed. */
typedef struct bt_mask bt_mask;
bt_err bt_mask_new(bt_mask **ret, const bt_program *program, const bt_trie *trie, bt_fault *fault);
void bt_mask_free(bt_mask *m); /* NULL is fine */

static inline size_t bt_mask_words(size_t tokens) { return (tokens + 63) / 64; }
/* bits[bt_mask_words(tokens)]: bit id % 64 of word id / 64. BT_EFORMAT where no token is open, with the state's words;
 * BT_ELIMIT; BT_ENOMEM. On failure no bit is set. */
bt_err bt_mask_fill(uint64_t *bits, bt_mask *m, const bt_program_state *state, bt_fault *fault);
#endif
