/* The load generator: curl's sockets in one epoll, one timer for whatever comes next. A stream is a slot with
 * an easy handle that is used again for later requests, so that connections stay open. */
#include "lab/replay/load.h"
#include "base/clock.h"
#include "tools/cluster/http.h"
#include "tools/cluster/sse.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    ERROR_BODY_BYTES = 64 << 10,
    BODY_BYTES = 256 << 20,
    STATUS_BYTES = 4 << 20,
    PROGRESS_US = 250000,
    EVENTS = 256
};
enum { OTHER_FILES = 64 };

typedef struct load load;

typedef struct stream {
    load *of;
    CURL *curl;
    bt_buf body, error; /* what is sent; an answer that is no stream */
    tool_sse sse;
    tool_replay_heard heard;
    tool_replay_record record;
    int is_events; /* -1: not known yet */
    bool is_broken;
    char words[CURL_ERROR_SIZE];
} stream;

typedef struct waiting {
    int64_t due_us;
    uint32_t item;
} waiting;

struct load {
    const tool_replay_load *o;
    tool_replay_result *r;
    CURLM *multi;
    struct curl_slist *headers, *key_headers[TOOL_REPLAY_KEYS]; /* of all; of requests of a key of its own */
    char url[2048], status_url[2048];
    int epoll, timer;
    int64_t begin_us, curl_us, sample_us, progress_us; /* since the clock's zero; -1: no timer */
    stream *stream;                                    /* [streams] */
    uint32_t *free;                                    /* numbers of streams that are free */
    uint32_t frees, in_flight, streams;
    stream *ready; /* its body is made for ready_item */
    uint32_t ready_item;
    waiting *later;      /* follow-ups, a heap by due time */
    size_t laters, next; /* next: of the plan's order */
    size_t sent, failed;
    uint64_t pieces;
    uint32_t *word;
    size_t word_cap;
    CURL *status;
    bt_buf status_body;
    bool is_asking, knows_status;
    bt_err err;
};

static int64_t now_of(const load *l) { return bt_clock_us() - l->begin_us; }

/* ---- curl's sockets and timer -------------------------------------------------------------------- */

