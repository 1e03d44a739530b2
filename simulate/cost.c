/* The programs and steps that a node runs, and what they take. See cost.h. */
#include "simulate/cost.h"
#include "device/time.h"

#include <inttypes.h>

enum { KEPT_TENTHS = 9 };

bt_err sim_cost_begin(sim_cost *ret, const sim_cost_options *o, bt_fault *fault)
{
    const bt_profile *p = o->profile;
    const uint32_t kv_bits = o->kv_elem_bytes * 8;
    const bt_price_kv kv = {.elem_bytes = o->kv_elem_bytes,
                            .head_bytes = o->kv_elem_bytes == 1 && !o->is_kv_fp8 ? 2 : 0};
    const bt_price_recipe steps = {.weight_bits = o->weight_bits,
                                   .input_bits = o->is_float ? o->weight_bits : 16, .kv_elem_bits = kv_bits,
                                   .weight_bytes_permille = o->weight_permille, .is_float = o->is_float};
    sim_cost c = {.pace = o->pace, .has_programs = sim_cost_has_programs(p), .layers = o->model->layers,
                  .shapes = *o->shapes, .runs_alone = o->runs_alone};
    bt_err e = bt_price_need_time(p, fault);
    if (e < 0) return e;
    c.profile = *p;
    if (c.has_programs) c.programs = *o->programs;
    bt_price_model model = bt_price_model_of(o->model, &steps);
    c.first_ns = c.has_programs ? c.programs.chunk(c.programs.ud, 0, 0, 1, false).lead_ns
                                : bt_price_first_use(p, &model);
    c.kv_bytes = bt_price_kv_bytes(&kv, o->model);
    model.kv_bytes = c.kv_bytes;
    c.steps = bt_price_steps_of(p, &model);
    const uint64_t idle = c.has_programs && o->is_prefill ? 0 : model.idle_bytes;
    c.weight_bytes = bt_time_plus(model.weight_bytes, idle);
    if (c.has_programs && o->program_bytes > c.weight_bytes) c.weight_bytes = o->program_bytes;
    c.memory_bytes = bt_time_times(p->memory_bytes, bt_profile_devices(&p->time));
    const bt_price_model held = {.weight_bytes = c.weight_bytes};
    if ((e = bt_price_check_memory(p, &held, o->model->name, fault)) < 0) return e;
    *ret = c;
    return BT_OK;
}

static void add(sim_cost_work *to, const bt_price_sum *s)
{
    to->ns = bt_time_plus(to->ns, s->ns);
    to->ops = bt_time_plus(to->ops, s->ops);
    to->bytes = bt_time_plus(to->bytes, s->bytes);
}

/* A priced sum, as the draw has it. */
static bt_price_sum drawn(const sim_cost *c, bt_price_sum s)
{
    const uint64_t was = s.ns;
    if (!c->is_drawn || !was) return s;
    s.ns = bt_forecast_ns(&c->draw, s.term_ns);
    s.lead_ns = bt_time_scale(s.lead_ns, s.ns, was);
    s.tail_ns = bt_time_scale(s.tail_ns, s.ns, was);
    if (s.tail_ns > s.ns) s.tail_ns = s.ns; /* each is rounded up */
    return s;
}

/* First use is mostly reading weights. */
static uint64_t first_of(const sim_cost *c)
{
    return c->is_drawn ? bt_time_scale(c->first_ns, c->draw.permille[BT_TERM_PRODUCTS], 1000) : c->first_ns;
}

uint64_t sim_cost_played_permille(const sim_cost *c, uint32_t first, uint32_t end)
{
    const bt_work_programs *g = &c->programs;
    uint64_t was = 0, is = 0;
    for (uint64_t begin = first; c->is_drawn && begin < end;) {
        const bt_price_sum sum = g->chunk(g->ud, first, begin, end, true);
        was = bt_time_plus(was, sum.ns);
        is = bt_time_plus(is, drawn(c, sum).ns);
        begin += g->cut(g->ud, begin, end).valid;
    }
    return was ? bt_time_scale(is, 1000, was) : 1000;
}

static sim_cost_work step_of(const sim_cost *c, const bt_price_step *s)
{
    sim_cost_work w = {0};
    const bt_price_sum sum = drawn(c, bt_price_step_at(&c->steps, s));
    add(&w, &sum);
    return w;
}

uint64_t sim_cost_paced_ns(const sim_cost *c, uint64_t ns)
{
    return c->pace.milli ? bt_time_scale(ns, c->pace.milli, 1000) : ns;
}

static sim_cost_work paced(const sim_cost *c, sim_cost_work w)
{
    w.ns = sim_cost_paced_ns(c, w.ns);
    return w;
}

sim_cost_work sim_cost_step(const sim_cost *c, const bt_price_step *s) { return paced(c, step_of(c, s)); }

