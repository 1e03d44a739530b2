/* Calls of tools in answers, whatever the pieces in which the text comes. The answers were written after the
 * forms that the published chat templates show (Qwen2.5, Mistral-Instruct v0.3, Granite 3 and 4, Llama 3.1
 * and 3.2), not recorded from models. */
#include "text/calls/calls.h"
#include "grammar/compile.h"
#include "grammar/program.h"
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

typedef struct answer {
    const char *text, *want; /* what is said, and @name arguments@ for a call */
    unsigned unread, unknown;
} answer;

static small_vocab vocab;

/* The form of the template, which writes calls by `writes` where a message has them, and opens answers so. */
static const bt_call_form *form_of_opened(const char *writes, const char *tells, const char *opens)
{
    char text[4096];
    bt_fault f;
    bt_chat *chat;
    bt_tokenizer *tok;
    (void)snprintf(
        text, sizeof text,
        "{%% if tools %%}%s{{ tools | tojson }}{%% endif %%}{%% for m in messages %%}<|{{ m.role }}|>\n"
        "{%% if m.tool_calls %%}%s{%% else %%}{{ m.content }}{%% endif %%}<|end|>\n{%% endfor %%}"
        "{%% if add_generation_prompt %%}<|assistant|>\n%s{%% endif %%}",
        tells, writes, opens);
    if (bt_tokenizer_new(&tok, &vocab.src, &f) < 0 ||
        bt_chat_new(&chat, tok, (bt_text_span){text, strlen(text)}, (bt_text_span){NULL, 0}, &f) < 0)
        fail_msg("%s", f.text);
    const bt_call_form *form = bt_calls_find(chat);
    bt_chat_free(chat);
    bt_tokenizer_free(tok);
    return form;
}

static const bt_call_form *form_of(const char *writes, const char *tells)
{
    return form_of_opened(writes, tells, "");
}

static const char hermes[] =
    "{% for c in m.tool_calls %}{{ '<tool_call>\n{\"name\": \"' + c.function.name + '\", \"arguments\": ' }}"
    "{{ c.function.arguments | tojson }}{{ '}\n</tool_call>' }}{% endfor %}";
static const char mistral[] = "[TOOL_CALLS] [{% for c in m.tool_calls %}{% set f = c.function | tojson %}{{ "
                              "f[:-1] }}, \"id\": \"{{ c.id }}\"}"
                              "{% if not loop.last %}, {% endif %}{% endfor %}]</s>";
static const char granite[] =
    "{{ '<|tool_call|>' }}{{ m.tool_calls | map(attribute='function') | list | tojson }}";
static const char llama[] = "{% set f = m.tool_calls[0].function %}{{ '{\"name\": \"' + f.name + '\", ' }}"
                            "{{ '\"parameters\": ' }}{{ f.arguments | tojson }}{{ '}' }}";
static const char pythonic[] =
    "[{% for c in m.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments.items() %}"
    "{{ k }}={{ v | tojson }}{% endfor %}){% endfor %}]";

static char *read_in_steps(const bt_call_form *form, const answer *a, size_t step, bool is_single)
{
    bt_calls c;
    bt_calls_part p;
    const size_t len = strlen(a->text);
    char *ret = calloc(1, 2 * len + 512);
    json_t *names = json_pack("{s:b,s:b,s:b,s:b}", "f", 1, "g", 1, "get_weather", 1, "files.read-all", 1);
    assert_true(ret && names);
    bt_calls_begin(&c, form, names, is_single);
    for (size_t n = step < len ? step : len;; n = n + step < len ? n + step : len) {
        while (bt_calls_next(&p, &c, a->text, n, false) ||
               (n == len && bt_calls_next(&p, &c, a->text, n, true))) {
            if (p.is_call) (void)sprintf(ret + strlen(ret), "@%s %s@", p.call.name, p.call.arguments);
            else strncat(ret, p.text.ptr, p.text.len);
        }
        if (n == len) break;
    }
    if (!is_single) assert_int_equal(c.unread, a->unread);
    assert_int_equal(c.unknown, a->unknown);
    assert_int_equal(c.at, len);
    bt_calls_done(&c);
    return ret;
}

static void reads(const bt_call_form *form, const char *name, const answer *all, size_t n)
{
    assert_non_null(form);
    assert_string_equal(form->name, name);
    assert_true(n >= 20);
    for (size_t i = 0; i < n; i++)
        for (size_t step = 1; step <= strlen(all[i].text); step++) {
            char *got = read_in_steps(form, &all[i], step, false);
            if (strcmp(got, all[i].want) != 0)
                fail_msg("%s %zu in steps of %zu:\n%s\nand not\n%s", name, i, step, got, all[i].want);
            free(got);
        }
}
#define READS(form, name, all) reads(form, name, all, sizeof all / sizeof *all)

