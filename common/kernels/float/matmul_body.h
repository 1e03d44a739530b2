/* The matrix products over v16. This file has the products of few rows with f16 and int8 weights, and what all forms of
 * weights share. Few rows with FP4 and MX are in forms_body.h, many rows with any form in matmul_many_body.h. Included
 * by matmul_<isa>.c after its simd header and TILE_PANELS, the panels that a tile of many rows covers. No include
 * guard.
 *
 * A tile is R rows x P panels of sums in registers. Each output is one fma chain over all of K, and weights are
 * converted on their way. A tile of few rows takes several panels, for enough independent chains. Each panel is a
 * stream of memory, fetched some bytes ahead of its use (cores.h); near the end of its panels a tile fetches the
 * beginning of the next tile's panels. */
#include "kernels/cores.h"
#include "kernels/float/forms_layout.h"

#include <stdbool.h>

enum {
    TILE_ROWS = 6,
    FEW_ROWS = 4, /* the most rows whose sums for a whole panel fit in registers */
    GROUP = BT_FORM_GROUP,
};
/* How a chain ends: F16 at K; INT8_K at K, times a scale; INT8_32 and MX at each group, times a scale; FP4 at
 * each group, times a scale and plus a shift. */
enum { F16, INT8_K, INT8_32, FP4, MX };

/* Makes the compiler keep x, which only the end of a group needs, in memory, so that the chains have the registers. */
#define OUT_OF_REGISTERS(x) __asm__("" : "+m"(x))

typedef struct product {
    float *y;
    const float *x, *bias, *xs; /* xs: FP4's sums of x, [T, groups] */
    const uint8_t *wp;
    size_t ldy, ldx, t, n, k, p0, p1;
    size_t panel, groups; /* bytes of a panel; FP4 and MX: groups in K */
    size_t ahead;         /* bytes to fetch ahead, for few rows (cores.h) */
} product;

BT_INLINE v16 v16_from_f16(const uint8_t *p) { return v16_load_f16((const uint16_t *)(const void *)p); }
BT_INLINE v16 weight_load(const uint8_t *w, const int form)
{
    return form == F16 ? v16_from_f16(w) : v16_load_s8((const int8_t *)w);
}

/* Adds the bias to the 16 sums of panel p in one row, and stores them. */
BT_INLINE void store_row(const product *a, size_t p, size_t row, v16 sum)
{
    const size_t cols = a->n - 16 * p < 16 ? a->n - 16 * p : 16;
    if (a->bias) sum = v16_add(v16_load_n(a->bias + 16 * p, cols), sum);
    v16_store_n(a->y + row * a->ldy + 16 * p, sum, cols);
}

/* Continues the chains s[P][R] by one input; P and R are constants at every call. The order of the loads leaves
 * registers for the sums. */
BT_INLINE void chain_step(v16 s[4][FEW_ROWS], const uint8_t *w, size_t panel, const float *x, size_t ldx,
                          const int form, const size_t P, const size_t R)
{
    v16 xk[FEW_ROWS];
    BT_UNROLL_FOR(size_t r = 0; r < R; r++) xk[r] = v16_set1(x[r * ldx]);
    BT_UNROLL_FOR(size_t p = 0; p < P; p++) {
        const v16 wk = weight_load(w + p * panel, form);
        BT_UNROLL_FOR(size_t r = 0; r < R; r++) s[p][r] = v16_fma(wk, xk[r], s[p][r]);
    }
}

/* Continues the chains s[P][R] by `count` inputs. */
BT_INLINE void chain(v16 s[4][FEW_ROWS], const uint8_t *w, size_t panel, size_t ahead, const float *x, size_t ldx,
                     size_t count, const int form, const size_t P, const size_t R)
{
    const size_t bytes = form == F16 ? 32 : 16, line = 64 / bytes;
    for (; count >= line; count -= line, x += line, w += 64) {
        BT_UNROLL_FOR(size_t p = 0; p < P; p++) v16_prefetch(w + p * panel + ahead);
        BT_UNROLL_FOR(size_t i = 0; i < line; i++) chain_step(s, w + i * bytes, panel, x + i, ldx, form, P, R);
    }
    for (; count > 0; count--, x++, w += bytes) chain_step(s, w, panel, x, ldx, form, P, R);
}

/* How many bytes past an address to fetch, if the address is `left` bytes before the end of its panel: in this tile's
 * panels, or past their end in the next tile's. */
BT_INLINE size_t ahead_of(const product *a, size_t left, const size_t P)
{
    return left > a->ahead ? a->ahead : a->ahead + (P - 1) * a->panel;
}

