/* Ids of other blocks: a function of the old id and the place, so that one pass needs no memory. */
#include "trace/reblock.h"
#include "base/rng.h"

#include <math.h>

void bt_trace_reblock(uint64_t *ret, size_t n, uint32_t to, double ratio, const uint64_t *old, size_t old_len,
                      uint32_t from)
{
    for (size_t k = 0; k < n; k++) {
        const double end = ceil((double)(k + 1) * to / ratio / from);
        const size_t i = end < 1 ? 1 : end < (double)old_len ? (size_t)end : old_len;
        ret[k] = bt_rng_u64(old[i - 1], k);
    }
}
