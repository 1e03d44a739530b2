#ifndef BT_DEVICE_FORECAST_H
#define BT_DEVICE_FORECAST_H
#include "device/dims.h"
#include "device/profile.h"

/* How far a modelled figure may be from the real one: its error bar, and draws of what a device may really take. Pure.
 */

/* Where a figure lies: rows of its passes, sequences, positions of a sequence. The devices are the profile's. 0: not
 * known, and within every region. model: of which fields a price may leave out (bt_dims_ignored_of): where these make
 * it a bound, the figure has a bound's error, and where they make it too long or too short the error is not known. It
 * is not known either where the context is longer than a window of the model: no such row calibrates. NULL: what makes
 * the figure leaves nothing out. */
typedef struct bt_forecast_at {
    uint64_t rows, batch, context;
    const bt_dims *model;
} bt_forecast_at;
typedef struct bt_forecast_error {
    bt_standing standing; /* of this kind of figure: CALIBRATED only where rows of the kind were held out */
    uint32_t median_permille, worst_permille; /* a bound has none; worst 0: not known */
    int32_t bias_permille;
    uint32_t rows;    /* that were held out */
    uint32_t outside; /* bits 1 << bt_axis: where the figure lies beyond what was calibrated */
} bt_forecast_error;
bt_forecast_error bt_forecast_error_of(const bt_profile *p, bt_figure kind, const bt_forecast_at *at);
/* The context is known, and longer than a window of the model. Such an error is outside of the context too. */
bool bt_forecast_is_beyond_window(const bt_forecast_at *at);
/* The bits of `outside`, by the region's least and most of each axis, most 0: not known; where[k] 0: within. */
uint32_t bt_forecast_outside(const uint32_t region[BT_AXES][2], const uint64_t where[BT_AXES]);
/* The error of a figure that has to do with both: that of less standing, then the greater one; outside of either. */
bt_forecast_error bt_forecast_error_worse(const bt_forecast_error *a, const bt_forecast_error *b);
/* "+- 9 %", "+- 9 % (outside: context)", "+- 35 % (assumed)", "bound". Returns ret. */
enum { BT_FORECAST_TEXT_BYTES = 80 };
char *bt_forecast_error_text(char ret[BT_FORECAST_TEXT_BYTES], const bt_forecast_error *e);
/* One line on what a device's figures stand on: "h100 (vllm) is a bound: ...". Returns ret. */
enum { BT_FORECAST_LINE_BYTES = 352 };
char *bt_forecast_standing_text(char ret[BT_FORECAST_LINE_BYTES], const bt_profile *p);
/* A json_t {text, median_permille, worst_permille, bias_permille, rows, is_calibrated, outside[]}; null for what is not
 * known. NULL: memory is out. */
void *bt_forecast_error_json(const bt_forecast_error *e);
/* A json_t {ttft, tpot, joules} of a profile's errors. NULL: memory is out. */
void *bt_forecast_errors_json(const bt_profile *p);

/* A draw is what a device may really take, by what is modelled: one factor for each term, in thousandths. They are
 * drawn from a calibrated device's residuals, on a straight line between two of them; where it has none of a term, they
 * are uniform within twice its median error. A bound's are log-uniform from 1 to 1 / 0.35, and those of a fitted device
 * log-uniform within a median of 35 %: a fit meets its own few rows, so their residuals say nothing of others.
 *
 * A draw is a function of (seed, number), and of the device and its stack: all choices on one device, in a group or
 * alone, have the same draw, so that its common error cancels. most: the greatest standing that the draw may have; of
 * one figure its error's, of many BT_STANDING_CALIBRATED. */
enum { BT_FORECAST_MAX_DRAWS = 10000 }; /* that a command makes */
typedef struct bt_forecast_draw {
    uint32_t permille[BT_TERMS];
} bt_forecast_draw;
bt_forecast_draw bt_forecast_draw_of(const bt_profile *p, bt_standing most, uint64_t seed, uint64_t number);
/* The time of so much of each term, at most INT64_MAX. */
uint64_t bt_forecast_ns(const bt_forecast_draw *d, const uint64_t term_ns[BT_TERMS]);
/* A verdict is certain that so large a share of all draws tells. */
#define BT_FORECAST_CERTAIN 0.9
/* Nine in ten of n draws, ascending, lie from this one to the one as far from the end. n >= 1. */
static inline size_t bt_forecast_low(size_t n) { return (n - 1) / 20; }
/* BT_EARG, naming both: one is calibrated and the other is a bound, and a bound is no match for what is measured.
 * option: what allows it. */
bt_err bt_forecast_check_pair(const bt_profile *a, const bt_profile *b, const char *option, bt_fault *fault);
#endif
