/* Chunk after chunk through the table of programs. The only file of the prefill side that knows what executes
 * them. */
#include "engine/prefill.h"
#include "base/memory.h"
#include "graph/host.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { READY_BYTES = 16 << 20 };

struct bt_prefill {
    bt_shapes plan;
    size_t ctx_tokens, vocab;
    void *arena; /* mapped: pages beyond READY_BYTES cost nothing before a shape uses them */
    size_t arena_bytes;
    bt_prefill_stats stats;
    /* over a package */
    const bt_pkg *pkg;
    bt_exec *exec;
    /* over packed weights */
    bt_graph *graph;
    bt_programs *programs;
    bt_host *host;
    int32_t *ids; /* [longest seq] */
};

static bt_err map_arena(bt_prefill *p, size_t bytes, bt_fault *fault)
{
    void *arena =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED)
        return bt_fail(fault, BT_ENOMEM, "arena of %zu bytes: %s", bytes, strerror(errno));
    (void)madvise(arena, bytes, MADV_HUGEPAGE);     /* fewer faults and TLB misses; without it only slower */
    bt_memory_ready(arena, bytes, READY_BYTES);
    p->arena = arena;
    p->arena_bytes = bytes;
    return BT_OK;
}

bt_err bt_prefill_new(bt_prefill **ret, const bt_packed *packed, const bt_kernels *kernels, bt_pool *pool,
                      const bt_prefill_options *options, bt_fault *fault)
{
    const bt_hparams *hp = &bt_packed_model(packed)->hp;
    bt_shapes plan;
    bt_err e = bt_shapes_parse(&plan, options->shape_policy, options->ctx_tokens, fault);
    if (e < 0) return e;
    if (options->ctx_tokens > bt_packed_ctx_tokens(packed))
        return bt_fail(fault, BT_EARG, "context of %zu tokens, weights packed for %zu", options->ctx_tokens,
                       bt_packed_ctx_tokens(packed));
    bt_prefill *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "making a prefill engine");
    p->plan = plan;
    p->ctx_tokens = options->ctx_tokens;
    p->vocab = hp->vocab;
    if ((e = bt_graph_build(&p->graph, hp, NULL, fault)) < 0) goto out;
    if ((e = bt_programs_new(&p->programs, p->graph, &plan, options->ctx_tokens, fault)) < 0) goto out;
    if ((e = bt_host_new(&p->host, packed, NULL, kernels, pool, fault)) < 0) goto out;
    p->stats.compilations = p->programs->compilations;
    p->ids = calloc(p->programs->row[p->programs->rows - 1].seq, sizeof *p->ids);
    if (!p->ids) {
        e = bt_fail(fault, BT_ENOMEM, "making a prefill engine");
        goto out;
    }
    if ((e = map_arena(p, p->programs->arena_bytes, fault)) < 0) goto out;
    *ret = p;
    p = NULL;
out:
    bt_prefill_free(p);
    return e;
}

static bt_err plan_of(bt_shapes *ret, const bt_pkg *pkg, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    const bt_pkg_row *row = bt_pkg_rows(pkg);
    bt_shape *shape = calloc(h->rows.count + 1u, sizeof *shape);
    size_t n = 0;
    if (!shape) return bt_fail(fault, BT_ENOMEM, "making a prefill engine");
    for (uint32_t i = 0; i < h->rows.count; i++)
        if (row[i].batch == 1) shape[n++] = (bt_shape){row[i].seq_min, row[i].seq, row[i].ctx};
    const bt_err e = n ? bt_shapes_of_rows(ret, h->shape_policy, shape, n, fault)
                       : bt_fail(fault, BT_EARG, "the package has no program for one sequence");
    free(shape);
    return e;
}

bt_err bt_prefill_new_npu(bt_prefill **ret, const bt_pkg *pkg, const bt_kernels *kernels, bt_pool *pool,
                          const bt_prefill_options *options, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    if (options->ctx_tokens < 1 || options->ctx_tokens > h->ctx_tokens)
        return bt_fail(fault, BT_EARG, "context of %zu tokens, a package for %u: ask for less (--ctx-size), or compile it for more",
                       options->ctx_tokens, h->ctx_tokens);
    bt_prefill *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "making a prefill engine");
    bt_err e;
    p->pkg = pkg;
    p->ctx_tokens = options->ctx_tokens;
    p->vocab = h->vocab;
    if ((e = plan_of(&p->plan, pkg, fault)) < 0) goto out;
    if ((e = bt_exec_new(&p->exec, pkg, kernels, pool, fault)) < 0) goto out;
    if ((e = map_arena(p, h->arena_bytes, fault)) < 0) goto out;
    *ret = p;
    p = NULL;
out:
    bt_prefill_free(p);
    return e;
}

