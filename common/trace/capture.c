/* A ring of copies, the thread that makes records of them, and the one that puts the file on the disk. */
#include "trace/capture.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/ring.h"
#include "base/rng.h"
#include "crypto/keys.h"
#include "crypto/seal.h"
#include "crypto/secret.h"
#include "trace/capture_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- syncs -----------------------------------------------------------------------------------------
 * A thread of its own puts files on the disk, the only place of a capture that waits for the disk: a sync can
 * take long, and records are written meanwhile. Its ring has copies of descriptors, so that the file's owner
 * closes and renames as it likes. */

enum { ASKED = 16, END = -1 };

typedef struct capture_sync {
    bt_ring *ring; /* of int; END is the last */
    pthread_t thread;
    void (*tell)(const char *text);
    atomic_uint waiting; /* asked and not done, at most ASKED: a place in the ring is left for END */
} capture_sync;

static void *sync_main(void *ud)
{
    capture_sync *s = ud;
    for (int fd = 0; fd != END;) {
        (void)bt_ring_wait(s->ring, -1);
        while (fd != END && bt_ring_pop(s->ring, &fd)) {
            char text[160];
            if (fd == END) break;
            if (fdatasync(fd) < 0 && s->tell) {
                (void)snprintf(text, sizeof text, "the capture cannot be put on the disk: %s",
                               strerror(errno));
                s->tell(text);
            }
            close(fd);
            atomic_fetch_sub(&s->waiting, 1);
        }
    }
    return NULL;
}

/* tell: called from that thread with words about what the disk refused; NULL: no calls. */
static bt_err sync_open(capture_sync **ret, void (*tell)(const char *text), bt_fault *fault)
{
    capture_sync *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory for a capture");
    s->tell = tell;
    bt_err e = bt_ring_new(&s->ring, sizeof(int), ASKED + 1, fault);
    const int err = e == BT_OK ? pthread_create(&s->thread, NULL, sync_main, s) : 0;
    if (err) e = bt_fail_thread(fault, "the thread of the capture", err);
    if (e < 0) {
        bt_ring_free(s->ring);
        free(s);
        return e;
    }
    *ret = s;
    return BT_OK;
}

/* Puts everything written to fd so far on the disk; the caller may close fd at once. False: the thread has
 * enough to do, ask again later. One thread asks. */
static bool sync_ask(capture_sync *s, int fd)
{
    const int copy = atomic_load(&s->waiting) < ASKED ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy < 0) return false;
    atomic_fetch_add(&s->waiting, 1);
    return bt_ring_push(s->ring, &copy);
}

/* Does all that was asked first; NULL is fine. */
static void sync_close(capture_sync *s)
{
    const int end = END;
    if (!s) return;
    (void)bt_ring_push(s->ring, &end); /* there is a place for it */
    pthread_join(s->thread, NULL);
    bt_ring_free(s->ring);
    free(s);
}

/* ---- the capture --------------------------------------------------------------------------------- */

/* One request on its way: the struct, then prompt ids, answer ids and text behind it. */
typedef struct item {
    size_t bytes;
    bt_trace_row row;
    bt_trace_captured captured;
    int32_t ids[];
} item;

struct bt_capture {
    bt_capture_config config;
    bool is_sealed;
    unsigned char public_key[BT_SEAL_KEY_BYTES];
    uint8_t hash_key[BT_KEYED_HASH_KEY_BYTES];
    int64_t start_us; /* of this process's clock */
    int64_t wall_s;
    bt_ring *ring; /* of item * */
    bt_ring *over; /* the thread says that it ends, by one byte */
    pthread_t thread;
    capture_sync *sync;
    bt_capture_file file; /* from here the thread's own */
    bt_buf record;
    uint64_t *hash;
    size_t hash_cap;
    uint64_t told_drops; /* those that a record has named */
    bool owes_start;     /* the disk did not take it when the capture was opened */
    int64_t told_us, synced_ms;
    atomic_bool is_ending;
    atomic_uint_fast64_t waiting_bytes, written, busy, refused, bytes;
};

