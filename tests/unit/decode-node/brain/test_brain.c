/* The decode brain alone: attempts, leases, what is told again, and every message in every state. */
#include "base/hash.h"
#include "tests/helpers/brain/decode_kit.h"
#include "xfer/xfer_recv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static const bt_incarnation OTHER = {{9}};

static dc_brain *make_that(bt_role_may may)
{
    dc_config c = dc_config_defaults();
    c.self = decode_kit_self;
    c.pages_total = 8;
    c.hello.ctx_tokens = 256;
    c.hello.kv = (bt_kv_shape){2, 1, 2, BT_KV_F16, 0, 0};
    strcpy(c.hello.kv_endpoint, "tcp://127.0.0.1:1");
    dc_brain *b = NULL;
    decode_kit_now = 1000000;
    assert_int_equal(dc_brain_new(&b, &c, NULL), BT_OK);
    dc_brain_set_role_may(b, may);
    decode_kit_step(b, &(dc_event){.type = DC_EV_TICK});
    assert_non_null(decode_kit_said(BT_MSG_HELLO));
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_WELCOME});
    assert_non_null(decode_kit_said(BT_MSG_HEARTBEAT));
    bt_msg hello = {.type = BT_MSG_HELLO};
    hello.u.hello = c.hello;
    hello.u.hello.protocol = BT_PROTOCOL_VERSION;
    hello.u.hello.role = BT_ROLE_PREFILL;
    decode_kit_bulk(b, &hello);
    assert_non_null(decode_kit_said(BT_MSG_WELCOME));
    return b;
}

static dc_brain *make(void) { return make_that(BT_ROLE_MAY_NOT); }

static bt_msg reserve_msg(uint64_t number, uint32_t attempt, uint32_t prompt, uint32_t max)
{
    static const int32_t ids[256];
    bt_msg m = {.type = BT_MSG_RESERVE, .ref = {decode_kit_gate, number, attempt}};
    m.u.reserve = (bt_msg_reserve){.prompt_tokens = prompt,
                                   .ids = ids,
                                   .ids_len = prompt,
                                   .max_tokens = max,
                                   .prefill = decode_kit_prefill,
                                   .prefill_class = bt_hash64("", 0),
                                   .stop_ids_len = 1,
                                   .stop_ids = {7},
                                   .lease_ms = 10000};
    return m;
}

static bt_ticket reserve(dc_brain *b, uint64_t number, uint32_t attempt)
{
    bt_msg m = reserve_msg(number, attempt, 20, 4);
    decode_kit_control(b, &m);
    assert_non_null(decode_kit_held());
    assert_non_null(decode_kit_said(BT_MSG_RESERVED));
    return decode_kit_said(BT_MSG_RESERVED)->u.reserved.ticket;
}

static dc_event block(bt_ticket t, uint64_t number, uint32_t attempt, uint32_t layer)
{
    dc_event ev = {.type = DC_EV_BLOCK};
    ev.u.block = (dc_block){.from = decode_kit_prefill,
                            .ref = {decode_kit_gate, number, attempt},
                            .ticket = t,
                            .layer = layer,
                            .token_count = 20,
                            .bytes = 160};
    return ev;
}

static void place(dc_brain *b, bt_ticket t, uint64_t number, uint32_t attempt, uint32_t layer)
{
    dc_event ev = block(t, number, attempt, layer);
    decode_kit_step(b, &ev);
    assert_non_null(decode_kit_did(DC_DO_PLACE));
    ev = (dc_event){.type = DC_EV_PLACED, .u.block = decode_kit_did(DC_DO_PLACE)->u.block};
    decode_kit_step(b, &ev);
}

static bt_msg commit_msg(bt_ticket t, uint64_t number, uint32_t attempt, int32_t token)
{
    bt_msg m = {.type = BT_MSG_COMMIT, .ref = {decode_kit_gate, number, attempt}};
    m.u.commit = (bt_msg_commit){.ticket = t, .prompt_tokens = 20, .first_token = token, .kv_bytes = 320};
    return m;
}