static int on_socket(CURL *c, curl_socket_t fd, int what, void *ud, void *known)
{
    load *l = ud;
    struct epoll_event e = {.data.fd = fd};
    (void)c;
    if (what == CURL_POLL_REMOVE) {
        (void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    e.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    if (epoll_ctl(l->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e) < 0 &&
        epoll_ctl(l->epoll, known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &e) < 0)
        l->err = BT_EIO;
    (void)curl_multi_assign(l->multi, fd, l);
    return 0;
}

static int on_timer(CURLM *m, long ms, void *ud)
{
    load *l = ud;
    (void)m;
    l->curl_us = ms < 0 ? -1 : bt_clock_us() + ms * 1000;
    return 0;
}

/* ---- answers ------------------------------------------------------------------------------------- */

static bool on_event(void *ud, const char *data, size_t len)
{
    stream *s = ud;
    int64_t gap = -1;
    const int64_t now = now_of(s->of);
    if (tool_replay_wire_event(&s->heard, &s->record, &gap, data, len, now)) {
        s->of->pieces++;
        if (s->of->o->piece) s->of->o->piece(s->of->o->ud, s->record.item, now);
    }
    if (gap >= 0) tool_replay_result_gap(s->of->r, now, gap);
    return s->heard.failure[0] == 0;
}

static size_t on_bytes(char *bytes, size_t one, size_t n, void *ud)
{
    stream *s = ud;
    (void)one; /* always 1 */
    if (s->is_events < 0) {
        char *type = NULL;
        long status = 0;
        (void)curl_easy_getinfo(s->curl, CURLINFO_CONTENT_TYPE, &type);
        (void)curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
        s->is_events = status == 200 && type && strncmp(type, "text/event-stream", 17) == 0;
    }
    if (!s->is_events) {
        (void)bt_buf_add(&s->error, bytes, n); /* what is too long is cut: an error's name is in its beginning
                                                */
        return n;
    }
    const bt_err e = tool_sse_feed(&s->sse, bytes, n, on_event, s);
    s->is_broken = e < 0;
    return e < 0 ? 0 : n;
}

static size_t on_status(char *bytes, size_t one, size_t n, void *ud)
{
    load *l = ud;
    (void)one;
    return bt_buf_add(&l->status_body, bytes, n) == BT_OK ? n : 0;
}

/* ---- requests ------------------------------------------------------------------------------------ */

/* Trusts whom the set-up of tool_http names. */
static bool trust(CURL *c)
{
    return !tool_http_ca_file() || !curl_easy_setopt(c, CURLOPT_CAINFO, tool_http_ca_file());
}

static bool open_stream(load *l, stream *s)
{
    s->of = l;
    bt_buf_init(&s->body, BODY_BYTES);
    bt_buf_init(&s->error, ERROR_BODY_BYTES);
    tool_sse_init(&s->sse);
    s->curl = curl_easy_init();
    CURL *c = s->curl;
    return c && trust(c) && !curl_easy_setopt(c, CURLOPT_URL, l->url) &&
           !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) &&
           !curl_easy_setopt(c, CURLOPT_NOPROXY, "127.0.0.1,localhost,::1") &&
           !curl_easy_setopt(c, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1) &&
           !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, 10000L) &&
           !curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)l->o->timeout_ms) &&
           !curl_easy_setopt(c, CURLOPT_HTTPHEADER, l->headers) &&
           !curl_easy_setopt(c, CURLOPT_ERRORBUFFER, s->words) &&
           !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes) &&
           !curl_easy_setopt(c, CURLOPT_WRITEDATA, s) && !curl_easy_setopt(c, CURLOPT_PRIVATE, s);
}

/* Puts the body of this request into the stream that is ready, else into a free one, which is then. Streams
 * are opened when they are first needed. */
static bool prepare(load *l, uint32_t number)
{
    const tool_replay_item *item = &l->o->plan->item[number];
    if (!l->ready) l->ready = &l->stream[l->free[--l->frees]];
    stream *s = l->ready;
    const size_t n = item->ids_len && l->o->dialect->takes_ids
                         ? 0
                         : tool_replay_wire_words(l->o->dialect, item->prompt_tokens);
    if (!s->curl && !open_stream(l, s)) goto no_memory;
    if (n > l->word_cap) {
        uint32_t *more = reallocarray(l->word, n, sizeof *more);
        if (!more) goto no_memory;
        l->word = more;
        l->word_cap = n;
    }
    if (n) tool_replay_words_draw(l->word, n, l->o->plan, item, l->o->words, l->o->seed);
    bt_buf_clear(&s->body);
    tool_replay_wire_body(&s->body, l->o->dialect, l->o->plan, item, l->o->words, n ? l->word : NULL, n);
    if (s->body.err < 0) goto no_memory;
    l->ready_item = number;
    return true;
no_memory:
    l->err = BT_ENOMEM;
    return false;
}

static void send_it(load *l, stream *s, uint32_t number, int64_t due_us)
{
    const tool_replay_item *item = &l->o->plan->item[number];
    tool_sse_done(&s->sse);
    tool_sse_init(&s->sse);
    bt_buf_clear(&s->error);
    s->is_events = -1;
    s->is_broken = false;
    s->heard = (tool_replay_heard){.text_hash = TOOL_REPLAY_TEXT_HASH};
    s->record = tool_replay_record_due(number, item->prompt_tokens, item->output_tokens, due_us);
    s->record.sent_us = now_of(l);
    l->sent++;
    if (++l->in_flight > l->r->most_streams) l->r->most_streams = l->in_flight;
    struct curl_slist *own = item->key ? l->key_headers[item->key - 1] : NULL;
    if (curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, own ? own : l->headers) ||
        curl_easy_setopt(s->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->body.len) ||
        curl_easy_setopt(s->curl, CURLOPT_POSTFIELDS, bt_buf_text(&s->body)) ||
        curl_multi_add_handle(l->multi, s->curl))
        l->err = BT_ENOMEM;
}

