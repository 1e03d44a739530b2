/* The times of a chunk's layers, as one formula for the chunk. See inner.h. */
#include "simulate/inner.h"

#include <stdlib.h>

bool sim_line_play(sim_line *l, const sim_cost *c, uint32_t first, uint32_t end)
{
    bt_work_played p;
    if (!c->play(c->play_ud, &p, first, end)) return false;
    if (p.chunks > l->cap) {
        sim_line_chunk *all = reallocarray(l->chunk, p.chunks, sizeof *all);
        if (!all) return false;
        l->chunk = all;
        l->cap = p.chunks;
    }
    for (size_t i = 0; i < p.chunks; i++) {
        const uint64_t *stored = &p.stored_ns[i * c->layers];
        l->chunk[i] =
            (sim_line_chunk){.end = (uint32_t)p.ends[i], .first_ns = sim_cost_paced_ns(c, stored[0]),
                             /* cppcheck-suppress objectIndex ; an array of all chunks' layers */
                             .last_ns = sim_cost_paced_ns(c, stored[c->layers - 1])};
    }
    l->len = p.chunks;
    l->at = 0;
    l->ns = sim_cost_paced_ns(c, p.ns);
    return true;
}

void sim_line_done(sim_line *l)
{
    free(l->chunk);
    *l = (sim_line){0};
}
