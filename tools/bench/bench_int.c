/* Integer products and what stands beside them: see bench_int.h. */
#include "tools/bench/bench_int.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>

enum { CHECK_PANELS = 8, MAX_PARTS = 256 };

/* ---- integer product ---- */
typedef struct int_product {
    const bt_kernels *kernels;
    int32_t *acc;
    bt_int_inputs in;
    bt_int_rows x;
    bool *is_left;
    const int8_t *wp;
    const int32_t *colsum;
    uint8_t *scratch; /* one for each part */
    size_t t, n, k, copies, turn[MAX_PARTS];
} int_product;

enum { PREFILL_ROWS = 256, PREFILL_PANELS = 8 }; /* of a call in a prefill */

static void int_product_part(void *ud, size_t part, size_t parts)
{
    int_product *p = ud;
    const size_t panels = bt_int_panels(p->n), bytes = panels * bt_int_panel_bytes(p->k, 8);
    const int8_t *wp = p->wp + p->turn[part]++ % p->copies * bytes;
    size_t p0, p1;
    bt_pool_slice(&p0, &p1, panels, 4, part, parts);
    for (size_t at = p0, some; at < p1; at += some) {
        some = p1 - at < PREFILL_PANELS ? p1 - at : PREFILL_PANELS;
        for (size_t row = 0; row < p->t; row += PREFILL_ROWS)
            p->kernels->int_matmul(p->acc + 16 * (row * panels + at), NULL, 16 * panels, &p->in, row,
                                   p->t - row < PREFILL_ROWS ? p->t - row : PREFILL_ROWS, wp, p->colsum, at,
                                   at + some, p->scratch + part * BT_INT_MATMUL_SCRATCH_BYTES);
    }
}

static void int_prepare_part(void *ud, size_t part, size_t parts)
{
    int_product *p = ud;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, p->t, 1, part, parts);
    if (r0 < r1) p->kernels->int_prepare(&p->in, r0, r1, &p->x, p->is_left);
}

/* Nearly normal values with a deviation of 32, like inputs whose scale keeps all but one in ten thousand. */
static void int_inputs(int8_t *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const size_t h = i * 2654435761u >> 5;
        const int v = (int)((h & 127) + (h >> 7 & 127) + (h >> 14 & 127)) - 190;
        x[i] = (int8_t)(v / 2);
    }
}

/* Packs weights as the compiler does: outputs past n and inputs past k stay zero, and so do their sums. wp
 * and colsum are zeroed; row has room for k. */
static void int_weights(int8_t *wp, int32_t *colsum, int8_t *row, size_t n, size_t k)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < k; j++) {
            row[j] = (int8_t)(((i * k + j) * 2654435761u >> 11) % 255 - 127);
            colsum[i] += row[j];
        }
        bt_int_pack((uint8_t *)wp, row, i, 1, k, 8);
    }
}

