#ifndef BT_DEVICE_PROFILE_WORDS_H
#define BT_DEVICE_PROFILE_WORDS_H
#include <stddef.h>
#include <stdint.h>

/* Words for a name or value that a profile cannot have: the one that was likely meant. Pure functions over texts; sizes
 * in bytes. */

/* The one of name[n] that `given` most likely means: the same name except for its unit (on_chip_kib: on_chip_bytes),
 * else the one with the fewest letters changed, where that is at most a third of them. NULL: none is near. Among equals
 * the first. Names and `given` have at most 63 characters; a longer `given` has no neighbour. */
const char *bt_profile_nearest(const char *given, const char *const *name, size_t n);
/* "bytes", "ns", "rows", "bits" of a field's name that ends in its unit; NULL for other names. */
const char *bt_profile_unit(const char *name);
/* A size with a unit, "8 MiB" or "4GB" (kib, mib, gib, tib: powers of 1024; kb, mb, gb, tb: of 1000; any letters'
 * case), in bytes; a number without a unit is in bytes. 0: `text` is no size, or beyond 2^50. */
uint64_t bt_profile_size(const char *text);
#endif
