/* The integer matrix product for AArch64; included by int_matmul_neon.c and int_matmul_dotprod.c behind their vec4_dot.
 * Both sides are signed, so inputs go in as they are, in two planes where they are wide, and nothing is taken off at
 * the start. A panel's 16 outputs are four registers of sums: 3 rows by 2 panels take 24 of 32. No include guard. */
#define TILE_ROWS   3
#define TILE_PANELS 2
#define VECS        4
#define COPY_ROWS   SIZE_MAX

typedef int32x4_t vec;
typedef int8x16_t group;

INT_INLINE size_t plane_bytes(const bt_int_inputs *x)
{
    const int_chunks chunks = int_chunks_of(x->k4, CHUNK_K4, BESIDE);
    return int_records_bytes(x->rows, x->k4, &chunks, BESIDE);
}

static void prepare_plane(uint8_t *to, const bt_int_inputs *in, size_t r0, size_t r1, const int8_t *x, size_t ldx)
{
    const int_chunks chunks = int_chunks_of(in->k4, CHUNK_K4, BESIDE);
    for (size_t row = r0; row < r1; row++)
        for (size_t c = 0, k = 0; c < chunks.count; c++, k += chunks.n) {
            const size_t n = in->k4 - k < chunks.n ? in->k4 - k : chunks.n;
            uint8_t *record = to + c * chunks.record * in->rows + row * (4 * n + BESIDE);
            memcpy(record, x + row * ldx + 4 * k, 4 * n);
            memset(record + 4 * n, 0, BESIDE);
        }
}
INT_INLINE void prepare(const bt_int_inputs *to, size_t r0, size_t r1, const bt_int_rows *x, bool *is_left)
{
    const int_chunks chunks = int_chunks_of(to->k4, CHUNK_K4, BESIDE);
    prepare_plane(to->memory, to, r0, r1, x->hi, x->ld);
    if (to->is_wide) prepare_plane(to->memory + plane_bytes(to), to, r0, r1, x->lo, x->ld);
    for (size_t row = r0; row < r1; row++) is_left[row] = extras_is_left(to, &chunks, row, x, 0);
}

INT_INLINE group int_group(const uint8_t *x, size_t k)
{
    int32_t four;
    memcpy(&four, x + 4 * k, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}
INT_INLINE vec int_dot(vec sum, group x, const int8_t *w, int is_copy)
{
    (void)is_copy;
    return vec4_dot(sum, x, vld1q_s8(w));
}
INT_INLINE vec int_extra(vec sum, group x, int16_t times, const int8_t *w, int is_copy)
{
    return vmlaq_n_s32(sum, int_dot(vdupq_n_s32(0), x, w, is_copy), times);
}
INT_INLINE vec int_start(const uint8_t *x, size_t n, const int32_t *colsum)
{
    (void)x, (void)n, (void)colsum;
    return vdupq_n_s32(0);
}
INT_INLINE vec int_resume(const uint8_t *x, size_t n, const int32_t *acc)
{
    (void)x, (void)n;
    return vld1q_s32(acc);
}
INT_INLINE void int_store(int32_t *acc, vec sum) { vst1q_s32(acc, sum); }
INT_INLINE void int_copy(int8_t *to, const int8_t *w, size_t n) { (void)to, (void)w, (void)n; }
#define INT_PIN(w) ((void)(w))

#define INT_PRODUCT product
#include "kernels/int_matmul_body.h"
