/* Any bytes as a package: refused, or a package that can be run. An input that begins with the magic is a
 * file; any other changes one of the small valid packages: a byte that says which, then changes of a width, a
 * place and that many bytes. Hashes and digest are made right, so that the check behind them is reached. An
 * accepted package is run with exactly the memory that it says it needs, and gives the same logits with every
 * instruction set. */
#include "kernels/kernels.h"
#include "npu/run/exec.h"
#include "npu/pkg/pkg.h"
#include "npu/pkg/pkg_private.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define SMALL .layers = 1, .dim = 8, .ffn = 8, .heads = 2, .kv_heads = 1, .head_dim = 4, .vocab = 6, .ctx = 8
#define GROUPED \
    .layers = 1, .dim = 32, .ffn = 64, .heads = 2, .kv_heads = 1, .head_dim = 16, .vocab = 6, .ctx = 8, \
    .group = 32
static const tiny_pkg kinds[] = {
    {SMALL, .seqs = {2}},
    {SMALL, .rotate = true, .bits = 4, .seqs = {1, 3}},
    {SMALL, .ops_all = true, .rotate = true, .seqs = {2}},
    {SMALL, .llm_int8 = true, .seqs = {3}},
    {SMALL, .ops_all = true, .packed = true, .two_sessions = true, .seqs = {1, 2}},
    {.layers = 1, .laid_out = true, .rotate = true, .seqs = {5}},
    {.layers = 1, .laid_out = true, .ops_all = true, .seqs = {3}},
    {GROUPED, .bits = 4, .rotate = true, .seqs = {2}},
    {GROUPED, .ops_all = true, .seqs = {2}},
    {SMALL, .long_recipe = true, .seqs = {2}},
};
enum { KINDS = sizeof kinds / sizeof *kinds, MOST_BYTES = 1 << 20 };

static uint8_t *patched(size_t *ret_len, const uint8_t *data, size_t len)
{
    static uint8_t *base[KINDS];
    static size_t base_len[KINDS];
    const size_t kind = (len ? data[0] : 0u) % KINDS;
    if (!base[kind]) base[kind] = tiny_pkg_bytes(&base_len[kind], &kinds[kind]);
    const size_t n = base_len[kind];
    uint8_t *b = tiny_pkg_alloc(n);
    memcpy(b, base[kind], n);
    for (size_t i = 1; i + 3 < len;) {
        const size_t width = (size_t)1 << (data[i] & 3), at = (data[i + 1] | (size_t)data[i + 2] << 8) % n;
        i += 3;
        for (size_t k = 0; k < width && i < len && at + k < n; k++) b[at + k] = data[i++];
    }
    *ret_len = n;
    return b;
}

/* Pages of 16 tokens, each a heap block of its exact size. */
static bt_kv_view new_pages(const bt_pkg_header *h)
{
    const size_t head = h->head_dim * 2u, token = h->kv_heads * head, pages = (h->ctx_tokens + 15) / 16;
    uint8_t **page = calloc(pages, sizeof *page);
    for (size_t i = 0; page && i < pages; i++)
        if (!(page[i] = calloc(1, h->layers * 2 * 16 * token))) abort();
    if (!page) abort();
    return (bt_kv_view){.page = page,
                        .page_tokens = 16,
                        .tokens_capacity = pages * 16,
                        .layer_bytes = 2 * 16 * token,
                        .plane_bytes = 16 * token,
                        .token_bytes = token,
                        .head_bytes = head,
                        .elem_bytes = 2,
                        .layers = h->layers,
                        .kv_heads = h->kv_heads,
                        .head_dim = h->head_dim};
}

/* The results of one instruction set: logits after logits. */
typedef struct outcome {
    float *at;
    size_t count;
} outcome;

static void keep(outcome *o, const float *logits, size_t n)
{
    memcpy(o->at + o->count, logits, n * sizeof *logits);
    o->count += n;
}

