/* The compiler's steps in their order, and the key of a compilation. */
#include "npu/compile/compile.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/num.h"
#include "kernels/kernels.h"
#include "model/gguf.h"
#include "npu/quant/awq.h"
#include "npu/compile/compile_private.h"
#include "npu/compile/needs.h"
#include "npu/quant/sites.h"

#include <math.h>
#include <string.h>

enum { MIN_CALIB = 16 };

/* Checks that the text is long enough for a layer: at each site at least one value lies beyond the
 * percentile, and GPTQ in groups has as many rows as a group has inputs. */
static bt_err check_layer(const bt_compile_job *j, uint32_t layer, size_t n, bt_fault *fault)
{
    const bt_hparams *hp = &j->m->hp;
    for (uint32_t kind = 0; kind < BT_SITE_KINDS; kind++) {
        const bt_recipe_layer *r = bt_recipe_of(&j->o->recipe, layer, (bt_site_kind)kind);
        const double p = bt_sites_percentile(r, r->input_bits[kind]), beyond = (100 - p) / 100;
        const uint32_t k = bt_pkg_site_width(kind, hp->dim, hp->heads * hp->head_dim, hp->ffn);
        if (p < 100 && (double)n * k * beyond < 1 - 1e-9)
            return bt_fail(
                fault, BT_EARG,
                "a calibration text of %zu tokens: clip=p%.7g of the %u inputs of site %s needs %.0f; "
                "a longer text, or clip=max",
                n, p, k, bt_site_kind_name((bt_site_kind)kind), ceil((1 - 1e-9) / (beyond * k)));
        if ((r->gptq >> kind & 1) && n < r->group)
            return bt_fail(fault, BT_EARG,
                           "a calibration text of %zu tokens: GPTQ with group=%u needs as many as a group "
                           "has; give a longer --calib, or no-gptq",
                           n, r->group);
    }
    return BT_OK;
}

static bt_err check_statistics(const bt_compile_job *j, size_t n, bt_fault *fault)
{
    if (j->o->recipe.awq && n <= BT_AWQ_TOKENS)
        return bt_fail(fault, BT_EARG, "a calibration text of %zu tokens: awq needs %d or more (--calib)", n,
                       BT_AWQ_TOKENS + 1);
    bt_err e = BT_OK;
    for (uint32_t l = 0; e == BT_OK && l < j->m->hp.layers; l++) e = check_layer(j, l, n, fault);
    return e;
}

static bt_err check_calibration(const bt_compile_job *j, bt_fault *fault)
{
    const bt_compile_options *o = j->o;
    if (o->calib_len < MIN_CALIB)
        return bt_fail(fault, BT_EARG, "a calibration text of %zu tokens: at least %d are needed (--calib)",
                       o->calib_len, MIN_CALIB);
    for (size_t i = 0; i < o->calib_len && i < BT_COMPILE_MAX_CALIB; i++)
        if (o->calib_ids[i] < 0 || (uint32_t)o->calib_ids[i] >= j->m->hp.vocab)
            return bt_fail(fault, BT_EARG, "calibration token %d at %zu: the vocabulary has %u",
                           o->calib_ids[i], i, j->m->hp.vocab);
    return check_statistics(j, o->calib_len < BT_COMPILE_MAX_CALIB ? o->calib_len : BT_COMPILE_MAX_CALIB,
                            fault);
}

/* Refuses a compilation for which memory or disk do not suffice, before anything is computed. */
static bt_err check_machine(const char *path, const bt_model *m, const bt_compile_options *o, bt_pool *pool,
                            bt_fault *fault)
{
    char need[32], have[32];
    bt_compile_needs n;
    const uint64_t free_bytes = bt_memory_free();
    bt_err e = bt_compile_needs_of(&n, m, o, bt_pool_threads(pool), fault);
    if (e == BT_OK) e = bt_file_room(path, n.package_bytes, fault);
    if (e < 0 || !free_bytes || n.memory_bytes <= free_bytes) return e;
    bt_num_size_text(need, sizeof need, n.memory_bytes);
    bt_num_size_text(have, sizeof have, free_bytes);
    return bt_fail(fault, BT_ELIMIT, "compiling needs %s of memory, %s free%s", need, have,
                   bt_recipe_gptq_sites(&o->recipe) ? "; a recipe with no-gptq needs less" : "");
}

