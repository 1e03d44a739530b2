/* Which node has had which beginnings: exact up to the first difference, and bounded. */
#include "gateway/brain/affinity.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const bt_incarnation A = {{1}}, B = {{2}};

static void a_beginning_is_found_up_to_the_first_difference_on_the_node_that_had_it(void **s)
{
    (void)s;
    gw_affinity *a = NULL;
    assert_int_equal(gw_affinity_new(&a, 7), BT_EARG);
    assert_int_equal(gw_affinity_new(&a, 1024), BT_OK);
    int32_t ids[400];
    uint64_t one[GW_AFFINITY_CHUNKS_MAX], two[GW_AFFINITY_CHUNKS_MAX];
    for (int i = 0; i < 400; i++) ids[i] = i * 7;
    assert_int_equal(gw_affinity_chain(one, ids, 63), 0);
    assert_int_equal(gw_affinity_chain(one, ids, 400), 6);
    gw_affinity_note(a, one, 6, &A);
    assert_int_equal(gw_affinity_match(a, one, 6, &A), 6);
    assert_int_equal(gw_affinity_match(a, one, 6, &B), 0);
    for (int at = 0; at < 384; at += 63) {
        ids[at]++;
        assert_int_equal(gw_affinity_chain(two, ids, 400), 6);
        assert_int_equal(gw_affinity_match(a, two, 6, &A), at / 64);
        ids[at]--;
    }
    /* the same tokens elsewhere are another beginning */
    assert_int_equal(gw_affinity_chain(two, ids + 64, 300), 4);
    assert_int_equal(gw_affinity_match(a, two, 4, &A), 0);
    gw_affinity_free(a);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_beginning_is_found_up_to_the_first_difference_on_the_node_that_had_it),
        cmocka_unit_test(the_table_keeps_what_was_seen_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
