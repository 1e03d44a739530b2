#ifndef BT_LAB_CALIBRATE_REPORT_H
#define BT_LAB_CALIBRATE_REPORT_H
#include <jansson.h>
#include "lab/calibrate/fit.h"
#include "lab/calibrate/table.h"
#include "lab/replay/load.h"

/* Measuring a server (measure.c), and a calibration's report and profile. */

/* A few requests to a server: prompts of several lengths one after the other, then short prompts at a time. Half of
 * the lengths and batches are for the fit, those between them are held out. One length more lies behind a power of
 * two, so that padding to powers of two is seen. Where lengths are uneven, more are asked for: at powers of two and
 * one behind, where the programs of a server that pads prompts begin; all of them are for the fit. Every request has
 * words of its own, so that no prefix is kept. Left out are requests with a kept prefix all the same, requests whose
 * tokens were counted wrong, and batches that the server did not run at the same time. A step of a batch counts only
 * while all its sequences run. */
typedef struct tool_calibrate_server {
    const char *url, *api_key;
    const tool_replay_words *words;
    const tool_replay_dialect *dialect;
    uint64_t seed;
    uint32_t longest;                /* tokens of the longest prompt, at least 32 */
    uint32_t answer;                 /* tokens of each answer, at least 2 */
    uint32_t batch;                  /* sequences at a time, at most; up to 32 */
    int64_t timeout_ms, deadline_us; /* of a request; of all, on bt_clock_us */
    const volatile sig_atomic_t *stop;
} tool_calibrate_server;

typedef struct tool_calibrate_measured {
    tool_calibrate_points fit, held;
    uint32_t requests, failed, left_out;
    char failure[TOOL_REPLAY_KIND_BYTES]; /* the first one, by baton replay's name; "": none */
    const char *why_left_out;             /* the first; NULL: none */
    double spread;                        /* how far a length's least time is below its median, by it; the median */
    bool is_late;                         /* the deadline came before all had been asked */
} tool_calibrate_measured;

/* BT_ECANCEL: stopped. BT_ENOMEM, BT_EIO. Failed requests are counted; the fit says if too few are left. */
bt_err tool_calibrate_measure(tool_calibrate_measured *ret, const tool_calibrate_server *s, bt_fault *fault);
/* The median of n values, at least 1, which are then in ascending order. */
double tool_calibrate_median(double *v, size_t n);

typedef struct tool_calibrate_report {
    const char *model, *path, *name;         /* -m; the profile's file and name */
    const char *weights, *kv;                /* forms that the rows ran; NULL: f16 */
    const char *url;                         /* the server's; NULL: a table */
    const tool_calibrate_measured *measured; /* of a server; NULL: a table */
    const tool_calibrate_table *table;       /* NULL: a server */
    const tool_calibrate_points *held;       /* points that judge; without any the error is unknown */
    const bt_profile *judged;                /* fitted without them: of a server the profile itself */
    const json_t *like;                      /* the profile that the constants were fitted over; NULL: none */
    uint32_t fitted, constants;              /* over `like`: the set of constants; how many were fitted */
    const bt_profile *profile;
    const tool_calibrate_model *priced;
} tool_calibrate_report;

/* The file's text: a profile, each fitted value with its source, that says how many rows it stands on. NULL: no memory.
 */
json_t *tool_calibrate_profile(const tool_calibrate_report *r);
json_t *tool_calibrate_json(const tool_calibrate_report *r);
void tool_calibrate_print(const tool_calibrate_report *r);
#endif
