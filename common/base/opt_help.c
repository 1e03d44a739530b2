/* Everything printed from the option table: help, config, the table itself, the manual page. */
#include "base/opt.h"
#include "base/opt_private.h"

#include <string.h>

#define WIDTH    100
#define COLUMN   29
#define BUILTINS (sizeof bt_opt_builtins / sizeof *bt_opt_builtins)

static const char *const type_names[] = {"flag",   "int",    "size", "duration",
                                         "double", "string", "list", "choice"};

/* ---- help ---- */

/* Writes text from the current column, folding at spaces before WIDTH; folded lines start at `indent`. */
static void fold(FILE *out, size_t column, size_t indent, const char *text)
{
    for (bool first = true; *text; first = false) {
        const size_t n = strcspn(text, " ");
        if (!first && column + 1 + n > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)n, text);
        column += n;
        text += n + (text[n] == ' ');
    }
    fputc('\n', out);
}

static void option_line(FILE *out, char letter, const char *name, const char *value, const char *help)
{
    char left[96];
    snprintf(left, sizeof left, "  %c%c%c --%s%s%s", letter ? '-' : ' ', letter ? letter : ' ',
             letter ? ',' : ' ', name, value ? " " : "", value ? value : "");
    fprintf(out, "%-*s", COLUMN - 1, left);
    if (strlen(left) >= COLUMN - 1) fprintf(out, "\n%*s", COLUMN - 1, "");
    fputc(' ', out);
    fold(out, COLUMN, COLUMN, help);
}

/* The help text with choices, range and default in brackets. */
static void full_help(char *ret, size_t bytes, const bt_opt *o)
{
    const char *sep = " (";
    size_t n = (size_t)snprintf(ret, bytes, "%s", o->help);
#define ADD(...) \
    do { \
        if (n < bytes) n += (size_t)snprintf(ret + n, bytes - n, __VA_ARGS__); \
    } while (0)
    for (int i = 0; o->choices && o->choices[i]; i++) {
        ADD("%s%s", sep, o->choices[i]);
        sep = ", ";
    }
    if (o->choices) sep = "; ";
    if (o->type == BT_OPT_INT && (o->lo || o->hi)) {
        if (o->hi >= INT64_C(1) << 48) ADD("%sat least %lld", sep, (long long)o->lo);
        else ADD("%s%lld..%lld", sep, (long long)o->lo, (long long)o->hi);
        sep = "; ";
    }
    if (o->type == BT_OPT_DOUBLE && (o->flo < 0 || o->flo > 0 || o->fhi < 0 || o->fhi > 0)) {
        ADD("%s%g..%g", sep, o->flo, o->fhi);
        sep = "; ";
    }
    if (o->type == BT_OPT_STRINGS) {
        ADD("%smay be repeated", sep);
        sep = "; ";
    }
    if (o->def) {
        ADD("%sdefault %s", sep, o->def);
        sep = "; ";
    }
    if (o->required) {
        ADD("%srequired", sep);
        sep = "; ";
    }
    if (sep[0] != ' ') ADD(")");
#undef ADD
}

void bt_opt_help(FILE *out, const bt_opt_program *p)
{
    char text[700];
    fprintf(out, "Usage: %s %s\n", p->name, p->usage);
    fold(out, 0, 0, p->summary);
    const char *group = NULL;
    const size_t rows = bt_opt_rows(p);
    for (size_t i = 0; i < rows; i++) {
        const bt_opt row = bt_opt_row(p, i), *o = &row;
        if (!group || strcmp(group, o->group) != 0) fprintf(out, "\n%s:\n", group = o->group);
        full_help(text, sizeof text, o);
        option_line(out, o->letter, o->name, o->value, text);
    }
    fprintf(out, "\nGeneral:\n");
    for (size_t i = 0; i < BUILTINS; i++)
        option_line(out, bt_opt_builtins[i].letter, bt_opt_builtins[i].name, NULL, bt_opt_builtins[i].help);
    if (rows) {
        char env[80];
        const bt_opt first = bt_opt_row(p, 0);
        bt_opt_env_name(env, first.name);
        snprintf(text, sizeof text,
                 "Each option may come from the environment instead: %s for --%s, and so on. "
                 "The command line wins.",
                 env, first.name);
        fputc('\n', out);
        fold(out, 0, 0, text);
    }
    fprintf(out, "\nNormal command:\n  %s\n", p->normal);
}

/* ---- values and the table ---- */

void bt_opt_print_config(FILE *out, const bt_opt_args *a)
{
    static const char *const sources[] = {"default", "environment", "command line"};
    for (size_t i = 0; i < a->row_count; i++) {
        const bt_opt *o = &a->rows[i];
        fprintf(out, "%s\t", o->name);
        if (o->type == BT_OPT_STRINGS) {
            const bt_opt_list *l = (const void *)((const char *)a->config + o->offset);
            for (size_t k = 0; k < l->count; k++) fprintf(out, "%s%s", k ? "," : "", l->items[k]);
        } else {
            fputs(a->set[i].text ? a->set[i].text : o->type == BT_OPT_FLAG ? "no" : "", out);
        }
        fprintf(out, "\t%s\n", sources[a->set[i].source]);
    }
}

