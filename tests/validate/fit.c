/* --fit DEVICE@STACK: the fitted constants of a profile, found anew on the rows that calibrate it; rows that
 * judge are never read. A constant is fitted on the rows of its own kernel, or on whole prompts and steps
 * where the stack has none of these. The search begins at the constants of the profile (--profile FILE: at
 * those of a file), and takes the step in one of them, up or down, that makes the mean error less: by a tenth
 * at first, by a thousandth at last. */
#include "tests/validate/validate.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define K(kind) (1u << VAL_##kind)
enum {
    MATRICES = K(LINEAR) | K(MATRIX) | K(PRODUCTS),
    ATTENTION = K(ATTENTION) | K(ATTENTION_STEP),
    WHOLE = K(PROMPT) | K(STEP) | K(SERVED_TPOT) | K(RUN),
    JOULES = K(JOULES_PROMPT) | K(JOULES_STEP),
    CONSTANTS = 256,
    SOURCES = 16,
};
static const struct {
    const char *field;
    unsigned kinds;
    uint32_t most;                              /* 0: what a profile may have */
} fields[] = {{"fp8_permille", MATRICES, 2000}, /* data sheets: twice FP16 */
              {"fp4_permille", MATRICES, 4000},
              {"efficiency", MATRICES, 0},
              {"tile_permille", MATRICES, 0},
              {"tile_int8_permille", MATRICES, 0},
              {"decode_bytes_per_us", MATRICES, 0},
              {"linear_launch_ns", MATRICES, 0},
              {"quantize_launch_ns", MATRICES, 0},
              {"input_ps", MATRICES, 0},
              {"unhidden_permille", MATRICES, 1000},
              {"activation_bytes_per_us", K(SMALL), 0},
              {"small_launch_ns", K(SMALL), 0},
              {"attention", ATTENTION, 0},
              {"interconnect_bytes_per_us", K(ALL_REDUCE), 0},
              {"interconnect_ns", K(ALL_REDUCE), 0},
              {"all_reduce", K(ALL_REDUCE), 0},
              {"busy_mw", JOULES, 0},
              {"op_fj", JOULES, 0},
              {"byte_fj", JOULES, 0}};

typedef struct constant {
    const char *field, *member; /* member: of an object of attention; NULL */
    size_t at;                  /* of a list */
    json_t *value;              /* NULL: a constant of `curve` */
    double *curve, was;
    unsigned kinds, most;
} constant;
typedef struct fit {
    const val_table *rows;
    val_pair pair;
    json_t *root, *time, *object; /* object: of the stack, which may be `time` */
    constant constant[CONSTANTS];
    size_t constants;
    json_t *efficiency; /* a curve at each pair's rows: share * rows / (rows + half), and at most in
                           proportion to */
                        /* the first pair's, which takes as long as it */
    double share, half, first;
    unsigned kinds; /* of the constants that move */
} fit;

static bool is_row(const fit *f, const val_row *r, unsigned kinds)
{
    return kinds & 1u << r->kind && r->use == VAL_CALIBRATES && !r->unpriced && !r->apart &&
           !strcmp(r->device, f->pair.device) && !strcmp(r->stack, f->pair.stack);
}
static size_t rows_of(const fit *f, unsigned kinds)
{
    size_t n = 0;
    for (size_t i = 0; i < f->rows->len; i++) n += is_row(f, &f->rows->row[i], kinds);
    return n;
}

/* ---- constants ---- */

static void add(fit *f, const char *field, const char *member, size_t at, json_t *value, double *curve)
{
    constant c = {.field = field, .member = member, .at = at, .value = value, .curve = curve, .kinds = WHOLE};
    if (f->constants == CONSTANTS) val_die(field, "more constants than a fit holds");
    c.was = curve ? *curve : (double)json_integer_value(value);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(fields[i].field, field)) continue;
        c.most = fields[i].most;
        if (rows_of(f, fields[i].kinds)) c.kinds = fields[i].kinds;
    }
    f->constant[f->constants++] = c;
}

static double pair_of(const json_t *list, size_t i, size_t k)
{
    return (double)json_integer_value(json_array_get(json_array_get(list, i), k));
}

