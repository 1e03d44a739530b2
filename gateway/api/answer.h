#ifndef GW_ANSWER_H
#define GW_ANSWER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "gateway/api/device.h"
#include "gateway/api/ask.h"
#include "text/calls/calls.h"
#include "text/thoughts.h"
#include "wire/msg.h"

/* The internal answer: what a dialect (dialect.h) makes events or one JSON text of, and the parts of it that several
 * dialects write. Pure: structs in, bytes added to a buffer. */
typedef enum gw_answer_open { GW_ANSWER_NOTHING, GW_ANSWER_SAID, GW_ANSWER_THOUGHT } gw_answer_open;
typedef struct gw_answer { /* the same for all events of one answer, but for how far its stream has come */
    const struct gw_dialect *dialect;
    bool has_usage_chunk, is_baton, hides_thoughts;
    char id[48];
    const char *model;
    int64_t created_us, now_us;          /* by the wall's clock: of the answer, and of what is written next */
    size_t prompt_tokens, cached_tokens; /* of the prompt; those that were not computed */
    bt_sampling sampling;                /* without bias and program; its seed only where has_seed */
    bool is_stream, ignores_eos, is_unload;
    uint32_t max_tokens;                /* as the request says; 0: it does not */
    struct json_t *echo;                /* what the dialect repeats of the request, an object; NULL: nothing */
    const struct gw_logprobs *logprobs; /* of its tokens; NULL: nobody asked */

    /* How far its stream has come. */
    size_t answer_tokens;
    gw_answer_open open;     /* what the open block is of */
    unsigned blocks, events; /* how many were begun, and how many were told */
    size_t told_tokens;      /* whose log probabilities went out */
    bt_buf kept[2];          /* what was said, and in [1] what was thought, for a dialect that repeats it */
    bt_buf runs;             /* gw_answer_run each */
} gw_answer;

typedef struct gw_answer_run { /* what was said, or thought, without a break */
    bool is_thought;
    size_t begin_bytes, end_bytes;   /* in kept */
    size_t begin_tokens, end_tokens; /* of the answer */
} gw_answer_run;

typedef enum gw_ending {
    GW_ENDING_STOP, /* the model ended it, or a stop id */
    GW_ENDING_LENGTH,
    GW_ENDING_STRING, /* a stop string */
    GW_ENDING_CALLS,  /* the model or a stop string ended it, and it calls tools; only where the dialect has words for
                         that */
    GW_ENDINGS
} gw_ending;

/* The figures of an ended request. Each duration was measured inside one process. A part that never came (the prefill
 * node's report of a request that ended at token 0) becomes null. */
typedef struct gw_answer_report {
    gw_ending ending;
    bt_text_span stop; /* the stop string, with GW_ENDING_STRING */
    const int32_t *prompt_ids;
    size_t prompt_tokens;
    bool brings_bos; /* the prompt's text began with the BOS that the file asks for */
    const int32_t *token_ids;
    size_t completion_tokens; /* without the id that ended the answer */
    size_t thought_tokens;    /* of them, inside thoughts */
    gw_bound bound;           /* how many tokens it may have, and why */
    const char *text;
    size_t text_len;
    bt_text_span said, thoughts; /* the parts of text */
    struct json_t *calls;        /* of tools: a list of {"name", "arguments": text}; NULL: none */
    bt_text_span prompt;         /* the prompt's text, with names of control tokens, where tells_prompt */
    uint64_t seed;               /* of the draws */
    const char *prefilled_by;    /* node that computed the prompt; NULL or "": not known */
    uint32_t attempts, recoveries;
    uint32_t cached_tokens;  /* of the prompt: not computed, because the node had their rows */
    uint32_t covered_tokens; /* of the prompt: not sent, because the decode node had their rows */
    uint64_t total_us;       /* from the arrival of the request to its end */
    int64_t ttft_us;         /* from the arrival of the request to token 0, in the gateway */
    bool has_prefill, has_decode, has_kv;
    /* Parts of ttft_us: until nodes were asked, until the decode node had room (-1: unknown), and in the node that made
     * token 0. The rest of ttft_us is messages on their way, and attempts that were lost. */
    int64_t gateway_queue_us, reserve_us;
    uint64_t queue_us, prefill_us;
    const bt_msg_chunks *chunks; /* of the prompt, with has_prefill; NULL: unknown */
    uint64_t decode_us;
    uint32_t decode_steps;
    uint64_t kv_bytes, kv_exposed_us, kv_transfer_us; /* has_kv: bytes; from the last layer, and from the first block,
                                                         to the last block in place */
    bt_digest16 kv_digest;                            /* with has_kv; 0: there is none */
    bt_msg_work work;                                 /* of the prompt, with has_prefill */
    gw_device_facts device;
    const bt_msg_engine *engine; /* of the prefill node; NULL: not known */
    uint32_t top_len;            /* highest logits of token 0 */
    int32_t top_ids[BT_MSG_TOP_LOGITS];
    float top_logits[BT_MSG_TOP_LOGITS];
} gw_answer_report;

/* Keeps a part of the answer, with which `tokens` of its tokens have come. Errors of bt_buf_add. */
bt_err gw_answer_keep(gw_answer *a, const bt_thoughts_part *s, size_t tokens);
size_t gw_answer_runs(const gw_answer *a);
const gw_answer_run *gw_answer_run_at(const gw_answer *a, size_t i); /* until the next is kept */

/* Adds j, whose reference is taken (NULL: a part of it could not be made), between two texts. All or nothing reaches
 * out. Errors of bt_buf_add. */
bt_err gw_answer_add(bt_buf *out, struct json_t *j, const char *before, const char *behind);
/* Takes both references, and returns the object with the value under key; NULL where either is NULL. */
struct json_t *gw_answer_with(struct json_t *object, const char *key, struct json_t *value);

/* New references; NULL: out of memory. */
struct json_t *gw_answer_timings(const gw_answer_report *r); /* as llama.cpp's server names them */
struct json_t *gw_answer_baton(const gw_answer_report *r);   /* everything that is known */
size_t gw_answer_computed(const gw_answer_report *r);        /* tokens of the prompt that were computed for it */
struct json_t *gw_answer_number(float x);                    /* digits as people write them: 0.95 */
const char *gw_answer_reason(gw_ending ending);              /* "stop", "length" or "tool_calls" */
/* The id of an answer's call of a tool: letters and digits, as many as Mistral's templates ask for. */
enum { GW_ANSWER_CALL_ID_CHARS = 9 };
void gw_answer_call_id(char ret[GW_ANSWER_CALL_ID_CHARS + 1], const gw_answer *a, uint32_t index);
#endif
