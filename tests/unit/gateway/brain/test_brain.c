/* The gateway's brain alone: one final answer a request, the next index only, deadlines, and every message in
 * every state. */
#include "tests/helpers/brain/gateway_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const bt_incarnation SELF = {{1}}, DECODE = {{2}}, PREFILL = {{3}}, OTHER = {{9}};
static int64_t now;
static gw_actions acts;

static void step(gw_brain *b, const gw_event *ev) { acts = gw_brain_step(b, ev, now, &(bt_random){{77, 2}}); }

static void from(gw_brain *b, bt_incarnation who, bt_msg *m)
{
    m->from = who;
    if (m->to.bytes[0] == 0) m->to = SELF;
    if (m->ref.attempt) m->ref.owner = SELF;
    step(b, &(gw_event){.type = GW_EV_MSG, .u.msg = m});
}

static bt_msg hello_msg(bt_role role)
{
    bt_msg m = {.type = BT_MSG_HELLO};
    m.u.hello = (bt_msg_hello){.protocol = BT_PROTOCOL_VERSION,  .role = role,      .model_id = {5},
                               .kv = {2, 1, 2, BT_KV_F16, 0, 0}, .ctx_tokens = 100, .kv_capacity_tokens = 100,
                               .load = {.slots_total = 1}};
    strcpy(m.u.hello.node_id, role == BT_ROLE_PREFILL ? "p" : "d");
    strcpy(m.u.hello.kv_endpoint, "tcp://127.0.0.1:1");
    static bt_msg_engine engine; /* overwritten by the next HELLO: the brain keeps its own */
    snprintf(engine.name, sizeof engine.name, "%s", role == BT_ROLE_PREFILL ? "npu" : "gone");
    if (role == BT_ROLE_PREFILL) m.u.hello.engine = &engine;
    return m;
}

static void beat(gw_brain *b, bt_incarnation who)
{
    bt_msg m = {.type = BT_MSG_HEARTBEAT};
    m.u.heartbeat.load.slots_total = 1;
    from(b, who, &m);
}

static void join(gw_brain *b, bt_incarnation who, bt_role role)
{
    bt_msg m = hello_msg(role);
    from(b, who, &m);
    assert_non_null(gateway_kit_said(acts, who, BT_MSG_WELCOME));
    beat(b, who);
}

static gw_brain *make(void)
{
    gw_config c = gw_config_defaults();
    c.self = SELF;
    c.model_id[0] = 5;
    c.nodes_max = 4;
    c.queue_max = 2;
    gw_brain *b = NULL;
    now = 1000000;
    assert_int_equal(gw_brain_new(&b, &c, NULL), BT_OK);
    return b;
}

static gw_brain *make_ready(void)
{
    gw_brain *b = make();
    join(b, PREFILL, BT_ROLE_PREFILL);
    join(b, DECODE, BT_ROLE_DECODE);
    assert_true(gw_brain_is_ready(b));
    return b;
}

static void submit_long(gw_brain *b, uint64_t request, uint32_t prompt_tokens, uint32_t max_tokens)
{
    static const int32_t ids[200];
    gw_submit s = {.request = request, .ids = ids,        .ids_len = prompt_tokens, .max_tokens = max_tokens,
                   .draw_seed = true,  .stop_ids_len = 1, .stop_ids = {7}};
    step(b, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &s});
}

static void submit(gw_brain *b, uint64_t request, uint32_t max_tokens)
{
    submit_long(b, request, 10, max_tokens);
}

static void reserved(gw_brain *b, uint32_t attempt)
{
    bt_msg m = {.type = BT_MSG_RESERVED, .ref = {SELF, 1, attempt}};
    m.u.reserved.ticket.bytes[3] = 8;
    from(b, DECODE, &m);
}

static void first(gw_brain *b, int32_t token)
{
    bt_msg m = {.type = BT_MSG_FIRST_TOKEN, .ref = {SELF, 1, 1}};
    m.u.first_token.token = token;
    m.u.first_token.work.rows = 16;
    from(b, PREFILL, &m);
}

static void tokens(gw_brain *b, uint32_t first_index, const int32_t *ids, uint32_t len)
{
    bt_msg m = {.type = BT_MSG_TOKENS, .ref = {SELF, 1, 1}};
    m.u.tokens = (bt_msg_tokens){.first_index = first_index, .ids = ids, .ids_len = len};
    from(b, DECODE, &m);
}

