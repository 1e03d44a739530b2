/* The loops over rows and panels of a linear. Integers only. */
#include "npu/run/int_linear.h"

#include <string.h>

/* ROWS: rows whose sums lie in scratch together; with their inputs of a chunk of K they fill half of a
 * second-level cache. Panels of 4 bits are unpacked once for all of these rows. UNPACK_BYTES: for unpacked
 * panels; of long panels fewer are taken at a time. UNIT: panels of a unit of work, in both matrices of a
 * pair. PREPARE_ROWS: rows that a thread prepares at a time. */
enum { ROWS = 256, SUMS = ROWS * BT_INT_LINEAR_COLS, UNPACK_BYTES = 256 * 1024, UNIT = 2, PREPARE_ROWS = 8 };

typedef struct tile_scratch {
    int32_t hi[SUMS], lo[SUMS];
    int64_t row[BT_INT_LINEAR_COLS];
    _Alignas(64) uint8_t product[BT_INT_MATMUL_SCRATCH_BYTES];
    int8_t unpacked[];
} tile_scratch;

/* How many panels are unpacked at a time; at least `least`, a panel of each matrix and plane. */
static size_t unpack_panels(size_t k, size_t least)
{
    const size_t panel = bt_int_panel_bytes(k, 8);
    size_t panels = BT_INT_LINEAR_PANELS;
    while (panels > least && panels * panel > UNPACK_BYTES) panels--;
    return panels;
}

size_t bt_int_linear_scratch_bytes(size_t max_k)
{
    const size_t least = 4 * bt_int_panel_bytes(max_k, 8); /* more panels are taken only where they fit */
    const size_t unpacked = !max_k ? 0 : least > UNPACK_BYTES ? least : UNPACK_BYTES;
    return (sizeof(tile_scratch) + unpacked + 63) / 64 * 64;
}

/* ---- inputs ---- */

size_t bt_int_linear_prepared_bytes(size_t rows, size_t k, bool is_wide)
{
    return bt_int_inputs_bytes(rows, k, is_wide) + (rows + 63) / 64 * 64;
}

void bt_int_linear_prepare(bt_int_linear *l)
{
    const bt_int_linear_input *in = l->in;
    const bt_int_rows rows = {.hi = in->hi, .lo = in->lo,         .ld = in->ld,
                              .k = in->k,   .shadow = in->shadow, .shadow_count = in->shadow_count};
    for (size_t r0, r1; bt_pool_range_take(&l->rows, &r0, &r1);)
        l->kernels->int_prepare(&l->inputs, r0, r1, &rows, l->is_left);
}

/* ---- tiles ---- */

/* Outputs of `panels` panels of one matrix, whose sums are in scratch from column `column` on. */
typedef struct batch {
    const bt_int_linear_matrix *m;
    const int8_t *wp;   /* panels of 8 bits, or the low planes of groups */
    const int8_t *high; /* the high planes of groups; else NULL */
    size_t p, panels, column, high_column;
} batch;

/* Adds one row's sums to v[cols]. */
static void add_sums(int64_t *v, bool is_wide, const int32_t *hi, const int32_t *lo, size_t cols)
{
    for (size_t c = 0; c < cols; c++) v[c] += is_wide ? 256 * (int64_t)hi[c] + lo[c] : hi[c];
}

/* Hands on the rows whose shadow the product left out, which is added in 64 bits. */
static void shadow_rows(const bt_int_linear *l, const batch *b, const int32_t *hi, const int32_t *lo,
                        int64_t *sums, size_t row, size_t rows, size_t n, size_t cols)
{
    const bt_int_linear_input *in = l->in;
    for (size_t r = row; r < row + rows; r++, hi += BT_INT_LINEAR_COLS, lo += BT_INT_LINEAR_COLS) {
        if (!l->is_left[r]) continue;
        memset(sums, 0, 16 * b->panels * sizeof *sums);
        add_sums(sums, in->lo, hi, lo, 16 * b->panels);
        l->kernels->int_shadow(sums, in->shadow + r * in->k, in->shadow_count[r], b->wp, bt_int_k4(in->k), 0,
                               b->panels);
        l->epilogue->row64(b->m->ud, r, n, cols, sums);
    }
}

