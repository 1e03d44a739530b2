#ifndef GW_DEVICE_H
#define GW_DEVICE_H
#include <stdbool.h>
#include "wire/msg.h"

/* The time and energy of an answer on the devices of its nodes, beside its time on the host: the object `device` of
 * `baton`. docs/device-time.md explains its keys. */
typedef struct gw_device_facts {
    const bt_msg_device *prefill_on, *decode_on; /* NULL: the node has none */
    bt_msg_device_work prefill, decode;          /* all attempts together; ns 0: no price */
    bt_msg_device_prompt prompt;                 /* of the attempt that made token 0 */
    uint64_t first_ns, transfer_ns, exposed_ns;  /* of the prompt of that attempt; of KV on the link in all attempts */
    uint64_t prompt_tokens, answer_tokens;
    bool is_local; /* no KV was handed over */
    bool has_host_prefill, has_host_kv, has_host_decode;
    uint64_t host_prefill_us, host_exposed_us, host_decode_us;
} gw_device_facts;

/* Time of the companion's operators in a prompt, without conversions. */
uint64_t gw_device_companion_ns(const bt_msg_device_prompt *p);

struct json_t;
/* A new reference; JSON null where neither node has a device; NULL: out of memory. */
struct json_t *gw_device_tell(const gw_device_facts *f);
#endif
