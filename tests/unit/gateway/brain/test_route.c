/* The pair that is chosen, and the reasons where none is. */
#include "gateway/brain/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const uint8_t MODEL[16] = {5};

static gw_node *add(gw_registry *r, uint8_t name, bt_role role, uint32_t ctx, uint32_t slots,
                    uint32_t head_dim)
{
    bt_msg_hello h = {.protocol = BT_PROTOCOL_VERSION,
                      .role = role,
                      .kv = {2, 1, head_dim, BT_KV_F16, 0, 0},
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
    assert_int_equal(gw_registry_heard(r, n, &beat, 0), GW_NODE_READY);
    return n;
}

static gw_registry make(void)
{
    gw_registry r;
    assert_int_equal(gw_registry_init(&r, 8, MODEL, 2, 6, 1, 60), BT_OK);
    return r;
}

/* Nodes are written to directly here. */
static void put_all(gw_registry *r)
{
    for (uint32_t i = 0; i < r->used; i++)
        if (r->nodes[i].in_use) gw_registry_told(r, &r->nodes[i]);
}

static gw_route_answer ask(gw_route_choice *ret, gw_router *router, gw_registry *r, const gw_route_wish *w)
{
    put_all(r);
    return gw_route_choose(ret, router, r, w);
}

static uint64_t limit(gw_registry *r, bool counts_suspect)
{
    put_all(r);
    return gw_route_limit_tokens(r, counts_suspect);
}

static const gw_node *other_kv(gw_registry *r, const gw_node *n)
{
    put_all(r);
    return gw_route_other_kv(r, n);
}

static gw_route_answer choose(gw_route_choice *ret, gw_router *router, gw_registry *r, uint32_t prompt,
                              uint32_t more, uint32_t local_below)
{
    const gw_route_wish w = {.prompt.tokens = prompt, .max_tokens = more, .local_below_tokens = local_below};
    return ask(ret, router, r, &w);
}

static void takes_the_least_loaded_and_among_equals_the_one_idle_longest(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_router router = {.policy = GW_POLICY_LEAST_LOAD};
    gw_node *p = add(&r, 1, BT_ROLE_PREFILL, 100, 9, 4), *d1 = add(&r, 2, BT_ROLE_DECODE, 100, 2, 4),
            *d2 = add(&r, 3, BT_ROLE_DECODE, 100, 4, 4);
    gw_route_choice c;
    assert_int_equal(choose(&c, &router, &r, 10, 10, 0), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.prefill, p);
    assert_ptr_equal(c.decode, d1);
    assert_int_equal(choose(&c, &router, &r, 10, 10, 0), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.decode, d2);
    d1->attempts = 1; /* 1/2 against 1/4 */
    d2->attempts = 1;
    assert_int_equal(choose(&c, &router, &r, 10, 10, 0), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.decode, d2);
    router.policy = GW_POLICY_ROUND_ROBIN;
    assert_int_equal(choose(&c, &router, &r, 10, 10, 0), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.decode, d1);
    d1->attempts = 2;
    d2->attempts = 4;
    assert_int_equal(choose(&c, &router, &r, 10, 10, 0), GW_ROUTE_BUSY);
    gw_registry_done(&r);
}

static void pairs_must_agree_in_kv_shape_and_hold_the_sequence(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_router router = {.policy = GW_POLICY_LEAST_LOAD};
    gw_route_choice c;
    assert_int_equal(choose(&c, &router, &r, 10, 10, 0), GW_ROUTE_NO_NODE);
    add(&r, 1, BT_ROLE_PREFILL, 100, 1, 4);
    add(&r, 2, BT_ROLE_DECODE, 500, 1, 8);
    assert_int_equal(choose(&c, &router, &r, 10, 10, 0), GW_ROUTE_NO_NODE);
    assert_int_equal(limit(&r, false), 0);
    gw_node *d = add(&r, 3, BT_ROLE_DECODE, 80, 1, 4);
    assert_int_equal(limit(&r, false), 80);
    assert_int_equal(choose(&c, &router, &r, 70, 11, 0), GW_ROUTE_TOO_LONG);
    assert_int_equal(c.limit_tokens, 80);
    assert_int_equal(choose(&c, &router, &r, 70, 10, 0), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.decode, d);
    d->state = GW_NODE_DRAINING;
    assert_int_equal(choose(&c, &router, &r, 70, 10, 0), GW_ROUTE_NO_NODE);
    gw_registry_done(&r);
}

static void what_only_a_suspect_pair_holds_waits_for_it_and_is_too_long_when_that_is_gone(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_router router = {.policy = GW_POLICY_LEAST_LOAD};
    gw_route_choice c;
    add(&r, 1, BT_ROLE_PREFILL, 100, 9, 4);
    add(&r, 2, BT_ROLE_DECODE, 50, 9, 4);
    gw_node *large = add(&r, 3, BT_ROLE_DECODE, 100, 9, 4);
    assert_int_equal(gw_registry_cut(&r, large, 0), GW_NODE_SUSPECT);
    assert_int_equal(choose(&c, &router, &r, 70, 30, 0), GW_ROUTE_NO_NODE);
    assert_null(c.decode);
    assert_int_equal(choose(&c, &router, &r, 70, 31, 0), GW_ROUTE_TOO_LONG); /* not even then */
    assert_int_equal(c.limit_tokens, 50);
    assert_int_equal(limit(&r, false), 50);
    assert_int_equal(limit(&r, true), 100);
    assert_int_equal(gw_registry_expire(&r, large, 1), GW_NODE_GONE);
    assert_int_equal(choose(&c, &router, &r, 70, 30, 0), GW_ROUTE_TOO_LONG);
    gw_registry_done(&r);
}

static void a_short_prompt_goes_to_a_decode_node_of_the_same_class_and_others_to_a_pair(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_router router = {.policy = GW_POLICY_LEAST_LOAD};
    gw_route_choice c;
    gw_node *p = add(&r, 1, BT_ROLE_PREFILL, 100, 9, 4), *d = add(&r, 2, BT_ROLE_DECODE, 100, 9, 4);
    strcpy(p->hello.exactness, "npu 1");
    assert_int_equal(choose(&c, &router, &r, 9, 10, 10), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.prefill, p); /* the decode node has no engine for prompts */
    assert_int_equal(c.local, GW_LOCAL_NOT);
    assert_null(c.odd_decode);
    strcpy(d->hello.prefill_exactness, "npu 1");
    assert_int_equal(choose(&c, &router, &r, 10, 10, 10), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.prefill, p); /* not below 10 */
    assert_int_equal(choose(&c, &router, &r, 9, 10, 10), GW_ROUTE_CHOSEN);
    assert_null(c.prefill);
    assert_ptr_equal(c.decode, d);
    assert_int_equal(c.local, GW_LOCAL_SHORT);
    strcpy(d->hello.prefill_exactness, "npu 2");
    assert_int_equal(choose(&c, &router, &r, 9, 10, 10), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.prefill, p); /* another class: never */
    assert_ptr_equal(c.odd_decode, d);
    assert_ptr_equal(c.odd_prefill, p);
    assert_int_equal(c.local, GW_LOCAL_NOT);
    gw_registry_done(&r);
}

/* 200 ids, and a router that notes who has had their first chunks. */
static void what_a_decode_node_has_had_of_a_prompt_does_not_count_as_its_length(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_router router = {.policy = GW_POLICY_LEAST_LOAD};
    gw_route_choice c;
    int32_t ids[200];
    uint64_t chain[GW_AFFINITY_CHUNKS_MAX];
    for (int i = 0; i < 200; i++) ids[i] = i;
    assert_int_equal(gw_affinity_new(&router.affinity, 64), BT_OK);
    gw_node *p = add(&r, 1, BT_ROLE_PREFILL, 500, 9, 4), *d1 = add(&r, 2, BT_ROLE_DECODE, 500, 4, 4),
            *d2 = add(&r, 3, BT_ROLE_DECODE, 500, 4, 4);
    strcpy(p->hello.exactness, "npu 1");
    strcpy(d1->hello.prefill_exactness, "npu 1");
    strcpy(d2->hello.prefill_exactness, "npu 1");
    gw_route_wish w = {.prompt = {.tokens = 200, .ids = ids}, .max_tokens = 10, .local_below_tokens = 73};
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_int_equal(c.local, GW_LOCAL_NOT);
    assert_int_equal(gw_affinity_chain(chain, &w.prompt), 3);
    gw_affinity_note(router.affinity, chain, 3, &p->incarnation); /* the prefill node's have nothing to say */
    gw_affinity_note(router.affinity, chain, 2, &d2->incarnation);
    d2->attempts = 1; /* not the one that would be taken otherwise */
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_int_equal(c.local, GW_LOCAL_SHORT);
    assert_ptr_equal(c.decode, d2); /* 72 tokens are new to it */
    w.local_below_tokens = 72;
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_int_equal(c.local, GW_LOCAL_NOT);
    w.local_below_tokens = 73;
    ids[0]++; /* another prefix */
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_int_equal(c.local, GW_LOCAL_NOT);
    ids[0]--;
    w.prompt.salt.bytes[5] = 1; /* the same tokens of somebody else */
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_int_equal(c.local, GW_LOCAL_NOT);
    w.prompt.salt.bytes[5] = 0;
    d2->waiting_tokens = 128; /* as many as it has had */
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_int_equal(c.local, GW_LOCAL_NOT);
    d2->waiting_tokens = 0;
    w.local_below_tokens = 0; /* none, whatever is known */
    w.prompt.tokens = 128;
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_int_equal(c.local, GW_LOCAL_NOT);
    w.local_below_tokens = 1; /* all of it was there */
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_int_equal(c.local, GW_LOCAL_SHORT);
    assert_ptr_equal(c.decode, d2);
    gw_affinity_free(router.affinity);
    gw_registry_done(&r);
}

static void
without_a_known_prefill_node_a_decode_node_prefills_and_one_that_is_silent_is_still_known(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_router router = {.policy = GW_POLICY_LEAST_LOAD};
    gw_route_choice c;
    gw_node *p = add(&r, 1, BT_ROLE_PREFILL, 100, 9, 4), *d = add(&r, 2, BT_ROLE_DECODE, 80, 1, 4);
    strcpy(p->hello.exactness, "npu 1");
    strcpy(d->hello.prefill_exactness, "npu 1");
    p->state = GW_NODE_SUSPECT;
    assert_int_equal(choose(&c, &router, &r, 20, 10, 0), GW_ROUTE_NO_NODE);
    assert_int_equal(limit(&r, false), 80); /* ready all the same: the silence ends soon, one
                                                        way or the other */
    p->state = GW_NODE_GONE;
    assert_int_equal(choose(&c, &router, &r, 20, 61, 0), GW_ROUTE_TOO_LONG);
    assert_int_equal(c.limit_tokens, 80);
    assert_int_equal(choose(&c, &router, &r, 20, 60, 0), GW_ROUTE_CHOSEN);
    assert_int_equal(c.local, GW_LOCAL_NO_PREFILL_NODE);
    assert_null(c.prefill);
    d->attempts = 1;
    assert_int_equal(choose(&c, &router, &r, 20, 60, 0), GW_ROUTE_BUSY);
    d->attempts = 0;
    d->hello.prefill_exactness[0] = 0;
    assert_int_equal(choose(&c, &router, &r, 20, 60, 0), GW_ROUTE_NO_NODE);
    assert_int_equal(limit(&r, false), 0);
    gw_registry_done(&r);
}

static void a_request_with_tokens_stays_in_its_classes(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_router router = {.policy = GW_POLICY_LEAST_LOAD};
    gw_route_choice c;
    gw_node *p = add(&r, 1, BT_ROLE_PREFILL, 100, 9, 4), *d = add(&r, 2, BT_ROLE_DECODE, 100, 9, 4);
    strcpy(p->hello.exactness, "npu 1");
    strcpy(d->hello.exactness, "f16");
    gw_route_wish w = {.prompt.tokens = 10, .max_tokens = 10, .has_class = true,
                       .prefill_class = gw_route_class("npu 1"), .decode_class = gw_route_class("int8")};
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_NO_NODE);
    w.decode_class = gw_route_class("f16");
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    w.prefill_class = gw_route_class("npu 2");
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_NO_NODE);
    gw_registry_done(&r);
}

