/* Measured times of others, in the forms that their tools write, become points; what cannot be one says why.
 */
#include "lab/calibrate/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static tool_calibrate_table read_all(const char *text, const bt_opt_list *where)
{
    tool_calibrate_table t = {.rows = 0};
    bt_fault f = {""};
    if (tool_calibrate_table_parse(&t, text, strlen(text), where, &f) < 0) fail_msg("%s", f.text);
    return t;
}

static void expect_prompt(const tool_calibrate_table *t, size_t i, uint32_t tokens, double ms)
{
    assert_true(i < t->points.prompts);
    const tool_calibrate_prompt *p = &t->points.prompt[i];
    if (p->tokens != tokens || p->ns < 0.9999e6 * ms || p->ns > 1.0001e6 * ms)
        fail_msg("prompt %zu: %u tokens, %f ms", i, p->tokens, p->ns / 1e6);
}

static void expect_step(const tool_calibrate_table *t, size_t i, uint32_t batch, uint32_t ctx, double ms)
{
    assert_true(i < t->points.steps);
    const tool_calibrate_step *s = &t->points.step[i];
    if (s->batch != batch || s->ctx != ctx || s->ns < 0.9999e6 * ms || s->ns > 1.0001e6 * ms)
        fail_msg("step %zu: %u at %u, %f ms", i, s->batch, s->ctx, s->ns / 1e6);
}

#define LLAMA(p, n, d, ns) \
    "{\"model_type\": \"qwen2 7B Q4_K - Medium\", \"gpu_info\": \"NVIDIA GeForce RTX 4080\", " \
    "\"n_threads\": 8, " \
    "\"n_prompt\": " #p ", \"n_gen\": " #n ", \"n_depth\": " #d ", \"avg_ns\": " #ns \
    ", \"samples_ns\": [ 74601900, 71632900 ]}"

static void llama_bench_gives_prompts_and_steps(void **state)
{
    (void)state;
    const char *const list =
        "[\n  " LLAMA(512, 0, 0, 72135640) ",\n " LLAMA(0, 128, 0, 1076767880) ", " LLAMA(
            0, 128, 512, 1100000000) ", " LLAMA(64, 32, 0, 5) ", " LLAMA(512, 0, 512, 80000000) "]\n";
    const tool_calibrate_table t = read_all(list, NULL);
    assert_int_equal(t.rows, 3);
    assert_int_equal(t.left_out, 2); /* a prompt and an answer in one time; a prompt behind other tokens */
    assert_non_null(strstr(t.why_left_out, "row 4: a prompt and an answer are in one time"));
    assert_string_equal(t.on, "llama-bench: qwen2 7B Q4_K - Medium, NVIDIA GeForce RTX 4080");
    expect_prompt(&t, 0, 512, 72.13564);
    expect_step(&t, 0, 1, 65, 1076.76788 / 128); /* positions 1 to 128: their mean, rounded */
    expect_step(&t, 1, 1, 577, 1100.0 / 128);
    const tool_calibrate_table lines =
        read_all(LLAMA(512, 0, 0, 72135640) "\n" LLAMA(0, 128, 0, 1076767880) "\n", NULL);
    assert_int_equal(lines.rows, 2);
    const tool_calibrate_table csv =
        read_all("build_commit,model_type,n_prompt,n_gen,n_depth,test_time,avg_ns,stddev_ns\n"
                 "\"8cf427ff\",\"qwen2 7B, "
                 "\"\"Q4_K\"\"\",\"512\",\"0\",\"0\",\"2025-04-24T11:57:09Z\",\"70285660\",\"982040\"\r\n"
                 "\"8cf427ff\",\"qwen2 7B, "
                 "\"\"Q4_K\"\"\",\"0\",\"128\",\"0\",\"2025-04-24T11:57:10Z\",\"1067431600\",\"3834831\"\n",
                 NULL);
    expect_prompt(&csv, 0, 512, 70.28566);
    expect_step(&csv, 0, 1, 65, 1067.4316 / 128);
    assert_string_equal(csv.on, "llama-bench: qwen2 7B, \"Q4_K\"");
}

