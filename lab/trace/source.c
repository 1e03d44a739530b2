/* Opening what a trace needs besides its file, and reading all of it. */
#include "lab/trace/source.h"
#include "base/file.h"
#include "crypto/secret.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char SECRET[] = ".secret";

static bt_err count_tokens(void *ud, uint32_t *ret, const char *text, size_t len, bt_fault *fault)
{
    int32_t *ids = NULL;
    size_t n = 0;
    const bt_err e = bt_tokenizer_encode(&ids, &n, ud, text, len, 0, fault);
    free(ids);
    if (e == BT_OK) *ret = (uint32_t)n;
    return e == BT_EARG || e == BT_ELIMIT ? BT_EFORMAT : e; /* a text that is no text is a bad row */
}

/* "DIR/NAME.secret", or without ".secret", as DIR and NAME. */
static void split(char dir[BT_KEYS_PATH_BYTES], char name[BT_KEYS_PATH_BYTES], const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t n = strlen(base);
    if (n > sizeof SECRET - 1 && strcmp(base + n - (sizeof SECRET - 1), SECRET) == 0) n -= sizeof SECRET - 1;
    (void)snprintf(dir, BT_KEYS_PATH_BYTES, "%.*s", slash ? (int)(slash - path + (slash == path)) : 1,
                   slash ? path : ".");
    (void)snprintf(name, BT_KEYS_PATH_BYTES, "%.*s", (int)n, base);
}

static bt_err load_key(tool_trace_source *s, const char *path, bt_fault *fault)
{
    char dir[BT_KEYS_PATH_BYTES], name[BT_KEYS_PATH_BYTES];
    bt_keys keys;
    char file[2 * BT_KEYS_PATH_BYTES + sizeof SECRET + 1];
    split(dir, name, path);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(file, sizeof file, "%s/%s%s", dir, name, i ? ".public" : SECRET);
        if (access(file, R_OK) < 0)
            return bt_fail(
                fault, BT_EIO,
                "--unseal '%.150s': %s; give the NAME.secret that 'baton trace key NAME' made beside "
                "NAME.public",
                file, strerror(errno));
    }
    bt_err e = bt_keys_load(&keys, dir, name, fault);
    if (e < 0) return e;
    e = bt_keys_from_z85(s->public_key, keys.public_key, fault);
    if (e == BT_OK) e = bt_keys_from_z85(s->secret_key, keys.secret_key, fault);
    bt_keys_wipe(&keys);
    return e;
}

bt_err tool_trace_open(tool_trace_source *ret, const char *path, const tool_trace_options *o, bt_fault *fault)
{
    bt_trace_options to = {.format = (bt_trace_format)o->format, .skips_bad = o->skip_bad};
    bt_err e = BT_OK;
    *ret = (tool_trace_source){.t = NULL};
    if (o->model && (e = tool_open_model(&ret->model, &ret->tok, o->model, fault)) == BT_OK) {
        to.count = count_tokens;
        to.ud = ret->tok;
    }
    if (e == BT_OK && o->unseal && (e = load_key(ret, o->unseal, fault)) == BT_OK) {
        to.public_key = ret->public_key;
        to.secret_key = ret->secret_key;
    }
    if (e == BT_OK) e = bt_trace_open(&ret->t, path, &to, fault);
    if (e < 0) tool_trace_close(ret);
    return e;
}

void tool_trace_close(tool_trace_source *s)
{
    bt_trace_close(s->t);
    tool_tell_tokens(s->tok);
    bt_tokenizer_free(s->tok);
    bt_model_close(s->model);
    bt_secret_wipe(s->secret_key, sizeof s->secret_key);
    *s = (tool_trace_source){.t = NULL};
}

bt_err tool_trace_each(tool_trace_source *s, const char *path, tool_trace_row_fn *row, void *ud,
                       bt_fault *fault)
{
    bt_trace_row r;
    bool is_end;
    bt_fault why = {""};
    bt_err e;
    while ((e = bt_trace_next(&r, &is_end, s->t, &why)) == BT_OK && !is_end &&
           (e = row(ud, &r, &why)) == BT_OK)
        ;
    return e < 0 ? bt_fail(fault, e, "'%.60s', %.180s", path, why.text) : BT_OK;
}

void tool_trace_warn(const char *command, const tool_trace_source *s)
{
    const bt_trace_facts f = bt_trace_look(s->t);
    if (f.bad)
        fprintf(stderr, "baton %s: %llu bad rows passed over; the first: %s\n", command,
                (unsigned long long)f.bad, f.first_bad);
    if (f.torn_bytes)
        fprintf(stderr, "baton %s: %llu bytes of a record that was not written whole are left out\n", command,
                (unsigned long long)f.torn_bytes);
    if (f.dropped)
        fprintf(stderr, "baton %s: %llu requests are missing: the gateway's disk was slow or full\n", command,
                (unsigned long long)f.dropped);
}

bt_err tool_trace_make_key(const char *name, bt_fault *fault)
{
    char dir[BT_KEYS_PATH_BYTES], base[BT_KEYS_PATH_BYTES], secret[BT_KEYS_PATH_BYTES],
        public[BT_KEYS_PATH_BYTES];
    char line[BT_KEYS_Z85_BYTES + 1];
    bt_keys keys;
    split(dir, base, name);
    bt_err e = bt_keys_path(secret, dir, base, SECRET, fault);
    if (e == BT_OK) e = bt_keys_path(public, dir, base, ".public", fault);
    if (e < 0) return e;
    const char *there = access(secret, F_OK) == 0 ? secret : access(public, F_OK) == 0 ? public : NULL;
    if (there)
        return bt_fail(fault, BT_EARG, "'%.200s' is there already; give another name, or remove it", there);
    if ((e = bt_keys_make(&keys, fault)) < 0) return e;
    (void)snprintf(line, sizeof line, "%s\n", keys.secret_key);
    e = bt_file_replace(secret, line, sizeof line - 1, 0600, fault);
    (void)snprintf(line, sizeof line, "%s\n", keys.public_key);
    if (e == BT_OK) e = bt_file_replace(public, line, sizeof line - 1, 0644, fault);
    bt_secret_wipe(line, sizeof line);
    bt_keys_wipe(&keys);
    return e;
}
