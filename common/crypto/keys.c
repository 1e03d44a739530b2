/* Key pairs and their files. Secrets stay in buffers that are wiped on every way out. */
#include "crypto/keys.h"
#include "base/buf.h"
#include "base/file.h"
#include "crypto/peer_auth.h"

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

bt_err bt_keys_load(bt_keys *ret, const char *dir, const char *name, bt_fault *fault)
{
    char path[PATH_BYTES];
    unsigned char sec[32], pub[32];
    bt_keys keys = { "", "" };
    struct stat st;
    int fd = -1;
    bt_err e = file_path(path, dir, name, ".secret", fault);
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

bt_err bt_keys_load_public(char ret[BT_KEYS_Z85_BYTES], const char *dir, const char *name, bt_fault *fault)
{
    char path[PATH_BYTES];
    unsigned char raw[32];
    int fd = -1;
    bt_err e = file_path(path, dir, name, ".public", fault);
    if (e < 0 || (e = open_key(&fd, path, fault)) < 0) return e;
    e = read_key(ret, raw, fd, path, fault);
    close(fd);
    return e;
}

static bt_err write_line(const char *path, const char *key, unsigned mode, bt_fault *fault)
{
    char line[BT_KEYS_Z85_BYTES + 1];
    const int n = snprintf(line, sizeof line, "%s\n", key);
    const bt_err e = bt_file_replace(path, line, (size_t)n, mode, fault);
    sodium_memzero(line, sizeof line);
    return e;
}

bt_err bt_keys_save(const bt_keys *keys, const char *dir, const char *name, bt_fault *fault)
{
    char path[PATH_BYTES];
    bt_err e = file_path(path, dir, name, ".secret", fault);
    if (e == BT_OK) e = write_line(path, keys->secret_key, 0600, fault);
    if (e == BT_OK) e = file_path(path, dir, name, ".public", fault);
    if (e == BT_OK) e = write_line(path, keys->public_key, 0644, fault);
    return e;
}

static bt_err refuse_existing(const char *path, bt_fault *fault)
{
    if (access(path, F_OK) == 0)
        return bt_fail(fault, BT_EARG, "'%.160s' is there already; give another directory or remove it", path);
    return BT_OK;
}

/* Everything that can be wrong is looked at before the first file is written. */
static bt_err check_names(const char *dir, const char *const *names, bt_fault *fault)
{
    char path[PATH_BYTES];
    bt_err e = file_path(path, dir, "allow", "", fault);
    if (e == BT_OK) e = refuse_existing(path, fault);
    for (; *names && e == BT_OK; names++) {
        if (!bt_peer_auth_role_of_name(*names))
            e = bt_fail(fault, BT_EARG, "'%.40s': a name starts with gateway, prefill or decode, as in 'prefill-2'", *names);
        if (e == BT_OK) e = file_path(path, dir, *names, ".secret", fault);
        if (e == BT_OK) e = refuse_existing(path, fault);
        if (e == BT_OK) e = file_path(path, dir, *names, ".public", fault);
        if (e == BT_OK) e = refuse_existing(path, fault);
    }
    return e;
}

bt_err bt_keys_generate(const char *dir, const char *const *names, bt_fault *fault)
{
    char path[PATH_BYTES];
    bt_buf allow;
    bt_buf_init(&allow, 1 << 20);
    bt_err e = check_names(dir, names, fault);
    if (e == BT_OK && mkdir(dir, 0700) < 0 && errno != EEXIST)
        e = bt_fail(fault, BT_EIO, "mkdir '%s': %s", dir, strerror(errno));
    (void)bt_buf_str(&allow, "# who may connect: public key, roles, name\n");
    for (; *names && e == BT_OK; names++) {
        bt_keys keys;
        if ((e = bt_keys_make(&keys, fault)) < 0) break;
        e = bt_keys_save(&keys, dir, *names, fault);
        (void)bt_buf_fmt(&allow, "%s %.*s %s\n", keys.public_key, (int)strcspn(*names, "-"), *names, *names);
        bt_keys_wipe(&keys);
    }
    if (e == BT_OK && allow.err < 0) e = bt_fail(fault, allow.err, "the allow list is too long");
    if (e == BT_OK) e = file_path(path, dir, "allow", "", fault);
    if (e == BT_OK) e = bt_file_replace(path, allow.data, allow.len, 0644, fault);
    bt_buf_done(&allow);
    return e;
}