/* The constants of a curve, by its last two pairs and with a knee by its first one. */
static void add_curve(fit *f, json_t *list, bool has_knee)
{
    const size_t last = json_array_size(list) - 1;
    const double ra = pair_of(list, last - 1, 0), rb = pair_of(list, last, 0),
                 pa = pair_of(list, last - 1, 1), pb = pair_of(list, last, 1);
    f->efficiency = list;
    f->half = (pb - pa) / (pa / ra - pb / rb);
    f->share = pb * (rb + f->half) / rb;
    f->first = INFINITY;
    add(f, "efficiency", "share", 0, NULL, &f->share);
    add(f, "efficiency", "half", 0, NULL, &f->half);
    if (!has_knee) return;
    f->first = pair_of(list, 0, 1);
    add(f, "efficiency", "first", 0, NULL, &f->first);
}

static void add_field(fit *f, const char *field, json_t *v, const char *source)
{
    size_t i;
    json_t *of, *value;
    const char *name;
    if (!json_is_array(v)) {
        add(f, field, NULL, 0, v, NULL);
        return;
    }
    const bool has_knee = strstr(source, "three constants");
    if (!strcmp(field, "efficiency") && json_array_size(v) > 2 &&
        (has_knee || strstr(source, "two constants"))) {
        add_curve(f, v, has_knee);
        return;
    }
    json_array_foreach(v, i, of) {
        if (json_is_array(of)) add(f, field, NULL, i, json_array_get(of, json_array_size(of) - 1), NULL);
        json_object_foreach(of, name, value)
            if (strcmp(name, "head_dim") && strcmp(name, "group")) add(f, field, name, i, value, NULL);
    }
}

static void set(const fit *f, const constant *c, double x)
{
    size_t i;
    json_t *pair;
    if (!c->curve) {
        json_integer_set(c->value, (json_int_t)llround(x));
        return;
    }
    *c->curve = x;
    json_array_foreach(f->efficiency, i, pair) {
        const double rows = pair_of(f->efficiency, i, 0), share = f->share * rows / (rows + f->half),
                     most = f->first * rows / pair_of(f->efficiency, 0, 0);
        json_integer_set(json_array_get(pair, 1), (json_int_t)floor(share < most ? share : most));
    }
}
static double value_of(const constant *c)
{
    return c->curve ? *c->curve : (double)json_integer_value(c->value);
}

/* ---- the error ---- */
/* Grows with an error as its square up to a tenth, and then as itself, so that no single row decides. */
static double cost_of(double measured, double modelled)
{
    const double near = 0.1, x = fabs(log(modelled / measured));
    return x < near ? x * x / (2 * near) : x - near / 2;
}

/* The mean cost of rows; sources weigh alike, as each has a manner of measuring. Infinite where a profile may
 * not have such constants. */
static double error_of(fit *f, unsigned kinds)
{
    static bt_profile_time base, t;
    struct {
        const char *name;
        double sum;
        size_t n;
    } source[SOURCES] = {{NULL, 0, 0}};
    double sum = 0;
    size_t sources = 0;
    if (bt_profile_time_read(&base, f->time, NULL) < 0) return INFINITY;
    t = base;
    if (f->object != f->time && bt_profile_time_stack(&t, &base, f->pair.stack, f->object, NULL) < 0)
        return INFINITY;
    val_use_time(&f->pair, &t);
    for (size_t i = 0; i < f->rows->len; i++) {
        val_row r = f->rows->row[i];
        if (!is_row(f, &r, kinds)) continue;
        val_price(&r);
        if (r.unpriced) return INFINITY;
        size_t k = 0;
        while (k < sources && strcmp(source[k].name, r.source)) k++;
        if (k == SOURCES) val_die(r.source, "more sources than a fit holds");
        if (k == sources) source[sources++].name = r.source;
        source[k].sum += cost_of(r.measured, r.modelled);
        source[k].n++;
    }
    for (size_t k = 0; k < sources; k++) sum += source[k].sum / (double)source[k].n;
    return sources ? sum / (double)sources : 0;
}

/* A constant by a share; keeps what makes the error less. */
static bool step(fit *f, constant *c, double by, double *least)
{
    const double old = value_of(c);
    double x = old * by;
    if (!c->curve && llround(x) == llround(old)) x = old + (by > 1 ? 1 : -1);
    if (x < 1 || (c->most && x > c->most)) return false;
    set(f, c, x);
    const double e = error_of(f, f->kinds);
    if (e < *least) {
        *least = e;
        return true;
    }
    set(f, c, old);
    return false;
}

