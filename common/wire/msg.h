#ifndef BT_WIRE_MSG_H
#define BT_WIRE_MSG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/prompt.h"
#include "kv/kv_cover.h"
#include "kv/kv_dtype.h"
#include "sample/sample.h"

/* Every message between processes, as plain C. proto/README.md says who sends what when, the .proto files how
 * it travels; only common/wire sees protobuf. Brains take and give these structs and never see bytes or
 * sockets.
 *
 * Letters   G gateway, P prefill node, D decode node. Times are durations, never clock readings.
 * Identity  A process is known by its incarnation: 128 random bits drawn at start. A request is (owner,
 *           number): the incarnation of the gateway that took it, and that gateway's counter. `attempt`
 *           starts at 1 and only the owner raises it. */
#define BT_PROTOCOL_VERSION 5u

enum {
    BT_MSG_MAX_PROMPT_TOKENS = 1 << 20, /* ids in Prefill */
    BT_MSG_MAX_TOKENS_IDS = 4096,       /* ids in one Tokens */
    BT_MSG_MAX_TOKENS_LOGPROBS = 256,   /* ids in one Tokens that has log probabilities */
    BT_MSG_MAX_STOP_IDS = 16,
    BT_MSG_MAX_RANGES = 1024, /* in one Missing; more are asked for again later */
    BT_MSG_MAX_TEXT_BYTES = 255,
    BT_MSG_MAX_ENDPOINT_BYTES = 255,
    BT_MSG_MAX_ID_BYTES = 64,
    BT_MSG_TOP_LOGITS = 5,
    BT_MSG_MAX_LEASE_MS = 600000,
};

typedef struct bt_incarnation {
    uint8_t bytes[16];
} bt_incarnation;
typedef struct bt_request_ref {
    bt_incarnation owner;
    uint64_t number;
    uint32_t attempt;
} bt_request_ref;
typedef struct bt_ticket {
    uint8_t bytes[16];
} bt_ticket; /* unguessable, made by D for one attempt */
typedef struct bt_digest16 {
    uint8_t bytes[16];
} bt_digest16;
typedef struct bt_peer_key {
    uint8_t bytes[32];
} bt_peer_key; /* public CURVE key of a process; all zero on links without keys */

typedef enum bt_role { BT_ROLE_GATEWAY = 1, BT_ROLE_PREFILL = 2, BT_ROLE_DECODE = 3 } bt_role;
typedef enum bt_finish { BT_FINISH_STOP = 1, BT_FINISH_LENGTH = 2, BT_FINISH_ERROR = 3 } bt_finish;

