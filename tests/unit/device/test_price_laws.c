/* Laws of every step's price, whatever the device and the model: all built-in profiles, their stacks and
 * their groups, each as it is and with random optional terms, by random models and steps. The seed is fixed
 * and printed with what fails. */
#include "base/rng.h"
#include "device/link.h"
#include "device/work.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { SEED = 43, ROUNDS = 40 };

typedef struct world {
    uint64_t drawn, round;
    bt_profile profile;
    bt_dims dims;
    bt_price_recipe recipe;
    bt_price_model model;
} world;

/* lo .. hi, small numbers as often as large ones */
static uint64_t draw(world *w, uint64_t lo, uint64_t hi)
{
    const uint64_t bits = bt_rng_u64(SEED, w->drawn++), shift = bt_rng_u64(SEED, w->drawn++) % 64;
    return lo + (bits >> shift) % (hi - lo + 1);
}

static uint64_t ns_of(const world *w, const bt_price_step *s)
{
    return bt_price_step_of(&w->profile, &w->model, s).ns;
}

static bt_price_step both(const bt_price_step *a, const bt_price_step *b)
{
    bt_price_step s = *a;
    bt_price_step_add(&s, b);
    return s;
}

/* In some or all layers, beside a block that all rows share or not. */
static void draw_experts(world *w)
{
    bt_dims *d = &w->dims;
    d->experts = (uint32_t)draw(w, 2, 256);
    d->experts_used = (uint32_t)draw(w, 1, d->experts);
    d->expert_ffn = 64 * (uint32_t)draw(w, 1, 200);
    d->expert_layers = (uint32_t)draw(w, 1, d->layers);
    d->ffn = d->experts_used * d->expert_ffn + 64 * (uint32_t)draw(w, 0, 100);
}

static void draw_model(world *w)
{
    static const uint32_t sizes[] = {64, 80, 128, 256}, bits[] = {4, 8, 16};
    const uint32_t kv_heads = (uint32_t)draw(w, 1, 16), group = (uint32_t)draw(w, 1, 16);
    w->dims = (bt_dims){.name = "random",
                        .layers = (uint32_t)draw(w, 1, 100),
                        .hidden = 64 * (uint32_t)draw(w, 1, 200),
                        .ffn = 64 * (uint32_t)draw(w, 1, 600),
                        .heads = kv_heads * group,
                        .kv_heads = kv_heads,
                        .head_dim = sizes[draw(w, 0, 3)],
                        .vocab = (uint32_t)draw(w, 1000, 200000),
                        .ffn_matrices = (uint32_t)draw(w, 2, 3)};
    if (w->round % 3 == 0) draw_experts(w);
    if (w->round % 4 > 1) {
        w->dims.window = (uint32_t)draw(w, 1, 8192);
        w->dims.windowed = (uint32_t)draw(w, 1, w->dims.layers);
    }
    w->recipe = (bt_price_recipe){.weight_bits = bits[draw(w, 0, 2)], .input_bits = draw(w, 0, 1) ? 8 : 16,
                                  .kv_elem_bits = draw(w, 0, 1) ? 8 : 16};
    if (!draw(w, 0, 3)) { /* FP8 or NVFP4, on a device that has them */
        w->recipe = bt_price_form_find(draw(w, 0, 1) ? "fp8" : "nvfp4")->recipe;
        w->profile.time.fp8_permille = (uint32_t)draw(w, 1000, 4000);
        w->profile.time.fp4_permille = (uint32_t)draw(w, 1000, 8000);
    }
    w->model = bt_price_model_of(&w->dims, &w->recipe);
}

/* Some rise as steeply as a profile may say, so that the time between two is the same. */
static void draw_efficiency(world *w)
{
    bt_profile_time *t = &w->profile.time;
    t->points = (uint32_t)draw(w, 1, BT_PROFILE_TIME_MAX_POINTS);
    t->efficiency[0].rows = (uint32_t)draw(w, 1, 64);
    t->efficiency[0].permille = (uint32_t)draw(w, 1, 500);
    for (uint32_t i = 1; i < t->points; i++) {
        const uint32_t rows = t->efficiency[i - 1].rows, permille = t->efficiency[i - 1].permille;
        t->efficiency[i].rows = rows + (uint32_t)draw(w, 1, 2 * rows);
        const uint32_t most = permille * t->efficiency[i].rows / rows, flat = most < 1000 ? most : 1000;
        t->efficiency[i].permille = draw(w, 0, 1) ? flat : permille + (uint32_t)draw(w, 0, flat - permille);
    }
    assert_int_equal(bt_profile_time_check(t, NULL), BT_OK);
}

