/* See constraint.h. */
#include "sample/constraint.h"
#include "grammar/mask.h"

#include <stdlib.h>
#include <string.h>

/* ---- the vocabulary ---- */

struct bt_constraint_vocab {
    bt_tokenizer *tok;
    bt_trie *trie;
    size_t words; /* of the larger of tokens and ids of a row */
};

static bt_trie_kind kind_of(void *ud, size_t id)
{
    const bt_tokenizer *tok = ud;
    if (bt_tokenizer_is_eog(tok, (int32_t)id)) return BT_TRIE_END;
    switch (bt_tokenizer_type(tok, (int32_t)id)) {
    case BT_TOKEN_NORMAL:
    case BT_TOKEN_USER_DEFINED:
    case BT_TOKEN_BYTE: return BT_TRIE_TEXT;
    case BT_TOKEN_UNKNOWN:
    case BT_TOKEN_CONTROL:
    case BT_TOKEN_UNUSED: break;
    }
    return BT_TRIE_NONE;
}

static const char *text_of(void *ud, size_t id, size_t *ret_len)
{
    const bt_text_span s = bt_tokenizer_piece(ud, (int32_t)id);
    *ret_len = s.len;
    return s.ptr;
}

bt_err bt_constraint_vocab_new(bt_constraint_vocab **ret, bt_tokenizer *tok, size_t vocab, bt_fault *fault)
{
    bt_constraint_vocab *v = calloc(1, sizeof *v);
    if (!v) return bt_fail(fault, BT_ENOMEM, "out of memory for the tree of the vocabulary");
    const bt_trie_source source = {bt_tokenizer_count(tok), kind_of, text_of, tok};
    const bt_err e = bt_trie_new(&v->trie, &source, fault);
    if (e < 0) {
        free(v);
        return e;
    }
    v->tok = tok;
    v->words = bt_mask_words(vocab > source.tokens ? vocab : source.tokens);
    *ret = v;
    return BT_OK;
}

void bt_constraint_vocab_free(bt_constraint_vocab *v)
{
    if (!v) return;
    bt_trie_free(v->trie);
    bt_tokenizer_free(v->tok);
    free(v);
}

size_t bt_constraint_vocab_bytes(const bt_constraint_vocab *v) { return v->trie->bytes; }

/* ---- an answer ---- */

struct bt_constraint {
    const bt_constraint_vocab *vocab;
    bt_program *program;
    bt_mask *mask;
    uint8_t head[BT_PROGRAM_HEADER_BYTES]; /* of the program, with its hash */
    bt_program_state state;
    size_t taken; /* tokens of the answer */
    uint64_t open[];
};

void bt_constraint_free(bt_constraint *c)
{
    if (!c) return;
    bt_mask_free(c->mask);
    bt_program_free(c->program);
    free(c);
}

static bool is_of(const bt_constraint *c, const bt_sample_params *p)
{
    return p->program_len >= BT_PROGRAM_HEADER_BYTES && memcmp(c->head, p->program, sizeof c->head) == 0;
}

static void restart(bt_constraint *c)
{
    bt_program_begin(&c->state, c->program);
    c->taken = 0;
}

static bt_err make(bt_constraint **ret, const bt_constraint_vocab *v, const bt_sample_params *p,
                   bt_fault *fault)
{
    bt_constraint *c = calloc(1, sizeof *c + v->words * sizeof *c->open);
    if (!c) return bt_fail(fault, BT_ENOMEM, "out of memory for the program of an answer");
    bt_err e = bt_program_new(&c->program, p->program, p->program_len, fault);
    if (e == BT_OK) e = bt_mask_new(&c->mask, c->program, v->trie, fault);
    if (e < 0) {
        bt_constraint_free(c);
        return e;
    }
    c->vocab = v;
    memcpy(c->head, p->program, sizeof c->head);
    restart(c);
    *ret = c;
    return BT_OK;
}

/* A token that ends the answer changes nothing: behind it the program may still end. */
static bt_err take(bt_constraint *c, int32_t id, bt_fault *fault)
{
    if (bt_tokenizer_is_eog(c->vocab->tok, id)) return BT_OK;
    const bt_text_span s = bt_tokenizer_piece(c->vocab->tok, id);
    return bt_program_accept(&c->state, c->program, s.ptr, s.len, fault);
}

bt_err bt_constraint_open(const uint64_t **ret, bt_constraint *c, const bt_sample_history *h, bt_fault *fault)
{
    bt_err e = BT_OK;
    *ret = NULL;
    if (!c) return BT_OK;
    if (h->generated_len < c->taken) restart(c);
    for (; e == BT_OK && c->taken < h->generated_len; c->taken += e == BT_OK)
        e = take(c, h->generated[c->taken], fault);
    if (e == BT_OK) e = bt_mask_fill(c->open, c->mask, &c->state, fault);
    if (e == BT_OK) *ret = c->open;
    return e;
}

/* ---- the shelf ---- */

bt_err bt_constraint_take(bt_constraint **ret, bt_constraint_shelf *s, const bt_constraint_vocab *v,
                          const bt_sample_params *p, bt_fault *fault)
{
    *ret = NULL;
    if (!p->program_len) return BT_OK;
    if (!v) return bt_fail(fault, BT_EARG, "this node's file has no vocabulary, which a program needs");
    for (size_t i = 0; i < BT_CONSTRAINT_KEPT; i++) {
        bt_constraint *c = s->at[i];
        if (!c || !is_of(c, p)) continue;
        s->at[i] = NULL;
        restart(c);
        *ret = c;
        return BT_OK;
    }
    return make(ret, v, p, fault);
}

/* The constraint goes to a free place, else to the next place in turn. */
void bt_constraint_keep(bt_constraint_shelf *s, bt_constraint *c)
{
    if (!c) return;
    uint32_t i = s->next;
    for (uint32_t k = 0; k < BT_CONSTRAINT_KEPT; k++)
        if (!s->at[k]) i = k;
    bt_constraint_free(s->at[i]);
    s->at[i] = c;
    s->next = (i + 1) % BT_CONSTRAINT_KEPT;
}

void bt_constraint_shelf_done(bt_constraint_shelf *s)
{
    for (size_t i = 0; i < BT_CONSTRAINT_KEPT; i++) bt_constraint_free(s->at[i]);
    *s = (bt_constraint_shelf){.next = 0};
}