typedef enum bt_msg_type {
    /* link */
    BT_MSG_HELLO = 1,       /* P, D -> G on control; P -> D on bulk: who I am and what I hold */
    BT_MSG_WELCOME = 2,     /* answer to HELLO: you are known */
    BT_MSG_REJECT = 3,      /* answer to HELLO: refused, with both values; or to a stray message */
    BT_MSG_HEARTBEAT = 4,   /* every 0.5 s, both ways on control; P and D add their load */
    BT_MSG_BYE = 5,         /* leaving on purpose: no new work, please */
    BT_MSG_ROLE = 6,        /* G -> P, D: drain, then serve as another role; again until ROLE_ANSWER or the deadline */
    BT_MSG_ROLE_ANSWER = 7, /* P, D -> G: yes, or why not; answers each ROLE */
    /* request, control */
    BT_MSG_RESERVE = 10,          /* G -> D */
    BT_MSG_RESERVED = 11,         /* D -> G */
    BT_MSG_REFUSED = 12,          /* D -> G for Reserve, P -> G for Prefill */
    BT_MSG_PREFILL = 13,          /* G -> P */
    BT_MSG_PREFILL_ACCEPTED = 14, /* P -> G */
    BT_MSG_FIRST_TOKEN = 15,      /* P -> G, again until BT_MSG_ACK */
    BT_MSG_PREFILL_DONE = 16,     /* P -> G after Committed, again until BT_MSG_ACK */
    BT_MSG_FAILED = 17,           /* P, D -> G: this attempt is over here; again until BT_MSG_ACK */
    BT_MSG_ACK = 18,              /* G -> P, D: `of` was received */
    BT_MSG_ABORT = 19,            /* G -> P, D, again until ABORT_ACK */
    BT_MSG_ABORT_ACK = 20,
    BT_MSG_RENEW = 21,      /* G -> P, D: the lease of this attempt runs anew */
    BT_MSG_WAITS = 22,      /* D -> G for Reserve: it stands in line here, RESERVED comes when there is room */
    BT_MSG_TOKENS = 30,     /* D -> G: ids from first_index, again until acknowledged */
    BT_MSG_TOKENS_ACK = 31, /* G -> D: next index wanted */
    BT_MSG_FINISHED = 32,   /* D -> G, kept and sent again until FINISHED_ACK */
    BT_MSG_FINISHED_ACK = 33,
    /* transfer, bulk (KV blocks travel beside these, see kv/kv_header.h) */
    BT_MSG_COMMIT = 40,           /* P -> D: every block was sent; token 0. Again until answered */
    BT_MSG_COMMITTED = 41,        /* D -> P: all in place and checked */
    BT_MSG_MISSING = 42,          /* D -> P: send these again */
    BT_MSG_CREDIT = 43,           /* D -> P: total bytes of blocks this link may have carried since its HELLO */
    BT_MSG_TRANSFER_REFUSED = 44, /* D -> P: no such reservation (lease ended, aborted, wrong ticket) */
} bt_msg_type;

typedef struct bt_kv_shape {
    uint32_t layers, kv_heads, head_dim;
    bt_kv_dtype dtype;
    uint32_t window, global_every; /* window: positions that window layers see; 0: there are none. global_every: see
                                      bt_kv_sees_all (kernels/kv_view.h); 0 without windows */
} bt_kv_shape;

typedef struct bt_load { /* a node's own count of itself */
    uint32_t slots_total, slots_used, queued;
    uint64_t pages_total, pages_used, pages_cached, reservations, leases, rss_bytes;
    uint64_t window_pages_total, window_pages_used, window_pages_cached; /* of window layers; 0: there are none */
    uint64_t overtakes; /* of D: reservations that began before one that had waited longer, since it started */
    uint64_t device_ns, device_ideal_ns, device_nj, paced_us, late_us; /* since it started, see bt_msg_device_work */
} bt_load;

enum { BT_MSG_MAX_FALLBACKS = 16, BT_MSG_MAX_SHORT_SLOTS = 1024 };
typedef struct bt_msg_fallback {
    char op[24], why[96];
    uint32_t count;
} bt_msg_fallback;             /* an operator that the NPU leaves to its companion */
typedef struct bt_msg_engine { /* what a prefill node computes with; for reports */
    char name[16], quant[128], shape_policy[128], profile[64];
    uint32_t fallbacks_len;
    bt_msg_fallback fallbacks[BT_MSG_MAX_FALLBACKS];
} bt_msg_engine;

