#ifndef BT_DEVICE_PROFILE_TIME_H
#define BT_DEVICE_PROFILE_TIME_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "device/calibration.h"

/* A device's speed and energy under one software stack: the object `time` of a profile. docs/profiles.md explains every
 * field, docs/device-time.md the formulas (device/time.h, device/energy.h) that read them. Integers with their unit in
 * the name; 0 costs nothing, or is a rate without limit. An operation is half a multiply-accumulate: a product or a
 * sum. */
enum { BT_PROFILE_TIME_MAX_POINTS = 15, BT_PROFILE_TIME_MAX_SUMS = 64 };
enum { BT_PROFILE_TIME_MAX_KERNELS = 8, BT_PROFILE_TIME_MAX_STACK = 31, BT_PROFILE_TIME_MAX_SIZES = 8 };
enum { BT_PROFILE_TIME_MAX_PROGRAMS = 12 };

/* Attention of a step, by head size and group. Two shares saturate: so many positions of a sequence are read at half
 * the rate, so many rows of a sequence computed at half the share. */
typedef struct bt_profile_attention {
    uint32_t head_dim, group;   /* elements of a head; query heads that share a KV head; 0: all */
    uint32_t launch_ns;         /* of a layer */
    uint32_t row_launch_ns;     /* of sequences with one row, at most launch_ns; 0: launch_ns */
    uint64_t kv_bytes_per_us;   /* 0: the decode rate */
    uint32_t kv_half_positions; /* 0: the whole rate from the first position on */
    uint32_t least_positions;   /* the mean of all sequences takes at least as many */
    uint32_t peak_permille;     /* of f16_ops_per_us; 0: the share of products with as many rows */
    uint32_t half_rows;         /* 0: the whole share from the first row on */
    /* sequences with one row */
    uint32_t gather_ns;         /* several of them, with several KV heads of a group each: gathering their queries */
    uint64_t head_bytes_per_us; /* KV of one head of the longest, beyond least_positions; 0: at any rate */
    uint32_t join_ns; /* reading it in parts takes at most so much more than reading all KV; 0: it has no parts */
} bt_profile_attention;

