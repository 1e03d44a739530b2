/* Recipes as text: parsing, with faults that list the choices, and the one text of each recipe. */
#include "npu/pkg/recipe.h"
#include "base/num.h"
#include "model/model.h"
#include "model/weight.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MODES "w8a8, w8a16, w4a8, w4a16"
#define CHOICES \
    "per-tensor, group=, lut4, lut6, r1, no-r1, r2, no-r2, r4, no-rotate, clip=, shadow=, prune=, smooth=, " \
    "awq, asym, " \
    "no-asym, a16=, bias, no-bias, gptq, no-gptq, gptq=, act-order, llm-int8"
_Static_assert((int)BT_RECIPE_HEAD == (int)BT_MODEL_MAX_LAYERS, "a layer's number is never the head's");
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
    SEEN_GROUP = 1024,
    SEEN_LLM_INT8 = 2048,
    SEEN_ASYM = 4096,
    SEEN_AWQ = 8192,
    SEEN_LUT = 16384,
    ALL_SITES = (1 << BT_SITE_KINDS) - 1, /* of bt_recipe_layer.gptq */
    SEEN_WHOLE = SEEN_R1 | SEEN_R2 | SEEN_R4 | SEEN_SHADOW | SEEN_PRUNE | SEEN_SMOOTH | SEEN_LLM_INT8 |
                 SEEN_ASYM | SEEN_AWQ
};

static const char *const shadow_name[] = {"off", "value", "channel"};

const char *bt_site_kind_name(bt_site_kind k)
{
    static const char *const names[BT_SITE_KINDS] = {"qkv", "o", "up", "down", "head"};
    return (unsigned)k < BT_SITE_KINDS ? names[k] : "?";
}

static bool has_8_bit_site(const bt_recipe_layer *r)
{
    for (int s = 0; s < BT_SITE_KINDS; s++)
        if (r->input_bits[s] == 8) return true;
    return false;
}

/* The defaults that depend on other choices: R1 and R2, then GPTQ. */
static bool rotates(const bt_recipe *r)
{
    return !r->awq && (r->usual.weight_bits != 4 || r->usual.group != 32);
}
static bool has_gptq(const bt_recipe *r) { return !r->awq && r->usual.weight_bits == 4; }

/* Whether a layer's recipe that says nothing of GPTQ leaves it to the model. whole: NULL for a part. */
static bool leaves_gptq(const bt_recipe_layer *l, const bt_recipe *whole)
{
    return l->weight_bits == 8 && !l->palette_bits && !(whole && (whole->awq || whole->llm_int8));
}

/* Reads a number with at most four digits after the point, so that its text gives the same number again. */
static bt_err number(double *ret, const char *text, double lo, double hi, bt_fault *fault)
{
    double v;
    const bt_err e = bt_num_double(&v, text, lo, hi, fault);
    if (e == BT_OK) *ret = rint(v * 1e4) / 1e4;
    return e;
}

static bt_err parse_clip(bt_recipe_layer *r, bool is_a16, const char *value, bt_fault *fault)
{
    double p = 100;
    if (!strcmp(value, "auto")) p = AUTO;
    else if (strcmp(value, "max") != 0 && (value[0] != 'p' || number(&p, value + 1, 50, 100, NULL) < 0))
        return bt_fail(
            fault, BT_EARG,
            "recipe: clip=%s is neither 'auto' nor 'max' nor a percentile from p50 to p100, as p99.99",
            value);
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
    return bt_fail(fault, BT_EARG, "recipe: shadow=%s is none of off, value and channel", value);
}

/* *ret: bits 1 << bt_site_kind. */
static bt_err parse_sites(unsigned *ret, const char *choice, char *value, bt_fault *fault)
{
    *ret = 0;
    for (char *site = value, *next; site; site = next) {
        if ((next = strchr(site, '+'))) *next++ = 0;
        int s = 0;
        while (s < BT_SITE_KINDS && strcmp(site, bt_site_kind_name((bt_site_kind)s)) != 0) s++;
        if (s == BT_SITE_KINDS)
            return bt_fail(fault, BT_EARG,
                           "recipe: %s=%s names no sites; they are qkv, o, up, down, head, joined by '+'",
                           choice, site);
        *ret |= 1u << s;
    }
    return BT_OK;
}

