/* Templates through Baton and through transformers: tests/templates says how the latter was asked. The tree's
 * own are always there; the published ones lie in the folder that BATON_TEMPLATES names (make
 * test-templates). */
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "model/gguf.h"
#include "model/model.h"
#include "model/templates.h"
#include "model/vocab.h"
#include "tests/helpers/model/small_vocab.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define HERE "tests/templates/"
enum { NOW_S = 1772874303, NAME_BYTES = 128 }; /* make.py's clock */

static json_t *talks;
static bt_buf renderings, published;
static size_t cases, differences;

static bool read_file(bt_buf *ret, const char *path)
{
    bt_fault f;
    bt_buf_init(ret, 16 << 20);
    return bt_file_read(ret, path, &f) == BT_OK;
}

/* The next cell of a row, NUL-terminated; NULL at the row's end. */
static const char *next_cell(char ret[NAME_BYTES], const char **at)
{
    const size_t n = strcspn(*at, "\t\n");
    if (**at == '\n' || **at == '\0') return NULL;
    assert_true(n < NAME_BYTES);
    memcpy(ret, *at, n);
    ret[n] = '\0';
    *at += n + ((*at)[n] == '\t');
    return ret;
}

/* The row of a table that begins with this name; NULL: none. */
static const char *find_row(const bt_buf *table, const char *name)
{
    const size_t n = strlen(name);
    for (const char *line = bt_buf_text(table); line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, name, n) == 0 && line[n] == '\t') return line + n + 1;
    return NULL;
}

/* A tokenizer whose BOS and EOS have these names; "": it has none. */
static bt_tokenizer *tokenizer_with(const char *bos, const char *eos)
{
    static small_vocab v;
    bt_tokenizer *tok = NULL;
    bt_fault f;
    small_spm(&v);
    v.src.unk = -1;
    if (!*bos) v.src.bos = -1;
    if (!*eos) v.src.eos = -1;
    for (int i = 1; i <= 2; i++) {
        const char *name = i == 1 ? bos : eos;
        if (!*name || (i == 2 && strcmp(bos, eos) == 0)) continue;
        v.token[i].text = name;
        v.token[i].len = strlen(name);
    }
    if (strcmp(bos, eos) == 0 && *eos) v.src.eos = 1;
    if (bt_tokenizer_new(&tok, &v.src, &f) < 0) fail_msg("%s", f.text);
    return tok;
}

static bt_chat_talk talk_of(const json_t *talk)
{
    return (bt_chat_talk){.messages = json_object_get(talk, "messages"),
                          .tools = json_object_get(talk, "tools"),
                          .documents = json_object_get(talk, "documents"),
                          .kwargs = json_object_get(talk, "chat_template_kwargs"),
                          .add_generation_prompt =
                              !json_is_false(json_object_get(talk, "add_generation_prompt")),
                          .now_s = NOW_S};
}

static void check_talk(const char *name, const bt_chat *chat, const json_t *talk, const char *want)
{
    const bt_chat_talk t = talk_of(talk);
    bt_chat_prompt p = {0};
    bt_fault f = {""};
    char got[17] = "-";
    const bt_err e = bt_chat_render(&p, chat, &t, &f);
    if (e == BT_OK) (void)snprintf(got, sizeof got, "%016llx", (unsigned long long)bt_hash64(p.text, p.len));
    cases++;
    if (strcmp(got, want) != 0) {
        const char *title = json_string_value(json_object_get(talk, "name"));
        differences++;
        print_error("%s, %s: %s, transformers %s; %s\n", name, title, got, want, e < 0 ? f.text : "");
        if (getenv("BATON_TEMPLATES_SHOW")) print_error("%s\n", e < 0 ? "" : p.text);
    }
    bt_chat_prompt_done(&p);
}

/* False: there is no such file. */
static bool check_template(const char *folder, const char *name, const char *row, const char *bos,
                           const char *eos)
{
    char path[4096], want[NAME_BYTES];
    bt_buf text;
    bt_chat *chat = NULL;
    bt_fault f = {""};
    size_t i;
    json_t *talk;
    (void)snprintf(path, sizeof path, "%s/%s.jinja", folder, name);
    if (!read_file(&text, path)) return false;
    bt_tokenizer *tok = tokenizer_with(bos, eos);
    if (bt_chat_new(&chat, tok, (bt_text_span){bt_buf_text(&text), text.len}, (bt_text_span){NULL, 0}, &f) <
        0)
        fail_msg("%s: %s", name, f.text);
    json_array_foreach(talks, i, talk) {
        if (!next_cell(want, &row)) fail_msg("%s has too few cells in " HERE "renderings.tsv", name);
        check_talk(name, chat, talk, want);
    }
    bt_chat_free(chat);
    bt_tokenizer_free(tok);
    bt_buf_done(&text);
    return true;
}

