/* A decode node: its brain, and a worker that runs the real scheduler of steps (decode-node/brain/batch.h) on
 * a device whose steps take what they cost. A step is planned when it begins; commands that come meanwhile
 * wait for its end. */
#include "base/num.h"
#include "kv/kv_pages.h"
#include "simulate/inner.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)BT_DIMS_PAGE_TOKENS == (int)BT_KV_PAGES_USUAL_TOKENS, "pages of nodes");
enum { REPLAY_ROWS = 32, AHEAD_TOKENS = 32 }; /* as decode-node/worker.c */

/* `both` pages by the classes of layers. */
static bt_kv_split divide(const sim_cluster *c, const sim_member *m, uint32_t both, uint32_t least_tokens,
                          uint32_t growth_tokens)
{
    const bt_dims *d = sim_cluster_dims(c, m);
    const bt_kv_split_want want = {.both = both,
                                   .ctx_tokens = c->o.ctx_tokens,
                                   .least_tokens = least_tokens,
                                   .growth_tokens = growth_tokens,
                                   .sequences = c->o.decode_slots,
                                   .layers = d->layers,
                                   .windowed = m->kv.window ? d->windowed : 0,
                                   .window = m->kv.window,
                                   .page_tokens = c->o.dc.page_tokens};
    return bt_kv_pages_split(&want);
}

bt_err sim_cluster_decode_new(sim_cluster *c, sim_member *m, bt_fault *fault)
{
    dc_config k = c->o.dc;
    k.self = m->self;
    k.gateways = c->o.gateways;
    k.slots = c->o.decode_slots;
    k.can_prefill = c->o.can_prefill || m->group->can_prefill;
    sim_cluster_hello(c, m, &k.hello);
    m->kv = k.hello.kv;
    const uint32_t both = m->group->swap_pages ? m->group->swap_pages : k.swap_pages;
    const bt_kv_split pages = divide(c, m, m->group->pages, c->o.ctx_tokens, k.growth_tokens),
                      swap = both ? divide(c, m, both, 0, 0) : (bt_kv_split){0, 0};
    k.swap_pages = (uint32_t)swap.all;
    k.swap_window_pages = (uint32_t)swap.windows;
    k.pages_total = (uint32_t)pages.all;
    k.window_pages_total = (uint32_t)pages.windows;
    k.hello.kv_capacity_tokens = pages.all * k.page_tokens;
    memset(m->sequences, 0, k.slots * sizeof *m->sequences);
    m->commands_len = m->items_len = 0;
    m->prefilling = m->decoding = m->cancels = 0;
    m->is_stepping = m->is_turning = false;
    m->leapt = 0;
    m->late_ns = NULL;
    const bool mixes = c->o.mixes && !m->group->cost->has_programs;
    const dc_batch_config b = {.slots = k.slots,
                               .rows_max = c->o.batch_rows,
                               .replay_rows = REPLAY_ROWS,
                               .chunk_tokens = c->o.chunk_tokens,
                               .mixed_rows = mixes ? c->o.batch_rows + c->o.chunk_tokens : 0,
                               .ahead_tokens = AHEAD_TOKENS};
    dc_batch_free(m->batch);
    m->batch = NULL;
    bt_err e = dc_batch_new(&m->batch, &b, fault);
    if (e == BT_OK) e = dc_brain_new(&m->dc, &k, fault);
    if (e == BT_OK) dc_brain_set_role_may(m->dc, BT_ROLE_MAY);
    return e;
}

/* ---- the worker ---------------------------------------------------------------------------------- */

static void leave(sim_member *m, sim_sequence *s, uint32_t slot)
{
    if (s->has_joined) {
        if (s->rows < s->prompt) m->prefilling--;
        else m->decoding--;
        dc_batch_leave(m->batch, slot);
    }
    m->cancels -= s->is_cancelled;
    s->is_busy = s->has_joined = s->is_cancelled = false;
}

/* Whether the sequence has all of its tokens; then the brain learns of its end. */
static bool ends(sim_cluster *c, sim_member *m, uint32_t slot)
{
    sim_sequence *s = &m->sequences[slot];
    if (s->known < s->max) return false;
    dc_event ev = {.type = DC_EV_ENDED};
    ev.u.ended.slot = slot;
    ev.u.ended.reason = BT_FINISH_LENGTH;
    ev.u.ended.steps = s->steps;
    ev.u.ended.wait_us = (uint64_t)sim_us((s->steps ? s->first_ns : c->now_ns) - s->started_ns);
    ev.u.ended.decode_us = s->steps ? (uint64_t)sim_us(c->now_ns - s->first_ns) : 0;
    leave(m, s, slot);
    sim_cluster_decode_tell(c, m, &ev);
    return true;
}

