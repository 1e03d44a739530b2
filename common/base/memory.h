#ifndef BT_BASE_MEMORY_H
#define BT_BASE_MEMORY_H
#include <stddef.h>

/* The system gives mapped and allocated memory its pages when each is first used, which a process's first request
 * would pay for. */

/* Gives [begin, begin + bytes) its pages now, but of no more than its first `most` bytes. The memory is the caller's
 * and writable; what it holds stays. Where the system cannot (Linux before 5.14, no memory), nothing happens: pages
 * come when they are used. */
void bt_memory_ready(void *begin, size_t bytes, size_t most);
#endif
