/* A prompt is cut, its stages are priced once, the schedule plays them, and what it says about stores and
 * ends is sent and decoded. */
#include "lab/timeline/modelled.h"

#include <stdlib.h>
#include <string.h>

typedef struct play {
    const tool_modelled_plan *plan;
    const bt_pkg *pkg;
    bt_price_pkg_chunk *cut; /* [chunks] */
    size_t chunks;
    bt_price_pkg_stages stages; /* of the last chunk; the others have a beginning of them */
    uint64_t *ns;               /* [chunks][stages] */
    bool overlap;               /* that ns is of */
    bt_stage *of_chunk;         /* [stages]: room for any chunk's */
    tool_timeline_span *span;
    size_t spans, room;
    bt_link_queue wire;
    uint64_t link_busy_ns, kv_bytes;
} play;

static uint64_t cost_ns(const void *ud, size_t chunk, size_t stage)
{
    const play *p = ud;
    return p->ns[chunk * p->stages.count + stage];
}

static bt_err cut(play *p, bt_fault *fault)
{
    const size_t tokens = p->plan->prompt_tokens, ctx = bt_pkg_header_of(p->pkg)->ctx_tokens;
    bt_err e = BT_OK;
    if (!tokens || tokens > ctx)
        return bt_fail(
            fault, BT_ELIMIT,
            "a prompt of %zu tokens does not fit the package's context: 1 to %zu tokens are possible", tokens,
            ctx);
    p->cut = calloc(bt_shapes_launches(bt_price_pkg_shapes(p->plan->price), tokens) + 1, sizeof *p->cut);
    if (!p->cut) return bt_fail(fault, BT_ENOMEM, "out of memory cutting a prompt of %zu tokens", tokens);
    for (uint64_t pos = 0; e == BT_OK && pos < tokens; pos += p->cut[p->chunks++].valid)
        e = bt_price_pkg_cut(&p->cut[p->chunks], p->plan->price, 0, pos, tokens, fault);
    return e;
}

/* Stages as they count under a schedule. */
static bt_err price_for(play *p, int policy, bt_fault *fault)
{
    const bool overlap = policy == BT_SCHEDULE_FIFO || policy == BT_SCHEDULE_OOO, is_there = p->ns != NULL;
    bt_err e = BT_OK;
    if (!is_there && !(p->ns = calloc(p->chunks * p->stages.count, sizeof *p->ns)))
        return bt_fail(fault, BT_ENOMEM, "out of memory for a timeline of %zu chunks", p->chunks);
    for (size_t i = 0; e == BT_OK && i < p->chunks && !(is_there && overlap == p->overlap); i++)
        e = bt_price_pkg_stage_ns(&p->ns[i * p->stages.count], p->plan->price, &p->cut[i], overlap, fault);
    p->overlap = overlap;
    return e;
}

static bt_err price(play *p, bt_fault *fault)
{
    const tool_modelled_plan *plan = p->plan;
    bt_err e = cut(p, fault);
    if (e < 0) return e;
    p->stages = bt_price_pkg_stages_of(plan->price);
    if (p->stages.count > TOOL_MODELLED_MAX_TASKS / p->chunks)
        return bt_fail(fault, BT_ELIMIT,
                       "%zu chunks of %zu stages: at most %d together; take a shorter prompt", p->chunks,
                       p->stages.count, TOOL_MODELLED_MAX_TASKS);
    p->of_chunk = calloc(p->stages.count, sizeof *p->of_chunk);
    /* A stage is a span, or with divided linears its wait and then two of each linear and one between. */
    const uint64_t insts = bt_pkg_programs(p->pkg)[p->cut[p->chunks - 1].program].insts;
    p->room = p->chunks * (3 * insts + p->stages.count + bt_pkg_header_of(p->pkg)->layers) +
              plan->answer_tokens + 1;
    p->span = malloc(p->room * sizeof *p->span); /* what is not used costs nothing */
    if (!p->of_chunk || !p->span)
        e = bt_fail(fault, BT_ENOMEM, "out of memory for a timeline of %zu chunks", p->chunks);
    return e;
}

static void add(play *p, uint32_t track, uint32_t kind, int32_t chunk, uint32_t layer, uint64_t begin_ns,
                uint64_t ns)
{
    if (!ns || p->spans == p->room) return;
    p->span[p->spans++] =
        (tool_timeline_span){.track = track,       .kind = kind,
                             .chunk = chunk,       .layer = layer == UINT32_MAX ? -1 : (int32_t)layer,
                             .begin_ns = begin_ns, .end_ns = bt_time_plus(begin_ns, ns)};
}