bt_err tool_int_product(tool_kernel_run *r, size_t n, size_t k, size_t t)
{
    tool_figure f = {.kernel = BT_KERNEL(int_matmul), .rows = t};
    const size_t panels = bt_int_panels(n), bytes = panels * bt_int_panel_bytes(k, 8), k4 = bt_int_k4(k);
    const size_t copies = r->fn && bytes > TOOL_CACHE_BYTES / 2 ? 4 : 1,
                 p0 = panels > CHECK_PANELS ? panels - CHECK_PANELS : 0;
    int8_t *x = tool_kernel_bytes(r, t * 4 * k4), *wp = tool_kernel_bytes(r, copies * bytes),
           *row = tool_kernel_bytes(r, k);
    int32_t *acc = tool_kernel_bytes(r, t * 16 * panels * sizeof *acc),
            *want = tool_kernel_bytes(r, t * 16 * panels * sizeof *want);
    int32_t *colsum = tool_kernel_bytes(r, 16 * panels * sizeof *colsum);
    uint8_t *memory = tool_kernel_bytes(r, bt_int_inputs_bytes(t, k, false));
    uint8_t *scratch = tool_kernel_bytes(r, bt_pool_threads(r->m->pool) * BT_INT_MATMUL_SCRATCH_BYTES);
    bool *is_left = tool_kernel_bytes(r, t * sizeof *is_left);
    if (!x || !wp || !row || !acc || !want || !colsum || !memory || !scratch || !is_left) return BT_ENOMEM;
    snprintf(f.shape, sizeof f.shape, "%zux%zu", n, k);
    int_inputs(x, t * 4 * k4);
    int_weights(wp, colsum, row, n, k);
    for (size_t i = 1; i < copies; i++) memcpy(wp + i * bytes, wp, bytes);
    int_product p = {.kernels = r->m->kernels,
                     .acc = acc,
                     .in = {memory, t, k4, false},
                     .x = {.hi = x, .ld = 4 * k4, .k = k},
                     .is_left = is_left,
                     .wp = wp,
                     .colsum = colsum,
                     .scratch = scratch,
                     .t = t,
                     .n = n,
                     .k = k,
                     .copies = copies};
    const bt_kernels *ref = bt_kernels_select("ref");
    ref->int_prepare(&p.in, 0, t, &p.x, is_left);
    ref->int_matmul(want + 16 * p0, NULL, 16 * panels, &p.in, 0, t, wp, colsum, p0, panels, scratch);
    bt_pool_run(r->m->pool, int_prepare_part, &p);
    bt_pool_run(r->m->pool, int_product_part, &p);
    for (size_t i = 0; i < t; i++)
        if (memcmp(want + 16 * (i * panels + p0), acc + 16 * (i * panels + p0),
                   16 * (panels - p0) * sizeof *acc))
            return tool_kernel_differs(r, f.kernel, f.shape);
    if (r->fn && t == PREFILL_ROWS) {
        tool_figure prepare = f;
        prepare.kernel = BT_KERNEL(int_prepare);
        tool_kernel_report(r, &prepare, 0, "", 0, 2.0 * (double)(t * k), 0,
                           tool_measure(r->m->pool, int_prepare_part, &p));
    }
    if (r->fn)
        tool_kernel_report(r, &f, r->m->int8_ops, "int8", 2.0 * (double)(t * n) * (double)k, (double)bytes,
                           (double)(copies * bytes), tool_measure(r->m->pool, int_product_part, &p));
    tool_kernel_release(r);
    return BT_OK;
}

/* ---- panels of other forms, sums and shadows ---- */
enum { SHADOW = 16, GROUP = 32, MOST = 128 /* bytes that four inputs of a panel become at most */ };

typedef struct beside {
    const bt_kernels *kernels;
    uint8_t *to; /* what is written, of all panels */
    const uint8_t *packed;
    const bt_int_group *groups;
    const int8_t *palettes;
    const int32_t *sums;
    bt_int_shadow shadow[SHADOW];
    size_t panels, k4;
} beside;

static int8_t *panel_of(const beside *b, size_t p) { return (int8_t *)b->to + 64 * b->k4 * p; }

static void unpack4(const beside *b, size_t p0, size_t p1)
{
    b->kernels->int_unpack4(panel_of(b, p0), b->packed, b->k4, p0, p1);
}
static void palette4(const beside *b, size_t p0, size_t p1)
{
    b->kernels->int_palette(panel_of(b, p0), b->packed, 4, b->palettes, b->k4, b->k4, p0, p1);
}
static void palette6(const beside *b, size_t p0, size_t p1)
{
    b->kernels->int_palette(panel_of(b, p0), b->packed, 6, b->palettes, b->k4, b->k4, p0, p1);
}
static void planes4(const beside *b, size_t p0, size_t p1)
{
    b->kernels->int_planes(panel_of(b, p0), panel_of(b, b->panels + p0), b->packed, 4, b->groups, b->k4,
                           GROUP / 4, p0, p1);
}
static void planes8(const beside *b, size_t p0, size_t p1)
{
    b->kernels->int_planes(panel_of(b, p0), panel_of(b, b->panels + p0), b->packed, 8, b->groups, b->k4,
                           GROUP / 4, p0, p1);
}
static void join(const beside *b, size_t p0, size_t p1)
{
    const size_t at = 16 * b->k4 * p0, all = 16 * b->k4 * b->panels;
    b->kernels->int_join((int64_t *)(void *)b->to + at, (bt_int_plane_sums){b->sums + at, NULL},
                         (bt_int_plane_sums){b->sums + all + at, NULL}, 16 * b->k4 * (p1 - p0));
}
static void shadow(const beside *b, size_t p0, size_t p1)
{
    b->kernels->int_shadow((int64_t *)(void *)b->to + 16 * p0, b->shadow, SHADOW, (const int8_t *)b->packed,
                           b->k4, p0, p1);
}

