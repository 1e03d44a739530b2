/* baton list: the models that lie in their folder, and those that can be fetched by name. */
#include "base/num.h"
#include "model/hub.h"
#include "model/store.h"
#include "tools/options.h"
#include "tools/pull/pull.h"
#include "tools/tool.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 512 };

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
    uint64_t bytes;            /* of all parts of a hub's model */
} row;

/* Whether a hub's file is another part of the model of the one before it. */
static bool is_further_part(const bt_store_list *l, size_t i)
{
    const bt_store_file *f = &l->file[i];
    return i && f->repo && l->file[i - 1].repo && bt_hub_is_one_model(f->path, f[-1].path);
}

static const bt_store_file *file_of(const bt_store_list *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (!l->file[i].repo && strcmp(l->file[i].file, name) == 0) return &l->file[i];
    return NULL;
}

static bool is_in_table(const bt_known_table *t, const bt_store_file *f)
{
    for (size_t i = 0; !f->repo && i < t->count; i++)
        if (strcmp(t->model[i].file, f->file) == 0) return true;
    return false;
}

/* The name that `-m` takes: that of the table, hf:OWNER/NAME:QUANT, or the file's without its ending. */
static void name_of(char ret[NAME_BYTES], const row *r)
{
    size_t stem, part, parts;
    const char *file = r->file ? r->file->file : NULL,
               *quant = file ? bt_hub_quant_of(file, &stem, &part, &parts) : NULL;
    if (r->known) snprintf(ret, NAME_BYTES, "%s", r->known->name);
    else if (r->file->repo)
        snprintf(ret, NAME_BYTES, "hf:%s:%.*s", r->file->repo, (int)(file + stem - quant), quant);
    else snprintf(ret, NAME_BYTES, "%.*s", (int)(strlen(r->file->file) - strlen(".gguf")), r->file->file);
}

static json_t *row_json(const row *r)
{
    char name[NAME_BYTES];
    const bt_known *m = r->known;
    json_t *aliases = json_array();
    name_of(name, r);
    for (size_t i = 0; m && i < BT_KNOWN_MAX_ALIASES && m->alias[i]; i++)
        json_array_append_new(aliases, json_string(m->alias[i]));
    return json_pack("{s:s, s:o, s:I, s:s?, s:s?, s:s?, s:b, s:b, s:s?}", "name", name, "aliases", aliases,
                     "bytes", (json_int_t)r->bytes, "sha256", m ? m->sha256 : NULL, "licence",
                     m ? m->licence : NULL, "architecture", m ? m->architecture : NULL, "here",
                     r->file != NULL, "in_use", r->file && r->file->is_mapped, "path",
                     r->file ? r->file->path : NULL);
}

static void print_row(const row *r)
{
    char name[NAME_BYTES], size[32];
    name_of(name, r);
    bt_num_size_text(size, sizeof size, r->bytes);
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
        row r = is_known ? (row){&t->model[i], file_of(l, t->model[i].file), t->model[i].bytes}
                         : (row){NULL, &l->file[i - t->count], 0};
        if (!is_known && (is_in_table(t, r.file) || is_further_part(l, i - t->count))) continue;
        if (r.file) r.bytes = r.file->bytes;
        for (size_t k = i + 1 - t->count; !is_known && k < l->count && is_further_part(l, k); k++)
            r.bytes += l->file[k].bytes;
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
