/* See ramp.h. */
#include "lab/replay/ramp.h"
#include "device/forecast.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tool_replay_ramp_begin(tool_replay_ramp *r, double load) { *r = (tool_replay_ramp){.load = load}; }

bool tool_replay_ramp_next(tool_replay_ramp *r, bool is_carried)
{
    r->steps++;
    if (is_carried && r->load > r->best) r->best = r->load;
    if (!is_carried && (r->too_much <= 0 || r->load < r->too_much)) r->too_much = r->load;
    if (r->best > 0 && r->too_much > 0 && r->too_much < r->best)
        r->too_much = 0; /* it was chance: look higher again */
    if (r->steps == TOOL_REPLAY_RAMP_STEPS) return false;
    if (r->too_much <= 0) r->load = r->best * 2;
    else if (r->best <= 0) r->load = r->too_much / 2;
    else if (r->too_much <= r->best * 1.05) return false;
    else r->load = (r->best + r->too_much) / 2;
    return true;
}

double tool_replay_offered(const tool_replay_plan *p)
{
    const int64_t last = p->order_len ? p->item[p->order[p->order_len - 1]].due_us : 0;
    return last > 0 ? (double)(p->order_len - 1) * 1e6 / (double)last : 0;
}

static json_t *step_json(const tool_replay_tried *t, double speed, bool is_carried)
{
    const tool_replay_figures *f = &t->figures;
    return json_pack("{s:f, s:f, s:I, s:I, s:I, s:f, s:f, s:f, s:b, s:b}", "speed", speed,
                     "requests_per_second", f->requests_per_s, "requests", (json_int_t)f->requests, "failed",
                     (json_int_t)f->failed, "good", (json_int_t)f->good, "goodput_rps", f->goodput_per_s,
                     "ttft_p99_ms", f->ttft_ms.p99, "tpot_p99_ms", f->tpot_ms.p99, "is_carried",
                     (int)is_carried, "is_bottleneck", (int)f->is_bottleneck);
}

static void print_step(const tool_replay_tried *t, double speed, bool is_carried)
{
    const tool_replay_figures *f = &t->figures;
    printf("%10.4g %12.3f %9.1f%% %10zu %12.1f %12.1f%s%s\n", speed, t->offered_per_s,
           100.0 * (double)f->good / (double)f->requests, f->failed, f->ttft_ms.p99, f->tpot_ms.p99,
           is_carried ? "" : "  too much", f->is_bottleneck ? ", of the generator too" : "");
    (void)bt_opt_flush();
}

/* A whole search. steps: where each run is told, and printed but in JSON; NULL: nothing is. */
static bt_err search(tool_replay_ramp *r, double *ret_best_per_s, const tool_replay_ramp_job *j, double speed,
                     json_t *steps, bt_fault *fault)
{
    tool_replay_tried *t = calloc(1, sizeof *t);
    bt_err e = t ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for a run");
    bool goes_on = true;
    tool_replay_ramp_begin(r, speed);
    *ret_best_per_s = 0;
    while (goes_on && e == BT_OK) {
        const double tried = r->load;
        e = j->run(j->ud, t, tried, (uint32_t)r->steps, fault);
        if (e < 0) break;
        const bool is_carried = (double)t->figures.good >= j->share * (double)t->figures.requests;
        if (steps) (void)json_array_append_new(steps, step_json(t, tried, is_carried));
        if (steps && !j->json) print_step(t, tried, is_carried);
        goes_on = tool_replay_ramp_next(r, is_carried);
        if (is_carried && r->best <= tried) *ret_best_per_s = t->offered_per_s;
    }
    free(t);
    return e;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The search again in each draw, from the rate that was found, or as the first one where it found no end. */
static bt_err draw_all(double *ret_rps, const tool_replay_ramp_job *j, double speed, bt_fault *fault)
{
    bt_err e = BT_OK;
    for (uint32_t i = 0; e == BT_OK && i < j->draws; i++) {
        tool_replay_ramp r;
        j->draw(j->ud, i);
        e = search(&r, &ret_rps[i], j, speed > 0 ? speed : j->speed, NULL, fault);
    }
    return e;
}

/* {count, seed, values, band}, as those of a run. Sorts rps. */
static json_t *draws_json(double *rps, double ret_band[2], const tool_replay_ramp_job *j)
{
    const size_t n = j->draws;
    json_t *values = json_array();
    for (size_t i = 0; i < n; i++) (void)json_array_append_new(values, json_real(rps[i]));
    qsort(rps, n, sizeof *rps, by_value);
    ret_band[0] = rps[bt_forecast_low(n)];
    ret_band[1] = rps[n - 1 - bt_forecast_low(n)];
    return json_pack("{s:I, s:I, s:{s:o}, s:{s:[f, f]}}", "count", (json_int_t)n, "seed", (json_int_t)j->seed,
                     "values", "best_rps", values, "band", "best_rps", ret_band[0], ret_band[1]);
}

int tool_replay_ramp_run(const tool_replay_ramp_job *j, bt_fault *fault)
{
    tool_replay_ramp r = {.best = 0};
    json_t *steps = json_array(), *draws = NULL;
    double best_per_s = 0, band[2] = {0, 0}, *rps = calloc(j->draws ? j->draws : 1, sizeof *rps);
    bt_err e = rps && steps ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for a search");
    if (!j->json)
        printf("%10s %12s %10s %10s %12s %12s\n", "speed", "offered/s", "good", "failed", "TTFT p99 ms",
               "TPOT p99 ms");
    if (e == BT_OK) e = search(&r, &best_per_s, j, j->speed, steps, fault);
    if (e == BT_OK && j->draws) e = draw_all(rps, j, r.too_much > 0 ? r.best : 0, fault);
    if (e == BT_OK && j->draws) draws = draws_json(rps, band, j);
    int rc = e == BT_ECANCEL ? TOOL_INTERRUPTED : e < 0 ? tool_fail(j->command, fault) : r.best > 0 ? 0 : 1;
    if (j->json) {
        json_t *told =
            json_pack("{s:f, s:f, s:b, s:O, s:O*, s:O*, s:O*, s:O*}", "best_speed", r.best, "best_rps",
                      best_per_s, "is_limit", (int)(r.too_much > 0), "steps", steps, "draws", draws,
                      "ignored", j->ignored, "error", j->error, "made_by", j->made_by);
        rc = tool_print_json(j->command, told) ? 1 : rc;
    } else if (r.best > 0) {
        printf("highest     %.3f requests/s (speed %.4g) keep %s%s\n", best_per_s, r.best, j->slo,
               r.too_much > 0 ? "" : "; no rate was too much: the load is too short");
    } else if (e == BT_OK) {
        printf("highest     none of these rates keeps %s\n", j->slo);
    }
    if (!j->json && draws)
        printf("band        %.3f to %.3f requests/s: nine of ten of %u draws\n", band[0], band[1],
               (unsigned)j->draws);
    json_decref(steps);
    json_decref(draws);
    free(rps);
    return rc;
}
