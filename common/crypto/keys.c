/* Key pairs and their files. Secrets stay in buffers that are wiped on every way out. */
#include "crypto/keys.h"
#include "base/buf.h"
#include "base/file.h"
#include "crypto/peer_auth.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>      /* for Z85 only */

#define PATH_BYTES 4096
_Static_assert(crypto_box_PUBLICKEYBYTES == 32 && crypto_box_SECRETKEYBYTES == 32, "CURVE keys have 32 bytes");

void bt_keys_to_z85(char ret[BT_KEYS_Z85_BYTES], const unsigned char key[32]) { (void)zmq_z85_encode(ret, key, 32); }

bt_err bt_keys_from_z85(unsigned char ret[32], const char *text, bt_fault *fault)
{
    static const char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    unsigned char key[32];
    bt_err e = BT_OK;
    if (strlen(text) != 40 || strspn(text, alphabet) != 40 || !zmq_z85_decode(key, text))
        e = bt_fail(fault, BT_EFORMAT, "not a key of 40 Z85 characters");
    else
        memcpy(ret, key, 32);
    sodium_memzero(key, sizeof key);
    return e;
}

bt_err bt_keys_make(bt_keys *ret, bt_fault *fault)
{
    unsigned char pub[32], sec[32];
    if (sodium_init() < 0) return bt_fail(fault, BT_EIO, "libsodium cannot start");
    if (crypto_box_keypair(pub, sec) < 0) return bt_fail(fault, BT_EIO, "no key pair");
    bt_keys_to_z85(ret->public_key, pub);
    bt_keys_to_z85(ret->secret_key, sec);
    sodium_memzero(sec, sizeof sec);
    return BT_OK;
}

void bt_keys_wipe(bt_keys *keys)
{
    if (keys) sodium_memzero(keys, sizeof *keys);
}

bool bt_keys_is_name(const char *name)
{
    const size_t n = strlen(name);
    return n >= 1 && n < BT_KEYS_NAME_BYTES && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n && name[0] != '-';
}

static bt_err file_path(char ret[PATH_BYTES], const char *dir, const char *name, const char *suffix, bt_fault *fault)
{
    if (!bt_keys_is_name(name))
        return bt_fail(fault, BT_EARG, "'%.40s' is not a name for keys: 1 to 32 of a-z, 0-9 and '-'", name);
    if ((size_t)snprintf(ret, PATH_BYTES, "%s/%s%s", dir, name, suffix) >= PATH_BYTES)
        return bt_fail(fault, BT_EARG, "the path of the key directory is too long");
    return BT_OK;
}

/* One line of 40 characters from an open file. */
static bt_err read_key(char ret[BT_KEYS_Z85_BYTES], unsigned char raw[32], int fd, const char *path, bt_fault *fault)
{
    char text[64];
    const ssize_t n = read(fd, text, sizeof text - 1);
    bt_err e = BT_OK;
    if (n < 0) {
        e = bt_fail(fault, BT_EIO, "read '%s': %s", path, strerror(errno));
    } else {
        text[n] = 0;
        text[strcspn(text, "\r\n")] = 0;
        e = bt_keys_from_z85(raw, text, NULL);
        if (e < 0) (void)bt_fail(fault, e, "'%s' does not hold a key (40 Z85 characters); make one with 'baton keygen'", path);
        else memcpy(ret, text, BT_KEYS_Z85_BYTES);
    }
    sodium_memzero(text, sizeof text);
    return e;
}

static bt_err open_key(int *ret, const char *path, bt_fault *fault)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return bt_fail(fault, BT_EIO, "open '%s': %s; make keys with 'baton keygen'", path, strerror(errno));
    *ret = fd;
    return BT_OK;
}

