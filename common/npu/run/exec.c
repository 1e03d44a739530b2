/* The walk over a program: calls the function of each instruction. Also the instructions in floats, of the
 * companion and of the NPU, whose results exec_float.c rounds. */
#include "npu/run/exec_private.h"
#include "base/memory.h"
#include "graph/graph.h"
#include "model/quant.h"

#include <stdlib.h>
#include <string.h>

enum {
    READY_BYTES = 4 << 20, /* bytes of the prepared inputs that are touched before the first run needs them */
    PACKED_RUNS = 32       /* sequences of a packed run that attention takes at once */
};
_Static_assert((int)BT_PKG_MAX_GROUP <= (int)BT_COMPANION_MAX_GROUP, "a group of linears runs as one");

static bt_companion_rotation rotation(const bt_pkg *pkg, const bt_pkg_rotation *r)
{
    return (bt_companion_rotation){r->base, r->log2, bt_pkg_const_at(pkg, r->h_base),
                                   bt_pkg_const_at(pkg, r->sign), r->scale};
}

static size_t largest_batch(const bt_pkg *pkg)
{
    const bt_pkg_row *row = bt_pkg_rows(pkg);
    size_t batch = 1;
    for (uint32_t i = 0; i < bt_pkg_header_of(pkg)->rows.count; i++)
        if (row[i].batch > batch) batch = row[i].batch;
    return batch;
}

/* Why sequences cannot be packed, in words; NULL: they can. */
static const char *unpackable(const bt_pkg *pkg, bool is_dynamic)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    if (is_dynamic) return "the recipe's numbers depend on the chunk";
    if (h->sparse_ppm) return "its attention is sparse";
    for (uint32_t p = 0; p < h->programs.count; p++) {
        const bt_pkg_inst *i = bt_pkg_code(pkg, p), *end = i + bt_pkg_programs(pkg)[p].insts;
        for (; i < end; i++)
            if (bt_pkg_is_attention(i) && i->unit != BT_PKG_COMPANION)
                return "its attention is the NPU's, over one sequence";
    }
    return NULL;
}

