/* The names of weights, where the file has them, and their numbers; the rotary tables. */
#include "model/weight.h"
#include "model/gguf.h"
#include "model/model.h"
#include "model/quant.h"

#include <math.h>

const char *bt_weight_name(bt_weight w)
{
    static const char *const names[BT_WEIGHT_COUNT] = {
        "-",
        "embed",
        "attn_norm",
        "ffn_norm",
        "out_norm",
        "q_norm",
        "k_norm",
        "attn_post_norm",
        "ffn_post_norm",
        "q",
        "k",
        "v",
        "o",
        "gate",
        "up",
        "down",
        "output",
        "router",
        "sinks",
    };
    return (unsigned)w < BT_WEIGHT_COUNT ? names[w] : "?";
}

bool bt_weight_is_matrix(bt_weight w) { return w >= BT_WEIGHT_Q && w <= BT_WEIGHT_OUTPUT; }
bool bt_weight_is_layers(bt_weight w)
{
    return w != BT_WEIGHT_EMBED && w != BT_WEIGHT_OUT_NORM && w != BT_WEIGHT_OUTPUT;
}

const bt_gguf_tensor *bt_weight_tensor(const bt_model *m, uint32_t layer, bt_weight w)
{
    const bt_layer_tensors *t = layer < m->hp.layers ? &m->layer[layer] : &m->layer[0];
    switch (w) {
    case BT_WEIGHT_NONE: return NULL;
    case BT_WEIGHT_EMBED: return m->embed;
    case BT_WEIGHT_OUT_NORM: return m->out_norm;
    case BT_WEIGHT_OUTPUT: return m->output;
    case BT_WEIGHT_ATTN_NORM: return t->attn_norm;
    case BT_WEIGHT_FFN_NORM: return t->ffn_norm;
    case BT_WEIGHT_Q_NORM: return t->q_norm;
    case BT_WEIGHT_K_NORM: return t->k_norm;
    case BT_WEIGHT_ATTN_POST_NORM: return t->attn_post_norm;
    case BT_WEIGHT_FFN_POST_NORM: return t->ffn_post_norm;
    case BT_WEIGHT_Q: return t->wq;
    case BT_WEIGHT_K: return t->wk;
    case BT_WEIGHT_V: return t->wv;
    case BT_WEIGHT_O: return t->wo;
    case BT_WEIGHT_GATE: return t->w_gate;
    case BT_WEIGHT_UP: return t->w_up;
    case BT_WEIGHT_DOWN: return t->w_down;
    case BT_WEIGHT_ROUTER: return t->router;
    case BT_WEIGHT_SINKS: return t->sinks;
    }
    return NULL;
}

const bt_gguf_tensor *bt_weight_bias(const bt_model *m, uint32_t layer, bt_weight w)
{
    if (layer >= m->hp.layers) return NULL;
    const bt_layer_tensors *t = &m->layer[layer];
    return w == BT_WEIGHT_Q        ? t->bq
           : w == BT_WEIGHT_K      ? t->bk
           : w == BT_WEIGHT_V      ? t->bv
           : w == BT_WEIGHT_O      ? t->bo
           : w == BT_WEIGHT_GATE   ? t->b_gate
           : w == BT_WEIGHT_UP     ? t->b_up
           : w == BT_WEIGHT_DOWN   ? t->b_down
           : w == BT_WEIGHT_ROUTER ? t->b_router
                                   : NULL;
}

bt_weight bt_weight_next(const bt_model *m, uint32_t *layer, bt_weight w)
{
    do {
        if (w + 1 < BT_WEIGHT_COUNT) {
            w++;
        } else {
            w = BT_WEIGHT_ATTN_NORM;
            if (++*layer >= m->hp.layers) return BT_WEIGHT_NONE;
        }
    } while (w == BT_WEIGHT_EMBED || !bt_weight_tensor(m, *layer, w) ||
             (*layer > 0 && (w == BT_WEIGHT_OUT_NORM || w == BT_WEIGHT_OUTPUT)));
    return w;
}

void bt_model_row_f32(float *y, const bt_gguf_tensor *t, size_t row)
{
    bt_quant_to_f32(y, t->data + row * t->row_bytes, bt_quant_find(t->type), (size_t)t->dim[0]);
}

void bt_model_rope_table(float *cosines, float *sines, const bt_model *m, size_t table, size_t ctx)
{
    const double base = (double)(table ? m->hp.window_rope_base : m->hp.rope_base),
                 scale = table ? 1 : (double)m->hp.rope_scale;
    const size_t half = m->hp.rope_dims / 2;
    const double magnitude = (double)m->hp.rope.magnitude;
    float factor[BT_MODEL_MAX_HEAD_DIM / 2];
    double freq[BT_MODEL_MAX_HEAD_DIM / 2];
    if (m->rope_freqs) bt_model_row_f32(factor, m->rope_freqs, 0);
    bt_rope_frequencies(freq, &m->hp.rope, m->hp.rope_dims, base, scale, m->rope_freqs ? factor : NULL);
    for (size_t p = 0; p < ctx; p++)
        for (size_t i = 0; i < half; i++) {
            cosines[p * half + i] = (float)(magnitude * cos((double)p * freq[i]));
            sines[p * half + i] = (float)(magnitude * sin((double)p * freq[i]));
        }
}