static void a_node_whose_kv_fits_none_of_the_other_role_is_found(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_node *p = add(&r, 1, BT_ROLE_PREFILL, 100, 1, 4), *d = add(&r, 2, BT_ROLE_DECODE, 100, 1, 4);
    add(&r, 3, BT_ROLE_PREFILL, 100, 1, 4);
    assert_null(other_kv(&r, p));
    p->hello.kv.dtype = BT_KV_INT8;
    assert_ptr_equal(other_kv(&r, p), d);
    assert_ptr_equal(other_kv(&r, d), p);
    d->state = GW_NODE_GONE;
    assert_null(other_kv(&r, p));
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

static void a_hello_that_comes_after_its_senders_death_does_not_shut_out_the_living(void **s)
{
    (void)s;
    gw_registry r = make();
    add(&r, 1, BT_ROLE_DECODE, 100, 1, 4);
    const bt_msg_hello h = r.nodes[0].hello;
    const bt_incarnation living = r.nodes[0].incarnation, dead = {{99}};
    bt_incarnation replaced;
    gw_node *n = NULL;
    assert_int_equal(gw_registry_hello(&r, &n, &replaced, &dead, &h, 1, NULL), BT_EAGAIN);
    assert_ptr_equal(n, &r.nodes[0]);
    (void)gw_registry_heard(&r, n, NULL, 1);
    assert_int_equal(gw_registry_hello(&r, &n, &replaced, &dead, &h, 2, NULL), BT_EAUTH);
    assert_true(bt_incarnation_equal(&r.nodes[0].incarnation, &living));
    gw_registry_done(&r);
}

static void a_prefix_counts_while_it_saves_more_than_its_node_has_to_do(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_router router = {.policy = GW_POLICY_PREFIX};
    assert_int_equal(gw_affinity_new(&router.affinity, 1024), BT_OK);
    gw_node *p[2] = {add(&r, 1, BT_ROLE_PREFILL, 400, 8, 4), add(&r, 2, BT_ROLE_PREFILL, 400, 8, 4)};
    gw_node *d[2] = {add(&r, 3, BT_ROLE_DECODE, 400, 8, 4), add(&r, 4, BT_ROLE_DECODE, 400, 8, 4)};
    static int32_t ids[200];
    uint64_t chain[GW_AFFINITY_CHUNKS_MAX];
    const gw_route_wish w = {.prompt = {.tokens = 200, .ids = ids}, .max_tokens = 10};
    gw_affinity_note(router.affinity, chain, gw_affinity_chain(chain, &w.prompt), &p[1]->incarnation);
    gw_affinity_note(router.affinity, chain, 2, &p[0]->incarnation);
    gw_affinity_note(router.affinity, chain, 1, &d[0]->incarnation);
    gw_route_choice c;
    p[1]->attempts = d[0]->attempts = 7; /* attempts alone say nothing */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
        assert_ptr_equal(c.prefill, p[1]);
        assert_ptr_equal(c.decode, d[0]);
        assert_int_equal(c.prefill_new_tokens, 200 - 192);
        assert_int_equal(c.decode_new_tokens, 200 - 64);
    }
    p[1]->waiting_tokens = 191;
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.prefill, p[1]);
    p[1]->waiting_tokens = 192; /* as many as the prefix saves */
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.prefill, p[0]);
    assert_int_equal(c.prefill_new_tokens, 200 - 128);
    p[0]->waiting_tokens = 1; /* the least loaded node has some too */
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.prefill, p[1]);
    d[0]->attempts = 8; /* every slot is taken */
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.decode, d[1]);
    gw_affinity_free(router.affinity);
    gw_registry_done(&r);
}

