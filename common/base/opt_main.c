/* The functions that main() calls: they print for the user, and turn outcomes into exit codes. */
#include "base/opt.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* ---- stdout ---- */
static struct {
    bool is_lost, is_told;
    int why; /* errno of the first failure; 0: unknown */
} lost;

int bt_opt_flush(void)
{
    if (fflush(stdout) != 0) {
        if (!lost.why) lost.why = errno;
        lost.is_lost = true;
    } else if (ferror(stdout)) {
        lost.is_lost = true; /* a write in the middle failed, and errno is of something else since */
    }
    return lost.is_lost ? EOF : 0;
}

int bt_opt_end(const char *program_name, int rc)
{
    if (bt_opt_flush() == 0) return rc;
    if (!lost.is_told) {
        /* Devices and closed descriptors fail without a byte too. */
        if (!lost.why && write(STDOUT_FILENO, "", 0) < 0) lost.why = errno;
        fprintf(stderr, "%s: cannot write to stdout%s%s\n", program_name, lost.why ? ": " : "",
                lost.why ? strerror(lost.why) : "");
        lost.is_told = true;
    }
    return rc ? rc : 1;
}

/* A file that is opened while 0, 1 or 2 is closed gets that number, and then what is printed goes into it.
 * So a placeholder takes each free number: reading from 0 fails, and so does writing to 1 and 2. */
static void hold_streams(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", fd ? O_RDONLY : O_WRONLY);
}

/* ---- main ---- */
void bt_opt_usage_error(const char *program_name, const bt_fault *fault)
{
    const size_t n = strlen(fault->text);
    const bool ended = n && strchr(".?!", fault->text[n - 1]);
    fprintf(stderr, "%s: %s%s Try '%s --help'.\n", program_name, fault->text, ended ? "" : ".", program_name);
}

int bt_opt_start(bt_opt_args *ret, const bt_opt_program *program, int argc, char **argv, void *config)
{
    bt_memory_keep_stack();
    bt_fault fault = {""};
    bt_opt_args a;
    hold_streams();
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
    return bt_opt_end(program->name, 0);
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
    hold_streams();
    if (!word) {
        commands_help(stderr, c);
        return 2;
    }
    const bt_opt_command *cmd = find(c, word);
    if (cmd) return bt_opt_end(cmd->program->name, cmd->run(argc - 1, argv + 1));
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
    return bt_opt_end(c->name, 0);
}
