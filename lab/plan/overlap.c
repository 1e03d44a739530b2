/* Shares of program order, at some numbers of chunks. */
#include "lab/plan/overlap.h"

#include <stdlib.h>

/* Every number of chunks up to EACH, because whether it is odd matters; behind that a quarter more each time.
 * Behind LAST_COUNTS chunks it makes no difference how long the last one is. */
enum { SHARE = 1 << 20, MAX_POINTS = 128, EACH = 32, LAST_COUNTS = 48 };

typedef struct point {
    uint32_t share;   /* by SHARE; 0: not played so far */
    bool has_exposed; /* of prompts with so many chunks exactly */
    uint64_t exposed_ns;
} point;

struct tool_plan_overlap {
    const tool_plan_how *how;
    size_t at[MAX_POINTS], points; /* numbers of chunks, ascending */
    uint64_t most;                 /* chunks */
    point *played;                 /* [points][programs] */
    point *exposed;                /* [most + 1][programs] */
};

static uint64_t full_rows(const tool_plan_how *how)
{
    return how->shapes->shape[how->shapes->shapes - 1].seq;
}

bt_err tool_plan_overlap_new(tool_plan_overlap **ret, const tool_plan_how *how, uint64_t longest,
                             bt_fault *fault)
{
    const uint32_t programs = how->programs->price.programs;
    tool_plan_overlap *o = calloc(1, sizeof *o);
    if (!o) return bt_fail(fault, BT_ENOMEM, "planning a schedule");
    o->how = how;
    o->most = longest / how->shapes->shape[0].seq_min + 1;
    for (size_t n = 1; o->points < MAX_POINTS; n = n < EACH ? n + 1 : n * 5 / 4) {
        o->at[o->points++] = n;
        if (n >= o->most) break;
    }
    o->played = calloc(o->points * programs, sizeof *o->played);
    o->exposed = calloc((o->most + 1) * programs, sizeof *o->exposed);
    if (!o->played || !o->exposed) {
        tool_plan_overlap_free(o);
        return bt_fail(fault, BT_ENOMEM, "planning a schedule");
    }
    *ret = o;
    return BT_OK;
}

void tool_plan_overlap_free(tool_plan_overlap *o)
{
    if (!o) return;
    free(o->played);
    free(o->exposed);
    free(o);
}

/* ---- one prompt, all of it ---- */
typedef struct costs {
    uint64_t *stage; /* [chunks][TOOL_PLAN_STAGES] */
} costs;

static uint64_t cost_of(const void *ud, size_t chunk, size_t stage)
{
    return ((const costs *)ud)->stage[chunk * TOOL_PLAN_STAGES + stage % TOOL_PLAN_STAGES];
}

bt_err tool_plan_overlap_play(tool_plan_played *ret, const tool_plan_how *how, size_t chunks, uint32_t last,
                              bt_fault *fault)
{
    const tool_plan_programs *p = how->programs;
    const size_t stages = (size_t)p->layers * TOOL_PLAN_STAGES;
    const uint32_t full = tool_plan_program_for(p, full_rows(how));
    tool_plan_played r = {0, 0};
    bt_schedule_result result = {0};
    costs c = {calloc(chunks * TOOL_PLAN_STAGES, sizeof *c.stage)};
    bt_schedule_stage *stage = calloc(stages, sizeof *stage);
    bt_err e =
        c.stage && stage ? BT_OK : bt_fail(fault, BT_ENOMEM, "playing a schedule of %zu chunks", chunks);
    for (size_t k = 0; e == BT_OK && k < chunks; k++)
        for (uint32_t j = 0; j < TOOL_PLAN_STAGES; j++) {
            const uint32_t program = k + 1 < chunks ? full : last;
            const uint64_t first = k * full_rows(how), ns = tool_plan_stage_ns(p, program, first, j);
            c.stage[k * TOOL_PLAN_STAGES + j] = bt_time_plus(ns, tool_plan_owed_ns(p, program, first, j));
            r.serial_ns = bt_time_plus(r.serial_ns, bt_time_times(ns, p->layers));
        }
    for (size_t j = 0; e == BT_OK && j < stages; j++) {
        const uint32_t in_layer = (uint32_t)(j % TOOL_PLAN_STAGES);
        stage[j].engine = tool_plan_stage_is_npu(in_layer) ? BT_SCHEDULE_NPU : BT_SCHEDULE_COMPANION;
        stage[j].joins = in_layer == TOOL_PLAN_ATTENTION;
    }
    const bt_schedule_plan plan = {
        .policy = how->schedule, .stage = stage,     .stages = stages, .chunks = chunks,
        .window = how->window,   .cost_ns = cost_of, .ud = &c};
    if (e == BT_OK) e = bt_schedule_model(&plan, NULL, NULL, &result, fault);
    r.ns = result.makespan_ns;
    if (e == BT_OK) *ret = r;
    free(c.stage);
    free(stage);
    return e;
}

