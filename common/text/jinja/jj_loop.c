/* The members of loops, and values that take turns. */
#include "text/jinja/jj_loop.h"

#include <string.h>

static bool take_any(jj_loop *l, bool *is_there, jj_value *ret)
{
    *is_there = bt_jj_walk_next(&l->walk, ret);
    return l->run->err == BT_OK;
}

bool bt_jj_loop_begin(jj_loop *l, jj_run *r, const jj_value *of)
{
    *l = (jj_loop){.run = r, .take = take_any, .index0 = -1, .length = -1};
    return bt_jj_walk_begin(r, &l->walk, of);
}

static bool peek(jj_loop *l, bool *is_there)
{
    if (!l->has_after && !l->is_last) {
        if (!l->take(l, &l->has_after, &l->after)) return false;
        l->is_last = !l->has_after;
    }
    *is_there = l->has_after;
    return true;
}

bool bt_jj_loop_next(jj_loop *l, bool *is_there, jj_value *ret)
{
    if (!peek(l, is_there)) return false;
    l->has_after = false;
    if (!*is_there) return true;
    l->index0++;
    l->before = l->current;
    *ret = l->current = l->after;
    return true;
}

/* Counts what remains, and goes on with a list of it. */
static bool count(jj_loop *l)
{
    if (l->length >= 0) return true;
    const jj_value *of = &l->walk.holder;
    const int64_t len = bt_jj_value_len(of);
    if (of->kind == JJ_STR && !jj_step_bytes(l->run, of->s->len)) return false;
    if (l->take == take_any && len >= 0) {
        l->length = len;
        return true;
    }
    jj_value rest, item;
    size_t cap = 0;
    bool is_there;
    if (!bt_jj_list_new(l->run, &rest, JJ_PLAIN, 0)) return false;
    for (;;) {
        if (!l->take(l, &is_there, &item)) return false;
        if (!is_there) break;
        if (!bt_jj_list_add(l->run, rest.list, &cap, &item)) return false;
    }
    l->length = (int64_t)rest.list->len + l->index0 + 1 + l->has_after;
    l->take = take_any;
    return bt_jj_walk_begin(l->run, &l->walk, &rest);
}

static bool cycle(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, const jj_call *call)
{
    (void)a;
    if (call->args == 0) return bt_jj_fail(r, BT_EFORMAT, "no items for cycling given");
    *ret = call->arg[(size_t)self->loop->index0 % call->args];
    return true;
}

static bool changed(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, const jj_call *call)
{
    (void)a;
    jj_loop *l = self->loop;
    jj_value values;
    bool same = false;
    if (!bt_jj_list_new(r, &values, JJ_TUPLE, call->args)) return false;
    for (size_t i = 0; i < call->args; i++) values.list->item[i] = call->arg[i];
    values.list->len = call->args;
    if (l->has_changed && !bt_jj_value_equal(r, &same, &l->changed, &values)) return false;
    l->has_changed = true;
    l->changed = values;
    *ret = jj_bool(!same);
    return true;
}

static bool give_native(jj_run *r, jj_value *ret, const jj_native *n, jj_value self)
{
    jj_bound *b = bt_jj_take(r, sizeof *b);
    if (!b) return false;
    *b = (jj_bound){n, self};
    *ret = (jj_value){.kind = JJ_NATIVE, .is_template = true, .native = b};
    return true;
}

