#ifndef TESTS_VALIDATE_H
#define TESTS_VALIDATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "device/price.h"

/* make validate: the prices of common/device against what others measured. rows.c reads the tables beside it, split.c
 * says by one table which rows judge and which calibrate, modelled.c prices each, apart.c counts what cannot be judged,
 * and the others show it. */

/* ---- rows ---- */
typedef enum val_kind {
    VAL_LINEAR,         /* one matrix of a step; shape: inputs x outputs */
    VAL_MATRIX,         /* one matrix as an operator of a program */
    VAL_PRODUCTS,       /* the matrices of all layers */
    VAL_SMALL,          /* norms, rotary positions, activations and sums of all layers */
    VAL_ATTENTION,      /* of a layer and a prompt; shape: heads / KV heads / elements of a head */
    VAL_ATTENTION_STEP, /* of a layer and a decode step */
    VAL_ALL_REDUCE,     /* shape: bytes */
    VAL_PROMPT,         /* a prompt alone */
    VAL_STEP,           /* a decode step */
    VAL_SERVED_TPOT,    /* a token of one of `batch` requests that come again and again */

    VAL_RUN, /* `batch` prompts, then their tokens */
    VAL_JOULES_PROMPT,
    VAL_JOULES_STEP,
    VAL_KINDS,
} val_kind;
extern const char *const val_kind_names[VAL_KINDS];

typedef enum val_use { VAL_CALIBRATES, VAL_MODEL, VAL_GROUP, VAL_REGION, VAL_USES } val_use;
extern const char *const val_use_names[VAL_USES]; /* what a row is held out by */

typedef struct val_row {
    const char *file, *device, *stack, *shape, *form, *programs, *source, *note; /* of the table; never NULL */
    val_kind kind;
    uint32_t line, devices;
    uint64_t rows, rows_to, batch, context, out;
    double measured, modelled; /* us; of joules mJ */
    double prompts_us;         /* of modelled, of a token under load: what prompts take */
    val_use use;
    const char *unpriced; /* why the row has no price; NULL: it has one */
    const char *apart;    /* why it is not judged; NULL: it is */
} val_row;
typedef struct val_table {
    val_row *row;
    size_t len, room;
} val_table;

/* Reads a file of rows behind those that are there. Ends the program at a row that cannot be read. */
void val_read(val_table *t, const char *path);
/* The file's text, which lives as long as the program. */
char *val_text(const char *path);
void val_die(const char *what, const char *why) __attribute__((noreturn));

/* ---- what is held out ---- */
val_use val_use_of(const val_row *r);
void val_print_split(void);

/* ---- prices ---- */
/* A file that stands in place of the built-in profile with its name. */
void val_use_profile(const char *path);
/* The profile that speaks of a row's device, group and stack; NULL, with the reason in *why: none does. */
const bt_profile *val_profile(const val_row *r, const char **why);
/* Sets modelled, or unpriced. */
void val_price(val_row *r);
/* Microseconds of a row's prompt by the programs that the compiler would make (programs.c); 0 with unpriced set: it
 * makes none of such a model. */
double val_programs_us(val_row *r, const bt_profile *p, const bt_dims *s, const bt_price_recipe *f);
/* Times of a profile have changed; is_compiled_too: so much that programs may be others. */
void val_programs_forget(bool is_compiled_too);
/* A term that profiles are priced without from now on; 0: with all. NULL: there is no such term. */
enum { VAL_TERMS = 14 };
const char *val_switch_off(int term);
/* The forms of a row: behind '/' the KV's; without it, 16 bits. false: a form that is none. */
bool val_recipe(bt_price_recipe *ret, const val_row *r);
/* The sizes that a row's shape names, or says behind '='; false: they are not known. */
bool val_dims(bt_dims *ret, const char *shape);
/* Sets `apart` of rows that nothing can be judged by: those faster than the device's peaks, those that contradict
 * another one. */
void val_set_apart(val_table *t);

/* ---- served runs ---- */
typedef struct val_served_figure {
    const char *name;
    double measured, modelled, goal; /* ms; goal 0: there is none */
} val_served_figure;
typedef struct val_served {
    char device[64], stack[32];
    const char *why; /* why it was not played; NULL: it was */
    size_t requests, len;
    val_served_figure figure[10];
} val_served;
/* Plays a file of requests. */
void val_serve(val_served *ret, const char *path);
void val_show_served(const val_served *v);

