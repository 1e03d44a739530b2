/* Attempts of one request on different nodes: local prefills, and new attempts that replay what the client
 * has already. */
#include "tests/helpers/brain/gateway_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const bt_incarnation SELF = {{1}}, DECODE = {{2}}, PREFILL = {{3}}, DECODE_2 = {{4}};
static int64_t now;
static gw_actions acts;
static int32_t heard[64]; /* what the client got, by index */
static uint32_t heard_len, firsts;
static int failed; /* kind of the FAIL that came */

/* Runs a step and notes the client's tokens: each index once, in order. */
static void step(gw_brain *b, const gw_event *ev)
{
    acts = gw_brain_step(b, ev, now, &(bt_random){{77, 2}});
    for (size_t i = 0; i < acts.len; i++) {
        const gw_action *a = &acts.items[i];
        firsts += a->type == GW_DO_FIRST;
        if (a->type == GW_DO_FAIL) failed = a->u.fail.kind;
        if (a->type != GW_DO_TOKENS) continue;
        assert_int_equal(a->u.tokens.first_index, heard_len);
        for (uint32_t k = 0; k < a->u.tokens.ids_len; k++) heard[heard_len++] = a->u.tokens.ids[k];
    }
}

static void from(gw_brain *b, bt_incarnation who, bt_msg *m)
{
    m->from = who;
    m->to = SELF;
    if (m->ref.attempt) {
        m->ref.owner = SELF;
        m->ref.number = 1;
    }
    step(b, &(gw_event){.type = GW_EV_MSG, .u.msg = m});
}

static void beat(gw_brain *b, bt_incarnation who)
{
    bt_msg m = {.type = BT_MSG_HEARTBEAT};
    m.u.heartbeat.load.slots_total = 1;
    from(b, who, &m);
}

static void join(gw_brain *b, bt_incarnation who, const char *exactness, const char *prefill_exactness)
{
    bt_msg m = {.type = BT_MSG_HELLO};
    m.u.hello =
        (bt_msg_hello){.protocol = BT_PROTOCOL_VERSION,
                       .role = bt_incarnation_equal(&who, &PREFILL) ? BT_ROLE_PREFILL : BT_ROLE_DECODE,
                       .model_id = {5},
                       .kv = {2, 1, 2, BT_KV_F16, 0, 0},
                       .ctx_tokens = 100,
                       .kv_capacity_tokens = 100,
                       .load = {.slots_total = 1}};
    snprintf(m.u.hello.node_id, sizeof m.u.hello.node_id, "n%d", who.bytes[0]);
    snprintf(m.u.hello.exactness, sizeof m.u.hello.exactness, "%s", exactness);
    snprintf(m.u.hello.prefill_exactness, sizeof m.u.hello.prefill_exactness, "%s", prefill_exactness);
    strcpy(m.u.hello.kv_endpoint, "tcp://127.0.0.1:1");
    from(b, who, &m);
    beat(b, who);
}

static gw_brain *make(uint32_t local_below)
{
    gw_config c = gw_config_defaults();
    c.self = SELF;
    c.model_id[0] = 5;
    c.nodes_max = 4;
    c.local_below_tokens = local_below;
    gw_brain *b = NULL;
    now = 1000000;
    heard_len = firsts = 0;
    failed = 0;
    assert_int_equal(gw_brain_new(&b, &c, NULL), BT_OK);
    return b;
}

static void submit(gw_brain *b, uint32_t max_tokens)
{
    static const int32_t ids[10] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    static const bt_sample_bias bias[2] = {{3, 1.0f}, {4, -1.0f}};
    const gw_submit s = {.request = 1,
                         .ids = ids,
                         .ids_len = 10,
                         .max_tokens = max_tokens,
                         .sampling = {.seed = 9, .bias = bias, .bias_len = 2},
                         .stop_ids_len = 1,
                         .stop_ids = {7}};
    step(b, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &s});
}

static void reserved(gw_brain *b, bt_incarnation who, uint32_t attempt)
{
    bt_msg m = {.type = BT_MSG_RESERVED, .ref = {.attempt = attempt}};
    m.u.reserved.ticket.bytes[3] = 8;
    from(b, who, &m);
}

