/* Searching for a recipe, with losses and costs that are made up: what is tried, and what is found. */
#include "tools/search/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LAYERS = 12 };

typedef struct world {
    double harm[LAYERS + 1]; /* what a layer of 4 bits loses, and the head */
    double rotated_harm;     /* what all of 8 bits lose */
    bool no_int4, no_int16, fails;
    double palette_harm; /* palettes cost 6 bits and harm so many times as 4 bits do; 0: they are as 8 bits */
    bool rotated_palettes_do; /* palettes of a rotated stream harm nothing */
    size_t measured;
    tool_search_try tries[TOOL_SEARCH_MAX_TRIES];
    tool_search s;
} world;

static bt_err measure(void *ud, tool_search_try *t, bt_fault *fault)
{
    world *w = ud;
    bt_recipe r;
    assert_int_equal(bt_recipe_parse(&r, t->recipe, NULL), BT_OK);
    w->measured++;
    if (w->fails) return bt_fail(fault, BT_EIO, "no disk");
    double loss = r.r1 ? w->rotated_harm : 0.001;
    for (uint32_t l = 0; l <= LAYERS; l++) {
        const bt_recipe_layer *own = bt_recipe_of(&r, l, l == LAYERS ? BT_SITE_HEAD : BT_SITE_QKV);
        if (w->no_int4 && own->weight_bits == 4) return bt_fail(fault, BT_EARG, "4-bit weights");
        if (w->no_int16 && own->input_bits[0] == 16) return bt_fail(fault, BT_EARG, "16-bit inputs");
        const bool is_palette = w->palette_harm > 0 && own->palette_bits;
        t->cost += (is_palette ? 6 : own->weight_bits) * (l == LAYERS ? 5 : 1);
        if (own->weight_bits == 4) loss += w->harm[l] * (r.r1 ? 2 : 1);
        if (is_palette && !(r.r1 && w->rotated_palettes_do)) loss += w->harm[l] * w->palette_harm;
        if (own->input_bits[0] == 8) loss += 0.0001;
    }
    t->bytes = (uint64_t)t->cost;
    if (t->kind != TOOL_SEARCH_ONE) t->loss = loss;
    t->kl = loss / 10;
    return BT_OK;
}

static world *begin(double bound)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    for (uint32_t l = 0; l <= LAYERS; l++) w->harm[l] = 0.001 + 0.0005 * ((l * 7) % (LAYERS + 1));
    w->rotated_harm = 0.0005;
    w->s = (tool_search){.bound = bound, .layers = LAYERS, .measure = measure, .ud = w, .tries = w->tries};
    return w;
}

static void layers_with_the_most_gain_for_their_loss_get_4_bits_until_the_bound(void **state)
{
    (void)state;
    world *w = begin(0.01);
    bt_fault f = {""};
    bt_recipe r;
    if (tool_search_run(&w->s, &f) < 0) fail_msg("%s", f.text);
    assert_true(w->s.best->keeps && w->s.best->loss <= 0.01);
    assert_int_equal(bt_recipe_parse(&r, w->s.best->recipe, NULL), BT_OK);
    assert_int_equal(r.parts, 1);
    /* The head costs as much as five layers and harms as 0.001 + 0.0005 * 6. */
    assert_int_equal(bt_recipe_of(&r, 0, BT_SITE_HEAD)->weight_bits, 4);
    double kept = 0, least_left = 1;
    for (uint32_t l = 0; l < LAYERS; l++) {
        const bool is_4 = bt_recipe_of(&r, l, BT_SITE_QKV)->weight_bits == 4;
        if (is_4 && w->harm[l] > kept) kept = w->harm[l];
        if (!is_4 && w->harm[l] < least_left) least_left = w->harm[l];
    }
    assert_true(kept > 0 && kept < least_left);
    /* One more would be too much. */
    assert_true(w->s.best->loss + least_left > 0.01);
    assert_true(w->s.count <= TOOL_SEARCH_LADDER + LAYERS + 1 + 4);
    free(w);
}

static void layers_get_what_saves_most_for_its_loss_not_what_is_cheapest(void **state)
{
    (void)state;
    static const double harms[] = {0.9, 0.3};
    for (size_t i = 0; i < 2; i++) {
        world *w = begin(0.01);
        bt_recipe r;
        w->palette_harm = harms[i];
        assert_int_equal(tool_search_run(&w->s, NULL), BT_OK);
        assert_int_equal(bt_recipe_parse(&r, w->s.best->recipe, NULL), BT_OK);
        assert_int_equal(r.parts, 1);
        assert_int_equal(r.part[0].group, i == 0 ? 32 : 0);
        assert_int_equal(r.part[0].palette_bits, i == 0 ? 0 : 6);
        free(w);
    }
}

/* Without rotation 4 bits save more for their loss, from a recipe that costs more than rotated palettes do.
 */
static void the_stream_is_taken_whose_mixture_will_be_cheaper_at_the_bound(void **state)
{
    (void)state;
    world *w = begin(0.01);
    bt_recipe r;
    w->palette_harm = 0.9;
    w->rotated_palettes_do = true;
    assert_int_equal(tool_search_run(&w->s, NULL), BT_OK);
    assert_int_equal(bt_recipe_parse(&r, w->s.best->recipe, NULL), BT_OK);
    assert_true(r.r1);
    assert_int_equal(r.parts, 1);
    assert_int_equal(r.usual.palette_bits, 6);
    assert_int_equal(r.part[0].group, 32);
    assert_true(w->s.best->cost < 6 * (LAYERS + 5)); /* palettes in all layers and the head */
    free(w);
}

