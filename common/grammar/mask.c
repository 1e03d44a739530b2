/* The walk of a vocabulary's tree with a program, and what is kept of it. */
#include "grammar/mask.h"

#include "grammar/automaton.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CLOSED = 0, UNKNOWN = UINT32_MAX >> 1, NO_FRAMES = 0 };
enum { MAY_END = 1 << 15, MIXED = MAY_END - 1 }; /* of counted.times */

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
    size_t below;     /* nodes below the exits */
    bool is_wide;     /* walking below its exits would visit more nodes than half of the tree's */
    bool is_short;    /* the walk ended where that was known: exits and bits are not all */
} local;
/* How often a token begins a rule that is read again and again, from one state: for calls with any min and
 * max. A call's count n and `times` t make n + t - 1. */
typedef struct edges {
    struct edge {
        uint32_t node;
        uint16_t times; /* of the node above */
    } * edge;
    size_t count, cap;
    bool is_known;
} edges;
typedef struct counted {
    uint32_t rule, state;
    bool is_fit;     /* each node has one number of times */
    uint16_t *times; /* [nodes] begun, the first among them, + MAY_END; 0: closed */
    int32_t *token;  /* [tokens open] by times, then by id */
    size_t tokens;
    uint32_t *upto;         /* [most + 1] into token: those of at most so many times */
    uint16_t most, deepest; /* times; frames of a stack */
    uint64_t *bits;         /* of all tokens */
    edges below[256];       /* by class: nodes below one at which the rule may end */
} counted;
typedef struct kept {
    uint8_t key[BT_HASH_BYTES];
    uint64_t *bits; /* NULL: nothing */
} kept;

struct bt_mask {
    bt_program own; /* with a call more for each rule, which counts and never ends */
    const bt_program *p;
    uint32_t counting; /* the first of these calls; 0: there are too many */
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
    uint16_t *times; /* [sets]: counted.times, of a set around which a call counts */
    size_t times_cap;
    local *local[BT_PROGRAM_STATES];
    size_t locals;
    counted *counted[BT_MASK_COUNTED];
    size_t counteds;
    uint64_t *some; /* [words] */
    kept kept[BT_MASK_KEPT];
    /* of the mask being made */
    member found[BT_PROGRAM_STACKS + 1];
    size_t founds;
    size_t work;
    bool is_full, no_memory, is_retry; /* is_retry: the tables were empty before */
    uint32_t path[BT_TRIE_TEXT_BYTES + 1];
};

static void free_local(local *l)
{
    if (!l) return;
    free(l->bits);
    free(l->exit);
    free(l);
}

static void free_counted(counted *c)
{
    if (!c) return;
    free(c->times);
    free(c->token);
    free(c->upto);
    free(c->bits);
    for (size_t i = 0; i < 256; i++) free(c->below[i].edge);
    free(c);
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
        !grow(m, &m->deep, &m->deep_cap, at, sizeof *m->deep) ||
        !grow(m, &m->times, &m->times_cap, at, sizeof *m->times))
        return CLOSED;
    for (size_t i = 0; i < m->founds; i++) {
        if (!grow(m, &m->member, &m->member_cap, m->members, sizeof *m->member)) return CLOSED;
        m->member[m->members++] = m->found[i];
    }
    for (size_t c = 0; c < classes; c++) m->row[at * classes + c] = UNKNOWN;
    m->may_end[at] = false;
    m->deep[at] = 0;
    m->times[at] = 0;
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

/* counted.times of a stack whose first frame counts; 0: none does. */
static uint16_t times_of(const bt_mask *m, const bt_program_stack *s)
{
    if (!m->counting || s->depth == 0 || s->frame[0].call < m->counting) return 0;
    const uint16_t times = s->frame[0].count < MIXED ? s->frame[0].count : MIXED;
    uint16_t state = s->state;
    for (size_t d = s->depth; d-- > 1;) {
        const bt_program_call *c = &m->p->calls[s->frame[d].call];
        if (!m->p->ends[state] || s->frame[d].count < c->min) return times;
        state = c->next;
    }
    return m->p->ends[state] ? times | MAY_END : times;
}

