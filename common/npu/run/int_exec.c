/* The INT_ instructions of a program: the integer operators of kernels/int_ops.h over rows of the arena.
 * Integers only; the companion repairs saturated 8-bit outputs (kernels/edge_repair.h). Work is split over
 * rows, KV heads or panels, never over a sum. */
#include "npu/run/exec_private.h"
#include "kernels/edge_repair.h"

#include <string.h>

enum { ATTENTION_ROWS = 32 };

static bt_int_mul mul_of(const bt_pkg_int_params *p, int n) { return (bt_int_mul){p->m[n], p->s[n]}; }

/* ---- row-wise operators ---- */

typedef struct rows_job {
    bt_exec_job *j;
    const bt_pkg_inst *i;
    const bt_pkg_int_params *params;
    bt_pkg_slice slice; /* INT_ATTENTION: the instruction's rows and heads */
    atomic_size_t next; /* INT_ATTENTION: the next unit to take */
} rows_job;

static void int_rmsnorm_rows(const rows_job *r, size_t r0, size_t n, void *scratch)
{
    const bt_pkg_inst *i = r->i;
    const bt_exec *x = r->j->x;
    const int32_t *wq = i->tensor == BT_PKG_NONE ? NULL : bt_exec_const(x, bt_exec_tensor(x, i)->norm_q);
    const size_t k = i->out_width, ldy = bt_exec_ld_out(i, sizeof(int32_t)),
                 ldx = bt_exec_ld_in(i, sizeof(int32_t));
    (void)scratch;
    x->companion.kernels->int_rmsnorm32((int32_t *)bt_exec_at(r->j, i->out) + r0 * ldy, ldy,
                                        (const int32_t *)bt_exec_at(r->j, i->in0) + r0 * ldx, ldx, wq,
                                        r->params->m[0], r->params->s[0], (uint64_t)r->params->eps, n, k);
}

static void int_qk_norm_rows(const rows_job *r, size_t r0, size_t n, void *scratch)
{
    const bt_exec *x = r->j->x;
    const size_t d = x->header->head_dim, ld = bt_exec_ld_out(r->i, sizeof(int16_t));
    (void)scratch;
    x->companion.kernels->int_headnorm16((int16_t *)bt_exec_at(r->j, r->i->out) + r0 * ld, ld, r->i->arg,
                                         bt_exec_const(x, bt_exec_tensor(x, r->i)->norm_q), r->params->s[0],
                                         (uint64_t)r->params->eps, n, d);
}

/* Rotates real rows alone; padding has no position. */
static void int_rope_rows(const rows_job *r, size_t r0, size_t n, void *scratch)
{
    const bt_exec *x = r->j->x;
    const bt_pkg_header *h = x->header;
    const bt_companion_rows *seqs = &r->j->seqs;
    const size_t half = h->rope_dims / 2, ld = bt_exec_ld_out(r->i, sizeof(int16_t));
    const size_t table = bt_pkg_rope_at(h, r->i->layer);
    const int16_t *cos = (const int16_t *)bt_exec_const(x, h->rope_cos_q15) + table,
                  *sin = (const int16_t *)bt_exec_const(x, h->rope_sin_q15) + table;
    int16_t *to = bt_exec_at(r->j, r->i->out);
    (void)scratch;
    for (size_t row = r0; row < r0 + n; row++) {
        const bt_companion_seq *s = &seqs->seq[row / seqs->rows];
        const size_t at = (s->pos0 + row % seqs->rows) * half;
        if (row % seqs->rows < s->valid)
            x->companion.kernels->int_rope16(to + row * ld, r->i->arg, h->head_dim, h->rope_dims, cos + at,
                                             sin + at, (h->flags & BT_PKG_FLAG_NEOX) != 0);
    }
}

