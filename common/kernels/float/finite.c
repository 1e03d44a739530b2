/* Compares floats as integers: the bits of |x| ascend with |x|, and the bits of a NaN lie above all others.
 * The compiler vectorises these plain loops. */
#include "kernels/finite.h"

#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

bool bt_finite_below(const float *x, size_t n, float limit)
{
    const int32_t end = (int32_t)bits_of(limit);
    int32_t beyond = 0;
    for (size_t i = 0; i < n; i++) beyond |= (int32_t)(bits_of(x[i]) & 0x7fffffff) >= end;
    return !beyond;
}

float bt_finite_kv_limit(uint32_t elem_bytes)
{
    if (elem_bytes == 2)
        return 65520.0f; /* halfway from the greatest f16, 65504, to 2^16: rounds to infinity */
    if (elem_bytes == 1) return 8319008.5f; /* the float after 127 * 65504 */
    return __builtin_inff();
}

static uint64_t key_of(bt_overflow_place at)
{
    return (uint64_t)at.pos << 32 | (uint64_t)(at.layer & BT_OVERFLOW_NO_LAYER) << 8 | (uint64_t)at.what;
}

void bt_overflow_note(bt_overflow *o, bt_overflow_place at)
{
    const uint64_t place = ~key_of(at);
    uint_least64_t was = atomic_load_explicit(&o->place, memory_order_relaxed);
    while (place > was && !atomic_compare_exchange_weak(&o->place, &was, place)) {}
}

void bt_overflow_clear(bt_overflow *o) { atomic_store_explicit(&o->place, 0, memory_order_relaxed); }

bool bt_overflow_get(bt_overflow_place *ret, const bt_overflow *o)
{
    const uint64_t place = atomic_load_explicit(&o->place, memory_order_relaxed), key = ~place;
    if (place && ret)
        *ret = (bt_overflow_place){(size_t)(key >> 32), (uint32_t)(key >> 8 & BT_OVERFLOW_NO_LAYER),
                                   (bt_overflow_what)(key & 255)};
    return place != 0;
}

void bt_overflow_look(bt_overflow *o, bt_overflow_place at, size_t pos0, const float *x, size_t ld,
                      size_t rows, size_t k, float limit)
{
    if (!o) return;
    for (size_t r = 0; r < rows; r++) {
        at.pos = pos0 + r;
        if (!bt_finite_below(x + r * ld, k, limit)) bt_overflow_note(o, at);
    }
}
