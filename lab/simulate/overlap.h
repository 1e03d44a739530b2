#ifndef BT_LAB_SIMULATE_OVERLAP_H
#define BT_LAB_SIMULATE_OVERLAP_H
#include "device/work.h"
#include "lab/simulate/play.h"

/* Prompts of a group under setup.schedule, with setup.window chunks under way: those of a package as its node plays
 * them (npu/price/schedule_play.h), to the nanosecond; else the stages that the compiler would make of the model's
 * sizes (lab/plan/programs.h), played in full, where `baton plan` looks most of them up. */
typedef struct tool_simulate_overlap tool_simulate_overlap;
/* *ret NULL: program order, or a device that has no companion to share a prompt with. Errors of
 * tool_simulate_price_node, bt_schedule_play_new and bt_schedule_init. */
bt_err tool_simulate_overlap_new(tool_simulate_overlap **ret, const tool_simulate_setup *s,
                                 const tool_simulate_group *g, bt_fault *fault);
void tool_simulate_overlap_free(tool_simulate_overlap *o); /* NULL is fine */
/* bt_work_play; overlap is a tool_simulate_overlap. */
bool tool_simulate_overlap_play(void *overlap, bt_work_played *ret, uint64_t first, uint64_t end);
#endif
