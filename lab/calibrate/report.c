/* Measured points beside the profile's prices of them. See report.h. */
#include "lab/calibrate/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double ms(double ns) { return ns / 1e6; }
static double prompt_ns(const tool_calibrate_report *r, const bt_profile *by, const tool_calibrate_prompt *p)
{
    return tool_calibrate_prompt_ns(by, r->priced, p->tokens);
}
static double step_ns(const tool_calibrate_report *r, const bt_profile *by, const tool_calibrate_step *s)
{
    return tool_calibrate_step_ns(by, r->priced, s->batch, s->ctx);
}
static const tool_calibrate_points *fitted_points(const tool_calibrate_report *r)
{
    return r->table ? &r->table->points : &r->measured->fit;
}

/* Absolute relative errors of points. n 0: there are none. */
typedef struct point_errors {
    size_t n;
    double median, worst;
} point_errors;

static point_errors point_errors_of(const tool_calibrate_report *r, const bt_profile *by,
                                    const tool_calibrate_points *p)
{
    double e[TOOL_CALIBRATE_PROMPTS + TOOL_CALIBRATE_STEPS];
    size_t n = 0;
    for (size_t i = 0; i < p->prompts; i++)
        e[n++] = fabs(prompt_ns(r, by, &p->prompt[i]) / p->prompt[i].ns - 1);
    for (size_t i = 0; i < p->steps; i++) e[n++] = fabs(step_ns(r, by, &p->step[i]) / p->step[i].ns - 1);
    if (!n) return (point_errors){0};
    const double median = tool_calibrate_median(e, n);
    return (point_errors){n, median, e[n - 1]};
}

/* ---- the profile --------------------------------------------------------------------------------- */

static void set(json_t *o, json_t *sources, const char *field, uint64_t v, const char *from)
{
    if (!v) return;
    json_object_set_new(o, field, json_integer((json_int_t)v));
    json_object_set_new(sources, field, json_string(from));
}

static void set_efficiency(json_t *o, json_t *sources, const bt_profile_time *t, const char *from)
{
    json_t *points = json_array();
    for (uint32_t i = 0; i < t->points; i++)
        json_array_append_new(points, json_pack("[I, I]", (json_int_t)t->efficiency[i].rows,
                                                (json_int_t)t->efficiency[i].permille));
    json_object_set_new(o, "efficiency", points);
    json_object_set_new(sources, "efficiency", json_string(from));
}

static json_t *programs_of(const bt_profile_time *t)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < t->programs; i++) json_array_append_new(list, json_integer(t->program_rows[i]));
    return list;
}

static void set_programs(json_t *o, json_t *sources, const bt_profile_time *t)
{
    if (!t->programs) return;
    json_object_set_new(o, "program_rows", programs_of(t));
    json_object_set_new(sources, "program_rows",
                        json_string("m: prompts by length, whose times stay flat and jump"));
}

typedef struct span {
    uint32_t lo, hi;
} span;
static void widen(span *s, uint32_t n)
{
    if (!s->hi || n < s->lo) s->lo = n;
    if (n > s->hi) s->hi = n;
}
static void set_span(json_t *region, const char *axis, const span *s)
{
    if (s->hi) json_object_set_new(region, axis, json_pack("[I, I]", (json_int_t)s->lo, (json_int_t)s->hi));
}

/* [median, worst, bias, rows] of signed errors in thousandths. */
static void set_error(json_t *errors, const char *figure, double *signed_error, size_t n)
{
    double size[TOOL_CALIBRATE_PROMPTS + TOOL_CALIBRATE_STEPS];
    if (!n) return;
    for (size_t i = 0; i < n; i++) size[i] = fabs(signed_error[i]);
    const double median = tool_calibrate_median(size, n), bias = tool_calibrate_median(signed_error, n);
    json_object_set_new(errors, figure,
                        json_pack("[I, I, I, I]", (json_int_t)lround(1e3 * median),
                                  (json_int_t)lround(1e3 * size[n - 1]), (json_int_t)lround(1e3 * bias),
                                  (json_int_t)n));
}

