#ifndef BT_GRAMMAR_AUTOMATON_H
#define BT_GRAMMAR_AUTOMATON_H
#include "grammar/syntax_private.h"

/* Deterministic automata over bytes with calls, as assemble.c makes them of trees: one list of states for all rules. */
typedef struct bt_auto_range {
    uint8_t first, last;
    uint32_t to;
} bt_auto_range;
typedef struct bt_auto_call {
    uint32_t rule, min, max, to; /* compared in this order */
} bt_auto_call;
typedef struct bt_auto_state {
    uint32_t range, ranges, call, calls; /* first and count */
    bool ends;
} bt_auto_state;
typedef struct bt_auto {
    bt_auto_state *state;
    bt_auto_range *range;
    bt_auto_call *call;
    size_t states, state_cap, ranges, range_cap, calls, call_cap;
} bt_auto;

/* The work so far and the first error, which all steps share. */
typedef struct bt_auto_work {
    uint64_t steps;
    bt_err err;
    bt_fault *fault;
} bt_auto_work;

enum { BT_AUTO_STATES = 1 << 17 }; /* before those that are alike are joined */

void bt_auto_done(bt_auto *d);
/* False, with the error kept, where the work goes past BT_SYNTAX_STEPS. */
bool bt_auto_count(bt_auto_work *w, size_t steps);
bool bt_auto_no_memory(bt_auto_work *w);

/* Each adds to the state that was added last. */
bool bt_auto_add_state(bt_auto *d, bt_auto_work *w, bool ends);
bool bt_auto_add_range(bt_auto *d, bt_auto_work *w, uint8_t first, uint8_t last, uint32_t to);
bool bt_auto_add_call(bt_auto *d, bt_auto_work *w, bt_auto_call call);

/* Appends to *d the automaton of the texts that are in a and in b (is_out: and not in b). Neither calls; the first
 * state of each is its start, and of the result too. */
void bt_auto_filter(bt_auto *d, bt_auto_work *w, const bt_auto *a, const bt_auto *b, bool is_out);
/* Appends to *d the texts of a between two '"', which none of them holds; with_empty: the empty text too. a is as
 * above. */
void bt_auto_quote(bt_auto *d, bt_auto_work *w, const bt_auto *a, bool with_empty);
/* class[s] for s in first .. first + n: the first state that is alike, which may be s. Where that takes too many steps,
 * every state is its own. */
void bt_auto_join_alike(uint32_t *class, bt_auto_work *w, const bt_auto *d, uint32_t first, uint32_t n);
/* Numbers for keys (u64): a table that says whether a key is new. */
typedef struct bt_auto_map {
    uint64_t *key;
    uint32_t *value;
    size_t cap, used;
} bt_auto_map;
/* The value of a key, `fresh` (kept) where it is new; UINT32_MAX without memory. */
uint32_t bt_auto_map_get(bt_auto_map *m, uint64_t key, uint32_t fresh);
void bt_auto_map_done(bt_auto_map *m);
#endif
