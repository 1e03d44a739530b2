/* The loop over tiles of a linear layer. Integers only. */
#include "npu/int_linear.h"

#include <stdbool.h>

/* 4-bit panels are unpacked for all rows of a tile's column at once; fewer at a time where they are long. */
enum { TILE = BT_INT_LINEAR_ROWS * BT_INT_LINEAR_COLS, UNPACK_BYTES = 256 * 1024 };

typedef struct tile_scratch {
    int32_t hi[TILE], lo[TILE];
    int64_t row[BT_INT_LINEAR_COLS];
    int8_t unpacked[];
} tile_scratch;

static size_t unpack_panels(size_t k)
{
    const size_t panel = bt_int_panel_bytes(k, 8);
    size_t panels = BT_INT_LINEAR_PANELS;
    while (panels > 1 && panels * panel > UNPACK_BYTES) panels--;
    return panels;
}

size_t bt_int_linear_scratch_bytes(size_t max_k4bit)
{
    const size_t panel = bt_int_panel_bytes(max_k4bit, 8); /* more than one only where they fit */
    const size_t unpacked = !max_k4bit ? 0 : panel > UNPACK_BYTES ? panel : UNPACK_BYTES;
    return (sizeof(tile_scratch) + unpacked + 63) / 64 * 64;
}

/* Does a row's shadow fit beside its sums in 32 bits? 16-bit inputs have two planes, and never do. */
static bool is_short(const bt_int_linear_input *in, size_t row)
{
    int64_t room = in->lo ? 0 : bt_int_shadow32_room(in->k);
    const bt_int_shadow *s = in->shadow + row * in->k;
    for (size_t i = 0; room > 0 && i < in->shadow_count[row]; i++) room -= s[i].r < 0 ? -(int64_t)s[i].r : s[i].r;
    return room > 0;
}

/* Most rows have little beyond the clip: that is added to the tile before it is handed on. The bits of the rows for which it
 * does not fit. */
static uint64_t shadow_short_rows(const bt_kernels *kernels, const bt_int_linear_input *in, tile_scratch *s, const int8_t *wp,
                                  size_t panels, size_t row, size_t rows)
{
    _Static_assert(BT_INT_LINEAR_ROWS <= 64, "a bit for each row of a tile");
    uint64_t left = 0;
    for (size_t r = 0; r < rows; r++) {
        const size_t count = in->shadow_count[row + r];
        if (!count) continue;
        if (!is_short(in, row + r)) left |= UINT64_C(1) << r;
        else
            kernels->int_shadow32(s->hi + r * BT_INT_LINEAR_COLS, in->shadow + (row + r) * in->k, count, wp, bt_int_k4(in->k), 0,
                                  panels);
    }
    return left;
}

/* The tile without the rows that are handed on in 64 bits. */
static void hand_on(const bt_int_linear_input *in, const bt_int_linear_epilogue *epilogue, const tile_scratch *s, size_t row,
                    size_t rows, uint64_t left, size_t n, size_t cols, const void *ud)
{
    for (size_t r = 0, end; r < rows; r = end + 1) {
        for (end = r; end < rows && !(left >> end & 1);) end++;
        if (end == r) continue;
        const int32_t *hi = s->hi + r * BT_INT_LINEAR_COLS, *lo = s->lo + r * BT_INT_LINEAR_COLS;
        if (in->lo) epilogue->tile16(ud, row + r, end - r, n, cols, hi, lo);
        else epilogue->tile8(ud, row + r, end - r, n, cols, hi);
    }
}

