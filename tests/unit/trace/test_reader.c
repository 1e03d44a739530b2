/* Every format gives the rows that its own files have, and a bad row is named by line, column and value. */
#include "trace/reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static bt_err words(void *ud, uint32_t *ret, const char *text, size_t len, bt_fault *fault)
{
    (void)ud;
    (void)fault;
    *ret = len > 0;
    for (size_t i = 0; i < len; i++) *ret += text[i] == ' ';
    return BT_OK;
}

static bt_trace *begin(FILE **f, const char *text, size_t n, bt_trace_format format, bool skips)
{
    const bt_trace_options o = {.format = format, .skips_bad = skips, .count = words};
    bt_trace *t = NULL;
    bt_fault fault = {""};
    *f = fmemopen((void *)(uintptr_t)text, n, "r");
    assert_non_null(*f);
    if (bt_trace_begin(&t, *f, &o, &fault) < 0) fail_msg("%.80s: %s", text, fault.text);
    return t;
}

typedef struct want {
    int64_t arrival_us, delay_us; /* -1: none */
    uint32_t input;
    int64_t output; /* -1: none */
    const char *session;
    size_t hashes;
    bool is_failed;
} want;

static void expect(const char *text, bt_trace_format format, uint32_t block, const want *w, size_t n)
{
    for (int named = 0; named < 2; named++) {
        FILE *f;
        bt_trace_row r;
        bool is_end;
        bt_fault fault = {""};
        bt_trace *t = begin(&f, text, strlen(text), named ? format : BT_TRACE_AUTO, false);
        assert_int_equal(bt_trace_look(t).format, format);
        for (size_t i = 0; i < n; i++) {
            if (bt_trace_next(&r, &is_end, t, &fault) < 0) fail_msg("%.60s: %s", text, fault.text);
            assert_false(is_end);
            assert_int_equal(r.has_arrival, w[i].arrival_us != -1);
            if (r.has_arrival) assert_int_equal(r.arrival_us, w[i].arrival_us);
            assert_int_equal(r.has_delay, w[i].delay_us != -1);
            if (r.has_delay) assert_int_equal(r.delay_us, w[i].delay_us);
            assert_int_equal(r.input_tokens, w[i].input);
            assert_int_equal(r.has_output, w[i].output != -1);
            if (r.has_output) assert_int_equal(r.output_tokens, w[i].output);
            assert_int_equal(r.is_failed, w[i].is_failed);
            assert_int_equal(r.hash_len, w[i].hashes);
            assert_int_equal(r.block_tokens, block);
            if (w[i].session) assert_string_equal(r.session, w[i].session);
            else assert_null(r.session);
        }
        assert_int_equal(bt_trace_next(&r, &is_end, t, &fault), BT_OK);
        assert_true(is_end);
        assert_int_equal(bt_trace_look(t).rows, n);
        bt_trace_close(t);
        fclose(f);
    }
}
#define EXPECT(text, format, block, ...) \
    do { \
        const want w[] = {__VA_ARGS__}; \
        expect(text, format, block, w, sizeof w / sizeof *w); \
    } while (0)

static void mooncake_rows_have_times_lengths_and_hashes(void **state)
{
    (void)state;
    EXPECT("{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 1, 2]}\n"
           "{\"timestamp\": 3003, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": []}\r\n\n",
           BT_TRACE_MOONCAKE, 0, {0, -1, 6758, 500, NULL, 3, false}, {3003000, -1, 5, 1, NULL, 0, false});
}

static void dynamos_names_sessions_and_delays_are_understood(void **state)
{
    (void)state;
    EXPECT("{\"session_id\": \"a\", \"created_time\": 1.5, \"input_tokens\": 10, \"output_tokens\": 2}\n"
           "{\"session_id\": \"a\", \"delay_ms\": 250.25, \"input_length\": 30, \"output_length\": 3}\n"
           "{\"session_id\": \"a\", \"delay\": 0, \"timestamp\": null, \"input_length\": 30, "
           "\"output_length\": 3}\n",
           BT_TRACE_MOONCAKE, 0, {1500, -1, 10, 2, "a", 0, false}, {-1, 250250, 30, 3, "a", 0, false},
           {-1, 0, 30, 3, "a", 0, false});
}