bt_err bt_exec_new(bt_exec **ret, const bt_pkg *pkg, const bt_kernels *kernels, bt_pool *pool,
                   bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    const bt_quant_info *type = bt_quant_find(h->embed_type);
    bt_err e;
    if (h->kernels_version != BT_KERNELS_NUMERIC_VERSION)
        return bt_fail(
            fault, BT_EVERSION,
            "the package is for kernels of version %u; these have version %u: compile the package again",
            h->kernels_version, BT_KERNELS_NUMERIC_VERSION);
    if (h->npu_ops > BT_PKG_OPS_ALL || !type)
        return bt_fail(
            fault, BT_EVERSION,
            "the package needs npu_ops %u and embeddings of type %u, which this program does not run",
            h->npu_ops, h->embed_type);
    bt_exec *x = calloc(1, sizeof *x);
    if (!x) return bt_fail(fault, BT_ENOMEM, "out of memory making an executor");
    x->pkg = pkg;
    x->header = h;
    x->embed = bt_exec_const(x, h->embed);
    x->embed_row_bytes = h->dim / type->block_elems * type->block_bytes;
    if (h->r1.base) x->rotations.r1 = rotation(pkg, &h->r1);
    if (h->r2.base) x->rotations.r2 = rotation(pkg, &h->r2);
    if (h->r4.base) x->rotations.r4 = rotation(pkg, &h->r4);
    bt_recipe recipe;
    if ((e = bt_recipe_parse(&recipe, bt_pkg_recipe(pkg), fault)) < 0) goto out;
    x->unpackable = unpackable(pkg, recipe.llm_int8);
    const size_t batch = largest_batch(pkg),
                 runs = x->unpackable || batch > PACKED_RUNS ? batch : PACKED_RUNS;
    const bt_attention attention = bt_attention_of(h);
    uint64_t sparse;
    (void)bt_exec_sparse_bytes(&sparse, &attention, h->heads, h->kv_heads, h->head_dim, h->ctx_tokens);
    const size_t linear = bt_exec_group_scratch_bytes(pkg), integer = bt_int_exec_scratch_bytes(pkg),
                 most = linear > integer ? linear : integer;
    const bt_companion_sizes sizes = {.heads = h->heads,
                                      .kv_heads = h->kv_heads,
                                      .head_dim = h->head_dim,
                                      .runs = runs,
                                      .ctx_tokens = h->ctx_tokens,
                                      .rotate_elems = bt_companion_rotations_max_elems(&x->rotations),
                                      .scratch_bytes = most > sparse ? most : (size_t)sparse};
    if ((e = bt_companion_init(&x->companion, kernels, pool, &sizes, fault)) < 0) goto out;
    x->companion.row_align_bytes = h->layout.last_axis_align_bytes;
    if (h->sparse_ppm && (e = bt_exec_sparse_new(&x->sparse, pkg, kernels, fault)) < 0) goto out;
    if (recipe.llm_int8 && (e = bt_exec_dynamic_new(&x->dynamic, pkg, fault)) < 0) goto out;
    x->ones = calloc(2 * (size_t)h->dim, sizeof *x->ones);
    x->found = malloc(h->max_seq * bt_int_panels(h->ffn)); /* the package's limits bound both */
    const size_t prepared = bt_exec_group_prepared_bytes(pkg);
    x->prepared = aligned_alloc(64, prepared);
    if (h->experts && (e = bt_exec_routed_new(&x->routed, h, fault)) < 0) goto out;
    x->ids = calloc(h->max_seq, sizeof *x->ids);
    x->seq = calloc(h->max_seq, sizeof *x->seq);
    x->overflow = calloc(h->max_seq, sizeof *x->overflow);
    x->last = calloc(h->max_seq, sizeof *x->last);
    if (!x->ones || !x->found || !x->prepared || !x->ids || !x->seq || !x->overflow || !x->last) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory making an executor");
        goto out;
    }
    for (uint32_t i = 0; i < h->dim; i++) x->ones[i] = 1.0f;
    bt_memory_ready(x->prepared, prepared, READY_BYTES);
    *ret = x;
    x = NULL;
out:
    bt_exec_free(x);
    return e;
}

void bt_exec_free(bt_exec *x)
{
    if (!x) return;
    bt_companion_done(&x->companion);
    bt_exec_dynamic_free(x->dynamic);
    bt_exec_sparse_free(x->sparse);
    bt_exec_routed_done(&x->routed);
    free(x->prepared);
    free(x->ones);
    free(x->found);
    free(x->ids);
    free(x->seq);
    free(x->overflow);
    free(x->last);
    free(x);
}

bt_exec_stats bt_exec_stats_of(const bt_exec *x)
{
    bt_exec_stats s = x->stats;
    s.shadow_entries = atomic_load_explicit(&x->shadow_entries, memory_order_relaxed);
    return s;
}

/* ---- the companion's instructions ----
 * run_NAME for each instruction of FLOATS and EDGES (graph/op_list.h). */

static float *out_of(const bt_exec_job *j, const bt_pkg_inst *i) { return bt_exec_at(j, i->out); }

static void embed_row(float *y, const void *table, size_t id)
{
    const bt_exec *x = table;
    bt_quant_to_f32(y, x->embed + id * x->embed_row_bytes, bt_quant_find(x->header->embed_type),
                    x->header->dim);
}

static void run_embed(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_companion_embed(&j->x->companion, &j->seqs, out_of(j, i), i->out_width, j->ids, embed_row, j->x,
                       j->x->header->embed_scale, j->io->pad);
}

static const float *norm_weight(const bt_exec *x, const bt_pkg_inst *i)
{
    return i->tensor == BT_PKG_NONE ? x->ones : bt_exec_const(x, bt_exec_tensor(x, i)->panels);
}

