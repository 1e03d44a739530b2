/* See memory.h. Pages at both ends, which may be shared with other allocations, are taken whole. */
#include "base/memory.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

void bt_memory_ready(void *begin, size_t bytes, size_t most)
{
    if (bytes > most) bytes = most;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    char *from = (char *)begin - (uintptr_t)begin % page;
    if (bytes) (void)madvise(from, (size_t)((char *)begin + bytes - from), MADV_POPULATE_WRITE);
}
