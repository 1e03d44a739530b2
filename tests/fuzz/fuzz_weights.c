/* Any bytes as a file of converted weights: refused, or weights that can be read to the last byte. An input
 * that begins with the magic is a file; any other changes a valid one: a byte that says of which form, then
 * changes of a width, a place and that many bytes. Each is looked at as it is, and once more with its
 * hashes made right, so that the checks behind them are reached. */
#include "base/hash.h"
#include "base/num.h"
#include "model/gguf.h"
#include "model/weights_private.h"
#include "kernels/kernels.h"
#include "model/quant.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { FORMS = 3 };
static volatile float sink;

static const bt_model *the_model(void)
{
    static bt_model *m;
    if (m) return m;
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = "qwen2";
    s.layers = 1;
    s.dim = s.ffn = 32;
    s.heads = 2;
    s.kv_heads = 1;
    s.vocab = 20;
    s.type = BT_QUANT_Q4_0; /* FP4, or what that falls back to */
    s.no_tokenizer = true;
    m = engine_kit_of(&s).model; /* kept to the end, with its file */
    return m;
}

static bt_weights_plan *plan_of(size_t form)
{
    static bt_weights_plan plan[FORMS];
    if (!plan[form].item && bt_weights_plan_make(&plan[form], the_model(), (bt_form)form, NULL) < 0) abort();
    return &plan[form];
}

/* A filled and sealed image; free() it. */
static uint8_t *image_of(size_t *ret_bytes, size_t form)
{
    const bt_weights_options o = {0};
    bt_weights_plan *p = plan_of(form);
    bt_weights_item *overflowed;
    bt_weights_plan_choose(p);
    if (bt_weights_plan_place(p, NULL) < 0) abort();
    uint8_t *image = tiny_pkg_alloc(p->bytes);
    memset(image, 0, p->bytes);
    if (bt_weights_convert(&overflowed, image, p, &o, "converting", NULL, NULL) < 0 || overflowed) abort();
    bt_weights_seal(image, p, NULL);
    *ret_bytes = p->bytes;
    return image;
}

/* Hashes of the items that lie inside, and the digest. */
static void repair(uint8_t *b, size_t len)
{
    const size_t items = plan_of(0)->count, table = items * BT_WEIGHTS_ENTRY_BYTES;
    if (len < BT_WEIGHTS_HEADER_BYTES + table) return;
    for (size_t n = 0; n < items; n++) {
        uint8_t *entry = b + BT_WEIGHTS_HEADER_BYTES + n * BT_WEIGHTS_ENTRY_BYTES;
        const uint64_t at = bt_get64(entry + 16), end = bt_get64(entry + 24);
        if (at <= end && end <= len) bt_put64(entry + 32, bt_hash64(b + at, end - at));
    }
    memset(b + 48, 0, BT_HASH_BYTES);
    uint8_t digest[BT_HASH_BYTES];
    bt_hash128(digest, b, BT_WEIGHTS_HEADER_BYTES + table);
    memcpy(b + 48, digest, sizeof digest);
}

static void read_all(const bt_weights_plan *p, const uint8_t *b)
{
    for (size_t n = 0; n < p->count; n++) {
        const bt_weights_item *i = &p->item[n];
        const size_t k = i->tensor->dim[0];
        if (bt_weight_is_matrix(i->which))
            for (size_t o = 0; o < bt_matmul_panels(i->tensor->dim[1]) * 16; o++)
                for (size_t at = 0; at < k; at++)
                    sink = bt_form_value(b + i->at, i->form, i->group, k, o, at);
        else
            for (size_t at = 0; at < k; at++) sink = ((const float *)(const void *)(b + i->at))[at];
        for (size_t at = 0; i->bias && at < i->bias->dim[0]; at++)
            sink = ((const float *)(const void *)(b + i->bias_at))[at];
    }
}

static void look_at(const uint8_t *b, size_t len)
{
    for (size_t form = 0; form < FORMS; form++)
        if (bt_weights_check(plan_of(form), b, len, NULL) == BT_OK &&
            bt_weights_check_content(plan_of(form), b, NULL, NULL) == BT_OK)
            read_all(plan_of(form), b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    size_t bytes = len;
    uint8_t *b;
    if (len >= 8 && memcmp(data, BT_WEIGHTS_MAGIC, 8) == 0) {
        b = tiny_pkg_alloc(len);
        memcpy(b, data, len);
    } else {
        uint8_t *image = image_of(&bytes, (len ? data[0] : 0u) % FORMS);
        b = tiny_pkg_patched(image, bytes, data, len);
        free(image);
    }
    look_at(b, bytes);
    repair(b, bytes);
    look_at(b, bytes);
    free(b);
    return 0;
}
