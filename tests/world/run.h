#ifndef TESTS_WORLD_RUN_H
#define TESTS_WORLD_RUN_H
#include "tests/world/plan.h"

/* One run of a plan, whole or in part, and its verdict. */
typedef struct run_part { /* NULL: the whole plan */
    bool units[PLAN_UNITS];
    const uint64_t *packets;
    size_t packets_len; /* ids of the faults that befall packets, ascending */
} run_part;

typedef struct run_result {
    char error[400]; /* the first broken promise; "" none */
    uint64_t events, faults, requests, done;
    uint64_t *packets;
    size_t packets_len; /* what befell packets, where asked for; owned, ascending */
} run_result;

/* trace: NULL none. records: fill packets. */
void run_plan(run_result *ret, const plan *p, const run_part *part, FILE *trace, bool records);
void run_result_done(run_result *r);

/* Find a smaller part of a failing plan that fails too, in at most `budget` runs. *ret_packets is owned by the
 * caller and part of *ret. */
void run_shrink(run_part *ret, uint64_t **ret_packets, const plan *p, const run_result *failed, unsigned budget);
#endif
