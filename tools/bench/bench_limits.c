/* See bench_limits.h. */
#include "tools/bench/bench_limits.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SAMPLES    7
#define SAMPLE_US  20000
#define READ_BYTES ((size_t)1 << 30)

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tool_median(double *samples, size_t n)
{
    qsort(samples, n, sizeof *samples, by_value);
    return samples[n / 2];
}

double tool_measure(bt_pool *pool, bt_pool_fn *fn, void *ud)
{
    double samples[SAMPLES];
    size_t calls = 1;
    for (int i = -1; i < SAMPLES;) { /* sample -1 finds the number of calls and warms up */
        const int64_t begin = bt_clock_us();
        for (size_t c = 0; c < calls; c++) bt_pool_run(pool, fn, ud);
        const int64_t us = bt_clock_us() - begin;
        if (i < 0 && us < SAMPLE_US) {
            calls *= 2;
            continue;
        }
        if (i >= 0) samples[i] = (double)us * 1e-6 / (double)calls;
        i++;
    }
    return tool_median(samples, SAMPLES);
}

/* ---- the machine's limits ---- */
#define PEAK_STEPS 100000
static _Thread_local volatile float peak_sink;
static _Thread_local volatile uint64_t read_sink;

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#define PEAK(width, ext, type, set1, fma, first) \
    __attribute__((target(ext))) static void peak_##width(void *ud, size_t part, size_t parts) \
    { \
        (void)ud, (void)parts; \
        const type x = set1(0.999f), y = set1(0.001f); \
        type a = set1((float)part), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, \
             l = a; \
        for (size_t n = 0; n < PEAK_STEPS; n++) { \
            a = fma(a, x, y), b = fma(b, x, y), c = fma(c, x, y), d = fma(d, x, y); \
            e = fma(e, x, y), f = fma(f, x, y), g = fma(g, x, y), h = fma(h, x, y); \
            i = fma(i, x, y), j = fma(j, x, y), k = fma(k, x, y), l = fma(l, x, y); \
            __asm__("" \
                    : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h), "+v"(i), \
                      "+v"(j)); \
        } \
        peak_sink = first(a) + first(b) + first(c) + first(d) + first(e) + first(f) + first(g) + first(h) + \
                    first(i) + first(j) + first(k) + first(l); \
    }
PEAK(8, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_cvtss_f32)
PEAK(16, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_cvtss_f32)

/* Sums of products of bytes: AVX2 needs three instructions for 32 of them, VNNI one. */
#define PEAK_DOT(isa, ext, type, set1, dot, first) \
    __attribute__((target(ext))) static void peak_##isa(void *ud, size_t part, size_t parts) \
    { \
        (void)ud, (void)parts; \
        const type x = set1(0x01020304), y = set1(0x00010001); \
        type a = set1((int)part), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a; \
        for (size_t n = 0; n < PEAK_STEPS; n++) { \
            a = dot(a, x, y), b = dot(b, x, y), c = dot(c, x, y), d = dot(d, x, y), e = dot(e, x, y); \
            f = dot(f, x, y), g = dot(g, x, y), h = dot(h, x, y), i = dot(i, x, y), j = dot(j, x, y); \
            __asm__("" \
                    : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h), "+v"(i), \
                      "+v"(j)); \
        } \
        peak_sink = (float)(first(a) ^ first(b) ^ first(c) ^ first(d) ^ first(e) ^ first(f) ^ first(g) ^ \
                            first(h) ^ first(i) ^ first(j)); \
    }
#define DOT_AVX2(a, x, y)       _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_maddubs_epi16(x, a), y))
#define DOT_AVXVNNI(a, x, y)    ((void)(y), _mm256_dpbusd_avx_epi32(a, x, a))
#define DOT_AVX512VNNI(a, x, y) ((void)(y), _mm512_dpbusd_epi32(a, x, a))
#define FIRST_256(a)            _mm_cvtsi128_si32(_mm256_castsi256_si128(a))
#define FIRST_512(a)            _mm_cvtsi128_si32(_mm512_castsi512_si128(a))
PEAK_DOT(avx2, "avx2", __m256i, _mm256_set1_epi32, DOT_AVX2, FIRST_256)
PEAK_DOT(avxvnni, "avx2,avxvnni", __m256i, _mm256_set1_epi32, DOT_AVXVNNI, FIRST_256)
PEAK_DOT(avx512vnni, "avx512f,avx512vnni", __m512i, _mm512_set1_epi32, DOT_AVX512VNNI, FIRST_512)

/* Products of pairs of bf16 into FP32 sums: the limit of a package with such products. The values do not
 * matter. */
#define SET_BF16(bits)    _mm512_castsi512_ps(_mm512_set1_epi32(bits))
#define DOT_BF16(a, x, y) _mm512_dpbf16_ps(a, (__m512bh)(x), (__m512bh)(y))
#define FIRST_BF16(a)     FIRST_512(_mm512_castps_si512(a))
PEAK_DOT(bf16, "avx512f,avx512bf16", __m512, SET_BF16, DOT_BF16, FIRST_BF16)

