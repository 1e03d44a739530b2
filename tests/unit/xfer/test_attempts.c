/* The table of attempts: who holds which slot, which attempt of a request is found, what becomes of one
 * that is over. */
#include "base/rng.h"
#include "xfer/attempts.h"
#include "xfer/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { SLOTS = 3, AT_WORK = BT_ATTEMPT_OWN };

static bt_request_ref request(uint64_t number, uint32_t attempt)
{
    return (bt_request_ref){{{7}}, number, attempt};
}

static bt_attempt *begin(bt_attempts *t, uint64_t number, uint32_t attempt)
{
    const bt_request_ref ref = request(number, attempt);
    bt_attempt *a = bt_attempts_unused(t);
    const uint32_t slot = bt_attempts_unused_slot(t);
    assert_non_null(a);
    assert_int_not_equal(slot, BT_NO_SLOT);
    bt_attempts_take(t, a, &ref, slot, AT_WORK);
    return a;
}

static void end(bt_attempts *t, bt_attempt *a)
{
    if (a->slot != BT_NO_SLOT) bt_attempts_leave_slot(t, a);
    bt_attempts_bury(t, a);
}

static void gives_the_lowest_free_slot_and_record_until_there_is_none(void **state)
{
    (void)state;
    bt_attempts t;
    assert_int_equal(bt_attempts_new(&t, SLOTS, 0), BT_OK);
    bt_attempt *a[SLOTS];
    for (uint32_t i = 0; i < SLOTS; i++) {
        a[i] = begin(&t, i + 1, 1);
        assert_int_equal(a[i]->slot, i);
        assert_ptr_equal(a[i], &t.all[i]);
        assert_ptr_equal(bt_attempts_by_slot(&t, i), a[i]);
    }
    assert_int_equal(bt_attempts_unused_slot(&t), BT_NO_SLOT);
    assert_null(bt_attempts_by_slot(&t, SLOTS));
    assert_null(bt_attempts_by_slot(&t, BT_NO_SLOT));
    bt_attempts_leave_slot(&t, a[1]);
    assert_int_equal(a[1]->slot, BT_NO_SLOT);
    assert_null(bt_attempts_by_slot(&t, 1));
    assert_int_equal(bt_attempts_unused_slot(&t), 1);
    bt_attempts_free(&t);
}

static void has_more_records_than_slots_for_what_is_reported(void **state)
{
    (void)state;
    bt_attempts t;
    assert_int_equal(bt_attempts_new(&t, SLOTS, 0), BT_OK);
    for (uint32_t i = 0; i < t.len; i++) {
        bt_attempt *a = begin(&t, i + 1, 1);
        bt_attempts_leave_slot(&t, a);
        a->state = BT_ATTEMPT_REPORTING;
    }
    assert_true(t.len > 4 * SLOTS);
    assert_null(bt_attempts_unused(&t));
    const bt_load load = bt_attempts_load(&t);
    assert_int_equal(load.leases, t.len);
    assert_int_equal(load.slots_total, SLOTS);
    assert_int_equal(load.slots_used, 0);
    bt_attempts_free(&t);
}

static void finds_the_highest_attempt_of_a_request_and_nothing_that_is_over(void **state)
{
    (void)state;
    bt_attempts t;
    assert_int_equal(bt_attempts_new(&t, SLOTS, 0), BT_OK);
    bt_attempt *low = begin(&t, 5, 1), *high = begin(&t, 5, 2);
    const bt_request_ref ref = request(5, 9), other = request(6, 1);
    low->state = BT_ATTEMPT_STOPPING;
    assert_ptr_equal(bt_attempts_find(&t, &ref), high);
    assert_null(bt_attempts_find(&t, &other));
    end(&t, high);
    assert_ptr_equal(bt_attempts_find(&t, &ref), low);
    end(&t, low);
    assert_null(bt_attempts_find(&t, &ref));
    assert_int_equal(bt_attempt_log_highest(&t.log, &ref), 2);
    bt_attempts_free(&t);
}

