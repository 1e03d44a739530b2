/* A model in parts is the model in one file; a part that is missing, doubled, foreign or not the first is
 * named. */
#include "base/buf.h"
#include "base/file.h"
#include "base/num.h"
#include "model/gguf_private.h"
#include "model/model.h"
#include "tests/helpers/temp_folder.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { PARTS = 3 };

static char dir[TEMP_FOLDER_BYTES];

static int setup(void **state)
{
    (void)state;
    return temp_folder_new(dir) && setenv("BATON_CACHE_DIR", dir, 1) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return temp_folder_remove(dir);
}

static const char *in_dir(char ret[400], const char *name)
{
    snprintf(ret, 400, "%s/%s", dir, name);
    return ret;
}

static void write_model(const char *name, uint32_t parts, uint64_t seed)
{
    char path[400];
    tiny_gguf_spec s = tiny_gguf_default();
    s.seed = seed;
    if (parts) tiny_gguf_write_parts(&s, in_dir(path, name), parts);
    else tiny_gguf_write(&s, in_dir(path, name));
}

static void parts_together_are_the_model_in_one_file(void **state)
{
    (void)state;
    char path[400];
    bt_model *whole, *parts, *head;
    write_model("whole.gguf", 0, 1);
    write_model("m", PARTS, 1);
    assert_int_equal(bt_model_open(&whole, in_dir(path, "whole.gguf"), NULL), BT_OK);
    assert_int_equal(bt_model_open(&parts, in_dir(path, "m-00001-of-00003.gguf"), NULL), BT_OK);
    assert_memory_equal(whole->id, parts->id, sizeof whole->id);
    assert_memory_equal(&whole->hp, &parts->hp, sizeof whole->hp);
    assert_int_equal(whole->weights_bytes, parts->weights_bytes);
    assert_int_equal(bt_gguf_tensor_count(whole->file), bt_gguf_tensor_count(parts->file));
    size_t bytes = 0;
    for (size_t i = 0; i < bt_gguf_tensor_count(whole->file); i++) {
        const bt_gguf_tensor *a = bt_gguf_tensor_at(whole->file, i),
                             *b = bt_gguf_find_tensor(parts->file, a->name);
        assert_non_null(b);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, a->bytes);
        bytes += a->bytes;
    }
    assert_true(bt_gguf_file_bytes(parts->file) > bytes);
    for (size_t i = 0; i < bt_gguf_tensor_count(parts->file); i++)
        assert_ptr_equal(bt_gguf_tensor_at(parts->file, i),
                         bt_gguf_find_tensor(parts->file, bt_gguf_tensor_at(parts->file, i)->name));
    bt_gguf_let_go(parts->file, bt_gguf_tensor_at(parts->file, 5)->data,
                   bt_gguf_tensor_at(parts->file, 5)->bytes);
    assert_int_equal(bt_model_open_head(&head, in_dir(path, "m-00001-of-00003.gguf"), NULL), BT_OK);
    assert_int_equal(head->param_count, whole->param_count);
    bt_model_close(head);
    bt_model_close(whole);
    bt_model_close(parts);
}

static void refuse(const char *name, bt_err want, const char *words)
{
    char path[400];
    bt_gguf *g = NULL;
    bt_fault f = {""};
    const bt_err e = bt_gguf_open(&g, in_dir(path, name), &f);
    if (e != want || !strstr(f.text, words))
        fail_msg("%s: %d, not %d: '%s' without '%s'", name, e, want, f.text, words);
    assert_null(g);
}

static void move(const char *from, const char *to)
{
    char a[400], b[400];
    assert_int_equal(rename(in_dir(a, from), in_dir(b, to)), 0);
}

static void copy(const char *from, const char *to)
{
    char path[400];
    bt_buf b;
    bt_buf_init(&b, 1 << 24);
    assert_int_equal(bt_file_read(&b, in_dir(path, from), NULL), BT_OK);
    assert_int_equal(bt_file_replace(in_dir(path, to), b.data, b.len, 0644, NULL), BT_OK);
    bt_buf_done(&b);
}

