/* Requests that nobody recorded: lengths and gaps of a few distributions. */
#include "lab/replay/synthetic.h"
#include "base/num.h"
#include "base/rng.h"
#include "trace/draw.h"

#include <math.h>
#include <string.h>

/* A number from lo to hi; *at is then behind it. */
static bool number(double *ret, const char **at, double lo, double hi)
{
    char text[32];
    const size_t n = strcspn(*at, "-~,");
    if (n == 0 || n >= sizeof text) return false;
    memcpy(text, *at, n);
    text[n] = 0;
    *at += n;
    return bt_num_double(ret, text, lo, hi, NULL) == BT_OK;
}

static bool lengths(tool_replay_lengths *ret, const char **at)
{
    if (!number(&ret->a, at, 1, TOOL_REPLAY_MAX_LENGTH)) return false;
    ret->kind = **at == '-' ? TOOL_REPLAY_UNIFORM : **at == '~' ? TOOL_REPLAY_LOGNORMAL : TOOL_REPLAY_FIXED;
    if (ret->kind == TOOL_REPLAY_FIXED) return true;
    (*at)++;
    return ret->kind == TOOL_REPLAY_UNIFORM ? number(&ret->b, at, ret->a, TOOL_REPLAY_MAX_LENGTH)
                                            : number(&ret->b, at, 0, 5);
}

bt_err tool_replay_synthetic_read(tool_replay_synthetic *ret, const char *text, bt_fault *fault)
{
    tool_replay_synthetic s = {.burst = 1};
    const char *at = text;
    double shared = 0;
    for (;;) {
        const char *part = at, *colon = strchr(at, ':');
        const size_t n = colon ? (size_t)(colon - at) : 0;
        bool ok = colon != NULL;
        if (ok) at = colon + 1;
        if (ok && n == 2 && !memcmp(part, "in", n)) ok = lengths(&s.in, &at);
        else if (ok && n == 3 && !memcmp(part, "out", n)) ok = lengths(&s.out, &at);
        else if (ok && n == 4 && !memcmp(part, "rate", n)) ok = number(&s.rate, &at, 1e-6, 1e6);
        else if (ok && n == 5 && !memcmp(part, "burst", n)) ok = number(&s.burst, &at, 0.01, 1e6);
        else if (ok && n == 6 && !memcmp(part, "shared", n))
            ok = number(&shared, &at, 0, TOOL_REPLAY_MAX_LENGTH);
        else ok = false;
        if (!ok || (*at && *at != ','))
            return bt_fail(
                fault, BT_EARG,
                "--synthetic '%.100s': '%.*s' is not one of in:N, in:LO-HI, in:MEDIAN~DEVIATION (1 to %d "
                "tokens, deviation to 5), out: the same, rate:R, burst:B, shared:N",
                text, (int)strcspn(part, ","), part, TOOL_REPLAY_MAX_LENGTH);
        if (!*at) break;
        at++;
    }
    if (s.in.a < 1 || s.out.a < 1)
        return bt_fail(fault, BT_EARG,
                       "--synthetic '%.100s' needs in and out, for example in:512,out:128,rate:4", text);
    s.shared_tokens = (uint32_t)shared;
    *ret = s;
    return BT_OK;
}

static uint32_t draw_length(bt_trace_draw *d, const tool_replay_lengths *l)
{
    double n = l->a;
    if (l->kind == TOOL_REPLAY_UNIFORM) n = floor(l->a + bt_trace_draw_uniform(d) * (l->b - l->a + 1));
    else if (l->kind == TOOL_REPLAY_LOGNORMAL) n = round(l->a * exp(l->b * bt_trace_draw_normal(d)));
    if (n > TOOL_REPLAY_MAX_LENGTH) n = TOOL_REPLAY_MAX_LENGTH;
    return n < 1 ? 1 : (uint32_t)n;
}

bt_err tool_replay_synthetic_draw(tool_replay_plan *p, const tool_replay_synthetic *s, size_t n,
                                  uint64_t seed, bt_fault *fault)
{
    bt_trace_draw in = {bt_rng_u64(seed, 11), 0}, out = {bt_rng_u64(seed, 12), 0},
                  gap = {bt_rng_u64(seed, 13), 0};
    double t = 0;
    for (size_t i = 0; i < n; i++) {
        const tool_replay_item item = {.due_us = (int64_t)t,
                                       .next = TOOL_REPLAY_NONE,
                                       .sampling = TOOL_REPLAY_NONE,
                                       .prompt_tokens = draw_length(&in, &s->in),
                                       .output_tokens = draw_length(&out, &s->out),
                                       .shared_tokens = s->shared_tokens,
                                       .stream = bt_rng_u64(0x73796e7468u, i)};
        const bt_err e = tool_replay_plan_add_item(p, &item, fault);
        if (e < 0) return e;
        if (s->rate > 0) t += bt_trace_draw_gamma(&gap, s->burst, 1e6 / (s->rate * s->burst));
        else p->untimed++;
    }
    return BT_OK;
}
