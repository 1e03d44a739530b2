/* From options to an open package: the compiler's options, what a named package must agree with, and the
 * cache. */
#include "npu/compile/obtain.h"
#include "base/cache.h"
#include "npu/quant/calib.h"
#include "npu/compile/compile.h"
#include "npu/lower/offload.h"
#include "model/vocab.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of a calibration file that are read, from its start: more than enough for BT_COMPILE_MAX_CALIB
 * tokens. */
enum { CALIB_MAX_BYTES = 1 << 18, RECIPE_WORDS_BYTES = 512 };

const char *const bt_obtain_ops[] = {"linear", "all", NULL};

static const bt_opt opts[] = {
    {.group = "NPU", .name = "quant", .value = "RECIPE", BT_OPT_AT(bt_obtain_want, quant),
     .type = BT_OPT_STRING, .def = BT_RECIPE_DEFAULT,
     .help = "how the NPU's weights and inputs are quantised: w8a8, w8a16, w4a8 or w4a16, then "
             ":CHOICE,CHOICE and /LAYERS=RECIPE (see docs/numerics.md); compile, run, chat, up and "
             "perplexity also search: auto:ppl=1%"},
    {.group = "NPU", .name = "attention", .value = "KIND", BT_OPT_AT(bt_obtain_want, attention),
     .type = BT_OPT_STRING, .def = "dense",
     .help = "attention of prompts: dense, or " BT_ATTENTION_FORM
             ": an 8-bit estimate chooses that share of the positions, by default 0.2, for rows from "
             "position dense on; with rows=16 and group rows and heads share a choice"},
    {.group = "NPU", .name = "shape-policy", .value = "POLICY", BT_OPT_AT(bt_obtain_want, shape_policy),
     .type = BT_OPT_STRING, .def = BT_SHAPES_DEFAULT,
     .help = "how prompts are cut: " BT_SHAPES_NAMES "; the results are the same"},
    {.group = "NPU", .name = "profile", .value = "PROFILE", BT_OPT_AT(bt_obtain_want, profile),
     .type = BT_OPT_STRING, .def = "host",
     .help = "the device whose limits count: a name that 'baton profiles' lists, or a file of that form; "
             "host has none"},
    {.group = "NPU", .name = "npu-ops", .value = "SET", BT_OPT_AT(bt_obtain_want, npu_ops),
     .type = BT_OPT_CHOICE, .def = "linear", .choices = bt_obtain_ops,
     .help = "what the NPU is asked for: matrix products, or every operator that the profile has"},
    {.group = "NPU", .name = "calib", .value = "FILE", BT_OPT_AT(bt_obtain_want, calib),
     .type = BT_OPT_STRING, .example = "text.txt",
     .help = "text whose activations set the scales; without it one that ships with the program"},
    {.group = "NPU", .name = "require-npu", BT_OPT_AT(bt_obtain_want, require_npu), .type = BT_OPT_FLAG,
     .help = "fail when an operator would fall back to the companion, and list them"},
    {.group = "NPU", .name = "package", .value = "FILE", BT_OPT_AT(bt_obtain_want, package),
     .type = BT_OPT_STRING, .example = "smollm2.npu",
     .help = "run this package (see baton compile) instead of the cache's; its recipe, policy and profile "
             "count"},
};
const bt_opt_group bt_obtain_opts = BT_OPT_GROUP(opts);
const bt_opt_group bt_obtain_compile_opts = {opts, BT_OPT_COUNT(opts) - 1};

/* The options for bt_compile, with all that they point to. */
typedef struct order {
    bt_compile_options options;
    bt_profile profile;
    int32_t *ids;
    char *text;
} order;

static void order_done(order *o)
{
    free(o->ids);
    free(o->text);
}