static void run(dc_brain *b, bt_ticket t, uint64_t number, uint32_t attempt)
{
    place(b, t, number, attempt, 0);
    place(b, t, number, attempt, 1);
    bt_msg m = commit_msg(t, number, attempt, 5);
    decode_kit_bulk(b, &m);
    assert_non_null(decode_kit_said(BT_MSG_COMMITTED));
    assert_non_null(decode_kit_did(DC_DO_START));
}

static void token(dc_brain *b, uint32_t index, int32_t id)
{
    dc_event ev = {.type = DC_EV_TOKEN};
    ev.u.token.index = index;
    ev.u.token.id = id;
    decode_kit_step(b, &ev);
}

static void finish(dc_brain *b)
{
    token(b, 1, 11);
    token(b, 2, 7);
    dc_event ev = {.type = DC_EV_ENDED};
    ev.u.ended.reason = BT_FINISH_STOP;
    decode_kit_step(b, &ev);
    assert_non_null(decode_kit_said(BT_MSG_FINISHED));
    assert_int_equal(decode_kit_said(BT_MSG_FINISHED)->u.finished.completion_tokens, 3);
    assert_non_null(decode_kit_freed());
}

static void beats_as_soon_as_its_connection_is_up_again(void **s)
{
    (void)s;
    dc_brain *b = make();
    decode_kit_step(b, &(dc_event){.type = DC_EV_GATE_UP, .u.gate = 0});
    assert_non_null(decode_kit_said(BT_MSG_HEARTBEAT));
    decode_kit_step(b, &(dc_event){.type = DC_EV_GATE_UP, .u.gate = 1}); /* no such gateway */
    assert_null(decode_kit_said(BT_MSG_HEARTBEAT));
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_REJECT, .u.reject.code = BT_EAGAIN});
    decode_kit_step(b, &(dc_event){.type = DC_EV_GATE_UP, .u.gate = 0}); /* that HELLO may be lost */
    assert_non_null(decode_kit_said(BT_MSG_HELLO));
    dc_brain_free(b);
}

/* A long piece of a prompt may stand before its tokens. */
static void says_in_a_long_step_of_what_runs_that_it_gets_on(void **s)
{
    (void)s;
    enum { SECOND = 1000000 };
    dc_brain *b = make();
    const dc_event alive = {.type = DC_EV_ALIVE}, tick = {.type = DC_EV_TICK};
    run(b, reserve(b, 1, 1), 1, 1);
    token(b, 1, 11);
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_TOKENS_ACK, .ref = {decode_kit_gate, 1, 1},
                                    .u.tokens_ack.next_index = 2});
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_RENEW, .ref = {decode_kit_gate, 1, 1},
                                    .u.renew.lease_ms = 60000});
    decode_kit_now += 9 * SECOND;
    decode_kit_step(b, &alive);
    assert_null(decode_kit_said(BT_MSG_PREFILL_ACCEPTED));
    assert_false(dc_brain_wants_alive(b, decode_kit_now));
    decode_kit_now += SECOND;
    decode_kit_step(b, &tick); /* nothing comes from the worker: it may be stuck */
    assert_null(decode_kit_said(BT_MSG_PREFILL_ACCEPTED));
    assert_true(dc_brain_wants_alive(b, decode_kit_now));
    decode_kit_step(b, &alive);
    assert_int_equal(decode_kit_said(BT_MSG_PREFILL_ACCEPTED)->ref.number, 1);
    decode_kit_step(b, &alive);
    assert_null(decode_kit_said(BT_MSG_PREFILL_ACCEPTED));
    dc_brain_free(b);
}

