/* The pages that the prefill brain gives to a prompt: those of earlier prompts where it begins like them, its
 * own for the rest, never more than a destination may have. The pages that are kept when attempts end early.
 * The rows that are not sent because the decode node has them. */
#include "tests/unit/prefill-node/brain/brain_kit.h"

/* The pages of the COMPUTE of the last step. */
typedef struct pages {
    uint32_t number[8], len, from_row;
} pages;

static pages given(uint32_t tokens)
{
    const pf_action *a = did(PF_DO_COMPUTE);
    assert_non_null(a);
    assert_int_equal(a->u.compute.ids_len, tokens);
    pages p = {.len = a->u.compute.pages_len, .from_row = a->u.compute.from_row};
    assert_int_equal(p.len, (tokens + 63) / 64);
    memcpy(p.number, a->u.compute.pages, p.len * sizeof *p.number);
    return p;
}

static pages accept_pages(pf_brain *b, uint64_t number, uint32_t tokens, uint32_t covered)
{
    bt_msg m = prefill_msg(number, 1, tokens);
    m.u.prefill.covered_tokens = covered;
    control(b, &m);
    const pages p = given(tokens);
    if (did(PF_DO_LINK)) open_link(b, 1 << 20);
    return p;
}

static void ready_from(pf_brain *b, uint32_t from, uint32_t tokens)
{
    for (uint32_t l = 0; l < LAYERS; l++) {
        pf_event ev = {.type = PF_EV_KV_READY};
        ev.u.kv_ready.layer = l;
        ev.u.kv_ready.token_begin = from;
        ev.u.kv_ready.token_count = tokens - from;
        step(b, &ev);
        sent_all(b);
    }
}

static void finish(pf_brain *b, uint64_t number)
{
    digested(b);
    bulk(b, &(bt_msg){.type = BT_MSG_COMMITTED, .ref = {GATE, number, 1}});
    assert_non_null(did(PF_DO_RELEASE));
    for (int i = 0; i < 2; i++) {
        bt_msg ack = {.type = BT_MSG_ACK, .ref = {GATE, number, 1}};
        ack.u.ack.of = i ? BT_MSG_PREFILL_DONE : BT_MSG_FIRST_TOKEN;
        control(b, &ack);
    }
    assert_int_equal(pf_brain_load(b).pages_used, 0);
}

static void number_ids(void)
{
    for (int32_t i = 0; i < 400; i++) ids[i] = i;
}

static void does_not_compute_rows_again_and_sends_them_at_once(void **s)
{
    (void)s;
    pf_brain *b = make();
    number_ids();
    const pages first = accept_pages(b, 1, 200, 0);
    assert_int_equal(first.from_row, 0);
    ready_from(b, 0, 200);
    computed(b);
    assert_int_equal(said(BT_MSG_FIRST_TOKEN)->u.first_token.cached_tokens, 0);
    finish(b, 1);
    assert_int_equal(pf_brain_load(b).pages_cached, 3); /* whole ones only */

    ids[150] = -1; /* another prompt from here on */
    const pages second = accept_pages(b, 2, 200, 0);
    assert_int_equal(second.from_row, 128);
    assert_memory_equal(second.number, first.number, 2 * sizeof first.number[0]);
    assert_true(second.number[2] != first.number[0] && second.number[2] != first.number[1]);
    assert_int_equal(pf_brain_load(b).pages_used, 4);
    assert_int_equal(pf_brain_load(b).pages_cached, 1);
    assert_int_equal(sent_all(b), LAYERS); /* before anything was computed */
    ready_from(b, 128, 200);
    computed(b);
    assert_int_equal(said(BT_MSG_FIRST_TOKEN)->u.first_token.cached_tokens, 128);
    assert_int_equal(said(BT_MSG_COMMIT)->u.commit.kv_bytes, LAYERS * 200 * ROW);
    finish(b, 2);
    assert_int_equal(pf_brain_counters(b)->prefix_hits, 1);
    assert_int_equal(pf_brain_counters(b)->prefix_tokens, 128);
    pf_brain_free(b);
}

static void finds_no_row_of_a_prompt_that_has_another_salt(void **s)
{
    (void)s;
    pf_brain *b = make();
    number_ids();
    for (uint8_t i = 0; i < 4; i++) { /* salts 0, 1, 2, 1 */
        const uint32_t from = i == 3 ? 192 : 0;
        bt_msg m = prefill_msg(1 + i, 1, 200);
        m.u.prefill.salt.bytes[7] = i == 3 ? 1 : i;
        control(b, &m);
        assert_int_equal(given(200).from_row, from);
        if (did(PF_DO_LINK)) open_link(b, 1 << 20);
        sent_all(b);
        ready_from(b, from, 200);
        computed(b);
        assert_int_equal(said(BT_MSG_FIRST_TOKEN)->u.first_token.cached_tokens, from);
        if (!said(BT_MSG_COMMIT)) sent_all(b);
        finish(b, 1 + i);
    }
    assert_int_equal(pf_brain_load(b).pages_cached, 9);
    assert_true(pf_brain_is_sound(b));
    pf_brain_free(b);
}

