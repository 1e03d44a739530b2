#ifndef BT_ENGINE_COSTS_H
#define BT_ENGINE_COSTS_H
#include "device/work.h"
#include "engine/prefill.h"
#include "model/weights.h"
#include "npu/price/schedule_play.h"

/* Prices for the work of engines: a model and an engine as plain numbers for device/work.h. */

/* The sizes of a model's file. */
bt_dims bt_costs_dims(const bt_model *m);
/* A model's numbers for decode steps: weights in this form, KV with elements of kv_elem_bytes, scales included. */
bt_price_model bt_costs_decode(const bt_model *m, bt_form form, uint32_t kv_elem_bytes);

/* A prompt engine that runs a package, on a device and over a link. `work` is ready for use; it borrows from the other
 * fields. */
typedef struct bt_costs_prefill {
    bt_price_pkg *price;
    bt_work_prefill work;
    bt_schedule_play *play; /* NULL: none */
} bt_costs_prefill;
/* link NULL: none. Prompts are priced in program order, chunk by chunk, until they have a schedule. BT_EARG: an engine
 * without a package; errors of bt_price_pkg_new. */
bt_err bt_costs_prefill_new(bt_costs_prefill **ret, const bt_prefill *engine, const bt_model *m,
                            const bt_profile *profile, const bt_link *link, bt_fault *fault);
void bt_costs_prefill_free(bt_costs_prefill *c); /* NULL is fine */
/* From then on prompts are priced by their stages under this schedule, with as many chunks under way as in the engine
 * (engine/overlap.h). The engine outlives *c. Errors of bt_schedule_play_new. */
bt_err bt_costs_prefill_by(bt_costs_prefill *c, bt_schedule_policy policy, bt_fault *fault);
#endif
