#ifndef TEST_KERNELS_VARIANTS_H
#define TEST_KERNELS_VARIANTS_H
/* Shared by the kernel tests: a seeded generator, buffers that end where their array ends (so that the
 * sanitizer sees one byte too many), and running each test once for every variant of the table but ref, the
 * oracle of bits. */
#include "kernels/kernels.h"
#include "tests/helpers/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static uint64_t test_rng_state = 20240607;

static inline uint32_t rnd(void)
{
    test_rng_state = test_rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(test_rng_state >> 32);
}
static inline size_t rnd_below(size_t n) { return rnd() % n; }
static inline float rnd_unit(void) { return (float)(int32_t)rnd() * 0x1p-31f; }

/* Now and then a value that kernels get wrong: zeros of both signs, subnormals, very small and large ones. */
static inline float rnd_any(float large)
{
    switch (rnd_below(24)) {
    case 0: return 0.0f;
    case 1: return -0.0f;
    case 2: return rnd_unit() * 0x1p-127f;
    case 3: return rnd_unit() * 0x1p-148f;
    case 4: return rnd_unit() * large;
    default: return rnd_unit() * 2;
    }
}

static inline void *bytes_new(size_t count, size_t align)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, align < sizeof p ? sizeof p : align, count), 0);
    memset(p, 0x5a, count); /* a value no kernel writes: what it must not touch stays this */
    return p;
}
static inline float *floats_new(size_t count) { return bytes_new(count * sizeof(float), 4); }
static inline float *floats_rnd(size_t count, float large)
{
    float *p = floats_new(count);
    for (size_t i = 0; i < count; i++) p[i] = rnd_any(large);
    return p;
}
static inline float *floats_copy(const float *p, size_t count)
{
    float *q = floats_new(count);
    memcpy(q, p, count * sizeof *p);
    return q;
}

static inline const bt_kernels *ref_kernels(void) { return rows_select("ref"); }
static inline const bt_kernels *variant_of(void **state)
{
    const bt_kernels *k = *state;
    if (!rows_usable(k)) skip();
    return k;
}

static inline int run_for_each_variant(const char *group, const struct CMUnitTest *tests, size_t count,
                                       const struct CMUnitTest *once, size_t once_count)
{
    static struct CMUnitTest all[64];
    static char names[64][128];
    size_t n = 0;
    printf("seed %llu\n", (unsigned long long)test_rng_state);
    for (size_t i = 0; i < once_count; i++) all[n++] = once[i];
    for (size_t v = 0; v + 1 < bt_kernels_table_len; v++)
        for (size_t i = 0; i < count; i++, n++) {
            snprintf(names[n], sizeof names[n], "%s_%s", bt_kernels_table[v].isa, tests[i].name);
            all[n] = tests[i];
            all[n].name = names[n];
            all[n].initial_state = (void *)(uintptr_t)&bt_kernels_table[v];
        }
    return _cmocka_run_group_tests(group, all, n, NULL, NULL);
}
#define RUN_VARIANTS(tests, once) run_for_each_variant(__FILE__, tests, COUNT(tests), once, COUNT(once))
#endif
