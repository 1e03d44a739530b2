/* API keys from a file, found by their keyed hashes. */
#include "gateway/http/auth.h"
#include "base/rng.h"
#include "crypto/secret.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct entry {
    uint8_t hash[BT_SECRET_HASH_BYTES];
    uint32_t at; /* in keys */
} entry;

struct gw_auth {
    uint8_t *hash_key; /* secret memory */
    entry *entries;    /* secret memory: by hash, as many as keys */
    gw_key **keys;     /* in the order of the file */
    size_t len;
    uint64_t last_share;
    const bt_prefix_secret *prefix_secret;
};

/* ---- files ---- */

/* The lines of a file, which point into *ret_text; both are the caller's. */
static bt_err read_lines(gw_key_line **ret, size_t *ret_len, char **ret_text, const char *path,
                         bt_fault *fault)
{
    size_t len = 0;
    char *text = NULL;
    bt_err e = bt_secret_read(&text, &len, path, GW_AUTH_MAX_FILE_BYTES, false, fault);
    if (e == BT_OK) e = gw_key_file_parse(ret, ret_len, text, len, path, fault);
    if (e < 0) bt_secret_free(text);
    else *ret_text = text;
    return e;
}

/* ---- the table ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(gw_key *const *)a)->facts.name, (*(gw_key *const *)b)->facts.name);
}

/* memcmp may end early: what a hash begins with is a riddle to whoever does not have the hash's key. */
static int by_hash(const void *a, const void *b)
{
    return memcmp(((const entry *)a)->hash, ((const entry *)b)->hash, BT_SECRET_HASH_BYTES);
}

/* The keys that there are by name, to find those of the same name; NULL: there is none, or no memory. */
static gw_key **sort_by_name(const gw_auth *a)
{
    gw_key **sorted = a->len ? malloc(a->len * sizeof(gw_key *)) : NULL;
    if (!sorted) return NULL;
    memcpy(sorted, a->keys, a->len * sizeof(gw_key *));
    qsort(sorted, a->len, sizeof(gw_key *), by_name);
    return sorted;
}

/* The key that was there before, by the name that was given to it, or else by itself; NULL: none was. */
static gw_key *old_key(gw_auth *a, gw_key **sorted, const gw_key_facts *facts, const entry *e)
{
    gw_key wanted = {.facts = *facts}, *name = &wanted;
    if (!sorted) return NULL;
    gw_key **same = facts->is_named ? bsearch(&name, sorted, a->len, sizeof(gw_key *), by_name) : NULL;
    const entry *is = facts->is_named ? NULL : bsearch(e, a->entries, a->len, sizeof *a->entries, by_hash);
    gw_key *old = same ? *same : is ? a->keys[is->at] : NULL;
    return old && old->facts.is_named == facts->is_named ? old : NULL;
}

static gw_key *key_for(gw_auth *a, gw_key **sorted, const gw_key_facts *facts, const entry *e)
{
    gw_key *old = old_key(a, sorted, facts, e);
    if (old) return gw_auth_hold(old);
    gw_key *k = calloc(1, sizeof *k);
    if (k) k->holders = 1;
    return k;
}

static void drop(gw_key **keys, size_t len)
{
    for (size_t i = 0; keys && i < len; i++) gw_auth_give(keys[i]);
    free(keys);
}

/* From here on nothing fails. */
static void put_in_place(gw_auth *a, gw_key **keys, entry *entries, const gw_key_line *lines, size_t len,
                         int64_t now_us)
{
    for (size_t i = 0; i < len; i++) {
        const bool is_named = lines[i].facts.is_named;
        keys[i]->facts = lines[i].facts;
        if (a->prefix_secret)
            keys[i]->owner = bt_prefix_owner_of(a->prefix_secret, is_named,
                                                is_named ? lines[i].facts.name : lines[i].secret,
                                                is_named ? strlen(lines[i].facts.name) : lines[i].secret_len);
        if (!keys[i]->share) keys[i]->share = ++a->last_share;
        gw_key_usage_limit(&keys[i]->usage, &lines[i].facts.limits, now_us);
    }
    drop(a->keys, a->len);
    bt_secret_free(a->entries);
    a->keys = keys;
    a->entries = entries;
    a->len = len;
}

