/* Salts by BLAKE2b. See prefix_salt.h. */
#include "crypto/prefix_salt.h"
#include "base/rng.h"
#include "crypto/keys.h"
#include "crypto/secret.h"

#include <string.h>

struct bt_prefix_secret {
    uint8_t key[BT_SECRET_HASH_BYTES];
};

/* What no other use of the gateway's secret key gives. */
static bt_err from_own_key(bt_prefix_secret *s, const char *dir, const char *name, bt_fault *fault)
{
    static const char use[] = "baton prefix salt";
    bt_keys own;
    uint8_t raw[BT_SECRET_HASH_BYTES];
    bt_err e = bt_keys_load(&own, dir, name, fault);
    if (e < 0) return e;
    e = bt_keys_from_z85(raw, own.secret_key, fault);
    if (e == BT_OK) bt_secret_hash(s->key, raw, use, sizeof use);
    bt_secret_wipe(raw, sizeof raw);
    bt_keys_wipe(&own);
    return e;
}

bt_err bt_prefix_secret_open(bt_prefix_secret **ret, const char *dir, const char *name, bt_fault *fault)
{
    bool is_there = false;
    bt_prefix_secret *s = bt_secret_new(sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory for the secret of prefixes");
    bt_err e =
        dir ? bt_keys_load_salt(s->key, &is_there, dir, fault) : bt_rng_entropy(s->key, sizeof s->key, fault);
    if (e == BT_OK && dir && !is_there) e = from_own_key(s, dir, name, fault);
    if (e < 0) bt_prefix_secret_close(s);
    else *ret = s;
    return e;
}

void bt_prefix_secret_close(bt_prefix_secret *s) { bt_secret_free(s); }

/* One hash is the key of the next, so that no two pairs of texts are hashed alike. */
bt_prompt_salt bt_prefix_salt(const bt_prefix_secret *s, const char *key_name, const char *cache_salt)
{
    uint8_t of_name[BT_SECRET_HASH_BYTES], of_both[BT_SECRET_HASH_BYTES];
    bt_prompt_salt salt = {{0}};
    if (!*key_name && !*cache_salt) return salt;
    bt_secret_hash(of_name, s->key, key_name, strlen(key_name));
    bt_secret_hash(of_both, of_name, cache_salt, strlen(cache_salt));
    memcpy(salt.bytes, of_both, sizeof salt.bytes);
    bt_secret_wipe(of_name, sizeof of_name);
    return salt;
}
