/* See client.h. */
#include "tests/helpers/cluster/client.h"
#include "base/buf.h"
#include "tests/helpers/cluster/spawn.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct client {
    client *next;
    CURL *curl;
    struct curl_slist *headers;
    bt_buf body;
    bool is_over, is_whole, is_stream;
    long status, retry_after;
    int64_t begin_ms, end_ms;
    json_t *json;
};

static CURLM *multi;
static client *first;
static char key_line[320];       /* "": no key */
static const char *from_address; /* NULL: any */
static const char *trust_file;   /* NULL: the system's */

static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "client: %s\n", what);
    abort();
}

void client_setup(void)
{
    must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "libcurl");
    must((multi = curl_multi_init()) != NULL, "libcurl multi");
}

void client_cleanup(void)
{
    (void)client_teardown(NULL);
    curl_multi_cleanup(multi);
    curl_global_cleanup();
}

int client_teardown(void **state)
{
    (void)state;
    key_line[0] = 0;
    from_address = trust_file = NULL;
    while (first) client_end(first);
    return 0;
}

static size_t on_body(char *bytes, size_t one, size_t n, void *ud)
{
    client *c = ud;
    (void)one;
    return bt_buf_add(&c->body, bytes, n) < 0 ? 0 : n;
}

static size_t on_header(char *line, size_t one, size_t n, void *ud)
{
    client *c = ud;
    char text[256];
    (void)one;
    snprintf(text, sizeof text, "%.*s", (int)n, line);
    if (strncasecmp(text, "Retry-After:", 12) == 0) c->retry_after = strtol(text + 12, NULL, 10);
    if (strncasecmp(text, "Content-Type: text/event-stream", 31) == 0) c->is_stream = true;
    return n;
}

void client_use_key(const char *key)
{
    key_line[0] = 0;
    if (key)
        must(snprintf(key_line, sizeof key_line, "Authorization: Bearer %s", key) < (int)sizeof key_line,
             "key");
}

void client_use_bare_key(const char *key)
{
    must(snprintf(key_line, sizeof key_line, "X-Api-Key: %s", key) < (int)sizeof key_line, "key");
}

void client_use_address(const char *address) { from_address = address; }
void client_use_trust(const char *file) { trust_file = file; }

client *client_begin(const char *url, const char *path, const void *body, size_t len)
{
    char whole[512];
    client *c = calloc(1, sizeof *c);
    must(c && (c->curl = curl_easy_init()), "memory");
    bt_buf_init(&c->body, 64 << 20);
    c->retry_after = -1;
    c->begin_ms = spawn_now_ms();
    snprintf(whole, sizeof whole, "%s%s", url, path);
    bool ok = !curl_easy_setopt(c->curl, CURLOPT_URL, whole) &&
              !curl_easy_setopt(c->curl, CURLOPT_NOPROXY, "*") &&
              !curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L) &&
              !curl_easy_setopt(c->curl, CURLOPT_FRESH_CONNECT, 1L) &&
              !curl_easy_setopt(c->curl, CURLOPT_FORBID_REUSE, 1L) &&
              !curl_easy_setopt(c->curl, CURLOPT_PRIVATE, c) &&
              !curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, on_body) &&
              !curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, c) &&
              !curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, on_header) &&
              !curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, c);
    if (trust_file) ok = ok && !curl_easy_setopt(c->curl, CURLOPT_CAINFO, trust_file);
    if (from_address) ok = ok && !curl_easy_setopt(c->curl, CURLOPT_INTERFACE, from_address);
    if (key_line[0]) c->headers = curl_slist_append(c->headers, key_line);
    if (body) {
        c->headers = curl_slist_append(c->headers, "Content-Type: application/json");
        c->headers = curl_slist_append(c->headers, "Expect:");
        ok = ok && !curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE, (long)len) &&
             !curl_easy_setopt(c->curl, CURLOPT_COPYPOSTFIELDS, body);
    }
    ok = ok && !curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers);
    must(ok && curl_multi_add_handle(multi, c->curl) == CURLM_OK, "set-up");
    c->next = first;
    first = c;
    return c;
}

client *client_post(const char *url, const char *path, const json_t *body)
{
    char *text = json_dumps(body, JSON_COMPACT);
    must(text != NULL, "a request that is no JSON");
    client *c = client_begin(url, path, text, strlen(text));
    free(text);
    return c;
}

client *client_get(const char *url, const char *path) { return client_begin(url, path, NULL, 0); }

void client_end(client *c)
{
    client **at = &first;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    curl_multi_remove_handle(multi, c->curl);
    curl_easy_cleanup(c->curl);
    curl_slist_free_all(c->headers);
    json_decref(c->json);
    bt_buf_done(&c->body);
    free(c);
}

