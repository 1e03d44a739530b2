/* Recipes as text: parsing, with every choice named in the errors, and the one text of each recipe. */
#include "npu/pkg/recipe.h"
#include "base/num.h"
#include "model/weight.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MODES "w8a8, w8a16, w4a8, w4a16"
#define CHOICES \
    "per-tensor, group=, r1, no-r1, r2, no-r2, r4, no-rotate, clip=, shadow=, prune=, smooth=, a16=, " \
    "bias, no-bias, gptq, no-gptq, act-order, llm-int8"
static const double AUTO = 0, CLIP8 = AUTO, CLIP16 = 99.99;

enum {
    SEEN_R1 = 1,
    SEEN_R2 = 2,
    SEEN_CLIP = 4,
    SEEN_SHADOW = 8,
    SEEN_PRUNE = 16,
    SEEN_SMOOTH = 32,
    SEEN_A16 = 64,
    SEEN_GPTQ = 128,
    SEEN_BIAS = 256,
    SEEN_R4 = 512,
    SEEN_GROUP = 1024
};

static const char *const shadow_name[] = {"off", "value", "channel"};

const char *bt_site_kind_name(bt_site_kind k)
{
    static const char *const names[BT_SITE_KINDS] = {"qkv", "o", "up", "down", "head"};
    return (unsigned)k < BT_SITE_KINDS ? names[k] : "?";
}

static bool has_8_bit_site(const bt_recipe *r)
{
    for (int s = 0; s < BT_SITE_KINDS; s++)
        if (r->input_bits[s] == 8) return true;
    return false;
}

/* R1 and R2 where nothing is said of them. */
static bool rotates(const bt_recipe *r) { return r->weight_bits != 4 || r->group != 32; }

/* A number of at most four digits after the point, so that its text gives it back. */
static bt_err number(double *ret, const char *text, double lo, double hi, bt_fault *fault)
{
    double v;
    const bt_err e = bt_num_double(&v, text, lo, hi, fault);
    if (e == BT_OK) *ret = rint(v * 1e4) / 1e4;
    return e;
}

static bt_err parse_clip(bt_recipe *r, bool is_a16, const char *value, bt_fault *fault)
{
    double p = 100;
    if (!strcmp(value, "auto")) p = AUTO;
    else if (strcmp(value, "max") != 0 && (value[0] != 'p' || number(&p, value + 1, 50, 100, NULL) < 0))
        return bt_fail(fault, BT_EARG,
                       "recipe: clip=%s: 'auto', 'max' or a percentile from p50 to p100, as p99.99", value);
    *(is_a16 ? &r->clip_percentile16 : &r->clip_percentile8) = p;
    return BT_OK;
}

static bt_err parse_shadow(bt_recipe *r, const char *value, bt_fault *fault)
{
    for (int s = 0; s < 3; s++)
        if (!strcmp(value, shadow_name[s])) {
            r->shadow = (bt_shadow_kind)s;
            return BT_OK;
        }
    return bt_fail(fault, BT_EARG, "recipe: shadow=%s: off, value or channel", value);
}

static bt_err parse_sites(bt_recipe *r, char *value, bt_fault *fault)
{
    for (char *site = value, *next; site; site = next) {
        if ((next = strchr(site, '+'))) *next++ = 0;
        int s = 0;
        while (s < BT_SITE_KINDS && strcmp(site, bt_site_kind_name((bt_site_kind)s)) != 0) s++;
        if (s == BT_SITE_KINDS)
            return bt_fail(fault, BT_EARG, "recipe: a16=%s: sites are qkv, o, up, down, head, joined by '+'",
                           site);
        r->input_bits[s] = 16;
    }
    return BT_OK;
}

static bt_err parse_group(bt_recipe *r, const char *value, bt_fault *fault)
{
    for (uint16_t g = 32; g <= 128; g *= 2) {
        char text[8];
        snprintf(text, sizeof text, "%u", g);
        if (strcmp(value, text) != 0) continue;
        r->group = g;
        return BT_OK;
    }
    return bt_fail(fault, BT_EARG, "recipe: group=%s: 32, 64 or 128", value);
}

static bt_err fraction(double *ret, const char *name, const char *value, bt_fault *fault)
{
    if (number(ret, value, 0, 1, NULL) == BT_OK) return BT_OK;
    return bt_fail(fault, BT_EARG, "recipe: %s=%s: a number from 0 to 1", name, value);
}