/* ---- what is shown ---- */
static inline double val_error(const val_row *r) { return r->modelled / r->measured - 1; }
/* Signed and unsigned errors of some rows. */
typedef struct val_stat {
    size_t n;
    double median, p75, p90, worst, bias; /* of absolute errors; bias: the median of the signed ones */
    double share;                         /* of rows within what the goal says */
} val_stat;
double val_median(double *v, size_t n); /* sorts them, ascending; 0: there are none */

/* Kinds that one goal holds for, and the axes of their errors. */
typedef enum val_class {
    VAL_CLASS_LINEAR,
    VAL_CLASS_SMALL,
    VAL_CLASS_ATTENTION,
    VAL_CLASS_ATTENTION_STEP,
    VAL_CLASS_ALL_REDUCE,
    VAL_CLASS_STEP,
    VAL_CLASS_PROMPT,
    VAL_CLASS_JOULES,
    VAL_CLASSES,
} val_class;
typedef struct val_goal {
    const char *name, *length, *height; /* of the class; of its two axes */
    int tier;
    double median, share, within; /* so large a share of rows within; 0: there is no goal */
    bool is_at_share;             /* the error at that share, on a line between rows, not their number */
} val_goal;
extern const val_goal val_goals[VAL_CLASSES];
val_class val_class_of(const val_row *r);
/* The goal of a row's class, as the kind of device and what it is held out by have it. */
val_goal val_goal_of(val_class c, bool is_npu, val_use use);
bool val_is_npu(const val_row *r);
/* Bounds of the cells that errors are told by, along an axis: the i-th cell begins at the i-th bound. */
enum { VAL_CELLS = 8 };
size_t val_cell(val_class c, uint64_t length);
size_t val_cell_up(uint64_t height);
const char *val_cell_name(char ret[24], val_class c, size_t i, bool is_up);
uint64_t val_length(const val_row *r);
uint64_t val_height(const val_row *r);

/* Pairs of device and stack, in the order in which rows name them. */
typedef struct val_pair {
    const char *device, *stack;
    bool is_npu;
} val_pair;
/* Prices of its rows are by these constants from now on; they must have been priced before. */
void val_use_time(const val_pair *p, const bt_profile_time *t);
enum { VAL_PAIRS = 64 };
size_t val_pairs(val_pair ret[VAL_PAIRS], const val_table *t);
/* The rows that are asked for; uses: bits by val_use. */
enum { VAL_HELD = 1 << VAL_MODEL | 1 << VAL_GROUP | 1 << VAL_REGION, VAL_ALL = VAL_HELD | 1 << VAL_CALIBRATES };
typedef struct val_asked {
    const val_pair *pair; /* NULL: all */
    val_class class;
    unsigned uses;
    size_t length, height; /* with is_cell */
    bool is_cell;
} val_asked;
/* within: of the goal. A sum over a group that takes under 15 us is judged by 5 us alone. */
val_stat val_stat_of(const val_table *t, const val_asked *a, double within);
bool val_is_met(const val_stat *s, const val_goal *g);
/* The mean of the devices' signed medians in a cell; false: no row lies there. */
bool val_cell_error(double *ret, size_t *devices, const val_table *t, val_class c, size_t length, size_t height);

void val_show(const val_table *t);
/* Fits the constants of NAME@STACK on its rows that calibrate, and prints them beside the profile's. */
void val_fit(const val_table *t, const char *name);
/* Writes the object `calibration` of each device and stack into DIR/NAME.json. */
void val_keep(const val_table *t, const char *dir);
/* Whether the built-in profiles have what is computed; says where they differ. is_all: a calibration that no row of the
 * table speaks of differs too. */
bool val_is_kept(const val_table *t, bool is_all);
/* The file of a device: that of --profile, or the built-in one; NULL: there is none. */
const char *val_profile_text(const char *device);
/* Whether a constant of that source was fitted on rows of its own device and stack. */
bool val_is_fitted(const char *field, const char *source);
/* v: what was served; NULL: nothing was. */
void val_show_json(const val_table *t, const val_served *v);
void val_show_predictions(const val_table *t);
/* Errors of each class with each term switched off. Prices the rows again. */
void val_show_terms(val_table *t);
/* Signed errors of each device and stack by length and height, as SVG. */
void val_write_picture(const val_table *t, const char *path);
#endif