/* ---- between the points ---- */

static bt_err share_at(uint32_t *ret, tool_plan_overlap *o, size_t i, uint32_t last, bt_fault *fault)
{
    if (o->at[i] > LAST_COUNTS) last = tool_plan_program_for(o->how->programs, full_rows(o->how));
    point *p = &o->played[i * o->how->programs->price.programs + last];
    tool_plan_played all;
    if (!p->share) {
        const bt_err e = tool_plan_overlap_play(&all, o->how, o->at[i], last, fault);
        if (e < 0) return e;
        p->share = (uint32_t)bt_time_scale(all.ns, SHARE, all.serial_ns);
        if (!p->share) p->share = 1;
    }
    *ret = p->share;
    return BT_OK;
}

static bt_err share_of(uint32_t *ret, tool_plan_overlap *o, uint64_t chunks, uint32_t last, bt_fault *fault)
{
    size_t i = 0;
    uint32_t low, high;
    while (i + 1 < o->points && o->at[i] < chunks) i++;
    bt_err e = share_at(&high, o, i, last, fault);
    if (e < 0 || !i || o->at[i] <= chunks) {
        if (e == BT_OK) *ret = high;
        return e;
    }
    if ((e = share_at(&low, o, i - 1, last, fault)) < 0) return e;
    const int64_t span = (int64_t)(o->at[i] - o->at[i - 1]), in = (int64_t)(chunks - o->at[i - 1]);
    *ret = (uint32_t)((int64_t)low + ((int64_t)high - (int64_t)low) * in / span);
    return BT_OK;
}

/* The same chunks, each shorter by the share. */
static uint64_t exposed_of(const tool_plan_overlap *o, uint64_t chunks, uint32_t last, uint32_t share)
{
    const tool_plan_how *how = o->how;
    const bt_price *p = &how->programs->price;
    const uint32_t full = tool_plan_program_for(how->programs, full_rows(how));
    bt_link_queue wire = {0};
    uint64_t now = 0;
    const uint64_t quickest = bt_time_scale(bt_price_chunk_ns(p, full, 0), share, SHARE),
                   wired = bt_time_times(how->layers,
                                         bt_link_ns(&how->link, bt_time_times(how->kv_bytes / how->layers,
                                                                              full_rows(how))));
    /* Where a full chunk's KV is gone before the next is done, the last chunk alone decides. */
    for (uint64_t k = wired <= quickest ? chunks - 1 : 0; k < chunks; k++) {
        const uint32_t i = k + 1 < chunks ? full : last;
        const uint64_t took = bt_time_scale(bt_price_chunk_ns(p, i, k * full_rows(how)), share, SHARE);
        bt_link_chunk(&wire, &how->link, now, took, how->layers,
                      bt_time_times(how->kv_bytes / how->layers, p->program[i].rows));
        now = bt_time_plus(now, took);
    }
    return bt_link_exposed_ns(&wire, bt_time_plus(now, p->last_ns));
}

bt_err tool_plan_overlap_apply(tool_plan_prompt *p, tool_plan_overlap *o, uint64_t chunks_ns, uint32_t last,
                               bt_fault *fault)
{
    uint32_t share = SHARE;
    const bt_err e = share_of(&share, o, p->chunks, last, fault);
    if (e < 0) return e;
    point *known = &o->exposed[p->chunks * o->how->programs->price.programs + last];
    if (!known->has_exposed) {
        known->exposed_ns = exposed_of(o, p->chunks, last, share);
        known->has_exposed = true;
    }
    p->ns = bt_time_plus(p->ns - chunks_ns, bt_time_scale(chunks_ns, share, SHARE));
    p->exposed_ns = known->exposed_ns;
    return BT_OK;
}
