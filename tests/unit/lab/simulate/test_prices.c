/* A simulated node takes for a prompt, its KV and a step what a real one says that the device would have
 * taken. */
#include "lab/simulate/prices.h"
#include "lab/simulate/load.h"
#include "engine/overlap.h"
#include "device/work.h"
#include "engine/costs.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CTX = 512, LENGTHS = 6 };
static const uint32_t lengths[LENGTHS] = {1, 17, 64, 65, 200, 500};

static const char *attention; /* of the package; NULL: dense */
static const char *arch = "llama";

/* A model, its package, and the node that runs it. */
typedef struct bed {
    engine_kit kit;
    bt_dims dims;
    bt_pkg *pkg;
    bt_prefill *engine;
    bt_costs_prefill *node;
    tool_simulate_setup setup;
    tool_simulate_priced priced;
} bed;

static void begin(bed *b, const char *recipe, uint32_t kv_elem_bytes, bool has_package)
{
    bt_fault fault = {""};
    tool_simulate_setup *s = &b->setup;
    memset(b, 0, sizeof *b);
    b->kit = engine_kit_model(arch);
    b->dims = bt_costs_dims(b->kit.model);
    b->pkg = attention ? npu_kit_sparse(b->kit.model, attention, "chunk:64+tail", CTX)
                       : npu_kit_compiled(b->kit.model, recipe, BT_PKG_OPS_LINEAR, "chunk:64+tail", CTX);
    b->engine = npu_kit_engine(b->kit.model, b->pkg, CTX, NULL, NULL, kv_elem_bytes);
    *s = (tool_simulate_setup){.model = &b->dims,
                               .weight_bits = 16,
                               .weight_permille = 2000,
                               .kv_elem_bytes = kv_elem_bytes,
                               .ctx_tokens = CTX,
                               .shape_policy = "chunk:64+tail",
                               .recipe = recipe,
                               .attention = attention,
                               .kv_memory_bytes = 1 << 26,
                               .link = {.bits_per_us = 200, .latency_ns = 700},
                               .package = has_package ? b->pkg : NULL,
                               .cluster = sim_cluster_defaults()};
    assert_int_equal(tool_simulate_side_read(&s->prefill, "prefill", "1:hexagon-v75", "h100", &fault), BT_OK);
    assert_int_equal(tool_simulate_side_read(&s->decode, "decode", "1:adreno-750", "h100", &fault), BT_OK);
    /* the kit compiles for this name */
    bt_profile *p = &s->prefill.group[0].profile;
    (void)snprintf(p->name, sizeof p->name, "%s", bt_pkg_header_of(b->pkg)->profile);
    if (tool_simulate_check_package(s, &fault) < 0) fail_msg("%s", fault.text);
    if (tool_simulate_price_node(&b->priced, s, &s->prefill.group[0], true, &fault) < 0)
        fail_msg("%s", fault.text);
    if (bt_costs_prefill_new(&b->node, b->engine, b->kit.model, p, &s->link, &fault) < 0)
        fail_msg("%s", fault.text);
}

static void done(bed *b)
{
    tool_simulate_price_done(&b->priced);
    bt_costs_prefill_free(b->node);
    bt_prefill_free(b->engine);
    bt_pkg_close(b->pkg);
    engine_kit_done(&b->kit);
}

static void schedule(bed *b, bt_schedule_policy policy)
{
    bt_fault fault = {""};
    b->setup.schedule = policy;
    b->setup.window = BT_OVERLAP_WINDOW;
    if (bt_costs_prefill_by(b->node, policy, &fault) < 0) fail_msg("%s", fault.text); /* as the node does */
    tool_simulate_price_done(&b->priced);
    if (tool_simulate_price_node(&b->priced, &b->setup, &b->setup.prefill.group[0], true, &fault) < 0)
        fail_msg("%s", fault.text);
}

static uint64_t simulated_ns(const bed *b, uint32_t kept, uint32_t end)
{
    uint64_t ns = 0;
    for (uint32_t at = kept; at < end;) {
        const sim_cost_chunk k = sim_cost_next(&b->priced.cost, end, at, at == kept);
        assert_in_range(k.valid, 1, end - at);
        ns += k.work.ns;
        at += k.valid;
    }
    return ns;
}

