/* The published figures of llm.npu's scheduler, an audit of every order, and a plain scheduler with every
 * edge of the graph written out. */
#include "device/schedule.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LAYERS = 24, SUBGRAPHS = 6, STAGES = LAYERS * SUBGRAPHS };

/* Qwen1.5-1.8B of llm.npu: 315 ms on the NPU and 157 ms on the CPU for a chunk of 256, in 24 layers of six
 * subgraphs, C N C N C N; attention (the second C) grows by half of its cost with each chunk. */
static uint64_t llm_npu(const void *ud, size_t chunk, size_t stage)
{
    (void)ud;
    static const double share[SUBGRAPHS] = {.15, .2, .7, .1, .15, .7};
    const size_t s = stage % SUBGRAPHS;
    const double ms = (s % 2 ? 315. : 157.) / LAYERS * share[s];
    return (uint64_t)(1e6 * ms * (s == 2 ? (1 + .5 * (double)chunk) / (1 + .5 * 1.5) : 1));
}

static void six_subgraphs(bt_schedule_stage *stage)
{
    for (size_t j = 0; j < STAGES; j++)
        stage[j] = (bt_schedule_stage){j % 2 ? BT_SCHEDULE_NPU : BT_SCHEDULE_COMPANION, j % SUBGRAPHS == 2};
}

static void gives_the_makespans_of_llm_npu_s_model(void **state) /* AC-c4 */
{
    (void)state;
    static const struct {
        size_t chunks;
        double ms[3], bubble[3]; /* serial, fifo, ooo; of the NPU, in percent */
    } row[] = {{1, {424.9, 424.9, 424.9}, {25.9, 25.9, 25.9}},
               {4, {1888.0, 1444.9, 1444.9}, {33.3, 12.8, 12.8}},
               {8, {4278.4, 2938.4, 2643.9}, {41.1, 14.2, 4.7}}};
    bt_schedule_stage stage[STAGES];
    six_subgraphs(stage);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int p = 0; p < 3; p++) {
            const bt_schedule_plan plan = {
                .policy = (bt_schedule_policy)p, .stage = stage, .stages = STAGES,
                .chunks = row[i].chunks,         .window = 8,    .cost_ns = llm_npu};
            bt_schedule_result r;
            assert_int_equal(bt_schedule_model(&plan, NULL, NULL, &r, NULL), BT_OK);
            const double ms = (double)r.makespan_ns / 1e6,
                         bubble = 100 - 100. * (double)r.busy_ns[BT_SCHEDULE_NPU] / (double)r.makespan_ns;
            print_message("%zu chunks, policy %d: %.1f ms, bubble %.1f %%\n", row[i].chunks, p, ms, bubble);
            assert_true(ms > .99 * row[i].ms[p] && ms < 1.01 * row[i].ms[p]);
            assert_true(bubble > row[i].bubble[p] - 1 && bubble < row[i].bubble[p] + 1);
        }
}

/* ---- random graphs, and the same with every edge written out ---- */

enum { CHUNKS_MAX = 9, STAGES_MAX = 12 };
typedef struct graph {
    bt_schedule_stage stage[STAGES_MAX];
    size_t stages, chunks;
    uint64_t ns[CHUNKS_MAX][STAGES_MAX];
    bt_schedule_span span[CHUNKS_MAX * STAGES_MAX];
    size_t spans;
} graph;

static uint64_t graph_ns(const void *ud, size_t chunk, size_t stage)
{
    return ((const graph *)ud)->ns[chunk][stage];
}

static void keep(void *ud, const bt_schedule_span *s)
{
    graph *g = ud;
    assert_true(g->spans < g->chunks * g->stages);
    g->span[g->spans++] = *s;
}

static uint64_t below(uint64_t seed, uint64_t *draws, uint64_t n) { return bt_rng_u64(seed, (*draws)++) % n; }

static graph drawn(uint64_t seed, uint64_t *rng)
{
    graph g = {.stages = 1 + (size_t)below(seed, rng, STAGES_MAX),
               .chunks = 1 + (size_t)below(seed, rng, CHUNKS_MAX)};
    for (size_t j = 0; j < g.stages; j++)
        g.stage[j] = (bt_schedule_stage){(uint8_t)below(seed, rng, 2), j && !below(seed, rng, 3)};
    for (size_t i = 0; i < g.chunks; i++)
        for (size_t j = 0; j < g.stages; j++) /* no two sums are equal: no order hangs on a tie in time */
            g.ns[i][j] = 1000000 + below(seed, rng, 1000000000);
    return g;
}