uint64_t sim_cost_first_ns(const sim_cost *c) { return sim_cost_paced_ns(c, first_of(c)); }

uint64_t sim_cost_device_ns(const sim_cost *c, uint64_t ns)
{
    return c->pace.milli ? bt_time_scale(ns, 1000, c->pace.milli) : ns;
}

/* By the sum of a chunk of programs. */
static void add_sum(sim_cost_chunk *r, const bt_price_sum *sum)
{
    add(&r->work, sum);
    r->lead_ns = sum->lead_ns;
    r->end_ns = sum->ns - sum->tail_ns;
}

/* The next chunk of a prompt whose rows from `first` to `end` are computed in this go; it ends there, or more
 * follows.
 */
static sim_cost_chunk chunk_of(const sim_cost *c, uint32_t first, uint32_t end, uint32_t begin, bool ends)
{
    const bt_work_programs *g = &c->programs;
    const bt_shapes_chunk next = bt_shapes_next(&c->shapes, end, begin);
    sim_cost_chunk r = {.valid = (uint32_t)next.valid, .rows = (uint32_t)next.rows};
    bt_price_step s = {0};
    if (c->has_programs) {
        const bt_price_sum sum = drawn(c, g->chunk(g->ud, first, begin, end, ends));
        add_sum(&r, &sum);
        return r;
    }
    r.rows = r.valid;
    r.lead_ns = begin == first ? first_of(c) : 0;
    bt_work_step_add(&s, begin, r.valid, ends && begin + r.valid == end, c->steps.model.window);
    r.work = step_of(c, &s);
    r.work.ns = r.end_ns = bt_time_plus(r.work.ns, r.lead_ns);
    return r;
}

sim_cost_chunk sim_cost_next(const sim_cost *c, uint32_t prompt, uint32_t begin, bool is_first)
{
    sim_cost_chunk k = chunk_of(c, is_first ? begin : UINT32_MAX, prompt, begin, true);
    k.work = paced(c, k.work);
    k.lead_ns = sim_cost_paced_ns(c, k.lead_ns);
    k.end_ns = sim_cost_paced_ns(c, k.end_ns);
    return k;
}

/* Priced as bt_work_of_prompts prices a batch. */
sim_cost_chunk sim_cost_batch(const sim_cost *c, const uint32_t *begin, const uint32_t *end, uint32_t n)
{
    const bt_work_programs *g = &c->programs;
    bt_price_step s = {0};
    bt_price_batch batch = {0};
    uint64_t rows = 0, before = 0;
    const uint32_t window = c->steps.model.window;
    sim_cost_chunk r = {.lead_ns = first_of(c)};
    for (uint32_t i = 0; i < n; i++) {
        bt_price_batch_add(&batch, begin[i], end[i] - begin[i], window);
        rows += end[i] - begin[i];
        before += (uint64_t)(end[i] - begin[i]) * begin[i];
        bt_work_step_add(&s, begin[i], end[i] - begin[i], 1, window);
    }
    before = rows ? (before + rows - 1) / rows : 0;
    r.valid = r.rows = (uint32_t)rows;
    if (!c->has_programs) {
        r.work = step_of(c, &s);
        r.work.ns = r.end_ns = bt_time_plus(r.work.ns, r.lead_ns);
        return r;
    }
    r.rows = (uint32_t)bt_shapes_next(&c->shapes, before + rows, before).rows;
    const bt_price_sum sum = drawn(c, g->batch(g->ud, r.rows, &batch, true, n));
    add_sum(&r, &sum);
    return r;
}

uint32_t sim_cost_share_tokens(const sim_cost *c, uint32_t wanted)
{
    const uint32_t longest = c->shapes.shape[c->shapes.shapes - 1].seq;
    return c->pace.milli || c->runs_alone ? 0 : wanted < longest ? wanted : longest;
}

sim_cost_work sim_cost_piece(const sim_cost *c, uint32_t begin, uint32_t count, bool is_last)
{
    sim_cost_work w = {0};
    for (uint32_t at = begin; at < begin + count;) {
        const sim_cost_chunk k = chunk_of(c, UINT32_MAX, begin + count, at, is_last);
        const bt_price_sum one = {.ns = k.work.ns, .ops = k.work.ops, .bytes = k.work.bytes};
        add(&w, &one);
        at += k.valid;
    }
    return paced(c, w);
}

uint32_t sim_cost_pages(const sim_cost *c, uint64_t bytes, uint32_t page_tokens)
{
    const uint64_t page =
        bt_price_kv_held(&c->profile.time, c->steps.model.kv_heads, c->kv_bytes) * page_tokens;
    if (!bytes && c->memory_bytes) bytes = (c->memory_bytes - c->weight_bytes) / 10 * KEPT_TENTHS;
    const uint64_t pages = bytes / page;
    return pages > UINT32_MAX ? UINT32_MAX : (uint32_t)pages;
}
