/* See http.h. */
#include "tools/cluster/http.h"
#include "tools/tool.h"

#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct call {
    CURL *curl;
    bt_buf *body;
    tool_sse sse;
    tool_sse_fn *fn;
    void *ud;
    const volatile sig_atomic_t *stop;
    bt_err err;
    int is_stream; /* -1: not known yet */
} call;

static const char *trusted; /* NULL: what the system trusts */

const char *tool_http_ca_file(void) { return trusted; }

bt_err tool_http_setup(const char *ca_file, bt_fault *fault)
{
    if (ca_file && access(ca_file, R_OK) != 0)
        return bt_fail(fault, BT_EIO, "cannot read '%s': %s", ca_file, strerror(errno));
    trusted = ca_file;
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
               ? BT_OK
               : bt_fail(fault, BT_ENOMEM, "libcurl does not start");
}

void tool_http_cleanup(void) { curl_global_cleanup(); }

static size_t on_bytes(char *bytes, size_t one, size_t n, void *ud)
{
    call *c = ud;
    (void)one; /* always 1 */
    if (c->is_stream < 0) {
        char *type = NULL;
        (void)curl_easy_getinfo(c->curl, CURLINFO_CONTENT_TYPE, &type);
        c->is_stream = c->fn && type && strncmp(type, "text/event-stream", 17) == 0;
    }
    c->err = c->is_stream ? tool_sse_feed(&c->sse, bytes, n, c->fn, c->ud) : bt_buf_add(c->body, bytes, n);
    return c->err < 0 ? 0 : n;
}

static int on_progress(void *ud, curl_off_t a, curl_off_t b, curl_off_t u, curl_off_t v)
{
    const call *c = ud;
    (void)a, (void)b, (void)u, (void)v;
    return c->stop && *c->stop;
}

static bt_err set_up(call *c, const char *url, const char *api_key, const char *json,
                     struct curl_slist **headers)
{
    bool ok = !curl_easy_setopt(c->curl, CURLOPT_URL, url) &&
              !curl_easy_setopt(c->curl, CURLOPT_PROTOCOLS_STR, "http,https") &&
              !curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L) &&
              !curl_easy_setopt(c->curl, CURLOPT_NOPROXY, "127.0.0.1,localhost,::1") &&
              !curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT_MS, 10000L)
              /* A gateway says something every 10 s, if only that it is there. */
              && !curl_easy_setopt(c->curl, CURLOPT_LOW_SPEED_LIMIT, 1L) &&
              !curl_easy_setopt(c->curl, CURLOPT_LOW_SPEED_TIME, 60L) &&
              !curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, on_bytes) &&
              !curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, c) &&
              !curl_easy_setopt(c->curl, CURLOPT_NOPROGRESS, 0L) &&
              !curl_easy_setopt(c->curl, CURLOPT_XFERINFOFUNCTION, on_progress) &&
              !curl_easy_setopt(c->curl, CURLOPT_XFERINFODATA, c);
    if (trusted) ok = ok && !curl_easy_setopt(c->curl, CURLOPT_CAINFO, trusted);
    if (json) {
        *headers = curl_slist_append(*headers, "Content-Type: application/json");
        ok = ok && *headers && !curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, json);
    } else {
        ok = ok && !curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, 10000L);
    }
    if (api_key) {
        char line[1024];
        snprintf(line, sizeof line, "Authorization: Bearer %s", api_key);
        struct curl_slist *more = curl_slist_append(*headers, line);
        if (more) *headers = more;
        ok = ok && more;
    }
    ok = ok && !curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, *headers);
    return ok ? BT_OK : BT_ENOMEM;
}

static bt_err perform(call *c, long *ret_status, const char *base, const char *path, const char *api_key,
                      const char *json, bt_fault *fault)
{
    char url[2048];
    char words[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    bt_err e;
    const int n = snprintf(url, sizeof url, "%s%s", base, path);
    if (n < 0 || (size_t)n >= sizeof url)
        return bt_fail(fault, BT_EARG, "the URL is longer than %zu bytes", sizeof url - 1);
    c->curl = curl_easy_init();
    c->is_stream = -1;
    tool_sse_init(&c->sse);
    if (!c->curl) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory for libcurl");
        goto out;
    }
    e = curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, words) ? BT_ENOMEM
                                                              : set_up(c, url, api_key, json, &headers);
    if (e < 0) {
        bt_fail(fault, e, "libcurl takes no request: %s", bt_err_name(e));
        goto out;
    }
    const CURLcode rc = curl_easy_perform(c->curl);
    if (rc == CURLE_ABORTED_BY_CALLBACK || c->err == BT_ECANCEL) {
        e = bt_fail(fault, BT_ECANCEL, "interrupted");
    } else if (c->err < 0) {
        e = bt_fail(fault, c->err, "the answer from %s cannot be taken: %s", base, bt_err_name(c->err));
    } else if (rc == CURLE_SSL_CACERT_BADFILE) {
        e = trusted ? bt_fail(fault, BT_EFORMAT, "'%s' has no certificate in PEM form; --ca-file needs one",
                              trusted)
                    : bt_fail(fault, BT_EFORMAT, "the certificates that this system trusts cannot be read");
    } else if (rc == CURLE_PEER_FAILED_VERIFICATION) {
        e = bt_fail(fault, BT_EAUTH,
                    "the certificate of %s is not trusted; --ca-file names who signed it: %s", base,
                    words[0] ? words : curl_easy_strerror(rc));
    } else if (rc != CURLE_OK) {
        e = bt_fail(fault, BT_EIO,
                    "no answer from %s (%s); is a gateway running there? Start one with 'baton up'", base,
                    curl_easy_strerror(rc));
    } else {
        (void)curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, ret_status);
        e = BT_OK;
    }
out:
    curl_slist_free_all(headers);
    if (c->curl) curl_easy_cleanup(c->curl);
    tool_sse_done(&c->sse);
    return e;
}

bt_err tool_http_get(long *ret_status, bt_buf *body, const char *base, const char *path, const char *api_key,
                     const volatile sig_atomic_t *stop, bt_fault *fault)
{
    call c = {.body = body, .stop = stop};
    return perform(&c, ret_status, base, path, api_key, NULL, fault);
}

bt_err tool_http_stream(long *ret_status, bt_buf *body, const char *base, const char *path,
                        const char *api_key, const char *json, tool_sse_fn *fn, void *ud,
                        const volatile sig_atomic_t *stop, bt_fault *fault)
{
    call c = {.body = body, .fn = fn, .ud = ud, .stop = stop};
    return perform(&c, ret_status, base, path, api_key, json, fault);
}

void tool_http_error_text(char *ret, size_t cap, long status, const bt_buf *body)
{
    json_t *root = json_loadb(bt_buf_text(body), body->len, 0, NULL);
    const char *message = json_string_value(json_object_get(json_object_get(root, "error"), "message"));
    if (message) snprintf(ret, cap, "%s", message);
    else
        snprintf(ret, cap, "HTTP %ld: %.*s", status, (int)strcspn(bt_buf_text(body), "\r\n"),
                 bt_buf_text(body));
    json_decref(root);
}
