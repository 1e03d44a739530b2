/* A request outlives its nodes: whatever is lost when, its tokens go on without one repeated, missing or
 * changed, or it ends with an error in its time. The kit checks that the client hears each index once, in
 * order. */
#include "tests/helpers/brain/gateway_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const bt_incarnation PA = {{0x1a}}, PB = {{0x1b}}, PA_AGAIN = {{0x3a}}, DA = {{0x2a}}, DB = {{0x2b}},
                            DA_AGAIN = {{0x4a}};
enum { SECOND = 1000000 };
#define ALIVE(...) \
    (bt_incarnation[]){__VA_ARGS__}, sizeof((bt_incarnation[]){__VA_ARGS__}) / sizeof(bt_incarnation)
#define SAID(k, who, type) gateway_kit_said((k)->acts, who, type)
#define DID(k, type)       gateway_kit_did((k)->acts, type)

typedef enum upto { RESERVING, PREFILLING, ACCEPTED, TOKEN_0, TOKENS } upto;

/* PA and DA are there; the request has come that far on them. */
static void begin(gateway_kit *k, upto u)
{
    gateway_kit_open(k, NULL);
    gateway_kit_join(k, PA);
    gateway_kit_join(k, DA);
    gateway_kit_submit(k, 20);
    assert_int_equal(SAID(k, DA, BT_MSG_RESERVE)->u.reserve.sampling.seed, 77);
    if (u >= PREFILLING) gateway_kit_say(k, DA, BT_MSG_RESERVED, 1);
    if (u >= ACCEPTED) gateway_kit_say(k, PA, BT_MSG_PREFILL_ACCEPTED, 1);
    if (u >= TOKEN_0) gateway_kit_first(k, PA, 1, 40);
    if (u >= TOKENS) gateway_kit_tokens(k, DA, 1, 1, 3);
    assert_int_equal(k->heard_len, u == TOKENS ? 4 : u == TOKEN_0);
}

/* The attempt runs on p and d from RESERVE on to the end, and the client has 20 tokens: 40, 41 .. 59. */
static void finish_on(gateway_kit *k, bt_incarnation p, bt_incarnation d, uint32_t attempt)
{
    const uint32_t base = k->heard_len;
    const bt_msg *m = SAID(k, d, BT_MSG_RESERVE);
    assert_non_null(m);
    assert_int_equal(m->ref.attempt, attempt);
    assert_int_equal(m->u.reserve.generated_len, base);
    for (uint32_t i = 0; i < base; i++) assert_int_equal(m->u.reserve.generated[i], 40 + i);
    assert_int_equal(m->u.reserve.sampling.seed, 77);
    const bt_prompt_salt salt = gateway_kit_request(1, 20).salt; /* of the first attempt */
    assert_memory_equal(&m->u.reserve.salt, &salt, sizeof salt);
    assert_true(bt_incarnation_equal(&m->u.reserve.prefill, &p));
    gateway_kit_say(k, d, BT_MSG_RESERVED, attempt);
    assert_true(bt_incarnation_equal(&SAID(k, p, BT_MSG_PREFILL)->u.prefill.decode, &d));
    assert_memory_equal(&SAID(k, p, BT_MSG_PREFILL)->u.prefill.salt, &salt, sizeof salt);
    gateway_kit_say(k, p, BT_MSG_PREFILL_ACCEPTED, attempt);
    gateway_kit_first(k, p, attempt, 40);
    gateway_kit_tokens(k, d, attempt, base ? base : 1, 20 - (base ? base : 1));
    gateway_kit_say(k, p, BT_MSG_PREFILL_DONE, attempt);
    gateway_kit_finished(k, d, attempt, 20);
    assert_true(k->is_done);
    assert_int_equal(k->heard_len, 20);
    assert_int_equal(k->firsts, 1);
    for (int i = 0; i < 20; i++) assert_int_equal(k->heard[i], 40 + i);
    assert_int_equal(DID(k, GW_DO_DONE)->u.done.stats.attempts, attempt);
    assert_int_equal(DID(k, GW_DO_DONE)->u.done.stats.recoveries, attempt - 1);
}

