/* The compiler's steps in their order, the header, and the key of a compilation. */
#include "npu/compile/compile.h"
#include "base/hash.h"
#include "kernels/kernels.h"
#include "npu/compile/compile_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MAX_CTX = 32768, MIN_CALIB = 16 };

void bt_compile_progress(const bt_compile_job *j, const char *stage, uint64_t done, uint64_t total)
{
    if (j->o->progress) j->o->progress(j->o->ud, stage, done, total);
}

/* Checks options against each other, the model and the profile. */
static bt_err prepare(bt_compile_job *j, const bt_model *m, const bt_compile_options *o, bt_fault *fault)
{
    bt_err e;
    j->m = m;
    j->o = o;
    if (o->profile) j->profile = *o->profile;
    else if ((e = bt_profile_load(&j->profile, NULL, fault)) < 0) return e;
    j->ctx_tokens = o->ctx_tokens ? o->ctx_tokens : m->hp.ctx < DEFAULT_MAX_CTX ? m->hp.ctx : DEFAULT_MAX_CTX;
    if (j->ctx_tokens > BT_MODEL_MAX_CTX)
        return bt_fail(fault, BT_EARG, "context of %zu tokens: at most %d", j->ctx_tokens, BT_MODEL_MAX_CTX);
    if (o->npu_ops > BT_PKG_OPS_ALL) return bt_fail(fault, BT_EARG, "npu operators %u", o->npu_ops);
    if (o->npu_ops == BT_PKG_OPS_ALL && o->recipe.llm_int8)
        return bt_fail(fault, BT_EARG, "llm-int8 scales rows as they come; npu operators 'all' need static units");
    if ((e = bt_shapes_parse(&j->plan, o->shape_policy, j->ctx_tokens, fault)) < 0) return e;
    const bt_profile *p = &j->profile;
    const size_t rows = bt_shapes_specializations(&j->plan, j->ctx_tokens);
    if (p->max_shapes && rows > p->max_shapes)
        return bt_fail(fault, BT_EARG, "shape policy %s has %zu shapes at %zu tokens, profile %s allows %u", j->plan.text, rows, j->ctx_tokens,
                       p->name, p->max_shapes);
    for (size_t i = 0; i < j->plan.shapes; i++) {
        const bt_shape *s = &j->plan.shape[i];
        if (s->seq_min < s->seq && !p->range_shapes)
            return bt_fail(fault, BT_EARG, "shape policy %s: profile %s has no bounded ranges", j->plan.text, p->name);
        if (p->max_rows && s->seq > p->max_rows)
            return bt_fail(fault, BT_EARG, "shape policy %s has programs of %u rows, profile %s allows %u", j->plan.text, s->seq, p->name,
                           p->max_rows);
    }
    return BT_OK;
}

static bt_err check_calibration(const bt_compile_job *j, bt_fault *fault)
{
    const bt_compile_options *o = j->o;
    if (o->calib_len < MIN_CALIB)
        return bt_fail(fault, BT_EARG, "a calibration text of %zu tokens: at least %d", o->calib_len, MIN_CALIB);
    for (size_t i = 0; i < o->calib_len && i < BT_COMPILE_MAX_CALIB; i++)
        if (o->calib_ids[i] < 0 || (uint32_t)o->calib_ids[i] >= j->m->hp.vocab)
            return bt_fail(fault, BT_EARG, "calibration token %d at %zu: the vocabulary has %u", o->calib_ids[i], i, j->m->hp.vocab);
    return BT_OK;
}

static uint32_t table(bt_compile_job *j, const void *bytes, size_t len) { return bt_pkg_writer_const(j->w, BT_PKG_CONST_TABLE, bytes, len); }

static void write_rotation(bt_compile_job *j, bt_pkg_rotation *to, const bt_hadamard *h, size_t width)
{
    *to = (bt_pkg_rotation){.h_base = BT_PKG_NONE, .sign = BT_PKG_NONE};
    if (!h->base) return;
    to->base = h->base;
    to->log2 = h->log2;
    to->scale = h->scale;
    to->blocks = (uint32_t)(width / bt_hadamard_size(h));
    if (h->base > 1) to->h_base = table(j, h->h, (size_t)h->base * h->base);
    if (h->sign) to->sign = table(j, h->sign, bt_hadamard_size(h));
}

