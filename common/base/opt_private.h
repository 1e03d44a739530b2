#ifndef BT_BASE_OPT_PRIVATE_H
#define BT_BASE_OPT_PRIVATE_H
#include "base/opt.h"

/* Shared by the parser and the printers of the option table; nobody else includes it. */
typedef struct bt_opt_set {
    const char *text; /* as given; NULL: nothing was, not even a default. Not used for lists. */
    bt_opt_source source;
} bt_opt_set;

/* A word of the command line. From `at` on it is the value of an option that holds what `holds` says. */
typedef struct bt_opt_word {
    const char *text;
    bt_opt_holds holds;
    size_t at;
} bt_opt_word;

/* The program's rows, those that it uses of groups among them, each as it amounts to here. `of` is the group that the
 * program's own table names. */
size_t bt_opt_rows(const bt_opt_program *p);
bt_opt bt_opt_row(const bt_opt_program *p, size_t i); /* i < bt_opt_rows(p) */

/* The options that every program has. */
typedef struct bt_opt_builtin {
    char letter;
    const char *name;
    bt_opt_action action;
    const char *help;
} bt_opt_builtin;
extern const bt_opt_builtin bt_opt_builtins[5];
#endif
