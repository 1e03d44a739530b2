/* Every part runs exactly once, results are visible after the call, and slices tile their range. */
#include "base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#define ROUNDS 3000

typedef struct work {
    size_t calls[16];
    size_t parts;
    size_t round;
} work;

static void note_part(void *ud, size_t part, size_t parts)
{
    work *w = ud;
    w->calls[part] += w->round; /* plain memory: the pool must order it */
    if (part == parts - 1) w->parts = parts;
}

static void runs_each_part_once_a_call(void **s)
{
    (void)s;
    for (size_t n = 1; n <= 5; n++) {
        bt_pool *p = NULL;
        assert_int_equal(bt_pool_new(&p, n, NULL), BT_OK);
        assert_int_equal(bt_pool_threads(p), n);
        work w = {.calls = {0}};
        size_t want = 0;
        for (w.round = 1; w.round <= ROUNDS; w.round++) {
            want += w.round;
            bt_pool_run(p, note_part, &w);
            for (size_t i = 0; i < n; i++) assert_int_equal(w.calls[i], want);
        }
        assert_int_equal(w.parts, n);
        bt_pool_free(p);
    }
}

static void wait_a_while(void *ud, size_t part, size_t parts)
{
    (void)parts;
    volatile size_t *x = ud;
    if (part == 1)
        for (size_t i = 0; i < 3000000; i++) x[part]++;
    else x[part]++;
}

/* Parts longer than the spin time make the caller sleep, and pauses make the threads sleep. */
static void sleeps_and_wakes_on_both_sides(void **s)
{
    (void)s;
    bt_pool *p = NULL;
    assert_int_equal(bt_pool_new(&p, 3, NULL), BT_OK);
    size_t x[3] = {0};
    for (int i = 0; i < 5; i++) {
        bt_pool_run(p, wait_a_while, x);
        wait_a_while((size_t[2]){0}, 1, 1);
    }
    assert_int_equal(x[0], 5);
    assert_int_equal(x[1], 15000000);
    assert_int_equal(x[2], 5);
    bt_pool_free(p);
}

static void note_core(void *ud, size_t part, size_t parts)
{
    (void)parts;
    ((int *)ud)[part] = sched_getcpu();
}

/* Whatever the scheduler does with threads that wake each other. */
static void parts_run_on_cores_of_their_own(void **s)
{
    (void)s;
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) < 0 || CPU_COUNT(&cores) < 2) skip();
    bt_pool *p = NULL;
    assert_int_equal(bt_pool_new(&p, 2, NULL), BT_OK);
    int apart = 0;
    for (int i = 0; i < 1000 && apart < 10; i++) {
        int core[2] = {-1, -1};
        wait_a_while((size_t[2]){0}, 1, 1); /* the thread sleeps meanwhile */
        bt_pool_run(p, note_core, core);
        apart += core[0] != core[1];
    }
    assert_int_equal(apart, 10);
    bt_pool_free(p);
}

static void no_pool_runs_on_the_caller(void **s)
{
    (void)s;
    work w = {.round = 1};
    bt_pool_run(NULL, note_part, &w);
    assert_int_equal(w.calls[0], 1);
    assert_int_equal(w.parts, 1);
    assert_int_equal(bt_pool_threads(NULL), 1);
    bt_pool_free(NULL);
}

static void zero_means_the_cores_of_this_process(void **s)
{
    (void)s;
    bt_pool *p = NULL;
    assert_int_equal(bt_pool_new(&p, 0, NULL), BT_OK);
    assert_in_range(bt_pool_threads(p), 1, 256);
    bt_pool_free(p);
}

static void refuses_more_than_256_threads(void **s)
{
    (void)s;
    bt_pool *p = NULL;
    assert_int_equal(bt_pool_new(&p, 257, NULL), BT_EARG);
    assert_null(p);
}

static void read_mask(void *ud, size_t part, size_t parts)
{
    (void)parts;
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    ((int *)ud)[part] = sigismember(&set, SIGTERM);
}

static void pool_threads_leave_signals_to_the_others(void **s)
{
    (void)s;
    bt_pool *p = NULL;
    assert_int_equal(bt_pool_new(&p, 2, NULL), BT_OK);
    int blocked[2] = {-1, -1};
    bt_pool_run(p, read_mask, blocked);
    assert_int_equal(blocked[0], 0);
    assert_int_equal(blocked[1], 1);
    bt_pool_free(p);
}

static void slices_tile_the_range_in_whole_grains(void **s)
{
    (void)s;
    for (size_t count = 0; count < 70; count++)
        for (size_t grain = 1; grain < 20; grain += 3)
            for (size_t parts = 1; parts < 9; parts++) {
                size_t at = 0, widest = 0, narrowest = (size_t)-1;
                for (size_t part = 0; part < parts; part++) {
                    size_t b = 99, e = 99;
                    bt_pool_slice(&b, &e, count, grain, part, parts);
                    assert_int_equal(b, at);
                    assert_true(e >= b && e <= count);
                    assert_true(b % grain == 0 || b == count);
                    const size_t units = (e - b + grain - 1) / grain;
                    if (units > widest) widest = units;
                    if (units < narrowest) narrowest = units;
                    at = e;
                }
                assert_int_equal(at, count);
                assert_true(widest - narrowest <= 1);
            }
}

typedef struct taken {
    bt_pool_range range;
    _Atomic unsigned char times[1000];
} taken;

static void take_all(void *ud, size_t part, size_t parts)
{
    taken *t = ud;
    size_t b, e;
    (void)part, (void)parts;
    while (bt_pool_range_take(&t->range, &b, &e)) {
        assert_true(b < e && e <= t->range.count && e - b <= t->range.grain);
        for (size_t i = b; i < e; i++) t->times[i]++;
    }
}

static void a_range_gives_each_item_to_one_part(void **s)
{
    (void)s;
    bt_pool *p;
    bt_fault fault;
    taken t;
    assert_int_equal(bt_pool_new(&p, 3, &fault), BT_OK);
    for (size_t count = 0; count <= 1000; count += 37)
        for (size_t grain = 0; grain < 50; grain += 7) {
            for (size_t i = 0; i < 1000; i++) t.times[i] = 0;
            bt_pool_range_init(&t.range, count, grain);
            bt_pool_run(p, take_all, &t);
            for (size_t i = 0; i < 1000; i++) assert_int_equal(t.times[i], i < count);
        }
    bt_pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_each_part_once_a_call),
        cmocka_unit_test(sleeps_and_wakes_on_both_sides),
        cmocka_unit_test(parts_run_on_cores_of_their_own),
        cmocka_unit_test(no_pool_runs_on_the_caller),
        cmocka_unit_test(zero_means_the_cores_of_this_process),
        cmocka_unit_test(refuses_more_than_256_threads),
        cmocka_unit_test(pool_threads_leave_signals_to_the_others),
        cmocka_unit_test(slices_tile_the_range_in_whole_grains),
        cmocka_unit_test(a_range_gives_each_item_to_one_part),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
