/* The requests to the gateway's brain that concern nodes, besides recovery: wishes for one, policies of a
 * request, keys, roles. */
#include "tests/helpers/brain/gateway_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const bt_incarnation PA = {{0x1a}}, PB = {{0x1b}}, DA = {{0x2a}}, DB = {{0x2b}}, DA_AGAIN = {{0x4a}};
enum { SECOND = 1000000 };
#define SAID(k, who, type) gateway_kit_said((k)->acts, who, type)
#define DID(k, type)       gateway_kit_did((k)->acts, type)

static void open_two_pairs(gateway_kit *k)
{
    gateway_kit_open(k, NULL);
    gateway_kit_join(k, PA);
    gateway_kit_join(k, PB);
    gateway_kit_join(k, DA);
    gateway_kit_join(k, DB);
}

static void submit(gateway_kit *k, const gw_submit *s)
{
    gateway_kit_step(k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = s});
}

static void a_request_goes_to_the_nodes_it_asks_for_and_after_a_loss_to_others(void **s)
{
    (void)s;
    gateway_kit k;
    open_two_pairs(&k);
    gw_submit r = gateway_kit_request(1, 20);
    strcpy(r.prefer_prefill, "pb");
    strcpy(r.prefer_decode, "db");
    submit(&k, &r);
    const bt_msg *m = SAID(&k, DB, BT_MSG_RESERVE);
    assert_true(bt_incarnation_equal(&m->u.reserve.prefill, &PB));
    gateway_kit_from(&k, DB, &(bt_msg){.type = BT_MSG_BYE});
    m = SAID(&k, DA, BT_MSG_RESERVE);
    assert_int_equal(m->ref.attempt, 2);
    gateway_kit_close(&k);
}

static void a_gateway_that_drains_waits_for_nodes_to_let_go_but_not_for_one_that_is_gone(void **s)
{
    (void)s;
    gateway_kit k;
    for (int is_lost = 0; is_lost < 2; is_lost++) {
        open_two_pairs(&k);
        gw_submit r = gateway_kit_request(1, 20);
        strcpy(r.prefer_prefill, "pb");
        strcpy(r.prefer_decode, "db");
        submit(&k, &r);
        gateway_kit_step(&k, &(gw_event){.type = GW_EV_CANCEL, .u.request = 1});
        assert_non_null(SAID(&k, DB, BT_MSG_ABORT));
        gateway_kit_step(&k, &(gw_event){.type = GW_EV_DRAIN});
        assert_null(DID(&k, GW_DO_EXIT));
        if (is_lost) {
            gateway_kit_step(&k, &(gw_event){.type = GW_EV_CUT, .u.cut = DB});
            assert_null(DID(&k, GW_DO_EXIT)); /* it may come back */
            gateway_kit_wait(&k, SECOND);
            assert_int_equal(gateway_kit_node(&k, DB)->state, GW_NODE_GONE);
        } else {
            gateway_kit_wait(&k, SECOND);
            assert_null(DID(&k, GW_DO_EXIT));
            gateway_kit_say(&k, DB, BT_MSG_ABORT_ACK, 1);
        }
        assert_non_null(DID(&k, GW_DO_EXIT));
        gateway_kit_close(&k);
    }
}

