/* head and tail count for ever and wrap with size_t; the slot is their remainder by a power of two. */
#include "base/ring.h"

#include <errno.h>
#include <poll.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LIMIT (1u << 20)

struct bt_ring {
    alignas(64) atomic_size_t tail; /* written by the producer */
    alignas(64) atomic_size_t head; /* written by the consumer */
    alignas(64) size_t elem_bytes;
    size_t capacity;
    size_t mask;
    int fd;
    uint8_t *slots;
};

bt_err bt_ring_new(bt_ring **ret, size_t elem_bytes, size_t capacity, bt_fault *fault)
{
    if (!elem_bytes || elem_bytes > LIMIT || !capacity || capacity > LIMIT)
        return bt_fail(fault, BT_EARG, "a ring of %zu elements of %zu bytes: each must be 1 to %zu", capacity,
                       elem_bytes, (size_t)LIMIT);
    size_t slots = 1;
    while (slots < capacity) slots *= 2;
    bt_ring *r = aligned_alloc(64, sizeof *r);
    if (!r)
        return bt_fail(fault, BT_ENOMEM, "out of memory for a ring of %zu elements of %zu bytes", capacity,
                       elem_bytes);
    memset(r, 0, sizeof *r);
    r->elem_bytes = elem_bytes;
    r->capacity = capacity;
    r->mask = slots - 1;
    r->slots = calloc(slots, elem_bytes);
    r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bt_err e = BT_OK;
    if (!r->slots)
        e = bt_fail(fault, BT_ENOMEM, "out of memory for a ring of %zu elements of %zu bytes", capacity,
                    elem_bytes);
    else if (r->fd < 0) e = bt_fail(fault, BT_EIO, "cannot make an eventfd: %s", strerror(errno));
    if (e < 0) {
        bt_ring_free(r);
        return e;
    }
    *ret = r;
    return BT_OK;
}

void bt_ring_free(bt_ring *r)
{
    if (!r) return;
    if (r->fd >= 0) close(r->fd);
    free(r->slots);
    free(r);
}

bool bt_ring_add(bt_ring *r, const void *elem)
{
    const size_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    if (tail - atomic_load_explicit(&r->head, memory_order_acquire) >= r->capacity) return false;
    memcpy(r->slots + (tail & r->mask) * r->elem_bytes, elem, r->elem_bytes);
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
    return true;
}

void bt_ring_wake(bt_ring *r)
{
    const uint64_t one = 1;
    (void)!write(r->fd, &one, sizeof one); /* fails only when the counter is full: readable already */
}

bool bt_ring_push(bt_ring *r, const void *elem)
{
    if (!bt_ring_add(r, elem)) return false;
    bt_ring_wake(r);
    return true;
}

bool bt_ring_pop(bt_ring *r, void *ret_elem)
{
    const size_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    if (atomic_load_explicit(&r->tail, memory_order_acquire) == head) {
        /* Quiet the descriptor first, look again after: a push in between is seen here or wakes us again. */
        uint64_t count;
        (void)!read(r->fd, &count, sizeof count);
        if (atomic_load_explicit(&r->tail, memory_order_acquire) == head) return false;
    }
    memcpy(ret_elem, r->slots + (head & r->mask) * r->elem_bytes, r->elem_bytes);
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
    return true;
}

int bt_ring_fd(const bt_ring *r) { return r->fd; }

bool bt_ring_wait(bt_ring *r, int timeout_ms)
{
    struct pollfd p = {.fd = r->fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) != 0; /* a signal counts as a wake with nothing to pop */
}
