/* Products and attention beside their reference and the machine's limits: see bench_kernels.h. */
#include "tools/bench/bench_kernels.h"
#include "kernels/forms.h"
#include "kernels/kernels.h"
#include "tools/bench/bench_int.h"
#include "tools/bench/bench_rows.h"

#include <stdio.h>
#include <string.h>

enum { CHECK_PANELS = 8, MAX_PARTS = 256 };

/* ---- matrix product, of each form of weights ---- */
typedef struct product {
    const bt_kernels *kernels;
    bt_form form;
    float *y;
    const float *x;
    const uint8_t *wp;
    uint8_t *scratch;                               /* one for each part */
    size_t t, n, k, group, copies, turn[MAX_PARTS]; /* turn: of each part, which copy of the weights comes
                                                       next */
} product;

static void product_run(const product *p, const bt_kernels *kernels, float *y, const uint8_t *wp, size_t part,
                        size_t p0, size_t p1)
{
    if (p->form == BT_FORM_F16)
        kernels->matmul(y, p->n, p->x, p->k, (const uint16_t *)(const void *)wp, NULL, p->t, p->n, p->k, p0,
                        p1);
    else if (p->form == BT_FORM_INT8)
        kernels->matmul8(y, p->n, p->x, p->k, wp, NULL, p->t, p->n, p->k, p->group, p0, p1);
    else if (p->form == BT_FORM_MX)
        kernels->matmul_mx(y, p->n, p->x, p->k, wp, NULL, p->t, p->n, p->k, p0, p1);
    else {
        float *sums = (float *)(void *)(p->scratch + part * bt_form_fp4_sums_bytes(p->t, p->k));
        kernels->fp4_sums(sums, p->x, p->k, p->t, p->k);
        kernels->matmul4(y, p->n, p->x, p->k, wp, NULL, p->t, p->n, p->k, p0, p1, sums);
    }
}

static size_t product_bytes(const product *p)
{
    return bt_matmul_panels(p->n) * bt_form_panel_bytes(p->form, p->group, p->k);
}

static void product_part(void *ud, size_t part, size_t parts)
{
    product *p = ud;
    const uint8_t *wp = p->wp + p->turn[part]++ % p->copies * product_bytes(p);
    size_t p0, p1;
    bt_pool_slice(&p0, &p1, bt_matmul_panels(p->n), 4, part, parts);
    if (p0 < p1) product_run(p, p->kernels, p->y, wp, part, p0, p1);
}

/* Every 16 bits are a small f16; as codes these bits take all values, but for MX, whose scales are bytes and
 * must be small too. */
static bt_err product_figure(tool_kernel_run *r, bt_form form, size_t group, size_t n, size_t k, size_t t)
{
    static const char *const names[] = {[BT_FORM_F16] = BT_KERNEL(matmul),
                                        [BT_FORM_INT8] = BT_KERNEL(matmul8),
                                        [BT_FORM_FP4] = BT_KERNEL(matmul4),
                                        [BT_FORM_MX] = BT_KERNEL(matmul_mx)};
    tool_figure f = {.kernel = names[form], .rows = t};
    product p = {.kernels = r->m->kernels, .form = form, .group = group, .t = t, .n = n, .k = k};
    const size_t bytes = product_bytes(&p), panels = bt_matmul_panels(n),
                 p0 = panels > CHECK_PANELS ? panels - CHECK_PANELS : 0;
    p.copies = r->fn && bytes > TOOL_CACHE_BYTES / 2 ? 4 : 1;
    snprintf(f.shape, sizeof f.shape, group && group != k ? "%zux%zu, groups of %zu" : "%zux%zu", n, k,
             group);
    float *x = tool_kernel_bytes(r, t * k * sizeof *x), *y = tool_kernel_bytes(r, t * n * sizeof *y),
          *want = tool_kernel_bytes(r, t * n * sizeof *want);
    uint16_t *wp = tool_kernel_bytes(r, p.copies * bytes);
    p.scratch = tool_kernel_bytes(r, r->m->threads * bt_form_fp4_sums_bytes(t, k));
    if (!x || !y || !want || !wp || !p.scratch) return BT_ENOMEM;
    for (size_t i = 0; i < t * k; i++) x[i] = (float)(i * 2654435761u % 2001) * 0.001f - 1;
    const uint16_t mask = form == BT_FORM_MX ? 0x7f7f : 0xffff;
    for (size_t i = 0; i < p.copies * bytes / 2; i++)
        wp[i] = mask & (uint16_t)(0x2c00 | ((i % (bytes / 2) * 2654435761u >> 13) & 0x83ff));
    p.x = x, p.y = y, p.wp = (uint8_t *)wp;
    product_run(&p, bt_kernels_select("ref"), want, p.wp, 0, p0, panels);
    bt_pool_run(r->m->pool, product_part, &p);
    for (size_t row = 0; row < t; row++)
        if (memcmp(want + row * n + p0 * 16, y + row * n + p0 * 16, (n - p0 * 16) * sizeof *want))
            return tool_kernel_differs(r, f.kernel, f.shape);
    if (r->fn)
        tool_kernel_report(r, &f, r->m->fma_flops, "fp32", 2.0 * (double)(t * n) * (double)k, (double)bytes,
                           (double)(p.copies * bytes), tool_measure(r->m->pool, product_part, &p));
    return BT_OK;
}

