/* Lists in the order of entering a phase, so that the oldest of each stands first and nothing is sorted. */
#include "gateway/http/places.h"

static void count(gw_places *s, gw_phase phase, int by)
{
    if (phase == GW_PHASE_WAITS || phase == GW_PHASE_STREAMS) s->served += (unsigned)by;
    else if (phase == GW_PHASE_BODY || phase == GW_PHASE_SENDS) s->moving += (unsigned)by;
}

static void unlist(gw_places *s, gw_place *p)
{
    if (!p->is_listed) return;
    if (p->prev) p->prev->next = p->next;
    else s->lists[p->phase].first = p->next;
    if (p->next) p->next->prev = p->prev;
    else s->lists[p->phase].last = p->prev;
    p->is_listed = false;
    count(s, p->phase, -1);
}

void gw_places_enter(gw_places *s, gw_place *p, gw_phase phase, int64_t now_us)
{
    if (p->is_shut) return;
    unlist(s, p);
    p->phase = phase;
    p->since_us = p->paid_us = now_us;
    p->bytes = 0;
    p->next = NULL;
    p->prev = s->lists[phase].last;
    if (p->prev) p->prev->next = p;
    else s->lists[phase].first = p;
    s->lists[phase].last = p;
    p->is_listed = true;
    count(s, phase, 1);
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

/* The time of `bytes` at the least speed. */
static int64_t allowed_us(uint64_t bytes)
{
    const uint64_t max = INT64_MAX / 4 / 1000000;
    return (int64_t)((bytes < max ? bytes : max) * 1000000 / GW_PLACES_MIN_BYTES_PER_S);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

void gw_places_moved(gw_place *p, size_t bytes, int64_t now_us)
{
    p->bytes += bytes;
    if (p->paid_us < now_us - GW_PLACES_AHEAD_US) p->paid_us = now_us - GW_PLACES_AHEAD_US; /* forgiven */
    p->paid_us = least(p->paid_us + allowed_us(bytes), now_us + GW_PLACES_AHEAD_US);
}

void gw_places_sends(gw_place *p, size_t bytes)
{
    p->bytes += bytes;
    p->paid_us += allowed_us(bytes);
}

static gw_place *slowest(const gw_places *s, gw_phase phase, int64_t now_us)
{
    gw_place *worst = NULL;
    for (gw_place *p = s->lists[phase].first; p && now_us - p->since_us >= GW_PLACES_GRACE_US; p = p->next)
        if (now_us - p->paid_us >= GW_PLACES_GRACE_US && (!worst || p->paid_us < worst->paid_us)) worst = p;
    return worst;
}

gw_place *gw_places_slow_body(const gw_places *s, int64_t now_us)
{
    return slowest(s, GW_PHASE_BODY, now_us);
}

gw_place *gw_places_slow(const gw_places *s, int64_t now_us)
{
    gw_place *p = slowest(s, GW_PHASE_BODY, now_us);
    if (!p) p = slowest(s, GW_PHASE_SENDS, now_us);
    return p ? p : slowest(s, GW_PHASE_STREAMS, now_us);
}

gw_place *gw_places_slow_stream(const gw_places *s, int64_t now_us)
{
    return slowest(s, GW_PHASE_STREAMS, now_us);
}

static gw_place *silent_for(const gw_places *s, int64_t us, int64_t now_us)
{
    gw_place *p = s->lists[GW_PHASE_HEAD].first;
    return p && now_us - p->since_us >= us ? p : NULL;
}

gw_place *gw_places_victim(const gw_places *s, int64_t now_us)
{
    gw_place *p = silent_for(s, GW_PLACES_HEAD_GRACE_US, now_us);
    return p ? p : gw_places_slow(s, now_us);
}

static gw_place *late(const gw_places *s, gw_phase phase, int64_t now_us)
{
    for (gw_place *p = s->lists[phase].first; p && now_us - p->since_us >= s->idle_us; p = p->next)
        if (now_us - p->since_us >= s->idle_us + allowed_us(p->bytes)) return p;
    return NULL;
}

gw_place *gw_places_late(const gw_places *s, int64_t now_us)
{
    gw_place *p = silent_for(s, s->idle_us, now_us);
    if (!p) p = late(s, GW_PHASE_BODY, now_us);
    if (!p) p = late(s, GW_PHASE_SENDS, now_us);
    return p ? p : late(s, GW_PHASE_STREAMS, now_us);
}