/* The errors of points that were held out; NULL: none were. */
static json_t *errors_of(const tool_calibrate_report *r)
{
    const tool_calibrate_points *p = r->held;
    double e[TOOL_CALIBRATE_STEPS];
    if (!(p->prompts + p->steps)) return NULL;
    json_t *errors = json_object();
    for (size_t i = 0; i < p->prompts; i++)
        e[i] = fmin(99, p->prompt[i].ns / prompt_ns(r, r->judged, &p->prompt[i]) - 1);
    set_error(errors, "ttft", e, p->prompts);
    for (size_t i = 0; i < p->steps; i++)
        e[i] = fmin(99, p->step[i].ns / step_ns(r, r->judged, &p->step[i]) - 1);
    set_error(errors, "tpot", e, p->steps);
    return errors;
}

static const char *on(const tool_calibrate_report *r, char ret[128])
{
    if (r->table) return r->table->on;
    (void)snprintf(ret, 128, "requests to %.100s", r->url);
    return ret;
}

static json_t *calibration_of(const tool_calibrate_report *r)
{
    const tool_calibrate_points *p = fitted_points(r);
    span rows = {0}, batch = {0}, context = {0};
    char text[128];
    json_t *kinds = json_array(), *region = json_object(), *errors = errors_of(r);
    for (size_t i = 0; i < p->prompts; i++) widen(&rows, p->prompt[i].tokens);
    for (size_t i = 0; i < p->steps; i++) widen(&batch, p->step[i].batch), widen(&context, p->step[i].ctx);
    set_span(region, "rows", &rows);
    set_span(region, "batch", &batch);
    set_span(region, "context", &context);
    if (p->prompts) json_array_append_new(kinds, json_string("prefill"));
    if (p->steps) json_array_append_new(kinds, json_string("decode"));
    return json_pack("{s:s, s:I, s:i, s:I, s:o, s:o, s:o*}", "on", on(r, text), "rows",
                     (json_int_t)(r->table ? r->table->rows : p->prompts + p->steps), "shapes", 1,
                     "constants", (json_int_t)r->constants, "kinds", kinds, "region", region, "errors",
                     errors);
}

static json_t *time_of(const tool_calibrate_report *r)
{
    const bt_profile_time *t = &r->profile->time;
    char text[128];
    json_t *o = json_object(), *from = json_object();
    json_object_set_new(o, "stack", json_string(t->stack));
    json_object_set_new(from, "stack", json_sprintf("m: %.120s", on(r, text)));
    set(o, from, "f16_ops_per_us", t->f16_ops_per_us,
        "m: of the fastest prompt; a rate that is reached, not a peak");
    set_efficiency(o, from, t, "m: prompts by length, steps by batch");
    set_programs(o, from, t);
    set(o, from, "memory_bytes_per_us", t->memory_bytes_per_us,
        "m: no limit was seen beside decode_bytes_per_us");
    set(o, from, "decode_bytes_per_us", t->decode_bytes_per_us, "m: steps by context and batch");
    set(o, from, "dispatch_ns", t->dispatch_ns, "m: what a step takes whatever its rows");
    set(o, from, "decode_op_ns", t->decode_op_ns, "m: what a step takes whatever its rows, by operator");
    set(o, from, "first_launch_ns", t->first_launch_ns, "m: the fixed time of a request, by operator");
    json_object_set_new(o, "calibration", calibration_of(r));
    json_object_set_new(o, "sources", from);
    return o;
}

/* The other profile with the constants that were fitted. A constant that became 0 is a field that is not
 * there. */
