#ifndef BT_XFER_STEP_H
#define BT_XFER_STEP_H
#include <stdint.h>
#include "base/log.h" /* bt_log_level, for LOG actions; brains never log themselves */

/* The rules of all three brains (gateway/brain/brain.h, prefill-node/brain/brain.h, decode-node/brain/brain.h).
 *
 * A brain is a pure state machine: X_brain_step(brain, event, now_us, random) returns the actions that its
 * shell must carry out, in order. It knows no socket, clock, thread or file. The shell (a daemon, or tests/world)
 * keeps these rules:
 *
 *   now_us    monotonic, never smaller than in the step before. A brain first expires what is due at `now_us`,
 *             then looks at the event: a process woken by SIGCONT never acts on a dead lease.
 *   random    fresh unpredictable bits for each step that its header names; a daemon takes them from the system,
 *             tests/world from its seed.
 *   actions   belong to the brain, with everything they point to, and live until its next step. One step can
 *             never make more actions than the room taken at _new (the bound is computed from the
 *             configuration).
 *   due       X_brain_due_us says when the next TICK event is needed if nothing else happens; a step may be
 *             late (nothing breaks), a TICK may be early (nothing happens).
 *   messages  bt_msg structs; arrays of a message inside an event are only read during the step.
 * A brain is used by one thread at a time. After _new it never allocates, except where its header says so. */
typedef struct bt_random {
    uint64_t word[2];
} bt_random;

enum { BT_STEP_TEXT_BYTES = 320 }; /* the text of a LOG or FAIL action, final zero included */

/* "Never": the value of X_brain_due_us when no timer runs. */
#define BT_STEP_NEVER INT64_MAX
#endif
