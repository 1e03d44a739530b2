/* Preparation of inputs as planes of bytes, two planes for wide inputs, for the variants that multiply them so.
 * Included after their fill_record, which writes n input bytes to a record. These variants copy no weights. No include
 * guard. */
#define COPY_ROWS  SIZE_MAX
#define INT_PIN(w) ((void)(w))
INT_INLINE void int_copy(int8_t *to, const int8_t *w, size_t n) { (void)to, (void)w, (void)n; }

/* Bytes from one plane to the next. */
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
            fill_record(record, x + row * ldx + 4 * k, 4 * n);
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
