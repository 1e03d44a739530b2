#ifndef BT_LAB_TIMELINE_TIMELINE_H
#define BT_LAB_TIMELINE_TIMELINE_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Work over time as spans on tracks, written as a page for people or as a trace for other tools. A track is modelled or
 * measured, never both; where a timeline has both kinds, the names of its tracks say which. */
enum { TOOL_TIMELINE_MAX_SPANS = 1 << 20, TOOL_TIMELINE_MAX_TRACKS = 64, TOOL_TIMELINE_MAX_FACTS = 64 };

typedef struct tool_timeline_span {
    uint32_t track, kind;
    int32_t chunk, layer; /* -1: of none */
    uint64_t begin_ns, end_ns;
} tool_timeline_span;

typedef struct tool_timeline_fact {
    const char *name;
    char value[128];
} tool_timeline_fact;

typedef struct tool_timeline {
    const char *title, *subtitle; /* text of any kind: it is escaped */
    const char *unit;             /* what `chunk` counts: "chunk" */
    const char *const *track;     /* [tracks] */
    const char *const *kind;      /* [kinds]: names of the legend */
    size_t tracks, kinds;
    const tool_timeline_fact *fact; /* [facts], beside the picture */
    size_t facts;
    const tool_timeline_span *span; /* [spans], in any order */
    size_t spans;
} tool_timeline;

/* By the end of the path: ".html" is one page that needs nothing else; ".json" is the Trace Event format that Perfetto
 * and Chrome open, one complete event ("ph": "X") a span with its begin and length in microseconds, tracks as threads
 * of one process; ".pftrace" is Perfetto's own protobuf. The file appears when it is whole. BT_EARG: another ending;
 * BT_ELIMIT: more than a limit above; BT_EIO, BT_ENOMEM. */
bt_err tool_timeline_check_path(const char *path, bt_fault *fault); /* its ending alone */
bt_err tool_timeline_write(const char *path, const tool_timeline *t, bt_fault *fault);
#endif
