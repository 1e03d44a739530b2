/* From trees to a program: each rule becomes an automaton with choices (small rules are copied into those
 * that call them), then one without (sets of states), states that are alike are joined, those that lead
 * nowhere go. */
#include "grammar/automaton.h"

#include "base/num.h"
#include "grammar/program.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { INLINE_NODES = 48, SPREAD_NODES = 4096, CHOICES = 1 << 19 };
enum { EDGE_NONE, EDGE_BYTES, EDGE_CALL, EDGE_BEGIN, EDGE_END };

/* An arrow of an automaton with choices; `next` is the next one from the same state, or 0. */
typedef struct edge {
    uint8_t kind, first, last;
    uint32_t to, rule, min, max, next;
} edge;
typedef struct job {
    uint32_t node, from, to;
} job;
/* A rule in work. */
typedef struct made {
    uint32_t start, end, filter_start, filter_end; /* with choices; start 0: not yet */
    uint32_t first, states;                        /* without; in `d` */
    uint32_t size;                                 /* nodes as a copy; 0: recursive or too large */
    bool is_empty_in, is_empty_inside, is_found;   /* inside: between quotes */
} made;

typedef struct work {
    bt_auto_work w;
    const bt_syntax *s;
    made *made;
    uint32_t *order; /* rules that the whole needs, in the order in which they were found */
    size_t orders;
    edge *edge;
    uint32_t *head, *mark; /* of each state; mark: the closure that saw it last */
    size_t edges, edge_cap, heads, head_cap, marks;
    uint32_t stamp;
    bt_auto_map shared; /* (node, state behind it) -> state before it */
    job *job;
    size_t jobs, job_cap;
    uint32_t *set; /* the closure being made */
    size_t sets, set_cap;
    bt_auto d;
} work;

/* ---- which rules are copied ----------------------------------------------------------------------- */
/* Nodes of a rule's tree where the rules it calls once are copied into it: false where one of them is not
 * known yet. */
static bool measure(uint32_t *ret, work *x, uint32_t rule)
{
    const uint32_t limit = x->s->rule[rule].is_spread ? SPREAD_NODES : INLINE_NODES;
    uint32_t size = 0;
    x->jobs = 0;
    *ret = 0;
    if (x->s->rule[rule].has_filter || x->s->rule[rule].is_quoted) return true;
    for (uint32_t node = x->s->rule[rule].root;;) {
        const bt_node *n = &x->s->node[node];
        if (++size > limit || n->kind == BT_NODE_BEGIN || n->kind == BT_NODE_END) return true;
        if (!bt_auto_count(&x->w, 1)) return true;
        if (n->kind == BT_NODE_CALL && n->min == 1 && n->max == 1) {
            if (x->made[n->a].size == UINT32_MAX) return false;
            if (x->made[n->a].size > 0) size += x->made[n->a].size;
        }
        if (n->kind == BT_NODE_REPEAT && n->max != BT_SYNTAX_NO_END) size += n->max; /* copies */
        const bool has_two = n->kind == BT_NODE_JOIN || n->kind == BT_NODE_EITHER;
        if (has_two) {
            if (!bt_syntax_grow(&x->job, &x->job_cap, x->jobs, sizeof *x->job))
                return bt_auto_no_memory(&x->w);
            x->job[x->jobs++].node = n->b;
        }
        if (has_two || n->kind == BT_NODE_REPEAT) {
            node = n->a;
        } else if (x->jobs > 0) {
            node = x->job[--x->jobs].node;
        } else {
            break;
        }
    }
    *ret = size <= limit ? size : 0;
    return true;
}

/* Sizes of all rules, those they call first. What is left calls in circles, or calls what does: it is called,
 * and then those that are spread have another try. */
