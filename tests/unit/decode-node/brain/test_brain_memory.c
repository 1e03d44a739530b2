/* The decode brain's memory rules, each as a sentence: who gets pages, who must go, which prefixes of
 * prompts are shared. */
#include "base/hash.h"
#include "tests/helpers/brain/decode_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { PAGE = 16, GROWTH = 16, SECOND = 1000000 };
static const char CLASS[] = "npu/abc/f16/1";
static int32_t prompts[8][256]; /* of request n: prompts[n % 8]; all differ from the first token on */

static uint64_t class_of(const char *exactness) { return bt_hash64(exactness, strlen(exactness)); }
static void tick(dc_brain *b) { decode_kit_step(b, &(dc_event){.type = DC_EV_TICK}); }

static bt_prompt_salt salt; /* of the next reservations */
static int greetings;       /* each opens an epoch of the link */

static void greet(dc_brain *b, const char *exactness)
{
    bt_msg hello = {.type = BT_MSG_HELLO};
    hello.u.hello = (bt_msg_hello){.protocol = BT_PROTOCOL_VERSION, .role = BT_ROLE_PREFILL,
                                   .kv = {1, 1, 2, BT_KV_F16, 0, 0}};
    strcpy(hello.u.hello.exactness, exactness);
    hello.u.hello.link_epoch = (uint64_t)++greetings;
    decode_kit_bulk(b, &hello);
    assert_non_null(decode_kit_said(BT_MSG_WELCOME));
}

static dc_brain *make_with(uint32_t slots, uint32_t pages, uint32_t swap_pages, bool can_prefill)
{
    dc_config c = dc_config_defaults();
    c.self = decode_kit_self;
    c.slots = slots;
    c.pages_total = pages;
    c.page_tokens = PAGE;
    c.growth_tokens = GROWTH;
    c.swap_pages = swap_pages;
    c.can_prefill = can_prefill;
    c.lease_max_ms = 600000;
    c.hello.ctx_tokens = 256;
    c.hello.kv = (bt_kv_shape){1, 1, 2, BT_KV_F16, 0, 0};
    if (can_prefill) strcpy(c.hello.prefill_exactness, CLASS);
    for (int32_t n = 0; n < 8; n++)
        for (int32_t i = 0; i < 256; i++) prompts[n][i] = i == 0 ? 1000 + n : i;
    dc_brain *b = NULL;
    decode_kit_now = SECOND;
    assert_int_equal(dc_brain_new(&b, &c, NULL), BT_OK);
    tick(b);
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_WELCOME});
    greet(b, CLASS);
    return b;
}

static void reserve(dc_brain *b, uint64_t number, uint32_t attempt, uint32_t prompt, uint32_t max,
                    bool is_local, const int32_t *generated, uint32_t generated_len)
{
    bt_msg m = {.type = BT_MSG_RESERVE, .ref = {decode_kit_gate, number, attempt}};
    m.u.reserve = (bt_msg_reserve){.prompt_tokens = prompt,
                                   .max_tokens = max,
                                   .ids = prompts[number % 8],
                                   .ids_len = prompt,
                                   .generated = generated,
                                   .generated_len = generated_len,
                                   .is_local = is_local,
                                   .stop_ids_len = 1,
                                   .stop_ids = {7},
                                   .lease_ms = 600000,
                                   .salt = salt};
    if (!is_local) {
        m.u.reserve.prefill = decode_kit_prefill;
        m.u.reserve.prefill_class = class_of(CLASS);
    }
    decode_kit_control(b, &m);
}

/* A local one that is taken; returns its slot. */
static uint32_t local(dc_brain *b, uint64_t number, uint32_t prompt, uint32_t max)
{
    reserve(b, number, 1, prompt, max, true, NULL, 0);
    assert_non_null(decode_kit_said(BT_MSG_RESERVED));
    assert_non_null(decode_kit_did(DC_DO_START));
    return decode_kit_did(DC_DO_START)->u.start.slot;
}

static void first(dc_brain *b, uint32_t slot, int32_t token)
{
    const bt_msg_first_token f = {.token = token, .prefill_us = 5};
    dc_event ev = {.type = DC_EV_FIRST};
    ev.u.first.slot = slot;
    ev.u.first.msg = &f;
    ev.u.first.kv_digest.bytes[0] = 77;
    decode_kit_step(b, &ev);
}

static uint32_t running(dc_brain *b, uint64_t number, uint32_t prompt, uint32_t max)
{
    const uint32_t slot = local(b, number, prompt, max);
    first(b, slot, 100);
    return slot;
}

static void token(dc_brain *b, uint32_t slot, uint32_t index)
{
    dc_event ev = {.type = DC_EV_TOKEN};
    ev.u.token.slot = slot;
    ev.u.token.index = index;
    ev.u.token.id = 100 + (int32_t)index;
    decode_kit_step(b, &ev);
}

static void need(dc_brain *b, uint32_t slot, uint32_t tokens)
{
    decode_kit_step(b, &(dc_event){.type = DC_EV_NEED, .u.need = {slot, tokens}});
}

