/* Which node has had which beginnings of prompts. See affinity.h. One table for all nodes: an entry says that
 * one node has had one beginning. A place of the table is a set of WAYS entries. */
#include "gateway/brain/affinity.h"
#include "base/hash.h"

#include <stdlib.h>

enum { WAYS = 8 };

typedef struct entry {
    uint64_t key, used;
} entry; /* used: the turn of its last use; 0: free */

struct gw_affinity {
    entry *items;
    uint32_t sets;
    uint64_t turn;
};

bt_err gw_affinity_new(gw_affinity **ret, uint32_t entries)
{
    if (entries < WAYS || (entries & (entries - 1))) return BT_EARG;
    gw_affinity *a = calloc(1, sizeof *a);
    entry *items = calloc(entries, sizeof *items);
    if (!a || !items) {
        free(a);
        free(items);
        return BT_ENOMEM;
    }
    *a = (gw_affinity){.items = items, .sets = entries / WAYS};
    *ret = a;
    return BT_OK;
}

void gw_affinity_free(gw_affinity *a)
{
    if (!a) return;
    free(a->items);
    free(a);
}

uint64_t gw_affinity_changes(const gw_affinity *a) { return a->turn; }

uint32_t gw_affinity_chain(uint64_t ret[GW_AFFINITY_CHUNKS_MAX], const int32_t *ids, uint32_t len)
{
    const uint32_t whole = len / GW_AFFINITY_CHUNK_TOKENS;
    const uint32_t chunks = whole < GW_AFFINITY_CHUNKS_MAX ? whole : GW_AFFINITY_CHUNKS_MAX;
    uint64_t link[2] = {0, 0};
    for (uint32_t i = 0; i < chunks; i++) {
        link[1] =
            bt_hash64(ids + (size_t)i * GW_AFFINITY_CHUNK_TOKENS, GW_AFFINITY_CHUNK_TOKENS * sizeof *ids);
        ret[i] = link[0] = bt_hash64(link, sizeof link);
    }
    return chunks;
}

/* The entry of this beginning on this node; else, where it would go. */
static entry *place(const gw_affinity *a, uint64_t beginning, const bt_incarnation *node, uint64_t *ret_key)
{
    struct {
        uint64_t beginning;
        bt_incarnation node;
    } both = {beginning, *node};
    const uint64_t key = bt_hash64(&both, sizeof both);
    entry *set = a->items + (size_t)(key & (a->sets - 1)) * WAYS, *oldest = set;
    *ret_key = key;
    for (uint32_t i = 0; i < WAYS; i++) {
        if (set[i].used && set[i].key == key) return &set[i];
        if (set[i].used < oldest->used) oldest = &set[i];
    }
    return oldest;
}

void gw_affinity_note(gw_affinity *a, const uint64_t *chain, uint32_t len, const bt_incarnation *node)
{
    a->turn++;
    for (uint32_t i = 0; i < len; i++) {
        uint64_t key;
        entry *e = place(a, chain[i], node, &key);
        *e = (entry){key, a->turn};
    }
}

uint32_t gw_affinity_match(const gw_affinity *a, const uint64_t *chain, uint32_t len,
                           const bt_incarnation *node)
{
    uint32_t i = 0;
    for (uint64_t key; i < len; i++) {
        const entry *e = place(a, chain[i], node, &key);
        if (!e->used || e->key != key) break;
    }
    return i;
}
