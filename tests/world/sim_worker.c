/* The worker of a simulated decode node: the real scheduler of steps (decode-node/brain/batch.h) over toy
 * rows. One step of all sequences, one piece of a prefill, or with `mixes` both, takes STEP_US. Drafts are
 * guesses, right more often than not. A STOP is seen before a step or one step later. */
#include "tests/world/sim_node.h"

#include <string.h>

enum { STEP_US = 1000, DRAFTS = 3, REPLAY_ROWS = 8, CHUNK_TOKENS = 32, ROWS_MAX = 8 };

bt_err sim_worker_new(dc_batch **ret, const sim_options *o)
{
    const dc_batch_config c = {.slots = o->slots,
                               .rows_max = ROWS_MAX,
                               .replay_rows = REPLAY_ROWS,
                               .chunk_tokens = CHUNK_TOKENS,
                               .mixed_rows = o->mixes ? CHUNK_TOKENS : 0,
                               .ahead_tokens = o->page_tokens / 4};
    return dc_batch_new(ret, &c, NULL);
}

void sim_worker_wake(sim_world *w, uint32_t self)
{
    sim_process *p = &w->processes[self];
    if (p->is_stepping) return;
    p->is_stepping = true;
    sim_item it = {.at_us = w->now_us + STEP_US, .kind = SIM_DECODE_WORK, .to = self, .life = p->life};
    (void)sim_net_post(w->net, &it);
}

void sim_worker_start(sim_world *w, uint32_t self, const dc_action *a)
{
    sim_process *p = &w->processes[self];
    sim_run *r = &p->runs[a->u.start.slot];
    const uint32_t prompt = a->u.start.prompt_tokens,
                   capacity = sim_pages_capacity(p->pages, a->u.start.slot);
    if (r->is_busy || a->u.start.rows > capacity || prompt > capacity) {
        sim_broken(w, "START on a busy decode slot, or without its pages");
        return;
    }
    if (!w->o.is_bare && !sim_pages_are_of_salt(p->pages, a->u.start.slot, a->u.start.rows)) {
        sim_broken(w, "decode node %u: a prompt has rows of a prompt of another salt", self);
        return;
    }
    if (a->u.start.rows < prompt && !w->o.can_prefill) {
        sim_broken(w, "START without a prompt's rows where nobody can make them");
        return;
    }
    r->is_busy = true;
    r->is_cancelled = false;
    r->sampling = a->u.start.sampling;
    r->prompt_tokens = prompt;
    r->max_tokens = a->u.start.max_tokens;
    r->rows = a->u.start.rows;
    r->known = a->u.start.ids_len;
    memcpy(r->ids, a->u.start.ids, r->known * sizeof *r->ids);
    if (r->rows < prompt) sim_toy_prefixes(r->hashes, a->u.start.prompt, prompt, sim_rule_of(w, self));
    dc_batch_join_slot(p->batch, &(dc_batch_join){.slot = a->u.start.slot, .prompt_tokens = prompt,
                                                  .known = r->known, .rows = r->rows,
                                                  .capacity_tokens = capacity, .max_tokens = r->max_tokens});
    sim_worker_wake(w, self);
}

void sim_worker_grow(sim_world *w, uint32_t self, uint32_t slot)
{
    sim_process *p = &w->processes[self];
    if (!p->runs[slot].is_busy) return;
    dc_batch_grow(p->batch, slot, sim_pages_capacity(p->pages, slot));
    sim_worker_wake(w, self);
}

static dc_event *tell(sim_told *t, dc_event_type type)
{
    t->ev[t->len] = (dc_event){.type = type};
    return &t->ev[t->len++];
}

static void leave(sim_process *p, uint32_t slot)
{
    dc_batch_leave(p->batch, slot);
    p->runs[slot].is_busy = false;
}

/* Whether the last known token ends it; then ENDED is told. */
static bool ends(sim_process *p, sim_told *t, uint32_t slot)
{
    const sim_run *r = &p->runs[slot];
    const bool is_stop = r->ids[r->known - 1] == SIM_TOY_STOP;
    if (!is_stop && r->known < r->max_tokens) return false;
    leave(p, slot);
    dc_event *ev = tell(t, DC_EV_ENDED);
    ev->u.ended.slot = slot;
    ev->u.ended.reason = is_stop ? BT_FINISH_STOP : BT_FINISH_LENGTH;
    ev->u.ended.steps = r->known - 1;
    return true;
}

static void write_row(sim_world *w, sim_process *p, uint32_t slot, uint32_t layer, uint32_t pos,
                      const uint8_t *row)
{
    if (!sim_pages_write(p->pages, slot, layer, pos, row))
        sim_broken(w, "a decode slot writes a page that another has too, or a row that is gone");
}