static bt_err take_lines(gw_auth *a, const gw_key_line *lines, size_t len, int64_t now_us, bt_fault *fault)
{
    gw_key **sorted = sort_by_name(a);
    gw_key **keys = calloc(len, sizeof(gw_key *));
    entry *entries = bt_secret_new(len * sizeof *entries);
    bool is_whole = keys && entries && (sorted || a->len == 0);
    for (size_t i = 0; is_whole && i < len; i++) {
        entries[i].at = (uint32_t)i;
        bt_secret_hash(entries[i].hash, a->hash_key, lines[i].secret, lines[i].secret_len);
        is_whole = (keys[i] = key_for(a, sorted, &lines[i].facts, &entries[i])) != NULL;
    }
    free(sorted);
    if (!is_whole) {
        drop(keys, len);
        bt_secret_free(entries);
        return bt_fail(fault, BT_ENOMEM, "out of memory for API keys");
    }
    qsort(entries, len, sizeof *entries, by_hash);
    put_in_place(a, keys, entries, lines, len, now_us);
    return BT_OK;
}

bt_err gw_auth_reload(gw_auth *a, const char *path, int64_t now_us, bt_fault *fault)
{
    gw_key_line *lines = NULL;
    size_t len = 0;
    char *text = NULL;
    bt_err e = read_lines(&lines, &len, &text, path, fault);
    if (e < 0) return e;
    e = take_lines(a, lines, len, now_us, fault);
    free(lines);
    bt_secret_free(text);
    return e;
}

bt_err gw_auth_load(gw_auth **ret, const char *path, const bt_prefix_secret *prefix_secret, int64_t now_us,
                    bt_fault *fault)
{
    gw_auth *a = calloc(1, sizeof *a);
    if (!a || !(a->hash_key = bt_secret_new(BT_SECRET_HASH_BYTES))) {
        gw_auth_free(a);
        return bt_fail(fault, BT_ENOMEM, "out of memory for API keys");
    }
    a->prefix_secret = prefix_secret;
    bt_err e = bt_rng_entropy(a->hash_key, BT_SECRET_HASH_BYTES, fault);
    if (e == BT_OK) e = gw_auth_reload(a, path, now_us, fault);
    if (e < 0) gw_auth_free(a);
    else *ret = a;
    return e;
}

void gw_auth_free(gw_auth *a)
{
    if (!a) return;
    drop(a->keys, a->len);
    bt_secret_free(a->entries);
    bt_secret_free(a->hash_key);
    free(a);
}

/* ---- keys ---- */

gw_key *gw_auth_hold(gw_key *k)
{
    k->holders++;
    return k;
}

void gw_auth_give(gw_key *k)
{
    if (k && --k->holders == 0) free(k);
}

gw_key *gw_auth_take(gw_auth *a, const char *authorization, const char *api_key)
{
    const bool is_bearer = authorization && strncasecmp(authorization, "Bearer ", 7) == 0;
    const char *key = is_bearer ? authorization + 7 : api_key;
    const size_t n = key ? strlen(key) : 0;
    if (n == 0 || n > GW_KEY_MAX_BYTES) return NULL;
    entry wanted;
    bt_secret_hash(wanted.hash, a->hash_key, key, n);
    const entry *found = bsearch(&wanted, a->entries, a->len, sizeof *a->entries, by_hash);
    bt_secret_wipe(&wanted, sizeof wanted);
    return found ? gw_auth_hold(a->keys[found->at]) : NULL;
}

size_t gw_auth_count(const gw_auth *a) { return a->len; }
gw_key *gw_auth_at(const gw_auth *a, size_t i) { return a->keys[i]; }
