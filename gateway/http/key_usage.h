#ifndef GW_KEY_USAGE_H
#define GW_KEY_USAGE_H
#include <stdbool.h>
#include <stdint.h>

/* The limits of an API key and its use of them: requests and tokens a minute, and requests at once. Pure: times
 * come in, in µs of any clock that does not go back.
 *
 * Each rate is a bucket that holds a minute's worth, is full at first, and fills evenly. A request takes 1 from the
 * first as it comes, whatever becomes of it. It takes its prompt and the most tokens that its answer may have from the
 * second before it begins, and gives back what it did not use when it ends. One that wants more than a whole minute's
 * tokens waits for a full bucket, and the bucket owes the rest. */
enum { GW_KEY_MAX_PER_MINUTE = 1000000000, GW_KEY_PACE_ENDS = 16, GW_KEY_PACE_US = 60000000 };

typedef struct gw_key_limits { /* 0: no limit */
    uint32_t requests_per_minute, tokens_per_minute, at_once, context_tokens;
} gw_key_limits;

/* How fast work ends: the times of the last GW_KEY_PACE_ENDS ends that are younger than GW_KEY_PACE_US. */
typedef struct gw_key_pace {
    int64_t end_us[GW_KEY_PACE_ENDS];
    uint32_t ends; /* since the beginning */
} gw_key_pace;
void gw_key_pace_ended(gw_key_pace *p, int64_t now_us);
/* Until `n` more have ended, at the pace of the last ones; a second where none is known. At most GW_KEY_PACE_US. */
int64_t gw_key_pace_wait_us(const gw_key_pace *p, uint64_t n, int64_t now_us);

typedef struct gw_bucket {
    int64_t level; /* in 1 / 60,000,000 of one, so that a µs adds the rate; below 0: owed */
    int64_t at_us;
} gw_bucket;

typedef struct gw_key_usage {
    gw_key_limits limits;
    gw_bucket requests, tokens;
    uint32_t in_flight;
    gw_key_pace pace; /* of this key's requests */
} gw_key_usage;

typedef enum gw_key_limit { GW_KEY_FINE, GW_KEY_REQUESTS, GW_KEY_TOKENS, GW_KEY_AT_ONCE, GW_KEY_LIMITS } gw_key_limit;
typedef struct gw_key_verdict {
    gw_key_limit limit; /* FINE, or the one that was reached */
    int64_t wait_us;    /* until the same would be FINE if nothing else comes */
    uint64_t taken;     /* from the tokens: give it to _end */
} gw_key_verdict;

/* At first (u all zero), and after the limits changed: what was taken counts on. */
void gw_key_usage_limit(gw_key_usage *u, const gw_key_limits *limits, int64_t now_us);
/* A request comes: FINE or REQUESTS. */
gw_key_verdict gw_key_usage_arrive(gw_key_usage *u, int64_t now_us);
/* It would begin, with at most so many tokens: FINE, TOKENS or AT_ONCE. Only FINE takes anything. */
gw_key_verdict gw_key_usage_begin(gw_key_usage *u, uint64_t tokens, int64_t now_us);
/* It has ended: what it took, and what it used. */
void gw_key_usage_end(gw_key_usage *u, uint64_t taken, uint64_t used, int64_t now_us);
#endif
