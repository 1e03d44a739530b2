/* The object `calibration` of each device and stack that rows speak of: what a profile keeps of the protocol.
 * Computed, compared with what the built-in profile has, and written into its file, of which all other text
 * stays. */
#include "tests/validate/validate.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- constants ---- */
/* The numbers of a field; of a list, those that were measured, not the sizes at which they were. */
static uint32_t numbers_of(const char *field, const json_t *v)
{
    uint32_t n = 0;
    size_t i;
    json_t *of, *value;
    const char *name;
    if (json_is_number(v)) return 1;
    if (strcmp(field, "attention")) return json_is_array(v) ? (uint32_t)json_array_size(v) : 0;
    json_array_foreach((json_t *)(uintptr_t)v, i, of)
        json_object_foreach(of, name, value) n += strcmp(name, "head_dim") && strcmp(name, "group");
    return n;
}

static bool is_borrowed(const char *source) { return source && !strncmp(source, "D: as ", 6); }

bool val_is_fitted(const char *field, const char *source)
{
    if (is_borrowed(source)) return false;
    return !strcmp(field, "all_reduce") ||
           (source && (strstr(source, "calibrated") || strstr(source, "fitted")));
}

/* Adds the constants of one object. over: a stack's, whose fields stand in place of these; NULL: none. */
static void add_constants(bt_calibration *c, const json_t *object, const json_t *over)
{
    const json_t *sources = json_object_get(object, "sources");
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, name, v) {
        const char *source = json_string_value(json_object_get(sources, name));
        const bool fits = val_is_fitted(name, source);
        if (over && json_object_get(over, name)) continue;
        if (fits && !over) c->constants += numbers_of(name, v);
        else if (fits || is_borrowed(source)) c->borrowed += numbers_of(name, v);
    }
}

static void set_constants(bt_calibration *c, const val_pair *p)
{
    const char *text = val_profile_text(p->device);
    json_t *root = text ? json_loads(text, 0, NULL) : NULL;
    const json_t *time = json_object_get(root, "time"),
                 *stack = json_object_get(json_object_get(root, "stacks"), p->stack);
    add_constants(c, stack ? stack : time, NULL);
    if (stack) add_constants(c, time, stack);
    json_decref(root);
}

/* ---- what the rows say ---- */
typedef struct picked {
    double *v;
    size_t n;
} picked;
typedef bool pick(const val_row *r);

static bool is_of(const val_row *r, const val_pair *p)
{
    return !r->unpriced && !r->apart && !strcmp(r->device, p->device) && !strcmp(r->stack, p->stack);
}
static bool is_matrix(const val_row *r)
{
    return r->kind == VAL_PRODUCTS || r->kind == VAL_LINEAR || r->kind == VAL_MATRIX;
}
static bool is_attention(const val_row *r)
{
    return r->kind == VAL_ATTENTION || r->kind == VAL_ATTENTION_STEP;
}
static bool is_sum(const val_row *r) { return r->kind == VAL_ALL_REDUCE; }
static bool is_prompt(const val_row *r) { return r->kind == VAL_PROMPT; }
static bool is_step(const val_row *r)
{
    return r->kind == VAL_STEP || r->kind == VAL_SERVED_TPOT || r->kind == VAL_RUN;
}
static bool is_joules(const val_row *r) { return r->kind == VAL_JOULES_PROMPT || r->kind == VAL_JOULES_STEP; }
static bool is_whole(const val_row *r) { return is_prompt(r) || is_step(r); }

/* Measured by modelled, less one, of held-out rows, ascending. */
static picked held_out(const val_table *t, const val_pair *p, pick *is)
{
    picked k = {malloc((t->len + 1) * sizeof(double)), 0};
    if (!k.v) val_die("residuals", "out of memory");
    for (size_t i = 0; i < t->len; i++) {
        const val_row *r = &t->row[i];
        if (is_of(r, p) && r->use != VAL_CALIBRATES && is(r)) k.v[k.n++] = r->measured / r->modelled - 1;
    }
    (void)val_median(k.v, k.n); /* it sorts them */
    return k;
}

static int32_t permille(double x) { return (int32_t)lround(1000 * (x < -0.999 ? -0.999 : x > 99 ? 99 : x)); }

static void set_error(bt_calibration *c, bt_figure figure, const val_table *t, const val_pair *p, pick *is)
{
    const picked k = held_out(t, p, is);
    if (k.n) {
        c->error[figure].rows = (uint32_t)k.n;
        c->error[figure].bias_permille = permille(val_median(k.v, k.n));
        for (size_t i = 0; i < k.n; i++) k.v[i] = fabs(k.v[i]);
        c->error[figure].median_permille = (uint32_t)permille(val_median(k.v, k.n));
        c->error[figure].worst_permille = (uint32_t)permille(k.v[k.n - 1]);
    }
    free(k.v);
}

