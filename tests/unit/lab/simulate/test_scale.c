/* Clusters that scale: what --scale is read as, when a rule decides, and what becomes of nodes and requests.
 */
#include "lab/simulate/scale.h"
#include "tests/helpers/brain/sim_kit.h"
#include "lab/simulate/show.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t SECOND = 1000000000;

static void rules_changes_and_the_time_to_start_are_read(void **state)
{
    (void)state;
    static tool_simulate_scale s;
    bt_fault fault = {""};
    assert_int_equal(
        tool_simulate_scale_read(
            &s,
            "decode 2..16 when kv>0.8 for 10s, down when slots<0.25 for 60s; role prefill 3 decode at "
            "600s for 5m;leave decode 1 at 20s; prefill 1..4 when queue>4 for 500ms ; start 30s",
            &fault),
        BT_OK);
    assert_int_equal(s.rules, 2);
    assert_int_equal(s.rule[0].role, BT_ROLE_DECODE);
    assert_int_equal(s.rule[0].least, 2);
    assert_int_equal(s.rule[0].most, 16);
    assert_int_equal(s.rule[0].up.signal, SIM_SCALE_KV);
    assert_int_equal(s.rule[0].up.milli, 800);
    assert_int_equal(s.rule[0].up.for_ns, 10 * SECOND);
    assert_true(s.rule[0].has_down);
    assert_int_equal(s.rule[0].down.signal, SIM_SCALE_SLOTS);
    assert_int_equal(s.rule[0].down.milli, 250);
    assert_int_equal(s.rule[0].down.for_ns, 60 * SECOND);
    assert_int_equal(s.rule[1].role, BT_ROLE_PREFILL);
    assert_int_equal(s.rule[1].up.signal, SIM_SCALE_QUEUE);
    assert_int_equal(s.rule[1].up.milli, 4000);
    assert_false(s.rule[1].has_down);
    assert_int_equal(s.changes, 2);
    assert_int_equal(s.change[0].role, BT_ROLE_PREFILL);
    assert_int_equal(s.change[0].number, 3);
    assert_int_equal(s.change[0].as, BT_ROLE_DECODE);
    assert_int_equal(s.change[0].at_us, 600000000);
    assert_int_equal(s.change[0].for_us, 300000000);
    assert_int_equal(s.change[1].as, 0);
    assert_int_equal(s.change[1].for_us, 0);
    assert_int_equal(s.start_us, 30000000);
    assert_int_equal(tool_simulate_scale_read(&s, " ;", &fault), BT_OK);
    assert_int_equal(s.start_us, -1);
}

