/* f32 copies of a block of K and V for attn_body.h, which includes this; 64 positions at most. No include guard.
 *   K  transposed, in panels of 16 positions:  block[(panel * D + d) * 16 + position]
 *   V  in panels of 16 elements:               block[(panel * 64 + position) * 16 + element], zeros past D
 * Elements of 16 bits are transposed before they are converted: half the shuffles. */

enum { PANEL = 16 };

/* Where the rows of a block lie: those of K (V stands plane_bytes behind). */
static void find_rows(const uint8_t **row, const job *j, size_t begin, size_t count)
{
    const bt_kv_view *kv = j->kv;
    for (size_t i = 0; i < count;) { /* one run for each page */
        const size_t left = kv->page_tokens - (begin + i) % kv->page_tokens;
        const size_t end = count - i < left ? count : i + left;
        const uint8_t *at = bt_kv_view_row(kv, j->layer, 0, begin + i, j->g);
        for (; i < end; i++, at += kv->token_bytes) row[i] = at;
    }
}

BT_INLINE float head_scale(const uint8_t *row, size_t d)
{
    uint16_t bits;
    memcpy(&bits, row + d, sizeof bits);
    return _cvtsh_ss(bits);
}

BT_INLINE void fetch(const uint8_t *row, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) _mm_prefetch((const char *)(row + i), _MM_HINT_T0);
}

/* x[i]: 8 elements of 16 bits of rows i and i + 8, side by side; becomes element i of rows 0..7 and 8..15. */
BT_INLINE void transpose16(__m256i x[8])
{
    __m256i a[8], b[8];
    BT_UNROLL for (size_t i = 0; i < 8; i += 2)
        a[i] = _mm256_unpacklo_epi16(x[i], x[i + 1]), a[i + 1] = _mm256_unpackhi_epi16(x[i], x[i + 1]);
    BT_UNROLL for (size_t i = 0; i < 8; i += 4) { /* b: elements 0 1, 2 3, 4 5, 6 7 of four rows */
        b[i] = _mm256_unpacklo_epi32(a[i], a[i + 2]), b[i + 1] = _mm256_unpackhi_epi32(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi32(a[i + 1], a[i + 3]), b[i + 3] = _mm256_unpackhi_epi32(a[i + 1], a[i + 3]);
    }
    BT_UNROLL for (size_t i = 0; i < 4; i++)
        x[2 * i] = _mm256_unpacklo_epi64(b[i], b[i + 4]), x[2 * i + 1] = _mm256_unpackhi_epi64(b[i], b[i + 4]);
}

/* Elements [e, e + 8) of 16 rows. */
BT_INLINE void keys_f16(float *to, const uint8_t *const *row, size_t e)
{
    __m256i x[8];
    BT_UNROLL for (size_t i = 0; i < 8; i++)
        x[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)(row[i] + 2 * e))),
                                       _mm_loadu_si128((const void *)(row[i + 8] + 2 * e)), 1);
    transpose16(x);
    BT_UNROLL for (size_t i = 0; i < 8; i++) {
        _mm256_storeu_ps(to + 16 * i, _mm256_cvtph_ps(_mm256_castsi256_si128(x[i])));
        _mm256_storeu_ps(to + 16 * i + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(x[i], 1)));
    }
}

BT_INLINE __m256 floats_of(__m128i x) { return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(x)); }

BT_INLINE void keys_int8(float *to, const uint8_t *const *row, const float *scale, size_t e)
{
    const __m256 s0 = _mm256_loadu_ps(scale), s1 = _mm256_loadu_ps(scale + 8);
    __m256i x[8];
    BT_UNROLL for (size_t i = 0; i < 8; i++)
        x[i] = _mm256_cvtepi8_epi16(_mm_unpacklo_epi64(_mm_loadl_epi64((const void *)(row[i] + e)),
                                                       _mm_loadl_epi64((const void *)(row[i + 8] + e))));
    transpose16(x);
    BT_UNROLL for (size_t i = 0; i < 8; i++) {
        _mm256_storeu_ps(to + 16 * i, _mm256_mul_ps(floats_of(_mm256_castsi256_si128(x[i])), s0));
        _mm256_storeu_ps(to + 16 * i + 8, _mm256_mul_ps(floats_of(_mm256_extracti128_si256(x[i], 1)), s1));
    }
}

