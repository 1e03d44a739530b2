/* Any bytes as a file of shapes: what is accepted is a list that ascends, fits the context, and cuts any
 * prompt whole. The first byte chooses network specializations or enumerated shapes. */
#include "npu/pkg/shapes.h"

#include <stdlib.h>

enum { CTX = 4096 };

static void check(const bt_shapes *p)
{
    if (p->shapes < 1 || p->all < p->shapes || p->all > BT_SHAPES_MAX) abort();
    for (size_t i = 0; i < p->all; i++) {
        const bt_shape *s = &p->shape[i], *before = i && i != p->shapes ? s - 1 : NULL;
        if (s->seq < 1 || s->seq_min != s->seq || s->ctx > CTX || (s->ctx && s->seq > s->ctx)) abort();
        if (s->batch < 1 || s->batch > BT_SHAPES_MAX_BATCH || s->batch > BT_SHAPES_MAX_SEQ / s->seq) abort();
        if (i < p->shapes && s->batch != p->shape[0].batch) abort();
        if (before && before->batch > s->batch) abort();
        if (before && before->batch == s->batch &&
            (before->seq > s->seq || (before->seq == s->seq && before->ctx >= s->ctx)))
            abort();
        if (!bt_shapes_bucket(s, CTX, 0)) abort();
    }
    for (size_t n = 1; n <= CTX; n = n * 5 / 3 + 1) {
        size_t begin = 0, rows = 0, launches = 0;
        for (; begin < n; launches++) {
            const bt_shapes_chunk c = bt_shapes_next(p, n, begin);
            if (c.begin != begin || c.valid < 1 || c.valid > c.rows) abort();
            begin += c.valid;
            rows += c.rows;
        }
        if (begin != n || rows != bt_shapes_rows(p, n) || launches != bt_shapes_launches(p, n)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    bt_shapes p, again;
    if (len == 0) return 0;
    if (bt_shapes_parse_bytes(&p, data[0] & 1 ? "rows:x" : "enumerated:x", (const char *)data + 1, len - 1,
                              CTX, NULL) < 0)
        return 0;
    check(&p);
    if (bt_shapes_of_rows(&again, p.text, p.shape, p.all, NULL) < 0) abort();
    check(&again);
    bt_shapes_batch(&again, &p, 1 + data[0] % 16);
    check(&again);
    return 0;
}
