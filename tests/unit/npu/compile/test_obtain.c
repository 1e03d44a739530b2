/* From options to a package: compiled once, found again, refused where options do not fit it or each
 * other. */
#include "engine/prefill.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char dir[TEMP_FOLDER_BYTES];
static engine_kit kit;
static bt_model *model;

/* Takes away what one test put into its folders: files in dir and in dir/packages. */
static void sweep(void)
{
    if (temp_folder_remove(dir) != 0) abort();
}

static int set_up(void **state)
{
    (void)state;
    const tiny_gguf_spec spec = tiny_gguf_default();
    if (!temp_folder_new(dir) || setenv("BATON_CACHE_DIR", dir, 1) < 0) return -1;
    kit = engine_kit_of(&spec);
    model = kit.model;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    engine_kit_done(&kit);
    sweep();
    return 0;
}

static size_t stages;
static size_t falls;
static uint64_t last_done, last_total;
static void count(void *ud, const char *what, uint64_t done, uint64_t total)
{
    (void)ud;
    assert_string_equal(what, "compiling (once, then kept)");
    assert_true(done <= total);
    stages++;
    if (done < last_done) falls++;
    last_done = done;
    last_total = total;
}
static const bt_obtain_how how = {.progress = count};

static const char *in_dir(const char *name)
{
    static char path[2][320];
    static unsigned next;
    char *p = path[next++ % 2];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static void write_text(const char *path, const char *text, size_t times)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    for (size_t i = 0; i < times; i++) assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static bt_pkg *open_it(const bt_obtain_want *w, char *path)
{
    bt_pkg *p = NULL;
    bt_fault f = {""};
    if (bt_obtain_open(&p, path, model, w, &how, &f) < 0) fail_msg("%s", f.text);
    return p;
}

static void expect(const bt_obtain_want *w, const bt_obtain_how *h, bt_err want, const char *words)
{
    bt_pkg *p = NULL;
    bt_fault f = {""};
    const bt_err e = bt_obtain_open(&p, NULL, model, w, h, &f);
    if (e != want || !strstr(f.text, words))
        fail_msg("%d, not %d: '%s' without '%s'", e, want, f.text, words);
    assert_null(p);
}

static void compiles_once_and_finds_it_again(void **state)
{
    char path[2][BT_OBTAIN_PATH_BYTES];
    const bt_obtain_want w = {.quant = "w8a8"}, same = {.quant = "w8a8:r1,r2"}, other = {.quant = "w8a16"};
    (void)state;
    stages = 0;
    bt_pkg_close(open_it(&w, path[0]));
    assert_true(stages > 0);
    stages = 0;
    bt_pkg_close(open_it(&same, path[1])); /* the same recipe in other words */
    assert_int_equal(stages, 0);
    assert_string_equal(path[0], path[1]);
    const bt_obtain_how shorter = {.progress = count, .ctx_tokens = 100};
    bt_pkg *p = NULL;
    assert_int_equal(bt_obtain_open(&p, path[1], model, &w, &shorter, NULL), BT_OK); /* any --ctx-size */
    assert_string_equal(path[0], path[1]);
    bt_pkg_close(p);
    bt_pkg_close(open_it(&other, path[1]));
    assert_true(stages > 0 && strcmp(path[0], path[1]) != 0);
}

/* Without a word in the recipe; one that says no, or yes to a device that cannot. */
static void a_profile_decides_on_zero_points(void **state)
{
    static const struct {
        const char *profile, *quant, *made;
    } of[] = {{"hexagon-v79-aihub", NULL, "w8a8:asym"},
              {"hexagon-v79-aihub", "w4a8:no-gptq", "w4a8:asym,no-gptq"},
              {"hexagon-v79-aihub", "w8a8:no-asym", "w8a8:no-asym"},
              {"hexagon-v79-aihub", "w8a16", "w8a16"},
              {"hexagon-v75-int8", "w8a8:no-asym", "w8a8"},
              {"host", "w8a8:asym", "w8a8:asym"}};
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const bt_obtain_want w = {.profile = of[i].profile, .quant = of[i].quant};
        bt_pkg *p = open_it(&w, NULL);
        assert_string_equal(bt_pkg_header_of(p)->recipe, of[i].made);
        for (uint32_t s = 0; s < bt_pkg_header_of(p)->sites.count; s++)
            assert_int_equal(bt_pkg_sites(p)[s].asymmetric, strstr(of[i].made, ":asym") != NULL);
        bt_pkg_close(p);
    }
    expect(&(bt_obtain_want){.profile = "hexagon-v75-int8", .quant = "w8a8:asym"}, &how, BT_EARG,
           "those of profile hexagon-v75-int8 have none");
}

