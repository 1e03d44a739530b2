/* Control frames: what goes in comes out, what is out of range does neither, and no bytes do harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/kv_header.h"
#include "tests/helpers/brain/wire_samples.h"
#include "wire/msg.h"
#include "wire/msg_body.h"

/* on the heap, so that a sanitizer sees one byte too many */
static void *exact_copy(const void *from, size_t n)
{
    void *p = malloc(n ? n : 1);
    assert_non_null(p);
    if (n) memcpy(p, from, n);
    return p;
}

/* Decode from an exact-size copy; on failure *ret must be as before. */
static bt_err decode(bt_msg *ret, bt_msg_buf *buf, const uint8_t *bytes, size_t len, bt_fault *fault)
{
    uint8_t *p = exact_copy(bytes, len);
    bt_msg before;
    memcpy(&before, ret, sizeof before);
    const bt_err e = bt_msg_decode(ret, buf, p, len, fault);
    if (e < 0) assert_memory_equal(ret, &before, sizeof before);
    free(p);
    return e;
}

/* One borrowed array of both messages; then neither has it, so that the rest compares as bytes. */
#define SAME_ARRAY(list, n) \
    do { \
        assert_int_equal(x.u.n, y.u.n); \
        assert_true(!x.u.list == !y.u.list); \
        if (x.u.list) assert_memory_equal(x.u.list, y.u.list, x.u.n * sizeof *x.u.list); \
        x.u.list = y.u.list = NULL; \
    } while (0)

static void assert_same(const bt_msg *a, const bt_msg *b)
{
    bt_msg x = *a, y = *b;
    if (x.type == BT_MSG_PREFILL) {
        SAME_ARRAY(prefill.ids, prefill.ids_len);
        SAME_ARRAY(prefill.sampling.bias, prefill.sampling.bias_len);
        SAME_ARRAY(prefill.sampling.program, prefill.sampling.program_len);
    } else if (x.type == BT_MSG_RESERVE) {
        SAME_ARRAY(reserve.ids, reserve.ids_len);
        SAME_ARRAY(reserve.generated, reserve.generated_len);
        SAME_ARRAY(reserve.sampling.bias, reserve.sampling.bias_len);
        SAME_ARRAY(reserve.sampling.program, reserve.sampling.program_len);
    } else if (x.type == BT_MSG_TOKENS) {
        SAME_ARRAY(tokens.ids, tokens.ids_len);
        SAME_ARRAY(tokens.logprobs, tokens.ids_len);
    } else if (x.type == BT_MSG_MISSING) {
        SAME_ARRAY(missing.ranges, missing.ranges_len);
    }
    if (x.type == BT_MSG_HELLO && x.u.hello.engine) {
        assert_non_null(y.u.hello.engine);
        assert_memory_equal(x.u.hello.engine, y.u.hello.engine, sizeof *x.u.hello.engine);
        x.u.hello.engine = y.u.hello.engine = NULL;
    }
    if (x.type == BT_MSG_HELLO && x.u.hello.device) {
        assert_non_null(y.u.hello.device);
        assert_memory_equal(x.u.hello.device, y.u.hello.device, sizeof *x.u.hello.device);
        x.u.hello.device = y.u.hello.device = NULL;
    }
    assert_memory_equal(&x, &y, bt_msg_bytes(x.type));
}

static void round_trip(const bt_msg *in, bt_msg_buf *buf)
{
    const size_t cap = bt_msg_encoded_max(in);
    uint8_t *big = malloc(cap);
    assert_non_null(big);
    size_t len = 0;
    bt_fault f = {""};
    if (bt_msg_encode(&len, big, cap, in, &f) < 0) fail_msg("%s", f.text);
    assert_true(len <= cap);

    uint8_t *exact = malloc(len);
    assert_non_null(exact);
    size_t again = 0;
    assert_int_equal(bt_msg_encode(&again, exact, len, in, NULL), BT_OK);
    assert_int_equal(again, len);
    assert_memory_equal(exact, big, len);
    again = 12345;
    assert_int_equal(bt_msg_encode(&again, exact, len - 1, in, &f), BT_ELIMIT);
    assert_int_equal(again, 12345);

    bt_msg out;
    memset(&out, 0xcc, sizeof out);
    if (decode(&out, buf, big, len, &f) < 0) fail_msg("%s", f.text);
    assert_same(in, &out);
    free(exact);
    free(big);
}

static void every_type_comes_back_as_it_went(void **state)
{
    (void)state;
    bt_msg_buf buf = {0};
    for (const bt_msg_type *t = wire_samples_types; *t; t++) {
        bt_msg m;
        wire_samples_make(&m, *t);
        round_trip(&m, &buf);
    }
    bt_msg m;
    wire_samples_prefill_hello(&m);
    round_trip(&m, &buf);
    const bt_msg_engine *engine = m.u.hello.engine;
    wire_samples_make(&m, BT_MSG_HELLO); /* a decode node that computes prompts: the longest HELLO */
    m.u.hello.engine = engine;
    round_trip(&m, &buf);
    bt_msg_buf_done(&buf);
}

