/* The GGUF reader: files made here byte by byte, then truncated, flipped and made to lie. */
#include "model/gguf.h"
#include "base/num.h"
#include "base/rng.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void small_f32(tiny_gguf *w, const char *name, uint64_t n)
{
    float v[64] = {0};
    tiny_gguf_tensor(w, name, 0, &n, 1, v, n * sizeof *v);
}

static bt_gguf *accept(uint8_t *b, size_t len)
{
    bt_gguf *g = NULL;
    bt_fault f = {""};
    if (bt_gguf_open_bytes(&g, b, len, &f) < 0) fail_msg("%s", f.text);
    return g;
}

/* Opens and expects the error, with the words in its text. Frees b. */
static void refuse(uint8_t *b, size_t len, bt_err want, const char *words)
{
    bt_gguf *g = NULL;
    bt_fault f = {""};
    const bt_err e = bt_gguf_open_bytes(&g, b, len, &f);
    if (e != want || !strstr(f.text, words))
        fail_msg("got %d '%s', wanted %d with '%s'", e, f.text, want, words);
    assert_null(g);
    free(b);
}

static void check_typed_reads(const bt_gguf *g)
{
    uint64_t u = 0;
    float f = 0;
    bool yes = false;
    bt_gguf_str s = {0};
    const bt_gguf_array *a = NULL;
    assert_int_equal(bt_gguf_require_u64(&u, g, "int.6", NULL), BT_OK);
    assert_true(u == UINT64_C(1) << 63);
    assert_int_equal(bt_gguf_require_u64(&u, g, "int.7", NULL), BT_EFORMAT);
    assert_int_equal(bt_gguf_require_f32(&f, g, "f", NULL), BT_OK);
    assert_true(f == 2.5f);
    assert_int_equal(bt_gguf_bool_or(&yes, g, "yes", false, NULL), BT_OK);
    assert_true(yes);
    assert_int_equal(bt_gguf_require_str(&s, g, "s", NULL), BT_OK);
    assert_int_equal(s.len, 4);
    assert_memory_equal(s.ptr, "text", 4);
    assert_int_equal(bt_gguf_find_array(&a, g, "list", BT_GGUF_STRING, false, NULL), BT_OK);
    assert_int_equal(bt_gguf_array_count(a), 3);
    assert_int_equal(bt_gguf_array_str(a, 1).len, 0);
    assert_memory_equal(bt_gguf_array_str(a, 2).ptr, "ccc", 3);
    assert_int_equal(bt_gguf_find_array(&a, g, "floats", BT_GGUF_F32, false, NULL), BT_OK);
    assert_true(bt_gguf_array_f32(a, 1) == -2.0f);
    assert_int_equal(bt_gguf_find_array(&a, g, "ints", BT_GGUF_I32, false, NULL), BT_OK);
    assert_int_equal(bt_gguf_array_i32(a, 0), -5);
}

static void every_kind_of_value_comes_back_as_written(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        uint8_t bytes[8];
        size_t len;
        const char *text;
    } ints[] = {
        {BT_GGUF_U8, {200}, 1, "200"},
        {BT_GGUF_I8, {0x80}, 1, "-128"},
        {BT_GGUF_U16, {0x34, 0xff}, 2, "65332"},
        {BT_GGUF_I16, {0xff, 0xff}, 2, "-1"},
        {BT_GGUF_U32, {1, 0, 0, 0x80}, 4, "2147483649"},
        {BT_GGUF_I32, {0, 0, 0, 0x80}, 4, "-2147483648"},
        {BT_GGUF_U64, {0, 0, 0, 0, 0, 0, 0, 0x80}, 8, "9223372036854775808"},
        {BT_GGUF_I64, {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 8, "-2"},
        {BT_GGUF_F64, {0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, 8, "1.5"},
    };
    for (uint32_t version = 2; version <= 3; version++) {
        tiny_gguf *w = tiny_gguf_new(version, 64);
        for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
            char key[16];
            snprintf(key, sizeof key, "int.%zu", i);
            tiny_gguf_raw(w, key, ints[i].type, ints[i].bytes, ints[i].len);
        }
        tiny_gguf_f32(w, "f", 2.5f);
        tiny_gguf_bool(w, "yes", true);
        tiny_gguf_str(w, "s", "text");
        tiny_gguf_str(w, "empty", "");
        tiny_gguf_strs(w, "list", (const char *[]){"a", "", "ccc"}, 3);
        tiny_gguf_f32s(w, "floats", (float[]){1.0f, -2.0f}, 2);
        tiny_gguf_i32s(w, "ints", (int32_t[]){-5, 7}, 2);
        small_f32(w, "t.one", 3);
        small_f32(w, "t.two", 40);
        size_t len;
        uint8_t *b = tiny_gguf_finish(w, &len);
        bt_gguf *g = accept(b, len);
        assert_int_equal(bt_gguf_version(g), version);
        assert_int_equal(bt_gguf_file_bytes(g), len);
        char text[64];
        for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
            char key[16];
            snprintf(key, sizeof key, "int.%zu", i);
            const int64_t at = bt_gguf_find_key(g, key);
            assert_true(at >= 0);
            assert_string_equal(bt_gguf_key_name(g, (size_t)at), key);
            assert_int_equal(bt_gguf_key_text(text, sizeof text, g, (size_t)at), strlen(ints[i].text));
            assert_string_equal(text, ints[i].text);
        }
        check_typed_reads(g);
        const bt_gguf_tensor *t = bt_gguf_find_tensor(g, "t.two");
        assert_non_null(t);
        assert_int_equal(t->rows, 1);
        assert_int_equal(t->bytes, 160);
        assert_ptr_equal(t->data + t->bytes, b + len);
        assert_int_equal((t->data - b) % 64, 0);
        assert_null(bt_gguf_find_tensor(g, "t.three"));
        bt_gguf_close(g);
        free(b);
    }
}

