/* A small package on made-up devices whose times can be summed by hand: the schedule's parts, the link, the
 * steps. */
#include "lab/timeline/modelled.h"
#include "tests/helpers/model/tiny_pkg.h"
#include "tests/helpers/brain/toy_profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct kit {
    bt_profile npu, companion, decode;
    bt_pkg *pkg;
    tool_modelled_plan plan;
    tool_modelled_result r;
    tool_timeline_span *span;
    size_t spans;
} kit;

/* With the profiles as they are now. */
static void again(kit *k, int policy)
{
    bt_fault fault = {""};
    const bt_price_pkg_config c = {.pkg = k->pkg, .npu = &k->npu, .companion = &k->companion};
    bt_price_pkg_free(k->plan.price);
    k->plan.price = NULL;
    free(k->span);
    k->span = NULL;
    if (bt_price_pkg_new(&k->plan.price, &c, &fault) < 0) fail_msg("%s", fault.text);
    if (tool_modelled_play(&k->r, &k->span, &k->spans, &k->plan, policy, &fault) < 0)
        fail_msg("%s", fault.text);
}

/* tiny_pkg: programs of 4 rows, 2 layers, 1 KV head of 8 dimensions. */
static void play(kit *k, const char *npu, const char *companion, const char *decode, size_t tokens,
                 int policy)
{
    bt_fault fault = {""};
    memset(k, 0, sizeof *k);
    k->npu = toy_profile("npu", npu);
    k->companion = toy_profile("companion", companion);
    k->decode = toy_profile("decode", decode);
    k->pkg = tiny_pkg_open(&(tiny_pkg){.layers = 2});
    k->plan = (tool_modelled_plan){.decode = &k->decode, .model = {.operators = 10, .layers = 2},
                                   .prompt_tokens = tokens, .answer_tokens = 4, .window = 8};
    assert_int_equal(bt_link_parse(&k->plan.link, "8", &fault), BT_OK); /* 1,000 bytes a microsecond */
    again(k, policy);
}

static void done(kit *k)
{
    free(k->span);
    bt_price_pkg_free(k->plan.price);
    bt_pkg_close(k->pkg);
}

/* The time of a program by hand: a launch for each product, and 1 ns for what any instruction moves or
 * computes. */
static void add_ns(uint64_t ns[2], const bt_pkg *p, uint32_t program, uint64_t npu_launch, uint64_t launch)
{
    const bt_pkg_inst *code = bt_pkg_code(p, program);
    for (uint32_t i = 0; i < bt_pkg_programs(p)[program].insts; i++) {
        ns[code[i].unit == BT_PKG_COMPANION]++;
        switch (code[i].op) {
        case BT_PKG_LINEAR:
        case BT_PKG_INT_LINEAR:
        case BT_PKG_INT_ATTENTION: ns[0] += npu_launch; break;
        case BT_PKG_LINEAR_F16:
        case BT_PKG_ATTENTION: ns[1] += launch; break;
        default: break;
        }
    }
}

static void in_program_order_the_first_token_waits_for_every_launch(void **state)
{
    (void)state;
    kit k;
    play(&k, "\"op_launch_ns\": 1000", "\"op_launch_ns\": 100", "\"decode_op_ns\": 7", 10,
         BT_SCHEDULE_SERIAL);
    const bt_pkg_row *row = bt_pkg_rows(k.pkg);
    uint64_t ns[2] = {0, 0};
    add_ns(ns, k.pkg, row->program[BT_PKG_OUT_NONE], 1000, 100);
    add_ns(ns, k.pkg, row->program[BT_PKG_OUT_NONE], 1000, 100);
    add_ns(ns, k.pkg, row->program[BT_PKG_OUT_LAST], 1000, 100);
    assert_int_equal(k.r.chunks, 3); /* 4 + 4 + 2 */
    assert_true(ns[0] > 20000 && ns[1] > 400);
    assert_int_equal(k.r.schedule[BT_SCHEDULE_SERIAL].busy_ns[BT_SCHEDULE_NPU], ns[0]);
    assert_int_equal(k.r.schedule[BT_SCHEDULE_SERIAL].busy_ns[BT_SCHEDULE_COMPANION], ns[1]);
    assert_int_equal(k.r.ttft_ns, ns[0] + ns[1]);
    assert_true(k.r.schedule[BT_SCHEDULE_OOO].makespan_ns < k.r.ttft_ns);
    assert_int_equal(k.r.decode_ns, 3 * 10 * 7); /* token 0 is prefill's */
    assert_int_equal(k.r.kv_bytes, 10 * 2 * 2 * 8 * 2);
    done(&k);
}

