/* The weights as the executor sees them: where each matrix and vector of the image is, and the rotary tables.
 * The image is mapped from the cache, or filled in memory. */
#include "model/weights.h"
#include "base/cache.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/hash.h"
#include "model/gguf.h"
#include "model/weights_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const bt_weights_forms[] = {"f16", "int8", "fp4", NULL};

struct bt_weights {
    const bt_model *model;
    bt_form form;
    bt_weights_layer *layer; /* [layers + 1]; the last: weights of no layer */
    uint8_t *image;
    size_t image_bytes, rope_elems, ctx_tokens;
    uint64_t step_bytes;
    float *rope; /* cos, then sin; then those of layers with a window */
    bool is_mapped;
    bt_weights_plan plan;            /* by layer; else nothing */
    const bt_weights_source *source; /* by layer */
};

static const float *floats_at(const bt_weights *w, size_t at)
{
    return (const float *)(const void *)(w->image + at);
}

/* The bytes of an item that a step of one row reads. */
static uint64_t step_bytes(const bt_weights_item *i, const bt_hparams *hp)
{
    const size_t bias = i->bias ? i->bias->dim[0] * i->bias->rows * sizeof(float) : 0,
                 experts = bt_weight_is_matrix(i->which) ? i->tensor->dim[2] : 1;
    return (i->bytes + bias) / experts * (experts > 1 ? hp->experts_used : 1);
}

/* Where each weight of the image is. */
static bt_err attach(bt_weights *w, const bt_weights_plan *p, bt_fault *fault)
{
    const uint32_t layers = w->model->hp.layers;
    w->layer = calloc((size_t)layers + 1, sizeof *w->layer);
    if (!w->layer) return bt_fail(fault, BT_ENOMEM, "out of memory for the weights of '%s'", w->model->name);
    for (size_t n = 0; n < p->count; n++) {
        const bt_weights_item *i = &p->item[n];
        bt_weights_layer *l = &w->layer[bt_weight_is_layers(i->which) ? i->layer : layers];
        w->step_bytes += step_bytes(i, &w->model->hp);
        bt_weights_matrix *matrix = &l->is[i->which].matrix;
        if (i->bias) matrix->bias = floats_at(w, i->bias_at);
        if (!bt_weight_is_matrix(i->which)) {
            l->is[i->which].vector = floats_at(w, i->at);
            continue;
        }
        const size_t experts = i->tensor->dim[2];
        *matrix = (bt_weights_matrix){.form = i->form,
                                      .group = i->group,
                                      .panels = i->bytes ? w->image + i->at : NULL,
                                      .bias = matrix->bias,
                                      .n = i->tensor->dim[1],
                                      .k = i->tensor->dim[0],
                                      .experts = experts,
                                      .expert_bytes = experts > 1 ? i->bytes / experts : 0};
    }
    return BT_OK;
}

static bt_err make_rope(bt_weights *w, size_t ctx_tokens, bt_fault *fault)
{
    w->ctx_tokens = ctx_tokens;
    w->rope_elems = ctx_tokens * (w->model->hp.rope_dims / 2);
    const size_t tables = bt_hparams_rope_tables(&w->model->hp);
    w->rope = aligned_alloc(64, (tables * 2 * w->rope_elems * sizeof(float) + 63) / 64 * 64);
    if (!w->rope)
        return bt_fail(fault, BT_ENOMEM, "out of memory for rotary tables of %zu positions", ctx_tokens);
    for (size_t t = 0; t < tables; t++)
        bt_model_rope_table(w->rope + 2 * t * w->rope_elems, w->rope + (2 * t + 1) * w->rope_elems, w->model,
                            t, ctx_tokens);
    return BT_OK;
}

/* ---- the image ---- */

typedef struct filling { /* of one image */
    bt_weights_plan plan;
    const bt_weights_options *options;
    bt_pool *pool;
    int fd; /* of the file that is filled; -1: memory */
    uint8_t *image;
    size_t bytes; /* mapped at image */
} filling;

static void drop_image(filling *f)
{
    if (f->image) (void)munmap(f->image, f->bytes);
    f->image = NULL;
}