/* Terms that a calibrated GPU has, each or none. */
static void draw_terms(world *w)
{
    bt_profile_time *t = &w->profile.time;
    if (draw(w, 0, 1)) draw_efficiency(w);
    if (draw(w, 0, 1)) t->dispatch_ns = (uint32_t)draw(w, 1, 3000000);
    if (draw(w, 0, 1)) t->linear_launch_ns = (uint32_t)draw(w, 1, 10000);
    if (draw(w, 0, 1)) t->quantize_launch_ns = (uint32_t)draw(w, 1, 10000);
    if (draw(w, 0, 1)) t->layer_matrices = (uint32_t)draw(w, 1, 8);
    if (draw(w, 0, 1)) t->input_ps = (uint32_t)draw(w, 1, 10000);
    if (draw(w, 0, 1)) t->unhidden_permille = (uint32_t)draw(w, 1, 1000);
    if (draw(w, 0, 1)) t->score_elements_per_us = draw(w, 1000, 10000000);
    if (draw(w, 0, 1)) t->small_launch_ns = (uint32_t)draw(w, 1, 50000);
    if (draw(w, 0, 1)) t->sequence_ns = (uint32_t)draw(w, 1, 100000);
    if (draw(w, 0, 1)) {
        t->tile_rows = (uint32_t)draw(w, 1, 512);
        t->tile_permille = (uint32_t)draw(w, 1, 1000);
    }
    for (uint32_t rows = 0; draw(w, 0, 2) && t->programs < BT_PROFILE_TIME_MAX_PROGRAMS;)
        t->program_rows[t->programs++] = rows += (uint32_t)draw(w, 1, 512);
    for (t->kernels = 0; draw(w, 0, 1) && t->kernels < BT_PROFILE_TIME_MAX_KERNELS; t->kernels++) {
        const uint32_t launch = (uint32_t)draw(w, 1, 20000);
        t->attention[t->kernels] =
            (bt_profile_attention){.head_dim = (uint32_t)draw(w, 64, 256),
                                   .group = (uint32_t)draw(w, 0, 16),
                                   .launch_ns = launch,
                                   .row_launch_ns = (uint32_t)draw(w, 0, launch),
                                   .kv_bytes_per_us = draw(w, 1, t->memory_bytes_per_us),
                                   .kv_half_positions = (uint32_t)draw(w, 0, 256),
                                   .least_positions = (uint32_t)draw(w, 0, 256),
                                   .peak_permille = (uint32_t)draw(w, 0, 1000),
                                   .half_rows = (uint32_t)draw(w, 0, 512),
                                   .gather_ns = (uint32_t)draw(w, 0, launch),
                                   .join_ns = (uint32_t)(draw(w, 0, 1) * draw(w, 0, 20000)),
                                   .head_bytes_per_us = draw(w, 0, 1) * draw(w, 1, 1000000)};
    }
    if (draw(w, 0, 1)) return;
    t->devices = (uint32_t)draw(w, 2, 16);
    t->interconnect_bytes_per_us = draw(w, 1000, 1000000);
    t->interconnect_ns = (uint32_t)draw(w, 1, 20000);
    t->sums = 0;
    for (uint64_t bytes = 256, ns = 1000; draw(w, 0, 3) && t->sums < BT_PROFILE_TIME_MAX_SUMS; t->sums++) {
        t->all_reduce[t->sums].devices = 16;
        t->all_reduce[t->sums].bytes = bytes;
        t->all_reduce[t->sums].ns = (uint32_t)ns;
        bytes += draw(w, 1, 1 << 20);
        ns += draw(w, 0, 50000);
    }
}

typedef void law(world *w);

