#ifndef GW_ROLES_H
#define GW_ROLES_H
#include "gateway/door/state.h"

/* Clients that ask for another role of a node. */
void gw_roles_post(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
/* A ROLE_ANSWER of the brain, to a client that may have gone. */
void gw_roles_answered(gw_door *d, const gw_action *a);
void gw_roles_forget(gw_door *d, const gw_http_exchange *x); /* the client has gone */
void gw_roles_free(gw_door *d);
#endif