/* Hands on rows of weights in two planes: 128 times the high plane's sums plus the low plane's. */
static void plane_rows(const bt_int_linear *l, const batch *b, tile_scratch *s, size_t first, size_t row,
                       size_t rows, size_t n, size_t cols)
{
    const bt_int_linear_input *in = l->in;
    const size_t k4 = bt_int_k4(in->k), wide = 16 * b->panels;
    for (size_t r = row; r < row + rows; r++) {
        const size_t low = (r - first) * BT_INT_LINEAR_COLS + b->column,
                     high = (r - first) * BT_INT_LINEAR_COLS + b->high_column;
        const uint32_t left = l->is_left[r] ? in->shadow_count[r] : 0;
        const bt_int_shadow *shadow = left ? in->shadow + r * in->k : NULL;
        memset(s->row, 0, wide * sizeof *s->row);
        if (left) {
            l->kernels->int_shadow(s->row, shadow, left, b->high, k4, 0, b->panels);
            for (size_t c = 0; c < wide; c++) s->row[c] *= 128;
            l->kernels->int_shadow(s->row, shadow, left, b->wp, k4, 0, b->panels);
        }
        l->kernels->int_join(s->row, (bt_int_plane_sums){s->hi + high, in->lo ? s->lo + high : NULL},
                             (bt_int_plane_sums){s->hi + low, in->lo ? s->lo + low : NULL}, wide);
        l->epilogue->row64(b->m->ud, r, n, cols, s->row);
    }
}

/* Hands on the sums of rows [row, row + rows): as tiles, except rows that need 64 bits. Scratch holds the
 * sums of rows from `first` on. */
static void hand_on(const bt_int_linear *l, const batch *b, tile_scratch *s, size_t first, size_t row,
                    size_t rows)
{
    const size_t n = 16 * b->p, cols = b->m->n - n < 16 * b->panels ? b->m->n - n : 16 * b->panels;
    int32_t *hi = s->hi + (row - first) * BT_INT_LINEAR_COLS + b->column, *lo = s->lo + (hi - s->hi);
    if (b->high) {
        plane_rows(l, b, s, first, row, rows, n, cols);
        return;
    }
    for (size_t r = 0, end; r < rows; r = end + 1) {
        for (end = r; end < rows && !l->is_left[row + end];) end++;
        if (end == r) continue;
        const size_t at = r * BT_INT_LINEAR_COLS;
        if (l->in->lo) l->epilogue->tile16(b->m->ud, row + r, end - r, n, cols, hi + at, lo + at);
        else l->epilogue->tile8(b->m->ud, row + r, end - r, n, cols, hi + at);
    }
    if (l->in->shadow_count) shadow_rows(l, b, hi, lo, s->row, row, rows, n, cols);
}

static void run_batches(const bt_int_linear *l, const batch *b, size_t count, tile_scratch *s)
{
    const size_t all = l->in->rows;
    for (size_t first = 0, rows; first < all; first += rows) {
        rows = all - first < ROWS ? all - first : ROWS;
        for (size_t i = 0; i < 2 * count; i++) {
            const batch *from = &b[i / 2];
            const bool is_high = i % 2;
            const size_t column = is_high ? from->high_column : from->column;
            if (is_high && !from->high) continue;
            l->kernels->int_matmul(s->hi + column, l->in->lo ? s->lo + column : NULL, BT_INT_LINEAR_COLS,
                                   &l->inputs, first, rows, is_high ? from->high : from->wp,
                                   (is_high ? from->m->colsum_high : from->m->colsum) + 16 * from->p, 0,
                                   from->panels, s->product);
        }
        for (size_t row = first, n; row < first + rows; row += n) {
            n = first + rows - row < BT_INT_LINEAR_ROWS ? first + rows - row : BT_INT_LINEAR_ROWS;
            for (size_t i = 0; i < count; i++) hand_on(l, &b[i], s, first, row, n);
        }
    }
}

/* Finds a batch's weights in its matrix, or unpacks them at `to` where they have another form than the
 * product needs. */