/* The others in 64 bits: the shadow is added to the sums. */
static void shadow_long_rows(const bt_kernels *kernels, const bt_int_linear_input *in,
                             const bt_int_linear_epilogue *epilogue, tile_scratch *s, const int8_t *wp,
                             size_t panels, size_t row, uint64_t left, size_t n, size_t cols, const void *ud)
{
    for (; left; left &= left - 1) {
        const size_t r = (size_t)__builtin_ctzll(left);
        const int32_t *hi = s->hi + r * BT_INT_LINEAR_COLS, *lo = s->lo + r * BT_INT_LINEAR_COLS;
        for (size_t c = 0; c < 16 * panels; c++) s->row[c] = in->lo ? 256 * (int64_t)hi[c] + lo[c] : hi[c];
        kernels->int_shadow(s->row, in->shadow + (row + r) * in->k, in->shadow_count[row + r], wp, bt_int_k4(in->k), 0, panels);
        epilogue->row64(ud, row + r, n, cols, s->row);
    }
}

static void run_panels(const bt_kernels *kernels, const bt_int_linear_matrix *m,
                       const bt_int_linear_input *in, const bt_int_linear_epilogue *epilogue, tile_scratch *s,
                       size_t p, size_t panels)
{
    const size_t k4 = bt_int_k4(in->k), n = 16 * p, cols = m->n - n < 16 * panels ? m->n - n : 16 * panels;
    const int32_t *colsum = m->colsum + n;
    const int8_t *wp = (const int8_t *)m->panels + p * bt_int_panel_bytes(in->k, 8);
    if (m->bits == 4) {
        kernels->int_unpack4(s->unpacked, m->panels, k4, p, p + panels);
        wp = s->unpacked;
    }
    for (size_t row = 0, rows; row < in->rows; row += rows) {
        rows = in->rows - row < BT_INT_LINEAR_ROWS ? in->rows - row : BT_INT_LINEAR_ROWS;
        kernels->int_matmul(s->hi, BT_INT_LINEAR_COLS, in->hi + row * in->ld, in->ld, wp, colsum, rows, k4, 0,
                            panels);
        if (in->lo)
            kernels->int_matmul(s->lo, BT_INT_LINEAR_COLS, in->lo + row * in->ld, in->ld, wp, colsum, rows, k4, 0, panels);
        const uint64_t left = in->shadow_count ? shadow_short_rows(kernels, in, s, wp, panels, row, rows) : 0;
        hand_on(in, epilogue, s, row, rows, left, n, cols, m->ud);
        shadow_long_rows(kernels, in, epilogue, s, wp, panels, row, left, n, cols, m->ud);
    }
}

/* Pieces are numbered through the group, a matrix after the other; those of a pair through the panels of one. */
static size_t step_of(const bt_int_linear *l, const bt_int_linear_matrix *m)
{
    return m->bits == 4 ? unpack_panels(l->in->k) : (size_t)BT_INT_LINEAR_PANELS;
}
static size_t pieces_of(const bt_int_linear *l, const bt_int_linear_matrix *m)
{
    const size_t step = step_of(l, m);
    return (bt_int_panels(m->n) + step - 1) / step;
}

void bt_int_linear_begin(bt_int_linear *l)
{
    size_t pieces = 0;
    for (size_t g = 0; g < (l->paired ? 1 : l->group); g++) pieces += pieces_of(l, &l->m[g]);
    bt_pool_range_init(&l->pieces, pieces, 1);
}

static void run_piece(const bt_int_linear *l, const bt_int_linear_matrix *m, size_t piece, tile_scratch *scratch)
{
    const size_t panels = bt_int_panels(m->n), step = step_of(l, m), p = piece * step;
    run_panels(l->kernels, m, l->in, l->epilogue, scratch, p, panels - p < step ? panels - p : step);
}

void bt_int_linear_part(bt_int_linear *l, void *scratch)
{
    for (size_t piece, end; bt_pool_range_take(&l->pieces, &piece, &end);) {
        const bt_int_linear_matrix *m = l->m;
        for (; !l->paired && piece >= pieces_of(l, m); m++) piece -= pieces_of(l, m);
        run_piece(l, m, piece, scratch);
        if (l->paired) run_piece(l, m + 1, piece, scratch);
    }
}
