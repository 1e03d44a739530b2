/* A window of chunks slides over the prompt. All that the choice needs to know of a chunk is how many of its
 * stages have ended and whether the next one runs: a chunk is ready for one stage at a time. */
#include "device/schedule.h"

static uint64_t plus(uint64_t a, uint64_t b) { return a > (uint64_t)INT64_MAX - b ? INT64_MAX : a + b; }

static uint64_t cost(const bt_schedule *s, size_t chunk, size_t stage)
{
    const uint64_t ns = s->plan.cost_ns(s->plan.ud, chunk, stage);
    return ns > INT64_MAX ? INT64_MAX : ns;
}

bt_err bt_schedule_init(bt_schedule *s, const bt_schedule_plan *plan, bt_fault *fault)
{
    if (plan->policy > BT_SCHEDULE_OOO)
        return bt_fail(fault, BT_EARG, "schedule policy %d: there are 0 to %d", (int)plan->policy,
                       BT_SCHEDULE_OOO);
    if (!plan->stages || plan->stages > BT_SCHEDULE_MAX_STAGES)
        return bt_fail(fault, BT_EARG, "a schedule of %zu stages: 1 to %d", plan->stages,
                       BT_SCHEDULE_MAX_STAGES);
    if (!plan->chunks || plan->chunks > BT_SCHEDULE_MAX_CHUNKS)
        return bt_fail(fault, BT_EARG, "a schedule of %zu chunks: 1 to %d", plan->chunks,
                       BT_SCHEDULE_MAX_CHUNKS);
    if (!plan->window || plan->window > BT_SCHEDULE_MAX_WINDOW)
        return bt_fail(fault, BT_EARG, "%zu chunks at once: 1 to %d", plan->window, BT_SCHEDULE_MAX_WINDOW);
    for (size_t j = 0; j < plan->stages; j++)
        if (plan->stage[j].engine >= BT_SCHEDULE_ENGINES || (!j && plan->stage[j].joins))
            return bt_fail(fault, BT_EARG, "stage %zu of a schedule: engine %u, joins %d", j,
                           plan->stage[j].engine, plan->stage[j].joins);
    *s = (bt_schedule){.plan = *plan};
    return BT_OK;
}

/* The number behind the last chunk that may have begun. */
static size_t horizon(const bt_schedule *s)
{
    return s->plan.chunks - s->first < s->plan.window ? s->plan.chunks : s->first + s->plan.window;
}

static uint32_t done(const bt_schedule *s, size_t chunk) { return s->at[chunk % s->plan.window].done; }

/* The chunk has stages left, none of them runs, and `fewest`, the stages that each earlier chunk has ended at
 * least, lets it go on. */
static bool is_ready(const bt_schedule *s, size_t chunk, uint32_t fewest)
{
    const uint32_t j = done(s, chunk);
    return j < s->plan.stages && !s->at[chunk % s->plan.window].is_running &&
           (!s->plan.stage[j].joins || fewest >= j);
}

/* S(g): time of the NPU tasks that become ready when G(chunk, j) ends. These are the next stage of the chunk
 * itself and, where that joins, of later chunks that wait for this one alone. */
static uint64_t set_free(const bt_schedule *s, size_t chunk, uint32_t j, uint32_t fewest)
{
    const uint32_t next = j + 1;
    if (next == s->plan.stages || s->plan.stage[next].engine != BT_SCHEDULE_NPU) return 0;
    if (!s->plan.stage[next].joins) return cost(s, chunk, next);
    uint64_t sum = 0;
    if (fewest < next) return 0; /* an earlier chunk holds all of them up */
    sum = cost(s, chunk, next);
    for (size_t c = chunk + 1, end = horizon(s); c < end && done(s, c) >= next; c++)
        if (done(s, c) == next && !s->at[c % s->plan.window].is_running) sum = plus(sum, cost(s, c, next));
    return sum;
}

