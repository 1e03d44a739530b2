#ifndef BT_DEVICE_PROFILE_H
#define BT_DEVICE_PROFILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "device/profile_time.h"
#include "graph/op_list.h"

/* A device's abilities and limits, as data: common/device/profiles/NAME.json, built into the programs; docs/profiles.md
 * explains every field. `host` has no limits. 0 means no limit.
 *
 * Wherever a device is taken, it is NAME[xN][@STACK]: the name of one of them or the path of such a file, a group of N
 * such devices (h100x4) where the profile lists that size, and the software whose constants hold (h100x4@trtllm);
 * without it, those of `time`. */
enum { BT_PROFILE_MAX_NAME = 63, BT_PROFILE_MAX_BYTES = 65536, BT_PROFILE_MAX_REFUSED = 64 };
enum { BT_PROFILE_MAX_STACKS = 8 };

/* How an operator may run on the NPU: a set of these bits. */
enum { BT_PROFILE_INT8 = 1, BT_PROFILE_INT16 = 2, BT_PROFILE_INT4 = 4 }; /* inputs of 8 and 16 bits; weights of 4 */
enum { BT_PROFILE_LUT = 32 };                                            /* weights in palettes of 4 and 6 bits */
/* In floats: values in f16 or bf16, sums in FP32 (kernels/round16.h). A profile has one of the two. */
enum { BT_PROFILE_FLOAT16 = 8, BT_PROFILE_BFLOAT16 = 16, BT_PROFILE_FLOATS = BT_PROFILE_FLOAT16 | BT_PROFILE_BFLOAT16 };

/* Zero points of inputs of 8 bits: NONE: the device has none. ALLOWED: it has them, like everything without a limit.
 * WANTED: its software quantises inputs so, and a recipe that does not say gets them. */
typedef enum bt_profile_zero { BT_PROFILE_ZERO_ALLOWED, BT_PROFILE_ZERO_NONE, BT_PROFILE_ZERO_WANTED } bt_profile_zero;

typedef struct bt_profile {
    char name[BT_PROFILE_MAX_NAME + 1], title[128]; /* name: with xN and @STACK as they were asked for */
    uint8_t op[BT_OP_KINDS];    /* by bt_op_kind, as the file has its class: 0 = the NPU lacks it; always 0 at edges */
    uint32_t output_bits;       /* what integer linears requantise to: 16, or 8 */
    uint32_t input_zero_points; /* bt_profile_zero */
    uint32_t tile_rows, tile_cols; /* of the matrix unit: sizes are rounded up to it */
    uint64_t on_chip_bytes;        /* one operator's weight tile, input and output fit in it, or it spills */
    uint64_t map_window_bytes;     /* of one session's mapping */
    uint64_t memory_bytes;         /* of all sessions together */
    uint32_t last_axis_align_bytes;
    uint32_t max_shapes;          /* specializations of one package */
    bool range_shapes;            /* bounded ranges are allowed */
    bool state_pow2;              /* KV dimensions but the first are rounded up to powers of two */
    uint32_t state_multiple;      /* and the last to a multiple of this */
    uint32_t max_rows;            /* longest seq of one program */
    uint32_t query_slice_rows;    /* attention on at most so many query rows at once */
    uint32_t attention_heads_max; /* and on at most so many query heads */
    uint32_t output_parts;        /* the output matrix as so many linears over its columns */
    uint32_t tile_input_rows;     /* rows of an activation are computed in whole multiples of this */
    /* what crosses the boundary of a cluster of operators; 0: costs nothing (npu/lower/clusters.h) */
    uint64_t boundary_bytes_per_us, convert_elements_per_us;
    uint64_t min_cluster_macs;  /* a cluster with less work goes to the companion */
    uint32_t session_switch_ns; /* mapping a session in place of another */
    bool static_ctx;            /* attention computes every column of its context: a program for each */
    bool companion;             /* the device is no NPU but stands beside one: nothing is compiled for it */
    uint32_t refused_shapes;    /* the device's compiler fails at these, although larger ones pass */
    struct {
        uint32_t seq, ctx;
    } refused_shape[BT_PROFILE_MAX_REFUSED];
    bt_profile_time time; /* its speed and energy under the stack that was asked for */
    uint32_t stacks;      /* number of other stacks that it has constants for */
    char stack[BT_PROFILE_MAX_STACKS][BT_PROFILE_TIME_MAX_STACK + 1];
    char first_stack[BT_PROFILE_TIME_MAX_STACK + 1]; /* that of `time` in the file */
} bt_profile;

/* device NULL: "host". A name that is not built in is a path if it has a '/' or ends in ".json". BT_EARG: no such
 * name, with the nearest one; no such stack or group, with those that there are; BT_EFORMAT: the field, its value, its
 * limits and the nearest name, or two fields that contradict each other; BT_ELIMIT past BT_PROFILE_MAX_BYTES; BT_EIO.
 */
bt_err bt_profile_load(bt_profile *ret, const char *device, bt_fault *fault);
/* The same device under the same stack in a group of that many, which is smaller than `of`; 1: alone. false: `of` is no
 * group that a name asked for, or has none of that size. */
bool bt_profile_group(bt_profile *ret, const bt_profile *of, uint32_t devices);
/* Whether a profile has constants of a stack. */
bool bt_profile_has_stack(const bt_profile *p, const char *stack);
/* The profile that `of` names in time.companion, which is not "". BT_EARG: no such name, or a profile without time;
 * errors of bt_profile_load. Each error names `of` and the field. */
bt_err bt_profile_companion(bt_profile *ret, const bt_profile *of, bt_fault *fault);
bt_err bt_profile_parse(bt_profile *ret, const char *json, size_t len, bt_fault *fault);
/* The i-th built-in name in order; NULL: no more. */
const char *bt_profile_name(size_t i);
/* The file of the i-th built-in profile, with the sources of its values; static text. NULL: no more. */
const char *bt_profile_json(size_t i);
/* The member of `operators` that stands for every class that the file does not name. */
extern const char bt_profile_others[];
/* The file of a device as bt_profile_load takes it, without xN and @STACK: a built-in one's text, static; NULL: none is
 * so called, and ret_path is the path. */
enum { BT_PROFILE_PATH_BYTES = 4096 };
const char *bt_profile_file(char ret_path[BT_PROFILE_PATH_BYTES], const char *device);
#endif
