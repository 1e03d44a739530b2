/* Several models in one cluster, several gateways before one: whose a request is, and that models which share
 * nothing do as each alone would. */
#include "lab/simulate/models.h"
#include "base/hash.h"
#include "tests/helpers/brain/sim_kit.h"
#include "lab/replay/synthetic.h"
#include "lab/simulate/show.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { REQUESTS = 120 };
static const char SPEC[] = "in:1500~1,out:80~1,rate:12,shared:300";

static tool_simulate_models two(void)
{
    tool_simulate_models m = {.given = {"llama-3.2-1b", "llama-3.1-8b"}, .len = 2};
    m.dims[0] = *bt_dims_find("llama-3.2-1b");
    m.dims[1] = *bt_dims_find("llama-3.1-8b");
    return m;
}

static void draw_plan(tool_replay_plan *p)
{
    tool_replay_synthetic s;
    bt_fault why = {""};
    const tool_replay_plan_options how = {.seed = 3, .context_tokens = SIM_KIT_CTX, .speed = 1, .fits = true};
    assert_int_equal(tool_replay_synthetic_read(&s, SPEC, &why), BT_OK);
    assert_int_equal(tool_replay_plan_begin(p, &why), BT_OK);
    assert_int_equal(tool_replay_synthetic_draw(p, &s, REQUESTS, 3, &why), BT_OK);
    assert_int_equal(tool_replay_plan_end(p, &how, &why), BT_OK);
}

/* The requests of one model, all of model 0 there. */
static void part_of(tool_replay_plan *ret, const tool_replay_plan *p, uint32_t model)
{
    bt_fault why = {""};
    const tool_replay_plan_options how = {.context_tokens = SIM_KIT_CTX, .speed = 1};
    assert_int_equal(tool_replay_plan_begin(ret, &why), BT_OK);
    for (size_t i = 0; i < p->len; i++) {
        tool_replay_item one = p->item[i];
        if (one.model != model) continue;
        one.model = 0;
        assert_int_equal(tool_replay_plan_add_item(ret, &one, &why), BT_OK);
    }
    assert_int_equal(tool_replay_plan_end(ret, &how, &why), BT_OK);
}

typedef struct run {
    tool_simulate_facts facts;
    tool_replay_result result;
    tool_replay_record *by_item; /* [plan] */
} run;

static void play(run *r, const tool_simulate_setup *s, const tool_replay_plan *p)
{
    bt_fault why = {""};
    tool_simulate_bench *b = NULL;
    assert_int_equal(tool_replay_result_begin(&r->result, p->len, &why), BT_OK);
    if (tool_simulate_bench_new(&b, s, &why) < 0) fail_msg("%s", why.text);
    if (tool_simulate_play(&r->facts, &r->result, b, p, NULL, NULL, &why) < 0) fail_msg("%s", why.text);
    tool_simulate_bench_free(b);
    assert_int_equal(r->result.len, p->len);
    r->by_item = calloc(p->len, sizeof *r->by_item);
    assert_non_null(r->by_item);
    for (size_t i = 0; i < p->len; i++) r->by_item[r->result.record[i].item] = r->result.record[i];
}

static void run_done(run *r)
{
    tool_replay_result_done(&r->result);
    free(r->by_item);
}

static bool is_as_alone(const tool_replay_record *a, const tool_replay_record *b)
{
    return a->kind == b->kind && a->completion_tokens == b->completion_tokens &&
           a->cached_tokens == b->cached_tokens && a->first_us - a->due_us == b->first_us - b->due_us &&
           a->last_us - a->due_us == b->last_us - b->due_us && a->exposed_us == b->exposed_us;
}

static bool is_within_a_microsecond(const tool_replay_record *a, const tool_replay_record *b)
{
    const int64_t d = a->last_us - a->due_us - b->last_us + b->due_us;
    tool_replay_record near = *b;
    near.first_us = a->first_us - a->due_us + b->due_us;
    near.last_us = a->last_us - a->due_us + b->due_us;
    const int64_t f = near.first_us - b->first_us;
    return d >= -1 && d <= 1 && f >= -1 && f <= 1 && is_as_alone(a, &near);
}

