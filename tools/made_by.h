#ifndef BT_TOOLS_MADE_BY_H
#define BT_TOOLS_MADE_BY_H
#include <jansson.h>
#include "base/opt.h"
#include "device/profile.h"

/* A result says how it was made: the object `made_by` of --json and of pages. Its keys are `version`, `commit`
 * (null where the sources were no repository), `command`, `date` (UTC), `host`, `cpu`, `isa` (of the kernels here),
 * `options` (those in force by their names, as a user would write them; a list as an array) and, where a device was
 * asked for, `profiles`. The parts of values that are their user's alone are left out (bt_opt_holds).
 *
 * isa: what --isa says; NULL: the best of this machine. BT_ENOMEM. */
bt_err tool_made_by(json_t **ret, const bt_opt_args *args, const char *isa, bt_fault *fault);
/* Adds {name, stack, standing, error} of a profile to `profiles`, once for each name; the last three only where it has
 * a time (device/forecast.h). */
void tool_made_by_device(json_t *made_by, const bt_profile *p);
/* The profile of this name or file. NULL, or one that cannot be read: nothing. */
void tool_made_by_profile(json_t *made_by, const char *name);
/* The commit of the program, for all results from then on; "": not known. The text stays the caller's. */
void tool_made_by_commit(const char *commit);
/* The name that the system has for this machine's processor, or "unknown". */
void tool_made_by_processor(char ret[128]);
#endif
