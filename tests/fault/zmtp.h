#ifndef TESTS_FAULT_ZMTP_H
#define TESTS_FAULT_ZMTP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"

/* One direction of a ZMTP 3.x connection (rfc.zeromq.org/spec/37) with mechanism NULL, cut into what a fault may touch
 * whole:
 *
 *   GREETING   bytes of the 64 that open it, as they come: each side waits for the other's first bytes before it sends
 *              the rest
 *   COMMAND    one frame with the command flag: READY, PING, PONG; it may come between the frames of a message
 *   MESSAGE    all frames of one message, the first to the last, headers included
 *
 * The units of a direction, in order, are its bytes, except that a command goes before the message that it came in.
 * Memory is that of one message: a frame, or a message, of more than the limit is refused by its header. */
enum { ZMTP_GREETING_BYTES = 64, ZMTP_UNIT_BYTES_MAX = 80 << 20, ZMTP_COMMAND_BYTES_MAX = 64 << 10 };

typedef enum zmtp_kind { ZMTP_NONE, ZMTP_GREETING, ZMTP_COMMAND, ZMTP_MESSAGE } zmtp_kind;
typedef struct zmtp_unit {
    zmtp_kind kind;
    const uint8_t *bytes;
    size_t len;
} zmtp_unit;

typedef struct zmtp {
    uint8_t greeting[ZMTP_GREETING_BYTES], head[9];
    size_t greeted, head_len, body_left; /* body_left: of the frame whose header is whole */
    bool in_body, was_given;             /* was_given: the unit in the buffer below has been returned */
    bt_buf message, command;
} zmtp;

void zmtp_init(zmtp *z);
void zmtp_done(zmtp *z);

/* Takes bytes from *at, *left of them, up to the end of the next unit, and moves both on. ZMTP_NONE: the bytes ended
 * before. The unit's bytes are valid until the next call. BT_EFORMAT: this is no such connection, or no legal frame;
 * BT_ELIMIT: larger than the limit; BT_ENOMEM. After an error the connection cannot be followed any more. */
bt_err zmtp_next(zmtp_unit *ret, zmtp *z, const uint8_t **at, size_t *left);
/* The payload of a MESSAGE's frames, its headers left out: how many bytes, and where the n-th of them is. */
size_t zmtp_payload_bytes(const uint8_t *message, size_t len);
size_t zmtp_payload_at(const uint8_t *message, size_t len, size_t n);
#endif
