/* Schedules of nodes, of a package or of sizes alone. See overlap.h. */
#include "lab/simulate/overlap.h"
#include "npu/price/schedule_play.h"
#include "lab/simulate/prices.h"

#include <stdlib.h>

struct tool_simulate_overlap {
    bt_profile profile, companion; /* of `play` */
    bt_schedule_play *play;        /* of a package; NULL: of sizes, which is all that follows */
    tool_simulate_programs made;
    bt_schedule_policy policy;
    size_t window, stages, layers, room, chunks, ordered;
    bt_schedule_stage *stage; /* [stages] */
    uint64_t *ns;             /* [room][TOOL_PLAN_STAGES] of one layer of a chunk */
    uint64_t *stored_ns;      /* [room][layers] */
    uint64_t *ends;           /* [room] */
    uint32_t *order;          /* [room * layers] */
};

static bt_err of_package(tool_simulate_overlap *o, const tool_simulate_setup *s, bt_fault *fault)
{
    const bt_schedule_play_config k = {.pkg = s->package, .engines = {&o->profile, &o->companion},
                                       .policy = o->policy, .window = o->window};
    return bt_schedule_play_new(&o->play, &k, fault);
}

static bt_err of_sizes(tool_simulate_overlap *o, const tool_simulate_setup *s, const tool_simulate_group *g,
                       bt_fault *fault)
{
    bt_schedule check;
    bt_err e = tool_simulate_programs_of(&o->made, s, g, fault);
    o->layers = tool_simulate_dims(s, g->model)->layers;
    o->stages = o->layers * TOOL_PLAN_STAGES;
    o->stage = calloc(o->stages, sizeof *o->stage);
    if (e == BT_OK && !o->stage) e = bt_fail(fault, BT_ENOMEM, "a schedule");
    for (size_t i = 0; e == BT_OK && i < o->stages; i++) {
        const uint32_t in_layer = (uint32_t)(i % TOOL_PLAN_STAGES);
        o->stage[i].engine = tool_plan_stage_is_npu(in_layer) ? BT_SCHEDULE_NPU : BT_SCHEDULE_COMPANION;
        o->stage[i].joins = in_layer == TOOL_PLAN_ATTENTION;
    }
    const bt_schedule_plan plan = {.policy = o->policy, .stage = o->stage, .stages = o->stages, .chunks = 1,
                                   .window = o->window};
    return e == BT_OK ? bt_schedule_init(&check, &plan, fault) : e;
}

bt_err tool_simulate_overlap_new(tool_simulate_overlap **ret, const tool_simulate_setup *s,
                                 const tool_simulate_group *g, bt_fault *fault)
{
    *ret = NULL;
    const bool is_serial = s->schedule == BT_SCHEDULE_SERIAL && !tool_simulate_is_of_package(s, g);
    if (is_serial || !tool_simulate_has_engines(g)) return BT_OK;
    tool_simulate_overlap *o = calloc(1, sizeof *o);
    if (!o) return bt_fail(fault, BT_ENOMEM, "a schedule");
    o->policy = s->schedule;
    o->window = s->window;
    o->profile = g->profile;
    bt_err e = bt_profile_companion(&o->companion, &g->profile, fault);
    if (e == BT_OK)
        e = tool_simulate_is_of_package(s, g) ? of_package(o, s, fault) : of_sizes(o, s, g, fault);
    if (e == BT_OK) *ret = o;
    else tool_simulate_overlap_free(o);
    return e;
}

void tool_simulate_overlap_free(tool_simulate_overlap *o)
{
    if (!o) return;
    bt_schedule_play_free(o->play);
    free(o->stage);
    free(o->ns);
    free(o->stored_ns);
    free(o->ends);
    free(o->order);
    free(o);
}

/* ---- a prompt of sizes --------------------------------------------------------------------------- */

static bool grow(void **list, size_t n, size_t size)
{
    void *more = reallocarray(*list, n, size);
    if (more) *list = more;
    return more != NULL;
}

static bool make_room(tool_simulate_overlap *o)
{
    const size_t room = o->room ? 2 * o->room : 16;
    void *ns = o->ns, *stored = o->stored_ns, *ends = o->ends, *order = o->order;
    if (o->chunks < o->room) return true;
    const bool ok = grow(&ns, room * TOOL_PLAN_STAGES, sizeof *o->ns) &&
                    grow(&stored, room * o->layers, sizeof *o->stored_ns) &&
                    grow(&ends, room, sizeof *o->ends) && grow(&order, room * o->layers, sizeof *o->order);
    o->ns = ns;
    o->stored_ns = stored;
    o->ends = ends;
    o->order = order;
    if (ok) o->room = room;
    return ok;
}

static bool add_chunk(tool_simulate_overlap *o, uint64_t begin, uint64_t end)
{
    const bt_shapes_chunk c = bt_shapes_next(&o->made.shapes, (size_t)end, (size_t)begin);
    if (!make_room(o)) return false;
    const uint32_t program = tool_plan_program_for(&o->made.programs, c.rows);
    for (uint32_t j = 0; j < TOOL_PLAN_STAGES; j++)
        o->ns[o->chunks * TOOL_PLAN_STAGES + j] =
            bt_time_plus(tool_plan_stage_ns(&o->made.programs, program, begin, j),
                         tool_plan_owed_ns(&o->made.programs, program, begin, j));
    o->ends[o->chunks++] = begin + c.valid;
    return true;
}

static uint64_t cost_ns(const void *ud, size_t chunk, size_t stage)
{
    const tool_simulate_overlap *o = ud;
    return o->ns[chunk * TOOL_PLAN_STAGES + stage % TOOL_PLAN_STAGES];
}

/* Keys and values of a layer are stored by the stage in front of attention. */
static void on_span(void *ud, const bt_schedule_span *s)
{
    tool_simulate_overlap *o = ud;
    if (s->task.stage % TOOL_PLAN_STAGES != TOOL_PLAN_ATTENTION - 1) return;
    const size_t i = s->task.chunk * o->layers + s->task.stage / TOOL_PLAN_STAGES;
    o->stored_ns[i] = bt_time_plus(s->end_ns, o->made.programs.price.first_ns);
    o->order[o->ordered++] = (uint32_t)i;
}

bool tool_simulate_overlap_play(void *overlap, bt_work_played *ret, uint64_t first, uint64_t end)
{
    tool_simulate_overlap *o = overlap;
    const bt_price *price = &o->made.programs.price;
    bt_schedule_result r;
    if (o->play) return bt_schedule_play_prompt(o->play, ret, first, end);
    o->chunks = o->ordered = 0;
    for (uint64_t begin = first; begin < end; begin = o->ends[o->chunks - 1])
        if (!add_chunk(o, begin, end)) return false;
    const bt_schedule_plan plan = {.policy = o->policy,
                                   .stage = o->stage,
                                   .stages = o->stages,
                                   .chunks = o->chunks,
                                   .window = o->window,
                                   .cost_ns = cost_ns,
                                   .ud = o};
    if (!o->chunks || bt_schedule_model(&plan, on_span, o, &r, NULL) < 0) return false;
    *ret = (bt_work_played){.ns = bt_time_plus(bt_time_plus(price->first_ns, r.makespan_ns), price->last_ns),
                            .busy_ns = {r.busy_ns[BT_SCHEDULE_NPU], r.busy_ns[BT_SCHEDULE_COMPANION]},
                            .chunks = o->chunks,
                            .ends = o->ends,
                            .stored_ns = o->stored_ns,
                            .order = o->order};
    return true;
}
