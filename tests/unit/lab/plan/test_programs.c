/* Programs of sizes alone cost what the compiler's programs of the same model cost. */
#include "lab/plan/prompts.h"
#include "npu/price/price_pkg.h"
#include "tests/helpers/engine_kit.h"
#include "tests/helpers/npu_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static bt_profile profile(const char *name)
{
    bt_profile p;
    bt_fault f = {""};
    if (bt_profile_load(&p, name, &f) < 0) fail_msg("%s: %s", name, f.text);
    return p;
}

static tool_plan_form form_of(const char *recipe)
{
    bt_recipe r;
    assert_int_equal(bt_recipe_parse(&r, recipe, NULL), BT_OK);
    return tool_plan_form_of(&r);
}

static bt_profile with_palettes(bt_profile p)
{
    p.op[BT_OP_LINEAR] |= BT_PROFILE_LUT;
    return p;
}

static void a_header_alone_is_priced_as_its_package(void **state)
{
    (void)state;
    static tool_plan_programs programs;
    static bt_price price;
    enum { CTX = 512 };
    const bt_profile npu = with_palettes(profile("hexagon-v75")), companion = profile("adreno-750");
    const bt_link link = {.bits_per_us = 1};
    engine_kit kit = engine_kit_model_ffn("llama", 192);
    const bt_hparams *h = &kit.model->hp;
    const bt_dims s = {.layers = h->layers, .hidden = h->dim,        .ffn = h->ffn,
                       .heads = h->heads,   .kv_heads = h->kv_heads, .head_dim = h->head_dim,
                       .vocab = h->vocab,   .ffn_matrices = 3};
    bt_shapes shapes;
    bt_fault f = {""};
    assert_int_equal(bt_shapes_parse(&shapes, "chunk:64+tail", CTX, NULL), BT_OK);
    static const char *const recipes[] = {"w8a8",
                                          "w8a16",
                                          "w4a8",
                                          "w8a8:r4",
                                          "w4a16:group=32",
                                          "w8a8:group=32",
                                          "w8a8:lut4",
                                          "w8a8:lut6/0=w8a16:group=32,lut4",
                                          "w8a8/0=w4a16:group=32/head=w8a16"};
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        bt_pkg *pkg = npu_kit_compiled(kit.model, recipes[r], BT_PKG_OPS_LINEAR, "chunk:64+tail", CTX);
        const tool_plan_form form = form_of(recipes[r]);
        if (tool_plan_programs_make(&programs, &npu, &companion, &s, &form, &tool_plan_kvs[0], NULL, &shapes,
                                    CTX, false, &f) < 0)
            fail_msg("%s", f.text);
        if (bt_price_pkg(&price, pkg, &npu, 16, &f) < 0) fail_msg("%s", f.text);
        static const uint32_t lengths[] = {1, 17, 64, 65, 200, 500};
        tool_plan_prompt got[6];
        const tool_plan_how how = {
            .programs = &programs, .shapes = &shapes,  .profile = &npu,
            .link = link,          .layers = s.layers, .kv_bytes = tool_plan_kv_bytes(&tool_plan_kvs[0], &s)};
        assert_int_equal(tool_plan_prompts(got, lengths, 6, &how, NULL), BT_OK);
        for (size_t i = 0; i < 6; i++) {
            bt_price_pkg_run want;
            assert_int_equal(
                bt_price_pkg_prompt(&want, &price, pkg, &link, how.kv_bytes, 0, lengths[i], NULL), BT_OK);
            const double x = (double)got[i].ns, y = (double)want.prefill.ns;
            if (x < 0.99 * y || x > 1.01 * y)
                fail_msg("%s, %u tokens: %.0f, not %.0f", recipes[r], (unsigned)lengths[i], x, y);
            const double e = (double)got[i].exposed_ns, g = (double)want.exposed_ns;
            if (e < 0.99 * g || e > 1.01 * g)
                fail_msg("%u tokens: %.0f exposed, not %.0f", (unsigned)lengths[i], e, g);
            assert_int_equal(got[i].chunks, want.prefill.chunks);
        }
        bt_pkg_close(pkg);
    }
    engine_kit_done(&kit);
}

/* The time of stage 7, behind gate and up, in whole layers of llama-3.2-1b. */
static uint64_t behind_gate_ns(const char *recipe)
{
    static tool_plan_programs programs;
    const bt_profile npu = profile("hexagon-v75"), companion = profile("adreno-750");
    const tool_plan_form form = form_of(recipe);
    bt_shapes shapes;
    bt_fault f = {""};
    assert_int_equal(bt_shapes_parse(&shapes, "chunk:256", 4096, NULL), BT_OK);
    if (tool_plan_programs_make(&programs, &npu, &companion, bt_dims_find("llama-3.2-1b"), &form,
                                &tool_plan_kvs[0], NULL, &shapes, 4096, false, &f) < 0)
        fail_msg("%s", f.text);
    return tool_plan_stage_ns(&programs, 0, 0, 7);
}

static void rotating_the_inputs_of_down_takes_the_companion_s_time(void **state)
{
    (void)state;
    const bt_profile companion = profile("adreno-750");
    const bt_dims *s = bt_dims_find("llama-3.2-1b");
    const uint64_t ns = bt_time_of((uint64_t)256 * 8 * s->ffn, bt_time_activation_rate(&companion.time)),
                   more = behind_gate_ns("w8a8:r4") - behind_gate_ns("w8a8");
    assert_in_range(more, ns, ns + companion.time.op_launch_ns + 2);
}

