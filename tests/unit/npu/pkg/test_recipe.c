/* Recipes: defaults, the one text of each, and what is refused with the list of what there is. */
#include "npu/pkg/recipe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void the_default_is_w8a8_rotated_with_an_integer_shadow(void **state)
{
    (void)state;
    bt_recipe r;
    assert_int_equal(bt_recipe_parse(&r, NULL, NULL), BT_OK);
    assert_int_equal(r.weight_bits, 8);
    for (int s = 0; s < BT_SITE_KINDS; s++) assert_int_equal(r.input_bits[s], 8);
    assert_true(r.r1 && r.r2 && !r.per_tensor && !r.gptq && !r.llm_int8);
    assert_int_equal(r.shadow, BT_SHADOW_VALUE);
    assert_true(r.clip_percentile8 == 0 && r.clip_percentile16 == 99.99 && r.smooth < 0 && r.prune == 0);
    char text[BT_RECIPE_MAX_TEXT];
    bt_recipe_text(text, &r);
    assert_string_equal(text, "w8a8");
}

static void every_recipe_has_one_text(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"w8a8", "w8a8"},
        {"w8a8:r1,r2,clip=auto,shadow=value,no-gptq", "w8a8"},
        {"w8a8:clip=p99.99", "w8a8:clip=p99.99"},
        {"w8a16:clip=p99.99", "w8a16"},
        {"w8a16:clip=auto", "w8a16:clip=auto"},
        {"w8a8:no-r2,no-r1", "w8a8:no-rotate"},
        {"w8a8:no-r1", "w8a8:no-r1"},
        {"w4a8:gptq,r4,no-rotate", "w4a8:no-rotate,r4"},
        {"w8a8:no-rotate,clip=max,shadow=off", "w8a8:no-rotate,clip=max,shadow=off"},
        {"w8a8:clip=p100.0", "w8a8:clip=max"},
        {"w8a8:clip=p99.90", "w8a8:clip=p99.9"},
        {"w8a8:prune=0.850,shadow=channel", "w8a8:shadow=channel,prune=0.85"},
        {"w8a8:smooth=0.5", "w8a8:smooth=0.5"},
        {"w8a8:smooth=0", "w8a8:smooth=0"},
        {"w8a8:a16=head+down", "w8a8:a16=down+head"},
        {"w8a8:a16=qkv+o+up+down+head", "w8a16"},
        {"w8a8:a16=qkv+o+up+down+head,clip=max", "w8a16"},
        {"w8a16", "w8a16"},
        {"w8a16:shadow=off", "w8a16:shadow=off"},
        {"w8a16:clip=p99.999", "w8a16:clip=p99.999"},
        {"w8a16:a16=down", "w8a16"},
        {"w4a8", "w4a8"},
        {"w4a8:gptq", "w4a8"},
        {"w4a16:no-gptq,per-tensor", "w4a16:per-tensor,no-gptq"},
        {"w8a8:gptq", "w8a8:gptq"},
        {"w8a8:bias", "w8a8"},
        {"w8a16:gptq,no-bias", "w8a16:no-bias,gptq"},
        {"w8a8:no-rotate,llm-int8", "w8a8:no-rotate,llm-int8"},
        {"w4a16:act-order,group=32", "w4a16:group=32,act-order"},
        {"w8a8:group=128,gptq,act-order", "w8a8:group=128,gptq,act-order"},
        {"w8a8:r1,group=64", "w8a8:group=64"},
        {"w8a8:no-rotate,group=64", "w8a8:group=64,no-rotate"},
        {"w4a8:no-rotate,group=64", "w4a8:group=64,no-rotate"},
        {"w4a8:no-rotate,group=32", "w4a8:group=32"},
        {"w4a16:r2,group=32", "w4a16:group=32,r2"},
        {"w4a16:r2,r1,group=32", "w4a16:group=32,r1,r2"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        bt_recipe r;
        bt_fault f = {""};
        char text[BT_RECIPE_MAX_TEXT], again[BT_RECIPE_MAX_TEXT];
        assert_int_equal(bt_recipe_parse(&r, same[i][0], &f), BT_OK);
        bt_recipe_text(text, &r);
        assert_string_equal(text, same[i][1]);
        assert_int_equal(bt_recipe_parse(&r, text, &f), BT_OK);
        bt_recipe_text(again, &r);
        assert_string_equal(again, text);
    }
}

