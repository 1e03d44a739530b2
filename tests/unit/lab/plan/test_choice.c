/* Queues, batches and mixed steps of a load, against the same worked out by hand. */
#include "lab/plan/choice.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const bt_price_recipe f16 = {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16};
static const tool_plan_limits none = {-1, -1, -1};

typedef struct world {
    bt_profile prefill, decode;
    tool_plan_pair pair;
    tool_plan_how how;
    tool_plan_load load;
} world;

static void begin(world *w, const char *prefill, const char *decode, const tool_plan_request *r, size_t n)
{
    const bt_dims *s = bt_dims_find("llama-3.2-1b");
    memset(w, 0, sizeof *w);
    assert_int_equal(bt_profile_load(&w->prefill, prefill, NULL), BT_OK);
    assert_int_equal(bt_profile_load(&w->decode, decode, NULL), BT_OK);
    w->load.has_arrivals = true;
    for (size_t i = 0; i < n; i++) assert_int_equal(tool_plan_load_add(&w->load, &r[i], NULL), BT_OK);
    assert_int_equal(tool_plan_load_end(&w->load, 1 << 20, 1, NULL), BT_OK);
    const bt_price_model m = bt_price_model_of(s, &f16);
    w->pair = (tool_plan_pair){.prefill = &w->prefill,
                               .decode = &w->decode,
                               .decode_model = m,
                               .link = {.bits_per_us = 10000},
                               .dims = s,
                               .slots = 32,
                               .ctx_tokens = 1 << 20};
    w->how = (tool_plan_how){.profile = &w->prefill,
                             .model = m,
                             .link = w->pair.link,
                             .kv = bt_link_kv_of(s, bt_dims_kv_bytes(s, 16)),
                             .kv_bytes = bt_dims_kv_bytes(s, 16),
                             .arenas = 1};
}

static double step_ns(const world *w, const bt_profile *p, const bt_price_step *s)
{
    return (double)bt_price_step_of(p, &w->pair.decode_model, s).ns;
}

static void prompts_wait_for_those_before_them(void **state)
{
    (void)state;
    /* two at once, one long after */
    const tool_plan_request r[] = {{0, 1000, 2}, {0, 1000, 2}, {60000000, 1000, 2}};
    world w;
    tool_plan_figures f;
    begin(&w, "a100", "a100", r, 3);
    assert_int_equal(tool_plan_figure(&f, &w.pair, &w.how, &w.load, &none, NULL), BT_OK);
    const bt_price_step whole = bt_price_prefill_step(0, 1000, 0);
    const double one = step_ns(&w, &w.prefill, &whole);
    assert_true(fabs(f.prefill_ns - one) < 1);
    assert_true(fabs(f.wait_ns - one / 3) < 1); /* the second alone waits */
    assert_int_equal(f.loaded_p50_ns, (uint64_t)one);
    assert_true(fabs(f.prefill_busy - 3 * one / 60e9) < 1e-9);
    assert_false(f.is_overloaded);
    const tool_plan_limits tight = {.ttft_us = (int64_t)(one * 1.5 / 1e3), .tpot_us = -1, .e2e_us = -1};
    assert_int_equal(tool_plan_figure(&f, &w.pair, &w.how, &w.load, &tight, NULL), BT_OK);
    assert_true(fabs(f.kept - 2.0 / 3) < 1e-9);
    tool_plan_load_done(&w.load);
}