static void finished(gw_brain *b, uint32_t n)
{
    bt_msg m = {.type = BT_MSG_FINISHED, .ref = {SELF, 1, 1}};
    m.u.finished = (bt_msg_finished){.reason = BT_FINISH_STOP, .completion_tokens = n, .decode_us = 9};
    from(b, DECODE, &m);
}

static void to_prefilling(gw_brain *b)
{
    submit(b, 1, 20);
    assert_int_equal(gateway_kit_said(acts, DECODE, BT_MSG_RESERVE)->u.reserve.sampling.seed, 77);
    reserved(b, 1);
    assert_int_equal(gateway_kit_said(acts, PREFILL, BT_MSG_PREFILL)->u.prefill.ticket.bytes[3], 8);
    from(b, PREFILL, &(bt_msg){.type = BT_MSG_PREFILL_ACCEPTED, .ref = {SELF, 1, 1}});
}

static void to_decoding(gw_brain *b)
{
    to_prefilling(b);
    first(b, 40);
    assert_non_null(gateway_kit_did(acts, GW_DO_FIRST));
    assert_int_equal(gateway_kit_did(acts, GW_DO_TOKENS)->u.tokens.ids[0], 40);
    assert_non_null(gateway_kit_said(acts, PREFILL, BT_MSG_ACK));
}

static void done_with_figures_waits_for_both_reports(void **s)
{
    (void)s;
    gw_brain *b = make_ready();
    to_decoding(b);
    tokens(b, 1, (int32_t[]){41, 42, 7}, 3);
    /* the stop id is not the client's */
    assert_int_equal(gateway_kit_did(acts, GW_DO_TOKENS)->u.tokens.ids_len, 2);
    assert_int_equal(gateway_kit_said(acts, DECODE, BT_MSG_TOKENS_ACK)->u.tokens_ack.next_index, 4);
    assert_null(gateway_kit_did(acts, GW_DO_DONE));
    finished(b, 4);
    assert_non_null(gateway_kit_said(acts, DECODE, BT_MSG_FINISHED_ACK));
    assert_null(gateway_kit_did(acts, GW_DO_DONE));
    bt_msg m = {.type = BT_MSG_PREFILL_DONE, .ref = {SELF, 1, 1}};
    m.u.prefill_done.kv_bytes = 123;
    from(b, PREFILL, &m);
    const gw_action *d = gateway_kit_did(acts, GW_DO_DONE);
    assert_int_equal(d->u.done.reason, BT_FINISH_STOP);
    assert_int_equal(d->u.done.stats.completion_tokens, 3);
    assert_int_equal(d->u.done.stats.kv_bytes, 123);
    assert_true(d->u.done.stats.has_decode && d->u.done.stats.has_first && d->u.done.stats.has_kv);
    assert_string_equal(d->u.done.stats.engine->name, "npu");
    assert_int_equal(d->u.done.stats.work.rows, 16);
    assert_int_equal(gw_brain_active(b), 0);
    gw_brain_free(b);
}

static void done_comes_after_a_short_grace_without_the_reports(void **s)
{
    (void)s;
    gw_brain *b = make_ready();
    to_decoding(b);
    tokens(b, 1, (int32_t[]){7}, 1);
    now += 1000000;
    step(b, &(gw_event){.type = GW_EV_TICK});
    assert_false(gateway_kit_did(acts, GW_DO_DONE)->u.done.stats.has_kv);
    assert_non_null(gateway_kit_said(acts, PREFILL, BT_MSG_ABORT));
    assert_non_null(gateway_kit_said(acts, DECODE, BT_MSG_ABORT));
    gw_brain_free(b);
}

static void takes_the_next_index_only(void **s)
{
    (void)s;
    gw_brain *b = make_ready();
    to_decoding(b);
    tokens(b, 2, (int32_t[]){50}, 1);
    assert_null(gateway_kit_did(acts, GW_DO_TOKENS));
    assert_int_equal(gateway_kit_said(acts, DECODE, BT_MSG_TOKENS_ACK)->u.tokens_ack.next_index, 1);
    tokens(b, 1, (int32_t[]){41, 42}, 2);
    tokens(b, 1, (int32_t[]){41, 42, 43}, 3);
    assert_int_equal(gateway_kit_did(acts, GW_DO_TOKENS)->u.tokens.first_index, 3);
    assert_int_equal(gateway_kit_did(acts, GW_DO_TOKENS)->u.tokens.ids_len, 1);
    tokens(b, 0, (int32_t[]){40}, 1);
    assert_null(gateway_kit_did(acts, GW_DO_TOKENS));
    finished(b, 9); /* tokens are still missing: not accepted yet */
    assert_null(gateway_kit_said(acts, DECODE, BT_MSG_FINISHED_ACK));
    gw_brain_free(b);
}