/* ---- attention ---- */
enum { PAGE = 64, LONG = 2047 /* position from which a context is long */ };

typedef struct attention {
    const bt_kernels *kernels;
    const char *kernel;
    bt_kv_view *kv;
    float *out, *part;
    const float *q;
    uint8_t *scratch; /* one for each part */
    size_t heads, t, pos0, spans;
    size_t turn[MAX_PARTS]; /* of each part: which layer comes next */
} attention;

/* Decoding splits heads, prefill splits rows; spans are split over threads as they are over a long
 * sequence. */
static const bt_attn_rule rule = {.scale = 0.125f};

static void attention_part(void *ud, size_t part, size_t parts)
{
    attention *a = ud;
    const size_t layer = a->turn[part]++ % a->kv->layers;
    const size_t d = a->kv->head_dim, width = a->heads * d, group = a->heads / a->kv->kv_heads;
    uint8_t *scratch = a->scratch + part * bt_attn_scratch_bytes(d);
    size_t h0 = 0, h1 = a->heads, t0 = 0, t1 = 1, s0, s1;
    if (!strcmp(a->kernel, BT_KERNEL(attn_span))) {
        bt_pool_slice(&s0, &s1, a->spans, 1, part, parts);
        if (s0 < s1)
            a->kernels->attn_span(a->part, a->spans, a->q, width, a->kv, layer, a->t, a->pos0, a->heads, 0, 1,
                                  s0, s1, &rule, scratch);
    } else if (!strcmp(a->kernel, BT_KERNEL(attn_merge))) {
        if (part == 0)
            a->kernels->attn_merge(a->out, width, a->part, a->spans, a->t, a->pos0, group, d, &rule);
    } else {
        if (a->t == 1) bt_pool_slice(&h0, &h1, a->heads, group, part, parts);
        else bt_pool_slice(&t0, &t1, a->t, 1, part, parts);
        if (h0 < h1 && t0 < t1)
            a->kernels->attn(a->out + t0 * width, width, a->q + t0 * width, width, a->kv, layer, t1 - t0,
                             a->pos0 + t0, a->heads, h0, h1, &rule, scratch);
    }
}