static void run_qk_norm(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_companion_qk_norm(&j->x->companion, out_of(j, i), norm_weight(j->x, i), j->x->header->rms_eps,
                         bt_exec_rows(j, i), i->arg, i->out_width / i->arg);
}

static void run_rope(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_exec *x = j->x;
    const bt_pkg_header *h = x->header;
    const bool in16 = i->unit == BT_PKG_NPU_FLOAT;
    const size_t at = bt_pkg_rope_at(h, i->layer);
    bt_companion_rope(&x->companion, &j->seqs, out_of(j, i), i->arg, h->head_dim, h->rope_dims,
                      (const float *)bt_exec_const(x, in16 ? h->rope_cos16 : h->rope_cos) + at,
                      (const float *)bt_exec_const(x, in16 ? h->rope_sin16 : h->rope_sin) + at,
                      (h->flags & BT_PKG_FLAG_NEOX) != 0);
}

static void run_rotate(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_companion_rotation *r = bt_companion_rotation_by(&j->x->rotations, i->arg);
    bt_companion_rotate(&j->x->companion, out_of(j, i), bt_exec_rows(j, i),
                        i->out_width / bt_companion_rotation_elems(r), r);
}

static void run_add(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_companion_add(&j->x->companion, out_of(j, i), bt_exec_at(j, i->in1), j->x->header->add_scale,
                     bt_exec_rows(j, i), i->out_width);
}

#define DEFINE_OWN(name)
#define DEFINE_NORMED(name) \
    static void run_##name(bt_exec_job *j, const bt_pkg_inst *i) \
    { \
        const bt_companion *c = &j->x->companion; \
        bt_companion_norm(c, c->kernels->name, out_of(j, i), bt_exec_at(j, i->in0), norm_weight(j->x, i), \
                          j->x->header->rms_eps, bt_exec_rows(j, i), i->out_width); \
    }
#define DEFINE_POINT(name) \
    static void run_##name(bt_exec_job *j, const bt_pkg_inst *i) \
    { \
        const bt_companion *c = &j->x->companion; \
        bt_companion_point(c, c->kernels->name, out_of(j, i), bt_exec_rows(j, i), i->out_width); \
    }
#define DEFINE_GATED(name) \
    static void run_##name(bt_exec_job *j, const bt_pkg_inst *i) \
    { \
        const bt_companion *c = &j->x->companion; \
        bt_companion_gated(c, c->kernels->name, out_of(j, i), bt_exec_at(j, i->in1), bt_exec_rows(j, i), \
                           i->out_width); \
    }
#define DEFINE_GATED_FLOATS(name) DEFINE_GATED(name)
#define DEFINE(NAME, name, inputs, in_place, weight, by_head, shape, beside, class, price, run) \
    DEFINE_##run(name)
BT_OP_LIST(DEFINE, BT_OP_SKIP, BT_OP_SKIP, BT_OP_SKIP)

