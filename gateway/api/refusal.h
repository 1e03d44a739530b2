#ifndef GW_REFUSAL_H
#define GW_REFUSAL_H
#include "gateway/api/ask.h"
#include "gateway/http/framing.h"

/* A refusal of the HTTP layer in the words of the API. False: `why` is no refusal. */
bool gw_refusal_tell(gw_error *ret, gw_http_refusal why, uint64_t body_max_bytes);
#endif