static void azure_of_2023_and_2024_count_from_their_first_row(void **state)
{
    (void)state;
    EXPECT("TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n"
           "2023-11-16 18:17:04.0319600,3180,8",
           BT_TRACE_AZURE, 0, {0, -1, 4808, 10, NULL, 0, false}, {52000, -1, 3180, 8, NULL, 0, false});
    EXPECT(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 23:59:59.999999+00:00,2162,5\n"
        "2024-05-11 00:00:00.000001+00:00,2399,6\n2024-05-11 02:00:01+02:00,7,6\n2024-02-29T00:00:00Z,1,1\n",
        BT_TRACE_AZURE, 0, {0, -1, 2162, 5, NULL, 0, false}, {2, -1, 2399, 6, NULL, 0, false},
        {1000001, -1, 7, 6, NULL, 0, false}, {-71ll * 86400000000 - 86399999999, -1, 1, 1, NULL, 0, false});
    EXPECT("TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2025-01-01 00:00:00,3,40,5\n", BT_TRACE_AZURE,
           0, {0, -1, 40, 5, NULL, 0, false});
}

static void burstgpt_rows_without_an_answer_have_failed(void **state)
{
    (void)state;
    EXPECT("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log "
           "Type\n5,ChatGPT,472,18,490,Conversation log\n"
           "45.25,GPT-4,1087,0,1087,API log\n",
           BT_TRACE_BURSTGPT, 0, {5000000, -1, 472, 18, NULL, 0, false},
           {45250000, -1, 1087, 0, NULL, 0, true});
    EXPECT("Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
           "1,s9,2,GPT-4,7,8,15,API log\n",
           BT_TRACE_BURSTGPT, 0, {1000000, -1, 7, 8, "s9", 0, false});
}

static void splitwise_and_vidur_have_seconds(void **state)
{
    (void)state;
    EXPECT("request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
           "0,2,0,1,1,4096,32\n1,2,0,3.5,1,2048,8\n",
           BT_TRACE_SPLITWISE, 0, {1000000, -1, 4096, 32, NULL, 0, false},
           {3500000, -1, 2048, 8, NULL, 0, false});
    EXPECT("arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,4808,10\n0.052,3180,8\n", BT_TRACE_VIDUR, 0,
           {0, -1, 4808, 10, NULL, 0, false}, {52000, -1, 3180, 8, NULL, 0, false});
    EXPECT("num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3772,54,3826,69.85\n",
           BT_TRACE_VIDUR, 0, {-1, -1, 3772, 54, NULL, 0, false});
}

/* Cells of RFC 4180: quotes, doubled ones, commas and ends of lines within; behind the mark that some
 * programs write. */
static void quoted_cells_are_what_stands_between_their_quotes(void **state)
{
    (void)state;
    EXPECT("\"TIMESTAMP\",\"ContextTokens\",\"GeneratedTokens\"\n\"2023-11-16 "
           "18:15:46.6805900\",\"374\",\"44\"\r\n"
           "\"2023-11-16 18:15:47.6805900\" , \"396\",\"109\"",
           BT_TRACE_AZURE, 0, {0, -1, 374, 44, NULL, 0, false}, {1000000, -1, 396, 109, NULL, 0, false});
    EXPECT("\xEF\xBB\xBFTIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,2\n", BT_TRACE_AZURE,
           0, {0, -1, 1, 2, NULL, 0, false});
    EXPECT("Timestamp,Session ID,Model,Request tokens,Response tokens,\"Log,\nType\"\n"
           "5,\"a \"\"b\"\", c\",\"GPT-4, turbo\",7,8,\"first\r\n\r\nsecond, \"\"third\"\"\"\n"
           "6,s 5\"9,m,7,8,\"\"\n7,\"\"\"\",,9,1,x\n",
           BT_TRACE_BURSTGPT, 0, {5000000, -1, 7, 8, "a \"b\", c", 0, false},
           {6000000, -1, 7, 8, "s 5\"9", 0, false}, {7000000, -1, 9, 1, "\"", 0, false});
    EXPECT("\"374\",\"0\"\n\"5\" 6\n", BT_TRACE_LENGTHS, 0, {-1, -1, 374, -1, NULL, 0, false},
           {-1, -1, 0, -1, NULL, 0, false}, {-1, -1, 5, -1, NULL, 0, false}, {-1, -1, 6, -1, NULL, 0, false});
    FILE *f;
    static const char rates[] = "\"0\",\"1.5\",\"2\",\"Gamma\",\"1\",\"2\"\n\"600\",0,0,\"\",0,0\n";
    bt_trace *t = begin(&f, rates, sizeof rates - 1, BT_TRACE_AUTO, false);
    bt_trace_rate r;
    bool is_end;
    assert_int_equal(bt_trace_next_rate(&r, &is_end, t, NULL), BT_OK);
    assert_true(r.rate == 1.5 && r.family == BT_TRACE_GAMMA);
    assert_int_equal(bt_trace_next_rate(&r, &is_end, t, NULL), BT_OK);
    assert_int_equal(r.family, BT_TRACE_NO_GAPS);
    bt_trace_close(t);
    fclose(f);
}

