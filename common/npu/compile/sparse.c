/* Measures the heads of sparse attention on the calibration text: the units of their q and K for the
 * estimate, how much each head matters and so what share of positions it keeps, and how much of the exact
 * choice its estimate finds. */
#include "base/pool.h"
#include "graph/estimate.h"
#include "npu/compile/compile_private.h"
#include "npu/quant/shares.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    EVERY = 8, /* one of so many rows is measured, the last; units are measured on all rows */
    WINDOW = BT_CALIB_WINDOW,
    MAX_DIM = BT_MODEL_MAX_HEAD_DIM,
};

typedef struct measured {
    double q_max, k_max; /* sums over rows of the greatest magnitude of the rotated head */
    double lost; /* error of the head's output where it keeps the overall share of positions, chosen by the
                    exact scores */
    double recall;
    uint64_t rows, some; /* all rows; the measured ones */
} measured;

/* A thread's scratch. */
typedef struct room {
    float k[WINDOW][MAX_DIM], v[WINDOW][MAX_DIM], z[WINDOW], rotated[MAX_DIM], out[MAX_DIM], block[MAX_DIM];
    float chooser[MAX_DIM];
    int8_t key[WINDOW * MAX_DIM], query[MAX_DIM];
    uint8_t shift[WINDOW], query_shift;
    int32_t score[WINDOW], scratch[WINDOW];
    uint32_t true_choice[WINDOW + BT_TOPK_ROOM], choice[WINDOW + BT_TOPK_ROOM];
    uint8_t estimate[(BT_ESTIMATE_ROWS + 1) * MAX_DIM * sizeof(float)] __attribute__((aligned(64)));
} room;

typedef struct work {
    bt_compile_job *j;
    room *room; /* [threads] */
    bt_estimate estimate;
    measured *head;   /* [layers, heads] */
    double *attended; /* [layers]: sums of the norms of attention's outputs, over measured rows */
    double *added;    /* [layers]: sums of the norms of what attention adds, over all rows */
    double *residual; /* [layers + 1]: the same of the residual stream before each layer */
    uint32_t last;    /* weight of the last linear */
    bt_pkg_head *out; /* [layers, heads]: what the second run measures; NULL in the first run */
    /* of the current step */
    uint32_t layer;
    const float *q, *attention;
    const bt_kv_view *kv;
    size_t rows;
    bt_pool_range left; /* heads that no thread has taken */
} work;

static double size_of(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sqrt(sum);
}