/* Fills in the arrays of a, and all names but the kernel's. */
static bt_err attention_prepare(attention *a, bt_kv_view *kv, tool_kernel_run *r, uint32_t elem_bytes,
                                size_t t, size_t pos0, size_t layers)
{
    const bt_hparams *hp = r->hp;
    const size_t width = (size_t)hp->heads * hp->head_dim, row = (size_t)hp->kv_heads * hp->head_dim,
                 pages = (pos0 + t + PAGE - 1) / PAGE;
    const size_t head = bt_kv_head_bytes(elem_bytes, hp->head_dim), token = hp->kv_heads * head,
                 spans = (pos0 + t + BT_ATTN_SPAN - 1) / BT_ATTN_SPAN;
    uint8_t **page = tool_kernel_bytes(r, pages * sizeof *page),
            *memory = tool_kernel_bytes(r, layers * 2 * pages * PAGE * token);
    float *q = tool_kernel_bytes(r, t * width * sizeof *q),
          *out = tool_kernel_bytes(r, t * width * sizeof *q),
          *k = tool_kernel_bytes(r, (pos0 + t) * row * sizeof *k),
          *part = tool_kernel_bytes(r, t * (hp->heads / hp->kv_heads) * spans *
                                           bt_attn_part_floats(hp->head_dim) * sizeof *part);
    uint8_t *scratch = tool_kernel_bytes(r, r->m->threads * bt_attn_scratch_bytes(hp->head_dim));
    if (!page || !memory || !q || !out || !k || !part || !scratch) return BT_ENOMEM;
    for (size_t i = 0; i < pages; i++) page[i] = memory + i * layers * 2 * PAGE * token;
    for (size_t i = 0; i < (pos0 + t) * row; i++) k[i] = (float)(i * 2654435761u % 2003) * 0.001f - 1;
    for (size_t i = 0; i < t * width; i++) q[i] = (float)(i * 2654435761u % 2001) * 0.001f - 1;
    *kv = (bt_kv_view){.page = page,
                       .page_tokens = PAGE,
                       .tokens_capacity = PAGE * pages,
                       .plane_bytes = PAGE * token,
                       .layer_bytes = 2 * PAGE * token,
                       .token_bytes = token,
                       .head_bytes = head,
                       .elem_bytes = elem_bytes,
                       .layers = (uint32_t)layers,
                       .kv_heads = hp->kv_heads,
                       .head_dim = hp->head_dim};
    bt_kernels_select("ref")->kv_store(kv, 0, 0, pos0 + t, k, k, row);
    for (size_t i = 0; i < pages; i++)
        for (size_t l = 1; l < layers; l++) memcpy(page[i] + l * kv->layer_bytes, page[i], kv->layer_bytes);
    *a = (attention){.kernels = r->m->kernels, .kv = kv,           .out = out, .part = part, .q = q,
                     .scratch = scratch,       .heads = hp->heads, .t = t,     .pos0 = pos0, .spans = spans};
    return BT_OK;
}

/* Decoding over long contexts takes several layers in turn, as a step does, so that no cache holds what a
 * call reads. */
static size_t attention_layers(const tool_kernel_run *r, uint32_t elem_bytes, size_t t, size_t pos0)
{
    const uint64_t layer = (pos0 + t) * bt_kv_token_bytes(elem_bytes, 1, r->hp->kv_heads, r->hp->head_dim);
    return r->fn && t == 1 && pos0 >= LONG ? (size_t)(2 * TOOL_CACHE_BYTES / layer + 1) : 1;
}

static bt_err attention_figure(tool_kernel_run *r, uint32_t elem_bytes, size_t t, size_t pos0)
{
    const bt_hparams *hp = r->hp;
    const size_t width = (size_t)hp->heads * hp->head_dim, checked = t > 2 ? t - 2 : 0;
    tool_figure f = {.kernel = BT_KERNEL(attn), .rows = t};
    bt_kv_view kv;
    attention a;
    float *want = tool_kernel_bytes(r, t * width * sizeof *want);
    const bt_err e =
        attention_prepare(&a, &kv, r, elem_bytes, t, pos0, attention_layers(r, elem_bytes, t, pos0));
    if (e < 0 || !want) return BT_ENOMEM;
    a.kernel = f.kernel;
    snprintf(f.shape, sizeof f.shape, "%u/%ux%u at %zu, %s", hp->heads, hp->kv_heads, hp->head_dim, pos0,
             elem_bytes == 1 ? "int8" : "f16");
    bt_kernels_select("ref")->attn(want, width, a.q + checked * width, width, &kv, 0, t - checked,
                                   pos0 + checked, hp->heads, 0, hp->heads, &rule, a.scratch);
    bt_pool_run(r->m->pool, attention_part, &a);
    if (memcmp(want, a.out + checked * width, (t - checked) * width * sizeof *want))
        return tool_kernel_differs(r, f.kernel, f.shape);
    double visible = 0;
    for (size_t i = 0; i < t; i++) visible += (double)(pos0 + i + 1);
    const double bytes = 2.0 * (double)((pos0 + t) * kv.token_bytes);
    if (r->fn)
        tool_kernel_report(r, &f, r->m->fma_flops, "fp32", 4.0 * (double)width * visible, bytes,
                           (double)kv.layers * bytes, tool_measure(r->m->pool, attention_part, &a));
    return BT_OK;
}

