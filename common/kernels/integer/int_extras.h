#ifndef BT_KERNELS_INT_EXTRAS_H
#define BT_KERNELS_INT_EXTRAS_H
/* Extras: groups of inputs that a row's product adds after its groups in order, while the chunk's weights are in the
 * first cache. They are the entries of a short shadow, and what AVX2 cuts from pairs. A record has room for EXTRAS_HERE
 * extras, which the includer defines; the others, up to one for each group of the chunk, are in a list behind all
 * records. */
#include "kernels/integer/int_simd.h"
#include "kernels/variant.h"

typedef struct extra {
    uint16_t k;    /* the group's number in the chunk */
    int16_t times; /* the factor of all four inputs */
    int32_t x;     /* four inputs of 8 bits */
} extra;
typedef struct beside {
    uint32_t extras; /* how many, here and in the list */
    int32_t start;   /* AVX2: the start of the chunk's sums */
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

/* Where a row's extras of a chunk are. */
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

/* How many of the entries s[count], ascending, are for inputs before `end`. */
INT_INLINE size_t extras_before(const bt_int_shadow *s, size_t count, size_t end)
{
    size_t n = 0;
    while (n < count && s[n].k < end) n++;
    return n;
}

/* Puts a row's shadow beside the row's finished records, each entry as an extra. False: it does not fit, and nothing
 * was changed. offset: what the variant's products add to each weight (128 for AVX2, else 0). */
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

/* Takes the row's shadow, after its records are finished, and returns its is_left (int_kernels.h). */
INT_INLINE bool extras_is_left(const bt_int_inputs *to, const int_chunks *chunks, size_t row, const bt_int_rows *x,
                               uint32_t offset)
{
    const uint32_t count = x->shadow_count ? x->shadow_count[row] : 0;
    return count && (to->is_wide || !extras_take_shadow(to, chunks, row, x->shadow + row * x->k, count, x->k, offset));
}
#endif
