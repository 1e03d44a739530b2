#ifndef BT_CRYPTO_PREFIX_SALT_H
#define BT_CRYPTO_PREFIX_SALT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/prompt.h"

/* The salts of prompts, which say who shares prefixes with whom (base/prompt.h). A salt is made of the name of an API
 * key, or of the key itself where it has none, and of what the request adds, by BLAKE2b under a secret. So clients can
 * neither choose nor guess a salt, and gateways of one secret make the same salts. */
typedef struct bt_prefix_secret bt_prefix_secret; /* in pages that core dumps leave out */

/* With --keys DIR and --key NAME (crypto/keys.h) the secret is that of the file DIR/salt, which the gateways of one
 * deployment have in common. Where that is not there, it is made of the gateway's own secret key, so that a restart
 * changes nothing. dir NULL: drawn. BT_EAUTH: others can read DIR/salt; BT_EFORMAT, BT_EIO, BT_ENOMEM. */
bt_err bt_prefix_secret_open(bt_prefix_secret **ret, const char *dir, const char *name, bt_fault *fault);
void bt_prefix_secret_close(bt_prefix_secret *s); /* wipes; NULL is fine */

/* Stands for a key in salts, and says nothing about it. */
typedef struct bt_prefix_owner {
    uint8_t bytes[32];
} bt_prefix_owner;
/* is_name: text[len] is the key's name, else the key itself. */
bt_prefix_owner bt_prefix_owner_of(const bt_prefix_secret *s, bool is_name, const char *text, size_t len);
/* owner NULL: all keys together; cache_salt: what the request adds, "": nothing. Without both it is the zero salt. */
bt_prompt_salt bt_prefix_salt(const bt_prefix_secret *s, const bt_prefix_owner *owner, const char *cache_salt);
#endif
