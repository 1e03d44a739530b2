/* See line.h. */
#include "tools/chat/line.h"
#include "text/utf8.h"
#include "tools/chat/edit.h"
#include "tools/chat/history.h"
#include "tools/tool.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tool_line {
    tool_edit *edit; /* NULL: plain lines */
    bool is_terminal;
    char *history; /* path; NULL: none is kept */
    char bytes[4096];
    size_t at, len; /* of bytes: not taken yet */
};

static void remember(void *ud, const char *text, size_t len) { tool_edit_remember(ud, text, len); }

static void open_history(tool_line *l)
{
    char path[4096];
    bt_fault fault = {""};
    bt_err e = tool_history_path(path, sizeof path, &fault);
    if (e == BT_OK) e = tool_history_load(path, remember, l->edit, &fault);
    if (e == BT_OK) l->history = strdup(path); /* out of memory: none is kept */
    else fprintf(stderr, "(no history is kept: %s)\n", fault.text);
}

bt_err tool_line_open(tool_line **ret, bool keeps_history, bt_fault *fault)
{
    tool_line *l = calloc(1, sizeof *l);
    if (!l) return bt_fail(fault, BT_ENOMEM, "reading lines");
    l->is_terminal = isatty(STDIN_FILENO);
    const bt_err e = l->is_terminal ? tool_edit_open(&l->edit, TOOL_LINE_MAX_BYTES, fault) : BT_OK;
    if (e < 0 && e != BT_EVERSION) {
        free(l);
        return e;
    }
    if (l->edit && keeps_history) open_history(l);
    *ret = l;
    return BT_OK;
}

void tool_line_close(tool_line *l)
{
    if (!l) return;
    tool_edit_close(l->edit);
    free(l->history);
    free(l);
}

bool tool_line_is_terminal(const tool_line *l) { return l->is_terminal; }
bool tool_line_has_editor(const tool_line *l) { return l->edit != NULL; }

void tool_line_remember(tool_line *l, const char *text, size_t len)
{
    bt_fault fault;
    if (!l->edit || len > TOOL_HISTORY_MAX_ENTRY_BYTES) return;
    tool_edit_remember(l->edit, text, len);
    if (!l->history || tool_history_add(l->history, text, len, &fault) == BT_OK) return;
    fprintf(stderr, "(no history is kept: %s)\n", fault.text);
    free(l->history);
    l->history = NULL;
}

/* ---- plain lines ---- */

/* More bytes, by one read. 1; 0 at the end; BT_ECANCEL, BT_EIO. Signals arrive only inside ppoll: none falls
 * between the look at tool_stop and the wait. */
static int fill(tool_line *l, bt_fault *fault)
{
    sigset_t ends, before;
    ssize_t n = -1;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, &before);
    do {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        if (!tool_stop && ppoll(&p, 1, NULL, &before) > 0) n = read(STDIN_FILENO, l->bytes, sizeof l->bytes);
    } while (!tool_stop && n < 0 && errno == EINTR);
    const int error = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (n < 0 && tool_stop) return bt_fail(fault, BT_ECANCEL, "interrupted");
    if (n < 0) return bt_fail(fault, BT_EIO, "reading: %s", strerror(error));
    l->at = 0;
    l->len = (size_t)n;
    return n > 0;
}

/* Appends one line without its end. What is past the buffer's limit is read and dropped. */
static bt_err read_line(tool_line *l, bt_buf *ret, bool *ret_ended, bt_fault *fault)
{
    size_t bytes = 0;
    for (bool is_whole = false; !is_whole;) {
        const int rc = l->at < l->len ? 1 : fill(l, fault);
        if (rc < 0) return (bt_err)rc;
        if (rc == 0) {
            *ret_ended = bytes == 0;
            break;
        }
        const char *from = l->bytes + l->at;
        const char *nl = memchr(from, '\n', l->len - l->at);
        const size_t n = nl ? (size_t)(nl - from) : l->len - l->at;
        (void)bt_buf_add(ret, from, n); /* the error stays in the buffer */
        bytes += n + (nl != NULL);
        l->at += n + (nl != NULL);
        is_whole = nl != NULL;
    }
    if (l->is_terminal && bytes > TOOL_LINE_TERMINAL_BYTES)
        return bt_fail(
            fault, BT_ELIMIT,
            "not sent: this terminal passes on %d bytes of a line at most, so the end of it may be missing; "
            "end a part with a backslash and go on in the next line",
            TOOL_LINE_TERMINAL_BYTES);
    return BT_OK;
}

static bt_err read_plain(tool_line *l, bt_buf *ret, bool *ret_ended, bt_fault *fault)
{
    if (l->is_terminal) fputs("> ", stderr);
    for (bool is_first = true;; is_first = false) {
        bool ended = false;
        const bt_err e = read_line(l, ret, &ended, fault);
        if (e < 0) return e;
        if (is_first) *ret_ended = ended;
        const size_t n = ret->len;
        if (ended || ret->err < 0 || n == 0 || ret->data[n - 1] != '\\') break;
        ret->data[n - 1] = '\n';
    }
    return ret->err;
}

bt_err tool_line_read(tool_line *l, bt_buf *ret, bool *ret_ended, bt_fault *fault)
{
    size_t bad;
    *ret_ended = false;
    bt_buf_clear(ret);
    bt_err e =
        l->edit ? tool_edit_read(l->edit, ret, ret_ended, fault) : read_plain(l, ret, ret_ended, fault);
    if (e == BT_ELIMIT && ret->err < 0)
        return bt_fail(fault, e, "not sent: a message has at most %d bytes", TOOL_LINE_MAX_BYTES);
    if (e < 0) return ret->err == BT_ENOMEM ? bt_fail(fault, BT_ENOMEM, "reading a line") : e;
    if (!bt_utf8_valid(bt_buf_text(ret), ret->len, &bad))
        return bt_fail(fault, BT_EFORMAT, "not sent: byte %zu of the message is not valid UTF-8", bad + 1);
    if (ret->len && memchr(ret->data, 0, ret->len))
        return bt_fail(fault, BT_EFORMAT, "not sent: a NUL in the message");
    return BT_OK;
}
