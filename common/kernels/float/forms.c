/* The layout of the weight forms: sizes of panels, writing a group, reading a weight. */
#include "kernels/forms.h"
#include "kernels/f16.h"
#include "kernels/float/forms_layout.h"

#include <math.h>

static size_t round_up_64(size_t bytes) { return (bytes + 63) / 64 * 64; }

static size_t groups_of(size_t group, size_t k) { return (k + group - 1) / group; }

size_t bt_form_panel_bytes(bt_form form, size_t group, size_t k)
{
    switch (form) {
    case BT_FORM_INT8: return round_up_64(groups_of(group, k) * form_int8_bytes(group));
    case BT_FORM_FP4: return groups_of(BT_FORM_GROUP, k) * FORM_FP4_BYTES;
    case BT_FORM_MX:
        return round_up_64(form_mx_scale(groups_of(BT_FORM_GROUP, k), groups_of(BT_FORM_GROUP, k)));
    case BT_FORM_F16:
    default: return k * 16 * sizeof(uint16_t);
    }
}

size_t bt_form_fp4_sums_bytes(size_t t, size_t k)
{
    return round_up_64(t * groups_of(BT_FORM_GROUP, k) * sizeof(float));
}

void bt_form_int8_put(uint8_t *wp, size_t group, size_t k, size_t n, size_t g, uint16_t d, const int8_t *q,
                      size_t count)
{
    uint8_t *at = wp + n / 16 * bt_form_panel_bytes(BT_FORM_INT8, group, k) + g * form_int8_bytes(group);
    memcpy(at + n % 16 * sizeof d, &d, sizeof d);
    for (size_t i = 0; i < count; i++) at[32 + 16 * i + n % 16] = (uint8_t)q[i];
}

/* The codes of a group's first inputs and of output j. */
static void put_codes(uint8_t *codes, size_t j, const uint8_t *q, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t *byte = codes + form_code_byte(i, j);
        *byte = (uint8_t)((*byte & (0xf0u >> form_code_shift(i))) | (q[i] & 15u) << form_code_shift(i));
    }
}

void bt_form_fp4_put(uint8_t *wp, size_t k, size_t n, size_t g, uint16_t d, uint16_t m, const uint8_t *q,
                     size_t count)
{
    uint8_t *at = wp + n / 16 * bt_form_panel_bytes(BT_FORM_FP4, BT_FORM_GROUP, k) + g * FORM_FP4_BYTES;
    memcpy(at + n % 16 * sizeof d, &d, sizeof d);
    memcpy(at + 32 + n % 16 * sizeof m, &m, sizeof m);
    put_codes(at + FORM_FP4_CODES, n % 16, q, count);
}

void bt_form_mx_put(uint8_t *wp, size_t k, size_t n, size_t g, uint8_t e, const uint8_t *q, size_t count)
{
    uint8_t *at = wp + n / 16 * bt_form_panel_bytes(BT_FORM_MX, BT_FORM_GROUP, k);
    at[form_mx_scale(groups_of(BT_FORM_GROUP, k), g) + n % 16] = e;
    put_codes(at + g * FORM_MX_BYTES, n % 16, q, count);
}

float bt_form_value(const uint8_t *wp, bt_form form, size_t group, size_t k, size_t n, size_t at)
{
    const uint8_t *p = wp + n / 16 * bt_form_panel_bytes(form, group, k);
    const size_t j = n % 16;
    if (form == BT_FORM_F16) return f16_to_f32(form_f16_at(p + at * 32, j));
    if (form == BT_FORM_INT8) {
        p += at / group * form_int8_bytes(group);
        return f16_to_f32(form_f16_at(p, j)) * (float)(int8_t)p[32 + 16 * (at % group) + j];
    }
    const size_t g = at / BT_FORM_GROUP, i = at % BT_FORM_GROUP;
    if (form == BT_FORM_MX) {
        const unsigned code = p[g * FORM_MX_BYTES + form_code_byte(i, j)] >> form_code_shift(i);
        return (float)bt_mx_q(code) * bt_mx_d(p[form_mx_scale(groups_of(BT_FORM_GROUP, k), g) + j]);
    }
    p += g * FORM_FP4_BYTES;
    const float q = (float)(p[FORM_FP4_CODES + form_code_byte(i, j)] >> form_code_shift(i) & 15);
    return fmaf(f16_to_f32(form_f16_at(p, j)), q, f16_to_f32(form_f16_at(p + 32, j)));
}
