/* What runs where, the programs and the table of shapes, and which layers are mapped together. */
#include "npu/compile/compile_private.h"
#include "kernels/int_ops.h"
#include "npu/compile/lower.h"
#include "npu/compile/probes.h"
#include "npu/compile/sessions.h"

#include <stdlib.h>

bt_err bt_compile_offload(bt_compile_job *j, bt_fault *fault)
{
    const bt_graph_options go = {.rotate_embed = bt_fold_r1(j->fold)->base > 0,
                                 .rotate_attention = bt_fold_r2(j->fold)->base > 0};
    bt_err e = bt_graph_build(&j->graph, &j->m->hp, &go, fault);
    if (e == BT_OK)
        e = bt_offload_new(&j->offload, j->graph, &j->profile, &j->o->recipe, j->o->npu_ops, j->ctx_tokens,
                           fault);
    if (e < 0) return e;
    j->npu_ops = j->offload->npu_ops;
    if (j->npu_ops == BT_PKG_OPS_ALL && j->ctx_tokens > BT_INT_ATTENTION_MAX_TOKENS)
        return bt_fail(
            fault, BT_EARG,
            "context of %zu tokens (--ctx-size): attention in integers (--npu-ops all) takes at most %d",
            j->ctx_tokens, BT_INT_ATTENTION_MAX_TOKENS);
    j->has_norm = calloc(j->graph->ops, sizeof *j->has_norm);
    if (!j->has_norm) return bt_fail(fault, BT_ENOMEM, "placing operators");
    for (size_t i = 0; i < j->graph->ops; i++) {
        const bt_op *o = &j->graph->op[i];
        j->has_norm[i] = o->kind != BT_OP_RMSNORM || bt_fold_has_norm(j->fold, o->layer, o->weight) ||
                         j->o->recipe.smooth >= 0;
    }
    return BT_OK;
}

/* ---- sessions ---- */

static uint64_t part_bytes(const bt_compile_job *j, uint32_t part)
{
    const size_t first = (size_t)part * BT_PKG_LAYER_TENSORS,
                 end = part == j->m->hp.layers ? j->tensors : first + BT_PKG_LAYER_TENSORS;
    uint64_t bytes = 0;
    for (size_t i = first; i < end; i++) {
        const bt_pkg_tensor *t = &j->tensor[i];
        if (t->bits == 8 || t->bits == 4) bytes += bt_sessions_matrix_bytes(&j->profile, t->n, t->k, t->bits);
    }
    return bytes;
}

/* What the NPU maps: its weights, and the arena in every session. */
static bt_err write_sessions(bt_compile_job *j, bt_fault *fault)
{
    const size_t parts = (size_t)j->m->hp.layers + 1;
    size_t n = 0;
    uint64_t *bytes = malloc(parts * sizeof *bytes);
    bt_pkg_session *session = malloc(parts * sizeof *session);
    bt_err e = bytes && session ? BT_OK : bt_fail(fault, BT_ENOMEM, "compiling");
    for (size_t i = 0; e == BT_OK && i < parts; i++) bytes[i] = part_bytes(j, (uint32_t)i);
    if (e == BT_OK)
        e = bt_sessions_split(session, &n, &j->profile, bytes, parts, j->header.arena_bytes, fault);
    for (size_t i = 0; e == BT_OK && i < n; i++) (void)bt_pkg_writer_session(j->w, &session[i]);
    free(bytes);
    free(session);
    return e;
}

/* ---- programs ---- */

static bt_err write_program(bt_compile_job *j, uint32_t *ret, size_t seq, size_t out, bt_fault *fault)
{
    const bt_lower_in in = {.graph = j->graph,
                            .on_npu = j->offload->on_npu,
                            .cluster = j->offload->cluster,
                            .recipe = &j->o->recipe,
                            .npu_ops = j->npu_ops,
                            .params = j->params,
                            .has_norm_weight = j->has_norm,
                            .pruned = j->pruned,
                            .seq = seq,
                            .out = out};
    bt_lowered l;
    const bt_err e = bt_lower(&l, &in, fault);
    if (e < 0) return e;
    l.program.code = bt_pkg_writer_const(j->w, BT_PKG_CONST_CODE, l.inst, l.insts * sizeof *l.inst);
    l.program.plan = bt_pkg_writer_const(j->w, BT_PKG_CONST_PLAN, l.place, l.places * sizeof *l.place);
    if (l.program.arena_bytes > j->header.arena_bytes) j->header.arena_bytes = l.program.arena_bytes;
    *ret = bt_pkg_writer_program(j->w, &l.program);
    bt_lower_done(&l);
    return BT_OK;
}

bt_err bt_compile_programs(bt_compile_job *j, bt_fault *fault)
{
    bt_pkg_row row = {.batch = 1};
    bt_err e = bt_compile_int_params(j, fault);
    for (size_t i = 0; e == BT_OK && i < j->shapes.shapes; i++) {
        const bt_shape *s = &j->shapes.shape[i];
        const size_t out[BT_PKG_OUTS] = {0, 1, s->seq};
        row.seq_min = s->seq_min;
        for (size_t b = 0; e == BT_OK && (row.ctx = (uint32_t)bt_shapes_bucket(s, j->ctx_tokens, b)) > 0;
             b++) {
            if (bt_probes_refuses(&j->profile, s->seq, row.ctx)) continue;
            /* several contexts of one seq share programs */
            for (int o = 0; e == BT_OK && o < BT_PKG_OUTS && row.seq != s->seq; o++)
                e = write_program(j, &row.program[o], s->seq, out[o], fault);
            row.seq = s->seq;
            if (s->seq > j->header.max_seq) j->header.max_seq = s->seq;
            (void)bt_pkg_writer_row(j->w, &row);
        }
    }
    for (size_t i = 0; e == BT_OK && i < j->offload->fallbacks; i++)
        (void)bt_pkg_writer_fallback(j->w, &j->offload->fallback[i]);
    return e == BT_OK ? write_sessions(j, fault) : e;
}
