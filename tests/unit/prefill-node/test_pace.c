/* The events of a worker, and the time when the brain hears of them, on a device of round numbers at twice
 * its time. */
#include "prefill-node/pace.h"
#include "tests/helpers/brain/toy_price.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { SLOT = 3, ROWS = 100, NS = 3280000, BEGIN = 5000, END = BEGIN + 2 * 3280 };

typedef struct room {
    bt_profile profile;
    bt_work_prefill d;
    pf_pace *pace;
} room;

static room *open_room(void)
{
    static room r;
    r.d = toy_device(&r.profile);
    assert_int_equal(pf_pace_new(&r.pace, (bt_pace){.milli = 2000}, &r.d, NULL), BT_OK);
    pf_pace_begin(r.pace, SLOT, &(bt_work_prompt){.end = ROWS}, NS, BEGIN);
    return &r;
}

static void rows(room *r, uint32_t layer, uint32_t begin, uint32_t count)
{
    const pf_worker_event ev = {.type = PF_WORKER_KV_READY, .slot = SLOT, .layer = layer,
                                .token_begin = begin, .token_count = count};
    pf_pace_take(r->pace, &ev);
}
static void say(room *r, pf_worker_event_type type)
{
    const pf_worker_event ev = {.type = type, .slot = SLOT, .token = 42};
    pf_pace_take(r->pace, &ev);
}

static bt_pace_count late;
static pf_worker_event expect(room *r, pf_worker_event_type type, int64_t now_us)
{
    pf_worker_event ev;
    if (!pf_pace_next(r->pace, &ev, &late, now_us)) fail_msg("nothing at %lld", (long long)now_us);
    assert_int_equal(ev.type, type);
    assert_int_equal(ev.slot, SLOT);
    return ev;
}
static void expect_rows(room *r, uint32_t layer, uint32_t begin, uint32_t count, int64_t now_us)
{
    const pf_worker_event ev = expect(r, PF_WORKER_KV_READY, now_us);
    assert_int_equal(ev.layer, layer);
    assert_int_equal(ev.token_begin, begin);
    assert_int_equal(ev.token_count, count);
}
static void expect_nothing(room *r, int64_t now_us, int64_t due_us)
{
    pf_worker_event ev;
    assert_false(pf_pace_next(r->pace, &ev, &late, now_us));
    assert_int_equal(pf_pace_due_us(r->pace, now_us), due_us);
}

static void a_fast_host_is_let_go_at_the_device_s_times(void **state)
{
    (void)state;
    room *r = open_room();
    expect_nothing(r, BEGIN, INT64_MAX);
    assert_true(pf_pace_is_under_way(r->pace, BEGIN));
    rows(r, 0, 0, 64);
    rows(r, 1, 0, 64);
    rows(r, 0, 64, 36); /* both chunks of layer 0 as one number */
    rows(r, 1, 64, 36);
    say(r, PF_WORKER_COMPUTED);
    say(r, PF_WORKER_DIGEST);
    expect_nothing(r, BEGIN + 1, BEGIN + 1700);
    expect_rows(r, 0, 0, 64, BEGIN + 1700);
    expect_nothing(r, BEGIN + 1700, BEGIN + 3300);
    expect_rows(r, 1, 0, 64, BEGIN + 3300);
    expect_nothing(r, BEGIN + 3300, BEGIN + 4900);
    expect_rows(r, 0, 64, 36, BEGIN + 4900);
    expect_rows(r, 1, 64, 36, BEGIN + 6500);
    expect_nothing(r, END - 1, END);
    assert_true(pf_pace_is_under_way(r->pace, END - 1));
    assert_false(pf_pace_is_under_way(r->pace, END)); /* from now on the host is late */
    assert_int_equal(expect(r, PF_WORKER_COMPUTED, END).token, 42);
    assert_int_equal(late.paced_us, 2 * 3280);
    assert_int_equal(late.late_us, 0);
    expect(r, PF_WORKER_DIGEST, END);
    expect_nothing(r, END, INT64_MAX);
    pf_pace_free(r->pace);
}

static void a_slow_host_is_late_and_keeps_nothing_back(void **state)
{
    (void)state;
    room *r = open_room();
    rows(r, 0, 0, 64);
    expect_rows(r, 0, 0, 64, END + 100);
    rows(r, 0, 64, 36);
    rows(r, 1, 0, 100);
    say(r, PF_WORKER_COMPUTED);
    assert_int_equal(pf_pace_due_us(r->pace, END + 500), END + 500);
    expect_rows(r, 0, 64, 36, END + 500);
    expect_rows(r, 1, 0, 100, END + 500);
    expect(r, PF_WORKER_COMPUTED, END + 500);
    assert_int_equal(late.late_us, 500);
    expect_nothing(r, END + 500, INT64_MAX);
    say(r, PF_WORKER_DIGEST);
    expect(r, PF_WORKER_DIGEST, END + 700);
    assert_int_equal(late.late_us, 200); /* the next prompt could have begun */
    assert_int_equal(late.paced_us, 0);
    pf_pace_free(r->pace);
}

static void edges_of_rows_are_those_of_blocks(void **state)
{
    (void)state;
    room *r = open_room();
    pf_pace_begin(r->pace, SLOT, &(bt_work_prompt){.first = 8, .end = ROWS}, NS, BEGIN);
    rows(r, 0, 8, 92);
    /* the first chunk's 64 rows from 8 on end at 72; 64 is the edge below */
    expect_rows(r, 0, 8, 56, BEGIN + 1700);
    expect_rows(r, 0, 64, 36, END);
    pf_pace_free(r->pace);
}

static void what_ends_early_ends_at_once(void **state)
{
    (void)state;
    static const pf_worker_event_type ends[] = {PF_WORKER_FAILED, PF_WORKER_STOPPED};
    for (size_t i = 0; i < 2; i++) {
        room *r = open_room();
        rows(r, 0, 0, 64);
        say(r, ends[i]);
        assert_int_equal(pf_pace_due_us(r->pace, BEGIN), BEGIN);
        expect_rows(r, 0, 0, 64, BEGIN);
        expect(r, ends[i], BEGIN);
        assert_int_equal(late.late_us, 0);
        expect_nothing(r, BEGIN, INT64_MAX);
        pf_pace_free(r->pace);
    }
    /* cancelled when the host had done all of it: the end that was kept back comes now */
    room *r = open_room();
    rows(r, 0, 0, 100);
    rows(r, 1, 0, 100);
    say(r, PF_WORKER_COMPUTED);
    say(r, PF_WORKER_DIGEST);
    expect_nothing(r, BEGIN, BEGIN + 1700);
    pf_pace_cancel(r->pace, SLOT + 1); /* another slot's */
    expect_nothing(r, BEGIN, BEGIN + 1700);
    pf_pace_cancel(r->pace, SLOT);
    expect_rows(r, 0, 0, 100, BEGIN);
    expect_rows(r, 1, 0, 100, BEGIN);
    expect(r, PF_WORKER_COMPUTED, BEGIN);
    assert_int_equal(late.paced_us, 0);
    expect(r, PF_WORKER_DIGEST, BEGIN);
    expect_nothing(r, BEGIN, INT64_MAX);
    pf_pace_free(r->pace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fast_host_is_let_go_at_the_device_s_times),
        cmocka_unit_test(a_slow_host_is_late_and_keeps_nothing_back),
        cmocka_unit_test(edges_of_rows_are_those_of_blocks),
        cmocka_unit_test(what_ends_early_ends_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
