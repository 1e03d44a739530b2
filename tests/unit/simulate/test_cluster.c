/* Clusters in virtual time against prices taken by hand, against queueing theory, and against themselves. */
#include "simulate/cluster.h"
#include "base/rng.h"
#include "tests/helpers/brain/sim_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CTX = SIM_KIT_CTX, PAGES = 4096, REQUESTS = 8192 };

typedef struct asked {
    uint32_t prompt, output, got, ends;
    int64_t sent_ns, first_ns, last_ns, end_ns;
    bool is_done;
    gw_stats stats;
} asked;

typedef struct bed {
    sim_cluster *c;
    asked a[REQUESTS + 1];
    uint64_t len;
    uint32_t shared; /* tokens that all prompts begin with */
    uint32_t prompt, output;
    void (*on_due)(struct bed *b, uint64_t number);
    int32_t ids[CTX];
} bed;

static const sim_kit *kit;

static void fill(void *ud, uint64_t request, gw_submit *ret)
{
    bed *b = ud;
    const asked *a = &b->a[request];
    for (uint32_t i = 0; i < a->prompt; i++)
        b->ids[i] = (int32_t)(bt_rng_u64(i < b->shared ? 0 : request, i) % 30000);
    ret->ids = b->ids;
    ret->ids_len = a->prompt;
    ret->max_tokens = a->output;
    ret->sampling = (bt_sampling){.top_p = 1};
}

static void tokens(void *ud, uint64_t request, uint32_t count, int64_t now_ns)
{
    bed *b = ud;
    asked *a = &b->a[request];
    if (!a->got) a->first_ns = now_ns;
    a->got += count;
    a->last_ns = now_ns;
}

static void end(void *ud, uint64_t request, const gw_action *how, int64_t now_ns)
{
    bed *b = ud;
    asked *a = &b->a[request];
    a->ends++;
    a->end_ns = now_ns;
    a->is_done = how->type == GW_DO_DONE;
    a->stats = a->is_done ? how->u.done.stats : how->u.fail.stats;
}

static void submit(bed *b, uint32_t prompt, uint32_t output)
{
    const uint64_t n = sim_cluster_submit(b->c);
    b->len = n;
    b->a[n] = (asked){.prompt = prompt, .output = output, .sent_ns = sim_cluster_now_ns(b->c)};
}

static void due(void *ud, uint64_t number, int64_t now_ns)
{
    bed *b = ud;
    (void)now_ns;
    if (b->on_due) b->on_due(b, number);
    else submit(b, b->prompt, b->output);
}

static int set_up(void **state)
{
    (void)state;
    kit = sim_kit_costs();
    return 0;
}

typedef struct plan {
    const sim_cost *prefill, *decode;
    uint32_t prefills, decodes;
    bool is_checked, mixes;
    uint32_t share_tokens;
    uint64_t seed;
    bt_link link;
} plan;

static const bt_link fast = {.bits_per_us = 100000};

static bed *make(const plan *p)
{
    bed *b = calloc(1, sizeof *b);
    assert_non_null(b);
    bt_fault fault = {""};
    sim_cluster_options o = sim_cluster_defaults();
    static sim_cluster_group groups[2];
    groups[0] = (sim_cluster_group){.cost = p->prefill, .device = "a", .nodes = p->prefills, .pages = PAGES};
    groups[1] = (sim_cluster_group){.cost = p->decode, .device = "b", .nodes = p->decodes, .pages = PAGES};
    o.seed = p->seed;
    o.prefill = &groups[0];
    o.prefills = p->prefills ? 1 : 0;
    o.decode = &groups[1];
    o.decodes = 1;
    o.can_prefill = !p->prefills;
    o.pf.share_tokens = p->share_tokens;
    if (p->share_tokens) o.prefill_slots = 16;
    o.mixes = p->mixes;
    o.is_checked = p->is_checked;
    o.link = p->link.bits_per_us ? p->link : fast;
    o.model = kit->model;
    o.kv_elem_bytes = 2;
    o.ctx_tokens = CTX;
    o.gw.queue_max = REQUESTS;
    const sim_cluster_client client = {b, fill, tokens, end, due};
    if (sim_cluster_new(&b->c, &o, &client, &fault) < 0) fail_msg("%s", fault.text);
    return b;
}