static void first(gw_brain *b, bt_incarnation who, uint32_t attempt, int32_t token)
{
    bt_msg m = {.type = BT_MSG_FIRST_TOKEN, .ref = {.attempt = attempt}};
    m.u.first_token.token = token;
    from(b, who, &m);
}

static void tokens(gw_brain *b, bt_incarnation who, uint32_t attempt, uint32_t first_index,
                   const int32_t *ids, uint32_t len)
{
    bt_msg m = {.type = BT_MSG_TOKENS, .ref = {.attempt = attempt}};
    m.u.tokens = (bt_msg_tokens){.first_index = first_index, .ids = ids, .ids_len = len};
    from(b, who, &m);
}

static void give_up(gw_brain *b, bt_incarnation who, uint32_t attempt, bt_err code)
{
    bt_msg m = {.type = BT_MSG_FAILED, .ref = {.attempt = attempt}};
    m.u.failed.code = code;
    strcpy(m.u.failed.text, "preempted");
    from(b, who, &m);
    assert_int_equal(gateway_kit_said(acts, who, BT_MSG_ACK)->u.ack.of, BT_MSG_FAILED);
}

static void finished(gw_brain *b, bt_incarnation who, uint32_t attempt, uint32_t n)
{
    bt_msg m = {.type = BT_MSG_FINISHED, .ref = {.attempt = attempt}};
    m.u.finished = (bt_msg_finished){.reason = BT_FINISH_LENGTH, .completion_tokens = n, .decode_us = 9};
    from(b, who, &m);
}

static void reserve_carries_the_prompt_and_the_bias(void **s)
{
    (void)s;
    gw_brain *b = make(0);
    join(b, PREFILL, "npu", "");
    join(b, DECODE, "f16", "npu");
    submit(b, 20);
    const bt_msg_reserve *r = &gateway_kit_said(acts, DECODE, BT_MSG_RESERVE)->u.reserve;
    assert_int_equal(r->ids_len, 10);
    assert_int_equal(r->ids[9], 14);
    assert_int_equal(r->generated_len, 0);
    assert_false(r->is_local); /* --local-prefill-below 0 */
    assert_true(bt_incarnation_equal(&r->prefill, &PREFILL));
    assert_int_equal(r->sampling.bias_len, 2);
    assert_int_equal(r->sampling.bias[1].id, 4);
    gw_brain_free(b);
}

/* From SUBMIT to DONE on one decode node alone. */
static void run_locally(gw_brain *b, gw_local why)
{
    submit(b, 3);
    const bt_msg_reserve *r = &gateway_kit_said(acts, DECODE, BT_MSG_RESERVE)->u.reserve;
    assert_true(r->is_local);
    assert_true(bt_incarnation_equal(&r->prefill, &(bt_incarnation){{0}}));
    reserved(b, DECODE, 1);
    assert_null(gateway_kit_said(acts, PREFILL, BT_MSG_PREFILL));
    assert_null(gateway_kit_said(acts, DECODE, BT_MSG_PREFILL));
    for (int i = 0; i < 20; i++) { /* it may take its time, but says that rows appear */
        now += 1000000;
        beat(b, DECODE);
        from(b, DECODE, &(bt_msg){.type = BT_MSG_PREFILL_ACCEPTED, .ref = {.attempt = 1}});
    }
    assert_null(gateway_kit_did(acts, GW_DO_FAIL));
    first(b, DECODE, 1, 40);
    assert_int_equal(gateway_kit_said(acts, DECODE, BT_MSG_ACK)->u.ack.of, BT_MSG_FIRST_TOKEN);
    bt_msg m = {.type = BT_MSG_PREFILL_DONE, .ref = {.attempt = 1}};
    m.u.prefill_done.kv_digest.bytes[0] = 0xab;
    from(b, DECODE, &m);
    assert_int_equal(gateway_kit_said(acts, DECODE, BT_MSG_ACK)->u.ack.of, BT_MSG_PREFILL_DONE);
    static const int32_t more[] = {41, 42};
    tokens(b, DECODE, 1, 1, more, 2);
    finished(b, DECODE, 1, 3);
    const gw_stats *st = &gateway_kit_did(acts, GW_DO_DONE)->u.done.stats;
    assert_int_equal(heard_len, 3);
    assert_int_equal(firsts, 1);
    assert_string_equal(st->prefilled_by, "n2");
    assert_int_equal(st->local, why);
    assert_true(st->has_kv);
    assert_int_equal(st->kv_bytes, 0);
    assert_int_equal(st->kv_digest.bytes[0], 0xab);
    assert_int_equal(gw_brain_active(b), 0);
    assert_int_equal(gw_brain_counters(b)->local_prefills[why], 1);
}