static void token_0_that_ends_aborts_both(void **s)
{
    (void)s;
    for (int i = 0; i < 2; i++) {
        gw_brain *b = make_ready();
        submit(b, 1, i ? 1 : 20);
        reserved(b, 1);
        first(b, i ? 40 : 7);
        assert_int_equal(gateway_kit_did(acts, GW_DO_DONE)->u.done.reason,
                         i ? BT_FINISH_LENGTH : BT_FINISH_STOP);
        assert_int_equal(gateway_kit_did(acts, GW_DO_TOKENS) != NULL, i);
        assert_non_null(gateway_kit_said(acts, PREFILL, BT_MSG_ABORT));
        assert_non_null(gateway_kit_said(acts, DECODE, BT_MSG_ABORT));
        now += 500000;
        from(b, PREFILL, &(bt_msg){.type = BT_MSG_ABORT_ACK, .ref = {SELF, 1, 1}});
        assert_non_null(gateway_kit_said(acts, DECODE, BT_MSG_ABORT)); /* again, until answered */
        from(b, DECODE, &(bt_msg){.type = BT_MSG_ABORT_ACK, .ref = {SELF, 1, 1}});
        assert_int_equal(gw_brain_active(b), 0);
        gw_brain_free(b);
    }
}

static void a_refusal_for_now_is_another_attempt_and_one_for_good_is_the_end(void **s)
{
    (void)s;
    gw_brain *b = make_ready();
    submit(b, 1, 20);
    bt_msg m = {.type = BT_MSG_REFUSED, .ref = {SELF, 1, 1}};
    m.u.refused = (bt_msg_refused){.of = BT_MSG_RESERVE, .code = BT_EAGAIN, .retry_after_ms = 100};
    from(b, DECODE, &m);
    assert_null(gateway_kit_did(acts, GW_DO_FAIL));
    assert_int_equal(gw_brain_queued(b), 1);
    now += 99999;
    step(b, &(gw_event){.type = GW_EV_TICK});
    assert_null(gateway_kit_said(acts, DECODE, BT_MSG_RESERVE));
    now += 1;
    step(b, &(gw_event){.type = GW_EV_TICK});
    assert_int_equal(gateway_kit_said(acts, DECODE, BT_MSG_RESERVE)->ref.attempt, 2);
    reserved(b, 1); /* an answer to the old attempt */
    assert_null(gateway_kit_said(acts, PREFILL, BT_MSG_PREFILL));
    m.ref.attempt = 2;
    m.u.refused.code = BT_EARG;
    m.u.refused.retry_after_ms = 0;
    strcpy(m.u.refused.text, "no");
    from(b, DECODE, &m);
    assert_int_equal(gateway_kit_did(acts, GW_DO_FAIL)->u.fail.kind, GW_FAIL_REFUSED);
    assert_string_equal(gateway_kit_did(acts, GW_DO_FAIL)->u.fail.text, "no");
    gw_brain_free(b);
}

/* Asked 30 ms after it came, refused after 5, asked again 100 later, granted after 7; the prompt 20 later. */
static void waiting_for_room_is_told_from_the_first_reserve_to_the_grant(void **s)
{
    (void)s;
    gw_brain *b = make();
    submit(b, 1, 1);
    now += 30000;
    join(b, PREFILL, BT_ROLE_PREFILL);
    join(b, DECODE, BT_ROLE_DECODE);
    now += 5000;
    bt_msg m = {.type = BT_MSG_REFUSED, .ref = {SELF, 1, 1}};
    m.u.refused = (bt_msg_refused){.of = BT_MSG_RESERVE, .code = BT_EAGAIN, .retry_after_ms = 100};
    from(b, DECODE, &m);
    now += 100000;
    step(b, &(gw_event){.type = GW_EV_TICK});
    now += 7000;
    reserved(b, 2);
    assert_non_null(gateway_kit_said(acts, PREFILL, BT_MSG_PREFILL));
    now += 20000;
    m = (bt_msg){.type = BT_MSG_FIRST_TOKEN, .ref = {SELF, 1, 2}};
    m.u.first_token.token = 40;
    m.u.first_token.queue_us = 8000;
    m.u.first_token.prefill_us = 11000;
    from(b, PREFILL, &m);
    const gw_stats *f = &gateway_kit_did(acts, GW_DO_DONE)->u.done.stats;
    assert_int_equal(f->gateway_queue_us, 30000);
    assert_int_equal(f->reserve_us, 112000);
    assert_int_equal(f->ttft_us, 30000 + 112000 + 20000);
    gw_brain_free(b);
}

