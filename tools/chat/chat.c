/* See chat.h. At a terminal whatever fails is told and the chat goes on; from a pipe the first failure ends
 * it, so that a script sees it. */
#include "tools/chat/chat.h"
#include "base/buf.h"
#include "tools/chat/line.h"
#include "tools/chat/words.h"
#include "tools/show.h"
#include "tools/tool.h"

#include <string.h>

typedef struct chat {
    tool_talk *talk;
    tool_line *line;
    bt_buf text;
    unsigned stops; /* Ctrl-C at the prompt, one after the other */
} chat;

enum { GOES_ON = -1 }; /* else an exit code */

static bt_err greet(const tool_chat *c, const chat *now, bt_fault *fault)
{
    char model[128];
    const bt_err e = tool_talk_model(model, sizeof model, c->with.url, c->with.api_key, fault);
    if (e < 0) return e;
    fputs("Talking to ", stderr);
    tool_show(stderr, model, strlen(model));
    fputs(".\nCtrl-D or /exit leaves, Ctrl-C stops an answer, /help has the rest.\n", stderr);
    if (!tool_line_has_editor(now->line))
        fprintf(stderr, "(this terminal cannot edit lines; each has fewer than %d bytes)\n",
                TOOL_LINE_TERMINAL_BYTES);
    return BT_OK;
}

/* A failure of what was typed or asked. */
static int failed(const chat *now, const bt_fault *fault)
{
    (void)tool_fail("chat", fault);
    return tool_line_is_terminal(now->line) ? GOES_ON : 1;
}

/* tool_stop is set. At a terminal Ctrl-C clears the line; only a second one with nothing typed between
 * leaves. */
static int stopped_at_prompt(chat *now)
{
    if (now->text.len > 0) now->stops = 0;
    if (tool_stop != SIGINT || !tool_line_is_terminal(now->line) || ++now->stops > 1) {
        if (tool_line_is_terminal(now->line)) fputc('\n', stderr);
        return TOOL_INTERRUPTED;
    }
    tool_stop = 0;
    fputs("\n(Ctrl-C again or Ctrl-D leaves)\n", stderr);
    return GOES_ON;
}

static int say(chat *now, const char *text)
{
    bt_fault fault = {""};
    const bt_err e = tool_talk_say(now->talk, text, strlen(text), &fault);
    if (e == BT_OK) return GOES_ON;
    if (e != BT_ECANCEL) {
        const int rc = failed(now, &fault);
        if (rc == GOES_ON) fputs("(the message is taken back; /clear forgets the conversation)\n", stderr);
        return rc;
    }
    if (tool_stop != SIGINT || !tool_line_is_terminal(now->line)) return TOOL_INTERRUPTED;
    tool_stop = 0;
    fprintf(stderr, "(%s)\n", fault.text);
    return GOES_ON;
}

static int turn(chat *now)
{
    bt_fault fault = {""};
    tool_words_next next;
    const char *text;
    bool has_ended;
    if (tool_line_is_terminal(now->line)) fputc('\n', stderr);
    const bt_err e = tool_line_read(now->line, &now->text, &has_ended, &fault);
    if (e == BT_ECANCEL) return stopped_at_prompt(now);
    now->stops = 0;
    if (e < 0) {
        const int rc = failed(now, &fault);
        return e == BT_EFORMAT || e == BT_ELIMIT ? rc : 1;
    }
    if (has_ended) {
        if (tool_line_is_terminal(now->line)) fputc('\n', stderr);
        return 0;
    }
    const char *typed = bt_buf_text(&now->text);
    if (typed[strspn(typed, " \t\r\n")] == '\0') return GOES_ON;
    tool_line_remember(now->line, typed, now->text.len);
    if (tool_words_do(&next, &text, now->talk, typed, tool_line_has_editor(now->line), stderr, &fault) < 0)
        return failed(now, &fault);
    return next == TOOL_WORDS_SEND ? say(now, text) : next == TOOL_WORDS_LEAVE ? 0 : GOES_ON;
}

int tool_chat_converse(const tool_chat *c)
{
    chat now = {0};
    bt_fault fault = {""};
    int rc = GOES_ON;
    bt_buf_init(&now.text, TOOL_LINE_MAX_BYTES);
    bt_err e = tool_talk_open(&now.talk, &c->with, &fault);
    if (e == BT_OK) e = tool_line_open(&now.line, c->wants_history, &fault);
    if (e == BT_OK && c->wants_banner && tool_line_is_terminal(now.line)) e = greet(c, &now, &fault);
    if (e < 0) rc = e == BT_ECANCEL ? TOOL_INTERRUPTED : tool_fail("chat", &fault);
    while (rc == GOES_ON) rc = turn(&now);
    tool_line_close(now.line);
    tool_talk_close(now.talk);
    bt_buf_done(&now.text);
    return rc;
}
