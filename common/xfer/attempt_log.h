#ifndef BT_ATTEMPT_LOG_H
#define BT_ATTEMPT_LOG_H
#include "wire/msg.h"

/* What a node remembers of attempts that are over: the highest attempt of each of the last BT_ATTEMPT_LOG_LEN requests.
 * So a node recognises late and repeated messages of these attempts: no attempt runs twice, and an aborted one never
 * starts. Requests are found by a hash; a zeroed log is empty. */
enum { BT_ATTEMPT_LOG_LEN = 512 };
typedef struct bt_attempt_log {
    bt_request_ref refs[BT_ATTEMPT_LOG_LEN];
    uint16_t same[BT_ATTEMPT_LOG_LEN], buckets[BT_ATTEMPT_LOG_LEN]; /* chains of places + 1 */
    uint32_t len, next;
} bt_attempt_log;

/* A hash of the request, without the attempt, for tables by request. */
uint64_t bt_request_hash(const bt_request_ref *ref);

/* Notes that the attempt of ref and all lower ones are over. */
void bt_attempt_log_note(bt_attempt_log *log, const bt_request_ref *ref);
/* The highest attempt of the request known to be over; 0 when none is. */
uint32_t bt_attempt_log_highest(const bt_attempt_log *log, const bt_request_ref *ref);
#endif
