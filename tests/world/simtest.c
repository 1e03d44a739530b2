/* Runs seeds through the simulated world: `make simtest` says how. One line for each seed that breaks a
 * promise, with the command that replays it; the last line counts. Exit 0: nothing was broken; with
 * --break: the broken brain was caught. */
#include "base/breakage.h"
#include "tests/world/run.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BREAK_SEEDS = 4000, SHRINK_RUNS = 4000, MMAP_BYTES = 1 << 17 };

/* A sanitizer makes everything ten times slower; it sees a tenth of the seeds. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FEWER = 10 };
#else
enum { FEWER = 1 };
#endif

/* Seeds that found a fault, in a brain or in a check, and what it was. */
static const uint64_t kept[] = {
    35091975,   /* check: the process that made the attempt was killed; its successor passed for who repeats
                   ABORT */
    35092725,   /* check: a block for an earlier life of its receiver began the count of the new link again */
    35096509,   /* check: forgot when a stopped node that is leaving had gone on */
    35096661,   /* check: as 35091975 */
    35098130,   /* check: as 35092725 */
    40008233,   /* check: as 35091975 */
    40011547,   /* check: packets that a cut held back made a dead node seem alive */
    70098091,   /* check: an ABORT that was said before the request's end was lost in a cut */
    91068064,   /* brain: a heartbeat behind a BYE made a node that no cut could lose */
    2000001958, /* plan: a node that was leaving when the faults ended was counted to the pair that stays */
    2000106898, /* plan: as 2000001958 */
    2000126207, /* plan: as 2000001958 */
    3000123377, /* check: the lease for which ABORT is said was over before a halted node took up the RESERVE
                 */
    91860099728, /* check: CANCEL in the very step that says that the work has ended seemed to be one of an
                    idle slot */
    20003879,    /* brain: the key with most requests was to give way, but these had all had nodes and stayed,
                    so that another key's was refused */
    20082433,    /* check: a RESERVED that was due when the next attempt's RESERVE came seemed to follow it */
    20147983, /* brain: requests that came back in a step and went on in it took the room of one that came in
                 it */
};

typedef struct options {
    uint64_t seeds, start;
    const char *breakage;
    bool has_trace, shrinks, is_kept;
    uint64_t trace;
} options;

static const struct {
    const char *name, *words;
} breakages[] = {{"none", ""},
#define LINE(name, words) {#name, words},
                 BT_BREAKAGES(LINE)
#undef LINE
};
enum { BREAKAGES = sizeof breakages / sizeof *breakages };

#ifdef BT_BREAKABLE
bt_breakage bt_breakage_now;
static bool choose(int k)
{
    bt_breakage_now = (bt_breakage)k;
    return true;
}
#else
static bool choose(int k)
{
    (void)k;
    return false;
}
#endif

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void say_failure(const options *o, uint64_t seed, const char *error)
{
    printf("FAILED %s; replay: make simtest TRACE=%" PRIu64 "%s%s\n", error, seed,
           o->breakage ? " BREAK=" : "", o->breakage ? o->breakage : "");
    fflush(stdout);
}

/* One seed, with every event; with shrinks: as few faults and requests as still break it. */
static int trace(const options *o, uint64_t seed)
{
    plan p;
    run_result r;
    run_part part, *only = NULL;
    uint64_t *packets = NULL;
    plan_draw(&p, seed);
    if (o->shrinks) {
        run_plan(&r, &p, NULL, NULL, true);
        if (r.error[0]) {
            run_shrink(&part, &packets, &p, &r, SHRINK_RUNS);
            only = &part;
        }
        run_result_done(&r);
    }
    plan_say_world(stdout, &p);
    for (uint32_t i = 0; i < p.units_len; i++)
        if (!only || only->units[i]) plan_say_unit(stdout, &p.units[i]);
    if (only) printf("and %zu faults of packets\n", only->packets_len);
    run_plan(&r, &p, only, stdout, false);
    if (r.error[0]) say_failure(o, seed, r.error);
    else printf("seed %" PRIu64 " breaks nothing\n", seed);
    free(packets);
    return r.error[0] != 0;
}