/* A group of linears in floats; of EXPERTS_F16 each expert's matrices over its rows. */
static void run_linear_f16(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_exec *x = j->x;
    const uint32_t *begin = j->routed.begin;
    for (uint32_t e = 0; e < bt_exec_groups(j, i); e++) {
        bt_companion_matrix m[BT_PKG_MAX_GROUP];
        const size_t first = bt_pkg_is_experts(i) ? begin[e] : 0,
                     rows = bt_pkg_is_experts(i) ? begin[e + 1] - begin[e] : bt_exec_linear_rows(j, i);
        if (bt_pkg_is_experts(i) && !rows) continue;
        for (size_t g = 0; g < i->group; g++) {
            const bt_pkg_tensor *t = bt_exec_tensor(x, &i[g]);
            const bt_pkg_part p = bt_exec_linear_part(j, &i[g]);
            const uint16_t *panels =
                bt_exec_const_of(x, t->panels, e, bt_matmul_packed_elems(t->n, t->k) * sizeof *panels);
            const float *bias = bt_exec_const_of(x, t->bias, e, t->n * sizeof *bias);
            const size_t ld = bt_exec_ld_out(&i[g], sizeof(float));
            m[g] = (bt_companion_matrix){.y = bt_exec_linear_out(j, &i[g]) + first * ld,
                                         .panels = panels + (size_t)p.first * t->k,
                                         .bias = bias ? bias + p.first : NULL, .n = p.n, .ld = ld};
            if (bt_pkg_is_experts(i)) bt_exec_count_linear(j, &i[g], rows, rows);
            else bt_exec_count_linear(j, &i[g], bt_exec_rows(j, i), bt_exec_real_rows(j, i));
        }
        const float *in = bt_exec_at(j, i->in0);
        bt_companion_linear(&x->companion, m, i->group, in + first * bt_exec_ld_in(i, sizeof *in), rows,
                            i->in_width);
    }
}

/* ---- experts ---- */

static void run_experts_f16(bt_exec_job *j, const bt_pkg_inst *i) { run_linear_f16(j, i); }
static void run_experts(bt_exec_job *j, const bt_pkg_inst *i) { (void)bt_exec_linear(j, i); }

static bt_companion_routes routes_of(const bt_exec_job *j, uint64_t at)
{
    const bt_pkg_header *h = j->x->header;
    return (bt_companion_routes){.at = bt_exec_at(j, at), .experts = h->experts, .used = h->experts_used,
                                 .begin = j->routed.begin};
}

/* The layer's `each` numbers of a constant [layers, each]; index 0: NULL. */
static const float *of_layer(const bt_exec *x, uint32_t index, uint32_t layer, size_t each)
{
    return index ? (const float *)bt_exec_const(x, index) + layer * each : NULL;
}

static void run_route(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_pkg_header *h = j->x->header;
    const bt_companion_routes r = routes_of(j, i->out);
    const float *routers = bt_exec_const(j->x, h->routers);
    bt_companion_route(&j->x->companion, &j->seqs, &r, bt_exec_at(j, i->in0),
                       routers + (size_t)i->layer * h->experts * h->dim,
                       of_layer(j->x, h->router_bias, i->layer, h->experts), i->in_width);
    bt_exec_count_macs(j, i, j->real * i->macs_per_row);
}

/* Copies rows, notes where each copy came from, and counts what an expert's programs are larger. */
static void run_gather_rows(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_companion_routes r = routes_of(j, i->in1);
    const bt_companion *c = &j->x->companion;
    bt_exec_stats *stats = &j->x->stats;
    bt_companion_gather(c, &r, out_of(j, i), bt_exec_at(j, i->in0), j->rows, i->out_width);
    bt_companion_routes_of(j->routed.row, j->routed.expert, c, &r, j->rows);
    for (size_t e = 0; e < r.experts; e++) {
        const uint32_t rows = r.begin[e + 1] - r.begin[e];
        stats->expert_rows += rows;
        stats->expert_padding_rows += bt_pkg_expert_rows((uint32_t)j->rows, rows) - rows;
    }
}

static void run_mix_rows(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_companion_routes r = routes_of(j, i->in1);
    bt_companion_mix(&j->x->companion, &r, out_of(j, i), bt_exec_at(j, i->in0), j->rows, i->out_width);
}

static void attend(bt_exec_job *j, const bt_pkg_inst *i, const bt_pkg_slice *s, const bt_companion_rows *rows,
                   size_t row)
{
    const bt_pkg_header *h = j->x->header;
    const size_t at = row * bt_exec_ld_out(i, sizeof(float));
    const bt_attn_rule rule =
        bt_companion_rule(&h->rules, h->attn_scale, of_layer(j->x, h->sinks, i->layer, h->heads), i->layer);
    bt_companion_attention_heads(&j->x->companion, rows, (float *)bt_exec_at(j, i->out) + at,
                                 (const float *)bt_exec_at(j, i->in0) + at, i->layer, s->head,
                                 s->head + s->heads, h->heads, h->kv_heads, h->head_dim, &rule);
}

