/* The faults of a running system: nodes that die, hang or do not belong, a gateway that dies, bad starts, and
 * ends of every kind. A client hears of it in time or does not notice, the others stay up, the next request
 * works, and nothing is left behind. */
#include "model/model.h"
#include "tests/helpers/cluster/cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static const char TEXT[] = "/v1/completions";
enum { LOST_MS = 20000, BACK_MS = 15000, LONG = 16000, STREAM = 600 };

static client *begin(const char *url, int max_tokens)
{
    json_t *r = cluster_request("the end of", max_tokens);
    client *c = client_post(url, TEXT, r);
    json_decref(r);
    return c;
}

/* The exchange ends by an error, in its stream or instead of it, or well, in time. */
static void expect_word_in_time(client *c, bool may_succeed)
{
    const bool came = client_wait(c, spawn_patience(LOST_MS));
    if (!came)
        fail_msg("nothing after %lld ms: %ld %s", (long long)client_ms(c), client_status(c), client_body(c));
    if (client_status(c) == 200 && !client_error(c)) {
        assert_true(may_succeed);
    } else {
        assert_non_null(client_error(c));
        assert_true(client_status(c) == 200 || client_status(c) >= 500);
        assert_true(strlen(json_string_value(json_object_get(client_error(c), "message"))) > 10);
        print_message("after %lld ms: %s\n", (long long)client_ms(c),
                      json_string_value(json_object_get(client_error(c), "message")));
    }
    client_end(c);
}

static void expect_recovery(cluster *c)
{
    assert_true(cluster_wait_health(c->url, 200, spawn_patience(BACK_MS)));
    assert_true(cluster_serves(c->url));
    assert_true(cluster_wait_idle(c->url, spawn_patience(BACK_MS)));
}

/* It ends with this code in time, and nothing of it is left. */
static void expect_end(spawn *s, int code, int64_t ms)
{
    const int rc = spawn_wait(s, spawn_patience(ms));
    if (rc != code) {
        printf("exit %d; it wrote:\n%s", rc, spawn_err(s));
        fail();
    }
    assert_true(spawn_wait_all_gone(spawn_patience(500)));
    assert_int_equal(spawn_count_leftovers(), 0);
}

static void kill_node(const cluster *c, const char *id, int signo)
{
    const pid_t pid = cluster_pid(c->url, id);
    assert_true(pid > 1);
    assert_int_equal(kill(pid, signo), 0);
}

/* ---- nodes ---- */

static void a_node_killed_before_a_request_comes_back(void **state)
{
    static const char *const ids[] = {"prefill-0", "decode-0"};
    cluster c;
    (void)state;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--threads", "1"));
    for (size_t i = 0; i < 2; i++) {
        const pid_t old = cluster_pid(c.url, ids[i]), other = cluster_pid(c.url, ids[1 - i]),
                    gateway = cluster_pid(c.url, "gateway");
        kill_node(&c, ids[i], SIGKILL);
        expect_word_in_time(begin(c.url, 8), true);
        assert_true(cluster_wait_node(c.url, ids[i], "ready", old, spawn_patience(BACK_MS)));
        expect_recovery(&c);
        assert_int_equal(cluster_pid(c.url, ids[1 - i]), other);
        assert_int_equal(cluster_pid(c.url, "gateway"), gateway);
    }
    assert_true(cluster_stop(&c));
}

static void a_stream_outlives_the_kill_of_its_only_decode_node(void **state)
{
    cluster c;
    (void)state;
    assert_true(CLUSTER(&c, spawn_long_model(), "--threads", "1", "--isa", "ref"));
    const pid_t prefill = cluster_pid(c.url, "prefill-0"), gateway = cluster_pid(c.url, "gateway"),
                decode = cluster_pid(c.url, "decode-0");
    client *stream[2] = {cluster_begin_stream(c.url, STREAM), NULL};
    assert_non_null(stream[0]);
    assert_int_equal(kill(decode, SIGKILL), 0);
    for (int i = 0; i < 2; i++) { /* the second one is undisturbed */
        if (i == 1) assert_non_null(stream[1] = cluster_begin_stream(c.url, STREAM));
        assert_true(client_wait(stream[i], spawn_patience(4 * BACK_MS)));
        if (!client_is_done(stream[i]) || client_error(stream[i])) fail_msg("%s", client_body(stream[i]));
    }
    assert_true(json_integer_value(json_object_get(client_baton(stream[0]), "attempts")) > 1);
    assert_true(json_equal(json_object_get(client_baton(stream[0]), "token_ids"),
                           json_object_get(client_baton(stream[1]), "token_ids")));
    for (int i = 0; i < 2; i++) client_end(stream[i]);
    expect_recovery(&c);
    assert_int_equal(cluster_pid(c.url, "prefill-0"), prefill);
    assert_int_equal(cluster_pid(c.url, "gateway"), gateway);
    assert_true(cluster_stop(&c));
}