static void answers_a_repeated_reserve_from_its_record(void **s)
{
    (void)s;
    dc_brain *b = make();
    bt_ticket t = reserve(b, 1, 1);
    bt_msg m = reserve_msg(1, 1, 20, 4);
    decode_kit_control(b, &m);
    assert_memory_equal(&decode_kit_said(BT_MSG_RESERVED)->u.reserved.ticket, &t, sizeof t);
    assert_null(decode_kit_held());
    assert_int_equal(dc_brain_load(b).pages_used, 1);
    m = reserve_msg(2, 1, 20, 4);
    decode_kit_control(b, &m);
    assert_non_null(decode_kit_said(BT_MSG_WAITS)); /* the one slot is taken */
    decode_kit_control(b, &m);
    assert_non_null(decode_kit_said(BT_MSG_WAITS));
    m = reserve_msg(3, 1, 200, 57);
    decode_kit_control(b, &m);
    assert_int_equal(decode_kit_said(BT_MSG_REFUSED)->u.refused.code, BT_ELIMIT);
    assert_int_equal(decode_kit_said(BT_MSG_REFUSED)->u.refused.retry_after_ms, 0);
    dc_brain_free(b);
}

static void takes_the_higher_attempt_and_drops_the_lower(void **s)
{
    (void)s;
    dc_brain *b = make();
    bt_ticket t1 = reserve(b, 1, 2);
    bt_msg m = reserve_msg(1, 1, 20, 4);
    decode_kit_control(b, &m);
    assert_int_equal(decode_kit_acts.len, 0);
    assert_int_equal(dc_brain_counters(b)->stale_attempt, 1);
    bt_ticket t2 = reserve(b, 1, 3); /* frees attempt 2 first */
    assert_memory_not_equal(&t1, &t2, sizeof t1);
    dc_event ev = block(t1, 1, 2, 0);
    decode_kit_step(b, &ev);
    assert_int_equal(decode_kit_did(DC_DO_DROP)->u.drop.reason, DC_DROP_UNKNOWN);
    run(b, t2, 1, 3);
    dc_brain_free(b);
}

static void never_starts_what_was_aborted_before_it_came(void **s)
{
    (void)s;
    dc_brain *b = make();
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_ABORT, .ref = {decode_kit_gate, 4, 1}});
    assert_non_null(decode_kit_said(BT_MSG_ABORT_ACK));
    bt_msg m = reserve_msg(4, 1, 20, 4);
    decode_kit_control(b, &m);
    assert_null(decode_kit_held());
    assert_non_null(decode_kit_said(BT_MSG_REFUSED));
    dc_brain_free(b);
}

static void expires_a_lease_before_it_looks_at_the_event(void **s)
{
    (void)s;
    dc_brain *b = make();
    bt_ticket t = reserve(b, 1, 1);
    place(b, t, 1, 1, 0);
    place(b, t, 1, 1, 1);
    decode_kit_now += 10000000; /* SIGSTOP, SIGCONT: then the Commit that waited in the socket */
    bt_msg m = commit_msg(t, 1, 1, 5);
    decode_kit_bulk(b, &m);
    assert_non_null(decode_kit_freed());
    assert_null(decode_kit_did(DC_DO_START));
    assert_non_null(decode_kit_said(BT_MSG_TRANSFER_REFUSED));
    assert_int_equal(dc_brain_load(b).pages_used, 0);
    dc_brain_free(b);
}

