/* The check of a program from outside, and its execution. Nothing of the bytes is followed before it was
 * checked. */
#include "grammar/program.h"

#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENDS = 32768, START_BYTES = 2, STATE_BYTES = 4, RANGE_BYTES = 4, CALL_BYTES = 8 };

/* ---- the check ------------------------------------------------------------------------------------ */
typedef struct parts {
    uint32_t rules, states, ranges, calls;
    const uint8_t *start, *state, *range, *call;
} parts;

static bt_err read_header(parts *ret, bt_program *p, const uint8_t *b, size_t len, bt_fault *f)
{
    if (len < BT_PROGRAM_HEADER_BYTES) return bt_fail(f, BT_EFORMAT, "a program of %zu bytes", len);
    if (len > BT_PROGRAM_BYTES)
        return bt_fail(f, BT_ELIMIT, "a program of %zu bytes (%d is the limit)", len, BT_PROGRAM_BYTES);
    if (memcmp(b, "BTPD", 4) != 0) return bt_fail(f, BT_EFORMAT, "no program: other first bytes");
    if (bt_get16(b + 4) != 1)
        return bt_fail(f, BT_EVERSION, "a program of version %u (1 is known)", bt_get16(b + 4));
    *ret = (parts){
        bt_get16(b + 8), bt_get16(b + 10), bt_get32(b + 12), bt_get32(b + 16), NULL, NULL, NULL, NULL};
    if (bt_get16(b + 6) > 1 || bt_get32(b + 20) != 0) return bt_fail(f, BT_EFORMAT, "flags of a program");
    if (ret->rules == 0 || ret->rules > BT_PROGRAM_RULES || ret->states == 0 ||
        ret->states > BT_PROGRAM_STATES)
        return bt_fail(f, BT_ELIMIT, "a program of %u rules and %u states (%d and %d are the limits)",
                       ret->rules, ret->states, BT_PROGRAM_RULES, BT_PROGRAM_STATES);
    const uint64_t want = BT_PROGRAM_HEADER_BYTES + START_BYTES * (uint64_t)ret->rules +
                          STATE_BYTES * (uint64_t)ret->states + RANGE_BYTES * (uint64_t)ret->ranges +
                          CALL_BYTES * (uint64_t)ret->calls;
    if (want != len)
        return bt_fail(f, BT_EFORMAT, "a program of %zu bytes, its header counts otherwise", len);
    bt_hash_stream h;
    bt_hash_begin(&h);
    bt_hash_add(&h, b, 24);
    bt_hash_add(&h, b + BT_PROGRAM_HEADER_BYTES, len - BT_PROGRAM_HEADER_BYTES);
    bt_hash_end(p->hash, &h);
    if (memcmp(p->hash, b + 24, BT_HASH_BYTES) != 0)
        return bt_fail(f, BT_EFORMAT, "a program whose bytes have another hash");
    ret->start = b + BT_PROGRAM_HEADER_BYTES;
    ret->state = ret->start + START_BYTES * (size_t)ret->rules;
    ret->range = ret->state + STATE_BYTES * (size_t)ret->states;
    ret->call = ret->range + RANGE_BYTES * (size_t)ret->ranges;
    p->rules = ret->rules;
    p->states = ret->states;
    p->is_empty_in = bt_get16(b + 6) == 1;
    return BT_OK;
}

/* Every number is in its range, and the counts of the states add up. */
static bt_err check_parts(const parts *in, bt_fault *f)
{
    uint32_t range = 0, call = 0;
    for (uint32_t s = 0; s < in->states; s++) {
        const uint32_t ranges = bt_get16(in->state + STATE_BYTES * s);
        const uint32_t calls = bt_get16(in->state + STATE_BYTES * s + 2) & (ENDS - 1);
        if (ranges > in->ranges - range || calls > in->calls - call)
            return bt_fail(f, BT_EFORMAT, "state %u has more ranges or calls than there are", s);
        int last = -1;
        for (uint32_t end = range + ranges; range < end; range++) {
            const uint8_t *r = in->range + RANGE_BYTES * range;
            if (r[0] <= last || r[1] < r[0] || bt_get16(r + 2) >= in->states)
                return bt_fail(f, BT_EFORMAT, "range %u of state %u", range, s);
            last = r[1];
        }
        for (uint32_t end = call + calls; call < end; call++) {
            const uint8_t *c = in->call + CALL_BYTES * call;
            if (bt_get16(c) >= in->rules || bt_get16(c + 2) >= in->states || bt_get16(c + 4) == 0 ||
                bt_get16(c + 6) < bt_get16(c + 4))
                return bt_fail(f, BT_EFORMAT, "call %u of state %u", call, s);
        }
    }
    if (range != in->ranges || call != in->calls)
        return bt_fail(f, BT_EFORMAT, "ranges or calls that belong to no state");
    for (uint32_t r = 0; r < in->rules; r++) {
        const uint32_t s = bt_get16(in->start + START_BYTES * r);
        if (s >= in->states || bt_get16(in->state + STATE_BYTES * s + 2) >= ENDS)
            return bt_fail(f, BT_EFORMAT, "the start of rule %u", r);
    }
    return BT_OK;
}

