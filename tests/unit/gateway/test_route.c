/* Which pair is chosen, and why none is. */
#include "gateway/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const uint8_t MODEL[16] = {5};

static gw_node *add(gw_registry *r, uint8_t name, bt_role role, uint32_t ctx, uint32_t slots, uint32_t head_dim)
{
    bt_msg_hello h = {.protocol = BT_PROTOCOL_VERSION,
                      .role = role,
                      .kv = {2, 1, head_dim, BT_KV_F16},
                      .ctx_tokens = ctx,
                      .kv_capacity_tokens = 1000,
                      .load = {.slots_total = slots}};
    memcpy(h.model_id, MODEL, sizeof MODEL);
    snprintf(h.node_id, sizeof h.node_id, "n%u", name);
    strcpy(h.kv_endpoint, "x");
    bt_incarnation who = {{name}}, replaced;
    gw_node *n = NULL;
    assert_int_equal(gw_registry_hello(r, &n, &replaced, &who, &h, 0, NULL), BT_OK);
    bt_msg_heartbeat beat = {.load = h.load};
    assert_int_equal(gw_registry_heard(n, &beat, 0), GW_NODE_READY);
    return n;
}

static gw_registry make(void)
{
    gw_registry r;
    assert_int_equal(gw_registry_init(&r, 8, MODEL, 2, 6, 60), BT_OK);
    return r;
}

static void takes_the_least_loaded_and_among_equals_the_one_idle_longest(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_router router = {.policy = GW_POLICY_LEAST_LOAD};
    gw_node *p = add(&r, 1, BT_ROLE_PREFILL, 100, 9, 4), *d1 = add(&r, 2, BT_ROLE_DECODE, 100, 2, 4),
            *d2 = add(&r, 3, BT_ROLE_DECODE, 100, 4, 4);
    gw_node *gp, *gd;
    uint64_t limit;
    assert_int_equal(gw_route_choose(&router, &r, 10, 10, &gp, &gd, &limit), GW_ROUTE_PAIR);
    assert_ptr_equal(gp, p);
    assert_ptr_equal(gd, d1);
    assert_int_equal(gw_route_choose(&router, &r, 10, 10, &gp, &gd, &limit), GW_ROUTE_PAIR);
    assert_ptr_equal(gd, d2);
    d1->attempts = 1;                                   /* 1/2 against 1/4 */
    d2->attempts = 1;
    assert_int_equal(gw_route_choose(&router, &r, 10, 10, &gp, &gd, &limit), GW_ROUTE_PAIR);
    assert_ptr_equal(gd, d2);
    router.policy = GW_POLICY_ROUND_ROBIN;
    assert_int_equal(gw_route_choose(&router, &r, 10, 10, &gp, &gd, &limit), GW_ROUTE_PAIR);
    assert_ptr_equal(gd, d1);
    d1->attempts = 2;
    d2->attempts = 4;
    assert_int_equal(gw_route_choose(&router, &r, 10, 10, &gp, &gd, &limit), GW_ROUTE_BUSY);
    gw_registry_done(&r);
}

static void pairs_must_agree_in_kv_shape_and_hold_the_sequence(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_router router = {.policy = GW_POLICY_LEAST_LOAD};
    gw_node *gp, *gd;
    uint64_t limit = 0;
    assert_int_equal(gw_route_choose(&router, &r, 10, 10, &gp, &gd, &limit), GW_ROUTE_NO_NODE);
    add(&r, 1, BT_ROLE_PREFILL, 100, 1, 4);
    add(&r, 2, BT_ROLE_DECODE, 500, 1, 8);
    assert_int_equal(gw_route_choose(&router, &r, 10, 10, &gp, &gd, &limit), GW_ROUTE_NO_NODE);
    assert_int_equal(gw_route_limit_tokens(&r), 0);
    gw_node *d = add(&r, 3, BT_ROLE_DECODE, 80, 1, 4);
    assert_int_equal(gw_route_limit_tokens(&r), 80);
    assert_int_equal(gw_route_choose(&router, &r, 70, 11, &gp, &gd, &limit), GW_ROUTE_TOO_LONG);
    assert_int_equal(limit, 80);
    assert_int_equal(gw_route_choose(&router, &r, 70, 10, &gp, &gd, &limit), GW_ROUTE_PAIR);
    assert_ptr_equal(gd, d);
    d->state = GW_NODE_DRAINING;
    assert_int_equal(gw_route_choose(&router, &r, 70, 10, &gp, &gd, &limit), GW_ROUTE_NO_NODE);
    gw_registry_done(&r);
}

static void a_full_table_gives_up_only_nodes_that_are_gone(void **s)
{
    (void)s;
    gw_registry r = make();
    for (uint8_t i = 1; i <= 8; i++) add(&r, i, BT_ROLE_DECODE, 100, 1, 4);
    bt_msg_hello h = r.nodes[0].hello;
    strcpy(h.node_id, "late");
    bt_incarnation who = {{99}}, replaced;
    gw_node *n = NULL;
    assert_int_equal(gw_registry_hello(&r, &n, &replaced, &who, &h, 1, NULL), BT_ELIMIT);
    assert_int_equal(gw_registry_expire(&r, &r.nodes[4], 2), GW_NODE_SUSPECT);
    assert_int_equal(gw_registry_expire(&r, &r.nodes[4], 6), GW_NODE_GONE);
    assert_int_equal(gw_registry_hello(&r, &n, &replaced, &who, &h, 6, NULL), BT_OK);
    assert_ptr_equal(n, &r.nodes[4]);
    assert_int_equal(n->state, GW_NODE_STARTING);
    assert_int_equal(gw_registry_expire(&r, &r.nodes[5], 6), GW_NODE_GONE);
    gw_registry_expire(&r, &r.nodes[5], 60);
    assert_false(r.nodes[5].in_use);
    gw_registry_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_least_loaded_and_among_equals_the_one_idle_longest),
        cmocka_unit_test(pairs_must_agree_in_kv_shape_and_hold_the_sequence),
        cmocka_unit_test(a_full_table_gives_up_only_nodes_that_are_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
