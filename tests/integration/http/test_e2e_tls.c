/* The gateway over TLS: answers, streams, clients that leave in every way, uploads that are refused early,
 * handshakes that stall, and certificates that are replaced while it serves. */
#include "base/buf.h"
#include "base/file.h"
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/proc_status.h"
#include "tests/helpers/cluster/raw_http.h"
#include "tests/helpers/cluster/tls.h"

#include <gnutls/x509.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum { SOON_MS = 20000, DAY_S = 86400, PLACES = 4, RESERVE = 256 };

static char url[CLUSTER_ADDRESS_BYTES], control[CLUSTER_ADDRESS_BYTES];
static tls_pair first, second, past;

static int group_begin(void **state)
{
    (void)cluster_group_begin(state);
    tls_make_pair(&first, "first", -DAY_S, 30 * DAY_S);
    tls_make_pair(&second, "second", -DAY_S, 60 * DAY_S);
    tls_make_pair(&past, "past", -2 * DAY_S, -DAY_S);
    return 0;
}

static spawn *start(const tls_pair *p, const char *option, const char *value)
{
    spawn *g =
        SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control", "tcp://127.0.0.1:*",
              "--tls-cert", p->cert, "--tls-key", p->key, "--drain-timeout", "0s", option, value);
    assert_true(cluster_find_gateway(url, control, g, spawn_patience(60000)));
    assert_memory_equal(url, "https://127.0.0.1:", 18);
    client_use_trust(p->cert);
    return g;
}

static tls *dial(const char *cert)
{
    tls *t = tls_dial(url, cert);
    assert_non_null(t);
    return t;
}

