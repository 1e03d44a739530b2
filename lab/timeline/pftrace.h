#ifndef BT_LAB_PFTRACE_H
#define BT_LAB_PFTRACE_H
#include <stdbool.h>
#include <stdio.h>
#include "lab/timeline/timeline.h"

/* A timeline in Perfetto's own format: a protobuf message Trace, as its project defines it, times in
 * nanoseconds as they are. Packets, all of one sequence:
 *
 *   a TrackDescriptor of the process, named by the title, then one for each track, a thread of it
 *   for each span a TrackEvent SLICE_BEGIN with the kind's name, its chunk and layer as annotations, and a SLICE_END;
 *   track by track, in the order of time
 *
 * The few fields are encoded by hand: varints and length-delimited fields, all that the format has. false: f cannot be
 * written, or memory is out. */
bool tool_pftrace_put(FILE *f, const tool_timeline *t);
#endif
