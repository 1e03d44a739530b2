#ifndef BT_WIRE_MSG_BODY_H
#define BT_WIRE_MSG_BODY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "control.pb-c.h"
#include "infer.pb-c.h"
#include "kv.pb-c.h"
#include "wire/msg.h"

/* Private to common/wire: how the kinds of messages are described to msg.c. A kind fills a protobuf struct
 * from a bt_msg, reads one back, and checks the ranges of a bt_msg; the same check serves both directions. */

/* Collects the first complaint about one message. */
typedef struct bt_msg_checker {
    const char *name; /* of the message type, for the words */
    bt_err code;      /* what a complaint returns: BT_EARG encoding, BT_EFORMAT decoding */
    bt_err err;       /* BT_OK until the first complaint */
    bt_fault *fault;
    void *(*alloc)(void *ud, size_t n); /* decoding: memory that lives as long as the message; NULL when used up */
    void *alloc_ud;
} bt_msg_checker;

/* Each returns whether all is well so far. */
bool bt_msg_body_range(bt_msg_checker *c, const char *field, uint64_t value, uint64_t lo, uint64_t hi);
bool bt_msg_body_ids(bt_msg_checker *c, const char *field, const int32_t *ids, size_t n);
bool bt_msg_body_code(bt_msg_checker *c, int32_t code);
bool bt_msg_body_not_zero(bt_msg_checker *c, const char *field, const uint8_t bytes[static 16]);
bool bt_msg_body_text(bt_msg_checker *c, const char *field, const char *text, size_t cap);
/* A text of at least one byte, all in 0x21..0x7e. */
bool bt_msg_body_name(bt_msg_checker *c, const char *field, const char *text, size_t cap);
bool bt_msg_body_present(bt_msg_checker *c, const char *field, const void *part);
bool bt_msg_body_fail(bt_msg_checker *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* From protobuf: exactly 16 bytes; a text that fits cap with its final 0. */
bool bt_msg_body_get16(bt_msg_checker *c, const char *field, uint8_t ret[static 16], ProtobufCBinaryData b);
/* 32 bytes, or none: all zero. */
bool bt_msg_body_get_key(bt_msg_checker *c, const char *field, bt_peer_key *ret, ProtobufCBinaryData b);
/* 16 bytes, or none: all zero. */
bool bt_msg_body_get_salt(bt_msg_checker *c, bt_prompt_salt *ret, ProtobufCBinaryData b);
bool bt_msg_body_get_text(bt_msg_checker *c, const char *field, char *ret, size_t cap, ProtobufCBinaryData b);
bool bt_msg_body_get_ref(bt_msg_checker *c, bt_request_ref *ret, const Bt__RequestRef *ref);

/* To protobuf, which only reads but has no const. */
static inline ProtobufCBinaryData bt_msg_body_put16(const uint8_t bytes[static 16])
{
    return (ProtobufCBinaryData){.len = 16, .data = (uint8_t *)bytes};
}
static inline ProtobufCBinaryData bt_msg_body_put_key(const bt_peer_key *k) /* a zero key does not travel */
{
    static const bt_peer_key zero;
    const bool is_set = __builtin_memcmp(k, &zero, sizeof zero) != 0;
    return (ProtobufCBinaryData){.len = is_set ? sizeof k->bytes : 0, .data = (uint8_t *)k->bytes};
}
static inline ProtobufCBinaryData bt_msg_body_put_salt(const bt_prompt_salt *s) /* likewise */
{
    static const bt_prompt_salt zero;
    const bool is_set = __builtin_memcmp(s, &zero, sizeof zero) != 0;
    return (ProtobufCBinaryData){.len = is_set ? sizeof s->bytes : 0, .data = (uint8_t *)s->bytes};
}
static inline ProtobufCBinaryData bt_msg_body_put_text(const char *text)
{
    return (ProtobufCBinaryData){.len = __builtin_strlen(text), .data = (uint8_t *)text};
}

/* Room for one message on its way out: the body and its parts. */
typedef struct bt_msg_scratch {
    union {
        Bt__Hello hello;
        Bt__Welcome welcome;
        Bt__Reject reject;
        Bt__Heartbeat heartbeat;
        Bt__Bye bye;
        Bt__RoleChange role;
        Bt__RoleAnswer role_answer;
        Bt__RequestOnly request_only;
        Bt__Reserve reserve;
        Bt__Reserved reserved;
        Bt__Refused refused;
        Bt__Prefill prefill;
        Bt__FirstToken first_token;
        Bt__PrefillDone prefill_done;
        Bt__Failed failed;
        Bt__Ack ack;
        Bt__Renew renew;
        Bt__Tokens tokens;
        Bt__TokensAck tokens_ack;
        Bt__Finished finished;
        Bt__Commit commit;
        Bt__Missing missing;
        Bt__Credit credit;
    } u;
    Bt__RequestRef ref; /* filled by msg.c for every message about a request */
    Bt__Sampling sampling;
    int32_t bias_ids[BT_SAMPLE_MAX_BIAS];
    float bias[BT_SAMPLE_MAX_BIAS];
    Bt__Logprob logprob;
    Bt__KvShape kv;
    Bt__Load load;
    Bt__Device device;
    Bt__DeviceError device_error[BT_MSG_MAX_DEVICE_FIGURES];
    Bt__DeviceError *device_error_at[BT_MSG_MAX_DEVICE_FIGURES];
    uint32_t device_region[2 * BT_MSG_MAX_DEVICE_AXES];
    Bt__DeviceWork device_work;
    Bt__DevicePrompt device_prompt;
    Bt__DevicePart device_part[BT_MSG_MAX_DEVICE_PARTS];
    Bt__DevicePart *device_part_at[BT_MSG_MAX_DEVICE_PARTS];
    Bt__Chunk chunk[BT_MSG_MAX_CHUNKS];
    Bt__Chunk *chunk_at[BT_MSG_MAX_CHUNKS];
    Bt__Engine engine;
    Bt__Fallback fallback[BT_MSG_MAX_FALLBACKS];
    Bt__Fallback *fallback_at[BT_MSG_MAX_FALLBACKS];
    union { /* the lists of MISSING and of TOKENS */
        struct {
            Bt__KvRange range[BT_MSG_MAX_RANGES];
            Bt__KvRange *range_at[BT_MSG_MAX_RANGES];
        };
        struct {
            float own[BT_MSG_MAX_TOKENS_LOGPROBS];
            uint32_t top_counts[BT_MSG_MAX_TOKENS_LOGPROBS];
            int32_t top_ids[BT_MSG_MAX_TOKENS_LOGPROBS * BT_SAMPLE_MAX_TOP];
            float top[BT_MSG_MAX_TOKENS_LOGPROBS * BT_SAMPLE_MAX_TOP];
        };
    };
} bt_msg_scratch;

typedef struct bt_msg_kind {
    bt_msg_type type;
    const char *name;
    size_t max_body_bytes;
    bool has_ref; /* the message carries a RequestRef as its field 1 */
    const ProtobufCMessageDescriptor *desc;
    ProtobufCMessage *(*fill)(bt_msg_scratch *s, const bt_msg *m);
    void (*read)(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body);
    void (*check)(bt_msg_checker *c, const bt_msg *m); /* NULL: nothing to check */
} bt_msg_kind;

enum { BT_MSG_SMALL_BODY_BYTES = 4096, BT_MSG_TOKENS_BODY_BYTES = 65536, BT_MSG_MISSING_BODY_BYTES = 16384 };
enum { BT_MSG_LINK_KINDS = 7, BT_MSG_INFER_KINDS = 17, BT_MSG_KV_KINDS = 5 };
extern const bt_msg_kind bt_msg_link_kinds[BT_MSG_LINK_KINDS];
extern const bt_msg_kind bt_msg_infer_kinds[BT_MSG_INFER_KINDS];
extern const bt_msg_kind bt_msg_kv_kinds[BT_MSG_KV_KINDS];

/* PREFILL_ACCEPTED, ABORT, ABORT_ACK, FINISHED_ACK and COMMITTED; FAILED and TRANSFER_REFUSED. */
ProtobufCMessage *bt_msg_body_fill_only(bt_msg_scratch *s, const bt_msg *m);
void bt_msg_body_read_only(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body);
ProtobufCMessage *bt_msg_body_fill_failed(bt_msg_scratch *s, const bt_msg *m);
void bt_msg_body_read_failed(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body);
void bt_msg_body_check_failed(bt_msg_checker *c, const bt_msg *m);
#endif
