/* A sketch beside the package that it stands for, byte for byte (npu/compile/compile.h): sizes of
 * stories260K, the default model, and small models of each architecture. The widths of an 8B model are in
 * tests/wide. */
#include "model/gguf.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/sketch_kit.h"
#include "tests/helpers/temp_folder.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CALIB = 160 };

static char dir[TEMP_FOLDER_BYTES];

static int setup(void **state)
{
    (void)state;
    return temp_folder_new(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return temp_folder_remove(dir);
}

static const char *attention; /* of all that is compared; NULL: dense */

static void compare(const bt_model *m, const char *recipe, const char *profile, uint32_t npu_ops,
                    const char *policy, bt_pool *pool)
{
    int32_t ids[CALIB];
    const sketch_kit k = {.model = m, .dir = dir,   .ids = ids,
                          .n = CALIB, .pool = pool, .attention = attention};
    engine_kit_ids(ids, CALIB, m, 5);
    sketch_kit_check(&k, recipe, profile, npu_ops, policy);
}

static const char *const recipes[] = {"w8a8", "w8a16", "w4a8", "w4a16", "w8a8:lut6"};
static const char *const fast[] = {"w8a8", "w8a16", "w4a8:no-gptq", "w4a16:no-gptq", "w8a8:lut6"};
enum { RECIPES = sizeof recipes / sizeof *recipes };

static bt_model *stories260k(void)
{
    tiny_gguf_spec spec = tiny_gguf_default();
    size_t len;
    bt_gguf *g = NULL;
    bt_model *m = NULL;
    bt_fault f = {""};
    static uint8_t *bytes; /* kept: the model lies in it */
    spec.layers = 5;
    spec.dim = 64;
    spec.heads = 8;
    spec.kv_heads = 4;
    spec.head_dim = 8;
    spec.ffn = 172;
    spec.vocab = 512;
    spec.ctx = 512;
    free(bytes);
    bytes = tiny_gguf_build(&spec, &len);
    if (bt_gguf_open_bytes(&g, bytes, len, &f) < 0 || bt_model_from_gguf(&m, g, &f) < 0)
        fail_msg("%s", f.text);
    return m;
}

static void stories260k_is_sketched_as_it_is_compiled(void **state)
{
    (void)state;
    bt_model *m = stories260k();
    for (size_t r = 0; r < RECIPES; r++)
        for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
            compare(m, recipes[r], "host", ops, "chunk:64+tail", NULL);
            compare(m, recipes[r], "hexagon-v75", ops, "chunk:128", NULL);
        }
    bt_model_close(m);
}

static void every_architecture_and_device_is(void **state)
{
    (void)state;
    static const char *const profiles[] = {"ane-m4", "intel-npu3720", "tpu-v5e", "cloud-ai-100"};
    static const char *const more[] = {"w8a16:no-rotate", "w8a8:shadow=channel", "w8a8:no-bias,asym",
                                       "w8a8/1=w4a16:no-bias,no-gptq/head=w8a16"};
    for (int a = 0; a < TINY_GGUF_ARCHS; a++) {
        engine_kit kit = engine_kit_model_ffn(tiny_gguf_arch(a), 176);
        for (size_t i = 0; i < 4; i++)
            for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++)
                compare(kit.model, more[((size_t)a + i) % 4], profiles[i], ops, i == 3 ? "chunk:64" : "pow2",
                        NULL);
        engine_kit_done(&kit);
    }
}

static void what_is_scaled_and_who_attends_sparsely_is(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model_ffn("llama", 176);
    for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
        compare(kit.model, "w8a8:smooth=0.5", "host", ops, "chunk:64", NULL);
        compare(kit.model, "w4a16:awq", "host", ops, "chunk:64", NULL);
    }
    attention = "sparse:0.2";
    compare(kit.model, "w8a8", "hexagon-v75", BT_PKG_OPS_LINEAR, "chunk:64", NULL);
    compare(kit.model, "w8a8", "ane-m4", BT_PKG_OPS_ALL, "chunk:64", NULL);
    attention = NULL;
    engine_kit_done(&kit);
}

static void the_default_model_is(void **state)
{
    (void)state;
    char path[4096];
    bt_fault f = {""};
    bt_model *m = NULL;
    bt_pool *pool = NULL;
    if (bt_model_find(path, sizeof path, "smollm2", NULL) < 0) skip();
    if (bt_model_open(&m, path, &f) < 0) fail_msg("%s", f.text);
    assert_int_equal(bt_pool_new(&pool, 0, NULL), BT_OK);
    for (size_t r = 0; r < RECIPES; r++) {
        const bool is_all = r % 2;
        compare(m, fast[r], is_all ? "host" : "hexagon-v75", is_all ? BT_PKG_OPS_ALL : BT_PKG_OPS_LINEAR,
                "chunk:256+tail", pool);
    }
    bt_pool_free(pool);
    bt_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stories260k_is_sketched_as_it_is_compiled),
        cmocka_unit_test(every_architecture_and_device_is),
        cmocka_unit_test(what_is_scaled_and_who_attends_sparsely_is),
        cmocka_unit_test(the_default_model_is),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
