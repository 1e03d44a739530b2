/* The real baton-gateway with a tiny model and no nodes: every door that must stay shut, and how it says so.
 * $BATON_BIN is the folder of the programs. */
#include "base/clock.h"
#include "base/exec.h"
#include "tests/helpers/temp_folder.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { DEADLINE_US = 20000000, MAX_ARGS = 24 };

static char folder[TEMP_FOLDER_BYTES], model[TEMP_FOLDER_BYTES + 16], key_file[TEMP_FOLDER_BYTES + 16];
static int started;

typedef struct gateway {
    pid_t pid;
    int err;
    unsigned port;
    char log[16384];
    size_t log_len;
} gateway;
static gateway main_gateway;

/* ---- processes ---- */

static pid_t spawn(int *ret_err, const char *const *more, const char *control)
{
    const char *bin = getenv("BATON_BIN");
    char program[4096];
    const char *argv[MAX_ARGS] = {program, "-m", model, "--control", control};
    int n = 5, fds[2];
    (void)snprintf(program, sizeof program, "%s/baton-gateway", bin ? bin : "bin");
    while (*more && n < MAX_ARGS - 1) argv[n++] = *more++;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing behind */
        (void)dup2(fds[1], 1);
        (void)dup2(fds[1], 2);
        bt_exec(program, argv);
        _exit(127);
    }
    (void)close(fds[1]);
    *ret_err = fds[0];
    return pid;
}

/* Reads stderr until `words` stand in it (true), or it ends or time is up (false). */
static bool read_until(gateway *g, const char *words)
{
    const int64_t end = bt_clock_us() + DEADLINE_US;
    while (!words || !strstr(g->log, words)) {
        struct pollfd p = {.fd = g->err, .events = POLLIN};
        if (bt_clock_us() > end || poll(&p, 1, 1000) < 0) return false;
        if (!p.revents) continue;
        const ssize_t got = read(g->err, g->log + g->log_len, sizeof g->log - 1 - g->log_len);
        if (got <= 0) return false;
        g->log_len += (size_t)got;
        g->log[g->log_len] = 0;
    }
    return true;
}

static void start(gateway *g, const char *const *more)
{
    char control[128];
    *g = (gateway){0};
    (void)snprintf(control, sizeof control, "ipc://%s/control-%d", folder, started++);
    g->pid = spawn(&g->err, more, control);
    if (!read_until(g, "waiting for a prefill")) fail_msg("did not start: %s", g->log);
    const char *at = strstr(g->log, "http://127.0.0.1:");
    assert_non_null(at);
    g->port = (unsigned)strtoul(at + 17, NULL, 10);
}

static int wait_exit(gateway *g)
{
    int status = 0;
    (void)read_until(g, NULL); /* the end of its stderr is its end */
    assert_int_equal(waitpid(g->pid, &status, 0), g->pid);
    (void)close(g->err);
    g->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void stop(gateway *g)
{
    assert_int_equal(kill(g->pid, SIGTERM), 0);
    const int code = wait_exit(g);
    if (code != 0) fail_msg("exit %d: %s", code, g->log);
}

/* ---- HTTP ---- */

typedef struct answer {
    long status;
    char headers[4096];
    char *body;
    size_t len;
    json_t *json;
} answer;

static size_t take_body(char *p, size_t one, size_t n, void *ud)
{
    answer *a = ud;
    char *bigger = realloc(a->body, a->len + one * n + 1);
    if (!bigger) return 0;
    a->body = bigger;
    memcpy(a->body + a->len, p, one * n);
    a->len += one * n;
    a->body[a->len] = 0;
    return one * n;
}
static size_t take_header(char *p, size_t one, size_t n, void *ud)
{
    answer *a = ud;
    const size_t have = strlen(a->headers);
    if (have + one * n < sizeof a->headers) memcpy(a->headers + have, p, one * n);
    return one * n;
}

static answer ask(const gateway *g, const char *method, const char *path, const char *body, size_t len,
                  const char *header)
{
    answer a = {0};
    char url[256];
    CURL *c = curl_easy_init();
    struct curl_slist *h = header ? curl_slist_append(NULL, header) : NULL;
    assert_non_null(c);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u%s", g->port, path);
    (void)curl_easy_setopt(c, CURLOPT_URL, url);
    (void)curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
    if (strcmp(method, "HEAD") == 0) (void)curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    if (body) {
        (void)curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long)len);
        (void)curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
    }
    (void)curl_easy_setopt(c, CURLOPT_HTTPHEADER, h);
    (void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(c, CURLOPT_WRITEDATA, &a);
    (void)curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl_easy_setopt(c, CURLOPT_HEADERDATA, &a);
    (void)curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, 20000L);
    const CURLcode code = curl_easy_perform(c);
    if (code != CURLE_OK) fail_msg("%s %s: %s", method, path, curl_easy_strerror(code));
    (void)curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &a.status);
    curl_slist_free_all(h);
    curl_easy_cleanup(c);
    if (a.body) a.json = json_loadb(a.body, a.len, 0, NULL);
    return a;
}
static answer get(const char *path) { return ask(&main_gateway, "GET", path, NULL, 0, NULL); }
static answer post(const char *path, const char *body)
{
    return ask(&main_gateway, "POST", path, body, strlen(body), NULL);
}
static void done(answer *a)
{
    json_decref(a->json);
    free(a->body);
}

