/* Times the kernels against the machine they run on: first that their bits are ref's, then the machine's own
 * limits (multiply-adds of floats and of bytes in registers, reading memory), then each kernel and its ratio
 * to the nearer limit.
 *
 *   bench_kernels [--json] [--isa NAME] [--threads N]      1 and N threads (default: 1 and all cores)
 *
 * Each figure is the median of 7 samples of at least 20 ms. Weights of up to 16 MiB may stay in a cache
 * between calls and are held against multiply-adds alone; larger ones, of which four copies take turns, also
 * against reading them. */
#include "tests/bench/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_PANELS 8

/* ---- matrix product, of each form of weights ---- */
typedef struct product {
    const bt_kernels *kernels;
    bt_form form;
    float *y;
    const float *x;
    const uint8_t *wp;
    uint8_t *scratch; /* one for each part */
    size_t t, n, k, group, copies, turn[256]; /* turn: of each part, which copy of the weights comes next */
} product;

static void product_run(const product *p, const bt_kernels *kernels, float *y, const uint8_t *wp, size_t part, size_t p0,
                        size_t p1)
{
    if (p->form == BT_FORM_F16)
        kernels->matmul(y, p->n, p->x, p->k, (const uint16_t *)(const void *)wp, NULL, p->t, p->n, p->k, p0, p1);
    else if (p->form == BT_FORM_INT8)
        kernels->matmul8(y, p->n, p->x, p->k, wp, NULL, p->t, p->n, p->k, p->group, p0, p1);
    else
        kernels->matmul4(y, p->n, p->x, p->k, wp, NULL, p->t, p->n, p->k, p0, p1,
                         p->scratch + part * bt_form_fp4_scratch_bytes(p->t, p->k));
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

static void check_product(const machine *m, product *p)
{
    const size_t panels = bt_matmul_panels(p->n), p0 = panels > CHECK_PANELS ? panels - CHECK_PANELS : 0;
    float *want = bench_bytes(p->t * p->n * sizeof *want);
    product_run(p, bt_kernels_select("ref"), want, p->wp, 0, p0, panels);
    bt_pool_run(m->pool, product_part, p);
    for (size_t t = 0; t < p->t; t++)
        if (memcmp(want + t * p->n + p0 * 16, p->y + t * p->n + p0 * 16, (p->n - p0 * 16) * sizeof *want))
            bench_die("the product differs from ref");
    free(want);
}

/* Every 16 bits are a small f16, which makes codes of all values too. */
static figure bench_product(const machine *m, const char *name, bt_form form, size_t group, size_t n, size_t k, size_t t)
{
    product p = {.kernels = m->kernels, .form = form, .group = group, .t = t, .n = n, .k = k};
    const size_t bytes = product_bytes(&p);
    p.copies = bytes > BENCH_CACHE_BYTES / 2 ? 4 : 1;
    float *x = bench_bytes(t * k * sizeof *x), *y = bench_bytes(t * n * sizeof *y);
    uint16_t *wp = bench_bytes(p.copies * bytes);
    for (size_t i = 0; i < t * k; i++) x[i] = (float)(i * 2654435761u % 2001) * 0.001f - 1;
    for (size_t i = 0; i < p.copies * bytes / 2; i++)
        wp[i] = (uint16_t)(0x2c00 | ((i % (bytes / 2) * 2654435761u >> 13) & 0x83ff));
    p.x = x, p.y = y, p.wp = (uint8_t *)wp;
    p.scratch = bench_bytes(m->threads * bt_form_fp4_scratch_bytes(t, k));
    check_product(m, &p);
    const double seconds = bench_measure(m->pool, product_part, &p);
    figure f = bench_rate_of(m, name, m->fma_flops, "fma", t, 2.0 * (double)(t * n) * (double)k, (double)bytes,
                             (double)(p.copies * bytes), seconds);
    snprintf(f.shape, sizeof f.shape, "%zux%zu", n, k);
    free(x), free(y), free(wp), free(p.scratch);
    return f;
}

/* ---- integer product ---- */
typedef struct int_product {
    const bt_kernels *kernels;
    int32_t *acc;
    const int8_t *x, *wp;
    const int32_t *colsum;
    size_t t, n, k, copies, turn[256];
} int_product;

static void int_product_part(void *ud, size_t part, size_t parts)
{
    int_product *p = ud;
    const size_t panels = bt_int_panels(p->n), bytes = panels * bt_int_panel_bytes(p->k, 8);
    const int8_t *wp = p->wp + p->turn[part]++ % p->copies * bytes;
    size_t p0, p1;
    bt_pool_slice(&p0, &p1, panels, 4, part, parts);
    if (p0 < p1)
        p->kernels->int_matmul(p->acc + 16 * p0, p->n, p->x, p->k, wp, p->colsum, p->t, bt_int_k4(p->k), p0,
                               p1);
}

static figure bench_int_product(const machine *m, size_t n, size_t k, size_t t)
{
    const size_t panels = bt_int_panels(n), bytes = panels * bt_int_panel_bytes(k, 8);
    const size_t copies = bytes > BENCH_CACHE_BYTES / 2 ? 4 : 1,
                 p0 = panels > CHECK_PANELS ? panels - CHECK_PANELS : 0;
    int8_t *x = bench_bytes(t * k), *wp = bench_bytes(copies * bytes);
    int32_t *acc = bench_bytes(t * n * sizeof *acc), *want = bench_bytes(t * n * sizeof *want);
    int32_t *colsum = bench_bytes(n * sizeof *colsum);
    for (size_t i = 0; i < t * k; i++) x[i] = (int8_t)((i * 2654435761u >> 13) % 255 - 127);
    for (size_t i = 0; i < copies * bytes; i++) wp[i] = (int8_t)((i % bytes * 2654435761u >> 11) % 255 - 127);
    for (size_t i = 0; i < n * k; i++) colsum[i / k] += bt_int_packed_at((uint8_t *)wp, i / k, i % k, k, 8);
    int_product p = {.kernels = m->kernels,
                     .acc = acc,
                     .x = x,
                     .wp = wp,
                     .colsum = colsum,
                     .t = t,
                     .n = n,
                     .k = k,
                     .copies = copies};
    bt_kernels_select("ref")->int_matmul(want + 16 * p0, n, x, k, wp, colsum, t, k / 4, p0, panels);
    bt_pool_run(m->pool, int_product_part, &p);
    for (size_t row = 0; row < t; row++)
        if (memcmp(want + row * n + p0 * 16, acc + row * n + p0 * 16, (n - p0 * 16) * sizeof *acc))
            bench_die("the integer product differs from ref");
    const double seconds = bench_measure(m->pool, int_product_part, &p);
    figure f = bench_rate_of(m, "int8", m->int8_ops, "int8", t, 2.0 * (double)(t * n) * (double)k, (double)bytes,
                       (double)(copies * bytes), seconds);
    snprintf(f.shape, sizeof f.shape, "%zux%zu", n, k);
    free(x), free(wp), free(acc), free(want), free(colsum);
    return f;
}

/* ---- the border of floats and integers: all are held against reading what they read and write ---- */
enum { EDGE_ROWS = 16384, EDGE_WIDTH = 576, EDGE_COUNT = EDGE_ROWS * EDGE_WIDTH };

typedef struct edge {
    const bt_kernels *kernels;
    int kind; /* row of edges[] */
    float *x;
    int32_t *acc;
    int8_t *q;
    const float *scale;
    float *scratch; /* of each part: the widest rotation */
} edge;

static void run_quantise8(const edge *e, const bt_kernels *k, size_t at, size_t rows)
{
    k->quantise8(e->q + at, EDGE_WIDTH, e->x + at, EDGE_WIDTH, 100.0f, rows, EDGE_WIDTH, NULL, NULL);
}
static void run_quantise16(const edge *e, const bt_kernels *k, size_t at, size_t rows)
{
    k->quantise16(e->q + at, e->q + EDGE_COUNT + at, EDGE_WIDTH, e->x + at, EDGE_WIDTH, 100.0f, rows,
                  EDGE_WIDTH, NULL, NULL);
}
static void run_scale8(const edge *e, const bt_kernels *k, size_t at, size_t rows)
{
    k->scale8(e->x + at, EDGE_WIDTH, e->acc + at, EDGE_WIDTH, e->scale, NULL, rows, EDGE_WIDTH, BT_EDGE_STORE);
}
static void run_rotate(const edge *e, const bt_kernels *k, size_t at, size_t rows)
{
    k->rotate(e->x + at, EDGE_WIDTH, rows, EDGE_WIDTH / 64, NULL, 1, 6, NULL, 0.125f, e->scratch);
}
static void run_unpack4(const edge *e, const bt_kernels *k, size_t at, size_t rows)
{
    k->int_unpack4(e->q + 4 * at, (const uint8_t *)e->acc + 2 * at, EDGE_WIDTH, 0, rows / 16);
}
static const struct {
    const char *name, *shape;
    double bytes; /* an element, both ways */
    void (*run)(const edge *e, const bt_kernels *k, size_t at, size_t rows);
} edges[] = {{"quant8", "576", 5, run_quantise8},
             {"quant16", "576", 6, run_quantise16},
             {"scale8", "576", 8, run_scale8},
             {"rotate", "9 x 64", 8, run_rotate},
             {"unpack4", "16x2304 panels", 6, run_unpack4}};

static void edge_part(void *ud, size_t part, size_t parts)
{
    edge e = *(const edge *)ud;
    size_t t0, t1;
    bt_pool_slice(&t0, &t1, EDGE_ROWS, 16, part, parts);
    e.scratch += part * 64;
    if (t0 < t1) edges[e.kind].run(&e, e.kernels, t0 * EDGE_WIDTH, t1 - t0);
}

static figure bench_edge(const machine *m, int kind)
{
    edge e = {.kernels = m->kernels, .kind = kind};
    float *scale = bench_bytes(EDGE_WIDTH * sizeof *scale);
    e.x = bench_bytes(EDGE_COUNT * sizeof *e.x), e.acc = bench_bytes(EDGE_COUNT * sizeof *e.acc);
    e.q = bench_bytes(4 * (size_t)EDGE_COUNT), e.scratch = bench_bytes(m->threads * 64 * sizeof(float)),
    e.scale = scale;
    for (size_t i = 0; i < EDGE_COUNT; i++) {
        e.x[i] = (float)(i * 2654435761u % 2001) * 0.001f - 1;
        e.acc[i] = (int32_t)(i * 2654435761u);
        scale[i % EDGE_WIDTH] = 0x1p-20f;
    }
    const double seconds = bench_measure(m->pool, edge_part, &e);
    const double bytes = edges[kind].bytes * EDGE_COUNT;
    figure f = bench_rate_of(m, edges[kind].name, 0, "", EDGE_ROWS, 0, bytes, bytes, seconds);
    snprintf(f.shape, sizeof f.shape, "%s", edges[kind].shape);
    free(e.x), free(e.acc), free(e.q), free(e.scratch), free(scale);
    return f;
}

/* ---- attention: 9 query heads over 3 kv heads of 64 ---- */
enum { HEADS = 9, KV_HEADS = 3, DIM = 64, PAGE = 64, PAGES = 32 };

typedef struct attention {
    bt_attn_fn *fn;
    bt_kv_view *kv;
    float *out;
    const float *q;
    uint8_t *scratch; /* one for each part */
    size_t t, pos0;
} attention;

/* Decoding splits heads, prefill splits rows. */
static void attention_part(void *ud, size_t part, size_t parts)
{
    const attention *a = ud;
    size_t h0 = 0, h1 = HEADS, t0 = 0, t1 = 1;
    if (a->t == 1) bt_pool_slice(&h0, &h1, HEADS, HEADS / KV_HEADS, part, parts);
    else bt_pool_slice(&t0, &t1, a->t, 1, part, parts);
    if (h0 < h1 && t0 < t1)
        a->fn(a->out + t0 * HEADS * DIM, HEADS * DIM, a->q + t0 * HEADS * DIM, HEADS * DIM, a->kv, 0, t1 - t0,
              a->pos0 + t0, HEADS, h0, h1, 0.125f, a->scratch + part * bt_attn_scratch_bytes(DIM));
}

static figure bench_attention(const machine *m, size_t t, size_t pos0)
{
    const size_t token = KV_HEADS * DIM * 2, count = t * HEADS * DIM, row = KV_HEADS * DIM;
    uint8_t *pages[PAGES], *memory = bench_bytes(2 * PAGES * PAGE * token);
    for (size_t i = 0; i < PAGES; i++) pages[i] = memory + i * 2 * PAGE * token;
    bt_kv_view kv = {.page = pages,
                     .page_tokens = PAGE,
                     .tokens_capacity = PAGE * PAGES,
                     .plane_bytes = PAGE * token,
                     .layer_bytes = 2 * PAGE * token,
                     .token_bytes = token,
                     .head_bytes = DIM * 2,
                     .elem_bytes = 2,
                     .layers = 1,
                     .kv_heads = KV_HEADS,
                     .head_dim = DIM};
    float *q = bench_bytes(count * sizeof *q), *out = bench_bytes(count * sizeof *q),
          *want = bench_bytes(count * sizeof *q);
    float *k = bench_bytes((pos0 + t) * row * sizeof *k);
    for (size_t i = 0; i < (pos0 + t) * row; i++) k[i] = (float)(i * 2654435761u % 2003) * 0.001f - 1;
    for (size_t i = 0; i < count; i++) q[i] = (float)(i * 2654435761u % 2001) * 0.001f - 1;
    bt_kernels_select("ref")->kv_store(&kv, 0, 0, pos0 + t, k, k, row);
    attention a = {
        m->kernels->attn, &kv, out, q, bench_bytes(m->threads * bt_attn_scratch_bytes(DIM)), t, pos0};
    const size_t checked = t > 2 ? t - 2 : 0;
    bt_kernels_select("ref")->attn(want, HEADS * DIM, q + checked * HEADS * DIM, HEADS * DIM, &kv, 0,
                                   t - checked, pos0 + checked, HEADS, 0, HEADS, 0.125f, a.scratch);
    bt_pool_run(m->pool, attention_part, &a);
    if (memcmp(want, out + checked * HEADS * DIM, (t - checked) * HEADS * DIM * sizeof *q))
        bench_die("attention differs from ref");
    const double seconds = bench_measure(m->pool, attention_part, &a);
    double visible = 0;
    for (size_t i = 0; i < t; i++) visible += (double)(pos0 + i + 1);
    figure f = bench_rate(m, "attn", t, 4.0 * DIM * HEADS * visible, 2.0 * (double)((pos0 + t) * token), seconds);
    snprintf(f.shape, sizeof f.shape, "9/3x64 pos %zu", pos0);
    free(q), free(out), free(want), free(k), free(memory), free(a.scratch);
    return f;
}

static void bench_machine(machine *m, int json, int first)
{
    static const size_t shapes[][2] = {{576, 576}, {1536, 576}, {576, 1536}, {49152, 576}};
    static const size_t rows[] = {1, 8, 16, 32, 256};
    static const size_t attn[][2] = {{1, 255}, {1, 1023}, {256, 0}, {256, 768}};
    m->fma_flops = bench_peak_flops(m);
    m->int8_ops = bench_peak_int8(m);
    m->read_bytes = bench_read_rate(m);
    bench_print_machine(m, json, first);
    int start = 1;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++, start = 0) {
            const size_t n = shapes[s][0], k = shapes[s][1], t = rows[r];
            figure f = bench_product(m, "matmul", BT_FORM_F16, 0, n, k, t);
            bench_print_figure(&f, json, start);
            if (t <= 32) {
                f = bench_product(m, "int8 row", BT_FORM_INT8, k, n, k, t); /* one scale a channel */
                bench_print_figure(&f, json, 0);
                f = bench_product(m, "int8 32", BT_FORM_INT8, BT_FORM_GROUP, n, k, t);
                bench_print_figure(&f, json, 0);
                f = bench_product(m, "fp4", BT_FORM_FP4, BT_FORM_GROUP, n, k, t);
                bench_print_figure(&f, json, 0);
            }
            f = bench_int_product(m, n, k, t);
            bench_print_figure(&f, json, 0);
        }
    for (size_t i = 0; i < sizeof attn / sizeof *attn; i++) {
        const figure f = bench_attention(m, attn[i][0], attn[i][1]);
        bench_print_figure(&f, json, 0);
    }
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        const figure f = bench_edge(m, (int)i);
        bench_print_figure(&f, json, 0);
    }
    if (json) printf("]}");
}

int main(int argc, char **argv)
{
    const char *isa = NULL;
    int json = 0;
    long threads = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) json = 1;
        else if (!strcmp(argv[i], "--isa") && i + 1 < argc) isa = argv[++i];
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc) threads = strtol(argv[++i], NULL, 10);
        else {
            fprintf(stderr, "usage: bench_kernels [--json] [--isa NAME] [--threads N]\n");
            return 2;
        }
    }
    machine m = {.kernels = bt_kernels_select(isa)};
    if (!m.kernels || threads < 0 || threads > 256)
        bench_die("no such instruction set on this machine, or a bad number of threads");
    for (int all = 0; all < 2; all++) {
        bt_fault fault;
        if (bt_pool_new(&m.pool, all ? (size_t)threads : 1, &fault) < 0) bench_die(fault.text);
        m.threads = bt_pool_threads(m.pool);
        if (!all || m.threads > 1) bench_machine(&m, json, !all);
        bt_pool_free(m.pool);
    }
    if (json) printf("]\n");
    return 0;
}
