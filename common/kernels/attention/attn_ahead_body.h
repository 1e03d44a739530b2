/* K and V of the block behind are asked for a line at a time, evenly while the present block is computed: a core
 * forgets requests past the twenty or so that it can have open, so asking for many at once brings few, and not asking
 * while it multiplies lets memory rest. Included by attn_body.h. No include guard.
 *
 * Work is counted in operations on vectors of 16: a product, a conversion. */

/* The next rows that lie together. false: all are asked for. */
static int ask_rows(job *j)
{
    const bt_kv_view *kv = j->kv;
    ahead *a = &j->ahead;
    if (a->from == a->end && !a->is_v) a->from = a->begin, a->is_v = 1;
    if (a->from == a->end) {
        a->price = SIZE_MAX;
        return 0;
    }
    const size_t bytes = (j->g1 - j->g0) * kv->head_bytes;
    size_t rows = a->end - a->from;
    const uint8_t *row = rows_at(j, a->is_v, a->from, j->g0, &rows);
    if (bytes < kv->token_bytes) rows = 1;
    a->at = row - (uintptr_t)row % 64;
    a->stop = row + rows * bytes;
    a->from += rows;
    return 1;
}

/* So much work is done. */
BT_INLINE void ask(job *j, size_t work)
{
    ahead *a = &j->ahead;
    for (a->due += work; a->due >= a->price; a->due -= a->price) {
        if (a->at >= a->stop && !ask_rows(j)) return;
        v16_prefetch_far(a->at);
        a->at += 64;
    }
}

/* From now on the block at `b` is asked for, as far as `end`. */
static void look_ahead(job *j, size_t b, size_t end)
{
    const size_t count = end <= b ? 0 : end - b < BT_ATTN_BLOCK ? end - b : BT_ATTN_BLOCK, heads = j->g1 - j->g0;
    /* of each head the keys are transposed, multiplied and weighed, the values multiplied; tiles convert what they
     * multiply */
    const size_t tiles = (j->each + 3) / 4, work = heads * (8 * j->dp * (1 + j->each + tiles) + 80 * j->each);
    const size_t lines = 2 * count * (heads * j->kv->head_bytes + 63) / 64 + 1;
    j->ahead = (ahead){.begin = b, .from = b, .end = b + count, .price = work / lines ? work / lines : 1};
}