static void run_sparse(bt_exec_job *j, const bt_pkg_inst *i, const bt_pkg_slice *s)
{
    const bt_pkg_header *h = j->x->header;
    for (size_t b = 0; b < j->seqs.batch; b++) {
        const bt_exec_part p = bt_exec_job_part(j, s, b);
        if (!p.rows) continue;
        const size_t dense = p.real ? bt_exec_sparse_rows(j, i, s, &p, j->seqs.seq[b].kv) : 0;
        const bt_companion_seq seq = {j->seqs.seq[b].kv, p.pos, dense};
        const bt_companion_rows rows = {.seq = &seq, .batch = 1, .rows = dense == p.real ? p.rows : dense};
        if (!rows.rows) continue;
        attend(j, i, s, &rows, p.row);
        bt_exec_count_macs(j, i,
                           (dense * p.pos + dense * (dense + 1) / 2) * 2 * (uint64_t)s->heads * h->head_dim);
    }
}

static void run_attention(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_pkg_slice s = bt_exec_job_slice(j, i);
    if (j->x->sparse && !j->io->is_dense) {
        run_sparse(j, i, &s);
        return;
    }
    if (s.rows == j->rows) attend(j, i, &s, &j->seqs, 0);
    for (size_t b = 0; b < j->seqs.batch && s.rows < j->rows; b++) {
        const bt_exec_part p = bt_exec_job_part(j, &s, b);
        const bt_companion_seq seq = {j->seqs.seq[b].kv, p.pos, p.real};
        const bt_companion_rows rows = {.seq = &seq, .batch = 1, .rows = p.rows};
        if (p.rows) attend(j, i, &s, &rows, p.row);
    }
    bt_exec_count_macs(j, i, bt_exec_job_attention_macs(j, i, &s));
}

static void run_kv_store(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_companion_rows *rows = &j->seqs;
    bt_companion_kv_store(&j->x->companion, rows, i->layer, bt_exec_at(j, i->in0), bt_exec_at(j, i->in1),
                          i->in_width);
    for (size_t b = 0; b < rows->batch; b++)
        if (rows->seq[b].valid)
            j->x->stats.kv_bytes +=
                2 * rows->seq[b].valid * rows->seq[b].kv->kv_heads * rows->seq[b].kv->head_bytes;
}

/* Counts a switch of sessions, which a device would do. This machine maps the whole package. */
static void run_session(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_exec *x = j->x;
    if (x->session == i->arg) return;
    x->session = i->arg;
    x->stats.session_switches++;
    x->stats.session_switch_ns += i->params;
}

/* Copies the rows of OUT in a packed run. Where OUT lies over SEQ, each row moves to its own place or before
 * it, so none is overwritten too early. */
static void select_last(const bt_exec_job *j, const bt_pkg_inst *i)
{
    uint8_t *out = bt_exec_at(j, i->out);
    const uint8_t *in = bt_exec_at(j, i->in0);
    bt_companion_flush(&j->x->companion);
    for (size_t r = 0; r < j->out; r++)
        memmove(out + r * i->out_stride, in + j->last[r] * (size_t)i->in_stride,
                i->out_width * sizeof(float));
}

static void run_select_rows(bt_exec_job *j, const bt_pkg_inst *i)
{
    if (j->last) select_last(j, i);
    else
        bt_companion_select_rows(&j->x->companion, &j->seqs, j->seq_out, out_of(j, i), bt_exec_at(j, i->in0),
                                 i->out_width);
}

static void run_soft_cap(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_pkg_header *h = j->x->header;
    bt_companion_soft_cap(&j->x->companion, j->io->logits, h->logit_cap, bt_exec_linear_rows(j, i), h->vocab);
}

