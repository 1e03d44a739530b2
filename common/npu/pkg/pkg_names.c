/* The order of a package's tables, the names of its values, units and instructions, and static assertions
 * that its structures have the sizes of the file format. */
#include "kernels/round16.h"
#include "model/weight.h"
#include "npu/pkg/pkg_format.h"
#include "npu/pkg/recipe.h"

_Static_assert(sizeof(bt_pkg_table) == 16 && sizeof(bt_pkg_rotation) == 24 && sizeof(bt_pkg_header) == 1024,
               "package header");
_Static_assert(sizeof(bt_pkg_const) == 40 && sizeof(bt_pkg_tensor) == 96 && sizeof(bt_pkg_site) == 64,
               "package tables");
_Static_assert(sizeof(bt_pkg_expert) == 16 && sizeof(bt_pkg_row) == 32 && sizeof(bt_pkg_program) == 64 &&
                   sizeof(bt_pkg_place) == 32,
               "package tables");
_Static_assert(sizeof(bt_pkg_piece) == 32, "package instructions");
_Static_assert(sizeof(bt_pkg_inst) == 88 && sizeof(bt_pkg_int_params) == 64, "package instructions");
_Static_assert(sizeof(bt_pkg_fallback) == 136 && sizeof(bt_pkg_session) == 16, "package tables");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "package files are mapped as they are");

/* The weight of each slot of a layer. */
static const uint32_t slot_weight[BT_PKG_LAYER_TENSORS] = {
    BT_WEIGHT_ATTN_NORM,     BT_WEIGHT_Q,      BT_WEIGHT_K,    BT_WEIGHT_V,
    BT_WEIGHT_Q_NORM,        BT_WEIGHT_K_NORM, BT_WEIGHT_O,    BT_WEIGHT_FFN_NORM,
    BT_WEIGHT_GATE,          BT_WEIGHT_UP,     BT_WEIGHT_DOWN, BT_WEIGHT_ATTN_POST_NORM,
    BT_WEIGHT_FFN_POST_NORM,
};

uint32_t bt_pkg_tensor_index(uint32_t layers, uint32_t layer, uint32_t weight)
{
    if (weight == BT_WEIGHT_OUT_NORM) return layers * BT_PKG_LAYER_TENSORS;
    if (weight == BT_WEIGHT_OUTPUT) return layers * BT_PKG_LAYER_TENSORS + 1;
    for (uint32_t i = 0; i < BT_PKG_LAYER_TENSORS && layer < layers; i++)
        if (slot_weight[i] == weight) return layer * BT_PKG_LAYER_TENSORS + i;
    return BT_PKG_NONE;
}

uint32_t bt_pkg_site_index(uint32_t layers, uint32_t layer, uint32_t kind)
{
    if (kind == BT_SITE_HEAD) return layers * BT_PKG_LAYER_SITES;
    return layer < layers && kind < BT_PKG_LAYER_SITES ? layer * BT_PKG_LAYER_SITES + kind : BT_PKG_NONE;
}

uint32_t bt_pkg_site_of(uint32_t weight)
{
    switch (weight) {
    case BT_WEIGHT_Q:
    case BT_WEIGHT_K:
    case BT_WEIGHT_V: return BT_SITE_QKV;
    case BT_WEIGHT_O: return BT_SITE_O;
    case BT_WEIGHT_GATE:
    case BT_WEIGHT_UP: return BT_SITE_UP;
    case BT_WEIGHT_DOWN: return BT_SITE_DOWN;
    case BT_WEIGHT_OUTPUT: return BT_SITE_HEAD;
    default: return BT_PKG_NONE;
    }
}

uint32_t bt_pkg_site_after(uint32_t weight)
{
    switch (weight) {
    case BT_WEIGHT_ATTN_NORM: return BT_SITE_QKV;
    case BT_WEIGHT_FFN_NORM: return BT_SITE_UP;
    case BT_WEIGHT_OUT_NORM: return BT_SITE_HEAD;
    default: return BT_PKG_NONE;
    }
}

uint32_t bt_pkg_site_width(uint32_t kind, uint32_t dim, uint32_t q_width, uint32_t ffn)
{
    return kind == BT_SITE_O ? q_width : kind == BT_SITE_DOWN ? ffn : dim;
}

const bt_pkg_tensor bt_pkg_no_tensor = {
    .site = BT_PKG_NONE,   .panels = BT_PKG_NONE, .wscale = BT_PKG_NONE,     .oscale = BT_PKG_NONE,
    .bias = BT_PKG_NONE,   .colsum = BT_PKG_NONE, .mult = BT_PKG_NONE,       .shift = BT_PKG_NONE,
    .bias_q = BT_PKG_NONE, .norm_q = BT_PKG_NONE, .f16_panels = BT_PKG_NONE,
};

uint32_t bt_pkg_window(const bt_pkg_header *h, uint32_t layer) { return bt_rules_window(&h->rules, layer); }

uint32_t bt_pkg_columns(const bt_pkg_header *h, const bt_pkg_program *p, uint32_t layer)
{
    const uint32_t window = bt_pkg_window(h, layer);
    return window && window + p->seq - 1 < p->ctx ? window + p->seq - 1 : p->ctx;
}

bool bt_pkg_is_of_experts(const bt_pkg_header *h, uint32_t weight)
{
    return h->experts && (weight == BT_WEIGHT_GATE || weight == BT_WEIGHT_UP || weight == BT_WEIGHT_DOWN);
}

uint32_t bt_pkg_matrices(const bt_pkg_header *h, uint32_t weight)
{
    return bt_pkg_is_of_experts(h, weight) ? h->experts : 1;
}

uint32_t bt_pkg_expert_rows(uint32_t seq, uint32_t rows)
{
    uint32_t n = rows > 0;
    while (n < rows) n *= 2;
    return n < seq ? n : seq;
}

uint32_t bt_pkg_rope_tables(const bt_pkg_header *h) { return bt_rules_rope_tables(&h->rules); }

uint64_t bt_pkg_rope_at(const bt_pkg_header *h, uint32_t layer)
{
    return (uint64_t)bt_rules_rope_table(&h->rules, layer) * h->ctx_tokens * (h->rope_dims / 2);
}

const char *bt_pkg_unit_name(uint32_t unit)
{
    static const char *const names[BT_PKG_UNITS] = {"companion", "npu", "npu_float"};
    return unit < BT_PKG_UNITS ? names[unit] : "?";
}

const char *bt_pkg_float_name(uint32_t float_form) { return bt_round16_name((bt_round16)float_form); }

const char *bt_pkg_value_name(uint32_t v)
{
    static const char *const name[BT_PKG_VALUES] = {
        "?", "x", "n",  "q",      "k",  "v",      "a",    "o",  "f",  "gate",  "up",
        "d", "s", "sn", "planes", "lo", "shadow", "wide", "kf", "vf", "other",
    };
    return v < BT_PKG_VALUES ? name[v] : "?";
}