static void find_copied(work *x)
{
    const size_t rules = x->s->rules;
    for (size_t r = 0; r < rules; r++) x->made[r].size = UINT32_MAX;
    for (int tries = 0; tries < 2; tries++) {
        for (bool more = true; more && x->w.err == BT_OK;) {
            more = false;
            for (uint32_t r = (uint32_t)rules; r-- > 0;) {
                uint32_t size;
                if (x->made[r].size != UINT32_MAX || !measure(&size, x, r)) continue;
                x->made[r].size = size;
                more = true;
            }
        }
        for (size_t r = 0; r < rules; r++)
            if (x->made[r].size == UINT32_MAX && (tries == 1 || !x->s->rule[r].is_spread))
                x->made[r].size = 0;
    }
}

/* ---- automata with choices ------------------------------------------------------------------------ */
static bool is_room(work *x, size_t n)
{
    if (n >= CHOICES && x->w.err == BT_OK)
        x->w.err =
            bt_fail(x->w.fault, BT_ELIMIT, "needs more than %d states before choices are joined", CHOICES);
    return bt_auto_count(&x->w, 1);
}

static uint32_t fresh(work *x)
{
    if (!bt_syntax_grow(&x->head, &x->head_cap, x->heads, sizeof *x->head)) (void)bt_auto_no_memory(&x->w);
    if (!is_room(x, x->heads)) return 0;
    x->head[x->heads] = 0;
    return (uint32_t)x->heads++;
}

static void arrow(work *x, uint32_t from, edge e)
{
    if (!bt_syntax_grow(&x->edge, &x->edge_cap, x->edges, sizeof *x->edge)) (void)bt_auto_no_memory(&x->w);
    if (!is_room(x, x->edges / 2)) return;
    e.next = x->head[from];
    x->edge[x->edges] = e;
    x->head[from] = (uint32_t)x->edges++;
}

static void later(work *x, uint32_t node, uint32_t from, uint32_t to)
{
    if (!bt_syntax_grow(&x->job, &x->job_cap, x->jobs, sizeof *x->job)) (void)bt_auto_no_memory(&x->w);
    if (is_room(x, x->jobs)) x->job[x->jobs++] = (job){node, from, to};
}

/* min copies, then copies that may be left out, or a loop. Each copy is between states of its own. */
static void repeat(work *x, const bt_node *n, uint32_t from, uint32_t to)
{
    const edge none = {.kind = EDGE_NONE};
    for (uint32_t i = 0; i < n->min && x->w.err == BT_OK; i++) {
        const uint32_t next = fresh(x);
        later(x, n->a, from, next);
        from = next;
    }
    edge e = none;
    if (n->max == BT_SYNTAX_NO_END) {
        const uint32_t loop = fresh(x), end = fresh(x);
        e.to = loop;
        arrow(x, from, e);
        arrow(x, end, e);
        later(x, n->a, loop, end);
        from = loop;
    }
    for (uint32_t i = n->min; n->max != BT_SYNTAX_NO_END && i < n->max && x->w.err == BT_OK; i++) {
        const uint32_t in = fresh(x), out = fresh(x);
        e.to = to;
        arrow(x, from, e);
        e.to = in;
        arrow(x, from, e);
        later(x, n->a, in, out);
        from = out;
    }
    e.to = to;
    arrow(x, from, e);
}

static void found(work *x, uint32_t rule)
{
    if (x->made[rule].is_found || x->w.err < 0) return;
    if (!x->s->rule[rule].is_defined) {
        x->w.err = bt_fail(x->w.fault, BT_EARG, "'%.64s' is not defined", x->s->rule[rule].name);
        return;
    }
    x->made[rule].is_found = true;
    x->order[x->orders++] = rule;
}

