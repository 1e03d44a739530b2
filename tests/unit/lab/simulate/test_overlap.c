/* Prompts under a schedule of a model's sizes: to the nanosecond what `baton plan` plays, sooner than in
 * program order, and in a cluster what they take alone. */
#include "lab/simulate/overlap.h"
#include "tests/helpers/sim_kit.h"
#include "lab/plan/overlap.h"
#include "lab/simulate/prices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WINDOW = 4, LENGTHS = 5 };
static const uint32_t lengths[LENGTHS] = {40, 256, 700, 2048, 5000};
static const bt_schedule_policy policies[] = {BT_SCHEDULE_FIFO, BT_SCHEDULE_OOO};

static void set_up_with(tool_simulate_setup *s, bt_schedule_policy policy)
{
    sim_kit_setup(s, "1:hexagon-v75", "1:adreno-750");
    s->schedule = policy;
    s->window = WINDOW;
}

static void a_prompt_takes_what_the_planner_plays(void **state)
{
    (void)state;
    static tool_simulate_setup s;
    static tool_simulate_programs made;
    for (size_t k = 0; k < 2; k++) {
        tool_simulate_overlap *o = NULL;
        bt_fault why = {""};
        set_up_with(&s, policies[k]);
        if (tool_simulate_overlap_new(&o, &s, &s.prefill.group[0], &why) < 0) fail_msg("%s", why.text);
        assert_non_null(o);
        assert_int_equal(tool_simulate_programs_of(&made, &s, &s.prefill.group[0], &why), BT_OK);
        const tool_plan_how how = {.programs = &made.programs,     .shapes = &made.shapes,
                                   .layers = s.model->layers,      .kv_bytes = 2048,
                                   .schedule = policies[k],        .window = WINDOW,
                                   .link = {.bits_per_us = 100000}};
        tool_plan_prompt planned[LENGTHS];
        assert_int_equal(tool_plan_prompts(planned, lengths, LENGTHS, &how, &why), BT_OK);
        for (size_t i = 0; i < LENGTHS; i++) {
            const size_t chunks = bt_shapes_launches(&made.shapes, lengths[i]);
            const uint64_t whole = made.shapes.shape[made.shapes.shapes - 1].seq,
                           rows = bt_shapes_rows(&made.shapes, lengths[i]);
            bt_work_played p;
            tool_plan_played all;
            const uint32_t last = tool_plan_program_for(&made.programs, rows - (chunks - 1) * whole);
            assert_int_equal(tool_plan_overlap_play(&all, &how, chunks, last, &why), BT_OK);
            assert_true(tool_simulate_overlap_play(o, &p, 0, lengths[i]));
            assert_int_equal(p.chunks, chunks);
            assert_int_equal(p.ends[chunks - 1], lengths[i]);
            assert_int_equal(p.ns, made.programs.price.first_ns + all.ns + made.programs.price.last_ns);
            /* a plan keeps shares of program order's time, in 2^20ths */
            const double ratio = (double)p.ns / (double)planned[i].ns;
            assert_true(ratio > 0.9999 && ratio < 1.0001);
            if (chunks > 2) assert_true(all.ns < all.serial_ns);
            for (size_t n = 1; n < chunks * s.model->layers; n++)
                assert_true(p.stored_ns[p.order[n]] >= p.stored_ns[p.order[n - 1]]);
        }
        tool_simulate_overlap_free(o);
    }
}

/* TTFT of a request alone is its prompt and what the gateway and the reservation take. */
static void a_request_waits_for_its_prompt_under_the_schedule(void **state)
{
    (void)state;
    uint64_t before_ns = UINT64_MAX;
    for (int k = BT_SCHEDULE_SERIAL; k <= BT_SCHEDULE_OOO; k++) {
        sim_played *d = calloc(1, sizeof *d);
        bt_work_played p;
        tool_simulate_overlap *o = NULL;
        assert_non_null(d);
        set_up_with(&d->setup, (bt_schedule_policy)k);
        sim_kit_play(d, "in:3000,out:4,rate:0.01", 3);
        const tool_replay_record *r = &d->result.record[0];
        assert_int_equal(tool_simulate_overlap_new(&o, &d->setup, &d->setup.prefill.group[0], NULL), BT_OK);
        assert_true(!o == (k == BT_SCHEDULE_SERIAL));
        if (o) {
            assert_true(tool_simulate_overlap_play(o, &p, 0, 3000));
            assert_in_range(r->prefill_us, p.ns / 1000, p.ns / 1000 + 1);
            assert_true(p.ns < before_ns);
            before_ns = p.ns;
            /* nodes are busy for as long as prompts take */
            const double busy_s = d->facts.share[0].busy_s[0];
            assert_true(busy_s > 2.9999e-9 * (double)p.ns && busy_s < 3.0001e-9 * (double)p.ns);
        } else {
            before_ns = (uint64_t)r->prefill_us * 1000;
        }
        tool_simulate_overlap_free(o);
        sim_played_done(d);
    }
}

static void a_schedule_without_two_engines_is_refused(void **state)
{
    (void)state;
    static tool_simulate_setup s;
    tool_simulate_bench *b = NULL;
    bt_fault why = {""};
    sim_kit_setup(&s, "2:h100", "1:hexagon-v75");
    s.schedule = BT_SCHEDULE_FIFO;
    s.window = WINDOW;
    assert_int_equal(tool_simulate_bench_new(&b, &s, &why), BT_EARG);
    assert_non_null(strstr(why.text, "--schedule"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_takes_what_the_planner_plays),
        cmocka_unit_test(a_request_waits_for_its_prompt_under_the_schedule),
        cmocka_unit_test(a_schedule_without_two_engines_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