static void a_node_that_said_bye_stays_draining_when_its_connection_ends(void **s)
{
    (void)s;
    gateway_kit k;
    open_two_pairs(&k);
    gateway_kit_from(&k, DA, &(bt_msg){.type = BT_MSG_BYE});
    gateway_kit_step(&k, &(gw_event){.type = GW_EV_CUT, .u.cut = DA});
    for (int i = 0; i < 11; i++)
        gateway_kit_wait(&k, SECOND / 2); /* 5.5 s: it may come back in another role */
    assert_int_equal(gateway_kit_node(&k, DA)->state, GW_NODE_DRAINING);
    gateway_kit_wait(&k, SECOND / 2);
    assert_int_equal(gateway_kit_node(&k, DA)->state, GW_NODE_GONE);
    gateway_kit_close(&k);
    open_two_pairs(&k);
    bt_msg draining = {.type = BT_MSG_HEARTBEAT, .u.heartbeat.draining = true};
    gateway_kit_from(&k, DA, &draining);
    gateway_kit_step(&k, &(gw_event){.type = GW_EV_CUT, .u.cut = DA});
    gateway_kit_wait(&k, SECOND);
    assert_int_equal(gateway_kit_node(&k, DA)->state, GW_NODE_GONE); /* it died as it drained */
    gateway_kit_close(&k);
    open_two_pairs(&k);
    gateway_kit_from(&k, DA, &(bt_msg){.type = BT_MSG_BYE});
    gateway_kit_from(&k, DA, &(bt_msg){.type = BT_MSG_HEARTBEAT}); /* held up on its way: it seems to serve */
    gateway_kit_step(&k, &(gw_event){.type = GW_EV_CUT, .u.cut = DA});
    gateway_kit_wait(&k, SECOND);
    assert_int_equal(gateway_kit_node(&k, DA)->state, GW_NODE_GONE);
    gateway_kit_close(&k);
}

static void a_wish_that_cannot_be_met_ends_with_words_and_holds_up_nobody(void **s)
{
    (void)s;
    gateway_kit k;
    open_two_pairs(&k);
    gateway_kit_from(&k, DB, &(bt_msg){.type = BT_MSG_BYE});
    gw_submit r = gateway_kit_request(1, 20);
    strcpy(r.prefer_decode, "db");
    submit(&k, &r);
    assert_int_equal(gw_brain_queued(k.b), 1);
    r = gateway_kit_request(2, 20);
    submit(&k, &r);
    assert_int_equal(gw_brain_active(k.b), 1);
    gateway_kit_pass(&k, 30 * SECOND - 1, (bt_incarnation[]){PA, DA}, 2);
    assert_int_equal(k.failed, 0);
    gateway_kit_wait(&k, 1);
    assert_int_equal(k.failed, GW_FAIL_NO_NODE);
    assert_non_null(strstr(k.text, "decode node 'db'"));
    gateway_kit_close(&k);
}

static void a_name_that_no_node_has_had_is_refused_at_once(void **s)
{
    (void)s;
    for (int is_decode = 0; is_decode < 2; is_decode++) {
        gateway_kit k;
        open_two_pairs(&k);
        gw_submit r = gateway_kit_request(1, 20);
        strcpy(is_decode ? r.prefer_decode : r.prefer_prefill, "nosuch");
        submit(&k, &r); /* its node may be about to greet */
        assert_int_equal(k.failed, GW_FAIL_NO_NODE);
        assert_int_equal(DID(&k, GW_DO_FAIL)->u.fail.retry_after_ms, 2000);
        gateway_kit_pass(&k, 2 * SECOND, (bt_incarnation[]){PA, PB, DA, DB}, 4);
        r.request = 2;
        submit(&k, &r);
        assert_int_equal(DID(&k, GW_DO_FAIL)->u.fail.kind, GW_FAIL_UNKNOWN_NODE);
        assert_int_equal(DID(&k, GW_DO_FAIL)->u.fail.retry_after_ms, 0);
        assert_non_null(strstr(DID(&k, GW_DO_FAIL)->u.fail.text, "'nosuch'"));
        assert_int_equal(gw_brain_queued(k.b), 0);
        gateway_kit_close(&k);
    }
}

static void a_request_may_bring_its_own_policy(void **s)
{
    (void)s;
    gateway_kit k;
    open_two_pairs(&k);
    static int32_t ids[80];
    gw_submit r = gateway_kit_request(1, 10);
    r.ids = ids;
    r.ids_len = 80;
    submit(&k, &r);
    const bool on_a = SAID(&k, DA, BT_MSG_RESERVE) != NULL;
    const bt_incarnation p = on_a ? PA : PB, d = on_a ? DA : DB;
    gateway_kit_say(&k, d, BT_MSG_RESERVED, 1);
    gateway_kit_first(&k, p, 1, 40);
    r.request = 2; /* least load: the other pair */
    submit(&k, &r);
    assert_non_null(SAID(&k, on_a ? DB : DA, BT_MSG_RESERVE));
    r.request = 3;
    r.policy = GW_POLICY_PREFIX; /* where the prefix is known, although it is as busy */
    submit(&k, &r);
    const bt_msg *m = SAID(&k, d, BT_MSG_RESERVE);
    assert_non_null(m);
    assert_true(bt_incarnation_equal(&m->u.reserve.prefill, &p));
    gateway_kit_close(&k);
}

