/* Counter-based numbers, and entropy. */
#include "base/rng.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

double bt_rng_uniform(uint64_t seed, uint64_t index)
{
    return (double)(bt_rng_u64(seed, index) >> 11) * 0x1p-53;
}

bt_err bt_rng_entropy(void *buf, size_t n, bt_fault *fault)
{
    for (uint8_t *p = buf; n;) {
        const ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return bt_fail(fault, BT_EIO, "the system gives no random bytes: %s", strerror(errno));
        p += got;
        n -= (size_t)got;
    }
    return BT_OK;
}
