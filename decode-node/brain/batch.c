/* See batch.h. Sequences stand in a line, the one that waited longest in front: a step takes sequences from
 * the front, and they go to the back. A prefill stands in the same line and keeps its place, so the prefill
 * that joined first stands before other prefills. */
#include "decode-node/brain/batch.h"

#include <assert.h>
#include <stdlib.h>

#define NOBODY UINT32_MAX

typedef struct sequence {
    dc_batch_join is;    /* as it is now */
    uint32_t prev, next; /* in the line; NOBODY at its ends */
    uint32_t drafts;     /* offered */
    bool joined, planned;
    bool wants, told; /* room: not asked for yet; asked for, no answer yet */
} sequence;

struct dc_batch {
    dc_batch_config config;
    sequence *slot;       /* [slots] */
    uint32_t first, last; /* of the line */
    uint32_t wants;       /* how many sequences want room */
    bool prefilled_last;
    dc_batch_item *items; /* [slots] */
};

bt_err dc_batch_new(dc_batch **ret, const dc_batch_config *config, bt_fault *fault)
{
    const dc_batch_config *c = config;
    if (!c->slots || !c->rows_max || !c->chunk_tokens)
        return bt_fail(fault, BT_EARG,
                       "a batch of %u slots, %u rows and pieces of %u tokens: each must be 1 or more",
                       c->slots, c->rows_max, c->chunk_tokens);
    if (c->mixed_rows && c->mixed_rows <= c->rows_max)
        return bt_fail(fault, BT_EARG,
                       "mixed steps of %u rows have no room beside the %u rows of a decode step",
                       c->mixed_rows, c->rows_max);
    dc_batch *b = calloc(1, sizeof *b);
    if (b) {
        b->config = *c;
        if (!b->config.replay_rows) b->config.replay_rows = 1;
        b->first = b->last = NOBODY;
        b->slot = calloc(c->slots, sizeof *b->slot);
        b->items = calloc(c->slots, sizeof *b->items);
    }
    if (!b || !b->slot || !b->items) {
        dc_batch_free(b);
        return bt_fail(fault, BT_ENOMEM, "out of memory for a batch of %u slots", c->slots);
    }
    *ret = b;
    return BT_OK;
}

void dc_batch_free(dc_batch *b)
{
    if (!b) return;
    free(b->slot);
    free(b->items);
    free(b);
}

/* ---- the line ---- */

static void stand_last(dc_batch *b, uint32_t slot)
{
    sequence *s = &b->slot[slot];
    s->prev = b->last;
    s->next = NOBODY;
    if (b->last == NOBODY) b->first = slot;
    else b->slot[b->last].next = slot;
    b->last = slot;
}

static void step_out(dc_batch *b, uint32_t slot)
{
    const sequence *s = &b->slot[slot];
    if (s->prev == NOBODY) b->first = s->next;
    else b->slot[s->prev].next = s->next;
    if (s->next == NOBODY) b->last = s->prev;
    else b->slot[s->next].prev = s->prev;
}

/* ---- one sequence ---- */

static bool is_prefill(const sequence *s) { return s->is.rows < s->is.prompt_tokens; }

/* Rows to run until the one that makes the next token, that one included. */
static uint32_t pending(const sequence *s) { return s->is.prompt_tokens + s->is.known - s->is.rows; }

static uint32_t piece(const dc_batch *b, const sequence *s)
{
    const uint32_t left = s->is.prompt_tokens - s->is.rows;
    return left < b->config.chunk_tokens ? left : b->config.chunk_tokens;
}

static bool can_prefill(const dc_batch *b, const sequence *s)
{
    return is_prefill(s) && s->is.rows + piece(b, s) <= s->is.capacity_tokens;
}

static bool can_step(const sequence *s)
{
    return !is_prefill(s) && s->is.known < s->is.max_tokens && s->is.rows < s->is.capacity_tokens;
}

/* How many rows it will have in the end. */
static uint32_t final_rows(const sequence *s) { return s->is.prompt_tokens + s->is.max_tokens - 1; }