/* Zeroed room for the plan's image, in memory or in the file. The file's blocks are claimed now: a full
 * disk must not kill the process later. */
static bt_err make_room(filling *f, bt_fault *fault)
{
    drop_image(f);
    f->bytes = f->plan.bytes;
    if (f->fd >= 0) {
        const int error = ftruncate(f->fd, 0) < 0 ? errno : posix_fallocate(f->fd, 0, (off_t)f->bytes);
        if (error)
            return bt_fail(fault, BT_EIO, "no room on disk for %zu bytes of weights: %s", f->bytes,
                           strerror(error));
    }
    const int how = f->fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *image = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, how, f->fd, 0);
    if (image == MAP_FAILED)
        return bt_fail(fault, BT_ENOMEM, "cannot map %zu MiB of weights: %s", f->bytes >> 20,
                       strerror(errno));
    (void)madvise(image, f->bytes, MADV_HUGEPAGE); /* fewer TLB misses; without it only slower */
    f->image = image;
    return BT_OK;
}

static bt_err fill(filling *f, bt_fault *fault)
{
    bt_weights_item *overflowed = NULL;
    const char *what = f->fd >= 0 ? "converting weights (once, then kept)" : "converting weights";
    bt_weights_plan_choose(&f->plan);
    do {
        if (overflowed) bt_weights_plan_fall_back(overflowed);
        bt_err e = bt_weights_plan_place(&f->plan, fault);
        if (e == BT_OK) e = make_room(f, fault);
        if (e == BT_OK)
            e = bt_weights_convert(&overflowed, f->image, &f->plan, f->options, what, f->pool, fault);
        if (e < 0) return e;
    } while (overflowed); /* at most once a matrix */
    return BT_OK;
}

static bt_err make_file(void *ud, const char *path, bt_fault *fault)
{
    filling *f = ud;
    bt_file_new file;
    bt_err e = bt_file_room(path, f->plan.bytes, fault);
    if (e == BT_OK) e = bt_file_begin(&file, path, fault);
    if (e != BT_OK) return e;
    f->fd = file.fd;
    e = fill(f, fault);
    if (e == BT_OK) bt_weights_seal(f->image, &f->plan, f->pool);
    drop_image(f);
    if (e == BT_OK) e = bt_file_keep(&file, 0644, fault);
    bt_file_done(&file);
    f->fd = -1;
    return e;
}

static bt_err check_content(void *ud, bt_fault *fault)
{
    const filling *f = ud;
    return bt_weights_check_content(&f->plan, f->image, f->pool, fault);
}

static bt_err open_file(void **ret, void *ud, const char *path, bt_fault *fault)
{
    filling *f = ud;
    const uint8_t *image;
    size_t bytes;
    bt_file_state state;
    bool ran;
    bt_err e = bt_file_map(&image, &bytes, &state, path, fault);
    if (e < 0) return e;
    e = bt_weights_check(&f->plan, image, bytes, fault);
    filling checked = {.plan = f->plan, .pool = f->pool, .image = (uint8_t *)(uintptr_t)image};
    if (e == BT_OK) e = bt_checked_once(&ran, &state, check_content, &checked, fault);
    if (e < 0) bt_file_unmap(image, bytes);
    else *ret = (void *)(uintptr_t)image;
    return e;
}

static bool waiting(void *ud, int64_t waited_ms)
{
    const filling *f = ud;
    (void)waited_ms;
    if (f->options->progress)
        f->options->progress(f->options->progress_ud, "waiting for another process that converts the weights",
                             0, 0);
    return true;
}

/* By model and form. */
static const char *make_key(char key[BT_HASH_HEX_CHARS], const bt_weights *w)
{
    uint8_t named[sizeof w->model->id + 1], hash[BT_HASH_BYTES];
    memcpy(named, w->model->id, sizeof w->model->id);
    named[sizeof w->model->id] = (uint8_t)w->form;
    bt_hash128(hash, named, sizeof named);
    return bt_hash_hex(key, hash);
}

