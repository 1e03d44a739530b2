/* The NPU: the programs of a package, run by the executor of npu/run. */
#include "engine/chunks.h"
#include "engine/limits.h"
#include "engine/overlap.h"
#include "engine/package.h"
#include "engine/prefill_backend.h"
#include "engine/prefill_batches.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/pkg_shapes.h"
#include "npu/run/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct npu_state {
    bt_package package;
    const bt_pkg *pkg;
    const bt_kernels *kernels;
    bt_exec *exec;
    bt_chunks chunks;
    bt_prefill_batches batches;
    bt_overlap *overlap; /* NULL: program order */
    bt_exec_seq *seq;    /* [batches.most]: of a run */
    bool *ends;          /* and which of them end with it */
    float *logits;       /* [batches.most, V]: of a run; NULL where prompts run alone */
    bt_report_fallback *fallback;
    uint64_t rows;
    bool is_dense;
    /* of the package, and how it attends */
    char name[sizeof((bt_package *)0)->name + sizeof " attention=" + BT_ATTENTION_MAX_TEXT];
} npu_state;

static void npu_free(void *state)
{
    npu_state *s = state;
    if (!s) return;
    bt_overlap_free(s->overlap);
    bt_exec_free(s->exec);
    bt_chunks_done(&s->chunks);
    bt_prefill_batches_done(&s->batches);
    free(s->seq);
    free(s->ends);
    free(s->logits);
    bt_package_done(&s->package);
    free(s->fallback);
    free(s);
}

static bt_err describe(npu_state *s, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(s->pkg);
    const bt_pkg_fallback *f = bt_pkg_fallbacks(s->pkg);
    s->fallback = calloc(h->fallbacks.count + 1u, sizeof *s->fallback);
    if (!s->fallback) return bt_fail(fault, BT_ENOMEM, "out of memory making a prefill engine");
    char attention[BT_ATTENTION_MAX_TEXT];
    const bt_attention of = bt_attention_of(h);
    bt_attention_text(attention, &of);
    snprintf(s->name, sizeof s->name, "%s%s%s", s->package.name, h->sparse_ppm ? " attention=" : "",
             h->sparse_ppm ? attention : "");
    for (uint32_t i = 0; i < h->fallbacks.count; i++)
        s->fallback[i] = (bt_report_fallback){f[i].op, f[i].why, f[i].count};
    return BT_OK;
}

static bt_err make_room(npu_state *s, bt_fault *fault)
{
    const bt_err e =
        bt_prefill_batches_init(&s->batches, &s->chunks.shapes, !bt_exec_unpackable(s->exec), fault);
    if (e < 0 || s->batches.most == 1) return e;
    s->seq = calloc(s->batches.most, sizeof *s->seq);
    s->ends = calloc(s->batches.most, sizeof *s->ends);
    s->logits = calloc(s->batches.most, s->chunks.vocab * sizeof *s->logits);
    return s->seq && s->ends && s->logits
               ? BT_OK
               : bt_fail(fault, BT_ENOMEM, "out of memory for a batch of %zu prompts", s->batches.most);
}

/* Prompts that run alone, where another order than the program's is asked for. */
static bt_err make_overlap(npu_state *s, const bt_prefill_config *c, bt_fault *fault)
{
    const bt_overlap_config o = {
        .pkg = s->pkg,         .shapes = &s->chunks.shapes,         .kernels = s->kernels,
        .policy = c->schedule, .threads = bt_pool_threads(c->pool), .vocab = s->chunks.vocab};
    return c->schedule == BT_SCHEDULE_SERIAL ? BT_OK : bt_overlap_new(&s->overlap, &o, fault);
}