static void stopped(dc_brain *b, uint32_t slot, uint32_t rows)
{
    decode_kit_step(b, &(dc_event){.type = DC_EV_STOPPED, .u.stopped = {slot, rows}});
}

static void ended(dc_brain *b, uint32_t slot)
{
    dc_event ev = {.type = DC_EV_ENDED};
    ev.u.ended.slot = slot;
    ev.u.ended.reason = BT_FINISH_LENGTH;
    decode_kit_step(b, &ev);
}

static void ack(dc_brain *b, uint64_t number, bt_msg_type of)
{
    bt_msg m = {.type = BT_MSG_ACK, .ref = {decode_kit_gate, number, 1}};
    m.u.ack.of = of;
    decode_kit_control(b, &m);
}

static bt_ticket remote(dc_brain *b, uint64_t number, uint32_t prompt, uint32_t max, const int32_t *generated,
                        uint32_t generated_len)
{
    reserve(b, number, 1, prompt, max, false, generated, generated_len);
    assert_non_null(decode_kit_said(BT_MSG_RESERVED));
    return decode_kit_said(BT_MSG_RESERVED)->u.reserved.ticket;
}

static dc_event block(bt_ticket t, uint64_t number, uint32_t begin, uint32_t end)
{
    dc_event ev = {.type = DC_EV_BLOCK};
    ev.u.block = (dc_block){
        .from = decode_kit_prefill, .ref = {decode_kit_gate, number, 1}, .ticket = t,
        .token_begin = begin,       .token_count = end - begin,          .bytes = (end - begin) * 8ull};
    return ev;
}

static void place(dc_brain *b, bt_ticket t, uint64_t number, uint32_t begin, uint32_t end)
{
    dc_event ev = block(t, number, begin, end);
    decode_kit_step(b, &ev);
    assert_non_null(decode_kit_did(DC_DO_PLACE));
    ev = (dc_event){.type = DC_EV_PLACED, .u.block = decode_kit_did(DC_DO_PLACE)->u.block};
    decode_kit_step(b, &ev);
}

static void commit(dc_brain *b, bt_ticket t, uint64_t number, uint32_t prompt, int32_t first_token)
{
    bt_msg m = {.type = BT_MSG_COMMIT, .ref = {decode_kit_gate, number, 1}};
    m.u.commit = (bt_msg_commit){.ticket = t, .prompt_tokens = prompt, .first_token = first_token,
                                 .kv_bytes = prompt * 8ull};
    decode_kit_bulk(b, &m);
}

/* The rows of a remote prompt arrive. */
static void arrives(dc_brain *b, bt_ticket t, uint64_t number, uint32_t prompt, int32_t first_token)
{
    place(b, t, number, 0, prompt);
    commit(b, t, number, prompt, first_token);
}

static void abort_it(dc_brain *b, uint64_t number)
{
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_ABORT, .ref = {decode_kit_gate, number, 1}});
}

static void finished(dc_brain *b, uint64_t number)
{
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_FINISHED_ACK, .ref = {decode_kit_gate, number, 1}});
}

/* ---- local reservations and replay -------------------------------------------------------------- */

static void starts_a_local_reservation_at_once_with_no_row_in_place(void **s)
{
    (void)s;
    dc_brain *b = make_with(2, 8, 0, true);
    assert_int_equal(local(b, 1, 40, 4), 0);
    const dc_action *a = decode_kit_did(DC_DO_START);
    assert_int_equal(decode_kit_held()->u.set.pages_len, 3);
    assert_int_equal(a->u.start.rows, 0);
    assert_int_equal(a->u.start.ids_len, 0);
    assert_memory_equal(a->u.start.prompt, prompts[1], 40 * sizeof(int32_t));
    assert_int_equal(dc_brain_load(b).pages_used, 3);
    reserve(b, 1, 1, 40, 4, true, NULL, 0); /* the answer was lost */
    assert_non_null(decode_kit_said(BT_MSG_RESERVED));
    assert_null(decode_kit_did(DC_DO_START));
    dc_brain_free(b);
    b = make_with(2, 8, 0, false);
    reserve(b, 1, 1, 40, 4, true, NULL, 0);
    assert_int_equal(decode_kit_said(BT_MSG_REFUSED)->u.refused.retry_after_ms, 0);
    dc_brain_free(b);
}

static void tells_token_0_and_the_digest_of_a_local_prompt_until_each_is_acknowledged(void **s)
{
    (void)s;
    dc_brain *b = make_with(1, 8, 0, true);
    uint32_t slot = running(b, 1, 40, 4);
    assert_int_equal(decode_kit_said(BT_MSG_FIRST_TOKEN)->u.first_token.token, 100);
    assert_int_equal(decode_kit_said(BT_MSG_PREFILL_DONE)->u.prefill_done.kv_digest.bytes[0], 77);
    assert_int_equal(decode_kit_said(BT_MSG_PREFILL_DONE)->u.prefill_done.kv_bytes, 0);
    assert_null(decode_kit_said(BT_MSG_TOKENS));
    ack(b, 1, BT_MSG_FIRST_TOKEN);
    decode_kit_now += SECOND;
    tick(b);
    assert_null(decode_kit_said(BT_MSG_FIRST_TOKEN));
    assert_non_null(decode_kit_said(BT_MSG_PREFILL_DONE));
    ack(b, 1, BT_MSG_PREFILL_DONE);
    decode_kit_now += SECOND;
    tick(b);
    assert_null(decode_kit_said(BT_MSG_PREFILL_DONE));
    reserve(b, 1, 1, 40, 4, true, NULL, 0); /* RESERVED was lost: token 0 came too early to the gateway */
    assert_non_null(decode_kit_said(BT_MSG_RESERVED));
    assert_non_null(decode_kit_said(BT_MSG_FIRST_TOKEN));
    assert_non_null(decode_kit_said(BT_MSG_PREFILL_DONE));
    token(b, slot, 1);
    assert_int_equal(decode_kit_said(BT_MSG_TOKENS)->u.tokens.first_index, 1);
    dc_brain_free(b);
}