static void look_at_room(dc_batch *b, sequence *s)
{
    const uint32_t begin = is_prefill(s) ? s->is.prompt_tokens : s->is.rows;
    const uint32_t ahead = b->config.ahead_tokens ? b->config.ahead_tokens : 1;
    const bool is_short = s->is.capacity_tokens < final_rows(s) &&
                          (s->is.capacity_tokens < begin || s->is.capacity_tokens - begin < ahead);
    if (!is_short || s->told || s->wants) return;
    s->wants = true;
    b->wants++;
}

static void forget_want(dc_batch *b, sequence *s)
{
    if (s->wants) b->wants--;
    s->wants = false;
}

void dc_batch_join_slot(dc_batch *b, const dc_batch_join *join)
{
    assert(join->slot < b->config.slots && !b->slot[join->slot].joined);
    assert(join->prompt_tokens && join->known < join->max_tokens &&
           join->max_tokens < INT32_MAX - join->prompt_tokens);
    assert(join->rows <= join->prompt_tokens || join->rows - join->prompt_tokens < join->known);
    assert(join->rows != join->prompt_tokens || join->known);
    sequence *s = &b->slot[join->slot];
    *s = (sequence){.is = *join, .joined = true};
    stand_last(b, join->slot);
    look_at_room(b, s);
}

void dc_batch_leave(dc_batch *b, uint32_t slot)
{
    sequence *s = &b->slot[slot];
    if (!s->joined) return;
    forget_want(b, s);
    step_out(b, slot);
    s->joined = false;
}

void dc_batch_grow(dc_batch *b, uint32_t slot, uint32_t capacity_tokens)
{
    sequence *s = &b->slot[slot];
    assert(s->joined && capacity_tokens >= s->is.capacity_tokens);
    s->is.capacity_tokens = capacity_tokens;
    s->told = false;
    forget_want(b, s);
    look_at_room(b, s);
}

bool dc_batch_takes_drafts(const dc_batch *b, uint32_t slot)
{
    const sequence *s = &b->slot[slot];
    return s->joined && can_step(s) && pending(s) == 1;
}

void dc_batch_offer(dc_batch *b, uint32_t slot, uint32_t drafts)
{
    assert(b->slot[slot].joined);
    b->slot[slot].drafts = drafts;
}

bool dc_batch_needs(dc_batch *b, uint32_t *ret_slot, uint32_t *ret_tokens)
{
    if (!b->wants) return false;
    uint32_t i = b->first;
    while (!b->slot[i].wants) i = b->slot[i].next;
    sequence *s = &b->slot[i];
    const uint64_t begin = is_prefill(s) ? s->is.prompt_tokens : s->is.rows;
    const uint64_t wish = begin + 2ull * (b->config.ahead_tokens ? b->config.ahead_tokens : 1);
    forget_want(b, s);
    s->told = true;
    *ret_slot = i;
    *ret_tokens = wish < final_rows(s) ? (uint32_t)wish : final_rows(s);
    return true;
}

/* ---- plans ---- */