static void run(bed *b)
{
    bt_fault fault = {""};
    if (sim_cluster_run(b->c, INT64_MAX, &fault) < 0) fail_msg("%s", fault.text);
    for (uint64_t i = 1; i <= b->len; i++)
        if (b->a[i].ends != 1) fail_msg("request %llu ended %u times", (unsigned long long)i, b->a[i].ends);
}

static void done(bed *b)
{
    sim_cluster_free(b->c);
    free(b);
}

/* A prompt alone, its KV over the wire, then a step for each further token, from prices alone. */
static void one_request_takes_its_price(void **state)
{
    (void)state;
    enum { PROMPT = 1000, OUTPUT = 20 };
    const sim_cost *costs[] = {&kit->gpu_cost, &kit->npu_cost};
    for (size_t k = 0; k < 2; k++) {
        bed *b = make(&(plan){.prefill = costs[k], .decode = &kit->gpu_cost, .prefills = 1, .decodes = 1,
                              .seed = 1});
        uint64_t prefill = 0, steps = 0, chunk = 0, last = 0, chunk_tokens = 0, control = 0;
        bt_link_queue q = {0};
        submit(b, PROMPT, OUTPUT);
        run(b);
        if (k == 0) {
            const bt_price_step s = bt_price_prefill_step(0, PROMPT, 0);
            prefill = chunk = bt_price_step_of(&kit->gpu, &kit->gpu_cost.steps.model, &s).ns;
            chunk_tokens = PROMPT;
        } else {
            for (uint32_t at = 0; at < PROMPT; at += 256) {
                const sim_cost_chunk c = sim_cost_next(&kit->npu_cost, PROMPT, at, !at);
                prefill += c.work.ns;
                chunk = c.end_ns - c.lead_ns;
                last = c.work.ns - c.end_ns; /* the output matrix, while the last rows are on the wire */
            }
            chunk_tokens = PROMPT - 768; /* three chunks of 256 hide theirs behind the next */
        }
        for (uint32_t i = 1; i < OUTPUT; i++) {
            const bt_price_step s = bt_price_decode_step(1, PROMPT + i, 0);
            steps += bt_price_step_of(&kit->gpu, &kit->gpu_cost.steps.model, &s).ns;
        }
        const bt_link_kv kv = bt_link_kv_of(kit->model, bt_dims_kv_bytes(kit->model, 16));
        (void)bt_link_chunk(&q, &fast, &kv, 0, chunk, bt_link_rows_of(&kv, 0, chunk_tokens, chunk_tokens));
        const uint64_t exposed = bt_link_exposed_ns(&q, chunk + last);
        control = 50000; /* messages of a few hundred bytes at 100 Gbit/s, and Reserve with its prompt */
        const asked *a = &b->a[1];
        assert_true(a->is_done);
        assert_int_equal(a->got, OUTPUT);
        assert_in_range(a->first_ns - a->sent_ns, prefill, prefill + control);
        assert_in_range(a->last_ns - a->first_ns, exposed + steps - 2000, exposed + steps + control);
        /* a node counts from its last rows, which stand in front of the output matrix */
        assert_in_range(a->stats.kv_exposed_us, (last + exposed) / 1000, (last + exposed) / 1000 + 5);
        assert_int_equal(a->stats.kv_bytes, PROMPT * bt_dims_kv_bytes(kit->model, 16));
        done(b);
    }
}

