/* The KV store: every variant writes the bytes of ref, for any width of head, and no byte beside them. The
 * bytes of ref are held against the definition in test_attn.c. */
#include "tests/unit/kernels/variants.h"

#include <math.h>

enum { LAYERS = 2, HEADS = 3, PAGE = 16, PAGES = 3 };

typedef struct cache {
    uint8_t *page[PAGES];
    bt_kv_view view;
    size_t page_bytes;
} cache;

static void cache_make(cache *c, uint32_t elem_bytes, size_t d)
{
    const size_t head = bt_kv_head_bytes(elem_bytes, d), token = HEADS * head, plane = PAGE * token;
    c->page_bytes = LAYERS * 2 * plane;
    for (size_t i = 0; i < PAGES; i++) memset(c->page[i] = bytes_new(c->page_bytes, 64), 0x5a, c->page_bytes);
    c->view =
        (bt_kv_view){.page = c->page,          .page_tokens = PAGE,      .tokens_capacity = PAGE * PAGES,
                     .layer_bytes = 2 * plane, .plane_bytes = plane,     .token_bytes = token,
                     .head_bytes = head,       .elem_bytes = elem_bytes, .layers = LAYERS,
                     .kv_heads = HEADS,        .head_dim = (uint32_t)d};
}

/* Rows of every size: nothing but zeros, subnormal scales, ties, the ends of f16 and beyond. */
static void fill(float *x, size_t d)
{
    const float size = ldexpf(1, (int)rnd_below(60) - 40);
    const uint32_t kind = rnd_below(8);
    for (size_t i = 0; i < d; i++)
        x[i] = kind == 0   ? 0
               : kind == 1 ? (float)rnd_below(255) / 2 - 63.5f
               : kind == 2 ? rnd_any(3e38f)
                           : rnd_unit() * size;
    if (kind == 1) x[rnd_below((uint32_t)d)] = 127;
    if (kind == 2 && rnd() % 4 == 0) x[rnd_below((uint32_t)d)] = rnd() % 2 ? INFINITY : -INFINITY;
}

static void store_equals_ref_and_touches_nothing_else(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (uint32_t elem_bytes = 1; elem_bytes <= 4; elem_bytes *= 2)
        for (size_t d = 2; d <= 80; d += 2)
            for (size_t t = 1; t <= 33; t += 16) {
                const size_t ld = HEADS * d + rnd_below(3), pos0 = rnd_below((uint32_t)(PAGE * PAGES - t)),
                             layer = rnd() % LAYERS;
                const size_t count = (t - 1) * ld + HEADS * d;
                float *k = floats_new(count), *w = floats_new(count);
                cache got, want;
                for (size_t i = 0; i < count; i++) k[i] = w[i] = 0;
                for (size_t row = 0; row < t; row++)
                    for (size_t g = 0; g < HEADS; g++)
                        fill(k + row * ld + g * d, d), fill(w + row * ld + g * d, d);
                cache_make(&got, elem_bytes, d);
                cache_make(&want, elem_bytes, d);
                v->kv_store(&got.view, layer, pos0, t, k, w, ld);
                ref_kernels()->kv_store(&want.view, layer, pos0, t, k, w, ld);
                for (size_t i = 0; i < PAGES; i++) {
                    assert_memory_equal(got.page[i], want.page[i], got.page_bytes);
                    free(got.page[i]), free(want.page[i]);
                }
                free(k), free(w);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(store_equals_ref_and_touches_nothing_else)};
    return run_for_each_variant(__FILE__, tests, COUNT(tests), NULL, 0);
}
