#ifndef GW_OPENAPI_H
#define GW_OPENAPI_H
#include "base/buf.h"

/* The description of the API that the path openapi.json serves, OpenAPI 3.1: its paths are those of endpoints_table.h,
 * its fields of requests those of openai_fields.h. The same bytes from every gateway of a version. As bt_buf_add. */
bt_err gw_openapi_render(bt_buf *out);
/* With line breaks, for files. */
bt_err gw_openapi_render_lines(bt_buf *out);
#endif
