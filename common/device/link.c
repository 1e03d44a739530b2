/* A wire sends one message after the other; what is hidden behind computing costs nothing. */
#include "device/link.h"
#include "device/time.h"

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

bt_err bt_link_parse(bt_link *ret, const char *text, bt_fault *fault)
{
    const char *c = text;
    const uint64_t rate = milli(&c, 10000);
    uint64_t latency = 0;
    if (!strncmp(c, "gbe", 3)) c += 3;
    if (*c == ',') {
        c++;
        latency = milli(&c, 1000000);
        if (!latency || strcmp(c, "us")) c = "?";
        else c += 2;
    }
    if (!rate || *c)
        return bt_fail(
            fault, BT_EARG,
            "link '%.30s': Gbit/s from 0.001 to 10000 as '10', '2.5' or '25gbe', and a message's latency "
            "behind a comma where there is one: '10,50us'",
            text);
    ret->bits_per_us = rate;
    ret->latency_ns = (uint32_t)latency;
    return BT_OK;
}

uint64_t bt_link_ns(const bt_link *l, uint64_t bytes)
{
    return bt_time_plus(bt_time_scale(bytes, 8000, l->bits_per_us), l->latency_ns);
}

void bt_link_chunk(bt_link_queue *q, const bt_link *l, uint64_t start_ns, uint64_t took_ns, uint32_t layers,
                   uint64_t bytes)
{
    for (uint32_t i = 1; i <= layers; i++) {
        const uint64_t ready = bt_time_plus(start_ns, bt_time_scale(took_ns, i, layers));
        q->free_ns = bt_time_plus(q->free_ns > ready ? q->free_ns : ready, bt_link_ns(l, bytes));
    }
}

uint64_t bt_link_exposed_ns(const bt_link_queue *q, uint64_t end_ns)
{
    return q->free_ns > end_ns ? q->free_ns - end_ns : 0;
}
