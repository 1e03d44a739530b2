/* A wire sends one message after the other; what is hidden behind computing costs nothing. */
#include "device/link.h"
#include "device/time.h"
#include "kernels/kv_view.h"

#include <stdio.h>
#include <string.h>

/* Digits with at most three decimals, by 1000; 0: none, or past limit. */
static uint64_t milli(const char **text, uint64_t limit)
{
    const char *c = *text;
    uint64_t v = 0;
    int decimals = 0;
    if (*c < '0' || *c > '9') return 0;
    for (; *c >= '0' && *c <= '9'; c++)
        if ((v = v * 10 + (uint64_t)(*c - '0')) > limit) return 0;
    if (*c == '.') {
        for (c++; *c >= '0' && *c <= '9'; c++, decimals++) v = v * 10 + (uint64_t)(*c - '0');
        if (!decimals || decimals > 3) return 0;
    }
    for (; decimals < 3; decimals++) v *= 10;
    *text = c;
    return v > limit * 1000 ? 0 : v;
}

/* ",50us" and ",0.946", each once and in this order. */
static bool parse_rest(bt_link *ret, const char *c)
{
    enum { LEAST_SHARE = 500, WHOLE = 1000, MOST_US = 1000000 };
    while (*c == ',' && !ret->share_permille) {
        c++;
        const uint64_t v = milli(&c, MOST_US);
        if (!v) return false;
        if (!strncmp(c, "us", 2) && !ret->latency_ns) {
            ret->latency_ns = (uint32_t)v;
            c += 2;
        } else if (*c == 0 && v >= LEAST_SHARE && v <= WHOLE) {
            ret->share_permille = (uint32_t)v;
        } else {
            return false;
        }
    }
    return *c == 0;
}

bt_err bt_link_parse(bt_link *ret, const char *text, bt_fault *fault)
{
    enum { MILLI = 1000, MOST = 10000 };
    const char *c = text;
    bt_link l = {.bits_per_us = milli(&c, MOST)};
    if (!strncmp(c, "mbit", 4)) {
        l.bits_per_us = l.bits_per_us % MILLI ? 0 : l.bits_per_us / MILLI;
        c += 4;
    } else if (!strncmp(c, "gbe", 3)) {
        c += 3;
    }
    if (!l.bits_per_us || !parse_rest(&l, c))
        return bt_fail(fault, BT_EARG,
                       "link '%.30s': Gbit/s from 0.001 to 10000 as '10', '2.5' or '25gbe', or whole Mbit/s "
                       "as '20mbit'; behind "
                       "a comma a message's latency, '10,50us'; and last, where the rate is the line's, the "
                       "share of it that "
                       "messages have, from 0.5 to 1: '20mbit,50us,0.946'",
                       text);
    *ret = l;
    return BT_OK;
}

void bt_link_text(char ret[BT_LINK_MAX_TEXT], const bt_link *l)
{
    enum { MEGA = 1000 };
    const double unit = l->bits_per_us < MEGA ? 1 : MEGA, rate = (double)l->bits_per_us / unit;
    char line[48] = "", latency[24] = "";
    if (l->share_permille)
        (void)snprintf(line, sizeof line, " line rate (%.6g goodput)", rate * l->share_permille / 1000);
    if (l->latency_ns) (void)snprintf(latency, sizeof latency, ", %.7g us", (double)l->latency_ns / 1000);
    (void)snprintf(ret, BT_LINK_MAX_TEXT, "%.7g %cbit/s%s%s", rate, unit > 1 ? 'G' : 'M', line, latency);
}

uint64_t bt_link_ns(const bt_link *l, uint64_t bytes)
{
    const uint64_t by = l->share_permille ? l->share_permille : 1, ns = l->share_permille ? 8000000 : 8000;
    return bt_time_plus(bt_time_scale(bytes, ns, l->bits_per_us * by), l->latency_ns);
}

bt_link_kv bt_link_kv_of(const bt_dims *s, uint64_t position_bytes)
{
    bt_link_kv kv = {.layers = s->layers, .layer_bytes = position_bytes / s->layers};
    if (bt_dims_global_every(&kv.global_every, s)) kv.window = s->window;
    return kv;
}

bt_link_rows bt_link_rows_of(const bt_link_kv *kv, uint64_t begin, uint64_t end, uint64_t tokens)
{
    const uint64_t first = bt_kv_first_sent(kv->window, tokens), from = begin > first ? begin : first;
    return (bt_link_rows){end - begin, end > from ? end - from : 0};
}

bool bt_link_sends_all(const bt_link_kv *kv, uint32_t layer)
{
    return !kv->window || bt_kv_sees_all(kv->global_every, layer);
}

uint64_t bt_link_layer_rows(const bt_link_kv *kv, const bt_link_rows *rows, uint32_t layer)
{
    return bt_link_sends_all(kv, layer) ? rows->all : rows->window;
}

uint64_t bt_link_bytes(const bt_link_kv *kv, const bt_link_rows *rows)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < kv->layers; i++) n = bt_time_plus(n, bt_link_layer_rows(kv, rows, i));
    return bt_time_times(kv->layer_bytes, n);
}

uint64_t bt_link_pass(bt_link_queue *q, uint64_t ready_ns, uint64_t ns)
{
    const uint64_t begin = q->free_ns > ready_ns ? q->free_ns : ready_ns;
    q->free_ns = bt_time_plus(begin, ns);
    return begin;
}

uint64_t bt_link_message(bt_link_queue *q, const bt_link *l, uint64_t ready_ns, uint64_t bytes)
{
    const uint64_t ns = bt_link_ns(l, bytes);
    (void)bt_link_pass(q, ready_ns, ns);
    return ns;
}

uint64_t bt_link_chunk(bt_link_queue *q, const bt_link *l, const bt_link_kv *kv, uint64_t start_ns,
                       uint64_t took_ns, bt_link_rows rows)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < kv->layers; i++) {
        const uint64_t n = bt_link_layer_rows(kv, &rows, i);
        const uint64_t ready = bt_time_plus(start_ns, bt_time_scale(took_ns, (uint64_t)i + 1, kv->layers));
        if (n) ns = bt_time_plus(ns, bt_link_message(q, l, ready, bt_time_times(kv->layer_bytes, n)));
    }
    return ns;
}

uint64_t bt_link_exposed_ns(const bt_link_queue *q, uint64_t end_ns)
{
    return q->free_ns > end_ns ? q->free_ns - end_ns : 0;
}
