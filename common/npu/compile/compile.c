/* The compiler's steps in their order, the package's header, and the key of a compilation. */
#include "npu/compile/compile.h"
#include "base/hash.h"
#include "kernels/kernels.h"
#include "npu/compile/compile_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_CALIB = 16 };

static bt_err check_calibration(const bt_compile_job *j, bt_fault *fault)
{
    const bt_compile_options *o = j->o;
    if (o->calib_len < MIN_CALIB)
        return bt_fail(fault, BT_EARG, "a calibration text of %zu tokens: at least %d", o->calib_len,
                       MIN_CALIB);
    for (size_t i = 0; i < o->calib_len && i < BT_COMPILE_MAX_CALIB; i++)
        if (o->calib_ids[i] < 0 || (uint32_t)o->calib_ids[i] >= j->m->hp.vocab)
            return bt_fail(fault, BT_EARG, "calibration token %d at %zu: the vocabulary has %u",
                           o->calib_ids[i], i, j->m->hp.vocab);
    return BT_OK;
}

static uint32_t table(bt_compile_job *j, const void *bytes, size_t len)
{
    return bt_pkg_writer_const(j->w, BT_PKG_CONST_TABLE, bytes, len);
}

static bool rotates_in_floats(const bt_compile_job *j)
{
    for (size_t i = 0; i < j->graph->ops; i++)
        if (j->graph->op[i].kind == BT_OP_ROPE && j->offload->on_npu[i] == BT_PKG_NPU_FLOAT) return true;
    return false;
}

static bt_err write_rope(bt_compile_job *j, bt_fault *fault)
{
    const bt_kernels *ref = bt_kernels_select("ref");
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
        for (int i = 0; rotates_in_floats(j) && i < 2; i++) {
            bt_round16_rows(ref, h->float_form, i ? sin : cos, n, i ? sin : cos, n, 1, n);
            *(i ? &h->rope_sin16 : &h->rope_cos16) = table(j, i ? sin : cos, n * sizeof *cos);
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
    h->float_form = j->offload->float_form;
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
    bt_gguf_let_go(j->m->file, j->m->embed->data, j->m->embed->bytes);
    h->calib_tokens = j->stats->tokens;
    bt_compile_rotation(j, &h->r1, bt_fold_r1(j->fold), hp->dim);
    bt_compile_rotation(j, &h->r2, bt_fold_r2(j->fold), (size_t)hp->heads * hp->head_dim);
    if (bt_fold_r4(j->fold)->base) bt_compile_rotation(j, &h->r4, bt_fold_r4(j->fold), hp->ffn);
    snprintf(h->model_name, sizeof h->model_name, "%s", j->m->name);
    bt_recipe_text(h->recipe, &j->o->recipe);
    snprintf(h->shape_policy, sizeof h->shape_policy, "%s", j->shapes.text);
    snprintf(h->profile, sizeof h->profile, "%s", j->profile.name);
    return write_rope(j, fault);
}

bt_err bt_compile(const char *path, const bt_model *m, const bt_compile_options *options, bt_pool *pool,
                  bt_fault *fault)
{
    bt_compile_job *j = NULL;
    bt_err e = bt_compile_job_new(&j, m, options, pool, fault);
    if (e == BT_OK) e = check_calibration(j, fault);
    if (e == BT_OK)
        e = bt_fold_new(&j->fold, m, bt_recipe_rotations(&options->recipe), j->kernels, pool, fault);
    if (e == BT_OK) e = bt_compile_offload(j, fault);
    if (e == BT_OK) e = bt_pkg_writer_new(&j->w, path, fault);
    if (e == BT_OK) e = bt_compile_sites(j, fault);
    if (e == BT_OK) e = bt_compile_offload_measured(j, fault);
    if (e == BT_OK) e = write_header(j, fault);
    if (e == BT_OK) e = bt_compile_sparse(j, fault);
    if (e == BT_OK) e = bt_compile_tensors(j, fault);
    if (e == BT_OK) e = bt_compile_programs(j, fault);
    if (e == BT_OK) e = bt_pkg_writer_finish(j->w, &j->header, fault);
    bt_compile_job_free(j);
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

/* What prompts alone are cut into, and where there are batches or decode shapes, all. */
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
    bt_err e = bt_compile_job_new(&j, m, options, NULL, fault);
    if (e == BT_OK && !options->calib_text) e = check_calibration(j, fault);
    if (e < 0) goto out;
    const char *words = options->calib_text;
    const size_t ids = options->calib_len < BT_COMPILE_MAX_CALIB ? options->calib_len : BT_COMPILE_MAX_CALIB;
    const size_t calib = words ? options->calib_text_len : ids;
    const uint32_t version[] = {BT_COMPILE_VERSION, BT_PKG_VERSION,          BT_KERNELS_NUMERIC_VERSION,
                                options->npu_ops,   (uint32_t)j->ctx_tokens, (uint32_t)calib};
    bt_recipe_text(text, &options->recipe);
    bt_hash_begin(&s);
    bt_hash_add(&s, version, sizeof version);
    bt_hash_add(&s, m->id, sizeof m->id);
    bt_hash_add(&s, m->name, sizeof m->name);
    bt_hash_add(&s, text, sizeof text);
    if (options->attention.ratio_ppm) bt_hash_add(&s, &options->attention, sizeof options->attention);
    bt_hash_add(&s, j->shapes.text, strlen(j->shapes.text) + 1);
    add_shapes(&s, &j->shapes);
    bt_hash_add(&s, &j->profile, sizeof j->profile);
    if (words) add_text(&s, m, words, calib);
    else bt_hash_add(&s, options->calib_ids, calib * sizeof *options->calib_ids);
    bt_hash_end(hash, &s);
    bt_hash_hex(ret, hash);
out:
    bt_compile_job_free(j);
    return e;
}