static void int_rotate_rows(const rows_job *r, size_t r0, size_t n, void *scratch)
{
    const bt_exec *x = r->j->x;
    const bt_companion_rotation *r2 = &x->rotations.r2;
    const size_t width = r->i->out_width, ldy = bt_exec_ld_out(r->i, sizeof(int32_t)),
                 ldx = bt_exec_ld_in(r->i, sizeof(int16_t));
    const bool turn = r->i->arg == 2;
    x->companion.kernels->int_rotate16((int32_t *)bt_exec_at(r->j, r->i->out) + r0 * ldy, ldy,
                                       (const int16_t *)bt_exec_at(r->j, r->i->in0) + r0 * ldx, ldx, n,
                                       turn ? x->header->r2.blocks : width, r2->h_base, turn ? r2->base : 0,
                                       turn ? r2->log2 : 0, r2->sign, mul_of(r->params, 0), scratch);
}

static void split_some(const rows_job *r, bt_int_range range, size_t r0, size_t n)
{
    const bt_exec *x = r->j->x;
    const bt_pkg_inst *i = r->i;
    const size_t k = i->in_width, ld = i->out_stride, ldx = bt_exec_ld_in(i, sizeof(int32_t));
    const int32_t *from = (const int32_t *)bt_exec_at(r->j, i->in0) + r0 * ldx;
    int8_t *hi = (int8_t *)bt_exec_at(r->j, i->out) + r0 * ld;
    const bt_exec_shadow s = bt_exec_job_shadow(r->j, i);
    bt_int_shadow *entry = s.entry ? s.entry + r0 * k : NULL;
    uint32_t *count = s.entry ? s.count + r0 : NULL;
    if (i->in1 == BT_PKG_NOWHERE)
        x->companion.kernels->int_split8(hi, ld, from, ldx, range, n, k, entry, count);
    else
        x->companion.kernels->int_split16(hi, (int8_t *)bt_exec_at(r->j, i->in1) + r0 * ld, ld, from, ldx, n,
                                          k, entry, count);
    if (entry) bt_exec_job_shadow_made(r->j, i, &s, r0, n);
}

/* Rows by expert have a zero point each. */
static void int_split_rows(const rows_job *r, size_t r0, size_t n, void *scratch)
{
    (void)scratch;
    for (size_t rows = n; n > 0; n -= rows, r0 += rows) {
        const bt_int_range range = bt_exec_job_range(r->j, r->i, r0, n, &rows);
        split_some(r, range, r0, rows);
    }
}

/* Splits n rows of `width` elements into runs without a gap: one run where both strides are exactly the
 * width, else n. Returns the elements of a run. */
static size_t runs_of(size_t *runs, size_t n, size_t width, size_t ldx, size_t ldy)
{
    const bool is_whole = ldx == width && ldy == width;
    *runs = is_whole ? 1 : n;
    return is_whole ? n * width : width;
}

static void gated_rows(const rows_job *r, size_t r0, size_t n, bt_int_silu_mul16_fn *kernel)
{
    const bt_pkg_inst *i = r->i;
    const size_t ldx = bt_exec_ld_in(i, sizeof(int16_t)), ldy = bt_exec_ld_out(i, sizeof(int32_t));
    for (size_t rows = n; n > 0; n -= rows, r0 += rows) { /* rows by expert have params each */
        const bt_pkg_int_params *p = r->params + bt_exec_job_expert(r->j, i, r0, n, &rows);
        int32_t *y = (int32_t *)bt_exec_at(r->j, i->out) + r0 * ldy;
        const int16_t *gate = (const int16_t *)bt_exec_at(r->j, i->in0) + r0 * ldx,
                      *up = (const int16_t *)bt_exec_at(r->j, i->in1) + r0 * ldx;
        size_t runs;
        const size_t count = runs_of(&runs, rows, i->out_width, ldx, ldy);
        for (; runs > 0; runs--, y += ldy, gate += ldx, up += ldx)
            kernel(y, gate, up, count, mul_of(p, 0), mul_of(p, 1));
    }
}

