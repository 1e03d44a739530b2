#ifndef BT_TOOLS_DOWNLOAD_H
#define BT_TOOLS_DOWNLOAD_H
#include <stdint.h>
#include "base/buf.h"

/* HTTPS, over libcurl, from a server that may send elsewhere for its files. Certificates are verified. Plain HTTP is
 * for servers on loopback addresses alone. At most TOOL_DOWNLOAD_REDIRECTS redirects are followed; the token is shown
 * to the server itself and to no other host, port or scheme, and never printed. A server that is silent, or slower than
 * 1 KiB/s, for a minute is given up. */
enum {
    TOOL_DOWNLOAD_REDIRECTS = 5,
    TOOL_DOWNLOAD_TRIES = 5, /* of one file, each from where the one before ended */
    TOOL_DOWNLOAD_SLOW_S = 60,
    TOOL_DOWNLOAD_TEXT_LIMIT_MS = 120000, /* for a reply that is kept in memory */
    TOOL_DOWNLOAD_MAX_TOKEN = 512,
};

typedef struct tool_download_server {
    const char *base;  /* "https://HOST[:PORT][/PATH]" without a '/' at its end */
    const char *token; /* NULL: none */
} tool_download_server;

/* BT_EARG: no such URL, or plain HTTP to a host that is not loopback. */
bt_err tool_download_check(const char *base, bt_fault *fault);

/* GET base + path; *ret_status and the body, at most body->limit_bytes. BT_EIO: no answer; BT_EAUTH: its certificate is
 * not trusted; BT_ELIMIT: a longer body. */
bt_err tool_download_text(long *ret_status, bt_buf *body, const tool_download_server *s, const char *path,
                          bt_fault *fault);

/* GET base + path into the file `to`, which has these bytes and this SHA-256. The bytes lie in TO.HASH.part, where a
 * later call goes on by Range; that file becomes `to` when its hash is right. `got` (may be NULL) gets each number of
 * bytes that came. Blocks. BT_EIO: no answer after all tries, what came is kept; BT_EFORMAT: more bytes, or another
 * hash, and nothing is kept; BT_EAUTH: the server refuses, or its certificate is not trusted. */
typedef void tool_download_got_fn(void *ud, uint64_t bytes);
bt_err tool_download_file(const char *to, const tool_download_server *s, const char *path, uint64_t bytes,
                          const char *sha256, tool_download_got_fn *got, void *ud, bt_fault *fault);
#endif
