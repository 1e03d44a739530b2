/* The nodes that have had prefixes: exact up to the first difference, and bounded. */
#include "gateway/brain/affinity.h"
#include "base/rng.h"
#include "tests/helpers/brain/affinity_cap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const bt_incarnation A = {{1}}, B = {{2}};

static void a_prefix_is_found_up_to_the_first_difference_on_the_node_that_had_it(void **s)
{
    (void)s;
    gw_affinity *a = NULL;
    assert_int_equal(gw_affinity_new(&a, 7), BT_EARG);
    assert_int_equal(gw_affinity_new(&a, 1024), BT_OK);
    int32_t ids[400];
    uint64_t one[GW_AFFINITY_CHUNKS_MAX], two[GW_AFFINITY_CHUNKS_MAX];
    for (int i = 0; i < 400; i++) ids[i] = i * 7;
    assert_int_equal(gw_affinity_chain(one, &(bt_prompt_view){.tokens = 63, .ids = ids}), 0);
    assert_int_equal(gw_affinity_chain(one, &(bt_prompt_view){.tokens = 400, .ids = ids}), 6);
    gw_affinity_note(a, one, 6, &A);
    assert_int_equal(gw_affinity_match(a, one, 6, &A), 6);
    assert_int_equal(gw_affinity_match(a, one, 6, &B), 0);
    for (int at = 0; at < 384; at += 63) {
        ids[at]++;
        assert_int_equal(gw_affinity_chain(two, &(bt_prompt_view){.tokens = 400, .ids = ids}), 6);
        assert_int_equal(gw_affinity_match(a, two, 6, &A), at / 64);
        ids[at]--;
    }
    /* the same tokens elsewhere are another prefix */
    assert_int_equal(gw_affinity_chain(two, &(bt_prompt_view){.tokens = 300, .ids = ids + 64}), 4);
    assert_int_equal(gw_affinity_match(a, two, 4, &A), 0);
    gw_affinity_free(a);
}

/* By ids and by hashes of blocks. */
static void a_prompt_of_another_salt_was_had_by_nobody(void **s)
{
    (void)s;
    gw_affinity *a = NULL;
    int32_t ids[128];
    uint64_t hashes[8], chain[3][GW_AFFINITY_CHUNKS_MAX];
    for (int i = 0; i < 128; i++) ids[i] = i;
    bt_prompt_hash(hashes, ids, 128, 16);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(gw_affinity_new(&a, 64), BT_OK);
        for (uint8_t one = 0; one < 3; one++) {
            const bt_prompt_view p = {.tokens = 128, .ids = k ? NULL : ids, .hashes = {k ? hashes : NULL, 16},
                                      .salt = {{0, one}}};
            assert_int_equal(gw_affinity_chain(chain[one], &p), 2);
            assert_int_equal(gw_affinity_longest(a, chain[one], 2), 0);
            gw_affinity_note(a, chain[one], 2, &A);
            assert_int_equal(gw_affinity_match(a, chain[one], 2, &A), 2);
        }
        gw_affinity_free(a);
    }
}

static void the_table_keeps_what_was_seen_last(void **s)
{
    (void)s;
    gw_affinity *a = NULL;
    assert_int_equal(gw_affinity_new(&a, 64), BT_OK);
    uint64_t often = 42;
    for (uint64_t i = 0; i < 10000; i++) {
        const uint64_t rare = bt_rng_u64(1, i);
        gw_affinity_note(a, &rare, 1, &A);
        gw_affinity_note(a, &often, 1, &A);
        assert_int_equal(gw_affinity_match(a, &rare, 1, &A), 1);
        assert_int_equal(gw_affinity_match(a, &often, 1, &A), 1);
    }
    const uint64_t first = bt_rng_u64(1, 0);
    assert_int_equal(gw_affinity_match(a, &first, 1, &A), 0);
    gw_affinity_free(a);
}

/* Chains that branch from a few prefixes, on a table that is too small for them, against what it must be: a
 * node that has a prefix has all shorter ones; what is noted is there at once; and growing forgets
 * nothing. */