static void drops_blocks_that_it_must_not_place_and_gives_their_credit_back(void **s)
{
    (void)s;
    dc_brain *b = make();
    bt_ticket t = reserve(b, 1, 1), wrong = t;
    uint64_t end = 0;
    wrong.bytes[15] ^= 1;
    struct {
        dc_event ev;
        dc_drop_reason why;
    } cases[7] = {
        {block(t, 2, 1, 0), DC_DROP_UNKNOWN}, {block(wrong, 1, 1, 0), DC_DROP_TICKET},
        {block(t, 1, 1, 2), DC_DROP_RANGE},   {block(t, 1, 1, 0), DC_DROP_RANGE},
        {block(t, 1, 1, 0), DC_DROP_RANGE},   {block(t, 1, 1, 0), DC_DROP_TICKET},
        {block(t, 1, 1, 0), DC_DROP_TICKET},
    };
    cases[3].ev.u.block.token_count = 19;
    cases[4].ev.u.block.bytes = 159;
    cases[5].ev.u.block.from_key = (bt_peer_key){{1}};
    cases[6].ev.u.block.from = OTHER;
    for (int i = 0; i < 7; i++) {
        cases[i].ev.u.block.link_end = (end += cases[i].ev.u.block.bytes);
        decode_kit_step(b, &cases[i].ev);
        assert_null(decode_kit_did(DC_DO_PLACE));
        assert_int_equal(decode_kit_did(DC_DO_DROP)->u.drop.reason, cases[i].why);
        if (i == 6) continue;
        assert_non_null(decode_kit_said(BT_MSG_CREDIT));
        decode_kit_step(b, &cases[i].ev); /* the network says it again: no credit */
        assert_null(decode_kit_said(BT_MSG_CREDIT));
        cases[i].ev.u.block.link_epoch++; /* one of another epoch: none either */
        cases[i].ev.u.block.link_end += 160;
        decode_kit_step(b, &cases[i].ev);
        assert_null(decode_kit_said(BT_MSG_CREDIT));
    }
    place(b, t, 1, 1, 0);
    dc_event ev = block(t, 1, 1, 0);
    decode_kit_step(b, &ev);
    assert_int_equal(decode_kit_did(DC_DO_DROP)->u.drop.reason, DC_DROP_REPEAT);
    ev = block(t, 1, 1, 1);
    decode_kit_step(b, &ev);
    assert_non_null(decode_kit_did(DC_DO_PLACE));
    dc_block copying = decode_kit_did(DC_DO_PLACE)->u.block;
    decode_kit_step(b, &ev);
    assert_int_equal(decode_kit_did(DC_DO_DROP)->u.drop.reason, DC_DROP_BUSY);
    decode_kit_step(b, &(dc_event){.type = DC_EV_CORRUPT, .u.block = copying});
    bt_msg m = commit_msg(t, 1, 1, 5);
    decode_kit_bulk(b, &m);
    assert_int_equal(decode_kit_said(BT_MSG_MISSING)->u.missing.ranges_len, 1);
    assert_int_equal(decode_kit_said(BT_MSG_MISSING)->u.missing.ranges[0].layer, 1);
    assert_int_equal(decode_kit_said(BT_MSG_MISSING)->u.missing.ranges[0].token_count, 20);
    dc_brain_free(b);
}

static void takes_kv_only_from_the_key_that_was_reserved_for(void **s)
{
    (void)s;
    const bt_peer_key key = {{5}};
    dc_brain *b = make();
    bt_msg m = reserve_msg(1, 1, 20, 4);
    m.u.reserve.prefill_key = key;
    decode_kit_control(b, &m);
    bt_ticket t = decode_kit_said(BT_MSG_RESERVED)->u.reserved.ticket;
    for (uint32_t layer = 0; layer < 2; layer++) {
        dc_event ev = block(t, 1, 1, layer);
        decode_kit_step(b, &ev); /* no key at all */
        assert_int_equal(decode_kit_did(DC_DO_DROP)->u.drop.reason, DC_DROP_TICKET);
        ev.u.block.from_key = key;
        decode_kit_step(b, &ev);
        assert_non_null(decode_kit_did(DC_DO_PLACE));
        decode_kit_step(b,
                        &(dc_event){.type = DC_EV_PLACED, .u.block = decode_kit_did(DC_DO_PLACE)->u.block});
    }
    for (uint8_t first = 4; first <= 5; first++) {
        m = commit_msg(t, 1, 1, 5);
        m.from_key.bytes[0] = first;
        decode_kit_bulk(b, &m);
        assert_int_equal(decode_kit_said(BT_MSG_TRANSFER_REFUSED) != NULL, first == 4);
        assert_int_equal(decode_kit_did(DC_DO_START) != NULL, first == 5);
    }
    dc_brain_free(b);
}

