/* The weights as the executor sees them: where each matrix and vector of the image is, and the rotary tables. */
#include "decode-node/engine/host/weights.h"
#include "decode-node/engine/host/weights_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WEIGHTS = BT_WEIGHT_OUTPUT + 1 };

const char *const dc_weights_forms[] = {"f16", NULL};

typedef struct slot {                       /* one weight of one layer: a matrix or a vector */
    dc_matrix matrix;
    const float *vector;
} slot;

struct dc_weights {
    const bt_model *model;
    bt_form form;
    slot *slots;                            /* [layers][WEIGHTS]; weights of no layer in layer 0 */
    uint8_t *image;
    size_t image_bytes, rope_elems;
    uint64_t step_bytes;
    float *rope;                            /* cos, then sin */
    bool is_mapped;
};

static slot *slot_of(const dc_weights *w, uint32_t layer, bt_weight which)
{
    const bool is_layers_own = which != BT_WEIGHT_EMBED && which != BT_WEIGHT_OUT_NORM && which != BT_WEIGHT_OUTPUT;
    return &w->slots[is_layers_own ? (size_t)layer * WEIGHTS + which : which];
}

static const float *floats_at(const dc_weights *w, size_t at) { return (const float *)(const void *)(w->image + at); }

/* The slots' pointers into the image. */
static bt_err attach(dc_weights *w, const dc_weights_plan *p, bt_fault *fault)
{
    w->slots = calloc((size_t)w->model->hp.layers * WEIGHTS, sizeof *w->slots);
    if (!w->slots) return bt_fail(fault, BT_ENOMEM, "weights of '%s'", w->model->name);
    for (size_t n = 0; n < p->count; n++) {
        const dc_weights_item *i = &p->item[n];
        slot *s = slot_of(w, i->layer, i->which);
        w->step_bytes += i->bytes;
        if (!bt_weight_is_matrix(i->which)) {
            s->vector = floats_at(w, i->at);
            continue;
        }
        s->matrix = (dc_matrix){.form = i->form, .group = i->group, .panels = w->image + i->at, .n = i->tensor->dim[1], .k = i->tensor->dim[0]};
        if (!i->bias) continue;
        s->matrix.bias = floats_at(w, i->bias_at);
        w->step_bytes += i->bias->dim[0] * sizeof(float);
    }
    return BT_OK;
}

static bt_err make_rope(dc_weights *w, size_t ctx_tokens, bt_fault *fault)
{
    w->rope_elems = ctx_tokens * (w->model->hp.rope_dims / 2);
    w->rope = aligned_alloc(64, (2 * w->rope_elems * sizeof(float) + 63) / 64 * 64);
    if (!w->rope) return bt_fail(fault, BT_ENOMEM, "rotary tables of %zu positions", ctx_tokens);
    bt_model_rope_table(w->rope, w->rope + w->rope_elems, w->model, ctx_tokens);
    return BT_OK;
}

static bt_err convert_into_memory(dc_weights *w, dc_weights_plan *p, const dc_weights_options *o, bt_pool *pool, bt_fault *fault)
{
    const bt_err e = dc_weights_plan_place(p, fault);
    if (e < 0) return e;
    void *image = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (image == MAP_FAILED) return bt_fail(fault, BT_ENOMEM, "%zu bytes of weights: %s", p->bytes, strerror(errno));
    (void)madvise(image, p->bytes, MADV_HUGEPAGE);      /* fewer TLB misses; without it only slower */
    w->image = image;
    w->image_bytes = p->bytes;
    return dc_weights_convert(image, p, o, pool, fault);
}

static bt_err find_form(bt_form *ret, const char *name, bt_fault *fault)
{
    for (int f = 0; dc_weights_forms[f]; f++)
        if (!name || !strcmp(name, dc_weights_forms[f])) {
            *ret = (bt_form)f;
            return BT_OK;
        }
    return bt_fail(fault, BT_EARG, "weights '%.40s': f16", name);
}

bt_err dc_weights_open(dc_weights **ret, const bt_model *m, const dc_weights_options *options, bt_pool *pool, bt_fault *fault)
{
    bt_form form;
    dc_weights_plan plan = {0};
    bt_err e = find_form(&form, options->form, fault);
    if (e < 0) return e;
    if (options->ctx_tokens < 1 || options->ctx_tokens > BT_MODEL_MAX_CTX)
        return bt_fail(fault, BT_EARG, "context of %zu tokens: 1 to %d", options->ctx_tokens, BT_MODEL_MAX_CTX);
    dc_weights *w = calloc(1, sizeof *w);
    if (!w) return bt_fail(fault, BT_ENOMEM, "weights of '%s'", m->name);
    w->model = m;
    w->form = form;
    if ((e = dc_weights_plan_make(&plan, m, form, fault)) < 0) goto out;
    if ((e = convert_into_memory(w, &plan, options, pool, fault)) < 0) goto out;
    if ((e = attach(w, &plan, fault)) < 0) goto out;
    if ((e = make_rope(w, options->ctx_tokens, fault)) < 0) goto out;
    *ret = w;
    w = NULL;
out:
    dc_weights_plan_done(&plan);
    dc_weights_free(w);
    return e;
}

void dc_weights_free(dc_weights *w)
{
    if (!w) return;
    if (w->image) (void)munmap(w->image, w->image_bytes);
    free(w->rope);
    free(w->slots);
    free(w);
}

const dc_matrix *dc_weights_matrix(const dc_weights *w, uint32_t layer, bt_weight which) { return &slot_of(w, layer, which)->matrix; }
const float *dc_weights_vector(const dc_weights *w, uint32_t layer, bt_weight which) { return slot_of(w, layer, which)->vector; }
const float *dc_weights_rope_cos(const dc_weights *w) { return w->rope; }
const float *dc_weights_rope_sin(const dc_weights *w) { return w->rope + w->rope_elems; }
const bt_model *dc_weights_model(const dc_weights *w) { return w->model; }
const char *dc_weights_form(const dc_weights *w) { return dc_weights_forms[w->form]; }
uint64_t dc_weights_step_bytes(const dc_weights *w) { return w->step_bytes; }
bool dc_weights_is_mapped(const dc_weights *w) { return w->is_mapped; }