static void replays_tokens_of_an_earlier_attempt_and_tells_none_of_them_again(void **s)
{
    (void)s;
    const int32_t known[3] = {100, 101, 102};
    for (int is_local = 0; is_local < 2; is_local++) {
        dc_brain *b = make_with(1, 8, 0, true);
        if (is_local) {
            reserve(b, 1, 1, 40, 8, true, known, 3);
        } else {
            bt_ticket t = remote(b, 1, 40, 8, known, 3);
            arrives(b, t, 1, 40, 100);
            assert_non_null(decode_kit_said(BT_MSG_COMMITTED));
        }
        const dc_action *a = decode_kit_did(DC_DO_START);
        assert_int_equal(a->u.start.rows, is_local ? 0 : 40);
        assert_int_equal(a->u.start.ids_len, 3);
        assert_memory_equal(a->u.start.ids, known, sizeof known);
        if (is_local) first(b, 0, 100);
        assert_int_equal(dc_brain_counters(b)->replayed_tokens, 2);
        token(b, 0, 3);
        assert_int_equal(decode_kit_said(BT_MSG_TOKENS)->u.tokens.first_index, 3);
        decode_kit_now += SECOND;
        tick(b);
        assert_int_equal(decode_kit_said(BT_MSG_TOKENS)->u.tokens.first_index, 3);
        dc_brain_free(b);
    }
}

static void ends_an_attempt_whose_prompt_gives_another_token_0_than_before(void **s)
{
    (void)s;
    const int32_t known[2] = {100, 101};
    dc_brain *b = make_with(1, 8, 0, true);
    bt_ticket t = remote(b, 1, 40, 8, known, 2);
    arrives(b, t, 1, 40, 99);
    assert_null(decode_kit_did(DC_DO_START));
    assert_non_null(decode_kit_said(BT_MSG_TRANSFER_REFUSED));
    assert_int_equal(decode_kit_said(BT_MSG_FAILED)->u.failed.code, BT_EFORMAT);
    assert_int_equal(dc_brain_load(b).pages_used, 0);
    reserve(b, 2, 1, 40, 8, true, known, 2);
    first(b, 0, 99);
    assert_non_null(decode_kit_did(DC_DO_STOP));
    stopped(b, 0, 40);
    assert_int_equal(decode_kit_said(BT_MSG_FAILED)->u.failed.code, BT_EIO);
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_ACK, .ref = {decode_kit_gate, 2, 1},
                                    .u.ack.of = BT_MSG_FAILED});
    reserve(b, 3, 1, 40, 8, true, known, 2);
    first(b, 0, 99);
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_ABORT, .ref = {decode_kit_gate, 3, 1}});
    stopped(b, 0, 40);
    assert_non_null(decode_kit_said(BT_MSG_ABORT_ACK));
    assert_int_equal(dc_brain_load(b).pages_used, 0);
    assert_int_equal(dc_brain_load(b).pages_cached, 0); /* rows of which one of two is wrong are nobody's
                                                           prefix */
    dc_brain_free(b);
}

static void says_that_it_gets_on_while_known_rows_are_computed_and_no_token_comes(void **s)
{
    (void)s;
    dc_brain *b = make_with(2, 16, 0, true);
    const uint32_t a = local(b, 1, 40, 8);
    decode_kit_now += SECOND / 2;
    tick(b);
    assert_non_null(decode_kit_said(BT_MSG_PREFILL_ACCEPTED));
    decode_kit_now += SECOND / 2;
    tick(b);
    assert_null(decode_kit_said(BT_MSG_PREFILL_ACCEPTED)); /* nothing moves in the worker: it may be stuck */
    const uint32_t c = running(b, 2, 40, 8);               /* its neighbour's turn came first */
    decode_kit_now += SECOND / 2;
    tick(b);
    assert_int_equal(decode_kit_said(BT_MSG_PREFILL_ACCEPTED)->ref.number, 1);
    first(b, a, 100);
    token(b, c, 1);
    decode_kit_now += SECOND;
    tick(b);
    assert_null(decode_kit_said(BT_MSG_PREFILL_ACCEPTED));
    dc_brain_free(b);
}

/* ---- pages -------------------------------------------------------------------------------------- */