bt_err bt_compile(const char *path, const bt_model *m, const bt_compile_options *options, bt_pool *pool,
                  bt_fault *fault)
{
    bt_compile_job *j = NULL;
    bt_err e = bt_compile_begin(&j, m, options, pool, fault);
    if (e == BT_OK) e = check_calibration(j, fault);
    if (e == BT_OK) e = check_machine(path, m, options, pool, fault);
    if (e == BT_OK) e = bt_pkg_writer_new(&j->w, path, fault);
    if (e == BT_OK) e = bt_compile_write(j, fault);
    if (e == BT_OK) e = bt_pkg_writer_finish(j->w, &j->header, fault);
    bt_compile_job_free(j);
    return e;
}

/* Hashes a text and the metadata of the model file, which contain all that turns text into tokens. */
static void add_text(bt_hash_stream *s, const bt_model *m, const char *text, size_t len)
{
    size_t head_bytes;
    const uint8_t *head = bt_gguf_head(&head_bytes, m->file);
    bt_hash_add(s, text, len);
    bt_hash_add(s, head, head_bytes);
}

/* Hashes the shapes that a single prompt is cut into, and all shapes where there are batches or decode
 * shapes. */
static void add_shapes(bt_hash_stream *s, const bt_shapes *p)
{
    for (size_t i = 0; i < p->shapes; i++) {
        const uint32_t shape[] = {p->shape[i].seq_min, p->shape[i].seq, p->shape[i].ctx};
        bt_hash_add(s, shape, sizeof shape);
    }
    if (p->all > p->shapes || p->shape[0].batch > 1) bt_hash_add(s, p->shape, p->all * sizeof *p->shape);
}

bt_err bt_compile_key(char ret[33], const bt_model *m, const bt_compile_options *options, bt_fault *fault)
{
    bt_hash_stream s;
    uint8_t hash[BT_HASH_BYTES];
    char text[BT_RECIPE_MAX_TEXT] = "";
    bt_compile_job *j = NULL;
    /* The profile, but for what its constants stand on. */
    const size_t before = offsetof(bt_profile, time.calibration), rest = before + sizeof(bt_calibration);
    bt_err e = bt_compile_job_new(&j, m, options, NULL, fault);
    if (e == BT_OK && !options->calib_text) e = check_calibration(j, fault);
    if (e < 0) goto out;
    const char *words = options->calib_text;
    const size_t ids = options->calib_len < BT_COMPILE_MAX_CALIB ? options->calib_len : BT_COMPILE_MAX_CALIB;
    const size_t calib = words ? options->calib_text_len : ids;
    const uint32_t version[] = {BT_COMPILE_VERSION, BT_PKG_VERSION,          BT_KERNELS_NUMERIC_VERSION,
                                options->npu_ops,   (uint32_t)j->ctx_tokens, (uint32_t)calib};
    bt_recipe_text(text, &j->o->recipe);
    bt_hash_begin(&s);
    bt_hash_add(&s, version, sizeof version);
    bt_hash_add(&s, m->id, sizeof m->id);
    bt_hash_add(&s, m->name, sizeof m->name);
    bt_hash_add(&s, text, strlen(text) + 1);
    if (options->attention.ratio_ppm) bt_hash_add(&s, &options->attention, sizeof options->attention);
    bt_hash_add(&s, j->shapes.text, strlen(j->shapes.text) + 1);
    add_shapes(&s, &j->shapes);
    bt_hash_add(&s, &j->profile, before);
    bt_hash_add(&s, (const char *)&j->profile + rest, sizeof j->profile - rest);
    if (words) add_text(&s, m, words, calib);
    else bt_hash_add(&s, options->calib_ids, calib * sizeof *options->calib_ids);
    bt_hash_end(hash, &s);
    bt_hash_hex(ret, hash);
out:
    bt_compile_job_free(j);
    return e;
}