static void a_prefill_node_killed_with_a_prompt_in_hand_costs_only_that(void **state)
{
    cluster c;
    (void)state;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--threads", "1"));
    const pid_t decode = cluster_pid(c.url, "decode-0");
    kill_node(&c, "prefill-0", SIGSTOP); /* it will take the prompt and not get far */
    client *stuck = begin(c.url, 8);
    for (int i = 0; i < 10; i++) client_step();
    kill_node(&c, "prefill-0", SIGKILL);
    expect_word_in_time(stuck, true);
    expect_recovery(&c);
    assert_int_equal(cluster_pid(c.url, "decode-0"), decode);
    assert_true(cluster_stop(&c));
}

static void a_decode_node_that_hangs_is_given_up_and_serves_again_when_it_goes_on(void **state)
{
    cluster c;
    (void)state;
    assert_true(CLUSTER(&c, spawn_long_model(), "--threads", "1", "--isa", "ref", "--recovery-timeout",
                        "2s"));
    const pid_t decode = cluster_pid(c.url, "decode-0");
    client *stream = cluster_begin_stream(c.url, LONG);
    assert_non_null(stream);
    assert_int_equal(kill(decode, SIGSTOP), 0);
    expect_word_in_time(stream, false);
    expect_word_in_time(begin(c.url, 8), false);
    assert_int_equal(kill(decode, SIGCONT), 0);
    expect_recovery(&c);
    assert_int_equal(cluster_pid(c.url, "decode-0"), decode);
    assert_true(cluster_stop(&c));
}

static void a_gateway_that_is_killed_comes_back_on_its_port(void **state)
{
    cluster c;
    (void)state;
    assert_true(CLUSTER(&c, spawn_long_model(), "--threads", "1", "--isa", "ref"));
    const pid_t gateway = cluster_pid(c.url, "gateway"), decode = cluster_pid(c.url, "decode-0");
    client *stream = cluster_begin_stream(c.url, LONG);
    assert_non_null(stream);
    assert_int_equal(kill(gateway, SIGKILL), 0);
    assert_false(client_wait(stream, spawn_patience(LOST_MS))); /* cut, not ended */
    assert_true(client_is_over(stream));
    client_end(stream);
    expect_recovery(&c);
    assert_int_not_equal(cluster_pid(c.url, "gateway"), gateway);
    assert_int_equal(cluster_pid(c.url, "decode-0"), decode);
    assert_true(cluster_stop(&c));
}

static void hex16(char ret[33], const uint8_t id[16])
{
    for (size_t i = 0; i < 16; i++) snprintf(ret + 2 * i, 3, "%02x", id[i]);
}

static void a_node_of_another_model_is_refused_with_both_ids(void **state)
{
    const char *models[] = {spawn_tiny_model(1), spawn_tiny_model(2)};
    char ids[2][33], control[200];
    cluster c;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        bt_model *m = NULL;
        assert_int_equal(bt_model_open(&m, models[i], NULL), BT_OK);
        hex16(ids[i], m->id);
        bt_model_close(m);
    }
    assert_true(CLUSTER(&c, models[0], "--threads", "1"));
    json_t *status = cluster_status(c.url);
    snprintf(control, sizeof control, "%s",
             json_string_value(json_object_get(json_object_get(status, "gateway"), "control")));
    json_decref(status);
    spawn *stranger =
        SPAWN("baton-prefill", "-m", models[1], "--gateway", control, "--id", "stranger", "--threads", "1");
    assert_true(spawn_wait_err(stranger, ids[0], spawn_patience(10000)));
    assert_true(spawn_wait_err(stranger, ids[1], spawn_patience(1000)));
    assert_null(strstr(spawn_err(stranger), "] ready"));
    assert_int_equal(cluster_pid(c.url, "stranger"), 0);
    assert_true(cluster_serves(c.url));
    spawn_signal(stranger, SIGTERM);
    assert_int_equal(spawn_wait(stranger, spawn_patience(5000)), 0);
    assert_true(cluster_stop(&c));
}

