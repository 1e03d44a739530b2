/* The bytes of a bt_msg that its type uses. Most messages are short and the longest are 1.5 KB, so code that
 * makes, copies and decodes them by the million uses this length. */
#include "wire/msg.h"

#include <stddef.h>
#include <string.h>

size_t bt_msg_bytes(bt_msg_type type)
{
#define BYTES(field) (offsetof(bt_msg, u) + sizeof(((bt_msg *)0)->u.field))
    static const uint16_t of[] = {
        [BT_MSG_HELLO] = BYTES(hello),
        [BT_MSG_WELCOME] = BYTES(welcome),
        [BT_MSG_REJECT] = BYTES(reject),
        [BT_MSG_HEARTBEAT] = BYTES(heartbeat),
        [BT_MSG_BYE] = BYTES(bye),
        [BT_MSG_ROLE] = BYTES(role),
        [BT_MSG_ROLE_ANSWER] = BYTES(role_answer),
        [BT_MSG_RESERVE] = BYTES(reserve),
        [BT_MSG_RESERVED] = BYTES(reserved),
        [BT_MSG_REFUSED] = BYTES(refused),
        [BT_MSG_PREFILL] = BYTES(prefill),
        [BT_MSG_FIRST_TOKEN] = BYTES(first_token),
        [BT_MSG_PREFILL_DONE] = BYTES(prefill_done),
        [BT_MSG_FAILED] = BYTES(failed),
        [BT_MSG_ACK] = BYTES(ack),
        [BT_MSG_RENEW] = BYTES(renew),
        [BT_MSG_TOKENS] = BYTES(tokens),
        [BT_MSG_TOKENS_ACK] = BYTES(tokens_ack),
        [BT_MSG_FINISHED] = BYTES(finished),
        [BT_MSG_COMMIT] = BYTES(commit),
        [BT_MSG_MISSING] = BYTES(missing),
        [BT_MSG_CREDIT] = BYTES(credit),
        [BT_MSG_TRANSFER_REFUSED] = BYTES(failed),
    };
#undef BYTES
    const size_t bytes = (size_t)type < sizeof of / sizeof *of ? of[type] : 0;
    return bytes ? bytes : offsetof(bt_msg, u);
}

void bt_msg_begin(bt_msg *m, bt_msg_type type)
{
    memset(m, 0, bt_msg_bytes(type));
    m->type = type;
}