static bt_err npu_load(void **ret, const bt_model *m, const bt_prefill_config *c, bt_fault *fault)
{
    const bt_obtain_how how = {.ctx_tokens = c->ctx_tokens, .pool = c->pool,
                               .allow_llm_int8 = c->for_perplexity, .progress = c->progress,
                               .ud = c->progress_ud};
    const bt_kernels *kernels = NULL;
    bt_err e = bt_limits_kernels(&kernels, c->isa, fault);
    if (e < 0) return e;
    npu_state *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory making a prefill engine");
    s->kernels = kernels;
    s->is_dense = c->is_dense;
    if ((e = bt_package_open(&s->package, m, &c->want, c->pkg, &how, fault)) < 0) goto out;
    s->pkg = s->package.pkg;
    const bt_pkg_header *h = bt_pkg_header_of(s->pkg);
    s->chunks.vocab = h->vocab;
    if ((e = bt_pkg_shapes(&s->chunks.shapes, s->pkg, fault)) < 0) goto out;
    if ((e = describe(s, fault)) < 0) goto out;
    if ((e = bt_exec_new(&s->exec, s->pkg, kernels, c->pool, fault)) < 0) goto out;
    if ((e = make_room(s, fault)) < 0) goto out;
    if ((e = bt_chunks_map(&s->chunks, h->arena_bytes, fault)) < 0) goto out;
    if ((e = make_overlap(s, c, fault)) < 0) goto out;
    *ret = s;
    s = NULL;
out:
    npu_free(s);
    return e;
}

static bt_err run_chunk(void *ud, const bt_chunk *c, bt_fault *fault)
{
    npu_state *s = ud;
    const bt_pkg_row *row;
    const size_t batch = s->chunks.shapes.shape[0].batch;
    const bt_err e = bt_pkg_find_row(&row, s->pkg, batch, c->rows, c->pos + c->valid, fault);
    if (e < 0) return e;
    s->rows += batch * c->rows;
    bt_chunk told = *c;
    const bt_exec_seq seq = {.ids = c->ids, .kv = c->kv, .pos0 = c->pos, .valid = c->valid,
                             .overflow = c->overflow};
    const bt_exec_io io = {
        .seq = &seq,         .seqs = 1,
        .rows = c->rows,     .is_dense = s->is_dense,
        .logits = c->logits, .on_kv = bt_chunk_has_on_kv(c) ? bt_chunk_on_kv : NULL,
        .ud = &told,         .cancel = bt_chunk_cancel(c),
    };
    return bt_exec_run(s->exec, row, c->out, s->chunks.arena, &io, fault);
}

/* Refuses a prompt that no shape holds before any of it is computed. Where a shape holds the last chunk's
 * end, one holds every earlier end too. */
static bt_err check_end(const npu_state *s, size_t end, size_t pos0, bt_fault *fault)
{
    const bt_pkg_row *row;
    bt_shapes_chunk last = {0};
    for (size_t begin = pos0; begin < end; begin += last.valid)
        last = bt_shapes_next(&s->chunks.shapes, end, begin);
    return bt_pkg_find_row(&row, s->pkg, s->chunks.shapes.shape[0].batch, last.rows, end, fault);
}

static bt_err npu_run(void *state, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                      const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault)
{
    npu_state *s = state;
    const bt_err e = check_end(s, pos0 + n, pos0, fault);
    if (e < 0) return e;
    if (s->overlap && bt_shapes_next(&s->chunks.shapes, pos0 + n, pos0).valid < n)
        return bt_overlap_run(s->overlap, kv, ids, n, pos0, hooks, logits, out, fault);
    return bt_chunks_run(&s->chunks, kv, ids, n, pos0, hooks, logits, out, run_chunk, s, fault);
}

/* ---- several prompts ---- */

