/* The three real brains over a virtual network, many seeds: every promise to the client is checked by the
 * world itself. A failing run prints its seed; the same seed replays it. */
#include "tests/world/sim_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

enum { SECOND = 1000000 };

static sim_world *world(const sim_options *o)
{
    sim_world *w = NULL;
    assert_int_equal(sim_world_new(&w, o), BT_OK);
    return w;
}

static void check(const sim_world *w)
{
    if (sim_world_error(w)) fail_msg("%s", sim_world_error(w));
}

static void settle(sim_world *w, uint64_t seed)
{
    bool idle = sim_world_run_idle(w, 40 * (int64_t)SECOND);
    check(w);
    if (!idle)
        fail_msg("seed %llu: something is still held 40 s after the last answer", (unsigned long long)seed);
}

static uint32_t between(sim_world *w, uint32_t lo, uint32_t hi)
{
    return lo + (uint32_t)(sim_world_draw(w) % (hi - lo + 1));
}

static sim_faults lossy(void)
{
    return (sim_faults){.drop_ratio = 0.05,          .repeat_ratio = 0.05, .block_drop_ratio = 0.05,
                        .block_corrupt_ratio = 0.02, .delay_min_us = 100,  .delay_max_us = 5000};
}

static void passes_a_request_from_end_to_end(void **s)
{
    (void)s;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        sim_options o = sim_options_defaults(seed);
        sim_world *w = world(&o);
        uint64_t r = sim_world_submit(w, between(w, 1, 300), between(w, 1, 64));
        assert_true(sim_world_run_answered(w, 10 * SECOND));
        check(w);
        assert_int_equal(sim_world_request(w, r)->outcome, SIM_DONE);
        settle(w, seed);
        sim_world_free(w);
    }
}

static void tells_the_figures_of_the_hand_off(void **s)
{
    (void)s;
    sim_options o = sim_options_defaults(3);
    sim_world *w = world(&o);
    const sim_request *r = NULL;
    for (int i = 0; i < 20; i++) {
        uint64_t n = sim_world_submit(w, 200, 64);
        assert_true(sim_world_run_answered(w, 10 * SECOND));
        r = sim_world_request(w, n);
        assert_int_equal(r->outcome, SIM_DONE);
        if (r->tokens < 2) continue;
        assert_true(r->stats.has_first && r->stats.has_kv && r->stats.has_decode);
        assert_int_equal(r->stats.kv_bytes, 3 * 200 * 8);
        assert_true(r->stats.kv_exposed_us > 0 && r->stats.kv_exposed_us < 20000);
        assert_true(r->stats.ttft_us > 0 && r->stats.total_us > r->stats.ttft_us);
    }
    check(w);
    sim_world_free(w);
}

static void serves_thousands_in_turn_on_one_slot_and_on_many(void **s)
{
    (void)s;
    for (uint32_t slots = 1; slots <= 4; slots += 3) {
        sim_options o = sim_options_defaults(7 + slots);
        o.slots = slots;
        o.prefills = o.decodes = slots == 1 ? 1 : 2;
        o.blocked_ratio = 0.1;
        sim_world *w = world(&o);
        for (int round = 0; round < 40; round++) {
            for (int i = 0; i < 40; i++)
                assert_true(sim_world_submit(w, between(w, 1, 120), between(w, 1, 16)) > 0);
            assert_true(sim_world_run_answered(w, 60 * SECOND));
            check(w);
        }
        for (uint64_t i = 1; i <= 1600; i++) assert_int_equal(sim_world_request(w, i)->outcome, SIM_DONE);
        settle(w, o.seed);
        sim_world_free(w);
    }
}

