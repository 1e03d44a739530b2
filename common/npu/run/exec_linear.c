/* LINEAR: the companion turns a tile's integer sums into floats, and applies to them at once what is fused
 * with the group (npu/pkg/fuse.h). */
#include "npu/run/exec_private.h"

#include <string.h>

/* ---- tiles ---- */

/* Where a fused QUANTISE writes, tile by tile. */
typedef struct planes {
    const bt_exec_job *j;
    const bt_pkg_inst *i; /* the fused QUANTISE */
    int8_t *hi, *lo;
    size_t ld, k;
    float inv_scale;
    bt_int_range range;
    bt_int_shadow *shadow; /* [rows, k]: a tile's entries of a row begin at the tile's first column, and
                              gather_rows closes the gaps. NULL: no shadow */
    uint8_t *found;        /* [rows, panels of k]: number of entries, at the tile's first panel */
} planes;

typedef struct output { /* the output of one matrix */
    const bt_kernels *kernels;
    float *y;
    size_t ld;
    size_t rows; /* 0: y is [rows, ld]. Else only the epilogue reads y, which lies tile by tile: outputs [n, n
                    + cols) have `rows` rows of cols from y + n * rows on */
    const float *scale, *bias;
    const int32_t *colsum, *colsum_high;
    int zero; /* the inputs' zero point, whose part is taken off the sums */
    bt_edge_then then;
    const planes *planes; /* where y is quantised to; NULL: y is the result */
} output;

static float *y_of(const output *o, size_t *ld, size_t row, size_t n, size_t cols)
{
    *ld = o->rows ? cols : o->ld;
    return o->rows ? o->y + n * o->rows + row * cols : o->y + row * o->ld + n;
}

static void quantise_tile(const output *o, const float *y, size_t row, size_t rows, size_t n, size_t cols)
{
    const planes *p = o->planes;
    const size_t bytes = n + cols == p->k ? p->ld - n : cols; /* padding too */
    _Static_assert(BT_INT_LINEAR_COLS <= UINT8_MAX, "the entries of a tile's row are counted in a byte");
    for (const size_t end = row + rows; row < end; row++, y += cols) {
        bt_int_shadow *shadow = p->shadow ? p->shadow + row * p->k + n : NULL;
        uint32_t count = 0;
        int8_t *hi = p->hi + row * p->ld + n;
        if (!p->lo)
            o->kernels->quantise8(hi, bytes, y, cols, p->inv_scale, p->range, 1, cols, shadow, &count);
        else
            o->kernels->quantise16(hi, p->lo + row * p->ld + n, bytes, y, cols, p->inv_scale, 1, cols, shadow,
                                   &count);
        if (!shadow || count) bt_exec_job_look(p->j, p->i, row, y, cols, shadow, count);
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): without a shadow count is 0 */
        for (uint32_t i = 0; i < count; i++) shadow[i].k += (uint32_t)n;
        if (shadow) p->found[row * bt_int_panels(p->k) + n / 16] = (uint8_t)count;
    }
}

/* Takes the zero point's part off the sums. BT_INT_MAX_ASYMMETRIC_K keeps all numbers within 32 bits. */
static void take_zero(int32_t *acc, int zero, const int32_t *colsum, size_t rows, size_t cols)
{
    int32_t by[BT_INT_LINEAR_COLS];
    for (size_t c = 0; c < cols; c++) by[c] = zero * colsum[c];
    for (; rows > 0; rows--, acc += BT_INT_LINEAR_COLS)
        for (size_t c = 0; c < cols; c++) acc[c] -= by[c];
}

static void take_zero64(int64_t *acc, const output *o, size_t n, size_t cols)
{
    for (size_t c = 0; c < cols; c++)
        acc[c] -= o->zero * (o->colsum[n + c] + (o->colsum_high ? 128 * (int64_t)o->colsum_high[n + c] : 0));
}

static void tile8(const void *ud, size_t row, size_t rows, size_t n, size_t cols, int32_t *acc)
{
    const output *o = ud;
    size_t ld;
    float *y = y_of(o, &ld, row, n, cols);
    if (o->zero) take_zero(acc, o->zero, o->colsum + n, rows, cols);
    o->kernels->scale8(y, ld, acc, BT_INT_LINEAR_COLS, o->scale + n, o->bias ? o->bias + n : NULL, rows, cols,
                       o->then);
    if (o->planes) quantise_tile(o, y, row, rows, n, cols);
}

static void tile16(const void *ud, size_t row, size_t rows, size_t n, size_t cols, const int32_t *hi,
                   const int32_t *lo)
{
    const output *o = ud;
    size_t ld;
    float *y = y_of(o, &ld, row, n, cols);
    o->kernels->scale16(y, ld, hi, lo, BT_INT_LINEAR_COLS, o->scale + n, o->bias ? o->bias + n : NULL, rows,
                        cols, o->then);
    if (o->planes) quantise_tile(o, y, row, rows, n, cols);
}

static void row64(const void *ud, size_t row, size_t n, size_t cols, int64_t *acc)
{
    const output *o = ud;
    size_t ld;
    float *y = y_of(o, &ld, row, n, cols);
    if (o->zero) take_zero64(acc, o, n, cols);
    o->kernels->scale64(y, ld, acc, BT_INT_LINEAR_COLS, o->scale + n, o->bias ? o->bias + n : NULL, 1, cols,
                        o->then);
    if (o->planes) quantise_tile(o, y, row, 1, n, cols);
}

static const bt_int_linear_epilogue epilogue = {tile8, tile16, row64};

