#ifndef BT_TOOLS_RUN_TIMELINE_H
#define BT_TOOLS_RUN_TIMELINE_H
#include <jansson.h>
#include "tools/cluster/serve.h"

/* --timeline FILE of `baton run`: the device's time of this very run, and below it the host's. The first tracks are
 * modelled (lab/timeline/modelled.h) from the package, the lengths, the schedule and the link of the run; the others
 * are the times of the answer's `baton` object, measured. Both begin with prefill. Track names say which is which. */

/* Call it before anything is started. BT_EARG: no pair of devices, a path of another ending, or a run that no prices
 * are known for. */
bt_err tool_run_timeline_check(const tool_serve *s, const char *path, const char *url, bt_fault *fault);
/* s: with `engine npu` and a pair. baton: of its answer. BT_EARG: an answer that the decode node computed alone, or one
 * without times; errors of tool_modelled_play and tool_timeline_write. */
bt_err tool_run_timeline(const tool_serve *s, const json_t *baton, const char *path, bt_fault *fault);
#endif
