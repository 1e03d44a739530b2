/* Sparse attention of prompts, KV head by KV head in the order of a plan (device/heads.h). For each KV head
 * threads first make panels of 8 bits of K, once for a call. Then they take blocks of rows: q in 8 bits, the
 * integer products of q with all keys that the rows see (the estimate), the greatest products of each row and
 * head (the choice), and exact attention to the chosen positions, a few rows at once over all positions that
 * any of them chose. Threads meet only at the end: a thread that finds no block of a head makes panels of the
 * next head. So a head's keys and values stay in the caches while its blocks last.
 *
 * Rows, and heads of a KV head, share a choice where the package says so. Rows share in blocks that begin at
 * multiples of their size: the first row chooses, and each row adds the block's positions up to its own. The
 * positions that a row keeps depend only on its position, the choosing q and the stored keys. */
#include "device/heads.h"
#include "npu/run/exec_private.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_CHOICES = 48, /* choices of a block: 16 rows of three heads, or more rows of fewer heads */
    PANELS = 8,         /* panels of keys in one product */
    UNION_ROWS = 16,    /* rows whose own choices are marked together; all or some of them attend at once */
    STRIDE = 32,        /* one of so many positions is counted to decide how many rows attend at once */
    PIECE = 8,          /* panels that a thread makes at a time */
};
_Static_assert((int)BT_MODEL_MAX_HEADS <= (int)BT_HEADS_MAX, "a plan has room for every head");
/* For the plan alone, in picoseconds: a key made into its panel, a score estimated and ranked, a score
 * attended to (an AVX2 core at 3 GHz; `baton bench --kernels`). No bit depends on them. */
enum { KEY_PS = 90000, SCORE_PS = 1500, KEPT_PS = 14000 };
/* The cost of a position to which rows attend at once, in one relative unit: to gather it; its scores and
 * weights, for each vector of 16 pairs; its values, for each pair. No bit depends on them. */
enum { GATHER_COST = 32, SCORE_COST = 48, VALUE_COST = 2 };

/* The memory of a sequence's keys, and of a thread's scratch. */
typedef struct layout {
    size_t ld, k4, d; /* bytes of a row of 8-bit integers; its groups of four; elements of a head */
    size_t keys;      /* positions, rounded up to whole panels of 16 */
    size_t as_one;    /* rows that share a choice */
    size_t block_rows, choices;
    /* byte offsets in the scratch of a thread, and all its bytes */
    size_t q, q_shift, inputs, is_left, product, score, choose, at, marks, rest, bytes;
} layout;

struct bt_exec_sparse {
    bt_estimate estimate;
    bt_attention attention;
    const bt_pkg_head *head; /* [layers, heads] */
    layout layout;
    int8_t *panel;   /* [kv heads, keys / 16]: panels of 16 keys */
    int32_t *colsum; /* [kv heads, keys]: as bt_int_pack_panel gives it */
    uint8_t *shift;  /* [kv heads, keys]: as bt_estimate_keys gives it */
};

static size_t round_up(size_t n) { return (n + 63) / 64 * 64; }

static layout layout_of(const bt_attention *a, size_t group, size_t d, size_t ctx_tokens)
{
    const size_t of_row = a->is_group ? 1 : group;
    layout l = {.ld = bt_estimate_ld(d), .k4 = bt_int_k4(d), .d = d, .keys = (ctx_tokens + 15) / 16 * 16,
                .as_one = a->rows};
    /* a block has no more rows where rows share choices, so that many threads find blocks */
    l.block_rows = BLOCK_CHOICES / of_row / a->rows * a->rows;
    if (l.block_rows < a->rows) l.block_rows = a->rows;
    l.choices = l.block_rows / a->rows * of_row;
    l.q_shift = round_up(l.choices * l.ld);
    l.inputs = l.q_shift + round_up(l.choices);
    l.is_left = l.inputs + bt_int_inputs_bytes(l.choices, d, false);
    l.product = l.is_left + round_up(l.choices * sizeof(bool));
    l.score = l.product + BT_INT_MATMUL_SCRATCH_BYTES;
    l.choose = l.score + round_up(l.choices * l.keys * sizeof(int32_t));
    l.at = l.choose + round_up(l.keys * sizeof(int32_t));
    l.marks = l.at + round_up((l.keys + BT_TOPK_ROOM + a->rows) * sizeof(uint32_t));
    l.rest = l.marks + round_up((2 * l.keys + 1) * sizeof(uint16_t)); /* attention's or the estimate's */
    const size_t attention = bt_attn_scratch_bytes(d), estimate = bt_estimate_scratch_bytes(d);
    l.bytes = l.rest + round_up(attention > estimate ? attention : estimate);
    return l;
}

