/* Prices from a table against the full schedule of the same prompt: every policy, every length, packages and
 * devices of any kind. */
#include "npu/price/schedule_price.h"
#include "base/clock.h"
#include "base/rng.h"
#include "engine/costs.h"
#include "kernels/kv_view.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *const policies[] = {BT_STAGE_POLICY_NAMES};

typedef struct full {
    uint64_t *ns;
    size_t stages;
} full;

static uint64_t cost_ns(const void *ud, size_t chunk, size_t stage)
{
    const full *f = ud;
    return f->ns[chunk * f->stages + stage];
}

/* The time of a stage by itself, its linears divided. */
static uint64_t divided(const bt_schedule_price_config *c, const bt_price_pkg_chunk *k)
{
    const bt_pkg *p = bt_price_pkg_of(c->price);
    const bt_stage_engines *e = bt_price_pkg_engines(c->price);
    const bt_stage_chunk at = {.pos = k->pos, .rows = k->rows, .ctx = k->ctx, .is_first = k->is_first};
    bt_stage_memo memo = {.used = 0};
    bt_stage stage[512];
    uint64_t sum = 0;
    const size_t n = bt_stages_of(stage, NULL, 512, p, k->program);
    assert_true(n <= 512);
    for (size_t j = 0; j < n; j++)
        sum += bt_stage_cost_split(&memo, e, p, k->program, &stage[j], &at, NULL, NULL) +
               bt_stage_sync(e, stage, j);
    return sum;
}

/* The whole prompt, chunk by chunk, as `baton timeline` plays it; and its KV on the link. */
static bt_schedule_priced full_schedule(const bt_schedule_price_config *c, size_t tokens)
{
    const bt_price_pkg_stages stages = bt_price_pkg_stages_of(c->price);
    const bt_pkg_header *h = bt_pkg_header_of(bt_price_pkg_of(c->price));
    const bool overlap = c->policy == BT_SCHEDULE_FIFO || c->policy == BT_SCHEDULE_OOO;
    const size_t most = bt_shapes_launches(bt_price_pkg_shapes(c->price), tokens) + 1, layers = h->layers;
    const full f = {calloc(most * stages.count, sizeof *f.ns), stages.count};
    bt_price_pkg_chunk *cut = calloc(most, sizeof *cut);
    bt_schedule_priced r = {.rows = 0};
    assert_non_null(f.ns);
    assert_non_null(cut);
    for (uint64_t pos = 0; pos < tokens; pos += cut[r.chunks++].valid) {
        bt_price_pkg_chunk *k = &cut[r.chunks];
        assert_int_equal(bt_price_pkg_cut(k, c->price, 0, pos, tokens, NULL), BT_OK);
        assert_int_equal(bt_price_pkg_stage_ns(&f.ns[r.chunks * f.stages], c->price, k, overlap, NULL),
                         BT_OK);
        const bt_price_sum sum = bt_price_pkg_sum(c->price, k);
        r.ops += sum.ops;
        r.bytes += sum.bytes;
        for (int i = 0; i < BT_TERMS; i++) r.term_ns[i] += sum.term_ns[i];
        r.rows += k->rows;
        if (c->policy == BT_STAGE_SPLIT) r.result.makespan_ns += divided(c, k);
    }
    const bt_schedule_plan plan = {.policy = (bt_schedule_policy)c->policy,
                                   .stage = stages.as_stage,
                                   .stages = f.stages,
                                   .chunks = r.chunks,
                                   .window = c->window,
                                   .cost_ns = cost_ns,
                                   .ud = &f};
    bt_schedule_run run;
    bt_schedule_span s;
    uint64_t free_ns = 0;
    if (c->policy != BT_STAGE_SPLIT) {
        assert_int_equal(bt_schedule_run_begin(&run, &plan, NULL), BT_OK);
        while (bt_schedule_run_next(&run, &s)) {
            const uint32_t layer = stages.stage[s.task.stage].stores;
            const bt_price_pkg_chunk *k = &cut[s.task.chunk];
            const bool has_window = layer < layers && bt_pkg_window(h, layer);
            const uint64_t first = has_window ? bt_kv_first_sent(h->window, tokens) : 0,
                           sent = k->pos + k->valid > first
                                      ? k->pos + k->valid - (k->pos > first ? k->pos : first)
                                      : 0;
            if (layer < layers && sent)
                free_ns = (free_ns > s.end_ns ? free_ns : s.end_ns) +
                          bt_link_ns(&c->link, c->kv.layer_bytes * sent);
        }
        r.result = run.sum;
        r.exposed_ns = free_ns > r.result.makespan_ns ? free_ns - r.result.makespan_ns : 0;
    }
    free(f.ns);
    free(cut);
    return r;
}

