/* The cache of converted weights: made once and the same whoever makes it, mapped from then on, never trusted
 * when it is not whole, and done without where there is none. */
#include "base/file.h"
#include "engine/decode.h"
#include "model/gguf.h"
#include "model/weights.h"
#include "model/weights_private.h"
#include "tests/helpers/temp_folder.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char top[TEMP_FOLDER_BYTES], dir[TEMP_FOLDER_BYTES + 16];
static bt_model *model;
static uint8_t *model_bytes;

static bt_model *new_model(uint8_t **ret_bytes, uint64_t seed)
{
    tiny_gguf_spec s = tiny_gguf_default();
    s.type = 3;       /* Q4_1 */
    s.arch = "qwen2"; /* with biases */
    s.seed = seed;
    s.no_tokenizer = true;
    size_t len;
    bt_gguf *g;
    bt_model *m;
    *ret_bytes = tiny_gguf_build(&s, &len);
    if (bt_gguf_open_bytes(&g, *ret_bytes, len, NULL) < 0 || bt_model_from_gguf(&m, g, NULL) < 0) abort();
    return m;
}

static int setup(void **state)
{
    (void)state;
    if (!temp_folder_new(top)) return -1;
    snprintf(dir, sizeof dir, "%s/weights", top);
    model = new_model(&model_bytes, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bt_model_close(model);
    free(model_bytes);
    return temp_folder_remove(top);
}

static void count(void *ud, const char *what, uint64_t done, uint64_t total)
{
    size_t *calls = ud;
    assert_true(done <= total);
    if (strncmp(what, "converting weights", 18) == 0) ++*calls;
    else assert_string_equal(what, "waiting for another process that converts the weights");
}

static bt_weights *open_in(const char *in, const bt_model *m, const char *form, bt_pool *pool, size_t *calls)
{
    bt_fault f = {""};
    bt_weights *w = NULL;
    *calls = 0;
    const bt_weights_options o = {.form = form, .ctx_tokens = 9, .cache_dir = in, .progress = count,
                                  .progress_ud = calls};
    if (bt_weights_open(&w, m, &o, pool, &f) < 0) fail_msg("%s", f.text);
    return w;
}

/* Opens and closes the weights in the cache; whether they were converted now. */
static bool was_made(const bt_model *m, const char *form, bt_pool *pool)
{
    size_t calls;
    bt_weights *w = open_in(dir, m, form, pool, &calls);
    assert_true(bt_weights_is_mapped(w));
    bt_weights_free(w);
    return calls > 0;
}

/* The names of the weights in the folder; how many. */
static size_t files(char name[][400], size_t most)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!strstr(e->d_name, ".btw")) continue;
        assert_true(n < most);
        snprintf(name[n++], 400, "%s/%.64s", dir, e->d_name);
    }
    if (d) closedir(d);
    return n;
}

static const char *only_file(void)
{
    static char name[1][400];
    assert_int_equal(files(name, 1), 1);
    return name[0];
}

static void check_equal(const bt_weights *a, const bt_weights *b)
{
    const bt_model *m = bt_weights_model(a);
    uint32_t layer = 0;
    for (bt_weight which = BT_WEIGHT_NONE; (which = bt_weight_next(m, &layer, which));) {
        const bt_gguf_tensor *t = bt_weight_tensor(m, layer, which);
        if (!bt_weight_is_matrix(which)) {
            assert_memory_equal(bt_weights_vector_of(a, layer, which), bt_weights_vector_of(b, layer, which),
                                t->dim[0] * sizeof(float));
            continue;
        }
        const bt_weights_matrix *x = bt_weights_matrix_of(a, layer, which),
                                *y = bt_weights_matrix_of(b, layer, which);
        assert_int_equal(x->form, y->form);
        assert_int_equal(x->group, y->group);
        assert_memory_equal(x->panels, y->panels,
                            (x->n + 15) / 16 * bt_form_panel_bytes(x->form, x->group, x->k));
        assert_int_equal(!x->bias, !y->bias);
        if (x->bias) assert_memory_equal(x->bias, y->bias, x->n * sizeof(float));
    }
    assert_int_equal(bt_weights_step_bytes(a), bt_weights_step_bytes(b));
    assert_memory_equal(bt_weights_rope_cos(a, 0), bt_weights_rope_cos(b, 0),
                        9 * m->hp.rope_dims / 2 * sizeof(float));
}

