#ifndef BT_TOOLS_SERVE_H
#define BT_TOOLS_SERVE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/cache_files.h"
#include "base/memory.h"
#include "engine/names.h"
#include "kv/kv_dtype.h"
#include "model/weights.h"
#include "npu/compile/obtain.h"
#include "tools/cluster/background.h"
#include "tools/cluster/cluster.h"
#include "tools/cluster/devices.h"

/* A system that a command starts for itself: the options that up, run and chat have in common, and what is done with
 * them. */
typedef struct tool_serve {
    const char *model, *isa;
    const char *decode_profile, *link, *pace; /* devices.h; the first two NULL: none */
    int engine;                               /* index in bt_engine_prefill_names */
    int schedule;                             /* in bt_engine_schedules */
    int decode;                               /* in bt_engine_decode_auto_names */
    int kv_dtype;                             /* in bt_kv_dtype_choices */
    int weights;                              /* in bt_weights_forms */
    int64_t threads, ctx_size, slots, prefill_slots, share_tokens, speculate, local_prefill_below;
    uint64_t kv_memory_bytes, swap_memory_bytes, cache_limit_bytes, memory_bytes;
    bt_obtain_want want;
    /* not options: how many nodes there will be, 0 of both: one of each; and whether no node is a prefill node, so that
       decode nodes compute prompts */
    size_t prefill_nodes, decode_nodes;
    bool colocated;
    char quant[BT_RECIPE_MAX_TEXT]; /* what a search found (tools/search/auto.h); want.quant then */
} tool_serve;

