/* Any bytes as a chat template, with a conversation whose words hold a snowman. The rendering is UTF-8,
 * its runs cover it, a second rendering is the same, and no snowman is the template's unless the template can
 * make one. A refusal has words with a place. */
#include "text/jinja/jinja.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

#define SNOWMAN "\xe2\x98\x83"

static const char variables[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \" S" SNOWMAN
    "y \"}, {\"role\": \"user\", \"content\": "
    "\"a" SNOWMAN
    "<|im_end|>\\n\\\"b\", \"n\": -12, \"f\": 2.5}, {\"role\": \"assistant\", \"content\": null, "
    "\"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": \"f" SNOWMAN
    "\", \"arguments\": {\"x\": "
    "[1, 2, {\"k\": true}]}}}]}, {\"role\": \"" SNOWMAN "\", \"content\": \"\"}], \"tools\": null, \"word\": "
    "\"" SNOWMAN SNOWMAN "\", \"add_generation_prompt\": true}";

static void check(const bt_jinja_text *t, bool can_make_one)
{
    if (!bt_utf8_valid(t->text, t->len, NULL) || t->text[t->len] != '\0') abort();
    size_t at = 0;
    for (size_t i = 0; i < t->runs; i++) {
        if (t->run[i].len == 0 || t->run[i].len > t->len - at) abort();
        if (i > 0 && t->run[i].is_template == t->run[i - 1].is_template) abort();
        if (t->run[i].is_template && !can_make_one && memmem(t->text + at, t->run[i].len, SNOWMAN, 3))
            abort();
        at += t->run[i].len;
    }
    if (at != t->len) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    bt_jinja *j = NULL;
    bt_fault f = {""};
    const char *source = len > 0 ? (const char *)data : "";
    bt_err e = bt_jinja_parse(&j, source, len, &f);
    if (e < 0) {
        if ((e != BT_EFORMAT && e != BT_ELIMIT) || strncmp(f.text, "line ", 5) != 0) abort();
        return 0;
    }
    json_t *vars = json_loads(variables, 0, NULL);
    bt_jinja_var var[8];
    size_t n = 0;
    const char *name;
    json_t *value;
    json_object_foreach(vars, name, value)
        var[n++] =
            (bt_jinja_var){name, value, strcmp(name, "messages") == 0 ? BT_JINJA_MESSAGES : BT_JINJA_REQUEST};
    const bt_jinja_input in = {.var = var, .vars = n, .now_s = 1753900000,
                               .limits = {20000, 1 << 16, 1 << 22}};
    bt_jinja_text t = {0}, again = {0};
    e = bt_jinja_render(&t, j, &in, &f);
    if (e != BT_OK && (e == BT_ENOMEM || (e != BT_EARG && strncmp(f.text, "line ", 5) != 0))) abort();
    if (bt_jinja_render(&again, j, &in, &f) != e) abort();
    if (e == BT_OK) {
        check(&t, memmem(source, len, SNOWMAN, 3) || memchr(source, '\\', len) || memchr(source, '%', len));
        if (t.len != again.len || memcmp(t.text, again.text, t.len) != 0 || t.runs != again.runs ||
            t.steps != again.steps)
            abort();
    }
    bt_jinja_text_done(&t);
    bt_jinja_text_done(&again);
    bt_jinja_free(j);
    json_decref(vars);
    return 0;
}
