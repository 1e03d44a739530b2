/* Placement and programs: which operators the NPU takes, what falls back and why, and the specialization table. */
#include "kernels/int_kernels.h"
#include "npu/compile_private.h"
#include "npu/lower.h"
#include "npu/partition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_K = 131071 };

static const char *unsupported(const bt_compile_job *j, bt_op_kind op, unsigned need)
{
    static _Thread_local char why[96];
    const unsigned lacks = need & ~(unsigned)j->profile.op[op];
    if (!j->profile.op[op]) snprintf(why, sizeof why, "profile %.40s does not have it", j->profile.name);
    else if (lacks)
        snprintf(why, sizeof why, "profile %.40s has it not with %s", j->profile.name,
                 lacks & BT_PROFILE_INT4    ? "4-bit weights"
                 : lacks & BT_PROFILE_INT16 ? "16-bit inputs"
                                            : "8-bit inputs");
    else return NULL;
    return why;
}

const char *bt_compile_refusal(const bt_compile_job *j, bt_site_kind site)
{
    const bt_hparams *hp = &j->m->hp;
    const unsigned bits = j->o->recipe.input_bits[site] == 16 ? BT_PROFILE_INT16 : BT_PROFILE_INT8;
    const size_t k = site == BT_SITE_DOWN ? hp->ffn : site == BT_SITE_O ? (size_t)hp->heads * hp->head_dim : hp->dim;
    if (k > MAX_K) return "more inputs than an accumulator of 32 bits takes";
    return unsupported(j, BT_OP_LINEAR, bits | (j->o->recipe.weight_bits == 4 ? BT_PROFILE_INT4 : 0u));
}

/* NULL: the NPU runs it; "": nobody asked; else why not. */
static const char *refusal_of(const bt_compile_job *j, const bt_op *o)
{
    if (o->kind == BT_OP_LINEAR) return bt_compile_refusal(j, (bt_site_kind)bt_pkg_site_of(o->weight));
    if (j->o->npu_ops == BT_PKG_OPS_LINEAR || o->kind == BT_OP_EMBED || o->kind == BT_OP_KV_STORE || o->kind == BT_OP_SELECT_ROWS ||
        (o->kind == BT_OP_ROTATE && o->layer == BT_GRAPH_NO_LAYER))
        return "";
    const char *why = unsupported(j, o->kind, BT_PROFILE_INT16);
    return why || j->npu_ops == BT_PKG_OPS_ALL ? why : "an operator beside it falls back";
}

/* Integers between two linears go all the way or not at all. */
static void choose_ops(bt_compile_job *j)
{
    j->npu_ops = j->o->npu_ops;
    for (size_t i = 0; i < j->graph->ops && j->npu_ops == BT_PKG_OPS_ALL; i++) {
        const char *why = refusal_of(j, &j->graph->op[i]);
        if (why && why[0]) j->npu_ops = BT_PKG_OPS_LINEAR;
    }
}

static uint64_t macs_per_row(const bt_op *o) { return o->kind == BT_OP_LINEAR ? o->macs.coef : 0; }

typedef struct fallback_list {
    bt_pkg_fallback *entry;
    size_t count;
} fallback_list;

static void add_fallback(fallback_list *list, const char *op, const char *why, uint64_t macs)
{
    size_t i = 0;
    while (i < list->count && (strcmp(list->entry[i].op, op) != 0 || strcmp(list->entry[i].why, why) != 0)) i++;
    bt_pkg_fallback *f = &list->entry[i];
    if (i == list->count) {
        list->count++;
        snprintf(f->op, sizeof f->op, "%s", op);
        snprintf(f->why, sizeof f->why, "%s", why);
    }
    f->count++;
    f->macs_per_row += macs;
}

bt_err bt_compile_place(bt_compile_job *j, bt_fault *fault)
{
    const bt_graph_options go = {.rotate_embed = bt_fold_r1(j->fold)->base > 0, .rotate_attention = bt_fold_r2(j->fold)->base > 0};
    bt_partition_node *node = NULL;
    uint32_t *writer = NULL, (*input)[2] = NULL;
    size_t clusters;
    bt_err e = bt_graph_build(&j->graph, &j->m->hp, &go, fault);
    if (e < 0) return e;
    const bt_graph *g = j->graph;
    choose_ops(j);
    j->on_npu = calloc(g->ops, 1);
    j->cluster = calloc(g->ops, sizeof *j->cluster);
    j->has_norm = calloc(g->ops, sizeof *j->has_norm);
    node = calloc(g->ops, sizeof *node);
    input = calloc(g->ops, sizeof *input);
    writer = calloc(g->tensors, sizeof *writer);
    if (!j->on_npu || !j->cluster || !j->has_norm || !node || !input || !writer) {
        e = bt_fail(fault, BT_ENOMEM, "placing operators");
        goto out;
    }
    for (size_t t = 0; t < g->tensors; t++) writer[t] = UINT32_MAX;
    for (size_t i = 0; i < g->ops; i++) {
        const bt_op *o = &g->op[i];
        node[i].input = input[i];
        for (int k = 0; k < 2; k++)
            if (o->in[k] != BT_GRAPH_NO_TENSOR && writer[o->in[k]] != UINT32_MAX) input[i][node[i].inputs++] = writer[o->in[k]];
        node[i].npu = refusal_of(j, o) == NULL;
        node[i].macs = macs_per_row(o);
        writer[o->out] = (uint32_t)i;
        j->has_norm[i] = o->kind != BT_OP_RMSNORM || bt_fold_has_norm(j->fold, o->layer, o->weight) || j->o->recipe.smooth >= 0;
    }
    e = bt_partition(j->cluster, &clusters, node, g->ops, 0, fault);
    for (size_t i = 0; e == BT_OK && i < g->ops; i++) j->on_npu[i] = j->cluster[i] != 0;
out:
    free(node);
    free(input);
    free(writer);
    return e;
}