/* Returns the largest error. step: of the lengths that are compared. */
static double compare(const bt_schedule_price_config *c, size_t step, bool is_exact)
{
    bt_schedule_price *t = NULL;
    bt_fault f = {""};
    double worst = 0;
    if (bt_schedule_price_new(&t, c, &f) < 0) fail_msg("%s", f.text);
    for (size_t i = 0, tokens = 1; tokens <= c->tokens; i++, tokens += tokens < 64 ? 1 : step) {
        const size_t at = i % 2 ? tokens : c->tokens + 1 - tokens; /* whatever was asked for before */
        const bt_schedule_priced all = full_schedule(c, at);
        bt_schedule_priced one;
        assert_int_equal(bt_schedule_price_of(&one, t, at, NULL), BT_OK);
        const double want = (double)all.result.makespan_ns, got = (double)one.result.makespan_ns;
        const double error = want > got ? want / got - 1 : got / want - 1;
        if (error > worst) worst = error;
        if (error > (is_exact ? 0 : .01))
            fail_msg("%s, %zu tokens: %.0f instead of %.0f", policies[c->policy], at, got, want);
        assert_int_equal(one.rows, all.rows);
        assert_int_equal(one.chunks, all.chunks);
        if (!is_exact) continue;
        assert_int_equal(one.ops, all.ops);
        assert_int_equal(one.bytes, all.bytes);
        if (c->policy != BT_STAGE_SPLIT) assert_memory_equal(&one, &all, sizeof all);
    }
    bt_schedule_price_free(t);
    return worst;
}

static bt_price_pkg *priced(const bt_pkg *pkg, const bt_profile *npu, const bt_profile *companion)
{
    bt_price_pkg *p = NULL;
    bt_fault f = {""};
    const bt_price_pkg_config c = {.pkg = pkg, .npu = npu, .companion = companion};
    if (bt_price_pkg_new(&p, &c, &f) < 0) fail_msg("%s", f.text);
    return p;
}

static bt_profile any_device(uint64_t seed, uint64_t *rng)
{
    uint64_t draw[6];
    for (int i = 0; i < 6; i++) draw[i] = bt_rng_u64(seed, (*rng)++);
    return (bt_profile){.tile_cols = 16, .time = {.is_given = true, .f16_ops_per_us = 100 + draw[0] % 1000000,
                                                  .memory_bytes_per_us = 10 + draw[1] % 100000,
                                                  .op_launch_ns = (uint32_t)(draw[2] % 10000),
                                                  .sync_ns = (uint32_t)(draw[3] % 10000),
                                                  .dispatch_ns = (uint32_t)(draw[4] % 10000),
                                                  .first_launch_ns = (uint32_t)(draw[5] % 100000)}};
}

static void prices_of_any_package_and_devices_are_those_of_the_full_schedule(void **state)
{
    (void)state;
    enum { SEED = 23, DEVICES = 6 };
    static const struct {
        const char *arch, *policy;
        uint32_t ops;
        size_t ctx;
    } at[] = {{"llama", "chunk:4", BT_PKG_OPS_LINEAR, 1024}, /* 256 chunks */
              {"llama", "chunk:16+tail", BT_PKG_OPS_LINEAR, 1024},
              {"qwen2", "chunk:64+tail", BT_PKG_OPS_LINEAR, 1000},
              {"qwen3", "chunk:32", BT_PKG_OPS_ALL, 700},
              {"gemma3", "chunk:16+tail", BT_PKG_OPS_LINEAR, 700}, /* windows of 24 */
              {"gemma3", "range:16-64", BT_PKG_OPS_LINEAR, 300},
              {"llama", "range:16-64", BT_PKG_OPS_LINEAR, 512},
              {"llama",
               "[{\"batch_size\":1,\"seq_len\":8,\"ctx_len\":640},{\"batch_size\":1,\"seq_len\":32,\"ctx_"
               "len\":128},"
               "{\"batch_size\":1,\"seq_len\":32,\"ctx_len\":640}]",
               BT_PKG_OPS_LINEAR, 640}};
    uint64_t rng = 0;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        engine_kit kit = engine_kit_model(at[i].arch);
        bt_pkg *pkg = npu_kit_compiled(kit.model, "w8a8", at[i].ops, at[i].policy, at[i].ctx);
        const bt_dims dims = bt_costs_dims(kit.model);
        const bt_link_kv kv = bt_link_kv_of(&dims, 768);
        double worst = 0;
        for (int d = 0; d < DEVICES; d++) {
            const bt_profile npu = any_device(SEED, &rng), companion = any_device(SEED, &rng);
            bt_price_pkg *price = priced(pkg, &npu, &companion);
            for (int policy = 0; policy < BT_STAGE_POLICIES; policy++) {
                const bt_schedule_price_config c = {.price = price,
                                                    .policy = policy,
                                                    .window = 1 + (size_t)d,
                                                    .tokens = at[i].ctx,
                                                    .link = {.bits_per_us = 100},
                                                    .kv = kv};
                const double error = compare(&c, 37, strncmp(at[i].policy, "range", 5) != 0);
                if (error > worst) worst = error;
            }
            bt_price_pkg_free(price);
        }
        print_message("%.20s: at most %.3f %%\n", at[i].policy, 100 * worst);
        bt_pkg_close(pkg);
        engine_kit_done(&kit);
    }
}

