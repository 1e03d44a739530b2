#ifndef BT_DEVICE_OPTIONS_H
#define BT_DEVICE_OPTIONS_H
#include "base/opt.h"

/* decode-profile, decode-weights (whose forms who uses it names), link, pace: rows that are used by their names. Who
 * uses one says where its value lies. */
/* The end of the help of every --link. */
#define BT_LINK_HELP \
    "goodput in Gbit/s, or as 20mbit; behind commas a message's latency, and where the rate is the line's the " \
    "share of it that messages have: 20mbit,50us,0.946"
extern const bt_opt_group bt_device_opts;
#endif
