#ifndef BT_LAB_CALIBRATE_FIT_H
#define BT_LAB_CALIBRATE_FIT_H
#include "device/price.h"

/* From measured times of prompts and steps to the `time` of a profile whose prices (device/price.h) are those times.
 * Pure. Alone, the fields and their meaning:
 *
 *   first_launch_ns       the fixed time of a request: the line of prompts by length does not begin at 0
 *   program_rows          lengths to which prompts are padded, where their times stay flat and jump
 *   efficiency            operations a microsecond at so many rows: at each batch that was measured, and along
 *                         T(n) = fixed + a rows(n) + b n^2, the least squares of relative errors over the prompts
 *   dispatch_ns           the part of a step that does not shrink with its rows
 *   decode_bytes_per_us   the rate of weights and KV, where steps grow with the context as if that were the limit
 *
 * A search finds the last two and the batches' rates: the pair whose steps are nearest to all measured steps. */
enum { TOOL_CALIBRATE_PROMPTS = 64, TOOL_CALIBRATE_STEPS = 64, TOOL_CALIBRATE_BATCHES = 8 };

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

/* The model that was measured. */
typedef struct tool_calibrate_model {
    bt_dims dims;
    bt_price_recipe recipe;
    bt_price_model price;
} tool_calibrate_model;

/* *ret is a companion with that time; its name and title are left empty. ret_constants: how many were fitted.
 * BT_EARG: fewer than two lengths of prompts or two contexts of steps of one sequence, or more than
 * TOOL_CALIBRATE_BATCHES batches; a time that is not above 0. BT_ELIMIT: one so short that no profile has the rate. */
bt_err tool_calibrate_fit(bt_profile *ret, uint32_t *ret_constants, const tool_calibrate_model *m,
                          const tool_calibrate_points *p, bt_fault *fault);
/* Whether lengths of prompts lie so far beside the smooth line that others between them would show programs. */
bool tool_calibrate_is_uneven(const tool_calibrate_points *p);

/* Constants of a known device that points can be fitted to: a set of these bits. Each is one number; `efficiency` is a
 * factor of all its pairs. */
enum {
    TOOL_CALIBRATE_EFFICIENCY = 1, /* of prompts, as the next two */
    TOOL_CALIBRATE_WEIGHT_RATE = 2,
    TOOL_CALIBRATE_FIRST_LAUNCH = 4,
    TOOL_CALIBRATE_DECODE_RATE = 8, /* of steps, as the last */
    TOOL_CALIBRATE_DISPATCH = 16,
    TOOL_CALIBRATE_CONSTANTS = 5,
    TOOL_CALIBRATE_PROGRAMS = 32 /* program_rows, which are never asked for: prompts show them */
};
/* By bit of those that can be asked for; names of fields of `time`. */
extern const char *const tool_calibrate_constants[TOOL_CALIBRATE_CONSTANTS];

/* `like` with constants that bring its prices as near to the points as they can; the others are kept. asked: a set; 0:
 * one where there is a length of prompts (an efficiency or, where that counts for more, a weight rate), a first launch
 * with a second length, and of steps a decode rate, and with a second step a dispatch. ret_asked: those that were
 * fitted, program_rows too. BT_EARG: fewer lengths or steps than constants of them, with what is needed; a point that
 * is faster than the peaks of `like` allow; a profile without time. BT_ELIMIT: the weights exceed its memory. */
bt_err tool_calibrate_fit_like(bt_profile *ret, uint32_t *ret_asked, const bt_profile *like,
                               const tool_calibrate_model *m, const tool_calibrate_points *p, uint32_t asked,
                               bt_fault *fault);

/* Prices by that profile: a prompt with its first use, as one step or on an NPU by programs of 16 to 256 rows; a step.
 */
double tool_calibrate_prompt_ns(const bt_profile *p, const tool_calibrate_model *m, uint32_t tokens);
double tool_calibrate_step_ns(const bt_profile *p, const tool_calibrate_model *m, uint32_t batch, uint32_t ctx);
#endif