/* A row's number is that of its first line, also behind rows of several lines. */
static void rows_of_several_lines_count_each_of_them(void **state)
{
    (void)state;
    static const char text[] =
        "num_prefill_tokens,num_decode_tokens,note\n1,2,\"a\nb\nc\"\n3,4,\"\n\"\n5,x,\n";
    FILE *f;
    bt_trace_row r;
    bool is_end;
    bt_fault fault = {""};
    bt_trace *t = begin(&f, text, sizeof text - 1, BT_TRACE_AUTO, false);
    assert_int_equal(bt_trace_next(&r, &is_end, t, &fault), BT_OK);
    assert_int_equal(r.line, 2);
    assert_int_equal(bt_trace_next(&r, &is_end, t, &fault), BT_OK);
    assert_int_equal(r.line, 5);
    assert_int_equal(bt_trace_next(&r, &is_end, t, &fault), BT_EFORMAT);
    assert_non_null(strstr(fault.text, "line 7"));
    bt_trace_close(t);
    fclose(f);
}

/* 64 KiB of one row at most: a quote that does not end makes its own line bad and no other. */
static void a_quote_that_does_not_end_costs_one_line(void **state)
{
    (void)state;
    enum { ROWS = 40000 };
    static const char head[] = "num_prefill_tokens,num_decode_tokens\n", bad[] = "5,\"6\n", row[] = "1,2\n";
    char *text = malloc(sizeof head + sizeof bad + ROWS * sizeof row);
    assert_non_null(text);
    size_t n = 0;
    memcpy(text, head, sizeof head - 1), n += sizeof head - 1;
    memcpy(text + n, bad, sizeof bad - 1), n += sizeof bad - 1;
    for (size_t i = 0; i < ROWS; i++) memcpy(text + n, row, sizeof row - 1), n += sizeof row - 1;
    FILE *f;
    bt_trace_row r;
    bool is_end = false;
    bt_trace *t = begin(&f, text, n, BT_TRACE_AUTO, true);
    while (!is_end) assert_int_equal(bt_trace_next(&r, &is_end, t, NULL), BT_OK);
    assert_int_equal(bt_trace_look(t).rows, ROWS);
    assert_int_equal(bt_trace_look(t).bad, 1);
    assert_non_null(strstr(bt_trace_look(t).first_bad, "line 2, column '2': '\"6' has a quote"));
    bt_trace_close(t);
    fclose(f);
    free(text);
}