/* Bytes that no range tells apart are one class: a class begins where a range begins or has ended. */
static void find_classes(bt_program *p, const parts *in)
{
    bool cut[257] = {true};
    for (uint32_t r = 0; r < in->ranges; r++) {
        cut[in->range[RANGE_BYTES * r]] = true;
        cut[in->range[RANGE_BYTES * r + 1] + 1] = true;
    }
    for (int b = 0; b < 256; b++) {
        if (cut[b]) p->byte_of[p->classes++] = (uint8_t)b;
        p->class_of[b] = (uint8_t)(p->classes - 1);
    }
}

static bt_err fill(bt_program *p, const parts *in, bt_fault *f)
{
    find_classes(p, in);
    const size_t cells = (size_t)p->states * p->classes;
    p->next = malloc(cells * sizeof *p->next);
    p->start = malloc(p->rules * sizeof *p->start);
    p->ends = calloc(p->states, sizeof *p->ends);
    p->returns = calloc(p->states, sizeof *p->returns);
    p->call_at = calloc(p->states + 1u, sizeof *p->call_at);
    p->calls = calloc(in->calls + 1u, sizeof *p->calls);
    if (!p->next || !p->start || !p->ends || !p->returns || !p->call_at || !p->calls)
        return bt_fail(f, BT_ENOMEM, "a program of %u states", p->states);
    memset(p->next, 0xff, cells * sizeof *p->next);
    for (uint32_t r = 0; r < p->rules; r++) p->start[r] = bt_get16(in->start + START_BYTES * r);
    const uint8_t *range = in->range;
    for (uint32_t s = 0; s < p->states; s++) {
        const uint32_t ranges = bt_get16(in->state + STATE_BYTES * s);
        const uint32_t word = bt_get16(in->state + STATE_BYTES * s + 2), calls = word & (ENDS - 1);
        p->ends[s] = word >= ENDS;
        p->returns[s] = word == ENDS && ranges == 0;
        p->call_at[s + 1] = p->call_at[s] + calls;
        uint16_t *row = p->next + (size_t)s * p->classes;
        for (const uint8_t *end = range + RANGE_BYTES * ranges; range < end; range += RANGE_BYTES)
            for (uint32_t c = p->class_of[range[0]]; c <= p->class_of[range[1]]; c++)
                row[c] = bt_get16(range + 2);
    }
    for (uint32_t i = 0; i < in->calls; i++) {
        const uint8_t *c = in->call + CALL_BYTES * i;
        p->calls[i] = (bt_program_call){bt_get16(c), bt_get16(c + 2), bt_get16(c + 4), bt_get16(c + 6)};
    }
    return BT_OK;
}

/* Rules in an order in which each start calls only rules whose numbers are known, and those numbers: how many
 * states a start tries, and how long a chain of calls goes from it. */
typedef struct reach {
    uint32_t width[BT_PROGRAM_RULES], chain[BT_PROGRAM_RULES];
    uint8_t mark[BT_PROGRAM_RULES]; /* 0 not seen, 1 on the path, 2 known */
    uint16_t path[BT_PROGRAM_LEVELS + 1];
    uint32_t at[BT_PROGRAM_LEVELS + 1];
} reach;

/* The states that are tried from s; a fault where a called rule is not known yet cannot be. */
static bt_err measure(uint32_t *ret_width, uint32_t *ret_chain, const reach *r, const bt_program *p,
                      uint32_t s, bt_fault *f)
{
    uint32_t width = 1, chain = 0;
    for (uint32_t c = p->call_at[s]; c < p->call_at[s + 1]; c++) {
        width += r->width[p->calls[c].rule];
        if (chain < r->chain[p->calls[c].rule] + 1) chain = r->chain[p->calls[c].rule] + 1;
        if (width > BT_PROGRAM_WIDTH)
            return bt_fail(f, BT_ELIMIT, "state %u has more than %d ways to go on", s, BT_PROGRAM_WIDTH);
    }
    if (chain > BT_PROGRAM_LEVELS)
        return bt_fail(f, BT_ELIMIT, "state %u calls through more than %d rules", s, BT_PROGRAM_LEVELS);
    *ret_width = width;
    *ret_chain = chain;
    return BT_OK;
}

