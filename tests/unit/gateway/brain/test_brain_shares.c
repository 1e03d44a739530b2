/* The shares of keys and addresses in a gateway: nodes in turns, the waiting room by weight, and their own
 * order. */
#include "gateway/brain/state.h"
#include "tests/helpers/brain/gateway_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static const bt_incarnation PA = {{0x1a}}, DA = {{0x2a}}, SELF = {{1}};
enum { MANY = 64 };

typedef struct client {
    gateway_kit k;
    uint64_t number;
    uint64_t asked[MANY]; /* requests in the order in which they got nodes */
    uint32_t attempts[MANY];
    uint32_t len;
} client;

static void note(client *c)
{
    for (size_t i = 0; i < c->k.acts.len; i++) {
        const gw_action *a = &c->k.acts.items[i];
        if (a->type != GW_DO_SEND || a->u.send.msg.type != BT_MSG_RESERVE || c->len == MANY) continue;
        c->attempts[c->len] = a->u.send.msg.ref.attempt;
        c->asked[c->len++] = a->u.send.msg.ref.number;
    }
}

static void open_with(client *c, uint32_t queue_max, uint32_t active_max)
{
    gw_config g = gateway_kit_config();
    g.queue_max = queue_max;
    g.active_max = active_max;
    memset(c, 0, sizeof *c);
    gateway_kit_open(&c->k, &g);
    gateway_kit_join(&c->k, PA);
    gateway_kit_join(&c->k, DA);
}

/* The request's number; its FAIL, if it has one, is in c->k.failed. */
static uint64_t ask_for(client *c, uint64_t share, uint32_t weight, int32_t priority, const char *decode)
{
    gw_submit s = gateway_kit_request(++c->number, 20);
    s.share = share;
    s.weight = weight;
    s.priority = priority;
    memcpy(s.prefer_decode, decode, strlen(decode) + 1);
    c->k.failed = 0;
    c->k.heard_len = 0;
    c->k.is_done = false;
    gateway_kit_step(&c->k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &s});
    note(c);
    return c->number;
}
static uint64_t ask(client *c, uint64_t share, uint32_t weight) { return ask_for(c, share, weight, 0, ""); }

/* The request ends, and its nodes are free. */
static void end(client *c, uint64_t number, uint32_t attempt)
{
    c->k.failed = 0;
    c->k.is_done = false;
    gateway_kit_step(&c->k, &(gw_event){.type = GW_EV_CANCEL, .u.request = number});
    note(c);
    const bt_incarnation nodes[2] = {PA, DA};
    for (int i = 0; i < 2; i++) {
        bt_msg m = {.type = BT_MSG_ABORT_ACK, .ref = {SELF, number, attempt}, .from = nodes[i], .to = SELF};
        c->k.failed = 0;
        gateway_kit_step(&c->k, &(gw_event){.type = GW_EV_MSG, .u.msg = &m});
        note(c);
    }
}

static uint64_t end_last(client *c)
{
    const uint32_t before = c->len;
    end(c, c->asked[before - 1], c->attempts[before - 1]);
    assert_int_equal(c->len, before + 1);
    return c->asked[before];
}

static const gw_action *fail_of(const client *c, uint64_t request)
{
    for (size_t i = 0; i < c->k.acts.len; i++)
        if (c->k.acts.items[i].type == GW_DO_FAIL && c->k.acts.items[i].request == request)
            return &c->k.acts.items[i];
    return NULL;
}

static void without_shares_the_oldest_is_first(void **s)
{
    (void)s;
    client c;
    open_with(&c, 64, 1);
    for (int i = 0; i < 6; i++) (void)ask(&c, 0, 0);
    for (uint64_t i = 2; i <= 6; i++) assert_int_equal(end_last(&c), i);
    gateway_kit_close(&c.k);
}

static void one_request_of_a_key_does_not_wait_for_all_of_another(void **s)
{
    (void)s;
    client c;
    open_with(&c, 64, 4);
    for (int i = 0; i < 20; i++) (void)ask(&c, 7, 1);
    assert_int_equal(c.len, 4);
    for (int i = 0; i < 5; i++) {
        const uint64_t one = ask(&c, 8, 1);
        uint32_t slots = 1;
        while (end_last(&c) != one) slots++;
        assert_in_range(slots, 1, 2); /* one of the other key at most had its turn first */
        assert_int_equal(gw_brain_share(c.k.b, 7).active, 3);
        end(&c, one, 1);
        assert_int_equal(gw_brain_share(c.k.b, 7).active, 4);
        assert_int_equal(gw_brain_share(c.k.b, 8).active, 0);
    }
    gateway_kit_close(&c.k);
}