static bt_err read_start(char **ret, size_t *ret_len, const char *path, bt_fault *fault)
{
    bt_err e = BT_OK;
    size_t len = 0, bad;
    char *text = malloc(CALIB_MAX_BYTES);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        e = bt_fail(fault, BT_EIO, "cannot open '%s': %s", path, strerror(errno));
        goto out;
    }
    if (!text) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory reading '%s'", path);
        goto out;
    }
    while (len < CALIB_MAX_BYTES) {
        const ssize_t n = read(fd, text + len, CALIB_MAX_BYTES - len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            e = bt_fail(fault, BT_EIO, "cannot read '%s': %s", path, strerror(errno));
            goto out;
        }
        if (n == 0) break;
        len += (size_t)n;
    }
    /* The last bytes that were read may be part of a character. */
    if (len == CALIB_MAX_BYTES && !bt_utf8_valid(text, len, &bad) && len - bad < 4) len = bad;
    *ret = text;
    *ret_len = len;
    text = NULL;
out:
    if (fd >= 0) close(fd);
    free(text);
    return e;
}

static bt_err find_text(order *o, const char *path, bt_fault *fault)
{
    o->options.calib_text = bt_calib_text(&o->options.calib_text_len);
    const bt_err e = path ? read_start(&o->text, &o->options.calib_text_len, path, fault) : BT_OK;
    if (o->text) o->options.calib_text = o->text;
    return e;
}

/* Tokenizes the text, which a compilation needs and a key does not. Loading a tokenizer takes longer than all
 * else about a package that is in the cache. */
static bt_err find_ids(order *o, size_t *ret_all, const bt_model *m, bt_fault *fault)
{
    bt_tokenizer *tok = NULL;
    size_t n = 0;
    bt_err e = bt_vocab_load(&tok, m->file, fault);
    if (e == BT_OK)
        e = bt_tokenizer_encode(&o->ids, &n, tok, o->options.calib_text, o->options.calib_text_len,
                                BT_ENCODE_BOS, fault);
    bt_tokenizer_free(tok);
    *ret_all = n;
    o->options.calib_ids = o->ids;
    o->options.calib_len = n < BT_COMPILE_MAX_CALIB ? n : BT_COMPILE_MAX_CALIB;
    return e;
}

/* The context to compile for. All contexts up to the usual one share a package; longer ones share the package
 * of the next doubling. Under max-pad the context is the shape, so each has its own. */
static size_t context(const bt_obtain_want *w, const bt_model *m, size_t wanted)
{
    size_t shared = bt_compile_usual_ctx(m);
    const bool is_max_pad = w->shape_policy && strcmp(w->shape_policy, "max-pad") == 0;
    if (wanted > m->hp.ctx || (wanted && is_max_pad)) return wanted; /* the first is refused later */
    while (shared < wanted) shared *= 2;
    return shared < m->hp.ctx ? shared : m->hp.ctx;
}

/* Refuses llm-int8. Every other recipe gives the same rows whatever the chunks and neighbours, on which
 * handing over and repeating rely. */
static bt_err check_recipe(const bt_recipe *r, const bt_obtain_how *how, bt_fault *fault)
{
    if (!r->llm_int8 || how->allow_llm_int8) return BT_OK;
    return bt_fail(
        fault, BT_EARG,
        "the recipe llm-int8 is for 'baton perplexity' only: its numbers depend on how a prompt is cut");
}

static bt_err order_make(order *o, const bt_model *m, const bt_obtain_want *w, const bt_obtain_how *how,
                         bt_fault *fault)
{
    *o = (order){.options = {.shape_policy = w->shape_policy, .npu_ops = (uint32_t)w->npu_ops,
                             .ctx_tokens = context(w, m, how->ctx_tokens), .isa = how->isa,
                             .donor = how->donor, .donors = how->donors, .progress = how->progress,
                             .ud = how->ud}};
    o->options.profile = &o->profile;
    bt_err e = bt_recipe_parse(&o->options.recipe, w->quant, fault);
    if (e == BT_OK) e = bt_attention_parse(&o->options.attention, w->attention, fault);
    if (e == BT_OK) e = check_recipe(&o->options.recipe, how, fault);
    if (e == BT_OK) e = bt_profile_load(&o->profile, w->profile, fault);
    if (e == BT_OK) e = bt_compile_resolve(&o->options.recipe, &m->hp, &o->profile, fault);
    return e < 0 ? e : find_text(o, w->calib, fault);
}