enum {
    BT_MSG_MAX_DEVICE_FIGURES = 3,
    BT_MSG_MAX_DEVICE_AXES = 4,
    BT_MSG_MAX_DEVICE_STANDING = 2,
    BT_MSG_MAX_DEVICE_PERMILLE = 1000000
};
typedef struct bt_msg_device_error { /* of figures of one kind (device/forecast.h) */
    uint32_t standing;               /* bt_standing */
    uint32_t median_permille, worst_permille, rows;
    int32_t bias_permille;
} bt_msg_device_error;
typedef struct bt_msg_device { /* the device by which a node prices its work; for reports */
    char profile[64], stack[64], companion[64], link[32], schedule[16];
    uint64_t pace_milli, first_use_ns, compile_ns;
    bool has_errors; /* of all kinds, by bt_figure */
    bt_msg_device_error error[BT_MSG_MAX_DEVICE_FIGURES];
    uint32_t region[BT_MSG_MAX_DEVICE_AXES][2]; /* least and most, by bt_axis; most 0: not known */
    uint32_t devices;                           /* of its group; 0: unknown */
} bt_msg_device;
typedef struct bt_msg_device_work { /* what work would have taken on that device; ns 0: no price */
    uint64_t ns, ideal_ns, nj; /* device/work.h; a request has the whole time of a shared step and its share of the rest
                                */
    uint32_t energy, steps;    /* bt_energy_kind; steps of D in which the request took part */
    uint64_t paced_us, late_us; /* with --pace: the time that the device would take, and how much longer the work took
                                 */
} bt_msg_device_work;
/* The rule of bt_work_add: energy is known where that of all parts is known. */
static inline void bt_msg_device_work_add(bt_msg_device_work *sum, const bt_msg_device_work *more)
{
    if (!more->ns) return;
    const bool is_known = (!sum->ns || sum->energy) && more->energy;
    const uint32_t kind = sum->energy > more->energy ? sum->energy : more->energy;
    sum->energy = is_known ? kind : 0;
    sum->ns += more->ns;
    sum->ideal_ns += more->ideal_ns;
    sum->nj += more->nj;
    sum->steps += more->steps;
    sum->paced_us += more->paced_us;
    sum->late_us += more->late_us;
}
enum { BT_MSG_MAX_DEVICE_PARTS = 32, BT_MSG_MAX_DEVICE_ENERGY = 2 };
typedef struct bt_msg_device_prompt { /* a prompt's device time in parts, and its KV on the link */
    uint64_t transfer_ns, exposed_ns, npu_ns, edges_ns, sync_ns, session_ns, spill_ns;
    uint32_t parts_len;
    struct {
        char op[24];
        uint64_t ns;
    } parts[BT_MSG_MAX_DEVICE_PARTS]; /* what the companion runs */
    uint64_t npu_bubble_ns, companion_bubble_ns;
} bt_msg_device_prompt;

typedef struct bt_msg_hello {
    uint32_t protocol;
    bt_role role;
    char node_id[BT_MSG_MAX_ID_BYTES + 1]; /* stable across restarts, 1..64 printable bytes */
    uint8_t model_id[16];                  /* bt_model.id */
    char model_name[BT_MSG_MAX_TEXT_BYTES + 1];
    char exactness[BT_MSG_MAX_TEXT_BYTES + 1]; /* engine, weight form, KV dtype, numeric version */
    bt_kv_shape kv;
    uint32_t ctx_tokens; /* longest sequence this node can hold */
    uint64_t kv_capacity_tokens;
    char kv_endpoint[BT_MSG_MAX_ENDPOINT_BYTES + 1]; /* D only: where its bulk socket can be dialled */
    uint64_t pid;
    bool draining;
    bt_load load;
    const bt_msg_engine *engine; /* what computes prompts: of P, and of D that prefills too; NULL: unknown */
    const bt_msg_device *device; /* NULL: its work has no price */
    uint64_t link_epoch; /* bulk only: number of this link, higher for each new link; blocks, WELCOME and CREDIT carry
                            it */
    uint32_t short_tokens, short_slots; /* P only: what is left of a short prompt at most; slots kept for short ones */
    /* D only: the exactness class of its own prefill engine; "": none */
    char prefill_exactness[BT_MSG_MAX_TEXT_BYTES + 1];
} bt_msg_hello;
typedef struct bt_msg_work { /* what one prompt took; compilations: 0 once warm */
    uint64_t rows, npu_macs, companion_macs, shadow_entries, compilations, masked_macs, session_switches,
        session_switch_ns, tile_padding_macs, npu_int16_macs, npu_float_macs, expert_rows, expert_padding_rows;
} bt_msg_work;
typedef struct bt_msg_welcome {
    uint32_t protocol;
    char node_id[BT_MSG_MAX_ID_BYTES + 1];
    uint64_t link_epoch, credit_bytes; /* bulk only: the epoch of HELLO; all bytes that this epoch may carry so far */
} bt_msg_welcome;
typedef struct bt_msg_reject {
    int32_t code;
    char text[BT_MSG_MAX_TEXT_BYTES + 1];
} bt_msg_reject; /* a bt_err */
typedef struct bt_msg_heartbeat {
    bt_load load;
    bool draining;
} bt_msg_heartbeat;
typedef struct bt_msg_bye {
    char text[BT_MSG_MAX_TEXT_BYTES + 1];
} bt_msg_bye;
typedef struct bt_msg_role {
    bt_role role;
} bt_msg_role; /* PREFILL or DECODE */
typedef struct bt_msg_role_answer {
    bt_role role;
    int32_t code;
    char text[BT_MSG_MAX_TEXT_BYTES + 1];
} bt_msg_role_answer; /* code 0: the node drains, or has that role already */

