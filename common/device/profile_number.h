#ifndef BT_DEVICE_PROFILE_NUMBER_H
#define BT_DEVICE_PROFILE_NUMBER_H
#include <stdint.h>
#include "base/err.h"

/* Numbers of a profile and of its times. A value is a json_t. */

/* The whole number `value` of the field `name`, in lo .. hi; 1 <= lo <= hi < 2^63. BT_EFORMAT: the field, the value,
 * its range in the unit that the name ends in, and the nearest number of the range, where the value is near one: a
 * number, digits in a text, a size in words ("8 MiB") where the unit is bytes. */
bt_err bt_profile_number(uint64_t *ret, const void *value, const char *name, uint64_t lo, uint64_t hi, bt_fault *fault);
/* A value as an error shows it: "7", "the text '8 MiB'", "true". Returns ret. */
enum { BT_PROFILE_VALUE_BYTES = 64 };
const char *bt_profile_value_text(char ret[BT_PROFILE_VALUE_BYTES], const void *value);
#endif
