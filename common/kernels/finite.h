#ifndef BT_KERNELS_FINITE_H
#define BT_KERNELS_FINITE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers that left their range. Kernels go on with infinities and NaN (kernels.h), so a sequence whose numbers
 * overflow harms no other of its batch; but its rows are worth nothing. Executors look at what goes into KV, and at
 * what becomes an integer, which would hide it; engines look at the logits. What is found is noted here, and the
 * sequence's owner ends it (engine/overflow.h). */

/* Whether |x[i]| < limit for all of n; a NaN is not. limit: above 0, +inf for all numbers. */
bool bt_finite_below(const float *x, size_t n, float limit);
/* What stays below it becomes a finite row of KV: f16 that is not infinite (elem_bytes 2), int8 whose scale is not cut
 * to the greatest f16 (1), any number (4). */
float bt_finite_kv_limit(uint32_t elem_bytes);

/* Where it happened: position first, then layer, then what; so the first of a sequence does
 * not depend on its chunks. */
typedef enum bt_overflow_what { BT_OVERFLOW_K, BT_OVERFLOW_V, BT_OVERFLOW_INPUT, BT_OVERFLOW_LOGITS } bt_overflow_what;
enum { BT_OVERFLOW_NO_LAYER = 0xffffff }; /* behind the last one */
typedef struct bt_overflow_place {
    size_t pos; /* below 2^32 */
    uint32_t layer;
    bt_overflow_what what; /* INPUT: of an integer operator */
} bt_overflow_place;

/* The first place that was noted of one sequence; zeros: none. Any thread may note. */
typedef struct bt_overflow {
    atomic_uint_least64_t place; /* its complement */
} bt_overflow;
void bt_overflow_note(bt_overflow *o, bt_overflow_place at);
void bt_overflow_clear(bt_overflow *o);
/* *ret (may be NULL) only where it is true. */
bool bt_overflow_get(bt_overflow_place *ret, const bt_overflow *o);

/* Notes rows of x[rows, ld] that are not below limit, of positions pos0 .. pos0 + rows - 1; at.pos is not looked at.
 * o NULL: nothing to do. */
void bt_overflow_look(bt_overflow *o, bt_overflow_place at, size_t pos0, const float *x, size_t ld, size_t rows,
                      size_t k, float limit);
#endif
