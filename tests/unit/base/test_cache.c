/* The cache: a file is made once however many ask, never trusted when its kind refuses it, bounded, and
 * clear about a folder it cannot use. */
#include "base/cache.h"
#include "base/file.h"
#include "tests/helpers/temp_folder.h"

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
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define KEY   "0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210"

static const bt_cache_kind kind = {.folder = "things", .suffix = ".tng", .what = "thing",
                                   .advice = "Have fewer things", .max_bytes = 1 << 20};
static const char content[] = "a thing of this version";

static char top[TEMP_FOLDER_BYTES], dir[TEMP_FOLDER_BYTES + 8];

static int setup(void **state)
{
    (void)state;
    if (!temp_folder_new(top)) return -1;
    snprintf(dir, sizeof dir, "%s/a/b", top);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (geteuid() != getuid() && seteuid(getuid()) < 0) return -1; /* of a test that failed */
    return temp_folder_remove(top);
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

static void a_file_of_another_user_is_not_trusted(void **state)
{
    (void)state;
    const uid_t other = 12345;
    maker m = {0};
    struct stat st;
    if (geteuid() != 0) {
        print_message("skipped: a file of another user: only root can make one\n");
        skip();
    }
    assert_true(get(KEY, &m));
    assert_int_equal(chown(in_dir(KEY ".tng"), other, other), 0);
    assert_true(get(KEY, &m)); /* made again */
    assert_int_equal(m.calls, 2);
    assert_int_equal(stat(in_dir(KEY ".tng"), &st), 0);
    assert_int_equal(st.st_uid, 0);
    assert_false(get(KEY, &m));
}

/* A file that root made serves everybody. */
static void a_file_of_root_is_trusted(void **state)
{
    (void)state;
    const uid_t other = 12345;
    maker m = {0};
    if (geteuid() != 0) {
        print_message("skipped: a file of root: only root can make one\n");
        skip();
    }
    assert_true(get(KEY, &m));
    assert_int_equal(seteuid(other), 0);
    (void)setfsuid(0); /* the folder of this run is closed to others */
    const bool made = get(KEY, &m);
    assert_int_equal(seteuid(0), 0);
    assert_false(made);
    assert_int_equal(m.calls, 1);
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

static bt_cache_list looked_at(void)
{
    bt_cache_list l = {NULL, 0, 0};
    bt_cache_files_add(&l, dir, &kind);
    bt_cache_files_look(&l);
    return l;
}

static void trim(uint64_t max_bytes, const char *keep)
{
    bt_cache_list l = looked_at();
    bt_cache_files_trim(&l, max_bytes, keep ? in_dir(keep) : NULL);
    bt_cache_files_done(&l);
}

static void put(const char *name)
{
    FILE *f = fopen(in_dir(name), "wb");
    assert_non_null(f);
    fputs("foreign", f);
    fclose(f);
}

#define THIRD  "00000000000000000000000000000000"
#define FOURTH "11111111111111111111111111111111"

static char gone[400];

/* "removed ...: WHAT of KEY (SIZE)": nobody has said of which model these are */
static void hear(void *ud, const char *text)
{
    (void)ud;
    const size_t n = strlen(gone);
    const char *key = strstr(text, " of ");
    assert_int_equal(strncmp(text, "removed from the cache, which holds at most ", 44), 0);
    assert_non_null(key);
    snprintf(gone + n, sizeof gone - n, "%.4s ", key + 4);
}

/* Four things used in the order OTHER, KEY, THIRD, FOURTH. */
static uint64_t make_four(void)
{
    static const char *const keys[] = {OTHER, KEY, THIRD, FOURTH};
    maker m = {0};
    struct stat st;
    char name[64];
    for (size_t i = 0; i < 4; i++) {
        assert_true(get(keys[i], &m));
        snprintf(name, sizeof name, "%s.tng", keys[i]);
        set_used(name, 1000 + (time_t)(10 * i));
    }
    assert_int_equal(stat(in_dir(KEY ".tng"), &st), 0);
    gone[0] = '\0';
    return (uint64_t)st.st_size;
}

static void the_files_used_longest_ago_go_first_and_each_is_told(void **state)
{
    (void)state;
    const uint64_t bytes = make_four();
    bt_cache_files_setup(0, hear, NULL);
    trim(4 * bytes, NULL);
    assert_string_equal(gone, "");
    trim(2 * bytes, NULL);
    assert_string_equal(gone, "fedc 0123 ");
    assert_false(exists(OTHER ".tng"));
    assert_false(exists(OTHER ".lock"));
    assert_false(exists(KEY ".tng"));
    assert_true(exists(THIRD ".tng"));
    assert_true(exists(FOURTH ".tng"));
    trim(2 * bytes - 1, THIRD ".tng"); /* the oldest, but kept */
    assert_string_equal(gone, "fedc 0123 1111 ");
    assert_true(exists(THIRD ".tng"));
    bt_cache_files_setup(BT_CACHE_FILES_LIMIT, NULL, NULL);
}

static void what_a_process_has_mapped_stays(void **state)
{
    (void)state;
    const uint8_t *mapped;
    size_t bytes;
    make_four();
    assert_int_equal(bt_file_map(&mapped, &bytes, NULL, in_dir(OTHER ".tng"), NULL), BT_OK);
    bt_cache_list l = looked_at();
    assert_int_equal(l.count, 4);
    for (size_t i = 0; i < l.count; i++)
        assert_int_equal(l.file[i].is_mapped, strcmp(l.file[i].key, OTHER) == 0);
    bt_cache_files_done(&l);
    trim(0, NULL);
    assert_true(exists(OTHER ".tng"));
    assert_false(exists(KEY ".tng"));
    bt_file_unmap(mapped, bytes);
    trim(0, NULL);
    assert_false(exists(OTHER ".tng"));
}

static void what_is_deleted_can_be_read_by_who_has_it_mapped(void **state)
{
    (void)state;
    const uint8_t *mapped;
    size_t bytes;
    make_four();
    assert_int_equal(bt_file_map(&mapped, &bytes, NULL, in_dir(KEY ".tng"), NULL), BT_OK);
    bt_cache_list l = looked_at();
    for (size_t i = 0; i < l.count; i++) assert_true(bt_cache_files_delete(&l.file[i]));
    bt_cache_files_done(&l);
    assert_int_equal(bytes, sizeof content);
    assert_memory_equal(mapped, content, bytes);
    bt_file_unmap(mapped, bytes);
}

static void what_somebody_makes_stays(void **state)
{
    (void)state;
    make_four();
    const int lock = open(in_dir(KEY ".lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    put(KEY ".tng.abcDEF");
    bt_cache_list l = looked_at();
    for (size_t i = 0; i < l.count; i++) {
        assert_int_equal(l.file[i].is_locked, strcmp(l.file[i].key, KEY) == 0);
        if (l.file[i].is_locked) assert_false(bt_cache_files_delete(&l.file[i]));
    }
    bt_cache_files_done(&l);
    trim(0, NULL);
    assert_true(exists(KEY ".tng"));
    assert_true(exists(KEY ".tng.abcDEF"));
    assert_false(exists(THIRD ".tng"));
    close(lock);
}

static void what_was_left_half_made_is_deleted(void **state)
{
    (void)state;
    maker m = {0};
    assert_true(get(KEY, &m));
    put(OTHER ".tng.abcdef");
    trim(UINT64_MAX, NULL);
    assert_false(exists(OTHER ".tng.abcdef"));
    assert_true(exists(KEY ".tng"));
}

static void who_makes_a_thing_deletes_what_was_left_half_made_of_it(void **state)
{
    (void)state;
    maker m = {0};
    assert_true(get(OTHER, &m)); /* so that the folder is there */
    put(KEY ".tng.abcdef");
    put(KEY ".tng.ghijkl");
    put(THIRD ".tng.abcdef");
    m.fails = BT_ELIMIT;
    const bt_cache_request r = {.kind = &kind,      .key = KEY,   .dir = dir,
                                .open = open_thing, .make = make, .ud = &m};
    void *p = NULL;
    assert_int_equal(bt_cache_open(&p, NULL, &r, NULL), BT_ELIMIT);
    assert_false(exists(KEY ".tng.abcdef"));
    assert_false(exists(KEY ".tng.ghijkl"));
    assert_true(exists(THIRD ".tng.abcdef")); /* somebody may be making it */
}

static void what_another_process_has_deleted_counts_as_gone(void **state)
{
    (void)state;
    const uint64_t bytes = make_four();
    bt_cache_files_setup(0, hear, NULL);
    bt_cache_list l = looked_at();
    assert_int_equal(unlink(in_dir(OTHER ".tng")), 0);
    bt_cache_files_trim(&l, 3 * bytes, NULL);
    bt_cache_files_done(&l);
    assert_string_equal(gone, "");
    assert_true(exists(KEY ".tng"));
    bt_cache_files_setup(BT_CACHE_FILES_LIMIT, NULL, NULL);
}

static void foreign_files_are_neither_listed_nor_deleted(void **state)
{
    (void)state;
    static const char *const foreign[] = {"a stranger.txt", KEY,        KEY ".tngs", KEY ".tng.abcdefg",
                                          KEY ".tng.abc..", "0123.tng", KEY "0.tng", ".tng"};
    maker m = {0};
    char to[400], outside[400];
    assert_true(get(OTHER, &m));
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) put(foreign[i]);
    snprintf(outside, sizeof outside, "%s/outside", top);
    FILE *f = fopen(outside, "wb");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(symlink(outside, in_dir(KEY ".tng")), 0);
    assert_int_equal(mkdir(in_dir(THIRD ".tng"), 0755), 0);
    assert_int_equal(mkfifo(in_dir(FOURTH ".tng"), 0644), 0);
    bt_cache_list l = looked_at();
    assert_int_equal(l.count, 1);
    assert_string_equal(l.file[0].key, OTHER);
    bt_cache_files_done(&l);
    trim(0, NULL);
    assert_false(exists(OTHER ".tng"));
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) assert_true(exists(foreign[i]));
    assert_int_equal(access(outside, F_OK), 0);
    assert_int_equal(readlink(in_dir(KEY ".tng"), to, sizeof to), (ssize_t)strlen(outside));
    assert_true(exists(THIRD ".tng"));
    assert_true(exists(FOURTH ".tng"));
}

/* ---- words ---- */

static void a_thing_is_listed_with_the_words_it_was_made_with(void **state)
{
    (void)state;
    maker m = {0};
    void *p = NULL;
    char words[200];
    const bt_cache_request r = {.kind = &kind,          .key = KEY, .model = "A model\033[2J",
                                .recipe = "w8a8\npow2", .dir = dir, .open = open_thing,
                                .make = make,           .ud = &m};
    assert_int_equal(bt_cache_open(&p, NULL, &r, NULL), BT_OK);
    free(p);
    bt_cache_list l = looked_at();
    assert_int_equal(l.count, 1);
    assert_string_equal(l.file[0].model, "A model?[2J");
    assert_string_equal(l.file[0].recipe, "w8a8");
    bt_cache_files_words(words, sizeof words, &l.file[0]);
    assert_string_equal(words, "thing of A model?[2J, w8a8 (24 B)");
    bt_cache_files_done(&l);
}

static void a_thing_without_words_gets_them_when_it_is_opened(void **state)
{
    (void)state;
    maker m = {0};
    void *p = NULL;
    assert_true(get(KEY, &m)); /* tells none */
    const bt_cache_request r = {.kind = &kind, .key = KEY, .model = "A model", .dir = dir, .open = open_thing,
                                .make = make,  .ud = &m};
    assert_int_equal(bt_cache_open(&p, NULL, &r, NULL), BT_OK);
    free(p);
    bt_cache_list l = looked_at();
    assert_string_equal(l.file[0].model, "A model");
    bt_cache_files_done(&l);
}

static void a_hostile_lock_is_neither_followed_nor_waited_for(void **state)
{
    (void)state;
    char outside[400];
    maker m = {0};
    bt_fault f = {""};
    void *p = NULL;
    make_four();
    snprintf(outside, sizeof outside, "%s/outside", top);
    FILE *to = fopen(outside, "wb");
    assert_non_null(to);
    fputs("mine", to);
    fclose(to);
    assert_int_equal(unlink(in_dir(KEY ".lock")), 0);
    assert_int_equal(symlink(outside, in_dir(KEY ".lock")), 0);
    assert_int_equal(unlink(in_dir(OTHER ".lock")), 0);
    assert_int_equal(mkfifo(in_dir(OTHER ".lock"), 0644), 0);
    FILE *junk = fopen(in_dir(THIRD ".lock"), "wb");
    assert_non_null(junk);
    for (int i = 0; i < 5000; i++) fputc(i % 256, junk);
    fclose(junk);
    bt_cache_list l = looked_at();
    assert_int_equal(l.count, 4);
    bt_cache_files_done(&l);
    const bt_cache_request r = {.kind = &kind, .key = KEY, .model = "A model", .dir = dir, .open = open_thing,
                                .make = make,  .ud = &m};
    assert_int_equal(bt_cache_open(&p, NULL, &r, &f), BT_OK); /* what is there needs no lock */
    free(p);
    struct stat st;
    assert_int_equal(stat(outside, &st), 0);
    assert_int_equal(st.st_size, 4);
    trim(0, NULL);
    assert_true(exists(KEY ".tng"));
    assert_true(exists(OTHER ".tng"));
    assert_false(exists(THIRD ".tng"));
}

/* ---- the whole ---- */

static void packages_and_weights_share_one_limit_and_ids_have_their_own(void **state)
{
    (void)state;
    const char *before = getenv("BATON_CACHE_DIR");
    char *kept = before ? strdup(before) : NULL, path[400];
    maker m = {0};
    void *p = NULL;
    struct stat st;
    setenv("BATON_CACHE_DIR", top, 1);
    bt_cache_request r = {.kind = &bt_cache_files_packages, .key = KEY, .open = open_thing, .make = make,
                          .ud = &m};
    assert_int_equal(bt_cache_open(&p, NULL, &r, NULL), BT_OK);
    free(p);
    r.kind = &bt_cache_files_ids;
    assert_int_equal(bt_cache_open(&p, NULL, &r, NULL), BT_OK);
    free(p);
    bt_cache_files_setup(sizeof content, NULL, NULL);
    r.kind = &bt_cache_files_weights;
    assert_int_equal(bt_cache_open(&p, NULL, &r, NULL), BT_OK);
    free(p);
    bt_cache_files_setup(BT_CACHE_FILES_LIMIT, NULL, NULL);
    snprintf(path, sizeof path, "%s/packages/" KEY ".bpk", top);
    assert_int_equal(stat(path, &st), -1);
    snprintf(path, sizeof path, "%s/weights/" KEY ".btw", top);
    assert_int_equal(stat(path, &st), 0);
    snprintf(path, sizeof path, "%s/ids/" KEY ".id1", top);
    assert_int_equal(stat(path, &st), 0);
    bt_cache_list l = {NULL, 0, 0};
    bt_cache_files_add_all(&l);
    assert_int_equal(l.count, 2);
    bt_cache_files_done(&l);
    if (kept) setenv("BATON_CACHE_DIR", kept, 1);
    else unsetenv("BATON_CACHE_DIR");
    free(kept);
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
    assert_false(exists(KEY ".lock"));
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
    assert_int_equal(bt_cache_files_dir(got, sizeof got, &kind, NULL), BT_OK);
    assert_string_equal(got, "/b/things");
    unsetenv("BATON_CACHE_DIR");
    assert_int_equal(bt_cache_files_dir(got, sizeof got, &kind, NULL), BT_OK);
    assert_string_equal(got, "/x/baton/things");
    unsetenv("XDG_CACHE_HOME");
    assert_int_equal(bt_cache_files_dir(got, sizeof got, &kind, NULL), BT_OK);
    assert_string_equal(got, "/h/.cache/baton/things");
    assert_int_equal(bt_cache_files_dir(got, 10, &kind, NULL), BT_EIO);
    unsetenv("HOME");
    assert_int_equal(bt_cache_files_dir(got, sizeof got, &kind, NULL), BT_EIO);
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
        T(a_file_of_another_user_is_not_trusted),
        T(a_file_of_root_is_trusted),
        T(a_file_that_its_kind_refuses_is_made_again),
        T(who_comes_second_waits_and_opens_what_the_first_made),
        T(waiting_has_an_end),
        T(the_files_used_longest_ago_go_first_and_each_is_told),
        T(what_a_process_has_mapped_stays),
        T(what_is_deleted_can_be_read_by_who_has_it_mapped),
        T(what_somebody_makes_stays),
        T(what_was_left_half_made_is_deleted),
        T(who_makes_a_thing_deletes_what_was_left_half_made_of_it),
        T(what_another_process_has_deleted_counts_as_gone),
        T(foreign_files_are_neither_listed_nor_deleted),
        T(a_thing_is_listed_with_the_words_it_was_made_with),
        T(a_thing_without_words_gets_them_when_it_is_opened),
        T(a_hostile_lock_is_neither_followed_nor_waited_for),
        T(packages_and_weights_share_one_limit_and_ids_have_their_own),
        T(a_folder_that_cannot_be_written_is_told_with_what_to_do),
        T(a_maker_that_fails_leaves_nothing),
        T(a_key_must_be_a_key),
        T(the_folder_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
