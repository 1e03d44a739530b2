/* See cluster.h. */
#include "tests/helpers/cluster/cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_ARGS = 32 };

int cluster_group_begin(void **state)
{
    (void)state;
    spawn_setup();
    client_setup();
    return 0;
}

int cluster_group_end(void **state)
{
    (void)state;
    client_cleanup();
    spawn_cleanup();
    return 0;
}

int cluster_teardown(void **state)
{
    (void)client_teardown(state);
    return spawn_teardown(state);
}

bool cluster_start(cluster *c, const char *model, const char *const *more)
{
    const char *argv[MAX_ARGS] = {"baton", "up", "-m", model, "--port", "0"};
    size_t n = 6;
    while (*more && n + 1 < MAX_ARGS) argv[n++] = *more++;
    c->up = spawn_start(argv);
    return spawn_wait_out(c->up, "\n", spawn_patience(180000)) &&
           sscanf(spawn_out(c->up), "ready %127s", c->url) == 1;
}

bool cluster_stop(cluster *c)
{
    spawn_signal(c->up, SIGTERM);
    const int rc = spawn_wait(c->up, spawn_patience(20000));
    const bool is_alone = spawn_wait_all_gone(spawn_patience(1000));
    const size_t left = spawn_count_leftovers();
    if (rc == 0 && is_alone && left == 0) return spawn_is_clean(c->up);
    printf("'baton up' ended with %d, %s processes left, %zu directories left; it wrote:\n%s\n", rc,
           is_alone ? "no" : "some", left, spawn_err(c->up));
    return false;
}

bool cluster_find_gateway(char url[CLUSTER_ADDRESS_BYTES], char control[CLUSTER_ADDRESS_BYTES],
                          spawn *gateway, int64_t ms)
{
    if (spawn_wait_err(gateway, "waiting for", ms)) {
        const char *nodes = strstr(spawn_err(gateway), "nodes: "),
                   *clients = strstr(spawn_err(gateway), "clients: ");
        if (nodes && clients && sscanf(nodes, "nodes: %127[^, \n]", control) == 1 &&
            sscanf(clients, "clients: %127[^, \n]", url) == 1)
            return true;
    }
    printf("the gateway does not say where it is:\n%s\n", spawn_err(gateway));
    return false;
}

uint16_t cluster_free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0) {
        perror("a free port");
        abort();
    }
    close(fd);
    return ntohs(at.sin_port);
}

bool cluster_end(spawn *s, int64_t ms)
{
    spawn_signal(s, SIGTERM);
    const int rc = spawn_wait(s, ms);
    if (rc != 0) printf("exit %d: %s\n", rc, spawn_err(s));
    return rc == 0;
}

double cluster_metric(const char *url, const char *line)
{
    client *x = client_get(url, "/metrics");
    const char *at = client_wait(x, spawn_patience(60000)) ? strstr(client_body(x), line) : NULL;
    const double v = at ? strtod(at + strlen(line), NULL) : -1;
    if (!at) printf("no line %s in /metrics\n", line);
    client_end(x);
    return v;
}

json_t *cluster_status(const char *url)
{
    client *c = client_get(url, "/v1/status");
    json_t *json = client_wait(c, spawn_patience(5000)) ? json_incref(client_json(c)) : NULL;
    client_end(c);
    return json;
}

static const json_t *find_node(const json_t *status, const char *id)
{
    const json_t *nodes = json_object_get(status, "nodes"), *found = NULL;
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *n = json_array_get(nodes, i);
        if (strcmp(json_string_value(json_object_get(n, "id")), id) != 0) continue;
        if (!found || !json_is_null(json_object_get(n, "pid")))
            found = n; /* a successor rather than a dead one */
    }
    return found;
}

