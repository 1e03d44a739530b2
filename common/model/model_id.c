/* See model_id.h. An id is computed once for each state of a file and then kept in the cache: 16 bytes of
 * it and 16 bytes of their hash. */
#include "model/model_id.h"
#include "model/gguf.h"

#include "base/buf.h"
#include "base/cache.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/num.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 16 << 20, KEPT_BYTES = 2 * BT_HASH_BYTES };

static int by_tensor_name(const void *a, const void *b)
{
    return strcmp((*(const bt_gguf_tensor *const *)a)->name, (*(const bt_gguf_tensor *const *)b)->name);
}

static void add64(bt_hash_stream *h, uint64_t v)
{
    uint8_t b[8];
    bt_put64(b, v);
    bt_hash_add(h, b, sizeof b);
}

static void add_f32(bt_hash_stream *h, float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    add64(h, u);
}

/* Piece by piece, none of which stays in this process's memory. */
static void add_data(bt_hash_stream *h, const bt_gguf *file, const bt_gguf_tensor *t)
{
    for (size_t at = 0, n; at < t->bytes; at += n) {
        n = t->bytes - at < PIECE_BYTES ? t->bytes - at : PIECE_BYTES;
        bt_hash_add(h, t->data + at, n);
        bt_gguf_let_go(file, t->data + at, n);
    }
}

/* Adds what changes rows of KV beyond base, scale and tensors; a model without such settings keeps its id. */
static void add_rope(bt_hash_stream *h, const bt_hparams *hp)
{
    const bt_rope *r = &hp->rope;
    if (r->kind != BT_ROPE_YARN && r->kind != BT_ROPE_LONG && r->magnitude == 1.0f) return;
    add64(h, (uint64_t)r->kind);
    add_f32(h, r->magnitude);
    if (r->kind == BT_ROPE_YARN) add64(h, r->original_ctx);
    if (r->kind == BT_ROPE_LONG) add64(h, hp->ctx > r->original_ctx);
    add_f32(h, r->beta_fast);
    add_f32(h, r->beta_slow);
}

static void add_multipliers(bt_hash_stream *h, const bt_hparams *hp)
{
    if (bt_arch_of(hp->arch)->multipliers == BT_ARCH_ONES) return;
    add_f32(h, hp->times.scores);
    add_f32(h, hp->times.embed);
    add_f32(h, hp->times.add);
    add_f32(h, hp->times.logits);
}

/* The shapes of tensors say how many experts there are. */
static void add_experts(bt_hash_stream *h, const bt_hparams *hp)
{
    if (hp->experts) add64(h, hp->experts_used);
}

/* Each rule that the model has, by its place in the list. */
static void add_rules(bt_hash_stream *h, const bt_rules *r)
{
    uint64_t at = 0;
#define ADD(type, name) \
    if (at++, r->name > 0) { \
        add64(h, at); \
        add_f32(h, (float)r->name); \
    }
    BT_RULE_LIST(ADD)
#undef ADD
}

/* Tensors in the order of their names, so that a file written in another order is the same model. */
static bt_err identify(bt_model *m, bt_fault *fault)
{
    const size_t n = bt_gguf_tensor_count(m->file);
    const bt_gguf_tensor **t = calloc(n, sizeof *t);
    if (!t) return bt_fail(fault, BT_ENOMEM, "out of memory hashing %zu tensors", n);
    for (size_t i = 0; i < n; i++) t[i] = bt_gguf_tensor_at(m->file, i);
    qsort(t, n, sizeof *t, by_tensor_name);
    bt_hash_stream h;
    bt_hash_begin(&h);
    const bt_hparams *hp = &m->hp;
    add64(&h, (uint64_t)hp->arch);
    add64(&h, hp->layers);
    add64(&h, hp->heads);
    add64(&h, hp->kv_heads);
    add64(&h, hp->head_dim);
    add64(&h, hp->rope_dims);
    add64(&h, hp->rope_neox);
    add_f32(&h, hp->rope_base);
    add_f32(&h, hp->rope_scale);
    add_f32(&h, hp->rms_eps);
    add_rope(&h, hp);
    add_multipliers(&h, hp);
    add_experts(&h, hp);
    add_rules(&h, &hp->rules);
    for (size_t i = 0; i < n; i++) {
        bt_hash_add(&h, t[i]->name, strlen(t[i]->name) + 1);
        add64(&h, t[i]->type);
        for (int d = 0; d < BT_GGUF_MAX_DIMS; d++) add64(&h, t[i]->dim[d]);
        add_data(&h, m->file, t[i]);
    }
    bt_hash_end(m->id, &h);
    free(t);
    return BT_OK;
}

/* ---- the cache ---- */

/* Its `ret` is the model itself: the id has been put there. */
static bt_err open_kept(void **ret, void *ud, const char *path, bt_fault *fault)
{
    bt_model *m = ud;
    uint8_t hash[BT_HASH_BYTES];
    bt_buf b;
    bt_buf_init(&b, KEPT_BYTES);
    bt_err e = bt_file_read(&b, path, fault);
    if (e == BT_OK && b.len != KEPT_BYTES) e = BT_EFORMAT;
    if (e == BT_OK) bt_hash128(hash, b.data, sizeof m->id);
    if (e == BT_OK && memcmp(hash, b.data + sizeof m->id, sizeof hash) != 0) e = BT_EFORMAT;
    if (e == BT_OK) memcpy(m->id, b.data, sizeof m->id);
    if (e == BT_OK) *ret = m;
    bt_buf_done(&b);
    return e;
}

static bt_err make_kept(void *ud, const char *path, bt_fault *fault)
{
    bt_model *m = ud;
    uint8_t bytes[KEPT_BYTES];
    const bt_err e = identify(m, fault);
    if (e < 0) return e;
    memcpy(bytes, m->id, sizeof m->id);
    bt_hash128(bytes + sizeof m->id, m->id, sizeof m->id);
    return bt_file_replace(path, bytes, sizeof bytes, 0644, fault);
}

bt_err bt_model_id_find(bt_model *m, bt_fault *fault)
{
    char key[BT_HASH_HEX_CHARS];
    void *opened;
    const uint8_t *state = bt_gguf_state(m->file);
    if (!state) return identify(m, fault);
    const bt_cache_request r = {.kind = &bt_cache_files_ids,
                                .key = bt_hash_hex(key, state),
                                .model = m->name,
                                .open = open_kept,
                                .make = make_kept,
                                .ud = m};
    const bt_err e = bt_cache_open(&opened, NULL, &r, NULL);
    return e < 0 ? identify(m, fault) : BT_OK; /* no cache here: an id all the same */
}
