/* Plans played on simulated clusters: everybody ends once, the same again gives the same report, too much is
 * said to be too much. */
#include "lab/simulate/play.h"
#include "tests/helpers/brain/sim_kit.h"
#include "lab/simulate/show.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sim_played *play(const char *prefill, const char *decode, const char *spec, size_t n,
                        void (*change)(tool_simulate_setup *))
{
    sim_played *d = calloc(1, sizeof *d);
    assert_non_null(d);
    sim_kit_setup(&d->setup, prefill, decode);
    if (change) change(&d->setup);
    sim_kit_play(d, spec, n);
    assert_int_equal(d->result.len, d->plan.len); /* each ended once */
    return d;
}

static json_t *json_of(const sim_played *d, bool is_of_replay)
{
    const tool_replay_dialect dialect = {.takes_ids = true, .ignores_eos = true, .context_tokens = 8192};
    const tool_replay_outcome o = {.trace = "t",        .url = "simulated",   .plan = &d->plan,
                                   .dialect = &dialect, .result = &d->result, .figures = &d->figures,
                                   .speed = 1};
    const tool_simulate_draws none = {.draws = 0};
    const tool_simulate_told t = {&o, &d->facts, &d->setup, &none, "p", "d", "100", 1};
    json_t *j = is_of_replay ? tool_replay_json(&o) : tool_simulate_json(&t);
    assert_non_null(j);
    return j;
}

static void the_report_has_every_key_of_a_replay_and_its_own(void **state)
{
    (void)state;
    static const char *const own[] = {
        "virtual_seconds",        "wall_seconds", "events", "joules", "joules_per_request",
        "joules_per_1000_tokens", "overloaded",   "error",  "draws"};
    sim_played *d = play("1", "1", "in:300,out:20,rate:5", 20, NULL);
    json_t *replay = json_of(d, true), *simulated = json_of(d, false), *value;
    const char *key;
    json_object_foreach(replay, key, value) assert_non_null(json_object_get(simulated, key));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) assert_non_null(json_object_get(simulated, own[i]));
    assert_true(json_is_real(json_object_get(simulated, "joules")));
    assert_true(json_is_null(json_object_get(simulated, "no_joules")));
    json_decref(replay);
    json_decref(simulated);
    sim_played_done(d);
}

static void a_device_without_a_source_has_no_joules(void **state)
{
    (void)state;
    sim_played *d = play("1:hexagon-v75", "1:adreno-750", "in:200,out:8,rate:0.05", 4, NULL);
    json_t *j = json_of(d, false);
    assert_true(json_is_null(json_object_get(j, "joules")));
    assert_non_null(strstr(json_string_value(json_object_get(j, "no_joules")), "no source"));
    json_decref(j);
    sim_played_done(d);
    /* a vendor's limit says nothing of a node that waits */
    d = play("1:h100", "1:a100", "in:200,out:8,rate:0.05", 4, NULL);
    j = json_of(d, false);
    assert_true(json_is_null(json_object_get(j, "joules_per_request")));
    assert_string_equal(json_string_value(json_object_get(j, "no_joules")),
                        "a100 has no power but its vendor's limit");
    json_decref(j);
    sim_played_done(d);
}

static void at_twice(tool_simulate_setup *s) { s->pace.milli = 2000; }

/* Alone in the cluster a request takes twice as long, but for the gateway's own time. */
static void a_pace_of_two_doubles_every_time_of_the_devices(void **state)
{
    (void)state;
    sim_played *one = play("1:hexagon-v75", "1:adreno-750", "in:300,out:20,rate:0.01", 4, NULL),
               *two = play("1:hexagon-v75", "1:adreno-750", "in:300,out:20,rate:0.01", 4, at_twice);
    for (size_t i = 0; i < one->result.len; i++) {
        const tool_replay_record *a = &one->result.record[i], *b = &two->result.record[i];
        const int64_t first = a->first_us - a->sent_us, rest = a->last_us - a->first_us;
        assert_in_range(b->first_us - b->sent_us, 2 * first - 2000, 2 * first + 10);
        assert_in_range(b->last_us - b->first_us, 2 * rest - 2000, 2 * rest + 2000);
    }
    json_t *j = json_of(two, false);
    assert_true(json_real_value(json_object_get(j, "time_scale")) == 2);
    json_decref(j);
    sim_played_done(one);
    sim_played_done(two);
}

/* The same work draws the same; this device draws nothing known while it waits. */
static void a_pace_changes_no_joule_of_the_work(void **state)
{
    (void)state;
    sim_played *one = play("1:m2-ultra-gpu", "1:m2-ultra-gpu", "in:300,out:20,rate:0.01", 4, NULL),
               *two = play("1:m2-ultra-gpu", "1:m2-ultra-gpu", "in:300,out:20,rate:0.01", 4, at_twice);
    assert_true(one->facts.joules > 0);
    assert_true(two->facts.joules > 0.99 * one->facts.joules && two->facts.joules < 1.01 * one->facts.joules);
    sim_played_done(one);
    sim_played_done(two);
}

