#ifndef BT_RT_ALARM_H
#define BT_RT_ALARM_H
#include "rt/loop.h"

/* A moment of base/clock.h in a loop, to the microsecond as far as the system goes: timers of a loop count whole
 * milliseconds. For one thread, the loop's. */
typedef struct bt_alarm bt_alarm;
bt_err bt_alarm_new(bt_alarm **ret, bt_loop *loop, bt_loop_fn *fn, void *ud, bt_fault *fault);
void bt_alarm_free(bt_alarm *a); /* before the loop; NULL is fine */
/* fn is called once, at at_us or in the next round where that is over; INT64_MAX: not. The last call counts. */
void bt_alarm_set(bt_alarm *a, int64_t at_us);
#endif
