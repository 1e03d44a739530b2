/* A table of batches, and one rule over it. */
#include "engine/decode_batches.h"

#include <stdlib.h>
#include <string.h>

static void add(bt_decode_batches *b, const bt_pkg_row *row)
{
    size_t at = 0;
    while (at < b->count && b->of[at].batch < row->batch) at++;
    if (at == b->count || b->of[at].batch != row->batch) {
        memmove(&b->of[at + 1], &b->of[at], (b->count - at) * sizeof *b->of);
        b->of[at] = (bt_decode_batch){row->batch, row->ctx};
        b->count++;
    }
    if (b->of[at].ctx < row->ctx) b->of[at].ctx = row->ctx;
    if (b->ctx_tokens < row->ctx) b->ctx_tokens = row->ctx;
}

static bt_err no_rows(const char *policy, bt_fault *fault)
{
    return bt_fail(
        fault, BT_EARG,
        "the package (shape policy %s) has no program for one token, so it cannot decode: compile it "
        "with --shape-policy chunk:256+tail:1, or rows:FILE with a seq_len of 1 for each batch",
        policy);
}

bt_err bt_decode_batches_check(const bt_shapes *shapes, bt_fault *fault)
{
    for (size_t i = 0; i < shapes->all; i++)
        if (shapes->shape[i].seq == 1) return BT_OK;
    return no_rows(shapes->text, fault);
}

bt_err bt_decode_batches_of(bt_decode_batches *ret, const bt_pkg *pkg, bt_fault *fault)
{
    const uint32_t rows = bt_pkg_header_of(pkg)->rows.count;
    bt_decode_batches b = {.of = calloc(rows + 1u, sizeof *b.of)};
    if (!b.of) return bt_fail(fault, BT_ENOMEM, "out of memory making a decode engine");
    for (uint32_t i = 0; i < rows; i++)
        if (bt_pkg_rows(pkg)[i].seq == 1) add(&b, &bt_pkg_rows(pkg)[i]);
    if (b.count) {
        *ret = b;
        return BT_OK;
    }
    bt_decode_batches_done(&b);
    return no_rows(bt_pkg_header_of(pkg)->shape_policy, fault);
}

void bt_decode_batches_done(bt_decode_batches *b)
{
    free(b->of);
    *b = (bt_decode_batches){0};
}

/* The longest sequence that a batch takes. */
static size_t longest(const size_t *end, size_t left, size_t batch)
{
    size_t most = 0;
    for (size_t i = 0; i < left && i < batch; i++)
        if (end[i] > most) most = end[i];
    return most;
}

const bt_decode_batch *bt_decode_batches_next(const bt_decode_batches *b, const size_t *end, size_t left)
{
    const bt_decode_batch *best = NULL;
    for (size_t i = 0; i < b->count; i++) {
        if (longest(end, left, b->of[i].batch) > b->of[i].ctx) continue;
        best = &b->of[i];
        if (best->batch >= left) break;
    }
    return best; /* the batch of the longest context holds any end */
}
