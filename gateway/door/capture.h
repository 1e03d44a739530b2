#ifndef GW_CAPTURE_H
#define GW_CAPTURE_H
#include "gateway/door/state.h"

/* A request that ends, as a record of the capture. Where nothing is captured, nothing happens. */
void gw_capture_begin(gw_live *l, const bt_sampling *s); /* what is gone when it ends */
/* a: its DONE or FAIL, after what these do to the answer. */
void gw_capture_end(gw_door *d, const gw_live *l, const gw_action *a);
#endif
