#ifndef BT_TOOLS_HTTP_H
#define BT_TOOLS_HTTP_H
#include <signal.h>
#include "base/buf.h"
#include "tools/cluster/sse.h"

/* The tool's side of HTTP, over libcurl. Blocking; one call at a time. A gateway that cannot be reached is BT_EIO with
 * its URL and what to do in the fault. tool_http_setup once before the first call, tool_http_cleanup at the end.
 *
 * ca_file: the PEM file of those who sign what https servers show, borrowed; NULL: the system's. tool_http_ca_file:
 * that of the set-up, for others who use libcurl themselves. BT_EIO: it cannot be read. */
bt_err tool_http_setup(const char *ca_file, bt_fault *fault);
const char *tool_http_ca_file(void);
void tool_http_cleanup(void);

/* GET base + path; *ret_status and the body (at most body->limit_bytes) whatever the status is. *stop, when set by a
 * signal handler, ends the call: BT_ECANCEL; NULL: nothing ends it. */
bt_err tool_http_get(long *ret_status, bt_buf *body, const char *base, const char *path, const char *api_key,
                     const volatile sig_atomic_t *stop, bt_fault *fault);

/* POST json and read a stream of events. An answer that is no event stream (an error, mostly) goes to `body` instead.
 * *stop, when set by a signal handler or by fn returning false, closes the connection: BT_ECANCEL. */
bt_err tool_http_stream(long *ret_status, bt_buf *body, const char *base, const char *path, const char *api_key,
                        const char *json, tool_sse_fn *fn, void *ud, const volatile sig_atomic_t *stop,
                        bt_fault *fault);

/* The message of an OpenAI error object in body, or the first line of the body itself. */
void tool_http_error_text(char *ret, size_t cap, long status, const bt_buf *body);
#endif