static void what_is_wrong_is_named_by_its_column_and_value(void **state)
{
    (void)state;
    static tool_simulate_scale s;
    static const struct {
        const char *text, *column, *says;
    } bad[] = {
        {"decod 2..4", "column 1: 'decod'", "did you mean 'decode'"},
        {"decode 2", "column 8: '2'", "such as 2..16"},
        {"decode 4..2 when kv>0.8 for 1s", "column 8: '4..2'", "such as 2..16"},
        {"decode 0..0 when kv>0.8 for 1s", "column 8: '0..0'", "such as 2..16"},
        {"decode 2..5000 when kv>0.8 for 1s", "column 8: '2..5000'", "at most 4096"},
        {"decode 2..4 if kv>0.8 for 1s", "column 13: 'if'", "'when'"},
        {"decode 2..4 when kv<0.8 for 1s", "column 18: 'kv<0.8'", "kv>0.8"},
        {"decode 2..4 when kv>1.001 for 1s", "column 18: 'kv>1.001'", "kv>0.8"},
        {"decode 2..4 when kv>0.8001 for 1s", "column 18: 'kv>0.8001'", "kv>0.8"},
        {"decode 2..4 when cpu>0.8 for 1s", "column 18: 'cpu>0.8'", "queue>4"},
        {"decode 2..4 when kv>0.8", "column 24: the end", "'for TIME'"},
        {"decode 2..4 when kv>0.8 for 10", "column 29: '10'", "600ms"},
        {"decode 2..4 when kv>0.8 for 1s down", "column 32: 'down'", "', down when'"},
        {"decode 2..4 when kv>0.5 for 1s, down when kv<0.6 for 1s", "column 43: 'kv<0.6'", "growing"},
        {"decode 2..4 when kv>0.5 for 1s; decode 2..5 when kv>0.5 for 1s", "two rules", "decode"},
        {"role prefill 3 at 4s", "column 16: 'at'", "prefill or decode"},
        {"role prefill 3 decode", "column 22: the end", "'at TIME'"},
        {"role prefill 3 decode at 4s for 0s", "column 33: '0s'", "above 0"},
        {"leave decode 3 at 4s now", "column 22: 'now'", "'for TIME'"},
        {"start 3", "column 7: '3'", "600ms"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_fault fault = {""};
        assert_int_equal(tool_simulate_scale_read(&s, bad[i].text, &fault), BT_EARG);
        if (!strstr(fault.text, bad[i].column) || !strstr(fault.text, bad[i].says))
            fail_msg("%s: %s", bad[i].text, fault.text);
    }
}

static bt_err check(const tool_simulate_scale *s, uint32_t prefills, uint32_t decodes, bt_fault *fault)
{
    tool_simulate_has has = {{prefills, decodes}};
    return tool_simulate_scale_check(s, has, fault);
}

static void a_cluster_that_a_rule_does_not_fit_is_refused(void **state)
{
    (void)state;
    static tool_simulate_scale s;
    bt_fault fault = {""};
    assert_int_equal(
        tool_simulate_scale_read(&s, "decode 2..4 when kv>0.8 for 1s; role decode 3 prefill at 1s", &fault),
        BT_OK);
    assert_int_equal(check(&s, 1, 2, &fault), BT_OK);
    assert_int_equal(check(&s, 1, 1, &fault), BT_EARG);
    assert_non_null(strstr(fault.text, "begins with 1 decode nodes, and the rule allows 2..4"));
    assert_int_equal(check(&s, 1, 5, &fault), BT_EARG);
    s.change[0].number = 4;
    assert_int_equal(check(&s, 1, 2, &fault), BT_EARG);
    assert_non_null(strstr(fault.text, "there is no decode 4"));
}

/* Every text is read or refused. */
static void no_text_does_harm(void **state)
{
    (void)state;
    static tool_simulate_scale s;
    static const char text[] =
        "decode 2..16 when kv>0.8 for 10s, down when kv<0.3 for 60s; role prefill 3 decode at 9s";
    for (size_t cut = 0; cut < sizeof text - 1; cut++)
        for (int c = 0; c < 128; c += 7) {
            char one[sizeof text];
            bt_fault fault;
            memcpy(one, text, sizeof one);
            one[cut] = (char)c;
            const bt_err e = tool_simulate_scale_read(&s, one, &fault);
            assert_true(e == BT_OK || e == BT_EARG);
        }
}

/* By hand: 2..4, above 800 for 3 s, below 300 for 5 s. */
static void a_rule_waits_for_its_time_and_keeps_its_bounds(void **state)
{
    (void)state;
    const sim_scale_rule rule = {.role = BT_ROLE_DECODE,
                                 .least = 2,
                                 .most = 4,
                                 .has_down = true,
                                 .up = {SIM_SCALE_KV, 800, 3 * SECOND},
                                 .down = {SIM_SCALE_KV, 300, 5 * SECOND}};
    static const struct {
        int64_t s;
        uint32_t nodes, kv;
        int step;
    } looks[] = {
        {0, 2, 900, 0},  {2, 2, 900, 0},  {3, 2, 900, 1},   {4, 3, 900, 0},  {5, 3, 800, 0}, /* not above */
        {6, 3, 900, 0},  {8, 3, 900, 0},  {9, 3, 900, 1},   {20, 4, 999, 0}, /* no more than 4 */
        {21, 4, 200, 0}, {25, 4, 200, 0}, {26, 4, 200, -1}, {27, 3, 299, 0}, {31, 3, 0, -1},
        {40, 2, 0, 0},                    /* no less than 2 */
        {41, 1, 500, 1}, {42, 1, 500, 1}, /* one died: at once */
    };
    sim_scale s;
    sim_scale_begin(&s, &rule);
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        const sim_scale_reading r = {.nodes = looks[i].nodes, .serving = looks[i].nodes,
                                     .milli = {looks[i].kv, 0, 0}};
        const int step = sim_scale_decide(&s, &r, looks[i].s * SECOND);
        if (step != looks[i].step) fail_msg("at %d s: %d", (int)looks[i].s, step);
    }
}