/* Checks status and the error object, and frees the answer. */
static void is_error(answer a, long status, const char *code, const char *param)
{
    const json_t *e = json_object_get(a.json, "error");
    if (!e) fail_msg("no error object: %ld %s", a.status, a.body ? a.body : "");
    assert_int_equal(a.status, status);
    assert_true(json_is_string(json_object_get(e, "message")));
    assert_true(json_is_string(json_object_get(e, "type")));
    const char *c = json_string_value(json_object_get(e, "code")),
               *p = json_string_value(json_object_get(e, "param"));
    assert_string_equal(c ? c : "", code);
    assert_string_equal(p ? p : "", param);
    done(&a);
}

static int dial(const gateway *g)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)g->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}
static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Reads until `words` came `times` times; false when the connection ended or nothing came for timeout_ms. */
static bool hear(int fd, const char *words, int times, int timeout_ms)
{
    char text[16384];
    size_t len = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, timeout_ms) <= 0) return false;
        const ssize_t n = recv(fd, text + len, sizeof text - 1 - len, 0);
        if (n <= 0) return false;
        len += (size_t)n;
        text[len] = 0;
        int seen = 0;
        for (const char *at = text; (at = strstr(at, words)); at += strlen(words)) seen++;
        if (seen >= times) return true;
    }
}

/* True: the other side ends the connection in time. */
static bool hear_end(int fd, int timeout_ms)
{
    char text[1024];
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (poll(&p, 1, timeout_ms) == 1)
        if (recv(fd, text, sizeof text, 0) <= 0) return close(fd) == 0;
    return false;
}

/* ---- tests ---- */

static void says_503_while_no_node_is_there(void **state)
{
    (void)state;
    is_error(get("/health"), 503, "no_node", "");
    is_error(get("/v1/health"), 503, "no_node", "");
    answer a = get("/health");
    assert_non_null(strstr(a.headers, "Retry-After:"));
    assert_non_null(strstr(a.headers, "X-Request-Id:"));
    done(&a);
}

static void refuses_bad_requests_with_the_field_named(void **state)
{
    (void)state;
    is_error(post("/v1/completions", "{\"prompt\":\"a\",\"max_token\":1}"), 400, "unknown_parameter",
             "max_token");
    is_error(post("/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":0}"), 400, "invalid_value",
             "max_tokens");
    is_error(post("/v1/completions", "{\"prompt\":\"a\""), 400, "invalid_json", "");
    is_error(post("/v1/completions", "{\"prompt\":\"\xff\"}"), 400, "invalid_json", "");
    is_error(post("/v1/completions", ""), 400, "invalid_json", "");
    is_error(post("/v1/completions", "{\"prompt\":[384]}"), 400, "invalid_value", "prompt");
    is_error(post("/v1/completions", "{\"model\":\"x\",\"prompt\":\"a\"}"), 404, "model_not_found", "model");
    is_error(post("/v1/chat/completions", "{\"messages\":[]}"), 400, "invalid_value", "messages");
    is_error(post("/v1/chat/completions",
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{}]}"),
             400, "unsupported_parameter", "tools");
}