/* The tree of a node between two new states; with copies_all nothing is called. */
static void choices(work *x, uint32_t root, uint32_t *ret_start, uint32_t *ret_end, bool copies_all)
{
    *ret_start = fresh(x);
    *ret_end = fresh(x);
    x->jobs = 0;
    later(x, root, *ret_start, *ret_end);
    while (x->w.err == BT_OK && x->jobs > 0) {
        const job j = x->job[--x->jobs];
        const bt_node *n = &x->s->node[j.node];
        edge e = {.kind = EDGE_NONE, .to = j.to};
        switch (n->kind) {
        case BT_NODE_EMPTY: arrow(x, j.from, e); break;
        case BT_NODE_NEVER: break;
        case BT_NODE_RANGE:
            e = (edge){.kind = EDGE_BYTES, .first = (uint8_t)n->a, .last = (uint8_t)n->b, .to = j.to};
            arrow(x, j.from, e);
            break;
        case BT_NODE_JOIN: {
            /* Two places that go on alike share what follows, so that lists of optional parts stay short. */
            const uint32_t fresh_one = fresh(x);
            const uint32_t middle = bt_auto_map_get(&x->shared, (uint64_t)n->b << 32 | j.to, fresh_one);
            if (middle == UINT32_MAX) (void)bt_auto_no_memory(&x->w);
            later(x, n->a, j.from, middle);
            if (middle == fresh_one) later(x, n->b, middle, j.to);
            break;
        }
        case BT_NODE_EITHER:
            later(x, n->a, j.from, j.to);
            later(x, n->b, j.from, j.to);
            break;
        case BT_NODE_REPEAT: repeat(x, n, j.from, j.to); break;
        case BT_NODE_CALL:
            if (copies_all || (n->min == 1 && n->max == 1 && x->made[n->a].size > 0)) {
                const bt_rule *copied = &x->s->rule[n->a];
                if (!copied->is_defined) found(x, n->a);
                assert(!copied->has_filter && !copied->is_quoted);
                const bt_node copies = {.kind = BT_NODE_REPEAT, .a = x->s->rule[n->a].root, .min = n->min,
                                        .max = n->max == BT_PROGRAM_NO_END ? BT_SYNTAX_NO_END : n->max};
                if (n->min == 1 && n->max == 1) later(x, copies.a, j.from, j.to);
                else repeat(x, &copies, j.from, j.to);
                break;
            }
            found(x, n->a);
            e = (edge){.kind = EDGE_CALL, .to = j.to, .rule = n->a, .min = n->min, .max = n->max};
            arrow(x, j.from, e);
            break;
        case BT_NODE_BEGIN:
            e.kind = EDGE_BEGIN;
            arrow(x, j.from, e);
            break;
        case BT_NODE_END:
            e.kind = EDGE_END;
            arrow(x, j.from, e);
            break;
        }
    }
}

/* ---- sets of states ------------------------------------------------------------------------------- */
static void push(work *x, uint32_t state)
{
    if (x->mark[state] == x->stamp) return;
    x->mark[state] = x->stamp;
    if (!bt_syntax_grow(&x->set, &x->set_cap, x->sets, sizeof *x->set)) (void)bt_auto_no_memory(&x->w);
    else x->set[x->sets++] = state;
}

static bool is_passed(const work *x, const edge *e, bool at_begin, bool at_end)
{
    switch (e->kind) {
    case EDGE_NONE: return true;
    case EDGE_CALL: return e->min == 0 || x->made[e->rule].is_empty_in;
    case EDGE_BEGIN: return at_begin;
    case EDGE_END: return at_end;
    default: return false;
    }
}

/* Adds to x->set what is reached from it without a byte. */
static void close_set(work *x, bool at_begin, bool at_end)
{
    for (size_t i = 0; i < x->sets && x->w.err == BT_OK; i++)
        for (uint32_t k = x->head[x->set[i]]; k && bt_auto_count(&x->w, 1); k = x->edge[k].next)
            if (is_passed(x, &x->edge[k], at_begin, at_end)) push(x, x->edge[k].to);
}

static void begin_set(work *x)
{
    x->sets = 0;
    x->stamp++;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t m = *(const uint32_t *)a, n = *(const uint32_t *)b;
    return (m > n) - (m < n);
}

