#ifndef GW_JSON_H
#define GW_JSON_H
#include <jansson.h>
#include "base/buf.h"

/* What every page of JSON needs. */

/* Appends j, which it takes. flags are jansson's. BT_ENOMEM: there is no memory, or j is NULL, or out is full; out may
 * hold a part of it then. */
bt_err gw_json_add(bt_buf *out, json_t *j, size_t flags);
/* A whole number is written without a point. NULL: no memory. */
json_t *gw_json_number(double v);
#endif
