#ifndef BT_KERNELS_CORES_TRIAL_H
#define BT_KERNELS_CORES_TRIAL_H
#include "kernels/cores.h"

/* Times the choices of cores.h on this core, for about a millisecond, and leaves the best in bt_cores_now. `ahead` is
 * timed with weights that are in no cache, copy_rows with weights that are. A value replaces the present one only if it
 * is faster by more than 1/32. false: memory is short, or this machine is not x86-64. */
bool bt_cores_try(const bt_cores_trial *trial);
#endif
