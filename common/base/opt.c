/* Reads options by their table: default, then environment, then command line, each through the same
 * conversion. */
#include "base/opt.h"
#include "base/num.h"
#include "base/opt_private.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const bt_opt_builtin bt_opt_builtins[5] = {
    {'h', "help", BT_OPT_HELP, "this text"},
    {'V', "version", BT_OPT_VERSION, "print the version"},
    {0, "print-config", BT_OPT_PRINT_CONFIG, "print each value and where it came from, and end"},
    {0, "print-options", BT_OPT_PRINT_OPTIONS, "print the option table, separated by tabs"},
    {0, "print-man", BT_OPT_PRINT_MAN, "print the manual page"},
};
#define BUILTINS (sizeof bt_opt_builtins / sizeof *bt_opt_builtins)

static void *field(const bt_opt_args *a, const bt_opt *o) { return (char *)a->config + o->offset; }

void bt_opt_env_name(char ret[80], const char *name)
{
    size_t n = (size_t)snprintf(ret, 80, "BATON_%s", name);
    for (size_t i = 0; i < n && i < 79; i++)
        ret[i] = ret[i] == '-' ? '_' : (char)toupper((unsigned char)ret[i]);
}

/* ---- conversion ---- */

static bool read_flag(bool *ret, const char *text)
{
    static const char *const words[] = {"no", "yes", "false", "true", "0", "1"};
    for (size_t i = 0; i < 6; i++)
        if (!strcmp(text, words[i])) return *ret = i & 1, true;
    return false;
}

static bt_err list_add(bt_opt_list *l, const char *text, size_t len, bt_fault *fault)
{
    const char **items = realloc(l->items, (l->count + 1) * sizeof *items);
    if (items) l->items = items;
    char *copy = items ? strndup(text, len) : NULL;
    if (!copy) return bt_fail(fault, BT_ENOMEM, "out of memory reading the options");
    items[l->count++] = copy;
    return BT_OK;
}

static void list_clear(bt_opt_list *l)
{
    for (size_t i = 0; i < l->count; i++) free((void *)(uintptr_t)l->items[i]);
    free(l->items);
    *l = (bt_opt_list){NULL, 0};
}

static bt_err list_split(bt_opt_list *l, const char *text, bt_fault *fault)
{
    bt_err e = BT_OK;
    while (*text && e == BT_OK) {
        const size_t n = strcspn(text, ",");
        if (n) e = list_add(l, text, n, fault);
        text += n + (text[n] == ',');
    }
    return e;
}

static bt_err within(int64_t v, int64_t lo, int64_t hi, const char *text, const char *unit, bt_fault *fault)
{
    if (v >= lo && v <= hi) return BT_OK;
    return bt_fail(fault, BT_EARG, "%.64s is not within %lld..%lld %s", text, (long long)lo, (long long)hi,
                   unit);
}

static bt_err read_choice(int *ret, const bt_opt *o, const char *text, bt_fault *fault)
{
    char all[128] = "";
    for (int i = 0; o->choices[i]; i++) {
        if (!strcmp(o->choices[i], text)) return *ret = i, BT_OK;
        const size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", o->choices[i]);
    }
    return bt_fail(fault, BT_EARG, "'%.64s' is not one of %s", text, all);
}

