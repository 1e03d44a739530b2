/* Conversions between floats and integers, by the companion's functions: inputs of integer linears, and with
 * npu_ops all what an operator on one side passes to an operator on the other. */
#include "npu/run/exec_private.h"
#include "kernels/int_ops.h"

/* ---- QUANTISE: f32 to planes and their shadow ---- */

/* Rows of one scale. */
static void quantise_some(bt_exec_job *j, const bt_pkg_inst *i, float inv_scale, bt_int_range range,
                          const float *x, size_t r0, size_t n)
{
    const bt_kernels *kernels = j->x->companion.kernels;
    const size_t k = i->in_width, ld = i->out_stride, ldx = bt_exec_ld_in(i, sizeof *x);
    int8_t *hi = bt_exec_at(j, i->out), *lo = bt_exec_at(j, i->in1);
    const bt_exec_shadow s = bt_exec_job_shadow(j, i);
    bt_int_shadow *entry = s.entry ? s.entry + r0 * k : NULL;
    uint32_t *count = s.entry ? s.count + r0 : NULL;
    if (!lo) kernels->quantise8(hi + r0 * ld, ld, x, ldx, inv_scale, range, n, k, entry, count);
    else kernels->quantise16(hi + r0 * ld, lo + r0 * ld, ld, x, ldx, inv_scale, n, k, entry, count);
    for (size_t r = 0; r < n; r++)
        if (!entry || count[r])
            bt_exec_job_look(j, i, r0 + r, x + r * ldx, k, entry ? entry + r * k : NULL,
                             entry ? count[r] : 0);
    if (entry) bt_exec_job_shadow_made(j, i, &s, r0, n);
}

static void quantise_rows(void *ud, const void *what, const float *x, size_t r0, size_t n, void *scratch)
{
    const bt_pkg_inst *i = what;
    const size_t ldx = bt_exec_ld_in(i, sizeof *x);
    (void)scratch;
    for (size_t rows; n > 0; n -= rows, r0 += rows, x += rows * ldx) {
        const float inv_scale = bt_exec_job_scale(ud, i, r0, n, &rows).inv_scale;
        const bt_int_range range = bt_exec_job_range(ud, i, r0, n, &rows);
        quantise_some(ud, i, inv_scale, range, x, r0, rows);
    }
}

void bt_exec_border_quantise(bt_exec_job *j, const bt_pkg_inst *i)
{
    const float *x = bt_exec_at(j, i->in0);
    bt_exec_job_step(j, i, x, quantise_rows);
    if (bt_exec_fuse(j, i)->last_in0) bt_companion_drop(&j->x->companion, x);
}

/* ---- QUANTISE32: f32 to the residual stream's s32 ---- */

/* Rounds to nearest, ties to even. Below 2^23 the sum v + 2^23 has no room for a fraction; all floats above
 * are whole. */
static float nearest(float v)
{
    const float whole = 0x1p23f, a = v < 0 ? -v : v;
    const float r = a < whole ? (a + whole) - whole : a;
    return v < 0 ? -r : r;
}

/* Rounds and clamps; a NaN, which only padding may have, becomes -limit. */
static float nearest_within(float v, float limit)
{
    v = v > -limit ? v : -limit;
    v = v < limit ? v : limit;
    return nearest(v);
}

static void quantise32_rows(void *ud, const void *what, const float *x, size_t r0, size_t n, void *scratch)
{
    const bt_exec_job *j = ud;
    const bt_pkg_inst *i = what;
    const float limit = 0x1.fffffep29f, scale = j->x->header->residual_scale; /* the last float before 2^30 */
    const size_t ldx = bt_exec_ld_in(i, sizeof *x), ldy = bt_exec_ld_out(i, sizeof(int32_t));
    int32_t *y = (int32_t *)bt_exec_at(j, i->out) + r0 * ldy;
    (void)scratch;
    for (size_t r = r0; r < r0 + n; r++, x += ldx, y += ldy) {
        bt_exec_job_look(j, i, r, x, i->out_width, NULL, 0);
        for (size_t e = 0; e < i->out_width; e++) y[e] = (int32_t)nearest_within(x[e] / scale, limit);
    }
}

