/* Key pairs and the files of secrets. Secrets stay in buffers that are wiped on every way out. */
#include "crypto/keys.h"
#include "base/opt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h> /* for Z85 only */

_Static_assert(crypto_box_PUBLICKEYBYTES == 32 && crypto_box_SECRETKEYBYTES == 32,
               "CURVE keys have 32 bytes");

static const bt_opt opts[] = {
    {.group = "Network", .name = "keys", .value = "DIR", .type = BT_OPT_STRING, .holds = BT_OPT_HOLDS_SECRET,
     .example = "keys",
     .help = "CURVE keys made by 'baton keygen'; needed for any address that is not loopback or ipc"},
    {.group = "Network", .name = "key", .value = "NAME", .type = BT_OPT_STRING, .example = "decode-0",
     .help = "which NAME.secret of --keys is this program's; without it the only one"},
};
const bt_opt_group bt_keys_opts = BT_OPT_GROUP(opts);

void bt_keys_to_z85(char ret[BT_KEYS_Z85_BYTES], const unsigned char key[32])
{
    (void)zmq_z85_encode(ret, key, 32);
}

bt_err bt_keys_from_z85(unsigned char ret[32], const char *text, bt_fault *fault)
{
    static const char alphabet[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    unsigned char key[32];
    bt_err e = BT_OK;
    if (strlen(text) != 40 || strspn(text, alphabet) != 40 || !zmq_z85_decode(key, text))
        e = bt_fail(fault, BT_EFORMAT, "not a key of 40 Z85 characters");
    else memcpy(ret, key, 32);
    sodium_memzero(key, sizeof key);
    return e;
}

bt_err bt_keys_make(bt_keys *ret, bt_fault *fault)
{
    unsigned char pub[32], sec[32];
    if (sodium_init() < 0) return bt_fail(fault, BT_EIO, "libsodium cannot start");
    if (crypto_box_keypair(pub, sec) < 0) return bt_fail(fault, BT_EIO, "libsodium cannot make a key pair");
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
    return n >= 1 && n < BT_KEYS_NAME_BYTES && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n &&
           name[0] != '-';
}

bt_err bt_keys_path(char ret[BT_KEYS_PATH_BYTES], const char *dir, const char *name, const char *suffix,
                    bt_fault *fault)
{
    if (!bt_keys_is_name(name))
        return bt_fail(fault, BT_EARG, "'%.40s' is not a name for keys: 1 to 32 of a-z, 0-9 and '-'", name);
    if ((size_t)snprintf(ret, BT_KEYS_PATH_BYTES, "%s/%s%s", dir, name, suffix) >= BT_KEYS_PATH_BYTES)
        return bt_fail(fault, BT_EARG,
                       "the path '%.100s...' of the key directory is too long: with the name of a key it has "
                       "%d bytes at most",
                       dir, BT_KEYS_PATH_BYTES - 1);
    return BT_OK;
}

/* One line of 40 characters from an open file. */
static bt_err read_key(char ret[BT_KEYS_Z85_BYTES], unsigned char raw[32], int fd, const char *path,
                       bt_fault *fault)
{
    char text[64];
    const ssize_t n = read(fd, text, sizeof text - 1);
    bt_err e = BT_OK;
    if (n < 0) {
        e = bt_fail(fault, BT_EIO, "cannot read '%s': %s", path, strerror(errno));
    } else {
        text[n] = 0;
        text[strcspn(text, "\r\n")] = 0;
        e = bt_keys_from_z85(raw, text, NULL);
        if (e < 0)
            (void)bt_fail(fault, e,
                          "'%s' does not hold a key (40 Z85 characters); make one with 'baton keygen'", path);
        else memcpy(ret, text, BT_KEYS_Z85_BYTES);
    }
    sodium_memzero(text, sizeof text);
    return e;
}

static bt_err open_key(int *ret, const char *path, bt_fault *fault)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return bt_fail(fault, BT_EIO, "cannot open '%s': %s; make keys with 'baton keygen'", path,
                       strerror(errno));
    *ret = fd;
    return BT_OK;
}

