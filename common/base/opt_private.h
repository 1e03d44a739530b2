#ifndef BT_BASE_OPT_PRIVATE_H
#define BT_BASE_OPT_PRIVATE_H
#include "base/opt.h"

/* Shared by the parser and the printers of the option table; nobody else includes it. */
typedef struct bt_opt_set {
    const char *text; /* as given; NULL: nothing was, not even a default. Not used for lists. */
    bt_opt_source source;
} bt_opt_set;

/* Row i of the program's table; a BT_OPT_OF row is filled in from the other program's row. */
bt_opt bt_opt_row(const bt_opt_program *p, size_t i);

/* The options that every program has. */
typedef struct bt_opt_builtin {
    char letter;
    const char *name;
    bt_opt_action action;
    const char *help;
} bt_opt_builtin;
extern const bt_opt_builtin bt_opt_builtins[5];
#endif
