/* The times of a chunk's layers, as one formula for the chunk. See inner.h. */
#include "simulate/inner.h"

#include <stdlib.h>

static uint64_t time_of(const sim_cost *c, uint64_t ns, uint64_t permille)
{
    return sim_cost_paced_ns(c, bt_time_scale(ns, permille, 1000));
}

bool sim_line_play(sim_line *l, const sim_cost *c, uint32_t first, uint32_t end)
{
    bt_work_played p;
    const uint64_t permille = sim_cost_played_permille(c, first, end);
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
            (sim_line_chunk){.end = (uint32_t)p.ends[i], .first_ns = time_of(c, stored[0], permille),
                             /* cppcheck-suppress objectIndex ; an array of all chunks' layers */
                             .last_ns = time_of(c, stored[c->layers - 1], permille)};
    }
    l->len = p.chunks;
    l->at = 0;
    l->ns = time_of(c, p.ns, permille);
    return true;
}

void sim_line_done(sim_line *l)
{
    free(l->chunk);
    *l = (sim_line){0};
}
