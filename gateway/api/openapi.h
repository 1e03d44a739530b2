#ifndef GW_OPENAPI_H
#define GW_OPENAPI_H
#include "base/buf.h"

/* The description of the API at the path openapi.json, OpenAPI 3.1: paths come from endpoints_table.h, fields of
 * requests from fields.h. Every gateway of a version gives the same bytes. Errors of bt_buf_add. */
bt_err gw_openapi_render(bt_buf *out);
/* With line breaks, for files. */
bt_err gw_openapi_render_lines(bt_buf *out);
#endif
