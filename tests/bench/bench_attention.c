/* Attention of decoding against a load-only pass over the same K and V by the same threads, taken in turns:
 * only the ratio is told, so that a busy machine disturbs both alike. Layers follow each other as in a step,
 * so that no cache holds what a call reads.
 *   bench_attention [--isa NAME] [--threads N] [--shape NAME] [--tokens N] [--sequences N] */
#include "base/clock.h"
#include "graph/companion.h"
#include "tests/bench/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 64, ROUNDS = 9 };
#define KV_BYTES ((size_t)192 << 20)

typedef struct shape {
    const char *name;
    uint32_t heads, kv_heads, head_dim;
} shape;
typedef struct batch {
    size_t sequences, tokens;
} batch;

typedef struct work {
    bt_kv_view *kv; /* [sequences] */
    bt_companion_seq *seq;
    size_t sequences, tokens, layer;
} work;

/* Threads take the pages of all sequences in turns. */
static void read_part(void *ud, size_t part, size_t parts)
{
    const work *w = ud;
    static volatile uint64_t sink;
    uint64_t sum[8] = {0};
    for (size_t s = 0; s < w->sequences; s++)
        for (size_t t = part * PAGE; t < w->tokens; t += parts * PAGE)
            for (int is_v = 0; is_v < 2; is_v++) {
                const size_t rows = w->tokens - t < PAGE ? w->tokens - t : PAGE;
                const uint64_t *p = (const void *)bt_kv_view_row(&w->kv[s], w->layer, is_v, t, 0);
                for (size_t i = 0; i + 8 <= rows * w->kv[s].token_bytes / 8; i += 8)
                    for (size_t j = 0; j < 8; j++) sum[j] += p[i + j];
            }
    for (size_t j = 0; j < 8; j++) sink += sum[j];
}

static void fill(uint8_t *page, const bt_kv_view *v, uint32_t layer)
{
    enum { ROW = 64 * 128 };
    static float x[ROW];
    for (size_t i = 0; i < v->kv_heads * v->head_dim; i++)
        x[i] = (float)(i * 2654435761u % 2003) * 0.001f - 1;
    bt_kv_view one = *v;
    one.page = &page;
    for (size_t t = 0; t < PAGE; t++) bt_kernels_select("ref")->kv_store(&one, layer, t, 1, x, x, 0);
}

static double seconds_since(int64_t begin_us) { return (double)(bt_clock_us() - begin_us) * 1e-6; }

/* The median of read time / attention time. */
static double ratio_of(const machine *m, const shape *z, batch b, uint32_t elem_bytes)
{
    const size_t head = bt_kv_head_bytes(elem_bytes, z->head_dim), token = head * z->kv_heads,
                 pages = (b.tokens + PAGE - 1) / PAGE;
    const size_t layers = KV_BYTES / (2 * token * pages * PAGE * b.sequences) + 1,
                 width = z->heads * z->head_dim;
    bt_kv_view v = {.page_tokens = PAGE,
                    .tokens_capacity = pages * PAGE,
                    .layer_bytes = 2 * PAGE * token,
                    .plane_bytes = PAGE * token,
                    .token_bytes = token,
                    .head_bytes = head,
                    .elem_bytes = elem_bytes,
                    .layers = (uint32_t)layers,
                    .kv_heads = z->kv_heads,
                    .head_dim = z->head_dim};
    work w = {bench_bytes(b.sequences * sizeof *w.kv), bench_bytes(b.sequences * sizeof *w.seq), b.sequences,
              b.tokens, 0};
    uint8_t **page = bench_bytes(b.sequences * pages * sizeof *page);
    for (size_t i = 0; i < b.sequences * pages; i++) {
        page[i] = bench_bytes(layers * v.layer_bytes);
        for (uint32_t l = 0; l < layers; l++) fill(page[i], &v, l);
    }
    for (size_t s = 0; s < b.sequences; s++) {
        v.page = page + s * pages;
        w.kv[s] = v;
        w.seq[s] = (bt_companion_seq){&w.kv[s], b.tokens - 1, 1};
    }
    float *q = bench_bytes(b.sequences * width * sizeof *q),
          *out = bench_bytes(b.sequences * width * sizeof *q);
    for (size_t i = 0; i < b.sequences * width; i++) q[i] = (float)(i * 2654435761u % 2001) * 0.001f - 1;
    const bt_companion_sizes sizes = {.heads = z->heads, .kv_heads = z->kv_heads, .head_dim = z->head_dim,
                                      .runs = b.sequences, .ctx_tokens = b.tokens};
    const bt_companion_rows rows = {.seq = w.seq, .batch = b.sequences, .rows = 1};
    bt_companion c;
    bt_fault fault;
    if (bt_companion_init(&c, m->kernels, m->pool, &sizes, &fault) < 0) bench_die(fault.text);
    double ratio[ROUNDS];
    for (size_t r = 0; r < ROUNDS; r++) { /* a pass over the layers for each */
        int64_t begin = bt_clock_us();
        for (w.layer = 0; w.layer < layers; w.layer++) bt_pool_run(m->pool, read_part, &w);
        const double read = seconds_since(begin);
        begin = bt_clock_us();
        for (size_t l = 0; l < layers; l++)
            bt_companion_attention(&c, &rows, out, q, l, z->heads, z->kv_heads, z->head_dim,
                                   &(bt_attn_rule){.scale = 0.125f});
        ratio[r] = read / seconds_since(begin);
    }
    bt_companion_done(&c);
    for (size_t i = 0; i < b.sequences * pages; i++) free(page[i]);
    free(page), free(w.kv), free(w.seq), free(q), free(out);
    return bench_median(ratio, ROUNDS);
}

