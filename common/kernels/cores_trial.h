#ifndef BT_KERNELS_CORES_TRIAL_H
#define BT_KERNELS_CORES_TRIAL_H
#include "kernels/cores.h"

/* Times the choices of cores.h on this core, about a millisecond, and leaves the best in bt_cores_now: how far ahead,
 * by weights that are in no cache; from how many rows on a copy pays, by weights that are. One that is no 32nd faster
 * than what stood there is not taken. false: there is no memory for it, or no clock to take times with. */
bool bt_cores_try(const bt_cores_trial *trial);
#endif
