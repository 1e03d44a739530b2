/* The line of reservations that wait for a slot or pages, each rule as a sentence: who begins next, who may
 * pass whom, and how a reservation leaves the line. */
#include "tests/helpers/brain/decode_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

enum { PAGE = 16, SECOND = 1000000, PAGES = 8 };
static const int32_t made[2] = {100, 101}; /* tokens of an answer that has begun */

static dc_config config(void)
{
    dc_config c = dc_config_defaults();
    c.self = decode_kit_self;
    c.slots = 16;
    c.pages_total = PAGES;
    c.page_tokens = PAGE;
    c.growth_tokens = 0;
    c.overtake_max = 3;
    c.can_prefill = true;
    c.hello.ctx_tokens = PAGES * PAGE;
    c.hello.kv = (bt_kv_shape){1, 1, 2, BT_KV_F16, 0, 0};
    strcpy(c.hello.prefill_exactness, "npu/abc/f16/1");
    return c;
}

static dc_brain *make(const dc_config *c)
{
    dc_brain *b = NULL;
    decode_kit_now = SECOND;
    assert_int_equal(dc_brain_new(&b, c, NULL), BT_OK);
    decode_kit_step(b, &(dc_event){.type = DC_EV_TICK});
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_WELCOME});
    return b;
}

/* Its prompt takes so many pages, and begins as no other prompt does. */
static bt_msg wish(uint64_t number, uint32_t pages)
{
    static int32_t prompts[32][PAGES * PAGE];
    bt_msg m = {.type = BT_MSG_RESERVE, .ref = {decode_kit_gate, number, 1}};
    prompts[number % 32][0] = 1000 + (int32_t)number;
    m.u.reserve =
        (bt_msg_reserve){.prompt_tokens = pages * PAGE - 8, .max_tokens = 8,  .ids = prompts[number % 32],
                         .ids_len = pages * PAGE - 8,       .is_local = true, .lease_ms = 10000};
    return m;
}

static void reserve(dc_brain *b, uint64_t number, uint32_t pages)
{
    bt_msg m = wish(number, pages);
    decode_kit_control(b, &m);
}

/* It begins at once; returns its slot. */
static uint32_t begins(dc_brain *b, uint64_t number, uint32_t pages)
{
    reserve(b, number, pages);
    assert_non_null(decode_kit_said(BT_MSG_RESERVED));
    return decode_kit_did(DC_DO_START)->u.start.slot;
}

static void waits(dc_brain *b, uint64_t number, uint32_t pages)
{
    reserve(b, number, pages);
    assert_int_equal(decode_kit_said(BT_MSG_WAITS)->ref.number, number);
    assert_null(decode_kit_said(BT_MSG_RESERVED));
}

static void ends(dc_brain *b, uint32_t slot)
{
    dc_event ev = {.type = DC_EV_ENDED};
    ev.u.ended.slot = slot;
    ev.u.ended.reason = BT_FINISH_STOP;
    decode_kit_step(b, &ev);
}

