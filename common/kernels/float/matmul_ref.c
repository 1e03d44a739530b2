/* Matrix products over f16, int8, FP4 and MX weights as plain loops, the specification; and the packing of
 * f16 weights. */
#include "kernels/variant.h"
#include "kernels/f16.h"
#include "kernels/float/forms_layout.h"

#include <math.h>

void bt_matmul_pack(uint16_t *wp, const float *w, size_t n0, size_t rows, size_t k)
{
    for (size_t done = 0; done < rows;) { /* by panels, so that the writes are consecutive */
        const size_t p = (n0 + done) / 16, j0 = (n0 + done) % 16;
        const size_t count = rows - done < 16 - j0 ? rows - done : 16 - j0;
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < count; j++)
                wp[(p * k + i) * 16 + j0 + j] = f16_from_f32(w[(done + j) * k + i]);
        done += count;
    }
}

void bt_matmul_ref(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                   const uint16_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t p0,
                   size_t p1)
{
    const size_t end = p1 * 16 < n ? p1 * 16 : n;
    for (size_t row = 0; row < t; row++)
        for (size_t o = p0 * 16; o < end; o++) {
            const uint16_t *w = wp + o / 16 * k * 16 + o % 16;
            float sum = 0.0f;
            for (size_t i = 0; i < k; i++) sum = fmaf(f16_to_f32(w[i * 16]), x[row * ldx + i], sum);
            y[row * ldy + o] = bias ? bias[o] + sum : sum;
        }
}

void bt_matmul8_ref(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                    const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t group,
                    size_t p0, size_t p1)
{
    const size_t end = p1 * 16 < n ? p1 * 16 : n;
    for (size_t row = 0; row < t; row++)
        for (size_t o = p0 * 16; o < end; o++) {
            const uint8_t *w = wp + o / 16 * bt_form_panel_bytes(BT_FORM_INT8, group, k);
            float acc = 0.0f;
            for (size_t i = 0; i < k; i += group, w += form_int8_bytes(group)) {
                const size_t count = k - i < group ? k - i : group;
                float s = 0.0f;
                for (size_t c = 0; c < count; c++)
                    s = fmaf((float)(int8_t)w[32 + 16 * c + o % 16], x[row * ldx + i + c], s);
                acc = fmaf(f16_to_f32(form_f16_at(w, o % 16)), s, acc);
            }
            y[row * ldy + o] = bias ? bias[o] + acc : acc;
        }
}

static float fp4_decode(unsigned code)
{
    const uint32_t bits = 0x3F800000u | code << 19;
    float h;
    memcpy(&h, &bits, sizeof h);
    return h;
}

void bt_fp4_sums_ref(float *restrict xs, const float *restrict x, size_t ldx, size_t t, size_t k)
{
    for (size_t row = 0; row < t; row++)
        for (size_t i = 0; i < k; i += BT_FORM_GROUP) {
            float sum = 0.0f;
            for (size_t c = i; c < k && c < i + BT_FORM_GROUP; c++) sum += x[row * ldx + c];
            *xs++ = sum;
        }
}

void bt_matmul4_ref(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                    const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t p0,
                    size_t p1, const float *restrict xs)
{
    (void)xs; /* each output sums x anew */
    const size_t end = p1 * 16 < n ? p1 * 16 : n;
    for (size_t row = 0; row < t; row++)
        for (size_t o = p0 * 16; o < end; o++) {
            const uint8_t *w = wp + o / 16 * bt_form_panel_bytes(BT_FORM_FP4, BT_FORM_GROUP, k);
            float acc = 0.0f;
            for (size_t i = 0; i < k; i += BT_FORM_GROUP, w += FORM_FP4_BYTES) {
                const size_t count = k - i < BT_FORM_GROUP ? k - i : BT_FORM_GROUP;
                float s = 0.0f, sum = 0.0f;
                for (size_t c = 0; c < count; c++) {
                    const float xc = x[row * ldx + i + c];
                    s = fmaf(fp4_decode(w[FORM_FP4_CODES + form_code_byte(c, o % 16)] >> form_code_shift(c) &
                                        15),
                             xc, s);
                    sum += xc;
                }
                const float d16 = 16.0f * f16_to_f32(form_f16_at(w, o % 16));
                acc = fmaf(d16, s, acc);
                acc = fmaf(f16_to_f32(form_f16_at(w + 32, o % 16)) - d16, sum, acc);
            }
            y[row * ldy + o] = bias ? bias[o] + acc : acc;
        }
}

void bt_matmul_mx_ref(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                      const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t p0,
                      size_t p1)
{
    const size_t end = p1 * 16 < n ? p1 * 16 : n, groups = (k + BT_FORM_GROUP - 1) / BT_FORM_GROUP;
    for (size_t row = 0; row < t; row++)
        for (size_t o = p0 * 16; o < end; o++) {
            const uint8_t *w = wp + o / 16 * bt_form_panel_bytes(BT_FORM_MX, BT_FORM_GROUP, k);
            float acc = 0.0f;
            for (size_t g = 0; g < groups; g++) {
                const size_t i = g * BT_FORM_GROUP, count = k - i < BT_FORM_GROUP ? k - i : BT_FORM_GROUP;
                const uint8_t *codes = w + g * FORM_MX_BYTES;
                float s = 0.0f;
                for (size_t c = 0; c < count; c++) {
                    const unsigned code = codes[form_code_byte(c, o % 16)] >> form_code_shift(c);
                    s = fmaf((float)bt_mx_q(code), x[row * ldx + i + c], s);
                }
                acc = fmaf(bt_mx_d(w[form_mx_scale(groups, g) + o % 16]), s, acc);
            }
            y[row * ldy + o] = bias ? bias[o] + acc : acc;
        }
}
