#ifndef BT_LAB_CALIBRATE_REPORT_H
#define BT_LAB_CALIBRATE_REPORT_H
#include <jansson.h>
#include "lab/calibrate/measure.h"

/* A calibration's report, and its profile. */
typedef struct tool_calibrate_report {
    const char *url, *model, *path, *name; /* the server's; -m; the profile's file and name */
    const tool_calibrate_measured *measured;
    const bt_profile_time *time;
    const bt_price_model *price;
} tool_calibrate_report;

/* Absolute relative errors of all points that were held out. n 0: there are none. */
typedef struct tool_calibrate_errors {
    size_t n;
    double median, worst;
} tool_calibrate_errors;
tool_calibrate_errors tool_calibrate_errors_of(const tool_calibrate_report *r, const tool_calibrate_points *p);

/* The file's text: a profile of a companion, each value with its source. NULL: no memory. */
json_t *tool_calibrate_profile(const tool_calibrate_report *r);
json_t *tool_calibrate_json(const tool_calibrate_report *r);
void tool_calibrate_print(const tool_calibrate_report *r);
#endif