static void push_later(load *l, int64_t due_us, uint32_t item)
{
    size_t i = l->laters++;
    for (; i > 0 && l->later[(i - 1) / 2].due_us > due_us; i = (i - 1) / 2)
        l->later[i] = l->later[(i - 1) / 2];
    l->later[i] = (waiting){due_us, item};
}

static waiting pop_later(load *l)
{
    const waiting least = l->later[0], last = l->later[--l->laters];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < l->laters; i = c) {
        if (c + 1 < l->laters && l->later[c + 1].due_us < l->later[c].due_us) c++;
        if (l->later[c].due_us >= last.due_us) break;
        l->later[i] = l->later[c];
    }
    l->later[i] = last;
    return least;
}

static const char *failure_of(stream *s, CURLcode code, char name[TOOL_REPLAY_KIND_BYTES])
{
    long status = 0;
    (void)curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    if (s->heard.failure[0]) return s->heard.failure;
    if (s->is_broken) return "bad_stream";
    if (code == CURLE_OPERATION_TIMEDOUT) return "client_timeout";
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST) return "no_connection";
    if (code != CURLE_OK && s->is_events != 0) return "cut_off";
    if (s->is_events != 1) {
        tool_replay_wire_failure(name, status, bt_buf_text(&s->error), s->error.len);
        return name;
    }
    return s->heard.is_over ? NULL : "cut_off";
}

static void record_end(load *l, stream *s, const char *failure)
{
    const tool_replay_item *item = &l->o->plan->item[s->record.item];
    tool_replay_record *r = &s->record;
    r->end_us = now_of(l);
    if (!s->heard.has_usage) r->completion_tokens = r->events;
    if (!s->heard.has_usage && l->o->dialect->has_no_usage) r->prompt_tokens = r->want_prompt;
    if (failure) r->kind = tool_replay_result_kind(l->r, failure);
    r->is_short = !failure && !item->ends_itself && r->completion_tokens < r->want_output;
    if (!failure && item->has_answer && item->ids_len && l->o->dialect->takes_ids) {
        r->was_compared = true;
        r->is_equal = s->heard.text_hash == item->answer_hash;
    }
    if (s->heard.node[0]) {
        const size_t k = tool_replay_result_node(l->r, s->heard.node, "");
        r->node = k < TOOL_REPLAY_MAX_NODES ? (uint16_t)k : TOOL_REPLAY_NOBODY;
    }
    tool_replay_result_chunks(l->r, r, s->heard.chunk, s->heard.chunks);
    tool_replay_result_add(l->r, r);
    l->failed += failure != NULL;
    if (item->next != TOOL_REPLAY_NONE)
        push_later(l, r->end_us + l->o->plan->item[item->next].delay_us, item->next);
    l->in_flight--;
    l->free[l->frees++] = (uint32_t)(s - l->stream);
}

static void end_status(load *l)
{
    tool_replay_sample *s = tool_replay_result_sample(l->r);
    s->at_us = now_of(l);
    s->in_flight = l->in_flight;
    if (l->is_asking)
        l->knows_status = tool_replay_wire_status(s, l->r, bt_buf_text(&l->status_body), l->status_body.len);
    l->is_asking = false;
}

static void take_ended(load *l)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(l->multi, &left));) {
        stream *s = NULL;
        char name[TOOL_REPLAY_KIND_BYTES];
        CURL *c = m->easy_handle;
        const CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE) continue;
        (void)curl_easy_getinfo(c, CURLINFO_PRIVATE, (char **)&s);
        (void)curl_multi_remove_handle(l->multi, c);
        if (s) record_end(l, s, failure_of(s, code, name));
        else end_status(l);
    }
}