/* shape: what stands behind outputs and inputs. bytes: of four inputs of a panel, in and out; values: of a
 * row with a shadow, where only its entries are read. k is a multiple of the group where a kernel goes by
 * groups. */
static const struct beside_kind {
    const char *kernel, *shape;
    void (*run)(const beside *b, size_t p0, size_t p1);
    size_t bytes, values;
    bool has_groups;
} beside_kinds[] = {
    {BT_KERNEL(int_unpack4), "", unpack4, 32 + 64, 0, false},
    {BT_KERNEL(int_palette), ", lut6", palette6, 48 + 64, 0, false},
    {BT_KERNEL(int_palette), ", lut4", palette4, 32 + 64, 0, false},
    {BT_KERNEL(int_planes), ", w8:group=32", planes8, 64 + 8 + 128, 0, true},
    {BT_KERNEL(int_planes), ", w4:group=32", planes4, 32 + 8 + 128, 0, true},
    {BT_KERNEL(int_join), "/4 sums", join, 16 * (4 + 4 + 8 + 8), 0, false},
    {BT_KERNEL(int_shadow), ", 16 values", shadow, 64, SHADOW, false},
};

typedef struct beside_call {
    const struct beside_kind *kind;
    const beside *b;
} beside_call;

static void beside_part(void *ud, size_t part, size_t parts)
{
    const beside_call *c = ud;
    size_t p0, p1;
    bt_pool_slice(&p0, &p1, c->b->panels, 4, part, parts);
    if (p0 < p1) c->kind->run(c->b, p0, p1);
}

/* Sets `groups` groups for each panel; zeros past the last output. */
static void groups_set(bt_int_group *g, size_t groups, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < groups; j++) {
            const size_t h = (i * groups + j) * 2654435761u >> 11;
            g[i / 16 * groups + j].step[i % 16] = (int16_t)(1 + h % 100);
            g[i / 16 * groups + j].offset[i % 16] = (int16_t)((int)(h >> 8 & 2047) - 1024);
        }
}

static bt_err beside_figure(tool_kernel_run *r, const struct beside_kind *kind, size_t n, size_t k)
{
    tool_figure f = {.kernel = kind->kernel, .rows = 1};
    beside b = {.kernels = r->m->kernels, .panels = bt_int_panels(n), .k4 = bt_int_k4(k)};
    const size_t units = b.panels * b.k4, groups = b.panels * (k / GROUP);
    uint8_t *packed = tool_kernel_bytes(r, 64 * units), *want = tool_kernel_bytes(r, MOST * units);
    int32_t *sums = tool_kernel_bytes(r, 2 * 16 * units * sizeof *sums);
    bt_int_group *group = tool_kernel_bytes(r, groups * sizeof *group);
    int8_t *palettes = tool_kernel_bytes(r, b.panels * 64);
    b.to = tool_kernel_bytes(r, MOST * units);
    if (!packed || !want || !sums || !group || !palettes || !b.to) return BT_ENOMEM;
    snprintf(f.shape, sizeof f.shape, "%zux%zu%s", n, k, kind->shape);
    for (size_t i = 0; i < 64 * units; i++)
        packed[i] = (uint8_t)(int8_t)((i * 2654435761u >> 11) % 255 - 127);
    for (size_t i = 0; i < 2 * 16 * units; i++) sums[i] = (int32_t)(i * 2654435761u) >> 8;
    groups_set(group, k / GROUP, n);
    for (size_t i = 0; i < b.panels * 64; i++) palettes[i] = (int8_t)((i * 2654435761u >> 11) % 255 - 127);
    for (size_t i = 0; i < SHADOW; i++)
        b.shadow[i] = (bt_int_shadow){(uint32_t)(i * k / SHADOW), 100 * (int32_t)i - 700};
    b.packed = packed, b.groups = group, b.palettes = palettes, b.sums = sums;
    beside ref = b;
    ref.kernels = bt_kernels_select("ref");
    ref.to = want;
    kind->run(&ref, 0, b.panels);
    beside_call call = {kind, &b};
    bt_pool_run(r->m->pool, beside_part, &call);
    if (memcmp(want, b.to, MOST * units)) return tool_kernel_differs(r, f.kernel, f.shape);
    const double moved = (double)(kind->bytes * (kind->values ? b.panels * kind->values : units)),
                 ops = 2.0 * 16.0 * (double)(b.panels * kind->values);
    if (r->fn)
        tool_kernel_report(r, &f, 0, "", ops, moved, moved, tool_measure(r->m->pool, beside_part, &call));
    return BT_OK;
}