static void loses_and_repeats_messages_but_no_token(void **s)
{
    (void)s;
    for (uint64_t seed = 1000; seed < 1150; seed++) {
        sim_options o = sim_options_defaults(seed);
        o.slots = 1 + seed % 3;
        o.faults = lossy();
        o.blocked_ratio = 0.05;
        o.window_bytes = 2048;
        sim_world *w = world(&o);
        for (int i = 0; i < 5; i++)
            assert_true(sim_world_submit(w, between(w, 1, 400), between(w, 1, 64)) > 0);
        bool answered = sim_world_run_answered(w, 120 * (int64_t)SECOND);
        check(w);
        if (!answered) fail_msg("seed %llu: no answer", (unsigned long long)seed);
        for (uint64_t i = 1; i <= 5; i++)
            if (sim_world_request(w, i)->outcome != SIM_DONE)
                fail_msg("seed %llu: request %llu failed: %s", (unsigned long long)seed,
                         (unsigned long long)i, gw_fail_name(sim_world_request(w, i)->kind));
        settle(w, seed);
        sim_world_free(w);
    }
}

static void goes_on_when_a_node_dies_and_comes_back_within_30_s(void **s)
{
    (void)s;
    uint32_t recovered = 0;
    for (uint64_t seed = 2000; seed < 2300; seed++) {
        sim_options o = sim_options_defaults(seed);
        sim_world *w = world(&o);
        bt_role role = seed % 2 ? BT_ROLE_PREFILL : BT_ROLE_DECODE;
        sim_world_run(w, 100000);
        uint64_t r = sim_world_submit(w, 300, 32);
        sim_world_run(w, between(w, 0, 60000));
        sim_world_kill(w, role, 0);
        sim_world_run(w, between(w, 0, 30) * (int64_t)SECOND);
        sim_world_start(w, role, 0);
        const bool answered = sim_world_run_answered(w, 60 * (int64_t)SECOND);
        check(w);
        if (!answered || sim_world_request(w, r)->outcome != SIM_DONE)
            fail_msg("seed %llu: %s", (unsigned long long)seed, gw_fail_name(sim_world_request(w, r)->kind));
        recovered += sim_world_request(w, r)->stats.recoveries > 0;
        settle(w, seed);
        sim_world_free(w);
    }
    assert_in_range(recovered, 50, 299); /* both ways were seen */
}

static void answers_within_the_recovery_time_when_a_node_dies_for_good(void **s)
{
    (void)s;
    uint32_t failed = 0;
    for (uint64_t seed = 2300; seed < 2400; seed++) {
        sim_options o = sim_options_defaults(seed);
        sim_world *w = world(&o);
        sim_world_run(w, 100000);
        uint64_t r = sim_world_submit(w, 300, 32);
        sim_world_run(w, between(w, 0, 60000));
        sim_world_kill(w, seed % 2 ? BT_ROLE_PREFILL : BT_ROLE_DECODE, 0);
        assert_true(sim_world_run_answered(w, 37 * (int64_t)SECOND)); /* 6 s of silence, then 30 s */
        check(w);
        if (sim_world_request(w, r)->outcome == SIM_FAILED)
            assert_int_equal(sim_world_request(w, r)->kind, GW_FAIL_NODE_LOST);
        failed += sim_world_request(w, r)->outcome == SIM_FAILED;
        settle(w, seed);
        sim_world_free(w);
    }
    assert_in_range(failed, 20, 99);
}

/* 1 gateway, 2 + 2 nodes, 4 slots; four requests that have begun. */
static sim_world *begun(uint64_t seed)
{
    sim_options o = sim_options_defaults(seed);
    o.prefills = o.decodes = 2;
    o.slots = 4;
    o.decode_pages = 128;
    sim_world *w = world(&o);
    sim_world_run(w, SECOND);
    for (int i = 0; i < 4; i++) assert_true(sim_world_submit(w, between(w, 100, 300), 200) > 0);
    return w;
}

