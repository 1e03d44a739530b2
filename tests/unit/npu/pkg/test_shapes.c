/* How prompts are cut. The expected numbers are written by hand; the rule is stated again, the slow way,
 * in `as_the_rule_says`. */
#include "npu/pkg/shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 8192 };

static bt_shapes policy_of(const char *text, size_t ctx)
{
    bt_shapes p = {.shapes = 0};
    bt_fault f = {""};
    if (bt_shapes_parse(&p, text, ctx, &f) < 0) fail_msg("%s: %s", text, f.text);
    return p;
}

static bt_shapes policy(const char *text) { return policy_of(text, CTX); }

static bt_err from_json(bt_shapes *ret, const char *text, const char *json, bt_fault *f)
{
    char *exact = malloc(strlen(json) + 1); /* no byte behind it */
    assert_non_null(exact);
    memcpy(exact, json, strlen(json));
    char *shrunk = realloc(exact, strlen(json) ? strlen(json) : 1);
    const bt_err e = bt_shapes_parse_bytes(ret, text, shrunk, strlen(json), CTX, f);
    free(shrunk);
    return e;
}

static void expect(const char *text, size_t n, const size_t *rows)
{
    const bt_shapes p = policy(text);
    size_t begin = 0, total = 0, launches = 0;
    for (; *rows; rows++) {
        const bt_shapes_chunk c = bt_shapes_next(&p, n, begin);
        assert_int_equal(c.begin, begin);
        assert_int_equal(c.rows, *rows);
        assert_true(c.valid >= 1 && c.valid <= c.rows);
        begin += c.valid;
        total += c.rows;
        launches++;
    }
    assert_int_equal(begin, n);
    assert_int_equal(bt_shapes_rows(&p, n), total);
    assert_int_equal(bt_shapes_launches(&p, n), launches);
}