static void counts_growth_beside_the_prompt_and_gives_it_page_by_page(void **s)
{
    (void)s;
    dc_brain *b = make_with(4, 6, 0, true);
    uint32_t slot = running(b, 1, 32, 64); /* 2 pages, 1 counted */
    assert_int_equal(dc_brain_load(b).pages_used, 2);
    (void)running(b, 2, 20, 4);              /* 2 pages: 20 + 4 rows */
    reserve(b, 3, 1, 17, 16, true, NULL, 0); /* 3 pages, and 1 of the 2 free ones is counted */
    assert_non_null(decode_kit_said(BT_MSG_WAITS));
    need(b, slot, 48);
    assert_int_equal(decode_kit_grew()->u.set.pages_len * PAGE, 48);
    need(b, slot, 64); /* beyond what was counted: it takes what is free */
    assert_int_equal(decode_kit_grew()->u.set.pages_len * PAGE, 64);
    assert_int_equal(dc_brain_load(b).pages_used, 6);
    dc_brain_free(b);
}

static void preempts_the_youngest_for_an_older_one_and_brings_it_back_when_pages_are_free(void **s)
{
    (void)s;
    dc_brain *b = make_with(4, 7, 8, true);
    uint32_t old = running(b, 1, 32, 64), mid = running(b, 2, 10, 6), young = running(b, 3, 30, 10);
    need(b, old, 64);
    assert_non_null(decode_kit_grew());
    assert_int_equal(dc_brain_load(b).pages_used, 7);
    need(b, old, 80);
    assert_int_equal(decode_kit_did(DC_DO_STOP)->u.slot, young);
    assert_null(decode_kit_grew());
    token(b, young, 1); /* it was made before the worker saw the STOP */
    assert_non_null(decode_kit_said(BT_MSG_TOKENS));
    stopped(b, young, 31);
    assert_int_equal(decode_kit_acts.items[0].type, DC_DO_SWAP_OUT);
    assert_int_equal(decode_kit_acts.items[0].u.swap.slot, young);
    assert_int_equal(decode_kit_acts.items[0].u.swap.tokens, 31);
    assert_int_equal(decode_kit_grew()->u.set.slot, old);
    assert_int_equal(dc_brain_load(b).pages_used, 6);
    assert_int_equal(dc_brain_load(b).queued, 1);
    ended(b, mid);
    assert_null(decode_kit_did(DC_DO_SWAP_IN)); /* it wants the pages of 30 + 10 rows */
    ended(b, old);
    assert_int_equal(decode_kit_did(DC_DO_SWAP_IN)->u.swap.tokens, 31);
    assert_int_equal(decode_kit_held()->u.set.pages_len, 2);
    const dc_action *a = decode_kit_did(DC_DO_START);
    assert_int_equal(a->u.start.slot, young);
    assert_int_equal(a->u.start.rows, 31);
    assert_int_equal(a->u.start.ids_len, 2);
    token(b, young, 2);
    assert_int_equal(decode_kit_said(BT_MSG_TOKENS)->u.tokens.first_index, 2);
    assert_int_equal(dc_brain_counters(b)->preempted, 1);
    assert_int_equal(dc_brain_counters(b)->swapped_in, 1);
    ended(b, young);
    assert_int_equal(dc_brain_load(b).pages_used, 0);
    dc_brain_free(b);
}

static void lets_the_youngest_sit_out_rather_than_preempting_an_older_one(void **s)
{
    (void)s;
    dc_brain *b = make_with(2, 5, 8, true);
    uint32_t old = running(b, 1, 32, 40), young = running(b, 2, 10, 60);
    need(b, old, 48);
    need(b, young, 32);
    assert_int_equal(decode_kit_grew()->u.set.slot, young);
    need(b, young, 48);
    assert_null(decode_kit_did(DC_DO_STOP));
    assert_null(decode_kit_grew());
    reserve(b, 3, 1, 1, 1, true, NULL, 0);
    assert_null(decode_kit_said(BT_MSG_RESERVED)); /* every slot is taken, and a sequence waits for pages */
    ended(b, old);
    assert_int_equal(decode_kit_grew()->u.set.slot, young);
    assert_int_equal(decode_kit_said(BT_MSG_RESERVED)->ref.number, 3);
    dc_brain_free(b);
}

static void prefills_and_replays_again_what_the_swap_store_cannot_hold(void **s)
{
    (void)s;
    dc_brain *b = make_with(2, 6, 1, true);
    uint32_t old = running(b, 1, 32, 60), young = running(b, 2, 20, 20);
    token(b, young, 1);
    need(b, old, 64);
    need(b, old, 80);
    stopped(b, young, 21);
    assert_null(decode_kit_did(DC_DO_SWAP_OUT));
    assert_int_equal(decode_kit_freed()->u.set.slot, young);
    assert_int_equal(decode_kit_grew()->u.set.slot, old);
    ended(b, old);
    assert_int_equal(decode_kit_held()->u.set.pages_len, 2);
    /* a whole page of its prompt was still kept */
    assert_int_equal(decode_kit_did(DC_DO_START)->u.start.rows, 16);
    assert_int_equal(decode_kit_did(DC_DO_START)->u.start.ids_len, 2);
    first(b, young, 100);
    assert_null(decode_kit_said(BT_MSG_FIRST_TOKEN)); /* it was told before */
    assert_int_equal(dc_brain_counters(b)->dropped, 1);
    dc_brain_free(b);
}

