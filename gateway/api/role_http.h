#ifndef GW_ROLE_HTTP_H
#define GW_ROLE_HTTP_H
#include "base/buf.h"
#include "gateway/api/ask.h"

/* POST /v1/nodes/{id}/role: its path, its body {"role": "prefill" or "decode"}, and its answer. Pure. */

/* Whether `path` is this endpoint's; ret (NULL is fine) is then the node's id. */
bool gw_role_http_path(char ret[BT_MSG_MAX_ID_BYTES + 1], const char *path);
/* BT_EARG with *err filled (400), also past GW_ROLE_HTTP_MAX_BYTES; BT_ENOMEM with *err filled too (500). Any bytes are
 * safe. */
enum { GW_ROLE_HTTP_MAX_BYTES = 1024 };
bt_err gw_role_http_parse(bt_role *ret, gw_error *err, const char *body, size_t len);
/* {"id", "role", "state", "text"}: the node has agreed. Errors of gw_answer_error. */
bt_err gw_role_http_answer(bt_buf *out, const char *id, bt_role role, const char *text);
/* Fills *err from the code and words of a GW_DO_ROLE_ANSWER that refuses. */
void gw_role_http_refused(gw_error *err, const char *id, int32_t code, const char *text);
#endif