static void counts_may_be_written_as_floats(void **state)
{
    (void)state;
    EXPECT("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374.0,4.4e1\n2023-11-16 "
           "18:15:46,16.,1073741824.000\n2023-11-16 18:15:46,1600E-2,0.0e9\n",
           BT_TRACE_AZURE, 0, {0, -1, 374, 44, NULL, 0, false}, {0, -1, 16, 1073741824, NULL, 0, false},
           {0, -1, 16, 0, NULL, 0, false});
    EXPECT("request_type,arrival_timestamp,batch_size,prompt_size,token_size\n2.0,1,1.0,4096.0,32.0\n",
           BT_TRACE_SPLITWISE, 0, {1000000, -1, 4096, 32, NULL, 0, false});
    EXPECT("16.0 1.6e1\n", BT_TRACE_LENGTHS, 0, {-1, -1, 16, -1, NULL, 0, false},
           {-1, -1, 16, -1, NULL, 0, false});
    EXPECT("{\"timestamp\": 0.0, \"input_length\": 6758.0, \"output_length\": 5e2, \"hash_ids\": [1.0, 2]}\n",
           BT_TRACE_MOONCAKE, 0, {0, -1, 6758, 500, NULL, 2, false});
    EXPECT("{\"chat_id\": 7.0, \"parent_chat_id\": -1.0, \"timestamp\": 1, \"input_length\": 33.0, "
           "\"output_length\": 1}\n",
           BT_TRACE_BAILIAN, 16, {1000000, -1, 33, 1, "7", 0, false});
}

/* Numbers of 64 bits with and without a sign, beyond, and texts; digits in quotes are the number. */
static void ids_are_numbers_of_any_sign_and_size_or_texts(void **state)
{
    (void)state;
    static const char text[] =
        "{\"input_length\": 9000, \"output_length\": 1, \"session_id\": -7, \"note\": \"12345678901234567890 "
        "\\\" 1\", "
        "\"hash_ids\": [0, -1, 18446744073709551615, \"18446744073709551615\", -9223372036854775808, "
        "9223372036854775808, 184467440737095516160, \"184467440737095516160\", \"7\", 7, \"a\", \"b\", "
        "\"a\"]}\n"
        "{\"input_length\": 9, \"output_length\": 1, \"session_id\": 18446744073709551616}\n";
    FILE *f;
    bt_trace_row r;
    bool is_end;
    bt_fault fault = {""};
    bt_trace *t = begin(&f, text, sizeof text - 1, BT_TRACE_AUTO, false);
    if (bt_trace_next(&r, &is_end, t, &fault) < 0) fail_msg("%s", fault.text);
    assert_int_equal(r.hash_len, 13);
    const uint64_t *h = r.hash_ids;
    assert_true(h[0] == 0 && h[1] == UINT64_MAX && h[2] == UINT64_MAX && h[3] == UINT64_MAX);
    assert_true(h[4] == UINT64_C(1) << 63 && h[5] == h[4]);
    assert_true(h[6] == h[7] && h[6] != h[2]);
    assert_true(h[8] == 7 && h[9] == 7);
    assert_true(h[10] == h[12] && h[10] != h[11]);
    assert_string_equal(r.session, "-7");
    if (bt_trace_next(&r, &is_end, t, &fault) < 0) fail_msg("%s", fault.text);
    assert_string_equal(r.session, "18446744073709551616");
    bt_trace_close(t);
    fclose(f);
    EXPECT("{\"chat_id\": -5, \"timestamp\": 1, \"input_length\": 3, \"output_length\": 1}\n"
           "{\"chat_id\": \"x\", \"parent_chat_id\": -5, \"timestamp\": 2, \"input_length\": 4, "
           "\"output_length\": 1}\n"
           "{\"chat_id\": 6, \"parent_chat_id\": \"x\", \"timestamp\": 3, \"input_length\": 5, "
           "\"output_length\": 1}\n"
           "{\"chat_id\": 9, \"parent_chat_id\": \"-1\", \"timestamp\": 3, \"input_length\": 5, "
           "\"output_length\": 1}\n",
           BT_TRACE_BAILIAN, 16, {1000000, -1, 3, 1, "18446744073709551611", 0, false},
           {2000000, -1, 4, 1, "18446744073709551611", 0, false},
           {3000000, -1, 5, 1, "18446744073709551611", 0, false}, {3000000, -1, 5, 1, "9", 0, false});
    EXPECT("{\"id\": 99999999999999999999, \"conversations\": [{\"from\": \"gpt\", \"value\": \"lone\"}, "
           "{\"from\": "
           "\"human\", \"value\": \"a b\"}, {\"from\": \"gpt\", \"value\": \"c\"}]}",
           BT_TRACE_SHAREGPT, 0, {-1, -1, 3, 1, "99999999999999999999", 0, false});
}

