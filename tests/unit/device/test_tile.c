/* The tile's order against the published example and as a bijection; sizes in whole tiles by hand. */
#include "device/tile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { DIM = 32, ELEMS = DIM * DIM };
static const bt_tile hmx = {DIM, DIM, 16};

static void every_element_has_one_place_and_comes_back(void **state) /* AC-d1 */
{
    (void)state;
    static const bt_tile tiles[] = {{DIM, DIM, 16}, {DIM, DIM, 8}, {DIM, DIM, 4}, {128, 128, 8},
                                    {7, 5, 8},      {13, 3, 4},    {3, 9, 16},    {1, 40, 8}};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        const bt_tile *t = &tiles[i];
        const size_t elems = bt_tile_elems(t);
        unsigned char *seen = calloc(elems, 1);
        uint16_t *in = malloc(elems * sizeof *in), *tile = malloc(elems * sizeof *tile);
        assert_true(seen && in && tile);
        for (size_t r = 0; r < t->rows; r++)
            for (size_t c = 0; c < t->cols; c++) {
                const size_t at = bt_tile_index(t, r, c);
                assert_true(at < elems);
                assert_false(seen[at]++);
                in[r * t->cols + c] = (uint16_t)(r * 100 + c + 1);
            }
        bt_tile_pack(t, tile, in, t->cols, t->rows, t->cols);
        for (size_t r = 0; r < t->rows; r++)
            for (size_t c = 0; c < t->cols; c++)
                assert_int_equal(tile[bt_tile_index(t, r, c)], in[r * t->cols + c]);
        free(seen);
        free(in);
        free(tile);
    }
}

static void elements_of_hmx_lie_where_they_were_published(void **state) /* AC-d1 */
{
    (void)state;
    uint16_t in[ELEMS], tile[ELEMS];
    for (size_t r = 0; r < DIM; r++)
        for (size_t c = 0; c < DIM; c++) {
            assert_int_equal(bt_tile_index(&hmx, r, c), r / 2 * 64 + c * 2 + r % 2);
            in[r * DIM + c] = (uint16_t)(r * 100 + c + 1);
        }
    assert_int_equal(bt_tile_index(&hmx, 3, 5), 75);
    assert_int_equal(bt_tile_index(&hmx, 0, 1), 2);
    assert_int_equal(bt_tile_index(&hmx, 1, 0), 1);
    assert_int_equal(bt_tile_index(&hmx, 31, 31), 1023);
    bt_tile_pack(&hmx, tile, in, DIM, DIM, DIM);
    assert_int_equal(tile[75], 306);
    /* by hand: four rows of s8 in a word, then the next column; the last two rows of six in pairs */
    assert_int_equal(bt_tile_index(&(bt_tile){DIM, DIM, 8}, 3, 5), 5 * 4 + 3);
    assert_int_equal(bt_tile_index(&(bt_tile){DIM, DIM, 4}, 9, 5), 8 * 32 + 5 * 8 + 1);
    assert_int_equal(bt_tile_index(&(bt_tile){6, 10, 8}, 5, 2), 4 * 10 + 2 * 2 + 1);
    assert_int_equal(bt_tile_index(&(bt_tile){1, 10, 8}, 0, 7), 7);
}

static void an_edge_tile_is_filled_with_zeros(void **state)
{
    (void)state;
    enum { ROWS = 5, COLS = 7, STRIDE = 9 };
    uint16_t *in = malloc(((ROWS - 1) * STRIDE + COLS) * sizeof *in), tile[ELEMS];
    assert_non_null(in);
    for (size_t i = 0; i < (ROWS - 1) * STRIDE + COLS; i++) in[i] = (uint16_t)(i + 1);
    memset(tile, 0xff, sizeof tile);
    bt_tile_pack(&hmx, tile, in, STRIDE, ROWS, COLS);
    size_t nonzero = 0;
    for (size_t i = 0; i < ELEMS; i++) nonzero += tile[i] != 0;
    assert_int_equal(nonzero, ROWS * COLS);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < COLS; c++)
            assert_int_equal(tile[bt_tile_index(&hmx, r, c)], in[r * STRIDE + c]);
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
        cmocka_unit_test(elements_of_hmx_lie_where_they_were_published),
        cmocka_unit_test(an_edge_tile_is_filled_with_zeros),
        cmocka_unit_test(sizes_are_whole_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
