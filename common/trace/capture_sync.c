/* A ring of descriptors; each is a copy, so that the file's owner closes and renames as it likes. */
#include "trace/capture_sync.h"
#include "base/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASKED = 16, END = -1 };

struct bt_capture_sync {
    bt_ring *ring; /* of int; END is the last */
    pthread_t thread;
    void (*tell)(const char *text);
    atomic_uint waiting; /* asked and not done, at most ASKED: a place in the ring is left for END */
};

static void *thread_main(void *ud)
{
    bt_capture_sync *s = ud;
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

bt_err bt_capture_sync_open(bt_capture_sync **ret, void (*tell)(const char *text), bt_fault *fault)
{
    bt_capture_sync *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "a capture");
    s->tell = tell;
    bt_err e = bt_ring_new(&s->ring, sizeof(int), ASKED + 1, fault);
    const int err = e == BT_OK ? pthread_create(&s->thread, NULL, thread_main, s) : 0;
    if (err) e = bt_fail(fault, BT_EIO, "a thread for the capture: %s", strerror(err));
    if (e < 0) {
        bt_ring_free(s->ring);
        free(s);
        return e;
    }
    *ret = s;
    return BT_OK;
}

bool bt_capture_sync_ask(bt_capture_sync *s, int fd)
{
    const int copy = atomic_load(&s->waiting) < ASKED ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy < 0) return false;
    atomic_fetch_add(&s->waiting, 1);
    return bt_ring_push(s->ring, &copy);
}

void bt_capture_sync_close(bt_capture_sync *s)
{
    const int end = END;
    if (!s) return;
    (void)bt_ring_push(s->ring, &end); /* there is a place for it */
    pthread_join(s->thread, NULL);
    bt_ring_free(s->ring);
    free(s);
}