static void says_both_numbers_when_a_prompt_is_too_long(void **state)
{
    (void)state;
    char body[2048] = "{\"prompt\":[";
    for (int i = 0; i < 512; i++) (void)strcat(body, "5,");
    (void)strcat(body, "5]}");
    answer a = post("/v1/completions", body);
    assert_non_null(strstr(a.body, "512 tokens"));
    assert_non_null(strstr(a.body, "513"));
    is_error(a, 400, "context_length_exceeded", "prompt");
}

static void knows_its_paths_and_methods(void **state)
{
    (void)state;
    is_error(get("/nowhere"), 404, "not_found", "");
    answer a = get("/v1/completions");
    assert_non_null(strstr(a.headers, "Allow: POST"));
    is_error(a, 405, "method_not_allowed", "");
    a = post("/health", "x");
    assert_non_null(strstr(a.headers, "Allow: GET"));
    is_error(a, 405, "method_not_allowed", "");
    a = ask(&main_gateway, "HEAD", "/", NULL, 0, NULL);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.len, 0);
    done(&a);
}

static void lists_the_model_under_its_file_name(void **state)
{
    (void)state;
    answer a = get("/v1/models");
    assert_int_equal(a.status, 200);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(json_object_get(a.json, "data"), 0), "id")), "tiny");
    done(&a);
}

static void gives_one_model_by_its_id_whatever_signs_that_has(void **state)
{
    (void)state;
    static const char *const alias[] = {"--port", "0", "--alias", "org/tiny model:1 %", NULL};
    static const char *const paths[] = {"/v1/models/tiny", "/v1/models/org/tiny%20model:1%20%25",
                                        "/v1/models/org%2Ftiny%20model%3A1%20%25"};
    gateway g;
    start(&g, alias);
    for (size_t i = 0; i < 3; i++) {
        answer a = ask(&g, "GET", paths[i], NULL, 0, NULL);
        assert_int_equal(a.status, 200);
        assert_string_equal(json_string_value(json_object_get(a.json, "id")),
                            i ? "org/tiny model:1 %" : "tiny");
        assert_string_equal(json_string_value(json_object_get(a.json, "object")), "model");
        done(&a);
    }
    answer a = ask(&g, "GET", "/v1/models/org", NULL, 0, NULL);
    assert_non_null(strstr(a.body, "'org' does not exist here"));
    is_error(a, 404, "model_not_found", "model");
    is_error(ask(&g, "GET", "/v1/models/%ff", NULL, 0, NULL), 404, "model_not_found", "model");
    is_error(ask(&g, "GET", "/v1/models/tiny%00x", NULL, 0, NULL), 404, "model_not_found", "model");
    is_error(ask(&g, "GET", "/v1/models/%0a", NULL, 0, NULL), 400, "bad_request", "");
    a = ask(&g, "POST", "/v1/models/tiny", "{}", 2, NULL);
    assert_non_null(strstr(a.headers, "Allow: GET, HEAD"));
    is_error(a, 405, "method_not_allowed", "");
    stop(&g);
}

static double default_of(const answer *a, const char *field, const char *from)
{
    const json_t *d = json_object_get(json_object_get(a->json, "defaults"), field);
    assert_string_equal(json_string_value(json_object_get(d, "from")), from);
    return json_number_value(json_object_get(d, "value"));
}

/* A file's own defaults, of which one is out of range. */
static void add_sampling(tiny_gguf *w, void *ud)
{
    (void)ud;
    tiny_gguf_f32(w, "general.sampling.temp", 0.6f);
    tiny_gguf_u32(w, "general.sampling.top_k", 20);
    tiny_gguf_f32(w, "general.sampling.min_p", 7);
}