static void requests_that_never_end_gather_in_no_more_than_the_slots_that_are_not_kept(void **s)
{
    (void)s;
    client c;
    uint32_t quick = 0;
    open_with(&c, 64, 8);
    for (int i = 0; i < 20; i++) (void)ask(&c, 7, 1); /* these stay */
    for (int i = 0; i < 20; i++) (void)ask(&c, 8, 1);
    end(&c, c.asked[7], 1);
    for (int i = 0; i < 18; i++) {
        const uint64_t last = c.asked[c.len - 1];
        if (last <= 20) break;
        quick++;
        end(&c, last, 1);
    }
    assert_int_equal(quick, 18);
    assert_int_equal(gw_brain_share(c.k.b, 7).active, 7);
    gateway_kit_close(&c.k);
}

static void keys_of_weights_one_and_three_get_one_and_three_of_four(void **s)
{
    (void)s;
    client c;
    uint32_t of_three = 0;
    open_with(&c, 64, 1);
    for (int i = 0; i < 24; i++) {
        (void)ask(&c, 7, 1);
        (void)ask(&c, 8, 3);
    }
    for (int i = 0; i < 24; i++) {
        const uint64_t number = end_last(&c);
        of_three += number % 2 == 0;
    }
    assert_in_range(of_three, 17, 19);
    gateway_kit_close(&c.k);
}

static void priority_orders_within_a_key_and_not_between_keys(void **s)
{
    (void)s;
    client c;
    open_with(&c, 64, 1);
    (void)ask(&c, 9, 1);
    const uint64_t other = ask_for(&c, 8, 1, 100, ""), late = ask_for(&c, 7, 1, 5, ""),
                   usual = ask_for(&c, 7, 1, 0, ""), soon = ask_for(&c, 7, 1, INT32_MIN, ""),
                   usual_too = ask_for(&c, 7, 1, 0, ""), last = ask_for(&c, 7, 1, INT32_MAX, "");
    const uint64_t want[] = {other, soon, usual, usual_too, late, last};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) assert_int_equal(end_last(&c), want[i]);
    gateway_kit_close(&c.k);
}

static void a_request_whose_node_failed_comes_back_before_all_of_its_key_and_pays_once(void **s)
{
    (void)s;
    client c;
    open_with(&c, 64, 1);
    const uint64_t first = ask(&c, 7, 1);
    for (int i = 0; i < 3; i++) (void)ask_for(&c, 7, 1, -5, "");
    bt_msg m = {.type = BT_MSG_FAILED, .ref = {SELF, first, 1}, .from = DA, .to = SELF};
    m.u.failed.code = BT_EIO;
    gateway_kit_step(&c.k, &(gw_event){.type = GW_EV_MSG, .u.msg = &m});
    note(&c);
    assert_int_equal(c.len, 2);
    assert_int_equal(c.asked[1], first);
    assert_int_equal(c.attempts[1], 2);
    assert_true(c.k.b->shares.items[1].deficit >= 0);
    gateway_kit_close(&c.k);
}

static void a_full_room_takes_a_key_below_its_part_in_place_of_the_newest_of_the_one_above(void **s)
{
    (void)s;
    client c;
    open_with(&c, 8, 1);
    for (int i = 0; i < 9; i++) (void)ask(&c, 7, 1);
    assert_int_equal(gw_brain_share(c.k.b, 7).waiting, 8); /* alone it has the whole room */
    const uint64_t own = ask(&c, 7, 1);
    assert_int_equal(fail_of(&c, own)->u.fail.kind, GW_FAIL_OVERLOADED);
    for (uint32_t i = 0; i < 4; i++) { /* its part: 4 of 8 */
        const uint64_t guest = ask(&c, 8, 1);
        assert_null(fail_of(&c, guest));
        assert_int_equal(fail_of(&c, 9 - i)->u.fail.kind, GW_FAIL_OVERLOADED);
        assert_true(fail_of(&c, 9 - i)->u.fail.retry_after_ms >= 1000);
        assert_non_null(strstr(fail_of(&c, 9 - i)->u.fail.text, "more than its part"));
        assert_int_equal(gw_brain_share(c.k.b, 8).waiting, i + 1);
        assert_int_equal(gw_brain_queued(c.k.b), 8);
    }
    const uint64_t above = ask(&c, 8, 1);
    assert_non_null(fail_of(&c, above));
    const uint64_t third = ask(&c, 9, 2); /* 4 of 8 are its part beside two of weight 1 */
    assert_null(fail_of(&c, third));
    gateway_kit_close(&c.k);
}

static void one_that_has_had_nodes_gives_way_to_nobody(void **s)
{
    (void)s;
    client c;
    open_with(&c, 2, 1);
    const uint64_t first = ask(&c, 7, 1);
    bt_msg m = {.type = BT_MSG_FAILED, .ref = {SELF, first, 1}, .from = DA, .to = SELF};
    m.u.failed.code = BT_EAGAIN;
    gateway_kit_step(&c.k, &(gw_event){.type = GW_EV_MSG, .u.msg = &m}); /* rests for 100 ms */
    const uint64_t second = ask(&c, 7, 1);
    assert_int_equal(c.asked[c.len - 1], second);
    (void)ask(&c, 7, 1);
    const uint64_t guest = ask(&c, 8, 1); /* two of key 7 wait, above its part; only the one without attempts
                                             goes */
    assert_null(fail_of(&c, guest));
    assert_null(fail_of(&c, first));
    assert_non_null(fail_of(&c, guest - 1));
    gateway_kit_close(&c.k);
}

