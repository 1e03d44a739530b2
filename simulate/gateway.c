/* Gateways: their brains, one thread each whose time is counted, and the caller behind them. */
#include "base/rng.h"
#include "simulate/inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A gateway takes only nodes that hold its model. */
static void set_model_id(uint8_t ret[16], uint32_t model) { memset(ret, (int)(7 + model), 16); }

const bt_dims *sim_cluster_dims(const sim_cluster *c, const sim_member *m)
{
    return m->group->dims ? m->group->dims : c->o.model;
}

static uint32_t divisor(uint32_t a, uint32_t b)
{
    while (b) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* One layer, as the brain sees it, stands for all layers of the model; with windows for equally many of one
 * class, so that a block has rows of one class alone. */
static bt_kv_shape shape_of(const sim_cluster *c, const bt_dims *d)
{
    uint32_t every = 0, together = d->layers;
    const bool has_windows = bt_dims_global_every(&every, d);
    if (has_windows) together = divisor(d->windowed, d->layers - d->windowed);
    if (c->o.is_by_layer) together = 1;
    return (bt_kv_shape){.layers = d->layers / together,
                         .kv_heads = together * d->kv_heads,
                         .head_dim = d->head_dim,
                         .dtype = bt_kv_dtype_of(c->o.kv_elem_bytes),
                         .window = has_windows ? d->window : 0,
                         .global_every = every};
}

/* One class for all nodes of a model: nodes of different devices are taken to compute by the same rule, so
 * that each can take over from any other. */
void sim_cluster_hello(const sim_cluster *c, const sim_member *m, bt_msg_hello *ret)
{
    const bt_dims *d = sim_cluster_dims(c, m);
    memset(ret, 0, sizeof *ret);
    set_model_id(ret->model_id, m->group->model);
    ret->protocol = BT_PROTOCOL_VERSION;
    ret->role = m->role;
    (void)snprintf(ret->node_id, sizeof ret->node_id, "%s", m->id);
    (void)snprintf(ret->model_name, sizeof ret->model_name, "%s", d->name);
    (void)snprintf(ret->exactness, sizeof ret->exactness, "simulated");
    ret->kv = shape_of(c, d);
    ret->ctx_tokens = c->o.ctx_tokens;
    ret->kv_capacity_tokens = (uint64_t)m->group->pages * c->o.dc.page_tokens;
    ret->pid = m->place + 1;
    if (m->role != BT_ROLE_DECODE) return;
    (void)snprintf(ret->kv_endpoint, sizeof ret->kv_endpoint, "simulated:%u", m->place);
    if (c->o.can_prefill || m->group->can_prefill)
        (void)snprintf(ret->prefill_exactness, sizeof ret->prefill_exactness, "%s", ret->exactness);
}

static bt_err begin(sim_cluster *c, sim_gate *g, uint32_t number, bt_fault *fault)
{
    gw_config k = c->o.gw;
    uint32_t nodes = 0;
    g->place = SIM_GATEWAY - number;
    g->model = number / c->o.gateways;
    g->wake_us = INT64_MAX;
    k.self = g->self = sim_cluster_incarnation(c, g->place - 1, ++c->lives);
    for (uint32_t i = 0; i < c->hosts; i++) nodes += c->members[i].group->model == g->model;
    k.nodes_max = nodes * 2 + 2; /* a node that was killed is known for a while */
    set_model_id(k.model_id, g->model);
    (void)snprintf(k.node_id, sizeof k.node_id, number ? "gateway-%u" : "gateway", number);
    const bt_err e = gw_brain_new(&g->brain, &k, fault);
    if (e < 0) return e;
    g->due_us = gw_brain_due_us(g->brain);
    sim_cluster_timer(c, g->place);
    return BT_OK;
}

bt_err sim_cluster_gateways_new(sim_cluster *c, bt_fault *fault)
{
    uint32_t models = 1;
    bt_err e = BT_OK;
    for (uint32_t i = 0; i < c->hosts; i++)
        if (c->members[i].group->model >= models) models = c->members[i].group->model + 1;
    if (c->o.gateways < 1 || c->o.gateways > SIM_CLUSTER_GATEWAYS || models > SIM_CLUSTER_MODELS)
        return bt_fail(fault, BT_EARG, "%u gateways of each of %u models: at most %d of each of %d",
                       c->o.gateways, models, SIM_CLUSTER_GATEWAYS, SIM_CLUSTER_MODELS);
    c->gates = calloc((size_t)models * c->o.gateways, sizeof *c->gates);
    if (!c->gates) return bt_fail(fault, BT_ENOMEM, "out of memory for gateways of a cluster");
    c->gates_len = models * c->o.gateways;
    for (uint32_t i = 0; e == BT_OK && i < c->gates_len; i++) e = begin(c, &c->gates[i], i, fault);
    return e;
}

void sim_cluster_gateways_free(sim_cluster *c)
{
    for (uint32_t i = 0; i < c->gates_len; i++) gw_brain_free(c->gates[i].brain);
    free(c->gates);
}

/* The last bytes of an incarnation are its place, less one. */
uint32_t sim_cluster_gate_of(const sim_cluster *c, const bt_incarnation *who)
{
    uint32_t place;
    memcpy(&place, who->bytes + 12, sizeof place);
    const uint32_t number = (uint32_t)SIM_GATEWAY - 1 - place;
    return number < c->gates_len ? number : 0;
}

uint32_t sim_cluster_waiting(const sim_cluster *c)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < c->gates_len; i++) sum += gw_brain_queued(c->gates[i].brain);
    return sum;
}