static void tells_its_defaults_and_where_each_comes_from(void **state)
{
    (void)state;
    char other[TEMP_FOLDER_BYTES + 16];
    tiny_gguf_spec spec = tiny_gguf_default();
    spec.chat_template = tiny_gguf_chatml;
    spec.extra = add_sampling;
    (void)snprintf(other, sizeof other, "%s/sampling.gguf", folder);
    tiny_gguf_write(&spec, other);
    const char *const more[] = {"--port",  "0",   "-m",           other, "--top-k", "7",
                                "--top-p", "0.5", "--max-answer", "99",  NULL};
    gateway g;
    start(&g, more);
    answer a = ask(&g, "GET", "/props", NULL, 0, NULL);
    assert_int_equal(a.status, 200);
    assert_true(default_of(&a, "temperature", "file") == 0.6); /* no float next to it */
    assert_true(default_of(&a, "top_k", "option") == 7);
    assert_true(default_of(&a, "top_p", "option") == 0.5);
    assert_true(default_of(&a, "min_p", "default") == 0.05);
    assert_true(default_of(&a, "repetition_penalty", "default") == 1);
    const json_t *p = json_object_get(json_object_get(a.json, "default_generation_settings"), "params");
    assert_int_equal(json_integer_value(json_object_get(p, "top_k")), 7);
    assert_int_equal(json_integer_value(json_object_get(p, "max_tokens")), 99);
    assert_int_equal(json_integer_value(json_object_get(a.json, "max_answer")), 99);
    assert_int_equal(json_integer_value(json_object_get(a.json, "n_ctx")), 512);
    assert_int_equal(json_integer_value(json_object_get(a.json, "total_slots")), 0);
    assert_string_equal(json_string_value(json_object_get(a.json, "model_path")), other);
    assert_string_equal(json_string_value(json_object_get(a.json, "chat_template")), tiny_gguf_chatml);
    assert_string_equal(json_string_value(json_object_get(a.json, "chat_template_name")), "default");
    assert_int_equal(json_array_size(json_object_get(a.json, "end_of_turn")), 2);
    assert_non_null(strstr(g.log, "an answer ends with <|im_end|> (260), </s> (2)"));
    done(&a);
    stop(&g);
    const char *warned = strstr(g.log, "general.sampling.min_p");
    assert_non_null(warned);
    assert_null(strstr(warned + 1, "general.sampling.min_p")); /* once */
}

static void describes_itself_to_everybody(void **state)
{
    (void)state;
    answer a = get("/openapi.json"), b = get("/v1/openapi.json");
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, b.body);
    const json_t *paths = json_object_get(a.json, "paths");
    assert_non_null(json_object_get(json_object_get(paths, "/v1/chat/completions"), "post"));
    assert_non_null(json_object_get(json_object_get(paths, "/v1/models/{id}"), "get"));
    done(&a);
    done(&b);
}

static void gives_metrics_as_prometheus_text(void **state)
{
    (void)state;
    answer a = get("/metrics");
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.headers, "Content-Type: text/plain; version=0.0.4"));
    assert_memory_equal(a.body, "# HELP ", 7);
    assert_non_null(strstr(a.body, "\nbaton_requests_running 0\n"));
    assert_non_null(strstr(a.body, "\nbaton_peers{role=\"decode\",state=\"ready\"} 0\n"));
    assert_int_equal(a.body[a.len - 1], '\n');
    done(&a);
}

static void gives_its_status_with_no_nodes(void **state)
{
    (void)state;
    answer a = get("/v1/status");
    assert_int_equal(a.status, 200);
    const json_t *g = json_object_get(a.json, "gateway");
    assert_int_equal(json_integer_value(json_object_get(g, "pid")), main_gateway.pid);
    assert_string_equal(json_string_value(json_object_get(g, "state")), "starting");
    assert_true(json_is_array(json_object_get(a.json, "nodes")));
    assert_int_equal(json_array_size(json_object_get(a.json, "nodes")), 0);
    done(&a);
}

static void gives_back_a_good_request_id_and_makes_one_otherwise(void **state)
{
    (void)state;
    answer a = ask(&main_gateway, "GET", "/v1/models", NULL, 0, "X-Request-Id: id.7");
    assert_true(strstr(a.headers, "\nX-Request-Id: id.7\r\n") && strstr(a.headers, "\nRequest-Id: id.7\r\n"));
    done(&a);
    a = ask(&main_gateway, "GET", "/v1/models", NULL, 0, "X-Request-Id: two words");
    assert_null(strstr(a.headers, "two words"));
    assert_non_null(strstr(a.headers, "X-Request-Id: "));
    done(&a);
}