static void looks_through_what_is_here_in_order_while_it_ends(void **state)
{
    (void)state;
    bt_attempts t;
    assert_int_equal(bt_attempts_new(&t, SLOTS, 0), BT_OK);
    assert_null(bt_attempts_next(&t, NULL));
    for (uint64_t i = 1; i <= SLOTS; i++) begin(&t, i, 1);
    uint64_t seen = 0;
    for (bt_attempt *a = NULL; (a = bt_attempts_next(&t, a));) {
        assert_int_equal(a->ref.number, ++seen);
        if (seen != 2) end(&t, a);
    }
    assert_int_equal(seen, SLOTS);
    const bt_attempt *left = bt_attempts_next(&t, NULL);
    assert_int_equal(left->ref.number, 2);
    assert_null(bt_attempts_next(&t, left));
    bt_attempts_free(&t);
}

/* Memory that an action of the step may point into stays until the next step. */
static void keeps_what_is_over_from_being_used_again_until_it_is_cleared(void **state)
{
    (void)state;
    bt_attempts t;
    assert_int_equal(bt_attempts_new(&t, SLOTS, 0), BT_OK);
    bt_attempt *a = begin(&t, 1, 1), *b = begin(&t, 2, 1);
    end(&t, a);
    assert_ptr_not_equal(bt_attempts_unused(&t), a);
    bt_attempts_clear(&t, a);
    assert_int_equal(a->state, BT_ATTEMPT_FREE);
    assert_int_equal(a->slot, BT_NO_SLOT);
    assert_ptr_equal(bt_attempts_unused(&t), a);
    assert_ptr_equal(bt_attempts_next(&t, NULL), b);
    end(&t, b);
    bt_attempts_clear(&t, b);
    assert_int_equal(t.end, 0);
    assert_ptr_equal(begin(&t, 3, 1), a);
    assert_ptr_equal(bt_attempts_next(&t, NULL), a);
    bt_attempts_free(&t);
}

static void an_abort_stops_the_attempt_and_every_lower_one_and_no_higher(void **state)
{
    (void)state;
    bt_attempts t;
    assert_int_equal(bt_attempts_new(&t, SLOTS, 0), BT_OK);
    const bt_request_ref r1 = request(1, 1), r2 = request(1, 2), r3 = request(1, 3), unknown = request(2, 4);
    bt_attempt *a = begin(&t, 1, 2);
    assert_null(bt_attempts_abort(&t, &r1));
    assert_int_equal(a->ref.attempt, 2);
    assert_ptr_equal(bt_attempts_abort(&t, &r2), a);
    assert_ptr_equal(bt_attempts_abort(&t, &r3), a);
    assert_int_equal(a->ref.attempt, 3);
    assert_null(bt_attempts_abort(&t, &unknown));
    assert_int_equal(bt_attempt_log_highest(&t.log, &unknown), 4);
    assert_int_equal(bt_attempt_log_highest(&t.log, &r1), 3);
    bt_attempts_free(&t);
}

static void only_leases_of_wanted_attempts_run(void **state)
{
    (void)state;
    bt_attempts t;
    assert_int_equal(bt_attempts_new(&t, SLOTS, 0), BT_OK);
    bt_attempt *a = begin(&t, 1, 1), *b = begin(&t, 2, 1);
    bt_attempt_renew(a, 1000, 5);
    bt_attempt_renew(b, 1000, 7);
    assert_false(bt_attempt_is_expired(a, 5999));
    assert_true(bt_attempt_is_expired(a, 6000));
    a->state = BT_ATTEMPT_STOPPING;
    assert_true(bt_attempt_is_here(a));
    assert_false(bt_attempt_is_wanted(a));
    assert_false(bt_attempt_is_expired(a, 6000));
    b->state = BT_ATTEMPT_REPORTING;
    assert_true(bt_attempt_is_expired(b, 8000));
    end(&t, b);
    assert_false(bt_attempt_is_here(b));
    assert_false(bt_attempt_is_expired(b, 8000));
    const bt_load load = bt_attempts_load(&t);
    assert_int_equal(load.leases, 1);
    assert_int_equal(load.slots_used, 1);
    bt_attempts_free(&t);
}

