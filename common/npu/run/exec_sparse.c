/* Sparse attention of prompts. For each kv head K becomes panels of 8 bits, once for a call; then threads
 * take blocks of rows: q in 8 bits, their integer products with all keys that the rows see, the greatest of
 * each row and head, and exact attention to those. Every row is computed as if it were alone: what it keeps
 * depends on its own position, q and the stored keys. */
#include "npu/run/exec_private.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_PAIRS = 24, /* (row, head) pairs of a block: their scores stay in the second cache while contexts
                         are short */
    PANELS = 8,       /* of keys in a product */
};

/* Memory for the keys of a sequence, and of a thread. */
typedef struct layout {
    size_t ld, k4, d; /* bytes of a row of integers; groups of four of it */
    size_t keys;      /* positions, whole panels */
    size_t block_rows, pairs;
    size_t q, q_shift, inputs, is_left, product, score, choose, at, rest, bytes; /* of a thread, by offset */
} layout;

struct bt_exec_sparse {
    bt_estimate estimate;
    const bt_pkg_head *head; /* [layers, heads] */
    layout layout;
    int8_t *panel;   /* [kv heads, keys] */
    int32_t *colsum; /* [kv heads, keys] */
    uint8_t *shift;  /* [kv heads, keys] */
};

static size_t round_up(size_t n) { return (n + 63) / 64 * 64; }

static layout layout_of(const bt_pkg_header *h)
{
    const size_t group = h->heads / h->kv_heads, d = h->head_dim;
    layout l = {.ld = bt_estimate_ld(d), .k4 = bt_int_k4(d), .d = d,
                .keys = ((size_t)h->ctx_tokens + 15) / 16 * 16};
    l.block_rows = group < BLOCK_PAIRS ? BLOCK_PAIRS / group : 1;
    l.pairs = l.block_rows * group;
    l.q_shift = round_up(l.pairs * l.ld);
    l.inputs = l.q_shift + round_up(l.pairs);
    l.is_left = l.inputs + bt_int_inputs_bytes(l.pairs, d, false);
    l.product = l.is_left + round_up(l.pairs * sizeof(bool));
    l.score = l.product + BT_INT_MATMUL_SCRATCH_BYTES;
    l.choose = l.score + round_up(l.pairs * l.keys * sizeof(int32_t));
    l.at = l.choose + round_up((l.keys + 8) * sizeof(int32_t));
    l.rest = l.at + round_up((l.keys + 8) * sizeof(uint32_t)); /* of attention, or of the estimate */
    const size_t attention = bt_attn_scratch_bytes(d), estimate = bt_estimate_scratch_bytes(d);
    l.bytes = l.rest + round_up(attention > estimate ? attention : estimate);
    return l;
}

size_t bt_exec_sparse_scratch_bytes(const bt_pkg *pkg)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    return h->sparse_ppm ? layout_of(h).bytes : 0;
}

bt_err bt_exec_sparse_new(bt_exec_sparse **ret, const bt_pkg *pkg, const bt_kernels *kernels, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    const bt_pkg_rotation *r = &h->sparse_rotation;
    const size_t keys = layout_of(h).keys * h->kv_heads;
    bt_exec_sparse *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "sparse attention");
    s->estimate = (bt_estimate){
        kernels,
        {r->base, r->log2, bt_pkg_const_at(pkg, r->h_base), bt_pkg_const_at(pkg, r->sign), r->scale},
        h->head_dim};
    s->head = bt_pkg_const_at(pkg, h->sparse_heads);
    s->layout = layout_of(h);
    s->panel = aligned_alloc(64, round_up(keys * 4 * s->layout.k4));
    s->colsum = malloc(keys * sizeof *s->colsum);
    s->shift = malloc(keys);
    if (s->panel && s->colsum && s->shift) *ret = s;
    else {
        bt_exec_sparse_free(s);
        return bt_fail(fault, BT_ENOMEM, "sparse attention over %u positions", h->ctx_tokens);
    }
    return BT_OK;
}

void bt_exec_sparse_free(bt_exec_sparse *s)
{
    if (!s) return;
    free(s->panel);
    free(s->colsum);
    free(s->shift);
    free(s);
}

/* Rows of one sequence, at rising positions. */
typedef struct sparse_job {
    bt_exec_sparse *s;
    const bt_companion *c;
    const bt_kv_view *kv;
    size_t layer, heads, kv_heads, h0, h1; /* query heads that are wanted */
    const float *q;
    float *out;
    size_t ld, rows, pos; /* the first row's position */
    float scale;
    bt_pool_range left; /* panels of all kv heads; then blocks */
} sparse_job;

