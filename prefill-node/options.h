#ifndef PF_OPTIONS_H
#define PF_OPTIONS_H
#include "engine/names.h"
#include "node/node_options.h"
#include "npu/compile/obtain.h"
#include "prefill-node/brain/brain.h"

/* The settings of a prefill node, those of every node and its own, with defaults and limits in one table. */
typedef struct pf_options {
    const bt_node_options *node;
    const bt_obtain_want *want; /* the package, where the engine runs one */
    int engine;                 /* index in bt_engine_prefill_names */
    int schedule;               /* index in bt_engine_schedules */
    int64_t slots, min_overlap_tokens, share_tokens;
} pf_options;

/* Rows of an option table, under the heading `in`, whose config has a pf_options at `field`. A program that is a decode
 * node too gives the slots another name. Engine and package are rows of their own (engine/names.h,
 * npu/compile/obtain.h). */
// clang-format off
#define PF_OPTS(config, field, in, slots_name) \
    {.group = (in), .name = (slots_name), .value = "N", BT_OPT_AT(config, field.slots), .type = BT_OPT_INT, \
     .def = "4", .lo = 1, .hi = 1024, .help = "prompts taken at once; one computes, the others wait or are sent"}, \
    {.group = (in), .name = "min-overlap", .value = "N", BT_OPT_AT(config, field.min_overlap_tokens), \
     .type = BT_OPT_INT, .def = "64", .lo = 0, .hi = PF_BLOCK_TOKENS, \
     .help = "prompts shorter than this many tokens are sent in one piece"}, \
    {.group = (in), .name = "share-tokens", .value = "N", BT_OPT_AT(config, field.share_tokens), .type = BT_OPT_INT, \
     .def = "256", .lo = 0, .hi = 8192, \
     .help = "waiting prompts with so many tokens left run as one, at most a chunk; 0, or --pace: each alone"}, \
    BT_ENGINE_SCHEDULE_OPT((in), config, field.schedule)
// clang-format on
#endif
