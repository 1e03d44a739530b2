/* Memory plans: no overlap, small peak, the same every time, nothing that depends on ctx. */
#include "graph/bind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const bt_hparams shapes[] = {
    {.arch = BT_ARCH_LLAMA, .layers = 3, .dim = 96, .ffn = 172, .heads = 6, .kv_heads = 2, .head_dim = 16,
     .vocab = 384},
    {.arch = BT_ARCH_QWEN2, .layers = 5, .dim = 40, .ffn = 7, .heads = 2, .kv_heads = 1, .head_dim = 20,
     .vocab = 33},
    {.arch = BT_ARCH_QWEN3, .layers = 30, .dim = 576, .ffn = 1536, .heads = 9, .kv_heads = 3, .head_dim = 64,
     .vocab = 49152, .qk_norm = true},
};
static const size_t seqs[] = {1, 3, 16, 64, 256};

static uint32_t next(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

typedef void check_fn(const bt_program *p);

static void for_each_program(check_fn *check)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bt_graph *g;
        assert_int_equal(bt_graph_build(&g, &shapes[i], NULL, NULL), BT_OK);
        for (size_t s = 0; s < sizeof seqs / sizeof *seqs; s++)
            for (size_t batch = 1; batch <= 3; batch += 2)
                for (int out = 0; out < 3; out++) {
                    bt_program *p;
                    const size_t rows = out < 2 ? (size_t)out : seqs[s];
                    assert_int_equal(bt_bind_program(&p, g, batch, seqs[s], rows, 0, NULL), BT_OK);
                    check(p);
                    bt_bind_free(p);
                }
        bt_graph_free(g);
    }
}

/* Lives found again, operator by operator, from the steps alone. */
static int is_live(const bt_program *p, uint32_t tensor, size_t at)
{
    int before = 0, after = 0;
    for (size_t i = 0; i < p->steps; i++) {
        const bt_step *s = &p->step[i];
        if (s->in[0] != tensor && s->in[1] != tensor && s->out != tensor) continue;
        before |= i <= at;
        after |= i >= at;
    }
    return before && after;
}

static void check_overlap_at(const bt_program *p, size_t n)
{
    const size_t top = bt_extent_at(p->arena, n);
    size_t floor_bytes = 0;
    for (size_t i = 0; i < p->steps; i++) {
        const bt_placement *live[64];
        size_t count = 0, sum = 0;
        for (size_t t = 0; t < p->places; t++)
            if (is_live(p, p->place[t].tensor, i)) {
                live[count++] = &p->place[t];
                sum += bt_extent_at(p->place[t].bytes, n);
            }
        assert_true(count < 64);
        for (size_t a = 0; a < count; a++)
            for (size_t b = a + 1; b < count; b++)
                assert_true(bt_extent_at(live[a]->offset, n) + bt_extent_at(live[a]->bytes, n) <=
                                bt_extent_at(live[b]->offset, n) ||
                            bt_extent_at(live[b]->offset, n) + bt_extent_at(live[b]->bytes, n) <=
                                bt_extent_at(live[a]->offset, n));
        if (sum > floor_bytes) floor_bytes = sum;
    }
    assert_true(top >= floor_bytes);
    assert_true(top * 100 <= floor_bytes * 105);
}

static void no_two_live_tensors_overlap_and_the_peak_is_near_its_floor(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        bt_graph *g;
        assert_int_equal(bt_graph_build(&g, &shapes[i], NULL, NULL), BT_OK);
        for (size_t s = 0; s < sizeof seqs / sizeof *seqs; s++)
            for (int out = 0; out < 3; out++) {
                bt_program *p;
                const size_t rows = out < 2 ? (size_t)out : seqs[s];
                assert_int_equal(bt_bind_program(&p, g, 2, seqs[s], rows, 0, NULL), BT_OK);
                check_overlap_at(p, 0);
                bt_bind_free(p);
            }
        bt_graph_free(g);
    }
}

