/* baton rm: removes models from their folder. A file that somebody uses stays. */
#include "base/num.h"
#include "model/store.h"
#include "tools/options.h"
#include "tools/pull/pull.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdio.h>
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

/* What a name stands for in the folder. */
typedef struct named {
    char file[256];       /* name of the file */
    char parts[MAX_PATH]; /* the folder of its parts; empty: a model of that name has none */
} named;

static bt_err find(named *ret, const bt_known_table *t, const char *name, bt_fault *fault)
{
    const bt_known *m = bt_known_find(t, name);
    ret->parts[0] = '\0';
    if (!m && !bt_known_is_file_name(name))
        return bt_fail(fault, BT_EARG, "'%.60s' is no model's name; 'baton list' has the names", name);
    snprintf(ret->file, sizeof ret->file, "%s%s", m ? m->file : name, m ? "" : ".gguf");
    return m ? bt_store_path(ret->parts, sizeof ret->parts, m->name, ".parts", fault) : BT_OK;
}

static bt_err remove_one(json_t *gone, const config *c, const bt_known_table *t, const bt_store_list *l,
                         const char *name, bt_fault *fault)
{
    named n;
    struct stat st;
    const bt_store_file *f = NULL;
    const bt_err e = find(&n, t, name, fault);
    if (e < 0) return e;
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->file[i].file, n.file) == 0) f = &l->file[i];
    const bool has_parts = n.parts[0] && stat(n.parts, &st) == 0;
    if (!f && !has_parts) return bt_fail(fault, BT_EARG, "the model '%.60s' is not here", name);
    if (f && f->is_mapped)
        return bt_fail(fault, BT_EAGAIN, "the model '%.60s' is in use: stop what serves it, then remove it",
                       name);
    if (has_parts) tool_pull_remove_folder(n.parts);
    if (f && unlink(f->path) < 0)
        return bt_fail(fault, BT_EIO, "cannot remove '%.150s': %s", f->path, strerror(errno));
    char size[32];
    bt_num_size_text(size, sizeof size, f ? f->bytes : 0);
    if (!c->json) printf("removed %s%s%s\n", name, f ? ", " : "", f ? size : ": parts of it");
    json_array_append_new(gone, json_pack("{s:s, s:I, s:s}", "name", name, "bytes",
                                          (json_int_t)(f ? f->bytes : 0), "path", f ? f->path : n.parts));
    return BT_OK;
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