static void cuts_as_the_table_says(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        size_t n, rows[8];
    } table[] = {
        {NULL, 0, {0}},
        {NULL, 1, {16}},
        {NULL, 15, {16}},
        {NULL, 16, {16}},
        {NULL, 17, {32}},
        {NULL, 33, {64}},
        {NULL, 128, {128}},
        {NULL, 129, {256}},
        {NULL, 255, {256}},
        {NULL, 256, {256}},
        {NULL, 257, {256, 16}},
        {NULL, 600, {256, 256, 128}},
        {NULL, 1024, {256, 256, 256, 256}},
        {"chunk:64+tail", 150, {64, 64, 32}},
        {"chunk:512+tail:32", 513, {512, 32}},
        {"chunk:16+tail", 17, {16, 16}},
        {"chunk:16", 33, {16, 16, 16}},
        {"chunk:64", 65, {64, 64}},
        {"chunk:256", 1, {256}},
        {"chunk:100", 250, {100, 100, 100}},
        {"chunk:1", 2, {1, 1}},
        {"pow2", 1, {16}},
        {"pow2", 600, {1024}},
        {"pow2", 8192, {8192}},
        {"pow2", 8193, {8192, 16}},
        {"max-pad", 1, {8192}},
        {"max-pad", 8192, {8192}},
        {"max-pad", 8193, {8192, 8192}},
        {"range:16-1000", 1, {16}},
        {"range:16-1000", 600, {600}},
        {"range:16-1000", 1000, {1000}},
        {"range:16-1000", 1001, {1000, 16}},
        {"range:16-1000", 1500, {1000, 500}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        expect(table[i].policy, table[i].n, table[i].rows);
}

/* The rule of shapes.h, searched instead of computed. */
static size_t as_the_rule_says(const bt_shapes *p, size_t left, size_t end_of_ctx)
{
    size_t best = 0, largest = 0;
    for (size_t i = 0; i < p->shapes; i++) {
        const size_t seq = p->shape[i].seq;
        if (p->shape[i].ctx && end_of_ctx + (left < seq ? left : seq) > p->shape[i].ctx) continue;
        if (seq > largest) largest = seq;
        if (seq >= left && (!best || seq < best)) best = seq;
    }
    return left > largest ? largest : best;
}

static void selects_the_bucket_of_the_table_around_every_edge(void **state) /* AC-b1 */
{
    (void)state;
    static const char *const texts[] = {"chunk:256+tail", "chunk:512+tail:32", "chunk:64", "pow2", "max-pad"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        const bt_shapes p = policy_of(texts[t], 1000);
        const size_t largest = p.shape[p.shapes - 1].seq;
        assert_int_equal(bt_shapes_rows(&p, 0), 0);
        assert_int_equal(bt_shapes_launches(&p, 0), 0);
        for (size_t n = 1; n <= largest; n++) {
            assert_int_equal(bt_shapes_next(&p, n, 0).rows, as_the_rule_says(&p, n, 0));
            assert_int_equal(bt_shapes_rows(&p, n), as_the_rule_says(&p, n, 0));
            assert_int_equal(bt_shapes_launches(&p, n), 1);
        }
        for (size_t s = 0; s < p.shapes; s++) {
            const size_t seq = p.shape[s].seq,
                         next = s + 1 < p.shapes ? p.shape[s + 1].seq : largest + p.shape[0].seq;
            assert_int_equal(bt_shapes_rows(&p, seq), seq);
            assert_int_equal(bt_shapes_rows(&p, seq + 1), next);
        }
        assert_int_equal(bt_shapes_launches(&p, largest + 1), 2);
    }
}

static void shapes_ascend_and_end(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        size_t ctx, shapes[12];
    } table[] = {
        {NULL, 8192, {16, 32, 64, 128, 256}},
        {NULL, 60, {16, 32, 64}},
        {NULL, 64, {16, 32, 64}},
        {NULL, 1, {16}},
        {"chunk:512+tail:32", 8192, {32, 64, 128, 256, 512}},
        {"chunk:64", 8192, {64}},
        {"chunk:64", 40, {64}},
        {"pow2", 1000, {16, 32, 64, 128, 256, 512, 1024}},
        {"pow2", 1024, {16, 32, 64, 128, 256, 512, 1024}},
        {"pow2", 1025, {16, 32, 64, 128, 256, 512, 1024, 2048}},
        {"max-pad", 1000, {1000}},
        {"range:3-77", 1000, {77}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const bt_shapes p = policy_of(table[i].policy, table[i].ctx);
        size_t n = 0;
        for (; table[i].shapes[n]; n++) assert_int_equal(p.shape[n].seq, table[i].shapes[n]);
        assert_int_equal(p.shapes, n);
    }
    assert_int_equal(policy("range:3-77").shape[0].seq_min, 3);
    assert_string_equal(policy(NULL).text, BT_SHAPES_DEFAULT);
}

static void buckets_double_from_512_to_the_context(void **state)
{
    (void)state;
    static const struct {
        bt_shape shape;
        size_t ctx, buckets[8];
    } table[] = {
        {{16, 16, 0, 1}, 8192, {512, 1024, 2048, 4096, 8192}},
        {{16, 16, 0, 1}, 1000, {512, 1000}},
        {{16, 16, 0, 1}, 512, {512}},
        {{16, 16, 0, 1}, 100, {100}},
        {{256, 256, 0, 1}, 100, {100}},
        {{1024, 1024, 0, 1}, 4096, {1024, 2048, 4096}},
        {{1024, 1024, 0, 1}, 600, {600}},
        {{32, 32, 128, 1}, 8192, {128}},
        {{16, 1000, 0, 1}, 2048, {1024, 2048}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        size_t n = 0;
        for (; table[i].buckets[n]; n++)
            assert_int_equal(bt_shapes_bucket(&table[i].shape, table[i].ctx, n), table[i].buckets[n]);
        for (size_t j = n; j < n + 3; j++)
            assert_int_equal(bt_shapes_bucket(&table[i].shape, table[i].ctx, j), 0);
    }
    const bt_shapes p = policy(NULL);
    assert_int_equal(bt_shapes_specializations(&p, 8192), 25);
}

static void refuses_other_words_and_names_the_policies(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "chunk",
        "chunk:",
        "chunk:+tail",
        "chunk:0",
        "chunk:8193",
        "chunk:64 ",
        "chunk:-64",
        "chunk:64+tai",
        "chunk:64+tail ",
        "chunk:100+tail",
        "chunk:8+tail",
        "chunk:64+tail:",
        "chunk:64+tail:128",
        "chunk:+64",
        "chunk:064",
        "chunk:64+tail:24",
        "chunk:64+tail:0",
        "whole",
        "pow2 ",
        "max-pad:16",
        "range:",
        "range:16",
        "range:16-",
        "range:0-16",
        "range:32-16",
        "range:16-8193",
        "range:16-32x",
        "rows:",
        "enumerated:",
        "Pow2",
        "chunk:99999999999999999999",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_shapes p = {.shapes = 77};
        bt_fault f;
        assert_int_equal(bt_shapes_parse(&p, bad[i], CTX, &f), BT_EARG);
        assert_non_null(strstr(f.text, "chunk:N+tail"));
        assert_non_null(strstr(f.text, "range:MIN-MAX"));
        assert_int_equal(p.shapes, 77);
    }
    bt_shapes p;
    assert_int_equal(bt_shapes_parse(&p, NULL, 0, NULL), BT_EARG);
    assert_int_equal(bt_shapes_parse(&p, NULL, BT_SHAPES_MAX_SEQ + 1, NULL), BT_EARG);
    assert_int_equal(bt_shapes_parse(&p, "rows:no-such-file.json", CTX, NULL), BT_EIO);
}

/* want: seq, ctx, batch; the first `alone` are what a prompt alone is cut into; 0: all. */
static void expect_table(const char *text, const char *json, size_t alone, const uint32_t (*want)[3])
{
    bt_shapes p;
    bt_fault f = {""};
    size_t n = 0;
    if (from_json(&p, text, json, &f) < 0) fail_msg("%s: %s", json, f.text);
    for (; want[n][0]; n++) {
        assert_int_equal(p.shape[n].seq_min, want[n][0]);
        assert_int_equal(p.shape[n].seq, want[n][0]);
        assert_int_equal(p.shape[n].ctx, want[n][1]);
        assert_int_equal(p.shape[n].batch, want[n][2]);
    }
    assert_int_equal(p.all, n);
    assert_int_equal(p.shapes, alone ? alone : n);
    assert_string_equal(p.text, text);
}
#define ROW(batch, seq, ctx) "{\"batch_size\":" #batch ",\"seq_len\":" #seq ",\"ctx_len\":" #ctx "}"
#define ROW_OF(batch, seq, ctx, full) \
    "{\"batch_size\":" #batch ",\"seq_len\":" #seq ",\"ctx_len\":" #ctx ",\"full_batch_size\":" #full "}"

static void reads_network_specializations(void **state)
{
    (void)state;
    expect_table("rows:a", "[" ROW(1, 32, 128) "," ROW(1, 1, 128) "]", 1,
                 (const uint32_t[][3]){{32, 128, 1}, {1, 128, 1}, {0}});
    expect_table("rows:a",
                 "{\"specializations\":[{\"batch_size\":\"1\",\"seq_len\":\"256\",\"ctx_len\":\"4096\","
                 "\"full_batch_size\":\"8\"},"
                 "{\"batch_size\":\"8\",\"seq_len\":\"1\",\"ctx_len\":\"4096\"}," ROW(1, 64, 512) "," ROW(
                     1, 64, 256) "," ROW(1, 64, 512) "]}",
                 3, (const uint32_t[][3]){{64, 256, 1}, {64, 512, 1}, {256, 4096, 1}, {1, 4096, 8}, {0}});
    /* only seq_len 1: prompts run in them too */
    expect_table("rows:a", "[" ROW(1, 1, 128) "]", 1, (const uint32_t[][3]){{1, 128, 1}, {0}});
    expect_table("rows:a", "[" ROW(4, 1, 128) "," ROW(1, 1, 128) "]", 1,
                 (const uint32_t[][3]){{1, 128, 1}, {1, 128, 4}, {0}});
    /* batches of prompts; without continuous batching prefill and decode rows have the same one */
    expect_table("rows:a", "[" ROW(4, 32, 128) "," ROW(4, 1, 128) "]", 1,
                 (const uint32_t[][3]){{32, 128, 4}, {1, 128, 4}, {0}});
    expect_table(
        "rows:a",
        "[" ROW(4, 64, 128) "," ROW(1, 64, 128) "," ROW(1, 1, 128) "," ROW(4, 32, 128) "," ROW(1, 32,
                                                                                               128) "]",
        2, (const uint32_t[][3]){{32, 128, 1}, {64, 128, 1}, {1, 128, 1}, {32, 128, 4}, {64, 128, 4}, {0}});
}

static void full_batch_size_is_the_batch_of_a_decode_row(void **state)
{
    (void)state;
    expect_table("rows:a", "[" ROW_OF(1, 32, 128, 16) "," ROW_OF(16, 1, 128, 16) "]", 1,
                 (const uint32_t[][3]){{32, 128, 1}, {1, 128, 16}, {0}});
    expect_table("rows:a", "[" ROW_OF(1, 32, 128, 16) "," ROW_OF(1, 1, 128, 16) "]", 1,
                 (const uint32_t[][3]){{32, 128, 1}, {1, 128, 16}, {0}});
    expect_table("rows:a", "[" ROW_OF(1, 32, 128, 16) "," ROW_OF(16, 1, 128, 1) "]", 1,
                 (const uint32_t[][3]){{32, 128, 1}, {1, 128, 16}, {0}});
}

static void a_batch_of_prompts_is_cut_by_the_smallest_shape_that_holds_it(void **state)
{
    (void)state;
    bt_shapes p, of;
    assert_int_equal(from_json(&p, "rows:a",
                               "[" ROW(1, 32, 512) "," ROW(8, 1, 512) "," ROW(2, 16, 512) "," ROW(
                                   4, 16, 64) "," ROW(4, 32, 128) "]",
                               NULL),
                     BT_OK);
    static const struct {
        size_t prompts, batch, shapes;
    } want[] = {{1, 1, 1}, {2, 2, 1}, {3, 4, 2}, {4, 4, 2}, {5, 4, 2}, {100, 4, 2}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        bt_shapes_batch(&of, &p, want[i].prompts);
        assert_int_equal(of.shapes, want[i].shapes);
        assert_int_equal(of.all, want[i].shapes);
        for (size_t n = 0; n < of.shapes; n++) assert_int_equal(of.shape[n].batch, want[i].batch);
    }
    /* the longest decides; every chunk's end has to fit: at 60 of 64 the smaller shape's ctx is too short */
    assert_int_equal(bt_shapes_next_batch(&of, (const bt_shapes_left[]){{0, 9}, {0, 16}}, 2), 16);
    assert_int_equal(bt_shapes_next_batch(&of, (const bt_shapes_left[]){{0, 9}, {0, 17}}, 2), 32);
    assert_int_equal(bt_shapes_next_batch(&of, (const bt_shapes_left[]){{0, 9}, {60, 66}}, 2), 32);
    assert_int_equal(bt_shapes_next_batch(&of, (const bt_shapes_left[]){{0, 9}, {50, 64}}, 2), 16);
}

static void a_packages_rows_make_the_same_table(void **state)
{
    (void)state;
    bt_shapes p, again;
    const char *json =
        "[" ROW(1, 32, 128) "," ROW(1, 32, 512) "," ROW(1, 1, 512) "," ROW(4, 32, 512) "," ROW(8, 1, 512) "]";
    assert_int_equal(from_json(&p, "rows:a", json, NULL), BT_OK);
    assert_int_equal(p.all, 5);
    assert_int_equal(bt_shapes_of_rows(&again, p.text, p.shape, p.all, NULL), BT_OK);
    static const bt_shape want[] = {{32, 32, 512, 1}, {1, 1, 512, 1}, {32, 32, 512, 4}, {1, 1, 512, 8}};
    assert_int_equal(again.shapes, 1); /* of two contexts the larger one */
    assert_int_equal(again.all, 4);
    assert_memory_equal(again.shape, want, sizeof want);
    /* in a policy that is no file of rows, one row is a prompt's tail */
    assert_int_equal(bt_shapes_of_rows(&again, "chunk:32+tail:1", want, 2, NULL), BT_OK);
    assert_int_equal(again.shapes, 2);
    assert_int_equal(bt_shapes_next(&again, 33, 32).rows, 1);
    assert_int_equal(bt_shapes_next(&p, 33, 32).rows, 32);
    assert_int_equal(bt_shapes_of_rows(&again, "x", (const bt_shape[]){{1, 1, 0, 0}}, 1, NULL), BT_EARG);
}

static void reads_enumerated_shapes(void **state)
{
    (void)state;
    expect_table("enumerated:a", "[64, 16, 100]", 0,
                 (const uint32_t[][3]){{16, 0, 1}, {64, 0, 1}, {100, 0, 1}, {0}});
    expect_table("enumerated:a", "[[64, 1024], [16, 512], [1, 512]]", 0,
                 (const uint32_t[][3]){{1, 512, 1}, {16, 512, 1}, {64, 1024, 1}, {0}});
    expect_table("enumerated:a",
                 "{\"ids\": [16, 64], \"mask\": [[16, 512], [64, 1024]], \"positions\": [16, 64]}", 0,
                 (const uint32_t[][3]){{16, 512, 1}, {64, 1024, 1}, {0}});
}

static void refuses_a_hostile_file_and_names_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *json, *place;
    } bad[] = {
        {"rows:a", "", "line 1"},
        {"rows:a", "[\n\n{]", "line 3"},
        {"rows:a", "[]", "empty"},
        {"rows:a", "7", "line 1"},
        {"rows:a", "{\"rows\":[]}", "specializations"},
        {"rows:a", "[7]", "row 1"},
        {"rows:a", "[{\"batch_size\":1,\"seq_len\":32}]", "row 1: ctx_len is missing"},
        {"rows:a", "[{\"batch_size\":1,\"seq_len\":32,\"ctx_len\":128,\"sequence\":2}]", "'sequence'"},
        {"rows:a", "[{\"batch_size\":1,\"seq_len\":32,\"ctx_len\":128,\"\\u001b[31m\":2}]", "'?'"},
        {"rows:a", "[{\"batch_size\":1,\"seq_len\":0,\"ctx_len\":128}]", "row 1: seq_len"},
        {"rows:a", "[{\"batch_size\":1,\"seq_len\":-3,\"ctx_len\":128}]", "row 1: seq_len"},
        {"rows:a", "[{\"batch_size\":1,\"seq_len\":1e2,\"ctx_len\":128}]", "row 1: seq_len"},
        {"rows:a", "[{\"batch_size\":1,\"seq_len\":\"32 \",\"ctx_len\":128}]", "row 1: seq_len"},
        {"rows:a", "[{\"batch_size\":1,\"seq_len\":99999999999,\"ctx_len\":128}]", "row 1: seq_len"},
        {"rows:a", "[{\"batch_size\":1,\"seq_len\":32,\"ctx_len\":null}]", "row 1: ctx_len"},
        {"rows:a", "[{\"batch_size\":1,\"seq_len\":32,\"seq_len\":32,\"ctx_len\":128}]", "duplicate"},
        {"rows:a", "[" ROW(1, 32, 128) "," ROW(0, 32, 128) "]", "row 2: batch_size must"},
        {"rows:a", "[" ROW(1, 32, 128) "," ROW(1025, 1, 128) "]",
         "row 2: batch_size must be a whole number from 1 to 1024"},
        {"rows:a", "[" ROW_OF(1, 32, 128, 1025) "]", "row 1: full_batch_size"},
        {"rows:a", "[" ROW_OF(4, 1, 128, 8) "]", "row 1: batch_size 4 and full_batch_size 8"},
        {"rows:a", "[{\"batch_size\":1,\"seq_len\":256,\"ctx_len\":128}]", "row 1: seq 256"},
        {"enumerated:a", "[]", "no shape"},
        {"enumerated:a", "{}", "no input"},
        {"enumerated:a", "{\"a\":[]}", "no shape"},
        {"enumerated:a", "{\"a\":3}", "input 'a'"},
        {"enumerated:a", "\"16\"", "line 1"},
        {"enumerated:a", "[16, [32, 512]]", "shape 2"},
        {"enumerated:a", "[16, [32, 512, 3]]", "shape 2"},
        {"enumerated:a", "[16, true]", "shape 2"},
        {"enumerated:a", "[[64, 32]]", "shape 1: seq 64"},
        {"enumerated:a", "{\"a\":[16,32],\"b\":[16]}", "'b' has 1 shapes and 'a' has 2"},
        {"enumerated:a", "{\"a\":[16,32],\"b\":[32,16]}", "input 'b', shape 1"},
        {"enumerated:a", "{\"a\":[[16,512]],\"b\":[[16,1024]]}", "input 'b', shape 1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_shapes p = {.shapes = 77};
        bt_fault f = {""};
        const bt_err e = from_json(&p, bad[i].text, bad[i].json, &f);
        if (e != BT_EFORMAT || !strstr(f.text, bad[i].place))
            fail_msg("%s: %d '%s'", bad[i].json, (int)e, f.text);
        assert_int_equal(p.shapes, 77);
    }
    bt_shapes p;
    bt_fault f;
    assert_int_equal(from_json(&p, "rows:a", "[{\"batch_size\":1,\"seq_len\":32,\"ctx_len\":16384}]", &f),
                     BT_ELIMIT);
    assert_true(strstr(f.text, "16384") && strstr(f.text, "8192"));
    assert_int_equal(from_json(&p, "rows:a", "[" ROW(1024, 8192, 8192) "]", &f), BT_ELIMIT);
    assert_true(strstr(f.text, "row 1: batch_size 1024 times seq_len 8192") != NULL);
    assert_int_equal(bt_shapes_parse_bytes(&p, "pow2", "[16]", 4, CTX, NULL), BT_EARG);
    assert_int_equal(bt_shapes_parse_bytes(&p, "rows:a", "[\"\0\"]", 5, CTX, NULL), BT_EFORMAT);
}

