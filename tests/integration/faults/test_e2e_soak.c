/* Many random requests at once, some of which leave at any moment, over a decode node whose KV memory is too
 * small for all of them: every answer that comes whole is the one that the request gets alone, and afterwards
 * nothing is held and memory has not grown.
 *
 * BATON_SOAK=N asks for N requests instead of the usual few, BATON_SOAK_MODEL for another model than the tiny
 * one, BATON_TEST_SEED for another seed. */
#include "base/rng.h"
#include "tests/helpers/cluster/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    KINDS = 24,
    IN_FLIGHT = 24,
    REQUESTS = 400,
    ANSWER_MS = 120000,
    LONG_TOKENS = 700,
    CANCEL_EVERY = 4,
    GROWTH_BYTES = 12 << 20
};

typedef struct kind {
    json_t *request;
    json_t *ids; /* of the answer to it alone */
} kind;

typedef struct flight {
    client *c;
    size_t kind;
    int64_t leaves_ms; /* the client goes then; 0: it stays */
} flight;

typedef struct storm {
    cluster sys;
    uint64_t seed, draws, sent, left, whole, again; /* again: answered by a second attempt or a later one */
    kind kinds[KINDS];
    flight flights[IN_FLIGHT];
} storm;

static uint64_t draw(storm *s, uint64_t below)
{
    return (uint64_t)(bt_rng_uniform(s->seed, s->draws++) * (double)below);
}

static json_t *random_request(storm *s)
{
    static const char *const words[] = {"the ", "end ", "of ",  "day ", "and ",
                                        "one ", "in ",  "his ", "was ", "her "};
    char prompt[1024] = "";
    const uint64_t count = 1 + draw(s, 120);
    for (uint64_t i = 0; i < count; i++) strcat(prompt, words[draw(s, sizeof words / sizeof *words)]);
    /* growth is counted for 256 */
    json_t *r = cluster_request(prompt, 1 + (int)draw(s, draw(s, 3) ? 96 : LONG_TOKENS));
    if (draw(s, 2)) {
        json_object_set_new(r, "temperature", json_real(0.9));
        json_object_set_new(r, "seed", json_integer((json_int_t)draw(s, 1 << 20)));
    }
    return r;
}

static json_t *ids_of(client *c) { return json_object_get(client_baton(c), "token_ids"); }

/* The answer to each kind of request when nobody else is there. A random model may end at once: such a
 * request is drawn again. */
static void ask_alone(storm *s)
{
    for (size_t i = 0; i < KINDS;) {
        kind *k = &s->kinds[i];
        k->request = random_request(s);
        client *c = client_post(s->sys.url, "/v1/completions", k->request);
        if (!client_wait(c, spawn_patience(ANSWER_MS)) || client_status(c) != 200)
            fail_msg("alone: %s", client_body(c));
        k->ids = json_deep_copy(ids_of(c));
        client_end(c);
        if (json_array_size(k->ids) > 2) {
            i++;
            continue;
        }
        json_decref(k->request);
        json_decref(k->ids);
        if (s->draws > 1000000) fail_msg("the model answers nothing");
    }
}

static void begin(storm *s, flight *f)
{
    f->kind = draw(s, KINDS);
    json_t *r = json_deep_copy(s->kinds[f->kind].request);
    const bool leaves = draw(s, CANCEL_EVERY) == 0;
    if (leaves || draw(s, 2)) json_object_set_new(r, "stream", json_true());
    f->c = client_post(s->sys.url, "/v1/completions", r);
    f->leaves_ms = leaves ? spawn_now_ms() + (int64_t)draw(s, 400) : 0;
    json_decref(r);
    s->sent++;
}

static void end(storm *s, flight *f)
{
    if (client_is_over(f->c)) {
        if (client_status(f->c) != 200 || !json_equal(ids_of(f->c), s->kinds[f->kind].ids)) {
            char *want = json_dumps(s->kinds[f->kind].ids, JSON_COMPACT);
            fail_msg("seed %llu, request %llu of kind %zu: status %ld: %s\nalone: %s",
                     (unsigned long long)s->seed, (unsigned long long)s->sent, f->kind, client_status(f->c),
                     client_body(f->c), want);
        }
        s->whole++;
        s->again += json_integer_value(json_object_get(client_baton(f->c), "attempts")) > 1;
    } else {
        s->left++;
    }
    client_end(f->c);
    f->c = NULL;
}