static float greatest(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

static void rotate(const work *w, float *to, float *scratch, const float *x)
{
    const bt_companion_rotation *r = &w->estimate.rotation;
    memcpy(to, x, w->estimate.head_dim * sizeof *to);
    w->estimate.kernels->rotate(to, w->estimate.head_dim, 1, 1, r->h_base, r->base, r->log2, r->sign,
                                r->scale, scratch);
}

/* Writes the scores of row `row` to z, and the k positions with the greatest to true_choice. Scores are
 * compared as integers made of their float bits, without the two lowest. */
static void choose_truly(const work *w, room *m, const float *q, size_t row, size_t k)
{
    const size_t d = w->estimate.head_dim;
    static const uint8_t none[WINDOW];
    for (size_t i = 0; i <= row; i++) {
        float sum = 0;
        int32_t bits;
        for (size_t e = 0; e < d; e++) sum += q[e] * m->k[i][e];
        m->z[i] = sum;
        memcpy(&bits, &sum, sizeof bits);
        m->score[i] = (bits < 0 ? -(bits & INT32_MAX) : bits) / 4;
    }
    w->estimate.kernels->int_topk(m->true_choice, k, m->score, none, row + 1, m->scratch);
}

/* The distance of the head's output from `dense` where it attends only to the exact choice. */
static double lost(const work *w, room *m, const float *dense, size_t k)
{
    const size_t d = w->estimate.head_dim;
    const float scale = bt_hparams_scores(&w->j->m->hp);
    double sum = 0, apart = 0;
    float top = -INFINITY;
    memset(m->out, 0, sizeof m->out);
    for (size_t i = 0; i < k; i++) top = m->z[m->true_choice[i]] > top ? m->z[m->true_choice[i]] : top;
    for (size_t i = 0; i < k; i++) {
        const uint32_t at = m->true_choice[i];
        const float p = bt_exp1((m->z[at] - top) * scale);
        sum += (double)p;
        for (size_t e = 0; e < d; e++) m->out[e] += p * m->v[at][e];
    }
    for (size_t e = 0; e < d; e++) apart += pow((double)m->out[e] / sum - (double)dense[e], 2);
    return sqrt(apart);
}

/* The q that chooses for head h of a row: its own, or the sum over its group. */
static const float *chooser(const work *w, room *m, size_t row, size_t h)
{
    const bt_hparams *hp = &w->j->m->hp;
    const size_t d = hp->head_dim, group = hp->heads / hp->kv_heads;
    const float *q = w->q + row * hp->heads * d;
    if (!w->j->o->attention.is_group) return q + h * d;
    bt_estimate_sum(m->chooser, q + h / group * group * d, d, group);
    return m->chooser;
}

/* The share of true_choice, k positions of head h of a row, that the row keeps. It keeps the estimate's
 * choice of the first row of its block, and the block's positions up to its own. */
static double recall(const work *w, room *m, const bt_pkg_head *head, size_t h, size_t row, size_t k)
{
    const size_t d = w->estimate.head_dim, ld = bt_estimate_ld(d),
                 first = row - row % w->j->o->attention.rows;
    size_t kept = bt_attention_keeps(head->ppm, (uint32_t)first + 1), found = 0;
    bt_estimate_rows(&w->estimate, m->query, &m->query_shift, chooser(w, m, first, h), d, head->q_scale, 1,
                     m->estimate);
    for (size_t i = 0; i <= first; i++) {
        int32_t sum = 0;
        for (size_t e = 0; e < d; e++) sum += m->query[e] * m->key[i * ld + e];
        m->score[i] = sum;
    }
    w->estimate.kernels->int_topk(m->choice, kept, m->score, m->shift, first + 1, m->scratch);
    for (size_t own = first + 1; own <= row; own++) m->choice[kept++] = (uint32_t)own;
    for (size_t a = 0, b = 0; a < k && b < kept;) {
        found += m->true_choice[a] == m->choice[b];
        const bool less = m->true_choice[a] < m->choice[b], equal = m->true_choice[a] == m->choice[b];
        a += less || equal;
        b += !less;
    }
    return (double)found / (double)k;
}

static void read_kv(const work *w, room *m, size_t g)
{
    const size_t d = w->estimate.head_dim;
    for (size_t i = 0; i < w->rows; i++)
        for (int is_v = 0; is_v < 2; is_v++)
            w->estimate.kernels->f16_to_f32(
                is_v ? m->v[i] : m->k[i],
                (const uint16_t *)(const void *)bt_kv_view_row(w->kv, w->layer, is_v, i, g), d);
}

/* Whether a row is measured. Where blocks share a choice, the measured rows fall on every place of a block in
 * turn. */
static bool is_looked_at(const work *w, size_t row)
{
    const bool is_moving = w->out && w->j->o->attention.rows > 1;
    return row % EVERY == (is_moving ? row / EVERY % EVERY : EVERY - 1);
}

static void head_of(work *w, room *m, size_t h)
{
    const bt_hparams *hp = &w->j->m->hp;
    const size_t d = hp->head_dim, width = hp->heads * d, at = (size_t)w->layer * hp->heads + h,
                 ld = bt_estimate_ld(d);
    measured *to = &w->head[at];
    const bt_pkg_head *head = w->out ? &w->out[at] : NULL;
    const size_t g = h / (hp->heads / hp->kv_heads);
    read_kv(w, m, g);
    for (size_t i = 0, n; head && i < w->rows; i += n) {
        n = w->rows - i < BT_ESTIMATE_ROWS ? w->rows - i : BT_ESTIMATE_ROWS;
        bt_estimate_keys(&w->estimate, m->key + i * ld, m->shift + i, w->kv, w->layer, g, i, head->k_scale, n,
                         m->estimate);
    }
    for (size_t row = 0; row < w->rows; row++) {
        const float *q = w->q + row * width + h * d;
        if (!head) {
            rotate(w, m->rotated, m->block, chooser(w, m, row, h));
            to->q_max += (double)greatest(m->rotated, d);
            rotate(w, m->rotated, m->block, m->k[row]);
            to->k_max += (double)greatest(m->rotated, d);
            to->rows++;
        }
        if (!is_looked_at(w, row)) continue;
        const uint32_t ppm = head ? head->ppm : w->j->o->attention.ratio_ppm;
        const size_t k = bt_attention_keeps(ppm, (uint32_t)row + 1);
        choose_truly(w, m, q, row, k);
        if (!head) to->lost += lost(w, m, w->attention + row * width + h * d, k);
        else to->recall += recall(w, m, head, h, row, k), to->some++;
    }
}

static void heads_part(void *ud, size_t part, size_t parts)
{
    work *w = ud;
    (void)parts;
    for (size_t h, end; bt_pool_range_take(&w->left, &h, &end);) head_of(w, &w->room[part], h);
}

static void watch(void *ud, const bt_step *step, const float *in, const float *out, size_t rows,
                  const bt_kv_view *kv)
{
    work *w = ud;
    const bt_hparams *hp = &w->j->m->hp;
    const size_t width = (size_t)hp->heads * hp->head_dim;
    double sum = 0;
    if (step->kind == BT_OP_ATTENTION) {
        w->layer = step->layer, w->q = in, w->attention = out, w->kv = kv, w->rows = rows;
        bt_pool_range_init(&w->left, hp->heads, 1);
        bt_pool_run(w->j->pool, heads_part, w);
        for (size_t row = EVERY - 1; !w->out && row < rows; row += EVERY)
            w->attended[step->layer] += size_of(out + row * width, width);
    }
    if (w->out) return;
    if (step->kind == BT_OP_LINEAR) w->last = step->weight;
    static const bt_weight adding[] = {[BT_ARCH_BEFORE] = BT_WEIGHT_O,
                                       [BT_ARCH_AFTER] = BT_WEIGHT_ATTN_NORM,
                                       [BT_ARCH_BOTH] = BT_WEIGHT_ATTN_POST_NORM};
    const bool adds = step->weight == adding[bt_arch_of(hp->arch)->norms],
               ends = step->kind == BT_OP_ADD && w->last == BT_WEIGHT_DOWN;
    if (!adds && !ends && step->kind != BT_OP_EMBED) return;
    for (size_t row = 0; row < rows; row++) sum += size_of(out + row * step->out_width, step->out_width);
    if (adds) w->added[step->layer] += sum;
    else w->residual[ends ? step->layer + 1 : 0] += sum;
}

/* ---- units and shares ---- */

static float unit_of(double sum, uint64_t rows)
{
    const double unit = rows ? sum / (double)rows / 127 : 0;
    return (float)(unit < 0x1p-100 ? 0x1p-100 : unit > 0x1p100 ? 0x1p100 : unit);
}

/* How much a head matters: the part of its layer's attention output that goes wrong where the head keeps only
 * the overall share, times the part that the layer's attention adds to the residual stream. */
static double importance(const work *w, size_t at)
{
    const size_t layer = at / w->j->m->hp.heads;
    return w->attended[layer] > 0 && w->residual[layer] > 0
               ? w->head[at].lost / w->attended[layer] * w->added[layer] / w->residual[layer]
               : 0;
}

/* Sets the heads' units and shares. Heads that choose together get one share, by their mean importance. */
static bt_err choose_heads(work *w, bt_pkg_head *out, bt_fault *fault)
{
    const bt_hparams *hp = &w->j->m->hp;
    const size_t heads = (size_t)hp->layers * hp->heads,
                 as_one = w->j->o->attention.is_group ? hp->heads / hp->kv_heads : 1;
    double *of = calloc(heads, sizeof *of);
    uint32_t *ppm = malloc(heads * sizeof *ppm);
    const bool made = of && ppm;
    for (size_t i = 0; made && i < heads; i++) of[i / as_one] += importance(w, i);
    if (made) bt_shares(ppm, of, heads / as_one, w->j->o->attention.ratio_ppm);
    for (size_t i = 0; made && i < heads; i++)
        out[i] = (bt_pkg_head){.ppm = ppm[i / as_one], .q_scale = unit_of(w->head[i].q_max, w->head[i].rows),
                               .k_scale = unit_of(w->head[i].k_max, w->head[i].rows)};
    free(of);
    free(ppm);
    return made ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for shares of %zu heads", heads);
}

/* Runs the text once, as the next step of the compilation. */
static bt_err run(work *w, bt_fault *fault)
{
    const bt_compile_options *o = w->j->o;
    const size_t n = o->calib_len < BT_COMPILE_MAX_CALIB ? o->calib_len : BT_COMPILE_MAX_CALIB;
    bt_compile_job_step(w->j, BT_COMPILE_SHARE_SPARSE);
    const bt_calib_reader reader = {.steps = watch, .ud = w};
    return bt_calib_read(w->j->calib, o->calib_ids, n, &reader, fault);
}

static bt_err measure(work *w, bt_pkg_head *out, bt_fault *fault)
{
    const size_t heads = (size_t)w->j->m->hp.layers * w->j->m->hp.heads;
    bt_err e = run(w, fault);
    if (e == BT_OK) e = choose_heads(w, out, fault);
    w->out = out;
    if (e == BT_OK) e = run(w, fault);
    for (size_t i = 0; e == BT_OK && i < heads; i++)
        out[i].recall = w->head[i].some ? (float)(w->head[i].recall / (double)w->head[i].some) : NAN;
    return e;
}

static void write_header(bt_compile_job *j, const bt_hadamard *r, const bt_pkg_head *out)
{
    const size_t heads = (size_t)j->m->hp.layers * j->m->hp.heads;
    bt_pkg_header *h = &j->header;
    h->sparse_ppm = j->o->attention.ratio_ppm;
    h->sparse_dense_rows = j->o->attention.dense_rows;
    h->sparse_rows_log2 = (uint32_t)__builtin_ctz(j->o->attention.rows);
    h->sparse_group = j->o->attention.is_group;
    h->sparse_heads = bt_pkg_writer_const(j->w, BT_PKG_CONST_TABLE, out, heads * sizeof *out);
    bt_compile_rotation(j, &h->sparse_rotation, r, j->m->hp.head_dim);
}

/* Fills the header without measurements: all heads matter alike. */
static bt_err sketch(bt_compile_job *j, bt_fault *fault)
{
    const size_t heads = (size_t)j->m->hp.layers * j->m->hp.heads;
    bt_hadamard *r = malloc(sizeof *r);
    bt_pkg_head *out = calloc(heads, sizeof *out);
    const bool made = r && out;
    if (made) bt_hadamard_init(r, j->m->hp.head_dim, false);
    for (size_t i = 0; made && i < heads; i++) out[i].ppm = j->o->attention.ratio_ppm;
    if (made) write_header(j, r, out);
    free(r);
    free(out);
    return made ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for heads of sparse attention");
}

bt_err bt_compile_sparse(bt_compile_job *j, bt_fault *fault)
{
    const bt_hparams *hp = &j->m->hp;
    const size_t heads = (size_t)hp->layers * hp->heads;
    if (!j->o->attention.ratio_ppm) return BT_OK;
    if (j->is_sketch) return sketch(j, fault);
    bt_hadamard *r = malloc(sizeof *r);
    if (r) bt_hadamard_init(r, hp->head_dim, false);
    work w = {.j = j,
              .room = aligned_alloc(64, bt_pool_threads(j->pool) * sizeof(room)),
              .head = calloc(heads, sizeof *w.head),
              .attended = calloc(hp->layers, sizeof *w.attended),
              .added = calloc(hp->layers, sizeof *w.added),
              .residual = calloc(hp->layers + 1u, sizeof *w.residual)};
    bt_pkg_head *out = calloc(heads, sizeof *out);
    bt_err e = BT_ENOMEM;
    if (r && w.room && w.head && w.attended && w.added && w.residual && out) {
        w.estimate =
            (bt_estimate){.kernels = j->kernels,
                          .rotation = {r->base, r->log2, r->base > 1 ? r->h : NULL, r->sign, r->scale},
                          .head_dim = hp->head_dim};
        e = measure(&w, out, fault);
        if (e == BT_OK) write_header(j, r, out);
    } else bt_fail(fault, e, "heads of sparse attention");
    free(r);
    free(w.room);
    free(w.head);
    free(w.attended);
    free(w.added);
    free(w.residual);
    free(out);
    return e;
}