static void kv_leaves_layer_by_layer_and_only_what_is_late_is_exposed(void **state)
{
    (void)state;
    kit k;
    play(&k, "\"op_launch_ns\": 1", "\"op_launch_ns\": 1", "\"decode_op_ns\": 1", 10, BT_SCHEDULE_FIFO);
    uint64_t free_ns = 0;
    size_t messages = 0;
    for (size_t i = 0; i < k.spans; i++) {
        const tool_timeline_span *s = &k.span[i];
        if (s->track != TOOL_TRACK_LINK) continue;
        const uint64_t rows = s->chunk == 2 ? 2 : 4;
        assert_int_equal(s->end_ns - s->begin_ns, rows * 2 * 8 * 2); /* 1,000 bytes a microsecond */
        assert_true(s->begin_ns >= free_ns);
        free_ns = s->end_ns;
        messages++;
    }
    assert_int_equal(messages, 3 * 2);
    assert_int_equal(k.r.link_busy_ns, k.r.kv_bytes);
    assert_true(free_ns > k.r.ttft_ns); /* the devices are quick */
    assert_int_equal(k.r.exposed_ns, free_ns - k.r.ttft_ns);
    assert_int_equal(k.r.end_ns, free_ns + k.r.decode_ns);
    for (size_t i = 0; i < k.spans; i++)
        if (k.span[i].track == TOOL_TRACK_DECODE) assert_true(k.span[i].begin_ns >= free_ns);
    done(&k);
    play(&k, "\"op_launch_ns\": 1000000", "\"op_launch_ns\": 1", "\"decode_op_ns\": 1", 10, BT_SCHEDULE_FIFO);
    assert_int_equal(k.r.exposed_ns, 0);
    done(&k);
}

static void the_shortest_schedule_is_drawn_where_none_is_named(void **state)
{
    (void)state;
    kit k;
    play(&k, "\"op_launch_ns\": 1000", "\"op_launch_ns\": 3000", "\"decode_op_ns\": 1", 30, -1);
    for (int i = 0; i < 3; i++)
        assert_true(k.r.schedule[k.r.policy].makespan_ns <= k.r.schedule[i].makespan_ns);
    assert_true(k.r.policy != BT_SCHEDULE_SERIAL);
    assert_int_equal(k.r.ttft_ns, k.r.schedule[k.r.policy].makespan_ns);
    done(&k);
}

static void first_use_is_paid_once_and_each_change_of_engine_for_its_sync(void **state)
{
    (void)state;
    kit plain, first, sync;
    play(&plain, "\"op_launch_ns\": 1000", "\"op_launch_ns\": 1", "\"decode_op_ns\": 1", 10,
         BT_SCHEDULE_SERIAL);
    play(&first, "\"op_launch_ns\": 1000, \"first_launch_ns\": 50", "\"op_launch_ns\": 1",
         "\"decode_op_ns\": 1", 10, BT_SCHEDULE_SERIAL);
    const bt_pkg *p = first.pkg;
    const uint32_t none = bt_pkg_rows(p)->program[BT_PKG_OUT_NONE];
    uint64_t linears = 0, changes = 0;
    for (uint32_t i = 0; i < bt_pkg_programs(p)[none].insts; i++)
        linears +=
            bt_pkg_code(p, none)[i].op == BT_PKG_LINEAR || bt_pkg_code(p, none)[i].op == BT_PKG_INT_LINEAR;
    linears++; /* the output matrix, where logits are made */
    assert_int_equal(first.r.ttft_ns, plain.r.ttft_ns + 50 * linears);
    play(&sync, "\"op_launch_ns\": 1000, \"sync_ns\": 9", "\"op_launch_ns\": 1", "\"decode_op_ns\": 1", 10,
         BT_SCHEDULE_SERIAL);
    for (uint32_t k = 0; k < 3; k++) {
        bt_stage stage[64];
        const size_t n = bt_stages_of(stage, NULL, 64, p,
                                      bt_pkg_rows(p)->program[k == 2 ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE]);
        for (size_t j = 1; j < n; j++) changes += stage[j].is_npu != stage[j - 1].is_npu;
    }
    assert_true(changes > 0);
    assert_int_equal(sync.r.ttft_ns, plain.r.ttft_ns + 9 * changes);
    done(&plain);
    done(&first);
    done(&sync);
}

/* Each linear of the NPU by itself, with whatever device/split.h finds for it. */
static uint64_t divided_by_hand(const kit *k, uint64_t ways[BT_SPLIT_WAYS])
{
    const bt_pkg *p = k->pkg;
    const bt_stage_engines *engines = bt_price_pkg_engines(k->plan.price);
    const bt_pkg_row *row = bt_pkg_rows(p);
    uint64_t sum = 0;
    for (uint32_t chunk = 0; chunk < 3; chunk++) {
        const uint32_t program = row->program[chunk == 2 ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE];
        const bt_stage_chunk c = {.pos = 4 * (uint64_t)chunk, .rows = 4, .ctx = row->ctx, .is_first = !chunk};
        bt_stage stage[64];
        const size_t n = bt_stages_of(stage, NULL, 64, p, program);
        for (size_t j = 0; j < n; j++) {
            sum += bt_stage_sync(engines, stage, j) + (stage[j].is_dispatch ? k->npu.time.dispatch_ns : 0);
            for (uint32_t i = 0; i < stage[j].insts; i++)
                sum +=
                    bt_stage_inst_cost(engines, p, program, bt_pkg_code(p, program) + stage[j].first + i, &c)
                        .ns;
            for (uint32_t i = 0; i < stage[j].insts; i++) {
                const bt_pkg_inst *inst = bt_pkg_code(p, program) + stage[j].first + i;
                if (inst->op != BT_PKG_LINEAR && inst->op != BT_PKG_INT_LINEAR) continue;
                const bt_time_matrix m = {.rows = inst->out_rows ? 1 : 4, .inputs = inst->in_width,
                                          .outputs = inst->out_width,
                                          .weight_bits = bt_pkg_tensors(p)[inst->tensor].bits,
                                          .input_bits = bt_pkg_sites(p)[inst->site].bits};
                const bt_split s = bt_split_solve(&k->npu, &k->companion, &m);
                sum = sum - bt_time_of_matrix(&k->npu, &m) + s.ns;
                ways[s.way]++;
            }
        }
    }
    return sum;
}

