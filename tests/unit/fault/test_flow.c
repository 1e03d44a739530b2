/* One direction of the fault proxy: without faults its bytes are the same; with them, each fate does what it
 * says and no more, and the same seed does the same. */
#include "tests/fault/flow.h"
#include "base/num.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MESSAGES = 4000, BODY = 8, FRAME = 2 + BODY };

static const uint8_t greeting[ZMTP_GREETING_BYTES] = {0xff, [8] = 1, 0x7f, 3, 1, 'N', 'U', 'L', 'L'};

typedef struct outcome {
    uint32_t met[MESSAGES], order[2 * MESSAGES], count, corrupted;
    size_t bytes;
} outcome;

static void note(outcome *o, const uint8_t *bytes, size_t len)
{
    assert_int_equal(len % FRAME, 0);
    o->bytes += len;
    for (size_t at = 0; at < len; at += FRAME) {
        assert_int_equal(bytes[at], 0);
        assert_int_equal(bytes[at + 1], BODY);
        const uint32_t n = bt_get32(bytes + at + 2);
        if (n >= MESSAGES || bt_get32(bytes + at + 6) != ~n) {
            o->corrupted++;
            continue;
        }
        o->met[n]++;
        o->order[o->count++] = n;
    }
}

/* MESSAGES numbered messages, one a millisecond; what comes out, and when the last of it. */
static int64_t pass_all(outcome *o, flow *f)
{
    int64_t now = 1000;
    size_t len;
    memset(o, 0, sizeof *o);
    assert_int_equal(flow_take(f, greeting, sizeof greeting, now), BT_OK);
    assert_memory_equal(flow_peek(f, &len, now), greeting, sizeof greeting);
    flow_wrote(f, len);
    for (uint32_t n = 0; n < MESSAGES; n++, now++) {
        uint8_t frame[FRAME] = {0, BODY};
        bt_put32(frame + 2, n);
        bt_put32(frame + 6, ~n);
        assert_int_equal(flow_take(f, frame, sizeof frame, now), BT_OK);
        for (const uint8_t *p; (p = flow_peek(f, &len, now)) && len; flow_wrote(f, len)) note(o, p, len);
    }
    while (!flow_is_empty(f)) {
        const int64_t due = flow_due_ms(f, now);
        assert_true(due >= 0);
        if (due > now) now = due;
        for (const uint8_t *p; (p = flow_peek(f, &len, now)) && len; flow_wrote(f, len)) note(o, p, len);
    }
    return now;
}

static void without_faults_everything_comes_once_and_in_order(void **state)
{
    static outcome o;
    flow_stats stats = {0};
    flow f;
    (void)state;
    flow_init(&f, 1, false, &stats);
    assert_int_equal(pass_all(&o, &f), 1000 + MESSAGES);
    assert_int_equal(o.count, MESSAGES);
    for (uint32_t n = 0; n < MESSAGES; n++) assert_int_equal(o.order[n], n);
    assert_int_equal(stats.messages, MESSAGES);
    assert_int_equal(stats.bytes, ZMTP_GREETING_BYTES + MESSAGES * FRAME);
    assert_int_equal(flow_due_ms(&f, 0), -1);
    flow_done(&f);
}