/* Sixteen prompts at once: the first finds nobody that waits, all others run in one chunk. */
static void short_prompts_share_a_chunk_at_its_price(void **state)
{
    (void)state;
    enum { N = 16, PROMPT = 12 };
    const sim_cost *costs[] = {&kit->gpu_cost, &kit->npu_cost};
    for (size_t k = 0; k < 2; k++) {
        int64_t all_ns[2];
        const uint32_t zeros[N] = {0};
        uint32_t lengths[N];
        for (size_t i = 0; i < N; i++) lengths[i] = PROMPT;
        const uint64_t one = sim_cost_batch(costs[k], zeros, lengths, 1).work.ns,
                       others = sim_cost_batch(costs[k], zeros, lengths, N - 1).work.ns;
        for (int shares = 0; shares < 2; shares++) {
            bed *b = make(&(plan){.prefill = costs[k], .decode = &kit->gpu_cost, .prefills = 1, .decodes = 1,
                                  .seed = 1, .is_checked = true, .share_tokens = shares ? 256 : 0});
            const int64_t begin_ns = sim_cluster_now_ns(b->c);
            for (int i = 0; i < N; i++) submit(b, PROMPT, 1);
            run(b);
            all_ns[shares] = 0;
            for (int i = 1; i <= N; i++) {
                assert_true(b->a[i].is_done);
                if (b->a[i].first_ns - begin_ns > all_ns[shares])
                    all_ns[shares] = b->a[i].first_ns - begin_ns;
            }
            const sim_cluster_node n = sim_cluster_look(b->c, 0);
            assert_int_equal(n.valid_rows, N * PROMPT);
            assert_int_equal(n.runs, shares ? 2 : N);
            assert_int_equal(n.done[0].ns + n.done[1].ns, shares ? one + others : N * one);
            done(b);
        }
        assert_in_range(all_ns[1], one + others, one + others + 500000);
        assert_true(all_ns[1] < all_ns[0]);
    }
}

/* Pollaczek-Khinchine: prompts of one length that come at random wait rho D / (2 (1 - rho)) for a node that
 * takes D. */
static void waiting_is_that_of_a_queue_with_one_server(void **state)
{
    (void)state;
    enum { N = 8000, PROMPT = 512 };
    const bt_price_step s = bt_price_prefill_step(0, PROMPT, 0);
    const double service = (double)bt_price_step_of(&kit->gpu, &kit->gpu_cost.steps.model, &s).ns, rho = 0.7;
    bed *b = make(&(plan){.prefill = &kit->gpu_cost, .decode = &kit->gpu_cost, .prefills = 1, .decodes = 1,
                          .seed = 3});
    double t = (double)sim_cluster_now_ns(b->c), sum = 0;
    b->prompt = PROMPT;
    b->output = 1;
    for (uint32_t i = 0; i < N; i++) {
        t += -log(1 - bt_rng_uniform(11, i)) * service / rho;
        sim_cluster_at(b->c, (int64_t)t, i);
    }
    run(b);
    for (uint32_t i = 1; i <= N; i++) sum += (double)(b->a[i].first_ns - b->a[i].sent_ns) - service;
    const double wait = sum / N, theory = rho * service / (2 * (1 - rho));
    if (fabs(wait / theory - 1) > 0.1) fail_msg("waits %.0f ns on average, theory says %.0f", wait, theory);
    done(b);
}

static void load_of_many(bed *b, uint32_t n, double gap_ns)
{
    double t = (double)sim_cluster_now_ns(b->c);
    for (uint32_t i = 0; i < n; i++) {
        t += -log(1 - bt_rng_uniform(5, i)) * gap_ns;
        sim_cluster_at(b->c, (int64_t)t, i);
    }
}

static void mixed_load(bed *b, uint64_t number)
{
    submit(b, 16 + (uint32_t)(bt_rng_u64(21, number) % 3000), 1 + (uint32_t)(bt_rng_u64(22, number) % 80));
}

/* The digest is of every message: who sent it, to whom, and when. */
static uint64_t digest_of(const plan *p, uint32_t n)
{
    bed *b = make(p);
    b->on_due = mixed_load;
    b->shared = 640;
    load_of_many(b, n, 3e6);
    run(b);
    for (uint32_t i = 1; i <= n; i++) {
        assert_true(b->a[i].is_done);
        assert_int_equal(b->a[i].got, b->a[i].output);
    }
    const uint64_t digest = sim_cluster_digest(b->c);
    done(b);
    return digest;
}