static void begins_a_prefill_again_where_its_whole_pages_end_that_was_preempted_in_its_middle(void **s)
{
    (void)s;
    dc_brain *b = make_with(2, 6, 8, true);
    uint32_t old = running(b, 1, 32, 60), young = local(b, 2, 20, 20);
    need(b, old, 80);
    assert_int_equal(decode_kit_did(DC_DO_STOP)->u.slot, young);
    stopped(b, young, 16);
    assert_null(decode_kit_did(DC_DO_SWAP_OUT));
    ended(b, old);
    assert_int_equal(decode_kit_did(DC_DO_START)->u.start.rows, 16);
    first(b, young, 100);
    assert_non_null(decode_kit_said(BT_MSG_FIRST_TOKEN));
    dc_brain_free(b);
}

static void gives_up_what_can_neither_be_kept_nor_made_again(void **s)
{
    (void)s;
    dc_brain *b = make_with(2, 6, 1, false);
    bt_ticket t = remote(b, 1, 32, 60, NULL, 0);
    arrives(b, t, 1, 32, 64);
    uint32_t old = decode_kit_did(DC_DO_START)->u.start.slot;
    t = remote(b, 2, 20, 20, NULL, 0);
    arrives(b, t, 2, 20, 100);
    uint32_t young = decode_kit_did(DC_DO_START)->u.start.slot;
    need(b, old, 64);
    need(b, old, 80);
    stopped(b, young, 20);
    assert_int_equal(decode_kit_said(BT_MSG_FAILED)->u.failed.code, BT_EAGAIN);
    assert_int_equal(decode_kit_said(BT_MSG_FAILED)->ref.number, 2);
    assert_int_equal(decode_kit_grew()->u.set.slot, old);
    ack(b, 2, BT_MSG_FAILED);
    assert_int_equal(dc_brain_load(b).leases, 1);
    dc_brain_free(b);
}

/* With GROWTH counted, 17 rows take 3 of 6 pages; with DC_CAUTION times as much all. */
static void counts_more_growth_for_a_while_after_it_has_given_up_a_sequence(void **s)
{
    (void)s;
    dc_brain *b = make_with(2, 6, 0, false);
    bt_ticket t = remote(b, 1, 32, 60, NULL, 0);
    arrives(b, t, 1, 32, 64);
    const uint32_t old = decode_kit_did(DC_DO_START)->u.start.slot;
    t = remote(b, 2, 20, 20, NULL, 0);
    arrives(b, t, 2, 20, 100);
    const uint32_t young = decode_kit_did(DC_DO_START)->u.start.slot;
    need(b, old, 80);
    stopped(b, young, 20);
    ack(b, 2, BT_MSG_FAILED);
    ended(b, old);
    for (uint64_t n = 3; n <= 5; n += 2) {
        const bool is_cautious = n == 3;
        (void)remote(b, n, 17, 6 * PAGE - 17, NULL, 0);
        reserve(b, n + 1, 1, 1, 1, false, NULL, 0);
        assert_true((decode_kit_said(BT_MSG_WAITS) != NULL) == is_cautious);
        for (uint64_t k = n; k < n + 2; k++)
            decode_kit_control(b, &(bt_msg){.type = BT_MSG_ABORT, .ref = {decode_kit_gate, k, 1}});
        decode_kit_now += DC_CAUTION_US;
    }
    dc_brain_free(b);
}

static void serves_who_waits_for_pages_by_age_and_takes_no_new_reservation_before(void **s)
{
    (void)s;
    dc_brain *b = make_with(4, 6, 16, true);
    uint32_t old = running(b, 1, 32, 64), mid = running(b, 2, 14, 2), young = running(b, 3, 14, 2);
    need(b, old, 64);
    assert_null(decode_kit_did(DC_DO_STOP));
    assert_int_equal(dc_brain_load(b).pages_used, 6);
    need(b, old, 96); /* both must go, one after the other */
    assert_int_equal(decode_kit_did(DC_DO_STOP)->u.slot, young);
    stopped(b, young, 14);
    assert_int_equal(decode_kit_did(DC_DO_STOP)->u.slot, mid);
    stopped(b, mid, 14);
    assert_non_null(decode_kit_grew());
    reserve(b, 4, 1, 1, 1, true, NULL, 0);
    assert_non_null(decode_kit_said(BT_MSG_WAITS));
    ended(b, old);
    assert_int_equal(decode_kit_did(DC_DO_SWAP_IN)->u.swap.slot, mid);
    assert_int_equal(decode_kit_said(BT_MSG_RESERVED)->ref.number, 4);
    assert_int_equal(dc_brain_load(b).queued, 0);
    reserve(b, 5, 1, 1, 1, true, NULL, 0);
    assert_non_null(decode_kit_said(BT_MSG_RESERVED));
    dc_brain_free(b);
}

