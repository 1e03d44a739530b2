#ifndef BT_LAB_SIMULATE_RANGE_H
#define BT_LAB_SIMULATE_RANGE_H
#include <jansson.h>
#include "lab/simulate/play.h"
#include "lab/simulate/sweep.h"

/* Clusters that were tried, as lines of a file: a sweep does not repeat what an earlier run, or its other parts, tried.
 * A line is a JSON object; `key` is a hash of everything else that decides its figures, so that points of another load
 * or device are skipped. */
typedef struct tool_simulate_points {
    tool_simulate_point *point;
    size_t len, cap;
} tool_simulate_points;

/* A point as a line with its newline. */
enum { TOOL_SIMULATE_LINE_BYTES = 512 };
void tool_simulate_points_line(char ret[TOOL_SIMULATE_LINE_BYTES], const tool_simulate_point *one, uint64_t key);
/* False: no such line, or of another key. Numbers come back as they were. */
bool tool_simulate_points_parse(tool_simulate_point *ret, const char *line, uint64_t key);

/* A sweep: --prefill 1..64 --decode 1..64 --slo ... finds the clusters that carry a load with the fewest nodes. A row
 * is a number of prefill nodes; its least number of decode nodes is found by tool_simulate_row in a process of its own,
 * as devices are priced and in each draw. The result does not depend on how many processes there are, nor on what was
 * read from a file of points. */
typedef struct tool_simulate_range {
    tool_simulate_bench *bench; /* as priced before and after */
    const tool_simulate_setup *setup;
    const tool_replay_plan *plan;
    const tool_replay_slo *slo;
    double share;              /* of requests that have to keep the limits */
    uint32_t draws;            /* further sweeps, on devices that take what a draw says; 0: none */
    const char *points_path;   /* read and appended to; NULL: none */
    tool_simulate_shard shard; /* only these rows */
    tool_simulate_rates rates;
    uint32_t jobs;
    uint64_t key;    /* of points: a hash of all that decides a figure, except the numbers of nodes */
    json_t *made_by; /* of the object and the picture; NULL: they say nothing of it */
    void (*progress)(void *ud, size_t tried, size_t rows); /* NULL: not */
    void *ud;
} tool_simulate_range;

/* Whether a group of the side has a range of numbers, and which: at most one of each side. BT_EARG. */
bt_err tool_simulate_varies(bool *ret, size_t *ret_group, const tool_simulate_side *s, const char *option,
                            bt_fault *fault);
/* A hash of everything in setup, plan, slo and share on which a figure depends. */
uint64_t tool_simulate_key(const tool_simulate_range *r);

typedef struct tool_simulate_found {
    tool_simulate_points tried;  /* as priced */
    tool_simulate_points *drawn; /* [votes.draws] */
    tool_simulate_point *point;  /* the frontier, by prefill nodes */
    size_t len;
    size_t cheapest; /* len: none */
    size_t again;    /* of tried and drawn: read from the file */
    tool_simulate_votes votes;
} tool_simulate_found;
bt_err tool_simulate_range_run(tool_simulate_found *ret, const tool_simulate_range *r, bt_fault *fault);
void tool_simulate_found_done(tool_simulate_found *f);

void tool_simulate_found_print(FILE *f, const tool_simulate_found *found, const tool_simulate_range *r);
json_t *tool_simulate_found_json(const tool_simulate_found *found, const tool_simulate_range *r);
/* A picture of the frontier and all tried clusters: .svg, or .html with it inside. BT_EARG, BT_EIO. */
bt_err tool_simulate_found_plot(const char *path, const tool_simulate_found *found, const tool_simulate_range *r,
                                bt_fault *fault);
#endif
