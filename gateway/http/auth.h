#ifndef GW_AUTH_H
#define GW_AUTH_H
#include <stdbool.h>
#include "base/err.h"

/* API keys of HTTP clients: a file of one key a line (1 to 256 printable bytes; empty lines and lines of '#' are
 * skipped). Other users must not be able to read the file. Keys never appear in logs or errors. */
typedef struct gw_auth gw_auth;
enum { GW_AUTH_MAX_FILE_BYTES = 64 << 10, GW_AUTH_MAX_KEY_BYTES = 256 };

/* BT_EAUTH: the file is open to others; BT_EFORMAT: a bad line, by number, or no key at all; BT_EIO. */
bt_err gw_auth_load(gw_auth **ret, const char *path, bt_fault *fault);
void gw_auth_free(gw_auth *a); /* NULL is fine; wipes */
/* The value of the Authorization header, NULL for none. Without keys (a NULL) everybody may come in. The time taken
 * does not depend on how much of a key was right. */
bool gw_auth_allows(const gw_auth *a, const char *authorization);
#endif
