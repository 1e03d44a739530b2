#ifndef BT_LAB_CALIBRATE_FIT_H
#define BT_LAB_CALIBRATE_FIT_H
#include "device/price.h"

/* From measured times of prompts and steps to the `time` of a profile whose prices (device/price.h) are those times.
 * Pure. The fields and their meaning:
 *
 *   first_launch_ns       the fixed time of a request: the line of prompts by length does not begin at 0
 *   efficiency            operations a microsecond at so many rows: at each batch that was measured, and along
 *                         T(n) = fixed + a n + b n^2, the least squares of relative errors over the prompts
 *   dispatch_ns           the part of a step that does not shrink with its rows
 *   decode_bytes_per_us   the rate of weights and KV, where steps grow with the context as if that were the limit
 *
 * A search finds the last two and the batches' rates: the pair whose steps are nearest to all measured steps. */
enum { TOOL_CALIBRATE_PROMPTS = 32, TOOL_CALIBRATE_STEPS = 64, TOOL_CALIBRATE_BATCHES = 6 };

typedef struct tool_calibrate_prompt {
    uint32_t tokens;
    double ns; /* from the request to token 0 */
} tool_calibrate_prompt;
typedef struct tool_calibrate_step {
    uint32_t batch, ctx; /* sequences at a time; positions of each */
    double ns;
} tool_calibrate_step;
typedef struct tool_calibrate_points {
    tool_calibrate_prompt prompt[TOOL_CALIBRATE_PROMPTS];
    tool_calibrate_step step[TOOL_CALIBRATE_STEPS];
    size_t prompts, steps;
} tool_calibrate_points;

/* BT_EARG: fewer than three lengths of prompts, no step of one sequence, or more than TOOL_CALIBRATE_BATCHES batches;
 * a time that is not above 0. */
bt_err tool_calibrate_fit(bt_profile_time *ret, const bt_price_model *m, const tool_calibrate_points *p,
                          bt_fault *fault);

/* Prices by a profile with that time: a prompt computed as one step, with its first use; a step. */
double tool_calibrate_prompt_ns(const bt_profile_time *t, const bt_price_model *m, uint32_t tokens);
double tool_calibrate_step_ns(const bt_profile_time *t, const bt_price_model *m, uint32_t batch, uint32_t ctx);
#endif
