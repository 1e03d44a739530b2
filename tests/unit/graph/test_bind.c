/* Memory plans: no overlap, small peak, the same every time, nothing that depends on ctx. */
#include "graph/bind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const bt_hparams shapes[] = {
    {.arch = BT_ARCH_LLAMA,
     .layers = 3,
     .dim = 96,
     .ffn = 172,
     .heads = 6,
     .kv_heads = 2,
     .head_dim = 16,
     .vocab = 384},
    {.arch = BT_ARCH_QWEN2,
     .layers = 5,
     .dim = 40,
     .ffn = 7,
     .heads = 2,
     .kv_heads = 1,
     .head_dim = 20,
     .vocab = 33},
    {.arch = BT_ARCH_QWEN3,
     .layers = 30,
     .dim = 576,
     .ffn = 1536,
     .heads = 9,
     .kv_heads = 3,
     .head_dim = 64,
     .vocab = 49152,
     .qk_norm = true},
};
static const size_t seqs[] = {1, 3, 16, 64, 256};

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

static void check_overlap(const bt_program *p)
{
    size_t floor_bytes = 0;
    for (size_t i = 0; i < p->steps; i++) {
        const bt_placement *live[64];
        size_t n = 0, sum = 0;
        for (size_t t = 0; t < p->places; t++)
            if (is_live(p, p->place[t].tensor, i)) {
                live[n++] = &p->place[t];
                sum += p->place[t].bytes;
            }
        assert_true(n < 64);
        for (size_t a = 0; a < n; a++)
            for (size_t b = a + 1; b < n; b++)
                assert_true(live[a]->offset + live[a]->bytes <= live[b]->offset ||
                            live[b]->offset + live[b]->bytes <= live[a]->offset);
        if (sum > floor_bytes) floor_bytes = sum;
    }
    assert_true(p->arena_bytes >= floor_bytes);
    assert_true(p->arena_bytes * 100 <= floor_bytes * 105);
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
                check_overlap(p);
                bt_bind_free(p);
            }
        bt_graph_free(g);
    }
}

static void check_steps(const bt_program *p)
{
    assert_int_equal(p->arena_bytes % 64, 0);
    assert_int_equal(p->steps, p->out ? p->graph->ops : p->graph->op_tail);
    for (size_t t = 0; t < p->places; t++) {
        assert_int_equal(p->place[t].offset % 64, 0);
        assert_true(p->place[t].offset + p->place[t].bytes <= p->arena_bytes);
    }
    for (size_t i = 0; i < p->steps; i++) {
        const bt_step *s = &p->step[i];
        const bt_tensor_kind kind = p->graph->tensor[s->out].kind;
        assert_int_equal(s->out_at == SIZE_MAX, kind != BT_TENSOR_ACT);
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
    assert_int_equal(p->arena_bytes, q->arena_bytes);
    assert_int_equal(p->places, q->places);
    for (size_t i = 0; i < p->places; i++) {
        assert_int_equal(p->place[i].tensor, q->place[i].tensor);
        assert_int_equal(p->place[i].offset, q->place[i].offset);
        assert_int_equal(p->place[i].bytes, q->place[i].bytes);
    }
    for (size_t i = 0; i < p->steps; i++) assert_int_equal(p->step[i].out_at, q->step[i].out_at);
    bt_bind_free(q);
}

static void the_plan_is_the_same_every_time_and_for_every_ctx(void **state)
{
    (void)state;
    for_each_program(check_repeat);
}

static void refuses_what_is_no_binding(void **state)
{
    (void)state;
    bt_graph *g;
    bt_program *p = NULL;
    assert_int_equal(bt_graph_build(&g, &shapes[0], NULL, NULL), BT_OK);
    assert_int_equal(bt_bind_program(&p, g, 0, 16, 1, 0, NULL), BT_EARG);
    assert_int_equal(bt_bind_program(&p, g, 1, 0, 1, 0, NULL), BT_EARG);
    assert_int_equal(bt_bind_program(&p, g, 1, 16, 2, 0, NULL), BT_EARG);
    assert_int_equal(bt_bind_program(&p, g, SIZE_MAX / 2, 16, 1, 0, NULL), BT_ELIMIT);
    assert_int_equal(bt_bind_program(&p, g, 1, SIZE_MAX / 64, 1, 0, NULL), BT_ELIMIT);
    assert_null(p);
    bt_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_live_tensors_overlap_and_the_peak_is_near_its_floor),
        cmocka_unit_test(offsets_are_aligned_and_groups_share_one_input),
        cmocka_unit_test(the_plan_is_the_same_every_time_and_for_every_ctx),
        cmocka_unit_test(refuses_what_is_no_binding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
