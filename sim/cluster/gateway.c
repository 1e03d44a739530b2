/* The gateway: its brain, one thread whose time is counted, and the caller behind it. */
#include "sim/cluster/inner.h"

#include <stdio.h>
#include <string.h>

static const uint8_t model_id[16] = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};

/* One class for all: nodes of different devices are taken to compute by the same rule, so that each can take
 * over from any other. A layer of the brain's is all of the model's together. */
void sim_cluster_hello(const sim_cluster *c, const sim_member *m, bt_msg_hello *ret)
{
    const bt_dims *d = c->o.model;
    memset(ret, 0, sizeof *ret);
    memcpy(ret->model_id, model_id, sizeof model_id);
    ret->protocol = BT_PROTOCOL_VERSION;
    ret->role = m->role;
    (void)snprintf(ret->node_id, sizeof ret->node_id, "%s", m->id);
    (void)snprintf(ret->model_name, sizeof ret->model_name, "%s", d->name);
    (void)snprintf(ret->exactness, sizeof ret->exactness, "simulated");
    ret->kv = (bt_kv_shape){1, d->layers * d->kv_heads, d->head_dim, bt_kv_dtype_of(c->o.kv_elem_bytes)};
    ret->ctx_tokens = c->o.ctx_tokens;
    ret->kv_capacity_tokens = (uint64_t)m->group->pages * c->o.dc.page_tokens;
    ret->pid = m->place + 1;
    if (m->role != BT_ROLE_DECODE) return;
    (void)snprintf(ret->kv_endpoint, sizeof ret->kv_endpoint, "simulated:%u", m->place);
    if (c->o.can_prefill)
        (void)snprintf(ret->prefill_exactness, sizeof ret->prefill_exactness, "%s", ret->exactness);
}

bt_err sim_cluster_gateway_new(sim_cluster *c, bt_fault *fault)
{
    gw_config k = c->o.gw;
    k.self = c->gw_self;
    k.nodes_max = c->hosts * 2 + 2; /* a node that was killed is known for a while */
    memcpy(k.model_id, model_id, sizeof model_id);
    (void)snprintf(k.node_id, sizeof k.node_id, "gateway");
    const bt_err e = gw_brain_new(&c->gw, &k, fault);
    if (e < 0) return e;
    c->gw_due_us = gw_brain_due_us(c->gw);
    sim_cluster_timer(c, SIM_GATEWAY);
    return BT_OK;
}

/* Those that were told late came at their own times. */
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

void sim_cluster_gateway_step(sim_cluster *c, const gw_event *ev)
{
    const bt_random random = sim_cluster_random(c, ev->type == GW_EV_SUBMIT);
    const gw_actions acts = gw_brain_step(c->gw, ev, sim_us(c->now_ns), &random);
    c->events++;
    for (size_t i = 0; i < acts.len; i++) {
        const gw_action *a = &acts.items[i];
        if (a->type == GW_DO_SEND) {
            const uint32_t to = sim_cluster_place(c, &a->u.send.peer);
            if (to != UINT32_MAX) sim_cluster_send(c, SIM_GATEWAY, to, &a->u.send.msg, false, 0);
        } else if (a->type == GW_DO_TOKENS) {
            tokens(c, ev, a);
        } else if (a->type == GW_DO_ROLE_ANSWER) {
            sim_cluster_role_answered(c, a);
        } else if (a->type == GW_DO_DONE || a->type == GW_DO_FAIL) {
            c->ended++;
            c->client.end(c->client.ud, a->request, a, c->now_ns);
        }
    }
    c->gw_due_us = gw_brain_due_us(c->gw);
    sim_cluster_timer(c, SIM_GATEWAY);
}
