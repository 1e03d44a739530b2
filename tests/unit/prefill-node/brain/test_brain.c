/* The prefill brain alone: attempts, credit, what is sent when, what is told again, and every message in
 * every state. */
#include "tests/unit/prefill-node/brain/brain_kit.h"

static void sends_blocks_while_it_computes_and_short_prompts_when_all_rows_exist(void **s)
{
    (void)s;
    pf_brain *b = make();
    accept(b, 1, 1, 100, 1 << 20);
    ready(b, 0, 0, 64);
    assert_int_equal(count(PF_DO_SEND_BLOCK), 1);
    assert_int_equal(did(PF_DO_SEND_BLOCK)->u.block.bytes, 64 * ROW);
    pf_brain_free(b);

    b = make();
    accept(b, 1, 1, 63, 1 << 20);
    ready(b, 0, 0, 63);
    assert_int_equal(acts.len, 0);
    ready(b, 1, 0, 63);
    assert_int_equal(count(PF_DO_SEND_BLOCK), LAYERS); /* before token 0 is known */
    assert_int_equal(sent_all(b), LAYERS);
    assert_null(said(BT_MSG_COMMIT));
    now += 2000; /* the last row, then what makes token 0 of it */
    computed(b);
    assert_non_null(said(BT_MSG_COMMIT));
    digested(b);
    now += 1000;
    bulk(b, &(bt_msg){.type = BT_MSG_COMMITTED, .ref = {GATE, 1, 1}});
    assert_int_equal(said(BT_MSG_PREFILL_DONE)->u.prefill_done.exposed_us, 3000);
    pf_brain_free(b);
}

static void token_0_waits_for_no_digest_but_the_end_does(void **s)
{
    (void)s;
    for (int committed_first = 0; committed_first < 2; committed_first++) {
        pf_brain *b = make();
        bt_msg second = prefill_msg(2, 1, 100);
        accept(b, 1, 1, 100, 1 << 20);
        control(b, &second);
        ready(b, 0, 0, 100);
        sent_all(b);
        ready(b, 1, 0, 100);
        sent_all(b);
        now += 5000;
        computed(b);
        assert_int_equal(said(BT_MSG_FIRST_TOKEN)->u.first_token.token, 42);
        assert_null(did(PF_DO_COMPUTE)); /* the worker is busy until the digest is made */
        if (!committed_first) digested(b);
        if (!committed_first) assert_int_equal(did(PF_DO_COMPUTE)->u.compute.slot, 1);
        now += 4000;
        bulk(b, &(bt_msg){.type = BT_MSG_COMMITTED, .ref = {GATE, 1, 1}});
        if (committed_first) {
            assert_null(said(BT_MSG_PREFILL_DONE));
            assert_null(did(PF_DO_RELEASE)); /* its pages are being read */
            now += 100000;
            digested(b);
            assert_int_equal(did(PF_DO_COMPUTE)->u.compute.slot, 1);
        }
        assert_non_null(did(PF_DO_RELEASE));
        assert_int_equal(said(BT_MSG_PREFILL_DONE)->u.prefill_done.exposed_us, 9000);
        assert_int_equal(said(BT_MSG_PREFILL_DONE)->u.prefill_done.kv_digest.bytes[15], 7);
        pf_brain_free(b);
    }
}

static void ends_between_token_0_and_its_digest_wait_for_the_worker(void **s)
{
    (void)s;
    for (int how = 0; how < 4; how++) {
        pf_brain *b = make();
        accept(b, 1, 1, 100, 1 << 20);
        ready(b, 0, 0, 100);
        sent_all(b);
        ready(b, 1, 0, 100);
        sent_all(b);
        computed(b);
        if (how == 3) bulk(b, &(bt_msg){.type = BT_MSG_COMMITTED, .ref = {GATE, 1, 1}});
        bt_msg refused = {.type = BT_MSG_TRANSFER_REFUSED, .ref = {GATE, 1, 1}};
        if (how == 0) bulk(b, &refused);
        else control(b, &(bt_msg){.type = BT_MSG_ABORT, .ref = {GATE, 1, 1}});
        assert_non_null(did(PF_DO_CANCEL));
        assert_null(did(PF_DO_RELEASE));
        assert_null(said(BT_MSG_ABORT_ACK));
        assert_null(said(BT_MSG_FAILED));
        if (how == 1) digested(b);
        else step(b, &(pf_event){.type = PF_EV_COMPUTE_STOPPED, .u.slot = 0});
        assert_non_null(did(PF_DO_RELEASE));
        assert_non_null(said(how == 0 ? BT_MSG_FAILED : BT_MSG_ABORT_ACK));
        assert_null(said(BT_MSG_PREFILL_DONE));
        pf_brain_free(b);
    }
}

