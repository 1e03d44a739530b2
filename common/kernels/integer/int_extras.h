#ifndef BT_KERNELS_INT_EXTRAS_H
#define BT_KERNELS_INT_EXTRAS_H
/* Groups that a row's product takes beside those in their order, while the chunk's weights are in the first cache.
 * After EXTRAS_HERE is set: how many have room in the record itself; the others, up to one for each group of the chunk,
 * are in a list behind all records. */
#include "kernels/integer/int_simd.h"
#include "kernels/variant.h"

typedef struct extra {
    uint16_t k;    /* group of the chunk */
    int16_t times; /* so many times */
    int32_t x;     /* these four inputs */
} extra;
typedef struct beside {
    uint32_t extras;
    int32_t start; /* AVX2: of the chunk's sums */
    extra extra[EXTRAS_HERE];
} beside;
#define BESIDE     sizeof(beside)
#define MORE_BYTES sizeof(extra)

INT_INLINE void extra_put(beside *b, extra *more, extra e)
{
    if (b->extras < EXTRAS_HERE) b->extra[b->extras] = e;
    else more[b->extras - EXTRAS_HERE] = e;
    b->extras++;
}

/* Where a row has its extras of a chunk. */
typedef struct extras_at {
    uint8_t *beside;
    extra *more;
} extras_at;
INT_INLINE extras_at extras_of(const bt_int_inputs *to, const int_chunks *c, size_t row, size_t chunk)
{
    const size_t k = chunk * c->n, n = to->k4 - k < c->n ? to->k4 - k : c->n;
    extra *more = (void *)(to->memory + int_records_bytes(to->rows, to->k4, c, BESIDE));
    return (extras_at){to->memory + chunk * c->record * to->rows + row * (4 * n + BESIDE) + 4 * n,
                       more + row * to->k4 + k};
}

/* How many of s[count] lie before the input `end`. */
INT_INLINE size_t extras_before(const bt_int_shadow *s, size_t count, size_t end)
{
    size_t n = 0;
    while (n < count && s[n].k < end) n++;
    return n;
}

/* Puts a row's shadow beside its records, which are there; false: it has no room, nothing was changed. offset: what the
 * product sees more of each weight. */
static inline bool extras_take_shadow(const bt_int_inputs *to, const int_chunks *chunks, size_t row,
                                      const bt_int_shadow *s, size_t count, size_t k, uint32_t offset)
{
    if (!bt_int_shadow_is_short(s, count, k)) return false;
    for (size_t c = 0, i = 0; c < chunks->count; c++) {
        const size_t some = extras_before(s + i, count - i, 4 * (c + 1) * chunks->n), left = to->k4 - c * chunks->n;
        uint32_t extras;
        memcpy(&extras, extras_of(to, chunks, row, c).beside, sizeof extras);
        if (extras + some > EXTRAS_HERE + (left < chunks->n ? left : chunks->n)) return false;
        i += some;
    }
    for (size_t c = 0, i = 0; i < count; c++) {
        const extras_at at = extras_of(to, chunks, row, c);
        const size_t k0 = 4 * c * chunks->n, end = i + extras_before(s + i, count - i, k0 + 4 * chunks->n);
        beside b;
        if (end == i) continue;
        memcpy(&b, at.beside, sizeof b);
        for (; i < end; i++) {
            const extra e = {(uint16_t)((s[i].k - k0) / 4), (int16_t)s[i].r, 1 << s[i].k % 4 * 8};
            b.start = (int32_t)((uint32_t)b.start - offset * (uint32_t)s[i].r);
            extra_put(&b, at.more, e);
        }
        memcpy(at.beside, &b, sizeof b);
    }
    return true;
}

/* After a row's records are there: its is_left. */
INT_INLINE bool extras_is_left(const bt_int_inputs *to, const int_chunks *chunks, size_t row, const bt_int_rows *x,
                               uint32_t offset)
{
    const uint32_t count = x->shadow_count ? x->shadow_count[row] : 0;
    return count && (to->is_wide || !extras_take_shadow(to, chunks, row, x->shadow + row * x->k, count, x->k, offset));
}
#endif
