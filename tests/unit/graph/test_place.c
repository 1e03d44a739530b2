/* Memory plans over random lives, of numbers and of formulas: nothing alive together overlaps, and the plan
 * is the same every time. */
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

typedef enum size_kind { STATIC, PER_N, MIXED } size_kind;

static void random_items(bt_place_item item[N], size_kind kind, uint64_t s)
{
    uint64_t seed = s;
    for (size_t i = 0; i < N; i++) {
        const uint32_t first = next(&seed, STEPS);
        const size_t a = next(&seed, 5000), b = next(&seed, 5000);
        item[i] = (bt_place_item){.bytes = kind == STATIC  ? (bt_extent){a, 0}
                                           : kind == PER_N ? (bt_extent){0, a}
                                                           : (bt_extent){a, b},
                                  .first = first, .last = first + next(&seed, STEPS - first)};
    }
}

/* The plan at n: lives, alignment, and the peak against the most that is ever alive. */
static void check_at(const bt_place_item item[N], bt_extent peak, size_t n, size_t times_floor_percent)
{
    const size_t top = bt_extent_at(peak, n);
    size_t live_peak = 0;
    for (size_t i = 0; i < N; i++) {
        const size_t at = bt_extent_at(item[i].offset, n), end = at + bt_extent_at(item[i].bytes, n);
        assert_int_equal(at % BT_PLACE_ALIGN, 0);
        assert_true(end <= top);
        for (size_t j = 0; j < i; j++)
            if (item[i].first <= item[j].last && item[j].first <= item[i].last)
                assert_true(end <= bt_extent_at(item[j].offset, n) ||
                            bt_extent_at(item[j].offset, n) + bt_extent_at(item[j].bytes, n) <= at);
    }
    for (uint32_t at = 0; at < STEPS; at++) {
        size_t live = 0;
        for (size_t i = 0; i < N; i++)
            live += item[i].first <= at && at <= item[i].last ? bt_extent_at(item[i].bytes, n) : 0;
        if (live > live_peak) live_peak = live;
    }
    assert_true(top >= live_peak && (uint64_t)top * 100 <= (uint64_t)live_peak * times_floor_percent);
}

static void nothing_alive_together_overlaps_at_any_n(void **state)
{
    (void)state;
    static const size_t ns[] = {1, 2, 7, 64, 1024, sizeof(size_t) == 4 ? 1u << 14 : 1u << 20};
    static const size_t percent[] = {[STATIC] = 150, [PER_N] = 150, [MIXED] = 300};
    for (size_kind k = STATIC; k <= MIXED; k++)
        for (uint64_t s = 1; s <= 20; s++) {
            bt_place_item item[N], again[N];
            bt_extent peak = {0, 0}, second = {0, 0};
            random_items(item, k, s);
            memcpy(again, item, sizeof item);
            assert_int_equal(bt_place_items(&peak, item, N, NULL), BT_OK);
            assert_int_equal(bt_place_items(&second, again, N, NULL), BT_OK);
            assert_memory_equal(item, again, sizeof item);
            for (size_t i = 0; i < sizeof ns / sizeof *ns; i++) check_at(item, peak, ns[i], percent[k]);
        }
}

static void formulas_that_grow_alike_are_planned_like_numbers(void **state)
{
    (void)state;
    for (uint64_t s = 1; s <= 20; s++) {
        bt_place_item number[N], formula[N];
        bt_extent a = {0, 0}, b = {0, 0};
        random_items(number, STATIC, s);
        random_items(formula, PER_N, s);
        assert_int_equal(bt_place_items(&a, number, N, NULL), BT_OK);
        assert_int_equal(bt_place_items(&b, formula, N, NULL), BT_OK);
        assert_true(a.fixed == b.each && !a.each && !b.fixed);
        for (size_t i = 0; i < N; i++) assert_true(number[i].offset.fixed == formula[i].offset.each);
    }
}

static void what_cannot_be_compared_gets_its_own_room(void **state)
{
    (void)state;
    const bt_extent steep = {0, 640}, flat = {6400, 64}; /* equal at about N = 11 */
    assert_false(bt_extent_le(steep, flat) || bt_extent_le(flat, steep));
    assert_true(bt_extent_le((bt_extent){64, 0}, (bt_extent){0, 64}));
    assert_false(bt_extent_le((bt_extent){128, 0}, (bt_extent){0, 64}));
    /* The hole that `flat` leaves is free of `steep` only where N is small: neither may assume it. */
    bt_place_item item[3] = {{.bytes = steep, .first = 0, .last = 1},
                             {.bytes = {0, 128}, .first = 1, .last = 3},
                             {.bytes = flat, .first = 2, .last = 3}};
    bt_extent peak;
    assert_int_equal(bt_place_items(&peak, item, 3, NULL), BT_OK);
    assert_true(item[0].offset.each == 0 && item[1].offset.each == 640);
    assert_true(item[2].offset.each == 768 && item[2].offset.fixed == 0);
    assert_true(peak.each == 832 && peak.fixed == 6400);
}

/* ---- layers ---- */

enum { LAYERS = 40, OF_LAYER = 9, HEAD = 3, TAIL = 4, ALL = HEAD + LAYERS * OF_LAYER + TAIL };

/* Layers of the same items; some live on into the next layers, and the head's first item through all. Items
 * that stand in two layers differ: there an item is larger, or lives longer. */