static bool choose(const bt_schedule *s, bt_schedule_engine engine, bt_schedule_task *task)
{
    uint32_t fewest = (uint32_t)s->plan.stages;
    bool found = false;
    uint64_t best = 0;
    for (size_t c = s->first, end = horizon(s); c < end; c++) {
        const uint32_t j = done(s, c);
        if (is_ready(s, c, fewest) && s->plan.stage[j].engine == engine) {
            const uint64_t sum = s->plan.policy == BT_SCHEDULE_OOO ? set_free(s, c, j, fewest) : 0;
            if (!found || (engine == BT_SCHEDULE_NPU ? sum < best : sum > best)) {
                found = true;
                best = sum;
                *task = (bt_schedule_task){(uint32_t)c, j};
            }
            if (s->plan.policy != BT_SCHEDULE_OOO) return true;
        }
        if (j < fewest) fewest = j;
    }
    return found;
}

bool bt_schedule_take(bt_schedule *s, bt_schedule_engine engine, bt_schedule_task *task)
{
    if (bt_schedule_is_done(s)) return false;
    if (s->plan.policy == BT_SCHEDULE_SERIAL) {
        const uint32_t j = done(s, s->first);
        if (s->running || s->plan.stage[j].engine != engine) return false;
        *task = (bt_schedule_task){(uint32_t)s->first, j};
    } else if (!choose(s, engine, task)) {
        return false;
    }
    s->at[task->chunk % s->plan.window].is_running = true;
    s->running++;
    return true;
}

void bt_schedule_end(bt_schedule *s, bt_schedule_task task)
{
    s->at[task.chunk % s->plan.window].is_running = false;
    s->at[task.chunk % s->plan.window].done = task.stage + 1;
    s->running--;
    while (s->first < s->plan.chunks && done(s, s->first) == s->plan.stages) {
        s->at[s->first % s->plan.window].done = 0; /* of the chunk that takes its place */
        s->first++;
    }
}

bt_err bt_schedule_run_begin(bt_schedule_run *ret, const bt_schedule_plan *plan, bt_fault *fault)
{
    bt_schedule_run r = {.is_busy = {false}};
    const bt_err e = bt_schedule_init(&r.schedule, plan, fault);
    if (e == BT_OK) *ret = r;
    return e;
}

bool bt_schedule_run_next(bt_schedule_run *r, bt_schedule_span *ret)
{
    bt_schedule *s = &r->schedule;
    bt_schedule_span *on = r->on;
    if (bt_schedule_is_done(s)) return false;
    for (int p = 0; p < BT_SCHEDULE_ENGINES; p++)
        if (!r->is_busy[p] && bt_schedule_take(s, (bt_schedule_engine)p, &on[p].task)) {
            const uint64_t ns = cost(s, on[p].task.chunk, on[p].task.stage);
            on[p].engine = (bt_schedule_engine)p;
            on[p].begin_ns = r->sum.makespan_ns;
            on[p].end_ns = plus(on[p].begin_ns, ns);
            r->sum.busy_ns[p] = plus(r->sum.busy_ns[p], ns);
            r->is_busy[p] = true;
        }
    /* Something runs: the earliest chunk is always ready, or runs. */
    const int p = !r->is_busy[BT_SCHEDULE_NPU]                                    ? BT_SCHEDULE_COMPANION
                  : !r->is_busy[BT_SCHEDULE_COMPANION]                            ? BT_SCHEDULE_NPU
                  : on[BT_SCHEDULE_COMPANION].end_ns < on[BT_SCHEDULE_NPU].end_ns ? BT_SCHEDULE_COMPANION
                                                                                  : BT_SCHEDULE_NPU;
    r->sum.makespan_ns = on[p].end_ns;
    r->is_busy[p] = false;
    bt_schedule_end(s, on[p].task);
    *ret = on[p];
    return true;
}

bt_err bt_schedule_model(const bt_schedule_plan *plan, void (*span)(void *ud, const bt_schedule_span *s),
                         void *ud, bt_schedule_result *ret, bt_fault *fault)
{
    bt_schedule_run r;
    bt_schedule_span s;
    const bt_err e = bt_schedule_run_begin(&r, plan, fault);
    if (e != BT_OK) return e;
    while (bt_schedule_run_next(&r, &s))
        if (span) span(ud, &s);
    *ret = r.sum;
    return BT_OK;
}
