/* baton bench: its lists, its three forms, its rooflines, and that a wrong kernel ends it before anything
 * is timed. */
#include "tests/helpers/model/engine_kit.h"
#include "tools/bench/bench_check.h"
#include "tools/bench/bench_kernels.h"
#include "tools/bench/bench_list.h"
#include "tools/bench/bench_print.h"
#include "tests/helpers/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static const char *const fruits[] = {"apple", "pear", NULL};

static void lists_keep_their_order(void **state)
{
    (void)state;
    tool_list l;
    bt_fault f;
    assert_int_equal(tool_list_numbers(&l, "n-prompt", "512,0,2048", 0, 4096, "512", &f), BT_OK);
    assert_int_equal(l.count, 3);
    assert_int_equal(l.value[0], 512);
    assert_int_equal(l.value[1], 0);
    assert_int_equal(l.value[2], 2048);
    assert_int_equal(tool_list_words(&l, "weights", "pear,apple", fruits, &f), BT_OK);
    assert_int_equal(l.count, 2);
    assert_int_equal(l.value[0], 1);
    assert_int_equal(l.value[1], 0);
}

static void bad_lists_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const numbers[] = {"",
                                          ",",
                                          "1,",
                                          ",1",
                                          "1,,2",
                                          "1 2",
                                          "-1",
                                          "5x",
                                          "11",
                                          "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
                                          "00000000000000000000000000000000000001"};
    static const char *const words[] = {"", "apple,", "fig", "apple,apple", "Apple"};
    tool_list l = {.count = 77};
    bt_fault f;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_int_equal(tool_list_numbers(&l, "batch", numbers[i], 0, 10, "1,4", &f), BT_EARG);
        assert_non_null(strstr(f.text, "--batch"));
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_int_equal(tool_list_words(&l, "weights", words[i], fruits, &f), BT_EARG);
        assert_non_null(strstr(f.text, "--weights"));
    }
    assert_int_equal(l.count, 77);
}

/* ---- forms ---- */
static const bt_model named = {.name = "a \"model\", | so", .param_count = 1000};
static const tool_bench_about about = {"avx2", &named};
static const tool_machine limits = {.int8_ops = 360e9, .fma_flops = 215e9, .read_bytes = 25e9, .threads = 2};

static tool_bench_row sample(bool prefill)
{
    return (tool_bench_row){.prefill = prefill,
                            .tokens = 512,
                            .depth = prefill ? 0 : 64,
                            .batch = prefill ? 1 : 16,
                            .repetitions = 2,
                            .engine = prefill ? "npu" : "host",
                            .kv = "f16",
                            .weights = "w8a8",
                            .threads = 2,
                            .seconds = {1, 2},
                            .rate = 256,
                            .deviation = 3.5,
                            .expert_padding = prefill ? 0.25 : -1,
                            .ratio = prefill ? 0.75 : 0,
                            .limit = prefill ? "int8" : "",
                            .int8_ops = 350e9,
                            .fma_flops = 210e9};
}

static char *printed_in(const tool_bench_column *column, tool_bench_format format)
{
    char *text = NULL;
    size_t len;
    tool_bench_printer p = {.to = open_memstream(&text, &len), .format = format, .column = column};
    if (format == TOOL_BENCH_OBJECT) {
        json_t *made_by = json_pack("{s:s}", "version", "1");
        tool_bench_print_machine(&p, tool_bench_machine_json(&about, &limits), made_by);
        json_decref(made_by);
    }
    for (int i = 0; i < 2; i++) {
        const tool_bench_row r = sample(i == 0);
        tool_bench_print_row(&p, tool_bench_row_json(&about, &limits, &r));
    }
    tool_bench_print_end(&p);
    fclose(p.to);
    assert_false(p.failed);
    return text;
}

static char *printed(tool_bench_format format) { return printed_in(tool_bench_row_columns, format); }