static void one_that_was_never_granted_room_tells_no_time_of_it(void **s)
{
    (void)s;
    gw_brain *b = make_ready();
    submit(b, 1, 1);
    now += 5000;
    step(b, &(gw_event){.type = GW_EV_CANCEL, .u.request = 1});
    assert_int_equal(gateway_kit_did(acts, GW_DO_FAIL)->u.fail.stats.gateway_queue_us, 0);
    assert_int_equal(gateway_kit_did(acts, GW_DO_FAIL)->u.fail.stats.reserve_us, -1);
    gw_brain_free(b);
}

static void the_process_before_a_restarted_node_is_a_stranger(void **s)
{
    (void)s;
    gw_brain *b = make_ready();
    to_prefilling(b);
    bt_msg m = hello_msg(BT_ROLE_PREFILL);
    step(b, &(gw_event){.type = GW_EV_CUT, .u.cut = PREFILL});
    now += GW_REDIAL_US;
    from(b, OTHER, &m);
    assert_null(gateway_kit_did(acts, GW_DO_FAIL));
    assert_non_null(gateway_kit_said(acts, DECODE, BT_MSG_ABORT));
    beat(b, PREFILL); /* the old one is a stranger now, and may not take the name back */
    assert_int_equal(gateway_kit_said(acts, PREFILL, BT_MSG_REJECT)->u.reject.code, BT_EAGAIN);
    m = hello_msg(BT_ROLE_PREFILL);
    from(b, PREFILL, &m);
    assert_non_null(gateway_kit_said(acts, OTHER, BT_MSG_HEARTBEAT)); /* whoever has the name is asked */
    beat(b, OTHER);
    m = hello_msg(BT_ROLE_PREFILL);
    from(b, PREFILL, &m);
    assert_int_equal(gateway_kit_said(acts, PREFILL, BT_MSG_REJECT)->u.reject.code, BT_EAUTH);
    gw_brain_free(b);
}

static void silence_makes_a_node_suspect_then_gone_and_a_word_brings_it_back(void **s)
{
    (void)s;
    gw_brain *b = make_ready();
    to_decoding(b);
    for (int i = 0; i < 4; i++) {
        now += 500000;
        beat(b, PREFILL);
    }
    assert_int_equal(gw_registry_find(gw_brain_registry(b), &DECODE)->state, GW_NODE_SUSPECT);
    assert_false(gw_brain_is_ready(b));
    for (int i = 0; i < 8; i++) {
        assert_int_equal(gw_brain_queued(b), 0);
        now += 500000;
        beat(b, PREFILL);
    }
    assert_int_equal(gw_brain_queued(b), 1);
    assert_int_equal(gw_registry_find(gw_brain_registry(b), &DECODE)->state, GW_NODE_GONE);
    assert_int_equal(gw_brain_counters(b)->recoveries[GW_CAUSE_GONE], 1);
    beat(b, DECODE);
    assert_int_equal(gw_registry_find(gw_brain_registry(b), &DECODE)->state, GW_NODE_READY);
    assert_true(gw_brain_is_ready(b));
    gw_brain_free(b);
}

static void every_wait_has_an_end(void **s)
{
    (void)s;
    for (int state = 0; state < 4; state++) {
        gw_brain *b = state ? make_ready() : make();
        if (state == 0 || state == 1) submit(b, 1, 20);
        if (state == 2) to_prefilling(b);
        if (state == 3) to_decoding(b);
        gw_fail_kind want = state == 0 ? GW_FAIL_NO_NODE : GW_FAIL_NODE_LOST;
        int answers = 0;
        for (int i = 0; i < 200; i++) {
            now += 500000;
            if (state) beat(b, PREFILL);
            else step(b, &(gw_event){.type = GW_EV_TICK});
            if (gateway_kit_did(acts, GW_DO_FAIL))
                assert_int_equal(gateway_kit_did(acts, GW_DO_FAIL)->u.fail.kind, want);
            answers += gateway_kit_did(acts, GW_DO_FAIL) != NULL;
            if (!state) continue;
            beat(b, DECODE);
            answers += gateway_kit_did(acts, GW_DO_FAIL) != NULL;
        }
        assert_int_equal(answers, 1);
        /* nobody answers ABORT: the leases end */
        assert_int_equal(gw_brain_active(b) + gw_brain_queued(b) + gw_brain_debts(b), 0);
        gw_brain_free(b);
    }
}

