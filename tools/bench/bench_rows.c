/* The kernels that go over rows of activations, beside their reference and the rate of memory: see
 * bench_rows.h. */
#include "tools/bench/bench_rows.h"

#include <stdio.h>
#include <string.h>

/* Rows of `width` elements that begin every `ld`. Inputs are never written; a kernel that works in place
 * works on `out`. */
typedef struct rows {
    const bt_kernels *kernels;
    const bt_hparams *hp;
    size_t kind, rows, width, ld;
    const float *x, *g; /* also read as s32 (x32) and s16 where integers are wanted */
    const int32_t *x32;
    const int16_t *x16;
    const int64_t *x64;
    const float *scale; /* [width] */
    const int32_t *m;   /* [width] multipliers and their shifts */
    const uint8_t *s;
    uint8_t *out;     /* 4 bytes an element */
    uint8_t *scratch; /* one for each part */
    size_t scratch_bytes;
} rows;

#define F32(e, at) ((float *)(void *)(e)->out + (at))
#define S32(e, at) ((int32_t *)(void *)(e)->out + (at))
#define S16(e, at) ((int16_t *)(void *)(e)->out + (at))
#define S8(e, at)  ((int8_t *)(e)->out + (at))

static const bt_int_mul half = {1 << 30, 31};

/* Each: rows [at / ld, at / ld + n). */
static void run_rmsnorm(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->rmsnorm(F32(e, at), e->ld, e->x + at, e->ld, e->scale, 1e-5f, n, e->width);
}
static void run_layernorm(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->layernorm(F32(e, at), e->ld, e->x + at, e->ld, e->scale, 1e-5f, n, e->width / 2);
}
static void run_gelu(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->gelu(F32(e, at), e->x + at, n * e->ld);
}
static void run_gelu_mul(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->gelu_mul(F32(e, at), e->x + at, e->g + at, n * e->ld);
}
static void run_clamp_mul(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->clamp_mul(F32(e, at), e->x + at, e->g + at, n * e->ld);
}
static void run_soft_cap(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->soft_cap(F32(e, at), 30.0f, n * e->ld);
}
static void run_add(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->add(F32(e, at), e->x + at, n * e->ld);
}
static void run_add_scaled(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->add_scaled(F32(e, at), e->x + at, 0.22f, n * e->ld);
}
/* n rows of width, wherever they begin. */
static void run_dots(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->dots(F32(e, at), e->scale, e->x + at, n, e->width);
}
static void run_silu_mul(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->silu_mul(F32(e, at), e->x + at, e->g + at, n * e->ld);
}
static void run_rope(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    for (size_t i = 0; i < n; i++)
        e->kernels->rope(F32(e, at + i * e->ld), e->width / e->hp->head_dim, e->hp->head_dim,
                         e->hp->rope_dims, e->scale, e->scale, e->hp->rope_neox);
}
static void run_to_f16(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->f32_to_f16((uint16_t *)S16(e, at), e->x + at, n * e->ld);
}
static void run_from_f16(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->f16_to_f32(F32(e, at), (const uint16_t *)e->x16 + at, n * e->ld);
}
/* Each row as logits of so many ids. */
static void run_logit_range(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    for (size_t i = 0; i < n; i++, at += e->ld) e->kernels->logit_range(F32(e, at), e->x + at, e->width);
}
static void run_logit_sum(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    for (size_t i = 0; i < n; i++, at += e->ld)
        *F32(e, at) = e->kernels->logit_sum(e->x + at, e->width, 1.0f, 0.8f, -0.9f);
}
static void run_logit_bins(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    for (size_t i = 0; i < n; i++, at += e->ld)
        e->kernels->logit_bins(S32(e, at), NULL, e->x + at, e->width, 1.0f, 0.9f, -0.9f, 500.0f, 1024.0f);
}
static void run_logit_mass(const rows *e, size_t at, size_t n, void *scratch)
{
    for (size_t i = 0; i < n; i++, at += e->ld)
        e->kernels->logit_bins(scratch, S32(e, at), e->x + at, e->width, 1.0f, 0.9f, -0.9f, 500.0f, 1024.0f);
}
static void run_logit_list(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    for (size_t i = 0; i < n; i++, at += e->ld)
        (void)e->kernels->logit_list((uint32_t *)S32(e, at), e->x + at, e->width, 0.95f, 1.0f);
}
static void run_fp4_sums(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->fp4_sums(F32(e, at), e->x + at, e->ld, n, e->width);
}
static void run_quantise8(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->quantise8(S8(e, at), e->ld, e->x + at, e->ld, 100.0f, BT_INT_SYMMETRIC, n, e->width, NULL,
                          NULL);
}
static void run_quantise16(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->quantise16(S8(e, at), S8(e, e->rows * e->ld + at), e->ld, e->x + at, e->ld, 100.0f, n,
                           e->width, NULL, NULL);
}
static void run_scale8(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->scale8(F32(e, at), e->ld, e->x32 + at, e->ld, e->scale, NULL, n, e->width, BT_EDGE_STORE);
}
static void run_scale8_add(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->scale8(F32(e, at), e->ld, e->x32 + at, e->ld, e->scale, NULL, n, e->width, BT_EDGE_ADD);
}
static void run_scale8_silu(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->scale8(F32(e, at), e->ld, e->x32 + at, e->ld, e->scale, NULL, n, e->width, BT_EDGE_SILU_MUL);
}
static void run_scale16(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->scale16(F32(e, at), e->ld, e->x32 + at, (const int32_t *)(const void *)e->x64 + at, e->ld,
                        e->scale, NULL, n, e->width, BT_EDGE_STORE);
}
static void run_scale64(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->scale64(F32(e, at), e->ld, e->x64 + at, e->ld, e->scale, NULL, n, e->width, BT_EDGE_STORE);
}
static void run_rotate(const rows *e, size_t at, size_t n, void *scratch)
{
    e->kernels->rotate(F32(e, at), e->ld, n, e->width / 64, NULL, 1, 6, NULL, 0.125f, scratch);
}
static void run_requant32(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->int_requant32(S16(e, at), e->ld, e->x32 + at, e->ld, NULL, e->m, e->s, 32639, n, e->width);
}
static void run_requant64(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->int_requant64(S16(e, at), e->ld, e->x64 + at, e->ld, NULL, e->m, e->s, 32639, n, e->width);
}
static void run_int_rmsnorm(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->int_rmsnorm32(S32(e, at), e->ld, e->x32 + at, e->ld, NULL, 1 << 20, 10, 1000, n, e->width);
}
static void run_int_headnorm(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->int_headnorm16(S16(e, at), e->ld, e->width / e->hp->head_dim, e->m, 10, 1000, n,
                               e->hp->head_dim);
}
static void run_int_rope(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    for (size_t i = 0; i < n; i++)
        e->kernels->int_rope16(S16(e, at + i * e->ld), e->width / e->hp->head_dim, e->hp->head_dim,
                               e->hp->rope_dims, e->x16, e->x16, e->hp->rope_neox);
}
static void run_int_softmax(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    for (size_t i = 0; i < n; i++)
        (void)e->kernels->int_softmax16(S16(e, at + i * e->ld), e->x32 + at + i * e->ld, e->width, half);
}
static void run_int_silu(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->int_silu_mul16(S32(e, at), e->x16 + at, e->x16 + e->rows * e->ld + at, n * e->ld,
                               (bt_int_mul){1 << 30, 15}, half);
}
static void run_int_gelu_mul(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->int_gelu_mul16(S32(e, at), e->x16 + at, e->x16 + e->rows * e->ld + at, n * e->ld,
                               (bt_int_mul){1 << 30, 15}, half);
}
static void run_int_gelu(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->int_gelu16(S32(e, at), e->x16 + at, n * e->ld, (bt_int_mul){1 << 30, 15}, half);
}
static void run_int_add(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->int_add32(S32(e, at), e->x16 + at, n * e->ld, half);
}
static void run_split8(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->int_split8(S8(e, at), e->ld, e->x32 + at, e->ld, BT_INT_SYMMETRIC, n, e->width, NULL, NULL);
}
static void run_split16(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->int_split16(S8(e, at), S8(e, e->rows * e->ld + at), e->ld, e->x32 + at, e->ld, n, e->width,
                            NULL, NULL);
}
static void run_int_rotate(const rows *e, size_t at, size_t n, void *scratch)
{
    e->kernels->int_rotate16(S32(e, at), e->ld, e->x16 + at, e->ld, n, e->width / 64, NULL, 1, 6, NULL, half,
                             scratch);
}
static void run_int_from_f16(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->int_from_f16(S16(e, at), (const uint16_t *)e->x16 + at, n * e->ld, 10);
}
static void run_int_from_q8(const rows *e, size_t at, size_t n, void *scratch)
{
    (void)scratch;
    e->kernels->int_from_q8(S16(e, at), (const int8_t *)e->x16 + at, 0x2c00, n * e->ld, 10);
}

