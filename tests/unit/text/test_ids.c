/* Ids of texts through Baton and through Hugging Face's tokenizers: tests/tokenizers says how the latter were
 * asked. The splitters of all families and the default model's vocabulary are always there; others lie in the
 * folder that BATON_TOKENIZERS names (make test-tokenizers), with the other side's ids. */
#include "base/buf.h"
#include "base/file.h"
#include "crypto/sha256.h"
#include "model/gguf.h"
#include "model/model.h"
#include "model/vocab.h"
#include "tests/helpers/model/small_vocab.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define TABLE "tests/tokenizers/ids.tsv"

/* As tests/tokenizers/texts.py has it. */
enum {
    POINTS_END = 0x32000,
    SURROGATES = 0xD800,
    SURROGATES_END = 0xE000,
    POINTS = POINTS_END - (SURROGATES_END - SURROGATES),
    RANDOM = 10000,
    TEXTS = POINTS + RANDOM,
    POINTS_A_BLOCK = 8192,
    RANDOM_A_BLOCK = 1000,
    POINT_BLOCKS = (POINTS + POINTS_A_BLOCK - 1) / POINTS_A_BLOCK,
    BLOCKS = POINT_BLOCKS + RANDOM / RANDOM_A_BLOCK,
    CELL_CHARS = 16
};

static bt_buf table, bytes; /* the hashes; all texts, end to end */
static uint32_t begin[TEXTS + 1];

/* ---- texts ---- */

static void add_point(uint32_t c)
{
    if (c < 0x80) (void)bt_buf_byte(&bytes, (uint8_t)c);
    for (int n = c < 0x80 ? 0 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, i = n - 1; i >= 0; i--) {
        const uint32_t lead = n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0;
        (void)bt_buf_byte(&bytes, (uint8_t)(i == n - 1 ? lead | c >> 6 * i : 0x80 | (c >> 6 * i & 0x3F)));
    }
}

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* A range that stands twice is drawn twice as often. */
static uint32_t draw_point(uint64_t *state)
{
    static const struct {
        uint32_t first, count;
    } ranges[] = {{0x61, 26},      {0x61, 26},       {0x61, 26},     {0x41, 26},      {0x20, 1},
                  {0x20, 1},       {0x21, 15},       {0x3A, 7},      {0x30, 10},      {0x09, 5},
                  {0x27, 1},       {0xA0, 0x1B0},    {0x300, 112},   {0x370, 0x190},  {0x590, 0x170},
                  {0x900, 0x80},   {0x1100, 256},    {0x2000, 0x70}, {0x3000, 0x100}, {0x4E00, 20902},
                  {0xAC00, 11172}, {0x1F300, 0x400}, {0, 0x110000}};
    const size_t i = draw(state) % (sizeof ranges / sizeof *ranges);
    const uint32_t c = ranges[i].first + draw(state) % ranges[i].count;
    return c >= SURROGATES && c < SURROGATES_END ? 0xFFFD : c;
}

static void make_texts(void)
{
    uint64_t state = 1;
    size_t n = 0;
    bt_buf_init(&bytes, 16 << 20);
    for (uint32_t c = 0; c < POINTS_END; c++) {
        if (c >= SURROGATES && c < SURROGATES_END) continue;
        begin[n++] = (uint32_t)bytes.len;
        add_point(c);
    }
    while (n < TEXTS) {
        begin[n++] = (uint32_t)bytes.len;
        for (uint32_t left = 1 + draw(&state) % 60; left > 0; left--) add_point(draw_point(&state));
    }
    begin[n] = (uint32_t)bytes.len;
}

static size_t block_begin(int block)
{
    return block < POINT_BLOCKS ? (size_t)block * POINTS_A_BLOCK
                                : POINTS + (size_t)(block - POINT_BLOCKS) * RANDOM_A_BLOCK;
}

static size_t block_end(int block)
{
    return block == POINT_BLOCKS - 1
               ? POINTS
               : block_begin(block) + (block < POINT_BLOCKS ? POINTS_A_BLOCK : RANDOM_A_BLOCK);
}

/* ---- ids ---- */

