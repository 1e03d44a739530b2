/* Nodes at the pace of devices under the schedules fifo and ooo, with real processes: several streams at
 * once, a prefill node that is killed in the middle of a prompt and a decode node in the middle of answers.
 * Answers are those of nodes that nobody disturbed and nothing slowed; their device figures are what `baton
 * timeline` plays; rows cross the wire layer by layer, none before its time; and a node that was held up says
 * how late it was. */
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/proxy.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { K = 5, TOKENS = 160, STREAMS = 3, LATE_MS = 200, ENDS_MS = 60000, SAMPLES = 4096, SPANS = 256 };
/* Prompts: by itself, several at once, .. */
enum {
    ALONE,
    TOGETHER,
    HELD = TOGETHER + STREAMS,
    LOST_PREFILL,
    BESIDE,
    LOST_DECODE,
    PROMPTS = LOST_DECODE + 2
};
#define LINK_GBITS "0.01"
enum { BITS_PER_US = 10 };
static const char profile[] = "hexagon-v75", decode_profile[] = "hexagon-v75-powerserve",
                  policy[] = "chunk:32+tail";

typedef struct place {
    const char *schedule;
    proxy p;
    spawn *gateway, *prefill[2], *decode[2];
    char url[CLUSTER_ADDRESS_BYTES], control[CLUSTER_ADDRESS_BYTES];
} place;

/* The devices' times for one of the prompts; all are equally long. */
typedef struct model {
    double ttft_ms;
    size_t messages;
    struct {
        double end_ms, bytes;
    } message[SPANS]; /* KV on the link, in its order */
} model;

static json_t *undisturbed[PROMPTS];

static double number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v)) fail_msg("%s is no number", key);
    return json_number_value(v);
}

/* ---- processes ------------------------------------------------------------------------------------ */

static void start_prefill(place *p, int i)
{
    const char *id = i ? "p1" : "p0";
    p->prefill[i] = SPAWN("baton-prefill", "-m", spawn_tiny_model(1), "--id", id, "--threads", "1",
                          "--gateway", p->control, "--profile", profile, "--shape-policy", policy, "--link",
                          LINK_GBITS, "--schedule", p->schedule, "--pace", p->p.child ? "device:5" : "off");
    assert_true(cluster_wait_node(p->url, id, "ready", 0, spawn_patience(ENDS_MS)));
}

/* Prefill nodes find it behind the proxy, where there is one. */
static void start_decode(place *p, int i)
{
    const char *id = i ? "d1" : "d0";
    char listen[64], advertise[64];
    const unsigned port = cluster_free_port();
    snprintf(listen, sizeof listen, "tcp://127.0.0.1:%u", port);
    snprintf(advertise, sizeof advertise, "tcp://%s",
             p->p.child ? proxy_at(&p->p, id) : listen + strlen("tcp://"));
    if (p->p.child) proxy_order(&p->p, "target %s 127.0.0.1:%u", id, port);
    p->decode[i] = SPAWN("baton-decode", "-m", spawn_tiny_model(1), "--id", id, "--threads", "1", "--gateway",
                         p->control, "--listen", listen, "--advertise", advertise, "--decode-profile",
                         decode_profile, "--pace", p->p.child ? "device:5" : "off");
    assert_true(cluster_wait_node(p->url, id, "ready", 0, spawn_patience(ENDS_MS)));
}

static void start(place *p, const char *schedule, bool is_paced, int nodes)
{
    *p = (place){.schedule = schedule};
    p->gateway =
        SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control", "tcp://127.0.0.1:*");
    assert_true(cluster_find_gateway(p->url, p->control, p->gateway, spawn_patience(ENDS_MS)));
    if (is_paced) p->p = proxy_start((const char *const[]){"--route", "d0", "--route", "d1", NULL});
    for (int i = 0; i < nodes; i++) start_decode(p, i);
    for (int i = 0; i < nodes; i++) start_prefill(p, i);
}

static void kill_one(spawn **s)
{
    spawn_signal(*s, SIGKILL);
    assert_int_equal(spawn_wait(*s, spawn_patience(5000)), 128 + SIGKILL);
    *s = NULL;
}

