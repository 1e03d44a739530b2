#ifndef GW_REPLY_H
#define GW_REPLY_H
#include "gateway/door/state.h"

/* Answers that go out in one piece. Each is counted; where memory is short the connection is cut. */
void gw_reply_bytes(gw_door *d, gw_http_exchange *x, int status, const gw_http_headers *h, bt_buf *body);
/* 200 with JSON; frees what b holds. */
void gw_reply_json(gw_door *d, gw_http_exchange *x, bt_buf *b);
/* In the dialect of the path. Logged too, 4xx at most GW_REPLY_LOGGED_A_SECOND times between two ticks, since clients
 * decide how often. */
enum { GW_REPLY_LOGGED_A_SECOND = 20 };
void gw_reply_error(gw_door *d, gw_http_exchange *x, const gw_error *err, const char *allow);
void gw_reply_tick(gw_door *d); /* once a second, and at the end: the log says how many 4xx it left out */
/* The error to answer while no request would succeed; false: a request would succeed. */
bool gw_reply_not_ready(const gw_door *d, gw_error *err);
#endif
