/* The option table: forms, sources and their order, refusals with words, and what is printed from it. */
#include "base/opt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

typedef struct config {
    const char *model;
    int64_t port, wait_ms;
    uint64_t memory;
    double temp;
    bool verbose, json;
    bt_opt_list peers;
    int mode;
} config;

static const char *const modes[] = {"fast", "exact", NULL};
static const bt_opt table[] = {
    {.group = "Model", .letter = 'm', .name = "model", .value = "MODEL", BT_OPT_AT(config, model),
     .type = BT_OPT_STRING, .required = true, .example = "smollm2", .help = "GGUF file"},
    {.group = "Network", .letter = 'p', .name = "port", .value = "PORT", BT_OPT_AT(config, port),
     .type = BT_OPT_INT, .def = "8080", .lo = 0, .hi = 65535, .help = "where clients connect"},
    {.group = "Network", .name = "peer", .value = "ENDPOINT", BT_OPT_AT(config, peers),
     .type = BT_OPT_STRINGS, .def = "a,b", .help = "another node"},
    {.group = "Network", .name = "wait", .value = "TIME", BT_OPT_AT(config, wait_ms), .type = BT_OPT_DURATION,
     .def = "1.5s", .lo = 100, .hi = 60000, .help = "how long to wait"},
    {.group = "Limits", .name = "kv-memory", .value = "SIZE", BT_OPT_AT(config, memory), .type = BT_OPT_SIZE,
     .def = "1G", .lo = 1024, .hi = INT64_C(1) << 40, .help = "KV cache"},
    {.group = "Limits", .name = "temp", .value = "T", BT_OPT_AT(config, temp), .type = BT_OPT_DOUBLE,
     .def = "0.5", .flo = 0, .fhi = 2, .help = "temperature"},
    {.group = "Limits", .name = "mode", .value = "MODE", BT_OPT_AT(config, mode), .type = BT_OPT_CHOICE,
     .def = "exact", .choices = modes, .help = "how to compute"},
    {.group = "Output", .letter = 'v', .name = "verbose", BT_OPT_AT(config, verbose), .type = BT_OPT_FLAG,
     .help = "say more"},
    {.group = "Output", .letter = 'j', .name = "json", BT_OPT_AT(config, json), .type = BT_OPT_FLAG,
     .help = "one object"},
};
static const bt_opt_program program = {
    .name = "prog",
    .summary = "Does a thing.",
    .usage = "-m MODEL [options] [FILE]",
    .normal = "prog -m smollm2",
    .opts = table,
    .opt_count = BT_OPT_COUNT(table),
    .args_min = 0,
    .args_max = 2,
    .args_name = "FILE",
};

static config c;
static bt_opt_args a;
static bt_fault f;

#define ARGV(...) \
    (char **)(const char *[]) { __VA_ARGS__, NULL }
#define PARSE(...) parse(ARGV("prog", __VA_ARGS__))
static bt_err parse(char **argv)
{
    int argc = 0;
    while (argv[argc]) argc++;
    f.text[0] = 0;
    return bt_opt_parse(&a, &program, argc, argv, &c, &f);
}

static int clean(void **s)
{
    (void)s;
    for (size_t i = 0; i < program.opt_count; i++) {
        char name[80];
        bt_opt_env_name(name, table[i].name);
        unsetenv(name);
    }
    return 0;
}

static void gives_the_defaults(void **s)
{
    (void)s;
    assert_int_equal(PARSE("-m", "x.gguf"), BT_OK);
    assert_string_equal(c.model, "x.gguf");
    assert_int_equal(c.port, 8080);
    assert_int_equal(c.wait_ms, 1500);
    assert_int_equal(c.memory, 1073741824);
    assert_true(c.temp == 0.5);
    assert_int_equal(c.mode, 1);
    assert_false(c.verbose);
    assert_int_equal(c.peers.count, 2);
    assert_string_equal(c.peers.items[1], "b");
    assert_int_equal(bt_opt_source_of(&a, "port"), BT_OPT_FROM_DEFAULT);
    bt_opt_done(&a);
}

