#ifndef GW_ANSWER_H
#define GW_ANSWER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "gateway/api/device.h"
#include "gateway/api/openai.h"
#include "text/thoughts.h"
#include "wire/msg.h"

/* Answers, chunks of a stream and errors of the OpenAI API as JSON. Pure: structs in, bytes added to a buffer.
 *
 * A stream is events, "data: JSON" and an empty line each: the first delta carries the role (chat), then one chunk for
 * each piece of text, one with the finish_reason, one with the usage where asked for, and "data: [DONE]". A stream that
 * fails ends with an error event instead. All functions return the errors of bt_buf_add; BT_ENOMEM adds nothing. */
typedef struct gw_answer_head { /* the same in all chunks of one answer */
    bool is_chat, has_usage_chunk;
    char id[48]; /* "chatcmpl-..." or "cmpl-..." */
    const char *model;
    int64_t created_s;
} gw_answer_head;

/* The figures of an ended request. Each duration was measured inside one process. A part that never came (the prefill
 * node's report of a request that ended at token 0) becomes null. */
typedef struct gw_answer_report {
    const char *finish_reason; /* "stop" or "length" */
    const int32_t *prompt_ids;
    size_t prompt_tokens;
    bool brings_bos; /* the prompt's text began with the BOS that the file asks for */
    const int32_t *token_ids;
    size_t completion_tokens; /* without the id that ended the answer */
    gw_openai_bound bound;    /* how many tokens it may have, and why */
    const char *text;
    size_t text_len;
    const char *prefilled_by; /* node that computed the prompt; NULL or "": not known */
    uint32_t attempts, recoveries;
    uint32_t cached_tokens;  /* of the prompt: not computed, because the node had their rows */
    uint32_t covered_tokens; /* of the prompt: not sent, because the decode node had their rows */
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

/* `logprobs` below is a value of logprobs.h: the functions always take the reference, and return BT_ENOMEM for NULL
 * (out of memory). */

/* The whole answer, not streamed. said and thoughts are the parts of r->text; a message has reasoning_content, and the
 * same as reasoning, where there are thoughts. */
bt_err gw_answer_whole(bt_buf *out, const gw_answer_head *h, const gw_answer_report *r, bt_text_span said,
                       bt_text_span thoughts, struct json_t *logprobs, bool is_baton);

/* Events of a stream. The last chunk, which is the usage chunk where asked for, carries `timings` and, with
 * is_baton, `baton`. */
bt_err gw_answer_role(bt_buf *out, const gw_answer_head *h); /* nothing unless chat */
bt_err gw_answer_text(bt_buf *out, const gw_answer_head *h, const bt_thoughts_part *part, struct json_t *logprobs);
bt_err gw_answer_end(bt_buf *out, const gw_answer_head *h, const gw_answer_report *r, bool is_baton); /* with [DONE] */
bt_err gw_answer_error_event(bt_buf *out, const gw_openai_error *err);

bt_err gw_answer_error(bt_buf *out, const gw_openai_error *err);
bt_err gw_answer_models(bt_buf *out, const char *const *names, size_t names_len, int64_t created_s);
bt_err gw_answer_model(bt_buf *out, const char *name, int64_t created_s); /* one entry of /v1/models */
#endif
