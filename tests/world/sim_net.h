#ifndef TESTS_WORLD_SIM_NET_H
#define TESTS_WORLD_SIM_NET_H
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The virtual network, and the calendar of everything else that will happen. An item that is posted comes out again in
 * order of time, then of posting, so a run is a function of its seed. Packets of one link (sender, receiver, channel)
 * keep their order, as on a TCP connection, except one that a fault makes late: it comes out behind its followers, as
 * after a reconnection. Links overtake each other freely.
 *
 * The fate of a packet is a function of the seed, its link and its ordinal there alone, and has a number (a fault's id)
 * by which it can be left out of a second run: so a failing run can be made smaller. Other draws come from
 * sim_net_draw, each process from its own stream. */
typedef enum sim_kind {
    SIM_PACKET = 1,
    SIM_PREFILL_WORK,
    SIM_DECODE_WORK,
    SIM_CUT, /* a gateway learns that its connection to `from` has ended */
    SIM_UP,  /* a node learns that its connection to gateway `slot` is up again */
    SIM_BORN /* a node that has left for another role has loaded */
} sim_kind;
typedef enum sim_channel {
    SIM_CONTROL = 1,
    SIM_BULK,
    SIM_BLOCK
} sim_channel; /* BULK and BLOCK share one link's order */
typedef enum sim_fault_kind {
    SIM_DROP = 1,
    SIM_REPEAT,
    SIM_REORDER,
    SIM_CORRUPT,
    SIM_SLOW,
    SIM_FAULT_KINDS
} sim_fault_kind;

typedef struct sim_faults {
    double drop_ratio, repeat_ratio, reorder_ratio, corrupt_ratio; /* of messages on control and bulk */
    double block_drop_ratio, block_repeat_ratio, block_reorder_ratio, block_corrupt_ratio; /* of KV blocks */
    double slow_ratio;
    int64_t slow_us;                    /* of all: so much later at most, and what follows on the link waits behind */
    int64_t delay_min_us, delay_max_us; /* of every packet; a reordered one comes up to eight times the longest later, a
                                           repeat up to 1.5 s */
} sim_faults;

typedef struct sim_item {
    int64_t at_us;
    sim_kind kind;
    uint32_t from, to;        /* process numbers */
    uint64_t life, from_life; /* of the receiver, when it was posted: an item of an older life is void; of the sender */
    uint64_t weight, epoch, end; /* of a block: its bytes, 0 of a repeat; the epoch of its link; all bytes sent in it */
    sim_channel channel;
    bool is_corrupt;
    bool is_astray;     /* a block for an earlier life of who lives at `to`: it is of no link that is there */
    uint8_t socket[16]; /* BULK: which socket of the prefill node; CUT: the node's incarnation */
    uint8_t *bytes;
    size_t len; /* PACKET */
    uint32_t slot;
    uint64_t run;     /* work */
    size_t bytes_cap; /* private, as the next */
    struct sim_item *next;
} sim_item;

typedef struct sim_net sim_net;
/* processes: how many there are, at most 8,192; 56 bytes for each way between two. BT_ENOMEM. */
bt_err sim_net_new(sim_net **ret, uint64_t seed, uint32_t processes, const sim_faults *faults);
void sim_net_free(sim_net *n);
void sim_net_set_faults(sim_net *n, const sim_faults *faults);

/* Sets the process whose stream later draws come from: 0 .. processes - 1, or `processes` for the outside. */
void sim_net_stream(sim_net *n, uint32_t process);
uint64_t sim_net_draw(sim_net *n);
void sim_net_skip(sim_net *n, uint64_t draws); /* passes over so many draws */
double sim_net_chance(sim_net *n);             /* [0, 1) */

/* Until until_us packets from `from` to `to` are lost, on all channels; holds: they wait and arrive afterwards. */
void sim_net_cut(sim_net *n, uint32_t from, uint32_t to, int64_t until_us, bool holds);
int64_t sim_net_cut_until_us(const sim_net *n, uint32_t from, uint32_t to);
/* packets that waited in a cut may come then */
int64_t sim_net_held_until_us(const sim_net *n, uint32_t from, uint32_t to);

/* Post a copy of bytes by the rules above; faults apply. BT_ECANCEL: it is lost; BT_ENOMEM. */
bt_err sim_net_send(sim_net *n, int64_t now_us, sim_item *packet, const uint8_t *bytes, size_t len);
/* Post an item without bytes for at_us as it is. BT_ENOMEM. */
bt_err sim_net_post(sim_net *n, const sim_item *item);
/* Take the earliest item due by until_us; NULL: none. Give it back by _done, or by _again to post it anew for at_us
 * (out of memory: it is lost). */
sim_item *sim_net_take(sim_net *n, int64_t until_us);
void sim_net_done(sim_net *n, sim_item *item);
void sim_net_again(sim_net *n, sim_item *item, int64_t at_us);
int64_t sim_net_due_us(const sim_net *n); /* INT64_MAX when empty */

/* Faults by packet. Ids have their highest bit set. */
#define SIM_FAULT_ID_OF_PACKET (UINT64_C(1) << 63)
void sim_net_record(sim_net *n); /* keep the ids of what befalls packets from now on */
const uint64_t *sim_net_recorded(const sim_net *n, size_t *ret_len);
/* Only these befall packets: borrowed, ascending. */
void sim_net_only(sim_net *n, const uint64_t *ids, size_t len);
uint64_t sim_net_faults_count(const sim_net *n); /* that befell packets, those lost in cuts too */
/* Called for each packet that something befalls; may be NULL. */
typedef void sim_net_watch(void *ud, const sim_item *packet, sim_fault_kind kind, uint64_t id);
void sim_net_set_watch(sim_net *n, sim_net_watch *watch, void *ud);
#endif
