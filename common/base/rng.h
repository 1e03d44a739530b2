#ifndef BT_BASE_RNG_H
#define BT_BASE_RNG_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Random numbers that are functions of (seed, index): no state, so draw number 17 is the same wherever and whenever it
 * is made. The numbers are part of the output contract (a seed given by a user keeps its text), so the formula is
 * fixed:
 *   mix(z): z = (z ^ z>>30) * 0xbf58476d1ce4e5b9; z = (z ^ z>>27) * 0x94d049bb133111eb; z ^ z>>31
 *   u64     = mix(mix(seed + g) + (index + 1) * g), g = 0x9e3779b97f4a7c15, modulo 2^64
 *   uniform = (u64 >> 11) * 2^-53, in [0, 1)
 * Not for secrets. */
static inline uint64_t bt_rng_u64(uint64_t seed, uint64_t index)
{
    const uint64_t g = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = seed + g;
    for (int round = 0; round < 2; round++) {
        if (round) z += (index + 1) * g;
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
    }
    return z;
}
double bt_rng_uniform(uint64_t seed, uint64_t index);

/* n bytes from the kernel's generator; good for keys, incarnations and seeds that nobody gave. BT_EIO. */
bt_err bt_rng_entropy(void *buf, size_t n, bt_fault *fault);
#endif