uint64_t bt_exec_sparse_bytes(uint64_t *ret_thread, const bt_attention *a, size_t heads, size_t kv_heads,
                              size_t head_dim, size_t ctx_tokens)
{
    *ret_thread = 0;
    if (!a->ratio_ppm) return 0;
    const layout l = layout_of(a, heads / kv_heads, head_dim, ctx_tokens);
    const uint64_t key = 4 * l.k4 + sizeof(int32_t) + sizeof(uint8_t);
    *ret_thread = l.bytes;
    return (uint64_t)kv_heads * l.keys * key;
}

bt_err bt_exec_sparse_new(bt_exec_sparse **ret, const bt_pkg *pkg, const bt_kernels *kernels, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    const bt_pkg_rotation *r = &h->sparse_rotation;
    const bt_attention a = bt_attention_of(h);
    const layout l = layout_of(&a, h->heads / h->kv_heads, h->head_dim, h->ctx_tokens);
    const size_t keys = l.keys * h->kv_heads;
    bt_exec_sparse *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory for sparse attention");
    s->estimate = (bt_estimate){
        kernels,
        {r->base, r->log2, bt_pkg_const_at(pkg, r->h_base), bt_pkg_const_at(pkg, r->sign), r->scale},
        h->head_dim};
    s->attention = a;
    s->head = bt_pkg_const_at(pkg, h->sparse_heads);
    s->layout = l;
    s->panel = aligned_alloc(64, round_up(keys * 4 * s->layout.k4));
    s->colsum = malloc(keys * sizeof *s->colsum);
    s->shift = malloc(keys);
    if (s->panel && s->colsum && s->shift) *ret = s;
    else {
        bt_exec_sparse_free(s);
        return bt_fail(fault, BT_ENOMEM, "out of memory for sparse attention over %u positions",
                       h->ctx_tokens);
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

/* One call: rows of one sequence at successive positions. */
typedef struct sparse_job {
    bt_exec_sparse *s;
    const bt_companion *c;
    const bt_kv_view *kv;
    size_t layer, heads, kv_heads, h0, h1; /* query heads [h0, h1) of the slice */
    const float *q;
    float *out;
    size_t ld, rows, pos; /* the first row's position */
    float scale;
    bt_heads_plan plan;                     /* order of the KV heads, counted from h0's */
    size_t pieces, blocks;                  /* of a KV head: pieces of PIECE panels; blocks of rows */
    bt_pool_range left;                     /* pieces and blocks of all KV heads that are not taken */
    atomic_size_t made[BT_MODEL_MAX_HEADS]; /* finished pieces, by place in the plan */
} sparse_job;

static size_t panels_of(const sparse_job *j) { return (j->pos + j->rows + 15) / 16; }

/* Makes one panel of keys: positions from 16 * p on of KV head g. */
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

static void make_panels(sparse_job *j, size_t place, size_t piece, void *scratch)
{
    const size_t g = j->h0 / (j->heads / j->kv_heads) + j->plan.order[place], panels = panels_of(j),
                 end = (piece + 1) * PIECE < panels ? (piece + 1) * PIECE : panels;
    for (size_t p = piece * PIECE; p < end; p++) make_panel(j, g, p, scratch);
    atomic_fetch_add_explicit(&j->made[place], 1, memory_order_release);
}

/* Rows [first, first + rows) of the call and query heads [h0, h1) of KV head g. Rows that share a choice lie
 * in one block. */
typedef struct block {
    size_t g, h0, h1, first, rows;
} block;

/* How many choices a row has for a KV head: one where its heads choose together, else one for each head. */
static size_t choosers(const sparse_job *j) { return j->s->attention.is_group ? 1 : j->heads / j->kv_heads; }

/* How many rows of the block, from `row` on, share `row`'s choice. */
static size_t together(const sparse_job *j, const block *b, size_t row)
{
    const size_t as_one = j->s->layout.as_one, n = as_one - (j->pos + b->first + row) % as_one;
    return n < b->rows - row ? n : b->rows - row;
}

/* Makes the q in 8 bits of all choices of a block, by rows, then heads. Returns how many. */
static size_t choices(const sparse_job *j, const block *b, uint8_t *scratch)
{
    const bt_exec_sparse *s = j->s;
    const layout *l = &s->layout;
    const size_t group = j->heads / j->kv_heads, h0 = b->g * group, of_row = choosers(j);
    float sum[BT_MODEL_MAX_HEAD_DIM];
    size_t n = 0;
    for (size_t row = 0; row < b->rows; row += together(j, b, row))
        for (size_t i = 0; i < of_row; i++, n++) {
            const float *q = j->q + (b->first + row) * j->ld + (h0 + i) * l->d;
            if (of_row < group) bt_estimate_sum(sum, q, l->d, group);
            bt_estimate_rows(&s->estimate, (int8_t *)scratch + l->q + n * l->ld, scratch + l->q_shift + n,
                             of_row < group ? sum : q, l->d, s->head[j->layer * j->heads + h0 + i].q_scale, 1,
                             scratch + l->rest);
        }
    return n;
}

/* Estimates the scores of all choices of a block: [choices, keys]. */
static void estimate(const sparse_job *j, const block *b, uint8_t *scratch)
{
    const bt_exec_sparse *s = j->s;
    const layout *l = &s->layout;
    const size_t n = choices(j, b, scratch), at = b->g * l->keys,
                 panels = (j->pos + b->first + b->rows + 15) / 16;
    const bt_int_inputs in = {.memory = scratch + l->inputs, .rows = n, .k4 = l->k4};
    const bt_int_rows rows = {.hi = (int8_t *)scratch + l->q, .ld = l->ld, .k = l->d};
    int32_t *score = (int32_t *)(void *)(scratch + l->score);
    j->c->kernels->int_prepare(&in, 0, n, &rows, (bool *)(scratch + l->is_left));
    for (size_t p = 0; p < panels; p += PANELS)
        j->c->kernels->int_matmul(score + 16 * p, NULL, l->keys, &in, 0, n, s->panel + at * 4 * l->k4,
                                  s->colsum + at, p, p + PANELS < panels ? p + PANELS : panels,
                                  scratch + l->product);
}

/* Lists the positions of choice c, for head h of a row that sees `seen` positions. Returns how many. */
static size_t choose(const sparse_job *j, const block *b, size_t seen, size_t h, size_t c, uint8_t *scratch)
{
    const bt_exec_sparse *s = j->s;
    const layout *l = &s->layout;
    const size_t count = bt_attention_keeps(s->head[j->layer * j->heads + h].ppm, (uint32_t)seen);
    j->c->kernels->int_topk((uint32_t *)(void *)(scratch + l->at), count,
                            (int32_t *)(void *)(scratch + l->score) + c * l->keys, s->shift + b->g * l->keys,
                            seen, (int32_t *)(void *)(scratch + l->choose));
    return count;
}

/* Attends for rows of the block from `row` on and heads [h, h + width) over a list, as many heads at once as
 * may share one. */
static void attend_list(const sparse_job *j, const block *b, size_t row, const bt_attn_list *list, size_t h,
                        uint8_t *scratch)
{
    const size_t most = BT_ATTN_SHARED_PAIRS / list->rows;
    for (size_t i = 0; i < list->width; i += most) {
        bt_attn_list part = *list;
        const size_t to = (b->first + row) * j->ld + (h + i) * j->s->layout.d;
        part.width = list->width - i < most ? list->width - i : most;
        j->c->kernels->attn_some(j->out + to, j->ld, j->q + to, j->ld, j->kv, j->layer, b->g, &part, j->scale,
                                 scratch + j->s->layout.rest);
    }
}

/* Attends for rows [row, row + n), which share the choice of the first; each adds the positions up to its
 * own. */
static void attend_together(const sparse_job *j, const block *b, size_t row, size_t n, size_t h, size_t width,
                            size_t c, uint8_t *scratch)
{
    const size_t seen = j->pos + b->first + row + 1;
    uint32_t *at = (uint32_t *)(void *)(scratch + j->s->layout.at);
    size_t count = choose(j, b, seen, h, c, scratch);
    for (size_t own = seen; own + 1 < seen + n; own++) at[count++] = (uint32_t)own;
    attend_list(j, b, row, &(bt_attn_list){at, count, n, width, NULL}, h, scratch);
}

/* How many of n rows, which each choose for themselves, attend at once. With more rows a key is gathered less
 * often, but more of the rows have not chosen it. The candidates are one row, and as many as fill one, two or
 * three vectors with `width` heads of each. Costs are counted on one position of STRIDE. */
static size_t rows_at_once(const uint16_t *marks, size_t seen, size_t n, size_t width)
{
    size_t best = 1;
    uint64_t least = UINT64_MAX;
    for (size_t vectors = 0, rows = 0; vectors <= BT_ATTN_SHARED_PAIRS / 16 && rows < n; vectors++) {
        uint64_t cost = 0;
        rows = vectors ? 16 * vectors / width : 1;
        if (rows > n) rows = n;
        for (size_t a = 0; rows && a < n; a += rows) {
            const size_t pairs = (n - a < rows ? n - a : rows) * width;
            const unsigned mask = (1u << rows) - 1;
            uint64_t count = 0;
            for (size_t i = 0; i < seen; i += STRIDE) count += (marks[i] >> a & mask) != 0;
            cost += count * (GATHER_COST + SCORE_COST * ((pairs + 15) / 16) + VALUE_COST * pairs);
        }
        if (rows && cost < least) least = cost, best = rows;
    }
    return best;
}

/* Attends for rows [row + from, row + from + n) over all positions that any of them has marked. */
static void attend_marked(const sparse_job *j, const block *b, size_t row, size_t from, size_t n, size_t h,
                          size_t width, uint8_t *scratch)
{
    const layout *l = &j->s->layout;
    const size_t seen = j->pos + b->first + row + from + n;
    const uint16_t *marks = (const uint16_t *)(const void *)(scratch + l->marks);
    uint32_t *at = (uint32_t *)(void *)(scratch + l->at);
    uint16_t *take = (uint16_t *)(void *)(scratch + l->marks) + l->keys;
    const unsigned mask = (1u << n) - 1;
    size_t count = 0;
    for (size_t i = 0; i < seen; i++) { /* a position that no row takes is overwritten by the next */
        at[count] = (uint32_t)i, take[count] = (uint16_t)(marks[i] >> from & mask);
        count += take[count] != 0;
    }
    attend_list(j, b, row + from, &(bt_attn_list){at, count, n, width, n > 1 ? take : NULL}, h, scratch);
}

/* Attends for rows [row, row + n), which each choose for themselves. c: the first row's choice; the choices
 * of the next row are of_row further. */
static void attend_union(const sparse_job *j, const block *b, size_t row, size_t n, size_t h, size_t width,
                         size_t c, size_t of_row, uint8_t *scratch)
{
    const size_t last = j->pos + b->first + row + n;
    const uint32_t *at = (const uint32_t *)(const void *)(scratch + j->s->layout.at);
    uint16_t *marks = (uint16_t *)(void *)(scratch + j->s->layout.marks);
    memset(marks, 0, last * sizeof *marks);
    for (size_t r = 0; r < n; r++) {
        const size_t k = choose(j, b, last - n + 1 + r, h, c + r * of_row, scratch);
        for (size_t i = 0; i < k; i++) marks[at[i]] |= (uint16_t)(1u << r);
    }
    const size_t most = rows_at_once(marks, last, n, width);
    for (size_t from = 0; from < n; from += most)
        attend_marked(j, b, row, from, n - from < most ? n - from : most, h, width, scratch);
}

static void attend_block(const sparse_job *j, const block *b, uint8_t *scratch)
{
    const size_t group = j->heads / j->kv_heads, of_row = choosers(j),
                 width = of_row < group ? b->h1 - b->h0 : 1, as_one = j->s->layout.as_one, most = UNION_ROWS;
    size_t c = 0;
    estimate(j, b, scratch);
    for (size_t row = 0, n; row<b->rows; row += n, c += as_one> 1 ? of_row : n * of_row) {
        n = as_one > 1 ? together(j, b, row) : b->rows - row < most ? b->rows - row : most;
        for (size_t h = b->h0; h < b->h1; h += width) {
            const size_t of_head = c + (of_row < group ? 0 : h - b->g * group);
            if (as_one > 1) attend_together(j, b, row, n, h, width, of_head, scratch);
            else attend_union(j, b, row, n, h, width, of_head, of_row, scratch);
        }
    }
}

/* Attends for the u-th block of a head, counted from the last rows, which cost most. The head's panels were
 * all taken before; the thread waits for pieces that others still make. */
static void attend_rows(sparse_job *j, size_t place, size_t u, uint8_t *scratch)
{
    const size_t group = j->heads / j->kv_heads, most = j->s->layout.block_rows,
                 at = (j->pos / most + j->blocks - 1 - u) * most, first = at > j->pos ? at : j->pos,
                 last = at + most < j->pos + j->rows ? at + most : j->pos + j->rows;
    block b = {.g = j->h0 / group + j->plan.order[place], .first = first - j->pos, .rows = last - first};
    b.h0 = b.g * group > j->h0 ? b.g * group : j->h0;
    b.h1 = (b.g + 1) * group < j->h1 ? (b.g + 1) * group : j->h1;
    while (atomic_load_explicit(&j->made[place], memory_order_acquire) < j->pieces) sched_yield();
    attend_block(j, &b, scratch);
}

/* A thread's work, in order: panels of the plan's first head; then for each head the panels of the next head,
 * and the head's blocks. */
static void heads_part(void *ud, size_t part, size_t parts)
{
    sparse_job *j = ud;
    uint8_t *scratch = bt_companion_scratch(j->c, part);
    const size_t both = j->pieces + j->blocks;
    (void)parts;
    for (size_t u, end; bt_pool_range_take(&j->left, &u, &end);) {
        const size_t place = u < j->pieces ? 0 : (u - j->pieces) / both, in = u - j->pieces - place * both,
                     next = place + 1 < j->plan.heads ? j->pieces : 0;
        if (u < j->pieces) make_panels(j, 0, u, scratch);
        else if (in < next) make_panels(j, place + 1, in, scratch);
        else attend_rows(j, place, in - next, scratch);
    }
}

/* Orders the KV heads by their estimated times, which follow from rows and shares. */
static void plan_heads(sparse_job *j)
{
    const size_t group = j->heads / j->kv_heads, g0 = j->h0 / group, of_row = choosers(j);
    const uint64_t seen = (uint64_t)j->rows * j->pos + (uint64_t)j->rows * (j->rows + 1) / 2;
    bt_heads_times head[BT_HEADS_MAX];
    const bt_heads_work work = {head, (uint32_t)((j->h1 - 1) / group + 1 - g0), 0, 1, BT_SCHEDULE_COMPANION};
    for (size_t i = 0; i < work.heads; i++) {
        uint64_t kept = 0;
        for (size_t h = 0; h < group; h++)
            kept += bt_attention_keeps(j->s->head[j->layer * j->heads + (g0 + i) * group + h].ppm,
                                       (uint32_t)(j->pos + j->rows)) *
                    (uint64_t)j->rows;
        head[i] = (bt_heads_times){KEY_PS * 16 * panels_of(j), SCORE_PS * of_row * seen / j->s->layout.as_one,
                                   KEPT_PS * kept};
    }
    (void)bt_heads_make(&j->plan, &work, NULL); /* no package has more heads than a plan */
}

static void attend(sparse_job *j)
{
    const size_t most = j->s->layout.block_rows;
    plan_heads(j);
    j->pieces = (panels_of(j) + PIECE - 1) / PIECE;
    j->blocks = (j->pos + j->rows - 1) / most - j->pos / most + 1; /* they begin at multiples of `most` */
    for (size_t i = 0; i < j->plan.heads; i++) atomic_init(&j->made[i], 0);
    bt_pool_range_init(&j->left, j->plan.heads * (j->pieces + j->blocks), 1);
    bt_pool_run(bt_companion_pool_for(j->c, j->rows * (j->h1 - j->h0) * (j->pos + j->rows)), heads_part, j);
}

/* Counts pairs of positions for rows [pos, pos + rows) and the slice's heads: estimated pairs, and attended
 * pairs. */
static void count_pairs(uint64_t *ret_seen, uint64_t *ret_kept, const bt_exec_sparse *s,
                        const bt_pkg_header *h, size_t layer, const bt_pkg_slice *slice, size_t pos,
                        size_t rows)
{
    const size_t group = h->heads / h->kv_heads, as_one = s->layout.as_one;
    *ret_seen = *ret_kept = 0;
    for (size_t i = slice->head; i < slice->head + slice->heads; i++)
        for (size_t at = pos, n; at < pos + rows; at += n) {
            const uint64_t kept = bt_attention_keeps(s->head[layer * h->heads + i].ppm, (uint32_t)at + 1);
            n = as_one - at % as_one < pos + rows - at ? as_one - at % as_one : pos + rows - at;
            if (!s->attention.is_group || i % group == 0 || i == slice->head) *ret_seen += at + 1;
            *ret_kept += n * kept + n * (n - 1) / 2;
        }
}

bt_err bt_exec_sparse_check(const bt_exec_sparse *s, size_t pos, size_t rows, bt_fault *fault)
{
    return pos % s->layout.as_one == 0 || pos + rows <= s->attention.dense_rows
               ? BT_OK
               : bt_fail(fault, BT_EARG,
                         "rows from position %zu: %zu at once choose what they attend to (--attention "
                         "..rows=%zu), so a "
                         "prompt goes on at multiples of that",
                         pos, s->layout.as_one, s->layout.as_one);
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
    uint64_t seen, kept;
    count_pairs(&seen, &kept, x->sparse, h, i->layer, slice, job.pos, job.rows);
    j->x->stats.npu_macs += seen * h->head_dim;
    bt_exec_count_macs(j, i, 2 * h->head_dim * kept);
    return first;
}