static void a_prompt_that_makes_rows_slowly_is_waited_for(void **s)
{
    (void)s;
    gw_brain *b = make_ready();
    to_prefilling(b);
    int failed = 0;
    for (int i = 0; i < 400; i++) { /* 200 s, far beyond the first deadline of 31 s */
        now += 500000;
        beat(b, PREFILL);
        failed += gateway_kit_did(acts, GW_DO_FAIL) != NULL;
        beat(b, DECODE);
        failed += gateway_kit_did(acts, GW_DO_FAIL) != NULL;
        if (i % 2 == 0) from(b, PREFILL, &(bt_msg){.type = BT_MSG_PREFILL_ACCEPTED, .ref = {SELF, 1, 1}});
    }
    assert_int_equal(failed, 0);
    assert_int_equal(gw_brain_active(b), 1);
    for (int i = 0; i < 130; i++) { /* no more rows: another attempt after 31 s, and 30 s for that */
        now += 500000;
        beat(b, PREFILL);
        failed += gateway_kit_did(acts, GW_DO_FAIL) != NULL;
        beat(b, DECODE);
        failed += gateway_kit_did(acts, GW_DO_FAIL) != NULL;
    }
    assert_int_equal(failed, 1);
    gw_brain_free(b);
}

static void renews_leases_of_both_sides(void **s)
{
    (void)s;
    gw_brain *b = make_ready();
    to_decoding(b);
    int renewed = 0;
    for (int i = 0; i < 20; i++) {
        now += 500000;
        beat(b, PREFILL);
        renewed +=
            gateway_kit_said(acts, DECODE, BT_MSG_RENEW) && gateway_kit_said(acts, PREFILL, BT_MSG_RENEW);
        beat(b, DECODE);
    }
    assert_int_equal(renewed, 4);
    gw_brain_free(b);
}

static void cancels_and_ends_early_once(void **s)
{
    (void)s;
    gw_brain *b = make_ready();
    to_decoding(b);
    step(b, &(gw_event){.type = GW_EV_FINISH_EARLY, .u.request = 1});
    assert_int_equal(gateway_kit_did(acts, GW_DO_DONE)->u.done.reason, BT_FINISH_STOP);
    step(b, &(gw_event){.type = GW_EV_CANCEL, .u.request = 1});
    assert_int_equal(acts.len, 0);
    submit(b, 2, 20);
    submit(b, 3, 20);
    submit(b, 4, 20);
    assert_int_equal(gateway_kit_did(acts, GW_DO_FAIL)->u.fail.kind, GW_FAIL_OVERLOADED);
    assert_true(gateway_kit_did(acts, GW_DO_FAIL)->u.fail.retry_after_ms > 0);
    step(b, &(gw_event){.type = GW_EV_CANCEL, .u.request = 2});
    assert_int_equal(gateway_kit_did(acts, GW_DO_FAIL)->u.fail.kind, GW_FAIL_CANCELLED);
    submit(b, 4, 20); /* a number used before */
    assert_int_equal(gateway_kit_did(acts, GW_DO_FAIL)->u.fail.kind, GW_FAIL_BAD);
    gw_brain_free(b);
}

static void refuses_a_prompt_that_leaves_no_room_with_both_numbers(void **s)
{
    (void)s;
    gw_brain *b = make_ready();
    submit_long(b, 1, 100, 30);
    const gw_action *a = gateway_kit_did(acts, GW_DO_FAIL);
    assert_int_equal(a->u.fail.kind, GW_FAIL_TOO_LONG);
    assert_non_null(strstr(a->u.fail.text, "130"));
    assert_non_null(strstr(a->u.fail.text, "100"));
    gw_brain_free(b);
}

/* Submitted while no node was there to say what it holds. */
static void an_answer_is_cut_to_what_the_nodes_hold_that_come(void **s)
{
    (void)s;
    gw_brain *b = make();
    submit(b, 1, 200);
    join(b, PREFILL, BT_ROLE_PREFILL);
    join(b, DECODE, BT_ROLE_DECODE);
    const bt_msg *m = gateway_kit_said(acts, DECODE, BT_MSG_RESERVE);
    assert_int_equal(m->u.reserve.max_tokens, 90);
    step(b, &(gw_event){.type = GW_EV_CANCEL, .u.request = 1});
    assert_int_equal(gateway_kit_did(acts, GW_DO_FAIL)->u.fail.stats.max_tokens, 90);
    gw_brain_free(b);
}