/* The numbers of the reservations that begin in the last step are these. */
static void begun(const uint64_t *numbers, uint32_t len)
{
    uint32_t n = 0;
    for (size_t i = 0; i < decode_kit_acts.len; i++) {
        const dc_action *a = &decode_kit_acts.items[i];
        if (a->type != DC_DO_SEND_CONTROL || a->u.control.msg.type != BT_MSG_RESERVED) continue;
        assert_true(n < len);
        assert_int_equal(a->u.control.msg.ref.number, numbers[n]);
        n++;
    }
    assert_int_equal(n, len);
}
#define BEGUN(...) \
    begun((const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void pass_ms(dc_brain *b, int64_t ms)
{
    decode_kit_now += ms * 1000;
    decode_kit_step(b, &(dc_event){.type = DC_EV_TICK});
}

static void those_that_wait_begin_in_the_order_in_which_they_came(void **s)
{
    (void)s;
    const dc_config c = config();
    dc_brain *b = make(&c);
    const uint32_t slot = begins(b, 1, 8);
    waits(b, 2, 3);
    waits(b, 3, 4);
    waits(b, 4, 2);
    assert_int_equal(dc_brain_load(b).queued, 3);
    ends(b, slot);
    BEGUN(2, 3); /* 4 waits for the last page of the eight */
    assert_int_equal(dc_brain_load(b).queued, 1);
    assert_int_equal(dc_brain_counters(b)->waited, 3);
    assert_int_equal(dc_brain_counters(b)->overtakes, 0);
    dc_brain_free(b);
}

static void one_that_fits_passes_a_larger_one_only_so_many_times(void **s)
{
    (void)s;
    const dc_config c = config();
    dc_brain *b = make(&c);
    const uint32_t slot = begins(b, 1, 4);
    waits(b, 2, 6);
    for (uint64_t n = 3; n < 6; n++) ends(b, begins(b, n, 1));
    waits(b, 6, 1);
    waits(b, 7, 1);
    assert_int_equal(dc_brain_load(b).overtakes, 3);
    ends(b, slot);
    BEGUN(2, 6, 7);
    dc_brain_free(b);
}

static void and_only_for_so_long_after_it_came(void **s)
{
    (void)s;
    const dc_config c = config();
    dc_brain *b = make(&c);
    const uint32_t slot = begins(b, 1, 4);
    waits(b, 2, 6);
    pass_ms(b, c.overtake_us / 1000 - 1);
    (void)begins(b, 3, 1);
    pass_ms(b, 1);
    waits(b, 4, 1);
    ends(b, slot);
    BEGUN(2, 4);
    dc_brain_free(b);
}

static void an_answer_that_had_begun_comes_first_and_is_passed_by_nobody(void **s)
{
    (void)s;
    const dc_config c = config();
    dc_brain *b = make(&c);
    const uint32_t one = begins(b, 1, 4), two = begins(b, 2, 2);
    waits(b, 3, 3);
    bt_msg m = wish(4, 5);
    m.u.reserve.generated = made;
    m.u.reserve.generated_len = 2;
    decode_kit_control(b, &m);
    assert_int_equal(decode_kit_said(BT_MSG_WAITS)->ref.number, 4);
    waits(b, 5, 1); /* it would fit */
    ends(b, two);
    assert_null(decode_kit_said(BT_MSG_RESERVED)); /* 3 would fit */
    ends(b, one);
    BEGUN(4, 3);
    dc_brain_free(b);
}

static void a_full_line_refuses_and_says_how_long_it_is(void **s)
{
    (void)s;
    dc_config c = config();
    c.waiting_max = 2;
    dc_brain *b = make(&c);
    const uint32_t slot = begins(b, 1, 8);
    waits(b, 2, 1);
    waits(b, 3, 1);
    reserve(b, 4, 1);
    const bt_msg *m = decode_kit_said(BT_MSG_REFUSED);
    assert_int_equal(m->u.refused.code, BT_EAGAIN);
    assert_true(m->u.refused.retry_after_ms > 0);
    assert_non_null(strstr(m->u.refused.text, "2 reservations wait already"));
    assert_true(dc_brain_is_sound(b));
    ends(b, slot);
    BEGUN(2, 3);
    dc_brain_free(b);
}

static void abort_the_end_of_the_lease_and_a_drain_end_the_wait(void **s)
{
    (void)s;
    const dc_config c = config();
    dc_brain *b = make(&c);
    const uint32_t slot = begins(b, 1, 8);
    waits(b, 2, 1);
    waits(b, 3, 1);
    waits(b, 4, 1);
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_ABORT, .ref = {decode_kit_gate, 2, 1}});
    assert_int_equal(decode_kit_said(BT_MSG_ABORT_ACK)->ref.number, 2);
    for (uint64_t number = 1; number < 5; number += 3) {
        bt_msg renew = {.type = BT_MSG_RENEW, .ref = {decode_kit_gate, number, 1}};
        pass_ms(b, 3000);
        renew.u.renew.lease_ms = 10000;
        decode_kit_control(b, &renew);
    }
    pass_ms(b, 4000);
    assert_int_equal(dc_brain_load(b).queued, 1);
    assert_int_equal(dc_brain_counters(b)->leases_ended, 1);
    decode_kit_step(b, &(dc_event){.type = DC_EV_DRAIN});
    assert_int_equal(decode_kit_said(BT_MSG_REFUSED)->ref.number, 4);
    assert_int_equal(decode_kit_said(BT_MSG_REFUSED)->u.refused.code, BT_EAGAIN);
    assert_int_equal(dc_brain_load(b).queued, 0);
    ends(b, slot);
    assert_null(decode_kit_said(BT_MSG_RESERVED));
    dc_brain_free(b);
}