/* Rows of an option table whose config has a tool_serve at `serve`. */
#define TOOL_SERVE_OPTS(config, serve) \
    {.group = "Model", \
     .letter = 'm', \
     .name = "model", \
     .value = "MODEL", \
     BT_OPT_AT(config, serve.model), \
     .type = BT_OPT_STRING, \
     .example = "smollm2", \
     .help = "GGUF file, or 'smollm2' for the default model (also the first argument)"}, \
        BT_ENGINE_OPT(config, serve.engine), \
        {.group = "Model", \
         .name = "decode-engine", \
         .value = "NAME", \
         BT_OPT_AT(config, serve.decode), \
         .type = BT_OPT_CHOICE, \
         .def = "auto", \
         .choices = bt_engine_decode_auto_names, \
         .help = \
             "what generates tokens; auto: host, for --engine reference that; npu needs a package with rows of one " \
             "token (see --shape-policy)"}, \
        BT_ENGINE_SCHEDULE_OPT("Model", config, serve.schedule), BT_KV_DTYPE_OPT(config, serve.kv_dtype), \
        {.group = "Model", \
         .name = "weights", \
         .value = "FORM", \
         BT_OPT_AT(config, serve.weights), \
         .type = BT_OPT_CHOICE, \
         .def = "f16", \
         .choices = bt_weights_forms, \
         .help = "weights of decode nodes with host, converted once and kept; fewer bytes are read faster"}, \
        {.group = "Model", \
         .letter = 'c', \
         .name = "ctx-size", \
         .value = "N", \
         BT_OPT_AT(config, serve.ctx_size), \
         .type = BT_OPT_INT, \
         .def = "0", \
         .lo = 0, \
         .hi = 1 << 20, \
         .help = "longest sequence in tokens; 0: the model's context, or what --kv-memory holds if that is less"}, \
        BT_OBTAIN_OPTS(config, serve.want), BT_OBTAIN_FILE_OPT(config, serve.want), TOOL_DEVICES_OPTS(config, serve), \
        {.group = "Machine", \
         .letter = 't', \
         .name = "threads", \
         .value = "N", \
         BT_OPT_AT(config, serve.threads), \
         .type = BT_OPT_INT, \
         .def = "0", \
         .lo = 0, \
         .hi = 256, \
         .help = "compute threads of each node; 0: all cores"}, \
        {.group = "Machine", \
         .name = "kv-memory", \
         .value = "SIZE", \
         BT_OPT_AT(config, serve.kv_memory_bytes), \
         .type = BT_OPT_SIZE, \
         .def = "1G", \
         .lo = 1 << 20, \
         .hi = INT64_MAX, \
         .help = "KV memory of each node; it must hold one sequence of --ctx-size"}, \
        {.group = "Machine", \
         .name = "swap-memory", \
         .value = "SIZE", \
         BT_OPT_AT(config, serve.swap_memory_bytes), \
         .type = BT_OPT_SIZE, \
         .def = "1G", \
         .lo = 0, \
         .hi = INT64_MAX, \
         .help = "where a decode node keeps the KV of sequences that it preempts"}, \
        BT_MEMORY_OPT("Machine", config, serve.memory_bytes), \
        BT_CACHE_LIMIT_OPT("Machine", config, serve.cache_limit_bytes), \
        {.group = "Machine", \
         .name = "slots", \
         .value = "N", \
         BT_OPT_AT(config, serve.slots), \
         .type = BT_OPT_INT, \
         .def = "32", \
         .lo = 1, \
         .hi = 1024, \
         .help = "sequences that a decode node takes at once"}, \
        {.group = "Machine", \
         .name = "prefill-slots", \
         .value = "N", \
         BT_OPT_AT(config, serve.prefill_slots), \
         .type = BT_OPT_INT, \
         .def = "4", \
         .lo = 1, \
         .hi = 1024, \
         .help = "prompts that a prefill node takes at once; one computes, the others wait or are sent"}, \
        {.group = "Machine", \
         .name = "share-tokens", \
         .value = "N", \
         BT_OPT_AT(config, serve.share_tokens), \
         .type = BT_OPT_INT, \
         .def = "256", \
         .lo = 0, \
         .hi = 8192, \
         .help = "waiting prompts with so many tokens left run as one, at most a chunk; 0, or --pace: each alone"}, \
        {.group = "Machine", \
         .name = "speculate", \
         .value = "N", \
         BT_OPT_AT(config, serve.speculate), \
         .type = BT_OPT_INT, \
         .def = "0", \
         .lo = 0, \
         .hi = 64, \
         .help = "tokens guessed from the text so far and checked in one step, at most; the output is the same"}, \
    { \
        .group = "Machine", .name = "isa", .value = "NAME", BT_OPT_AT(config, serve.isa), .type = BT_OPT_STRING, \
        .def = "auto", .help = "kernels: auto, " BT_ENGINE_ISA_NAMES "; the results are the same" \
    }

/* The engines that *s asks for: of prompts, and of decoding. */
const bt_engine_facts *tool_serve_prefill(const tool_serve *s);
const bt_engine_facts *tool_serve_decode(const tool_serve *s);
/* Prepares all that nodes would otherwise do at their start, so that they start at once: opens the model, so that its
 * faults are printed once and not by each program; searches for the recipe where --quant asks for it; compiles the
 * package and converts the weights where that has not been done. Progress goes to stderr unless quiet. A signal
 * meanwhile ends the process with the exit code `interrupted`; afterwards signals set tool_stop. */
bt_err tool_serve_prepare(tool_serve *s, bool quiet, int interrupted, bt_fault *fault);
/* The same, then a private `baton up` of it; as tool_background_start with tool_stop. */
bt_err tool_serve_start(tool_background *ret, const tool_serve *s, bool quiet, bt_fault *fault);

/* The same with more options of `baton up` than a tool_serve has; more->program is not looked at. */
bt_err tool_serve_start_with(tool_background *ret, const tool_serve *s, const tool_command *more, bool quiet,
                             bt_fault *fault);

/* The options that a node of this role ("prefill", "decode") gets from *s: engine, machine, memory, package. */
void tool_serve_node_args(tool_command *ret, const tool_serve *s, const char *role);
#endif