void bt_opt_print_options(FILE *out, const bt_opt_program *p)
{
    const size_t rows = bt_opt_rows(p);
    for (size_t i = 0; i < rows; i++) {
        const bt_opt row = bt_opt_row(p, i), *o = &row;
        char env[80];
        bt_opt_env_name(env, o->name);
        fprintf(out, "%s\t%s\t%.1s\t%s\t%s\t%s\t%s\t", p->name, o->group, (char[2]){o->letter, 0}, o->name,
                o->value ? o->value : "", type_names[o->type], o->def ? o->def : "");
        if (o->type == BT_OPT_DOUBLE) fprintf(out, "%g\t%g\t", o->flo, o->fhi);
        else if (o->lo || o->hi) fprintf(out, "%lld\t%lld\t", (long long)o->lo, (long long)o->hi);
        else fputs("\t\t", out);
        for (int k = 0; o->choices && o->choices[k]; k++) fprintf(out, "%s%s", k ? "," : "", o->choices[k]);
        fprintf(out, "\t%s\t%s\n", env, o->help);
    }
    for (size_t i = 0; i < BUILTINS; i++) {
        const bt_opt_builtin *b = &bt_opt_builtins[i];
        fprintf(out, "%s\tGeneral\t%.1s\t%s\t\tflag\t\t\t\t\t\t%s\n", p->name, (char[2]){b->letter, 0},
                b->name, b->help);
    }
}

/* ---- manual page ---- */

static void troff(FILE *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '\\') fputs("\\e", out);
        else if (*p == '-') fputs("\\-", out);
        else if ((*p == '.' || *p == '\'') && p == text) fprintf(out, "\\&%c", *p);
        else fputc(*p, out);
    }
}

static void man_line(FILE *out, const char *before, const char *text)
{
    fputs(before, out);
    troff(out, text);
    fputc('\n', out);
}

/* A page has one word as its name: baton-run for `baton run`. */
static void man_head(FILE *out, const char *name, const char *summary)
{
    fputs(".TH ", out);
    for (const char *p = name; *p; p++) {
        if (*p == '-' || *p == ' ') fputs("\\-", out);
        else fputc(*p >= 'a' && *p <= 'z' ? *p - 32 : *p, out);
    }
    fprintf(out, " 1 \"\" \"Baton %s\" \"Baton\"\n.SH NAME\n", BT_VERSION);
    for (const char *p = name; *p; p++) fputs(*p == '-' || *p == ' ' ? "\\-" : (char[2]){*p, 0}, out);
    man_line(out, " \\- ", summary);
}

static void man_option(FILE *out, char letter, const char *name, const char *value, const char *help)
{
    fputs(".TP\n", out);
    if (letter) fprintf(out, "\\fB\\-%c\\fR, ", letter);
    fputs("\\fB\\-\\-", out);
    troff(out, name);
    fputs("\\fR", out);
    if (value) {
        fputs(" \\fI", out);
        troff(out, value);
        fputs("\\fR", out);
    }
    man_line(out, "\n", help);
}

static void man_options(FILE *out, const bt_opt_program *p, const char *heading)
{
    char text[700];
    const char *group = NULL;
    const size_t rows = bt_opt_rows(p);
    for (size_t i = 0; i < rows; i++) {
        const bt_opt row = bt_opt_row(p, i), *o = &row;
        if (!group || strcmp(group, o->group) != 0) man_line(out, heading, group = o->group);
        full_help(text, sizeof text, o);
        man_option(out, o->letter, o->name, o->value, text);
    }
}

static void man_general(FILE *out)
{
    for (size_t i = 0; i < BUILTINS; i++)
        man_option(out, bt_opt_builtins[i].letter, bt_opt_builtins[i].name, NULL, bt_opt_builtins[i].help);
    fputs(".SH ENVIRONMENT\nEach option may come from the environment instead, named BATON_ and the option "
          "in capitals\n"
          "with _ for \\-. An empty value counts as not set; lists are separated by commas. The command line "
          "wins.\n"
          ".SH EXIT STATUS\n0 success; 1 it failed; 2 wrong usage; 130 a command that SIGINT interrupted.\n",
          out);
}

void bt_opt_man(FILE *out, const bt_opt_program *p)
{
    man_head(out, p->name, p->summary);
    fputs(".SH SYNOPSIS\n.B ", out);
    troff(out, p->name);
    man_line(out, "\n", p->usage);
    fputs(".SH OPTIONS\n", out);
    man_options(out, p, ".SS ");
    fputs(".SS General\n", out);
    man_general(out);
    man_line(out, ".SH EXAMPLES\n.EX\n", p->normal);
    fputs(".EE\n", out);
}

void bt_opt_man_commands(FILE *out, const bt_opt_commands *c)
{
    man_head(out, c->name, c->summary);
    fputs(".SH SYNOPSIS\n.B ", out);
    troff(out, c->name);
    fputs("\n\\fICOMMAND\\fR [options]\n.SH COMMANDS\n", out);
    for (size_t i = 0; i < c->count; i++) {
        const bt_opt_program *p = c->list[i].program;
        fputs(".SS ", out);
        troff(out, p->name);
        man_line(out, " ", p->usage);
        man_line(out, "", p->summary);
        man_options(out, p, ".PP\n");
    }
    fputs(".SH GENERAL OPTIONS\n", out);
    man_general(out);
    man_line(out, ".SH EXAMPLES\n.EX\n", c->normal);
    fputs(".EE\n", out);
}
