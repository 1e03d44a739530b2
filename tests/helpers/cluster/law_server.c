/* One thread: sockets by poll, and an engine whose next end is a time. See law_server.h. */
#include "tests/helpers/cluster/law_server.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 64, REQUEST_BYTES = 1 << 18, CONTEXT = 4096 };

typedef enum client_state { FREE = 0, READING, WAITING, COMPUTING, RUNNING, MUTE } client_state;
typedef struct client {
    client_state state;
    int fd;
    char *text; /* [REQUEST_BYTES + 1] */
    size_t len;
    uint64_t number; /* by arrival */
    uint32_t prompt, most, made;
    law_flaw flaw;
} client;

struct law_server {
    law law;
    law_flaw flaw;
    uint32_t after, asked;
    int listens, ends[2];
    char url[64];
    client client[CLIENTS];
    bool is_busy, is_step;
    int64_t until_us;
    pthread_t thread;
};

static double rows_of(const law *l, double n)
{
    double rows = 0, least = l->least_rows;
    if (!l->most_rows) return n;
    for (; n > l->most_rows; n -= l->most_rows) rows += l->most_rows;
    while (least < n) least *= 2;
    return rows + least;
}
double law_prompt_ms(const law *l, double n)
{
    return l->fixed_ms + l->token_ms * rows_of(l, n) + l->square_us / 1e3 * n * n;
}
double law_step_ms(const law *l, double batch, double ctx)
{
    return l->step_ms + l->row_ms * (batch - 1) + l->position_us / 1e3 * batch * ctx;
}

static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "law_server: %s: %s\n", what, strerror(errno));
    abort();
}

/* ---- answers ------------------------------------------------------------------------------------- */

/* Text that a client does not take is lost: it has gone. */
__attribute__((format(printf, 2, 3))) static void say(const client *c, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    must(n > 0 && (size_t)n < sizeof text, "an answer");
    (void)!send(c->fd, text, (size_t)n, MSG_NOSIGNAL);
}

static void let_go(client *c)
{
    (void)close(c->fd);
    c->fd = -1;
    c->state = FREE;
}

static void whole(client *c, int status, const char *body)
{
    say(c,
        "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nConnection: "
        "close\r\n\r\n%s",
        status, strlen(body), body);
    let_go(c);
}

static void say_end(client *c)
{
    const uint32_t prompt = c->flaw == LAW_LONG_PROMPTS ? 2 * c->prompt : c->prompt,
                   answer = c->flaw == LAW_LONG_ANSWERS   ? c->made + 1
                            : c->flaw == LAW_SHORT_COUNTS ? c->made - 1
                                                          : c->made;
    say(c,
        "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n"
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,"
        "\"prompt_tokens_details\":{\"cached_tokens\":%u}}}\n\ndata: [DONE]\n\n",
        prompt, answer, c->flaw == LAW_KEPT ? c->prompt / 2 : 0);
    let_go(c);
}