static json_t *over_like(const tool_calibrate_report *r)
{
    const bt_profile_time *t = &r->profile->time;
    const uint64_t value[TOOL_CALIBRATE_CONSTANTS] = {0, t->weight_bytes_per_us, t->first_launch_ns,
                                                      t->decode_bytes_per_us, t->dispatch_ns};
    json_t *o = json_deep_copy(r->like), *time = json_object_get(o, "time"),
           *from = json_object_get(time, "sources");
    if (!from) json_object_set_new(time, "sources", from = json_object());
    char source[160];
    (void)snprintf(source, sizeof source, "m: %s", r->table->on);
    json_object_set_new(time, "stack", json_string("measured"));
    json_object_set_new(from, "stack", json_string(source));
    for (int i = 0; i < TOOL_CALIBRATE_CONSTANTS; i++) {
        if (!(r->fitted >> i & 1)) continue;
        json_object_del(time, tool_calibrate_constants[i]);
        json_object_del(from, tool_calibrate_constants[i]);
        if (1u << i == TOOL_CALIBRATE_EFFICIENCY) set_efficiency(time, from, t, source);
        else set(time, from, tool_calibrate_constants[i], value[i], source);
    }
    if (r->fitted & TOOL_CALIBRATE_PROGRAMS) set_programs(time, from, t);
    json_object_set_new(time, "calibration", calibration_of(r));
    json_object_set_new(o, "name", json_string(r->name));
    return o;
}

json_t *tool_calibrate_profile(const tool_calibrate_report *r)
{
    if (r->like) return over_like(r);
    return json_pack("{s:s, s:o, s:{}, s:b, s:o, s:{s:s, s:s, s:s}}", "name", r->name, "title",
                     json_sprintf("Measured with %.60s", r->model), "operators", "companion", 1, "time",
                     time_of(r), "sources", "operators", "m: a server whose inside is not known", "companion",
                     "m: as operators", "time", "m: each value with its own");
}

/* ---- what is printed ----------------------------------------------------------------------------- */

static void add_points(json_t *prompts, json_t *steps, const tool_calibrate_report *r,
                       const tool_calibrate_points *p, bool is_held)
{
    const bt_profile *by = is_held ? r->judged : r->profile;
    for (size_t i = 0; i < p->prompts; i++)
        json_array_append_new(prompts,
                              json_pack("{s:I, s:f, s:f, s:b}", "tokens", (json_int_t)p->prompt[i].tokens,
                                        "measured_ms", ms(p->prompt[i].ns), "predicted_ms",
                                        ms(prompt_ns(r, by, &p->prompt[i])), "held_out", is_held));
    for (size_t i = 0; i < p->steps; i++)
        json_array_append_new(
            steps, json_pack("{s:I, s:I, s:f, s:f, s:b}", "batch", (json_int_t)p->step[i].batch, "context",
                             (json_int_t)p->step[i].ctx, "measured_ms", ms(p->step[i].ns), "predicted_ms",
                             ms(step_ns(r, by, &p->step[i])), "held_out", is_held));
}

/* Without points the two errors are null. */
static json_t *errors_json(const point_errors *e)
{
    return json_pack("{s:I, s:o, s:o}", "points", (json_int_t)e->n, "median_error",
                     e->n ? json_real(e->median) : json_null(), "worst_error",
                     e->n ? json_real(e->worst) : json_null());
}

json_t *tool_calibrate_json(const tool_calibrate_report *r)
{
    const tool_calibrate_measured *m = r->measured;
    const tool_calibrate_table *t = r->table;
    const point_errors fit = point_errors_of(r, r->profile, fitted_points(r)),
                       held = point_errors_of(r, r->judged, r->held);
    json_t *prompts = json_array(), *steps = json_array();
    add_points(prompts, steps, r, fitted_points(r), false);
    add_points(prompts, steps, r, r->held, true);
    json_t *o =
        json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "model", r->model, "profile_file", r->path,
                  "constants", (json_int_t)r->constants, "program_rows", programs_of(&r->profile->time),
                  "prompts", prompts, "steps", steps, "fitted", errors_json(&fit), "held_out",
                  errors_json(&held), "profile", tool_calibrate_profile(r));
    json_t *more = m ? json_pack("{s:s, s:I, s:I, s:I, s:b, s:f}", "url", r->url, "requests",
                                 (json_int_t)m->requests, "failed", (json_int_t)m->failed, "left_out",
                                 (json_int_t)m->left_out, "deadline_came", m->is_late, "spread", m->spread)
                     : json_pack("{s:s, s:I, s:I, s:s}", "table", t->on, "rows", (json_int_t)t->rows,
                                 "left_out", (json_int_t)t->left_out, "why_left_out", t->why_left_out);
    if (o && more) json_object_update(o, more);
    json_decref(more);
    return o;
}

