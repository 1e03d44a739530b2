#ifndef DC_BRAIN_INNER_H
#define DC_BRAIN_INNER_H
#include "decode-node/brain.h"
#include "xfer/attempt_log.h"
#include "xfer/greeting.h"
#include "xfer/xfer_credit.h"
#include "xfer/xfer_recv.h"

/* What brain.c (attempts, gateways, worker) and blocks.c (bulk links, transfers) share. For these two files only. */
enum { DC_NO_SLOT = UINT32_MAX };

typedef enum dc_state { DC_NONE = 0, DC_RESERVED, DC_RUNNING, DC_STOPPING, DC_REPORTING, DC_DEAD } dc_state;

typedef struct dc_record {
    dc_state state;
    bt_request_ref ref;
    uint32_t slot, pages;
    bt_msg_reserve wish;
    bt_ticket ticket;
    bt_xfer_recv recv;                  /* until DC_RUNNING */
    int64_t lease_us, lease_end_us, resend_us;
    int32_t *ids;                       /* [max_tokens] from index 0 */
    uint32_t ids_len, acked;            /* known; wanted next by the gateway */
    bool ack_abort;                     /* DC_STOPPING: the gateway waits for ABORT_ACK */
    bool is_finished, is_failed;        /* DC_REPORTING */
    bt_msg_finished finished;
    bt_msg_failed failed;
} dc_record;

typedef struct dc_link { bool in_use; bt_incarnation peer; bt_xfer_grant grant; uint64_t epoch; int64_t heard_us; } dc_link;

struct dc_brain {
    dc_config cfg;
    bt_greeting_times times;
    bt_greeting gates[DC_MAX_GATEWAYS];
    dc_record *records; uint32_t records_len;
    bool *slot_used;
    dc_link *links;
    uint64_t epochs, pages_used, rss_bytes;
    bool draining, exited, started;
    bt_attempt_log log;
    bt_kv_range missing[BT_MSG_MAX_RANGES];
    dc_action *acts; size_t acts_len, acts_cap;
    dc_counters n;
    int64_t now_us;
    const bt_random *random;
};

/* brain.c */
dc_action *dc_act(dc_brain *b, dc_action_type type);
dc_record *dc_find(dc_brain *b, const bt_request_ref *ref);     /* the request's highest attempt, or NULL */
dc_record *dc_by_slot(dc_brain *b, uint32_t slot);
void dc_start(dc_brain *b, dc_record *r);                       /* every row is in place, ids[0] is token 0 */
void dc_stopped(dc_brain *b, dc_record *r);                     /* nothing works on a STOPPING record any more */

/* blocks.c */
void dc_on_bulk(dc_brain *b, const bt_msg *m);
void dc_on_block(dc_brain *b, const dc_block *in);
void dc_on_placed(dc_brain *b, const dc_block *in, bool is_good);
#endif
