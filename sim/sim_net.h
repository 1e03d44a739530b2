#ifndef SIM_NET_H
#define SIM_NET_H
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The virtual network, and the calendar of everything else that will happen. What is posted comes out again in
 * order of time, then of posting, so a run is a function of its seed. Packets of one link (sender, receiver,
 * channel) keep their order, as on a TCP connection; links overtake each other freely. Draws come from
 * sim_net_draw alone. */
typedef enum sim_kind { SIM_PACKET = 1, SIM_PREFILL_WORK, SIM_DECODE_WORK } sim_kind;
typedef enum sim_channel { SIM_CONTROL = 1, SIM_BULK, SIM_BLOCK } sim_channel;    /* BULK and BLOCK share one link's order */

typedef struct sim_faults {
    double drop_ratio, repeat_ratio;            /* of messages on control and bulk */
    double block_drop_ratio, block_corrupt_ratio;   /* of KV blocks */
    int64_t delay_min_us, delay_max_us;
} sim_faults;

typedef struct sim_item {
    int64_t at_us;
    uint64_t order;
    sim_kind kind;
    uint32_t from, to;                          /* process numbers */
    uint64_t life;                              /* of the receiver, when it was posted: an item of an older life is
                                                 * void */
    sim_channel channel;
    uint8_t socket[16];                         /* BULK: which socket of the prefill node */
    uint8_t *bytes; size_t len;                 /* PACKET; owned */
    uint32_t slot; uint64_t run;                /* work */
} sim_item;

typedef struct sim_net sim_net;
/* processes: how many there are. BT_ENOMEM. */
bt_err sim_net_new(sim_net **ret, uint64_t seed, uint32_t processes, const sim_faults *faults);
void   sim_net_free(sim_net *n);
void   sim_net_set_faults(sim_net *n, const sim_faults *faults);

uint64_t sim_net_draw(sim_net *n);
double   sim_net_chance(sim_net *n);            /* [0, 1) */

/* Post a copy of bytes by the rules above; faults apply. BT_ENOMEM. */
bt_err sim_net_send(sim_net *n, int64_t now_us, const sim_item *packet, const uint8_t *bytes, size_t len);
/* Post an item for at_us as it is. BT_ENOMEM. */
bt_err sim_net_post(sim_net *n, const sim_item *item);
/* Take the earliest item due by until_us; the caller frees its bytes. False: none. */
bool    sim_net_take(sim_net *n, sim_item *ret, int64_t until_us);
int64_t sim_net_due_us(const sim_net *n);       /* INT64_MAX when empty */
#endif