static void divided_linears_take_what_the_solver_says_and_both_engines_are_busy(void **state)
{
    (void)state;
    static const char time[] = "\"efficiency\": [[1, 1]], \"op_launch_ns\": 3";
    kit k;
    uint64_t ways[BT_SPLIT_WAYS] = {0};
    play(&k, time, time, "\"decode_op_ns\": 1", 10, BT_STAGE_SPLIT);
    k.npu.time.f16_ops_per_us = k.companion.time.f16_ops_per_us = 100000; /* products are what counts */
    again(&k, BT_STAGE_SPLIT);
    assert_int_equal(k.r.ttft_ns, divided_by_hand(&k, ways));
    assert_memory_equal(ways, k.r.ways, sizeof ways);
    assert_true(ways[BT_SPLIT_OUTPUTS] > 0);
    assert_true(k.r.ttft_ns < k.r.schedule[BT_SCHEDULE_SERIAL].makespan_ns);
    uint64_t busy[2] = {0, 0}, end[2] = {0, 0}, messages = 0;
    for (size_t i = 0; i < k.spans; i++) {
        const tool_timeline_span *s = &k.span[i];
        messages += s->track == TOOL_TRACK_LINK;
        if (s->track > TOOL_TRACK_COMPANION) continue;
        assert_true(s->begin_ns >= end[s->track]); /* an engine does one thing at a time */
        end[s->track] = s->end_ns;
        busy[s->track] += s->end_ns - s->begin_ns;
    }
    assert_memory_equal(busy, k.r.schedule[BT_STAGE_SPLIT].busy_ns, sizeof busy);
    assert_true(busy[0] + busy[1] > k.r.ttft_ns);
    assert_int_equal(messages, 3 * 2);
    /* where waiting costs more than dividing saves, it is program order */
    k.npu.time.sync_ns = k.companion.time.sync_ns = 100000000;
    again(&k, BT_STAGE_SPLIT);
    assert_int_equal(k.r.ttft_ns, k.r.schedule[BT_SCHEDULE_SERIAL].makespan_ns);
    assert_int_equal(k.r.ways[BT_SPLIT_NPU], ways[0] + ways[1] + ways[2] + ways[3] + ways[4]);
    done(&k);
}

static void refuses_a_prompt_beyond_the_package(void **state)
{
    (void)state;
    kit k;
    bt_fault fault;
    play(&k, "\"op_launch_ns\": 1", "\"op_launch_ns\": 1", "\"decode_op_ns\": 1", 32, -1);
    free(k.span);
    k.span = NULL;
    k.plan.prompt_tokens = 33;
    assert_int_equal(tool_modelled_play(&k.r, &k.span, &k.spans, &k.plan, -1, &fault), BT_ELIMIT);
    assert_non_null(strstr(fault.text, "33"));
    assert_non_null(strstr(fault.text, "32"));
    done(&k);
}

static void beyond_a_window_no_error_is_known(void **state)
{
    (void)state;
    const bt_dims *gemma = bt_dims_find("gemma-3-1b"), *llama = bt_dims_find("llama-3.2-1b");
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, "xdna2@flm", NULL), BT_OK);
    assert_int_equal(tool_modelled_error(&p, gemma, BT_FIGURE_TTFT, 512, 32).standing,
                     BT_STANDING_CALIBRATED);
    assert_int_equal(tool_modelled_error(&p, gemma, BT_FIGURE_TTFT, 513, 32).standing, BT_STANDING_FITTED);
    assert_int_equal(tool_modelled_error(&p, gemma, BT_FIGURE_TPOT, 512, 32).standing, BT_STANDING_FITTED);
    assert_int_equal(tool_modelled_error(&p, llama, BT_FIGURE_TPOT, 512, 32).standing,
                     BT_STANDING_CALIBRATED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_program_order_the_first_token_waits_for_every_launch),
        cmocka_unit_test(kv_leaves_layer_by_layer_and_only_what_is_late_is_exposed),
        cmocka_unit_test(the_shortest_schedule_is_drawn_where_none_is_named),
        cmocka_unit_test(first_use_is_paid_once_and_each_change_of_engine_for_its_sync),
        cmocka_unit_test(divided_linears_take_what_the_solver_says_and_both_engines_are_busy),
        cmocka_unit_test(refuses_a_prompt_beyond_the_package),
        cmocka_unit_test(beyond_a_window_no_error_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
