/* The order of turns, against a round that is walked visit by visit; parts of the waiting room, against a
 * look at all shares. */
#include "gateway/brain/shares.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { SHARES = 7, LINE = 64, SLOTS = 12, SEEDS = 300, STEPS = 600 };

/* ---- a plain deficit round robin ---------------------------------------------------------------- */

typedef struct plain_share {
    uint32_t weight, active;
    uint64_t line[LINE]; /* costs, the next one first */
    uint32_t len;
    int64_t deficit;
    uint64_t came; /* in this round: it is visited from the next one on */
    bool is_over;  /* it has left the round until it is below its part */
} plain_share;
typedef struct plain {
    plain_share of[SHARES + 1]; /* by place: 0 is the common one */
    uint32_t ring[SHARES + 1], len, at;
    uint64_t round;
    bool is_visited; /* the share at `at` has got its tokens of this visit */
} plain;

static void leave_ring(plain *p, uint32_t share)
{
    uint32_t i = 0;
    while (i < p->len && p->ring[i] != share) i++;
    if (i == p->len) return;
    memmove(p->ring + i, p->ring + i + 1, (p->len - i - 1) * sizeof *p->ring);
    p->len--;
    if (i < p->at) p->at--;
    else if (i == p->at) p->is_visited = false;
}

static bool is_above(const plain *p, uint32_t share)
{
    uint64_t weights = 0, active = 0;
    for (uint32_t i = 0; i <= SHARES; i++) {
        weights += p->of[i].len ? p->of[i].weight : 0;
        active += p->of[i].len ? p->of[i].active : 0;
    }
    const double part = (double)p->of[share].weight * (double)(active + 1) / (double)weights;
    return p->of[share].active + 1e-9 >= part + 0.75 * ((double)(active + 1) - part);
}

static void join_ring(plain *p, uint32_t share)
{
    p->of[share].is_over = false;
    p->of[share].came = p->round;
    p->ring[p->len++] = share;
}

/* Shares that are below their part again, the emptiest for its weight first. */
static void come_back(plain *p)
{
    for (;;) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i <= SHARES; i++) {
            const plain_share *h = &p->of[i], *b = best == UINT32_MAX ? NULL : &p->of[best];
            if (h->is_over && (!b || (uint64_t)h->active * b->weight < (uint64_t)b->active * h->weight))
                best = i;
        }
        if (best == UINT32_MAX || is_above(p, best)) return;
        join_ring(p, best);
    }
}

static int64_t plain_next(plain *p)
{
    come_back(p);
    while (p->len > 0) {
        if (p->at >= p->len) {
            p->at = 0;
            p->round++;
        }
        const uint32_t share = p->ring[p->at];
        plain_share *h = &p->of[share];
        if (h->came == p->round) {
            p->at++;
            continue;
        }
        if (!p->is_visited) h->deficit += h->weight;
        p->is_visited = true;
        if (h->deficit < (int64_t)h->line[0]) {
            p->at++;
            p->is_visited = false;
        } else if (is_above(p, share)) {
            leave_ring(p, share);
            h->is_over = true;
        } else return share;
    }
    return -1;
}

static void plain_put(plain *p, uint32_t share, uint64_t cost, bool is_first)
{
    plain_share *h = &p->of[share];
    if (is_first) memmove(h->line + 1, h->line, h->len * sizeof *h->line);
    h->line[is_first ? 0 : h->len] = cost;
    if (h->len++ == 0) join_ring(p, share);
}

static void plain_drop(plain *p, uint32_t share)
{
    plain_share *h = &p->of[share];
    memmove(h->line, h->line + 1, --h->len * sizeof *h->line);
    if (h->len > 0) return;
    leave_ring(p, share);
    h->is_over = false;
    h->deficit = 0;
}

/* ---- both together ------------------------------------------------------------------------------ */

typedef struct pair {
    gw_shares s;
    plain p;
    uint32_t place[SHARES];
} pair;

static void tell_head(pair *k, uint32_t at)
{
    const plain_share *h = &k->p.of[at];
    gw_shares_head(&k->s, at, h->len > 0, h->len ? h->line[0] : 0);
}

static void put(pair *k, uint32_t at, uint64_t cost, bool is_first)
{
    if (k->p.of[at].len == LINE) return;
    plain_put(&k->p, at, cost, is_first);
    gw_shares_wait(&k->s, at, true, true);
    tell_head(k, at);
}

