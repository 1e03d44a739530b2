/* Scales of inputs from calibration figures, the shadow, pruning, smoothing; and the calibration itself. */
#include "npu/quant/sites.h"
#include "base/rng.h"
#include "graph/graph.h"
#include "tests/helpers/model/engine_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct world {
    engine_kit kit;
    bt_fold *fold;
    bt_calib *calib;
    const bt_calib_stats *stats;
} world;

enum { IDS = 600 }; /* a window and a rest */

static world begin(const char *arch, const char *isa, bt_pool *pool, size_t ids_count)
{
    world w = {.kit = engine_kit_model(arch)};
    int32_t ids[IDS];
    engine_kit_ids(ids, IDS, w.kit.model, 4);
    assert_int_equal(bt_fold_new(&w.fold, w.kit.model, BT_ROTATION_R1 | BT_ROTATION_R2,
                                 bt_kernels_select(isa), pool, NULL),
                     BT_OK);
    assert_int_equal(
        bt_calib_new(&w.calib, w.kit.model, w.fold, bt_kernels_select(isa), pool, NULL, NULL, NULL), BT_OK);
    assert_int_equal(bt_calib_measure(&w.stats, w.calib, ids, ids_count, NULL), BT_OK);
    return w;
}

static void end(world *w)
{
    bt_calib_free(w->calib);
    bt_fold_free(w->fold);
    engine_kit_done(&w->kit);
}

static bt_recipe recipe(const char *text)
{
    bt_recipe r;
    assert_int_equal(bt_recipe_parse(&r, text, NULL), BT_OK);
    return r;
}

/* ---- calibration ---- */

typedef struct rows {
    uint32_t layers, open, stop; /* of the model; at hand; the one that ends with an error */
    bool is_open;
    double sum[13]; /* of column 0, but each window's first row */
    const bt_calib_stats *stats;
    float max[13];
    uint64_t count[13], beyond[13], outside[13][2];
    float clip[13], end[13][2], low[13], high[13];
} rows;

static void see(void *ud, uint32_t site, const float *x, size_t t, size_t k)
{
    rows *r = ud;
    assert_true(r->is_open &&
                (site / BT_PKG_LAYER_SITES == r->open || (site == 12 && r->open + 1 == r->layers)));
    for (size_t row = 1; row < t; row++) r->sum[site] += (double)x[row * k];
    for (size_t i = 0; i < t * k; i++) {
        r->max[site] = fmaxf(r->max[site], fabsf(x[i]));
        r->beyond[site] += fabsf(x[i]) > r->clip[site];
        r->outside[site][0] += x[i] < r->end[site][0];
        r->outside[site][1] += x[i] > r->end[site][1];
        r->low[site] = fminf(r->low[site], x[i]);
        r->high[site] = fmaxf(r->high[site], x[i]);
    }
    r->count[site] += t * k;
}

static bt_err layer_begins(void *ud, uint32_t layer, bt_fault *fault)
{
    rows *r = ud;
    (void)fault;
    assert_true(!r->is_open && layer < r->layers);
    r->is_open = true;
    r->open = layer;
    return BT_OK;
}

static bt_err layer_ends(void *ud, uint32_t layer, bt_fault *fault)
{
    rows *r = ud;
    assert_true(r->is_open && layer == r->open);
    r->is_open = false;
    return layer == r->stop ? bt_fail(fault, BT_EIO, "the disk is full") : BT_OK;
}

