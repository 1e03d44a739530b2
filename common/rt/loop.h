#ifndef BT_RT_LOOP_H
#define BT_RT_LOOP_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"

/* The event loop of a daemon: ZeroMQ sockets, descriptors, timers and signals in one thread, one handler at a time.
 *
 * Handlers may add, change and remove anything, themselves included, and may stop the loop; what was removed is not
 * called any more, even if it was ready. Handlers take whole messages, with a budget, and never block: a handler is
 * called again for what is left. Every watch and timer has an id that is never used twice, so an old id does no harm.
 */
typedef struct bt_loop bt_loop;

enum { BT_LOOP_IN = 1, BT_LOOP_OUT = 2, BT_LOOP_ERR = 4 }; /* ERR comes by itself, and only for descriptors */
typedef void bt_loop_fn(void *ud, unsigned events);        /* events: what is ready; 0 for timers */
typedef void bt_loop_signal_fn(void *ud, int signo);
typedef void bt_loop_turn_fn(void *ud, bool is_over);

bt_err bt_loop_new(bt_loop **ret, bt_fault *fault);
void bt_loop_free(bt_loop *loop); /* closes no socket or descriptor; NULL is fine */

/* BT_ELIMIT past 4096 watches and 4096 timers. The socket or descriptor must live until it is removed. */
bt_err bt_loop_add_socket(uint64_t *ret_id, bt_loop *loop, void *socket, unsigned events, bt_loop_fn *fn, void *ud);
bt_err bt_loop_add_fd(uint64_t *ret_id, bt_loop *loop, int fd, unsigned events, bt_loop_fn *fn, void *ud);
void bt_loop_set_events(bt_loop *loop, uint64_t id, unsigned events); /* 0: do not look at it for now */

/* First after delay_ms (0: in the next round), then every every_ms (0: once). A periodic timer that falls behind skips
 * what it missed. Timers due together run in the order of their due times, then of their making. */
bt_err bt_loop_add_timer(uint64_t *ret_id, bt_loop *loop, int64_t delay_ms, int64_t every_ms, bt_loop_fn *fn, void *ud);
void bt_loop_set_timer(bt_loop *loop, uint64_t id, int64_t delay_ms); /* due again after delay_ms from now */

void bt_loop_remove(bt_loop *loop, uint64_t id); /* watch or timer; unknown ids are fine */

/* SIGINT, SIGTERM and SIGHUP come as calls of fn from the loop. The call blocks them, so it comes before any thread is
 * made, and ignores SIGPIPE and SIGXFSZ: such a write fails. bt_loop_free restores the mask and drops pending signals,
 * except where they were blocked before the call: there they wait for the next loop. After bt_loop_end_signals they
 * stay ignored. */
bt_err bt_loop_on_signals(bt_loop *loop, bt_loop_signal_fn *fn, void *ud, bt_fault *fault);
/* For a process with one loop after another: blocks the three signals, so that none is lost between two loops.
 * bt_loop_held_end: whether a SIGINT or SIGTERM has come that no loop has taken. */
void bt_loop_hold_signals(void);
bool bt_loop_held_end(void);

/* The process is leaving: from now on further signals are ignored, so that its exit code says how it went. */
void bt_loop_end_signals(void);

/* fn is called when the wait of each round ends (not over), and when its last handler has returned (over). */
void bt_loop_on_turns(bt_loop *loop, bt_loop_turn_fn *fn, void *ud);

bt_err bt_loop_run(bt_loop *loop, bt_fault *fault); /* until bt_loop_stop; BT_EIO when polling fails */
/* One round: waits up to timeout_ms (-1: until something is ready or due), runs the handlers. */
bt_err bt_loop_step(bt_loop *loop, int64_t timeout_ms, bt_fault *fault);
void bt_loop_stop(bt_loop *loop); /* from a handler; the round is finished */
#endif
