/* The walk of a vocabulary's tree with a program, and what is kept of it. */
#include "grammar/mask.h"

#include "grammar/automaton.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CLOSED = 0, UNKNOWN = UINT32_MAX >> 1, NO_FRAMES = 0 };

/* A list of frames by its last one; number 0 is the empty list. */
typedef struct frames {
    uint32_t before;
    uint16_t depth;
    bt_program_frame last;
} frames;
typedef struct member {
    uint32_t state, frames;
} member;
/* The tokens that one state opens by itself. */
typedef struct local {
    uint64_t *bits;
    uint32_t *exit; /* nodes at which the rule may end */
    size_t exits, exit_cap;
    uint16_t deepest; /* most frames of its own */
    bool is_wide;     /* walking below its exits would visit more nodes than the tree has */
} local;
typedef struct kept {
    uint8_t key[BT_HASH_BYTES];
    uint64_t *bits; /* NULL: nothing */
} kept;

struct bt_mask {
    const bt_program *p;
    const bt_trie *t;
    size_t words;
    /* numbers of lists of frames and of sets of stacks; set 0 is the empty one */
    frames *frame;
    size_t frames, frame_cap;
    bt_auto_map frame_map;
    member *member;
    size_t members, member_cap;
    uint32_t *set_at; /* [sets + 1] into member */
    size_t sets, set_cap;
    bt_auto_map set_map;
    uint32_t *row; /* [sets][classes]: the set behind a byte */
    size_t row_cap;
    bool *may_end;
    size_t end_cap;
    uint16_t *deep; /* [sets]: most frames of a stack */
    size_t deep_cap;
    local *local[BT_PROGRAM_STATES];
    size_t locals;
    kept kept[BT_MASK_KEPT];
    /* of the mask being made */
    member found[BT_PROGRAM_STACKS + 1];
    size_t founds;
    size_t work;
    bool is_full, no_memory;
    uint32_t path[BT_TRIE_TEXT_BYTES + 1];
};

static void free_local(local *l)
{
    if (!l) return;
    free(l->bits);
    free(l->exit);
    free(l);
}

static void forget_locals(bt_mask *m)
{
    for (uint32_t i = 0; i < m->p->states; i++) {
        free_local(m->local[i]);
        m->local[i] = NULL;
    }
    m->locals = 0;
}

/* ---- numbers -------------------------------------------------------------------------------------- */
static bool grow(bt_mask *m, void *array, size_t *cap, size_t n, size_t bytes)
{
    if (bt_syntax_grow(array, cap, n, bytes)) return true;
    m->no_memory = true;
    return false;
}

/* A new set from m->found, with nothing known of its steps. */
static uint32_t add_set(bt_mask *m)
{
    const size_t classes = m->p->classes, at = m->sets;
    if (at == BT_MASK_SETS) {
        m->is_full = true;
        return CLOSED;
    }
    if (!grow(m, &m->set_at, &m->set_cap, at + 1, sizeof *m->set_at) ||
        !grow(m, &m->row, &m->row_cap, at, classes * sizeof *m->row) ||
        !grow(m, &m->may_end, &m->end_cap, at, sizeof *m->may_end) ||
        !grow(m, &m->deep, &m->deep_cap, at, sizeof *m->deep))
        return CLOSED;
    for (size_t i = 0; i < m->founds; i++) {
        if (!grow(m, &m->member, &m->member_cap, m->members, sizeof *m->member)) return CLOSED;
        m->member[m->members++] = m->found[i];
    }
    for (size_t c = 0; c < classes; c++) m->row[at * classes + c] = UNKNOWN;
    m->may_end[at] = false;
    m->deep[at] = 0;
    m->set_at[at + 1] = (uint32_t)m->members;
    m->sets++;
    return (uint32_t)at;
}

/* Lets all numbers go; sets of tokens of states and whole masks do not depend on them. */
static void forget_numbers(bt_mask *m)
{
    m->frames = m->members = m->sets = m->founds = 0;
    bt_auto_map_done(&m->frame_map);
    bt_auto_map_done(&m->set_map);
    m->is_full = false;
    if (grow(m, &m->frame, &m->frame_cap, 0, sizeof *m->frame)) m->frame[m->frames++] = (frames){0};
    if (grow(m, &m->set_at, &m->set_cap, 0, sizeof *m->set_at)) m->set_at[0] = 0;
    if (!m->no_memory) (void)add_set(m); /* CLOSED */
}

