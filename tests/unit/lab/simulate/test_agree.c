/* A paced cluster takes the same times whether its steps are leapt or told one by one, and whether a chunk's
 * layers are one event or many; and they are those of a queue in front of one device, where nobody loses
 * patience. */
#include "lab/plan/sketch.h"
#include "lab/simulate/play.h"
#include "tests/helpers/brain/sim_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CTX = 2048, REQUESTS = 8, TIMEOUT_S = 600, SECOND_US = 1000000 };
static const char load[] = "in:60-250,out:12,rate:0.05";
typedef enum manner { LEAPS, FULL, BY_LAYER, MANNERS } manner;

/* As the compiler would make it, with its defaults. */
static bt_pkg *package_of(const tool_simulate_setup *s)
{
    bt_fault fault = {""};
    bt_shapes shapes;
    bt_recipe recipe;
    bt_attention attention;
    bt_pkg *p = NULL;
    const tool_plan_sketch_want w = {.profile = &s->prefill.group[0].profile,
                                     .dims = s->model,
                                     .recipe = &recipe,
                                     .attention = &attention,
                                     .shapes = &shapes,
                                     .ctx_tokens = CTX};
    assert_int_equal(bt_shapes_parse(&shapes, BT_SHAPES_DEFAULT, CTX, &fault), BT_OK);
    assert_int_equal(bt_recipe_parse(&recipe, NULL, &fault), BT_OK);
    assert_int_equal(bt_attention_parse(&attention, NULL, &fault), BT_OK);
    if (tool_plan_sketch(&p, &w, &fault) < 0) fail_msg("%s", fault.text);
    return p;
}

static sim_played *play_on(const char *prefill, const char *decode, uint64_t k, manner how, bt_pkg **ret_pkg)
{
    sim_played *d = calloc(1, sizeof *d);
    assert_non_null(d);
    tool_simulate_setup *s = &d->setup;
    sim_kit_setup(s, prefill, decode);
    s->model = bt_dims_find("smollm2-135m");
    s->ctx_tokens = CTX;
    s->link.bits_per_us = 1000;
    s->pace.milli = k * 1000;
    s->cluster.is_full = how == FULL;
    s->cluster.is_by_layer = how == BY_LAYER;
    s->cluster.timeout_ns = (int64_t)TIMEOUT_S * SECOND_US * 1000;
    if (ret_pkg) s->package = *ret_pkg = package_of(s);
    sim_kit_play(d, load, REQUESTS);
    return d;
}

static sim_played *play(uint64_t k, manner how, bt_pkg **ret_pkg)
{
    sim_played *d = play_on("1:hexagon-v75", "1:adreno-750", k, how, ret_pkg);
    assert_int_equal(d->figures.completed, REQUESTS);
    return d;
}

static void assert_near(double x, double want, const char *what, uint64_t k)
{
    if (fabs(x - want) > 0.01 * want) fail_msg("K %u: %s is %.3f, not %.3f", (unsigned)k, what, x, want);
}

static int by_due(const void *a, const void *b)
{
    const int64_t x = ((const tool_replay_record *)a)->due_us, y = ((const tool_replay_record *)b)->due_us;
    return (x > y) - (x < y);
}

/* One prompt after the other, in the order of arrival, each for as long as it took. */
static double queued_ttft_ms(const sim_played *d)
{
    double sum = 0, free_us = 0;
    qsort(d->result.record, d->result.len, sizeof *d->result.record, by_due);
    for (size_t i = 0; i < d->result.len; i++) {
        const tool_replay_record *r = &d->result.record[i];
        free_us = fmax(free_us, (double)r->due_us) + (double)r->prefill_us;
        sum += (free_us - (double)r->due_us) / 1e3;
    }
    return sum / (double)d->result.len;
}

static void check(uint64_t k, bool has_package)
{
    double ttft_ms = 0, tpot_ms = 0;
    for (manner how = LEAPS; how < MANNERS; how++) {
        bt_pkg *pkg = NULL;
        sim_played *d = play(k, how, has_package ? &pkg : NULL);
        const tool_simulate_facts *x = &d->facts;
        if (how == LEAPS) {
            ttft_ms = d->figures.ttft_ms.mean;
            tpot_ms = d->figures.tpot_ms.mean;
        }
        assert_near(d->figures.ttft_ms.mean, ttft_ms, "the mean TTFT", k);
        assert_near(d->figures.tpot_ms.mean, tpot_ms, "the mean TPOT", k);
        assert_near(d->figures.ttft_ms.mean, queued_ttft_ms(d), "the mean TTFT of a queue", k);
        assert_true(x->prefill_busy <= 1 && x->decode_busy <= 1);
        assert_int_equal(x->again_rows, 0);
        sim_played_done(d);
        bt_pkg_close(pkg);
    }
}

