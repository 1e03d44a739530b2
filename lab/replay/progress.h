#ifndef BT_LAB_REPLAY_PROGRESS_H
#define BT_LAB_REPLAY_PROGRESS_H
#include "lab/replay/load.h"

/* The live line of a run on stderr: redrawn on a terminal, with a small plot of what was in flight; elsewhere a line
 * every ten seconds. */
enum { TOOL_REPLAY_PROGRESS_PLOT = 24 };
typedef struct tool_replay_live {
    bool is_terminal, is_drawn;
    bool has_rate; /* not in the first second */
    int64_t told_us, rate_us;
    uint64_t rate_pieces;
    double pieces_per_s, flight[TOOL_REPLAY_PROGRESS_PLOT];
} tool_replay_live;
void tool_replay_live_begin(tool_replay_live *l);
void tool_replay_live_tell(void *live, const tool_replay_progress *now); /* for tool_replay_load */
void tool_replay_live_end(tool_replay_live *l);                          /* erases the redrawn line */
#endif