static void say_token(client *c)
{
    if (c->made++ == 0) {
        say(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
        c->state = RUNNING;
    }
    if (c->flaw == LAW_NO_JSON) say(c, "data: {\"choices\":\n\n");
    else if (c->flaw != LAW_ONE_PIECE || c->made == c->most)
        say(c, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n");
    if (c->flaw == LAW_CLOSES) let_go(c);
    else if (c->made == c->most) say_end(c);
}

/* ---- requests ------------------------------------------------------------------------------------ */

static void take_completion(law_server *s, client *c, const char *body)
{
    json_t *o = json_loads(body, 0, NULL);
    const json_t *prompt = json_object_get(o, "prompt");
    const json_int_t most = json_integer_value(json_object_get(o, "max_tokens"));
    const size_t n = json_array_size(prompt);
    json_decref(o);
    const law_flaw flaw = s->asked >= s->after ? s->flaw : LAW_NONE;
    s->asked++;
    if (!n || most < 1) {
        whole(c, 400,
              "{\"error\":{\"message\":\"prompts are token ids here\",\"type\":\"invalid_request_error\"}}");
    } else if (flaw == LAW_ERRORS) {
        whole(
            c, 500,
            "{\"error\":{\"message\":\"the engine is gone\",\"type\":\"server_error\",\"code\":\"engine\"}}");
    } else if (flaw == LAW_NO_HTTP) {
        say(c, "%s", "\x16\x03\x01 what is this?\r\n\r\n");
        let_go(c);
    } else {
        c->state = flaw == LAW_STALLS ? MUTE : WAITING;
        c->number = s->asked;
        c->prompt = (uint32_t)n;
        c->most = (uint32_t)most;
        c->made = 0;
        c->flaw = flaw;
    }
}

static void take_request(law_server *s, client *c, const char *body)
{
    char models[160];
    (void)snprintf(models, sizeof models, "{\"data\":[{\"id\":\"law\",\"max_model_len\":%d}]}", CONTEXT);
    if (strncmp(c->text, "POST /v1/completions ", 21) == 0) take_completion(s, c, body);
    else if (strncmp(c->text, "GET /v1/models ", 15) == 0) whole(c, 200, models);
    else whole(c, 404, "{\"error\":{\"message\":\"no such page\"}}");
}

static void hear(law_server *s, client *c)
{
    const ssize_t n = recv(c->fd, c->text + c->len, REQUEST_BYTES - c->len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        let_go(c);
        return;
    }
    if (c->state != READING) return; /* nothing more is expected */
    c->len += (size_t)n;
    c->text[c->len] = 0;
    const char *end = strstr(c->text, "\r\n\r\n"), *length = strstr(c->text, "Content-Length: ");
    const size_t body = length && end && length < end ? strtoul(length + 16, NULL, 10) : 0;
    if (end && c->len >= (size_t)(end + 4 - c->text) + body) take_request(s, c, end + 4);
    else must(c->len < REQUEST_BYTES, "a request that is too long");
}

static void greet(law_server *s)
{
    const int fd = accept(s->listens, NULL, NULL);
    client *c = s->client;
    while (c < s->client + CLIENTS && c->state != FREE) c++;
    must(fd >= 0 && c < s->client + CLIENTS, "a connection");
    if (!c->text) c->text = malloc(REQUEST_BYTES + 1);
    must(c->text != NULL, "memory");
    c->state = READING;
    c->fd = fd;
    c->len = 0;
}

/* ---- the engine ---------------------------------------------------------------------------------- */

static client *next_prompt(law_server *s)
{
    client *first = NULL;
    for (client *c = s->client; c < s->client + CLIENTS; c++)
        if (c->state == WAITING && (!first || c->number < first->number)) first = c;
    return first;
}

/* The next piece of work begins when the one before was due to end, or now where there was none. */
static void begin_work(law_server *s, int64_t at_us)
{
    client *prompt = next_prompt(s);
    double batch = 0, ctx = 0;
    s->is_step = !prompt;
    for (client *c = s->client; !prompt && c < s->client + CLIENTS; c++) {
        batch += c->state == RUNNING;
        ctx += c->state == RUNNING ? c->prompt + c->made : 0;
    }
    s->is_busy = prompt || batch > 0;
    if (prompt) prompt->state = COMPUTING;
    if (s->is_busy)
        s->until_us = at_us + (int64_t)(1e3 * (prompt ? law_prompt_ms(&s->law, prompt->prompt)
                                                      : law_step_ms(&s->law, batch, ctx / batch)));
}

static void end_work(law_server *s)
{
    for (client *c = s->client; c < s->client + CLIENTS; c++)
        if (c->state == (s->is_step ? RUNNING : COMPUTING)) say_token(c);
}

static void *serve(void *ud)
{
    law_server *s = ud;
    for (;;) {
        struct pollfd p[CLIENTS + 2] = {{.fd = s->ends[0], .events = POLLIN},
                                        {.fd = s->listens, .events = POLLIN}};
        const int64_t now = bt_clock_us(), wait = s->until_us > now ? s->until_us - now : 0;
        const struct timespec t = {.tv_sec = wait / 1000000, .tv_nsec = wait % 1000000 * 1000};
        for (int i = 0; i < CLIENTS; i++)
            p[i + 2] = (struct pollfd){.fd = s->client[i].state ? s->client[i].fd : -1, .events = POLLIN};
        if (ppoll(p, CLIENTS + 2, s->is_busy ? &t : NULL, NULL) < 0) must(errno == EINTR, "ppoll");
        if (p[0].revents) return NULL;
        for (int i = 0; i < CLIENTS; i++)
            if (p[i + 2].fd >= 0 && p[i + 2].revents) hear(s, &s->client[i]);
        if (p[1].revents) greet(s);
        const int64_t due = s->until_us;
        if (!s->is_busy) begin_work(s, bt_clock_us());
        else if (bt_clock_us() >= due) {
            end_work(s);
            begin_work(s, due);
        }
    }
}

/* ---- from its start to its end ------------------------------------------------------------------- */

law_server *law_server_start(const law *l, law_flaw flaw, uint32_t after)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    law_server *s = calloc(1, sizeof *s);
    must(s != NULL, "memory");
    s->law = *l;
    s->flaw = flaw;
    s->after = after;
    s->listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(s->listens >= 0 && bind(s->listens, (struct sockaddr *)&a, len) == 0 &&
             listen(s->listens, CLIENTS) == 0 && getsockname(s->listens, (struct sockaddr *)&a, &len) == 0 &&
             pipe(s->ends) == 0,
         "a port");
    (void)snprintf(s->url, sizeof s->url, "http://127.0.0.1:%u", ntohs(a.sin_port));
    must(pthread_create(&s->thread, NULL, serve, s) == 0, "a thread");
    return s;
}

const char *law_server_url(const law_server *s) { return s->url; }

uint32_t law_server_stop(law_server *s)
{
    must(write(s->ends[1], "", 1) == 1 && pthread_join(s->thread, NULL) == 0, "its end");
    for (client *c = s->client; c < s->client + CLIENTS; c++) {
        if (c->state) (void)close(c->fd);
        free(c->text);
    }
    (void)close(s->listens);
    (void)close(s->ends[0]);
    (void)close(s->ends[1]);
    const uint32_t asked = s->asked;
    free(s);
    return asked;
}