static void what_an_npu_lacks_is_refused_by_its_site(void **state)
{
    (void)state;
    const bt_profile ane = profile("ane-m4");
    bt_recipe r;
    bt_fault f = {""};
    assert_int_equal(bt_recipe_parse(&r, "w8a8:a16=down", NULL), BT_OK);
    assert_int_equal(tool_plan_form_check(&ane, bt_dims_find("llama-3.2-1b"), &r, &f), BT_EARG);
    assert_string_equal(f.text, "the linears 'down' would not run on the NPU: 16-bit inputs at down");
    assert_int_equal(bt_recipe_parse(&r, "w8a8", NULL), BT_OK);
    assert_int_equal(tool_plan_form_check(&ane, bt_dims_find("llama-3.2-1b"), &r, &f), BT_OK);
    assert_int_equal(bt_recipe_parse(&r, "w8a8/15=w8a8:a16=down", NULL), BT_OK);
    assert_int_equal(tool_plan_form_check(&ane, bt_dims_find("llama-3.2-1b"), &r, &f), BT_EARG);
    assert_string_equal(f.text, "the linears 'down' would not run on the NPU: 16-bit inputs at down");
    assert_int_equal(bt_recipe_parse(&r, "w8a8/16=w8a8:a16=down", NULL), BT_OK);
    assert_int_equal(tool_plan_form_check(&ane, bt_dims_find("llama-3.2-1b"), &r, &f), BT_EARG);
    assert_string_equal(f.text, "a recipe for layer 16 (--quant), and the model has 16, from 0");
    const bt_profile hexagon = profile("hexagon-v75");
    assert_int_equal(bt_recipe_parse(&r, "w4a16:group=128", NULL), BT_OK);
    assert_int_equal(tool_plan_form_check(&hexagon, bt_dims_find("smollm2-135m"), &r, &f), BT_EARG);
    assert_string_equal(f.text, "group=128 does not divide the 576 inputs of site qkv (--quant)");
    assert_int_equal(tool_plan_form_check(&hexagon, bt_dims_find("llama-3.2-1b"), &r, &f), BT_OK);
}

static void a_model_that_no_session_holds_is_refused_with_numbers(void **state)
{
    (void)state;
    static tool_plan_programs programs;
    bt_profile small = profile("hexagon-v75");
    const tool_plan_form form = form_of("w8a8");
    bt_shapes shapes;
    bt_fault f = {""};
    assert_int_equal(bt_shapes_parse(&shapes, "chunk:256", 4096, NULL), BT_OK);
    const bt_dims *s = bt_dims_find("llama-3.1-8b");
    assert_int_equal(tool_plan_programs_make(&programs, &small, NULL, s, &form, &tool_plan_kvs[0], NULL,
                                             &shapes, 4096, false, &f),
                     BT_OK);
    const uint64_t without = programs.price.program[0].compute.fixed;
    assert_in_range(programs.sessions, 2, 4); /* 8 GB of weights in windows of 3.5 */
    /* going from session to session costs what the profile says */
    small.session_switch_ns = 1000000;
    assert_int_equal(tool_plan_programs_make(&programs, &small, NULL, s, &form, &tool_plan_kvs[0], NULL,
                                             &shapes, 4096, false, &f),
                     BT_OK);
    assert_int_equal(programs.price.program[0].compute.fixed,
                     without + programs.sessions * UINT64_C(1000000));
    small.memory_bytes = 4000000000;
    assert_int_equal(tool_plan_programs_make(&programs, &small, NULL, s, &form, &tool_plan_kvs[0], NULL,
                                             &shapes, 4096, false, &f),
                     BT_ELIMIT);
    assert_non_null(strstr(f.text, "4000000000"));
}

static void a_smaller_chip_spills_and_takes_longer(void **state)
{
    (void)state;
    static tool_plan_programs large, small;
    bt_profile p = profile("hexagon-v75");
    const tool_plan_form form = form_of("w8a8");
    bt_shapes shapes;
    assert_int_equal(bt_shapes_parse(&shapes, "chunk:1024", 4096, NULL), BT_OK);
    const bt_dims *s = bt_dims_find("llama-3.2-1b");
    p.on_chip_bytes = 0;
    assert_int_equal(tool_plan_programs_make(&large, &p, NULL, s, &form, &tool_plan_kvs[0], NULL, &shapes,
                                             4096, false, NULL),
                     BT_OK);
    p.on_chip_bytes = 1 << 20;
    assert_int_equal(tool_plan_programs_make(&small, &p, NULL, s, &form, &tool_plan_kvs[0], NULL, &shapes,
                                             4096, false, NULL),
                     BT_OK);
    assert_int_equal(large.spill_bytes, 0);
    assert_true(small.spill_bytes > 0);
    assert_true(bt_price_chunk_ns(&small.price, 0, 0) > bt_price_chunk_ns(&large.price, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_alone_is_priced_as_its_package),
        cmocka_unit_test(rotating_the_inputs_of_down_takes_the_companion_s_time),
        cmocka_unit_test(what_an_npu_lacks_is_refused_by_its_site),
        cmocka_unit_test(a_model_that_no_session_holds_is_refused_with_numbers),
        cmocka_unit_test(a_smaller_chip_spills_and_takes_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