static void decode_takes_the_least_batch_that_keeps_up(void **state)
{
    (void)state;
    /* 100 requests in 10 s, 500 tokens each: 4,990 steps a second where one sequence makes about 400 */
    tool_plan_request r[101];
    world w;
    tool_plan_figures f;
    for (int i = 0; i <= 100; i++) r[i] = (tool_plan_request){i * INT64_C(100000), 512, 500};
    begin(&w, "rtx-4090", "rtx-4090", r, 101);
    assert_int_equal(tool_plan_figure(&f, &w.pair, &w.how, &w.load, &none, NULL), BT_OK);
    const double wanted = 101 * 499 / 10.0;
    const bt_price_step now = bt_price_decode_step(f.batch, w.load.step_ctx, 0),
                        less = bt_price_decode_step(f.batch - 1, w.load.step_ctx, 0);
    assert_in_range(f.batch, 2, 32);
    assert_true(f.batch * 1e9 / step_ns(&w, &w.decode, &now) >= wanted);
    assert_true((f.batch - 1) * 1e9 / step_ns(&w, &w.decode, &less) < wanted);
    assert_true(f.tpot_ns > f.alone_tpot_ns);
    assert_true(f.decode_busy < 1);
    /* with too few slots it is said to be overloaded */
    w.pair.slots = 4;
    assert_int_equal(tool_plan_figure(&f, &w.pair, &w.how, &w.load, &none, NULL), BT_OK);
    assert_true(f.is_overloaded);
    assert_true(f.decode_busy > 1);
    assert_int_equal(f.batch, 4);
    tool_plan_load_done(&w.load);
}

static void kv_that_does_not_fit_is_refused_with_both_numbers(void **state)
{
    (void)state;
    const tool_plan_request r[] = {{0, 900000, 2}, {1, 10, 2}};
    world w;
    tool_plan_figures f;
    bt_fault fault = {""};
    begin(&w, "a100", "rtx-4090", r, 2);
    assert_int_equal(tool_plan_figure(&f, &w.pair, &w.how, &w.load, &none, &fault), BT_ELIMIT);
    assert_string_equal(fault.text,
                        "profile 'rtx-4090' has 25769803776 bytes of memory; 2471493632 bytes of weights and "
                        "the KV of 900002 tokens, 29491265536 bytes, do not fit");
    tool_plan_load_done(&w.load);
}

/* The same, where 12 of 16 layers hold the last 1,024 positions and a page at each end. */
static void window_layers_hold_their_window_alone(void **state)
{
    (void)state;
    const tool_plan_request r[] = {{0, 900000, 2}, {1, 10, 2}};
    world w;
    tool_plan_figures f;
    begin(&w, "a100", "rtx-4090", r, 2);
    bt_dims windows = *w.pair.dims;
    windows.window = 1024;
    windows.windowed = 12;
    w.pair.dims = &windows;
    assert_int_equal(tool_plan_figure(&f, &w.pair, &w.how, &w.load, &none, NULL), BT_OK);
    const double layer = (double)w.how.kv_bytes / 16, mean = (900010 + 4) / 2.0 + 1,
                 kv = layer * (4 * mean + 12 * (1024 + 128));
    assert_true(fabs((double)f.decode_bytes - 2471493632.0 - f.batch * kv) < 1e6);
    tool_plan_load_done(&w.load);
}

/* Steps of a shorter prompt that a longer one shares are walked once: each is as if it were alone. */
static void prompts_of_two_lengths_share_no_step_that_sends_other_rows(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {3000, 3300};
    double exposed[3], took[3];
    for (int i = 0; i < 3; i++) {
        const tool_plan_request r[] = {{0, lengths[i == 1], 2}, {60000000, lengths[i > 0], 2}};
        world w;
        tool_plan_figures f;
        begin(&w, "rtx-4090", "a100", r, 2);
        bt_dims windows = *w.pair.dims;
        windows.window = 1024;
        windows.windowed = 12;
        w.pair.dims = &windows;
        w.pair.link.bits_per_us = 100; /* what the last pieces send is seen */
        w.how.link = w.pair.link;
        w.how.model = w.pair.decode_model = bt_price_model_of(&windows, &f16);
        w.how.kv = bt_link_kv_of(&windows, w.how.kv_bytes);
        w.how.piece = 512;
        assert_int_equal(w.how.kv.window, 1024);
        assert_int_equal(tool_plan_figure(&f, &w.pair, &w.how, &w.load, &none, NULL), BT_OK);
        exposed[i] = (double)f.exposed_ns;
        took[i] = (double)f.prefill_ns;
        tool_plan_load_done(&w.load);
    }
    assert_true(exposed[0] > 0 && exposed[1] > exposed[0] && took[1] > took[0]);
    assert_true(fabs(exposed[2] - (exposed[0] + exposed[1]) / 2) < 2);
    assert_true(fabs(took[2] - (took[0] + took[1]) / 2) < 2);
}

