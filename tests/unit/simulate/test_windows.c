/* Clusters of a model with windows: what links carry, which pages nodes have, and how these run out. */
#include "kernels/kv_view.h"
#include "simulate/cluster.h"
#include "tests/helpers/brain/sim_kit.h"
#include "xfer/xfer_recv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CTX = SIM_KIT_CTX, REQUESTS = 8, LOOK_NS = 1000000, LOOKS = 4000 };

typedef struct bed {
    sim_cluster *c;
    bt_dims dims;
    sim_cost cost;
    sim_cluster_group group[2];
    uint32_t prompt[REQUESTS + 1], output;
    int32_t ids[CTX];
    uint64_t kv_bytes[REQUESTS + 1];
    uint32_t decode; /* host of the decode node */
    uint32_t ended, queued, looks;
    bt_load most; /* of its pages at a time */
} bed;

static void fill(void *ud, uint64_t request, gw_submit *ret)
{
    bed *b = ud;
    for (uint32_t i = 0; i < b->prompt[request]; i++) b->ids[i] = (int32_t)request;
    ret->ids = b->ids;
    ret->ids_len = b->prompt[request];
    ret->max_tokens = b->output;
    ret->sampling = (bt_sampling){.top_p = 1};
}

static void tokens(void *ud, uint64_t request, uint32_t count, int64_t now_ns)
{
    (void)ud;
    (void)request;
    (void)count;
    (void)now_ns;
}

static void end(void *ud, uint64_t request, const gw_action *how, int64_t now_ns)
{
    bed *b = ud;
    (void)now_ns;
    assert_int_equal(how->type, GW_DO_DONE);
    b->kv_bytes[request] = how->u.done.stats.kv_bytes;
    b->ended++;
}

static void most(uint64_t *at, uint64_t v)
{
    if (v > *at) *at = v;
}

static void due(void *ud, uint64_t number, int64_t now_ns)
{
    bed *b = ud;
    const bt_load l = sim_cluster_look(b->c, b->decode).load;
    (void)number;
    (void)now_ns;
    if (l.queued > b->queued) b->queued = (uint32_t)l.queued;
    most(&b->most.pages_used, l.pages_used);
    most(&b->most.window_pages_used, l.window_pages_used);
    if (b->looks++ < LOOKS) sim_cluster_at(b->c, sim_cluster_now_ns(b->c) + LOOK_NS, 1);
}

/* A pair of GPUs with the model; prefills 0: the decode node computes prompts. */
static void make(bed *b, const bt_dims *model, uint32_t prefills, uint32_t pages, uint32_t slots,
                 bool is_by_layer)
{
    static bt_shapes chunks;
    bt_fault fault = {""};
    assert_int_equal(bt_shapes_parse(&chunks, "chunk:1024+tail", CTX, &fault), BT_OK);
    b->dims = *model;
    const sim_cost_options cost = {.model = &b->dims,  .profile = &sim_kit_costs()->gpu,
                                   .weight_bits = 16,  .weight_permille = 2000,
                                   .kv_elem_bytes = 2, .shapes = &chunks};
    if (sim_cost_begin(&b->cost, &cost, &fault) < 0) fail_msg("%s", fault.text);
    sim_cluster_options o = sim_cluster_defaults();
    b->group[0] = (sim_cluster_group){.cost = &b->cost, .device = "p", .nodes = prefills, .pages = 4096};
    b->group[1] = (sim_cluster_group){.cost = &b->cost, .device = "d", .nodes = 1, .pages = pages};
    o.seed = 1;
    o.prefill = &b->group[0];
    o.prefills = prefills > 0;
    o.decode = &b->group[1];
    o.decodes = 1;
    o.can_prefill = !prefills;
    o.decode_slots = slots;
    o.link = (bt_link){.bits_per_us = 10000};
    o.model = &b->dims;
    o.kv_elem_bytes = 2;
    o.ctx_tokens = CTX;
    o.is_by_layer = is_by_layer;
    o.is_checked = true;
    b->decode = prefills;
    const sim_cluster_client client = {b, fill, tokens, end, due};
    if (sim_cluster_new(&b->c, &o, &client, &fault) < 0) fail_msg("%s: %s", model->name, fault.text);
}

static void submit(bed *b, uint32_t prompt) { b->prompt[sim_cluster_submit(b->c)] = prompt; }

static void run(bed *b, uint32_t requests)
{
    bt_fault fault = {""};
    if (sim_cluster_run(b->c, INT64_MAX, &fault) < 0) fail_msg("%s", fault.text);
    assert_int_equal(b->ended, requests);
}

/* As `plan` and `roofline` price it. */
static uint64_t priced_bytes(const bt_dims *d, uint32_t prompt)
{
    const bt_link_kv kv = bt_link_kv_of(d, bt_dims_kv_bytes(d, 16));
    uint64_t bytes = 0;
    for (uint32_t at = 0; at < prompt; at += 100) { /* chunks on no edge of a page */
        const bt_link_rows rows = bt_link_rows_of(&kv, at, prompt - at < 100 ? prompt : at + 100, prompt);
        bytes += bt_link_bytes(&kv, &rows);
    }
    return bytes;
}

