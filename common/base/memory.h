#ifndef BT_BASE_MEMORY_H
#define BT_BASE_MEMORY_H
#include <stddef.h>
#include <stdint.h>
#include "base/opt.h"

/* The system gives mapped and allocated memory its pages when each is first used, which a process's first request
 * would pay for. */

/* Gives [begin, begin + bytes) its pages now, but of no more than its first `most` bytes. The memory is the caller's
 * and writable; what it holds stays. Where the system cannot (Linux before 5.14, no memory), nothing happens: pages
 * come when they are used. */
void bt_memory_ready(void *begin, size_t bytes, size_t most);

/* How much memory processes may still take: what the system calls available, or less where a control group of this
 * process (version 1 or 2, and those above it) has less left. Pages of files count as free, since the system gives them
 * up. 0: it does not say. */
uint64_t bt_memory_free(void);
/* The same of the machine whose /proc and /sys/fs/cgroup lie under `root`. */
uint64_t bt_memory_free_under(const char *root);
/* For programs, once, before there are threads: what bt_memory_free gives from now on; 0: what the system says. */
void bt_memory_set_free(uint64_t bytes);

/* A row of an option table; field: a uint64_t of bytes, for bt_memory_set_free. */
#define BT_MEMORY_OPT(in, config, field) \
    { \
        .group = in, .name = "memory", .value = "SIZE", BT_OPT_AT(config, field), .type = BT_OPT_SIZE, .def = "0", \
        .lo = 0, .hi = INT64_MAX, \
        .help = "memory that there is: what needs more does not begin; 0: what machine and control group have free" \
    }
#endif