static void keeps_pages_until_every_block_is_answered(void **s)
{
    (void)s;
    for (int committed = 0; committed < 2; committed++) {
        pf_brain *b = make();
        accept(b, 1, 1, 64, 64 * ROW);
        ready(b, 0, 0, 64);
        const pf_block lent = did(PF_DO_SEND_BLOCK)->u.block;
        if (committed) { /* greeted anew: the block counts as lost, but is not answered */
            ready(b, 1, 0, 64);
            bt_msg forgotten = {.type = BT_MSG_REJECT};
            forgotten.u.reject.code = BT_EAGAIN;
            bulk(b, &forgotten);
            bt_msg w = {.type = BT_MSG_WELCOME};
            w.u.welcome.credit_bytes = 1 << 20;
            bulk(b, &w);
            assert_int_equal(sent_all(b), 1);
            computed(b);
            assert_non_null(said(BT_MSG_COMMIT));
            digested(b);
            bulk(b, &(bt_msg){.type = BT_MSG_COMMITTED, .ref = {GATE, 1, 1}});
            assert_null(said(BT_MSG_PREFILL_DONE));
        } else {
            control(b, &(bt_msg){.type = BT_MSG_ABORT, .ref = {GATE, 1, 1}});
            step(b, &(pf_event){.type = PF_EV_COMPUTE_STOPPED, .u.slot = 0});
            assert_null(said(BT_MSG_ABORT_ACK));
        }
        assert_null(did(PF_DO_RELEASE));
        step(b, &(pf_event){.type = PF_EV_BLOCK_SENT, .u.block = lent});
        assert_non_null(did(PF_DO_RELEASE));
        assert_non_null(said(committed ? BT_MSG_PREFILL_DONE : BT_MSG_ABORT_ACK));
        pf_brain_free(b);
    }
}

static void tells_a_slow_prompts_gateway_that_rows_appear(void **s)
{
    (void)s;
    pf_brain *b = make();
    accept(b, 1, 1, 100, 1 << 20);
    now += 900000;
    ready(b, 0, 0, 64);
    assert_null(said(BT_MSG_PREFILL_ACCEPTED));
    sent_all(b);
    now += 200000;
    ready(b, 1, 0, 64);
    assert_int_equal(said(BT_MSG_PREFILL_ACCEPTED)->ref.number, 1);
    sent_all(b);
    ready(b, 0, 64, 36);
    assert_null(said(BT_MSG_PREFILL_ACCEPTED));
    pf_brain_free(b);
}

static void renew(pf_brain *b, uint64_t number)
{
    bt_msg m = {.type = BT_MSG_RENEW, .ref = {GATE, number, 1}};
    m.u.renew.lease_ms = 60000;
    control(b, &m);
}

static size_t accepted_again(void)
{
    size_t n = 0;
    for (size_t i = 0; i < acts.len; i++)
        n += acts.items[i].type == PF_DO_SEND_CONTROL &&
             acts.items[i].u.control.msg.type == BT_MSG_PREFILL_ACCEPTED;
    return n;
}

