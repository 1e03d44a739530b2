/* HELLO, WELCOME, REJECT, HEARTBEAT, BYE, ROLE, ROLE_ANSWER: fields to and from proto/control.proto, and
 * their ranges. */
#include "wire/msg_body.h"
#include "wire/msg_device.h"

#include "kv/kv_header.h"

#include <string.h>

static void put_load(Bt__Load *ret, const bt_load *l)
{
    *ret = (Bt__Load)BT__LOAD__INIT;
    ret->slots_total = l->slots_total;
    ret->slots_used = l->slots_used;
    ret->queued = l->queued;
    ret->pages_total = l->pages_total;
    ret->pages_used = l->pages_used;
    ret->pages_cached = l->pages_cached;
    ret->reservations = l->reservations;
    ret->leases = l->leases;
    ret->rss_bytes = l->rss_bytes;
    ret->device_ns = l->device_ns;
    ret->device_ideal_ns = l->device_ideal_ns;
    ret->device_nj = l->device_nj;
    ret->paced_us = l->paced_us;
    ret->late_us = l->late_us;
    ret->overtakes = l->overtakes;
    ret->window_pages_total = l->window_pages_total;
    ret->window_pages_used = l->window_pages_used;
    ret->window_pages_cached = l->window_pages_cached;
}

static void get_load(bt_msg_checker *c, bt_load *ret, const Bt__Load *l)
{
    if (!bt_msg_body_present(c, "load", l)) return;
    ret->slots_total = l->slots_total;
    ret->slots_used = l->slots_used;
    ret->queued = l->queued;
    ret->pages_total = l->pages_total;
    ret->pages_used = l->pages_used;
    ret->pages_cached = l->pages_cached;
    ret->reservations = l->reservations;
    ret->leases = l->leases;
    ret->rss_bytes = l->rss_bytes;
    ret->device_ns = l->device_ns;
    ret->device_ideal_ns = l->device_ideal_ns;
    ret->device_nj = l->device_nj;
    ret->paced_us = l->paced_us;
    ret->late_us = l->late_us;
    ret->overtakes = l->overtakes;
    ret->window_pages_total = l->window_pages_total;
    ret->window_pages_used = l->window_pages_used;
    ret->window_pages_cached = l->window_pages_cached;
}

static void put_engine(bt_msg_scratch *s, const bt_msg_engine *g)
{
    Bt__Engine *b = &s->engine;
    *b = (Bt__Engine)BT__ENGINE__INIT;
    b->name = bt_msg_body_put_text(g->name);
    b->quant = bt_msg_body_put_text(g->quant);
    b->shape_policy = bt_msg_body_put_text(g->shape_policy);
    b->profile = bt_msg_body_put_text(g->profile);
    b->n_fallbacks = g->fallbacks_len;
    b->fallbacks = s->fallback_at;
    for (uint32_t i = 0; i < g->fallbacks_len; i++) {
        s->fallback[i] = (Bt__Fallback)BT__FALLBACK__INIT;
        s->fallback[i].op = bt_msg_body_put_text(g->fallbacks[i].op);
        s->fallback[i].why = bt_msg_body_put_text(g->fallbacks[i].why);
        s->fallback[i].count = g->fallbacks[i].count;
        s->fallback_at[i] = &s->fallback[i];
    }
}

static const bt_msg_engine *get_engine(bt_msg_checker *c, const Bt__Engine *b)
{
    if (!bt_msg_body_range(c, "count of fallbacks", b->n_fallbacks, 0, BT_MSG_MAX_FALLBACKS)) return NULL;
    bt_msg_engine *g = c->alloc(c->alloc_ud, sizeof *g);
    if (!g) {
        bt_msg_body_fail(c, "no room for the engine");
        return NULL;
    }
    memset(g, 0, sizeof *g);
    bt_msg_body_get_text(c, "engine.name", g->name, sizeof g->name, b->name);
    bt_msg_body_get_text(c, "engine.quant", g->quant, sizeof g->quant, b->quant);
    bt_msg_body_get_text(c, "engine.shape_policy", g->shape_policy, sizeof g->shape_policy, b->shape_policy);
    bt_msg_body_get_text(c, "engine.profile", g->profile, sizeof g->profile, b->profile);
    g->fallbacks_len = (uint32_t)b->n_fallbacks;
    for (uint32_t i = 0; i < g->fallbacks_len; i++) {
        bt_msg_body_get_text(c, "fallback.op", g->fallbacks[i].op, sizeof g->fallbacks[i].op,
                             b->fallbacks[i]->op);
        bt_msg_body_get_text(c, "fallback.why", g->fallbacks[i].why, sizeof g->fallbacks[i].why,
                             b->fallbacks[i]->why);
        g->fallbacks[i].count = b->fallbacks[i]->count;
    }
    return g;
}

