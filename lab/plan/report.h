#ifndef BT_LAB_PLAN_REPORT_H
#define BT_LAB_PLAN_REPORT_H
#include <jansson.h>
#include <stdio.h>
#include "device/dims.h"
#include "lab/plan/space.h"

/* A plan as one JSON object, as a table, and as a page with plots that needs nothing else. */
typedef struct tool_plan_report {
    const tool_plan_want *want;
    const tool_plan_load *load;
    const tool_plan_result *result;
    const char *trace, *link, *decode_form;
    const char *instead[2]; /* why another group than the one asked for prefills, and decodes; "": none does */
    json_t *made_by;
} tool_plan_report;

/* choices[] best first, each with `error` and `band`, best, certain, ties[], margins, refused[], instead[], ignored[],
 * colocated[], made_by; NULL: no memory. */
json_t *tool_plan_json(const tool_plan_report *r);
/* At most `rows` choices. */
void tool_plan_print(const tool_plan_report *r, size_t rows);
/* object: tool_plan_json's. path ends in .html. BT_EARG: it does not; BT_EIO, BT_ENOMEM. */
bt_err tool_plan_page(const char *path, const json_t *object, bt_fault *fault);
/* "chunk:256+tail, w8a8, KV f16, fifo". */
enum { TOOL_PLAN_NAME_BYTES = 256 + BT_RECIPE_MAX_TEXT };
void tool_plan_name(char ret[TOOL_PLAN_NAME_BYTES], const tool_plan_choice *c);

/* ---- fields of a model that a forecast ignores (device/dims.h), for every command that makes one ---- */

/* Appends {model, field, bound, effect} for each; rows NULL is fine, and returns rows. */
json_t *tool_plan_ignored(json_t *rows, const bt_dims *s);
/* A line each, behind `head`: "llama-3.2-11b, cross_attention_layers: ... (an upper bound)". */
void tool_plan_ignored_print(FILE *f, const char *head, const bt_dims *s);
/* The text of one, without the model. Returns ret. */
enum { TOOL_PLAN_IGNORED_BYTES = 240 };
char *tool_plan_ignored_text(char ret[TOOL_PLAN_IGNORED_BYTES], const bt_dims_ignored *i);
#endif
