/* Messages and frames for the tests of the wire; the frame is built here from its description, not by the
 * code under test. */
#include "tests/helpers/brain/wire_samples.h"

#include <string.h>
#include <xxhash.h>

const bt_msg_type wire_samples_types[] = {
    BT_MSG_HELLO,       BT_MSG_WELCOME,      BT_MSG_REJECT,       BT_MSG_HEARTBEAT,
    BT_MSG_BYE,         BT_MSG_ROLE,         BT_MSG_ROLE_ANSWER,  BT_MSG_RESERVE,
    BT_MSG_RESERVED,    BT_MSG_REFUSED,      BT_MSG_PREFILL,      BT_MSG_PREFILL_ACCEPTED,
    BT_MSG_FIRST_TOKEN, BT_MSG_PREFILL_DONE, BT_MSG_FAILED,       BT_MSG_ACK,
    BT_MSG_ABORT,       BT_MSG_ABORT_ACK,    BT_MSG_RENEW,        BT_MSG_TOKENS,
    BT_MSG_TOKENS_ACK,  BT_MSG_FINISHED,     BT_MSG_FINISHED_ACK, BT_MSG_COMMIT,
    BT_MSG_COMMITTED,   BT_MSG_MISSING,      BT_MSG_CREDIT,       BT_MSG_TRANSFER_REFUSED,
    BT_MSG_WAITS,       (bt_msg_type)0,
};

static const int32_t sample_ids[] = {0, 1, 127, 128, 49151, INT32_MAX};
static const bt_kv_range sample_ranges[] = {
    {0, 0, 1}, {29, 16, 16}, {255, (1 << 20) - 16, 16}, {7, 0, 1 << 20}};

static void fill_text(char *text, size_t cap) /* as long as it may be, of any byte but 0 */
{
    for (size_t i = 0; i + 1 < cap; i++) text[i] = (char)(1 + i % 255);
}

static void fill_name(char *text, size_t cap)
{
    for (size_t i = 0; i + 1 < cap; i++) text[i] = (char)(0x21 + i % 94);
}

static void fill_load(bt_load *l)
{
    l->slots_total = UINT32_MAX;
    l->slots_used = 1;
    l->queued = 3;
    l->overtakes = UINT64_MAX - 1;
    l->pages_total = UINT64_MAX;
    l->pages_used = 1ull << 63;
    l->pages_cached = 5;
    l->window_pages_total = UINT64_MAX - 2;
    l->window_pages_used = 1ull << 62;
    l->window_pages_cached = 4;
    l->reservations = 6;
    l->leases = 7;
    l->rss_bytes = 1ull << 40;
    l->device_ns = 1ull << 41;
    l->device_ideal_ns = 9;
    l->device_nj = UINT64_MAX;
    l->paced_us = 10;
    l->late_us = 1ull << 42;
}

static const bt_sampling *sample_sampling(void)
{
    static bt_sample_bias bias[BT_SAMPLE_MAX_BIAS];
    static uint8_t program[400] = "BTPD";
    static bt_sampling s = {.temperature = 100.0f,
                            .top_k = UINT32_MAX,
                            .top_p = 1.0f,
                            .min_p = 1e-30f,
                            .seed = UINT64_MAX,
                            .repetition_penalty = 0.01f,
                            .presence_penalty = -2.0f,
                            .frequency_penalty = 2.0f,
                            .logprobs = true,
                            .top_logprobs = BT_SAMPLE_MAX_TOP,
                            .bias = bias,
                            .bias_len = BT_SAMPLE_MAX_BIAS,
                            .program = program,
                            .program_len = sizeof program};
    for (int i = 0; i < BT_SAMPLE_MAX_BIAS; i++)
        bias[i] = (bt_sample_bias){INT32_MAX - BT_SAMPLE_MAX_BIAS + 1 + i, i % 2 ? 100.0f : -0.0f};
    return &s;
}

static void fill_logprob(bt_msg_logprob *l, uint32_t top_len)
{
    l->own = -0.5f;
    l->top_len = top_len;
    for (uint32_t i = 0; i < top_len; i++) {
        l->top_ids[i] = INT32_MAX - (int32_t)i;
        l->top[i] = i + 1 < BT_SAMPLE_MAX_TOP ? -0.25f * (float)i : -3.4e38f;
    }
}