static void missing_and_mistyped_keys_are_named(void **state)
{
    (void)state;
    tiny_gguf *w = tiny_gguf_new(3, 0);
    tiny_gguf_str(w, "word", "x");
    tiny_gguf_u32(w, "number", 5);
    tiny_gguf_strs(w, "list", (const char *[]){"a"}, 1);
    size_t len;
    uint8_t *b = tiny_gguf_finish(w, &len);
    bt_gguf *g = accept(b, len);
    bt_fault f;
    uint64_t u = 77;
    float x = 7;
    bool yes = true;
    bt_gguf_str s = {0};
    const bt_gguf_array *a = NULL;
    assert_int_equal(bt_gguf_require_u64(&u, g, "absent", &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "'absent'"));
    assert_int_equal(bt_gguf_u64_or(&u, g, "word", 3, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "'word'"));
    assert_int_equal(u, 77);
    assert_int_equal(bt_gguf_u64_or(&u, g, "absent", 3, &f), BT_OK);
    assert_int_equal(u, 3);
    assert_int_equal(bt_gguf_require_f32(&x, g, "number", &f), BT_EFORMAT);
    assert_int_equal(bt_gguf_f32_or(&x, g, "absent", 1.5f, &f), BT_OK);
    assert_true(x == 1.5f);
    assert_int_equal(bt_gguf_bool_or(&yes, g, "number", false, &f), BT_EFORMAT);
    assert_int_equal(bt_gguf_require_str(&s, g, "number", &f), BT_EFORMAT);
    assert_int_equal(bt_gguf_str_or(&s, g, "absent", "dflt", &f), BT_OK);
    assert_int_equal(s.len, 4);
    assert_int_equal(bt_gguf_find_array(&a, g, "list", BT_GGUF_I32, true, &f), BT_EFORMAT);
    assert_int_equal(bt_gguf_find_array(&a, g, "word", BT_GGUF_I32, true, &f), BT_EFORMAT);
    assert_int_equal(bt_gguf_find_array(&a, g, "absent", BT_GGUF_I32, false, &f), BT_EFORMAT);
    assert_int_equal(bt_gguf_find_array(&a, g, "absent", BT_GGUF_I32, true, &f), BT_OK);
    assert_null(a);
    assert_int_equal(bt_gguf_array_count(a), 0);
    bt_gguf_close(g);
    free(b);
}

static void refuses_what_is_no_gguf_of_version_2_or_3(void **state)
{
    (void)state;
    static const uint32_t versions[] = {0, 1, 4, 0x03000000};
    static const char *const words[] = {"version 0", "version 1", "version 4", "big-endian"};
    for (size_t i = 0; i < 4; i++) {
        size_t len;
        uint8_t *b = tiny_gguf_finish(tiny_gguf_new(versions[i], 0), &len);
        refuse(b, len, BT_EVERSION, words[i]);
    }
    size_t len;
    uint8_t *b = tiny_gguf_finish(tiny_gguf_new(3, 0), &len);
    b[0] = 'g';
    refuse(b, len, BT_EFORMAT, "not a GGUF");
}