#define DEFINE_OWN(name)
#define DEFINE_NORMED(name)
#define DEFINE_POINT(name)
#define DEFINE_GATED_FLOATS(name)
#define DEFINE_GATED(name) \
    static void int_##name##_rows(const rows_job *r, size_t r0, size_t n, void *scratch) \
    { \
        (void)scratch; \
        gated_rows(r, r0, n, r->j->x->companion.kernels->int_##name##16); \
    }
#define DEFINE(NAME, name, inputs, in_place, weight, by_head, shape, beside, class, price, run) \
    DEFINE_##run(name)
BT_OP_LIST(DEFINE, BT_OP_SKIP, BT_OP_SKIP, BT_OP_SKIP)

static void int_add_rows(const rows_job *r, size_t r0, size_t n, void *scratch)
{
    const bt_pkg_inst *i = r->i;
    const size_t ldx = bt_exec_ld_in(i, sizeof(int16_t)), ldy = bt_exec_ld_out(i, sizeof(int32_t));
    int32_t *y = (int32_t *)bt_exec_at(r->j, i->out) + r0 * ldy;
    const int16_t *x = (const int16_t *)bt_exec_at(r->j, i->in1) + r0 * ldx;
    (void)scratch;
    size_t runs;
    const size_t count = runs_of(&runs, n, i->out_width, ldx, ldy);
    for (; runs > 0; runs--, y += ldy, x += ldx)
        r->j->x->companion.kernels->int_add32(y, x, count, mul_of(r->params, 0));
}

/* NAME_rows of each instruction of INTEGERS (graph/op_list.h) that goes row by row. */
typedef void rows_fn(const rows_job *r, size_t r0, size_t n, void *scratch);
#define int_linear_rows           NULL /* run_linear */
#define int_experts_rows          NULL /* run_linear */
#define int_attention_rows        NULL /* run_attention */
#define ROWS(OF, NAME, name, ...) [BT_PKG_##NAME] = name##_rows,
static rows_fn *const rows_of[BT_PKG_OP_NUMBERS] = {BT_OP_LIST(BT_OP_SKIP, BT_OP_SKIP, ROWS, BT_OP_SKIP)};

static void do_rows(void *ud, const void *what, const float *none, size_t r0, size_t n, void *scratch)
{
    bt_exec_job *j = ud;
    const bt_pkg_inst *i = what;
    /* params points to an unrelated constant where the operator takes none */
    const rows_job job = {.j = j, .i = i, .params = bt_exec_const(j->x, (uint32_t)i->params)};
    (void)none;
    rows_of[i->op](&job, r0, n, scratch);
}

/* ---- attention ---- */

/* The slice's query heads that belong to KV head g: returns how many; *ret_first: the first. */
static size_t heads_of(const rows_job *r, size_t g, size_t *ret_first)
{
    const bt_pkg_header *h = r->j->x->header;
    const size_t group = h->heads / h->kv_heads, end = r->slice.head + r->slice.heads;
    const size_t first = g * group > r->slice.head ? g * group : r->slice.head,
                 last = (g + 1) * group < end ? (g + 1) * group : end;
    *ret_first = first;
    return first < last ? last - first : 0;
}

/* Attends for query heads [head, head + heads) of KV head g in rows [row, row + rows) of the run, all real
 * and of sequence b, from position pos on. The kernel assumes KV heads of `heads` query heads each, so it
 * gets the address where a row of such heads would begin. */
static void attend(const rows_job *r, size_t b, size_t row, size_t rows, size_t pos, size_t g, size_t head,
                   size_t heads, void *scratch)
{
    const bt_exec *x = r->j->x;
    const bt_pkg_header *h = x->header;
    const bt_int_attention_params p = {mul_of(r->params, 0), mul_of(r->params, 1), r->params->k_shift,
                                       r->params->v_shift, bt_pkg_window(h, r->i->layer)};
    const size_t ld = bt_exec_ld_out(r->i, sizeof(int16_t)), at = row * ld + (head - g * heads) * h->head_dim;
    x->companion.kernels->int_attention16((int16_t *)bt_exec_at(r->j, r->i->out) + at, ld,
                                          (const int16_t *)bt_exec_at(r->j, r->i->in0) + at, ld,
                                          r->j->seqs.seq[b].kv, r->i->layer, rows, pos, h->kv_heads * heads,
                                          g, &p, scratch);
}

/* A thread's part. Units are sequences x blocks of rows x KV heads, the costliest first; a free thread takes
 * the next. */
static void attention_part(void *ud, size_t part, size_t parts)
{
    rows_job *r = ud;
    (void)parts;
    const bt_exec *x = r->j->x;
    const bt_pkg_header *h = x->header;
    const bt_companion_rows *seqs = &r->j->seqs;
    const size_t ld = bt_exec_ld_out(r->i, sizeof(int16_t));
    const size_t most = r->slice.rows < seqs->rows ? r->slice.rows : seqs->rows; /* of one sequence */
    const size_t blocks = (most + ATTENTION_ROWS - 1) / ATTENTION_ROWS,
                 units = seqs->batch * blocks * h->kv_heads;
    for (size_t left; (left = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed)) < units;) {
        const size_t u = units - 1 - left, g = u % h->kv_heads, b = u / h->kv_heads / blocks,
                     first = u / h->kv_heads % blocks * ATTENTION_ROWS;
        const bt_exec_part p = bt_exec_job_part(r->j, &r->slice, b);
        size_t head;
        const size_t heads = heads_of(r, g, &head);
        if (!heads || first >= p.rows) continue;
        const size_t r0 = p.row + first,
                     end = first + ATTENTION_ROWS < p.rows ? r0 + ATTENTION_ROWS : p.row + p.rows;
        const size_t real_end = p.row + p.real, real = real_end < r0 ? r0 : real_end < end ? real_end : end;
        if (real > r0)
            attend(r, b, r0, real - r0, p.pos + first, g, head, heads,
                   bt_companion_scratch(&x->companion, part));
        int16_t *out = (int16_t *)bt_exec_at(r->j, r->i->out) + head * h->head_dim;
        for (size_t row = real; row < end; row++) /* padding attends to nothing */
            memset(out + row * ld, 0, heads * h->head_dim * sizeof *out);
    }
}