/* ---- what is due --------------------------------------------------------------------------------- */

/* The next request, and when it should be sent; false: none, until an answer ends. */
static bool next_due(const load *l, uint32_t *item, int64_t *due_us, bool *is_later)
{
    const tool_replay_plan *p = l->o->plan;
    const bool has_order = l->next < p->order_len;
    if (!has_order && l->laters == 0) return false;
    const uint32_t first = has_order ? p->order[l->next] : 0;
    const int64_t order_us = has_order ? (l->o->concurrency ? 0 : p->item[first].due_us) : INT64_MAX;
    *is_later =
        l->laters > 0 && l->later[0].due_us <= (l->o->concurrency && has_order ? now_of(l) : order_us);
    *item = *is_later ? l->later[0].item : first;
    *due_us = *is_later ? l->later[0].due_us : order_us;
    return true;
}

/* Sends all that is due. *ret_us: when the next one is, -1: nothing to wait for. */
static void send_due(load *l, int64_t *ret_us)
{
    uint32_t item;
    int64_t due_us;
    bool is_later;
    *ret_us = -1;
    while (l->err == BT_OK && next_due(l, &item, &due_us, &is_later)) {
        if (l->o->concurrency && l->in_flight >= l->o->concurrency) return;
        if (l->frees == 0 && !l->ready) {
            l->r->hit_streams_limit |= due_us <= now_of(l);
            return;
        }
        if ((!l->ready || l->ready_item != item) && !prepare(l, item)) return;
        const int64_t now = now_of(l);
        if (due_us > now) {
            *ret_us = due_us;
            return;
        }
        if (is_later) (void)pop_later(l);
        else l->next++;
        send_it(l, l->ready, item, l->o->concurrency ? now : due_us);
        l->ready = NULL;
    }
}

static void ask_status(load *l, int64_t now)
{
    if (now < l->sample_us || l->is_asking) return;
    l->sample_us = now + l->r->sample_every_us;
    if (!l->knows_status) {
        end_status(l);
        return;
    }
    bt_buf_clear(&l->status_body);
    l->is_asking = curl_multi_add_handle(l->multi, l->status) == CURLM_OK;
}

static void tell_progress(load *l, int64_t now)
{
    if (!l->o->progress || now < l->progress_us) return;
    l->progress_us = now + PROGRESS_US;
    const tool_replay_progress p = {now,       l->in_flight,    l->sent,  l->r->len,
                                    l->failed, l->o->plan->len, l->pieces};
    l->o->progress(l->o->ud, &p);
}

static void set_timer(load *l, int64_t due_us)
{
    const int64_t now = now_of(l);
    int64_t next = l->sample_us < l->progress_us || !l->o->progress ? l->sample_us : l->progress_us;
    if (l->is_asking && l->o->progress) next = l->progress_us;
    if (l->is_asking && !l->o->progress) next = now + PROGRESS_US;
    if (due_us >= 0 && due_us < next) next = due_us;
    if (l->curl_us >= 0 && l->curl_us - l->begin_us < next) next = l->curl_us - l->begin_us;
    const int64_t wait = next > now ? next - now : 1;
    const struct itimerspec t = {.it_value = {.tv_sec = wait / 1000000, .tv_nsec = wait % 1000000 * 1000}};
    (void)timerfd_settime(l->timer, 0, &t, NULL);
}

