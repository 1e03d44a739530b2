#ifndef BT_DEVICE_ENERGY_H
#define BT_DEVICE_ENERGY_H
#include <stdint.h>
#include "device/profile_time.h"

/* The energy of work, in nanojoules, at most INT64_MAX:
 *
 *   idle power * time + (busy + polling power) * time of work + operations * energy of one + bytes * energy of one
 *
 * Where a profile has only a thermal design power, energy is that power times the time, marked as such. */
typedef enum bt_energy_kind {
    BT_ENERGY_NONE = 0, /* no source: the figure is 0 and means nothing */
    BT_ENERGY_TERMS,
    BT_ENERGY_TDP, /* an upper bound, not the energy drawn */
} bt_energy_kind;
typedef struct bt_energy {
    bt_energy_kind kind;
    uint64_t nj;
} bt_energy;
/* ns: the device's time; worked_ns: the part of it in which it worked, and the host polled. */
bt_energy bt_energy_of(const bt_profile_time *t, uint64_t ns, uint64_t ops, uint64_t bytes, uint64_t worked_ns);
/* The cost of a byte of a decode step beyond the idle power, in a word: "at least" below 5 pJ, which any memory costs,
 * "at most" above the 100 pJ of the dearest or where the power is a vendor's limit; "" between, and where there is no
 * energy. */
const char *bt_energy_bound(const bt_profile_time *t);
/* The bound of a sum of both; "no bound": of one that is at least so much and one that is at most. */
const char *bt_energy_bound_both(const char *a, const char *b);
#endif
