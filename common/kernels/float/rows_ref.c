/* Row kernels as plain loops, the specification: norms, sums, SwiGLU, GELU, soft caps, rope, f16 and
 * back, exp, tanh, logits. */
#include "kernels/variant.h"
#include "kernels/exp.h"
#include "kernels/f16.h"

#include <math.h>
#include <string.h>

uint16_t bt_f32_to_f16_1(float x) { return f16_from_f32(x); }
float bt_f16_to_f32_1(uint16_t h) { return f16_to_f32(h); }

/* 2^n, n in the low bits of s; the shift drops all others. */
static float power_of(float s)
{
    uint32_t bits;
    memcpy(&bits, &s, sizeof bits);
    bits = (bits + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

float bt_exp1(float x)
{
    if (!(x >= BT_EXP_LOW)) return 0.0f;
    if (x > BT_EXP_HIGH) x = BT_EXP_HIGH;
    const float s = fmaf(x, BT_EXP_LOG2E, BT_EXP_ROUND);
    const float n = s - BT_EXP_ROUND;
    float r = fmaf(-n, BT_EXP_LN2_HI, x);
    r = fmaf(-n, BT_EXP_LN2_LO, r);
    float p = BT_EXP_C6;
    p = fmaf(p, r, BT_EXP_C5);
    p = fmaf(p, r, BT_EXP_C4);
    p = fmaf(p, r, BT_EXP_C3);
    p = fmaf(p, r, BT_EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    return p * power_of(s);
}

float bt_tanh1(float x)
{
    float z = x + x;
    if (z > BT_TANH_HIGH) z = BT_TANH_HIGH;
    if (z < -BT_TANH_HIGH) z = -BT_TANH_HIGH;
    const float s = fmaf(z, BT_EXP_LOG2E, BT_EXP_ROUND);
    const float n = s - BT_EXP_ROUND;
    float r = fmaf(-n, BT_EXP_LN2_HI, z);
    r = fmaf(-n, BT_EXP_LN2_LO, r);
    float c = BT_EXP_C6;
    c = fmaf(c, r, BT_EXP_C5);
    c = fmaf(c, r, BT_EXP_C4);
    c = fmaf(c, r, BT_EXP_C3);
    c = fmaf(c, r, BT_EXP_C2);
    const float power = power_of(s), q = fmaf(c, r * r, r), e = fmaf(power, q, power - 1.0f);
    return e / (e + 2.0f);
}

static float tree(float l[16])
{
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++) l[j] += l[j + half];
    return l[0];
}

float bt_dot_ref(const float *a, const float *b, size_t count)
{
    float l[16] = {0};
    for (size_t i = 0; i < count; i++) l[i % 16] = fmaf(a[i], b[i], l[i % 16]);
    return tree(l);
}

void bt_rmsnorm_ref(float *y, size_t ldy, const float *x, size_t ldx, const float *w, float eps, size_t t,
                    size_t k)
{
    for (size_t row = 0; row < t; row++, x += ldx, y += ldy) {
        const float scale = 1.0f / sqrtf(bt_dot_ref(x, x, k) / (float)k + eps);
        for (size_t i = 0; i < k; i++) y[i] = x[i] * scale * w[i];
    }
}

void bt_layernorm_ref(float *y, size_t ldy, const float *x, size_t ldx, const float *w, float eps, size_t t,
                      size_t k)
{
    for (size_t row = 0; row < t; row++, x += ldx, y += ldy) {
        float once[16] = {0}, twice[16] = {0};
        for (size_t i = 0; i < k; i++) once[i % 16] += x[i];
        const float mean = tree(once) / (float)k;
        for (size_t i = 0; i < k; i++) twice[i % 16] = fmaf(x[i] - mean, x[i] - mean, twice[i % 16]);
        const float scale = 1.0f / sqrtf(tree(twice) / (float)k + eps);
        for (size_t i = 0; i < k; i++) y[i] = fmaf((x[i] - mean) * scale, w[i], w[k + i]);
    }
}

void bt_dots_ref(float *restrict y, const float *restrict x, const float *restrict w, size_t n, size_t k)
{
    for (size_t j = 0; j < n; j++) y[j] = bt_dot_ref(x, w + j * k, k);
}

void bt_add_ref(float *restrict y, const float *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++) y[i] = x[i] + y[i];
}

void bt_add_scaled_ref(float *restrict y, const float *restrict x, float scale, size_t count)
{
    for (size_t i = 0; i < count; i++) y[i] = fmaf(scale, x[i], y[i]);
}

void bt_silu_mul_ref(float *y, const float *g, const float *u, size_t count)
{
    for (size_t i = 0; i < count; i++) y[i] = g[i] / (1.0f + bt_exp1(-g[i])) * u[i];
}

static float gelu(float x)
{
    const float a = x * fmaf(x * x, BT_GELU_CUBE, BT_GELU_ONCE);
    return x / (1.0f + bt_exp1(-a));
}

void bt_gelu_ref(float *y, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) y[i] = gelu(x[i]);
}

