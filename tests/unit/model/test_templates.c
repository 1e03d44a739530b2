/* The template in force, of a file's own, the built-in ones and files on disk, and the words where there is
 * none. */
#include "model/templates.h"
#include "model/gguf.h"
#include "text/utf8.h"
#include "tests/helpers/model/tiny_gguf.h"
#include "tests/helpers/temp_folder.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Opens a file with these templates (name, text, ...; the name "" for the one without); the caller closes
 * ret. */
static bt_err open_with(bt_templates *ret, const char *const *list, const char *choice, bt_fault *f)
{
    size_t len;
    bt_gguf *g;
    char key[128];
    tiny_gguf *w = tiny_gguf_new(3, 0);
    for (; *list; list += 2) {
        (void)snprintf(key, sizeof key, "tokenizer.chat_template%s%s", **list ? "." : "", *list);
        tiny_gguf_str(w, key, list[1]);
    }
    uint8_t *bytes = tiny_gguf_finish(w, &len);
    if (bt_gguf_open_bytes(&g, bytes, len, f) < 0) fail_msg("%s", f->text);
    const bt_err e = bt_templates_open(ret, g, NULL, choice, f);
    bt_gguf_close(g);
    free(bytes);
    return e;
}

/* The prompt of "Hi", with tools or without, to free. */
static char *say_hi(const bt_templates *t, bool has_tools)
{
    json_t *messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "Hi"), *tools = json_array();
    bt_chat_prompt p;
    const bt_chat_talk talk = {.messages = messages, .tools = has_tools ? tools : NULL,
                               .add_generation_prompt = true};
    assert_non_null(t->chat);
    assert_int_equal(bt_chat_render(&p, t->chat, &talk, NULL), BT_OK);
    char *text = strndup(p.text, p.len);
    bt_chat_prompt_done(&p);
    json_decref(messages);
    json_decref(tools);
    return text;
}

static void is_in_force(const char *const *list, const char *choice, const char *from, const char *plain,
                        const char *with_tools)
{
    bt_templates t;
    bt_fault f;
    if (open_with(&t, list, choice, &f) < 0) fail_msg("%s", f.text);
    assert_string_equal(t.from, from);
    char *text = say_hi(&t, false);
    assert_string_equal(text, plain);
    free(text);
    text = say_hi(&t, true);
    assert_string_equal(text, with_tools);
    free(text);
    bt_templates_close(&t);
}

static const char *const one[] = {"", "one", NULL}, *const named[] = {"rag", "named", NULL},
                         *const three[] = {"", "main", "tool_use", "tools", "rag", "rag", NULL},
                         *const broken[] = {"", "{% for %}", NULL}, *const none[] = {NULL},
                         *const many[] = {"a", "1", "b", "2", NULL};

static void takes_the_files_own_or_the_one_that_is_named(void **s)
{
    (void)s;
    is_in_force(one, NULL, "default", "one", "one");
    is_in_force(named, NULL, "rag", "named", "named");
    is_in_force(three, NULL, "default", "main", "tools");
    is_in_force(three, "rag", "rag", "rag", "rag");
    is_in_force(three, "default", "default", "main", "main");
}

static void knows_a_few_templates_itself(void **s)
{
    static const struct {
        const char *name, *hi;
    } known[] = {
        {"chatml", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
        {"llama3", "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant"
                   "<|end_header_id|>\n\n"},
        {"mistral", " [INST] Hi [/INST]"},
        {"gemma", "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n"},
    };
    (void)s;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_non_null(strstr(BT_TEMPLATES_BUILT_IN, known[i].name));
        is_in_force(broken, known[i].name, known[i].name, known[i].hi, known[i].hi);
    }
}

static void takes_a_file(void **s)
{
    char folder[TEMP_FOLDER_BYTES], path[TEMP_FOLDER_BYTES + 16];
    bt_templates t;
    bt_fault f;
    (void)s;
    assert_true(temp_folder_new(folder));
    (void)snprintf(path, sizeof path, "%s/t.jinja", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs("of a file: {{ messages[0].content }}\n", file);
    (void)fclose(file);
    is_in_force(one, path, path, "of a file: Hi", "of a file: Hi");
    (void)snprintf(path, sizeof path, "%s/none.jinja", folder);
    assert_int_equal(temp_folder_remove(folder), 0);
    assert_int_equal(open_with(&t, three, path, &f), BT_EARG);
    assert_non_null(strstr(
        f.text, "built in: chatml, llama3, mistral, gemma; in the model file: default, tool_use, rag"));
}

#define TWENTY \
    "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9" \
    "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
static void says_why_there_is_none(void **s)
{
    static const struct {
        const char *const *list;
        const char *why;
    } cases[] = {
        {none,
         "the model file has no chat template; give a template by --chat-template, or send a plain prompt"},
        {many, "the model file has no default chat template, but a, b; give"},
        {broken, "the chat template 'default' does not parse: line 1, column 8: "},
    };
    bt_templates t;
    bt_fault f;
    (void)s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(open_with(&t, cases[i].list, NULL, &f), BT_OK);
        assert_null(t.chat);
        if (!strstr(t.why.text, cases[i].why)) fail_msg("'%s', not '%s'", t.why.text, cases[i].why);
        bt_templates_close(&t);
    }
    /* a name that is cut within a character is still text for JSON */
    static const char *const cut[] = {"", "{{ 1 | a" TWENTY TWENTY " }}", NULL};
    assert_int_equal(open_with(&t, cut, NULL, &f), BT_OK);
    assert_non_null(strstr(t.why.text, "No filter named 'a??"));
    assert_true(bt_utf8_valid(t.why.text, strlen(t.why.text), NULL));
    bt_templates_close(&t);
    /* who asked for it gets no other */
    assert_int_equal(open_with(&t, broken, "default", &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "does not parse: line 1"));
}

static void a_template_that_is_no_text_is_none(void **s)
{
    size_t len;
    bt_gguf *g;
    bt_templates t;
    bt_fault f;
    (void)s;
    tiny_gguf *w = tiny_gguf_new(3, 0);
    tiny_gguf_u32(w, "tokenizer.chat_template", 1);
    uint8_t *bytes = tiny_gguf_finish(w, &len);
    assert_int_equal(bt_gguf_open_bytes(&g, bytes, len, &f), BT_OK);
    assert_int_equal(bt_templates_open(&t, g, NULL, NULL, &f), BT_OK);
    assert_null(t.chat);
    assert_non_null(strstr(t.why.text, "tokenizer.chat_template"));
    bt_templates_close(&t);
    bt_gguf_close(g);
    free(bytes);
    /* one that is too long is shown by nobody, and named with the limit */
    char *text = malloc((64 << 10) + 2);
    assert_non_null(text);
    memset(text, 'x', (64 << 10) + 1);
    text[(64 << 10) + 1] = '\0';
    const char *const list[] = {"", text, NULL};
    assert_int_equal(open_with(&t, list, NULL, &f), BT_OK);
    assert_null(t.chat);
    assert_null(t.text);
    assert_non_null(strstr(t.why.text, "65536"));
    bt_templates_close(&t);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_files_own_or_the_one_that_is_named),
        cmocka_unit_test(knows_a_few_templates_itself),
        cmocka_unit_test(takes_a_file),
        cmocka_unit_test(says_why_there_is_none),
        cmocka_unit_test(a_template_that_is_no_text_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
