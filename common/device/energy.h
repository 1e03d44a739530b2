#ifndef BT_DEVICE_ENERGY_H
#define BT_DEVICE_ENERGY_H
#include <stdint.h>
#include "device/profile_time.h"

/* The energy of work, in nanojoules, at most INT64_MAX:
 *
 *   idle power * time + operations * energy of one + bytes * energy of one + polling power * time waited
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
/* ns: the device's time; waited_ns: the part of it in which the host polled. */
bt_energy bt_energy_of(const bt_profile_time *t, uint64_t ns, uint64_t ops, uint64_t bytes, uint64_t waited_ns);
#endif
