/* The nodes that have had prefixes of prompts. See affinity.h. One table for all nodes: an item says that one
 * node has had one prefix. Items are found by node and prefix, and by prefix alone, and stand in a list by
 * the time when they were noted. */
#include "gateway/brain/affinity.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* Links are places + 1; 0: none. */
typedef struct item {
    uint64_t prefix;
    bt_incarnation node;
    uint32_t same, same_before; /* in the bucket of its prefix */
    uint32_t member;            /* in the bucket of both */
    uint32_t older, newer;
} item;

struct gw_affinity {
    item *items;
    uint32_t *by_prefix, *by_member; /* [cap] */
    uint32_t cap, len;
    uint32_t oldest, newest;
    uint64_t turn;
};

uint32_t gw_affinity_entries(uint64_t kv_tokens, uint32_t nodes_max)
{
    const uint64_t chunks = kv_tokens / GW_AFFINITY_CHUNK_TOKENS,
                   most = (uint64_t)nodes_max * GW_AFFINITY_NODE_ENTRIES;
    uint32_t n = GW_AFFINITY_LEAST_ENTRIES;
    while (n < chunks && n < most && n < GW_AFFINITY_MOST_ENTRIES) n *= 2;
    return n;
}

/* Items are set before they are read, so their memory is touched only as it is used. */
static bt_err take_memory(gw_affinity *a, uint32_t entries)
{
    *a = (gw_affinity){.items = malloc(entries * sizeof *a->items),
                       .by_prefix = calloc(entries, sizeof *a->by_prefix),
                       .by_member = calloc(entries, sizeof *a->by_member), .cap = entries};
    if (a->items && a->by_prefix && a->by_member) return BT_OK;
    free(a->items);
    free(a->by_prefix);
    free(a->by_member);
    return BT_ENOMEM;
}

bt_err gw_affinity_new(gw_affinity **ret, uint32_t entries)
{
    if (entries < 8 || (entries & (entries - 1))) return BT_EARG;
    gw_affinity *a = calloc(1, sizeof *a);
    if (!a || take_memory(a, entries) < 0) {
        free(a);
        return BT_ENOMEM;
    }
    *ret = a;
    return BT_OK;
}

void gw_affinity_free(gw_affinity *a)
{
    if (!a) return;
    free(a->items);
    free(a->by_prefix);
    free(a->by_member);
    free(a);
}

uint64_t gw_affinity_changes(const gw_affinity *a) { return a->turn; }

uint32_t gw_affinity_chain(uint64_t ret[GW_AFFINITY_CHUNKS_MAX], const bt_prompt_view *prompt)
{
    const uint32_t whole = prompt->tokens / GW_AFFINITY_CHUNK_TOKENS;
    const uint32_t chunks = whole < GW_AFFINITY_CHUNKS_MAX ? whole : GW_AFFINITY_CHUNKS_MAX;
    if (prompt->ids)
        bt_prompt_hash(ret, prompt->ids, chunks * GW_AFFINITY_CHUNK_TOKENS, GW_AFFINITY_CHUNK_TOKENS);
    else
        for (uint32_t i = 0; i < chunks; i++)
            ret[i] = bt_prompt_prefix(prompt, (i + 1) * GW_AFFINITY_CHUNK_TOKENS);
    for (uint32_t i = 0; i < chunks; i++) ret[i] = bt_prompt_salted(ret[i], &prompt->salt);
    return chunks;
}

/* ---- items ---------------------------------------------------------------------------------------- */

static item *at(const gw_affinity *a, uint32_t link) { return &a->items[link - 1]; }

static uint32_t *bucket_of_prefix(const gw_affinity *a, uint64_t prefix)
{
    return &a->by_prefix[prefix & (a->cap - 1)];
}

static uint32_t *bucket_of_member(const gw_affinity *a, uint64_t prefix, const bt_incarnation *node)
{
    struct {
        uint64_t prefix;
        bt_incarnation node;
    } both = {prefix, *node};
    return &a->by_member[bt_hash64(&both, sizeof both) & (a->cap - 1)];
}

static uint32_t find(const gw_affinity *a, uint64_t prefix, const bt_incarnation *node)
{
    uint32_t link = *bucket_of_member(a, prefix, node);
    while (link && (at(a, link)->prefix != prefix || !bt_incarnation_equal(&at(a, link)->node, node)))
        link = at(a, link)->member;
    return link;
}

/* The bucket of a prefix is a list, whose first item knows the last. */
static void hang_by_prefix(gw_affinity *a, uint32_t link)
{
    item *it = at(a, link);
    uint32_t *b = bucket_of_prefix(a, it->prefix);
    it->same = 0;
    it->same_before = *b ? at(a, *b)->same_before : link;
    if (*b) at(a, it->same_before)->same = link;
    else *b = link;
    at(a, *b)->same_before = link;
}

