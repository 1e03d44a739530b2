/* A request that waits in the line of a decode node (WAITS), as the gateway sees it: which nodes it holds
 * meanwhile, which it gets when its turn comes, and how its wait ends. */
#include "tests/helpers/brain/gateway_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const bt_incarnation PA = {{0x1a}}, PB = {{0x1b}}, DA = {{0x2a}}, DB = {{0x2b}};
enum { SECOND = 1000000, SLOTS = 8 };
#define SAID(k, who, type) gateway_kit_said((k)->acts, who, type)
#define DID(k, type)       gateway_kit_did((k)->acts, type)

static void join_pair(gateway_kit *k, bt_incarnation p, bt_incarnation d)
{
    gateway_kit_join(k, p);
    gateway_kit_join(k, d);
}

/* PA and DA are there, and the request stands in DA's line. */
static void stand_in_line(gateway_kit *k)
{
    gateway_kit_open(k, NULL);
    join_pair(k, PA, DA);
    gateway_kit_submit(k, 20);
    assert_non_null(SAID(k, DA, BT_MSG_RESERVE));
    gateway_kit_say(k, DA, BT_MSG_WAITS, 1);
}

static bool names(const bt_msg *m, bt_incarnation prefill)
{
    return m && bt_incarnation_equal(&m->u.reserve.prefill, &prefill);
}

static void submit_more(gateway_kit *k, uint64_t first, uint64_t len)
{
    for (uint64_t n = first; n < first + len; n++) {
        const gw_submit s = gateway_kit_request(n, 20);
        gateway_kit_step(k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &s});
    }
}

static void reserved(gateway_kit *k, bt_incarnation prefill)
{
    bt_msg m = {.type = BT_MSG_RESERVED, .ref = {.attempt = 1}};
    m.u.reserved.prefill = prefill;
    gateway_kit_from(k, DA, &m);
}

static void it_holds_no_prefill_node_asks_for_nothing_and_renews_its_lease(void **s)
{
    (void)s;
    gateway_kit k;
    stand_in_line(&k);
    assert_int_equal(gateway_kit_node(&k, PA)->attempts, 0);
    assert_int_equal(gateway_kit_node(&k, DA)->lined, 1);
    int renewals = 0;
    for (int i = 0; i < 40; i++) {
        gateway_kit_beat(&k, PA);
        gateway_kit_beat(&k, DA);
        gateway_kit_wait(&k, SECOND / 2);
        assert_null(SAID(&k, DA, BT_MSG_RESERVE));
        renewals += SAID(&k, DA, BT_MSG_RENEW) != NULL;
        assert_null(SAID(&k, PA, BT_MSG_RENEW));
    }
    assert_in_range(renewals, 7, 8); /* 20 s, a quarter of 10 s each */
    gateway_kit_close(&k);
}

static void its_turn_brings_it_to_the_prefill_node_that_it_named(void **s)
{
    (void)s;
    gateway_kit k;
    stand_in_line(&k);
    reserved(&k, PA);
    assert_non_null(SAID(&k, PA, BT_MSG_PREFILL));
    assert_int_equal(gateway_kit_node(&k, PA)->attempts, 1);
    assert_int_equal(gateway_kit_node(&k, DA)->lined, 0);
    gateway_kit_close(&k);
}

static void another_prefill_node_is_named_to_the_decode_node_first(void **s)
{
    (void)s;
    gateway_kit k;
    stand_in_line(&k);
    gateway_kit_join(&k, PB);
    gateway_kit_from(&k, PA, &(bt_msg){.type = BT_MSG_BYE});
    reserved(&k, PA);
    assert_null(SAID(&k, PB, BT_MSG_PREFILL));
    assert_true(names(SAID(&k, DA, BT_MSG_RESERVE), PB));
    reserved(&k, PA); /* said again meanwhile */
    assert_null(SAID(&k, PB, BT_MSG_PREFILL));
    reserved(&k, PB);
    assert_non_null(SAID(&k, PB, BT_MSG_PREFILL));
    gateway_kit_close(&k);
}

static void it_leaves_the_line_for_a_node_that_has_room_and_does_not_go_to_and_fro(void **s)
{
    (void)s;
    gateway_kit k;
    stand_in_line(&k);
    gateway_kit_join(&k, DB);
    assert_int_equal(SAID(&k, DB, BT_MSG_RESERVE)->ref.attempt, 2);
    assert_non_null(SAID(&k, DA, BT_MSG_ABORT));
    assert_int_equal(gateway_kit_node(&k, DA)->lined, 0);
    gateway_kit_say(&k, DB, BT_MSG_WAITS, 2); /* others hold DB, and DA too: nothing has become free there */
    for (int i = 0; i < 4; i++) {
        const bt_msg *m = SAID(&k, DA, BT_MSG_RESERVE);
        assert_true(!m || m->ref.number != 1);
        submit_more(&k, 2 + (uint64_t)i, 1);
    }
    gateway_kit_close(&k);
}