static void a_connection_that_comes_back_costs_no_attempt_and_one_that_does_not_no_token(void **s)
{
    (void)s;
    uint32_t attempts = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        sim_world *w = begun(seed);
        const bool is_back = seed % 2; /* soon, with what was on the way lost; else after a second */
        for (int i = 0; i < 20; i++) {
            const uint32_t node = between(w, 1, 4);
            sim_world_cut(w, node, 0, is_back ? 30000 : SECOND, false);
            sim_world_cut(w, 0, node, is_back ? 30000 : SECOND, false);
            sim_world_end_link(w, 0, node);
            sim_world_run(w, between(w, 1, 10) * 1000);
        }
        const bool is_answered = sim_world_run_answered(w, 60 * (int64_t)SECOND);
        check(w);
        if (!is_answered) fail_msg("seed %llu: no answer", (unsigned long long)seed);
        for (uint64_t i = 1; i <= 4; i++) {
            const sim_request *r = sim_world_request(w, i);
            assert_int_equal(r->outcome, SIM_DONE);
            if (is_back) assert_int_equal(r->stats.recoveries, 0);
            attempts += r->stats.attempts;
        }
        settle(w, seed);
        sim_world_free(w);
    }
    assert_true(attempts > 2 * 60 * 2); /* those that were away cost some */
}

static void a_node_that_dies_is_left_within_a_second_where_its_connection_ends(void **s)
{
    (void)s;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        sim_world *w = begun(seed);
        sim_world_run(w, between(w, 5, 40) * 1000);
        const bt_role role = seed % 2 ? BT_ROLE_PREFILL : BT_ROLE_DECODE;
        sim_world_kill(w, role, 0);
        sim_world_end_link(w, 0, role == BT_ROLE_PREFILL ? 1 : 3);
        const bool is_answered = sim_world_run_answered(w, SECOND); /* and an answer takes a tenth of it */
        check(w);
        if (!is_answered) fail_msg("seed %llu: no answer after a second", (unsigned long long)seed);
        for (uint64_t i = 1; i <= 4; i++) assert_int_equal(sim_world_request(w, i)->outcome, SIM_DONE);
        settle(w, seed);
        sim_world_free(w);
    }
}

static void survives_restarts_of_every_process_at_random_moments(void **s)
{
    (void)s;
    uint32_t recovered = 0;
    for (uint64_t seed = 3000; seed < 3060; seed++) {
        sim_options o = sim_options_defaults(seed);
        o.prefills = o.decodes = 2;
        o.slots = 2;
        o.faults = lossy();
        o.faults.delay_max_us = 100 + (int64_t)(seed % 6) * 20000;
        o.blocked_ratio = 0.05;
        o.window_bytes = 1024u << seed % 8;
        o.accept_us = INT64_MAX / 2; /* a lost node fails its requests */
        sim_world *w = world(&o);
        for (int i = 0; i < 12; i++) {
            assert_true(sim_world_submit(w, between(w, 1, 300), between(w, 1, 48)) > 0);
            sim_world_run(w, between(w, 0, 300000));
            bt_role role = between(w, 0, 1) ? BT_ROLE_PREFILL : BT_ROLE_DECODE;
            uint32_t which = between(w, 0, 1);
            if (between(w, 0, 2) == 0) sim_world_kill(w, role, which);
            sim_world_run(w, between(w, 0, 2) * (int64_t)SECOND);
            sim_world_start(w, role, which);
        }
        bool answered = sim_world_run_answered(w, 120 * (int64_t)SECOND);
        check(w);
        if (!answered) fail_msg("seed %llu: no answer", (unsigned long long)seed);
        for (uint64_t i = 1; i <= 12; i++) {
            recovered += sim_world_request(w, i)->stats.recoveries > 0;
            if (sim_world_request(w, i)->outcome != SIM_DONE)
                fail_msg("seed %llu: request %llu: %s", (unsigned long long)seed, (unsigned long long)i,
                         gw_fail_name(sim_world_request(w, i)->kind));
        }
        settle(w, seed);
        sim_world_free(w);
    }
    assert_in_range(recovered, 50, 720);
}