static void what_is_mapped_is_what_was_converted(void **state)
{
    (void)state;
    for (size_t f = 0; bt_weights_forms[f]; f++) {
        size_t calls;
        bt_weights *memory = open_in("", model, bt_weights_forms[f], NULL, &calls);
        assert_false(bt_weights_is_mapped(memory));
        assert_int_equal(calls, 2 * 9 + 2);
        assert_true(was_made(model, bt_weights_forms[f], NULL));
        bt_weights *mapped = open_in(dir, model, bt_weights_forms[f], NULL, &calls);
        assert_true(bt_weights_is_mapped(mapped));
        assert_int_equal(calls, 0);
        check_equal(memory, mapped);
        bt_weights_free(memory);
        bt_weights_free(mapped);
    }
    char name[4][400];
    assert_int_equal(files(name, 4), 3); /* one a form */
}

static void threads_change_no_byte(void **state)
{
    (void)state;
    bt_pool *pool;
    assert_int_equal(bt_pool_new(&pool, 3, NULL), BT_OK);
    for (size_t f = 0; bt_weights_forms[f]; f++) {
        const uint8_t *one, *three;
        size_t one_bytes, three_bytes;
        assert_true(was_made(model, bt_weights_forms[f], NULL));
        assert_int_equal(bt_file_map(&one, &one_bytes, NULL, only_file(), NULL), BT_OK);
        assert_int_equal(unlink(only_file()), 0);
        assert_true(was_made(model, bt_weights_forms[f], pool));
        assert_false(was_made(model, bt_weights_forms[f], pool));
        assert_int_equal(bt_file_map(&three, &three_bytes, NULL, only_file(), NULL), BT_OK);
        assert_int_equal(one_bytes, three_bytes);
        assert_memory_equal(one, three, one_bytes);
        bt_file_unmap(one, one_bytes);
        bt_file_unmap(three, three_bytes);
        assert_int_equal(unlink(only_file()), 0);
    }
    bt_pool_free(pool);
}

/* ---- files that are not whole ---- */

static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    const int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ 0x10, f);
    fclose(f);
}

static void a_damaged_or_cut_file_is_made_anew(void **state)
{
    (void)state;
    struct stat st, again;
    assert_true(was_made(model, "fp4", NULL));
    assert_int_equal(stat(only_file(), &st), 0);
    /* magic, version, form, model, bytes, items, digest, table, first item, somewhere, the last byte */
    const long at[] = {0, 8, 12, 20, 33, 40, 50, 64, 64 + 48, 1200, st.st_size / 2, st.st_size - 1};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        flip(only_file(), at[i]);
        assert_true(was_made(model, "fp4", NULL));
        assert_false(was_made(model, "fp4", NULL));
    }
    const off_t cut[] = {0, 1, 63, 64, 1000, st.st_size - 1, st.st_size + 1};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        assert_int_equal(truncate(only_file(), cut[i]), 0);
        assert_true(was_made(model, "fp4", NULL));
    }
    assert_false(was_made(model, "fp4", NULL));
    assert_int_equal(stat(only_file(), &again), 0);
    assert_int_equal(again.st_size, st.st_size);
}

static void another_models_file_is_not_used(void **state)
{
    (void)state;
    uint8_t *bytes;
    char mine[400], name[2][400];
    bt_model *other = new_model(&bytes, 2);
    assert_true(was_made(model, "int8", NULL));
    snprintf(mine, sizeof mine, "%s", only_file());
    assert_true(was_made(other, "int8", NULL));
    assert_int_equal(files(name, 2), 2);
    const char *theirs = strcmp(name[0], mine) ? name[0] : name[1];
    assert_int_equal(rename(theirs, mine), 0);
    assert_true(was_made(model, "int8", NULL));
    assert_true(was_made(other, "int8", NULL));
    assert_false(was_made(model, "int8", NULL));
    bt_model_close(other);
    free(bytes);
}

static void what_is_mapped_stays_when_its_file_is_replaced(void **state)
{
    (void)state;
    size_t calls;
    assert_true(was_made(model, "f16", NULL));
    bt_weights *w = open_in(dir, model, "f16", NULL, &calls),
               *memory = open_in("", model, "f16", NULL, &calls);
    char old[400];
    snprintf(old, sizeof old, "%s", only_file());
    assert_int_equal(unlink(old), 0);
    assert_true(was_made(model, "f16", NULL));
    check_equal(w, memory);
    bt_weights_free(w);
    bt_weights_free(memory);
}

/* ---- no cache ---- */