static size_t panels_of(const sparse_job *j) { return (j->pos + j->rows + 15) / 16; }

/* One panel of keys: positions from 16 * p on of kv head g. */
static void make_panel(const sparse_job *j, size_t g, size_t p, void *scratch)
{
    const bt_exec_sparse *s = j->s;
    const size_t seen = j->pos + j->rows, n = seen - 16 * p < 16 ? seen - 16 * p : 16,
                 at = g * s->layout.keys + 16 * p;
    const bt_pkg_head *head = &s->head[j->layer * j->heads + g * (j->heads / j->kv_heads)];
    int8_t key[16 * BT_MODEL_MAX_HEAD_DIM];
    bt_estimate_keys(&s->estimate, key, s->shift + at, j->kv, j->layer, g, 16 * p, head->k_scale, n, scratch);
    bt_int_pack_panel(s->panel + at * 4 * s->layout.k4, s->colsum + at, key, s->layout.ld, n, s->layout.k4);
}

static void panels_part(void *ud, size_t part, size_t parts)
{
    sparse_job *j = ud;
    const size_t panels = panels_of(j), group = j->heads / j->kv_heads, g0 = j->h0 / group;
    void *scratch = (uint8_t *)bt_companion_scratch(j->c, part) + j->s->layout.rest;
    (void)parts;
    for (size_t u, end; bt_pool_range_take(&j->left, &u, &end);)
        for (; u < end; u++) make_panel(j, g0 + u / panels, u % panels, scratch);
}

/* A block's rows, and heads of one kv head. */
typedef struct block {
    size_t g, h0, h1, first, rows;
} block;

/* Scores of all pairs of a block, [pairs, keys], pair = row * heads of the block + head. */
static void estimate(const sparse_job *j, const block *b, uint8_t *scratch)
{
    const bt_exec_sparse *s = j->s;
    const layout *l = &s->layout;
    const size_t width = b->h1 - b->h0, pairs = b->rows * width, at = b->g * l->keys,
                 panels = (j->pos + b->first + b->rows + 15) / 16;
    int8_t *q = (int8_t *)(scratch + l->q);
    for (size_t row = 0; row < b->rows; row++)
        for (size_t i = 0; i < width; i++)
            bt_estimate_rows(&s->estimate, q + (row * width + i) * l->ld,
                             scratch + l->q_shift + row * width + i,
                             j->q + (b->first + row) * j->ld + (b->h0 + i) * l->d, l->d,
                             s->head[j->layer * j->heads + b->h0 + i].q_scale, 1, scratch + l->rest);
    const bt_int_inputs in = {.memory = scratch + l->inputs, .rows = pairs, .k4 = l->k4};
    const bt_int_rows rows = {.hi = q, .ld = l->ld, .k = l->d};
    int32_t *score = (int32_t *)(void *)(scratch + l->score);
    j->c->kernels->int_prepare(&in, 0, pairs, &rows, (bool *)(scratch + l->is_left));
    for (size_t p = 0; p < panels; p += PANELS)
        j->c->kernels->int_matmul(score + 16 * p, NULL, l->keys, &in, 0, pairs, s->panel + at * 4 * l->k4,
                                  s->colsum + at, p, p + PANELS < panels ? p + PANELS : panels,
                                  scratch + l->product);
}

static void attend_block(const sparse_job *j, const block *b, uint8_t *scratch)
{
    const bt_exec_sparse *s = j->s;
    const layout *l = &s->layout;
    const size_t width = b->h1 - b->h0;
    uint32_t *at = (uint32_t *)(void *)(scratch + l->at);
    estimate(j, b, scratch);
    for (size_t row = 0; row < b->rows; row++)
        for (size_t h = b->h0; h < b->h1; h++) {
            const size_t seen = j->pos + b->first + row + 1, to = (b->first + row) * j->ld + h * l->d;
            const size_t k = bt_attention_keeps(s->head[j->layer * j->heads + h].ppm, (uint32_t)seen);
            int32_t *score = (int32_t *)(void *)(scratch + l->score) + (row * width + h - b->h0) * l->keys;
            j->c->kernels->int_topk(at, k, score, s->shift + b->g * l->keys, seen,
                                    (int32_t *)(void *)(scratch + l->choose));
            const bt_attn_list list = {at, k, 1, 1};
            j->c->kernels->attn_some(j->out + to, j->ld, j->q + to, j->ld, j->kv, j->layer, b->g, &list,
                                     j->scale, scratch + l->rest);
        }
}

