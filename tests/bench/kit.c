/* See kit.h. */
#include "tests/bench/kit.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES      7
#define SAMPLE_US    20000
#define READ_BYTES   ((size_t)1 << 30)

_Noreturn void bench_die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

void *bench_bytes(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes)) bench_die("out of memory");
    memset(p, 0, bytes);
    return p;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *samples, size_t n)
{
    qsort(samples, n, sizeof *samples, by_value);
    return samples[n / 2];
}

double bench_measure(bt_pool *pool, bt_pool_fn *fn, void *ud)
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
    return bench_median(samples, SAMPLES);
}

/* ---- the machine's limits ---- */
#define PEAK_STEPS 100000
static volatile float peak_sink;
static volatile uint64_t read_sink;

#if defined(__x86_64__)
#include <immintrin.h>
#define PEAK(width, ext, type, set1, fma, first)                                                             \
    __attribute__((target(ext))) static void peak_##width(void *ud, size_t part, size_t parts)               \
    {                                                                                                        \
        (void)ud, (void)parts;                                                                               \
        const type x = set1(0.999f), y = set1(0.001f);                                                       \
        type a = set1((float)part), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a,    \
             l = a;                                                                                          \
        for (size_t n = 0; n < PEAK_STEPS; n++) {                                                            \
            a = fma(a, x, y), b = fma(b, x, y), c = fma(c, x, y), d = fma(d, x, y);                          \
            e = fma(e, x, y), f = fma(f, x, y), g = fma(g, x, y), h = fma(h, x, y);                          \
            i = fma(i, x, y), j = fma(j, x, y), k = fma(k, x, y), l = fma(l, x, y);                          \
            __asm__(""                                                                                       \
                    : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h), "+v"(i),       \
                      "+v"(j));                                                                              \
        }                                                                                                    \
        peak_sink = first(a) + first(b) + first(c) + first(d) + first(e) + first(f) + first(g) + first(h) +  \
                    first(i) + first(j) + first(k) + first(l);                                               \
    }
PEAK(8, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_cvtss_f32)
PEAK(16, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_cvtss_f32)

/* Sums of products of bytes: AVX2 needs three instructions for 32 of them, VNNI one. */
#define PEAK_INT(isa, ext, type, set1, dot, first)                                                           \
    __attribute__((target(ext))) static void peak_##isa(void *ud, size_t part, size_t parts)                 \
    {                                                                                                        \
        (void)ud, (void)parts;                                                                               \
        const type x = set1(0x01020304), y = set1(0x00010001);                                               \
        type a = set1((int)part), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a;             \
        for (size_t n = 0; n < PEAK_STEPS; n++) {                                                            \
            a = dot(a, x, y), b = dot(b, x, y), c = dot(c, x, y), d = dot(d, x, y), e = dot(e, x, y);        \
            f = dot(f, x, y), g = dot(g, x, y), h = dot(h, x, y), i = dot(i, x, y), j = dot(j, x, y);        \
            __asm__(""                                                                                       \
                    : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h), "+v"(i),       \
                      "+v"(j));                                                                              \
        }                                                                                                    \
        peak_sink = (float)(first(a) ^ first(b) ^ first(c) ^ first(d) ^ first(e) ^ first(f) ^ first(g) ^     \
                            first(h) ^ first(i) ^ first(j));                                                 \
    }
#define DOT_AVX2(a, x, y)       _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_maddubs_epi16(x, a), y))
#define DOT_AVXVNNI(a, x, y)    ((void)(y), _mm256_dpbusd_avx_epi32(a, x, a))
#define DOT_AVX512VNNI(a, x, y) ((void)(y), _mm512_dpbusd_epi32(a, x, a))
#define FIRST_256(a)            _mm_cvtsi128_si32(_mm256_castsi256_si128(a))
#define FIRST_512(a)            _mm_cvtsi128_si32(_mm512_castsi512_si128(a))
PEAK_INT(avx2, "avx2", __m256i, _mm256_set1_epi32, DOT_AVX2, FIRST_256)
PEAK_INT(avxvnni, "avx2,avxvnni", __m256i, _mm256_set1_epi32, DOT_AVXVNNI, FIRST_256)
PEAK_INT(avx512vnni, "avx512f,avx512vnni", __m512i, _mm512_set1_epi32, DOT_AVX512VNNI, FIRST_512)

static size_t peak_width(const machine *m)
{
    return !strncmp(m->kernels->isa, "avx512", 6) ? 16 : !strncmp(m->kernels->isa, "avx", 3) ? 8 : 0;
}

static double peak_flops_in(const machine *m, double seconds)
{
    return 2.0 * 12 * (double)peak_width(m) * PEAK_STEPS * (double)m->threads / seconds;
}

double bench_peak_flops(const machine *m)
{
    const size_t width = peak_width(m);
    return width ? peak_flops_in(m, bench_measure(m->pool, width == 16 ? peak_16 : peak_8, NULL)) : 0;
}

