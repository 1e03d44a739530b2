#ifndef BT_CRYPTO_KEYS_H
#define BT_CRYPTO_KEYS_H
#include <stdbool.h>
#include "base/err.h"

/* CURVE key pairs (Curve25519), as Z85 text of 40 characters, and the files of a cluster:
 *
 *   DIR/NAME.secret   the secret key of one process, one line; mode 0600, and refused when others may read it
 *   DIR/allow         who may connect and as what, the same file everywhere (crypto/peer_auth.h)
 *   DIR/salt          a secret that gateways have in common (crypto/prefix_salt.h), like a NAME.secret
 *
 * crypto/keys_generate.h writes both.
 *
 * Words in faults never hold a secret. Wipe every bt_keys after use. */
#define BT_KEYS_Z85_BYTES  41u /* 40 characters and the final 0 */
#define BT_KEYS_NAME_BYTES 33u /* 1 to 32 of a-z, 0-9 and '-', not first; and the final 0 */
#define BT_KEYS_PATH_BYTES 4096u

typedef struct bt_keys {
    char public_key[BT_KEYS_Z85_BYTES];
    char secret_key[BT_KEYS_Z85_BYTES];
} bt_keys;

extern const struct bt_opt_group bt_keys_opts; /* base/opt.h: keys, key */

bt_err bt_keys_make(bt_keys *ret, bt_fault *fault);
void bt_keys_wipe(bt_keys *keys); /* NULL is fine */

bool bt_keys_is_name(const char *name);
/* The name of the only NAME.secret in DIR. BT_EAUTH: it holds none or several; BT_EIO. */
bt_err bt_keys_find(char ret[BT_KEYS_NAME_BYTES], const char *dir, bt_fault *fault);
/* DIR/NAME and the suffix. BT_EARG: not a name, or too long. */
bt_err bt_keys_path(char ret[BT_KEYS_PATH_BYTES], const char *dir, const char *name, const char *suffix,
                    bt_fault *fault);
/* name NULL: the only NAME.secret in DIR. BT_EARG: not a name; BT_EAUTH: the secret can be read by others, or DIR holds
 * no secret or several and none is named; BT_EFORMAT: not a key; BT_EIO. The public key is derived from the secret,
 * so the pair always fits. */
bt_err bt_keys_load(bt_keys *ret, const char *dir, const char *name, bt_fault *fault);

/* Reads DIR/salt; errors as above. No such file: *ret_is_there is false, and ret is untouched. */
bt_err bt_keys_load_salt(unsigned char ret[32], bool *ret_is_there, const char *dir, bt_fault *fault);

/* 40 characters of Z85 text for 32 bytes, and back; BT_EFORMAT. */
bt_err bt_keys_from_z85(unsigned char ret[32], const char *text, bt_fault *fault);
void bt_keys_to_z85(char ret[BT_KEYS_Z85_BYTES], const unsigned char key[32]);
#endif