static void refuses_what_no_empty_pool_takes_and_names_what_it_holds(void **s)
{
    (void)s;
    for (uint32_t pages = 4; pages <= 256 / PAGE * 2; pages *= 2) {
        const uint32_t held = pages * PAGE < 256 ? pages * PAGE : 256;
        char words[32];
        snprintf(words, sizeof words, "holds %u ", held);
        dc_brain *b = make_with(1, pages, 0, false);
        bt_msg m = {.type = BT_MSG_RESERVE, .ref = {decode_kit_gate, 1, 1}};
        m.u.reserve = (bt_msg_reserve){.prompt_tokens = held, .ids = prompts[0], .ids_len = held,
                                       .max_tokens = 1, .lease_ms = 10000};
        decode_kit_control(b, &m);
        assert_int_equal(decode_kit_said(BT_MSG_REFUSED)->u.refused.code, BT_ELIMIT);
        assert_non_null(strstr(decode_kit_said(BT_MSG_REFUSED)->u.refused.text, words));
        dc_brain_free(b);
    }
}

static void gives_up_who_waits_for_pages_too_long(void **s)
{
    (void)s;
    dc_brain *b = make_with(3, 6, 16, true);
    uint32_t old = running(b, 1, 32, 64), young = running(b, 2, 30, 20);
    need(b, old, 80);
    stopped(b, young, 30);
    assert_non_null(decode_kit_did(DC_DO_SWAP_OUT));
    assert_non_null(decode_kit_grew());
    assert_true(dc_brain_due_us(b) <= decode_kit_now + 20 * SECOND);
    decode_kit_now += 20 * SECOND;
    tick(b);
    assert_int_equal(decode_kit_said(BT_MSG_FAILED)->ref.number, 2);
    assert_int_equal(decode_kit_said(BT_MSG_FAILED)->u.failed.code, BT_EAGAIN);
    assert_int_equal(decode_kit_did(DC_DO_DROP_SWAP)->u.slot, young);
    dc_brain_free(b);
}

static void frees_a_preempted_sequence_whose_gateway_aborts_it(void **s)
{
    (void)s;
    for (int when = 0; when < 2; when++) {
        dc_brain *b = make_with(2, 6, 16, true);
        uint32_t old = running(b, 1, 32, 60), young = running(b, 2, 20, 20);
        need(b, old, 80);
        if (when == 1) stopped(b, young, 20);
        decode_kit_control(b, &(bt_msg){.type = BT_MSG_ABORT, .ref = {decode_kit_gate, 2, 1}});
        if (when == 0) {
            assert_null(decode_kit_said(BT_MSG_ABORT_ACK));
            assert_null(decode_kit_did(DC_DO_STOP)); /* it has been told */
            stopped(b, young, 20);
            assert_int_equal(decode_kit_freed()->u.set.slot, young);
        } else {
            assert_int_equal(decode_kit_did(DC_DO_DROP_SWAP)->u.slot, young);
        }
        assert_non_null(decode_kit_said(BT_MSG_ABORT_ACK));
        assert_int_equal(dc_brain_load(b).leases, 1);
        assert_int_equal(dc_brain_load(b).pages_used, 5);
        dc_brain_free(b);
    }
}

/* ---- prefixes that are kept ------------------------------------------------------------------- */

static void shares_a_prefix_in_place_and_counts_its_pages_once(void **s)
{
    (void)s;
    dc_brain *b = make_with(4, 8, 0, true);
    uint32_t donor = local(b, 1, 50, 4);
    local(b, 9, 50, 4); /* the same prompt, but no row is in place yet */
    assert_int_equal(decode_kit_did(DC_DO_START)->u.start.rows, 0);
    abort_it(b, 9);
    stopped(b, 1, 0);
    first(b, donor, 100);
    uint32_t slot = local(b, 17, 48, 4);
    assert_int_equal(decode_kit_held()->u.set.pages_len, 3);
    /* row 47 is computed: token 0 comes of it */
    assert_int_equal(decode_kit_did(DC_DO_START)->u.start.rows, 32);
    assert_int_equal(dc_brain_load(b).pages_used, 5);
    ended(b, donor);
    assert_int_equal(dc_brain_load(b).pages_used, 3);
    assert_int_equal(dc_brain_load(b).pages_cached, 1);
    first(b, slot, 100);
    assert_int_equal(decode_kit_said(BT_MSG_FIRST_TOKEN)->u.first_token.cached_tokens, 32);
    ended(b, slot);
    assert_int_equal(dc_brain_load(b).pages_used, 0);
    assert_int_equal(dc_brain_load(b).pages_cached, 3);
    assert_int_equal(dc_brain_counters(b)->prefix_hits, 1);
    assert_int_equal(dc_brain_counters(b)->prefix_tokens, 32);
    assert_int_equal(dc_brain_counters(b)->prompt_tokens, 148);
    assert_true(dc_brain_is_sound(b));
    dc_brain_free(b);
}