static void own_templates_come_out_as_transformers_writes_them(void **s)
{
    static const char *const own[] = {"blocks", "filters", "system", "thoughts", "tools"};
    (void)s;
    cases = differences = 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        const char *row = find_row(&renderings, own[i]);
        if (!row || !check_template(HERE "own", own[i], row, "<s>", "</s>")) fail_msg("no %s", own[i]);
    }
    assert_int_equal(cases, 5 * json_array_size(talks));
    assert_int_equal(differences, 0);
}

static void published_templates_come_out_as_transformers_writes_them(void **s)
{
    const char *folder = getenv("BATON_TEMPLATES");
    char name[NAME_BYTES], sha[NAME_BYTES], bos[NAME_BYTES], eos[NAME_BYTES];
    size_t templates = 0;
    (void)s;
    if (!folder) skip();
    cases = differences = 0;
    for (const char *line = bt_buf_text(&published); *line;
         line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = line;
        if (*line == '#') continue;
        assert_true(next_cell(name, &at) && next_cell(sha, &at) && next_cell(bos, &at));
        if (!next_cell(eos, &at)) eos[0] = '\0';
        const char *row = find_row(&renderings, name);
        if (!row) fail_msg("no %s in " HERE "renderings.tsv", name);
        if (check_template(folder, name, row, bos, eos)) templates++;
        else print_error("%s is not in %s\n", name, folder);
    }
    print_message("%zu templates, %zu cases, %zu differences\n", templates, cases, differences);
    assert_true(templates > 0);
    assert_int_equal(differences, 0);
}

/* "0123456789abcdef" of the ids, 32 bits each, low byte first. */
static void hash_ids(char ret[17], const int32_t *ids, size_t n)
{
    bt_buf bytes;
    bt_buf_init(&bytes, 1 << 20);
    for (size_t i = 0; i < n; i++)
        for (int shift = 0; shift < 32; shift += 8)
            (void)bt_buf_byte(&bytes, (uint8_t)((uint32_t)ids[i] >> shift));
    assert_int_equal(bytes.err, BT_OK);
    (void)snprintf(ret, 17, "%016llx", (unsigned long long)bt_hash64(bytes.data, bytes.len));
    bt_buf_done(&bytes);
}

static void prompts_of_the_default_model_have_the_ids_of_its_own_tokenizer(void **s)
{
    char path[4096], got[17], want[NAME_BYTES];
    bt_gguf *g = NULL;
    bt_tokenizer *tok = NULL;
    bt_templates templates;
    bt_fault f = {""};
    size_t i;
    json_t *talk;
    (void)s;
    const char *model = getenv("BATON_TEST_MODEL"), *row = find_row(&renderings, "smollm2/ids");
    if (bt_model_find(path, sizeof path, model ? model : "smollm2", &f) < 0 ||
        bt_gguf_open(&g, path, &f) < 0 || bt_vocab_load(&tok, g, &f) < 0 ||
        bt_templates_open(&templates, g, tok, NULL, &f) < 0)
        fail_msg("%s", f.text);
    bt_gguf_close(g);
    assert_non_null(row);
    json_array_foreach(talks, i, talk) {
        const bt_chat_talk t = talk_of(talk);
        bt_chat_prompt p;
        int32_t *ids;
        size_t n;
        assert_non_null(next_cell(want, &row));
        if (bt_chat_render(&p, templates.chat, &t, NULL) < 0) {
            assert_string_equal(want, "-");
            continue;
        }
        assert_int_equal(bt_tokenizer_encode_pieces(&ids, &n, tok, p.piece, p.pieces, 0, NULL), BT_OK);
        hash_ids(got, ids, n);
        if (strcmp(got, want) != 0)
            fail_msg("%s: other ids", json_string_value(json_object_get(talk, "name")));
        free(ids);
        bt_chat_prompt_done(&p);
    }
    bt_templates_close(&templates);
    bt_tokenizer_free(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_templates_come_out_as_transformers_writes_them),
        cmocka_unit_test(prompts_of_the_default_model_have_the_ids_of_its_own_tokenizer),
        cmocka_unit_test(published_templates_come_out_as_transformers_writes_them),
    };
    talks = json_load_file(HERE "talks.json", 0, NULL);
    if (!talks || !read_file(&renderings, HERE "renderings.tsv") ||
        !read_file(&published, HERE "published.tsv")) {
        (void)fprintf(stderr, "run this in the folder of the sources: " HERE " is not here\n");
        return 1;
    }
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    json_decref(talks);
    bt_buf_done(&renderings);
    bt_buf_done(&published);
    return rc;
}
