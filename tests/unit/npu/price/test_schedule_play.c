/* A prompt that is played against the table of prices, against itself without its first chunk, and against
 * what a link and a pace make of it. */
#include "npu/price/schedule_play.h"
#include "device/pace.h"
#include "npu/price/schedule_price.h"
#include "tests/helpers/model/tiny_pkg.h"
#include "tests/helpers/brain/toy_profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 4, LAYERS = 2, TOKENS = 22, WINDOW = 4 };
static const char *const policies[] = {BT_SCHEDULE_NAMES};

typedef struct kit {
    bt_profile npu, companion;
    bt_pkg *pkg;
    bt_price_pkg *price;
    bt_schedule_play *play;
} kit;

static void open_kit(kit *k, bt_schedule_policy policy)
{
    bt_fault fault = {""};
    k->npu = toy_profile("npu", "\"op_launch_ns\": 3000, \"sync_ns\": 500");
    k->companion = toy_profile("companion", "\"op_launch_ns\": 7000, \"activation_bytes_per_us\": 10");
    k->pkg = tiny_pkg_open(&(tiny_pkg){.layers = LAYERS});
    const bt_price_pkg_config priced = {.pkg = k->pkg, .npu = &k->npu, .companion = &k->companion};
    if (bt_price_pkg_new(&k->price, &priced, &fault) < 0) fail_msg("%s", fault.text);
    const bt_schedule_play_config c = {k->price, policy, WINDOW};
    if (bt_schedule_play_new(&k->play, &c, &fault) < 0) fail_msg("%s", fault.text);
}

static void close_kit(kit *k)
{
    bt_schedule_play_free(k->play);
    bt_price_pkg_free(k->price);
    bt_pkg_close(k->pkg);
}

static bt_work_played played(kit *k, uint64_t first, uint64_t end)
{
    bt_work_played r;
    if (!bt_schedule_play_prompt(k->play, &r, first, end)) fail_msg("nothing was played");
    return r;
}

static void times_are_those_of_the_table_under_every_schedule(void **state)
{
    (void)state;
    uint64_t longest[3];
    for (int i = 0; i < 3; i++) {
        kit k;
        bt_schedule_price *t = NULL;
        open_kit(&k, (bt_schedule_policy)i);
        const bt_schedule_price_config c = {.price = k.price, .policy = i, .window = WINDOW,
                                            .tokens = TOKENS};
        assert_int_equal(bt_schedule_price_new(&t, &c, NULL), BT_OK);
        for (size_t n = 1; n <= TOKENS; n++) {
            bt_schedule_priced priced;
            assert_int_equal(bt_schedule_price_of(&priced, t, n, NULL), BT_OK);
            const bt_schedule_result want = priced.result;
            const bt_work_played got = played(&k, 0, n);
            if (got.ns != want.makespan_ns) fail_msg("%s, %zu tokens", policies[i], n);
            assert_int_equal(got.busy_ns[BT_SCHEDULE_NPU], want.busy_ns[BT_SCHEDULE_NPU]);
            assert_int_equal(got.busy_ns[BT_SCHEDULE_COMPANION], want.busy_ns[BT_SCHEDULE_COMPANION]);
        }
        longest[i] = played(&k, 0, TOKENS).ns;
        bt_schedule_price_free(t);
        close_kit(&k);
    }
    assert_true(longest[BT_SCHEDULE_FIFO] < longest[BT_SCHEDULE_SERIAL]);
    assert_true(longest[BT_SCHEDULE_OOO] < longest[BT_SCHEDULE_SERIAL]);
}

static void kept_rows_save_the_chunks_that_they_are(void **state)
{
    (void)state;
    kit k;
    open_kit(&k, BT_SCHEDULE_SERIAL);
    const uint64_t saved = played(&k, 0, 3 * ROWS).ns - played(&k, ROWS, 3 * ROWS).ns;
    assert_true(saved > 0);
    assert_int_equal(saved, played(&k, 0, 5 * ROWS).ns - played(&k, ROWS, 5 * ROWS).ns);
    const bt_work_played r = played(&k, ROWS, 2 * ROWS + 1);
    assert_int_equal(r.chunks, 2);
    assert_int_equal(r.ends[0], 2 * ROWS);
    assert_int_equal(r.ends[1], 2 * ROWS + 1);
    close_kit(&k);
}

static bt_work_prefill device_of(kit *k)
{
    return (bt_work_prefill){.programs = bt_price_pkg_programs(k->price),
                             .kv = {.layers = LAYERS, .layer_bytes = 64 / LAYERS},
                             .play = bt_schedule_play_prompt, .play_ud = k->play, .link = {.bits_per_us = 8}};
}

static void a_prompt_is_sent_as_its_layers_are_stored(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        kit k;
        open_kit(&k, (bt_schedule_policy)i);
        const bt_work_prefill d = device_of(&k);
        const bt_work_run r = bt_work_of_prompt(&d, &(bt_work_prompt){.end = TOKENS});
        const bt_work_played x = played(&k, 0, TOKENS);
        assert_int_equal(r.work.ns, x.ns);
        assert_int_equal(r.busy_ns[BT_SCHEDULE_NPU], x.busy_ns[BT_SCHEDULE_NPU]);
        /* the wire by hand: a byte a microsecond, one message after the other */
        uint64_t free_ns = 0;
        for (size_t m = 0; m < x.chunks * LAYERS; m++) {
            const size_t c = x.order[m] / LAYERS;
            const uint64_t rows = x.ends[c] - (c ? x.ends[c - 1] : 0), ready = x.stored_ns[x.order[m]];
            if (m) assert_true(ready >= x.stored_ns[x.order[m - 1]]);
            free_ns = (free_ns > ready ? free_ns : ready) + rows * 32 * 1000;
        }
        assert_int_equal(r.exposed_ns, free_ns > x.ns ? free_ns - x.ns : 0);
        assert_int_equal(r.transfer_ns, TOKENS * 64 * 1000);
        close_kit(&k);
    }
}

static void a_pace_lets_rows_go_when_the_schedule_has_stored_them(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        kit k;
        bt_pace_prompt p;
        open_kit(&k, (bt_schedule_policy)i);
        const bt_work_prefill d = device_of(&k);
        bt_pace_prompt_begin(&p, (bt_pace){.milli = 1000000}, &d, &(bt_work_prompt){.end = TOKENS}, 0);
        const bt_work_played x = p.played;
        for (int64_t now = 0, step = (int64_t)x.ns / 997 + 1; now < (int64_t)x.ns + step; now += step)
            for (uint32_t l = 0; l < LAYERS; l++) {
                uint64_t want = 0; /* chunks without a gap, K is a thousand: a nanosecond takes a microsecond
                                    */
                for (size_t c = 0; c < x.chunks && x.stored_ns[c * LAYERS + l] <= (uint64_t)now; c++)
                    want = x.ends[c];
                assert_int_equal(bt_pace_prompt_rows(&p, l, now), want);
                const int64_t next = bt_pace_prompt_next_us(&p, l, now);
                assert_true(want < TOKENS ? next > now : next == INT64_MAX);
            }
        close_kit(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_those_of_the_table_under_every_schedule),
        cmocka_unit_test(kept_rows_save_the_chunks_that_they_are),
        cmocka_unit_test(a_prompt_is_sent_as_its_layers_are_stored),
        cmocka_unit_test(a_pace_lets_rows_go_when_the_schedule_has_stored_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