static uint32_t frames_number(bt_mask *m, const bt_program_stack *s)
{
    uint32_t at = NO_FRAMES;
    for (uint16_t i = 0; i < s->depth; i++) {
        const uint64_t key = (uint64_t)at << 32 | (uint32_t)s->frame[i].call << 16 | s->frame[i].count;
        const uint32_t fresh = (uint32_t)m->frames, n = bt_auto_map_get(&m->frame_map, key, fresh);
        if (n == UINT32_MAX) {
            m->no_memory = true;
            return NO_FRAMES;
        }
        if (n == fresh) {
            if (fresh == BT_MASK_FRAMES) m->is_full = true;
            else if (grow(m, &m->frame, &m->frame_cap, fresh, sizeof *m->frame))
                m->frame[m->frames++] = (frames){at, (uint16_t)(i + 1), s->frame[i]};
            if (m->is_full || m->no_memory) return NO_FRAMES;
        }
        at = n;
    }
    return at;
}

static void stack_of(bt_program_stack *ret, const bt_mask *m, member s)
{
    const frames *f = &m->frame[s.frames];
    ret->state = (uint16_t)s.state;
    ret->depth = f->depth;
    for (size_t i = f->depth; i > 0; i--) {
        ret->frame[i - 1] = f->last;
        f = &m->frame[f->before];
    }
}

static void find(void *ud, const bt_program_stack *s)
{
    bt_mask *m = ud;
    m->work++;
    const member one = {s->state, frames_number(m, s)};
    for (size_t i = 0; i < m->founds; i++)
        if (m->found[i].state == one.state && m->found[i].frames == one.frames) return;
    if (m->founds <= BT_PROGRAM_STACKS) m->found[m->founds++] = one;
}

/* The number of the set in m->found. */
static uint32_t set_number(bt_mask *m)
{
    if (m->founds == 0 || m->founds > BT_PROGRAM_STACKS || m->is_full || m->no_memory) return CLOSED;
    for (size_t i = 1; i < m->founds; i++) { /* in order: a set is the same however it was found */
        const member one = m->found[i];
        size_t k = i;
        for (; k > 0 && (m->found[k - 1].state > one.state ||
                         (m->found[k - 1].state == one.state && m->found[k - 1].frames > one.frames));
             k--)
            m->found[k] = m->found[k - 1];
        m->found[k] = one;
    }
    for (uint64_t hash = bt_hash64(m->found, m->founds * sizeof *m->found);; hash++) {
        const uint32_t fresh = (uint32_t)m->sets, n = bt_auto_map_get(&m->set_map, hash, fresh);
        if (n == UINT32_MAX) m->no_memory = true;
        if (n == UINT32_MAX) return CLOSED;
        if (n == fresh) {
            if (add_set(m) != fresh) return CLOSED;
            bt_program_stack s;
            for (size_t i = 0; i < m->founds; i++) {
                stack_of(&s, m, m->found[i]);
                m->may_end[n] |= bt_program_stack_may_end(&s, m->p);
                if (m->deep[n] < s.depth) m->deep[n] = s.depth;
            }
            return n;
        }
        const uint32_t at = m->set_at[n], members = m->set_at[n + 1] - at;
        if (members == m->founds && memcmp(m->member + at, m->found, members * sizeof *m->found) == 0)
            return n;
    }
}

static uint32_t step(bt_mask *m, uint32_t set, uint32_t class)
{
    bt_program_stack s;
    m->founds = 0;
    for (uint32_t i = m->set_at[set]; i < m->set_at[set + 1]; i++) {
        m->work++;
        stack_of(&s, m, m->member[i]);
        bt_program_follow(m->p, &s, m->p->byte_of[class], find, m);
    }
    const uint32_t to = set_number(m);
    if (m->work > BT_MASK_WORK) m->is_full = true;
    if (m->is_full || m->no_memory) return CLOSED;
    m->row[(size_t)set * m->p->classes + class] = to;
    return to;
}

/* ---- walks ---------------------------------------------------------------------------------------- */
static void open_token(uint64_t *bits, int32_t id) { bits[id >> 6] |= UINT64_C(1) << (id & 63); }

static void open_tokens(uint64_t *bits, const bt_trie *t, int32_t id)
{
    const int32_t first = id & (BT_TRIE_SAME - 1);
    open_token(bits, first);
    if (id == first) return;
    for (id = t->same[first]; id >= 0; id = t->same[id]) open_token(bits, id);
}

