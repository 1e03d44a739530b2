#ifndef GW_ANSWER_H
#define GW_ANSWER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "gateway/api/device.h"
#include "gateway/api/openai.h"
#include "wire/msg.h"

/* Answers, chunks of a stream and errors of the OpenAI API as JSON. Pure: structs in, bytes added to a buffer.
 *
 * A stream is events, "data: JSON" and an empty line each: the first delta carries the role (chat), then one chunk for
 * each piece of text, one with the finish_reason, one with the usage where asked for, and "data: [DONE]". A stream that
 * fails ends with an error event instead. All functions return as bt_buf_add; BT_ENOMEM adds nothing. */
typedef struct gw_answer_head { /* what all chunks of one answer share */
    bool is_chat, has_usage_chunk;
    char id[48]; /* "chatcmpl-..." or "cmpl-..." */
    const char *model;
    int64_t created_s;
} gw_answer_head;

/* What is known at the end. Durations are each measured inside one process. A part that never came (the prefill node's
 * report of a request that ended at token 0) is given as null. */
typedef struct gw_answer_report {
    const char *finish_reason; /* "stop" or "length" */
    const int32_t *prompt_ids;
    size_t prompt_tokens;
    const int32_t *token_ids;
    size_t completion_tokens; /* an id that ended the answer is not among them */
    gw_openai_bound bound;    /* of its tokens */
    const char *text;
    size_t text_len;
    const char *prefilled_by; /* node that computed the prompt; NULL or "": not known */
    uint32_t attempts, recoveries;
    uint32_t cached_tokens;  /* of the prompt: not computed, the node had their rows */
    uint32_t covered_tokens; /* of the prompt: not sent, the decode node had their rows */
    int64_t ttft_us;         /* from the arrival of the request to token 0, in the gateway */
    bool has_prefill, has_decode, has_kv;
    /* Parts of ttft_us: until nodes were asked, until the decode node had room (-1: not told), and in the node that
     * made token 0. What is left is messages on their way, and attempts that were lost. */
    int64_t gateway_queue_us, reserve_us;
    uint64_t queue_us, prefill_us;
    const bt_msg_chunks *chunks; /* of the prompt, with has_prefill; NULL: not told */
    uint64_t decode_us;
    uint32_t decode_steps;
    uint64_t kv_bytes, kv_exposed_us, kv_transfer_us; /* has_kv: bytes; last layer, first block, to the last in place */
    bt_digest16 kv_digest;
    bt_msg_work work; /* of the prompt, with has_prefill */
    gw_device_facts device;
    const bt_msg_engine *engine; /* of the prefill node; NULL: not known */
    uint32_t top_len;            /* highest logits of token 0 */
    int32_t top_ids[BT_MSG_TOP_LOGITS];
    float top_logits[BT_MSG_TOP_LOGITS];
} gw_answer_report;

/* `logprobs` below is a value of logprobs.h: the reference is taken, whatever comes of it, and NULL (out of memory) is
 * answered with BT_ENOMEM. */

/* The whole answer, not streamed. */
bt_err gw_answer_whole(bt_buf *out, const gw_answer_head *h, const gw_answer_report *r, struct json_t *logprobs,
                       bool is_baton);

/* Events of a stream. The last chunk, which is the usage chunk where asked for, carries `timings` and, with
 * is_baton, `baton`. */
bt_err gw_answer_role(bt_buf *out, const gw_answer_head *h); /* nothing unless chat */
bt_err gw_answer_text(bt_buf *out, const gw_answer_head *h, const char *text, size_t len, struct json_t *logprobs);
bt_err gw_answer_end(bt_buf *out, const gw_answer_head *h, const gw_answer_report *r, bool is_baton); /* with [DONE] */
bt_err gw_answer_error_event(bt_buf *out, const gw_openai_error *err);

bt_err gw_answer_error(bt_buf *out, const gw_openai_error *err);
bt_err gw_answer_models(bt_buf *out, const char *const *names, size_t names_len, int64_t created_s);
bt_err gw_answer_model(bt_buf *out, const char *name, int64_t created_s); /* one of them */
#endif