static bt_err open_cached(bt_weights *w, filling *f, bt_fault *fault)
{
    char key[BT_HASH_HEX_CHARS];
    const bt_cache_request r = {.kind = &bt_cache_files_weights,
                                .key = make_key(key, w),
                                .model = w->model->name,
                                .recipe = bt_weights_forms[w->form],
                                .dir = f->options->cache_dir,
                                .open = open_file,
                                .make = make_file,
                                .waiting = waiting,
                                .ud = f};
    void *image = NULL;
    const bt_err e = bt_cache_open(&image, NULL, &r, fault);
    if (e < 0) return e;
    w->image = image;
    w->image_bytes = f->plan.bytes;
    w->is_mapped = true;
    return BT_OK;
}

/* Whether weights of this size belong into the cache. */
static bool is_for_cache(const filling *f)
{
    const char *dir = f->options->source ? "" : f->options->cache_dir; /* what a source gives is in no file */
    return dir ? *dir != 0 : f->plan.bytes >= BT_WEIGHTS_CACHE_LEAST_BYTES;
}

static bt_err open_by_layer(filling *f, bt_fault *fault)
{
    const bt_err e = make_room(f, fault);
    return e < 0 ? e : bt_weights_convert_common(f->image, &f->plan, f->options->source, fault);
}

static bt_err open_image(bt_weights *w, filling *f, bt_fault *fault)
{
    bt_err e = bt_weights_plan_place(&f->plan, fault);
    if (e < 0) return e;
    if (is_for_cache(f)) {
        e = open_cached(w, f, fault);
        if (e != BT_EIO && e != BT_EAGAIN) return e; /* these: no cache here, but weights all the same */
    }
    e = f->plan.by_layer ? open_by_layer(f, fault) : fill(f, fault);
    w->image = f->image;
    w->image_bytes = f->bytes;
    return e;
}

static bt_err find_form(bt_form *ret, const char *name, bt_fault *fault)
{
    for (int f = 0; bt_weights_forms[f]; f++)
        if (!name || !strcmp(name, bt_weights_forms[f])) {
            *ret = (bt_form)f;
            return BT_OK;
        }
    return bt_fail(fault, BT_EARG, "weights '%.40s' are none of f16, int8 and fp4", name);
}

bt_err bt_weights_open(bt_weights **ret, const bt_model *m, const bt_weights_options *options, bt_pool *pool,
                       bt_fault *fault)
{
    bt_form form = BT_FORM_F16;
    filling f = {.options = options, .pool = pool, .fd = -1};
    bt_err e = find_form(&form, options->form, fault);
    if (e < 0) return e;
    if (options->ctx_tokens < 1 || options->ctx_tokens > BT_MODEL_MAX_CTX)
        return bt_fail(fault, BT_EARG, "a context of %zu tokens; 1 to %d are possible", options->ctx_tokens,
                       BT_MODEL_MAX_CTX);
    if (options->by_layer && !options->source)
        return bt_fail(fault, BT_EARG, "weights by layer are those of a source");
    if (options->source && form != BT_FORM_F16)
        return bt_fail(fault, BT_EARG, "weights of another source have the form f16, not %s", options->form);
    bt_weights *w = calloc(1, sizeof *w);
    if (!w) return bt_fail(fault, BT_ENOMEM, "out of memory for the weights of '%s'", m->name);
    w->model = m;
    w->form = form;
    if ((e = bt_weights_plan_make(&f.plan, m, form, fault)) < 0) goto out;
    f.plan.by_layer = options->by_layer;
    if ((e = open_image(w, &f, fault)) < 0) goto out;
    if ((e = attach(w, &f.plan, fault)) < 0) goto out;
    if ((e = make_rope(w, options->ctx_tokens, fault)) < 0) goto out;
    if (options->by_layer) {
        w->plan = f.plan;
        w->source = options->source;
        f.plan = (bt_weights_plan){0};
    }
    *ret = w;
    w = NULL;
out:
    bt_weights_plan_done(&f.plan);
    bt_weights_free(w);
    return e;
}

bt_err bt_weights_hold(bt_weights *w, uint32_t layer, bt_pool *pool, bt_fault *fault)
{
    return bt_weights_convert_layer(w->image, &w->plan, layer, w->source, pool, fault);
}