static void check_engine(bt_msg_checker *c, const bt_msg_engine *g)
{
    bt_msg_body_name(c, "engine.name", g->name, sizeof g->name);
    bt_msg_body_text(c, "engine.quant", g->quant, sizeof g->quant);
    bt_msg_body_text(c, "engine.shape_policy", g->shape_policy, sizeof g->shape_policy);
    bt_msg_body_text(c, "engine.profile", g->profile, sizeof g->profile);
    if (!bt_msg_body_range(c, "count of fallbacks", g->fallbacks_len, 0, BT_MSG_MAX_FALLBACKS)) return;
    for (uint32_t i = 0; i < g->fallbacks_len; i++) {
        bt_msg_body_name(c, "fallback.op", g->fallbacks[i].op, sizeof g->fallbacks[i].op);
        bt_msg_body_text(c, "fallback.why", g->fallbacks[i].why, sizeof g->fallbacks[i].why);
    }
}

static ProtobufCMessage *fill_hello(bt_msg_scratch *s, const bt_msg *m)
{
    const bt_msg_hello *h = &m->u.hello;
    Bt__Hello *b = &s->u.hello;
    *b = (Bt__Hello)BT__HELLO__INIT;
    s->kv = (Bt__KvShape)BT__KV_SHAPE__INIT;
    s->kv.layers = h->kv.layers;
    s->kv.kv_heads = h->kv.kv_heads;
    s->kv.head_dim = h->kv.head_dim;
    s->kv.dtype = (Bt__KvDtype)h->kv.dtype;
    s->kv.window = h->kv.window;
    s->kv.global_every = h->kv.global_every;
    put_load(&s->load, &h->load);
    b->protocol = h->protocol;
    b->role = (Bt__Role)h->role;
    b->node_id = bt_msg_body_put_text(h->node_id);
    b->model_id = bt_msg_body_put16(h->model_id);
    b->model_name = bt_msg_body_put_text(h->model_name);
    b->exactness = bt_msg_body_put_text(h->exactness);
    b->kv = &s->kv;
    b->ctx_tokens = h->ctx_tokens;
    b->kv_capacity_tokens = h->kv_capacity_tokens;
    b->kv_endpoint = bt_msg_body_put_text(h->kv_endpoint);
    b->pid = h->pid;
    b->draining = h->draining;
    b->load = &s->load;
    if (h->engine) {
        put_engine(s, h->engine);
        b->engine = &s->engine;
    }
    if (h->device) {
        bt_msg_device_put(s, h->device);
        b->device = &s->device;
    }
    b->link_epoch = h->link_epoch;
    b->short_tokens = h->short_tokens;
    b->short_slots = h->short_slots;
    b->prefill_exactness = bt_msg_body_put_text(h->prefill_exactness);
    return &b->base;
}

static void read_hello(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__Hello *b = (const Bt__Hello *)body;
    bt_msg_hello *h = &m->u.hello;
    h->protocol = b->protocol;
    h->role = (bt_role)b->role;
    bt_msg_body_get_text(c, "node_id", h->node_id, sizeof h->node_id, b->node_id);
    bt_msg_body_get16(c, "model_id", h->model_id, b->model_id);
    bt_msg_body_get_text(c, "model_name", h->model_name, sizeof h->model_name, b->model_name);
    bt_msg_body_get_text(c, "exactness", h->exactness, sizeof h->exactness, b->exactness);
    if (bt_msg_body_present(c, "kv", b->kv))
        h->kv = (bt_kv_shape){b->kv->layers, b->kv->kv_heads,    b->kv->head_dim, (bt_kv_dtype)b->kv->dtype,
                              b->kv->window, b->kv->global_every};
    h->ctx_tokens = b->ctx_tokens;
    h->kv_capacity_tokens = b->kv_capacity_tokens;
    bt_msg_body_get_text(c, "kv_endpoint", h->kv_endpoint, sizeof h->kv_endpoint, b->kv_endpoint);
    h->pid = b->pid;
    h->draining = b->draining;
    get_load(c, &h->load, b->load);
    if (b->engine) h->engine = get_engine(c, b->engine);
    if (b->device) h->device = bt_msg_device_get(c, b->device);
    h->link_epoch = b->link_epoch;
    h->short_tokens = b->short_tokens;
    h->short_slots = b->short_slots;
    bt_msg_body_get_text(c, "prefill_exactness", h->prefill_exactness, sizeof h->prefill_exactness,
                         b->prefill_exactness);
}

