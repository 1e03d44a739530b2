#ifndef GW_AFFINITY_H
#define GW_AFFINITY_H
#include "wire/msg.h"

/* Which node has had which beginnings of prompts: what the policy `prefix` and local prefills go by. A guess: nodes
 * forget by their own rules, and nothing but speed depends on it. A beginning is known by the chain of hashes of its
 * whole chunks of 64 tokens; only the first 256 chunks count. The table is bounded: what was not seen for longest makes
 * room. Deterministic; allocates nothing after _new. */
enum { GW_AFFINITY_CHUNK_TOKENS = 64, GW_AFFINITY_CHUNKS_MAX = 256, GW_AFFINITY_ENTRIES = 1 << 16 };
typedef struct gw_affinity gw_affinity;

/* a power of two from 8 on, 16 bytes each; BT_EARG, BT_ENOMEM */
bt_err gw_affinity_new(gw_affinity **ret, uint32_t entries);
void gw_affinity_free(gw_affinity *a); /* NULL is fine */

uint64_t gw_affinity_changes(const gw_affinity *a); /* how often anything was noted */

/* ret[i] stands for the first i + 1 chunks of ids. Returns how many there are, up to GW_AFFINITY_CHUNKS_MAX. */
uint32_t gw_affinity_chain(uint64_t ret[GW_AFFINITY_CHUNKS_MAX], const int32_t *ids, uint32_t len);
/* The node has these now. */
void gw_affinity_note(gw_affinity *a, const uint64_t *chain, uint32_t len, const bt_incarnation *node);
/* How many of these the node has had, from the first on without a gap. */
uint32_t gw_affinity_match(const gw_affinity *a, const uint64_t *chain, uint32_t len, const bt_incarnation *node);
#endif