static void json_is_one_array_of_rows(void **state)
{
    (void)state;
    char *text = printed(TOOL_BENCH_JSON);
    json_t *a = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(a), 2);
    const json_t *pp = json_array_get(a, 0), *tg = json_array_get(a, 1);
    assert_string_equal(json_string_value(json_object_get(pp, "model")), named.name);
    assert_string_equal(json_string_value(json_object_get(pp, "test")), "pp512");
    assert_string_equal(json_string_value(json_object_get(tg, "test")), "tg512 x 16 @ 64");
    assert_int_equal(json_array_size(json_object_get(tg, "seconds")), 2);
    assert_true(json_is_null(json_object_get(tg, "ratio_to_roofline")));
    assert_true(json_is_null(json_object_get(tg, "limit_bf16_gflops")));
    assert_true(json_number_value(json_object_get(pp, "expert_padding_ratio")) == 0.25);
    assert_true(json_is_null(json_object_get(tg, "expert_padding_ratio")));
    assert_true(json_number_value(json_object_get(pp, "limit_int8_gops")) == 360);
    json_decref(a);
    free(text);
}

static void a_json_object_has_the_machine_and_rows(void **state)
{
    (void)state;
    char *text = printed(TOOL_BENCH_OBJECT);
    json_t *o = json_loads(text, 0, NULL);
    const json_t *m = json_object_get(o, "machine"), *rows = json_object_get(o, "rows");
    assert_int_equal(json_array_size(rows), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "test")), "pp512");
    assert_true(json_number_value(json_object_get(m, "int8_gops")) == 360);
    assert_true(json_is_number(json_object_get(m, "read_gbytes_per_second")));
    assert_true(json_is_null(json_object_get(m, "bf16_gflops")));
    assert_true(text[strlen(text) - 1] == '\n');
    json_decref(o);
    free(text);
}

/* Fields of a line of CSV, quotes minded. */
static size_t fields(const char *line)
{
    size_t n = 1;
    bool quoted = false;
    for (; *line && *line != '\n'; line++) {
        if (*line == '"') quoted = !quoted;
        n += *line == ',' && !quoted;
    }
    return n;
}

static void csv_has_a_header_and_as_many_fields_in_each_row(void **state)
{
    (void)state;
    char *text = printed(TOOL_BENCH_CSV);
    const char *line = text;
    const size_t want = fields(text);
    size_t lines = 0;
    assert_true(want > 20);
    assert_null(strstr(text, "seconds\n"));
    for (; *line; line = strchr(line, '\n') + 1, lines++) assert_int_equal(fields(line), want);
    assert_int_equal(lines, 3);
    assert_non_null(strstr(text, "\"a \"\"model\"\", | so\""));
    free(text);
}

static void markdown_rows_have_the_columns_of_the_head(void **state)
{
    (void)state;
    for (size_t has_experts = 0; has_experts < 2; has_experts++) {
        char *text =
            printed_in(has_experts ? tool_bench_expert_columns : tool_bench_row_columns, TOOL_BENCH_MD);
        size_t lines = 0;
        for (const char *line = text; *line; line = strchr(line, '\n') + 1, lines++) {
            size_t bars = 0;
            for (const char *c = line; *c != '\n'; c++) bars += *c == '|';
            assert_int_equal(bars, 10 + has_experts);
        }
        assert_int_equal(lines, 4);
        assert_non_null(strstr(text, "256.00 +- 3.50"));
        assert_int_equal(strstr(text, " 0.250 |\n") != NULL, has_experts);
        free(text);
    }
}

/* ---- rooflines ---- */
static void a_prompt_is_linears_then_attention_and_a_step_the_longer_of_two(void **state)
{
    (void)state;
    tool_bench_row r = {.prefill = true, .engine = "npu",   .tokens = 512,
                        .batch = 1,      .linear_ops = 200, .attention_ops = 30};
    const char *limit;
    assert_true(tool_bench_roofline(&r, 100, 10, 0, &limit) == 5);
    assert_string_equal(limit, "fp32");
    assert_true(tool_bench_roofline(&r, 20, 30, 0, &limit) == 11);
    assert_string_equal(limit, "int8");
    assert_true(tool_bench_roofline(&r, 0, 10, 0, &limit) == 0);
    r.engine = "host";
    assert_true(tool_bench_roofline(&r, 100, 10, 0, &limit) == 23);
    r = (tool_bench_row){.engine = "host", .tokens = 10, .batch = 4, .linear_ops = 150, .bytes = 6};
    assert_true(tool_bench_roofline(&r, 0, 10, 3, &limit) == 20);
    assert_string_equal(limit, "read");
    assert_true(tool_bench_roofline(&r, 0, 5, 3, &limit) == 30);
    assert_string_equal(limit, "fp32");
    r.engine = "npu"; /* its linears at the integers' peak */
    assert_true(tool_bench_roofline(&r, 5, 1, 3, &limit) == 30);
    assert_string_equal(limit, "int8");
    assert_true(tool_bench_roofline(&r, 10, 1, 3, &limit) == 20);
    assert_string_equal(limit, "read");
}