static void keeps_of_a_transfer_that_ends_early_what_is_complete_in_every_layer(void **s)
{
    (void)s;
    dc_brain *b = make();
    bt_msg m = reserve_msg(1, 1, 200, 4);
    decode_kit_control(b, &m);
    bt_ticket t = decode_kit_said(BT_MSG_RESERVED)->u.reserved.ticket;
    for (uint32_t layer = 0; layer < 2; layer++) {
        dc_event ev = block(t, 1, 1, layer);
        ev.u.block.token_count = layer ? 80 : 192;
        ev.u.block.bytes = ev.u.block.token_count * 8;
        decode_kit_step(b, &ev);
        decode_kit_step(b,
                        &(dc_event){.type = DC_EV_PLACED, .u.block = decode_kit_did(DC_DO_PLACE)->u.block});
    }
    m = reserve_msg(1, 2, 200, 4); /* ends attempt 1 */
    decode_kit_control(b, &m);
    assert_int_equal(decode_kit_said(BT_MSG_RESERVED)->u.reserved.covered_tokens, 64);
    assert_int_equal(dc_brain_load(b).pages_used, 4);
    dc_brain_free(b);
}

/* The way out: 0 by itself, 1 after the drain timeout, 2 by a signal that comes meanwhile. */
static void drains_for_another_role_and_says_which(void **s)
{
    (void)s;
    for (int way = 0; way < 3; way++) {
        dc_brain *b = make_that(BT_ROLE_MAY);
        const bt_ticket t = reserve(b, 1, 1);
        run(b, t, 1, 1);
        bt_msg m = {.type = BT_MSG_ROLE, .u.role.role = BT_ROLE_PREFILL};
        for (int again = 0; again < 2; again++) {
            decode_kit_control(b, &m);
            assert_int_equal(decode_kit_said(BT_MSG_ROLE_ANSWER)->u.role_answer.code, 0);
            assert_int_equal(decode_kit_said(BT_MSG_ROLE_ANSWER)->u.role_answer.role, BT_ROLE_PREFILL);
            assert_int_equal(decode_kit_did(DC_DO_DRAIN) != NULL, !again);
            assert_int_equal(decode_kit_said(BT_MSG_HEARTBEAT) != NULL, !again);
            if (!again) assert_true(decode_kit_said(BT_MSG_HEARTBEAT)->u.heartbeat.draining);
        }
        bt_msg r = reserve_msg(2, 1, 20, 4);
        decode_kit_control(b, &r);
        assert_int_equal(decode_kit_said(BT_MSG_REFUSED)->u.refused.code, BT_EAGAIN);
        if (way == 2) decode_kit_step(b, &(dc_event){.type = DC_EV_DRAIN});
        assert_null(decode_kit_did(DC_DO_EXIT));
        if (way == 1) {
            decode_kit_step(b, &(dc_event){.type = DC_EV_DRAIN_OVER});
            assert_int_equal(decode_kit_said(BT_MSG_FAILED)->u.failed.code, BT_EAGAIN);
        } else {
            finish(b);
            bt_msg ack = {.type = BT_MSG_FINISHED_ACK, .ref = {decode_kit_gate, 1, 1}};
            decode_kit_control(b, &ack);
        }
        assert_non_null(decode_kit_said(BT_MSG_BYE));
        assert_int_equal(decode_kit_did(DC_DO_EXIT)->u.next_role, way == 2 ? 0 : BT_ROLE_PREFILL);
        dc_brain_free(b);
    }
    dc_brain *b = make();
    bt_msg m = {.type = BT_MSG_ROLE, .u.role.role = BT_ROLE_PREFILL};
    decode_kit_control(b, &m);
    assert_int_equal(decode_kit_said(BT_MSG_ROLE_ANSWER)->u.role_answer.code, BT_EAUTH);
    assert_null(decode_kit_did(DC_DO_DRAIN));
    (void)reserve(b, 1, 1); /* it goes on */
    dc_brain_free(b);
}

