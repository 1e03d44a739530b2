/* The kernels of sparse attention beside their reference: see bench_sparse.h. */
#include "tools/bench/bench_sparse.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>

enum { PAGE = 64, PAIRS = 32, EVERY = 5 }; /* one position of five is kept */

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

static void estimate_part(void *ud, size_t part, size_t parts)
{
    const sparse *s = ud;
    const size_t d = s->hp->head_dim, ld = (d + 15) / 16 * 16;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, PAIRS, 1, part, parts);
    if (r0 < r1) s->kernels->estimate8(s->y + r0 * ld, ld, s->unit + r0, s->x + r0 * d, d, 0.01f, r1 - r0, d);
}

static void topk_part(void *ud, size_t part, size_t parts)
{
    const sparse *s = ud;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, PAIRS, 1, part, parts);
    for (; r0 < r1; r0++)
        s->kernels->int_topk(s->at + r0 * (s->k + BT_TOPK_ROOM), s->k, s->score + r0 * s->n, s->shift, s->n,
                             s->scratch + r0 * s->n);
}

static void some_part(void *ud, size_t part, size_t parts)
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

static bt_err prepare(sparse *s, sparse *ref, bt_kv_view *kv, tool_kernel_run *r)
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
static bt_err figure(tool_kernel_run *r, const char *kernel, sparse *s, bt_pool_fn *fn, bool is_same,
                     double ops, double bytes)
{
    tool_figure f = {.kernel = kernel, .rows = PAIRS};
    snprintf(f.shape, sizeof f.shape, "%u of %zu of %zu", r->hp->head_dim, s->k, s->n);
    if (!is_same) return tool_kernel_differs(r, kernel, f.shape);
    if (r->fn) tool_kernel_report(r, &f, 0, "", ops, bytes, bytes, tool_measure(r->m->pool, fn, s));
    return BT_OK;
}

bt_err tool_sparse_kernels(tool_kernel_run *r)
{
    static bt_pool_fn *const fn[] = {estimate_part, topk_part, some_part};
    const size_t d = r->hp->head_dim, ld = (d + 15) / 16 * 16;
    bt_kv_view kv;
    sparse s, ref;
    bt_err e = prepare(&s, &ref, &kv, r);
    if (e < 0) return e;
    for (size_t i = 0; i < 3; i++) {
        fn[i](&ref, 0, 1);
        bt_pool_run(r->m->pool, fn[i], &s);
    }
    bool lists = true;
    for (size_t i = 0; i < PAIRS; i++)
        lists = lists && !memcmp(s.at + i * (s.k + BT_TOPK_ROOM), ref.at + i * (s.k + BT_TOPK_ROOM),
                                 s.k * sizeof *s.at);
    e = figure(r, BT_KERNEL(estimate8), &s, fn[0], !memcmp(s.y, ref.y, PAIRS * (ld + 1)), 0,
               5.0 * PAIRS * (double)d);
    if (e == BT_OK) e = figure(r, BT_KERNEL(int_topk), &s, fn[1], lists, 0, 4.0 * PAIRS * (double)s.n);
    if (e == BT_OK)
        e = figure(r, BT_KERNEL(attn_some), &s, fn[2], !memcmp(s.out, ref.out, PAIRS * d * sizeof *s.out),
                   4.0 * PAIRS * (double)(d * s.k), 4.0 * (double)d * PAIRS * (double)s.k);
    return e;
}
