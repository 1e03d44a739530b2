#ifndef PF_DEVICE_H
#define PF_DEVICE_H
#include "engine/costs.h"
#include "node/node_device.h"
#include "prefill-node/options.h"
#include "wire/msg.h"

/* The time and energy of a prefill node's prompts on the device that its package was made for. Zeroed: no price. */
typedef struct pf_device {
    bt_costs_prefill *costs; /* NULL: no price */
    bt_pace pace;
    bt_msg_device about; /* the device in HELLO */
} pf_device;
/* The package's own profile gives prices, or --profile where it is the same device; a profile without times gives none.
 * BT_EARG: --pace without a price. pf_device_done also after a failure. */
bt_err pf_device_open(pf_device *ret, const pf_options *o, const bt_prefill *engine, const bt_model *m,
                      bt_fault *fault);
void pf_device_done(pf_device *d);

/* A prompt's price for FIRST_TOKEN. */
void pf_device_tell(bt_msg_device_work *ret, bt_msg_device_prompt *parts, const bt_work_run *run);
#endif
