/* baton cache: what the cache holds, and taking it away again. Files that somebody uses or makes stay. */
#include "base/cache_files.h"
#include "base/num.h"
#include "model/options.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum { MAX_NAMES = 64, MIN_NAME_CHARS = 4, SHOWN_KEY_CHARS = 8 };

typedef struct config {
    uint64_t limit_bytes;
    bool yes, json;
} config;

static const bt_opt opts[] = {
    {.group = "Clear", .letter = 'y', .name = "yes", BT_OPT_AT(config, yes), .type = BT_OPT_FLAG,
     .help = "remove without asking; where nobody can be asked, nothing is removed without it"},
    {.of = &bt_machine_opts, .group = "Output", .name = "cache-limit", BT_OPT_AT(config, limit_bytes)},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: folder, limit_bytes, bytes, files[]; or removed[], kept[]"},
};

const bt_opt_program tool_cache_program = {
    .name = "baton cache",
    .summary = "list the compiled packages and converted weights that are kept, or remove some",
    .usage = "list|clear [NAME ...] [options]",
    .normal = "baton cache list",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_min = 1,
    .args_max = 1 + MAX_NAMES,
    .args_name = "list|clear [NAME ...]",
};

/* ---- showing ---- */

static const char *state_of(const bt_cache_file *f)
{
    return f->is_locked ? "being made" : f->is_mapped ? "yes" : f->is_half_made ? "half made" : "no";
}

static json_t *file_json(const bt_cache_file *f)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:b, s:b, s:s}", "kind", f->kind->folder, "name", f->key,
                     "model", f->model, "recipe", f->recipe, "bytes", (json_int_t)f->bytes, "last_used_s",
                     (json_int_t)f->used_s, "in_use", f->is_mapped || f->is_locked, "half_made",
                     f->is_half_made, "path", f->path);
}

static int width(int least, const char *text)
{
    return (int)strlen(text) > least ? (int)strlen(text) : least;
}

static void print_table(const bt_cache_list *l)
{
    int model = 5, recipe = 6;
    for (size_t i = 0; i < l->count; i++) {
        model = width(model, l->file[i].model);
        recipe = width(recipe, l->file[i].recipe);
    }
    printf("%-9s %-8s %-*s %-*s %10s  %-16s  %s\n", "kind", "name", model, "model", recipe, "recipe", "size",
           "last used", "in use");
    for (size_t i = 0; i < l->count; i++) {
        const bt_cache_file *f = &l->file[i];
        char size[32], used[24] = "-";
        const time_t at = (time_t)f->used_s;
        struct tm t;
        bt_num_size_text(size, sizeof size, f->bytes);
        if (localtime_r(&at, &t)) (void)strftime(used, sizeof used, "%Y-%m-%d %H:%M", &t);
        printf("%-9s %-*.*s %-*s %-*s %10s  %-16s  %s\n", f->kind->folder, SHOWN_KEY_CHARS, SHOWN_KEY_CHARS,
               f->key, model, f->model[0] ? f->model : "-", recipe, f->recipe[0] ? f->recipe : "-", size,
               used, state_of(f));
    }
}

static int by_kind_then_latest_first(const void *a, const void *b)
{
    const bt_cache_file *x = a, *y = b;
    if (x->kind != y->kind)
        for (const bt_cache_kind *const *k = bt_cache_files_kinds; *k; k++)
            if (*k == x->kind || *k == y->kind) return *k == x->kind ? -1 : 1;
    if (x->used_s != y->used_s) return x->used_s > y->used_s ? -1 : 1;
    return strcmp(x->path, y->path);
}

static void sort(bt_cache_file *file, size_t n)
{
    if (n) qsort(file, n, sizeof *file, by_kind_then_latest_first);
}

static uint64_t bytes_of(const bt_cache_list *l)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < l->count; i++) bytes += l->file[i].bytes;
    return bytes;
}

/* "3 files, 403.1 MiB" */
static void sum_text(char *ret, size_t cap, const bt_cache_list *l)
{
    char size[32];
    bt_num_size_text(size, sizeof size, bytes_of(l));
    snprintf(ret, cap, "%zu file%s, %s", l->count, l->count == 1 ? "" : "s", size);
}

static int list(const config *c, const bt_cache_list *l, const char *folder)
{
    if (c->json) {
        json_t *files = json_array();
        for (size_t i = 0; i < l->count; i++) json_array_append_new(files, file_json(&l->file[i]));
        return tool_print_json("cache", json_pack("{s:s, s:I, s:I, s:o}", "folder", folder, "limit_bytes",
                                                  (json_int_t)c->limit_bytes, "bytes",
                                                  (json_int_t)bytes_of(l), "files", files));
    }
    char sum[64], most[32];
    sum_text(sum, sizeof sum, l);
    bt_num_size_text(most, sizeof most, c->limit_bytes);
    if (l->count) {
        print_table(l);
        putchar('\n');
    }
    printf("%s in %s; at most %s are kept (--cache-limit)\n", sum, folder, most);
    return bt_opt_flush() != 0;
}

/* ---- clearing ---- */

/* By kind ("packages"), or by how the name of the model or the file begins. */
static bool is_named(const bt_cache_file *f, const char *name)
{
    const size_t n = strlen(name);
    return strcmp(name, f->kind->folder) == 0 ||
           (n >= MIN_NAME_CHARS && (!strncasecmp(name, f->model, n) || !strncmp(name, f->key, n)));
}

static bool is_kind(const char *name)
{
    for (const bt_cache_kind *const *k = bt_cache_files_kinds; *k; k++)
        if (strcmp(name, (*k)->folder) == 0) return true;
    return false;
}

