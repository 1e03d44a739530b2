#ifndef BT_LAB_PLAN_DRAWN_H
#define BT_LAB_PLAN_DRAWN_H
#include "lab/plan/space.h"

/* How certain a plan is: each draw (device/forecast.h) says what both devices may really take, and all choices are
 * compared in it. A draw scales what was priced and prices nothing anew:
 *
 *   prompts and steps   their terms, each by its factor
 *   the queue           a straight line between two of tool_plan_factors
 *   energy              the powers for the new time; operations and bytes as they were
 *   the link, batches   as they were
 *
 * Pure. */
tool_plan_figures tool_plan_drawn(const tool_plan_figures *f, const tool_plan_want *want, uint64_t number,
                                  bool is_alone);

/* Compares all choices in want->draws draws, and sets their wins and bands, those of the decode device alone too. With
 * the best, those that tie are the least number of choices that have nine tenths of all wins; a best that has them
 * itself has no tie. BT_ENOMEM. */
bt_err tool_plan_draw(tool_plan_result *r, const tool_plan_want *want, bt_fault *fault);
/* The share of draws in which a is better than b. is_alone: b is of the decode device alone. -1: there are no
 * draws, or both are alike. */
double tool_plan_beats(const tool_plan_choice *a, const tool_plan_choice *b, bool is_alone, const tool_plan_want *want);
#endif
