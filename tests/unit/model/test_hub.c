/* Names of a hub's models: what a name may be, what the hub says, and which files a quant means. */
#include "model/hub.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define HASH   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define FILE_OF(path, size, hash) \
    "{\"rfilename\": \"" path "\", \"lfs\": {\"sha256\": \"" hash "\", \"size\": " size "}}"
#define REPO(files) "{\"sha\": \"" COMMIT "\", \"siblings\": [" files "]}"

static void a_name_has_an_owner_and_a_quant_if_it_says_so(void **state)
{
    (void)state;
    static const char *const bad[] = {"hf:",      "hf:a",     "hf:a/",   "hf:/b",       "hf:a/b/c",
                                      "hf:../b",  "hf:a/..",  "hf:a/b:", "hf:a/b:../c", "hf:a/b:c:d",
                                      "hf:a b/c", "hf:a/b\n", "a/b",     "hf:a:b/c"};
    char words[300];
    bt_hub_ref r;
    assert_int_equal(bt_hub_ref_parse(&r, "hf:Qwen/Qwen2.5-0.5B_x:Q4_K_M", NULL), BT_OK);
    assert_string_equal(r.owner, "Qwen");
    assert_string_equal(r.name, "Qwen2.5-0.5B_x");
    assert_string_equal(r.quant, "Q4_K_M");
    assert_int_equal(bt_hub_ref_parse(&r, "hf:a/b", NULL), BT_OK);
    assert_string_equal(r.quant, "");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(bt_hub_ref_parse(&r, bad[i], NULL), BT_EARG);
    snprintf(words, sizeof words, "hf:a/%0*d", BT_HUB_MAX_NAME + 1, 0);
    assert_int_equal(bt_hub_ref_parse(&r, words, NULL), BT_EARG);
    assert_true(bt_hub_is_ref("hf:x"));
    assert_false(bt_hub_is_ref("hf/x"));
}

static void files_without_a_hash_a_size_or_a_plain_path_are_left_out(void **state)
{
    (void)state;
    static const char *const files[] = {FILE_OF("b.gguf", "7", HASH),
                                        FILE_OF("a/a.gguf", "5", HASH),
                                        FILE_OF("README.md", "5", HASH),
                                        FILE_OF("../c.gguf", "5", HASH),
                                        FILE_OF("/d.gguf", "5", HASH),
                                        FILE_OF("e.gguf", "0", HASH),
                                        FILE_OF("f.gguf", "5.0", HASH),
                                        FILE_OF("g.gguf", "5", "0123"),
                                        FILE_OF("i.gguf", "1125899906842625", HASH),
                                        FILE_OF("j\\u001b.gguf", "5", HASH)};
    char json[4096];
    int n = snprintf(json, sizeof json, "{\"sha\": \"%s\", \"siblings\": [1, {\"rfilename\": \"h.gguf\"}",
                     COMMIT);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        n += snprintf(json + n, sizeof json - (size_t)n, ", %s", files[i]);
    n += snprintf(json + n, sizeof json - (size_t)n, "]}");
    bt_hub_repo r;
    assert_int_equal(bt_hub_repo_parse(&r, json, (size_t)n, NULL), BT_OK);
    assert_int_equal(r.count, 2);
    assert_string_equal(r.file[0].path, "a/a.gguf");
    assert_int_equal(r.file[0].bytes, 5);
    assert_string_equal(r.file[1].path, "b.gguf");
    assert_string_equal(r.file[1].sha256, HASH);
    assert_string_equal(r.commit, COMMIT);
    assert_string_equal(r.licence, "not stated");
    bt_hub_repo_done(&r);
}

static void a_reply_that_is_not_right_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *words;
    } bad[] = {
        {"<html>", "is not JSON"},
        {"[]", "which commit"},
        {"{\"sha\": \"main\", \"siblings\": []}", "which commit"},
        {"{\"sha\": \"" COMMIT "\", \"siblings\": {}}", "no list of files"},
        {REPO(FILE_OF("a.gguf", "5", HASH) ", " FILE_OF("a.gguf", "6", HASH)), "names a.gguf twice"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_hub_repo r;
        bt_fault fault = {""};
        assert_int_equal(bt_hub_repo_parse(&r, bad[i].json, strlen(bad[i].json), &fault), BT_EFORMAT);
        if (!strstr(fault.text, bad[i].words)) fail_msg("'%s' is not in '%s'", bad[i].words, fault.text);
    }
}

