/* Masks of grammars: processor time of a step for the default model's vocabulary and for those of files, over
 * answers drawn at random; and answers drawn for schemas of others, for tests/grammar/judge.py.
 *
 *   bench_grammar [GGUF...]
 *   bench_grammar draw GGUF TIMES SEED < SCHEMAS
 *       one schema a line; for each, lines "= answer", "? why it has no end" or "! why it is refused", and
 *       "."
 */
#include "base/clock.h"
#include "base/rng.h"
#include "grammar/mask.h"
#include "grammar/compile.h"
#include "model/gguf.h"
#include "model/model.h"
#include "model/vocab.h"
#include "tests/bench/kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 4000, SHORT_TOKENS = 150, ANSWERS = 12, MAX_STEPS = 1 << 18 };

static const struct {
    const char *name, *schema;
} rows[] = {
    {"any object", NULL},
    {"a record", "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
                 "\"integer\",\"minimum\":0,"
                 "\"maximum\":150},\"email\":{\"type\":\"string\"},\"tags\":{\"type\":\"array\",\"items\":{"
                 "\"type\":\"string\"}},"
                 "\"active\":{\"type\":\"boolean\"},\"score\":{\"type\":\"number\"}},\"required\":[\"name\","
                 "\"age\",\"tags\"]}"},
    {"a tree", "{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"},"
               "\"kind\":{\"enum\":[\"a\","
               "\"bc\",\"bd\"]},\"below\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
               "n\"}}},\"required\":[\"text\","
               "\"kind\",\"below\"]}},\"$ref\":\"#/$defs/n\"}"},
    {"parts of several kinds", "{\"type\":\"array\",\"minItems\":2,\"items\":{\"anyOf\":[{\"type\":"
                               "\"object\",\"properties\":{\"t\":{\"const\":"
                               "\"move\"},\"x\":{\"type\":\"integer\"},\"y\":{\"type\":\"integer\"}},"
                               "\"required\":[\"t\",\"x\",\"y\"]},{\"type\":"
                               "\"object\",\"properties\":{\"t\":{\"const\":\"say\"},\"words\":{\"type\":"
                               "\"string\"}},\"required\":[\"t\","
                               "\"words\"]}]}}"},
    {"a pattern", "{\"type\":\"string\",\"pattern\":\"^[A-Z][a-z]+( [A-Z][a-z]+)*$\"}"},
    {"a pattern anywhere", "{\"type\":\"string\",\"pattern\":\"[0-9]{2}\"}"},
    {"a length", "{\"type\":\"string\",\"minLength\":20,\"maxLength\":60}"},
    {"formats", "{\"type\":\"object\",\"properties\":{\"when\":{\"type\":\"string\",\"format\":\"date-time\"}"
                ",\"id\":{\"type\":"
                "\"string\",\"format\":\"uuid\"},\"from\":{\"type\":\"string\",\"format\":\"email\"}},"
                "\"required\":[\"when\","
                "\"id\",\"from\"]}"},
};

typedef struct vocabulary {
    bt_gguf *g;
    bt_tokenizer *tok;
    bt_trie *trie;
    uint64_t *bits;
} vocabulary;

static bt_trie_kind kind(void *ud, size_t id)
{
    const bt_tokenizer *tok = ud;
    const bt_token_type type = bt_tokenizer_type(tok, (int32_t)id);
    if (bt_tokenizer_is_eog(tok, (int32_t)id)) return BT_TRIE_END;
    return type == BT_TOKEN_NORMAL || type == BT_TOKEN_BYTE ? BT_TRIE_TEXT : BT_TRIE_NONE;
}

static const char *piece(void *ud, size_t id, size_t *ret_len)
{
    const bt_text_span s = bt_tokenizer_piece(ud, (int32_t)id);
    *ret_len = s.len;
    return s.ptr;
}