static void run_quantise(bt_exec_job *j, const bt_pkg_inst *i)
{
    j->x->dynamic ? bt_exec_dynamic_quantise(j, i) : bt_exec_border_quantise(j, i);
}

static void run_quantise32(bt_exec_job *j, const bt_pkg_inst *i) { bt_exec_border_quantise32(j, i); }
static void run_dequantise16(bt_exec_job *j, const bt_pkg_inst *i) { bt_exec_border_dequantise16(j, i); }
static void run_quantise16(bt_exec_job *j, const bt_pkg_inst *i) { bt_exec_border_quantise16(j, i); }
static void run_dequantise32(bt_exec_job *j, const bt_pkg_inst *i) { bt_exec_border_dequantise32(j, i); }

static void run_round16(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_companion_round(&j->x->companion, (bt_round16)j->x->header->float_form, out_of(j, i),
                       bt_exec_at(j, i->in0), bt_exec_rows(j, i), i->out_width);
}

static void run_linear(bt_exec_job *j, const bt_pkg_inst *i) { bt_exec_dynamic_linear(j, i); }

size_t bt_exec_inst(bt_exec_job *j, const bt_pkg_inst *i)
{
    if (i->op == BT_PKG_LINEAR && !j->x->dynamic) return bt_exec_linear(j, i); /* with all fused to it */
    switch (i->op) {
#define RUN(OF, NAME, name, ...) \
    case BT_PKG_##NAME: run_##name(j, i); break;
        BT_OP_LIST(BT_OP_SKIP, RUN, BT_OP_SKIP, RUN)
    default: bt_int_exec_run(j, i); break;
    }
    if (i->unit == BT_PKG_NPU_FLOAT) bt_exec_float_round(j, i);
    return i->group;
}

/* ---- a run ---- */

static bt_err check_seq(const bt_pkg_header *h, const bt_pkg_row *row, const bt_exec_seq *s, size_t rows,
                        bt_fault *fault)
{
    const bt_kv_view *v = s->kv;
    if (s->valid < 1 || s->valid > rows)
        return bt_fail(fault, BT_EARG, "%zu tokens in %zu rows of a program of %u to %u", s->valid, rows,
                       row->seq_min, row->seq);
    size_t limit = h->ctx_tokens;
    if (row->ctx < limit) limit = row->ctx;
    if (v->tokens_capacity < limit) limit = v->tokens_capacity;
    if (s->pos0 > limit || s->valid > limit - s->pos0)
        return bt_fail(fault, BT_EARG,
                       "%zu tokens from position %zu do not fit the %zu positions of the sequence", s->valid,
                       s->pos0, limit);
    if ((v->elem_bytes != 1 && v->elem_bytes != 2) || v->layers != h->layers || v->kv_heads != h->kv_heads ||
        v->head_dim != h->head_dim)
        return bt_fail(fault, BT_EARG,
                       "KV view of %u layers, %u heads of %u, %u bytes each: need %u, %u, %u, 1 or 2",
                       v->layers, v->kv_heads, v->head_dim, v->elem_bytes, h->layers, h->kv_heads,
                       h->head_dim);
    for (size_t i = 0; i < s->valid; i++)
        if (s->ids[i] < 0 || (uint32_t)s->ids[i] >= h->vocab)
            return bt_fail(fault, BT_EARG, "token id %d at %zu: the vocabulary has %u", s->ids[i], i,
                           h->vocab);
    return BT_OK;
}

