/* A capture's file: what was put in is read back, whatever was cut, damaged, rotated, sealed or refused by
 * the disk. */
#include "trace/capture.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/clock.h"
#include "crypto/keys.h"
#include "crypto/seal.h"
#include "trace/capture_file.h"
#include "trace/reader.h"
#include "tests/helpers/temp_folder.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[TEMP_FOLDER_BYTES], path[TEMP_FOLDER_BYTES + 8], other[TEMP_FOLDER_BYTES + 32];

static int set_up(void **state)
{
    (void)state;
    if (!temp_folder_new(dir)) return -1;
    snprintf(path, sizeof path, "%s/c", dir);
    return 0;
}

static void clean(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s/*", dir);
    assert_int_equal(system(command), 0);
}

static int tear_down(void **state)
{
    (void)state;
    clean();
    return rmdir(dir);
}

static int32_t ids[200];
static const char *const names[4] = {"", "b", "key-3",
                                     "0123456789012345678901234567890123456789012345678901234567890123"};

/* Request number i: 100 + i tokens of which the first 64 are the same for all. */
static bt_trace_row row_of(bt_trace_captured *c, uint32_t i, bool has_text)
{
    for (uint32_t k = 0; k < 200; k++) ids[k] = (int32_t)(k < 64 ? k : k + 1000 * i);
    *c = (bt_trace_captured){
        .outcome = i % 3 ? BT_TRACE_STOP : BT_TRACE_CANCELLED,
        .is_chat = i % 2,
        .max_tokens = 50 + i,
        .attempts = 1,
        .cached_tokens = 3,
        .covered_tokens = 4,
        .sampling = {.temperature = 0.5f, .top_p = 1, .top_k = 40, .seed = 1ull << 60 | i},
        .has_text = has_text,
        .prompt_ids = ids,
        .prompt_len = 100 + i % 50,
        .answer_ids = ids + 7,
        .answer_len = i % 9,
        .text = "an answer",
        .text_bytes = 9};
    for (size_t t = 0; t < BT_TRACE_TIMES; t++)
        c->time_us[t] = t == BT_TRACE_DECODE ? -1 : (int64_t)(i * 10 + t);
    return (bt_trace_row){.arrival_us = (int64_t)i * 1000, .input_tokens = 100 + i % 50,
                          .output_tokens = i % 9, .key = i % 4 ? names[i % 4] : NULL, .captured = c};
}

static void put(bt_buf *b, uint32_t i, bool has_text, const unsigned char *key)
{
    static const uint8_t hash_key[16] = {7};
    uint64_t hash[4];
    bt_trace_captured c;
    bt_trace_row r = row_of(&c, i, has_text);
    bt_capture_hash(hash, hash_key, c.prompt_ids, c.prompt_len);
    r.hash_ids = hash;
    r.hash_len = bt_capture_blocks(c.prompt_len);
    assert_int_equal(bt_capture_put_request(b, &r, key, NULL), BT_OK);
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void expect_request(const bt_trace_row *r, uint32_t i, bool has_text)
{
    bt_trace_captured c;
    const bt_trace_row want = row_of(&c, i, has_text);
    const bt_trace_captured *got = r->captured;
    assert_int_equal(r->arrival_us, want.arrival_us);
    assert_int_equal(r->input_tokens, want.input_tokens);
    assert_int_equal(r->output_tokens, want.output_tokens);
    assert_int_equal(r->hash_len, bt_capture_blocks(want.input_tokens));
    assert_int_equal(r->is_failed, c.outcome > BT_TRACE_LENGTH);
    assert_int_equal(!r->key, !want.key);
    if (want.key) assert_string_equal(r->key, want.key);
    assert_int_equal(got->outcome, c.outcome);
    assert_int_equal(got->is_chat, c.is_chat);
    assert_int_equal(got->max_tokens, c.max_tokens);
    assert_int_equal(got->cached_tokens, 3);
    assert_int_equal(got->covered_tokens, 4);
    assert_memory_equal(got->time_us, c.time_us, sizeof c.time_us);
    assert_true(got->sampling.seed == c.sampling.seed && got->sampling.temperature == 0.5f);
    assert_int_equal(got->has_text, has_text);
    if (!has_text) return;
    assert_int_equal(got->prompt_len, c.prompt_len);
    assert_memory_equal(got->prompt_ids, c.prompt_ids, c.prompt_len * sizeof(int32_t));
    assert_int_equal(got->answer_len, c.answer_len);
    assert_memory_equal(got->answer_ids, c.answer_ids, c.answer_len * sizeof(int32_t));
    assert_int_equal(got->text_bytes, 9);
    assert_memory_equal(got->text, "an answer", 9);
}

/* Reads all of it: how many requests there were, in order from `from`; facts of the reader. */
static uint32_t read_all(bt_trace_facts *facts, uint32_t from, bool has_text, bool skips,
                         const bt_trace_options *keys)
{
    bt_trace_options o = keys ? *keys : (bt_trace_options){.format = BT_TRACE_AUTO};
    o.skips_bad = skips;
    bt_trace *t = NULL;
    bt_fault fault = {""};
    uint32_t n = 0;
    bool is_end = false;
    if (bt_trace_open(&t, path, &o, &fault) < 0) fail_msg("%s", fault.text);
    for (bt_trace_row r; !is_end;) {
        if (bt_trace_next(&r, &is_end, t, &fault) < 0) fail_msg("%s", fault.text);
        if (!is_end && from != UINT32_MAX) expect_request(&r, from + n, has_text);
        n += !is_end;
    }
    *facts = bt_trace_look(t);
    bt_trace_close(t);
    return n;
}

static void records_are_read_back_with_and_without_text(void **state)
{
    (void)state;
    for (int text = 0; text < 2; text++) {
        bt_buf b;
        bt_trace_facts facts;
        bt_buf_init(&b, 1 << 20);
        assert_int_equal(bt_capture_put_start(&b, &(bt_capture_start){.wall_s = 1700000000}, NULL, NULL),
                         BT_OK);
        for (uint32_t i = 0; i < 20; i++) put(&b, i, text, NULL);
        assert_int_equal(bt_capture_put_dropped(&b, 5, NULL, NULL), BT_OK);
        write_file(path, b.data, b.len);
        assert_int_equal(read_all(&facts, 0, text, false, NULL), 20);
        assert_int_equal(facts.dropped, 5);
        assert_int_equal(facts.starts, 1);
        assert_int_equal(facts.torn_bytes, 0);
        if (!text) assert_null(memmem(b.data, b.len, "an answer", 9));
        bt_buf_done(&b);
    }
}

static void a_record_of_version_1_has_no_time_of_the_reservation_and_no_key(void **state)
{
    (void)state;
    enum {
        TIME_AT = BT_CAPTURE_HEAD_BYTES + 8 + 6 * 4 + BT_TRACE_RESERVE * 8,
        KEY_AT = TIME_AT + 8 + 6 * 4 + 2 * 4 + 8 + 4
    };
    bt_buf b;
    bt_trace_row r;
    bt_trace *t = NULL;
    bool is_end;
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(bt_capture_put_start(&b, &(bt_capture_start){.wall_s = 1}, NULL, NULL), BT_OK);
    const size_t begin = b.len;
    put(&b, 4, true, NULL);
    uint8_t *record = b.data + begin;
    memmove(record + KEY_AT, record + KEY_AT + 1, b.len - begin - KEY_AT - 1);
    memmove(record + TIME_AT, record + TIME_AT + 8, b.len - begin - TIME_AT - 9);
    b.len -= 9;
    record[4] = 1;
    bt_put32(record + 8, bt_get32(record + 8) - 9);
    bt_put64(b.data + b.len - 8, bt_hash64(record, b.len - begin - 8));
    write_file(path, b.data, b.len);
    assert_int_equal(bt_trace_open(&t, path, &(bt_trace_options){.format = BT_TRACE_AUTO}, NULL), BT_OK);
    assert_int_equal(bt_trace_next(&r, &is_end, t, NULL), BT_OK);
    assert_false(is_end);
    assert_int_equal(r.captured->time_us[BT_TRACE_EXPOSED], 40 + BT_TRACE_EXPOSED);
    assert_null(r.key);
    assert_int_equal(r.captured->time_us[BT_TRACE_RESERVE], -1);
    assert_int_equal(r.captured->sampling.top_k, 40);
    assert_int_equal(r.captured->text_bytes, 9);
    bt_trace_close(t);
    record[4] = 4;
    bt_put64(b.data + b.len - 8, bt_hash64(record, b.len - begin - 8));
    put(&b, 4, true, NULL);
    write_file(path, b.data, b.len);
    bt_fault fault;
    assert_int_equal(bt_trace_open(&t, path, &(bt_trace_options){.format = BT_TRACE_AUTO}, NULL), BT_OK);
    assert_int_equal(bt_trace_next(&r, &is_end, t, &fault), BT_EFORMAT);
    assert_non_null(strstr(fault.text, "version 4; this program reads versions 1 to 3"));
    bt_trace_close(t);
    bt_buf_done(&b);
}

static void a_torn_tail_is_cut_wherever_it_tore(void **state)
{
    (void)state;
    bt_buf b;
    size_t end[4];
    bt_trace_facts facts;
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(bt_capture_put_start(&b, &(bt_capture_start){.wall_s = 1}, NULL, NULL), BT_OK);
    for (uint32_t i = 0; i < 4; i++) {
        put(&b, i, true, NULL);
        end[i] = b.len;
    }
    for (size_t n = end[1]; n < b.len; n++) {
        const uint32_t whole = n >= end[2] ? 3 : 2;
        write_file(path, b.data, n);
        assert_int_equal(read_all(&facts, 0, true, false, NULL), whole);
        assert_int_equal(facts.torn_bytes, n - end[whole - 1]);
        if (n % 7) continue;
        bt_capture_file f; /* who goes on with it cuts it too */
        assert_int_equal(bt_capture_file_open(&f, path, 1 << 20, NULL), BT_OK);
        assert_int_equal(f.cut_bytes, n - end[whole - 1]);
        assert_int_equal(bt_capture_file_add(&f, b.data + end[0], end[1] - end[0], NULL), BT_OK);
        bt_capture_file_close(&f);
        assert_int_equal(read_all(&facts, UINT32_MAX, true, false, NULL), whole + 1);
        assert_int_equal(facts.torn_bytes, 0);
    }
    bt_buf_done(&b);
}

static void a_damaged_record_is_one_bad_row(void **state)
{
    (void)state;
    bt_buf b;
    size_t from, to;
    bt_trace_facts facts;
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(bt_capture_put_start(&b, &(bt_capture_start){.wall_s = 1}, NULL, NULL), BT_OK);
    put(&b, 0, true, NULL);
    from = b.len;
    put(&b, 1, true, NULL);
    to = b.len;
    put(&b, 2, true, NULL);
    for (size_t i = from; i < to; i++) {
        b.data[i] ^= 0x40;
        write_file(path, b.data, b.len);
        assert_int_equal(read_all(&facts, UINT32_MAX, true, true, NULL), 2);
        assert_true(facts.bad >= 1);
        assert_non_null(strstr(facts.first_bad, "'record'"));
        b.data[i] ^= 0x40;
    }
    bt_buf_done(&b);
}

static void what_is_sealed_is_read_with_its_key_alone(void **state)
{
    (void)state;
    bt_keys k, wrong;
    unsigned char key[4][32];
    bt_buf b;
    bt_trace_facts facts;
    assert_int_equal(bt_seal_start(NULL), BT_OK);
    assert_int_equal(bt_keys_make(&k, NULL), BT_OK);
    assert_int_equal(bt_keys_make(&wrong, NULL), BT_OK);
    assert_int_equal(bt_keys_from_z85(key[0], k.public_key, NULL), BT_OK);
    assert_int_equal(bt_keys_from_z85(key[1], k.secret_key, NULL), BT_OK);
    assert_int_equal(bt_keys_from_z85(key[2], wrong.public_key, NULL), BT_OK);
    assert_int_equal(bt_keys_from_z85(key[3], wrong.secret_key, NULL), BT_OK);
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(bt_capture_put_start(&b, &(bt_capture_start){.wall_s = 1}, key[0], NULL), BT_OK);
    for (uint32_t i = 0; i < 5; i++) put(&b, i, true, key[0]);
    assert_null(memmem(b.data, b.len, "an answer", 9));
    write_file(path, b.data, b.len);
    const bt_trace_options own = {.public_key = key[0], .secret_key = key[1]};
    assert_int_equal(read_all(&facts, 0, true, false, &own), 5);
    const bt_trace_options no[] = {{.format = BT_TRACE_AUTO}, {.public_key = key[2], .secret_key = key[3]}};
    for (size_t i = 0; i < 2; i++) {
        bt_trace *t = NULL;
        bt_trace_row r;
        bool is_end;
        assert_int_equal(bt_trace_open(&t, path, &no[i], NULL), BT_OK);
        assert_int_equal(bt_trace_next(&r, &is_end, t, NULL), BT_EAUTH);
        bt_trace_close(t);
    }
    bt_buf_done(&b);
}

/* ---- the recorder -------------------------------------------------------------------------------- */

static bt_capture *open_capture(uint64_t rotate_bytes, bool has_text, const char *seal)
{
    bt_capture *c = NULL;
    uint64_t cut;
    bt_fault fault = {""};
    const bt_capture_config config = {.path = path, .model = "m", .rotate_bytes = rotate_bytes,
                                      .has_text = has_text, .seal_file = seal};
    if (bt_capture_open(&c, &cut, &config, &fault) < 0) fail_msg("%s", fault.text);
    return c;
}

static void add(bt_capture *c, uint32_t i)
{
    bt_trace_captured k;
    bt_trace_row r = row_of(&k, i, true);
    r.arrival_us = bt_clock_us();
    bt_capture_add(c, &r);
}

/* The fate of n records, once all are past the thread; emulated, it is slower than closing waits. */
static bt_capture_counts wait_for(bt_capture *c, uint64_t n)
{
    bt_capture_counts now;
    const int64_t until_ms = bt_clock_ms() + 60000;
    do now = bt_capture_look(c);
    while (now.written + now.busy + now.refused < n && bt_clock_ms() < until_ms);
    return now;
}

static void hashes_share_what_prompts_share_and_no_key_twice(void **state)
{
    (void)state;
    uint64_t first[2];
    clean();
    for (int run = 0; run < 2; run++) {
        bt_capture *c = open_capture(1 << 20, false, NULL);
        for (uint32_t i = 1; i < 4; i++) add(c, i);
        assert_true(bt_capture_close(c));
    }
    const bt_trace_options o = {.format = BT_TRACE_AUTO};
    bt_trace *t = NULL;
    bt_trace_row r;
    bool is_end;
    uint64_t last = 0;
    assert_int_equal(bt_trace_open(&t, path, &o, NULL), BT_OK);
    for (int n = 0; n < 6; n++) {
        assert_int_equal(bt_trace_next(&r, &is_end, t, NULL), BT_OK);
        assert_int_equal(r.hash_len, 2);
        if (n % 3 == 0) first[n / 3] = r.hash_ids[0];
        assert_true(r.hash_ids[0] == first[n / 3]); /* 64 tokens in common, */
        assert_true(r.hash_ids[1] != last);         /* and then none */
        last = r.hash_ids[1];
    }
    assert_int_equal(bt_trace_look(t).starts, 2);
    assert_true(first[0] != first[1]);
    bt_trace_close(t);
}

static void it_is_rotated_and_read_as_one(void **state)
{
    (void)state;
    struct stat st;
    bt_trace_facts facts;
    clean();
    for (int run = 0; run < 2; run++) {
        bt_capture *c = open_capture(4096, true, NULL);
        for (uint32_t i = 0; i < 100; i++) add(c, i);
        (void)wait_for(c, 100);
        assert_true(bt_capture_close(c));
    }
    for (int part = 1; part <= 20; part++) {
        snprintf(other, sizeof other, "%s.%d", path, part);
        assert_int_equal(stat(other, &st), 0);
        assert_true(st.st_size <= 4096 && (st.st_mode & 0777) == 0600);
    }
    assert_int_equal(read_all(&facts, UINT32_MAX, true, false, NULL), 200);
    assert_true(facts.starts > 20);
    assert_int_equal(facts.bad + facts.dropped + facts.torn_bytes, 0);
}

static void two_do_not_write_to_one_file(void **state)
{
    (void)state;
    clean();
    bt_capture *c = open_capture(1 << 20, false, NULL), *second = NULL;
    uint64_t cut;
    assert_int_equal(bt_capture_open(&second, &cut, &(bt_capture_config){.path = path, .model = "m"}, NULL),
                     BT_EAGAIN);
    assert_true(bt_capture_close(c));
    write_file(path, "a list of secrets\n", 18);
    assert_int_equal(bt_capture_open(&second, &cut, &(bt_capture_config){.path = path, .model = "m"}, NULL),
                     BT_EFORMAT);
}

/* The disk takes 20,000 bytes a file. A record that does not fit is dropped and counted, nothing half written
 * stays, and where there is room again it goes on and tells how many are missing. */
static void a_full_disk_drops_records_and_says_how_many(void **state)
{
    (void)state;
    struct rlimit before, small;
    bt_trace_facts facts;
    clean();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 20000;
    bt_capture *c = open_capture(1 << 20, true, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (uint32_t i = 0; i < 200; i++) add(c, i);
    const bt_capture_counts n = wait_for(c, 200);
    assert_int_equal(n.written + n.refused, 200);
    assert_true(n.written > 10 && n.refused > 100);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    add(c, 1);
    assert_true(bt_capture_close(c));
    assert_int_equal(read_all(&facts, UINT32_MAX, true, false, NULL), n.written + 1);
    assert_int_equal(facts.dropped, n.refused);
    assert_int_equal(facts.bad + facts.torn_bytes, 0);
}

static char told[256];

static void hear(const char *text) { snprintf(told, sizeof told, "%s", text); }

/* Opens a capture while its disk takes nothing, and lets the disk take records from the third on. `is_new`:
 * the file is not there before. The words of a failure, or NULL. */
static const char *begin_on_a_full_disk(void (*fill)(bool is_full), bool is_new, const char *why)
{
    uint64_t cut;
    bt_capture *c = NULL;
    bt_trace_facts facts;
    bt_fault fault = {""};
    const bt_capture_config config = {.path = path, .model = "m", .rotate_bytes = 1 << 20, .has_text = true,
                                      .tell = hear};
    clean();
    if (!is_new) {
        c = open_capture(1 << 20, true, NULL);
        for (uint32_t i = 0; i < 10; i++) add(c, i);
        if (!bt_capture_close(c)) return "the first capture did not end";
    }
    told[0] = 0;
    fill(true);
    if (bt_capture_open(&c, &cut, &config, &fault) < 0) return strdup(fault.text);
    if (!strstr(told, why)) return "nobody was told why";
    for (uint32_t i = 0; i < 2; i++) add(c, i);
    if (wait_for(c, 2).refused != 2) return "not all were dropped";
    fill(false);
    add(c, 3);
    if (wait_for(c, 3).written != 1 || !bt_capture_close(c)) return "nothing was written";
    const uint32_t n = read_all(&facts, UINT32_MAX, true, false, NULL), starts = is_new ? 1 : 2;
    if (n != (is_new ? 1 : 11) || facts.dropped != 2 || facts.starts != starts) return "other counts";
    return facts.bad + facts.torn_bytes ? "damage" : NULL;
}

/* The file may have no byte more than it has. */
static void limit_files(bool is_full)
{
    struct rlimit r;
    struct stat st;
    const rlim_t bytes = stat(path, &st) == 0 ? (rlim_t)st.st_size : 0;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &r), 0);
    r.rlim_cur = is_full ? bytes : r.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static void a_file_over_its_limit_does_not_keep_a_capture_from_beginning(void **state)
{
    (void)state;
    void (*was)(int) = signal(SIGXFSZ, SIG_IGN);
    for (int is_new = 0; is_new < 2; is_new++) {
        const char *why = begin_on_a_full_disk(limit_files, is_new, "File too large");
        if (why) fail_msg("%s", why);
    }
    (void)signal(SIGXFSZ, was);
}

/* Another file takes every page that is left, or gives them back. */
static void fill_disk(bool is_full)
{
    static char page[4096];
    snprintf(other, sizeof other, "%s/filler", dir);
    if (!is_full) {
        (void)unlink(other);
        return;
    }
    const int fd = open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, page, sizeof page) > 0)
        ;
    (void)close(fd);
}