void bt_exec_border_quantise32(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_exec_job_step(j, i, bt_exec_at(j, i->in0), quantise32_rows);
}

/* ---- DEQUANTISE32: s32 of the residual stream or of a site to f32 ---- */

static void dequantise32_rows(void *ud, const void *what, const float *none, size_t r0, size_t n,
                              void *scratch)
{
    const bt_exec_job *j = ud;
    const bt_pkg_inst *i = what;
    const size_t ldx = bt_exec_ld_in(i, sizeof(int32_t)), ldy = bt_exec_ld_out(i, sizeof(float));
    const int32_t *x = (const int32_t *)bt_exec_at(j, i->in0) + r0 * ldx;
    float *y = (float *)bt_exec_at(j, i->out) + r0 * ldy;
    (void)none, (void)scratch;
    for (size_t rows = n; n > 0; n -= rows, r0 += rows) {
        const float unit = i->site == BT_PKG_NONE ? j->x->header->residual_scale
                                                  : bt_exec_job_scale(j, i, r0, n, &rows).scale;
        for (const float *end = y + rows * ldy; y < end; x += ldx, y += ldy)
            for (size_t e = 0; e < i->out_width; e++) y[e] = (float)x[e] * unit;
    }
}

void bt_exec_border_dequantise32(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_exec_job_step(j, i, NULL, dequantise32_rows);
}

/* ---- QUANTISE16, DEQUANTISE16: between f32 and s16 ---- */

static float unit16(const bt_exec *x, const bt_pkg_inst *i)
{
    return i->tensor != BT_PKG_NONE ? bt_exec_tensor(x, i)->out_scale : bt_exec_site(x, i)->a16_scale;
}

static void quantise16_rows(void *ud, const void *what, const float *x, size_t r0, size_t n, void *scratch)
{
    const bt_exec_job *j = ud;
    const bt_pkg_inst *i = what;
    const float unit = unit16(j->x, i);
    const size_t ldx = bt_exec_ld_in(i, sizeof *x), ldy = bt_exec_ld_out(i, sizeof(int16_t));
    int16_t *y = (int16_t *)bt_exec_at(j, i->out) + r0 * ldy;
    (void)scratch;
    for (size_t r = r0; r < r0 + n; r++, x += ldx, y += ldy) {
        bt_exec_job_look(j, i, r, x, i->out_width, NULL, 0);
        for (size_t e = 0; e < i->out_width; e++) y[e] = (int16_t)nearest_within(x[e] / unit, BT_INT_MAX16);
    }
}

void bt_exec_border_quantise16(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_exec_job_step(j, i, bt_exec_at(j, i->in0), quantise16_rows);
}

static void dequantise16_rows(void *ud, const void *what, const float *none, size_t r0, size_t n,
                              void *scratch)
{
    const bt_exec_job *j = ud;
    const bt_pkg_inst *i = what;
    const float unit = unit16(j->x, i);
    const size_t ldx = bt_exec_ld_in(i, sizeof(int16_t)), ldy = bt_exec_ld_out(i, sizeof(float));
    const int16_t *x = (const int16_t *)bt_exec_at(j, i->in0) + r0 * ldx;
    float *y = (float *)bt_exec_at(j, i->out) + r0 * ldy;
    (void)none, (void)scratch;
    for (const float *end = y + n * ldy; y < end; x += ldx, y += ldy)
        for (size_t e = 0; e < i->out_width; e++) y[e] = (float)x[e] * unit;
}

void bt_exec_border_dequantise16(bt_exec_job *j, const bt_pkg_inst *i)
{
    bt_exec_job_step(j, i, NULL, dequantise16_rows);
}
