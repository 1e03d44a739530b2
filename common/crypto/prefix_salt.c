/* Salts by BLAKE2b. See prefix_salt.h. */
#include "crypto/prefix_salt.h"
#include "base/rng.h"
#include "crypto/keys.h"
#include "crypto/secret.h"

#include <string.h>

struct bt_prefix_secret {
    uint8_t key[BT_SECRET_HASH_BYTES];
};
_Static_assert(sizeof(bt_prefix_owner) == BT_SECRET_HASH_BYTES, "an owner is the key of a hash");

/* It separates this secret from all else that the gateway's secret key is used for. */
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
static void hash_pair(uint8_t ret[BT_SECRET_HASH_BYTES], const bt_prefix_secret *s, const char *what,
                      const void *text, size_t len)
{
    uint8_t first[BT_SECRET_HASH_BYTES];
    bt_secret_hash(first, s->key, what, strlen(what));
    bt_secret_hash(ret, first, text, len);
    bt_secret_wipe(first, sizeof first);
}

bt_prefix_owner bt_prefix_owner_of(const bt_prefix_secret *s, bool is_name, const char *text, size_t len)
{
    bt_prefix_owner owner;
    hash_pair(owner.bytes, s, is_name ? "name" : "key", text, len);
    return owner;
}

bt_prompt_salt bt_prefix_salt(const bt_prefix_secret *s, const bt_prefix_owner *owner, const char *cache_salt)
{
    uint8_t hash[BT_SECRET_HASH_BYTES];
    bt_prompt_salt salt = {{0}};
    if (!owner && !*cache_salt) return salt;
    if (owner) bt_secret_hash(hash, owner->bytes, cache_salt, strlen(cache_salt));
    else hash_pair(hash, s, "all", cache_salt, strlen(cache_salt));
    memcpy(salt.bytes, hash, sizeof salt.bytes);
    return salt;
}
