#ifndef BT_TOOLS_SERVE_H
#define BT_TOOLS_SERVE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/opt.h"
#include "engine/names.h"
#include "npu/compile/obtain.h"
#include "tools/cluster/background.h"
#include "tools/cluster/cluster.h"
#include "tools/cluster/devices.h"
#include "tools/pull/pull.h"

/* A system that a command starts for itself: the options that up, run and chat have in common, and what is done with
 * them. */
typedef struct tool_serve {
    const char *model, *isa, *chat_template;  /* the last NULL: the model file's */
    const char *decode_profile, *link, *pace; /* devices.h; the first two NULL: none */
    int engine;                               /* index in bt_engine_prefill_names */
    int schedule;                             /* in bt_engine_schedules */
    int decode;                               /* in bt_engine_decode_auto_names */
    int kv_dtype;                             /* in bt_kv_dtype_choices */
    int weights;                              /* in bt_weights_forms */
    int64_t threads, ctx_size, slots, prefill_slots, share_tokens, short_tokens, speculate, local_prefill_below;
    uint64_t kv_memory_bytes, swap_memory_bytes, cache_limit_bytes, memory_bytes;
    bt_obtain_want want;
    tool_pull_config pull; /* where a model that is not here comes from */
    /* not options: how many nodes there will be, 0 of both: one of each; and whether no node is a prefill node, so that
       decode nodes compute prompts */
    size_t prefill_nodes, decode_nodes;
    bool colocated;
    char quant[BT_RECIPE_MAX_TEXT]; /* what a search found (tools/search/auto.h); want.quant then */
} tool_serve;

extern const bt_opt_group tool_serve_opts; /* of a tool_serve */

/* How many nodes of each kind `up` and `replay` start, and with which keys. */
typedef struct tool_nodes {
    const char *keys;
    int64_t prefill, decode;
} tool_nodes;
extern const bt_opt_group tool_nodes_opts; /* of a tool_nodes */

/* The engines that *s asks for: of prompts, and of decoding. */
const bt_engine_facts *tool_serve_prefill(const tool_serve *s);
const bt_engine_facts *tool_serve_decode(const tool_serve *s);
/* Prepares all that nodes would otherwise do at their start, so that they start at once: fetches a known model after
 * a yes (tools/pull/pull.h); opens it, so that its faults are printed once and not by each program; searches for the
 * recipe where --quant asks for it; compiles the package and converts the weights where that has not been done.
 * Progress goes to stderr unless quiet. A signal meanwhile ends the process with the exit code `interrupted`;
 * afterwards signals set tool_stop. */
bt_err tool_serve_prepare(tool_serve *s, bool quiet, int interrupted, bt_fault *fault);
/* The same, then a private `baton up` of it; as tool_background_start with tool_stop. */
bt_err tool_serve_start(tool_background *ret, const tool_serve *s, bool quiet, bt_fault *fault);

/* The same with more options of `baton up` than a tool_serve has; more->program is not looked at. */
bt_err tool_serve_start_with(tool_background *ret, const tool_serve *s, const tool_command *more, bool quiet,
                             bt_fault *fault);

/* The options that a node of this role ("prefill", "decode") gets from *s: engine, machine, memory, package. */
void tool_serve_node_args(tool_command *ret, const tool_serve *s, const char *role);
#endif
