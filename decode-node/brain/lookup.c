/* See lookup.h. */
#include "decode-node/brain/lookup.h"

/* The first guess, which weighs as much as FIRST_WEIGHT trials. */
static const float first_guess[DC_LOOKUP_LONGEST] = {0.25f, 0.45f, 0.65f};
#define FIRST_WEIGHT 2.0f
#define KEEP_TRIED   0.9f   /* the share of old knowledge kept at each trial, */
#define KEEP_IDLE    0.999f /* and at each step without one */
#define KEEP_COST    0.9f
#define KEEP_UNSEEN  0.998f

uint32_t dc_lookup_find(size_t *ret_place, const int32_t *ids, size_t n)
{
    uint32_t best = 0;
    for (size_t i = n; n > 1 && i-- > 1;) { /* ids[i - 1] is to be the suffix's last token, with ids[i] behind
                                               it */
        uint32_t len = 0;
        while (len < DC_LOOKUP_LONGEST && len < i && ids[i - 1 - len] == ids[n - 1 - len]) len++;
        if (len <= best) continue;
        best = len;
        *ret_place = i;
        if (best == DC_LOOKUP_LONGEST) break;
    }
    return best;
}

float dc_lookup_belief(const dc_lookup *l, uint32_t suffix)
{
    const uint32_t i = suffix - 1;
    return (l->right[i] + FIRST_WEIGHT * first_guess[i]) / (l->tried[i] + FIRST_WEIGHT);
}

/* The time of the next smaller number where this one was never seen: optimism makes the brain try it. */
static float cost_of(const dc_lookup_cost *c, uint32_t rows)
{
    float most = 0;
    for (uint32_t r = rows < DC_LOOKUP_ROWS ? rows : DC_LOOKUP_ROWS; r > 0 && most == 0; r--)
        most = c->step_us[r];
    return most;
}

uint32_t dc_lookup_worth(const dc_lookup *l, uint32_t suffix, const dc_lookup_cost *cost, uint32_t rows,
                         uint32_t max)
{
    const float p = dc_lookup_belief(l, suffix), alone = cost_of(cost, rows);
    float best = (float)rows * DC_LOOKUP_GAIN, tokens = (float)rows, chance = 1;
    uint32_t drafts = 0;
    if (rows + max > DC_LOOKUP_ROWS) max = rows < DC_LOOKUP_ROWS ? DC_LOOKUP_ROWS - rows : 0;
    for (uint32_t d = 1; d <= max; d++) {
        chance *= p;
        tokens += chance;
        const float took = cost_of(cost, rows + d);
        /* in the time of a step without drafts */
        const float rate = took > alone ? tokens * alone / took : tokens;
        if (rate <= best) continue;
        best = rate;
        drafts = d;
    }
    return drafts;
}

void dc_lookup_learn(dc_lookup *l, uint32_t suffix, uint32_t drafted, uint32_t accepted)
{
    const uint32_t i = suffix - 1;
    l->right[i] = l->right[i] * KEEP_TRIED + (float)accepted;
    l->tried[i] = l->tried[i] * KEEP_TRIED + (float)accepted + (accepted < drafted ? 1 : 0);
}

void dc_lookup_forget(dc_lookup *l)
{
    for (uint32_t i = 0; i < DC_LOOKUP_LONGEST; i++) {
        l->right[i] *= KEEP_IDLE;
        l->tried[i] *= KEEP_IDLE;
    }
}

void dc_lookup_took(dc_lookup_cost *cost, uint32_t rows, float us)
{
    if (rows == 0 || rows > DC_LOOKUP_ROWS) return;
    float *at = &cost->step_us[rows];
    *at = *at == 0 ? us : *at * KEEP_COST + us * (1 - KEEP_COST);
    /* one slow step must not rule out its size for ever */
    for (uint32_t r = rows + 1; r <= DC_LOOKUP_ROWS; r++)
        if (cost->step_us[r] > *at) cost->step_us[r] = *at + (cost->step_us[r] - *at) * KEEP_UNSEEN;
}