/* The first prefill from slot `from` of the line on. */
static uint32_t next_prefill(const dc_batch *b, uint32_t from)
{
    uint32_t i = from;
    while (i != NOBODY && !can_prefill(b, &b->slot[i])) i = b->slot[i].next;
    return i;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Fills free rows: with replay in the order of the line, then with drafts. */
static uint32_t fill_idle_rows(dc_batch *b, uint32_t n, uint32_t rows)
{
    for (uint32_t i = 0; i < n; i++) {
        dc_batch_item *it = &b->items[i];
        const sequence *s = &b->slot[it->slot];
        uint32_t more = least(pending(s) - 1, b->config.replay_rows - 1);
        more = least(more, s->is.capacity_tokens - s->is.rows - 1);
        more = least(more, b->config.rows_max - rows);
        it->count += more;
        it->out = it->count == pending(s);
        rows += more;
    }
    for (uint32_t i = 0; i < n; i++) {
        dc_batch_item *it = &b->items[i];
        sequence *s = &b->slot[it->slot];
        if (it->count == 1 && it->out) {
            uint32_t more = least(s->drafts, s->is.max_tokens - s->is.known - 1);
            more = least(more, s->is.capacity_tokens - s->is.rows - 1);
            more = least(more, b->config.rows_max - rows);
            it->count += more;
            it->out += more;
            it->drafts = more;
            rows += more;
        }
        s->drafts = 0;
    }
    return rows;
}

void dc_batch_look_ahead(const dc_batch *b)
{
    if (b->first == NOBODY) return;
    __builtin_prefetch(&b->slot[b->first], 1);
    __builtin_prefetch(&b->slot[b->last], 1);
    __builtin_prefetch(b->items, 1);
}

static dc_batch_plan plan_step(dc_batch *b)
{
    uint32_t n = 0;
    for (uint32_t i = b->first; i != NOBODY && n < b->config.rows_max; i = b->slot[i].next)
        if (can_step(&b->slot[i]))
            b->items[n++] = (dc_batch_item){.slot = i, .pos = b->slot[i].is.rows, .count = 1};
    const uint32_t rows = fill_idle_rows(b, n, n);
    for (uint32_t i = 0; i < n; i++) {
        step_out(b, b->items[i].slot);
        stand_last(b, b->items[i].slot);
        b->slot[b->items[i].slot].planned = true;
    }
    return (dc_batch_plan){.kind = n ? DC_BATCH_STEP : DC_BATCH_NOTHING, .items = b->items, .items_len = n,
                           .rows = rows};
}

/* A piece of at most `rows` rows behind the plan's items. */
static void add_piece(dc_batch *b, dc_batch_plan *p, uint32_t slot, uint32_t rows)
{
    sequence *s = &b->slot[slot];
    const uint32_t count = least(piece(b, s), rows);
    b->items[p->items_len++] =
        (dc_batch_item){.slot = slot, .pos = s->is.rows, .count = count,
                        .out = s->is.rows + count == s->is.prompt_tokens && !s->is.known};
    s->planned = true;
    p->rows += count;
    p->pieces++;
}

static dc_batch_plan plan_mixed(dc_batch *b)
{
    dc_batch_plan p = plan_step(b);
    uint32_t who = next_prefill(b, b->first), left = b->config.chunk_tokens;
    /* alone, it may be longer than a call */
    if (who != NOBODY && !p.items_len && next_prefill(b, b->slot[who].next) == NOBODY) {
        add_piece(b, &p, who, left);
        who = NOBODY;
    }
    for (; who != NOBODY && left && p.rows < b->config.mixed_rows && p.pieces < DC_BATCH_PIECES;
         who = next_prefill(b, b->slot[who].next)) {
        const uint32_t before = p.rows;
        add_piece(b, &p, who, least(left, b->config.mixed_rows - p.rows));
        left -= p.rows - before;
    }
    if (p.pieces) p.kind = p.items_len == 1 ? DC_BATCH_PREFILL : DC_BATCH_MIXED;
    return p;
}

dc_batch_plan dc_batch_next(dc_batch *b)
{
    if (b->config.mixed_rows) return plan_mixed(b);
    const uint32_t who = next_prefill(b, b->first);
    if (who == NOBODY || b->prefilled_last) {
        const dc_batch_plan plan = plan_step(b);
        b->prefilled_last = false;
        if (plan.kind == DC_BATCH_STEP || who == NOBODY) return plan;
    }
    dc_batch_plan p = {.kind = DC_BATCH_PREFILL, .items = b->items};
    b->prefilled_last = true;
    add_piece(b, &p, who, UINT32_MAX);
    return p;
}

void dc_batch_ran(dc_batch *b, uint32_t slot, uint32_t rows_kept, uint32_t new_tokens)
{
    sequence *s = &b->slot[slot];
    assert(s->joined && s->planned);
    s->planned = false;
    s->is.rows += rows_kept;
    s->is.known += new_tokens;
    assert(s->is.rows <= s->is.capacity_tokens && s->is.known <= s->is.max_tokens);
    assert(s->is.rows < s->is.prompt_tokens + s->is.known ||
           (s->is.rows <= s->is.prompt_tokens && !new_tokens && is_prefill(s)));
    look_at_room(b, s);
}
