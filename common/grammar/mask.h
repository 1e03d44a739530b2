#ifndef BT_GRAMMAR_MASK_H
#define BT_GRAMMAR_MASK_H
#include "grammar/program.h"

/* ---- the tree of a vocabulary ---- */

/* The texts of a vocabulary as one tree of bytes, made once and never changed; any number of threads may read it.
 *
 * Nodes are in the order of a walk that visits a node before its children: node 0 is the empty text, and the nodes
 * below node i are i + 1 .. skip - 1 of it. */
typedef struct bt_trie_node {
    uint32_t skip;
    int32_t token;  /* the lowest id with the node's text, + BT_TRIE_SAME where it has others; -1: none */
    uint16_t depth; /* the text's length */
    uint8_t byte;   /* its last one */
} bt_trie_node;
typedef struct bt_trie {
    size_t tokens, nodes, ends;
    bt_trie_node *node; /* [nodes] */
    int32_t *same;      /* [tokens] the next id with the text of this one, or -1 */
    int32_t *end;       /* [ends] ids that end an answer */
    uint32_t longest;   /* bytes of the longest text */
    size_t bytes;       /* of memory */
} bt_trie;

typedef enum bt_trie_kind {
    BT_TRIE_TEXT,
    BT_TRIE_END,  /* ends an answer: a stop id or EOS */
    BT_TRIE_NONE, /* never open: control tokens and such as stand for no text */
} bt_trie_kind;
/* A vocabulary; calls must not fail, and bytes must live until bt_trie_new returns. */
typedef struct bt_trie_source {
    size_t tokens;
    bt_trie_kind (*kind)(void *ud, size_t id);
    const char *(*text)(void *ud, size_t id, size_t *ret_len); /* asked for BT_TRIE_TEXT alone; empty: never open */
    void *ud;
} bt_trie_source;
enum { BT_TRIE_TOKENS = 1 << 20, BT_TRIE_TEXT_BYTES = 1024, BT_TRIE_NODES = 1 << 26, BT_TRIE_SAME = 1 << 24 };

/* BT_ELIMIT names the limit above; BT_ENOMEM. */
bt_err bt_trie_new(bt_trie **ret, const bt_trie_source *source, bt_fault *fault);
void bt_trie_free(bt_trie *t); /* NULL is fine */

/* ---- masks ---- */

/* The tokens that may come next, a bit for each, by walking the vocabulary's tree and the program together.
 *
 * A token is open where the state accepts its whole text; those that end an answer are open where the state may end.
 * A mask is a function of (program, vocabulary, state) alone. Four things make it fast, and none changes a bit:
 *   - sets of stacks have numbers, and a set's step by a class of bytes is looked for once;
 *   - what a rule's state opens without a look at the frames around it is kept for each state: a set of tokens, and the
 *     nodes of the tree at which the rule may end, below which the walk goes on in what is around;
 *   - where a rule is read again and again, as the characters of a string, how often each token begins it is noted
 *     once for calls of any min and max, and the nodes below its ends by the class of their byte;
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
    BT_MASK_STATES = 64,  /* states whose sets of tokens are kept */
    BT_MASK_COUNTED = 16, /* states of rules that calls count, whose tokens are kept by how often they begin the rule */
    BT_MASK_KEPT = 64,    /* whole masks that are kept */
};

/* For one program and one vocabulary, both borrowed; used by one thread at a time. Memory, taken as it is needed, at
 * most: (STATES + KEPT) * tokens / 8 bytes, COUNTED * (tokens * 5 + nodes * 18) bytes and 2 MiB, SETS * (classes of the
 * program) * 4 bytes and 4 MiB. */
typedef struct bt_mask bt_mask;
bt_err bt_mask_new(bt_mask **ret, const bt_program *program, const bt_trie *trie, bt_fault *fault);
void bt_mask_free(bt_mask *m); /* NULL is fine */

static inline size_t bt_mask_words(size_t tokens) { return (tokens + 63) / 64; }
/* bits[bt_mask_words(tokens)]: bit id % 64 of word id / 64. BT_EFORMAT where no token is open, with the state's words;
 * BT_ELIMIT; BT_ENOMEM. On failure no bit is set. */
bt_err bt_mask_fill(uint64_t *bits, bt_mask *m, const bt_program_state *state, bt_fault *fault);
#endif
