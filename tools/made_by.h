#ifndef BT_TOOLS_MADE_BY_H
#define BT_TOOLS_MADE_BY_H
#include <jansson.h>
#include "base/opt.h"

/* A result says how it was made: the object `made_by` of --json and of pages. Its keys are `version`, `commit`
 * (null where the sources were no repository), `command`, `date` (UTC), `host`, `cpu`, `isa` (of the kernels here),
 * `options` (those in force by their names, as a user would write them; a list as an array) and, where a device was
 * asked for, `profiles`. What values hold that is their user's alone is left out (bt_opt_holds).
 *
 * isa: what --isa says; NULL: the best of this machine. BT_ENOMEM. */
bt_err tool_made_by(json_t **ret, const bt_opt_args *args, const char *isa, bt_fault *fault);
/* Adds an object with the profile's name to `profiles`, once for each name. NULL: nothing. */
void tool_made_by_profile(json_t *made_by, const char *name);
/* The commit of the program, for all results from then on; "": not known. The text stays the caller's. */
void tool_made_by_commit(const char *commit);
/* The name that the system has for this machine's processor, or "unknown". */
void tool_made_by_processor(char ret[128]);
#endif
