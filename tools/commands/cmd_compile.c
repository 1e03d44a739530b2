/* baton compile: a model as a package for the integer NPU, ahead of time. Other commands do the same on
 * first use. */
#include "base/cache_files.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/wait.h"
#include "engine/names.h"
#include "model/options.h"
#include "npu/compile/images.h"
#include "npu/compile/obtain.h"
#include "npu/lower/offload.h"
#include "npu/lower/probes.h"
#include "tools/options.h"
#include "tools/package_view.h"
#include "tools/search/auto.h"
#include "tools/tool.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct config {
    const char *model, *output, *images, *isa;
    bt_obtain_want want;
    int64_t threads, ctx_size;
    uint64_t cache_limit_bytes, memory_bytes;
    bool json, quiet;
} config;

static const bt_opt opts[] = {
    {.of = &bt_model_opts, .name = "model", BT_OPT_AT(config, model), .required = true},
    {.of = &bt_model_opts, .name = "ctx-size", BT_OPT_AT(config, ctx_size),
     .help = "longest sequence in tokens; 0, and less than that too but for max-pad: the model's context, at "
             "most 32768"},
    BT_OPT_ALL(bt_obtain_compile_opts, config, want, NULL),
    {.of = &bt_machine_opts, .name = "threads", BT_OPT_AT(config, threads)},
    {.of = &bt_machine_opts, .name = "isa", BT_OPT_AT(config, isa),
     .help = "kernels: auto, " BT_ENGINE_ISA_NAMES "; the package is the same"},
    {.of = &bt_machine_opts, .name = "memory", BT_OPT_AT(config, memory_bytes)},
    {.of = &bt_machine_opts, .name = "cache-limit", BT_OPT_AT(config, cache_limit_bytes)},
    {.of = &tool_output_opts, .name = "output", BT_OPT_AT(config, output), .example = "smollm2.npu",
     .help = "where to write the package; without it the cache, where the other commands look"},
    {.group = "Output", .name = "images", .value = "DIR", BT_OPT_AT(config, images), .type = BT_OPT_STRING,
     .example = "images",
     .help = "also write what the device would map, in its tiles: DIR/session-N.img for each session"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: path, specializations[], weights_bytes, fallbacks[], ..."},
    {.of = &tool_output_opts, .name = "quiet", BT_OPT_AT(config, quiet)},
};

const bt_opt_program tool_compile_program = {
    .name = "baton compile",
    .summary = "compile a model into a package for the integer NPU",
    .usage = "-m MODEL [-o FILE] [options]",
    .normal = "baton compile -m smollm2 -o smollm2.npu",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
};

/* The list that --require-npu promises, on stderr. */
static void tell_fallbacks(const bt_pkg_fallback *f, size_t n)
{
    if (n) fprintf(stderr, "baton compile: --require-npu, but these operators fall back to the companion:\n");
    for (size_t i = 0; i < n; i++) {
        char text[BT_OFFLOAD_FALLBACK_BYTES];
        bt_offload_fallback_text(text, sizeof text, &f[i]);
        fprintf(stderr, "  %s\n", text);
    }
}

/* Refuses the fallbacks that are known before anything is compiled. */
static bt_err refuse_ahead(bool *ret_refused, const bt_model *m, const bt_obtain_want *w, size_t ctx_tokens,
                           bt_fault *fault)
{
    bt_pkg_fallback *list = NULL;
    size_t n = 0;
    const bt_err e = bt_obtain_fallbacks(&list, &n, m, w, ctx_tokens, fault);
    tell_fallbacks(list, n);
    *ret_refused = n > 0;
    free(list);
    return e;
}

/* *ret NULL: what falls back was printed, and nothing is compiled. */
static bt_err make(bt_pkg **ret, json_t **ret_search, char path[BT_OBTAIN_PATH_BYTES], const config *c,
                   bt_fault *fault)
{
    bt_model *m = NULL;
    bt_pool *pool = NULL;
    bt_err e = tool_open_model(&m, NULL, c->model, fault);
    if (e == BT_OK) e = bt_pool_new(&pool, (size_t)c->threads, fault);
    bt_obtain_how how = {.ctx_tokens = (size_t)c->ctx_size, .isa = c->isa, .pool = pool,
                         .allow_llm_int8 = true, .progress = bt_wait_tell};
    bt_obtain_want want = c->want;
    want.require_npu = false; /* all of what falls back is shown, not only what an error has room for */
    char found[BT_RECIPE_MAX_TEXT];
    bool is_refused = false;
    bt_pkg *kept = NULL;
    const tool_auto_how search = {.isa = c->isa, .ctx_tokens = how.ctx_tokens, .pool = pool,
                                  .quiet = c->quiet};
    if (e == BT_OK) e = tool_auto_resolve(ret_search, found, &want, m, &search, fault);
    if (e == BT_OK && c->want.require_npu) e = refuse_ahead(&is_refused, m, &want, how.ctx_tokens, fault);
    if (is_refused) goto out;
    if (e == BT_OK && c->output && *ret_search) { /* the search has left it in the cache */
        e = bt_obtain_open(&kept, path, m, &want, &how, fault);
        how.donor = (const bt_pkg *const *)&kept;
        how.donors = 1;
    }
    if (e == BT_OK && c->output) {
        snprintf(path, BT_OBTAIN_PATH_BYTES, "%s", c->output);
        e = bt_obtain_compile(path, m, &want, &how, fault);
        if (e == BT_OK) e = bt_pkg_open(ret, path, fault);
    } else if (e == BT_OK) {
        e = bt_obtain_open(ret, path, m, &want, &how, fault);
    }
out:
    bt_wait_end();
    bt_pkg_close(kept);
    bt_pool_free(pool);
    bt_model_close(m);
    return e;
}

/* Rows of the policy that the device refuses, from the data that left them out. */
typedef struct refusals {
    bt_profile profile;
    bt_shapes shapes;
    size_t ctx_tokens;
} refusals;

static bt_err find_refusals(refusals *ret, const config *c, const bt_pkg *p, bt_fault *fault)
{
    ret->ctx_tokens = bt_pkg_header_of(p)->ctx_tokens;
    const bt_err e = bt_profile_load(&ret->profile, c->want.profile, fault);
    return e < 0 ? e : bt_shapes_parse(&ret->shapes, c->want.shape_policy, ret->ctx_tokens, fault);
}

static json_t *refusals_json(const refusals *r)
{
    json_t *list = json_array();
    bt_probes_refused x;
    for (size_t i = 0; bt_probes_refused_at(&x, &r->profile, &r->shapes, r->ctx_tokens, i); i++)
        json_array_append_new(list, json_pack("{s:I,s:I,s:I,s:o}", "batch", (json_int_t)x.batch, "seq",
                                              (json_int_t)x.seq, "ctx", (json_int_t)x.ctx, "instead",
                                              x.batch_instead ? json_pack("{s:I,s:I,s:I}", "batch",
                                                                          (json_int_t)x.batch_instead, "seq",
                                                                          (json_int_t)x.seq_instead, "ctx",
                                                                          (json_int_t)x.ctx_instead)
                                                              : json_null()));
    return list;
}

static void print_refusals(const refusals *r)
{
    bt_probes_refused x;
    for (size_t i = 0; bt_probes_refused_at(&x, &r->profile, &r->shapes, r->ctx_tokens, i); i++) {
        printf("%s  ",
               i ? ""
                 : "\nleft out, because the device's compiler fails at it although larger shapes pass:\n");
        if (x.batch > 1) printf("batch %u, ", x.batch);
        printf("seq %u, ctx %u: ", x.seq, x.ctx);
        if (!x.batch_instead) printf("nothing stands in for it\n");
        else if (x.batch_instead > 1)
            printf("its sequences run in batch %u, seq %u, ctx %u\n", x.batch_instead, x.seq_instead,
                   x.ctx_instead);
        else printf("its chunks run in seq %u, ctx %u\n", x.seq_instead, x.ctx_instead);
    }
}

static int show(const config *c, const char *path, const bt_pkg *p, const json_t *search, int64_t took_us)
{
    refusals r;
    bt_fault fault = {""};
    if (find_refusals(&r, c, p, &fault) < 0) return tool_fail("compile", &fault);
    if (c->json) {
        json_t *j = tool_package_summary_json(p);
        if (j)
            json_object_update_new(j, json_pack("{s:s,s:f,s:o}", "path", path, "seconds",
                                                (double)took_us / 1e6, "refused_shapes", refusals_json(&r)));
        if (j && search) json_object_set(j, "search", (json_t *)search);
        return tool_print_json("compile", j);
    }
    if (search) tool_auto_print(search);
    tool_package_print_summary(p);
    print_refusals(&r);
    if (c->images)
        printf("\n%u image%s in %s\n", bt_pkg_header_of(p)->sessions.count,
               bt_pkg_header_of(p)->sessions.count == 1 ? "" : "s", c->images);
    printf("\n%s  (%.1f s)\n", path, (double)took_us / 1e6);
    return bt_opt_flush() != 0;
}

int tool_compile_run(int argc, char **argv)
{
    config c = {0}; /* want.package has no option here */
    bt_opt_args args;
    bt_fault fault = {""};
    char path[BT_OBTAIN_PATH_BYTES];
    bt_pkg *p = NULL;
    json_t *search = NULL;
    int rc = bt_opt_start(&args, &tool_compile_program, argc, argv, &c);
    if (rc >= 0) return rc;
    const int64_t begin_us = bt_clock_us();
    tool_quiet(c.quiet);
    tool_cache_setup(c.cache_limit_bytes, c.quiet);
    bt_memory_set_free(c.memory_bytes);
    if (make(&p, &search, path, &c, &fault) < 0) {
        rc = tool_fail("compile", &fault);
    } else if (!p) {
        rc = 1;
    } else if (c.want.require_npu && bt_pkg_header_of(p)->fallbacks.count) { /* the calibration found them */
        tell_fallbacks(bt_pkg_fallbacks(p), bt_pkg_header_of(p)->fallbacks.count);
        if (c.output) (void)unlink(path);
        rc = 1;
    } else if (c.images && bt_images_write(p, c.images, &fault) < 0) {
        rc = tool_fail("compile", &fault);
    } else {
        rc = show(&c, path, p, search, bt_clock_us() - begin_us);
    }
    bt_pkg_close(p);
    json_decref(search);
    bt_opt_done(&args);
    return rc;
}
