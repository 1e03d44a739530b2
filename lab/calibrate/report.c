/* Points beside what the profile makes of them. See report.h. */
#include "lab/calibrate/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double ms(double ns) { return ns / 1e6; }
static double prompt_ns(const tool_calibrate_report *r, const tool_calibrate_prompt *p)
{
    return tool_calibrate_prompt_ns(r->time, r->price, p->tokens);
}
static double step_ns(const tool_calibrate_report *r, const tool_calibrate_step *s)
{
    return tool_calibrate_step_ns(r->time, r->price, s->batch, s->ctx);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

tool_calibrate_errors tool_calibrate_errors_of(const tool_calibrate_report *r, const tool_calibrate_points *p)
{
    double e[TOOL_CALIBRATE_PROMPTS + TOOL_CALIBRATE_STEPS];
    size_t n = 0;
    for (size_t i = 0; i < p->prompts; i++) e[n++] = fabs(prompt_ns(r, &p->prompt[i]) / p->prompt[i].ns - 1);
    for (size_t i = 0; i < p->steps; i++) e[n++] = fabs(step_ns(r, &p->step[i]) / p->step[i].ns - 1);
    if (!n) return (tool_calibrate_errors){0};
    qsort(e, n, sizeof *e, ascending);
    return (tool_calibrate_errors){n, n % 2 ? e[n / 2] : (e[n / 2 - 1] + e[n / 2]) / 2, e[n - 1]};
}

/* ---- the profile --------------------------------------------------------------------------------- */

static void set(json_t *o, json_t *sources, const char *field, uint64_t v, const char *from)
{
    if (!v) return;
    json_object_set_new(o, field, json_integer((json_int_t)v));
    json_object_set_new(sources, field, json_string(from));
}

static json_t *time_of(const tool_calibrate_report *r)
{
    const bt_profile_time *t = r->time;
    json_t *o = json_object(), *from = json_object(), *points = json_array();
    json_object_set_new(o, "stack", json_string(t->stack));
    json_object_set_new(from, "stack", json_sprintf("m: requests to %.100s", r->url));
    set(o, from, "f16_ops_per_us", t->f16_ops_per_us,
        "m: of the fastest prompt; a rate that is reached, not a peak");
    for (uint32_t i = 0; i < t->points; i++)
        json_array_append_new(points, json_pack("[I, I]", (json_int_t)t->efficiency[i].rows,
                                                (json_int_t)t->efficiency[i].permille));
    json_object_set_new(o, "efficiency", points);
    json_object_set_new(from, "efficiency", json_string("m: prompts by length, steps by batch"));
    set(o, from, "memory_bytes_per_us", t->memory_bytes_per_us,
        "m: no limit was seen beside decode_bytes_per_us");
    set(o, from, "decode_bytes_per_us", t->decode_bytes_per_us, "m: steps by context and batch");
    set(o, from, "dispatch_ns", t->dispatch_ns, "m: what a step takes whatever its rows");
    set(o, from, "decode_op_ns", t->decode_op_ns, "m: what a step takes whatever its rows, by operator");
    set(o, from, "first_launch_ns", t->first_launch_ns, "m: the fixed time of a request, by operator");
    json_object_set_new(o, "sources", from);
    return o;
}

json_t *tool_calibrate_profile(const tool_calibrate_report *r)
{
    return json_pack("{s:s, s:o, s:{}, s:b, s:o, s:{s:s, s:s, s:s}}", "name", r->name, "title",
                     json_sprintf("Measured with %.60s", r->model), "operators", "companion", 1, "time",
                     time_of(r), "sources", "operators", "m: a server whose inside is not known", "companion",
                     "m: as operators", "time", "m: each value with its own");
}

/* ---- what is told -------------------------------------------------------------------------------- */

static void add_points(json_t *prompts, json_t *steps, const tool_calibrate_report *r,
                       const tool_calibrate_points *p, bool is_held)
{
    for (size_t i = 0; i < p->prompts; i++)
        json_array_append_new(prompts,
                              json_pack("{s:I, s:f, s:f, s:b}", "tokens", (json_int_t)p->prompt[i].tokens,
                                        "measured_ms", ms(p->prompt[i].ns), "predicted_ms",
                                        ms(prompt_ns(r, &p->prompt[i])), "held_out", is_held));
    for (size_t i = 0; i < p->steps; i++)
        json_array_append_new(
            steps, json_pack("{s:I, s:I, s:f, s:f, s:b}", "batch", (json_int_t)p->step[i].batch, "context",
                             (json_int_t)p->step[i].ctx, "measured_ms", ms(p->step[i].ns), "predicted_ms",
                             ms(step_ns(r, &p->step[i])), "held_out", is_held));
}

json_t *tool_calibrate_json(const tool_calibrate_report *r)
{
    const tool_calibrate_measured *m = r->measured;
    const tool_calibrate_errors held = tool_calibrate_errors_of(r, &m->held);
    json_t *prompts = json_array(), *steps = json_array();
    add_points(prompts, steps, r, &m->fit, false);
    add_points(prompts, steps, r, &m->held, true);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:b, s:o, s:o, s:{s:I, s:f, s:f}, s:o}", "url", r->url,
                     "model", r->model, "profile_file", r->path, "requests", (json_int_t)m->requests,
                     "failed", (json_int_t)m->failed, "left_out", (json_int_t)m->left_out, "deadline_came",
                     m->is_late, "prompts", prompts, "steps", steps, "held_out", "points", (json_int_t)held.n,
                     "median_error", held.median, "worst_error", held.worst, "profile",
                     tool_calibrate_profile(r));
}

static void print_points(const tool_calibrate_report *r, const tool_calibrate_points *p, const char *note)
{
    for (size_t i = 0; i < p->prompts; i++)
        printf("  prompt of %6u tokens        %10.2f ms %10.2f ms %+6.1f %%%s\n", p->prompt[i].tokens,
               ms(p->prompt[i].ns), ms(prompt_ns(r, &p->prompt[i])),
               100 * (prompt_ns(r, &p->prompt[i]) / p->prompt[i].ns - 1), note);
    for (size_t i = 0; i < p->steps; i++)
        printf("  step of %3u at %6u positions  %9.2f ms %10.2f ms %+6.1f %%%s\n", p->step[i].batch,
               p->step[i].ctx, ms(p->step[i].ns), ms(step_ns(r, &p->step[i])),
               100 * (step_ns(r, &p->step[i]) / p->step[i].ns - 1), note);
}

void tool_calibrate_print(const tool_calibrate_report *r)
{
    const tool_calibrate_measured *m = r->measured;
    const tool_calibrate_errors held = tool_calibrate_errors_of(r, &m->held);
    printf("%-31s %13s %13s\n", "", "measured", "predicted");
    print_points(r, &m->fit, "");
    print_points(r, &m->held, "  held out");
    printf("\nrequests    %u, %u failed%s%s, %u left out%s%s%s\n", m->requests, m->failed,
           m->failure[0] ? ": " : "", m->failure, m->left_out, m->why_left_out ? ": " : "",
           m->why_left_out ? m->why_left_out : "", m->is_late ? "; the deadline came" : "");
    if (held.n)
        printf("held out    %zu points, median error %.1f %%, worst %.1f %%\n", held.n, 100 * held.median,
               100 * held.worst);
    printf("profile     %s\n", r->path);
    printf("next        baton simulate TRACE -m MODEL --prefill 0 --decode 1:%s --chunk-tokens 4096 "
           "--request-cpu 0 "
           "--token-cpu 0 -c N\n",
           r->path);
}
