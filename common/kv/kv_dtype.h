#ifndef BT_KV_DTYPE_H
#define BT_KV_DTYPE_H
#include <stdint.h>

/* The form of a deployment's KV rows: its number on the wire, its name, and the elem_bytes by which engines know it
 * (kernels/kv_view.h, where the rows of each are described). All nodes of a deployment have the same. */
typedef enum bt_kv_dtype {
    BT_KV_F16 = 1,
    BT_KV_F32 = 2,
    BT_KV_INT8 = 3
} bt_kv_dtype; /* F32: only with the reference engine */

const char *bt_kv_dtype_name(bt_kv_dtype dtype);    /* "f16", "f32", "int8"; "?" for an unknown number */
uint32_t bt_kv_dtype_elem_bytes(bt_kv_dtype dtype); /* 2, 4, 1; 0 for an unknown number */
bt_kv_dtype bt_kv_dtype_of(uint32_t elem_bytes);    /* of 1, 2 or 4 */

/* --kv-dtype is an index in bt_kv_dtype_choices; bt_kv_dtype_wanted makes an engine's kv_elem_bytes of it. f16 becomes
 * 0, the engine's default, which is f32 for engine reference. */
extern const char *const bt_kv_dtype_choices[];
extern const struct bt_opt_group bt_kv_dtype_opts; /* base/opt.h: kv-dtype */
uint32_t bt_kv_dtype_wanted(int choice);
#endif