static void open_vocabulary(vocabulary *v, const char *path, bool is_shown)
{
    bt_fault f;
    if (bt_gguf_open(&v->g, path, &f) < 0 || bt_vocab_load(&v->tok, v->g, &f) < 0) bench_die(f.text);
    const bt_trie_source source = {bt_tokenizer_count(v->tok), kind, piece, v->tok};
    const int64_t begin = bt_clock_thread_us();
    if (bt_trie_new(&v->trie, &source, &f) < 0) bench_die(f.text);
    const char *slash = strrchr(path, '/');
    if (is_shown)
        printf("%s: %zu tokens, %zu nodes; the tree took %.0f ms and %.1f MB\n", slash ? slash + 1 : path,
               v->trie->tokens, v->trie->nodes, (double)(bt_clock_thread_us() - begin) / 1e3,
               (double)v->trie->bytes / 1e6);
    v->bits = bench_bytes(bt_mask_words(v->trie->tokens) * sizeof *v->bits);
}

static void close_vocabulary(vocabulary *v)
{
    bt_trie_free(v->trie);
    bt_tokenizer_free(v->tok);
    bt_gguf_close(v->g);
    free(v->bits);
}

static bool is_open(const vocabulary *v, int32_t id) { return v->bits[id / 64] >> (id % 64) & 1; }

/* The token of one byte, if it is open; -1. */
static int32_t closer(const vocabulary *v, char byte)
{
    const bt_trie *t = v->trie;
    for (uint32_t i = 1; i < t->nodes; i = t->node[i].skip)
        if (t->node[i].byte == (uint8_t)byte) {
            const int32_t id = t->node[i].token < 0 ? -1 : t->node[i].token % BT_TRIE_SAME;
            return id >= 0 && is_open(v, id) ? id : -1;
        }
    return -1;
}

/* One of the open tokens; long answers, and every fourth token, close what can be closed. */
static int32_t draw(const vocabulary *v, uint64_t *seed, size_t n)
{
    const size_t words = bt_mask_words(v->trie->tokens);
    const uint64_t r = bt_rng_u64(7, (*seed)++);
    if (n > SHORT_TOKENS || r % 4 == 0) {
        for (size_t i = 0; i < v->trie->ends; i++)
            if (is_open(v, v->trie->end[i])) return v->trie->end[i];
        static const char closers[] = "]}0-";
        int32_t id = closer(v, '"');
        for (uint64_t i = 0; id < 0 && i < 4; i++) id = closer(v, closers[((r >> 8) + i) % 4]);
        if (id >= 0) return id;
    }
    const size_t from = (size_t)(bt_rng_u64(7, (*seed)++) % words);
    for (size_t i = 0; i <= words; i++) {
        const uint64_t word = v->bits[(from + i) % words];
        if (!word) continue;
        unsigned skip = (unsigned)(r >> 8) % (unsigned)__builtin_popcountll(word);
        uint64_t left = word;
        while (skip-- > 0) left &= left - 1;
        return (int32_t)((from + i) % words * 64 + (unsigned)__builtin_ctzll(left));
    }
    return -1;
}

/* Draws an answer into *out; the processor time of each mask goes into us[]. False with words in *f. */
static bool answer(bt_buf *out, const vocabulary *v, const bt_program *p, bt_mask *m, uint64_t *seed,
                   double *us, size_t *steps, bt_fault *f)
{
    bt_program_state s;
    bt_program_begin(&s, p);
    for (size_t n = 0; n < MAX_TOKENS; n++) {
        const int64_t begin = bt_clock_thread_us();
        if (bt_mask_fill(v->bits, m, &s, f) < 0) return false;
        if (us && *steps < MAX_STEPS) us[(*steps)++] = (double)(bt_clock_thread_us() - begin);
        const int32_t id = draw(v, seed, n);
        if (bt_tokenizer_is_eog(v->tok, id)) return true;
        const bt_text_span text = bt_tokenizer_piece(v->tok, id);
        if (bt_program_accept(&s, p, text.ptr, text.len, f) < 0) return false;
        (void)bt_buf_add(out, text.ptr, text.len);
    }
    (void)bt_fail(f, BT_ELIMIT, "no end after %d tokens", MAX_TOKENS);
    return false;
}