static void zones_may_stand_without_a_colon(void **state)
{
    (void)state;
    static const char *const zones[] = {"", "Z", "+00:00", "+0000", "+00", "-0000", " +0000", " UTC", " Z"};
    char text[256];
    const want w[] = {{0, -1, 1, 2, NULL, 0, false}, {60000000, -1, 1, 2, NULL, 0, false}};
    for (size_t i = 0; i < sizeof zones / sizeof *zones; i++) {
        snprintf(text, sizeof text,
                 "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 "
                 "23:59:00.5%s,1,2\n2024-05-11T05:30:00.5+0530,1,2\n",
                 zones[i]);
        expect(text, BT_TRACE_AZURE, 0, w, 2);
    }
}

static void bailian_chats_belong_to_the_first_of_their_session(void **state)
{
    (void)state;
    EXPECT("{\"chat_id\": 159, \"parent_chat_id\": -1, \"timestamp\": 61.114, \"input_length\": 33, "
           "\"output_length\": 132, "
           "\"type\": \"text\", \"turn\": 1, \"hash_ids\": [1, 2, 3]}\n"
           "{\"chat_id\": 160, \"parent_chat_id\": 159, \"timestamp\": 62, \"input_length\": 40, "
           "\"output_length\": 1}\n"
           "{\"chat_id\": 161, \"parent_chat_id\": 160, \"timestamp\": 63, \"input_length\": 50, "
           "\"output_length\": 1}\n"
           "{\"chat_id\": 9, \"timestamp\": 64, \"input_length\": 50, \"output_length\": 1}\n",
           BT_TRACE_BAILIAN, 16, {61114000, -1, 33, 132, "159", 3, false},
           {62000000, -1, 40, 1, "159", 0, false}, {63000000, -1, 50, 1, "159", 0, false},
           {64000000, -1, 50, 1, "9", 0, false});
}

static void sharegpt_has_a_request_for_each_answer_to_all_before(void **state)
{
    (void)state;
    static const char turns[] =
        "{\"id\": \"x_0\", \"conversations\": [{\"from\": \"human\", \"value\": \"two } words\"}, "
        "{\"from\": \"gpt\", \"value\": \"one\"}, {\"from\": \"human\", \"value\": \"and \\\"]\"}, "
        "{\"from\": \"gpt\", \"value\": \"a b c d\"}]}";
    char text[1024];
    const want w[] = {{-1, -1, 3, 1, "x_0", 0, false}, {-1, -1, 6, 4, "x_0", 0, false}};
    snprintf(text, sizeof text,
             " [\n%s,\n {\"id\": \"y\", \"conversations\": [{\"from\": \"gpt\", \"value\": \"lone\"}]}\n]\n",
             turns);
    expect(text, BT_TRACE_SHAREGPT, 0, w, 2);
    snprintf(text, sizeof text, "%s\n", turns); /* one a line */
    expect(text, BT_TRACE_SHAREGPT, 0, w, 2);
}

