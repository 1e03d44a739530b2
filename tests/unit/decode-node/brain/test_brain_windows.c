/* Window layers in the decode node's brain: of a prompt that is sent they hold what the next rows see, of one
 * that is computed here all until its digest is made, and pages go back while an answer grows. */
#include "base/hash.h"
#include "kv/kv_book.h"
#include "tests/helpers/brain/decode_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

enum { PAGE = 16, WINDOW = 32, CTX = 256 };
static const bt_kv_shape shape = {2, 1, 2, BT_KV_F16, WINDOW, 2}; /* layer 0 has the window */
static const char CLASS[] = "npu/abc/f16/1";
static int32_t prompt[CTX];

/* swap, swap_windows: pages of the swap store. */
static bt_err try_make(dc_brain **ret, uint32_t pages, uint32_t windows, uint32_t swap, uint32_t swap_windows)
{
    dc_config c = dc_config_defaults();
    c.self = decode_kit_self;
    c.slots = 4;
    c.pages_total = pages;
    c.window_pages_total = windows;
    c.page_tokens = PAGE;
    c.growth_tokens = PAGE;
    c.swap_pages = swap;
    c.swap_window_pages = swap_windows;
    c.can_prefill = true;
    c.hello.ctx_tokens = CTX;
    c.hello.kv = shape;
    strcpy(c.hello.prefill_exactness, CLASS);
    decode_kit_now = 1000000;
    return dc_brain_new(ret, &c, NULL);
}

static dc_brain *make_with(uint32_t pages, uint32_t windows, uint32_t swap, uint32_t swap_windows)
{
    dc_brain *b = NULL;
    for (int32_t i = 0; i < CTX; i++) prompt[i] = i;
    assert_int_equal(try_make(&b, pages, windows, swap, swap_windows), BT_OK);
    decode_kit_step(b, &(dc_event){.type = DC_EV_TICK});
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_WELCOME});
    bt_msg hello = {.type = BT_MSG_HELLO};
    hello.u.hello = (bt_msg_hello){.protocol = BT_PROTOCOL_VERSION, .role = BT_ROLE_PREFILL, .kv = shape};
    strcpy(hello.u.hello.exactness, CLASS);
    decode_kit_bulk(b, &hello);
    assert_non_null(decode_kit_said(BT_MSG_WELCOME));
    return b;
}

static dc_brain *make(uint32_t pages, uint32_t windows) { return make_with(pages, windows, 0, 0); }

static void reserve(dc_brain *b, uint64_t number, uint32_t tokens, uint32_t max, bool is_local)
{
    bt_msg m = {.type = BT_MSG_RESERVE, .ref = {decode_kit_gate, number, 1}};
    m.u.reserve = (bt_msg_reserve){.prompt_tokens = tokens, .max_tokens = max,    .ids = prompt,
                                   .ids_len = tokens,       .is_local = is_local, .lease_ms = 60000};
    m.u.reserve.salt.bytes[0] = (uint8_t)number; /* nothing in common */
    if (!is_local) m.u.reserve.prefill = decode_kit_prefill;
    if (!is_local) m.u.reserve.prefill_class = bt_hash64(CLASS, strlen(CLASS));
    decode_kit_control(b, &m);
}

/* A block comes; whether it is placed. */
static bool block(dc_brain *b, bt_ticket t, uint64_t number, uint32_t layer, uint32_t begin, uint32_t end)
{
    dc_event ev = {.type = DC_EV_BLOCK};
    ev.u.block = (dc_block){.from = decode_kit_prefill,
                            .ref = {decode_kit_gate, number, 1},
                            .ticket = t,
                            .layer = layer,
                            .token_begin = begin,
                            .token_count = end - begin,
                            .bytes = (end - begin) * 8ull};
    decode_kit_step(b, &ev);
    if (!decode_kit_did(DC_DO_PLACE)) return false;
    ev = (dc_event){.type = DC_EV_PLACED, .u.block = decode_kit_did(DC_DO_PLACE)->u.block};
    decode_kit_step(b, &ev);
    return true;
}

static void commit(dc_brain *b, bt_ticket t, uint64_t number, uint32_t tokens)
{
    bt_msg m = {.type = BT_MSG_COMMIT, .ref = {decode_kit_gate, number, 1}};
    m.u.commit = (bt_msg_commit){.ticket = t, .prompt_tokens = tokens, .first_token = 100};
    decode_kit_bulk(b, &m);
}