BT_INLINE void tile_run(const product *a, size_t panel0, const int form, const size_t P, const size_t R)
{
    const size_t panel = a->panel, bytes = form == F16 ? 32 : 16, head = form == F16 ? 0 : 32;
    const uint8_t *w = a->wp + panel0 * panel;
    v16 acc[4][FEW_ROWS], s[4][FEW_ROWS];
    BT_UNROLL_FOR(size_t p = 0; p < P; p++)
        BT_UNROLL_FOR(size_t r = 0; r < R; r++) acc[p][r] = v16_zero();
    if (form != INT8_32)
        for (size_t k = 0, end; k < a->k; k = end) {
            const size_t near = a->ahead / bytes;
            end = a->k - k > near ? a->k - near : a->k;
            chain(acc, w + head + k * bytes, panel, ahead_of(a, (a->k - k) * bytes, P), a->x + k, a->ldx, end - k, form,
                  P, R);
        }
    else
        for (size_t k = 0; k < a->k; k += GROUP) {
            const uint8_t *group = w + k / GROUP * form_int8_bytes(GROUP);
            const size_t ahead = ahead_of(a, (size_t)(w + panel - group), P);
            OUT_OF_REGISTERS(acc);
            BT_UNROLL_FOR(size_t p = 0; p < P; p++) {
                v16_prefetch(group + p * panel + ahead);
                BT_UNROLL_FOR(size_t r = 0; r < R; r++) s[p][r] = v16_zero();
            }
            chain(s, group + head, panel, ahead, a->x + k, a->ldx, a->k - k < GROUP ? a->k - k : GROUP, form, P, R);
            BT_UNROLL_FOR(size_t p = 0; p < P; p++) {
                const v16 d = v16_from_f16(group + p * panel);
                BT_UNROLL_FOR(size_t r = 0; r < R; r++) acc[p][r] = v16_fma(d, s[p][r], acc[p][r]);
            }
        }
    BT_UNROLL_FOR(size_t p = 0; p < P; p++)
        BT_UNROLL_FOR(size_t r = 0; r < R; r++) {
            v16 sum = acc[p][r];
            if (form == INT8_K) sum = v16_fma(v16_from_f16(w + p * panel), sum, v16_zero());
            store_row(a, panel0 + p, r, sum);
        }
}

/* One function for each form, not inlined: with more tiles in a function the compiler runs out of registers. */
#define FEW_TILES(name, form) \
    BT_NOINLINE void name(const product *a, size_t p, size_t panels) \
    { \
        switch (panels * 8 + a->t) { \
        case 33: tile_run(a, p, form, 4, 1); break; \
        case 17: tile_run(a, p, form, 2, 1); break; \
        case 18: tile_run(a, p, form, 2, 2); break; \
        case 19: tile_run(a, p, form, 2, 3); break; \
        case 9: tile_run(a, p, form, 1, 1); break; \
        case 10: tile_run(a, p, form, 1, 2); break; \
        case 11: tile_run(a, p, form, 1, 3); break; \
        default: tile_run(a, p, form, 1, 4); break; \
        } \
    }
FEW_TILES(few_f16, F16)
FEW_TILES(few_int8, INT8_K)
FEW_TILES(few_int8_32, INT8_32)

typedef void few_fn(const product *a, size_t p, size_t panels);

static void few_rows(const product *a, few_fn *few)
{
    const size_t wide = a->t == 1 ? 4 : a->t <= 3 ? 2 : 1;
    for (size_t p = a->p0, panels; p < a->p1; p += panels) {
        panels = a->p1 - p >= wide ? wide : a->p1 - p >= 2 && wide > 1 ? 2 : 1;
        few(a, p, panels);
    }
}

#include "kernels/float/matmul_many_body.h"

/* Collects the arguments that the products share by name; panel_: bytes of a panel. */
#define PRODUCT(wp_, panel_, ...) \
    ((product){.y = y, .ldy = ldy, .x = x, .ldx = ldx, .bias = bias, .wp = (wp_), .t = t, .n = n, .k = k, .p0 = p0, \
               .p1 = p1, .panel = (panel_), .ahead = bt_cores_now.ahead, __VA_ARGS__})

void BT_VARIANT(bt_matmul)(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                           const uint16_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t p0,
                           size_t p1)
{
    const product a = PRODUCT((const uint8_t *)wp, 32 * k, .groups = 0);
    if (t <= FEW_ROWS) few_rows(&a, few_f16);
    else many_f16(&a);
}

#include "kernels/float/forms_body.h"
