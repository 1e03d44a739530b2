/* Sizes alone give the programs that a model's file gives; what a device lacks is refused, with numbers. */
#include "lab/plan/sketch.h"
#include "base/rng.h"
#include "engine/costs.h"
#include "npu/compile/compile.h"
#include "tests/helpers/model/engine_kit.h"

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

static bt_err sketch(bt_pkg **ret, const bt_profile *p, const bt_dims *s, const char *recipe,
                     uint32_t npu_ops, const char *policy, size_t ctx, bt_fault *fault)
{
    bt_recipe r;
    bt_attention a;
    bt_shapes shapes;
    const tool_plan_sketch_want w = {.profile = p,      .dims = s,         .recipe = &r,      .attention = &a,
                                     .shapes = &shapes, .ctx_tokens = ctx, .npu_ops = npu_ops};
    assert_int_equal(bt_recipe_parse(&r, recipe, NULL), BT_OK);
    assert_int_equal(bt_attention_parse(&a, NULL, NULL), BT_OK);
    assert_int_equal(bt_shapes_parse(&shapes, policy, ctx, NULL), BT_OK);
    return tool_plan_sketch(ret, &w, fault);
}

/* A name of engine_kit.h; NULL: llama with a window in every layer. */
static engine_kit kit_of(const char *arch)
{
    tiny_gguf_spec s = tiny_gguf_default();
    s.window = 300;
    s.ctx = 1024;
    return arch ? engine_kit_model(arch) : engine_kit_of(&s);
}

static void sizes_have_the_programs_of_the_file(void **state)
{
    (void)state;
    static const char *const archs[] = {"llama", "qwen2", "qwen3", "qwen3moe", "mixtral", NULL};
    const bt_profile p = profile("intel-npu3720");
    for (size_t i = 0; i < 2 * sizeof archs / sizeof *archs; i++) {
        engine_kit kit = kit_of(archs[i / 2]);
        const bt_dims s = bt_costs_dims(kit.model);
        bt_compile_options o = {.shape_policy = "chunk:64+tail", .profile = &p, .npu_ops = i % 2,
                                .ctx_tokens = 1024};
        bt_pkg *a = NULL, *b = NULL;
        bt_fault f = {""};
        assert_int_equal(bt_recipe_parse(&o.recipe, "w8a8", NULL), BT_OK);
        if (bt_compile_sketch(&a, kit.model, &o, &f) < 0) fail_msg("%s", f.text);
        if (sketch(&b, &p, &s, "w8a8", i % 2, "chunk:64+tail", 1024, &f) < 0) fail_msg("%s", f.text);
        const bt_pkg_header *x = bt_pkg_header_of(a), *y = bt_pkg_header_of(b);
        assert_int_equal(x->programs.count, y->programs.count);
        assert_int_equal(x->rows.count, y->rows.count);
        assert_int_equal(x->consts.count, y->consts.count);
        assert_int_equal(x->arena_bytes, y->arena_bytes);
        for (uint32_t n = 0; n < x->programs.count; n++) {
            const bt_pkg_program *g = &bt_pkg_programs(a)[n];
            assert_memory_equal(g, &bt_pkg_programs(b)[n], sizeof *g);
            assert_memory_equal(bt_pkg_code(a, n), bt_pkg_code(b, n), g->insts * sizeof(bt_pkg_inst));
        }
        assert_memory_equal(bt_pkg_tensors(a), bt_pkg_tensors(b), x->tensors.count * sizeof(bt_pkg_tensor));
        assert_memory_equal(bt_pkg_sessions(a), bt_pkg_sessions(b),
                            x->sessions.count * sizeof(bt_pkg_session));
        bt_pkg_close(a);
        bt_pkg_close(b);
        engine_kit_done(&kit);
    }
}