static void figures_of_what_was_there_already_are_passed_on(void **s)
{
    (void)s;
    gateway_kit k;
    open_two_pairs(&k);
    gateway_kit_submit(&k, 20);
    const bt_incarnation d = SAID(&k, DA, BT_MSG_RESERVE) ? DA : DB,
                         p = SAID(&k, d, BT_MSG_RESERVE)->u.reserve.prefill;
    bt_msg m = {.type = BT_MSG_RESERVED, .ref = {.attempt = 1}};
    m.u.reserved.covered_tokens = 10;
    gateway_kit_from(&k, d, &m);
    assert_int_equal(SAID(&k, p, BT_MSG_PREFILL)->u.prefill.covered_tokens, 10);
    m = (bt_msg){.type = BT_MSG_FIRST_TOKEN, .ref = {.attempt = 1}};
    m.u.first_token.token = 7; /* a stop id: the end */
    m.u.first_token.cached_tokens = 9;
    gateway_kit_from(&k, p, &m);
    assert_int_equal(DID(&k, GW_DO_DONE)->u.done.stats.cached_tokens, 9);
    assert_int_equal(DID(&k, GW_DO_DONE)->u.done.stats.covered_tokens, 10);
    assert_int_equal(gw_brain_counters(k.b)->cached_tokens, 9);
    assert_int_equal(gw_brain_counters(k.b)->covered_tokens, 10);
    gateway_kit_close(&k);
}

static void each_node_is_told_the_others_key_and_a_message_under_another_key_is_dropped(void **s)
{
    (void)s;
    gateway_kit k;
    gateway_kit_open(&k, NULL);
    bt_msg m = gateway_kit_hello(PA), beat = {.type = BT_MSG_HEARTBEAT, .from_key = {{7}}};
    beat.u.heartbeat.load.slots_total = 8;
    m.from_key.bytes[0] = 7;
    gateway_kit_from(&k, PA, &m);
    gateway_kit_from(&k, PA, &beat);
    m = gateway_kit_hello(DA);
    m.from_key.bytes[0] = beat.from_key.bytes[0] = 8;
    gateway_kit_from(&k, DA, &m);
    gateway_kit_from(&k, DA, &beat);
    gateway_kit_submit(&k, 20);
    const bt_msg_reserve *r = &SAID(&k, DA, BT_MSG_RESERVE)->u.reserve;
    assert_int_equal(r->prefill_key.bytes[0], 7);
    assert_true(r->prefill_class == gw_route_class("npu"));
    gateway_kit_say(&k, DA, BT_MSG_RESERVED, 1); /* without the key */
    assert_null(SAID(&k, PA, BT_MSG_PREFILL));
    assert_int_equal(gw_brain_counters(k.b)->wrong_key, 1);
    m = (bt_msg){.type = BT_MSG_RESERVED, .ref = {.attempt = 1}, .from_key = {{8}}};
    gateway_kit_from(&k, DA, &m);
    assert_int_equal(SAID(&k, PA, BT_MSG_PREFILL)->u.prefill.decode_key.bytes[0], 8);
    m = gateway_kit_hello(PA);
    m.from_key.bytes[0] = 8;
    gateway_kit_from(&k, PA, &m);
    assert_int_equal(SAID(&k, PA, BT_MSG_REJECT)->u.reject.code, BT_EAUTH);
    gateway_kit_close(&k);
}

/* HELLO of a second process under the name of DA, who has a key of its own. */
static void greet_as_da(gateway_kit *k)
{
    bt_msg m = gateway_kit_hello(DA_AGAIN);
    m.u.hello.pid = 812;
    m.from_address = "10.0.0.4";
    m.from_name = "decode-9";
    gateway_kit_from(k, DA_AGAIN, &m);
}