/* Opens what the set reads below a node. With l, notes the nodes at which it may end. */
static void walk(uint64_t *bits, bt_mask *m, uint32_t node, uint32_t set, local *l)
{
    const bt_trie *t = m->t;
    const uint32_t end = t->skip[node], classes = m->p->classes;
    m->path[t->depth[node]] = set;
    for (uint32_t i = node + 1; i < end;) {
        const uint32_t from = m->path[t->depth[i] - 1], class = m->p->class_of[t->byte[i]];
        uint32_t to = m->row[(size_t)from * classes + class];
        if (to == UNKNOWN) to = step(m, from, class);
        if (to == CLOSED) {
            if (m->is_full || m->no_memory) return;
            i = t->skip[i];
            continue;
        }
        m->path[t->depth[i]] = to;
        if (t->token[i] >= 0) open_tokens(bits, t, t->token[i]);
        if (l) {
            if (l->deepest < m->deep[to]) l->deepest = m->deep[to];
            if (m->may_end[to] && t->skip[i] > i + 1) {
                if (!grow(m, &l->exit, &l->exit_cap, l->exits, sizeof *l->exit)) return;
                l->exit[l->exits++] = i;
            }
        }
        i++;
    }
}

/* The tokens that a state opens by itself: a walk without frames. NULL where it was stopped. */
static const local *local_of(bt_mask *m, uint32_t state)
{
    if (m->local[state]) return m->local[state];
    if (m->locals == BT_MASK_STATES) forget_locals(m);
    local *l = calloc(1, sizeof *l);
    if (l) l->bits = calloc(m->words, sizeof *l->bits);
    if (!l || !l->bits) {
        free_local(l);
        m->no_memory = true;
        return NULL;
    }
    m->found[0] = (member){state, NO_FRAMES};
    m->founds = 1;
    const uint32_t set = set_number(m);
    if (set != CLOSED) walk(l->bits, m, 0, set, l);
    if (m->is_full || m->no_memory) {
        free_local(l);
        return NULL;
    }
    size_t below = 0;
    for (size_t i = 0; i < l->exits; i++) below += m->t->skip[l->exit[i]] - l->exit[i];
    l->is_wide = below > m->t->nodes / 2;
    m->local[state] = l;
    m->locals++;
    return l;
}

static bool open_stack(uint64_t *bits, bt_mask *m, member first)
{
    member wait[2 * BT_PROGRAM_LEVELS + 4];
    size_t waits = 0;
    bt_program_stack s;
    wait[waits++] = first;
    while (waits > 0) {
        const member at = wait[--waits];
        const local *l = local_of(m, at.state);
        if (!l) return false;
        stack_of(&s, m, at);
        const bool is_whole = s.depth > 0 && (l->is_wide || s.depth + l->deepest > BT_PROGRAM_LEVELS);
        if (is_whole) {
            m->found[0] = at;
            m->founds = 1;
            const uint32_t set = set_number(m);
            if (set != CLOSED) walk(bits, m, 0, set, NULL);
        } else {
            for (size_t w = 0; w < m->words; w++) bits[w] |= l->bits[w];
        }
        if (!is_whole && s.depth > 0) {
            m->founds = 0;
            bt_program_leave(m->p, &s, find, m);
            if (m->p->ends[at.state])
                for (size_t i = 0; i < m->founds; i++) {
                    assert(waits < sizeof wait / sizeof *wait); /* two a level */
                    wait[waits++] = m->found[i];
                }
            const uint32_t around = l->exits > 0 ? set_number(m) : CLOSED;
            for (size_t i = 0; around != CLOSED && i < l->exits && !m->is_full; i++)
                walk(bits, m, l->exit[i], around, NULL);
        }
        if (m->is_full || m->no_memory) return false;
    }
    return true;
}

/* ---- masks ---------------------------------------------------------------------------------------- */
/* Where no text of a token is as long as what is missing to min and to max, the count is a number that stands
 * for all such: each time reads a byte at least. */
