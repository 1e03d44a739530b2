/* Decides the form of each matrix and the place of each weight in the image. */
#include "decode-node/engine/host/weights_private.h"
#include "base/num.h"
#include "kernels/kernels.h"

#include <stdlib.h>

enum { ALIGN = 64 };

static void choose_form(dc_weights_item *i, bt_form form)
{
    i->form = form;
    i->group = 0;
}

bt_err dc_weights_plan_make(dc_weights_plan *ret, const bt_model *m, bt_form form, bt_fault *fault)
{
    dc_weights_plan p = {.model = m, .form = form};
    p.item = calloc(((size_t)m->hp.layers + 1) * BT_WEIGHT_OUTPUT, sizeof *p.item);
    if (!p.item) return bt_fail(fault, BT_ENOMEM, "planning weights");
    uint32_t layer = 0;
    for (bt_weight w = BT_WEIGHT_NONE; (w = bt_weight_next(m, &layer, w));) {
        dc_weights_item *i = &p.item[p.count++];
        i->layer = layer;
        i->which = w;
        i->tensor = bt_weight_tensor(m, layer, w);
        i->bias = bt_weight_bias(m, layer, w);
        if (bt_weight_is_matrix(w)) choose_form(i, form);
    }
    *ret = p;
    return BT_OK;
}

void dc_weights_plan_done(dc_weights_plan *p) { free(p->item); }

/* count elements more at the end of the image; false on overflow. */
static bool add(size_t *ret_at, size_t *end, size_t count, size_t elem_bytes)
{
    size_t bytes;
    *ret_at = *end;
    if (!bt_mul_size(&bytes, count, elem_bytes) || !bt_add_size(&bytes, bytes, ALIGN - 1)) return false;
    return bt_add_size(end, *end, bytes & ~(size_t)(ALIGN - 1));
}

static size_t panel_bytes(const dc_weights_item *i)
{
    return i->form == BT_FORM_F16 ? 32 * i->tensor->dim[0] : 0;
}

bt_err dc_weights_plan_place(dc_weights_plan *p, bt_fault *fault)
{
    size_t end = 0;
    bool fits = true;
    for (size_t n = 0; fits && n < p->count; n++) {
        dc_weights_item *i = &p->item[n];
        const bool is_matrix = bt_weight_is_matrix(i->which);
        const size_t count = is_matrix ? bt_matmul_panels(i->tensor->dim[1]) : i->tensor->dim[0];
        const size_t elem_bytes = is_matrix ? panel_bytes(i) : sizeof(float);
        fits = add(&i->at, &end, count, elem_bytes);
        i->bytes = count * elem_bytes;
        if (i->bias) fits = fits && add(&i->bias_at, &end, i->bias->dim[0], sizeof(float));
    }
    if (!fits) return bt_fail(fault, BT_ELIMIT, "weights of '%s' do not fit the address space", p->model->name);
    p->bytes = end;
    return BT_OK;
}