static void what_may_be_absent_stays_absent(void **state)
{
    (void)state;
    bt_msg_buf buf = {0};
    bt_msg m;
    wire_samples_make(&m, BT_MSG_RESERVE);
    m.u.reserve.generated = NULL;
    m.u.reserve.generated_len = 0;
    m.u.reserve.is_local = true;
    memset(m.u.reserve.prefill.bytes, 0, 16);
    memset(&m.u.reserve.prefill_key, 0, sizeof m.u.reserve.prefill_key);
    m.u.reserve.prefill_class = 0;
    m.u.reserve.salt = (bt_prompt_salt){{0}};
    m.u.reserve.sampling = bt_sample_greedy();
    round_trip(&m, &buf);
    wire_samples_make(&m, BT_MSG_FIRST_TOKEN);
    m.u.first_token.has_logprob = false;
    memset(&m.u.first_token.logprob, 0, sizeof m.u.first_token.logprob);
    round_trip(&m, &buf);
    m.u.first_token.has_logprob = true; /* asked for, and all zero: token 0 was certain */
    round_trip(&m, &buf);
    wire_samples_make(&m, BT_MSG_TOKENS);
    m.u.tokens.logprobs = NULL;
    round_trip(&m, &buf);
    wire_samples_make(&m, BT_MSG_PREFILL);
    memset(&m.u.prefill.decode_key, 0, sizeof m.u.prefill.decode_key);
    m.u.prefill.covered_tokens = 0;
    m.u.prefill.salt = (bt_prompt_salt){{0}};
    round_trip(&m, &buf);
    wire_samples_make(&m, BT_MSG_ROLE_ANSWER);
    m.u.role_answer = (bt_msg_role_answer){.role = BT_ROLE_DECODE};
    round_trip(&m, &buf);
    bt_msg_buf_done(&buf);
}

static void the_key_of_the_link_does_not_travel(void **state)
{
    (void)state;
    bt_msg_buf buf = {0};
    bt_msg m, out;
    uint8_t plain[4096], keyed[4096];
    size_t plain_len = 0, keyed_len = 0;
    wire_samples_make(&m, BT_MSG_COMMIT);
    assert_int_equal(bt_msg_encode(&plain_len, plain, sizeof plain, &m, NULL), BT_OK);
    memset(&m.from_key, 0xee, sizeof m.from_key);
    assert_int_equal(bt_msg_encode(&keyed_len, keyed, sizeof keyed, &m, NULL), BT_OK);
    assert_int_equal(keyed_len, plain_len);
    assert_memory_equal(keyed, plain, plain_len);
    memset(&out, 0xcc, sizeof out);
    assert_int_equal(decode(&out, &buf, keyed, keyed_len, NULL), BT_OK);
    memset(&m.from_key, 0, sizeof m.from_key);
    assert_same(&m, &out);
    bt_msg_buf_done(&buf);
}

/* Each of them 0xdc, behind ref, ids, decode, kv_endpoint, ticket, sampling and lease_ms. */
static void a_key_is_32_bytes_and_a_salt_16_or_none(void **state)
{
    (void)state;
#define SIXTEEN "0123456789abcdef"
    static const char first[] = "\x0a\x14\x0a\x10" SIXTEEN "\x18\x01\x12\x01\x05\x1a\x10" SIXTEEN
                                "\x22\x01x\x2a\x10" SIXTEEN "\x32\x00\x38\x01";
    bt_msg_buf buf = {0};
    for (uint8_t n = 0; n < 80; n++) {
        const uint8_t bytes = n / 2, is_key = n % 2, whole = is_key ? 32 : 16;
        uint8_t body[256], frame[64 + sizeof body];
        size_t len = sizeof first - 1;
        memcpy(body, first, len);
        body[len++] = is_key ? 0x42 : 0x52;
        body[len++] = bytes;
        memset(body + len, 0xdc, bytes);
        len = wire_samples_frame(frame, BT_PROTOCOL_VERSION, BT_MSG_PREFILL, body, len + bytes);
        bt_msg out;
        memset(&out, 0x77, sizeof out);
        const bt_err e = decode(&out, &buf, frame, len, NULL);
        const uint8_t *got = is_key ? out.u.prefill.decode_key.bytes : out.u.prefill.salt.bytes;
        assert_int_equal(e, bytes == 0 || bytes == whole ? BT_OK : BT_EFORMAT);
        for (int i = 0; e == BT_OK && i < whole; i++) assert_int_equal(got[i], bytes ? 0xdc : 0);
    }
    bt_msg_buf_done(&buf);
}