static void what_an_npu_lacks_is_refused_by_its_site(void **state)
{
    (void)state;
    const bt_profile ane = profile("ane-m4"), hexagon = profile("hexagon-v75");
    static const struct {
        const char *recipe, *shape, *why;
        bool is_hexagon;
    } at[] = {
        {"w8a8:a16=down", "llama-3.2-1b",
         "the linears 'down' would not run on the NPU: 16-bit inputs at down", false},
        {"w8a8", "llama-3.2-1b", NULL, false},
        {"w8a8/15=w8a8:a16=down", "llama-3.2-1b",
         "the linears 'down' would not run on the NPU: 16-bit inputs at down", false},
        {"w8a8/16=w8a8:a16=down", "llama-3.2-1b",
         "--quant has a recipe for layer 16, and the model has 16 layers, from 0", false},
        {"w4a16:group=128", "smollm2-135m", "group=128 does not divide the 576 inputs of site qkv (--quant)",
         true},
        {"w4a16:group=128", "llama-3.2-1b", NULL, true},
    };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        bt_recipe r;
        bt_fault f = {""};
        assert_int_equal(bt_recipe_parse(&r, at[i].recipe, NULL), BT_OK);
        const bt_err e =
            tool_plan_sketch_check(at[i].is_hexagon ? &hexagon : &ane, bt_dims_find(at[i].shape), &r, &f);
        assert_int_equal(e, at[i].why ? BT_EARG : BT_OK);
        if (at[i].why) assert_string_equal(f.text, at[i].why);
    }
}

/* The chunk of a prompt of 8,192 tokens that begins there. */
static uint64_t chunk_ns_at(const bt_pkg *p, const bt_profile *npu, uint64_t begin)
{
    bt_price_pkg *price = NULL;
    const bt_price_pkg_config c = {.pkg = p, .npu = npu};
    const uint64_t end = bt_pkg_header_of(p)->ctx_tokens;
    assert_int_equal(bt_price_pkg_new(&price, &c, NULL), BT_OK);
    const bt_work_programs g = bt_price_pkg_programs(price);
    const uint64_t ns = g.chunk(g.ud, 1, begin, end, false).ns;
    bt_price_pkg_free(price);
    return ns;
}
static uint64_t chunk_ns(const bt_pkg *p, const bt_profile *npu) { return chunk_ns_at(p, npu, 0); }

static void layers_that_the_compiler_does_not_have_are_refused_by_name(void **state)
{
    (void)state;
    const bt_profile npu = profile("hexagon-v75");
    bt_dims mixed = *bt_dims_find("qwen3-30b-a3b"), shared = mixed, windows = *bt_dims_find("llama-3.2-3b");
    mixed.expert_layers = 47;
    shared.ffn += 768;
    windows.window = 1024;
    windows.windowed = 8;
    const struct {
        const bt_dims *s;
        const char *why;
    } at[] = {
        {bt_dims_find("deepseek-v3"),
         "'deepseek-v3' has a latent for K and V (kv_lora_rank), and programs are "
         "compiled of models without"},
        {bt_dims_find("phi-2"), "'phi-2' has a feed-forward block of 2 matrices"},
        {&mixed, "'qwen3-30b-a3b' has experts in 47 of 48 layers, 6144 of 6144 outputs of a row in those"},
        {&shared, "'qwen3-30b-a3b' has experts in 48 of 48 layers, 6144 of 6912 outputs of a row in those"},
        {&windows, "'llama-3.2-3b' has windows in 8 of 28 layers"},
    };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        bt_pkg *p = NULL;
        bt_fault f = {""};
        assert_int_equal(sketch(&p, &npu, at[i].s, "w8a8", 0, "chunk:256", 4096, &f), BT_EARG);
        if (strncmp(f.text, at[i].why, strlen(at[i].why)) != 0) fail_msg("%s", f.text);
    }
}

/* Known shapes with experts or windows: their programs, and prices below those of layers that see all. */
static void experts_and_windows_have_programs_and_prices(void **state)
{
    (void)state;
    static const char *const shapes[] = {"qwen3-30b-a3b", "mixtral-8x7b", "gpt-oss-20b",
                                         "gemma-3-1b",    "gemma-2-2b",   "mistral-7b"};
    bt_profile npu = profile("hexagon-v75");
    npu.memory_bytes = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bt_dims s = *bt_dims_find(shapes[i]);
        bt_pkg *p = NULL, *open = NULL;
        bt_fault f = {""};
        s.layers = 6; /* of both classes */
        s.expert_layers = s.experts ? 6 : 0;
        s.windowed = !s.windowed ? 0 : s.windowed * 2 > bt_dims_find(shapes[i])->layers ? 5 : 3;
        if (sketch(&p, &npu, &s, "w8a8", 0, "chunk:256", 8192, &f) < 0) fail_msg("%s: %s", shapes[i], f.text);
        const bt_pkg_header *h = bt_pkg_header_of(p);
        assert_int_equal(h->experts, s.experts);
        assert_int_equal(h->experts_used, s.experts_used);
        assert_int_equal(h->window, s.window);
        if (s.windowed) {
            s.windowed = s.window = 0;
            assert_int_equal(sketch(&open, &npu, &s, "w8a8", 0, "chunk:256", 8192, &f), BT_OK);
            assert_true(chunk_ns_at(p, &npu, 4352) < chunk_ns_at(open, &npu, 4352));
            bt_pkg_close(open);
        }
        bt_pkg_close(p);
    }
}

