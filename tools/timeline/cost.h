#ifndef BT_TOOLS_TIMELINE_COST_H
#define BT_TOOLS_TIMELINE_COST_H
#include "device/time.h"
#include "npu/compile/stages.h"

/* What the stages of a chunk take on an NPU and its companion: the operators of device/time.h, with the sizes and the
 * places that the package says. Modelled, in nanoseconds, ending at INT64_MAX.
 *
 *   a stage of the NPU        dispatch + its instructions, each on the NPU; what spills as device/on_chip.h counts it
 *   a stage of the companion  its instructions, each on the companion
 *   a stage that follows one of the other engine: sync, of the engine that begins, more
 *
 * A matrix is a product at the engine's rates, with weights that stay, as the profiles' constants were calibrated;
 * attention is bt_time_of_attention over the pairs that the chunk's rows
 * see (of a program that is static in its context: all its columns), a switch of sessions what the instruction says,
 * and anything else moves what it reads and writes, in the launch of the matrices around it. A linear's first use in a
 * prompt costs first_launch_ns and first_weight_bytes_per_us more. */
typedef struct tool_cost_engines {
    const bt_profile *npu, *companion; /* both with times */
} tool_cost_engines;
typedef struct tool_cost_chunk {
    uint64_t pos, rows, ctx; /* ctx: of the program's row */
    bool is_first;           /* of the prompt */
} tool_cost_chunk;

uint64_t tool_cost_of_stage(const tool_cost_engines *e, const bt_pkg *p, uint32_t program, const bt_stage *stage,
                            const tool_cost_chunk *c);
/* The sync of a stage that begins on this engine behind one of the other. */
uint64_t tool_cost_of_sync(const tool_cost_engines *e, bool is_npu);
#endif
