/* Gives an event to a decode node's brain and carries its actions out, or notes them for the worker
 * (decode.c), which takes them between two steps. */
#include "simulate/inner.h"

enum { PENDING = 512, PAGE_TOKENS = 64 }; /* as decode-node/worker.c */

static void command(sim_cluster *c, sim_member *m, const sim_command *one)
{
    void *all = m->commands;
    if (!sim_cluster_make_room(&all, &m->commands_cap, m->commands_len, sizeof *one)) {
        sim_cluster_break(c, BT_ENOMEM, "out of memory");
        return;
    }
    m->commands = all;
    m->commands[m->commands_len++] = *one;
}

static void start(sim_cluster *c, sim_member *m, const dc_action *a)
{
    const uint32_t slot = a->u.start.slot;
    const bt_request_ref ref = dc_brain_ref(m->dc, slot);
    m->sequences[slot] = (sim_sequence){.is_busy = true,
                                        .prompt = a->u.start.prompt_tokens,
                                        .max = a->u.start.max_tokens,
                                        .known = a->u.start.ids_len,
                                        .rows = a->u.start.rows,
                                        .gate = sim_cluster_gate_of(c, &ref.owner),
                                        .number = ref.number,
                                        .started_ns = c->now_ns};
    command(c, m,
            &(sim_command){.slot = slot, .is_start = true,
                           .capacity = m->capacity_pages[slot] * PAGE_TOKENS});
}

static void set_pages(sim_cluster *c, sim_member *m, const dc_action *a)
{
    const uint32_t slot = a->u.set.slot;
    m->capacity_pages[slot] = a->u.set.pages_len;
    if (a->u.set.is_growth && m->sequences[slot].is_busy)
        command(c, m, &(sim_command){.slot = slot, .capacity = a->u.set.pages_len * PAGE_TOKENS});
}

static void stop(sim_member *m, uint32_t slot) /* does nothing where the sequence's end is on the way */
{
    sim_sequence *s = &m->sequences[slot];
    if (!s->is_busy || s->is_cancelled) return;
    s->is_cancelled = true;
    m->cancels++;
}

/* Whether the message carries news; TOKENS with earlier indices are a repeat. */
static bool is_late(const sim_member *m, const bt_msg *msg)
{
    return m->late_ns && msg->type == BT_MSG_TOKENS && msg->u.tokens.first_index == m->late_index &&
           msg->u.tokens.ids_len == m->late_len;
}

static const dc_action *last_tokens(const sim_member *m, const dc_actions *acts)
{
    const dc_action *last = NULL;
    for (size_t i = 0; m->late_ns && i < acts->len; i++)
        if (acts->items[i].type == DC_DO_SEND_CONTROL && acts->items[i].u.control.msg.type == BT_MSG_TOKENS)
            last = &acts->items[i];
    return last;
}

static void carry_out(sim_cluster *c, sim_member *m, const dc_action *a, const dc_action *last,
                      dc_event *next, size_t *len)
{
    uint32_t to;
    switch (a->type) {
    case DC_DO_SEND_CONTROL:
        to = sim_gates_of(c, m)[a->u.control.gateway].place;
        if (a == last && is_late(m, &a->u.control.msg))
            sim_cluster_send_late(c, m->place, to, &a->u.control.msg, m->late_ns, m->late_len);
        else sim_cluster_send(c, m->place, to, &a->u.control.msg, false, 0);
        break;
    case DC_DO_SEND_BULK:
        to = sim_cluster_place(c, &a->u.bulk.peer);
        if (to != UINT32_MAX) sim_cluster_send(c, m->place, to, &a->u.bulk.msg, true, 0);
        break;
    case DC_DO_PLACE: next[(*len)++] = (dc_event){.type = DC_EV_PLACED, .u.block = a->u.block}; break;
    case DC_DO_SET_PAGES: set_pages(c, m, a); break;
    case DC_DO_START: start(c, m, a); break;
    case DC_DO_STOP: stop(m, a->u.slot); break;
    case DC_DO_DROP:
    case DC_DO_SWAP_OUT:
    case DC_DO_SWAP_IN:
    case DC_DO_DROP_SWAP:
    case DC_DO_LOG: break;
    case DC_DO_DRAIN: sim_cluster_drains(c, m); break;
    case DC_DO_EXIT: sim_cluster_exits(c, m, a->u.next_role); break;
    }
}

void sim_cluster_decode_tell(sim_cluster *c, sim_member *m, const dc_event *ev)
{
    static dc_event pending[PENDING];
    size_t len = 1;
    pending[0] = *ev;
    for (size_t i = 0; i < len && c->broken == BT_OK; i++) {
        const bool is_reserve =
            pending[i].type == DC_EV_CONTROL && pending[i].u.control.msg->type == BT_MSG_RESERVE;
        const bt_random random = sim_cluster_random(c, is_reserve);
        const dc_actions acts = dc_brain_step(m->dc, &pending[i], sim_us(c->now_ns), &random);
        const dc_action *last = last_tokens(m, &acts);
        c->events++;
        for (size_t k = 0; k < acts.len; k++) {
            if (len >= PENDING - 1) {
                sim_cluster_break(c, BT_ELIMIT, "one event made a decode node do more than %d things",
                                  PENDING);
                return;
            }
            carry_out(c, m, &acts.items[k], last, pending, &len);
        }
    }
    m->due_us = dc_brain_due_us(m->dc);
    if (c->o.is_checked && !dc_brain_is_sound(m->dc))
        sim_cluster_break(c, BT_EFORMAT, "the count of KV pages of %s does not agree with its pages", m->id);
}