static void run_row(bt_exec *x, const bt_pkg *p, const bt_pkg_row *r, const bt_kv_view *kv, outcome *o)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const size_t valid = r->seq < r->ctx ? r->seq : r->ctx, rows = (size_t)r->batch * r->seq;
    int32_t *ids = calloc(valid, sizeof *ids);
    float *logits = calloc(rows * h->vocab, sizeof *logits);
    bt_exec_seq *seq = calloc(r->batch, sizeof *seq);
    if (!ids || !logits || !seq) abort();
    /* all store the same tokens at the same positions of one view; of more than two the last is padding */
    for (size_t b = 0; b < r->batch; b++) seq[b] = (bt_exec_seq){.ids = ids, .kv = kv, .valid = valid};
    const size_t seqs = r->batch > 2 ? r->batch - 1 : r->batch;
    for (int out = 0; out < BT_PKG_OUTS; out++) {
        void *arena = tiny_pkg_alloc((size_t)bt_pkg_programs(p)[r->program[out]].arena_bytes);
        const bt_exec_io io = {.seq = seq, .seqs = seqs, .rows = r->seq, .logits = logits};
        (void)bt_exec_run(x, r, (bt_pkg_out)out, arena, &io, NULL);
        free(arena);
        keep(o, logits,
             out == BT_PKG_OUT_NONE
                 ? 0
                 : (out == BT_PKG_OUT_LAST ? seqs : (seqs - 1) * r->seq + valid) * h->vocab);
    }
    free(seq);
    free(logits);
    free(ids);
}

static void run_with(const bt_pkg *p, const char *isa, outcome *o)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    bt_exec *x = NULL;
    if (bt_exec_new(&x, p, bt_kernels_select(isa), NULL, NULL) < 0) return;
    bt_kv_view kv = new_pages(h);
    for (uint32_t i = 0; i < h->rows.count && i < 2; i++) run_row(x, p, &bt_pkg_rows(p)[i], &kv, o);
    for (size_t i = 0; i < kv.tokens_capacity / 16; i++) free(kv.page[i]);
    free((void *)(uintptr_t)kv.page);
    bt_exec_free(x);
}

/* The kind of a NaN may differ. */
static bool is_same(const outcome *a, const outcome *b)
{
    bool is = a->count == b->count;
    for (size_t i = 0; is && i < a->count; i++)
        is = (isnan(a->at[i]) && isnan(b->at[i])) || memcmp(&a->at[i], &b->at[i], sizeof *a->at) == 0;
    return is;
}

static void run(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    if (h->arena_bytes > MOST_BYTES || h->max_seq > 64 || h->ctx_tokens > 4096 ||
        (uint64_t)h->max_seq * h->vocab > MOST_BYTES ||
        (uint64_t)h->ctx_tokens * h->layers * h->kv_heads * h->head_dim > MOST_BYTES)
        return;
    const size_t most = 4 * ((size_t)h->max_seq + 1) * h->vocab;
    outcome best = {calloc(most, sizeof(float)), 0}, ref = {calloc(most, sizeof(float)), 0};
    if (!best.at || !ref.at) abort();
    run_with(p, NULL, &best);
    run_with(p, "ref", &ref);
    if (!is_same(&best, &ref)) abort();
    free(ref.at);
    free(best.at);
}

static void open_and_run(const uint8_t *b, size_t len)
{
    bt_pkg *p = NULL;
    const bt_pkg_row *r = NULL;
    if (bt_pkg_from_bytes(&p, b, len, NULL, true, NULL, NULL) < 0) return;
    (void)bt_pkg_find_row(&r, p, 1, 7, 7, NULL);
    run(p);
    bt_pkg_close(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t *b;
    if (len >= 8 && memcmp(data, BT_PKG_MAGIC, 8) == 0) {
        b = tiny_pkg_alloc(len);
        memcpy(b, data, len);
        open_and_run(b, len);
    } else {
        b = patched(&len, data, len);
    }
    tiny_pkg_repair(b, len);
    open_and_run(b, len);
    free(b);
    return 0;
}
