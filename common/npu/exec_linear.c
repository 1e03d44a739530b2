/* The companion's side of a linear layer: its input to integers, its sums to floats. The integers between are
 * npu/int_linear.h's. */
#include "npu/exec_private.h"
#include "npu/int_linear.h"

_Static_assert((int)BT_PKG_MAX_GROUP == (int)BT_COMPANION_MAX_GROUP, "a group of linears runs as one");

/* ---- quantise ---- */

typedef struct quantise_job {
    const bt_kernels *kernels;
    const float *x;
    int8_t *hi, *lo;
    bt_int_shadow *shadow; /* NULL: what is beyond the clip is dropped */
    uint32_t *count;
    const uint8_t *hot; /* columns whose shadow is kept; NULL: all */
    size_t rows, k, ld;
    float inv_scale;
} quantise_job;

uint32_t bt_exec_keep_hot(bt_int_shadow *s, uint32_t count, const uint8_t *hot)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (hot[s[i].k]) s[kept++] = s[i];
    return kept;
}

static void quantise_part(void *ud, size_t part, size_t parts)
{
    const quantise_job *q = ud;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, q->rows, 1, part, parts);
    if (r0 == r1) return;
    const float *x = q->x + r0 * q->k;
    bt_int_shadow *shadow = q->shadow ? q->shadow + r0 * q->k : NULL;
    uint32_t *count = q->shadow ? q->count + r0 : NULL;
    int8_t *hi = q->hi + r0 * q->ld;
    if (!q->lo) q->kernels->quantise8(hi, q->ld, x, q->k, q->inv_scale, r1 - r0, q->k, shadow, count);
    else
        q->kernels->quantise16(hi, q->lo + r0 * q->ld, q->ld, x, q->k, q->inv_scale, r1 - r0, q->k, shadow,
                               count);
    for (size_t r = r0; q->hot && r < r1; r++)
        q->count[r] = bt_exec_keep_hot(q->shadow + r * q->k, q->count[r], q->hot);
}

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

void bt_exec_quantise(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_pkg_site *site = &bt_pkg_sites(j->x->pkg)[i->site];
    quantise_job q = {.kernels = j->x->companion.kernels,
                      .x = bt_exec_at(j, i->in0),
                      .hi = bt_exec_at(j, i->out),
                      .lo = bt_exec_at(j, i->in1),
                      .rows = bt_exec_rows(j, i),
                      .k = i->in_width,
                      .ld = i->out_stride,
                      .inv_scale = site->inv_scale};
    bt_exec_shadow_of(j, i, &q.count, &q.shadow);
    if (q.shadow && site->shadow == BT_SHADOW_CHANNEL) q.hot = bt_exec_const(j->x, site->hot);
    bt_pool_run(bt_companion_pool_for(&j->x->companion, q.rows * q.k), quantise_part, &q);
    for (size_t r = 0; q.shadow && r < bt_exec_real_rows(j, i); r++) j->x->stats.shadow_entries += q.count[r];
}

/* ---- scale ---- */

typedef struct output { /* of one matrix */
    const bt_kernels *kernels;
    float *y;
    size_t ld;
    const float *scale, *bias;
} output;

static void tile8(const void *ud, size_t row, size_t rows, size_t n, size_t cols, const int32_t *acc)
{
    const output *o = ud;
    o->kernels->scale8(o->y + row * o->ld + n, o->ld, acc, BT_INT_LINEAR_COLS, o->scale + n,
                       o->bias ? o->bias + n : NULL, rows, cols);
}

static void tile16(const void *ud, size_t row, size_t rows, size_t n, size_t cols, const int32_t *hi,
                   const int32_t *lo)
{
    const output *o = ud;
    o->kernels->scale16(o->y + row * o->ld + n, o->ld, hi, lo, BT_INT_LINEAR_COLS, o->scale + n,
                        o->bias ? o->bias + n : NULL, rows, cols);
}

static void row64(const void *ud, size_t row, size_t n, size_t cols, const int64_t *acc)
{
    const output *o = ud;
    o->kernels->scale64(o->y + row * o->ld + n, o->ld, acc, BT_INT_LINEAR_COLS, o->scale + n,
                        o->bias ? o->bias + n : NULL, 1, cols);
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

static void group_part(void *ud, size_t part, size_t parts)
{
    group_job *job = ud;
    (void)parts;
    bt_int_linear_part(&job->linear, bt_companion_scratch(job->companion, part));
}

void bt_exec_group_run(const bt_exec_group *group)
{
    group_job job = {.companion = group->companion,
                     .linear = {.kernels = group->companion->kernels,
                                .m = group->m,
                                .group = group->group,
                                .paired = group->paired,
                                .in = &group->in,
                                .epilogue = group->epilogue}};
    bt_int_linear_begin(&job.linear);
    bt_pool_run(group->companion->pool, group_part, &job);
}

void bt_exec_linear(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_exec *x = j->x;
    const bool is_logits = i->out == BT_PKG_NOWHERE;
    bt_exec_group group;
    output out[BT_PKG_MAX_GROUP];
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
    bt_exec_group_run(&group);
}

size_t bt_exec_linear_scratch_bytes(const bt_pkg *pkg)
{
    size_t max_k = 0;
    const bt_pkg_tensor *t = bt_pkg_tensors(pkg);
    for (uint32_t n = 0; n < bt_pkg_header_of(pkg)->tensors.count; n++)
        if (t[n].bits == 4 && t[n].k > max_k) max_k = t[n].k;
    return bt_int_linear_scratch_bytes(max_k);
}