/* A gateway's patience counts from what it heard last, whatever stands before the prompt in this node. */
static void tells_the_gateways_of_all_prompts_in_a_long_run_that_the_worker_gets_on(void **s)
{
    (void)s;
    pf_brain *b = make();
    bt_msg second = prefill_msg(2, 1, 100);
    accept(b, 1, 1, 100, 1 << 20);
    control(b, &second);
    renew(b, 1);
    renew(b, 2);
    now += 9000000;
    step(b, &(pf_event){.type = PF_EV_ALIVE});
    assert_int_equal(accepted_again(), 0);
    now += 1000000;
    step(b, &(pf_event){.type = PF_EV_TICK});
    assert_int_equal(accepted_again(), 0); /* nothing comes from the worker: it may be stuck */
    step(b, &(pf_event){.type = PF_EV_ALIVE});
    assert_int_equal(accepted_again(), 2);
    now += 10000000;
    ready(b, 0, 0, 64); /* rows of one are a sign of life for both */
    assert_int_equal(accepted_again(), 2);
    pf_brain_free(b);

    b = make();
    step(b, &(pf_event){.type = PF_EV_ALIVE}); /* of no run */
    assert_int_equal(pf_brain_counters(b)->unexpected, 1);
    pf_brain_free(b);
}

static void a_transfer_is_not_stuck_while_the_shell_holds_its_blocks(void **s)
{
    (void)s;
    pf_brain *b = make();
    pf_block held[LAYERS];
    accept(b, 1, 1, 100, 1 << 20);
    renew(b, 1);
    for (uint32_t l = 0; l < LAYERS; l++) {
        ready(b, l, 0, 100);
        held[l] = did(PF_DO_SEND_BLOCK)->u.block;
    }
    computed(b);
    now += 30000000; /* on a wire as slow as that */
    step(b, &(pf_event){.type = PF_EV_TICK});
    assert_null(said(BT_MSG_FAILED));
    assert_null(did(PF_DO_CANCEL));
    for (uint32_t l = 0; l < LAYERS; l++) step(b, &(pf_event){.type = PF_EV_BLOCK_SENT, .u.block = held[l]});
    assert_non_null(said(BT_MSG_COMMIT));
    now += 2000000; /* from now on the decode node is silent */
    step(b, &(pf_event){.type = PF_EV_TICK});
    assert_non_null(said(BT_MSG_HELLO));
    pf_brain_free(b);
}

static void never_has_more_bytes_under_way_than_the_grant(void **s)
{
    (void)s;
    pf_brain *b = make();
    accept(b, 1, 1, 128, 64 * ROW);
    ready(b, 0, 0, 64);
    assert_int_equal(count(PF_DO_SEND_BLOCK), 1);
    sent_all(b);
    ready(b, 1, 0, 64);
    assert_int_equal(count(PF_DO_SEND_BLOCK), 0);
    bt_msg c = {.type = BT_MSG_CREDIT};
    c.u.credit.total_bytes = 128 * ROW - 1;
    bulk(b, &c);
    assert_int_equal(count(PF_DO_SEND_BLOCK), 0);
    c.u.credit.total_bytes = 128 * ROW;
    bulk(b, &c);
    assert_int_equal(count(PF_DO_SEND_BLOCK), 1);
    pf_block block = did(PF_DO_SEND_BLOCK)->u.block;
    /* its bytes come back, after a pause */
    step(b, &(pf_event){.type = PF_EV_BLOCK_BLOCKED, .u.block = block});
    assert_int_equal(count(PF_DO_SEND_BLOCK), 0);
    assert_true(pf_brain_due_us(b) <= now + 5000);
    now = pf_brain_due_us(b);
    step(b, &(pf_event){.type = PF_EV_TICK});
    assert_int_equal(count(PF_DO_SEND_BLOCK), 1);
    c.u.credit.total_bytes = 1; /* an old grant changes nothing */
    bulk(b, &c);
    pf_brain_free(b);
}

