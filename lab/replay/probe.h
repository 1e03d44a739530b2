#ifndef BT_LAB_REPLAY_PROBE_H
#define BT_LAB_REPLAY_PROBE_H
#include <signal.h>
#include "lab/replay/wire.h"

/* Finds out what a server understands by a few small requests, from the most it could down to plain text, and how many
 * tokens its tokenizer makes of words. A request takes one token, so this leaves the server as it was but for a warm
 * cache of a few tokens, and records of them in a capture. Of Baton, which says by /v1/status what it is, nothing is
 * asked where prompts go as ids. */
typedef struct tool_replay_probe {
    const char *url, *api_key;
    const char *model; /* what to name in requests; NULL: the first of /v1/models */
    bool only_text;    /* do not try ids */
    const tool_replay_words *words;
    const volatile sig_atomic_t *stop;
} tool_replay_probe;

/* BT_EIO: nobody answers, or with words of the server why it takes nothing of it; BT_ECANCEL. */
bt_err tool_replay_probe_server(tool_replay_dialect *ret, const tool_replay_probe *p, bt_fault *fault);
#endif