static void two_models_do_as_each_alone(void **state)
{
    (void)state;
    tool_simulate_models m = two();
    tool_simulate_setup both, alone[2];
    tool_replay_plan plan, part[2];
    static run all, one[2];
    bt_fault why = {""};
    draw_plan(&plan);
    assert_int_equal(tool_simulate_models_requests(&m, "llama-3.2-1b:2,llama-3.1-8b:1", &why), BT_OK);
    assert_int_equal(tool_simulate_models_assign(&plan, &m, 1, &why), BT_OK);
    sim_kit_setup(&both, "1,1:a100@llama-3.1-8b", "1,2:h100@llama-3.1");
    both.more[0] = &m.dims[1];
    both.mores = 1;
    assert_int_equal(tool_simulate_models_place(&m, &both.prefill, &both.decode, false, &why), BT_OK);
    play(&all, &both, &plan);
    sim_kit_setup(&alone[0], "1", "1");
    sim_kit_setup(&alone[1], "1:a100", "2:h100");
    alone[1].model = &m.dims[1];
    for (uint32_t i = 0; i < 2; i++) {
        part_of(&part[i], &plan, i);
        play(&one[i], &alone[i], &part[i]);
        assert_int_equal(all.facts.share[i].nodes[0], one[i].facts.share[0].nodes[0]);
        assert_int_equal(all.facts.share[i].nodes[1], one[i].facts.share[0].nodes[1]);
        assert_true(all.facts.share[i].busy_s[0] > 0 &&
                    all.facts.share[i].busy_s[0] == one[i].facts.share[0].busy_s[0]);
        assert_true(all.facts.share[i].busy_s[1] > 0);
        size_t k = 0;
        for (size_t n = 0; n < plan.len; n++)
            if (plan.item[n].model == i && !is_within_a_microsecond(&all.by_item[n], &one[i].by_item[k++]))
                fail_msg("request %zu of model %u waited otherwise than in a cluster of its own", n, i);
        assert_int_equal(k, part[i].len);
        assert_in_range(k, 20, 100);
    }
    run_done(&all);
    for (uint32_t i = 0; i < 2; i++) {
        run_done(&one[i]);
        tool_replay_plan_done(&part[i]);
    }
    tool_replay_plan_done(&plan);
}

/* One node of each kind for each model, and what rules add. */
static void play_with(run *r, const tool_replay_plan *plan, const char *rules)
{
    tool_simulate_models m = two();
    tool_simulate_setup s;
    bt_fault why = {""};
    sim_kit_setup(&s, "1,1:h100@llama-3.1-8b", "1:a100,1:a100@llama-3.1");
    s.more[0] = &m.dims[1];
    s.mores = 1;
    s.cluster.decode_slots = 4;
    assert_int_equal(tool_simulate_models_place(&m, &s.prefill, &s.decode, false, &why), BT_OK);
    assert_int_equal(tool_simulate_scale_read(&s.scale, rules, &why), BT_OK);
    assert_int_equal(tool_simulate_models_rules(&m, &s.scale, &why), BT_OK);
    play(r, &s, plan);
}

/* Whether a model's requests waited as long in both, and so were its nodes powered. */
static bool is_same_for(const run *a, const run *b, const tool_replay_plan *plan, uint32_t model)
{
    for (size_t i = 0; i < plan->len; i++)
        if (plan->item[i].model == model && !is_as_alone(&a->by_item[i], &b->by_item[i])) return false;
    return true;
}

static double nodes_of(const run *r, uint32_t model) /* that decode, in the mean */
{
    return r->facts.share[model].node_s[1] / r->facts.virtual_s;
}

/* A rule reads the figure of its model's nodes and adds those: what the other model's rule does, or that
 * there is none, changes nothing for it. */
