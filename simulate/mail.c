/* Most messages are short and come by the million: they lie in blocks of one size that are used again. See
 * inner.h. */
#include "simulate/inner.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_BYTES = 640, SHORTS = 256 };

typedef struct place {
    struct place *next; /* of spare ones */
    bt_msg *listed;     /* sim_mail_next */
    int64_t *times;
    bool is_short;
    _Alignas(16) uint8_t bytes[];
} place;
typedef struct slab {
    struct slab *next;
    _Alignas(16) uint8_t bytes[];
} slab;
struct sim_mail {
    slab *slabs;
    place *spare;
};

bt_err sim_mail_new(sim_mail **ret)
{
    sim_mail *p = calloc(1, sizeof *p);
    if (!p) return BT_ENOMEM;
    *ret = p;
    return BT_OK;
}

void sim_mail_free(sim_mail *p)
{
    if (!p) return;
    while (p->slabs) {
        slab *s = p->slabs;
        p->slabs = s->next;
        free(s);
    }
    free(p);
}

static place *take(sim_mail *p, size_t bytes)
{
    const size_t one = sizeof(place) + SHORT_BYTES;
    if (bytes > SHORT_BYTES) {
        place *at = malloc(sizeof *at + bytes);
        if (at) at->is_short = false;
        return at;
    }
    if (!p->spare) {
        slab *s = malloc(sizeof *s + SHORTS * one);
        if (!s) return NULL;
        s->next = p->slabs;
        p->slabs = s;
        for (size_t i = 0; i < SHORTS; i++) {
            place *at = (void *)(s->bytes + i * one);
            *at = (place){.next = p->spare, .is_short = true};
            p->spare = at;
        }
    }
    place *at = p->spare;
    p->spare = at->next;
    return at;
}

static place *place_of(const bt_msg *copy)
{
    return (void *)((uint8_t *)(uintptr_t)copy - offsetof(place, bytes));
}

void sim_mail_drop(sim_mail *p, bt_msg *m)
{
    place *at = place_of(m);
    if (!at->is_short) {
        free(at);
        return;
    }
    at->next = p->spare;
    p->spare = at;
}

typedef struct array {
    const void **at; /* in the copy */
    size_t bytes;
} array;

/* The ids of a prompt; none where it has hashes alone. */
static array ids_of(const int32_t **at, uint32_t len)
{
    return (array){(const void **)at, *at ? len * sizeof **at : 0};
}

static array hashes_of(bt_prompt_hashes *h, uint32_t tokens)
{
    return (array){(const void **)&h->of,
                   h->of ? bt_prompt_hashes_len(tokens, h->block_tokens) * sizeof *h->of : 0};
}

/* The arrays that a message borrows, as places of *m. */
static size_t arrays_of(array ret[4], bt_msg *m)
{
    size_t n = 0;
    switch ((int)m->type) {
    case BT_MSG_RESERVE:
        ret[n++] = ids_of(&m->u.reserve.ids, m->u.reserve.ids_len);
        ret[n++] = hashes_of(&m->u.reserve.hashes, m->u.reserve.ids_len);
        ret[n++] =
            (array){(const void **)&m->u.reserve.generated, m->u.reserve.generated_len * sizeof(int32_t)};
        break;
    case BT_MSG_PREFILL:
        ret[n++] = ids_of(&m->u.prefill.ids, m->u.prefill.ids_len);
        ret[n++] = hashes_of(&m->u.prefill.hashes, m->u.prefill.ids_len);
        break;
    case BT_MSG_TOKENS:
        ret[n++] = (array){(const void **)&m->u.tokens.ids, m->u.tokens.ids_len * sizeof(int32_t)};
        break;
    case BT_MSG_MISSING:
        ret[n++] =
            (array){(const void **)&m->u.missing.ranges, m->u.missing.ranges_len * sizeof(bt_kv_range)};
        break;
    default: break;
    }
    return n;
}

static size_t rounded(size_t n) { return (n + 15) / 16 * 16; }

const int64_t *sim_mail_times(const bt_msg *copy) { return place_of(copy)->times; }
bt_msg **sim_mail_next(bt_msg *copy) { return &place_of(copy)->listed; }

void sim_mail_cut(bt_msg *copy, uint32_t from, uint32_t len)
{
    copy->u.tokens.first_index += from;
    copy->u.tokens.ids += from;
    copy->u.tokens.ids_len = len;
    place_of(copy)->times += from;
}

bt_msg *sim_mail_copy(sim_mail *p, const bt_msg *m, const int64_t *times, size_t len)
{
    const size_t head = bt_msg_bytes(m->type);
    array a[4];
    size_t bytes = rounded(head);
    const size_t n = arrays_of(a, (bt_msg *)(uintptr_t)m);
    for (size_t i = 0; i < n; i++) bytes += rounded(a[i].bytes);
    place *at = take(p, bytes + len * sizeof *times);
    if (!at) return NULL;
    bt_msg *copy = (void *)at->bytes;
    uint8_t *to = at->bytes + rounded(head);
    memcpy(copy, m, head);
    (void)arrays_of(a, copy);
    for (size_t i = 0; i < n; i++) {
        if (!a[i].bytes) continue;
        memcpy(to, *a[i].at, a[i].bytes);
        *a[i].at = to;
        to += rounded(a[i].bytes);
    }
    at->times = len ? (void *)to : NULL;
    if (len) memcpy(to, times, len * sizeof *times);
    return copy;
}

uint64_t sim_mail_token_bytes(void) { return bt_msg_bytes(BT_MSG_TOKENS) + sizeof(int32_t); }

uint64_t sim_mail_bytes(const bt_msg *m)
{
    array a[4];
    uint64_t bytes = bt_msg_bytes(m->type);
    const size_t n = arrays_of(a, (bt_msg *)(uintptr_t)m);
    for (size_t i = 0; i < n; i++) bytes += a[i].bytes;
    /* A prompt travels as its ids, even where only hashes of it are known here. */
    if (m->type == BT_MSG_RESERVE && !m->u.reserve.ids) bytes += m->u.reserve.ids_len * sizeof(int32_t);
    if (m->type == BT_MSG_PREFILL && !m->u.prefill.ids) bytes += m->u.prefill.ids_len * sizeof(int32_t);
    return bytes;
}
