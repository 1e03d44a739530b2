#ifndef BT_LAB_SIMULATE_FAULTS_H
#define BT_LAB_SIMULATE_FAULTS_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The faults of a simulated cluster and their times: --faults "kill decode 3 at 600s; slow link 2 10x for 60s".
 *
 *   kill prefill|decode N [at TIME] [for TIME]   the process dies; for: another is started on that node after it
 *   stop prefill|decode N [at TIME] for TIME     it does nothing, and goes on
 *   slow link N Kx [at TIME] [for TIME]          a host's link is K times slower, both ways
 *
 * Nodes are counted from 0 in their role; links as hosts are: prefill nodes, then decode nodes. TIME is a number and
 * us, ms, s, m or h; without `at`, 0. Parts are separated by semicolons. */
enum { TOOL_SIMULATE_FAULTS = 256 };
typedef enum tool_simulate_what { TOOL_SIMULATE_KILL = 1, TOOL_SIMULATE_STOP, TOOL_SIMULATE_SLOW } tool_simulate_what;
typedef enum tool_simulate_where {
    TOOL_SIMULATE_PREFILL = 1,
    TOOL_SIMULATE_DECODE,
    TOOL_SIMULATE_LINK
} tool_simulate_where;

typedef struct tool_simulate_fault {
    tool_simulate_what what;
    tool_simulate_where where;
    uint32_t number, times; /* times: of SLOW */
    int64_t at_us, for_us;  /* for: 0: to the end */
} tool_simulate_fault;
typedef struct tool_simulate_faults {
    tool_simulate_fault fault[TOOL_SIMULATE_FAULTS];
    size_t len;
} tool_simulate_faults;

/* Any text is safe. BT_EARG: the column of the first wrong word, and what would fit. */
bt_err tool_simulate_faults_read(tool_simulate_faults *ret, const char *text, bt_fault *fault);
/* BT_EARG: a node or link that the cluster does not have, with the last one of the cluster. */
bt_err tool_simulate_faults_check(const tool_simulate_faults *f, uint32_t prefills, uint32_t decodes, bt_fault *fault);
#endif