static void run_attention(rows_job *r)
{
    bt_exec_job *j = r->j;
    bt_companion_flush(&j->x->companion);
    bt_pool_run(j->x->companion.pool, attention_part, r);
    bt_exec_count_macs(j, r->i, bt_exec_job_attention_macs(j, r->i, &r->slice));
}

/* ---- linears with integer outputs ---- */

typedef struct output { /* the output of one matrix */
    const bt_kernels *kernels;
    int16_t *y;
    size_t ld;
    const int32_t *mult;
    const uint8_t *shift;
    const int64_t *bias;
    int16_t limit; /* 127: outputs of 8 bits, repaired where they saturate */
    bt_edge_repair repair;
} output;

static const int64_t *bias_at(const output *o, size_t n) { return o->bias ? o->bias + n : NULL; }
static void finish(const output *o, int16_t *y, size_t row, size_t rows, size_t n, size_t cols)
{
    if (o->limit == 127) (void)bt_edge_repair_rows(y, o->ld, &o->repair, row, rows, n, cols);
}

static void tile8(const void *ud, size_t row, size_t rows, size_t n, size_t cols, int32_t *acc)
{
    const output *o = ud;
    int16_t *y = o->y + row * o->ld + n;
    o->kernels->int_requant32(y, o->ld, acc, BT_INT_LINEAR_COLS, bias_at(o, n), o->mult + n, o->shift + n,
                              o->limit, rows, cols);
    finish(o, y, row, rows, n, cols);
}

static void row64(const void *ud, size_t row, size_t n, size_t cols, int64_t *acc)
{
    const output *o = ud;
    int16_t *y = o->y + row * o->ld + n;
    o->kernels->int_requant64(y, o->ld, acc, BT_INT_LINEAR_COLS, bias_at(o, n), o->mult + n, o->shift + n,
                              o->limit, 1, cols);
    finish(o, y, row, 1, n, cols);
}