static void vllm_gives_prompts_of_one_at_a_time_and_steps(void **state)
{
    (void)state;
    const tool_calibrate_table t = read_all(
        "{\"model_id\": \"m\", \"backend\": \"vllm\", \"max_concurrency\": 1, \"completed\": 10, "
        "\"total_input_tokens\": "
        "5120, \"total_output_tokens\": 1280, \"mean_ttft_ms\": 31.0, \"median_ttft_ms\": 30.5, "
        "\"median_tpot_ms\": 8.25}\n"
        "{\"model_id\": \"m\", \"backend\": \"vllm\", \"max_concurrency\": 16, \"completed\": 160, "
        "\"total_input_tokens\": "
        "81920, \"total_output_tokens\": 20480, \"median_ttft_ms\": 300.5, \"median_tpot_ms\": 11.5}\n"
        "{\"model_id\": \"m\", \"backend\": \"vllm\", \"max_concurrency\": null, \"completed\": 160, "
        "\"total_input_tokens\": 81920, \"total_output_tokens\": 20480, \"median_ttft_ms\": 1, "
        "\"median_tpot_ms\": 1}\n",
        NULL);
    assert_int_equal(t.rows, 2);
    assert_int_equal(t.left_out, 1);
    assert_non_null(strstr(t.why_left_out, "the concurrency is not given"));
    assert_int_equal(t.points.prompts, 1);
    expect_prompt(&t, 0, 512, 30.5);
    expect_step(&t, 0, 1, 576, 8.25);
    expect_step(&t, 1, 16, 576, 11.5);
}

#define AIPERF(unit, phases) \
    "{\"time_to_first_token\": {" unit \
    "\"avg\": 45.0, \"p50\": 44.5}, \"inter_token_latency\": {\"unit\": \"ms\", " \
    "\"avg\": 7.5}, \"input_sequence_length\": {\"unit\": \"tokens\", \"avg\": 550.0}, " \
    "\"output_sequence_length\": " \
    "{\"unit\": \"tokens\", \"avg\": 100.0}, \"input_config\": {" phases "}}"

static void aiperf_says_its_units(void **state)
{
    (void)state;
    const tool_calibrate_table t =
        read_all(AIPERF("\"unit\": \"ms\", ", "\"loadgen\": {\"concurrency\": 1}"), NULL);
    expect_prompt(&t, 0, 550, 44.5);
    expect_step(&t, 0, 1, 600, 7.5);
    const tool_calibrate_table s =
        read_all(AIPERF("\"unit\": \"sec\", ", "\"phases\": [{\"concurrency\": 1}]"), NULL);
    expect_prompt(&s, 0, 550, 44500);
}

#define EDGE \
    "device,model,format,engine,prompt_or_ctx,batch,prefill_tok_s,ttft_ms,decode_tok_s,energy,source\n"
#define FLM "device,model,format,engine,phase,context,value_tok_s_or_s,source\n"