static void greets_anew_when_credit_does_not_come(void **s)
{
    (void)s;
    pf_brain *b = make();
    accept(b, 1, 1, 128, 64 * ROW);
    ready(b, 0, 0, 64);
    sent_all(b);
    ready(b, 1, 0, 64);
    now += 2000000;
    step(b, &(pf_event){.type = PF_EV_TICK});
    const bt_msg *h = NULL;
    for (size_t i = 0; i < acts.len; i++)
        if (acts.items[i].type == PF_DO_SEND_BULK) h = &acts.items[i].u.bulk.msg;
    assert_int_equal(h->type, BT_MSG_HELLO);
    bt_msg w = {.type = BT_MSG_WELCOME}, c = {.type = BT_MSG_CREDIT};
    w.u.welcome.credit_bytes = 64 * ROW;
    w.u.welcome.link_epoch = epoch - 1; /* the answer to the greeting before comes late */
    bulk(b, &w);
    assert_int_equal(count(PF_DO_SEND_BLOCK), 0);
    w.u.welcome.link_epoch = epoch;
    bulk(b, &w);
    assert_int_equal(count(PF_DO_SEND_BLOCK), 1);
    assert_int_equal(did(PF_DO_SEND_BLOCK)->u.block.epoch, epoch);
    assert_int_equal(did(PF_DO_SEND_BLOCK)->u.block.end_bytes, 64 * ROW);
    sent_all(b);
    ready(b, 0, 64, 64);
    c.u.credit.link_epoch = epoch - 1; /* what an older epoch granted is no credit in this one */
    c.u.credit.total_bytes = 1024 * ROW;
    bulk(b, &c);
    assert_int_equal(count(PF_DO_SEND_BLOCK), 0);
    c.u.credit.link_epoch = epoch;
    bulk(b, &c);
    assert_int_equal(count(PF_DO_SEND_BLOCK), 1);
    pf_brain_free(b);
}

static void sends_again_what_is_missing_and_commits_again(void **s)
{
    (void)s;
    pf_brain *b = make();
    accept(b, 1, 1, 100, 1 << 20);
    send_whole(b, 100);
    now += 500000;
    step(b, &(pf_event){.type = PF_EV_TICK});
    assert_non_null(said(BT_MSG_COMMIT));
    bt_kv_range ranges[3] = {{1, 96, 4}, {5, 0, 16}, {0, 8, 16}}; /* two of them nonsense */
    bt_msg m = {.type = BT_MSG_MISSING, .ref = {GATE, 1, 1}};
    m.u.missing = (bt_msg_missing){ranges, 3};
    bulk(b, &m);
    assert_int_equal(count(PF_DO_SEND_BLOCK), 1);
    assert_int_equal(did(PF_DO_SEND_BLOCK)->u.block.layer, 1);
    assert_int_equal(did(PF_DO_SEND_BLOCK)->u.block.token_begin, 96);
    assert_int_equal(did(PF_DO_SEND_BLOCK)->u.block.token_count, 4);
    bulk(b, &m); /* a repeat of the answer, while the block goes: nothing */
    assert_int_equal(count(PF_DO_SEND_BLOCK), 0);
    pf_brain_free(b);
}

static void reports_until_both_reports_are_acknowledged(void **s)
{
    (void)s;
    pf_brain *b = make();
    accept(b, 1, 1, 100, 1 << 20);
    send_whole(b, 100);
    now += 3000;
    bulk(b, &(bt_msg){.type = BT_MSG_COMMITTED, .ref = {GATE, 1, 1}});
    assert_non_null(did(PF_DO_RELEASE));
    assert_int_equal(said(BT_MSG_PREFILL_DONE)->u.prefill_done.exposed_us, 3000);
    assert_int_equal(said(BT_MSG_PREFILL_DONE)->u.prefill_done.kv_bytes, LAYERS * 100 * ROW);
    bt_msg ack = {.type = BT_MSG_ACK, .ref = {GATE, 1, 1}};
    ack.u.ack.of = BT_MSG_PREFILL_DONE;
    control(b, &ack);
    now += 500000;
    step(b, &(pf_event){.type = PF_EV_TICK});
    assert_non_null(said(BT_MSG_FIRST_TOKEN));
    assert_null(said(BT_MSG_PREFILL_DONE));
    ack.u.ack.of = BT_MSG_FIRST_TOKEN;
    control(b, &ack);
    assert_int_equal(pf_brain_load(b).leases, 0);
    bt_msg m = prefill_msg(1, 1, 100); /* a late repeat computes nothing */
    control(b, &m);
    assert_null(did(PF_DO_COMPUTE));
    pf_brain_free(b);
}