static void a_lost_decode_node_costs_no_token_wherever_the_request_was(void **s)
{
    (void)s;
    for (upto u = RESERVING; u <= TOKENS; u++) {
        for (int restarted = 0; restarted < 2; restarted++) {
            gateway_kit k;
            begin(&k, u);
            gateway_kit_join(&k, DB);
            if (restarted) {
                gateway_kit_die(&k, DA);
                bt_msg m = gateway_kit_hello(DA_AGAIN);
                gateway_kit_from(&k, DA_AGAIN, &m);
            } else {
                /* Before it answers, it is given up after 5 s; then nothing is heard for 6 s. */
                for (int i = 0; i < 12 && !SAID(&k, DB, BT_MSG_RESERVE); i++) {
                    gateway_kit_wait(&k, 500000);
                    if (!SAID(&k, DB, BT_MSG_RESERVE)) gateway_kit_beat(&k, PA);
                    if (!SAID(&k, DB, BT_MSG_RESERVE)) gateway_kit_beat(&k, DB);
                }
            }
            const uint64_t *why = gw_brain_counters(k.b)->recoveries;
            assert_int_equal(why[restarted                           ? GW_CAUSE_RESTARTED
                                 : u == RESERVING || u == PREFILLING ? GW_CAUSE_NO_ANSWER
                                                                     : GW_CAUSE_GONE],
                             1);
            finish_on(&k, PA, DB, 2);
            assert_int_equal(gateway_kit_node(&k, PA)->attempts, u >= PREFILLING); /* it owes ABORT_ACK */
            gateway_kit_close(&k);
        }
    }
}

static void cut(gateway_kit *k, bt_incarnation who)
{
    gateway_kit_step(k, &(gw_event){.type = GW_EV_CUT, .u.cut = who});
}

static void a_node_whose_connection_ended_is_lost_when_the_next_heartbeat_does_not_come(void **s)
{
    (void)s;
    for (upto u = RESERVING; u <= TOKENS; u++) {
        gateway_kit k;
        begin(&k, u);
        gateway_kit_join(&k, DB);
        cut(&k, DA);
        assert_int_equal(gateway_kit_node(&k, DA)->state, GW_NODE_SUSPECT);
        assert_true(gw_brain_due_us(k.b) <= k.now + 800000);
        gateway_kit_wait(&k, 600000);
        cut(&k, DA); /* what is said twice begins no new wait */
        gateway_kit_wait(&k, 199999);
        assert_null(SAID(&k, DB, BT_MSG_RESERVE));
        gateway_kit_wait(&k, 1);
        assert_int_equal(gateway_kit_node(&k, DA)->state, GW_NODE_GONE);
        assert_int_equal(gw_brain_counters(k.b)->recoveries[GW_CAUSE_GONE], 1);
        assert_non_null(strstr(DID(&k, GW_DO_LOG)->u.log.text, "decode node da has lost its connection"));
        assert_non_null(SAID(&k, DA, BT_MSG_ABORT)); /* it may live, behind a broken wire */
        finish_on(&k, PA, DB, 2);
        gateway_kit_close(&k);
    }
}

static void a_node_that_is_heard_after_a_cut_is_not_lost(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, TOKENS);
    for (int i = 0; i < 5; i++) {
        cut(&k, DA);
        cut(&k, PA);
        gateway_kit_wait(&k, 799999);
        gateway_kit_beat(&k, PA);
        gateway_kit_tokens(&k, DA, 1, 4 + i, 1); /* any word of it will do */
        assert_int_equal(gateway_kit_node(&k, DA)->state, GW_NODE_READY);
    }
    gateway_kit_pass(&k, 3 * SECOND, ALIVE(PA, DA));
    gateway_kit_tokens(&k, DA, 1, 9, 11);
    gateway_kit_say(&k, PA, BT_MSG_PREFILL_DONE, 1);
    gateway_kit_finished(&k, DA, 1, 20);
    assert_true(k.is_done);
    assert_int_equal(DID(&k, GW_DO_DONE)->u.done.stats.attempts, 1);
    gateway_kit_close(&k);
}