static void check_hello(bt_msg_checker *c, const bt_msg *m)
{
    const bt_msg_hello *h = &m->u.hello;
    bt_msg_body_range(c, "protocol", h->protocol, 1, UINT32_MAX);
    bt_msg_body_range(c, "role", h->role, BT_ROLE_PREFILL, BT_ROLE_DECODE);
    bt_msg_body_name(c, "node_id", h->node_id, sizeof h->node_id);
    bt_msg_body_text(c, "model_name", h->model_name, sizeof h->model_name);
    bt_msg_body_text(c, "exactness", h->exactness, sizeof h->exactness);
    bt_msg_body_range(c, "kv.layers", h->kv.layers, 1, BT_KV_MAX_LAYERS);
    bt_msg_body_range(c, "kv.kv_heads", h->kv.kv_heads, 1, BT_KV_MAX_HEADS);
    bt_msg_body_range(c, "kv.head_dim", h->kv.head_dim, 1, BT_KV_MAX_HEAD_DIM);
    bt_msg_body_range(c, "kv.dtype", h->kv.dtype, BT_KV_F16, BT_KV_INT8);
    bt_msg_body_range(c, "kv.window", h->kv.window, 0, BT_KV_MAX_TOKENS);
    bt_msg_body_range(c, "kv.global_every", h->kv.global_every, 0, h->kv.window ? h->kv.layers : 0);
    bt_msg_body_range(c, "ctx_tokens", h->ctx_tokens, 1, BT_KV_MAX_TOKENS);
    if (h->role == BT_ROLE_DECODE) bt_msg_body_name(c, "kv_endpoint", h->kv_endpoint, sizeof h->kv_endpoint);
    else if (h->kv_endpoint[0]) bt_msg_body_fail(c, "kv_endpoint is set by a prefill node");
    bt_msg_body_range(c, "short_tokens", h->short_tokens, 0, BT_KV_MAX_TOKENS);
    bt_msg_body_range(c, "short_slots", h->short_slots, 0, BT_MSG_MAX_SHORT_SLOTS);
    if (h->role == BT_ROLE_DECODE && (h->short_tokens || h->short_slots))
        bt_msg_body_fail(c, "short prompts are set by a decode node");
    bt_msg_body_text(c, "prefill_exactness", h->prefill_exactness, sizeof h->prefill_exactness);
    if (h->role == BT_ROLE_PREFILL && h->prefill_exactness[0])
        bt_msg_body_fail(c, "prefill_exactness is set by a prefill node");
    if (h->role == BT_ROLE_DECODE && h->engine && !h->prefill_exactness[0])
        bt_msg_body_fail(c, "engine is set by a decode node that computes no prompts");
    if (h->engine) check_engine(c, h->engine);
    if (h->device) bt_msg_device_check(c, h->device);
}

static ProtobufCMessage *fill_welcome(bt_msg_scratch *s, const bt_msg *m)
{
    s->u.welcome = (Bt__Welcome)BT__WELCOME__INIT;
    s->u.welcome.protocol = m->u.welcome.protocol;
    s->u.welcome.node_id = bt_msg_body_put_text(m->u.welcome.node_id);
    s->u.welcome.link_epoch = m->u.welcome.link_epoch;
    s->u.welcome.credit_bytes = m->u.welcome.credit_bytes;
    return &s->u.welcome.base;
}

static void read_welcome(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__Welcome *b = (const Bt__Welcome *)body;
    m->u.welcome.protocol = b->protocol;
    bt_msg_body_get_text(c, "node_id", m->u.welcome.node_id, sizeof m->u.welcome.node_id, b->node_id);
    m->u.welcome.link_epoch = b->link_epoch;
    m->u.welcome.credit_bytes = b->credit_bytes;
}

static void check_welcome(bt_msg_checker *c, const bt_msg *m)
{
    bt_msg_body_range(c, "protocol", m->u.welcome.protocol, 1, UINT32_MAX);
    bt_msg_body_name(c, "node_id", m->u.welcome.node_id, sizeof m->u.welcome.node_id);
}

static ProtobufCMessage *fill_reject(bt_msg_scratch *s, const bt_msg *m)
{
    s->u.reject = (Bt__Reject)BT__REJECT__INIT;
    s->u.reject.code = m->u.reject.code;
    s->u.reject.text = bt_msg_body_put_text(m->u.reject.text);
    return &s->u.reject.base;
}

static void read_reject(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__Reject *b = (const Bt__Reject *)body;
    m->u.reject.code = b->code;
    bt_msg_body_get_text(c, "text", m->u.reject.text, sizeof m->u.reject.text, b->text);
}

static void check_reject(bt_msg_checker *c, const bt_msg *m)
{
    bt_msg_body_code(c, m->u.reject.code);
    bt_msg_body_text(c, "text", m->u.reject.text, sizeof m->u.reject.text);
}

