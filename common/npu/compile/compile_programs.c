/* Places operators, lowers the programs for the table of shapes, and splits layers into sessions. */
#include "npu/compile/compile_private.h"
#include "kernels/int_ops.h"
#include "npu/lower/bodies.h"
#include "npu/lower/lower.h"
#include "npu/lower/plan.h"
#include "npu/lower/probes.h"
#include "npu/lower/sessions.h"
#include "npu/lower/switches.h"

#include <stdlib.h>
#include <string.h>

/* The drafts that lowering made, and the programs made of it: one for each context where the device's context
 * is static. Instructions are made when they are written: those of all programs take much more memory than
 * their drafts and places. */
typedef struct programs {
    bt_lower_draft **draft;
    size_t drafts;
    struct lowered {
        uint32_t draft;
        bt_lower_places places;
        bt_pkg_program program; /* once it is written */
    } * lowered;
    size_t count;
    struct program {
        uint32_t lowered, ctx;
    } * program;
    size_t programs;
    bt_pkg_session *session;
    size_t sessions;
} programs;

/* op_max: as bt_offload_new. */
static bt_err place_operators(bt_compile_job *j, const float *op_max, bt_fault *fault)
{
    bt_offload_free(j->offload);
    j->offload = NULL;
    const bt_err e = bt_offload_new(&j->offload, j->graph, &j->profile, &j->o->recipe, j->o->npu_ops,
                                    j->ctx_tokens, op_max, fault);
    if (e < 0) return e;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): bt_offload_new has set it */
    j->npu_ops = j->offload->npu_ops;
    bt_compile_job_placed(j);
    return BT_OK;
}

bt_err bt_compile_offload_measured(bt_compile_job *j, bt_fault *fault)
{
    return j->stats->op_max ? place_operators(j, j->stats->op_max, fault) : BT_OK;
}

bt_err bt_compile_offload(bt_compile_job *j, bt_fault *fault)
{
    const bt_graph_options go = bt_fold_graph(j->fold);
    bt_err e = bt_graph_build(&j->graph, &j->m->hp, &go, fault);
    if (e == BT_OK) e = place_operators(j, NULL, fault);
    if (e != BT_OK) return e;
    bool attends = false;
    for (size_t i = 0; i < j->graph->ops; i++)
        attends = attends || (j->graph->op[i].kind == BT_OP_ATTENTION && j->offload->on_npu[i] == BT_PKG_NPU);
    if (attends && j->o->attention.ratio_ppm)
        return bt_fail(
            fault, BT_EARG,
            "sparse attention (--attention) attends in floats, and with --npu-ops all profile %s does it in "
            "integers: take --npu-ops linear, or a profile that attends in floats",
            j->profile.name);
    if (attends && j->ctx_tokens > BT_INT_ATTENTION_MAX_TOKENS)
        return bt_fail(
            fault, BT_EARG,
            "a context of %zu tokens (--ctx-size): attention in integers (--npu-ops all) takes at most %d",
            j->ctx_tokens, BT_INT_ATTENTION_MAX_TOKENS);
    j->has_norm = calloc(j->graph->ops, sizeof *j->has_norm);
    if (!j->has_norm) return bt_fail(fault, BT_ENOMEM, "out of memory placing operators");
    for (size_t i = 0; i < j->graph->ops; i++) {
        const bt_op *o = &j->graph->op[i];
        j->has_norm[i] = o->kind != BT_OP_RMSNORM || bt_fold_has_norm(j->fold, o->layer, o->weight) ||
                         bt_recipe_scales(&j->o->recipe);
    }
    return BT_OK;
}

/* ---- sessions ---- */

/* Bytes of a layer's part of the KV state, rounded as the device wants it. A session maps it where attention
 * runs on the NPU and the profile bounds what is mapped. */
static bt_err layer_state_bytes(uint64_t *ret, const bt_compile_job *j, bt_fault *fault)
{
    bt_plan_state s;
    bool on_npu = false;
    uint32_t batch = 1; /* each sequence of a batch has a state of its own */
    for (size_t i = 0; i < j->graph->ops; i++)
        on_npu = on_npu || (j->graph->op[i].kind == BT_OP_ATTENTION && j->offload->on_npu[i]);
    for (size_t i = 0; i < j->shapes.all; i++)
        if (j->shapes.shape[i].batch > batch) batch = j->shapes.shape[i].batch;
    *ret = 0;
    if (!on_npu || (!j->profile.map_window_bytes && !j->profile.memory_bytes)) return BT_OK;
    bt_err e = bt_plan_state_of(&s, &j->header, (uint32_t)j->ctx_tokens, fault);
    if (e == BT_OK && __builtin_mul_overflow(s.bytes / j->m->hp.layers, (uint64_t)batch, ret))
        e = bt_fail(fault, BT_ELIMIT, "the KV states of %u sequences do not fit 64 bits", batch);
    return e;
}