static void unpack(const bt_int_linear *l, batch *b, int8_t *to)
{
    const bt_int_linear_matrix *m = b->m;
    const size_t k4 = bt_int_k4(l->in->k), p = b->p, panel = bt_int_panel_bytes(l->in->k, 8);
    b->wp = to;
    b->high = m->group ? to + b->panels * panel : NULL;
    if (m->group)
        l->kernels->int_planes(to, to + b->panels * panel, m->panels, m->bits, m->groups, k4, m->group / 4, p,
                               p + b->panels);
    else if (m->palettes)
        l->kernels->int_palette(to, m->panels, m->bits, m->palettes, k4, m->palette_run / 4, p,
                                p + b->panels);
    else if (m->bits == 4) l->kernels->int_unpack4(to, m->panels, k4, p, p + b->panels);
    else b->wp = (const int8_t *)m->panels + p * panel;
}

/* Computes panels [p0, p1) of `count` matrices. */
static void run_panels(const bt_int_linear *l, const bt_int_linear_matrix *m, size_t count, size_t p0,
                       size_t p1, tile_scratch *s)
{
    const size_t panel = bt_int_panel_bytes(l->in->k, 8);
    const bt_int_linear_matrix *last = &m[count - 1];
    const bool is_unpacked = m->bits != 8 || last->bits != 8 || m->group || last->group;
    const size_t all = count * (m->group || last->group ? 2 : 1);
    const size_t most = (is_unpacked ? unpack_panels(l->in->k, all) : (size_t)BT_INT_LINEAR_PANELS) / all;
    for (size_t p = p0, n; p < p1; p += n) {
        batch b[2];
        n = p1 - p < most ? p1 - p : most;
        for (size_t i = 0; i < count; i++) {
            b[i] = (batch){.m = m + i, .p = p, .panels = n, .column = i * BT_INT_LINEAR_COLS / count,
                           .high_column = (2 * i + 1) * BT_INT_LINEAR_COLS / count / 2};
            unpack(l, &b[i], s->unpacked + i * n * (all / count) * panel);
        }
        run_batches(l, b, count, s);
    }
}

/* ---- pieces ---- */

/* Units are numbered over the group, matrix after matrix; those of a pair once for both. */
static size_t units_of(const bt_int_linear_matrix *m) { return (bt_int_panels(m->n) + UNIT - 1) / UNIT; }
static size_t wide_units(const bt_int_linear *l) { return BT_INT_LINEAR_PANELS / UNIT / (l->paired ? 2 : 1); }

void bt_int_linear_begin(bt_int_linear *l, size_t threads)
{
    const bt_int_linear_input *in = l->in;
    /* The last units are pieces of their own, so that all threads end together. */
    const size_t wide = wide_units(l), alone = threads > 1 ? threads * wide : 0;
    size_t units = 0;
    for (size_t g = 0; g < (l->paired ? 1 : l->group); g++) units += units_of(&l->m[g]);
    l->inputs =
        (bt_int_inputs){.memory = l->prepared, .rows = in->rows, .k4 = bt_int_k4(in->k), .is_wide = in->lo};
    l->is_left = (bool *)l->prepared + bt_int_inputs_bytes(in->rows, in->k, in->lo);
    l->wide_pieces = units > alone ? (units - alone) / wide : 0;
    bt_pool_range_init(&l->rows, in->rows, PREPARE_ROWS);
    bt_pool_range_init(&l->pieces, units - l->wide_pieces * (wide - 1), 1);
}

void bt_int_linear_part(bt_int_linear *l, void *scratch)
{
    const size_t wide = wide_units(l);
    for (size_t piece, end; bt_pool_range_take(&l->pieces, &piece, &end);) {
        const bt_int_linear_matrix *m = l->m;
        size_t u0 = piece < l->wide_pieces ? piece * wide : piece + l->wide_pieces * (wide - 1);
        size_t u1 = u0 + (piece < l->wide_pieces ? wide : 1);
        for (size_t units; u1 > 0; u0 = u0 > units ? u0 - units : 0, u1 = u1 > units ? u1 - units : 0, m++) {
            const size_t panels = bt_int_panels(m->n);
            units = units_of(m);
            if (u0 < units)
                run_panels(l, m, l->paired ? 2 : 1, u0 * UNIT, u1 * UNIT < panels ? u1 * UNIT : panels,
                           scratch);
        }
    }
}
