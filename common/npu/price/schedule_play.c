/* Chunks are cut as the engine cuts them, their stages priced one by one, and the schedule tells when each
 * ends. */
#include "npu/price/schedule_play.h"
#include "npu/pkg/pkg_shapes.h"

#include <stdlib.h>
#include <string.h>

struct bt_schedule_play {
    bt_schedule_play_config c;
    bt_shapes shapes;
    size_t stages, layers;
    bt_stage *stage, *other;                /* [stages] of a chunk that makes logits; of any chunk */
    bt_schedule_stage *as_stage, *as_other; /* [stages] */
    size_t room, chunks;
    uint64_t *ns;        /* [room][stages] */
    uint64_t *stored_ns; /* [room][layers] */
    uint64_t *ends;      /* [room] */
    uint32_t *order;     /* [room * layers] */
    size_t ordered;
};

/* The stages of a program are those of the last chunk, or a beginning of them. */
static bt_err look_at(size_t *ret, bt_schedule_play *p, uint32_t program, bt_fault *fault)
{
    const size_t n = bt_stages_of(p->other, p->as_other, p->stages, p->c.pkg, program);
    if (n > p->stages || memcmp(p->as_other, p->as_stage, n * sizeof *p->as_stage) != 0)
        return bt_fail(fault, BT_EARG,
                       "program %u of the package has other stages than the one that makes logits, so no "
                       "schedule of them is priced",
                       program);
    *ret = n;
    return BT_OK;
}

static bt_err look_at_all(bt_schedule_play *p, bt_fault *fault)
{
    const bt_pkg_row *row = bt_pkg_rows(p->c.pkg), *one = NULL;
    const uint32_t rows = bt_pkg_header_of(p->c.pkg)->rows.count;
    bt_err e = BT_OK;
    size_t n;
    for (uint32_t i = 0; i < rows; i++)
        if (row[i].batch == 1) one = &row[i];
    if (!one) return bt_fail(fault, BT_EARG, "the package has no program for one sequence alone");
    const uint32_t last = one->program[BT_PKG_OUT_LAST];
    p->stages = bt_stages_of(NULL, NULL, 0, p->c.pkg, last);
    p->stage = calloc(p->stages + 1, sizeof *p->stage);
    p->other = calloc(p->stages + 1, sizeof *p->other);
    p->as_stage = calloc(p->stages + 1, sizeof *p->as_stage);
    p->as_other = calloc(p->stages + 1, sizeof *p->as_other);
    if (!p->stage || !p->other || !p->as_stage || !p->as_other)
        return bt_fail(fault, BT_ENOMEM, "a schedule of %zu stages", p->stages);
    bt_stages_of(p->stage, p->as_stage, p->stages, p->c.pkg, last);
    for (uint32_t i = 0; e == BT_OK && i < rows; i++)
        for (int k = 0; e == BT_OK && row[i].batch == 1 && k < 2; k++)
            e = look_at(&n, p, row[i].program[k ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE], fault);
    return e;
}

bt_err bt_schedule_play_new(bt_schedule_play **ret, const bt_schedule_play_config *config, bt_fault *fault)
{
    bt_schedule_play *p = calloc(1, sizeof *p);
    bt_schedule s;
    if (!p) return bt_fail(fault, BT_ENOMEM, "a schedule");
    p->c = *config;
    p->c.engines.overlap = config->policy != BT_SCHEDULE_SERIAL;
    p->layers = bt_pkg_header_of(config->pkg)->layers;
    bt_err e = bt_pkg_shapes(&p->shapes, config->pkg, fault);
    if (e == BT_OK) e = look_at_all(p, fault);
    const bt_schedule_plan plan = {.policy = config->policy, .stage = p->as_stage, .stages = p->stages,
                                   .chunks = 1, .window = config->window};
    if (e == BT_OK) e = bt_schedule_init(&s, &plan, fault);
    if (e == BT_OK) *ret = p;
    else bt_schedule_play_free(p);
    return e;
}