static void frees_everything_when_clients_go_at_random_moments(void **s)
{
    (void)s;
    for (uint64_t seed = 4000; seed < 4200; seed++) {
        sim_options o = sim_options_defaults(seed);
        o.slots = 1 + seed % 2;
        if (seed % 4 >= 2) o.faults = lossy();
        sim_world *w = world(&o);
        uint64_t last = 0;
        for (int i = 0; i < 6; i++) {
            last = sim_world_submit(w, between(w, 1, 400), between(w, 1, 64));
            sim_world_run(w, between(w, 0, 60000));
            if (between(w, 0, 1)) sim_world_cancel(w, 1 + sim_world_draw(w) % last);
            else sim_world_finish_early(w, 1 + sim_world_draw(w) % last);
        }
        for (uint64_t i = 1; i <= last; i++) sim_world_cancel(w, i);
        for (uint64_t i = 1; i <= last; i++)
            assert_int_not_equal(sim_world_request(w, i)->outcome, SIM_PENDING);
        settle(w, seed);
        sim_world_set_faults(w, &(sim_faults){.delay_min_us = 100, .delay_max_us = 2000});
        last = sim_world_submit(w, 100, 16);
        assert_true(sim_world_run_answered(w, 30 * SECOND));
        check(w);
        assert_int_equal(sim_world_request(w, last)->outcome, SIM_DONE);
        sim_world_free(w);
    }
}

static void refuses_what_the_queue_cannot_hold(void **s)
{
    (void)s;
    sim_options o = sim_options_defaults(5);
    o.queue_max = 8;
    sim_world *w = world(&o);
    sim_world_run(w, 100000);
    for (int i = 0; i < 20; i++) assert_true(sim_world_submit(w, 50, 16) > 0);
    assert_true(sim_world_run_answered(w, 30 * SECOND));
    check(w);
    uint32_t overloaded = 0;
    for (uint64_t i = 1; i <= 20; i++) {
        const sim_request *r = sim_world_request(w, i);
        if (r->outcome == SIM_DONE) continue;
        assert_int_equal(r->kind, GW_FAIL_OVERLOADED);
        overloaded++;
    }
    assert_int_equal(overloaded, 20 - 9); /* one at work, eight waiting */
    sim_world_free(w);
}

static void refuses_what_no_node_holds_and_what_no_node_serves(void **s)
{
    (void)s;
    sim_options o = sim_options_defaults(6);
    sim_world *w = world(&o);
    sim_world_run(w, 100000);
    uint64_t long_one = sim_world_submit(w, 512, 1);
    assert_int_equal(sim_world_request(w, long_one)->kind, GW_FAIL_TOO_LONG);
    uint64_t fits = sim_world_submit(w, 500, 12), is_cut = sim_world_submit(w, 500, 13);
    assert_true(sim_world_run_answered(w, 10 * SECOND));
    assert_int_equal(sim_world_request(w, is_cut)->outcome, SIM_DONE);
    assert_int_equal(sim_world_request(w, is_cut)->max_tokens, 12);
    assert_int_equal(sim_world_request(w, fits)->outcome, SIM_DONE);
    sim_world_kill(w, BT_ROLE_DECODE, 0);
    sim_world_run(w, 37 * (int64_t)SECOND);
    uint64_t none = sim_world_submit(w, 50, 16);
    assert_int_equal(sim_world_request(w, none)->outcome, SIM_FAILED); /* at once */
    assert_int_equal(sim_world_request(w, none)->kind, GW_FAIL_NO_NODE);
    check(w);
    sim_world_free(w);
}

static void drains_nodes_and_gateway_after_their_last_request(void **s)
{
    (void)s;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        sim_options o = sim_options_defaults(seed);
        sim_world *w = world(&o);
        sim_world_run(w, 100000);
        uint64_t r = sim_world_submit(w, 300, 64);
        sim_world_run(w, between(w, 10000, 40000));
        sim_world_drain(w, BT_ROLE_PREFILL, 0);
        sim_world_drain(w, BT_ROLE_DECODE, 0);
        sim_world_drain(w, BT_ROLE_GATEWAY, 0);
        sim_world_run(w, 20 * SECOND);
        check(w);
        assert_int_equal(sim_world_request(w, r)->outcome, SIM_DONE);
        assert_false(sim_world_is_alive(w, BT_ROLE_PREFILL, 0));
        assert_false(sim_world_is_alive(w, BT_ROLE_DECODE, 0));
        assert_false(sim_world_is_alive(w, BT_ROLE_GATEWAY, 0));
        sim_world_free(w);
    }
}

