/* Deterministic automata: lists of states, one automaton within another, and states that are alike. */
#include "grammar/automaton.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

void bt_auto_done(bt_auto *d)
{
    free(d->state);
    free(d->range);
    free(d->call);
    *d = (bt_auto){0};
}

bool bt_auto_no_memory(bt_auto_work *w)
{
    if (w->err == BT_OK) w->err = bt_fail(w->fault, BT_ENOMEM, "a grammar");
    return false;
}

bool bt_auto_count(bt_auto_work *w, size_t steps)
{
    w->steps += steps;
    if (w->err == BT_OK && w->steps > BT_SYNTAX_STEPS)
        w->err = bt_fail(w->fault, BT_ELIMIT, "takes more than %d steps to compile", BT_SYNTAX_STEPS);
    return w->err == BT_OK;
}

bool bt_auto_add_state(bt_auto *d, bt_auto_work *w, bool ends)
{
    if (d->states == BT_AUTO_STATES) {
        if (w->err == BT_OK)
            w->err = bt_fail(w->fault, BT_ELIMIT, "needs more than %d states", BT_AUTO_STATES);
        return false;
    }
    if (!bt_syntax_grow(&d->state, &d->state_cap, d->states, sizeof *d->state)) return bt_auto_no_memory(w);
    d->state[d->states++] = (bt_auto_state){(uint32_t)d->ranges, 0, (uint32_t)d->calls, 0, ends};
    return true;
}

bool bt_auto_add_range(bt_auto *d, bt_auto_work *w, uint8_t first, uint8_t last, uint32_t to)
{
    bt_auto_state *s = &d->state[d->states - 1];
    bt_auto_range *r = s->ranges ? &d->range[d->ranges - 1] : NULL;
    if (r && r->to == to && r->last + 1 == first) {
        r->last = last;
        return true;
    }
    if (!bt_syntax_grow(&d->range, &d->range_cap, d->ranges, sizeof *d->range)) return bt_auto_no_memory(w);
    d->range[d->ranges++] = (bt_auto_range){first, last, to};
    s->ranges++;
    return true;
}

bool bt_auto_add_call(bt_auto *d, bt_auto_work *w, bt_auto_call call)
{
    if (!bt_syntax_grow(&d->call, &d->call_cap, d->calls, sizeof *d->call)) return bt_auto_no_memory(w);
    d->call[d->calls++] = call;
    d->state[d->states - 1].calls++;
    return true;
}

/* ---- numbers for keys ----------------------------------------------------------------------------- */
static size_t place(const bt_auto_map *m, uint64_t key)
{
    size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (m->cap - 1);
    while (m->value[at] != UINT32_MAX && m->key[at] != key) at = (at + 1) & (m->cap - 1);
    return at;
}

static bool widen(bt_auto_map *m)
{
    const bt_auto_map old = *m;
    bt_auto_map more = {NULL, NULL, old.cap ? old.cap * 2 : 64, old.used};
    more.key = malloc(more.cap * sizeof *more.key);
    more.value = malloc(more.cap * sizeof *more.value);
    if (!more.key || !more.value) {
        bt_auto_map_done(&more);
        return false;
    }
    memset(more.value, 0xff, more.cap * sizeof *more.value);
    for (size_t i = 0; i < old.cap; i++) {
        if (old.value[i] == UINT32_MAX) continue;
        const size_t at = place(&more, old.key[i]);
        more.key[at] = old.key[i];
        more.value[at] = old.value[i];
    }
    bt_auto_map_done(m);
    *m = more;
    return true;
}

uint32_t bt_auto_map_get(bt_auto_map *m, uint64_t key, uint32_t fresh)
{
    if (m->used * 2 >= m->cap && !widen(m)) return UINT32_MAX;
    const size_t at = place(m, key);
    if (m->value[at] == UINT32_MAX) {
        m->key[at] = key;
        m->value[at] = fresh;
        m->used++;
    }
    return m->value[at];
}

void bt_auto_map_done(bt_auto_map *m)
{
    free(m->key);
    free(m->value);
    *m = (bt_auto_map){0};
}

/* ---- one automaton within another ----------------------------------------------------------------- */
typedef struct product {
    bt_auto *d;
    bt_auto_work *w;
    const bt_auto *a, *b;
    bt_auto_map map; /* (state of a, state of b + 1 or 0) -> state of d */
    uint64_t *pair;
    size_t pairs, pair_cap;
    uint32_t base;
} product;

static bool pair_to(uint32_t *ret, product *x, uint32_t a, uint32_t b1)
{
    const uint64_t key = (uint64_t)a << 32 | b1;
    *ret = bt_auto_map_get(&x->map, key, x->base + (uint32_t)x->pairs);
    if (*ret == UINT32_MAX) return bt_auto_no_memory(x->w);
    if (*ret != x->base + x->pairs) return true;
    if (!bt_syntax_grow(&x->pair, &x->pair_cap, x->pairs, sizeof *x->pair)) return bt_auto_no_memory(x->w);
    x->pair[x->pairs++] = key;
    return true;
}

