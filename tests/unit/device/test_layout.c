/* Sizes under each profile's rules; the numbers are by hand or from the devices' documents. */
#include "device/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static bt_profile profile(const char *name)
{
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, name, NULL), BT_OK);
    return p;
}

static void the_last_axis_is_aligned(void **state) /* AC-g2 */
{
    (void)state;
    const bt_profile ane = profile("ane-m1"), host = profile("host");
    for (uint64_t s = 1; s <= 300; s++)
        for (uint32_t elt = 1; elt <= 4; elt *= 2) {
            assert_int_equal(bt_layout_row_stride(&ane, s, elt), (s * elt + 63) / 64 * 64);
            assert_int_equal(bt_layout_row_stride(&host, s, elt), s * elt);
        }
    assert_int_equal(bt_layout_activation_bytes(&ane, 576, 1, 2), 32 * 576 * 2);
    assert_int_equal(bt_layout_activation_bytes(&ane, 576, 32, 2), 576 * 32 * 2);
    assert_int_equal(bt_layout_activation_bytes(&host, 576, 1, 2), 576 * 2);
}

static void state_dimensions_are_rounded_up_but_for_the_first(void **state)
{
    (void)state;
    static const struct {
        const char *profile;
        uint64_t dim[4], want[4];
    } table[] = {
        {"ane-m4", {20, 8, 512, 80}, {20, 8, 512, 128}}, /* the published example */
        {"ane-m4", {56, 8, 512, 128}, {56, 8, 512, 128}}, {"ane-m4", {60, 3, 1000, 64}, {60, 4, 1024, 64}},
        {"ane-m4", {3, 1, 1, 1}, {3, 1, 1, 32}},          {"tpu-v5e", {60, 3, 1000, 64}, {60, 3, 1000, 128}},
        {"host", {60, 3, 1000, 64}, {60, 3, 1000, 64}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const bt_profile p = profile(table[i].profile);
        uint64_t dim[4], bytes, product = 2;
        memcpy(dim, table[i].dim, sizeof dim);
        assert_int_equal(bt_layout_state(dim, &bytes, &p, dim, 4, 2, NULL), BT_OK);
        assert_memory_equal(dim, table[i].want, sizeof dim);
        for (int d = 0; d < 4; d++) product *= table[i].want[d];
        assert_int_equal(bytes, product);
    }
    const uint64_t huge[] = {UINT64_C(1) << 32, UINT64_C(1) << 31, 1};
    const bt_profile host = profile("host");
    uint64_t dim[3], bytes;
    assert_int_equal(bt_layout_state(dim, &bytes, &host, huge, 3, 2, NULL), BT_ELIMIT);
}

static void an_operator_fits_on_the_chip_or_spills(void **state) /* AC-d3 */
{
    (void)state;
    const bt_profile v75 = profile("hexagon-v75"), tpu = profile("tpu-v5e"), host = profile("host");
    bt_layout_linear down = {.rows = 256,  .k = 11008,       .n = 4096,
                             .in_bits = 8, .weight_bits = 8, .out_bits = 16};
    assert_int_equal(bt_layout_working_set(&v75, &down), 32 * 11008 + 256 * 11008 + 256 * 4096 * 2);
    assert_true(bt_layout_fits(&v75, &down));
    down.rows = 1024;
    assert_false(bt_layout_fits(&v75, &down));
    assert_true(bt_layout_fits(&tpu, &down));
    assert_true(bt_layout_fits(&host, &down));
    /* The edge itself: 8 MiB less one row of tiles, in rows of 1 KiB + 1 KiB. */
    bt_layout_linear edge = {.rows = 4080, .k = 1024,        .n = 1024,
                             .in_bits = 8, .weight_bits = 8, .out_bits = 8};
    assert_int_equal(bt_layout_working_set(&v75, &edge), 8 << 20);
    assert_true(bt_layout_fits(&v75, &edge));
    edge.rows++;
    assert_false(bt_layout_fits(&v75, &edge));
    edge.weight_bits = 4;
    assert_true(bt_layout_fits(&v75, &edge));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_axis_is_aligned),
        cmocka_unit_test(state_dimensions_are_rounded_up_but_for_the_first),
        cmocka_unit_test(an_operator_fits_on_the_chip_or_spills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
