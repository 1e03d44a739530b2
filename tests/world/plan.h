#ifndef TESTS_WORLD_PLAN_H
#define TESTS_WORLD_PLAN_H
#include "tests/world/sim_world.h"

/* The meaning of a seed: a world, its clients, and the faults in it. A plan is a list of units, each of which may be
 * left out without changing the meaning of the others, so that a failing plan can be made smaller. */
typedef enum plan_kind {
    PLAN_REQUEST = 1, /* a client asks gateway `index`; at until_us it leaves, or ends it early; 0: it waits */
    PLAN_FLOOD,       /* a client of a key asks so many times at once */
    PLAN_KILL,        /* of a process; started again at until_us; 0: when the faults are over */
    PLAN_STOP,        /* of a process; goes on at until_us */
    PLAN_DRAIN,       /* of a process; started again at until_us, if it has left by then */
    PLAN_CUT,         /* of what `from` sends to `to`, until until_us */
    PLAN_CUT_BOTH,    /* and back */
    PLAN_ROLE,        /* gateway `from` asks a node to serve as `as`; at until_us it has had its time to drain */
    PLAN_JOIN,        /* a node that is not there until until_us */
    PLAN_LEAVE,       /* of a node, as DRAIN, for good; at until_us it has had its time to drain */
    PLAN_RESET,       /* of the connection of node `from` to gateway `to`, which comes back at until_us */
} plan_kind;

typedef struct plan_unit {
    plan_kind kind;
    int64_t at_us, until_us; /* since the start */
    bt_role role, as;
    uint32_t index;
    uint32_t from, to;
    bool holds;   /* packets wait while it is cut, and are not lost */
    bool is_told; /* KILL of a node: its gateways see their connections end */
    uint32_t prompt_tokens, max_tokens;
    uint32_t key, times; /* key 0: no key; times: of a flood */
    int32_t priority;
    bool is_early;
} plan_unit;

enum { PLAN_UNITS = 128 };
typedef struct plan {
    sim_options world;
    int64_t faults_end_us; /* everything works again from then on */
    bool leaves_dead;      /* but what is dead then stays dead, if a pair lives */
    uint32_t units_len;
    plan_unit units[PLAN_UNITS];
} plan;

void plan_draw(plan *ret, uint64_t seed);
const char *plan_role_name(bt_role role);
void plan_say_unit(FILE *out, const plan_unit *u);
void plan_say_world(FILE *out, const plan *p);
#endif