static void end(place *p)
{
    assert_true(cluster_wait_idle(p->url, spawn_patience(ENDS_MS)));
    for (int i = 0; i < 2; i++) {
        if (p->decode[i]) assert_true(cluster_end(p->decode[i], spawn_patience(30000)));
        if (p->prefill[i]) assert_true(cluster_end(p->prefill[i], spawn_patience(30000)));
    }
    assert_true(cluster_end(p->gateway, spawn_patience(30000)));
    if (p->p.child) assert_true(proxy_stop(&p->p));
}

/* ---- requests ------------------------------------------------------------------------------------- */

/* A stream of prompt i, which begins like no other one; NULL: any node. */
static client *ask(const place *p, int i, const char *prefill, const char *decode)
{
    char text[512];
    size_t n = (size_t)snprintf(text, sizeof text, "%d", i);
    for (int k = 0; k < 150; k++) n += (size_t)snprintf(text + n, sizeof text - n, " %c", 'a' + k * k % 26);
    json_t *r = cluster_request(text, TOKENS), *wish = json_object();
    if (prefill) json_object_set_new(wish, "prefill", json_string(prefill));
    if (decode) json_object_set_new(wish, "decode", json_string(decode));
    json_object_set_new(r, "baton", wish);
    json_object_set_new(r, "stream", json_true());
    json_object_set_new(r, "ignore_eos", json_true());
    client *c = client_post(p->url, "/v1/completions", r);
    json_decref(r);
    return c;
}

/* To its end; prompt i's answer. The result lives as long as c. */
static const json_t *whole(client *c, int i)
{
    if (!client_wait(c, spawn_patience(ENDS_MS)) || !client_is_done(c) || client_error(c))
        fail_msg("prompt %d: %s", i, client_body(c));
    const json_t *baton = client_baton(c);
    static const char *const same[] = {"token_ids", "kv_digest", "prompt_tokens"};
    for (size_t k = 0; undisturbed[i] && k < sizeof same / sizeof *same; k++)
        if (!json_equal(json_object_get(baton, same[k]), json_object_get(undisturbed[i], same[k])))
            fail_msg("prompt %d: another %s: %s", i, same[k], json_dumps(baton, 0));
    return baton;
}

/* Its device figures are those of the schedule, and nothing came before its time. */
static const json_t *check(const place *p, const model *m, const json_t *baton, int attempts)
{
    const json_t *d = json_object_get(baton, "device");
    assert_string_equal(json_string_value(json_object_get(d, "schedule")), p->schedule);
    assert_float_equal(number(d, "ttft_ms"), m->ttft_ms, 1e-5);
    assert_int_equal(json_integer_value(json_object_get(baton, "attempts")), attempts);
    assert_float_equal(number(d, "pace"), K, 0);
    assert_true(number(baton, "ttft_ms") >= K * m->ttft_ms);
    const json_t *host = json_object_get(d, "host");
    /* From the first token's time to the last's: a first one that went late is nearer to the others. */
    assert_true(number(host, "decode_ms") >=
                K * (number(d, "decode_ms") - number(d, "tpot_ms")) - number(d, "late_ms"));
    assert_float_equal(number(d, "paced_ms"), K * (number(d, "prefill_ms") + number(d, "decode_ms")), 1);
    assert_int_equal(json_is_true(json_object_get(d, "is_late")),
                     number(d, "late_ms") > 0.01 * number(d, "paced_ms"));
    return d;
}

/* ---- what the devices would do -------------------------------------------------------------------- */

static void learn(model *m, const char *schedule)
{
    char tokens[32];
    const char *path = spawn_path("modelled.json");
    snprintf(tokens, sizeof tokens, "%d", (int)number(undisturbed[ALONE], "prompt_tokens"));
    json_t *told =
        spawn_json(SPAWN("baton", "timeline", "-m", spawn_tiny_model(1), "--profile", profile,
                         "--decode-profile", decode_profile, "--shape-policy", policy, "--link", LINK_GBITS,
                         "--schedule", schedule, "-p", tokens, "--json", "-q", "-o", path));
    m->ttft_ms = number(told, "ttft_ms");
    m->messages = 0;
    json_decref(told);
    json_t *trace = json_load_file(path, 0, NULL), *e;
    size_t i;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, e) {
        const char *name = json_string_value(json_object_get(e, "name"));
        if (!name || strcmp(name, "KV of a layer") != 0) continue;
        assert_true(m->messages < SPANS);
        const double us = number(e, "dur");
        m->message[m->messages].end_ms = (number(e, "ts") + us) / 1e3;
        m->message[m->messages++].bytes = us * BITS_PER_US / 8;
    }
    json_decref(trace);
    assert_true(m->messages > 10);
}