/* Stores one value; lists grow by one item, or by many when `split`. */
static bt_err convert(const bt_opt_args *a, const bt_opt *o, const char *text, bool split, bt_fault *fault)
{
    const bool any = o->lo == 0 && o->hi == 0;
    void *to = field(a, o);
    bt_err e = BT_OK;
    switch (o->type) {
    case BT_OPT_FLAG:
        return read_flag(to, text) ? BT_OK : bt_fail(fault, BT_EARG, "'%.64s' is neither yes nor no", text);
    case BT_OPT_INT: return bt_num_int(to, text, any ? INT64_MIN : o->lo, any ? INT64_MAX : o->hi, fault);
    case BT_OPT_SIZE: {
        uint64_t v = 0;
        if ((e = bt_num_size(&v, text, fault)) < 0) return e;
        if (v > INT64_MAX) return bt_fail(fault, BT_EARG, "%.64s is more than 2^63 bytes", text);
        if ((e = within((int64_t)v, any ? 0 : o->lo, any ? INT64_MAX : o->hi, text, "bytes", fault)) == BT_OK)
            *(uint64_t *)to = v;
        return e;
    }
    case BT_OPT_DURATION: {
        int64_t v = 0;
        if ((e = bt_num_duration(&v, text, fault)) < 0) return e;
        if ((e = within(v, any ? 0 : o->lo, any ? INT64_MAX : o->hi, text, "ms", fault)) == BT_OK)
            *(int64_t *)to = v;
        return e;
    }
    case BT_OPT_DOUBLE: {
        const bool free_range = !(o->flo < 0 || o->flo > 0 || o->fhi < 0 || o->fhi > 0);
        return bt_num_double(to, text, free_range ? -HUGE_VAL : o->flo, free_range ? HUGE_VAL : o->fhi,
                             fault);
    }
    case BT_OPT_STRING: *(const char **)to = text; return BT_OK;
    case BT_OPT_STRINGS: return split ? list_split(to, text, fault) : list_add(to, text, strlen(text), fault);
    case BT_OPT_CHOICE: return read_choice(to, o, text, fault);
    }
    return BT_EARG;
}

/* ---- words for wrong values ---- */

static const char *example_of(const bt_opt *o)
{
    if (o->example) return o->example;
    if (o->def) return o->def;
    return o->choices ? o->choices[0] : NULL;
}

static bt_err bad_value(const bt_opt *o, const char *where, bt_err e, const bt_fault *why, bt_fault *fault)
{
    if (e != BT_EARG) return bt_fail(fault, e, "%s", why->text);
    const char *example = example_of(o);
    if (!example) return bt_fail(fault, e, "%s: %.160s", where, why->text);
    return bt_fail(fault, e, "%s: %.120s; for example '--%s%c%.40s'", where, why->text, o->name,
                   o->type == BT_OPT_FLAG ? '=' : ' ', example);
}

static bt_err no_value(const bt_opt *o, const char *what, const char *needs, bt_fault *fault)
{
    const char *example = example_of(o);
    if (!example) return bt_fail(fault, BT_EARG, "%s %s", what, needs);
    return bt_fail(fault, BT_EARG, "%s %s, for example '--%s %.60s'", what, needs, o->name, example);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Edits (insert, delete, replace, swap of neighbours) from a to b; words over 40 letters are simply far. */
static size_t distance(const char *a, const char *b)
{
    size_t row[3][42];
    const size_t n = strlen(a), m = strlen(b);
    if (n > 40 || m > 40) return 99;
    for (size_t j = 0; j <= m; j++) row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3], *above = row[(i - 1) % 3], *two_above = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = least(least(above[j], now[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], two_above[j - 2] + 1);
        }
    }
    return row[n % 3][m];
}

const char *bt_opt_nearest(const char *word, const char *const *candidates)
{
    const char *best = NULL;
    size_t best_distance = 1 + strlen(word) / 4;
    for (; *candidates; candidates++) {
        const size_t d = distance(word, *candidates);
        if (d < best_distance || (d == best_distance && !best)) {
            best = *candidates;
            best_distance = d;
        }
    }
    return best;
}

/* Names of options that a program once had. Each is refused with the name that it has there today, on the
 * command line and in the environment. The same word may be another option of another program. */
static const struct renamed {
    const char *program, *old, *name;
} renamed[] = {
    // clang-format off
    {"baton-prefill", "decode-slots", "slots"},
    {"baton keygen", "decode", "decode-keys"},
    {"baton keygen", "prefill", "prefill-keys"},
    {"baton padding", "policy", "shape-policy"},
    {"baton plan", "policy", "shape-policy"},
    {"baton plan", "recipe", "quant"},
    {"baton plan", "window", "arenas"},
    {"baton timeline", "window", "arenas"},
    // clang-format on
};
enum { RENAMED = sizeof renamed / sizeof *renamed };

