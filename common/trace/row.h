#ifndef BT_TRACE_ROW_H
#define BT_TRACE_ROW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One request of a trace, whatever format it came from (trace/reader.h), and what a capture knows besides. */
enum {
    BT_TRACE_MAX_TOKENS = 1 << 30, /* of a prompt, and of an answer */
    BT_TRACE_MAX_NAME = 256,       /* bytes of a session's name */
    BT_TRACE_CAPTURE_BLOCK = 64,   /* tokens of a block that a capture hashes */
};

/* How a captured request ended. The names are those of the gateway's metrics. */
typedef enum bt_trace_outcome {
    BT_TRACE_STOP,
    BT_TRACE_LENGTH,
    BT_TRACE_NO_NODE,
    BT_TRACE_OVERLOADED,
    BT_TRACE_NODE_LOST,
    BT_TRACE_TIMEOUT,
    BT_TRACE_TOO_LONG,
    BT_TRACE_REFUSED,
    BT_TRACE_CANCELLED,
    BT_TRACE_BAD,
    BT_TRACE_NOT_FINITE,
    BT_TRACE_OUTCOMES,
} bt_trace_outcome;
extern const char *const bt_trace_outcome_names[BT_TRACE_OUTCOMES];

/* What a gateway measured; -1: it did not come so far. All in microseconds of the gateway's clock, or of the node that
 * did the work (prefill, decode, transfer, exposed). */
typedef enum bt_trace_time {
    BT_TRACE_QUEUE,    /* from the arrival to the first node asked */
    BT_TRACE_TTFT,     /* from the arrival to token 0 */
    BT_TRACE_TOTAL,    /* from the arrival to the end */
    BT_TRACE_PREFILL,  /* the prompt to token 0 */
    BT_TRACE_DECODE,   /* the first step to the end */
    BT_TRACE_TRANSFER, /* the first block sent to the last one in place */
    BT_TRACE_EXPOSED,  /* the last layer to the last block in place */
    BT_TRACE_RESERVE,  /* the first node asked to the room granted */
    BT_TRACE_TIMES,
} bt_trace_time;

/* How tokens were drawn (sample/sample.h has the ranges and the rule). */
typedef struct bt_trace_sampling {
    float temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    uint32_t top_k;
    uint32_t bias_len; /* entries of logit_bias; they themselves are not kept */
    uint64_t seed;
} bt_trace_sampling;

/* What only a capture has. Pointers as in bt_trace_row. */
typedef struct bt_trace_captured {
    bt_trace_outcome outcome;
    bool is_chat, is_stream;
    uint32_t max_tokens, attempts;
    uint32_t cached_tokens, covered_tokens; /* of the prompt: not computed, not sent, for rows that were there */
    int64_t time_us[BT_TRACE_TIMES];
    bt_trace_sampling sampling;
    bool has_text; /* of what follows */
    const int32_t *prompt_ids, *answer_ids;
    size_t prompt_len, answer_len;
    const char *text; /* the answer, UTF-8, no NUL */
    size_t text_bytes;
} bt_trace_captured;

/* Strings and arrays live until the next row is read or the trace is closed. */
typedef struct bt_trace_row {
    uint64_t line; /* where it stands: line or record, from 1 */
    /* When it came, from the beginning of the trace: what the file says where that counts from its beginning, else from
     * the first row. A follow-up of a session may have a delay instead, since the end of the turn before it. */
    bool has_arrival, has_delay;
    int64_t arrival_us, delay_us;
    uint32_t input_tokens, output_tokens;
    bool has_output;                   /* else the trace does not say, and output_tokens is 0 */
    bool is_failed;                    /* the trace says that it got no answer */
    const char *session;               /* NULL: none */
    const char *model;                 /* that was asked for, by the trace's name for it; NULL: it does not say */
    uint32_t block_tokens;             /* of what hash_ids stand for; 0: the format does not say */
    const uint64_t *hash_ids;          /* of the prompt's blocks, chained: equal ids mean equal beginnings */
    size_t hash_len;                   /* 0: the trace has none */
    const bt_trace_captured *captured; /* NULL: not a capture */
} bt_trace_row;
#endif
