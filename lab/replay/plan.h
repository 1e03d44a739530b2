#ifndef BT_LAB_REPLAY_PLAN_H
#define BT_LAB_REPLAY_PLAN_H
#include "base/err.h"
#include "trace/map.h"
#include "trace/row.h"
#include "trace/stats.h"

/* The requests of a replay and their times, decided before it begins. Pure: rows in, a schedule out; the same rows,
 * options and seed give the same schedule. The whole schedule lies in memory, within these limits; more is BT_ELIMIT
 * and names --limit. */
enum {
    TOOL_REPLAY_MAX_REQUESTS = 1 << 20,
    TOOL_REPLAY_MAX_HASHES = 1 << 25, /* 256 MiB */
    TOOL_REPLAY_MAX_IDS = 1 << 26,    /* of captured prompts, 256 MiB */
    TOOL_REPLAY_NAMES = 16,
    TOOL_REPLAY_KEYS = 256,
    TOOL_REPLAY_NONE = UINT32_MAX,
};

typedef struct tool_replay_item {
    int64_t due_us;         /* since the beginning; -1: `delay_us` after the end of the turn before */
    int64_t delay_us;       /* of such a turn */
    uint32_t next;          /* the turn that waits for this one, or NONE */
    uint32_t prompt_tokens; /* at least 1 */
    uint32_t output_tokens; /* at least 1 */
    uint32_t hash_len;      /* blocks of the prompt, at hash_at of the plan's */
    uint32_t shared_tokens; /* length of the prefix that all prompts share */
    uint32_t ids_len;       /* > 0: the prompt was captured, and lies at ids_at of the plan's ids */
    uint32_t sampling;      /* of the plan's, or NONE: greedy */
    bool ends_itself;       /* captured, and ended before its limit, so this one may too */
    bool has_answer;        /* captured with its text */
    size_t hash_at, ids_at;
    uint64_t stream;      /* the made-up text of this prompt behind blocks and the shared prefix */
    uint64_t name;        /* bt_hash64 of the model that the row names; 0: none */
    uint32_t model;       /* a number of the caller's; 0 at first */
    uint32_t key;         /* place in the plan's keys, + 1; 0: none */
    uint64_t answer_hash; /* tool_replay_text_hash of the captured answer */
} tool_replay_item;

/* An API key by its name: of a trace's rows, or of --key-shares. */
typedef struct tool_replay_key {
    uint64_t hash; /* bt_hash64 of the name */
    char name[BT_TRACE_MAX_KEY + 1];
    uint32_t weight; /* in a simulated gateway */
    double share;    /* of requests whose row names no key */
} tool_replay_key;

typedef struct tool_replay_plan {
    tool_replay_item *item;
    uint32_t *order; /* items with a due time, in its order; after tool_replay_plan_end */
    uint64_t *hash;
    int32_t *ids;
    bt_trace_sampling *sampling;
    size_t len, order_len, hash_len, ids_len, samplings;
    uint32_t block_tokens; /* tokens behind each hash, after scaling; 0: no hashes */
    struct {
        uint64_t hash;
        char text[64];
    } name[TOOL_REPLAY_NAMES]; /* the first models that rows name */
    size_t names;
    tool_replay_key key[TOOL_REPLAY_KEYS];
    size_t keys;
    /* counts of what was found and changed */
    uint64_t passed_over;                         /* requests that failed in the trace */
    uint64_t untimed;                             /* neither arrival nor delay */
    uint64_t guessed_outputs;                     /* length of the answer not in the trace */
    uint64_t cut, cut_tokens;                     /* requests made shorter by fit, and the tokens that they lost */
    int64_t tick_us;                              /* distance of arrivals in groups, which were spread; 0: no groups */
    double scale;                                 /* factor of all lengths; 1: none */
    size_t cap, hash_cap, ids_cap, samplings_cap; /* private from here */
    bt_trace_map talks;
    bt_trace_stats stats;
} tool_replay_plan;

typedef struct tool_replay_plan_options {
    uint64_t seed;
    uint32_t usual_output;   /* tokens of an answer where the trace does not say */
    uint32_t block_tokens;   /* 0: the format's, or inferred */
    uint32_t context_tokens; /* 0: not known; prompt and answer together */
    bool scales, fits; /* requests longer than the context: all lengths by one factor; cut one by one; else refused */
    double speed;      /* > 0: factor of the arrivals' speed */
    double rate;       /* > 0: Poisson arrivals of this rate a second instead of the trace's */
    bool is_closed;    /* a fixed number at a time: arrivals do not matter */
    int64_t jitter_us; /* groups are spread over this time; -1: over their distance; 0: not spread */
} tool_replay_plan_options;

/* begin; add for each row, in the order of the file; end. done after success and failure. */
bt_err tool_replay_plan_begin(tool_replay_plan *p, bt_fault *fault);
bt_err tool_replay_plan_add(tool_replay_plan *p, const bt_trace_row *row, const tool_replay_plan_options *o,
                            bt_fault *fault);
/* One that comes from no row. */
bt_err tool_replay_plan_add_item(tool_replay_plan *p, const tool_replay_item *item, bt_fault *fault);
bt_err tool_replay_plan_end(tool_replay_plan *p, const tool_replay_plan_options *o, bt_fault *fault);
void tool_replay_plan_done(tool_replay_plan *p);
/* A digest of all that requests and their times are, behind `seed`: two plans with one digest are one load. */
uint64_t tool_replay_plan_digest(const tool_replay_plan *p, uint64_t seed);

/* The distance of arrivals in groups, where nearly all gaps over 20 ms are whole multiples of one of 100 ms or more:
 * Mooncake's come every 3 s, and times in whole seconds are groups of a second. Arrivals ascend. 0: no groups. */
int64_t tool_replay_tick(const int64_t *arrival_us, size_t n);

/* FNV-1a, so that a stream's text can be hashed as it comes. Begin with TOOL_REPLAY_TEXT_HASH. */
#define TOOL_REPLAY_TEXT_HASH 0xcbf29ce484222325u
uint64_t tool_replay_text_hash(uint64_t hash, const char *text, size_t len);
#endif