static bt_err run_chunks(void *ud, size_t batch, size_t rows, const bt_chunk *chunk, size_t chunks,
                         bt_fault *fault)
{
    npu_state *s = ud;
    const bt_pkg_row *row;
    size_t end = 0, ends = 0; /* ends: prompts that do */
    const bool is_packed = s->batches.is_packed && chunks > 1;
    for (size_t i = 0; i < chunks; i++) {
        const bt_chunk *c = &chunk[i];
        s->seq[i] = (bt_exec_seq){.ids = c->ids, .kv = c->kv, .pos0 = c->pos, .valid = c->valid,
                                  .overflow = c->overflow};
        if (c->pos + c->valid > end) end = c->pos + c->valid;
        s->ends[i] = c->out == BT_PKG_OUT_LAST;
        ends += s->ends[i];
    }
    bt_err e = bt_pkg_find_row(&row, s->pkg, batch, rows, end, fault);
    if (e < 0) return e;
    s->rows += batch * rows;
    bt_prefill_batches_list t = {chunk, chunks};
    const bt_exec_io io = {.seq = s->seq,
                           .seqs = chunks,
                           .rows = rows,
                           .is_dense = s->is_dense,
                           .logits = s->logits,
                           .on_kv = bt_prefill_batches_on_kv,
                           .ud = &t,
                           .cancel = chunks == 1 ? bt_chunk_cancel(chunk) : NULL};
    if (is_packed) e = bt_exec_run_packed(s->exec, row, s->chunks.arena, &io, s->ends, fault);
    else e = bt_exec_run(s->exec, row, ends ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE, s->chunks.arena, &io, fault);
    const float *logits = s->logits; /* of every sequence of a batch; packed, of those that end */
    for (size_t i = 0; e == BT_OK && i < chunks; i++) {
        if (s->ends[i]) memcpy(chunk[i].logits, logits, s->chunks.vocab * sizeof *logits);
        if (s->ends[i] || !is_packed) logits += s->chunks.vocab;
    }
    return e;
}

static void npu_run_batch(void *state, bt_prefill_seq *seq, size_t prompts)
{
    npu_state *s = state;
    for (size_t i = 0; i < prompts; i++)
        if (seq[i].result == BT_OK)
            seq[i].result = check_end(s, seq[i].pos0 + seq[i].n, seq[i].pos0, &seq[i].fault);
    bt_prefill_batches_run(&s->batches, &s->chunks.shapes, seq, prompts, run_chunks, s);
}

static size_t npu_batch_max(const void *state) { return ((const npu_state *)state)->batches.most; }

static size_t npu_packed_rows(const void *state)
{
    const npu_state *s = state;
    return bt_prefill_batches_packed_rows(&s->batches, &s->chunks.shapes);
}

static bt_report_work npu_work(const void *state)
{
    const npu_state *s = state;
    bt_exec_stats stats = bt_exec_stats_of(s->exec);
    uint64_t rows = s->rows;
    if (s->overlap) bt_overlap_add(s->overlap, &stats, &rows);
    return bt_package_work(&stats, rows);
}

static bt_report_engine npu_about(const void *state)
{
    const npu_state *s = state;
    const bt_pkg_header *h = bt_pkg_header_of(s->pkg);
    return (bt_report_engine){.quant = bt_pkg_recipe(s->pkg), .shape_policy = h->shape_policy,
                              .profile = h->profile,          .weights = s->name,
                              .fallback = s->fallback,        .fallbacks = h->fallbacks.count};
}

static const bt_pkg *npu_pkg(const void *state) { return ((const npu_state *)state)->pkg; }
static const char *npu_isa(const void *state) { return ((const npu_state *)state)->kernels->isa; }

const bt_prefill_backend bt_prefill_npu = {
    .facts = {.name = "npu", .kv_elem_bytes = {2, 1}, .has_package = true, .has_integers = true,
              .has_chunks = true, .has_schedules = true, .is_sparse = true},
    .needs = bt_package_needs,
    .load = npu_load,
    .run = npu_run,
    .run_batch = npu_run_batch,
    .batch_max = npu_batch_max,
    .packed_rows = npu_packed_rows,
    .work = npu_work,
    .about = npu_about,
    .isa = npu_isa,
    .pkg = npu_pkg,
    .free = npu_free,
};