static void tile16(const void *ud, size_t row, size_t rows, size_t n, size_t cols, const int32_t *hi,
                   const int32_t *lo)
{
    int64_t acc[BT_INT_LINEAR_COLS];
    for (size_t r = 0; r < rows; r++, hi += BT_INT_LINEAR_COLS, lo += BT_INT_LINEAR_COLS) {
        for (size_t c = 0; c < cols; c++) acc[c] = (int64_t)hi[c] * 256 + lo[c];
        row64(ud, row + r, n, cols, acc);
    }
}

static const bt_int_linear_epilogue epilogue = {tile8, tile16, row64};

static size_t wide_of(const bt_pkg_tensor *t) { return 16 * bt_int_panels(t->n); }

static bt_edge_repair repair_of(const bt_exec *x, const bt_pkg_tensor *t, const bt_exec_group *g,
                                const bt_int_linear_matrix *m, uint32_t expert)
{
    const bt_int_linear_input *in = &g->in;
    const bt_pkg_site *site = &bt_pkg_sites(x->pkg)[t->site];
    const bt_pkg_expert *of = bt_pkg_is_of_experts(x->header, t->weight)
                                  ? bt_pkg_expert_of(x->pkg, site->layer, site->kind, expert)
                                  : NULL;
    return (bt_edge_repair){.hi = in->hi,
                            .lo = in->lo,
                            .ld = in->ld,
                            .shadow_count = in->shadow_count,
                            .shadow = in->shadow,
                            .panels = m->panels,
                            .k = in->k,
                            .bits = t->bits,
                            .palettes = m->palettes,
                            .palette_run = t->palette_run,
                            .groups = m->groups,
                            .group = t->group,
                            .zero = of ? of->zero : site->zero,
                            .oscale = bt_exec_const_of(x, t->oscale, expert, wide_of(t) * sizeof(float)),
                            .bias = bt_exec_const_of(x, t->bias, expert, t->n * sizeof(float)),
                            .unit = t->out_scale};
}

/* A group of linears; of INT_EXPERTS those of one expert. */
static void run_group(bt_exec_job *j, const bt_pkg_inst *i, uint32_t expert)
{
    bt_exec *x = j->x;
    bt_exec_group group;
    output out[BT_PKG_MAX_GROUP];
    if (!bt_exec_group_begin(&group, j, i, expert, &epilogue)) return;
    for (size_t g = 0; g < group.group; g++) {
        const bt_pkg_tensor *t = bt_exec_tensor(x, &i[g]);
        const size_t ld = bt_exec_ld_out(&i[g], sizeof(int16_t)), wide = wide_of(t);
        out[g] = (output){.kernels = x->companion.kernels,
                          .y = (int16_t *)bt_exec_at(j, i[g].out) + group.first * ld,
                          .ld = ld,
                          .mult = bt_exec_const_of(x, t->mult, expert, wide * sizeof(int32_t)),
                          .shift = bt_exec_const_of(x, t->shift, expert, wide),
                          .bias = bt_exec_const_of(x, t->bias_q, expert, wide * sizeof(int64_t)),
                          .limit = t->out_bits == 8 ? 127 : BT_INT_MAX16,
                          .repair = repair_of(x, t, &group, &group.m[g], expert)};
        group.m[g].ud = &out[g];
    }
    bt_exec_group_run(j, &group);
}

static void run_linear(bt_exec_job *j, const bt_pkg_inst *i)
{
    for (uint32_t e = 0; e < bt_exec_groups(j, i); e++) run_group(j, i, e);
}

void bt_int_exec_run(bt_exec_job *j, const bt_pkg_inst *i)
{
    if (bt_pkg_is_linear(i)) {
        run_linear(j, i);
        return;
    }
    if (bt_pkg_is_attention(i)) {
        rows_job r = {.j = j, .i = i, .params = bt_exec_const(j->x, (uint32_t)i->params),
                      .slice = bt_exec_job_slice(j, i)};
        run_attention(&r);
        return;
    }
    bt_exec_job_step(j, i, NULL, do_rows);
}

size_t bt_int_exec_scratch_bytes(const bt_pkg *pkg)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    return h->npu_ops == BT_PKG_OPS_ALL ? bt_int_attention_scratch_bytes(h->head_dim, h->ctx_tokens) : 0;
}