static void each_model_grows_by_its_own_figure(void **state)
{
    (void)state;
    tool_simulate_models m = two();
    tool_replay_plan plan;
    static run none, both, first, second;
    bt_fault why = {""};
#define RULE " 1..4 when slots>0.6 for 0s, down when slots<0.5 for 1s; start 200ms;"
    draw_plan(&plan);
    assert_int_equal(tool_simulate_models_requests(&m, "llama-3.2-1b:1,llama-3.1-8b:1", &why), BT_OK);
    assert_int_equal(tool_simulate_models_assign(&plan, &m, 1, &why), BT_OK);
    play_with(&none, &plan, "");
    play_with(&both, &plan, "decode" RULE "decode@llama-3.1-8b" RULE);
    play_with(&first, &plan, "decode@llama-3.2" RULE);
    play_with(&second, &plan, "decode@llama-3.1-8b" RULE);
    assert_true(is_same_for(&both, &first, &plan, 0) && is_same_for(&both, &second, &plan, 1));
    assert_true(is_same_for(&none, &second, &plan, 0) && is_same_for(&none, &first, &plan, 1));
    assert_false(is_same_for(&none, &first, &plan, 0) || is_same_for(&none, &second, &plan, 1));
    for (uint32_t i = 0; i < 2; i++) {
        assert_float_equal(nodes_of(&none, i), 1, 1e-9);
        assert_float_equal(nodes_of(i ? &first : &second, i), 1, 1e-9);
        assert_in_range((int)(100 * nodes_of(&both, i)), 120, 400);
    }
    run_done(&none);
    run_done(&both);
    run_done(&first);
    run_done(&second);
    tool_replay_plan_done(&plan);
}

/* Requests that wait at one model's gateway do not count for the other's nodes. */
static void a_queue_is_of_its_model(void **state)
{
    (void)state;
    tool_replay_plan plan;
    static run r;
    draw_plan(&plan);
    for (size_t i = 0; i < plan.len; i++) plan.item[i].model = 1;
    play_with(&r, &plan,
              "prefill 1..3 when queue>0 for 0s; prefill@llama-3.1-8b 1..3 when queue>0 for 0s; start 500ms");
    assert_float_equal(r.facts.share[0].node_s[0] / r.facts.virtual_s, 1, 1e-9);
    assert_true(r.facts.share[1].node_s[0] / r.facts.virtual_s > 1.5);
    run_done(&r);
    tool_replay_plan_done(&plan);
}

static void a_rule_of_no_model_or_of_one_twice_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"decode@llama-9 1..2 when kv>0.5 for 1s", "none of the models"},
        {"decode 1..2 when kv>0.5 for 1s; decode@llama-3.2 1..2 when kv>0.5 for 1s", "two rules for decode"},
        {"decode@llama-3.1-8b 3..4 when kv>0.5 for 1s", "decode@llama-3.1-8b nodes"},
        {"prefill@llama-3.1-8b 1..2 when kv>0.5 for 1s", "no node to begin with"}};
    const tool_simulate_models m = two();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        static tool_simulate_scale s;
        bt_fault why = {""};
        tool_simulate_has has = {{1, 1}, {0, 1}};
        assert_int_equal(tool_simulate_scale_read(&s, bad[i].text, &why), BT_OK);
        bt_err e = tool_simulate_models_rules(&m, &s, &why);
        if (e == BT_OK) e = tool_simulate_scale_check(&s, has, &why);
        if (e != BT_EARG || !strstr(why.text, bad[i].says)) fail_msg("'%s': %s", bad[i].text, why.text);
    }
}

/* A model without prefill nodes has its prompts computed where they are decoded. */
static void a_model_may_have_decode_nodes_alone(void **state)
{
    (void)state;
    tool_simulate_models m = two();
    tool_simulate_setup s;
    tool_replay_plan plan;
    static run r;
    bt_fault why = {""};
    draw_plan(&plan);
    assert_int_equal(tool_simulate_models_requests(&m, "llama-3.2-1b:1,llama-3.1-8b:1", &why), BT_OK);
    assert_int_equal(tool_simulate_models_assign(&plan, &m, 1, &why), BT_OK);
    sim_kit_setup(&s, "1", "1,3:h100@llama-3.1-8b");
    s.more[0] = &m.dims[1];
    s.mores = 1;
    assert_int_equal(tool_simulate_models_place(&m, &s.prefill, &s.decode, false, &why), BT_OK);
    play(&r, &s, &plan);
    for (size_t i = 0; i < plan.len; i++) {
        assert_int_equal(r.by_item[i].kind, TOOL_REPLAY_OK);
        const char *by = r.by_item[i].node < r.result.nodes ? r.result.node[r.by_item[i].node].role : "";
        assert_string_equal(by, plan.item[i].model ? "decode" : "prefill");
    }
    run_done(&r);
    tool_replay_plan_done(&plan);
}

