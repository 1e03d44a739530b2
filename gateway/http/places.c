/* Lists in the order of entering a phase, so that the oldest of each stands first and nothing is sorted. */
#include "gateway/http/places.h"

#include <stddef.h>

static void unlist(gw_places *s, gw_place *p)
{
    if (!p->is_listed) return;
    if (p->prev) p->prev->next = p->next;
    else s->lists[p->phase].first = p->next;
    if (p->next) p->next->prev = p->prev;
    else s->lists[p->phase].last = p->prev;
    p->is_listed = false;
    s->busy -= p->phase >= GW_PHASE_WAITS;
}

void gw_places_enter(gw_places *s, gw_place *p, gw_phase phase, int64_t now_us)
{
    if (p->is_shut) return;
    unlist(s, p);
    p->phase = phase;
    p->since_us = now_us;
    p->bytes = 0;
    p->next = NULL;
    p->prev = s->lists[phase].last;
    if (p->prev) p->prev->next = p;
    else s->lists[phase].first = p;
    s->lists[phase].last = p;
    p->is_listed = true;
    s->busy += phase >= GW_PHASE_WAITS;
}

void gw_places_add(gw_places *s, gw_place *p, int64_t now_us)
{
    *p = (gw_place){0};
    s->count++;
    gw_places_enter(s, p, GW_PHASE_HEAD, now_us);
}

void gw_places_remove(gw_places *s, gw_place *p)
{
    unlist(s, p);
    s->count--;
    s->shut -= p->is_shut;
}

void gw_places_shut(gw_places *s, gw_place *p)
{
    if (p->is_shut) return;
    unlist(s, p);
    p->is_shut = true;
    s->shut++;
}

/* How long the bytes that moved may have taken at the least speed. */
static int64_t allowed_us(const gw_place *p)
{
    const uint64_t max = INT64_MAX / 2 / 1000000;
    return (int64_t)((p->bytes < max ? p->bytes : max) * 1000000 / GW_PLACES_MIN_BYTES_PER_S);
}

static gw_place *slower_than(const gw_places *s, gw_phase phase, int64_t grace_us, int64_t now_us)
{
    for (gw_place *p = s->lists[phase].first; p && now_us - p->since_us >= grace_us; p = p->next)
        if (now_us - p->since_us >= grace_us + allowed_us(p)) return p;
    return NULL;
}

static gw_place *slow(const gw_places *s, int64_t grace_us, int64_t now_us)
{
    gw_place *p = slower_than(s, GW_PHASE_BODY, grace_us, now_us);
    if (!p) p = slower_than(s, GW_PHASE_SENDS, grace_us, now_us);
    return p ? p : slower_than(s, GW_PHASE_STREAMS, grace_us, now_us);
}

static gw_place *silent_for(const gw_places *s, int64_t us, int64_t now_us)
{
    gw_place *p = s->lists[GW_PHASE_HEAD].first;
    return p && now_us - p->since_us >= us ? p : NULL;
}

gw_place *gw_places_victim(const gw_places *s, int64_t now_us)
{
    gw_place *p = silent_for(s, GW_PLACES_HEAD_GRACE_US, now_us);
    return p ? p : slow(s, GW_PLACES_GRACE_US, now_us);
}

gw_place *gw_places_unread(const gw_places *s, int64_t now_us)
{
    return slower_than(s, GW_PHASE_STREAMS, GW_PLACES_GRACE_US, now_us);
}

gw_place *gw_places_late(const gw_places *s, int64_t now_us)
{
    gw_place *p = silent_for(s, s->idle_us, now_us);
    return p ? p : slow(s, s->idle_us, now_us);
}
