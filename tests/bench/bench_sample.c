/* How long one core takes to draw a token from a row of logits, by parameters and by the shape of the logits.
 *
 *   bench_sample [--isa ISA] [--vocab N] [--json]
 *
 * "model": a normal distribution of deviation 3, as a model's logits have it; "flat": the same of deviation
 * 0.01, of which top_p leaves nearly everything. "us": the median draw, "best us": the fastest. "quiet": the
 * share of the time in which this thread had its core; the rest went to other programs. */
#include "base/clock.h"
#include "base/rng.h"
#include "kernels/kernels.h"
#include "sample/sample.h"
#include "tests/bench/kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 8, RUNS = 600, VOCAB = 262144, VOCAB_MAX = 1 << 20 };

static const struct {
    const char *name;
    bt_sample_params p;
} kinds[] = {
    {"greedy", {.top_p = 1}},
    {"top_k 40", {.temperature = 0.8f, .top_p = 1, .top_k = 40}},
    {"top_k 1000", {.temperature = 0.8f, .top_p = 1, .top_k = 1000}},
    {"min_p 0.05", {.temperature = 0.8f, .top_p = 1, .min_p = 0.05f}},
    {"the defaults", {.temperature = 0.8f, .top_p = 0.95f, .top_k = 40, .min_p = 0.05f}},
    {"temperature", {.temperature = 0.8f, .top_p = 1}},
    {"top_p 0.5", {.temperature = 0.8f, .top_p = 0.5f}},
    {"top_p 0.99", {.temperature = 0.8f, .top_p = 0.99f}},
    {"logprobs", {.top_p = 1, .logprobs = true, .top_logprobs = 20}},
};

static float *logits_new(size_t vocab, double deviation)
{
    float *z = bench_bytes(ROWS * vocab * sizeof *z);
    for (size_t i = 0; i < ROWS * vocab; i++) {
        const double u = bt_rng_uniform(1, 2 * i), v = bt_rng_uniform(1, 2 * i + 1);
        z[i] = (float)(deviation * sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v));
    }
    return z;
}

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void measure(bt_sample *s, size_t kind, const char *shape, const float *z, size_t vocab, bool json,
                    bool first)
{
    static double us[RUNS];
    bt_sample_params p = kinds[kind].p;
    double best = INFINITY, wall = 0;
    const double cpu = cpu_us();
    for (size_t i = 0; i < RUNS; i++) {
        const bt_sample_history h = {.generated_len = i};
        bt_sample_logprob l;
        int32_t id;
        p.seed = i;
        const int64_t from = bt_clock_ns();
        if (bt_sample_token(&id, &l, s, &p, z + i % ROWS * vocab, &h, NULL) < 0) bench_die("no token");
        us[i] = (double)(bt_clock_ns() - from) * 1e-3;
        best = us[i] < best ? us[i] : best;
        wall += us[i];
    }
    const double quiet = (cpu_us() - cpu) / wall, median = bench_median(us, RUNS);
    if (json)
        printf("%s    {\"parameters\": \"%s\", \"logits\": \"%s\", \"us\": %.1f, \"best_us\": %.1f, "
               "\"quiet\": %.2f}",
               first ? "" : ",\n", kinds[kind].name, shape, median, best, quiet);
    else printf("%-14s %-7s %9.1f %9.1f %6.2f\n", kinds[kind].name, shape, median, best, quiet);
}

int main(int argc, char **argv)
{
    const char *isa = NULL;
    size_t vocab = VOCAB;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) json = true;
        else if (!strcmp(argv[i], "--isa") && i + 1 < argc) isa = argv[++i];
        else if (!strcmp(argv[i], "--vocab") && i + 1 < argc) vocab = strtoul(argv[++i], NULL, 10);
        else bench_die("usage: bench_sample [--isa ISA] [--vocab N] [--json]");
    }
    const bt_kernels *k = bt_kernels_select(isa);
    bt_sample *s = NULL;
    if (!k) bench_die("--isa is not one of " BT_KERNELS_NAMES " that this machine can run");
    if (vocab > VOCAB_MAX || bt_sample_new(&s, k, vocab, NULL) < 0) bench_die("--vocab is 1 to 1048576");
    if (json) printf("{\"isa\": \"%s\", \"vocab\": %zu, \"rows\": [\n", k->isa, vocab);
    else
        printf("%s, %zu ids\n%-14s %-7s %9s %9s %6s\n", k->isa, vocab, "parameters", "logits", "us",
               "best us", "quiet");
    for (int flat = 0; flat < 2; flat++) {
        float *z = logits_new(vocab, flat ? 0.01 : 3);
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            measure(s, i, flat ? "flat" : "model", z, vocab, json, !flat && i == 0);
        free(z);
    }
    if (json) printf("\n  ]}\n");
    bt_sample_free(s);
    return 0;
}