/* The two steps that share a long sequence among threads, for one row and the heads of the first KV head;
 * both make up attn. */
static bt_err spans_figure(tool_kernel_run *r, uint32_t elem_bytes, size_t pos0)
{
    const bt_hparams *hp = r->hp;
    const size_t width = (size_t)hp->heads * hp->head_dim, group = hp->heads / hp->kv_heads;
    tool_figure span = {.kernel = BT_KERNEL(attn_span), .rows = 1},
                merge = {.kernel = BT_KERNEL(attn_merge), .rows = 1};
    bt_kv_view kv;
    attention a;
    float *want = tool_kernel_bytes(r, width * sizeof *want);
    const bt_err e = attention_prepare(&a, &kv, r, elem_bytes, 1, pos0, 1);
    if (e < 0 || !want) return BT_ENOMEM;
    snprintf(span.shape, sizeof span.shape, "%zu/1x%u at %zu, %s", group, hp->head_dim, pos0,
             elem_bytes == 1 ? "int8" : "f16");
    snprintf(merge.shape, sizeof merge.shape, "%zux%u of %zu spans", group, hp->head_dim, a.spans);
    bt_kernels_select("ref")->attn(want, width, a.q, width, &kv, 0, 1, pos0, hp->heads, 0, group, &rule,
                                   a.scratch);
    a.kernel = span.kernel;
    bt_pool_run(r->m->pool, attention_part, &a);
    a.kernel = merge.kernel;
    bt_pool_run(r->m->pool, attention_part, &a);
    if (memcmp(want, a.out, group * hp->head_dim * sizeof *want))
        return tool_kernel_differs(r, "attn_span, attn_merge", span.shape);
    if (!r->fn) return BT_OK;
    const double bytes = 2.0 * (double)(pos0 + 1) * (double)kv.head_bytes,
                 moved = (double)(group * a.spans * bt_attn_part_floats(hp->head_dim)) * sizeof(float);
    tool_kernel_report(r, &merge, 0, "", 0, moved, moved, tool_measure(r->m->pool, attention_part, &a));
    a.kernel = span.kernel;
    tool_kernel_report(r, &span, r->m->fma_flops, "fp32",
                       4.0 * (double)(group * hp->head_dim) * (double)(pos0 + 1), bytes, bytes,
                       tool_measure(r->m->pool, attention_part, &a));
    return BT_OK;
}

/* ---- the same in integers ---- */
typedef struct int_attention {
    const attention *a;
    int16_t *out;
    const int16_t *q;
    uint8_t *scratch; /* one for each part */
    size_t scratch_bytes;
} int_attention;

static void int_attention_part(void *ud, size_t part, size_t parts)
{
    static const bt_int_attention_params params = {{1 << 30, 40}, {1 << 30, 31}, 10, 10, 0};
    const int_attention *i = ud;
    const attention *a = i->a;
    const size_t width = a->heads * a->kv->head_dim;
    size_t g0, g1;
    bt_pool_slice(&g0, &g1, a->kv->kv_heads, 1, part, parts);
    for (size_t g = g0; g < g1; g++)
        a->kernels->int_attention16(i->out, width, i->q, width, a->kv, 0, a->t, a->pos0, a->heads, g, &params,
                                    i->scratch + part * i->scratch_bytes);
}