static void first(dc_brain *b, uint32_t slot)
{
    const bt_msg_first_token f = {.token = 100};
    dc_event ev = {.type = DC_EV_FIRST};
    ev.u.first.slot = slot;
    ev.u.first.msg = &f;
    decode_kit_step(b, &ev);
}

static void tokens(dc_brain *b, uint32_t slot, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        dc_event ev = {.type = DC_EV_TOKEN};
        ev.u.token.slot = slot;
        ev.u.token.index = i;
        ev.u.token.id = 100 + (int32_t)i;
        decode_kit_step(b, &ev);
    }
}

static uint64_t windows_used(const dc_brain *b)
{
    assert_true(dc_brain_is_sound(b));
    return dc_brain_load(b).window_pages_used;
}

static void a_prompt_that_is_sent_takes_the_window_at_its_end(void **state)
{
    (void)state;
    dc_brain *b = make(20, 16);
    reserve(b, 1, 200, 40, false);
    const bt_msg *m = decode_kit_said(BT_MSG_RESERVED);
    assert_non_null(m);
    const bt_ticket t = m->u.reserved.ticket;
    const dc_action *a = decode_kit_held();
    assert_int_equal(a->u.set.pages_len, 13);
    for (uint32_t i = 0; i < 13; i++)
        assert_int_equal(a->u.set.windows[i] == BT_KV_NO_PAGE, i < 8); /* 168 in 64s */
    assert_int_equal(dc_brain_load(b).pages_used, 13);
    assert_int_equal(dc_brain_load(b).window_pages_total, 16);
    assert_int_equal(windows_used(b), 5);
    assert_false(block(b, t, 1, 0, 0, 128)); /* nobody holds these */
    assert_false(block(b, t, 1, 0, 112, 200));
    assert_true(block(b, t, 1, 1, 0, 200));
    commit(b, t, 1, 200);
    m = decode_kit_said(BT_MSG_MISSING);
    assert_non_null(m);
    assert_int_equal(m->u.missing.ranges_len, 1);
    assert_int_equal(m->u.missing.ranges[0].layer, 0);
    assert_int_equal(m->u.missing.ranges[0].token_begin, 128);
    assert_true(block(b, t, 1, 0, 128, 200));
    commit(b, t, 1, 200);
    assert_non_null(decode_kit_said(BT_MSG_COMMITTED));
    assert_non_null(decode_kit_did(DC_DO_START));
    dc_brain_free(b);
}

static void window_pages_go_back_while_an_answer_grows(void **state)
{
    (void)state;
    dc_brain *b = make(20, 16);
    reserve(b, 1, 200, 40, true);
    assert_non_null(decode_kit_did(DC_DO_START));
    const uint32_t slot = decode_kit_did(DC_DO_START)->u.start.slot;
    assert_int_equal(windows_used(b), 13); /* all, until the digest is made */
    first(b, slot);
    assert_int_equal(windows_used(b), 3); /* row 200 sees those from 169 on */
    assert_int_equal(dc_brain_load(b).pages_used, 13);
    assert_int_equal(dc_brain_load(b).window_pages_cached, 10);
    tokens(b, slot, 1, 30);
    decode_kit_step(b, &(dc_event){.type = DC_EV_NEED, .u.need = {slot, 239}});
    const dc_action *a = decode_kit_grew();
    assert_int_equal(a->u.set.pages_len, 15);
    assert_int_equal(a->u.set.windows[11], BT_KV_NO_PAGE); /* row 229 sees those from 198 on */
    assert_int_not_equal(a->u.set.windows[12], BT_KV_NO_PAGE);
    assert_int_equal(windows_used(b), 3);
    dc_brain_free(b);
}

static void a_prompt_waits_for_window_pages_as_for_others(void **state)
{
    (void)state;
    dc_brain *b = make(60, 18);
    reserve(b, 1, 200, 20, true); /* 13 and one of growth */
    assert_non_null(decode_kit_did(DC_DO_START));
    const uint32_t slot = decode_kit_did(DC_DO_START)->u.start.slot;
    reserve(b, 2, 60, 4, true); /* 4 */
    assert_non_null(decode_kit_said(BT_MSG_RESERVED));
    reserve(b, 3, 200, 16, false); /* 5 and one of growth */
    assert_non_null(decode_kit_said(BT_MSG_WAITS));
    assert_true(dc_brain_load(b).pages_total - dc_brain_load(b).pages_used > 40);
    first(b, slot);
    assert_non_null(decode_kit_said(BT_MSG_RESERVED));
    assert_int_equal(windows_used(b), 3 + 4 + 5);
    dc_brain_free(b);
}