static void a_room_that_requests_of_lost_nodes_overfill_takes_one_for_one(void **s)
{
    (void)s;
    client c;
    open_with(&c, 2, 1);
    const uint64_t first = ask(&c, 7, 1);
    (void)ask(&c, 7, 1);
    (void)ask(&c, 7, 1);
    gateway_kit_pass(&c.k, 8000000, NULL, 0); /* all nodes are gone */
    assert_int_equal(gw_brain_queued(c.k.b), 3);
    const uint64_t guest = ask(&c, 8, 1);
    assert_null(fail_of(&c, guest));
    assert_null(fail_of(&c, first));
    assert_non_null(fail_of(&c, 3));
    assert_int_equal(gw_brain_queued(c.k.b), 3);
    gateway_kit_close(&c.k);
}

static void a_quarter_of_the_room_may_wait_for_one_node(void **s)
{
    (void)s;
    client c;
    open_with(&c, 16, 1);
    (void)ask(&c, 7, 1);
    for (int i = 0; i < 4; i++) {
        const uint64_t one = ask_for(&c, 7, 1, 0, "da");
        assert_null(fail_of(&c, one));
    }
    const uint64_t more = ask_for(&c, 8, 1, 0, "da");
    assert_int_equal(fail_of(&c, more)->u.fail.kind, GW_FAIL_OVERLOADED);
    assert_non_null(strstr(fail_of(&c, more)->u.fail.text, "waiting for node 'da'"));
    assert_null(fail_of(&c, ask(&c, 7, 1))); /* for any node */
    assert_int_equal(gw_brain_share(c.k.b, 7).waiting, 5);
    end(&c, 2, 1); /* one of them */
    assert_null(fail_of(&c, ask_for(&c, 8, 1, 0, "da")));
    gateway_kit_close(&c.k);
}

static void a_share_is_counted_while_it_waits_and_runs_and_what_it_got_is_kept(void **s)
{
    (void)s;
    client c;
    open_with(&c, 64, 1);
    (void)ask(&c, 7, 5);
    (void)ask(&c, 7, 5);
    gw_share_figures f = gw_brain_share(c.k.b, 7);
    assert_true(f.weight == 5 && f.active == 1 && f.waiting == 1 && f.tokens == 0);
    gateway_kit_say(&c.k, DA, BT_MSG_RESERVED, 1);
    gateway_kit_say(&c.k, PA, BT_MSG_PREFILL_ACCEPTED, 1);
    gateway_kit_first(&c.k, PA, 1, 5);
    gateway_kit_tokens(&c.k, DA, 1, 1, 3);
    end(&c, 1, 1);
    f = gw_brain_share(c.k.b, 7);
    assert_true(f.active == 1 && f.waiting == 0);
    assert_int_equal(f.tokens, 10 + 4);
    assert_int_equal(gw_brain_share(c.k.b, 99).weight, 0);
    gateway_kit_close(&c.k);
}

static void a_weight_out_of_range_is_a_bad_request(void **s)
{
    (void)s;
    client c;
    open_with(&c, 64, 1);
    const uint64_t bad = ask(&c, 7, GW_WEIGHT_MAX + 1);
    assert_int_equal(fail_of(&c, bad)->u.fail.kind, GW_FAIL_BAD);
    gateway_kit_close(&c.k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_shares_the_oldest_is_first),
        cmocka_unit_test(one_request_of_a_key_does_not_wait_for_all_of_another),
        cmocka_unit_test(requests_that_never_end_gather_in_no_more_than_the_slots_that_are_not_kept),
        cmocka_unit_test(keys_of_weights_one_and_three_get_one_and_three_of_four),
        cmocka_unit_test(priority_orders_within_a_key_and_not_between_keys),
        cmocka_unit_test(a_request_whose_node_failed_comes_back_before_all_of_its_key_and_pays_once),
        cmocka_unit_test(a_full_room_takes_a_key_below_its_part_in_place_of_the_newest_of_the_one_above),
        cmocka_unit_test(one_that_has_had_nodes_gives_way_to_nobody),
        cmocka_unit_test(a_room_that_requests_of_lost_nodes_overfill_takes_one_for_one),
        cmocka_unit_test(a_quarter_of_the_room_may_wait_for_one_node),
        cmocka_unit_test(a_share_is_counted_while_it_waits_and_runs_and_what_it_got_is_kept),
        cmocka_unit_test(a_weight_out_of_range_is_a_bad_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