bt_err bt_obtain_compile(const char *path, const bt_model *m, const bt_obtain_want *w,
                         const bt_obtain_how *how, bt_fault *fault)
{
    order o;
    size_t all;
    bt_err e = order_make(&o, m, w, how, fault);
    if (e == BT_OK) e = find_ids(&o, &all, m, fault);
    if (e == BT_OK) e = bt_compile(path, m, &o.options, how->pool, fault);
    order_done(&o);
    return e;
}

bt_err bt_obtain_calibration(int32_t **ret, size_t *ret_len, const bt_model *m, const bt_obtain_want *w,
                             bt_fault *fault)
{
    order o = {.ids = NULL};
    bt_err e = find_text(&o, w->calib, fault);
    if (e == BT_OK) e = find_ids(&o, ret_len, m, fault);
    if (e == BT_OK) {
        *ret = o.ids;
        o.ids = NULL;
    }
    order_done(&o);
    return e;
}

bt_err bt_obtain_key(char ret[33], const bt_model *m, const bt_obtain_want *w, const bt_obtain_how *how,
                     bt_fault *fault)
{
    order o;
    bt_err e = order_make(&o, m, w, how, fault);
    if (e == BT_OK) e = bt_compile_key(ret, m, &o.options, fault);
    order_done(&o);
    return e;
}

bt_err bt_obtain_needs(bt_compile_needs *ret, const bt_model *m, const bt_obtain_want *w, size_t ctx_tokens,
                       size_t threads, bt_fault *fault)
{
    const bt_obtain_how how = {.ctx_tokens = ctx_tokens, .allow_llm_int8 = true};
    bt_pkg *p = NULL;
    order o;
    bt_err e;
    if (w->package) {
        if ((e = bt_pkg_look(&p, w->package, fault)) < 0) return e;
        const bt_pkg_header *h = bt_pkg_header_of(p);
        *ret = (bt_compile_needs){.package_bytes = h->file_bytes, .arena_bytes = h->arena_bytes,
                                  .max_seq = h->max_seq, .attention = bt_attention_of(h)};
        bt_pkg_close(p);
        return BT_OK;
    }
    e = order_make(&o, m, w, &how, fault);
    if (e == BT_OK) e = bt_compile_needs_of(ret, m, &o.options, threads, fault);
    order_done(&o);
    return e;
}

bt_err bt_obtain_fallbacks(bt_pkg_fallback **ret, size_t *ret_count, const bt_model *m,
                           const bt_obtain_want *w, size_t ctx_tokens, bt_fault *fault)
{
    const bt_obtain_how how = {.ctx_tokens = ctx_tokens, .allow_llm_int8 = true};
    order o;
    bt_err e = order_make(&o, m, w, &how, fault);
    if (e == BT_OK) e = bt_compile_fallbacks_of(ret, ret_count, m, &o.options, fault);
    order_done(&o);
    return e;
}

bt_err bt_obtain_check_recipe(const bt_pkg *p, const bt_obtain_how *how, bt_fault *fault)
{
    bt_recipe r;
    const bt_err e = bt_recipe_parse(&r, bt_pkg_recipe(p), fault);
    return e < 0 ? e : check_recipe(&r, how, fault);
}

static bt_err check_fallbacks(const bt_pkg *p, bt_fault *fault)
{
    return bt_offload_require(bt_pkg_fallbacks(p), bt_pkg_header_of(p)->fallbacks.count, fault);
}