/* R1 cannot be folded where norms stand behind the blocks, or have a mean. Settled twice, a recipe stays. */
static void gptq_rounds_8_bits_where_r1_cannot_be(void **state)
{
    static const struct {
        bt_arch arch;
        const char *quant, *made;
    } of[] = {{BT_ARCH_GEMMA3, "w8a8", "w8a8:gptq"},
              {BT_ARCH_GEMMA2, "w8a16", "w8a16:gptq"},
              {BT_ARCH_OLMO2, "w8a8:r1,group=32", "w8a8:group=32,gptq"},
              {BT_ARCH_STARCODER2, "w8a8", "w8a8:gptq"},
              {BT_ARCH_GEMMA3, "w8a8/1=w4a8/2=w8a8:clip=max/head=w8a16",
               "w8a8:gptq/1=w4a8/2=w8a8:clip=max,gptq/head=w8a16:gptq"},
              {BT_ARCH_GEMMA3, "w8a8:no-gptq", "w8a8:no-gptq"},
              {BT_ARCH_GEMMA3, "w8a8:gptq=down", "w8a8:gptq=down"},
              {BT_ARCH_GEMMA3, "w8a8:no-rotate", "w8a8:no-rotate"},
              {BT_ARCH_GEMMA3, "w8a8:awq", "w8a8:awq"},
              {BT_ARCH_GEMMA3, "w8a8:lut6", "w8a8:lut6"},
              {BT_ARCH_GEMMA3, "w8a8:llm-int8", "w8a8:llm-int8"},
              {BT_ARCH_GEMMA3, "w4a8", "w4a8"},
              {BT_ARCH_LLAMA, "w8a8", "w8a8"},
              {BT_ARCH_LLAMA, "w8a8:no-gptq/1=w8a8:clip=max,no-gptq", "w8a8/1=w8a8:clip=max"},
              {BT_ARCH_QWEN3, "w8a8:gptq=down", "w8a8:gptq=down"}};
    bt_profile host;
    (void)state;
    assert_int_equal(bt_profile_load(&host, NULL, NULL), BT_OK);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const bt_hparams hp = {.arch = of[i].arch, .dim = 640, .layers = 4};
        bt_recipe r;
        char text[BT_RECIPE_MAX_TEXT], again[BT_RECIPE_MAX_TEXT];
        assert_int_equal(bt_recipe_parse(&r, of[i].quant, NULL), BT_OK);
        for (int time = 0; time < 2; time++) {
            assert_int_equal(bt_compile_resolve(&r, &hp, &host, NULL), BT_OK);
            bt_recipe_text(text, &r);
            assert_string_equal(text, of[i].made);
        }
        assert_int_equal(bt_recipe_parse(&r, text, NULL), BT_OK);
        bt_recipe_text(again, &r);
        assert_string_equal(again, text);
    }
}