/* The default model on hexagon-v75 with its companion; its weights are rounded to nearest, which no price
 * sees. */
static void prices_of_the_default_model_are_exact_and_take_less_than_a_microsecond(void **state)
{
    (void)state;
    enum { TOKENS = 8192, PRICES = 20000 };
    const char *path = getenv("BATON_TEST_MODEL");
    bt_model *m = NULL;
    bt_profile npu, companion;
    if (!path) skip();
    assert_int_equal(bt_profile_load(&npu, "hexagon-v75", NULL), BT_OK);
    assert_int_equal(bt_profile_load(&companion, npu.time.companion, NULL), BT_OK);
    assert_int_equal(bt_model_open(&m, path, NULL), BT_OK);
    bt_pkg *pkg = npu_kit_package(m, &(npu_kit_options){.ctx_tokens = TOKENS});
    bt_price_pkg *price = priced(pkg, &npu, &companion);
    for (int policy = 0; policy < BT_STAGE_POLICIES; policy++) {
        const bt_schedule_price_config c = {.price = price, .policy = policy, .window = 8, .tokens = TOKENS,
                                            .link = {.bits_per_us = 1000}};
        (void)compare(&c, 331, true);
    }
    const bt_schedule_price_config c = {.price = price, .policy = BT_SCHEDULE_OOO, .window = 8,
                                        .tokens = TOKENS};
    bt_schedule_price *t = NULL;
    bt_schedule_priced one;
    const int64_t begin = bt_clock_us();
    assert_int_equal(bt_schedule_price_new(&t, &c, NULL), BT_OK);
    const int64_t made = bt_clock_us();
    uint64_t sum = 0;
    int64_t best = INT64_MAX;
    for (int round = 0; round < 5; round++) { /* the best: others may have had the core */
        const int64_t from = bt_clock_us();
        for (size_t i = 0; i < PRICES; i++) {
            assert_int_equal(bt_schedule_price_of(&one, t, 1 + i * 7919 % TOKENS, NULL), BT_OK);
            sum += one.result.makespan_ns;
        }
        const int64_t us = bt_clock_us() - from;
        if (us < best) best = us;
    }
    print_message("%.0f ns a price, %.1f ms for the table (%u)\n", 1e3 * (double)best / PRICES,
                  (double)(made - begin) / 1e3, (unsigned)(sum & 1));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(best < PRICES);
#endif
    bt_schedule_price_free(t);
    bt_price_pkg_free(price);
    bt_pkg_close(pkg);
    bt_model_close(m);
}

static void refuses_more_than_the_package_holds(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    bt_pkg *pkg = npu_kit_compiled(kit.model, "w8a8", BT_PKG_OPS_LINEAR, "chunk:16+tail", 100);
    const bt_profile d = {.time = {.is_given = true, .f16_ops_per_us = 1, .memory_bytes_per_us = 1}};
    bt_price_pkg *price = priced(pkg, &d, &d);
    bt_schedule_price_config c = {.price = price, .policy = BT_SCHEDULE_FIFO, .window = 1, .tokens = 101};
    bt_schedule_price *t = NULL;
    bt_fault f = {""};
    assert_int_equal(bt_schedule_price_new(&t, &c, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "101"));
    assert_non_null(strstr(f.text, "100"));
    c.tokens = 100;
    c.window = 65;
    assert_int_equal(bt_schedule_price_new(&t, &c, &f), BT_EARG);
    bt_price_pkg_free(price);
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices_of_any_package_and_devices_are_those_of_the_full_schedule),
        cmocka_unit_test(prices_of_the_default_model_are_exact_and_take_less_than_a_microsecond),
        cmocka_unit_test(refuses_more_than_the_package_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
