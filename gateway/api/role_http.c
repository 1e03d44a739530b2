/* Reads requests for another role of a node, and writes their answers. */
#include "gateway/api/role_http.h"
#include "gateway/api/json.h"
#include "text/utf8.h"

#include <jansson.h>
#include <string.h>

bool gw_role_http_path(char ret[BT_MSG_MAX_ID_BYTES + 1], const char *path)
{
    static const char before[] = "/v1/nodes/", after[] = "/role";
    const size_t len = strlen(path), frame = sizeof before - 1 + sizeof after - 1;
    if (len <= frame || len - frame > BT_MSG_MAX_ID_BYTES) return false;
    if (memcmp(path, before, sizeof before - 1) != 0 || strcmp(path + len - (sizeof after - 1), after) != 0)
        return false;
    memcpy(ret, path + sizeof before - 1, len - frame);
    ret[len - frame] = 0;
    return true;
}

bt_err gw_role_http_parse(bt_role *ret, gw_error *err, const char *body, size_t len)
{
    json_error_t je;
    size_t bad;
    if (len > GW_ROLE_HTTP_MAX_BYTES)
        return gw_error_say(err, 400, "body_too_large", NULL,
                            "The body has %zu bytes; at most %d are allowed here.", len,
                            GW_ROLE_HTTP_MAX_BYTES);
    if (!bt_utf8_valid(body, len, &bad))
        return gw_error_say(err, 400, "invalid_json", NULL, "The body is not valid UTF-8 at byte %zu.", bad);
    json_t *root = gw_json_load(body, len, NULL, &je);
    if (!root && json_error_code(&je) == json_error_out_of_memory) {
        return gw_error_no_memory(err);
    }
    const json_t *v = json_object_get(root, "role");
    const char *role = json_string_value(v);
    bt_err e = BT_OK;
    if (!json_is_object(root))
        e = gw_error_say(err, 400, "invalid_json", NULL,
                         "The body must be a JSON object, for example {\"role\": \"prefill\"}.");
    else if (!v)
        e = gw_error_say(err, 400, "missing_required_parameter", "role",
                         "Missing required parameter: 'role'.");
    else if (json_object_size(root) > 1)
        e = gw_error_say(err, 400, "unknown_parameter", NULL, "The body may have no field but 'role'.");
    else if (role && strcmp(role, "prefill") == 0) *ret = BT_ROLE_PREFILL;
    else if (role && strcmp(role, "decode") == 0) *ret = BT_ROLE_DECODE;
    else
        e = gw_error_say(err, 400, "invalid_value", "role",
                         "Invalid value for 'role': supported are 'prefill' and 'decode'.");
    json_decref(root);
    return e;
}

bt_err gw_role_http_answer(bt_buf *out, const char *id, bt_role role, const char *text)
{
    char shown_id[BT_MSG_MAX_ID_BYTES + 1], shown[BT_MSG_MAX_TEXT_BYTES + 1];
    json_t *j = json_pack("{s:s,s:s,s:s,s:s}", "id", bt_utf8_show(shown_id, sizeof shown_id, id, strlen(id)),
                          "role", role == BT_ROLE_PREFILL ? "prefill" : "decode", "state", "draining", "text",
                          bt_utf8_show(shown, sizeof shown, text, strlen(text)));
    return gw_json_add(out, j, JSON_COMPACT);
}

void gw_role_http_refused(gw_error *err, const char *id, int32_t code, const char *text)
{
    static const struct {
        int32_t code;
        int status;
        const char *word;
    } kinds[] = {
        {BT_EAUTH, 403, "role_not_allowed"},
        {BT_EARG, 409, "role_not_possible"},
        {BT_EAGAIN, 503, "try_again"},
        {BT_EIO, 504, "no_answer"},
    };
    size_t i = 0;
    while (i < sizeof kinds / sizeof *kinds && kinds[i].code != code) i++;
    const bool is_known = i < sizeof kinds / sizeof *kinds;
    (void)gw_error_say(err, is_known ? kinds[i].status : 502, is_known ? kinds[i].word : "node_failed", NULL,
                       "%s: %s", id, text);
    if (code == BT_EAGAIN) err->retry_after_s = 1;
}