static const shape shapes[] = {
    {"8/8x64", 8, 8, 64},     {"9/3x64", 9, 3, 64},     {"32/8x64", 32, 8, 64},   {"14/2x64", 14, 2, 64},
    {"32/4x64", 32, 4, 64},   {"8/8x128", 8, 8, 128},   {"24/8x128", 24, 8, 128}, {"32/8x128", 32, 8, 128},
    {"28/4x128", 28, 4, 128}, {"32/4x128", 32, 4, 128},
};
static const batch batches[] = {{1, 2048}, {1, 8192}, {1, 32768}, {4, 8192}, {32, 250}};

static void options(int argc, char **argv, const char **isa, const char **name, batch *only, long *threads)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (!strcmp(argv[i], "--isa")) *isa = argv[i + 1];
        else if (!strcmp(argv[i], "--threads")) *threads = strtol(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--shape")) *name = argv[i + 1];
        else if (!strcmp(argv[i], "--tokens")) only->tokens = strtoul(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--sequences")) only->sequences = strtoul(argv[i + 1], NULL, 10);
        else argc = 0;
    if (argc % 2 == 1 && *threads >= 0 && *threads <= 256 && only->tokens <= 131072 && only->sequences <= 256)
        return;
    fprintf(stderr,
            "usage: bench_attention [--isa NAME] [--threads N] [--shape NAME] [--tokens N] [--sequences N]\n"
            "at most 256 threads, 131072 tokens and 256 sequences; shapes:");
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) fprintf(stderr, " %s", shapes[s].name);
    fprintf(stderr, "\n");
    exit(2);
}

int main(int argc, char **argv)
{
    const char *isa = NULL, *name = NULL;
    batch only = {0, 0};
    long threads = 0;
    options(argc, argv, &isa, &name, &only, &threads);
    bt_fault fault;
    machine m = {.kernels = bt_kernels_select(isa)};
    if (!m.kernels) bench_die("no such instruction set on this machine");
    if (bt_pool_new(&m.pool, (size_t)threads, &fault) < 0) bench_die(fault.text);
    printf("attention of decoding, %s, %zu threads: share of the rate at which the same threads only read "
           "its K and V\n",
           m.kernels->isa, bt_pool_threads(m.pool));
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
            if (name && strcmp(name, shapes[s].name)) continue;
            if ((only.tokens || only.sequences) && b) continue;
            const batch one = {only.sequences ? only.sequences
                               : only.tokens  ? 1
                                              : batches[b].sequences,
                               only.tokens ? only.tokens : batches[b].tokens};
            printf("%-10s %2zu sequences x %5zu tokens   f16 %.2f   int8 %.2f\n", shapes[s].name,
                   one.sequences, one.tokens, ratio_of(&m, &shapes[s], one, 2),
                   ratio_of(&m, &shapes[s], one, 1));
            fflush(stdout);
        }
    bt_pool_free(m.pool);
    return 0;
}