#define OPEN   "<tool_call>\n"
#define CLOSE  "\n</tool_call>"
#define B16    "    \n       \t   "
#define BLANKS B16 B16 B16 B16 /* BT_CALLS_MAX_HELD_BYTES */

static void hermes_has_an_object_between_marks(void **state)
{
    (void)state;
    static const answer all[] = {
        {OPEN "{\"name\": \"f\", \"arguments\": {\"a\": 1}}" CLOSE, "@f {\"a\": 1}@", 0, 0},
        {OPEN "{\"name\": \"f\", \"arguments\": {}}" CLOSE "\n", "@f {}@", 0, 0},
        {"I look.\n" OPEN "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"K\xc3\xb6ln\"}}" CLOSE,
         "I look.@get_weather {\"city\": \"K\xc3\xb6ln\"}@", 0, 0},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"a\": 1}}" CLOSE "\n" OPEN
              "{\"name\": \"g\", \"arguments\": {\"b\": [2]}}" CLOSE,
         "@f {\"a\": 1}@@g {\"b\": [2]}@", 0, 0},
        {OPEN "{\"arguments\": {\"a\": 1}, \"name\": \"f\"}" CLOSE, "@f {\"a\": 1}@", 0, 0},
        {"<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"</tool_call>\"}}</tool_call>",
         "@f {\"a\":\"</tool_call>\"}@", 0, 0},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"a\": \"}{\\\"]\\\\\"}}" CLOSE,
         "@f {\"a\": \"}{\\\"]\\\\\"}@", 0, 0},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"a\": 0.1, \"b\": 1e-7}}" CLOSE,
         "@f {\"a\": 0.1, \"b\": 1e-7}@", 0, 0},
        {OPEN "{\"name\": \"f\", \"parameters\": {\"a\": 1}}" CLOSE, "@f {\"a\": 1}@", 0, 0},
        {OPEN "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}" CLOSE, "@f {\"a\": 1}@", 0, 0},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"a\": 1}}", "@f {\"a\": 1}@", 0, 0},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"a\": 1}}" CLOSE "\nDone. <tool",
         "@f {\"a\": 1}@Done. <tool", 0, 0},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"a\": {\"b\": {\"c\": [{}, [], null]}}}}" CLOSE,
         "@f {\"a\": {\"b\": {\"c\": [{}, [], null]}}}@", 0, 0},
        {"Only text, {\"name\": \"f\", \"arguments\": {}}", "Only text, {\"name\": \"f\", \"arguments\": {}}",
         0, 0},
        {OPEN "{\"name\": \"h\", \"arguments\": {}}" CLOSE, OPEN "{\"name\": \"h\", \"arguments\": {}}" CLOSE,
         0, 1},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"a\": }}" CLOSE,
         OPEN "{\"name\": \"f\", \"arguments\": {\"a\": }}" CLOSE, 1, 0},
        {OPEN "{\"name\": \"f\"}" CLOSE, OPEN "{\"name\": \"f\"}" CLOSE, 1, 0},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"a\": 1", OPEN "{\"name\": \"f\", \"arguments\": {\"a\": 1",
         1, 0},
        {"a <tool_call> b " OPEN "{\"name\": \"f\", \"arguments\": {}}" CLOSE, "a <tool_call> b@f {}@", 1, 0},
        {OPEN "{\"name\": \"f\", \"arguments\": [1]}" CLOSE,
         OPEN "{\"name\": \"f\", \"arguments\": [1]}" CLOSE, 1, 0},
        {OPEN "[]" CLOSE " x", OPEN "[]" CLOSE " x", 1, 0},
        {"<tool_call>", "<tool_call>", 1, 0},
        {" \n ", " \n ", 0, 0},
        {"{\"name\": \"f\", \"arguments\": {\"a\": 1}}", "@f {\"a\": 1}@", 0, 0},
        {"```json\n{\n  \"name\": \"f\",\n  \"arguments\": {\"a\": 1}\n}\n```", "@f {\"a\": 1}@", 0, 0},
        {"```json\n{\"a\": 1}\n```", "```json\n{\"a\": 1}\n```", 0, 0},
        {"```js", "```js", 0, 0},
        {"```json\n[1]\n```\nx", "```json\n[1]\n```\nx", 0, 0},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool", "@f {\"a\": 1}@", 0, 0},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"a\": \"\\u0000\", \"b\": 18446744073709551616}}",
         "@f {\"a\": \"\\u0000\", \"b\": 18446744073709551616}@", 0, 0},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n<", "@f {\"a\": 1}@", 0, 0},
        {OPEN "{\"name\":\"f\",\"arguments\":{\"a\":1}" CLOSE "\n" OPEN
              "{\"name\":\"g\",\"arguments\":{}}" CLOSE,
         OPEN "{\"name\":\"f\",\"arguments\":{\"a\":1}" CLOSE "@g {}@", 1, 0},
        {OPEN "{\"name\":\"f\",\n" OPEN "{\"name\":\"g\",\"arguments\":{}}" CLOSE,
         OPEN "{\"name\":\"f\",\n@g {}@", 1, 0},
        {OPEN "{\"name\":\"f\",\"arguments\":{\"a\":1}\n</tool",
         OPEN "{\"name\":\"f\",\"arguments\":{\"a\":1}\n</tool", 1, 0},
        {"x" BLANKS " " OPEN "{\"name\":\"f\",\"arguments\":{}}", "x" BLANKS " @f {}@", 0, 0},
        {"x" BLANKS OPEN "{\"name\":\"f\",\"arguments\":{}}", "x@f {}@", 0, 0},
        {"<tool_call>" BLANKS "{\"name\":\"f\",\"arguments\":{}}", "@f {}@", 0, 0},
        {"<tool_call> " BLANKS "{\"name\":\"f\"}", "<tool_call> " BLANKS "{\"name\":\"f\"}", 1, 0},
        {BLANKS " {\"name\":\"f\",\"arguments\":{}}", BLANKS " {\"name\":\"f\",\"arguments\":{}}", 0, 0},
        {OPEN "{\"name\":\"f\",\"arguments\":{}}" BLANKS " </tool_call>" BLANKS " x", "@f {}@x", 0, 0},
    };
    READS(form_of(hermes, ""), "hermes", all);
}