static int by_call(const void *a, const void *b) { return memcmp(a, b, sizeof(bt_auto_call)); }

/* The texts of a tree include the empty one. */
static bool passes(work *x, uint32_t start, uint32_t end)
{
    begin_set(x);
    push(x, start);
    close_set(x, true, true);
    return x->mark[end] == x->stamp;
}

static void find_empty(work *x)
{
    for (bool more = true; more && x->w.err == BT_OK;) {
        more = false;
        for (size_t i = x->orders; i-- > 0;) {
            const bt_rule *rule = &x->s->rule[x->order[i]];
            made *m = &x->made[x->order[i]];
            if (m->is_empty_in || m->is_empty_inside || !passes(x, m->start, m->end)) continue;
            if (rule->has_filter && passes(x, m->filter_start, m->filter_end) == rule->is_out) continue;
            m->is_empty_inside = more = true;
            m->is_empty_in = !rule->is_quoted;
        }
    }
}

/* ---- automata without choices --------------------------------------------------------------------- */
/* Sets that are states: members of set i are pool[at[i] .. at[i + 1]). */
typedef struct sets {
    uint32_t *pool, *at;
    size_t pools, pool_cap, count, at_cap;
    bt_auto_map map; /* hash of the members -> set; another set with that hash is looked for behind it */
} sets;

static bool keep(work *x, sets *k)
{
    for (size_t i = 0; i < x->sets; i++) {
        if (!bt_syntax_grow(&k->pool, &k->pool_cap, k->pools, sizeof *k->pool))
            return bt_auto_no_memory(&x->w);
        k->pool[k->pools++] = x->set[i];
    }
    if (!bt_syntax_grow(&k->at, &k->at_cap, k->count + 1, sizeof *k->at)) return bt_auto_no_memory(&x->w);
    k->at[++k->count] = (uint32_t)k->pools;
    return true;
}

/* x->set without the states that only pass on, in order. */
static void reduce(work *x, uint32_t end)
{
    size_t n = 0;
    for (size_t i = 0; i < x->sets; i++) {
        bool is_kept = x->set[i] == end;
        for (uint32_t k = x->head[x->set[i]]; k && !is_kept; k = x->edge[k].next)
            is_kept =
                x->edge[k].kind == EDGE_BYTES || x->edge[k].kind == EDGE_CALL || x->edge[k].kind == EDGE_END;
        if (is_kept) x->set[n++] = x->set[i];
    }
    x->sets = n;
    if (n > 1) qsort(x->set, n, sizeof *x->set, by_number);
    (void)bt_auto_count(&x->w, n);
}

/* The number of the closure of x->set. */
static bool number(uint32_t *ret, work *x, sets *k, uint32_t end)
{
    close_set(x, false, false);
    reduce(x, end);
    if (x->w.err < 0) return false;
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < x->sets; i++) hash = (hash ^ x->set[i]) * 0x9e3779b97f4a7c15u ^ hash >> 29;
    for (;; hash++) {
        const uint32_t i = bt_auto_map_get(&k->map, hash, (uint32_t)k->count);
        *ret = i;
        if (i == UINT32_MAX) return bt_auto_no_memory(&x->w);
        if (i == k->count) return keep(x, k);
        const size_t n = k->at[i + 1] - k->at[i];
        if (n == x->sets && (n == 0 || memcmp(k->pool + k->at[i], x->set, n * sizeof *x->set) == 0))
            return true;
    }
}