static void a_lease_that_runs_while_it_waits_is_not_begun_anew_with_its_turn(void **s)
{
    (void)s;
    const dc_config c = config();
    dc_brain *b = make(&c);
    const uint32_t slot = begins(b, 1, 8);
    waits(b, 2, 1);
    pass_ms(b, 9000);
    ends(b, slot);
    BEGUN(2);
    pass_ms(b, 1000);
    assert_non_null(decode_kit_did(DC_DO_STOP));
    dc_brain_free(b);
}

static void a_turn_that_comes_is_told_again_until_the_gateway_answers(void **s)
{
    (void)s;
    const dc_config c = config();
    dc_brain *b = make(&c);
    const uint32_t slot = begins(b, 1, 8);
    waits(b, 2, 1);
    reserve(b, 2, 1); /* WAITS was lost */
    assert_non_null(decode_kit_said(BT_MSG_WAITS));
    ends(b, slot);
    BEGUN(2);
    const bt_ticket t = decode_kit_said(BT_MSG_RESERVED)->u.reserved.ticket;
    pass_ms(b, 500);
    assert_memory_equal(&decode_kit_said(BT_MSG_RESERVED)->u.reserved.ticket, &t, sizeof t);
    bt_msg ack = {.type = BT_MSG_ACK, .ref = {decode_kit_gate, 2, 1}};
    ack.u.ack.of = BT_MSG_FIRST_TOKEN;
    decode_kit_control(b, &ack);
    pass_ms(b, 500);
    assert_null(decode_kit_said(BT_MSG_RESERVED));
    dc_brain_free(b);
}

static void the_sender_of_the_kv_may_be_chosen_when_the_turn_comes(void **s)
{
    (void)s;
    const dc_config c = config();
    dc_brain *b = make(&c);
    const uint32_t slot = begins(b, 1, 8);
    bt_msg m = wish(2, 1);
    m.u.reserve.is_local = false;
    m.u.reserve.prefill = decode_kit_prefill;
    m.u.reserve.prefill_class = 5;
    decode_kit_control(b, &m);
    ends(b, slot);
    assert_true(bt_incarnation_equal(&decode_kit_said(BT_MSG_RESERVED)->u.reserved.prefill,
                                     &decode_kit_prefill));
    m.u.reserve.prefill.bytes[0] ^= 0xff;
    decode_kit_control(b, &m);
    assert_true(bt_incarnation_equal(&decode_kit_said(BT_MSG_RESERVED)->u.reserved.prefill,
                                     &m.u.reserve.prefill));
    m.u.reserve.prefill.bytes[0] ^= 0x0f;
    m.u.reserve.prefill_class = 6; /* its pages were shared by another class */
    decode_kit_control(b, &m);
    assert_false(bt_incarnation_equal(&decode_kit_said(BT_MSG_RESERVED)->u.reserved.prefill,
                                      &m.u.reserve.prefill));
    dc_brain_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_wait_begin_in_the_order_in_which_they_came),
        cmocka_unit_test(one_that_fits_passes_a_larger_one_only_so_many_times),
        cmocka_unit_test(and_only_for_so_long_after_it_came),
        cmocka_unit_test(an_answer_that_had_begun_comes_first_and_is_passed_by_nobody),
        cmocka_unit_test(a_full_line_refuses_and_says_how_long_it_is),
        cmocka_unit_test(abort_the_end_of_the_lease_and_a_drain_end_the_wait),
        cmocka_unit_test(a_lease_that_runs_while_it_waits_is_not_begun_anew_with_its_turn),
        cmocka_unit_test(a_turn_that_comes_is_told_again_until_the_gateway_answers),
        cmocka_unit_test(the_sender_of_the_kv_may_be_chosen_when_the_turn_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
