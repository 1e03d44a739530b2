#ifndef BT_BASE_OPT_H
#define BT_BASE_OPT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/err.h"

/* The option table. A program states its options once; parsing, environment, --help, --print-config, man page and
 * completion all come from that table. Values land in the program's own config struct.
 *
 *   typedef struct config { const char *model; int64_t port; } config;
 *   static const bt_opt opts[] = {
 *       { .group = "Model", .letter = 'm', .name = "model", .value = "MODEL", BT_OPT_AT(config, model),
 *         .type = BT_OPT_STRING, .required = true, .example = "smollm2", .help = "GGUF file, or 'smollm2'" },
 *       { .group = "Network", .name = "port", .value = "PORT", BT_OPT_AT(config, port), .type = BT_OPT_INT,
 *         .def = "8080", .lo = 0, .hi = 65535, .help = "where HTTP clients connect; 0 lets the system choose" },
 *   };
 *
 * Accepted forms: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, joined flags -ab, `--` ends the options, options may
 * follow arguments. A flag takes no value, or =yes / =no. A repeated option: the last one wins; BT_OPT_STRINGS
 * collects.
 * Environment: BATON_NAME with `_` for `-` (empty counts as not set; flags take yes, no, true, false, 1, 0; lists are
 * split at commas). Command line over environment over default.
 * Every program also has -h --help, -V --version, --print-config, --print-options, --print-man. */
typedef enum bt_opt_type {
    BT_OPT_FLAG,     /* bool                                                        */
    BT_OPT_INT,      /* int64_t, lo..hi                                             */
    BT_OPT_SIZE,     /* uint64_t bytes, "8G", lo..hi                                */
    BT_OPT_DURATION, /* int64_t milliseconds, "30s", lo..hi                         */
    BT_OPT_DOUBLE,   /* double, flo..fhi                                            */
    BT_OPT_STRING,   /* const char *; NULL without a default                        */
    BT_OPT_STRINGS,  /* bt_opt_list                                                 */
    BT_OPT_CHOICE,   /* int: the index in choices; needs a default or .required     */
} bt_opt_type;

/* Kinds of values that are their user's alone. bt_opt_shown_line and bt_opt_shown_each leave these out. */
typedef enum bt_opt_holds {
    BT_OPT_HOLDS_NOTHING, /* nothing, unless it has the form of a URL (scheme://...): then as a URL */
    BT_OPT_HOLDS_SECRET,  /* a secret, or the place where one lies: "..." stands for the value */
    BT_OPT_HOLDS_URL,     /* a URL, whose user part ("user:password@") is left out */
} bt_opt_holds;

typedef struct bt_opt_list {
    const char **items;
    size_t count;
} bt_opt_list;

typedef struct bt_opt {
    const char *group; /* heading in --help; options of one group stand together */
    char letter;       /* short form, 0: none */
    const char *name;  /* long form without "--" */
    const char *value; /* what --help calls the value; NULL for flags */
    bt_opt_type type;
    size_t offset, field_bytes; /* by BT_OPT_AT */
    const char *def;            /* default, as a user would write it; NULL: 0, NULL, empty */
    int64_t lo, hi;             /* both 0: any value of the type; sizes and durations are never negative */
    double flo, fhi;            /* both 0: any finite */
    const char *const *choices; /* ends with NULL */
    bool required;
    bt_opt_holds holds;
    const char *example; /* a good value for messages; NULL: the default or the first choice */
    const char *help;    /* no capital, no full stop */
    const struct bt_opt_group *of;
} bt_opt;
#define BT_OPT_AT(config, field) .offset = offsetof(config, field), .field_bytes = sizeof(((config *)0)->field)
#define BT_OPT_COUNT(table)      (sizeof(table) / sizeof((table)[0]))

/* A table that several programs have, or a part of it: an option is written once and used by its name. A row with `of`
 * set stands for the group's row of that name, and for all of the group where it has no name. The row's own statements
 * count instead of what the group says: heading, letter, value, default, range, choices, example, help, `required`,
 * holds; another type leaves choices and range behind. Four forms:
 *
 *   {.of = &group, .name = "model", BT_OPT_AT(config, model), .required = true},   its value lies there
 *   BT_OPT_OF(group, config, load, NULL, "limit"),   the group's config struct lies at `load`
 *   BT_OPT_ALL(group, config, load, NULL),           all its rows; and beside that, anywhere in the table:
 *   {.of = &group, .name = "limit", .def = "1"},     one of them, adjusted where it stands
 *
 * A heading of NULL is the group's. Rows of a group may use other groups. */
typedef struct bt_opt_group {
    const bt_opt *rows;
    size_t count;
} bt_opt_group;
#define BT_OPT_GROUP(table) \
    { \
        (table), BT_OPT_COUNT(table) \
    }
#define BT_OPT_OF(from, config, field, heading, option) \
    { \
        .group = (heading), .name = (option), .offset = offsetof(config, field), .of = &(from) \
    }
#define BT_OPT_ALL(from, config, field, heading) BT_OPT_OF(from, config, field, heading, NULL)
/* As .def: none, though the group's row has one. */
#define BT_OPT_NO_DEFAULT bt_opt_no_default
extern const char bt_opt_no_default[];

typedef struct bt_opt_program {
    const char *name;    /* "baton-decode"; for a subcommand "baton run" */
    const char *summary; /* one sentence */
    const char *usage;   /* what follows the name, "-m MODEL [options]" */
    const char *normal;  /* the normal command line, whole */
    const bt_opt *opts;
    size_t opt_count;
    size_t args_min, args_max; /* how many arguments that are not options */
    const char *args_name;     /* "FILE"; needed if args_max > 0 */
} bt_opt_program;

