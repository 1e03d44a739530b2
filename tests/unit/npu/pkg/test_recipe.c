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
    assert_int_equal(r.usual.weight_bits, 8);
    for (int s = 0; s < BT_SITE_KINDS; s++) assert_int_equal(r.usual.input_bits[s], 8);
    assert_true(r.r1 && r.r2 && !r.usual.per_tensor && !r.usual.gptq && !r.llm_int8 && !r.parts);
    assert_int_equal(r.shadow, BT_SHADOW_VALUE);
    assert_true(r.usual.clip_percentile8 == 0 && r.usual.clip_percentile16 == 99.99 && r.smooth < 0 &&
                r.prune == 0);
    char text[BT_RECIPE_MAX_TEXT];
    bt_recipe_text(text, &r);
    assert_string_equal(text, "w8a8");
}

static void assert_text(const char *recipe, const char *text)
{
    bt_recipe r;
    bt_fault f = {""};
    char made[BT_RECIPE_MAX_TEXT], again[BT_RECIPE_MAX_TEXT];
    assert_int_equal(bt_recipe_parse(&r, recipe, &f), BT_OK);
    bt_recipe_text(made, &r);
    assert_string_equal(made, text);
    assert_int_equal(bt_recipe_parse(&r, made, &f), BT_OK);
    bt_recipe_text(again, &r);
    assert_string_equal(again, made);
}

static void every_recipe_has_one_text(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"w8a8", "w8a8"},
        {"w8a8:r1,r2,clip=auto,shadow=value", "w8a8"},
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
        {"w8a8:bias", "w8a8"},
        {"w8a16:gptq,no-bias", "w8a16:no-bias,gptq"},
        {"w8a8:asym", "w8a8:asym"},
        {"w4a8:no-asym", "w4a8:no-asym"},
        {"w8a16:no-asym", "w8a16:no-asym"},
        {"w8a8:a16=down,asym,smooth=0.5", "w8a8:smooth=0.5,asym,a16=down"},
        {"w8a8:no-rotate,llm-int8", "w8a8:no-rotate,llm-int8"},
        {"w4a16:act-order,group=32", "w4a16:group=32,act-order"},
        {"w8a8:group=128,gptq,act-order", "w8a8:group=128,gptq,act-order"},
        {"w8a8:r1,group=64", "w8a8:group=64"},
        {"w8a8:lut4", "w8a8:lut4"},
        {"w8a16:no-gptq,lut6,smooth=0.5,group=64", "w8a16:group=64,lut6,smooth=0.5"},
        {"w8a8/1=w8a16:lut6/head=w8a8:lut4", "w8a8/1=w8a16:lut6/head=w8a8:lut4"},
        {"w8a8:no-rotate,group=64", "w8a8:group=64,no-rotate"},
        {"w4a8:no-rotate,group=64", "w4a8:group=64,no-rotate"},
        {"w4a8:no-rotate,group=32", "w4a8:group=32"},
        {"w4a16:r2,group=32", "w4a16:group=32,r2"},
        {"w4a16:r2,r1,group=32", "w4a16:group=32,r1,r2"},
        {"w4a16:awq,group=32,no-rotate,no-gptq", "w4a16:group=32,awq"},
        {"w4a8:awq,gptq,group=128", "w4a8:group=128,awq,gptq"},
        {"w8a8:awq,r1", "w8a8:r1,awq"},
        {"w4a8:awq/2=w4a16", "w4a8:awq/2=w4a16"},
        {"w8a8/2=w4a8", "w8a8/2=w4a8"},
        {"w8a8/3+0+1+2+7=w4a8:gptq", "w8a8/0-3+7=w4a8"},
        {"w8a8/4=w4a8/0-2=w8a16/5=w4a8", "w8a8/0-2=w8a16/4-5=w4a8"},
        {"w8a8/0-2=w8a8:clip=auto/9=w8a16", "w8a8/9=w8a16"},
        {"w8a8:clip=max/1=w8a8", "w8a8:clip=max/1=w8a8"},
        {"w8a8/head=w8a16:no-bias/0=w4a16:group=32,act-order",
         "w8a8/0=w4a16:group=32,act-order/head=w8a16:no-bias"},
        {"w8a8/7=w8a8:a16=down+o/head=w8a8:a16=head", "w8a8/7=w8a8:a16=o+down/head=w8a16"},
        {"w8a8/7=w8a8:a16=qkv+o+up+down", "w8a8/7=w8a16"},
        {"w8a8/7=w8a8:a16=head", "w8a8"},
        {"w8a8:a16=head/7=w8a8", "w8a8:a16=head"},
        {"w4a8:no-rotate,shadow=off/0-255+head=w8a8", "w4a8:no-rotate,shadow=off/0-255+head=w8a8"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) assert_text(same[i][0], same[i][1]);
}