static void mistral_has_a_list_behind_a_mark(void **state)
{
    (void)state;
#define M "[TOOL_CALLS]"
    static const answer all[] = {
        {M "[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "@f {\"a\": 1}@", 0, 0},
        {M " [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}]", "@f {\"a\": 1}@", 0, 0},
        {M "[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {\"b\": \"x\"}}]",
         "@f {}@@g {\"b\": \"x\"}@", 0, 0},
        {M "[{\"name\":\"f\",\"arguments\":{\"a\":[1,2,{\"b\":\"],[\"}]}}]",
         "@f {\"a\":[1,2,{\"b\":\"],[\"}]}@", 0, 0},
        {"Well. " M "[{\"name\": \"f\", \"arguments\": {}}]", "Well.@f {}@", 0, 0},
        {M "[{\"name\": \"f\", \"arguments\": {}}] and text", "@f {}@and text", 0, 0},
        {M "\n[\n {\n  \"name\": \"f\",\n  \"arguments\": {\"a\": true}\n }\n]\n", "@f {\"a\": true}@", 0, 0},
        {M "[{\"arguments\": {\"a\": null}, \"name\": \"g\"}]", "@g {\"a\": null}@", 0, 0},
        {M "[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Z\\u00fcrich\"}}]",
         "@get_weather {\"city\": \"Z\\u00fcrich\"}@", 0, 0},
        {M "[{\"name\": \"f\", \"arguments\": {}}]" M "[{\"name\": \"g\", \"arguments\": {}}]",
         "@f {}@@g {}@", 0, 0},
        {M "[{\"name\": \"f\", \"arguments\": \"{}\"}]", "@f {}@", 0, 0},
        {M "[{\"name\": \"f\", \"arguments\": {\"a\": 1}}", M "[{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
         1, 0},
        {M "[]", M "[]", 1, 0},
        {M "[1]", M "[1]", 1, 0},
        {M "{\"name\": \"f\", \"arguments\": {}}", M "{\"name\": \"f\", \"arguments\": {}}", 1, 0},
        {M "[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"h\", \"arguments\": {}}]",
         M "[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"h\", \"arguments\": {}}]", 0, 1},
        {M "[{\"name\": 1, \"arguments\": {}}]", M "[{\"name\": 1, \"arguments\": {}}]", 1, 0},
        {M "[{\"name\": \"f\", \"arguments\": {}},]", M "[{\"name\": \"f\", \"arguments\": {}},]", 1, 0},
        {"The list [1, 2] [TOOL", "The list [1, 2] [TOOL", 0, 0},
        {"[{\"name\": \"f\", \"arguments\": {}}]", "[{\"name\": \"f\", \"arguments\": {}}]", 0, 0},
        {M "f{\"a\": 1}", M "f{\"a\": 1}", 1, 0},
    };
    READS(form_of(mistral, ""), "mistral", all);
}

static void granite_has_a_list_behind_either_mark(void **state)
{
    (void)state;
#define G "<|tool_call|>"
    static const answer all[] = {
        {G "[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "@f {\"a\": 1}@", 0, 0},
        {G "[{\"arguments\": {\"a\": 1}, \"name\": \"f\"}]", "@f {\"a\": 1}@", 0, 0},
        {"<tool_call>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "@f {\"a\": 1}@", 0, 0},
        {"<tool_call>[{\"name\": \"f\", \"arguments\": {}}]</tool_call>", "@f {}@", 0, 0},
        {"<tool_call> [ {\"name\": \"f\", \"arguments\": {}} ] \n </tool_call>\n", "@f {}@", 0, 0},
        {G "[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {\"x\": -1}}]",
         "@f {}@@g {\"x\": -1}@", 0, 0},
        {G " [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"New York\", \"days\": 3}}]\n",
         "@get_weather {\"city\": \"New York\", \"days\": 3}@", 0, 0},
        {"First. " G "[{\"name\": \"f\", \"arguments\": {}}]", "First.@f {}@", 0, 0},
        {G "[{\"name\": \"f\", \"arguments\": {}}]" G "[{\"name\": \"g\", \"arguments\": {}}]",
         "@f {}@@g {}@", 0, 0},
        {G "[{\"name\": \"f\", \"arguments\": {}}]\n<tool_call>[{\"name\": \"g\", \"arguments\": {}}]",
         "@f {}@@g {}@", 0, 0},
        {G "[{\"name\": \"f\", \"arguments\": {\"a\": \"<|tool_call|>\"}}]", "@f {\"a\": \"<|tool_call|>\"}@",
         0, 0},
        {G "[{\"name\": \"f\", \"arguments\": {}, \"type\": \"function\"}]", "@f {}@", 0, 0},
        {G "[{\"name\": \"f\", \"parameters\": {\"a\": 1}}]", "@f {\"a\": 1}@", 0, 0},
        {G "[{\"name\": \"f\", \"arguments\": {}}] x", "@f {}@x", 0, 0},
        {G "[]", G "[]", 1, 0},
        {G "none", G "none", 1, 0},
        {G "[{\"name\": \"f\", \"arguments\": {", G "[{\"name\": \"f\", \"arguments\": {", 1, 0},
        {G "[{\"name\": \"h\", \"arguments\": {}}]", G "[{\"name\": \"h\", \"arguments\": {}}]", 0, 1},
        {G "[{\"arguments\": {}}]", G "[{\"arguments\": {}}]", 1, 0},
        {"a < b <|tool", "a < b <|tool", 0, 0},
        {"<tool_call>[\"f\"]</tool_call>", "<tool_call>[\"f\"]</tool_call>", 1, 0},
    };
    READS(form_of(granite, ""), "granite", all);
    READS(form_of("", "Respond with <|tool_call|> followed by a JSON list of tools used.\n"), "granite", all);
}

static void llama_has_objects_with_or_without_a_mark(void **state)
{
    (void)state;
#define P "<|python_tag|>"
    static const answer all[] = {
        {"{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "@f {\"a\": 1}@", 0, 0},
        {P "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "@f {\"a\": 1}@", 0, 0},
        {"\n{\"name\": \"f\", \"parameters\": {}}\n", "@f {}@", 0, 0},
        {"{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}", "@f {\"a\": \"x\"}@", 0, 0},
        {"{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {\"b\": 2}}",
         "@f {}@@g {\"b\": 2}@", 0, 0},
        {P "{\"name\": \"f\", \"parameters\": {}};{\"name\": \"g\", \"parameters\": {}}", "@f {}@@g {}@", 0,
         0},
        {"{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"a\": null}}", "@f {\"a\": null}@", 0,
         0},
        {"{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\", \"unit\": \"C\"}}",
         "@get_weather {\"city\": \"Paris\", \"unit\": \"C\"}@", 0, 0},
        {"{\n  \"name\": \"f\",\n  \"parameters\": {\n    \"a\": [1]\n  }\n}", "@f {\n    \"a\": [1]\n  }@",
         0, 0},
        {"Let me see. " P "{\"name\": \"f\", \"parameters\": {}}", "Let me see.@f {}@", 0, 0},
        {"{\"name\": \"f\", \"parameters\": {}} is the call", "@f {}@is the call", 0, 0},
        {"{\"name\": \"f\", \"parameters\": {\"a\": \";\"}}", "@f {\"a\": \";\"}@", 0, 0},
        {"{\"parameters\": {\"name\": \"x\"}, \"name\": \"f\"}", "@f {\"name\": \"x\"}@", 0, 0},
        {"{\"answer\": 42}", "{\"answer\": 42}", 0, 0},
        {"{\"name\": \"Bob\", \"parameters\": {}}", "{\"name\": \"Bob\", \"parameters\": {}}", 0, 1},
        {"{\"name\": \"f\", \"parameters\": {\"a\"", "{\"name\": \"f\", \"parameters\": {\"a\"", 0, 0},
        {"The call is {\"name\": \"f\", \"parameters\": {}}",
         "The call is {\"name\": \"f\", \"parameters\": {}}", 0, 0},
        {P "print(1)", P "print(1)", 1, 0},
        {P "{\"name\": \"f\"}", P "{\"name\": \"f\"}", 1, 0},
        {"{\"name\": \"f\", \"parameters\": {}};", "@f {}@", 0, 0},
        {"{} ; {\"name\": \"f\", \"parameters\": {}}", "{} ; {\"name\": \"f\", \"parameters\": {}}", 0, 0},
    };
    READS(form_of(llama, ""), "llama-json", all);
}

static void pythonic_has_a_list_of_calls(void **state)
{
    (void)state;
    static const answer all[] = {
        {"[f(a=1)]", "@f {\"a\":1}@", 0, 0},
        {"[f(a=1), g(b=\"x\")]", "@f {\"a\":1}@@g {\"b\":\"x\"}@", 0, 0},
        {"[f()]", "@f {}@", 0, 0},
        {" [get_weather(city='Paris', days=3)]\n", "@get_weather {\"city\":\"Paris\",\"days\":3}@", 0, 0},
        {"[f(a=True, b=False, c=None, d=true)]", "@f {\"a\":true,\"b\":false,\"c\":null,\"d\":true}@", 0, 0},
        {"[f(a=[1, 2.5, \"x\"], b={\"k\": (1, 2)})]", "@f {\"a\":[1,2.5,\"x\"],\"b\":{\"k\":[1,2]}}@", 0, 0},
        {"[f(a=-1.5e3, b=1_000, c=.5, d=1., e=+2)]",
         "@f {\"a\":-1.5e3,\"b\":1000,\"c\":0.5,\"d\":1.0,\"e\":2}@", 0, 0},
        {"[f(a='it\\'s', b=\"a\\\"b\", c='\"', d='\\n\\t\\\\')]",
         "@f {\"a\":\"it's\",\"b\":\"a\\\"b\",\"c\":\"\\\"\",\"d\":\"\\u000a\\u0009\\\\\"}@", 0, 0},
        {"[f(a='\\x41\\u00e9\\U0001F600')]", "@f {\"a\":\"\\u0041\\u00e9\\ud83d\\ude00\"}@", 0, 0},
        {"[f(a=']', b=\"[g()]\")]", "@f {\"a\":\"]\",\"b\":\"[g()]\"}@", 0, 0},
        {"[files.read-all(path=\"/tmp\")]", "@files.read-all {\"path\":\"/tmp\"}@", 0, 0},
        {"<|python_start|>[f(a=1)]<|python_end|>", "@f {\"a\":1}@", 0, 0},
        {"<|python_tag|>[f(a=1)]", "@f {\"a\":1}@", 0, 0},
        {"I call: <|python_start|>[f(a=1,)]<|python_end|> now", "I call:@f {\"a\":1}@now", 0, 0},
        {"[f(a={}), f(a=[],),]", "@f {\"a\":{}}@@f {\"a\":[]}@", 0, 0},
        {"[1, 2]", "[1, 2]", 0, 0},
        {"[f(1)]", "[f(1)]", 0, 0},
        {"[h(a=1)]", "[h(a=1)]", 0, 1},
        {"[f(a=x)]", "[f(a=x)]", 0, 0},
        {"[f(a=1)", "[f(a=1)", 0, 0},
        {"See [f(a=1)]", "See [f(a=1)]", 0, 0},
        {"<|python_start|>print(1)<|python_end|>", "<|python_start|>print(1)<|python_end|>", 1, 0},
        {"[f(a=01)]", "[f(a=01)]", 0, 0},
        {"[f(a='\xff')]", "[f(a='\xff')]", 0, 0},
        {"[f(a=(1), b=((2)), c=(3,), d=(), e=(4, 5,), g=('x'))]",
         "@f {\"a\": 1,\"b\":  2,\"c\":[3],\"d\":[],\"e\":[4,5],\"g\": \"x\"}@", 0, 0},
        {"[f(a=(,))]", "[f(a=(,))]", 0, 0},
        {"[f(a=(1 2))]", "[f(a=(1 2))]", 0, 0},
        {"[f(a=1, b=2, a=3)]", "[f(a=1, b=2, a=3)]", 0, 0},
        {"[f(a={'k': 1, 'k': 2})]", "@f {\"a\":{\"k\":1,\"k\":2}}@", 0, 0},
        {"[f(a=123456789012345678901234567890)]", "@f {\"a\":123456789012345678901234567890}@", 0, 0},
    };
    READS(form_of(pythonic, ""), "pythonic", all);
}

static void a_single_call_is_the_first(void **state)
{
    (void)state;
    const answer a = {"[f(a=1), g()]", "@f {\"a\":1}@", 0, 0};
    for (size_t step = 1; step < 16; step++) {
        char *got = read_in_steps(form_of(pythonic, ""), &a, step, true);
        assert_string_equal(got, a.want);
        free(got);
    }
}

static void no_form_is_found_where_a_template_writes_none(void **state)
{
    (void)state;
    assert_null(form_of("{{ m.content }}", ""));
    assert_null(form_of("{# <tool_call> [TOOL_CALLS] #}{{ m.content }}", "{# <|tool_call|> #}"));
    assert_null(form_of("{{ raise_exception('no calls') }}", ""));
    assert_null(form_of("call {{ m.tool_calls[0].function.name }}", ""));
}

/* Qwen3-Coder and GLM-4.5: their words about tools have the mark of another form. */
static void a_call_that_is_written_otherwise_has_no_form(void **state)
{
    (void)state;
    static const char told[] = "Write <tool_call> before a call and </tool_call> behind it.\n",
                      qwen_coder[] =
                          "{% for c in m.tool_calls %}<tool_call>\n<function={{ c.function.name }}>\n"
                          "{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>\n{{ v }}\n"
                          "</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %}",
                      glm[] = "{% for c in m.tool_calls %}<tool_call>{{ c.function.name }}\n"
                              "{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>\n"
                              "<arg_value>{{ v }}</arg_value>\n{% endfor %}</tool_call>{% endfor %}";
    assert_null(form_of(qwen_coder, told));
    assert_null(form_of(glm, told));
    assert_null(form_of_opened(glm, told, "<think>\n"));
    assert_string_equal(form_of("", told)->name, "hermes");
}

static void a_form_is_found_where_the_prompt_opens_thoughts(void **state)
{
    (void)state;
    assert_string_equal(form_of_opened(hermes, "", "<think>\n")->name, "hermes");
    assert_string_equal(form_of_opened(granite, "", "<think>\n")->name, "granite");
    assert_string_equal(form_of_opened(mistral, "", "[THINK]")->name, "mistral");
    assert_string_equal(form_of_opened(llama, "", "<think>\n")->name, "llama-json");
}

static void what_is_deep_or_long_is_text(void **state)
{
    (void)state;
    const bt_call_form *form = form_of(hermes, "");
    char deep[512] = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ";
    const size_t at = strlen(deep);
    memset(deep + at, '[', BT_CALLS_MAX_DEPTH + 1);
    char *got = read_in_steps(form, &(answer){deep, deep, 1, 0}, 1, false);
    assert_string_equal(got, deep);
    free(got);
    const size_t len = BT_CALLS_MAX_BODY_BYTES + 100;
    char *text = malloc(len + 1);
    assert_non_null(text);
    memset(text, 'x', len);
    memcpy(text, deep, at - 1);
    text[at - 1] = '"';
    text[len] = 0;
    got = read_in_steps(form, &(answer){text, text, 1, 0}, 4096, false);
    assert_string_equal(got, text);
    free(got);
    free(text);
}

static void no_more_than_a_mark_and_a_short_run_of_white_space_is_held(void **state)
{
    (void)state;
    static const char *const begins[] = {
        "", "x", "<tool_call>", "[f()]", "<|python_start|>", "{\"name\": \"f\", \"arguments\": {}}"};
    enum { LEN = 512 << 10, STEP = 16, MARK = 16 };
    const bt_call_form *forms[] = {form_of(hermes, ""), form_of(pythonic, "")};
    char *text = malloc(LEN);
    assert_non_null(text);
    for (size_t i = 0; i < 2 * sizeof begins / sizeof *begins; i++) {
        const char *begin = begins[i / 2];
        bt_calls c;
        bt_calls_part p;
        memset(text, ' ', LEN);
        memcpy(text, begin, strlen(begin));
        bt_calls_begin(&c, forms[i % 2], json_pack("{s:b}", "f", 1), false);
        for (size_t n = STEP; n <= LEN; n += STEP) {
            while (bt_calls_next(&p, &c, text, n, false)) continue;
            assert_true(n - c.at <= BT_CALLS_MAX_HELD_BYTES + MARK);
        }
        bt_calls_done(&c);
    }
    free(text);
}

static void of_many_calls_the_first_are_given(void **state)
{
    (void)state;
    enum { CALLS = BT_CALLS_MAX_CALLS + 2 };
    char text[8 * CALLS] = "[";
    bt_calls c;
    bt_calls_part p;
    for (size_t n = 0; n < CALLS; n++) strcat(text, "f(), ");
    strcat(text, "]");
    uint32_t given = 0;
    bt_calls_begin(&c, form_of(pythonic, ""), json_pack("{s:b}", "f", 1), false);
    while (bt_calls_next(&p, &c, text, strlen(text), true)) assert_true(p.is_call && p.call.index == given++);
    assert_int_equal(given, BT_CALLS_MAX_CALLS);
    bt_calls_done(&c);
}

/* Whether an answer that is calls of these tools may be the text. */
static bool allows_of(const char *tools, const bt_call_form *form, const char *only, bool is_single,
                      const char *text)
{
    json_t *list = json_loads(tools, 0, NULL), *all = bt_calls_schema(form, list, only, is_single);
    bt_program_state state;
    bt_program *program;
    bt_buf bytes;
    bt_fault f = {""};
    assert_non_null(all);
    bt_buf_init(&bytes, BT_PROGRAM_BYTES);
    const bt_schema_frame frame = {
        json_string_value(json_object_get(all, "before")), json_string_value(json_object_get(all, "between")),
        json_string_value(json_object_get(all, "behind")), json_is_true(json_object_get(all, "is_many"))};
    if (bt_schema_compile_framed(&bytes, json_object_get(all, "schema"), &frame, &f) < 0 ||
        bt_program_new(&program, bytes.data, bytes.len, &f) < 0)
        fail_msg("%s", f.text);
    bt_program_begin(&state, program);
    const bool ret = bt_program_accept(&state, program, text, strlen(text), &f) == BT_OK &&
                     bt_program_may_end(&state, program);
    bt_program_free(program);
    bt_buf_done(&bytes);
    json_decref(all);
    json_decref(list);
    return ret;
}

static bool allows(const bt_call_form *form, const char *only, bool is_single, const char *text)
{
    static const char tools[] =
        "[{\"function\":{\"name\":\"f\",\"parameters\":{\"$defs\":{\"n\":{\"type\":\"integer\"}},\"type\":"
        "\"object\","
        "\"properties\":{\"a\":{\"$ref\":\"#/$defs/n\"}},\"required\":[\"a\"]}}},{\"name\":\"g\"}]";
    return allows_of(tools, form, only, is_single, text);
}

static void arguments_are_objects_and_values_in_schemas_stay_as_they_are(void **state)
{
    (void)state;
    const bt_call_form *form = form_of(hermes, "");
#define CALL(arguments)  "<tool_call>\n{\"name\": \"f\", \"arguments\": " arguments "}\n</tool_call>"
#define TOOL(parameters) "[{\"name\":\"f\",\"parameters\":" parameters "}]"
    assert_false(allows_of(TOOL("{}"), form, NULL, true, CALL("\"x\"")));
    assert_true(allows_of(TOOL("{}"), form, NULL, true, CALL("{\"a\": 1}")));
    const char *referred =
        TOOL("{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/n\"},"
             "\"b\":{\"type\":\"integer\"}}}},\"$ref\":\"#/$defs/n\"}");
    assert_true(allows_of(referred, form, NULL, true, CALL("{\"a\": {\"a\": {\"b\": 1}}}")));
    assert_false(allows_of(referred, form, NULL, true, CALL("{\"a\": {\"a\": 1}}")));
    assert_false(allows_of(TOOL("{\"type\":[\"object\",\"null\"]}"), form, NULL, true, CALL("null")));
    const char *constant =
        TOOL("{\"properties\":{\"a\":{\"const\":{\"$ref\":\"#/x\"}}},\"required\":[\"a\"]}");
    assert_true(allows_of(constant, form, NULL, true, CALL("{\"a\": {\"$ref\":\"#/x\"}}")));
    const char *named = TOOL("{\"$defs\":{\"n\":{\"type\":\"integer\"}},\"properties\":{\"default\":"
                             "{\"$ref\":\"#/$defs/n\"}},\"required\":[\"default\"]}");
    assert_true(allows_of(named, form, NULL, true, CALL("{\"default\": 1}")));
    assert_false(allows_of(named, form, NULL, true, CALL("{\"default\": \"1\"}")));
}

static void answers_that_are_calls_follow_form_and_schemas(void **state)
{
    (void)state;
    const bt_call_form *form = form_of(hermes, "");
#define F  "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"
#define G_ "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"any\": [1]}}\n</tool_call>"
    assert_true(allows(form, NULL, false, F) && allows(form, NULL, false, F "\n" G_ "\n" F));
    assert_true(allows(form, NULL, true, G_) && !allows(form, NULL, true, F "\n" G_));
    assert_true(allows(form, "f", true, F) && !allows(form, "f", true, G_));
    assert_false(allows(form, NULL, false, ""));
    assert_false(allows(form, NULL, false, "x" F));
    assert_false(allows(form, NULL, false,
                        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"1\"}}\n</tool_call>"));
    assert_false(allows(form, NULL, false,
                        "<tool_call>\n{\"name\": \"h\", \"arguments\": {}}\n</tool_call>"));
    form = form_of(mistral, "");
    assert_true(allows(form, NULL, false, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}}]"));
    assert_true(allows(form, NULL, false,
                       "[TOOL_CALLS][{\"name\":\"g\",\"arguments\":{}},{\"name\":\"g\",\"arguments\":{}}]"));
    assert_false(allows(form, NULL, true,
                        "[TOOL_CALLS][{\"name\":\"g\",\"arguments\":{}},{\"name\":\"g\",\"arguments\":{}}]"));
    assert_false(allows(form, NULL, false, "[TOOL_CALLS][]"));
    form = form_of(granite, "");
    assert_true(allows(form, NULL, true, "<|tool_call|>[{\"name\": \"g\", \"arguments\": {}}]"));
    form = form_of(llama, "");
    assert_true(
        allows(form, NULL, false,
               "{\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"g\", \"parameters\": {}}"));
    assert_false(allows(form, "f", true, "{\"name\": \"f\", \"parameters\": {}}"));
    assert_false(bt_calls_has_schema(form_of(pythonic, "")));
}

static void names_of_tools_are_taken_from_either_place(void **state)
{
    (void)state;
    json_t *names = NULL,
           *tools = json_loads("[{\"type\":\"function\",\"function\":{\"name\":\"a\"}},{\"name\":\"b\"}]", 0,
                               NULL);
    size_t bad = 9;
    assert_int_equal(bt_calls_names(&names, &bad, tools), BT_OK);
    assert_true(json_object_get(names, "a") && json_object_get(names, "b"));
    json_decref(names);
    assert_int_equal(json_array_append_new(tools, json_pack("{s:{s:s}}", "function", "name", "")), 0);
    assert_int_equal(bt_calls_names(&names, &bad, tools), BT_EARG);
    assert_int_equal(bad, 2);
    json_decref(tools);
}

static int open_vocab(void **state)
{
    (void)state;
    small_bpe(&vocab, "smollm");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hermes_has_an_object_between_marks),
        cmocka_unit_test(mistral_has_a_list_behind_a_mark),
        cmocka_unit_test(granite_has_a_list_behind_either_mark),
        cmocka_unit_test(llama_has_objects_with_or_without_a_mark),
        cmocka_unit_test(pythonic_has_a_list_of_calls),
        cmocka_unit_test(a_single_call_is_the_first),
        cmocka_unit_test(no_form_is_found_where_a_template_writes_none),
        cmocka_unit_test(a_call_that_is_written_otherwise_has_no_form),
        cmocka_unit_test(a_form_is_found_where_the_prompt_opens_thoughts),
        cmocka_unit_test(what_is_deep_or_long_is_text),
        cmocka_unit_test(no_more_than_a_mark_and_a_short_run_of_white_space_is_held),
        cmocka_unit_test(of_many_calls_the_first_are_given),
        cmocka_unit_test(answers_that_are_calls_follow_form_and_schemas),
        cmocka_unit_test(arguments_are_objects_and_values_in_schemas_stay_as_they_are),
        cmocka_unit_test(names_of_tools_are_taken_from_either_place),
    };
    return cmocka_run_group_tests(tests, open_vocab, NULL);
}