static void takes_every_form(void **s)
{
    (void)s;
    assert_int_equal(PARSE("file1", "--model=m", "-p81", "--wait", "2s", "-vj", "--kv-memory=8G",
                           "--temp=1e-1", "--mode", "fast", "--", "-p"),
                     BT_OK);
    assert_string_equal(c.model, "m");
    assert_int_equal(c.port, 81);
    assert_int_equal(c.wait_ms, 2000);
    assert_true(c.memory == UINT64_C(8) << 30);
    assert_true(c.temp == 0.1);
    assert_int_equal(c.mode, 0);
    assert_true(c.verbose && c.json);
    assert_int_equal(a.count, 2);
    assert_string_equal(a.args[0], "file1");
    assert_string_equal(a.args[1], "-p");
    assert_null(a.args[2]);
    bt_opt_done(&a);
    assert_int_equal(PARSE("-vp", "9", "-m-", "-v", "--json=no", "--peer", "x,y", "--peer=z", "-p", "10"),
                     BT_OK);
    assert_int_equal(c.port, 10);
    assert_string_equal(c.model, "-");
    assert_false(c.json);
    assert_int_equal(c.peers.count, 2);
    assert_string_equal(c.peers.items[0], "x,y");
    assert_string_equal(c.peers.items[1], "z");
    bt_opt_done(&a);
}

static void command_line_wins_over_environment_over_default(void **s)
{
    (void)s;
    setenv("BATON_MODEL", "env.gguf", 1);
    setenv("BATON_PORT", "not a number", 1);
    setenv("BATON_KV_MEMORY", "2K", 1);
    setenv("BATON_VERBOSE", "1", 1);
    setenv("BATON_PEER", "p,,q,r", 1);
    setenv("BATON_TEMP", "", 1);
    assert_int_equal(PARSE("--port", "1"), BT_OK);
    assert_string_equal(c.model, "env.gguf");
    assert_int_equal(c.port, 1);
    assert_int_equal(c.memory, 2048);
    assert_true(c.verbose);
    assert_true(c.temp == 0.5);
    assert_int_equal(c.peers.count, 3);
    assert_string_equal(c.peers.items[2], "r");
    assert_int_equal(bt_opt_source_of(&a, "port"), BT_OPT_FROM_COMMAND_LINE);
    assert_int_equal(bt_opt_source_of(&a, "kv-memory"), BT_OPT_FROM_ENV);
    bt_opt_done(&a);
    assert_int_equal(PARSE("--verbose"), BT_EARG);
    assert_string_equal(
        f.text, "BATON_PORT=not a number: 'not a number' is not a whole number; for example '--port 8080'");
    assert_int_equal(PARSE("--help"), BT_OK);
    assert_int_equal(a.action, BT_OPT_HELP);
    bt_opt_done(&a);
}