/* A name without files may be a mistake; a kind without files is not. */
static bt_err check_names(const bt_cache_list *l, const bt_opt_args *args, bt_fault *fault)
{
    for (size_t a = 1; a < args->count; a++) {
        bool is_found = is_kind(args->args[a]);
        for (size_t i = 0; i < l->count && !is_found; i++) is_found = is_named(&l->file[i], args->args[a]);
        if (!is_found)
            return bt_fail(
                fault, BT_EARG,
                "nothing in the cache is called '%.60s': packages, weights, ids, checked, recipes, or at "
                "least %d letters that "
                "the name of a model or file begins with",
                args->args[a], MIN_NAME_CHARS);
    }
    return BT_OK;
}

/* Parts the list: files that were asked for and are free come first; returns how many. Files that were not
 * asked for are dropped. */
static size_t choose(bt_cache_list *l, size_t *ret_kept, const bt_opt_args *args)
{
    size_t chosen = 0, free_ones = 0;
    for (size_t i = 0; i < l->count; i++) {
        bool is_wanted = args->count == 1;
        for (size_t a = 1; a < args->count && !is_wanted; a++)
            is_wanted = is_named(&l->file[i], args->args[a]);
        if (!is_wanted) continue;
        const bt_cache_file f = l->file[i];
        l->file[i] = l->file[chosen];
        l->file[chosen] = f;
        if (!f.is_mapped && !f.is_locked) {
            l->file[chosen] = l->file[free_ones];
            l->file[free_ones++] = f;
        }
        chosen++;
    }
    *ret_kept = chosen - free_ones;
    sort(l->file, free_ones);
    sort(l->file + free_ones, *ret_kept);
    return free_ones;
}

/* Whether to go on: --yes, or an answer at the terminal. */
static bool is_agreed(const config *c, const bt_cache_list *chosen)
{
    char sum[64], answer[16] = "";
    if (c->yes) return true;
    sum_text(sum, sizeof sum, chosen);
    if (!c->json) print_table(chosen);
    (void)bt_opt_flush();
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        fprintf(stderr, "baton cache: nothing was removed; with --yes it would be %s\n", sum);
        return false;
    }
    fprintf(stderr, "Remove %s? [y/N] ", sum);
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y')) return true;
    fprintf(stderr, "nothing was removed\n");
    return false;
}

/* Removes those of the chosen files that are free, then `kept` others. */
static int remove_them(const config *c, const bt_cache_list *l, size_t chosen, size_t kept)
{
    json_t *gone = json_array(), *stays = json_array();
    uint64_t bytes = 0;
    for (size_t i = 0; i < chosen + kept; i++) {
        const bt_cache_file *f = &l->file[i];
        char words[300];
        const bool is_gone = i < chosen && !f->is_mapped && !f->is_locked && bt_cache_files_delete(f);
        bt_cache_files_words(words, sizeof words, f);
        bytes += is_gone ? f->bytes : 0;
        json_array_append_new(is_gone ? gone : stays, file_json(f));
        if (!c->json)
            printf("%s %s%s\n", is_gone ? "removed" : "kept", words,
                   is_gone        ? ""
                   : f->is_locked ? ": being made"
                   : f->is_mapped ? ": in use"
                                  : ": it cannot be removed");
    }
    const int stuck = (int)(json_array_size(gone) < chosen);
    if (c->json) {
        if (tool_print_json("cache", json_pack("{s:I, s:o, s:o}", "bytes", (json_int_t)bytes, "removed", gone,
                                               "kept", stays)))
            return 1;
        return stuck;
    }
    char size[32];
    bt_num_size_text(size, sizeof size, bytes);
    if (chosen) printf("%zu removed, %s\n", json_array_size(gone), size);
    else printf("nothing to remove\n");
    json_decref(gone);
    json_decref(stays);
    return bt_opt_flush() != 0 || stuck;
}

static int clear(const config *c, bt_cache_list *l, const bt_opt_args *args)
{
    bt_fault fault = {""};
    size_t kept = 0;
    if (check_names(l, args, &fault) < 0) return tool_fail("cache", &fault);
    const size_t chosen = choose(l, &kept, args);
    const bt_cache_list first = {l->file, chosen, 0};
    if (chosen && !is_agreed(c, &first)) return 1;
    bt_cache_files_look(l); /* again: an answer takes its time */
    return remove_them(c, l, chosen, kept);
}

int tool_cache_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    bt_cache_list l = {NULL, 0, 0};
    char folder[4096];
    int rc = bt_opt_start(&args, &tool_cache_program, argc, argv, &c);
    if (rc >= 0) return rc;
    const bool is_list = strcmp(args.args[0], "list") == 0, is_clear = strcmp(args.args[0], "clear") == 0;
    if (!is_list && !is_clear) bt_fail(&fault, BT_EARG, "'%.40s' is neither list nor clear", args.args[0]);
    else if (is_list && args.count > 1) bt_fail(&fault, BT_EARG, "list takes no name");
    if (fault.text[0]) {
        bt_opt_usage_error("baton cache", &fault);
        rc = 2;
    } else if (bt_cache_files_dir(folder, sizeof folder, NULL, &fault) < 0) {
        rc = tool_fail("cache", &fault);
    } else {
        bt_cache_files_add_all(&l);
        bt_cache_files_look(&l);
        sort(l.file, l.count);
        rc = is_list ? list(&c, &l, folder) : clear(&c, &l, &args);
        bt_cache_files_done(&l);
    }
    bt_opt_done(&args);
    return rc;
}