static void long_texts_come_back_whole(void **state)
{
    (void)state;
    bt_recipe r;
    char text[BT_RECIPE_MAX_TEXT];
    assert_int_equal(
        bt_recipe_parse(&r,
                        "w4a8:per-tensor,no-rotate,clip=p99.9876,shadow=channel,prune=0.1234,smooth=0.1234,"
                        "a16=o+up+down+head,no-gptq",
                        NULL),
        BT_OK);
    bt_recipe_text(text, &r);
    assert_string_equal(text,
                        "w4a8:per-tensor,no-rotate,clip=p99.9876,shadow=channel,prune=0.1234,smooth=0.1234,"
                        "a16=o+up+down+head,no-gptq");
    static const char *const grouped =
        "w8a8:group=128,no-rotate,r4,clip=p99.9876,shadow=channel,prune=0.1234,"
        "smooth=0.1234,a16=qkv+up+down+head,"
        "no-bias,gptq,act-order";
    assert_int_equal(bt_recipe_parse(&r, grouped, NULL), BT_OK);
    bt_recipe_text(text, &r);
    assert_string_equal(text, grouped);
}

static void refuses_what_there_is_not_and_names_it(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "w8a16"},
        {"w8", "w4a16"},
        {"W8A8", "w8a8"},
        {"w8a8:", "per-tensor"},
        {"w8a8:fast", "'fast'"},
        {"w8a8:r3", "KV stays"},
        {"w8a8:per-tensor=1", "'per-tensor'"},
        {"w8a8:clip=99", "p99.99"},
        {"w8a8:clip=p49", "p50"},
        {"w8a8:clip=pnan", "p50"},
        {"w8a8:clip", "'clip'"},
        {"w8a8:shadow=on", "channel"},
        {"w8a8:prune=0.5", "shadow=channel"},
        {"w8a8:shadow=channel,prune=1.5", "0 to 1"},
        {"w8a8:smooth=-0.5", "0 to 1"},
        {"w8a8:a16=ffn", "down"},
        {"w8a8:a16=", "down"},
        {"w8a8:r1,no-r1", "twice"},
        {"w8a8:no-rotate,r2", "twice"},
        {"w8a8:r4,r4", "twice"},
        {"w8a8:clip=max,clip=max", "twice"},
        {"w8a16:shadow=on", "channel"},
        {"w8a16:llm-int8", "w8a8"},
        {"w4a8:llm-int8", "w8a8"},
        {"w8a8:llm-int8,shadow=off", "static clip"},
        {"w8a8,r1", "w8a8"},
        {"w4a16:group=48", "group=48: 32, 64 or 128"},
        {"w4a16:group", "'group'"},
        {"w4a16:group=32,group=64", "twice"},
        {"w4a16:group=32,per-tensor", "per-tensor"},
        {"w8a8:group=32,llm-int8", "llm-int8"},
        {"w8a8:act-order", "gptq"},
        {"w4a8:no-gptq,act-order", "gptq"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_recipe r = {.weight_bits = 77};
        bt_fault f = {""};
        assert_int_equal(bt_recipe_parse(&r, bad[i][0], &f), BT_EARG);
        if (!strstr(f.text, bad[i][1])) fail_msg("'%s': %s", bad[i][0], f.text);
        assert_int_equal(r.weight_bits, 77);
    }
    char *long_text = malloc(5001);
    assert_non_null(long_text);
    memset(long_text, 'w', 5000);
    long_text[5000] = 0;
    bt_recipe r;
    assert_int_equal(bt_recipe_parse(&r, long_text, NULL), BT_EARG);
    free(long_text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_w8a8_rotated_with_an_integer_shadow),
        cmocka_unit_test(every_recipe_has_one_text),
        cmocka_unit_test(long_texts_come_back_whole),
        cmocka_unit_test(refuses_what_there_is_not_and_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