static void leaves_at_once_when_the_drain_lasts_too_long(void **s)
{
    (void)s;
    for (int state = 0; state < 4; state++) {
        dc_brain *b = make();
        bt_ticket t = state ? reserve(b, 1, 1) : (bt_ticket){{0}};
        if (state >= 2) run(b, t, 1, 1);
        if (state >= 3) finish(b);
        decode_kit_step(b, &(dc_event){.type = DC_EV_DRAIN});
        if (state) decode_kit_step(b, &(dc_event){.type = DC_EV_DRAIN_OVER});
        assert_non_null(decode_kit_said(BT_MSG_BYE));
        assert_non_null(decode_kit_did(DC_DO_EXIT));
        const bt_msg *failed = decode_kit_said(BT_MSG_FAILED);
        assert_int_equal(failed != NULL, state == 1 || state == 2);
        if (failed) assert_int_equal(failed->u.failed.code, BT_EAGAIN);
        assert_int_equal(decode_kit_said(BT_MSG_FINISHED) != NULL, state == 3);
        bt_msg m = reserve_msg(2, 1, 20, 4); /* nothing more comes of anything */
        decode_kit_control(b, &m);
        assert_int_equal(decode_kit_acts.len, 0);
        decode_kit_now += 100000000;
        decode_kit_step(b, &(dc_event){.type = DC_EV_TICK});
        assert_int_equal(decode_kit_acts.len, 0);
        dc_brain_free(b);
    }
}

static void waits_for_its_own_copy_and_its_own_step_before_it_frees(void **s)
{
    (void)s;
    dc_brain *b = make();
    bt_ticket t = reserve(b, 1, 1);
    dc_event ev = block(t, 1, 1, 0);
    decode_kit_step(b, &ev);
    dc_block copying = decode_kit_did(DC_DO_PLACE)->u.block;
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_ABORT, .ref = {decode_kit_gate, 1, 1}});
    assert_int_equal(decode_kit_acts.len, 0);
    decode_kit_step(b, &(dc_event){.type = DC_EV_PLACED, .u.block = copying});
    assert_non_null(decode_kit_freed());
    assert_non_null(decode_kit_said(BT_MSG_ABORT_ACK));

    t = reserve(b, 2, 1);
    run(b, t, 2, 1);
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_ABORT, .ref = {decode_kit_gate, 2, 1}});
    assert_non_null(decode_kit_did(DC_DO_STOP));
    assert_null(decode_kit_freed());
    token(b, 1, 11);
    assert_int_equal(decode_kit_acts.len, 0);
    decode_kit_step(b, &(dc_event){.type = DC_EV_STOPPED, .u.stopped = {0}});
    assert_non_null(decode_kit_freed());
    assert_non_null(decode_kit_said(BT_MSG_ABORT_ACK));
    assert_int_equal(dc_brain_load(b).leases, 0);
    dc_brain_free(b);
}

static void tells_tokens_and_the_end_again_until_they_are_acknowledged(void **s)
{
    (void)s;
    dc_brain *b = make();
    bt_ticket t = reserve(b, 1, 1);
    run(b, t, 1, 1);
    finish(b);
    for (int i = 0; i < 3; i++) {
        decode_kit_now += 500000;
        decode_kit_step(b, &(dc_event){.type = DC_EV_TICK});
        assert_int_equal(decode_kit_said(BT_MSG_TOKENS)->u.tokens.first_index, 1);
        assert_int_equal(decode_kit_said(BT_MSG_TOKENS)->u.tokens.ids_len, 2);
        assert_int_equal(decode_kit_said(BT_MSG_TOKENS)->u.tokens.ids[1], 7);
        assert_non_null(decode_kit_said(BT_MSG_FINISHED));
    }
    bt_msg ack = {.type = BT_MSG_TOKENS_ACK, .ref = {decode_kit_gate, 1, 1}};
    ack.u.tokens_ack.next_index = 3;
    decode_kit_control(b, &ack);
    decode_kit_now += 500000;
    decode_kit_step(b, &(dc_event){.type = DC_EV_TICK});
    assert_null(decode_kit_said(BT_MSG_TOKENS));
    assert_non_null(decode_kit_said(BT_MSG_FINISHED));
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_FINISHED_ACK, .ref = {decode_kit_gate, 1, 1}});
    assert_int_equal(dc_brain_load(b).leases, 0);
    bt_msg m = reserve_msg(1, 1, 20, 4); /* a late repeat starts nothing */
    decode_kit_control(b, &m);
    assert_null(decode_kit_held());
    dc_brain_free(b);
}

