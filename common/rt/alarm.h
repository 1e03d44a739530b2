#ifndef BT_RT_ALARM_H
#define BT_RT_ALARM_H
#include "rt/loop.h"

/* A timer of a loop with the precision of base/clock.h, as far as the system goes: a loop's own timers count whole
 * milliseconds. For the loop's thread only. */
typedef struct bt_alarm bt_alarm;
bt_err bt_alarm_new(bt_alarm **ret, bt_loop *loop, bt_loop_fn *fn, void *ud, bt_fault *fault);
void bt_alarm_free(bt_alarm *a); /* before the loop; NULL is fine */
/* Calls fn once, at at_us, or in the next round where at_us is past; INT64_MAX: never. The last call counts. */
void bt_alarm_set(bt_alarm *a, int64_t at_us);
#endif
