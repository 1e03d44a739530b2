/* The construction of Hadamard matrices, by Sylvester and Paley. */
#include "npu/quant/hadamard.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIGN_SEED = 20240213 };

static bool is_prime(uint32_t q)
{
    if (q < 2) return false;
    for (uint32_t d = 2; d * d <= q; d++)
        if (q % d == 0) return false;
    return true;
}

static bool is_paley1(uint32_t k) { return k >= 4 && k % 4 == 0 && is_prime(k - 1); }
static bool is_paley2(uint32_t k)
{
    return k >= 12 && k % 4 == 0 && (k / 2 - 1) % 4 == 1 && is_prime(k / 2 - 1);
}

bool bt_hadamard_find(uint32_t *ret_base, uint32_t *ret_log2, size_t n)
{
    if (n < 2 || n > BT_HADAMARD_MAX) return false;
    uint32_t log2 = (uint32_t)__builtin_ctzll(n), base = (uint32_t)n >> log2;
    for (;; base *= 2, log2--) {
        if (base == 1 || (base <= BT_HADAMARD_MAX_BASE && (is_paley1(base) || is_paley2(base)))) {
            *ret_base = base;
            *ret_log2 = log2;
            return true;
        }
        if (log2 == 0) return false;
    }
}

/* Legendre's symbol of a - b modulo the prime q: Q of Paley's constructions. */
static int chi(uint32_t a, uint32_t b, uint32_t q)
{
    const uint32_t d = (a + q - b) % q;
    if (d == 0) return 0;
    for (uint32_t x = 1; x <= q / 2; x++)
        if (x * x % q == d) return 1;
    return -1;
}

void bt_hadamard_base(int8_t *h, uint32_t base)
{
    if (base == 1) {
        h[0] = 1;
    } else if (is_paley1(base)) { /* I + [[0, 1], [-1, Q]] */
        for (uint32_t i = 0; i < base; i++)
            for (uint32_t j = 0; j < base; j++)
                h[i * base + j] = (int8_t)(i == j ? 1 : i == 0 ? 1 : j == 0 ? -1 : chi(i, j, base - 1));
    } else { /* C (x) [[1, 1], [1, -1]] + I (x) [[1, -1], [-1, -1]], C = [[0, 1], [1, Q]] */
        for (uint32_t i = 0; i < base; i++)
            for (uint32_t j = 0; j < base; j++) {
                const uint32_t ci = i / 2, cj = j / 2;
                const int c = ci == cj ? 0 : ci == 0 || cj == 0 ? 1 : chi(ci, cj, base / 2 - 1);
                const int minus = i % 2 && j % 2 ? -1 : 1;
                h[i * base + j] = (int8_t)(ci == cj ? (i % 2 || j % 2 ? -1 : 1) : c * minus);
            }
    }
}

void bt_hadamard_init(bt_hadamard *r, size_t n, bool signs)
{
    memset(r, 0, sizeof *r);
    uint32_t base, log2;
    if (!bt_hadamard_find(&base, &log2, n)) return;
    if (signs) {
        if (!(r->sign = malloc(n))) return;
        for (size_t i = 0; i < n; i++) r->sign[i] = bt_rng_u64(SIGN_SEED, i) >> 63 ? -1 : 1;
    }
    r->base = base;
    r->log2 = log2;
    r->scale = (float)(1 / sqrt((double)n));
    bt_hadamard_base(r->h, base);
}

void bt_hadamard_done(bt_hadamard *r) { free(r->sign); }

void bt_hadamard_apply(const bt_hadamard *r, const bt_kernels *kernels, float *x, size_t blocks,
                       float *scratch)
{
    kernels->rotate(x, 0, 1, blocks, r->h, r->base, r->log2, r->sign, r->scale, scratch);
}