/* One choice. *seen: what was already chosen, so that nothing is said twice. */
static bt_err parse_choice(bt_recipe *r, unsigned *seen, bool is_a16, char *choice, bt_fault *fault)
{
    static const struct {
        const char *name;
        unsigned group;
        size_t field; /* of a flag */
        bool value;
    } flag[] = {
        {"per-tensor", 0, offsetof(bt_recipe, per_tensor), true},
        {"llm-int8", 0, offsetof(bt_recipe, llm_int8), true},
        {"r1", SEEN_R1, offsetof(bt_recipe, r1), true},
        {"no-r1", SEEN_R1, offsetof(bt_recipe, r1), false},
        {"r2", SEEN_R2, offsetof(bt_recipe, r2), true},
        {"no-r2", SEEN_R2, offsetof(bt_recipe, r2), false},
        {"r4", SEEN_R4, offsetof(bt_recipe, r4), true},
        {"bias", SEEN_BIAS, offsetof(bt_recipe, bias), true},
        {"no-bias", SEEN_BIAS, offsetof(bt_recipe, bias), false},
        {"act-order", 0, offsetof(bt_recipe, act_order), true},
        {"gptq", SEEN_GPTQ, offsetof(bt_recipe, gptq), true},
        {"no-gptq", SEEN_GPTQ, offsetof(bt_recipe, gptq), false},
    };
    static const struct {
        const char *name;
        unsigned group;
    } setting[] = {{"clip", SEEN_CLIP},
                   {"shadow", SEEN_SHADOW},
                   {"prune", SEEN_PRUNE},
                   {"smooth", SEEN_SMOOTH},
                   {"a16", SEEN_A16},
                   {"group", SEEN_GROUP},
                   {"no-rotate", SEEN_R1 | SEEN_R2}};
    unsigned group = 0;
    bt_err e = BT_EARG;
    char *value = strchr(choice, '=');
    if (value) *value++ = 0;
    if (!strcmp(choice, "r3"))
        return bt_fail(fault, BT_EARG,
                       "recipe: 'r3' turns q and K behind the rotary embedding, so rows of KV would fit no "
                       "decode node but one that turns q likewise: KV stays in the model's own basis");
    for (size_t i = 0; !value && i < sizeof flag / sizeof *flag; i++)
        if (!strcmp(choice, flag[i].name)) {
            group = flag[i].group;
            *(bool *)((char *)r + flag[i].field) = flag[i].value;
            e = BT_OK;
        }
    for (size_t i = 0; e < 0 && i < sizeof setting / sizeof *setting; i++)
        if (!strcmp(choice, setting[i].name)) group = setting[i].group;
    if (!value && group == (SEEN_R1 | SEEN_R2)) {
        r->r1 = r->r2 = false;
        e = BT_OK;
    } else if (e < 0) {
        if (!value || !group || group == (SEEN_R1 | SEEN_R2))
            return bt_fail(fault, BT_EARG, "recipe: no choice '%s': " CHOICES, choice);
        if (group == SEEN_CLIP) e = parse_clip(r, is_a16, value, fault);
        else if (group == SEEN_SHADOW) e = parse_shadow(r, value, fault);
        else if (group == SEEN_A16) e = parse_sites(r, value, fault);
        else if (group == SEEN_GROUP) e = parse_group(r, value, fault);
        else if (group == SEEN_PRUNE) e = fraction(&r->prune, choice, value, fault);
        else e = fraction(&r->smooth, choice, value, fault);
    }
    if (e == BT_OK && (*seen & group)) return bt_fail(fault, BT_EARG, "recipe: '%s' is chosen twice", choice);
    *seen |= group;
    return e;
}

static bt_err check(bt_recipe *r, unsigned seen, bt_fault *fault)
{
    const bool all_16 = !has_8_bit_site(r);
    if (all_16) r->clip_percentile8 = CLIP8;
    if (r->llm_int8) {
        for (int s = 0; s < BT_SITE_KINDS; s++)
            if (r->weight_bits != 8 || r->input_bits[s] != 8)
                return bt_fail(fault, BT_EARG, "recipe: llm-int8 is a way of w8a8, for all sites");
        if (seen & (SEEN_SHADOW | SEEN_CLIP))
            return bt_fail(fault, BT_EARG, "recipe: llm-int8 has no static clip, so neither clip nor shadow");
        r->shadow = BT_SHADOW_OFF;
    }
    if ((seen & SEEN_PRUNE) && r->shadow != BT_SHADOW_CHANNEL)
        return bt_fail(fault, BT_EARG, "recipe: prune is of shadow=channel");
    if (r->group && (r->per_tensor || r->llm_int8))
        return bt_fail(fault, BT_EARG, "recipe: group and %s exclude each other",
                       r->per_tensor ? "per-tensor" : "llm-int8");
    if (r->act_order && !r->gptq) return bt_fail(fault, BT_EARG, "recipe: act-order is of gptq");
    return BT_OK;
}

