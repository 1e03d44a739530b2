#ifndef BT_LAB_SIMULATE_DRAWS_H
#define BT_LAB_SIMULATE_DRAWS_H
#include <jansson.h>
#include <stdio.h>
#include "lab/simulate/play.h"

/* How far a simulated run's figures may be from real ones. */

/* The worst error of a side's devices of this kind, or of both sides' for energy and on a colocated cluster. plan and
 * r: of the run, to say what lies outside of what was calibrated; NULL: not asked. */
bt_forecast_error tool_simulate_error(const tool_simulate_setup *s, bt_figure kind, const tool_replay_plan *plan,
                                      const tool_replay_result *r);
/* {ttft, tpot, joules}; NULL: memory is out. */
json_t *tool_simulate_errors(const tool_simulate_setup *s, const tool_replay_plan *plan, const tool_replay_result *r);
/* The words on what stands behind the i-th device's figures, each device once. False: there are no more. */
bool tool_simulate_standing(char ret[BT_FORECAST_LINE_BYTES], const tool_simulate_setup *s, size_t i);
/* "TTFT +- 9 %, TPOT bound, energy bound", without energy where it is not known. Returns ret. */
enum { TOOL_SIMULATE_ERRORS_BYTES = 3 * (BT_FORECAST_TEXT_BYTES + 16) };
char *tool_simulate_errors_text(char ret[TOOL_SIMULATE_ERRORS_BYTES], const tool_simulate_setup *s,
                                const tool_replay_plan *plan, const tool_replay_result *r, bool has_joules);
/* A line "errors" of that text, and a line for each device. */
void tool_simulate_errors_print(FILE *f, const tool_simulate_setup *s, const tool_replay_plan *plan,
                                const tool_replay_result *r, bool has_joules);

/* The same run again and again, each time on devices that take what a draw says (device/forecast.h). Runs with the same
 * number and seed have the same draws of a device, whatever else differs, so `baton compare` compares them pair by
 * pair. */
typedef enum tool_simulate_drawn {
    TOOL_SIMULATE_DRAWN_TTFT, /* means of the run, ms */
    TOOL_SIMULATE_DRAWN_TPOT,
    TOOL_SIMULATE_DRAWN_E2E,
    TOOL_SIMULATE_DRAWN_GOODPUT, /* a second */
    TOOL_SIMULATE_DRAWN_KEPT,    /* share of the requests that keep the limits */
    TOOL_SIMULATE_DRAWN_JOULES,  /* of the cluster */
    TOOL_SIMULATE_DRAWN
} tool_simulate_drawn;
typedef struct tool_simulate_draws {
    uint32_t draws; /* 0: none */
    bool has_limits;
    uint64_t seed;
    double *value[TOOL_SIMULATE_DRAWN];                         /* [draws], owned */
    double low[TOOL_SIMULATE_DRAWN], high[TOOL_SIMULATE_DRAWN]; /* nine in ten lie between */
} tool_simulate_draws;
/* BT_ENOMEM, and what a run fails with. slo NULL: all requests are good. */
bt_err tool_simulate_draws_play(tool_simulate_draws *ret, tool_simulate_bench *b, const tool_replay_plan *plan,
                                const tool_replay_slo *slo, uint32_t draws, uint64_t seed, bt_fault *fault);
void tool_simulate_draws_done(tool_simulate_draws *d);
/* {count, seed, values: {ttft_ms[], ...}, band: {ttft_ms: [low, high], ...}}; null without draws. kept_ratio is there
 * with limits alone. */
json_t *tool_simulate_draws_json(const tool_simulate_draws *d, bool has_joules);
/* "TTFT 12.1 to 15.0 ms, ...: nine of ten of 100 draws". Returns ret; "" without draws. */
enum { TOOL_SIMULATE_BAND_BYTES = 200 };
char *tool_simulate_draws_text(char ret[TOOL_SIMULATE_BAND_BYTES], const tool_simulate_draws *d);
#endif