static void add_number(bt_buf *out, uint32_t n)
{
    for (int shift = 0; shift < 32; shift += 8) (void)bt_buf_byte(out, (uint8_t)(n >> shift));
}

/* The ids of a text as the other side writes them down: their count, then each. */
static void add_ids(bt_buf *out, const bt_tokenizer *tok, size_t text)
{
    int32_t *ids;
    size_t n;
    bt_fault f;
    if (bt_tokenizer_encode(&ids, &n, tok, (const char *)bytes.data + begin[text],
                            begin[text + 1] - begin[text], 0, &f) < 0)
        fail_msg("text %zu: %s", text, f.text);
    add_number(out, (uint32_t)n);
    for (size_t i = 0; i < n; i++) add_number(out, (uint32_t)ids[i]);
    free(ids);
}

/* The first cell of a vocabulary's row; NULL: it has none. */
static const char *find_row(const char *name)
{
    const size_t n = strlen(name);
    for (const char *line = bt_buf_text(&table); line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, name, n) == 0 && line[n] == '\t') return line + n + 1;
    return NULL;
}

static bool is_hash(const char *cell, const uint8_t *ids, size_t len)
{
    char hash[BT_SHA256_HEX_CHARS];
    bt_sha256 sha;
    bt_sha256_begin(&sha);
    bt_sha256_add(&sha, ids, len);
    return memcmp(cell, bt_sha256_end_hex(hash, &sha), CELL_CHARS) == 0;
}

static void check_block(const char *name, const char *row, const bt_tokenizer *tok, int block)
{
    bt_buf out;
    bt_buf_init(&out, 64 << 20);
    for (size_t i = block_begin(block); i < block_end(block); i++) add_ids(&out, tok, i);
    assert_int_equal(out.err, BT_OK);
    if (!is_hash(row + (size_t)block * (CELL_CHARS + 1), out.data, out.len))
        fail_msg("%s: other ids than those of " TABLE " in texts %zu to %zu", name, block_begin(block),
                 block_end(block) - 1);
    bt_buf_done(&out);
}

static void check_blocks(const char *name, const bt_tokenizer *tok, int step)
{
    const char *row = find_row(name);
    if (!row) fail_msg("no %s in " TABLE, name);
    assert_true(strcspn(row, "\n") == (size_t)BLOCKS * (CELL_CHARS + 1) - 1);
    for (int b = 0; b < BLOCKS; b += step) check_block(name, row, tok, b);
}

static bt_tokenizer *splitter(const char *family)
{
    bt_vocab_source src;
    bt_tokenizer *tok = NULL;
    bt_fault f;
    small_bpe_pairs(&src, family);
    if (bt_tokenizer_new(&tok, &src, &f) < 0) fail_msg("%s", f.text);
    return tok;
}

static const char *const families[] = {"gpt-2",     "llama-bpe",   "qwen2",        "smollm",
                                       "command-r", "olmo",        "dbrx",         "gpt-4o",
                                       "tekken",    "deepseek-v3", "deepseek-llm", "deepseek-coder"};
enum { FAMILIES = sizeof families / sizeof *families };

/* Every fourth block, to save time: make test-tokenizers takes all. */
static void families_cut_texts_as_their_published_expressions_do(void **s)
{
    (void)s;
    for (size_t i = 0; i < FAMILIES; i++) {
        char name[64];
        bt_tokenizer *tok = splitter(families[i]);
        (void)snprintf(name, sizeof name, "split-%s", families[i]);
        check_blocks(name, tok, 4);
        bt_tokenizer_free(tok);
    }
}

static bt_tokenizer *open_vocabulary(const char *path)
{
    bt_gguf *g = NULL;
    bt_tokenizer *tok = NULL;
    bt_fault f;
    if (bt_gguf_open(&g, path, &f) < 0 || bt_vocab_load(&tok, g, &f) < 0) fail_msg("%s: %s", path, f.text);
    bt_gguf_close(g);
    return tok;
}

static void the_default_model_has_the_ids_of_its_own_tokenizer(void **s)
{
    (void)s;
    char path[4096];
    bt_fault f;
    const char *model = getenv("BATON_TEST_MODEL");
    if (bt_model_find(path, sizeof path, model ? model : "smollm2", &f) < 0) fail_msg("%s", f.text);
    bt_tokenizer *tok = open_vocabulary(path);
    check_blocks("smollm2", tok, 1);
    bt_tokenizer_free(tok);
}