static void runs_nothing_when_token_0_is_the_end(void **s)
{
    (void)s;
    dc_brain *b = make();
    bt_ticket t = reserve(b, 1, 1);
    place(b, t, 1, 1, 0);
    place(b, t, 1, 1, 1);
    bt_msg m = commit_msg(t, 1, 1, 7);
    decode_kit_bulk(b, &m);
    assert_non_null(decode_kit_said(BT_MSG_COMMITTED));
    assert_null(decode_kit_did(DC_DO_START));
    assert_int_equal(decode_kit_said(BT_MSG_FINISHED)->u.finished.reason, BT_FINISH_STOP);
    dc_brain_free(b);
}

static void greets_again_when_a_message_is_meant_for_another_or_comes_from_another(void **s)
{
    (void)s;
    dc_brain *b = make();
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_ABORT, .to = OTHER, .ref = {decode_kit_gate, 1, 1}});
    assert_null(decode_kit_said(BT_MSG_ABORT_ACK));
    assert_non_null(decode_kit_said(BT_MSG_HELLO));
    assert_int_equal(dc_brain_counters(b)->wrong_incarnation, 1);
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_WELCOME});
    bt_msg m = {.type = BT_MSG_ABORT, .from = OTHER, .to = decode_kit_self, .ref = {OTHER, 1, 1}};
    decode_kit_step(b, &(dc_event){.type = DC_EV_CONTROL, .u.control = {0, &m}});
    assert_null(decode_kit_said(BT_MSG_ABORT_ACK));
    assert_non_null(decode_kit_said(BT_MSG_HELLO));
    dc_brain_free(b);
}

/* Every message type, on both links, with the running attempt and an older one, in every state: the brain
 * answers at most with messages; nothing is started, placed or freed, unless the table of proto/README.md has
 * that very pair. */
static void ignores_every_message_that_a_state_does_not_expect(void **s)
{
    (void)s;
    for (int state = 0; state < 4; state++) {
        for (uint32_t type = 0; type <= 60; type++) {
            for (uint32_t attempt = 1; attempt <= 2; attempt++) {
                for (int on_bulk = 0; on_bulk < 2; on_bulk++) {
                    dc_brain *b = make();
                    bt_ticket t = {{0}};
                    if (state >= 1) t = reserve(b, 1, 2);
                    if (state >= 2) run(b, t, 1, 2);
                    if (state >= 3) finish(b);
                    bt_load before = dc_brain_load(b);
                    bt_msg m = {.type = (bt_msg_type)type, .ref = {decode_kit_gate, 1, attempt}};
                    bool expected = !on_bulk && attempt == 2 &&
                                    (type == BT_MSG_ABORT || type == BT_MSG_RENEW ||
                                     (type == BT_MSG_FINISHED_ACK && state == 3));
                    if (on_bulk) decode_kit_bulk(b, &m);
                    else decode_kit_control(b, &m);
                    for (size_t i = 0; !expected && i < decode_kit_acts.len; i++)
                        assert_true(decode_kit_acts.items[i].type == DC_DO_SEND_CONTROL ||
                                    decode_kit_acts.items[i].type == DC_DO_SEND_BULK ||
                                    decode_kit_acts.items[i].type == DC_DO_LOG);
                    bt_load after = dc_brain_load(b);
                    if (!expected) {
                        assert_int_equal(before.slots_used, after.slots_used);
                        assert_int_equal(before.pages_used, after.pages_used);
                        assert_int_equal(before.leases, after.leases);
                        assert_int_equal(before.reservations, after.reservations);
                    }
                    dc_brain_free(b);
                }
            }
        }
    }
}