static void gptq_is_of_all_sites_none_or_those_that_are_named(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"w8a8:r1,no-gptq", "w8a8:no-gptq"},
        {"w8a8:gptq", "w8a8:gptq"},
        {"w8a8:gptq=head+qkv", "w8a8:gptq=qkv+head"},
        {"w8a8:gptq=qkv+o+up+down+head", "w8a8:gptq"},
        {"w4a8:gptq=down", "w4a8:gptq=down"},
        {"w4a8:awq,gptq=o", "w4a8:awq,gptq=o"},
        {"w8a8:awq,no-gptq", "w8a8:awq"},
        {"w8a8/1=w8a8:no-gptq", "w8a8/1=w8a8:no-gptq"},
        {"w8a8:gptq=up/1=w8a8:gptq=up+head/head=w8a8:gptq=up", "w8a8:gptq=up"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) assert_text(same[i][0], same[i][1]);
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

static void each_is_refused(const char *const (*bad)[2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bt_recipe r = {.usual = {.weight_bits = 77}};
        bt_fault f = {""};
        assert_int_equal(bt_recipe_parse(&r, bad[i][0], &f), BT_EARG);
        if (!strstr(f.text, bad[i][1])) fail_msg("'%s': %s", bad[i][0], f.text);
        assert_int_equal(r.usual.weight_bits, 77);
    }
}

