#ifndef BT_LAB_REPLAY_RAMP_H
#define BT_LAB_REPLAY_RAMP_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "lab/replay/plan.h"
#include "lab/replay/result.h"

/* Finds the highest load that a server carries: doubles the load until it is too much, then halves the interval until
 * its ends are within a twentieth. A first load that is too much is halved until it is not. Pure. */
enum { TOOL_REPLAY_RAMP_STEPS = 16 };
typedef struct tool_replay_ramp {
    double load;           /* to try next */
    double best, too_much; /* the highest load that was carried, the lowest that was not; 0: none */
    int steps;             /* tried */
} tool_replay_ramp;

void tool_replay_ramp_begin(tool_replay_ramp *r, double load);
/* Takes the result of r->load. False: the search is over, and best is the answer. */
bool tool_replay_ramp_next(tool_replay_ramp *r, bool is_carried);

/* --ramp of a command: runs its load faster and slower, and prints each run and the fastest that keeps the limits, in a
 * table or as one JSON object. With draws the search is made again in each of them, from the rate that was found, and
 * the band is printed that nine in ten of the rates lie in. */
typedef struct tool_replay_tried {
    tool_replay_figures figures;
    double offered_per_s; /* tool_replay_offered */
} tool_replay_tried;
typedef struct tool_replay_ramp_job {
    const char *command, *slo; /* "replay"; the text of --slo */
    double speed, share;       /* to begin with; of requests */
    bool json;
    json_t *ignored, *error; /* of the object, where it is a forecast; NULL: it is none */
    json_t *made_by;         /* of the object */
    /* Runs the load `speed` times as fast; step counts from 0. BT_ECANCEL: stopped. */
    bt_err (*run)(void *ud, tool_replay_tried *ret, double speed, uint32_t step, bt_fault *fault);
    uint32_t draws;                          /* of a forecast; 0: none */
    uint64_t seed;                           /* of these */
    void (*draw)(void *ud, uint64_t number); /* from here on devices take what this draw says */
    void *ud;
} tool_replay_ramp_job;
/* The rate of requests in a plan, which a server that falls behind does not reach. */
double tool_replay_offered(const tool_replay_plan *p);
/* The command's exit code: 0 where one of the runs keeps the limits. */
int tool_replay_ramp_run(const tool_replay_ramp_job *j, bt_fault *fault);
#endif