static void hold_of(world *w, law *check, const char *device)
{
    for (w->round = 0; w->round < ROUNDS; w->round++) {
        assert_int_equal(bt_profile_load(&w->profile, device, NULL), BT_OK);
        if (w->profile.time.devices) w->profile.time.sizes = 0; /* the group is one that a file may have */
        draw_model(w);
        if (w->round % 2) draw_terms(w);
        check(w);
    }
}

/* The k-th stack of the i-th built-in profile with a time, the default one last; false: there is none. */
static bool load_stack(bt_profile *ret, size_t i, uint32_t k)
{
    char device[160];
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, bt_profile_name(i), NULL), BT_OK);
    if (!p.time.is_given || k > p.stacks) return false;
    snprintf(device, sizeof device, "%s@%s", p.name, k < p.stacks ? p.stack[k] : p.first_stack);
    assert_int_equal(bt_profile_load(ret, device, NULL), BT_OK);
    return true;
}

static void hold(law *check)
{
    world w = {.drawn = 0};
    size_t others = 0, groups = 0;
    for (size_t i = 0; bt_profile_name(i); i++) {
        bt_profile one;
        char device[160];
        for (uint32_t k = 0; load_stack(&one, i, k); k++) {
            const char *stack = k < one.stacks ? one.stack[k] : one.first_stack;
            snprintf(device, sizeof device, "%s@%s", bt_profile_name(i), stack);
            hold_of(&w, check, device);
            others += k > 0;
            for (uint32_t g = 0; g < one.time.sizes; g++, groups++) {
                snprintf(device, sizeof device, "%sx%" PRIu32 "@%s", bt_profile_name(i),
                         one.time.group_size[g], stack);
                hold_of(&w, check, device);
            }
        }
    }
    assert_true(others && groups);
}

#define WRONG(w, what, a, b) \
    fail_msg("seed %d, %s, round %" PRIu64 ": %s: %" PRIu64 " and %" PRIu64, SEED, (w)->profile.name, \
             (w)->round, what, a, b)

static void rows_are_not_less(world *w)
{
    const uint64_t first = draw(w, 0, 100000);
    uint64_t last = 0;
    for (uint64_t rows = 1; rows < 20000; rows += rows < 600 ? 1 : rows / 9) {
        const bt_price_step s = bt_price_prefill_step(first, rows, w->dims.window);
        const uint64_t ns = ns_of(w, &s);
        if (ns < last) WRONG(w, "rows", last, ns);
        last = ns;
    }
}

static void batches_and_contexts_are_not_less(world *w)
{
    for (int i = 0; i < 60; i++) {
        const uint64_t batch = draw(w, 1, 2000), ctx = draw(w, 1, 200000);
        const bt_price_step s = bt_price_decode_step(batch, ctx, w->dims.window),
                            more = bt_price_decode_step(batch + draw(w, 1, 300), ctx, w->dims.window),
                            longer = bt_price_decode_step(batch, ctx + draw(w, 1, 5000), w->dims.window);
        if (ns_of(w, &more) < ns_of(w, &s)) WRONG(w, "batch", batch, ctx);
        if (ns_of(w, &longer) < ns_of(w, &s)) WRONG(w, "context", batch, ctx);
    }
}

/* Sequences of all lengths together, to which one more comes, or another row of a piece. A piece of one row
 * is left out: the kernel of single rows runs it, and that of pieces may hide it behind what others compute.
 * No profile has half_rows beside the share of products. */