static void refuses_recipes_of_layers_that_cannot_be(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"auto:ppl=1%", "baton compile"},
        {"w8a8/", "'/' is not layers"},
        {"w8a8/3", "'/3' is not layers, '='"},
        {"w8a8/3=", "no mode ''"},
        {"w8a8/=w4a8", "layers ''"},
        {"w8a8/3-=w4a8", "layers '3-'"},
        {"w8a8/5-3=w4a8", "layers '5-3'"},
        {"w8a8/1+=w4a8", "layers ''"},
        {"w8a8/-1=w4a8", "layers '-1'"},
        {"w8a8/tail=w4a8", "'tail' are not numbers"},
        {"w8a8/256=w4a8", "at most 255"},
        {"w8a8/0-99999999999=w4a8", "at most 255"},
        {"w8a8/0-3=w4a8/3=w8a16", "'3' is named twice"},
        {"w8a8/head=w4a8/head=w4a8", "'head' is named twice"},
        {"w8a8/1=w4a8:r1", "layers 1: rotations"},
        {"w8a8/1=w8a8:smooth=0.5", "whole model"},
        {"w8a8/1=w8a8:shadow=off", "whole model"},
        {"w8a8/1=w8a8:llm-int8", "whole model"},
        {"w8a8:llm-int8/1=w4a8", "llm-int8"},
        {"w8a8/1=w4a8:group=48", "group=48"},
        {"w8a8/0=w4a8/1=w4a16/2=w8a16/3=w8a8:no-bias/4=w8a8:clip=p51/5=w8a8:clip=p52/6=w8a8:clip=p53/"
         "7=w8a8:clip=p54/8=w8a8:clip=p55/9=w8a8:clip=p56/10=w8a8:clip=p57/11=w8a8:clip=p58/12=w8a8:clip=p59/"
         "13=w8a8:clip=p60/14=w8a8:clip=p61/15=w8a8:clip=p62",
         "more than 15"},
    };
    each_is_refused(bad, sizeof bad / sizeof *bad);
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
        {"w8a8:asym=1", "'asym'"},
        {"w8a8:asym,no-asym", "twice"},
        {"w8a8:llm-int8,asym", "llm-int8"},
        {"w8a16:asym", "asym needs inputs of 8 bits, and all have 16"},
        {"w8a8:asym,a16=qkv+o+up+down+head", "asym needs inputs of 8 bits"},
        {"w4a16:group=48", "group=48 is none of 32, 64 and 128"},
        {"w4a16:group", "'group'"},
        {"w4a16:group=32,group=64", "twice"},
        {"w4a16:group=32,per-tensor", "per-tensor"},
        {"w4a16:lut4", "the palette holds numbers of 8 bits, and weights have 4"},
        {"w8a8:lut4,lut6", "twice"},
        {"w8a8:lut5", "'lut5'"},
        {"w8a8:lut4,per-tensor", "lut4 and per-tensor"},
        {"w8a8:lut6,gptq", "lut6 and gptq"},
        {"w8a8:lut6,awq", "lut6 and awq"},
        {"w8a8:lut6,llm-int8", "lut6 and llm-int8"},
        {"w8a8:awq/1=w8a8:lut6", "lut6 and awq"},
        {"w8a8:group=32,llm-int8", "llm-int8"},
        {"w8a8:act-order", "gptq"},
        {"w4a8:no-gptq,act-order", "gptq"},
        {"w4a8:awq,act-order", "gptq"},
        {"w4a8:awq,per-tensor", "awq and per-tensor"},
        {"w8a8:awq,llm-int8", "awq and llm-int8"},
        {"w4a8:smooth=0.5,awq", "awq and smooth"},
        {"w4a8:awq=1", "'awq'"},
    };
    each_is_refused(bad, sizeof bad / sizeof *bad);
    char *long_text = malloc(5001);
    assert_non_null(long_text);
    memset(long_text, 'w', 5000);
    long_text[5000] = 0;
    bt_recipe r;
    assert_int_equal(bt_recipe_parse(&r, long_text, NULL), BT_EARG);
    free(long_text);
}

static void layers_and_the_head_have_the_recipe_that_names_them(void **state)
{
    (void)state;
    bt_recipe r;
    bt_fault f = {""};
    assert_int_equal(bt_recipe_parse(&r, "w8a8/2-3=w4a16:group=32/head=w8a16", NULL), BT_OK);
    for (uint32_t l = 0; l < 5; l++) {
        const bool own = l == 2 || l == 3;
        assert_int_equal(bt_recipe_of(&r, l, BT_SITE_QKV)->weight_bits, own ? 4 : 8);
        assert_int_equal(bt_recipe_of(&r, l, BT_SITE_DOWN)->input_bits[BT_SITE_DOWN], own ? 16 : 8);
        assert_int_equal(bt_recipe_of(&r, l, BT_SITE_DOWN)->group, own ? 32 : 0);
        assert_int_equal(bt_recipe_of(&r, l, BT_SITE_HEAD)->input_bits[BT_SITE_HEAD], 16);
    }
    assert_true(bt_recipe_gptq_sites(&r));
    assert_int_equal(bt_recipe_check_layers(&r, 4, &f), BT_OK);
    assert_int_equal(bt_recipe_check_layers(&r, 3, &f), BT_EARG);
    assert_string_equal(f.text, "--quant has a recipe for layer 3, and the model has 3 layers, from 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_w8a8_rotated_with_an_integer_shadow),
        cmocka_unit_test(every_recipe_has_one_text),
        cmocka_unit_test(gptq_is_of_all_sites_none_or_those_that_are_named),
        cmocka_unit_test(layers_and_the_head_have_the_recipe_that_names_them),
        cmocka_unit_test(long_texts_come_back_whole),
        cmocka_unit_test(refuses_recipes_of_layers_that_cannot_be),
        cmocka_unit_test(refuses_what_there_is_not_and_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