static void take_command(sim_cluster *c, sim_member *m, const sim_command *k)
{
    sim_sequence *s = &m->sequences[k->slot];
    if (!s->is_busy) return;
    if (!k->is_start) {
        if (s->has_joined && k->capacity >= s->capacity) {
            s->capacity = k->capacity;
            dc_batch_grow(m->batch, k->slot, k->capacity);
        }
        return;
    }
    if (s->known && ends(c, m, k->slot)) return;
    s->has_joined = true;
    s->capacity = k->capacity;
    if (s->rows < s->prompt) m->prefilling++;
    else m->decoding++;
    dc_batch_join_slot(m->batch, &(dc_batch_join){.slot = k->slot, .prompt_tokens = s->prompt,
                                                  .known = s->known, .rows = s->rows,
                                                  .capacity_tokens = k->capacity, .max_tokens = s->max});
}

static void take_stops(sim_cluster *c, sim_member *m)
{
    for (uint32_t i = 0; i < c->o.decode_slots && m->cancels; i++) {
        sim_sequence *s = &m->sequences[i];
        if (!s->is_busy || !s->is_cancelled) continue;
        dc_event ev = {.type = DC_EV_STOPPED};
        ev.u.stopped.slot = i;
        ev.u.stopped.rows = s->rows;
        leave(m, s, i);
        sim_cluster_decode_tell(c, m, &ev);
    }
}

static void tell_needs(sim_cluster *c, sim_member *m)
{
    dc_event ev = {.type = DC_EV_NEED};
    while (dc_batch_needs(m->batch, &ev.u.need.slot, &ev.u.need.tokens)) {
        if (m->kv.window) sim_cluster_leap_end(c, m); /* pages that leapt tokens gave back */
        sim_cluster_decode_tell(c, m, &ev);
    }
}

/* Takes a plan over into the step. The step's outcome is known now; the brain learns of it at the step's end.
 */
static void adopt(sim_cluster *c, sim_member *m, const dc_batch_plan *plan, bt_price_step *step,
                  sim_cost_work *pieces)
{
    const sim_cost *cost = m->group->cost;
    for (uint32_t i = 0; i < plan->items_len; i++) {
        const dc_batch_item *it = &plan->items[i];
        const uint32_t made = it->out ? 1 : 0;
        const bool is_piece = i >= plan->items_len - plan->pieces;
        void *all = m->items;
        if (!sim_cluster_make_room(&all, &m->items_cap, m->items_len, sizeof *m->items)) {
            sim_cluster_break(c, BT_ENOMEM, "out of memory");
            return;
        }
        m->items = all;
        uint32_t *rank = &m->gate_items[m->sequences[it->slot].gate - sim_first_gate(c, m)];
        m->items[m->items_len++] = (sim_item){.slot = it->slot, .kept = it->count, .made = made,
                                              .rank = (*rank)++, .is_piece = is_piece};
        if (is_piece && cost->has_programs) *pieces = sim_cost_piece(cost, it->pos, it->count, it->out > 0);
        else bt_work_step_add(step, it->pos, it->count, it->out, cost->steps.model.window);
        sim_sequence *s = &m->sequences[it->slot];
        if (is_piece) sim_cluster_count_rows(c, m, s->number, it->pos, it->count);
        else m->again_rows += it->count - it->out; /* of known tokens, which another attempt made */
        if (is_piece && !s->piece_ns) pieces->ns += sim_cost_first_ns(cost);
        if (is_piece && !s->piece_ns) s->piece_ns = c->now_ns;
        if (!is_piece && s->steps++ == 0) s->first_ns = c->now_ns;
        if (s->known + made < s->max) dc_batch_ran(m->batch, it->slot, it->count, made);
        else dc_batch_leave(m->batch, it->slot);
    }
}

/* As from a paced node: its device is at the step. */
static void post_alive(sim_cluster *c, const sim_member *m)
{
    const int64_t at_ns = c->now_ns + c->o.dc.alive_us * 1000;
    if (at_ns >= m->step_end_ns || !m->group->cost->pace.milli) return;
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_ALIVE, .to = m->place, .run = (uint64_t)m->step_end_ns,
                                     .at_ns = at_ns});
}