static void a_mixture_with_more_is_not_less(world *w)
{
    bt_profile_time *t = &w->profile.time;
    for (uint32_t i = 0; t->points > 1 && i < t->kernels; i++)
        if (!t->attention[i].peak_permille) t->attention[i].half_rows = 0;
    for (int i = 0; i < 60; i++) {
        const uint64_t first = draw(w, 0, 100000), rows = draw(w, 2, 4096);
        bt_price_step mixture = bt_price_decode_step(draw(w, 1, 256), draw(w, 1, 100000), w->dims.window);
        for (uint64_t more = draw(w, 0, 4); more; more--) {
            const bt_price_step piece =
                bt_price_prefill_step(draw(w, 0, 100000), draw(w, 2, 4096), w->dims.window);
            bt_price_step_add(&mixture, &piece);
        }
        const bt_price_step piece = bt_price_prefill_step(first, rows + 1, w->dims.window),
                            shorter = bt_price_prefill_step(first, rows, w->dims.window),
                            short_one = bt_price_decode_step(1, draw(w, 1, 4), w->dims.window),
                            short_piece = bt_price_prefill_step(0, draw(w, 2, 128), w->dims.window),
                            one_more = both(&mixture, &short_one), piece_more = both(&mixture, &short_piece),
                            row_less = both(&mixture, &shorter), row_more = both(&mixture, &piece);
        const uint64_t ns = ns_of(w, &mixture), less = ns_of(w, &row_less);
        if (ns_of(w, &one_more) < ns) WRONG(w, "a sequence of one row more", ns, ns_of(w, &one_more));
        if (ns_of(w, &piece_more) < ns) WRONG(w, "a short piece more", ns, ns_of(w, &piece_more));
        if (ns_of(w, &row_more) < less) WRONG(w, "a row more", less, ns_of(w, &row_more));
    }
}

/* A layer's part of what all layers take, by its class: rounded up once. */
static uint64_t mixed_ns(const bt_dims *d, uint64_t all, uint64_t window)
{
    return (all * (d->layers - d->windowed) + window * d->windowed + d->layers - 1) / d->layers;
}

/* A step, and the same where no layer has a window or all have one; and what a plain count over layers says
 * of it. */
static void windows_are_not_more_and_within_them_nothing_differs(world *w)
{
    bt_dims *d = &w->dims;
    d->window = (uint32_t)draw(w, 1, 8192);
    d->windowed = (uint32_t)draw(w, 1, d->layers);
    bt_dims without = *d, with = *d;
    without.window = without.windowed = 0;
    with.windowed = d->layers;
    const bt_price_model m = bt_price_model_of(d, &w->recipe),
                         plain = bt_price_model_of(&without, &w->recipe),
                         windows = bt_price_model_of(&with, &w->recipe);
    for (int i = 0; i < 40; i++) {
        const uint64_t batch = draw(w, 1, 200), ctx = draw(w, 1, 3 * (uint64_t)d->window),
                       rows = draw(w, 1, 2 * (uint64_t)d->window), first = draw(w, 0, 20000);
        bt_price_step step = bt_price_decode_step(batch, ctx, d->window);
        const bt_price_step piece = bt_price_prefill_step(first, rows, d->window);
        if (i % 2) bt_price_step_add(&step, &piece);
        const bool is_within = ctx <= d->window && (!(i % 2) || first + rows <= d->window);
        const bt_price_sum is = bt_price_step_of(&w->profile, &m, &step),
                           all = bt_price_step_of(&w->profile, &plain, &step);
        if (is.ns > all.ns) WRONG(w, "a window", all.ns, is.ns);
        if (is_within && memcmp(&is, &all, sizeof is) != 0) WRONG(w, "within the window", all.ns, is.ns);
        const uint64_t windowed_ns = bt_price_step_of(&w->profile, &windows, &step).ns;
        if (is.ns != mixed_ns(d, all.ns, windowed_ns)) WRONG(w, "the classes' time", all.ns, is.ns);
        uint64_t pairs = 0, positions = 0; /* of all layers, row by row */
        for (int class = 0; class < 2; class ++) {
            const uint64_t layers = class ? d->windowed : d->layers - d->windowed,
                           most = class ? d->window : UINT64_MAX,
                           begin = first + 1 > most ? first + 1 - most : 0;
            uint64_t seen = batch * (ctx < most ? ctx : most);
            positions += layers * (seen + (i % 2 ? first + rows - begin : 0));
            for (uint64_t r = 1; i % 2 && r <= rows; r++) seen += first + r < most ? first + r : most;
            pairs += layers * seen;
        }
        const uint64_t products = 2 * (m.body_weights * step.rows + m.head_weights * step.logits);
        if (is.ops - products != pairs * 4 * d->heads * d->head_dim)
            WRONG(w, "pairs", is.ops - products, pairs * 4 * d->heads * d->head_dim);
        const uint64_t least = d->layers * (all.bytes - is.bytes),
                       seen = bt_price_kv_held(&w->profile.time, d->kv_heads, m.kv_bytes),
                       other = seen * (d->layers * step.all.positions - positions);
        if (least < other || least - other >= d->layers) WRONG(w, "positions", least, other);
    }
}