bt_err bt_keys_find(char ret[BT_KEYS_NAME_BYTES], const char *dir, bt_fault *fault)
{
    static const char suffix[] = ".secret";
    char found[BT_KEYS_NAME_BYTES] = "", other[BT_KEYS_NAME_BYTES] = "";
    DIR *d = opendir(dir);
    if (!d)
        return bt_fail(fault, BT_EIO, "cannot open '%s': %s; make keys with 'baton keygen'", dir,
                       strerror(errno));
    for (struct dirent *e; (e = readdir(d));) {
        char name[BT_KEYS_NAME_BYTES];
        const size_t n = strlen(e->d_name), stem = n > sizeof suffix - 1 ? n - (sizeof suffix - 1) : 0;
        if (stem == 0 || stem >= sizeof name || strcmp(e->d_name + stem, suffix) != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)stem, e->d_name);
        if (bt_keys_is_name(name)) memcpy(found[0] ? other : found, name, sizeof name);
    }
    closedir(d);
    if (!found[0])
        return bt_fail(fault, BT_EAUTH, "'%.160s' holds no NAME.secret; make keys with 'baton keygen'", dir);
    if (other[0])
        return bt_fail(
            fault, BT_EAUTH,
            "'%.120s' holds several secrets ('%s', '%s'): say with --key NAME which is that of this process, "
            "and leave only it on this machine",
            dir, strcmp(found, other) < 0 ? found : other, strcmp(found, other) < 0 ? other : found);
    memcpy(ret, found, sizeof found);
    return BT_OK;
}

/* The secret of a file that nobody else can read, as text and as bytes. */
static bt_err load_secret(char ret_text[BT_KEYS_Z85_BYTES], unsigned char ret[32], const char *path,
                          bt_fault *fault)
{
    struct stat st;
    int fd = -1;
    bt_err e = open_key(&fd, path, fault);
    if (e < 0) return e;
    if (fstat(fd, &st) < 0) e = bt_fail(fault, BT_EIO, "cannot look at '%s': %s", path, strerror(errno));
    else if (st.st_mode & 077)
        e = bt_fail(fault, BT_EAUTH, "'%.120s' can be read by others (mode %04o); run 'chmod 600' on it",
                    path, (unsigned)(st.st_mode & 07777));
    if (e == BT_OK) e = read_key(ret_text, ret, fd, path, fault);
    close(fd);
    return e;
}

bt_err bt_keys_load(bt_keys *ret, const char *dir, const char *name, bt_fault *fault)
{
    char path[BT_KEYS_PATH_BYTES], only[BT_KEYS_NAME_BYTES];
    unsigned char sec[32], pub[32];
    bt_keys keys = {"", ""};
    bt_err e = name ? BT_OK : bt_keys_find(only, dir, fault);
    if (e == BT_OK) e = bt_keys_path(path, dir, name ? name : only, ".secret", fault);
    if (e < 0) return e;
    e = load_secret(keys.secret_key, sec, path, fault);
    if (e == BT_OK && (sodium_init() < 0 || crypto_scalarmult_base(pub, sec) < 0))
        e = bt_fail(fault, BT_EIO, "libsodium cannot derive the public key");
    if (e == BT_OK) {
        bt_keys_to_z85(keys.public_key, pub);
        *ret = keys;
    }
    sodium_memzero(sec, sizeof sec);
    bt_keys_wipe(&keys);
    return e;
}

bt_err bt_keys_load_salt(unsigned char ret[32], bool *ret_is_there, const char *dir, bt_fault *fault)
{
    char path[BT_KEYS_PATH_BYTES], text[BT_KEYS_Z85_BYTES];
    bt_err e = bt_keys_path(path, dir, "salt", "", fault);
    if (e < 0) return e;
    *ret_is_there = access(path, F_OK) == 0 || errno != ENOENT;
    if (!*ret_is_there) return BT_OK;
    e = load_secret(text, ret, path, fault);
    sodium_memzero(text, sizeof text);
    return e;
}
