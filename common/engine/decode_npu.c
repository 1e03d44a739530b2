/* The NPU: the programs that a package has for rows of one token, for one sequence or for several at once. A
 * step is cut into batches in the order that its rows were brought, so that a row of a sequence finds those
 * before it stored; no row's bits depend on who shares its batch. */
#include "engine/decode_backend.h"
#include "engine/decode_batches.h"
#include "engine/limits.h"
#include "engine/package.h"
#include "npu/run/exec.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGN = 64 };

typedef struct npu_state {
    bt_package package;
    const bt_pkg *pkg;
    bt_decode_batches batches;
    const bt_kernels *kernels;
    bt_exec *exec;
    void *arena;   /* of the largest program of one token */
    float *logits; /* [batch_max, V]: of a batch in which not every row wants them */
    size_t vocab;
    uint64_t weight_bytes;
    /* [rows_max], of a step */
    bt_exec_seq *row;
    size_t *end;   /* position + 1 */
    bool *wants;   /* logits */
    uint64_t rows; /* computed, padding too */
} npu_state;

static void npu_free(void *state)
{
    npu_state *s = state;
    if (!s) return;
    bt_exec_free(s->exec);
    bt_decode_batches_done(&s->batches);
    bt_package_done(&s->package);
    free(s->arena);
    free(s->logits);
    free(s->row);
    free(s->end);
    free(s->wants);
    free(s);
}

/* Bytes that a step reads of one tensor: all that a run looks at, without the compiler's own notes. */
static uint64_t tensor_bytes(const bt_pkg *p, const bt_pkg_tensor *t)
{
    const uint32_t of[] = {t->panels, t->oscale, t->bias, t->colsum, t->mult, t->shift, t->bias_q, t->norm_q};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i] != BT_PKG_NONE) bytes += bt_pkg_consts(p)[of[i]].bytes;
    if (t->group || t->palette_run) bytes += bt_pkg_consts(p)[t->groups].bytes;
    return bytes;
}

static bt_err make_memory(npu_state *s, size_t rows_max, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(s->pkg);
    const size_t widest = s->batches.of[s->batches.count - 1].batch,
                 batch = rows_max < widest ? rows_max : widest;
    size_t arena = ARENA_ALIGN;
    for (uint32_t i = 0; i < h->rows.count; i++) {
        const bt_pkg_row *row = &bt_pkg_rows(s->pkg)[i];
        for (int out = BT_PKG_OUT_NONE; out <= BT_PKG_OUT_LAST && row->seq == 1; out++)
            if (bt_pkg_programs(s->pkg)[row->program[out]].arena_bytes > arena)
                arena = bt_pkg_programs(s->pkg)[row->program[out]].arena_bytes;
    }
    s->vocab = h->vocab;
    s->arena = aligned_alloc(ARENA_ALIGN, arena);
    s->logits = malloc(batch * s->vocab * sizeof *s->logits);
    s->row = calloc(rows_max, sizeof *s->row);
    s->end = calloc(rows_max, sizeof *s->end);
    s->wants = calloc(rows_max, sizeof *s->wants);
    if (s->arena && s->logits && s->row && s->end && s->wants) return BT_OK;
    return bt_fail(fault, BT_ENOMEM, "out of memory for an arena of %zu bytes for %zu rows", arena, rows_max);
}

static bt_err open_all(npu_state *s, const bt_model *m, const bt_decode_config *c, bt_fault *fault)
{
    const bt_obtain_how how = {.ctx_tokens = c->ctx_tokens, .pool = c->pool, .progress = c->progress,
                               .ud = c->progress_ud};
    bt_err e = c->pkg ? BT_OK : bt_decode_check_want(&c->want, m, fault);
    if (e == BT_OK) e = bt_package_open(&s->package, m, &c->want, c->pkg, &how, fault);
    if (e < 0) return e;
    s->pkg = s->package.pkg;
    if ((e = bt_decode_check_package(s->pkg, c->ctx_tokens, fault)) < 0) return e;
    if ((e = bt_decode_batches_of(&s->batches, s->pkg, fault)) < 0) return e;
    for (uint32_t i = 0; i < bt_pkg_header_of(s->pkg)->tensors.count; i++)
        s->weight_bytes += tensor_bytes(s->pkg, &bt_pkg_tensors(s->pkg)[i]);
    if ((e = make_memory(s, c->rows_max, fault)) < 0) return e;
    return bt_exec_new(&s->exec, s->pkg, s->kernels, c->pool, fault);
}

bt_err bt_decode_check_want(const bt_obtain_want *want, const bt_model *m, bt_fault *fault)
{
    bt_shapes shapes;
    if (want->package) return BT_OK;
    /* The longest context that there may be: no shape of one token depends on it. */
    const bt_err e = bt_shapes_parse(&shapes, want->shape_policy, m->hp.ctx, fault);
    return e < 0 ? e : bt_decode_batches_check(&shapes, fault);
}