static void a_slower_link_is_not_faster(world *w)
{
    const bt_price_step s = bt_price_decode_step(draw(w, 1, 2000), draw(w, 1, 100000), w->dims.window);
    uint64_t last = 0;
    if (!w->profile.time.devices) return;
    for (uint64_t rate = 1000000; rate; rate /= 2) {
        w->profile.time.interconnect_bytes_per_us = rate;
        const uint64_t ns = ns_of(w, &s);
        if (ns < last) WRONG(w, "link", rate, ns);
        last = ns;
    }
}

/* Chunks of programs, static in columns or not, as windows_are_not_more_and_within_them_nothing_differs. */
static void chunks_take_the_time_of_each_class(world *w)
{
    static bt_price is, all, windows;
    static const uint32_t rows[] = {32, 256};
    bt_dims *d = &w->dims;
    d->window = (uint32_t)draw(w, 1, 8192);
    d->windowed = (uint32_t)draw(w, 1, d->layers);
    bt_dims without = *d, with = *d;
    without.window = without.windowed = 0;
    with.windowed = d->layers;
    if (w->recipe.is_float) return;
    if (draw(w, 0, 1)) w->recipe.ctx = 512;
    assert_int_equal(bt_price_of_dims(&is, &w->profile, d, &w->recipe, rows, 2, NULL), BT_OK);
    assert_int_equal(bt_price_of_dims(&all, &w->profile, &without, &w->recipe, rows, 2, NULL), BT_OK);
    assert_int_equal(bt_price_of_dims(&windows, &w->profile, &with, &w->recipe, rows, 2, NULL), BT_OK);
    for (int i = 0; i < 40; i++) {
        const uint64_t first = draw(w, 0, 20000), ns = bt_price_chunk_ns(&is, i % 2, first),
                       all_ns = bt_price_chunk_ns(&all, i % 2, first),
                       windowed_ns = bt_price_chunk_ns(&windows, i % 2, first);
        if (ns > all_ns) WRONG(w, "a window", all_ns, ns);
        if (!w->recipe.ctx && first + rows[i % 2] <= d->window && ns != all_ns)
            WRONG(w, "within the window", all_ns, ns);
        if (ns != mixed_ns(d, all_ns, windowed_ns)) WRONG(w, "the classes' time of a chunk", all_ns, ns);
    }
}

/* Chunks of programs, and prompts that are cut into them. Programs in FP8 or NVFP4 there are none of. */
static void programs_are_not_less(world *w)
{
    static bt_price p;
    uint32_t rows[8], n = 0;
    if (w->recipe.is_float) return;
    for (uint32_t last = 0; n < 8; n++) rows[n] = last += (uint32_t)draw(w, 1, 512);
    assert_int_equal(bt_price_of_dims(&p, &w->profile, &w->dims, &w->recipe, rows, n, NULL), BT_OK);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t first = draw(w, 0, 100000), ns = bt_price_chunk_ns(&p, i, first),
                       behind = bt_price_chunk_ns(&p, i, first + draw(w, 1, 5000));
        if (behind < ns) WRONG(w, "positions before a chunk", ns, behind);
        if (i + 1 < n && bt_price_chunk_ns(&p, i + 1, first) < ns) WRONG(w, "a longer program", ns, first);
    }
    uint64_t last = 0;
    for (uint64_t tokens = 1; tokens < 10000; tokens += tokens < 600 ? 1 : tokens / 9) {
        const uint64_t ns = bt_price_prompt(&p, tokens).ns;
        if (ns < last) WRONG(w, "a longer prompt", last, ns);
        last = ns;
    }
}