static void check_steps(const bt_program *p)
{
    assert_int_equal(p->arena.fixed % 64, 0);
    assert_int_equal(p->arena.each, 0);
    assert_int_equal(p->steps, p->out ? p->graph->ops : p->graph->op_tail);
    for (size_t t = 0; t < p->places; t++) {
        assert_int_equal(p->place[t].offset.fixed % 64, 0);
        assert_true(p->place[t].offset.fixed + p->place[t].bytes.fixed <= p->arena.fixed);
    }
    for (size_t i = 0; i < p->steps; i++) {
        const bt_step *s = &p->step[i];
        const bt_tensor_kind kind = p->graph->tensor[s->out].kind;
        assert_int_equal(bt_bind_is_nowhere(s->out_at), kind != BT_TENSOR_ACT);
        if (s->weight == BT_WEIGHT_Q) assert_int_equal(s->group, 3);
        if (s->weight == BT_WEIGHT_GATE) assert_int_equal(s->group, 2);
        if (s->weight == BT_WEIGHT_O) assert_int_equal(s->group, 1);
    }
}

static void offsets_are_aligned_and_groups_share_one_input(void **state)
{
    (void)state;
    for_each_program(check_steps);
}

static void check_repeat(const bt_program *p)
{
    bt_program *q;
    assert_int_equal(bt_bind_program(&q, p->graph, p->batch, p->seq, p->out, 8192, NULL), BT_OK);
    assert_int_equal(p->arena.fixed, q->arena.fixed);
    assert_int_equal(p->places, q->places);
    for (size_t i = 0; i < p->places; i++) {
        assert_int_equal(p->place[i].tensor, q->place[i].tensor);
        assert_int_equal(p->place[i].offset.fixed, q->place[i].offset.fixed);
        assert_int_equal(p->place[i].bytes.fixed, q->place[i].bytes.fixed);
    }
    for (size_t i = 0; i < p->steps; i++) assert_int_equal(p->step[i].out_at.fixed, q->step[i].out_at.fixed);
    bt_bind_free(q);
}

static void the_plan_is_the_same_every_time_and_for_every_ctx(void **state)
{
    (void)state;
    for_each_program(check_repeat);
}

/* Symbolic batch: one plan, held against the plans of numbers. */
static void one_plan_serves_every_batch_and_is_as_small_as_one_made_for_it(void **state)
{
    (void)state;
    static const size_t batches[] = {1, 64, 1024}, wide[] = {1, 3, 16};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t s = 0; s < sizeof wide / sizeof *wide; s++)
            for (size_t out = 0; out < 2; out++) {
                bt_graph *g;
                bt_program *any, *one;
                assert_int_equal(bt_graph_build(&g, &shapes[i], NULL, NULL), BT_OK);
                assert_int_equal(bt_bind_program(&any, g, 0, wide[s], out, 0, NULL), BT_OK);
                assert_int_equal(any->batch, 0);
                for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
                    size_t bytes;
                    check_overlap_at(any, batches[b]);
                    assert_int_equal(bt_bind_arena_bytes(&bytes, any, batches[b], NULL), BT_OK);
                    assert_int_equal(bytes, bt_extent_at(any->arena, batches[b]));
                    assert_int_equal(bytes % 64, 0);
                    assert_int_equal(bt_bind_program(&one, g, batches[b], wide[s], out, 0, NULL), BT_OK);
                    if (shapes[i].dim % 16 == 0 && shapes[i].ffn % 16 == 0) /* rows that need no rounding */
                        assert_true(bytes * 100 <= one->arena.fixed * 105);
                    for (size_t k = 0; k < any->steps; k++) {
                        assert_int_equal(bt_bind_is_nowhere(any->step[k].out_at),
                                         bt_bind_is_nowhere(one->step[k].out_at));
                        assert_int_equal(any->step[k].group, one->step[k].group);
                        assert_int_equal(any->step[k].rows, one->step[k].rows);
                    }
                    bt_bind_free(one);
                }
                bt_bind_free(any);
                bt_graph_free(g);
            }
}

