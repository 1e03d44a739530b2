/* Every row is offered once, in order of its making, whatever is blocked, missing or cut on the way. */
#include "xfer/xfer_send.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const bt_kv_shape one = {1, 1, 2, BT_KV_F16, 0, 0}, two = {2, 1, 2, BT_KV_F16, 0, 0},
                         three = {3, 1, 2, BT_KV_F16, 0, 0};

static void offers_rows_as_they_become_ready_lowest_tokens_first(void **s)
{
    (void)s;
    bt_xfer_send x;
    bt_kv_range r;
    assert_int_equal(bt_xfer_send_init(&x, 4, 2), BT_OK);
    bt_xfer_send_start(&x, &(bt_xfer_send_plan){.shape = &two, .prompt_tokens = 100, .block_tokens = 64});
    assert_false(bt_xfer_send_next(&x, &r));
    assert_true(bt_xfer_send_ready(&x, 0, 0, 64));
    assert_true(bt_xfer_send_ready(&x, 1, 0, 64));
    assert_true(bt_xfer_send_ready(&x, 0, 64, 36));
    assert_false(bt_xfer_send_ready(&x, 1, 80, 16)); /* a gap */
    assert_false(bt_xfer_send_ready(&x, 1, 64, 8));  /* off the grid */
    assert_false(bt_xfer_send_ready(&x, 1, 64, 37)); /* past the end */
    assert_false(bt_xfer_send_ready(&x, 2, 0, 16));
    const bt_kv_range want[] = {{0, 0, 64}, {1, 0, 64}, {0, 64, 36}};
    for (int i = 0; i < 3; i++) {
        assert_true(bt_xfer_send_next(&x, &r));
        assert_memory_equal(&r, &want[i], sizeof r);
        bt_xfer_send_take(&x, &r);
        bt_xfer_send_sent(&x);
    }
    assert_false(bt_xfer_send_next(&x, &r));
    assert_false(bt_xfer_send_all_sent(&x));
    assert_true(bt_xfer_send_ready(&x, 1, 64, 36));
    bt_xfer_send_next(&x, &r);
    bt_xfer_send_take(&x, &r);
    assert_false(bt_xfer_send_all_sent(&x));
    bt_xfer_send_sent(&x);
    assert_true(bt_xfer_send_all_sent(&x));
    bt_xfer_send_done(&x);
}

/* A receiver that marks rows in a plain table is the oracle: at the end each row came, and only missing ones
 * came twice. */
static void covers_every_row_through_blocked_and_missing_blocks(void **s)
{
    (void)s;
    static uint8_t came[3][400];
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t draw = 0;
        uint32_t n = 1 + (uint32_t)(bt_rng_u64(seed, draw++) % 400);
        bt_xfer_send x;
        bt_kv_range r, missing[BT_MSG_MAX_RANGES];
        assert_int_equal(bt_xfer_send_init(&x, 3, 1), BT_OK);
        bt_xfer_send_start(&x, &(bt_xfer_send_plan){.shape = &three, .prompt_tokens = n, .block_tokens = 64});
        memset(came, 0, sizeof came);
        for (uint32_t l = 0; l < 3; l++) assert_true(bt_xfer_send_ready(&x, l, 0, n));
        for (int round = 0; round < 200; round++) {
            while (bt_xfer_send_next(&x, &r)) {
                assert_true(r.token_count <= 64 && r.token_begin + r.token_count <= n &&
                            r.token_begin % 16 == 0);
                bt_xfer_send_take(&x, &r);
                uint64_t luck = bt_rng_u64(seed, draw++) % 4;
                if (luck == 0) bt_xfer_send_returned(&x, &r);
                else bt_xfer_send_sent(&x);
                for (uint32_t t = 0; luck >= 2 && t < r.token_count; t++) {
                    if (came[r.layer][r.token_begin + t]++)
                        fail_msg("seed %llu: a row came twice", (unsigned long long)seed);
                }
            }
            assert_true(bt_xfer_send_all_sent(&x));
            uint32_t len = 0;
            for (uint32_t l = 0; l < 3; l++)
                for (uint32_t t = 0; t < n; t += 16)
                    if (!came[l][t]) missing[len++] = (bt_kv_range){l, t, n - t < 16 ? n - t : 16};
            if (len == 0) break;
            assert_int_equal(bt_xfer_send_missing(&x, missing, len), len);
        }
        for (uint32_t l = 0; l < 3; l++)
            for (uint32_t t = 0; t < n; t++) assert_int_equal(came[l][t], 1);
        bt_xfer_send_done(&x);
    }
}

/* Each row of a random plan is offered once, but never one that the receiver has, whatever exists from the
 * start. */