static void drop(pair *k, uint32_t at)
{
    plain_drop(&k->p, at);
    gw_shares_wait(&k->s, at, false, true);
    tell_head(k, at);
}

/* One slot for the next; returns its share, or -1. */
static int64_t serve(pair *k)
{
    const int64_t share = plain_next(&k->p);
    assert_int_equal(gw_shares_next(&k->s), share);
    if (share < 0) return share;
    plain_share *h = &k->p.of[share];
    const uint64_t cost = h->line[0];
    gw_shares_pay(&k->s, (uint32_t)share, cost);
    h->deficit -= (int64_t)cost;
    drop(k, (uint32_t)share);
    h->active++;
    gw_shares_hold(&k->s, (uint32_t)share, true);
    return share;
}

static void end(pair *k, uint32_t at)
{
    k->p.of[at].active--;
    gw_shares_hold(&k->s, at, false);
}

static void begin(pair *k, const uint32_t *weights)
{
    memset(k, 0, sizeof *k);
    assert_int_equal(gw_shares_init(&k->s, SHARES), BT_OK);
    for (uint32_t i = 0; i < SHARES; i++) {
        k->place[i] = gw_shares_enter(&k->s, 100 + i, weights[i]);
        assert_int_equal(k->place[i], i + 1);
        k->p.of[i + 1].weight = weights[i];
    }
    k->p.of[0].weight = 1;
}

static uint32_t all_active(const pair *k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i <= SHARES; i++) n += k->p.of[i].active;
    return n;
}

static void the_round_is_the_one_that_a_walk_gives_whatever_comes_and_goes(void **s)
{
    (void)s;
    uint64_t served = 0, overs = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t n = 0;
        uint32_t weights[SHARES];
        pair k;
        for (uint32_t i = 0; i < SHARES; i++)
            weights[i] = seed % 3 ? 1 + (uint32_t)(bt_rng_u64(seed, n++) % 4)
                                  : 1 + (uint32_t)(bt_rng_u64(seed, n++) % GW_WEIGHT_MAX);
        begin(&k, weights);
        for (uint32_t step = 0; step < STEPS; step++) {
            const uint64_t who = bt_rng_u64(seed, n++); /* in every second seed mostly two of them */
            const uint32_t at = (uint32_t)(seed % 2 && who % 8 ? 1 + who / 8 % 2 : who % (SHARES + 1));
            const uint64_t what = bt_rng_u64(seed, n++) % 16, draw = bt_rng_u64(seed, n++);
            if (what < 6) put(&k, at, 1 + draw % (draw & 1024 ? 50 : 3000), false);
            else if (what < 7)
                put(&k, at, draw % 2 ? 0 : 1 + draw % 500, true); /* it has paid, or is urgent */
            else if (what < 8 && k.p.of[at].len) drop(&k, at);
            else if (what < 9 && at > 0) {
                k.p.of[at].weight = 1 + (uint32_t)(draw % 5);
                assert_int_equal(gw_shares_enter(&k.s, 99 + at, k.p.of[at].weight), at);
            } else if (what < 13 && k.p.of[at].active) end(&k, at);
            else if (all_active(&k) < SLOTS) served += serve(&k) >= 0;
            overs += k.p.of[at].is_over;
        }
        gw_shares_done(&k.s);
    }
    printf("%llu served, %llu times over\n", (unsigned long long)served, (unsigned long long)overs);
    assert_true(served > SEEDS * 50 && overs > SEEDS);
}

static void shares_that_flood_get_tokens_by_weight(void **s)
{
    (void)s;
    static const uint32_t weights[SHARES] = {1, 3, 1000, 500, 1, 1, 1};
    const uint32_t pairs[2][2] = {{1, 2}, {4, 3}}; /* places; the second has the greater weight */
    for (int i = 0; i < 2; i++) {
        uint64_t tokens[SHARES + 1] = {0}, n = 0;
        pair k;
        begin(&k, weights);
        for (uint32_t step = 0; step < 20000; step++) {
            for (int j = 0; j < 2; j++)
                while (k.p.of[pairs[i][j]].len < 20)
                    put(&k, pairs[i][j], 1 + bt_rng_u64(7, n++) % (j ? 2000 : 300), false);
            const int64_t share = plain_next(&k.p);
            tokens[share] += k.p.of[share].line[0];
            assert_int_equal(serve(&k), share);
            end(&k, (uint32_t)share); /* one slot */
        }
        const double got = (double)tokens[pairs[i][1]] / (double)tokens[pairs[i][0]],
                     due = (double)weights[pairs[i][1] - 1] / weights[pairs[i][0] - 1];
        printf("weights %g, tokens %.4f\n", due, got);
        assert_true(got > due * 0.99 && got < due * 1.01);
        gw_shares_done(&k.s);
    }
}