static void a_prompt_takes_what_the_node_says_to_the_nanosecond(void **state)
{
    (void)state;
    static const char *const recipes[] = {"w8a8", "w4a16"};
    for (uint32_t r = 0; r < 2; r++) {
        static bed b;
        begin(&b, recipes[r], r ? 1 : 2, true);
        for (uint32_t i = 0; i < LENGTHS; i++)
            for (uint32_t kept = 0; kept < lengths[i]; kept += 50) {
                const bt_work_prompt p = {.first = kept, .end = lengths[i]};
                assert_int_equal(simulated_ns(&b, kept, lengths[i]),
                                 bt_work_of_prompt(&b.node->work, &p).work.ns);
            }
        done(&b);
    }
}

static void a_step_takes_what_the_node_says(void **state)
{
    (void)state;
    static bed b;
    bt_fault fault = {""};
    const bt_form forms[] = {BT_FORM_F16, BT_FORM_INT8, BT_FORM_FP4};
    static const uint32_t bits[] = {16, 8, 4}, permille[] = {2000, 1062, 625};
    for (uint32_t elem = 1; elem <= 2; elem++) {
        begin(&b, "w8a8", elem, false);
        for (uint32_t f = 0; f < 3; f++) {
            const bt_profile *p = &b.setup.decode.group[0].profile;
            const bt_price_model node = bt_costs_decode(b.kit.model, forms[f], elem);
            tool_simulate_priced priced;
            b.setup.weight_bits = bits[f];
            b.setup.weight_permille = permille[f];
            if (tool_simulate_price_node(&priced, &b.setup, &b.setup.decode.group[0], false, &fault) < 0)
                fail_msg("%s", fault.text);
            for (uint32_t batch = 1; batch <= 64; batch *= 4) {
                bt_price_step ours = {0}, theirs = {0};
                for (uint32_t i = 0; i < batch; i++) {
                    bt_work_step_add(&ours, 100 + 7 * i, 1, 1, 0);
                    bt_work_step_add(&theirs, 100 + 7 * i, 1, 1, 0);
                }
                bt_work_step_add(&ours, 40, 30, 1, 0);
                bt_work_step_add(&theirs, 40, 30, 1, 0);
                assert_int_equal(sim_cost_step(&priced.cost, &ours).ns,
                                 bt_work_of_step(p, &node, &theirs).ns);
            }
        }
        done(&b);
    }
}

static void under_a_schedule_it_takes_what_the_node_says_to_the_nanosecond(void **state)
{
    (void)state;
    for (int k = BT_SCHEDULE_SERIAL; k <= BT_SCHEDULE_OOO; k++) {
        static bed b;
        const sim_cost *cost = &b.priced.cost;
        begin(&b, "w8a8", 2, true);
        schedule(&b, (bt_schedule_policy)k);
        for (uint32_t i = 0; i < LENGTHS; i++)
            for (uint32_t kept = 0; kept < lengths[i]; kept += 50) {
                const bt_work_prompt p = {.first = kept, .end = lengths[i]};
                bt_work_played got;
                assert_true(cost->play(cost->play_ud, &got, kept, lengths[i]));
                assert_int_equal(got.ns, bt_work_of_prompt(&b.node->work, &p).work.ns);
            }
        done(&b);
    }
}

/* From the last rows, which the last layer stores before its attention, to the prompt's end. */
static uint64_t behind_rows_ns(const bed *b, uint32_t end)
{
    bt_work_played p;
    assert_true(bt_schedule_play_prompt(b->node->play, &p, 0, end));
    return p.ns - p.stored_ns[p.chunks * b->dims.layers - 1];
}

