/* Which operands of a program's step go to which operator of the companion, for a batch of rows. What a step computes is
 * decided by the program alone. */
#include "decode-node/engine/host/exec.h"
#include "graph/bind.h"
#include "graph/companion.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)BT_COMPANION_MAX_GROUP >= (int)BT_BIND_MAX_GROUP, "a group of linears runs as one");

struct dc_exec {
    const dc_weights *weights;
    const bt_hparams *hp;
    bt_companion companion;
    bt_graph *graph;
    bt_program *program;
    uint8_t *arena;
    bt_companion_seq *row;                  /* [rows_max], those of this step */
    int32_t *ids;
    uint32_t *wanted;                       /* [rows_max], rows whose logits are wanted, ascending */
    uint64_t kv_bytes;                      /* of all rows stored */
    float attn_scale;
};

/* What the steps of one run share. */
typedef struct run {
    dc_exec *x;
    size_t rows, wanted, bucket;
    float *logits;
} run;

/* What a thread needs for the widest input of an FP4 matrix. */
static size_t scratch_bytes(const dc_exec *x, size_t rows)
{
    size_t most = 0;
    for (size_t i = 0; i < x->program->steps; i++) {
        const bt_step *s = &x->program->step[i];
        if (s->kind != BT_OP_LINEAR || dc_weights_matrix(x->weights, s->layer, s->weight)->form != BT_FORM_FP4) continue;
        const size_t bytes = bt_form_fp4_sums_bytes(rows, s->in_width[0]);
        if (bytes > most) most = bytes;
    }
    return most;
}

static bt_err make(dc_exec *x, const bt_kernels *kernels, bt_pool *pool, size_t rows_max, size_t ctx_tokens, bt_fault *fault)
{
    size_t bytes;
    bt_companion_sizes sizes = {.heads = x->hp->heads, .kv_heads = x->hp->kv_heads, .head_dim = x->hp->head_dim, .runs = rows_max,
                                .ctx_tokens = ctx_tokens};
    bt_err e = bt_graph_build(&x->graph, x->hp, NULL, fault);
    if (e == BT_OK) e = bt_bind_program(&x->program, x->graph, 0, 1, 1, 0, fault);
    if (e == BT_OK) e = bt_bind_arena_bytes(&bytes, x->program, dc_engine_bucket(rows_max), fault);
    if (e < 0) return e;
    sizes.scratch_bytes = scratch_bytes(x, rows_max);
    if ((e = bt_companion_init(&x->companion, kernels, pool, &sizes, fault)) < 0) return e;
    x->arena = aligned_alloc(BT_PLACE_ALIGN, bytes);
    x->row = calloc(rows_max, sizeof *x->row);
    x->ids = calloc(rows_max, sizeof *x->ids);
    x->wanted = calloc(rows_max, sizeof *x->wanted);
    if (!x->arena || !x->row || !x->ids || !x->wanted)
        return bt_fail(fault, BT_ENOMEM, "an arena of %zu bytes for %zu rows", bytes, rows_max);
    return BT_OK;
}

bt_err dc_exec_new(dc_exec **ret, const dc_weights *weights, const bt_kernels *kernels, bt_pool *pool, size_t rows_max,
                   size_t ctx_tokens, bt_fault *fault)
{
    dc_exec *x = calloc(1, sizeof *x);
    if (!x) return bt_fail(fault, BT_ENOMEM, "making an executor");
    x->weights = weights;
    x->hp = &dc_weights_model(weights)->hp;
    x->attn_scale = 1.0f / sqrtf((float)x->hp->head_dim);
    const bt_err e = make(x, kernels, pool, rows_max, ctx_tokens, fault);
    if (e < 0) dc_exec_free(x);
    else *ret = x;
    return e;
}

void dc_exec_free(dc_exec *x)
{
    if (!x) return;
    bt_companion_done(&x->companion);
    bt_bind_free(x->program);
    bt_graph_free(x->graph);
    free(x->arena);
    free(x->row);
    free(x->ids);
    free(x->wanted);
    free(x);
}

/* NULL for what is not in the arena. */
static float *at(const run *r, bt_extent offset)
{
    return bt_bind_is_nowhere(offset) ? NULL : (float *)(void *)(r->x->arena + bt_extent_at(offset, r->bucket));
}

static void embed_row(float *y, const void *table, size_t id) { bt_model_row_f32(y, table, id); }