static void equal_measurements_give_an_equal_recipe_and_a_looser_bound_no_dearer_one(void **state)
{
    (void)state;
    double last = 1e9;
    for (int i = 0; i < 8; i++) {
        world *a = begin(0.002 + 0.006 * i), *b = begin(0.002 + 0.006 * i);
        assert_int_equal(tool_search_run(&a->s, NULL), BT_OK);
        assert_int_equal(tool_search_run(&b->s, NULL), BT_OK);
        assert_string_equal(a->s.best->recipe, b->s.best->recipe);
        assert_int_equal(a->s.count, b->s.count);
        assert_true(a->s.best->cost <= last);
        last = a->s.best->cost;
        free(a);
        free(b);
    }
}

static void where_bytes_are_equal_fewer_bits_of_inputs_are_taken(void **state)
{
    (void)state;
    world *w = begin(0.5);
    assert_int_equal(tool_search_run(&w->s, NULL), BT_OK);
    assert_non_null(strstr(w->s.best->recipe, "w4a8:group=32"));
    assert_int_equal(w->s.count, TOOL_SEARCH_LADDER);
    free(w);
}

static void what_the_device_cannot_run_is_told_and_not_taken(void **state)
{
    (void)state;
    world *w = begin(0.5);
    size_t told = 0;
    w->no_int4 = w->no_int16 = true;
    assert_int_equal(tool_search_run(&w->s, NULL), BT_OK);
    for (size_t i = 0; i < w->s.count; i++) told += w->tries[i].why_not[0] != 0;
    assert_int_equal(told, 8);
    assert_string_equal(w->tries[0].why_not, "16-bit inputs");
    assert_string_equal(w->s.best->recipe, "w8a8");
    free(w);
}

static void one_scale_an_output_is_tried_only_where_groups_keep_the_bound(void **state)
{
    (void)state;
    static const struct {
        double bound;
        size_t tried;
    } rows[] = {{0.01, 0}, {0.06, 1}, {0.5, 2}}; /* groups lose 0.054 without rotation, twice as much with it
                                                  */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world *w = begin(rows[i].bound);
        size_t tried = 0;
        assert_int_equal(tool_search_run(&w->s, NULL), BT_OK);
        for (size_t k = 0; k < TOOL_SEARCH_LADDER; k++) {
            bt_recipe r;
            assert_int_equal(bt_recipe_parse(&r, w->tries[k].recipe, NULL), BT_OK);
            if (r.usual.weight_bits != 4 || r.usual.group) continue;
            tried += !w->tries[k].why_not[0];
            if (w->tries[k].why_not[0])
                assert_string_equal(w->tries[k].why_not, "w4a16 in groups of 32 loses more than the bound");
        }
        assert_int_equal(tried, rows[i].tried);
        free(w);
    }
}

static void a_bound_that_nothing_keeps_is_refused_with_the_least_loss(void **state)
{
    (void)state;
    world *w = begin(0.0001);
    bt_fault f = {""};
    assert_int_equal(tool_search_run(&w->s, &f), BT_EARG);
    assert_string_equal(f.text, "auto: no recipe keeps a loss of 0.01 %; the least is 0.05 %, of w8a16");
    w->fails = true;
    assert_int_equal(tool_search_run(&w->s, &f), BT_EIO);
    free(w);
}

static void a_bound_is_a_percentage(void **state)
{
    (void)state;
    static const char *const bad[] = {"auto",
                                      "auto:",
                                      "auto:ppl=",
                                      "auto:ppl=%",
                                      "auto:ppl=1",
                                      "auto:kl=1%",
                                      "auto:ppl=0%",
                                      "auto:ppl=101%",
                                      "auto:ppl=x%",
                                      "auto:ppl=1%,r1",
                                      "auto:ppl=1.00000000000000000000000000000%"};
    bool is_asked = true;
    double bound = 0;
    assert_int_equal(tool_search_asked(&is_asked, &bound, "w8a8", NULL), BT_OK);
    assert_false(is_asked);
    assert_int_equal(tool_search_asked(&is_asked, &bound, NULL, NULL), BT_OK);
    assert_false(is_asked);
    assert_int_equal(tool_search_asked(&is_asked, &bound, "auto:ppl=2.5%", NULL), BT_OK);
    assert_true(is_asked && bound == 0.025);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tool_search_asked(&is_asked, &bound, bad[i], NULL) != BT_EARG) fail_msg("%s", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_with_the_most_gain_for_their_loss_get_4_bits_until_the_bound),
        cmocka_unit_test(layers_get_what_saves_most_for_its_loss_not_what_is_cheapest),
        cmocka_unit_test(the_stream_is_taken_whose_mixture_will_be_cheaper_at_the_bound),
        cmocka_unit_test(equal_measurements_give_an_equal_recipe_and_a_looser_bound_no_dearer_one),
        cmocka_unit_test(where_bytes_are_equal_fewer_bits_of_inputs_are_taken),
        cmocka_unit_test(what_the_device_cannot_run_is_told_and_not_taken),
        cmocka_unit_test(one_scale_an_output_is_tried_only_where_groups_keep_the_bound),
        cmocka_unit_test(a_bound_that_nothing_keeps_is_refused_with_the_least_loss),
        cmocka_unit_test(a_bound_is_a_percentage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
