/* Any bytes as a package: refused, or a package that can be run. An input that begins with the magic is a
 * file; any other changes one of the small valid packages: a byte that says which, then changes of a width, a
 * place and that many bytes. One that changes nothing is accepted and run, so that all of them are valid.
 * Hashes and digest are made right, so that the check behind them is reached. An accepted package is run with
 * exactly the memory that it says it needs, and gives the same logits with every instruction set. */
#include "kernels/kernels.h"
#include "model/quant.h"
#include "npu/run/exec.h"
#include "npu/pkg/pkg.h"
#include "npu/pkg/pkg_private.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/model/tiny_gguf.h"
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
/* Packages that the compiler makes of small models: layers with windows and without, sinks, soft caps,
 * experts, biases, embeddings in MXFP4; operators in 16-bit floats beside integers and on the companion. */
static const struct {
    const char *arch;
    uint32_t ops, layers, window;
    uint64_t floats, lacks; /* of the profile, by bt_op_kind */
} made[] = {
    {"gpt-oss", BT_PKG_OPS_LINEAR, 1, 3, 0, 0},
    {"gpt-oss", BT_PKG_OPS_ALL, 2, 3, 0, 0},
    {"gemma3", BT_PKG_OPS_LINEAR, 6, 3, 0, 0},
    {"gemma2", BT_PKG_OPS_ALL, 2, 3, 0, 0},
    {"mixtral", BT_PKG_OPS_ALL, 1, 3, 0, 0},
    {"starcoder2", BT_PKG_OPS_ALL, 1, 0, UINT64_MAX, 0},
    {"qwen3", BT_PKG_OPS_ALL, 1, 0, 1ull << BT_OP_ROPE | 1ull << BT_OP_ADD,
     1ull << BT_OP_LINEAR | 1ull << BT_OP_RMSNORM | 1ull << BT_OP_ATTENTION},
};
enum {
    BY_HAND = sizeof kinds / sizeof *kinds,
    KINDS = BY_HAND + sizeof made / sizeof *made,
    MOST_BYTES = 1 << 20
};

static uint8_t *compiled(size_t *ret_len, size_t i)
{
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = made[i].arch;
    s.layers = made[i].layers;
    if (strcmp(s.arch, "gpt-oss") == 0) s.type = BT_QUANT_MXFP4;
    s.dim = s.ffn = 32;
    s.heads = 2;
    s.kv_heads = 1;
    s.head_dim = 16;
    s.vocab = 20;
    s.ctx = 8;
    s.window = made[i].window;
    s.no_tokenizer = true;
    engine_kit kit = engine_kit_of(&s);
    bt_profile p;
    bt_compile_options o = {.npu_ops = made[i].ops, .shape_policy = "chunk:2", .ctx_tokens = s.ctx,
                            .profile = &p};
    if (bt_profile_load(&p, NULL, NULL) < 0 || bt_recipe_parse(&o.recipe, "w8a8:clip=max", NULL) < 0) abort();
    for (size_t k = 0; k < BT_OP_KINDS; k++)
        if (made[i].lacks >> k & 1) p.op[k] = 0;
        else if (p.op[k] && made[i].floats >> k & 1) p.op[k] = BT_PROFILE_FLOAT16;
    uint8_t *b = npu_kit_bytes(ret_len, kit.model, &o);
    engine_kit_done(&kit);
    return b;
}

static uint8_t *patched(size_t *ret_len, const uint8_t *data, size_t len)
{
    static uint8_t *base[KINDS];
    static size_t base_len[KINDS];
    const size_t kind = (len ? data[0] : 0u) % KINDS;
    if (!base[kind])
        base[kind] = kind < BY_HAND ? tiny_pkg_bytes(&base_len[kind], &kinds[kind])
                                    : compiled(&base_len[kind], kind - BY_HAND);
    *ret_len = base_len[kind];
    return tiny_pkg_patched(base[kind], *ret_len, data, len);
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

/* False: it takes more than is worth a run. */
static bool run(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    if (h->arena_bytes > MOST_BYTES || h->max_seq > 64 || h->ctx_tokens > 4096 ||
        (uint64_t)h->max_seq * h->vocab > MOST_BYTES ||
        (uint64_t)h->ctx_tokens * h->layers * h->kv_heads * h->head_dim > MOST_BYTES)
        return false;
    const size_t most = 4 * ((size_t)h->max_seq + 1) * h->vocab;
    outcome best = {calloc(most, sizeof(float)), 0}, ref = {calloc(most, sizeof(float)), 0};
    if (!best.at || !ref.at) abort();
    run_with(p, NULL, &best);
    run_with(p, "ref", &ref);
    if (!is_same(&best, &ref)) abort();
    free(ref.at);
    free(best.at);
    return true;
}

static bool open_and_run(const uint8_t *b, size_t len)
{
    bt_pkg *p = NULL;
    const bt_pkg_row *r = NULL;
    if (bt_pkg_from_bytes(&p, b, len, NULL, true, NULL, NULL) < 0) return false;
    (void)bt_pkg_find_row(&r, p, 1, 7, 7, NULL);
    const bool ran = run(p);
    bt_pkg_close(p);
    return ran;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t *b;
    bool is_valid = false;
    if (len >= 8 && memcmp(data, BT_PKG_MAGIC, 8) == 0) {
        b = tiny_pkg_alloc(len);
        memcpy(b, data, len);
        (void)open_and_run(b, len);
    } else {
        is_valid = len < TINY_PKG_PATCH;
        b = patched(&len, data, len);
    }
    tiny_pkg_repair(b, len);
    if (!open_and_run(b, len) && is_valid) abort();
    free(b);
    return 0;
}