static void a_node_that_was_given_more_than_others_gets_no_more_for_its_prefix(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_router router = {.policy = GW_POLICY_PREFIX};
    assert_int_equal(gw_affinity_new(&router.affinity, 1024), BT_OK);
    gw_node *p[2] = {add(&r, 1, BT_ROLE_PREFILL, 400, 8, 4), add(&r, 2, BT_ROLE_PREFILL, 400, 8, 4)};
    (void)add(&r, 3, BT_ROLE_DECODE, 400, 8, 4);
    static int32_t ids[200];
    uint64_t chain[GW_AFFINITY_CHUNKS_MAX];
    gw_route_wish w = {.prompt = {.tokens = 200, .ids = ids}, .max_tokens = 10};
    gw_affinity_note(router.affinity, chain, gw_affinity_chain(chain, &w.prompt), &p[1]->incarnation);
    gw_route_choice c;
    p[1]->attempts = 1;
    gw_registry_give(&r, p[1], 768); /* the mean is half of it: twice the saved 192 less */
    p[1]->waiting_tokens = 0;
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.prefill, p[1]);
    gw_registry_give(&r, p[1], 2);
    p[1]->waiting_tokens = 0;
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.prefill, p[0]);
    w.now_us = GW_LATELY_US; /* later half of it is forgotten */
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.prefill, p[1]);
    gw_affinity_free(router.affinity);
    gw_registry_done(&r);
}

