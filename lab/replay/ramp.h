#ifndef BT_LAB_REPLAY_RAMP_H
#define BT_LAB_REPLAY_RAMP_H
#include <stdbool.h>

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
#endif
