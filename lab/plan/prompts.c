/* Full chunks are walked once, for all lengths; each length adds what is behind them. */
#include "lab/plan/prompts.h"
#include "lab/plan/overlap.h"

#include <stdlib.h>

typedef struct walk {
    tool_plan_prompt sum;
    bt_link_queue wire;
    uint64_t first; /* tokens done */
    uint32_t last;  /* the program of the last chunk */
} walk;

static void send(walk *w, const tool_plan_how *how, uint64_t start, uint64_t took, uint64_t rows)
{
    bt_link_chunk(&w->wire, &how->link, start, took, how->layers,
                  bt_time_times(how->kv_bytes / how->layers, rows));
}

/* The next chunk of a prompt of so many tokens. */
static void advance(walk *w, const tool_plan_how *how, uint64_t tokens)
{
    const uint64_t start = w->sum.ns;
    bt_price_sum s = {0};
    bt_shapes_chunk c;
    if (how->programs) {
        c = bt_shapes_next(how->shapes, tokens, w->first);
        w->last = tool_plan_program_for(how->programs, c.rows);
        bt_price_add_chunk(&s, &how->programs->price, w->last, w->first);
    } else {
        const uint64_t left = tokens - w->first, rows = how->piece && how->piece < left ? how->piece : left;
        const bt_price_step step = bt_price_prefill_step(w->first, rows);
        s = bt_price_step_of(how->profile, &how->model, &step);
        c = (bt_shapes_chunk){w->first, rows, rows};
    }
    w->sum.ns = bt_time_plus(start, s.ns);
    w->sum.ops = bt_time_plus(w->sum.ops, s.ops);
    w->sum.bytes = bt_time_plus(w->sum.bytes, s.bytes);
    w->sum.rows = bt_time_plus(w->sum.rows, c.rows);
    w->sum.chunks++;
    send(w, how, start, w->sum.ns - start, c.valid);
    w->first += c.valid;
}

/* The rows of chunks that every longer prompt begins with; 0: it depends on the prompt. */
static uint64_t full_rows(const tool_plan_how *how)
{
    if (!how->programs) return how->piece;
    const bt_shapes *s = how->shapes;
    for (size_t i = 0; i < s->shapes; i++)
        if (s->shape[i].ctx) return 0;
    return s->shape[s->shapes - 1].seq;
}

static void end(tool_plan_prompt *ret, walk *w, const tool_plan_how *how)
{
    if (how->programs) {
        const bt_price *p = &how->programs->price;
        w->sum.ns = bt_time_plus(w->sum.ns, p->last_ns);
        w->sum.ops = bt_time_plus(w->sum.ops, p->last_ops);
        w->sum.bytes = bt_time_plus(w->sum.bytes, p->last_bytes);
    }
    w->sum.exposed_ns = bt_link_exposed_ns(&w->wire, w->sum.ns);
    *ret = w->sum;
}

bt_err tool_plan_prompts(tool_plan_prompt *ret, const uint32_t *length, size_t n, const tool_plan_how *how,
                         bt_fault *fault)
{
    const uint64_t full = full_rows(how), first_ns = how->programs
                                                         ? how->programs->price.first_ns
                                                         : bt_price_first_use(how->profile, &how->model);
    walk shared = {.sum = {.ns = first_ns}};
    tool_plan_overlap *overlap = NULL;
    bt_err e = BT_OK;
    if (how->programs && how->schedule != BT_SCHEDULE_SERIAL && n)
        e = tool_plan_overlap_new(&overlap, how, length[n - 1], fault);
    for (size_t i = 0; e == BT_OK && i < n; i++) {
        while (full && length[i] - shared.first > full) advance(&shared, how, length[i]);
        walk w = full ? shared : (walk){.sum = {.ns = first_ns}};
        while (w.first < length[i]) advance(&w, how, length[i]);
        const uint64_t chunks_ns = w.sum.ns - first_ns;
        end(&ret[i], &w, how);
        if (overlap) e = tool_plan_overlap_apply(&ret[i], overlap, chunks_ns, w.last, fault);
    }
    tool_plan_overlap_free(overlap);
    return e;
}