static void print_points(const tool_calibrate_report *r, const tool_calibrate_points *p, bool is_held)
{
    const bt_profile *by = is_held ? r->judged : r->profile;
    const char *note = !is_held ? "" : r->table ? "  by a fit without it" : "  held out";
    for (size_t i = 0; i < p->prompts; i++)
        printf("  prompt of %6u tokens        %10.2f ms %10.2f ms %+6.1f %%%s\n", p->prompt[i].tokens,
               ms(p->prompt[i].ns), ms(prompt_ns(r, by, &p->prompt[i])),
               100 * (prompt_ns(r, by, &p->prompt[i]) / p->prompt[i].ns - 1), note);
    for (size_t i = 0; i < p->steps; i++)
        printf("  step of %3u at %6u positions  %9.2f ms %10.2f ms %+6.1f %%%s\n", p->step[i].batch,
               p->step[i].ctx, ms(p->step[i].ns), ms(step_ns(r, by, &p->step[i])),
               100 * (step_ns(r, by, &p->step[i]) / p->step[i].ns - 1), note);
}

static void print_constants(const tool_calibrate_report *r)
{
    const bt_profile_time *t = &r->profile->time;
    const char *comma = "";
    printf("constants   %u fitted", r->constants);
    for (int i = 0; r->like && i < TOOL_CALIBRATE_CONSTANTS; i++)
        if (r->fitted >> i & 1)
            printf("%s%s", *comma ? comma : ": ", tool_calibrate_constants[i]), comma = ", ";
    if (r->like) printf("; the others are those of %s", json_string_value(json_object_get(r->like, "name")));
    if (t->programs) printf("\nprograms    prompts are padded to");
    for (uint32_t i = 0; i < t->programs; i++) printf("%s%u", i ? ", " : " ", t->program_rows[i]);
    printf("%s\n", t->programs ? " rows" : "");
}

static void print_server(const tool_calibrate_report *r)
{
    const tool_calibrate_measured *m = r->measured;
    printf("spread      the least time of a length is %.1f %% below its median\n", 100 * m->spread);
    printf("requests    %u, %u failed%s%s, %u left out%s%s%s\n", m->requests, m->failed,
           m->failure[0] ? ": " : "", m->failure, m->left_out, m->why_left_out ? ": " : "",
           m->why_left_out ? m->why_left_out : "", m->is_late ? "; the deadline came" : "");
}

/* A profile whose steps were fitted is a node of its own; else its prompts stand beside the steps of another.
 */
static void print_next(const tool_calibrate_report *r)
{
    const bool has_programs = !r->profile->companion, is_4_bits = r->priced->recipe.weight_bits == 4;
    if (!has_programs && fitted_points(r)->steps)
        printf("next        baton simulate TRACE -m MODEL --prefill 0 --decode 1:%s --chunk-tokens 4096",
               r->path);
    else printf("next        baton simulate TRACE -m MODEL --prefill 1:%s --decode 1:DEVICE", r->path);
    if (has_programs && is_4_bits) printf(" --quant w4a16");
    if (!has_programs && r->weights) printf(" --weights %s", r->weights);
    if (r->kv) printf(" --kv-dtype %s", r->kv);
    printf("%s -c N\n", r->url ? " --request-cpu 0 --token-cpu 0" : "");
}

void tool_calibrate_print(const tool_calibrate_report *r)
{
    const tool_calibrate_measured *m = r->measured;
    const point_errors held = point_errors_of(r, r->judged, r->held);
    printf("%-31s %13s %13s\n", "", "measured", "predicted");
    print_points(r, fitted_points(r), false);
    print_points(r, r->held, true);
    printf("\n");
    if (m) print_server(r);
    else
        printf("rows        %u of %s, %u left out%s%s\n", r->table->rows, r->table->on, r->table->left_out,
               r->table->left_out ? ": " : "", r->table->why_left_out);
    print_constants(r);
    if (held.n)
        printf("held out    %zu points%s, median error %.1f %%, worst %.1f %%\n", held.n,
               r->table ? ", by a fit without them" : "", 100 * held.median, 100 * held.worst);
    else printf("held out    none: the error is unknown\n");
    printf("profile     %s\n", r->path);
    print_next(r);
}