/* Bytes out of a set: pieces between the ends of all its ranges. */
static bool add_bytes(work *x, bt_auto *d, sets *k, uint32_t set, uint32_t base, uint32_t end)
{
    bool cut[257] = {false};
    for (uint32_t i = k->at[set]; i < k->at[set + 1]; i++)
        for (uint32_t e = x->head[k->pool[i]]; e; e = x->edge[e].next)
            if (x->edge[e].kind == EDGE_BYTES) cut[x->edge[e].first] = cut[x->edge[e].last + 1] = true;
    for (int first = 0, last; first < 256; first = last + 1) {
        for (last = first; last < 255 && !cut[last + 1]; last++) continue;
        if (!cut[first] && first > 0) continue;
        begin_set(x);
        for (uint32_t i = k->at[set]; i < k->at[set + 1]; i++)
            for (uint32_t e = x->head[k->pool[i]]; e && bt_auto_count(&x->w, 1); e = x->edge[e].next)
                if (x->edge[e].kind == EDGE_BYTES && x->edge[e].first <= first && first <= x->edge[e].last)
                    push(x, x->edge[e].to);
        uint32_t to;
        if (x->sets == 0) continue;
        if (!number(&to, x, k, end) || !bt_auto_add_range(d, &x->w, (uint8_t)first, (uint8_t)last, base + to))
            return false;
    }
    return x->w.err == BT_OK;
}

/* Calls out of a set: those of one rule and one count lead to one state. */
static bool add_calls(work *x, bt_auto *d, sets *k, uint32_t set, uint32_t base, uint32_t end)
{
    bt_auto_call *call = NULL;
    size_t n = 0, cap = 0;
    for (uint32_t i = k->at[set]; i < k->at[set + 1]; i++)
        for (uint32_t e = x->head[k->pool[i]]; e; e = x->edge[e].next) {
            const edge *g = &x->edge[e];
            if (g->kind != EDGE_CALL) continue;
            if (!bt_syntax_grow(&call, &cap, n, sizeof *call)) {
                free(call);
                return bt_auto_no_memory(&x->w);
            }
            const uint32_t min = g->min == 0 || x->made[g->rule].is_empty_in ? 1 : g->min;
            call[n++] = (bt_auto_call){g->rule, min, g->max, g->to};
        }
    if (n > 1) qsort(call, n, sizeof *call, by_call);
    for (size_t i = 0, next; i < n && x->w.err == BT_OK; i = next) {
        begin_set(x);
        for (next = i; next < n && memcmp(&call[i], &call[next], 3 * sizeof(uint32_t)) == 0; next++)
            push(x, call[next].to);
        uint32_t to;
        if (!number(&to, x, k, end)) break;
        (void)bt_auto_add_call(d, &x->w, (bt_auto_call){call[i].rule, call[i].min, call[i].max, base + to});
    }
    free(call);
    return x->w.err == BT_OK;
}

/* Appends to *d the automaton of what lies between two states. Its start is no other state: nothing leads
 * back to it, and it ends nothing, since the empty text is the caller's matter. */
static void decide(work *x, bt_auto *d, uint32_t start, uint32_t end)
{
    sets k = {0};
    const uint32_t base = (uint32_t)d->states;
    if (!bt_syntax_grow(&k.at, &k.at_cap, 0, sizeof *k.at)) (void)bt_auto_no_memory(&x->w);
    else k.at[0] = 0;
    begin_set(x);
    push(x, start);
    close_set(x, true, false);
    reduce(x, end);
    bool fine = x->w.err == BT_OK && keep(x, &k);
    for (uint32_t i = 0; fine && i < k.count; i++) {
        begin_set(x);
        for (uint32_t m = k.at[i]; m < k.at[i + 1]; m++) push(x, k.pool[m]);
        close_set(x, false, true);
        fine = bt_auto_add_state(d, &x->w, i > 0 && x->mark[end] == x->stamp) &&
               add_bytes(x, d, &k, i, base, end) && add_calls(x, d, &k, i, base, end);
    }
    free(k.pool);
    free(k.at);
    bt_auto_map_done(&k.map);
}