static void refuses_with_the_option_the_value_and_an_example(void **s)
{
    (void)s;
    static const struct {
        const char *arg, *arg2, *words;
    } bad[] = {
        {"--prot", "1", "unknown option '--prot'. Did you mean '--port'?"},
        {"--modle=x", NULL, "unknown option '--modle'. Did you mean '--model'?"},
        {"--hepl", NULL, "unknown option '--hepl'. Did you mean '--help'?"},
        {"--zebra", NULL, "unknown option '--zebra'"},
        {"--kv", NULL, "unknown option '--kv'"},
        {"-z", NULL, "unknown option '-z'"},
        {"--port", "70000", "--port 70000: 70000 is not within 0..65535; for example '--port 8080'"},
        {"-p", "x", "--port x: 'x' is not a whole number; for example '--port 8080'"},
        {"--port", NULL, "option '--port' needs a value, for example '--port 8080'"},
        {"-m", NULL, "option '-m' needs a value, for example '--model smollm2'"},
        {"--wait", "1ms", "--wait 1ms: 1ms is not within 100..60000 ms; for example '--wait 1.5s'"},
        {"--kv-memory", "1",
         "--kv-memory 1: 1 is not within 1024..1099511627776 bytes; for example '--kv-memory 1G'"},
        {"--temp", "2.5", "--temp 2.5: 2.5 is not within 0..2; for example '--temp 0.5'"},
        {"--mode", "slow", "--mode slow: 'slow' is not one of fast, exact; for example '--mode exact'"},
        {"--json=maybe", NULL, "--json maybe: 'maybe' is neither yes nor no"},
        {"--help=1", NULL, "option '--help' takes no value"},
        {"a", NULL, "option '--model' is missing, for example '--model smollm2'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *arg = strdup(bad[i].arg), *arg2 = bad[i].arg2 ? strdup(bad[i].arg2) : NULL;
        assert_int_equal(PARSE(arg, arg2), BT_EARG);
        assert_string_equal(f.text, bad[i].words);
        free(arg);
        free(arg2);
    }
    assert_int_equal(PARSE("-mx", "1", "2", "3"), BT_EARG);
    assert_string_equal(f.text, "unexpected argument '3'");
}

static char *printed(void (*print)(FILE *, const bt_opt_program *))
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    print(out, &program);
    fclose(out);
    return text;
}

static void help_has_groups_defaults_and_the_normal_command(void **s)
{
    (void)s;
    char *t = printed(bt_opt_help);
    assert_memory_equal(t, "Usage: prog -m MODEL [options] [FILE]\nDoes a thing.\n\nModel:\n", 60);
    assert_non_null(strstr(
        t, "\nNetwork:\n  -p, --port PORT            where clients connect (0..65535; default 8080)\n"));
    assert_non_null(strstr(t, "      --mode MODE            how to compute (fast, exact; default exact)\n"));
    assert_non_null(strstr(t, "  -h, --help "));
    assert_non_null(strstr(t, "BATON_MODEL for --model"));
    const char *end = "\nNormal command:\n  prog -m smollm2\n";
    assert_string_equal(t + strlen(t) - strlen(end), end);
    for (char *line = strtok(t, "\n"); line; line = strtok(NULL, "\n")) assert_true(strlen(line) <= 100);
    free(t);
}

static void the_printed_table_has_twelve_columns(void **s)
{
    (void)s;
    char *t = printed(bt_opt_print_options);
    assert_non_null(strstr(
        t, "prog\tNetwork\tp\tport\tPORT\tint\t8080\t0\t65535\t\tBATON_PORT\twhere clients connect\n"));
    assert_non_null(
        strstr(t, "prog\tLimits\t\tmode\tMODE\tchoice\texact\t\t\tfast,exact\tBATON_MODE\thow to compute\n"));
    for (char *line = strtok(t, "\n"); line; line = strtok(NULL, "\n")) {
        int tabs = 0;
        for (const char *p = line; *p; p++) tabs += *p == '\t';
        assert_int_equal(tabs, 11);
    }
    free(t);
}

static void the_manual_page_escapes_what_troff_would_eat(void **s)
{
    (void)s;
    char *t = printed(bt_opt_man);
    assert_memory_equal(t, ".TH PROG 1 ", 11);
    assert_non_null(strstr(t, "\\fB\\-p\\fR, \\fB\\-\\-port\\fR \\fIPORT\\fR\n"));
    assert_non_null(strstr(t, "\\fB\\-\\-kv\\-memory\\fR"));
    assert_null(strstr(t, " -"));
    free(t);
}

