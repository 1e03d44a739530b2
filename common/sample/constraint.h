#ifndef BT_SAMPLE_CONSTRAINT_H
#define BT_SAMPLE_CONSTRAINT_H
#include "grammar/program.h"
#include "sample/sample.h"
#include "text/tokenizer.h"

/* Step 0b of sample.h: the tokens that a request's program lets come next. They are a function of (program, vocabulary,
 * tokens of the answer so far), so that replay, preemption and rejected drafts change nothing. */

/* A vocabulary's texts and their tree (grammar/mask.h), made once at start; any number of threads may use one. Tokens
 * that end an answer (bt_tokenizer_is_eog) are open where the program may end; other control tokens never. */
typedef struct bt_constraint_vocab bt_constraint_vocab;
/* vocab: ids of a row of logits; those without a token are never open. tok is taken in success, and freed with *ret.
 * BT_ELIMIT names the limit; BT_ENOMEM. */
bt_err bt_constraint_vocab_new(bt_constraint_vocab **ret, bt_tokenizer *tok, size_t vocab, bt_fault *fault);
void bt_constraint_vocab_free(bt_constraint_vocab *v);          /* NULL is fine */
size_t bt_constraint_vocab_bytes(const bt_constraint_vocab *v); /* of the tree */

/* An answer's place in its program, and the program's masks so far: at most 24 MiB and the tables of grammar/mask.h.
 * One thread at a time. */
typedef struct bt_constraint bt_constraint;
/* Constraints of the last answers that have ended: another answer of the same program begins with their masks. All
 * zero: the shelf is empty. One thread at a time. */
enum { BT_CONSTRAINT_KEPT = 8 };
typedef struct bt_constraint_shelf {
    bt_constraint *at[BT_CONSTRAINT_KEPT];
    uint32_t next;
} bt_constraint_shelf;
void bt_constraint_shelf_done(bt_constraint_shelf *s);

/* *ret, the caller's: a constraint at the beginning of p's program, from the shelf or made; NULL where p has no
 * program. BT_EARG: v is NULL. BT_EFORMAT, BT_EVERSION, BT_ELIMIT: the bytes are no program. BT_ENOMEM. */
bt_err bt_constraint_take(bt_constraint **ret, bt_constraint_shelf *s, const bt_constraint_vocab *v,
                          const bt_sample_params *p, bt_fault *fault);
void bt_constraint_keep(bt_constraint_shelf *s, bt_constraint *c); /* onto the shelf; NULL is fine */
void bt_constraint_free(bt_constraint *c);                         /* NULL is fine */
/* *ret[(vocab + 63) / 64] for bt_sample_history, until the next call; NULL for a c of NULL. h->generated begins with
 * the tokens of the call before, unless generated_len is less. BT_EFORMAT, BT_ELIMIT: the answer so far does not belong
 * to the program, or no token is open; the words tell the state. BT_ENOMEM. */
bt_err bt_constraint_open(const uint64_t **ret, bt_constraint *c, const bt_sample_history *h, bt_fault *fault);
#endif
