#ifndef BT_DEVICE_ROOFLINE_H
#define BT_DEVICE_ROOFLINE_H
#include "device/link.h"
#include "device/price.h"

/* Arithmetic alone on a model and a device: sizes, shares, limits, and the prompt from which a second device pays. */

/* The same shape where every head has K and V of its own. */
bt_dims bt_roofline_unshared(const bt_dims *s);

/* A token's forward pass behind `ctx` positions' mean, by part, in multiply-accumulates of all layers: a prompt of ctx
 * tokens sees ctx / 2 columns on average, and w - w^2 / (2 ctx) in layers with a window of w < ctx. */
typedef struct bt_roofline_share {
    uint64_t qkv, output, ffn, attention;
} bt_roofline_share;
bt_roofline_share bt_roofline_shares(const bt_dims *s, uint64_t ctx);

/* Attention of one layer that sees all positions, over `tokens`, elements of 16 bits: what a score matrix for every
 * head takes, and what an attention that never writes it (FlashAttention) reads and writes: Q, K, V and O, with O
 * apart. */
typedef struct bt_roofline_flash {
    uint64_t score_bytes, output_bytes, qkvo_bytes;
} bt_roofline_flash;
bt_roofline_flash bt_roofline_attention(const bt_dims *s, uint64_t tokens);

/* Peaks of a profile, operations a microsecond: FP16, int8, and FP16 that its efficiency reaches at best. */
typedef struct bt_roofline_peak {
    uint64_t f16, int8, reached;
} bt_roofline_peak;
bt_roofline_peak bt_roofline_peaks(const bt_profile_time *t);

/* A prefill device, a decode device and a link, for one model. */
typedef struct bt_roofline_pair {
    bt_price prefill; /* programs of the prefill device; programs 0: it runs a prompt as one step */
    bt_profile prefill_profile, decode;
    bt_price_model prefill_model, decode_model;
    bt_link link;
    bt_link_kv kv;
} bt_roofline_pair;
typedef struct bt_roofline_first {
    uint64_t prefill_ns, exposed_ns, alone_ns; /* prefill, the exposed hand-off, and the decode device alone */
    uint64_t first_use_ns; /* the part of prefill_ns for first use of weights and operators, on a device with programs
                            */
} bt_roofline_first;
/* Time to the first token of a prompt on both, and on the decode device alone in one step. tokens >= 1. */
bt_roofline_first bt_roofline_first_token(const bt_roofline_pair *p, uint64_t tokens);
/* The fewest tokens, a multiple of `step` up to `most`, from which on the pair is never slower; 0: there are none. */
uint64_t bt_roofline_pays_from(const bt_roofline_pair *p, uint64_t step, uint64_t most);
#endif