static void print_config_names_each_source(void **s)
{
    (void)s;
    char *text = NULL;
    size_t n = 0;
    setenv("BATON_TEMP", "0.25", 1);
    assert_int_equal(PARSE("--print-config", "-p", "7", "--peer", "x", "--peer", "y"), BT_OK);
    assert_int_equal(a.action, BT_OPT_PRINT_CONFIG);
    FILE *out = open_memstream(&text, &n);
    bt_opt_print_config(out, &a);
    fclose(out);
    assert_string_equal(
        text, "model\t\tdefault\nport\t7\tcommand line\npeer\tx,y\tcommand line\nwait\t1.5s\tdefault\n"
              "kv-memory\t1G\tdefault\ntemp\t0.25\tenvironment\nmode\texact\tdefault\n"
              "verbose\tno\tdefault\njson\tno\tdefault\n");
    free(text);
    bt_opt_done(&a);
}

/* A program that starts `program` and has some of its options. */
typedef struct outer {
    bool json;
    config inner;
} outer;
static const bt_opt_group group = BT_OPT_GROUP(table);
static const bt_opt outer_table[] = {
    BT_OPT_OF(group, outer, inner, "Inside", "port"),
    BT_OPT_OF(group, outer, inner, "Inside", "peer"),
    BT_OPT_OF(group, outer, inner, "Inside", "wait"),
    BT_OPT_OF(group, outer, inner, "Inside", "verbose"),
    {.group = "Output", .name = "json", BT_OPT_AT(outer, json), .type = BT_OPT_FLAG, .help = "one object"},
};
static const bt_opt_program outer_program = {.name = "outer",      .summary = "Starts prog.",
                                             .usage = "[options]", .normal = "outer",
                                             .opts = outer_table,  .opt_count = BT_OPT_COUNT(outer_table)};

/* The whole group through a group around it, with two rows adjusted, and one whose value lies elsewhere. */
typedef struct whole {
    int64_t before, place;
    outer deep;
} whole;
static const bt_opt around[] = {
    BT_OPT_ALL(group, outer, inner, NULL),
    {.of = &group, .name = "port", .def = "7", .help = "another door"},
    {.of = &group, .name = "mode", .def = BT_OPT_NO_DEFAULT, .required = true},
};
static const bt_opt_group around_group = BT_OPT_GROUP(around);
static const bt_opt single[] = {
    {.group = "Own", .name = "count", .value = "N", .type = BT_OPT_INT, .def = "1", .lo = 1, .hi = 9,
     .help = "how many"},
};
static const bt_opt_group single_group = BT_OPT_GROUP(single);
static const bt_opt whole_table[] = {
    {.of = &single_group, .name = "count", BT_OPT_AT(whole, place), .lo = 0, .hi = 5},
    BT_OPT_ALL(around_group, whole, deep, "All"),
};
static const bt_opt_program whole_program = {.name = "whole",      .summary = "Has all.",
                                             .usage = "[options]", .normal = "whole",
                                             .opts = whole_table,  .opt_count = BT_OPT_COUNT(whole_table)};

static void append(void *ud, const char *option, const char *value)
{
    strcat(ud, option);
    if (value) strcat(strcat(ud, " "), value);
    strcat(ud, ";");
}

#define PASSED(ret, ...) passed(ret, ARGV("outer", __VA_ARGS__))
static void passed(char *ret, char **argv)
{
    outer o;
    int argc = 0;
    while (argv[argc]) argc++;
    if (bt_opt_parse(&a, &outer_program, argc, argv, &o, &f) < 0) fail_msg("%s", f.text);
    *ret = 0;
    bt_opt_pass_on(&a, &group, append, ret);
    bt_opt_done(&a);
}