static void what_is_due_ripens_and_is_given_once_in_order_of_place(void **state)
{
    (void)state;
    bt_attempts t;
    assert_int_equal(bt_attempts_new(&t, SLOTS, 0), BT_OK);
    assert_int_equal(bt_attempts_due_us(&t), BT_STEP_NEVER);
    bt_attempt *a[SLOTS];
    for (uint32_t i = 0; i < SLOTS; i++) {
        a[i] = begin(&t, i + 1, 1);
        bt_attempts_set_due(&t, a[i], 100 - (int64_t)i);
    }
    assert_int_equal(bt_attempts_due_us(&t), 98);
    bt_attempts_ripen(&t, 97);
    assert_null(bt_attempts_next_ripe(&t));
    bt_attempts_ripen(&t, 99);
    assert_int_equal(bt_attempts_due_us(&t), 100);
    assert_ptr_equal(bt_attempts_next_ripe(&t), a[1]);
    assert_ptr_equal(bt_attempts_next_ripe(&t), a[2]);
    assert_null(bt_attempts_next_ripe(&t));
    bt_attempts_set_due(&t, a[0], BT_STEP_NEVER);
    assert_int_equal(bt_attempts_due_us(&t), BT_STEP_NEVER);
    bt_attempts_free(&t);
}

static void what_is_touched_is_told_once(void **state)
{
    (void)state;
    bt_attempts t;
    assert_int_equal(bt_attempts_new(&t, SLOTS, 0), BT_OK);
    bt_attempt *a = begin(&t, 1, 1);
    assert_null(bt_attempts_touched(&t));
    for (int i = 0; i < 100; i++) bt_attempts_touch(&t, a);
    assert_ptr_equal(bt_attempts_touched(&t), a);
    assert_null(bt_attempts_touched(&t));
    bt_attempts_touch(&t, a);
    assert_ptr_equal(bt_attempts_touched(&t), a);
    bt_attempts_free(&t);
}

/* Against a look at all: many requests with several attempts each come and go. */
static void finds_what_a_look_at_all_finds(void **state)
{
    (void)state;
    bt_attempts t;
    assert_int_equal(bt_attempts_new(&t, 20, 0), BT_OK);
    for (uint32_t i = 0; i < 20000; i++) {
        const uint64_t r = bt_rng_u64(3, i);
        const bt_request_ref ref = {{{(uint8_t)(1 + r % 2)}}, (r >> 8) % 12, 1 + (uint32_t)(r >> 16) % 5};
        bt_attempt *best = NULL, *free_one = NULL;
        uint32_t slot = BT_NO_SLOT, here = 0;
        for (uint32_t k = t.len; k-- > 0;) {
            bt_attempt *a = &t.all[k];
            if (a->state == BT_ATTEMPT_FREE) free_one = a;
            if (!bt_attempt_is_here(a)) continue;
            here++;
            if (bt_request_same(&a->ref, &ref) && (!best || a->ref.attempt > best->ref.attempt)) best = a;
        }
        for (uint32_t k = t.slots; k-- > 0;)
            if (!t.by_slot[k]) slot = k;
        const bt_attempt *found = bt_attempts_find(&t, &ref);
        assert_int_equal(found != NULL, best != NULL);
        if (best) assert_int_equal(found->ref.attempt, best->ref.attempt);
        assert_ptr_equal(bt_attempts_unused(&t), free_one);
        assert_int_equal(bt_attempts_unused_slot(&t), slot);
        assert_int_equal(bt_attempts_load(&t).leases, here);
        bt_attempt *some = &t.all[(r >> 24) % t.len];
        if (r >> 60 < 7 && slot != BT_NO_SLOT && free_one)
            bt_attempts_take(&t, free_one, &ref, slot, AT_WORK);
        else if (r >> 60 < 10 && bt_attempt_is_here(some) && some->slot != BT_NO_SLOT)
            bt_attempts_leave_slot(&t, some);
        else if (bt_attempt_is_here(some)) end(&t, some);
        while (r >> 63 && bt_attempts_over(&t)) bt_attempts_clear(&t, bt_attempts_over(&t));
    }
    bt_attempts_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_lowest_free_slot_and_record_until_there_is_none),
        cmocka_unit_test(has_more_records_than_slots_for_what_is_reported),
        cmocka_unit_test(finds_the_highest_attempt_of_a_request_and_nothing_that_is_over),
        cmocka_unit_test(looks_through_what_is_here_in_order_while_it_ends),
        cmocka_unit_test(keeps_what_is_over_from_being_used_again_until_it_is_cleared),
        cmocka_unit_test(an_abort_stops_the_attempt_and_every_lower_one_and_no_higher),
        cmocka_unit_test(only_leases_of_wanted_attempts_run),
        cmocka_unit_test(what_is_due_ripens_and_is_given_once_in_order_of_place),
        cmocka_unit_test(what_is_touched_is_told_once),
        cmocka_unit_test(finds_what_a_look_at_all_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
