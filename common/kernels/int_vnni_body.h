/* The inputs of both VNNI variants: x + 128 in unsigned bytes. No include guard. */
typedef struct inputs {
    _Alignas(32) int32_t x[BLOCK_ROWS][BLOCK_K4];
} inputs;

INT_INLINE void int_prepare(inputs *in, size_t row, const int8_t *x, size_t n)
{
    uint32_t four;
    size_t k = 0;
    for (; k + 8 <= n; k += 8) {
        const __m256i v = _mm256_loadu_si256((const void *)(x + 4 * k));
        _mm256_storeu_si256((void *)(in->x[row] + k), _mm256_xor_si256(v, _mm256_set1_epi8(-128)));
    }
    for (; k < n; k++) {
        memcpy(&four, x + 4 * k, sizeof four);
        four ^= 0x80808080;
        memcpy(&in->x[row][k], &four, sizeof four);
    }
}
