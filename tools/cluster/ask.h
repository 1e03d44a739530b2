#ifndef BT_TOOLS_ASK_H
#define BT_TOOLS_ASK_H
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include "base/buf.h"
#include "base/err.h"

/* One question to a gateway, streamed: what run and chat have in common. */
typedef struct tool_ask {
    const char *url, *path, *api_key; /* path: /v1/completions or /v1/chat/completions */
    json_t *request;                  /* borrowed; stream and baton are added */
    bool echo;                        /* write the text to stdout as it comes */
    bool shows_thoughts;              /* write a chat's thoughts to stderr as they come */
    const volatile sig_atomic_t *stop;
} tool_ask;

typedef struct tool_answer {
    bt_buf text, thoughts;
    json_t *baton;                       /* the gateway's `baton` object; NULL when the stream ended early */
    uint64_t pieces;                     /* pieces of text and thoughts that came */
    int64_t begin_us, first_us, last_us; /* 0: none came */
} tool_answer;

enum { TOOL_ASK_MAX_TEXT_BYTES = 64 << 20 };

/* BT_ECANCEL when *stop was set: text then holds what had come. Any other failure has the gateway's own words in the
 * fault. tool_answer_done after success and failure. */
bt_err tool_ask_send(tool_answer *ret, const tool_ask *ask, bt_fault *fault);
void tool_answer_done(tool_answer *a);

/* Prints on stderr the figures that people compare; where an answer ended early, those that this side saw. */
void tool_answer_print_figures(const tool_answer *a);
#endif