static double bytes_of(const place *p, const char *route)
{
    json_t *f = proxy_figures(&p->p);
    const double bytes = number(json_object_get(json_object_get(f, "routes"), route), "bytes");
    json_decref(f);
    return bytes;
}

/* ---- tests ---------------------------------------------------------------------------------------- */

/* One prompt, looked at on the wire while it is computed: at no time has more of it passed than the devices
 * would have brought over by then. */
static void rows_cross_the_wire_as_the_schedule_stores_them(const place *p, const model *m)
{
    static struct {
        double ms, bytes;
    } sample[SAMPLES];
    size_t samples = 0, steps = 0;
    client *c = ask(p, ALONE, "p0", "d0");
    while (!client_is_over(c) && samples < SAMPLES) {
        client_step();
        const double bytes = bytes_of(p, "d0");
        sample[samples].bytes = bytes;
        sample[samples++].ms = (double)client_ms(c) + 1;
    }
    const json_t *baton = whole(c, ALONE);
    (void)check(p, m, baton, 1);
    /* headers, and answers the other way: of each message, and of the beginning */
    const double more = (bytes_of(p, "d0") - number(baton, "kv_bytes")) / (double)m->messages;
    assert_true(more < m->message[0].bytes / 8);
    for (size_t i = 0; i < samples; i++) {
        double due = m->message[0].bytes / 4;
        for (size_t k = 0; k < m->messages; k++)
            if (K * m->message[k].end_ms <= sample[i].ms) due += m->message[k].bytes + more;
        if (sample[i].bytes > due)
            fail_msg("after %.0f ms %.0f bytes have passed, and %.0f were due", sample[i].ms, sample[i].bytes,
                     due);
        steps += sample[i].ms < K * m->ttft_ms && i > 0 && sample[i].bytes > sample[i - 1].bytes;
    }
    if (steps < 4) fail_msg("rows came in %zu steps", steps);
    client_end(c);
}

static void several_streams_are_those_of_nodes_that_nobody_slowed(const place *p, const model *m)
{
    client *c[STREAMS];
    double seconds = 0;
    for (int i = 0; i < STREAMS; i++) c[i] = ask(p, TOGETHER + i, NULL, i < 2 ? "d0" : "d1");
    for (int i = 0; i < STREAMS; i++) {
        const json_t *d = check(p, m, whole(c[i], TOGETHER + i), 1);
        seconds += K * (number(d, "prefill_ms") + number(d, "transfer_ms")) / 1e3;
        client_end(c[i]);
    }
    /* prompts and their blocks, of the one before too; heartbeats tell it */
    static const char metric[] = "baton_pace_seconds_total{role=\"prefill\"} ";
    seconds *= (STREAMS + 1.0) / STREAMS;
    for (int64_t end_ms = spawn_now_ms() + spawn_patience(ENDS_MS);
         cluster_metric(p->url, metric) < seconds * 0.999 && spawn_before(end_ms);)
        spawn_nap();
    assert_float_equal(cluster_metric(p->url, metric), seconds, seconds * 1e-3);
}

/* It is stopped with the prompt in its hands until long after it was due. */
static void a_node_that_was_held_up_says_how_late_it_was(const place *p, const model *m)
{
    const double quiet = bytes_of(p, "d0"), message = m->message[0].bytes;
    client *c = ask(p, HELD, "p0", "d0");
    while (!client_is_over(c) && bytes_of(p, "d0") < quiet + message) client_step();
    /* the first rows have come, so it cannot have begun later than this */
    const double due_ms = (double)client_ms(c) + K * (m->ttft_ms - m->message[0].end_ms);
    spawn_signal(p->prefill[0], SIGSTOP);
    while (!client_is_over(c) && (double)client_ms(c) < due_ms + LATE_MS) client_step();
    spawn_signal(p->prefill[0], SIGCONT);
    const json_t *d = check(p, m, whole(c, HELD), 1);
    if (number(d, "late_ms") < LATE_MS) fail_msg("%.0f ms late", number(d, "late_ms"));
    assert_true(json_is_true(json_object_get(d, "is_late")));
    client_end(c);
}

