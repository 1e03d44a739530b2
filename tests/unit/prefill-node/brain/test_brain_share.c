/* The waiting prompts that share a run: in order of arrival, the oldest always, what fits behind it, and none
 * that would find its prefix computed by another. */
#include "tests/unit/prefill-node/brain/brain_kit.h"

enum { SHARE = 200, SLOTS = 16 };

static pf_brain *make_sharing(uint32_t share_tokens)
{
    pf_config c = pf_config_defaults();
    c.self = SELF;
    c.slots = SLOTS;
    c.share_tokens = share_tokens;
    c.pages_total = 64;
    c.hello.ctx_tokens = 384;
    c.hello.kv = (bt_kv_shape){LAYERS, 1, 2, BT_KV_F16, 0, 0};
    pf_brain *b = NULL;
    now = 1000000;
    assert_int_equal(pf_brain_new(&b, &c, NULL), BT_OK);
    step(b, &(pf_event){.type = PF_EV_TICK});
    control(b, &(bt_msg){.type = BT_MSG_WELCOME});
    return b;
}

static bt_prompt_salt salt; /* of the next prompts */

/* Prompts differ in their first token by `number`, or begin alike where it is 0. */
static void give(pf_brain *b, uint64_t request, int32_t number, uint32_t tokens)
{
    for (int32_t i = 0; i < 400; i++) ids[i] = i;
    ids[0] = number;
    bt_msg m = prefill_msg(request, 1, tokens);
    m.u.prefill.salt = salt;
    control(b, &m);
    assert_non_null(said(BT_MSG_PREFILL_ACCEPTED));
    if (!did(PF_DO_LINK)) return;
    const pf_action first = *did(PF_DO_COMPUTE);
    open_link(b, 1 << 20);
    assert_null(did(PF_DO_COMPUTE));
    assert_int_equal(first.u.compute.with, 0);
}

/* The COMPUTEs of the last step are one run of these slots, one behind the other. */
static void check_run(const uint32_t *slot, uint32_t n)
{
    size_t at = 0;
    while (at < acts.len && acts.items[at].type != PF_DO_COMPUTE) at++;
    assert_int_equal(count(PF_DO_COMPUTE), n);
    for (uint32_t i = 0; i < n; i++) {
        const pf_action *a = &acts.items[at + i];
        assert_int_equal(a->type, PF_DO_COMPUTE);
        assert_int_equal(a->u.compute.slot, slot[i]);
        assert_int_equal(a->u.compute.with, i ? 0 : n - 1);
    }
}

static void end(pf_brain *b, uint32_t slot)
{
    step(b, &(pf_event){.type = PF_EV_COMPUTE_STOPPED, .u.slot = slot});
}

static void waiting_prompts_share_a_run_up_to_its_tokens(void **state)
{
    (void)state;
    pf_brain *b = make_sharing(SHARE);
    give(b, 1, 1, 20); /* runs alone: nobody waits */
    static const uint32_t tokens[] = {60, 300, 60, 90, 80, 20};
    for (uint32_t i = 0; i < 6; i++) {
        give(b, 2 + i, (int32_t)(2 + i), tokens[i]);
        assert_int_equal(count(PF_DO_COMPUTE), 0);
    }
    end(b, 0);
    check_run((uint32_t[]){1, 3, 5}, 3); /* 60 + 60 + 80; 300 and 90 do not fit behind what came first */
    assert_int_equal(pf_brain_load(b).queued, 3);
    end(b, 3);
    end(b, 1);
    assert_int_equal(count(PF_DO_COMPUTE), 0); /* one of the run is still computed */
    end(b, 5);
    check_run((uint32_t[]){2}, 1); /* the oldest, whatever its length */
    end(b, 2);
    check_run((uint32_t[]){4, 6}, 2);
    assert_int_equal(pf_brain_counters(b)->batches, 2);
    assert_int_equal(pf_brain_counters(b)->batched, 5);
    assert_true(pf_brain_is_sound(b));
    pf_brain_free(b);
}