static bt_err parse_a16(bt_recipe_layer *r, char *value, bt_fault *fault)
{
    unsigned sites;
    const bt_err e = parse_sites(&sites, "a16", value, fault);
    for (int s = 0; e == BT_OK && s < BT_SITE_KINDS; s++)
        if (sites >> s & 1) r->input_bits[s] = 16;
    return e;
}

static bt_err parse_gptq(bt_recipe_layer *r, char *value, bt_fault *fault)
{
    unsigned sites;
    const bt_err e = parse_sites(&sites, "gptq", value, fault);
    if (e == BT_OK) r->gptq = (uint8_t)sites;
    return e;
}

static bt_err parse_group(bt_recipe_layer *r, const char *value, bt_fault *fault)
{
    for (uint16_t g = 32; g <= 128; g *= 2) {
        char text[8];
        snprintf(text, sizeof text, "%u", g);
        if (strcmp(value, text) != 0) continue;
        r->group = g;
        return BT_OK;
    }
    return bt_fail(fault, BT_EARG, "recipe: group=%s is none of 32, 64 and 128", value);
}

static bt_err fraction(double *ret, const char *name, const char *value, bt_fault *fault)
{
    if (number(ret, value, 0, 1, NULL) == BT_OK) return BT_OK;
    return bt_fail(fault, BT_EARG, "recipe: %s=%s is no number from 0 to 1", name, value);
}

/* Reads one choice. *seen: the kinds of choices so far, so that no kind is chosen twice. */
static bt_err parse_choice(bt_recipe *r, unsigned *seen, bool is_a16, char *choice, bt_fault *fault)
{
    /* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order in which a row is read */
    static const struct {
        const char *name;
        unsigned group;
        size_t field; /* offset of the flag's field */
        bool value;
    } flag[] = {
        {"per-tensor", 0, offsetof(bt_recipe, usual.per_tensor), true},
        {"llm-int8", SEEN_LLM_INT8, offsetof(bt_recipe, llm_int8), true},
        {"r1", SEEN_R1, offsetof(bt_recipe, r1), true},
        {"no-r1", SEEN_R1, offsetof(bt_recipe, r1), false},
        {"r2", SEEN_R2, offsetof(bt_recipe, r2), true},
        {"no-r2", SEEN_R2, offsetof(bt_recipe, r2), false},
        {"r4", SEEN_R4, offsetof(bt_recipe, r4), true},
        {"awq", SEEN_AWQ, offsetof(bt_recipe, awq), true},
        {"bias", SEEN_BIAS, offsetof(bt_recipe, usual.bias), true},
        {"no-bias", SEEN_BIAS, offsetof(bt_recipe, usual.bias), false},
        {"act-order", 0, offsetof(bt_recipe, usual.act_order), true},
    };
    static const struct {
        const char *name;
        unsigned group;
    } setting[] = {{"clip", SEEN_CLIP},   {"shadow", SEEN_SHADOW},
                   {"prune", SEEN_PRUNE}, {"smooth", SEEN_SMOOTH},
                   {"a16", SEEN_A16},     {"gptq", SEEN_GPTQ},
                   {"group", SEEN_GROUP}, {"no-rotate", SEEN_R1 | SEEN_R2}};
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
    if (!value && (!strcmp(choice, "asym") || !strcmp(choice, "no-asym"))) {
        group = SEEN_ASYM;
        r->asym = choice[0] == 'a' ? BT_ASYM_ON : BT_ASYM_OFF;
        e = BT_OK;
    }
    if (!value && (!strcmp(choice, "gptq") || !strcmp(choice, "no-gptq"))) {
        group = SEEN_GPTQ;
        r->usual.gptq = choice[0] == 'g' ? ALL_SITES : 0;
        e = BT_OK;
    }
    if (!value && (!strcmp(choice, "lut4") || !strcmp(choice, "lut6"))) {
        group = SEEN_LUT;
        r->usual.palette_bits = (uint8_t)(choice[3] - '0');
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
        if (group == SEEN_CLIP) e = parse_clip(&r->usual, is_a16, value, fault);
        else if (group == SEEN_SHADOW) e = parse_shadow(r, value, fault);
        else if (group == SEEN_A16) e = parse_a16(&r->usual, value, fault);
        else if (group == SEEN_GPTQ) e = parse_gptq(&r->usual, value, fault);
        else if (group == SEEN_GROUP) e = parse_group(&r->usual, value, fault);
        else if (group == SEEN_PRUNE) e = fraction(&r->prune, choice, value, fault);
        else e = fraction(&r->smooth, choice, value, fault);
    }
    if (e == BT_OK && (*seen & group)) return bt_fail(fault, BT_EARG, "recipe: '%s' is chosen twice", choice);
    *seen |= group;
    return e;
}

