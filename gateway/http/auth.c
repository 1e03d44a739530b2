/* API keys from a file. */
#include "gateway/http/auth.h"
#include "crypto/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

struct gw_auth {
    size_t len;
    char text[GW_AUTH_MAX_FILE_BYTES + 1]; /* the file, its line ends made 0 */
};

static bt_err check_lines(gw_auth *a, const char *path, bt_fault *fault)
{
    size_t keys = 0, line = 1;
    for (size_t i = 0; i < a->len; line++) {
        char *begin = a->text + i;
        char *end = memchr(begin, '\n', a->len - i);
        if (!end) end = a->text + a->len;
        i = (size_t)(end - a->text) + 1;
        *end = 0;
        if (end > begin && end[-1] == '\r') *--end = 0;
        if (*begin == '#') memset(begin, 0, (size_t)(end - begin));
        for (const char *c = begin; c < end; c++)
            if (*begin && (*c <= ' ' || *c > '~'))
                return bt_fail(fault, BT_EFORMAT, "'%s', line %zu: a key has printable characters only", path,
                               line);
        if (end - begin > GW_AUTH_MAX_KEY_BYTES)
            return bt_fail(fault, BT_EFORMAT, "'%s', line %zu: a key has at most %d characters", path, line,
                           GW_AUTH_MAX_KEY_BYTES);
        keys += *begin != 0;
    }
    return keys ? BT_OK : bt_fail(fault, BT_EFORMAT, "'%s' holds no key: write one a line", path);
}

static bt_err read_file(gw_auth *a, const char *path, int fd, bt_fault *fault)
{
    struct stat st;
    if (fstat(fd, &st) < 0) return bt_fail(fault, BT_EIO, "cannot look at '%s': %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return bt_fail(fault, BT_EARG, "'%s' is not a regular file", path);
    if (st.st_mode & (S_IRWXO | S_IWGRP))
        return bt_fail(fault, BT_EAUTH, "'%s' can be read by others; run 'chmod 600' on it", path);
    for (;;) {
        const ssize_t n = read(fd, a->text + a->len, sizeof a->text - a->len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return bt_fail(fault, BT_EIO, "cannot read '%s': %s", path, strerror(errno));
        if (n == 0) break;
        a->len += (size_t)n;
        if (a->len > GW_AUTH_MAX_FILE_BYTES)
            return bt_fail(fault, BT_ELIMIT, "'%s' has more than %d bytes, the limit", path,
                           GW_AUTH_MAX_FILE_BYTES);
    }
    return check_lines(a, path, fault);
}

bt_err gw_auth_load(gw_auth **ret, const char *path, bt_fault *fault)
{
    gw_auth *a = calloc(1, sizeof *a);
    if (!a) return bt_fail(fault, BT_ENOMEM, "out of memory for API keys");
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bt_err e = fd < 0 ? bt_fail(fault, BT_EIO, "cannot open '%s': %s", path, strerror(errno))
                            : read_file(a, path, fd, fault);
    if (fd >= 0) (void)close(fd);
    if (e < 0) {
        gw_auth_free(a);
        return e;
    }
    *ret = a;
    return BT_OK;
}

void gw_auth_free(gw_auth *a)
{
    if (!a) return;
    bt_secret_wipe(a, sizeof *a);
    free(a);
}

bool gw_auth_allows(const gw_auth *a, const char *authorization)
{
    if (!a) return true;
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0) return false;
    const char *given = authorization + 7;
    char padded[GW_AUTH_MAX_KEY_BYTES + 1] = {0};
    const size_t n = strlen(given);
    if (n == 0 || n > GW_AUTH_MAX_KEY_BYTES) return false;
    memcpy(padded, given, n);
    bool is_known = false;
    for (size_t i = 0; i < a->len;) {
        const size_t len = strlen(a->text + i);
        char key[GW_AUTH_MAX_KEY_BYTES + 1] = {0};
        memcpy(key, a->text + i, len);
        /* Equal lengths are compared in full: no early end at the first difference. */
        is_known |= len > 0 && bt_secret_equal(key, padded, sizeof key);
        bt_secret_wipe(key, sizeof key);
        i += len + 1;
    }
    bt_secret_wipe(padded, sizeof padded);
    return is_known;
}
