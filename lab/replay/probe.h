#ifndef BT_LAB_REPLAY_PROBE_H
#define BT_LAB_REPLAY_PROBE_H
#include <signal.h>
#include "lab/replay/wire.h"

/* Finds out by a few small requests what a server understands, from all features down to plain text, and how many
 * tokens its tokenizer makes of words. A request takes one token, so the server stays as it was, except for a warm
 * cache of a few tokens, and their records in a capture. Baton names itself by /v1/status, and gets no request where
 * prompts go as ids. */
typedef struct tool_replay_probe {
    const char *url, *api_key;
    const char *model; /* the model of requests; NULL: the first of /v1/models */
    bool only_text;    /* do not try ids */
    const tool_replay_words *words;
    const volatile sig_atomic_t *stop;
} tool_replay_probe;

/* BT_EIO: nobody answers, or the server refuses everything, with its words; BT_ECANCEL. */
bt_err tool_replay_probe_server(tool_replay_dialect *ret, const tool_replay_probe *p, bt_fault *fault);
#endif
