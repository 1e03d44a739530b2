/* The float executor: which operands of a program's step go to which operator of the companion. What a step
 * computes is decided by the program alone. */
#include "graph/host.h"

#include <math.h>
#include <stdlib.h>

_Static_assert((int)BT_COMPANION_MAX_GROUP >= (int)BT_BIND_MAX_GROUP, "a group of linears runs as one");

struct bt_host {
    const bt_packed *packed;
    const bt_hparams *hp;
    bt_companion companion;
    float attn_scale;
    bt_host_rotations rotations;
};

bt_err bt_host_new(bt_host **ret, const bt_packed *packed, const bt_host_rotations *rotations,
                   const bt_kernels *kernels, bt_pool *pool, bt_fault *fault)
{
    bt_host *h = calloc(1, sizeof *h);
    if (!h) return bt_fail(fault, BT_ENOMEM, "making an executor");
    h->packed = packed;
    h->hp = &bt_packed_model(packed)->hp;
    if (rotations) h->rotations = *rotations;
    const size_t e1 = bt_companion_rotation_elems(&h->rotations.r1),
                 e2 = bt_companion_rotation_elems(&h->rotations.r2);
    const bt_companion_sizes sizes = {.heads = h->hp->heads,
                                      .kv_heads = h->hp->kv_heads,
                                      .head_dim = h->hp->head_dim,
                                      .runs = 64,
                                      .ctx_tokens = bt_packed_ctx_tokens(packed),
                                      .rotate_elems = e1 > e2 ? e1 : e2};
    const bt_err e = bt_companion_init(&h->companion, kernels, pool, &sizes, fault);
    if (e < 0) {
        free(h);
        return e;
    }
    h->attn_scale = 1.0f / sqrtf((float)h->hp->head_dim);
    *ret = h;
    return BT_OK;
}

void bt_host_free(bt_host *h)
{
    if (!h) return;
    bt_companion_done(&h->companion);
    free(h);
}

/* NULL for what is not in the arena. Programs that run here are bound: offsets are numbers. */
static float *at(void *arena, bt_extent offset)
{
    return bt_bind_is_nowhere(offset) ? NULL : (float *)(void *)((uint8_t *)arena + offset.fixed);
}

static void embed_row(float *y, const void *table, size_t id) { bt_model_row_f32(y, table, id); }

static const bt_companion_rotation *rotation_of(const bt_host *h, uint32_t layer)
{
    return layer == BT_GRAPH_NO_LAYER ? &h->rotations.r1 : &h->rotations.r2;
}

/* A group of linear steps over one input. Logits leave the arena: real rows only. */
static void run_linear(const bt_host *h, const bt_program *prog, const bt_step *s, const bt_host_io *io,
                       void *arena)
{
    bt_companion_matrix m[BT_BIND_MAX_GROUP];
    const float *x = at(arena, s->in_at[0]);
    const size_t k = s->in_width[0], t = prog->batch * s->rows;
    for (uint32_t g = 0; g < s->group; g++) {
        const bt_packed_matrix *w = bt_packed_matrix_of(h->packed, s[g].layer, s[g].weight);
        float *y = bt_bind_is_nowhere(s[g].out_at) ? io->logits : at(arena, s[g].out_at);
        m[g] = (bt_companion_matrix){.y = y, .panels = w->panels, .bias = w->bias, .n = w->n};
    }
    if (!bt_bind_is_nowhere(s->out_at) || s->rows == 1) {
        bt_companion_linear(&h->companion, m, s->group, x, t, k);
        return;
    }
    for (size_t b = 0; b < prog->batch; b++) {
        m[0].y = io->logits + b * s->rows * s->out_width;
        bt_companion_linear(&h->companion, m, 1, x + b * s->rows * k, io->seq[b].valid, k);
    }
}

static void run_step(const bt_host *h, const bt_program *prog, const bt_step *s, const bt_host_io *io,
                     void *arena)
{
    const bt_companion *c = &h->companion;
    const bt_hparams *hp = h->hp;
    const bt_companion_rows rows = {io->seq, prog->batch, prog->seq};
    const size_t t = prog->batch * s->rows, width = s->out_width;
    const float *in0 = at(arena, s->in_at[0]);
    const float *in1 = at(arena, s->in_at[1]);
    float *out = at(arena, s->out_at);
    switch (s->kind) {
    case BT_OP_EMBED:
        bt_companion_embed(c, &rows, out, width, io->ids, embed_row, bt_packed_model(h->packed)->embed,
                           io->pad);
        break;
    case BT_OP_RMSNORM:
        bt_companion_rmsnorm(c, out, in0, bt_packed_vector_of(h->packed, s->layer, s->weight), hp->rms_eps, t,
                             width);
        break;
    case BT_OP_LINEAR: run_linear(h, prog, s, io, arena); break;
    case BT_OP_QK_NORM:
        bt_companion_qk_norm(c, out, bt_packed_vector_of(h->packed, s->layer, s->weight), hp->rms_eps, t, s->heads,
                             hp->head_dim);
        break;
    case BT_OP_ROPE:
        bt_companion_rope(c, &rows, out, s->heads, hp->head_dim, hp->rope_dims,
                          bt_packed_rope_cos(h->packed, 0), bt_packed_rope_sin(h->packed, 0), hp->rope_neox);
        break;
    case BT_OP_KV_STORE: bt_companion_kv_store(c, &rows, s->layer, in0, in1, s->in_width[0]); break;
    case BT_OP_ATTENTION:
        bt_companion_attention(c, &rows, out, in0, s->layer, hp->heads, hp->kv_heads, hp->head_dim,
                               h->attn_scale);
        break;
    case BT_OP_ADD: bt_companion_add(c, out, in1, t, width); break;
    case BT_OP_SILU_MUL: bt_companion_silu_mul(c, out, in1, t, width); break;
    case BT_OP_SELECT_ROWS: bt_companion_select_rows(c, &rows, s->rows, out, in0, width); break;
    case BT_OP_ROTATE: bt_companion_rotate(c, out, t, s->heads, rotation_of(h, s->layer)); break;
    case BT_OP_KINDS: break;
    }
}