static bool is_kept(const bt_weights *w, const char *cache_dir)
{
    char key[BT_HASH_HEX_CHARS], dir[4096], path[4096 + 64];
    if (!cache_dir && bt_cache_files_dir(dir, sizeof dir, &bt_cache_files_weights, NULL) < 0) return false;
    snprintf(path, sizeof path, "%s/%s%s", cache_dir ? cache_dir : dir, make_key(key, w),
             bt_cache_files_weights.suffix);
    return access(path, F_OK) == 0;
}

bt_err bt_weights_keep(const bt_model *m, const bt_weights_options *options, bt_pool *pool, bt_fault *fault)
{
    bt_weights w = {.model = m};
    filling f = {.options = options, .pool = pool, .fd = -1};
    bt_err e = find_form(&w.form, options->form, fault);
    if (e < 0) return e;
    if ((e = bt_weights_plan_make(&f.plan, m, w.form, fault)) < 0) goto out;
    if ((e = bt_weights_plan_place(&f.plan, fault)) < 0) goto out;
    if (!is_for_cache(&f) || is_kept(&w, options->cache_dir)) goto out;
    e = open_cached(&w, &f, fault);
    if (e == BT_OK) (void)munmap(w.image, w.image_bytes);
    if (e == BT_EIO || e == BT_EAGAIN) e = BT_OK; /* no cache here */
out:
    bt_weights_plan_done(&f.plan);
    return e;
}

bt_err bt_weights_bytes(uint64_t *ret, const bt_model *m, bt_form form, bool by_layer, bt_fault *fault)
{
    bt_weights_plan p;
    bt_err e = bt_weights_plan_make(&p, m, form, fault);
    if (e < 0) return e;
    p.by_layer = by_layer;
    e = bt_weights_plan_place(&p, fault);
    if (e == BT_OK) *ret = p.bytes;
    bt_weights_plan_done(&p);
    return e;
}

bt_err bt_weights_bytes_of_step(uint64_t *ret, const bt_model *m, bt_form form, bt_fault *fault)
{
    bt_weights_plan p;
    bt_err e = bt_weights_plan_make(&p, m, form, fault);
    if (e < 0) return e;
    e = bt_weights_plan_place(&p, fault);
    if (e == BT_OK) *ret = 0;
    for (size_t n = 0; e == BT_OK && n < p.count; n++) *ret += step_bytes(&p.item[n], &m->hp);
    bt_weights_plan_done(&p);
    return e;
}

void bt_weights_free(bt_weights *w)
{
    if (!w) return;
    if (w->image) (void)munmap(w->image, w->image_bytes);
    bt_weights_plan_done(&w->plan);
    free(w->rope);
    free(w->layer);
    free(w);
}

const bt_weights_layer *bt_weights_of_layer(const bt_weights *w, uint32_t layer)
{
    const uint32_t layers = w->model->hp.layers;
    return &w->layer[layer < layers ? layer : layers];
}

const bt_weights_matrix *bt_weights_matrix_of(const bt_weights *w, uint32_t layer, bt_weight which)
{
    return &bt_weights_of_layer(w, bt_weight_is_layers(which) ? layer : UINT32_MAX)->is[which].matrix;
}

const float *bt_weights_vector_of(const bt_weights *w, uint32_t layer, bt_weight which)
{
    return bt_weights_of_layer(w, bt_weight_is_layers(which) ? layer : UINT32_MAX)->is[which].vector;
}

const float *bt_weights_rope_cos(const bt_weights *w, uint32_t layer)
{
    return w->rope + 2 * bt_hparams_rope_table(&w->model->hp, layer) * w->rope_elems;
}
const float *bt_weights_rope_sin(const bt_weights *w, uint32_t layer)
{
    return bt_weights_rope_cos(w, layer) + w->rope_elems;
}
const bt_model *bt_weights_model(const bt_weights *w) { return w->model; }
size_t bt_weights_ctx_tokens(const bt_weights *w) { return w->ctx_tokens; }
const char *bt_weights_form(const bt_weights *w) { return bt_weights_forms[w->form]; }
uint64_t bt_weights_step_bytes(const bt_weights *w) { return w->step_bytes; }
bool bt_weights_is_mapped(const bt_weights *w) { return w->is_mapped; }
