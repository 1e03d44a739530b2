/* See history.h. Each entry is one write under a lock; the older half is dropped by replacing the file, under
 * the same lock. */
#include "tools/chat/history.h"
#include "base/buf.h"
#include "base/file.h"
#include "text/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PATH = 4096 };

bt_err tool_history_path(char *ret, size_t cap, bt_fault *fault)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n;
    if (state && state[0] == '/') n = snprintf(ret, cap, "%s/baton/chat_history", state);
    else if (home && *home) n = snprintf(ret, cap, "%s/.local/state/baton/chat_history", home);
    else return bt_fail(fault, BT_EIO, "no place for a history: neither XDG_STATE_HOME nor HOME is set");
    return n >= 0 && (size_t)n < cap
               ? BT_OK
               : bt_fail(fault, BT_EIO, "the path of the history has %d bytes; at most %zu are allowed", n,
                         cap - 1);
}

static void add_escaped(bt_buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\\') (void)bt_buf_str(out, "\\\\");
        else if (text[i] == '\n') (void)bt_buf_str(out, "\\n");
        else (void)bt_buf_byte(out, (uint8_t)text[i]);
    }
    (void)bt_buf_byte(out, '\n'); /* the error stays in the buffer */
}

/* One line without its end, which holds no NUL. */
static void hand_out(bt_buf *entry, const char *line, size_t len, void (*fn)(void *, const char *, size_t),
                     void *ud)
{
    bt_buf_clear(entry);
    for (size_t i = 0; i < len; i++) {
        const bool is_escape = line[i] == '\\' && i + 1 < len;
        if (is_escape) i++;
        (void)bt_buf_byte(entry, is_escape && line[i] == 'n' ? '\n' : (uint8_t)line[i]);
    }
    if (entry->err == BT_OK && entry->len > 0) fn(ud, bt_buf_text(entry), entry->len);
}

bt_err tool_history_load(const char *path, void (*fn)(void *ud, const char *text, size_t len), void *ud,
                         bt_fault *fault)
{
    bt_buf file, entry;
    if (access(path, F_OK) < 0 && errno == ENOENT) return BT_OK;
    bt_buf_init(&file, TOOL_HISTORY_MAX_BYTES);
    bt_buf_init(&entry, TOOL_HISTORY_MAX_ENTRY_BYTES);
    const bt_err e = bt_file_read(&file, path, fault);
    const char *at = bt_buf_text(&file), *end = at + file.len;
    for (const char *nl; e == BT_OK && (nl = memchr(at, '\n', (size_t)(end - at))); at = nl + 1) {
        const size_t len = (size_t)(nl - at);
        if (bt_utf8_valid(at, len, NULL) && !memchr(at, 0, len)) hand_out(&entry, at, len, fn, ud);
    }
    bt_buf_done(&entry);
    bt_buf_done(&file);
    return e;
}

/* Makes the folders above the file; opening the file shows whether that worked. */
static void make_folders(const char *path)
{
    char folder[MAX_PATH];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *p = folder + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        (void)mkdir(folder, 0700);
        *p = '/';
    }
}

/* The file, locked, or -1 with errno. Only its owner may read it. */
static int open_locked(const char *path)
{
    const int fd = bt_file_lock(path, 0600, true);
    if (fd >= 0) (void)fchmod(fd, 0600);
    return fd;
}

/* The newest lines, at most half of the limit, and then the new one. */
static bt_err drop_older_half(const char *path, const bt_buf *line, bt_fault *fault)
{
    bt_buf file;
    bt_buf_init(&file, 2 * TOOL_HISTORY_MAX_BYTES);
    bt_err e = bt_file_read(&file, path, fault);
    if (e == BT_ELIMIT) bt_buf_clear(&file); /* this program did not write it */
    if (e == BT_OK && file.len > TOOL_HISTORY_MAX_BYTES / 2) {
        const size_t from = file.len - TOOL_HISTORY_MAX_BYTES / 2;
        const uint8_t *nl = memchr(file.data + from, '\n', file.len - from);
        bt_buf_drop_front(&file, nl ? (size_t)(nl + 1 - file.data) : file.len);
    }
    if (e == BT_OK || e == BT_ELIMIT) {
        (void)bt_buf_add(&file, line->data, line->len); /* the error stays in the buffer */
        e = file.err < 0 ? bt_fail(fault, file.err, "the history cannot be kept: %s", bt_err_name(file.err))
                         : bt_file_replace(path, file.data, file.len, 0600, fault);
    }
    bt_buf_done(&file);
    return e;
}

/* Appends all of the line, or takes back what was written: half a line would spoil the next one too. */
static bt_err append(int fd, const char *path, const bt_buf *line, off_t old_bytes, bt_fault *fault)
{
    ssize_t n;
    while ((n = pwrite(fd, line->data, line->len, old_bytes)) < 0 && errno == EINTR) {}
    if (n == (ssize_t)line->len) return BT_OK;
    const int error = n < 0 ? errno : ENOSPC;
    if (n > 0) (void)!ftruncate(fd, old_bytes);
    return bt_fail(fault, BT_EIO, "cannot write '%s': %s", path, strerror(error));
}

bt_err tool_history_add(const char *path, const char *text, size_t len, bt_fault *fault)
{
    bt_buf line;
    struct stat st;
    bt_err e = BT_OK;
    if (len > TOOL_HISTORY_MAX_ENTRY_BYTES) return BT_OK;
    bt_buf_init(&line, 2 * TOOL_HISTORY_MAX_ENTRY_BYTES + 1);
    add_escaped(&line, text, len);
    int fd = open_locked(path);
    if (fd < 0 && errno == ENOENT) {
        make_folders(path);
        fd = open_locked(path);
    }
    if (line.err < 0)
        e = bt_fail(fault, line.err, "the line cannot be kept in the history: %s", bt_err_name(line.err));
    else if (fd < 0 || fstat(fd, &st) < 0)
        e = bt_fail(fault, BT_EIO, "cannot open '%s': %s", path, strerror(errno));
    else if ((size_t)st.st_size + line.len > TOOL_HISTORY_MAX_BYTES) e = drop_older_half(path, &line, fault);
    else e = append(fd, path, &line, st.st_size, fault);
    if (fd >= 0) close(fd);
    bt_buf_done(&line);
    return e;
}