/* KV that leaves layer by layer while the device computes: what is left behind the last chunk. */
static void a_slower_hand_off_is_not_faster(world *w)
{
    const uint64_t took = ns_of(w, &(bt_price_step){.rows = 64, .all = {.pairs = 64, .positions = 64}}),
                   bytes = draw(w, 1, 1 << 24), chunks = draw(w, 1, 16);
    const uint32_t latency = (uint32_t)draw(w, 0, 1000000);
    const bt_link_kv kv = {.layers = w->dims.layers, .layer_bytes = bytes};
    uint64_t left = 0, later = 0;
    for (uint64_t rate = 10000000; rate; rate /= 3) {
        bt_link link = {.bits_per_us = rate, .latency_ns = latency}, slow = link;
        bt_link_queue q = {0}, slow_q = {0};
        slow.latency_ns += (uint32_t)draw(w, 1, 1000000);
        for (uint64_t i = 0; i < chunks; i++) {
            (void)bt_link_chunk(&q, &link, &kv, i * took, took, (bt_link_rows){1, 1});
            (void)bt_link_chunk(&slow_q, &slow, &kv, i * took, took, (bt_link_rows){1, 1});
        }
        const uint64_t ns = bt_link_exposed_ns(&q, chunks * took);
        later = bt_link_exposed_ns(&slow_q, chunks * took);
        if (ns < left) WRONG(w, "a slower link", left, ns);
        if (later < ns) WRONG(w, "a later message", ns, later);
        left = ns;
    }
}

/* The law is about work alone: the rest is paid once by a step or by a sequence, whatever its rows. */
static void leave_out_what_is_paid_once(bt_profile_time *t)
{
    t->dispatch_ns = t->decode_op_ns = t->linear_launch_ns = t->quantize_launch_ns = t->small_launch_ns = 0;
    t->sequence_ns = t->interconnect_ns = t->input_ps = 0;
    for (uint32_t i = 0; i < t->kernels; i++) {
        bt_profile_attention *k = &t->attention[i];
        k->launch_ns = k->row_launch_ns = k->gather_ns = k->join_ns = 0;
    }
}

/* The time that a decode step's products wait for memory, at most. Where a share of the peak rises with rows,
 * they wait for as much as they take: measured shares of few rows have what memory takes in them. */
static uint64_t most_waited(const world *w, const bt_price_step *decode)
{
    const bt_profile_time *t = &w->profile.time;
    const bt_price_step products = {.rows = decode->rows, .logits = decode->logits};
    const uint64_t devices = t->devices ? t->devices : 1, rate = bt_time_decode_rate(t);
    const uint64_t idle = bt_time_of(w->model.idle_bytes / devices, rate); /* experts that the piece would
                                                                              read */
    return idle + (t->points > 1 ? ns_of(w, &products) : bt_time_of(w->model.weight_bytes / devices, rate));
}

/* Two steps together may compute one tile more than both alone, where their rows begin it. */
static uint64_t more_of_a_tile(const world *w, const bt_price_step *decode, const bt_price_step *piece)
{
    const bt_profile_time *t = &w->profile.time;
    const uint32_t bits = w->model.input_bits;
    const bt_price_step tile = {.rows = t->tile_rows, .logits = t->tile_rows};
    return bt_time_rows(t, decode->rows + piece->rows, bits) >
                   bt_time_rows(t, decode->rows, bits) + bt_time_rows(t, piece->rows, bits)
               ? ns_of(w, &tile)
               : 0;
}

static void a_piece_beside_decode_rows_is_paid(world *w)
{
    const bt_price_model *m = &w->model;
    bt_profile_time *t = &w->profile.time;
    const bt_profile_time tiled = *t;
    /* Rows that a tile computes anyway are free, and two tiles may be more than both together have: 257 rows
     * take twice what 256 do. A random table of sums may rise steeply. */
    t->tile_rows = 0;
    if (w->round % 2) t->sums = 0;
    const bt_profile_time whole = *t;
    for (int i = 0; i < 60; i++) {
        *t = whole;
        const bt_price_step decode = bt_price_decode_step(draw(w, 1, 512), draw(w, 1, 50000), w->dims.window),
                            piece =
                                bt_price_prefill_step(draw(w, 0, 50000), draw(w, 2, 4096), w->dims.window),
                            mixed = both(&decode, &piece);
        if (ns_of(w, &mixed) > ns_of(w, &decode) + ns_of(w, &piece))
            WRONG(w, "more than both", ns_of(w, &mixed), ns_of(w, &decode) + ns_of(w, &piece));
        if (!(w->round % 2)) {
            *t = tiled;
            const uint64_t apart = ns_of(w, &decode) + ns_of(w, &piece),
                           more = more_of_a_tile(w, &decode, &piece);
            if (ns_of(w, &mixed) > apart + (more ? more : apart / 8))
                WRONG(w, "tiles", ns_of(w, &mixed), apart + more);
            *t = whole;
        }
        leave_out_what_is_paid_once(t);
        const uint64_t read = most_waited(w, &decode), alone = ns_of(w, &piece),
                       more = ns_of(w, &mixed) - ns_of(w, &decode),
                       rounding = 8 + 60 * (uint64_t)m->layers; /* of messages */
        if (alone > read && more + rounding < (alone - read) / 10 * 9) WRONG(w, "a free piece", more, alone);
    }
}