static bt_err int_attention_figure(tool_kernel_run *r, uint32_t elem_bytes, size_t t, size_t pos0)
{
    const bt_hparams *hp = r->hp;
    const size_t count = t * hp->heads * hp->head_dim;
    tool_figure f = {.kernel = BT_KERNEL(int_attention16), .rows = t};
    bt_kv_view kv;
    attention a;
    int_attention i = {.a = &a, .scratch_bytes =
                                    (bt_int_attention_scratch_bytes(hp->head_dim, pos0 + t) + 63) / 64 * 64};
    int16_t *q = tool_kernel_bytes(r, count * sizeof *q), *want = tool_kernel_bytes(r, count * sizeof *want);
    i.out = tool_kernel_bytes(r, count * sizeof *i.out);
    i.scratch = tool_kernel_bytes(r, r->m->threads * i.scratch_bytes);
    const bt_err e = attention_prepare(&a, &kv, r, elem_bytes, t, pos0, 1);
    if (e < 0 || !q || !want || !i.out || !i.scratch) return BT_ENOMEM;
    for (size_t j = 0; j < count; j++) q[j] = (int16_t)((uint32_t)(j * 2654435761u) >> 13) / 2;
    i.q = q;
    snprintf(f.shape, sizeof f.shape, "%u/%ux%u at %zu, %s", hp->heads, hp->kv_heads, hp->head_dim, pos0,
             elem_bytes == 1 ? "int8" : "f16");
    int_attention ref = i;
    attention b = a;
    b.kernels = bt_kernels_select("ref");
    ref.a = &b, ref.out = want;
    int_attention_part(&ref, 0, 1);
    bt_pool_run(r->m->pool, int_attention_part, &i);
    if (memcmp(want, i.out, count * sizeof *want)) return tool_kernel_differs(r, f.kernel, f.shape);
    double visible = 0;
    for (size_t j = 0; j < t; j++) visible += (double)(pos0 + j + 1);
    const double bytes = 2.0 * (double)((pos0 + t) * kv.token_bytes),
                 ops = 4.0 * (double)hp->heads * hp->head_dim * visible;
    if (r->fn)
        tool_kernel_report(r, &f, 0, "", ops, bytes, bytes, tool_measure(r->m->pool, int_attention_part, &i));
    return BT_OK;
}

/* ---- storing rows of K and V, a page's worth a thread at a time ---- */
typedef struct store {
    const bt_kernels *kernels;
    bt_kv_view *kv;
    const float *k, *v;
    size_t t, row;
} store;

static void store_part(void *ud, size_t part, size_t parts)
{
    const store *s = ud;
    size_t t0, t1;
    bt_pool_slice(&t0, &t1, s->t, PAGE, part, parts);
    if (t0 < t1) s->kernels->kv_store(s->kv, 0, t0, t1 - t0, s->k + t0 * s->row, s->v + t0 * s->row, s->row);
}

static bt_err store_figure(tool_kernel_run *r, uint32_t elem_bytes)
{
    const bt_hparams *hp = r->hp;
    const size_t row = (size_t)hp->kv_heads * hp->head_dim,
                 token = hp->kv_heads * bt_kv_head_bytes(elem_bytes, hp->head_dim), bytes = 2 * PAGE * token;
    tool_figure f = {.kernel = BT_KERNEL(kv_store), .rows = r->fn ? 16384 : 77};
    const size_t pages = (f.rows + PAGE - 1) / PAGE;
    snprintf(f.shape, sizeof f.shape, "%ux%u, %s", hp->kv_heads, hp->head_dim,
             elem_bytes == 1 ? "int8" : "f16");
    uint8_t **page = tool_kernel_bytes(r, 2 * pages * sizeof *page),
            *memory = tool_kernel_bytes(r, 2 * pages * bytes);
    float *k = tool_kernel_bytes(r, 2 * f.rows * row * sizeof *k);
    if (!page || !memory || !k) return BT_ENOMEM;
    for (size_t i = 0; i < 2 * pages; i++) page[i] = memory + i * bytes;
    for (size_t i = 0; i < 2 * f.rows * row; i++) k[i] = (float)(i * 2654435761u % 2003) * 0.001f - 1;
    bt_kv_view kv = {.page = page,
                     .page_tokens = PAGE,
                     .tokens_capacity = PAGE * pages,
                     .plane_bytes = PAGE * token,
                     .layer_bytes = bytes,
                     .token_bytes = token,
                     .head_bytes = token / hp->kv_heads,
                     .elem_bytes = elem_bytes,
                     .layers = 1,
                     .kv_heads = hp->kv_heads,
                     .head_dim = hp->head_dim},
               want = kv;
    want.page = page + pages;
    store s = {r->m->kernels, &kv, k, k + f.rows * row, f.rows, row};
    bt_kernels_select("ref")->kv_store(&want, 0, 0, f.rows, s.k, s.v, row);
    bt_pool_run(r->m->pool, store_part, &s);
    if (memcmp(memory, memory + pages * bytes, pages * bytes))
        return tool_kernel_differs(r, f.kernel, f.shape);
    const double moved = 2.0 * (double)f.rows * (4.0 * (double)row + (double)token);
    if (r->fn) tool_kernel_report(r, &f, 0, "", 0, moved, moved, tool_measure(r->m->pool, store_part, &s));
    return BT_OK;
}