static void the_decode_device_alone_mixes_pieces_and_tokens(void **state)
{
    (void)state;
    const tool_plan_request r[] = {{0, 1000, 101}, {10000000, 1000, 101}};
    world w;
    tool_plan_figures f;
    begin(&w, "a100", "h100x4", r, 2);
    w.how.profile = &w.decode;
    w.how.piece = 512;
    assert_int_equal(tool_plan_figure_colocated(&f, &w.pair, &w.how, &w.load, &none, NULL), BT_OK);
    assert_int_equal(f.batch, 1);
    /* a piece and a token in one step; only the last piece makes logits */
    bt_price_step first = bt_price_prefill_step(0, 512, 0), rest = bt_price_prefill_step(512, 488, 0);
    const bt_price_step token = bt_price_decode_step(1, w.load.step_ctx, 0);
    first.logits = 0;
    bt_price_step_add(&first, &token);
    bt_price_step_add(&rest, &token);
    const double mixed = step_ns(&w, &w.decode, &first) + step_ns(&w, &w.decode, &rest);
    const double want = (2 * mixed + (200 - 4) * step_ns(&w, &w.decode, &token)) / 200;
    assert_true(fabs(f.tpot_ns - want) < 1);
    assert_true(fabs((double)f.loaded_p50_ns - mixed) < 1);
    assert_int_equal(f.chunks, 4);
    tool_plan_load_done(&w.load);
}

static void a_group_of_devices_decodes_faster_and_pays_its_sums(void **state)
{
    (void)state;
    const tool_plan_request r[] = {{0, 1000, 101}, {10000000, 1000, 101}};
    world w;
    tool_plan_figures one, four;
    begin(&w, "a100", "h100", r, 2);
    assert_int_equal(tool_plan_figure(&one, &w.pair, &w.how, &w.load, &none, NULL), BT_OK);
    tool_plan_load_done(&w.load);
    begin(&w, "a100", "h100x4", r, 2);
    assert_int_equal(tool_plan_figure(&four, &w.pair, &w.how, &w.load, &none, NULL), BT_OK);
    tool_plan_load_done(&w.load);
    /* two sums a layer over four devices, each at least 4.6 us */
    assert_true(four.tpot_ns >= one.tpot_ns / 4 + 2 * 16 * 4600.0);
    assert_int_equal(four.decode_energy, BT_ENERGY_TERMS);
}

static void a_million_tokens_on_the_slowest_profile_do_not_wrap(void **state)
{
    (void)state;
    const tool_plan_request r[] = {{0, (1 << 20) - 2, 2}, {1, 1, 1}};
    world w;
    tool_plan_figures f;
    begin(&w, "adreno-750", "adreno-750", r, 2);
    w.prefill.time = (bt_profile_time){.is_given = true, .f16_ops_per_us = 1, .memory_bytes_per_us = 1};
    w.prefill.memory_bytes = w.decode.memory_bytes = 0; /* not known */
    w.pair.link.bits_per_us = 1;
    assert_int_equal(tool_plan_figure(&f, &w.pair, &w.how, &w.load, &none, NULL), BT_OK);
    assert_true(f.prefill_ns > 1e18 && f.p99_ns <= INT64_MAX && f.loaded_p99_ns <= INT64_MAX);
    assert_true(f.is_overloaded);
    w.prefill.time.f16_ops_per_us = 1000;
    w.how.piece = 256;
    assert_int_equal(tool_plan_figure(&f, &w.pair, &w.how, &w.load, &none, NULL), BT_OK);
    assert_true(f.prefill_ns > 1e15);
    tool_plan_load_done(&w.load);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_wait_for_those_before_them),
        cmocka_unit_test(decode_takes_the_least_batch_that_keeps_up),
        cmocka_unit_test(kv_that_does_not_fit_is_refused_with_both_numbers),
        cmocka_unit_test(window_layers_hold_their_window_alone),
        cmocka_unit_test(prompts_of_two_lengths_share_no_step_that_sends_other_rows),
        cmocka_unit_test(the_decode_device_alone_mixes_pieces_and_tokens),
        cmocka_unit_test(a_group_of_devices_decodes_faster_and_pays_its_sums),
        cmocka_unit_test(a_million_tokens_on_the_slowest_profile_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