static void set_residuals(bt_calibration *c, bt_term term, const val_table *t, const val_pair *p, pick *is)
{
    const picked k = held_out(t, p, is);
    const size_t n = k.n < BT_CALIBRATION_MAX_RESIDUALS ? k.n : BT_CALIBRATION_MAX_RESIDUALS;
    for (size_t i = 0; i < n; i++) c->residual[term][i] = permille(k.v[(2 * i + 1) * k.n / (2 * n)]);
    if (n) c->residuals[term] = (uint32_t)n;
    free(k.v);
}

static void widen(bt_calibration *c, bt_axis axis, uint64_t n)
{
    if (!n || n > 1 << 30) return;
    if (!c->region[axis].hi || n < c->region[axis].lo) c->region[axis].lo = (uint32_t)n;
    if (n > c->region[axis].hi) c->region[axis].hi = (uint32_t)n;
}

static void add_row(bt_calibration *c, const val_row *r)
{
    const bool is_served = r->kind == VAL_SERVED_TPOT, is_run = r->kind == VAL_RUN,
               is_one_row = r->kind == VAL_STEP || is_served || r->kind == VAL_ATTENTION_STEP;
    if (is_joules(r)) return;
    c->rows++;
    if (is_one_row || is_run) widen(c, BT_AXIS_ROWS, r->batch);
    if (r->kind != VAL_ALL_REDUCE && r->kind != VAL_ATTENTION) widen(c, BT_AXIS_ROWS, r->rows);
    widen(c, BT_AXIS_BATCH, r->batch);
    widen(c, BT_AXIS_CONTEXT, is_served || is_run ? r->rows + r->out : r->context);
    widen(c, BT_AXIS_DEVICES, r->devices);
}

/* Whole prompts and steps, held-out ones too: what they are of, and of how many models. A token under load
 * measures what takes most of its time. One row is no model. */
static void set_kinds(bt_calibration *c, const val_table *t, const val_pair *p)
{
    struct {
        const char *name;
        size_t rows;
    } shape[64];
    size_t shapes = 0;
    bt_dims s;
    for (size_t i = 0; i < t->len; i++) {
        const val_row *r = &t->row[i];
        const bool is_served = r->kind == VAL_SERVED_TPOT, is_run = r->kind == VAL_RUN;
        if (!is_of(r, p) || !is_whole(r)) continue;
        c->has_prefill |= is_prompt(r) || is_run || (is_served && 2 * r->prompts_us > r->modelled);
        c->has_decode |= r->kind == VAL_STEP || is_run || (is_served && 2 * r->prompts_us <= r->modelled);
        size_t k = 0;
        while (k < shapes && strcmp(shape[k].name, r->shape)) k++;
        if (k == 64 || !val_dims(&s, r->shape)) continue;
        if (k == shapes) shape[shapes++].name = r->shape, shape[k].rows = 0;
        c->shapes += ++shape[k].rows == 2;
    }
}

/* Where the rows are from, by kind, as far as there is room. */
static void set_on(bt_calibration *c, const val_table *t, const val_pair *p)
{
    bool has[VAL_KINDS] = {false};
    size_t n = 0;
    const char *comma = "";
    for (size_t i = 0; i < t->len; i++)
        if (is_of(&t->row[i], p) && t->row[i].use == VAL_CALIBRATES) has[t->row[i].kind] = true;
    n += (size_t)snprintf(c->on, sizeof c->on, "tests/validate, rows of ");
    for (int k = 0; k < VAL_KINDS && n < sizeof c->on; k++) {
        if (!has[k]) continue;
        n += (size_t)snprintf(c->on + n, sizeof c->on - n, "%s%s", comma, val_kind_names[k]);
        comma = ", ";
    }
}

/* False: there are no rows that calibrate, or the profile has no constants of this stack. */
static bool compute(bt_calibration *c, const val_table *t, const val_pair *p)
{
    memset(c, 0, sizeof *c);
    const bt_profile *profile = NULL;
    for (size_t i = 0; i < t->len; i++) {
        const val_row *r = &t->row[i];
        const char *why;
        if (!is_of(r, p)) continue;
        profile = val_profile(r, &why);
        if (r->use == VAL_CALIBRATES) add_row(c, r);
    }
    if (!profile || strcmp(profile->time.stack, p->stack) || !c->rows) return false;
    set_on(c, t, p);
    set_kinds(c, t, p);
    set_constants(c, p);
    set_error(c, BT_FIGURE_TTFT, t, p, is_prompt);
    set_error(c, BT_FIGURE_TPOT, t, p, is_step);
    set_error(c, BT_FIGURE_JOULES, t, p, is_joules);
    set_residuals(c, BT_TERM_PRODUCTS, t, p, is_matrix);
    if (!c->residuals[BT_TERM_PRODUCTS]) set_residuals(c, BT_TERM_PRODUCTS, t, p, is_whole);
    set_residuals(c, BT_TERM_ATTENTION, t, p, is_attention);
    set_residuals(c, BT_TERM_ALL_REDUCE, t, p, is_sum);
    return true;
}

