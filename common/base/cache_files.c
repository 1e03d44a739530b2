/* The files of the cache: the list of files, what they are, who uses them, and which are deleted when there
 * are too many.
 */
#include "base/cache_files.h"
#include "base/file.h"
#include "base/num.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PATH = 4096, TEMP_CHARS = 7 /* ".XXXXXX" of base/file.h */ };

#define ADVICE "Set BATON_CACHE_DIR"
const bt_cache_kind bt_cache_files_packages = {
    .folder = "packages",
    .suffix = ".bpk",
    .what = "package",
    .advice = ADVICE ", or use 'baton compile -o FILE' and '--package FILE'",
};
const bt_cache_kind bt_cache_files_weights = {.folder = "weights", .suffix = ".btw", .what = "weights",
                                              .advice = ADVICE};
/* 1: of the rule in model/model_id.c; a new rule needs another. */
const bt_cache_kind bt_cache_files_ids = {.folder = "ids", .suffix = ".id1", .what = "model id",
                                          .advice = ADVICE, .max_bytes = 1 << 20};
const bt_cache_kind bt_cache_files_checked = {.folder = "checked", .suffix = ".ok1",
                                              .what = "mark of a checked file", .advice = ADVICE,
                                              .max_bytes = 1 << 20};
/* 1: of the form of an answer (tools/search/auto.h). */
const bt_cache_kind bt_cache_files_recipes = {.folder = "recipes", .suffix = ".rc1", .what = "found recipe",
                                              .advice = ADVICE, .max_bytes = 4 << 20};
const bt_cache_kind *const bt_cache_files_kinds[] = {&bt_cache_files_packages, &bt_cache_files_weights,
                                                     &bt_cache_files_ids,      &bt_cache_files_checked,
                                                     &bt_cache_files_recipes,  NULL};

static struct {
    uint64_t bytes;
    bt_cache_gone_fn *gone;
    void *ud;
} limit = {BT_CACHE_FILES_LIMIT, NULL, NULL};

void bt_cache_files_setup(uint64_t limit_bytes, bt_cache_gone_fn *gone, void *ud)
{
    limit.bytes = limit_bytes;
    limit.gone = gone;
    limit.ud = ud;
}

uint64_t bt_cache_files_limit(void) { return limit.bytes; }