/* The gateway takes no time here, so only prices are left. */
static void a_request_takes_what_nodes_would_answer(bt_schedule_policy policy)
{
    enum { OUTPUT = 20 };
    static bed b;
    bt_fault fault = {""};
    begin(&b, "w8a8", 2, true);
    schedule(&b, policy);
    uint32_t exposed = 0;
    b.setup.cluster.request_ns = b.setup.cluster.token_ns = 0;
    for (uint32_t i = 1; i < 2 * LENGTHS; i++) {
        tool_simulate_bench *bench = NULL;
        tool_simulate_facts facts;
        tool_replay_result result = {0};
        tool_replay_item item = {.prompt_tokens =
                                     lengths[i % LENGTHS] - OUTPUT * (lengths[i % LENGTHS] > CTX - OUTPUT),
                                 .output_tokens = OUTPUT, .stream = 5, .next = TOOL_REPLAY_NONE};
        uint32_t order = 0;
        const tool_replay_plan plan = {.item = &item, .len = 1, .order = &order, .order_len = 1,
                                       .block_tokens = 64};
        if (i >= LENGTHS)
            b.setup.link.bits_per_us = b.node->work.link.bits_per_us = 8; /* not all is hidden */
        const bt_work_prompt p = {.end = item.prompt_tokens, .is_whole = item.prompt_tokens < 64};
        const bt_work_run run = bt_work_of_prompt(&b.node->work, &p);
        const bt_price_model model = bt_costs_decode(b.kit.model, BT_FORM_F16, 2);
        uint64_t steps = 0;
        for (uint32_t k = 0; k + 1 < OUTPUT; k++) {
            bt_price_step s = {0};
            bt_work_step_add(&s, item.prompt_tokens + k, 1, 1, 0);
            steps += bt_work_of_step(&b.setup.decode.group[0].profile, &model, &s).ns;
        }
        if (tool_simulate_bench_new(&bench, &b.setup, &fault) < 0) fail_msg("%s", fault.text);
        assert_int_equal(tool_replay_result_begin(&result, 1, &fault), BT_OK);
        if (tool_simulate_play(&facts, &result, bench, &plan, NULL, NULL, &fault) < 0)
            fail_msg("%s", fault.text);
        const tool_replay_record *r = &result.record[0];
        assert_int_equal(result.len, 1);
        assert_int_equal(r->completion_tokens, OUTPUT);
        /* ends of both are cut to microseconds; a short message behind the KV says that it is all */
        const uint64_t end_ns = bt_link_ns(&b.setup.link, 1500);
        assert_in_range(r->prefill_us, run.work.ns / 1000, run.work.ns / 1000 + 1);
        /* a node counts from its last rows, which stand in front of the output matrix */
        const uint64_t shown = run.exposed_ns + behind_rows_ns(&b, item.prompt_tokens);
        assert_in_range(r->exposed_us, shown / 1000, (shown + end_ns) / 1000 + 2);
        assert_in_range(r->decode_us, steps / 1000, steps / 1000 + 1);
        exposed += run.exposed_ns > 10 * end_ns;
        tool_replay_result_done(&result);
        tool_simulate_bench_free(bench);
    }
    assert_true(exposed > 0);
    done(&b);
}

static void a_request_of_a_cluster_takes_what_nodes_would_answer(void **state)
{
    (void)state;
    a_request_takes_what_nodes_would_answer(BT_SCHEDULE_SERIAL);
}

static void so_does_one_whose_chunks_are_under_way_together(void **state)
{
    (void)state;
    a_request_takes_what_nodes_would_answer(BT_SCHEDULE_FIFO);
    a_request_takes_what_nodes_would_answer(BT_SCHEDULE_OOO);
}

static void a_package_that_no_node_runs_is_refused(void **state)
{
    (void)state;
    static bed b;
    bt_fault fault = {""};
    begin(&b, "w8a8", 2, true);
    b.setup.ctx_tokens = CTX + 1;
    tool_simulate_price_done(&b.priced);
    assert_int_equal(tool_simulate_price_node(&b.priced, &b.setup, &b.setup.prefill.group[0], true, &fault),
                     BT_EARG);
    assert_non_null(strstr(fault.text, "at most 512 tokens"));
    b.setup.shape_policy = "chunk:32";
    assert_int_equal(tool_simulate_check_package(&b.setup, &fault), BT_EARG);
    assert_non_null(strstr(fault.text, "chunk:64+tail"));
    b.setup.shape_policy = NULL;
    b.dims.layers++;
    assert_int_equal(tool_simulate_check_package(&b.setup, &fault), BT_EARG);
    b.dims.layers--;
    b.setup.prefill.group[0].profile.name[0] = 'x';
    assert_int_equal(tool_simulate_check_package(&b.setup, &fault), BT_EARG);
    assert_non_null(strstr(fault.text, "no prefill node is one"));
    done(&b);
}

static void a_package_with_other_windows_is_of_another_model(void **state)
{
    (void)state;
    static bed b;
    const tool_simulate_group *g = &b.setup.prefill.group[0];
    begin(&b, "w8a8", 2, true);
    bt_dims *d = &b.dims;
    assert_true(tool_simulate_is_of_package(&b.setup, g));
    d->window = 40;
    d->windowed = d->layers;
    assert_false(tool_simulate_is_of_package(&b.setup, g));
    done(&b);
    arch = "gemma3";
    begin(&b, "w8a8", 2, true);
    assert_true(d->windowed == d->layers);
    assert_true(tool_simulate_is_of_package(&b.setup, g));
    d->window++;
    assert_false(tool_simulate_is_of_package(&b.setup, g));
    d->window--;
    d->windowed--; /* the last layer sees all */
    assert_false(tool_simulate_is_of_package(&b.setup, g));
    done(&b);
    arch = "llama";
}