/* Refuses palettes with choices that exclude them. */
static bt_err check_palette(const bt_recipe *r, const bt_recipe_layer *l, bt_fault *fault)
{
    const char *other = l->per_tensor ? "per-tensor" : l->gptq ? "gptq" : r->awq ? "awq" : "llm-int8";
    if (!l->palette_bits) return BT_OK;
    if (l->weight_bits != 8)
        return bt_fail(
            fault, BT_EARG,
            "recipe: lut%u needs w8a8 or w8a16: the palette holds numbers of 8 bits, and weights have %u",
            l->palette_bits, l->weight_bits);
    if (l->per_tensor || l->gptq || r->awq || r->llm_int8)
        return bt_fail(fault, BT_EARG, "recipe: lut%u and %s exclude each other", l->palette_bits, other);
    return BT_OK;
}

static bt_err check(bt_recipe *r, unsigned seen, bt_fault *fault)
{
    bt_recipe_layer *l = &r->usual;
    if (!has_8_bit_site(l)) l->clip_percentile8 = CLIP8;
    if (r->llm_int8) {
        for (int s = 0; s < BT_SITE_KINDS; s++)
            if (l->weight_bits != 8 || l->input_bits[s] != 8)
                return bt_fail(fault, BT_EARG, "recipe: llm-int8 needs w8a8 at all sites");
        if (seen & (SEEN_SHADOW | SEEN_CLIP))
            return bt_fail(fault, BT_EARG, "recipe: llm-int8 has no static clip, so neither clip nor shadow");
        if (r->asym == BT_ASYM_ON)
            return bt_fail(fault, BT_EARG,
                           "recipe: asym and llm-int8 exclude each other: rows have no static range");
        r->shadow = BT_SHADOW_OFF;
    }
    if ((seen & SEEN_PRUNE) && r->shadow != BT_SHADOW_CHANNEL)
        return bt_fail(fault, BT_EARG, "recipe: prune needs shadow=channel");
    if (l->group && (l->per_tensor || r->llm_int8))
        return bt_fail(fault, BT_EARG, "recipe: group and %s exclude each other",
                       l->per_tensor ? "per-tensor" : "llm-int8");
    if (r->awq && (l->per_tensor || r->llm_int8 || r->smooth >= 0))
        return bt_fail(fault, BT_EARG, "recipe: awq and %s exclude each other",
                       l->per_tensor ? "per-tensor"
                       : r->llm_int8 ? "llm-int8"
                                     : "smooth, which scales the same inputs,");
    if (l->act_order && !l->gptq) return bt_fail(fault, BT_EARG, "recipe: act-order needs gptq");
    return check_palette(r, l, fault);
}

/* Reads MODE[:CHOICES]; text is cut to pieces. *ret_seen: the kinds of choices in it. */
static bt_err parse_one(bt_recipe *ret, unsigned *ret_seen, char *text, bt_fault *fault)
{
    static const struct {
        const char *name;
        uint8_t weight_bits, input_bits;
    } mode[] = {{"w8a8", 8, 8}, {"w8a16", 8, 16}, {"w4a8", 4, 8}, {"w4a16", 4, 16}};
    char *choices = strchr(text, ':');
    if (choices) *choices++ = 0;
    size_t m = 0;
    while (m < 4 && strcmp(text, mode[m].name) != 0) m++;
    if (!strcmp(text, "auto"))
        return bt_fail(fault, BT_EARG,
                       "recipe: 'auto' asks for a search, which is not done here: 'baton compile' "
                       "finds a recipe and shows it");
    if (m == 4) return bt_fail(fault, BT_EARG, "recipe: no mode '%s': " MODES, text);
    bt_recipe r = {.usual = {.weight_bits = mode[m].weight_bits, .bias = true, .clip_percentile8 = CLIP8,
                             .clip_percentile16 = CLIP16},
                   .shadow = BT_SHADOW_VALUE, .smooth = -1};
    memset(r.usual.input_bits, mode[m].input_bits, sizeof r.usual.input_bits);
    unsigned seen = 0;
    for (char *next; choices; choices = next) {
        if ((next = strchr(choices, ','))) *next++ = 0;
        const bt_err e = parse_choice(&r, &seen, mode[m].input_bits == 16, choices, fault);
        if (e < 0) return e;
    }
    if (!(seen & SEEN_R1)) r.r1 = rotates(&r);
    if (!(seen & SEEN_R2)) r.r2 = rotates(&r);
    if (!(seen & SEEN_GPTQ)) r.usual.gptq = has_gptq(&r) ? ALL_SITES : 0;
    r.usual.gptq_auto = !(seen & SEEN_GPTQ) && leaves_gptq(&r.usual, &r);
    const bt_err e = check(&r, seen, fault);
    if (e == BT_OK) *ret = r;
    if (e == BT_OK) *ret_seen = seen;
    return e;
}