static void gateways_take_requests_in_turn(void **state)
{
    (void)state;
    static run one, three;
    tool_simulate_setup s;
    tool_replay_plan plan;
    draw_plan(&plan);
    sim_kit_setup(&s, "2", "2");
    s.cluster.request_ns = 20000000; /* 12 a second and 20 ms each: a quarter of one thread */
    s.cluster.token_ns = 40000;
    play(&one, &s, &plan);
    s.cluster.gateways = 3;
    play(&three, &s, &plan);
    assert_int_equal(one.facts.doors, 1);
    assert_int_equal(three.facts.doors, 3);
    double busy = 0;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(three.facts.door[i].requests, REQUESTS / 3);
        assert_int_equal(three.facts.door[i].completed, REQUESTS / 3);
        assert_true(three.facts.door[i].busy < one.facts.door[0].busy);
        busy += three.facts.door[i].busy * three.facts.virtual_s;
    }
    /* the same requests and tokens take the same time of threads, each HELLO once more */
    const double before = one.facts.door[0].busy * one.facts.virtual_s;
    assert_true(busy > 0.99 * before && busy < 1.01 * before + 0.01);
    run_done(&one);
    run_done(&three);
    tool_replay_plan_done(&plan);
}

/* Rows in the names of two models, and some without. */
static void name_rows(tool_replay_plan *p)
{
    static const char *const names[] = {"GPT-4", "llama-3.1-8b", NULL};
    bt_fault why = {""};
    const tool_replay_plan_options how = {.usual_output = 4, .speed = 1};
    assert_int_equal(tool_replay_plan_begin(p, &why), BT_OK);
    for (uint32_t i = 0; i < 3000; i++) {
        char session[16];
        (void)snprintf(session, sizeof session, "s%u", i / 3 / 5);
        const bt_trace_row row = {.line = i + 1,      .has_arrival = true,  .arrival_us = i * 1000,
                                  .input_tokens = 50, .output_tokens = 5,   .has_output = true,
                                  .session = session, .model = names[i % 3]};
        assert_int_equal(tool_replay_plan_add(p, &row, &how, &why), BT_OK);
    }
    assert_int_equal(tool_replay_plan_end(p, &how, &why), BT_OK);
}

static void a_trace_says_whose_a_request_is(void **state)
{
    (void)state;
    tool_simulate_models m = two();
    tool_replay_plan p;
    bt_fault why = {""};
    uint32_t second = 0;
    name_rows(&p);
    assert_int_equal(tool_simulate_models_assign(&p, &m, 1, &why), BT_EARG);
    assert_non_null(strstr(why.text, "GPT-4"));
    assert_int_equal(tool_simulate_models_requests(&m, "GPT-4=llama-3.2", &why), BT_OK);
    assert_int_equal(tool_simulate_models_assign(&p, &m, 1, &why), BT_EARG);
    assert_non_null(strstr(why.text, "shares"));
    assert_int_equal(tool_simulate_models_requests(&m, "llama-3.2-1b:3,llama-3.1-8b:1", &why), BT_OK);
    assert_int_equal(tool_simulate_models_assign(&p, &m, 1, &why), BT_OK);
    for (size_t i = 0; i < p.len; i++) {
        if (i % 3 == 0) assert_int_equal(p.item[i].model, 0);
        if (i % 3 == 1) assert_int_equal(p.item[i].model, 1);
        if (i % 3 == 2) second += p.item[i].model;
        if (i % 15 > 2 && i % 3 == 2)
            assert_int_equal(p.item[i].model, p.item[i - 3].model); /* a session's */
    }
    assert_in_range(second, 170, 330); /* a quarter of 1,000 that come in 200 sessions */
    tool_replay_plan_done(&p);
}

