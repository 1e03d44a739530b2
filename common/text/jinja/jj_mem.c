/* Chunks that double up to 1 MiB, so that a small template costs little and a large rendering few calls. */
#include "text/jinja/jj_mem.h"

#include "base/num.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 4096, LARGE_BYTES = 1 << 20, ALIGN = alignof(max_align_t) };

struct jj_chunk {
    jj_chunk *older;
    size_t used, cap;
    max_align_t data[];
};

void bt_jj_mem_init(jj_mem *m, size_t limit_bytes) { *m = (jj_mem){.limit_bytes = limit_bytes}; }

void bt_jj_mem_done(jj_mem *m)
{
    for (jj_chunk *c = m->chunk; c;) {
        jj_chunk *older = c->older;
        free(c);
        c = older;
    }
    bt_jj_mem_init(m, m->limit_bytes);
}

static jj_chunk *new_chunk(jj_mem *m, size_t bytes)
{
    size_t cap = m->chunk ? 2 * m->chunk->cap : FIRST_BYTES, whole;
    if (cap > LARGE_BYTES) cap = LARGE_BYTES;
    if (cap < bytes) cap = bytes;
    if (!bt_add_size(&whole, cap, sizeof(jj_chunk)) || whole > m->limit_bytes - m->bytes) {
        cap = bytes;
        if (!bt_add_size(&whole, cap, sizeof(jj_chunk)) || whole > m->limit_bytes - m->bytes) {
            m->is_full = true;
            return NULL;
        }
    }
    jj_chunk *c = malloc(whole);
    if (!c) {
        m->is_out = true;
        return NULL;
    }
    *c = (jj_chunk){m->chunk, 0, cap};
    m->bytes += whole;
    return m->chunk = c;
}

void *bt_jj_mem_take(jj_mem *m, size_t bytes)
{
    size_t rounded;
    if (!bt_add_size(&rounded, bytes, ALIGN - 1)) {
        m->is_full = true;
        return NULL;
    }
    rounded -= rounded % ALIGN;
    jj_chunk *c = m->chunk;
    if (!c || rounded > c->cap - c->used) c = new_chunk(m, rounded);
    if (!c) return NULL;
    char *p = (char *)c->data + c->used;
    c->used += rounded;
    return memset(p, 0, rounded);
}

void *bt_jj_mem_grow(jj_mem *m, const void *old, size_t old_bytes, size_t new_bytes)
{
    void *p = bt_jj_mem_take(m, new_bytes);
    if (p && old_bytes) memcpy(p, old, old_bytes);
    return p;
}
