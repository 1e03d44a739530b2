/* Recipes, the forms of a GPU, and rows of KV. */
#include "lab/plan/forms.h"
#include "npu/lower/offload.h"
#include "npu/pkg/pkg_format.h"

#define FLOAT(bits) \
    { \
        .usual = { .weight_bits = (bits), .input_bits = {16, 16, 16, 16, 16} } \
    }
static const tool_plan_form floats[] = {
    {.name = "f16", .recipe = FLOAT(16), .weight_bits = 16, .weight_permille = 2000},
    {.name = "int8", .recipe = FLOAT(8), .weight_bits = 8, .weight_permille = 1062},
    {.name = "fp4", .recipe = FLOAT(4), .weight_bits = 4, .weight_permille = 625},
};
const tool_plan_form *tool_plan_float_form(size_t i)
{
    return i < sizeof floats / sizeof *floats ? &floats[i] : NULL;
}

tool_plan_form tool_plan_form_of(const bt_recipe *r)
{
    tool_plan_form f = {.recipe = *r, .weight_bits = r->usual.weight_bits};
    for (uint8_t i = 0; i < r->parts; i++)
        if (r->part[i].weight_bits < f.weight_bits) f.weight_bits = r->part[i].weight_bits;
    bt_recipe_text(f.name, r);
    return f;
}

uint32_t tool_plan_form_input_bits(const tool_plan_form *f)
{
    const bt_recipe *r = &f->recipe;
    uint32_t least = 16;
    for (uint8_t i = 0; i <= r->parts; i++)
        for (int k = 0; k < BT_SITE_KINDS; k++) {
            const uint32_t bits = (i ? r->part[i - 1] : r->usual).input_bits[k];
            if (bits < least) least = bits;
        }
    return least;
}

/* int8 rows have a scale of 2 bytes a head (kernels/kv_view.h). */
const tool_plan_kv tool_plan_kvs[] = {{"f16", 2, 0}, {"int8", 1, 2}, {NULL, 0, 0}};

uint64_t tool_plan_kv_bytes(const tool_plan_kv *k, const bt_dims *s)
{
    return (uint64_t)2 * s->layers * s->kv_heads * ((uint64_t)s->head_dim * k->elem_bytes + k->head_bytes);
}

bt_err tool_plan_form_check(const bt_profile *p, const bt_dims *s, const bt_recipe *r, bt_fault *fault)
{
    char why[96];
    bt_err e = bt_recipe_check_layers(r, s->layers, fault);
    for (uint32_t i = 0; e == BT_OK && i < s->layers * BT_SITE_KINDS; i++) {
        const bt_site_kind site = (bt_site_kind)(i % BT_SITE_KINDS);
        const bt_recipe_layer *own = bt_recipe_of(r, i / BT_SITE_KINDS, site);
        const uint32_t inputs = bt_pkg_site_width(site, s->hidden, s->heads * s->head_dim, s->ffn);
        e = bt_recipe_check_group(own, site, inputs, fault);
        if (e == BT_OK && !bt_offload_linear(why, p, own, site, inputs))
            e = bt_fail(fault, BT_EARG, "the linears '%s' would not run on the NPU: %s",
                        bt_site_kind_name(site), why);
    }
    return e;
}
