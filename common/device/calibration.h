#ifndef BT_DEVICE_CALIBRATION_H
#define BT_DEVICE_CALIBRATION_H
#include <stdint.h>
#include "base/err.h"

/* The object `calibration` says what the constants of a device under one stack stand on. `make validate` computes it
 * from measured rows, and no row that judges has fitted. docs/profiles.md explains every member. Errors and residuals
 * are in thousandths of the modelled time (of the modelled energy). */
enum { BT_CALIBRATION_MAX_ON = 127, BT_CALIBRATION_MAX_RESIDUALS = 15 };

/* The terms of a time that are wrong apart from each other. */
typedef enum bt_term { BT_TERM_PRODUCTS, BT_TERM_ATTENTION, BT_TERM_ALL_REDUCE, BT_TERM_FIXED, BT_TERMS } bt_term;
#define BT_TERM_NAMES "products", "attention", "all_reduce", "fixed" /* by bt_term */
typedef enum bt_figure { BT_FIGURE_TTFT, BT_FIGURE_TPOT, BT_FIGURE_JOULES, BT_FIGURES } bt_figure;
#define BT_FIGURE_NAMES "ttft", "tpot", "joules" /* by bt_figure */
/* The axes that bound a region: rows of a pass, sequences, positions of a sequence, devices of a group. */
typedef enum bt_axis { BT_AXIS_ROWS, BT_AXIS_BATCH, BT_AXIS_CONTEXT, BT_AXIS_DEVICES, BT_AXES } bt_axis;
#define BT_AXIS_NAMES "rows", "batch", "context", "devices" /* by bt_axis */

typedef enum bt_standing {
    BT_STANDING_BOUND,      /* by a data sheet alone: no time is shorter */
    BT_STANDING_FITTED,     /* on too few rows to be judged: the error is unknown */
    BT_STANDING_CALIBRATED, /* judged by rows that were held out */
} bt_standing;
#define BT_STANDING_NAMES "bound", "fitted", "calibrated" /* by bt_standing */
enum { BT_CALIBRATION_UNKNOWN_PERMILLE = 350 };           /* what an unknown error counts as */

typedef struct bt_calibration {
    char on[BT_CALIBRATION_MAX_ON + 1]; /* the rows' origin, in words; "": there is no calibration */
    uint32_t rows, constants;           /* rows that fitted; constants that they fitted */
    uint32_t borrowed;                  /* constants that rows of another device or stack fitted */
    uint32_t shapes; /* models of known sizes with whole prompts or steps, held-out ones too; two rows or more */
    uint32_t has_prefill, has_decode; /* whole prompts, whole steps are among all rows */
    struct {
        uint32_t lo, hi;
    } region[BT_AXES]; /* that the rows span; hi 0: not known */
    struct {
        uint32_t median_permille, worst_permille; /* of the errors without their signs */
        int32_t bias_permille;                    /* median of them with their signs; above 0: real ones are longer */
        uint32_t rows;                            /* that were held out; 0: none were */
    } error[BT_FIGURES];
    uint32_t residuals[BT_TERMS];                             /* number of them */
    int32_t residual[BT_TERMS][BT_CALIBRATION_MAX_RESIDUALS]; /* measured by modelled - 1, ascending */
} bt_calibration;

/* json: a json_t of the object. BT_EFORMAT names the member, its value and what would do. */
bt_err bt_calibration_read(bt_calibration *ret, const void *json, bt_fault *fault);
/* CALIBRATED: at least 12 rows of two shapes or more, of prompts and of decode, five for each constant, and an error of
 * TTFT or TPOT. */
bt_standing bt_calibration_standing(const bt_calibration *c);
#endif
