/* Any bytes as a GGUF file: either an error, or a file whose every value can be read, and perhaps a model
 * whose rows can. An input that begins with the magic is a file; any other changes the file of a small model:
 * a byte that says of which architecture and in which form, then what to change. One that changes nothing is
 * a model. */
#include "model/gguf_private.h"
#include "model/model.h"
#include "model/quant.h"
#include "tests/helpers/model/tiny_gguf.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { FORMS = 3 }; /* of the matrices of small models */

static void read_keys(const bt_gguf *g)
{
    volatile size_t sum = 0;
    for (size_t i = 0; i < bt_gguf_key_count(g); i++) {
        const char *name = bt_gguf_key_name(g, i);
        const bt_gguf_array *a = NULL;
        char text[64];
        sum += bt_gguf_key_text(text, sizeof text, g, i);
        if (bt_gguf_find_key(g, name) != (int64_t)i) abort();
        if (bt_gguf_find_array(&a, g, name, BT_GGUF_STRING, true, NULL) == BT_OK && bt_gguf_array_count(a)) {
            const bt_gguf_str s = bt_gguf_array_str(a, bt_gguf_array_count(a) - 1);
            for (size_t k = 0; k < s.len; k++) sum += (unsigned char)s.ptr[k];
        }
    }
    (void)sum;
}

/* The first and the last row of a matrix, or of all of its experts. */
static void read_rows(const bt_gguf_tensor *t)
{
    float *y = t ? malloc(t->dim[0] * sizeof *y) : NULL;
    if (y) {
        bt_model_row_f32(y, t, 0);
        bt_model_row_f32(y, t, t->rows - 1);
    }
    free(y);
}

static void read_model(const bt_model *m)
{
    const bt_layer_tensors *l = &m->layer[m->hp.layers - 1];
    const bt_gguf_tensor *const all[] = {m->embed,    m->output, m->out_norm, l->wq,    l->wk,
                                         l->wv,       l->wo,     l->w_gate,   l->w_up,  l->w_down,
                                         l->b_gate,   l->b_up,   l->b_down,   l->bq,    l->router,
                                         l->b_router, l->sinks,  l->ffn_norm, l->q_norm};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) read_rows(all[i]);
    if (m->hp.ctx < 64) {
        const size_t n = (size_t)m->hp.ctx * (m->hp.rope_dims / 2);
        float *c = malloc((n + 1) * sizeof *c), *s = malloc((n + 1) * sizeof *s);
        for (uint32_t t = 0; c && s && t < bt_hparams_rope_tables(&m->hp); t++)
            bt_model_rope_table(c, s, m, t, m->hp.ctx);
        free(s);
        free(c);
    }
}

/* The header alone accepts whatever the whole accepts, and reads no tensor. */
static void read_head(const uint8_t *data, size_t len)
{
    bt_gguf *g = NULL, *whole = NULL;
    bt_model *m = NULL;
    const bool is_whole = bt_gguf_open_bytes(&whole, data, len, NULL) == BT_OK;
    bt_gguf_close(whole);
    if (bt_gguf_open_head_bytes(&g, data, len, NULL) < 0) {
        if (is_whole) abort();
        return;
    }
    for (size_t i = 0; i < bt_gguf_tensor_count(g); i++)
        if (bt_gguf_tensor_at(g, i)->data) abort();
    if (bt_model_head_from_gguf(&m, g, NULL) == BT_OK) bt_model_close(m);
}

/* The bytes as two parts, cut where a second file seems to begin: either an error, or one file of both. */
static void read_parts(const uint8_t *data, size_t len)
{
    const uint8_t *second = len > 4 ? memmem(data + 4, len - 4, "GGUF", 4) : NULL;
    bt_gguf *part[2] = {NULL, NULL};
    if (!second) return;
    const size_t first_len = (size_t)(second - data);
    if (bt_gguf_parse(&part[0], data, first_len, false, NULL) < 0) return;
    if (bt_gguf_parse(&part[1], second, len - first_len, false, NULL) < 0) {
        bt_gguf_close(part[0]);
        return;
    }
    if (bt_gguf_join(part, 2, NULL) < 0) return;
    for (size_t i = 0; i < bt_gguf_tensor_count(part[0]); i++)
        if (bt_gguf_find_tensor(part[0], bt_gguf_tensor_at(part[0], i)->name) !=
            bt_gguf_tensor_at(part[0], i))
            abort();
    bt_gguf_close(part[0]);
}

/* Whether it is a model. */
static bool read_all(const uint8_t *data, size_t len)
{
    bt_gguf *g = NULL;
    bt_model *m = NULL;
    read_head(data, len);
    read_parts(data, len);
    if (bt_gguf_open_bytes(&g, data, len, NULL) < 0) return false;
    read_keys(g);
    for (size_t i = 0; i < bt_gguf_tensor_count(g); i++) {
        const bt_gguf_tensor *t = bt_gguf_tensor_at(g, i);
        if (t->data < data || t->bytes > (size_t)(data + len - t->data) ||
            bt_gguf_find_tensor(g, t->name) != t)
            abort();
    }
    if (bt_model_from_gguf(&m, g, NULL) < 0) return false;
    read_model(m);
    bt_model_close(m);
    return true;
}

/* The file of a small model; static. */
static const uint8_t *made(size_t *ret_len, size_t arch, size_t form)
{
    static uint8_t *base[FORMS][TINY_GGUF_ARCHS];
    static size_t base_len[FORMS][TINY_GGUF_ARCHS];
    static const uint32_t types[FORMS] = {BT_QUANT_F32, BT_QUANT_MXFP4, BT_QUANT_Q4_1};
    if (!base[form][arch]) {
        tiny_gguf_spec s = tiny_gguf_default();
        s.arch = tiny_gguf_arch((int)arch);
        s.type = types[form];
        s.layers = 1;
        s.dim = s.ffn = 32;
        s.heads = 2;
        s.kv_heads = 1;
        s.vocab = 20;
        s.ctx = 16;
        s.no_tokenizer = true;
        base[form][arch] = tiny_gguf_build(&s, &base_len[form][arch]);
    }
    *ret_len = base_len[form][arch];
    return base[form][arch];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len >= 4 && memcmp(data, "GGUF", 4) == 0) {
        (void)read_all(data, len);
        return 0;
    }
    const size_t which = len ? data[0] : 0;
    size_t n;
    const uint8_t *base = made(&n, which % 64 % TINY_GGUF_ARCHS, which / 64 % FORMS);
    uint8_t *b = tiny_pkg_patched(base, n, data, len);
    if (!read_all(b, n) && len < TINY_PKG_PATCH) abort();
    free(b);
    return 0;
}
