#ifndef GW_REQUEST_H
#define GW_REQUEST_H
#include "gateway/brain/state.h"

/* The life of one request inside the gateway's brain, file by file in the order of state.h. brain.h
 * explains the states. */

/* ---- request_due.c ------------------------------------------------------------------------------- */

/* When gw_request_expire next does something; BT_STEP_NEVER. */
int64_t gw_request_due_us(const gw_brain *b, const gw_request *r);
/* The last moment for another attempt to be accepted, or for nodes to be ready at all. */
int64_t gw_request_patience_us(const gw_brain *b, const gw_request *r);
bool gw_request_wants_renew(const gw_request *r);
bool gw_request_wants_resend(const gw_request *r); /* its nodes owe an answer */

/* ---- request.c ----------------------------------------------------------------------------------- */

/* The request of that number that has not ended; NULL: none. */
gw_request *gw_request_find(gw_brain *b, uint64_t number);
void gw_request_name(gw_brain *b, gw_request *r); /* from now on gw_request_find finds it, until it is DEAD */
/* Sets the state, and keeps the queue, the count of active requests and the table by number. QUEUED puts the request
 * into the line. */
void gw_request_set_state(gw_brain *b, gw_request *r, gw_request_state s);
/* Puts the request to its place in the order `due`: called after any of its times, or what they depend on, was written.
 */
void gw_request_rearm(gw_brain *b, gw_request *r);
/* Puts a QUEUED request into the part of the line where it waits; into this part, under this key. */
void gw_request_line_up(gw_brain *b, gw_request *r);
void gw_request_stand(gw_brain *b, gw_request *r, gw_line part, bt_order_key key);
/* The request whose turn it is, among all in turn or in gw_brain.in_short_round among short ones; NULL: there is none.
 */
gw_request *gw_request_next(gw_brain *b);
/* It has had its turn in that round: its share pays for it, once. */
void gw_request_take_turn(gw_brain *b, gw_request *r);
/* D has it in its line, or holds a place for it until a prefill node is free. */
static inline bool gw_request_is_parked(const gw_request *r) { return r->is_in_line || r->is_placed; }
void gw_request_set_line(gw_brain *b, gw_request *r, bool is_in_line);
void gw_request_set_placed(gw_brain *b, gw_request *r, bool is_placed);
/* Notes whether the side holds a place on its node, for gw_request_node_lost. */
void gw_request_hold(gw_brain *b, gw_request *r, gw_side *side, bool is_held);
/* The index of the first token that the decode node makes in this attempt. */
static inline uint32_t gw_request_first_made(const gw_request *r) { return r->base ? r->base : 1; }
/* When half of the waiting requests of the share will have got nodes, by the recent rate and the share's part of it. */
uint32_t gw_request_retry_ms(const gw_brain *b, uint32_t share);
/* A message about this attempt to one of its nodes; the caller fills the rest. */
bt_msg *gw_request_tell(gw_brain *b, const gw_request *r, const gw_side *side, bt_msg_type type);
void gw_request_say_reserve(gw_brain *b, gw_request *r);
void gw_request_say_prefill(gw_brain *b, gw_request *r);
/* Set the request's deadline: for nodes to answer; for token 0, or the rows of known tokens; for the next token. */
void gw_request_await_answer(gw_brain *b, gw_request *r);
void gw_request_await_prompt(gw_brain *b, gw_request *r);
void gw_request_await_token(gw_brain *b, gw_request *r);

/* ---- request_end.c ------------------------------------------------------------------------------- */

/* The node holds nothing of the request any more. */
void gw_request_close_side(gw_brain *b, gw_request *r, gw_side *side);
/* Whether the attempt cannot go on without this node. */
bool gw_request_needs(const gw_request *r, const gw_side *side);

/* FAIL for a request that was never taken. */
void gw_request_refuse(gw_brain *b, uint64_t request, gw_fail_kind kind, bt_err code, uint32_t retry_after_ms,
                       const gw_stats *stats, const char *text);
/* The end: DONE or FAIL, both nodes are left, and the request is DEAD. */
void gw_request_done(gw_brain *b, gw_request *r);
void gw_request_fail(gw_brain *b, gw_request *r, gw_fail_kind kind, bt_err code, uint32_t retry_after_ms,
                     const char *fmt, ...) __attribute__((format(printf, 6, 7)));
void gw_request_finish_early(gw_brain *b, gw_request *r); /* GW_EV_FINISH_EARLY */
/* All tokens have come: DONE at once where both sides are closed, else CLOSING, to wait a little for the sides'
 * figures. */
void gw_request_closing(gw_brain *b, gw_request *r);

/* Leaves both nodes; the next attempt begins wait_us from now at the earliest. */
void gw_request_requeue(gw_brain *b, gw_request *r, int64_t wait_us);
/* A needed node does not go on: requeue, or FAIL when that was tried often enough. `blame` says whom to
 * avoid. */
typedef enum gw_blame { GW_BLAME_PREFILL = 1, GW_BLAME_DECODE = 2, GW_BLAME_PAIR = 3 } gw_blame;
void gw_request_recover(gw_brain *b, gw_request *r, gw_cause cause, gw_blame blame, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Every request on the node of this incarnation goes on without it. Unless the node is only silent (GW_CAUSE_GONE), it
 * holds nothing any more, and its debts are forgotten. */
void gw_request_node_lost(gw_brain *b, const bt_incarnation *node, const char *node_id, gw_cause cause);

/* The node has freed an attempt that was left; false: it owed nothing. */
bool gw_request_settle(gw_brain *b, const bt_incarnation *node, const bt_request_ref *ref);
void gw_request_expire_debts(gw_brain *b);

/* ---- request_time.c ------------------------------------------------------------------------------ */

/* Acts on deadlines: ends a request, begins another attempt, renews a lease, sends a message again. */
void gw_request_expire_all(gw_brain *b);
void gw_request_expire(gw_brain *b, gw_request *r);

/* ---- request_queue.c ----------------------------------------------------------------------------- */

void gw_request_submit(gw_brain *b, const gw_submit *s, const bt_random *random); /* GW_EV_SUBMIT */
/* Gives nodes to waiting requests, as far as there are any. */
void gw_request_dispatch(gw_brain *b);
/* RESERVED came, and no prefill node is chosen: chooses one, or waits for one. */
void gw_request_place(gw_brain *b, gw_request *r);
void gw_request_begin_prefill(gw_brain *b, gw_request *r); /* D takes KV from the prefill node that it has */
/* A request that comes now would find nodes: requests that wait for their first nodes are no longer stuck. */
void gw_request_unstick(gw_brain *b);

/* ---- request_msg.c ------------------------------------------------------------------------------- */

/* A message about a request, from a known node. */
void gw_request_msg(gw_brain *b, const bt_msg *m);
#endif
