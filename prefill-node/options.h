#ifndef PF_OPTIONS_H
#define PF_OPTIONS_H
#include "node/node_options.h"
#include "npu/compile/obtain.h"

/* The settings of a prefill node, those of every node and its own, with defaults and limits in one table. */
typedef struct pf_options {
    const bt_node_options *node;
    const bt_obtain_want *want; /* the package, where the engine runs one */
    int engine;                 /* index in bt_engine_prefill_names */
    int schedule;               /* index in bt_engine_schedules */
    int64_t slots, min_overlap_tokens, share_tokens, short_tokens;
} pf_options;

extern const bt_opt_group pf_opts; /* of a pf_options: all but its engine */
#endif