static void with_faults(tool_simulate_setup *s)
{
    bt_fault fault = {""};
    assert_int_equal(tool_simulate_faults_read(
                         &s->faults,
                         "kill decode 1 at 2s for 5s; slow link 0 10x for 3s; stop prefill 1 at 4s for 2s",
                         &fault),
                     BT_OK);
}

static void the_same_again_gives_the_same_report(void **state)
{
    (void)state;
    char *text[2];
    for (int i = 0; i < 2; i++) {
        sim_played *d = play("2:h100,1:hexagon-v75", "1:h100,1:m2-ultra",
                             "in:40~1,out:30~1,rate:20,shared:100", 200, with_faults);
        json_t *j = json_of(d, false);
        assert_int_equal(d->figures.failed, 0);
        assert_non_null(text[i] = json_dumps(j, JSON_INDENT(1)));
        json_decref(j);
        sim_played_done(d);
    }
    assert_string_equal(text[0], text[1]);
    free(text[0]);
    free(text[1]);
}

/* Over time they are shown by kind; each is told of by itself, with the prompts that it computed. */
static void a_hundred_nodes_are_all_told_of(void **state)
{
    (void)state;
    sim_played *d = play("60,10:a100", "40", "in:300,out:5,rate:100", 300, NULL);
    json_t *j = json_of(d, false), *nodes = json_object_get(j, "nodes");
    size_t prompts = 0, i;
    json_t *n;
    assert_int_equal(json_array_size(nodes), 110);
    json_array_foreach(nodes, i, n) {
        const size_t its = (size_t)json_integer_value(json_object_get(n, "prompts"));
        const bool is_prefill = strcmp(json_string_value(json_object_get(n, "role")), "prefill") == 0;
        assert_int_equal(is_prefill, i < 70);
        assert_true(is_prefill ? its > 0 : its == 0);
        assert_int_equal(json_integer_value(json_object_get(n, "slots_total")), is_prefill ? 4 : 32);
        prompts += its;
    }
    assert_int_equal(prompts, 300);
    assert_int_equal(d->result.tracks, 3);
    assert_string_equal(d->result.track[1].name, "prefill a100");
    assert_int_equal(d->result.track[1].nodes, 10);
    assert_int_equal(d->result.track[1].slots, 40);
    json_decref(j);
    sim_played_done(d);
}

static void colocated(tool_simulate_setup *s) { s->is_colocated = true; }
static void eight_at_a_time(tool_simulate_setup *s) { s->concurrency = 8; }

static void a_colocated_cluster_has_all_nodes_of_both_sides(void **state)
{
    (void)state;
    sim_played *d = play("1:h100", "2:h100", "in:500,out:20,rate:20", 100, colocated);
    assert_int_equal(d->facts.prefill_nodes, 0);
    assert_int_equal(d->facts.decode_nodes, 3);
    assert_int_equal(d->figures.completed, 100);
    assert_int_equal(d->figures.exposed_ms.n, 100); /* nothing crosses a link */
    assert_true(d->figures.exposed_ms.max == 0);
    sim_played_done(d);
}

/* 1,000 tokens that all begin with are fifteen whole pages of 64. */
static void shared_prefixes_are_found(void **state)
{
    (void)state;
    sim_played *d = play("1", "1", "in:1500,out:4,rate:2,shared:1000", 20, NULL);
    assert_int_equal(d->figures.cached_tokens, 19 * 960);
    sim_played_done(d);
}

static void without_prefill_nodes_decode_nodes_compute_the_prompts(void **state)
{
    (void)state;
    static const char *const none[] = {"0", "0:h100"};
    for (size_t i = 0; i < 2; i++) {
        sim_played *d = play(none[i], "2", "in:500,out:20,rate:20", 50, NULL);
        assert_int_equal(d->facts.prefill_nodes, 0);
        assert_int_equal(d->figures.completed, 50);
        sim_played_done(d);
    }
}

static void so_many_at_a_time_are_never_more(void **state)
{
    (void)state;
    sim_played *d = play("1", "1", "in:200,out:20", 50, eight_at_a_time);
    assert_int_equal(d->figures.completed, 50);
    assert_in_range(d->result.most_streams, 1, 8);
    sim_played_done(d);
}

static void two_connections(tool_simulate_setup *s) { s->connections = 2; }
static void two_connections_for_eight(tool_simulate_setup *s)
{
    s->connections = 2;
    s->concurrency = 8;
}