static void refuses_names_that_repeat_are_empty_or_could_upset_a_terminal(void **state)
{
    (void)state;
    size_t len;
    tiny_gguf *w = tiny_gguf_new(3, 0);
    tiny_gguf_u32(w, "k", 1);
    tiny_gguf_u32(w, "k", 2);
    uint8_t *b = tiny_gguf_finish(w, &len);
    refuse(b, len, BT_EFORMAT, "'k' appears twice");
    w = tiny_gguf_new(3, 0);
    small_f32(w, "t", 1);
    small_f32(w, "t", 1);
    b = tiny_gguf_finish(w, &len);
    refuse(b, len, BT_EFORMAT, "'t' appears twice");
    w = tiny_gguf_new(3, 0);
    tiny_gguf_u32(w, "", 1);
    b = tiny_gguf_finish(w, &len);
    refuse(b, len, BT_EFORMAT, "0 bytes");
    w = tiny_gguf_new(3, 0);
    tiny_gguf_u32(w, "a\033[2J", 1);
    b = tiny_gguf_finish(w, &len);
    refuse(b, len, BT_EFORMAT, "control byte");
    char name[140];
    memset(name, 'x', sizeof name);
    name[128] = 0;
    w = tiny_gguf_new(3, 0);
    small_f32(w, name, 1);
    b = tiny_gguf_finish(w, &len);
    refuse(b, len, BT_EFORMAT, "128 bytes");
}

static void refuses_values_of_unknown_or_nested_types(void **state)
{
    (void)state;
    static const uint8_t two = 2, nested[12] = {9}, strange[12] = {13},
                         bools[13] = {7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3};
    const struct {
        uint32_t type;
        const void *p;
        size_t len;
        bt_err e;
        const char *words;
    } cases[] = {
        {13, &two, 1, BT_EFORMAT, "unknown type 13"},    {7, &two, 1, BT_EFORMAT, "neither 0 nor 1"},
        {9, nested, 12, BT_EVERSION, "array of arrays"}, {9, strange, 12, BT_EFORMAT, "unknown type 13"},
        {9, bools, 13, BT_EFORMAT, "neither 0 nor 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_gguf *w = tiny_gguf_new(3, 0);
        tiny_gguf_raw(w, "k", cases[i].type, cases[i].p, cases[i].len);
        size_t len;
        uint8_t *b = tiny_gguf_finish(w, &len);
        refuse(b, len, cases[i].e, cases[i].words);
    }
}

static void refuses_counts_that_the_file_cannot_hold_before_allocating(void **state)
{
    (void)state;
    static const uint64_t lies[] = {65537, UINT64_C(1) << 32, UINT64_C(1) << 61, UINT64_MAX, 1000};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        size_t len;
        tiny_gguf *w = tiny_gguf_new(3, 0);
        tiny_gguf_u32(w, "k", 1);
        uint8_t *b = tiny_gguf_finish(w, &len);
        bt_put64(b + 8, lies[i]);
        refuse(b, len, BT_EFORMAT, "tensors claimed");
        w = tiny_gguf_new(3, 0);
        b = tiny_gguf_finish(w, &len);
        bt_put64(b + 16, lies[i]);
        refuse(b, len, BT_EFORMAT, "keys claimed");
        for (uint32_t type = 0; type <= 12; type++) {
            /* an array that claims too much, of each element type */
            if (type == 9) continue;
            uint8_t head[12];
            bt_put32(head, type);
            bt_put64(head + 4, lies[i]);
            w = tiny_gguf_new(3, 0);
            tiny_gguf_raw(w, "k", 9, head, sizeof head);
            b = tiny_gguf_finish(w, &len);
            refuse(b, len, BT_EFORMAT, "claims");
        }
        uint8_t text[8];
        bt_put64(text, lies[i]);
        w = tiny_gguf_new(3, 0);
        tiny_gguf_raw(w, "k", 8, text, sizeof text);
        b = tiny_gguf_finish(w, &len);
        refuse(b, len, BT_EFORMAT, "past the end");
    }
}

/* One tensor "t"; its table entry begins at 24: length 8, name 1, n_dims 4, dims, type 4, offset 8. */
static uint8_t *one_tensor(uint32_t type, const uint64_t *dim, uint32_t n_dims, size_t bytes, size_t *ret_len)
{
    uint8_t *data = calloc(bytes ? bytes : 1, 1);
    assert_non_null(data);
    tiny_gguf *w = tiny_gguf_new(3, 0);
    tiny_gguf_tensor(w, "t", type, dim, n_dims, data, bytes);
    free(data);
    return tiny_gguf_finish(w, ret_len);
}