static void the_longest_lists_come_back(void **state)
{
    (void)state;
    bt_msg_buf buf = {0};
    bt_msg m;
    int32_t *ids = malloc(BT_MSG_MAX_PROMPT_TOKENS * sizeof *ids);
    bt_kv_range *ranges = malloc(BT_MSG_MAX_RANGES * sizeof *ranges);
    assert_true(ids && ranges);
    for (int i = 0; i < BT_MSG_MAX_PROMPT_TOKENS; i++) ids[i] = INT32_MAX - i;
    for (int i = 0; i < BT_MSG_MAX_RANGES; i++) ranges[i] = (bt_kv_range){255, 1047552, 1024};

    wire_samples_make(&m, BT_MSG_PREFILL);
    m.u.prefill.ids = ids;
    m.u.prefill.ids_len = BT_MSG_MAX_PROMPT_TOKENS;
    m.u.prefill.covered_tokens = BT_MSG_MAX_PROMPT_TOKENS - BT_KV_UNIT_TOKENS;
    round_trip(&m, &buf);
    for (int i = 0; i < BT_MSG_MAX_PROMPT_TOKENS; i++)
        ids[i] = i & 127; /* one byte each: most memory for its bytes */
    round_trip(&m, &buf);
    wire_samples_make(&m, BT_MSG_TOKENS);
    m.u.tokens.ids = ids;
    m.u.tokens.ids_len = BT_MSG_MAX_TOKENS_IDS;
    m.u.tokens.first_index = 1;
    m.u.tokens.logprobs = NULL;
    for (int i = 0; i < BT_MSG_MAX_PROMPT_TOKENS; i++) ids[i] = INT32_MAX - i;
    round_trip(&m, &buf);
    bt_msg_logprob *logprobs = calloc(BT_MSG_MAX_TOKENS_LOGPROBS, sizeof *logprobs);
    assert_non_null(logprobs);
    for (int i = 0; i < BT_MSG_MAX_TOKENS_LOGPROBS; i++) {
        logprobs[i].own = -1.0f;
        logprobs[i].top_len = BT_SAMPLE_MAX_TOP;
        for (int k = 0; k < BT_SAMPLE_MAX_TOP; k++)
            logprobs[i].top_ids[k] = INT32_MAX - k, logprobs[i].top[k] = -(float)k;
    }
    m.u.tokens.ids_len = BT_MSG_MAX_TOKENS_LOGPROBS;
    m.u.tokens.logprobs = logprobs;
    round_trip(&m, &buf);
    free(logprobs);
    wire_samples_make(&m, BT_MSG_RESERVE);
    m.u.reserve.ids = m.u.reserve.generated = ids;
    m.u.reserve.ids_len = m.u.reserve.prompt_tokens = BT_MSG_MAX_PROMPT_TOKENS / 2;
    m.u.reserve.generated_len = (m.u.reserve.max_tokens = BT_MSG_MAX_PROMPT_TOKENS / 2) - 1;
    round_trip(&m, &buf);
    wire_samples_make(&m, BT_MSG_MISSING);
    m.u.missing.ranges = ranges;
    m.u.missing.ranges_len = BT_MSG_MAX_RANGES;
    round_trip(&m, &buf);
    for (int i = 0; i < BT_MSG_MAX_RANGES; i++) ranges[i] = (bt_kv_range){0, 0, 1};
    round_trip(&m, &buf);
    free(ids);
    free(ranges);
    bt_msg_buf_done(&buf);
}

