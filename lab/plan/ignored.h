#ifndef BT_LAB_PLAN_IGNORED_H
#define BT_LAB_PLAN_IGNORED_H
#include <jansson.h>
#include <stdio.h>
#include "device/dims.h"

/* The fields of a model that a forecast ignores (device/dims.h), for every command that makes one. */

/* Appends {model, field, bound, effect} for each; rows NULL is fine, and returns rows. */
json_t *tool_plan_ignored(json_t *rows, const bt_dims *s);
/* A line each, behind `head`: "gemma-3-27b, sliding_window: ... (an upper bound)". */
void tool_plan_ignored_print(FILE *f, const char *head, const bt_dims *s);
/* The text of one, without the model. Returns ret. */
enum { TOOL_PLAN_IGNORED_BYTES = 240 };
char *tool_plan_ignored_text(char ret[TOOL_PLAN_IGNORED_BYTES], const bt_dims_ignored *i);
#endif