static void of_two_processes_with_one_name_the_one_that_answers_stays(void **s)
{
    (void)s;
    gateway_kit k;
    gateway_kit_open(&k, NULL);
    bt_msg m = gateway_kit_hello(DA);
    m.u.hello.pid = 4711;
    m.from_address = "10.0.0.3";
    m.from_name = "decode-0";
    gateway_kit_from(&k, DA, &m);
    for (int i = 0; i < 20; i++) { /* for 10 s */
        gateway_kit_wait(&k, SECOND / 2);
        gateway_kit_beat(&k, DA);
        greet_as_da(&k);
        assert_null(SAID(&k, DA_AGAIN, BT_MSG_WELCOME));
        const bt_msg *no = SAID(&k, DA_AGAIN, BT_MSG_REJECT);
        assert_int_equal(!no, i % 2 == 0); /* it is asked; it has answered */
        if (!no) assert_non_null(SAID(&k, DA, BT_MSG_HEARTBEAT));
        if (!no) continue;
        assert_int_equal(no->u.reject.code, BT_EAUTH);
        static const char *const said[] = {"'da'", "process 4711 at 10.0.0.3, key decode-0",
                                           "process 812 at 10.0.0.4, key decode-9"};
        for (int w = 0; w < 3; w++) {
            assert_non_null(strstr(no->u.reject.text, said[w]));
            assert_non_null(strstr(DID(&k, GW_DO_LOG)->u.log.text, said[w]));
        }
    }
    assert_int_equal(gateway_kit_node(&k, DA)->state, GW_NODE_READY);
    assert_null(gateway_kit_node(&k, DA_AGAIN));
    gateway_kit_close(&k);
}

static void a_name_whose_process_does_not_answer_is_given_to_the_next_within_a_second(void **s)
{
    (void)s;
    gateway_kit k;
    open_two_pairs(&k);
    greet_as_da(&k); /* DA has died without a word, a moment after it was heard */
    assert_null(SAID(&k, DA_AGAIN, BT_MSG_WELCOME));
    gateway_kit_wait(&k, SECOND / 2);
    greet_as_da(&k);
    assert_null(SAID(&k, DA_AGAIN, BT_MSG_WELCOME));
    gateway_kit_wait(&k, SECOND / 2);
    greet_as_da(&k);
    assert_non_null(SAID(&k, DA_AGAIN, BT_MSG_WELCOME));
    gateway_kit_close(&k);
    for (int how = 0; how < 3; how++) { /* at once: its connection has ended, it is gone, or it said so */
        open_two_pairs(&k);
        if (how == 0) gateway_kit_die(&k, DA);
        if (how == 1) gateway_kit_pass(&k, 6 * SECOND, NULL, 0);
        if (how == 2) gateway_kit_from(&k, DA, &(bt_msg){.type = BT_MSG_BYE});
        greet_as_da(&k);
        assert_non_null(SAID(&k, DA_AGAIN, BT_MSG_WELCOME));
        gateway_kit_close(&k);
    }
}

static void an_answer_to_an_old_question_keeps_no_name(void **s)
{
    (void)s;
    gateway_kit k;
    open_two_pairs(&k);
    greet_as_da(&k);
    gateway_kit_beat(&k, DA);
    gateway_kit_pass(&k, 3 * SECOND, NULL, 0); /* DA dies, and so does who wanted its name */
    for (int i = 0; i < 3; i++) {
        greet_as_da(&k);
        assert_null(SAID(&k, DA_AGAIN, BT_MSG_REJECT));
        assert_int_equal(SAID(&k, DA_AGAIN, BT_MSG_WELCOME) != NULL, i == 2);
        gateway_kit_wait(&k, SECOND / 2);
    }
    gateway_kit_close(&k);
}

static void a_name_that_the_allow_list_gives_to_another_key_is_refused(void **s)
{
    (void)s;
    gateway_kit k;
    gateway_kit_open(&k, NULL);
    bt_msg m = gateway_kit_hello(DA);
    m.from_name = "decode-9";
    m.is_anothers_name = true;
    gateway_kit_from(&k, DA, &m);
    assert_int_equal(SAID(&k, DA, BT_MSG_REJECT)->u.reject.code, BT_EAUTH);
    assert_non_null(strstr(SAID(&k, DA, BT_MSG_REJECT)->u.reject.text, "decode-9"));
    assert_null(gateway_kit_node(&k, DA));
    gateway_kit_close(&k);
}