/* Only where asked for: what each operator reads and writes, against the figures that are always taken. */
static void operators_are_watched_where_that_is_asked_for(void **state)
{
    (void)state;
    world w = begin("qwen3", NULL, NULL, IDS);
    int32_t ids[IDS];
    bt_graph *g;
    const bt_hparams *hp = &w.kit.model->hp;
    const bt_graph_options o = bt_fold_graph(w.fold);
    float stream = 0;
    assert_null(w.stats->op_max);
    engine_kit_ids(ids, IDS, w.kit.model, 4);
    assert_int_equal(bt_calib_watch_ops(w.calib, NULL), BT_OK);
    for (int twice = 0; twice < 2; twice++) /* the second run begins anew */
        assert_int_equal(bt_calib_measure(&w.stats, w.calib, ids, IDS, NULL), BT_OK);
    assert_int_equal(bt_graph_build(&g, hp, &o, NULL), BT_OK);
    const float *most = w.stats->op_max, head = w.stats->site[w.stats->sites - 1].max;
    for (size_t i = 0; i < g->ops; i++) {
        const bt_op *op = &g->op[i];
        const float next = i + 1 < g->ops ? most[i + 1] : 0;
        if (op->kind == BT_OP_ADD) stream = fmaxf(stream, most[i]);
        if (op->kind == BT_OP_KV_STORE) assert_true(next >= most[i]); /* attention reads what is stored */
        if (op->kind == BT_OP_ATTENTION) assert_true(most[i] >= w.stats->attention_max[op->layer]);
        if (op->kind != BT_OP_LINEAR) continue;
        const float in = w.stats->site[bt_pkg_site_index(hp->layers, op->layer, bt_pkg_site_of(op->weight))]
                             .max,
                    out = w.stats->out_max[bt_pkg_tensor_index(hp->layers, op->layer, op->weight)];
        /* q and k grow behind their linear */
        if (op->weight == BT_WEIGHT_Q || op->weight == BT_WEIGHT_K) assert_true(most[i] >= in);
        else assert_true(most[i] == fmaxf(in, op->weight == BT_WEIGHT_OUTPUT ? 0 : out));
    }
    assert_true(most[g->ops - 2] >= head && most[g->ops - 1] == head);
    assert_true(stream >= w.stats->residual_max);
    bt_graph_free(g);
    end(&w);
}

