#ifndef BT_TOOLS_BENCH_PRINT_H
#define BT_TOOLS_BENCH_PRINT_H
#include <jansson.h>
#include <stdio.h>
#include "tools/bench/bench_pass.h"
#include "tools/bench/bench_time.h"

/* Rows as they come, in one of four forms made of the same JSON object a row: a Markdown table of some of its members,
 * CSV of all that are no list, with the names of the first row at the top, one JSON array, or one JSON object with the
 * machine and that array. */
extern const char *const tool_bench_formats[]; /* values of --output in the order of the enum; the object is --json */
typedef enum tool_bench_format { TOOL_BENCH_MD, TOOL_BENCH_CSV, TOOL_BENCH_JSON, TOOL_BENCH_OBJECT } tool_bench_format;

typedef struct tool_bench_column {
    const char *key, *title; /* title NULL: the key */
    int width;               /* at least; negative: to the left */
    int decimals;            /* of numbers that are not whole */
    const char *plus;        /* a member to follow after +-, or NULL */
} tool_bench_column;

typedef struct tool_bench_printer {
    FILE *to;
    tool_bench_format format;
    const tool_bench_column *column; /* ends with key NULL */
    size_t rows;                     /* printed so far */
    bool failed;                     /* the output could not be written, or a row not be made */
} tool_bench_printer;

/* Each takes the reference, but of made_by. machine and made_by go into the object alone, before its rows. */
void tool_bench_print_machine(tool_bench_printer *p, json_t *machine, const json_t *made_by);
void tool_bench_print_row(tool_bench_printer *p, json_t *row);
void tool_bench_print_end(tool_bench_printer *p);

/* The facts that every row holds: the program, the processor, the model, and the limits of the machine, which have the
 * names of tool_bench_limits. */
typedef struct tool_bench_about {
    const char *isa;
    const bt_model *model;
} tool_bench_about;
json_t *tool_bench_about_json(const tool_bench_about *a, const tool_machine *m);
json_t *tool_bench_machine_json(const tool_bench_about *a, const tool_machine *m); /* the object's: limits alone */
json_t *tool_bench_row_json(const tool_bench_about *a, const tool_machine *m, const tool_bench_row *r);
json_t *tool_bench_figure_json(const tool_bench_about *a, const tool_machine *m, const tool_figure *f);
/* expert_columns: rows of a model with experts. */
extern const tool_bench_column tool_bench_limit_columns[], tool_bench_row_columns[], tool_bench_expert_columns[],
    tool_bench_figure_columns[];
#endif