typedef bt_sample_params bt_sampling; /* sample/sample.h has the ranges and the exact rule */

typedef bt_sample_logprob bt_msg_logprob; /* finite, not above 0; top never rises */

typedef struct bt_msg_reserve {
    uint32_t prompt_tokens, max_tokens; /* 1.. each; their sum is at most ctx_tokens */
    const int32_t *ids;
    uint32_t ids_len;        /* the whole prompt, ids_len == prompt_tokens: for penalties, drafts and local prefill */
    bt_prompt_hashes hashes; /* as in bt_msg_prefill */
    bt_prompt_salt salt;     /* prefixes are shared with prompts of this salt alone */
    const int32_t *generated;
    uint32_t generated_len;  /* tokens 0.. of an earlier attempt, to be replayed; 0: none; below max_tokens */
    bool is_local;           /* D prefills the prompt itself: no prefill node, no transfer */
    bt_incarnation prefill;  /* the sender of the KV; zero where is_local */
    bt_peer_key prefill_key; /* the sender's key: D takes KV of this attempt from no other; zero where is_local */
    uint64_t prefill_class;  /* XXH3-64 of the sender's exactness in HELLO: D never mixes rows of another class with
                                these; ignored where is_local */
    bt_sampling sampling;
    uint32_t stop_ids_len;
    int32_t stop_ids[BT_MSG_MAX_STOP_IDS]; /* drawing one ends the sequence; it is the last id sent */
    uint32_t lease_ms;
} bt_msg_reserve;
typedef struct bt_msg_reserved {
    bt_ticket ticket;
    char kv_endpoint[BT_MSG_MAX_ENDPOINT_BYTES + 1];
    uint32_t covered_tokens; /* of the prompt, in place here in every layer and pinned; a multiple of 16, or the
                                prompt's end */
    bt_incarnation prefill;  /* whose KV D takes: Reserve.prefill */
} bt_msg_reserved;
typedef struct bt_msg_refused {
    bt_msg_type of; /* RESERVE or PREFILL */
    int32_t code;
    uint32_t retry_after_ms; /* 0: never */
    char text[BT_MSG_MAX_TEXT_BYTES + 1];
} bt_msg_refused;
typedef struct bt_msg_prefill {
    const int32_t *ids;
    uint32_t ids_len;        /* the whole prompt */
    bt_prompt_hashes hashes; /* does not travel: for simulations, which hand messages over as structs, with ids NULL
                              */
    bt_prompt_salt salt;     /* as in bt_msg_reserve */
    bt_incarnation decode;
    bt_peer_key decode_key; /* who must answer at kv_endpoint */
    char kv_endpoint[BT_MSG_MAX_ENDPOINT_BYTES + 1];
    bt_ticket ticket;
    uint32_t covered_tokens; /* as in Reserved, at most ids_len: only rows behind these are sent */
    bt_sampling sampling;
    uint32_t lease_ms;
} bt_msg_prefill;
enum { BT_MSG_MAX_CHUNKS = 32 };
typedef struct bt_msg_chunks { /* when parts of a prompt were computed, counted from the begin of the first; len 0:
                                  unknown */
    uint32_t len;
    struct {
        uint32_t tokens, begin_us, end_us;
        uint32_t chunks; /* how many this part stands for: more than 1 only in the last, for all that follow */
    } at[BT_MSG_MAX_CHUNKS];
} bt_msg_chunks;
typedef struct bt_msg_first_token {
    int32_t token;
    uint32_t top_len;
    int32_t top_ids[BT_MSG_TOP_LOGITS];
    float top_logits[BT_MSG_TOP_LOGITS]; /* the highest logits, descending */
    uint64_t queue_us, prefill_us;
    uint32_t cached_tokens; /* prompt rows that came from earlier prompts and were not computed */
    bt_msg_work work;
    bt_msg_device_work device;          /* of the prompt; ns 0: it has no price */
    bt_msg_device_prompt device_prompt; /* with device, where the node knows its parts */
    bt_msg_chunks chunks;
    bool has_logprob;
    bt_msg_logprob logprob; /* of token 0, where the sampling asks for it */
} bt_msg_first_token;
typedef struct bt_msg_prefill_done {
    uint64_t kv_bytes, kv_blocks, exposed_us, transfer_us; /* exposed: end of the last layer to Committed */
    bt_digest16 kv_digest; /* of the whole prompt's KV in the neutral layout, of rows that were not sent too; of D 0
                              where it began with a kept prefix whose first rows of window layers are gone */
} bt_msg_prefill_done;
typedef struct bt_msg_failed {
    int32_t code;
    char text[BT_MSG_MAX_TEXT_BYTES + 1];
} bt_msg_failed;
typedef struct bt_msg_ack {
    bt_msg_type of;
} bt_msg_ack;
typedef struct bt_msg_renew {
    uint32_t lease_ms;
} bt_msg_renew;
typedef struct bt_msg_tokens {
    uint32_t first_index;
    const int32_t *ids;
    uint32_t ids_len;
    const bt_msg_logprob *logprobs; /* [ids_len] where the sampling asks for them (then at most
                                       BT_MSG_MAX_TOKENS_LOGPROBS ids), else NULL */
    bt_msg_device_work device;      /* all steps of this attempt so far; ns 0: no price */
} bt_msg_tokens;
typedef struct bt_msg_tokens_ack {
    uint32_t next_index;
} bt_msg_tokens_ack;
typedef struct bt_msg_finished {
    bt_finish reason;
    uint32_t completion_tokens;  /* token 0 and a final stop id included */
    uint64_t wait_us, decode_us; /* Committed to first step; first step to the end */
    uint32_t decode_steps;
} bt_msg_finished;