static bool waits_for(const graph *g, size_t chunk, size_t stage, size_t other, size_t other_stage)
{
    return other_stage + 1 == stage && (other == chunk || (g->stage[stage].joins && other < chunk));
}

/* The plain scheduler: every task looks at every other. */
typedef struct plain {
    bool ended[CHUNKS_MAX][STAGES_MAX], begun[CHUNKS_MAX][STAGES_MAX];
} plain;

static bool plain_is_ready(const graph *g, const plain *p, size_t chunk, size_t stage, size_t but,
                           size_t but_stage)
{
    if (p->begun[chunk][stage]) return false;
    for (size_t i = 0; i < g->chunks; i++)
        for (size_t j = 0; j < g->stages; j++)
            if (waits_for(g, chunk, stage, i, j) && !p->ended[i][j] && !(i == but && j == but_stage))
                return false;
    return true;
}

static int64_t plain_value(const graph *g, const plain *p, size_t chunk, size_t stage)
{
    int64_t sum = 0;
    for (size_t i = 0; i < g->chunks; i++)
        for (size_t j = 0; j < g->stages; j++)
            if (g->stage[j].engine == BT_SCHEDULE_NPU && waits_for(g, i, j, chunk, stage) &&
                plain_is_ready(g, p, i, j, chunk, stage))
                sum += (int64_t)g->ns[i][j];
    return g->stage[stage].engine == BT_SCHEDULE_NPU ? -sum : sum;
}

static bool plain_take(const graph *g, plain *p, bt_schedule_policy policy, int engine, bt_schedule_task *t)
{
    bool found = false;
    int64_t best = 0;
    for (size_t i = 0; i < g->chunks; i++)
        for (size_t j = 0; j < g->stages; j++) {
            if (g->stage[j].engine != engine || !plain_is_ready(g, p, i, j, SIZE_MAX, SIZE_MAX)) continue;
            const int64_t value = policy == BT_SCHEDULE_OOO ? plain_value(g, p, i, j) : 0;
            if (found && value <= best) continue;
            found = true;
            best = value;
            *t = (bt_schedule_task){(uint32_t)i, (uint32_t)j};
        }
    if (found) p->begun[t->chunk][t->stage] = true;
    return found;
}

static uint64_t plain_makespan(const graph *g, bt_schedule_policy policy)
{
    plain p = {0};
    bt_schedule_task on[2];
    uint64_t end[2] = {UINT64_MAX, UINT64_MAX}, now = 0; /* UINT64_MAX: free */
    for (size_t left = g->chunks * g->stages; left; left--) {
        for (int e = 0; e < 2; e++)
            if (end[e] == UINT64_MAX && plain_take(g, &p, policy, e, &on[e]))
                end[e] = now + g->ns[on[e].chunk][on[e].stage];
        const int e = end[1] < end[0];
        now = end[e];
        end[e] = UINT64_MAX;
        p.ended[on[e].chunk][on[e].stage] = true;
    }
    return now;
}

static void every_task_runs_once_after_what_it_waits_for_and_alone_on_its_engine(void **state)
{
    (void)state;
    const uint64_t seed = 171;
    uint64_t rng = 0;
    for (int round = 0; round < 600; round++) {
        graph g = drawn(seed, &rng);
        const bt_schedule_plan plan = {.policy = (bt_schedule_policy)(round % 3),
                                       .stage = g.stage,
                                       .stages = g.stages,
                                       .chunks = g.chunks,
                                       .window = 1 + (size_t)below(seed, &rng, CHUNKS_MAX),
                                       .cost_ns = graph_ns,
                                       .ud = &g};
        bt_schedule_result r;
        assert_int_equal(bt_schedule_model(&plan, keep, &g, &r, NULL), BT_OK);
        assert_int_equal(g.spans, g.chunks * g.stages);
        uint64_t busy[2] = {0, 0};
        for (size_t a = 0; a < g.spans; a++) {
            const bt_schedule_span *s = &g.span[a];
            assert_int_equal(s->engine, g.stage[s->task.stage].engine);
            assert_int_equal(s->end_ns - s->begin_ns, g.ns[s->task.chunk][s->task.stage]);
            assert_true(s->end_ns <= r.makespan_ns);
            busy[s->engine] += s->end_ns - s->begin_ns;
            for (size_t b = 0; b < g.spans; b++) {
                const bt_schedule_span *o = &g.span[b];
                assert_true(a == b || o->task.chunk != s->task.chunk || o->task.stage != s->task.stage);
                if (waits_for(&g, s->task.chunk, s->task.stage, o->task.chunk, o->task.stage))
                    assert_true(o->end_ns <= s->begin_ns);
                if (a != b && (o->engine == s->engine || plan.policy == BT_SCHEDULE_SERIAL))
                    assert_true(o->end_ns <= s->begin_ns || s->end_ns <= o->begin_ns);
                /* No more chunks at once than the window allows: the one `window` before has ended. */
                if (o->task.chunk + plan.window <= s->task.chunk) assert_true(o->end_ns <= s->begin_ns);
            }
        }
        assert_int_equal(r.busy_ns[0], busy[0]);
        assert_int_equal(r.busy_ns[1], busy[1]);
    }
}

