/* Palettes against every choice of entries, tried one by one. */
#include "npu/quant/palette.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { VALUES = BT_PALETTE_VALUES };

/* The loss of values, each with the nearest of these entries. */
static int64_t loss(const uint32_t *count, const int *entry, size_t n)
{
    int64_t sum = 0;
    for (int v = -127; v <= 127; v++) {
        int64_t nearest = INT64_MAX;
        for (size_t i = 0; i < n; i++) {
            const int64_t d = (int64_t)(v - entry[i]) * (v - entry[i]);
            nearest = d < nearest ? d : nearest;
        }
        sum += nearest * count[v + 127];
    }
    return sum;
}

static int64_t loss_of(const bt_palette *p, const uint32_t *count)
{
    int64_t sum = 0;
    for (int v = -127; v <= 127; v++) {
        const int64_t d = v - p->entry[p->index[v + 127]];
        sum += d * d * count[v + 127];
    }
    return sum;
}

/* Every choice of entries, of few values. */
static void no_other_entries_lose_less(void **state)
{
    (void)state;
    for (uint64_t draw = 0, seed = 1; seed <= 40; seed++) {
        uint32_t count[VALUES] = {0};
        enum { RANGE = 13, ENTRIES = 4 };
        const int from = (int)(bt_rng_u64(seed, draw++) % (VALUES - RANGE));
        for (int i = 0; i < RANGE; i++) count[from + i] = (uint32_t)(bt_rng_u64(seed, draw++) % 9);
        bt_palette p;
        bt_palette_make(&p, count, 2);
        int64_t least = INT64_MAX;
        int e[ENTRIES];
        for (e[0] = 0; e[0] < RANGE; e[0]++)
            for (e[1] = e[0]; e[1] < RANGE; e[1]++)
                for (e[2] = e[1]; e[2] < RANGE; e[2]++)
                    for (e[3] = e[2]; e[3] < RANGE; e[3]++) {
                        int at[ENTRIES];
                        for (int i = 0; i < ENTRIES; i++) at[i] = from + e[i] - 127;
                        const int64_t now = loss(count, at, ENTRIES);
                        least = now < least ? now : least;
                    }
        if (loss_of(&p, count) != least) fail_msg("seed %u", (unsigned)seed);
    }
}

static void each_value_has_its_nearest_entry(void **state)
{
    (void)state;
    for (unsigned bits = 1; bits <= BT_PALETTE_MOST_BITS; bits++)
        for (uint64_t draw = 0, seed = 1; seed <= 20; seed++) {
            uint32_t count[VALUES];
            int entry[1 << BT_PALETTE_MOST_BITS];
            for (int i = 0; i < VALUES; i++) {
                const int far = abs(i - 127);
                count[i] = (uint32_t)(bt_rng_u64(seed, draw++) % (uint64_t)(1 + 40000 / (1 + far * far)));
            }
            bt_palette p;
            bt_palette_make(&p, count, bits);
            for (int i = 0; i < 1 << bits; i++) {
                entry[i] = p.entry[i];
                assert_true(entry[i] >= -127 && (!i || entry[i] >= entry[i - 1]));
            }
            assert_true(loss_of(&p, count) == loss(count, entry, (size_t)1 << bits));
        }
}

static void few_values_are_kept_as_they_are(void **state)
{
    (void)state;
    uint32_t count[VALUES] = {0};
    bt_palette p;
    bt_palette_make(&p, count, 4);
    assert_int_equal(p.entry[15], 0);
    for (int i = 0; i < 16; i++) count[i * 17 - (i == 15)] = UINT32_C(1) << 26;
    bt_palette_make(&p, count, 4);
    assert_true(loss_of(&p, count) == 0);
    assert_int_equal(p.entry[0], -127);
    assert_int_equal(p.entry[15], 127);
    count[100] = 1;
    bt_palette_make(&p, count, 4);
    assert_int_equal(loss_of(&p, count), 4); /* 102 is nearest */
    bt_palette_make(&p, count, 6);
    assert_true(loss_of(&p, count) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_entries_lose_less),
        cmocka_unit_test(each_value_has_its_nearest_entry),
        cmocka_unit_test(few_values_are_kept_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
