/* Buckets that fill with time. No step overflows: a level is at most a minute's worth, 6e16, and only a full
 * bucket goes into debt, by one request's tokens, 2^33 at most, which are 5.2e17. */
#include "gateway/http/key_usage.h"

#include <assert.h>

enum { MINUTE_US = 60000000, SECOND_US = 1000000 };
#define MAX_TOKENS ((uint64_t)1 << 33)

/* ---- paces ---- */

void gw_key_pace_ended(gw_key_pace *p, int64_t now_us)
{
    p->end_us[p->ends++ % GW_KEY_PACE_ENDS] = now_us;
    if (p->ends == 2 * GW_KEY_PACE_ENDS) p->ends = GW_KEY_PACE_ENDS; /* the same places, and it never wraps */
}

int64_t gw_key_pace_wait_us(const gw_key_pace *p, uint64_t n, int64_t now_us)
{
    const uint32_t known = p->ends < GW_KEY_PACE_ENDS ? p->ends : GW_KEY_PACE_ENDS;
    int64_t oldest_us = now_us, len = 0;
    for (uint32_t i = 0; i < known; i++) {
        if (now_us - p->end_us[i] >= GW_KEY_PACE_US) continue;
        if (p->end_us[i] < oldest_us) oldest_us = p->end_us[i];
        len++;
    }
    if (len == 0) return SECOND_US;
    const int64_t each_us = (now_us - oldest_us) / len + 1;
    return n >= (uint64_t)(GW_KEY_PACE_US / each_us) ? GW_KEY_PACE_US : (int64_t)n * each_us;
}

/* ---- buckets ---- */

static int64_t full(uint32_t rate) { return (int64_t)rate * MINUTE_US; }

static void fill(gw_bucket *b, uint32_t rate, int64_t now_us)
{
    const int64_t lacks = full(rate) - b->level, passed_us = now_us - b->at_us;
    if (passed_us <= 0) return;
    if (passed_us >= (lacks + rate - 1) / rate) b->level += lacks; /* to the brim */
    else b->level += passed_us * (int64_t)rate;
    b->at_us = now_us;
}

/* A larger bucket than before goes on with what it held; one that had no limit begins full. */
static void resize(gw_bucket *b, uint32_t old_rate, uint32_t rate, int64_t now_us)
{
    if (old_rate) fill(b, old_rate, now_us);
    if (rate && (!old_rate || b->level > full(rate))) b->level = full(rate);
    b->at_us = now_us;
}

/* How long until a request for `n` may pass; 0: it may. */
static int64_t wait_us(const gw_bucket *b, uint32_t rate, uint64_t n)
{
    const int64_t asked = n > rate ? full(rate) : (int64_t)n * MINUTE_US;
    return b->level >= asked ? 0 : (asked - b->level + rate - 1) / rate;
}

/* ---- a key ---- */

void gw_key_usage_limit(gw_key_usage *u, const gw_key_limits *limits, int64_t now_us)
{
    assert(limits->requests_per_minute <= GW_KEY_MAX_PER_MINUTE &&
           limits->tokens_per_minute <= GW_KEY_MAX_PER_MINUTE);
    resize(&u->requests, u->limits.requests_per_minute, limits->requests_per_minute, now_us);
    resize(&u->tokens, u->limits.tokens_per_minute, limits->tokens_per_minute, now_us);
    u->limits = *limits;
}

gw_key_verdict gw_key_usage_arrive(gw_key_usage *u, int64_t now_us)
{
    const uint32_t rate = u->limits.requests_per_minute;
    if (!rate) return (gw_key_verdict){.limit = GW_KEY_FINE};
    fill(&u->requests, rate, now_us);
    const int64_t wait = wait_us(&u->requests, rate, 1);
    if (wait > 0) return (gw_key_verdict){.limit = GW_KEY_REQUESTS, .wait_us = wait};
    u->requests.level -= MINUTE_US;
    return (gw_key_verdict){.limit = GW_KEY_FINE};
}

gw_key_verdict gw_key_usage_begin(gw_key_usage *u, uint64_t tokens, int64_t now_us)
{
    const uint32_t rate = u->limits.tokens_per_minute;
    assert(tokens <= MAX_TOKENS);
    if (u->limits.at_once && u->in_flight >= u->limits.at_once)
        return (gw_key_verdict){.limit = GW_KEY_AT_ONCE, .wait_us = gw_key_pace_wait_us(&u->pace, 1, now_us)};
    if (rate) {
        fill(&u->tokens, rate, now_us);
        const int64_t wait = wait_us(&u->tokens, rate, tokens);
        if (wait > 0) return (gw_key_verdict){.limit = GW_KEY_TOKENS, .wait_us = wait};
        u->tokens.level -= (int64_t)tokens * MINUTE_US;
    }
    u->in_flight++;
    return (gw_key_verdict){.limit = GW_KEY_FINE, .taken = rate ? tokens : 0};
}

void gw_key_usage_end(gw_key_usage *u, uint64_t taken, uint64_t used, int64_t now_us)
{
    const uint32_t rate = u->limits.tokens_per_minute;
    assert(u->in_flight > 0 && taken <= MAX_TOKENS);
    u->in_flight--;
    gw_key_pace_ended(&u->pace, now_us);
    if (!rate) return;
    fill(&u->tokens, rate, now_us);
    if (used < taken) u->tokens.level += (int64_t)(taken - used) * MINUTE_US;
    if (u->tokens.level > full(rate)) u->tokens.level = full(rate);
}