static void gives_pages_that_are_only_kept_to_whoever_needs_them(void **s)
{
    (void)s;
    dc_brain *b = make_with(4, 8, 0, true);
    ended(b, running(b, 1, 64, 4));
    assert_int_equal(dc_brain_load(b).pages_cached, 4);
    const uint32_t slot = running(b, 2, 100, 4); /* 7 of 8 pages: 3 of the kept ones go, the end of the
                                                    prefix first */
    assert_int_equal(dc_brain_load(b).pages_used, 7);
    assert_int_equal(dc_brain_load(b).pages_cached, 1);
    ended(b, slot);
    (void)local(b, 9, 64, 4);
    assert_int_equal(decode_kit_did(DC_DO_START)->u.start.rows, 16);
    dc_brain_free(b);
}

static void never_keeps_rows_that_decoding_made(void **s)
{
    (void)s;
    dc_brain *b = make_with(2, 16, 0, true);
    const uint32_t slot = running(b, 1, 40, 60);
    for (uint32_t i = 1; i < 60; i++) token(b, slot, i);
    ended(b, slot);
    for (int32_t i = 0; i < 60; i++)
        prompts[1][40 + i] = 100 + i; /* the next turn of the conversation: prompt and answer */
    (void)local(b, 9, 100, 4);
    assert_int_equal(decode_kit_did(DC_DO_START)->u.start.rows, 32);
    dc_brain_free(b);
}

static void wants_only_the_rows_of_a_remote_prompt_that_it_lacks(void **s)
{
    (void)s;
    dc_brain *b = make_with(2, 16, 0, false);
    bt_ticket t = remote(b, 1, 50, 4, NULL, 0);
    assert_int_equal(decode_kit_said(BT_MSG_RESERVED)->u.reserved.covered_tokens, 0);
    arrives(b, t, 1, 50, 100);
    ended(b, 0);
    t = remote(b, 9, 50, 4, NULL, 0);
    assert_int_equal(decode_kit_said(BT_MSG_RESERVED)->u.reserved.covered_tokens, 48);
    dc_event ev = block(t, 9, 32, 50);
    decode_kit_step(b, &ev);
    assert_int_equal(decode_kit_did(DC_DO_DROP)->u.drop.reason, DC_DROP_REPEAT);
    commit(b, t, 9, 50, 100);
    assert_int_equal(decode_kit_said(BT_MSG_MISSING)->u.missing.ranges_len, 1);
    assert_int_equal(decode_kit_said(BT_MSG_MISSING)->u.missing.ranges[0].token_begin, 48);
    place(b, t, 9, 48, 50);
    commit(b, t, 9, 50, 100);
    assert_non_null(decode_kit_said(BT_MSG_COMMITTED));
    ended(b, 0);
    finished(b, 9);
    t = remote(b, 17, 48, 4, NULL, 0); /* all of it is here: nothing is sent but COMMIT */
    assert_int_equal(decode_kit_said(BT_MSG_RESERVED)->u.reserved.covered_tokens, 48);
    commit(b, t, 17, 48, 100);
    assert_int_equal(decode_kit_did(DC_DO_START)->u.start.rows, 48);
    assert_int_equal(dc_brain_counters(b)->prefix_tokens, 96);
    dc_brain_free(b);
}

static void goes_on_where_a_transfer_or_a_prefill_ended_early(void **s)
{
    (void)s;
    dc_brain *b = make_with(2, 16, 0, true);
    bt_ticket t = remote(b, 1, 50, 4, NULL, 0);
    place(b, t, 1, 0, 16);
    place(b, t, 1, 16, 48);
    abort_it(b, 1);
    assert_int_equal(dc_brain_load(b).pages_used, 0);
    t = remote(b, 9, 50, 4, NULL, 0);
    assert_int_equal(decode_kit_said(BT_MSG_RESERVED)->u.reserved.covered_tokens, 48);
    abort_it(b, 9);
    t = remote(b, 2, 50, 4, NULL, 0); /* a hole in the middle, then its lease ends */
    place(b, t, 2, 0, 16);
    place(b, t, 2, 32, 50);
    decode_kit_now += 700 * SECOND;
    tick(b);
    greet(b, CLASS);
    (void)remote(b, 10, 50, 4, NULL, 0);
    assert_int_equal(decode_kit_said(BT_MSG_RESERVED)->u.reserved.covered_tokens, 16);
    abort_it(b, 10);
    (void)local(b, 3, 50, 4);
    abort_it(b, 3);
    stopped(b, 0, 40);
    (void)local(b, 11, 50, 4);
    assert_int_equal(decode_kit_did(DC_DO_START)->u.start.rows, 32);
    assert_true(dc_brain_is_sound(b));
    dc_brain_free(b);
}

static void shares_rows_only_within_a_class(void **s)
{
    (void)s;
    for (int same = 0; same < 2; same++) {
        dc_brain *b = make_with(4, 16, 0, true);
        const char *class = same ? CLASS : "npu/abd/f16/1";
        greet(b, class);
        bt_msg m = {.type = BT_MSG_RESERVE, .ref = {decode_kit_gate, 1, 1}};
        m.u.reserve = (bt_msg_reserve){.prompt_tokens = 50,
                                       .max_tokens = 4,
                                       .ids = prompts[1],
                                       .ids_len = 50,
                                       .prefill = decode_kit_prefill,
                                       .prefill_class = class_of(class),
                                       .lease_ms = 600000};
        decode_kit_control(b, &m);
        arrives(b, decode_kit_said(BT_MSG_RESERVED)->u.reserved.ticket, 1, 50, 100);
        assert_non_null(decode_kit_did(DC_DO_START));
        local(b, 9, 50, 4);
        assert_int_equal(decode_kit_did(DC_DO_START)->u.start.rows, same ? 48 : 0);
        (void)remote(b, 17, 50, 4, NULL, 0);
        assert_int_equal(decode_kit_said(BT_MSG_RESERVED)->u.reserved.covered_tokens, same ? 48 : 0);
        dc_brain_free(b);
    }
}

