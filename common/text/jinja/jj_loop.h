#ifndef BT_JINJA_JJ_LOOP_H
#define BT_JINJA_JJ_LOOP_H
#include "text/jinja/jj_value.h"

/* `loop` inside {% for %}: items are taken one by one, and looked at ahead only where the template asks, since the
 * loop's `if` may depend on what its body sets. */
struct jj_loop {
    jj_run *run;
    jj_walk walk;
    /* the next item that the loop's `if` accepts; *is_there false: none */
    bool (*take)(jj_loop *l, bool *is_there, jj_value *ret);
    void *owner;            /* of `take`: jj_exec.c's */
    int64_t index0, length; /* from -1; -1: not counted */
    bool has_after, is_last, has_changed;
    jj_value after, before, current;
    jj_value changed; /* the values that changed() had last: a tuple */
    uint32_t depth0;
    const void *recursive; /* the node of a recursive loop, or NULL */
};

bool bt_jj_loop_begin(jj_loop *l, jj_run *r, const jj_value *of);
bool bt_jj_loop_next(jj_loop *l, bool *is_there, jj_value *ret);
/* loop.name; *is_there false: there is no such thing. */
bool bt_jj_loop_member(jj_run *r, jj_value *ret, bool *is_there, jj_loop *l, const jj_str *name);

/* cycler(a, b) and joiner(", "). */
struct jj_turns {
    const jj_value *item;
    size_t len, at;
    bool is_joiner;
};
extern const jj_native bt_jj_loop_cycler, bt_jj_loop_joiner;
bool bt_jj_loop_join(jj_run *r, jj_value *ret, jj_turns *t); /* what a call of a joiner gives */
bool bt_jj_loop_turns_member(jj_run *r, jj_value *ret, bool *is_there, const jj_value *of, const jj_str *name);
#endif