static void a_short_prompt_is_computed_by_the_decode_node_of_the_same_class(void **s)
{
    (void)s;
    gw_brain *b = make(11);
    join(b, PREFILL, "npu", "");
    join(b, DECODE, "f16", "npu");
    run_locally(b, GW_LOCAL_SHORT);
    gw_brain_free(b);
}

static void a_decode_node_that_prefills_makes_the_gateway_ready_alone(void **s)
{
    (void)s;
    gw_brain *b = make(0);
    join(b, DECODE, "f16", "npu");
    assert_true(gw_brain_is_ready(b));
    assert_int_equal(gw_brain_limit_tokens(b), 100);
    run_locally(b, GW_LOCAL_NO_PREFILL_NODE);
    gw_brain_free(b);
}

static void another_class_is_never_local_which_is_counted_each_time_and_logged_once(void **s)
{
    (void)s;
    gw_brain *b = make(11);
    join(b, PREFILL, "npu 1", "");
    join(b, DECODE, "f16", "npu 2");
    submit(b, 3);
    assert_false(gateway_kit_said(acts, DECODE, BT_MSG_RESERVE)->u.reserve.is_local);
    assert_non_null(strstr(gateway_kit_did(acts, GW_DO_LOG)->u.log.text, "npu 2"));
    reserved(b, DECODE, 1);
    first(b, PREFILL, 1, 40);
    give_up(b, DECODE, 1, BT_EAGAIN);
    from(b, PREFILL, &(bt_msg){.type = BT_MSG_ABORT_ACK, .ref = {.attempt = 1}});
    now += 100000;
    step(b, &(gw_event){.type = GW_EV_TICK});
    assert_false(gateway_kit_said(acts, DECODE, BT_MSG_RESERVE)->u.reserve.is_local);
    assert_null(gateway_kit_did(acts, GW_DO_LOG));
    assert_int_equal(gw_brain_counters(b)->local_refused, 2);
    assert_int_equal(gw_brain_counters(b)->local_prefills[GW_LOCAL_SHORT], 0);
    gw_brain_free(b);
}

/* Tokens 40, 41, 42 are accepted on DECODE; then it gives the attempt up. */
static gw_brain *preempted(const char *own_engine)
{
    static const int32_t more[] = {41, 42};
    gw_brain *b = make(0);
    join(b, PREFILL, "npu", "");
    join(b, DECODE, "f16", own_engine);
    submit(b, 20);
    reserved(b, DECODE, 1);
    first(b, PREFILL, 1, 40);
    tokens(b, DECODE, 1, 1, more, 2);
    give_up(b, DECODE, 1, BT_EAGAIN);
    assert_null(gateway_kit_did(acts, GW_DO_FAIL));
    assert_non_null(gateway_kit_said(acts, PREFILL, BT_MSG_ABORT));
    from(b, PREFILL, &(bt_msg){.type = BT_MSG_ABORT_ACK, .ref = {.attempt = 1}});
    assert_int_equal(gw_brain_queued(b), 1);
    return b;
}

