/* The companion's side of a linear layer: its input to integers, its sums to floats. The integers between are
 * npu/run/int_linear.h's. */
#include "npu/run/exec_private.h"
#include "npu/run/int_linear.h"

#include <string.h>

_Static_assert((int)BT_PKG_MAX_GROUP == (int)BT_COMPANION_MAX_GROUP, "a group of linears runs as one");

/* ---- quantise ---- */

void bt_exec_shadow_of(const bt_exec_job *j, const bt_pkg_inst *i, uint32_t **count, bt_int_shadow **shadow)
{
    const bt_pkg_site *site = &bt_pkg_sites(j->x->pkg)[i->site];
    const uint64_t rows = i->out_rows ? j->program->out : j->program->seq;
    *count = NULL;
    *shadow = NULL;
    if (i->aux == BT_PKG_NOWHERE || site->shadow == BT_SHADOW_OFF || site->pruned) return;
    *count = bt_exec_at(j, i->aux);
    *shadow = bt_exec_at(j, i->aux + bt_pkg_shadow_counts_bytes(rows));
}

/* Drops the entries of columns that are not hot from s[count]; how many are left. */
static uint32_t keep_hot(bt_int_shadow *s, uint32_t count, const uint8_t *hot)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (hot[s[i].k]) s[kept++] = s[i];
    return kept;
}

void bt_exec_finish_shadow(bt_exec_job *j, const bt_pkg_inst *i, uint32_t *count, bt_int_shadow *shadow, size_t r0, size_t n)
{
    const bt_pkg_site *site = &bt_pkg_sites(j->x->pkg)[i->site];
    const uint8_t *hot = site->shadow == BT_SHADOW_CHANNEL ? bt_exec_const(j->x, site->hot) : NULL;
    const size_t real = bt_exec_real_rows(j, i);
    uint64_t sum = 0;
    for (size_t r = 0; r < n; r++) {
        if (hot) count[r] = keep_hot(shadow + r * i->in_width, count[r], hot);
        if (r0 + r < real) sum += count[r];
    }
    atomic_fetch_add_explicit(&j->x->shadow_entries, sum, memory_order_relaxed);
}

static void quantise_rows(void *ud, const void *what, const float *x, size_t r0, size_t n, void *scratch)
{
    bt_exec_job *j = ud;
    const bt_pkg_inst *i = what;
    const bt_pkg_site *site = &bt_pkg_sites(j->x->pkg)[i->site];
    const bt_kernels *kernels = j->x->companion.kernels;
    const size_t k = i->in_width, ld = i->out_stride;
    int8_t *hi = bt_exec_at(j, i->out), *lo = bt_exec_at(j, i->in1);
    uint32_t *count;
    bt_int_shadow *shadow;
    (void)scratch;
    bt_exec_shadow_of(j, i, &count, &shadow);
    if (shadow) count += r0, shadow += r0 * k;
    if (!lo) kernels->quantise8(hi + r0 * ld, ld, x, k, site->inv_scale, n, k, shadow, count);
    else kernels->quantise16(hi + r0 * ld, lo + r0 * ld, ld, x, k, site->inv_scale, n, k, shadow, count);
    if (shadow) bt_exec_finish_shadow(j, i, count, shadow, r0, n);
}

void bt_exec_quantise(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_companion *c = &j->x->companion;
    const bt_exec_areas a = bt_exec_areas_of(j, i);
    const float *x = bt_exec_at(j, i->in0);
    bt_companion_step(c, bt_exec_rows(j, i), i->in_width, x, a.area, a.count, quantise_rows, j, i);
    if (bt_exec_is_dead(j, i, i->in0)) bt_companion_drop(c, x);
}

/* ---- scale ---- */

/* Where results go that are quantised at once, tile by tile. */
typedef struct planes {
    int8_t *hi, *lo;
    size_t ld, k;
    float inv_scale;
    bt_int_shadow *shadow; /* [rows, k]: the entries of a tile from its first column on, until they are gathered; NULL: none */
    uint8_t *found;        /* [rows, panels of k]: how many, at the tile's first panel */
} planes;

