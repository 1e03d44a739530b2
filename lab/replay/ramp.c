/* See ramp.h. */
#include "lab/replay/ramp.h"

void tool_replay_ramp_begin(tool_replay_ramp *r, double load) { *r = (tool_replay_ramp){.load = load}; }

bool tool_replay_ramp_next(tool_replay_ramp *r, bool is_carried)
{
    r->steps++;
    if (is_carried && r->load > r->best) r->best = r->load;
    if (!is_carried && (r->too_much <= 0 || r->load < r->too_much)) r->too_much = r->load;
    if (r->best > 0 && r->too_much > 0 && r->too_much < r->best)
        r->too_much = 0; /* it was chance: look higher again */
    if (r->steps == TOOL_REPLAY_RAMP_STEPS) return false;
    if (r->too_much <= 0) r->load = r->best * 2;
    else if (r->best <= 0) r->load = r->too_much / 2;
    else if (r->too_much <= r->best * 1.05) return false;
    else r->load = (r->best + r->too_much) / 2;
    return true;
}