static bt_err measure_rules(reach *r, const bt_program *p, bt_fault *f)
{
    for (uint32_t first = 0; first < p->rules; first++) {
        if (r->mark[first]) continue;
        size_t depth = 1;
        r->path[0] = (uint16_t)first;
        r->at[0] = p->call_at[p->start[first]];
        r->mark[first] = 1;
        while (depth > 0) {
            const uint32_t rule = r->path[depth - 1], s = p->start[rule];
            if (r->at[depth - 1] == p->call_at[s + 1]) {
                bt_err e = measure(&r->width[rule], &r->chain[rule], r, p, s, f);
                if (e < 0) return e;
                r->mark[rule] = 2;
                depth--;
                continue;
            }
            const uint32_t to = p->calls[r->at[depth - 1]++].rule;
            if (r->mark[to] == 2) continue;
            if (r->mark[to] == 1)
                return bt_fail(f, BT_EFORMAT, "rule %u begins with itself (left recursion)", to);
            if (depth > BT_PROGRAM_LEVELS)
                return bt_fail(f, BT_ELIMIT, "rule %u is called through more than %d rules", to,
                               BT_PROGRAM_LEVELS);
            r->mark[to] = 1;
            r->path[depth] = (uint16_t)to;
            r->at[depth++] = p->call_at[p->start[to]];
        }
    }
    return BT_OK;
}

static bt_err check_reach(const bt_program *p, bt_fault *f)
{
    reach *r = calloc(1, sizeof *r);
    if (!r) return bt_fail(f, BT_ENOMEM, "the check of a program");
    bt_err e = measure_rules(r, p, f);
    uint32_t width, chain;
    for (uint32_t s = 0; s < p->states && e == BT_OK; s++) e = measure(&width, &chain, r, p, s, f);
    free(r);
    return e;
}

bt_err bt_program_new(bt_program **ret, const void *bytes, size_t len, bt_fault *fault)
{
    parts in;
    bt_program *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "a program");
    bt_err e = read_header(&in, p, bytes, len, fault);
    if (e == BT_OK) e = check_parts(&in, fault);
    if (e == BT_OK) e = fill(p, &in, fault);
    if (e == BT_OK) e = check_reach(p, fault);
    if (e < 0) {
        bt_program_free(p);
        return e;
    }
    *ret = p;
    return BT_OK;
}

void bt_program_free(bt_program *p)
{
    if (!p) return;
    free(p->next);
    free(p->start);
    free(p->ends);
    free(p->returns);
    free(p->call_at);
    free(p->calls);
    free(p);
}

/* ---- one stack, one byte -------------------------------------------------------------------------- */
static void copy_stack(bt_program_stack *to, const bt_program_stack *from)
{
    to->state = from->state;
    to->depth = from->depth;
    memcpy(to->frame, from->frame, from->depth * sizeof *from->frame);
}

/* A frame for the n-th time of a call; false where there is no level left. A frame that could only return is
 * none. */
static bool enter(const bt_program *p, bt_program_stack *s, uint32_t call, uint32_t n)
{
    const bt_program_call *c = &p->calls[call];
    s->state = p->start[c->rule];
    if (n == c->max && p->returns[c->next]) return true;
    if (s->depth == BT_PROGRAM_LEVELS) return false;
    if (c->max == BT_PROGRAM_NO_END && n > c->min) n = c->min;
    s->frame[s->depth++] = (bt_program_frame){(uint16_t)call, (uint16_t)n};
    return true;
}

/* Rules 1 and 2: the byte in the state of *s, and in all that it calls. The check bounds the chain of calls;
 * *s comes back with its own depth. */
static void descend(const bt_program *p, bt_program_stack *s, uint32_t class, bt_program_found *found,
                    void *ud)
{
    struct {
        uint32_t call;
        uint16_t state, depth;
    } way[BT_PROGRAM_LEVELS + 1];
    size_t n = 0;
    way[n].state = s->state;
    way[n].depth = s->depth;
    way[n++].call = BT_PROGRAM_NO_END;
    while (n > 0) {
        const uint32_t state = way[n - 1].state;
        s->depth = way[n - 1].depth;
        if (way[n - 1].call == BT_PROGRAM_NO_END) {
            const uint16_t to = p->next[(size_t)state * p->classes + class];
            if (to != BT_PROGRAM_NONE) {
                s->state = to;
                found(ud, s);
            }
            way[n - 1].call = p->call_at[state];
        }
        if (way[n - 1].call == p->call_at[state + 1]) {
            n--;
            continue;
        }
        if (enter(p, s, way[n - 1].call++, 1)) {
            way[n].state = s->state;
            way[n].depth = s->depth;
            way[n++].call = BT_PROGRAM_NO_END;
        }
    }
}