typedef struct output { /* of one matrix */
    const bt_kernels *kernels;
    float *y;
    size_t ld;
    size_t rows; /* 0: y is [rows, ld]. Else only the epilogue itself reads y, and each tile's columns stand together for all rows */
    const float *scale, *bias;
    bt_edge_then then;
    const planes *planes; /* NULL: y is what is wanted */
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
        if (!p->lo) o->kernels->quantise8(hi, bytes, y, cols, p->inv_scale, 1, cols, shadow, &count);
        else o->kernels->quantise16(hi, p->lo + row * p->ld + n, bytes, y, cols, p->inv_scale, 1, cols, shadow, &count);
        for (uint32_t i = 0; i < count; i++) shadow[i].k += (uint32_t)n;
        if (shadow) p->found[row * bt_int_panels(p->k) + n / 16] = (uint8_t)count;
    }
}

static void tile8(const void *ud, size_t row, size_t rows, size_t n, size_t cols, const int32_t *acc)
{
    const output *o = ud;
    size_t ld;
    float *y = y_of(o, &ld, row, n, cols);
    o->kernels->scale8(y, ld, acc, BT_INT_LINEAR_COLS, o->scale + n, o->bias ? o->bias + n : NULL, rows, cols, o->then);
    if (o->planes) quantise_tile(o, y, row, rows, n, cols);
}

static void tile16(const void *ud, size_t row, size_t rows, size_t n, size_t cols, const int32_t *hi,
                   const int32_t *lo)
{
    const output *o = ud;
    size_t ld;
    float *y = y_of(o, &ld, row, n, cols);
    o->kernels->scale16(y, ld, hi, lo, BT_INT_LINEAR_COLS, o->scale + n, o->bias ? o->bias + n : NULL, rows, cols, o->then);
    if (o->planes) quantise_tile(o, y, row, rows, n, cols);
}

static void row64(const void *ud, size_t row, size_t n, size_t cols, const int64_t *acc)
{
    const output *o = ud;
    size_t ld;
    float *y = y_of(o, &ld, row, n, cols);
    o->kernels->scale64(y, ld, acc, BT_INT_LINEAR_COLS, o->scale + n, o->bias ? o->bias + n : NULL, 1, cols, o->then);
    if (o->planes) quantise_tile(o, y, row, 1, n, cols);
}

static const bt_int_linear_epilogue epilogue = {tile8, tile16, row64};

/* ---- a group ---- */

void bt_exec_group_begin(bt_exec_group *ret, bt_exec_job *j, const bt_pkg_inst *i, size_t rows, const bt_int_linear_epilogue *then)
{
    bt_exec *x = j->x;
    uint32_t *count;
    bt_int_shadow *shadow;
    bt_exec_shadow_of(j, i, &count, &shadow);
    *ret = (bt_exec_group){.companion = &x->companion,
                           .prepared = x->prepared,
                           .epilogue = then,
                           .group = i->group,
                           .in = {.hi = bt_exec_at(j, i->in0),
                                  .lo = bt_exec_at(j, i->in1),
                                  .ld = i->in_stride,
                                  .rows = rows,
                                  .k = i->in_width,
                                  .shadow_count = count,
                                  .shadow = shadow}};
    for (size_t g = 0; g < ret->group; g++) {
        const bt_pkg_tensor *t = &bt_pkg_tensors(x->pkg)[i[g].tensor];
        ret->m[g] = (bt_int_linear_matrix){.panels = bt_exec_const(x, t->panels),
                                           .colsum = bt_exec_const(x, t->colsum),
                                           .n = t->n,
                                           .bits = t->bits};
        x->stats.npu_macs += bt_exec_real_rows(j, i) * i[g].macs_per_row;
    }
}

typedef struct group_job {
    const bt_companion *companion;
    bt_int_linear linear;
} group_job;

static void prepare_part(void *ud, size_t part, size_t parts)
{
    group_job *job = ud;
    (void)part, (void)parts;
    bt_int_linear_prepare(&job->linear);
}
static void group_part(void *ud, size_t part, size_t parts)
{
    group_job *job = ud;
    (void)parts;
    bt_int_linear_part(&job->linear, bt_companion_scratch(job->companion, part));
}