/* ---- the group ---- */

/* Closes the gaps between the entries of a row, which begin where their tiles begin. */
static void gather_rows(void *ud, const void *what, const float *none, size_t r0, size_t n, void *scratch)
{
    bt_exec_job *j = ud;
    const bt_pkg_inst *i = what;
    const size_t k = i->in_width, panels = bt_int_panels(k);
    const bt_exec_shadow s = bt_exec_job_shadow(j, i);
    (void)none, (void)scratch;
    for (size_t r = r0; r < r0 + n; r++) {
        const uint8_t *found = j->x->found + r * panels;
        bt_int_shadow *row = s.entry + r * k;
        uint32_t count = 0;
        for (size_t p = 0; p < panels; p++)
            if (found[p]) {
                memmove(row + count, row + 16 * p, found[p] * sizeof *row);
                count += found[p];
            }
        s.count[r] = count;
    }
    bt_exec_job_shadow_made(j, i, &s, r0, n);
}

static planes planes_of(bt_exec_job *j, const bt_pkg_inst *i)
{
    const planes p = {.j = j,
                      .i = i,
                      .hi = bt_exec_at(j, i->out),
                      .lo = bt_exec_at(j, i->in1),
                      .ld = i->out_stride,
                      .k = i->in_width,
                      .inv_scale = bt_exec_site(j->x, i)->inv_scale,
                      .range = bt_pkg_site_range(bt_exec_site(j->x, i)),
                      .shadow = bt_exec_job_shadow(j, i).entry,
                      .found = j->x->found};
    if (p.shadow) memset(p.found, 0, bt_exec_rows(j, i) * bt_int_panels(p.k));
    return p;
}

/* The epilogue adds rows as they are; a package with another add_scale adds them in an instruction of its
 * own. */
static bt_fuse_then fused(const bt_exec *x, const bt_fuse *fuse)
{
    return fuse->then == BT_FUSE_ADD && x->header->add_scale != 1 ? BT_FUSE_NOTHING
                                                                  : (bt_fuse_then)fuse->then;
}

/* Sets the output of each matrix of the group, of EXPERTS those of one expert. */
static void set_outputs(output *out, bt_exec_group *group, const bt_exec_job *j, const bt_pkg_inst *i,
                        uint32_t expert)
{
    const bt_exec *x = j->x;
    for (size_t g = 0; g < group->group; g++) {
        const bt_pkg_tensor *t = bt_exec_tensor(x, &i[g]);
        const bt_pkg_site *site = &bt_pkg_sites(x->pkg)[t->site];
        const bt_pkg_expert *of =
            bt_pkg_is_experts(i) ? bt_pkg_expert_of(x->pkg, site->layer, site->kind, expert) : NULL;
        const size_t first = bt_exec_linear_part(j, &i[g]).first, ld = bt_exec_ld_out(&i[g], sizeof(float)),
                     wide = 16 * bt_int_panels(t->n);
        const float *scale = bt_exec_const_of(x, t->oscale, expert, wide * sizeof *scale),
                    *bias = bt_exec_const_of(x, t->bias, expert, t->n * sizeof *bias);
        out[g] = (output){.kernels = x->companion.kernels,
                          .y = bt_exec_linear_out(j, &i[g]) + group->first * ld,
                          .ld = ld,
                          .scale = scale + first,
                          .bias = bias ? bias + first : NULL,
                          .zero = of ? of->zero : site->zero,
                          .colsum = group->m[g].colsum,
                          .colsum_high = group->m[g].colsum_high};
        group->m[g].ud = &out[g];
    }
}

/* Expert by expert, over the rows that GATHER_ROWS put together. */
static size_t run_experts(bt_exec_job *j, const bt_pkg_inst *i)
{
    for (uint32_t e = 0; e < bt_exec_groups(j, i); e++) {
        bt_exec_group group;
        output out[BT_PKG_MAX_GROUP];
        if (!bt_exec_group_begin(&group, j, i, e, &epilogue)) continue;
        set_outputs(out, &group, j, i, e);
        bt_exec_group_run(j, &group);
    }
    return i->group;
}

size_t bt_exec_linear(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_exec *x = j->x;
    if (bt_pkg_is_experts(i)) return run_experts(j, i);
    const bt_fuse *fuse = bt_exec_fuse(j, i);
    const bt_fuse_then what = fused(x, fuse);
    const bt_pkg_inst *then = what == BT_FUSE_NOTHING ? NULL : i + i->group;
    const bt_pkg_inst *quantise = then && bt_exec_rows(j, i) <= fuse->quantise_rows ? then + 1 : NULL;
    bt_exec_group group;
    output out[BT_PKG_MAX_GROUP];
    planes p;
    (void)bt_exec_group_begin(&group, j, i, 0, &epilogue); /* rows of experts alone may be none */
    set_outputs(out, &group, j, i, 0);
    if (what == BT_FUSE_ADD) out[0].y = bt_exec_at(j, then->out), out[0].then = BT_EDGE_ADD;
    if (what == BT_FUSE_SILU_MUL)
        /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): the two are in the group */
        group.paired = true, out[1].y = out[0].y, out[1].then = BT_EDGE_SILU_MUL;
    if (quantise) p = planes_of(j, quantise), out[1].planes = &p, out[0].rows = out[1].rows = group.in.rows;
    bt_exec_group_run(j, &group);
    if (quantise && p.shadow) bt_exec_job_step(j, quantise, NULL, gather_rows);
    return group.group + !!then + !!quantise;
}