static bool is_mapped(const bt_compile_job *j, size_t tensor)
{
    const bt_pkg_tensor *t = &j->tensor[tensor];
    const uint32_t layer = (uint32_t)(tensor / BT_PKG_LAYER_TENSORS);
    return (t->bits && t->bits <= 8) ||
           (t->bits == 16 && bt_compile_job_unit(j, layer, (bt_weight)t->weight) == BT_PKG_NPU_FLOAT);
}

/* Lists what is mapped: the NPU's weights, and each layer's KV state under a number that no constant has.
 * Returns how many. weight: [tensors + layers]. */
static size_t list_mapped(bt_sessions_weight *weight, const bt_compile_job *j, uint64_t state)
{
    const size_t layers = j->m->hp.layers;
    size_t n = 0;
    uint32_t next = 0; /* above every constant */
    for (size_t i = 0; i < j->tensors; i++)
        if (is_mapped(j, i)) next = j->tensor[i].panels >= next ? j->tensor[i].panels + 1 : next;
    for (size_t i = 0; i < j->tensors; i++) {
        const bt_pkg_tensor *t = &j->tensor[i];
        const size_t layer = i / BT_PKG_LAYER_TENSORS;
        const uint32_t part = (uint32_t)(layer < layers ? layer : layers);
        if (state && part < layers && i % BT_PKG_LAYER_TENSORS == 0)
            weight[n++] = (bt_sessions_weight){part, next++, state};
        if (is_mapped(j, i))
            weight[n++] = (bt_sessions_weight){
                part, t->panels,
                bt_compile_matrices_of(j, (bt_weight)t->weight) *
                    bt_sessions_matrix_bytes(&j->profile, t->n, t->k, t->bits, t->group, t->palette_run)};
    }
    return n;
}

/* Splits the layers into sessions. Every session maps the arena too. */
static bt_err split_sessions(bt_compile_job *j, programs *g, bt_fault *fault)
{
    const size_t parts = (size_t)j->m->hp.layers + 1;
    size_t n = 0;
    uint64_t state = 0;
    bt_sessions_weight *weight = malloc((j->tensors + parts) * sizeof *weight);
    g->session = malloc(parts * sizeof *g->session);
    bt_err e = weight && g->session ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory compiling a package");
    if (e == BT_OK) e = layer_state_bytes(&state, j, fault);
    if (e == BT_OK) n = list_mapped(weight, j, state);
    if (e == BT_OK)
        e = bt_sessions_split(g->session, &g->sessions, &j->profile, weight, n, parts, j->header.arena_bytes,
                              fault);
    for (size_t i = 0; e == BT_OK && i < g->sessions; i++) (void)bt_pkg_writer_session(j->w, &g->session[i]);
    free(weight);
    return e;
}

/* ---- programs ---- */

/* The draft for these rows, made if no draft serves them. */
static bt_err draft_of(uint32_t *ret, bt_compile_job *j, programs *g, size_t rows, size_t out,
                       bt_fault *fault)
{
    const bt_lower_in in = {.graph = j->graph,
                            .on_npu = j->offload->on_npu,
                            .cluster = j->offload->cluster,
                            .recipe = &j->o->recipe,
                            .params = j->params,
                            .has_norm_weight = j->has_norm,
                            .pruned = j->pruned,
                            .layout = &j->header.layout,
                            .narrow_outputs = j->profile.output_bits == 8,
                            .seq = rows,
                            .out = out};
    size_t i = 0;
    while (i < g->drafts && !bt_lower_draft_serves(g->draft[i], rows, out)) i++;
    *ret = (uint32_t)i;
    if (i < g->drafts) return BT_OK;
    bt_lower_draft **grown = realloc(g->draft, (g->drafts + 1) * sizeof *grown);
    if (!grown) return bt_fail(fault, BT_ENOMEM, "out of memory compiling a package");
    g->draft = grown;
    const bt_err e = bt_lower_draft_new(&g->draft[i], &in, fault);
    if (e == BT_OK) g->drafts++;
    return e;
}

