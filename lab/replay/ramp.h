#ifndef BT_LAB_REPLAY_RAMP_H
#define BT_LAB_REPLAY_RAMP_H
#include <stdbool.h>
#include "base/opt.h"
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

/* --ramp of a command: runs its load faster and slower, and prints each run and the fastest that keeps the
 * limits, in a table or as one JSON object. */
typedef struct tool_replay_ramp_options {
    bool is_on;
    double share; /* of requests that has to keep the limits */
} tool_replay_ramp_options;

#define TOOL_REPLAY_RAMP_OPTS(config, field) \
    {.group = "Output", .name = "ramp", BT_OPT_AT(config, field.is_on), .type = BT_OPT_FLAG, \
     .help = "run again and again, faster or slower, and find the highest rate that keeps --slo"}, \
    { \
        .group = "Output", .name = "ramp-share", .value = "X", BT_OPT_AT(config, field.share), .type = BT_OPT_DOUBLE, \
        .def = "0.99", .flo = 0.01, .fhi = 1, .help = "the share of requests that has to keep --slo for --ramp" \
    }

/* Refuses other options of a command that do not go with --ramp. trace NULL: a drawn load. BT_EARG. */
typedef struct tool_replay_ramp_beside {
    const char *slo, *trace;
    bool sets_rate;  /* --rate or --concurrency */
    bool wants_file; /* --csv or --report */
} tool_replay_ramp_beside;
bt_err tool_replay_ramp_check(const tool_replay_ramp_options *o, const tool_replay_ramp_beside *b, bt_fault *fault);

typedef struct tool_replay_tried {
    tool_replay_figures figures;
    double offered_per_s; /* tool_replay_offered */
} tool_replay_tried;
typedef struct tool_replay_ramp_job {
    const char *command, *slo; /* "replay"; the text of --slo */
    double speed, share;       /* to begin with; of requests */
    bool json;
    /* Runs the load `speed` times as fast; step counts from 0. BT_ECANCEL: stopped. */
    bt_err (*run)(void *ud, tool_replay_tried *ret, double speed, uint32_t step, bt_fault *fault);
    void *ud;
} tool_replay_ramp_job;
/* The rate of requests in a plan, which a server that falls behind does not reach. */
double tool_replay_offered(const tool_replay_plan *p);
/* The command's exit code: 0 where one of the runs keeps the limits. */
int tool_replay_ramp_run(const tool_replay_ramp_job *j, bt_fault *fault);
#endif