static bt_err check_attention(const bt_pkg_header *h, const bt_obtain_want *w, bt_fault *fault)
{
    char has[BT_ATTENTION_MAX_TEXT], wanted[BT_ATTENTION_MAX_TEXT];
    bt_attention a, of = bt_attention_of(h);
    const bt_err e = bt_attention_parse(&a, w->attention, fault);
    if (e < 0 || !a.ratio_ppm) return e;
    bt_attention_text(wanted, &a);
    bt_attention_text(has, &of);
    return strcmp(has, wanted) == 0
               ? BT_OK
               : bt_fail(fault, BT_EARG, "the package was compiled with --attention %s, not %s", has, wanted);
}

/* A named package has its own recipe, policy and profile; options that ask for others are a mistake. Defaults
 * ask for nothing. */
static bt_err check_named(const bt_pkg *p, const bt_obtain_want *w, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    char recipe[BT_RECIPE_MAX_TEXT] = "", usual[BT_RECIPE_MAX_TEXT];
    bt_recipe r;
    bt_err e = bt_recipe_parse(&r, w->quant, fault);
    if (e < 0) return e;
    bt_recipe_text(recipe, &r);
    if ((e = bt_recipe_parse(&r, NULL, fault)) < 0) return e;
    bt_recipe_text(usual, &r);
    if (strcmp(recipe, usual) != 0 && strcmp(recipe, bt_pkg_recipe(p)) != 0)
        return bt_fail(fault, BT_EARG, "the package was compiled with --quant %s, not %s", bt_pkg_recipe(p),
                       recipe);
    if ((e = check_attention(h, w, fault)) < 0) return e;
    if (w->shape_policy && strcmp(w->shape_policy, BT_SHAPES_DEFAULT) != 0 &&
        strcmp(w->shape_policy, h->shape_policy) != 0)
        return bt_fail(fault, BT_EARG, "the package was compiled with --shape-policy %s, not %s",
                       h->shape_policy, w->shape_policy);
    if (w->profile && strcmp(w->profile, "host") != 0 && strcmp(w->profile, h->profile) != 0)
        return bt_fail(fault, BT_EARG, "the package was compiled with --profile %s, not %s", h->profile,
                       w->profile);
    /* h->npu_ops does not count what the NPU runs in floats. */
    if (w->npu_ops != BT_PKG_OPS_LINEAR && (uint32_t)w->npu_ops != h->npu_ops && !h->float_form)
        return bt_fail(fault, BT_EARG, "the package was compiled with --npu-ops %s, not %s",
                       bt_obtain_ops[h->npu_ops], bt_obtain_ops[w->npu_ops]);
    return w->calib ? bt_fail(fault, BT_EARG, "--calib has no meaning with --package: nothing is compiled")
                    : BT_OK;
}

static bt_err check_opened(const bt_pkg *p, const bt_model *m, const bt_obtain_want *w,
                           const bt_obtain_how *how, bt_fault *fault)
{
    bt_err e = bt_pkg_check_model(p, m, fault);
    if (e == BT_OK) e = bt_obtain_check_recipe(p, how, fault);
    if (e == BT_OK && w->package) e = check_named(p, w, fault);
    return e == BT_OK && w->require_npu ? check_fallbacks(p, fault) : e;
}

/* ---- the cache ---- */

typedef struct job {
    const bt_model *m;
    order *o;
    const bt_obtain_how *how;
} job;

static bt_err make(void *ud, const char *path, bt_fault *fault)
{
    const job *j = ud;
    size_t all;
    const bt_err e = find_ids(j->o, &all, j->m, fault);
    return e < 0 ? e : bt_compile(path, j->m, &j->o->options, j->how->pool, fault);
}

static bt_err open_file(bt_pkg **ret, const char *path, const bt_obtain_how *how, bt_fault *fault)
{
    return how->only_looks ? bt_pkg_look(ret, path, fault) : bt_pkg_open_on(ret, path, how->pool, fault);
}

static bt_err open_made(void **ret, void *ud, const char *path, bt_fault *fault)
{
    const job *j = ud;
    bt_pkg *p = NULL;
    const bt_err e = open_file(&p, path, j->how, fault);
    if (e == BT_OK) *ret = p;
    return e;
}

