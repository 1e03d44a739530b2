/* Five terms, or one bound. */
#include "device/energy.h"
#include "device/time.h"

#include <string.h>

bt_energy bt_energy_of(const bt_profile_time *t, uint64_t ns, uint64_t ops, uint64_t bytes,
                       uint64_t worked_ns)
{
    bt_energy e = {BT_ENERGY_NONE, 0};
    /* mW * ns = pJ, so by 1000 in nJ; fJ by 10^6. Each device of a group draws. */
    const uint64_t devices = bt_profile_devices(t);
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

const char *bt_energy_bound(const bt_profile_time *t)
{
    enum { LEAST_FJ = 5000, MOST_FJ = 100000 };
    const bt_energy_kind kind = bt_energy_of(t, 1, 1, 1, 1).kind;
    /* mW by bytes a microsecond are nJ, so by 10^6 in fJ */
    const uint64_t byte_fj = t->byte_fj + bt_time_scale(t->busy_mw, 1000000, bt_time_decode_rate(t));
    if (kind == BT_ENERGY_NONE) return "";
    if (kind == BT_ENERGY_TDP || byte_fj > MOST_FJ) return "at most";
    return byte_fj < LEAST_FJ ? "at least" : "";
}

const char *bt_energy_bound_both(const char *a, const char *b)
{
    if (!*a || strcmp(a, b) == 0) return b;
    return *b ? "no bound" : a;
}