static void a_step_is_at_least_what_it_pays_once_and_its_bytes(world *w)
{
    const bt_profile_time *t = &w->profile.time;
    const bt_price_step s = bt_price_decode_step(draw(w, 1, 512), draw(w, 1, 50000), w->dims.window);
    const bt_price_sum sum = bt_price_step_of(&w->profile, &w->model, &s);
    const bt_profile_attention *k =
        bt_time_step_attention(t, w->dims.head_dim, w->dims.heads / w->dims.kv_heads);
    const uint64_t layers = w->dims.layers,
                   linears = t->layer_matrices ? layers * t->layer_matrices + 1 : w->model.operators - layers,
                   linear = t->linear_launch_ns ? t->linear_launch_ns : t->decode_op_ns,
                   attention = !k                 ? t->decode_op_ns
                               : k->row_launch_ns ? k->row_launch_ns
                                                  : k->launch_ns,
                   once = t->dispatch_ns + linears * linear + layers * attention,
                   memory = t->memory_bytes_per_us * (t->devices ? t->devices : 1);
    if (sum.ns < once) WRONG(w, "launches", sum.ns, once);
    if (bt_time_of(sum.bytes, memory) > sum.ns) WRONG(w, "bytes", sum.bytes, sum.ns);
    const bt_work work = bt_work_of_step(&w->profile, &w->model, &s);
    if (work.ideal_ns > work.ns) WRONG(w, "busy", work.ideal_ns, work.ns);
}

/* Each term is what alone makes it: devices that wait for nothing sum up in no time, and so on. */
static void terms_are_all_of_a_time(world *w)
{
    const bt_price_step decode = bt_price_decode_step(draw(w, 1, 512), draw(w, 1, 50000), w->dims.window),
                        piece = bt_price_prefill_step(draw(w, 0, 50000), draw(w, 1, 4096), w->dims.window),
                        mixed = both(&decode, &piece);
    const bt_price_sum s = bt_price_step_of(&w->profile, &w->model, &mixed);
    uint64_t sum = 0;
    for (int k = 0; k < BT_TERMS; k++) sum += s.term_ns[k];
    if (sum != s.ns) WRONG(w, "terms", sum, s.ns);
    if (!s.term_ns[BT_TERM_PRODUCTS] || !s.term_ns[BT_TERM_ATTENTION])
        WRONG(w, "no products or attention", s.term_ns[BT_TERM_PRODUCTS], s.term_ns[BT_TERM_ATTENTION]);
    leave_out_what_is_paid_once(&w->profile.time);
    w->profile.companion = false;
    w->profile.time.interconnect_bytes_per_us = 0;
    w->profile.time.sums = 0;
    const bt_price_sum rest = bt_price_step_of(&w->profile, &w->model, &mixed);
    if (rest.term_ns[BT_TERM_FIXED] || rest.term_ns[BT_TERM_ALL_REDUCE])
        WRONG(w, "neither", rest.term_ns[BT_TERM_FIXED], rest.term_ns[BT_TERM_ALL_REDUCE]);
    if (rest.term_ns[BT_TERM_PRODUCTS] != s.term_ns[BT_TERM_PRODUCTS])
        WRONG(w, "products", rest.term_ns[BT_TERM_PRODUCTS], s.term_ns[BT_TERM_PRODUCTS]);
}

