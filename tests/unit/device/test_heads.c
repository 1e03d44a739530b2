/* The plan of heads beside every order and every cut into launches, beside no plan at all, and beside the
 * times that shadowAttn published. */
#include "device/heads.h"
#include "base/clock.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { FEW = 5, CASES = 300 };

static uint64_t below(uint64_t seed, uint64_t *draws, uint64_t n) { return bt_rng_u64(seed, (*draws)++) % n; }

static uint32_t draw(bt_heads_times *head, bt_heads_work *w, uint64_t seed, uint32_t most_heads)
{
    uint64_t rng = 0;
    const uint32_t n = 1 + (uint32_t)below(seed, &rng, most_heads);
    for (uint32_t i = 0; i < n; i++)
        head[i] = (bt_heads_times){below(seed, &rng, 1000), below(seed, &rng, 500), below(seed, &rng, 1000)};
    *w = (bt_heads_work){.head = head, .heads = n,
                         .launch_ns = below(seed, &rng, 3) ? below(seed, &rng, 1500) : 0,
                         .most = 1 + (uint32_t)below(seed, &rng, 4),
                         .attends = below(seed, &rng, 2) ? BT_SCHEDULE_COMPANION : BT_SCHEDULE_NPU};
    return n;
}

/* Every cut of an order into launches. */
static uint64_t best_cut(bt_heads_plan *p, const bt_heads_work *w, uint32_t at)
{
    uint64_t best = UINT64_MAX;
    if (at == w->heads) {
        bt_heads_play(p, w);
        return p->ns;
    }
    for (uint32_t n = 1; n <= w->most && at + n <= w->heads; n++) {
        p->launch[p->launches++] = (uint8_t)n;
        const uint64_t ns = best_cut(p, w, at + n);
        p->launches--;
        if (ns < best) best = ns;
    }
    return best;
}

/* Every order, too. */
static uint64_t best_of_all(bt_heads_plan *p, const bt_heads_work *w, uint32_t placed)
{
    uint64_t best = UINT64_MAX;
    if (placed == w->heads) {
        p->launches = 0;
        return best_cut(p, w, 0);
    }
    for (uint32_t i = placed; i < w->heads; i++) {
        const uint16_t was = p->order[placed];
        p->order[placed] = p->order[i], p->order[i] = was;
        const uint64_t ns = best_of_all(p, w, placed + 1);
        p->order[i] = p->order[placed], p->order[placed] = was;
        if (ns < best) best = ns;
    }
    return best;
}

static void is_close_to_the_best_of_all_orders_and_launches(void **state)
{
    (void)state;
    uint32_t equal = 0;
    double worst = 1, sum = 0;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        bt_heads_times head[FEW];
        bt_heads_work w;
        bt_heads_plan p, all = {.heads = 0};
        const uint32_t n = draw(head, &w, seed, FEW);
        assert_int_equal(bt_heads_make(&p, &w, NULL), BT_OK);
        for (uint32_t i = 0; i < n; i++) all.order[i] = (uint16_t)i;
        const uint64_t best = best_of_all(&all, &w, 0);
        const double by = best ? (double)p.ns / (double)best : 1;
        assert_true(p.ns >= best);
        equal += p.ns == best;
        sum += by;
        if (by > worst) worst = by;
        if (!w.launch_ns && w.most == 1 && w.attends == BT_SCHEDULE_COMPANION) assert_int_equal(p.ns, best);
    }
    print_message("%u of %d plans are the best there is; the worst takes %.3f of it, the mean %.4f\n", equal,
                  CASES, worst, sum / CASES);
    assert_true(equal > CASES * 6 / 10 && worst < 1.35 && sum / CASES < 1.03);
}

/* An audit of the times, from the order and the launches alone: no head goes on before its launch has ended,
 * no engine does two things at a time, and none idles beside work that is ready. */
