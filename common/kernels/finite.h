#ifndef BT_KERNELS_FINITE_H
#define BT_KERNELS_FINITE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds numbers that left their range. Kernels compute on with infinities and NaN (kernels.h), so a sequence whose
 * numbers overflow harms no other sequence of its batch; but its own rows are worthless. Executors check what goes into
 * KV and what becomes an integer (an integer would hide the overflow); engines check the logits. They note the place of
 * an overflow here, and the sequence's owner ends the sequence (engine/overflow.h). */

/* Whether |x[i]| < limit for all i < n; a NaN is not. limit > 0; +inf asks for finite numbers only. */
bool bt_finite_below(const float *x, size_t n, float limit);
/* Rows below this limit become finite KV rows: f16 that is not infinite (elem_bytes 2), int8 whose scale is not clamped
 * to the greatest f16 (elem_bytes 1), any finite f32 (elem_bytes 4: the limit is +inf). */
float bt_finite_kv_limit(uint32_t elem_bytes);

/* Where numbers left their range. Places are ordered by position, then layer, then what, so that the first place of a
 * sequence does not depend on its chunks. */
typedef enum bt_overflow_what { BT_OVERFLOW_K, BT_OVERFLOW_V, BT_OVERFLOW_INPUT, BT_OVERFLOW_LOGITS } bt_overflow_what;
enum { BT_OVERFLOW_NO_LAYER = 0xffffff }; /* of the logits; orders behind the last layer */
typedef struct bt_overflow_place {
    size_t pos; /* below 2^32 */
    uint32_t layer;
    bt_overflow_what what; /* INPUT: the input of an integer operator */
} bt_overflow_place;

/* The first place noted for one sequence; zeros: none. Any thread may note. */
typedef struct bt_overflow {
    atomic_uint_least64_t place; /* complement of its 64-bit key, so that 0 is none and the greatest is first */
} bt_overflow;
void bt_overflow_note(bt_overflow *o, bt_overflow_place at);
void bt_overflow_clear(bt_overflow *o);
/* Whether a place was noted; if so *ret (may be NULL) is the first. */
bool bt_overflow_get(bt_overflow_place *ret, const bt_overflow *o);

/* Checks rows x[rows, ld] of k numbers at positions pos0 .. pos0 + rows - 1, and notes each that is not below limit
 * with the layer and what of `at`; at.pos is not read. o NULL: does nothing. */
void bt_overflow_look(bt_overflow *o, bt_overflow_place at, size_t pos0, const float *x, size_t ld, size_t rows,
                      size_t k, float limit);
#endif
