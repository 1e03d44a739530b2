/* Fills the image: every weight from the file's own values, on all threads, the same bytes however many there are. */
#include "decode-node/engine/host/weights_private.h"

static bt_err convert_matrix(uint8_t *panels, const dc_weights_item *i, bt_pool *pool, bt_fault *fault)
{
    return bt_packed_f16((uint16_t *)(void *)panels, i->tensor, NULL, pool, fault);
}

bt_err dc_weights_convert(uint8_t *image, dc_weights_plan *p, const dc_weights_options *o, bt_pool *pool, bt_fault *fault)
{
    for (size_t n = 0; n < p->count; n++) {
        const dc_weights_item *i = &p->item[n];
        float *vector = (float *)(void *)(image + i->at), *bias = (float *)(void *)(image + i->bias_at);
        bt_err e = bt_weight_is_matrix(i->which) ? convert_matrix(image + i->at, i, pool, fault)
                                                 : bt_packed_vector(vector, i->tensor, NULL, fault);
        if (e == BT_OK && i->bias) e = bt_packed_vector(bias, i->bias, NULL, fault);
        if (e < 0) return e;
        if (o->progress) o->progress(o->progress_ud, i->at + i->bytes, p->bytes);
    }
    return BT_OK;
}
