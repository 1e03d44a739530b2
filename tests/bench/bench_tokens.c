/* Processor time of tokenizers: ordinary text in MB a second, and 1 and 2 MB of one character, whose seconds
 * are held against a bound. Each family has a vocabulary of pairs; then come the default model's, and those
 * of files.
 *
 *   bench_tokens [GGUF...]
 *
 * 1 MB and 2 MB are measured in turn; the ratio is the median of the pairs'. Exit code 1: 1 MB takes over 0.5
 * s, or 2 MB over 2.2 times as long. */
#include "base/clock.h"
#include "model/gguf.h"
#include "model/model.h"
#include "model/vocab.h"
#include "tests/bench/kit.h"
#include "tests/helpers/model/small_vocab.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MB = 1000000, FEW = 3, MANY = 11, LIMIT_US = 500000 };
static const double RATIO = 2.2;

static const struct {
    const char *name, *unit;
} rows[] = {
    {"letters", "a"},
    {"capitals", "A"},
    {"spaces", " "},
    {"newlines", "\n"},
    {"digits", "7"},
    {"punctuation", "!"},
    {"emoji", "\U0001F999"},
    {"CJK", "\u6211"},
    {"marks", "\u0301"},
    {"unsorted marks", "\u0301\u0323"},
    {"parts of Hangul", "\u1112\u1161\u11AB"},
    {"spaces and emoji", "    \U0001F999"},
};
static const char *const prose = "Hello world, it's 12:30 on Tuesday. \"What a day,\" she said;\n\tint "
                                 "main(void) { return x[3] != 0x7F; }\n"
                                 "Le caf\u00e9 est ferm\u00e9. \u6211\u60f3\u4e70\u4e00\u672c\u4e66\u3002 "
                                 "\u041f\u0440\u0438\u0432\u0435\u0442, "
                                 "\u043c\u0438\u0440! \U0001F999\n";

static char text[2 * MB + 64];

static size_t fill(const char *unit, size_t bytes)
{
    const size_t n = strlen(unit), len = bytes / n * n;
    for (size_t at = 0; at < len; at += n) memcpy(text + at, unit, n);
    return len;
}

/* Microseconds of a processor. */
static int64_t encode_us(const bt_tokenizer *tok, size_t len)
{
    int32_t *ids;
    size_t n;
    bt_fault f;
    const int64_t begin = bt_clock_thread_us();
    if (bt_tokenizer_encode(&ids, &n, tok, text, len, 0, &f) < 0) bench_die(f.text);
    const int64_t us = bt_clock_thread_us() - begin;
    free(ids);
    return us;
}

typedef struct figures {
    int64_t one_us, two_us; /* the least */
    double ratio;
} figures;

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A few pairs are enough where they keep the bounds. */
static figures measure_row(const bt_tokenizer *tok, const char *unit)
{
    figures f = {INT64_MAX, INT64_MAX, 0};
    double ratio[MANY];
    const size_t len = fill(unit, MB);
    (void)fill(unit, 2 * len);
    for (size_t n = 0; n < FEW || (n < MANY && (f.one_us > LIMIT_US || f.ratio > RATIO)); n++) {
        const int64_t one = encode_us(tok, len), two = encode_us(tok, 2 * len);
        if (one < f.one_us) f.one_us = one;
        if (two < f.two_us) f.two_us = two;
        ratio[n] = (double)two / (double)(one ? one : 1);
        qsort(ratio, n + 1, sizeof *ratio, by_size);
        f.ratio = ratio[n / 2];
    }
    return f;
}

static bool measure(const char *name, const bt_tokenizer *tok)
{
    bool is_good = true;
    figures worst = {0};
    const char *worst_row = "";
    double ratio = 0;
    const size_t len = fill(prose, MB);
    const double rate = (double)len / (double)encode_us(tok, len);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const figures f = measure_row(tok, rows[i].unit);
        if (f.one_us > worst.one_us) {
            worst = f;
            worst_row = rows[i].name;
        }
        if (f.ratio > ratio) ratio = f.ratio;
        if (f.one_us <= LIMIT_US && f.ratio <= RATIO) continue;
        is_good = false;
        printf("%s, %s: %.3f s for 1 MB, %.3f s for 2 MB\n", name, rows[i].name, (double)f.one_us / 1e6,
               (double)f.two_us / 1e6);
    }
    printf("%-28s %6.1f MB/s   1 MB at worst %.3f s (%s), 2 MB %.2f times as long\n", name, rate,
           (double)worst.one_us / 1e6, worst_row, ratio);
    (void)fflush(stdout);
    return is_good;
}

static bool measure_file(const char *path)
{
    bt_fault f;
    bt_gguf *g;
    bt_tokenizer *tok;
    if (bt_gguf_open(&g, path, &f) < 0 || bt_vocab_load(&tok, g, &f) < 0) bench_die(f.text);
    const char *slash = strrchr(path, '/');
    const bool is_good = measure(slash ? slash + 1 : path, tok);
    bt_tokenizer_free(tok);
    bt_gguf_close(g);
    return is_good;
}

int main(int argc, char **argv)
{
    static const char *const families[] = {"gpt-2",     "llama-bpe",   "qwen2",        "smollm",
                                           "command-r", "olmo",        "dbrx",         "gpt-4o",
                                           "tekken",    "deepseek-v3", "deepseek-llm", "deepseek-coder"};
    bool is_good = true;
    char path[4096];
    bt_fault f;
    /* Large memory is new for each text; else what an earlier one has touched makes texts of some lengths
     * cheaper. */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 18);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        bt_vocab_source src;
        bt_tokenizer *tok;
        small_bpe_pairs(&src, families[i]);
        if (bt_tokenizer_new(&tok, &src, &f) < 0) bench_die(f.text);
        is_good &= measure(families[i], tok);
        bt_tokenizer_free(tok);
    }
    if (bt_model_find(path, sizeof path, "smollm2", &f) < 0) bench_die(f.text);
    is_good &= measure_file(path);
    for (int i = 1; i < argc; i++) is_good &= measure_file(argv[i]);
    return !is_good;
}