/* The connection that ended was an older one of it: no link comes up, it beats when it is time. */
static void an_untrue_cut_of_an_idle_node_is_mended_by_its_next_heartbeat(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, TOKENS);
    gateway_kit_beat(&k, DA);
    cut(&k, DA);
    gateway_kit_wait(&k, gateway_kit_config().heartbeat_us + 100000); /* the timer and the wire are late */
    gateway_kit_beat(&k, DA);
    assert_int_equal(gateway_kit_node(&k, DA)->state, GW_NODE_READY);
    assert_int_equal(gw_brain_counters(k.b)->recoveries[GW_CAUSE_GONE], 0);
    gateway_kit_close(&k);
}

static void a_cut_of_nobody_known_asks_every_node_and_changes_nothing(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, TOKENS);
    cut(&k, DB); /* no such node */
    gateway_kit_step(&k, &(gw_event){.type = GW_EV_CUT});
    assert_non_null(SAID(&k, PA, BT_MSG_HEARTBEAT));
    assert_non_null(SAID(&k, DA, BT_MSG_HEARTBEAT));
    assert_int_equal(gateway_kit_node(&k, PA)->state, GW_NODE_READY);
    assert_int_equal(gateway_kit_node(&k, DA)->state, GW_NODE_READY);
    gateway_kit_close(&k);
}

static void a_lost_prefill_node_costs_no_token_until_its_rows_are_committed(void **s)
{
    (void)s;
    for (upto u = RESERVING; u <= TOKEN_0; u++) {
        gateway_kit k;
        begin(&k, u);
        gateway_kit_join(&k, PB);
        gateway_kit_die(&k, PA);
        bt_msg m = gateway_kit_hello(PA_AGAIN);
        gateway_kit_from(&k, PA_AGAIN, &m);
        assert_non_null(SAID(&k, DA, BT_MSG_ABORT));
        finish_on(&k, PB, DA, 2); /* PA has just failed the request */
        gateway_kit_close(&k);
    }
}

static void a_lost_prefill_node_is_not_missed_once_its_rows_are_committed(void **s)
{
    (void)s;
    for (int told = 0; told < 2; told++) {
        gateway_kit k;
        begin(&k, told ? TOKEN_0 : TOKENS); /* a token of the decode node says it too */
        if (told) gateway_kit_say(&k, PA, BT_MSG_PREFILL_DONE, 1);
        gateway_kit_die(&k, PA);
        bt_msg m = gateway_kit_hello(PA_AGAIN);
        gateway_kit_from(&k, PA_AGAIN, &m);
        assert_int_equal(gw_brain_active(k.b), 1);
        gateway_kit_tokens(&k, DA, 1, k.heard_len, 20 - k.heard_len);
        gateway_kit_finished(&k, DA, 1, 20);
        assert_true(k.is_done);
        assert_int_equal(k.heard_len, 20);
        gateway_kit_close(&k);
    }
}

static void both_lost_at_once_and_two_others_go_on(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, TOKENS);
    gateway_kit_pass(&k, 6 * SECOND, NULL, 0);
    assert_int_equal(gw_brain_queued(k.b), 1);
    gateway_kit_join(&k, PB);
    gateway_kit_join(&k, DB);
    finish_on(&k, PB, DB, 2);
    gateway_kit_close(&k);
}

static void the_same_nodes_started_again_within_30_s_go_on(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, TOKENS);
    gateway_kit_pass(&k, 6 * SECOND, NULL, 0);
    gateway_kit_pass(&k, 29 * SECOND, NULL, 0);
    assert_int_equal(k.failed, 0);
    gateway_kit_join(&k, PA_AGAIN);
    gateway_kit_join(&k, DA_AGAIN);
    finish_on(&k, PA_AGAIN, DA_AGAIN, 2);
    assert_int_equal(gw_brain_debts(k.b), 0); /* the old processes owe nothing */
    gateway_kit_close(&k);
}