static const unsigned char *key_of(const bt_capture *c) { return c->is_sealed ? c->public_key : NULL; }

/* ---- the serving side ---------------------------------------------------------------------------- */

void bt_capture_add(bt_capture *c, const bt_trace_row *row)
{
    const bt_trace_captured *from = row->captured;
    const size_t ids = from->prompt_len + (c->config.has_text ? from->answer_len : 0);
    const size_t text = c->config.has_text ? from->text_bytes : 0,
                 n = sizeof(item) + ids * sizeof(int32_t) + text;
    if (atomic_load(&c->waiting_bytes) + n > BT_CAPTURE_WAIT_BYTES) {
        atomic_fetch_add(&c->busy, 1);
        return;
    }
    item *i = malloc(n);
    if (!i) {
        atomic_fetch_add(&c->refused, 1);
        return;
    }
    *i = (item){.bytes = n, .row = *row, .captured = *from};
    i->row.arrival_us -= c->start_us;
    (void)snprintf(i->captured.key, sizeof i->captured.key, "%s", row->key ? row->key : "");
    if (row->key) i->row.key = i->captured.key;
    i->captured.has_text = c->config.has_text;
    if (from->prompt_len) memcpy(i->ids, from->prompt_ids, from->prompt_len * sizeof(int32_t));
    if (c->config.has_text && from->answer_len)
        memcpy(i->ids + from->prompt_len, from->answer_ids, from->answer_len * sizeof(int32_t));
    if (text) memcpy(i->ids + ids, from->text, text);
    atomic_fetch_add(&c->waiting_bytes, n);
    if (bt_ring_push(c->ring, &i)) return;
    atomic_fetch_sub(&c->waiting_bytes, n);
    atomic_fetch_add(&c->busy, 1);
    free(i);
}

bt_capture_counts bt_capture_look(bt_capture *c)
{
    return (bt_capture_counts){.written = atomic_load(&c->written), .busy = atomic_load(&c->busy),
                               .refused = atomic_load(&c->refused), .bytes = atomic_load(&c->bytes)};
}

/* ---- the thread ---------------------------------------------------------------------------------- */

static void tell(bt_capture *c, const bt_fault *why)
{
    const int64_t now = bt_clock_us();
    if (!c->config.tell || (c->told_us && now - c->told_us < 1000000)) return;
    c->told_us = now;
    c->config.tell(why->text);
}

static bt_err put_start(bt_capture *c, bt_fault *fault)
{
    bt_capture_start s = {.wall_s = c->wall_s, .has_text = c->config.has_text};
    (void)snprintf(s.model, sizeof s.model, "%s", c->config.model);
    return bt_capture_put_start(&c->record, &s, key_of(c), fault);
}

/* Before a record: a start in a new part of the file, and the number of records dropped since the last. A
 * capture that could not write its start writes it here, so that its records do not pass for those of the
 * process before it. */
static bt_err put_before(bt_capture *c, uint64_t drops, bt_fault *fault)
{
    bt_buf_clear(&c->record);
    bt_err e = c->file.bytes == 0 || c->owes_start ? put_start(c, fault) : BT_OK;
    if (e == BT_OK && drops > c->told_drops)
        e = bt_capture_put_dropped(&c->record, drops - c->told_drops, key_of(c), fault);
    return e;
}

static bt_err hash_prompt(bt_capture *c, bt_trace_row *row, bt_fault *fault)
{
    const size_t n = bt_capture_blocks(row->captured->prompt_len);
    if (n > c->hash_cap) {
        uint64_t *more = reallocarray(c->hash, n, sizeof *more);
        if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu hashes", n);
        c->hash = more;
        c->hash_cap = n;
    }
    bt_capture_hash(c->hash, c->hash_key, row->captured->prompt_ids, row->captured->prompt_len);
    row->hash_ids = c->hash;
    row->hash_len = n;
    return BT_OK;
}