static void rows_of_tables_give_prompts_and_steps(void **state)
{
    (void)state;
    const tool_calibrate_table hub = read_all(
        EDGE
        "Snapdragon 8 Elite,Llama-3.2-1B,w4a16,\"Genie, AI Hub\",128 of 4096,1,,37.0651,53.6399,,same file\n",
        NULL);
    expect_prompt(&hub, 0, 128, 37.0651);
    expect_step(&hub, 0, 1, 4096, 1e3 / 53.6399);
    const tool_calibrate_table words = read_all(
        EDGE
        "2x H100,Q,BF16,vLLM,32K,1,,505.1,TPOT 31.1 ms,,x\n2x H100,Q,BF16,vLLM,512 / 128,1,1000,,ITL 30 "
        "ms,,x\n2x H100,Q,BF16,vLLM,saturated,511,,,ITL 47.4 ms,,x\n2x H100,Q,BF16,vLLM,383,8,,,135.3,,x\n",
        NULL);
    expect_prompt(&words, 0, 32768, 505.1);
    expect_prompt(&words, 1, 512, 512);
    expect_step(&words, 0, 1, 32768, 31.1);
    expect_step(&words, 1, 1, 576, 30);
    assert_int_equal(words.left_out, 2);
    const tool_calibrate_table flm =
        read_all(FLM "R,L,q4,F,decode,1024,64.5,x\nR,L,q4,F,prefill,2048,2136,x\n"
                     "R,L,q4,F,load,1,2,x\n",
                 NULL);
    expect_step(&flm, 0, 1, 1024, 1e3 / 64.5);
    expect_prompt(&flm, 0, 2048, 1e3 * 2048 / 2136);
    assert_int_equal(flm.left_out, 1);
}

static void rows_of_equal_lengths_count_as_their_mean(void **state)
{
    (void)state;
    const tool_calibrate_table t =
        read_all("[" LLAMA(512, 0, 0, 10000000) "," LLAMA(512, 0, 0, 20000000) "," LLAMA(512, 0, 0,
                                                                                         60000000) "]",
                 NULL);
    assert_int_equal(t.points.prompts, 1);
    assert_int_equal(t.rows, 3);
    expect_prompt(&t, 0, 512, 30);
}

static void rows_of_different_models_are_chosen_by_where(void **state)
{
    (void)state;
    static const char text[] = FLM "R,A,q4,F,decode,1024,64.5,x\nR,B,q4,F,decode,1024,30,x\n";
    const char *items[] = {"model=B"}, *none[] = {"model=C"}, *bad[] = {"model"}, *fine[] = {"model="};
    const bt_opt_list where = {items, 1}, no_row = {none, 1}, no_condition = {bad, 1}, condition = {fine, 1};
    tool_calibrate_table t = {.rows = 0};
    bt_fault f = {""};
    assert_int_equal(tool_calibrate_table_parse(&t, text, sizeof text - 1, NULL, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "rows differ in 'model': 'A' and 'B'; choose, as in --where 'model=A'"));
    t = read_all(text, &where);
    expect_step(&t, 0, 1, 1024, 1e3 / 30);
    t = (tool_calibrate_table){.rows = 0};
    assert_int_equal(tool_calibrate_table_parse(&t, text, sizeof text - 1, &no_row, &f), BT_EARG);
    assert_int_equal(tool_calibrate_table_where(&no_condition, &f), BT_EARG);
    assert_non_null(strstr(f.text, "--where 'model': must be COLUMN=VALUE"));
    assert_int_equal(tool_calibrate_table_where(&condition, &f), BT_OK);
}

#define LONG "DeepSeek-R1-Distill-Llama-8B-Q4_K_M-imatrix-of-2025-01-20"

static void a_suggested_condition_is_one_that_chooses(void **state)
{
    (void)state;
    static const char text[] = FLM "R," LONG ",q4,F,decode,1024,64.5,x\nR,B,q4,F,decode,1024,30,x\n";
    tool_calibrate_table t = {.rows = 0};
    bt_fault f = {""};
    assert_int_equal(tool_calibrate_table_parse(&t, text, sizeof text - 1, NULL, &f), BT_EFORMAT);
    char *from = strstr(f.text, "--where '");
    assert_non_null(from);
    from += strlen("--where '");
    from[strcspn(from, "'")] = 0;
    const char *items[] = {from};
    t = read_all(text, &(bt_opt_list){items, 1});
    expect_step(&t, 0, 1, 1024, 1e3 / 64.5);
}