/* The name of the one NAME.secret in dir. */
static bt_err find_only(char ret[BT_KEYS_NAME_BYTES], const char *dir, bt_fault *fault)
{
    static const char suffix[] = ".secret";
    char found[BT_KEYS_NAME_BYTES] = "", other[BT_KEYS_NAME_BYTES] = "";
    DIR *d = opendir(dir);
    if (!d) return bt_fail(fault, BT_EIO, "open '%s': %s; make keys with 'baton keygen'", dir, strerror(errno));
    for (struct dirent *e; (e = readdir(d));) {
        char name[BT_KEYS_NAME_BYTES];
        const size_t n = strlen(e->d_name), stem = n > sizeof suffix - 1 ? n - (sizeof suffix - 1) : 0;
        if (stem == 0 || stem >= sizeof name || strcmp(e->d_name + stem, suffix) != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)stem, e->d_name);
        if (bt_keys_is_name(name)) memcpy(found[0] ? other : found, name, sizeof name);
    }
    closedir(d);
    if (!found[0]) return bt_fail(fault, BT_EAUTH, "'%.160s' holds no NAME.secret; make keys with 'baton keygen'", dir);
    if (other[0])
        return bt_fail(fault, BT_EAUTH, "'%.120s' holds several secrets ('%s', '%s'): say with --key NAME which is that of this process, "
                       "and leave only it on this machine", dir, strcmp(found, other) < 0 ? found : other, strcmp(found, other) < 0 ? other : found);
    memcpy(ret, found, sizeof found);
    return BT_OK;
}

bt_err bt_keys_load(bt_keys *ret, const char *dir, const char *name, bt_fault *fault)
{
    char path[PATH_BYTES], only[BT_KEYS_NAME_BYTES];
    unsigned char sec[32], pub[32];
    bt_keys keys = { "", "" };
    struct stat st;
    int fd = -1;
    bt_err e = name ? BT_OK : find_only(only, dir, fault);
    if (e == BT_OK) e = file_path(path, dir, name ? name : only, ".secret", fault);
    if (e < 0 || (e = open_key(&fd, path, fault)) < 0) return e;
    if (fstat(fd, &st) < 0)
        e = bt_fail(fault, BT_EIO, "stat '%s': %s", path, strerror(errno));
    else if (st.st_mode & 077)
        e = bt_fail(fault, BT_EAUTH, "'%.120s' can be read by others (mode %04o); run 'chmod 600' on it", path,
                    (unsigned)(st.st_mode & 07777));
    if (e < 0 || (e = read_key(keys.secret_key, sec, fd, path, fault)) < 0) goto out;
    if (sodium_init() < 0 || crypto_scalarmult_base(pub, sec) < 0) {
        e = bt_fail(fault, BT_EIO, "libsodium cannot derive the public key");
        goto out;
    }
    bt_keys_to_z85(keys.public_key, pub);
    *ret = keys;
out:
    sodium_memzero(sec, sizeof sec);
    bt_keys_wipe(&keys);
    close(fd);
    return e;
}

/* ---- the files of a cluster ---- */

/* "NAME" or "NAME:role[,role]". */
static bt_err split(char ret_name[BT_KEYS_NAME_BYTES], const char **ret_roles, const char *spec, bt_fault *fault)
{
    const size_t n = strcspn(spec, ":");
    const bool has_roles = spec[n] == ':';
    *ret_roles = has_roles ? spec + n + 1 : NULL;
    if (n >= BT_KEYS_NAME_BYTES) return bt_fail(fault, BT_EARG, "'%.40s' is not a name for keys: 1 to 32 of a-z, 0-9 and '-'", spec);
    memcpy(ret_name, spec, n);
    ret_name[n] = 0;
    if (!bt_keys_is_name(ret_name)) return bt_fail(fault, BT_EARG, "'%.40s' is not a name for keys: 1 to 32 of a-z, 0-9 and '-'", ret_name);
    if (has_roles && !bt_peer_auth_role_list(*ret_roles, strlen(*ret_roles)))
        return bt_fail(fault, BT_EARG, "'%.60s': roles are gateway, prefill, decode, as in '%s:decode,prefill'", spec, ret_name);
    if (!has_roles && !bt_peer_auth_role_of_name(ret_name))
        return bt_fail(fault, BT_EARG, "'%s' does not start with gateway, prefill or decode: say its role, as in '%s:decode'", ret_name, ret_name);
    return BT_OK;
}