/* Layer by layer, as nodes do it with the model's own shape. */
static uint64_t sent_bytes(const bt_dims *d, uint32_t prompt)
{
    bt_kv_shape shape = {d->layers, d->kv_heads, d->head_dim, BT_KV_F16, d->window, 0};
    uint64_t bytes = 0;
    assert_true(bt_dims_global_every(&shape.global_every, d));
    assert_int_equal(bt_kv_all_layers(shape.global_every, d->layers), d->layers - d->windowed);
    for (uint32_t layer = 0; layer < d->layers; layer++)
        bytes += bt_xfer_block_bytes(&shape, prompt - bt_xfer_first_token(&shape, layer, prompt));
    return bytes;
}

static void links_carry_the_rows_that_nodes_send(void **state)
{
    (void)state;
    static const char *const models[] = {"gemma-3-270m", "gemma-3-1b", "gemma-3-4b", "gemma-3-27b",
                                         "gemma-2-2b",   "mistral-7b", "gpt-oss-20b"};
    static const uint32_t prompts[] = {100, 512, 513, 640, 1111, 4096, 8000};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int by_layer = 0; by_layer < 2; by_layer++) {
            bed *b = calloc(1, sizeof *b);
            uint64_t all = 0;
            assert_non_null(b);
            make(b, bt_dims_find(models[i]), 1, 4096, 32, by_layer);
            b->output = 4;
            for (uint32_t k = 0; k < 7; k++) submit(b, prompts[k]);
            run(b, 7);
            for (uint32_t k = 0; k < 7; k++) {
                const uint64_t want = sent_bytes(&b->dims, prompts[k]);
                if (b->kv_bytes[k + 1] != want)
                    fail_msg("%s, %u tokens: %llu bytes, not %llu", models[i], prompts[k],
                             (unsigned long long)b->kv_bytes[k + 1], (unsigned long long)want);
                assert_int_equal(priced_bytes(&b->dims, prompts[k]), want);
                all += want;
            }
            assert_int_equal(sim_cluster_look(b->c, 0).sent_bytes, all);
            sim_cluster_free(b->c);
            free(b);
        }
}

/* gemma3-270m's 15 of 18 layers see 512 tokens: each of 32 sequences gets (512 + growth) / 64 + 2 pages. */
static void pages_are_counted_by_class(void **state)
{
    (void)state;
    bed *b = calloc(1, sizeof *b);
    assert_non_null(b);
    make(b, bt_dims_find("gemma-3-270m"), 1, 1000, 32, false);
    const uint32_t growth = sim_cluster_defaults().dc.growth_tokens, windows = 32 * ((512 + growth) / 64 + 2);
    const bt_load p = sim_cluster_look(b->c, 0).load, d = sim_cluster_look(b->c, 1).load;
    assert_int_equal(p.pages_total, 4096);
    assert_int_equal(p.window_pages_total, 4096);
    assert_true(windows < 1000);
    assert_int_equal(d.window_pages_total, windows);
    assert_int_equal(d.pages_total, (1000 * 18 - windows * 15) / 3);
    b->output = 1500;
    sim_cluster_at(b->c, 0, 1);
    submit(b, 4000);
    run(b, 1);
    assert_int_equal(b->most.pages_used, (4000 + 1500 + 63) / 64); /* all of the last: 1500 are 1499 rows and
                                                                      one */
    assert_in_range(b->most.window_pages_used, 512 / 64, (512 + growth) / 64 + 2);
    sim_cluster_free(b->c);
    free(b);
}

/* A prompt that the node computes itself holds all of its rows, until it is done. */
static void prompts_wait_for_window_pages_though_others_are_free(void **state)
{
    (void)state;
    bed *b = calloc(1, sizeof *b);
    assert_non_null(b);
    make(b, bt_dims_find("gemma-3-270m"), 0, 150, 2, false);
    const bt_load l = sim_cluster_look(b->c, 0).load;
    assert_int_equal(l.window_pages_total, CTX / 64);
    assert_true(l.pages_total >= 2 * CTX / 64);
    b->output = 20;
    sim_cluster_at(b->c, 0, 1);
    submit(b, 8000);
    submit(b, 8001);
    run(b, 2);
    assert_int_equal(b->queued, 1);
    assert_true(b->most.pages_used < l.pages_total - 8001 / 64);
    assert_in_range(b->most.window_pages_used, 8000 / 64, CTX / 64);
    sim_cluster_free(b->c);
    free(b);
}

/* Such layers are in no file that nodes serve: all rows travel. */
static void windows_in_no_pattern_count_as_none(void **state)
{
    (void)state;
    bt_dims d = *bt_dims_find("llama-3.2-3b");
    const bt_kv_shape shape = {d.layers, d.kv_heads, d.head_dim, BT_KV_F16, 0, 0};
    d.window = 512;
    d.windowed = 8; /* 20 of 28 see all */
    for (int by_layer = 0; by_layer < 2; by_layer++) {
        bed *b = calloc(1, sizeof *b);
        assert_non_null(b);
        make(b, &d, 1, 4096, 32, by_layer);
        b->output = 4;
        submit(b, 2000);
        run(b, 1);
        assert_int_equal(b->kv_bytes[1], d.layers * bt_xfer_block_bytes(&shape, 2000));
        assert_int_equal(sim_cluster_look(b->c, 0).sent_bytes, b->kv_bytes[1]);
        assert_int_equal(priced_bytes(&d, 2000), b->kv_bytes[1]);
        sim_cluster_free(b->c);
        free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_carry_the_rows_that_nodes_send),
        cmocka_unit_test(pages_are_counted_by_class),
        cmocka_unit_test(prompts_wait_for_window_pages_though_others_are_free),
        cmocka_unit_test(windows_in_no_pattern_count_as_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
