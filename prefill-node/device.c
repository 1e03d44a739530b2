/* The profile that prices a package, and its prices in the words of messages. */
#include "prefill-node/device.h"
#include "engine/names.h"
#include "npu/price/price_pkg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The profile that the package names. --profile may be a file with that name inside. */
static bool find_profile(bt_profile *ret, const pf_options *o, const bt_prefill *engine)
{
    const char *name = bt_prefill_about(engine).profile;
    if (!bt_prefill_pkg(engine)) return false;
    if (bt_profile_load(ret, o->want->profile, NULL) == BT_OK && !strcmp(ret->name, name))
        return ret->time.is_given;
    return bt_profile_load(ret, name, NULL) == BT_OK && ret->time.is_given;
}

bt_err pf_device_open(pf_device *ret, const pf_options *o, const bt_prefill *engine, const bt_model *m,
                      bt_fault *fault)
{
    bt_profile profile;
    bt_link link;
    const bt_pace pace = bt_node_device_pace(o->node);
    const bool has_link = bt_node_device_link(&link, o->node);
    *ret = (pf_device){.pace = pace};
    if (!find_profile(&profile, o, engine)) {
        if (!pace.milli) return BT_OK;
        return bt_fail(
            fault, BT_EARG,
            "--pace %s: nothing says how fast the prompts of this node would be; it takes --engine npu "
            "and a --profile with a time, such as hexagon-v75",
            o->node->pace);
    }
    bt_err e = bt_costs_prefill_new(&ret->costs, engine, m, &profile, has_link ? &link : NULL, fault);
    if (e == BT_OK) e = bt_costs_prefill_by(ret->costs, (bt_schedule_policy)o->schedule, fault);
    if (e < 0) return e;
    bt_price_pkg *price = ret->costs->price;
    ret->about = bt_node_device_about(&profile, has_link ? o->node->link : NULL, pace);
    snprintf(ret->about.companion, sizeof ret->about.companion, "%s",
             bt_price_pkg_engines(price)->companion->name);
    ret->about.first_use_ns = bt_price_pkg_first_ns(price);
    ret->about.compile_ns = bt_price_pkg_compile_ns(price);
    snprintf(ret->about.schedule, sizeof ret->about.schedule, "%s", bt_engine_schedules[o->schedule]);
    return BT_OK;
}

void pf_device_done(pf_device *d)
{
    bt_costs_prefill_free(d->costs);
    *d = (pf_device){0};
}

void pf_device_tell(bt_msg_device_work *ret, bt_msg_device_prompt *parts, const bt_work_run *run)
{
    const uint64_t *ns = run->sum.part_ns;
    *ret = bt_node_device_work(&run->work);
    *parts =
        (bt_msg_device_prompt){.transfer_ns = run->transfer_ns,
                               .exposed_ns = run->exposed_ns,
                               .npu_ns = ns[BT_PRICE_PKG_NPU],
                               .edges_ns = ns[BT_PRICE_PKG_EDGES],
                               .sync_ns = ns[BT_PRICE_PKG_SYNC],
                               .session_ns = ns[BT_PRICE_PKG_SESSIONS],
                               .spill_ns = run->sum.spill_ns,
                               .npu_bubble_ns = run->work.ns - run->busy_ns[BT_SCHEDULE_NPU],
                               .companion_bubble_ns = run->work.ns - run->busy_ns[BT_SCHEDULE_COMPANION]};
    _Static_assert((int)BT_OP_KINDS <= (int)BT_MSG_MAX_DEVICE_PARTS,
                   "a message has a part for each operator");
    for (int k = 0; k < BT_OP_KINDS; k++) {
        if (!ns[k]) continue;
        snprintf(parts->parts[parts->parts_len].op, sizeof parts->parts[0].op, "%s",
                 bt_op_name((bt_op_kind)k));
        parts->parts[parts->parts_len++].ns = ns[k];
    }
}