/* The exposed time begins with the last rows, whether the others were kept here, are at the decode node,
 * both, or neither. */
static void tells_what_was_waited_for_after_the_last_rows_whatever_was_there_before(void **s)
{
    (void)s;
    pf_brain *b = make();
    number_ids();
    for (uint64_t i = 1; i <= 4; i++) {
        const uint32_t covered = i > 2 ? 200 : 0;
        if (i == 3) ids[0] = -1; /* nothing is kept of this one */
        const uint32_t from = accept_pages(b, i, 200, covered).from_row;
        assert_int_equal(from, i % 2 ? 0 : 192);
        sent_all(b);
        now += 5000;
        ready_from(b, from, 200);
        now += 700;
        computed(b);
        assert_int_equal(said(BT_MSG_COMMIT)->u.commit.kv_bytes, covered ? 0 : LAYERS * 200 * ROW);
        now += 300;
        digested(b);
        bulk(b, &(bt_msg){.type = BT_MSG_COMMITTED, .ref = {GATE, i, 1}});
        assert_int_equal(said(BT_MSG_PREFILL_DONE)->u.prefill_done.exposed_us, 1000);
        for (int k = 0; k < 2; k++) {
            bt_msg ack = {.type = BT_MSG_ACK, .ref = {GATE, i, 1}};
            ack.u.ack.of = k ? BT_MSG_PREFILL_DONE : BT_MSG_FIRST_TOKEN;
            control(b, &ack);
        }
    }
    pf_brain_free(b);
}

static void always_computes_the_last_token(void **s)
{
    (void)s;
    pf_brain *b = make();
    number_ids();
    (void)accept_pages(b, 1, 128, 0);
    ready_from(b, 0, 128);
    computed(b);
    finish(b, 1);
    assert_int_equal(pf_brain_load(b).pages_cached, 2);
    assert_int_equal(accept_pages(b, 2, 128, 0).from_row, 64);
    pf_brain_free(b);
}

static void sends_only_what_the_decode_node_lacks(void **s)
{
    (void)s;
    number_ids();
    for (uint32_t covered = 0; covered <= 200; covered += covered == 192 ? 8 : 16) {
        pf_brain *b = make();
        (void)accept_pages(b, 1, 200, covered);
        ready_from(b, 0, 200);
        computed(b);
        assert_non_null(said(BT_MSG_FIRST_TOKEN));
        assert_int_equal(said(BT_MSG_COMMIT)->u.commit.kv_bytes, LAYERS * (200 - covered) * ROW);
        finish(b, 1);
        pf_brain_free(b);
    }
    pf_brain *b = make();
    bt_msg m = prefill_msg(1, 1, 200);
    for (int i = 0; i < 3; i++) {
        m.ref.attempt = (uint32_t)i + 1;
        m.u.prefill.covered_tokens = (uint32_t[]){201, 8, 199}[i];
        control(b, &m);
        assert_int_equal(said(BT_MSG_REFUSED)->u.refused.code, BT_EARG);
        assert_int_equal(said(BT_MSG_REFUSED)->u.refused.retry_after_ms, 0);
    }
    pf_brain_free(b);
}

/* Aborted, failed, or ended by a newer attempt: what is complete in every layer is not computed again. */
static void keeps_what_an_attempt_completed_before_it_ended(void **s)
{
    (void)s;
    number_ids();
    for (int how = 0; how < 3; how++) {
        pf_brain *b = make();
        const pages first = accept_pages(b, 1, 300, 0);
        ready(b, 0, 0, 208);
        sent_all(b);
        ready(b, 1, 0, 144);
        sent_all(b);
        bt_msg m = {.type = how == 0 ? BT_MSG_ABORT : BT_MSG_TRANSFER_REFUSED, .ref = {GATE, 1, 1}};
        if (how == 0) control(b, &m);
        else if (how == 1) bulk(b, &m);
        else {
            m = prefill_msg(1, 2, 300);
            m.u.prefill.decode = OTHER;
            control(b, &m);
        }
        ready(b, 1, 144, 48); /* these were on their way */
        step(b, &(pf_event){.type = PF_EV_COMPUTE_STOPPED, .u.slot = 0});
        assert_non_null(did(PF_DO_RELEASE));
        if (how < 2) {
            m = prefill_msg(2, 1, 300);
            control(b, &m);
        }
        const pages second = given(300);
        assert_int_equal(second.from_row, 192);
        assert_memory_equal(second.number, first.number, 3 * sizeof first.number[0]);
        pf_brain_free(b);
    }
}

