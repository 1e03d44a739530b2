#ifndef BT_SIMULATE_CALENDAR_H
#define BT_SIMULATE_CALENDAR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "decode-node/brain/brain.h"

/* Future events, in order of time, then of posting. */
typedef enum sim_when {
    SIM_WHEN_MSG = 1,    /* msg reaches `to`; is_bulk: on the bulk link of `from` */
    SIM_WHEN_BLOCK,      /* block reaches `to` */
    SIM_WHEN_CHUNK,      /* a prefill node has computed a chunk of `slot` */
    SIM_WHEN_LAYER,      /* ... layer `from` of it, where layers travel one by one */
    SIM_WHEN_STOPPED,    /* ... has let go of `slot` */
    SIM_WHEN_STEP,       /* a decode node's step is over */
    SIM_WHEN_WAKE,       /* a timer */
    SIM_WHEN_START,      /* a node that loads has loaded */
    SIM_WHEN_DRAIN,      /* a node is asked to leave */
    SIM_WHEN_DRAIN_OVER, /* ... and has had its time for it */
    SIM_WHEN_LEFT,       /* a node has sent BYE */
    SIM_WHEN_CUT,        /* the gateway learns that the connection to `from` has ended */
    SIM_WHEN_DEADLINE,   /* the timeout of request `run` at the gateway `to` */
    SIM_WHEN_CALLER,     /* the caller's own, `run` is its number */
} sim_when;

typedef struct sim_event {
    int64_t at_ns;
    uint64_t order; /* set by the calendar */
    sim_when what;
    uint32_t from, to, slot;
    uint64_t life, run; /* the life of `to` at posting; an event of an older life is void */
    bool is_bulk;
    union {
        bt_msg *msg;
        dc_block *block;
    } u;
} sim_event;

typedef struct sim_calendar {
    sim_event *heap;
    size_t len, cap;
    uint64_t orders;
} sim_calendar;
bt_err sim_calendar_post(sim_calendar *c, const sim_event *e); /* BT_ENOMEM */
/* The earliest, taken out. False: none is due by until_ns. */
bool sim_calendar_take(sim_event *ret, sim_calendar *c, int64_t until_ns);
void sim_calendar_done(sim_calendar *c); /* events left in it belong to the caller */
#endif
