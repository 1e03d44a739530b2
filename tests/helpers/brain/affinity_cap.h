#ifndef TESTS_AFFINITY_CAP_H
#define TESTS_AFFINITY_CAP_H
#include "gateway/brain/affinity.h"

/* How many entries the table has room for: as many as are noted, one prefix each, before the first of them makes
 * room. Its entries from before are forgotten. */
static inline uint32_t affinity_cap(gw_affinity *a)
{
    static const bt_incarnation node = {{0xcc}};
    const uint64_t base = UINT64_C(0xcab00000) << 32;
    uint32_t noted = 0;
    do {
        const uint64_t prefix = base + noted++;
        gw_affinity_note(a, &prefix, 1, &node);
    } while (gw_affinity_has(a, base, &node));
    return noted - 1;
}
#endif
