/* Counter-based numbers, and entropy. */
#include "base/rng.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t bt_rng_u64(uint64_t seed, uint64_t index)
{
    const uint64_t g = UINT64_C(0x9e3779b97f4a7c15);
    return mix(mix(seed + g) + (index + 1) * g);
}

double bt_rng_uniform(uint64_t seed, uint64_t index)
{
    return (double)(bt_rng_u64(seed, index) >> 11) * 0x1p-53;
}

bt_err bt_rng_entropy(void *buf, size_t n, bt_fault *fault)
{
    for (uint8_t *p = buf; n;) {
        const ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return bt_fail(fault, BT_EIO, "getrandom: %s", strerror(errno));
        p += got;
        n -= (size_t)got;
    }
    return BT_OK;
}