static void an_error_comes_exactly_when_the_recovery_time_is_over(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, TOKENS);
    gateway_kit_die(&k, DA);
    bt_msg m = gateway_kit_hello(DA_AGAIN); /* the loss: it greets, and is never heard again */
    gateway_kit_from(&k, DA_AGAIN, &m);
    gateway_kit_pass(&k, 30 * SECOND - 1, ALIVE(PA));
    assert_int_equal(k.failed, 0);
    assert_int_equal(gw_brain_due_us(k.b), k.now + 1);
    gateway_kit_wait(&k, 1);
    assert_int_equal(k.failed, GW_FAIL_NODE_LOST);
    assert_non_null(strstr(k.text, "the decode node da was restarted"));
    assert_non_null(strstr(k.text, "30 s"));
    assert_true(DID(&k, GW_DO_FAIL)->u.fail.retry_after_ms > 0);
    gateway_kit_close(&k);
}

static void accepted_means_by_both_and_only_then_the_clock_stops(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, TOKENS);
    gateway_kit_join(&k, DB);
    gateway_kit_failed(&k, DA, 1, BT_EIO);
    for (uint32_t attempt = 2; !k.failed; attempt++) { /* DB answers, PA beats, but accepts nothing */
        const int64_t until = k.now + 8 * SECOND;
        bt_incarnation d = DB;
        while (!k.failed && k.now < until) {
            const bt_msg *m =
                SAID(&k, DB, BT_MSG_RESERVE) ? SAID(&k, DB, BT_MSG_RESERVE) : SAID(&k, DA, BT_MSG_RESERVE);
            if (m) {
                d = bt_incarnation_equal(&m->to, &DA) ? DA : DB;
                gateway_kit_say(&k, d, BT_MSG_RESERVED, m->ref.attempt);
                break;
            }
            gateway_kit_wait(&k, 100000);
            if (!SAID(&k, DB, BT_MSG_RESERVE) && !SAID(&k, DA, BT_MSG_RESERVE)) gateway_kit_beat(&k, PA);
            if (!SAID(&k, DB, BT_MSG_RESERVE) && !SAID(&k, DA, BT_MSG_RESERVE)) gateway_kit_beat(&k, DA);
            if (!SAID(&k, DB, BT_MSG_RESERVE) && !SAID(&k, DA, BT_MSG_RESERVE)) gateway_kit_beat(&k, DB);
        }
    }
    assert_int_equal(k.failed, GW_FAIL_NODE_LOST);
    assert_in_range(k.now - 1000000, 30 * SECOND, 30 * SECOND + 100000);
    gateway_kit_close(&k);
}

static void a_client_that_goes_during_recovery_leaves_nothing_but_debts(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, TOKENS);
    gateway_kit_pass(&k, 6 * SECOND, ALIVE(PA));
    assert_int_equal(gw_brain_queued(k.b), 1);
    assert_int_equal(gateway_kit_node(&k, DA)->attempts, 1);
    gateway_kit_step(&k, &(gw_event){.type = GW_EV_CANCEL, .u.request = 1});
    assert_int_equal(k.failed, GW_FAIL_CANCELLED);
    assert_int_equal(gw_brain_queued(k.b) + gw_brain_active(k.b), 0);
    assert_int_equal(gw_brain_debts(k.b), 2);
    gateway_kit_wait(&k, 500000);
    assert_non_null(SAID(&k, DA, BT_MSG_ABORT));
    assert_non_null(SAID(&k, PA, BT_MSG_ABORT));
    gateway_kit_say(&k, PA, BT_MSG_ABORT_ACK, 1);
    assert_int_equal(gateway_kit_node(&k, PA)->attempts, 0);
    gateway_kit_pass(&k, 9500000, ALIVE(PA)); /* DA stays silent: its lease is over */
    assert_int_equal(gw_brain_debts(k.b), 0);
    assert_int_equal(gateway_kit_node(&k, DA)->attempts, 0);
    gateway_kit_close(&k);
}