static const struct {
    const char *name, *how;
    double bytes; /* an element, read and written */
    void (*run)(const rows *e, size_t at, size_t n, void *scratch);
} kinds[] = {
    {BT_KERNEL(rmsnorm), "", 8, run_rmsnorm},
    {BT_KERNEL(layernorm), "", 4, run_layernorm},
    {BT_KERNEL(gelu), "", 8, run_gelu},
    {BT_KERNEL(gelu_mul), "", 12, run_gelu_mul},
    {BT_KERNEL(clamp_mul), "", 12, run_clamp_mul},
    {BT_KERNEL(soft_cap), "", 8, run_soft_cap},
    {BT_KERNEL(add), "", 12, run_add},
    {BT_KERNEL(add_scaled), "", 12, run_add_scaled},
    {BT_KERNEL(dots), "", 4, run_dots},
    {BT_KERNEL(silu_mul), "", 12, run_silu_mul},
    {BT_KERNEL(rope), "", 8, run_rope},
    {BT_KERNEL(f32_to_f16), "", 6, run_to_f16},
    {BT_KERNEL(f16_to_f32), "", 6, run_from_f16},
    {BT_KERNEL(fp4_sums), "", 4.125, run_fp4_sums},
    {BT_KERNEL(logit_range), "", 4, run_logit_range},
    {BT_KERNEL(logit_sum), "", 4, run_logit_sum},
    {BT_KERNEL(logit_bins), "", 8, run_logit_bins},
    {BT_KERNEL(logit_bins), ", mass", 8, run_logit_mass},
    {BT_KERNEL(logit_list), "", 4, run_logit_list},
    {BT_KERNEL(quantise8), "", 5, run_quantise8},
    {BT_KERNEL(quantise16), "", 6, run_quantise16},
    {BT_KERNEL(scale8), "", 8, run_scale8},
    {BT_KERNEL(scale8), ", add", 12, run_scale8_add},
    {BT_KERNEL(scale8), ", silu_mul", 12, run_scale8_silu},
    {BT_KERNEL(scale16), "", 12, run_scale16},
    {BT_KERNEL(scale64), "", 12, run_scale64},
    {BT_KERNEL(rotate), "", 8, run_rotate},
    {BT_KERNEL(int_requant32), "", 6, run_requant32},
    {BT_KERNEL(int_requant64), "", 10, run_requant64},
    {BT_KERNEL(int_rmsnorm32), "", 8, run_int_rmsnorm},
    {BT_KERNEL(int_headnorm16), "", 4, run_int_headnorm},
    {BT_KERNEL(int_rope16), "", 4, run_int_rope},
    {BT_KERNEL(int_softmax16), "", 6, run_int_softmax},
    {BT_KERNEL(int_silu_mul16), "", 8, run_int_silu},
    {BT_KERNEL(int_gelu16), "", 6, run_int_gelu},
    {BT_KERNEL(int_gelu_mul16), "", 8, run_int_gelu_mul},
    {BT_KERNEL(int_add32), "", 10, run_int_add},
    {BT_KERNEL(int_split8), "", 5, run_split8},
    {BT_KERNEL(int_split16), "", 6, run_split16},
    {BT_KERNEL(int_rotate16), "", 6, run_int_rotate},
    {BT_KERNEL(int_from_f16), "", 4, run_int_from_f16},
    {BT_KERNEL(int_from_q8), "", 3, run_int_from_q8},
};

