#ifndef BT_SIMULATE_WIRE_H
#define BT_SIMULATE_WIRE_H
#include <stdint.h>
#include "device/link.h"

/* A host's link, one direction of it: what everybody sends over it shares its rate (contention).
 *
 * All layers of a chunk's block travel as one event. The layers are ready one after the other while the chunk is
 * computed, and each is a message of tx = bt_link_ns of its bytes. The last of L messages that are ready from `begin`
 * to `end` at equal distances arrives at
 *
 *   max(busy + L tx, begin + L tx, end + tx)
 *
 * because the longest wait of equal messages at equal distances begins with the first or the last of them. That is what
 * bt_link_chunk finds message by message. Several senders into one direction are a fluid: their work adds up in `busy`,
 * whose messages it is does not matter. */
typedef struct sim_wire {
    uint64_t busy_ns, tail_ns; /* when all work given so far is done; when the last message so far arrived */
    uint32_t slow;             /* times slower; 0 as 1 */
    uint64_t milli;            /* a pace (device/pace.h): K by 1000; 0: none */
} sim_wire;

/* From one host to another over both their links. layers messages of `bytes`, ready from begin_ns (the first) to
 * end_ns (the last); ns when the last has arrived, never before end_ns. */
uint64_t sim_wire_send(sim_wire *out, sim_wire *in, const bt_link *l, uint64_t begin_ns, uint64_t end_ns,
                       uint32_t layers, uint64_t bytes);
/* The time of a short message, which waits for no block: its own on the slower of two links. */
uint64_t sim_wire_short_ns(const sim_wire *out, const sim_wire *in, const bt_link *l, uint64_t bytes);
#endif
