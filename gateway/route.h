#ifndef GW_ROUTE_H
#define GW_ROUTE_H
#include "gateway/registry.h"

/* Which prefill and which decode node a request gets. A pair must agree in KV shape and dtype, both must be
 * READY with a free slot (by the gateway's own count of open attempts), and both must hold the sequence: prompt
 * + max tokens within ctx_tokens of both and within the decode node's KV capacity, prompt within the prefill
 * node's.
 *
 *   LEAST_LOAD    the fewest open attempts over slots; among equals, the one chosen longest ago
 *   ROUND_ROBIN   the one chosen longest ago */
typedef enum gw_policy { GW_POLICY_LEAST_LOAD = 1, GW_POLICY_ROUND_ROBIN } gw_policy;

typedef enum gw_route_answer {
    GW_ROUTE_PAIR = 1,      /* chosen */
    GW_ROUTE_BUSY,          /* a pair would do, but has no free slot now */
    GW_ROUTE_TOO_LONG,      /* ready pairs exist, but none holds so long a sequence; *ret_limit_tokens is what the
                             * best holds */
    GW_ROUTE_NO_NODE,       /* no ready pair */
} gw_route_answer;

typedef struct gw_router { gw_policy policy; uint64_t turns; } gw_router;

/* *ret_prefill, *ret_decode are set for PAIR only; *ret_limit_tokens for TOO_LONG only. */
gw_route_answer gw_route_choose(gw_router *router, gw_registry *r, uint32_t prompt_tokens, uint32_t max_tokens,
                                gw_node **ret_prefill, gw_node **ret_decode, uint64_t *ret_limit_tokens);
/* The longest sequence any READY pair holds; 0 when there is none. */
uint64_t gw_route_limit_tokens(const gw_registry *r);
#endif