/* ---- recipes of layers ---- */

static const char *text_of_layer(char ret[BT_RECIPE_MAX_TEXT], const bt_recipe_layer *l);

/* A recipe for layers alone, or for the head alone. The other sites' fields say nothing then and get fixed
 * values, so that equal recipes compare equal. */
static bt_recipe_layer only(const bt_recipe_layer *l, bool is_head)
{
    bt_recipe_layer one = *l;
    if (is_head) {
        memset(one.input_bits, l->input_bits[BT_SITE_HEAD], sizeof one.input_bits);
        one.gptq = l->gptq >> BT_SITE_HEAD & 1 ? ALL_SITES : 0;
    } else {
        one.gptq &= (uint8_t) ~(1u << BT_SITE_HEAD);
        if (one.gptq == (ALL_SITES & ~(1u << BT_SITE_HEAD))) one.gptq = ALL_SITES;
        one.input_bits[BT_SITE_HEAD] = 16;
        for (int s = 0; s < BT_SITE_HEAD; s++)
            if (l->input_bits[s] == 8) one.input_bits[BT_SITE_HEAD] = 8;
    }
    if (!has_8_bit_site(&one)) one.clip_percentile8 = CLIP8;
    return one;
}

static bool is_same(const bt_recipe_layer *a, const bt_recipe_layer *b)
{
    char one[BT_RECIPE_MAX_TEXT], other[BT_RECIPE_MAX_TEXT];
    return strcmp(text_of_layer(one, a), text_of_layer(other, b)) == 0;
}

/* The number of a recipe in part_of; a new recipe is added. */
static bt_err part_index(uint8_t *ret, bt_recipe *r, const bt_recipe_layer *l, bool is_head, bt_fault *fault)
{
    const bt_recipe_layer usual = only(&r->usual, is_head), own = only(l, is_head);
    uint8_t i = 0;
    *ret = 0;
    if (is_same(&usual, &own)) return BT_OK;
    while (i < r->parts && !is_same(&r->part[i], &own)) i++;
    if (i == BT_RECIPE_MAX_PARTS)
        return bt_fail(fault, BT_EARG, "recipe: more than %d recipes of layers that differ",
                       BT_RECIPE_MAX_PARTS);
    if (i == r->parts) r->part[r->parts++] = own;
    *ret = (uint8_t)(i + 1);
    return BT_OK;
}

/* Reads "3", "3-7" or "head" as numbers of layers. */
static bt_err parse_range(uint32_t *first, uint32_t *last, const char *text, bt_fault *fault)
{
    uint32_t n[2] = {0, 0};
    size_t numbers = 0;
    const char *c = text;
    if (!strcmp(text, "head")) {
        *first = *last = BT_RECIPE_HEAD;
        return BT_OK;
    }
    for (; numbers < 2 && *c >= '0' && *c <= '9'; numbers++) {
        for (; *c >= '0' && *c <= '9' && n[numbers] < BT_RECIPE_HEAD; c++)
            n[numbers] = 10 * n[numbers] + (uint32_t)(*c - '0');
        if (n[numbers] >= BT_RECIPE_HEAD)
            return bt_fail(fault, BT_EARG, "recipe: layers '%s': the number of a layer is at most %d", text,
                           BT_RECIPE_HEAD - 1);
        if (numbers == 0 && *c == '-') c++;
    }
    if (numbers == 0 || *c || c[-1] == '-' || (numbers == 2 && n[1] < n[0]))
        return bt_fail(
            fault, BT_EARG,
            "recipe: layers '%s' are not numbers, pairs with '-' or 'head', joined by '+', as 0-3+29", text);
    *first = n[0];
    *last = n[numbers - 1];
    return BT_OK;
}