static void looks_again_when_a_waiting_prompt_begins(void **s)
{
    (void)s;
    pf_brain *b = make();
    number_ids();
    const pages first = accept_pages(b, 1, 180, 0);
    bt_msg m = prefill_msg(2, 1, 190);
    control(b, &m);
    assert_non_null(said(BT_MSG_PREFILL_ACCEPTED));
    assert_int_equal(pf_brain_load(b).pages_used, 6);
    ready_from(b, 0, 180);
    computed(b);
    digested(b);
    const pages second = given(190);
    assert_int_equal(second.from_row, 128);
    assert_memory_equal(second.number, first.number, 2 * sizeof first.number[0]);
    assert_int_equal(pf_brain_load(b).pages_used, 4);
    pf_brain_free(b);
}

static void gives_a_destination_half_of_the_pool_or_all_when_nobody_else_wants_it(void **s)
{
    (void)s;
    pf_brain *b = make(); /* 12 pages */
    number_ids();
    (void)accept_pages(b, 1, 200, 0);
    bt_msg m = prefill_msg(2, 1, 200);
    m.u.prefill.ids = ids + 1;
    control(b, &m);
    assert_int_equal(said(BT_MSG_REFUSED)->u.refused.code, BT_EAGAIN);
    assert_true(said(BT_MSG_REFUSED)->u.refused.retry_after_ms > 0);
    assert_non_null(strstr(said(BT_MSG_REFUSED)->u.refused.text, "half"));
    assert_int_equal(pf_brain_load(b).pages_used, 4);
    m = prefill_msg(3, 1, 200); /* another destination may */
    m.u.prefill.ids = ids + 2;
    m.u.prefill.decode = OTHER;
    control(b, &m);
    assert_non_null(said(BT_MSG_PREFILL_ACCEPTED));
    assert_int_equal(pf_brain_load(b).pages_used, 8);
    pf_brain_free(b);

    pf_config c = pf_config_defaults();
    c.self = SELF;
    c.slots = 2;
    c.pages_total = 6;
    c.hello.ctx_tokens = 384;
    c.hello.kv = (bt_kv_shape){LAYERS, 1, 2, BT_KV_F16, 0, 0};
    assert_int_equal(pf_brain_new(&b, &c, NULL), BT_OK);
    step(b, &(pf_event){.type = PF_EV_TICK});
    control(b, &(bt_msg){.type = BT_MSG_WELCOME});
    (void)accept_pages(b, 1, 384, 0); /* an empty pool takes the longest prompt */
    pf_brain_free(b);
}

static void refuses_a_prompt_that_no_empty_pool_takes_and_names_what_it_holds(void **s)
{
    (void)s;
    pf_config c = pf_config_defaults();
    c.self = SELF;
    c.hello.ctx_tokens = 384;
    c.hello.kv = (bt_kv_shape){LAYERS, 1, 2, BT_KV_F16, 0, 0};
    for (c.pages_total = 4; c.pages_total <= 8; c.pages_total += 4) {
        pf_brain *b = NULL;
        assert_int_equal(pf_brain_new(&b, &c, NULL), BT_OK);
        step(b, &(pf_event){.type = PF_EV_TICK});
        control(b, &(bt_msg){.type = BT_MSG_WELCOME});
        bt_msg m = prefill_msg(1, 1, c.pages_total == 4 ? 257 : 385);
        control(b, &m);
        assert_int_equal(said(BT_MSG_REFUSED)->u.refused.code, BT_ELIMIT);
        assert_non_null(strstr(said(BT_MSG_REFUSED)->u.refused.text,
                               c.pages_total == 4 ? "holds 256 " : "holds 384 "));
        pf_brain_free(b);
    }
}

static void counts_shared_pages_of_a_destination_once(void **s)
{
    (void)s;
    pf_brain *b = make();
    number_ids();
    (void)accept_pages(b, 1, 266, 0); /* 5 of 12 pages, 4 of them kept when computed */
    ready_from(b, 0, 266);
    computed(b);
    digested(b);
    bt_msg m = prefill_msg(2, 1, 330); /* 4 shared ones and two more would be 7 */
    control(b, &m);
    assert_int_equal(said(BT_MSG_REFUSED)->u.refused.code, BT_EAGAIN);
    assert_int_equal(accept_pages(b, 3, 270, 0).from_row, 256); /* 4 shared ones and one more are half */
    assert_int_equal(pf_brain_load(b).pages_used, 6);
    pf_brain_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_not_compute_rows_again_and_sends_them_at_once),
        cmocka_unit_test(finds_no_row_of_a_prompt_that_has_another_salt),
        cmocka_unit_test(tells_what_was_waited_for_after_the_last_rows_whatever_was_there_before),
        cmocka_unit_test(always_computes_the_last_token),
        cmocka_unit_test(sends_only_what_the_decode_node_lacks),
        cmocka_unit_test(keeps_what_an_attempt_completed_before_it_ended),
        cmocka_unit_test(looks_again_when_a_waiting_prompt_begins),
        cmocka_unit_test(gives_a_destination_half_of_the_pool_or_all_when_nobody_else_wants_it),
        cmocka_unit_test(refuses_a_prompt_that_no_empty_pool_takes_and_names_what_it_holds),
        cmocka_unit_test(counts_shared_pages_of_a_destination_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