void client_step(void)
{
    int running, left;
    must(curl_multi_poll(multi, NULL, 0, 10, NULL) == CURLM_OK &&
             curl_multi_perform(multi, &running) == CURLM_OK,
         "perform");
    for (CURLMsg *m; (m = curl_multi_info_read(multi, &left));) {
        client *c = NULL;
        if (m->msg != CURLMSG_DONE) continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
        c->is_over = true;
        c->is_whole = m->data.result == CURLE_OK;
        c->end_ms = spawn_now_ms();
        curl_easy_getinfo(m->easy_handle, CURLINFO_RESPONSE_CODE, &c->status);
    }
}

bool client_wait(client *c, int64_t ms)
{
    for (const int64_t end = spawn_now_ms() + ms; !c->is_over && spawn_now_ms() < end;) client_step();
    return c->is_whole;
}

bool client_wait_text(client *c, const char *text, int64_t ms)
{
    const int64_t end = spawn_now_ms() + ms;
    while (!strstr(client_body(c), text) && !c->is_over && spawn_now_ms() < end) client_step();
    return strstr(client_body(c), text) != NULL;
}

bool client_is_over(const client *c) { return c->is_over; }
long client_status(const client *c) { return c->status; }
const char *client_body(const client *c) { return bt_buf_text(&c->body); }
long client_retry_after(const client *c) { return c->retry_after; }
int64_t client_ms(const client *c) { return (c->is_over ? c->end_ms : spawn_now_ms()) - c->begin_ms; }

/* Events are separated by an empty line; ours are one "data: " line each, comments begin with a colon. */
static json_t *parse_stream(const char *at)
{
    json_t *events = json_array();
    while (*at) {
        const size_t n = strcspn(at, "\n");
        if (n > 6 && memcmp(at, "data: ", 6) == 0 && strncmp(at + 6, "[DONE]", 6) != 0) {
            json_t *event = json_loadb(at + 6, n - 6, JSON_ALLOW_NUL, NULL);
            if (!event) {
                json_decref(events);
                return NULL;
            }
            json_array_append_new(events, event);
        }
        at += n + (at[n] == '\n');
    }
    return events;
}

json_t *client_json(client *c)
{
    if (!c->json)
        c->json =
            c->is_stream ? parse_stream(client_body(c)) : json_loads(client_body(c), JSON_ALLOW_NUL, NULL);
    return c->json;
}

bool client_is_done(const client *c)
{
    static const char done[] = "data: [DONE]\n\n";
    const size_t n = sizeof done - 1;
    return c->is_whole && c->body.len >= n && strcmp(client_body(c) + c->body.len - n, done) == 0;
}

/* A model may say a NUL; in the text it stands as the two characters \0. */
static void add_piece(bt_buf *text, const json_t *object)
{
    const json_t *choice = json_array_get(json_object_get(object, "choices"), 0),
                 *piece = json_object_get(choice, "text");
    if (!piece) piece = json_object_get(json_object_get(choice, "delta"), "content");
    if (!piece) piece = json_object_get(json_object_get(choice, "message"), "content");
    const char *at = json_string_value(piece), *end = at ? at + json_string_length(piece) : NULL;
    for (; at < end; at += strlen(at) + 1) {
        (void)bt_buf_str(text, at);
        if (at + strlen(at) < end) (void)bt_buf_str(text, "\\0");
    }
}

char *client_text(client *c)
{
    bt_buf text;
    json_t *json = client_json(c);
    bt_buf_init(&text, 64 << 20);
    if (json_is_array(json))
        for (size_t i = 0; i < json_array_size(json); i++) add_piece(&text, json_array_get(json, i));
    else add_piece(&text, json);
    must(text.err == BT_OK, "memory");
    char *copy = strdup(bt_buf_text(&text));
    bt_buf_done(&text);
    return copy;
}

/* The value of a key: in a stream, of the last event that has it. */
static json_t *find(client *c, const char *key)
{
    json_t *json = client_json(c);
    if (!json_is_array(json)) return json_object_get(json, key);
    for (size_t i = json_array_size(json); i > 0; i--) {
        json_t *value = json_object_get(json_array_get(json, i - 1), key);
        if (value) return value;
    }
    return NULL;
}

json_t *client_error(client *c) { return find(c, "error"); }
json_t *client_baton(client *c) { return find(c, "baton"); }

json_t *client_told(client *c)
{
    json_t *told = client_status(c) == 200 ? json_deep_copy(client_baton(c)) : NULL;
    if (!told) {
        fprintf(stderr, "status %ld: %s\n", client_status(c), client_body(c));
        abort();
    }
    client_end(c);
    return told;
}
