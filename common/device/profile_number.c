/* A number, or what it should have been. */
#include "device/profile_number.h"
#include "device/profile_sources.h"
#include "device/profile_words.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *bt_profile_value_text(char ret[BT_PROFILE_VALUE_BYTES], const void *value)
{
    enum { ROOM = BT_PROFILE_VALUE_BYTES };
    const json_t *v = value;
    const char *text = json_string_value(v);
    if (text) snprintf(ret, ROOM, "the text '%s'", bt_profile_shown(text));
    else if (json_is_integer(v)) snprintf(ret, ROOM, "%" PRId64, (int64_t)json_integer_value(v));
    else if (json_is_real(v)) snprintf(ret, ROOM, "%g", json_real_value(v));
    else if (json_is_boolean(v)) snprintf(ret, ROOM, "%s", json_is_true(v) ? "true" : "false");
    else snprintf(ret, ROOM, "%s", "something else");
    return ret;
}

/* 0: there is none. */
static uint64_t nearest(const json_t *v, const char *unit, uint64_t lo, uint64_t hi)
{
    const char *text = json_string_value(v);
    if (text) {
        const bool is_plain = text[strspn(text, "0123456789")] == 0;
        const uint64_t n = is_plain || (unit && !strcmp(unit, "bytes")) ? bt_profile_size(text) : 0;
        return n >= lo && n <= hi ? n : 0;
    }
    if (!json_is_number(v)) return 0;
    const double n = json_number_value(v);
    return n < (double)lo ? lo : n > (double)hi ? hi : (uint64_t)n;
}

bt_err bt_profile_number(uint64_t *ret, const void *value, const char *name, uint64_t lo, uint64_t hi,
                         bt_fault *fault)
{
    const json_t *v = value;
    const int64_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    if (n >= (int64_t)lo && n <= (int64_t)hi) {
        *ret = (uint64_t)n;
        return BT_OK;
    }
    char is[BT_PROFILE_VALUE_BYTES], near[48] = "";
    const char *unit = bt_profile_unit(name);
    const uint64_t best = nearest(v, unit, lo, hi);
    if (best) snprintf(near, sizeof near, "; the nearest is %" PRIu64, best);
    return bt_fail(fault, BT_EFORMAT,
                   "field '%s': is %s, and must be a whole number%s%s from %" PRIu64 " to %" PRIu64 "%s",
                   name, bt_profile_value_text(is, v), unit ? " of " : "", unit ? unit : "", lo, hi, near);
}
