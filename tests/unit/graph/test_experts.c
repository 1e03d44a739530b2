/* Routes of rows to experts: who is chosen, with which weights, where copies lie and how they become one row.
 */
#include "graph/companion.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { K = 2, EXPERTS = 5, USED = 3, ROWS = 4, WIDTH = 3 * USED + EXPERTS };

/* An expert's score is its number here times the first element of the row. */
static const float router[EXPERTS * K] = {2, 0, 3, 0, 2, 0, 2, 0, 1, 0};

typedef struct world {
    bt_companion c;
    float at[ROWS * WIDTH];
    uint32_t begin[EXPERTS + 1];
    bt_companion_routes r;
} world;

static void begin(world *w)
{
    const bt_companion_sizes sizes = {.heads = 1, .kv_heads = 1, .head_dim = 16, .runs = 1, .ctx_tokens = 1};
    memset(w, 0, sizeof *w);
    assert_int_equal(bt_companion_init(&w->c, bt_kernels_select(NULL), NULL, &sizes, NULL), BT_OK);
    w->r = (bt_companion_routes){.at = w->at, .experts = EXPERTS, .used = USED, .begin = w->begin};
}

/* Rows x, of which the first `valid` are real. */
static void route(world *w, const float *x, size_t valid)
{
    const bt_companion_seq seq = {.valid = valid};
    const bt_companion_rows rows = {.seq = &seq, .batch = 1, .rows = ROWS};
    bt_companion_route(&w->c, &rows, &w->r, x, router, NULL, K);
}

static const uint32_t *numbers(const world *w, size_t row)
{
    return (const uint32_t *)(const void *)&w->at[row * WIDTH];
}

static void equal_scores_choose_the_lower_number_and_numbers_ascend(void **state)
{
    (void)state;
    world w;
    begin(&w);
    const float x[ROWS * K] = {1, 0, 0, 0, -1, 0, NAN, 0};
    route(&w, x, ROWS);
    static const uint32_t want[ROWS][USED] = {{0, 1, 2}, {0, 1, 2}, {0, 2, 4}, {0, 1, 2}};
    for (size_t t = 0; t < ROWS; t++) assert_memory_equal(numbers(&w, t), want[t], sizeof want[t]);
    bt_companion_done(&w.c);
}

static void weights_are_a_softmax_over_the_chosen(void **state)
{
    (void)state;
    world w;
    begin(&w);
    const float x[ROWS * K] = {1, 0};
    route(&w, x, 1);
    const double sum = 2 * exp(-1) + 1, want[USED] = {exp(-1) / sum, 1 / sum, exp(-1) / sum};
    for (int i = 0; i < USED; i++) assert_true(fabs((double)w.at[2 * USED + i] - want[i]) < 1e-6);
    bt_companion_done(&w.c);
}

/* Copies lie by expert, then by row; those of one row come back as their weighted sum, padding as zeros. */
static void rows_are_gathered_by_expert_and_padding_chooses_none(void **state)
{
    (void)state;
    world w;
    begin(&w);
    const float x[ROWS * K] = {1, 10, -1, 20, 1, 30, 5, 40};
    float copy[ROWS * USED * K], y[ROWS * K];
    memset(copy, 0xff, sizeof copy);
    memset(y, 0xff, sizeof y);
    route(&w, x, 3);
    static const uint32_t begins[EXPERTS + 1] = {0, 3, 5, 8, 8, 9};
    assert_memory_equal(w.begin, begins, sizeof begins);
    bt_companion_gather(&w.c, &w.r, copy, x, ROWS, K);
    static const float second[] = {10, 20, 30, 10, 30, 10, 20, 30, 20};
    for (size_t i = 0; i < sizeof second / sizeof *second; i++) assert_true(copy[i * K + 1] == second[i]);
    assert_true(isnan(copy[9 * K]));
    for (uint32_t i = 0; i < USED; i++) assert_int_equal(numbers(&w, 3)[i], BT_COMPANION_NO_EXPERT);
    for (uint32_t e = 0; e < EXPERTS; e++) /* an expert that multiplies by its number */
        for (uint32_t i = w.begin[e]; i < w.begin[e + 1]; i++) copy[i * K] = (float)e * copy[i * K + 1];
    bt_companion_mix(&w.c, &w.r, y, copy, ROWS, K);
    for (size_t t = 0; t < 3; t++) {
        float want = 0;
        for (int i = 0; i < USED; i++)
            want =
                fmaf(w.at[t * WIDTH + 2 * USED + (size_t)i], (float)numbers(&w, t)[i] * x[t * K + 1], want);
        assert_true(y[t * K] == want && want > 0);
    }
    assert_true(y[3 * K] == 0 && y[3 * K + 1] == 0);
    bt_companion_done(&w.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_scores_choose_the_lower_number_and_numbers_ascend),
        cmocka_unit_test(weights_are_a_softmax_over_the_chosen),
        cmocka_unit_test(rows_are_gathered_by_expert_and_padding_chooses_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
