/* Chooses the clips and scales of inputs, and which layers lose their shadow. */
#include "npu/quant/sites.h"
#include "kernels/edge.h"
#include "npu/pkg/pkg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADROOM = 4 }; /* a shadow holds this many times the calibration's maximum */

typedef struct ends { /* of the range that a clip leaves: lo <= 0 <= hi */
    float lo, hi;
} ends;

/* The RMS of the values within the ends, each at the middle of its bin. */
static double rms_within(const bt_calib_site *s, ends e)
{
    double square = 0, count = 0;
    for (uint32_t bin = 0; bin < BT_CALIB_BINS; bin++) {
        const uint32_t bits = bin << 15 | 0x4000;
        float v;
        memcpy(&v, &bits, sizeof v);
        if (v > e.hi && v > -e.lo) break;
        const double within =
            (v > e.hi ? 0.0 : s->hist[bin]) + (v > -e.lo ? 0.0 : s->hist[BT_CALIB_BINS + bin]);
        square += within * ((double)v * v);
        count += within;
    }
    return count > 0 ? sqrt(square / count) : 0;
}

static const double steps[] = {99.99, 99.9, 99.5}; /* percentiles that clip=auto tries */

static double asked(const bt_recipe_layer *r, unsigned bits)
{
    return bits == 16 ? r->clip_percentile16 : r->clip_percentile8;
}

double bt_sites_percentile(const bt_recipe_layer *r, unsigned bits)
{
    return asked(r, bits) > 0 ? asked(r, bits) : steps[0];
}

static ends ends_of(const bt_calib_site *s, double percentile, bool asymmetric)
{
    ends e;
    if (asymmetric) {
        bt_calib_range(&e.lo, &e.hi, s, percentile);
    } else {
        e.hi = bt_calib_percentile(s, percentile);
        e.lo = -e.hi;
    }
    return e;
}

static ends clip_of(const bt_calib_site *s, double percentile, bool asymmetric, bt_shadow_kind shadow)
{
    ends e = ends_of(s, percentile > 0 ? percentile : steps[0], asymmetric);
    for (size_t i = 1; percentile <= 0 && shadow == BT_SHADOW_VALUE && i < sizeof steps / sizeof *steps &&
                       ((double)e.hi - e.lo) / 2 > 5 * rms_within(s, e);
         i++)
        e = ends_of(s, steps[i], asymmetric);
    return e;
}

/* Whether column i exceeds what the site holds without a shadow. */
static bool is_beyond(const bt_pkg_site *s, const bt_calib_site *stats, size_t i)
{
    if (!s->asymmetric) return stats->column_max[i] > s->clip;
    return stats->column_end[i] < (float)(-128 - s->zero) * s->scale ||
           stats->column_end[stats->k + i] > (float)(127 - s->zero) * s->scale;
}

static bt_pkg_site planned(size_t i, size_t sites, uint32_t k, const bt_recipe *recipe)
{
    const bool is_head = i + 1 == sites;
    bt_pkg_site s = {.layer = is_head ? UINT32_MAX : (uint32_t)(i / BT_PKG_LAYER_SITES),
                     .kind = is_head ? BT_SITE_HEAD : (uint32_t)(i % BT_PKG_LAYER_SITES),
                     .shadow = recipe->shadow, .k = k, .hot = BT_PKG_NONE};
    s.bits = bt_recipe_of(recipe, s.layer, (bt_site_kind)s.kind)->input_bits[s.kind];
    s.asymmetric = recipe->asym == BT_ASYM_ON && s.bits != 16;
    return s;
}

void bt_sites_plan(bt_pkg_site *site, size_t sites, const bt_hparams *hp, const bt_recipe *recipe)
{
    for (size_t i = 0; i < sites; i++) {
        const uint32_t kind = i + 1 == sites ? (uint32_t)BT_SITE_HEAD : (uint32_t)(i % BT_PKG_LAYER_SITES);
        site[i] =
            planned(i, sites, bt_pkg_site_width(kind, hp->dim, hp->heads * hp->head_dim, hp->ffn), recipe);
    }
}

static void choose_one(bt_pkg_site *s, const bt_calib_site *stats, const bt_recipe_layer *recipe)
{
    const bool is16 = s->bits == 16;
    const ends e = clip_of(stats, asked(recipe, s->bits), s->asymmetric, (bt_shadow_kind)s->shadow);
    size_t beyond = 0;
    s->max = stats->max;
    s->rms = stats->count ? (float)sqrt(stats->square / (double)stats->count) : 0;
    s->clip = e.hi > -e.lo ? e.hi : -e.lo;
    s->scale = s->asymmetric ? (e.hi - e.lo) / 255 : s->clip / (is16 ? (float)BT_INT_MAX16 : 127.0f);
    /* A value with its shadow has at most BT_EDGE_LIMIT steps: a scale that would cut the greatest value is
     * made coarser. */
    const float least = HEADROOM * s->max / (float)BT_EDGE_LIMIT;
    if (s->shadow != BT_SHADOW_OFF && s->scale < least) s->scale = least;
    if (!(s->scale > 0) || !isfinite(1 / s->scale)) s->scale = 1;
    s->inv_scale = 1 / s->scale;
    if (s->asymmetric) s->zero = (int16_t)fminf(fmaxf(rintf(-128 - e.lo / s->scale), -128), 127);
    for (size_t i = 0; i < stats->k; i++) beyond += is_beyond(s, stats, i);
    s->outlier_columns = (float)beyond / (float)stats->k;
}