/* ---- all texts, beside the ids themselves ---- */

static uint32_t number_at(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void show(const char *who, const uint8_t *ids)
{
    print_message("  %-13s", who);
    for (uint32_t i = 1; i <= number_at(ids) && i <= 20; i++)
        print_message(" %u", number_at(ids + (size_t)4 * i));
    print_message("\n");
}

/* Where the ids of a text end that begin at `at`. */
static size_t ids_end(const bt_buf *all, size_t at)
{
    assert_true(at + 4 <= all->len);
    const size_t end = at + 4 + (size_t)4 * number_at(all->data + at);
    assert_true(end <= all->len);
    return end;
}

static size_t compare_text(const char *name, const bt_tokenizer *tok, size_t text, const uint8_t *theirs,
                           size_t len, bool is_shown)
{
    bt_buf ours;
    bt_buf_init(&ours, 1 << 20);
    add_ids(&ours, tok, text);
    const bool differs = ours.len != len || memcmp(ours.data, theirs, len) != 0;
    if (differs && is_shown) {
        print_message("%s, text %zu:\n", name, text);
        show("Baton", ours.data);
        show("Hugging Face", theirs);
    }
    bt_buf_done(&ours);
    return differs;
}

/* Baton's ids against the other side's, and those against the table. */
static void compare(const char *name, const bt_tokenizer *tok, const bt_buf *theirs)
{
    const char *row = find_row(name);
    size_t at = 0, differ[2] = {0};
    for (int b = 0; b < BLOCKS; b++) {
        const size_t first = at;
        for (size_t i = block_begin(b), end; i < block_end(b); i++, at = end) {
            end = ids_end(theirs, at);
            differ[i >= POINTS] +=
                compare_text(name, tok, i, theirs->data + at, end - at, differ[0] + differ[1] == 0);
        }
        if (row && !is_hash(row + (size_t)b * (CELL_CHARS + 1), theirs->data + first, at - first))
            fail_msg("%s: Hugging Face has other ids than " TABLE " in block %d", name, b);
    }
    print_message("%-24s %d code points, %zu differ; %d random texts, %zu differ%s\n", name, POINTS,
                  differ[0], RANDOM, differ[1], row ? "" : "; not in " TABLE);
    assert_int_equal(differ[0] + differ[1], 0);
}

static void vocabularies_of_a_folder_have_the_ids_of_their_own_tokenizers(void **s)
{
    const char *folder = getenv("BATON_TOKENIZERS");
    char path[4096];
    glob_t found = {0};
    (void)s;
    if (!folder) skip();
    (void)snprintf(path, sizeof path, "%s/*.ids", folder);
    assert_int_equal(glob(path, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *base = strrchr(found.gl_pathv[i], '/') + 1;
        char name[128];
        bt_buf theirs;
        bt_fault f;
        (void)snprintf(name, sizeof name, "%.*s", (int)(strlen(base) - strlen(".ids")), base);
        (void)snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
        bt_tokenizer *tok = strncmp(name, "split-", 6) == 0 ? splitter(name + 6) : open_vocabulary(path);
        bt_buf_init(&theirs, 256 << 20);
        if (bt_file_read(&theirs, found.gl_pathv[i], &f) < 0) fail_msg("%s", f.text);
        compare(name, tok, &theirs);
        bt_buf_done(&theirs);
        bt_tokenizer_free(tok);
    }
    globfree(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_cut_texts_as_their_published_expressions_do),
        cmocka_unit_test(the_default_model_has_the_ids_of_its_own_tokenizer),
        cmocka_unit_test(vocabularies_of_a_folder_have_the_ids_of_their_own_tokenizers),
    };
    bt_fault f;
    bt_buf_init(&table, 1 << 20);
    if (bt_file_read(&table, TABLE, &f) < 0) {
        (void)fprintf(stderr, "run this in the folder of the sources: %s\n", f.text);
        return 1;
    }
    make_texts();
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    bt_buf_done(&table);
    bt_buf_done(&bytes);
    return rc;
}