/* Four elements of 16 rows. */
BT_INLINE void keys_f32(float *to, const uint8_t *const *row, size_t e)
{
    for (size_t i = 0; i < 16; i += 4) {
        __m128 x[4];
        BT_UNROLL for (size_t r = 0; r < 4; r++) x[r] = _mm_loadu_ps((const float *)(const void *)row[i + r] + e);
        _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
        BT_UNROLL for (size_t r = 0; r < 4; r++) _mm_storeu_ps(to + 16 * r + i, x[r]);
    }
}

BT_INLINE float elem_of(const uint8_t *row, size_t e, float scale, uint32_t elem_bytes)
{
    float f;
    if (elem_bytes == 1) return (float)(int8_t)row[e] * scale;
    if (elem_bytes == 2) return _cvtsh_ss(((const uint16_t *)(const void *)row)[e]);
    memcpy(&f, row + 4 * e, sizeof f);
    return f;
}

/* One panel of K from 16 rows. */
static void keys_panel(float *to, const uint8_t *const *row, size_t d, uint32_t elem_bytes)
{
    float scale[PANEL] = {0};
    size_t e = 0;
    if (elem_bytes == 1) {
        for (size_t i = 0; i < PANEL; i++) scale[i] = head_scale(row[i], d);
        for (; e + 8 <= d; e += 8) keys_int8(to + PANEL * e, row, scale, e);
    } else if (elem_bytes == 2)
        for (; e + 8 <= d; e += 8) keys_f16(to + PANEL * e, row, e);
    else
        for (; e + 4 <= d; e += 4) keys_f32(to + PANEL * e, row, e);
    for (; e < d; e++)
        for (size_t i = 0; i < PANEL; i++) to[PANEL * e + i] = elem_of(row[i], e, scale[i], elem_bytes);
}

/* K of `count` positions from b on; the last of them also stands for those that the last panel lacks. Where V is about to be read in place
 * (fetches), it is fetched on the way. */
static void copy_keys(const job *j, size_t b, size_t count, int fetches)
{
    const uint8_t *row[BT_ATTN_BLOCK];
    const size_t d = j->kv->head_dim;
    find_rows(row, j, b, count);
    for (size_t i = count; i % PANEL; i++) row[i] = row[count - 1];
    for (size_t i = 0; i < count; i += PANEL) {
        for (size_t r = i; fetches && r < i + PANEL; r++) fetch(row[r] + j->kv->plane_bytes, j->kv->head_bytes);
        keys_panel(j->block + i * d, row + i, d, j->kv->elem_bytes);
    }
}

BT_INLINE v16 load_elems(const uint8_t *row, size_t e, const float *scale, const uint32_t elem_bytes)
{
    if (elem_bytes == 1) return v16_mul(v16_load_s8((const int8_t *)row + e), v16_set1(*scale));
    if (elem_bytes == 2) return v16_load_f16((const uint16_t *)(const void *)row + e);
    return v16_load((const float *)(const void *)row + e);
}

BT_INLINE void values_row(float *to, const uint8_t *row, size_t d, const uint32_t elem_bytes)
{
    const float scale = elem_bytes == 1 ? head_scale(row, d) : 1;
    size_t e = 0;
    for (; e + 16 <= d; e += 16) v16_store(to + e * BT_ATTN_BLOCK, load_elems(row, e, &scale, elem_bytes));
    if (e == d) return;
    float tail[16] = {0};
    for (size_t i = e; i < d; i++) tail[i - e] = elem_of(row, i, scale, elem_bytes);
    v16_store(to + e * BT_ATTN_BLOCK, v16_load(tail));
}

static void copy_values(const job *j, size_t b, size_t count)
{
    const uint8_t *row[BT_ATTN_BLOCK];
    const size_t d = j->kv->head_dim, plane = j->kv->plane_bytes;
    find_rows(row, j, b, count);
    for (size_t i = 0; i < count; i++) switch (j->kv->elem_bytes) {
        case 1: values_row(j->block + i * 16, row[i] + plane, d, 1); break;
        case 2: values_row(j->block + i * 16, row[i] + plane, d, 2); break;
        default: values_row(j->block + i * 16, row[i] + plane, d, 4); break;
        }
}
