#ifndef GW_JSON_H
#define GW_JSON_H
#include <jansson.h>
#include "base/buf.h"

/* For every page of JSON. */

/* Appends j and takes its reference. flags are jansson's. BT_ENOMEM: there is no memory, j is NULL, or out is full; out
 * may then hold a part of j. */
bt_err gw_json_add(bt_buf *out, json_t *j, size_t flags);
/* One text of JSON, without duplicate keys: a new reference; NULL with *why. Numbers that jansson refuses are taken: an
 * integer outside int64 as the nearest real, a real outside double as one near its end. The field `bits` of the
 * outermost object (NULL: none) holds 64 bits: from 2^63 to 2^64 - 1 it becomes the int64 of the same bits. */
json_t *gw_json_load(const char *text, size_t len, const char *bits, json_error_t *why);
/* A whole number is written without a point. NULL: no memory. */
json_t *gw_json_number(double v);
#endif