static void waits_for_the_worker_and_for_nothing_else(void **s)
{
    (void)s;
    pf_brain *b = make();
    accept(b, 1, 1, 100, 1 << 20);
    bt_msg second = prefill_msg(2, 1, 100);
    control(b, &second);
    assert_non_null(said(BT_MSG_PREFILL_ACCEPTED));
    assert_null(did(PF_DO_COMPUTE)); /* one worker */
    control(b, &(bt_msg){.type = BT_MSG_ABORT, .ref = {GATE, 1, 1}});
    assert_non_null(did(PF_DO_CANCEL));
    assert_null(did(PF_DO_RELEASE));
    assert_null(said(BT_MSG_ABORT_ACK));
    ready(b, 0, 0, 64);
    assert_int_equal(acts.len, 0);
    step(b, &(pf_event){.type = PF_EV_COMPUTE_STOPPED, .u.slot = 0});
    assert_non_null(did(PF_DO_RELEASE));
    assert_non_null(said(BT_MSG_ABORT_ACK));
    assert_int_equal(did(PF_DO_COMPUTE)->u.compute.slot, 1);
    /* never seen: answered, and never started */
    control(b, &(bt_msg){.type = BT_MSG_ABORT, .ref = {GATE, 7, 1}});
    assert_non_null(said(BT_MSG_ABORT_ACK));
    bt_msg late = prefill_msg(7, 1, 10);
    control(b, &late);
    assert_null(said(BT_MSG_PREFILL_ACCEPTED));
    pf_brain_free(b);
}

static void refuses_what_does_not_fit_and_says_when_to_come_back(void **s)
{
    (void)s;
    pf_brain *b = make();
    bt_msg m = prefill_msg(1, 1, 385);
    control(b, &m);
    assert_int_equal(said(BT_MSG_REFUSED)->u.refused.code, BT_ELIMIT);
    accept(b, 2, 1, 384, 1 << 20); /* half of the pages */
    m = prefill_msg(3, 1, 10);
    control(b, &m);
    assert_int_equal(said(BT_MSG_REFUSED)->u.refused.code, BT_EAGAIN);
    assert_true(said(BT_MSG_REFUSED)->u.refused.retry_after_ms > 0);
    pf_brain_free(b);
}

static void expires_a_lease_before_it_looks_at_the_event(void **s)
{
    (void)s;
    pf_brain *b = make();
    accept(b, 1, 1, 100, 1 << 20);
    send_whole(b, 100);
    now += 10000000;
    bulk(b, &(bt_msg){.type = BT_MSG_COMMITTED, .ref = {GATE, 1, 1}});
    assert_non_null(did(PF_DO_RELEASE));
    assert_null(said(BT_MSG_PREFILL_DONE));
    assert_int_equal(pf_brain_load(b).pages_used, 0);
    pf_brain_free(b);
}

static void fails_the_attempt_when_the_decode_node_is_another_process_or_refuses(void **s)
{
    (void)s;
    for (int i = 0; i < 2; i++) {
        pf_brain *b = make();
        accept(b, 1, 1, 100, 1 << 20);
        send_whole(b, 100);
        bt_msg m = {.type = i ? BT_MSG_TRANSFER_REFUSED : BT_MSG_WELCOME, .ref = {GATE, 1, 1}};
        if (i == 0) m.from = OTHER;
        bulk(b, &m);
        assert_non_null(said(BT_MSG_FAILED));
        assert_non_null(did(PF_DO_RELEASE));
        now += 500000;
        step(b, &(pf_event){.type = PF_EV_TICK});
        assert_non_null(said(BT_MSG_FAILED));
        bt_msg ack = {.type = BT_MSG_ACK, .ref = {GATE, 1, 1}};
        ack.u.ack.of = BT_MSG_FAILED;
        control(b, &ack);
        assert_int_equal(pf_brain_load(b).leases, 0);
        pf_brain_free(b);
    }
}