static void rows_of_two_texts_are_of_one_model(void **state)
{
    (void)state;
    static const char *const second[] = {
        FLM "R,B,q4,F,prefill,1024,500,x\n",
        "device,model,format,engine,prompt_or_ctx,ttft_ms\nS,A,q4,F,1024,30\n",
        "[" LLAMA(512, 0, 0, 72135640) "]",
    };
    static const char *const says[] = {"rows differ in 'model': 'A' and 'B'",
                                       "rows differ in 'device': 'R' and 'S'",
                                       "row 1 has the form of llama-bench, and rows before it that of table"};
    for (size_t i = 0; i < 3; i++) {
        tool_calibrate_table t = read_all(FLM "R,A,q4,F,decode,1024,64.5,x\n", NULL);
        bt_fault f = {""};
        assert_int_equal(tool_calibrate_table_parse(&t, second[i], strlen(second[i]), NULL, &f), BT_EFORMAT);
        if (!strstr(f.text, says[i])) fail_msg("%s", f.text);
    }
    tool_calibrate_table t = read_all(FLM "R,A,q4,F,decode,1024,64.5,x\n", NULL);
    static const char more[] = "device,model,format,engine,prompt_or_ctx,ttft_ms\nR,A,q4,F,1024,30\n";
    assert_int_equal(tool_calibrate_table_parse(&t, more, sizeof more - 1, NULL, NULL), BT_OK);
    expect_prompt(&t, 0, 1024, 30);
}

static void rows_of_llama_bench_that_ran_otherwise_are_not_averaged(void **state)
{
    (void)state;
    static const char *const field[] = {"n_batch", "n_ubatch", "type_k", "type_v", "flash_attn"};
    for (size_t i = 0; i < 5; i++) {
        char text[512];
        const int n =
            snprintf(text, sizeof text,
                     "[{\"n_prompt\": 512, \"n_gen\": 0, \"avg_ns\": 1e7, \"%s\": 1}, {\"n_prompt\": 512, "
                     "\"n_gen\": 0, \"avg_ns\": 2e7, \"%s\": 0}]",
                     field[i], field[i]);
        tool_calibrate_table t = {.rows = 0};
        bt_fault f = {""};
        assert_int_equal(tool_calibrate_table_parse(&t, text, (size_t)n, NULL, &f), BT_EFORMAT);
        if (!strstr(f.text, field[i])) fail_msg("%s: %s", field[i], f.text);
    }
}

static void a_row_that_is_left_out_says_why(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } out[] = {
        {"prompt_or_ctx,batch,ttft_ms\n512,1,30\n512,4,60\n",
         "row 2: its first token came beside other requests"},
        {"prompt_or_ctx,batch,ttft_ms\n512,1,30\n512,1,\n", "row 2: it has no time"},
        {"prompt_or_ctx,batch,ttft_ms\n512,1,30\nsaturated,1,40\n", "row 2: it does not say how many tokens"},
        {"prompt_or_ctx,batch,ttft_ms\n512,1,30\n512,many,40\n",
         "row 2: its batch is no number from 1 to 4096"},
        {"prompt_or_ctx,batch,ttft_ms\n512,1,30\ntg16,1,40\n",
         "row 2: it has the time of a prompt without its length"},
        {"phase,context,value_ms\nprefill,512,30\nprefill,512,\n", "row 2: it has no time"},
        {"phase,context,value_ms\nprefill,512,30\nprefill,,30\n", "row 2: it does not say how many tokens"},
    };
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) {
        const tool_calibrate_table t = read_all(out[i].text, NULL);
        assert_int_equal(t.left_out, 1);
        if (strcmp(t.why_left_out, out[i].says)) fail_msg("%zu: %s", i, t.why_left_out);
    }
}

static void numbers_of_json_are_cells_too(void **state)
{
    (void)state;
    const tool_calibrate_table t =
        read_all("[{\"prompt_or_ctx\": 512, \"batch\": 1, \"ttft_ms\": 30.5, \"tpot_ms\": 8},"
                 "{\"phase\": \"decode\", \"context\": 1024, \"value_ms\": 9}]",
                 NULL);
    expect_prompt(&t, 0, 512, 30.5);
    expect_step(&t, 0, 1, 512, 8);
    expect_step(&t, 1, 1, 1024, 9);
}

