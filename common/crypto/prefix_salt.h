#ifndef BT_CRYPTO_PREFIX_SALT_H
#define BT_CRYPTO_PREFIX_SALT_H
#include "base/err.h"
#include "base/prompt.h"

/* The salts of prompts, which say who shares prefixes with whom (base/prompt.h). A salt is made of the name of an API
 * key and of what the request adds, by BLAKE2b under a secret. So clients can neither choose nor guess a salt, and
 * gateways of one secret make the same salts. */
typedef struct bt_prefix_secret bt_prefix_secret; /* in pages that core dumps leave out */

/* With --keys DIR and --key NAME (crypto/keys.h) the secret is that of the file DIR/salt, which the gateways of one
 * deployment have in common. Where that is not there, it is made of the gateway's own secret key, so that a restart
 * changes nothing. dir NULL: drawn. BT_EAUTH: others can read DIR/salt; BT_EFORMAT, BT_EIO, BT_ENOMEM. */
bt_err bt_prefix_secret_open(bt_prefix_secret **ret, const char *dir, const char *name, bt_fault *fault);
void bt_prefix_secret_close(bt_prefix_secret *s); /* wipes; NULL is fine */

/* key_name "": all keys; cache_salt: what the request adds, "": nothing. Without both it is the zero salt. */
bt_prompt_salt bt_prefix_salt(const bt_prefix_secret *s, const char *key_name, const char *cache_salt);
#endif
