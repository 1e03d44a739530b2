/* Sums the prices of chunks and steps (price.h), and decides the order of messages on the wire. */
#include "device/work.h"
#include "device/roofline.h"

static uint64_t plus(uint64_t a, uint64_t b) { return bt_time_plus(a, b); }

static bt_energy_kind both(bt_energy_kind a, bt_energy_kind b)
{
    if (!a || !b) return BT_ENERGY_NONE;
    return a == BT_ENERGY_TDP || b == BT_ENERGY_TDP ? BT_ENERGY_TDP : BT_ENERGY_TERMS;
}

void bt_work_add(bt_work *sum, const bt_work *more)
{
    if (!more->ns) return;
    sum->energy = sum->ns ? both(sum->energy, more->energy) : more->energy;
    sum->ns = plus(sum->ns, more->ns);
    sum->ideal_ns = plus(sum->ideal_ns, more->ideal_ns);
    sum->nj = plus(sum->nj, more->nj);
}

bt_work bt_work_share(const bt_work *w, uint64_t rows, uint64_t all_rows)
{
    bt_work part = *w;
    if (!all_rows) return part;
    part.ideal_ns = bt_time_scale(w->ideal_ns, rows, all_rows);
    part.nj = bt_time_scale(w->nj, rows, all_rows);
    return part;
}

/* The host polls while it waits for the device. */
static bt_work work_of(const bt_profile_time *t, const bt_price_sum *s, uint64_t ideal_ns)
{
    const bt_energy e = bt_energy_of(t, s->ns, s->ops, s->bytes, s->ns);
    return (bt_work){.ns = s->ns, .ideal_ns = ideal_ns, .nj = e.nj, .energy = e.kind};
}

/* ---- a prompt ---- */

/* How many rows of [begin, end) are sent. */
static bt_link_rows sent_of(const bt_work_prefill *d, const bt_work_prompt *p, uint64_t begin, uint64_t end)
{
    const uint64_t from = begin > p->covered ? begin : p->covered;
    return bt_link_rows_of(&d->kv, end > from ? from : end, end, p->end);
}

/* A message a layer, the layers' parts of [start_ns, start_ns + took_ns) one after the other. */
static void send(bt_work_run *r, bt_link_queue *q, const bt_work_prefill *d, uint64_t start_ns,
                 uint64_t took_ns, bt_link_rows rows)
{
    if (!d->link.bits_per_us) return;
    r->transfer_ns = plus(r->transfer_ns, bt_link_chunk(q, &d->link, &d->kv, start_ns, took_ns, rows));
}

/* Each layer when its stage has ended, in that order. */
static void send_played(bt_work_run *r, bt_link_queue *q, const bt_work_prefill *d, const bt_work_prompt *p,
                        const bt_work_played *x)
{
    const uint32_t layers = d->kv.layers;
    for (size_t i = 0; i < x->chunks * layers && d->link.bits_per_us; i++) {
        const size_t chunk = x->order[i] / layers;
        const bt_link_rows sent = sent_of(d, p, chunk ? x->ends[chunk - 1] : p->first, x->ends[chunk]);
        const uint64_t rows = bt_link_layer_rows(&d->kv, &sent, x->order[i] % layers),
                       bytes = bt_time_times(d->kv.layer_bytes, rows);
        if (!rows) continue;
        r->transfer_ns = plus(r->transfer_ns, bt_link_message(q, &d->link, x->stored_ns[x->order[i]], bytes));
    }
}

static void end_run(bt_work_run *r, const bt_link_queue *q, const bt_profile *profile)
{
    const bt_profile_time *t = &profile->time;
    const uint64_t peak = bt_time_times(bt_roofline_peaks(t).int8, bt_profile_devices(t));
    r->exposed_ns = bt_link_exposed_ns(q, r->sum.ns);
    r->work = work_of(t, &r->sum, bt_time_scale(r->sum.ops, 1000, peak));
}