static void figures_are_those_of_the_rows(void **state)
{
    (void)state;
    world w = begin("qwen3", NULL, NULL, IDS);
    rows r = {.stats = w.stats, .layers = w.kit.model->hp.layers, .stop = UINT32_MAX};
    const bt_calib_reader reader = {.before = layer_begins, .rows = see, .after = layer_ends, .ud = &r};
    int32_t ids[IDS];
    engine_kit_ids(ids, IDS, w.kit.model, 4);
    assert_int_equal(w.stats->sites, 13);
    assert_int_equal(w.stats->tokens, IDS);
    for (size_t i = 0; i < 13; i++) {
        r.clip[i] = bt_calib_percentile(&w.stats->site[i], 99.9);
        bt_calib_range(&r.end[i][0], &r.end[i][1], &w.stats->site[i], 99.8);
    }
    assert_int_equal(bt_calib_read(w.calib, ids, IDS, &reader, NULL), BT_OK);
    for (size_t i = 0; i < 13; i++) {
        const bt_calib_site *s = &w.stats->site[i];
        float column = 0;
        for (size_t k = 0; k < s->k; k++) column = fmaxf(column, s->column_max[k]);
        assert_true(s->max == r.max[i] && s->max == column && s->max > 0);
        assert_true(s->count == r.count[i] && s->count == IDS * s->k);
        assert_int_equal(s->samples, BT_CALIB_SAMPLES);
        assert_true(s->column_sum[0] == r.sum[i] && s->sum_rows == IDS - (IDS + 511) / 512);
        assert_true((double)r.beyond[i] <= 0.001 * (double)s->count);
        assert_true((double)r.beyond[i] > 0.0001 * (double)s->count);
        for (int side = 0; side < 2; side++) {
            assert_true((double)r.outside[i][side] <= 0.001 * (double)s->count);
            assert_true((double)r.outside[i][side] > 0.0001 * (double)s->count);
        }
        float lo, hi;
        bt_calib_range(&lo, &hi, s, 100);
        assert_true(lo == r.low[i] && hi == r.high[i] && lo < 0 && hi > 0);
        assert_true(bt_calib_percentile(s, 100) == s->max && bt_calib_percentile(s, 99) <= r.clip[i]);
    }
    assert_true(!r.is_open && r.open == 2);
    bt_fault f;
    r.stop = 1;
    assert_int_equal(bt_calib_read(w.calib, ids, IDS, &reader, &f), BT_EIO);
    assert_string_equal(f.text, "the disk is full");
    assert_int_equal(r.open, 1);
    assert_true(w.stats->residual_max > 0 && w.stats->attention_max[2] > 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(w.stats->out_max[bt_pkg_tensor_index(3, i, BT_WEIGHT_K)] > 0);
    end(&w);
}

static void threads_and_instruction_sets_change_no_figure(void **state)
{
    (void)state;
    bt_pool *pool;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    world a = begin("llama", NULL, pool, 64), b = begin("llama", "ref", NULL, 64);
    for (size_t i = 0; i < a.stats->sites; i++) {
        const bt_calib_site *x = &a.stats->site[i], *y = &b.stats->site[i];
        assert_true(x->max == y->max && x->square == y->square);
        assert_memory_equal(x->hist, y->hist, 2 * BT_CALIB_BINS * sizeof *x->hist);
        assert_memory_equal(x->column_end, y->column_end, 2 * x->k * sizeof *x->column_end);
        assert_memory_equal(x->column_max, y->column_max, x->k * sizeof *x->column_max);
        assert_memory_equal(x->column_sum, y->column_sum, x->k * sizeof *x->column_sum);
        assert_memory_equal(x->sample, y->sample, x->samples * x->k * sizeof *x->sample);
    }
    end(&a);
    end(&b);
    bt_pool_free(pool);
}

static void a_short_text_is_refused_and_a_short_rest_dropped(void **state)
{
    (void)state;
    world w = begin("llama", NULL, NULL, 512 + 15);
    int32_t ids[16];
    bt_fault f = {""};
    engine_kit_ids(ids, 16, w.kit.model, 4);
    assert_int_equal(w.stats->tokens, 512);
    assert_int_equal(bt_calib_measure(&w.stats, w.calib, ids, 15, &f), BT_EARG);
    assert_non_null(strstr(f.text, "16"));
    assert_int_equal(bt_calib_measure(&w.stats, w.calib, ids, 16, &f), BT_OK);
    assert_int_equal(w.stats->tokens, 16);
    end(&w);
}

static void the_text_that_ships_is_the_file(void **state)
{
    (void)state;
    size_t len;
    const char *text = bt_calib_text(&len);
    FILE *f = fopen("common/npu/quant/calib.txt", "rb");
    assert_true(len > 12000 && text[len] == 0 && text[len - 1] == '\n');
    if (!f) skip(); /* run outside the tree */
    char *file = malloc(len + 1);
    assert_non_null(file);
    assert_int_equal(fread(file, 1, len + 1, f), len);
    assert_memory_equal(file, text, len);
    free(file);
    fclose(f);
}

/* ---- scales ---- */

static void scales_follow_the_recipe(void **state)
{
    (void)state;
    world w = begin("llama", NULL, NULL, 200);
    bt_pkg_site site[13];
    bt_recipe r = recipe("w8a8:clip=p99.99,a16=down");
    bt_sites_choose(site, w.stats, &r);
    for (size_t i = 0; i < 13; i++) {
        const bool is16 = i < 12 && i % 4 == BT_SITE_DOWN;
        const bt_calib_site *c = &w.stats->site[i];
        assert_int_equal(site[i].bits, is16 ? 16 : 8);
        assert_int_equal(site[i].shadow, BT_SHADOW_VALUE);
        assert_true(site[i].clip == bt_calib_percentile(c, 99.99));
        assert_true(site[i].scale ==
                        fmaxf(site[i].clip / (is16 ? 32639.0f : 127.0f), 4 * site[i].max / 8388607.0f) &&
                    site[i].inv_scale == 1 / site[i].scale);
        assert_int_equal(site[i].layer, i == 12 ? UINT32_MAX : i / 4);
        assert_true(site[i].rms > 0 && site[i].rms < site[i].max && site[i].max == c->max);
    }
    r = recipe("w8a8:clip=max");
    bt_sites_choose(site, w.stats, &r);
    for (size_t i = 0; i < 13; i++)
        assert_true(site[i].clip == w.stats->site[i].max && site[i].outlier_columns == 0);
    bt_calib_site dead = {.k = 3, .count = 3, .hist = (uint32_t[2 * BT_CALIB_BINS]){3},
                          .column_max = (float[3]){0}, .column_end = (float[6]){0}};
    bt_calib_stats none = {.site = &dead, .sites = 1};
    bt_sites_choose(site, &none, &r);
    assert_true(site[0].scale == 1 && site[0].inv_scale == 1 && site[0].clip == 0);
    end(&w);
}

static void long_tails_do_not_set_the_step(void **state)
{
    (void)state;
    static uint32_t hist[2 * BT_CALIB_BINS];
    float columns[4] = {100, 1, 1, 1};
    const bt_calib_site c = {.k = 4,        .count = 100000, .max = 100,
                             .square = 3e6, .hist = hist,    .column_max = columns};
    const bt_calib_stats stats = {.site = (bt_calib_site *)&c, .sites = 1};
    bt_pkg_site site;
    hist[0x3f800000 >> 15] = 99700; /* ones */
    hist[0x42c80000 >> 15] = 300;   /* hundreds */
    bt_recipe r = recipe("w8a8");
    bt_sites_choose(&site, &stats, &r);
    assert_true(site.clip >= 1 && site.clip < 1.01f);
    r = recipe("w8a8:shadow=off");
    bt_sites_choose(&site, &stats, &r);
    assert_true(site.clip == 100);
    hist[0x3f800000 >> 15] = 0;
    hist[0x41f00000 >> 15] = 99700; /* thirties: a hundred is within 5 times */
    r = recipe("w8a8");
    bt_sites_choose(&site, &stats, &r);
    assert_true(site.clip == 100);
}

/* Values from -1 to 3: the range is theirs, and 0 is a whole step; without negative ones it begins at 0. */
static void an_asymmetric_input_holds_its_range_from_end_to_end(void **state)
{
    (void)state;
    static uint32_t hist[2 * BT_CALIB_BINS];
    float most[2] = {3, 1}, ends[4] = {0, -1, 3, 0}, x[6] = {-1, 0, 3, 3.5f, -1.5f, 0.0157f}, xq[6];
    const bt_calib_site c = {.k = 2,       .count = 20000,     .max = 3,          .square = 3e4,
                             .hist = hist, .column_max = most, .column_end = ends};
    const bt_calib_stats stats = {.site = (bt_calib_site *)&c, .sites = 1};
    bt_pkg_site site;
    hist[0x40400000 >> 15] = 10000;
    hist[BT_CALIB_BINS + (0x3f800000 >> 15)] = 10000;
    bt_recipe r = recipe("w8a8:clip=max,shadow=off,asym");
    bt_sites_choose(&site, &stats, &r);
    assert_true(site.asymmetric == 1 && site.zero == -64 && site.scale == 4.0f / 255 && site.clip == 3);
    site.k = 6;
    bt_sites_quantise(xq, x, 1, &site, NULL);
    assert_true(xq[0] == -64 * site.scale && xq[1] == 0 && xq[2] == 191 * site.scale);
    assert_true(xq[3] == xq[2] && xq[4] == xq[0] && xq[5] == site.scale); /* clipped; a step */
    site.shadow = BT_SHADOW_VALUE;
    bt_sites_quantise(xq, x, 1, &site, NULL);
    assert_true(xq[3] == 223 * site.scale && xq[4] == -96 * site.scale); /* whole */
    ends[1] = 0;
    r = recipe("w8a8:clip=max,shadow=channel,asym");
    bt_sites_choose(&site, &stats, &r);
    assert_true(site.zero == -128 && site.scale == 3.0f / 255 && site.outlier_columns == 0);
    r = recipe("w8a8:a16=head,asym");
    bt_sites_choose(&site, &stats, &r);
    assert_true(!site.asymmetric && site.zero == 0 && site.bits == 16);
}

/* AC-c2 */
static void the_shadow_makes_outliers_cost_nothing(void **state)
{
    (void)state;
    enum { K = 256, N = 40, OUTLIERS = 6 };
    float x[K], clean[K], xq[K], cleanq[K], w[N * K];
    uint8_t hot[K] = {0};
    for (size_t i = 0; i < N * K; i++) w[i] = (float)(bt_rng_uniform(1, i) - 0.5);
    for (size_t i = 0; i < K; i++) x[i] = clean[i] = (float)(bt_rng_uniform(2, i) - 0.5);
    for (size_t i = 0; i < OUTLIERS; i++) {
        x[i * 41 + 3] *= 60;
        clean[i * 41 + 3] = 0;
        hot[i * 41 + 3] = 1;
    }
    const float scale = 0.5f / 127;
    double error[5] = {0};
    for (int way = 0; way < 5; way++) { /* without outliers; by value; by channel; pruned; off */
        const bt_pkg_site s = {
            .bits = 8,
            .k = K,
            .scale = scale,
            .inv_scale = 1 / scale,
            .pruned = way == 3,
            .shadow = way < 2 ? BT_SHADOW_VALUE : way < 4 ? BT_SHADOW_CHANNEL : BT_SHADOW_OFF};
        bt_sites_quantise(way ? xq : cleanq, way ? x : clean, 1, &s, hot);
        if (way == 3) memcpy(clean, xq, sizeof clean);
        /* pruned everywhere is the plain clip, bit for bit */
        if (way == 4) assert_memory_equal(clean, xq, sizeof clean);
        for (size_t n = 0; n < N; n++) {
            double apart = 0;
            for (size_t k = 0; k < K; k++)
                apart += way ? ((double)xq[k] - x[k]) * w[n * K + k]
                             : ((double)cleanq[k] - (hot[k] ? 0 : x[k])) * w[n * K + k];
            error[way] += apart * apart;
        }
    }
    assert_true(sqrt(error[1]) <= sqrt(error[0]) * 1.5 && sqrt(error[2]) <= sqrt(error[0]) * 1.5);
    assert_true(error[4] > 100 * error[1]);
}

static void the_least_important_layers_are_pruned(void **state)
{
    (void)state;
    world w = begin("llama", NULL, NULL, 100);
    bt_pkg_site site[13];
    double importance[4] = {0};
    for (int share = 0; share <= 4; share++) {
        char text[64];
        snprintf(text, sizeof text, "w8a8:shadow=channel,clip=p99,prune=%.2f", share / 4.0);
        const bt_recipe r = recipe(text);
        bt_sites_choose(site, w.stats, &r);
        size_t pruned = 0;
        double most = 0, least = INFINITY;
        for (size_t l = 0; l < 4; l++) {
            for (size_t i = 4 * l; i < 4 * l + 4 && i < 13; i++) {
                importance[l] = fmax(importance[l], (double)site[i].max / site[i].clip);
                assert_int_equal(site[i].pruned, site[4 * l].pruned);
            }
            pruned += site[4 * l].pruned;
            if (site[4 * l].pruned) most = fmax(most, importance[l]);
            else least = fmin(least, importance[l]);
        }
        assert_int_equal(pruned, share);
        assert_true(most <= least);
    }
    end(&w);
}

static void smoothing_moves_range_from_inputs_to_weights(void **state)
{
    (void)state;
    float s[3];
    const bt_calib_site site = {.k = 3, .column_max = (float[3]){16, 0, 4}};
    bt_sites_smooth(s, &site, (float[3]){4, 1, 0}, 0.5);
    assert_true(fabsf(s[0] - 2) < 1e-6f && s[1] == 1 && s[2] == 1);
    bt_sites_smooth(s, &site, (float[3]){4, 1, 0}, 1);
    assert_true(fabsf(s[0] - 16) < 1e-5f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_are_watched_where_that_is_asked_for),
        cmocka_unit_test(figures_are_those_of_the_rows),
        cmocka_unit_test(threads_and_instruction_sets_change_no_figure),
        cmocka_unit_test(a_short_text_is_refused_and_a_short_rest_dropped),
        cmocka_unit_test(the_text_that_ships_is_the_file),
        cmocka_unit_test(scales_follow_the_recipe),
        cmocka_unit_test(long_tails_do_not_set_the_step),
        cmocka_unit_test(an_asymmetric_input_holds_its_range_from_end_to_end),
        cmocka_unit_test(the_shadow_makes_outliers_cost_nothing),
        cmocka_unit_test(the_least_important_layers_are_pruned),
        cmocka_unit_test(smoothing_moves_range_from_inputs_to_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