/* The link never comes up, is never welcomed, or falls silent when all is sent: 3 s, 3 s, and 2 s more. */
static void gives_up_a_link_that_does_not_open(void **s)
{
    (void)s;
    for (int how = 0; how < 3; how++) {
        pf_brain *b = make();
        bt_msg m = prefill_msg(1, 1, 100), renew = {.type = BT_MSG_RENEW, .ref = {GATE, 1, 1}};
        renew.u.renew.lease_ms = 10000;
        control(b, &m);
        if (how == 1) step(b, &(pf_event){.type = PF_EV_LINK_UP, .u.decode = DECODE});
        if (how == 2) {
            open_link(b, 1 << 20);
            send_whole(b, 100);
        }
        const int64_t end = now + (how == 2 ? 5000000 : 3000000);
        while (now < end - 1) {
            now = pf_brain_due_us(b) < end - 1 ? pf_brain_due_us(b) : end - 1;
            control(b, &renew);
            assert_null(did(PF_DO_UNLINK));
            assert_null(said(BT_MSG_FAILED));
        }
        assert_int_equal(pf_brain_due_us(b), end);
        now++;
        step(b, &(pf_event){.type = PF_EV_TICK});
        assert_non_null(did(PF_DO_UNLINK));
        if (how < 2) {
            assert_non_null(did(PF_DO_CANCEL));
            step(b, &(pf_event){.type = PF_EV_COMPUTE_STOPPED, .u.slot = 0});
        }
        assert_int_equal(said(BT_MSG_FAILED)->u.failed.code, BT_EIO);
        assert_non_null(did(PF_DO_RELEASE));
        pf_brain_free(b);
    }
}

static void gives_up_a_link_at_once_that_cannot_be_dialled(void **s)
{
    (void)s;
    pf_brain *b = make();
    bt_msg m = prefill_msg(1, 1, 100);
    m.u.prefill.decode_key.bytes[3] = 5;
    control(b, &m);
    assert_memory_equal(&did(PF_DO_LINK)->u.link.decode_key, &m.u.prefill.decode_key, sizeof(bt_peer_key));
    assert_string_equal(did(PF_DO_LINK)->u.link.endpoint, "tcp://127.0.0.1:1");
    bt_msg other = prefill_msg(2, 1, 100); /* the same process cannot have two keys */
    control(b, &other);
    assert_int_equal(said(BT_MSG_REFUSED)->u.refused.code, BT_EAGAIN);
    pf_event ev = {.type = PF_EV_LINK_FAILED, .u.link_failed.decode = DECODE};
    strcpy(ev.u.link_failed.text, "no such key");
    step(b, &ev);
    assert_null(did(PF_DO_UNLINK));
    assert_non_null(did(PF_DO_CANCEL));
    step(b, &(pf_event){.type = PF_EV_COMPUTE_STOPPED, .u.slot = 0});
    assert_int_equal(said(BT_MSG_FAILED)->u.failed.code, BT_EIO);
    assert_string_equal(said(BT_MSG_FAILED)->u.failed.text, "no such key");
    m = prefill_msg(3, 1, 100);
    control(b, &m);
    assert_non_null(did(PF_DO_LINK)); /* dialled anew */
    pf_brain_free(b);
}

static void says_by_the_code_whether_another_attempt_may_work(void **s)
{
    static const int32_t codes[][2] = {
        {BT_EARG, BT_EARG},     {BT_EFORMAT, BT_EFORMAT}, {BT_ELIMIT, BT_ELIMIT},
        {BT_EAGAIN, BT_EAGAIN}, {BT_ECANCEL, BT_ECANCEL}, {BT_EIO, BT_EIO},
        {BT_ENOMEM, BT_EAGAIN}, {BT_EAUTH, BT_EIO},       {BT_EVERSION, BT_EIO},
        {-99, BT_EIO},          {0, BT_ECANCEL}};
    (void)s;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        pf_brain *b = make();
        accept(b, 1, 1, 100, 1 << 20);
        send_whole(b, 100);
        bt_msg m = {.type = BT_MSG_TRANSFER_REFUSED, .ref = {GATE, 1, 1}};
        m.u.failed.code = codes[i][0];
        bulk(b, &m);
        assert_int_equal(said(BT_MSG_FAILED)->u.failed.code, codes[i][1]);
        pf_brain_free(b);
    }
}