static void a_folder_that_cannot_be_written_leaves_the_weights_in_memory(void **state)
{
    (void)state;
    size_t calls;
    char file[400], below[420];
    snprintf(file, sizeof file, "%s/file", top);
    snprintf(below, sizeof below, "%s/weights", file);
    assert_int_equal(bt_file_replace(file, "x", 1, 0600, NULL), BT_OK);
    bt_weights *w = open_in(below, model, "fp4", NULL, &calls),
               *memory = open_in("", model, "fp4", NULL, &calls);
    assert_false(bt_weights_is_mapped(w));
    check_equal(w, memory);
    bt_weights_free(w);
    bt_weights_free(memory);
}

static void little_weights_do_not_go_to_the_users_cache(void **state)
{
    (void)state;
    size_t calls;
    char *was = getenv("BATON_CACHE_DIR") ? strdup(getenv("BATON_CACHE_DIR")) : NULL, name[1][400];
    setenv("BATON_CACHE_DIR", top, 1);
    bt_weights *w = open_in(NULL, model, "fp4", NULL, &calls);
    assert_false(bt_weights_is_mapped(w));
    assert_int_equal(files(name, 1), 0);
    bt_weights_free(w);
    if (was) setenv("BATON_CACHE_DIR", was, 1);
    else unsetenv("BATON_CACHE_DIR");
    free(was);
}

static void what_is_refused_leaves_no_file(void **state)
{
    (void)state;
    const bt_gguf_tensor *t = model->layer[1].w_up;
    const uint16_t infinite = 0x7c00;
    memcpy((uint8_t *)(uintptr_t)t->data, &infinite, sizeof infinite);
    bt_fault f = {""};
    bt_weights *w = NULL;
    char name[1][400];
    const bt_weights_options o = {.form = "fp4", .ctx_tokens = 9, .cache_dir = dir};
    assert_int_equal(bt_weights_open(&w, model, &o, NULL, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, t->name));
    assert_int_equal(files(name, 1), 0);
}

/* ---- several processes ---- */

static void processes_that_start_together_convert_once(void **state)
{
    (void)state;
    enum { CHILDREN = 4 };
    int start[2], made = 0;
    pid_t child[CHILDREN];
    assert_int_equal(pipe(start), 0);
    for (int i = 0; i < CHILDREN; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] > 0) continue;
        char c;
        bt_weights *w = NULL;
        size_t calls = 0;
        const bt_weights_options o = {.form = "f16", .ctx_tokens = 9, .cache_dir = dir, .progress = count,
                                      .progress_ud = &calls};
        close(start[1]);
        (void)!read(start[0], &c, 1); /* ends when the parent closes it: all go at once */
        const bt_err e = bt_weights_open(&w, model, &o, NULL, NULL);
        _exit(e < 0 || !bt_weights_is_mapped(w) ? 2 : calls > 0);
    }
    close(start[0]);
    close(start[1]);
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
        made += WEXITSTATUS(status);
    }
    assert_int_equal(made, 1);
}

static void what_is_kept_beforehand_is_converted_once_and_opened_at_once(void **state)
{
    (void)state;
    size_t calls = 0;
    bt_fault f = {""};
    bt_weights_options o = {.form = "int8", .ctx_tokens = 1, .cache_dir = dir, .progress = count,
                            .progress_ud = &calls};
    if (bt_weights_keep(model, &o, NULL, &f) < 0) fail_msg("%s", f.text);
    assert_true(calls > 0);
    calls = 0;
    if (bt_weights_keep(model, &o, NULL, &f) < 0) fail_msg("%s", f.text);
    assert_int_equal(calls, 0);
    assert_false(was_made(model, "int8", NULL));
    o.cache_dir = ""; /* none */
    if (bt_weights_keep(model, &o, NULL, &f) < 0) fail_msg("%s", f.text);
    assert_int_equal(calls, 0);
    o.form = "f15";
    assert_int_equal(bt_weights_keep(model, &o, NULL, &f), BT_EARG);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(what_is_mapped_is_what_was_converted),
        T(threads_change_no_byte),
        T(a_damaged_or_cut_file_is_made_anew),
        T(another_models_file_is_not_used),
        T(what_is_mapped_stays_when_its_file_is_replaced),
        T(a_folder_that_cannot_be_written_leaves_the_weights_in_memory),
        T(little_weights_do_not_go_to_the_users_cache),
        T(what_is_refused_leaves_no_file),
        T(processes_that_start_together_convert_once),
        T(what_is_kept_beforehand_is_converted_once_and_opened_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