/* A group of linear steps over one input. Logits leave the arena. */
static void run_linear(const run *r, const bt_step *s, size_t t)
{
    const dc_exec *x = r->x;
    bt_companion_matrix m[BT_BIND_MAX_GROUP];
    for (uint32_t g = 0; g < s->group; g++) {
        const dc_matrix *w = dc_weights_matrix(x->weights, s[g].layer, s[g].weight);
        float *y = bt_bind_is_nowhere(s[g].out_at) ? r->logits : at(r, s[g].out_at);
        m[g] = (bt_companion_matrix){y, w->panels, w->bias, w->n, w->form, w->group};
    }
    bt_companion_linear(&x->companion, m, s->group, at(r, s->in_at[0]), t, s->in_width[0]);
}

/* t: rows of this step's output. */
static void run_step(const run *r, const bt_step *s, size_t t)
{
    dc_exec *x = r->x;
    const bt_companion *c = &x->companion;
    const bt_hparams *hp = x->hp;
    const bt_companion_rows rows = {x->row, r->rows, 1};
    const size_t width = s->out_width;
    const float *in0 = at(r, s->in_at[0]), *in1 = at(r, s->in_at[1]);
    float *out = at(r, s->out_at);
    switch (s->kind) {
    case BT_OP_EMBED: bt_companion_embed(c, &rows, out, width, x->ids, embed_row, dc_weights_model(x->weights)->embed, 0); break;
    case BT_OP_RMSNORM:
        bt_companion_rmsnorm(c, out, in0, dc_weights_vector(x->weights, s->layer, s->weight), hp->rms_eps, t, width);
        break;
    case BT_OP_LINEAR: run_linear(r, s, t); break;
    case BT_OP_QK_NORM:
        bt_companion_qk_norm(c, out, dc_weights_vector(x->weights, s->layer, s->weight), hp->rms_eps, t, s->heads, hp->head_dim);
        break;
    case BT_OP_ROPE:
        bt_companion_rope(c, &rows, out, s->heads, hp->head_dim, hp->rope_dims, dc_weights_rope_cos(x->weights),
                          dc_weights_rope_sin(x->weights), hp->rope_neox);
        break;
    case BT_OP_KV_STORE:
        bt_companion_kv_store(c, &rows, s->layer, in0, in1, s->in_width[0]);
        for (size_t i = 0; i < t; i++) x->kv_bytes += 2 * x->row[i].kv->kv_heads * x->row[i].kv->head_bytes;
        break;
    case BT_OP_ATTENTION:
        bt_companion_attention(c, &rows, out, in0, s->layer, hp->heads, hp->kv_heads, hp->head_dim, x->attn_scale);
        break;
    case BT_OP_ADD: bt_companion_add(c, out, in1, t, width); break;
    case BT_OP_SILU_MUL: bt_companion_silu_mul(c, out, in1, t, width); break;
    case BT_OP_SELECT_ROWS:
        bt_companion_flush(c);
        for (size_t i = 0; i < t; i++) memcpy(out + i * width, in0 + x->wanted[i] * width, width * sizeof *out);
        break;
    case BT_OP_ROTATE:                      /* our graph has none: nothing is folded here */
    case BT_OP_KINDS: break;
    }
}

bt_err dc_exec_step(dc_exec *x, const dc_engine_seq *seq, size_t n, const atomic_bool *cancel, float *logits, bt_fault *fault)
{
    const bt_program *p = x->program;
    run r = {.x = x, .logits = logits};
    for (size_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < seq[i].count; j++) {
            if (j + seq[i].out >= seq[i].count) x->wanted[r.wanted++] = (uint32_t)r.rows;
            x->ids[r.rows] = seq[i].tokens[j];
            x->row[r.rows++] = (bt_companion_seq){seq[i].kv, seq[i].pos + j, 1};
        }
    r.bucket = dc_engine_bucket(r.rows);
    const size_t steps = !r.rows ? 0 : r.wanted ? p->steps : x->graph->op_tail;
    uint32_t layer_now = BT_GRAPH_NO_LAYER;
    bt_err e = BT_OK;
    bt_companion_begin(&x->companion);
    for (size_t i = 0; i < steps; i += p->step[i].group) {
        const bt_step *s = &p->step[i];
        if (s->layer != layer_now) {
            layer_now = s->layer;
            if (cancel && atomic_load_explicit(cancel, memory_order_relaxed)) {
                e = bt_fail(fault, BT_ECANCEL, "cancelled");
                break;
            }
        }
        run_step(&r, s, i < x->graph->op_tail ? r.rows : r.wanted);
    }
    bt_companion_end(&x->companion);
    return e;
}

uint64_t dc_exec_kv_bytes(const dc_exec *x) { return x->kv_bytes; }