/* ---- a product in each form of weights and inputs ---- */
static const struct layer_form {
    const char *recipe;
    unsigned bits;
    bool is_wide, has_palettes;
    size_t group;
} layer_forms[] = {
    {"w8a8", 8, false, false, 0},     {"w8a8:group=32", 8, false, false, GROUP},
    {"w4a8", 4, false, false, 0},     {"w4a8:group=32", 4, false, false, GROUP},
    {"w8a8:lut6", 6, false, true, 0}, {"w8a8:lut4", 4, false, true, 0},
    {"w8a16", 8, true, false, 0},     {"w8a16:group=32", 8, true, false, GROUP},
    {"w4a16", 4, true, false, 0},     {"w4a16:group=32", 4, true, false, GROUP},
};

typedef struct layer_weights {
    const uint8_t *packed;
    const int32_t *low, *high; /* sums of columns; with groups of low planes, and of high ones */
    const bt_int_group *groups;
    const int8_t *palettes;
} layer_weights;

typedef struct layer {
    const bt_kernels *kernels;
    const struct layer_form *form;
    layer_weights w;
    bt_int_rows x;
    bt_int_inputs in;
    bool *is_left;
    uint32_t *y; /* [t, 16 * panels]: 32 bits mixed from all 64 of a sum, as many bytes as a layer writes */
    uint8_t *scratch; /* one for each part */
    size_t scratch_bytes, t, panels;
} layer;

/* The memory that a part needs: sums of up to PREFILL_ROWS rows of PREFILL_PANELS panels or planes, and the
 * operands as they are multiplied. */
typedef struct layer_scratch {
    int32_t hi[PREFILL_ROWS * 16 * PREFILL_PANELS], lo[PREFILL_ROWS * 16 * PREFILL_PANELS];
    int64_t row[16 * PREFILL_PANELS];
    _Alignas(64) uint8_t product[BT_INT_MATMUL_SCRATCH_BYTES];
    int8_t panels[];
} layer_scratch;
enum { LAYER_LD = 16 * PREFILL_PANELS };

/* Panels [p, p + count) as they are multiplied: the first of them, or of their low planes; high ones behind
 * these. */
static const int8_t *layer_panels(const layer *y, int8_t *to, size_t p, size_t count)
{
    const size_t k = y->x.k, k4 = bt_int_k4(k);
    const struct layer_form *f = y->form;
    if (f->group)
        y->kernels->int_planes(to, to + count * 64 * k4, y->w.packed, f->bits, y->w.groups, k4, f->group / 4,
                               p, p + count);
    else if (f->has_palettes)
        y->kernels->int_palette(to, y->w.packed, f->bits, y->w.palettes, k4, k4, p, p + count);
    else if (f->bits == 4) y->kernels->int_unpack4(to, y->w.packed, k4, p, p + count);
    else return (const int8_t *)y->w.packed + p * 64 * k4;
    return to;
}

static uint32_t folded(int64_t sum) { return (uint32_t)sum + 31 * (uint32_t)((uint64_t)sum >> 32); }