/* Chains of random operators: a graph is only read for its rows, widths and lives here. */
static void random_graphs_have_symbolic_plans_without_overlap(void **state)
{
    (void)state;
    enum { TENSORS = 80, OPS = 120 };
    print_message("seeds 1 to 30\n");
    for (uint64_t s = 1; s <= 30; s++) {
        uint64_t seed = s;
        bt_tensor tensor[TENSORS];
        bt_op op[OPS];
        bt_graph g = {.hp = shapes[0], .tensor = tensor, .tensors = TENSORS,
                      .op = op,        .ops = OPS,       .op_tail = OPS};
        for (size_t t = 0; t < TENSORS; t++)
            tensor[t] = (bt_tensor){"t",
                                    BT_TENSOR_ACT,
                                    0,
                                    {1, {(uint8_t)(next(&seed, 4) > 0), 1, 0, 0}},
                                    16 * (1 + next(&seed, 200))};
        for (size_t i = 0; i < OPS; i++) {
            const uint32_t base = (uint32_t)(i * TENSORS / OPS),
                           span = TENSORS - base < 12 ? TENSORS - base : 12;
            op[i] = (bt_op){.kind = BT_OP_ADD, .in = {base + next(&seed, span), base + next(&seed, span)},
                            .out = base + next(&seed, span)};
        }
        bt_program *p;
        assert_int_equal(bt_bind_program(&p, &g, 0, 5, 1, 0, NULL), BT_OK);
        for (size_t n = 1; n <= 4096; n *= 4)
            for (size_t a = 0; a < p->places; a++) {
                const bt_placement *x = &p->place[a];
                const size_t at = bt_extent_at(x->offset, n), end = at + bt_extent_at(x->bytes, n);
                assert_true(at % 64 == 0 && end <= bt_extent_at(p->arena, n));
                assert_true(bt_extent_at(x->bytes, n) >=
                            tensor[x->tensor].width * 4 * 5 *
                                (tensor[x->tensor].rows.exp[BT_SYM_BATCH] ? n : 1));
                for (size_t b = 0; b < a; b++) {
                    const bt_placement *y = &p->place[b];
                    const size_t low = bt_extent_at(y->offset, n), high = low + bt_extent_at(y->bytes, n);
                    if (x->first_op <= y->last_op && y->first_op <= x->last_op)
                        assert_true(end <= low || high <= at);
                }
            }
        bt_bind_free(p);
    }
}

static void refuses_what_is_no_binding(void **state)
{
    (void)state;
    bt_graph *g;
    bt_program *p = NULL;
    assert_int_equal(bt_graph_build(&g, &shapes[0], NULL, NULL), BT_OK);
    assert_int_equal(bt_bind_program(&p, g, 1, 0, 1, 0, NULL), BT_EARG);
    assert_int_equal(bt_bind_program(&p, g, 1, 16, 2, 0, NULL), BT_EARG);
    assert_int_equal(bt_bind_program(&p, g, SIZE_MAX / 2, 16, 1, 0, NULL), BT_ELIMIT);
    assert_int_equal(bt_bind_program(&p, g, 1, SIZE_MAX / 64, 1, 0, NULL), BT_ELIMIT);
    assert_null(p);
    size_t bytes = 7;
    assert_int_equal(bt_bind_program(&p, g, 0, 1, 1, 0, NULL), BT_OK);
    assert_int_equal(bt_bind_arena_bytes(&bytes, p, SIZE_MAX / 64, NULL), BT_ELIMIT);
    assert_int_equal(bytes, 7);
    bt_bind_free(p);
    p = NULL;
    for (size_t t = 0; t < g->tensors; t++) g->tensor[t].rows.exp[BT_SYM_BATCH] *= 2;
    assert_int_equal(bt_bind_program(&p, g, 0, 1, 1, 0, NULL), BT_EARG);
    assert_null(p);
    bt_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_live_tensors_overlap_and_the_peak_is_near_its_floor),
        cmocka_unit_test(offsets_are_aligned_and_groups_share_one_input),
        cmocka_unit_test(the_plan_is_the_same_every_time_and_for_every_ctx),
        cmocka_unit_test(one_plan_serves_every_batch_and_is_as_small_as_one_made_for_it),
        cmocka_unit_test(random_graphs_have_symbolic_plans_without_overlap),
        cmocka_unit_test(refuses_what_is_no_binding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