static void contexts_beyond_the_usual_share_packages_of_powers_of_two(void **state)
{
    static const struct {
        size_t wanted, has;
    } c[] = {{0, 32768}, {32768, 32768}, {32769, 65536}, {65536, 65536}, {65537, 80000}, {80000, 80000}};
    tiny_gguf_spec s = tiny_gguf_default();
    const bt_obtain_want w = {.shape_policy = "chunk:16", .quant = "w8a8"};
    bt_pkg *p = NULL;
    bt_fault f = {""};
    (void)state;
    s.ctx = 80000;
    engine_kit long_kit = engine_kit_of(&s);
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        const bt_obtain_how how_long = {.ctx_tokens = c[i].wanted};
        if (bt_obtain_open(&p, NULL, long_kit.model, &w, &how_long, &f) < 0) fail_msg("%s", f.text);
        assert_int_equal(bt_pkg_header_of(p)->ctx_tokens, c[i].has);
        bt_pkg_close(p);
    }
    assert_int_equal(bt_obtain_open(&p, NULL, long_kit.model, &w, &(bt_obtain_how){.ctx_tokens = 80001}, &f),
                     BT_EARG);
    assert_true(strstr(f.text, "80001") && strstr(f.text, "80000"));
    engine_kit_done(&long_kit);
}

/* With every step that a recipe may add: smoothing and AWQ measure twice, GPTQ reads the calibration again.
 */
static void progress_grows_in_small_steps_to_the_whole(void **state)
{
    static const char *const recipes[] = {"w8a8", "w8a8:smooth=0.5", "w4a8", "w4a8:no-gptq", "w4a8:awq"};
    const char *path = in_dir("progress.npu");
    bt_fault f = {""};
    (void)state;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        const bt_obtain_want w = {.quant = recipes[i]};
        stages = falls = 0;
        last_done = 0;
        if (bt_obtain_compile(path, model, &w, &how, &f) < 0) fail_msg("%s: %s", recipes[i], f.text);
        assert_int_equal(falls, 0);
        assert_true(stages > 20);
        assert_int_equal(last_done, last_total);
    }
}

static void a_named_package_keeps_its_own_options(void **state)
{
    const bt_obtain_want made = {.quant = "w8a16", .shape_policy = "chunk:32"};
    const char *path = in_dir("own.npu");
    bt_fault f = {""};
    (void)state;
    if (bt_obtain_compile(path, model, &made, &how, &f) < 0) fail_msg("%s", f.text);
    stages = 0;
    bt_pkg *p = open_it(&(bt_obtain_want){.package = path}, NULL);
    assert_string_equal(bt_pkg_header_of(p)->recipe, "w8a16");
    bt_pkg_close(p);
    bt_pkg_close(open_it(
        &(bt_obtain_want){.package = path, .quant = "w8a16", .shape_policy = BT_SHAPES_DEFAULT}, NULL));
    assert_int_equal(stages, 0);
    expect(&(bt_obtain_want){.package = path, .quant = "w4a16"}, &how, BT_EARG,
           "with --quant w8a16, not w4a16");
    expect(&(bt_obtain_want){.package = path, .shape_policy = "pow2"}, &how, BT_EARG,
           "with --shape-policy chunk:32, not pow2");
    expect(&(bt_obtain_want){.package = path, .npu_ops = BT_PKG_OPS_ALL}, &how, BT_EARG,
           "with --npu-ops linear");
    expect(&(bt_obtain_want){.package = path, .calib = "x"}, &how, BT_EARG, "--calib has no meaning");
    expect(&(bt_obtain_want){.package = in_dir("none.npu")}, &how, BT_EIO, "none.npu");
}

static void a_package_of_another_model_is_refused(void **state)
{
    const char *path = in_dir("first.npu");
    bt_pkg *p = NULL;
    bt_fault f = {""};
    (void)state;
    if (bt_obtain_compile(path, model, &(bt_obtain_want){0}, &how, &f) < 0) fail_msg("%s", f.text);
    engine_kit k = engine_kit_model("qwen3");
    assert_int_equal(bt_obtain_open(&p, NULL, k.model, &(bt_obtain_want){.package = path}, &how, &f),
                     BT_EARG);
    engine_kit_done(&k);
}