static void turn(load *l)
{
    struct epoll_event event[EVENTS];
    int running;
    int64_t due_us;
    send_due(l, &due_us);
    set_timer(l, due_us);
    const int n = epoll_wait(l->epoll, event, EVENTS, 1000);
    for (int i = 0; i < n; i++) {
        uint64_t ticks;
        if (event[i].data.fd == l->timer) {
            (void)!read(l->timer, &ticks, sizeof ticks);
            continue;
        }
        const uint32_t e = event[i].events;
        (void)curl_multi_socket_action(l->multi, event[i].data.fd,
                                       (e & EPOLLIN ? CURL_CSELECT_IN : 0) |
                                           (e & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                                           (e & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0),
                                       &running);
    }
    if (l->curl_us >= 0 && bt_clock_us() >= l->curl_us) {
        l->curl_us = -1;
        (void)curl_multi_socket_action(l->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    take_ended(l);
    const int64_t now = now_of(l);
    ask_status(l, now);
    tell_progress(l, now);
}

/* ---- from the beginning to the end --------------------------------------------------------------- */

static bt_err allow_files(uint32_t streams, bt_fault *fault)
{
    struct rlimit r;
    const rlim_t want = (rlim_t)streams + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur >= want) return BT_OK;
    r.rlim_cur = r.rlim_max < want ? r.rlim_max : want;
    if (setrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur >= want) return BT_OK;
    return bt_fail(
        fault, BT_ELIMIT,
        "%u streams need %llu open files, and %llu are allowed: raise 'ulimit -n' or lower --streams",
        streams, (unsigned long long)want, (unsigned long long)r.rlim_max);
}

/* The headers of a request; secret NULL: it has no key. Behind the key may stand fields of its line in a
 * file. */
static bool make_headers(struct curl_slist **ret, const char *secret)
{
    char key[1024];
    struct curl_slist *a = curl_slist_append(NULL, "Content-Type: application/json");
    struct curl_slist *b = a ? curl_slist_append(a, "Expect:") : NULL;
    *ret = b ? b : a;
    if (!b || !secret) return b != NULL;
    (void)snprintf(key, sizeof key, "Authorization: Bearer %.*s", (int)strcspn(secret, " \t\r\n"), secret);
    struct curl_slist *c = curl_slist_append(b, key);
    explicit_bzero(key, sizeof key);
    return c != NULL;
}

static bool set_headers(load *l)
{
    const tool_replay_secrets *s = l->o->secrets;
    bool ok = make_headers(&l->headers, l->o->api_key);
    for (size_t i = 0; ok && s && i < l->o->plan->keys; i++)
        if (s->of[i]) ok = make_headers(&l->key_headers[i], s->of[i]);
    return ok;
}

static bool open_status(load *l)
{
    l->status = curl_easy_init();
    l->knows_status = l->o->dialect->is_baton;
    bt_buf_init(&l->status_body, STATUS_BYTES);
    return l->status && trust(l->status) && !curl_easy_setopt(l->status, CURLOPT_URL, l->status_url) &&
           !curl_easy_setopt(l->status, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl_easy_setopt(l->status, CURLOPT_NOSIGNAL, 1L) &&
           !curl_easy_setopt(l->status, CURLOPT_NOPROXY, "127.0.0.1,localhost,::1") &&
           !curl_easy_setopt(l->status, CURLOPT_TIMEOUT_MS, 10000L) &&
           !curl_easy_setopt(l->status, CURLOPT_HTTPHEADER, l->headers) &&
           !curl_easy_setopt(l->status, CURLOPT_WRITEFUNCTION, on_status) &&
           !curl_easy_setopt(l->status, CURLOPT_WRITEDATA, l);
}

static bt_err open_load(load *l, bt_fault *fault)
{
    const bt_err e = allow_files(l->streams, fault);
    if (e < 0) return e;
    const int a = snprintf(l->url, sizeof l->url, "%s/v1/completions", l->o->url);
    const int b = snprintf(l->status_url, sizeof l->status_url, "%s/v1/status", l->o->url);
    if (a < 0 || b < 0 || (size_t)a >= sizeof l->url || (size_t)b >= sizeof l->status_url)
        return bt_fail(fault, BT_EARG, "the URL is longer than %zu bytes", sizeof l->url - 32);
    l->stream = calloc(l->streams, sizeof *l->stream);
    l->free = calloc(l->streams, sizeof *l->free);
    l->later = calloc(l->o->plan->len, sizeof *l->later);
    l->multi = curl_multi_init();
    if (!l->stream || !l->free || !l->later || !l->multi || !set_headers(l) || !open_status(l) ||
        curl_multi_setopt(l->multi, CURLMOPT_SOCKETFUNCTION, on_socket) ||
        curl_multi_setopt(l->multi, CURLMOPT_SOCKETDATA, l) ||
        curl_multi_setopt(l->multi, CURLMOPT_TIMERFUNCTION, on_timer) ||
        curl_multi_setopt(l->multi, CURLMOPT_TIMERDATA, l) ||
        curl_multi_setopt(l->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING) ||
        curl_multi_setopt(l->multi, CURLMOPT_MAXCONNECTS, (long)l->streams + 1))
        return bt_fail(fault, BT_ENOMEM, "out of memory for %u streams", l->streams);
    while (l->frees < l->streams) {
        l->free[l->frees] = l->streams - 1 - l->frees;
        l->frees++;
    }
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event timer = {.events = EPOLLIN, .data.fd = l->timer};
    if (l->epoll < 0 || l->timer < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->timer, &timer) < 0)
        return bt_fail(fault, BT_EIO, "cannot watch connections with epoll: %s", strerror(errno));
    return BT_OK;
}

static void close_load(load *l)
{
    for (uint32_t i = 0; l->stream && i < l->streams; i++) {
        stream *s = &l->stream[i];
        if (!s->curl) continue;
        (void)curl_multi_remove_handle(l->multi, s->curl);
        curl_easy_cleanup(s->curl);
        tool_sse_done(&s->sse);
        bt_buf_done(&s->body);
        bt_buf_done(&s->error);
    }
    if (l->status) {
        (void)curl_multi_remove_handle(l->multi, l->status);
        curl_easy_cleanup(l->status);
        bt_buf_done(&l->status_body);
    }
    if (l->multi) (void)curl_multi_cleanup(l->multi);
    curl_slist_free_all(l->headers);
    for (size_t i = 0; i < TOOL_REPLAY_KEYS; i++) curl_slist_free_all(l->key_headers[i]);
    if (l->epoll >= 0) close(l->epoll);
    if (l->timer >= 0) close(l->timer);
    free(l->stream);
    free(l->free);
    free(l->later);
    free(l->word);
}

static int64_t cpu_us(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000LL + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

/* The end of requests that are on their way when somebody loses patience. */
static void interrupt_rest(load *l)
{
    bool *is_free = calloc(l->streams, sizeof *is_free);
    for (uint32_t i = 0; is_free && i < l->frees; i++) is_free[l->free[i]] = true;
    for (uint32_t i = 0; is_free && i < l->streams; i++)
        if (!is_free[i] && &l->stream[i] != l->ready) record_end(l, &l->stream[i], "interrupted");
    free(is_free);
}

bt_err tool_replay_load_run(tool_replay_result *ret, const tool_replay_load *o, bt_fault *fault)
{
    const size_t most = o->concurrency ? o->concurrency : o->streams;
    load l = {.o = o, .r = ret, .epoll = -1, .timer = -1, .curl_us = -1};
    l.streams = (uint32_t)(most < o->plan->len ? most : o->plan->len);
    bt_err e = open_load(&l, fault);
    if (e == BT_OK) {
        const int64_t cpu = cpu_us();
        l.begin_us = bt_clock_us();
        while (l.err == BT_OK && !(o->stop && *o->stop) &&
               (l.in_flight || l.laters || l.next < o->plan->order_len))
            turn(&l);
        ret->cpu_us = cpu_us() - cpu;
        if (l.err < 0) e = bt_fail(fault, l.err, "requests cannot be sent: %s", bt_err_name(l.err));
        else if (o->stop && *o->stop) {
            interrupt_rest(&l);
            e = bt_fail(fault, BT_ECANCEL, "interrupted");
        }
    }
    close_load(&l);
    return e;
}