static void a_part_that_does_not_belong_is_named(void **state)
{
    (void)state;
    write_model("n", PARTS, 1);
    write_model("other", 2, 1);
    refuse("n-00002-of-00003.gguf", BT_EFORMAT,
           "this is part 2 of 3: open the first, which ends with -00001-of-00003.gguf");
    move("n-00003-of-00003.gguf", "away");
    refuse("n-00001-of-00003.gguf", BT_EIO, "n-00003-of-00003.gguf: No such file");
    copy("n-00002-of-00003.gguf", "n-00003-of-00003.gguf");
    refuse("n-00001-of-00003.gguf", BT_EFORMAT, "where part 3 of 3 belongs is part 2 of 3");
    copy("other-00002-of-00002.gguf", "n-00003-of-00003.gguf");
    refuse("n-00001-of-00003.gguf", BT_EFORMAT, "where part 3 of 3 belongs is part 2 of 2");
    move("away", "n-00003-of-00003.gguf");
    copy("n-00001-of-00003.gguf", "renamed.gguf");
    refuse("renamed.gguf", BT_EFORMAT, "its name must end with -00001-of-00003.gguf");
    copy("n-00001-of-00003.gguf", "n-00001-of-00004.gguf");
    refuse("n-00001-of-00004.gguf", BT_EFORMAT, "its name must end with -00001-of-00003.gguf");
}

/* Parts of bytes, changed by hand. */
static bt_err join(uint32_t count, const char *from, const void *to, size_t len, bt_fault *fault)
{
    const tiny_gguf_spec s = tiny_gguf_default();
    uint8_t *bytes[2];
    bt_gguf *part[2];
    size_t part_len;
    for (uint32_t i = 0; i < 2; i++) {
        bytes[i] = tiny_gguf_build_part(&s, i, count, &part_len);
        uint8_t *found = from && i == 0 ? memmem(bytes[i], part_len, from, strlen(from)) : NULL;
        if (found) memcpy(found + strlen(from), to, len);
        assert_true(!from || i || found);
        assert_int_equal(bt_gguf_parse(&part[i], bytes[i], part_len, false, NULL), BT_OK);
    }
    const bt_err e = bt_gguf_join(part, 2, fault);
    if (e == BT_OK) bt_gguf_close(part[0]);
    free(bytes[0]);
    free(bytes[1]);
    return e;
}

static void counts_that_do_not_agree_are_refused(void **state)
{
    (void)state;
    bt_fault f = {""};
    uint8_t u32[4 + 4] = {BT_GGUF_U32}, many[4 + 2] = {BT_GGUF_U16};
    assert_int_equal(join(2, NULL, NULL, 0, &f), BT_OK);
    bt_put32(u32 + 4, 999);
    assert_int_equal(join(2, "split.tensors.count", u32, sizeof u32, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "split.tensors.count is 999; the 2 parts have "));
    bt_put16(many + 4, 60000);
    assert_int_equal(join(2, "split.count", many, sizeof many, &f), BT_ELIMIT);
    assert_string_equal(f.text, "split.count is 60000; at most 512 parts are allowed");
    assert_int_equal(join(3, NULL, NULL, 0, &f), BT_EFORMAT);
    assert_string_equal(f.text, "where part 1 of 2 belongs is part 1 of 3");
}

static void put_after(uint8_t *bytes, size_t len, const char *key, uint32_t v, size_t width)
{
    uint8_t *found = memmem(bytes, len, key, strlen(key));
    assert_non_null(found);
    memcpy(found + strlen(key) + 4, &v, width);
}

/* The first part once more, as the second. */
static void a_tensor_of_two_parts_is_refused_by_name(void **state)
{
    (void)state;
    const tiny_gguf_spec s = tiny_gguf_default();
    uint8_t *bytes[2];
    bt_gguf *part[2];
    bt_fault f = {""};
    for (uint32_t i = 0; i < 2; i++) {
        size_t len;
        bytes[i] = tiny_gguf_build_part(&s, 0, 2, &len);
        put_after(bytes[i], len, "split.no", i, 2);
        put_after(bytes[i], len, "split.tensors.count", 22, 4); /* twice 11 */
        assert_int_equal(bt_gguf_parse(&part[i], bytes[i], len, false, NULL), BT_OK);
        assert_int_equal(bt_gguf_tensor_count(part[i]), 11);
    }
    assert_int_equal(bt_gguf_join(part, 2, &f), BT_EFORMAT);
    assert_string_equal(f.text, "tensor 'blk.0.attn_q.weight' appears twice");
    free(bytes[0]);
    free(bytes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_together_are_the_model_in_one_file),
        cmocka_unit_test(a_part_that_does_not_belong_is_named),
        cmocka_unit_test(counts_that_do_not_agree_are_refused),
        cmocka_unit_test(a_tensor_of_two_parts_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
