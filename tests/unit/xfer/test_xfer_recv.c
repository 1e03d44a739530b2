/* The blocks that are let in: whole, new, of the right size for the form of KV, and one at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "xfer/xfer_recv.h"

static void a_block_has_the_bytes_of_its_form_of_kv(void **state)
{
    (void)state;
    const bt_kv_shape f16 = {30, 3, 64, BT_KV_F16, 0, 0}, f32 = {30, 3, 64, BT_KV_F32, 0, 0},
                      int8 = {30, 3, 64, BT_KV_INT8, 0, 0};
    assert_int_equal(bt_xfer_block_bytes(&f16, 16), 2 * 16 * 3 * 128);
    assert_int_equal(bt_xfer_block_bytes(&f32, 16), 2 * 16 * 3 * 256);
    assert_int_equal(bt_xfer_block_bytes(&int8, 16), 2 * 16 * 3 * 66);
    assert_int_equal(bt_xfer_block_bytes(&(bt_kv_shape){30, 3, 64, (bt_kv_dtype)4, 0, 0}, 16), 0);
    assert_int_equal(bt_xfer_block_bytes(&f16, 0), 0);
}

static void a_block_of_another_form_is_out_of_range(void **state)
{
    (void)state;
    static const struct {
        bt_kv_dtype dtype;
        uint64_t bytes[3];
    } c[] = {
        /* of 16 tokens: the right one first */
        {BT_KV_F16, {2 * 16 * 128, 2 * 16 * 66, 2 * 16 * 256}},
        {BT_KV_INT8, {2 * 16 * 66, 2 * 16 * 128, 2 * 16 * 64}},
    };
    for (size_t i = 0; i < 2; i++) {
        bt_xfer_recv r;
        const bt_kv_range range = {1, 16, 16};
        assert_int_equal(bt_xfer_recv_init(&r, &(bt_kv_shape){2, 1, 64, c[i].dtype, 0, 0}, 40, NULL), BT_OK);
        assert_int_equal(bt_xfer_recv_block(&r, &range, c[i].bytes[1]), BT_XFER_RANGE);
        assert_int_equal(bt_xfer_recv_block(&r, &range, c[i].bytes[2]), BT_XFER_RANGE);
        assert_int_equal(bt_xfer_recv_block(&r, &range, 0), BT_XFER_RANGE);
        assert_int_equal(bt_xfer_recv_block(&r, &range, c[i].bytes[0]), BT_XFER_PLACE);
        bt_xfer_recv_done(&r);
    }
}

static void rows_are_placed_once_and_one_block_at_a_time(void **state)
{
    (void)state;
    bt_xfer_recv r;
    const bt_kv_shape shape = {2, 1, 64, BT_KV_INT8, 0, 0};
    const uint64_t row = 2 * 66;
    assert_int_equal(bt_xfer_recv_init(&r, &shape, 20, NULL), BT_OK);
    const bt_kv_range whole = {0, 0, 20}, tail = {0, 16, 4}, other = {1, 0, 20}, beyond = {0, 16, 16};
    assert_int_equal(bt_xfer_recv_block(&r, &tail, 4 * row), BT_XFER_PLACE);
    assert_int_equal(bt_xfer_recv_block(&r, &other, 20 * row), BT_XFER_BUSY);
    bt_xfer_recv_placed(&r, &tail, false); /* its digest was wrong */
    assert_int_equal(bt_xfer_recv_block(&r, &tail, 4 * row), BT_XFER_PLACE);
    bt_xfer_recv_placed(&r, &tail, true);
    assert_int_equal(bt_xfer_recv_block(&r, &whole, 20 * row), BT_XFER_REPEAT);
    assert_int_equal(bt_xfer_recv_block(&r, &beyond, 16 * row), BT_XFER_RANGE);
    assert_int_equal(bt_xfer_recv_block(&r, &other, 20 * row), BT_XFER_PLACE);
    bt_xfer_recv_placed(&r, &other, true);
    assert_false(bt_xfer_recv_is_complete(&r));
    const bt_kv_range head = {0, 0, 16};
    assert_int_equal(bt_xfer_recv_block(&r, &head, 16 * row), BT_XFER_PLACE);
    assert_false(bt_xfer_recv_is_complete(&r));
    bt_xfer_recv_placed(&r, &head, true);
    assert_true(bt_xfer_recv_is_complete(&r));
    bt_xfer_recv_done(&r);
}