static void audit(const bt_heads_plan *p, const bt_heads_work *w)
{
    uint64_t launched[BT_HEADS_MAX], busy[2] = {0, 0}, npu = 0, ready = 0;
    bool has[BT_HEADS_MAX] = {false};
    uint32_t i = 0;
    for (uint32_t l = 0; l < p->launches; l++) {
        assert_in_range(p->launch[l], 1, w->most);
        npu += w->launch_ns;
        for (uint32_t k = i; k < i + p->launch[l]; k++) npu += w->head[p->order[k]].estimate_ns;
        for (const uint32_t end = i + p->launch[l]; i < end; i++) launched[i] = npu;
    }
    assert_int_equal(i, w->heads);
    busy[BT_SCHEDULE_NPU] = npu;
    for (i = 0; i < w->heads; i++) {
        const bt_heads_times *t = &w->head[p->order[i]];
        assert_false(has[p->order[i]]);
        has[p->order[i]] = true;
        busy[BT_SCHEDULE_COMPANION] += t->choose_ns;
        busy[w->attends] += t->attend_ns;
        ready = (ready > launched[i] ? ready : launched[i]) + t->choose_ns + t->attend_ns;
    }
    for (int k = 0; k < 2; k++) {
        assert_int_equal(p->busy_ns[k], busy[k]);
        assert_true(p->ns >= busy[k]);
    }
    assert_int_equal(p->serial_ns, busy[0] + busy[1]);
    assert_true(p->ns <= p->serial_ns);
    if (w->attends == BT_SCHEDULE_COMPANION) assert_int_equal(p->ns, ready);
}

static void keeps_the_engines_apart_and_is_never_slower_than_one_thing_at_a_time(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        static bt_heads_times head[BT_HEADS_MAX];
        bt_heads_work w;
        bt_heads_plan p, again;
        draw(head, &w, seed + CASES, BT_HEADS_MAX);
        assert_int_equal(bt_heads_make(&p, &w, NULL), BT_OK);
        audit(&p, &w);
        assert_int_equal(bt_heads_make(&again, &w, NULL), BT_OK);
        assert_memory_equal(&p, &again, sizeof p);
    }
}

/* A 0.5B model's layer: fourteen heads, and launches that take longer than an estimate. */
static void hides_the_shorter_side_behind_the_longer_one(void **state)
{
    (void)state;
    bt_heads_times head[14];
    for (int i = 0; i < 14; i++) head[i] = (bt_heads_times){700, 300, 1200 + 50 * (uint64_t)i};
    const bt_heads_work w = {head, 14, 1300, 4, BT_SCHEDULE_COMPANION};
    bt_heads_plan p;
    assert_int_equal(bt_heads_make(&p, &w, NULL), BT_OK);
    print_message("%u launches, the first of %u heads: %llu ns, one engine at a time %llu\n", p.launches,
                  p.launch[0], (unsigned long long)p.ns, (unsigned long long)p.serial_ns);
    /* the companion waits for the first launch, of one head, and then hardly any more */
    assert_int_equal(p.launch[0], 1);
    assert_true(p.ns < 1300 + 2 * 700 + p.busy_ns[BT_SCHEDULE_COMPANION]);
    assert_true(p.ns * 10 < p.serial_ns * 7);
    assert_int_equal(p.order[0], 13);
}

/* Q of 128 x 64 by K of 2,048 x 64 on a Mi 14: 2, 3 and 4 ms for 1, 2 and 4 heads; 1.3 ms a launch and 0.7 a
 * head. */