static void the_129th_enumerated_shape_is_refused(void **state) /* AC-g1 */
{
    (void)state;
    for (int count = BT_SHAPES_MAX; count <= BT_SHAPES_MAX + 1; count++)
        for (int form = 0; form < 3; form++) { /* lengths, pairs, two inputs */
            char json[8192] = "";
            size_t at = 0;
            bt_shapes p = {.shapes = 0};
            bt_fault f;
            if (form == 2) at += (size_t)snprintf(json, sizeof json, "{\"a\":");
            for (int input = 0; input < (form == 2 ? 2 : 1); input++) {
                if (input) at += (size_t)snprintf(json + at, sizeof json - at, ",\"b\":");
                for (int i = 0; i < count; i++)
                    at += (size_t)snprintf(json + at, sizeof json - at, form ? "%c[%d, 8192]" : "%c%d",
                                           i ? ',' : '[', i + 1);
                at += (size_t)snprintf(json + at, sizeof json - at, "]");
            }
            if (form == 2) snprintf(json + at, sizeof json - at, "}");
            if (count <= BT_SHAPES_MAX) {
                assert_int_equal(from_json(&p, "enumerated:a", json, &f), BT_OK);
                assert_int_equal(p.shapes, BT_SHAPES_MAX);
            } else {
                assert_int_equal(from_json(&p, "enumerated:a", json, &f), BT_ELIMIT);
                assert_non_null(strstr(f.text, "shape 129"));
            }
        }
}