/* Ways to make a legal message illegal. Each function makes number *n, or takes its own count from *n. */
#define X(kind, ...) \
    if ((*n)-- == 0) { \
        wire_samples_make(m, BT_MSG_##kind); \
        *label = #kind ": " #__VA_ARGS__; \
        __VA_ARGS__; \
        return true; \
    }

/* A HELLO of a prefill node whose engine may be spoilt. */
#define E(...) \
    if ((*n)-- == 0) { \
        static bt_msg_engine e; \
        wire_samples_prefill_hello(m); \
        e = *m->u.hello.engine; \
        m->u.hello.engine = &e; \
        *label = "HELLO of P: " #__VA_ARGS__; \
        __VA_ARGS__; \
        return true; \
    }

static bool spoil_engine(bt_msg *m, const char **label, int *n)
{
    /* with an engine of no class */
    E(m->u.hello.role = BT_ROLE_DECODE; strcpy(m->u.hello.kv_endpoint, "ipc://x"))
    E(m->u.hello.prefill_exactness[0] = 'x') /* that is a decode node's */
    E(e.name[0] = 0)
    E(e.name[1] = ' ')
    E(e.fallbacks[15].op[0] = 0)
    E(e.fallbacks[0].op[2] = '\n')
    return false;
}
#undef E

static bool spoil_link(bt_msg *m, const char **label, int *n)
{
    X(HELLO, memset(m->from.bytes, 0, 16))
    X(BYE, memset(m->to.bytes, 0, 16))
    X(ABORT, memset(m->ref.owner.bytes, 0, 16))
    X(ABORT_ACK, m->ref.attempt = 0)
    X(HELLO, m->u.hello.protocol = 0)
    X(HELLO, m->u.hello.role = BT_ROLE_GATEWAY)
    X(HELLO, m->u.hello.role = (bt_role)4)
    X(HELLO, m->u.hello.role = BT_ROLE_PREFILL; m->u.hello.prefill_exactness[0] = 0) /* with an endpoint */
    X(HELLO, m->u.hello.kv_endpoint[0] = 0)
    X(HELLO, m->u.hello.node_id[0] = 0)
    X(HELLO, m->u.hello.node_id[3] = ' ')
    X(HELLO, m->u.hello.node_id[3] = (char)0x80)
    X(HELLO, m->u.hello.kv.layers = 0)
    X(HELLO, m->u.hello.kv.layers = 257)
    X(HELLO, m->u.hello.kv.kv_heads = 257)
    X(HELLO, m->u.hello.kv.head_dim = 257)
    X(HELLO, m->u.hello.kv.dtype = (bt_kv_dtype)0)
    X(HELLO, m->u.hello.kv.dtype = (bt_kv_dtype)4)
    X(HELLO, m->u.hello.kv.window = (1 << 20) + 1)
    X(HELLO, m->u.hello.kv.global_every = 257)
    X(HELLO, m->u.hello.kv.window = 0) /* global_every without a window */
    X(HELLO, m->u.hello.ctx_tokens = 0)
    X(HELLO, m->u.hello.ctx_tokens = (1 << 20) + 1)
    X(WELCOME, m->u.welcome.protocol = 0)
    X(WELCOME, m->u.welcome.node_id[0] = 0)
    X(REJECT, m->u.reject.code = 0)
    X(REJECT, m->u.reject.code = -128)
    X(REJECT, m->u.reject.code = 1)
    X(ROLE, m->u.role.role = (bt_role)0)
    X(ROLE, m->u.role.role = BT_ROLE_GATEWAY)
    X(ROLE_ANSWER, m->u.role_answer.role = (bt_role)4)
    X(ROLE_ANSWER, m->u.role_answer.code = 1)
    X(ROLE_ANSWER, m->u.role_answer.code = -128)
    return false;
}

static bool spoil_sampling(bt_msg *m, const char **label, int *n)
{
    static bt_sample_bias odd[2];
#define BIAS(...) \
    X(PREFILL, static const bt_sample_bias b[2] = __VA_ARGS__; memcpy(odd, b, sizeof odd); \
      m->u.prefill.sampling.bias = odd; m->u.prefill.sampling.bias_len = 2)
    BIAS({{-1, 0.0f}, {5, 0.0f}})
    BIAS({{5, 0.0f}, {5, 0.0f}})
    BIAS({{6, 0.0f}, {5, 0.0f}})
    BIAS({{5, 0.0f}, {6, 100.5f}})
    BIAS({{5, NAN}, {6, 0.0f}})
#undef BIAS
    X(PREFILL, static const uint8_t much[BT_SAMPLE_MAX_PROGRAM + 1]; m->u.prefill.sampling.program = much;
      m->u.prefill.sampling.program_len = sizeof much)
    X(PREFILL, m->u.prefill.sampling.repetition_penalty = 0.009f)
    X(PREFILL, m->u.prefill.sampling.repetition_penalty = NAN)
    X(PREFILL, m->u.prefill.sampling.presence_penalty = 2.5f)
    X(RESERVE, m->u.reserve.sampling.frequency_penalty = -2.5f)
    X(RESERVE, m->u.reserve.sampling.top_logprobs = BT_SAMPLE_MAX_TOP + 1)
    X(RESERVE, m->u.reserve.sampling.logprobs = false) /* and top_logprobs 20 */
    X(FIRST_TOKEN, m->u.first_token.logprob.own = 0.1f)
    X(FIRST_TOKEN, m->u.first_token.logprob.own = -INFINITY)
    X(FIRST_TOKEN, m->u.first_token.logprob.top[3] = 0.0f) /* rises */
    X(FIRST_TOKEN, m->u.first_token.logprob.top_ids[19] = -1)
    X(TOKENS, static bt_msg_logprob l[6]; l[5].own = NAN; m->u.tokens.logprobs = l)
    X(TOKENS, static bt_msg_logprob l[6]; l[2].top_len = 1; l[2].top_ids[0] = -1; m->u.tokens.logprobs = l)
    return false;
}

static bool spoil_request(bt_msg *m, const char **label, int *n)
{
    static int32_t negative[] = {5, -1};
    static bt_kv_range odd[1];
    X(RESERVE, m->u.reserve.prompt_tokens = 0)
    X(RESERVE, m->u.reserve.max_tokens = 0)
    X(RESERVE, m->u.reserve.max_tokens++) /* one more than fits */
    X(RESERVE, m->u.reserve.max_tokens = UINT32_MAX)
    X(RESERVE, m->u.reserve.max_tokens = m->u.reserve.generated_len) /* nothing left to make */
    X(RESERVE, m->u.reserve.ids_len--)
    X(RESERVE, m->u.reserve.prompt_tokens--)
    X(RESERVE, m->u.reserve.ids = negative, m->u.reserve.ids_len = m->u.reserve.prompt_tokens = 2)
    X(RESERVE, m->u.reserve.generated = negative, m->u.reserve.generated_len = 2)
    X(RESERVE, m->u.reserve.is_local = true)                                       /* with a prefill node */
    X(RESERVE, m->u.reserve.is_local = true; memset(&m->u.reserve.prefill, 0, 16)) /* with its key */
    X(RESERVE, memset(m->u.reserve.prefill.bytes, 0, 16))
    X(RESERVE, m->u.reserve.sampling.temperature = 100.001f)
    X(RESERVE, m->u.reserve.sampling.temperature = -0.5f)
    X(RESERVE, m->u.reserve.sampling.temperature = NAN)
    X(RESERVE, m->u.reserve.sampling.top_p = 1.5f)
    X(RESERVE, m->u.reserve.sampling.min_p = -INFINITY)
    X(RESERVE, m->u.reserve.stop_ids[15] = -1)
    X(RESERVE, m->u.reserve.lease_ms = 0)
    X(RESERVE, m->u.reserve.lease_ms = BT_MSG_MAX_LEASE_MS + 1)
    X(RESERVED, memset(m->u.reserved.ticket.bytes, 0, 16))
    X(RESERVED, m->u.reserved.kv_endpoint[0] = 0)
    X(RESERVED, m->u.reserved.covered_tokens = (1 << 20) + 1)
    X(REFUSED, m->u.refused.of = BT_MSG_ABORT)
    X(REFUSED, m->u.refused.code = 0)
    X(PREFILL, m->u.prefill.ids_len = 0)
    X(PREFILL, m->u.prefill.ids = negative, m->u.prefill.ids_len = 2)
    X(PREFILL, memset(m->u.prefill.decode.bytes, 0, 16))
    X(PREFILL, memset(m->u.prefill.ticket.bytes, 0, 16))
    X(PREFILL, m->u.prefill.kv_endpoint[254] = '\n')
    X(PREFILL, m->u.prefill.sampling.top_p = NAN)
    X(PREFILL, m->u.prefill.lease_ms = 0)
    X(PREFILL, m->u.prefill.covered_tokens = m->u.prefill.ids_len + 1)
    X(PREFILL, m->u.prefill.covered_tokens = 16) /* on the grid, and more than there is */
    X(PREFILL, m->u.prefill.covered_tokens = 5)  /* off the grid */
    X(FIRST_TOKEN, m->u.first_token.token = -1)
    X(FIRST_TOKEN, m->u.first_token.device.energy = 3)
    X(FIRST_TOKEN, m->u.first_token.device.ns = 1ull << 63)
    X(FIRST_TOKEN, m->u.first_token.device_prompt.parts[3].op[0] = 0)
    X(TOKENS, m->u.tokens.device.nj = UINT64_MAX)
    X(HELLO, static bt_msg_device d; d = *m->u.hello.device; d.profile[0] = 0; m->u.hello.device = &d)
    X(FIRST_TOKEN, m->u.first_token.chunks.at[2].tokens = 0)
    X(FIRST_TOKEN, m->u.first_token.chunks.at[2].chunks = 0)
    X(FIRST_TOKEN, m->u.first_token.chunks.at[2].chunks = 2) /* only the last may stand for more */
    X(FIRST_TOKEN, m->u.first_token.chunks.at[2].end_us = 19)
    X(FIRST_TOKEN, m->u.first_token.chunks.at[2].begin_us = 9) /* falls */
    X(FIRST_TOKEN, m->u.first_token.cached_tokens = 1 << 20)
    X(FIRST_TOKEN, m->u.first_token.work.npu_macs = 9)
    X(FIRST_TOKEN, m->u.first_token.work.npu_macs = 20)
    X(FIRST_TOKEN, m->u.first_token.top_ids[4] = -7)
    X(FIRST_TOKEN, m->u.first_token.top_logits[2] = 1.6f) /* rises */
    X(FIRST_TOKEN, m->u.first_token.top_logits[0] = INFINITY)
    X(FIRST_TOKEN, m->u.first_token.top_logits[4] = NAN)
    X(FAILED, m->u.failed.code = 0)
    X(ACK, m->u.ack.of = BT_MSG_TOKENS)
    X(RENEW, m->u.renew.lease_ms = 0)
    X(TOKENS, m->u.tokens.first_index = 0)
    X(TOKENS, m->u.tokens.first_index++) /* past the longest sequence */
    X(TOKENS, m->u.tokens.ids_len = 0)
    X(TOKENS, m->u.tokens.ids = negative, m->u.tokens.ids_len = 2)
    X(TOKENS_ACK, m->u.tokens_ack.next_index = (1 << 20) + 1)
    X(FINISHED, m->u.finished.reason = (bt_finish)0)
    X(FINISHED, m->u.finished.reason = (bt_finish)4)
    X(FINISHED, m->u.finished.completion_tokens = (1 << 20) + 1)
    X(COMMIT, memset(m->u.commit.ticket.bytes, 0, 16))
    X(COMMIT, m->u.commit.prompt_tokens = 0)
    X(COMMIT, m->u.commit.first_token = -1)
    X(COMMITTED, m->ref.attempt = 0)
    X(MISSING, m->u.missing.ranges_len = 0)
    X(MISSING, odd[0] = (bt_kv_range){256, 0, 16}; m->u.missing.ranges = odd; m->u.missing.ranges_len = 1)
    X(MISSING, odd[0] = (bt_kv_range){0, 8, 16}; m->u.missing.ranges = odd; m->u.missing.ranges_len = 1)
    X(MISSING, odd[0] = (bt_kv_range){0, 16, 0}; m->u.missing.ranges = odd; m->u.missing.ranges_len = 1)
    X(MISSING, odd[0] = (bt_kv_range){0, 16, UINT32_MAX}; m->u.missing.ranges = odd;
      m->u.missing.ranges_len = 1)
    X(TRANSFER_REFUSED, m->u.failed.code = 3)
    return false;
}
#undef X

static bool spoil(bt_msg *m, const char **label, int n) /* false when there are no more */
{
    return spoil_link(m, label, &n) || spoil_engine(m, label, &n) || spoil_sampling(m, label, &n) ||
           spoil_request(m, label, &n);
}

/* A frame of m without any check: what a peer that breaks the rules would send. */
static uint8_t *unchecked_frame(size_t *ret_len, const bt_msg *m)
{
    const bt_msg_kind *k = NULL;
    for (int i = 0; i < BT_MSG_LINK_KINDS; i++)
        if (bt_msg_link_kinds[i].type == m->type) k = &bt_msg_link_kinds[i];
    for (int i = 0; i < BT_MSG_INFER_KINDS; i++)
        if (bt_msg_infer_kinds[i].type == m->type) k = &bt_msg_infer_kinds[i];
    for (int i = 0; i < BT_MSG_KV_KINDS; i++)
        if (bt_msg_kv_kinds[i].type == m->type) k = &bt_msg_kv_kinds[i];
    assert_non_null(k);
    bt_msg_scratch s;
    s.ref = (Bt__RequestRef)BT__REQUEST_REF__INIT;
    s.ref.owner = bt_msg_body_put16(m->ref.owner.bytes);
    s.ref.number = m->ref.number;
    s.ref.attempt = m->ref.attempt;
    const ProtobufCMessage *body = k->fill(&s, m);
    const size_t n = protobuf_c_message_get_packed_size(body);
    uint8_t *raw = malloc(n), *frame = malloc(64 + n);
    assert_true(raw && frame);
    protobuf_c_message_pack(body, raw);
    *ret_len = wire_samples_frame(frame, BT_PROTOCOL_VERSION, m->type, raw, n);
    memcpy(frame + 16, m->from.bytes, 16);
    memcpy(frame + 32, m->to.bytes, 16);
    wire_samples_seal(frame, *ret_len);
    free(raw);
    return frame;
}

static void values_out_of_range_neither_leave_nor_enter(void **state)
{
    (void)state;
    bt_msg_buf buf = {0};
    bt_msg m, out;
    memset(&out, 0x5a, sizeof out);
    const char *label = "";
    int n = 0;
    for (; spoil(&m, &label, n); n++) {
        uint8_t room[16384];
        size_t len = 99;
        bt_fault f = {""};
        bt_err e = bt_msg_encode(&len, room, sizeof room, &m, &f);
        if (e != BT_EARG || len != 99 || !f.text[0]) fail_msg("encoding %s: %d, '%s'", label, e, f.text);
        uint8_t *frame = unchecked_frame(&len, &m);
        f.text[0] = 0;
        e = decode(&out, &buf, frame, len, &f);
        if (e != BT_EFORMAT || !f.text[0]) fail_msg("decoding %s: %d, '%s'", label, e, f.text);
        free(frame);
    }
    assert_true(n > 70);
    bt_msg_buf_done(&buf);
}

static void texts_without_an_end_and_long_lists_are_not_sent(void **state)
{
    (void)state;
    bt_msg m;
    uint8_t room[32768];
    size_t len = 0;
    wire_samples_make(&m, BT_MSG_FAILED);
    memset(m.u.failed.text, 'x', sizeof m.u.failed.text);
    assert_int_equal(bt_msg_encode(&len, room, sizeof room, &m, NULL), BT_EARG);
    wire_samples_make(&m, BT_MSG_RESERVE);
    m.u.reserve.stop_ids_len = BT_MSG_MAX_STOP_IDS + 1;
    assert_int_equal(bt_msg_encode(&len, room, sizeof room, &m, NULL), BT_EARG);
    wire_samples_make(&m, BT_MSG_RESERVE);
    m.u.reserve.sampling.bias_len = BT_SAMPLE_MAX_BIAS + 1;
    assert_int_equal(bt_msg_encode(&len, room, sizeof room, &m, NULL), BT_EARG);
    wire_samples_make(&m, BT_MSG_FIRST_TOKEN);
    m.u.first_token.logprob.top_len = BT_SAMPLE_MAX_TOP + 1;
    assert_int_equal(bt_msg_encode(&len, room, sizeof room, &m, NULL), BT_EARG);
    wire_samples_make(&m, BT_MSG_TOKENS);
    m.u.tokens.ids_len = BT_MSG_MAX_TOKENS_LOGPROBS + 1;
    assert_int_equal(bt_msg_encode(&len, room, sizeof room, &m, NULL), BT_EARG);
    m.u.tokens.logprobs = NULL;
    m.u.tokens.ids_len = BT_MSG_MAX_TOKENS_IDS + 1;
    assert_int_equal(bt_msg_encode(&len, room, sizeof room, &m, NULL), BT_EARG);
    wire_samples_make(&m, BT_MSG_FIRST_TOKEN);
    m.u.first_token.top_len = BT_MSG_TOP_LOGITS + 1;
    assert_int_equal(bt_msg_encode(&len, room, sizeof room, &m, NULL), BT_EARG);
    wire_samples_make(&m, BT_MSG_FIRST_TOKEN);
    m.u.first_token.chunks.len = BT_MSG_MAX_CHUNKS + 1;
    assert_int_equal(bt_msg_encode(&len, room, sizeof room, &m, NULL), BT_EARG);
    wire_samples_make(&m, BT_MSG_MISSING);
    m.u.missing.ranges_len = BT_MSG_MAX_RANGES + 1;
    assert_int_equal(bt_msg_encode(&len, room, sizeof room, &m, NULL), BT_EARG);
    m.type = (bt_msg_type)8;
    assert_int_equal(bt_msg_encode(&len, room, sizeof room, &m, NULL), BT_EARG);
    assert_int_equal(len, 0);
}

/* Bodies written by hand after the protobuf encoding rules. */
static void the_bytes_are_those_of_the_format(void **state)
{
    (void)state;
    bt_msg m;
    wire_samples_make(&m, BT_MSG_TOKENS);
    memset(m.from.bytes, 0x11, 16);
    memset(m.to.bytes, 0x22, 16);
    memset(m.ref.owner.bytes, 0xaa, 16);
    m.ref.number = 300;
    m.ref.attempt = 2;
    static const int32_t ids[] = {1, 300};
    m.u.tokens = (bt_msg_tokens){.first_index = 7, .ids = ids, .ids_len = 2};
    static const uint8_t body[] = {
        0x0a, 23,   0x0a, 16,   0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa,
        0xaa, 0xaa, 0xaa, 0xaa, 0x10, 0xac, 0x02, 0x18, 2,    0x10, 7,    0x1a, 3,    1,    0xac, 0x02,
    };
    uint8_t want[64 + sizeof body], got[sizeof want];
    wire_samples_frame(want, 5, 30, body, sizeof body);
    size_t len = 0;
    assert_int_equal(bt_msg_encode(&len, got, sizeof got, &m, NULL), BT_OK);
    assert_int_equal(len, sizeof want);
    assert_memory_equal(got, want, sizeof want);
    bt_msg_buf buf = {0};
    bt_msg out;
    memset(&out, 0, sizeof out);
    assert_int_equal(decode(&out, &buf, want, sizeof want, NULL), BT_OK);
    assert_same(&m, &out);
    bt_msg_buf_done(&buf);
}

static void a_changed_or_shortened_frame_is_refused(void **state)
{
    (void)state;
    bt_msg m, out;
    bt_msg_buf buf = {0};
    memset(&out, 0x77, sizeof out);
    wire_samples_make(&m, BT_MSG_RESERVED);
    uint8_t frame[4096];
    size_t len = 0;
    assert_int_equal(bt_msg_encode(&len, frame, sizeof frame - 1, &m, NULL), BT_OK);
    for (size_t i = 0; i < len; i++)
        for (int bit = 0; bit < 8; bit++) {
            frame[i] ^= (uint8_t)(1 << bit);
            assert_int_equal(decode(&out, &buf, frame, len, NULL), BT_EFORMAT);
            frame[i] ^= (uint8_t)(1 << bit);
        }
    for (size_t n = 0; n < len; n++) assert_int_equal(decode(&out, &buf, frame, n, NULL), BT_EFORMAT);
    frame[len] = 0;
    assert_int_equal(decode(&out, &buf, frame, len + 1, NULL), BT_EFORMAT);
    bt_msg_buf_done(&buf);
}

static void headers_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct {
        int at;
        uint8_t byte;
        bt_err want;
        const char *words;
    } c[] = {
        {0, 'X', BT_EFORMAT, "magic"},      {4, 1, BT_EVERSION, "version 1; this program speaks version 5"},
        {5, 1, BT_EVERSION, "261"},         {6, 8, BT_EVERSION, "type 8"},
        {7, 1, BT_EVERSION, "type"},        {12, 1, BT_EFORMAT, "reserved"},
        {15, 0x80, BT_EFORMAT, "reserved"}, {48, 1, BT_EFORMAT, "reserved"},
        {55, 1, BT_EFORMAT, "reserved"},    {8, 9, BT_EFORMAT, "body_bytes"},
    };
    bt_msg_buf buf = {0};
    bt_msg out;
    memset(&out, 0x77, sizeof out);
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        uint8_t frame[64];
        wire_samples_frame(frame, BT_PROTOCOL_VERSION, BT_MSG_BYE, NULL, 0);
        assert_int_equal(decode(&(bt_msg){0}, &buf, frame, 64, NULL), BT_OK);
        frame[c[i].at] = c[i].byte;
        wire_samples_seal(frame, 64);
        bt_fault f = {""};
        assert_int_equal(decode(&out, &buf, frame, 64, &f), c[i].want);
        assert_non_null(strstr(f.text, c[i].words));
    }
    bt_msg_buf_done(&buf);
}