static void fuses_heads_where_a_launch_costs_more_than_a_head(void **state)
{
    (void)state;
    static const uint64_t published[][2] = {{1, 2000}, {2, 3000}, {4, 4000}};
    bt_heads_times head[12];
    for (int i = 0; i < 12; i++) head[i] = (bt_heads_times){700, 10, 10};
    for (size_t i = 0; i < 3; i++) {
        const bt_heads_work w = {head, (uint32_t)published[i][0], 1300, 4, BT_SCHEDULE_COMPANION};
        bt_heads_plan p;
        assert_int_equal(bt_heads_make(&p, &w, NULL), BT_OK);
        assert_int_equal(p.launches, 1);
        const double by = (double)p.busy_ns[BT_SCHEDULE_NPU] / (double)published[i][1];
        assert_true(by > 0.89 && by < 1.11);
    }
    bt_heads_plan fused, alone;
    bt_heads_work w = {head, 12, 1300, 4, BT_SCHEDULE_COMPANION};
    assert_int_equal(bt_heads_make(&fused, &w, NULL), BT_OK);
    w.most = 1;
    assert_int_equal(bt_heads_make(&alone, &w, NULL), BT_OK);
    assert_int_equal(fused.launches, 3);
    assert_true(fused.ns * 19 < alone.ns * 10);
}

static void takes_less_than_a_millisecond(void **state)
{
    (void)state;
    if (getenv("BATON_RUNNER")) {
        print_message("skipped: what an emulator takes says nothing\n");
        skip();
    }
    static bt_heads_times head[BT_HEADS_MAX];
    uint64_t rng = 0;
    for (size_t i = 0; i < BT_HEADS_MAX; i++)
        head[i] = (bt_heads_times){below(7, &rng, 1000), below(7, &rng, 500), below(7, &rng, 1000)};
    for (uint32_t heads = 32; heads <= BT_HEADS_MAX; heads *= 8) {
        const bt_heads_work w = {head, heads, 300, BT_HEADS_MOST, BT_SCHEDULE_COMPANION};
        int64_t best_us = INT64_MAX; /* of several: others share the machine */
        for (int k = 0; k < 20; k++) {
            bt_heads_plan p;
            const int64_t begin = bt_clock_us();
            assert_int_equal(bt_heads_make(&p, &w, NULL), BT_OK);
            const int64_t us = bt_clock_us() - begin;
            if (us < best_us) best_us = us;
        }
        print_message("a plan of %u heads: %lld us\n", heads, (long long)best_us);
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        assert_true(best_us < 1000);
#endif
    }
}

static void refuses_what_is_out_of_range_and_ends_at_the_last_number(void **state)
{
    (void)state;
    bt_heads_times head[2] = {{INT64_MAX, INT64_MAX, INT64_MAX}, {INT64_MAX, 1, 1}};
    bt_heads_plan p = {.heads = 77};
    bt_fault f = {""};
    bt_heads_work w = {head, 0, 0, 1, BT_SCHEDULE_COMPANION};
    assert_int_equal(bt_heads_make(&p, &w, &f), BT_EARG);
    w.heads = BT_HEADS_MAX + 1;
    assert_int_equal(bt_heads_make(&p, &w, &f), BT_EARG);
    assert_non_null(strstr(f.text, "257"));
    assert_non_null(strstr(f.text, "256"));
    w.heads = 2, w.most = 0;
    assert_int_equal(bt_heads_make(&p, &w, &f), BT_EARG);
    w.most = BT_HEADS_MOST + 1;
    assert_int_equal(bt_heads_make(&p, &w, &f), BT_EARG);
    assert_non_null(strstr(f.text, "9"));
    assert_int_equal(p.heads, 77);
    for (int k = 0; k < 2; k++) {
        w = (bt_heads_work){head, 2, INT64_MAX, 2, (bt_schedule_engine)k};
        assert_int_equal(bt_heads_make(&p, &w, &f), BT_OK);
        assert_int_equal(p.ns, INT64_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_close_to_the_best_of_all_orders_and_launches),
        cmocka_unit_test(keeps_the_engines_apart_and_is_never_slower_than_one_thing_at_a_time),
        cmocka_unit_test(hides_the_shorter_side_behind_the_longer_one),
        cmocka_unit_test(fuses_heads_where_a_launch_costs_more_than_a_head),
        cmocka_unit_test(takes_less_than_a_millisecond),
        cmocka_unit_test(refuses_what_is_out_of_range_and_ends_at_the_last_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