static void every_gpu_pays_a_dispatch_or_launches_under_every_stack(void **state)
{
    (void)state;
    size_t seen = 0;
    for (size_t i = 0; bt_profile_name(i); i++) {
        bt_profile p;
        for (uint32_t k = 0; load_stack(&p, i, k); k++) {
            if (!p.companion) continue;
            const bt_price_model m =
                bt_price_model_of(bt_dims_find("smollm2-135m"), &bt_price_form_at(0)->recipe);
            if (!bt_price_steps_of(&p, &m).fixed_ns) fail_msg("%s under %s", p.name, p.time.stack);
            seen++;
        }
    }
    assert_true(seen >= 10);
}

static void a_byte_costs_what_memories_do_or_is_marked_under_every_stack(void **state)
{
    (void)state;
    enum { BYTES = 1000000000 };
    size_t seen = 0;
    for (size_t i = 0; bt_profile_name(i); i++) {
        bt_profile p;
        for (uint32_t k = 0; load_stack(&p, i, k); k++) {
            const bt_profile_time *t = &p.time;
            if (bt_energy_of(t, 1, 1, 1, 1).kind == BT_ENERGY_NONE || *bt_energy_bound(t)) continue;
            const uint64_t ns = bt_time_of(BYTES, bt_time_decode_rate(t)),
                           pj = bt_energy_of(t, 0, 0, BYTES, ns).nj / (BYTES / 1000);
            if (pj < 5 || pj > 100) fail_msg("%s under %s: %" PRIu64 " pJ a byte", p.name, t->stack, pj);
            seen++;
        }
    }
    assert_true(seen >= 3);
}

static void time_never_falls_with_rows(void **state) { (void)state, hold(rows_are_not_less); }
static void time_never_falls_with_batch_or_context(void **state)
{
    (void)state, hold(batches_and_contexts_are_not_less);
}
static void time_never_falls_with_a_row_or_a_short_sequence_more_in_a_mixture(void **state)
{
    (void)state, hold(a_mixture_with_more_is_not_less);
}
static void a_window_never_costs_time_and_within_it_nothing_differs(void **state)
{
    (void)state, hold(windows_are_not_more_and_within_them_nothing_differs);
}
static void a_chunk_takes_the_time_of_each_class_of_layers(void **state)
{
    (void)state, hold(chunks_take_the_time_of_each_class);
}
static void time_never_falls_with_a_slower_link(void **state)
{
    (void)state, hold(a_slower_link_is_not_faster);
}
static void time_never_falls_with_a_longer_program_or_prompt_or_more_before_it(void **state)
{
    (void)state, hold(programs_are_not_less);
}
static void exposed_time_never_falls_with_a_slower_link(void **state)
{
    (void)state, hold(a_slower_hand_off_is_not_faster);
}
static void a_piece_takes_nine_tenths_of_what_it_takes_alone_beyond_the_weights_and_at_most_all(void **state)
{
    (void)state, hold(a_piece_beside_decode_rows_is_paid);
}
static void a_step_costs_its_launches_and_is_never_faster_than_the_memory(void **state)
{
    (void)state, hold(a_step_is_at_least_what_it_pays_once_and_its_bytes);
}
static void the_terms_of_a_step_are_all_of_its_time(void **state)
{
    (void)state, hold(terms_are_all_of_a_time);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gpu_pays_a_dispatch_or_launches_under_every_stack),
        cmocka_unit_test(a_byte_costs_what_memories_do_or_is_marked_under_every_stack),
        cmocka_unit_test(time_never_falls_with_rows),
        cmocka_unit_test(time_never_falls_with_batch_or_context),
        cmocka_unit_test(time_never_falls_with_a_row_or_a_short_sequence_more_in_a_mixture),
        cmocka_unit_test(a_window_never_costs_time_and_within_it_nothing_differs),
        cmocka_unit_test(a_chunk_takes_the_time_of_each_class_of_layers),
        cmocka_unit_test(time_never_falls_with_a_slower_link),
        cmocka_unit_test(time_never_falls_with_a_longer_program_or_prompt_or_more_before_it),
        cmocka_unit_test(exposed_time_never_falls_with_a_slower_link),
        cmocka_unit_test(a_piece_takes_nine_tenths_of_what_it_takes_alone_beyond_the_weights_and_at_most_all),
        cmocka_unit_test(a_step_costs_its_launches_and_is_never_faster_than_the_memory),
        cmocka_unit_test(the_terms_of_a_step_are_all_of_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