/* Pools of a few pages, so that somebody must go all the time. Every request still ends with its own
 * tokens, in a bounded time. */
static sim_options squeezed(uint64_t seed)
{
    sim_options o = sim_options_defaults(seed);
    o.slots = 6;
    o.prefills = 1 + seed % 2;
    o.page_tokens = 16;
    o.ctx_tokens = 256;
    o.decode_pages = 16; /* one of the longest sequences */
    o.growth_tokens = 4;
    o.prefixes = 3;
    if (seed % 4 == 0) o.faults = lossy();
    return o;
}

static void squeeze(dc_counters *sum, const sim_options *o, uint32_t prompt_max)
{
    enum { REQUESTS = 24 };
    sim_world *w = world(o);
    for (int i = 0; i < REQUESTS; i++)
        assert_true(sim_world_submit(w, between(w, 1, prompt_max), between(w, 30, 256 - prompt_max)) > 0);
    bool answered = sim_world_run_answered(w, 60 * (int64_t)SECOND);
    check(w);
    if (!answered) fail_msg("seed %llu: no answer", (unsigned long long)o->seed);
    for (uint64_t i = 1; i <= REQUESTS; i++)
        if (sim_world_request(w, i)->outcome != SIM_DONE)
            fail_msg("seed %llu: request %llu failed: %s", (unsigned long long)o->seed, (unsigned long long)i,
                     gw_fail_name(sim_world_request(w, i)->kind));
    const dc_counters n = sim_world_decode_counters(w);
    sum->preempted += n.preempted;
    sum->swapped_in += n.swapped_in;
    sum->dropped += n.dropped;
    sum->given_up += n.given_up;
    sum->local_prefills += n.local_prefills;
    sum->prefix_hits += n.prefix_hits;
    sum->replayed_tokens += n.replayed_tokens;
    settle(w, o->seed);
    sim_world_free(w);
}

static void say(const dc_counters *n)
{
    printf("preempted %llu, swapped in %llu, dropped %llu, given up %llu, prefilled here %llu, prefix hits "
           "%llu, replayed %llu\n",
           (unsigned long long)n->preempted, (unsigned long long)n->swapped_in,
           (unsigned long long)n->dropped, (unsigned long long)n->given_up,
           (unsigned long long)n->local_prefills, (unsigned long long)n->prefix_hits,
           (unsigned long long)n->replayed_tokens);
}

static void preempts_all_the_time_and_changes_no_token(void **s)
{
    (void)s;
    dc_counters n = {0};
    for (uint64_t seed = 5000; seed < 5100; seed++) {
        sim_options o = squeezed(seed);
        o.swap_pages = 200;
        squeeze(&n, &o, 40);
    }
    say(&n);
    assert_true(n.preempted > 300 && n.swapped_in > 300 && n.given_up == 0);
}

static void goes_on_in_a_new_attempt_where_a_decode_node_keeps_nothing(void **s)
{
    (void)s;
    dc_counters n = {0};
    for (uint64_t seed = 5200; seed < 5260; seed++) {
        sim_options o = squeezed(seed);
        o.decodes = 1 + seed % 2;
        squeeze(&n, &o, 40);
    }
    say(&n);
    assert_true(n.given_up > 200 && n.replayed_tokens > 1000);
}