static void each_fate_does_what_it_says_as_often_as_it_says(void **state)
{
    static outcome o, again;
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        const script s = {.seed = seed,   .delay = .01,   .drop = .02,   .repeat = .03,
                          .reorder = .04, .corrupt = .05, .delay_ms = 50};
        flow_stats stats = {0}, same = {0};
        flow f;
        flow_init(&f, 7, false, &stats);
        flow_set_script(&f, &s);
        const int64_t over = pass_all(&o, &f);
        flow_done(&f);
        uint64_t lost = 0, twice = 0, overtaken = 0;
        for (uint32_t n = 0; n < MESSAGES; n++) {
            assert_true(o.met[n] <= 2);
            lost += o.met[n] == 0;
            twice += o.met[n] == 2;
        }
        for (uint32_t i = 1; i < o.count; i++) overtaken += o.order[i] < o.order[i - 1];
        assert_int_equal(o.corrupted, stats.fates[FATE_CORRUPT]);
        assert_int_equal(lost, stats.fates[FATE_DROP] + stats.fates[FATE_CORRUPT]);
        assert_int_equal(twice, stats.fates[FATE_REPEAT]);
        assert_true(overtaken >= stats.fates[FATE_REORDER] / 2);
        assert_true(over < 1000 + MESSAGES + 200);
        static const double shares[] = {.85, .01, .02, .03, .04, .05};
        for (int k = 0; k < FATE_KINDS; k++) {
            const double want = shares[k] * MESSAGES; /* 5 standard deviations */
            assert_true((double)stats.fates[k] > want - 5 * 12.7 - 2 * want / 10 &&
                        (double)stats.fates[k] < want + 5 * 12.7 + 2 * want / 10);
        }
        flow_init(&f, 7, false, &same);
        flow_set_script(&f, &s);
        pass_all(&again, &f);
        flow_done(&f);
        assert_memory_equal(&again, &o, sizeof o);
        assert_memory_equal(&same, &stats, sizeof stats);
    }
}

static void a_delay_holds_what_is_behind_it(void **state)
{
    const script s = {.seed = 3, .delay = 1, .delay_ms = 40};
    static outcome o;
    flow_stats stats = {0};
    flow f;
    (void)state;
    flow_init(&f, 1, false, &stats);
    flow_set_script(&f, &s);
    assert_true(pass_all(&o, &f) > 1000 + MESSAGES);
    for (uint32_t n = 0; n < MESSAGES; n++) assert_int_equal(o.order[n], n);
    flow_done(&f);
}

static void a_message_that_nobody_overtakes_comes_all_the_same(void **state)
{
    const script s = {.seed = 3, .reorder = 1};
    const uint8_t message[] = {0, 3, 'a', 'b', 'c'};
    flow_stats stats = {0};
    flow f;
    size_t len;
    (void)state;
    flow_init(&f, 1, false, &stats);
    flow_set_script(&f, &s);
    assert_int_equal(flow_take(&f, greeting, sizeof greeting, 5), BT_OK);
    (void)flow_peek(&f, &len, 5);
    flow_wrote(&f, len);
    assert_int_equal(flow_take(&f, message, sizeof message, 5), BT_OK);
    assert_null(flow_peek(&f, &len, 5));
    assert_false(flow_is_empty(&f));
    assert_int_equal(flow_due_ms(&f, 5), 5 + FLOW_LATE_MS);
    assert_memory_equal(flow_peek(&f, &len, 5 + FLOW_LATE_MS), message, sizeof message);
    flow_wrote(&f, len);
    assert_int_equal(flow_take(&f, message, sizeof message, 200), BT_OK);
    flow_flush(&f, 200); /* the end of the connection waits for nothing */
    assert_non_null(flow_peek(&f, &len, 200));
    flow_wrote(&f, len);
    assert_true(flow_is_empty(&f));
    flow_done(&f);
}

static void bytes_are_delayed_and_corrupted_and_nothing_else(void **state)
{
    const script s = {.seed = 9,     .delay = .2,   .drop = .2,   .repeat = .2,
                      .reorder = .2, .corrupt = .2, .delay_ms = 5};
    flow_stats stats = {0};
    flow f;
    size_t at = 0, changed = 0;
    int64_t now = 0;
    (void)state;
    flow_init(&f, 1, true, &stats);
    flow_set_script(&f, &s);
    for (int i = 0; i < 500; i++) {
        uint8_t piece[16];
        for (size_t k = 0; k < sizeof piece; k++) piece[k] = (uint8_t)((size_t)i * sizeof piece + k);
        assert_int_equal(flow_take(&f, piece, sizeof piece, ++now), BT_OK);
    }
    while (!flow_is_empty(&f)) {
        size_t len;
        now = flow_due_ms(&f, now);
        for (const uint8_t *p; (p = flow_peek(&f, &len, now)) && len; flow_wrote(&f, len))
            for (size_t k = 0; k < len; k++) changed += p[k] != (uint8_t)at++;
    }
    assert_int_equal(at, 500 * 16);
    assert_int_equal(changed, stats.fates[FATE_CORRUPT]);
    assert_true(changed > 50 && stats.fates[FATE_DROP] == 0 && stats.fates[FATE_REPEAT] == 0 &&
                stats.fates[FATE_REORDER] == 0);
    flow_done(&f);
}