static void a_paced_run_takes_the_same_times_however_it_is_simulated(void **state)
{
    (void)state;
    static const uint64_t paces[] = {1, 16, 40, 100};
    for (size_t i = 0; i < sizeof paces / sizeof *paces; i++) {
        check(paces[i], false);
        check(paces[i], true);
    }
}

/* At the end requests run out of time in the middle of a chunk or step. */
static void no_node_is_busy_for_longer_than_it_is_there(void **state)
{
    (void)state;
    static const char *const prefill[] = {"1:hexagon-v75", "0", "0"}, *const decode[] = {"1:adreno-750",
                                                                                         "1:adreno-750",
                                                                                         "1:hexagon-v75"};
    for (size_t i = 0; i < 3; i++) {
        sim_played *d = play_on(prefill[i], decode[i], 4000, LEAPS, NULL);
        assert_true(d->figures.failed > 0);
        assert_true(d->facts.prefill_busy <= 1 && d->facts.decode_busy <= 1);
        assert_true(d->facts.prefill_busy > 0.5 || d->facts.decode_busy > 0.5);
        sim_played_done(d);
    }
}

/* 11 Mbit/s carry the KV of these requests: below and just above that transfers wait for each other. */
static void exposed_time_falls_with_the_rate_of_the_link(void **state)
{
    (void)state;
    static const uint64_t mbits[] = {4, 6, 8, 10, 11, 12, 13, 14, 16, 18, 20, 24, 32, 48, 64, 100};
    for (int is_by_layer = 0; is_by_layer < 2; is_by_layer++) {
        double before_ms = INFINITY;
        for (size_t i = 0; i < sizeof mbits / sizeof *mbits; i++) {
            sim_played *d = calloc(1, sizeof *d);
            assert_non_null(d);
            sim_kit_setup(&d->setup, "1:hexagon-v75", "1:adreno-750");
            d->setup.model = bt_dims_find("smollm2-135m");
            d->setup.ctx_tokens = CTX;
            d->setup.link = (bt_link){.bits_per_us = mbits[i], .latency_ns = 50000};
            d->setup.cluster.is_by_layer = is_by_layer;
            sim_kit_play(d, "in:60-250,out:12,rate:0.4", 40);
            assert_int_equal(d->figures.completed, 40);
            assert_int_equal(d->facts.again_rows, 0);
            if (d->figures.exposed_ms.mean > before_ms)
                fail_msg("%u Mbit/s: %.3f ms are exposed, and %.3f at the rate before", (unsigned)mbits[i],
                         d->figures.exposed_ms.mean, before_ms);
            before_ms = d->figures.exposed_ms.mean;
            sim_played_done(d);
        }
    }
}

/* The first attempt's rows are computed again; the node that was killed is busy only for as long as it lived.
 */
static void what_a_killed_node_had_begun_is_counted_as_computed_again(void **state)
{
    (void)state;
    bt_fault fault = {""};
    sim_played *d = calloc(1, sizeof *d);
    assert_non_null(d);
    sim_kit_setup(&d->setup, "1:hexagon-v75", "1:adreno-750");
    d->setup.pace.milli = 10000;
    assert_int_equal(tool_simulate_faults_read(&d->setup.faults, "kill prefill 0 at 3s for 1s", &fault),
                     BT_OK);
    sim_kit_play(d, "in:200,out:4,rate:1000", 1);
    assert_int_equal(d->figures.completed, 1);
    assert_int_equal(d->facts.again_rows, 200);
    assert_true(d->facts.prefill_busy <= 1);
    sim_played_done(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paced_run_takes_the_same_times_however_it_is_simulated),
        cmocka_unit_test(no_node_is_busy_for_longer_than_it_is_there),
        cmocka_unit_test(exposed_time_falls_with_the_rate_of_the_link),
        cmocka_unit_test(what_a_killed_node_had_begun_is_counted_as_computed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
