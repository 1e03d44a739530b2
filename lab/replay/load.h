#ifndef BT_LAB_REPLAY_LOAD_H
#define BT_LAB_REPLAY_LOAD_H
#include <signal.h>
#include "lab/replay/keys.h"
#include "lab/replay/wire.h"

/* Sends a plan to a server and records what comes back: one thread, one connection a stream, over libcurl's multi
 * interface and epoll. The next request's body is made before its time, and waiting ends to the microsecond (timerfd).
 * tool_http_setup (tools/cluster/http.h) is done before. */
enum { TOOL_REPLAY_MAX_STREAMS = 16384 };

typedef struct tool_replay_progress {
    int64_t now_us;
    uint32_t in_flight;
    size_t sent, ended, failed, of;
    uint64_t pieces; /* of text, from all answers */
} tool_replay_progress;

typedef struct tool_replay_load {
    const char *url, *api_key;
    const tool_replay_secrets *secrets; /* matched with the plan; requests of keys that are not there go with api_key */
    const tool_replay_plan *plan;
    const tool_replay_words *words;
    const tool_replay_dialect *dialect;
    uint64_t seed;
    uint32_t streams;                  /* the most at a time; further ones wait, and the result counts that */
    uint32_t concurrency;              /* > 0: so many at a time, each sent when another ends, without the arrivals */
    int64_t timeout_ms;                /* of a request */
    const volatile sig_atomic_t *stop; /* set by a signal handler: ends it; what is in flight is "interrupted" */
    void (*progress)(void *ud, const tool_replay_progress *now); /* four times a second; NULL: not */
    void (*piece)(void *ud, uint32_t item, int64_t at_us);       /* text of an answer came; NULL: not */
    void *ud;
} tool_replay_load;

/* ret was begun for the plan's number of requests. BT_OK also when requests fail, with their kinds. BT_ECANCEL:
 * stopped, ret holds what was measured until then. BT_ENOMEM, BT_EIO, BT_ELIMIT: not enough open files are allowed. */
bt_err tool_replay_load_run(tool_replay_result *ret, const tool_replay_load *load, bt_fault *fault);
#endif