static bool waiting(void *ud, int64_t waited_ms)
{
    const job *j = ud;
    (void)waited_ms;
    if (j->how->progress)
        j->how->progress(j->how->ud, "waiting for another process that compiles this model", 0, 0);
    return true;
}

/* Describes in words what differs between packages of a model. */
static void name_recipe(char *ret, size_t cap, const order *o)
{
    char attention[BT_ATTENTION_MAX_TEXT];
    char recipe[BT_RECIPE_MAX_TEXT] = "";
    const char *policy = o->options.shape_policy ? o->options.shape_policy : BT_SHAPES_DEFAULT;
    const bool has_profile = strcmp(o->profile.name, "host") != 0,
               has_all = o->options.npu_ops == BT_PKG_OPS_ALL;
    bt_recipe_text(recipe, &o->options.recipe);
    const int n = snprintf(ret, cap, "%s %.300s%s%s%s", recipe, policy, has_profile ? " " : "",
                           has_profile ? o->profile.name : "", has_all ? " all" : "");
    bt_attention_text(attention, &o->options.attention);
    if (o->options.attention.ratio_ppm && n > 0 && (size_t)n < cap)
        snprintf(ret + n, cap - (size_t)n, " %s", attention);
}

static bt_err open_cached(bt_pkg **ret, char *ret_path, const bt_model *m, const bt_obtain_want *w,
                          const bt_obtain_how *how, bt_fault *fault)
{
    char key[33], dir[BT_OBTAIN_PATH_BYTES - 64], recipe[RECIPE_WORDS_BYTES] = "";
    order o;
    job j = {m, &o, how};
    bt_err e = order_make(&o, m, w, how, fault);
    if (e == BT_OK) e = bt_compile_key(key, m, &o.options, fault);
    if (e == BT_OK) e = bt_cache_files_dir(dir, sizeof dir, &bt_cache_files_packages, fault);
    if (e == BT_OK) name_recipe(recipe, sizeof recipe, &o);
    const bt_cache_request r = {.kind = &bt_cache_files_packages,
                                .key = key,
                                .model = m->name,
                                .recipe = recipe,
                                .open = open_made,
                                .make = make,
                                .waiting = waiting,
                                .ud = &j};
    void *p = NULL;
    if (e == BT_OK) e = bt_cache_open(&p, NULL, &r, fault);
    if (e == BT_OK) *ret = p;
    if (e == BT_OK) snprintf(ret_path, BT_OBTAIN_PATH_BYTES, "%s/%s.bpk", dir, key);
    order_done(&o);
    return e;
}

/* Refuses fallbacks that are known without the calibration, before the long part. */
static bt_err check_fallbacks_ahead(const bt_model *m, const bt_obtain_want *w, size_t ctx_tokens,
                                    bt_fault *fault)
{
    bt_pkg_fallback *list = NULL;
    size_t n = 0;
    bt_err e = bt_obtain_fallbacks(&list, &n, m, w, ctx_tokens, fault);
    if (e == BT_OK) e = bt_offload_require(list, n, fault);
    free(list);
    return e;
}

bt_err bt_obtain_open(bt_pkg **ret, char *ret_path, const bt_model *m, const bt_obtain_want *w,
                      const bt_obtain_how *how, bt_fault *fault)
{
    bt_pkg *p = NULL;
    char kept_at[BT_OBTAIN_PATH_BYTES] = "";
    bt_err e = BT_OK;
    if (w->require_npu && !w->package) e = check_fallbacks_ahead(m, w, how->ctx_tokens, fault);
    if (e == BT_OK)
        e = w->package ? open_file(&p, w->package, how, fault) : open_cached(&p, kept_at, m, w, how, fault);
    if (e == BT_OK) e = check_opened(p, m, w, how, fault);
    if (e < 0) {
        bt_pkg_close(p);
        return e;
    }
    if (ret_path) snprintf(ret_path, BT_OBTAIN_PATH_BYTES, "%s", w->package ? w->package : kept_at);
    *ret = p;
    return BT_OK;
}