/* Makes a row's outputs of its sums: columns [0, cols), those of high planes from column cols on. */
static void layer_row_end(const layer *y, layer_scratch *s, uint32_t *to, size_t row, size_t cols)
{
    const int32_t *hi = s->hi + row * LAYER_LD, *lo = s->lo + row * LAYER_LD;
    const bool is_wide = y->form->is_wide;
    if (y->form->group) {
        memset(s->row, 0, cols * sizeof *s->row);
        y->kernels->int_join(s->row, (bt_int_plane_sums){hi + cols, is_wide ? lo + cols : NULL},
                             (bt_int_plane_sums){hi, is_wide ? lo : NULL}, cols);
        for (size_t c = 0; c < cols; c++) to[c] = folded(s->row[c]);
    } else if (is_wide) {
        for (size_t c = 0; c < cols; c++) to[c] = folded(256 * (int64_t)hi[c] + lo[c]);
    } else {
        for (size_t c = 0; c < cols; c++) to[c] = folded(hi[c]);
    }
}

/* Outputs of panels [p0, p1), by one thread. */
static void layer_run(const layer *y, size_t part, size_t p0, size_t p1)
{
    layer_scratch *s = (void *)(y->scratch + part * y->scratch_bytes);
    const size_t planes = y->form->group ? 2 : 1, most = PREFILL_PANELS / planes, k4 = bt_int_k4(y->x.k);
    for (size_t p = p0, count; p < p1; p += count) {
        count = p1 - p < most ? p1 - p : most;
        const int8_t *wp = layer_panels(y, s->panels, p, count);
        for (size_t row = 0, rows; row < y->t; row += rows) {
            rows = y->t - row < PREFILL_ROWS ? y->t - row : PREFILL_ROWS;
            for (size_t i = 0; i < planes; i++)
                y->kernels->int_matmul(s->hi + i * 16 * count,
                                       y->form->is_wide ? s->lo + i * 16 * count : NULL, LAYER_LD, &y->in,
                                       row, rows, wp + i * count * 64 * k4,
                                       (i ? y->w.high : y->w.low) + 16 * p, 0, count, s->product);
            for (size_t i = 0; i < rows; i++)
                layer_row_end(y, s, y->y + (row + i) * 16 * y->panels + 16 * p, i, 16 * count);
        }
    }
}

static void layer_part(void *ud, size_t part, size_t parts)
{
    const layer *y = ud;
    size_t p0, p1;
    bt_pool_slice(&p0, &p1, y->panels, PREFILL_PANELS, part, parts);
    if (p0 < p1) layer_run(y, part, p0, p1);
}

/* Row n of the weights, packed and summed. row: room for k. */
static void layer_row(const layer *y, uint8_t *packed, int32_t *low, int32_t *high, int8_t *row, size_t n)
{
    const struct layer_form *f = y->form;
    const size_t k = y->x.k, entries = (size_t)1 << f->bits;
    const int least = f->bits == 8 ? -127 : f->group ? -8 : -7, most = f->bits == 8 ? 127 : 7;
    for (size_t j = 0; j < k; j++) {
        const size_t h = (n * k + j) * 2654435761u >> 11;
        int v = least + (int)(h % (size_t)(most - least + 1));
        row[j] = f->has_palettes ? (int8_t)(h % entries) : (int8_t)v;
        if (f->has_palettes) v = y->w.palettes[n / 16 * entries + h % entries];
        if (f->group) {
            const bt_int_group *g = &y->w.groups[n / 16 * (k / f->group) + j / f->group];
            v = g->step[n % 16] * v + g->offset[n % 16];
            high[n] += bt_int_plane_high(v);
            v -= 128 * bt_int_plane_high(v);
        }
        low[n] += v;
    }
    if (f->has_palettes) bt_int_pack_indices(packed, (const uint8_t *)row, n, 1, k, f->bits);
    else bt_int_pack(packed, row, n, 1, k, f->bits);
}

static bt_err layer_weights_make(layer *y, tool_kernel_run *r, size_t n)
{
    const struct layer_form *f = y->form;
    const size_t k = y->x.k, entries = (size_t)1 << f->bits,
                 groups = f->group ? y->panels * (k / f->group) : 0,
                 colors = f->has_palettes ? y->panels * entries : 0;
    uint8_t *packed = tool_kernel_bytes(r, y->panels * bt_int_panel_bytes(k, f->bits));
    int32_t *low = tool_kernel_bytes(r, 2 * 16 * y->panels * sizeof *low);
    int8_t *row = tool_kernel_bytes(r, k), *palettes = tool_kernel_bytes(r, colors);
    bt_int_group *group = tool_kernel_bytes(r, groups * sizeof *group);
    if (!packed || !low || !row || !palettes || !group) return BT_ENOMEM;
    for (size_t i = 0; i < colors; i++) palettes[i] = (int8_t)((i * 2654435761u >> 11) % 255 - 127);
    if (groups) groups_set(group, k / f->group, n);
    y->w = (layer_weights){packed, low, low + 16 * y->panels, group, palettes};
    for (size_t i = 0; i < n; i++) layer_row(y, packed, low, low + 16 * y->panels, row, i);
    return BT_OK;
}