static void without_share_tokens_each_runs_alone(void **state)
{
    (void)state;
    pf_brain *b = make_sharing(0);
    for (int32_t i = 0; i < 3; i++) give(b, 1 + (uint64_t)i, 1 + i, 20);
    for (uint32_t i = 0; i < 2; i++) {
        end(b, i);
        check_run(&(uint32_t){i + 1}, 1);
    }
    pf_brain_free(b);
    pf_config c = pf_config_defaults();
    c.self = SELF;
    c.slots = c.workers = 2;
    c.share_tokens = 64;
    c.pages_total = 12;
    c.hello.ctx_tokens = 384;
    c.hello.kv = (bt_kv_shape){LAYERS, 1, 2, BT_KV_F16, 0, 0};
    assert_int_equal(pf_brain_new(&b, &c, NULL), BT_EARG); /* a run is one worker's */
}

/* The second would compute the first's page again; behind it, it finds it. */
static void a_prompt_that_begins_like_another_waits_for_its_pages(void **state)
{
    (void)state;
    pf_brain *b = make_sharing(SHARE);
    give(b, 1, 1, 20);
    give(b, 2, 7, 70);
    give(b, 3, 7, 90);
    give(b, 4, 8, 90);
    end(b, 0);
    check_run((uint32_t[]){1, 3}, 2);
    for (uint32_t l = 0; l < LAYERS; l++)
        step(b, &(pf_event){.type = PF_EV_KV_READY, .u.kv_ready = {1, l, 0, 70}});
    step(b, &(pf_event){.type = PF_EV_COMPUTED, .u.computed.slot = 1});
    step(b, &(pf_event){.type = PF_EV_DIGEST, .u.digest.slot = 1});
    end(b, 3);
    check_run((uint32_t[]){2}, 1);
    assert_int_equal(did(PF_DO_COMPUTE)->u.compute.from_row, 64);
    pf_brain_free(b);
}

/* It would find nothing behind the other, and a wait would tell what the other is. */
static void a_prompt_of_another_salt_waits_for_nobodys_pages(void **state)
{
    (void)state;
    pf_brain *b = make_sharing(SHARE);
    give(b, 1, 1, 20);
    give(b, 2, 7, 70);
    salt.bytes[0] = 1;
    give(b, 3, 7, 90);
    salt.bytes[0] = 0;
    end(b, 0);
    check_run((uint32_t[]){1, 2}, 2);
    pf_brain_free(b);
}

/* Short prompts come without an end: the long one in front of them is started with the next run. */
static void a_prompt_waits_for_no_more_runs_than_prompts_came_before_it(void **state)
{
    (void)state;
    pf_brain *b = make_sharing(SHARE);
    uint64_t number = 1;
    give(b, number, 1, 20);
    number++;
    give(b, number, (int32_t)number, 30);
    number++;
    give(b, number, (int32_t)number, 350); /* two are before it */
    const uint32_t late = 2;
    uint32_t runs = 0;
    for (uint32_t on[PF_SHARE_MAX] = {0}, len = 1, is_started = 0; !is_started;) {
        for (int k = 0; k < 3; k++) {
            number++;
            bt_msg m = prefill_msg(number, 1, 40);
            ids[0] = (int32_t)number;
            control(b, &m);
        }
        const uint32_t ending = len;
        for (uint32_t i = 0; i < ending; i++) end(b, on[i]);
        len = 0;
        for (size_t i = 0; i < acts.len; i++)
            if (acts.items[i].type == PF_DO_COMPUTE) on[len++] = acts.items[i].u.compute.slot;
        for (uint32_t i = 0; i < len; i++) is_started |= on[i] == late;
        runs++;
        assert_true(runs <= 2);
    }
    assert_int_equal(runs, 2);
    pf_brain_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_prompts_share_a_run_up_to_its_tokens),
        cmocka_unit_test(without_share_tokens_each_runs_alone),
        cmocka_unit_test(a_prompt_that_begins_like_another_waits_for_its_pages),
        cmocka_unit_test(a_prompt_of_another_salt_waits_for_nobodys_pages),
        cmocka_unit_test(a_prompt_waits_for_no_more_runs_than_prompts_came_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