static void what_names_no_model_is_said(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "llama-3.2-1b",  "llama-3.2-1b:0", "llama:1",
                                      "x=", "=llama-3.2-1b", "gpt:1",          "llama-3.2-1b:1,,"};
    tool_simulate_models m = two();
    tool_simulate_setup s;
    bt_fault why = {""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tool_simulate_models_requests(&m, bad[i], &why) != BT_EARG) fail_msg("'%s' is taken", bad[i]);
    sim_kit_setup(&s, "1@gpt", "1");
    assert_int_equal(tool_simulate_models_place(&m, &s.prefill, &s.decode, false, &why), BT_EARG);
    assert_non_null(strstr(why.text, "--prefill"));
    sim_kit_setup(&s, "1@llama-3.1-8b", "1");
    assert_int_equal(tool_simulate_models_place(&m, &s.prefill, &s.decode, false, &why), BT_EARG);
    assert_non_null(strstr(why.text, "no node serves"));
    assert_int_equal(tool_simulate_models_place(&m, &s.prefill, &s.decode, true, &why), BT_OK);
}

/* The name of a profile's stack is asked of it: what matters is on which side of which @ it stands. */
static void behind_an_at_stands_a_stack_if_the_profile_has_one_so_named_and_else_a_model(void **state)
{
    (void)state;
    static tool_simulate_side prefill, decode;
    tool_simulate_models m = two();
    char text[160], stack[32];
    bt_profile a100;
    bt_fault why = {""};
    assert_int_equal(bt_profile_load(&a100, "a100", &why), BT_OK);
    (void)snprintf(stack, sizeof stack, "%s", a100.first_stack);
    (void)snprintf(text, sizeof text,
                   "1:a100@%s,2:a100@llama-3.1-8b,3:a100@%s@llama-3.2-1b,4@llama-3.1-8b,5:h100x4", stack,
                   stack);
    if (tool_simulate_side_read(&decode, "decode", text, "a100", &why) < 0) fail_msg("%s", why.text);
    static const struct {
        const char *name, *model;
        bool has_stack;
    } want[] = {{"a100", "", true},
                {"a100", "llama-3.1-8b", false},
                {"a100", "llama-3.2-1b", true},
                {"a100", "llama-3.1-8b", false},
                {"h100x4", "", false}};
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(decode.group[i].profile.name, want[i].name);
        assert_string_equal(decode.group[i].model_name, want[i].model);
        assert_string_equal(decode.group[i].stack, want[i].has_stack ? stack : "");
    }
    assert_int_equal(tool_simulate_side_read(&prefill, "prefill", "1", "a100", &why), BT_OK);
    assert_int_equal(tool_simulate_models_place(&m, &prefill, &decode, false, &why), BT_OK);
    m.given[1] = stack; /* a model that is called so: both readings */
    assert_int_equal(tool_simulate_models_place(&m, &prefill, &decode, false, &why), BT_EARG);
    (void)snprintf(text, sizeof text, "is a stack of 'a100' and a model of --model; give both, as in @%s@%s",
                   stack, stack);
    if (!strstr(why.text, text)) fail_msg("%s", why.text);
    static const char *const bad[] = {"1:a100@", "1:a100@@x", "1:a100@x@llama-3.2-1b", "1:a100@a@b@c"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tool_simulate_side_read(&decode, "decode", bad[i], "a100", &why) != BT_EARG ||
            !strstr(why.text, "decode"))
            fail_msg("'%s' is taken, or answered: %s", bad[i], why.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behind_an_at_stands_a_stack_if_the_profile_has_one_so_named_and_else_a_model),
        cmocka_unit_test(two_models_do_as_each_alone),
        cmocka_unit_test(each_model_grows_by_its_own_figure),
        cmocka_unit_test(a_queue_is_of_its_model),
        cmocka_unit_test(a_rule_of_no_model_or_of_one_twice_is_refused),
        cmocka_unit_test(a_model_may_have_decode_nodes_alone),
        cmocka_unit_test(gateways_take_requests_in_turn),
        cmocka_unit_test(a_trace_says_whose_a_request_is),
        cmocka_unit_test(what_names_no_model_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
