/* See memory.h. Pages at both ends of a range, which may be shared with other allocations, are taken whole.
 * Files of the system are read with limits: a line or a number that makes no sense counts as missing. */
#include "base/memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

/* ---- the limit of addresses ---- */

/* The first number of /proc/self/statm: pages. 0: unknown. */
static uint64_t addresses_taken(void)
{
    char text[64];
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) (void)close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    return strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void bt_memory_limit_text(char ret[BT_MEMORY_LIMIT_BYTES])
{
    struct rlimit limit;
    ret[0] = 0;
    if (getrlimit(RLIMIT_AS, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY) return;
    snprintf(ret, BT_MEMORY_LIMIT_BYTES,
             "; ulimit -v allows %" PRIu64 " MiB of addresses, %" PRIu64
             " are taken: 'ulimit -v unlimited' lifts it",
             (uint64_t)limit.rlim_cur >> 20, addresses_taken() >> 20);
}

enum { STACK_BYTES = 1 << 20 };

static __attribute__((noinline)) void touch_stack(void)
{
    volatile char room[STACK_BYTES];
    for (size_t i = 0; i < sizeof room; i += 4096) room[sizeof room - 1 - i] = 0; /* from the top down */
}

void bt_memory_keep_stack(void)
{
    struct rlimit all, stack;
    if (getrlimit(RLIMIT_AS, &all) < 0 || all.rlim_cur == RLIM_INFINITY ||
        getrlimit(RLIMIT_STACK, &stack) < 0)
        return;
    if (stack.rlim_cur >= 4 * STACK_BYTES && all.rlim_cur >= addresses_taken() + 4 * STACK_BYTES)
        touch_stack();
}

/* ---- what is free ---- */

enum { MAX_PATH = 4096, MAX_LINE = 512, MAX_LINES = 4096 };

static uint64_t given;

/* The number behind `key` in a file of "key number" lines; false where there is none. */
static bool find(uint64_t *ret, const char *path, const char *key)
{
    char line[MAX_LINE];
    const size_t len = strlen(key);
    bool found = false;
    FILE *f = fopen(path, "re");
    for (int i = 0; f && !found && i < MAX_LINES && fgets(line, sizeof line, f); i++)
        found = strncmp(line, key, len) == 0 && (line[len] == ' ' || line[len] == ':') &&
                sscanf(line + len + 1, "%" SCNu64, ret) == 1;
    if (f) (void)fclose(f);
    return found;
}

/* A file that is one number; "max" is none. */
static bool read_one(uint64_t *ret, const char *dir, const char *name)
{
    char path[MAX_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "re");
    const bool found = f && fscanf(f, "%" SCNu64, ret) == 1;
    if (f) (void)fclose(f);
    return found;
}

typedef struct group_names {
    const char *mount, *limit, *used, *file[2];
} group_names;
static const group_names versions[] = {
    {"/sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_active_file", "total_inactive_file"}},
    {"/sys/fs/cgroup", "memory.max", "memory.current", {"active_file", "inactive_file"}},
};

/* The bytes that one group has left; its pages of files count as free. UINT64_MAX: it has no limit. */
static uint64_t left_in(const char *dir, const group_names *v)
{
    char stat[MAX_PATH + 64];
    uint64_t limit, used, file, files = 0;
    if (!read_one(&limit, dir, v->limit) || !read_one(&used, dir, v->used)) return UINT64_MAX;
    snprintf(stat, sizeof stat, "%s/memory.stat", dir);
    for (int i = 0; i < 2; i++)
        if (find(&file, stat, v->file[i]) && file <= used - files) files += file;
    used -= files;
    return limit > used ? limit - used : 1; /* 0 would mean that nothing is known */
}

/* A group and all above it. */
static uint64_t left_above(const char *root, const char *group, const group_names *v)
{
    char dir[MAX_PATH];
    uint64_t least = UINT64_MAX;
    const int n = snprintf(dir, sizeof dir, "%s%s%s", root, v->mount, group);
    const size_t top = strlen(root) + strlen(v->mount);
    if (n < 0 || (size_t)n >= sizeof dir || strstr(group, "..")) return least;
    for (size_t len = (size_t)n; len >= top; len--) {
        if (len > top && dir[len] && dir[len] != '/') continue;
        dir[len] = 0;
        const uint64_t left = left_in(dir, v);
        if (left < least) least = left;
    }
    return least;
}

uint64_t bt_memory_free_under(const char *root)
{
    char path[MAX_PATH], line[MAX_LINE];
    uint64_t kib, least = UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (find(&kib, path, "MemAvailable") && kib < UINT64_MAX / 1024) least = kib * 1024;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    for (int i = 0; f && i < MAX_LINES && fgets(line, sizeof line, f); i++) {
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        if (strcmp(group, "/") == 0) *group = 0;
        if (names[1] && !strstr(names + 1, "memory")) continue; /* version 1, another controller */
        const uint64_t left = left_above(root, group, &versions[names[1] == 0]);
        if (left < least) least = left;
    }
    if (f) (void)fclose(f);
    return least == UINT64_MAX ? 0 : least;
}

void bt_memory_set_free(uint64_t bytes) { given = bytes; }
uint64_t bt_memory_free(void) { return given ? given : bt_memory_free_under(""); }