static void a_step_needs_the_memory_of_idle_experts_and_a_prompt_that_of_its_programs(void **state)
{
    (void)state;
    bt_dims d = *bt_dims_find("qwen3-30b-a3b");
    d.layers = d.expert_layers = 2;
    tool_simulate_priced priced;
    tool_simulate_group g = {.least = 1, .most = 1};
    bt_fault fault = {""};
    const tool_simulate_setup s = {.model = &d, .weight_bits = 16, .weight_permille = 2000,
                                   .kv_elem_bytes = 2, .ctx_tokens = CTX};
    const bt_price_model f16 =
        bt_price_model_of(&d, &(bt_price_recipe){.weight_bits = 16, .weight_bytes_permille = 2000,
                                                 .kv_elem_bits = 16});
    assert_int_equal(bt_profile_load(&g.profile, "hexagon-v75", &fault), BT_OK);
    if (tool_simulate_price_node(&priced, &s, &g, false, &fault) < 0) fail_msg("%s", fault.text);
    assert_true(priced.cost.weight_bytes >= f16.weight_bytes + f16.idle_bytes);
    tool_simulate_price_done(&priced);
    g.profile.memory_bytes = f16.weight_bytes + f16.idle_bytes - 1;
    assert_int_equal(tool_simulate_price_node(&priced, &s, &g, false, &fault), BT_ELIMIT);
    if (tool_simulate_price_node(&priced, &s, &g, true, &fault) < 0) fail_msg("%s", fault.text);
    tool_simulate_price_done(&priced);
}

static void a_node_that_attends_sparsely_runs_each_prompt_alone_at_its_price(void **state)
{
    (void)state;
    for (int has_package = 0; has_package < 2; has_package++) {
        static bed b, dense;
        attention = NULL;
        begin(&dense, "w8a8", 2, has_package);
        attention = "sparse:0.3,dense=40";
        begin(&b, "w8a8", 2, has_package);
        assert_int_equal(sim_cost_share_tokens(&dense.priced.cost, 256), 64);
        assert_int_equal(sim_cost_share_tokens(&b.priced.cost, 256), 0);
        for (size_t i = 0; i < LENGTHS; i++) {
            const bt_work_prompt p = {.end = lengths[i]};
            const double node = (double)bt_work_of_prompt(&b.node->work, &p).work.ns,
                         got = (double)simulated_ns(&b, 0, lengths[i]);
            if (got < node * (has_package ? 1 : .99) || got > node * (has_package ? 1 : 1.01))
                fail_msg("%u tokens: %.0f, and the node says %.0f", (unsigned)lengths[i], got, node);
            assert_true((lengths[i] < 64) ==
                        (simulated_ns(&dense, 0, lengths[i]) == simulated_ns(&b, 0, lengths[i])));
        }
        bt_fault fault = {""};
        b.setup.attention = "sparse:0.3";
        assert_int_equal(tool_simulate_check_package(&b.setup, &fault), has_package ? BT_EARG : BT_OK);
        if (has_package) assert_non_null(strstr(fault.text, "sparse:0.3,dense=40"));
        b.setup.attention = "sparse:0";
        assert_int_equal(tool_simulate_check_package(&b.setup, &fault), BT_EARG);
        b.setup.attention = "sparse:0.3,dense=40";
        b.setup.package = NULL;
        b.setup.prefill.group[0].profile.companion = true; /* a GPU */
        assert_int_equal(tool_simulate_check_package(&b.setup, &fault), BT_EARG);
        assert_non_null(strstr(fault.text, "no prefill node is an NPU"));
        done(&b);
        done(&dense);
    }
    attention = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_takes_what_the_node_says_to_the_nanosecond),
        cmocka_unit_test(a_step_takes_what_the_node_says),
        cmocka_unit_test(under_a_schedule_it_takes_what_the_node_says_to_the_nanosecond),
        cmocka_unit_test(a_request_of_a_cluster_takes_what_nodes_would_answer),
        cmocka_unit_test(so_does_one_whose_chunks_are_under_way_together),
        cmocka_unit_test(a_package_that_no_node_runs_is_refused),
        cmocka_unit_test(a_package_with_other_windows_is_of_another_model),
        cmocka_unit_test(a_step_needs_the_memory_of_idle_experts_and_a_prompt_that_of_its_programs),
        cmocka_unit_test(a_node_that_attends_sparsely_runs_each_prompt_alone_at_its_price),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
