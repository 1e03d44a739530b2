/* See ramp.h. */
#include "lab/replay/ramp.h"
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

int tool_replay_ramp_run(const tool_replay_ramp_job *j, bt_fault *fault)
{
    tool_replay_ramp r;
    tool_replay_tried *t = calloc(1, sizeof *t);
    json_t *steps = json_array();
    double best_per_s = 0;
    bt_err e = t && steps ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for a run");
    bool goes_on = true;
    tool_replay_ramp_begin(&r, j->speed);
    if (!j->json)
        printf("%10s %12s %10s %10s %12s %12s\n", "speed", "offered/s", "good", "failed", "TTFT p99 ms",
               "TPOT p99 ms");
    while (goes_on && e == BT_OK) {
        const double tried = r.load;
        e = j->run(j->ud, t, tried, (uint32_t)r.steps, fault);
        if (e < 0) break;
        const bool is_carried = (double)t->figures.good >= j->share * (double)t->figures.requests;
        (void)json_array_append_new(steps, step_json(t, tried, is_carried));
        if (!j->json) print_step(t, tried, is_carried);
        goes_on = tool_replay_ramp_next(&r, is_carried);
        if (is_carried && r.best <= tried) best_per_s = t->offered_per_s;
    }
    int rc = e == BT_ECANCEL ? TOOL_INTERRUPTED : e < 0 ? tool_fail(j->command, fault) : r.best > 0 ? 0 : 1;
    if (j->json) {
        json_t *told =
            json_pack("{s:f, s:f, s:O, s:O*, s:O*, s:O*}", "best_speed", r.best, "best_rps", best_per_s,
                      "steps", steps, "ignored", j->ignored, "error", j->error, "made_by", j->made_by);
        rc = tool_print_json(j->command, told) ? 1 : rc;
    } else if (r.best > 0) {
        printf("highest     %.3f requests/s (speed %.4g) keep %s\n", best_per_s, r.best, j->slo);
    } else if (e == BT_OK) {
        printf("highest     none of these rates keeps %s\n", j->slo);
    }
    json_decref(steps);
    free(t);
    return rc;
}