static void decide_rule(work *x, uint32_t rule)
{
    made *m = &x->made[rule];
    m->first = (uint32_t)x->d.states;
    const bt_rule *r = &x->s->rule[rule];
    bt_auto a = {0}, b = {0}, inner = {0}, *to = r->is_quoted ? &inner : &x->d;
    if (r->has_filter) {
        decide(x, &a, m->start, m->end);
        decide(x, &b, m->filter_start, m->filter_end);
        if (x->w.err == BT_OK) bt_auto_filter(to, &x->w, &a, &b, r->is_out);
    } else {
        decide(x, to, m->start, m->end);
    }
    if (r->is_quoted && x->w.err == BT_OK) bt_auto_quote(&x->d, &x->w, &inner, m->is_empty_inside);
    bt_auto_done(&a);
    bt_auto_done(&b);
    bt_auto_done(&inner);
    m->states = (uint32_t)x->d.states - m->first;
}

/* ---- what leads nowhere ---------------------------------------------------------------------------- */
/* live[s]: an end of its rule can be reached. Ranges and calls that lead elsewhere are taken out. */
static void drop_dead(work *x, bool *live)
{
    bt_auto *d = &x->d;
    for (bool more = true; more && bt_auto_count(&x->w, d->states + d->ranges);) {
        more = false;
        for (size_t s = d->states; s-- > 0;) {
            const bt_auto_state *st = &d->state[s];
            if (live[s]) continue;
            bool is = st->ends;
            for (uint32_t i = 0; i < st->ranges && !is; i++) is = live[d->range[st->range + i].to];
            for (uint32_t i = 0; i < st->calls && !is; i++) {
                const bt_auto_call *c = &d->call[st->call + i];
                is = live[c->to] && live[x->made[c->rule].first];
            }
            live[s] = is;
            more |= is;
        }
    }
    for (size_t s = 0; s < d->states; s++) {
        bt_auto_state *st = &d->state[s];
        uint32_t n = 0;
        for (uint32_t i = 0; i < st->ranges; i++)
            if (live[d->range[st->range + i].to]) d->range[st->range + n++] = d->range[st->range + i];
        st->ranges = n;
        n = 0;
        for (uint32_t i = 0; i < st->calls; i++) {
            const bt_auto_call *c = &d->call[st->call + i];
            if (live[c->to] && live[x->made[c->rule].first]) d->call[st->call + n++] = *c;
        }
        st->calls = n;
    }
}

/* Left recursion by the name of a rule of its circle; the program's own check has numbers alone. */
static void refuse_left(work *x)
{
    bool *fine = calloc(x->s->rules, sizeof *fine);
    uint32_t bad = UINT32_MAX;
    if (!fine) (void)bt_auto_no_memory(&x->w);
    for (bool more = fine != NULL; more && bt_auto_count(&x->w, x->orders);) {
        more = false;
        bad = UINT32_MAX;
        for (size_t i = x->orders; i-- > 0;) {
            const uint32_t rule = x->order[i];
            const bt_auto_state *st = &x->d.state[x->made[rule].first];
            bool is = true;
            for (uint32_t c = 0; c < st->calls && is; c++) is = fine[x->d.call[st->call + c].rule];
            if (!is) bad = rule;
            more |= is && !fine[rule];
            fine[rule] |= is;
        }
    }
    for (size_t n = 0; bad != UINT32_MAX && x->w.err == BT_OK && n < x->orders; n++) {
        const bt_auto_state *st = &x->d.state[x->made[bad].first];
        for (uint32_t c = 0; c < st->calls; c++)
            if (!fine[x->d.call[st->call + c].rule]) bad = x->d.call[st->call + c].rule;
    }
    if (bad != UINT32_MAX && x->w.err == BT_OK)
        x->w.err =
            bt_fail(x->w.fault, BT_EARG, "'%.64s' begins with itself (left recursion)", x->s->rule[bad].name);
    free(fine);
}

/* ---- the program ----------------------------------------------------------------------------------- */
/* States and rules that are reached from rule 0, in that order, and their numbers. */
typedef struct numbers {
    uint32_t *class, *state_no, *state, *rule_no, *rule;
    size_t states, rules;
} numbers;