static void sessions_cost_their_switches_and_what_no_memory_holds_is_refused(void **state)
{
    (void)state;
    bt_profile small = profile("hexagon-v75");
    const bt_dims *s = bt_dims_find("llama-3.1-8b");
    bt_pkg *p = NULL;
    bt_fault f = {""};
    small.session_switch_ns = 0;
    assert_int_equal(sketch(&p, &small, s, "w8a8", 0, "chunk:256", 4096, NULL), BT_OK);
    const uint64_t without = chunk_ns(p, &small);
    const uint32_t sessions = bt_pkg_header_of(p)->sessions.count;
    bt_pkg_close(p);
    assert_in_range(sessions, 2, 4); /* 8 GB of weights in windows of 3.5 */
    small.session_switch_ns = 1000000;
    assert_int_equal(sketch(&p, &small, s, "w8a8", 0, "chunk:256", 4096, NULL), BT_OK);
    /* without logits the output matrix, which is the last session's, is not mapped */
    assert_in_range(chunk_ns(p, &small), without + (sessions - 1) * UINT64_C(1000000),
                    without + sessions * UINT64_C(1000000));
    bt_pkg_close(p);
    small.memory_bytes = 4000000000;
    assert_int_equal(sketch(&p, &small, s, "w8a8", 0, "chunk:256", 4096, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "4000000000"));
}

static void a_smaller_chip_spills_and_takes_longer(void **state)
{
    (void)state;
    bt_profile p = profile("hexagon-v75");
    const bt_dims *s = bt_dims_find("llama-3.2-1b");
    bt_pkg *large = NULL, *small = NULL;
    p.on_chip_bytes = 0;
    assert_int_equal(sketch(&large, &p, s, "w8a8", 0, "chunk:1024", 4096, NULL), BT_OK);
    p.on_chip_bytes = 1 << 20;
    assert_int_equal(sketch(&small, &p, s, "w8a8", 0, "chunk:1024", 4096, NULL), BT_OK);
    assert_int_equal(tool_plan_spilled_bytes(large), 0);
    assert_true(tool_plan_spilled_bytes(small) > 0);
    assert_true(chunk_ns(small, &p) > chunk_ns(large, &p));
    bt_pkg_close(large);
    bt_pkg_close(small);
}

/* Its bytes are read and written once more in each layer. */
static void rotating_the_inputs_of_down_takes_the_companions_time(void **state)
{
    (void)state;
    const bt_profile npu = profile("hexagon-v75"), companion = profile("adreno-750");
    const bt_dims *s = bt_dims_find("llama-3.2-1b");
    bt_pkg *plain = NULL, *turned = NULL;
    assert_int_equal(sketch(&plain, &npu, s, "w8a8", 0, "chunk:256", 4096, NULL), BT_OK);
    assert_int_equal(sketch(&turned, &npu, s, "w8a8:r4", 0, "chunk:256", 4096, NULL), BT_OK);
    const uint64_t ns = bt_time_of((uint64_t)256 * 8 * s->ffn, bt_time_activation_rate(&companion.time)) *
                        s->layers,
                   more = chunk_ns(turned, &npu) - chunk_ns(plain, &npu);
    assert_in_range(more, ns, ns + s->layers * (companion.time.op_launch_ns + 2));
    bt_pkg_close(plain);
    bt_pkg_close(turned);
}

