#ifndef BT_GRAMMAR_TRIE_H
#define BT_GRAMMAR_TRIE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The texts of a vocabulary as one tree of bytes, made once and never changed; any number of threads may read it.
 *
 * Nodes are in the order of a walk that visits a node before its children: node 0 is the empty text, and the nodes
 * below node i are i + 1 .. skip[i] - 1. */
typedef struct bt_trie {
    size_t tokens, nodes, ends;
    uint8_t *byte;    /* [nodes] the last byte of the node's text */
    uint16_t *depth;  /* [nodes] its length */
    uint32_t *skip;   /* [nodes] */
    int32_t *token;   /* [nodes] the lowest id with that text, + BT_TRIE_SAME where it has others; -1: none */
    int32_t *same;    /* [tokens] the next id with the text of this one, or -1 */
    int32_t *end;     /* [ends] ids that end an answer */
    uint32_t longest; /* bytes of the longest text */
    size_t bytes;     /* of memory */
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
#endif
