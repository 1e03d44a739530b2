/* Schedules of prompts: what is read between the points against playing every task; program order against the
 * price of the chunks. */
#include "lab/plan/overlap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

typedef struct world {
    bt_profile npu, companion;
    tool_plan_programs programs;
    bt_shapes shapes;
    tool_plan_how how;
} world;

static void begin(world *w, const char *profile, const char *shape, const char *policy,
                  bt_schedule_policy schedule)
{
    bt_fault f = {""};
    bt_recipe r;
    const bt_dims *s = bt_dims_find(shape);
    assert_int_equal(bt_profile_load(&w->npu, profile, &f), BT_OK);
    assert_int_equal(bt_profile_load(&w->companion, w->npu.time.companion, &f), BT_OK);
    assert_int_equal(bt_shapes_parse(&w->shapes, policy, 32768, &f), BT_OK);
    assert_int_equal(bt_recipe_parse(&r, "w8a8", &f), BT_OK);
    const tool_plan_form form = tool_plan_form_of(&r);
    if (tool_plan_programs_make(&w->programs, &w->npu, &w->companion, s, &form, &tool_plan_kvs[0], NULL,
                                &w->shapes, 32768, false, &f) < 0)
        fail_msg("%s", f.text);
    w->how = (tool_plan_how){.programs = &w->programs, .shapes = &w->shapes,
                             .profile = &w->npu,       .link = {.bits_per_us = 1000},
                             .layers = s->layers,      .kv_bytes = tool_plan_kv_bytes(&tool_plan_kvs[0], s),
                             .schedule = schedule,     .window = 8};
}

static void between_the_points_is_within_a_hundredth_of_every_task(void **state)
{
    (void)state;
    static world w;
    static const char *const policies[] = {"chunk:256+tail", "chunk:512", "chunk:128"};
    static const uint32_t lengths[] = {1, 200, 256, 300, 1290, 2048, 2700, 5100, 7777, 11000, 13001, 30000};
    enum { LENGTHS = sizeof lengths / sizeof *lengths };
    for (size_t i = 0; i < 3; i++)
        for (int schedule = BT_SCHEDULE_FIFO; schedule <= BT_SCHEDULE_OOO; schedule++) {
            tool_plan_prompt serial[LENGTHS], got[LENGTHS];
            begin(&w, i == 2 ? "hexagon-v75-powerserve" : "hexagon-v75",
                  i == 1 ? "llama-3.1-8b" : "smollm2-135m", policies[i], (bt_schedule_policy)schedule);
            assert_int_equal(tool_plan_prompts(got, lengths, LENGTHS, &w.how, NULL), BT_OK);
            w.how.schedule = BT_SCHEDULE_SERIAL;
            assert_int_equal(tool_plan_prompts(serial, lengths, LENGTHS, &w.how, NULL), BT_OK);
            w.how.schedule = (bt_schedule_policy)schedule;
            for (size_t k = 0; k < LENGTHS; k++) {
                const size_t chunks = bt_shapes_launches(&w.shapes, lengths[k]);
                const uint64_t whole = w.shapes.shape[w.shapes.shapes - 1].seq,
                               rows = bt_shapes_rows(&w.shapes, lengths[k]);
                tool_plan_played all;
                assert_int_equal(tool_plan_overlap_play(
                                     &all, &w.how, chunks,
                                     tool_plan_program_for(&w.programs, rows - (chunks - 1) * whole), NULL),
                                 BT_OK);
                const double fixed = (double)(w.programs.price.first_ns + w.programs.price.last_ns),
                             want = (double)all.ns, is = (double)got[k].ns - fixed;
                if (is < 0.99 * want || is > 1.01 * want)
                    fail_msg("%s, %u tokens, %zu chunks: %.0f, not %.0f", policies[i], (unsigned)lengths[k],
                             chunks, is, want);
                assert_true(got[k].ns <= serial[k].ns);
                if (chunks > 2) assert_true(got[k].ns < serial[k].ns);
            }
        }
}

static void program_order_is_the_price_of_the_chunks(void **state)
{
    (void)state;
    static world w;
    static const uint32_t lengths[] = {200, 2048, 5100};
    tool_plan_prompt p[3];
    begin(&w, "hexagon-v75", "llama-3.2-1b", "chunk:256", BT_SCHEDULE_SERIAL);
    assert_int_equal(tool_plan_prompts(p, lengths, 3, &w.how, NULL), BT_OK);
    for (size_t i = 0; i < 3; i++) {
        tool_plan_played all;
        assert_int_equal(
            tool_plan_overlap_play(&all, &w.how, bt_shapes_launches(&w.shapes, lengths[i]), 0, NULL), BT_OK);
        const double priced = (double)(p[i].ns - w.programs.price.first_ns - w.programs.price.last_ns);
        assert_true((double)all.serial_ns > 0.999 * priced && (double)all.serial_ns < 1.001 * priced);
        assert_int_equal(all.ns, all.serial_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_the_points_is_within_a_hundredth_of_every_task),
        cmocka_unit_test(program_order_is_the_price_of_the_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