static void send(play *p, uint32_t chunk, uint32_t layer, uint64_t ready_ns)
{
    const bt_pkg_header *h = bt_pkg_header_of(p->pkg);
    const bt_price_pkg_chunk *c = &p->cut[chunk];
    const bt_link_kv kv = {.layers = h->layers, .window = h->window, .global_every = h->global_every,
                           .layer_bytes = p->plan->kv_token_bytes
                                              ? p->plan->kv_token_bytes / h->layers
                                              : (uint64_t)2 * 2 * h->kv_heads * h->head_dim};
    const bt_link_rows rows = bt_link_rows_of(&kv, c->pos, c->pos + c->valid, p->plan->prompt_tokens);
    const uint64_t bytes = bt_link_layer_rows(&kv, &rows, layer) * kv.layer_bytes;
    if (!bytes) return;
    const uint64_t ns = bt_link_ns(&p->plan->link, bytes), begin = bt_link_pass(&p->wire, ready_ns, ns);
    add(p, TOOL_TRACK_LINK, TOOL_KIND_TRANSFER, (int32_t)chunk, layer, begin, ns);
    p->link_busy_ns = bt_time_plus(p->link_busy_ns, ns);
    p->kv_bytes = bt_time_plus(p->kv_bytes, bytes);
}

static uint32_t kind_of(const play *p, size_t stage)
{
    if (p->stages.as_stage[stage].joins) return TOOL_KIND_ATTENTION;
    return p->stages.stage[stage].is_npu ? TOOL_KIND_NPU : TOOL_KIND_COMPANION;
}

static void on_span(void *ud, const bt_schedule_span *s)
{
    play *p = ud;
    const bt_stage *stage = &p->stages.stage[s->task.stage];
    add(p, s->engine == BT_SCHEDULE_NPU ? TOOL_TRACK_NPU : TOOL_TRACK_COMPANION, kind_of(p, s->task.stage),
        (int32_t)s->task.chunk, stage->layer, s->begin_ns, s->end_ns - s->begin_ns);
    if (stage->stores != UINT32_MAX) send(p, s->task.chunk, stage->stores, s->end_ns);
}

/* ---- linears over both engines ---- */

typedef struct divided {
    play *play;
    bt_schedule_result *r;
    const bt_stage *stage;
    uint32_t chunk, kind;
    uint64_t now_ns;
    bool is_drawn;
} divided;

static void on_piece(void *ud, const bt_stage_piece *piece)
{
    divided *d = ud;
    const uint32_t kind =
        piece->way == BT_SPLIT_NPU || piece->way == BT_SPLIT_COMPANION ? d->kind : TOOL_KIND_DIVIDED;
    static const uint32_t track[] = {
        [BT_SCHEDULE_NPU] = TOOL_TRACK_NPU, [BT_SCHEDULE_COMPANION] = TOOL_TRACK_COMPANION};
    for (int k = 0; k < BT_SCHEDULE_ENGINES; k++) {
        d->r->busy_ns[k] = bt_time_plus(d->r->busy_ns[k], piece->busy_ns[k]);
        if (d->is_drawn)
            add(d->play, track[k], kind, (int32_t)d->chunk, d->stage->layer, d->now_ns, piece->busy_ns[k]);
    }
    d->now_ns = bt_time_plus(d->now_ns, piece->ns);
}

/* Chunk after chunk and stage after stage. The wait of a stage for the other engine counts as its work, as in
 * the other schedules. */
static void play_divided(play *p, bt_schedule_result *r, tool_modelled_result *told, bool is_drawn)
{
    const bt_stage_engines *engines = bt_price_pkg_engines(p->plan->price);
    bt_stage_memo memo = {.used = 0};
    divided d = {.play = p, .r = r, .is_drawn = is_drawn};
    for (size_t i = 0; i < p->chunks; i++) {
        const bt_price_pkg_chunk *cut = &p->cut[i];
        const bt_stage_chunk c = {.pos = cut->pos, .rows = cut->rows, .ctx = cut->ctx, .is_first = !i};
        const size_t n = bt_stages_of(p->of_chunk, NULL, p->stages.count, p->pkg, cut->program);
        for (size_t j = 0; j < n; j++) {
            const bt_stage *stage = &p->of_chunk[j];
            const uint64_t wait = bt_stage_sync(engines, p->of_chunk, j);
            const bt_stage_piece sync = {.busy_ns = {stage->is_npu ? wait : 0, stage->is_npu ? 0 : wait},
                                         .ns = wait,
                                         .way = stage->is_npu ? BT_SPLIT_NPU : BT_SPLIT_COMPANION};
            d.stage = stage;
            d.chunk = (uint32_t)i;
            d.kind = kind_of(p, j);
            on_piece(&d, &sync);
            bt_stage_cost_split(&memo, engines, p->pkg, cut->program, stage, &c, on_piece, &d);
            if (is_drawn && stage->stores != UINT32_MAX) send(p, d.chunk, stage->stores, d.now_ns);
        }
    }
    r->makespan_ns = d.now_ns;
    memcpy(told->ways, memo.ways, sizeof told->ways);
}