static void bodies_over_the_limit_of_their_type_are_not_parsed(void **state)
{
    (void)state;
    const size_t most = 64 + (size_t)BT_MSG_MAX_BODY_BYTES + 1;
    uint8_t *body = calloc(1, most), *frame = malloc(64 + most);
    assert_true(body && frame);
    bt_msg out;
    memset(&out, 0x77, sizeof out);
    bt_msg_buf buf = {0};
    static const struct {
        bt_msg_type type;
        size_t bytes;
    } c[] = {
        {BT_MSG_HEARTBEAT, BT_MSG_SMALL_BODY_BYTES + 1},
        {BT_MSG_TOKENS, BT_MSG_TOKENS_BODY_BYTES + 1},
        {BT_MSG_MISSING, BT_MSG_MISSING_BODY_BYTES + 1},
        {BT_MSG_PREFILL, (size_t)BT_MSG_MAX_BODY_BYTES + 1},
        {BT_MSG_RESERVE, (size_t)BT_MSG_MAX_BODY_BYTES + 1},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        const size_t len = wire_samples_frame(frame, BT_PROTOCOL_VERSION, c[i].type, body, c[i].bytes);
        assert_int_equal(decode(&out, &buf, frame, len, NULL), BT_ELIMIT);
    }
    assert_null(buf.block);
    free(body);
    free(frame);
    bt_msg_buf_done(&buf);
}

