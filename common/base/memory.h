#ifndef BT_BASE_MEMORY_H
#define BT_BASE_MEMORY_H
#include <stddef.h>
#include <stdint.h>

/* The system gives mapped and allocated memory its pages at their first use, and the first request of a process would
 * wait for them. */

/* Gives [begin, begin + bytes) its pages now, at most those of the first `most` bytes. The memory is writable and
 * belongs to the caller; its content stays. Where the system cannot (Linux before 5.14, no memory), nothing happens:
 * pages come when they are used. */
void bt_memory_ready(void *begin, size_t bytes, size_t most);

/* How much memory processes may still take: what the system calls available, or less where a control group of this
 * process (version 1 or 2, or a group above it) has less left. Pages of files count as free, since the system gives
 * them up. 0: unknown. */
uint64_t bt_memory_free(void);
/* The same for the machine whose /proc and /sys/fs/cgroup lie under `root`. */
uint64_t bt_memory_free_under(const char *root);
/* Where this process has a limit of addresses (ulimit -v, RLIMIT_AS): how much of it is taken, and what lifts it, as
 * the end of a sentence, "; ulimit -v ..."; "" where it has none. Allocates nothing. */
enum { BT_MEMORY_LIMIT_BYTES = 112 };
void bt_memory_limit_text(char ret[BT_MEMORY_LIMIT_BYTES]);
/* For programs, first of all: where this process has a limit of addresses, its stack takes 1 MiB of them now. A stack
 * that cannot grow later would end the process without a word. */
void bt_memory_keep_stack(void);
/* For programs, once, before there are threads: what bt_memory_free gives from now on; 0: what the system says. */
void bt_memory_set_free(uint64_t bytes);
#endif