static uint32_t state_number(numbers *n, uint32_t s)
{
    s = n->class[s];
    if (n->state_no[s] == UINT32_MAX) {
        n->state_no[s] = (uint32_t)n->states;
        n->state[n->states++] = s;
    }
    return n->state_no[s];
}

static uint32_t rule_number(numbers *n, const work *x, uint32_t rule)
{
    if (n->rule_no[rule] == UINT32_MAX) {
        n->rule_no[rule] = (uint32_t)n->rules;
        n->rule[n->rules++] = rule;
        (void)state_number(n, x->made[rule].first);
    }
    return n->rule_no[rule];
}

static void put16(bt_buf *b, uint32_t v)
{
    uint8_t two[2];
    bt_put16(two, (uint16_t)v);
    (void)bt_buf_add(b, two, 2);
}

static bt_err write_program(bt_buf *out, numbers *n, work *x)
{
    const bt_auto *d = &x->d;
    uint32_t ranges = 0, calls = 0;
    (void)rule_number(n, x, 0);
    for (size_t i = 0; i < n->states; i++) {
        const bt_auto_state *st = &d->state[n->state[i]];
        for (uint32_t k = 0; k < st->ranges; k++) (void)state_number(n, d->range[st->range + k].to);
        for (uint32_t k = 0; k < st->calls; k++) {
            (void)rule_number(n, x, d->call[st->call + k].rule);
            (void)state_number(n, d->call[st->call + k].to);
        }
        ranges += st->ranges;
        calls += st->calls;
    }
    if (n->states > BT_PROGRAM_STATES)
        return bt_fail(x->w.fault, BT_ELIMIT, "needs %zu states (%d is the limit)", n->states,
                       BT_PROGRAM_STATES);
    uint8_t head[BT_PROGRAM_HEADER_BYTES] = "BTPD\1";
    head[6] = x->made[0].is_empty_in;
    bt_put16(head + 8, (uint16_t)n->rules);
    bt_put16(head + 10, (uint16_t)n->states);
    bt_put32(head + 12, ranges);
    bt_put32(head + 16, calls);
    const size_t at = out->len;
    (void)bt_buf_add(out, head, sizeof head);
    for (size_t r = 0; r < n->rules; r++) put16(out, state_number(n, x->made[n->rule[r]].first));
    for (size_t i = 0; i < n->states; i++) {
        const bt_auto_state *st = &d->state[n->state[i]];
        put16(out, st->ranges);
        put16(out, st->calls | (st->ends ? 32768u : 0));
    }
    for (size_t i = 0; i < n->states; i++)
        for (uint32_t k = 0; k < d->state[n->state[i]].ranges; k++) {
            const bt_auto_range *r = &d->range[d->state[n->state[i]].range + k];
            put16(out, r->first | (uint32_t)r->last << 8);
            put16(out, state_number(n, r->to));
        }
    for (size_t i = 0; i < n->states; i++)
        for (uint32_t k = 0; k < d->state[n->state[i]].calls; k++) {
            const bt_auto_call *c = &d->call[d->state[n->state[i]].call + k];
            put16(out, rule_number(n, x, c->rule));
            put16(out, state_number(n, c->to));
            put16(out, c->min);
            put16(out, c->max);
        }
    if (out->err == BT_ENOMEM) return bt_fail(x->w.fault, BT_ENOMEM, "a program");
    const size_t bytes =
        BT_PROGRAM_HEADER_BYTES + 2 * n->rules + 4 * (n->states + ranges) + 8 * (size_t)calls;
    if (bytes > BT_PROGRAM_BYTES || out->err < 0)
        return bt_fail(x->w.fault, BT_ELIMIT, "needs a program of %zu bytes (%d is the limit)", bytes,
                       BT_PROGRAM_BYTES);
    bt_hash_stream h;
    bt_hash_begin(&h);
    bt_hash_add(&h, out->data + at, 24);
    bt_hash_add(&h, out->data + at + sizeof head, bytes - sizeof head);
    bt_hash_end(out->data + at + 24, &h);
    return BT_OK;
}

