/* The recipes that are tried, and their order. */
#include "tools/search/search.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In groups of 32 weights of 4 bits are rounded to nearest: with a step and an offset for so few GPTQ gains
 * little, and takes most of a compilation's time. One scale an output needs it. */
const char *const tool_search_ladder[TOOL_SEARCH_LADDER] = {
    "w8a16",
    "w8a8",
    "w8a8:lut6",
    "w4a16:group=32,r1,r2,no-gptq",
    "w4a8:group=32,r1,r2,no-gptq",
    "w4a16:gptq",
    "w8a16:no-rotate",
    "w8a8:no-rotate",
    "w8a8:no-rotate,lut6",
    "w4a16:group=32,no-gptq",
    "w4a8:group=32,no-gptq",
    "w4a16:no-rotate,gptq",
};
enum {
    PER_STREAM = TOOL_SEARCH_LADDER / 2,
    GROUPED = 3,
    ONE_SCALE = 5
}; /* of a stream: 3 and 4 are grouped */

bt_err tool_search_asked(bool *ret_asked, double *ret_bound, const char *quant, bt_fault *fault)
{
    static const char before[] = "auto:ppl=";
    char number[16];
    double percent;
    *ret_asked = quant && strncmp(quant, "auto", 4) == 0;
    if (!*ret_asked) return BT_OK;
    const size_t len = strlen(quant), head = sizeof before - 1;
    if (strncmp(quant, before, head) != 0 || len < head + 2 || len - head > sizeof number ||
        quant[len - 1] != '%')
        return bt_fail(fault, BT_EARG, "--quant %.60s: a search is written auto:ppl=LOSS%%, as auto:ppl=1%%",
                       quant);
    snprintf(number, sizeof number, "%.*s", (int)(len - head - 1), quant + head);
    if (bt_num_double(&percent, number, 0.01, 100, NULL) < 0)
        return bt_fail(fault, BT_EARG, "--quant %.60s: the loss of perplexity must be from 0.01%% to 100%%",
                       quant);
    *ret_bound = percent / 100;
    return BT_OK;
}

/* Bits of weights and inputs, multiplied, over all layers: where two recipes cost the same the one with fewer
 * is better. */
static uint64_t bits_of(const char *recipe, uint32_t layers)
{
    bt_recipe r;
    uint64_t sum = 0;
    if (bt_recipe_parse(&r, recipe, NULL) < 0) return UINT64_MAX;
    for (uint32_t l = 0; l <= layers; l++)
        for (uint32_t k = 0; k < BT_SITE_KINDS; k++) {
            if ((k == BT_SITE_HEAD) != (l == layers)) continue;
            const bt_recipe_layer *own = bt_recipe_of(&r, l, (bt_site_kind)k);
            sum += (uint64_t)own->weight_bits * own->input_bits[k];
        }
    return sum;
}

static bool is_less(double a, double b) { return a < 0.999 * b; }

/* Below 0: a is cheaper. */
static int compare(const tool_search *s, const tool_search_try *a, const tool_search_try *b)
{
    const uint64_t x = bits_of(a->recipe, s->layers), y = bits_of(b->recipe, s->layers);
    if (is_less(a->cost, b->cost)) return -1;
    if (is_less(b->cost, a->cost)) return 1;
    return x < y ? -1 : x > y;
}

/* One scale an output is taken to lose more than one for 32 inputs: where such groups miss the bound, GPTQ is
 * spared. */
static bool is_spared(const tool_search *s, size_t i)
{
    if (i % PER_STREAM != ONE_SCALE) return false;
    const tool_search_try *grouped = &s->tries[i - ONE_SCALE + GROUPED];
    return !grouped->why_not[0] && !grouped->keeps;
}

static bt_err try_one(tool_search *s, tool_search_kind kind, const char *recipe, bt_fault *fault)
{
    bt_fault why = {""};
    bt_recipe r;
    if (s->count == TOOL_SEARCH_MAX_TRIES)
        return bt_fail(fault, BT_ELIMIT, "auto: %zu recipes were tried, and no more can be", s->count);
    bt_err e = bt_recipe_parse(&r, recipe, fault);
    if (e < 0) return e;
    tool_search_try *t = &s->tries[s->count];
    *t = (tool_search_try){.kind = kind};
    bt_recipe_text(t->recipe, &r);
    if (kind == TOOL_SEARCH_ALL && is_spared(s, s->count))
        e = bt_fail(&why, BT_EARG, "w4a16 in groups of 32 loses more than the bound");
    else e = s->measure(s->ud, t, &why);
    if (e == BT_EARG && kind == TOOL_SEARCH_ALL) {
        snprintf(t->why_not, sizeof t->why_not, "%.127s", why.text);
    } else if (e < 0) {
        return bt_fail(fault, e, "%s", why.text);
    } else {
        t->keeps = kind != TOOL_SEARCH_ONE && t->loss <= s->bound;
        if (t->keeps && (!s->best || compare(s, t, s->best) < 0)) s->best = t;
    }
    s->count++;
    if (s->report) s->report(s->ud, t);
    return BT_OK;
}

/* The saving of t against high, for its loss; one part in a thousand of the cost where t saves bits alone. */
static double gain_of(const tool_search_try *high, const tool_search_try *t)
{
    const double saved = high->cost - t->cost, least = 0.001 * high->cost;
    return (saved > least ? saved : least) / t->loss;
}

/* Chooses two recipes of a stream: *high, the cheapest that keeps the bound, and *low, among those that do
 * not keep it and would be cheaper than the best, the one that saves most for its loss. */
