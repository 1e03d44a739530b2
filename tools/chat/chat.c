/* See chat.h. At a terminal a failure is printed and the chat goes on; from a pipe the first failure ends it,
 * so that a script sees it. */
#include "tools/chat/chat.h"
#include "base/buf.h"
#include "base/err.h"
#include "text/utf8.h"
#include "tools/chat/edit.h"
#include "tools/chat/history.h"
#include "tools/chat/words.h"
#include "tools/show.h"
#include "tools/tool.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where a chat's messages come from: a terminal with an editor (tools/chat/edit.h), a terminal without, or a
 * pipe or file. Everywhere a backslash at the end of a line makes the next line part of the same message. Set
 * up as edit.h asks. */
enum {
    TOOL_LINE_MAX_BYTES = 1 << 20,   /* of one message */
    TOOL_LINE_TERMINAL_BYTES = 4095, /* a terminal without an editor passes on no more of a line */
};

typedef struct line {
    tool_edit *edit; /* NULL: plain lines */
    bool is_terminal;
    char *history; /* path; NULL: none is kept */
    char bytes[4096];
    size_t at, len; /* of bytes: not taken yet */
} line;

static void remember(void *ud, const char *text, size_t len) { tool_edit_remember(ud, text, len); }

static void open_history(line *l)
{
    char path[4096];
    bt_fault fault = {""};
    bt_err e = tool_history_path(path, sizeof path, &fault);
    if (e == BT_OK) e = tool_history_load(path, remember, l->edit, &fault);
    if (e == BT_OK) l->history = strdup(path); /* out of memory: none is kept */
    else fprintf(stderr, "(no history is kept: %s)\n", fault.text);
}

/* keeps_history: reads and writes the file of tools/chat/history.h, where there is an editor. A file that
 * cannot be read gives a line on stderr and is left alone. BT_ENOMEM. */
static bt_err line_open(line **ret, bool keeps_history, bt_fault *fault)
{
    line *l = calloc(1, sizeof *l);
    if (!l) return bt_fail(fault, BT_ENOMEM, "out of memory reading lines");
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

/* NULL is fine */
static void line_close(line *l)
{
    if (!l) return;
    tool_edit_close(l->edit);
    free(l->history);
    free(l);
}

static bool line_is_terminal(const line *l) { return l->is_terminal; }
static bool line_has_editor(const line *l) { return l->edit != NULL; }

/* Keeps a message for the history, unless it is longer than an entry may be. The first failure gives a line
 * on stderr.
 */
static void line_remember(line *l, const char *text, size_t len)
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
static int fill(line *l, bt_fault *fault)
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
    if (n < 0) return bt_fail(fault, BT_EIO, "cannot read what is typed: %s", strerror(error));
    l->at = 0;
    l->len = (size_t)n;
    return n > 0;
}

/* Appends one line without its end. Characters past the buffer's limit are read and dropped. */
static bt_err read_line(line *l, bt_buf *ret, bool *ret_ended, bt_fault *fault)
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

static bool is_quoted(const bt_buf *text) { return strncmp(bt_buf_text(text), "\"\"\"", 3) == 0; }

static bt_err read_plain(line *l, bt_buf *ret, bool *ret_ended, bt_fault *fault)
{
    if (l->is_terminal) fputs("> ", stderr);
    for (bool is_first = true;; is_first = false) {
        bool ended = false;
        const bt_err e = read_line(l, ret, &ended, fault);
        if (e < 0) return e;
        if (is_first) *ret_ended = ended;
        const size_t n = ret->len;
        if (ret->err == BT_OK && tool_edit_is_open(bt_buf_text(ret), n)) {
            if (ended)
                return bt_fail(fault, BT_EFORMAT, "not sent: the message that \"\"\" begins has no end");
            (void)bt_buf_byte(ret, '\n');
            continue;
        }
        if (ended || ret->err < 0 || n == 0 || ret->data[n - 1] != '\\' || is_quoted(ret)) break;
        ret->data[n - 1] = '\n';
    }
    return ret->err;
}

/* One message into *ret, which is cleared first, without its last line end; it may be empty. *ret_ended:
 * there was none, the input has ended. BT_ECANCEL: tool_stop is set; *ret is not empty if an editor's line
 * was not. BT_EFORMAT: what was typed or piped is not UTF-8 or has a NUL; BT_ELIMIT: it is too long; the next
 * call reads on behind it. BT_EIO, BT_ENOMEM. */
static bt_err line_read(line *l, bt_buf *ret, bool *ret_ended, bt_fault *fault)
{
    size_t bad;
    *ret_ended = false;
    bt_buf_clear(ret);
    bt_err e =
        l->edit ? tool_edit_read(l->edit, ret, ret_ended, fault) : read_plain(l, ret, ret_ended, fault);
    if (e == BT_ELIMIT && ret->err < 0)
        return bt_fail(fault, e, "not sent: a message has at most %d bytes", TOOL_LINE_MAX_BYTES);
    if (e < 0) return ret->err == BT_ENOMEM ? bt_fail(fault, BT_ENOMEM, "out of memory reading a line") : e;
    if (!bt_utf8_valid(bt_buf_text(ret), ret->len, &bad))
        return bt_fail(fault, BT_EFORMAT, "not sent: byte %zu of the message is not valid UTF-8", bad + 1);
    if (ret->len && memchr(ret->data, 0, ret->len))
        return bt_fail(fault, BT_EFORMAT, "not sent: the message has a NUL character");
    return BT_OK;
}