static void fewer_window_pages_than_the_longest_sequence_are_refused(void **state)
{
    (void)state;
    dc_brain *b = NULL;
    assert_int_equal(try_make(&b, 20, 15, 0, 0), BT_EARG);
    assert_int_equal(try_make(&b, 12, 12, 0, 0), BT_OK);
    dc_brain_free(b);
}

/* A sequence of 150 rows, the slot of ret_young, is preempted for one in the slot that returns. */
static uint32_t preempt(dc_brain *b, uint32_t *ret_young)
{
    reserve(b, 1, 64, 100, true);
    const uint32_t old = decode_kit_did(DC_DO_START)->u.start.slot;
    first(b, old);
    reserve(b, 2, 150, 40, true);
    const uint32_t young = decode_kit_did(DC_DO_START)->u.start.slot;
    first(b, young);
    tokens(b, old, 1, 40);
    decode_kit_step(b, &(dc_event){.type = DC_EV_NEED, .u.need = {old, 120}}); /* 8 pages: 10 of 16 are the
                                                                                  other's */
    assert_int_equal(decode_kit_did(DC_DO_STOP)->u.slot, young);
    decode_kit_step(b, &(dc_event){.type = DC_EV_STOPPED, .u.stopped = {young, 150}});
    *ret_young = young;
    return old;
}

/* Its window begins in the page of row 119, so that it keeps 3 of 10 window pages. */
static void a_swapped_sequence_keeps_and_costs_the_rows_that_exist_and_comes_back_with_them(void **state)
{
    (void)state;
    uint32_t young;
    dc_brain *b = make_with(16, 16, 10, 3);
    const uint32_t old = preempt(b, &young);
    const dc_action *out = decode_kit_did(DC_DO_SWAP_OUT);
    assert_non_null(out);
    assert_int_equal(out->u.swap.tokens, 150);
    assert_int_equal(out->u.swap.window_begin, 150 - 31);
    assert_non_null(decode_kit_grew());
    assert_int_equal(windows_used(b), 8 - (103 - 31) / PAGE);
    dc_event ev = {.type = DC_EV_ENDED};
    ev.u.ended.slot = old;
    ev.u.ended.reason = BT_FINISH_LENGTH;
    decode_kit_step(b, &ev);
    const dc_action *in = decode_kit_did(DC_DO_SWAP_IN), *a = decode_kit_held();
    assert_non_null(in);
    assert_int_equal(in->u.swap.tokens, 150);
    assert_int_equal(in->u.swap.window_begin, 150 - 31);
    assert_int_equal(a->u.set.pages_len, 10);
    assert_int_equal(a->u.set.windows[(150 - 31) / PAGE - 1], BT_KV_NO_PAGE);
    assert_int_not_equal(a->u.set.windows[(150 - 31) / PAGE], BT_KV_NO_PAGE);
    assert_int_equal(windows_used(b), 10 - (150 - 31) / PAGE);
    dc_brain_free(b);
}

static void rows_for_which_either_class_has_no_page_in_the_store_are_computed_again(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t young;
        dc_brain *b = make_with(16, 16, 10 - i, 2 + i);
        preempt(b, &young);
        assert_null(decode_kit_did(DC_DO_SWAP_OUT));
        assert_int_equal(dc_brain_counters(b)->dropped, 1);
        dc_brain_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_that_is_sent_takes_the_window_at_its_end),
        cmocka_unit_test(window_pages_go_back_while_an_answer_grows),
        cmocka_unit_test(a_prompt_waits_for_window_pages_as_for_others),
        cmocka_unit_test(fewer_window_pages_than_the_longest_sequence_are_refused),
        cmocka_unit_test(a_swapped_sequence_keeps_and_costs_the_rows_that_exist_and_comes_back_with_them),
        cmocka_unit_test(rows_for_which_either_class_has_no_page_in_the_store_are_computed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