static ProtobufCMessage *fill_heartbeat(bt_msg_scratch *s, const bt_msg *m)
{
    s->u.heartbeat = (Bt__Heartbeat)BT__HEARTBEAT__INIT;
    put_load(&s->load, &m->u.heartbeat.load);
    s->u.heartbeat.load = &s->load;
    s->u.heartbeat.draining = m->u.heartbeat.draining;
    return &s->u.heartbeat.base;
}

static void read_heartbeat(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__Heartbeat *b = (const Bt__Heartbeat *)body;
    get_load(c, &m->u.heartbeat.load, b->load);
    m->u.heartbeat.draining = b->draining;
}

static ProtobufCMessage *fill_bye(bt_msg_scratch *s, const bt_msg *m)
{
    s->u.bye = (Bt__Bye)BT__BYE__INIT;
    s->u.bye.text = bt_msg_body_put_text(m->u.bye.text);
    return &s->u.bye.base;
}

static void read_bye(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    bt_msg_body_get_text(c, "text", m->u.bye.text, sizeof m->u.bye.text, ((const Bt__Bye *)body)->text);
}

static void check_bye(bt_msg_checker *c, const bt_msg *m)
{
    bt_msg_body_text(c, "text", m->u.bye.text, sizeof m->u.bye.text);
}

static ProtobufCMessage *fill_role(bt_msg_scratch *s, const bt_msg *m)
{
    s->u.role = (Bt__RoleChange)BT__ROLE_CHANGE__INIT;
    s->u.role.role = (Bt__Role)m->u.role.role;
    return &s->u.role.base;
}

static void read_role(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    (void)c;
    m->u.role.role = (bt_role)((const Bt__RoleChange *)body)->role;
}

static void check_role(bt_msg_checker *c, const bt_msg *m)
{
    bt_msg_body_range(c, "role", m->u.role.role, BT_ROLE_PREFILL, BT_ROLE_DECODE);
}

static ProtobufCMessage *fill_role_answer(bt_msg_scratch *s, const bt_msg *m)
{
    s->u.role_answer = (Bt__RoleAnswer)BT__ROLE_ANSWER__INIT;
    s->u.role_answer.role = (Bt__Role)m->u.role_answer.role;
    s->u.role_answer.code = m->u.role_answer.code;
    s->u.role_answer.text = bt_msg_body_put_text(m->u.role_answer.text);
    return &s->u.role_answer.base;
}

static void read_role_answer(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__RoleAnswer *b = (const Bt__RoleAnswer *)body;
    bt_msg_role_answer *a = &m->u.role_answer;
    a->role = (bt_role)b->role;
    a->code = b->code;
    bt_msg_body_get_text(c, "text", a->text, sizeof a->text, b->text);
}

static void check_role_answer(bt_msg_checker *c, const bt_msg *m)
{
    const bt_msg_role_answer *a = &m->u.role_answer;
    bt_msg_body_range(c, "role", a->role, BT_ROLE_PREFILL, BT_ROLE_DECODE);
    if (a->code != 0) bt_msg_body_code(c, a->code);
    bt_msg_body_text(c, "text", a->text, sizeof a->text);
}

const bt_msg_kind bt_msg_link_kinds[BT_MSG_LINK_KINDS] = {
    {BT_MSG_HELLO, "HELLO", BT_MSG_SMALL_BODY_BYTES, false, &bt__hello__descriptor, fill_hello, read_hello,
     check_hello},
    {BT_MSG_WELCOME, "WELCOME", BT_MSG_SMALL_BODY_BYTES, false, &bt__welcome__descriptor, fill_welcome,
     read_welcome, check_welcome},
    {BT_MSG_REJECT, "REJECT", BT_MSG_SMALL_BODY_BYTES, false, &bt__reject__descriptor, fill_reject,
     read_reject, check_reject},
    {BT_MSG_HEARTBEAT, "HEARTBEAT", BT_MSG_SMALL_BODY_BYTES, false, &bt__heartbeat__descriptor,
     fill_heartbeat, read_heartbeat, NULL},
    {BT_MSG_BYE, "BYE", BT_MSG_SMALL_BODY_BYTES, false, &bt__bye__descriptor, fill_bye, read_bye, check_bye},
    {BT_MSG_ROLE, "ROLE", BT_MSG_SMALL_BODY_BYTES, false, &bt__role_change__descriptor, fill_role, read_role,
     check_role},
    {BT_MSG_ROLE_ANSWER, "ROLE_ANSWER", BT_MSG_SMALL_BODY_BYTES, false, &bt__role_answer__descriptor,
     fill_role_answer, read_role_answer, check_role_answer},
};
