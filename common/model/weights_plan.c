/* Decides the form of each matrix and the place of each weight in the image. */
#include "base/num.h"
#include "model/gguf.h"
#include "model/weights_private.h"
#include "kernels/kernels.h"
#include "model/quant.h"

#include <stdlib.h>

enum { ALIGN = 64 };

/* FP4 takes 5 bits a weight; does the file take more? */
static bool is_finer_than_fp4(const bt_gguf_tensor *t)
{
    const bt_quant_info *q = bt_quant_find(t->type);
    return 8 * q->block_bytes > 5 * q->block_elems;
}

static void choose_form(bt_weights_item *i, bt_form form)
{
    const uint32_t type = i->tensor->type;
    i->form = form;
    i->group = 0;
    i->is_exact = false;
    if (form == BT_FORM_F16) return;
    i->group = BT_FORM_GROUP;
    if (type == BT_QUANT_Q8_0) {
        i->form = BT_FORM_INT8;
        i->is_exact = true;
    } else if (form == BT_FORM_INT8) {
        i->group = i->tensor->dim[0];
    } else if (type == BT_QUANT_MXFP4) {
        i->form = BT_FORM_MX;
        i->is_exact = true;
    } else if (type == BT_QUANT_Q4_0 || type == BT_QUANT_Q4_1) {
        i->is_exact = true;
    } else if (i->which == BT_WEIGHT_OUTPUT && is_finer_than_fp4(i->tensor)) {
        i->form = BT_FORM_INT8;
    }
}

void bt_weights_plan_fall_back(bt_weights_item *i)
{
    i->form = BT_FORM_INT8;
    i->group = BT_FORM_GROUP;
    i->is_exact = i->tensor->type == BT_QUANT_Q4_0; /* w = d (q - 8) */
}

void bt_weights_plan_choose(bt_weights_plan *p)
{
    for (size_t n = 0; n < p->count; n++)
        if (bt_weight_is_matrix(p->item[n].which)) choose_form(&p->item[n], p->form);
}

bt_err bt_weights_plan_make(bt_weights_plan *ret, const bt_model *m, bt_form form, bt_fault *fault)
{
    bt_weights_plan p = {.model = m, .form = form};
    p.item = calloc(((size_t)m->hp.layers + 1) * BT_WEIGHT_COUNT, sizeof *p.item);
    if (!p.item) return bt_fail(fault, BT_ENOMEM, "out of memory planning weights");
    uint32_t layer = 0;
    for (bt_weight w = BT_WEIGHT_NONE; (w = bt_weight_next(m, &layer, w));)
        p.item[p.count++] =
            (bt_weights_item){.layer = layer, .which = w, .tensor = bt_weight_tensor(m, layer, w),
                              .bias = bt_weight_bias(m, layer, w)};
    bt_weights_plan_choose(&p);
    *ret = p;
    return BT_OK;
}

void bt_weights_plan_done(bt_weights_plan *p) { free(p->item); }

/* count elements more at the end of the image; false on overflow. */
static bool add(size_t *ret_at, size_t *end, size_t count, size_t elem_bytes)
{
    size_t bytes;
    *ret_at = *end;
    if (!bt_mul_size(&bytes, count, elem_bytes) || !bt_add_size(&bytes, bytes, ALIGN - 1)) return false;
    return bt_add_size(end, *end, bytes & ~(size_t)(ALIGN - 1));
}

static bool place_item(bt_weights_item *i, size_t *end)
{
    const bool is_matrix = bt_weight_is_matrix(i->which);
    const bt_gguf_tensor *t = i->tensor;
    const size_t count = is_matrix ? bt_matmul_panels(t->dim[1]) * t->dim[2] : t->dim[0] * t->rows;
    const size_t elem_bytes = is_matrix ? bt_form_panel_bytes(i->form, i->group, t->dim[0]) : sizeof(float);
    bool fits = add(&i->at, end, count, elem_bytes);
    i->bytes = count * elem_bytes;
    if (i->bias) fits = fits && add(&i->bias_at, end, i->bias->dim[0] * i->bias->rows, sizeof(float));
    i->end = *end;
    return fits;
}

/* The output norm first, then the layers, all in one place. */
static bool place_by_layer(bt_weights_plan *p, size_t *end)
{
    bool fits = true;
    for (size_t n = 0; fits && n < p->count; n++)
        if (p->item[n].which == BT_WEIGHT_OUT_NORM) fits = place_item(&p->item[n], end);
    const size_t begin = *end;
    size_t at = begin;
    uint32_t layer = 0;
    for (size_t n = 0; fits && n < p->count; n++) {
        bt_weights_item *i = &p->item[n];
        if (!bt_weight_is_layers(i->which)) continue;
        if (i->layer != layer) at = begin;
        layer = i->layer;
        fits = place_item(i, &at);
        if (at > *end) *end = at;
    }
    return fits;
}

bt_err bt_weights_plan_place(bt_weights_plan *p, bt_fault *fault)
{
    size_t end = 0, front;
    bool fits = add(&front, &end, BT_WEIGHTS_HEADER_BYTES + p->count * BT_WEIGHTS_ENTRY_BYTES, 1);
    if (p->by_layer) fits = fits && place_by_layer(p, &end);
    for (size_t n = 0; fits && !p->by_layer && n < p->count; n++) fits = place_item(&p->item[n], &end);
    if (!fits)
        return bt_fail(fault, BT_ELIMIT, "weights of '%s' do not fit the address space", p->model->name);
    p->bytes = end;
    return BT_OK;
}