typedef struct bt_profile_time {
    bool is_given;                             /* the profile has the object */
    char stack[BT_PROFILE_TIME_MAX_STACK + 1]; /* the stack of these constants: "llm.npu" */
    char companion[64]; /* the profile that runs the operators that this one lacks; "": itself, in FP16 */
    /* the matrix unit */
    uint64_t f16_ops_per_us; /* peak, dense */
    uint32_t int8_permille;  /* int8 operations by f16 ones; 0 as 1000 */
    uint32_t int4_permille;  /* int4 weights, by f16 */
    uint32_t fp8_permille;   /* FP8 weights and inputs, by f16; 0: the device has none */
    uint32_t fp4_permille;   /* NVFP4 weights and inputs, by f16; likewise */
    uint32_t points;         /* number of points of the share of the peak at so many rows */
    struct {
        uint32_t rows, permille;
    } efficiency[BT_PROFILE_TIME_MAX_POINTS]; /* rows ascend; 0 points: all of it */
    uint32_t tile_rows;                       /* behind the first so many rows, of the last tile's empty rows */
    uint32_t tile_permille;                   /* this share is computed too; */
    uint32_t tile_int8_permille;              /* this one with inputs of at most 8 bits; 0: as tile_permille */
    uint32_t programs; /* number of them; rows of prompts are padded to whole programs; 0: they are not */
    uint32_t program_rows[BT_PROFILE_TIME_MAX_PROGRAMS]; /* ascend */
    uint32_t array_rows, array_cols, arrays;             /* a weight-stationary array, and how many; fold rule */
    uint64_t clock_khz;
    uint32_t group32_permille; /* time of a linear whose weights have a scale for each 32 inputs */
    /* memory */
    uint64_t memory_bytes_per_us;       /* physical peak; no other rate is above it */
    uint64_t weight_bytes_per_us;       /* of the operand that stays, in prefill */
    uint64_t activation_bytes_per_us;   /* of the operand that passes by */
    uint64_t decode_bytes_per_us;       /* weights and KV of a decode step */
    uint64_t int4_bytes_per_us;         /* weights of 4 bits, where unpacking bounds them; 0: it does not */
    uint64_t shared_bytes_per_us;       /* of two engines of the chip that read at the same time */
    uint64_t first_weight_bytes_per_us; /* weights, the first time in a prompt, beyond the above */
    uint64_t score_elements_per_us;     /* softmax over attention's scores */
    /* fixed costs */
    uint32_t op_launch_ns, dispatch_ns, sync_ns; /* an operator; a graph; a value that changes engines */
    uint32_t first_launch_ns;                    /* an operator, the first time in a prompt, beyond op_launch_ns */
    uint32_t decode_op_ns;                       /* an operator of a decode step */
    uint32_t linear_launch_ns;                   /* a matrix of a step; 0: decode_op_ns */
    uint32_t quantize_launch_ns;                 /* a matrix of a step whose inputs have at most 8 bits, beyond that */
    uint32_t layer_matrices;                     /* of a layer that are launched; 0: each for itself */
    uint32_t input_ps;                           /* a matrix of a step, for each of its inputs */
    uint32_t unhidden_permille;                  /* of the shorter of computing and reading a step's products */
    uint32_t small_launch_ns;                    /* a step's small operators of a layer take at least this */
    uint32_t sequence_ns;                        /* a step, for each of its sequences: what the stack's host does */
    uint32_t kernels;                            /* number of them; 0: decode_op_ns and the rates of products */
    bt_profile_attention attention[BT_PROFILE_TIME_MAX_KERNELS];
    uint64_t program_compile_ns; /* a program, once */
    /* a group of equal devices that share a model's matrices */
    uint32_t devices;                               /* 0: one */
    uint32_t sizes;                                 /* number of sizes that a name may ask for (NAMExN) */
    uint32_t group_size[BT_PROFILE_TIME_MAX_SIZES]; /* ascending */
    uint64_t interconnect_bytes_per_us;             /* of one device, one way */
    uint32_t interconnect_ns;                       /* a message */
    uint32_t sums;                                  /* number of measured times of a sum over so many devices */
    struct {
        uint32_t devices, ns;
        uint64_t bytes;
    } all_reduce[BT_PROFILE_TIME_MAX_SUMS]; /* devices ascend, then bytes; with more bytes no time falls */
    /* energy */
    uint32_t idle_mw, busy_mw, polling_mw; /* always; more while it works; the host's that waits for it */
    uint32_t tdp_mw;                       /* the vendor's limit, used where no other power is known */
    uint32_t op_fj;                        /* an operation */
    uint32_t byte_fj;                      /* a byte of memory traffic */
    bt_calibration calibration;            /* what these constants stand on */
} bt_profile_time;

/* How many devices the times are of: 1 without a group. */
static inline uint32_t bt_profile_devices(const bt_profile_time *t) { return t->devices ? t->devices : 1; }
/* json: a json_t of the object, whose "sources" are checked too: each names a field of the object. BT_EFORMAT: the
 * field, its value and its range, or the field that was likely meant; or two fields that contradict each other. */
bt_err bt_profile_time_read(bt_profile_time *ret, const void *json, bt_fault *fault);
/* One of a profile's `stacks`, by its name: fields that the object lacks are those of `base`, a field that is null has
 * no value; the calibration is its own. Errors as above. */
bt_err bt_profile_time_stack(bt_profile_time *ret, const bt_profile_time *base, const char *stack, const void *json,
                             bt_fault *fault);
/* Fields that contradict each other: a rate above memory_bytes_per_us, an array without a clock or beyond the peak,
 * devices without an interconnect. */
bt_err bt_profile_time_check(const bt_profile_time *t, bt_fault *fault);
#endif