static void choose(const tool_search *s, size_t first, const tool_search_try **high,
                   const tool_search_try **low)
{
    *high = *low = NULL;
    for (size_t i = first; i < first + PER_STREAM; i++) {
        const tool_search_try *t = &s->tries[i];
        if (!t->why_not[0] && t->keeps && (!*high || compare(s, t, *high) < 0)) *high = t;
    }
    for (size_t i = first; *high && i < first + PER_STREAM; i++) {
        const tool_search_try *t = &s->tries[i];
        if (t->why_not[0] || t->keeps || compare(s, t, s->best) >= 0) continue;
        if (!*low || gain_of(*high, t) > gain_of(*high, *low)) *low = t;
    }
}

/* The cost of a mixture of the two whose loss is the bound, were saving and loss alike in all layers. */
static double cost_at_bound(const tool_search *s, const tool_search_try *high, const tool_search_try *low)
{
    return high->cost - (high->cost - low->cost) * (s->bound - high->loss) / (low->loss - high->loss);
}

typedef struct unit { /* a layer, or the head */
    uint32_t at;
    double gain, kl;
} unit;

static int by_gain(const void *a, const void *b)
{
    const unit *x = a, *y = b;
    const double left = x->gain * y->kl, right = y->gain * x->kl;
    if (left > right) return -1;
    if (left < right) return 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* high's recipe with the first n units as low has them. */
static bt_err mix(char ret[BT_RECIPE_MAX_TEXT], const tool_search_try *high, const tool_search_try *low,
                  const unit *u, size_t n, bt_fault *fault)
{
    bt_recipe h, l;
    bt_err e = bt_recipe_parse(&h, high->recipe, fault);
    if (e == BT_OK) e = bt_recipe_parse(&l, low->recipe, fault);
    if (e < 0) return e;
    h.part[0] = l.usual;
    h.parts = 1;
    for (size_t i = 0; i < n; i++) h.part_of[u[i].at] = 1;
    bt_recipe_text(ret, &h);
    return BT_OK;
}

static bt_err sensitivities(tool_search *s, unit *u, const tool_search_try *high, const tool_search_try *low,
                            bt_fault *fault)
{
    char recipe[BT_RECIPE_MAX_TEXT];
    bt_err e = BT_OK;
    for (uint32_t i = 0; e == BT_OK && i <= s->layers; i++) {
        u[i].at = i == s->layers ? (uint32_t)BT_RECIPE_HEAD : i;
        e = mix(recipe, high, low, &u[i], 1, fault);
        if (e == BT_OK) e = try_one(s, TOOL_SEARCH_ONE, recipe, fault);
        if (e < 0) break;
        const tool_search_try *t = &s->tries[s->count - 1];
        const double saved = high->cost - t->cost;
        u[i].gain = saved > 0 ? saved : 1; /* it saves bits alone */
        u[i].kl = t->kl > high->kl ? t->kl - high->kl : 1e-12;
    }
    if (e == BT_OK) qsort(u, s->layers + 1, sizeof *u, by_gain);
    return e;
}

static bt_err mixtures(tool_search *s, const tool_search_try *high, const tool_search_try *low,
                       bt_fault *fault)
{
    unit u[BT_RECIPE_HEAD + 1];
    char recipe[BT_RECIPE_MAX_TEXT];
    size_t keeps = 0, fails = (size_t)s->layers + 1; /* numbers of units: zero keeps the bound, one more than
                                                        all fails */
    bt_err e = sensitivities(s, u, high, low, fault);
    while (e == BT_OK && fails - keeps > 1) {
        const size_t n = (keeps + fails) / 2;
        e = mix(recipe, high, low, u, n, fault);
        if (e == BT_OK) e = try_one(s, TOOL_SEARCH_MIXED, recipe, fault);
        if (e < 0) break;
        if (s->tries[s->count - 1].keeps) keeps = n;
        else fails = n;
    }
    return e;
}

static bt_err none_keeps(const tool_search *s, bt_fault *fault)
{
    const tool_search_try *least = NULL;
    for (size_t i = 0; i < s->count; i++)
        if (!s->tries[i].why_not[0] && (!least || s->tries[i].loss < least->loss)) least = &s->tries[i];
    if (!least)
        return bt_fail(fault, BT_EARG, "auto: the device runs none of the recipes: %s", s->tries[0].why_not);
    return bt_fail(fault, BT_EARG, "auto: no recipe keeps a loss of %.4g %%; the least is %.4g %%, of %s",
                   100 * s->bound, 100 * least->loss, least->recipe);
}

bt_err tool_search_run(tool_search *s, bt_fault *fault)
{
    const tool_search_try *high[2], *low[2];
    bt_err e = BT_OK;
    s->count = 0;
    s->best = NULL;
    for (size_t i = 0; e == BT_OK && i < TOOL_SEARCH_LADDER; i++)
        e = try_one(s, TOOL_SEARCH_ALL, tool_search_ladder[i], fault);
    if (e < 0) return e;
    if (!s->best) return none_keeps(s, fault);
    for (size_t i = 0; i < 2; i++) choose(s, i * PER_STREAM, &high[i], &low[i]);
    const size_t stream =
        !low[0] || (low[1] && is_less(cost_at_bound(s, high[1], low[1]), cost_at_bound(s, high[0], low[0])));
    return low[stream] ? mixtures(s, high[stream], low[stream], fault) : BT_OK;
}
