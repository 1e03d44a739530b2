#ifndef BT_DEVICE_TIME_H
#define BT_DEVICE_TIME_H
#include <stdbool.h>
#include <stdint.h>
#include "device/profile.h"

/* The time of one operator on a device, in nanoseconds: pure integer arithmetic over a profile, rounded up, at most
 * INT64_MAX. docs/device-time.md explains the terms and how well they meet what others measured.
 *
 *   t_op = launch + slow * max(compute, staying bytes / weight rate, passing bytes / activation rate) + spill
 *
 * The operand that stays on the matrix unit is loaded at the weight rate; the other one passes by, with the output, at
 * the activation rate. Weights stay unless is_weights_pass (the law of order: HeteroLLM, arXiv 2501.14794). Rows that
 * pass are rounded up to whole tiles, profile.tile_input_rows (the law of stages). Compute is 2 rows inputs outputs by
 * the rate at so many rows; on an array of H x W it is
 *
 *   folds (H + W - 2 + max(rows, 4)) / arrays cycles,  folds = ceil(inputs / H) ceil(outputs / W)
 *
 * (ONNXim, SystolicWS.cc). Weights of 4 bits take at least bytes / int4 rate. Weights with a scale for each `group`
 * inputs break every accumulation there: slow is group32_permille at groups of 32, and its excess falls with the
 * group's length (llm.npu, arXiv 2407.05858, figure 4).
 */

/* ceil(n * mul / div), at most INT64_MAX; div 0 gives 0: no limit, no cost. In 128 bits where 64 do not hold it. */
uint64_t bt_time_scale_wide(uint64_t n, uint64_t mul, uint64_t div);
static inline uint64_t bt_time_scale(uint64_t n, uint64_t mul, uint64_t div)
{
    uint64_t small;
    if (!div) return 0;
    if (__builtin_mul_overflow(n, mul, &small) || __builtin_add_overflow(small, div - 1, &small))
        return bt_time_scale_wide(n, mul, div);
    small /= div;
    return small > INT64_MAX ? INT64_MAX : small;
}
/* a + b and a * b, at most INT64_MAX. */
static inline uint64_t bt_time_plus(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) || sum > INT64_MAX ? INT64_MAX : sum;
}
static inline uint64_t bt_time_times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > INT64_MAX ? INT64_MAX : product;
}
/* The time of n at per_us a microsecond. */
static inline uint64_t bt_time_of(uint64_t n, uint64_t per_us) { return bt_time_scale(n, 1000, per_us); }

/* [rows, inputs] by [inputs, outputs]. */
typedef struct bt_time_matrix {
    uint64_t rows, inputs, outputs;
    uint32_t weight_bits, input_bits; /* 4, 8, 16 or 32 */
    uint32_t group;                   /* inputs that share a scale; 0: an output has one */
    uint64_t weight_bytes;            /* as stored; 0: weight_bits of each */
    uint64_t spill_bytes;             /* bytes that cross again because the chip cannot hold them (device/on_chip.h) */
    bool is_weights_pass;
} bt_time_matrix;
/* How many of `all` experts, or of their bytes, are read where rows choose so many: each row chooses others, as long as
 * there are any. */
static inline uint64_t bt_time_experts(uint64_t all, uint64_t chosen) { return chosen < all ? chosen : all; }
/* weight_bytes of palettes: weights are read as indices of index_bits and multiplied as numbers of 8 bits. The palettes
 * themselves are too small to count. */
uint64_t bt_time_palette_bytes(uint64_t inputs, uint64_t outputs, uint32_t index_bits);
uint64_t bt_time_of_matrix(const bt_profile *p, const bt_time_matrix *m);

/* The pairs of a row and a position that it sees, of rows [first, first + rows), and the positions that these rows see
 * together; with a window a row sees at most so many positions, its own included. 0: all. At most INT64_MAX. */
