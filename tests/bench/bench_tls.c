/* What TLS costs a gateway and its clients.
 *
 *   bench_tls [MODEL]
 *
 * Connections: each asks once and ends. The gateway's processor time for one of them, which does not depend
 * on what else runs, and how many of them its one thread could so make a second. Tokens: streams of a little
 * model without TLS and with it, by turns in one run; the time between two events as their client sees it,
 * and the gateway's processor time for a token. */
#include "tests/bench/kit.h"
#include "base/clock.h"
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/proc_status.h"
#include "tests/helpers/cluster/raw_http.h"
#include "tests/helpers/cluster/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONNECTIONS = 1000, ROUNDS = 12, TOKENS = 100, WAIT_MS = 60000 };

static const char look[] = "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
static char text[1 << 16];
static const char *model = "smollm2";

static void must(bool ok, const char *what)
{
    if (!ok) bench_die(what);
}

/* ---- connections -------------------------------------------------------------------------------- */

/* p NULL: plain. before NULL: a whole handshake; else its ticket is used. */
static void connect_once(const char *url, const tls_pair *p, tls *before)
{
    if (!p) {
        const int fd = raw_dial(url);
        must(fd >= 0 && raw_say(fd, look, sizeof look - 1) && raw_hear_end(fd, text, sizeof text, WAIT_MS),
             "HTTP");
        (void)close(fd);
        return;
    }
    tls *t = before ? tls_dial_again(url, p->cert, before) : tls_dial(url, p->cert);
    must(t && tls_is_resumed(t) == (before != NULL), "a handshake");
    must(tls_say(t, look, sizeof look - 1) && tls_hear(t, text, sizeof text, NULL, WAIT_MS) == TLS_ENDED,
         "HTTPS");
    tls_close(t, TLS_LEAVES_WELL);
}

static void measure_connections(const char *what, const tls_pair *p, bool resumes)
{
    static const char hold[] = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
    char url[CLUSTER_ADDRESS_BYTES], control[CLUSTER_ADDRESS_BYTES];
    spawn *g = p ? SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control",
                         "tcp://127.0.0.1:*", "--tls-cert", p->cert, "--tls-key", p->key)
                 : SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control",
                         "tcp://127.0.0.1:*");
    must(cluster_find_gateway(url, control, g, WAIT_MS), "no gateway");
    tls *before = resumes ? tls_dial(url, p->cert) : NULL;
    if (before)
        must(tls_say(before, hold, sizeof hold - 1) &&
                 tls_hear(before, text, sizeof text, "\"list\"", WAIT_MS) == TLS_WORDS,
             "a ticket");
    connect_once(url, p, before);
    const double cpu_s = proc_cpu_s(spawn_pid(g));
    for (int i = 0; i < CONNECTIONS; i++) connect_once(url, p, before);
    const double each_ms = (proc_cpu_s(spawn_pid(g)) - cpu_s) / CONNECTIONS * 1e3;
    printf("%-20s %8.2f ms a connection, %6.0f a second of one thread\n", what, each_ms, 1e3 / each_ms);
    if (before) tls_close(before, TLS_LEAVES_WELL);
    must(cluster_end(g, WAIT_MS), "the gateway did not end");
}

/* ---- tokens ------------------------------------------------------------------------------------- */

typedef struct path {
    const char *what;
    const tls_pair *pair; /* NULL: plain */
    cluster c;
    pid_t gateway;
    double cpu_s, gap_us[ROUNDS * TOKENS];
    size_t gaps;
} path;

static void stream(path *p, bool counts)
{
    char request[256];
    const char body[] = "{\"prompt\":\"the\",\"max_tokens\":100,\"ignore_eos\":true,\"stream\":true}";
    (void)snprintf(
        request, sizeof request,
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
        sizeof body - 1, body);
    tls *t = p->pair ? tls_dial(p->c.url, p->pair->cert) : NULL;
    const int fd = p->pair ? -1 : raw_dial(p->c.url);
    const double cpu_s = proc_cpu_s(p->gateway); /* without the handshake */
    must(t ? tls_say(t, request, strlen(request)) : fd >= 0 && raw_say(fd, request, strlen(request)),
         "a request");
    int64_t last_us = 0;
    for (bool is_over = false; !is_over;) {
        const bool came = t ? tls_hear(t, text, sizeof text, "\n\n", WAIT_MS) == TLS_WORDS
                            : raw_hear(fd, text, sizeof text, "\n\n", WAIT_MS);
        const int64_t now_us = bt_clock_us();
        must(came, "a stream");
        is_over = strstr(text, "[DONE]") != NULL;
        const size_t n = raw_count(text, "data: {");
        for (size_t i = 0; counts && last_us && i < n && p->gaps < ROUNDS * TOKENS; i++)
            p->gap_us[p->gaps++] = (double)(now_us - last_us) / (double)n;
        if (n) last_us = now_us;
    }
    if (counts) p->cpu_s += proc_cpu_s(p->gateway) - cpu_s;
    if (t) tls_close(t, TLS_LEAVES_WELL);
    else (void)close(fd);
}

static void measure_tokens(path *both)
{
    for (int i = 0; i < 2; i++) {
        path *p = &both[i];
        must(p->pair ? CLUSTER(&p->c, model, "--threads", "1", "--tls-cert", p->pair->cert, "--tls-key",
                               p->pair->key)
                     : CLUSTER(&p->c, model, "--threads", "1"),
             "no cluster");
        client_use_trust(p->pair ? p->pair->cert : NULL);
        must((p->gateway = cluster_pid(p->c.url, "gateway")) > 0, "no gateway");
        stream(p, false);
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2; i++) stream(&both[(round + i) % 2], true);
    for (int i = 0; i < 2; i++) {
        path *p = &both[i];
        const double median = bench_median(p->gap_us, p->gaps);
        printf("%-20s %8.0f us between tokens, p99 %6.0f; gateway %5.0f us of processor time a token\n",
               p->what, median, p->gap_us[p->gaps * 99 / 100], p->cpu_s / (double)p->gaps * 1e6);
        must(cluster_end(p->c.up, WAIT_MS), "the cluster did not end");
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) model = argv[1];
    static tls_pair ec, rsa;
    static path both[2] = {{.what = "plain"}, {.what = "TLS", .pair = &ec}};
    (void)cluster_group_begin(NULL);
    tls_make_pair(&ec, "ec", -60, 3600);
    tls_make_rsa_pair(&rsa, "rsa");
    measure_connections("plain", NULL, false);
    measure_connections("TLS, P-256", &ec, false);
    measure_connections("TLS, P-256, resumed", &ec, true);
    measure_connections("TLS, RSA 2048", &rsa, false);
    measure_tokens(both);
    return cluster_group_end(NULL);
}