static void odd_protobuf_is_refused(void **state)
{
    (void)state;
#define REF \
    "\x0a\x14\x0a\x10" \
    "0123456789abcdef" \
    "\x18\x01"
    static const struct {
        bt_msg_type type;
        const char *bytes;
        size_t len;
        bt_err want;
    } c[] = {
        {BT_MSG_ABORT, REF, 22, BT_OK},
        {BT_MSG_ABORT, REF "\x78\x05\x7a\x02hi", 28, BT_OK}, /* unknown fields are ignored */
        {BT_MSG_ABORT, "", 0, BT_EFORMAT},                   /* no ref */
        {BT_MSG_ABORT,
         "\x0a\x13\x0a\x0f"
         "0123456789abcde"
         "\x18\x01",
         21, BT_EFORMAT}, /* owner of 15 bytes */
        {BT_MSG_ABORT, REF "\xff", 23, BT_EFORMAT},
        {BT_MSG_ROLE, "", 0, BT_EFORMAT},
        {BT_MSG_ROLE, "\x08\x02", 2, BT_OK},
        {BT_MSG_ABORT, "\x0a\x7f", 2, BT_EFORMAT}, /* says more than there is */
        {BT_MSG_BYE,
         "\x0a\x03"
         "a\0b",
         5, BT_EFORMAT},                               /* a zero byte in a text */
        {BT_MSG_HEARTBEAT, "\x10\x01", 2, BT_EFORMAT}, /* no load */
        {BT_MSG_HEARTBEAT, "\x0a\x00", 2, BT_OK},
        {BT_MSG_REFUSED, REF "\x10\x0a\x18\x01", 26, BT_OK}, /* code -1 */
        {BT_MSG_TOKENS, REF "\x10\x01\x1a\x01\x05", 27, BT_OK},
        {BT_MSG_TOKENS, REF "\x10\x01\x1a\x01\x85", 27, BT_EFORMAT}, /* an id that does not end */
        /* id -1 */
        {BT_MSG_TOKENS, REF "\x10\x01\x1a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 36, BT_EFORMAT},
        /* own -1, no top */
        {BT_MSG_TOKENS, REF "\x10\x01\x1a\x01\x05\x22\x04\0\0\x80\xbf\x2a\x01\0", 36, BT_OK},
        {BT_MSG_TOKENS, REF "\x10\x01\x1a\x01\x05\x22\x04\0\0\x80\xbf", 33, BT_EFORMAT}, /* no top_counts */
        /* one for two ids */
        {BT_MSG_TOKENS, REF "\x10\x01\x1a\x02\x05\x05\x22\x04\0\0\x80\xbf\x2a\x01\0", 37, BT_EFORMAT},
        /* a top that is not there */
        {BT_MSG_TOKENS, REF "\x10\x01\x1a\x01\x05\x22\x04\0\0\x80\xbf\x2a\x01\x01", 36, BT_EFORMAT},
        /* of 21 */
        {BT_MSG_TOKENS, REF "\x10\x01\x1a\x01\x05\x22\x04\0\0\x80\xbf\x2a\x01\x15", 36, BT_EFORMAT},
        {BT_MSG_MISSING, REF "\x12\x02\x18\x01", 26, BT_OK},
        {BT_MSG_MISSING, REF "\x12\x00", 24, BT_EFORMAT}, /* an empty range */
    };
#undef REF
    bt_msg_buf buf = {0};
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        uint8_t frame[256];
        const size_t len =
            wire_samples_frame(frame, BT_PROTOCOL_VERSION, c[i].type, (const uint8_t *)c[i].bytes, c[i].len);
        bt_msg out;
        memset(&out, 0x77, sizeof out);
        bt_fault f = {""};
        const bt_err e = decode(&out, &buf, frame, len, &f);
        if (e != c[i].want) fail_msg("case %zu: %d '%s'", i, e, f.text);
    }
    bt_msg_buf_done(&buf);
}

