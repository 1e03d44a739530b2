#ifndef GW_JSON_H
#define GW_JSON_H
#include <jansson.h>
#include "base/buf.h"

/* For every page of JSON. */

/* Appends j and takes its reference. flags are jansson's. BT_ENOMEM: there is no memory, j is NULL, or out is full; out
 * may then hold a part of j. */
bt_err gw_json_add(bt_buf *out, json_t *j, size_t flags);
/* A whole number is written without a point. NULL: no memory. */
json_t *gw_json_number(double v);
#endif