static void ignores_worker_events_that_no_slot_expects(void **s)
{
    (void)s;
    dc_brain *b = make();
    (void)reserve(b, 1, 1);
    for (uint32_t slot = 0; slot < 3; slot++) {
        dc_event ev = {.type = DC_EV_TOKEN};
        ev.u.token.slot = slot ? slot * 0x7fffffffu : 0;
        decode_kit_step(b, &ev);
        assert_int_equal(decode_kit_acts.len, 0);
        ev.type = DC_EV_STOPPED;
        decode_kit_step(b, &ev);
        assert_int_equal(decode_kit_acts.len, 0);
        ev.type = DC_EV_PLACED;
        decode_kit_step(b, &ev);
        assert_int_equal(decode_kit_acts.len, 0);
        ev.type = DC_EV_ENDED;
        memset(&ev.u, 0, sizeof ev.u);
        decode_kit_step(b, &ev);
        assert_int_equal(decode_kit_acts.len, 0);
    }
    dc_brain_free(b);
}

static void tells_tokens_of_several_steps_in_one_message(void **s)
{
    (void)s;
    static const int32_t ids[] = {11, 12};
    dc_brain *b = make();
    run(b, reserve(b, 1, 1), 1, 1);
    dc_event ev = {.type = DC_EV_TOKENS};
    ev.u.tokens.index = 1;
    ev.u.tokens.len = 4; /* beyond its four */
    ev.u.tokens.ids = ids;
    decode_kit_step(b, &ev);
    assert_null(decode_kit_said(BT_MSG_TOKENS));
    ev.u.tokens.len = 2;
    decode_kit_step(b, &ev);
    const bt_msg *m = decode_kit_said(BT_MSG_TOKENS);
    assert_non_null(m);
    assert_int_equal(m->u.tokens.first_index, 1);
    assert_int_equal(m->u.tokens.ids_len, 2);
    assert_memory_equal(m->u.tokens.ids, ids, sizeof ids);
    assert_int_equal(dc_brain_counters(b)->tokens, 2);
    decode_kit_step(b, &ev); /* each index once */
    assert_null(decode_kit_said(BT_MSG_TOKENS));
    token(b, 3, 13);
    m = decode_kit_said(BT_MSG_TOKENS);
    assert_int_equal(m->u.tokens.first_index, 3);
    dc_brain_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beats_as_soon_as_its_connection_is_up_again),
        cmocka_unit_test(says_in_a_long_step_of_what_runs_that_it_gets_on),
        cmocka_unit_test(answers_a_repeated_reserve_from_its_record),
        cmocka_unit_test(takes_the_higher_attempt_and_drops_the_lower),
        cmocka_unit_test(never_starts_what_was_aborted_before_it_came),
        cmocka_unit_test(expires_a_lease_before_it_looks_at_the_event),
        cmocka_unit_test(drops_blocks_that_it_must_not_place_and_gives_their_credit_back),
        cmocka_unit_test(takes_kv_only_from_the_key_that_was_reserved_for),
        cmocka_unit_test(keeps_of_a_transfer_that_ends_early_what_is_complete_in_every_layer),
        cmocka_unit_test(drains_for_another_role_and_says_which),
        cmocka_unit_test(leaves_at_once_when_the_drain_lasts_too_long),
        cmocka_unit_test(waits_for_its_own_copy_and_its_own_step_before_it_frees),
        cmocka_unit_test(tells_tokens_and_the_end_again_until_they_are_acknowledged),
        cmocka_unit_test(tells_tokens_of_several_steps_in_one_message),
        cmocka_unit_test(runs_nothing_when_token_0_is_the_end),
        cmocka_unit_test(greets_again_when_a_message_is_meant_for_another_or_comes_from_another),
        cmocka_unit_test(ignores_every_message_that_a_state_does_not_expect),
        cmocka_unit_test(ignores_worker_events_that_no_slot_expects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