static void a_node_that_has_a_prefix_has_all_shorter_ones_and_growing_forgets_none(void **s)
{
    (void)s;
    enum { CHAINS = 40, LEN = 30, NODES = 5 };
    gw_affinity *a = NULL;
    uint64_t chain[CHAINS][LEN];
    bool was[CHAINS][NODES][LEN];
    assert_int_equal(gw_affinity_new(&a, 256), BT_OK);
    for (uint64_t c = 0; c < CHAINS; c++)
        for (uint64_t i = 0; i < LEN; i++)
            chain[c][i] = bt_rng_u64(i < 10   ? 1
                                     : i < 20 ? 2 + c % 4
                                              : 10 + c,
                                     i) &
                          ~(uint64_t)0xe0; /* they collide */
    for (uint64_t turn = 0; turn < 2000; turn++) {
        const uint64_t draw = bt_rng_u64(3, turn), c = draw % CHAINS;
        const bt_incarnation who = {{(uint8_t)(1 + (draw >> 20) % NODES)}};
        const uint32_t len = (uint32_t)((draw >> 40) % (LEN + 1));
        gw_affinity_note(a, chain[c], len, &who);
        assert_true(gw_affinity_match(a, chain[c], LEN, &who) >= len);
        uint32_t longest = 0;
        for (uint8_t n = 0; n < NODES; n++) {
            const bt_incarnation node = {{(uint8_t)(1 + n)}};
            uint32_t had = 0;
            while (had < LEN && gw_affinity_has(a, chain[c][had], &node)) had++;
            for (uint32_t i = had; i < LEN; i++) assert_false(gw_affinity_has(a, chain[c][i], &node));
            assert_int_equal(gw_affinity_match(a, chain[c], LEN, &node), had);
            if (had > longest) longest = had;
        }
        assert_int_equal(gw_affinity_longest(a, chain[c], LEN), longest);
        uint32_t at = 0, holders = 0, count = 0;
        for (const bt_incarnation *h; (h = gw_affinity_holder(a, chain[c][0], &at)); holders++)
            assert_true(gw_affinity_has(a, chain[c][0], h));
        for (uint8_t n = 1; n <= NODES; n++) count += gw_affinity_has(a, chain[c][0], &(bt_incarnation){{n}});
        assert_int_equal(holders, count);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t c = 0; c < CHAINS; c++)
            for (uint8_t n = 0; n < NODES; n++)
                for (uint32_t i = 0; i < LEN; i++) {
                    const bool has = gw_affinity_has(a, chain[c][i], &(bt_incarnation){{(uint8_t)(1 + n)}});
                    if (pass) assert_int_equal(has, was[c][n][i]);
                    was[c][n][i] = has;
                }
        assert_int_equal(gw_affinity_grow(a, 1024), BT_OK);
    }
    assert_int_equal(affinity_cap(a), 1024);
    gw_affinity_free(a);
}

static void the_table_is_as_large_as_what_nodes_hold_within_bounds(void **s)
{
    (void)s;
    assert_int_equal(gw_affinity_entries(0, 1024), GW_AFFINITY_LEAST_ENTRIES);
    assert_int_equal(gw_affinity_entries(64 * 65537, 1024), 131072);
    assert_int_equal(gw_affinity_entries(64 * 1000000ull, 1024), 1 << 20);
    assert_int_equal(gw_affinity_entries(64 * 1000000ull, 32), 131072); /* 4,096 a node */
    assert_int_equal(gw_affinity_entries(UINT64_MAX, 65536), GW_AFFINITY_MOST_ENTRIES);
}

static void holders_come_in_the_order_in_which_they_were_noted_last(void **s)
{
    (void)s;
    enum { NODES_HERE = 4, NOTES = 200 };
    gw_affinity *a;
    const uint64_t chain[1] = {77};
    uint64_t noted[NODES_HERE + 1] = {0};
    assert_int_equal(gw_affinity_new(&a, 8), BT_OK);
    for (uint64_t turn = 1; turn <= NOTES; turn++) {
        const uint8_t n = (uint8_t)(1 + bt_rng_u64(5, turn) % NODES_HERE);
        /* Every prefix is in the same bucket, and some notes push an item out. */
        const uint64_t other[1] = {77 + 8 * (1 + turn % 3)};
        gw_affinity_note(a, chain, 1, &(bt_incarnation){{n}});
        noted[n] = turn;
        gw_affinity_note(a, other, 1, &(bt_incarnation){{(uint8_t)(1 + turn % 2)}});
        uint32_t at = 0;
        uint64_t last = 0;
        for (const bt_incarnation *h; (h = gw_affinity_holder(a, chain[0], &at)); last = noted[h->bytes[0]])
            assert_true(noted[h->bytes[0]] > last);
        assert_int_equal(last, turn);
    }
    gw_affinity_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prefix_is_found_up_to_the_first_difference_on_the_node_that_had_it),
        cmocka_unit_test(a_prompt_of_another_salt_was_had_by_nobody),
        cmocka_unit_test(the_table_keeps_what_was_seen_last),
        cmocka_unit_test(a_node_that_has_a_prefix_has_all_shorter_ones_and_growing_forgets_none),
        cmocka_unit_test(the_table_is_as_large_as_what_nodes_hold_within_bounds),
        cmocka_unit_test(holders_come_in_the_order_in_which_they_were_noted_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
