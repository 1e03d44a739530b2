/* The integer matrix product, the unpacking of weights, the shadow and requantisation as plain loops, the
 * specification; and the packing of weights. */
#include "kernels/variant.h"
#include "base/wide.h"

#include <string.h>

/* Where the weight (n, k) lies in its matrix, counted in weights. */
static size_t place(size_t n, size_t k, size_t k4)
{
    return ((n / 16 * k4 + k / 4) * 16 + n % 16) * 4 + k % 4;
}

static int nibble(uint8_t byte, size_t odd) { return ((odd ? byte >> 4 : byte & 15) ^ 8) - 8; }

void bt_int_pack(uint8_t *wp, const int8_t *w, size_t n0, size_t rows, size_t k, unsigned bits)
{
    const size_t k4 = bt_int_k4(k);
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < k; i++) {
            const size_t at = place(n0 + row, i, k4);
            const uint8_t v = (uint8_t)w[row * k + i];
            if (bits == 8) wp[at] = v;
            else wp[at / 2] |= (uint8_t)((v & 15) << (at % 2 * 4));
        }
}

/* The byte with the upper two bits of the 6-bit index number `at`, from bit at % 4 * 2 on. It stands behind
 * the low bits of the same 64 indices. */
static size_t upper(size_t at) { return at / 64 * 48 + 32 + at % 64 / 4; }

void bt_int_pack_indices(uint8_t *wp, const uint8_t *index, size_t n0, size_t rows, size_t k, unsigned bits)
{
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < k; i++) {
            const size_t at = place(n0 + row, i, bt_int_k4(k)), low = at / 64 * 8 * bits + at % 64 / 2;
            const unsigned v = index[row * k + i];
            wp[low] |= (uint8_t)((v & 15) << (at % 2 * 4));
            if (bits == 6) wp[upper(at)] |= (uint8_t)(v >> 4 << at % 4 * 2);
        }
}

unsigned bt_int_index_at(const uint8_t *wp, size_t n, size_t k, size_t k_count, unsigned bits)
{
    const size_t at = place(n, k, bt_int_k4(k_count)), low = at / 64 * 8 * bits + at % 64 / 2;
    const unsigned v = wp[low] >> (at % 2 * 4) & 15;
    return bits == 6 ? v | (wp[upper(at)] >> at % 4 * 2 & 3u) << 4 : v;
}

void bt_int_pack_panel(int8_t *wp, int32_t colsum[16], const int8_t *q, size_t ld, size_t rows, size_t k4)
{
    if (rows < 16) memset(wp, 0, k4 * 64);
    for (size_t n = 0; n < rows; n++, q += ld) {
        int32_t sum = 0;
        for (size_t k = 0; k < 4 * k4; k++) sum += q[k];
        colsum[n] = sum;
        for (size_t k = 0; k < k4; k++) memcpy(wp + (k * 16 + n) * 4, q + 4 * k, 4);
    }
    for (size_t n = rows; n < 16; n++) colsum[n] = 0;
}

int bt_int_packed_at(const uint8_t *wp, size_t n, size_t k, size_t k_count, unsigned bits)
{
    const size_t at = place(n, k, bt_int_k4(k_count));
    return bits == 8 ? (int8_t)wp[at] : nibble(wp[at / 2], at % 2);
}

/* Room for every variant's layout. A row has two planes, in chunks of 64 groups or more; each chunk may have
 * 64 bytes beside its inputs and an empty last group. Inputs of 8 bits have a list of as many extras as a row
 * has groups. */
size_t bt_int_inputs_bytes(size_t rows, size_t k, bool is_wide)
{
    const size_t k4 = bt_int_k4(k), row = 8 * k4 + (k4 / 64 + 1) * (64 + 8) + (is_wide ? 0 : 4 * k4);
    return (rows * row + 63) / 64 * 64;
}

/* A row's shadow: up to k4 entries, then an end entry with k = 4 * k4. It lies where wide inputs have their
 * second plane. */
static bt_int_shadow *shadow_of(const bt_int_inputs *x, size_t row)
{
    return (void *)(x->memory + (4 * x->rows * x->k4 + 7) / 8 * 8 +
                    row * (x->k4 + 1) * sizeof(bt_int_shadow));
}

void bt_int_prepare_ref(const bt_int_inputs *to, size_t r0, size_t r1, const bt_int_rows *x, bool *is_left)
{
    const size_t width = 4 * to->k4;
    for (size_t row = r0; row < r1; row++) {
        const uint32_t count = x->shadow_count ? x->shadow_count[row] : 0;
        const bt_int_shadow *from = count ? x->shadow + row * x->k : NULL;
        memcpy(to->memory + row * width, x->hi + row * x->ld, width);
        if (to->is_wide) memcpy(to->memory + (to->rows + row) * width, x->lo + row * x->ld, width);
        is_left[row] = count && (to->is_wide || count > to->k4 || !bt_int_shadow_is_short(from, count, x->k));
        if (to->is_wide) continue;
        bt_int_shadow *s = shadow_of(to, row);
        const uint32_t taken = is_left[row] ? 0 : count;
        if (taken) memcpy(s, from, taken * sizeof *s);
        s[taken].k = (uint32_t)width;
    }
}

