#ifndef BT_TOOLS_SUPERVISE_H
#define BT_TOOLS_SUPERVISE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The choice of the children that run and that wait, and of the time when all is over: the deciding half of `baton up`,
 * a pure state machine. It starts no process and reads no clock; tools/cluster/cluster.c does both and reports here.
 *
 * A child that ends is started again after 100 ms, doubling to 2 s; a child that has been up for 10 s starts over at
 * 100 ms. Until the whole has been ready once, a child that ends by itself with a non-zero exit status stops
 * everything: a wrong option or a port in use does not get better by repeating it. (Death by a signal is retried even
 * then.) Stopping: first the gateway (child 0), so that it drains while the nodes still serve; the nodes when it has
 * gone, or at the drain deadline; what is left grace_ms after that is killed. A second stop request kills at once. */
enum {
    TOOL_SUPERVISE_MAX = 64,
    TOOL_SUPERVISE_FIRST_MS = 100,
    TOOL_SUPERVISE_LAST_MS = 2000,
    TOOL_SUPERVISE_RESET_MS = 10000
};

typedef enum tool_child_state {
    TOOL_CHILD_WAITING,
    TOOL_CHILD_UP,
    TOOL_CHILD_TERMED,
    TOOL_CHILD_KILLED,
    TOOL_CHILD_DOWN
} tool_child_state;
typedef struct tool_child {
    tool_child_state state;
    int64_t since_ms, due_ms;
    int64_t backoff_ms;
    uint32_t starts;
} tool_child;

typedef struct tool_supervise {
    tool_child child[TOOL_SUPERVISE_MAX];
    size_t count;
    int64_t drain_ms, grace_ms, stop_due_ms; /* stop_due_ms: of the phase in progress */
    bool was_ready, stopping, nodes_termed, failed;
} tool_supervise;

typedef enum tool_act { TOOL_ACT_START, TOOL_ACT_TERM, TOOL_ACT_KILL } tool_act;
typedef struct tool_action {
    tool_act act;
    size_t child;
} tool_action;

/* All children wait, due at once. count <= TOOL_SUPERVISE_MAX. */
void tool_supervise_init(tool_supervise *s, size_t count, int64_t drain_ms, int64_t grace_ms, int64_t now_ms);
void tool_supervise_ready(tool_supervise *s);
/* Child ended: by itself with `status` (0..255), or by a signal (status < 0). */
void tool_supervise_ended(tool_supervise *s, size_t child, int status, int64_t now_ms);
void tool_supervise_stop(tool_supervise *s, int64_t now_ms);
/* The next thing to do at now_ms, one at a time; false when there is none. An action counts as done when it is
 * given. */
bool tool_supervise_next(tool_action *ret, tool_supervise *s, int64_t now_ms);
/* When to ask again at the latest, -1 for "only after an event". */
int64_t tool_supervise_due_ms(const tool_supervise *s);
bool tool_supervise_over(const tool_supervise *s); /* stopping, and every child down */
#endif