static bt_err write_rope(bt_compile_job *j, bt_fault *fault)
{
    bt_pkg_header *h = &j->header;
    const size_t n = j->ctx_tokens * (j->m->hp.rope_dims / 2);
    float *cos = malloc(n * sizeof *cos), *sin = malloc(n * sizeof *sin);
    int16_t *q = malloc(n * sizeof *q);
    h->rope_cos_q15 = h->rope_sin_q15 = BT_PKG_NONE;
    if (cos && sin && q) {
        bt_model_rope_table(cos, sin, j->m, j->ctx_tokens);
        h->rope_cos = table(j, cos, n * sizeof *cos);
        h->rope_sin = table(j, sin, n * sizeof *sin);
        for (int i = 0; j->npu_ops == BT_PKG_OPS_ALL && i < 2; i++) {
            const float *from = i ? sin : cos;
            for (size_t k = 0; k < n; k++) {
                const float v = rintf(from[k] * 32768);
                q[k] = (int16_t)(v > 32767 ? 32767 : v < -32767 ? -32767 : v);
            }
            *(i ? &h->rope_sin_q15 : &h->rope_cos_q15) = table(j, q, n * sizeof *q);
        }
    }
    const bool made = cos && sin && q;
    free(cos);
    free(sin);
    free(q);
    return made ? BT_OK : bt_fail(fault, BT_ENOMEM, "rotary tables");
}

static bt_err write_header(bt_compile_job *j, bt_fault *fault)
{
    const bt_hparams *hp = &j->m->hp;
    bt_pkg_header *h = &j->header;
    memcpy(h->model_id, j->m->id, sizeof h->model_id);
    h->kernels_version = BT_KERNELS_NUMERIC_VERSION;
    h->rounding = BT_PKG_ROUND_HALF_UP;
    h->npu_ops = j->npu_ops;
    h->flags = (hp->rope_neox ? BT_PKG_FLAG_NEOX : 0u) | (hp->qkv_bias ? BT_PKG_FLAG_QKV_BIAS : 0u) |
               (hp->qk_norm ? BT_PKG_FLAG_QK_NORM : 0u) | (hp->tied_output ? BT_PKG_FLAG_TIED : 0u);
    h->arch = (uint32_t)hp->arch;
    h->layers = hp->layers;
    h->dim = hp->dim;
    h->ffn = hp->ffn;
    h->heads = hp->heads;
    h->kv_heads = hp->kv_heads;
    h->head_dim = hp->head_dim;
    h->vocab = hp->vocab;
    h->ctx_tokens = (uint32_t)j->ctx_tokens;
    h->rope_dims = hp->rope_dims;
    h->rms_eps = hp->rms_eps;
    h->attn_scale = 1.0f / sqrtf((float)hp->head_dim);
    h->rope_base = hp->rope_base;
    h->rope_scale = hp->rope_scale;
    h->embed_type = j->m->embed->type;
    h->embed = bt_pkg_writer_const(j->w, BT_PKG_CONST_WEIGHT, j->m->embed->data, j->m->embed->bytes);
    h->calib_tokens = j->stats->tokens;
    write_rotation(j, &h->r1, bt_fold_r1(j->fold), hp->dim);
    write_rotation(j, &h->r2, bt_fold_r2(j->fold), (size_t)hp->heads * hp->head_dim);
    snprintf(h->model_name, sizeof h->model_name, "%s", j->m->name);
    bt_recipe_text(h->recipe, &j->o->recipe);
    snprintf(h->shape_policy, sizeof h->shape_policy, "%s", j->plan.text);
    snprintf(h->profile, sizeof h->profile, "%s", j->profile.name);
    return write_rope(j, fault);
}

static bt_err make_tables(bt_compile_job *j, bt_fault *fault)
{
    j->tensors = (size_t)j->m->hp.layers * BT_PKG_LAYER_TENSORS + 2;
    j->sites = (size_t)j->m->hp.layers * BT_PKG_LAYER_SITES + 1;
    j->tensor = calloc(j->tensors, sizeof *j->tensor);
    j->site = calloc(j->sites, sizeof *j->site);
    j->smooth = calloc(j->sites, sizeof *j->smooth);
    j->gptq = calloc(j->sites, sizeof *j->gptq);
    j->pruned = calloc(j->sites, sizeof *j->pruned);
    return j->tensor && j->site && j->smooth && j->gptq && j->pruned ? BT_OK : bt_fail(fault, BT_ENOMEM, "compiling");
}

