/* One pass from a trace to another; synthesize fits in one and draws after it. */
#include "lab/trace/rows.h"
#include "base/hash.h"
#include "trace/reblock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_BLOCK = 512, MAX_WINDOWS = 1 << 20 };

typedef struct pass {
    tool_trace_result *ret;
    bt_trace_writer *w;
    uint32_t block_tokens;
    const tool_trace_cut *cut;
    const tool_trace_scale *scale;
    bt_trace_map kept; /* cut: sessions that began in the window */
    int64_t skipped;
    uint64_t *hash; /* scale */
    size_t hash_cap;
} pass;

static uint32_t block_of(const pass *p, const bt_trace_row *row)
{
    return row->block_tokens ? row->block_tokens : p->block_tokens ? p->block_tokens : USUAL_BLOCK;
}

static bt_err write_row(pass *p, const bt_trace_row *row, bt_fault *fault)
{
    const bt_err e = bt_trace_writer_add(p->w, row, block_of(p, row), fault);
    p->ret->written += e == BT_OK;
    return e;
}

static bt_err convert_row(void *ud, const bt_trace_row *row, bt_fault *fault)
{
    pass *p = ud;
    p->ret->read++;
    return write_row(p, row, fault);
}

bt_err tool_trace_convert(tool_trace_result *ret, tool_trace_source *s, const char *path, bt_trace_writer *w,
                          uint32_t block_tokens, bt_fault *fault)
{
    pass p = {.ret = ret, .w = w, .block_tokens = block_tokens};
    return tool_trace_each(s, path, convert_row, &p, fault);
}

/* ---- cut ----------------------------------------------------------------------------------------- */

static bt_err is_inside(bool *ret, pass *p, const bt_trace_row *row, bt_fault *fault)
{
    const tool_trace_cut *c = p->cut;
    const uint64_t session = row->session ? bt_hash64(row->session, strlen(row->session)) : 0;
    if (!row->has_arrival && row->session && row->has_delay) {
        *ret = bt_trace_map_find(&p->kept, session) != NULL;
        return BT_OK;
    }
    if (!row->has_arrival && (c->start_us || c->length_us))
        return bt_fail(fault, BT_EARG, "line %llu: the trace has no times: cut by --skip and --limit",
                       (unsigned long long)row->line);
    *ret = (row->arrival_us >= c->start_us || !row->has_arrival) &&
           (!c->length_us || row->arrival_us - c->start_us < c->length_us);
    if (*ret && p->skipped < c->skip) {
        p->skipped++;
        *ret = false;
    }
    if (*ret && c->limit && p->ret->written >= (uint64_t)c->limit) *ret = false;
    return *ret && row->session ? bt_trace_map_put(&p->kept, session, 1, fault) : BT_OK;
}

static bt_err cut_row(void *ud, const bt_trace_row *row, bt_fault *fault)
{
    pass *p = ud;
    bool is_kept = false;
    p->ret->read++;
    const bt_err e = is_inside(&is_kept, p, row, fault);
    if (e < 0 || !is_kept) return e;
    bt_trace_row r = *row;
    r.arrival_us -= p->cut->start_us;
    return write_row(p, &r, fault);
}

bt_err tool_trace_cut_rows(tool_trace_result *ret, tool_trace_source *s, const char *path, bt_trace_writer *w,
                           const tool_trace_cut *cut, uint32_t block_tokens, bt_fault *fault)
{
    pass p = {.ret = ret, .w = w, .cut = cut, .block_tokens = block_tokens};
    const bt_err e = tool_trace_each(s, path, cut_row, &p, fault);
    bt_trace_map_done(&p.kept);
    return e;
}

/* ---- scale --------------------------------------------------------------------------------------- */

static uint32_t scaled(bool *is_clipped, uint32_t tokens, double by, int64_t most)
{
    double n = round(tokens * by);
    if (tokens && n < 1) n = 1;
    if (n > BT_TRACE_MAX_TOKENS) n = BT_TRACE_MAX_TOKENS;
    *is_clipped |= most > 0 && n > (double)most;
    return (uint32_t)(most > 0 && n > (double)most ? (double)most : n);
}

static bt_err scale_hashes(pass *p, bt_trace_row *row, uint32_t old_tokens, bt_fault *fault)
{
    const uint32_t block = block_of(p, row),
                   new_block = p->scale->new_block ? (uint32_t)p->scale->new_block : block;
    if (!row->hash_len || (p->scale->input == 1 && row->input_tokens == old_tokens && new_block == block))
        return BT_OK;
    row->block_tokens = new_block;
    if (((uint64_t)old_tokens + block - 1) / block != row->hash_len)
        return bt_fail(
            fault, BT_EARG,
            "line %llu: %zu hashes for %u tokens do not fit blocks of %u tokens: give --block-tokens",
            (unsigned long long)row->line, row->hash_len, old_tokens, block);
    const size_t n = ((size_t)row->input_tokens + new_block - 1) / new_block;
    if (n > p->hash_cap) {
        uint64_t *more = reallocarray(p->hash, n, sizeof *more);
        if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu hashes", n);
        p->hash = more;
        p->hash_cap = n;
    }
    bt_trace_reblock(p->hash, n, new_block, p->scale->input, row->hash_ids, row->hash_len, block);
    row->hash_ids = p->hash;
    row->hash_len = n;
    return BT_OK;
}