static void the_same_calls_give_the_same_run_and_others_do_not(void **state)
{
    (void)state;
    const plan p = {.prefill = &kit->gpu_cost, .decode = &kit->gpu_cost, .prefills = 3, .decodes = 2,
                    .seed = 7};
    const uint64_t first = digest_of(&p, 300);
    assert_int_equal(digest_of(&p, 300), first);
    assert_int_not_equal(digest_of(&p, 299), first);
}

static void leaving_out_codec_and_checks_changes_no_decision(void **state)
{
    (void)state;
    const plan plans[] = {
        {.prefill = &kit->gpu_cost, .decode = &kit->gpu_cost, .prefills = 2, .decodes = 2, .seed = 7},
        {.prefill = &kit->npu_cost, .decode = &kit->gpu_cost, .prefills = 2, .decodes = 1, .seed = 7},
        {.decode = &kit->gpu_cost, .decodes = 3, .mixes = true, .seed = 7},
    };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        plan p = plans[i];
        const uint64_t bare = digest_of(&p, 120);
        p.is_checked = true;
        assert_int_equal(digest_of(&p, 120), bare);
    }
}

/* One of two sequences decodes while the other's prompt is computed. */
static int64_t longest_gap(const plan *p, int64_t *ret_first_ns)
{
    bed *b = make(p);
    submit(b, 64, 60);
    bt_fault fault = {""};
    assert_int_equal(sim_cluster_run(b->c, sim_cluster_now_ns(b->c) + 20000000, &fault), BT_OK);
    submit(b, 4000, 2);
    run(b);
    const int64_t took = b->a[1].last_ns - b->a[1].first_ns;
    *ret_first_ns = b->a[2].first_ns - b->a[2].sent_ns;
    done(b);
    return took;
}

static void mixed_steps_cost_one_pass_over_the_weights(void **state)
{
    (void)state;
    int64_t first_mixed = 0, first_apart = 0;
    const int64_t mixed =
                      longest_gap(&(plan){.decode = &kit->gpu_cost, .decodes = 1, .mixes = true, .seed = 1},
                                  &first_mixed),
                  apart =
                      longest_gap(&(plan){.decode = &kit->gpu_cost, .decodes = 1, .seed = 1}, &first_apart);
    bt_price_step one = {0}, two = {0}, both = {0};
    bt_work_step_add(&one, 0, 256, 0, 0);
    bt_work_step_add(&two, 64, 1, 1, 0);
    bt_work_step_add(&both, 0, 256, 0, 0);
    bt_work_step_add(&both, 64, 1, 1, 0);
    assert_true(sim_cost_step(&kit->gpu_cost, &both).ns <
                sim_cost_step(&kit->gpu_cost, &one).ns + sim_cost_step(&kit->gpu_cost, &two).ns);
    assert_true(mixed < apart);
    assert_true(first_mixed < first_apart);
}

/* ---- faults -------------------------------------------------------------------------------------- */

static void break_things(bed *b, uint64_t number)
{
    mixed_load(b, number);
    if (number == 40) sim_cluster_kill(b->c, BT_ROLE_DECODE, 1);
    if (number == 60) sim_cluster_kill(b->c, BT_ROLE_PREFILL, 0);
    if (number == 80) sim_cluster_stop(b->c, BT_ROLE_PREFILL, 1);
    if (number == 90) sim_cluster_slow(b->c, 2, 10);
    if (number == 120) sim_cluster_continue(b->c, BT_ROLE_PREFILL, 1);
    if (number == 140) sim_cluster_start(b->c, BT_ROLE_DECODE, 1);
    if (number == 150) sim_cluster_start(b->c, BT_ROLE_PREFILL, 0);
}