static void chooses_as_a_scheduler_with_every_edge_written_out(void **state)
{
    (void)state;
    const uint64_t seed = 172;
    uint64_t rng = 0;
    size_t differ = 0;
    for (int round = 0; round < 400; round++) {
        graph g = drawn(seed, &rng);
        uint64_t makespan[3];
        for (int p = 0; p < 3; p++) {
            const bt_schedule_plan plan = {.policy = (bt_schedule_policy)p,
                                           .stage = g.stage,
                                           .stages = g.stages,
                                           .chunks = g.chunks,
                                           .window = CHUNKS_MAX,
                                           .cost_ns = graph_ns,
                                           .ud = &g};
            bt_schedule_result r;
            assert_int_equal(bt_schedule_model(&plan, NULL, NULL, &r, NULL), BT_OK);
            makespan[p] = r.makespan_ns;
            if (p) assert_int_equal(r.makespan_ns, plain_makespan(&g, plan.policy));
        }
        differ += makespan[1] != makespan[2];
        assert_true(makespan[1] <= makespan[0] && makespan[2] <= makespan[0]);
    }
    assert_true(differ > 20); /* the two policies were told apart */
}

static uint64_t for_ever(const void *ud, size_t chunk, size_t stage)
{
    (void)ud, (void)chunk, (void)stage;
    return UINT64_MAX;
}

static void times_end_at_the_largest_instead_of_wrapping(void **state)
{
    (void)state;
    const bt_schedule_stage stage[2] = {{BT_SCHEDULE_NPU, false}, {BT_SCHEDULE_COMPANION, true}};
    const bt_schedule_plan plan = {
        .policy = BT_SCHEDULE_OOO, .stage = stage, .stages = 2, .chunks = 100, .window = 64,
        .cost_ns = for_ever};
    bt_schedule_result r;
    assert_int_equal(bt_schedule_model(&plan, NULL, NULL, &r, NULL), BT_OK);
    assert_int_equal(r.makespan_ns, INT64_MAX);
    assert_int_equal(r.busy_ns[0], INT64_MAX);
}

static void refuses_a_plan_that_is_none_and_names_what(void **state)
{
    (void)state;
    const bt_schedule_stage good[2] = {{BT_SCHEDULE_NPU, false}, {BT_SCHEDULE_COMPANION, true}};
    const bt_schedule_stage joins_first[1] = {{BT_SCHEDULE_NPU, true}}, third[1] = {{2, false}};
    const bt_schedule_plan plan = {.stage = good, .stages = 2, .chunks = 1, .window = 1, .cost_ns = for_ever};
    struct {
        bt_schedule_plan plan;
        const char *words;
    } bad[8] = {{plan, "policy 3"},         {plan, "0 stages"},          {plan, "0 chunks"},
                {plan, "0 chunks at once"}, {plan, "65 chunks at once"}, {plan, "stage 0"},
                {plan, "engine 2"},         {plan, "1048577 chunks"}};
    bad[0].plan.policy = (bt_schedule_policy)3;
    bad[1].plan.stages = 0;
    bad[2].plan.chunks = 0;
    bad[3].plan.window = 0;
    bad[4].plan.window = 65;
    bad[5].plan.stage = joins_first;
    bad[5].plan.stages = 1;
    bad[6].plan.stage = third;
    bad[6].plan.stages = 1;
    bad[7].plan.chunks = BT_SCHEDULE_MAX_CHUNKS + 1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_schedule s;
        bt_fault fault;
        assert_int_equal(bt_schedule_init(&s, &bad[i].plan, &fault), BT_EARG);
        if (!strstr(fault.text, bad[i].words)) fail_msg("'%s' lacks '%s'", fault.text, bad[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_makespans_of_llm_npu_s_model),
        cmocka_unit_test(every_task_runs_once_after_what_it_waits_for_and_alone_on_its_engine),
        cmocka_unit_test(chooses_as_a_scheduler_with_every_edge_written_out),
        cmocka_unit_test(times_end_at_the_largest_instead_of_wrapping),
        cmocka_unit_test(refuses_a_plan_that_is_none_and_names_what),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