static void refuses_a_node_of_another_model_with_both_values(void **s)
{
    (void)s;
    gw_brain *b = make();
    bt_msg m = hello_msg(BT_ROLE_DECODE);
    m.u.hello.model_id[0] = 0xab;
    from(b, DECODE, &m);
    const bt_msg *r = gateway_kit_said(acts, DECODE, BT_MSG_REJECT);
    assert_non_null(strstr(r->u.reject.text, "ab000000000000000000000000000000"));
    assert_non_null(strstr(r->u.reject.text, "05000000000000000000000000000000"));
    assert_non_null(gateway_kit_did(acts, GW_DO_LOG));
    m = hello_msg(BT_ROLE_DECODE);
    m.u.hello.protocol = BT_PROTOCOL_VERSION + 1;
    from(b, DECODE, &m);
    assert_int_equal(gateway_kit_said(acts, DECODE, BT_MSG_REJECT)->u.reject.code, BT_EVERSION);
    gw_brain_free(b);
}

/* Every type, from both nodes and a stranger, current and other attempt, in every state: no answer to the
 * client appears unless the table has that pair, and nothing crashes. */
static void ignores_every_message_that_a_state_does_not_expect(void **s)
{
    (void)s;
    for (int state = 0; state < 5; state++) {
        for (uint32_t type = 0; type <= 60; type++) {
            for (int who = 0; who < 3; who++) {
                for (uint32_t attempt = 1; attempt <= 2; attempt++) {
                    gw_brain *b = make_ready();
                    if (state == 1) submit(b, 1, 20);
                    if (state == 2) to_prefilling(b);
                    if (state >= 3) to_decoding(b);
                    if (state == 4) step(b, &(gw_event){.type = GW_EV_CANCEL, .u.request = 1});
                    bt_msg m = {.type = (bt_msg_type)type, .ref = {SELF, 1, attempt}};
                    bool expected = who < 2 && attempt == 1 &&
                                    (type == BT_MSG_FAILED || (type == BT_MSG_FIRST_TOKEN && state == 2) ||
                                     (type == BT_MSG_REFUSED && state == 1) || type == BT_MSG_FINISHED);
                    from(b, who == 0 ? PREFILL : who == 1 ? DECODE : OTHER, &m);
                    if (!expected || state == 0 || state == 4) {
                        assert_null(gateway_kit_did(acts, GW_DO_DONE));
                        assert_null(gateway_kit_did(acts, GW_DO_FAIL));
                        assert_null(gateway_kit_did(acts, GW_DO_TOKENS));
                        assert_null(gateway_kit_did(acts, GW_DO_FIRST));
                    }
                    if (type != BT_MSG_HELLO && who == 2)
                        assert_int_equal(gateway_kit_said(acts, OTHER, BT_MSG_REJECT) != NULL,
                                         type != BT_MSG_REJECT);
                    gw_brain_free(b);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(done_with_figures_waits_for_both_reports),
        cmocka_unit_test(done_comes_after_a_short_grace_without_the_reports),
        cmocka_unit_test(takes_the_next_index_only),
        cmocka_unit_test(token_0_that_ends_aborts_both),
        cmocka_unit_test(a_refusal_for_now_is_another_attempt_and_one_for_good_is_the_end),
        cmocka_unit_test(waiting_for_room_is_told_from_the_first_reserve_to_the_grant),
        cmocka_unit_test(one_that_was_never_granted_room_tells_no_time_of_it),
        cmocka_unit_test(the_process_before_a_restarted_node_is_a_stranger),
        cmocka_unit_test(silence_makes_a_node_suspect_then_gone_and_a_word_brings_it_back),
        cmocka_unit_test(every_wait_has_an_end),
        cmocka_unit_test(a_prompt_that_makes_rows_slowly_is_waited_for),
        cmocka_unit_test(renews_leases_of_both_sides),
        cmocka_unit_test(cancels_and_ends_early_once),
        cmocka_unit_test(refuses_a_prompt_that_leaves_no_room_with_both_numbers),
        cmocka_unit_test(an_answer_is_cut_to_what_the_nodes_hold_that_come),
        cmocka_unit_test(refuses_a_node_of_another_model_with_both_values),
        cmocka_unit_test(ignores_every_message_that_a_state_does_not_expect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
