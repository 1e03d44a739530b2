/* Five terms, or one bound. */
#include "device/energy.h"
#include "device/time.h"

bt_energy bt_energy_of(const bt_profile_time *t, uint64_t ns, uint64_t ops, uint64_t bytes,
                       uint64_t worked_ns)
{
    bt_energy e = {BT_ENERGY_NONE, 0};
    /* mW * ns = pJ, so by 1000 in nJ; fJ by 10^6. Each device of a group draws. */
    const uint64_t devices = t->devices ? t->devices : 1;
    if (t->idle_mw || t->busy_mw || t->op_fj || t->byte_fj || t->polling_mw) {
        e.kind = BT_ENERGY_TERMS;
        e.nj = bt_time_scale(ns, t->idle_mw * devices, 1000);
        e.nj = bt_time_plus(e.nj, bt_time_scale(ops, t->op_fj, 1000000));
        e.nj = bt_time_plus(e.nj, bt_time_scale(bytes, t->byte_fj, 1000000));
        e.nj = bt_time_plus(e.nj, bt_time_scale(worked_ns, t->busy_mw * devices, 1000));
        e.nj = bt_time_plus(e.nj, bt_time_scale(worked_ns, t->polling_mw, 1000));
    } else if (t->tdp_mw) {
        e.kind = BT_ENERGY_TDP;
        e.nj = bt_time_scale(ns, t->tdp_mw * devices, 1000);
    }
    return e;
}

bool bt_energy_lacks_memory(const bt_profile_time *t)
{
    enum { LEAST_BYTE_FJ = 5000 };
    return t->op_fj && !t->busy_mw && t->byte_fj < LEAST_BYTE_FJ;
}