void bt_int_matmul_ref(int32_t *restrict hi, int32_t *restrict lo, size_t ldacc, const bt_int_inputs *x,
                       size_t row, size_t t, const int8_t *restrict wp, const int32_t *colsum, size_t p0,
                       size_t p1, void *restrict scratch)
{
    const size_t k4 = x->k4;
    (void)colsum, (void)scratch;
    for (size_t plane = 0; plane < (x->is_wide ? 2 : 1); plane++)
        for (size_t i = 0; i < t; i++)
            for (size_t n = 16 * p0; n < 16 * p1; n++) {
                const int8_t *from = (const int8_t *)x->memory + (plane * x->rows + row + i) * 4 * k4;
                int32_t sum = 0;
                for (size_t k = 0; k < 4 * k4; k++) sum += from[k] * wp[place(n, k, k4)];
                if (!x->is_wide)
                    for (const bt_int_shadow *s = shadow_of(x, row + i); s->k < 4 * k4; s++)
                        sum += s->r * wp[place(n, s->k, k4)];
                (plane ? lo : hi)[i * ldacc + n - 16 * p0] = sum;
            }
}

void bt_int_unpack4_ref(int8_t *restrict to, const uint8_t *restrict wp4, size_t k4, size_t p0, size_t p1)
{
    const size_t first = p0 * k4 * 64, count = (p1 - p0) * k4 * 64;
    for (size_t i = 0; i < count; i++) to[i] = (int8_t)nibble(wp4[(first + i) / 2], i % 2);
}

void bt_int_palette_ref(int8_t *restrict to, const uint8_t *restrict wp, unsigned bits,
                        const int8_t *restrict palettes, size_t k4, size_t run4, size_t p0, size_t p1)
{
    for (size_t n = 16 * p0; n < 16 * p1; n++)
        for (size_t k = 0; k < 4 * k4; k++) {
            const size_t of = n / 16 * (k4 / run4) + k / 4 / run4;
            to[place(n - 16 * p0, k, k4)] = palettes[(of << bits) + bt_int_index_at(wp, n, k, 4 * k4, bits)];
        }
}

void bt_int_planes_ref(int8_t *restrict low, int8_t *restrict high, const uint8_t *restrict wp, unsigned bits,
                       const bt_int_group *restrict groups, size_t k4, size_t group4, size_t p0, size_t p1)
{
    for (size_t p = p0; p < p1; p++)
        for (size_t k = 0; k < k4; k++) {
            const bt_int_group *g = &groups[p * (k4 / group4) + k / group4];
            for (size_t i = 0; i < 64; i++) {
                const size_t at = (p * k4 + k) * 64 + i, to = at - p0 * k4 * 64;
                const int w = bits == 4 ? nibble(wp[at / 2], at % 2) : (int8_t)wp[at];
                const int v = g->step[i / 4] * w + g->offset[i / 4], h = bt_int_plane_high(v);
                high[to] = (int8_t)h;
                low[to] = (int8_t)(v - 128 * h);
            }
        }
}

void bt_int_join_ref(int64_t *restrict v, bt_int_plane_sums high, bt_int_plane_sums low, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] += high.lo
                    ? 128 * (256 * (int64_t)high.hi[i] + high.lo[i]) + 256 * (int64_t)low.hi[i] + low.lo[i]
                    : 128 * (int64_t)high.hi[i] + low.hi[i];
}

void bt_int_shadow_ref(int64_t *restrict acc, const bt_int_shadow *shadow, size_t count,
                       const int8_t *restrict wp, size_t k4, size_t p0, size_t p1)
{
    for (size_t n = 16 * p0; n < 16 * p1; n++)
        for (size_t i = 0; i < count; i++)
            acc[n - 16 * p0] += (int64_t)shadow[i].r * wp[place(n, shadow[i].k, k4)];
}

int64_t bt_int_scale1(int64_t v, int32_t m, unsigned s)
{
    bt_wide y = bt_wide_mul_signed(v, m);
    if (s) y = bt_wide_right_signed(bt_wide_add(y, bt_wide_left(bt_wide_of(1), s - 1)), s);
    return bt_wide_clamp_signed(y);
}

static int16_t clamp(int64_t y, int16_t limit)
{
    return (int16_t)(y < -limit ? -limit : y > limit ? limit : y);
}

void bt_int_requant32_ref(int16_t *restrict y, size_t ldy, const int32_t *restrict acc, size_t ldacc,
                          const int64_t *bias, const int32_t *m, const uint8_t *s, int16_t limit, size_t t,
                          size_t n)
{
    for (size_t row = 0; row < t; row++)
        for (size_t i = 0; i < n; i++) {
            const int64_t v = acc[row * ldacc + i] + (bias ? bias[i] : 0);
            y[row * ldy + i] = clamp(bt_int_scale1(v, m[i], s[i]), limit);
        }
}

void bt_int_requant64_ref(int16_t *restrict y, size_t ldy, const int64_t *restrict acc, size_t ldacc,
                          const int64_t *bias, const int32_t *m, const uint8_t *s, int16_t limit, size_t t,
                          size_t n)
{
    for (size_t row = 0; row < t; row++)
        for (size_t i = 0; i < n; i++) {
            const int64_t v = acc[row * ldacc + i] + (bias ? bias[i] : 0);
            y[row * ldy + i] = clamp(bt_int_scale1(v, m[i], s[i]), limit);
        }
}