static void prefills_on_the_decode_node_and_shares_prefixes(void **s)
{
    (void)s;
    dc_counters n = {0};
    for (uint64_t seed = 5300; seed < 5400; seed++) {
        sim_options o = squeezed(seed);
        o.prefills = 0;
        o.can_prefill = true;
        o.page_tokens = seed % 2 ? 32 : 16; /* a shared prefix ends with a page */
        o.decode_pages = (16 + (seed % 3) * 8) * 16 / o.page_tokens;
        o.swap_pages = (seed % 3) * 8;
        squeeze(&n, &o, 100);
    }
    say(&n);
    assert_true(n.preempted > 300 && n.dropped > 50 && n.swapped_in > 50 && n.local_prefills > 2000 &&
                n.prefix_hits > 100);
}

static void prefills_here_and_there_with_the_same_tokens(void **s)
{
    (void)s;
    dc_counters n = {0};
    for (uint64_t seed = 5400; seed < 5500; seed++) {
        sim_options o = squeezed(seed);
        o.can_prefill = true;
        o.local_below_tokens = 30;
        o.decode_pages = 20;
        o.swap_pages = (seed % 3) * 8;
        squeeze(&n, &o, 80);
    }
    say(&n);
    assert_true(n.preempted > 200 && n.dropped > 20 && n.local_prefills > 300 && n.given_up == 0);
}

/* Three salts, each with its own hits, in nodes of both kinds; the world sees to it that none has another's.
 */
static void shares_prefixes_only_within_a_salt(void **s)
{
    (void)s;
    dc_counters n = {0};
    for (uint64_t seed = 5500; seed < 5560; seed++) {
        sim_options o = squeezed(seed);
        o.decodes = 1 + seed % 2;
        o.can_prefill = seed % 3 == 0;
        o.local_below_tokens = 30;
        o.swap_pages = 16;
        o.salts = 3;
        squeeze(&n, &o, 80);
    }
    say(&n);
    assert_true(n.prefix_hits > 50 && n.preempted > 100);
}

static void replays_a_seed_exactly(void **s)
{
    (void)s;
    uint64_t steps[2];
    int64_t ended[2];
    for (int i = 0; i < 2; i++) {
        sim_options o = sim_options_defaults(99);
        o.faults = lossy();
        sim_world *w = world(&o);
        for (int k = 0; k < 10; k++) assert_true(sim_world_submit(w, between(w, 1, 300), 32) > 0);
        assert_true(sim_world_run_answered(w, 120 * (int64_t)SECOND));
        steps[i] = sim_world_steps(w);
        ended[i] = sim_world_now_us(w);
        sim_world_free(w);
    }
    assert_int_equal(steps[0], steps[1]);
    assert_int_equal(ended[0], ended[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_a_request_from_end_to_end),
        cmocka_unit_test(tells_the_figures_of_the_hand_off),
        cmocka_unit_test(serves_thousands_in_turn_on_one_slot_and_on_many),
        cmocka_unit_test(loses_and_repeats_messages_but_no_token),
        cmocka_unit_test(goes_on_when_a_node_dies_and_comes_back_within_30_s),
        cmocka_unit_test(answers_within_the_recovery_time_when_a_node_dies_for_good),
        cmocka_unit_test(a_connection_that_comes_back_costs_no_attempt_and_one_that_does_not_no_token),
        cmocka_unit_test(a_node_that_dies_is_left_within_a_second_where_its_connection_ends),
        cmocka_unit_test(survives_restarts_of_every_process_at_random_moments),
        cmocka_unit_test(frees_everything_when_clients_go_at_random_moments),
        cmocka_unit_test(refuses_what_the_queue_cannot_hold),
        cmocka_unit_test(refuses_what_no_node_holds_and_what_no_node_serves),
        cmocka_unit_test(drains_nodes_and_gateway_after_their_last_request),
        cmocka_unit_test(preempts_all_the_time_and_changes_no_token),
        cmocka_unit_test(goes_on_in_a_new_attempt_where_a_decode_node_keeps_nothing),
        cmocka_unit_test(prefills_on_the_decode_node_and_shares_prefixes),
        cmocka_unit_test(prefills_here_and_there_with_the_same_tokens),
        cmocka_unit_test(shares_prefixes_only_within_a_salt),
        cmocka_unit_test(replays_a_seed_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