/* At once, and no node hears of it. */
static void a_gateway_without_a_connection_left_fails_a_request(void **state)
{
    (void)state;
    sim_played *d = play("1", "1", "in:300,out:300,rate:100", 60, two_connections),
               *closed = play("1", "1", "in:200,out:20", 50, two_connections_for_eight);
    size_t refused = 0;
    for (size_t i = 0; i < d->result.len; i++) {
        const tool_replay_record *a = &d->result.record[i];
        size_t at_once = 0;
        for (size_t k = 0; k < d->result.len; k++) {
            const tool_replay_record *b = &d->result.record[k];
            at_once += b->kind == TOOL_REPLAY_OK && b->sent_us <= a->sent_us && b->end_us > a->sent_us;
        }
        assert_in_range(at_once, 1, 2);
        if (a->kind == TOOL_REPLAY_OK) continue;
        refused++;
        assert_int_equal(at_once, 2);
        assert_true(a->end_us == a->sent_us && a->first_us < 0);
        assert_string_equal(d->result.kind[a->kind], "overloaded");
    }
    assert_int_equal(d->result.len, 60);
    assert_in_range(refused, 20, 58);
    assert_true(d->facts.is_overloaded);
    assert_int_equal(closed->result.len, 50);
    assert_in_range(closed->figures.completed, 2, 49);
    assert_in_range(closed->result.most_streams, 0, 2);
    sim_played_done(d);
    sim_played_done(closed);
}

static void eight_streams(tool_simulate_setup *s) { s->streams = 8; }

/* The ninth waits for one of them in the client, and that counts as its latency. */
static void so_many_streams_are_never_more_and_waiting_for_one_counts(void **state)
{
    (void)state;
    sim_played *d = play("1", "1", "in:300,out:300,rate:100", 60, eight_streams),
               *free_ones = play("1", "1", "in:300,out:300,rate:100", 60, NULL);
    size_t late = 0;
    assert_in_range(d->result.most_streams, 2, 8);
    assert_true(free_ones->result.most_streams > 12 && d->figures.is_bottleneck);
    assert_false(free_ones->figures.is_bottleneck);
    for (size_t i = 0; i < d->result.len; i++) {
        const tool_replay_record *a = &d->result.record[i];
        size_t at_once = 0;
        for (size_t k = 0; k < d->result.len; k++)
            at_once += d->result.record[k].sent_us <= a->sent_us && a->sent_us < d->result.record[k].end_us;
        assert_in_range(at_once, 1, 8);
        assert_int_equal(a->due_us, d->plan.item[a->item].due_us);
        late += a->sent_us > a->due_us;
    }
    assert_true(late > 20 && d->figures.ttft_ms.p50 > 2 * free_ones->figures.ttft_ms.p50);
    sim_played_done(d);
    sim_played_done(free_ones);
}

static void a_load_that_nodes_cannot_carry_is_said_to_be_one(void **state)
{
    (void)state;
    sim_played *light = play("1", "1", "in:500,out:100,rate:2", 60, NULL),
               *refused = play("1", "1", "in:4000,out:400,rate:500", 800, NULL);
    assert_false(light->facts.is_overloaded);
    assert_true(refused->facts.is_overloaded);
    assert_true(refused->figures.failed > 8);
    assert_non_null(strstr(refused->facts.overload, "found no room"));
    sim_played_done(light);
    sim_played_done(refused);
}

static void long_queue(tool_simulate_setup *s) { s->cluster.gw.queue_max = 10000; }

static void waits_that_grow_to_the_end_are_an_overload_too(void **state)
{
    (void)state;
    sim_played *d = play("1", "1", "in:4000,out:400,rate:40", 600, long_queue);
    assert_int_equal(d->figures.failed, 0);
    assert_true(d->facts.is_overloaded);
    assert_non_null(strstr(d->facts.overload, "longer and longer"));
    sim_played_done(d);
}

/* Near its limit: the queue is longest in the middle. Half the load is none. */
static void nodes_that_never_rest_while_requests_wait_are_an_overload(void **state)
{
    (void)state;
    sim_played *full = play("1:ane-m2-ultra", "1:m2-ultra-gpu", "in:2048,out:64,rate:4", 150, long_queue),
               *half = play("1:ane-m2-ultra", "1:m2-ultra-gpu", "in:2048,out:64,rate:1", 150, long_queue);
    assert_true(full->facts.is_overloaded && full->facts.prefill_busy > 0.97);
    assert_non_null(strstr(full->facts.overload, "prefill nodes work"));
    assert_false(half->facts.is_overloaded);
    sim_played_done(full);
    sim_played_done(half);
}