/* Everything that can be wrong is looked at before the first file is written. */
static bt_err check_specs(const char *dir, const bt_peer_allow *allow, const char *const *specs, bt_fault *fault)
{
    char path[PATH_BYTES], name[BT_KEYS_NAME_BYTES], earlier[BT_KEYS_NAME_BYTES];
    const char *roles;
    bt_err e;
    for (size_t i = 0; specs[i]; i++) {
        if (i == BT_KEYS_SPECS_MAX) return bt_fail(fault, BT_ELIMIT, "more than %d keys at once", BT_KEYS_SPECS_MAX);
        if ((e = split(name, &roles, specs[i], fault)) < 0 || (e = file_path(path, dir, name, ".secret", fault)) < 0) return e;
        if (access(path, F_OK) == 0) return bt_fail(fault, BT_EARG, "'%.160s' is there already; give another directory or name, or remove it", path);
        if (allow && bt_peer_auth_has_name(allow, name))
            return bt_fail(fault, BT_EARG, "'%.120s/allow' names '%s' already; give another name, or take out its line", dir, name);
        for (size_t k = 0; k < i; k++)
            if (split(earlier, &roles, specs[k], NULL) == BT_OK && !strcmp(earlier, name)) return bt_fail(fault, BT_EARG, "'%s' is named twice", name);
    }
    return BT_OK;
}

/* One secret, and its line for the allow file. */
static bt_err make_one(bt_buf *allow, const char *dir, const char *spec, bt_fault *fault)
{
    char path[PATH_BYTES], name[BT_KEYS_NAME_BYTES], line[BT_KEYS_Z85_BYTES + 1];
    const char *roles;
    bt_keys keys;
    bt_err e = split(name, &roles, spec, fault);
    if (e == BT_OK) e = file_path(path, dir, name, ".secret", fault);
    if (e < 0 || (e = bt_keys_make(&keys, fault)) < 0) return e;
    const int n = snprintf(line, sizeof line, "%s\n", keys.secret_key);
    e = bt_file_replace(path, line, (size_t)n, 0600, fault);
    (void)bt_buf_fmt(allow, "%s %.*s %s\n", keys.public_key, roles ? (int)strlen(roles) : (int)strcspn(name, "-"), roles ? roles : name, name);
    sodium_memzero(line, sizeof line);
    bt_keys_wipe(&keys);
    return e;
}

bt_err bt_keys_generate(const char *dir, const char *const *specs, bt_fault *fault)
{
    char path[PATH_BYTES];
    bt_peer_allow *allow = NULL;
    bt_buf text;
    bt_buf_init(&text, 1 << 20);
    bt_err e = file_path(path, dir, "allow", "", fault);
    const bool has_allow = e == BT_OK && access(path, F_OK) == 0;
    if (e == BT_OK && has_allow) e = bt_peer_auth_load(&allow, dir, fault);
    if (e == BT_OK && has_allow) e = bt_file_read(&text, path, fault);
    if (e == BT_OK) e = check_specs(dir, allow, specs, fault);
    if (e == BT_OK && mkdir(dir, 0700) < 0 && errno != EEXIST) e = bt_fail(fault, BT_EIO, "mkdir '%s': %s", dir, strerror(errno));
    if (e == BT_OK && !has_allow) e = bt_peer_auth_check_writers(dir, fault);
    if (!has_allow) (void)bt_buf_str(&text, "# who may connect: public key, roles, name\n");
    else if (text.len && text.data[text.len - 1] != '\n') (void)bt_buf_str(&text, "\n");
    for (; *specs && e == BT_OK; specs++) e = make_one(&text, dir, *specs, fault);
    if (e == BT_OK && text.err < 0) e = bt_fail(fault, text.err, "the allow list is too long");
    if (e == BT_OK) e = bt_file_replace(path, text.data, text.len, 0644, fault);
    bt_peer_auth_free(allow);
    bt_buf_done(&text);
    return e;
}