static int has_bf16(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx512f") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 5);
}

typedef struct peak {
    bt_pool_fn *fn; /* NULL: there is none */
    double ops;     /* of one call of one thread */
} peak;

static peak peak_of(const tool_machine *m, tool_limit limit)
{
    static const struct {
        const char *isa;
        peak fp32, int8;
    } peaks[] = {{"avx512vnni", {peak_16, 24.0 * 16 * PEAK_STEPS}, {peak_avx512vnni, 20.0 * 64 * PEAK_STEPS}},
                 /* its integer kernels are those of avx2 */
                 {"avx512", {peak_16, 24.0 * 16 * PEAK_STEPS}, {peak_avx2, 20.0 * 32 * PEAK_STEPS}},
                 {"avxvnni", {peak_8, 24.0 * 8 * PEAK_STEPS}, {peak_avxvnni, 20.0 * 32 * PEAK_STEPS}},
                 {"avx2", {peak_8, 24.0 * 8 * PEAK_STEPS}, {peak_avx2, 20.0 * 32 * PEAK_STEPS}}};
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++) {
        if (strcmp(m->kernels->isa, peaks[i].isa)) continue;
        if (limit == TOOL_BF16)
            return strncmp(m->kernels->isa, "avx512", 6) || !has_bf16()
                       ? (peak){0}
                       : (peak){peak_bf16, 20.0 * 32 * PEAK_STEPS};
        return limit == TOOL_FP32 ? peaks[i].fp32 : peaks[i].int8;
    }
    return (peak){0};
}

double tool_peak(const tool_machine *m, tool_limit limit)
{
    const peak p = peak_of(m, limit);
    return p.fn ? p.ops * (double)m->threads / tool_measure(m->pool, p.fn, NULL) : 0;
}

double tool_peak_once(const tool_machine *m, tool_limit limit)
{
    enum { CALLS = 32 };
    const peak p = peak_of(m, limit);
    if (!p.fn) return 0;
    const int64_t begin = bt_clock_us();
    for (int i = 0; i < CALLS; i++) bt_pool_run(m->pool, p.fn, NULL);
    return p.ops * CALLS * (double)m->threads * 1e6 / (double)(bt_clock_us() - begin);
}
#else
double tool_peak(const tool_machine *m, tool_limit limit) { return (void)m, (void)limit, 0; }
double tool_peak_once(const tool_machine *m, tool_limit limit) { return (void)m, (void)limit, 0; }
#endif

typedef uint64_t word __attribute__((vector_size(16)));

static void read_part(void *ud, size_t part, size_t parts)
{
    const uint64_t *p = ud;
    size_t begin, end;
    bt_pool_slice(&begin, &end, READ_BYTES / sizeof *p, 512, part, parts);
    const size_t run = (end - begin) / 16; /* four streams of 16-byte words */
    const word *a = (const void *)(p + begin), *b = a + 2 * run, *c = b + 2 * run, *d = c + 2 * run;
    word s0 = {0}, s1 = s0, s2 = s0, s3 = s0;
    for (size_t i = 0; i < 2 * run; i += 2)
        s0 |= a[i] | a[i + 1], s1 |= b[i] | b[i + 1], s2 |= c[i] | c[i + 1], s3 |= d[i] | d[i + 1];
    s0 |= s1 | s2 | s3;
    read_sink = s0[0] | s0[1];
}

bt_err tool_machine_init(tool_machine *ret, const bt_kernels *kernels, bt_fault *fault)
{
    void *p = mmap(NULL, READ_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return bt_fail(fault, BT_ENOMEM, "out of memory for %zu MiB to measure the rate of reading",
                       READ_BYTES >> 20);
    memset(p, 1, READ_BYTES);
    *ret = (tool_machine){.kernels = kernels, .memory = p};
    return BT_OK;
}

void tool_machine_done(tool_machine *m)
{
    if (m->memory) munmap(m->memory, READ_BYTES);
}

double tool_read_rate(const tool_machine *m)
{
    return (double)READ_BYTES / tool_measure(m->pool, read_part, m->memory);
}

double tool_read_once(const tool_machine *m)
{
    if (!m->memory) return 0;
    const int64_t begin = bt_clock_us();
    bt_pool_run(m->pool, read_part, m->memory);
    return (double)READ_BYTES * 1e6 / (double)(bt_clock_us() - begin);
}

void tool_machine_measure(tool_machine *m, bt_pool *pool)
{
    m->pool = pool;
    m->threads = bt_pool_threads(pool);
    m->int8_ops = tool_peak(m, TOOL_INT8);
    m->bf16_flops = tool_peak(m, TOOL_BF16);
    m->fma_flops = tool_peak(m, TOOL_FP32);
    m->read_bytes = tool_read_rate(m);
}