static void one_that_comes_and_goes_gets_no_more_than_one_that_stays(void **s)
{
    (void)s;
    static const uint32_t weights[SHARES] = {1, 1000, 1, 1, 1, 1, 1};
    pair k;
    begin(&k, weights);
    uint32_t stays = 0;
    for (int i = 0; i < 30; i++) put(&k, 1, 2, false);
    for (int i = 0; i < 40; i++) {
        put(&k, 2, 1000, false); /* a visit brings it a whole request */
        const int64_t share = serve(&k);
        stays += share == 1;
        end(&k, (uint32_t)share);
        if (k.p.of[2].len == 2) drop(&k, 2);
    }
    assert_in_range(stays, 12, 20); /* two visits of weight 1 reach for one, and each comes beside one of 1000
                                     */
    gw_shares_done(&k.s);
}

static void one_that_asks_now_and_then_is_next_while_another_holds_all_slots(void **s)
{
    (void)s;
    static const uint32_t weights[SHARES] = {1, 1, 1, 1, 1, 1, 1};
    pair k;
    begin(&k, weights);
    for (int i = 0; i < 40; i++) put(&k, 1, 100, false);
    for (int i = 0; i < 32; i++) assert_int_equal(serve(&k), 1); /* alone it has all */
    for (int i = 0; i < 8; i++) {
        put(&k, 2, 5000, false); /* 50 turns of the other's */
        end(&k, 1);
        assert_int_equal(serve(&k), 2);
        end(&k, 2);
        put(&k, 1, 100, false);
        assert_int_equal(serve(&k), 1);
    }
    gw_shares_done(&k.s);
}

static void the_least_used_is_forgotten_for_a_new_one_and_one_too_many_is_of_the_common_share(void **s)
{
    (void)s;
    gw_shares t;
    assert_int_equal(gw_shares_init(&t, 3), BT_OK);
    assert_int_equal(gw_shares_enter(&t, 0, 9), 0);
    assert_int_equal(t.items[0].weight, 1);
    for (uint32_t i = 1; i <= 3; i++) assert_int_equal(gw_shares_enter(&t, 10 * i, i), i);
    gw_shares_wait(&t, 1, true, true);
    gw_shares_hold(&t, 3, true);
    assert_int_equal(gw_shares_enter(&t, 40, 7), 2);
    assert_null(gw_shares_find(&t, 20));
    assert_int_equal(gw_shares_find(&t, 40)->weight, 7);
    gw_shares_wait(&t, 2, true, true);
    assert_int_equal(gw_shares_enter(&t, 50, 7), 0); /* nobody is idle */
    gw_shares_wait(&t, 1, false, true);
    assert_int_equal(gw_shares_enter(&t, 60, 7), 1);
    gw_shares_done(&t);
    assert_int_equal(gw_shares_init(&t, 100000), BT_OK);
    assert_int_equal(t.cap, GW_SHARES_MAX + 1);
    gw_shares_done(&t);
}

/* ---- the waiting room --------------------------------------------------------------------------- */

static bool plain_within(const gw_share *h, uint32_t waiting, double all, uint32_t room)
{
    return waiting <= 1 || waiting <= h->weight * (double)room / all + 1e-9;
}

static int64_t plain_gives_way(const gw_shares *t, uint32_t share, uint32_t room)
{
    double all = t->items[share].waiting ? 0 : t->items[share].weight, worst = 0;
    int64_t most = -1;
    for (uint32_t i = 0; i < t->used; i++) {
        const gw_share *h = &t->items[i];
        if (!h->waiting) continue;
        all += h->weight;
        if (h->waiting > 1 && (most < 0 || (double)h->waiting / h->weight > worst)) {
            most = i;
            worst = (double)h->waiting / h->weight;
        }
    }
    const gw_share *h = &t->items[share];
    if (most < 0 || !plain_within(h, h->waiting + 1, all, room)) return -1;
    return plain_within(&t->items[most], t->items[most].waiting, all, room) ? -1 : most;
}