/* ---- as text ---- */
typedef struct writer {
    char text[4096];
    size_t len;
} writer;
static void put(writer *w, const char *form, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *form, ...)
{
    va_list args;
    va_start(args, form);
    w->len += (size_t)vsnprintf(w->text + w->len, sizeof w->text - w->len, form, args);
    va_end(args);
    if (w->len >= sizeof w->text) val_die("calibration", "too long");
}

static void put_object(writer *w, const bt_calibration *c, const char *indent)
{
    static const char *const terms[] = {BT_TERM_NAMES}, *const figures[] = {BT_FIGURE_NAMES},
                             *const axes[] = {BT_AXIS_NAMES};
    const char *comma = "";
    put(w, "\"calibration\": {\n%s  \"on\": \"%s\",\n%s  \"rows\": %u", indent, c->on, indent,
        (unsigned)c->rows);
    if (c->shapes) put(w, ", \"shapes\": %u", (unsigned)c->shapes);
    if (c->constants) put(w, ", \"constants\": %u", (unsigned)c->constants);
    if (c->borrowed) put(w, ", \"borrowed\": %u", (unsigned)c->borrowed);
    if (c->has_prefill || c->has_decode)
        put(w, ", \"kinds\": [%s%s%s]", c->has_prefill ? "\"prefill\"" : "",
            c->has_prefill && c->has_decode ? ", " : "", c->has_decode ? "\"decode\"" : "");
    put(w, ",\n%s  \"region\": {", indent);
    for (int i = 0; i < BT_AXES; i++) {
        if (!c->region[i].hi) continue;
        put(w, "%s\"%s\": [%u, %u]", comma, axes[i], (unsigned)c->region[i].lo, (unsigned)c->region[i].hi);
        comma = ", ";
    }
    put(w, "}");
    comma = "";
    for (int i = 0; i < BT_FIGURES; i++) {
        if (!c->error[i].rows) continue;
        if (!*comma) put(w, ",\n%s  \"errors\": {", indent);
        put(w, "%s\"%s\": [%u, %u, %d, %u]", comma, figures[i], (unsigned)c->error[i].median_permille,
            (unsigned)c->error[i].worst_permille, (int)c->error[i].bias_permille, (unsigned)c->error[i].rows);
        comma = ", ";
    }
    if (*comma) put(w, "}");
    comma = "";
    for (int i = 0; i < BT_TERMS; i++) {
        if (!c->residuals[i]) continue;
        if (!*comma) put(w, ",\n%s  \"residuals\": {", indent);
        put(w, "%s\n%s    \"%s\": [", comma, indent, terms[i]);
        for (uint32_t k = 0; k < c->residuals[i]; k++) put(w, "%s%d", k ? ", " : "", (int)c->residual[i][k]);
        put(w, "]");
        comma = ",";
    }
    put(w, "%s\n%s}", *comma ? "}" : "", indent);
}

/* ---- places in a file's text ---- */
static const char *behind_text(const char *s)
{
    for (s++; *s && *s != '"'; s++) s += *s == '\\' && s[1];
    return *s ? s + 1 : s;
}
static const char *behind_value(const char *s)
{
    int depth = 0;
    do {
        if (*s == '"') s = behind_text(s);
        else if (*s == '{' || *s == '[') depth++, s++;
        else if (*s == '}' || *s == ']') depth--, s++;
        else s++;
    } while (*s && (depth > 0 || (*s != ',' && *s != '}' && *s != ']' && !isspace((unsigned char)*s))));
    return s;
}
/* The value of a member of the object that begins at s; *key: where its name begins. NULL: there is none. */
static const char *member(const char *s, const char *name, const char **key)
{
    const size_t len = strlen(name);
    for (s++; *s;) {
        s += strspn(s, " \n\t,");
        if (*s != '"') return NULL;
        *key = s;
        s = behind_text(s);
        const bool is_it = (size_t)(s - *key) == len + 2 && !memcmp(*key + 1, name, len);
        s += strspn(s, " \n\t:");
        if (is_it) return s;
        s = behind_value(s);
    }
    return NULL;
}