static size_t blocks_of(const sparse_job *j)
{
    return (j->rows + j->s->layout.block_rows - 1) / j->s->layout.block_rows;
}

/* From the last rows, which cost most, to the first. */
static void blocks_part(void *ud, size_t part, size_t parts)
{
    sparse_job *j = ud;
    const size_t group = j->heads / j->kv_heads, g0 = j->h0 / group, heads = (j->h1 - 1) / group + 1 - g0,
                 most = j->s->layout.block_rows;
    (void)parts;
    for (size_t u, end; bt_pool_range_take(&j->left, &u, &end);) {
        block b = {.g = g0 + u % heads, .first = (blocks_of(j) - 1 - u / heads) * most};
        b.rows = j->rows - b.first < most ? j->rows - b.first : most;
        b.h0 = b.g * group > j->h0 ? b.g * group : j->h0;
        b.h1 = (b.g + 1) * group < j->h1 ? (b.g + 1) * group : j->h1;
        attend_block(j, &b, bt_companion_scratch(j->c, part));
    }
}

static void attend(sparse_job *j)
{
    const size_t group = j->heads / j->kv_heads, heads = (j->h1 - 1) / group + 1 - j->h0 / group;
    bt_pool *pool = bt_companion_pool_for(j->c, j->rows * (j->h1 - j->h0) * (j->pos + j->rows));
    bt_pool_range_init(&j->left, panels_of(j) * heads, 8);
    bt_pool_run(pool, panels_part, j);
    bt_pool_range_init(&j->left, blocks_of(j) * heads, 1);
    bt_pool_run(pool, blocks_part, j);
}

/* What rows at positions [pos, pos + rows) keep, of the heads of the slice. */
static uint64_t kept(const bt_exec_sparse *s, const bt_pkg_header *h, size_t layer, const bt_pkg_slice *slice,
                     size_t pos, size_t rows)
{
    uint64_t sum = 0;
    for (size_t i = slice->head; i < slice->head + slice->heads; i++)
        for (size_t at = pos; at < pos + rows; at++)
            sum += bt_attention_keeps(s->head[layer * h->heads + i].ppm, (uint32_t)at + 1);
    return sum;
}

size_t bt_exec_sparse_rows(bt_exec_job *j, const bt_pkg_inst *i, const bt_pkg_slice *slice,
                           const bt_exec_part *p, const bt_kv_view *kv)
{
    const bt_exec *x = j->x;
    const bt_pkg_header *h = x->header;
    const size_t dense = p->pos < h->sparse_dense_rows ? h->sparse_dense_rows - p->pos : 0,
                 first = dense < p->real ? dense : p->real, ld = bt_exec_ld_out(i, sizeof(float));
    if (slice->head == 0 && i->layer == 0) {
        j->x->stats.dense_rows += first;
        j->x->stats.sparse_rows += p->real - first;
    }
    if (first == p->real) return first;
    sparse_job job = {.s = x->sparse,
                      .c = &x->companion,
                      .kv = kv,
                      .layer = i->layer,
                      .heads = h->heads,
                      .kv_heads = h->kv_heads,
                      .h0 = slice->head,
                      .h1 = slice->head + slice->heads,
                      .q = (const float *)bt_exec_at(j, i->in0) + (p->row + first) * ld,
                      .out = (float *)bt_exec_at(j, i->out) + (p->row + first) * ld,
                      .ld = ld,
                      .rows = p->real - first,
                      .pos = p->pos + first,
                      .scale = h->attn_scale};
    bt_companion_flush(&x->companion);
    attend(&job);
    for (size_t row = p->real; row < p->rows; row++) /* padding attends to nothing */
        memset((float *)bt_exec_at(j, i->out) + (p->row + row) * ld + slice->head * h->head_dim, 0,
               slice->heads * h->head_dim * sizeof(float));
    const uint64_t seen = (uint64_t)job.rows * job.pos + (uint64_t)job.rows * (job.rows + 1) / 2;
    j->x->stats.npu_macs += seen * slice->heads * h->head_dim;
    bt_exec_count_macs(j, i, 2 * h->head_dim * kept(x->sparse, h, i->layer, slice, job.pos, job.rows));
    return first;
}
