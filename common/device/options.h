#ifndef BT_DEVICE_OPTIONS_H
#define BT_DEVICE_OPTIONS_H
#include "base/opt.h"

/* decode-profile, decode-weights (whose forms who uses it names), link, pace: rows that are used by their names. Who
 * uses one says where its value lies. */
extern const bt_opt_group bt_device_opts;
#endif
