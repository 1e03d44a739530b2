#ifndef GW_CAPTURE_H
#define GW_CAPTURE_H
#include "gateway/door/state.h"

/* An ended request as a record of the capture. Without a capture nothing happens. */
void gw_capture_begin(gw_live *l, const bt_sampling *s); /* keeps what is gone when the request ends */
/* a: the request's DONE or FAIL, after the answer has it. */
void gw_capture_end(gw_door *d, const gw_live *l, const gw_action *a);
#endif