/* ---- played -------------------------------------------------------------------------------------- */

static sim_played *play(const char *prefill, const char *decode, const char *scale, const char *faults,
                        const char *spec, size_t n)
{
    sim_played *d = calloc(1, sizeof *d);
    bt_fault fault = {""};
    assert_non_null(d);
    sim_kit_setup(&d->setup, prefill, decode);
    d->setup.cluster.decode_slots = 8;
    assert_int_equal(tool_simulate_scale_read(&d->setup.scale, scale, &fault), BT_OK);
    assert_int_equal(tool_simulate_faults_read(&d->setup.faults, faults, &fault), BT_OK);
    sim_kit_play(d, spec, n);
    assert_int_equal(d->result.len, d->plan.len); /* each ended once */
    return d;
}

static double ttft(const sim_played *d) { return d->figures.ttft_ms.p90; }

/* Nodes have 8 slots: 16 requests a second of about 1.4 s are more than two nodes hold. */
static const char load[] = "in:200,out:600,rate:16";

static void a_rule_adds_nodes_that_requests_need_and_lets_them_go_again(void **state)
{
    (void)state;
    sim_played *fixed = play("1", "2", "", "", load, 800),
               *grows =
                   play("1", "2", "decode 2..8 when slots>0.8 for 2s, down when slots<0.4 for 4s; start 3s",
                        "", load, 600);
    assert_int_equal(fixed->facts.counts, 1);
    assert_int_equal(fixed->facts.most[1], 2);
    assert_int_equal(grows->figures.failed, 0);
    assert_true(grows->facts.most[1] > 2);
    assert_true(ttft(grows) < ttft(fixed));
    assert_int_equal(grows->facts.least[1], 2);
    /* Powered nodes are paid for: more than two nodes', less than eight nodes' time. */
    assert_true(fixed->facts.decode_node_s > 1.999 * fixed->facts.virtual_s &&
                fixed->facts.decode_node_s < 2.001 * fixed->facts.virtual_s);
    assert_true(grows->facts.decode_node_s > 2.1 * grows->facts.virtual_s);
    assert_true(grows->facts.decode_node_s < (grows->facts.most[1] + 1) * grows->facts.virtual_s);
    sim_played_done(fixed);
    sim_played_done(grows);
}

static void a_node_that_is_let_go_ends_its_work_first(void **state)
{
    (void)state;
    sim_played *d = play("1", "4", "leave decode 0 at 5s; leave decode 1 at 5s; leave decode 2 at 6s for 4s",
                         "", "in:200,out:300,rate:8", 200);
    assert_int_equal(d->figures.failed, 0);
    assert_int_equal(d->figures.completed, 200);
    assert_int_equal(d->facts.least[1], 1);
    const tool_simulate_count_at *last = &d->facts.count[d->facts.counts - 1];
    assert_int_equal(last->decode, 2);
    assert_int_equal(last->powered, 3);
    for (size_t i = 0; i < d->result.len; i++) assert_int_equal(d->result.record[i].completion_tokens, 300);
    sim_played_done(d);
}

static void a_node_that_changes_its_role_computes_prompts_and_then_answers(void **state)
{
    (void)state;
    sim_played *d =
        play("2", "1", "role prefill 1 decode at 5s for 15s; start 2s", "", "in:200,out:300,rate:10", 400);
    assert_int_equal(d->figures.failed, 0);
    assert_int_equal(d->facts.refused_roles, 0);
    assert_int_equal(d->facts.most[1], 2);
    assert_int_equal(d->facts.least[0], 1);
    /* As a decode node it is powered for 15 s and what loading takes. */
    const double more = d->facts.decode_node_s - d->facts.virtual_s;
    assert_true(more > 14 && more < 16);
    const tool_simulate_count_at *last = &d->facts.count[d->facts.counts - 1];
    assert_int_equal(last->prefill, 2);
    assert_int_equal(last->decode, 1);
    sim_played_done(d);
}