static void two_prefill_and_two_decode_nodes_share_the_work(void **state)
{
    enum { CALLS = 12 };
    client *call[CALLS];
    cluster c;
    (void)state;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--prefill", "2", "--decode", "2", "--threads", "1"));
    for (int i = 0; i < 4; i++)
        assert_true(cluster_wait_node(c.url,
                                      (const char *[]){"prefill-0", "prefill-1", "decode-0", "decode-1"}[i],
                                      "ready", 0, spawn_patience(BACK_MS)));
    for (int i = 0; i < CALLS; i++) call[i] = begin(c.url, 100);
    for (int i = 0; i < CALLS; i++) {
        assert_true(client_wait(call[i], spawn_patience(20000)));
        assert_int_equal(client_status(call[i]), 200);
        assert_true(json_equal(json_object_get(client_baton(call[0]), "token_ids"),
                               json_object_get(client_baton(call[i]), "token_ids")));
    }
    for (int i = 0; i < CALLS; i++) client_end(call[i]);
    /* One of each gone: the others carry on without waiting for them. */
    kill_node(&c, "prefill-1", SIGKILL);
    kill_node(&c, "decode-0", SIGKILL);
    expect_word_in_time(begin(c.url, 8), true);
    assert_true(cluster_serves(c.url));
    assert_true(cluster_stop(&c));
}

/* ---- ends ---- */

static void int_and_term_end_everything_promptly(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        cluster c;
        assert_true(CLUSTER(&c, spawn_tiny_model(1), "--threads", "1"));
        assert_true(cluster_serves(c.url));
        const int64_t begin_ms = spawn_now_ms();
        spawn_signal(c.up, signals[i]);
        expect_end(c.up, 0, 3000);
        print_message("ended after %lld ms\n", (long long)(spawn_now_ms() - begin_ms));
    }
}

static void term_lets_an_answer_end_and_a_second_one_does_not(void **state)
{
    cluster c;
    (void)state;
    assert_true(CLUSTER(&c, spawn_long_model(), "--threads", "1", "--isa", "ref"));
    client *stream = cluster_begin_stream(c.url, spawn_is_sanitized() ? 200 : 2000);
    assert_non_null(stream);
    spawn_signal(c.up, SIGTERM);
    assert_true(client_wait(stream, spawn_patience(60000)));
    assert_true(client_is_done(stream));
    assert_null(client_error(stream));
    client_end(stream);
    expect_end(c.up, 0, 3000);

    assert_true(CLUSTER(&c, spawn_long_model(), "--threads", "1", "--isa", "ref"));
    const pid_t decode = cluster_pid(c.url, "decode-0");
    stream = cluster_begin_stream(c.url, LONG);
    assert_non_null(stream);
    assert_int_equal(kill(decode, SIGSTOP), 0); /* so that draining cannot succeed */
    spawn_signal(c.up, SIGTERM);
    spawn_signal(c.up, SIGTERM);
    for (int i = 0; i < 3; i++) client_step();
    spawn_signal(c.up, SIGTERM); /* two that came together may be one */
    expect_end(c.up, 0, 2000);
}

static void term_while_starting_ends_everything(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        spawn *up = SPAWN("baton", "up", "-m", spawn_tiny_model(1), "--port", "0", "--threads", "1");
        if (i > 0) assert_true(spawn_wait_err(up, i < 3 ? "model" : "nodes:", spawn_patience(10000)));
        else spawn_nap();
        spawn_signal(up, i % 2 ? SIGINT : SIGTERM);
        const int rc = spawn_wait(up, spawn_patience(8000));
        if (i > 0) assert_int_equal(rc, 0);
        else
            assert_true(rc == 0 || rc == 128 + SIGTERM); /* it may not have come so far as to catch signals */
        assert_true(spawn_wait_all_gone(spawn_patience(500)));
        assert_int_equal(spawn_count_leftovers(), 0);
    }
}

static void when_up_is_killed_its_children_go_too(void **state)
{
    cluster c;
    (void)state;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--threads", "1"));
    spawn_signal(c.up, SIGKILL);
    assert_int_equal(spawn_wait(c.up, 5000), 128 + SIGKILL);
    assert_true(spawn_wait_all_gone(spawn_patience(8000)));
}

static void an_interrupted_run_says_so_and_leaves_nothing(void **state)
{
    (void)state;
    for (int is_json = 0; is_json < 2; is_json++) {
        spawn *run = SPAWN("baton", "run", "-m", spawn_long_model(), "-p", "a", "-n", "16000", "--threads",
                           "1", "--temp", "0", is_json ? "--json" : "--isa=ref");
        if (is_json) { /* it says nothing before the end: look for its children at work */
            for (const int64_t end = spawn_now_ms() + spawn_patience(10000);
                 spawn_count_leftovers() == 0 && spawn_before(end);) {}
        } else {
            for (const int64_t end = spawn_now_ms() + spawn_patience(10000);
                 strlen(spawn_out(run)) < 100 && spawn_before(end);) {}
        }
        spawn_signal(run, SIGINT);
        expect_end(run, 130, 3000);
        if (!is_json) assert_non_null(strstr(spawn_err(run), "interrupted"));
    }
}