static void write_item(bt_capture *c, item *i)
{
    const uint64_t drops = atomic_load(&c->busy) + atomic_load(&c->refused);
    bt_fault why = {""};
    i->captured.prompt_ids = i->ids;
    i->captured.answer_ids = i->ids + i->captured.prompt_len;
    i->captured.text =
        (const char *)(i->captured.answer_ids + (i->captured.has_text ? i->captured.answer_len : 0));
    i->row.captured = &i->captured;
    bt_err e = hash_prompt(c, &i->row, &why);
    /* Its length decides whether it still fits this part; in the next part a start comes before it. */
    for (int tries = 0; e == BT_OK; tries++) {
        if ((e = put_before(c, drops, &why)) < 0 ||
            (e = bt_capture_put_request(&c->record, &i->row, key_of(c), &why)) < 0)
            break;
        if (tries > 0 || !bt_capture_file_is_full(&c->file, c->record.len)) break;
        if (c->file.is_dirty && c->file.fd >= 0) c->file.is_dirty = !sync_ask(c->sync, c->file.fd);
        e = bt_capture_file_rotate(&c->file, &why);
    }
    if (e == BT_OK) e = bt_capture_file_add(&c->file, c->record.data, c->record.len, &why);
    if (e == BT_OK) {
        c->told_drops = drops;
        c->owes_start = false;
        atomic_fetch_add(&c->written, 1);
        atomic_fetch_add(&c->bytes, c->record.len);
    } else {
        atomic_fetch_add(&c->refused, 1);
        tell(c, &why);
    }
}

/* A busy disk is asked again with the next record. */
static void sync_when_due(bt_capture *c)
{
    const int64_t now_ms = bt_clock_ms();
    if (!c->file.is_dirty || c->file.fd < 0 || now_ms - c->synced_ms < BT_CAPTURE_SYNC_MS) return;
    c->synced_ms = now_ms;
    c->file.is_dirty = !sync_ask(c->sync, c->file.fd);
}

/* Drops that no record came after. */
static void write_last_drops(bt_capture *c)
{
    const uint64_t drops = atomic_load(&c->busy) + atomic_load(&c->refused);
    if (drops > c->told_drops && put_before(c, drops, NULL) == BT_OK)
        (void)bt_capture_file_add(&c->file, c->record.data, c->record.len, NULL); /* the disk may still be
                                                                                     full */
}

static void *thread_main(void *ud)
{
    bt_capture *c = ud;
    bt_fault why = {""};
    c->synced_ms = bt_clock_ms();
    for (bool is_ending = false; !is_ending;) {
        item *i;
        /* Popping makes the ring quiet, whoever woke it; so its end is looked for before each wait. */
        if (!atomic_load(&c->is_ending))
            (void)bt_ring_wait(c->ring, c->file.is_dirty ? BT_CAPTURE_SYNC_MS : -1);
        is_ending = atomic_load(&c->is_ending); /* before the last look: nothing is added after it */
        while (bt_ring_pop(c->ring, &i)) {
            write_item(c, i);
            atomic_fetch_sub(&c->waiting_bytes, i->bytes);
            free(i);
            sync_when_due(c);
        }
        sync_when_due(c);
    }
    write_last_drops(c);
    if (bt_capture_file_sync(&c->file, &why) < 0) tell(c, &why);
    sync_close(c->sync);
    (void)bt_ring_push(c->over, &(uint8_t){1}); /* its only one */
    return NULL;
}

/* ---- opening and closing ------------------------------------------------------------------------- */