static void processes_that_are_no_more_hide_none_that_has_had_the_prefix(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_router router = {.policy = GW_POLICY_PREFIX};
    assert_int_equal(gw_affinity_new(&router.affinity, 1024), BT_OK);
    gw_node *p[2] = {add(&r, 1, BT_ROLE_PREFILL, 400, 8, 4), add(&r, 2, BT_ROLE_PREFILL, 400, 8, 4)};
    (void)add(&r, 3, BT_ROLE_DECODE, 400, 8, 4);
    static int32_t ids[200];
    uint64_t chain[GW_AFFINITY_CHUNKS_MAX];
    const gw_route_wish w = {.prompt = {.tokens = 200, .ids = ids}, .max_tokens = 10};
    const uint32_t chunks = gw_affinity_chain(chain, &w.prompt);
    for (uint8_t i = 0; i < GW_HOLDERS_SEEN - 1; i++)
        gw_affinity_note(router.affinity, chain, chunks, &(bt_incarnation){{100, i}});
    gw_affinity_note(router.affinity, chain, chunks, &p[1]->incarnation);
    gw_route_choice c;
    p[1]->attempts = 1;
    gw_registry_changed(&r, p[1]);
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.prefill, p[1]);
    gw_affinity_free(router.affinity);
    gw_registry_done(&r);
}