/* Lowers the programs of one batch and seq, one for each bt_pkg_out. */
static bt_err lower_endings(bt_compile_job *j, programs *g, const bt_shape *s, bt_fault *fault)
{
    const size_t rows = (size_t)s->batch * s->seq, out[BT_PKG_OUTS] = {0, s->batch, rows};
    bt_err e = BT_OK;
    struct lowered *grown = realloc(g->lowered, (g->count + BT_PKG_OUTS) * sizeof *grown);
    if (!grown) return bt_fail(fault, BT_ENOMEM, "out of memory compiling a package");
    g->lowered = grown;
    for (int o = 0; e == BT_OK && o < BT_PKG_OUTS; o++) {
        struct lowered *l = &g->lowered[g->count];
        *l = (struct lowered){.draft = 0};
        e = draft_of(&l->draft, j, g, rows, out[o], fault);
        if (e == BT_OK) e = bt_lower_draft_place(&l->places, g->draft[l->draft], rows, out[o], fault);
        if (e < 0) return e;
        if (l->places.arena_bytes > j->header.arena_bytes) j->header.arena_bytes = l->places.arena_bytes;
        g->count++;
    }
    return e;
}

/* Adds the programs of a row, from what was lowered last. */
static bt_err add_programs(programs *g, bt_pkg_row *row, uint32_t ctx, bt_fault *fault)
{
    struct program *grown = realloc(g->program, (g->programs + BT_PKG_OUTS) * sizeof *grown);
    if (!grown) return bt_fail(fault, BT_ENOMEM, "out of memory compiling a package");
    g->program = grown;
    for (uint32_t o = 0; o < BT_PKG_OUTS; o++) {
        row->program[o] = (uint32_t)g->programs;
        g->program[g->programs++] = (struct program){(uint32_t)g->count - BT_PKG_OUTS + o, ctx};
    }
    return BT_OK;
}

static int by_batch(const void *a, const void *b)
{
    const bt_shape *x = a, *y = b;
    if (x->batch != y->batch) return x->batch < y->batch ? -1 : 1;
    if (x->seq != y->seq) return x->seq < y->seq ? -1 : 1;
    return x->ctx < y->ctx ? -1 : x->ctx > y->ctx;
}

/* Lowers all rows. Where attention does not depend on ctx, the contexts of one batch and seq share their
 * programs. */
static bt_err lower_rows(bt_compile_job *j, programs *g, bt_fault *fault)
{
    const bool is_static = j->profile.static_ctx;
    bt_err e = BT_OK;
    bt_pkg_row row = {.batch = 0};
    bt_shape shape[BT_SHAPES_MAX];
    memcpy(shape, j->shapes.shape, sizeof shape);
    qsort(shape, j->shapes.all, sizeof *shape, by_batch);
    for (size_t i = 0; e == BT_OK && i < j->shapes.all; i++) {
        const bt_shape *s = &shape[i];
        row.seq_min = s->seq_min;
        for (size_t b = 0; e == BT_OK && (row.ctx = (uint32_t)bt_shapes_bucket(s, j->ctx_tokens, b)) > 0;
             b++) {
            const bool is_new = row.batch != s->batch || row.seq != s->seq;
            if (bt_probes_refuses(&j->profile, s->seq, row.ctx)) continue;
            if (is_new) e = lower_endings(j, g, s, fault);
            if (e == BT_OK && (is_new || is_static))
                e = add_programs(g, &row, is_static ? row.ctx : 0, fault);
            row.batch = s->batch;
            row.seq = s->seq;
            if (s->batch * s->seq > j->header.max_seq) j->header.max_seq = s->batch * s->seq;
            if (e == BT_OK) (void)bt_pkg_writer_row(j->w, &row);
        }
    }
    return e;
}

/* Refuses more instructions and places than a package may have. limit: for those that are unpacked, or for
 * all. */
