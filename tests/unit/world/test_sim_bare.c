/* A world without codec, digests and checks makes the same decisions as one with all of them: every event of
 * both, written out as a line each, is the same text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/world/sim_bare.h"
#include "tests/world/sim_world.h"
#include "tests/helpers/brain/wire_samples.h"

typedef struct told {
    char *text;
    size_t len;
    uint64_t steps, faults;
    dc_counters counters;
    uint32_t done, failed;
} told;

static sim_options options(uint64_t seed)
{
    sim_options o = sim_options_defaults(seed);
    o.prefills = 2 + (uint32_t)(seed % 2);
    o.decodes = 2;
    o.slots = 4;
    o.can_prefill = seed % 3 == 0;
    o.local_below_tokens = o.can_prefill ? 60 : 0;
    o.prefixes = seed % 4 ? 3 : 0;
    o.pages_total = o.decode_pages = 16;
    o.swap_pages = 4;
    o.gw.policy = seed % 2 ? GW_POLICY_PREFIX : GW_POLICY_LEAST_LOAD;
    o.faults.drop_ratio = o.faults.repeat_ratio = o.faults.reorder_ratio = 0.01;
    o.faults.block_drop_ratio = o.faults.block_repeat_ratio = o.faults.block_reorder_ratio = 0.02;
    o.blocked_ratio = 0.05;
    return o;
}

/* Requests of many lengths, and nodes that are killed, stopped and asked to leave. */
static told play(uint64_t seed, bool is_bare)
{
    told t = {0};
    sim_world *w = NULL;
    sim_options o = options(seed);
    o.is_bare = is_bare;
    o.trace = open_memstream(&t.text, &t.len);
    assert_non_null(o.trace);
    assert_int_equal(sim_world_new(&w, &o), BT_OK);
    sim_world_run(w, 1000000);
    for (uint64_t i = 0; i < 60; i++) {
        const uint64_t r = bt_rng_u64(seed, i);
        (void)sim_world_submit(w, 1 + (uint32_t)(r % 200), 1 + (uint32_t)(r >> 8) % 60);
        const bt_role role = r >> 63 ? BT_ROLE_PREFILL : BT_ROLE_DECODE;
        if (i % 10 == 9) sim_world_kill(w, role, 0);
        if (i % 10 == 4) sim_world_stop(w, role, 1);
        if (i == 33) sim_world_drain(w, role, 0);
        sim_world_run(w, (int64_t)(r >> 20) % 200000);
        sim_world_start(w, role, 0);
        sim_world_continue(w, role, 1);
    }
    (void)sim_world_run_answered(w, 100000000);
    if (sim_world_error(w)) fail_msg("%s", sim_world_error(w));
    for (uint64_t i = 1; i <= sim_world_requests(w); i++) {
        t.done += sim_world_request(w, i)->outcome == SIM_DONE;
        t.failed += sim_world_request(w, i)->outcome == SIM_FAILED;
    }
    t.steps = sim_world_steps(w);
    t.faults = sim_world_faults(w);
    t.counters = sim_world_decode_counters(w);
    sim_world_free(w);
    fclose(o.trace);
    return t;
}

static void decides_the_same_without_codec_digests_and_checks(void **state)
{
    (void)state;
    uint64_t lines = 0, hits = 0;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        told all = play(seed, false), bare = play(seed, true);
        assert_int_equal(all.len, bare.len);
        assert_memory_equal(all.text, bare.text, all.len);
        assert_int_equal(all.steps, bare.steps);
        assert_int_equal(all.faults, bare.faults);
        assert_memory_equal(&all.counters, &bare.counters, sizeof all.counters);
        assert_true(all.done > 30 && all.done == bare.done && all.failed == bare.failed);
        hits += all.counters.prefix_hits;
        for (size_t i = 0; i < all.len; i++) lines += all.text[i] == '\n';
        free(all.text);
        free(bare.text);
    }
    assert_true(lines > 50000 && hits > 50);
}

static void refuses_to_corrupt_or_forge_what_has_no_bytes_to_check(void **state)
{
    (void)state;
    sim_world *w = NULL;
    for (int i = 0; i < 3; i++) {
        sim_options o = options(1);
        o.is_bare = true;
        *(i == 0 ? &o.faults.corrupt_ratio : i == 1 ? &o.faults.block_corrupt_ratio : &o.forge_ratio) = 0.1;
        assert_int_equal(sim_world_new(&w, &o), BT_EARG);
        assert_null(w);
    }
}

/* The codec's bytes of a message are the same before and after. */
static void a_message_comes_out_as_it_went_in(void **state)
{
    (void)state;
    for (const bt_msg_type *type = wire_samples_types; *type; type++) {
        bt_msg m = {0}, out;
        wire_samples_make(&m, *type);
        size_t cap = bt_msg_encoded_max(&m), len = 0, again = 0;
        uint8_t *packed = malloc(sim_bare_bytes(&m)), *one = malloc(cap), *two = malloc(cap);
        assert_true(packed && one && two);
        sim_bare_pack(packed, &m);
        sim_bare_open(&out, packed);
        assert_int_equal(bt_msg_encode(&len, one, cap, &m, NULL), BT_OK);
        assert_int_equal(bt_msg_encode(&again, two, cap, &out, NULL), BT_OK);
        assert_int_equal(len, again);
        assert_memory_equal(one, two, len);
        free(packed);
        free(one);
        free(two);
    }
}

/* A message that no codec carries. */
static void a_prompt_may_travel_as_hashes_alone(void **state)
{
    (void)state;
    uint64_t hashes[3] = {5, 6, 7};
    bt_msg m = {.type = BT_MSG_PREFILL}, out;
    m.u.prefill.ids_len = 40;
    m.u.prefill.hashes = (bt_prompt_hashes){hashes, 16};
    uint8_t *packed = malloc(sim_bare_bytes(&m));
    assert_non_null(packed);
    sim_bare_pack(packed, &m);
    hashes[0] = 0;
    sim_bare_open(&out, packed);
    assert_null(out.u.prefill.ids);
    assert_int_equal(out.u.prefill.hashes.of[0], 5);
    assert_int_equal(out.u.prefill.hashes.of[2], 7);
    uint8_t frame[4096];
    size_t len;
    bt_fault fault = {""};
    wire_samples_make(&out, BT_MSG_PREFILL);
    out.u.prefill.ids = NULL;
    assert_int_equal(bt_msg_encode(&len, frame, sizeof frame, &out, &fault), BT_EARG);
    assert_non_null(strstr(fault.text, "does not travel"));
    free(packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides_the_same_without_codec_digests_and_checks),
        cmocka_unit_test(refuses_to_corrupt_or_forge_what_has_no_bytes_to_check),
        cmocka_unit_test(a_message_comes_out_as_it_went_in),
        cmocka_unit_test(a_prompt_may_travel_as_hashes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
