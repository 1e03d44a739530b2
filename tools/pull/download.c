/* HTTPS with a token that stays at its server, redirects that are bounded, and files that go on where they
 * ended. */
#include "tools/pull/download.h"
#include "base/file.h"
#include "crypto/sha256.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_URL = 4096,
    MAX_PATH = 4096,
    MAX_PLACE = 512,
    CONNECT_MS = 15000,
    SLOW_BYTES = 1024,
    PIECE = 1 << 16,
    SHOWN = 16
};

/* ---- addresses ---- */

/* The parts of an origin. */
typedef struct origin {
    char place[MAX_PLACE]; /* "https://host:443" */
    bool is_plain, is_loopback, has_user;
} origin;

static bool is_loopback(const char *host)
{
    int a, b, c, d, end = 0;
    if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0) return true;
    return sscanf(host, "%d.%d.%d.%d%n", &a, &b, &c, &d, &end) == 4 && !host[end] && a == 127;
}

static bt_err take_origin(origin *ret, const char *url, bt_fault *fault)
{
    CURLU *u = curl_url();
    char *scheme = NULL, *host = NULL, *port = NULL, *user = NULL;
    bt_err e = BT_OK;
    if (!u) return bt_fail(fault, BT_ENOMEM, "out of memory for libcurl");
    if (curl_url_set(u, CURLUPART_URL, url, 0) || curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) ||
        curl_url_get(u, CURLUPART_HOST, &host, 0) ||
        curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT))
        e = bt_fail(fault, BT_EARG, "an address has not the form https://HOST");
    if (e == BT_OK) {
        *ret = (origin){.is_plain = strcmp(scheme, "http") == 0, .is_loopback = is_loopback(host),
                        .has_user = curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_OK};
        const int n = snprintf(ret->place, sizeof ret->place, "%s://%s:%s", scheme, host, port);
        for (char *c = ret->place; *c; c++) *c = (char)tolower((unsigned char)*c);
        if (n < 0 || n >= MAX_PLACE || (!ret->is_plain && strcmp(scheme, "https") != 0))
            e = bt_fail(fault, BT_EARG, "an address has not the form https://HOST");
        else if (ret->is_plain && !ret->is_loopback)
            e = bt_fail(fault, BT_EARG, "%.150s: plain HTTP is for loopback addresses alone", ret->place);
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_free(user);
    curl_url_cleanup(u);
    return e;
}

bt_err tool_download_check(const char *base, bt_fault *fault)
{
    origin o;
    const bt_err e = take_origin(&o, base, fault);
    if (e == BT_OK && o.has_user)
        return bt_fail(fault, BT_EARG,
                       "a hub's address has no user part: a token comes from HF_TOKEN or a file");
    return e;
}

/* ---- one request ---- */

typedef struct request {
    CURL *curl;
    const tool_download_server *server;
    origin home;
    char url[MAX_URL];
    bt_buf *body; /* of a text; NULL: a file */
    /* of a file */
    int fd;
    uint64_t at, bytes;   /* written so far, of so many */
    uint64_t range_begin; /* what the server says that it sends; UINT64_MAX: it did not say */
    bt_sha256 hash;       /* of what is written */
    bool has_begun;       /* the first bytes of this reply came */
    tool_download_got_fn *got;
    void *ud;
    bt_err err;
    bt_fault *fault;
} request;

/* "Content-Range: bytes 5-9/10" */
static size_t on_header(char *line, size_t one, size_t n, void *ud)
{
    static const char name[] = "content-range: bytes ";
    request *r = ud;
    (void)one; /* always 1 */
    if (n > sizeof name && strncasecmp(line, name, sizeof name - 1) == 0) {
        uint64_t v = 0;
        size_t i = sizeof name - 1;
        for (; i < n && isdigit((unsigned char)line[i]) && v < UINT64_MAX / 20; i++)
            v = v * 10 + (uint64_t)(line[i] - '0');
        r->range_begin = v;
    }
    return n;
}