static void reads_files_and_keeps_their_names_without_folders(void **state)
{
    (void)state;
    char path[] = "shapes-test-XXXXXX", text[64];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "[16, 48]\n", 9), 9);
    close(fd);
    snprintf(text, sizeof text, "enumerated:./%s", path);
    const bt_shapes p = policy(text);
    snprintf(text, sizeof text, "enumerated:%s", path);
    assert_string_equal(p.text, text);
    assert_int_equal(p.shapes, 2);
    assert_int_equal(p.shape[1].seq, 48);
    assert_int_equal(unlink(path), 0);
}

static void a_shape_with_a_context_is_used_only_where_it_holds_the_end(void **state)
{
    (void)state;
    bt_shapes p;
    assert_int_equal(from_json(&p, "enumerated:a", "[[16, 512], [16, 64], [32, 128], [256, 1024]]", NULL),
                     BT_OK);
    static const size_t cases[][3] = {
        /* n, begin, rows */
        {10, 0, 16},     {20, 0, 32},    {40, 0, 256},     {128, 100, 32},    {129, 100, 256},
        {513, 505, 256}, {512, 505, 16}, {1024, 800, 256}, {2000, 1024, 256},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bt_shapes_chunk c = bt_shapes_next(&p, cases[i][0], cases[i][1]);
        assert_int_equal(c.rows, cases[i][2]);
    }
    for (size_t n = 1; n <= 3000; n += 7) { /* the sums, chunk by chunk */
        size_t begin = 0, rows = 0, launches = 0;
        while (begin < n) {
            const bt_shapes_chunk c = bt_shapes_next(&p, n, begin);
            if (begin < 1024 && n <= 1024) assert_int_equal(c.rows, as_the_rule_says(&p, n - begin, begin));
            begin += c.valid;
            rows += c.rows;
            launches++;
        }
        assert_int_equal(bt_shapes_rows(&p, n), rows);
        assert_int_equal(bt_shapes_launches(&p, n), launches);
    }
    const size_t most = SIZE_MAX / 1024 + 1; /* a multiple of 256 on every machine */
    assert_int_equal(bt_shapes_launches(&p, most), 4 + (most - 1024) / 256);
}