static void never_offers_rows_that_the_receiver_has(void **s)
{
    (void)s;
    static uint8_t came[2][400];
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint64_t draw = 0;
        const uint32_t n = 1 + (uint32_t)(bt_rng_u64(seed, draw++) % 400), units = (n + 15) / 16;
        uint32_t skip = (uint32_t)(bt_rng_u64(seed, draw++) % (units + 1)) * 16,
                 ready = (uint32_t)(bt_rng_u64(seed, draw++) % units) * 16;
        if (skip > n) skip = n;
        bt_xfer_send x;
        bt_kv_range r;
        assert_int_equal(bt_xfer_send_init(&x, 2, 1), BT_OK);
        bt_xfer_send_start(&x, &(bt_xfer_send_plan){.shape = &two, .prompt_tokens = n, .block_tokens = 64,
                                                    .skip_tokens = skip, .ready_tokens = ready,
                                                    .held = seed % 3 == 0});
        memset(came, 0, sizeof came);
        assert_int_equal(bt_xfer_send_all_sent(&x), skip == n);
        assert_int_equal(bt_xfer_send_whole(&x), ready);
        for (uint32_t l = 0, at = ready; l < 2;) {
            while (bt_xfer_send_next(&x, &r)) {
                bt_xfer_send_take(&x, &r);
                bt_xfer_send_sent(&x);
                for (uint32_t t = r.token_begin; t < r.token_begin + r.token_count; t++)
                    if (came[r.layer][t]++ || t < skip)
                        fail_msg("seed %llu: token %u came again", (unsigned long long)seed, t);
            }
            uint32_t more = (1 + (uint32_t)(bt_rng_u64(seed, draw++) % 4)) * 16;
            if (more > n - at) more = n - at;
            if (!bt_xfer_send_ready(&x, l, at, more))
                fail_msg("seed %llu: token %u", (unsigned long long)seed, at);
            at += more;
            if (at < n) continue;
            l++;
            at = ready;
        }
        assert_int_equal(bt_xfer_send_whole(&x), n);
        while (bt_xfer_send_next(&x, &r)) {
            bt_xfer_send_take(&x, &r);
            bt_xfer_send_sent(&x);
            for (uint32_t t = r.token_begin; t < r.token_begin + r.token_count; t++) came[r.layer][t]++;
        }
        assert_true(bt_xfer_send_all_sent(&x));
        for (uint32_t l = 0; l < 2; l++)
            for (uint32_t t = 0; t < n; t++) assert_int_equal(came[l][t], t >= skip);
        assert_int_equal(bt_xfer_send_missing(&x, &(bt_kv_range){1, 0, n}, 1), 1); /* unless it asks */
        bt_xfer_send_done(&x);
    }
}

static void cuts_long_missing_ranges_into_blocks_and_bounds_the_list(void **s)
{
    (void)s;
    bt_xfer_send x;
    bt_kv_range r, all[BT_MSG_MAX_RANGES + 1];
    assert_int_equal(bt_xfer_send_init(&x, 1, 1), BT_OK);
    bt_xfer_send_start(&x, &(bt_xfer_send_plan){.shape = &one, .prompt_tokens = 1000, .block_tokens = 256});
    bt_xfer_send_ready(&x, 0, 0, 1000);
    while (bt_xfer_send_next(&x, &r)) {
        bt_xfer_send_take(&x, &r);
        bt_xfer_send_sent(&x);
    }
    assert_int_equal(bt_xfer_send_missing(&x, &(bt_kv_range){0, 16, 984}, 1), 1);
    uint32_t rows = 0;
    while (bt_xfer_send_next(&x, &r)) {
        assert_true(r.token_count <= 256 && r.token_begin % 16 == 0);
        rows += r.token_count;
        bt_xfer_send_take(&x, &r);
        bt_xfer_send_sent(&x);
    }
    assert_int_equal(rows, 984);
    for (size_t i = 0; i <= BT_MSG_MAX_RANGES; i++) all[i] = (bt_kv_range){0, 0, 16};
    assert_int_equal(bt_xfer_send_missing(&x, all, BT_MSG_MAX_RANGES + 1), BT_MSG_MAX_RANGES);
    bt_xfer_send_next(&x, &r);
    bt_xfer_send_take(&x, &r);
    bt_xfer_send_returned(&x, &r); /* always room for what is under way */
    bt_xfer_send_done(&x);
}

/* Layers 0 and 2 have windows of 100 tokens: of 300 they are sent from 192 on, or from what the receiver has.
 */
static void rows_before_the_window_of_a_prompt_are_not_offered(void **state)
{
    (void)state;
    const bt_kv_shape shape = {3, 1, 2, BT_KV_F16, 100, 2};
    for (uint32_t skip = 0; skip <= 256; skip += 64) {
        bt_xfer_send x;
        bt_kv_range r;
        uint32_t at[3] = {192, 0, 192};
        assert_int_equal(bt_xfer_send_init(&x, 3, 1), BT_OK);
        bt_xfer_send_start(&x, &(bt_xfer_send_plan){.shape = &shape, .prompt_tokens = 300, .block_tokens = 64,
                                                    .skip_tokens = skip});
        for (uint32_t l = 0; l < 3; l++) {
            if (at[l] < skip) at[l] = skip;
            assert_true(bt_xfer_send_ready(&x, l, 0, 300));
        }
        while (bt_xfer_send_next(&x, &r)) {
            assert_int_equal(r.token_begin, at[r.layer]);
            at[r.layer] += r.token_count;
            bt_xfer_send_take(&x, &r);
            bt_xfer_send_sent(&x);
        }
        for (uint32_t l = 0; l < 3; l++) assert_int_equal(at[l], 300);
        assert_true(bt_xfer_send_all_sent(&x));
        assert_int_equal(bt_xfer_send_whole(&x), 300);
        bt_xfer_send_done(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offers_rows_as_they_become_ready_lowest_tokens_first),
        cmocka_unit_test(covers_every_row_through_blocked_and_missing_blocks),
        cmocka_unit_test(never_offers_rows_that_the_receiver_has),
        cmocka_unit_test(cuts_long_missing_ranges_into_blocks_and_bounds_the_list),
        cmocka_unit_test(rows_before_the_window_of_a_prompt_are_not_offered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
