/* The trial at start, which makes the choices that the table of cores leaves open. */
#include "kernels/cores_trial.h"

bt_cores_choice bt_cores_now = {1024, 8}; /* as on Zen 3, until bt_kernels_select is called */

#if defined(__x86_64__)
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

enum {
    INPUTS = 4096, /* with OUTPUTS: 256 KiB of int8 weights, so that a prefetcher finds its stride */
    OUTPUTS = 64,
    WEIGHT_BYTES = (32 + 16 * INPUTS) * (OUTPUTS / 16),
    TIMES = 3,
    CHUNK = 640, /* inputs of one chunk of the integer product */
    MOST_ROWS = 32,
    PANELS = 2,
};

static uint64_t less(uint64_t a, uint64_t b) { return a < b ? a : b; }
static bool is_faster(uint64_t cycles, uint64_t than) { return cycles < than - than / 32; }

/* The cycles of one product whose weights come from memory; the least of TIMES. */
static uint64_t cycles_ahead(const bt_cores_trial *t, const uint8_t *weights, const float *x, uint32_t ahead)
{
    float y[OUTPUTS];
    uint64_t best = UINT64_MAX;
    bt_cores_now.ahead = ahead;
    for (int i = 0; i < TIMES; i++) {
        for (size_t at = 0; at < WEIGHT_BYTES; at += 64) _mm_clflush(weights + at);
        _mm_mfence();
        const uint64_t begin = __rdtsc();
        t->matmul8(y, OUTPUTS, x, INPUTS, weights, NULL, 1, OUTPUTS, INPUTS, INPUTS, 0, OUTPUTS / 16);
        best = less(best, __rdtsc() - begin);
    }
    return best;
}

static void try_ahead(const bt_cores_trial *t, uint8_t *memory)
{
    static const uint32_t others[] = {512, 2048};
    const float *x = (const float *)(const void *)(memory + WEIGHT_BYTES);
    uint32_t best = bt_cores_now.ahead;
    uint64_t cycles = cycles_ahead(t, memory, x, best);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const uint64_t now = cycles_ahead(t, memory, x, others[i]);
        if (is_faster(now, cycles)) best = others[i], cycles = now;
    }
    bt_cores_now.ahead = best;
}

typedef struct product {
    bt_int_inputs in;
    int32_t *acc, *colsum;
    int8_t *weights;
    void *scratch;
} product;

static uint64_t cycles_copied(const bt_cores_trial *t, const product *p, size_t rows, uint32_t copy_rows)
{
    uint64_t best = UINT64_MAX;
    bt_cores_now.copy_rows = copy_rows;
    for (int i = 0; i < 2 * TIMES; i++) {
        const uint64_t begin = __rdtsc();
        t->matmul(p->acc, NULL, 16 * PANELS, &p->in, 0, rows, p->weights, p->colsum, 0, PANELS, p->scratch);
        best = less(best, __rdtsc() - begin);
    }
    return best;
}

/* Chooses copy_rows: the fewest rows, of 4, 8, 16, 32, with which a copy is faster. */
static void try_copy(const bt_cores_trial *t, uint8_t *memory)
{
    product p = {.in = {.rows = MOST_ROWS, .k4 = CHUNK / 4}};
    bool is_left[MOST_ROWS];
    const int8_t *x = (const int8_t *)memory;
    p.weights = (int8_t *)memory + MOST_ROWS * CHUNK;
    p.scratch = memory + MOST_ROWS * CHUNK + PANELS * 16 * CHUNK;
    p.acc = (int32_t *)(void *)((uint8_t *)p.scratch + BT_INT_MATMUL_SCRATCH_BYTES);
    p.colsum = p.acc + MOST_ROWS * 16 * PANELS;
    p.in.memory = (uint8_t *)(void *)(p.colsum + 16 * PANELS);
    t->prepare(&p.in, 0, MOST_ROWS, &(bt_int_rows){.hi = x, .ld = CHUNK, .k = CHUNK}, is_left);
    const uint32_t before = bt_cores_now.copy_rows;
    uint32_t best = UINT32_MAX;
    for (uint32_t rows = 4; rows <= MOST_ROWS && best == UINT32_MAX; rows *= 2)
        if (is_faster(cycles_copied(t, &p, rows, 2), cycles_copied(t, &p, rows, UINT32_MAX))) best = rows;
    bt_cores_now.copy_rows = best == UINT32_MAX ? before : best;
}

bool bt_cores_try(const bt_cores_trial *t)
{
    const size_t ints = MOST_ROWS * CHUNK + PANELS * 16 * CHUNK + BT_INT_MATMUL_SCRATCH_BYTES +
                        (MOST_ROWS + 1) * 16 * PANELS * sizeof(int32_t) +
                        bt_int_inputs_bytes(MOST_ROWS, CHUNK, false);
    const size_t floats = WEIGHT_BYTES + INPUTS * sizeof(float), most = ints > floats ? ints : floats;
    uint8_t *memory = aligned_alloc(64, (most + 63) / 64 * 64);
    if (!memory) return false;
    memset(memory, 0, (most + 63) / 64 * 64); /* subnormals would be slower */
    try_ahead(t, memory);
    try_copy(t, memory);
    free(memory);
    return true;
}
#else
bool bt_cores_try(const bt_cores_trial *t)
{
    (void)t;
    return false;
}
#endif