static bt_err layer_figure(tool_kernel_run *r, const struct layer_form *form, size_t n, size_t k, size_t t)
{
    tool_figure f = {.kernel = BT_KERNEL(int_matmul), .rows = t};
    layer y = {.kernels = r->m->kernels, .form = form, .t = t, .panels = bt_int_panels(n)};
    const size_t p0 = y.panels > CHECK_PANELS ? y.panels - CHECK_PANELS : 0, ld = 16 * y.panels,
                 ldx = 4 * bt_int_k4(k);
    int8_t *x = tool_kernel_bytes(r, 2 * t * ldx);
    uint8_t *memory = tool_kernel_bytes(r, bt_int_inputs_bytes(t, k, form->is_wide));
    uint32_t *want = tool_kernel_bytes(r, t * ld * sizeof *want);
    y.y = tool_kernel_bytes(r, t * ld * sizeof *want);
    y.is_left = tool_kernel_bytes(r, t * sizeof *y.is_left);
    y.scratch_bytes = (sizeof(layer_scratch) + PREFILL_PANELS * 64 * bt_int_k4(k) + 63) / 64 * 64;
    y.scratch = tool_kernel_bytes(r, bt_pool_threads(r->m->pool) * y.scratch_bytes);
    if (!x || !memory || !want || !y.y || !y.is_left || !y.scratch) return BT_ENOMEM;
    snprintf(f.shape, sizeof f.shape, "%zux%zu, %s", n, k, form->recipe);
    int_inputs(x, 2 * t * ldx);
    y.x = (bt_int_rows){.hi = x, .lo = form->is_wide ? x + t * ldx : NULL, .ld = ldx, .k = k};
    y.in = (bt_int_inputs){memory, t, bt_int_k4(k), form->is_wide};
    if (layer_weights_make(&y, r, n) < 0) return BT_ENOMEM;
    layer ref = y;
    ref.kernels = bt_kernels_select("ref");
    ref.y = want;
    ref.kernels->int_prepare(&ref.in, 0, t, &ref.x, ref.is_left);
    layer_run(&ref, 0, p0, y.panels);
    y.kernels->int_prepare(&y.in, 0, t, &y.x, y.is_left);
    bt_pool_run(r->m->pool, layer_part, &y);
    for (size_t i = 0; i < t; i++)
        if (memcmp(want + i * ld + 16 * p0, y.y + i * ld + 16 * p0, (n - 16 * p0) * sizeof *want))
            return tool_kernel_differs(r, f.kernel, f.shape);
    const double bytes = (double)(y.panels * bt_int_panel_bytes(k, form->bits));
    if (r->fn)
        tool_kernel_report(r, &f, r->m->int8_ops, "int8", 2.0 * (double)(t * n) * (double)k, bytes, bytes,
                           tool_measure(r->m->pool, layer_part, &y));
    return BT_OK;
}

bt_err tool_int_kernels(tool_kernel_run *r, size_t n, size_t k)
{
    const size_t t = r->fn ? PREFILL_ROWS : 13;
    bt_err e = BT_OK;
    for (size_t i = 0; e == BT_OK && i < sizeof beside_kinds / sizeof *beside_kinds; i++) {
        if (!beside_kinds[i].has_groups || k % GROUP == 0) e = beside_figure(r, &beside_kinds[i], n, k);
        tool_kernel_release(r);
    }
    for (size_t i = 0; e == BT_OK && i < sizeof layer_forms / sizeof *layer_forms; i++) {
        const struct layer_form *form = &layer_forms[i];
        if ((!form->group || k % form->group == 0) && (!form->has_palettes || k % 4 == 0))
            e = layer_figure(r, form, n, k, t);
        tool_kernel_release(r);
    }
    return e;
}
