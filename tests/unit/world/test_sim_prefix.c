/* Prefixes of prompts that are kept and shared, under loss, corruption, dead nodes and clients that go: the
 * simulated world itself holds every token against what the prompt must give, whose rows may come from
 * anywhere. Here it is made sure that they do. */
#include "tests/world/sim_toy.h"
#include "tests/world/sim_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

enum { SECOND = 1000000, PROMPTS = 60, ROW_BYTES = SIM_TOY_LAYERS * SIM_TOY_ROW_BYTES };

static sim_options shared(uint64_t seed)
{
    sim_options o = sim_options_defaults(seed);
    o.decodes = 1 + seed % 2;
    o.prefills = 1 + seed % 2;
    o.slots = 4;
    o.page_tokens = 16;
    o.decode_pages = 80;
    o.prefixes = 3;
    return o;
}

/* Runs prompts to their end, one after the other or all at once, `hurt` now and then; what the decode
 * nodes that live counted. */
static dc_counters run(const sim_options *o, bool at_once, void (*hurt)(sim_world *w, uint64_t request))
{
    sim_world *w = NULL;
    assert_int_equal(sim_world_new(&w, o), BT_OK);
    for (int i = 0; i < PROMPTS; i++) {
        const uint64_t request = sim_world_submit(w, 40 + (uint32_t)(sim_world_draw(w) % 200),
                                                  1 + (uint32_t)(sim_world_draw(w) % 20));
        assert_true(request > 0);
        if (hurt && sim_world_draw(w) % 4 == 0) hurt(w, request);
        if (!at_once) (void)sim_world_run_answered(w, 120 * (int64_t)SECOND);
    }
    const bool answered = sim_world_run_answered(w, 600 * (int64_t)SECOND);
    if (sim_world_error(w)) fail_msg("seed %llu: %s", (unsigned long long)o->seed, sim_world_error(w));
    assert_true(answered);
    const dc_counters n = sim_world_decode_counters(w);
    const bool idle = sim_world_run_idle(w, 60 * (int64_t)SECOND);
    if (sim_world_error(w)) fail_msg("seed %llu: %s", (unsigned long long)o->seed, sim_world_error(w));
    if (!idle) fail_msg("seed %llu: something is still held", (unsigned long long)o->seed);
    sim_world_free(w);
    return n;
}

static void a_decode_node_is_sent_only_what_it_lacks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        sim_options o = shared(seed);
        const uint64_t with = run(&o, false, NULL).block_bytes_placed;
        const dc_counters n = run(&o, false, NULL);
        o.prefixes = 0;
        const dc_counters none = run(&o, false, NULL);
        printf("seed %llu: %llu hits, %llu of %llu prompt tokens, %llu bytes\n", (unsigned long long)seed,
               (unsigned long long)n.prefix_hits, (unsigned long long)n.prefix_tokens,
               (unsigned long long)n.prompt_tokens, (unsigned long long)n.block_bytes_placed);
        assert_int_equal(with, n.block_bytes_placed); /* the same seed, the same run */
        assert_true(n.block_bytes_placed <= (n.prompt_tokens - n.prefix_tokens) * ROW_BYTES);
        assert_true(n.prefix_hits >= PROMPTS / 3 && n.prefix_tokens > n.prompt_tokens / 8);
        assert_int_equal(none.prefix_hits, 0);
    }
}

static void cancel_soon(sim_world *w, uint64_t request)
{
    sim_world_run(w, (int64_t)(sim_world_draw(w) % 4000));
    sim_world_cancel(w, request);
}

static void restart_soon(sim_world *w, uint64_t request)
{
    const bt_role role = sim_world_draw(w) % 2 ? BT_ROLE_PREFILL : BT_ROLE_DECODE;
    (void)request;
    sim_world_run(w, (int64_t)(sim_world_draw(w) % 20000));
    sim_world_kill(w, role, 0);
    sim_world_run(w, 100000);
    sim_world_start(w, role, 0);
}

static void a_hit_changes_no_token_whatever_is_lost_or_dies(void **state)
{
    (void)state;
    uint64_t hits = 0;
    for (uint64_t seed = 100; seed < 160; seed++) {
        sim_options o = shared(seed);
        o.faults = (sim_faults){.drop_ratio = 0.03,          .repeat_ratio = 0.03, .block_drop_ratio = 0.05,
                                .block_corrupt_ratio = 0.03, .delay_min_us = 100,  .delay_max_us = 3000};
        o.decode_pages = 48;
        o.swap_pages = seed % 3 * 8;
        o.can_prefill = seed % 4 == 0;
        o.local_below_tokens = o.can_prefill ? 100 : 0;
        hits += run(&o, seed % 2,
                    seed % 3 == 1   ? cancel_soon
                    : seed % 3 == 2 ? restart_soon
                                    : NULL)
                    .prefix_hits;
    }
    printf("%llu hits\n", (unsigned long long)hits);
    assert_true(hits > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decode_node_is_sent_only_what_it_lacks),
        cmocka_unit_test(a_hit_changes_no_token_whatever_is_lost_or_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