/* ---- checks ---- */
static void every_usable_kernel_passes(void **state)
{
    (void)state;
    engine_kit k = engine_kit_model("qwen2");
    for (size_t i = 0; i < bt_kernels_table_len; i++) {
        bt_fault f;
        if (!rows_usable(&bt_kernels_table[i])) continue;
        if (tool_kernels_check(&bt_kernels_table[i], &k.model->hp, &f) < 0) fail_msg("%s", f.text);
    }
    engine_kit_done(&k);
}

/* The product as instruction sets with VNNI compute it: inputs count from 0 to 255, so that each sum begins
 * with -128 times its column's. `colsum` must be that of every weight in the panels, those past the last
 * output too. */
static void from_colsum(int32_t *restrict hi, int32_t *restrict lo, size_t ldacc, const bt_int_inputs *x,
                        size_t row, size_t t, const int8_t *restrict wp, const int32_t *colsum, size_t p0,
                        size_t p1, void *restrict scratch)
{
    bt_kernels_select("ref")->int_matmul(hi, lo, ldacc, x, row, t, wp, colsum, p0, p1, scratch);
    for (size_t n = 16 * p0; n < 16 * p1; n++) {
        int32_t start = -128 * colsum[n];
        for (size_t k = 0; k < 4 * x->k4; k++)
            start += 128 * bt_int_packed_at((const uint8_t *)wp, n, k, 4 * x->k4, 8);
        for (size_t i = 0; i < t; i++) hi[i * ldacc + n - 16 * p0] += start;
    }
}

static void passes_at_width(const bt_kernels *k, uint32_t ffn, uint32_t vocab)
{
    const bt_hparams hp = {.layers = 1,    .dim = 96,       .heads = 6, .kv_heads = 2,
                           .head_dim = 16, .rope_dims = 16, .ffn = ffn, .vocab = vocab};
    bt_fault f;
    if (tool_kernels_check(k, &hp, &f) < 0)
        fail_msg("%s, ffn %u, vocabulary %u: %s", k->isa, ffn, vocab, f.text);
}

