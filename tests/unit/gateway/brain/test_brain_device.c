/* The device time of a request is the sum of its attempts. The figures of nodes are the sum of their lives.
 */
#include "tests/helpers/brain/gateway_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const bt_incarnation PA = {{0x1a}}, PA_AGAIN = {{0x3a}}, DA = {{0x2a}}, DB = {{0x2b}};

static void first(gateway_kit *k, uint32_t attempt, uint64_t ns, uint64_t exposed_ns)
{
    bt_msg m = {.type = BT_MSG_FIRST_TOKEN, .ref = {.attempt = attempt}};
    m.u.first_token = (bt_msg_first_token){
        .token = 40, .device = {.ns = ns, .ideal_ns = 1, .nj = 10, .energy = 1},
        .device_prompt = {.transfer_ns = 2 * exposed_ns, .exposed_ns = exposed_ns, .npu_ns = ns / 2}};
    gateway_kit_from(k, PA, &m);
    gateway_kit_from(k, PA, &m); /* again, as where an ACK was lost */
}

/* Tokens [from, from + len), and what all steps of the attempt took so far. */
static void tokens(gateway_kit *k, bt_incarnation who, uint32_t attempt, uint32_t from, uint32_t len,
                   uint64_t ns)
{
    int32_t ids[32];
    bt_msg m = {.type = BT_MSG_TOKENS, .ref = {.attempt = attempt}};
    for (uint32_t i = 0; i < len; i++) ids[i] = (int32_t)(40 + from + i);
    m.u.tokens = (bt_msg_tokens){.first_index = from, .ids = ids, .ids_len = len,
                                 .device = {.ns = ns, .nj = ns, .energy = 2, .steps = len}};
    gateway_kit_from(k, who, &m);
}

static void attempt(gateway_kit *k, bt_incarnation decode, uint32_t number)
{
    gateway_kit_say(k, decode, BT_MSG_RESERVED, number);
    gateway_kit_say(k, PA, BT_MSG_PREFILL_ACCEPTED, number);
}

static void what_is_run_again_is_added(void **state)
{
    (void)state;
    gateway_kit k;
    gateway_kit_open(&k, NULL);
    gateway_kit_join(&k, PA);
    gateway_kit_join(&k, DA);
    gateway_kit_submit(&k, 8);
    attempt(&k, DA, 1);
    first(&k, 1, 1000, 30);
    tokens(&k, DA, 1, 1, 2, 200);
    tokens(&k, DA, 1, 1, 2, 200); /* again */
    tokens(&k, DA, 1, 3, 1, 310);
    gateway_kit_join(&k, DB);
    gateway_kit_failed(&k, DA, 1, BT_EIO);
    attempt(&k, DB, 2);
    first(&k, 2, 600, 50);
    tokens(&k, DB, 2, 4, 4, 450);
    gateway_kit_say(&k, PA, BT_MSG_PREFILL_DONE, 2);
    gateway_kit_finished(&k, DB, 2, 8);
    assert_true(k.is_done);
    const gw_stats *s = &gateway_kit_did(k.acts, GW_DO_DONE)->u.done.stats;
    assert_int_equal(s->device_first_ns, 1000);
    assert_int_equal(s->device_prompt.npu_ns, 500);
    assert_int_equal(s->device_prefill.ns, 1600);
    assert_int_equal(s->device_prefill.nj, 20);
    assert_int_equal(s->device_transfer_ns, 160);
    assert_int_equal(s->device_exposed_ns, 80);
    assert_int_equal(s->device_decode.ns, 310 + 450);
    assert_int_equal(s->device_decode.steps, 1 + 4);
    assert_int_equal(s->device_decode.energy, 2);
    gateway_kit_close(&k);
}

static void tokens_that_overtake_token_0_bring_their_price(void **state)
{
    (void)state;
    gateway_kit k;
    gateway_kit_open(&k, NULL);
    gateway_kit_join(&k, PA);
    gateway_kit_join(&k, DA);
    gateway_kit_submit(&k, 3);
    attempt(&k, DA, 1);
    tokens(&k, DA, 1, 1, 2, 90);
    gateway_kit_finished(&k, DA, 1, 3);
    first(&k, 1, 100, 0);
    gateway_kit_say(&k, PA, BT_MSG_PREFILL_DONE, 1);
    assert_true(k.is_done);
    const gw_action *a = gateway_kit_did(k.acts, GW_DO_DONE);
    assert_non_null(a);
    assert_int_equal(a->u.done.stats.device_decode.ns, 90);
    gateway_kit_close(&k);
}

static void beat(gateway_kit *k, bt_incarnation who, uint64_t ns, uint64_t late_us)
{
    bt_msg m = {.type = BT_MSG_HEARTBEAT};
    m.u.heartbeat.load = (bt_load){.slots_total = 8,    .device_ns = ns,     .device_ideal_ns = ns / 4,
                                   .device_nj = 3 * ns, .paced_us = ns * 10, .late_us = late_us};
    gateway_kit_from(k, who, &m);
}

static void nodes_are_summed_by_role_and_over_their_lives(void **state)
{
    (void)state;
    gateway_kit k;
    gateway_kit_open(&k, NULL);
    gateway_kit_join(&k, PA);
    gateway_kit_join(&k, DA);
    gateway_kit_join(&k, DB);
    beat(&k, PA, 100, 1);
    beat(&k, PA, 260, 1);
    beat(&k, PA, 200, 0); /* a count that falls is none */
    beat(&k, DA, 7, 0);
    beat(&k, DB, 8, 5);
    gateway_kit_die(&k, PA);
    gateway_kit_join(&k, PA_AGAIN);
    beat(&k, PA_AGAIN, 40, 0);
    const gw_load_sum *s = gw_brain_registry(k.b)->sums;
    assert_int_equal(s[0].ns, 260 + 40);
    assert_int_equal(s[0].ideal_ns, 65 + 10);
    assert_int_equal(s[0].nj, 900);
    assert_int_equal(s[0].paced_us, 3000);
    assert_int_equal(s[0].late_us, 1);
    assert_int_equal(s[1].ns, 15);
    assert_int_equal(s[1].late_us, 5);
    gateway_kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_run_again_is_added),
        cmocka_unit_test(tokens_that_overtake_token_0_bring_their_price),
        cmocka_unit_test(nodes_are_summed_by_role_and_over_their_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
