#ifndef BT_LAB_REPLAY_PRINT_H
#define BT_LAB_REPLAY_PRINT_H
#include <jansson.h>
#include <stdio.h>
#include "lab/replay/wire.h"

/* A line of a table of figures; what stands behind a device takes most. */
enum { TOOL_REPLAY_FACT_BYTES = 320 };
typedef struct tool_replay_fact {
    const char *name;
    char value[TOOL_REPLAY_FACT_BYTES];
} tool_replay_fact;

/* Nine in ten draws of a time's mean lie between, in ms: of TTFT, TPOT and E2E. */
enum { TOOL_REPLAY_BANDS = 3 };
typedef struct tool_replay_band {
    double low_ms, high_ms;
} tool_replay_band;

/* A finished run, for people and for programs. */
typedef struct tool_replay_outcome {
    const char *trace, *url; /* trace: a path, or the text of --synthetic */
    const tool_replay_plan *plan;
    const tool_replay_dialect *dialect;
    const tool_replay_result *result;
    const tool_replay_figures *figures;
    const tool_replay_slo *slo; /* NULL: none */
    double speed;
    uint32_t concurrency;
    uint64_t seed;
    const tool_replay_fact *fact; /* of a simulated cluster, for its page; NULL: a server answered */
    size_t facts;
    const tool_replay_band *band; /* [TOOL_REPLAY_BANDS] of a simulated cluster, for its page; NULL: none */
    const char *warning;          /* the first words of its page; NULL: none */
    json_t *made_by;              /* tools/made_by.h; NULL: the result says nothing of it */
} tool_replay_outcome;

/* The figures of the requests that `takes` says are part `of`, without gaps between tokens, which are counted for all
 * together. BT_ENOMEM. */
bt_err tool_replay_figures_part(tool_replay_figures *ret, const tool_replay_outcome *o,
                                bool (*takes)(const tool_replay_item *item, uint32_t of), uint32_t of, bt_fault *fault);

/* Lines on every change of the trace: scaled, cut, spread, guessed. One call a line. */
void tool_replay_tell(const tool_replay_outcome *r, void (*line)(void *ud, const char *text), void *ud);
/* The table that people read, with small plots over time. */
void tool_replay_print(FILE *f, const tool_replay_outcome *r);
/* One object with the keys of the command's page (docs); NULL: memory is out. */
json_t *tool_replay_json(const tool_replay_outcome *r);
/* A header and a row a request, in the order in which they ended. BT_EIO. */
bt_err tool_replay_csv(const char *path, const tool_replay_outcome *r, bt_fault *fault);

/* n values as bars of eight heights, into 3 n + 1 bytes; the largest is full. */
void tool_replay_bars(char *ret, const double *value, size_t n);
#endif
