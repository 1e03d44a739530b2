/* The tile's order against the published example and as a bijection; sizes in whole tiles by hand. */
#include "device/tile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void every_element_has_one_place_and_comes_back(void **state) /* AC-d1 */
{
    (void)state;
    unsigned char seen[BT_TILE_ELEMS] = {0};
    uint16_t *in = malloc(BT_TILE_ELEMS * sizeof *in), *tile = malloc(BT_TILE_ELEMS * sizeof *tile),
             *out = malloc(BT_TILE_ELEMS * sizeof *out);
    assert_true(in && tile && out);
    for (size_t r = 0; r < BT_TILE_DIM; r++)
        for (size_t c = 0; c < BT_TILE_DIM; c++) {
            const size_t at = bt_tile_index(r, c);
            assert_true(at < BT_TILE_ELEMS);
            assert_false(seen[at]++);
            in[r * BT_TILE_DIM + c] = (uint16_t)(r * 100 + c + 1);
        }
    assert_int_equal(bt_tile_index(3, 5), 75);
    assert_int_equal(bt_tile_index(0, 1), 2);
    assert_int_equal(bt_tile_index(1, 0), 1);
    assert_int_equal(bt_tile_index(31, 31), 1023);
    bt_tile_pack(tile, in, BT_TILE_DIM, BT_TILE_DIM, BT_TILE_DIM);
    assert_int_equal(tile[75], 306);
    memset(out, 0, BT_TILE_ELEMS * sizeof *out);
    bt_tile_unpack(out, BT_TILE_DIM, BT_TILE_DIM, BT_TILE_DIM, tile);
    assert_memory_equal(in, out, BT_TILE_ELEMS * sizeof *out);
    free(in);
    free(tile);
    free(out);
}

static void an_edge_tile_is_filled_with_zeros_and_writes_only_its_part(void **state)
{
    (void)state;
    enum { ROWS = 5, COLS = 7, STRIDE = 9 };
    uint16_t *in = malloc(((ROWS - 1) * STRIDE + COLS) * sizeof *in), tile[BT_TILE_ELEMS], out[ROWS * STRIDE];
    assert_non_null(in);
    for (size_t i = 0; i < (ROWS - 1) * STRIDE + COLS; i++) in[i] = (uint16_t)(i + 1);
    memset(tile, 0xff, sizeof tile);
    bt_tile_pack(tile, in, STRIDE, ROWS, COLS);
    size_t nonzero = 0;
    for (size_t i = 0; i < BT_TILE_ELEMS; i++) nonzero += tile[i] != 0;
    assert_int_equal(nonzero, ROWS * COLS);
    memset(out, 0xab, sizeof out);
    bt_tile_unpack(out, STRIDE, ROWS, COLS, tile);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < STRIDE; c++)
            assert_int_equal(out[r * STRIDE + c], c < COLS ? in[r * STRIDE + c] : 0xabab);
    free(in);
}

static void sizes_are_whole_tiles(void **state)
{
    (void)state;
    bt_profile hexagon, tpu, host;
    assert_int_equal(bt_profile_load(&hexagon, "hexagon-v75", NULL), BT_OK);
    assert_int_equal(bt_profile_load(&tpu, "tpu-v6e", NULL), BT_OK);
    assert_int_equal(bt_profile_load(&host, "host", NULL), BT_OK);
    assert_int_equal(bt_tile_bytes(&hexagon, 1, 1, 16), 2048);
    assert_int_equal(bt_tile_bytes(&hexagon, 32, 32, 8), 1024);
    assert_int_equal(bt_tile_bytes(&hexagon, 33, 32, 8), 2048);
    assert_int_equal(bt_tile_bytes(&hexagon, 33, 33, 4), 2048);
    assert_int_equal(bt_tile_bytes(&hexagon, 576, 1536, 8), 576 * 1536);
    assert_int_equal(bt_tile_bytes(&tpu, 576, 1536, 8), 768 * 1536);
    assert_int_equal(bt_tile_bytes(&host, 3, 5, 8), 15);
    assert_int_equal(bt_tile_bytes(&host, 3, 5, 4), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_has_one_place_and_comes_back),
        cmocka_unit_test(an_edge_tile_is_filled_with_zeros_and_writes_only_its_part),
        cmocka_unit_test(sizes_are_whole_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