static void lists_give_lengths_and_nothing_else(void **state)
{
    (void)state;
    static const char *const texts[] = {"374 0\n4808,1073741824", "\n 374\r\n0\r\n\r\n4808\r\n1073741824\r\n",
                                        "374,0, 4808 ,1073741824"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        EXPECT(texts[i], BT_TRACE_LENGTHS, 0, {-1, -1, 374, -1, NULL, 0, false},
               {-1, -1, 0, -1, NULL, 0, false}, {-1, -1, 4808, -1, NULL, 0, false},
               {-1, -1, 1073741824, -1, NULL, 0, false});
}

static void servegen_has_windows_of_rates(void **state)
{
    (void)state;
    static const char text[] =
        "0,1.33166,8.59838,Weibull,0.37535,0.39677\n600,0,0,,0,0\n1200,0.15,4.06,Gamma,45229.9,103.65\n";
    static const bt_trace_rate want_rows[] = {{0, 600, 1.33166, 8.59838, 0.37535, 0.39677, BT_TRACE_WEIBULL},
                                              {600, 1200, 0, 0, 0, 0, BT_TRACE_NO_GAPS},
                                              {1200, 1800, 0.15, 4.06, 45229.9, 103.65, BT_TRACE_GAMMA}};
    FILE *f;
    bt_trace *t = begin(&f, text, sizeof text - 1, BT_TRACE_AUTO, false);
    bt_trace_rate r;
    bt_trace_row row;
    bool is_end;
    assert_int_equal(bt_trace_next(&row, &is_end, t, NULL), BT_EARG);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(bt_trace_next_rate(&r, &is_end, t, NULL), BT_OK);
        assert_false(is_end);
        assert_true(r.start_s == want_rows[i].start_s && r.end_s == want_rows[i].end_s &&
                    r.rate == want_rows[i].rate);
        assert_true(r.cv == want_rows[i].cv && r.shape == want_rows[i].shape &&
                    r.scale == want_rows[i].scale);
        assert_int_equal(r.family, want_rows[i].family);
    }
    assert_int_equal(bt_trace_next_rate(&r, &is_end, t, NULL), BT_OK);
    assert_true(is_end);
    bt_trace_close(t);
    fclose(f);
}

static const struct bad {
    const char *text, *line, *column, *value;
    uint64_t good; /* rows beside the bad one */
} bad_rows[] = {
    {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1,2\n2023-11-16 18:17:04,1,-2\n", "line 3",
     "'GeneratedTokens'", "'-2'", 1},
    {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-31 18:17:03,1,2\n2023-11-16 18:17:04,1,2\n", "line 2",
     "'TIMESTAMP'", "'2023-11-31 18:17:03'", 1},
    {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03 x,1,2\n", "line 2", "'TIMESTAMP'", " x'",
     0},
    {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1\n", "line 2", "2 columns", "has 3", 0},
    {"arrived_at,num_prefill_tokens,num_decode_tokens\nnan,1,1\n0,1073741825,1\n0,1,1\n", "line 2",
     "'arrived_at'", "'nan'", 1},
    {"request_type,arrival_timestamp,batch_size,prompt_size,token_size\n1,1,1,1,1\n2,1,1,1,1\n", "line 2",
     "'request_type'", "'1'", 1},
    {"request_type,arrival_timestamp,batch_size,prompt_size,token_size\n2,1,4,1,1\n", "line 2",
     "'batch_size'", "'4'", 0},
    {"Timestamp,Model,Request tokens,Response tokens\n1,m,seven,8\n", "line 2", "'Request tokens'", "'seven'",
     0},
    {"{\"input_length\": 5, \"output_length\": 1}\n{\"input_length\": \"5\", \"output_length\": 1}\n",
     "line 2", "'input_length'", "'\"5\"'", 1},
    {"{\"input_length\": 5, \"output_length\": 1}\n{\"output_length\": 1}\n", "line 2", "'input_length'",
     "missing", 1},
    {"{\"input_length\": 5, \"input_tokens\": 5, \"output_length\": 1}\n", "line 1", "'input_length'",
     "'input_tokens'", 0},
    {"{\"input_length\": 5, \"output_length\": 1, \"hash_ids\": [1, 2.5]}\n", "line 1", "'hash_ids'", "'2.5'",
     0},
    {"{\"input_length\": 5, \"output_length\": 1, \"delay\": 3}\n", "line 1", "'delay'", "'3'", 0},
    {"{\"input_length\": 5, \"output_length\": 1, \"timestamp\": 1e300}\n", "line 1", "'timestamp'", "'1", 0},
    {"{\"input_length\": 5, \"output_length\": 1}\n{\"input_length\": 5\n{\"input_length\": 5}\n", "line 2",
     "line 2", "", 2},
    {"{\"chat_id\": [], \"timestamp\": 1, \"input_length\": 5, \"output_length\": 1}\n", "line 1",
     "'chat_id'", "'[]'", 0},
    {"{\"input_length\": 5.5, \"output_length\": 1}\n", "line 1", "'input_length'", "'5.5'", 0},
    {"{\"input_length\": 5, \"output_length\": 1, \"hash_ids\": [\"\"]}\n", "line 1", "'hash_ids'", "'\"\"'",
     0},
    {"num_prefill_tokens,num_decode_tokens\n16.5,1\n0.1e1,2\n", "line 2", "'num_prefill_tokens'", "'16.5'",
     1},
    {"num_prefill_tokens,num_decode_tokens\n16.00000000000000000001,1\n", "line 2", "'num_prefill_tokens'",
     "'16.0000", 0},
    {"num_prefill_tokens,num_decode_tokens\n1073741825.0,1\n16e-1,1\n", "line 2", "'num_prefill_tokens'",
     "'1073741825.0'", 0},
    {"num_prefill_tokens,num_decode_tokens\n\"5\"6,1\n5,1\n", "line 2", "column '1'", "quote", 1},
    {"num_prefill_tokens,num_decode_tokens\n5,\"1\n\"6\",\"2\"\n7,1\n", "line 2", "column '2'", "quote", 2},
    {"num_prefill_tokens,num_decode_tokens\n5,\"1\" \"2\n6,\"2\"\n7,1\n", "line 2", "column '2'", "quote", 2},
    {"TIMESTAMP,ContextTokens\n2023-11-16 18:17:03+000,1\n", "line 2", "'TIMESTAMP'", "+000'", 0},
    {"5\n6 seven 8\n", "line 2", "'length'", "'seven'", 3},
    {"5\n6.5\n", "line 2", "'length'", "'6.5'", 1},
    {"[{\"conversations\": [{\"from\": \"human\", \"value\": 5}]}, {\"conversations\": [{\"from\": "
     "\"human\", \"value\": "
     "\"a\"}, {\"from\": \"gpt\", \"value\": \"b\"}]}]",
     "line 1", "'value'", "'5'", 1},
    {"[{\"conversations\": 7}]", "line 1", "'conversations'", "'7'", 0},
};

static void a_bad_row_is_named_and_the_next_call_goes_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_rows / sizeof *bad_rows; i++) {
        const struct bad *b = &bad_rows[i];
        FILE *f;
        bt_trace_row r;
        bool is_end = false;
        uint64_t good = 0;
        bt_fault fault = {""}, first = {""};
        bt_trace *t = begin(&f, b->text, strlen(b->text), BT_TRACE_AUTO, false);
        while (!is_end) {
            const bt_err e = bt_trace_next(&r, &is_end, t, &fault);
            if (e == BT_EFORMAT && !first.text[0]) first = fault;
            else if (e != BT_EFORMAT) assert_int_equal(e, BT_OK);
            good += e == BT_OK && !is_end;
        }
        if (!strstr(first.text, b->line) || !strstr(first.text, b->column) || !strstr(first.text, b->value))
            fail_msg("%s: '%s'", b->text, first.text);
        assert_int_equal(good, b->good);
        bt_trace_close(t);
        fclose(f);
    }
}