/* The first bytes of a reply: they go on where the file ends, or are those of the whole file. */
static bt_err begin_file(request *r, long status)
{
    if (status == 206 && r->range_begin == r->at) return BT_OK;
    if (status == 206)
        return bt_fail(r->fault, BT_EFORMAT, "the server sends another part than was asked for");
    if (r->at && (ftruncate(r->fd, 0) < 0 || lseek(r->fd, 0, SEEK_SET) < 0))
        return bt_fail(r->fault, BT_EIO, "cannot begin a file anew: %s", strerror(errno));
    r->at = 0;
    bt_sha256_begin(&r->hash);
    return BT_OK;
}

static bt_err write_file(request *r, const char *bytes, size_t n)
{
    if (n > r->bytes - r->at)
        return bt_fail(r->fault, BT_EFORMAT, "the server sends more than the %llu bytes that the file has",
                       (unsigned long long)r->bytes);
    bt_sha256_add(&r->hash, bytes, n);
    r->at += n;
    if (r->got) r->got(r->ud, n);
    return bt_file_write(r->fd, bytes, n) < 0
               ? bt_fail(r->fault, BT_ELIMIT, "cannot write what is fetched: %s", strerror(errno))
               : BT_OK;
}

static size_t on_bytes(char *bytes, size_t one, size_t n, void *ud)
{
    request *r = ud;
    long status = 0;
    (void)one; /* always 1 */
    (void)curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
    if (r->body) {
        r->err = bt_buf_add(r->body, bytes, n);
        if (r->err < 0)
            (void)bt_fail(r->fault, r->err, "the reply has more than %zu bytes", r->body->limit_bytes);
    } else if (status == 200 || status == 206) {
        if (!r->has_begun) r->err = begin_file(r, status);
        r->has_begun = true;
        if (r->err == BT_OK) r->err = write_file(r, bytes, n);
    } /* else the text of an error or of a redirect, which nobody reads */
    return r->err < 0 ? 0 : n;
}

static bool set_up(request *r, struct curl_slist **headers, bool is_home)
{
    char line[TOOL_DOWNLOAD_MAX_TOKEN + 32];
    CURL *c = r->curl;
    bool ok = !curl_easy_setopt(c, CURLOPT_URL, r->url) && !curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) &&
              !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") &&
              !curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) &&
              !curl_easy_setopt(c, CURLOPT_NOPROXY, "127.0.0.1,localhost,::1") &&
              !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) &&
              !curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES) &&
              !curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)TOOL_DOWNLOAD_SLOW_S) &&
              !curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, r->body ? (long)TOOL_DOWNLOAD_TEXT_LIMIT_MS : 0L) &&
              !curl_easy_setopt(c, CURLOPT_USERAGENT, "baton/" BT_VERSION) &&
              !curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header) &&
              !curl_easy_setopt(c, CURLOPT_HEADERDATA, r) &&
              !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes) &&
              !curl_easy_setopt(c, CURLOPT_WRITEDATA, r);
    if (r->at) {
        snprintf(line, sizeof line, "%llu-", (unsigned long long)r->at);
        ok = ok && !curl_easy_setopt(c, CURLOPT_RANGE, line);
    }
    if (r->server->token && is_home) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", r->server->token);
        *headers = curl_slist_append(NULL, line);
        explicit_bzero(line, sizeof line);
        ok = ok && *headers && !curl_easy_setopt(c, CURLOPT_HTTPHEADER, *headers);
    }
    return ok;
}

/* Headers hold the token. */
static void wipe(struct curl_slist *headers)
{
    for (struct curl_slist *h = headers; h; h = h->next) explicit_bzero(h->data, strlen(h->data));
    curl_slist_free_all(headers);
}

