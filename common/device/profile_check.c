/* Fields of a profile that contradict each other. Each line of a check is one contradiction. */
#include "device/profile_check.h"

#include <inttypes.h>

static bt_err check_sizes(const bt_profile *p, bt_fault *fault)
{
    const struct {
        const char *small, *large;
        uint64_t is, limit;
    } order[] = {
        {"map_window_bytes", "memory_bytes", p->map_window_bytes, p->memory_bytes},
        {"on_chip_bytes", "memory_bytes", p->on_chip_bytes, p->memory_bytes},
    };
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (order[i].limit && order[i].is > order[i].limit)
            return bt_fail(fault, BT_EFORMAT,
                           "field '%s': %" PRIu64 " is more than '%s' has, %" PRIu64 "; at most that",
                           order[i].small, order[i].is, order[i].large, order[i].limit);
    return BT_OK;
}

static bt_err check_switch(const bt_profile *p, bt_fault *fault)
{
    if (!p->session_switch_ns || p->map_window_bytes) return BT_OK;
    return bt_fail(fault, BT_EFORMAT,
                   "field 'session_switch_ns': %" PRIu32
                   ", and without 'map_window_bytes' there is one session; give "
                   "both or none",
                   p->session_switch_ns);
}

/* The powers of two around another number. */
static void powers_around(uint32_t n, uint32_t *ret_below, uint32_t *ret_above)
{
    uint32_t below = 1;
    while (below * 2 < n) below *= 2;
    *ret_below = below;
    *ret_above = below * 2;
}

static bt_err check_align(const bt_profile *p, bt_fault *fault)
{
    const uint32_t n = p->last_axis_align_bytes;
    uint32_t below, above;
    if (!(n & (n - 1))) return BT_OK;
    powers_around(n, &below, &above);
    return bt_fail(fault, BT_EFORMAT,
                   "field 'last_axis_align_bytes': %" PRIu32 " is no power of two; the nearest are %" PRIu32
                   " and %" PRIu32,
                   n, below, above);
}

static bt_err check_tile(const bt_profile *p, bt_fault *fault)
{
    if (!p->tile_rows == !p->tile_cols) return BT_OK;
    return bt_fail(fault, BT_EFORMAT, "field '%s': %" PRIu32 ", and there is no '%s'; give both or none",
                   p->tile_rows ? "tile_rows" : "tile_cols", p->tile_rows ? p->tile_rows : p->tile_cols,
                   p->tile_rows ? "tile_cols" : "tile_rows");
}

static bt_err check_state(const bt_profile *p, bt_fault *fault)
{
    const uint32_t m = p->state_multiple;
    uint32_t below, above;
    if (!p->state_pow2 || !m || !(m & (m - 1))) return BT_OK;
    powers_around(m, &below, &above);
    return bt_fail(fault, BT_EFORMAT,
                   "field 'state_multiple': %" PRIu32
                   ", and with 'state_pow2' it must be a power of two: %" PRIu32 " or %" PRIu32,
                   m, below, above);
}

static bt_err check_refused(const bt_profile *p, bt_fault *fault)
{
    if (!p->refused_shapes || p->static_ctx) return BT_OK;
    return bt_fail(
        fault, BT_EFORMAT,
        "field 'refused_shapes': pairs [seq, ctx], which only a device with 'static_ctx' true tells apart");
}

/* A companion has no programs, so nothing that limits them. */
static bt_err check_companion(const bt_profile *p, bt_fault *fault)
{
    const struct {
        const char *name;
        bool is_set;
    } of_npus[] = {
        {"output_bits", p->output_bits != 16},
        {"tile_rows", p->tile_rows},
        {"on_chip_bytes", p->on_chip_bytes},
        {"map_window_bytes", p->map_window_bytes},
        {"last_axis_align_bytes", p->last_axis_align_bytes},
        {"max_shapes", p->max_shapes},
        {"range_shapes", !p->range_shapes},
        {"state_pow2", p->state_pow2},
        {"state_multiple", p->state_multiple},
        {"max_rows", p->max_rows},
        {"query_slice_rows", p->query_slice_rows},
        {"attention_heads_max", p->attention_heads_max},
        {"output_parts", p->output_parts},
        {"tile_input_rows", p->tile_input_rows},
        {"boundary_bytes_per_us", p->boundary_bytes_per_us},
        {"convert_elements_per_us", p->convert_elements_per_us},
        {"min_cluster_macs", p->min_cluster_macs},
        {"static_ctx", p->static_ctx},
        {"refused_shapes", p->refused_shapes},
    };
    if (!p->companion) return BT_OK;
    for (int k = 0; k < BT_OP_KINDS; k++)
        if (p->op[k])
            return bt_fail(fault, BT_EFORMAT,
                           "field 'operators', '%s': a companion runs what the NPU leaves; 'operators' is {}",
                           bt_op_name((bt_op_kind)k));
    for (size_t i = 0; i < sizeof of_npus / sizeof *of_npus; i++)
        if (of_npus[i].is_set)
            return bt_fail(fault, BT_EFORMAT,
                           "field '%s': is of NPUs, and 'companion' is true; leave one of them out",
                           of_npus[i].name);
    return BT_OK;
}

/* A package has one form of floats. */
static bt_err check_floats(const bt_profile *p, bt_fault *fault)
{
    const char *of[2] = {NULL, NULL};
    for (int k = 0; k < BT_OP_KINDS; k++)
        for (int f = 0; f < 2; f++)
            if (p->op[k] & (f ? BT_PROFILE_BFLOAT16 : BT_PROFILE_FLOAT16)) of[f] = bt_op_name((bt_op_kind)k);
    return of[0] && of[1]
               ? bt_fail(
                     fault, BT_EFORMAT,
                     "field 'operators': '%s' takes 'float16' and '%s' 'bfloat16'; a device has one of them",
                     of[0], of[1])
               : BT_OK;
}

bt_err bt_profile_check(const bt_profile *p, bt_fault *fault)
{
    bt_err e;
    if (p->output_bits != 8 && p->output_bits != 16)
        return bt_fail(fault, BT_EFORMAT, "field 'output_bits': %" PRIu32 "; 8 or 16", p->output_bits);
    if ((e = check_tile(p, fault)) < 0) return e;
    if ((e = check_align(p, fault)) < 0) return e;
    if ((e = check_sizes(p, fault)) < 0) return e;
    if ((e = check_switch(p, fault)) < 0) return e;
    if ((e = check_state(p, fault)) < 0) return e;
    if ((e = check_companion(p, fault)) < 0) return e;
    if ((e = check_floats(p, fault)) < 0) return e;
    return check_refused(p, fault);
}
