/* bt_int_topk as plain loops, the specification. Halving an interval finds the least of the k greatest. */
#include "kernels/variant.h"

enum { MOST = 1 << 30 };

static size_t at_least(const int32_t *v, size_t n, int32_t least)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += v[i] >= least;
    return count;
}

void bt_int_topk_ref(uint32_t *restrict at, size_t k, int32_t *restrict score, const uint8_t *restrict shift,
                     size_t n, int32_t *restrict scratch)
{
    int32_t low = -MOST, high = MOST; /* at least k numbers are >= low, fewer than k are > high */
    (void)scratch;
    for (size_t i = 0; i < n; i++) score[i] = score[i] * (1 << shift[i]);
    while (low < high) {
        const int32_t middle = (int32_t)(((int64_t)low + high + 1) >> 1);
        if (at_least(score, n, middle) >= k) low = middle;
        else high = middle - 1;
    }
    size_t equal = k - at_least(score, n, low + 1), count = 0;
    for (size_t i = 0; i < n; i++) {
        if (score[i] < low || (score[i] == low && !equal)) continue;
        if (score[i] == low) equal--;
        at[count++] = (uint32_t)i;
    }
}