/* Random models on every device with programs, every third with experts; the seed is fixed. */
static bt_dims random_model(uint64_t seed)
{
    const uint32_t used = 1 + (uint32_t)(bt_rng_u64(seed, 6) % 4),
                   experts = used + (uint32_t)(bt_rng_u64(seed, 7) % 29),
                   ffn = 128 * (1 + (uint32_t)(bt_rng_u64(seed, 4) % 40));
    const bool is_mixed = seed % 3 == 0;
    const uint32_t kv_heads = 1 + (uint32_t)(bt_rng_u64(seed, 0) % 4),
                   heads = kv_heads * (1 + (uint32_t)(bt_rng_u64(seed, 1) % 4)),
                   head_dim = bt_rng_u64(seed, 2) % 2 ? 64 : 128,
                   layers = 1 + (uint32_t)(bt_rng_u64(seed, 3) % 4);
    return (bt_dims){.name = "random",
                     .layers = layers,
                     .hidden = heads * head_dim,
                     .ffn = is_mixed ? used * ffn : ffn,
                     .heads = heads,
                     .kv_heads = kv_heads,
                     .head_dim = head_dim,
                     .vocab = 1000 + (uint32_t)(bt_rng_u64(seed, 5) % 100000),
                     .ffn_matrices = 3,
                     .experts = is_mixed ? experts : 0,
                     .experts_used = is_mixed ? used : 0,
                     .expert_ffn = is_mixed ? ffn : 0,
                     .expert_layers = is_mixed ? layers : 0};
}

static uint64_t prompt_ns(bt_price_pkg *price, uint64_t first, uint64_t tokens)
{
    bt_price_pkg_chunk c;
    uint64_t ns = 0;
    for (uint64_t at = first; at < first + tokens; at += c.valid) {
        assert_int_equal(bt_price_pkg_cut(&c, price, first, at, first + tokens, NULL), BT_OK);
        ns += bt_price_pkg_sum(price, &c).ns;
    }
    return ns;
}

static void a_longer_prompt_or_one_behind_more_positions_never_takes_less_on_any_npu(void **state)
{
    (void)state;
    static const char *const policies[] = {"chunk:256+tail", "chunk:64"};
    uint64_t seed = 43;
    size_t seen = 0;
    for (size_t i = 0; bt_profile_name(i); i++) {
        bt_profile p = profile(bt_profile_name(i));
        p.refused_shapes = 0; /* a shape that a device fails at runs in a longer context, and takes longer */
        for (uint32_t k = 0; k < 4 && p.time.is_given && !p.companion; k++, seed++) {
            const bt_dims s = random_model(seed);
            bt_pkg *pkg = NULL;
            bt_price_pkg *price = NULL;
            bt_fault f = {""};
            if (sketch(&pkg, &p, &s, "w8a8", k % 2, policies[k / 2], 2048, &f) < 0)
                continue; /* it has no w8a8 */
            const bt_price_pkg_config c = {.pkg = pkg, .npu = &p, .kv_elem_bits = 16};
            assert_int_equal(bt_price_pkg_new(&price, &c, NULL), BT_OK);
            uint64_t last = 0, behind = 0;
            for (uint64_t tokens = 1; tokens <= 1024; tokens += tokens < 300 ? 7 : 61) {
                const uint64_t ns = prompt_ns(price, 0, tokens);
                if (ns < last) fail_msg("%s, seed %d, %d tokens", p.name, (int)seed, (int)tokens);
                last = ns;
            }
            for (uint64_t first = 0; first < 1900; first += 97, behind = last) {
                last = prompt_ns(price, first, 100);
                if (last < behind) fail_msg("%s, seed %d, behind %d", p.name, (int)seed, (int)first);
            }
            seen++;
            bt_price_pkg_free(price);
            bt_pkg_close(pkg);
        }
    }
    assert_true(seen >= 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_longer_prompt_or_one_behind_more_positions_never_takes_less_on_any_npu),
        cmocka_unit_test(sizes_have_the_programs_of_the_file),
        cmocka_unit_test(what_an_npu_lacks_is_refused_by_its_site),
        cmocka_unit_test(layers_that_the_compiler_does_not_have_are_refused_by_name),
        cmocka_unit_test(experts_and_windows_have_programs_and_prices),
        cmocka_unit_test(sessions_cost_their_switches_and_what_no_memory_holds_is_refused),
        cmocka_unit_test(a_smaller_chip_spills_and_takes_longer),
        cmocka_unit_test(rotating_the_inputs_of_down_takes_the_companions_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
