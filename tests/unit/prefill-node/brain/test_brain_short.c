/* Short prompts between the chunks of a long one: which of them, when, and how many tokens at most; and the
 * slots that are kept for them. */
#include "base/rng.h"
#include "tests/unit/prefill-node/brain/brain_kit.h"

enum { SHORT = 64, LONG = 350, CHUNK = 64 };

static pf_brain *make_with(uint32_t slots, uint32_t share_tokens)
{
    pf_config c = pf_config_defaults();
    c.self = SELF;
    c.slots = slots;
    c.share_tokens = share_tokens;
    c.short_tokens = SHORT;
    c.pages_total = 400;
    c.hello.ctx_tokens = 384;
    c.hello.kv = (bt_kv_shape){LAYERS, 1, 2, BT_KV_F16, 0, 0};
    pf_brain *b = NULL;
    now = 1000000;
    assert_int_equal(pf_brain_new(&b, &c, NULL), BT_OK);
    step(b, &(pf_event){.type = PF_EV_TICK});
    assert_int_equal(said(BT_MSG_HELLO)->u.hello.short_tokens, SHORT);
    assert_int_equal(said(BT_MSG_HELLO)->u.hello.short_slots, slots < 2 ? 0 : slots < 8 ? 1 : slots / 4);
    control(b, &(bt_msg){.type = BT_MSG_WELCOME});
    return b;
}

/* No two prompts begin alike. The brain's actions on it stay to be looked at, but for a first link. */
static bool give(pf_brain *b, uint64_t request, uint32_t tokens)
{
    for (int32_t i = 0; i < 400; i++) ids[i] = i;
    ids[0] = (int32_t)request;
    bt_msg m = prefill_msg(request, 1, tokens);
    control(b, &m);
    const bool is_taken = said(BT_MSG_PREFILL_ACCEPTED) != NULL;
    if (did(PF_DO_LINK)) open_link(b, 1 << 20);
    return is_taken;
}

static void paused(pf_brain *b, uint32_t slot, uint32_t tokens)
{
    step(b, &(pf_event){.type = PF_EV_COMPUTE_PAUSED, .u.paused = {slot, tokens}});
}

static void stopped(pf_brain *b, uint32_t slot)
{
    step(b, &(pf_event){.type = PF_EV_COMPUTE_STOPPED, .u.slot = slot});
}

static void expect_pause(uint32_t slot, uint32_t tokens)
{
    assert_int_equal(count(PF_DO_PAUSE), 1);
    assert_int_equal(did(PF_DO_PAUSE)->u.pause.slot, slot);
    assert_int_equal(did(PF_DO_PAUSE)->u.pause.tokens, tokens);
}

static void expect_compute(uint32_t slot, bool may_pause)
{
    assert_int_equal(count(PF_DO_COMPUTE), 1);
    assert_int_equal(count(PF_DO_RESUME), 0);
    assert_int_equal(did(PF_DO_COMPUTE)->u.compute.slot, slot);
    assert_int_equal(did(PF_DO_COMPUTE)->u.compute.may_pause, may_pause);
}

static void expect_resume(uint32_t slot)
{
    assert_int_equal(count(PF_DO_COMPUTE), 0);
    assert_int_equal(count(PF_DO_RESUME), 1);
    assert_int_equal(did(PF_DO_RESUME)->u.slot, slot);
}

static void a_short_prompt_runs_between_two_chunks_of_a_long_one(void **state)
{
    (void)state;
    pf_brain *b = make_with(8, 0);
    assert_true(give(b, 1, LONG));
    assert_true(give(b, 2, 20));
    expect_pause(0, 20); /* by then the long one has as many tokens of its own */
    assert_int_equal(count(PF_DO_COMPUTE), 0);
    assert_true(give(b, 3, 30));
    assert_int_equal(count(PF_DO_PAUSE), 0); /* the first in line decides */
    paused(b, 0, CHUNK);
    expect_compute(1, false);
    stopped(b, 1);
    expect_compute(2, false);
    stopped(b, 2);
    expect_resume(0);
    assert_int_equal(pf_brain_counters(b)->passed, 2);
    assert_int_equal(pf_brain_counters(b)->passed_tokens, 50);
    assert_true(give(b, 4, 40));
    expect_pause(0, 90);
    assert_true(pf_brain_is_sound(b));
    pf_brain_free(b);
}