static const bt_msg_device *sample_device(void)
{
    static bt_msg_device d = {
        .pace_milli = UINT64_MAX,
        .first_use_ns = 1,
        .compile_ns = 1ull << 63,
        .has_errors = true,
        .error = {{2, 90, 310, 17, -12}, {0, 0, 0, 0, 0}, {1, 1000000, 1000000, UINT32_MAX, -1000000}},
        .region = {{1, UINT32_MAX}, {0, 0}, {UINT32_MAX, UINT32_MAX}, {1, 8}},
        .devices = UINT32_MAX};
    fill_name(d.profile, sizeof d.profile);
    fill_text(d.stack, sizeof d.stack);
    fill_text(d.companion, sizeof d.companion);
    fill_text(d.link, sizeof d.link);
    fill_text(d.schedule, sizeof d.schedule);
    return &d;
}

static const bt_msg_device_work sample_work = {INT64_MAX,  1,          INT64_MAX, BT_MSG_MAX_DEVICE_ENERGY,
                                               UINT32_MAX, UINT64_MAX, 2};

static void make_hello(bt_msg_hello *h)
{
    h->device = sample_device();
    h->protocol = BT_PROTOCOL_VERSION;
    h->role = BT_ROLE_DECODE;
    fill_name(h->node_id, sizeof h->node_id);
    memset(h->model_id, 0xfe, sizeof h->model_id);
    fill_text(h->model_name, sizeof h->model_name);
    fill_text(h->exactness, sizeof h->exactness);
    fill_text(h->prefill_exactness, sizeof h->prefill_exactness);
    h->kv = (bt_kv_shape){256, 256, 256, BT_KV_F32, 1 << 20, 256};
    h->ctx_tokens = 1 << 20;
    h->kv_capacity_tokens = UINT64_MAX;
    fill_name(h->kv_endpoint, sizeof h->kv_endpoint);
    h->pid = UINT64_MAX;
    h->draining = true;
    h->link_epoch = UINT64_MAX;
    fill_load(&h->load);
}

static void make_prefill(bt_msg_prefill *p)
{
    p->ids = sample_ids;
    p->ids_len = sizeof sample_ids / sizeof sample_ids[0];
    memset(p->decode.bytes, 0xd1, 16);
    fill_name(p->kv_endpoint, sizeof p->kv_endpoint);
    memset(p->ticket.bytes, 0x7e, 16);
    p->sampling = *sample_sampling();
    p->lease_ms = BT_MSG_MAX_LEASE_MS;
    memset(p->decode_key.bytes, 0xdc, sizeof p->decode_key.bytes);
    p->covered_tokens = p->ids_len;
    memset(p->salt.bytes, 0x5a, sizeof p->salt.bytes);
}

