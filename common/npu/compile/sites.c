/* Scales of inputs. */
#include "npu/compile/sites.h"
#include "kernels/edge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADROOM = 4 }; /* of the calibration's greatest value */

/* Of the values that are at most clip, to the middle of their bins. */
static double rms_within(const bt_calib_site *s, float clip)
{
    double square = 0, count = 0;
    for (uint32_t bin = 0; bin < BT_CALIB_BINS; bin++) {
        const uint32_t bits = bin << 15 | 0x4000;
        float v;
        memcpy(&v, &bits, sizeof v);
        if (v > clip) break;
        square += (double)s->hist[bin] * ((double)v * v);
        count += s->hist[bin];
    }
    return count > 0 ? sqrt(square / count) : 0;
}

static const double steps[] = {99.99, 99.9, 99.5}; /* of auto */

static double asked(const bt_recipe_layer *r, unsigned bits)
{
    return bits == 16 ? r->clip_percentile16 : r->clip_percentile8;
}

double bt_sites_percentile(const bt_recipe_layer *r, unsigned bits)
{
    return asked(r, bits) > 0 ? asked(r, bits) : steps[0];
}

static float clip_of(const bt_calib_site *s, double percentile, bt_shadow_kind shadow)
{
    if (percentile > 0) return bt_calib_percentile(s, percentile);
    float clip = bt_calib_percentile(s, steps[0]);
    for (size_t i = 1; shadow == BT_SHADOW_VALUE && i < sizeof steps / sizeof *steps &&
                       (double)clip > 5 * rms_within(s, clip);
         i++)
        clip = bt_calib_percentile(s, steps[i]);
    return clip;
}

static void choose_one(bt_pkg_site *s, const bt_calib_site *stats, const bt_recipe_layer *recipe,
                       bt_shadow_kind shadow)
{
    const unsigned bits = recipe->input_bits[s->kind];
    const bool is16 = bits == 16;
    size_t beyond = 0;
    s->bits = bits;
    s->shadow = shadow;
    s->k = (uint32_t)stats->k;
    s->max = stats->max;
    s->rms = stats->count ? (float)sqrt(stats->square / (double)stats->count) : 0;
    s->clip = clip_of(stats, asked(recipe, bits), shadow);
    s->scale = s->clip / (is16 ? (float)BT_INT_MAX16 : 127.0f);
    /* What the shadow adds back is bounded too: a scale so fine that the greatest value would not be whole
     * is made coarser. */
    const float least = HEADROOM * s->max / (float)BT_EDGE_LIMIT;
    if (s->shadow != BT_SHADOW_OFF && s->scale < least) s->scale = least;
    if (!(s->scale > 0) || !isfinite(1 / s->scale)) s->scale = 1;
    s->inv_scale = 1 / s->scale;
    for (size_t i = 0; i < stats->k; i++) beyond += stats->column_max[i] > s->clip;
    s->outlier_columns = (float)beyond / (float)stats->k;
    s->hot = BT_PKG_NONE;
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
    memset(site, 0, stats->sites * sizeof *site);
    for (size_t i = 0; i < stats->sites; i++) {
        const bool is_head = i + 1 == stats->sites;
        site[i].layer = is_head ? UINT32_MAX : (uint32_t)(i / BT_PKG_LAYER_SITES);
        site[i].kind = is_head ? BT_SITE_HEAD : (uint32_t)(i % BT_PKG_LAYER_SITES);
        choose_one(&site[i], &stats->site[i], bt_recipe_of(recipe, site[i].layer, (bt_site_kind)site[i].kind),
                   recipe->shadow);
    }
    if (recipe->shadow != BT_SHADOW_CHANNEL) return;
    prune(site, stats->sites, recipe->prune);
    for (size_t i = 0; i < stats->sites; i++)
        if (site[i].shadow != BT_SHADOW_CHANNEL) site[i].pruned = 0;
}

size_t bt_sites_hot(uint8_t *hot, const bt_pkg_site *site, const bt_calib_site *stats)
{
    size_t count = 0;
    for (size_t i = 0; i < stats->k; i++) count += hot[i] = stats->column_max[i] > site->clip;
    return count;
}

void bt_sites_quantise(float *xq, const float *x, size_t t, const bt_pkg_site *site, const uint8_t *hot)
{
    const float limit = site->bits == 16 ? BT_INT_MAX16 : 127;
    for (size_t row = 0; row < t; row++)
        for (size_t i = 0; i < site->k; i++) {
            float v = x[row * site->k + i] * site->inv_scale;
            v = v > -(float)BT_EDGE_LIMIT ? v : -(float)BT_EDGE_LIMIT;
            v = v < (float)BT_EDGE_LIMIT ? v : (float)BT_EDGE_LIMIT;
            v = rintf(v);
            const bool is_whole = site->shadow == BT_SHADOW_VALUE ||
                                  (site->shadow == BT_SHADOW_CHANNEL && !site->pruned && hot && hot[i]);
            if (!is_whole) v = v > limit ? limit : v < -limit ? -limit : v;
            xq[row * site->k + i] = v * site->scale;
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
