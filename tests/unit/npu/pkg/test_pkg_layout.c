/* Strides, slices and parts: nothing twice, nothing left out, figures by hand. */
#include "npu/pkg/pkg_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void strides_are_rounded_up_and_planes_to_64_too(void **state)
{
    (void)state;
    const bt_pkg_layout none = {0}, two = {.last_axis_align_bytes = 2},
                        wide = {.last_axis_align_bytes = 4096};
    for (uint32_t s = 1; s <= 300; s++)
        for (uint32_t elt = 1; elt <= 4; elt *= 2) {
            const bt_pkg_layout l = {.last_axis_align_bytes = 64};
            assert_int_equal(bt_pkg_layout_stride(&l, s, elt), (s * elt + 63) / 64 * 64);
            assert_int_equal(bt_pkg_layout_stride(&none, s, elt), s * elt);
            assert_int_equal(bt_pkg_layout_plane_stride(&none, s), (s + 63) / 64 * 64);
            assert_int_equal(bt_pkg_layout_plane_stride(&two, s), (s + 63) / 64 * 64);
            assert_int_equal(bt_pkg_layout_plane_stride(&wide, s), 4096);
        }
}

static void every_row_of_every_head_is_in_one_slice(void **state)
{
    (void)state;
    static const uint32_t steps[] = {0, 1, 2, 5, 7, 32, 100};
    enum { STEPS = sizeof steps / sizeof *steps };
    for (uint32_t rows = 1; rows <= 33; rows += 8)
        for (uint32_t heads = 1; heads <= 9; heads++)
            for (size_t r = 0; r < STEPS; r++)
                for (size_t h = 0; h < STEPS; h++) {
                    const bt_pkg_layout l = {.query_slice_rows = steps[r], .attention_heads_max = steps[h]};
                    uint8_t seen[33][9] = {{0}};
                    const uint64_t slices = bt_pkg_layout_slices(&l, rows, heads);
                    for (uint32_t n = 1; n <= slices; n++) {
                        const bt_pkg_slice s = bt_pkg_layout_slice(&l, rows, heads, n);
                        assert_true(s.rows > 0 && s.heads > 0);
                        assert_true(!steps[r] || s.rows <= steps[r]);
                        assert_true(!steps[h] || s.heads <= steps[h]);
                        for (uint32_t i = 0; i < s.rows; i++)
                            for (uint32_t k = 0; k < s.heads; k++)
                                assert_int_equal(seen[s.row + i][s.head + k]++, 0);
                    }
                    for (uint32_t i = 0; i < rows; i++)
                        for (uint32_t k = 0; k < heads; k++) assert_int_equal(seen[i][k], 1);
                    const bt_pkg_slice all = bt_pkg_layout_slice(&l, rows, heads, 0);
                    assert_true(!all.row && !all.head && all.rows == rows && all.heads == heads);
                }
}

static void parts_are_whole_panels_and_make_the_matrix(void **state)
{
    (void)state;
    for (uint32_t parts = 0; parts <= 64; parts++)
        for (uint32_t n = 1; n <= 700; n += 13) {
            const bt_pkg_layout l = {.output_parts = parts};
            uint32_t end = 0;
            assert_true(bt_pkg_layout_parts(&l, n) <= (parts ? parts : 1));
            for (uint32_t i = 1; i <= bt_pkg_layout_parts(&l, n); i++) {
                const bt_pkg_part p = bt_pkg_layout_part(&l, n, i);
                assert_int_equal(p.first, end);
                assert_int_equal(p.first % 16, 0);
                assert_true(p.n > 0);
                end += p.n;
            }
            assert_int_equal(end, n);
        }
    const bt_pkg_layout ane = {.output_parts = 8};
    assert_int_equal(bt_pkg_layout_part(&ane, 128256, 8).first, 7 * 16032); /* Llama 3: eight of 16,032 */
    assert_int_equal(bt_pkg_layout_part(&ane, 128256, 8).n, 16032);
    assert_int_equal(bt_pkg_layout_part(&ane, 49152, 1).n, 6144);
}

static void whole_tiles_cost_what_is_over(void **state)
{
    (void)state;
    const bt_pkg_layout none = {0}, hmx = {.tile_rows = 32, .tile_cols = 32, .tile_input_rows = 32};
    assert_int_equal(bt_pkg_layout_tile_macs(&none, 7, 33, 65), 0);
    assert_int_equal(bt_pkg_layout_tile_macs(&hmx, 64, 576, 1536), 0);
    assert_int_equal(bt_pkg_layout_tile_macs(&hmx, 33, 576, 1536), 31 * 576 * 1536); /* 33 rows cost as much
                                                                                        as 64 */
    assert_int_equal(bt_pkg_layout_tile_macs(&hmx, 1, 33, 1), 32 * 64 * 32 - 33);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strides_are_rounded_up_and_planes_to_64_too),
        cmocka_unit_test(every_row_of_every_head_is_in_one_slice),
        cmocka_unit_test(parts_are_whole_panels_and_make_the_matrix),
        cmocka_unit_test(whole_tiles_cost_what_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