/* Reads LAYERS=MODE[:CHOICES]. named: the layers of earlier parts. */
static bt_err parse_part(bt_recipe *r, bool named[BT_RECIPE_HEAD + 1], char *text, bt_fault *fault)
{
    bt_recipe own;
    unsigned seen = 0;
    char *mode = strchr(text, '=');
    if (!mode)
        return bt_fail(fault, BT_EARG,
                       "recipe: '/%s' is not layers, '=' and their recipe, as /0-3=w4a8:group=32", text);
    *mode++ = 0;
    bt_err e = parse_one(&own, &seen, mode, fault);
    if (e == BT_OK && (seen & SEEN_WHOLE))
        e = bt_fail(fault, BT_EARG,
                    "recipe: layers %s: rotations, shadow, prune, smooth, asym and llm-int8 hold for the "
                    "whole model and stand before the first '/'",
                    text);
    for (char *next; e == BT_OK && text; text = next) {
        uint32_t first = 0, last = 0;
        uint8_t part = 0;
        if ((next = strchr(text, '+'))) *next++ = 0;
        e = parse_range(&first, &last, text, fault);
        if (e == BT_OK) e = part_index(&part, r, &own.usual, first == BT_RECIPE_HEAD, fault);
        for (uint32_t l = first; e == BT_OK && l <= last; l++) {
            if (named[l]) e = bt_fail(fault, BT_EARG, "recipe: layer '%s' is named twice", text);
            named[l] = true;
            r->part_of[l] = part;
        }
    }
    return e;
}

bt_err bt_recipe_parse(bt_recipe *ret, const char *text, bt_fault *fault)
{
    char copy[BT_RECIPE_MAX_TEXT];
    bool named[BT_RECIPE_HEAD + 1] = {false};
    bt_recipe r;
    unsigned seen = 0;
    if (!text) text = BT_RECIPE_DEFAULT;
    if (strlen(text) >= sizeof copy)
        return bt_fail(fault, BT_EARG, "the recipe has %zu characters; at most %zu are allowed", strlen(text),
                       sizeof copy - 1);
    strcpy(copy, text);
    char *part = strchr(copy, '/');
    if (part) *part++ = 0;
    bt_err e = parse_one(&r, &seen, copy, fault);
    if (e == BT_OK && part && r.llm_int8)
        e = bt_fail(fault, BT_EARG,
                    "recipe: llm-int8 holds for the whole model, so no layers have a recipe of their own");
    for (char *next; e == BT_OK && part; part = next) {
        if ((next = strchr(part, '/'))) *next++ = 0;
        e = parse_part(&r, named, part, fault);
    }
    for (uint8_t i = 0; e == BT_OK && i < r.parts; i++) e = check_palette(&r, &r.part[i], fault);
    if (e == BT_OK && r.asym == BT_ASYM_ON && !bt_recipe_has_8_bit_site(&r))
        e = bt_fail(fault, BT_EARG, "recipe: asym needs inputs of 8 bits, and all have 16");
    if (e == BT_OK) *ret = r;
    return e;
}

const bt_recipe_layer *bt_recipe_of(const bt_recipe *r, uint32_t layer, bt_site_kind site)
{
    const uint32_t at = site == BT_SITE_HEAD ? (uint32_t)BT_RECIPE_HEAD : layer;
    const uint8_t part = at <= BT_RECIPE_HEAD ? r->part_of[at] : 0;
    return part ? &r->part[part - 1] : &r->usual;
}

unsigned bt_recipe_gptq_sites(const bt_recipe *r)
{
    unsigned sites = r->usual.gptq;
    for (uint8_t i = 0; i < r->parts; i++) sites |= r->part[i].gptq;
    return sites;
}

static void settle(bt_recipe_layer *l, bool is_wanted)
{
    if (is_wanted && l->gptq_auto) l->gptq = ALL_SITES;
    if (!l->gptq && leaves_gptq(l, NULL)) l->gptq_auto = !is_wanted;
    if (l->gptq) l->gptq_auto = false;
}