static void tell_alive(sim_cluster *c, sim_member *m)
{
    if (dc_brain_wants_alive(m->dc, sim_us(c->now_ns)))
        sim_cluster_decode_tell(c, m, &(dc_event){.type = DC_EV_ALIVE});
}

void sim_cluster_decode_alive(sim_cluster *c, sim_member *m, const sim_event *e)
{
    if (!m->is_stepping || e->run != (uint64_t)m->step_end_ns) return;
    tell_alive(c, m);
    post_alive(c, m);
    sim_cluster_timer(c, m->place);
}

static void begin_step(sim_cluster *c, sim_member *m)
{
    bt_price_step step = {0};
    sim_cost_work work = {0}, rows = {0};
    const dc_batch_plan plan = dc_batch_next(m->batch);
    /* a piece of a prompt, or a sequence without room for a row */
    if (plan.pieces || plan.items_len != m->items_len) sim_cluster_leap_end(c, m);
    m->items_len = 0;
    memset(m->gate_items, 0, sizeof m->gate_items);
    if (plan.kind == DC_BATCH_NOTHING) return;
    adopt(c, m, &plan, &step, &work);
    if (step.rows) rows = sim_cost_step(m->group->cost, &step);
    work.ns += rows.ns;
    work.ops += rows.ops;
    work.bytes += rows.bytes;
    sim_cluster_account(m, &work);
    m->is_stepping = true;
    m->step = work;
    m->step_end_ns = c->now_ns + (int64_t)work.ns;
    post_alive(c, m);
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_STEP, .to = m->place, .at_ns = m->step_end_ns});
}

static void turn(sim_cluster *c, sim_member *m)
{
    if (m->is_stepping || m->is_turning) return;
    m->is_turning = true;
    do {
        for (size_t i = 0; i < m->commands_len; i++) {
            const sim_command k = m->commands[i]; /* commands that the brain gives in answer come behind it */
            take_command(c, m, &k);
        }
        m->commands_len = 0;
        take_stops(c, m);
        if (m->commands_len || m->cancels) continue;
        begin_step(c, m);
        tell_needs(c, m);
    } while (!m->is_stepping && (m->commands_len || m->cancels) && c->broken == BT_OK);
    m->is_turning = false;
}

void sim_cluster_decode_step(sim_cluster *c, sim_member *m, const dc_event *ev)
{
    sim_cluster_decode_tell(c, m, ev);
    if (m->commands_len || m->cancels) turn(c, m);
    sim_cluster_timer(c, m->place);
}

static void first_token(sim_cluster *c, sim_member *m, uint32_t slot)
{
    sim_sequence *s = &m->sequences[slot];
    bt_msg_first_token first = {.token = 1, .top_len = 1, .top_ids = {1},
                                .queue_us = (uint64_t)sim_us(s->piece_ns - s->started_ns),
                                .prefill_us = (uint64_t)sim_us(c->now_ns - s->piece_ns)};
    dc_event ev = {.type = DC_EV_FIRST};
    ev.u.first.slot = slot;
    ev.u.first.msg = &first;
    ev.u.first.kv_digest.bytes[0] = 1;
    s->known = 1;
    s->started_ns = c->now_ns;
    sim_cluster_decode_tell(c, m, &ev);
}

static void end_item(sim_cluster *c, sim_member *m, const sim_item *it)
{
    sim_sequence *s = &m->sequences[it->slot];
    if (!s->is_busy) return;
    const bool was_prompt = s->rows < s->prompt;
    s->rows += it->kept;
    if (was_prompt && s->rows >= s->prompt) {
        m->prefilling--;
        m->decoding++;
    }
    if (!it->made && it->is_piece) tell_alive(c, m);
    if (!it->made) return;
    if (it->is_piece) {
        first_token(c, m, it->slot);
    } else {
        s->known++;
        sim_cluster_leap_tell(c, m, (uint32_t)(it - m->items), 1);
    }
    (void)ends(c, m, it->slot);
}

void sim_cluster_decode_done(sim_cluster *c, sim_member *m)
{
    m->is_stepping = false;
    if (!sim_cluster_leap(c, m)) {
        m->is_turning = true;
        for (size_t i = 0; i < m->items_len && c->broken == BT_OK; i++) end_item(c, m, &m->items[i]);
        m->leapt = 0;
        m->is_turning = false;
    }
    turn(c, m);
    sim_cluster_timer(c, m->place);
}