static void refuses_a_body_past_the_limit_however_it_is_sent(void **state)
{
    (void)state;
    const size_t n = (4 << 20) + 1;
    char *body = malloc(n);
    assert_non_null(body);
    memset(body, ' ', n);
    is_error(ask(&main_gateway, "POST", "/v1/completions", body, n, "Expect:"), 413, "body_too_large", "");
    is_error(ask(&main_gateway, "POST", "/v1/completions", body, n, "Transfer-Encoding: chunked"), 413,
             "body_too_large", "");
    is_error(ask(&main_gateway, "POST", "/v1/completions", body, n - 1, NULL), 400, "invalid_json", "");
    free(body);
}

static void answers_pipelined_requests_in_order_on_one_connection(void **state)
{
    (void)state;
    const int fd = dial(&main_gateway);
    say(fd, "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"
            "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}GET /v1/models "
            "HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(hear(fd, "HTTP/1.1 ", 4, 10000));
    (void)close(fd);
}

static void a_web_page_changes_no_node_s_role(void **state)
{
    (void)state;
    const int fd = dial(&main_gateway);
    say(fd, "POST /v1/nodes/x/role HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n{\"role\":\"decode\"}");
    assert_true(hear(fd, "HTTP/1.1 404", 1, 10000)); /* nobody of that name is here */
    say(fd, "POST /v1/nodes/x/role HTTP/1.1\r\nHost: x\r\nOrigin: http://elsewhere\r\nContent-Type: "
            "text/plain\r\nContent-Length: 17\r\n\r\n"
            "{\"role\":\"decode\"}");
    assert_true(hear(fd, "HTTP/1.1 403", 1, 10000));
    (void)close(fd);
}

static void survives_bytes_that_are_not_http(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        const int fd = dial(&main_gateway);
        say(fd, i % 2 ? "\x16\x03\x01\x02\x01\x01\r\n\r\n"
                      : "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n");
        (void)hear(fd, "HTTP/1.1 400", 1, 10000);
        (void)close(fd);
    }
    answer a = get("/v1/models");
    assert_int_equal(a.status, 200);
    done(&a);
}

/* Waits until `want` requests are in the queue; false when it does not happen in time. */
static bool queue_becomes(int want)
{
    /* less than the 10 s after which the gateway itself gives up */
    const int64_t end = bt_clock_us() + 5000000;
    bool is_so = false;
    while (!is_so && bt_clock_us() < end) {
        answer a = get("/v1/status");
        is_so = json_integer_value(json_object_get(json_object_get(a.json, "queue"), "waiting")) == want;
        done(&a);
    }
    return is_so;
}

/* Whole and streamed; with two bits: closed at once, and closed after its sending side alone. */
static void cancels_a_waiting_request_when_its_client_leaves_and_not_when_it_half_closes(void **state)
{
    static const char body[] = "{\"prompt\":\"the\"}", stream[] = "{\"prompt\":\"the\",\"stream\":true}";
    (void)state;
    for (int i = 0; i < 4; i++) {
        char request[256];
        const int fd = dial(&main_gateway);
        const char *b = i & 1 ? stream : body;
        (void)snprintf(request, sizeof request,
                       "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", strlen(b),
                       b);
        say(fd, request);
        assert_true(queue_becomes(1));
        if (i & 2) assert_int_equal(shutdown(fd, SHUT_WR), 0);
        if (i & 2) assert_false(hear_end(fd, 1500)); /* longer than it takes to be looked at again */
        if (i & 2) assert_true(queue_becomes(1));
        (void)close(fd);
        assert_true(queue_becomes(0));
    }
}

static void answers_429_when_the_queue_is_full(void **state)
{
    (void)state;
    static const char request[] =
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"prompt\":\"the\"}";
    gateway g;
    start(&g, (const char *const[]){"--port", "0", "--max-queue", "1", "--drain-timeout", "0s", NULL});
    const int fd = dial(&g);
    say(fd, request);
    assert_true(read_until(&g, "request 1:"));
    answer a = ask(&g, "POST", "/v1/completions", "{\"prompt\":\"the\"}", 16, NULL);
    assert_non_null(strstr(a.headers, "Retry-After: "));
    is_error(a, 429, "queue_full", "");
    (void)close(fd);
    stop(&g);
}