static void what_failed_or_refuses_gets_a_request_only_where_nothing_else_would_do(void **s)
{
    (void)s;
    gw_registry r = make();
    gw_router router = {.policy = GW_POLICY_LEAST_LOAD};
    gw_node *p = add(&r, 1, BT_ROLE_PREFILL, 400, 8, 4),
            *d[2] = {add(&r, 3, BT_ROLE_DECODE, 400, 8, 4), add(&r, 4, BT_ROLE_DECODE, 400, 8, 4)};
    gw_route_wish w = {.now_us = 100, .prompt.tokens = 10, .max_tokens = 10, .shun_decode = d[0]->name};
    gw_route_choice c;
    d[1]->attempts = 5;
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.decode, d[1]);
    gw_avoid_failed(&router.avoid, p->name, d[1]->name, 100); /* worse than to have failed this one request */
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.decode, d[0]);
    gw_registry_refuses(&r, d[0], 101);
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.decode, d[1]);
    gw_avoid_refused(&router.avoid, p->name, d[1]->name, 101, 100);
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_BUSY);
    w.now_us = 101;
    w.only_decode = d[1]->name;
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.decode, d[1]);
    w.only_decode = 0;
    w.only_prefill = d[1]->name; /* no prefill node */
    assert_int_equal(ask(&c, &router, &r, &w), GW_ROUTE_NO_NODE);
    gw_registry_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_least_loaded_and_among_equals_the_one_idle_longest),
        cmocka_unit_test(pairs_must_agree_in_kv_shape_and_hold_the_sequence),
        cmocka_unit_test(what_only_a_suspect_pair_holds_waits_for_it_and_is_too_long_when_that_is_gone),
        cmocka_unit_test(a_short_prompt_goes_to_a_decode_node_of_the_same_class_and_others_to_a_pair),
        cmocka_unit_test(what_a_decode_node_has_had_of_a_prompt_does_not_count_as_its_length),
        cmocka_unit_test(
            without_a_known_prefill_node_a_decode_node_prefills_and_one_that_is_silent_is_still_known),
        cmocka_unit_test(a_request_with_tokens_stays_in_its_classes),
        cmocka_unit_test(a_prefix_counts_while_it_saves_more_than_its_node_has_to_do),
        cmocka_unit_test(a_node_that_was_given_more_than_others_gets_no_more_for_its_prefix),
        cmocka_unit_test(processes_that_are_no_more_hide_none_that_has_had_the_prefix),
        cmocka_unit_test(what_failed_or_refuses_gets_a_request_only_where_nothing_else_would_do),
        cmocka_unit_test(a_node_whose_kv_fits_none_of_the_other_role_is_found),
        cmocka_unit_test(a_full_table_gives_up_only_nodes_that_are_gone),
        cmocka_unit_test(a_hello_that_comes_after_its_senders_death_does_not_shut_out_the_living),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
