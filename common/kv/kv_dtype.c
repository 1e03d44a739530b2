/* One table of the forms of KV rows, and the choices that a person has. */
#include "kv/kv_dtype.h"
#include "base/opt.h"

#include <stddef.h>

static const struct {
    bt_kv_dtype dtype;
    const char *name;
    uint32_t elem_bytes;
} table[] = {
    {BT_KV_F16, "f16", 2},
    {BT_KV_F32, "f32", 4},
    {BT_KV_INT8, "int8", 1},
};
enum { TYPES = sizeof table / sizeof table[0] };

const char *const bt_kv_dtype_choices[] = {"f16", "int8", NULL};

static const bt_opt opts[] = {
    {.group = "Model", .name = "kv-dtype", .value = "TYPE", .type = BT_OPT_CHOICE, .def = "f16",
     .choices = bt_kv_dtype_choices,
     .help = "KV rows, the same in all nodes: f16, or int8 with a scale a head; engine reference has only "
             "f32"},
};
const bt_opt_group bt_kv_dtype_opts = BT_OPT_GROUP(opts);

const char *bt_kv_dtype_name(bt_kv_dtype dtype)
{
    for (size_t i = 0; i < TYPES; i++)
        if (table[i].dtype == dtype) return table[i].name;
    return "?";
}

uint32_t bt_kv_dtype_elem_bytes(bt_kv_dtype dtype)
{
    for (size_t i = 0; i < TYPES; i++)
        if (table[i].dtype == dtype) return table[i].elem_bytes;
    return 0;
}

bt_kv_dtype bt_kv_dtype_of(uint32_t elem_bytes)
{
    return elem_bytes == 1 ? BT_KV_INT8 : elem_bytes == 2 ? BT_KV_F16 : BT_KV_F32;
}

uint32_t bt_kv_dtype_wanted(int choice) { return choice == 0 ? 0 : 1; }