/* Every name is taken, so that the file cannot even be made, or is free again. */
static void fill_names(bool is_full)
{
    for (int i = 0; i < 16; i++) {
        snprintf(other, sizeof other, "%s/name%d", dir, i);
        const int fd = is_full ? open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
        if (!is_full) (void)unlink(other);
        if (fd >= 0) (void)close(fd);
    }
}

enum { NO_DISK = 77 };

static int on_a_small_disk(void)
{
    void (*const fills[])(bool) = {fill_disk, fill_names};
    if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) return NO_DISK;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) return NO_DISK;
    if (mount("none", dir, "tmpfs", 0, "size=64k,nr_inodes=8") < 0) return NO_DISK;
    for (int i = 0; i < 2; i++) {
        const char *why = begin_on_a_full_disk(fills[i], true, "No space left on device");
        if (why) fprintf(stderr, "%s: %s\n", i ? "names" : "pages", why);
        if (why) return 1;
    }
    return 0;
}

/* A small file system in memory, seen by a child alone. */
static void a_full_disk_does_not_keep_a_capture_from_beginning(void **state)
{
    (void)state;
    int status = 0;
    clean();
    const pid_t pid = fork();
    if (pid == 0) _exit(on_a_small_disk());
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_DISK) {
        print_message("no small file system can be mounted here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_path_that_cannot_be_opened_is_refused(void **state)
{
    (void)state;
    uint64_t cut;
    bt_capture *c = NULL;
    bt_fault fault = {""};
    snprintf(other, sizeof other, "%s/none/c", dir);
    const char *const paths[] = {other, dir, "/dev/full"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(
            bt_capture_open(&c, &cut, &(bt_capture_config){.path = paths[i], .model = "m"}, &fault), BT_EIO);
        assert_non_null(strstr(fault.text, paths[i]));
    }
}

/* Records come faster than they can be written. A record that has no place is counted at once, and the file
 * tells it. */
static void what_the_thread_cannot_keep_up_with_is_dropped_and_told(void **state)
{
    (void)state;
    bt_trace_facts facts;
    clean();
    bt_capture *c = open_capture(1 << 30, true, NULL);
    for (uint32_t i = 0; i < 100000; i++) add(c, i);
    (void)wait_for(c, 100000);
    assert_true(bt_capture_close(c));
    const uint32_t written = read_all(&facts, UINT32_MAX, true, false, NULL);
    assert_int_equal(written + facts.dropped, 100000);
    assert_int_equal(facts.bad + facts.torn_bytes, 0);
    assert_true(written >= BT_CAPTURE_RING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_read_back_with_and_without_text),
        cmocka_unit_test(a_record_of_version_1_has_no_time_of_the_reservation_and_no_key),
        cmocka_unit_test(a_torn_tail_is_cut_wherever_it_tore),
        cmocka_unit_test(a_damaged_record_is_one_bad_row),
        cmocka_unit_test(what_is_sealed_is_read_with_its_key_alone),
        cmocka_unit_test(hashes_share_what_prompts_share_and_no_key_twice),
        cmocka_unit_test(it_is_rotated_and_read_as_one),
        cmocka_unit_test(two_do_not_write_to_one_file),
        cmocka_unit_test(a_full_disk_drops_records_and_says_how_many),
        cmocka_unit_test(a_file_over_its_limit_does_not_keep_a_capture_from_beginning),
        cmocka_unit_test(a_full_disk_does_not_keep_a_capture_from_beginning),
        cmocka_unit_test(a_path_that_cannot_be_opened_is_refused),
        cmocka_unit_test(what_the_thread_cannot_keep_up_with_is_dropped_and_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