/* words: libcurl's own, in more detail than the code. */
static bt_err no_reply(const char *place, CURLcode rc, const char *words, bt_fault *fault)
{
    if (rc == CURLE_PEER_FAILED_VERIFICATION)
        return bt_fail(fault, BT_EAUTH, "the certificate of %.120s is not trusted (%.100s)", place, words);
    if (rc == CURLE_SSL_CACERT_BADFILE)
        return bt_fail(fault, BT_EIO,
                       "the certificate of %.120s cannot be verified: this machine has no authorities' "
                       "certificates (Debian: apt-get install ca-certificates)",
                       place);
    return bt_fail(fault, BT_EIO, "no answer from %.120s (%s)", place, curl_easy_strerror(rc));
}

/* Asks r->url. *ret_next: where the server sends to instead, empty: nowhere. */
static bt_err ask_once(long *ret_status, char ret_next[MAX_URL], request *r, bt_fault *fault)
{
    struct curl_slist *headers = NULL;
    origin o;
    char *next = NULL, words[CURL_ERROR_SIZE] = "";
    bt_err e = take_origin(&o, r->url, fault);
    if (e < 0) return e;
    r->curl = curl_easy_init();
    r->range_begin = UINT64_MAX;
    r->has_begun = false;
    r->err = BT_OK;
    r->fault = fault;
    ret_next[0] = '\0';
    if (!r->curl || curl_easy_setopt(r->curl, CURLOPT_ERRORBUFFER, words) ||
        !set_up(r, &headers, strcmp(o.place, r->home.place) == 0)) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory for libcurl");
    } else {
        const CURLcode rc = curl_easy_perform(r->curl);
        if (r->err < 0) e = r->err;
        else if (rc != CURLE_OK) e = no_reply(o.place, rc, words, fault);
    }
    if (e == BT_OK) {
        (void)curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, ret_status);
        (void)curl_easy_getinfo(r->curl, CURLINFO_REDIRECT_URL, &next);
        if (next && strlen(next) >= MAX_URL)
            e = bt_fail(fault, BT_ELIMIT, "the server sends to an address of more than %d bytes",
                        MAX_URL - 1);
        else if (next) memcpy(ret_next, next, strlen(next) + 1);
    }
    wipe(headers);
    if (r->curl) curl_easy_cleanup(r->curl);
    r->curl = NULL;
    return e;
}

/* Asks base + path, and where that sends to. A server that is not on loopback sends to no such address, and
 * never to plain HTTP. */
static bt_err ask(long *ret_status, request *r, const char *path, bt_fault *fault)
{
    char next[MAX_URL];
    const int n = snprintf(r->url, sizeof r->url, "%s%s", r->server->base, path);
    if (n < 0 || n >= MAX_URL)
        return bt_fail(fault, BT_EARG, "the address has more than %d bytes", MAX_URL - 1);
    bt_err e = take_origin(&r->home, r->server->base, fault);
    for (int i = 0; e == BT_OK; i++) {
        if (r->body) bt_buf_clear(r->body);
        origin o;
        e = ask_once(ret_status, next, r, fault);
        if (e < 0 || !next[0]) return e;
        if (i == TOOL_DOWNLOAD_REDIRECTS)
            return bt_fail(fault, BT_ELIMIT, "%.120s sends from one address to the next more than %d times",
                           r->home.place, TOOL_DOWNLOAD_REDIRECTS);
        e = take_origin(&o, next, fault);
        if (e == BT_OK && o.is_loopback && !r->home.is_loopback)
            return bt_fail(fault, BT_EFORMAT, "%.120s sends to an address of this machine", r->home.place);
        memcpy(r->url, next, strlen(next) + 1);
    }
    return e;
}

bt_err tool_download_text(long *ret_status, bt_buf *body, const tool_download_server *s, const char *path,
                          bt_fault *fault)
{
    request *r = calloc(1, sizeof *r);
    if (!r) return bt_fail(fault, BT_ENOMEM, "out of memory for a request");
    r->server = s;
    r->body = body;
    const bt_err e = ask(ret_status, r, path, fault);
    free(r);
    return e;
}

/* ---- files ---- */

