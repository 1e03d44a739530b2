/* Chunk after chunk through the table of programs. The only file of the prefill side that knows what executes them. */
#include "npu/prefill.h"
#include "graph/host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct bt_prefill {
    bt_graph *graph;
    bt_programs *programs;
    bt_host *host; /* what runs the programs */
    bt_plan plan;
    void *arena;  /* programs->arena_bytes, mapped: pages of shapes never used cost nothing */
    int32_t *ids; /* [longest seq] */
    size_t vocab;
    bt_prefill_stats stats;
};

bt_err bt_prefill_new(bt_prefill **ret, const bt_packed *packed, const bt_kernels *kernels, bt_pool *pool,
                      const bt_prefill_options *options, bt_fault *fault)
{
    const bt_hparams *hp = &bt_packed_model(packed)->hp;
    bt_plan plan;
    bt_err e = bt_plan_parse(&plan, options->shape_policy, options->ctx_tokens, fault);
    if (e < 0) return e;
    if (options->ctx_tokens > bt_packed_ctx_tokens(packed))
        return bt_fail(fault, BT_EARG, "context of %zu tokens, weights packed for %zu", options->ctx_tokens,
                       bt_packed_ctx_tokens(packed));
    bt_prefill *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "making a prefill engine");
    p->plan = plan;
    p->vocab = hp->vocab;
    if ((e = bt_graph_build(&p->graph, hp, NULL, fault)) < 0) goto out;
    if ((e = bt_programs_new(&p->programs, p->graph, &plan, options->ctx_tokens, fault)) < 0) goto out;
    if ((e = bt_host_new(&p->host, packed, NULL, kernels, pool, fault)) < 0) goto out;
    p->ids = calloc(p->programs->row[p->programs->rows - 1].seq, sizeof *p->ids);
    if (!p->ids) {
        e = bt_fail(fault, BT_ENOMEM, "making a prefill engine");
        goto out;
    }
    p->arena = mmap(NULL, p->programs->arena_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p->arena == MAP_FAILED) {
        p->arena = NULL;
        e = bt_fail(fault, BT_ENOMEM, "arena of %zu bytes: %s", p->programs->arena_bytes, strerror(errno));
        goto out;
    }
    *ret = p;
    p = NULL;
out:
    bt_prefill_free(p);
    return e;
}

void bt_prefill_free(bt_prefill *p)
{
    if (!p) return;
    if (p->arena) (void)munmap(p->arena, p->programs->arena_bytes);
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

static bt_err run_chunk(bt_prefill *p, const bt_kv_view *kv, const int32_t *ids, size_t pos, bt_plan_chunk c,
                        const bt_prefill_hooks *hooks, float *logits, bt_programs_out ending, bt_fault *fault)
{
    const bt_programs_row *row;
    const bt_err e = bt_programs_find(&row, p->programs, c.rows, pos + c.valid, fault);
    if (e < 0) return e;
    memcpy(p->ids, ids, c.valid * sizeof *ids);
    memset(p->ids + c.valid, 0xff, (row->seq - c.valid) * sizeof *ids); /* -1: no token */
    p->stats.rows += row->seq;
    relay r = {hooks, pos, c.valid};
    const bt_host_seq seq = {.kv = kv, .pos0 = pos, .valid = c.valid};
    const bt_host_io io = {
        .ids = p->ids,
        .seq = &seq,
        .logits = logits,
        .on_kv = hooks && hooks->on_kv ? relay_kv : NULL,
        .on_kv_ud = &r,
        .cancel = hooks ? hooks->cancel : NULL,
    };
    return bt_host_run(p->host, row->program[ending], p->arena, &io, fault);
}

bt_err bt_prefill_run(bt_prefill *p, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                      const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault)
{
    const size_t ctx = p->programs->ctx_tokens;
    if (n < 1 || !logits)
        return bt_fail(fault, BT_EARG, "prefill of %zu tokens: at least one, and room for logits", n);
    if (pos0 > ctx || n > ctx - pos0)
        return bt_fail(fault, BT_ELIMIT, "%zu tokens from position %zu: the context holds %zu", n, pos0, ctx);
    for (size_t i = 0; i < n; i++) /* before any row is written, not in the chunk that meets it */
        if (ids[i] < 0 || (size_t)ids[i] >= p->vocab)
            return bt_fail(fault, BT_EARG, "token id %d at %zu: the vocabulary has %zu", ids[i], i, p->vocab);
    p->stats.runs++;
    for (size_t begin = 0; begin < n;) {
        const bt_plan_chunk c = bt_plan_next(&p->plan, pos0 + n, pos0 + begin);
        const bool is_last = begin + c.valid == n;
        const bt_programs_out ending = out == BT_PREFILL_ALL ? BT_PROGRAMS_OUT_ALL
                                       : is_last             ? BT_PROGRAMS_OUT_LAST
                                                             : BT_PROGRAMS_OUT_NONE;
        float *to = out == BT_PREFILL_ALL ? logits + begin * p->vocab : logits;
        const bt_err e = run_chunk(p, kv, ids + begin, pos0 + begin, c, hooks, to, ending, fault);
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
    s.compilations = p->programs->compilations;
    return s;
}

const bt_programs *bt_prefill_programs(const bt_prefill *p) { return p->programs; }
