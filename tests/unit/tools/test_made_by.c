/* Results say how they were made: every key, nothing that is its user's alone, and every option that
 * could hold such a thing is marked. */
#include "tools/made_by.h"
#include "tools/tool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static _Alignas(16) char config[1 << 16];

static bt_opt_args parsed(const bt_opt_program *program, char **argv)
{
    bt_opt_args a;
    bt_fault fault = {""};
    int argc = 0;
    while (argv[argc]) argc++;
    if (bt_opt_parse(&a, program, argc, argv, config, &fault) < 0) fail_msg("%s", fault.text);
    return a;
}
#define ARGV(...) \
    (char **)(const char *[]) { __VA_ARGS__, NULL }

static const char *string(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void it_names_program_machine_and_options_and_nothing_secret(void **state)
{
    (void)state;
    bt_opt_args a =
        parsed(&tool_replay_program, ARGV("replay", "trace of mine.jsonl", "--url=https://me:open@host:81/v1",
                                          "--limit", "5", "--api-key-file", "cellar/sesame", "-q"));
    json_t *o = NULL;
    tool_made_by_commit("0123abc-dirty");
    assert_int_equal(tool_made_by(&o, &a, "ref", NULL), BT_OK);
    assert_string_equal(string(o, "version"), BT_VERSION);
    assert_string_equal(string(o, "commit"), "0123abc-dirty");
    assert_string_equal(
        string(o, "command"),
        "baton replay 'trace of mine.jsonl' --url=https://host:81/v1 --limit 5 --api-key-file ... -q");
    assert_string_equal(string(o, "isa"), "ref");
    assert_int_equal(strlen(string(o, "date")), strlen("2000-01-01T00:00:00Z"));
    assert_true(*string(o, "host") && *string(o, "cpu"));
    const json_t *options = json_object_get(o, "options");
    assert_string_equal(string(options, "limit"), "5");
    assert_string_equal(string(options, "seed"), "1"); /* the default is in force too */
    assert_string_equal(string(options, "quiet"), "yes");
    assert_string_equal(string(options, "json"), "no");
    assert_string_equal(string(options, "url"), "https://host:81/v1");
    assert_string_equal(string(options, "api-key-file"), "...");
    assert_null(json_object_get(options, "slo"));
    assert_null(json_object_get(o, "profiles"));
    char *text = json_dumps(o, 0);
    assert_null(strstr(text, "open"));
    assert_null(strstr(text, "sesame"));
    free(text);
    json_decref(o);
    bt_opt_done(&a);
}

static void lists_are_arrays_and_a_profile_stands_once(void **state)
{
    (void)state;
    bt_opt_args a = parsed(&tool_simulate_program, ARGV("simulate", "t", "-m", "one", "-m", "b\xff"));
    json_t *o = NULL;
    tool_made_by_commit("");
    assert_int_equal(tool_made_by(&o, &a, NULL, NULL), BT_OK);
    assert_true(json_is_null(json_object_get(o, "commit")));
    assert_string_equal(string(o, "command"), "(not UTF-8)");
    assert_true(*string(o, "isa"));
    const json_t *models = json_object_get(json_object_get(o, "options"), "model");
    assert_int_equal(json_array_size(models), 2);
    assert_string_equal(json_string_value(json_array_get(models, 0)), "one");
    tool_made_by_profile(o, "h100");
    tool_made_by_profile(o, NULL);
    tool_made_by_profile(o, "a100");
    tool_made_by_profile(o, "h100");
    const json_t *profiles = json_object_get(o, "profiles");
    assert_int_equal(json_array_size(profiles), 2);
    assert_string_equal(string(json_array_get(profiles, 1), "name"), "a100");
    const json_t *error = json_object_get(json_array_get(profiles, 1), "error");
    assert_true(json_is_boolean(json_object_get(json_object_get(error, "ttft"), "is_calibrated")));
    assert_true(*string(json_array_get(profiles, 1), "standing"));
    json_decref(o);
    bt_opt_done(&a);
}

/* "key" or "keys" as a word, unless it is a public one. A token of a hub is one too. */
static bool speaks_of_keys(const char *help)
{
    for (const char *at = help; (at = strstr(at, "key")); at++) {
        const char *behind = at + 3 + (at[3] == 's');
        if (*behind < 'a' || *behind > 'z') return !strstr(help, "public key");
    }
    return false;
}

static void every_option_of_a_url_or_of_a_file_of_keys_is_marked(void **state)
{
    (void)state;
    size_t urls = 0, files = 0;
    for (size_t i = 0; i < tool_commands.count; i++) {
        const bt_opt_program *p = tool_commands.list[i].program;
        bt_opt_args a = parsed(p, ARGV(tool_commands.list[i].word, "--help"));
        for (size_t k = 0; k < a.row_count; k++) {
            const bt_opt *o = &a.rows[k];
            const bool is_place = o->value && (!strcmp(o->value, "FILE") || !strcmp(o->value, "DIR")),
                       is_url = o->value && !strcmp(o->value, "URL"),
                       is_secret = is_place && (speaks_of_keys(o->help) || strstr(o->name, "token-file"));
            const bt_opt_holds holds = is_url      ? BT_OPT_HOLDS_URL
                                       : is_secret ? BT_OPT_HOLDS_SECRET
                                                   : BT_OPT_HOLDS_NOTHING;
            if (o->holds != holds) fail_msg("%s --%s holds %d, not %d", p->name, o->name, o->holds, holds);
            urls += is_url;
            files += is_secret;
        }
        bt_opt_done(&a);
    }
    assert_true(urls >= 5 && files >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_names_program_machine_and_options_and_nothing_secret),
        cmocka_unit_test(lists_are_arrays_and_a_profile_stands_once),
        cmocka_unit_test(every_option_of_a_url_or_of_a_file_of_keys_is_marked),
    };
    return cmocka_run_group_tests_name("how results are made", tests, NULL, NULL);
}