static void a_stopped_decode_node_that_wakes_up_is_not_believed(void **s)
{
    (void)s;
    for (int after_lease = 0; after_lease < 2; after_lease++) {
        gateway_kit k;
        begin(&k, TOKENS);
        gateway_kit_join(&k, DB);
        gateway_kit_pass(&k, 7 * SECOND, ALIVE(PA, DB));
        gateway_kit_say(&k, DB, BT_MSG_RESERVED, 2);
        gateway_kit_say(&k, PA, BT_MSG_PREFILL_ACCEPTED, 2);
        gateway_kit_first(&k, PA, 2, 40);
        if (after_lease) gateway_kit_pass(&k, 11 * SECOND, ALIVE(PA, DB));
        const uint64_t stale = gw_brain_counters(k.b)->stale_attempt;
        gateway_kit_tokens(&k, DA, 1, 4, 2); /* what it made before it was stopped */
        assert_int_equal(k.heard_len, 4);
        assert_int_equal(gw_brain_counters(k.b)->stale_attempt, stale + 1);
        assert_null(SAID(&k, DA, BT_MSG_TOKENS_ACK));
        assert_non_null(SAID(&k, DA, BT_MSG_ABORT));
        assert_int_equal(gateway_kit_node(&k, DA)->state, GW_NODE_READY); /* nobody is banned */
        gateway_kit_finished(&k, DA, 1, 6);
        assert_non_null(SAID(&k, DA, BT_MSG_FINISHED_ACK)); /* so that it stops saying so */
        assert_false(k.is_done);
        assert_int_equal(gateway_kit_node(&k, DA)->attempts, 0);
        gateway_kit_tokens(&k, DB, 2, 4, 16);
        assert_int_equal(k.heard_len, 20);
        gateway_kit_close(&k);
    }
}

static void a_full_table_of_debts_forgets_the_one_that_ends_first(void **s)
{
    (void)s;
    gw_config c = gateway_kit_config();
    c.active_max = 1; /* 4 debts */
    c.lease_ms = 600000;
    gateway_kit k;
    gateway_kit_open(&k, &c);
    gateway_kit_join(&k, PA);
    gateway_kit_join(&k, DA);
    gateway_kit_submit(&k, 20);
    gateway_kit_pass(&k, 34 * SECOND, ALIVE(PA, DA)); /* DA beats, but answers nothing: every 5 s another
                                                         attempt */
    assert_int_equal(gw_brain_debts(k.b), 4);
    assert_int_equal(gw_brain_counters(k.b)->debts_forgotten, 2);
    assert_int_equal(gateway_kit_node(&k, DA)->attempts, 4 + gw_brain_active(k.b));
    assert_int_equal(gateway_kit_node(&k, PA)->attempts, gw_brain_active(k.b));
    gateway_kit_pass(&k, 2 * SECOND, ALIVE(PA, DA));
    assert_int_equal(k.failed, GW_FAIL_NODE_LOST);
    gateway_kit_say(&k, DA, BT_MSG_ABORT_ACK, 1); /* of a forgotten one */
    assert_int_equal(gateway_kit_node(&k, DA)->attempts, 4);
    gateway_kit_say(&k, DA, BT_MSG_ABORT_ACK, 6);
    assert_int_equal(gateway_kit_node(&k, DA)->attempts, 3);
    gateway_kit_close(&k);
}

