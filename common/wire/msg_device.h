#ifndef BT_WIRE_MSG_DEVICE_H
#define BT_WIRE_MSG_DEVICE_H
#include "wire/msg_body.h"

/* Device times and energies, to and from protobuf, and their ranges. Private to common/wire. */
void bt_msg_device_put(bt_msg_scratch *s, const bt_msg_device *d);
const bt_msg_device *bt_msg_device_get(bt_msg_checker *c, const Bt__Device *b); /* NULL: a complaint */
void bt_msg_device_check(bt_msg_checker *c, const bt_msg_device *d);

void bt_msg_device_put_work(bt_msg_scratch *s, const bt_msg_device_work *w);
void bt_msg_device_get_work(bt_msg_device_work *ret, const Bt__DeviceWork *b); /* b NULL: nothing */
void bt_msg_device_check_work(bt_msg_checker *c, const bt_msg_device_work *w);

void bt_msg_device_put_prompt(bt_msg_scratch *s, const bt_msg_device_prompt *p);
void bt_msg_device_get_prompt(bt_msg_checker *c, bt_msg_device_prompt *ret, const Bt__DevicePrompt *b);
void bt_msg_device_check_prompt(bt_msg_checker *c, const bt_msg_device_prompt *p);
#endif