/* Both sides work nearly all the time; only one of them has no slot left. */
static void an_overload_names_the_side_that_is_short(void **state)
{
    (void)state;
    sim_played *prompts = play("1:a100", "2:a100", "in:6000,out:100,rate:20", 200, long_queue),
               *answers = play("4:a100", "1:a100", "in:100,out:3000,rate:40", 200, long_queue);
    assert_true(prompts->facts.is_overloaded && answers->facts.is_overloaded);
    assert_true(prompts->facts.decode_busy > 0.9);
    assert_non_null(strstr(prompts->facts.overload, "prefill nodes work"));
    assert_non_null(strstr(answers->facts.overload, "decode nodes work"));
    sim_played_done(prompts);
    sim_played_done(answers);
}

static void two_seconds(tool_simulate_setup *s) { s->cluster.timeout_ns = INT64_C(2000000000); }

/* A request that runs out of time has its own node tell what it made, and no other: 40 nodes at work cost no
 * more events than what becomes of each request. */
static void a_timeout_is_the_affair_of_one_node(void **state)
{
    (void)state;
    enum { REQUESTS = 1000, EVENTS_EACH = 300 };
    sim_played *d = play("20", "40", "in:200,out:4000,rate:250", REQUESTS, two_seconds);
    assert_true(d->figures.failed > REQUESTS * 9 / 10);
    if (d->facts.events > (uint64_t)REQUESTS * EVENTS_EACH)
        fail_msg("%" PRIu64 " events of %d requests", d->facts.events, REQUESTS);
    sim_played_done(d);
}

static void a_context_that_memory_does_not_hold_is_refused_with_one_that_it_does(void **state)
{
    (void)state;
    tool_simulate_setup s;
    tool_simulate_bench *b = NULL;
    bt_fault fault = {""};
    sim_kit_setup(&s, "1", "1");
    s.kv_memory_bytes = 64 << 20;
    assert_int_equal(tool_simulate_bench_new(&b, &s, &fault), BT_ELIMIT);
    assert_non_null(strstr(fault.text, "-c 2048 at most"));
    s.ctx_tokens = 2048;
    assert_int_equal(tool_simulate_bench_new(&b, &s, &fault), BT_OK);
    tool_simulate_bench_free(b);
}

static void a_context_of_zero_is_the_models_or_what_the_smallest_memory_holds(void **state)
{
    (void)state;
    tool_simulate_setup s;
    bt_fault fault = {""};
    sim_kit_setup(&s, "1", "1");
    s.kv_memory_bytes = 64 << 20;
    s.ctx_tokens = 0;
    assert_int_equal(tool_simulate_set_context(&s, 4096, &fault), BT_OK);
    assert_int_equal(s.ctx_tokens, 2048);
    assert_int_equal(tool_simulate_set_context(&s, 1000, &fault), BT_OK);
    assert_int_equal(s.ctx_tokens, 1000);
    s.kv_memory_bytes = 0; /* of the device */
    assert_int_equal(tool_simulate_set_context(&s, 0, &fault), BT_OK);
    assert_int_equal(s.ctx_tokens, 131072);
    s.kv_memory_bytes = 1;
    assert_int_equal(tool_simulate_set_context(&s, 0, &fault), BT_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_report_has_every_key_of_a_replay_and_its_own),
        cmocka_unit_test(a_device_without_a_source_has_no_joules),
        cmocka_unit_test(a_pace_of_two_doubles_every_time_of_the_devices),
        cmocka_unit_test(a_pace_changes_no_joule_of_the_work),
        cmocka_unit_test(the_same_again_gives_the_same_report),
        cmocka_unit_test(a_hundred_nodes_are_all_told_of),
        cmocka_unit_test(a_colocated_cluster_has_all_nodes_of_both_sides),
        cmocka_unit_test(shared_prefixes_are_found),
        cmocka_unit_test(without_prefill_nodes_decode_nodes_compute_the_prompts),
        cmocka_unit_test(so_many_at_a_time_are_never_more),
        cmocka_unit_test(a_gateway_without_a_connection_left_fails_a_request),
        cmocka_unit_test(so_many_streams_are_never_more_and_waiting_for_one_counts),
        cmocka_unit_test(a_load_that_nodes_cannot_carry_is_said_to_be_one),
        cmocka_unit_test(waits_that_grow_to_the_end_are_an_overload_too),
        cmocka_unit_test(nodes_that_never_rest_while_requests_wait_are_an_overload),
        cmocka_unit_test(an_overload_names_the_side_that_is_short),
        cmocka_unit_test(a_timeout_is_the_affair_of_one_node),
        cmocka_unit_test(a_context_that_memory_does_not_hold_is_refused_with_one_that_it_does),
        cmocka_unit_test(a_context_of_zero_is_the_models_or_what_the_smallest_memory_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
