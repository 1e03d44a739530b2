/* Compares shapes with a profile's limits. A fault names the field, the value, the limit, and the nearest
 * policy that would work. */
#include "npu/compile/plan_limits.h"
#include "npu/quant/hadamard.h"
#include "npu/lower/probes.h"

#include <stdio.h>

static bt_err check_count(const bt_profile *p, const bt_shapes *s, size_t ctx_tokens, bt_fault *fault)
{
    const size_t rows = bt_probes_rows(p, s, ctx_tokens);
    const uint32_t largest = s->shape[s->shapes - 1].seq;
    const bt_shape alone = {largest, largest, 0, 1};
    size_t chunk_rows = 0;
    char near[96];
    if (!p->max_shapes || rows <= p->max_shapes) return BT_OK;
    while (bt_shapes_bucket(&alone, ctx_tokens, chunk_rows)) chunk_rows++;
    if (chunk_rows <= p->max_shapes && s->shapes > 1 && largest <= BT_SHAPES_MAX_CHUNK)
        snprintf(near, sizeof near, "--shape-policy chunk:%u has %zu", largest, chunk_rows);
    else snprintf(near, sizeof near, "--shape-policy rows:FILE takes a list of %u", p->max_shapes);
    return bt_fail(fault, BT_EARG,
                   "shape policy %s has %zu shapes at %zu tokens, profile %s allows %u (max_shapes); %s",
                   s->text, rows, ctx_tokens, p->name, p->max_shapes, near);
}

/* Names the nearest policy of the chunk family whose programs have at most max_rows rows. */
static void name_chunk(char ret[32], uint32_t max_rows)
{
    uint32_t n = 16;
    while (n * 2 <= max_rows && n < BT_SHAPES_MAX_CHUNK) n *= 2;
    snprintf(ret, 32, n <= max_rows ? "chunk:%u+tail" : "chunk:%u", n <= max_rows ? n : max_rows);
}

static bt_err check_shape(const bt_profile *p, const bt_shapes *s, const bt_shape *shape, bt_fault *fault)
{
    char chunk[32];
    if (shape->seq_min < shape->seq && !p->range_shapes)
        return bt_fail(fault, BT_EARG,
                       "shape policy %s: profile %s has no bounded ranges (range_shapes); the nearest is "
                       "--shape-policy chunk:%u",
                       s->text, p->name, shape->seq);
    const uint32_t rows = shape->batch * shape->seq; /* within BT_SHAPES_MAX_SEQ */
    if (p->max_rows && rows > p->max_rows && shape->batch > 1)
        return bt_fail(
            fault, BT_EARG,
            "shape policy %s has programs of %u rows (batch %u times seq %u), profile %s allows %u "
            "(max_rows): at most batch %u at that seq",
            s->text, rows, shape->batch, shape->seq, p->name, p->max_rows, p->max_rows / shape->seq);
    if (p->max_rows && rows > p->max_rows) {
        name_chunk(chunk, p->max_rows);
        return bt_fail(
            fault, BT_EARG,
            "shape policy %s has programs of %u rows, profile %s allows %u (max_rows); the nearest is "
            "--shape-policy %s",
            s->text, shape->seq, p->name, p->max_rows, chunk);
    }
    return BT_OK;
}

bt_err bt_plan_limits_check(const bt_profile *p, const bt_shapes *s, size_t ctx_tokens, bt_fault *fault)
{
    bt_err e = BT_OK;
    if (p->companion)
        return bt_fail(
            fault, BT_EARG,
            "profile %s is a companion: it runs what an NPU leaves, and nothing is compiled for it; "
            "--profile names an NPU ('baton profiles')",
            p->name);
    for (size_t i = 0; i < s->all && e == BT_OK; i++) e = check_shape(p, s, &s->shape[i], fault);
    if (e == BT_OK) e = check_count(p, s, ctx_tokens, fault);
    return e == BT_OK ? bt_probes_check(p, s, ctx_tokens, fault) : e;
}

/* Checks that chunks end with blocks of rows that share a choice. A chunk that does not end its prompt has
 * the largest shape of its batch, or one with a context of its own. */
static bt_err check_blocks(uint32_t rows, const bt_profile *profile, const bt_shapes *p, bt_fault *fault)
{
    for (size_t i = 0; rows > 1 && i < p->all; i++) {
        const bt_shape *s = &p->shape[i];
        const bool is_last = i + 1 == p->all || i + 1 == p->shapes || s[1].batch != s->batch;
        if (s->seq > 1 && (is_last || s->ctx) && s->seq % rows)
            return bt_fail(fault, BT_EARG,
                           "shape policy %s cuts prompts after %u rows, no multiple of --attention ..rows=%u",
                           p->text, s->seq, rows);
    }
    return rows > 1 && profile->query_slice_rows % rows
               ? bt_fail(fault, BT_EARG,
                         "profile %s attends to %u rows at once, no multiple of --attention ..rows=%u",
                         profile->name, profile->query_slice_rows, rows)
               : BT_OK;
}

bt_err bt_plan_limits_attention(const bt_attention *a, uint32_t head_dim, uint32_t window,
                                const bt_profile *p, const bt_shapes *s, bt_fault *fault)
{
    uint32_t base, log2;
    if (!a->ratio_ppm) return BT_OK;
    if (window)
        return bt_fail(
            fault, BT_EARG,
            "sparse attention (--attention) chooses among all positions; the model has layers with a "
            "window of %u",
            window);
    if (head_dim % 4 || !bt_hadamard_find(&base, &log2, head_dim))
        return bt_fail(
            fault, BT_EARG,
            "sparse attention (--attention) estimates in tiles of 4 elements that a Hadamard matrix rotates; "
            "heads of %u do not fit them",
            head_dim);
    return check_blocks(a->rows, p, s, fault);
}