void bt_gelu_mul_ref(float *y, const float *g, const float *u, size_t count)
{
    for (size_t i = 0; i < count; i++) y[i] = gelu(g[i]) * u[i];
}

void bt_clamp_mul_ref(float *y, const float *g, const float *u, size_t count)
{
    const float limit = BT_CLAMP_LIMIT;
    for (size_t i = 0; i < count; i++) {
        const float a = limit < g[i] ? limit : g[i], high = limit < u[i] ? limit : u[i];
        const float b = -limit > high ? -limit : high;
        y[i] = a / (1.0f + bt_exp1(-(a * BT_CLAMP_GAIN))) * (b + 1.0f);
    }
}

void bt_soft_cap_ref(float *y, float cap, size_t count)
{
    for (size_t i = 0; i < count; i++) y[i] = bt_tanh1(y[i] / cap) * cap;
}

void bt_rope_ref(float *x, size_t heads, size_t d, size_t r, const float *cos, const float *sin, int neox)
{
    const size_t half = r / 2, step = neox ? 1 : 2, far = neox ? half : 1;
    for (size_t h = 0; h < heads; h++, x += d)
        for (size_t i = 0; i < half; i++) {
            float *pa = x + i * step, *pb = pa + far;
            const float a = *pa, b = *pb;
            *pa = fmaf(a, cos[i], -(b * sin[i]));
            *pb = fmaf(a, sin[i], b * cos[i]);
        }
}

void bt_f32_to_f16_ref(uint16_t *restrict y, const float *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++) y[i] = f16_from_f32(x[i]);
}

void bt_f16_to_f32_ref(float *restrict y, const uint16_t *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++) y[i] = f16_to_f32(x[i]);
}

/* ---- logits ---- */
void bt_logit_range_ref(float ret[2], const float *z, size_t n)
{
    ret[0] = ret[1] = z[0];
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(z[i])) {
            ret[0] = ret[1] = NAN;
            return;
        }
        if (z[i] < ret[0]) ret[0] = z[i];
        if (z[i] > ret[1]) ret[1] = z[i];
    }
    ret[0] += 0.0f, ret[1] += 0.0f;
}

float bt_logit_sum_ref(const float *z, size_t n, float z0, float temperature, float least)
{
    float l[16] = {0};
    for (size_t i = 0; i < n; i++)
        if (z[i] >= least) l[i % 16] += bt_exp1((z[i] - z0) / temperature);
    return tree(l);
}

void bt_logit_bins_ref(int32_t *restrict bin, int32_t *restrict mass, const float *restrict z, size_t n,
                       float z0, float top, float least, float scale, float bins)
{
    for (size_t i = 0; i < n; i++) {
        float x = (top - z[i]) * scale;
        x = x > 0.0f ? x : 0.0f;
        x = x < bins - 1.0f ? x : bins - 1.0f;
        bin[i] = z[i] >= least ? (int32_t)rintf(bins - x) : 0;
        if (mass) mass[i] = (int32_t)rintf(bt_exp1(z[i] - z0) * 0x1p30f);
    }
}

size_t bt_logit_list_ref(uint32_t *restrict at, const float *restrict z, size_t n, float low, float high)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (z[i] >= low && z[i] <= high) at[count++] = (uint32_t)i;
    return count;
}