static void note_stack(bt_mask *m, uint32_t set, const bt_program_stack *s)
{
    const uint16_t times = times_of(m, s), others = m->times[set];
    m->may_end[set] |= bt_program_stack_may_end(s, m->p);
    if (m->deep[set] < s->depth) m->deep[set] = s->depth;
    m->times[set] = others != 0 && (others & MIXED) != (times & MIXED) ? MIXED : others | times;
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
                note_stack(m, n, &s);
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

/* Notes that a local walk is at node i with the set; false where it may stop. */
static bool note(bt_mask *m, local *l, uint32_t i, uint32_t set)
{
    const uint32_t below = m->t->node[i].skip - i;
    if (l->deepest < m->deep[set]) l->deepest = m->deep[set];
    if (!m->may_end[set] || below == 1) return true;
    if (!grow(m, &l->exit, &l->exit_cap, l->exits, sizeof *l->exit)) return false;
    l->exit[l->exits++] = i;
    l->below += below;
    return !l->is_short || l->below <= m->t->nodes / 2;
}

/* Opens what the set reads below a node. With l, notes the nodes at which it may end. */
static void walk(uint64_t *bits, bt_mask *m, uint32_t node, uint32_t set, local *l)
{
    const bt_trie *t = m->t;
    const bt_trie_node *nodes = t->node;
    const uint8_t *class_of = m->p->class_of;
    const uint32_t *row = m->row, end = nodes[node].skip, classes = m->p->classes;
    uint32_t *path = m->path;
    path[nodes[node].depth] = set;
    for (uint32_t i = node + 1; i < end;) {
        const bt_trie_node at = nodes[i];
        const uint32_t from = path[at.depth - 1], class = class_of[at.byte];
        uint32_t to = row[(size_t)from * classes + class];
        if (to == UNKNOWN) {
            to = step(m, from, class);
            assert(to == CLOSED || !(m->is_full || m->no_memory));
            if (m->is_full || m->no_memory) return;
            row = m->row; /* which may have moved */
        }
        if (to == CLOSED) {
            i = at.skip;
            continue;
        }
        path[at.depth] = to;
        if (at.token >= BT_TRIE_SAME) open_tokens(bits, t, at.token);
        else if (at.token >= 0) open_token(bits, at.token);
        if (l && !note(m, l, i, to)) return;
        i++;
    }
}

/* The tokens that a state opens by itself: a walk without frames, which may end early where exits are wide.
 * NULL where it was stopped. */
static const local *local_of(bt_mask *m, uint32_t state, bool may_be_short)
{
    if (m->local[state] && (may_be_short || !m->local[state]->is_short)) return m->local[state];
    if (m->local[state]) m->locals--;
    free_local(m->local[state]);
    m->local[state] = NULL;
    if (m->locals == BT_MASK_STATES) forget_locals(m);
    local *l = calloc(1, sizeof *l);
    if (l) l->bits = calloc(m->words, sizeof *l->bits);
    if (!l || !l->bits) {
        free_local(l);
        m->no_memory = true;
        return NULL;
    }
    l->is_short = may_be_short;
    m->found[0] = (member){state, NO_FRAMES};
    m->founds = 1;
    const uint32_t set = set_number(m);
    if (set != CLOSED) walk(l->bits, m, 0, set, l);
    if (m->is_full || m->no_memory) {
        free_local(l);
        return NULL;
    }
    l->is_wide = l->below > m->t->nodes / 2;
    l->is_short = l->is_short && l->is_wide;
    m->local[state] = l;
    m->locals++;
    return l;
}

/* ---- rules that are read again and again ---------------------------------------------------------- */
/* Notes the times of all nodes; false where one has several, or the walk was stopped. */
static bool count_nodes(counted *c, bt_mask *m, uint32_t set, uint32_t *tokens)
{
    const bt_trie *t = m->t;
    const bt_trie_node *nodes = t->node;
    const uint8_t *class_of = m->p->class_of;
    const uint32_t *row = m->row, end = (uint32_t)t->nodes, classes = m->p->classes;
    uint32_t *path = m->path;
    path[0] = set;
    c->times[0] = m->times[set];
    for (uint32_t i = 1; i < end;) {
        const bt_trie_node at = nodes[i];
        const uint32_t from = path[at.depth - 1], class = class_of[at.byte];
        uint32_t to = row[(size_t)from * classes + class];
        if (to == UNKNOWN) {
            to = step(m, from, class);
            if (m->is_full || m->no_memory) return false;
            row = m->row; /* which may have moved */
        }
        if (to == CLOSED) {
            i = at.skip;
            continue;
        }
        path[at.depth] = to;
        c->times[i] = m->times[to];
        const uint16_t times = c->times[i] & MIXED;
        if (times == 0 || times == MIXED) return false;
        for (int32_t id = at.token < 0 ? -1 : at.token & (BT_TRIE_SAME - 1); id >= 0; id = t->same[id])
            tokens[times]++;
        if (c->most < times) c->most = times;
        if (c->deepest < m->deep[to]) c->deepest = m->deep[to];
        i++;
    }
    return true;
}

/* Sorts the tokens by times, and opens all. */
static bool sort_tokens(counted *c, bt_mask *m, const uint32_t *tokens)
{
    const bt_trie *t = m->t;
    c->upto = calloc((size_t)c->most + 2, sizeof *c->upto);
    for (uint16_t i = 1; i <= c->most; i++) c->tokens += tokens[i];
    c->token = malloc((c->tokens + 1) * sizeof *c->token);
    c->bits = calloc(m->words, sizeof *c->bits);
    if (!c->upto || !c->token || !c->bits) return false;
    for (uint32_t i = 1; i <= c->most; i++) c->upto[i + 1] = c->upto[i] + tokens[i]; /* where i begins, yet */
    for (uint32_t i = 1; i < t->nodes; i++)
        for (int32_t id = c->times[i] == 0 || t->node[i].token < 0 ? -1
                                                                   : t->node[i].token & (BT_TRIE_SAME - 1);
             id >= 0; id = t->same[id]) {
            c->token[c->upto[c->times[i] & MIXED]++] = id;
            open_token(c->bits, id);
        }
    return true;
}

/* Times of tokens from a state of a rule that a call counts; NULL where the walk was stopped. */
static counted *counted_of(bt_mask *m, uint32_t rule, uint32_t state)
{
    for (size_t i = 0; i < BT_MASK_COUNTED && m->counted[i]; i++)
        if (m->counted[i]->rule == rule && m->counted[i]->state == state) return m->counted[i];
    counted *c = calloc(1, sizeof *c);
    uint32_t *tokens = calloc(MIXED + 1, sizeof *tokens);
    if (c) c->times = calloc(m->t->nodes, sizeof *c->times);
    if (!c || !c->times || !tokens) m->no_memory = true;
    else {
        bt_program_stack s = {.state = (uint16_t)state, .depth = 1};
        s.frame[0] = (bt_program_frame){(uint16_t)(m->counting + rule), 1};
        c->rule = rule;
        c->state = state;
        m->found[0] = (member){state, frames_number(m, &s)};
        m->founds = 1;
        const uint32_t set = set_number(m);
        c->is_fit = set != CLOSED && count_nodes(c, m, set, tokens);
        if (c->is_fit && !sort_tokens(c, m, tokens)) m->no_memory = true;
    }
    free(tokens);
    if (m->no_memory || (m->is_full && !m->is_retry)) { /* perhaps the tables were full of others */
        free_counted(c);
        return NULL;
    }
    if (!c->is_fit) {
        free(c->times);
        c->times = NULL;
    }
    counted **place = &m->counted[m->counteds++ % BT_MASK_COUNTED]; /* the oldest one goes */
    free_counted(*place);
    *place = c;
    return m->is_full ? NULL : c;
}

/* The nodes of a class below those at which the rule may end. */
static const edges *edges_of(counted *c, bt_mask *m, uint32_t class)
{
    const bt_trie *t = m->t;
    edges *e = &c->below[class];
    if (e->is_known) return e;
    e->count = 0;
    for (uint32_t i = 0; i < t->nodes;) {
        m->path[t->node[i].depth] = c->times[i];
        const uint16_t above = i > 0 ? (uint16_t)m->path[t->node[i].depth - 1] : 0;
        if (above & MAY_END && m->p->class_of[t->node[i].byte] == class) {
            if (!grow(m, &e->edge, &e->cap, e->count, sizeof *e->edge)) return NULL;
            e->edge[e->count++] = (struct edge){i, above & MIXED};
        }
        i = c->times[i] ? i + 1 : t->node[i].skip;
    }
    e->is_known = true;
    return e;
}

static void open_counted_tokens(uint64_t *bits, bt_mask *m, const counted *c, uint32_t most)
{
    const size_t open = most < c->most ? c->upto[most] : c->tokens;
    if (open <= c->tokens / 2) {
        for (size_t i = 0; i < open; i++) open_token(bits, c->token[i]);
        return;
    }
    memcpy(m->some, c->bits, m->words * sizeof *bits);
    for (size_t i = open; i < c->tokens; i++)
        m->some[c->token[i] >> 6] &= ~(UINT64_C(1) << (c->token[i] & 63));
    for (size_t w = 0; w < m->words; w++) bits[w] |= m->some[w];
}

/* Opens the tokens of a stack whose last call is read several times; false: another way is needed, or it was
 * stopped. */
static bool open_counted(uint64_t *bits, bt_mask *m, member at, const bt_program_stack *s)
{
    if (!m->counting || s->depth == 0) return false;
    const bt_program_frame f = s->frame[s->depth - 1];
    const bt_program_call *call = &m->p->calls[f.call];
    counted *c = call->max > 1 ? counted_of(m, call->rule, at.state) : NULL;
    if (!c || !c->is_fit || s->depth - 1 + c->deepest > BT_PROGRAM_LEVELS) return false;
    const uint32_t most = call->max == BT_PROGRAM_NO_END ? MIXED : (uint32_t)(call->max - f.count) + 1;
    const uint32_t least = f.count < call->min ? (uint32_t)(call->min - f.count) + 1 : 1;
    open_counted_tokens(bits, m, c, most);
    m->found[0] = (member){call->next, m->frame[at.frames].before};
    m->founds = 1;
    const uint32_t around = set_number(m);
    size_t below = 0;
    for (uint32_t class = 0; around != CLOSED && class < m->p->classes; class ++) {
        uint32_t to = m->row[(size_t)around * m->p->classes + class];
        if (to == UNKNOWN) to = step(m, around, class);
        const edges *e = to != CLOSED ? edges_of(c, m, class) : NULL;
        for (size_t i = 0; e && i < e->count && !m->is_full && !m->no_memory; i++) {
            const struct edge *one = &e->edge[i];
            if (one->times < least || one->times > most) continue;
            below += m->t->node[one->node].skip - one->node;
            if (below > m->t->nodes) return false; /* a walk of the whole is shorter */
            if (m->t->node[one->node].token >= 0) open_tokens(bits, m->t, m->t->node[one->node].token);
            walk(bits, m, one->node, to, NULL);
        }
    }
    return !m->is_full && !m->no_memory;
}

static bool open_stack(uint64_t *bits, bt_mask *m, member first)
{
    member wait[2 * BT_PROGRAM_LEVELS + 4];
    size_t waits = 0;
    bt_program_stack s;
    wait[waits++] = first;
    while (waits > 0) {
        const member at = wait[--waits];
        stack_of(&s, m, at);
        const local *l = local_of(m, at.state, s.depth > 0);
        if (!l) return false;
        const bool is_whole = s.depth > 0 && (l->is_wide || s.depth + l->deepest > BT_PROGRAM_LEVELS);
        if (is_whole && open_counted(bits, m, at, &s)) continue;
        if (m->is_full || m->no_memory) return false;
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
        m->is_retry = false;
        bool fine = open_all(bits, m, &s);
        if (!fine && !m->no_memory) { /* perhaps the tables were full of others */
            forget_numbers(m);
            m->is_retry = true;
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

static bool add_counting(bt_mask *m, const bt_program *p)
{
    const uint32_t calls = p->call_at[p->states];
    m->own = *p;
    m->own.calls = malloc(((size_t)calls + p->rules) * sizeof *p->calls);
    m->p = &m->own;
    if (!m->own.calls) return false;
    if (calls) memcpy(m->own.calls, p->calls, calls * sizeof *p->calls);
    if (calls == 0 || calls + p->rules > UINT16_MAX) return true;
    m->counting = calls;
    for (uint32_t i = 0; i < p->rules; i++)
        m->own.calls[calls + i] =
            (bt_program_call){(uint16_t)i, 0, BT_PROGRAM_NO_END - 1, BT_PROGRAM_NO_END - 1};
    return true;
}

bt_err bt_mask_new(bt_mask **ret, const bt_program *program, const bt_trie *trie, bt_fault *fault)
{
    bt_mask *m = calloc(1, sizeof *m);
    if (!m) return bt_fail(fault, BT_ENOMEM, "masks");
    m->t = trie;
    m->words = bt_mask_words(trie->tokens);
    m->some = malloc((m->words + 1) * sizeof *m->some);
    m->no_memory = !m->some || !add_counting(m, program);
    if (!m->no_memory) forget_numbers(m);
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
    for (size_t i = 0; i < BT_MASK_COUNTED; i++) free_counted(m->counted[i]);
    free(m->own.calls);
    free(m->some);
    free(m->times);
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