static void shapes_made_again_from_their_rows_cut_the_same(void **state)
{
    (void)state;
    static const char *const texts[] = {"chunk:256+tail", "chunk:100",   "pow2",
                                        "max-pad",        "range:5-200", "enumerated:a"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        bt_shapes p, again;
        bt_shape rows[64];
        size_t n = 0;
        if (t == 5)
            assert_int_equal(from_json(&p, texts[t], "[[16, 512], [16, 64], [32, 128], [256, 8192]]", NULL),
                             BT_OK);
        else p = policy(texts[t]);
        for (size_t s = p.shapes; s-- > 0;) {
            size_t ctx;
            for (size_t i = 0; (ctx = bt_shapes_bucket(&p.shape[s], CTX, i)) != 0; i++)
                rows[n++] = (bt_shape){p.shape[s].seq_min, p.shape[s].seq, (uint32_t)ctx, 1};
        }
        assert_int_equal(bt_shapes_of_rows(&again, p.text, rows, n, NULL), BT_OK);
        assert_string_equal(again.text, p.text);
        for (size_t len = 1; len <= CTX; len += 61)
            for (size_t begin = 0; begin < len; begin += 97) {
                const bt_shapes_chunk a = bt_shapes_next(&p, len, begin),
                                      b = bt_shapes_next(&again, len, begin);
                assert_int_equal(a.rows, b.rows);
                assert_int_equal(a.valid, b.valid);
            }
    }
    bt_shapes p;
    bt_shape many[BT_SHAPES_MAX + 1];
    for (uint32_t i = 0; i <= BT_SHAPES_MAX; i++) many[i] = (bt_shape){i + 1, i + 1, 0, 1};
    assert_int_equal(bt_shapes_of_rows(&p, "x", many, BT_SHAPES_MAX, NULL), BT_OK);
    assert_int_equal(bt_shapes_of_rows(&p, "x", many, BT_SHAPES_MAX + 1, NULL), BT_ELIMIT);
    assert_int_equal(bt_shapes_of_rows(&p, "x", many, 0, NULL), BT_EARG);
    assert_int_equal(bt_shapes_of_rows(&p, "x", (const bt_shape[]){{1, 20, 0, 1}, {16, 16, 0, 1}}, 2, NULL),
                     BT_EARG);
    assert_int_equal(bt_shapes_of_rows(&p, "x", (const bt_shape[]){{16, 16, 0, 1}, {1, 20, 0, 1}}, 2, NULL),
                     BT_EARG);
    assert_int_equal(bt_shapes_of_rows(&p, "x", (const bt_shape[]){{17, 16, 0, 1}}, 1, NULL), BT_EARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_as_the_table_says),
        cmocka_unit_test(selects_the_bucket_of_the_table_around_every_edge),
        cmocka_unit_test(shapes_ascend_and_end),
        cmocka_unit_test(buckets_double_from_512_to_the_context),
        cmocka_unit_test(refuses_other_words_and_names_the_policies),
        cmocka_unit_test(reads_network_specializations),
        cmocka_unit_test(full_batch_size_is_the_batch_of_a_decode_row),
        cmocka_unit_test(a_batch_of_prompts_is_cut_by_the_smallest_shape_that_holds_it),
        cmocka_unit_test(a_packages_rows_make_the_same_table),
        cmocka_unit_test(reads_enumerated_shapes),
        cmocka_unit_test(refuses_a_hostile_file_and_names_the_place),
        cmocka_unit_test(the_129th_enumerated_shape_is_refused),
        cmocka_unit_test(reads_files_and_keeps_their_names_without_folders),
        cmocka_unit_test(a_shape_with_a_context_is_used_only_where_it_holds_the_end),
        cmocka_unit_test(shapes_made_again_from_their_rows_cut_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