static void refuses_tensors_with_impossible_shapes_types_and_places(void **state)
{
    (void)state;
    size_t len;
    const uint64_t huge = UINT64_C(1) << 62;
    uint8_t *b = one_tensor(0, (uint64_t[]){huge, 4}, 2, 64, &len);
    refuse(b, len, BT_EFORMAT, "larger than memory");
    b = one_tensor(0, (uint64_t[]){1, huge, huge}, 3, 64, &len);
    refuse(b, len, BT_EFORMAT, "more rows than memory");
    b = one_tensor(0, (uint64_t[]){4, 0}, 2, 64, &len);
    refuse(b, len, BT_EFORMAT, "empty dimension");
    b = one_tensor(0, (uint64_t[]){1, 1, 1, 1, 1}, 5, 64, &len);
    refuse(b, len, BT_EFORMAT, "5 dimensions");
    b = one_tensor(0, (uint64_t[]){1}, 0, 64, &len);
    refuse(b, len, BT_EFORMAT, "0 dimensions");
    b = one_tensor(23, (uint64_t[]){256}, 1, 136, &len);
    refuse(b, len, BT_EVERSION, "'t' has type IQ4_XS");
    b = one_tensor(2, (uint64_t[]){33}, 1, 64, &len);
    refuse(b, len, BT_EFORMAT, "multiple of 32");
    b = one_tensor(0, (uint64_t[]){16, 2}, 2, 127, &len);
    refuse(b, len, BT_EFORMAT, "past the end");
    static const struct {
        uint64_t offset;
        const char *words;
    } places[] = {
        {8, "no multiple of the alignment"},
        {32, "past the end"},
        {UINT64_MAX - 31, "past the end"},
        {UINT64_C(1) << 63, "past the end"},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        b = one_tensor(0, (uint64_t[]){16}, 1, 64, &len);
        bt_put64(b + 24 + 8 + 1 + 4 + 8 + 4, places[i].offset);
        refuse(b, len, BT_EFORMAT, places[i].words);
    }
    tiny_gguf *w = tiny_gguf_new(3, 0);
    small_f32(w, "a", 32);
    small_f32(w, "b", 32);
    b = tiny_gguf_finish(w, &len);
    bt_put64(b + 24 + 33 + 25, 96); /* b begins inside a */
    refuse(b, len, BT_EFORMAT, "'a' and 'b' overlap");
}

static void refuses_an_alignment_that_is_no_small_power_of_two(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, 3, 48, 131072, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tiny_gguf *w = tiny_gguf_new(3, 0);
        tiny_gguf_u32(w, "general.alignment", bad[i]);
        small_f32(w, "t", 1);
        size_t len;
        uint8_t *b = tiny_gguf_finish(w, &len);
        refuse(b, len, BT_EFORMAT, "general.alignment");
    }
    tiny_gguf *w = tiny_gguf_new(3, 0);
    tiny_gguf_str(w, "general.alignment", "32");
    size_t len;
    uint8_t *b = tiny_gguf_finish(w, &len);
    refuse(b, len, BT_EFORMAT, "general.alignment");
}

static uint8_t *whole_model(size_t *ret_len)
{
    tiny_gguf_spec s = tiny_gguf_default();
    s.layers = 1;
    s.dim = s.ffn = 32;
    s.heads = s.kv_heads = 1;
    s.head_dim = 32;
    s.vocab = 320;
    s.chat_template = tiny_gguf_chatml;
    return tiny_gguf_build(&s, ret_len);
}

/* Everything an accepted file offers is read; asan watches. */
static void read_everything(const bt_gguf *g)
{
    volatile uint64_t sum = 0;
    for (size_t i = 0; i < bt_gguf_tensor_count(g); i++) {
        const bt_gguf_tensor *t = bt_gguf_tensor_at(g, i);
        sum += strlen(t->name);
        for (size_t k = 0; k < t->bytes; k++) sum += t->data[k];
    }
    for (size_t i = 0; i < bt_gguf_key_count(g); i++) {
        char text[80];
        sum += bt_gguf_key_text(text, sizeof text, g, i) + strlen(bt_gguf_key_name(g, i));
        const bt_gguf_array *a = NULL;
        if (bt_gguf_find_array(&a, g, bt_gguf_key_name(g, i), BT_GGUF_STRING, true, NULL) == BT_OK)
            for (size_t k = 0; k < bt_gguf_array_count(a); k++)
                for (size_t c = 0; c < bt_gguf_array_str(a, k).len; c++)
                    sum += (uint8_t)bt_gguf_array_str(a, k).ptr[c];
        if (bt_gguf_find_array(&a, g, bt_gguf_key_name(g, i), BT_GGUF_I32, true, NULL) == BT_OK)
            for (size_t k = 0; k < bt_gguf_array_count(a); k++) sum += (uint64_t)bt_gguf_array_i32(a, k);
    }
    (void)sum;
}

