/* Memory plans over random lives: nothing alive together overlaps, and the plan is the same every time. */
#include "graph/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { N = 200, STEPS = 60 };

static uint32_t next(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

static void nothing_alive_together_overlaps(void **state)
{
    (void)state;
    for (uint64_t s = 1; s <= 20; s++) {
        uint64_t seed = s;
        bt_place_item item[N], again[N];
        size_t peak = 0, second = 0, live_peak = 0;
        for (size_t i = 0; i < N; i++) {
            const uint32_t first = next(&seed, STEPS);
            item[i] = (bt_place_item){
                .bytes = next(&seed, 5000), .first = first, .last = first + next(&seed, STEPS - first)};
        }
        memcpy(again, item, sizeof item);
        assert_int_equal(bt_place_items(&peak, item, N, NULL), BT_OK);
        assert_int_equal(bt_place_items(&second, again, N, NULL), BT_OK);
        assert_memory_equal(item, again, sizeof item);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(item[i].offset % BT_PLACE_ALIGN, 0);
            assert_true(item[i].offset + item[i].bytes <= peak);
            for (size_t j = 0; j < i; j++)
                if (item[i].first <= item[j].last && item[j].first <= item[i].last)
                    assert_true(item[i].offset + item[i].bytes <= item[j].offset ||
                                item[j].offset + item[j].bytes <= item[i].offset);
        }
        for (uint32_t at = 0; at < STEPS; at++) {
            size_t live = 0;
            for (size_t i = 0; i < N; i++)
                live += item[i].first <= at && at <= item[i].last ? item[i].bytes : 0;
            if (live > live_peak) live_peak = live;
        }
        assert_true(peak >= live_peak && peak * 2 <= live_peak * 3);
    }
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    size_t peak = 7;
    bt_place_item item[2] = {{.bytes = SIZE_MAX}, {.bytes = 1}};
    assert_int_equal(bt_place_items(&peak, item, 2, NULL), BT_ELIMIT);
    item[0].bytes = item[1].bytes = SIZE_MAX / 2 + 1;
    assert_int_equal(bt_place_items(&peak, item, 2, NULL), BT_ELIMIT);
    assert_int_equal(peak, 7);
    assert_int_equal(bt_place_items(&peak, item, 0, NULL), BT_OK);
    assert_int_equal(peak, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_alive_together_overlaps),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