/* ---- sparse attention ---- */
enum { PAIRS = 32, EVERY = 5 }; /* one position of five is kept */

typedef struct sparse {
    const bt_kernels *kernels;
    const bt_hparams *hp;
    size_t n, k; /* positions, and how many of them are kept */
    /* estimate8: [PAIRS, head_dim] */
    const float *x;
    int8_t *y;
    uint8_t *unit;
    /* int_topk: [PAIRS, n] and lists [PAIRS, k + BT_TOPK_ROOM] */
    int32_t *score, *scratch; /* scratch: [PAIRS, n] */
    const uint8_t *shift;
    uint32_t *at;
    /* attn_some */
    const bt_kv_view *kv;
    float *out;
    uint8_t *room; /* [PAIRS] */
} sparse;

static void sparse_estimate_part(void *ud, size_t part, size_t parts)
{
    const sparse *s = ud;
    const size_t d = s->hp->head_dim, ld = (d + 15) / 16 * 16;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, PAIRS, 1, part, parts);
    if (r0 < r1) s->kernels->estimate8(s->y + r0 * ld, ld, s->unit + r0, s->x + r0 * d, d, 0.01f, r1 - r0, d);
}

static void sparse_topk_part(void *ud, size_t part, size_t parts)
{
    const sparse *s = ud;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, PAIRS, 1, part, parts);
    for (; r0 < r1; r0++)
        s->kernels->int_topk(s->at + r0 * (s->k + BT_TOPK_ROOM), s->k, s->score + r0 * s->n, s->shift, s->n,
                             s->scratch + r0 * s->n);
}

static void sparse_some_part(void *ud, size_t part, size_t parts)
{
    const sparse *s = ud;
    const size_t d = s->hp->head_dim;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, PAIRS, 1, part, parts);
    for (; r0 < r1; r0++) {
        const bt_attn_list list = {s->at + r0 * (s->k + BT_TOPK_ROOM), s->k, 1, 1, NULL};
        s->kernels->attn_some(s->out + r0 * d, d, s->x + r0 * d, d, s->kv, 0, 0, &list, 0.125f,
                              s->room + r0 * bt_attn_scratch_bytes(d));
    }
}

static bt_err sparse_prepare(sparse *s, sparse *ref, bt_kv_view *kv, tool_kernel_run *r)
{
    const size_t d = r->hp->head_dim, ld = (d + 15) / 16 * 16, n = r->fn ? 8000 : 700,
                 pages = (n + PAGE - 1) / PAGE;
    const size_t head = bt_kv_head_bytes(2, d);
    *s = (sparse){.kernels = r->m->kernels, .hp = r->hp, .n = n, .k = n / EVERY, .kv = kv};
    float *x = tool_kernel_bytes(r, PAIRS * d * sizeof *x), *k = tool_kernel_bytes(r, n * d * sizeof *k);
    uint8_t *shift = tool_kernel_bytes(r, n), **page = tool_kernel_bytes(r, pages * sizeof *page),
            *memory = tool_kernel_bytes(r, 2 * pages * PAGE * head);
    const size_t lists = PAIRS * (s->k + BT_TOPK_ROOM), scores = PAIRS * n;
    uint8_t *rows = tool_kernel_bytes(r, 2 * PAIRS * (ld + 1));
    s->score = tool_kernel_bytes(r, 2 * scores * sizeof *s->score);
    s->scratch = tool_kernel_bytes(r, PAIRS * n * sizeof *s->scratch);
    s->at = tool_kernel_bytes(r, 2 * lists * sizeof *s->at);
    s->out = tool_kernel_bytes(r, 2 * PAIRS * d * sizeof *s->out);
    s->room = tool_kernel_bytes(r, PAIRS * bt_attn_scratch_bytes(d));
    if (!x || !k || !shift || !page || !memory || !rows || !s->score || !s->scratch || !s->at || !s->out ||
        !s->room)
        return BT_ENOMEM;
    for (size_t i = 0; i < PAIRS * d; i++) x[i] = (float)(i * 2654435761u % 2001) * 0.001f - 1;
    for (size_t i = 0; i < n * d; i++) k[i] = (float)(i * 2654435761u % 2003) * 0.001f - 1;
    for (size_t i = 0; i < n && !r->fn; i++)
        shift[i] = (uint8_t)(i % 3); /* times: a call leaves its scores as they are */
    for (size_t i = 0; i < 2 * scores; i++)
        s->score[i] = (int32_t)((uint32_t)(i % scores * 2654435761u) >> 12) - (1 << 19);
    for (size_t i = 0; i < pages; i++) page[i] = memory + i * 2 * PAGE * head;
    *kv = (bt_kv_view){.page = page,
                       .page_tokens = PAGE,
                       .tokens_capacity = PAGE * pages,
                       .plane_bytes = PAGE * head,
                       .layer_bytes = 2 * PAGE * head,
                       .token_bytes = head,
                       .head_bytes = head,
                       .elem_bytes = 2,
                       .layers = 1,
                       .kv_heads = 1,
                       .head_dim = r->hp->head_dim};
    bt_kernels_select("ref")->kv_store(kv, 0, 0, n, k, k, d);
    s->x = x, s->shift = shift, s->y = (int8_t *)rows, s->unit = rows + PAIRS * ld;
    *ref = *s;
    ref->kernels = bt_kernels_select("ref");
    ref->y += PAIRS * (ld + 1), ref->unit += PAIRS * (ld + 1), ref->score += scores, ref->at += lists;
    ref->out += PAIRS * d;
    return BT_OK;
}

