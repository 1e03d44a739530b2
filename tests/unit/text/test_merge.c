/* Joining by priority beside the plain way, which looks for the best pair again and again; how often a pair
 * is looked at, and how many wait. */
#include "text/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LONG = 1 << 17, ROUNDS = 60, SHORT_MAX = 3000, TOKEN_MAX = 64 };

/* The pairs that join: those whose sum of bytes and lengths a hash lets. */
typedef struct rules {
    uint32_t seed, ranks, one_in;
    size_t calls;
} rules;

static uint32_t next(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

static bool joins(const void *ud, const char *text, const bt_merge_symbol *left, const bt_merge_symbol *right,
                  uint32_t *ret_rank, int32_t *ret_id)
{
    rules *r = (rules *)(uintptr_t)ud;
    uint32_t h = r->seed ^ (uint32_t)(left->id * 7919 + right->id * 104729);
    r->calls++;
    assert_int_equal(left->begin + left->len, right->begin);
    (void)text;
    for (int i = 0; i < 3; i++) (void)next(&h);
    if (left->len + right->len > TOKEN_MAX || (h >> 16) % r->one_in != 0) return false;
    *ret_rank = (h >> 8) % r->ranks;
    *ret_id = (int32_t)((h >> 4) % 1000);
    return true;
}

/* Symbols of the row in order, joined the plain way. */
static size_t join_plainly(bt_merge_symbol *s, size_t n, rules *r)
{
    for (;;) {
        uint32_t rank, best = UINT32_MAX;
        int32_t id, best_id = 0;
        size_t at = n;
        for (size_t i = 0; i + 1 < n; i++) {
            if (!joins(r, NULL, &s[i], &s[i + 1], &rank, &id) || (at < n && rank >= best)) continue;
            at = i;
            best = rank;
            best_id = id;
        }
        if (at == n) return n;
        s[at].len += s[at + 1].len;
        s[at].id = best_id;
        memmove(&s[at + 1], &s[at + 2], (n - at - 2) * sizeof *s);
        n--;
    }
}

static void joins_as_the_plain_way_does(void **state)
{
    (void)state;
    static bt_merge_symbol want[SHORT_MAX];
    bt_merge m = {0}; /* kept from row to row, as an encoding does */
    uint32_t seed = 1;
    for (int round = 0; round < ROUNDS; round++) {
        const size_t n = round < ROUNDS - 3 ? 1 + (next(&seed) >> 16) % 200 : SHORT_MAX;
        const uint32_t letters = 1 + (next(&seed) >> 16) % 5;
        rules r = {next(&seed), 1 + (next(&seed) >> 16) % 40, 1 + (next(&seed) >> 16) % 3, 0};
        uint32_t at = 0;
        bt_merge_clear(&m);
        for (size_t i = 0; i < n; i++) {
            const uint32_t len = 1 + (next(&seed) >> 16) % 4;
            const int32_t id = (int32_t)((next(&seed) >> 16) % letters) - 1;
            assert_int_equal(bt_merge_add(&m, len, id), BT_OK);
            want[i] = (bt_merge_symbol){at, len, id};
            at += len;
        }
        assert_int_equal(bt_merge_run(&m, NULL, joins, &r), BT_OK);
        const size_t left = join_plainly(want, n, &r);
        at = 0;
        for (size_t i = 0; i < left; i++) {
            const bt_merge_symbol s = bt_merge_at(&m, at);
            if (s.len != want[i].len || s.id != want[i].id)
                fail_msg("round %d, symbol %zu of %zu", round, i, left);
            at += s.len;
        }
        assert_int_equal(at, m.len);
    }
    bt_merge_done(&m);
}

/* Every join makes two new pairs; nothing is looked at again. */
static void looks_at_three_pairs_a_symbol_at_most(void **state)
{
    (void)state;
    for (uint32_t one_in = 1; one_in <= 3; one_in++) {
        bt_merge m = {0};
        rules r = {one_in, 40, one_in, 0};
        for (size_t i = 0; i < LONG; i++) assert_int_equal(bt_merge_add(&m, 1, (int32_t)(i * i % 11)), BT_OK);
        assert_int_equal(bt_merge_run(&m, NULL, joins, &r), BT_OK);
        assert_in_range(r.calls, LONG - 1, 3 * LONG);
        assert_in_range(m.pair_cap, 1, LONG / 2);
        bt_merge_done(&m);
    }
}

static void one_pair_of_a_row_of_one_letter_waits(void **state)
{
    (void)state;
    bt_merge m = {0};
    rules r = {0, 40, 1, 0};
    for (size_t i = 0; i < LONG; i++) assert_int_equal(bt_merge_add(&m, 1, 7), BT_OK);
    assert_int_equal(bt_merge_run(&m, NULL, joins, &r), BT_OK);
    assert_true(m.slot[0].len > 1);
    assert_in_range(m.pair_cap, 1, 64);
    bt_merge_done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins_as_the_plain_way_does),
        cmocka_unit_test(looks_at_three_pairs_a_symbol_at_most),
        cmocka_unit_test(one_pair_of_a_row_of_one_letter_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