pid_t cluster_pid(const char *url, const char *id)
{
    json_t *status = cluster_status(url);
    const json_t *who =
        strcmp(id, "gateway") == 0 ? json_object_get(status, "gateway") : find_node(status, id);
    const pid_t pid = (pid_t)json_integer_value(json_object_get(who, "pid"));
    json_decref(status);
    return pid;
}

bool cluster_wait_node(const char *url, const char *id, const char *state, pid_t other_than, int64_t ms)
{
    const int64_t end = spawn_now_ms() + ms;
    bool is_so = false;
    do {
        json_t *status = cluster_status(url);
        const json_t *n = find_node(status, id);
        is_so = n && strcmp(json_string_value(json_object_get(n, "state")), state) == 0 &&
                (!other_than || json_integer_value(json_object_get(n, "pid")) != other_than);
        json_decref(status);
    } while (!is_so && spawn_before(end));
    return is_so;
}

bool cluster_wait_health(const char *url, long want, int64_t ms)
{
    const int64_t end = spawn_now_ms() + ms;
    long status = 0;
    do {
        client *c = client_get(url, "/health");
        (void)client_wait(c, spawn_patience(5000));
        status = client_status(c);
        client_end(c);
    } while (status != want && spawn_before(end));
    return status == want;
}

bool cluster_wait_idle(const char *url, int64_t ms)
{
    static const char *const held[] = {"pages_used", "reservations", "leases", "slots_used", "attempts"};
    const int64_t end = spawn_now_ms() + ms;
    json_int_t sum = 1;
    do {
        json_t *status = cluster_status(url);
        const json_t *nodes = json_object_get(status, "nodes");
        sum = json_array_size(nodes) ? 0 : 1;
        for (size_t i = 0; i < json_array_size(nodes); i++)
            for (size_t k = 0; k < sizeof held / sizeof *held; k++) {
                const json_t *n = json_array_get(nodes, i);
                if (!json_is_null(json_object_get(n, "pid")))
                    sum += json_integer_value(json_object_get(n, held[k]));
            }
        json_decref(status);
    } while (sum && spawn_before(end));
    return sum == 0;
}

json_t *cluster_request(const char *prompt, int max_tokens)
{
    return json_pack("{s:s, s:i, s:i, s:b}", "prompt", prompt, "max_tokens", max_tokens, "temperature", 0,
                     "baton", 1);
}

client *cluster_begin_stream(const char *url, int max_tokens)
{
    enum { EVENTS_BYTES = 4000 };
    json_t *request = cluster_request("a", max_tokens);
    json_object_set_new(request, "stream", json_true());
    /* </s>, <|im_end|> of tiny_gguf.h */
    json_object_set_new(request, "logit_bias", json_pack("{s:i, s:i}", "2", -100, "260", -100));
    client *c = client_post(url, "/v1/completions", request);
    json_decref(request);
    const int64_t end = spawn_now_ms() + spawn_patience(20000);
    while (!client_is_over(c) && strlen(client_body(c)) < EVENTS_BYTES && spawn_now_ms() < end) client_step();
    if (!client_is_over(c) && strlen(client_body(c)) >= EVENTS_BYTES) return c;
    printf("no stream: HTTP %ld: %.300s\n", client_status(c), client_body(c));
    client_end(c);
    return NULL;
}

bool cluster_serves(const char *url)
{
    json_t *request = cluster_request("the end of", 4);
    client *c = client_post(url, "/v1/completions", request);
    const bool is_whole = client_wait(c, spawn_patience(20000)) && client_status(c) == 200;
    const char *reason = json_string_value(json_object_get(client_baton(c), "finish_reason"));
    const bool is_right =
        is_whole && reason &&
        (strcmp(reason, "stop") == 0 || json_array_size(json_object_get(client_baton(c), "token_ids")) == 4);
    if (!is_right)
        printf("HTTP %ld after %lld ms: %s\n", client_status(c), (long long)client_ms(c), client_body(c));
    client_end(c);
    json_decref(request);
    return is_right;
}