static void ask_role(gateway_kit *k, const char *node_id, bt_role role, uint64_t token)
{
    gw_event ev = {.type = GW_EV_ROLE, .u.role = {.role = role, .token = token}};
    (void)snprintf(ev.u.role.node_id, sizeof ev.u.role.node_id, "%s", node_id);
    gateway_kit_step(k, &ev);
}

static void a_node_is_asked_for_another_role_until_it_answers(void **s)
{
    (void)s;
    gateway_kit k;
    open_two_pairs(&k);
    ask_role(&k, "da", BT_ROLE_PREFILL, 5);
    assert_int_equal(SAID(&k, DA, BT_MSG_ROLE)->u.role.role, BT_ROLE_PREFILL);
    assert_int_equal(gw_brain_due_us(k.b) <= k.now + 500000, 1);
    gateway_kit_wait(&k, 500000);
    assert_non_null(SAID(&k, DA, BT_MSG_ROLE));
    bt_msg m = {.type = BT_MSG_ROLE_ANSWER};
    m.u.role_answer.role = BT_ROLE_DECODE;
    gateway_kit_from(&k, DA, &m); /* to another question */
    assert_null(DID(&k, GW_DO_ROLE_ANSWER));
    m.u.role_answer.role = BT_ROLE_PREFILL;
    m.u.role_answer.code = BT_EAUTH;
    strcpy(m.u.role_answer.text, "not with this key");
    gateway_kit_from(&k, DA, &m);
    assert_int_equal(DID(&k, GW_DO_ROLE_ANSWER)->u.role_answer.token, 5);
    assert_int_equal(DID(&k, GW_DO_ROLE_ANSWER)->u.role_answer.code, BT_EAUTH);
    assert_string_equal(DID(&k, GW_DO_ROLE_ANSWER)->u.role_answer.text, "not with this key");
    gateway_kit_from(&k, DA, &m);
    assert_null(DID(&k, GW_DO_ROLE_ANSWER));
    gateway_kit_wait(&k, 500000);
    assert_null(SAID(&k, DA, BT_MSG_ROLE));
    gateway_kit_close(&k);
}

static void every_question_for_a_role_has_one_answer_in_its_time(void **s)
{
    (void)s;
    gateway_kit k;
    open_two_pairs(&k);
    ask_role(&k, "nobody", BT_ROLE_PREFILL, 1);
    assert_int_equal(DID(&k, GW_DO_ROLE_ANSWER)->u.role_answer.code, BT_EARG);
    ask_role(&k, "da", BT_ROLE_GATEWAY, 2);
    assert_int_equal(DID(&k, GW_DO_ROLE_ANSWER)->u.role_answer.code, BT_EARG);
    for (uint64_t i = 0; i < 8; i++) {
        ask_role(&k, i % 2 ? "da" : "db", BT_ROLE_PREFILL, 10 + i);
        assert_null(DID(&k, GW_DO_ROLE_ANSWER));
    }
    ask_role(&k, "da", BT_ROLE_PREFILL, 3);
    assert_int_equal(DID(&k, GW_DO_ROLE_ANSWER)->u.role_answer.code, BT_EAGAIN);
    gateway_kit_die(&k, DA);
    bt_msg m = gateway_kit_hello(DA_AGAIN); /* the process that was asked is no more */
    gateway_kit_from(&k, DA_AGAIN, &m);
    gateway_kit_wait(&k, 0);
    assert_int_equal(DID(&k, GW_DO_ROLE_ANSWER)->u.role_answer.code, BT_EAGAIN);
    gateway_kit_wait(&k, 5 * SECOND);
    uint32_t late = 0;
    for (size_t i = 0; i < k.acts.len; i++)
        late += k.acts.items[i].type == GW_DO_ROLE_ANSWER && k.acts.items[i].u.role_answer.code == BT_EIO;
    assert_int_equal(late, 4);
    gateway_kit_close(&k);
}