/* Nothing else may happen meanwhile: the gateway looks again by its own clock. */
static void it_leaves_the_line_when_the_refusal_of_another_node_ends(void **s)
{
    (void)s;
    gateway_kit k;
    gateway_kit_open(&k, NULL);
    join_pair(&k, PA, DA);
    gateway_kit_join(&k, DB);
    gateway_kit_submit(&k, 20);
    const bool is_first = SAID(&k, DA, BT_MSG_RESERVE) != NULL;
    const bt_incarnation refuses = is_first ? DA : DB, lined = is_first ? DB : DA;
    bt_msg m = {.type = BT_MSG_REFUSED, .ref = {.attempt = 1}};
    m.u.refused = (bt_msg_refused){.of = BT_MSG_RESERVE, .code = BT_EAGAIN, .retry_after_ms = 30};
    gateway_kit_from(&k, refuses, &m);
    assert_int_equal(SAID(&k, lined, BT_MSG_RESERVE)->ref.attempt, 2);
    gateway_kit_say(&k, lined, BT_MSG_WAITS, 2);
    assert_null(SAID(&k, refuses, BT_MSG_RESERVE));
    const int64_t until_us = gateway_kit_node(&k, refuses)->refuses_until_us;
    assert_true(until_us > k.now);
    assert_int_equal(gw_brain_due_us(k.b), until_us);
    gateway_kit_wait(&k, until_us - k.now);
    assert_int_equal(SAID(&k, refuses, BT_MSG_RESERVE)->ref.attempt, 3);
    assert_non_null(SAID(&k, lined, BT_MSG_ABORT));
    gateway_kit_close(&k);
}

static void a_place_is_kept_until_a_prefill_node_is_free_before_those_that_came_later(void **s)
{
    (void)s;
    gateway_kit k;
    stand_in_line(&k);
    submit_more(&k, 2, SLOTS + 1); /* DA's other slots are theirs; PA has none left */
    assert_int_equal(gateway_kit_node(&k, PA)->attempts, SLOTS);
    reserved(&k, PA);
    assert_null(SAID(&k, PA, BT_MSG_PREFILL));
    gateway_kit_step(&k, &(gw_event){.type = GW_EV_CANCEL, .u.request = 3}); /* P was told nothing of it yet
                                                                              */
    assert_int_equal(SAID(&k, PA, BT_MSG_PREFILL)->ref.number, 1);
    gateway_kit_close(&k);
}

static void new_requests_go_to_nodes_without_a_line_and_few_wait_in_one(void **s)
{
    (void)s;
    gateway_kit k;
    gw_config c = gateway_kit_config();
    gateway_kit_open(&k, &c);
    join_pair(&k, PA, DA);
    gateway_kit_join(&k, PB);
    for (uint64_t n = 1; n <= SLOTS; n++) {
        submit_more(&k, n, 1);
        bt_msg m = {.type = BT_MSG_WAITS, .ref = {{{0}}, n, 1}};
        const bt_msg *told = SAID(&k, DA, BT_MSG_RESERVE);
        assert_int_equal(told->ref.number, n);
        m.ref = told->ref;
        m.from = DA;
        m.to = told->from;
        gateway_kit_step(&k, &(gw_event){.type = GW_EV_MSG, .u.msg = &m});
    }
    submit_more(&k, 100, 1);
    assert_null(SAID(&k, DA, BT_MSG_RESERVE));
    assert_int_equal(gw_brain_queued(k.b), 1);
    gateway_kit_join(&k, DB);
    assert_non_null(SAID(&k, DB, BT_MSG_RESERVE));
    gateway_kit_close(&k);
}

static void the_wait_ends_with_the_node_or_with_patience(void **s)
{
    (void)s;
    gateway_kit k;
    gw_config c = gateway_kit_config();
    stand_in_line(&k);
    gateway_kit_from(&k, DA, &(bt_msg){.type = BT_MSG_BYE});
    assert_int_equal(gw_brain_queued(k.b), 1);
    gateway_kit_close(&k);
    c.queue_us = 20 * SECOND;
    gateway_kit_open(&k, &c);
    join_pair(&k, PA, DA);
    gateway_kit_submit(&k, 20);
    gateway_kit_say(&k, DA, BT_MSG_WAITS, 1);
    const bt_incarnation alive[] = {PA, DA};
    gateway_kit_pass(&k, 19 * SECOND, alive, 2);
    assert_int_equal(k.failed, 0);
    gateway_kit_pass(&k, SECOND, alive, 2);
    assert_int_equal(k.failed, GW_FAIL_OVERLOADED);
    assert_non_null(strstr(k.text, "every node was busy for 20 s"));
    gateway_kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_holds_no_prefill_node_asks_for_nothing_and_renews_its_lease),
        cmocka_unit_test(its_turn_brings_it_to_the_prefill_node_that_it_named),
        cmocka_unit_test(another_prefill_node_is_named_to_the_decode_node_first),
        cmocka_unit_test(it_leaves_the_line_for_a_node_that_has_room_and_does_not_go_to_and_fro),
        cmocka_unit_test(it_leaves_the_line_when_the_refusal_of_another_node_ends),
        cmocka_unit_test(a_place_is_kept_until_a_prefill_node_is_free_before_those_that_came_later),
        cmocka_unit_test(new_requests_go_to_nodes_without_a_line_and_few_wait_in_one),
        cmocka_unit_test(the_wait_ends_with_the_node_or_with_patience),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
