#ifndef TEST_KERNELS_INT_OPS_KIT_H
#define TEST_KERNELS_INT_OPS_KIT_H
/* The common part of the tests of the integer operators: multipliers from doubles, whole numbers that kernels get
 * wrong, and small KV caches. */
#include "tests/unit/kernels/variants.h"

#include "kernels/f16.h"
#include "kernels/int_ops.h"

#include <math.h>

/* The multiplier nearest to x > 0. */
static inline bt_int_mul mul_of(double x)
{
    int e;
    double f = frexp(x, &e); /* in [1/2, 1) */
    if (31 - e > 62) f = ldexp(f, 31 - e - 62), e = -31;
    int64_t m = llround(ldexp(f, 31));
    if (m >> 31) m >>= 1, e++;
    assert_true(e <= 31);
    return (bt_int_mul){(int32_t)m, (uint32_t)(31 - e)};
}
static inline double value_of(bt_int_mul m) { return ldexp(m.m, -(int)m.s); }

/* A whole number in [-limit, limit]: sometimes 0, +-1, an end of the range, or a small one. */
static inline int32_t rnd_whole(int32_t limit)
{
    const int32_t any = (int32_t)(rnd() % (2 * (uint32_t)limit + 1)) - limit;
    switch (rnd_below(16)) {
    case 0: return 0;
    case 1: return rnd() & 1 ? 1 : -1;
    case 2: return limit;
    case 3: return -limit;
    case 4:
    case 5: return any / 1024;
    default: return any;
    }
}
static inline int32_t *wholes32(size_t count, int32_t limit)
{
    int32_t *p = bytes_new(count * sizeof *p, 4);
    for (size_t i = 0; i < count; i++) p[i] = rnd_whole(limit);
    return p;
}
static inline int16_t *wholes16(size_t count, int32_t limit)
{
    int16_t *p = bytes_new(count * sizeof *p, 2);
    for (size_t i = 0; i < count; i++) p[i] = (int16_t)rnd_whole(limit);
    return p;
}
static inline void *copy_of(const void *p, size_t bytes)
{
    void *q = bytes_new(bytes, 8);
    memcpy(q, p, bytes);
    return q;
}

/* Pages of exactly the bytes the view describes, filled with f16 values in [-large, large]; rows at or past tokens with
 * NaN. int_cache8: with int8 and scales up to large / 127. */
typedef struct int_cache {
    bt_kv_view view;
    uint8_t **pages;
    size_t count;
} int_cache;
static inline uint16_t *int_cache_row(const int_cache *c, size_t layer, int is_v, size_t token, size_t g)
{
    return (void *)bt_kv_view_row(&c->view, layer, is_v, token, g);
}
static inline int_cache int_cache_pages(size_t g, size_t d, size_t page_tokens, size_t tokens, uint32_t elem_bytes)
{
    int_cache c = {.count = (tokens + page_tokens - 1) / page_tokens};
    bt_kv_view *v = &c.view;
    v->page_tokens = page_tokens, v->tokens_capacity = c.count * page_tokens, v->elem_bytes = elem_bytes;
    v->layers = 2, v->kv_heads = (uint32_t)g, v->head_dim = (uint32_t)d;
    v->head_bytes = bt_kv_head_bytes(elem_bytes, d), v->token_bytes = g * v->head_bytes,
    v->plane_bytes = page_tokens * v->token_bytes;
    v->layer_bytes = 2 * v->plane_bytes;
    c.pages = bytes_new(c.count * sizeof *c.pages, 8);
    for (size_t i = 0; i < c.count; i++) c.pages[i] = bytes_new(2 * v->layer_bytes, 64);
    v->page = c.pages;
    return c;
}
static inline int_cache int_cache_new(size_t g, size_t d, size_t page_tokens, size_t tokens, uint64_t seed, float large)
{
    int_cache c = int_cache_pages(g, d, page_tokens, tokens, 2);
    const uint64_t keep = test_rng_state;
    test_rng_state = seed;
    for (size_t t = 0; t < c.view.tokens_capacity; t++)
        for (size_t i = 0; i < 2 * g * d; i++)
            int_cache_row(&c, 1, i >= g * d, t, i % (g * d) / d)[i % d] =
                t < tokens ? f16_from_f32(rnd_unit() * large) : 0x7e00;
    test_rng_state = keep;
    return c;
}
static inline int_cache int_cache8_new(size_t g, size_t d, size_t page_tokens, size_t tokens, uint64_t seed,
                                       float large)
{
    int_cache c = int_cache_pages(g, d, page_tokens, tokens, 1);
    const uint64_t keep = test_rng_state;
    test_rng_state = seed;
    for (size_t t = 0; t < c.view.tokens_capacity; t++)
        for (size_t i = 0; i < 2 * g; i++) {
            uint8_t *row = bt_kv_view_row(&c.view, 1, i >= g, t, i % g);
            for (size_t e = 0; e < d; e++) row[e] = (uint8_t)rnd();
            const float s = rnd_unit() * large / 127;
            const uint16_t bits = t < tokens ? f16_from_f32(s < 0 ? -s : s) : 0x7e00;
            memcpy(row + d, &bits, sizeof bits);
        }
    test_rng_state = keep;
    return c;
}
static inline void int_cache_free(int_cache *c)
{
    for (size_t i = 0; i < c->count; i++) free(c->pages[i]);
    free(c->pages);
}
#endif