static json_int_t rss_of_nodes(const storm *s)
{
    json_t *status = cluster_status(s->sys.url), *node;
    json_int_t sum = 0;
    size_t i;
    json_array_foreach(json_object_get(status, "nodes"), i, node)
        sum += json_integer_value(json_object_get(node, "rss_bytes"));
    json_decref(status);
    return sum;
}

static void blow(storm *s, uint64_t requests)
{
    for (bool busy = true; busy;) {
        busy = false;
        for (size_t i = 0; i < IN_FLIGHT; i++) {
            flight *f = &s->flights[i];
            if (f->c && (client_is_over(f->c) || (f->leaves_ms && spawn_now_ms() >= f->leaves_ms))) end(s, f);
            if (!f->c && s->sent < requests) begin(s, f);
            if (f->c && client_ms(f->c) > spawn_patience(ANSWER_MS))
                fail_msg("no end after %lld ms", (long long)client_ms(f->c));
            busy = busy || f->c;
        }
        client_step();
    }
    assert_true(cluster_wait_idle(s->sys.url, spawn_patience(20000)));
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

/* more: options of `baton up` beside the small memory. */
static void weather(const char *const *more)
{
    const uint64_t requests = number_of("BATON_SOAK", spawn_is_sanitized() ? REQUESTS / 4 : REQUESTS);
    const char *model = getenv("BATON_SOAK_MODEL");
    storm s = {.seed = number_of("BATON_TEST_SEED", 5)};
    printf("seed %llu, %llu requests\n", (unsigned long long)s.seed, (unsigned long long)requests);
    assert_true(cluster_start(&s.sys, model ? model : spawn_tiny_model(1), more));
    ask_alone(&s);
    blow(&s, requests / 5); /* buffers have their size now */
    const json_int_t before = rss_of_nodes(&s);
    blow(&s, requests);
    const json_int_t after = rss_of_nodes(&s);
    printf("%llu requests: %llu answered whole, %llu of them not by their first attempt, %llu left; rss of "
           "all nodes %lld bytes after a fifth, "
           "%lld at the end\n",
           (unsigned long long)s.sent, (unsigned long long)s.whole, (unsigned long long)s.again,
           (unsigned long long)s.left, (long long)before, (long long)after);
    assert_true(s.whole > 0 && s.left > 0);
    if (!spawn_is_sanitized()) assert_true(after <= before + GROWTH_BYTES);
    for (size_t i = 0; i < KINDS; i++) {
        json_decref(s.kinds[i].request);
        json_decref(s.kinds[i].ids);
    }
    assert_true(cluster_stop(&s.sys));
}

/* The recovery deadline is no part of this: on a busy machine, under a sanitizer, a node may be away from
 * its sockets for seconds. */
#define WEATHER(...) \
    weather((const char *const[]){"--threads", "1", "--ctx-size", "1024", "--kv-memory", "1M", \
                                  "--recovery-timeout", "200s", __VA_ARGS__, NULL})

static void random_requests_and_leaving_clients_change_nothing_and_leave_nothing(void **state)
{
    (void)state;
    WEATHER("--swap-memory", "16M");
}

static void nor_do_they_where_what_is_preempted_begins_anew(void **state)
{
    (void)state;
    WEATHER("--swap-memory", "0");
}

static void nor_where_one_node_does_both(void **state)
{
    (void)state;
    WEATHER("--swap-memory", "64K", "--prefill", "0", "--weights", "int8", "--kv-dtype", "int8",
            "--speculate", "4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(random_requests_and_leaving_clients_change_nothing_and_leave_nothing,
                                  spawn_teardown),
        cmocka_unit_test_teardown(nor_do_they_where_what_is_preempted_begins_anew, spawn_teardown),
        cmocka_unit_test_teardown(nor_where_one_node_does_both, spawn_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
