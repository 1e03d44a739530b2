/* Order, bounds and wakes of the queue, alone and between two threads. */
#include "base/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>

static bool readable(bt_ring *r)
{
    struct pollfd p = {.fd = bt_ring_fd(r), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void keeps_order_and_refuses_when_full(void **s)
{
    (void)s;
    bt_ring *r = NULL;
    assert_int_equal(bt_ring_new(&r, sizeof(int), 3, NULL), BT_OK);
    int next = 0, want = 0, got;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 3; i++, next++) assert_true(bt_ring_push(r, &next));
        assert_false(bt_ring_push(r, &next));
        for (int i = 0; i < 3; i++, want++) {
            assert_true(bt_ring_pop(r, &got));
            assert_int_equal(got, want);
        }
        assert_false(bt_ring_pop(r, &got));
    }
    bt_ring_free(r);
}

static void is_readable_while_there_is_an_element_and_quiet_after(void **s)
{
    (void)s;
    bt_ring *r = NULL;
    char c = 'x';
    assert_int_equal(bt_ring_new(&r, 1, 8, NULL), BT_OK);
    assert_false(readable(r));
    assert_false(bt_ring_wait(r, 0));
    assert_true(bt_ring_push(r, &c));
    assert_true(bt_ring_push(r, &c));
    assert_true(bt_ring_pop(r, &c));
    assert_true(readable(r));
    assert_true(bt_ring_wait(r, 0));
    assert_true(bt_ring_pop(r, &c));
    assert_false(bt_ring_pop(r, &c));
    assert_false(readable(r));
    bt_ring_free(r);
}

static void wakes_once_for_all_that_were_added_before(void **s)
{
    (void)s;
    bt_ring *r = NULL;
    char c = 'a', got;
    assert_int_equal(bt_ring_new(&r, 1, 2, NULL), BT_OK);
    assert_true(bt_ring_add(r, &c));
    c = 'b';
    assert_true(bt_ring_add(r, &c));
    assert_false(bt_ring_add(r, &c));
    assert_false(readable(r));
    bt_ring_wake(r);
    assert_true(readable(r));
    assert_true(bt_ring_pop(r, &got));
    assert_int_equal(got, 'a');
    assert_true(bt_ring_pop(r, &got));
    assert_int_equal(got, 'b');
    assert_false(bt_ring_pop(r, &got));
    assert_false(readable(r));
    assert_true(bt_ring_add(r, &c)); /* and one who looks finds what nobody was woken for */
    assert_true(bt_ring_pop(r, &got));
    bt_ring_free(r);
}

static void refuses_sizes_out_of_range(void **s)
{
    (void)s;
    bt_ring *r = NULL;
    assert_int_equal(bt_ring_new(&r, 0, 1, NULL), BT_EARG);
    assert_int_equal(bt_ring_new(&r, 1, 0, NULL), BT_EARG);
    assert_int_equal(bt_ring_new(&r, 1, (1u << 20) + 1, NULL), BT_EARG);
    assert_null(r);
    bt_ring_free(NULL);
}

enum { COUNT = 20000 };

static void *produce(void *ud)
{
    static int values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        values[i] = i; /* plain memory behind the pointer: the push must order it */
        const int *p = &values[i];
        while (!bt_ring_push(ud, &p)) {
            struct pollfd nothing;
            poll(&nothing, 0, 0);
        }
    }
    return NULL;
}

static void nothing_is_lost_between_two_threads(void **s)
{
    (void)s;
    bt_ring *r = NULL;
    pthread_t t;
    assert_int_equal(bt_ring_new(&r, sizeof(int *), 16, NULL), BT_OK);
    assert_int_equal(pthread_create(&t, NULL, produce, r), 0);
    for (int want = 0; want < COUNT;) {
        assert_true(bt_ring_wait(r, 10000));
        for (const int *p; bt_ring_pop(r, &p); want++) assert_int_equal(*p, want);
    }
    pthread_join(t, NULL);
    bt_ring_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order_and_refuses_when_full),
        cmocka_unit_test(is_readable_while_there_is_an_element_and_quiet_after),
        cmocka_unit_test(wakes_once_for_all_that_were_added_before),
        cmocka_unit_test(refuses_sizes_out_of_range),
        cmocka_unit_test(nothing_is_lost_between_two_threads),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