static void copy(const char *to, const char *from)
{
    static char text[1 << 16];
    FILE *f = fopen(from, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    (void)fclose(f);
    assert_non_null(spawn_write(to, text));
}

static const char models[] = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";

static bool answers_models(tls *t)
{
    static char text[1 << 16];
    return tls_say(t, models, sizeof models - 1) &&
           tls_hear(t, text, sizeof text, "\"list\"", spawn_patience(SOON_MS)) == TLS_WORDS;
}

/* ---- answers ------------------------------------------------------------------------------------ */

static void ends(spawn *s, int rc, const char *words)
{
    const int is = spawn_wait(s, spawn_patience(60000));
    if (is != rc || !strstr(rc ? spawn_err(s) : spawn_out(s), words))
        fail_msg("%d: %s%s", is, spawn_out(s), spawn_err(s));
}

static void commands_trust_whom_they_are_told(const char *at)
{
    ends(SPAWN("baton", "status", "--url", at, "--ca-file", first.cert), 0, "decode-0");
    ends(SPAWN("baton", "status", "--url", at, "--ca-file", second.cert), 1,
         "is not trusted; --ca-file names");
    ends(SPAWN("baton", "status", "--url", at), 1, "is not trusted");
    ends(SPAWN("baton", "status", "--url", at, "--ca-file", "none.pem"), 1, "cannot read 'none.pem'");
    ends(SPAWN("baton", "status", "--url", at, "--ca-file", first.key), 1,
         "has no certificate in PEM form; --ca-file needs one");
    ends(SPAWN("baton", "run", "--url", at, "--ca-file", first.cert, "-p", "the", "-n", "4", "--json"), 0,
         "\"token_ids\"");
    ends(SPAWN("baton", "replay", "--url", at, "--ca-file", first.cert, "-m", spawn_tiny_model(1),
               "--synthetic", "in:8,out:4,rate:100", "--limit", "4", "--json"),
         0, "\"failed\"");
}

/* BATON_TLS_CERT and BATON_TLS_KEY are for gateways that others reach, not for the private one of a command.
 */
static void a_private_gateway_speaks_plain_http(void **state)
{
    (void)state;
    assert_int_equal(setenv("BATON_TLS_CERT", first.cert, 1) + setenv("BATON_TLS_KEY", first.key, 1), 0);
    spawn *s = SPAWN("baton", "run", "-m", spawn_tiny_model(1), "-p", "the", "-n", "4", "--json");
    assert_int_equal(unsetenv("BATON_TLS_CERT") + unsetenv("BATON_TLS_KEY"), 0);
    ends(s, 0, "\"token_ids\"");
}

static void a_stream_has_the_tokens_of_the_whole_answer(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--tls-cert", first.cert, "--tls-key", first.key));
    assert_memory_equal(c.url, "https://", 8);
    client_use_trust(first.cert);
    json_t *body = cluster_request("the", 40);
    client *whole = client_post(c.url, "/v1/completions", body);
    json_object_set_new(body, "stream", json_true());
    client *stream = client_post(c.url, "/v1/completions", body);
    assert_true(client_wait(whole, spawn_patience(SOON_MS)) && client_wait(stream, spawn_patience(SOON_MS)));
    assert_int_equal(client_status(whole), 200);
    assert_true(client_is_done(stream));
    char *a = client_text(whole), *b = client_text(stream);
    assert_true(strlen(a) > 0);
    assert_string_equal(a, b);
    free(a);
    free(b);
    json_decref(body);
    commands_trust_whom_they_are_told(c.url);
    client_use_trust(second.cert); /* a client that does not trust it hears nothing */
    client *stranger = client_get(c.url, "/health");
    assert_false(client_wait(stranger, spawn_patience(SOON_MS)));
    client_use_trust(first.cert);
    assert_true(cluster_stop(&c));
}

/* ---- clients that leave ------------------------------------------------------------------------- */

static bool queue_becomes(int want)
{
    bool is_so = false;
    for (const int64_t end = spawn_now_ms() + spawn_patience(SOON_MS); !is_so && spawn_before(end);) {
        json_t *status = cluster_status(url);
        is_so = json_integer_value(json_object_get(json_object_get(status, "queue"), "waiting")) == want;
        json_decref(status);
    }
    return is_so;
}

static tls *ask(const char *body)
{
    char request[256];
    tls *t = dial(first.cert);
    (void)snprintf(request, sizeof request,
                   "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", strlen(body),
                   body);
    assert_true(tls_say(t, request, strlen(request)));
    return t;
}

static tls *ask_and_wait(const char *body)
{
    tls *t = ask(body);
    assert_true(queue_becomes(1));
    return t;
}

static void cancels_a_waiting_request_however_its_client_leaves(void **state)
{
    (void)state;
    spawn *g = start(&first, "--max-queue", "8");
    for (int i = 0; i < 6; i++) {
        tls *t = ask_and_wait(i & 1 ? "{\"prompt\":\"the\",\"stream\":true}" : "{\"prompt\":\"the\"}");
        tls_close(t, (tls_leave)(i / 2));
        assert_true(queue_becomes(0));
    }
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

static void a_client_that_half_closes_is_not_gone_until_it_leaves(void **state)
{
    static char text[4096];
    (void)state;
    spawn *g = start(&first, "--max-queue", "8");
    tls *t = ask_and_wait("{\"prompt\":\"the\"}");
    tls_half_close(t);
    /* longer than it takes to be looked at again */
    assert_int_equal(tls_hear(t, text, sizeof text, NULL, 1500), TLS_SILENT);
    assert_true(queue_becomes(1));
    tls_close(t, TLS_LEAVES_BARE);
    assert_true(queue_becomes(0));
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

static void a_client_that_half_closes_gets_its_whole_answer(void **state)
{
    static char text[1 << 16];
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--tls-cert", first.cert, "--tls-key", first.key));
    (void)snprintf(url, sizeof url, "%s", c.url);
    tls *t = ask("{\"prompt\":\"the\",\"max_tokens\":60,\"ignore_eos\":true,\"stream\":true}");
    tls_half_close(t);
    assert_int_equal(tls_hear(t, text, sizeof text, "[DONE]", spawn_patience(SOON_MS)), TLS_WORDS);
    tls_close(t, TLS_LEAVES_BARE);
    client_use_trust(first.cert);
    assert_true(cluster_stop(&c));
}

/* ---- lingering ---------------------------------------------------------------------------------- */

/* The server refuses by the head alone, while the client goes on sending, and reads nothing meanwhile. */
static void an_upload_that_is_refused_early_reads_its_answer_and_the_end_of_the_stream(void **state)
{
    static char text[1 << 16], block[64 << 10];
    static const char head[] =
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n";
    (void)state;
    spawn *g = start(&first, "--max-body", "1M");
    tls *t = dial(first.cert);
    assert_true(tls_say(t, head, sizeof head - 1));
    memset(block, ' ', sizeof block);
    for (size_t sent = 0; sent < (size_t)20 << 20; sent += sizeof block)
        assert_true(tls_say(t, block, sizeof block));
    assert_int_equal(tls_hear(t, text, sizeof text, NULL, spawn_patience(SOON_MS)), TLS_ENDED);
    assert_memory_equal(text, "HTTP/1.1 413", 12);
    assert_non_null(strstr(text, "\"error\""));
    /* and the socket ends too, at once: lingering takes up to 30 s */
    assert_true(raw_hear_end(tls_fd(t), block, sizeof block, 10000));
    tls_close(t, TLS_LEAVES_WELL);
    assert_true(answers_models(t = dial(first.cert)));
    tls_close(t, TLS_LEAVES_WELL);
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

/* ---- handshakes that stall ---------------------------------------------------------------------- */

static void handshakes_that_say_nothing_shut_nobody_out_and_are_cut(void **state)
{
    static int fds[PLACES + RESERVE];
    static char text[256];
    (void)state;
    spawn *g = start(&first, "--max-connections", "4");
    for (size_t i = 0; i < PLACES + RESERVE; i++) {
        fds[i] = i % 3 == 0 ? raw_dial(url) : tls_begin(url, i % 3 == 1 ? 40 : 0);
        assert_true(fds[i] >= 0);
    }
    for (int i = 0; i < 8; i++) {
        tls *t = dial(first.cert);
        assert_true(answers_models(t));
        tls_close(t, TLS_LEAVES_WELL);
    }
    for (size_t i = 0; i < PLACES + RESERVE; i++) (void)close(fds[i]);
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));

    g = start(&first, "--idle-timeout", "1s");
    for (size_t i = 0; i < 3; i++) fds[i] = i == 0 ? raw_dial(url) : tls_begin(url, i == 1 ? 40 : 0);
    const double before = proc_cpu_s(spawn_pid(g));
    const int64_t began = spawn_now_ms();
    for (size_t i = 0; i < 3; i++)
        assert_true(raw_hear_end(fds[i], text, sizeof text, spawn_patience(SOON_MS)));
    const double waited_s = (double)(spawn_now_ms() - began) / 1e3;
    const double used_s = proc_cpu_s(spawn_pid(g)) - before;
    if (used_s > 0.25 * waited_s + 0.1) fail_msg("%g s of the CPU in %g s for nothing", used_s, waited_s);
    for (size_t i = 0; i < 3; i++) (void)close(fds[i]);
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

/* A record that has come all but a byte gives no byte of the body yet, and is not held against it, whatever
 * else keeps the gateway turning. */
static void a_chunked_body_whose_records_come_in_parts_is_read(void **state)
{
    enum { RECORD = 16384, LINE = 6 };
    static char chunk[RECORD + 1], text[1 << 16];
    static const char head[] =
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2\r\n{ \r\n";
    (void)state;
    spawn *g = start(&first, "--max-body", "1M");
    const int busy = tls_begin(url, 40);
    tls *t = dial(first.cert);
    assert_true(tls_say(t, head, sizeof head - 1));
    memset(chunk, ' ', RECORD);
    (void)snprintf(chunk, sizeof chunk, "%04x\r", RECORD - LINE - 2);
    chunk[LINE - 1] = '\n';
    memcpy(chunk + RECORD - 2, "\r\n", 2);
    for (int i = 0; i < 4; i++) {
        assert_true(tls_say_part(t, chunk, RECORD, RECORD + 16));
        assert_int_equal(tls_hear(t, text, sizeof text, NULL, 400), TLS_SILENT);
        assert_true(tls_say_rest(t));
    }
    assert_true(tls_say(t, "1\r\n}\r\n0\r\n\r\n", 11));
    assert_int_equal(tls_hear(t, text, sizeof text, "HTTP/1.1 400", spawn_patience(SOON_MS)), TLS_WORDS);
    tls_close(t, TLS_LEAVES_WELL);
    (void)close(busy);
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

/* ---- certificates ------------------------------------------------------------------------------- */

static void a_new_pair_is_shown_after_sighup_and_open_connections_go_on(void **state)
{
    (void)state;
    tls_pair used;
    tls_make_pair(&used, "used", -DAY_S, DAY_S);
    copy(used.cert, first.cert);
    copy(used.key, first.key);
    spawn *g = start(&used, "--max-queue", "8");
    client_use_trust(first.cert);
    tls *old = dial(first.cert);
    assert_true(tls_has_serial(old, &first) && answers_models(old));
    tls *again = tls_dial_again(url, first.cert, old);
    assert_true(again && tls_is_resumed(again) && answers_models(again));
    tls_close(again, TLS_LEAVES_WELL);
    copy(used.cert, second.cert);
    copy(used.key, second.key);
    spawn_signal(g, SIGHUP);
    assert_true(spawn_wait_err(g, "certificate read again: ", spawn_patience(SOON_MS)));
    tls *fresh = dial(second.cert);
    assert_true(tls_has_serial(fresh, &second) && answers_models(fresh));
    assert_null(tls_dial_again(url, first.cert, old)); /* a ticket of the old pair resumes nothing */
    again = tls_dial_again(url, second.cert, old);
    assert_true(again && !tls_is_resumed(again) && tls_has_serial(again, &second));
    tls_close(again, TLS_LEAVES_WELL);
    assert_true(answers_models(old));
    tls_close(old, TLS_LEAVES_WELL);
    tls_close(fresh, TLS_LEAVES_WELL);
    client_use_trust(second.cert);
    assert_true(cluster_metric(url, "\nbaton_tls_certificate_reads_total{outcome=\"taken\"} ") == 1);
    const double ends_s = cluster_metric(url, "\nbaton_tls_certificate_end_timestamp_seconds ");
    const double in_s = ends_s - (double)time(NULL);
    assert_true(in_s > 59.0 * DAY_S && in_s <= 60.0 * DAY_S);
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

/* Writes the key of `first` with a passphrase. */
static void seal_key(const char *path)
{
    static char text[1 << 16];
    gnutls_x509_privkey_t key;
    bt_buf pem;
    bt_buf_init(&pem, sizeof text);
    assert_int_equal(bt_file_read(&pem, first.key, NULL), BT_OK);
    const gnutls_datum_t from = {.data = pem.data, .size = (unsigned)pem.len};
    size_t len = sizeof text - 1;
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_import2(key, &from, GNUTLS_X509_FMT_PEM, NULL, 0), 0);
    assert_int_equal(gnutls_x509_privkey_export_pkcs8(key, GNUTLS_X509_FMT_PEM, "secret",
                                                      GNUTLS_PKCS_PBES2_AES_256, text, &len),
                     0);
    text[len] = 0;
    (void)spawn_write(path, text);
    gnutls_x509_privkey_deinit(key);
    bt_buf_done(&pem);
}

static void break_pair(const tls_pair *used, int how)
{
    copy(used->cert, first.cert);
    copy(used->key, first.key);
    if (how == 0)
        (void)spawn_write(used->cert, "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n");
    if (how == 1) copy(used->key, second.key);
    if (how == 2) assert_int_equal(unlink(used->cert), 0);
    if (how == 3) assert_int_equal(chmod(used->key, 0644), 0);
    if (how == 4) seal_key(used->key);
    if (how == 5) assert_int_equal(truncate(used->cert, (64 << 10) + 1), 0);
    if (how == 6) (void)spawn_write(used->cert, "");
    if (how == 7)
        (void)spawn_write(used->key, "ENCRYPTED is not this key\n-----BEGIN PRIVATE KEY-----\nAAAA\n"
                                     "-----END PRIVATE KEY-----\n");
}

static const struct {
    const char *of_key, *words; /* of_key: the key's file is named, not the certificate's */
} broken[] = {
    {NULL, "cannot be read"},
    {"", "does not belong to the certificate in"},
    {NULL, "No such file"},
    {"", "can be read by others"},
    {"", "has a passphrase"},
    {NULL, "has more than 65536 bytes"},
    {NULL, "has no certificate in PEM form"},
    {"", "the private key in"},
};
enum { BROKEN = sizeof broken / sizeof *broken };

static void a_broken_new_pair_keeps_the_old_one_and_is_named(void **state)
{
    (void)state;
    tls_pair used;
    tls_make_pair(&used, "used", -DAY_S, DAY_S);
    copy(used.cert, first.cert);
    copy(used.key, first.key);
    spawn *g = start(&used, "--max-queue", "8");
    for (int i = 0; i < BROKEN; i++) {
        break_pair(&used, i);
        spawn_signal(g, SIGHUP);
        if (!spawn_wait_err(g, broken[i].words, spawn_patience(SOON_MS)))
            fail_msg("no '%s'", broken[i].words);
        const char *all = spawn_err(g), *line = strstr(all, broken[i].words); /* both end with the next call
                                                                               */
        while (line > all && line[-1] != '\n') line--;
        const char *file = strstr(line, broken[i].of_key ? used.key : used.cert);
        assert_non_null(strstr(line, "the certificate stays as it was: "));
        assert_true(file && file < strchr(line, '\n'));
        tls *t = dial(first.cert);
        assert_true(tls_has_serial(t, &first) && answers_models(t));
        tls_close(t, TLS_LEAVES_WELL);
        assert_int_equal(chmod(used.key, 0600), 0);
    }
    client_use_trust(first.cert);
    assert_true(cluster_metric(url, "\nbaton_tls_certificate_reads_total{outcome=\"refused\"} ") == BROKEN);
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
    assert_null(strstr(spawn_err(g), "PRIVATE KEY"));
}

static void a_broken_pair_at_start_is_an_error_that_names_it(void **state)
{
    (void)state;
    tls_pair used;
    tls_make_pair(&used, "used", -DAY_S, DAY_S);
    for (int i = 0; i < BROKEN; i++) {
        break_pair(&used, i);
        spawn *g = SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control",
                         "tcp://127.0.0.1:*", "--tls-cert", used.cert, "--tls-key", used.key);
        assert_int_equal(spawn_wait(g, spawn_patience(SOON_MS)), 1);
        assert_non_null(strstr(spawn_err(g), broken[i].words));
        assert_non_null(strstr(spawn_err(g), broken[i].of_key ? used.key : used.cert));
        (void)chmod(used.key, 0600);
    }
}

static void a_certificate_that_is_over_is_served_with_a_warning(void **state)
{
    (void)state;
    spawn *g = start(&past, "--max-queue", "8");
    assert_non_null(strstr(spawn_err(g), "the certificate is over: clients will refuse it"));
    assert_null(tls_dial(url, past.cert));
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_stream_has_the_tokens_of_the_whole_answer, cluster_teardown),
        cmocka_unit_test_teardown(a_private_gateway_speaks_plain_http, cluster_teardown),
        cmocka_unit_test_teardown(cancels_a_waiting_request_however_its_client_leaves, cluster_teardown),
        cmocka_unit_test_teardown(a_client_that_half_closes_is_not_gone_until_it_leaves, cluster_teardown),
        cmocka_unit_test_teardown(a_client_that_half_closes_gets_its_whole_answer, cluster_teardown),
        cmocka_unit_test_teardown(an_upload_that_is_refused_early_reads_its_answer_and_the_end_of_the_stream,
                                  cluster_teardown),
        cmocka_unit_test_teardown(handshakes_that_say_nothing_shut_nobody_out_and_are_cut, cluster_teardown),
        cmocka_unit_test_teardown(a_chunked_body_whose_records_come_in_parts_is_read, cluster_teardown),
        cmocka_unit_test_teardown(a_new_pair_is_shown_after_sighup_and_open_connections_go_on,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_broken_new_pair_keeps_the_old_one_and_is_named, cluster_teardown),
        cmocka_unit_test_teardown(a_broken_pair_at_start_is_an_error_that_names_it, cluster_teardown),
        cmocka_unit_test_teardown(a_certificate_that_is_over_is_served_with_a_warning, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, group_begin, cluster_group_end);
}
