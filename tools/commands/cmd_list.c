/* baton list: the models that lie in their folder, and those that can be fetched by name. */
#include "base/num.h"
#include "model/store.h"
#include "tools/options.h"
#include "tools/pull/pull.h"
#include "tools/tool.h"

#include <stdio.h>
#include <string.h>

typedef struct config {
    const char *table;
    bool json;
} config;

static const bt_opt opts[] = {
    {.of = &tool_pull_opts, .name = "models", BT_OPT_AT(config, table)},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: folder, models[] with name, aliases, bytes, sha256, licence, "
             "architecture, here, in_use, path"},
};

const bt_opt_program tool_list_program = {
    .name = "baton list", .summary = "list the models that are here, and those that can be fetched by name",
    .usage = "[options]", .normal = "baton list",
    .opts = opts,         .opt_count = BT_OPT_COUNT(opts),
};

/* A row: a known model, a file of the folder, or both. */
typedef struct row {
    const bt_known *known;     /* NULL: the table does not have it */
    const bt_store_file *file; /* NULL: it is not here */
} row;

static const bt_store_file *file_of(const bt_store_list *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->file[i].file, name) == 0) return &l->file[i];
    return NULL;
}

static bool is_in_table(const bt_known_table *t, const char *file)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->model[i].file, file) == 0) return true;
    return false;
}

/* The name that `-m` takes: that of the table, or the file's without its ending. */
static void name_of(char ret[256], const row *r)
{
    if (r->known) snprintf(ret, 256, "%s", r->known->name);
    else snprintf(ret, 256, "%.*s", (int)(strlen(r->file->file) - strlen(".gguf")), r->file->file);
}

static json_t *row_json(const row *r)
{
    char name[256];
    const bt_known *m = r->known;
    json_t *aliases = json_array();
    name_of(name, r);
    for (size_t i = 0; m && i < BT_KNOWN_MAX_ALIASES && m->alias[i]; i++)
        json_array_append_new(aliases, json_string(m->alias[i]));
    json_t *o = json_pack("{s:s, s:o, s:I, s:s?, s:s?, s:s?, s:b, s:b, s:s?}", "name", name, "aliases",
                          aliases, "bytes", (json_int_t)(r->file ? r->file->bytes : m->bytes), "sha256",
                          m ? m->sha256 : NULL, "licence", m ? m->licence : NULL, "architecture",
                          m ? m->architecture : NULL, "here", r->file != NULL, "in_use",
                          r->file && r->file->is_mapped, "path", r->file ? r->file->path : NULL);
    return o ? o : json_pack("{s:n}", "name"); /* a file's name that is no UTF-8 */
}

static void print_row(const row *r)
{
    char name[256], size[32];
    name_of(name, r);
    bt_num_size_text(size, sizeof size, r->file ? r->file->bytes : r->known->bytes);
    printf("%-24s %10s  %-6s %s\n", name, size,
           !r->file             ? "no"
           : r->file->is_mapped ? "in use"
                                : "yes",
           r->known ? r->known->licence : "");
}

static int print(const config *c, const bt_known_table *t, const bt_store_list *l, const char *folder)
{
    json_t *models = json_array();
    if (!c->json) printf("%-24s %10s  %-6s %s\n", "name", "size", "here", "licence");
    for (size_t i = 0; i < t->count + l->count; i++) {
        const bool is_known = i < t->count;
        const row r = is_known ? (row){&t->model[i], file_of(l, t->model[i].file)}
                               : (row){NULL, &l->file[i - t->count]};
        if (!is_known && is_in_table(t, r.file->file)) continue;
        if (c->json) json_array_append_new(models, row_json(&r));
        else print_row(&r);
    }
    if (c->json) return tool_print_json("list", json_pack("{s:s, s:o}", "folder", folder, "models", models));
    json_decref(models);
    printf("\nmodels lie in %s; 'baton pull NAME' fetches one\n", folder);
    return bt_opt_flush() != 0;
}

int tool_list_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    bt_known_table t = {NULL, 0, NULL};
    bt_store_list l = {NULL, 0};
    char folder[4096];
    int rc = bt_opt_start(&args, &tool_list_program, argc, argv, &c);
    if (rc >= 0) return rc;
    bt_err e = bt_known_load(&t, c.table, &fault);
    if (e == BT_OK) e = bt_store_dir(folder, sizeof folder, &fault);
    if (e == BT_OK) e = bt_store_list_all(&l, &fault);
    rc = e < 0 ? tool_fail("list", &fault) : print(&c, &t, &l, folder);
    bt_store_list_done(&l);
    bt_known_done(&t);
    bt_opt_done(&args);
    return rc;
}