static void what_a_node_says_of_an_attempt_that_was_left_is_acknowledged_or_aborted(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, ACCEPTED);
    gateway_kit_join(&k, PB);
    gateway_kit_failed(&k, PA, 1, BT_EIO);
    assert_int_equal(SAID(&k, PB, BT_MSG_PREFILL) == NULL, 1);
    gateway_kit_first(&k, PA, 1, 99); /* it had said so before it failed */
    assert_int_equal(SAID(&k, PA, BT_MSG_ACK)->u.ack.of, BT_MSG_FIRST_TOKEN);
    gateway_kit_say(&k, DA, BT_MSG_RESERVED, 1);
    assert_int_equal(SAID(&k, DA, BT_MSG_ABORT)->ref.attempt, 1);
    gateway_kit_failed(&k, DA, 1, BT_ECANCEL);
    assert_int_equal(SAID(&k, DA, BT_MSG_ACK)->u.ack.of, BT_MSG_FAILED);
    assert_int_equal(gw_brain_debts(k.b), 0);
    assert_int_equal(k.heard_len, 0);
    assert_int_equal(gw_brain_active(k.b), 1);
    gateway_kit_close(&k);
}

static void bye_is_a_loss_at_once(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, TOKENS);
    gateway_kit_join(&k, DB);
    gateway_kit_from(&k, DA, &(bt_msg){.type = BT_MSG_BYE});
    assert_int_equal(gw_brain_counters(k.b)->recoveries[GW_CAUSE_LEFT], 1);
    finish_on(&k, PA, DB, 2);
    gateway_kit_close(&k);
}

static void a_refusing_prefill_node_refuses_for_one_decode_node_only(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, PREFILLING);
    bt_msg m = {.type = BT_MSG_REFUSED, .ref = {.attempt = 1}};
    m.u.refused = (bt_msg_refused){.of = BT_MSG_PREFILL, .code = BT_EAGAIN, .retry_after_ms = 300};
    gateway_kit_from(&k, PA, &m);
    assert_non_null(SAID(&k, DA, BT_MSG_ABORT));
    assert_null(SAID(&k, DA, BT_MSG_RESERVE));
    assert_int_equal(gw_brain_due_us(k.b) <= k.now + 300000, 1);
    gateway_kit_wait(&k, 299999);
    assert_null(SAID(&k, DA, BT_MSG_RESERVE));
    gateway_kit_join(&k, DB); /* with this one it may have room */
    gateway_kit_beat(&k, DB);
    assert_int_equal(gw_brain_active(k.b), 1);
    m.ref.attempt = 2;
    gateway_kit_from(&k, PA, &m); /* not asked for yet, nor refused */
    gateway_kit_say(&k, DB, BT_MSG_RESERVED, 2);
    m.ref.attempt = 2;
    gateway_kit_from(&k, PA, &m);
    gateway_kit_wait(&k, 1); /* the first refusal is over */
    assert_int_equal(gw_brain_active(k.b), 1);
    assert_int_equal(k.failed, 0);
    gateway_kit_close(&k);
}

static void who_failed_is_avoided_for_a_while_then_tried_once_then_trusted(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, TOKENS);
    gateway_kit_join(&k, DB);
    gateway_kit_failed(&k, DA, 1, BT_EIO);
    assert_non_null(SAID(&k, DB, BT_MSG_RESERVE));
    uint64_t number = 2;
    for (int i = 0; i < 3; i++) { /* DB has one more each time, DA none: but it has just failed */
        const gw_submit r = gateway_kit_request(number++, 20);
        gateway_kit_step(&k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &r});
        assert_non_null(SAID(&k, DB, BT_MSG_RESERVE));
    }
    gateway_kit_wait(&k, 500000);
    for (int i = 0; i < 3; i++) { /* the first is a trial, and the others wait for its outcome */
        const gw_submit r = gateway_kit_request(number++, 20);
        gateway_kit_step(&k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &r});
        assert_non_null(SAID(&k, i == 0 ? DA : DB, BT_MSG_RESERVE));
    }
    gateway_kit_close(&k);
}

static void where_nothing_else_would_do_the_node_that_failed_is_tried_again(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, TOKENS);
    gateway_kit_failed(&k, DA, 1, BT_EIO);
    finish_on(&k, PA, DA, 2);
    gateway_kit_close(&k);
}