typedef struct bt_msg_commit {
    bt_ticket ticket;
    uint32_t prompt_tokens;
    int32_t first_token;
    uint64_t kv_bytes;
} bt_msg_commit;
typedef struct bt_msg_missing {
    const bt_kv_range *ranges;
    uint32_t ranges_len;
} bt_msg_missing;
typedef struct bt_msg_credit {
    uint64_t link_epoch, total_bytes;
} bt_msg_credit;

/* One message. `from` and `to` travel in the frame header; `to` is all zero in HELLO, where it is not known
 * yet. The fields from `from_key` to `is_anothers_name` do not travel: a sender leaves them zero, and a link fills
 * them. `from_key` is the key that the transport proved, zero without keys. The others are of HELLO alone, for people
 * and for the rule about names. `ref` is set in every message about a request (RESERVE and above, but not CREDIT).
 * Arrays are borrowed: from the brain that made the message, until its next step; or from the bt_msg_buf the message
 * was decoded into. */
typedef struct bt_msg {
    bt_msg_type type;
    bt_incarnation from, to;
    bt_peer_key from_key;
    const char *from_address, *from_name; /* where the sender is; the name of its key in the allow list; NULL: unknown
                                           */
    bool is_anothers_name;                /* the allow list gives the node_id to another key than the sender's */
    bt_request_ref ref;
    union {
        bt_msg_hello hello;
        bt_msg_welcome welcome;
        bt_msg_reject reject;
        bt_msg_heartbeat heartbeat;
        bt_msg_bye bye;
        bt_msg_role role;
        bt_msg_role_answer role_answer;
        bt_msg_reserve reserve;
        bt_msg_reserved reserved;
        bt_msg_refused refused;
        bt_msg_prefill prefill;
        bt_msg_first_token first_token;
        bt_msg_prefill_done prefill_done;
        bt_msg_failed failed; /* FAILED and TRANSFER_REFUSED */
        bt_msg_ack ack;
        bt_msg_renew renew;
        bt_msg_tokens tokens;
        bt_msg_tokens_ack tokens_ack;
        bt_msg_finished finished;
        bt_msg_commit commit;
        bt_msg_missing missing;
        bt_msg_credit credit;
    } u;
} bt_msg;