static void rows_part(void *ud, size_t part, size_t parts)
{
    const rows *e = ud;
    size_t t0, t1;
    bt_pool_slice(&t0, &t1, e->rows, 16, part, parts);
    if (t0 < t1) kinds[e->kind].run(e, t0 * e->ld, t1 - t0, e->scratch + part * e->scratch_bytes);
}

/* Values that every kernel may read: floats in [-1, 1], s32 and s16 within the ranges of int_ops.h (as f16
 * these are small and finite). */
static bt_err fill(rows *e, tool_kernel_run *r)
{
    const size_t count = e->rows * e->ld;
    float *x = tool_kernel_bytes(r, count * sizeof *x), *g = tool_kernel_bytes(r, count * sizeof *g),
          *scale = tool_kernel_bytes(r, e->ld * sizeof *scale);
    int32_t *x32 = tool_kernel_bytes(r, count * sizeof *x32), *m = tool_kernel_bytes(r, e->ld * sizeof *m);
    int16_t *x16 = tool_kernel_bytes(r, 2 * count * sizeof *x16);
    int64_t *x64 = tool_kernel_bytes(r, count * sizeof *x64);
    uint8_t *s = tool_kernel_bytes(r, e->ld);
    e->scratch_bytes = e->ld * sizeof(float);
    e->out = tool_kernel_bytes(r, 4 * count);
    e->scratch = tool_kernel_bytes(r, r->m->threads * e->scratch_bytes);
    if (!x || !g || !scale || !x32 || !m || !x16 || !x64 || !s || !e->out || !e->scratch) return BT_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const uint32_t h = (uint32_t)(i * 2654435761u);
        x[i] = (float)(h % 2001) * 0.001f - 1, g[i] = (float)(h % 1999) * 0.001f - 1;
        x32[i] = (int32_t)(h >> 8) - (1 << 23) + 1, x64[i] = x32[i];
        x16[i] = (int16_t)((h >> 16) % 60001 - 30000), x16[count + i] = (int16_t)((h >> 12) % 60001 - 30000);
    }
    for (size_t i = 0; i < e->ld; i++)
        scale[i] = 0.5f + (float)(i % 7) * 0.0625f, m[i] = (1 << 30) + (int32_t)i, s[i] = 40;
    e->x = x, e->g = g, e->scale = scale, e->x32 = x32, e->m = m, e->x16 = x16, e->x64 = x64, e->s = s;
    return BT_OK;
}

