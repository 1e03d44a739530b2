#ifndef PF_DEVICE_H
#define PF_DEVICE_H
#include "engine/costs.h"
#include "node/node_device.h"
#include "prefill-node/options.h"
#include "wire/msg.h"

/* What the prompts of a prefill node would take on the device that its package was made for. Zeros: they have no
 * price. */
typedef struct pf_device {
    bt_costs_prefill *costs; /* NULL: no price */
    bt_pace pace;
    bt_msg_device about; /* what HELLO says */
} pf_device;
/* A package's own profile prices it, --profile where that is the same; one without a time has no price. BT_EARG: --pace
 * without a price. pf_device_done also after a failure. */
bt_err pf_device_open(pf_device *ret, const pf_options *o, const bt_prefill *engine, const bt_model *m,
                      bt_fault *fault);
void pf_device_done(pf_device *d);

/* A prompt's price for FIRST_TOKEN. */
void pf_device_tell(bt_msg_device_work *ret, bt_msg_device_prompt *parts, const bt_work_run *run);
#endif
