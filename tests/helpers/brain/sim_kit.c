/* Simulated clusters for tests. See sim_kit.h. */
#include "tests/helpers/brain/sim_kit.h"
#include "lab/simulate/load.h"
#include "lab/simulate/prices.h"

#include <stdio.h>
#include <stdlib.h>

static void need(bt_err e, const bt_fault *why)
{
    if (e == BT_OK) return;
    fprintf(stderr, "sim_kit: %s\n", why->text);
    abort();
}

/* Peaks of a data sheet: what is fitted anew moves no test of the simulator. */
static const char gpu[] = "{\"name\": \"gpu\", \"title\": \"A GPU\", \"operators\": {}, \"companion\": true, "
                          "\"time\": {\"stack\": \"s\", "
                          "\"f16_ops_per_us\": 989430000, \"memory_bytes_per_us\": 3350000}}";
/* A step takes about 2.6 ms, most of it before the first operator. */
static const char slow[] = "{\"name\": \"slow\", \"title\": \"A slow GPU\", \"operators\": {}, "
                           "\"companion\": true, \"time\": {\"stack\": \"s\", "
                           "\"f16_ops_per_us\": 395772000, \"memory_bytes_per_us\": 3350000, "
                           "\"dispatch_ns\": 1950000}}";

const sim_kit *sim_kit_costs(void)
{
    static sim_kit k;
    static bt_shapes chunks;
    static tool_simulate_priced npu;
    bt_fault why = {""};
    if (k.model) return &k;
    k.model = bt_dims_find("llama-3.2-1b");
    need(bt_shapes_parse(&chunks, "chunk:8192+tail", SIM_KIT_CTX, &why), &why);
    sim_cost_options o = {.model = k.model,        .profile = &k.gpu,  .weight_bits = 16,
                          .weight_permille = 2000, .kv_elem_bytes = 2, .shapes = &chunks};
    need(bt_profile_parse(&k.gpu, gpu, sizeof gpu - 1, &why), &why);
    need(bt_profile_load(&k.npu, "hexagon-v75", &why), &why);
    need(sim_cost_begin(&k.gpu_cost, &o, &why), &why);
    need(bt_profile_parse(&k.slow, slow, sizeof slow - 1, &why), &why);
    o.profile = &k.slow;
    need(sim_cost_begin(&k.slow_cost, &o, &why), &why);
    const tool_simulate_setup s = {.model = k.model, .weight_bits = 16, .weight_permille = 2000,
                                   .kv_elem_bytes = 2, .ctx_tokens = SIM_KIT_CTX};
    const tool_simulate_group g = {.profile = k.npu};
    need(tool_simulate_price_node(&npu, &s, &g, true, &why), &why);
    k.npu_cost = npu.cost;
    k.npu_cost.play = NULL; /* chunk by chunk */
    return &k;
}

void sim_kit_setup(tool_simulate_setup *ret, const char *prefill, const char *decode)
{
    bt_fault why = {""};
    *ret = (tool_simulate_setup){.model = bt_dims_find("llama-3.2-1b"),
                                 .weight_bits = 16,
                                 .weight_permille = 2000,
                                 .kv_elem_bytes = 2,
                                 .ctx_tokens = SIM_KIT_CTX,
                                 .seed = 1,
                                 .swap_memory_bytes = 1 << 30,
                                 .link = {.bits_per_us = 100000},
                                 .cluster = sim_cluster_defaults()};
    need(tool_simulate_side_read(&ret->prefill, "prefill", prefill, "h100", &why), &why);
    need(tool_simulate_side_read(&ret->decode, "decode", decode, "h100", &why), &why);
}

void sim_kit_play(sim_played *d, const char *spec, size_t n)
{
    tool_simulate_bench *bench = NULL;
    tool_replay_synthetic s;
    bt_fault why = {""};
    uint64_t bad;
    const tool_simulate_load l = {.synthetic = &s, .limit = n,
                                  .how = {.seed = 3, .usual_output = 64, .context_tokens = SIM_KIT_CTX,
                                          .speed = 1, .is_closed = d->setup.concurrency > 0}};
    need(tool_replay_synthetic_read(&s, spec, &why), &why);
    need(tool_simulate_load_read(&d->plan, &bad, &l, &why), &why);
    need(tool_replay_result_begin(&d->result, d->plan.len, &why), &why);
    need(tool_simulate_bench_new(&bench, &d->setup, &why), &why);
    need(tool_simulate_play(&d->facts, &d->result, bench, &d->plan, NULL, NULL, &why), &why);
    tool_simulate_bench_free(bench);
    need(tool_replay_figures_of(&d->figures, &d->result, NULL, &why), &why);
}

void sim_played_done(sim_played *d)
{
    tool_replay_plan_done(&d->plan);
    tool_replay_result_done(&d->result);
    free(d);
}
