#ifndef GW_ROUTE_H
#define GW_ROUTE_H
#include "gateway/brain/affinity.h"
#include "gateway/brain/avoid.h"
#include "gateway/brain/registry.h"

/* The choice of a request's nodes: a pair of a prefill and a decode node, or a decode node that computes the prompt
 * itself (a local prefill).
 *
 * Every node must be READY, have a free slot by the gateway's own count of attempts, and not refuse for
 * now. Slots that a prefill node keeps for short prompts (HELLO's short_slots) are free for short ones alone: those
 * with at most short_tokens, and where no other slot will do those of which the node has had all but so many
 * (affinity.h). It must hold the sequence: prompt + max tokens within its ctx_tokens and within the decode node's KV
 * capacity, and the prompt within the prefill node's. A pair must agree in KV shape and dtype. Nodes that have just
 * failed this request, or that are avoided (avoid.h), get it only where no others would do. A decode node in whose
 * line requests wait comes behind all of these. Then the policy decides, for the decode node first:
 *
 *   LEAST_LOAD    the fewest open attempts over slots; among equals, the node chosen longest ago
 *   PREFIX        the node that has had the longest prefix of the prompt (affinity.h) that counts; among equals,
 *                 LEAST_LOAD
 *   ROUND_ROBIN   the one chosen longest ago
 *
 * A prefix is worth the tokens that it saves. It counts where the waiting tokens of its node exceed those of the least
 * loaded node of the role by fewer, and where what the node was given lately (registry.h) exceeds the mean of the role
 * by at most twice as many. So prompts with a popular prefix come to all nodes. GW_HOLDERS_MAX of the nodes that have
 * had a prefix are looked at, those that got it longest ago; others are chosen as if they had not had it. Processes
 * that are no more are passed over, within the first GW_HOLDERS_SEEN.
 *
 * The exactness class of an engine (HELLO's exactness, or prefill_exactness for the prefill engine of a decode node)
 * says which numbers it computes: engines of one class give the same bits. A prompt may be computed locally only where
 * the decode node's prefill engine is of the class of every known prefill node; a node that is gone or leaving is not
 * known. Then a prefill is local because it is
 *   SHORT            where such a node has a free slot, and the rest of the prompt that it has not had (affinity.h) is
 *                    shorter than local_below_tokens. Prefixes that do not count are as none
 *   NO_PREFILL_NODE  where no prefill node is known: colocated mode
 * A request that has tokens already stays with the classes of its first attempt. */
enum { GW_HOLDERS_MAX = 16, GW_HOLDERS_SEEN = 64 };
typedef enum gw_policy { GW_POLICY_LEAST_LOAD = 1, GW_POLICY_PREFIX, GW_POLICY_ROUND_ROBIN } gw_policy;
typedef enum gw_local { GW_LOCAL_NOT = 0, GW_LOCAL_SHORT, GW_LOCAL_NO_PREFILL_NODE } gw_local;

typedef enum gw_route_answer {
    GW_ROUTE_CHOSEN = 1,
    GW_ROUTE_BUSY,     /* nodes would do, but have no free slot now */
    GW_ROUTE_TOO_LONG, /* ready nodes exist, but none holds so long a sequence */
    GW_ROUTE_NO_NODE,  /* neither a ready pair nor a ready node that may prefill locally */
} gw_route_answer;

/* On these choices depend beside the nodes. turns: choices so far. affinity NULL: no node has had anything. */
typedef struct gw_router {
    gw_policy policy;
    uint64_t turns;
    gw_avoid avoid;
    gw_affinity *affinity;
} gw_router;

typedef struct gw_route_wish {
    int64_t now_us;
    gw_policy policy;      /* 0: the router's */
    bt_prompt_view prompt; /* its prefixes are read by PREFIX, and where local_below_tokens is not 0 */
    uint32_t max_tokens;
    bool by_length; /* what a node has had does not make the prompt short for its slots: it was tried before */
    uint32_t local_below_tokens;          /* 0: nothing is short */
    bool has_class;                       /* the request has tokens: only nodes of these two classes may serve it */
    uint64_t prefill_class, decode_class; /* from gw_route_class */
    /* gw_node.name, 0: any. No other node may serve the request; with only_prefill no local prefill either. */
    uint64_t only_prefill, only_decode;
    /* gw_node.name, 0: none. This node, or where both are given this pair, has just failed the request. */
    uint64_t shun_prefill, shun_decode;
    /* The request stands in a line: another decode node only where no attempt of this gateway waits, and where there is
     * room by what its attempts there hold. */
    bool no_line;
} gw_route_wish;

/* The KV that an attempt takes of a decode node at least: its prompt and the begin of its answer. */
enum { GW_BEGIN_TOKENS = 256 };
static inline uint32_t gw_held_tokens(uint32_t prompt_tokens, uint32_t max_tokens)
{
    return prompt_tokens + (max_tokens < GW_BEGIN_TOKENS ? max_tokens : GW_BEGIN_TOKENS);
}
typedef struct gw_route_choice {
    gw_node *prefill, *decode; /* CHOSEN; prefill NULL where local */
    gw_local local;
    uint32_t prefill_new_tokens, decode_new_tokens; /* of the prompt: what each node is not known to have had */
    uint64_t limit_tokens;                          /* TOO_LONG: the longest sequence that any node holds */
    /* A local prefill would have been chosen, but the engines of these two nodes differ in class; NULL: no such case.
     */
    const gw_node *odd_decode, *odd_prefill;
} gw_route_choice;

/* *ret is set whatever the answer. */
gw_route_answer gw_route_choose(gw_route_choice *ret, gw_router *router, gw_registry *r, const gw_route_wish *w);
/* A prefill node alone, for an attempt for which the decode node holds a place: ret->prefill. CHOSEN, BUSY or NO_NODE.
 */
gw_route_answer gw_route_prefill(gw_route_choice *ret, gw_router *router, gw_registry *r, const gw_route_wish *w,
                                 gw_node *decode);
/* The longest sequence any READY pair, or node that may prefill locally, holds; 0 when there is none. With
 * counts_suspect SUSPECT ones count too. */
uint64_t gw_route_limit_tokens(const gw_registry *r, bool counts_suspect);
/* A class as a number, the same in all processes. */
uint64_t gw_route_class(const char *exactness);
/* A node of the other role, not gone, whose KV has another shape or dtype than n's; NULL: there is none. */
const gw_node *gw_route_other_kv(const gw_registry *r, const gw_node *n);
#endif
