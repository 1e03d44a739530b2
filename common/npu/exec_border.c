/* The companion's side of the border where whole layers run in integers: what enters the residual stream, and what leaves for the KV cache. */
#include "npu/exec_private.h"

typedef struct border_job {
    const float *f;
    float *y;
    const int16_t *s16;
    int32_t *s32;
    size_t rows, width;
    float scale;
} border_job;

/* To nearest even, below 2^23 by a sum that leaves no room for a fraction; all floats above are whole. */
static float nearest(float v)
{
    const float whole = 0x1p23f, a = v < 0 ? -v : v;
    const float r = a < whole ? (a + whole) - whole : a;
    return v < 0 ? -r : r;
}

static void quantise_part(void *ud, size_t part, size_t parts)
{
    const border_job *b = ud;
    const float limit = 0x1.fffffep29f; /* the last float before 2^30 */
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, b->rows, 1, part, parts);
    for (size_t i = r0 * b->width; i < r1 * b->width; i++) {
        float v = b->f[i] / b->scale;
        v = v > -limit ? v : -limit; /* a NaN too, in padding */
        v = v < limit ? v : limit;
        b->s32[i] = (int32_t)nearest(v);
    }
}

void bt_exec_quantise32(bt_exec_job *j, const bt_pkg_inst *i)
{
    border_job b = {.f = bt_exec_at(j, i->in0), .s32 = bt_exec_at(j, i->out), .rows = bt_exec_rows(j, i), .width = i->out_width,
                    .scale = j->x->header->residual_scale};
    bt_pool_run(bt_companion_pool_for(&j->x->companion, b.rows * b.width), quantise_part, &b);
}

static void dequantise_part(void *ud, size_t part, size_t parts)
{
    const border_job *b = ud;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, b->rows, 1, part, parts);
    for (size_t i = r0 * b->width; i < r1 * b->width; i++) b->y[i] = (float)b->s16[i] * b->scale;
}

void bt_exec_dequantise16(bt_exec_job *j, const bt_pkg_inst *i)
{
    border_job b = {.s16 = bt_exec_at(j, i->in0), .y = bt_exec_at(j, i->out), .rows = bt_exec_rows(j, i), .width = i->out_width,
                    .scale = bt_pkg_tensors(j->x->pkg)[i->tensor].out_scale};
    bt_pool_run(bt_companion_pool_for(&j->x->companion, b.rows * b.width), dequantise_part, &b);
}
