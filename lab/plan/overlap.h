#ifndef BT_LAB_PLAN_OVERLAP_H
#define BT_LAB_PLAN_OVERLAP_H
#include "lab/plan/prompts.h"

/* Prompts whose NPU and companion work on different chunks at a time. A schedule of a long prompt is thousands of
 * tasks, so it is played (device/schedule.h) for some numbers of chunks and each last program, and what it takes of
 * program order's time is a straight line between them: within 1 % of playing all of it
 * (tests/unit/lab/plan/test_overlap.c). What a schedule exposes of the KV is that of chunks which are shorter by the
 * same share. */
typedef struct tool_plan_overlap tool_plan_overlap;
/* how: with programs and a schedule other than serial; it outlives *ret. BT_ENOMEM. */
bt_err tool_plan_overlap_new(tool_plan_overlap **ret, const tool_plan_how *how, uint64_t longest, bt_fault *fault);
void tool_plan_overlap_free(tool_plan_overlap *o); /* NULL is fine */
/* p: priced in program order, chunks_ns of it its chunks, the last of them by program `last`. Sets ns and exposed_ns.
 * BT_EARG as bt_schedule_model. */
bt_err tool_plan_overlap_apply(tool_plan_prompt *p, tool_plan_overlap *o, uint64_t chunks_ns, uint32_t last,
                               bt_fault *fault);
/* Plays all of a prompt of so many chunks, the last by program `last`: by how's schedule, and one task after the other.
 */
typedef struct tool_plan_played {
    uint64_t ns, serial_ns;
} tool_plan_played;
bt_err tool_plan_overlap_play(tool_plan_played *ret, const tool_plan_how *how, size_t chunks, uint32_t last,
                              bt_fault *fault);
#endif
