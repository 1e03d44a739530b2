#ifndef GW_TURN_H
#define GW_TURN_H
#include <stdbool.h>
#include <stdint.h>
#include "base/log.h"
#include "gateway/door/metrics.h"

/* How long each turn of the gateway's loop takes, and what takes it. At any time one part of the work runs; who begins
 * another part says so, and says it again when that is over:
 *
 *   const gw_turn_part before = gw_turn_go(t, GW_TURN_PAGES);
 *   ...
 *   gw_turn_go(t, before);
 *
 * A turn over GW_TURN_LONG_US is logged with its parts, at most one in GW_TURN_LOG_MS. */
typedef enum gw_turn_part {
    GW_TURN_MESSAGES,    /* of nodes, and what none of the others is */
    GW_TURN_CONNECTIONS, /* reading, accepting and sending */
    GW_TURN_BODIES,      /* reading them as requests */
    GW_TURN_PAGES,       /* what a GET shows */
    GW_TURN_DECISIONS,
    GW_TURN_SENDING, /* messages to nodes */
    GW_TURN_TEXT,    /* of tokens, for streams */
    GW_TURN_ANSWERS, /* the ends of requests */
    GW_TURN_TIMERS,
    GW_TURN_PARTS
} gw_turn_part;

enum { GW_TURN_LONG_US = 20000, GW_TURN_LOG_MS = 5000, GW_TURN_SPARE_US = 4000 };

typedef struct gw_turn {
    gw_metrics *metrics;
    bt_log_limit limit;
    gw_turn_part part; /* that runs */
    int64_t begun_us, since_us, processor_us;
    int64_t spent_us[GW_TURN_PARTS];
    uint32_t times[GW_TURN_PARTS];
} gw_turn;

void gw_turn_init(gw_turn *t, gw_metrics *metrics);
void gw_turn_begin(gw_turn *t);
/* Ends the turn; its time goes into the metrics. */
void gw_turn_end(gw_turn *t);
/* From now on `part` runs. Returns the one before. */
gw_turn_part gw_turn_go(gw_turn *t, gw_turn_part part);
/* Whether the turn has taken less than GW_TURN_SPARE_US so far, so that small pieces of work still fit into it. */
bool gw_turn_has_time(const gw_turn *t);
#endif