static bt_err unknown(const bt_opt_args *a, const char *name, size_t len, bt_fault *fault)
{
    const char *names[BUILTINS + 128], *best;
    char word[48];
    size_t n = 0;
    for (const struct renamed *r = renamed; r < renamed + RENAMED; r++)
        if (!strcmp(r->program, a->program->name) && !strncmp(r->old, name, len) && !r->old[len])
            return bt_fail(fault, BT_EARG, "there is no option '--%s': use '--%s'", r->old, r->name);
    snprintf(word, sizeof word, "%.*s", (int)(len < 47 ? len : 47), name);
    for (size_t i = 0; i < a->row_count && n < 128; i++) names[n++] = a->rows[i].name;
    for (size_t i = 0; i < BUILTINS; i++) names[n++] = bt_opt_builtins[i].name;
    names[n] = NULL;
    if ((best = bt_opt_nearest(word, names)))
        return bt_fail(fault, BT_EARG, "unknown option '--%s'. Did you mean '--%s'?", word, best);
    return bt_fail(fault, BT_EARG, "unknown option '--%s'", word);
}

/* ---- the three sources ---- */

static bt_err take_default(const bt_opt_args *a, size_t i, bt_fault *fault)
{
    const bt_opt *o = &a->rows[i];
    a->set[i].text = o->def;
    if (!o->def) return BT_OK;
    bt_err e = convert(a, o, o->def, true, fault);
    assert(e != BT_EARG && "the table's own default is wrong");
    return e;
}

static bt_err take_env(const bt_opt_args *a, size_t i, bt_fault *fault)
{
    const bt_opt *o = &a->rows[i];
    char name[80], where[160];
    bt_opt_env_name(name, o->name);
    const char *text = getenv(name);
    if (!text || !*text) return BT_OK;
    if (o->type == BT_OPT_STRINGS) list_clear(field(a, o));
    bt_fault why = {""};
    bt_err e = convert(a, o, text, true, &why);
    snprintf(where, sizeof where, "%s=%.64s", name, text);
    if (e < 0) return bad_value(o, where, e, &why, fault);
    a->set[i] = (bt_opt_set){text, BT_OPT_FROM_ENV};
    return BT_OK;
}

/* An old name in the environment of an option that nothing else gave. */
static bt_err refuse_old_env(const bt_opt_args *a, bt_fault *fault)
{
    char old[80], name[80];
    for (const struct renamed *r = renamed; r < renamed + RENAMED; r++) {
        if (strcmp(r->program, a->program->name) != 0) continue;
        bt_opt_env_name(old, r->old);
        const char *text = getenv(old);
        if (!text || !*text || bt_opt_source_of(a, r->name) != BT_OPT_FROM_DEFAULT) continue;
        bt_opt_env_name(name, r->name);
        return bt_fail(fault, BT_EARG, "there is no variable %s: use %s", old, name);
    }
    return BT_OK;
}

/* text: the value, which ends the word. */
static bt_err take_argument(const bt_opt_args *a, size_t i, bt_opt_word *word, const char *text,
                            bt_fault *fault)
{
    const bt_opt *o = &a->rows[i];
    if (o->type != BT_OPT_FLAG) {
        word->holds = o->holds;
        word->at = (size_t)(text - word->text);
    }
    if (o->type == BT_OPT_STRINGS && a->set[i].source != BT_OPT_FROM_COMMAND_LINE) list_clear(field(a, o));
    bt_fault why = {""};
    char where[160];
    bt_err e = convert(a, o, text, false, &why);
    snprintf(where, sizeof where, "--%s %.64s", o->name, text);
    if (e < 0) return bad_value(o, where, e, &why, fault);
    a->set[i] = (bt_opt_set){text, BT_OPT_FROM_COMMAND_LINE};
    return BT_OK;
}

/* ---- the command line ---- */

typedef struct cursor {
    int argc, at;
    char **argv;
} cursor;