typedef struct chat {
    tool_talk *talk;
    line *line;
    bt_buf text;
    unsigned stops; /* Ctrl-C at the prompt, one after the other */
} chat;

enum { GOES_ON = -1 }; /* else an exit code */

static bt_err greet(const chat *now, bt_fault *fault)
{
    tool_talk_models *all = malloc(sizeof *all);
    if (!all) return bt_fail(fault, BT_ENOMEM, "out of memory for the models' names");
    const bt_err e = tool_talk_list(all, now->talk, fault);
    if (e == BT_OK) fputs("Talking to ", stderr);
    if (e == BT_OK) tool_show(stderr, all->id[all->used], strlen(all->id[all->used]));
    free(all);
    if (e < 0) return e;
    fputs(".\nCtrl-D or /exit leaves, Ctrl-C stops an answer, /help has the rest.\n", stderr);
    if (!line_has_editor(now->line))
        fprintf(stderr, "(this terminal cannot edit lines; each has fewer than %d bytes)\n",
                TOOL_LINE_TERMINAL_BYTES);
    return BT_OK;
}

/* A typed line or a question failed. */
static int failed(const chat *now, const bt_fault *fault)
{
    if (bt_opt_flush() != 0) return 1; /* nobody reads the answers, and bt_opt_end says why */
    (void)tool_fail("chat", fault);
    return line_is_terminal(now->line) ? GOES_ON : 1;
}

/* tool_stop is set. At a terminal Ctrl-C clears the line; only a second one with nothing typed between
 * leaves. */
static int stopped_at_prompt(chat *now)
{
    if (now->text.len > 0) now->stops = 0;
    if (tool_stop != SIGINT || !line_is_terminal(now->line) || ++now->stops > 1) {
        if (line_is_terminal(now->line)) fputc('\n', stderr);
        return TOOL_INTERRUPTED;
    }
    tool_stop = 0;
    fputs("\n(Ctrl-C again or Ctrl-D leaves)\n", stderr);
    return GOES_ON;
}

/* text NULL: the last question again. */
static int say(chat *now, const char *text)
{
    bt_fault fault = {""};
    const bt_err e =
        text ? tool_talk_say(now->talk, text, strlen(text), &fault) : tool_talk_again(now->talk, &fault);
    if (e == BT_OK) return GOES_ON;
    if (e != BT_ECANCEL) {
        const int rc = failed(now, &fault);
        if (rc == GOES_ON && text)
            fputs("(the message is taken back; /clear forgets the conversation)\n", stderr);
        return rc;
    }
    if (tool_stop != SIGINT || !line_is_terminal(now->line)) return TOOL_INTERRUPTED;
    tool_stop = 0;
    fprintf(stderr, "(%s)\n", fault.text);
    return GOES_ON;
}

/* The text between the marks, without a line end next to them. */
static const char *unquote(bt_buf *text)
{
    size_t end = text->len - 3, begin = 3;
    if (end > begin && text->data[begin] == '\n') begin++;
    if (end > begin && text->data[end - 1] == '\n') end--;
    text->data[end] = 0;
    return (const char *)text->data + begin;
}

static int turn(chat *now)
{
    bt_fault fault = {""};
    tool_words_next next;
    const char *text;
    bool has_ended;
    if (line_is_terminal(now->line)) fputc('\n', stderr);
    const bt_err e = line_read(now->line, &now->text, &has_ended, &fault);
    if (e == BT_ECANCEL) return stopped_at_prompt(now);
    now->stops = 0;
    if (e < 0) {
        const int rc = failed(now, &fault);
        return e == BT_EFORMAT || e == BT_ELIMIT ? rc : 1;
    }
    if (has_ended) {
        if (line_is_terminal(now->line)) fputc('\n', stderr);
        return 0;
    }
    const char *typed = bt_buf_text(&now->text);
    if (typed[strspn(typed, " \t\r\n")] == '\0') return GOES_ON;
    line_remember(now->line, typed, now->text.len);
    if (is_quoted(&now->text)) {
        text = unquote(&now->text);
        return text[strspn(text, " \t\r\n")] ? say(now, text) : GOES_ON;
    }
    if (tool_words_do(&next, &text, now->talk, typed, line_has_editor(now->line), stderr, &fault) < 0)
        return failed(now, &fault);
    if (next == TOOL_WORDS_SEND) return say(now, text);
    if (next == TOOL_WORDS_AGAIN) return say(now, NULL);
    return next == TOOL_WORDS_LEAVE ? 0 : GOES_ON;
}

int tool_chat_converse(const tool_chat *c)
{
    chat now = {0};
    bt_fault fault = {""};
    int rc = GOES_ON;
    bt_buf_init(&now.text, TOOL_LINE_MAX_BYTES);
    bt_err e = tool_talk_open(&now.talk, &c->with, &fault);
    if (e == BT_OK) e = line_open(&now.line, c->wants_history, &fault);
    if (e == BT_OK && c->wants_banner && line_is_terminal(now.line)) e = greet(&now, &fault);
    if (e < 0) rc = e == BT_ECANCEL ? TOOL_INTERRUPTED : tool_fail("chat", &fault);
    while (rc == GOES_ON) rc = turn(&now);
    line_close(now.line);
    tool_talk_close(now.talk);
    bt_buf_done(&now.text);
    return rc;
}