static void what_falls_back_is_listed_where_nothing_may(void **state)
{
    (void)state;
    const char *profile = in_dir("bare.json");
    write_text(profile,
               "{\"name\": \"bare\", \"title\": \"Products only\", \"operators\": {\"linear\": [\"int8\"]}}",
               1);
    bt_obtain_want w = {.profile = profile, .npu_ops = BT_PKG_OPS_ALL, .require_npu = true};
    bt_pkg_fallback *list = NULL;
    size_t n = 0;
    stages = 0;
    expect(&w, &how, BT_EARG, "would not run on the NPU: ");
    expect(&w, &how, BT_EARG, "rmsnorm");
    assert_int_equal(stages, 0); /* said before the long part */
    assert_int_equal(bt_obtain_fallbacks(&list, &n, model, &w, how.ctx_tokens, NULL), BT_OK);
    w.require_npu = false;
    bt_pkg *p = open_it(&w, NULL);
    assert_true(n > 0 && stages > 0);
    assert_int_equal(bt_pkg_header_of(p)->fallbacks.count, n);
    assert_memory_equal(bt_pkg_fallbacks(p), list, n * sizeof *list);
    bt_pkg_close(p);
    free(list);
    bt_pkg_close(open_it(&(bt_obtain_want){.require_npu = true}, NULL));
}

static void numbers_that_depend_on_the_chunk_are_for_perplexity_only(void **state)
{
    const bt_obtain_want w = {.quant = "w8a8:llm-int8"};
    bt_obtain_how allowed = how;
    (void)state;
    stages = 0;
    expect(&w, &how, BT_EARG, "perplexity");
    assert_int_equal(stages, 0); /* said before the long part */
    allowed.allow_llm_int8 = true;
    bt_pkg *p = NULL;
    assert_int_equal(bt_obtain_open(&p, NULL, model, &w, &allowed, NULL), BT_OK);
    bt_pkg_close(p);
}

static void another_calibration_is_another_package(void **state)
{
    char path[2][BT_OBTAIN_PATH_BYTES];
    const char *text = in_dir("calib.txt");
    (void)state;
    write_text(text, "the end of the day and the end of the way; ", 40);
    bt_pkg_close(open_it(&(bt_obtain_want){0}, path[0]));
    bt_pkg_close(open_it(&(bt_obtain_want){.calib = text}, path[1]));
    assert_string_not_equal(path[0], path[1]);
    write_text(text, "\xc3\xa9", 140000); /* longer than what is read, which ends inside a character */
    bt_pkg_close(open_it(&(bt_obtain_want){.calib = text}, NULL));
    expect(&(bt_obtain_want){.calib = in_dir("none.txt")}, &how, BT_EIO, "none.txt");
}

static void the_engine_tells_of_its_package(void **state)
{
    bt_prefill *e = NULL;
    bt_fault f = {""};
    (void)state;
    if (bt_prefill_new(&e, model, &(bt_prefill_config){.threads = 1, .ctx_tokens = 64}, &f) < 0)
        fail_msg("%s", f.text);
    const bt_report_engine a = bt_prefill_about(e);
    assert_string_equal(a.name, bt_engine_prefill_names[0]);
    assert_string_equal(a.quant, "w8a8");
    assert_string_equal(a.shape_policy, BT_SHAPES_DEFAULT);
    assert_string_equal(a.profile, "host");
    assert_int_equal(strncmp(a.weights, "package=", 8), 0);
    assert_int_equal(strlen(a.weights), 8 + 32);
    assert_int_equal(bt_prefill_ctx_tokens(e), 64);
    bt_prefill_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiles_once_and_finds_it_again),
        cmocka_unit_test(a_profile_decides_on_zero_points),
        cmocka_unit_test(gptq_rounds_8_bits_where_r1_cannot_be),
        cmocka_unit_test(contexts_beyond_the_usual_share_packages_of_powers_of_two),
        cmocka_unit_test(progress_grows_in_small_steps_to_the_whole),
        cmocka_unit_test(a_named_package_keeps_its_own_options),
        cmocka_unit_test(a_package_of_another_model_is_refused),
        cmocka_unit_test(what_falls_back_is_listed_where_nothing_may),
        cmocka_unit_test(numbers_that_depend_on_the_chunk_are_for_perplexity_only),
        cmocka_unit_test(another_calibration_is_another_package),
        cmocka_unit_test(the_engine_tells_of_its_package),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