/* The bytes of an earlier call count, as far as they can be a beginning of the file. */
static bt_err hash_beginning(request *r, bt_fault *fault)
{
    struct stat st;
    uint8_t piece[PIECE];
    ssize_t n;
    bt_sha256_begin(&r->hash);
    if (fstat(r->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return bt_fail(fault, BT_EIO, "what was fetched before is no file");
    if ((uint64_t)st.st_size > r->bytes && ftruncate(r->fd, 0) < 0)
        return bt_fail(fault, BT_EIO, "cannot begin a file anew: %s", strerror(errno));
    while ((n = read(r->fd, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR)) {
        if (n < 0) continue;
        bt_sha256_add(&r->hash, piece, (size_t)n);
        r->at += (uint64_t)n;
    }
    if (n < 0) return bt_fail(fault, BT_EIO, "cannot read what was fetched before: %s", strerror(errno));
    if (r->got && r->at) r->got(r->ud, r->at);
    return BT_OK;
}

static bt_err status_error(long status, bt_fault *fault)
{
    if (status == 401 || status == 403)
        return bt_fail(fault, BT_EAUTH,
                       "the server refuses (HTTP %ld): the file may need a token, and its terms to be "
                       "accepted there",
                       status);
    return bt_fail(fault, status >= 500 || status == 429 ? BT_EIO : BT_EFORMAT, "the server answers HTTP %ld",
                   status);
}

/* Until the file is whole. A try that brought bytes is followed by another. */
static bt_err fetch(request *r, const char *path, bt_fault *fault)
{
    bt_err e = BT_OK;
    for (int i = 0; r->at < r->bytes && i < TOOL_DOWNLOAD_TRIES; i++) {
        const uint64_t before = r->at;
        long status = 0;
        e = ask(&status, r, path, fault);
        if (e == BT_OK && status != 200 && status != 206) e = status_error(status, fault);
        if (e != BT_OK && (e != BT_EIO || r->at == before)) return e;
    }
    if (r->at < r->bytes && e == BT_OK)
        e = bt_fail(fault, BT_EIO, "the server sent %llu of %llu bytes", (unsigned long long)r->at,
                    (unsigned long long)r->bytes);
    return r->at < r->bytes ? e : BT_OK;
}

bt_err tool_download_file(const char *to, const tool_download_server *s, const char *path, uint64_t bytes,
                          const char *sha256, tool_download_got_fn *got, void *ud, bt_fault *fault)
{
    char part[MAX_PATH], found[BT_SHA256_HEX_CHARS];
    const int n = snprintf(part, sizeof part, "%s.%.*s.part", to, SHOWN, sha256);
    if (n < 0 || n >= MAX_PATH) return bt_fail(fault, BT_ELIMIT, "the path of a file is too long");
    request *r = calloc(1, sizeof *r);
    if (!r) return bt_fail(fault, BT_ENOMEM, "out of memory for a request");
    r->server = s;
    r->bytes = bytes;
    r->got = got;
    r->ud = ud;
    r->fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    bt_err e =
        r->fd < 0 ? bt_fail(fault, BT_EIO, "cannot create '%.150s': %s", part, strerror(errno)) : BT_OK;
    if (e == BT_OK) e = hash_beginning(r, fault);
    if (e == BT_OK) e = fetch(r, path, fault);
    if (e == BT_OK && strcmp(bt_sha256_end_hex(found, &r->hash), sha256) != 0)
        e = bt_fail(fault, BT_EFORMAT, "its SHA-256 is not the one that the hub names");
    if (e == BT_OK && fsync(r->fd) < 0)
        e = bt_fail(fault, BT_EIO, "cannot write '%.150s': %s", part, strerror(errno));
    if (r->fd >= 0) close(r->fd);
    if (e == BT_OK && rename(part, to) < 0)
        e = bt_fail(fault, BT_EIO, "cannot rename a file to '%.150s': %s", to, strerror(errno));
    if (e == BT_EFORMAT || (e < 0 && r->at == 0)) (void)unlink(part);
    free(r);
    return e;
}