double bench_peak_flops_once(const machine *m)
{
    enum { CALLS = 32 };
    const size_t width = peak_width(m);
    if (!width) return 0;
    const int64_t begin = bt_clock_us();
    for (int i = 0; i < CALLS; i++) bt_pool_run(m->pool, width == 16 ? peak_16 : peak_8, NULL);
    return peak_flops_in(m, (double)(bt_clock_us() - begin) * 1e-6 / CALLS);
}

double bench_peak_int8(const machine *m)
{
    static const struct {
        const char *isa;
        bt_pool_fn *fn;
        double products;
    } peaks[] = {{"avx512vnni", peak_avx512vnni, 64},
                 {"avxvnni", peak_avxvnni, 32},
                 {"avx512", peak_avx2, 32}, /* which uses the integers of avx2 */
                 {"avx2", peak_avx2, 32}};
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++)
        if (!strcmp(m->kernels->isa, peaks[i].isa))
            return 2.0 * 10 * peaks[i].products * PEAK_STEPS * (double)m->threads /
                   bench_measure(m->pool, peaks[i].fn, NULL);
    return 0;
}
#else
double bench_peak_flops(const machine *m) { return (void)m, 0; }
double bench_peak_flops_once(const machine *m) { return (void)m, 0; }
double bench_peak_int8(const machine *m) { return (void)m, 0; }
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

/* The memory is kept from call to call, so that a pass can stand directly before and after a timing. */
static uint64_t *read_memory(void)
{
    static uint64_t *memory;
    if (!memory) {
        memory = bench_bytes(READ_BYTES);
        memset(memory, 1, READ_BYTES);
    }
    return memory;
}

double bench_read_rate(const machine *m) { return (double)READ_BYTES / bench_measure(m->pool, read_part, read_memory()); }

double bench_read_once(const machine *m)
{
    uint64_t *memory = read_memory();
    const int64_t begin = bt_clock_us();
    bt_pool_run(m->pool, read_part, memory);
    return (double)READ_BYTES * 1e6 / (double)(bt_clock_us() - begin);
}

/* peak: of the operations that `flops` counts, named `limit`. touched: bytes until a call meets the same ones
 * again. */
figure bench_rate_of(const machine *m, const char *name, double peak, const char *limit, size_t t,
                      double flops, double bytes, double touched, double seconds)
{
    figure f = {.name = name,
                .t = t,
                .us = seconds * 1e6,
                .gflops = flops / seconds * 1e-9,
                .gbytes = bytes / seconds * 1e-9};
    const double compute = peak > 0 ? flops / peak : 0;
    const double memory = touched > BENCH_CACHE_BYTES ? bytes / m->read_bytes : 0;
    f.bound = memory > compute ? "read" : limit;
    f.ratio = (memory > compute ? memory : compute) / seconds;
    return f;
}
figure bench_rate(const machine *m, const char *name, size_t t, double flops, double bytes, double seconds)
{
    return bench_rate_of(m, name, m->fma_flops, "fma", t, flops, bytes, bytes, seconds);
}

/* ---- report ---- */
void bench_print_machine(const machine *m, int json, int first)
{
    if (json)
        printf("%s{\"isa\": \"%s\", \"threads\": %zu, \"fma_gflops\": %.1f, \"int8_gops\": %.1f, "
               "\"read_gbytes_per_second\": %.2f, \"rows\": [",
               first ? "[" : ", ", m->kernels->isa, m->threads, m->fma_flops * 1e-9, m->int8_ops * 1e-9,
               m->read_bytes * 1e-9);
    else
        printf("%sisa %s, threads %zu: %.1f GFLOP/s and %.1f GOP/s of int8 in registers, %.2f GB/s reading "
               "%zu MiB\n"
               "  %-8s %-16s %5s %12s %9s %9s %6s %6s\n",
               first ? "" : "\n", m->kernels->isa, m->threads, m->fma_flops * 1e-9, m->int8_ops * 1e-9,
               m->read_bytes * 1e-9, READ_BYTES >> 20, "kernel", "shape", "T", "time us", "GFLOP/s", "GB/s",
               "limit", "ratio");
}

void bench_print_figure(const figure *f, int json, int first)
{
    if (json)
        printf("%s{\"kernel\": \"%s\", \"shape\": \"%s\", \"t\": %zu, \"time_us\": %.1f, \"gflops\": %.2f, "
               "\"gbytes_per_second\": %.2f, \"limit\": \"%s\", \"ratio_to_roofline\": %.3f}",
               first ? "" : ", ", f->name, f->shape, f->t, f->us, f->gflops, f->gbytes, f->bound, f->ratio);
    else
        printf("  %-8s %-16s %5zu %12.1f %9.2f %9.2f %6s %6.2f\n", f->name, f->shape, f->t, f->us, f->gflops,
               f->gbytes, f->bound, f->ratio);
    fflush(stdout);
}