void bt_prefill_free(bt_prefill *p)
{
    if (!p) return;
    if (p->arena) (void)munmap(p->arena, p->arena_bytes);
    bt_exec_free(p->exec);
    bt_host_free(p->host);
    bt_programs_free(p->programs);
    bt_graph_free(p->graph);
    free(p->ids);
    free(p);
}

typedef struct relay {
    const bt_prefill_hooks *hooks;
    size_t begin, count;
} relay;

static void relay_kv(void *ud, uint32_t layer)
{
    const relay *r = ud;
    r->hooks->on_kv(r->hooks->ud, layer, r->begin, r->count);
}

/* One chunk: c.valid tokens at position pos. */
typedef struct chunk {
    const bt_kv_view *kv;
    const int32_t *ids;
    size_t pos;
    bt_shapes_chunk c;
    const bt_prefill_hooks *hooks;
    float *logits;
    bool is_last, wants_all;
} chunk;

static bt_err run_npu(bt_prefill *p, const chunk *k, bt_fault *fault)
{
    const bt_pkg_row *row;
    const bt_err e = bt_pkg_find_row(&row, p->pkg, 1, k->c.rows, k->pos + k->c.valid, fault);
    if (e < 0) return e;
    p->stats.rows += k->c.rows;
    relay r = {k->hooks, k->pos, k->c.valid};
    const bt_exec_io io = {
        .ids = k->ids,
        .kv = k->kv,
        .pos0 = k->pos,
        .valid = k->c.valid,
        .rows = k->c.rows,
        .logits = k->logits,
        .on_kv = k->hooks && k->hooks->on_kv ? relay_kv : NULL,
        .ud = &r,
        .cancel = k->hooks ? k->hooks->cancel : NULL,
    };
    const bt_pkg_out out = k->wants_all ? BT_PKG_OUT_ALL : k->is_last ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE;
    return bt_exec_run(p->exec, row, out, p->arena, &io, fault);
}

static bt_err run_host(bt_prefill *p, const chunk *k, bt_fault *fault)
{
    const bt_programs_row *row;
    const size_t valid = k->c.valid;
    const bt_err e = bt_programs_find(&row, p->programs, k->c.rows, k->pos + valid, fault);
    if (e < 0) return e;
    memcpy(p->ids, k->ids, valid * sizeof *p->ids);
    memset(p->ids + valid, 0xff, (row->seq - valid) * sizeof *p->ids); /* -1: no token */
    p->stats.rows += row->seq;
    relay r = {k->hooks, k->pos, valid};
    const bt_host_seq seq = {.kv = k->kv, .pos0 = k->pos, .valid = valid};
    const bt_host_io io = {
        .ids = p->ids,
        .seq = &seq,
        .logits = k->logits,
        .on_kv = k->hooks && k->hooks->on_kv ? relay_kv : NULL,
        .on_kv_ud = &r,
        .cancel = k->hooks ? k->hooks->cancel : NULL,
    };
    const bt_programs_out out = k->wants_all ? BT_PROGRAMS_OUT_ALL
                                : k->is_last ? BT_PROGRAMS_OUT_LAST
                                             : BT_PROGRAMS_OUT_NONE;
    return bt_host_run(p->host, row->program[out], p->arena, &io, fault);
}

bt_err bt_prefill_run(bt_prefill *p, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                      const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault)
{
    const size_t ctx = p->ctx_tokens;
    if (n < 1 || !logits)
        return bt_fail(fault, BT_EARG, "prefill of %zu tokens: at least one, and room for logits", n);
    if (pos0 > ctx || n > ctx - pos0)
        return bt_fail(fault, BT_ELIMIT, "%zu tokens from position %zu: the context holds %zu", n, pos0, ctx);
    for (size_t i = 0; i < n; i++) /* before any row is written, not in the chunk that meets it */
        if (ids[i] < 0 || (size_t)ids[i] >= p->vocab)
            return bt_fail(fault, BT_EARG, "token id %d at %zu: the vocabulary has %zu", ids[i], i, p->vocab);
    p->stats.runs++;
    for (size_t begin = 0; begin < n;) {
        const bt_shapes_chunk c = bt_shapes_next(&p->plan, pos0 + n, pos0 + begin);
        const chunk k = {.kv = kv,
                         .ids = ids + begin,
                         .pos = pos0 + begin,
                         .c = c,
                         .hooks = hooks,
                         .logits = out == BT_PREFILL_ALL ? logits + begin * p->vocab : logits,
                         .is_last = begin + c.valid == n,
                         .wants_all = out == BT_PREFILL_ALL};
        const bt_err e = p->exec ? run_npu(p, &k, fault) : run_host(p, &k, fault);
        if (e < 0) return e;
        p->stats.chunks++;
        p->stats.tokens += c.valid;
        begin += c.valid;
    }
    return BT_OK;
}

bt_prefill_stats bt_prefill_stats_of(const bt_prefill *p)
{
    bt_prefill_stats s = p->stats;
    if (p->exec) s.npu = bt_exec_stats_of(p->exec);
    return s;
}