/* The figure of one of the three kernels, which has run: it is timed where its bits are those of ref. */
static bt_err sparse_figure(tool_kernel_run *r, const char *kernel, sparse *s, bt_pool_fn *fn, bool is_same,
                            double ops, double bytes)
{
    tool_figure f = {.kernel = kernel, .rows = PAIRS};
    snprintf(f.shape, sizeof f.shape, "%u of %zu of %zu", r->hp->head_dim, s->k, s->n);
    if (!is_same) return tool_kernel_differs(r, kernel, f.shape);
    if (r->fn) tool_kernel_report(r, &f, 0, "", ops, bytes, bytes, tool_measure(r->m->pool, fn, s));
    return BT_OK;
}

static bt_err sparse_kernels(tool_kernel_run *r)
{
    static bt_pool_fn *const fn[] = {sparse_estimate_part, sparse_topk_part, sparse_some_part};
    const size_t d = r->hp->head_dim, ld = (d + 15) / 16 * 16;
    bt_kv_view kv;
    sparse s, ref;
    bt_err e = sparse_prepare(&s, &ref, &kv, r);
    if (e < 0) return e;
    for (size_t i = 0; i < 3; i++) {
        fn[i](&ref, 0, 1);
        bt_pool_run(r->m->pool, fn[i], &s);
    }
    bool lists = true;
    for (size_t i = 0; i < PAIRS; i++)
        lists = lists && !memcmp(s.at + i * (s.k + BT_TOPK_ROOM), ref.at + i * (s.k + BT_TOPK_ROOM),
                                 s.k * sizeof *s.at);
    e = sparse_figure(r, BT_KERNEL(estimate8), &s, fn[0], !memcmp(s.y, ref.y, PAIRS * (ld + 1)), 0,
                      5.0 * PAIRS * (double)d);
    if (e == BT_OK) e = sparse_figure(r, BT_KERNEL(int_topk), &s, fn[1], lists, 0, 4.0 * PAIRS * (double)s.n);
    if (e == BT_OK)
        e = sparse_figure(r, BT_KERNEL(attn_some), &s, fn[2],
                          !memcmp(s.out, ref.out, PAIRS * d * sizeof *s.out), 4.0 * PAIRS * (double)(d * s.k),
                          4.0 * (double)d * PAIRS * (double)s.k);
    return e;
}

/* ---- all ---- */
typedef struct matrix {
    size_t n, k;
} matrix;

/* A model's matrices that differ in size; the head comes last. */
static size_t matrices(matrix ret[6], const bt_hparams *hp)
{
    const size_t q = (size_t)hp->heads * hp->head_dim, kv = (size_t)hp->kv_heads * hp->head_dim;
    const matrix all[] = {{q, hp->dim},       {kv, hp->dim},      {hp->dim, q},
                          {hp->ffn, hp->dim}, {hp->dim, hp->ffn}, {hp->vocab, hp->dim}};
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t j = 0;
        while (j < count && (ret[j].n != all[i].n || ret[j].k != all[i].k)) j++;
        if (j == count) ret[count++] = all[i];
    }
    return count;
}