bt_err bt_exec_check(const bt_exec *x, const bt_pkg_row *row, bt_pkg_out out, const bt_exec_io *io,
                     bt_fault *fault)
{
    if ((unsigned)out >= BT_PKG_OUTS || io->seqs < 1 || io->seqs > row->batch)
        return bt_fail(fault, BT_EARG, "%zu sequences with ending %d, in a program for %u", io->seqs,
                       (int)out, row->batch);
    if (row->batch > 1 && x->dynamic)
        return bt_fail(fault, BT_EARG, "a program for %u sequences: llm-int8 runs one at a time", row->batch);
    if (out != BT_PKG_OUT_NONE && !io->logits)
        return bt_fail(fault, BT_EARG, "the program gives logits, and there is no room for them");
    if (io->rows < row->seq_min || io->rows > row->seq)
        return bt_fail(fault, BT_EARG, "%zu rows of a program of %u to %u", io->rows, row->seq_min, row->seq);
    bt_err e = BT_OK;
    for (size_t b = 0; e == BT_OK && b < io->seqs; b++) {
        e = check_seq(x->header, row, &io->seq[b], io->rows, fault);
        if (e == BT_OK && x->sparse && !io->is_dense)
            e = bt_exec_sparse_check(x->sparse, io->seq[b].pos0, io->seq[b].valid, fault);
    }
    return e;
}

bt_err bt_exec_walk(bt_exec_job *j, bt_fault *fault)
{
    const bt_companion *c = &j->x->companion;
    const bt_exec_io *io = j->io;
    const bt_pkg_inst *end = j->inst + j->program->insts;
    uint32_t layer_now = BT_GRAPH_NO_LAYER;
    bool is_cancelled = false;
    bt_companion_begin(c);
    for (const bt_pkg_inst *i = j->inst, *next; i < end; i = next) {
        if (i->layer != layer_now) {
            layer_now = i->layer;
            is_cancelled = io->cancel && atomic_load_explicit(io->cancel, memory_order_relaxed);
            if (is_cancelled) break;
        }
        next = i + bt_exec_inst(j, i);
        if (i->op != BT_PKG_KV_STORE || !io->on_kv) continue;
        bt_companion_flush(c);
        io->on_kv(io->ud, i->layer);
    }
    bt_companion_end(c);
    return is_cancelled ? bt_fail(fault, BT_ECANCEL, "cancelled") : BT_OK;
}

bt_err bt_exec_run(bt_exec *x, const bt_pkg_row *row, bt_pkg_out out, void *arena, const bt_exec_io *io,
                   bt_fault *fault)
{
    const bt_err e = bt_exec_check(x, row, out, io, fault);
    if (e < 0) return e;
    bt_exec_job j = bt_exec_job_of(x, row, out, arena, io, x->seq, x->overflow, x->ids);
    x->stats.batch_padding_rows += (row->batch - io->seqs) * io->rows;
    return bt_exec_walk(&j, fault);
}

/* ---- a packed run ---- */

bt_err bt_exec_run_packed(bt_exec *x, const bt_pkg_row *row, void *arena, const bt_exec_io *io,
                          const bool *ends, bt_fault *fault)
{
    size_t rows = 0;
    bool has_end = false;
    bt_err e = BT_OK;
    if (x->unpackable) return bt_fail(fault, BT_EARG, "sequences cannot be packed: %s", x->unpackable);
    if (row->batch != 1 || io->seqs < 1 || io->rows < row->seq_min || io->rows > row->seq)
        return bt_fail(fault, BT_EARG, "%zu sequences in %zu rows of a program of %u to %u for %u", io->seqs,
                       io->rows, row->seq_min, row->seq, row->batch);
    for (size_t b = 0; e == BT_OK && b < io->seqs; b++) {
        e = check_seq(x->header, row, &io->seq[b], io->rows - rows, fault);
        rows += io->seq[b].valid;
        has_end = has_end || ends[b];
    }
    if (e == BT_OK && has_end && !io->logits)
        e = bt_fail(fault, BT_EARG, "the program gives logits, and there is no room for them");
    if (e < 0) return e;
    bt_exec_job j = bt_exec_job_packed(x, row, arena, io, ends);
    return bt_exec_walk(&j, fault);
}

const char *bt_exec_unpackable(const bt_exec *x) { return x->unpackable; }