static void without_short_tokens_prompts_run_in_order_of_arrival(void **state)
{
    (void)state;
    pf_brain *b = make_that(BT_ROLE_MAY_NOT);
    accept(b, 1, 1, LONG, 1 << 20);
    assert_false(did(PF_DO_COMPUTE) && did(PF_DO_COMPUTE)->u.compute.may_pause);
    bt_msg m = prefill_msg(2, 1, 20);
    ids[0] = 9;
    control(b, &m);
    assert_int_equal(count(PF_DO_PAUSE) + count(PF_DO_COMPUTE), 0);
    pf_brain_free(b);
}

static void prompts_of_one_kind_run_one_after_the_other(void **state)
{
    (void)state;
    pf_brain *b = make_with(8, 0);
    assert_true(give(b, 1, LONG));
    assert_true(give(b, 2, SHORT + 1));
    assert_true(give(b, 3, LONG));
    assert_int_equal(count(PF_DO_PAUSE) + count(PF_DO_COMPUTE), 0);
    stopped(b, 0);
    expect_compute(1, true);
    stopped(b, 1);
    expect_compute(2, true);
    stopped(b, 2);
    assert_true(give(b, 4, SHORT));
    expect_compute(0, false);
    assert_true(give(b, 5, 10)); /* behind a short one of more tokens */
    assert_int_equal(count(PF_DO_PAUSE) + count(PF_DO_COMPUTE), 0);
    pf_brain_free(b);
}

static void short_prompts_between_chunks_share_a_run(void **state)
{
    (void)state;
    pf_brain *b = make_with(8, 100);
    assert_true(give(b, 1, LONG));
    for (uint64_t i = 2; i < 6; i++) assert_true(give(b, i, 30));
    paused(b, 0, CHUNK);
    assert_int_equal(count(PF_DO_COMPUTE), 2); /* three would be more than the 64 of the long one */
    assert_int_equal(did(PF_DO_COMPUTE)->u.compute.with, 1);
    stopped(b, 1);
    stopped(b, 2);
    expect_resume(0);
    expect_pause(0, 90);
    paused(b, 0, 3 * CHUNK);
    assert_int_equal(count(PF_DO_COMPUTE), 2);
    pf_brain_free(b);
}

/* Where the end is nearer than the short prompt's own. */
static void a_long_prompt_that_ends_sooner_than_the_short_one_goes_on(void **state)
{
    (void)state;
    pf_brain *b = make_with(8, 0);
    assert_true(give(b, 1, 3 * CHUNK + 10));
    assert_true(give(b, 2, 20));
    paused(b, 0, 3 * CHUNK);
    expect_resume(0);
    assert_int_equal(count(PF_DO_PAUSE), 0);
    stopped(b, 0);
    expect_compute(1, false);
    pf_brain_free(b);
}