static void decode(play *p, tool_modelled_result *r)
{
    const tool_modelled_plan *plan = p->plan;
    r->ttft_ns = r->schedule[r->policy].makespan_ns;
    r->kv_bytes = p->kv_bytes;
    r->link_busy_ns = p->link_busy_ns;
    r->exposed_ns = bt_link_exposed_ns(&p->wire, r->ttft_ns);
    r->end_ns = bt_time_plus(r->ttft_ns, r->exposed_ns);
    for (size_t i = 1; i < plan->answer_tokens; i++) { /* token 0 is prefill's */
        const bt_price_step step = bt_price_decode_step(1, plan->prompt_tokens + i, plan->model.window);
        const uint64_t ns = bt_price_step_of(plan->decode, &plan->model, &step).ns;
        add(p, TOOL_TRACK_DECODE, TOOL_KIND_STEP, (int32_t)i, UINT32_MAX, r->end_ns, ns);
        r->end_ns = bt_time_plus(r->end_ns, ns);
        r->decode_ns = bt_time_plus(r->decode_ns, ns);
    }
}

bt_err tool_modelled_play(tool_modelled_result *ret, tool_timeline_span **span, size_t *spans,
                          const tool_modelled_plan *plan, int policy, bt_fault *fault)
{
    play p = {.plan = plan, .pkg = bt_price_pkg_of(plan->price)};
    tool_modelled_result r = {.policy = BT_SCHEDULE_SERIAL};
    bt_schedule_plan s = {.window = plan->window, .cost_ns = cost_ns, .ud = &p};
    bt_err e = BT_OK;
    if (plan->answer_tokens > TOOL_TIMELINE_MAX_SPANS)
        return bt_fail(fault, BT_ELIMIT, "an answer of %zu tokens is too long: at most %d can be drawn",
                       plan->answer_tokens, TOOL_TIMELINE_MAX_SPANS);
    if ((e = price(&p, fault)) < 0) goto out;
    s.stage = p.stages.as_stage;
    s.stages = p.stages.count;
    s.chunks = p.chunks;
    for (int i = 0; i <= BT_SCHEDULE_OOO; i++) {
        s.policy = (bt_schedule_policy)i;
        if ((e = price_for(&p, i, fault)) < 0) goto out;
        if ((e = bt_schedule_model(&s, NULL, NULL, &r.schedule[i], fault)) < 0) goto out;
    }
    play_divided(&p, &r.schedule[BT_STAGE_SPLIT], &r, false);
    for (int i = 0; i < BT_STAGE_POLICIES; i++)
        if (r.schedule[i].makespan_ns < r.schedule[r.policy].makespan_ns) r.policy = i;
    if (policy >= 0) r.policy = policy;
    s.policy = (bt_schedule_policy)r.policy;
    if ((e = price_for(&p, r.policy, fault)) < 0) goto out;
    bt_schedule_result again = {0};
    if (r.policy == BT_STAGE_SPLIT) play_divided(&p, &again, &r, true);
    else if ((e = bt_schedule_model(&s, on_span, &p, &again, fault)) < 0) goto out;
    decode(&p, &r);
    r.chunks = p.chunks;
    r.stages = p.stages.count;
    *ret = r;
    *span = p.span;
    *spans = p.spans;
    p.span = NULL;
out:
    free(p.cut);
    free(p.of_chunk);
    free(p.ns);
    free(p.span);
    return e;
}

bt_forecast_error tool_modelled_error(const bt_profile *device, const bt_dims *model, bt_figure kind,
                                      size_t prompt_tokens, size_t answer_tokens)
{
    const bool is_step = kind == BT_FIGURE_TPOT;
    const bt_forecast_at at = {.rows = is_step ? 1 : prompt_tokens, .batch = 1,
                               .context = prompt_tokens + (is_step ? answer_tokens : 0), .model = model};
    return bt_forecast_error_of(device, kind, &at);
}
