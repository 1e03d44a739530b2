/* Sizes under each profile's rules; the numbers are by hand or from the devices' documents. */
#include "device/layout.h"
#include "device/profile.h"

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
        assert_int_equal(bt_layout_state(dim, &bytes, p.state_pow2, p.state_multiple, dim, 4, 2, NULL),
                         BT_OK);
        assert_memory_equal(dim, table[i].want, sizeof dim);
        for (int d = 0; d < 4; d++) product *= table[i].want[d];
        assert_int_equal(bytes, product);
    }
    const uint64_t huge[] = {UINT64_C(1) << 32, UINT64_C(1) << 31, 1};
    uint64_t dim[3], bytes;
    assert_int_equal(bt_layout_state(dim, &bytes, false, 0, huge, 3, 2, NULL), BT_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_dimensions_are_rounded_up_but_for_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