void bt_recipe_settle_gptq(bt_recipe *r, bool is_wanted)
{
    const bool is_open = is_wanted && !r->awq && !r->llm_int8;
    settle(&r->usual, is_open);
    for (uint8_t i = 0; i < r->parts; i++) settle(&r->part[i], is_open);
}

bool bt_recipe_has_8_bit_site(const bt_recipe *r)
{
    bool has = has_8_bit_site(&r->usual);
    for (uint8_t i = 0; i < r->parts; i++) has |= has_8_bit_site(&r->part[i]);
    return has;
}

bt_err bt_recipe_check_layers(const bt_recipe *r, uint32_t layers, bt_fault *fault)
{
    for (uint32_t l = layers; l < BT_RECIPE_HEAD; l++)
        if (r->part_of[l])
            return bt_fail(fault, BT_EARG,
                           "--quant has a recipe for layer %u, and the model has %u layers, from 0", l,
                           layers);
    return BT_OK;
}

bt_err bt_recipe_check_group(const bt_recipe_layer *r, bt_site_kind site, uint32_t inputs, bt_fault *fault)
{
    if (r->palette_bits && inputs % 4)
        return bt_fail(fault, BT_EARG, "lut%u takes inputs by fours, and site %s has %u (--quant)",
                       r->palette_bits, bt_site_kind_name(site), inputs);
    if (!r->group || inputs % r->group == 0) return BT_OK;
    return bt_fail(fault, BT_EARG, "group=%u does not divide the %u inputs of site %s (--quant)", r->group,
                   inputs, bt_site_kind_name(site));
}

bool bt_recipe_scales(const bt_recipe *r) { return r->smooth >= 0 || r->awq; }

unsigned bt_recipe_rotations(const bt_recipe *r)
{
    return (r->r1 ? BT_ROTATION_R1 : 0u) | (r->r2 ? BT_ROTATION_R2 : 0u) | (r->r4 ? BT_ROTATION_R4 : 0u);
}

/* ---- text ---- */

typedef struct line {
    char *text; /* [BT_RECIPE_MAX_TEXT]; the canonical text is no longer than the parsed text */
    size_t len;
    char before; /* ':' in front of the first choice, then ',' */
} line;

static void put(line *l, const char *text)
{
    for (; *text && l->len + 1 < BT_RECIPE_MAX_TEXT; text++) l->text[l->len++] = *text;
    l->text[l->len] = 0;
}

static void add(line *l, const char *name, const char *value)
{
    const char before[2] = {l->before, 0};
    put(l, before);
    put(l, name);
    put(l, value);
    l->before = ',';
}

static void add_number(line *l, const char *name, double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.7g", v);
    add(l, name, text);
}

static void add_whole(line *l, const bt_recipe *r)
{
    if (rotates(r) && !r->r1 && !r->r2) {
        add(l, "no-rotate", "");
    } else {
        if (r->r1 != rotates(r)) add(l, r->r1 ? "r1" : "no-r1", "");
        if (r->r2 != rotates(r)) add(l, r->r2 ? "r2" : "no-r2", "");
    }
    if (r->r4) add(l, "r4", "");
}

static void add_clip(line *l, const bt_recipe_layer *r, bool all_16)
{
    const double clip = all_16 ? r->clip_percentile16 : r->clip_percentile8;
    if (clip == (all_16 ? CLIP16 : CLIP8)) return;
    if (clip >= 100) add(l, "clip=max", "");
    else if (clip <= AUTO) add(l, "clip=auto", "");
    else add_number(l, "clip=p", clip);
}

/* Writes which sites, joined by '+'. */
static void add_sites(line *l, const char *name, unsigned which)
{
    char sites[32] = "";
    for (int s = 0; s < BT_SITE_KINDS; s++)
        if (which >> s & 1) {
            if (sites[0]) strcat(sites, "+");
            strcat(sites, bt_site_kind_name((bt_site_kind)s));
        }
    if (sites[0]) add(l, name, sites);
}