static bt_err check(const bt_host *h, const bt_program *prog, const bt_host_io *io, bt_fault *fault)
{
    const bt_hparams *hp = h->hp;
    if (!prog->batch) return bt_fail(fault, BT_EARG, "the program's batch is not bound");
    if (prog->out && !io->logits)
        return bt_fail(fault, BT_EARG, "the program gives logits, and there is no room for them");
    for (size_t i = 0; i < prog->steps; i++) {
        const bt_step *s = &prog->step[i];
        if (s->kind == BT_OP_ROTATE &&
            bt_companion_rotation_elems(rotation_of(h, s->layer)) * s->heads != s->out_width)
            return bt_fail(fault, BT_EARG, "a rotation of %zu elements for %u blocks in a row of %zu",
                           bt_companion_rotation_elems(rotation_of(h, s->layer)), s->heads, s->out_width);
    }
    for (size_t b = 0; b < prog->batch; b++) {
        const bt_host_seq *s = &io->seq[b];
        const bt_kv_view *v = s->kv;
        if (s->valid < 1 || s->valid > prog->seq)
            return bt_fail(fault, BT_EARG, "%zu tokens in a program of %zu rows", s->valid, prog->seq);
        size_t limit = bt_packed_ctx_tokens(h->packed);
        if (prog->ctx && prog->ctx < limit) limit = (size_t)prog->ctx;
        if (v->tokens_capacity < limit) limit = v->tokens_capacity;
        if (s->pos0 > limit || s->valid > limit - s->pos0)
            return bt_fail(fault, BT_EARG, "%zu positions from %zu, with room for %zu in all", s->valid,
                           s->pos0, limit);
        if ((v->elem_bytes != 1 && v->elem_bytes != 2) || v->layers != hp->layers || v->kv_heads != hp->kv_heads ||
            v->head_dim != hp->head_dim)
            return bt_fail(
                fault, BT_EARG, "KV view of %u layers, %u heads of %u, %u bytes each: need %u, %u, %u, 1 or 2",
                v->layers, v->kv_heads, v->head_dim, v->elem_bytes, hp->layers, hp->kv_heads, hp->head_dim);
        for (size_t i = 0; i < s->valid; i++) {
            const int32_t id = io->ids[b * prog->seq + i];
            if (id < 0 || (uint32_t)id >= hp->vocab)
                return bt_fail(fault, BT_EARG, "token id %d at %zu: the vocabulary has %u", id, i, hp->vocab);
        }
    }
    return BT_OK;
}

bt_err bt_host_run(bt_host *h, const bt_program *prog, void *arena, const bt_host_io *io, bt_fault *fault)
{
    bt_err e = check(h, prog, io, fault);
    if (e < 0) return e;
    bt_companion_begin(&h->companion);
    uint32_t layer_now = BT_GRAPH_NO_LAYER;
    for (size_t i = 0; i < prog->steps; i += prog->step[i].group) {
        const bt_step *s = &prog->step[i];
        if (s->layer != layer_now) {
            layer_now = s->layer;
            if (io->cancel && atomic_load_explicit(io->cancel, memory_order_relaxed)) {
                e = bt_fail(fault, BT_ECANCEL, "cancelled");
                break;
            }
        }
        run_step(h, prog, s, io, arena);
        if (io->on_step || (s->kind == BT_OP_KV_STORE && io->on_kv)) bt_companion_flush(&h->companion);
        for (uint32_t g = 0; io->on_step && g < s->group; g++)
            io->on_step(io->on_step_ud, &s[g], at(arena, s[g].in_at[0]),
                        at(arena, s[g].out_at), prog->batch * s[g].rows);
        if (s->kind == BT_OP_KV_STORE && io->on_kv) io->on_kv(io->on_kv_ud, s->layer);
    }
    bt_companion_end(&h->companion);
    return e;
}
