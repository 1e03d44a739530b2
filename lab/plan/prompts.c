/* Programs have a table of prices; full steps are walked once, for all lengths. */
#include "lab/plan/prompts.h"
#include "npu/price/schedule_price.h"

/* ---- programs ---- */

static bt_err of_programs(tool_plan_prompt *ret, const uint32_t *length, size_t n, const tool_plan_how *how,
                          bt_fault *fault)
{
    bt_schedule_price *table = NULL;
    const bt_schedule_price_config c = {.price = how->price,   .policy = how->schedule,
                                        .window = how->arenas, .tokens = length[n - 1],
                                        .link = how->link,     .kv_bytes = how->kv_bytes};
    bt_err e = bt_schedule_price_new(&table, &c, fault);
    for (size_t i = 0; e == BT_OK && i < n; i++) {
        bt_schedule_priced p;
        e = bt_schedule_price_of(&p, table, length[i], fault);
        if (e == BT_OK)
            ret[i] = (tool_plan_prompt){.ns = p.result.makespan_ns, .ops = p.ops,
                                        .bytes = p.bytes,           .rows = p.rows,
                                        .chunks = p.chunks,         .exposed_ns = p.exposed_ns};
    }
    bt_schedule_price_free(table);
    return e;
}

/* ---- steps ---- */

typedef struct walk {
    tool_plan_prompt sum;
    bt_link_queue wire;
    uint64_t first; /* tokens done */
} walk;

/* The next step of a prompt of so many tokens. */
static void advance(walk *w, const tool_plan_how *how, uint64_t tokens)
{
    const uint64_t start = w->sum.ns, left = tokens - w->first,
                   rows = how->piece && how->piece < left ? how->piece : left;
    const bt_price_step step = bt_price_prefill_step(w->first, rows);
    const bt_price_sum s = bt_price_step_of(how->profile, &how->model, &step);
    w->sum.ns = bt_time_plus(start, s.ns);
    w->sum.ops = bt_time_plus(w->sum.ops, s.ops);
    w->sum.bytes = bt_time_plus(w->sum.bytes, s.bytes);
    w->sum.rows = bt_time_plus(w->sum.rows, rows);
    w->sum.chunks++;
    bt_link_chunk(&w->wire, &how->link, start, w->sum.ns - start, how->layers,
                  bt_time_times(how->kv_bytes / how->layers, rows));
    w->first += rows;
}

static void of_steps(tool_plan_prompt *ret, const uint32_t *length, size_t n, const tool_plan_how *how)
{
    const walk none = {.sum = {.ns = bt_price_first_use(how->profile, &how->model)}};
    walk shared = none;
    for (size_t i = 0; i < n; i++) {
        while (how->piece && length[i] - shared.first > how->piece) advance(&shared, how, length[i]);
        walk w = how->piece ? shared : none;
        while (w.first < length[i]) advance(&w, how, length[i]);
        ret[i] = w.sum;
        ret[i].exposed_ns = bt_link_exposed_ns(&w.wire, w.sum.ns);
    }
}

bt_err tool_plan_prompts(tool_plan_prompt *ret, const uint32_t *length, size_t n, const tool_plan_how *how,
                         bt_fault *fault)
{
    if (how->price && n) return of_programs(ret, length, n, how, fault);
    of_steps(ret, length, n, how);
    return BT_OK;
}