static void a_slow_flow_keeps_its_rate(void **state)
{
    static uint8_t bytes[40000];
    flow_stats stats = {0};
    flow f;
    size_t len, sum = 0;
    int64_t now = 0;
    (void)state;
    flow_init(&f, 1, true, &stats);
    flow_set_rate(&f, 10000, 0);
    assert_int_equal(flow_take(&f, bytes, sizeof bytes, 0), BT_OK);
    while (!flow_is_empty(&f)) {
        const int64_t due = flow_due_ms(&f, now);
        assert_true(due >= 0 && due < now + 1000);
        now = due > now ? due : now + 1;
        if (!flow_peek(&f, &len, now)) continue;
        flow_wrote(&f, len);
        sum += len;
        assert_true(sum <= 10000 * (size_t)now / 1000 + 10000 / 20 + 1);
    }
    assert_in_range(now, 3900, 4400);
    flow_done(&f);
}

static void a_full_flow_asks_for_no_more(void **state)
{
    static uint8_t bytes[FLOW_ROOM_BYTES];
    flow_stats stats = {0};
    flow f;
    size_t len;
    (void)state;
    flow_init(&f, 1, true, &stats);
    assert_true(flow_has_room(&f));
    assert_int_equal(flow_take(&f, bytes, sizeof bytes, 0), BT_OK);
    assert_false(flow_has_room(&f));
    (void)flow_peek(&f, &len, 0);
    flow_wrote(&f, 1);
    assert_true(flow_has_room(&f));
    flow_done(&f);
}

static void a_cut_leaves_a_part_of_one_message_and_nothing_after_it(void **state)
{
    const uint8_t message[] = {0, 6, 'a', 'b', 'c', 'd', 'e', 'f'};
    (void)state;
    for (uint64_t stream = 0; stream < 50; stream++) {
        flow_stats stats = {0};
        flow f;
        size_t len;
        flow_init(&f, stream, false, &stats);
        flow_cut_next(&f);
        assert_int_equal(flow_take(&f, greeting, sizeof greeting, 0), BT_OK);
        assert_non_null(flow_peek(&f, &len, 0));
        assert_int_equal(len, sizeof greeting);
        flow_wrote(&f, len);
        assert_false(flow_is_cut(&f));
        assert_int_equal(flow_take(&f, message, sizeof message, 0), BT_OK);
        assert_int_equal(flow_take(&f, message, sizeof message, 0), BT_OK);
        const uint8_t *p = flow_peek(&f, &len, 0);
        assert_true(len < sizeof message);
        if (len) assert_memory_equal(p, message, len);
        if (len) flow_wrote(&f, len);
        assert_true(flow_is_cut(&f));
        assert_null(flow_peek(&f, &len, 0));
        flow_done(&f);
    }
}

static void connections_live_as_long_as_the_mean_says(void **state)
{
    const script s = {.seed = 4, .cut_ms = 10000}, none = {.seed = 4};
    double sum = 0;
    (void)state;
    for (uint64_t c = 0; c < 2000; c++) {
        assert_int_equal(script_life_ms(&none, c), -1);
        const int64_t life = script_life_ms(&s, c);
        assert_true(life >= 1);
        sum += (double)life;
    }
    assert_in_range((uint64_t)(sum / 2000), 9000, 11000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_faults_everything_comes_once_and_in_order),
        cmocka_unit_test(each_fate_does_what_it_says_as_often_as_it_says),
        cmocka_unit_test(a_delay_holds_what_is_behind_it),
        cmocka_unit_test(a_message_that_nobody_overtakes_comes_all_the_same),
        cmocka_unit_test(bytes_are_delayed_and_corrupted_and_nothing_else),
        cmocka_unit_test(a_slow_flow_keeps_its_rate),
        cmocka_unit_test(a_full_flow_asks_for_no_more),
        cmocka_unit_test(a_cut_leaves_a_part_of_one_message_and_nothing_after_it),
        cmocka_unit_test(connections_live_as_long_as_the_mean_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