static bt_err products(tool_kernel_run *r, matrix w, size_t t)
{
    bt_err e = product_figure(r, BT_FORM_F16, 0, w.n, w.k, t);
    tool_kernel_release(r);
    if (e == BT_OK && t <= 32)
        e = product_figure(r, BT_FORM_INT8, w.k, w.n, w.k, t); /* one scale a channel */
    tool_kernel_release(r);
    if (e == BT_OK && t <= 32 && w.k % BT_FORM_GROUP == 0)
        e = product_figure(r, BT_FORM_INT8, BT_FORM_GROUP, w.n, w.k, t);
    tool_kernel_release(r);
    if (e == BT_OK && t <= 32) e = product_figure(r, BT_FORM_FP4, BT_FORM_GROUP, w.n, w.k, t);
    tool_kernel_release(r);
    if (e == BT_OK && t <= 32) e = product_figure(r, BT_FORM_MX, BT_FORM_GROUP, w.n, w.k, t);
    tool_kernel_release(r);
    if (e == BT_OK) e = tool_int_product(r, w.n, w.k, t);
    return e;
}

static bt_err run(tool_kernel_run *r)
{
    static const size_t timed_rows[] = {1, 8, 16, 32, 256}, checked_rows[] = {1, 13, 33};
    static const size_t timed_attn[][2] = {{1, 255},   {1, 1023}, {1, 2047}, {1, 8191},
                                           {1, 32767}, {256, 0},  {256, 768}},
                        checked_attn[][2] = {{1, 130}, {13, 250}, {70, 0}, {13, 3}};
    const size_t *rows = r->fn ? timed_rows : checked_rows, row_count = r->fn ? 5 : 3;
    matrix w[6] = {{0, 0}};
    bt_err e = BT_OK;
    const size_t count = matrices(w, r->hp);
    for (size_t i = 0; e == BT_OK && i < count; i++) {
        if (!r->fn && w[i].n > 16 * CHECK_PANELS) w[i].n = 16 * CHECK_PANELS - 16 + w[i].n % 16;
        for (size_t j = 0; e == BT_OK && j < row_count; j++) e = products(r, w[i], rows[j]);
    }
    for (size_t i = 0; e == BT_OK && i < (r->fn ? sizeof timed_attn / sizeof *timed_attn
                                                : sizeof checked_attn / sizeof *checked_attn);
         i++)
        for (uint32_t elem = 2; e == BT_OK && elem; elem--) {
            e = attention_figure(r, elem, (r->fn ? timed_attn : checked_attn)[i][0],
                                 (r->fn ? timed_attn : checked_attn)[i][1]);
            tool_kernel_release(r);
        }
    for (uint32_t elem = 2; e == BT_OK && elem; elem--) {
        e = spans_figure(r, elem, r->fn ? 4000 : 700);
        tool_kernel_release(r);
        if (e == BT_OK) e = int_attention_figure(r, elem, 13, r->fn ? 1000 : 250);
        tool_kernel_release(r);
        if (e == BT_OK) e = store_figure(r, elem);
        tool_kernel_release(r);
    }
    if (e == BT_OK) e = tool_int_kernels(r, r->hp->ffn, r->hp->dim);
    if (e == BT_OK) e = tool_row_kernels(r);
    tool_kernel_release(r);
    if (e == BT_OK) e = sparse_kernels(r);
    tool_kernel_release(r);
    return e;
}

bt_err tool_kernels_check(const bt_kernels *k, const bt_hparams *hp, bt_fault *fault)
{
    const tool_machine m = {.kernels = k, .threads = 1};
    tool_kernel_run r = {.m = &m, .hp = hp, .fault = fault};
    return run(&r);
}

bt_err tool_kernels_time(const tool_machine *m, const bt_hparams *hp, tool_figure_fn *fn, void *ud,
                         bt_fault *fault)
{
    tool_kernel_run r = {.m = m, .hp = hp, .fn = fn, .ud = ud, .fault = fault};
    if (m->threads > MAX_PARTS)
        return bt_fail(fault, BT_ELIMIT, "%zu threads; at most %d are possible (--threads)", m->threads,
                       MAX_PARTS);
    return run(&r);
}