/* Short prompts of all lengths come without an end, and chunks end anywhere. */
static void at_least_half_of_the_tokens_computed_meanwhile_are_the_long_ones(void **state)
{
    (void)state;
    uint64_t passed = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        pf_brain *b = make_with(4 + (uint32_t)(seed % 2) * 8, seed % 3 ? 0 : 100);
        uint64_t draws = 0, number = 1;
        uint32_t own = 0, others = 0, ran = 0, at = UINT32_MAX, waiting = 0, on[PF_SHARE_MAX], len = 0;
        const uint32_t chunk = 16 + (uint32_t)(bt_rng_u64(seed, draws++) % 100);
        assert_true(give(b, number++, LONG));
        for (bool in_worker = true; own < LONG;) {
            while (waiting < 3 && give(b, number, 1 + (uint32_t)(bt_rng_u64(seed, draws++) % SHORT))) {
                number++;
                waiting++;
                if (did(PF_DO_PAUSE)) at = did(PF_DO_PAUSE)->u.pause.tokens;
                assert_int_equal(count(PF_DO_COMPUTE), 0); /* the worker is busy */
            }
            if (in_worker) {
                own = own + chunk < LONG ? own + chunk : LONG;
                if (own < at || own == LONG) continue;
                paused(b, 0, own);
            } else {
                for (uint32_t i = 0; i < len; i++) stopped(b, on[i]);
            }
            len = 0;
            for (size_t i = 0; i < acts.len; i++)
                if (acts.items[i].type == PF_DO_COMPUTE) {
                    on[len++] = acts.items[i].u.compute.slot;
                    others += acts.items[i].u.compute.ids_len;
                }
            ran += len;
            waiting -= len;
            in_worker = len == 0;
            if (in_worker) at = UINT32_MAX;
            for (; in_worker && !did(PF_DO_RESUME);) { /* it waits for a slot to be used again */
                now = pf_brain_due_us(b);
                step(b, &(pf_event){.type = PF_EV_TICK});
            }
            if (did(PF_DO_PAUSE)) at = did(PF_DO_PAUSE)->u.pause.tokens;
            assert_true(others <= own);
            assert_true(pf_brain_is_sound(b));
        }
        assert_true(ran > 0);
        passed += others;
        pf_brain_free(b);
    }
    assert_true(passed > 300 * LONG / 4); /* they get what is theirs */
}

static void where_every_slot_is_held_the_worker_waits_for_the_next_short_prompt(void **state)
{
    (void)state;
    pf_brain *b = make_with(2, 0);
    assert_true(give(b, 1, LONG));
    assert_true(give(b, 2, 20));
    now += 80000;
    paused(b, 0, CHUNK);
    expect_compute(1, false);
    stopped(b, 1);
    assert_int_equal(count(PF_DO_RESUME) + count(PF_DO_COMPUTE), 0);
    assert_true(pf_brain_due_us(b) == now + 5000);
    now += 4000;
    assert_true(give(b, 3, 20)); /* from the gateway that has learned that the slot is free */
    expect_compute(1, false);
    stopped(b, 1);
    now += 4999;
    step(b, &(pf_event){.type = PF_EV_TICK});
    assert_int_equal(count(PF_DO_RESUME), 0);
    now++;
    step(b, &(pf_event){.type = PF_EV_TICK});
    expect_resume(0);
    assert_true(give(b, 4, 20));
    now += 32000;
    paused(b, 0, 2 * CHUNK);
    stopped(b, 1);
    assert_true(pf_brain_due_us(b) == now + 2000); /* a 16th of what the long one ran */
    assert_true(pf_brain_is_sound(b));
    pf_brain_free(b);
}

static void abort_that(pf_brain *b, uint64_t request)
{
    bt_msg m = {.type = BT_MSG_ABORT, .ref = {GATE, request, 1}};
    control(b, &m);
}

static void a_long_prompt_may_end_while_it_has_paused_or_is_about_to(void **state)
{
    (void)state;
    pf_brain *b = make_with(8, 0);
    assert_true(give(b, 1, LONG));
    assert_true(give(b, 2, 20));
    assert_true(give(b, 3, LONG));
    paused(b, 0, CHUNK);
    expect_compute(1, false);
    abort_that(b, 1); /* it is in no worker */
    assert_non_null(said(BT_MSG_ABORT_ACK));
    assert_int_equal(count(PF_DO_CANCEL), 0);
    assert_int_equal(count(PF_DO_RELEASE), 1);
    stopped(b, 1);
    expect_compute(2, true);
    assert_true(give(b, 4, 20));
    expect_pause(2, 20);
    abort_that(b, 4); /* nobody is there to pause for */
    expect_pause(2, UINT32_MAX);
    assert_true(give(b, 5, 20));
    abort_that(b, 3);
    assert_int_equal(count(PF_DO_CANCEL), 1);
    assert_null(said(BT_MSG_ABORT_ACK));
    paused(b, 2, CHUNK); /* before the worker saw CANCEL */
    assert_non_null(said(BT_MSG_ABORT_ACK));
    assert_int_equal(count(PF_DO_RELEASE), 1);
    assert_int_equal(count(PF_DO_COMPUTE), 1);
    assert_int_equal(pf_brain_counters(b)->unexpected, 0);
    paused(b, 2, CHUNK);
    assert_int_equal(pf_brain_counters(b)->unexpected, 1);
    assert_true(pf_brain_is_sound(b));
    pf_brain_free(b);
}

