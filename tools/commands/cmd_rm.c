/* baton rm: removes models from their folder. A file that somebody uses or fetches stays. */
#include "base/num.h"
#include "model/hub.h"
#include "model/store.h"
#include "tools/options.h"
#include "tools/pull/pull.h"
#include "tools/tool.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_NAMES = 16, MAX_PATH = 4096 };

typedef struct config {
    const char *table;
    bool json;
} config;

static const bt_opt opts[] = {
    {.of = &tool_pull_opts, .name = "models", BT_OPT_AT(config, table)},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: models[] with name, bytes, path"},
};

const bt_opt_program tool_rm_program = {
    .name = "baton rm",
    .summary =
        "remove models that lie in their folder; 'baton cache' has the packages that were made of them",
    .usage = "NAME ... [options]",
    .normal = "baton rm qwen2.5-coder-1.5b",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_min = 1,
    .args_max = MAX_NAMES,
    .args_name = "NAME ...",
};

/* The files and folders of a name. */
typedef struct named {
    char path[MAX_PATH];     /* of the file, of several the first; empty: none is here */
    char wheels[MAX_PATH];   /* the folder of its wheels; empty: a model of that name has none */
    char repo[MAX_PATH];     /* the folder of a hub's repository; empty: it is none */
    char lock[MAX_PATH + 8]; /* of who fetches it; empty: nobody can */
} named;

static bt_err find(named *ret, const bt_known_table *t, const char *name, bt_fault *fault)
{
    const bt_known *m = bt_known_find(t, name);
    bt_hub_ref ref;
    *ret = (named){"", "", "", ""};
    if (bt_hub_is_ref(name)) {
        bt_err e = bt_hub_ref_parse(&ref, name, fault);
        if (e == BT_OK) e = bt_hub_folder(ret->repo, sizeof ret->repo, &ref, fault);
        snprintf(ret->lock, sizeof ret->lock, "%s/.lock", ret->repo);
        if (e == BT_OK && bt_hub_find(ret->path, sizeof ret->path, name, fault) < 0) ret->path[0] = '\0';
        return e;
    }
    if (!m && !bt_known_is_file_name(name))
        return bt_fail(fault, BT_EARG, "'%.60s' is no model's name; 'baton list' has the names", name);
    bt_err e = bt_store_path(ret->path, sizeof ret->path, m ? m->file : name, m ? "" : ".gguf", fault);
    if (e == BT_OK && m) e = bt_store_path(ret->wheels, sizeof ret->wheels, m->name, ".parts", fault);
    if (e == BT_OK && m) e = bt_store_path(ret->lock, sizeof ret->lock, m->name, ".lock", fault);
    return e;
}

static int is_part(const struct dirent *e)
{
    const size_t n = strlen(e->d_name);
    return n > 5 && strcmp(e->d_name + n - 5, ".part") == 0;
}

/* Removes the pieces of a model that never became whole: a folder of wheels, or the beginnings of a hub's
 * files. True: there were some. */
static bool remove_beginnings(const named *n)
{
    struct dirent **entry = NULL;
    struct stat st;
    char path[MAX_PATH + 300];
    const bool has_wheels = n->wheels[0] && stat(n->wheels, &st) == 0;
    if (has_wheels) tool_pull_remove_folder(n->wheels);
    const int parts = n->repo[0] ? scandir(n->repo, &entry, is_part, alphasort) : 0;
    for (int i = 0; i < parts; i++) {
        snprintf(path, sizeof path, "%s/%s", n->repo, entry[i]->d_name);
        (void)unlink(path);
        free(entry[i]);
    }
    free(entry);
    return has_wheels || parts > 0;
}

/* Whether a file of the list is the one at `path`, or another part of a hub's model. */
static bool is_of(const bt_store_file *f, const char *path)
{
    return *path && (strcmp(f->path, path) == 0 || (f->repo && bt_hub_is_one_model(f->path, path)));
}

static bt_err remove_files(uint64_t *ret_bytes, const bt_store_list *l, const char *path, bt_fault *fault)
{
    for (size_t i = 0; i < l->count; i++) {
        const bt_store_file *f = &l->file[i];
        if (!is_of(f, path)) continue;
        if (unlink(f->path) < 0)
            return bt_fail(fault, BT_EIO, "cannot remove '%.150s': %s", f->path, strerror(errno));
        *ret_bytes += f->bytes;
    }
    return BT_OK;
}

/* With the lock of the model held. */
static bt_err remove_named(json_t *gone, const config *c, const named *n, const bt_store_list *l,
                           const char *name, bt_fault *fault)
{
    bool is_here = false, is_mapped = false;
    uint64_t bytes = 0;
    char size[32];
    for (size_t i = 0; i < l->count; i++) {
        is_here = is_here || is_of(&l->file[i], n->path);
        is_mapped = is_mapped || (l->file[i].is_mapped && is_of(&l->file[i], n->path));
    }
    if (is_mapped)
        return bt_fail(fault, BT_EAGAIN, "the model '%.60s' is in use: stop what serves it, then remove it",
                       name);
    if (!remove_beginnings(n) && !is_here)
        return bt_fail(fault, BT_EARG, "the model '%.60s' is not here", name);
    const bt_err e = remove_files(&bytes, l, n->path, fault);
    if (e < 0) return e;
    bt_num_size_text(size, sizeof size, bytes);
    if (!c->json) printf("removed %s%s%s\n", name, is_here ? ", " : "", is_here ? size : ": parts of it");
    json_array_append_new(gone, json_pack("{s:s, s:I, s:s?}", "name", name, "bytes", (json_int_t)bytes,
                                          "path", is_here ? n->path : NULL));
    return BT_OK;
}

static bt_err remove_one(json_t *gone, const config *c, const bt_known_table *t, const bt_store_list *l,
                         const char *name, bt_fault *fault)
{
    named n;
    int lock = -1;
    bt_err e = find(&n, t, name, fault);
    if (e < 0) return e;
    /* A folder that is not there, or cannot be written, has no lock. */
    if (n.lock[0] && tool_pull_lock(&lock, n.lock, false, NULL) == BT_EAGAIN)
        e = bt_fail(fault, BT_EAGAIN, "the model '%.60s' is being fetched: stop that, then remove it", name);
    if (e == BT_OK) e = remove_named(gone, c, &n, l, name, fault);
    if (lock >= 0) tool_pull_unlock(lock, n.lock);
    if (lock >= 0 && n.repo[0]) (void)rmdir(n.repo); /* where nothing is left */
    return e;
}

int tool_rm_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    bt_known_table t = {NULL, 0, NULL};
    bt_store_list l = {NULL, 0};
    int rc = bt_opt_start(&args, &tool_rm_program, argc, argv, &c);
    if (rc >= 0) return rc;
    json_t *gone = json_array();
    bt_err e = bt_known_load(&t, c.table, &fault);
    if (e == BT_OK) e = bt_store_list_all(&l, &fault);
    for (size_t i = 0; e == BT_OK && i < args.count; i++)
        e = remove_one(gone, &c, &t, &l, args.args[i], &fault);
    if (e < 0) rc = tool_fail("rm", &fault);
    else if (c.json) rc = tool_print_json("rm", json_pack("{s:O}", "models", gone));
    else rc = bt_opt_flush() != 0;
    json_decref(gone);
    bt_store_list_done(&l);
    bt_known_done(&t);
    bt_opt_done(&args);
    return rc;
}
