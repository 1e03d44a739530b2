/* Moments from prices: the one place that turns modelled nanoseconds into times of a clock. */
#include "device/pace.h"

#include <string.h>

enum { MILLI = 1000 };
static const uint64_t MOST_K = 1000000;

bt_err bt_pace_parse(bt_pace *ret, const char *text, bt_fault *fault)
{
    static const char word[] = "device:";
    const bool is_device = !strncmp(text, word, sizeof word - 1);
    const char *c = is_device ? text + sizeof word - 1 : text;
    uint64_t v = 0;
    int decimals = -1;
    if (!strcmp(text, "off")) {
        *ret = (bt_pace){0};
        return BT_OK;
    }
    bool is_good = is_device && *c >= '0' && *c <= '9';
    for (; is_good && *c; c++) {
        if (*c == '.' && decimals < 0) {
            decimals = 0;
            continue;
        }
        if (*c < '0' || *c > '9' || decimals == 3 || v > MOST_K * MILLI) is_good = false;
        v = v * 10 + (uint64_t)(*c - '0');
        decimals += decimals >= 0;
    }
    is_good = is_good && decimals != 0;
    for (int i = decimals < 0 ? 0 : decimals; i < 3; i++) v *= 10;
    if (!is_good || v == 0 || v > MOST_K * MILLI)
        return bt_fail(
            fault, BT_EARG,
            "pace '%.40s': off, or device:K with K from 0.001 to 1000000 and at most three decimals, "
            "such as device:20",
            text);
    *ret = (bt_pace){.milli = v};
    return BT_OK;
}

static int64_t sum_us(int64_t at_us, uint64_t more_us)
{
    return more_us > (uint64_t)(INT64_MAX - at_us) ? INT64_MAX : at_us + (int64_t)more_us;
}

int64_t bt_pace_due_us(const bt_pace *p, int64_t begin_us, uint64_t ns)
{
    return sum_us(begin_us, bt_time_scale(ns, p->milli, (uint64_t)MILLI * MILLI));
}

void bt_pace_ended(bt_pace_count *c, int64_t begin_us, int64_t due_us, int64_t now_us)
{
    if (due_us > begin_us) c->paced_us += (uint64_t)(due_us - begin_us);
    if (now_us > due_us) c->late_us += (uint64_t)(now_us - due_us);
}

bool bt_pace_is_void(const bt_pace_count *c)
{
    return c->late_us > bt_time_scale(c->paced_us, BT_PACE_LATE_PERMILLE, 1000);
}

/* ---- rows of a prompt ---- */

static void look_at_chunk(bt_pace_prompt *p)
{
    const bt_work_programs *g = &p->d->programs;
    if (p->at >= p->end) return;
    const bt_work_chunk c = g->cut(g->ud, p->at, p->end);
    const bt_price_sum sum = g->chunk(g->ud, p->first, p->at, p->end, true);
    p->next = p->at + c.valid;
    p->before_ns = bt_time_plus(p->before_ns, sum.lead_ns);
    p->after_ns = bt_time_plus(p->before_ns, sum.ns - sum.lead_ns - sum.tail_ns);
}

/* ---- under a schedule ---- */

/* The moment from which the chunk and all chunks before it have the layer: rows are let go without gaps. */
static int64_t stored_us(const bt_pace_prompt *p, size_t chunk, uint32_t layer)
{
    uint64_t ns = 0;
    for (size_t c = p->chunk; c <= chunk; c++) {
        const uint64_t at = p->played.stored_ns[c * p->d->kv.layers + layer];
        if (at > ns) ns = at;
    }
    return bt_pace_due_us(&p->pace, p->begin_us, ns);
}

static bool is_stored(const bt_pace_prompt *p, size_t chunk, int64_t now_us)
{
    for (uint32_t l = 0; l < p->d->kv.layers; l++)
        if (now_us < stored_us(p, chunk, l)) return false;
    return true;
}

/* The first chunk whose layer is still to come. */
static size_t next_chunk(bt_pace_prompt *p, uint32_t layer, int64_t now_us)
{
    while (p->chunk < p->played.chunks && is_stored(p, p->chunk, now_us)) p->chunk++;
    size_t c = p->chunk;
    while (c < p->played.chunks && now_us >= stored_us(p, c, layer)) c++;
    return c;
}

static uint64_t played_rows(bt_pace_prompt *p, uint32_t layer, int64_t now_us)
{
    const size_t c = next_chunk(p, layer, now_us);
    return c ? p->played.ends[c - 1] : p->at;
}

/* ---- both ---- */

void bt_pace_prompt_begin(bt_pace_prompt *ret, bt_pace pace, const bt_work_prefill *d,
                          const bt_work_prompt *p, int64_t begin_us)
{
    *ret = (bt_pace_prompt){.pace = pace,   .d = d,           .begin_us = begin_us, .first = p->first,
                            .at = p->first, .next = p->first, .end = p->end};
    ret->is_played = d->play && p->first < p->end && d->play(d->play_ud, &ret->played, p->first, p->end);
    look_at_chunk(ret);
}

/* As in bt_link_chunk: layers are equal parts of a chunk, one after the other. */
static int64_t layer_us(const bt_pace_prompt *p, uint32_t layer)
{
    const uint64_t part = bt_time_scale(p->after_ns - p->before_ns, (uint64_t)layer + 1, p->d->kv.layers);
    return bt_pace_due_us(&p->pace, p->begin_us, bt_time_plus(p->before_ns, part));
}

uint64_t bt_pace_prompt_rows(bt_pace_prompt *p, uint32_t layer, int64_t now_us)
{
    if (p->is_played) return played_rows(p, layer, now_us);
    while (p->at < p->end && now_us >= bt_pace_due_us(&p->pace, p->begin_us, p->after_ns)) {
        p->at = p->next;
        p->before_ns = p->after_ns;
        look_at_chunk(p);
    }
    return p->at < p->end && now_us >= layer_us(p, layer) ? p->next : p->at;
}

int64_t bt_pace_prompt_next_us(bt_pace_prompt *p, uint32_t layer, int64_t now_us)
{
    if (p->is_played) {
        const size_t c = next_chunk(p, layer, now_us);
        return c < p->played.chunks ? stored_us(p, c, layer) : INT64_MAX;
    }
    const uint64_t rows = bt_pace_prompt_rows(p, layer, now_us);
    if (p->at >= p->end || rows >= p->end) return INT64_MAX;
    if (rows == p->at) return layer_us(p, layer);
    bt_pace_prompt then = *p;
    then.at = p->next;
    then.before_ns = p->after_ns;
    look_at_chunk(&then);
    return layer_us(&then, layer);
}

/* ---- blocks on a link ---- */

int64_t bt_pace_link_take(bt_pace_link *l, int64_t *ret_begin_us, const bt_pace *p, const bt_link *link,
                          int64_t now_us, uint64_t bytes)
{
    *ret_begin_us = l->free_us > now_us ? l->free_us : now_us;
    l->free_us =
        link->bits_per_us ? bt_pace_due_us(p, *ret_begin_us, bt_link_ns(link, bytes)) : *ret_begin_us;
    return l->free_us;
}