/* ---- starts ---- */

static void expect_no_start(spawn *s, int code, const char *words)
{
    const int rc = spawn_wait(s, spawn_patience(15000));
    if (rc != code || !strstr(spawn_err(s), words)) fail_msg("exit %d, said: %s", rc, spawn_err(s));
    assert_string_equal(spawn_out(s), "");
    assert_true(spawn_wait_all_gone(spawn_patience(500)));
    assert_int_equal(spawn_count_leftovers(), 0);
}

static void a_port_in_use_is_said_clearly(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    char port[16];
    (void)state;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    snprintf(port, sizeof port, "%u", ntohs(at.sin_port));
    expect_no_start(SPAWN("baton", "up", "-m", spawn_tiny_model(1), "--port", port), 1, "in use");
    expect_no_start(SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", port, "--control",
                          "tcp://127.0.0.1:*"),
                    1, port);
    close(fd);
}

static void a_model_that_is_missing_or_cut_short_is_said_clearly(void **state)
{
    char whole[600];
    (void)state;
    snprintf(whole, sizeof whole, "%s", spawn_tiny_model(1));
    const char *cut = spawn_path("cut.gguf");
    FILE *in = fopen(whole, "rbe"), *out = fopen(cut, "wbe");
    assert_true(in && out);
    fseek(in, 0, SEEK_END);
    const long bytes = ftell(in) * 2 / 3;
    rewind(in);
    for (long i = 0; i < bytes; i++) putc(getc(in), out);
    fclose(in);
    fclose(out);
    static const char *const programs[] = {"baton-gateway", "baton-prefill", "baton-decode"};
    for (size_t i = 0; i < 3; i++) {
        expect_no_start(SPAWN(programs[i], "-m", "no/such.gguf"), 1, "no/such.gguf");
        expect_no_start(SPAWN(programs[i], "-m", cut), 1, "cut.gguf");
    }
    expect_no_start(SPAWN("baton", "up", "-m", "no/such.gguf", "--port", "0"), 1, "no/such.gguf");
    expect_no_start(SPAWN("baton", "up", "-m", cut, "--port", "0"), 1, "cut.gguf");
    expect_no_start(SPAWN("baton", "run", "-m", cut, "-p", "a"), 1, "cut.gguf");
}

static void
a_context_that_the_memory_does_not_hold_is_refused_where_asked_for_and_else_cuts_the_answer(void **state)
{
    cluster c;
    (void)state;
    /* 1 MiB holds 4096 of the 16384 tokens. */
    expect_no_start(SPAWN("baton", "up", "-m", spawn_long_model(), "--port", "0", "--kv-memory", "1M",
                          "--ctx-size", "8000"),
                    1, "--kv-memory");
    assert_true(CLUSTER(&c, spawn_long_model(), "--kv-memory", "1M", "--threads", "1"));
    client *call = begin(c.url, 4096);
    assert_true(client_wait(call, spawn_patience(5000)));
    assert_int_equal(client_status(call), 200);
    const json_t *answer = client_json(call), *usage = json_object_get(answer, "usage");
    const json_t *bound = json_object_get(json_object_get(answer, "baton"), "max_tokens");
    assert_int_equal(json_integer_value(bound) + json_integer_value(json_object_get(usage, "prompt_tokens")),
                     4096);
    client_end(call);
    assert_true(cluster_serves(c.url));
    assert_true(cluster_stop(&c));
}

int main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_teardown(name, cluster_teardown)
    const struct CMUnitTest tests[] = {
        T(a_node_killed_before_a_request_comes_back),
        T(a_stream_outlives_the_kill_of_its_only_decode_node),
        T(a_prefill_node_killed_with_a_prompt_in_hand_costs_only_that),
        T(a_decode_node_that_hangs_is_given_up_and_serves_again_when_it_goes_on),
        T(a_gateway_that_is_killed_comes_back_on_its_port),
        T(a_node_of_another_model_is_refused_with_both_ids),
        T(two_prefill_and_two_decode_nodes_share_the_work),
        T(int_and_term_end_everything_promptly),
        T(term_lets_an_answer_end_and_a_second_one_does_not),
        T(term_while_starting_ends_everything),
        T(when_up_is_killed_its_children_go_too),
        T(an_interrupted_run_says_so_and_leaves_nothing),
        T(a_port_in_use_is_said_clearly),
        T(a_model_that_is_missing_or_cut_short_is_said_clearly),
        T(a_context_that_the_memory_does_not_hold_is_refused_where_asked_for_and_else_cuts_the_answer),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
