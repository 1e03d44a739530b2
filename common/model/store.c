/* Where models lie that are called by name. */
#include "model/store.h"
#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PATH = 4096 };

bt_err bt_store_path(char *ret, size_t cap, const char *name, const char *ending, bt_fault *fault)
{
    const char *dir = getenv("BATON_MODEL_DIR"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *slash = *name || *ending ? "/" : "";
    int n;
    if (dir && *dir) n = snprintf(ret, cap, "%s%s%s%s", dir, slash, name, ending);
    else if (cache && *cache) n = snprintf(ret, cap, "%s/baton%s%s%s", cache, slash, name, ending);
    else if (home && *home) n = snprintf(ret, cap, "%s/.cache/baton%s%s%s", home, slash, name, ending);
    else
        return bt_fail(fault, BT_EIO,
                       "no place for models: none of BATON_MODEL_DIR, XDG_CACHE_HOME and HOME is set");
    if (n < 0 || (size_t)n >= cap)
        return bt_fail(fault, BT_ELIMIT, "the path of model %.60s is too long", name);
    return BT_OK;
}

bt_err bt_store_dir(char *ret, size_t cap, bt_fault *fault) { return bt_store_path(ret, cap, "", "", fault); }

static bool ends_with_gguf(const char *s)
{
    const size_t n = strlen(s);
    return n > 5 && strcmp(s + n - 5, ".gguf") == 0;
}

bt_err bt_store_resolve(char *ret, size_t cap, bool *ret_known, const char *name, bt_fault *fault)
{
    bt_known_table t;
    bt_err e = bt_known_load(&t, NULL, fault);
    if (e < 0) return e;
    const bt_known *m = bt_known_find(&t, name);
    if (ret_known) *ret_known = m;
    if (m) {
        e = bt_store_path(ret, cap, m->file, "", fault);
    } else if (bt_known_is_file_name(name) && !ends_with_gguf(name) && access(name, F_OK) < 0) {
        e = bt_store_path(ret, cap, name, ".gguf", fault);
    } else {
        const int n = snprintf(ret, cap, "%s", name);
        if (n < 0 || (size_t)n >= cap)
            e = bt_fail(fault, BT_ELIMIT, "the path of model %.60s is too long", name);
    }
    bt_known_done(&t);
    return e;
}

bool bt_store_name_of(char ret[BT_KNOWN_MAX_NAME + 1], const char *path)
{
    bt_known_table t;
    char known[MAX_PATH];
    bool is_found = false;
    if (bt_known_load(&t, NULL, NULL) < 0) return false;
    for (size_t i = 0; i < t.count && !is_found; i++) {
        is_found = bt_store_path(known, sizeof known, t.model[i].file, "", NULL) == BT_OK &&
                   strcmp(known, path) == 0;
        if (is_found) snprintf(ret, BT_KNOWN_MAX_NAME + 1, "%s", t.model[i].name);
    }
    bt_known_done(&t);
    return is_found;
}

/* ---- listing ---- */

static int is_model(const struct dirent *e)
{
    return ends_with_gguf(e->d_name) && bt_known_is_file_name(e->d_name);
}
/* As bt_hub_file_name writes a path. */
static int is_hub_model(const struct dirent *e)
{
    char path[sizeof e->d_name];
    snprintf(path, sizeof path, "%s", e->d_name);
    for (char *c = path; (c = strchr(c, '@')); *c = '/') continue;
    return ends_with_gguf(e->d_name) && bt_known_is_file_path(path);
}
static int is_folder(const struct dirent *e) { return bt_known_is_file_name(e->d_name); }

typedef struct scan {
    struct dirent **entry;
    int count;
} scan;

static scan look(const char *dir, int (*filter)(const struct dirent *))
{
    scan s = {NULL, 0};
    s.count = scandir(dir, &s.entry, filter, alphasort);
    return s;
}

static void look_done(scan *s)
{
    for (int i = 0; i < s->count; i++) free(s->entry[i]);
    free(s->entry);
}

static bt_err add(bt_store_list *l, const char *dir, const char *repo, const char *file, bt_fault *fault)
{
    struct stat st;
    char path[MAX_PATH];
    const int n = snprintf(path, sizeof path, "%s/%s", dir, file);
    if (l->count == BT_STORE_MAX_FILES || n < 0 || n >= MAX_PATH || stat(path, &st) < 0 ||
        !S_ISREG(st.st_mode))
        return BT_OK;
    bt_store_file *f = &l->file[l->count++]; /* what is there is freed with the list */
    f->bytes = (uint64_t)st.st_size;
    f->path = strdup(path);
    f->file = strdup(file);
    f->repo = repo ? strdup(repo) : NULL;
    return f->path && f->file && (!repo || f->repo)
               ? BT_OK
               : bt_fail(fault, BT_ENOMEM, "out of memory for a list of models");
}

static bt_err add_folder(bt_store_list *l, const char *dir, const char *repo, bt_fault *fault)
{
    scan s = look(dir, repo ? is_hub_model : is_model);
    bt_err e = BT_OK;
    for (int i = 0; e == BT_OK && i < s.count; i++) e = add(l, dir, repo, s.entry[i]->d_name, fault);
    look_done(&s);
    return e;
}

/* hf/OWNER/NAME */
static bt_err add_repos(bt_store_list *l, const char *dir, bt_fault *fault)
{
    char path[MAX_PATH + 1024], repo[600]; /* names of files have 255 bytes at most */
    bt_err e = BT_OK;
    snprintf(path, sizeof path, "%s/hf", dir);
    scan owner = look(path, is_folder);
    for (int i = 0; e == BT_OK && i < owner.count; i++) {
        snprintf(path, sizeof path, "%s/hf/%s", dir, owner.entry[i]->d_name);
        scan name = look(path, is_folder);
        for (int k = 0; e == BT_OK && k < name.count; k++) {
            snprintf(repo, sizeof repo, "%s/%s", owner.entry[i]->d_name, name.entry[k]->d_name);
            snprintf(path, sizeof path, "%s/hf/%s", dir, repo);
            e = add_folder(l, path, repo, fault);
        }
        look_done(&name);
    }
    look_done(&owner);
    return e;
}

typedef struct marking {
    bt_store_list *l;
    char **real; /* of each file the path that the system names where it is mapped */
} marking;

static void mark(void *ud, const char *path)
{
    const marking *m = ud;
    for (size_t i = 0; i < m->l->count; i++)
        if (m->real[i] && strcmp(m->real[i], path) == 0) m->l->file[i].is_mapped = true;
}

static bt_err look_at_processes(bt_store_list *l, bt_fault *fault)
{
    const marking m = {l, calloc(l->count ? l->count : 1, sizeof(char *))};
    if (!m.real) return bt_fail(fault, BT_ENOMEM, "out of memory for a list of models");
    for (size_t i = 0; i < l->count; i++) m.real[i] = realpath(l->file[i].path, NULL);
    bt_file_each_mapped(mark, (void *)(uintptr_t)&m);
    for (size_t i = 0; i < l->count; i++) free(m.real[i]);
    free(m.real);
    return BT_OK;
}

bt_err bt_store_list_all(bt_store_list *ret, bt_fault *fault)
{
    char dir[MAX_PATH];
    bt_store_list l = {calloc(BT_STORE_MAX_FILES, sizeof *l.file), 0};
    bt_err e = l.file ? bt_store_dir(dir, sizeof dir, fault)
                      : bt_fail(fault, BT_ENOMEM, "out of memory for a list of models");
    if (e == BT_OK) e = add_folder(&l, dir, NULL, fault);
    if (e == BT_OK) e = add_repos(&l, dir, fault);
    if (e == BT_OK) e = look_at_processes(&l, fault);
    if (e == BT_OK) *ret = l;
    else bt_store_list_done(&l);
    return e;
}

void bt_store_list_done(bt_store_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->file[i].file);
        free(l->file[i].path);
        free(l->file[i].repo);
    }
    free(l->file);
    *l = (bt_store_list){NULL, 0};
}
