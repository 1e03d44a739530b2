/* Names of options that a program once had. Each is refused with the name that it has there today, on the
 * command line and in the environment. The same word may be another option of another program. */
#include "base/opt_private.h"

const bt_opt_rename bt_opt_renamed[] = {
    {"baton-prefill", "decode-slots", "slots"},
    {"baton keygen", "decode", "decode-keys"},
    {"baton keygen", "prefill", "prefill-keys"},
    {"baton padding", "policy", "shape-policy"},
    {"baton plan", "policy", "shape-policy"},
    {"baton plan", "recipe", "quant"},
    {"baton plan", "window", "arenas"},
    {"baton timeline", "window", "arenas"},
    {NULL, NULL, NULL},
};