static void a_preempted_request_goes_on_elsewhere_without_a_repeated_missing_or_changed_token(void **s)
{
    (void)s;
    static const int32_t again[] = {41, 42, 43}, more[] = {44, 45};
    gw_brain *b = preempted("");
    join(b, DECODE_2, "f16", "");
    bt_msg bye = {.type = BT_MSG_BYE};
    from(b, DECODE, &bye);
    assert_null(gateway_kit_said(acts, DECODE_2, BT_MSG_RESERVE)); /* a pause first */
    now += 100000;
    step(b, &(gw_event){.type = GW_EV_TICK});
    const bt_msg *r = gateway_kit_said(acts, DECODE_2, BT_MSG_RESERVE);
    assert_int_equal(r->ref.attempt, 2);
    assert_int_equal(r->u.reserve.generated_len, 3);
    assert_int_equal(r->u.reserve.generated[0], 40);
    assert_int_equal(r->u.reserve.generated[2], 42);
    assert_int_equal(r->u.reserve.max_tokens, 20);
    assert_int_equal(r->u.reserve.sampling.seed, 9);
    reserved(b, DECODE_2, 2);
    assert_int_equal(gateway_kit_said(acts, PREFILL, BT_MSG_PREFILL)->ref.attempt, 2);
    tokens(b, DECODE_2, 2, 3, more, 1); /* 44 at index 3, before token 0: kept */
    tokens(b, DECODE, 1, 3, again, 3);  /* the old attempt */
    assert_non_null(gateway_kit_said(acts, DECODE, BT_MSG_ABORT));
    first(b, PREFILL, 2, 40);
    assert_int_equal(heard_len, 4);
    tokens(b, DECODE_2, 2, 1, again, 2); /* all over again: known already */
    assert_int_equal(gateway_kit_said(acts, DECODE_2, BT_MSG_TOKENS_ACK)->u.tokens_ack.next_index, 4);
    tokens(b, DECODE_2, 2, 4, more + 1, 1);
    finished(b, DECODE_2, 2, 5);
    bt_msg done = {.type = BT_MSG_PREFILL_DONE, .ref = {.attempt = 2}};
    from(b, PREFILL, &done);
    assert_int_equal(gateway_kit_did(acts, GW_DO_DONE)->u.done.stats.attempts, 2);
    static const int32_t want[] = {40, 41, 42, 44, 45};
    assert_int_equal(heard_len, 5);
    assert_memory_equal(heard, want, sizeof want);
    assert_int_equal(firsts, 1);
    assert_int_equal(gw_brain_counters(b)->replays, 1);
    assert_int_equal(gw_brain_counters(b)->replayed_tokens, 3);
    gw_brain_free(b);
}

static void another_token_0_ends_the_request_with_words_that_say_so(void **s)
{
    (void)s;
    gw_brain *b = preempted("");
    now += 100000;
    step(b, &(gw_event){.type = GW_EV_TICK});
    reserved(b, DECODE, 2);
    first(b, PREFILL, 2, 99);
    const gw_action *f = gateway_kit_did(acts, GW_DO_FAIL);
    assert_int_equal(f->u.fail.kind, GW_FAIL_REFUSED);
    assert_non_null(strstr(f->u.fail.text, "gave token 99 where it had given 40"));
    assert_int_equal(heard_len, 3);
    gw_brain_free(b);
}

static void a_local_replay_needs_no_token_0_but_checks_one_that_comes(void **s)
{
    (void)s;
    static const int32_t more[] = {43};
    for (int wrong = 0; wrong < 2; wrong++) {
        gw_brain *b = preempted("npu");
        bt_msg bye = {.type = BT_MSG_BYE};
        from(b, PREFILL, &bye);
        now += 100000;
        step(b, &(gw_event){.type = GW_EV_TICK});
        assert_true(gateway_kit_said(acts, DECODE, BT_MSG_RESERVE)->u.reserve.is_local);
        assert_int_equal(gateway_kit_said(acts, DECODE, BT_MSG_RESERVE)->u.reserve.generated_len, 3);
        reserved(b, DECODE, 2);
        if (wrong) {
            first(b, DECODE, 2, 39);
            assert_int_equal(gateway_kit_did(acts, GW_DO_FAIL)->u.fail.kind, GW_FAIL_REFUSED);
        } else {
            tokens(b, DECODE, 2, 3, more, 1);
            first(b, DECODE, 2, 40);
            assert_null(gateway_kit_did(acts, GW_DO_FAIL));
            assert_int_equal(heard_len, 4);
            assert_int_equal(heard[3], 43);
        }
        assert_int_equal(firsts, 1);
        gw_brain_free(b);
    }
}

static void a_decode_node_that_computes_known_rows_again_is_slow_and_not_lost(void **s)
{
    (void)s;
    static const int32_t more[] = {41};
    for (int says = 0; says < 2; says++) {
        gw_brain *b = make(0);
        join(b, PREFILL, "npu", "");
        join(b, DECODE, "f16", "");
        submit(b, 20);
        reserved(b, DECODE, 1);
        first(b, PREFILL, 1, 40);
        for (int i = 0; i < 40; i++) { /* seconds without a token */
            now += 1000000;
            beat(b, DECODE);
            beat(b, PREFILL);
            if (says) from(b, DECODE, &(bt_msg){.type = BT_MSG_PREFILL_ACCEPTED, .ref = {.attempt = 1}});
        }
        assert_int_equal(gw_brain_counters(b)->recoveries[GW_CAUSE_NO_PROGRESS], !says);
        tokens(b, DECODE, 1, 1, more, 1);
        assert_int_equal(heard_len, says ? 2 : 1);
        gw_brain_free(b);
    }
}