static void a_text_one_byte_too_long_is_refused(void **state)
{
    (void)state;
    bt_msg_buf buf = {0};
    for (size_t n = 255; n <= 256; n++) {
        uint8_t body[3 + 256] = {0x0a, (uint8_t)(n & 127) | 128, (uint8_t)(n >> 7)}, frame[64 + sizeof body];
        memset(body + 3, 'a', n);
        const size_t len = wire_samples_frame(frame, BT_PROTOCOL_VERSION, BT_MSG_BYE, body, 3 + n);
        bt_msg out;
        memset(&out, 0x77, sizeof out);
        assert_int_equal(decode(&out, &buf, frame, len, NULL), n == 255 ? BT_OK : BT_EFORMAT);
    }
    bt_msg_buf_done(&buf);
}

static void hostile_bodies_take_bounded_memory(void **state)
{
    (void)state;
    const size_t n = BT_MSG_MAX_BODY_BYTES;
    uint8_t *body = malloc(n), *frame = malloc(64 + n);
    assert_true(body && frame);
    bt_msg_buf buf = {0};
    bt_msg out;
    memset(&out, 0x77, sizeof out);
    static const uint8_t pattern[][2] = {{0x10, 0x05},  /* ids, one field each */
                                         {0x7a, 0x00},  /* unknown fields */
                                         {0x0a, 0x00},  /* the same sub-message again and again */
                                         {0x12, 0x00}}; /* empty packed lists */
    for (size_t k = 0; k < 4; k++) {
        for (size_t i = 0; i < n; i++) body[i] = pattern[k][i % 2];
        const size_t len = wire_samples_frame(frame, BT_PROTOCOL_VERSION, BT_MSG_PREFILL, body, n);
        assert_int_equal(decode(&out, &buf, frame, len, NULL), BT_EFORMAT);
    }
    assert_true(buf.cap <= 4 * n + (256u << 10));
    free(body);
    free(frame);
    bt_msg_buf_done(&buf);
}

