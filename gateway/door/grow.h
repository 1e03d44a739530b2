#ifndef GW_GROW_H
#define GW_GROW_H
#include "gateway/door/state.h"

/* The effects of the brain's actions on the answer of a request, which stays in the list. */
void gw_grow_tokens(gw_door *d, gw_live *l, const gw_action *a);
void gw_grow_done(gw_door *d, gw_live *l, bt_finish reason, const gw_stats *s);
void gw_grow_failed(gw_door *d, gw_live *l, const gw_action *a);
#endif