static void what_has_tokens_waits_for_nodes_of_its_classes(void **s)
{
    (void)s;
    gw_brain *b = preempted("");
    join(b, DECODE_2, "int8", "");
    bt_msg bye = {.type = BT_MSG_BYE};
    from(b, DECODE, &bye);
    now += 1000000;
    step(b, &(gw_event){.type = GW_EV_TICK});
    assert_null(gateway_kit_said(acts, DECODE_2, BT_MSG_RESERVE));
    assert_int_equal(gw_brain_queued(b), 1);
    gw_brain_free(b);
}

static void pauses_grow_while_no_token_comes_and_patience_ends_after_32_attempts(void **s)
{
    (void)s;
    static const int64_t pauses[] = {100000, 200000, 400000, 800000, 1600000, 1600000};
    gw_brain *b = preempted("");
    for (uint32_t i = 0; i < 31; i++) {
        assert_int_equal(failed, 0);
        beat(b, PREFILL);
        beat(b, DECODE);
        now += pauses[i < 5 ? i : 5] - 1;
        step(b, &(gw_event){.type = GW_EV_TICK});
        assert_null(gateway_kit_said(acts, DECODE, BT_MSG_RESERVE));
        now += 1;
        step(b, &(gw_event){.type = GW_EV_TICK});
        assert_int_equal(gateway_kit_said(acts, DECODE, BT_MSG_RESERVE)->ref.attempt, i + 2);
        give_up(b, DECODE, i + 2, BT_EAGAIN);
    }
    assert_int_equal(failed, GW_FAIL_OVERLOADED);
    assert_true(gateway_kit_did(acts, GW_DO_FAIL)->u.fail.retry_after_ms > 0);
    assert_int_equal(gw_brain_counters(b)->recoveries[GW_CAUSE_GAVE_UP], 32);
    gw_brain_free(b);
}

static void a_failure_for_good_is_the_end_and_a_stop_string_may_come_while_waiting(void **s)
{
    (void)s;
    gw_brain *b = make(0);
    join(b, PREFILL, "npu", "");
    join(b, DECODE, "f16", "");
    submit(b, 20);
    reserved(b, DECODE, 1);
    first(b, PREFILL, 1, 40);
    give_up(b, DECODE, 1, BT_EFORMAT);
    assert_int_equal(gateway_kit_did(acts, GW_DO_FAIL)->u.fail.kind, GW_FAIL_REFUSED);
    gw_brain_free(b);
    b = preempted("");
    step(b, &(gw_event){.type = GW_EV_FINISH_EARLY, .u.request = 1});
    assert_int_equal(gateway_kit_did(acts, GW_DO_DONE)->u.done.reason, BT_FINISH_STOP);
    assert_int_equal(gw_brain_queued(b), 0);
    gw_brain_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserve_carries_the_prompt_and_the_bias),
        cmocka_unit_test(a_short_prompt_is_computed_by_the_decode_node_of_the_same_class),
        cmocka_unit_test(a_decode_node_that_prefills_makes_the_gateway_ready_alone),
        cmocka_unit_test(another_class_is_never_local_which_is_counted_each_time_and_logged_once),
        cmocka_unit_test(a_preempted_request_goes_on_elsewhere_without_a_repeated_missing_or_changed_token),
        cmocka_unit_test(another_token_0_ends_the_request_with_words_that_say_so),
        cmocka_unit_test(a_local_replay_needs_no_token_0_but_checks_one_that_comes),
        cmocka_unit_test(a_decode_node_that_computes_known_rows_again_is_slow_and_not_lost),
        cmocka_unit_test(what_has_tokens_waits_for_nodes_of_its_classes),
        cmocka_unit_test(pauses_grow_while_no_token_comes_and_patience_ends_after_32_attempts),
        cmocka_unit_test(a_failure_for_good_is_the_end_and_a_stop_string_may_come_while_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