static bt_err long_option(bt_opt_args *a, cursor *c, const char *name, bt_fault *fault)
{
    const size_t len = strcspn(name, "=");
    const char *value = name[len] ? name + len + 1 : NULL;
    char what[64];
    snprintf(what, sizeof what, "option '--%.*s'", (int)(len < 40 ? len : 40), name);
    for (size_t i = 0; i < BUILTINS; i++) {
        const bt_opt_builtin *b = &bt_opt_builtins[i];
        if (strncmp(b->name, name, len) || b->name[len]) continue;
        if (value) return bt_fail(fault, BT_EARG, "%s takes no value", what);
        if (a->action == BT_OPT_RUN) a->action = b->action;
        return BT_OK;
    }
    for (size_t i = 0; i < a->row_count; i++) {
        const bt_opt *o = &a->rows[i];
        if (strncmp(o->name, name, len) || o->name[len]) continue;
        if (!value && o->type == BT_OPT_FLAG) value = "yes";
        if (!value && c->at < c->argc) value = c->argv[c->at++];
        if (!value) return no_value(o, what, "needs a value", fault);
        return take_argument(a, i, &a->word[c->at - 2], value, fault);
    }
    return unknown(a, name, len, fault);
}

static bt_err short_options(bt_opt_args *a, cursor *c, const char *letters, bt_fault *fault)
{
    for (bt_err e; *letters; letters++) {
        char what[] = "option '-x'";
        what[9] = *letters;
        size_t i = 0;
        while (i < BUILTINS && bt_opt_builtins[i].letter != *letters) i++;
        if (i < BUILTINS) {
            if (a->action == BT_OPT_RUN) a->action = bt_opt_builtins[i].action;
            continue;
        }
        for (i = 0; i < a->row_count; i++)
            if (a->rows[i].letter == *letters) break;
        if (i == a->row_count)
            return bt_fail(fault, BT_EARG, "unknown option '-%c'",
                           isprint((unsigned char)*letters) ? *letters : '?');
        const bt_opt *o = &a->rows[i];
        const bool flag = o->type == BT_OPT_FLAG;
        const char *value = flag              ? "yes"
                            : letters[1]      ? letters + 1
                            : c->at < c->argc ? c->argv[c->at++]
                                              : NULL;
        if (!value) return no_value(o, what, "needs a value", fault);
        if ((e = take_argument(a, i, &a->word[c->at - 2], value, fault)) < 0 || !flag) return e;
    }
    return BT_OK;
}

static bt_err command_line(bt_opt_args *a, int argc, char **argv, bt_fault *fault)
{
    const bt_opt_program *p = a->program;
    cursor c = {argc, 1, argv};
    bool options = true;
    bt_err e = BT_OK;
    for (int i = 1; i < argc; i++) a->word[i - 1].text = argv[i];
    while (c.at < argc && e == BT_OK) {
        const char *arg = argv[c.at++];
        if (options && !strcmp(arg, "--")) options = false;
        else if (options && arg[0] == '-' && arg[1] == '-') e = long_option(a, &c, arg + 2, fault);
        else if (options && arg[0] == '-' && arg[1]) e = short_options(a, &c, arg + 1, fault);
        else if (a->count == p->args_max) e = bt_fail(fault, BT_EARG, "unexpected argument '%.100s'", arg);
        else a->args[a->count++] = arg;
    }
    return e;
}

static bt_err complete(const bt_opt_args *a, bt_fault *fault)
{
    for (size_t i = 0; i < a->row_count; i++) {
        const bt_opt *o = &a->rows[i];
        if (!o->required || a->set[i].text) continue;
        char what[64];
        snprintf(what, sizeof what, "option '--%.40s'", o->name);
        return no_value(o, what, "is missing", fault);
    }
    if (a->count < a->program->args_min)
        return bt_fail(fault, BT_EARG, "%s is missing", a->program->args_name);
    return BT_OK;
}