static bt_err write_fallbacks(bt_compile_job *j, bt_fault *fault)
{
    fallback_list list = {calloc(j->graph->ops + 1, sizeof *list.entry), 0};
    if (!list.entry) return bt_fail(fault, BT_ENOMEM, "compiling");
    for (size_t i = 0; i < j->graph->ops; i++) {
        const bt_op *o = &j->graph->op[i];
        const char *why = refusal_of(j, o);
        if (why && why[0]) add_fallback(&list, bt_op_name(o->kind), why, macs_per_row(o));
    }
    for (size_t i = 0; i < list.count; i++) (void)bt_pkg_writer_fallback(j->w, &list.entry[i]);
    free(list.entry);
    return BT_OK;
}

/* ---- sessions ---- */

static uint64_t layer_bytes(const bt_compile_job *j, uint32_t layer)
{
    const uint32_t layers = j->m->hp.layers;
    const size_t first = (size_t)layer * BT_PKG_LAYER_TENSORS, end = layer == layers ? j->tensors : first + BT_PKG_LAYER_TENSORS;
    uint64_t bytes = 0;
    for (size_t i = first; i < end; i++) {
        const bt_pkg_tensor *t = &j->tensor[i];
        if (t->bits == 8 || t->bits == 4)
            bytes += bt_int_panels(t->n) * (bt_int_panel_bytes(t->k, t->bits) + 16 * (sizeof(float) + sizeof(int32_t)));
    }
    return bytes;
}

/* What the NPU maps: its weights with their scales and sums, and one arena for each session. */
static bt_err write_sessions(bt_compile_job *j, uint64_t arena, bt_fault *fault)
{
    const uint32_t layers = j->m->hp.layers;
    const uint64_t window = j->profile.map_window_bytes;
    bt_pkg_session s = {.mapped_bytes = arena};
    for (uint32_t l = 0; l <= layers; l++) {
        const uint64_t bytes = layer_bytes(j, l);
        if (window && bytes + arena > window)
            return bt_fail(fault, BT_EARG, "layer %u and the arena need %llu bytes, profile %s maps %llu at once", l,
                           (unsigned long long)(bytes + arena), j->profile.name, (unsigned long long)window);
        if (window && s.mapped_bytes + bytes > window) {
            (void)bt_pkg_writer_session(j->w, &s);
            s = (bt_pkg_session){.first_layer = l, .mapped_bytes = arena};
        }
        s.last_layer = l;
        s.mapped_bytes += bytes;
    }
    (void)bt_pkg_writer_session(j->w, &s);
    return BT_OK;
}

/* ---- programs ---- */

static bt_err write_program(bt_compile_job *j, uint32_t *ret, size_t seq, size_t out, bt_fault *fault)
{
    const bt_lower_in in = {.graph = j->graph, .on_npu = j->on_npu, .cluster = j->cluster, .recipe = &j->o->recipe, .npu_ops = j->npu_ops,
                            .params = j->params, .has_norm_weight = j->has_norm, .pruned = j->pruned, .seq = seq, .out = out};
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
    for (size_t i = 0; e == BT_OK && i < j->plan.shapes; i++) {
        const bt_plan_shape *s = &j->plan.shape[i];
        const size_t out[BT_PKG_OUTS] = {0, 1, s->seq};
        for (int o = 0; e == BT_OK && o < BT_PKG_OUTS && row.seq != s->seq; o++) /* several contexts of one seq share programs */
            e = write_program(j, &row.program[o], s->seq, out[o], fault);
        row.seq_min = s->seq_min;
        row.seq = s->seq;
        if (s->seq > j->header.max_seq) j->header.max_seq = s->seq;
        for (size_t b = 0; e == BT_OK && (row.ctx = (uint32_t)bt_plan_bucket(s, j->ctx_tokens, b)) > 0; b++) (void)bt_pkg_writer_row(j->w, &row);
        bt_compile_progress(j, "lower", i + 1, j->plan.shapes);
    }
    if (e == BT_OK) e = write_fallbacks(j, fault);
    return e == BT_OK ? write_sessions(j, j->header.arena_bytes, fault) : e;
}
