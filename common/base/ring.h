#ifndef BT_BASE_RING_H
#define BT_BASE_RING_H
#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"

/* A bounded queue of fixed-size elements from exactly one producer thread to exactly one consumer thread: how I/O and
 * compute threads meet. Everything that the producer wrote before a push is visible to the consumer after the pop.
 * Neither side ever waits for the other. Elements are copied; what they point to changes its owner with them.
 *
 * Waking: bt_ring_fd is readable whenever there may be an element (past the last _wake; a wake with nothing to pop is
 * possible, a missed one is not). Handlers pop until false; that also makes the descriptor quiet again. */
typedef struct bt_ring bt_ring;

bt_err bt_ring_new(bt_ring **ret, size_t elem_bytes, size_t capacity, bt_fault *fault); /* both 1..2^20 */
void bt_ring_free(bt_ring *r);                   /* when both threads are done with it; NULL is fine */
bool bt_ring_push(bt_ring *r, const void *elem); /* producer; false: full, nothing changed */
/* Producer: the same in two parts, to add several with one system call. An added element may be popped at once; a
 * consumer that sleeps learns of it by the _wake after. */
bool bt_ring_add(bt_ring *r, const void *elem);
void bt_ring_wake(bt_ring *r);
bool bt_ring_pop(bt_ring *r, void *ret_elem);  /* consumer; false: empty */
int bt_ring_fd(const bt_ring *r);              /* for the consumer's poll; owned by the ring */
bool bt_ring_wait(bt_ring *r, int timeout_ms); /* consumer; sleeps until readable; -1 for ever; false: time is up */
#endif