static void make_first_token(bt_msg_first_token *t)
{
    static const float logits[BT_MSG_TOP_LOGITS] = {3.4e38f, 1.5f, 1.5f, -0.0f, -3.4e38f};
    t->token = INT32_MAX;
    t->top_len = BT_MSG_TOP_LOGITS;
    memcpy(t->top_ids, sample_ids + 1, sizeof t->top_ids);
    memcpy(t->top_logits, logits, sizeof logits);
    t->queue_us = 1;
    t->prefill_us = UINT64_MAX;
    t->work = (bt_msg_work){1200, UINT64_MAX, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
    t->device = sample_work;
    t->device_prompt =
        (bt_msg_device_prompt){1, UINT64_MAX, 3, 4, 5, 6, 7, BT_MSG_MAX_DEVICE_PARTS, {{"", 0}}, 8, 9};
    for (uint32_t i = 0; i < BT_MSG_MAX_DEVICE_PARTS; i++) {
        fill_name(t->device_prompt.parts[i].op, sizeof t->device_prompt.parts[i].op);
        t->device_prompt.parts[i].ns = UINT64_MAX - i;
    }
    t->chunks.len = BT_MSG_MAX_CHUNKS;
    for (uint32_t i = 0; i < BT_MSG_MAX_CHUNKS; i++) {
        const bool is_last = i + 1 == BT_MSG_MAX_CHUNKS;
        t->chunks.at[i].tokens = is_last ? 1 << 20 : i + 1;
        t->chunks.at[i].begin_us = 10 * i;
        t->chunks.at[i].end_us = is_last ? UINT32_MAX : 10 * i + 30;
        t->chunks.at[i].chunks = is_last ? 1 << 20 : 1;
    }
    t->cached_tokens = (1 << 20) - 1;
    t->has_logprob = true;
    fill_logprob(&t->logprob, BT_SAMPLE_MAX_TOP);
}

static void make_reserve(bt_msg_reserve *r)
{
    r->prompt_tokens = r->ids_len = sizeof sample_ids / sizeof sample_ids[0];
    r->ids = sample_ids;
    r->max_tokens = (1 << 20) - r->prompt_tokens;
    r->generated = sample_ids + 1;
    r->generated_len = r->ids_len - 1;
    memset(r->prefill.bytes, 0x55, 16);
    r->prefill_key.bytes[31] = 1; /* one bit is a key */
    r->prefill_class = UINT64_MAX - 1;
    r->salt.bytes[0] = 1; /* one bit is a salt */
    r->sampling = *sample_sampling();
    r->stop_ids_len = BT_MSG_MAX_STOP_IDS;
    for (int i = 0; i < BT_MSG_MAX_STOP_IDS; i++) r->stop_ids[i] = INT32_MAX - i;
    r->lease_ms = 10000;
}

static void make_tokens(bt_msg_tokens *t)
{
    static bt_msg_logprob logprobs[sizeof sample_ids / sizeof sample_ids[0]];
    t->first_index = (1 << 20) - 6;
    t->ids = sample_ids;
    t->ids_len = 6;
    for (uint32_t i = 0; i < t->ids_len; i++) fill_logprob(&logprobs[i], i * 4);
    t->logprobs = logprobs;
    t->device = sample_work;
}

static void make_request(bt_msg *m)
{
    switch ((int)m->type) {
    case BT_MSG_RESERVE: make_reserve(&m->u.reserve); break;
    case BT_MSG_RESERVED:
        memset(m->u.reserved.ticket.bytes, 0x7e, 16);
        memset(m->u.reserved.prefill.bytes, 0x7d, 16);
        fill_name(m->u.reserved.kv_endpoint, sizeof m->u.reserved.kv_endpoint);
        m->u.reserved.covered_tokens = 1 << 20;
        break;
    case BT_MSG_REFUSED:
        m->u.refused.of = BT_MSG_PREFILL;
        m->u.refused.code = -127;
        m->u.refused.retry_after_ms = UINT32_MAX;
        fill_text(m->u.refused.text, sizeof m->u.refused.text);
        break;
    case BT_MSG_PREFILL: make_prefill(&m->u.prefill); break;
    case BT_MSG_FIRST_TOKEN: make_first_token(&m->u.first_token); break;
    case BT_MSG_PREFILL_DONE:
        m->u.prefill_done = (bt_msg_prefill_done){UINT64_MAX, 2, 3, 1ull << 50, {{0}}};
        memset(m->u.prefill_done.kv_digest.bytes, 0xab, 16);
        break;
    case BT_MSG_FAILED:
    case BT_MSG_TRANSFER_REFUSED:
        m->u.failed.code = BT_ELIMIT;
        fill_text(m->u.failed.text, sizeof m->u.failed.text);
        break;
    case BT_MSG_ACK: m->u.ack.of = BT_MSG_FAILED; break;
    case BT_MSG_RENEW: m->u.renew.lease_ms = BT_MSG_MAX_LEASE_MS; break;
    case BT_MSG_TOKENS: make_tokens(&m->u.tokens); break;
    case BT_MSG_TOKENS_ACK: m->u.tokens_ack.next_index = 1 << 20; break;
    case BT_MSG_FINISHED:
        m->u.finished.reason = BT_FINISH_ERROR;
        m->u.finished.completion_tokens = 1 << 20;
        m->u.finished.wait_us = 1;
        m->u.finished.decode_us = UINT64_MAX;
        m->u.finished.decode_steps = UINT32_MAX;
        break;
    case BT_MSG_COMMIT:
        memset(m->u.commit.ticket.bytes, 0x7e, 16);
        m->u.commit.prompt_tokens = 1 << 20;
        m->u.commit.first_token = 49151;
        m->u.commit.kv_bytes = UINT64_MAX;
        break;
    case BT_MSG_MISSING:
        m->u.missing.ranges = sample_ranges;
        m->u.missing.ranges_len = sizeof sample_ranges / sizeof sample_ranges[0];
        break;
    default: break; /* the others say nothing more */
    }
}

void wire_samples_make(bt_msg *ret, bt_msg_type type)
{
    memset(ret, 0, sizeof *ret);
    ret->type = type;
    memset(ret->from.bytes, 0xf0, 16);
    if (type != BT_MSG_HELLO) ret->to.bytes[15] = 1;
    if (type >= BT_MSG_RESERVE && type != BT_MSG_CREDIT) {
        ret->ref.owner.bytes[0] = 0x99;
        ret->ref.number = UINT64_MAX;
        ret->ref.attempt = UINT32_MAX;
    }
    switch ((int)type) {
    case BT_MSG_HELLO: make_hello(&ret->u.hello); break;
    case BT_MSG_WELCOME:
        ret->u.welcome.protocol = BT_PROTOCOL_VERSION;
        fill_name(ret->u.welcome.node_id, sizeof ret->u.welcome.node_id);
        ret->u.welcome.link_epoch = UINT64_MAX;
        ret->u.welcome.credit_bytes = UINT64_MAX;
        break;
    case BT_MSG_REJECT:
        ret->u.reject.code = BT_EVERSION;
        fill_text(ret->u.reject.text, sizeof ret->u.reject.text);
        break;
    case BT_MSG_HEARTBEAT:
        fill_load(&ret->u.heartbeat.load);
        ret->u.heartbeat.draining = true;
        break;
    case BT_MSG_BYE: fill_text(ret->u.bye.text, sizeof ret->u.bye.text); break;
    case BT_MSG_ROLE: ret->u.role.role = BT_ROLE_DECODE; break;
    case BT_MSG_ROLE_ANSWER:
        ret->u.role_answer.role = BT_ROLE_PREFILL;
        ret->u.role_answer.code = BT_EAUTH;
        fill_text(ret->u.role_answer.text, sizeof ret->u.role_answer.text);
        break;
    case BT_MSG_CREDIT:
        ret->u.credit.link_epoch = UINT64_MAX;
        ret->u.credit.total_bytes = UINT64_MAX;
        break;
    default: make_request(ret); break;
    }
}

void wire_samples_prefill_hello(bt_msg *ret)
{
    static bt_msg_engine e;
    wire_samples_make(ret, BT_MSG_HELLO);
    fill_name(e.name, sizeof e.name);
    fill_text(e.quant, sizeof e.quant);
    fill_text(e.shape_policy, sizeof e.shape_policy);
    fill_text(e.profile, sizeof e.profile);
    e.fallbacks_len = BT_MSG_MAX_FALLBACKS;
    for (uint32_t i = 0; i < e.fallbacks_len; i++) {
        fill_name(e.fallbacks[i].op, sizeof e.fallbacks[i].op);
        fill_text(e.fallbacks[i].why, sizeof e.fallbacks[i].why);
        e.fallbacks[i].count = UINT32_MAX - i;
    }
    ret->u.hello.role = BT_ROLE_PREFILL;
    ret->u.hello.short_tokens = 1 << 20;
    ret->u.hello.short_slots = BT_MSG_MAX_SHORT_SLOTS;
    memset(ret->u.hello.kv_endpoint, 0, sizeof ret->u.hello.kv_endpoint);
    memset(ret->u.hello.prefill_exactness, 0, sizeof ret->u.hello.prefill_exactness);
    ret->u.hello.engine = &e;
}

static void put_le(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> (8 * i));
}

void wire_samples_seal(uint8_t *frame, size_t len)
{
    uint8_t all[64];
    memcpy(all, frame, 56);
    put_le(all + 56, XXH3_64bits(frame + 64, len - 64), 8);
    put_le(frame + 56, XXH3_64bits(all, 64), 8);
}

size_t wire_samples_frame(uint8_t *out, unsigned version, unsigned type, const uint8_t *body, size_t n)
{
    memset(out, 0, 64);
    memcpy(out, "BTN1", 4);
    put_le(out + 4, version, 2);
    put_le(out + 6, type, 2);
    put_le(out + 8, n, 4);
    memset(out + 16, 0x11, 16);
    memset(out + 32, 0x22, 16);
    if (n) memcpy(out + 64, body, n);
    wire_samples_seal(out, 64 + n);
    return 64 + n;
}