static void bad_rows_are_passed_over_and_counted_where_asked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_rows / sizeof *bad_rows; i++) {
        FILE *f;
        bt_trace_row r;
        bool is_end = false;
        bt_trace *t = begin(&f, bad_rows[i].text, strlen(bad_rows[i].text), BT_TRACE_AUTO, true);
        while (!is_end) assert_int_equal(bt_trace_next(&r, &is_end, t, NULL), BT_OK);
        const bt_trace_facts facts = bt_trace_look(t);
        assert_int_equal(facts.rows, bad_rows[i].good);
        assert_true(facts.bad >= 1);
        assert_non_null(strstr(facts.first_bad, bad_rows[i].column));
        bt_trace_close(t);
        fclose(f);
    }
}

static void what_is_like_no_format_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",     "\n \n",   "time,tokens\n1,2\n", "{\"a\": 1}\n",
                                        "-5\n", "\xff\xfe"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const bt_trace_options o = {.format = BT_TRACE_AUTO};
        bt_trace *t = NULL;
        FILE *f = *texts[i] ? fmemopen((void *)(uintptr_t)texts[i], strlen(texts[i]), "r")
                            : fopen("/dev/null", "r");
        assert_int_equal(bt_trace_begin(&t, f, &o, NULL), BT_EFORMAT);
        assert_null(t);
        fclose(f);
    }
}