static void leaves_at_once_when_the_drain_is_over(void **s)
{
    (void)s;
    for (int state = 0; state < 4; state++) {
        pf_brain *b = make();
        if (state >= 1) accept(b, 1, 1, 100, 1 << 20);
        if (state >= 2) send_whole(b, 100);
        if (state >= 3) bulk(b, &(bt_msg){.type = BT_MSG_COMMITTED, .ref = {GATE, 1, 1}});
        if (state > 0) step(b, &(pf_event){.type = PF_EV_DRAIN});
        if (state > 0) assert_null(did(PF_DO_EXIT));
        step(b, &(pf_event){.type = PF_EV_DRAIN_OVER});
        const bt_msg *f = said(BT_MSG_FAILED);
        assert_int_equal(f != NULL, state == 1 || state == 2);
        if (f) assert_int_equal(f->u.failed.code, BT_EAGAIN);
        assert_int_equal(said(BT_MSG_PREFILL_DONE) != NULL, state == 3);
        assert_non_null(said(BT_MSG_BYE));
        assert_int_equal(acts.items[acts.len - 1].type, PF_DO_EXIT);
        step(b, &(pf_event){.type = PF_EV_TICK}); /* that was all */
        assert_int_equal(acts.len, 0);
        assert_true(pf_brain_due_us(b) == BT_STEP_NEVER);
        pf_brain_free(b);
    }
}

/* The way out: 0 by itself, 1 after the drain timeout, 2 by a signal that comes meanwhile. */
static void drains_for_another_role_and_says_which(void **s)
{
    (void)s;
    for (int way = 0; way < 3; way++) {
        pf_brain *b = make_that(BT_ROLE_MAY);
        accept(b, 1, 1, 100, 1 << 20);
        bt_msg m = {.type = BT_MSG_ROLE, .u.role.role = BT_ROLE_DECODE};
        for (int again = 0; again < 2; again++) {
            control(b, &m);
            assert_int_equal(said(BT_MSG_ROLE_ANSWER)->u.role_answer.code, 0);
            assert_int_equal(said(BT_MSG_ROLE_ANSWER)->u.role_answer.role, BT_ROLE_DECODE);
            assert_int_equal(did(PF_DO_DRAIN) != NULL, !again);
            assert_int_equal(said(BT_MSG_HEARTBEAT) != NULL, !again);
        }
        bt_msg second = prefill_msg(2, 1, 100);
        control(b, &second);
        assert_int_equal(said(BT_MSG_REFUSED)->u.refused.code, BT_EAGAIN);
        if (way == 2) step(b, &(pf_event){.type = PF_EV_DRAIN});
        assert_null(did(PF_DO_EXIT));
        if (way == 1) {
            step(b, &(pf_event){.type = PF_EV_DRAIN_OVER});
            assert_int_equal(said(BT_MSG_FAILED)->u.failed.code, BT_EAGAIN);
        } else {
            bt_msg abort = {.type = BT_MSG_ABORT, .ref = {GATE, 1, 1}};
            control(b, &abort);
            step(b, &(pf_event){.type = PF_EV_COMPUTE_STOPPED, .u.slot = 0});
        }
        assert_non_null(said(BT_MSG_BYE));
        assert_int_equal(did(PF_DO_EXIT)->u.next_role, way == 2 ? 0 : BT_ROLE_DECODE);
        pf_brain_free(b);
    }
    pf_brain *b = make();
    bt_msg m = {.type = BT_MSG_ROLE, .u.role.role = BT_ROLE_DECODE};
    control(b, &m);
    assert_int_equal(said(BT_MSG_ROLE_ANSWER)->u.role_answer.code, BT_EAUTH);
    assert_null(did(PF_DO_DRAIN));
    accept(b, 1, 1, 100, 1 << 20); /* it goes on */
    pf_brain_free(b);
}

static void ignores_every_message_that_a_state_does_not_expect(void **s)
{
    (void)s;
    for (int state = 0; state < 4; state++) {
        for (uint32_t type = 0; type <= 60; type++) {
            for (uint32_t attempt = 1; attempt <= 2; attempt++) {
                for (int on_bulk = 0; on_bulk < 2; on_bulk++) {
                    pf_brain *b = make();
                    if (state >= 1) accept(b, 1, 2, 100, 1 << 20);
                    if (state >= 2) send_whole(b, 100);
                    if (state >= 3) bulk(b, &(bt_msg){.type = BT_MSG_COMMITTED, .ref = {GATE, 1, 2}});
                    bt_load before = pf_brain_load(b);
                    bt_msg m = {.type = (bt_msg_type)type, .ref = {GATE, 1, attempt}};
                    m.u.reject.code = type == BT_MSG_REJECT ? BT_EAGAIN : 0;
                    bool expected = attempt == 2 && (on_bulk ? (type == BT_MSG_COMMITTED && state == 2) ||
                                                                   type == BT_MSG_TRANSFER_REFUSED
                                                             : type == BT_MSG_ABORT || type == BT_MSG_RENEW);
                    if (on_bulk) bulk(b, &m);
                    else control(b, &m);
                    for (size_t i = 0; !expected && i < acts.len; i++)
                        assert_true(acts.items[i].type == PF_DO_SEND_CONTROL ||
                                    acts.items[i].type == PF_DO_SEND_BULK || acts.items[i].type == PF_DO_LOG);
                    bt_load after = pf_brain_load(b);
                    if (!expected) {
                        assert_int_equal(before.slots_used, after.slots_used);
                        assert_int_equal(before.pages_used, after.pages_used);
                        assert_int_equal(before.leases, after.leases);
                    }
                    pf_brain_free(b);
                }
            }
        }
    }
}