static void what_is_no_time_is_refused_with_what_is_needed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "no row gives a time"},
        {"{}", "row 1 has no known form"},
        {"[3]", "row 1 is no object"},
        {"[" LLAMA(512, 0, 0, 72135640), "no JSON behind 0 rows"},
        {LLAMA(512, 0, 0, 0), "row 1, 'avg_ns': '0' is no time: it must be above 0"},
        {LLAMA(512, 0, 0, -5), "'-5' is no time"},
        {LLAMA(512, 0, 0, "fast"), "'fast' is no number"},
        {LLAMA(9999999, 0, 0, 5), "'n_prompt': '9999999' is out of range"},
        {AIPERF("", "\"loadgen\": {\"concurrency\": 1}"),
         "'time_to_first_token.p50': '44.5' has no unit: ns, us, ms, s or tok/s is needed"},
        {AIPERF("\"unit\": \"parsec\", ", "\"loadgen\": {\"concurrency\": 1}"), "has no unit"},
        {"model,prompt_or_ctx,ttft\nA,128,37\n", "row 1, 'ttft': '37' has no unit"},
        {"model,prompt_or_ctx,ttft_parsec\nA,128,37\n", "row 1, 'ttft_parsec': '37' has no unit"},
        {"model,phase,context,value\nA,decode,128,37\n", "row 1, 'value': '37' has no unit"},
        {"model,phase,context,value_ms\nA,decode,128,0\n", "row 1, 'value_ms': '0' is no time"},
        {"model,phase,context,value_ms\nA,decode,128\n", "line 2 has 3 cells, and the first line 4"},
        {"model,phase,context,value_ms\n\"A,decode,128,3\n", "line 2, cell 1: broken quotes"},
        {"model,phase,context,value_ms\n\xff,decode,128,3\n", "line 2, cell 1: no UTF-8"},
        {"phase,context,value_ms,context\ndecode,128,3,4\n", "line 1 names the column 'context' twice"},
        {"phase,context,value_ns\ndecode,128,0.5\n", "'0.5' is not a time from 1 ns to 11 days"},
        {"{\"n_prompt\": 0, \"n_gen\": 1000, \"avg_ns\": 5}", "0.005 ns is not a time from 1 ns to 11 days"},
        {"prompt_or_ctx,ttft_ms\n4294968296,30\n", "a prompt of 4294968296 tokens"},
        {"prompt_or_ctx,tpot_ms\n4294968296,30\n", "a step of 1 sequences at 4294968296 positions"},
        {FLM "R,L,q4,F,load,1,2,x\n",
         "no row gives a time (1 rows; row 1: its phase is neither prefill nor decode)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tool_calibrate_table t = {.rows = 0};
        bt_fault f = {""};
        const bt_err e = tool_calibrate_table_parse(&t, bad[i].text, strlen(bad[i].text), NULL, &f);
        if (e != BT_EFORMAT || !strstr(f.text, bad[i].says)) fail_msg("%zu: %d %s", i, e, f.text);
    }
}

static void more_than_there_is_room_for_is_refused(void **state)
{
    (void)state;
    static char text[64 * 1024];
    tool_calibrate_table t = {.rows = 0};
    bt_fault f = {""};
    size_t n = (size_t)snprintf(text, sizeof text, "phase,context,value_ms\n");
    for (int i = 1; i <= TOOL_CALIBRATE_PROMPTS + 1; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "prefill,%d,%d\n", i, i);
    assert_int_equal(tool_calibrate_table_parse(&t, text, n, NULL, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "more than 64 lengths of prompts"));
    n = (size_t)snprintf(text, sizeof text, "phase,context,value_ms\n");
    memset(text + n, 'a', 512);
    t = (tool_calibrate_table){.rows = 0};
    assert_int_equal(tool_calibrate_table_parse(&t, text, n + 512, NULL, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "line 2, cell 1: more than 511 bytes"));
    memset(text, ',', 256);
    assert_int_equal(tool_calibrate_table_parse(&t, text, 256, NULL, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "line 1, cell 257: a line has at most 256 cells"));
    t = (tool_calibrate_table){.rows = 0};
    assert_int_equal(tool_calibrate_table_parse(&t, text, (size_t)TOOL_CALIBRATE_TABLE_BYTES + 1, NULL, &f),
                     BT_ELIMIT);
}