static void a_kernel_that_starts_from_the_sums_of_columns_passes_at_any_width(void **state)
{
    (void)state;
    bt_kernels k = *bt_kernels_select("ref");
    k.int_matmul = from_colsum;
    static const uint32_t widths[][2] = {{124, 96}, {121, 300}, {1, 17}, {16, 31}, {100, 2047}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        passes_at_width(&k, widths[i][0], widths[i][1]);
}

static void every_usable_kernel_passes_at_widths_that_end_within_a_panel(void **state)
{
    (void)state;
    for (size_t i = 0; i < bt_kernels_table_len; i++)
        if (rows_usable(&bt_kernels_table[i])) {
            passes_at_width(&bt_kernels_table[i], 121, 300);
            passes_at_width(&bt_kernels_table[i], 1, 17);
        }
}

static void wrong_matmul4(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                          const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k,
                          size_t p0, size_t p1, const float *restrict xs)
{
    bt_kernels_select("ref")->matmul4(y, ldy, x, ldx, wp, bias, t, n, k, p0, p1, xs);
    if (t > 8) y[(t - 1) * ldy + n - 1] += 1;
}

static void wrong_silu(float *y, const float *g, const float *u, size_t count)
{
    bt_kernels_select("ref")->silu_mul(y, g, u, count);
    y[count - 1] *= 1.0000002f;
}

static void wrong_attn(float *out, size_t ldo, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                       size_t t, size_t pos0, size_t heads, size_t h0, size_t h1, const bt_attn_rule *rule,
                       void *scratch)
{
    bt_kernels_select("ref")->attn(out, ldo, q, ldq, kv, layer, t, pos0, heads, h0, h1, rule, scratch);
    if (pos0 + t > 256) out[(t - 1) * ldo] += 1;
}

static void wrong_unpack4(int8_t *restrict to, const uint8_t *restrict wp4, size_t k4, size_t p0, size_t p1)
{
    bt_kernels_select("ref")->int_unpack4(to, wp4, k4, p0, p1);
    to[64 * k4 * (p1 - p0) - 1] ^= 1;
}

static void wrong_palette(int8_t *restrict to, const uint8_t *restrict wp, unsigned bits,
                          const int8_t *restrict palettes, size_t k4, size_t run4, size_t p0, size_t p1)
{
    bt_kernels_select("ref")->int_palette(to, wp, bits, palettes, k4, run4, p0, p1);
    if (bits == 6) to[0] ^= 1;
}

static void wrong_planes(int8_t *restrict low, int8_t *restrict high, const uint8_t *restrict wp,
                         unsigned bits, const bt_int_group *restrict groups, size_t k4, size_t group4,
                         size_t p0, size_t p1)
{
    bt_kernels_select("ref")->int_planes(low, high, wp, bits, groups, k4, group4, p0, p1);
    if (bits == 4) high[64 * k4 * (p1 - p0) - 1] ^= 1;
}

static void wrong_join(int64_t *restrict v, bt_int_plane_sums high, bt_int_plane_sums low, size_t n)
{
    bt_kernels_select("ref")->int_join(v, high, low, n);
    if (high.lo) v[n - 1] += (int64_t)1 << 40; /* of wide inputs alone */
}

static void a_wrong_kernel_is_named(void **state)
{
    (void)state;
    const bt_hparams hp = {.layers = 1,    .dim = 96,       .heads = 6, .kv_heads = 2,
                           .head_dim = 16, .rope_dims = 16, .ffn = 121, .vocab = 96};
    const bt_kernels ref = *bt_kernels_select("ref");
    enum { BAD = 7 };
    bt_kernels bad[BAD] = {ref, ref, ref, ref, ref, ref, ref};
    static const char *const names[BAD] = {"matmul4",     "silu_mul",   "attn",          "int_unpack4",
                                           "int_palette", "int_planes", "w8a16:group=32"};
    bad[0].matmul4 = wrong_matmul4;
    bad[1].silu_mul = wrong_silu;
    bad[2].attn = wrong_attn;
    bad[3].int_unpack4 = wrong_unpack4;
    bad[4].int_palette = wrong_palette;
    bad[5].int_planes = wrong_planes;
    bad[6].int_join = wrong_join;
    for (size_t i = 0; i < BAD; i++) {
        bt_fault f;
        assert_int_equal(tool_kernels_check(&bad[i], &hp, &f), BT_EFORMAT);
        if (!strstr(f.text, names[i])) fail_msg("%s is wrong, and the words are: %s", names[i], f.text);
    }
}

static void is_called(void) { _exit(7); }

/* Each kernel of the list in turn is one that ends the program. */
static void every_kernel_of_the_list_is_checked(void **state)
{
    (void)state;
    const bt_hparams hp = {.layers = 1,    .dim = 96,       .heads = 6, .kv_heads = 2,
                           .head_dim = 16, .rope_dims = 16, .ffn = 121, .vocab = 96};
    for (size_t i = 0; i < bt_kernels_list_len; i++) {
        bt_kernels k = *bt_kernels_select("ref");
        void (*const end)(void) = is_called;
        memcpy((char *)&k + bt_kernels_list[i].offset, &end, sizeof end);
        const pid_t child = fork();
        int status;
        assert_true(child >= 0);
        if (child == 0) {
            (void)tool_kernels_check(&k, &hp, NULL);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
            fail_msg("baton bench --kernels never calls %s", bt_kernels_list[i].name);
    }
}

/* Multiplications and additions of scores and sums, row by row. */
static double attention_of(const bt_hparams *hp, const tool_bench_row *r)
{
    double pairs = 0;
    for (uint32_t l = 0; l < hp->layers; l++)
        for (size_t n = r->depth + 1; n <= r->depth + r->tokens; n++) {
            const uint32_t window = bt_hparams_window(hp, l);
            pairs += window && window < n ? window : (double)n;
        }
    return 4 * pairs * hp->heads * hp->head_dim * (double)r->batch;
}

static void check_and_time(const char *arch)
{
    engine_kit k = engine_kit_model(arch);
    const tool_bench_setup s = {.model = k.model, .engine = "host", .want = {.shape_policy = "pow2"},
                                .ctx_tokens = 64, .batch_max = 4};
    bt_fault f;
    bt_pool *pool;
    assert_int_equal(bt_pool_new(&pool, 2, &f), BT_OK);
    const tool_machine m = {.kernels = bt_kernels_select("ref"), .pool = pool, .threads = 2};
    for (int decode = 0; decode < 2; decode++) {
        bt_prefill *p = NULL;
        bt_decode *d = NULL;
        tool_bench_row r = {.prefill = !decode, .tokens = 5, .depth = TINY_GGUF_WINDOW - 2,
                            .batch = decode ? 4 : 1, .repetitions = 3};
        bt_err e = decode ? tool_bench_check_decode(&s, "fp4", NULL, pool, &f)
                          : tool_bench_check_prefill(&s, NULL, pool, &f);
        if (e == BT_OK)
            e = decode ? tool_bench_open_decode(&d, &s, "fp4", NULL, pool, &f)
                       : tool_bench_open_prefill(&p, &s, NULL, pool, &f);
        if (e == BT_OK)
            e = decode ? tool_bench_time_decode(&r, d, &s, &m, &f)
                       : tool_bench_time_prefill(&r, p, &s, &m, &f);
        if (e < 0) fail_msg("%s", f.text);
        assert_true(r.rate > 0 && r.seconds[2] > 0 && r.linear_ops > 0);
        assert_true(r.attention_ops == attention_of(&k.model->hp, &r));
        assert_string_equal(r.weights, decode ? "fp4" : "f16");
        bt_prefill_free(p);
        bt_decode_free(d);
    }
    bt_pool_free(pool);
    engine_kit_done(&k);
}

static void both_engines_are_checked_then_timed(void **state)
{
    (void)state;
    check_and_time("llama");
    check_and_time("gemma3"); /* with windows */
}

static void one_bit_of_kv_or_logits_is_a_difference(void **state)
{
    (void)state;
    engine_kit k = engine_kit_model("llama");
    const tool_bench_setup s = {.model = k.model, .engine = "host", .want = {.shape_policy = "pow2"},
                                .ctx_tokens = 64, .batch_max = 2};
    tool_sequences rows[2];
    bt_fault f;
    for (int i = 0; i < 2; i++) {
        bt_decode *d;
        assert_int_equal(tool_bench_open_decode(&d, &s, "int8", i ? "ref" : NULL, NULL, &f), BT_OK);
        assert_int_equal(tool_sequences_open(&rows[i], k.model, bt_decode_kv_elem_bytes(d), 2, 8, 2, &f),
                         BT_OK);
        assert_int_equal(tool_bench_fill(d, &rows[i], 7, &f), BT_OK);
        assert_int_equal(tool_bench_step(d, &rows[i], 7, &f), BT_OK);
        bt_decode_free(d);
    }
    assert_int_equal(tool_bench_compare(&rows[0], &rows[1], 8, "decoding", &f), BT_OK);
    uint8_t *v = bt_kv_view_row(&rows[0].view[1], 2, 1, 7, 0);
    v[1] ^= 1;
    assert_int_equal(tool_bench_compare(&rows[0], &rows[1], 8, "decoding", &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "KV rows"));
    v[1] ^= 1;
    rows[1].logits[rows[1].vocab + 3] += 0x1p-10f;
    assert_int_equal(tool_bench_compare(&rows[0], &rows[1], 8, "decoding", &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "logits"));
    tool_sequences_close(&rows[0]);
    tool_sequences_close(&rows[1]);
    engine_kit_done(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_keep_their_order),
        cmocka_unit_test(bad_lists_are_refused_by_name),
        cmocka_unit_test(json_is_one_array_of_rows),
        cmocka_unit_test(a_json_object_has_the_machine_and_rows),
        cmocka_unit_test(csv_has_a_header_and_as_many_fields_in_each_row),
        cmocka_unit_test(markdown_rows_have_the_columns_of_the_head),
        cmocka_unit_test(a_prompt_is_linears_then_attention_and_a_step_the_longer_of_two),
        cmocka_unit_test(every_usable_kernel_passes),
        cmocka_unit_test(a_kernel_that_starts_from_the_sums_of_columns_passes_at_any_width),
        cmocka_unit_test(every_usable_kernel_passes_at_widths_that_end_within_a_panel),
        cmocka_unit_test(a_wrong_kernel_is_named),
        cmocka_unit_test(every_kernel_of_the_list_is_checked),
        cmocka_unit_test(both_engines_are_checked_then_timed),
        cmocka_unit_test(one_bit_of_kv_or_logits_is_a_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
