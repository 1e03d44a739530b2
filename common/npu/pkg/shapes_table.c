/* The order of a table of shapes: the shapes for a single prompt, for batches, and for decoding. */
#include "npu/pkg/shapes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int by_batch(const void *a, const void *b)
{
    const bt_shape *x = a, *y = b;
    if (x->batch != y->batch) return x->batch < y->batch ? -1 : 1;
    if (x->seq != y->seq) return x->seq < y->seq ? -1 : 1;
    if (x->ctx != y->ctx) return x->ctx < y->ctx ? -1 : 1;
    return x->seq_min < y->seq_min ? -1 : x->seq_min > y->seq_min;
}

/* Whether the table has decode shapes. Only a file of network specializations has them, and only beside
 * shapes of more than one row. */
static bool has_decode(const bt_shapes *p)
{
    bool is_longer = false;
    for (size_t i = 0; i < p->all; i++) is_longer = is_longer || p->shape[i].seq > 1;
    return is_longer && !strncmp(p->text, "rows:", 5);
}

static size_t drop_equal(bt_shape *shape, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!i || by_batch(&shape[kept - 1], &shape[i]) != 0) shape[kept++] = shape[i];
    return kept;
}

void bt_shapes_arrange(bt_shapes *p)
{
    const bool apart = has_decode(p);
    uint32_t batch = UINT32_MAX; /* the smallest batch that has prefill shapes */
    qsort(p->shape, p->all, sizeof *p->shape, by_batch);
    p->all = drop_equal(p->shape, p->all);
    for (size_t i = 0; i < p->all; i++)
        if (p->shape[i].batch < batch && !(apart && p->shape[i].seq == 1)) batch = p->shape[i].batch;
    p->shapes = 0;
    for (size_t i = 0; i < p->all; i++) {
        const bt_shape s = p->shape[i];
        if (s.batch != batch || (apart && s.seq == 1)) continue;
        memmove(&p->shape[p->shapes + 1], &p->shape[p->shapes], (i - p->shapes) * sizeof s);
        p->shape[p->shapes++] = s;
    }
}

void bt_shapes_batch(bt_shapes *ret, const bt_shapes *p, size_t prompts)
{
    const bool apart = has_decode(p);
    uint32_t batch = p->shape[0].batch;
    bt_shapes r = {.shapes = 0};
    memcpy(r.text, p->text, sizeof r.text);
    for (size_t i = p->shapes; i < p->all && batch < prompts; i++) /* batches ascend */
        if (!(apart && p->shape[i].seq == 1)) batch = p->shape[i].batch;
    for (size_t i = 0; i < p->all; i++)
        if (p->shape[i].batch == batch && !(apart && p->shape[i].seq == 1)) r.shape[r.shapes++] = p->shape[i];
    r.all = r.shapes;
    *ret = r;
}
