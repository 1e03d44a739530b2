/* The companion's side of the border where whole layers run in integers: what enters the residual stream, and what leaves for the KV cache. */
#include "npu/run/exec_private.h"

/* To nearest even, below 2^23 by a sum that leaves no room for a fraction; all floats above are whole. */
static float nearest(float v)
{
    const float whole = 0x1p23f, a = v < 0 ? -v : v;
    const float r = a < whole ? (a + whole) - whole : a;
    return v < 0 ? -r : r;
}

static void quantise_rows(void *ud, const void *what, const float *x, size_t r0, size_t n, void *scratch)
{
    const bt_exec_job *j = ud;
    const bt_pkg_inst *i = what;
    const float limit = 0x1.fffffep29f, scale = j->x->header->residual_scale; /* the last float before 2^30 */
    int32_t *y = (int32_t *)bt_exec_at(j, i->out) + r0 * i->out_width;
    (void)scratch;
    for (size_t e = 0; e < n * i->out_width; e++) {
        float v = x[e] / scale;
        v = v > -limit ? v : -limit; /* a NaN too, in padding */
        v = v < limit ? v : limit;
        y[e] = (int32_t)nearest(v);
    }
}

void bt_exec_quantise32(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_exec_areas a = bt_exec_areas_of(j, i);
    bt_companion_step(&j->x->companion, bt_exec_rows(j, i), i->out_width, bt_exec_at(j, i->in0), a.area, a.count, quantise_rows, j, i);
}

static void dequantise_rows(void *ud, const void *what, const float *none, size_t r0, size_t n, void *scratch)
{
    const bt_exec_job *j = ud;
    const bt_pkg_inst *i = what;
    const float scale = bt_pkg_tensors(j->x->pkg)[i->tensor].out_scale;
    const int16_t *x = (const int16_t *)bt_exec_at(j, i->in0) + r0 * i->out_width;
    float *y = (float *)bt_exec_at(j, i->out) + r0 * i->out_width;
    (void)none, (void)scratch;
    for (size_t e = 0; e < n * i->out_width; e++) y[e] = (float)x[e] * scale;
}

void bt_exec_dequantise16(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_exec_areas a = bt_exec_areas_of(j, i);
    bt_companion_step(&j->x->companion, bt_exec_rows(j, i), i->out_width, NULL, a.area, a.count, dequantise_rows, j, i);
}
