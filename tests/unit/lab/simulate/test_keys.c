/* Keys in a simulated cluster: one that floods, one that asks now and then, and two that both flood. */
#include "lab/replay/keys.h"
#include "tests/helpers/brain/sim_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STREAMS = 200, TURNS = 6, ASKS = 10, PROMPT = 400, ANSWER = 150, FLOOD = 1, ONE = 2 };
static const tool_replay_plan_options how = {.context_tokens = SIM_KIT_CTX, .speed = 1};

static void add(tool_replay_plan *p, uint32_t key, int64_t due_us, bool goes_on, uint32_t prompt,
                uint32_t answer)
{
    const tool_replay_item one = {.due_us = due_us,
                                  .prompt_tokens = prompt,
                                  .output_tokens = answer,
                                  .key = key,
                                  .next = goes_on ? (uint32_t)p->len + 1 : TOOL_REPLAY_NONE,
                                  .sampling = TOOL_REPLAY_NONE,
                                  .stream = p->len};
    assert_int_equal(tool_replay_plan_add_item(p, &one, NULL), BT_OK);
}

/* 200 streams of one client, each of which asks again as soon as it has its answer, and one stream of
 * another. */
static void flood(tool_replay_plan *p)
{
    uint32_t at;
    assert_int_equal(tool_replay_plan_begin(p, NULL), BT_OK);
    assert_int_equal(tool_replay_keys_find(&at, p, "flood", NULL), BT_OK);
    assert_int_equal(tool_replay_keys_find(&at, p, "one", NULL), BT_OK);
    for (int s = 0; s < STREAMS; s++)
        for (int t = 0; t < TURNS; t++) add(p, FLOOD, t ? -1 : s * 1000, t + 1 < TURNS, PROMPT, ANSWER);
    for (int t = 0; t < ASKS; t++) add(p, ONE, t ? -1 : 1000000, t + 1 < ASKS, PROMPT, ANSWER);
    assert_int_equal(tool_replay_plan_end(p, &how, NULL), BT_OK);
}

static void play(tool_replay_result *r, const tool_replay_plan *p, uint32_t queue_max)
{
    tool_simulate_setup s;
    tool_simulate_facts facts;
    tool_simulate_bench *b = NULL;
    bt_fault why = {""};
    sim_kit_setup(&s, "1", "1");
    s.cluster.gw.queue_max = queue_max;
    s.cluster.decode_slots = 32;
    assert_int_equal(tool_replay_result_begin(r, p->len, &why), BT_OK);
    if (tool_simulate_bench_new(&b, &s, &why) < 0) fail_msg("%s", why.text);
    if (tool_simulate_play(&facts, r, b, p, NULL, NULL, &why) < 0) fail_msg("%s", why.text);
    tool_simulate_bench_free(b);
}

/* The worst time to a first token of the one stream; *ret_failed: how many of its requests were refused. */
static int64_t worst_us(const tool_replay_result *r, const tool_replay_plan *p, uint32_t *ret_failed)
{
    int64_t worst = 0;
    *ret_failed = 0;
    for (size_t i = 0; i < r->len; i++) {
        const tool_replay_record *o = &r->record[i];
        if (p->item[o->item].key != ONE && o->item < STREAMS * TURNS) continue;
        *ret_failed += o->kind != TOOL_REPLAY_OK;
        if (o->kind == TOOL_REPLAY_OK && tool_replay_ttft_us(o) > worst) worst = tool_replay_ttft_us(o);
    }
    return worst;
}

static void one_stream_beside_two_hundred_of_another_key_is_served_at_once(void **state)
{
    (void)state;
    static tool_replay_plan p;
    static tool_replay_result r;
    int64_t worst[2];
    uint32_t failed[2];
    for (int has_keys = 0; has_keys < 2; has_keys++) {
        flood(&p);
        for (size_t i = 0; i < p.len && !has_keys; i++) p.item[i].key = 0;
        play(&r, &p, 256);
        worst[has_keys] = worst_us(&r, &p, &failed[has_keys]);
        tool_replay_result_done(&r);
        tool_replay_plan_done(&p);
    }
    printf("TTFT at worst %.0f ms without keys, %.0f ms with keys\n", (double)worst[0] / 1e3,
           (double)worst[1] / 1e3);
    assert_true(failed[0] == 0 && failed[1] == 0);
    assert_true(worst[1] * 5 < worst[0]);
}

static void a_full_room_has_a_place_for_the_key_that_has_none(void **state)
{
    (void)state;
    static tool_replay_plan p;
    static tool_replay_result r;
    uint32_t failed;
    flood(&p);
    play(&r, &p, 16);
    (void)worst_us(&r, &p, &failed);
    assert_int_equal(failed, 0);
    assert_true(r.kind_count[1] > 100); /* those of the flood */
    tool_replay_result_done(&r);
    tool_replay_plan_done(&p);
}

static void two_keys_of_weights_one_and_three_that_flood_get_tokens_so(void **state)
{
    (void)state;
    static tool_replay_plan p;
    static tool_replay_result r;
    uint32_t at;
    uint64_t tokens[3] = {0};
    assert_int_equal(tool_replay_plan_begin(&p, NULL), BT_OK);
    assert_int_equal(tool_replay_keys_find(&at, &p, "a", NULL), BT_OK);
    assert_int_equal(tool_replay_keys_find(&at, &p, "b", NULL), BT_OK);
    p.key[1].weight = 3;
    for (int i = 0; i < 1200; i++)
        add(&p, 1 + (uint32_t)i % 2, i, false, i % 2 ? 300 : 600, i % 2 ? 200 : 100);
    assert_int_equal(tool_replay_plan_end(&p, &how, NULL), BT_OK);
    play(&r, &p, 2048);
    for (size_t i = 0; i < r.len; i++) { /* while both wait: b, whose requests end first, has 600 */
        const tool_replay_record *o = &r.record[i];
        if (o->end_us > r.end_us / 2) continue;
        tokens[p.item[o->item].key] += o->prompt_tokens + o->completion_tokens;
    }
    const double ratio = (double)tokens[2] / (double)tokens[1];
    printf("tokens %llu and %llu: 1 to %.2f\n", (unsigned long long)tokens[1], (unsigned long long)tokens[2],
           ratio);
    assert_true(ratio > 2.7 && ratio < 3.3);
    tool_replay_result_done(&r);
    tool_replay_plan_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stream_beside_two_hundred_of_another_key_is_served_at_once),
        cmocka_unit_test(a_full_room_has_a_place_for_the_key_that_has_none),
        cmocka_unit_test(two_keys_of_weights_one_and_three_that_flood_get_tokens_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
