#ifndef GW_ROUTE_H
#define GW_ROUTE_H
#include "gateway/brain/affinity.h"
#include "gateway/brain/avoid.h"
#include "gateway/brain/registry.h"

/* Which nodes a request gets: a pair of a prefill and a decode node, or a decode node that computes the prompt itself (a
 * local prefill). A pair must agree in KV shape and dtype. Every node must be READY with a free slot (by the gateway's own
 * count of open attempts; none while it refuses for now) and hold the sequence: prompt + max tokens within its ctx_tokens
 * and within the decode node's KV capacity, prompt within the prefill node's. Those that have just failed this request, or
 * whose attempts fail (avoid.h), get it only where no others would do. Then the policy decides, for the decode node first:
 *
 *   LEAST_LOAD    the fewest open attempts over slots; among equals, the one chosen longest ago
 *   PREFIX        the one that has had the longest beginning of the prompt (affinity.h), unless the share of its slots in use
 *                 is larger by more than a half than that of the least loaded; among equals, LEAST_LOAD
 *   ROUND_ROBIN   the one chosen longest ago
 *
 * Local, where a decode node has a prefill engine (HELLO's prefill_exactness) and it is of the class of every known prefill
 * node (their exactness; a node that is gone, or that is leaving, is not known):
 *   SHORT            the prompt is shorter than local_below_tokens, and such a node has a free slot
 *   NO_PREFILL_NODE  no prefill node is known: colocated mode
 * A request that has tokens already stays in its class: only nodes whose exactness is that of its first attempt will do. */
typedef enum gw_policy { GW_POLICY_LEAST_LOAD = 1, GW_POLICY_PREFIX, GW_POLICY_ROUND_ROBIN } gw_policy;
typedef enum gw_local { GW_LOCAL_NOT = 0, GW_LOCAL_SHORT, GW_LOCAL_NO_PREFILL_NODE } gw_local;

typedef enum gw_route_answer {
    GW_ROUTE_CHOSEN = 1,
    GW_ROUTE_BUSY,          /* nodes would do, but have no free slot now */
    GW_ROUTE_TOO_LONG,      /* ready nodes exist, but none holds so long a sequence; limit_tokens is what the best holds */
    GW_ROUTE_NO_NODE,       /* neither a ready pair nor a ready node that may prefill locally */
} gw_route_answer;

typedef struct gw_router { gw_policy policy; uint64_t turns; gw_avoid avoid; gw_affinity *affinity; } gw_router;   /* affinity NULL: PREFIX is LEAST_LOAD */

typedef struct gw_route_wish {
    int64_t now_us;
    gw_policy policy;                               /* 0: the router's */
    const int32_t *ids;                             /* the prompt; read by PREFIX only */
    uint32_t prompt_tokens, max_tokens;
    uint32_t local_below_tokens;                    /* 0: no prompt is short */
    bool has_class;                                 /* the request has tokens: of these classes, as gw_route_class gives them */
    uint64_t prefill_class, decode_class;
    uint64_t only_prefill, only_decode;             /* gw_node.name; no other will do. 0: any; only_prefill: never local */
    uint64_t shun_prefill, shun_decode;             /* has just failed the request: a node, or where both are set a pair. 0: none */
} gw_route_wish;

typedef struct gw_route_choice {
    gw_node *prefill, *decode;                      /* CHOSEN; prefill NULL where local */
    gw_local local;
    uint64_t limit_tokens;                          /* TOO_LONG */
    const gw_node *odd_decode, *odd_prefill;        /* a local prefill was wished for, but these two differ in class; or NULL */
} gw_route_choice;

/* *ret is set whatever the answer. */
gw_route_answer gw_route_choose(gw_route_choice *ret, gw_router *router, gw_registry *r, const gw_route_wish *w);
/* The longest sequence any READY pair, or node that may prefill locally, holds; 0 when there is none. */
uint64_t gw_route_limit_tokens(const gw_registry *r);
uint64_t gw_route_class(const char *exactness);
/* A node of the other role, not gone, whose KV has another shape or dtype than n's; NULL: there is none. */
const gw_node *gw_route_other_kv(const gw_registry *r, const gw_node *n);
#endif
