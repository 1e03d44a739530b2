#ifndef GW_REFUSAL_H
#define GW_REFUSAL_H
#include "gateway/api/openai.h"
#include "gateway/http/framing.h"

/* What the HTTP layer refused, in the words of the API. False: it did not. */
bool gw_refusal_tell(gw_openai_error *ret, gw_http_refusal why, uint64_t body_max_bytes);
#endif