static void beats_as_soon_as_its_connection_is_up_again(void **s)
{
    (void)s;
    pf_brain *b = make();
    step(b, &(pf_event){.type = PF_EV_GATE_UP, .u.gate = 0});
    assert_int_equal(acts.len, 1);
    assert_non_null(said(BT_MSG_HEARTBEAT));
    step(b, &(pf_event){.type = PF_EV_GATE_UP, .u.gate = 1}); /* no such gateway */
    assert_int_equal(acts.len, 0);
    control(b, &(bt_msg){.type = BT_MSG_REJECT, .u.reject.code = BT_EAGAIN});
    step(b, &(pf_event){.type = PF_EV_GATE_UP, .u.gate = 0}); /* that HELLO may be lost */
    assert_non_null(said(BT_MSG_HELLO));
    pf_brain_free(b);
}

static void ignores_shell_events_that_no_slot_expects(void **s)
{
    (void)s;
    pf_brain *b = make();
    for (int type = PF_EV_TICK; type <= PF_EV_LINK_FAILED; type++) {
        if (type == PF_EV_GATE_UP || type == PF_EV_CONTROL || type == PF_EV_BULK) continue;
        pf_event ev = {.type = (pf_event_type)type};
        step(b, &ev);
        assert_int_equal(acts.len, 0);
    }
    pf_brain_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends_blocks_while_it_computes_and_short_prompts_when_all_rows_exist),
        cmocka_unit_test(token_0_waits_for_no_digest_but_the_end_does),
        cmocka_unit_test(ends_between_token_0_and_its_digest_wait_for_the_worker),
        cmocka_unit_test(keeps_pages_until_every_block_is_answered),
        cmocka_unit_test(tells_a_slow_prompts_gateway_that_rows_appear),
        cmocka_unit_test(tells_the_gateways_of_all_prompts_in_a_long_run_that_the_worker_gets_on),
        cmocka_unit_test(a_transfer_is_not_stuck_while_the_shell_holds_its_blocks),
        cmocka_unit_test(never_has_more_bytes_under_way_than_the_grant),
        cmocka_unit_test(greets_anew_when_credit_does_not_come),
        cmocka_unit_test(sends_again_what_is_missing_and_commits_again),
        cmocka_unit_test(reports_until_both_reports_are_acknowledged),
        cmocka_unit_test(waits_for_the_worker_and_for_nothing_else),
        cmocka_unit_test(refuses_what_does_not_fit_and_says_when_to_come_back),
        cmocka_unit_test(expires_a_lease_before_it_looks_at_the_event),
        cmocka_unit_test(fails_the_attempt_when_the_decode_node_is_another_process_or_refuses),
        cmocka_unit_test(gives_up_a_link_that_does_not_open),
        cmocka_unit_test(gives_up_a_link_at_once_that_cannot_be_dialled),
        cmocka_unit_test(says_by_the_code_whether_another_attempt_may_work),
        cmocka_unit_test(leaves_at_once_when_the_drain_is_over),
        cmocka_unit_test(drains_for_another_role_and_says_which),
        cmocka_unit_test(ignores_every_message_that_a_state_does_not_expect),
        cmocka_unit_test(beats_as_soon_as_its_connection_is_up_again),
        cmocka_unit_test(ignores_shell_events_that_no_slot_expects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
