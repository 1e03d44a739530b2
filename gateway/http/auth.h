#ifndef GW_AUTH_H
#define GW_AUTH_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "crypto/prefix_salt.h"
#include "gateway/http/key_file.h"

/* The API keys of a gateway: those of a file (key_file.h), which other users must not be able to read. No key stays in
 * memory, only its hash under a random key, and that in memory that core dumps leave out. Keys never appear in logs or
 * errors. */
typedef struct gw_auth gw_auth;
enum { GW_AUTH_MAX_FILE_BYTES = 2 << 20 };

/* One key. A key with name= is the same one after a reload where it has the same name, one without where it is the same
 * key: with the facts of the new file, and what it took counts on. */
typedef struct gw_key {
    gw_key_facts facts;
    bt_prefix_owner owner; /* of prefixes that nodes keep of its prompts */
    uint64_t share;        /* a number that no other key has had since the process began, from 1 */
    gw_key_usage usage;
    uint64_t requests, prompt_tokens, answer_tokens; /* for metrics: of requests that ended */
    /* By the limit that was reached; [0]: for want of a right, [GW_KEY_LIMITS]: of a place in the line. */
    uint64_t refusals[GW_KEY_LIMITS + 1];
    size_t holders; /* private */
} gw_key;

/* BT_EAUTH: the file is open to others; BT_EFORMAT, BT_ELIMIT: a bad line, by number, no key or too many; BT_EIO;
 * BT_ENOMEM. prefix_secret: for owners, outlives *ret; NULL: keys have none. now_us: of the clock that gw_key_usage
 * gets. */
bt_err gw_auth_load(gw_auth **ret, const char *path, const bt_prefix_secret *prefix_secret, int64_t now_us,
                    bt_fault *fault);
/* Reads the file again; after an error the keys are as they were. Keys that are gone stay with who holds them. */
bt_err gw_auth_reload(gw_auth *a, const char *path, int64_t now_us, bt_fault *fault);
void gw_auth_free(gw_auth *a); /* NULL is fine */

/* The key in the values of the headers Authorization, where that is of the scheme Bearer, or else X-Api-Key (NULL: no
 * such header), to be given back; NULL: it is none of these. The time taken does not depend on how much of a key was
 * right. */
gw_key *gw_auth_take(gw_auth *a, const char *authorization, const char *api_key);
gw_key *gw_auth_hold(gw_key *k); /* once more */
void gw_auth_give(gw_key *k);    /* NULL is fine */

size_t gw_auth_count(const gw_auth *a);
gw_key *gw_auth_at(const gw_auth *a, size_t i); /* in the order of the file; borrowed, until the next reload */
#endif
