/* Work beside a loop: order in a lane, lanes beside each other, items that are withdrawn, the end. */
#include "rt/aside.h"
#include "base/ring.h"
#include "rt/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { PATIENCE_MS = 60000 };

typedef struct task {
    bt_aside_item item; /* first */
    char name;
    bt_ring *gate;     /* run waits until something comes through; NULL: it does not */
    bt_ring *tell;     /* run says here that it has begun; NULL: it does not */
    struct task *then; /* done adds it; NULL: none */
} task;

static bt_loop *loop;
static bt_aside *aside;
static char ran[64], done_of[64];
static unsigned afters, expected;

static void note(char *text, char c) { text[strlen(text)] = c; }

/* ran is written by threads, one after the other: only tests of one lane look at it. */
static void run(bt_aside_item *item)
{
    task *t = (task *)item;
    char c;
    if (t->tell) assert_true(bt_ring_push(t->tell, &t->name));
    while (t->gate && !bt_ring_pop(t->gate, &c)) assert_true(bt_ring_wait(t->gate, PATIENCE_MS));
    if (item->lane == 0) note(ran, t->name);
}

static void done(bt_aside_item *item)
{
    task *t = (task *)item;
    note(done_of, t->name);
    if (t->then) bt_aside_add(aside, 0, &t->then->item);
    if (strlen(done_of) == expected) bt_loop_stop(loop);
}

static void after(void *ud)
{
    assert_ptr_equal(ud, &afters);
    afters++;
}

static task task_of(char name) { return (task){.item = {.run = run, .done = done}, .name = name}; }

static bt_ring *new_ring(void)
{
    bt_ring *r;
    assert_int_equal(bt_ring_new(&r, 1, 8, NULL), BT_OK);
    return r;
}

static void await(bt_ring *r)
{
    char c;
    while (!bt_ring_pop(r, &c)) assert_true(bt_ring_wait(r, PATIENCE_MS));
}

static int begin(void **s)
{
    (void)s;
    memset(ran, 0, sizeof ran);
    memset(done_of, 0, sizeof done_of);
    afters = 0;
    expected = 0;
    assert_int_equal(bt_loop_new(&loop, NULL), BT_OK);
    return bt_aside_new(&aside, loop, 2, after, &afters, NULL);
}

static int end(void **s)
{
    (void)s;
    bt_aside_free(aside);
    bt_loop_free(loop);
    return 0;
}

static void items_of_a_lane_run_in_the_order_in_which_they_came(void **s)
{
    (void)s;
    task t[8];
    for (int i = 0; i < 8; i++) {
        t[i] = task_of((char)('a' + i));
        bt_aside_add(aside, 0, &t[i].item);
    }
    expected = 8;
    assert_int_equal(bt_loop_run(loop, NULL), BT_OK);
    assert_string_equal(ran, "abcdefgh");
    assert_string_equal(done_of, "abcdefgh");
    assert_int_equal(afters, 8);
}

static void the_loop_and_another_lane_go_on_while_an_item_runs(void **s)
{
    (void)s;
    task long_one = task_of('l'), short_one = task_of('s');
    long_one.gate = new_ring();
    bt_aside_add(aside, 0, &long_one.item);
    bt_aside_add(aside, 1, &short_one.item);
    expected = 1;
    assert_int_equal(bt_loop_run(loop, NULL), BT_OK); /* until the short one is done */
    assert_string_equal(done_of, "s");
    assert_true(bt_ring_push(long_one.gate, "x"));
    expected = 2;
    assert_int_equal(bt_loop_run(loop, NULL), BT_OK);
    assert_string_equal(done_of, "sl");
    bt_ring_free(long_one.gate);
}

static void an_item_that_waits_can_be_withdrawn_and_one_that_runs_cannot(void **s)
{
    (void)s;
    task t[4];
    for (int i = 0; i < 4; i++) t[i] = task_of((char)('a' + i));
    t[0].gate = new_ring();
    t[0].tell = new_ring();
    for (int i = 0; i < 4; i++) bt_aside_add(aside, 0, &t[i].item);
    await(t[0].tell);
    assert_false(bt_aside_withdraw(aside, &t[0].item));
    assert_true(bt_aside_withdraw(aside, &t[3].item));
    assert_true(bt_aside_withdraw(aside, &t[1].item));
    assert_false(bt_aside_withdraw(aside, &t[1].item));
    assert_true(bt_ring_push(t[0].gate, "x"));
    expected = 2;
    assert_int_equal(bt_loop_run(loop, NULL), BT_OK);
    assert_string_equal(ran, "ac");
    assert_string_equal(done_of, "ac");
    bt_ring_free(t[0].gate);
    bt_ring_free(t[0].tell);
}

static void done_may_add_more(void **s)
{
    (void)s;
    task first = task_of('a'), second = task_of('b');
    first.then = &second;
    bt_aside_add(aside, 0, &first.item);
    expected = 2;
    assert_int_equal(bt_loop_run(loop, NULL), BT_OK);
    assert_string_equal(done_of, "ab");
}

static void the_end_waits_for_what_runs_and_leaves_what_waits(void **s)
{
    (void)s;
    task t[2] = {task_of('a'), task_of('b')};
    t[0].gate = new_ring();
    t[0].tell = new_ring();
    for (int i = 0; i < 2; i++) bt_aside_add(aside, 0, &t[i].item);
    await(t[0].tell);
    assert_true(bt_ring_push(t[0].gate, "x"));
    bt_aside_free(aside);
    aside = NULL;
    assert_string_equal(ran, "a");
    assert_string_equal(done_of, "a");
    bt_ring_free(t[0].gate);
    bt_ring_free(t[0].tell);
}

static void the_number_of_lanes_has_limits(void **s)
{
    (void)s;
    bt_aside *none = NULL;
    bt_fault f;
    assert_int_equal(bt_aside_new(&none, loop, 0, NULL, NULL, &f), BT_EARG);
    assert_int_equal(bt_aside_new(&none, loop, BT_ASIDE_MAX_LANES + 1, NULL, NULL, &f), BT_EARG);
    assert_string_equal(f.text, "5 lanes of work beside a loop; 1 to 4 are allowed");
    assert_null(none);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(items_of_a_lane_run_in_the_order_in_which_they_came),
        T(the_loop_and_another_lane_go_on_while_an_item_runs),
        T(an_item_that_waits_can_be_withdrawn_and_one_that_runs_cannot),
        T(done_may_add_more),
        T(the_end_waits_for_what_runs_and_leaves_what_waits),
        T(the_number_of_lanes_has_limits),
    };
    return cmocka_run_group_tests_name("aside", tests, NULL, NULL);
}
