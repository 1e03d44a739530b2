/* The float kernels against bits written down here: each row of the table, and the plain kernels too. The
 * other tests compare the rows of one build with each other; this one compares compilers, their options and
 * machines. */
#include "variants.h"

enum { T = 7, N = 37, K = 83, HEADS = 4, KV_HEADS = 2, D = 24, TOKENS = 300, PAGE = 64, ROTARY = 20 };

typedef struct inputs {
    float *x, *gain, *q, *k, *v, *cos, *sin;
    uint16_t *packed;
} inputs;

static inputs inputs_new(void)
{
    test_rng_state = 42;
    inputs in = {.x = floats_rnd((size_t)T * K, 20),
                 .gain = floats_rnd(K, 4),
                 .q = floats_rnd((size_t)T * HEADS * D, 4),
                 .k = floats_rnd((size_t)TOKENS * KV_HEADS * D, 4),
                 .v = floats_rnd((size_t)TOKENS * KV_HEADS * D, 4),
                 .cos = floats_rnd(ROTARY / 2, 1),
                 .sin = floats_rnd(ROTARY / 2, 1)};
    float *w = floats_rnd((size_t)N * K, 4);
    const size_t bytes = bt_matmul_packed_elems(N, K) * sizeof *in.packed;
    in.packed = bytes_new(bytes, 64);
    memset(in.packed, 0, bytes);
    bt_matmul_pack(in.packed, w, 0, N, K);
    free(w);
    return in;
}

static void inputs_free(inputs *in)
{
    free(in->x), free(in->gain), free(in->q), free(in->k), free(in->v), free(in->cos), free(in->sin);
    free(in->packed);
}

/* FNV-1a */
static uint64_t hash_on(uint64_t h, const void *bytes, size_t len)
{
    for (const unsigned char *p = bytes, *const end = p + len; p < end; p++) h = (h ^ *p) * 0x100000001b3u;
    return h;
}

static uint64_t attention(uint64_t h, const bt_kernels *k, const inputs *in, uint32_t elem_bytes)
{
    enum { PAGES = (TOKENS + PAGE - 1) / PAGE };
    bt_kv_view kv = {.page_tokens = PAGE,
                     .tokens_capacity = PAGES * PAGE,
                     .elem_bytes = elem_bytes,
                     .layers = 1,
                     .kv_heads = KV_HEADS,
                     .head_dim = D,
                     .head_bytes = bt_kv_head_bytes(elem_bytes, D)};
    kv.token_bytes = KV_HEADS * kv.head_bytes, kv.plane_bytes = PAGE * kv.token_bytes;
    kv.layer_bytes = 2 * kv.plane_bytes;
    uint8_t *page[PAGES];
    for (size_t i = 0; i < PAGES; i++) page[i] = bytes_new(kv.layer_bytes, 64);
    kv.page = page;
    float *out = floats_new((size_t)T * HEADS * D);
    void *scratch = bytes_new(bt_attn_scratch_bytes(D), 64);
    k->kv_store(&kv, 0, 0, TOKENS, in->k, in->v, KV_HEADS * D);
    k->attn(out, HEADS * D, in->q, HEADS * D, &kv, 0, T, TOKENS - T, HEADS, 0, HEADS,
            &(bt_attn_rule){.scale = 0.2f}, scratch);
    for (size_t i = 0; i < PAGES; i++) h = hash_on(h, page[i], kv.layer_bytes), free(page[i]);
    h = hash_on(h, out, (size_t)T * HEADS * D * sizeof *out);
    free(out), free(scratch);
    return h;
}

static uint64_t digest(const bt_kernels *k, const inputs *in)
{
    float *y = floats_new((size_t)T * N), *rows = floats_copy(in->x, (size_t)T * K);
    float *turned = floats_copy(in->q, (size_t)HEADS * D);
    uint16_t *half = bytes_new((size_t)T * K * sizeof *half, 2);
    k->matmul(y, N, in->x, K, in->packed, NULL, T, N, K, 0, bt_matmul_panels(N));
    uint64_t h = hash_on(0xcbf29ce484222325u, y, (size_t)T * N * sizeof *y);
    k->matmul(y, N, in->x, K, in->packed, in->gain, 1, N, K, 0, bt_matmul_panels(N));
    h = hash_on(h, y, N * sizeof *y);
    k->rmsnorm(rows, K, rows, K, in->gain, 1e-5f, T, K);
    k->silu_mul(rows, rows, in->x, (size_t)T * K);
    h = hash_on(h, rows, (size_t)T * K * sizeof *rows);
    k->layernorm(rows, K / 2, in->x, K, in->gain, 1e-5f, T, K / 2);
    k->gelu_mul(rows, rows, in->x, (size_t)T * K);
    k->gelu(rows, rows, (size_t)T * (K / 2));
    k->soft_cap(rows, 0.5f, (size_t)T * (K / 2));
    h = hash_on(h, rows, (size_t)T * (K / 2) * sizeof *rows);
    for (int neox = 0; neox < 2; neox++) k->rope(turned, HEADS, D, ROTARY, in->cos, in->sin, neox);
    h = hash_on(h, turned, (size_t)HEADS * D * sizeof *turned);
    k->f32_to_f16(half, in->x, (size_t)T * K);
    h = hash_on(h, half, (size_t)T * K * sizeof *half);
    free(y), free(rows), free(turned), free(half);
    return attention(attention(h, k, in, 2), k, in, 1);
}

static void every_row_has_the_bits_of_every_compiler_and_machine(void **state)
{
    (void)state;
    const uint64_t want = 0x37ea8dd5694a1505;
    size_t wrong = 0;
    inputs in = inputs_new();
    for (size_t i = 0; i < bt_kernels_table_len; i++) {
        if (!rows_usable(&bt_kernels_table[i])) continue;
        const uint64_t got = digest(&bt_kernels_table[i], &in);
        print_message("digest: %s %016llx\n", bt_kernels_table[i].isa, (unsigned long long)got);
        wrong += got != want;
    }
    inputs_free(&in);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_the_bits_of_every_compiler_and_machine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
