/* Copies a block of K or V, 64 positions at most. Included by attn_body.h. No include guard.
 *   K  transposed, in panels of 16 positions, each of padded D * 16 elements. Element e of a panel's positions 0..15:
 *        as floats, or packed f16 and f32: at e * 16
 *        packed int8: positions 0..7 at e * 8, positions 8..15 at (padded D + e) * 8
 *      Packed elements are as stored; their scales stand in key_scale.
 *   V  as floats in panels of 16 elements:  block[(panel * 64 + position) * 16 + element], zeros past D
 * Elements are transposed before they are widened, which takes half the shuffles for f16 and a quarter for int8. */

enum { PANEL = 16 };

/* The scale of an int8 row. */
BT_INLINE float head_scale(const uint8_t *row, size_t d)
{
    uint16_t bits;
    memcpy(&bits, row + d, sizeof bits);
    return v1_from_f16(bits);
}

BT_INLINE void fetch(const uint8_t *row, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) v16_prefetch(row + i);
}

static void pack_panel(void *to, const uint8_t *const *row, size_t d, uint32_t elem_bytes)
{
    const size_t dp = attn_padded_dim(d);
    uint8_t *bytes = to;
    size_t e = 0;
    if (elem_bytes == 1) {
        for (; e + 16 <= d; e += 16) pack_int8(to, row, dp, e);
        for (; e < d; e++)
            for (size_t i = 0; i < PANEL; i++) bytes[(i / 8 * dp + e) * 8 + i % 8] = row[i][e];
        return;
    }
    if (elem_bytes == 2)
        for (; e + 8 <= d; e += 8) pack_f16(to, row, e);
    else
        for (; e + 4 <= d; e += 4) pack_f32(to, row, e);
    for (; e < d; e++)
        for (size_t i = 0; i < PANEL; i++)
            memcpy(bytes + (e * PANEL + i) * elem_bytes, row[i] + e * elem_bytes, elem_bytes);
}

/* Element e of the 16 positions of a packed panel; elem_bytes 4: of a panel of floats. */
BT_INLINE v16 key_of(const void *panel, size_t dp, size_t e, v16 scale, const uint32_t elem_bytes)
{
    const int8_t *q = panel;
    if (elem_bytes == 1) return v16_mul(v16_load_s8x8(q + 8 * e, q + 8 * (dp + e)), scale);
    if (elem_bytes == 2) return v16_load_f16((const uint16_t *)panel + 16 * e);
    return v16_load((const float *)panel + 16 * e);
}

BT_INLINE void widen_panel(float *to, const void *panel, size_t d, const float *scale, const uint32_t elem_bytes)
{
    const v16 s = v16_load(scale);
    for (size_t e = 0; e < d; e++) v16_store(to + e * PANEL, key_of(panel, attn_padded_dim(d), e, s, elem_bytes));
}

/* Copies K of positions [b, b + count), 16 or, at the end, fewer, to panel `panel`; the last position fills the missing
 * ones. widens: as floats, else packed. */
static void take_panel(job *j, size_t panel, size_t b, size_t count, int widens)
{
    const bt_kv_view *kv = j->kv;
    const uint32_t elem_bytes = kv->elem_bytes;
    const size_t d = kv->head_dim;
    uint8_t packed[PANEL * BT_ATTN_MAX_DIM * 2] __attribute__((aligned(64)));
    float *to = j->block + panel * PANEL * j->dp, *scale = j->key_scale + panel * PANEL;
    const uint8_t **row = j->row + panel * PANEL;
    for (size_t i = 0, run; i < count; i += run) {
        run = count - i;
        row[i] = rows_at(j, 0, b + i, j->g, &run);
        for (size_t k = i + 1; k < i + run; k++) row[k] = row[k - 1] + kv->token_bytes;
    }
    for (size_t i = count; i < PANEL; i++) row[i] = row[count - 1];
    if (elem_bytes == 1)
        for (size_t i = 0; i < PANEL; i++) {
            scale[i] = head_scale(row[i], d);
            j->value_scale[panel * PANEL + i] = head_scale(row[i] + kv->plane_bytes, d);
        }
    pack_panel(widens && elem_bytes < 4 ? (void *)packed : to, row, d, elem_bytes);
    if (widens && elem_bytes == 1) widen_panel(to, packed, d, scale, 1);
    if (widens && elem_bytes == 2) widen_panel(to, packed, d, scale, 2);
}

/* Copies K of `count` positions from b on, as floats or packed. */
static void copy_keys(job *j, size_t b, size_t count, int widens)
{
    for (size_t i = 0; i < count; i += PANEL) {
        take_panel(j, i / PANEL, b + i, count - i < PANEL ? count - i : PANEL, widens);
        ask(j, 2 * j->dp);
    }
}

BT_INLINE v16 load_elems(const uint8_t *row, size_t e, v16 scale, const uint32_t elem_bytes)
{
    if (elem_bytes == 1) return v16_mul(v16_load_s8((const int8_t *)row + e), scale);
    if (elem_bytes == 2) return v16_load_f16((const uint16_t *)(const void *)row + e);
    return v16_load((const float *)(const void *)row + e);
}

/* Writes a row of d elements as floats; pitch: positions in a panel of 16 elements. */
BT_INLINE void widen_row(float *to, const size_t pitch, const uint8_t *row, size_t d, const uint32_t elem_bytes)
{
    const v16 scale = v16_set1(elem_bytes == 1 ? head_scale(row, d) : 1);
    size_t e = 0;
    for (; e + 16 <= d; e += 16) v16_store(to + e * pitch, load_elems(row, e, scale, elem_bytes));
    if (e < d) {
        uint8_t tail[64] = {0};
        memcpy(tail, row + e * elem_bytes, (d - e) * elem_bytes);
        v16_store(to + e * pitch, load_elems(tail, 0, scale, elem_bytes));
    }
}

BT_INLINE void widen(float *to, const size_t pitch, const uint8_t *row, const bt_kv_view *kv)
{
    switch (kv->elem_bytes) {
    case 1: widen_row(to, pitch, row, kv->head_dim, 1); break;
    case 2: widen_row(to, pitch, row, kv->head_dim, 2); break;
    default: widen_row(to, pitch, row, kv->head_dim, 4); break;
    }
}

/* Copies V of the block's first `count` positions, as floats. */
static void copy_values(job *j, size_t count)
{
    const bt_kv_view *kv = j->kv;
    for (size_t i = 0; i < count; i++) {
        widen(j->block + i * 16, BT_ATTN_BLOCK, j->row[i] + kv->plane_bytes, kv);
        ask(j, j->dp / 8);
    }
}