static void write_file(const char *path, const char *a, size_t n, const writer *w, const char *b)
{
    FILE *f = fopen(path, "wb");
    if (!f) val_die(path, "cannot be written");
    fwrite(a, 1, n, f);
    fwrite(w->text, 1, w->len, f);
    fputs(b, f);
    if (fclose(f)) val_die(path, "cannot be written");
}

static void write_one(const char *dir, const val_pair *p, const bt_calibration *c)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.json", dir, p->device);
    char *text = val_text(path);
    const char *key, *object = member(strchr(text, '{'), "stacks", &key);
    bool is_stack = true;
    if (object) object = member(object, p->stack, &key);
    if (!object) {
        object = member(strchr(text, '{'), "time", &key);
        is_stack = false;
    }
    const char *old_key = NULL, *old = object ? member(object, "calibration", &old_key) : NULL,
               *sources_key = NULL, *sources = object ? member(object, "sources", &sources_key) : NULL;
    if (!sources) val_die(path, "the object has no sources");
    const char *indent = is_stack ? "      " : "    ";
    static writer w;
    w.len = 0;
    put_object(&w, c, indent);
    if (!old) put(&w, ",\n%s", indent);
    write_file(path, text, (size_t)((old ? old_key : sources_key) - text), &w,
               old ? behind_value(old) : sources_key);
    free(text);
}

void val_keep(const val_table *t, const char *dir)
{
    val_pair pair[VAL_PAIRS];
    const size_t pairs = val_pairs(pair, t);
    bt_calibration c;
    for (size_t i = 0; i < pairs; i++)
        if (compute(&c, t, &pair[i])) write_one(dir, &pair[i], &c);
}

/* ---- compared ---- */
static const bt_calibration *kept_of(const val_table *t, const val_pair *p)
{
    const char *why;
    for (size_t i = 0; i < t->len; i++)
        if (is_of(&t->row[i], p)) return &val_profile(&t->row[i], &why)->time.calibration;
    return NULL;
}

/* A profile that keeps a calibration has rows that calibrate it. */
static bool has_rows(const val_table *t, const char *device, const char *stack)
{
    const val_pair p = {.device = device, .stack = stack};
    bt_calibration c;
    if (compute(&c, t, &p)) return true;
    printf("  %-16s %-28s keeps a calibration, and no row calibrates it\n", device, stack);
    return false;
}
static bool have_all_rows(const val_table *t)
{
    bool ok = true;
    for (size_t i = 0; bt_profile_name(i); i++) {
        bt_profile p, one;
        char name[160];
        if (bt_profile_load(&p, bt_profile_name(i), NULL) < 0)
            val_die(bt_profile_name(i), "cannot be loaded");
        if (*p.time.calibration.on) ok &= has_rows(t, p.name, p.time.stack);
        for (uint32_t k = 0; k < p.stacks; k++) {
            snprintf(name, sizeof name, "%s@%s", p.name, p.stack[k]);
            if (bt_profile_load(&one, name, NULL) == BT_OK && *one.time.calibration.on)
                ok &= has_rows(t, p.name, p.stack[k]);
        }
    }
    return ok;
}

bool val_is_kept(const val_table *t, bool is_all)
{
    val_pair pair[VAL_PAIRS];
    const size_t pairs = val_pairs(pair, t);
    static const char *const standings[] = {"bound", "fitted", "calibrated"};
    bt_calibration c;
    bool ok = true;
    printf(
        "what profiles keep: rows, constants of their own and borrowed, held-out median of ttft and tpot\n");
    for (size_t i = 0; i < pairs; i++) {
        const bool has = compute(&c, t, &pair[i]);
        if (!has) continue;
        const bool is_equal = !memcmp(&c, kept_of(t, &pair[i]), sizeof c);
        printf("  %-16s %-28s %-10s %5u rows, %3u and %3u constants, %3u shapes; ttft %5.1f %% (%u), tpot "
               "%5.1f %% "
               "(%u)%s\n",
               pair[i].device, pair[i].stack, standings[bt_calibration_standing(&c)], (unsigned)c.rows,
               (unsigned)c.constants, (unsigned)c.borrowed, (unsigned)c.shapes,
               c.error[BT_FIGURE_TTFT].median_permille / 10.0, (unsigned)c.error[BT_FIGURE_TTFT].rows,
               c.error[BT_FIGURE_TPOT].median_permille / 10.0, (unsigned)c.error[BT_FIGURE_TPOT].rows,
               is_equal ? "" : "; THE PROFILE KEEPS ANOTHER");
        ok &= is_equal;
    }
    if (is_all) ok &= have_all_rows(t);
    if (!ok)
        printf("a profile differs: 'make validate ARGS=\"--write common/device/profiles\"' writes what is "
               "computed\n");
    return ok;
}
