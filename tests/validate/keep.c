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

bool val_is_fitted(const char *field, const char *source)
{
    if (source && !strncmp(source, "D: as ", 6)) return false; /* of another device or stack */
    return !strcmp(field, "all_reduce") ||
           (source && (strstr(source, "calibrated") || strstr(source, "fitted")));
}

/* Constants of one object; what a stack takes over from `time` was fitted on other rows. */
static uint32_t constants_of(const json_t *object)
{
    const json_t *sources = json_object_get(object, "sources");
    const char *name;
    json_t *v;
    uint32_t n = 0;
    json_object_foreach((json_t *)(uintptr_t)object, name, v)
        if (val_is_fitted(name, json_string_value(json_object_get(sources, name)))) n += numbers_of(name, v);
    return n;
}

static uint32_t fitted_constants(const val_pair *p)
{
    const char *text = val_profile_text(p->device);
    json_t *root = text ? json_loads(text, 0, NULL) : NULL;
    const json_t *time = json_object_get(root, "time"),
                 *stack = json_object_get(json_object_get(root, "stacks"), p->stack);
    const uint32_t n = constants_of(stack ? stack : time);
    json_decref(root);
    return n;
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
/* Layers of models stand for prompts and steps, by their rows, where a stack has no whole ones. */
enum { DECODE_ROWS = 256 };
static bool is_long_layers(const val_row *r) { return r->kind == VAL_PRODUCTS && r->rows > DECODE_ROWS; }
static bool is_short_layers(const val_row *r) { return r->kind == VAL_PRODUCTS && r->rows <= DECODE_ROWS; }
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

static void set_error(bt_calibration *c, bt_figure figure, const val_table *t, const val_pair *p, pick *is,
                      pick *otherwise)
{
    picked k = held_out(t, p, is);
    if (!k.n && otherwise) {
        free(k.v);
        k = held_out(t, p, otherwise);
    }
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
    c->has_decode |= is_one_row || is_run || is_short_layers(r);
    c->has_prefill |= is_prompt(r) || is_served || is_run || r->kind == VAL_ATTENTION || is_long_layers(r);
}

static bool is_model(const val_row *r)
{
    bt_dims s;
    return (is_whole(r) || r->kind == VAL_PRODUCTS) && val_dims(&s, r->shape);
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
    const val_row *shape[64];
    const bt_profile *profile = NULL;
    for (size_t i = 0; i < t->len; i++) {
        const val_row *r = &t->row[i];
        const char *why;
        if (!is_of(r, p)) continue;
        profile = val_profile(r, &why);
        if (r->use == VAL_CALIBRATES) add_row(c, r);
        uint32_t k = 0;
        while (is_model(r) && k < c->shapes && strcmp(shape[k]->shape, r->shape)) k++;
        if (is_model(r) && k == c->shapes && k < 64) shape[c->shapes++] = r;
    }
    if (!profile || strcmp(profile->time.stack, p->stack) || !c->rows) return false;
    set_on(c, t, p);
    c->constants = fitted_constants(p);
    set_error(c, BT_FIGURE_TTFT, t, p, is_prompt, is_long_layers);
    set_error(c, BT_FIGURE_TPOT, t, p, is_step, is_short_layers);
    set_error(c, BT_FIGURE_JOULES, t, p, is_joules, NULL);
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

bool val_is_kept(const val_table *t)
{
    val_pair pair[VAL_PAIRS];
    const size_t pairs = val_pairs(pair, t);
    static const char *const standings[] = {"bound", "fitted", "calibrated"};
    bt_calibration c;
    bool ok = true;
    printf("what profiles keep: rows, constants, held-out median of ttft and tpot\n");
    for (size_t i = 0; i < pairs; i++) {
        const bool has = compute(&c, t, &pair[i]);
        if (!has) continue;
        const bool is_equal = !memcmp(&c, kept_of(t, &pair[i]), sizeof c);
        printf("  %-16s %-28s %-10s %5u rows, %3u constants, %3u shapes; ttft %5.1f %% (%u), tpot %5.1f %% "
               "(%u)%s\n",
               pair[i].device, pair[i].stack, standings[bt_calibration_standing(&c)], (unsigned)c.rows,
               (unsigned)c.constants, (unsigned)c.shapes, c.error[BT_FIGURE_TTFT].median_permille / 10.0,
               (unsigned)c.error[BT_FIGURE_TTFT].rows, c.error[BT_FIGURE_TPOT].median_permille / 10.0,
               (unsigned)c.error[BT_FIGURE_TPOT].rows, is_equal ? "" : "; THE PROFILE KEEPS ANOTHER");
        ok &= is_equal;
    }
    if (!ok)
        printf("a profile differs: 'make validate ARGS=\"--write common/device/profiles\"' writes what is "
               "computed\n");
    return ok;
}
