/* Nodes and pairs whose attempts fail or are refused. See avoid.h. */
#include "gateway/brain/avoid.h"

#include <stddef.h>

static bool concerns(const gw_avoided *e, uint64_t prefill, uint64_t decode)
{
    return (e->prefill == 0 || e->prefill == prefill) && (e->decode == 0 || e->decode == decode);
}

static int64_t backoff_us(uint32_t failures)
{
    int64_t us = GW_AVOID_LEAST_US;
    for (uint32_t i = 1; i < failures && us < GW_AVOID_MOST_US; i++) us *= 2;
    return us;
}

static gw_avoided *find(gw_avoid *a, uint64_t prefill, uint64_t decode, bool refuses)
{
    for (uint32_t i = 0; i < a->len; i++) {
        gw_avoided *e = &a->items[i];
        if (e->prefill == prefill && e->decode == decode && (e->failures == 0) == refuses) return e;
    }
    return NULL;
}

static void forget_old(gw_avoid *a, int64_t now_us)
{
    for (uint32_t i = 0; i < a->len;) {
        const gw_avoided *e = &a->items[i];
        if (e->until_us + (e->failures ? GW_AVOID_FORGET_US : 0) > now_us) i++;
        else a->items[i] = a->items[--a->len];
    }
}

static gw_avoided *find_or_add(gw_avoid *a, uint64_t prefill, uint64_t decode, bool refuses, int64_t now_us)
{
    gw_avoided *e = find(a, prefill, decode, refuses);
    a->changes++;
    if (e) return e;
    forget_old(a, now_us);
    if (a->len < GW_AVOID_MAX) {
        e = &a->items[a->len++];
    } else {
        e = a->items;
        for (uint32_t i = 1; i < a->len; i++)
            if (a->items[i].until_us < e->until_us) e = &a->items[i];
    }
    *e = (gw_avoided){.prefill = prefill, .decode = decode};
    return e;
}

void gw_avoid_failed(gw_avoid *a, uint64_t prefill, uint64_t decode, int64_t now_us)
{
    gw_avoided *e = find_or_add(a, prefill, decode, false, now_us);
    e->until_us = now_us + backoff_us(++e->failures);
}

void gw_avoid_refused(gw_avoid *a, uint64_t prefill, uint64_t decode, int64_t until_us, int64_t now_us)
{
    find_or_add(a, prefill, decode, true, now_us)->until_us = until_us;
}

void gw_avoid_succeeded(gw_avoid *a, uint64_t prefill, uint64_t decode)
{
    gw_avoided *e = find(a, prefill, decode, false);
    if (e) *e = a->items[--a->len];
}

void gw_avoid_tried(gw_avoid *a, uint64_t prefill, uint64_t decode, int64_t now_us)
{
    for (uint32_t i = 0; i < a->len; i++) {
        gw_avoided *e = &a->items[i];
        if (e->failures > 0 && concerns(e, prefill, decode) && e->until_us <= now_us)
            e->until_us = now_us + backoff_us(e->failures);
    }
}

bool gw_avoid_is(const gw_avoid *a, uint64_t prefill, uint64_t decode, int64_t now_us)
{
    for (uint32_t i = 0; i < a->len; i++)
        if (a->items[i].failures > 0 && a->items[i].until_us > now_us &&
            concerns(&a->items[i], prefill, decode))
            return true;
    return false;
}

bool gw_avoid_refuses(const gw_avoid *a, uint64_t prefill, uint64_t decode, int64_t now_us)
{
    for (uint32_t i = 0; i < a->len; i++)
        if (a->items[i].failures == 0 && a->items[i].until_us > now_us &&
            concerns(&a->items[i], prefill, decode))
            return true;
    return false;
}

bool gw_avoid_fails(const gw_avoid *a, uint64_t decode)
{
    for (uint32_t i = 0; i < a->len; i++)
        if (a->items[i].decode == decode && a->items[i].failures > 0) return true;
    return false;
}

bool gw_avoid_names_pair(const gw_avoid *a, uint64_t decode)
{
    for (uint32_t i = 0; i < a->len; i++)
        if (a->items[i].decode == decode && (a->items[i].prefill || a->items[i].failures == 0)) return true;
    return false;
}

int64_t gw_avoid_due_us(const gw_avoid *a, int64_t now_us)
{
    int64_t due = INT64_MAX;
    for (uint32_t i = 0; i < a->len; i++)
        if (a->items[i].failures == 0 && a->items[i].until_us > now_us && a->items[i].until_us < due)
            due = a->items[i].until_us;
    return due;
}