bt_err bt_decode_check_package(const bt_pkg *pkg, size_t ctx_tokens, bt_fault *fault)
{
    bt_decode_batches b = {0};
    bt_err e = bt_decode_batches_of(&b, pkg, fault);
    if (e == BT_OK && ctx_tokens > b.ctx_tokens)
        e = bt_fail(
            fault, BT_EARG,
            "sequences of %zu tokens, and programs for one token with a context of %zu at most: ask for "
            "less (--ctx-size), or compile the package for more",
            ctx_tokens, b.ctx_tokens);
    bt_decode_batches_done(&b);
    return e;
}

static bt_err npu_load(void **ret, const bt_model *m, const bt_decode_config *config, bt_fault *fault)
{
    const bt_kernels *kernels = NULL;
    bt_err e = bt_limits_kernels(&kernels, config->isa, fault);
    if (e < 0) return e;
    npu_state *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory making an engine");
    s->kernels = kernels;
    e = open_all(s, m, config, fault);
    if (e < 0) npu_free(s);
    else *ret = s;
    return e;
}

/* Rows [at, at + n) in one program. Logits of those that want them go to *logits, which moves on. */
static bt_err run_batch(npu_state *s, size_t at, size_t n, const atomic_bool *cancel, float **logits,
                        bt_fault *fault)
{
    const bt_pkg_row *program;
    size_t end = 0, wanted = 0;
    for (size_t i = at; i < at + n; i++) {
        if (s->end[i] > end) end = s->end[i];
        wanted += s->wants[i];
    }
    bt_err e = bt_pkg_find_decode_row(&program, s->pkg, n, end, fault);
    if (e < 0) return e;
    const bt_exec_io io = {.seq = &s->row[at], .seqs = n,        .rows = 1,
                           .is_dense = true,   .cancel = cancel, .logits = wanted == n ? *logits : s->logits};
    e = bt_exec_run(s->exec, program, wanted ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE, s->arena, &io, fault);
    if (e < 0) return e;
    s->rows += program->batch;
    for (size_t i = 0, to = 0; i < n && wanted < n; i++)
        if (s->wants[at + i])
            memcpy(*logits + to++ * s->vocab, s->logits + i * s->vocab, s->vocab * sizeof **logits);
    if (wanted) *logits += wanted * s->vocab;
    return BT_OK;
}

static bt_err npu_step(void *state, const bt_decode_seq *seq, size_t n, bt_overflow *any,
                       const atomic_bool *cancel, float *logits, bt_fault *fault)
{
    npu_state *s = state;
    size_t rows = 0;
    for (size_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < seq[i].count; j++, rows++) {
            s->row[rows] = (bt_exec_seq){.ids = &seq[i].tokens[j], .kv = seq[i].kv, .pos0 = seq[i].pos + j,
                                         .valid = 1, .overflow = seq[i].overflow ? seq[i].overflow : any};
            s->end[rows] = seq[i].pos + j + 1;
            s->wants[rows] = j + seq[i].out >= seq[i].count;
        }
    bt_err e = BT_OK;
    for (size_t at = 0, taken; e == BT_OK && at < rows; at += taken) {
        const size_t batch = bt_decode_batches_next(&s->batches, &s->end[at], rows - at)->batch;
        taken = rows - at < batch ? rows - at : batch;
        e = run_batch(s, at, taken, cancel, &logits, fault);
    }
    return e;
}

static const char *npu_isa(const void *state) { return ((const npu_state *)state)->kernels->isa; }
static const char *npu_weights(const void *state) { return ((const npu_state *)state)->package.name; }
static const char *npu_quant(const void *state) { return bt_pkg_recipe(((const npu_state *)state)->pkg); }
static const bt_pkg *npu_shared_package(const void *state) { return ((const npu_state *)state)->pkg; }
static uint64_t npu_weight_bytes(const void *state) { return ((const npu_state *)state)->weight_bytes; }
static uint64_t npu_kv_bytes(const void *state)
{
    return bt_exec_stats_of(((const npu_state *)state)->exec).kv_bytes;
}
static bt_report_work npu_work(const void *state)
{
    const npu_state *s = state;
    const bt_exec_stats stats = bt_exec_stats_of(s->exec);
    return bt_package_work(&stats, s->rows);
}

const bt_decode_backend bt_decode_npu = {
    .facts = {.name = "npu", .kv_elem_bytes = {2, 1}, .has_package = true, .has_integers = true,
              .mixes = 1u << BT_FORM_F16 | 1u << BT_FORM_INT8 | 1u << BT_FORM_FP4}, /* it reads none of them
                                                                                     */
    .needs = bt_package_needs,
    .load = npu_load,
    .step = npu_step,
    .isa = npu_isa,
    .weights = npu_weights,
    .quant = npu_quant,
    .shared_package = npu_shared_package,
    .weight_bytes = npu_weight_bytes,
    .kv_bytes_written = npu_kv_bytes,
    .work = npu_work,
    .free = npu_free,
};