static bt_err program_of(bt_program **ret, json_t *schema, bt_fault *f)
{
    bt_buf bytes;
    bt_buf_init(&bytes, BT_PROGRAM_BYTES);
    bt_err e = schema ? bt_schema_compile(&bytes, schema, f) : bt_schema_any_object(&bytes, f);
    if (e == BT_OK) e = bt_program_new(ret, bytes.data, bytes.len, f);
    bt_buf_done(&bytes);
    return e;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_row(const char *name, double *us, size_t n, const char *more)
{
    if (n == 0) return;
    qsort(us, n, sizeof *us, by_size);
    printf("  %-24s %7zu masks   p50 %7.1f us   p99 %8.1f us   worst %8.1f us   %s\n", name, n, us[n / 2],
           us[n * 99 / 100], us[n - 1], more);
}

static void measure(const char *path)
{
    vocabulary v;
    bt_fault f = {""};
    size_t all = 0;
    double *us = bench_bytes(MAX_STEPS * sizeof *us);
    open_vocabulary(&v, path, true);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *schema = rows[i].schema ? json_loads(rows[i].schema, 0, NULL) : NULL;
        bt_program *p;
        bt_mask *m;
        bt_buf out;
        char more[64];
        const size_t from = all;
        uint64_t seed = 1 + i;
        const int64_t begin = bt_clock_thread_us();
        if (program_of(&p, schema, &f) < 0 || bt_mask_new(&m, p, v.trie, &f) < 0) bench_die(f.text);
        (void)snprintf(more, sizeof more, "compiled in %.1f ms",
                       (double)(bt_clock_thread_us() - begin) / 1e3);
        bt_buf_init(&out, 1 << 24);
        for (int k = 0; k < ANSWERS; k++)
            if (!answer(&out, &v, p, m, &seed, us, &all, &f)) printf("  %s: %s\n", rows[i].name, f.text);
        print_row(rows[i].name, us + from, all - from, more);
        bt_buf_done(&out);
        bt_mask_free(m);
        bt_program_free(p);
        json_decref(schema);
    }
    print_row("all", us, all, "");
    (void)fflush(stdout);
    free(us);
    close_vocabulary(&v);
}

static void draw_for(char **arg)
{
    vocabulary v;
    char *line = NULL;
    size_t cap = 0;
    uint64_t seed = strtoull(arg[2], NULL, 10);
    const long times = strtol(arg[1], NULL, 10);
    open_vocabulary(&v, arg[0], false);
    while (getline(&line, &cap, stdin) > 0) {
        bt_fault f = {""};
        json_t *schema = json_loads(line, JSON_DECODE_ANY, NULL);
        bt_program *p = NULL;
        bt_mask *m = NULL;
        if (!schema || program_of(&p, schema, &f) < 0 || bt_mask_new(&m, p, v.trie, &f) < 0)
            printf("! %s\n", schema ? f.text : "no JSON");
        for (long k = 0; m && k < times; k++) {
            bt_buf out;
            bt_buf_init(&out, 1 << 24);
            if (answer(&out, &v, p, m, &seed, NULL, NULL, &f)) {
                json_t *text = json_stringn_nocheck(bt_buf_text(&out), out.len);
                char *shown = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
                printf("= %s\n", shown ? shown : "null");
                free(shown);
                json_decref(text);
            } else {
                printf("? %s\n", f.text);
            }
            bt_buf_done(&out);
        }
        printf(".\n");
        (void)fflush(stdout);
        bt_mask_free(m);
        bt_program_free(p);
        json_decref(schema);
    }
    free(line);
    close_vocabulary(&v);
}

int main(int argc, char **argv)
{
    char path[4096];
    bt_fault f;
    if (argc == 5 && strcmp(argv[1], "draw") == 0) {
        draw_for(argv + 2);
        return 0;
    }
    if (bt_model_find(path, sizeof path, "smollm2", &f) < 0) bench_die(f.text);
    measure(path);
    for (int i = 1; i < argc; i++) measure(argv[i]);
    return 0;
}