/* The rows, and fields of zero for each. */
static bt_err open_rows(bt_opt_args *a, size_t argc, bt_fault *fault)
{
    static const size_t bytes[] = {sizeof(bool),        8,          8, 8, 8, sizeof(char *),
                                   sizeof(bt_opt_list), sizeof(int)};
    const size_t n = bt_opt_rows(a->program);
    a->args = calloc(argc + 1, sizeof *a->args);
    a->word = calloc(argc + 1, sizeof *a->word);
    a->set = calloc(n + 1, sizeof *a->set);
    a->rows = calloc(n + 1, sizeof *a->rows);
    if (!a->args || !a->word || !a->set || !a->rows)
        return bt_fail(fault, BT_ENOMEM, "out of memory reading the options");
    for (a->row_count = 0; a->row_count < n; a->row_count++) {
        bt_opt *o = &a->rows[a->row_count];
        *o = bt_opt_row(a->program, a->row_count);
        assert(o->field_bytes == bytes[o->type] && "config field of the wrong type");
        memset(field(a, o), 0, o->field_bytes);
    }
    (void)bytes;
    return BT_OK;
}

bt_err bt_opt_parse(bt_opt_args *ret, const bt_opt_program *program, int argc, char **argv, void *config,
                    bt_fault *fault)
{
    bt_opt_args a = {.program = program, .config = config};
    bt_err e = open_rows(&a, (size_t)argc, fault);
    const size_t rows = a.row_count;
    for (size_t i = 0; i < rows && e == BT_OK; i++) e = take_default(&a, i, fault);
    if (e == BT_OK) e = command_line(&a, argc, argv, fault);
    /* After the command line, so that a wrong environment keeps nobody from overriding it or from reading
     * --help. */
    const bool values = a.action == BT_OPT_RUN || a.action == BT_OPT_PRINT_CONFIG;
    for (size_t i = 0; i < rows && e == BT_OK && values; i++)
        if (a.set[i].source == BT_OPT_FROM_DEFAULT) e = take_env(&a, i, fault);
    if (e == BT_OK && values) e = refuse_old_env(&a, fault);
    if (e == BT_OK && a.action == BT_OPT_RUN) e = complete(&a, fault);
    if (e < 0) {
        bt_opt_done(&a);
        return e;
    }
    *ret = a;
    return BT_OK;
}

static void pass_on(const bt_opt_args *a, size_t i, bt_opt_add_fn *add, void *ud)
{
    const bt_opt *o = &a->rows[i];
    const bool is_off = o->type == BT_OPT_FLAG && !*(const bool *)field(a, o);
    char option[80];
    snprintf(option, sizeof option, "--%s%s", o->name, is_off ? "=no" : "");
    if (o->type == BT_OPT_STRINGS) {
        const bt_opt_list *l = field(a, o);
        for (size_t k = 0; k < l->count; k++) add(ud, option, l->items[k]);
    } else {
        add(ud, option, o->type == BT_OPT_FLAG ? NULL : a->set[i].text);
    }
}

void bt_opt_pass_on(const bt_opt_args *args, const bt_opt_group *of, bt_opt_add_fn *add, void *ud)
{
    for (size_t i = 0; i < args->row_count; i++)
        if (args->rows[i].of == of && args->set[i].source != BT_OPT_FROM_DEFAULT) pass_on(args, i, add, ud);
}

void bt_opt_done(bt_opt_args *args)
{
    for (size_t i = 0; i < args->row_count; i++)
        if (args->rows[i].type == BT_OPT_STRINGS) list_clear(field(args, &args->rows[i]));
    free(args->args);
    free(args->word);
    free(args->set);
    free(args->rows);
    args->args = NULL;
    args->word = NULL;
    args->set = NULL;
    args->rows = NULL;
    args->row_count = 0;
}

bt_opt_source bt_opt_source_of(const bt_opt_args *args, const char *name)
{
    for (size_t i = 0; i < args->row_count; i++)
        if (!strcmp(args->rows[i].name, name)) return args->set[i].source;
    assert(!"option in the table");
    return BT_OPT_FROM_DEFAULT;
}