/* One pass over the constants; false: none moved. */
static bool pass(fit *f, double by, double *least)
{
    bool moved = false;
    for (size_t i = 0; i < f->constants; i++) {
        constant *c = &f->constant[i];
        if (c->kinds != f->kinds) continue;
        while (step(f, c, 1 + by, least)) moved = true;
        while (step(f, c, 1 / (1 + by), least)) moved = true;
    }
    return moved;
}

/* Again from the widest step on, until that gains less than a thousandth. */
static double descend(fit *f)
{
    double least = error_of(f, f->kinds), last = INFINITY;
    for (int again = 0; again < 20 && least < 0.999 * last; again++) {
        last = least;
        for (double by = 0.1; by > 0.001; by /= 2)
            for (int passes = 0; passes < 40 && pass(f, by, &least);) passes++;
    }
    return least;
}

/* ---- the profile ---- */
static void begin(fit *f, const char *name)
{
    char device[64] = "";
    const size_t len = strcspn(name, "@");
    if (!name[len] || len >= sizeof device) val_die(name, "a fit is of DEVICE@STACK");
    memcpy(device, name, len);
    for (size_t i = 0; i < f->rows->len && !f->pair.device; i++) {
        const val_row *r = &f->rows->row[i];
        if (!r->unpriced && !strcmp(r->device, device) && !strcmp(r->stack, name + len + 1))
            f->pair = (val_pair){.device = r->device, .stack = r->stack};
    }
    const char *text = f->pair.device ? val_profile_text(device) : NULL;
    if (!text || !(f->root = json_loads(text, 0, NULL))) val_die(name, "no row has a price under this stack");
    f->time = json_object_get(f->root, "time");
    f->object = json_object_get(json_object_get(f->root, "stacks"), f->pair.stack);
    if (!f->object) f->object = f->time;
    const json_t *sources = json_object_get(f->object, "sources");
    const char *field;
    json_t *v;
    json_object_foreach(f->object, field, v) {
        const char *source = json_string_value(json_object_get(sources, field));
        if (val_is_fitted(field, source)) add_field(f, field, v, source ? source : "");
    }
}

void val_fit(const val_table *t, const char *name)
{
    fit *f = calloc(1, sizeof *f);
    if (!f) val_die("fit", "out of memory");
    f->rows = t;
    begin(f, name);
    for (size_t i = 0; i < f->constants; i++) {
        f->kinds = f->constant[i].kinds;
        bool is_done = !rows_of(f, f->kinds);
        for (size_t k = 0; k < i; k++) is_done |= f->constant[k].kinds == f->kinds;
        if (is_done) continue;
        const double before = error_of(f, f->kinds), after = descend(f);
        size_t n = 0;
        for (size_t k = 0; k < f->constants; k++) n += f->constant[k].kinds == f->kinds;
        printf("%zu constants on %zu rows of", n, rows_of(f, f->kinds));
        for (int k = 0; k < VAL_KINDS; k++)
            if (f->kinds & 1u << k && rows_of(f, 1u << k)) printf(" %s", val_kind_names[k]);
        printf(": mean cost %.5f, was %.5f\n", after, before);
    }
    printf("\n%-26s %-18s %12s %12s\n", "constant", "", "profile", "fitted");
    for (size_t i = 0; i < f->constants; i++) {
        const constant *c = &f->constant[i];
        char at[32] = "";
        if (c->member) snprintf(at, sizeof at, "%zu %s", c->at + 1, c->member);
        else if (json_is_array(json_object_get(f->object, c->field)))
            snprintf(at, sizeof at, "%zu", c->at + 1);
        printf("%-26s %-18s %12.0f %12.0f\n", c->field, at, c->was, value_of(c));
    }
    for (size_t i = 0; i < f->constants; i++) {
        bool is_done = false;
        for (size_t k = 0; k < i; k++) is_done |= !strcmp(f->constant[k].field, f->constant[i].field);
        if (is_done) continue;
        char *text = json_dumps(json_object_get(f->object, f->constant[i].field), JSON_ENCODE_ANY);
        printf("%s\"%s\": %s", i ? ",\n" : "\n", f->constant[i].field, text ? text : "");
        free(text);
    }
    printf("\n");
    json_decref(f->root);
    free(f);
}
