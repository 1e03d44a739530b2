#ifndef GW_AFFINITY_H
#define GW_AFFINITY_H
#include "base/prompt.h"
#include "wire/msg.h"

/* The nodes that have had prefixes of prompts, for the policy `prefix` and for local prefills. A guess: nodes forget by
 * their own rules, and nothing but speed depends on it. A prefix is known by its prompt's salt and the chain of hashes
 * of its whole chunks of 64 tokens; only the first 256 chunks count.
 *
 * The table is bounded: the entry not noted for longest makes room. A note counts for the longest prefix first and for
 * the shortest last, so the longest is forgotten first, and a node that has a prefix has all shorter ones: a binary
 * search finds the longest. Deterministic; allocates nothing but in _new and _grow: 56 bytes an entry. */
enum { GW_AFFINITY_CHUNK_TOKENS = 64, GW_AFFINITY_CHUNKS_MAX = 256 };
/* Entries: as many as the nodes' KV has chunks (gw_affinity_entries), within these. */
enum { GW_AFFINITY_LEAST_ENTRIES = 1 << 16, GW_AFFINITY_MOST_ENTRIES = 1 << 22, GW_AFFINITY_NODE_ENTRIES = 1 << 12 };
typedef struct gw_affinity gw_affinity;

/* a power of two from 8 on; BT_EARG, BT_ENOMEM */
bt_err gw_affinity_new(gw_affinity **ret, uint32_t entries);
/* Makes room for `entries` where that is more; known entries stay. BT_ENOMEM: the table is as it was. */
bt_err gw_affinity_grow(gw_affinity *a, uint32_t entries);
void gw_affinity_free(gw_affinity *a); /* NULL is fine */
/* How many entries to have for nodes whose KV holds kv_tokens in all, of which there may be nodes_max: a power of two
 * from GW_AFFINITY_LEAST_ENTRIES to GW_AFFINITY_MOST_ENTRIES, at most GW_AFFINITY_NODE_ENTRIES a node. */
uint32_t gw_affinity_entries(uint64_t kv_tokens, uint32_t nodes_max);

uint64_t gw_affinity_changes(const gw_affinity *a); /* how often the table changed */

/* ret[i] stands for the first i + 1 chunks of the prompt, under its salt: by its ids, or by its hashes where it has no
 * ids. Returns the number of chunks, at most GW_AFFINITY_CHUNKS_MAX. */
uint32_t gw_affinity_chain(uint64_t ret[GW_AFFINITY_CHUNKS_MAX], const bt_prompt_view *prompt);
/* Notes that the node has the prefixes of this chain. */
void gw_affinity_note(gw_affinity *a, const uint64_t *chain, uint32_t len, const bt_incarnation *node);
bool gw_affinity_has(const gw_affinity *a, uint64_t prefix, const bt_incarnation *node);
/* How many chunks of the chain, from the first on, the node has had. */
uint32_t gw_affinity_match(const gw_affinity *a, const uint64_t *chain, uint32_t len, const bt_incarnation *node);
/* How many chunks of the chain, from the first on, any node has had. */
uint32_t gw_affinity_longest(const gw_affinity *a, const uint64_t *chain, uint32_t len);
/* Walks over the nodes that have had this prefix, the one noted longest ago first; *at is 0 at first. NULL: no more. */
const bt_incarnation *gw_affinity_holder(const gw_affinity *a, uint64_t prefix, uint32_t *at);
#endif