static void every_truncation_is_an_error_and_reads_nothing_outside(void **state)
{
    (void)state;
    size_t len;
    uint8_t *b = whole_model(&len);
    bt_gguf *g = accept(b, len);
    read_everything(g);
    bt_gguf_close(g);
    for (size_t cut = 0; cut < len; cut += cut < 2048 ? 1 : len / 512) {
        uint8_t *part = malloc(cut ? cut : 1);
        assert_non_null(part);
        memcpy(part, b, cut);
        g = NULL;
        bt_fault f = {""};
        assert_true(bt_gguf_open_bytes(&g, part, cut, &f) < 0);
        assert_true(strlen(f.text) > 0);
        free(part);
    }
    free(b);
}

static void flipped_bits_and_bytes_never_do_harm(void **state)
{
    (void)state;
    const uint64_t seed = 99;
    print_message("seed %llu\n", (unsigned long long)seed);
    size_t len, accepted = 0;
    uint8_t *b = whole_model(&len), *x = malloc(len);
    assert_non_null(x);
    /* header, metadata and tensor table; the rest is weights */
    const size_t head = 12000 < len ? 12000 : len;
    for (uint64_t round = 0; round < 3000; round++) {
        memcpy(x, b, len);
        for (uint64_t k = 0; k <= round % 3; k++) {
            const size_t at = bt_rng_u64(seed, round * 8 + 2 * k) % head;
            const uint64_t r = bt_rng_u64(seed, round * 8 + 2 * k + 1);
            x[at] = round & 1 ? (uint8_t)r : (uint8_t)(x[at] ^ 1u << r % 8);
        }
        bt_gguf *g = NULL;
        if (bt_gguf_open_bytes(&g, x, len, NULL) < 0) continue;
        accepted++;
        if (round % 16 == 0) read_everything(g);
        bt_gguf_close(g);
    }
    print_message("%zu of 3000 accepted\n", accepted);
    assert_true(accepted < 3000);
    free(x);
    free(b);
}

static void opens_a_file_by_path_and_names_it_when_it_cannot(void **state)
{
    (void)state;
    char path[] = "/tmp/bt-test-gguf-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    bt_gguf *g = NULL;
    bt_fault f;
    assert_int_equal(bt_gguf_open(&g, path, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "empty"));
    assert_int_equal(write(fd, "GGUFxxx", 7), 7);
    assert_int_equal(bt_gguf_open(&g, path, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "bt-test-gguf-"));
    close(fd);
    tiny_gguf_spec s = tiny_gguf_default();
    tiny_gguf_write(&s, path);
    assert_int_equal(bt_gguf_open(&g, path, &f), BT_OK);
    read_everything(g);
    bt_gguf_close(g);
    unlink(path);
    g = NULL;
    assert_int_equal(bt_gguf_open(&g, path, &f), BT_EIO);
    assert_non_null(strstr(f.text, path));
    assert_int_equal(bt_gguf_open(&g, "/", &f), BT_EIO);
    assert_non_null(strstr(f.text, "regular"));
    assert_null(g);
    bt_gguf_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_comes_back_as_written),
        cmocka_unit_test(missing_and_mistyped_keys_are_named),
        cmocka_unit_test(refuses_what_is_no_gguf_of_version_2_or_3),
        cmocka_unit_test(refuses_names_that_repeat_are_empty_or_could_upset_a_terminal),
        cmocka_unit_test(refuses_values_of_unknown_or_nested_types),
        cmocka_unit_test(refuses_counts_that_the_file_cannot_hold_before_allocating),
        cmocka_unit_test(refuses_tensors_with_impossible_shapes_types_and_places),
        cmocka_unit_test(refuses_an_alignment_that_is_no_small_power_of_two),
        cmocka_unit_test(every_truncation_is_an_error_and_reads_nothing_outside),
        cmocka_unit_test(flipped_bits_and_bytes_never_do_harm),
        cmocka_unit_test(opens_a_file_by_path_and_names_it_when_it_cannot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