bool bt_jj_loop_member(jj_run *r, jj_value *ret, bool *is_there, jj_loop *l, const jj_str *name)
{
    enum {
        INDEX,
        INDEX0,
        FIRST,
        LAST,
        LENGTH,
        REVINDEX,
        REVINDEX0,
        DEPTH,
        DEPTH0,
        NEXT,
        PREV,
        CYCLE,
        CHANGED
    };
    static const char *const names[] = {
        [INDEX] = "index",    [INDEX0] = "index0",     [FIRST] = "first",         [LAST] = "last",
        [LENGTH] = "length",  [REVINDEX] = "revindex", [REVINDEX0] = "revindex0", [DEPTH] = "depth",
        [DEPTH0] = "depth0",  [NEXT] = "nextitem",     [PREV] = "previtem",       [CYCLE] = "cycle",
        [CHANGED] = "changed"};
    static const jj_native cycles = {"cycle", "*", 0, cycle}, changes = {"changed", "*", 0, changed};
    const jj_value self = {.kind = JJ_LOOP, .is_template = true, .loop = l};
    size_t i = 0;
    while (i < sizeof names / sizeof *names && !jj_str_is(name, names[i], strlen(names[i]))) i++;
    *is_there = i < sizeof names / sizeof *names;
    bool is_more = false;
    if ((i == LAST || i == NEXT) && !peek(l, &is_more)) return false;
    if ((i == LENGTH || i == REVINDEX || i == REVINDEX0) && !count(l)) return false;
    switch (i) {
    case INDEX: *ret = jj_int(l->index0 + 1); break;
    case INDEX0: *ret = jj_int(l->index0); break;
    case FIRST: *ret = jj_bool(l->index0 == 0); break;
    case LAST: *ret = jj_bool(!is_more); break;
    case LENGTH: *ret = jj_int(l->length); break;
    case REVINDEX: *ret = jj_int(l->length - l->index0); break;
    case REVINDEX0: *ret = jj_int(l->length - l->index0 - 1); break;
    case DEPTH: *ret = jj_int(l->depth0 + 1); break;
    case DEPTH0: *ret = jj_int(l->depth0); break;
    case NEXT:
        if (!is_more) return bt_jj_value_undefined(r, ret, "there is no next item");
        *ret = l->after;
        break;
    case PREV:
        if (l->index0 == 0) return bt_jj_value_undefined(r, ret, "there is no previous item");
        *ret = l->before;
        break;
    case CYCLE: return give_native(r, ret, &cycles, self);
    case CHANGED: return give_native(r, ret, &changes, self);
    default: break;
    }
    return true;
}

/* ---- cycler() and joiner() ---- */

static bool new_turns(jj_run *r, jj_value *ret, const jj_value *item, size_t len, bool is_joiner)
{
    jj_turns *t = bt_jj_take(r, sizeof *t);
    jj_value *own = bt_jj_grow(r, item, len * sizeof *own, (len + 1) * sizeof *own);
    if (!t || !own) return false;
    *t = (jj_turns){own, len, 0, is_joiner};
    *ret = (jj_value){.kind = JJ_TURNS, .is_template = true, .turns = t};
    return true;
}

static bool cycler(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, const jj_call *call)
{
    (void)self, (void)a;
    if (call->args == 0) return bt_jj_fail(r, BT_EFORMAT, "at least one item has to be provided");
    return new_turns(r, ret, call->arg, call->args, false);
}

static bool joiner(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, const jj_call *call)
{
    (void)self, (void)call;
    jj_value sep = a[0];
    if (sep.kind == JJ_MISSING && !bt_jj_value_cstr(r, &sep, ", ")) return false;
    return new_turns(r, ret, &sep, 1, true);
}

const jj_native bt_jj_loop_cycler = {"cycler", "*", 0, cycler},
                bt_jj_loop_joiner = {"joiner", "sep", 0, joiner};

bool bt_jj_loop_join(jj_run *r, jj_value *ret, jj_turns *t)
{
    if (t->at++ == 0) return bt_jj_value_cstr(r, ret, "");
    *ret = t->item[0];
    return true;
}

static bool turn_next(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, const jj_call *call)
{
    (void)r, (void)a, (void)call;
    jj_turns *t = self->turns;
    *ret = t->item[t->at];
    t->at = (t->at + 1) % t->len;
    return true;
}

static bool turn_reset(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, const jj_call *call)
{
    (void)r, (void)a, (void)call;
    self->turns->at = 0;
    *ret = jj_none();
    return true;
}

bool bt_jj_loop_turns_member(jj_run *r, jj_value *ret, bool *is_there, const jj_value *of, const jj_str *name)
{
    static const jj_native next = {"next", "", 0, turn_next}, reset = {"reset", "", 0, turn_reset};
    const jj_turns *t = of->turns;
    *is_there = !t->is_joiner;
    if (t->is_joiner) return true;
    if (jj_str_is(name, "next", 4)) return give_native(r, ret, &next, *of);
    if (jj_str_is(name, "reset", 5)) return give_native(r, ret, &reset, *of);
    *is_there = jj_str_is(name, "current", 7);
    if (*is_there) *ret = t->item[t->at];
    return true;
}
