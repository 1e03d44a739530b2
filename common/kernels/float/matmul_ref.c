/* Matrix product as plain loops, the specification; and the packing that every variant reads. */
#include "kernels/variant.h"
#include "kernels/f16.h"

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