bt_work_run bt_work_of_prompt(const bt_work_prefill *d, const bt_work_prompt *p)
{
    const bt_work_programs *g = &d->programs;
    bt_work_run r = {.transfer_ns = 0};
    bt_price_sum *s = &r.sum;
    bt_link_queue q = {0};
    bt_work_played played;
    uint64_t rows_ns = 0; /* when the last rows are there */
    const bool is_played = d->play && p->end > p->first && d->play(d->play_ud, &played, p->first, p->end);
    if (!p->is_whole) send(&r, &q, d, 0, 0, sent_of(d, p, 0, p->first));
    for (uint64_t begin = p->first; begin < p->end;) {
        const bt_work_chunk c = g->cut(g->ud, begin, p->end);
        const bt_price_sum sum = g->chunk(g->ud, p->first, begin, p->end, true);
        const uint64_t start = plus(s->ns, sum.lead_ns);
        bt_price_sum_add(s, &sum);
        rows_ns = s->ns - sum.tail_ns;
        if (!p->is_whole && !is_played)
            send(&r, &q, d, start, rows_ns - start, sent_of(d, p, begin, begin + c.valid));
        begin += c.valid;
    }
    if (is_played) {
        s->ns = played.ns;
        for (int k = 0; k < 2; k++) r.busy_ns[k] = played.busy_ns[k];
        rows_ns = played.stored_ns[played.order[played.chunks * d->kv.layers - 1]];
        if (!p->is_whole) send_played(&r, &q, d, p, &played);
    }
    if (p->is_whole) send(&r, &q, d, rows_ns, 0, sent_of(d, p, 0, p->end));
    end_run(&r, &q, g->profile);
    return r;
}

/* The next `rows` rows of prompts one after the other, from row *row of prompt *i on. */
static bt_price_batch next_rows(const bt_work_prompt *p, size_t n, size_t *i, uint64_t *row, uint64_t rows,
                                uint64_t window)
{
    bt_price_batch s = {0};
    while (*i < n && rows) {
        const uint64_t left = p[*i].end - p[*i].first - *row, take = left < rows ? left : rows;
        if (take) bt_price_batch_add(&s, p[*i].first + *row, take, window);
        rows -= take;
        *row += take;
        if (take == left) *row = 0, ++*i;
    }
    return s;
}

bt_work_run bt_work_of_prompts(const bt_work_prefill *d, const bt_work_prompt *p, size_t n)
{
    const bt_work_programs *g = &d->programs;
    bt_work_run r = {.transfer_ns = 0};
    bt_price_sum *s = &r.sum;
    bt_link_queue q = {0};
    bt_link_rows sent = {0};
    uint64_t rows = 0, before = 0, row = 0;
    size_t at_prompt = 0;
    bool is_whole = true;
    if (n == 1) return bt_work_of_prompt(d, p);
    for (size_t i = 0; i < n; i++) {
        const uint64_t own = p[i].end - p[i].first;
        rows = plus(rows, own);
        before = plus(before, bt_time_times(own, p[i].first));
        const bt_link_rows one = sent_of(d, &p[i], 0, p[i].end);
        sent = (bt_link_rows){plus(sent.all, one.all), plus(sent.window, one.window)};
        is_whole = is_whole && p[i].is_whole;
    }
    before = rows ? (before + rows - 1) / rows : 0;
    for (uint64_t at = before, end = before + rows; at < end;) {
        const bt_work_chunk c = g->cut(g->ud, at, end);
        const bt_price_batch batch = next_rows(p, n, &at_prompt, &row, c.valid, d->kv.window);
        const bt_price_sum sum = g->batch(g->ud, c.rows, &batch, at == before, at + c.valid < end ? 0 : n);
        bt_price_sum_add(s, &sum);
        at += c.valid;
    }
    const uint64_t rows_ns = s->ns - s->tail_ns;
    send(&r, &q, d, is_whole ? rows_ns : s->lead_ns, is_whole ? 0 : rows_ns - s->lead_ns, sent);
    end_run(&r, &q, g->profile);
    return r;
}

/* ---- a step ---- */

void bt_work_step_add(bt_price_step *step, uint64_t pos, uint64_t count, uint64_t out, uint64_t window)
{
    bt_price_step one = bt_price_prefill_step(pos, count, window);
    one.logits = out;
    bt_price_step_add(step, &one);
}

bt_work bt_work_of_step(const bt_profile *p, const bt_price_model *m, const bt_price_step *step)
{
    const bt_price_sum s = bt_price_step_of(p, m, step);
    const bt_profile_time *t = &p->time;
    const uint64_t peak = bt_time_times(t->memory_bytes_per_us, bt_profile_devices(t));
    return work_of(t, &s, bt_time_scale(s.bytes, 1000, peak));
}
