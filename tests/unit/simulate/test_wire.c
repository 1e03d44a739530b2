/* Grouped layers against the wire that sends each message by itself. */
#include "simulate/inner.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const bt_link link10 = {.bits_per_us = 10000, .latency_ns = 700};

/* One sender, one chunk: whatever the ratio of computing and sending, the last layer comes when bt_link_chunk
 * says. */
static void a_chunk_arrives_when_its_layers_one_by_one_would(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2000; i++) {
        const uint32_t layers = 1 + (uint32_t)(bt_rng_u64(1, i) % 80);
        const uint64_t step = bt_rng_u64(2, i) % 3000000, bytes = 1 + bt_rng_u64(3, i) % 2000000,
                       start = i * 1000, took = step * layers;
        sim_wire out = {0}, in = {0};
        bt_link_queue q = {0};
        const bt_link_kv kv = {.layers = layers, .layer_bytes = bytes};
        (void)bt_link_chunk(&q, &link10, &kv, start, took, (bt_link_rows){1, 1});
        const uint64_t end = start + took,
                       at = sim_wire_send(&out, &in, &link10, start + took / layers, end, layers, bytes);
        assert_int_equal(at, end + bt_link_exposed_ns(&q, end));
    }
}

/* A prompt's chunks: what follows is off by a message for each chunk before it at most. */
static void chunks_behind_each_other_are_off_by_a_message_each_at_most(void **state)
{
    (void)state;
    enum { LAYERS = 32, CHUNKS = 40 };
    for (uint64_t i = 0; i < 200; i++) {
        const uint64_t bytes = 1000 + bt_rng_u64(4, i) % 1000000, tx = bt_link_ns(&link10, bytes);
        sim_wire out = {0}, in = {0};
        bt_link_queue q = {0};
        uint64_t start = 0;
        for (uint32_t k = 0; k < CHUNKS; k++) {
            const uint64_t took = LAYERS * (bt_rng_u64(i, k) % 2000000 + 1);
            const bt_link_kv kv = {.layers = LAYERS, .layer_bytes = bytes};
            (void)bt_link_chunk(&q, &link10, &kv, start, took, (bt_link_rows){1, 1});
            const uint64_t at = sim_wire_send(&out, &in, &link10, start + took / LAYERS, start + took, LAYERS,
                                              bytes),
                           exact = q.free_ns;
            assert_in_range(at + (k + 1) * tx, exact, exact + 2 * (k + 1) * tx);
            start += took;
        }
    }
}

static void two_senders_share_the_receivers_link(void **state)
{
    (void)state;
    enum { LAYERS = 10, BYTES = 1000000 };
    const uint64_t tx = bt_link_ns(&link10, BYTES);
    sim_wire a = {0}, b = {0}, in = {0};
    const uint64_t first = sim_wire_send(&a, &in, &link10, 0, 0, LAYERS, BYTES),
                   second = sim_wire_send(&b, &in, &link10, 0, 0, LAYERS, BYTES);
    assert_int_equal(first, LAYERS * tx);
    assert_int_equal(second, 2 * LAYERS * tx);
    in.slow = 3;
    sim_wire c = {0};
    assert_int_equal(sim_wire_send(&c, &in, &link10, 0, 0, LAYERS, BYTES), 5 * LAYERS * tx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_arrives_when_its_layers_one_by_one_would),
        cmocka_unit_test(chunks_behind_each_other_are_off_by_a_message_each_at_most),
        cmocka_unit_test(two_senders_share_the_receivers_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