bt_err bt_cache_files_dir(char *ret, size_t cap, const bt_cache_kind *kind, bt_fault *fault)
{
    const char *own = getenv("BATON_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *slash = kind ? "/" : "", *folder = kind ? kind->folder : "",
               *what = kind ? kind->what : "cache";
    int n;
    if (own && *own) n = snprintf(ret, cap, "%s%s%s", own, slash, folder);
    else if (cache && *cache) n = snprintf(ret, cap, "%s/baton%s%s", cache, slash, folder);
    else if (home && *home) n = snprintf(ret, cap, "%s/.cache/baton%s%s", home, slash, folder);
    else
        return bt_fail(fault, BT_EIO,
                       "no place for a %s: none of BATON_CACHE_DIR, XDG_CACHE_HOME and HOME is set", what);
    return n >= 0 && (size_t)n < cap
               ? BT_OK
               : bt_fail(fault, BT_EIO, "the path of the %s cache has %d bytes; at most %zu are allowed",
                         what, n, cap - 1);
}

bool bt_cache_files_is_key(const char *key)
{
    return strlen(key) == BT_CACHE_KEY_CHARS && strspn(key, "0123456789abcdef") == BT_CACHE_KEY_CHARS;
}

/* ---- locks and their words ---- */

int bt_cache_files_lock(const char *path) { return bt_file_lock(path, 0644, false); }

void bt_cache_files_write_words(int lock, const char *model, const char *recipe)
{
    char text[2 * BT_CACHE_WORDS_BYTES + 4];
    if (!model && !recipe) return;
    const int n = snprintf(text, sizeof text, "%.*s\n%.*s\n", BT_CACHE_WORDS_BYTES, model ? model : "",
                           BT_CACHE_WORDS_BYTES, recipe ? recipe : "");
    /* Only people read them: a full disk shows elsewhere. */
    if (ftruncate(lock, 0) == 0 && n > 0) (void)!pwrite(lock, text, (size_t)n, 0);
}

static void lock_path(char *ret, size_t cap, const bt_cache_file *f)
{
    const char *slash = strrchr(f->path, '/');
    snprintf(ret, cap, "%.*s/%s.lock", (int)(slash - f->path), f->path, f->key);
}

/* One line of the file, cut; anybody may have written it. */
static const char *take_line(char ret[BT_CACHE_WORDS_BYTES], const char *text)
{
    size_t n = 0;
    for (; *text && *text != '\n'; text++)
        if (n + 1 < BT_CACHE_WORDS_BYTES) ret[n++] = *text >= ' ' && *text <= '~' ? *text : '?';
    ret[n] = '\0';
    return *text ? text + 1 : text;
}

static void look_at_lock(bt_cache_file *f)
{
    char path[MAX_PATH + 64], text[2 * BT_CACHE_WORDS_BYTES + 4];
    struct stat st;
    lock_path(path, sizeof path, f);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        const ssize_t n = read(fd, text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        (void)take_line(f->recipe, take_line(f->model, text));
        f->is_locked = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    }
    close(fd);
}

/* ---- who uses them ---- */

typedef struct marking {
    bt_cache_list *l;
    char **real;
} marking;

/* Marks the file with this path. */
static void mark_path(void *ud, const char *path)
{
    const marking *m = ud;
    const char *slash = strrchr(path, '/');
    if (strspn(slash + 1, "0123456789abcdef") != BT_CACHE_KEY_CHARS) return; /* most lines: none of ours */
    for (size_t i = 0; i < m->l->count; i++)
        if (m->real[i] && strcmp(m->real[i], path) == 0) m->l->file[i].is_mapped = true;
}

static void look_at_processes(bt_cache_list *l)
{
    const marking m = {l, calloc(l->count ? l->count : 1, sizeof(char *))};
    if (!m.real) return;
    for (size_t i = 0; i < l->count; i++) m.real[i] = realpath(l->file[i].path, NULL);
    bt_file_each_mapped(mark_path, (void *)(uintptr_t)&m);
    for (size_t i = 0; i < l->count; i++) free(m.real[i]);
    free(m.real);
}

void bt_cache_files_look(bt_cache_list *l)
{
    for (size_t i = 0; i < l->count; i++) look_at_lock(&l->file[i]);
    look_at_processes(l);
}

/* ---- listing ---- */

static bool is_temp(const char *s) /* ".XXXXXX" */
{
    size_t n = 1;
    while (n < TEMP_CHARS && isalnum((unsigned char)s[n])) n++;
    return s[0] == '.' && n == TEMP_CHARS && s[n] == '\0';
}

/* Whether a name is one of this kind; its key to ret->key. */
static bool take_name(bt_cache_file *ret, const char *name, const bt_cache_kind *kind)
{
    const size_t suffix = strlen(kind->suffix);
    if (strlen(name) < BT_CACHE_KEY_CHARS + suffix) return false;
    memcpy(ret->key, name, BT_CACHE_KEY_CHARS);
    const char *rest = name + BT_CACHE_KEY_CHARS;
    if (!bt_cache_files_is_key(ret->key) || strncmp(rest, kind->suffix, suffix) != 0) return false;
    ret->is_half_made = rest[suffix] != '\0';
    return !ret->is_half_made || is_temp(rest + suffix);
}

static bool grow(bt_cache_list *l)
{
    if (l->count < l->room) return true;
    const size_t room = l->room ? 2 * l->room : 64;
    bt_cache_file *file = realloc(l->file, room * sizeof *file);
    if (!file) return false;
    l->file = file;
    l->room = room;
    return true;
}

/* The later of the times of the file and of its lock. */
static void take_used(bt_cache_file *f, const struct stat *file)
{
    char path[MAX_PATH + 64];
    struct stat lock;
    struct timespec t = file->st_mtim;
    lock_path(path, sizeof path, f);
    if (lstat(path, &lock) == 0 && (lock.st_mtim.tv_sec > t.tv_sec ||
                                    (lock.st_mtim.tv_sec == t.tv_sec && lock.st_mtim.tv_nsec > t.tv_nsec)))
        t = lock.st_mtim;
    f->used_s = t.tv_sec;
    f->used_ns = t.tv_nsec;
}

void bt_cache_files_add(bt_cache_list *l, const char *dir, const bt_cache_kind *kind)
{
    DIR *d = opendir(dir);
    size_t n = 0;
    for (struct dirent *e; d && n < BT_CACHE_MAX_FILES && (e = readdir(d)); n++) {
        char path[MAX_PATH + 300];
        struct stat st;
        bt_cache_file f = {.kind = kind};
        if (!take_name(&f, e->d_name, kind)) continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode)) continue;
        if (!grow(l)) break;
        bt_cache_file *to = &l->file[l->count];
        *to = f;
        if (!(to->path = strdup(path))) break;
        to->bytes = (uint64_t)st.st_size;
        take_used(to, &st);
        l->count++;
    }
    if (d) closedir(d);
}