static void a_first_pair_is_waited_for_and_after_30_s_without_one_nobody_waits(void **s)
{
    (void)s;
    gateway_kit k;
    gateway_kit_open(&k, NULL);
    gateway_kit_wait(&k, 0);
    gateway_kit_wait(&k, 20 * SECOND);
    gateway_kit_submit(&k, 20);
    gateway_kit_wait(&k, 10 * SECOND - 1);
    assert_int_equal(k.failed, 0);
    gateway_kit_wait(&k, 1);
    assert_int_equal(k.failed, GW_FAIL_NO_NODE);
    const gw_submit late = gateway_kit_request(2, 20);
    gateway_kit_step(&k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &late});
    assert_int_equal(DID(&k, GW_DO_FAIL)->u.fail.kind, GW_FAIL_NO_NODE);
    assert_true(DID(&k, GW_DO_FAIL)->u.fail.retry_after_ms > 0);
    gateway_kit_close(&k);
    gateway_kit_open(&k, NULL);
    gateway_kit_wait(&k, 0);
    gateway_kit_submit(&k, 20);
    gateway_kit_wait(&k, 29 * SECOND);
    gateway_kit_join(&k, PA);
    gateway_kit_join(&k, DA);
    assert_non_null(SAID(&k, DA, BT_MSG_RESERVE));
    gateway_kit_close(&k);
}

static void what_waits_behind_a_busy_node_is_not_failed_for_want_of_nodes(void **s)
{
    (void)s;
    gw_config c = gateway_kit_config();
    c.active_max = 1;
    gateway_kit k;
    gateway_kit_open(&k, &c);
    gateway_kit_wait(&k, 0);
    gateway_kit_submit(&k, 20);
    const gw_submit second = gateway_kit_request(2, 20);
    gateway_kit_step(&k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &second});
    gateway_kit_join(&k, PA);
    gateway_kit_join(&k, DA);
    gateway_kit_say(&k, DA, BT_MSG_RESERVED, 1);
    gateway_kit_say(&k, PA, BT_MSG_PREFILL_ACCEPTED, 1);
    for (int i = 0; i < 40; i++) {
        gateway_kit_pass(&k, SECOND, ALIVE(PA, DA));
        gateway_kit_say(&k, PA, BT_MSG_PREFILL_ACCEPTED, 1);
    }
    assert_int_equal(gw_brain_queued(k.b), 1);
    assert_int_equal(gw_brain_counters(k.b)->failed[GW_FAIL_NO_NODE], 0);
    gateway_kit_close(&k);
}

static void a_request_that_comes_back_stands_before_those_that_came_later(void **s)
{
    (void)s;
    gw_config c = gateway_kit_config();
    c.active_max = 1;
    gateway_kit k;
    gateway_kit_open(&k, &c);
    gateway_kit_join(&k, PA);
    gateway_kit_join(&k, DA);
    gateway_kit_submit(&k, 20);
    const gw_submit second = gateway_kit_request(2, 20);
    gateway_kit_step(&k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &second});
    gateway_kit_failed(&k, DA, 1, BT_EIO);
    assert_int_equal(SAID(&k, DA, BT_MSG_RESERVE)->ref.number, 1);
    gateway_kit_close(&k);
}

static void a_request_that_no_present_node_may_continue_holds_up_nobody(void **s)
{
    (void)s;
    gateway_kit k;
    begin(&k, TOKENS);
    gateway_kit_die(&k, DA);
    bt_msg m = gateway_kit_hello(DA_AGAIN); /* the name comes back with another class */
    strcpy(m.u.hello.exactness, "int8");
    gateway_kit_from(&k, DA_AGAIN, &m);
    gateway_kit_beat(&k, DA_AGAIN);
    assert_null(SAID(&k, DA_AGAIN, BT_MSG_RESERVE));
    const gw_submit second = gateway_kit_request(2, 20);
    gateway_kit_step(&k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &second});
    assert_int_equal(SAID(&k, DA_AGAIN, BT_MSG_RESERVE)->ref.number, 2);
    gateway_kit_join(&k, DB);
    assert_int_equal(SAID(&k, DB, BT_MSG_RESERVE)->ref.number, 1);
    gateway_kit_close(&k);
}