static void an_idle_connection_gives_way_to_a_new_one(void **state)
{
    (void)state;
    static const char request[] = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
    gateway g;
    int fd[5];
    start(&g, (const char *const[]){"--port", "0", "--max-connections", "4", NULL});
    for (int i = 0; i < 4; i++) {
        fd[i] = dial(&g);
        say(fd[i], request);
        assert_true(hear(fd[i], "Keep-Alive: timeout=30", 1, 10000));
    }
    bool has_ended = false;
    for (const int64_t end = bt_clock_us() + DEADLINE_US; !has_ended && bt_clock_us() < end;) {
        fd[4] = dial(&g);
        say(fd[4], request);
        assert_true(hear(fd[4], "HTTP/1.1 200", 1, 10000)); /* a place there always is */
        has_ended = hear_end(fd[0], 20);                    /* that of the one idle for longest */
        if (!has_ended) (void)close(fd[4]);
    }
    assert_true(has_ended);
    say(fd[1], request);
    assert_true(hear(fd[1], "HTTP/1.1 200", 1, 10000));
    for (int i = 1; i < 5; i++) (void)close(fd[i]);
    stop(&g);
}

static void bytes_that_drip_win_no_time(void **state)
{
    (void)state;
    static const char *const begins[] = {
        "GET /health HTTP/1.1\r\nX: ",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n"};
    gateway g;
    int fd[2];
    bool has_ended[2] = {false, false};
    start(&g, (const char *const[]){"--port", "0", "--idle-timeout", "1s", NULL});
    for (int i = 0; i < 2; i++) say(fd[i] = dial(&g), begins[i]);
    for (const int64_t end = bt_clock_us() + DEADLINE_US;
         bt_clock_us() < end && !(has_ended[0] && has_ended[1]);)
        for (int i = 0; i < 2; i++) {
            if (has_ended[i]) continue;
            (void)send(fd[i], "a", 1, MSG_NOSIGNAL);
            has_ended[i] = hear_end(fd[i], 20);
        }
    assert_true(has_ended[0] && has_ended[1]);
    stop(&g);
}

static void when_all_places_are_busy_health_and_metrics_are_served_and_the_rest_is_told_so(void **state)
{
    (void)state;
    static const char busy[] =
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"prompt\":\"the\"}";
    gateway g;
    int fd[4];
    start(&g, (const char *const[]){"--port", "0", "--max-connections", "4", "--drain-timeout", "0s", NULL});
    for (int i = 0; i < 4; i++) {
        fd[i] = dial(&g);
        say(fd[i], busy);
    }
    assert_true(read_until(&g, "request 4:"));
    answer a = ask(&g, "GET", "/v1/models", NULL, 0, NULL);
    assert_non_null(strstr(a.headers, "Retry-After: 1"));
    assert_non_null(strstr(a.headers, "Connection: close"));
    is_error(a, 503, "overloaded", "");
    is_error(ask(&g, "GET", "/health", NULL, 0, NULL), 503, "no_node", "");
    a = ask(&g, "GET", "/metrics", NULL, 0, NULL);
    assert_int_equal(a.status, 200);
    done(&a);
    (void)close(fd[0]);
    assert_true(read_until(&g, "the client has gone"));
    a = ask(&g, "GET", "/v1/models", NULL, 0, NULL);
    assert_int_equal(a.status, 200);
    done(&a);
    for (int i = 1; i < 4; i++) (void)close(fd[i]);
    stop(&g);
}

static void a_page_of_the_named_origin_may_read_every_answer(void **state)
{
    (void)state;
    static const char allowed[] = "Access-Control-Allow-Origin: https://chat.example\r\n";
    gateway g;
    start(&g, (const char *const[]){"--port", "0", "--cors", "https://chat.example", "--api-key-file",
                                    key_file, NULL});
    answer a = ask(&g, "GET", "/nowhere", NULL, 0, NULL);
    assert_non_null(strstr(a.headers, allowed));
    assert_non_null(strstr(a.headers, "Vary: Origin"));
    is_error(a, 404, "not_found", "");
    a = ask(&g, "POST", "/v1/completions", "{}", 2, "Content-Encoding: gzip");
    assert_non_null(strstr(a.headers, allowed));
    is_error(a, 401, "invalid_api_key", "");
    const int fd = dial(&g); /* a browser asks first, without the key */
    say(fd, "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: https://chat.example\r\n"
            "Access-Control-Request-Method: POST\r\n"
            "Access-Control-Request-Headers: authorization, x-stainless-os\r\n\r\n");
    assert_true(hear(fd, "Access-Control-Allow-Headers: authorization, x-stainless-os", 1, 10000));
    say(fd, "OPTIONS /health HTTP/1.1\r\nHost: x\r\nOrigin: https://chat.example\r\n\r\n");
    assert_true(hear(fd, "HTTP/1.1 405", 1, 10000)); /* not what browsers ask; and the connection went on */
    (void)close(fd);
    stop(&g);
    a = get("/v1/models");
    assert_null(strstr(a.headers, "Access-Control"));
    done(&a);
    is_error(ask(&main_gateway, "OPTIONS", "/v1/models", NULL, 0, NULL), 405, "method_not_allowed", "");
}

static void answers_413_before_a_large_body_comes_and_the_client_reads_it(void **state)
{
    (void)state;
    static char block[1 << 20];
    const int fd = dial(&main_gateway), waits = dial(&main_gateway);
    say(waits, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
               "Content-Length: 100000000\r\n\r\n");
    assert_true(hear(waits, "HTTP/1.1 413", 1, 10000)); /* hear() would have shown a 100 before it */
    say(fd, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n");
    for (int i = 0; i < 100; i++)
        for (size_t at = 0; at < sizeof block;) {
            const ssize_t n = send(fd, block + at, sizeof block - at, MSG_NOSIGNAL);
            if (n <= 0) fail_msg("cut off after %d MiB", i);
            at += (size_t)n;
        }
    assert_true(hear(fd, "body_too_large", 1, 10000));
    (void)close(fd);
    (void)close(waits);
}

static void takes_a_target_with_a_host_and_a_path_with_a_slash_at_its_end(void **state)
{
    (void)state;
    answer a = get("/v1/models/");
    assert_int_equal(a.status, 200);
    done(&a);
    const int fd = dial(&main_gateway);
    say(fd, "GET http://example/v1/models HTTP/1.1\r\nHost: example\r\n\r\n");
    assert_true(hear(fd, "HTTP/1.1 200", 1, 10000));
    (void)close(fd);
}

static void refuses_a_compressed_body(void **state)
{
    (void)state;
    is_error(ask(&main_gateway, "POST", "/v1/completions", "\x1f\x8b", 2, "Content-Encoding: gzip"), 415,
             "unsupported_encoding", "");
}

static void asks_for_the_api_key_everywhere_but_at_health(void **state)
{
    (void)state;
    gateway g;
    start(&g, (const char *const[]){"--port", "0", "--api-key-file", key_file, "--no-metrics", NULL});
    answer a = ask(&g, "GET", "/v1/models", NULL, 0, NULL);
    assert_non_null(strstr(a.headers, "WWW-Authenticate: Bearer"));
    is_error(a, 401, "invalid_api_key", "");
    is_error(ask(&g, "POST", "/v1/completions", "{}", 2, "Authorization: Bearer wrong"), 401,
             "invalid_api_key", "");
    is_error(ask(&g, "POST", "/v1/completions", "{}", 2, "Authorization: Bearer hidden"), 400,
             "missing_required_parameter", "prompt");
    is_error(ask(&g, "GET", "/health", NULL, 0, NULL), 503, "no_node", "");
    is_error(ask(&g, "GET", "/metrics", NULL, 0, "Authorization: Bearer hidden"), 404, "not_found", "");
    stop(&g);
    assert_null(strstr(g.log, "hidden"));
}

static void names_the_port_that_is_in_use(void **state)
{
    (void)state;
    gateway g = {0};
    char port[16], control[128];
    (void)snprintf(port, sizeof port, "%u", main_gateway.port);
    (void)snprintf(control, sizeof control, "ipc://%s/control-x", folder);
    g.pid = spawn(&g.err, (const char *const[]){"--port", port, NULL}, control);
    assert_int_equal(wait_exit(&g), 1);
    assert_non_null(strstr(g.log, "Address already in use"));
    assert_non_null(strstr(g.log, port));
}

static void drains_on_sigterm_and_quits_at_once_on_a_second_signal(void **state)
{
    (void)state;
    static const char request[] =
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"prompt\":\"the\"}";
    gateway g;
    start(&g, (const char *const[]){"--port", "0", NULL});
    const int fd = dial(&g);
    say(fd, request);
    assert_true(read_until(&g, "request 1:"));
    assert_int_equal(kill(g.pid, SIGTERM), 0);
    assert_true(read_until(&g, "draining"));
    is_error(ask(&g, "GET", "/health", NULL, 0, NULL), 503, "draining", "");
    is_error(ask(&g, "POST", "/v1/completions", "{\"prompt\":\"the\"}", 16, NULL), 503, "draining", "");
    assert_int_equal(kill(g.pid, SIGINT), 0);
    assert_int_equal(wait_exit(&g), 0);
    assert_non_null(strstr(g.log, "second signal"));
    (void)close(fd);
}

static int setup(void **state)
{
    (void)state;
    if (!temp_folder_new(folder) || curl_global_init(CURL_GLOBAL_DEFAULT) != 0) return -1;
    (void)snprintf(model, sizeof model, "%s/tiny.gguf", folder);
    (void)snprintf(key_file, sizeof key_file, "%s/api.key", folder);
    tiny_gguf_spec spec = tiny_gguf_default();
    spec.chat_template = tiny_gguf_chatml;
    tiny_gguf_write(&spec, model);
    const int fd = open(key_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "hidden\n", 7) != 7 || close(fd) < 0) return -1;
    start(&main_gateway, (const char *const[]){"--port", "0", NULL});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stop(&main_gateway);
    curl_global_cleanup();
    return temp_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_503_while_no_node_is_there),
        cmocka_unit_test(refuses_bad_requests_with_the_field_named),
        cmocka_unit_test(says_both_numbers_when_a_prompt_is_too_long),
        cmocka_unit_test(knows_its_paths_and_methods),
        cmocka_unit_test(lists_the_model_under_its_file_name),
        cmocka_unit_test(gives_one_model_by_its_id_whatever_signs_that_has),
        cmocka_unit_test(tells_its_defaults_and_where_each_comes_from),
        cmocka_unit_test(describes_itself_to_everybody),
        cmocka_unit_test(gives_metrics_as_prometheus_text),
        cmocka_unit_test(gives_its_status_with_no_nodes),
        cmocka_unit_test(gives_back_a_good_request_id_and_makes_one_otherwise),
        cmocka_unit_test(refuses_a_body_past_the_limit_however_it_is_sent),
        cmocka_unit_test(answers_pipelined_requests_in_order_on_one_connection),
        cmocka_unit_test(survives_bytes_that_are_not_http),
        cmocka_unit_test(cancels_a_waiting_request_when_its_client_leaves_and_not_when_it_half_closes),
        cmocka_unit_test(answers_429_when_the_queue_is_full),
        cmocka_unit_test(an_idle_connection_gives_way_to_a_new_one),
        cmocka_unit_test(bytes_that_drip_win_no_time),
        cmocka_unit_test(when_all_places_are_busy_health_and_metrics_are_served_and_the_rest_is_told_so),
        cmocka_unit_test(a_page_of_the_named_origin_may_read_every_answer),
        cmocka_unit_test(answers_413_before_a_large_body_comes_and_the_client_reads_it),
        cmocka_unit_test(takes_a_target_with_a_host_and_a_path_with_a_slash_at_its_end),
        cmocka_unit_test(refuses_a_compressed_body),
        cmocka_unit_test(a_web_page_changes_no_node_s_role),
        cmocka_unit_test(asks_for_the_api_key_everywhere_but_at_health),
        cmocka_unit_test(names_the_port_that_is_in_use),
        cmocka_unit_test(drains_on_sigterm_and_quits_at_once_on_a_second_signal),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