static int64_t slower(int64_t us, double speed) { return llround((double)us / speed); }

static bt_err scale_row(void *ud, const bt_trace_row *row, bt_fault *fault)
{
    pass *p = ud;
    const tool_trace_scale *c = p->scale;
    bool is_clipped = false;
    bt_trace_row r = *row;
    p->ret->read++;
    r.arrival_us = slower(row->arrival_us, c->speed);
    r.delay_us = slower(row->delay_us, c->speed);
    r.input_tokens = scaled(&is_clipped, row->input_tokens, c->input, c->max_input);
    r.output_tokens = scaled(&is_clipped, row->output_tokens, c->output, c->max_output);
    p->ret->clipped += is_clipped;
    bt_trace_captured captured;
    if (row->captured && r.input_tokens != row->input_tokens) { /* ids of another length would be a lie */
        captured = *row->captured;
        captured.has_text = false;
        r.captured = &captured;
    }
    const bt_err e = scale_hashes(p, &r, row->input_tokens, fault);
    return e < 0 ? e : write_row(p, &r, fault);
}

bt_err tool_trace_scale_rows(tool_trace_result *ret, tool_trace_source *s, const char *path,
                             bt_trace_writer *w, const tool_trace_scale *scale, uint32_t block_tokens,
                             bt_fault *fault)
{
    pass p = {.ret = ret, .w = w, .scale = scale, .block_tokens = block_tokens};
    const bt_err e = tool_trace_each(s, path, scale_row, &p, fault);
    free(p.hash);
    return e;
}

/* ---- synthesize ---------------------------------------------------------------------------------- */

static bt_err read_rates(bt_trace_rate **ret, size_t *ret_n, const char *path, bt_fault *fault)
{
    const tool_trace_options o = {.format = BT_TRACE_SERVEGEN};
    tool_trace_source s;
    bt_trace_rate *list = NULL, r;
    size_t n = 0;
    bool is_end = false;
    bt_fault why = {""};
    bt_err e = tool_trace_open(&s, path, &o, fault);
    if (e < 0) return e;
    while (e == BT_OK && (e = bt_trace_next_rate(&r, &is_end, s.t, &why)) == BT_OK && !is_end) {
        bt_trace_rate *more = n < MAX_WINDOWS ? list : NULL;
        if (n < MAX_WINDOWS && (n & (n - 1)) == 0) more = reallocarray(list, n ? n * 2 : 1, sizeof *more);
        if (more) {
            list = more;
            list[n++] = r;
        } else
            e = bt_fail(&why, BT_ENOMEM, "no room for more than %zu windows of rates; at most %d are allowed",
                        n, MAX_WINDOWS);
    }
    tool_trace_close(&s);
    if (e < 0) {
        free(list);
        return bt_fail(fault, e, "'%.60s', %.180s", path, why.text);
    }
    *ret = list;
    *ret_n = n;
    return BT_OK;
}

static bt_err fit_row(void *ud, const bt_trace_row *row, bt_fault *fault)
{
    return bt_synth_fit(ud, row, fault);
}

static bt_err draw_all(pass *p, bt_synth *model, uint64_t requests, bt_fault *fault)
{
    bt_trace_row r;
    bool is_end = false;
    bt_err e = BT_OK;
    while (e == BT_OK && (requests == 0 || p->ret->written < requests) &&
           (e = bt_synth_draw(&r, &is_end, model, fault)) == BT_OK && !is_end)
        e = write_row(p, &r, fault);
    return e;
}

bt_err tool_trace_synthesize(tool_trace_result *ret, tool_trace_source *s, const char *path,
                             bt_trace_writer *w, const tool_trace_synth *synth, uint32_t block_tokens,
                             bt_fault *fault)
{
    pass p = {.ret = ret, .w = w, .block_tokens = block_tokens};
    bt_synth *model = NULL;
    bt_trace_rate *windows = NULL;
    bt_synth_gaps gaps = {.rate = synth->rate, .cv = synth->cv};
    bt_err e = bt_synth_new(&model, fault);
    if (e == BT_OK && synth->rates) e = read_rates(&windows, &gaps.window_len, synth->rates, fault);
    if (e == BT_OK) e = tool_trace_each(s, path, fit_row, model, fault);
    gaps.windows = windows;
    ret->read = bt_trace_look(s->t).rows;
    if (e == BT_OK) e = bt_synth_start(model, synth->seed, &gaps, fault);
    if (e == BT_OK)
        e = draw_all(&p, model,
                     synth->requests ? (uint64_t)synth->requests
                     : synth->rates  ? 0
                                     : ret->read,
                     fault);
    ret->shortened = model ? bt_synth_shortened(model) : 0;
    ret->out_of_order = model ? bt_synth_out_of_order(model) : 0;
    bt_synth_free(model);
    free(windows);
    return e;
}