static void a_column_that_is_missing_or_twice_is_named(void **state)
{
    (void)state;
    static const char *const texts[][2] = {{"arrival_timestamp,prompt_size\n1,2\n", "'token_size'"},
                                           {"ContextTokens,ContextTokens\n1,2\n", "'ContextTokens'"}};
    for (size_t i = 0; i < 2; i++) {
        const bt_trace_options o = {.format = BT_TRACE_AUTO};
        bt_trace *t = NULL;
        bt_fault fault = {""};
        FILE *f = fmemopen((void *)(uintptr_t)texts[i][0], strlen(texts[i][0]), "r");
        assert_int_equal(bt_trace_begin(&t, f, &o, &fault), BT_EFORMAT);
        if (!strstr(fault.text, texts[i][1])) fail_msg("%s", fault.text);
        fclose(f);
    }
}

static void texts_without_a_tokenizer_are_refused(void **state)
{
    (void)state;
    static const char text[] = "[{\"conversations\": []}]";
    const bt_trace_options o = {.format = BT_TRACE_AUTO};
    bt_trace *t = NULL;
    FILE *f = fmemopen((void *)(uintptr_t)text, sizeof text - 1, "r");
    assert_int_equal(bt_trace_begin(&t, f, &o, NULL), BT_EARG);
    fclose(f);
}

/* A line over the limit, between two good rows: named, passed over, and never whole in memory twice. */
static void a_line_that_is_too_long_is_one_bad_row(void **state)
{
    (void)state;
    const size_t n = 17u << 20;
    char *text = malloc(n + 128);
    assert_non_null(text);
    memset(text, ' ', n + 128);
    static const char row[] = "{\"input_length\": 5, \"output_length\": 1}\n";
    memcpy(text, row, sizeof row - 1);
    text[sizeof row - 1] = '{';
    text[n] = '\n';
    memcpy(text + n + 1, row, sizeof row - 1);
    FILE *f;
    bt_trace_row r;
    bool is_end = false;
    bt_trace *t = begin(&f, text, n + sizeof row, BT_TRACE_AUTO, true);
    while (!is_end) assert_int_equal(bt_trace_next(&r, &is_end, t, NULL), BT_OK);
    assert_int_equal(bt_trace_look(t).rows, 2);
    assert_int_equal(bt_trace_look(t).bad, 1);
    assert_non_null(strstr(bt_trace_look(t).first_bad, "line 2: has more than"));
    bt_trace_close(t);
    fclose(f);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mooncake_rows_have_times_lengths_and_hashes),
        cmocka_unit_test(dynamos_names_sessions_and_delays_are_understood),
        cmocka_unit_test(azure_of_2023_and_2024_count_from_their_first_row),
        cmocka_unit_test(burstgpt_rows_without_an_answer_have_failed),
        cmocka_unit_test(splitwise_and_vidur_have_seconds),
        cmocka_unit_test(quoted_cells_are_what_stands_between_their_quotes),
        cmocka_unit_test(rows_of_several_lines_count_each_of_them),
        cmocka_unit_test(a_quote_that_does_not_end_costs_one_line),
        cmocka_unit_test(counts_may_be_written_as_floats),
        cmocka_unit_test(ids_are_numbers_of_any_sign_and_size_or_texts),
        cmocka_unit_test(zones_may_stand_without_a_colon),
        cmocka_unit_test(bailian_chats_belong_to_the_first_of_their_session),
        cmocka_unit_test(sharegpt_has_a_request_for_each_answer_to_all_before),
        cmocka_unit_test(lists_give_lengths_and_nothing_else),
        cmocka_unit_test(servegen_has_windows_of_rates),
        cmocka_unit_test(a_bad_row_is_named_and_the_next_call_goes_on),
        cmocka_unit_test(bad_rows_are_passed_over_and_counted_where_asked),
        cmocka_unit_test(what_is_like_no_format_is_refused),
        cmocka_unit_test(a_column_that_is_missing_or_twice_is_named),
        cmocka_unit_test(texts_without_a_tokenizer_are_refused),
        cmocka_unit_test(a_line_that_is_too_long_is_one_bad_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