void bt_exec_group_run(const bt_exec_group *group)
{
    const bt_companion *c = group->companion;
    group_job job = {.companion = c,
                     .linear = {.kernels = c->kernels,
                                .m = group->m,
                                .group = group->group,
                                .paired = group->paired,
                                .in = &group->in,
                                .epilogue = group->epilogue,
                                .prepared = group->prepared}};
    bt_companion_flush(c);
    bt_int_linear_begin(&job.linear, bt_pool_threads(c->pool));
    bt_pool_run(bt_companion_pool_for(c, group->in.rows * group->in.k), prepare_part, &job);
    bt_pool_run(c->pool, group_part, &job);
}

/* ---- what is done with the results at once ---- */

/* Instructions behind a group of LINEARs that its epilogue does too, where nothing else reads what passes between them. NULL: not so. */
typedef struct follow {
    const bt_pkg_inst *add;      /* a LINEAR into the residual stream */
    const bt_pkg_inst *silu_mul; /* gate and up */
    const bt_pkg_inst *quantise; /* silu_mul's result */
} follow;

static bool is_same_shape(const bt_pkg_inst *a, const bt_pkg_inst *b)
{
    return a->out_rows == b->out_rows && a->out_width == b->out_width;
}

/* Planes that may be written while the linears still read theirs. */
static bool is_apart(const bt_exec_job *j, const bt_pkg_inst *linear, const bt_pkg_inst *quantise)
{
    const size_t rows = bt_exec_rows(j, linear);
    const bt_exec_areas out = bt_exec_areas_of(j, quantise);
    uint32_t *count;
    bt_int_shadow *shadow;
    bt_exec_shadow_of(j, linear, &count, &shadow);
    const bt_companion_area in[] = {{bt_exec_at(j, linear->in0), linear->in_stride, false},
                                    {bt_exec_at(j, linear->in1), linear->in_stride, false},
                                    {count, sizeof *count, false},
                                    {shadow, linear->in_width * sizeof *shadow, false}};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        for (size_t o = 0; o < out.count; o++) {
            const uintptr_t p = (uintptr_t)in[i].at, q = (uintptr_t)out.area[o].at;
            if (p && q && out.area[o].is_written && p < q + rows * out.area[o].stride && q < p + rows * in[i].stride) return false;
        }
    return true;
}

static follow follow_of(const bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_pkg_inst *next = i + i->group;
    const bt_pkg_tensor *t = bt_pkg_tensors(j->x->pkg);
    follow f = {NULL, NULL, NULL};
    if (next == j->end || i->out == BT_PKG_NOWHERE) return f;
    if (i->group == 1 && next->op == BT_PKG_ADD && next->in1 == i->out && next->out != i->out && is_same_shape(i, next) &&
        bt_exec_is_dead(j, next, i->out))
        f.add = next;
    if (i->group == 2 && next->op == BT_PKG_SILU_MUL && next->out == i[0].out && next->in1 == i[1].out && is_same_shape(&i[0], next) &&
        is_same_shape(&i[1], next) && t[i[0].tensor].bits == t[i[1].tensor].bits && bt_exec_is_dead(j, next, i[1].out))
        f.silu_mul = next;
    next++;
    /* no wider than ffn: as a package may pair other matrices, and `found` has no more room */
    if (f.silu_mul && next < j->end && next->op == BT_PKG_QUANTISE && next->in0 == i->out && is_same_shape(i, next) &&
        next->in_width <= j->x->header->ffn && bt_exec_is_dead(j, next, i->out) && is_apart(j, i, next))
        f.quantise = next;
    return f;
}

