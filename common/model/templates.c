/* The template that a model's chats go by. */
#include "model/templates.h"

#include "base/file.h"
#include "model/gguf.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

#define KEY          "tokenizer.chat_template"
#define DEFAULT      "default"
#define PLAIN_PROMPT "give a template by --chat-template, or send a plain prompt to /v1/completions"

static const struct {
    const char *name, *text;
} built_in[] = {
    {
        "chatml",
#include "model/template_chatml.txt.h"
    },
    {
        "llama3",
#include "model/template_llama3.txt.h"
    },
    {
        "mistral",
#include "model/template_mistral.txt.h"
    },
    {
        "gemma",
#include "model/template_gemma.txt.h"
    },
};

static void add_name(bt_templates *t, const char *name)
{
    const size_t len = strlen(name);
    size_t bad;
    if (len == 0 || len > BT_TEMPLATES_MAX_NAME_BYTES || t->names == BT_TEMPLATES_MAX ||
        !bt_utf8_valid(name, len, &bad))
        return;
    memcpy(t->name[t->names++], name, len + 1);
}

/* The list in tokenizer.chat_templates repeats what the keys say. */
static void list_names(bt_templates *t, const bt_gguf *g)
{
    for (size_t i = 0; i < bt_gguf_key_count(g); i++) {
        const char *key = bt_gguf_key_name(g, i);
        if (strcmp(key, KEY) == 0) add_name(t, DEFAULT);
        else if (strncmp(key, KEY ".", sizeof KEY) == 0) add_name(t, key + sizeof KEY);
    }
}

static bool has_name(const bt_templates *t, const char *name)
{
    for (size_t i = 0; i < t->names; i++)
        if (strcmp(t->name[i], name) == 0) return true;
    return false;
}

/* ret->ptr NULL: the file has none of this name. */
static bt_err find_text(bt_text_span *ret, const bt_templates *t, const bt_gguf *g, const char *name,
                        bt_fault *fault)
{
    char key[sizeof KEY + BT_TEMPLATES_MAX_NAME_BYTES + 1] = KEY;
    bt_gguf_str s = {NULL, 0};
    *ret = (bt_text_span){NULL, 0};
    if (!has_name(t, name)) return BT_OK;
    if (strcmp(name, DEFAULT) != 0 || bt_gguf_find_key(g, KEY) < 0) {
        key[sizeof KEY - 1] = '.';
        memcpy(key + sizeof KEY, name, strlen(name) + 1);
    }
    const bt_err e = bt_gguf_require_str(&s, g, key, fault);
    if (e == BT_OK) *ret = (bt_text_span){s.ptr, s.len};
    return e;
}

/* "default, rag, tool_use", cut to fit. */
static const char *join_names(char *ret, size_t cap, const bt_templates *t)
{
    size_t n = 0;
    ret[0] = '\0';
    for (size_t i = 0; i < t->names && n + strlen(t->name[i]) + 3 < cap; i++) {
        const char *between = i ? ", " : "";
        memcpy(ret + n, between, strlen(between) + 1);
        n += strlen(between);
        memcpy(ret + n, t->name[i], strlen(t->name[i]) + 1);
        n += strlen(t->name[i]);
    }
    return ret;
}

static bt_err put(bt_templates *t, const bt_tokenizer *tok, const char *from, bt_text_span text,
                  bt_text_span for_tools, bt_fault *fault)
{
    size_t bad;
    t->from = strdup(from);
    if (!t->from) return bt_fail(fault, BT_ENOMEM, "out of memory for a chat template");
    if (text.len <= BT_CHAT_MAX_TEMPLATE_BYTES && !memchr(text.ptr, 0, text.len) &&
        bt_utf8_valid(text.ptr, text.len, &bad) && !(t->text = strndup(text.ptr, text.len)))
        return bt_fail(fault, BT_ENOMEM, "out of memory for a chat template");
    bt_fault why = {""};
    const bt_err e = bt_chat_new(&t->chat, tok, text, for_tools, &why);
    return e < 0 ? bt_fail(fault, e, "the chat template '%.60s' does not parse: %s", from, why.text) : BT_OK;
}

static bt_err put_file(bt_templates *t, const bt_tokenizer *tok, const char *path, bt_fault *fault)
{
    char names[96];
    bt_buf text;
    bt_buf_init(&text, BT_CHAT_MAX_TEMPLATE_BYTES);
    bt_fault why = {""};
    bt_err e = bt_file_read(&text, path, &why);
    if (e == BT_ELIMIT)
        (void)bt_fail(fault, e, "--chat-template: '%.100s' has more than %d bytes", path,
                      BT_CHAT_MAX_TEMPLATE_BYTES);
    else if (e < 0)
        e = bt_fail(
            fault, e == BT_EIO ? BT_EARG : e,
            "--chat-template: no file '%.80s', and no template of this name; built in: " BT_TEMPLATES_BUILT_IN
            "%s%s",
            path, t->names ? "; in the model file: " : "", join_names(names, sizeof names, t));
    else e = put(t, tok, path, (bt_text_span){bt_buf_text(&text), text.len}, (bt_text_span){NULL, 0}, fault);
    bt_buf_done(&text);
    return e;
}

static bt_err put_choice(bt_templates *t, const bt_gguf *g, const bt_tokenizer *tok, const char *choice,
                         bt_fault *fault)
{
    bt_text_span text;
    const bt_text_span none = {NULL, 0};
    const bt_err e = find_text(&text, t, g, choice, fault);
    if (e < 0) return e;
    if (text.ptr) return put(t, tok, choice, text, none, fault);
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++)
        if (strcmp(built_in[i].name, choice) == 0)
            return put(t, tok, choice, (bt_text_span){built_in[i].text, strlen(built_in[i].text)}, none,
                       fault);
    return put_file(t, tok, choice, fault);
}

/* The file's own: its default, or the only one it has. */
static bt_err put_own(bt_templates *t, const bt_gguf *g, const bt_tokenizer *tok, bt_fault *fault)
{
    char names[96];
    bt_text_span text, for_tools = {NULL, 0};
    const char *name = t->names == 1 ? t->name[0] : DEFAULT;
    if (t->names == 0) return bt_fail(fault, BT_EVERSION, "the model file has no chat template");
    bt_err e = find_text(&text, t, g, name, fault);
    if (e == BT_OK && t->names > 1) e = find_text(&for_tools, t, g, "tool_use", fault);
    if (e < 0) return e;
    if (!text.ptr)
        return bt_fail(fault, BT_EVERSION, "the model file has no default chat template, but %s",
                       join_names(names, sizeof names, t));
    return put(t, tok, name, text, for_tools, fault);
}

bt_err bt_templates_open(bt_templates *ret, const bt_gguf *g, const bt_tokenizer *tok, const char *choice,
                         bt_fault *fault)
{
    bt_templates t = {.names = 0};
    bt_fault why = {""};
    list_names(&t, g);
    const bt_err e = choice ? put_choice(&t, g, tok, choice, &why) : put_own(&t, g, tok, &why);
    if (e == BT_ENOMEM || (e < 0 && choice)) {
        bt_templates_close(&t);
        return bt_fail(fault, e, "%s", why.text);
    }
    char shown[171];
    if (e < 0)
        (void)bt_fail(&t.why, e, "%s; " PLAIN_PROMPT,
                      bt_utf8_show(shown, sizeof shown, why.text, strlen(why.text)));
    *ret = t;
    return BT_OK;
}

void bt_templates_close(bt_templates *t)
{
    bt_chat_free(t->chat);
    free(t->from);
    free(t->text);
    *t = (bt_templates){.names = 0};
}
