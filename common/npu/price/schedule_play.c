/* Playing a prompt: chunks are cut as the engine cuts them, stages are priced one by one, and the schedule
 * says when each ends. */
#include "npu/price/schedule_play.h"

#include <stdlib.h>

struct bt_schedule_play {
    bt_schedule_play_config c;
    bt_price_pkg_stages stages;
    size_t layers, room, chunks;
    uint64_t *ns;        /* [room][stages]: times of stages */
    uint64_t *stored_ns; /* [room][layers]: when a chunk's layer is stored */
    uint64_t *ends;      /* [room]: position behind each chunk */
    uint32_t *order;     /* [room * layers]: indices of stored_ns in the order of time */
    size_t ordered;
};

bt_err bt_schedule_play_new(bt_schedule_play **ret, const bt_schedule_play_config *config, bt_fault *fault)
{
    bt_schedule_play *p = calloc(1, sizeof *p);
    bt_schedule s;
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory for a schedule");
    p->c = *config;
    p->layers = bt_pkg_header_of(bt_price_pkg_of(config->price))->layers;
    p->stages = bt_price_pkg_stages_of(config->price);
    const bt_schedule_plan plan = {.policy = config->policy, .stage = p->stages.as_stage,
                                   .stages = p->stages.count, .chunks = 1, .window = config->window};
    const bt_err e = bt_schedule_init(&s, &plan, fault);
    if (e == BT_OK) *ret = p;
    else bt_schedule_play_free(p);
    return e;
}

void bt_schedule_play_free(bt_schedule_play *p)
{
    if (!p) return;
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
    if (!grow((void **)&p->ns, room * p->stages.count, sizeof *p->ns) ||
        !grow((void **)&p->stored_ns, room * p->layers, sizeof *p->stored_ns) ||
        !grow((void **)&p->ends, room, sizeof *p->ends) ||
        !grow((void **)&p->order, room * p->layers, sizeof *p->order))
        return false;
    p->room = room;
    return true;
}

static bool add_chunk(bt_schedule_play *p, uint64_t first, uint64_t begin, uint64_t end)
{
    bt_price_pkg_chunk c;
    if (!make_room(p) || bt_price_pkg_cut(&c, p->c.price, first, begin, end, NULL) < 0) return false;
    if (bt_price_pkg_stage_ns(&p->ns[p->chunks * p->stages.count], p->c.price, &c,
                              p->c.policy != BT_SCHEDULE_SERIAL, NULL) < 0)
        return false;
    p->ends[p->chunks++] = begin + c.valid;
    return true;
}

static uint64_t cost_ns(const void *ud, size_t chunk, size_t stage)
{
    const bt_schedule_play *p = ud;
    return p->ns[chunk * p->stages.count + stage];
}

static void on_span(void *ud, const bt_schedule_span *s)
{
    bt_schedule_play *p = ud;
    const uint32_t layer = p->stages.stage[s->task.stage].stores;
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
                                   .stage = p->stages.as_stage,
                                   .stages = p->stages.count,
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
