#ifndef BT_DEVICE_PROFILE_CHECK_H
#define BT_DEVICE_PROFILE_CHECK_H
#include "base/err.h"
#include "device/profile.h"

/* Fields that are each in range but contradict each other. BT_EFORMAT: both fields, both values, and values that would
 * do. */
bt_err bt_profile_check(const bt_profile *p, bt_fault *fault);
#endif
