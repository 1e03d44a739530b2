/* Divides sorted whole numbers into the clusters with the least sum of squares. */
#include "npu/quant/palette.h"

#include <string.h>

enum { VALUES = BT_PALETTE_VALUES, ENTRIES = 1 << BT_PALETTE_MOST_BITS, ZERO = 127 };

/* The values that occur, ascending. count, sum, square [i]: over the first i values, how many weights have
 * them, and the sums of these weights and of their squares. */
typedef struct sorted {
    size_t n;
    int64_t count[VALUES + 1], sum[VALUES + 1], square[VALUES + 1];
    int16_t value[VALUES];
} sorted;

static void sort(sorted *s, const uint32_t count[VALUES])
{
    s->n = 0;
    s->count[0] = s->sum[0] = s->square[0] = 0;
    for (int i = 0; i < VALUES; i++) {
        const int64_t c = count[i], v = i - ZERO;
        if (!c) continue;
        s->value[s->n] = (int16_t)v;
        s->count[s->n + 1] = s->count[s->n] + c;
        s->sum[s->n + 1] = s->sum[s->n] + c * v;
        s->square[s->n + 1] = s->square[s->n] + c * v * v;
        s->n++;
    }
}

/* The whole number nearest to the mean of values [first, end), half rounded up. */
static int64_t centre(const sorted *s, size_t first, size_t end)
{
    const int64_t c = s->count[end] - s->count[first], doubled = 2 * (s->sum[end] - s->sum[first]) + c;
    return doubled >= 0 ? doubled / (2 * c) : -((2 * c - 1 - doubled) / (2 * c));
}

static int64_t cost(const sorted *s, size_t first, size_t end)
{
    const int64_t m = centre(s, first, end);
    return s->square[end] - s->square[first] - 2 * m * (s->sum[end] - s->sum[first]) +
           m * m * (s->count[end] - s->count[first]);
}

/* Fills begin[e][j]: where the last of e + 1 clusters of the first j values begins. */
static void divide(uint8_t begin[ENTRIES][VALUES + 1], const sorted *s, size_t clusters)
{
    int64_t least[2][VALUES + 1];
    memset(begin, 0, sizeof *begin * clusters);
    for (size_t j = 1; j <= s->n; j++) {
        least[0][j] = cost(s, 0, j);
        begin[0][j] = 0;
    }
    for (size_t e = 1; e < clusters; e++) {
        int64_t *now = least[e % 2];
        const int64_t *before = least[1 - e % 2];
        for (size_t j = s->n; j > e; j--) {
            /* Knuth's bounds: the beginnings with one cluster fewer and with one value more */
            const size_t lo = begin[e - 1][j] > e ? begin[e - 1][j] : e,
                         hi = j < s->n ? begin[e][j + 1] : s->n - 1;
            now[j] = INT64_MAX;
            for (size_t i = lo; i <= hi && i < j; i++) {
                const int64_t c = before[i] + cost(s, i, j);
                if (c >= now[j]) continue;
                now[j] = c;
                begin[e][j] = (uint8_t)i;
            }
        }
    }
}

void bt_palette_make(bt_palette *ret, const uint32_t count[VALUES], unsigned bits)
{
    const size_t entries = (size_t)1 << bits;
    uint8_t begin[ENTRIES][VALUES + 1];
    sorted s;
    memset(ret, 0, sizeof *ret);
    sort(&s, count);
    if (!s.n) return;
    const size_t clusters = s.n < entries ? s.n : entries;
    divide(begin, &s, clusters);
    for (size_t e = clusters, end = s.n; e-- > 0;) {
        const size_t first = begin[e][end];
        ret->entry[e] = (int8_t)centre(&s, first, end);
        for (size_t i = first; i < end; i++) ret->index[s.value[i] + ZERO] = (uint8_t)e;
        end = first;
    }
    for (size_t e = clusters; e < entries; e++) ret->entry[e] = ret->entry[clusters - 1];
    for (int i = 1; i < VALUES; i++)
        if (!count[i]) ret->index[i] = ret->index[i - 1];
}
