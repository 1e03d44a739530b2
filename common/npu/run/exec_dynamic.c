/* LLM.int8, for the recipe llm-int8 only. Every row has its own scale. A column in which any real row of the
 * run reaches the threshold is taken out of the integers and multiplied in floats with f16 weights. So
 * numbers depend on the chunk. The code is a reference for accuracy, not for speed. */
#include "npu/run/exec_private.h"

#include <math.h>
#include <stdlib.h>

static const float THRESHOLD = 6.0f;

struct bt_exec_dynamic { /* what the last QUANTISE left */
    float *scale;        /* [max_seq]: scale of each row */
    uint32_t *column;    /* [columns], ascending: the columns taken out */
    size_t columns;
    float *value; /* [rows, columns]: their values */
};

bt_err bt_exec_dynamic_new(bt_exec_dynamic **ret, const bt_pkg *pkg, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    const bt_pkg_tensor *t = bt_pkg_tensors(pkg);
    size_t k = 0;
    if (h->experts)
        return bt_fail(fault, BT_EFORMAT,
                       "the package has recipe llm-int8 and experts, which exclude each other");
    if (h->npu_ops != BT_PKG_OPS_LINEAR) /* INT_SPLIT takes no columns out */
        return bt_fail(fault, BT_EFORMAT,
                       "the package has recipe llm-int8 and npu_ops all, which exclude each other");
    for (uint32_t i = 0; i < h->tensors.count; i++)
        if (t[i].n && t[i].site != BT_PKG_NONE &&
            (t[i].bits != 8 || t[i].f16_panels == BT_PKG_NONE || bt_pkg_sites(pkg)[t[i].site].bits != 8))
            return bt_fail(fault, BT_EFORMAT,
                           "the package has recipe llm-int8, and tensor %u has no f16 weights or not 8 bits",
                           i);
    for (uint32_t s = 0; s < h->sites.count; s++)
        if (bt_pkg_sites(pkg)[s].k > k) k = bt_pkg_sites(pkg)[s].k;
    bt_exec_dynamic *d = calloc(1, sizeof *d);
    if (!d || !(d->scale = malloc(h->max_seq * sizeof *d->scale)) ||
        !(d->column = malloc(k * sizeof *d->column)) ||
        !(d->value = calloc(h->max_seq, k * sizeof *d->value))) {
        bt_exec_dynamic_free(d);
        return bt_fail(fault, BT_ENOMEM, "out of memory making an executor");
    }
    *ret = d;
    return BT_OK;
}

void bt_exec_dynamic_free(bt_exec_dynamic *d)
{
    if (!d) return;
    free(d->scale);
    free(d->column);
    free(d->value);
    free(d);
}

void bt_exec_dynamic_quantise(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_exec_dynamic *d = j->x->dynamic;
    const size_t rows = bt_exec_rows(j, i), real = bt_exec_real_rows(j, i), k = i->in_width;
    const float *x = bt_exec_at(j, i->in0);
    int8_t *plane = bt_exec_at(j, i->out);
    bt_companion_flush(&j->x->companion);
    d->columns = 0;
    const size_t ld = bt_exec_ld_in(i, sizeof *x);
    for (uint32_t c = 0; c < k; c++)
        for (size_t r = 0; r < real; r++)
            if (fabsf(x[r * ld + c]) >= THRESHOLD) {
                d->column[d->columns++] = c;
                break;
            }
    for (size_t r = 0; r < rows; r++) {
        const float *from = x + r * ld;
        int8_t *to = plane + r * i->out_stride;
        float max = 0;
        size_t out = 0;
        bt_exec_job_look(j, i, r, from, k, NULL, 0);
        for (size_t c = 0; c < k; c++) {
            if (out < d->columns && d->column[out] == c) d->value[r * d->columns + out++] = from[c];
            else if (fabsf(from[c]) > max) max = fabsf(from[c]);
        }
        d->scale[r] = max > 0 ? max / 127 : 1;
        const float inv = 1 / d->scale[r];
        j->x->companion.kernels->quantise8(to, i->out_stride, from, k, inv, BT_INT_SYMMETRIC, 1, k, NULL,
                                           NULL);
        for (size_t c = 0; c < d->columns; c++) to[d->column[c]] = 0;
    }
    atomic_fetch_add_explicit(&j->x->shadow_entries, (uint64_t)real * d->columns, memory_order_relaxed);
}

typedef struct output { /* the output of one matrix */
    const bt_exec_dynamic *d;
    float *y;
    size_t ld, k;
    const float *scale, *bias; /* the scale of output n is scale[n * scale_step] */
    size_t scale_step;
    const uint16_t *f16; /* panels */
} output;

static void tile8(const void *ud, size_t row, size_t rows, size_t n, size_t cols, int32_t *acc)
{
    const output *o = ud;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            const size_t at = n + c;
            const uint16_t *panel = o->f16 + at / 16 * o->k * 16 + at % 16;
            const float *value = o->d->value + (row + r) * o->d->columns;
            float sum = (float)acc[r * BT_INT_LINEAR_COLS + c] *
                        (o->d->scale[row + r] * o->scale[at * o->scale_step]);
            for (size_t i = 0; i < o->d->columns; i++)
                sum += value[i] * bt_f16_to_f32_1(panel[(size_t)o->d->column[i] * 16]);
            o->y[(row + r) * o->ld + at] = o->bias ? sum + o->bias[at] : sum;
        }
}

static const bt_int_linear_epilogue epilogue = {.tile8 = tile8};

void bt_exec_dynamic_linear(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_exec *x = j->x;
    bt_exec_group group;
    output out[BT_PKG_MAX_GROUP];
    (void)bt_exec_group_begin(&group, j, i, 0, &epilogue);
    group.in.shadow_count = NULL; /* d->value holds what is beyond the integers */
    group.in.shadow = NULL;
    for (size_t g = 0; g < group.group; g++) {
        const bt_pkg_tensor *t = bt_exec_tensor(x, &i[g]);
        /* the columns that were taken out are the companion's work */
        const bt_pkg_part p = bt_exec_linear_part(j, &i[g]);
        const uint64_t beside = (uint64_t)bt_exec_real_rows(j, i) * x->dynamic->columns * p.n;
        const float *scale = bt_exec_const(x, t->wscale), *bias = bt_exec_const(x, t->bias);
        const uint16_t *f16 = bt_exec_const(x, t->f16_panels);
        const size_t scale_step = bt_pkg_consts(x->pkg)[t->wscale].bytes > sizeof(float);
        x->stats.companion_macs += beside;
        x->stats.npu_macs -= beside;
        out[g] = (output){.d = x->dynamic,
                          .y = bt_exec_linear_out(j, &i[g]),
                          .ld = bt_exec_ld_out(&i[g], sizeof(float)),
                          .k = i->in_width,
                          .scale = scale + p.first * scale_step,
                          .scale_step = scale_step,
                          .bias = bias ? bias + p.first : NULL,
                          .f16 = f16 + (size_t)p.first * i->in_width};
        group.m[g].ud = &out[g];
    }
    bt_exec_group_run(j, &group);
}