static bt_err check_work(const bt_compile_job *j, const programs *g, uint64_t work, uint64_t limit,
                         bt_fault *fault)
{
    if (work <= limit) return BT_OK;
    return bt_fail(fault, BT_ELIMIT,
                   "%zu programs have more than %llu instructions and places, which is all that a package "
                   "holds: fewer shapes, fewer rows in a shape, or larger slices of attention "
                   "(query_slice_rows %u, attention_heads_max %u)",
                   g->programs, (unsigned long long)limit, j->header.layout.query_slice_rows,
                   j->header.layout.attention_heads_max);
}

/* Whether no program before the i-th has the same code. */
static bool is_new_code(const programs *g, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (g->lowered[k].program.code == g->lowered[i].program.code) return false;
    return true;
}

/* Makes the instructions of a program and writes them; packed where there are bodies. */
static bt_err write_program(bt_compile_job *j, const programs *g, struct lowered *of, bt_bodies *bodies,
                            bt_fault *fault)
{
    bt_lowered l = {0};
    bt_err e = bt_lower_draft_at(&l, g->draft[of->draft], &of->places, fault);
    if (e < 0) return e;
    bt_plan_set_orders(l.inst, &j->header, j->tensor, &l.program);
    e = bt_switches_insert(&l, g->session, g->sessions, j->m->hp.layers, j->profile.session_switch_ns, fault);
    if (e == BT_OK && bodies) e = bt_bodies_pack(bodies, &l, j->w, fault);
    if (e == BT_OK && !bodies) {
        l.program.code = bt_pkg_writer_const(j->w, BT_PKG_CONST_CODE, l.inst, l.insts * sizeof *l.inst);
        l.program.plan = bt_pkg_writer_const(j->w, BT_PKG_CONST_PLAN, l.place, l.places * sizeof *l.place);
    }
    of->program = l.program;
    bt_lower_done(&l);
    return e;
}

/* Writes the programs. They are packed where there are many: for a static context, which has a program for
 * each context, and for batches and decode rows. */
static bt_err write_programs(bt_compile_job *j, programs *g, bt_fault *fault)
{
    const bt_shapes *s = &j->shapes;
    const bool is_packed = j->profile.static_ctx || s->all > s->shapes || s->shape[0].batch > 1;
    const uint64_t switches = g->sessions > 1 ? g->sessions : 0; /* each session may add a SESSION */
    bt_bodies *bodies = NULL;
    uint64_t unpacked = 0, all = 0;
    for (size_t i = 0; i < g->programs; i++) {
        const bt_lower_places *l = &g->lowered[g->program[i].lowered].places;
        all += l->insts + l->values + switches;
    }
    bt_err e = check_work(j, g, all, BT_PKG_MAX_ALL_INSTS, fault);
    if (e == BT_OK && is_packed) e = bt_bodies_new(&bodies, fault);
    for (size_t i = 0; e == BT_OK && i < g->count; i++) {
        const bt_pkg_program *p = &g->lowered[i].program;
        e = write_program(j, g, &g->lowered[i], bodies, fault);
        if (e < 0 || !bodies) continue;
        if (is_new_code(g, i)) unpacked += (uint64_t)p->insts + p->places;
        e = check_work(j, g, unpacked, BT_PKG_MAX_UNPACKED, fault);
    }
    for (size_t i = 0; e == BT_OK && i < g->programs; i++) {
        bt_pkg_program p = g->lowered[g->program[i].lowered].program;
        p.ctx = g->program[i].ctx;
        (void)bt_pkg_writer_program(j->w, &p);
    }
    if (e == BT_OK && bodies) bt_bodies_write(bodies, j->w, &j->header);
    bt_bodies_free(bodies);
    return e;
}

bt_err bt_compile_programs(bt_compile_job *j, bt_fault *fault)
{
    programs g = {0};
    bt_err e = bt_compile_int_params(j, fault);
    if (e == BT_OK) e = lower_rows(j, &g, fault);
    if (e == BT_OK) e = split_sessions(j, &g, fault); /* needs the arena's bytes, which lowering has set */
    if (e == BT_OK) e = write_programs(j, &g, fault);
    for (size_t i = 0; e == BT_OK && i < j->offload->fallbacks; i++)
        (void)bt_pkg_writer_fallback(j->w, &j->offload->fallback[i]);
    for (size_t i = 0; i < g.count; i++) free(g.lowered[i].places.offset);
    for (size_t i = 0; i < g.drafts; i++) bt_lower_draft_free(g.draft[i]);
    free(g.draft);
    free(g.lowered);
    free(g.program);
    free(g.session);
    return e;
}