static int run_seeds(const options *o)
{
    uint64_t faults = 0, violations = 0, events = 0, requests = 0, done = 0;
    const double from = seconds();
    const uint64_t seeds = o->is_kept ? sizeof kept / sizeof *kept : (o->seeds + FEWER - 1) / FEWER;
    for (uint64_t k = 0; k < seeds; k++) {
        const uint64_t seed = o->is_kept ? kept[k] : o->start + k;
        plan p;
        run_result r;
        plan_draw(&p, seed);
        run_plan(&r, &p, NULL, NULL, false);
        faults += r.faults;
        events += r.events;
        requests += r.requests;
        done += r.done;
        if (!r.error[0]) continue;
        violations++;
        say_failure(o, seed, r.error);
        if (o->shrinks) (void)trace(o, seed);
    }
    const double took = seconds() - from;
    printf("requests=%" PRIu64 " done=%" PRIu64 "\n", requests, done);
    printf("seeds=%" PRIu64 " faults=%" PRIu64 " violations=%" PRIu64 " events=%" PRIu64
           " events_per_second=%.0f\n",
           seeds, faults, violations, events, took > 0 ? (double)events / took : 0);
    return violations > 0;
}

/* The seeds until one is caught. */
static int run_broken(const options *o, int k)
{
    for (uint64_t seed = o->start; seed < o->start + BREAK_SEEDS; seed++) {
        plan p;
        run_result r;
        plan_draw(&p, seed);
        run_plan(&r, &p, NULL, NULL, false);
        if (!r.error[0]) continue;
        printf("%s: caught after %" PRIu64 " seeds: %s\n", breakages[k].name, seed - o->start + 1, r.error);
        return 0;
    }
    printf("%s: NOT caught in %d seeds\n", breakages[k].name, BREAK_SEEDS);
    return 1;
}

static int break_it(const options *o)
{
    if (strcmp(o->breakage, "list") == 0) {
        for (int k = 1; k < BREAKAGES; k++) printf("%-24s %s\n", breakages[k].name, breakages[k].words);
        return 0;
    }
    int bad = 0, found = 0, caught = 0;
    for (int k = 1; k < BREAKAGES; k++) {
        if (strcmp(o->breakage, "all") != 0 && strcmp(o->breakage, breakages[k].name) != 0) continue;
        found++;
        if (!choose(k)) {
            fprintf(stderr, "simtest: this build has no broken brains; make simtest BREAK=%s makes one\n",
                    o->breakage);
            return 2;
        }
        const int rc = o->has_trace ? trace(o, o->trace) : run_broken(o, k);
        bad += rc;
        caught += !rc;
    }
    if (strcmp(o->breakage, "all") == 0) printf("%d passed, %d failed\n", caught, bad);
    if (found == 0)
        fprintf(stderr, "simtest: no breakage is called %s; BREAK=list says which there are\n", o->breakage);
    return found == 0 ? 2 : bad > 0;
}

int main(int argc, char **argv)
{
    options o = {.seeds = 1000, .start = 1};
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        if (value) value++;
        if (value && strncmp(argv[i], "seeds=", 6) == 0) o.seeds = strtoull(value, NULL, 10);
        else if (value && strncmp(argv[i], "start=", 6) == 0) o.start = strtoull(value, NULL, 10);
        else if (value && strncmp(argv[i], "break=", 6) == 0) o.breakage = value;
        else if (value && strncmp(argv[i], "trace=", 6) == 0)
            o.has_trace = true, o.trace = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "shrink") == 0) o.shrinks = true;
        else if (strcmp(argv[i], "kept") == 0) o.is_kept = true;
        else {
            fprintf(
                stderr,
                "usage: simtest [seeds=N] [start=S] [kept] [break=NAME|all|list] [trace=SEED] [shrink]\n");
            return 2;
        }
    }
    /* A world's tables are large, and few of their pages are touched: fresh ones cost less than old ones
     * cleared. */
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
    if (o.breakage) return break_it(&o);
    return o.has_trace ? trace(&o, o.trace) : run_seeds(&o);
}