static void add_gptq(line *l, const bt_recipe_layer *r, const bt_recipe *whole)
{
    const uint8_t usual = (whole ? has_gptq(whole) : r->weight_bits == 4) ? ALL_SITES : 0;
    if (r->gptq == usual && (usual || r->gptq_auto || !leaves_gptq(r, whole))) return;
    if (r->gptq == 0 || r->gptq == ALL_SITES) add(l, r->gptq ? "gptq" : "no-gptq", "");
    else add_sites(l, "gptq=", r->gptq);
}

/* Writes MODE[:CHOICES]. whole: the recipe in front; NULL for the recipe of a part. */
static void add_recipe(line *l, const bt_recipe_layer *r, const bt_recipe *whole)
{
    const bool all_16 = !has_8_bit_site(r);
    unsigned wide = 0; /* sites of 16-bit inputs */
    char mode[8];
    snprintf(mode, sizeof mode, "w%ua%u", r->weight_bits, all_16 ? 16u : 8u);
    put(l, mode);
    l->before = ':';
    if (r->per_tensor) add(l, "per-tensor", "");
    if (r->group) add_number(l, "group=", r->group);
    if (r->palette_bits) add(l, r->palette_bits == 4 ? "lut4" : "lut6", "");
    if (whole) add_whole(l, whole);
    add_clip(l, r, all_16);
    if (whole && !whole->llm_int8 && whole->shadow != BT_SHADOW_VALUE)
        add(l, "shadow=", shadow_name[whole->shadow]);
    if (whole && whole->prune > 0) add_number(l, "prune=", whole->prune);
    if (whole && whole->smooth >= 0) add_number(l, "smooth=", whole->smooth);
    if (whole && whole->awq) add(l, "awq", "");
    if (whole && whole->asym) add(l, whole->asym == BT_ASYM_ON ? "asym" : "no-asym", "");
    for (int s = 0; !all_16 && s < BT_SITE_KINDS; s++)
        if (r->input_bits[s] == 16) wide |= 1u << s;
    add_sites(l, "a16=", wide);
    if (!r->bias) add(l, "no-bias", "");
    add_gptq(l, r, whole);
    if (r->act_order) add(l, "act-order", "");
    if (whole && whole->llm_int8) add(l, "llm-int8", "");
}

static const char *text_of_layer(char ret[BT_RECIPE_MAX_TEXT], const bt_recipe_layer *l)
{
    line to = {.text = ret};
    add_recipe(&to, l, NULL);
    return ret;
}

/* Writes the layers of a part, "0-3+29", "head" last. */
static void add_layers(line *l, const bt_recipe *r, uint8_t part)
{
    char before = '/', text[24];
    for (uint32_t first = 0; first <= BT_RECIPE_HEAD; first++) {
        uint32_t last = first;
        if (r->part_of[first] != part) continue;
        while (first < BT_RECIPE_HEAD && last + 1 < BT_RECIPE_HEAD && r->part_of[last + 1] == part) last++;
        if (first == BT_RECIPE_HEAD) snprintf(text, sizeof text, "%chead", before);
        else if (first == last) snprintf(text, sizeof text, "%c%u", before, first);
        else snprintf(text, sizeof text, "%c%u-%u", before, first, last);
        put(l, text);
        before = '+';
        first = last;
    }
}

void bt_recipe_text(char ret[BT_RECIPE_MAX_TEXT], const bt_recipe *r)
{
    bool told[BT_RECIPE_MAX_PARTS + 1] = {true};
    line l = {.text = ret};
    add_recipe(&l, &r->usual, r);
    for (uint32_t at = 0; at <= BT_RECIPE_HEAD; at++) {
        const uint8_t part = r->part_of[at];
        if (told[part]) continue;
        told[part] = true;
        add_layers(&l, r, part);
        put(&l, "=");
        add_recipe(&l, &r->part[part - 1], NULL);
    }
}

bool bt_recipe_is_same(const bt_recipe *a, const bt_recipe *b, uint32_t layer, bt_site_kind site)
{
    char text[2][BT_RECIPE_MAX_TEXT];
    const bt_recipe *of[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        bt_recipe one = *of[i];
        one.usual = only(bt_recipe_of(of[i], layer, site), site == BT_SITE_HEAD);
        one.parts = 0;
        memset(one.part_of, 0, sizeof one.part_of);
        bt_recipe_text(text[i], &one);
    }
    return a->r1 == b->r1 && a->r2 == b->r2 && strcmp(text[0], text[1]) == 0;
}
