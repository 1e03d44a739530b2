#ifndef DC_WEIGHTS_PRIVATE_H
#define DC_WEIGHTS_PRIVATE_H
#include "decode-node/engine/host/weights.h"

/* Inside the weights: the plan says which form each weight takes and where it lies in the image, the one block of bytes that is
 * filled in memory or in the cache's file. The plan is a function of the model and the form asked for, but for matrices that FP4 cannot
 * hold and that are INT8 then. */
typedef struct dc_weights_item {
    uint32_t layer;
    bt_weight which;
    const bt_gguf_tensor *tensor, *bias;    /* bias: NULL where there is none */
    bt_form form;                           /* of a matrix */
    size_t group;                           /* as in dc_matrix */
    size_t at, bytes;                       /* panels or vector, in the image */
    size_t bias_at;
} dc_weights_item;

typedef struct dc_weights_plan {
    const bt_model *model;
    bt_form form;                           /* as asked for */
    dc_weights_item *item;
    size_t count, bytes;                    /* of the image */
} dc_weights_plan;

bt_err dc_weights_plan_make(dc_weights_plan *ret, const bt_model *m, bt_form form, bt_fault *fault);
void   dc_weights_plan_done(dc_weights_plan *p);    /* a zeroed one is fine */
/* Places the items by their forms, and sets bytes. BT_ELIMIT: more than the address space. */
bt_err dc_weights_plan_place(dc_weights_plan *p, bt_fault *fault);

/* Fills the image: zeroed memory of p->bytes, 64-byte aligned. Errors as dc_weights_open. */
bt_err dc_weights_convert(uint8_t *image, dc_weights_plan *p, const dc_weights_options *o, bt_pool *pool, bt_fault *fault);
#endif
