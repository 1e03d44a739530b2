/* Single values of a request: their type and range, and the words for what is wrong. */
#include "gateway/api/openai_read.h"

#define MAX_WHOLE 9007199254740992.0 /* 2^53: a double beyond it may have been another integer */

static const char BAD[] = "invalid_request_error";

bt_err gw_read_no_memory(gw_reader *p)
{
    (void)gw_openai_fail(p->err, 500, "server_error", "out_of_memory", NULL,
                         "Out of memory while reading the request.");
    return BT_ENOMEM;
}

bt_err gw_read_wrong_type(gw_reader *p, const char *name, const char *wanted, const json_t *v)
{
    static const char *const kinds[] = {"an object", "an array", "a string", "an integer",
                                        "a number",  "true",     "false",    "null"};
    return gw_openai_fail(p->err, 400, BAD, "invalid_type", name,
                          "Invalid type for '%s': expected %s, but got %s.", name, wanted,
                          kinds[json_typeof(v)]);
}

bt_err gw_read_unsupported(gw_reader *p, const char *name, const char *allowed)
{
    return gw_openai_fail(p->err, 400, BAD, "unsupported_parameter", name,
                          "'%s' is not supported by this server%s%s.", name,
                          *allowed ? "; leave it out or use " : "", allowed);
}

/* 40.0 is how some languages write 40. */
static bool is_whole(int64_t *ret, const json_t *v)
{
    if (json_is_integer(v)) {
        *ret = json_integer_value(v);
        return true;
    }
    const double x = json_is_real(v) ? json_real_value(v) : 0.5;
    if (!(x >= -MAX_WHOLE && x <= MAX_WHOLE)) return false;
    *ret = (int64_t)x;
    return !((double)*ret < x || (double)*ret > x);
}

bt_err gw_read_int(int64_t *ret, gw_reader *p, const char *name, const json_t *v, int64_t lo, int64_t hi)
{
    int64_t x;
    if (!is_whole(&x, v)) return gw_read_wrong_type(p, name, "an integer", v);
    if (x < lo || x > hi)
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", name,
                              "Invalid value for '%s': %lld is not in the range %lld to %lld.", name,
                              (long long)x, (long long)lo, (long long)hi);
    *ret = x;
    return BT_OK;
}

bt_err gw_read_float(float *ret, gw_reader *p, const char *name, const json_t *v, double lo, double hi)
{
    if (!json_is_number(v)) return gw_read_wrong_type(p, name, "a number", v);
    const double x = json_number_value(v);
    if (!(x >= lo && x <= hi))
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", name,
                              "Invalid value for '%s': %g is not in the range %g to %g.", name, x, lo, hi);
    *ret = (float)x;
    return BT_OK;
}

bt_err gw_read_bool(bool *ret, gw_reader *p, const char *name, const json_t *v)
{
    if (!json_is_boolean(v)) return gw_read_wrong_type(p, name, "true or false", v);
    *ret = json_is_true(v);
    return BT_OK;
}