uint64_t bt_time_pairs(uint64_t first, uint64_t rows, uint64_t window);
uint64_t bt_time_positions(uint64_t first, uint64_t rows, uint64_t window);
/* Attention of one layer: `pairs` of a row and a column that are computed, over ctx positions of K and V. Scores also
 * pass a softmax, one element for each pair and head. */
typedef struct bt_time_attention {
    uint64_t rows, pairs, ctx;
    uint32_t heads, kv_heads, head_dim, kv_elem_bits;
} bt_time_attention;
uint64_t bt_time_of_attention(const bt_profile *p, const bt_time_attention *a);

/* Operations a microsecond of inputs of so many bits: the peak and the speed-up of those bits; and its share at so many
 * rows. */
uint64_t bt_time_peak(const bt_profile_time *t, uint32_t input_bits, uint32_t weight_bits);
/* That of inputs and weights in FP8 (8) and NVFP4 (4); of a device without them, f16 operations. */
uint64_t bt_time_float_peak(const bt_profile_time *t, uint32_t bits);
uint64_t bt_time_rate(const bt_profile_time *t, uint64_t rows, uint32_t input_bits, uint32_t weight_bits);
/* Work of n equal units at the rate of so many rows, whose time never falls with rows as long as n grows as they do:
 * where a profile has several shares of the peak, it is rounded once. */
typedef struct bt_time_unit {
    uint64_t ops, peak, devices; /* of one unit; at 1,000 permille; that divide it */
    uint64_t ns;                 /* at 1 permille, by 2^BT_TIME_UNIT_BITS */
    uint64_t rate;               /* of a profile with one share of the peak, or none; 0: it has several */
} bt_time_unit;
enum { BT_TIME_UNIT_BITS = 16 };
bt_time_unit bt_time_unit_of(const bt_profile_time *t, uint64_t ops, uint64_t peak, uint64_t devices);
uint64_t bt_time_of_units(const bt_profile_time *t, const bt_time_unit *u, uint64_t n, uint64_t rows);
/* The rows that are computed where so many are asked for: behind the first tile, tile_rows, a share of the last tile's
 * empty rows too. */
uint64_t bt_time_rows(const bt_profile_time *t, uint64_t rows, uint32_t input_bits);
/* The rows of whole programs that so many rows of prompts are padded to: the last program as often as it is filled,
 * then the least that holds the rest. */
uint64_t bt_time_program_rows(const bt_profile_time *t, uint64_t rows);
/* A profile's entry for a step's attention: the nearest head size, then the nearest group; of equals, the first. NULL:
 * it has none. */
const bt_profile_attention *bt_time_step_attention(const bt_profile_time *t, uint32_t head_dim, uint32_t group);
/* Bytes a microsecond of the operand that stays, of the one that passes, and of a decode step, whose weights pass as
 * the operand that stays does where a profile has no rate of its own; memory_bytes_per_us where it has neither. */
uint64_t bt_time_weight_rate(const bt_profile_time *t);
uint64_t bt_time_activation_rate(const bt_profile_time *t);
uint64_t bt_time_decode_rate(const bt_profile_time *t);

/* Two engines of one chip that read at the same time, each at most at its own rate, both together at most at
 * shared_bytes_per_us of `t`. */
uint64_t bt_time_two_engines(const bt_profile_time *t, uint64_t bytes, uint64_t per_us, uint64_t other_bytes,
                             uint64_t other_per_us);
/* The time for a value to change engines: the longer sync_ns of the two, in either direction. */
uint64_t bt_time_sync(const bt_profile_time *a, const bt_profile_time *b);
/* Summing `bytes` over a group's n devices: the lesser of a ring, 2 (n - 1) messages of bytes / n, and of one shot, in
 * which each sends all it has to all others. One shot takes what all_reduce says for n devices: a straight line between
 * two sizes, the first time below them, and behind the last what (n - 1) times more bytes take. A group between two of
 * the table lies on a line between them, and is never slower than the larger one. Without a group of n or more, one
 * shot is a message and all of its bytes. */
uint64_t bt_time_all_reduce(const bt_profile_time *t, uint64_t bytes);
#endif
