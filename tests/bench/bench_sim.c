/* How many steps of brains a second the simulated world takes, by nodes and by requests in flight, without
 * faults: with all its checks, and bare (tests/world/sim_world.h).
 *
 *   bench_sim [--json] */
#include "tests/world/sim_world.h"
#include "tests/bench/kit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    STEPS = 300000,
    SLICE_US = 20000,
    PROMPT = 128,
    ANSWER = 64,
    SLOTS = 4,
    PAGES_A_SLOT = 4,
    WARM_US = 2000000
};

static double seconds_used(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t pending(const sim_world *w, uint64_t *first)
{
    uint64_t n = 0, before = 0;
    for (uint64_t i = *first; i <= sim_world_requests(w); i++) {
        if (sim_world_request(w, i)->outcome == SIM_PENDING) n++;
        else if (n == 0) before++;
    }
    *first += before;
    return n;
}

static void measure(uint32_t nodes, uint32_t requests, bool is_bare, bool json, bool is_first)
{
    sim_options o = sim_options_defaults(1);
    sim_world *w = NULL;
    uint64_t first = 1;
    o.prefills = o.decodes = nodes / 2;
    o.slots = SLOTS * (requests < nodes ? 1 : requests / nodes);
    if (o.decode_pages < PAGES_A_SLOT * o.slots) o.pages_total = o.decode_pages = PAGES_A_SLOT * o.slots;
    o.active_max = o.queue_max = SLOTS * requests;
    o.is_bare = is_bare;
    if (sim_world_new(&w, &o) < 0) bench_die("out of memory");
    sim_world_run(w, WARM_US);
    const uint64_t begin = sim_world_steps(w);
    const double t0 = seconds_used();
    while (sim_world_steps(w) - begin < STEPS) {
        for (uint64_t n = pending(w, &first); n < requests; n++)
            if (!sim_world_submit(w, PROMPT, ANSWER)) bench_die("a request was not taken");
        sim_world_run(w, SLICE_US);
        if (sim_world_error(w)) bench_die(sim_world_error(w));
    }
    const double rate = (double)(sim_world_steps(w) - begin) / (seconds_used() - t0);
    if (json)
        printf("%s    {\"nodes\": %u, \"requests\": %u, \"bare\": %s, \"steps_per_second\": %.0f, "
               "\"us_per_step\": %.3f}",
               is_first ? "" : ",\n", nodes, requests, is_bare ? "true" : "false", rate, 1e6 / rate);
    else
        printf("%6u %9u %7s %16.0f %11.3f\n", nodes, requests, is_bare ? "bare" : "checked", rate,
               1e6 / rate);
    fflush(stdout);
    sim_world_free(w);
}

int main(int argc, char **argv)
{
    static const uint32_t rows[][2] = {{10, 10},    {10, 100},    {100, 100},
                                       {100, 1000}, {1000, 1000}, {100, 10000}};
    enum { ROWS = sizeof rows / sizeof *rows };
    const bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) {
        fprintf(stderr, "usage: bench_sim [--json]\n");
        return 2;
    }
    if (json) printf("{\n  \"benchmark\": \"sim\",\n  \"rows\": [\n");
    else printf(" nodes  requests          steps per second us per step\n");
    for (size_t i = 0; i < 2 * ROWS; i++)
        measure(rows[i % ROWS][0], rows[i % ROWS][1], i >= ROWS, json, i == 0);
    if (json) printf("\n  ]\n}\n");
    return 0;
}