/* Entries were listed tile by tile: closes the gaps between them. */
static void gather_rows(void *ud, const void *what, const float *none, size_t r0, size_t n, void *scratch)
{
    bt_exec_job *j = ud;
    const bt_pkg_inst *i = what;
    const size_t k = i->in_width, panels = bt_int_panels(k);
    uint32_t *count;
    bt_int_shadow *shadow;
    (void)none, (void)scratch;
    bt_exec_shadow_of(j, i, &count, &shadow);
    for (size_t r = r0; r < r0 + n; r++) {
        const uint8_t *found = j->x->found + r * panels;
        bt_int_shadow *row = shadow + r * k;
        count[r] = 0;
        for (size_t p = 0; p < panels; p++)
            if (found[p]) {
                memmove(row + count[r], row + 16 * p, found[p] * sizeof *row);
                count[r] += found[p];
            }
    }
    bt_exec_finish_shadow(j, i, count + r0, shadow + r0 * k, r0, n);
}

static planes planes_of(bt_exec_job *j, const bt_pkg_inst *i)
{
    uint32_t *count;
    planes p = {.hi = bt_exec_at(j, i->out), .lo = bt_exec_at(j, i->in1), .ld = i->out_stride, .k = i->in_width,
                .inv_scale = bt_pkg_sites(j->x->pkg)[i->site].inv_scale, .found = j->x->found};
    bt_exec_shadow_of(j, i, &count, &p.shadow);
    if (p.shadow) memset(p.found, 0, bt_exec_rows(j, i) * bt_int_panels(p.k));
    return p;
}

size_t bt_exec_linear(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_exec *x = j->x;
    const bool is_logits = i->out == BT_PKG_NOWHERE;
    const follow then = follow_of(j, i);
    bt_exec_group group;
    output out[BT_PKG_MAX_GROUP];
    planes p;
    /* the caller's memory has no padding */
    bt_exec_group_begin(&group, j, i, is_logits ? bt_exec_real_rows(j, i) : bt_exec_rows(j, i), &epilogue);
    for (size_t g = 0; g < group.group; g++) {
        const bt_pkg_tensor *t = &bt_pkg_tensors(x->pkg)[i[g].tensor];
        out[g] = (output){.kernels = x->companion.kernels,
                          .y = is_logits ? j->io->logits : bt_exec_at(j, i[g].out),
                          .ld = i[g].out_width,
                          .scale = bt_exec_const(x, t->oscale),
                          .bias = bt_exec_const(x, t->bias)};
        group.m[g].ud = &out[g];
    }
    if (then.add) out[0].y = bt_exec_at(j, then.add->out), out[0].then = BT_EDGE_ADD;
    if (then.silu_mul) group.paired = true, out[1].y = out[0].y, out[1].then = BT_EDGE_SILU_MUL;
    if (then.quantise) p = planes_of(j, then.quantise), out[1].planes = &p, out[0].rows = out[1].rows = group.in.rows;
    bt_exec_group_run(&group);
    if (then.quantise && p.shadow) {
        const bt_exec_areas a = bt_exec_areas_of(j, then.quantise);
        bt_companion_step(&x->companion, group.in.rows, then.quantise->in_width, NULL, a.area, a.count, gather_rows, j, then.quantise);
    }
    return group.group + !!then.add + !!then.silu_mul + !!then.quantise;
}

size_t bt_exec_linear_scratch_bytes(const bt_pkg *pkg)
{
    size_t max_k = 0;
    const bt_pkg_tensor *t = bt_pkg_tensors(pkg);
    for (uint32_t n = 0; n < bt_pkg_header_of(pkg)->tensors.count; n++)
        if (t[n].bits == 4 && t[n].k > max_k) max_k = t[n].k;
    return bt_int_linear_scratch_bytes(max_k);
}

size_t bt_exec_linear_prepared_bytes(const bt_pkg *pkg)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    const bt_pkg_tensor *t = bt_pkg_tensors(pkg);
    size_t max = 0;
    for (uint32_t n = 0; n < h->tensors.count; n++) {
        const size_t narrow = bt_int_linear_prepared_bytes(h->max_seq, t[n].k, false);
        const size_t wide = bt_int_linear_prepared_bytes(h->max_seq, t[n].k, true);
        if (max < narrow) max = narrow;
        if (max < wide) max = wide;
    }
    return max;
}