typedef enum bt_opt_action {
    BT_OPT_RUN,
    BT_OPT_HELP,
    BT_OPT_VERSION,
    BT_OPT_PRINT_CONFIG,
    BT_OPT_PRINT_OPTIONS,
    BT_OPT_PRINT_MAN,
} bt_opt_action;
typedef enum bt_opt_source { BT_OPT_FROM_DEFAULT, BT_OPT_FROM_ENV, BT_OPT_FROM_COMMAND_LINE } bt_opt_source;

/* The results of a parse besides the config. Strings point into argv and the environment. */
typedef struct bt_opt_args {
    bt_opt_action action;
    const char **args; /* those that are not options, in order; ends with NULL */
    size_t count;
    const bt_opt_program *program;
    void *config;
    bt_opt *rows; /* private from here: of the program and the groups that it uses */
    size_t row_count;
    struct bt_opt_word *word; /* those of the command line behind the program's; the last has no text */
    struct bt_opt_set *set;   /* text and source of every option */
} bt_opt_args;

/* For main(): parses, and prints what was asked for or what is wrong. -1: go on, *ret is to be given to bt_opt_done.
 * Otherwise the exit code: 0 after --help and the like, 2 for wrong usage (one line on stderr). */
int bt_opt_start(bt_opt_args *ret, const bt_opt_program *program, int argc, char **argv, void *config);
/* The end of what a program prints: every way out of main() that may have printed goes through bt_opt_start,
 * bt_opt_dispatch or bt_opt_end. Where something that was written to stdout is lost (a full disk, a closed descriptor),
 * bt_opt_end says so on stderr, once and with the reason, and returns 1 in place of 0; else it returns rc.
 * bt_opt_flush is fflush(stdout) that remembers the reason, for output that must not wait; EOF: some of it is lost.
 * Both are for one thread. */
int bt_opt_end(const char *program_name, int rc);
int bt_opt_flush(void);
void bt_opt_done(bt_opt_args *args);                                       /* frees lists in the config too */
bt_opt_source bt_opt_source_of(const bt_opt_args *args, const char *name); /* `name` is in the table */

/* The same without printing. BT_EARG: wrong usage, words without the program's name; BT_ENOMEM. The config's fields
 * are set to zero first and complete on success only. When the action is not BT_OPT_RUN, options that are missing
 * are not an error. */
bt_err bt_opt_parse(bt_opt_args *ret, const bt_opt_program *program, int argc, char **argv, void *config,
                    bt_fault *fault);

/* Passes a group's options on to another program: calls `add` for each row that the program's table takes from the
 * group and that was given, with "--name" and the value, or with a whole "--name=no" and NULL. Defaults are left out.
 */
typedef void bt_opt_add_fn(void *ud, const char *option, const char *value);
void bt_opt_pass_on(const bt_opt_args *args, const bt_opt_group *of, bt_opt_add_fn *add, void *ud);

/* For results that say how they were made (opt_shown.c). The command line in words that a shell reads back, without
 * what values hold that is their user's alone; the caller frees; NULL: memory is out. */
char *bt_opt_shown_line(const bt_opt_args *args);
/* Each option that has a value, from wherever it came, as a user would write it and with the same left out: one call an
 * item of a list, flags as yes or no. BT_ENOMEM. */
typedef void bt_opt_value_fn(void *ud, const bt_opt *option, const char *value);
bt_err bt_opt_shown_each(const bt_opt_args *args, bt_opt_value_fn *fn, void *ud);
/* A URL without its user part, with a scheme or without one; the caller frees; NULL: memory is out. */
char *bt_opt_shown_url(const char *url);

void bt_opt_help(FILE *out, const bt_opt_program *program);
void bt_opt_print_config(FILE *out, const bt_opt_args *args); /* lines: name TAB value TAB source */
/* Lines: program, group, letter, name, value name, type, default, lowest, highest, choices, environment name, help;
 * separated by TAB, empty where there is none. */
void bt_opt_print_options(FILE *out, const bt_opt_program *program);
void bt_opt_man(FILE *out, const bt_opt_program *program);                /* a troff page for section 1 */
void bt_opt_usage_error(const char *program_name, const bt_fault *fault); /* the one line on stderr */

/* A program of subcommands, such as `baton`. */
typedef struct bt_opt_command {
    const char *group; /* heading; commands of one group stand together */
    const char *word;  /* "run"; program->name is then "baton run" */
    const bt_opt_program *program;
    int (*run)(int argc, char **argv); /* argv[0] is the word; returns the exit code */
} bt_opt_command;
typedef struct bt_opt_commands {
    const char *name; /* "baton" */
    const char *summary;
    const char *normal;
    const bt_opt_command *list;
    size_t count;
} bt_opt_commands;
/* Runs the named command and returns its exit code by bt_opt_end. Handles help, -h, --help, -V, --version,
 * --print-options,
 * --print-man itself; 2 when no command or an unknown one is given. */
int bt_opt_dispatch(const bt_opt_commands *commands, int argc, char **argv);
void bt_opt_man_commands(FILE *out, const bt_opt_commands *commands);

/* The candidate closest to `word`, if it is close enough to be what was meant; else NULL. `candidates` ends with
 * NULL. */
const char *bt_opt_nearest(const char *word, const char *const *candidates);
/* BATON_KV_MEMORY for kv-memory; `ret` holds 80 bytes. */
void bt_opt_env_name(char ret[80], const char *name);
#endif