void bt_cache_files_add_all(bt_cache_list *l)
{
    char dir[MAX_PATH];
    for (const bt_cache_kind *const *k = bt_cache_files_kinds; *k; k++)
        if (bt_cache_files_dir(dir, sizeof dir, *k, NULL) == BT_OK) bt_cache_files_add(l, dir, *k);
}

void bt_cache_files_done(bt_cache_list *l)
{
    for (size_t i = 0; i < l->count; i++) free(l->file[i].path);
    free(l->file);
    *l = (bt_cache_list){NULL, 0, 0};
}

void bt_cache_files_words(char *ret, size_t cap, const bt_cache_file *f)
{
    char size[32];
    bt_num_size_text(size, sizeof size, f->bytes);
    snprintf(ret, cap, "%s of %s%s%s (%s)", f->kind->what, f->model[0] ? f->model : f->key,
             f->recipe[0] ? ", " : "", f->recipe, size);
}

/* ---- deleting ---- */

enum { RETRY_MS = 10 };

/* *ret_other: somebody else has deleted it, and there was nothing to do. */
static bool delete (const bt_cache_file *f, bool *ret_other)
{
    char path[MAX_PATH + 64];
    lock_path(path, sizeof path, f);
    int lock = bt_cache_files_lock(path);
    if (lock < 0 && errno == EWOULDBLOCK) { /* perhaps for the moment of somebody's look */
        (void)poll(NULL, 0, RETRY_MS);
        lock = bt_cache_files_lock(path);
    }
    if (lock < 0) return false;
    const bool was_there = unlink(f->path) == 0, is_gone = was_there || errno == ENOENT;
    *ret_other = is_gone && !was_there;
    char whole[MAX_PATH + 300];
    snprintf(whole, sizeof whole, "%.*s", (int)strlen(f->path) - (f->is_half_made ? TEMP_CHARS : 0), f->path);
    if (access(whole, F_OK) < 0) (void)unlink(path); /* else its lock still has words for it */
    close(lock);
    return is_gone;
}

bool bt_cache_files_delete(const bt_cache_file *f)
{
    bool is_other;
    return delete (f, &is_other);
}

void bt_cache_files_drop_half_made(const char *dir, const bt_cache_kind *kind, const char *key)
{
    bt_cache_list l = {NULL, 0, 0};
    bt_cache_files_add(&l, dir, kind);
    for (size_t i = 0; i < l.count; i++)
        if (l.file[i].is_half_made && strcmp(l.file[i].key, key) == 0) (void)unlink(l.file[i].path);
    bt_cache_files_done(&l);
}

static int longest_ago_first(const void *a, const void *b)
{
    const bt_cache_file *x = a, *y = b;
    if (x->used_s != y->used_s) return x->used_s < y->used_s ? -1 : 1;
    if (x->used_ns != y->used_ns) return x->used_ns < y->used_ns ? -1 : 1;
    return strcmp(x->path, y->path);
}

static void tell_gone(const bt_cache_file *f)
{
    char words[300], size[32], text[400];
    if (!limit.gone) return;
    bt_cache_files_words(words, sizeof words, f);
    bt_num_size_text(size, sizeof size, limit.bytes);
    snprintf(text, sizeof text, "removed from the cache, which holds at most %s: %s", size, words);
    limit.gone(limit.ud, text);
}

void bt_cache_files_trim(bt_cache_list *l, uint64_t max_bytes, const char *keep_path)
{
    uint64_t total = 0;
    for (size_t i = 0; i < l->count; i++) total += l->file[i].bytes;
    if (l->count) qsort(l->file, l->count, sizeof *l->file, longest_ago_first);
    for (size_t i = 0; i < l->count; i++) {
        const bt_cache_file *f = &l->file[i];
        if ((keep_path && strcmp(f->path, keep_path) == 0) || f->is_mapped) continue;
        if (total <= max_bytes && !f->is_half_made) continue;
        bool is_other;
        if (!delete (f, &is_other)) continue;
        total -= f->bytes;
        if (!f->is_half_made && !is_other) tell_gone(f);
    }
}
