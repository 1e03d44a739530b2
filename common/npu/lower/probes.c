/* Finds the rows that a device refuses and the rows that replace them, and checks that enough rows are
 * left. */
#include "npu/lower/probes.h"

#include <stdio.h>

bool bt_probes_refuses(const bt_profile *p, uint32_t seq, uint32_t ctx)
{
    for (uint32_t i = 0; i < p->refused_shapes; i++)
        if (p->refused_shape[i].seq == seq && p->refused_shape[i].ctx == ctx) return true;
    return false;
}

size_t bt_probes_rows(const bt_profile *p, const bt_shapes *s, size_t ctx_tokens)
{
    size_t n = 0, ctx;
    for (size_t i = 0; i < s->all; i++)
        for (size_t b = 0; (ctx = bt_shapes_bucket(&s->shape[i], ctx_tokens, b)) > 0; b++)
            n += !bt_probes_refuses(p, s->shape[i].seq, (uint32_t)ctx);
    return n;
}

/* Finds the row in which the chunks of the refused row r run: the i-th shape's next context, else the next
 * shape's. A shape that a single prompt is not cut into takes only rows of the same seq, and among those a
 * larger batch. */
static void find_instead(bt_probes_refused *r, const bt_profile *p, const bt_shapes *s, size_t ctx_tokens,
                         size_t i)
{
    size_t ctx;
    const bool is_alone = i < s->shapes;
    for (; i < (is_alone ? s->shapes : s->all); i++)
        for (size_t b = 0; (ctx = bt_shapes_bucket(&s->shape[i], ctx_tokens, b)) > 0; b++)
            if (ctx >= r->ctx && (is_alone || s->shape[i].seq == r->seq) &&
                !bt_probes_refuses(p, s->shape[i].seq, (uint32_t)ctx)) {
                r->batch_instead = s->shape[i].batch;
                r->seq_instead = s->shape[i].seq;
                r->ctx_instead = (uint32_t)ctx;
                return;
            }
}

bool bt_probes_refused_at(bt_probes_refused *ret, const bt_profile *p, const bt_shapes *s, size_t ctx_tokens,
                          size_t i)
{
    size_t ctx;
    for (size_t n = 0; n < s->all; n++)
        for (size_t b = 0; (ctx = bt_shapes_bucket(&s->shape[n], ctx_tokens, b)) > 0; b++) {
            if (!bt_probes_refuses(p, s->shape[n].seq, (uint32_t)ctx) || i-- > 0) continue;
            *ret =
                (bt_probes_refused){.batch = s->shape[n].batch, .seq = s->shape[n].seq, .ctx = (uint32_t)ctx};
            find_instead(ret, p, s, ctx_tokens, n);
            /* else in smaller chunks, and more of them: the largest that are smaller */
            for (size_t k = n; n < s->shapes && !ret->seq_instead && k > 0; k--)
                find_instead(ret, p, s, ctx_tokens, k - 1);
            return true;
        }
    return false;
}

/* The first of seq, 2 seq, 4 seq ... that passes in this context, or ctx. */
static uint32_t next_seq(const bt_profile *p, uint32_t seq, uint32_t ctx)
{
    while (bt_probes_refuses(p, seq, ctx) && seq < ctx) seq = seq < ctx / 2 ? seq * 2 : ctx;
    return seq;
}

bt_err bt_probes_check(const bt_profile *p, const bt_shapes *s, size_t ctx_tokens, bt_fault *fault)
{
    size_t ctx, longest = 0, left = 0;
    uint32_t left_seq = 0, seq = 0;
    for (size_t i = 0; i < s->shapes; i++)
        for (size_t b = 0; (ctx = bt_shapes_bucket(&s->shape[i], ctx_tokens, b)) > 0; b++) {
            if (ctx > longest) longest = ctx, seq = s->shape[i].seq;
            if (ctx <= left || bt_probes_refuses(p, s->shape[i].seq, (uint32_t)ctx)) continue;
            left = ctx;
            left_seq = s->shape[i].seq;
        }
    if (left == longest) return BT_OK;
    /* Every shape of a chunk policy has the longest context; each row of a file has its own. */
    const uint32_t other = next_seq(p, seq, (uint32_t)longest);
    const bool is_chunk = !s->shape[0].ctx && other <= BT_SHAPES_MAX_CHUNK,
               passes = !bt_probes_refuses(p, other, (uint32_t)longest);
    char shorter[80] = "", longer[96] = "";
    if (left) snprintf(shorter, sizeof shorter, "seq %u, ctx %zu (a row of rows:FILE)", left_seq, left);
    if (passes && is_chunk)
        snprintf(longer, sizeof longer, "seq %u, ctx %zu (--shape-policy chunk:%u)", other, longest, other);
    else if (passes) snprintf(longer, sizeof longer, "seq %u, ctx %zu (a row of rows:FILE)", other, longest);
    return bt_fail(fault, BT_EARG,
                   "shape policy %s: profile %s refuses (refused_shapes) each shape of it that holds %zu "
                   "tokens%s%s%s%s",
                   s->text, p->name, longest, left || passes ? "; the nearest that pass: " : "", shorter,
                   left && passes ? ", and " : "", longer);
}