static void a_steady_stream_reuses_its_memory(void **state)
{
    (void)state;
    bt_msg_buf buf = {0};
    bt_msg m;
    wire_samples_make(&m, BT_MSG_TOKENS);
    round_trip(&m, &buf);
    const void *block = buf.block;
    for (int i = 0; i < 100; i++) round_trip(&m, &buf);
    assert_ptr_equal(buf.block, block);
    bt_msg_buf_done(&buf);
    bt_msg_buf_done(&buf);
}

static void every_type_has_a_name(void **state)
{
    (void)state;
    for (const bt_msg_type *t = wire_samples_types; *t; t++) assert_true(strlen(bt_msg_type_name(*t)) > 2);
    assert_string_equal(bt_msg_type_name(BT_MSG_RESERVE), "RESERVE");
    assert_string_equal(bt_msg_type_name((bt_msg_type)8), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_comes_back_as_it_went),
        cmocka_unit_test(what_may_be_absent_stays_absent),
        cmocka_unit_test(the_key_of_the_link_does_not_travel),
        cmocka_unit_test(a_key_is_32_bytes_and_a_salt_16_or_none),
        cmocka_unit_test(the_longest_lists_come_back),
        cmocka_unit_test(values_out_of_range_neither_leave_nor_enter),
        cmocka_unit_test(texts_without_an_end_and_long_lists_are_not_sent),
        cmocka_unit_test(the_bytes_are_those_of_the_format),
        cmocka_unit_test(a_changed_or_shortened_frame_is_refused),
        cmocka_unit_test(headers_out_of_range_are_refused),
        cmocka_unit_test(bodies_over_the_limit_of_their_type_are_not_parsed),
        cmocka_unit_test(odd_protobuf_is_refused),
        cmocka_unit_test(a_text_one_byte_too_long_is_refused),
        cmocka_unit_test(hostile_bodies_take_bounded_memory),
        cmocka_unit_test(a_steady_stream_reuses_its_memory),
        cmocka_unit_test(every_type_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