static void a_node_that_is_told_to_serve_as_it_does_stays(void **state)
{
    (void)state;
    sim_played *d = play("2", "1", "role prefill 1 prefill at 1s", "", "in:200,out:30,rate:10", 40);
    assert_int_equal(d->facts.refused_roles, 0);
    assert_int_equal(d->facts.counts, 1);
    sim_played_done(d);
}

static void a_node_that_cannot_change_its_role_says_why(void **state)
{
    (void)state;
    sim_played *d = play("2", "2", "leave decode 1 at 2s; role decode 1 prefill at 2s", "",
                         "in:200,out:2000,rate:10", 60);
    assert_int_equal(d->figures.failed, 0);
    assert_int_equal(d->facts.refused_roles, 1);
    assert_non_null(strstr(d->facts.refused_why, "decode-1: the node is leaving"));
    sim_played_done(d);
}

static void what_dies_under_a_rule_is_replaced(void **state)
{
    (void)state;
    sim_played *d = play("1", "2", "decode 2..3 when slots>0.99 for 100s; start 1s", "kill decode 0 at 3s",
                         "in:200,out:300,rate:20", 300);
    const tool_simulate_count_at *last = &d->facts.count[d->facts.counts - 1];
    assert_int_equal(d->figures.failed, 0);
    assert_int_equal(last->decode, 2);
    assert_int_equal(last->powered, 4); /* the host of the dead one draws still */
    sim_played_done(d);
}

static void the_same_again_gives_the_same_report(void **state)
{
    (void)state;
    char *text[2];
    for (int i = 0; i < 2; i++) {
        sim_played *d =
            play("2:h100,1:hexagon-v75", "1:h100,1:m2-ultra",
                 "decode 1..6 when slots>0.7 for 1s, down when slots<0.3 for 2s; role prefill 0 decode at 4s "
                 "for 3s; start 1s",
                 "kill decode 1 at 2s for 5s; stop decode 0 at 4s for 2s", "in:40~1,out:60~1,rate:20", 200);
        const tool_replay_dialect dialect = {.takes_ids = true, .ignores_eos = true, .context_tokens = 8192};
        const tool_replay_outcome o = {.trace = "t",        .url = "simulated",   .plan = &d->plan,
                                       .dialect = &dialect, .result = &d->result, .figures = &d->figures,
                                       .speed = 1};
        const tool_simulate_draws none = {.draws = 0};
        const tool_simulate_told t = {&o, &d->facts, &d->setup, &none, "p", "d", "100", 1};
        json_t *j = tool_simulate_json(&t);
        assert_int_equal(d->figures.failed, 0);
        assert_non_null(j);
        assert_true(json_array_size(json_object_get(j, "nodes_over_time")) > 2);
        assert_true(json_real_value(json_object_get(j, "node_seconds")) > 0);
        assert_non_null(text[i] = json_dumps(j, JSON_INDENT(1)));
        json_decref(j);
        sim_played_done(d);
    }
    assert_string_equal(text[0], text[1]);
    free(text[0]);
    free(text[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_changes_and_the_time_to_start_are_read),
        cmocka_unit_test(what_is_wrong_is_named_by_its_column_and_value),
        cmocka_unit_test(a_cluster_that_a_rule_does_not_fit_is_refused),
        cmocka_unit_test(no_text_does_harm),
        cmocka_unit_test(a_rule_waits_for_its_time_and_keeps_its_bounds),
        cmocka_unit_test(a_rule_adds_nodes_that_requests_need_and_lets_them_go_again),
        cmocka_unit_test(a_node_that_is_let_go_ends_its_work_first),
        cmocka_unit_test(a_node_that_changes_its_role_computes_prompts_and_then_answers),
        cmocka_unit_test(a_node_that_is_told_to_serve_as_it_does_stays),
        cmocka_unit_test(a_node_that_cannot_change_its_role_says_why),
        cmocka_unit_test(what_dies_under_a_rule_is_replaced),
        cmocka_unit_test(the_same_again_gives_the_same_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