static size_t layered_items(bt_place_item item[ALL], uint64_t s)
{
    uint64_t seed = s;
    const uint32_t steps = 6 + next(&seed, 12), layers = 3 + next(&seed, LAYERS - 2),
                   sizes = 1 + next(&seed, 6);
    uint32_t size[6], first[OF_LAYER], life[OF_LAYER], of[OF_LAYER];
    size_t n = 0;
    for (uint32_t i = 0; i < sizes; i++) size[i] = 1 + next(&seed, 40) * 64;
    for (uint32_t i = 0; i < OF_LAYER; i++) {
        first[i] = next(&seed, steps);
        life[i] = next(&seed, 8) ? next(&seed, steps / 2) : next(&seed, 3 * steps);
        of[i] = next(&seed, sizes);
    }
    for (uint32_t i = 0; i < HEAD; i++) {
        const uint32_t all = steps * layers,
                       last = !i ? all + next(&seed, 6 * steps) - 3 * steps : next(&seed, all);
        item[n++] = (bt_place_item){.bytes = {size[next(&seed, sizes)], 0}, .first = i, .last = i + last};
    }
    const uint32_t other[2] = {next(&seed, 2 * layers), next(&seed, 2 * layers)}; /* mostly in no layer */
    for (uint32_t l = 0; l < layers; l++)
        for (uint32_t i = 0; i < OF_LAYER; i++) {
            const uint32_t at = 1 + l * steps + first[i];
            item[n++] =
                (bt_place_item){.bytes = {size[of[i]] + (l == other[0] && !i ? 64 : 0), 0}, .first = at,
                                .last = at + life[i] + (l == other[1] && i == 1 ? steps : 0)};
        }
    for (uint32_t i = 0; i < TAIL; i++) {
        const uint32_t end = 1 + layers * steps,
                       at = next(&seed, 4) ? end + next(&seed, steps) : next(&seed, end);
        item[n++] = (bt_place_item){.bytes = {size[next(&seed, sizes)], 0}, .first = at,
                                    .last = at + next(&seed, steps)};
    }
    return n;
}

static bool is_taken(const bt_place_item *item, const bool *is_placed, size_t n, size_t i, size_t offset)
{
    for (size_t j = 0; j < n; j++)
        if (is_placed[j] && item[j].first <= item[i].last && item[i].first <= item[j].last &&
            offset < item[j].offset.fixed + item[j].bytes.fixed &&
            item[j].offset.fixed < offset + item[i].bytes.fixed)
            return true;
    return false;
}

/* As the header says, item by item and offset by offset. */
static void place_by_definition(bt_place_item *item, size_t n)
{
    bool is_placed[ALL] = {false};
    for (size_t i = 0; i < n; i++) item[i].bytes.fixed = (item[i].bytes.fixed + 63) / 64 * 64;
    for (size_t done = 0; done < n; done++) {
        size_t next_one = n, offset = 0;
        for (size_t i = 0; i < n; i++)
            if (!is_placed[i] && (next_one == n || item[i].bytes.fixed > item[next_one].bytes.fixed))
                next_one = i;
        while (is_taken(item, is_placed, n, next_one, offset)) offset += 64;
        item[next_one].offset.fixed = offset;
        is_placed[next_one] = true;
    }
}

static void layers_that_repeat_are_planned_as_by_definition(void **state)
{
    (void)state;
    for (uint64_t s = 1; s <= 200; s++) {
        static bt_place_item item[ALL], should[ALL];
        bt_extent peak = {0, 0};
        const size_t n = layered_items(item, s);
        memcpy(should, item, sizeof item);
        assert_int_equal(bt_place_items(&peak, item, n, NULL), BT_OK);
        place_by_definition(should, n);
        for (size_t i = 0; i < n; i++)
            if (item[i].offset.fixed != should[i].offset.fixed ||
                item[i].bytes.fixed != should[i].bytes.fixed)
                fail_msg("seed %d, item %zu: at %zu instead of %zu", (int)s, i, item[i].offset.fixed,
                         should[i].offset.fixed);
    }
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    bt_extent peak = {7, 7};
    bt_place_item item[2] = {{.bytes = {SIZE_MAX, 0}}, {.bytes = {1, 0}}};
    assert_int_equal(bt_place_items(&peak, item, 2, NULL), BT_ELIMIT);
    item[0].bytes = item[1].bytes = (bt_extent){SIZE_MAX / 2 + 1, 0};
    assert_int_equal(bt_place_items(&peak, item, 2, NULL), BT_ELIMIT);
    item[0].bytes = (bt_extent){SIZE_MAX / 2 + 1, 0};
    item[1].bytes = (bt_extent){0, SIZE_MAX / 2 + 1};
    assert_int_equal(bt_place_items(&peak, item, 2, NULL), BT_ELIMIT);
    item[0].bytes = (bt_extent){0, SIZE_MAX - 5};
    assert_int_equal(bt_place_items(&peak, item, 1, NULL), BT_ELIMIT);
    assert_int_equal(peak.fixed, 7);
    assert_int_equal(bt_place_items(&peak, item, 0, NULL), BT_OK);
    assert_true(!peak.fixed && !peak.each);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_alive_together_overlaps_at_any_n),
        cmocka_unit_test(formulas_that_grow_alike_are_planned_like_numbers),
        cmocka_unit_test(what_cannot_be_compared_gets_its_own_room),
        cmocka_unit_test(layers_that_repeat_are_planned_as_by_definition),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
