#ifndef BT_MODEL_WEIGHTS_PRIVATE_H
#define BT_MODEL_WEIGHTS_PRIVATE_H
#include "model/weights.h"

/* Inside the weights: the plan says which form each weight takes and where it lies in the image, the one block of bytes
 * that is filled in memory or in the cache's file. The plan is a function of the model and the form asked for, except
 * for matrices that FP4 cannot hold, which are found while converting.
 *
 * Image, integers little-endian:
 *      0  magic "BTWEIGHT"       8  u32 version     12  u32 form asked for (bt_form)     16  model id (bt_model.id)
 *     32  u64 bytes of all      40  u32 items       44  u32 0
 *     48  XXH3-128 of the header, with zeroes here, and the table
 *     64  the table, 48 bytes an item, in the order of bt_weight_next:
 *           0  u32 layer   4  u16 which   6  u16 form   8  u32 group   12  u32 0   (form and group: 0 for a vector)
 *          16  u64 at     24  u64 end    32  u64 XXH3-64 of [at, end)   40  u64 0
 *      .  the items, each at a multiple of 64: panels or vector, then at the next multiple of 64 its bias; gaps are
 *         zero */
enum { BT_WEIGHTS_VERSION = 1, BT_WEIGHTS_HEADER_BYTES = 64, BT_WEIGHTS_ENTRY_BYTES = 48 };
#define BT_WEIGHTS_MAGIC "BTWEIGHT"

typedef struct bt_weights_item {
    uint32_t layer;
    bt_weight which;
    const bt_gguf_tensor *tensor, *bias; /* bias: NULL where there is none */
    bt_form form;                        /* of a matrix */
    size_t group;                        /* as in bt_weights_matrix */
    bool is_exact;                       /* each of the file's blocks is kept as it is */
    size_t at, bytes;                    /* panels or vector, in the image */
    size_t bias_at, end;                 /* end: where the next item is */
} bt_weights_item;

typedef struct bt_weights_plan {
    const bt_model *model;
    bt_form form;  /* as asked for */
    bool by_layer; /* all layers have one place, and the output matrix none: in memory, never sealed */
    bt_weights_item *item;
    size_t count, bytes; /* of the image */
} bt_weights_plan;

/* Lists the items and chooses their forms. */
bt_err bt_weights_plan_make(bt_weights_plan *ret, const bt_model *m, bt_form form, bt_fault *fault);
void bt_weights_plan_done(bt_weights_plan *p);   /* a zeroed one is fine */
void bt_weights_plan_choose(bt_weights_plan *p); /* again by the types in the file, as plan_make does */
/* The form of a matrix that FP4 cannot hold. */
void bt_weights_plan_fall_back(bt_weights_item *i);
/* Places the items by their forms, and sets bytes. BT_ELIMIT: more than the address space. */
bt_err bt_weights_plan_place(bt_weights_plan *p, bt_fault *fault);

/* Fills the items of an image: zeroed memory of p->bytes, 64-byte aligned. what: for o->progress. *ret_overflowed: the
 * first matrix that its form cannot hold; the caller lets it fall back and converts again. NULL: none. Errors as in
 * bt_weights_open. */
bt_err bt_weights_convert(bt_weights_item **ret_overflowed, uint8_t *image, bt_weights_plan *p,
                          const bt_weights_options *o, const char *what, bt_pool *pool, bt_fault *fault);
/* The same for the vectors of no layer and, after them, for one layer of a plan by layer. */
bt_err bt_weights_convert_common(uint8_t *image, const bt_weights_plan *p, const bt_weights_source *source,
                                 bt_fault *fault);
bt_err bt_weights_convert_layer(uint8_t *image, const bt_weights_plan *p, uint32_t layer,
                                const bt_weights_source *source, bt_pool *pool, bt_fault *fault);
/* Writes header and table of a filled image. */
void bt_weights_seal(uint8_t *image, const bt_weights_plan *p, bt_pool *pool);
/* Whether the bytes, 64-byte aligned, have the header and the table of the sealed image of this plan's model and form.
 * The plan then has its forms and places. BT_EVERSION; BT_EFORMAT. */
bt_err bt_weights_check(bt_weights_plan *p, const uint8_t *image, size_t bytes, bt_fault *fault);
/* Whether each item of a checked image has its hash. BT_EFORMAT. */
bt_err bt_weights_check_content(const bt_weights_plan *p, const uint8_t *image, bt_pool *pool, bt_fault *fault);
#endif
