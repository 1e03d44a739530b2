/* The files of new processes. Everything that can be wrong is looked at before the first file is written. */
#include "crypto/keys_generate.h"
#include "base/buf.h"
#include "base/file.h"
#include "crypto/keys.h"
#include "crypto/peer_auth.h"

#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "NAME" or "NAME:role[,role]". */
static bt_err split(char ret_name[BT_KEYS_NAME_BYTES], const char **ret_roles, const char *spec,
                    bt_fault *fault)
{
    const size_t n = strcspn(spec, ":");
    const bool has_roles = spec[n] == ':';
    *ret_roles = has_roles ? spec + n + 1 : NULL;
    if (n >= BT_KEYS_NAME_BYTES)
        return bt_fail(fault, BT_EARG, "'%.40s' is not a name for keys: 1 to 32 of a-z, 0-9 and '-'", spec);
    memcpy(ret_name, spec, n);
    ret_name[n] = 0;
    if (!bt_keys_is_name(ret_name))
        return bt_fail(fault, BT_EARG, "'%.40s' is not a name for keys: 1 to 32 of a-z, 0-9 and '-'",
                       ret_name);
    if (has_roles && !bt_peer_auth_role_list(*ret_roles, strlen(*ret_roles)))
        return bt_fail(fault, BT_EARG,
                       "'%.60s': roles are gateway, prefill, decode, as in '%s:decode,prefill'", spec,
                       ret_name);
    if (!has_roles && !bt_peer_auth_role_of_name(ret_name))
        return bt_fail(fault, BT_EARG,
                       "'%s' does not start with gateway, prefill or decode: say its role, as in '%s:decode'",
                       ret_name, ret_name);
    return BT_OK;
}

static bt_err check_specs(const char *dir, const bt_peer_allow *allow, const char *const *specs,
                          bt_fault *fault)
{
    char path[BT_KEYS_PATH_BYTES], name[BT_KEYS_NAME_BYTES], earlier[BT_KEYS_NAME_BYTES];
    const char *roles;
    bt_err e;
    for (size_t i = 0; specs[i]; i++) {
        if (i == BT_KEYS_GENERATE_MAX)
            return bt_fail(fault, BT_ELIMIT, "more than %d keys at once", BT_KEYS_GENERATE_MAX);
        if ((e = split(name, &roles, specs[i], fault)) < 0 ||
            (e = bt_keys_path(path, dir, name, ".secret", fault)) < 0)
            return e;
        if (access(path, F_OK) == 0)
            return bt_fail(fault, BT_EARG,
                           "'%.160s' is there already; give another directory or name, or remove it", path);
        if (allow && bt_peer_auth_has_name(allow, name))
            return bt_fail(fault, BT_EARG,
                           "'%.120s/allow' names '%s' already; give another name, or take out its line", dir,
                           name);
        for (size_t k = 0; k < i; k++)
            if (split(earlier, &roles, specs[k], NULL) == BT_OK && !strcmp(earlier, name))
                return bt_fail(fault, BT_EARG, "'%s' is named twice", name);
    }
    return BT_OK;
}

/* One secret, and its line for the allow file. */
static bt_err make_one(bt_buf *allow, const char *dir, const char *spec, bt_fault *fault)
{
    char path[BT_KEYS_PATH_BYTES], name[BT_KEYS_NAME_BYTES], line[BT_KEYS_Z85_BYTES + 1];
    const char *roles;
    bt_keys keys;
    bt_err e = split(name, &roles, spec, fault);
    if (e == BT_OK) e = bt_keys_path(path, dir, name, ".secret", fault);
    if (e < 0 || (e = bt_keys_make(&keys, fault)) < 0) return e;
    const int n = snprintf(line, sizeof line, "%s\n", keys.secret_key);
    e = bt_file_replace(path, line, (size_t)n, 0600, fault);
    (void)bt_buf_fmt(allow, "%s %.*s %s\n", keys.public_key,
                     roles ? (int)strlen(roles) : (int)strcspn(name, "-"), roles ? roles : name, name);
    sodium_memzero(line, sizeof line);
    bt_keys_wipe(&keys);
    return e;
}

static bool is_gateway(const char *spec)
{
    char name[BT_KEYS_NAME_BYTES];
    const char *roles;
    if (split(name, &roles, spec, NULL) < 0) return false;
    return (roles ? bt_peer_auth_role_list(roles, strlen(roles)) : bt_peer_auth_role_of_name(name)) &
           BT_PEER_GATEWAY;
}

/* The secret that gateways have in common, where it is not there yet. */
static bt_err make_salt(const char *dir, bt_fault *fault)
{
    char path[BT_KEYS_PATH_BYTES], line[BT_KEYS_Z85_BYTES + 1];
    bt_keys keys;
    bt_err e = bt_keys_path(path, dir, "salt", "", fault);
    if (e < 0 || access(path, F_OK) == 0) return e;
    if ((e = bt_keys_make(&keys, fault)) < 0) return e;
    const int n = snprintf(line, sizeof line, "%s\n", keys.secret_key);
    e = bt_file_replace(path, line, (size_t)n, 0600, fault);
    sodium_memzero(line, sizeof line);
    bt_keys_wipe(&keys);
    return e;
}

bt_err bt_keys_generate(const char *dir, const char *const *specs, bt_fault *fault)
{
    char path[BT_KEYS_PATH_BYTES];
    bt_peer_allow *allow = NULL;
    bt_buf text;
    bt_buf_init(&text, 1 << 20);
    bt_err e = bt_keys_path(path, dir, "allow", "", fault);
    const bool has_allow = e == BT_OK && access(path, F_OK) == 0;
    if (e == BT_OK && has_allow) e = bt_peer_auth_load(&allow, dir, fault);
    if (e == BT_OK && has_allow) e = bt_file_read(&text, path, fault);
    if (e == BT_OK) e = check_specs(dir, allow, specs, fault);
    if (e == BT_OK && mkdir(dir, 0700) < 0 && errno != EEXIST)
        e = bt_fail(fault, BT_EIO, "cannot make the folder '%s': %s", dir, strerror(errno));
    if (e == BT_OK && !has_allow) e = bt_peer_auth_check_writers(dir, fault);
    if (!has_allow) (void)bt_buf_str(&text, "# who may connect: public key, roles, name\n");
    else if (text.len && text.data[text.len - 1] != '\n') (void)bt_buf_str(&text, "\n");
    for (; *specs && e == BT_OK; specs++) {
        e = make_one(&text, dir, *specs, fault);
        if (e == BT_OK && is_gateway(*specs)) e = make_salt(dir, fault);
    }
    if (e == BT_OK && text.err < 0)
        e = bt_fail(fault, text.err, "no room for the lines of '%.120s': %s", path, bt_err_name(text.err));
    if (e == BT_OK) e = bt_file_replace(path, text.data, text.len, 0644, fault);
    bt_peer_auth_free(allow);
    bt_buf_done(&text);
    return e;
}