static void points_are_typed(void **state)
{
    (void)state;
    static const char *const good[] = {"prefill:512=230ms",  "prefill:1K=2s",        "prefill:1000=2000tok/s",
                                       "decode:1@1024=18ms", "decode:8@2048=0.025s", "decode:1@64=50tok/s"};
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"prefill:512=230", "'230' has no unit that is known: ns, us, ms, s or tok/s is needed"},
        {"prefill:512=230parsec", "has no unit that is known"},
        {"prefill:512=0ms", "a time is a number above 0"},
        {"prefill:512=-3ms", "a time is a number above 0"},
        {"prefill:0=3ms", "a prompt of 0 tokens"},
        {"decode:1=18ms", "must be prefill:TOKENS=TIME or decode:BATCH@CONTEXT=TIME"},
        {"decode:8@1024=18tok/s", "tokens a second of a batch may be of one or of all of it"},
        {"decode:5000@1024=18ms", "a step of 5000 sequences"},
        {"prefill:4294968296=3ms", "a prompt of 4294968296 tokens"},
        {"decode:4294967297@1024=18ms", "a step of 4294967297 sequences"},
        {"decode:1@4294968296=18ms", "at 4294968296 positions"},
        {"prefill:512=0.5ns", "0.5 ns is not a time from 1 ns to 11 days"},
        {"prefill:512=999999999999s", "is not a time from 1 ns to 11 days"},
        {"ttft:512=230ms", "must be prefill:TOKENS=TIME"},
        {"prefill:", "must be prefill:TOKENS=TIME"},
        {"", "must be prefill:TOKENS=TIME"},
    };
    tool_calibrate_table t = {.rows = 0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        bt_fault f = {""};
        if (tool_calibrate_table_point(&t, good[i], &f) < 0) fail_msg("%s", f.text);
    }
    assert_int_equal(t.rows, 6);
    expect_prompt(&t, 0, 512, 230);
    expect_prompt(&t, 1, 1024, 2000);
    expect_prompt(&t, 2, 1000, 500);
    expect_step(&t, 0, 1, 1024, 18);
    expect_step(&t, 1, 8, 2048, 25);
    expect_step(&t, 2, 1, 64, 20);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_fault f = {""};
        const bt_err e = tool_calibrate_table_point(&t, bad[i].text, &f);
        if (e != BT_EARG || !strstr(f.text, bad[i].says)) fail_msg("%s: %d %s", bad[i].text, e, f.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_bench_gives_prompts_and_steps),
        cmocka_unit_test(vllm_gives_prompts_of_one_at_a_time_and_steps),
        cmocka_unit_test(aiperf_says_its_units),
        cmocka_unit_test(rows_of_tables_give_prompts_and_steps),
        cmocka_unit_test(rows_of_equal_lengths_count_as_their_mean),
        cmocka_unit_test(rows_of_different_models_are_chosen_by_where),
        cmocka_unit_test(a_suggested_condition_is_one_that_chooses),
        cmocka_unit_test(rows_of_two_texts_are_of_one_model),
        cmocka_unit_test(rows_of_llama_bench_that_ran_otherwise_are_not_averaged),
        cmocka_unit_test(a_row_that_is_left_out_says_why),
        cmocka_unit_test(numbers_of_json_are_cells_too),
        cmocka_unit_test(what_is_no_time_is_refused_with_what_is_needed),
        cmocka_unit_test(more_than_there_is_room_for_is_refused),
        cmocka_unit_test(points_are_typed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