uint32_t sim_cluster_waiting_of(const sim_cluster *c, uint32_t model)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < c->gates_len; i++)
        if (c->gates[i].model == model) sum += gw_brain_queued(c->gates[i].brain);
    return sum;
}

uint32_t sim_cluster_active(const sim_cluster *c)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < c->gates_len; i++) sum += gw_brain_active(c->gates[i].brain);
    return sum;
}

uint32_t sim_cluster_gateways(const sim_cluster *c) { return c->gates_len; }

sim_cluster_gateway sim_cluster_look_gateway(const sim_cluster *c, uint32_t number)
{
    const sim_gate *g = &c->gates[number];
    return (sim_cluster_gateway){.model = g->model, .requests = g->requests, .cpu_ns = g->cpu_ns,
                                 .waiting = gw_brain_queued(g->brain), .active = gw_brain_active(g->brain)};
}

/* Tokens that the brain got late came at their own times. */
static void tokens(sim_cluster *c, const gw_event *ev, const gw_action *a)
{
    const bt_msg *m = ev->type == GW_EV_MSG && ev->u.msg->type == BT_MSG_TOKENS ? ev->u.msg : NULL;
    const int64_t *times = m ? sim_mail_times(m) : NULL;
    if (!times) {
        c->client.tokens(c->client.ud, a->request, a->u.tokens.ids_len, c->now_ns);
        return;
    }
    times += a->u.tokens.first_index - m->u.tokens.first_index;
    for (uint32_t i = 0; i < a->u.tokens.ids_len; i++)
        c->client.tokens(c->client.ud, a->request, 1, times[i]);
}

/* Notes an attempt that the step leaves. It is settled later: the brain's next step ends the actions. */
static void note_left(sim_cluster *c, uint32_t place, const bt_msg *msg)
{
    void *all = c->left;
    if (msg->type != BT_MSG_ABORT || !c->members[place].dc || c->is_settling) return;
    if (!sim_cluster_make_room(&all, &c->left_cap, c->left_len, sizeof *c->left)) {
        sim_cluster_break(c, BT_ENOMEM, "out of memory");
        return;
    }
    c->left = all;
    c->left[c->left_len++] = (sim_left){place, msg->ref.number};
}

void sim_cluster_gateway_step(sim_cluster *c, sim_gate *g, const gw_event *ev)
{
    const bt_random random = sim_cluster_random(c, ev->type == GW_EV_SUBMIT);
    const gw_actions acts = gw_brain_step(g->brain, ev, sim_us(c->now_ns), &random);
    c->events++;
    for (size_t i = 0; i < acts.len; i++) {
        const gw_action *a = &acts.items[i];
        if (a->type == GW_DO_SEND) {
            const uint32_t to = sim_cluster_place(c, &a->u.send.peer);
            if (to == UINT32_MAX) continue;
            sim_cluster_send(c, g->place, to, &a->u.send.msg, false, 0);
            note_left(c, to, &a->u.send.msg);
        } else if (a->type == GW_DO_TOKENS) {
            tokens(c, ev, a);
        } else if (a->type == GW_DO_ROLE_ANSWER) {
            sim_cluster_role_answered(c, a);
        } else if (a->type == GW_DO_DONE || a->type == GW_DO_FAIL) {
            c->ended++;
            if (c->over) c->over[a->request] = true;
            if (a->type == GW_DO_FAIL && a->u.fail.kind == GW_FAIL_OVERLOADED)
                c->choices = bt_rng_u64(c->choices ^ a->request, g->place);
            c->client.end(c->client.ud, a->request, a, c->now_ns);
        }
    }
    g->due_us = gw_brain_due_us(g->brain);
    sim_cluster_timer(c, g->place);
}