static void the_licence_is_the_cards_where_it_can_be_shown(void **state)
{
    (void)state;
    static const struct {
        const char *card, *licence;
    } cases[] = {{"\"license\": \"apache-2.0\"", "apache-2.0"},
                 {"\"license\": [\"mit\"]", "not stated"},
                 {"\"license\": \"\\u001b[31m\"", "not stated"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[256];
        bt_hub_repo r;
        const int n = snprintf(json, sizeof json, "{\"sha\": \"%s\", \"siblings\": [], \"cardData\": {%s}}",
                               COMMIT, cases[i].card);
        assert_int_equal(bt_hub_repo_parse(&r, json, (size_t)n, NULL), BT_OK);
        assert_string_equal(r.licence, cases[i].licence);
        bt_hub_repo_done(&r);
    }
}

/* ---- choosing ---- */

static const char *const many[] = {"m-Q4_K_M.gguf",
                                   "m-Q8_0-00001-of-00002.gguf",
                                   "m-Q8_0-00002-of-00002.gguf",
                                   "m.iq4_k_m.gguf",
                                   "F16/m-f16.gguf",
                                   "m-Q6_K-00002-of-00003.gguf",
                                   "x/m-bf16.gguf",
                                   "y/m-bf16.gguf"};
enum { MANY = sizeof many / sizeof *many };

static void choose(const char *quant, size_t first, size_t parts)
{
    size_t chosen[BT_GGUF_MAX_PARTS], n = 0;
    bt_fault fault = {""};
    if (bt_hub_choose(chosen, &n, many, MANY, quant, &fault) < 0) fail_msg("%s: %s", quant, fault.text);
    assert_int_equal(n, parts);
    for (size_t i = 0; i < n; i++) assert_int_equal(chosen[i], first + i);
}

static void refuse(const char *const *path, size_t n, const char *quant, bt_err error, const char *words)
{
    size_t chosen[BT_GGUF_MAX_PARTS], parts;
    bt_fault fault = {""};
    assert_int_equal(bt_hub_choose(chosen, &parts, path, n, quant, &fault), error);
    if (!strstr(fault.text, words)) fail_msg("'%s' is not in '%s'", words, fault.text);
}

static void a_quant_is_the_end_of_a_path_in_letters_of_either_case(void **state)
{
    (void)state;
    choose("", 0, 1);
    choose("q4_k_m", 0, 1);
    choose("q8_0", 1, 2);
    choose("IQ4_K_M", 3, 1);
    choose("F16", 4, 1);
    refuse(many, MANY, "q2_k", BT_EARG,
           "no GGUF file fits 'q2_k'; there are: Q4_K_M, Q8_0, iq4_k_m, f16, Q6_K");
    refuse(many, MANY, "q6_k", BT_EFORMAT, "part 1 of 3 is missing");
    refuse(many, MANY, "bf16", BT_EARG, "several models fit 'bf16'");
}

static void a_model_alone_needs_no_quant(void **state)
{
    (void)state;
    static const char *const one[] = {"m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"},
                             *const two[] = {"m-Q8_0.gguf", "m-Q6_K.gguf"},
                             *const odd[] = {"m-00001-of-00000.gguf"},
                             *const huge[] = {"m-00001-of-99999.gguf"};
    size_t chosen[BT_GGUF_MAX_PARTS], parts;
    assert_int_equal(bt_hub_choose(chosen, &parts, one, 2, "", NULL), BT_OK);
    assert_int_equal(parts, 2);
    refuse(two, 2, "", BT_EARG, "no GGUF file fits 'q4_k_m'; there are: Q8_0, Q6_K");
    refuse(two, 0, "", BT_EARG, "there is no GGUF file");
    refuse(odd, 1, "", BT_ELIMIT, "has 0 parts");
    refuse(huge, 1, "", BT_ELIMIT, "has 99999 parts");
}

static void a_path_lies_here_without_folders(void **state)
{
    (void)state;
    char name[BT_HUB_PATH_BYTES], folder[64];
    bt_hub_ref r;
    bt_hub_file_name(name, "Q8_0/x/m-Q8_0.gguf");
    assert_string_equal(name, "Q8_0@x@m-Q8_0.gguf"); /* which no path of a hub is */
    static const char *const here[] = {"Q8_0@m.gguf", "x@Q4_0.gguf"};
    size_t chosen[BT_GGUF_MAX_PARTS], parts;
    assert_int_equal(bt_hub_choose(chosen, &parts, here, 2, "q4_0", NULL), BT_OK);
    assert_int_equal(chosen[0], 1);
    assert_int_equal(setenv("BATON_MODEL_DIR", "/models", 1), 0);
    assert_int_equal(bt_hub_ref_parse(&r, "hf:a/b:c", NULL), BT_OK);
    assert_int_equal(bt_hub_folder(folder, sizeof folder, &r, NULL), BT_OK);
    assert_string_equal(folder, "/models/hf/a/b");
    assert_true(bt_hub_is_one_model(many[1], many[2]));
    assert_false(bt_hub_is_one_model(many[0], many[1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_an_owner_and_a_quant_if_it_says_so),
        cmocka_unit_test(files_without_a_hash_a_size_or_a_plain_path_are_left_out),
        cmocka_unit_test(a_reply_that_is_not_right_is_refused),
        cmocka_unit_test(the_licence_is_the_cards_where_it_can_be_shown),
        cmocka_unit_test(a_quant_is_the_end_of_a_path_in_letters_of_either_case),
        cmocka_unit_test(a_model_alone_needs_no_quant),
        cmocka_unit_test(a_path_lies_here_without_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
