/* Names of keys to requests, and lines of a key file to names. See keys.h. */
#include "lab/replay/keys.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/rng.h"
#include "tools/cluster/http.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT_MAX = 1000 };

static bt_err bad_part(const char *part, bt_fault *fault)
{
    return bt_fail(fault, BT_EARG,
                   "--key-shares '%.80s': a key's name of 1 to %d bytes, its share of the requests, and "
                   "perhaps its weight from 1 to %d, as in a:1,b:3 or a:1:1,b:1:3",
                   part, BT_TRACE_MAX_KEY, WEIGHT_MAX);
}

static bt_err take_part(tool_replay_keys *k, const char *part, bt_fault *fault)
{
    char text[160];
    tool_replay_key one = {.weight = 1};
    int64_t weight = 1;
    (void)snprintf(text, sizeof text, "%s", part);
    char *share = strchr(text, ':'), *weighs = share ? strchr(share + 1, ':') : NULL;
    if (!share) return bad_part(part, fault);
    *share = 0;
    if (weighs) *weighs = 0;
    const size_t len = strlen(text);
    if (len < 1 || len > BT_TRACE_MAX_KEY || bt_num_double(&one.share, share + 1, 1e-9, 1e9, NULL) < 0 ||
        (weighs && bt_num_int(&weight, weighs + 1, 1, WEIGHT_MAX, NULL) < 0))
        return bad_part(part, fault);
    one.hash = bt_hash64(text, len);
    memcpy(one.name, text, len + 1);
    one.weight = (uint32_t)weight;
    for (size_t i = 0; i < k->len; i++)
        if (k->of[i].hash == one.hash)
            return bt_fail(fault, BT_EARG, "--key-shares names '%s' twice", one.name);
    if (k->len == TOOL_REPLAY_KEYS)
        return bt_fail(fault, BT_EARG, "--key-shares names more than %d keys", TOOL_REPLAY_KEYS);
    k->of[k->len++] = one;
    return BT_OK;
}

bt_err tool_replay_keys_read(tool_replay_keys *ret, const char *text, bt_fault *fault)
{
    ret->len = 0;
    for (const char *at = text;;) {
        char part[160];
        const size_t len = strcspn(at, ",");
        if (len >= sizeof part) return bad_part(at, fault);
        (void)snprintf(part, sizeof part, "%.*s", (int)len, at);
        const bt_err e = take_part(ret, part, fault);
        if (e < 0) return e;
        if (!at[len]) return BT_OK;
        at += len + 1;
    }
}

bt_err tool_replay_keys_find(uint32_t *ret, tool_replay_plan *p, const char *name, bt_fault *fault)
{
    const uint64_t hash = bt_hash64(name, strlen(name));
    size_t i = 0;
    while (i < p->keys && p->key[i].hash != hash) i++;
    if (i == TOOL_REPLAY_KEYS)
        return bt_fail(fault, BT_ELIMIT, "the trace names more than %d keys; '%s' is one more",
                       TOOL_REPLAY_KEYS, name);
    if (i == p->keys) {
        p->key[p->keys] = (tool_replay_key){.hash = hash, .weight = 1};
        (void)snprintf(p->key[p->keys++].name, sizeof p->key->name, "%s", name);
    }
    *ret = (uint32_t)i + 1;
    return BT_OK;
}

static uint32_t drawn(const tool_replay_plan *p, uint64_t seed, uint64_t stream, double all)
{
    double left = bt_rng_uniform(bt_rng_u64(seed, 0x6b6579), stream) * all;
    uint32_t last = 0;
    for (uint32_t i = 0; i < p->keys; i++) {
        if (p->key[i].share <= 0) continue;
        last = i + 1;
        if (left < p->key[i].share) break;
        left -= p->key[i].share;
    }
    return last;
}

bt_err tool_replay_keys_assign(tool_replay_plan *p, const tool_replay_keys *k, uint64_t seed, bt_fault *fault)
{
    double all = 0;
    for (size_t i = 0; i < k->len; i++) {
        uint32_t at;
        const bt_err e = tool_replay_keys_find(&at, p, k->of[i].name, fault);
        if (e < 0) return e;
        p->key[at - 1].share = k->of[i].share;
        p->key[at - 1].weight = k->of[i].weight;
        all += k->of[i].share;
    }
    for (size_t i = 0; all > 0 && i < p->len; i++)
        if (!p->item[i].key) p->item[i].key = drawn(p, seed, p->item[i].stream, all);
    return BT_OK;
}

/* ---- the file of keys ---------------------------------------------------------------------------- */

bt_err tool_replay_secrets_read(tool_replay_secrets *ret, const char *path, bt_fault *fault)
{
    size_t len;
    *ret = (tool_replay_secrets){.text = NULL};
    return path ? tool_read_file(&ret->text, &len, path, fault) : BT_OK;
}

void tool_replay_secrets_done(tool_replay_secrets *s)
{
    tool_free_key(s->text);
    *s = (tool_replay_secrets){.text = NULL};
}

/* The name of the Nth key, whose line is this: its field, else key-N as gateways have it. */
static void name_of(char ret[BT_TRACE_MAX_KEY + 1], const char *line, size_t len, unsigned n)
{
    (void)snprintf(ret, BT_TRACE_MAX_KEY + 1, "key-%u", n);
    for (size_t at = strcspn(line, " \t"); at < len; at += strcspn(line + at, " \t\r\n")) {
        at += strspn(line + at, " \t");
        const size_t n_bytes = strcspn(line + at, " \t\r\n");
        if (at + n_bytes > len || n_bytes == 0) return;
        if (n_bytes > 5 && n_bytes - 5 <= BT_TRACE_MAX_KEY && memcmp(line + at, "name=", 5) == 0) {
            memcpy(ret, line + at + 5, n_bytes - 5);
            ret[n_bytes - 5] = 0;
        }
    }
}

bt_err tool_replay_secrets_match(tool_replay_secrets *s, const tool_replay_plan *p, bt_fault *fault)
{
    unsigned n = 0;
    s->first = NULL;
    memset(s->of, 0, sizeof s->of);
    for (const char *line = s->text; line && *line;) {
        const size_t len = strcspn(line, "\n");
        const char *next = line + len + (line[len] != 0);
        char name[BT_TRACE_MAX_KEY + 1];
        const size_t secret = strcspn(line, " \t\r\n");
        if (secret > 0 && *line != '#') {
            name_of(name, line, len, ++n);
            if (!s->first) s->first = line;
            for (size_t i = 0; i < p->keys; i++)
                if (strcmp(p->key[i].name, name) == 0) s->of[i] = line;
        }
        line = next;
    }
    for (size_t i = 0; s->text && i < p->keys; i++)
        if (!s->of[i] && p->key[i].share > 0)
            return bt_fail(fault, BT_EARG, "--key-shares: no key of --api-key-file is called '%s'",
                           p->key[i].name);
    return BT_OK;
}