static void unhang_by_prefix(gw_affinity *a, uint32_t link)
{
    const item *it = at(a, link);
    uint32_t *b = bucket_of_prefix(a, it->prefix);
    const uint32_t behind = it->same ? it->same : *b;
    if (*b == link) *b = it->same;
    else at(a, it->same_before)->same = it->same;
    if (*b) at(a, behind)->same_before = it->same_before;
}

/* Into both buckets. */
static void hang(gw_affinity *a, uint32_t link)
{
    item *it = at(a, link);
    uint32_t *m = bucket_of_member(a, it->prefix, &it->node);
    hang_by_prefix(a, link);
    it->member = *m;
    *m = link;
}

static void unhang(gw_affinity *a, uint32_t link)
{
    const item *it = at(a, link);
    unhang_by_prefix(a, link);
    uint32_t *m = bucket_of_member(a, it->prefix, &it->node);
    while (*m != link) m = &at(a, *m)->member;
    *m = it->member;
}

static void leave_list(gw_affinity *a, uint32_t link)
{
    const item *it = at(a, link);
    if (it->older) at(a, it->older)->newer = it->newer;
    else a->oldest = it->newer;
    if (it->newer) at(a, it->newer)->older = it->older;
    else a->newest = it->older;
}

static void be_newest(gw_affinity *a, uint32_t link)
{
    item *it = at(a, link);
    it->older = a->newest;
    it->newer = 0;
    if (a->newest) at(a, a->newest)->newer = link;
    else a->oldest = link;
    a->newest = link;
}

static void note(gw_affinity *a, uint64_t prefix, const bt_incarnation *node)
{
    uint32_t link = find(a, prefix, node);
    if (link) {
        leave_list(a, link);
        unhang_by_prefix(a, link);
        hang_by_prefix(a, link);
    } else {
        if (a->len < a->cap) {
            link = ++a->len;
        } else {
            link = a->oldest;
            leave_list(a, link);
            unhang(a, link);
        }
        at(a, link)->prefix = prefix;
        at(a, link)->node = *node;
        hang(a, link);
    }
    be_newest(a, link);
}

/* ---- the table ------------------------------------------------------------------------------------ */

bt_err gw_affinity_grow(gw_affinity *a, uint32_t entries)
{
    gw_affinity larger;
    if (entries <= a->cap) return BT_OK;
    if (entries & (entries - 1)) return BT_EARG;
    if (take_memory(&larger, entries) < 0) return BT_ENOMEM;
    for (uint32_t link = a->oldest; link; link = at(a, link)->newer) {
        item *it = at(&larger, ++larger.len);
        it->prefix = at(a, link)->prefix;
        it->node = at(a, link)->node;
        hang(&larger, larger.len);
        be_newest(&larger, larger.len);
    }
    larger.turn = a->turn;
    free(a->items);
    free(a->by_prefix);
    free(a->by_member);
    *a = larger;
    return BT_OK;
}

void gw_affinity_note(gw_affinity *a, const uint64_t *chain, uint32_t len, const bt_incarnation *node)
{
    a->turn++;
    for (uint32_t i = len; i > 0; i--) note(a, chain[i - 1], node);
}

bool gw_affinity_has(const gw_affinity *a, uint64_t prefix, const bt_incarnation *node)
{
    return find(a, prefix, node) != 0;
}

const bt_incarnation *gw_affinity_holder(const gw_affinity *a, uint64_t prefix, uint32_t *where)
{
    uint32_t link = *where ? at(a, *where)->same : *bucket_of_prefix(a, prefix);
    while (link && at(a, link)->prefix != prefix) link = at(a, link)->same;
    *where = link;
    return link ? &at(a, link)->node : NULL;
}

/* node NULL: any. */
static bool is_had(const gw_affinity *a, uint64_t prefix, const bt_incarnation *node)
{
    uint32_t where = 0;
    return node ? gw_affinity_has(a, prefix, node) : gw_affinity_holder(a, prefix, &where) != NULL;
}

static uint32_t count_had(const gw_affinity *a, const uint64_t *chain, uint32_t len,
                          const bt_incarnation *node)
{
    uint32_t lo = 0, hi = len; /* the node has had lo chunks, but not hi + 1 */
    while (lo < hi) {
        const uint32_t mid = (lo + hi + 1) / 2;
        if (is_had(a, chain[mid - 1], node)) lo = mid;
        else hi = mid - 1;
    }
    return lo;
}

uint32_t gw_affinity_match(const gw_affinity *a, const uint64_t *chain, uint32_t len,
                           const bt_incarnation *node)
{
    return count_had(a, chain, len, node);
}

uint32_t gw_affinity_longest(const gw_affinity *a, const uint64_t *chain, uint32_t len)
{
    return count_had(a, chain, len, NULL);
}
