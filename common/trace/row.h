#ifndef BT_TRACE_ROW_H
#define BT_TRACE_ROW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One request of a trace of any format (trace/reader.h), with the further fields of a capture. */
enum {
    BT_TRACE_MAX_TOKENS = 1 << 30, /* of a prompt, and of an answer */
    BT_TRACE_MAX_NAME = 256,       /* bytes of a session's name */
    BT_TRACE_MAX_KEY = 64,         /* bytes of a key's name */
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

/* Durations that a gateway measured, in microseconds; -1: the request did not come so far. prefill, decode, transfer
 * and exposed were measured by the node that did the work. */
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
    uint32_t bias_len; /* number of entries in logit_bias; the entries are not kept */
    uint64_t seed;
} bt_trace_sampling;

/* The fields that only a capture has. Pointers as in bt_trace_row. */
typedef struct bt_trace_captured {
    bt_trace_outcome outcome;
    bool is_chat, is_stream;
    char key[BT_TRACE_MAX_KEY + 1]; /* where a row that was read points; "" none */
    uint32_t max_tokens, attempts;
    uint32_t cached_tokens, covered_tokens; /* of the prompt: not computed, and not sent, because their rows were there
                                             */
    int64_t time_us[BT_TRACE_TIMES];
    bt_trace_sampling sampling;
    bool has_text; /* the fields below are set */
    const int32_t *prompt_ids, *answer_ids;
    size_t prompt_len, answer_len;
    const char *text; /* the answer, UTF-8, no NUL */
    size_t text_bytes;
} bt_trace_captured;

/* A row. Strings and arrays live until the next row is read or the trace is closed. */
typedef struct bt_trace_row {
    uint64_t line; /* its place in the file: line or record, from 1 */
    /* The arrival, counted from the beginning of the trace where the file has one, else from the first row. A follow-up
     * of a session may have a delay instead, counted from the end of the turn before it. */
    bool has_arrival, has_delay;
    int64_t arrival_us, delay_us;
    uint32_t input_tokens, output_tokens;
    bool has_output;          /* false: the trace does not say, and output_tokens is 0 */
    bool is_failed;           /* the trace says that the request got no answer */
    const char *session;      /* NULL: none */
    const char *model;        /* the model asked for, by the trace's name; NULL: the trace does not say */
    const char *key;          /* the name of the API key that asked, at most BT_TRACE_MAX_KEY bytes; NULL: none */
    uint32_t block_tokens;    /* tokens behind each of hash_ids; 0: the format does not say */
    const uint64_t *hash_ids; /* one for each block of the prompt, chained: equal ids mean equal prefixes */
    size_t hash_len;          /* 0: the trace has none */
    const bt_trace_captured *captured; /* NULL: not a capture */
} bt_trace_row;
#endif