static void prefill(sim_world *w, sim_process *p, sim_told *t, const dc_batch_item *it)
{
    sim_run *r = &p->runs[it->slot];
    uint8_t row[SIM_TOY_ROW_BYTES];
    for (uint32_t pos = it->pos; pos < it->pos + it->count; pos++) {
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++) {
            sim_toy_body(row, r->hashes, l, pos, 1);
            write_row(w, p, it->slot, l, pos, row);
        }
    }
    r->rows += it->count;
    if (it->out) {
        bt_msg_first_token *first = &t->first[t->firsts++];
        *first =
            (bt_msg_first_token){.token = sim_toy_first(r->hashes[r->prompt_tokens - 1], r->sampling.seed),
                                 .prefill_us = 1, .top_len = 1};
        first->top_ids[0] = first->token;
        r->ids[0] = first->token;
        r->known = 1;
        dc_event *ev = tell(t, DC_EV_FIRST);
        ev->u.first.slot = it->slot;
        ev->u.first.msg = first;
        ev->u.first.kv_digest.bytes[0] = 1;
        if (ends(p, t, it->slot)) return;
    }
    dc_batch_ran(p->batch, it->slot, it->count, it->out);
}

/* The rows of one sequence, and the tokens that they make, as decode-node/worker.c does it. */
static void step(sim_world *w, sim_process *p, sim_told *t, const dc_batch_item *it)
{
    sim_run *r = &p->runs[it->slot];
    /* of what lies there, whoever wrote it */
    uint64_t digest = sim_pages_digest(p->pages, it->slot, it->pos);
    static const uint8_t wrong[SIM_TOY_ROW_BYTES] = {0xdd, 0xdd, 0xdd, 0xdd, 0xdd, 0xdd, 0xdd, 0xdd};
    uint32_t made = 0;
    for (uint32_t i = 0; i < it->count; i++) {
        const uint32_t pos = it->pos + i, index = pos - r->prompt_tokens + 1;
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++) {
            uint8_t row[SIM_TOY_ROW_BYTES];
            sim_toy_row(row, digest, r->ids[index - 1], l);
            write_row(w, p, it->slot, l, pos, row);
        }
        digest = sim_pages_digest(p->pages, it->slot, pos + 1);
        if (i + it->out < it->count) continue;
        r->ids[index] = sim_toy_next(digest, index, r->sampling.seed);
        made++;
        if (i + 1 == it->count || sim_net_draw(w->net) % 4) continue;
        for (uint32_t k = i + 1; k < it->count; k++) /* the next draft is wrong: its row, and those after it,
                                                        are of no use */
            for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++) write_row(w, p, it->slot, l, it->pos + k, wrong);
        break;
    }
    const uint32_t kept = it->count - it->drafts + (made ? made - 1 : 0);
    r->rows += kept;
    for (uint32_t i = 0; i < made; i++) {
        dc_event *ev = tell(t, DC_EV_TOKEN);
        ev->u.token.slot = it->slot;
        ev->u.token.index = r->known;
        ev->u.token.id = r->ids[r->known++];
        if (ends(p, t, it->slot)) return;
    }
    dc_batch_ran(p->batch, it->slot, kept, made);
}

void sim_worker_turn(sim_told *t, sim_world *w, uint32_t self)
{
    sim_process *p = &w->processes[self];
    bool again = false;
    t->len = t->firsts = 0;
    p->is_stepping = false;
    for (uint32_t i = 0; i < w->o.slots; i++) {
        if (!p->runs[i].is_busy || !p->runs[i].is_cancelled) continue;
        again = true;
        if (sim_net_chance(w->net) < 0.5) continue;
        leave(p, i);
        dc_event *ev = tell(t, DC_EV_STOPPED);
        ev->u.stopped.slot = i;
        ev->u.stopped.rows = p->runs[i].rows;
    }
    for (uint32_t i = 0; i < w->o.slots; i++)
        if (p->runs[i].is_busy && dc_batch_takes_drafts(p->batch, i))
            dc_batch_offer(p->batch, i, (uint32_t)(sim_net_draw(w->net) % (DRAFTS + 1)));
    const dc_batch_plan plan = dc_batch_next(p->batch);
    for (uint32_t i = 0; i < plan.items_len; i++) {
        if (i >= plan.items_len - plan.pieces) prefill(w, p, t, &plan.items[i]);
        else step(w, p, t, &plan.items[i]);
    }
    uint32_t slot, tokens;
    while (dc_batch_needs(p->batch, &slot, &tokens)) {
        dc_event *ev = tell(t, DC_EV_NEED);
        ev->u.need.slot = slot;
        ev->u.need.tokens = tokens;
    }
    if (again || plan.kind != DC_BATCH_NOTHING) sim_worker_wake(w, self);
}