static void options_of_another_program_are_its_own_rows_and_are_passed_on_as_given(void **s)
{
    (void)s;
    char *t = NULL, line[512];
    size_t n = 0;
    outer o;
    FILE *out = open_memstream(&t, &n);
    bt_opt_help(out, &outer_program);
    fclose(out);
    assert_non_null(strstr(
        t, "\nInside:\n  -p, --port PORT            where clients connect (0..65535; default 8080)\n"));
    free(t);
    assert_int_equal(bt_opt_parse(&a, &outer_program, 1, ARGV("outer"), &o, &f), BT_OK);
    assert_int_equal(o.inner.port, 8080);
    assert_int_equal(o.inner.wait_ms, 1500);
    assert_int_equal(o.inner.peers.count, 2);
    bt_opt_done(&a);
    assert_int_equal(bt_opt_parse(&a, &outer_program, 2, ARGV("outer", "-p70000"), &o, &f), BT_EARG);
    assert_non_null(strstr(f.text, "0..65535"));

    PASSED(line, "--json");
    assert_string_equal(line, "");
    PASSED(line, "-vp", "0", "--wait=2s", "--peer", "x", "--peer", "y,z");
    assert_string_equal(line, "--port 0;--peer x;--peer y,z;--wait 2s;--verbose;");
    setenv("BATON_PORT", "91", 1);
    setenv("BATON_VERBOSE", "yes", 1);
    PASSED(line, "--verbose=no");
    assert_string_equal(line, "--port 91;--verbose=no;");
}

static void a_whole_group_stands_in_its_order_with_what_its_user_adjusts(void **s)
{
    (void)s;
    char *t = NULL;
    size_t n = 0;
    whole w = {.before = 5};
    FILE *out = open_memstream(&t, &n);
    bt_opt_print_options(out, &whole_program);
    fclose(out);
    const char *at = t;
    static const char *const in_order[] = {
        "whole\tOwn\t\tcount\tN\tint\t1\t0\t5\t",
        "whole\tAll\tm\tmodel\tMODEL\tstring\t\t",
        "whole\tAll\tp\tport\tPORT\tint\t7\t0\t65535\t\tBATON_PORT\tanother door\n",
        "whole\tAll\t\tpeer\t",
        "whole\tAll\t\tmode\tMODE\tchoice\t\t\t\tfast,exact\t",
        "whole\tAll\tj\tjson\t",
    };
    for (size_t i = 0; i < sizeof in_order / sizeof *in_order; i++)
        if (!(at = strstr(at, in_order[i]))) fail_msg("'%s' is not in its place: %s", in_order[i], t);
    size_t lines = 0;
    for (const char *p = t; *p; p++) lines += *p == '\n';
    assert_int_equal(lines, 1 + sizeof table / sizeof *table + 5);
    free(t);

    assert_int_equal(bt_opt_parse(&a, &whole_program, 3, ARGV("whole", "-m", "x"), &w, &f), BT_EARG);
    assert_non_null(strstr(f.text, "option '--mode' is missing"));
    assert_int_equal(bt_opt_parse(&a, &whole_program, 5, ARGV("whole", "-mx", "--mode=fast", "--count", "0"),
                                  &w, &f),
                     BT_OK);
    assert_int_equal(w.before, 5);
    assert_int_equal(w.place, 0);
    assert_int_equal(w.deep.inner.port, 7);
    assert_string_equal(w.deep.inner.model, "x");
    assert_int_equal(w.deep.inner.peers.count, 2);
    bt_opt_done(&a);
}

/* The same name, as a list: choices and range of the group do not bind it. */
static void a_row_of_another_type_leaves_the_groups_choices_behind(void **s)
{
    (void)s;
    typedef struct lists {
        bt_opt_list modes;
    } lists;
    static const bt_opt opts[] = {
        {.of = &group, .name = "mode", BT_OPT_AT(lists, modes), .type = BT_OPT_STRINGS,
         .def = BT_OPT_NO_DEFAULT},
    };
    static const bt_opt_program p = {.name = "l",   .summary = "s", .usage = "u",
                                     .normal = "n", .opts = opts,   .opt_count = BT_OPT_COUNT(opts)};
    lists l;
    assert_int_equal(bt_opt_parse(&a, &p, 4, ARGV("l", "--mode=slow", "--mode", "exact"), &l, &f), BT_OK);
    assert_int_equal(l.modes.count, 2);
    assert_string_equal(l.modes.items[0], "slow");
    bt_opt_done(&a);
}

static int ran(int argc, char **argv)
{
    return argc == 2 && !strcmp(argv[0], "run") ? 40 + atoi(argv[1]) : 99;
}