void bt_program_follow(const bt_program *p, const bt_program_stack *from, uint8_t byte,
                       bt_program_found *found, void *ud)
{
    const uint32_t class = p->class_of[byte];
    bt_program_stack s;
    copy_stack(&s, from);
    for (uint32_t state = s.state;;) {
        const uint16_t depth = s.depth;
        descend(p, &s, class, found, ud);
        if (!p->ends[state] || depth == 0) return;
        s.depth = (uint16_t)(depth - 1);
        const bt_program_frame top = s.frame[s.depth];
        const bt_program_call *c = &p->calls[top.call];
        if ((top.count < c->max || c->max == BT_PROGRAM_NO_END) && enter(p, &s, top.call, top.count + 1u))
            descend(p, &s, class, found, ud);
        if (top.count < c->min) return;
        s.depth = (uint16_t)(depth - 1);
        s.state = c->next;
        state = c->next;
    }
}

void bt_program_leave(const bt_program *p, const bt_program_stack *from, bt_program_found *found, void *ud)
{
    if (from->depth == 0) return;
    bt_program_stack s;
    copy_stack(&s, from);
    const bt_program_frame top = s.frame[--s.depth];
    const bt_program_call *c = &p->calls[top.call];
    if (top.count >= c->min) {
        s.state = c->next;
        found(ud, &s);
    }
    if ((top.count < c->max || c->max == BT_PROGRAM_NO_END) && enter(p, &s, top.call, top.count + 1u))
        found(ud, &s);
}

bool bt_program_stack_may_end(const bt_program_stack *s, const bt_program *p)
{
    uint32_t state = s->state;
    for (size_t d = s->depth; p->ends[state]; d--) {
        if (d == 0) return true;
        const bt_program_call *c = &p->calls[s->frame[d - 1].call];
        if (s->frame[d - 1].count < c->min) return false;
        state = c->next;
    }
    return false;
}

/* ---- the state ------------------------------------------------------------------------------------ */
void bt_program_begin(bt_program_state *ret, const bt_program *p)
{
    ret->stacks = 1;
    ret->is_begun = false;
    ret->stack[0].state = p->start[0];
    ret->stack[0].depth = 0;
}

static void copy_state(bt_program_state *to, const bt_program_state *from)
{
    to->stacks = from->stacks;
    to->is_begun = from->is_begun;
    for (uint32_t i = 0; i < from->stacks; i++) copy_stack(&to->stack[i], &from->stack[i]);
}

typedef struct gathered {
    bt_program_state *to;
    bool is_full;
} gathered;

static void gather(void *ud, const bt_program_stack *stack)
{
    gathered *g = ud;
    for (uint32_t i = 0; i < g->to->stacks; i++) {
        const bt_program_stack *have = &g->to->stack[i];
        if (have->state == stack->state && have->depth == stack->depth &&
            memcmp(have->frame, stack->frame, stack->depth * sizeof *stack->frame) == 0)
            return;
    }
    if (g->to->stacks == BT_PROGRAM_STACKS) {
        g->is_full = true;
        return;
    }
    copy_stack(&g->to->stack[g->to->stacks++], stack);
}

bt_err bt_program_accept(bt_program_state *s, const bt_program *p, const void *bytes, size_t len,
                         bt_fault *fault)
{
    bt_program_state two[2];
    const bt_program_state *from = s;
    const uint8_t *b = bytes;
    for (size_t i = 0; i < len; i++) {
        gathered g = {&two[i % 2], false};
        g.to->stacks = 0;
        g.to->is_begun = true;
        for (uint32_t k = 0; k < from->stacks; k++) bt_program_follow(p, &from->stack[k], b[i], gather, &g);
        if (g.is_full)
            return bt_fail(fault, BT_ELIMIT, "byte %zu (0x%02x) can be read in more than %d ways", i, b[i],
                           BT_PROGRAM_STACKS);
        if (g.to->stacks == 0)
            return bt_fail(fault, BT_EFORMAT, "byte %zu (0x%02x) does not belong here", i, b[i]);
        from = g.to;
    }
    if (from != s) copy_state(s, from);
    return BT_OK;
}

bool bt_program_may_end(const bt_program_state *s, const bt_program *p)
{
    if (!s->is_begun) return p->is_empty_in;
    for (uint32_t i = 0; i < s->stacks; i++)
        if (bt_program_stack_may_end(&s->stack[i], p)) return true;
    return false;
}

char *bt_program_words(char ret[BT_PROGRAM_WORDS], const bt_program_state *s)
{
    (void)snprintf(ret, BT_PROGRAM_WORDS, "state %u, %u levels, %u stacks", s->stack[0].state,
                   s->stack[0].depth, s->stacks);
    return ret;
}
