/* Ordered sets of places, against a plain table that is searched whole. */
#include "base/order.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { PLACES = 97, SETS = 3, TURNS = 20000 };

typedef struct plain {
    bool is_in;
    uint32_t set;
    bt_order_key key;
} plain;

static bool is_less(const plain *a, int64_t ia, const plain *b, int64_t ib)
{
    if (a->key.hi != b->key.hi) return a->key.hi < b->key.hi;
    return a->key.lo != b->key.lo ? a->key.lo < b->key.lo : ia < ib;
}

/* The least of the set that is above `above`; NULL: of all. */
static int64_t least(const plain *t, uint32_t set, const plain *above, int64_t above_place)
{
    int64_t best = BT_ORDER_NONE;
    for (int64_t i = 0; i < PLACES; i++) {
        if (!t[i].is_in || t[i].set != set || (above && !is_less(above, above_place, &t[i], i))) continue;
        if (best < 0 || is_less(&t[i], i, &t[best], best)) best = i;
    }
    return best;
}

static void compare(const bt_order *o, const plain *t)
{
    for (uint32_t set = 0; set < SETS; set++) {
        int64_t want = least(t, set, NULL, 0), got = bt_order_first(o, set);
        while (want >= 0) {
            assert_int_equal(got, want);
            want = least(t, set, &t[want], want);
            got = bt_order_next(o, got);
        }
        assert_int_equal(got, BT_ORDER_NONE);
    }
}

static void sets_are_in_order_of_key_and_then_of_place_whatever_was_put_and_taken(void **s)
{
    (void)s;
    bt_order o;
    plain t[PLACES] = {{0}};
    uint64_t draws = 0;
    assert_int_equal(bt_order_init(&o, PLACES, SETS), BT_OK);
    for (int turn = 0; turn < TURNS; turn++) {
        const uint64_t r = bt_rng_u64(11, draws++);
        const uint32_t place = (uint32_t)(r % PLACES), set = (uint32_t)((r >> 20) % SETS);
        if ((r >> 40) % 3 == 0) {
            bt_order_take(&o, place);
            t[place].is_in = false;
        } else {
            const bt_order_key key = {(r >> 8) % 7, (r >> 16) % 3};
            bt_order_put(&o, set, place, key);
            t[place] = (plain){true, set, key};
        }
        assert_int_equal(bt_order_has(&o, set, place), t[place].is_in && t[place].set == set);
        if (turn % 50 == 0) compare(&o, t);
        const plain from = {.key = {(r >> 50) % 8, (r >> 55) % 4}};
        assert_int_equal(bt_order_from(&o, set, from.key), least(t, set, &from, -1));
    }
    bt_order_done(&o);
}

/* Ascending keys would make a plain tree a list. */
static void a_set_of_ascending_keys_is_no_deeper_than_another(void **s)
{
    (void)s;
    enum { MANY = 1 << 16, DEEPEST = 64 };
    bt_order o;
    assert_int_equal(bt_order_init(&o, MANY, 1), BT_OK);
    for (uint32_t i = 0; i < MANY; i++) bt_order_put(&o, 0, i, bt_order_number(i));
    for (uint32_t i = 0; i < MANY; i += 97) {
        int depth = 0;
        for (uint32_t link = i + 1; link; link = o.items[link - 1].up) depth++;
        assert_true(depth < DEEPEST);
    }
    bt_order_done(&o);
}

static void times_keep_their_order_as_keys(void **s)
{
    (void)s;
    const int64_t us[] = {INT64_MIN, -5, 0, 1, 1 << 20, INT64_MAX};
    for (int i = 0; i < 6; i++) {
        assert_true(bt_order_us(bt_order_time(us[i])) == us[i]);
        if (i > 0) assert_true(bt_order_time(us[i - 1]).hi < bt_order_time(us[i]).hi);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_in_order_of_key_and_then_of_place_whatever_was_put_and_taken),
        cmocka_unit_test(a_set_of_ascending_keys_is_no_deeper_than_another),
        cmocka_unit_test(times_keep_their_order_as_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
