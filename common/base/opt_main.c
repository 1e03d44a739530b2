/* What main() calls: prints for the user, and turns outcomes into exit codes. */
#include "base/opt.h"

#include <string.h>

void bt_opt_usage_error(const char *program_name, const bt_fault *fault)
{
    const size_t n = strlen(fault->text);
    const bool ended = n && strchr(".?!", fault->text[n - 1]);
    fprintf(stderr, "%s: %s%s Try '%s --help'.\n", program_name, fault->text, ended ? "" : ".", program_name);
}

int bt_opt_start(bt_opt_args *ret, const bt_opt_program *program, int argc, char **argv, void *config)
{
    bt_fault fault = {""};
    bt_opt_args a;
    const bt_err e = bt_opt_parse(&a, program, argc, argv, config, &fault);
    if (e == BT_EARG) {
        bt_opt_usage_error(program->name, &fault);
        return 2;
    }
    if (e < 0) {
        fprintf(stderr, "%s: %s\n", program->name, fault.text);
        return 1;
    }
    switch (a.action) {
    case BT_OPT_RUN: *ret = a; return -1;
    case BT_OPT_HELP: bt_opt_help(stdout, program); break;
    case BT_OPT_VERSION: printf("%s %s\n", program->name, BT_VERSION); break;
    case BT_OPT_PRINT_CONFIG: bt_opt_print_config(stdout, &a); break;
    case BT_OPT_PRINT_OPTIONS: bt_opt_print_options(stdout, program); break;
    case BT_OPT_PRINT_MAN: bt_opt_man(stdout, program); break;
    }
    bt_opt_done(&a);
    return fflush(stdout) == 0 ? 0 : 1;
}

static const bt_opt_command *find(const bt_opt_commands *c, const char *word)
{
    for (size_t i = 0; i < c->count; i++)
        if (!strcmp(c->list[i].word, word)) return &c->list[i];
    return NULL;
}

static void commands_help(FILE *out, const bt_opt_commands *c)
{
    fprintf(out, "Usage: %s COMMAND [options]\n%s\n", c->name, c->summary);
    const char *group = "";
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(group, c->list[i].group)) fprintf(out, "\n%s:\n", group = c->list[i].group);
        fprintf(out, "  %-14s %s\n", c->list[i].word, c->list[i].program->summary);
    }
    fprintf(out, "\n'%s COMMAND --help' describes one command; '%s --version' prints the version.\n", c->name,
            c->name);
    fprintf(out, "\nNormal command:\n  %s\n", c->normal);
}

static int wrong_command(const bt_opt_commands *c, const char *word)
{
    const char *words[64], *best;
    size_t n = 0;
    bt_fault f;
    for (size_t i = 0; i < c->count && n < 63; i++) words[n++] = c->list[i].word;
    words[n] = NULL;
    const char *what = word[0] == '-' ? "option" : "command";
    best = bt_opt_nearest(word, words);
    if (best) (void)bt_fail(&f, BT_EARG, "unknown %s '%.80s'. Did you mean '%s'?", what, word, best);
    else (void)bt_fail(&f, BT_EARG, "unknown %s '%.80s'", what, word);
    bt_opt_usage_error(c->name, &f);
    return 2;
}

int bt_opt_dispatch(const bt_opt_commands *c, int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        commands_help(stderr, c);
        return 2;
    }
    const bt_opt_command *cmd = find(c, word);
    if (cmd) return cmd->run(argc - 1, argv + 1);
    if (!strcmp(word, "help") && argc > 2) {
        if (!(cmd = find(c, argv[2]))) return wrong_command(c, argv[2]);
        bt_opt_help(stdout, cmd->program);
    } else if (!strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h")) {
        commands_help(stdout, c);
    } else if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
        printf("%s %s\n", c->name, BT_VERSION);
    } else if (!strcmp(word, "--print-man")) {
        bt_opt_man_commands(stdout, c);
    } else if (!strcmp(word, "--print-options")) {
        for (size_t i = 0; i < c->count; i++) bt_opt_print_options(stdout, c->list[i].program);
    } else {
        return wrong_command(c, word);
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