static void a_full_queue_says_when_half_of_it_will_have_gone(void **s)
{
    (void)s;
    gw_config c = gateway_kit_config();
    c.queue_max = 4;
    c.active_max = 1;
    gateway_kit k;
    gateway_kit_open(&k, &c);
    gateway_kit_join(&k, PA);
    gateway_kit_join(&k, DA);
    uint64_t number = 1;
    uint32_t retry_ms[2] = {0};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 20; i++) { /* one every 10 s */
            gw_submit r = gateway_kit_request(number, 1);
            submit(&k, &r);
            bt_msg m = {.type = BT_MSG_RESERVED, .ref = {{{1}}, number, 1}, .from = DA, .to = {{1}}};
            gateway_kit_step(&k, &(gw_event){.type = GW_EV_MSG, .u.msg = &m});
            m = (bt_msg){.type = BT_MSG_FIRST_TOKEN, .ref = {{{1}}, number, 1}, .from = PA, .to = {{1}}};
            gateway_kit_step(&k, &(gw_event){.type = GW_EV_MSG, .u.msg = &m});
            assert_non_null(DID(&k, GW_DO_DONE));
            number++;
            gateway_kit_pass(&k, round ? 4 * SECOND : 500000, (bt_incarnation[]){PA, DA}, 2);
            for (bt_incarnation *d = (bt_incarnation[]){DA, PA, {{0}}}; d->bytes[0]; d++) {
                m = (bt_msg){.type = BT_MSG_ABORT_ACK, .ref = {{{1}}, number - 1, 1}, .from = *d,
                             .to = {{1}}};
                gateway_kit_step(&k, &(gw_event){.type = GW_EV_MSG, .u.msg = &m});
            }
        }
        for (int i = 0; i < 6; i++) {
            gw_submit r = gateway_kit_request(number++, 20);
            submit(&k, &r);
        }
        assert_int_equal(DID(&k, GW_DO_FAIL)->u.fail.kind, GW_FAIL_OVERLOADED);
        assert_non_null(strstr(DID(&k, GW_DO_FAIL)->u.fail.text, "4 requests are waiting"));
        retry_ms[round] = DID(&k, GW_DO_FAIL)->u.fail.retry_after_ms;
        for (uint64_t i = number - 6; i < number; i++)
            gateway_kit_step(&k, &(gw_event){.type = GW_EV_CANCEL, .u.request = i});
        gateway_kit_pass(&k, 11 * SECOND, (bt_incarnation[]){PA, DA}, 2);
    }
    printf("retry after %u ms and %u ms\n", retry_ms[0], retry_ms[1]);
    assert_in_range(retry_ms[0], 1000, 2500);
    assert_in_range(retry_ms[1], 8000, 16000);
    gateway_kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_goes_to_the_nodes_it_asks_for_and_after_a_loss_to_others),
        cmocka_unit_test(a_gateway_that_drains_waits_for_nodes_to_let_go_but_not_for_one_that_is_gone),
        cmocka_unit_test(a_node_that_said_bye_stays_draining_when_its_connection_ends),
        cmocka_unit_test(a_wish_that_cannot_be_met_ends_with_words_and_holds_up_nobody),
        cmocka_unit_test(a_name_that_no_node_has_had_is_refused_at_once),
        cmocka_unit_test(a_request_may_bring_its_own_policy),
        cmocka_unit_test(figures_of_what_was_there_already_are_passed_on),
        cmocka_unit_test(each_node_is_told_the_others_key_and_a_message_under_another_key_is_dropped),
        cmocka_unit_test(of_two_processes_with_one_name_the_one_that_answers_stays),
        cmocka_unit_test(a_name_whose_process_does_not_answer_is_given_to_the_next_within_a_second),
        cmocka_unit_test(an_answer_to_an_old_question_keeps_no_name),
        cmocka_unit_test(a_name_that_the_allow_list_gives_to_another_key_is_refused),
        cmocka_unit_test(a_node_is_asked_for_another_role_until_it_answers),
        cmocka_unit_test(every_question_for_a_role_has_one_answer_in_its_time),
        cmocka_unit_test(a_full_queue_says_when_half_of_it_will_have_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