static void a_silent_node_is_probed_ever_more_rarely_and_is_back_with_one_word(void **s)
{
    (void)s;
    gateway_kit k;
    gateway_kit_open(&k, NULL);
    gateway_kit_join(&k, DA);
    int64_t last = k.now, gaps[64];
    uint32_t n = 0;
    for (const int64_t end = k.now + 50 * SECOND; k.now < end;) {
        gateway_kit_wait(&k, 100000);
        if (!SAID(&k, DA, BT_MSG_HEARTBEAT)) continue;
        gaps[n++] = k.now - last;
        last = k.now;
    }
    assert_in_range(n, 9, 14);
    assert_int_equal(gaps[1], 500000);
    assert_int_equal(gaps[n - 1], 8 * SECOND);
    for (uint32_t i = 2; i < n; i++) assert_true(gaps[i] >= gaps[i - 1]);
    assert_int_equal(gateway_kit_node(&k, DA)->state, GW_NODE_GONE);
    gateway_kit_beat(&k, DA);
    assert_int_equal(gateway_kit_node(&k, DA)->state, GW_NODE_READY);
    gateway_kit_wait(&k, 500000);
    assert_non_null(SAID(&k, DA, BT_MSG_HEARTBEAT));
    gateway_kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_decode_node_costs_no_token_wherever_the_request_was),
        cmocka_unit_test(a_lost_prefill_node_costs_no_token_until_its_rows_are_committed),
        cmocka_unit_test(a_lost_prefill_node_is_not_missed_once_its_rows_are_committed),
        cmocka_unit_test(a_node_whose_connection_ended_is_lost_when_the_next_heartbeat_does_not_come),
        cmocka_unit_test(a_node_that_is_heard_after_a_cut_is_not_lost),
        cmocka_unit_test(an_untrue_cut_of_an_idle_node_is_mended_by_its_next_heartbeat),
        cmocka_unit_test(a_cut_of_nobody_known_asks_every_node_and_changes_nothing),
        cmocka_unit_test(both_lost_at_once_and_two_others_go_on),
        cmocka_unit_test(the_same_nodes_started_again_within_30_s_go_on),
        cmocka_unit_test(an_error_comes_exactly_when_the_recovery_time_is_over),
        cmocka_unit_test(accepted_means_by_both_and_only_then_the_clock_stops),
        cmocka_unit_test(a_client_that_goes_during_recovery_leaves_nothing_but_debts),
        cmocka_unit_test(a_stopped_decode_node_that_wakes_up_is_not_believed),
        cmocka_unit_test(a_full_table_of_debts_forgets_the_one_that_ends_first),
        cmocka_unit_test(what_a_node_says_of_an_attempt_that_was_left_is_acknowledged_or_aborted),
        cmocka_unit_test(bye_is_a_loss_at_once),
        cmocka_unit_test(a_refusing_prefill_node_refuses_for_one_decode_node_only),
        cmocka_unit_test(who_failed_is_avoided_for_a_while_then_tried_once_then_trusted),
        cmocka_unit_test(where_nothing_else_would_do_the_node_that_failed_is_tried_again),
        cmocka_unit_test(a_first_pair_is_waited_for_and_after_30_s_without_one_nobody_waits),
        cmocka_unit_test(what_waits_behind_a_busy_node_is_not_failed_for_want_of_nodes),
        cmocka_unit_test(a_request_that_comes_back_stands_before_those_that_came_later),
        cmocka_unit_test(a_request_that_no_present_node_may_continue_holds_up_nobody),
        cmocka_unit_test(a_silent_node_is_probed_ever_more_rarely_and_is_back_with_one_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
