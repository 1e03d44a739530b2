#ifndef BT_NODE_NODE_DEVICE_H
#define BT_NODE_NODE_DEVICE_H
#include "device/pace.h"
#include "node/node_options.h"
#include "wire/msg.h"

/* What a node's work would take on a device, as its options name it: --decode-profile, --link, --pace. */

/* --link and --pace by their own words; BT_EARG names what there is. */
bt_err bt_node_device_check(const bt_node_options *o, bt_fault *fault);
/* The rhythm; off where the option is. */
bt_pace bt_node_device_pace(const bt_node_options *o);
/* *ret is the link; false: none is given. */
bool bt_node_device_link(bt_link *ret, const bt_node_options *o);

/* What HELLO says of it; link NULL: none, price NULL: of a decode node. */
bt_msg_device bt_node_device_about(const bt_profile *p, const bt_price *price, const char *link, bt_pace pace);
bt_msg_device_work bt_node_device_work(const bt_work *w);
#endif