static void simplify(bt_program_state *s, const bt_mask *m)
{
    const uint32_t longest = m->t->longest;
    for (uint32_t i = 0; i < s->stacks; i++)
        for (uint32_t d = 0; d < s->stack[i].depth; d++) {
            bt_program_frame *f = &s->stack[i].frame[d];
            const bt_program_call *c = &m->p->calls[f->call];
            const bool is_far = c->max == BT_PROGRAM_NO_END || (uint32_t)(c->max - f->count) > longest;
            if (f->count < c->min && (uint32_t)(c->min - f->count) > longest) f->count = 1;
            else if (f->count > c->min && is_far) f->count = c->min;
        }
}

static void key_of(uint8_t ret[BT_HASH_BYTES], const bt_program_state *s)
{
    bt_hash_stream h;
    bt_hash_begin(&h);
    for (uint32_t i = 0; i < s->stacks; i++) {
        bt_hash_add(&h, &s->stack[i].state, sizeof s->stack[i].state);
        bt_hash_add(&h, &s->stack[i].depth, sizeof s->stack[i].depth);
        bt_hash_add(&h, s->stack[i].frame, s->stack[i].depth * sizeof *s->stack[i].frame);
    }
    bt_hash_end(ret, &h);
}

/* One try; false where a table was full or memory ran out. */
static bool open_all(uint64_t *bits, bt_mask *m, const bt_program_state *s)
{
    memset(bits, 0, m->words * sizeof *bits);
    m->work = 0;
    for (uint32_t i = 0; i < s->stacks; i++) {
        const member at = {s->stack[i].state, frames_number(m, &s->stack[i])};
        if (m->is_full || m->no_memory || !open_stack(bits, m, at)) return false;
    }
    return true;
}

bt_err bt_mask_fill(uint64_t *bits, bt_mask *m, const bt_program_state *state, bt_fault *fault)
{
    bt_program_state s = *state;
    uint8_t key[BT_HASH_BYTES];
    simplify(&s, m);
    key_of(key, &s);
    kept *k = &m->kept[key[0] % BT_MASK_KEPT];
    m->no_memory = false;
    if (k->bits && memcmp(k->key, key, sizeof key) == 0) {
        memcpy(bits, k->bits, m->words * sizeof *bits);
    } else {
        bool fine = open_all(bits, m, &s);
        if (!fine && !m->no_memory) { /* perhaps the tables were full of others */
            forget_numbers(m);
            fine = !m->no_memory && open_all(bits, m, &s);
        }
        if (!fine) {
            char words[BT_PROGRAM_WORDS];
            const bool no_memory = m->no_memory;
            memset(bits, 0, m->words * sizeof *bits);
            forget_numbers(m);
            if (no_memory) return bt_fail(fault, BT_ENOMEM, "a mask of %zu tokens", m->t->tokens);
            return bt_fail(fault, BT_ELIMIT, "the grammar is too ambiguous in %s",
                           bt_program_words(words, state));
        }
        if (!k->bits) k->bits = malloc(m->words * sizeof *bits);
        if (k->bits) {
            memcpy(k->bits, bits, m->words * sizeof *bits);
            memcpy(k->key, key, sizeof key);
        }
    }
    if (bt_program_may_end(state, m->p))
        for (size_t i = 0; i < m->t->ends; i++) open_token(bits, m->t->end[i]);
    for (size_t w = 0; w < m->words; w++)
        if (bits[w]) return BT_OK;
    char words[BT_PROGRAM_WORDS];
    return bt_fail(fault, BT_EFORMAT, "no token may come next in %s of the grammar",
                   bt_program_words(words, state));
}

bt_err bt_mask_new(bt_mask **ret, const bt_program *program, const bt_trie *trie, bt_fault *fault)
{
    bt_mask *m = calloc(1, sizeof *m);
    if (!m) return bt_fail(fault, BT_ENOMEM, "masks");
    m->p = program;
    m->t = trie;
    m->words = bt_mask_words(trie->tokens);
    forget_numbers(m);
    if (m->no_memory) {
        bt_mask_free(m);
        return bt_fail(fault, BT_ENOMEM, "masks");
    }
    *ret = m;
    return BT_OK;
}

void bt_mask_free(bt_mask *m)
{
    if (!m) return;
    forget_locals(m);
    for (size_t i = 0; i < BT_MASK_KEPT; i++) free(m->kept[i].bits);
    free(m->frame);
    free(m->member);
    free(m->set_at);
    free(m->row);
    free(m->may_end);
    free(m->deep);
    bt_auto_map_done(&m->frame_map);
    bt_auto_map_done(&m->set_map);
    free(m);
}
