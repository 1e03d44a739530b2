/* Any bytes as a recipe: what is accepted has a text, and that text gives the same recipe and the same text
 * again. */
#include "npu/pkg/recipe.h"

#include <stdlib.h>
#include <string.h>

static void check_layer(const bt_recipe_layer *l)
{
    if (l->weight_bits != 8 && l->weight_bits != 4) abort();
    if (l->palette_bits && ((l->palette_bits != 4 && l->palette_bits != 6) || l->weight_bits != 8)) abort();
    if (l->group && l->group != 32 && l->group != 64 && l->group != 128) abort();
    for (int s = 0; s < BT_SITE_KINDS; s++)
        if (l->input_bits[s] != 8 && l->input_bits[s] != 16) abort();
    if (!(l->clip_percentile8 >= 0 && l->clip_percentile8 <= 100)) abort();
    if (!(l->clip_percentile16 >= 0 && l->clip_percentile16 <= 100)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static bt_recipe r, again;
    char text[BT_RECIPE_MAX_TEXT], second[BT_RECIPE_MAX_TEXT], *given = malloc(len + 1);
    bt_fault f = {""};
    if (!given) return 0;
    memcpy(given, data, len);
    given[len] = 0;
    const bt_err e = bt_recipe_parse(&r, given, &f);
    free(given);
    if (e < 0) {
        if (e != BT_EARG || !f.text[0]) abort();
        return 0;
    }
    check_layer(&r.usual);
    if (r.parts > BT_RECIPE_MAX_PARTS) abort();
    for (uint8_t i = 0; i < r.parts; i++) check_layer(&r.part[i]);
    for (uint32_t l = 0; l <= BT_RECIPE_HEAD; l++)
        if (r.part_of[l] > r.parts) abort();
    bt_recipe_text(text, &r);
    if (bt_recipe_parse(&again, text, &f) < 0) abort();
    bt_recipe_text(second, &again);
    if (strcmp(text, second) != 0) abort();
    for (uint32_t l = 0; l < BT_RECIPE_HEAD; l++)
        for (int s = 0; s < BT_SITE_KINDS; s++)
            if (!bt_recipe_is_same(&r, &again, l, (bt_site_kind)s)) abort();
    return 0;
}
