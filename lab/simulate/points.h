#ifndef BT_LAB_SIMULATE_POINTS_H
#define BT_LAB_SIMULATE_POINTS_H
#include <jansson.h>
#include "lab/simulate/sweep.h"

/* Clusters that were tried, as lines of a file: a sweep does not repeat what an earlier run, or its other parts, tried.
 * A line is a JSON object; `key` is a hash of everything else that decides its figures, so that points of another load
 * or device are skipped. */
typedef struct tool_simulate_points {
    tool_simulate_point *point;
    size_t len, cap;
} tool_simulate_points;

enum { TOOL_SIMULATE_LINE_BYTES = 512 };
void tool_simulate_points_done(tool_simulate_points *p);
bt_err tool_simulate_points_add(tool_simulate_points *p, const tool_simulate_point *one, bt_fault *fault);
/* NULL: not tried. */
const tool_simulate_point *tool_simulate_points_find(const tool_simulate_points *p, uint32_t prefill, uint32_t decode);

/* A point as a line with its newline. */
void tool_simulate_points_line(char ret[TOOL_SIMULATE_LINE_BYTES], const tool_simulate_point *one, uint64_t key);
/* False: no such line, or of another key. Numbers come back as they were. */
bool tool_simulate_points_parse(tool_simulate_point *ret, const char *line, uint64_t key);
/* All of a file with this key; no file is no points. Other lines are skipped: the last may be torn. BT_EIO, BT_ENOMEM.
 */
bt_err tool_simulate_points_read(tool_simulate_points *p, const char *path, uint64_t key, bt_fault *fault);
#endif