/* The same tokens of one class; a prompt that was sent, and one that is computed here. */
static void shares_rows_only_with_prompts_of_the_same_salt(void **s)
{
    (void)s;
    dc_brain *b = make_with(6, 32, 0, true);
    salt.bytes[0] = 1;
    arrives(b, remote(b, 1, 50, 4, NULL, 0), 1, 50, 100);
    ended(b, 0);
    for (uint8_t other = 0; other < 3; other++) {
        const bool is_same = other == 1;
        salt.bytes[0] = other;
        (void)remote(b, 9 + 8 * other, 50, 4, NULL, 0);
        assert_int_equal(decode_kit_said(BT_MSG_RESERVED)->u.reserved.covered_tokens, is_same ? 48 : 0);
        abort_it(b, 9 + 8 * other);
        assert_int_equal(running(b, 41 + 8 * other, 50, 4), 0);
        assert_int_equal(decode_kit_said(BT_MSG_FIRST_TOKEN)->u.first_token.cached_tokens, is_same ? 48 : 0);
        ended(b, 0);
    }
    assert_int_equal(dc_brain_load(b).pages_cached, 9); /* three pages of each salt */
    salt = (bt_prompt_salt){{0}};
    dc_brain_free(b);
}

static void takes_no_row_of_another_class_than_was_reserved(void **s)
{
    (void)s;
    dc_brain *b = make_with(4, 16, 0, true);
    bt_ticket t = remote(b, 1, 50, 4, NULL, 0);
    place(b, t, 1, 0, 48);
    greet(b, "npu/abd/f16/1"); /* the same incarnation says another class now */
    dc_event ev = block(t, 1, 48, 50);
    decode_kit_step(b, &ev);
    assert_int_equal(decode_kit_did(DC_DO_DROP)->u.drop.reason, DC_DROP_CLASS);
    commit(b, t, 1, 50, 100);
    assert_int_equal(decode_kit_said(BT_MSG_TRANSFER_REFUSED)->u.failed.code, BT_EFORMAT);
    assert_int_equal(decode_kit_said(BT_MSG_FAILED)->u.failed.code, BT_EFORMAT);
    assert_int_equal(dc_brain_load(b).pages_used, 0);
    dc_brain_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_a_local_reservation_at_once_with_no_row_in_place),
        cmocka_unit_test(tells_token_0_and_the_digest_of_a_local_prompt_until_each_is_acknowledged),
        cmocka_unit_test(replays_tokens_of_an_earlier_attempt_and_tells_none_of_them_again),
        cmocka_unit_test(ends_an_attempt_whose_prompt_gives_another_token_0_than_before),
        cmocka_unit_test(says_that_it_gets_on_while_known_rows_are_computed_and_no_token_comes),
        cmocka_unit_test(counts_growth_beside_the_prompt_and_gives_it_page_by_page),
        cmocka_unit_test(preempts_the_youngest_for_an_older_one_and_brings_it_back_when_pages_are_free),
        cmocka_unit_test(lets_the_youngest_sit_out_rather_than_preempting_an_older_one),
        cmocka_unit_test(prefills_and_replays_again_what_the_swap_store_cannot_hold),
        cmocka_unit_test(begins_a_prefill_again_where_its_whole_pages_end_that_was_preempted_in_its_middle),
        cmocka_unit_test(gives_up_what_can_neither_be_kept_nor_made_again),
        cmocka_unit_test(counts_more_growth_for_a_while_after_it_has_given_up_a_sequence),
        cmocka_unit_test(serves_who_waits_for_pages_by_age_and_takes_no_new_reservation_before),
        cmocka_unit_test(refuses_what_no_empty_pool_takes_and_names_what_it_holds),
        cmocka_unit_test(gives_up_who_waits_for_pages_too_long),
        cmocka_unit_test(frees_a_preempted_sequence_whose_gateway_aborts_it),
        cmocka_unit_test(shares_a_prefix_in_place_and_counts_its_pages_once),
        cmocka_unit_test(gives_pages_that_are_only_kept_to_whoever_needs_them),
        cmocka_unit_test(never_keeps_rows_that_decoding_made),
        cmocka_unit_test(wants_only_the_rows_of_a_remote_prompt_that_it_lacks),
        cmocka_unit_test(goes_on_where_a_transfer_or_a_prefill_ended_early),
        cmocka_unit_test(shares_rows_only_within_a_class),
        cmocka_unit_test(shares_rows_only_with_prompts_of_the_same_salt),
        cmocka_unit_test(takes_no_row_of_another_class_than_was_reserved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
