/* A resample of sorted values is how often each was drawn; its mean and percentiles are read off those
 * counts. */
#include "lab/replay/bootstrap.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

const char *const tool_replay_stat_names[TOOL_REPLAY_STATS] = {"mean", "p50", "p90", "p99"};
static const double share[TOOL_REPLAY_STATS] = {0, 0.5, 0.9, 0.99};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct placed {
    double value;
    size_t place;
} placed;

/* stat[0] is the mean, the others the nearest ranks of the resample: of so many values n * share are not
 * larger. count: how often each place was drawn. */
static void read_off(double stat[TOOL_REPLAY_STATS], const placed *sorted, const uint32_t *count, size_t n)
{
    double sum = 0;
    size_t seen = 0, next = 1;
    for (size_t i = 0; i < n; i++) {
        const uint32_t times = count[sorted[i].place];
        sum += sorted[i].value * times;
        seen += times;
        while (next < TOOL_REPLAY_STATS && (double)seen >= (double)n * share[next])
            stat[next++] = sorted[i].value;
    }
    stat[0] = sum / (double)n;
}

bt_err tool_replay_bootstrap(tool_replay_rounds *ret, const double *value, size_t n, uint64_t seed,
                             bt_fault *fault)
{
    uint32_t *count = malloc(n * sizeof *count);
    placed *sorted = malloc(n * sizeof *sorted);
    double stat[TOOL_REPLAY_STATS];
    if (!count || !sorted) {
        free(count);
        free(sorted);
        return bt_fail(fault, BT_ENOMEM, "out of memory for a bootstrap");
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i] = (placed){value[i], i};
        count[i] = 1;
    }
    qsort(sorted, n, sizeof *sorted, by_value); /* a value stands first in each */
    read_off(ret->value, sorted, count, n);
    for (size_t r = 0; r < TOOL_REPLAY_ROUNDS; r++) {
        memset(count, 0, n * sizeof *count);
        for (size_t i = 0; i < n; i++) count[bt_rng_u64(seed, r * n + i) % n]++;
        read_off(stat, sorted, count, n);
        /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): read_off sets all */
        for (size_t s = 0; s < TOOL_REPLAY_STATS; s++) ret->round[s][r] = stat[s];
    }
    free(count);
    free(sorted);
    return BT_OK;
}

static tool_replay_interval interval(double value, double *round)
{
    qsort(round, TOOL_REPLAY_ROUNDS, sizeof *round, by_value);
    return (tool_replay_interval){value, round[TOOL_REPLAY_ROUNDS * 25 / 1000],
                                  round[TOOL_REPLAY_ROUNDS * 975 / 1000 - 1]};
}

tool_replay_interval tool_replay_interval_of(const tool_replay_rounds *r, size_t stat)
{
    double round[TOOL_REPLAY_ROUNDS];
    memcpy(round, r->round[stat], sizeof round);
    return interval(r->value[stat], round);
}

tool_replay_interval tool_replay_interval_between(const tool_replay_rounds *a, const tool_replay_rounds *b,
                                                  size_t stat)
{
    double round[TOOL_REPLAY_ROUNDS];
    const double base = a->value[stat] > 0 ? a->value[stat] : 1;
    for (size_t r = 0; r < TOOL_REPLAY_ROUNDS; r++) round[r] = (b->round[stat][r] - a->round[stat][r]) / base;
    return interval((b->value[stat] - a->value[stat]) / base, round);
}
