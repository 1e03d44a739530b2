/* The cache: a file is made once however many ask, never trusted when its kind refuses it, bounded, and
 * clear about a folder it cannot use. */
#include "base/cache.h"
#include "base/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define KEY   "0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210"

static const bt_cache_kind kind = {.folder = "things", .suffix = ".tng", .what = "thing",
                                   .advice = "Have fewer things", .max_bytes = 1 << 20};
static const char content[] = "a thing of this version";

static char top[256], dir[300];

static int setup(void **state)
{
    (void)state;
    const char *t = getenv("TMPDIR");
    snprintf(top, sizeof top, "%s/test_cache.XXXXXX", t ? t : "/tmp");
    if (!mkdtemp(top)) return -1;
    snprintf(dir, sizeof dir, "%s/a/b", top);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    return system(command);
}

static const char *in_dir(const char *name)
{
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static bool exists(const char *name) { return access(in_dir(name), F_OK) == 0; }

typedef struct maker {
    int calls;
    bt_err fails;
    sem_t *begun, *go;
} maker;

static bt_err make(void *ud, const char *path, bt_fault *fault)
{
    maker *m = ud;
    m->calls++;
    if (m->begun) sem_post(m->begun), sem_wait(m->go);
    if (m->fails < 0) return bt_fail(fault, m->fails, "the maker's words");
    return bt_file_replace(path, content, sizeof content, 0644, fault);
}

/* A thing is its content, read. */
static bt_err open_thing(void **ret, void *ud, const char *path, bt_fault *fault)
{
    (void)ud;
    bt_buf b;
    bt_buf_init(&b, 1000);
    bt_err e = bt_file_read(&b, path, fault);
    if (e == BT_OK && (b.len != sizeof content || memcmp(b.data, content, b.len) != 0))
        e = bt_fail(fault, BT_EFORMAT, "no thing");
    if (e == BT_OK) *ret = strdup(content);
    bt_buf_done(&b);
    return e;
}

static bool get(const char *key, maker *m)
{
    bt_fault f = {""};
    void *p = NULL;
    bool made = false;
    const bt_cache_request r = {.kind = &kind,      .key = key,   .dir = dir,
                                .open = open_thing, .make = make, .ud = m};
    if (bt_cache_open(&p, &made, &r, &f) < 0) fail_msg("%s", f.text);
    assert_string_equal(p, content);
    free(p);
    return made;
}

static void a_file_is_made_once_and_then_opened(void **state)
{
    (void)state;
    maker m = {0};
    assert_true(get(KEY, &m));
    assert_false(get(KEY, &m));
    assert_int_equal(m.calls, 1);
    assert_true(get(OTHER, &m));
    assert_true(exists(KEY ".tng"));
    assert_true(exists(OTHER ".tng"));
}

static void a_file_that_its_kind_refuses_is_made_again(void **state)
{
    (void)state;
    maker m = {0};
    assert_true(get(KEY, &m));
    assert_int_equal(
        bt_file_replace(in_dir(KEY ".tng"), "a thing of another one!", sizeof content, 0644, NULL), BT_OK);
    assert_true(get(KEY, &m));
    assert_int_equal(truncate(in_dir(KEY ".tng"), 5), 0);
    assert_true(get(KEY, &m));
    assert_int_equal(truncate(in_dir(KEY ".tng"), 0), 0);
    assert_true(get(KEY, &m));
    assert_false(get(KEY, &m));
    assert_int_equal(m.calls, 4);
}

/* ---- two at once ---- */

static sem_t begun, go;
static bool second_made;

static void *first(void *ud)
{
    (void)ud;
    maker m = {.begun = &begun, .go = &go};
    get(KEY, &m);
    return NULL;
}

static bool waiting(void *ud, int64_t waited_ms)
{
    (void)ud, (void)waited_ms;
    sem_post(&go); /* the second waits: now the first may finish */
    return true;
}

static void who_comes_second_waits_and_opens_what_the_first_made(void **state)
{
    (void)state;
    pthread_t t;
    maker m = {0};
    bt_fault f = {""};
    void *p = NULL;
    sem_init(&begun, 0, 0);
    sem_init(&go, 0, 0);
    assert_int_equal(pthread_create(&t, NULL, first, NULL), 0);
    sem_wait(&begun);
    const bt_cache_request r = {.kind = &kind, .key = KEY,         .dir = dir, .open = open_thing,
                                .make = make,  .waiting = waiting, .ud = &m};
    const bt_err e = bt_cache_open(&p, &second_made, &r, &f);
    pthread_join(t, NULL);
    if (e < 0) fail_msg("%s", f.text);
    assert_false(second_made);
    assert_int_equal(m.calls, 0);
    free(p);
    sem_destroy(&go);
    sem_destroy(&begun);
}

static bool give_up(void *ud, int64_t waited_ms)
{
    (void)ud, (void)waited_ms;
    return false;
}

static void waiting_has_an_end(void **state)
{
    (void)state;
    maker m = {0};
    bt_fault f = {""};
    void *p = NULL;
    assert_true(get(OTHER, &m)); /* so that the folder is there */
    const int lock = open(in_dir(KEY ".lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    bt_cache_request r = {.kind = &kind, .key = KEY,   .dir = dir, .open = open_thing,
                          .wait_ms = 1,  .make = make, .ud = &m};
    assert_int_equal(bt_cache_open(&p, NULL, &r, &f), BT_EAGAIN);
    assert_non_null(strstr(f.text, "another process"));
    r.wait_ms = 0;
    r.waiting = give_up;
    assert_int_equal(bt_cache_open(&p, NULL, &r, &f), BT_ECANCEL);
    close(lock);
    assert_null(p);
    assert_true(get(KEY, &m));
}

/* ---- bounds ---- */

static void set_used(const char *name, time_t seconds)
{
    const struct timespec t[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, in_dir(name), t, 0), 0);
}

static void the_files_used_longest_ago_go_first(void **state)
{
    (void)state;
    static const char *const keys[3] = {KEY, OTHER, "00000000000000000000000000000000"};
    maker m = {0};
    struct stat st;
    char name[64];
    for (int i = 0; i < 3; i++) assert_true(get(keys[i], &m));
    assert_int_equal(stat(in_dir(KEY ".tng"), &st), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s.tng", keys[i]);
        set_used(name, 1000 + (i == 1 ? 0 : 10 * i)); /* OTHER, KEY or so, the third */
    }
    set_used(KEY ".tng", 900); /* the oldest of all, but kept */
    const uint8_t *mapped;
    size_t bytes;
    assert_int_equal(bt_file_map(&mapped, &bytes, in_dir(OTHER ".tng"), NULL), BT_OK);
    bt_cache_trim(dir, &kind, 2 * (uint64_t)st.st_size, KEY);
    assert_true(exists(KEY ".tng"));
    assert_false(exists(OTHER ".tng"));
    assert_false(exists(OTHER ".lock"));
    assert_true(exists("00000000000000000000000000000000.tng"));
    assert_int_equal(bytes, sizeof content);
    assert_memory_equal(mapped, content, bytes); /* still mapped */
    bt_file_unmap(mapped, bytes);

    const int lock = open(in_dir(KEY ".lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    bt_cache_trim(dir, &kind, 0, NULL);
    assert_true(exists(KEY ".tng")); /* somebody holds its lock */
    assert_false(exists("00000000000000000000000000000000.tng"));
    close(lock);
}

static void what_was_left_half_made_is_deleted(void **state)
{
    (void)state;
    maker m = {0};
    assert_true(get(KEY, &m));
    FILE *f = fopen(in_dir(OTHER ".tng.abcdef"), "wb");
    assert_non_null(f);
    fclose(f);
    f = fopen(in_dir("a stranger.txt"), "wb");
    assert_non_null(f);
    fclose(f);
    bt_cache_trim(dir, &kind, UINT64_MAX, NULL);
    assert_false(exists(OTHER ".tng.abcdef"));
    assert_true(exists("a stranger.txt"));
    assert_true(exists(KEY ".tng"));
}

/* ---- errors ---- */

static void a_folder_that_cannot_be_written_is_told_with_what_to_do(void **state)
{
    (void)state;
    maker m = {0};
    bt_fault f = {""};
    void *p = NULL;
    char file[400], below[420];
    snprintf(file, sizeof file, "%s/file", top);
    snprintf(below, sizeof below, "%s/things", file);
    FILE *to = fopen(file, "wb");
    assert_non_null(to);
    fclose(to);
    const bt_cache_request r = {.kind = &kind,      .key = KEY,   .dir = below,
                                .open = open_thing, .make = make, .ud = &m};
    assert_int_equal(bt_cache_open(&p, NULL, &r, &f), BT_EIO);
    assert_non_null(strstr(f.text, "cannot be written"));
    assert_non_null(strstr(f.text, "Have fewer things"));
    assert_int_equal(m.calls, 0);
}

static void a_maker_that_fails_leaves_nothing(void **state)
{
    (void)state;
    maker m = {.fails = BT_ELIMIT};
    bt_fault f = {""};
    void *p = NULL;
    const bt_cache_request r = {.kind = &kind,      .key = KEY,   .dir = dir,
                                .open = open_thing, .make = make, .ud = &m};
    assert_int_equal(bt_cache_open(&p, NULL, &r, &f), BT_ELIMIT);
    assert_string_equal(f.text, "the maker's words");
    assert_null(p);
    assert_false(exists(KEY ".tng"));
    m.fails = BT_OK;
    assert_true(get(KEY, &m));
}

static void a_key_must_be_a_key(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "../../../../etc/passwd", "0123456789ABCDEF0123456789ABCDEF",
                                      KEY "0"};
    maker m = {0};
    void *p = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const bt_cache_request r = {.kind = &kind,      .key = bad[i], .dir = dir,
                                    .open = open_thing, .make = make,  .ud = &m};
        assert_int_equal(bt_cache_open(&p, NULL, &r, NULL), BT_EARG);
    }
    assert_int_equal(m.calls, 0);
}

static void the_folder_follows_the_environment(void **state)
{
    (void)state;
    char got[64], *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL,
                  *xdg = getenv("XDG_CACHE_HOME") ? strdup(getenv("XDG_CACHE_HOME")) : NULL;
    setenv("HOME", "/h", 1);
    setenv("XDG_CACHE_HOME", "/x", 1);
    setenv("BATON_CACHE_DIR", "/b", 1);
    assert_int_equal(bt_cache_dir(got, sizeof got, &kind, NULL), BT_OK);
    assert_string_equal(got, "/b/things");
    unsetenv("BATON_CACHE_DIR");
    assert_int_equal(bt_cache_dir(got, sizeof got, &kind, NULL), BT_OK);
    assert_string_equal(got, "/x/baton/things");
    unsetenv("XDG_CACHE_HOME");
    assert_int_equal(bt_cache_dir(got, sizeof got, &kind, NULL), BT_OK);
    assert_string_equal(got, "/h/.cache/baton/things");
    assert_int_equal(bt_cache_dir(got, 10, &kind, NULL), BT_EIO);
    unsetenv("HOME");
    assert_int_equal(bt_cache_dir(got, sizeof got, &kind, NULL), BT_EIO);
    if (home) setenv("HOME", home, 1);
    if (xdg) setenv("XDG_CACHE_HOME", xdg, 1);
    free(home);
    free(xdg);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_file_is_made_once_and_then_opened),
        T(a_file_that_its_kind_refuses_is_made_again),
        T(who_comes_second_waits_and_opens_what_the_first_made),
        T(waiting_has_an_end),
        T(the_files_used_longest_ago_go_first),
        T(what_was_left_half_made_is_deleted),
        T(a_folder_that_cannot_be_written_is_told_with_what_to_do),
        T(a_maker_that_fails_leaves_nothing),
        T(a_key_must_be_a_key),
        T(the_folder_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
