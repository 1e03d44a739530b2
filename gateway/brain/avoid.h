#ifndef GW_AVOID_H
#define GW_AVOID_H
#include <stdbool.h>
#include <stdint.h>

/* Nodes, and pairs of nodes, whose attempts fail, and for how long others are better. Pure.
 *
 * A node or pair that failed is avoided for 0.5 s, doubling to 8 s while failures follow each other. When the time is
 * over, one attempt tries it again, and all others avoid it for as long once more; a success ends that. Nobody is
 * banned: an avoided node still serves where no other would do.
 *
 * A pair may also refuse for a time: the prefill node has no room for that decode node. Then the pair gets nothing
 * until that time is over.
 *
 * Nodes go by gw_node.name; 0 stands for any, so (p, 0) is a prefill node, (0, d) a decode node, (p, d) a pair. The
 * table is bounded: the entry that would end first makes room. A failure is forgotten when no attempt tried the node or
 * pair for 60 s. */
enum { GW_AVOID_MAX = 128, GW_AVOID_LEAST_US = 500000, GW_AVOID_MOST_US = 8000000, GW_AVOID_FORGET_US = 60000000 };

typedef struct gw_avoided {
    uint64_t prefill, decode;
    uint32_t failures; /* 0: a refusal */
    int64_t until_us;
} gw_avoided;
typedef struct gw_avoid {
    gw_avoided items[GW_AVOID_MAX];
    uint32_t len;
    uint64_t changes; /* how often a failure or refusal was noted */
} gw_avoid;           /* all zero at first */

void gw_avoid_failed(gw_avoid *a, uint64_t prefill, uint64_t decode, int64_t now_us);
void gw_avoid_refused(gw_avoid *a, uint64_t prefill, uint64_t decode, int64_t until_us, int64_t now_us);
void gw_avoid_succeeded(gw_avoid *a, uint64_t prefill, uint64_t decode); /* exactly this node or pair */
/* An attempt on this pair begins. Where this attempt is the one that tries again, others go on avoiding the pair. */
void gw_avoid_tried(gw_avoid *a, uint64_t prefill, uint64_t decode, int64_t now_us);
/* Whether one of the two, or the pair, is avoided now; whether the pair refuses now. prefill 0: a decode node alone. */
bool gw_avoid_is(const gw_avoid *a, uint64_t prefill, uint64_t decode, int64_t now_us);
bool gw_avoid_refuses(const gw_avoid *a, uint64_t prefill, uint64_t decode, int64_t now_us);
/* Whether a success of this decode node, alone or in some pair, would end a failure. */
bool gw_avoid_fails(const gw_avoid *a, uint64_t decode);
/* Whether the table has an entry for a pair with this decode node. */
bool gw_avoid_names_pair(const gw_avoid *a, uint64_t decode);
int64_t gw_avoid_due_us(const gw_avoid *a, int64_t now_us); /* when the next refusal is over; INT64_MAX none */
#endif
