#ifndef GW_KEY_FILE_H
#define GW_KEY_FILE_H
#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"
#include "gateway/http/key_usage.h"

/* The form of --api-key-file, as a pure function. A line is a key, 1 to 256 printable bytes without a space, and then
 * fields with spaces or tabs between, each at most once:
 *
 *   name=NAME                what logs and metrics call the key: 1 to 64 of A-Z a-z 0-9 . _ - ; else key-N, where the
 *                            key is the Nth of the file
 *   role=client|admin|metrics                   client where it does not say
 *   weight=1..1000                              1 where it does not say
 *   requests-per-minute=, tokens-per-minute=    1..GW_KEY_MAX_PER_MINUTE
 *   at-once=1..65536                            requests in flight
 *   context=2..GW_KEY_MAX_CONTEXT               tokens of a prompt and its answer together
 *
 * Empty lines are skipped, and lines that begin with '#'. No two keys have one name. A key stands on one line, or on
 * several of which none has fields; it counts once then. */
enum {
    GW_KEYS_MAX = 4096,
    GW_KEY_MAX_BYTES = 256,
    GW_KEY_NAME_BYTES = 65,
    GW_KEY_MAX_WEIGHT = 1000,
    GW_KEY_MAX_AT_ONCE = 65536,
    GW_KEY_MAX_CONTEXT = 2 << 20,
};

typedef enum gw_key_role { GW_KEY_CLIENT, GW_KEY_METRICS, GW_KEY_ADMIN, GW_KEY_ROLES } gw_key_role;
extern const char *const gw_key_roles[GW_KEY_ROLES + 1]; /* their words; ends with NULL */

typedef struct gw_key_facts {
    char name[GW_KEY_NAME_BYTES];
    bool is_named; /* by name=; else by its place */
    gw_key_role role;
    uint32_t weight;
    gw_key_limits limits;
} gw_key_facts;

typedef struct gw_key_line {
    const char *secret; /* in the text */
    size_t secret_len, line;
    gw_key_facts facts;
} gw_key_line;

/* Reads text[len], whose name in errors is `path`: an array that the caller frees, in the order of the lines.
 * BT_EFORMAT: a bad line, by its number, or no key at all; BT_ELIMIT: more than GW_KEYS_MAX keys; BT_ENOMEM. Words
 * never hold what stands on a line, since it may be a key. */
bt_err gw_key_file_parse(gw_key_line **ret, size_t *ret_len, const char *text, size_t len, const char *path,
                         bt_fault *fault);
#endif