void bt_sites_expert(bt_pkg_expert *ret, uint32_t layer, uint32_t kind, const bt_calib_site *stats,
                     const bt_recipe *recipe)
{
    const size_t at = (size_t)layer * BT_PKG_LAYER_SITES + kind;
    bt_pkg_site s = planned(at, at + 2, (uint32_t)stats->k, recipe); /* no head */
    choose_one(&s, stats, bt_recipe_of(recipe, layer, (bt_site_kind)kind));
    *ret = (bt_pkg_expert){.scale = s.scale, .inv_scale = s.inv_scale, .zero = s.zero,
                           .rows = (uint32_t)(stats->count / stats->k)};
}

void bt_sites_rare(bt_pkg_expert *expert, size_t experts, const bt_pkg_site *site)
{
    for (size_t e = 0; e < experts; e++) {
        if (expert[e].rows >= BT_PKG_EXPERT_ROWS) continue;
        expert[e] = (bt_pkg_expert){.scale = site->scale, .inv_scale = site->inv_scale, .zero = site->zero,
                                    .rows = expert[e].rows, .is_rare = 1};
    }
}

static double importance(const bt_pkg_site *site, size_t sites, size_t layer)
{
    double worst = 0;
    for (size_t i = layer * BT_PKG_LAYER_SITES; i < (layer + 1) * BT_PKG_LAYER_SITES && i < sites; i++) {
        const double v = site[i].clip > 0 ? (double)site[i].max / site[i].clip : 0;
        worst = v > worst ? v : worst;
    }
    return worst;
}

static void prune(bt_pkg_site *site, size_t sites, double share)
{
    const size_t layers = (sites + BT_PKG_LAYER_SITES - 1) / BT_PKG_LAYER_SITES;
    for (size_t left = (size_t)floor(share * (double)layers + 1e-9); left > 0; left--) {
        size_t least = SIZE_MAX;
        for (size_t l = layers; l-- > 0;)
            if (!site[l * BT_PKG_LAYER_SITES].pruned &&
                (least == SIZE_MAX || importance(site, sites, l) < importance(site, sites, least)))
                least = l;
        for (size_t i = least * BT_PKG_LAYER_SITES; i < (least + 1) * BT_PKG_LAYER_SITES && i < sites; i++)
            site[i].pruned = 1;
    }
}

void bt_sites_choose(bt_pkg_site *site, const bt_calib_stats *stats, const bt_recipe *recipe)
{
    for (size_t i = 0; i < stats->sites; i++) {
        site[i] = planned(i, stats->sites, (uint32_t)stats->site[i].k, recipe);
        choose_one(&site[i], &stats->site[i],
                   bt_recipe_of(recipe, site[i].layer, (bt_site_kind)site[i].kind));
    }
    if (recipe->shadow != BT_SHADOW_CHANNEL) return;
    prune(site, stats->sites, recipe->prune);
    for (size_t i = 0; i < stats->sites; i++)
        if (site[i].shadow != BT_SHADOW_CHANNEL) site[i].pruned = 0;
}

size_t bt_sites_hot(uint8_t *hot, const bt_pkg_site *site, const bt_calib_site *stats)
{
    size_t count = 0;
    for (size_t i = 0; i < stats->k; i++) count += hot[i] = is_beyond(site, stats, i);
    return count;
}

void bt_sites_quantise(float *xq, const float *x, size_t t, const bt_pkg_site *site, const uint8_t *hot)
{
    const bt_int_range range = bt_pkg_site_range(site);
    const float zero = range.zero, most = site->bits == 16 ? BT_INT_MAX16 : 127,
                least = site->bits == 16 ? -BT_INT_MAX16 : range.least;
    for (size_t row = 0; row < t; row++)
        for (size_t i = 0; i < site->k; i++) {
            float v = x[row * site->k + i] * site->inv_scale;
            v = v > -(float)BT_EDGE_LIMIT ? v : -(float)BT_EDGE_LIMIT;
            v = v < (float)BT_EDGE_LIMIT ? v : (float)BT_EDGE_LIMIT;
            v = rintf(v) + zero;
            const bool is_whole = site->shadow == BT_SHADOW_VALUE ||
                                  (site->shadow == BT_SHADOW_CHANNEL && !site->pruned && hot && hot[i]);
            if (!is_whole) v = v > most ? most : v < least ? least : v;
            xq[row * site->k + i] = (v - zero) * site->scale;
        }
}

void bt_sites_smooth(float *s, const bt_calib_site *stats, const float *w_max, double alpha)
{
    for (size_t i = 0; i < stats->k; i++) {
        const double x = (double)stats->column_max[i], w = (double)w_max[i];
        const double v = x > 0 && w > 0 ? pow(x, alpha) / pow(w, 1 - alpha) : 1;
        s[i] = v > 1e-5 ? (float)v : 1e-5f;
    }
}
