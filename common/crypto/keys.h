#ifndef BT_CRYPTO_KEYS_H
#define BT_CRYPTO_KEYS_H
#include <stdbool.h>
#include "base/err.h"

/* CURVE key pairs (Curve25519), as Z85 text of 40 characters, and the files of a cluster:
 *
 *   DIR/NAME.secret   the secret key of one process, one line; mode 0600, and refused when others may read it
 *   DIR/allow         who may connect and as what, the same file everywhere; see crypto/peer_auth.h
 *
 * Words in faults never hold a secret. Wipe every bt_keys after use. */
#define BT_KEYS_Z85_BYTES  41u         /* 40 characters and the final 0 */
#define BT_KEYS_NAME_BYTES 33u         /* 1 to 32 of a-z, 0-9 and '-', not first; and the final 0 */

typedef struct bt_keys {
    char public_key[BT_KEYS_Z85_BYTES];
    char secret_key[BT_KEYS_Z85_BYTES];
} bt_keys;

bt_err bt_keys_make(bt_keys *ret, bt_fault *fault);
void   bt_keys_wipe(bt_keys *keys);                 /* NULL is fine */

bool bt_keys_is_name(const char *name);
/* name NULL: the only NAME.secret in DIR. BT_EARG: not a name; BT_EAUTH: the secret can be read by others, or DIR holds no secret or
 * several and none is named; BT_EFORMAT: not a key; BT_EIO. The public key is derived from the secret, so the pair always fits. */
bt_err bt_keys_load(bt_keys *ret, const char *dir, const char *name, bt_fault *fault);

/* The files of new processes: for each of `specs` (ends with NULL; at most BT_KEYS_SPECS_MAX), "NAME" or "NAME:role[,role]", a secret
 * and a line at the end of the allow file. Without roles, a name's role is what stands before its first '-': "prefill-2" has the role
 * prefill. Makes DIR (mode 0700) and the allow file if need be; what is there stays as it is. BT_EARG, and nothing is written: a
 * NAME.secret or the name in the allow file is there already. BT_EAUTH: others may write to DIR or the allow file. */
enum { BT_KEYS_SPECS_MAX = 4096 };
bt_err bt_keys_generate(const char *dir, const char *const *specs, bt_fault *fault);

/* 40 characters of Z85 text for 32 bytes, and back; BT_EFORMAT. */
bt_err bt_keys_from_z85(unsigned char ret[32], const char *text, bt_fault *fault);
void   bt_keys_to_z85(char ret[BT_KEYS_Z85_BYTES], const unsigned char key[32]);
#endif
