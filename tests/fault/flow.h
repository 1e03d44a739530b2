#ifndef TESTS_FAULT_FLOW_H
#define TESTS_FAULT_FLOW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tests/fault/script.h"
#include "tests/fault/zmtp.h"

/* One direction of a connection: bytes in, bytes out, with what the script does to them between. No socket and no
 * clock: whoever owns it reads, writes and says what time it is.
 *
 *   delay     this message and everything behind it waits, as behind a lost packet, for up to script.delay_ms
 *   drop      it never comes
 *   repeat    a copy comes again, at once or after up to 3 others
 *   reorder   it comes after 1 to 3 others, or after 100 ms if nobody overtakes it
 *   corrupt   one byte of a frame's payload is another
 *
 * A flow of messages follows ZMTP (zmtp.h); greeting and commands pass through untouched. A flow of bytes takes what
 * comes in one piece for a message, whatever it means, and knows delay and corrupt only. */
enum { FLOW_LATE_MAX = 8, FLOW_ROOM_BYTES = 256 << 10, FLOW_LATE_MS = 100 };

typedef struct flow_stats {
    uint64_t messages, commands, bytes, fates[FATE_KINDS];
} flow_stats;

typedef struct flow_item flow_item;
typedef struct flow_late {
    flow_item *item;
    uint64_t after;
    int64_t due_ms;
} flow_late;

typedef struct flow {
    const script *script; /* NULL: no fault */
    uint64_t stream, index;
    bool is_bytes, cuts_next, is_cut;
    zmtp parser;
    flow_item *first, *last;
    size_t queued_bytes;
    flow_late late[FLOW_LATE_MAX];
    int64_t last_due_ms;
    uint64_t rate;   /* bytes a second; 0: no limit */
    int64_t rate_ms; /* tokens were counted up to here */
    double tokens;
    flow_stats *stats;
} flow;

/* stream: who this is, for the script. stats are added to. */
void flow_init(flow *f, uint64_t stream, bool is_bytes, flow_stats *stats);
void flow_done(flow *f);
/* From now on; NULL: none any more. */
void flow_set_script(flow *f, const script *s);
void flow_set_rate(flow *f, uint64_t bytes_per_s, int64_t now_ms);

/* Whether more should be read: at most FLOW_ROOM_BYTES wait, and one unit more. */
bool flow_has_room(const flow *f);
bt_err flow_take(flow *f, const uint8_t *bytes, size_t len, int64_t now_ms); /* errors of zmtp_next */
/* The bytes that may be written at now_ms: *len bytes, 0 for none. flow_wrote says how many of them were. */
const uint8_t *flow_peek(flow *f, size_t *len, int64_t now_ms);
void flow_wrote(flow *f, size_t n);
/* When flow_peek will have something, -1 when it needs flow_take first. */
int64_t flow_due_ms(const flow *f, int64_t now_ms);
/* No more is coming: what waits to be overtaken is queued. */
void flow_flush(flow *f, int64_t now_ms);
bool flow_is_empty(const flow *f);
/* Only a part of the next unit that is no greeting comes out, and then nothing any more: flow_is_cut once that part has
 * been written. */
void flow_cut_next(flow *f);
bool flow_is_cut(const flow *f);
#endif
