/* The demands of a simulator on the gateway's brain: nodes whose heartbeats are taken to come, and tokens
 * that may be told later. The same node that really beats is the measure. */
#include "tests/helpers/brain/gateway_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const bt_incarnation PA = {{0x1a}}, PB = {{0x1b}}, DA = {{0x2a}};
enum { BEAT = 500000, SECOND = 1000000 };

/* Beats of PA and to it until now, as both ends have them. */
static void beat_for(gateway_kit *k, int64_t us)
{
    const int64_t end = k->now + us;
    while (k->now < end) {
        gateway_kit_wait(k, BEAT);
        gateway_kit_beat(k, PA);
    }
}

static void one_that_rests_is_not_missed_and_goes_on_as_if_it_had_beaten(void **s)
{
    (void)s;
    gateway_kit beats, rests;
    gateway_kit_open(&beats, NULL);
    gateway_kit_open(&rests, NULL);
    gateway_kit_join(&beats, PA);
    gateway_kit_join(&rests, PA);
    gateway_kit_wait(&beats, 0);
    gateway_kit_wait(&rests, 0);
    beat_for(&beats, 10 * SECOND);
    assert_false(gw_brain_rest(rests.b, &PB)); /* nobody */
    assert_true(gw_brain_rest(rests.b, &PA));
    gateway_kit_wait(&rests, 10 * SECOND);
    assert_null(gateway_kit_said(rests.acts, PA, BT_MSG_HEARTBEAT));
    assert_int_equal(gateway_kit_node(&rests, PA)->state, GW_NODE_READY);
    const gw_node *a = gateway_kit_node(&beats, PA), *b = gateway_kit_node(&rests, PA);
    const int64_t last = gw_brain_wake(rests.b, &PA, rests.now + 1);
    gw_brain_heard(rests.b, &PA, rests.now);
    assert_int_equal(beats.now, rests.now);
    assert_int_equal(last, a->heartbeat_due_us - BEAT);
    assert_int_equal(b->heartbeat_due_us, a->heartbeat_due_us);
    assert_int_equal(b->heard_us, a->heard_us);
    assert_int_equal(gw_brain_due_us(rests.b), gw_brain_due_us(beats.b));
    assert_int_equal(gw_brain_wake(rests.b, &PA, rests.now), 0); /* awake already */
    for (int i = 0; i < 16; i++) {                               /* nobody beats any more */
        gateway_kit_wait(&beats, BEAT);
        gateway_kit_wait(&rests, BEAT);
        assert_int_equal(b->state, a->state);
        if (i == 4) assert_int_equal(b->state, GW_NODE_SUSPECT);
    }
    assert_int_equal(b->state, GW_NODE_GONE);
    assert_false(gw_brain_rest(rests.b, &PA));
    gateway_kit_close(&beats);
    gateway_kit_close(&rests);
}

static void a_token_is_waited_for_only_where_it_would_end_that_its_node_is_avoided(void **s)
{
    (void)s;
    gateway_kit k;
    gateway_kit_open(&k, NULL);
    gateway_kit_join(&k, PA);
    gateway_kit_join(&k, PB);
    gateway_kit_join(&k, DA);
    gateway_kit_submit(&k, 20);
    assert_false(gw_brain_waits_for_token(k.b, &DA));
    gateway_kit_failed(&k, DA, 1, BT_EIO); /* the decode node fails the attempt */
    assert_true(gw_brain_waits_for_token(k.b, &DA));
    assert_false(gw_brain_waits_for_token(k.b, &PA));
    assert_false(gw_brain_waits_for_token(k.b, &PB));
    gateway_kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_rests_is_not_missed_and_goes_on_as_if_it_had_beaten),
        cmocka_unit_test(a_token_is_waited_for_only_where_it_would_end_that_its_node_is_avoided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