typedef struct hidden {
    const char *key, *url, *text;
    bt_opt_list words;
    bool json;
} hidden;
static const bt_opt hidden_rows[] = {
    {.group = "All", .letter = 'k', .name = "key-file", .value = "FILE", .type = BT_OPT_STRING,
     .holds = BT_OPT_HOLDS_SECRET, .help = "where a key lies"},
};
static const bt_opt_group hidden_group = BT_OPT_GROUP(hidden_rows);
static const bt_opt hidden_table[] = {
    {.of = &hidden_group, .name = "key-file", BT_OPT_AT(hidden, key), .help = "of mine"},
    {.group = "All", .name = "url", .value = "URL", BT_OPT_AT(hidden, url), .type = BT_OPT_STRING,
     .holds = BT_OPT_HOLDS_URL, .help = "of a server"},
    {.group = "All", .name = "text", .value = "TEXT", BT_OPT_AT(hidden, text), .type = BT_OPT_STRING,
     .help = "any"},
    {.group = "All", .name = "word", .value = "WORD", BT_OPT_AT(hidden, words), .type = BT_OPT_STRINGS,
     .def = "a,b", .help = "some"},
    {.group = "All", .letter = 'j', .name = "json", BT_OPT_AT(hidden, json), .type = BT_OPT_FLAG,
     .help = "one object"},
};
static const bt_opt_program hidden_program = {.name = "tool hidden", .summary = "Has secrets.",
                                              .usage = "[options]",  .normal = "tool hidden",
                                              .opts = hidden_table,  .opt_count = BT_OPT_COUNT(hidden_table),
                                              .args_max = 3,         .args_name = "FILE"};

static void add_shown(void *ud, const bt_opt *option, const char *value) { append(ud, option->name, value); }

#define SHOWN(ret, ...) shown(ret, ARGV("hidden", __VA_ARGS__))
/* The line, and behind it all options with their values. */
static void shown(char *ret, char **argv)
{
    hidden h;
    int argc = 0;
    while (argv[argc]) argc++;
    if (bt_opt_parse(&a, &hidden_program, argc, argv, &h, &f) < 0) fail_msg("%s", f.text);
    char *line = bt_opt_shown_line(&a);
    strcat(strcpy(ret, line), "|");
    assert_int_equal(bt_opt_shown_each(&a, add_shown, ret), BT_OK);
    free(line);
    bt_opt_done(&a);
}

static void what_is_shown_of_a_command_has_no_secret_in_any_form(void **s)
{
    (void)s;
    char t[512];
    SHOWN(t, "--key-file", "/s3cret", "--url", "http://me:pw@h:1/a@b");
    assert_string_equal(t, "tool hidden --key-file ... --url http://h:1/a@b|"
                           "key-file ...;url http://h:1/a@b;word a;word b;json no;");
    SHOWN(t, "--key-file=/s3cret", "--url=me:p@w@h?q=@", "-j");
    assert_string_equal(
        t, "tool hidden --key-file=... '--url=h?q=@' -j|key-file ...;url h?q=@;word a;word b;json yes;");
    SHOWN(t, "-jk/s3cret", "-k", "/s3cret", "--json=no");
    assert_string_equal(t, "tool hidden -jk... -k ... --json=no|key-file ...;word a;word b;json no;");
    setenv("BATON_KEY_FILE", "/s3cret", 1);
    setenv("BATON_WORD", "x,y", 1);
    SHOWN(t, "--text", "it's", "", "a b", "--", "-k");
    unsetenv("BATON_KEY_FILE");
    unsetenv("BATON_WORD");
    assert_string_equal(
        t, "tool hidden --text 'it'\\''s' '' 'a b' -- -k|key-file ...;text it's;word x;word y;json no;");
    /* A value that nobody marked, and an argument, are looked through where they have the form of a URL. */
    SHOWN(t, "--text", "ftp://me:pw@h/x", "https://pw@h", "me@home");
    assert_string_equal(
        t, "tool hidden --text ftp://h/x https://h me@home|text ftp://h/x;word a;word b;json no;");
    char *url = bt_opt_shown_url("http://u:p@127.0.0.1:80");
    assert_string_equal(url, "http://127.0.0.1:80");
    free(url);
}