void bt_schedule_play_free(bt_schedule_play *p)
{
    if (!p) return;
    free(p->stage);
    free(p->other);
    free(p->as_stage);
    free(p->as_other);
    free(p->ns);
    free(p->stored_ns);
    free(p->ends);
    free(p->order);
    free(p);
}

/* ---- a prompt ---- */

static bool grow(void **list, size_t n, size_t size)
{
    void *more = realloc(*list, n * size);
    if (more) *list = more;
    return more != NULL;
}

static bool make_room(bt_schedule_play *p)
{
    const size_t room = p->room ? 2 * p->room : 16;
    if (p->chunks < p->room) return true;
    if (!grow((void **)&p->ns, room * p->stages, sizeof *p->ns) ||
        !grow((void **)&p->stored_ns, room * p->layers, sizeof *p->stored_ns) ||
        !grow((void **)&p->ends, room, sizeof *p->ends) ||
        !grow((void **)&p->order, room * p->layers, sizeof *p->order))
        return false;
    p->room = room;
    return true;
}

static bool add_chunk(bt_schedule_play *p, uint64_t first, uint64_t begin, uint64_t end)
{
    const bt_shapes_chunk c = bt_shapes_next(&p->shapes, end, begin);
    const bt_pkg_row *row;
    size_t n;
    if (!make_room(p) || bt_pkg_find_row(&row, p->c.pkg, 1, c.rows, begin + c.valid, NULL) < 0) return false;
    const bool is_last = begin + c.valid == end;
    const uint32_t program = row->program[is_last ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE];
    const bt_stage_chunk at = {.pos = begin, .rows = c.rows, .ctx = row->ctx, .is_first = begin == first};
    if (look_at(&n, p, program, NULL) < 0) return false;
    uint64_t *ns = &p->ns[p->chunks * p->stages];
    memset(ns, 0, p->stages * sizeof *ns);
    bt_stage_costs(ns, &p->c.engines, p->c.pkg, program, p->other, n, &at);
    p->ends[p->chunks++] = begin + c.valid;
    return true;
}

static uint64_t cost_ns(const void *ud, size_t chunk, size_t stage)
{
    const bt_schedule_play *p = ud;
    return p->ns[chunk * p->stages + stage];
}

static void on_span(void *ud, const bt_schedule_span *s)
{
    bt_schedule_play *p = ud;
    const uint32_t layer = p->stage[s->task.stage].stores;
    if (layer >= p->layers) return;
    const size_t i = s->task.chunk * p->layers + layer;
    p->stored_ns[i] = s->end_ns;
    p->order[p->ordered++] = (uint32_t)i;
}

bool bt_schedule_play_prompt(void *play, bt_work_played *ret, uint64_t first, uint64_t end)
{
    bt_schedule_play *p = play;
    bt_schedule_result r;
    p->chunks = p->ordered = 0;
    for (uint64_t begin = first; begin < end; begin = p->ends[p->chunks - 1])
        if (!add_chunk(p, first, begin, end)) return false;
    const bt_schedule_plan plan = {.policy = p->c.policy,
                                   .stage = p->as_stage,
                                   .stages = p->stages,
                                   .chunks = p->chunks,
                                   .window = p->c.window,
                                   .cost_ns = cost_ns,
                                   .ud = p};
    if (!p->chunks || bt_schedule_model(&plan, on_span, p, &r, NULL) < 0 ||
        p->ordered != p->chunks * p->layers)
        return false;
    *ret = (bt_work_played){
        .ns = r.makespan_ns,       .busy_ns = {r.busy_ns[BT_SCHEDULE_NPU], r.busy_ns[BT_SCHEDULE_COMPANION]},
        .chunks = p->chunks,       .ends = p->ends,
        .stored_ns = p->stored_ns, .order = p->order};
    return true;
}