static bt_err load_key(bt_capture *c, bt_fault *fault)
{
    bt_buf b;
    bt_fault why = {""};
    if (!c->config.seal_file) return BT_OK;
    bt_buf_init(&b, 4096);
    bt_err e = bt_file_read(&b, c->config.seal_file, fault);
    if (e == BT_OK) {
        char *text = b.data ? (char *)b.data : (char[]){""};
        text[strcspn(text, "\r\n")] = 0;
        e = bt_keys_from_z85(c->public_key, text, &why);
        if (e < 0) bt_fail(fault, e, "'%.150s': %.90s", c->config.seal_file, why.text);
    }
    c->is_sealed = e == BT_OK;
    bt_buf_done(&b);
    return e;
}

static void free_all(bt_capture *c)
{
    if (c->file.path) bt_capture_file_close(&c->file);
    bt_ring_free(c->ring);
    bt_ring_free(c->over);
    bt_buf_done(&c->record);
    bt_secret_wipe(c->hash_key, sizeof c->hash_key);
    free(c->hash);
    free(c);
}

/* The file and its start. A disk that takes nothing at present costs records, and not the gateway: each
 * record tries again. */
static bt_err begin_file(bt_capture *c, bt_fault *fault)
{
    bt_fault why = {""};
    bt_err e = put_start(c, fault);
    if (e < 0) return e;
    e = bt_capture_file_open(&c->file, c->config.path, c->config.rotate_bytes, &why);
    if (e == BT_OK) e = bt_capture_file_add(&c->file, c->record.data, c->record.len, &why);
    c->owes_start = e < 0;
    if (e == BT_ELIMIT) tell(c, &why);
    return e < 0 && e != BT_ELIMIT ? bt_fail(fault, e, "%s", why.text) : BT_OK;
}

bt_err bt_capture_open(bt_capture **ret, uint64_t *ret_cut, const bt_capture_config *config, bt_fault *fault)
{
    sigset_t all, before;
    bt_capture *c = calloc(1, sizeof *c);
    if (!c) return bt_fail(fault, BT_ENOMEM, "out of memory for a capture");
    c->config = *config;
    c->start_us = bt_clock_us();
    c->wall_s = bt_clock_wall_s();
    bt_buf_init(&c->record, 4 * (size_t)BT_CAPTURE_MAX_BYTES);
    bt_err e = bt_seal_start(fault);
    if (e == BT_OK) e = load_key(c, fault);
    if (e == BT_OK) e = bt_rng_entropy(c->hash_key, sizeof c->hash_key, fault);
    if (e == BT_OK) e = bt_ring_new(&c->ring, sizeof(item *), BT_CAPTURE_RING, fault);
    if (e == BT_OK) e = bt_ring_new(&c->over, 1, 1, fault);
    if (e == BT_OK) e = begin_file(c, fault);
    if (e < 0) goto fail;
    *ret_cut = c->file.cut_bytes;
    /* Signals belong to the thread with the event loop; a file over its limit is an error here and no signal.
     */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    e = sync_open(&c->sync, config->tell, fault);
    const int err = e == BT_OK ? pthread_create(&c->thread, NULL, thread_main, c) : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) e = bt_fail_thread(fault, "the thread of the capture", err);
    if (e < 0) {
        sync_close(c->sync);
        goto fail;
    }
    *ret = c;
    return BT_OK;
fail:
    free_all(c);
    return e;
}

bool bt_capture_close(bt_capture *c)
{
    uint8_t word;
    if (!c) return true;
    const int64_t until_ms = bt_clock_ms() + BT_CAPTURE_CLOSE_MS;
    atomic_store(&c->is_ending, true);
    bt_ring_wake(c->ring);
    while (!bt_ring_pop(c->over, &word)) {
        const int64_t left_ms = until_ms - bt_clock_ms();
        if (left_ms <= 0) return false;
        (void)bt_ring_wait(c->over, (int)left_ms); /* a signal wakes it too */
    }
    pthread_join(c->thread, NULL);
    free_all(c);
    return true;
}