static inline bool bt_incarnation_equal(const bt_incarnation *a, const bt_incarnation *b)
{
    return __builtin_memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
static inline bool bt_request_same(const bt_request_ref *a, const bt_request_ref *b) /* whatever the attempt */
{
    return a->number == b->number && bt_incarnation_equal(&a->owner, &b->owner);
}
const char *bt_msg_type_name(bt_msg_type t); /* "RESERVE"; "?" for an unknown number */
/* The length of a message of this type: the bytes of the struct behind it have no meaning and need not be set.
 */
size_t bt_msg_bytes(bt_msg_type type);
void bt_msg_begin(bt_msg *m, bt_msg_type type); /* zeroes all but the type */

/* A control frame is one ZeroMQ frame: a fixed header, then the protobuf body. All integers little-endian.
 *   off size field
 *     0    4 magic       "BTN1"
 *     4    2 version     BT_PROTOCOL_VERSION
 *     6    2 type        bt_msg_type
 *     8    4 body_bytes  exactly the rest of the frame, <= BT_MSG_MAX_BODY_BYTES
 *    12    4 reserved    zero (must-reject)
 *    16   16 from        incarnation of the sender, not zero
 *    32   16 to          incarnation of the meant receiver; zero only in HELLO
 *    48    8 reserved    zero (must-reject)
 *    56    8 checksum    XXH3-64 of 64 bytes: bytes 0..55, then the XXH3-64 of the body; tested before any
 *                        field but the lengths
 *    64    - body */
enum { BT_MSG_HEADER_BYTES = 64, BT_MSG_MAX_BODY_BYTES = 8 << 20 };

/* Holds what a decoded message borrows; reuse it from message to message. Zero it before the first use; its fields are
 * private. A decode that reaches the body, even a failing one, makes void what the message before it borrowed. The
 * buffer never holds more than 4 times the largest body so far plus 256 KiB, and grows only for a larger body. */
typedef struct bt_msg_buf {
    uint8_t *block;
    size_t cap;
} bt_msg_buf;
void bt_msg_buf_done(bt_msg_buf *b);

/* Encode into out[cap]; *ret_len is set on success. BT_ELIMIT when it does not fit (bt_msg_encoded_max bytes
 * always do), BT_EARG when a field is out of the range that the .proto files give. Allocates nothing. */
bt_err bt_msg_encode(size_t *ret_len, uint8_t *out, size_t cap, const bt_msg *m, bt_fault *fault);
size_t bt_msg_encoded_max(const bt_msg *m);
/* Decode one frame; any bytes are safe. BT_EFORMAT (length, checksum, magic, protobuf, range), BT_EVERSION
 * (an unknown type, or another version, with both numbers), BT_ELIMIT, BT_ENOMEM. *ret is untouched on
 * failure, and only bt_msg_bytes of it are set on success. */
bt_err bt_msg_decode(bt_msg *ret, bt_msg_buf *buf, const uint8_t *bytes, size_t len, bt_fault *fault);
#endif