static void who_has_most_over_its_part_gives_way_to_who_has_less(void **s)
{
    (void)s;
    enum { ROOM = 24 };
    uint32_t gave = 0, refused = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        gw_shares t;
        uint64_t n = 0, full = 0;
        assert_int_equal(gw_shares_init(&t, SHARES), BT_OK);
        for (uint32_t i = 1; i <= SHARES; i++)
            (void)gw_shares_enter(&t, i, 1 + (uint32_t)(bt_rng_u64(seed, n++) % (seed % 2 ? 3 : 1000)));
        for (int i = 0; i < 400; i++) {
            const uint64_t draw = bt_rng_u64(seed, n++);
            const uint32_t at = (uint32_t)(draw % (draw & 256 ? 2 : SHARES + 1));
            if (draw >> 20 & 1 && t.items[at].waiting) {
                gw_shares_wait(&t, at, false, true);
                full--;
                continue;
            }
            if (full == ROOM) {
                const int64_t most = gw_shares_gives_way(&t, at, ROOM);
                assert_int_equal(most, plain_gives_way(&t, at, ROOM));
                gave += most >= 0;
                refused += most < 0;
                if (most < 0) continue;
                gw_shares_wait(&t, (uint32_t)most, false, true);
                full--;
            }
            gw_shares_wait(&t, at, true, true);
            full++;
        }
        gw_shares_done(&t);
    }
    printf("%u gave way, %u were refused\n", gave, refused);
    assert_true(gave > SEEDS && refused > SEEDS);
}

static void a_lone_share_has_the_whole_room_and_the_whole_rate(void **s)
{
    (void)s;
    gw_shares t;
    assert_int_equal(gw_shares_init(&t, SHARES), BT_OK);
    const uint32_t a = gw_shares_enter(&t, 5, 2), b = gw_shares_enter(&t, 6, 6);
    for (int i = 0; i < 8; i++) gw_shares_wait(&t, a, true, true);
    assert_int_equal(gw_shares_gives_way(&t, a, 8), BT_ORDER_NONE);
    assert_int_equal(gw_shares_line(&t, a, 5), 5);
    assert_int_equal(gw_shares_gives_way(&t, b, 8), a); /* 6 of 8 are its part */
    assert_int_equal(gw_shares_line(&t, b, 3), 4);      /* of 4 requests of the line 3 are its own */
    gw_shares_done(&t);
}

/* Requests that have had nodes stay, so their share passes for one within its part. */
static void a_share_whose_requests_all_had_nodes_does_not_give_way(void **s)
{
    (void)s;
    gw_shares t;
    assert_int_equal(gw_shares_init(&t, SHARES), BT_OK);
    const uint32_t a = gw_shares_enter(&t, 5, 1), b = gw_shares_enter(&t, 6, 1),
                   c = gw_shares_enter(&t, 7, 1);
    for (int i = 0; i < 4; i++) gw_shares_wait(&t, a, true, false);
    for (int i = 0; i < 3; i++) gw_shares_wait(&t, b, true, i == 2);
    assert_int_equal(gw_shares_gives_way(&t, c, 6), b);
    gw_shares_wait(&t, b, false, true);
    assert_int_equal(gw_shares_gives_way(&t, c, 6), BT_ORDER_NONE);
    gw_shares_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_round_is_the_one_that_a_walk_gives_whatever_comes_and_goes),
        cmocka_unit_test(shares_that_flood_get_tokens_by_weight),
        cmocka_unit_test(one_that_comes_and_goes_gets_no_more_than_one_that_stays),
        cmocka_unit_test(one_that_asks_now_and_then_is_next_while_another_holds_all_slots),
        cmocka_unit_test(the_least_used_is_forgotten_for_a_new_one_and_one_too_many_is_of_the_common_share),
        cmocka_unit_test(who_has_most_over_its_part_gives_way_to_who_has_less),
        cmocka_unit_test(a_share_whose_requests_all_had_nodes_does_not_give_way),
        cmocka_unit_test(a_lone_share_has_the_whole_room_and_the_whole_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