static void every_request_ends_once_whatever_dies(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        uint64_t digest = 0;
        for (int checked = 0; checked < 2; checked++) {
            bed *b = make(&(plan){.prefill = &kit->gpu_cost, .decode = &kit->gpu_cost, .prefills = 3,
                                  .decodes = 2, .seed = seed, .is_checked = checked});
            uint32_t again = 0;
            b->on_due = break_things;
            b->shared = 64;
            load_of_many(b, 300, 20e6);
            run(b);
            for (uint32_t i = 1; i <= 300; i++) {
                assert_true(b->a[i].is_done);
                assert_int_equal(b->a[i].got, b->a[i].output);
                again += b->a[i].stats.attempts > 1;
            }
            assert_true(again > 0);
            if (checked) assert_int_equal(sim_cluster_digest(b->c), digest);
            digest = sim_cluster_digest(b->c);
            done(b);
        }
    }
}

static void a_slow_link_shows_in_what_is_exposed_and_nowhere_else(void **state)
{
    (void)state;
    int64_t exposed[2], first[2];
    for (uint32_t k = 0; k < 2; k++) {
        bed *b = make(&(plan){.prefill = &kit->gpu_cost, .decode = &kit->gpu_cost, .prefills = 1,
                              .decodes = 1, .seed = 1});
        if (k) sim_cluster_slow(b->c, 1, 50);
        submit(b, 2000, 3);
        run(b);
        exposed[k] = (int64_t)b->a[1].stats.kv_exposed_us;
        first[k] = b->a[1].first_ns - b->a[1].sent_ns;
        done(b);
    }
    assert_true(exposed[1] > 20 * exposed[0]);
    assert_true(first[1] < first[0] + 100000);
}

static void a_prompt_seen_before_is_not_computed_again(void **state)
{
    (void)state;
    bed *b = make(&(plan){.prefill = &kit->gpu_cost, .decode = &kit->gpu_cost, .prefills = 1, .decodes = 1,
                          .seed = 1});
    bt_fault fault = {""};
    b->shared = 2048;
    submit(b, 2100, 4);
    assert_int_equal(sim_cluster_run(b->c, INT64_MAX, &fault), BT_OK);
    submit(b, 2100, 4);
    run(b);
    assert_int_equal(b->a[1].stats.cached_tokens, 0);
    assert_int_equal(b->a[2].stats.cached_tokens, 2048);
    assert_int_equal(b->a[2].stats.covered_tokens, 2048);
    done(b);
}

static void weights_that_do_not_fit_are_refused_with_both_numbers(void **state)
{
    (void)state;
    bt_profile small;
    bt_fault fault = {""};
    sim_cost cost;
    bt_shapes chunks;
    assert_int_equal(bt_shapes_parse(&chunks, "chunk:8192+tail", CTX, &fault), BT_OK);
    assert_int_equal(bt_profile_load(&small, "rtx-4090", &fault), BT_OK);
    const sim_cost_options o = {.model = bt_dims_find("llama-2-70b"),
                                .profile = &small,
                                .weight_bits = 16,
                                .weight_permille = 2000,
                                .kv_elem_bytes = 2,
                                .shapes = &chunks};
    assert_int_equal(sim_cost_begin(&cost, &o, &fault), BT_ELIMIT);
    assert_non_null(strstr(fault.text, "25769803776"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_request_takes_its_price),
        cmocka_unit_test(short_prompts_share_a_chunk_at_its_price),
        cmocka_unit_test(waiting_is_that_of_a_queue_with_one_server),
        cmocka_unit_test(the_same_calls_give_the_same_run_and_others_do_not),
        cmocka_unit_test(leaving_out_codec_and_checks_changes_no_decision),
        cmocka_unit_test(mixed_steps_cost_one_pass_over_the_weights),
        cmocka_unit_test(every_request_ends_once_whatever_dies),
        cmocka_unit_test(a_slow_link_shows_in_what_is_exposed_and_nowhere_else),
        cmocka_unit_test(a_prompt_seen_before_is_not_computed_again),
        cmocka_unit_test(weights_that_do_not_fit_are_refused_with_both_numbers),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
