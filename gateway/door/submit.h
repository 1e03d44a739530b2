#ifndef GW_SUBMIT_H
#define GW_SUBMIT_H
#include "gateway/door/state.h"

/* POST /v1/chat/completions or /v1/completions: an error at once, or a request in the brain's hands. */
void gw_submit_post(gw_door *d, gw_http_exchange *x, const gw_http_request *r, bool is_chat);
#endif