static void subcommands_run_by_name(void **s)
{
    (void)s;
    static const bt_opt_command list[] = {{"Serve", "run", &program, ran}};
    static const bt_opt_commands tool = {"tool", "A tool.", "tool run", list, 1};
    FILE *saved_err = stderr, *saved_out = stdout;
    char *err = NULL, *out = NULL;
    size_t n = 0, m = 0;
    assert_int_equal(bt_opt_dispatch(&tool, 3, ARGV("tool", "run", "2")), 42);
    stderr = open_memstream(&err, &n);
    stdout = open_memstream(&out, &m);
    const int unknown = bt_opt_dispatch(&tool, 2, ARGV("tool", "rnu"));
    fflush(stderr);
    char *first = strdup(err);
    const int none = bt_opt_dispatch(&tool, 1, ARGV("tool"));
    const int help = bt_opt_dispatch(&tool, 2, ARGV("tool", "--help"));
    fclose(stderr);
    fclose(stdout);
    stderr = saved_err;
    stdout = saved_out;
    assert_int_equal(unknown, 2);
    assert_string_equal(first, "tool: unknown command 'rnu'. Did you mean 'run'? Try 'tool --help'.\n");
    assert_int_equal(none, 2);
    assert_int_equal(help, 0);
    assert_non_null(strstr(out, "Serve:\n  run            Does a thing.\n"));
    free(first);
    free(err);
    free(out);
}

static void start_turns_outcomes_into_exit_codes(void **s)
{
    (void)s;
    FILE *saved = stderr;
    char *err = NULL;
    size_t n = 0;
    stderr = open_memstream(&err, &n);
    const int wrong = bt_opt_start(&a, &program, 2, ARGV("prog", "--prot"), &c);
    const int missing = bt_opt_start(&a, &program, 1, ARGV("prog"), &c);
    fclose(stderr);
    stderr = saved;
    assert_int_equal(wrong, 2);
    assert_int_equal(missing, 2);
    assert_string_equal(
        err, "prog: unknown option '--prot'. Did you mean '--port'? Try 'prog --help'.\n"
             "prog: option '--model' is missing, for example '--model smollm2'. Try 'prog --help'.\n");
    free(err);
    assert_int_equal(bt_opt_start(&a, &program, 2, ARGV("prog", "-mx"), &c), -1);
    bt_opt_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(gives_the_defaults, clean),
        cmocka_unit_test_setup(takes_every_form, clean),
        cmocka_unit_test_setup(command_line_wins_over_environment_over_default, clean),
        cmocka_unit_test_setup(refuses_with_the_option_the_value_and_an_example, clean),
        cmocka_unit_test_setup(help_has_groups_defaults_and_the_normal_command, clean),
        cmocka_unit_test_setup(the_printed_table_has_twelve_columns, clean),
        cmocka_unit_test_setup(the_manual_page_escapes_what_troff_would_eat, clean),
        cmocka_unit_test_setup(print_config_names_each_source, clean),
        cmocka_unit_test_setup(options_of_another_program_are_its_own_rows_and_are_passed_on_as_given, clean),
        cmocka_unit_test_setup(a_whole_group_stands_in_its_order_with_what_its_user_adjusts, clean),
        cmocka_unit_test_setup(a_row_of_another_type_leaves_the_groups_choices_behind, clean),
        cmocka_unit_test_setup(what_is_shown_of_a_command_has_no_secret_in_any_form, clean),
        cmocka_unit_test_setup(subcommands_run_by_name, clean),
        cmocka_unit_test_setup(start_turns_outcomes_into_exit_codes, clean),
    };
    return cmocka_run_group_tests_name("opt", tests, NULL, NULL);
}