static bt_err finish(bt_buf *out, work *x)
{
    const size_t states = x->d.states, rules = x->s->rules;
    bool *live = calloc(states, sizeof *live);
    numbers n = {.class = malloc(states * sizeof *n.class), .state_no = malloc(states * sizeof *n.state_no),
                 .state = malloc(states * sizeof *n.state), .rule_no = malloc(rules * sizeof *n.rule_no),
                 .rule = malloc(rules * sizeof *n.rule)};
    if (!live || !n.class || !n.state_no || !n.state || !n.rule_no || !n.rule) (void)bt_auto_no_memory(&x->w);
    if (x->w.err == BT_OK) drop_dead(x, live);
    if (x->w.err == BT_OK && !live[0] && !x->made[0].is_empty_in)
        x->w.err = bt_fail(x->w.fault, BT_EARG, "there is no text that it allows");
    if (x->w.err == BT_OK) refuse_left(x);
    for (size_t i = 0; x->w.err == BT_OK && i < x->orders; i++) {
        const made *m = &x->made[x->order[i]];
        bt_auto_join_alike(n.class + m->first, &x->w, &x->d, m->first, m->states);
    }
    if (x->w.err == BT_OK) {
        memset(n.state_no, 0xff, states * sizeof *n.state_no);
        memset(n.rule_no, 0xff, rules * sizeof *n.rule_no);
        x->w.err = write_program(out, &n, x);
    }
    free(live);
    free(n.class);
    free(n.state_no);
    free(n.state);
    free(n.rule_no);
    free(n.rule);
    return x->w.err;
}

bt_err bt_syntax_assemble(bt_buf *ret, bt_syntax *s, bt_fault *fault)
{
    if (s->err == BT_ENOMEM) return bt_fail(fault, BT_ENOMEM, "a grammar");
    if (s->err < 0)
        return bt_fail(fault, BT_ELIMIT, "is too large: over %d nodes, %d rules or a count over %d",
                       BT_SYNTAX_NODES, BT_PROGRAM_RULES, BT_PROGRAM_NO_END - 1);
    work x = {.w = {0, BT_OK, fault}, .s = s};
    x.made = calloc(s->rules, sizeof *x.made);
    x.order = calloc(s->rules, sizeof *x.order);
    if (!x.made || !x.order) (void)bt_auto_no_memory(&x.w);
    if (x.w.err == BT_OK) find_copied(&x);
    if (x.w.err == BT_OK) arrow(&x, fresh(&x), (edge){0}); /* number 0 is no state and no arrow */
    if (x.w.err == BT_OK) found(&x, 0);
    for (size_t i = 0; x.w.err == BT_OK && i < x.orders; i++) {
        made *m = &x.made[x.order[i]];
        const bt_rule *rule = &s->rule[x.order[i]];
        choices(&x, rule->root, &m->start, &m->end, rule->has_filter);
        if (rule->has_filter) choices(&x, rule->filter, &m->filter_start, &m->filter_end, true);
    }
    x.mark = calloc(x.heads + 1, sizeof *x.mark);
    if (!x.mark) (void)bt_auto_no_memory(&x.w);
    if (x.w.err == BT_OK) find_empty(&x);
    for (size_t i = 0; x.w.err == BT_OK && i < x.orders; i++) decide_rule(&x, x.order[i]);
    const bt_err e = x.w.err == BT_OK ? finish(ret, &x) : x.w.err;
    bt_auto_done(&x.d);
    bt_auto_map_done(&x.shared);
    free(x.made);
    free(x.order);
    free(x.edge);
    free(x.head);
    free(x.mark);
    free(x.job);
    free(x.set);
    return e;
}