static void done(bt_compile_job *j)
{
    for (size_t i = 0; i < j->sites; i++) {
        if (j->smooth) free(j->smooth[i]);
        if (j->gptq) free(j->gptq[i]);
    }
    free(j->smooth);
    free(j->gptq);
    free(j->tensor);
    free(j->site);
    bt_offload_free(j->place);
    free(j->has_norm);
    free(j->params);
    free(j->pruned);
    bt_graph_free(j->graph);
    bt_calib_free(j->calib);
    bt_fold_free(j->fold);
    bt_pkg_writer_free(j->w);
}

bt_err bt_compile(const char *path, const bt_model *m, const bt_compile_options *options, bt_pool *pool, bt_fault *fault)
{
    bt_compile_job *j = calloc(1, sizeof *j);
    if (!j) return bt_fail(fault, BT_ENOMEM, "compiling");
    j->pool = pool;
    bt_err e = prepare(j, m, options, fault);
    if (e == BT_OK) e = check_calibration(j, fault);
    if (e == BT_OK) e = make_tables(j, fault);
    if (e == BT_OK) e = bt_fold_new(&j->fold, m, options->recipe.r1, options->recipe.r2, pool, fault);
    if (e == BT_OK) e = bt_compile_place(j, fault);
    if (e == BT_OK) e = bt_pkg_writer_new(&j->w, path, fault);
    if (e == BT_OK) e = bt_compile_sites(j, fault);
    if (e == BT_OK) e = write_header(j, fault);
    if (e == BT_OK) e = bt_compile_tensors(j, fault);
    if (e == BT_OK) e = bt_compile_programs(j, fault);
    if (e == BT_OK) e = bt_pkg_writer_finish(j->w, &j->header, fault);
    done(j);
    free(j);
    return e;
}

/* A text and the keys of the model's file, among them all that makes tokens of it. */
static void add_text(bt_hash_stream *s, const bt_model *m, const char *text, size_t len)
{
    size_t head_bytes;
    const uint8_t *head = bt_gguf_head(&head_bytes, m->file);
    bt_hash_add(s, text, len);
    bt_hash_add(s, head, head_bytes);
}

bt_err bt_compile_key(char ret[33], const bt_model *m, const bt_compile_options *options, bt_fault *fault)
{
    bt_hash_stream s;
    uint8_t hash[BT_HASH_BYTES];
    char text[BT_RECIPE_MAX_TEXT] = "";
    bt_compile_job *j = calloc(1, sizeof *j);
    if (!j) return bt_fail(fault, BT_ENOMEM, "compiling");
    bt_err e = prepare(j, m, options, fault);
    if (e == BT_OK && !options->calib_text) e = check_calibration(j, fault);
    if (e < 0) goto out;
    const char *words = options->calib_text;
    const size_t ids = options->calib_len < BT_COMPILE_MAX_CALIB ? options->calib_len : BT_COMPILE_MAX_CALIB;
    const size_t calib = words ? options->calib_text_len : ids;
    const uint32_t version[] = {BT_COMPILE_VERSION, BT_PKG_VERSION, BT_KERNELS_NUMERIC_VERSION, options->npu_ops, (uint32_t)j->ctx_tokens,
                                (uint32_t)calib};
    bt_recipe_text(text, &options->recipe);
    bt_hash_begin(&s);
    bt_hash_add(&s, version, sizeof version);
    bt_hash_add(&s, m->id, sizeof m->id);
    bt_hash_add(&s, m->name, sizeof m->name);
    bt_hash_add(&s, text, sizeof text);
    bt_hash_add(&s, j->plan.text, strlen(j->plan.text) + 1);
    bt_hash_add(&s, j->plan.shape, j->plan.shapes * sizeof *j->plan.shape);
    bt_hash_add(&s, &j->profile, sizeof j->profile);
    if (words) add_text(&s, m, words, calib);
    else bt_hash_add(&s, options->calib_ids, calib * sizeof *options->calib_ids);
    bt_hash_end(hash, &s);
    bt_hash_hex(ret, hash);
out:
    free(j);
    return e;
}