static void rows_in_place_from_the_start_are_not_taken(void **state)
{
    (void)state;
    bt_xfer_recv r;
    const bt_kv_shape shape = {2, 1, 64, BT_KV_F16, 0, 0};
    const uint64_t row = 2 * 128;
    for (uint32_t has = 0; has <= 48; has += 16) {
        assert_int_equal(bt_xfer_recv_init(&r, &shape, 48, NULL), BT_OK);
        bt_xfer_recv_has(&r, has);
        assert_int_equal(bt_xfer_recv_is_complete(&r), has == 48);
        for (uint32_t layer = 0; layer < 2; layer++) {
            const bt_kv_range before = {layer, 0, has}, after = {layer, has, 48 - has};
            if (has > 0) assert_int_equal(bt_xfer_recv_block(&r, &before, has * row), BT_XFER_REPEAT);
            if (has == 48) continue;
            assert_int_equal(bt_xfer_recv_block(&r, &after, (48 - has) * row), BT_XFER_PLACE);
            bt_xfer_recv_placed(&r, &after, true);
        }
        assert_true(bt_xfer_recv_is_complete(&r));
        bt_xfer_recv_done(&r);
    }
}

/* Whole pages of 64 tokens, so that what is kept of them begins with a page. */
static void rows_before_the_window_of_a_prompt_are_neither_wanted_nor_taken(void **state)
{
    (void)state;
    const bt_kv_shape shape = {4, 1, 64, BT_KV_F16, 100, 2}, windows = {4, 1, 64, BT_KV_F16, 100, 0};
    const struct {
        uint32_t tokens, first;
    } c[] = {{1, 0}, {100, 0}, {163, 0}, {164, 64}, {165, 64}, {227, 64}, {228, 128}, {1 << 20, 1048448}};
    const uint64_t row = 2 * 128;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++)
        for (uint32_t layer = 0; layer < 4; layer++) {
            assert_int_equal(bt_xfer_first_token(&shape, layer, c[i].tokens), layer % 2 ? 0 : c[i].first);
            assert_int_equal(bt_xfer_first_token(&windows, layer, c[i].tokens), c[i].first);
        }
    bt_xfer_recv r;
    bt_kv_range missing[8];
    assert_int_equal(bt_xfer_recv_init(&r, &shape, 228, NULL), BT_OK);
    assert_int_equal(bt_kv_cover_missing(r.cover, missing, 8), 4);
    for (uint32_t layer = 0; layer < 4; layer++) {
        const uint32_t first = layer % 2 ? 0 : 128;
        const bt_kv_range before = {layer, 0, 128}, across = {layer, 112, 32},
                          after = {layer, first, 228 - first};
        assert_int_equal(missing[layer].token_begin, first);
        if (first) assert_int_equal(bt_xfer_recv_block(&r, &before, 128 * row), BT_XFER_REPEAT);
        if (first) assert_int_equal(bt_xfer_recv_block(&r, &across, 32 * row), BT_XFER_REPEAT);
        assert_int_equal(bt_xfer_recv_block(&r, &after, after.token_count * row), BT_XFER_PLACE);
        assert_false(bt_xfer_recv_is_complete(&r));
        bt_xfer_recv_placed(&r, &after, true);
    }
    assert_true(bt_xfer_recv_is_complete(&r));
    bt_xfer_recv_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_has_the_bytes_of_its_form_of_kv),
        cmocka_unit_test(a_block_of_another_form_is_out_of_range),
        cmocka_unit_test(rows_are_placed_once_and_one_block_at_a_time),
        cmocka_unit_test(rows_in_place_from_the_start_are_not_taken),
        cmocka_unit_test(rows_before_the_window_of_a_prompt_are_neither_wanted_nor_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
