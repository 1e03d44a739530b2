#ifndef BT_LAB_REPLAY_BOOTSTRAP_H
#define BT_LAB_REPLAY_BOOTSTRAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Confidence intervals of a run's figures (Efron's percentile bootstrap): a thousand times, as many values as the run
 * has are drawn from its values at random; 95 of 100 of the figures of these draws lie in the interval. Pure and
 * reproducible. The interval covers chance between requests only, not a machine that was busy during the whole run.
 */
enum { TOOL_REPLAY_ROUNDS = 1000, TOOL_REPLAY_STATS = 4 };
extern const char *const tool_replay_stat_names[TOOL_REPLAY_STATS]; /* mean, p50, p90, p99 */

typedef struct tool_replay_rounds {
    double value[TOOL_REPLAY_STATS]; /* of the values themselves */
    double round[TOOL_REPLAY_STATS][TOOL_REPLAY_ROUNDS];
} tool_replay_rounds;

/* n >= 1. Round by round the places of the values drawn follow from seed and n alone: two runs with the same requests
 * in the same places, and one seed, are paired. BT_ENOMEM. */
bt_err tool_replay_bootstrap(tool_replay_rounds *ret, const double *value, size_t n, uint64_t seed, bt_fault *fault);

typedef struct tool_replay_interval {
    double value, lo, hi;
} tool_replay_interval;
tool_replay_interval tool_replay_interval_of(const tool_replay_rounds *r, size_t stat);
/* The difference of b from a, as a share of a's value. It is significant where 0 is outside of the interval. */
tool_replay_interval tool_replay_interval_between(const tool_replay_rounds *a, const tool_replay_rounds *b,
                                                  size_t stat);
#endif