static void one_slot_in_four_takes_short_prompts_alone(void **state)
{
    static const uint32_t slots[] = {1, 2, 4, 7, 8, 13};
    (void)state;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        pf_brain *b = make_with(slots[i], 0);
        const uint32_t kept = slots[i] == 1 ? 0 : slots[i] < 8 ? 1 : slots[i] / 4;
        uint64_t number = 1;
        while (give(b, number, LONG)) number++;
        assert_int_equal(number - 1, slots[i] - kept);
        assert_int_equal(said(BT_MSG_REFUSED)->u.refused.code, BT_EAGAIN);
        for (uint32_t k = 0; k < kept; k++) assert_true(give(b, 100 + k, SHORT));
        assert_false(give(b, 200, 1));
        abort_that(b, 1); /* being computed */
        stopped(b, 0);
        assert_true(give(b, 201, LONG));
        assert_true(pf_brain_is_sound(b));
        pf_brain_free(b);
    }
    pf_brain *b = NULL;
    pf_config c = pf_config_defaults();
    c.self = SELF;
    c.slots = c.workers = 2;
    c.short_tokens = 64;
    c.pages_total = 12;
    c.hello.ctx_tokens = 384;
    c.hello.kv = (bt_kv_shape){LAYERS, 1, 2, BT_KV_F16, 0, 0};
    assert_int_equal(pf_brain_new(&b, &c, NULL), BT_EARG); /* between chunks of one worker */
}

/* All but 30 of its tokens are kept pages. */
static void a_prompt_is_as_short_as_what_it_has_to_compute(void **state)
{
    (void)state;
    pf_brain *b = make_with(4, 0);
    assert_true(give(b, 1, 320));
    for (uint32_t l = 0; l < LAYERS; l++) ready(b, l, 0, 320);
    computed(b);
    digested(b);
    for (uint64_t i = 2; i < 4; i++)
        assert_true(give(b, i, LONG)); /* with the first, all slots for long ones */
    assert_false(give(b, 4, LONG));
    ids[0] = 1;
    bt_msg m = prefill_msg(5, 1, LONG);
    control(b, &m);
    assert_non_null(said(BT_MSG_PREFILL_ACCEPTED));
    expect_pause(1, LONG - 320);
    pf_brain_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_prompt_runs_between_two_chunks_of_a_long_one),
        cmocka_unit_test(without_short_tokens_prompts_run_in_order_of_arrival),
        cmocka_unit_test(prompts_of_one_kind_run_one_after_the_other),
        cmocka_unit_test(short_prompts_between_chunks_share_a_run),
        cmocka_unit_test(a_long_prompt_that_ends_sooner_than_the_short_one_goes_on),
        cmocka_unit_test(at_least_half_of_the_tokens_computed_meanwhile_are_the_long_ones),
        cmocka_unit_test(where_every_slot_is_held_the_worker_waits_for_the_next_short_prompt),
        cmocka_unit_test(a_long_prompt_may_end_while_it_has_paused_or_is_about_to),
        cmocka_unit_test(one_slot_in_four_takes_short_prompts_alone),
        cmocka_unit_test(a_prompt_is_as_short_as_what_it_has_to_compute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
