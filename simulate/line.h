#ifndef BT_SIMULATE_LINE_H
#define BT_SIMULATE_LINE_H
#include <stddef.h>
#include "simulate/cost.h"

/* A prompt under a schedule that has several chunks under way (sim_cost.play): when the layers of each chunk are there,
 * from the prompt's begin, with the node's pace. Its layers still travel as one event (wire.h), as if they were stored
 * at equal distances from the first to the last. */
typedef struct sim_line_chunk {
    uint32_t end;               /* positions behind it */
    uint64_t first_ns, last_ns; /* its first layer stored, and its last */
} sim_line_chunk;
typedef struct sim_line {
    sim_line_chunk *chunk;
    size_t len, cap, at; /* at: the caller's */
    uint64_t ns;         /* all of it, the output matrix too */
} sim_line;
/* Positions [first, end). false: it cannot be played, or memory is out. */
bool sim_line_play(sim_line *l, const sim_cost *c, uint32_t first, uint32_t end);
void sim_line_done(sim_line *l);
#endif
