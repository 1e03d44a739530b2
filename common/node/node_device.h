#ifndef BT_NODE_NODE_DEVICE_H
#define BT_NODE_NODE_DEVICE_H
#include "device/pace.h"
#include "node/node_options.h"
#include "wire/msg.h"

/* The device that a node prices its work by, from its options: --decode-profile, --link, --pace. */

/* Checks --link and --pace; BT_EARG names the valid values. */
bt_err bt_node_device_check(const bt_node_options *o, bt_fault *fault);
/* The value of --pace. */
bt_pace bt_node_device_pace(const bt_node_options *o);
/* The value of --link in *ret; false: no link is given. */
bool bt_node_device_link(bt_link *ret, const bt_node_options *o);

/* The device as HELLO describes it, with the errors of its prices. link NULL: no link; a prefill node adds what its
 * programs say. */
bt_msg_device bt_node_device_about(const bt_profile *p, const char *link, bt_pace pace);
bt_msg_device_work bt_node_device_work(const bt_work *w);
#endif
