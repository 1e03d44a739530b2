#ifndef GW_PAGES_H
#define GW_PAGES_H
#include "gateway/door/state.h"

/* The endpoints of GET: each looks at the request and answers at once. */
void gw_pages_health(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
void gw_pages_metrics(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
void gw_pages_models(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
void gw_pages_model(gw_door *d, gw_http_exchange *x, const gw_http_request *r); /* /v1/models/{id} */
void gw_pages_props(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
void gw_pages_openapi(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
void gw_pages_status(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
#endif