bt_err bt_recipe_parse(bt_recipe *ret, const char *text, bt_fault *fault)
{
    static const struct {
        const char *name;
        uint8_t weight_bits, input_bits;
    } mode[] = {{"w8a8", 8, 8}, {"w8a16", 8, 16}, {"w4a8", 4, 8}, {"w4a16", 4, 16}};
    char copy[BT_RECIPE_MAX_TEXT];
    if (!text) text = BT_RECIPE_DEFAULT;
    if (strlen(text) >= sizeof copy)
        return bt_fail(fault, BT_EARG, "recipe: %zu characters, the limit is %zu", strlen(text),
                       sizeof copy - 1);
    strcpy(copy, text);
    char *choices = strchr(copy, ':');
    if (choices) *choices++ = 0;
    size_t m = 0;
    while (m < 4 && strcmp(copy, mode[m].name) != 0) m++;
    if (m == 4) return bt_fail(fault, BT_EARG, "recipe: no mode '%s': " MODES, copy);
    bt_recipe r = {.weight_bits = mode[m].weight_bits,
                   .bias = true,
                   .gptq = mode[m].weight_bits == 4,
                   .shadow = BT_SHADOW_VALUE,
                   .clip_percentile8 = CLIP8,
                   .clip_percentile16 = CLIP16,
                   .smooth = -1};
    memset(r.input_bits, mode[m].input_bits, sizeof r.input_bits);
    unsigned seen = 0;
    for (char *next; choices; choices = next) {
        if ((next = strchr(choices, ','))) *next++ = 0;
        const bt_err e = parse_choice(&r, &seen, mode[m].input_bits == 16, choices, fault);
        if (e < 0) return e;
    }
    if (!(seen & SEEN_R1)) r.r1 = rotates(&r);
    if (!(seen & SEEN_R2)) r.r2 = rotates(&r);
    const bt_err e = check(&r, seen, fault);
    if (e == BT_OK) *ret = r;
    return e;
}

bt_err bt_recipe_check_group(const bt_recipe *r, bt_site_kind site, uint32_t inputs, bt_fault *fault)
{
    if (!r->group || inputs % r->group == 0) return BT_OK;
    return bt_fail(fault, BT_EARG, "group=%u does not divide the %u inputs of site %s (--quant)", r->group,
                   inputs, bt_site_kind_name(site));
}

unsigned bt_recipe_rotations(const bt_recipe *r)
{
    return (r->r1 ? BT_ROTATION_R1 : 0u) | (r->r2 ? BT_ROTATION_R2 : 0u) | (r->r4 ? BT_ROTATION_R4 : 0u);
}

typedef struct line {
    char *text;
    size_t len;
    char before; /* ':' in front of the first choice, then ',' */
} line;

static void add(line *l, const char *name, const char *value)
{
    l->len +=
        (size_t)snprintf(l->text + l->len, BT_RECIPE_MAX_TEXT - l->len, "%c%s%s", l->before, name, value);
    l->before = ',';
}

static void add_number(line *l, const char *name, double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.7g", v);
    add(l, name, text);
}

void bt_recipe_text(char ret[BT_RECIPE_MAX_TEXT], const bt_recipe *r)
{
    const bool all_16 = !has_8_bit_site(r), gptq_default = r->weight_bits == 4;
    const double clip = all_16 ? r->clip_percentile16 : r->clip_percentile8;
    char sites[32] = "";
    line l = {.text = ret, .before = ':'};
    l.len = (size_t)snprintf(ret, BT_RECIPE_MAX_TEXT, "w%ua%u", r->weight_bits, all_16 ? 16u : 8u);
    if (r->per_tensor) add(&l, "per-tensor", "");
    if (r->group) add_number(&l, "group=", r->group);
    if (rotates(r) && !r->r1 && !r->r2) {
        add(&l, "no-rotate", "");
    } else {
        if (r->r1 != rotates(r)) add(&l, r->r1 ? "r1" : "no-r1", "");
        if (r->r2 != rotates(r)) add(&l, r->r2 ? "r2" : "no-r2", "");
    }
    if (r->r4) add(&l, "r4", "");
    if (clip != (all_16 ? CLIP16 : CLIP8)) {
        if (clip >= 100) add(&l, "clip=max", "");
        else if (clip <= AUTO) add(&l, "clip=auto", "");
        else add_number(&l, "clip=p", clip);
    }
    if (!r->llm_int8 && r->shadow != BT_SHADOW_VALUE) add(&l, "shadow=", shadow_name[r->shadow]);
    if (r->prune > 0) add_number(&l, "prune=", r->prune);
    if (r->smooth >= 0) add_number(&l, "smooth=", r->smooth);
    for (int s = 0; !all_16 && s < BT_SITE_KINDS; s++)
        if (r->input_bits[s] == 16) {
            if (sites[0]) strcat(sites, "+");
            strcat(sites, bt_site_kind_name((bt_site_kind)s));
        }
    if (sites[0]) add(&l, "a16=", sites);
    if (!r->bias) add(&l, "no-bias", "");
    if (r->gptq != gptq_default) add(&l, r->gptq ? "gptq" : "no-gptq", "");
    if (r->act_order) add(&l, "act-order", "");
    if (r->llm_int8) add(&l, "llm-int8", "");
}