static bt_err figure(rows *e, tool_kernel_run *r, size_t kind, uint8_t *want)
{
    enum { CHECKED = 33 };
    tool_figure f = {.kernel = kinds[kind].name, .rows = e->rows};
    const size_t bytes = 4 * e->rows * e->ld;
    uint8_t *const out = e->out;
    snprintf(f.shape, sizeof f.shape, "%zu wide%s", e->width, kinds[kind].how);
    e->kind = kind;
    e->kernels = bt_kernels_select("ref");
    e->out = memset(want, 0x11, bytes);
    kinds[kind].run(e, 0, e->rows < CHECKED ? e->rows : CHECKED, e->scratch);
    e->kernels = r->m->kernels;
    e->out = memset(out, 0x11, bytes);
    kinds[kind].run(e, 0, e->rows < CHECKED ? e->rows : CHECKED, e->scratch);
    if (memcmp(want, out, bytes)) return tool_kernel_differs(r, f.kernel, f.shape);
    if (r->fn) {
        const double moved = kinds[kind].bytes * (double)(e->rows * e->width);
        tool_kernel_report(r, &f, 0, "", 0, moved, moved, tool_measure(r->m->pool, rows_part, e));
    }
    return BT_OK;
}

bt_err tool_row_kernels(tool_kernel_run *r)
{
    enum { TIMED_ELEMENTS = 8 << 20, CHECKED_ROWS = 33 };
    rows e = {.hp = r->hp, .width = r->hp->dim, .ld = (r->hp->dim + 63) / 64 * 64};
    e.rows = r->fn ? TIMED_ELEMENTS / e.ld / 16 * 16 + 16 : CHECKED_ROWS;
    bt_err err = fill(&e, r);
    uint8_t *want = err == BT_OK ? tool_kernel_bytes(r, 4 * e.rows * e.ld) : NULL;
    if (err == BT_OK && !want) err = BT_ENOMEM;
    for (size_t i = 0; err == BT_OK && i < sizeof kinds / sizeof *kinds; i++) err = figure(&e, r, i, want);
    return err;
}
