/* Arithmetic over shapes, and two ways to the first token side by side. */
#include "device/roofline.h"

bt_dims bt_roofline_unshared(const bt_dims *s)
{
    bt_dims own = *s;
    own.kv_heads = own.heads;
    return own;
}

bt_roofline_share bt_roofline_shares(const bt_dims *s, uint64_t ctx)
{
    bt_dims_matrix m[BT_DIMS_MATRICES];
    const size_t n = bt_dims_matrices(m, s);
    const uint64_t q = (uint64_t)s->heads * s->head_dim, w = s->window,
                   all = bt_time_times(s->layers - s->windowed, ctx),
                   windowed = w < ctx ? bt_time_scale(w * s->windowed, 2 * ctx - w, ctx)
                                      : bt_time_times(s->windowed, ctx);
    /* scores and sums, each q by half of these columns */
    bt_roofline_share r = {.attention = bt_time_times(q, bt_time_plus(all, windowed))};
    uint64_t *part = &r.qkv;
    for (size_t i = 0; i < n; i++) {
        const uint64_t weights = (uint64_t)m[i].inputs * m[i].outputs * s->layers;
        const bool is_output = part == &r.qkv && m[i].is_row_split;
        if (is_output) r.output = weights, part = &r.ffn;
        else *part += weights;
    }
    return r;
}

bt_roofline_flash bt_roofline_attention(const bt_dims *s, uint64_t tokens)
{
    const uint64_t q = bt_time_times(tokens, (uint64_t)2 * s->heads * s->head_dim),
                   kv = bt_time_times(tokens, (uint64_t)2 * s->kv_heads * s->head_dim);
    return (bt_roofline_flash){
        .score_bytes = bt_time_times(bt_time_times(tokens, tokens), (uint64_t)2 * s->heads),
        .output_bytes = q,
        .qkvo_bytes = bt_time_plus(bt_time_times(q, 2), bt_time_times(kv, 2)),
    };
}

bt_roofline_peak bt_roofline_peaks(const bt_profile_time *t)
{
    bt_profile_time whole = *t;
    bt_roofline_peak p = {.f16 = t->f16_ops_per_us};
    whole.points = 0;
    p.int8 = bt_time_rate(&whole, 1, 8, 8);
    for (uint32_t i = 0; i < t->points; i++) {
        const uint64_t rate = bt_time_rate(t, t->efficiency[i].rows, 16, 16);
        if (rate > p.reached) p.reached = rate;
    }
    if (!t->points) p.reached = p.f16;
    return p;
}

/* The program that a prompt's chunk at `first` runs; as bt_price_prompt chooses. */
static uint32_t program_for(const bt_price *p, uint64_t left)
{
    uint32_t i = p->programs - 1;
    while (i && p->program[i - 1].rows >= left) i--;
    return i;
}

bt_roofline_first bt_roofline_first_token(const bt_roofline_pair *p, uint64_t tokens)
{
    const bt_price_step whole = bt_price_prefill_step(0, tokens, p->decode_model.window);
    bt_roofline_first r = {.alone_ns = bt_price_step_of(&p->decode, &p->decode_model, &whole).ns};
    bt_link_queue queue = {0};
    if (!p->prefill.programs) {
        r.prefill_ns = bt_price_step_of(&p->prefill_profile, &p->prefill_model, &whole).ns;
        (void)bt_link_chunk(&queue, &p->link, &p->kv, 0, r.prefill_ns,
                            bt_link_rows_of(&p->kv, 0, tokens, tokens));
    } else {
        uint64_t end = r.first_use_ns = p->prefill.first_ns, rows;
        for (uint64_t first = 0; first < tokens; first += rows) {
            const uint32_t i = program_for(&p->prefill, tokens - first);
            const uint64_t took = bt_price_chunk_ns(&p->prefill, i, first);
            rows = p->prefill.program[i].rows;
            const uint64_t behind = tokens - first < rows ? tokens : first + rows;
            (void)bt_link_chunk(&queue, &p->link, &p->kv, end, took,
                                bt_link_rows_of(&p->kv, first, behind, tokens));
            end = bt_time_plus(end, took);
        }
        r.prefill_ns = bt_time_plus(end, p->prefill.last_ns);
    }
    r.exposed_ns = bt_link_exposed_ns(&queue, r.prefill_ns);
    return r;
}

uint64_t bt_roofline_pays_from(const bt_roofline_pair *p, uint64_t step, uint64_t most)
{
    uint64_t from = 0;
    for (uint64_t tokens = step; tokens <= most; tokens += step) {
        const bt_roofline_first f = bt_roofline_first_token(p, tokens);
        if (bt_time_plus(f.prefill_ns, f.exposed_ns) > f.alone_ns) from = 0;
        else if (!from) from = tokens;
    }
    return from;
}
