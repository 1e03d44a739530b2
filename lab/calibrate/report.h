#ifndef BT_LAB_CALIBRATE_REPORT_H
#define BT_LAB_CALIBRATE_REPORT_H
#include <jansson.h>
#include "lab/calibrate/measure.h"
#include "lab/calibrate/table.h"

/* A calibration's report, and its profile. */
typedef struct tool_calibrate_report {
    const char *model, *path, *name;         /* -m; the profile's file and name */
    const char *weights, *kv;                /* forms that the rows ran; NULL: f16 */
    const char *url;                         /* the server's; NULL: a table */
    const tool_calibrate_measured *measured; /* of a server; NULL: a table */
    const tool_calibrate_table *table;       /* NULL: a server */
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
