/* JSON into a buffer. */
#include "gateway/api/json.h"

static int add_bytes(const char *bytes, size_t len, void *ud)
{
    return bt_buf_add(ud, bytes, len) < 0 ? -1 : 0;
}

bt_err gw_json_add(bt_buf *out, json_t *j, size_t flags)
{
    const int failed = j ? json_dump_callback(j, add_bytes, out, flags) : -1;
    json_decref(j);
    return failed ? BT_ENOMEM : BT_OK;
}

json_t *gw_json_number(double v)
{
    const json_int_t whole = (json_int_t)v;
    return (double)whole < v || (double)whole > v ? json_real(v) : json_integer(whole);
}