static void a_prompt_whose_prefill_node_is_killed_is_priced_by_the_one_that_ends_it(place *p, const model *m)
{
    const double quiet = bytes_of(p, "d0");
    client *beside = ask(p, BESIDE, "p1", "d1"), *c = ask(p, LOST_PREFILL, "p0", "d0");
    while (!client_is_over(c) && bytes_of(p, "d0") < quiet + m->message[0].bytes) client_step();
    kill_one(&p->prefill[0]);
    const double killed_ms = (double)client_ms(c);
    const json_t *baton = whole(c, LOST_PREFILL);
    (void)check(p, m, baton, 2);
    assert_true(number(baton, "ttft_ms") >= killed_ms - 1 + K * m->ttft_ms);
    assert_string_equal(json_string_value(json_object_get(baton, "prefilled_by")), "p1");
    (void)check(p, m, whole(beside, BESIDE), 1);
    client_end(c);
    client_end(beside);
}

static void answers_whose_decode_node_is_killed_go_on_and_have_both_attempts(place *p, const model *m)
{
    client *c[2];
    start_prefill(p, 0);
    for (int i = 0; i < 2; i++) c[i] = ask(p, LOST_DECODE + i, i ? "p1" : "p0", "d0");
    for (int i = 0; i < 2; i++) assert_true(client_wait_text(c[i], "data:", spawn_patience(ENDS_MS)));
    assert_false(client_is_over(c[0]) || client_is_over(c[1]));
    kill_one(&p->decode[0]);
    for (int i = 0; i < 2; i++) {
        const json_t *d = check(p, m, whole(c[i], LOST_DECODE + i), 2);
        assert_true(number(d, "prefill_ms") > number(d, "ttft_ms")); /* the last tokens once more */
        client_end(c[i]);
    }
    start_decode(p, 0); /* or the gateway waits long to tell it the end of both, before it ends itself */
}

static void under(const char *schedule)
{
    static model m;
    place p;
    learn(&m, schedule);
    start(&p, schedule, true, 2);
    rows_cross_the_wire_as_the_schedule_stores_them(&p, &m);
    several_streams_are_those_of_nodes_that_nobody_slowed(&p, &m);
    a_node_that_was_held_up_says_how_late_it_was(&p, &m);
    a_prompt_whose_prefill_node_is_killed_is_priced_by_the_one_that_ends_it(&p, &m);
    answers_whose_decode_node_is_killed_go_on_and_have_both_attempts(&p, &m);
    end(&p);
}

static void paced_nodes_under_fifo_keep_their_word(void **state)
{
    (void)state;
    under("fifo");
}

static void paced_nodes_under_ooo_keep_their_word(void **state)
{
    (void)state;
    under("ooo");
}

/* In program order, one prompt after the other, at the host's own speed. */
static int learn_answers(void **state)
{
    if (cluster_group_begin(state) != 0) return -1;
    place p;
    start(&p, "serial", false, 1);
    for (int i = 0; i < PROMPTS; i++) {
        client *c = ask(&p, i, NULL, NULL);
        undisturbed[i] = json_deep_copy(whole(c, i));
        client_end(c);
        assert_true(json_equal(json_object_get(undisturbed[i], "prompt_tokens"),
                               json_object_get(undisturbed[0], "prompt_tokens")));
    }
    end(&p);
    return 0;
}

static int forget_answers(void **state)
{
    for (int i = 0; i < PROMPTS; i++) json_decref(undisturbed[i]);
    return cluster_group_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(paced_nodes_under_fifo_keep_their_word, cluster_teardown),
        cmocka_unit_test_teardown(paced_nodes_under_ooo_keep_their_word, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, learn_answers, forget_answers);
}