/* The ranges of a pair: those of a, cut by those of b. */
static bool add_pair(product *x, uint64_t pair, bool is_out)
{
    const bt_auto_state *a = &x->a->state[pair >> 32];
    const uint32_t b1 = (uint32_t)pair;
    const bt_auto_state none = {0}, *b = b1 ? &x->b->state[b1 - 1] : &none;
    const bool ends = a->ends && (is_out ? !b->ends : b->ends);
    if (!bt_auto_count(x->w, 1 + a->ranges + b->ranges) || !bt_auto_add_state(x->d, x->w, ends)) return false;
    for (uint32_t i = 0; i < a->ranges; i++) {
        const bt_auto_range *r = &x->a->range[a->range + i];
        for (int first = r->first, last; first <= r->last; first = last + 1) {
            uint32_t to, to_b = 0;
            last = r->last;
            for (uint32_t k = 0; k < b->ranges; k++) {
                const bt_auto_range *q = &x->b->range[b->range + k];
                if (q->last < first) continue;
                if (q->first > first) {
                    if (q->first <= last) last = q->first - 1;
                } else {
                    to_b = q->to + 1;
                    if (q->last < last) last = q->last;
                }
                break;
            }
            if (to_b == 0 && !is_out) continue;
            if (!pair_to(&to, x, r->to, to_b) ||
                !bt_auto_add_range(x->d, x->w, (uint8_t)first, (uint8_t)last, to))
                return false;
        }
    }
    return true;
}

void bt_auto_filter(bt_auto *d, bt_auto_work *w, const bt_auto *a, const bt_auto *b, bool is_out)
{
    product x = {.d = d, .w = w, .a = a, .b = b, .base = (uint32_t)d->states};
    uint32_t start;
    bool fine = pair_to(&start, &x, 0, 1);
    for (size_t i = 0; fine && i < x.pairs; i++) fine = add_pair(&x, x.pair[i], is_out);
    if (fine) d->state[x.base].ends = false;
    bt_auto_map_done(&x.map);
    free(x.pair);
}

void bt_auto_quote(bt_auto *d, bt_auto_work *w, const bt_auto *a, bool with_empty)
{
    /* The new start, the states of a, the end. */
    const uint32_t base = (uint32_t)d->states + 1, end = base + (uint32_t)a->states;
    bool fine = bt_auto_add_state(d, w, false) && bt_auto_add_range(d, w, '"', '"', base);
    for (uint32_t i = 0; fine && i < a->states; i++) {
        const bt_auto_state *st = &a->state[i];
        bool is_open = st->ends || (i == 0 && with_empty);
        fine = bt_auto_count(w, 1 + st->ranges) && bt_auto_add_state(d, w, false);
        for (uint32_t k = 0; fine && k < st->ranges; k++) {
            const bt_auto_range *r = &a->range[st->range + k];
            if (is_open && r->first > '"') {
                fine = bt_auto_add_range(d, w, '"', '"', end);
                is_open = false;
            }
            fine = fine && bt_auto_add_range(d, w, r->first, r->last, base + r->to);
        }
        if (fine && is_open) fine = bt_auto_add_range(d, w, '"', '"', end);
        for (uint32_t k = 0; fine && k < st->calls; k++) {
            bt_auto_call c = a->call[st->call + k];
            c.to += base;
            fine = bt_auto_add_call(d, w, c);
        }
    }
    if (fine) (void)bt_auto_add_state(d, w, true);
}

/* ---- states that are alike ------------------------------------------------------------------------ */
/* A hash of what a state does, where states of one class count as one. A clash would join states that differ,
 * in a grammar that was made for it, whose sender alone has the answer. */
static uint64_t signature(const bt_auto *d, const uint32_t *class, uint32_t first, uint32_t s, uint32_t *room)
{
    const bt_auto_state *st = &d->state[s];
    size_t n = 0;
    room[n++] = class[s - first];
    for (uint32_t i = 0; i < st->ranges; i++) {
        const bt_auto_range *r = &d->range[st->range + i];
        const uint32_t to = class[r->to - first];
        if (i > 0 && room[n - 1] == to && (room[n - 2] & 0xff) + 1 == r->first) {
            room[n - 2] = (room[n - 2] & ~0xffu) | r->last;
            continue;
        }
        room[n++] = (uint32_t)r->first << 8 | r->last;
        room[n++] = to;
    }
    room[n++] = UINT32_MAX;
    for (uint32_t i = 0; i < st->calls; i++) {
        const bt_auto_call *c = &d->call[st->call + i];
        room[n++] = c->rule;
        room[n++] = c->min << 16 | c->max;
        room[n++] = class[c->to - first];
    }
    return bt_hash64(room, n * sizeof *room);
}

void bt_auto_join_alike(uint32_t *class, bt_auto_work *w, const bt_auto *d, uint32_t first, uint32_t n)
{
    size_t most = 0, edges = 0, known = 0;
    for (uint32_t i = 0; i < n; i++) {
        const size_t k = 2u + 2u * d->state[first + i].ranges + 3u * d->state[first + i].calls;
        if (most < k) most = k;
        edges += k;
    }
    uint32_t *room = malloc(most * sizeof *room), *now = calloc(n, sizeof *now),
             *then = malloc(n * sizeof *then);
    bool is_whole = false;
    if (!room || !now || !then) {
        (void)bt_auto_no_memory(w);
        goto out;
    }
    for (uint32_t i = 0; i < n; i++) now[i] = d->state[first + i].ends;
    /* A quarter of the steps may go into this. */
    for (uint64_t spent = 0; w->err == BT_OK && spent + edges < BT_SYNTAX_STEPS / 4;) {
        bt_auto_map map = {0};
        size_t classes = 0;
        for (uint32_t i = 0; i < n; i++) {
            then[i] = bt_auto_map_get(&map, signature(d, now, first, first + i, room), i);
            if (then[i] == UINT32_MAX) (void)bt_auto_no_memory(w);
            classes += then[i] == i;
        }
        bt_auto_map_done(&map);
        memcpy(now, then, n * sizeof *now);
        spent += edges / 4;
        if (!bt_auto_count(w, edges / 4)) break;
        is_whole = classes == known;
        if (is_whole) break;
        known = classes;
    }
out:
    for (uint32_t i = 0; i < n; i++) class[i] = first + (is_whole ? now[i] : i);
    free(room);
    free(now);
    free(then);
}
